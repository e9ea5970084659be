//! `in` and `out` before type parameters: the positions that they allow in a declaration.

use harn_syntax::Span;
use harn_syntax::ast::*;

use super::Typing;

/// The position of a type in a declaration.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Covariant,
    Contravariant,
    Invariant,
}

impl Place {
    const fn word(self) -> &'static str {
        match self {
            Place::Covariant => "a covariant",
            Place::Contravariant => "a contravariant",
            Place::Invariant => "an invariant",
        }
    }

    const fn flipped(self) -> Place {
        match self {
            Place::Covariant => Place::Contravariant,
            Place::Contravariant => Place::Covariant,
            Place::Invariant => Place::Invariant,
        }
    }
}

/// A parameter in a position that its variance does not allow.
pub(crate) struct Misplaced {
    pub(crate) message: String,
    pub(crate) span: Span,
}

/// Returns the first forbidden position of each parameter with a variance.
pub(crate) fn misplaced(typing: &Typing<'_>, kind: &DeclKind) -> Vec<Misplaced> {
    let (what, params, places) = match kind {
        DeclKind::Fn(d) => {
            let params = d.func.params.iter().filter_map(|param| param.ty.as_ref());
            let params = params.map(|ty| (ty, Place::Contravariant));
            let all = params.chain(d.func.ret.iter().map(|ty| (ty, Place::Covariant)));
            ("function", &d.type_params, all.collect::<Vec<_>>())
        }
        DeclKind::Type(d) => ("type alias", &d.type_params, vec![(&d.ty, Place::Covariant)]),
        DeclKind::Enum(d) => {
            let fields = d.variants.iter().flat_map(|variant| &variant.fields);
            let types = fields.filter_map(|field| field.ty.as_ref());
            ("enum", &d.type_params, types.map(|ty| (ty, Place::Covariant)).collect())
        }
        DeclKind::Struct(d) => {
            let types = d.fields.iter().filter_map(|field| field.ty.as_ref());
            ("struct", &d.type_params, types.map(|ty| (ty, Place::Invariant)).collect())
        }
        DeclKind::Interface(d) => {
            let mut all = Vec::new();
            for method in &d.methods {
                let params = method.params.iter().filter_map(|param| param.ty.as_ref());
                all.extend(params.map(|ty| (ty, Place::Contravariant)));
                all.extend(method.ret.iter().map(|ty| (ty, Place::Covariant)));
            }
            ("interface", &d.type_params, all)
        }
        _ => return Vec::new(),
    };
    let mut found = Vec::new();
    for param in params {
        let Some(mark) = param.variance else { continue };
        let (word, allowed) = match mark {
            Variance::Out => ("'out' (covariant)", Place::Covariant),
            Variance::In => ("'in' (contravariant)", Place::Contravariant),
        };
        let search = Search { typing, name: &param.name.name, allowed };
        if let Some((place, span)) = places.iter().find_map(|(ty, place)| search.find(ty, *place)) {
            let (name, owner) = (&param.name.name, &kind.name().name);
            let message = format!(
                "type parameter '{name}' is declared {word} but appears in {} position in {what} '{owner}'",
                place.word()
            );
            found.push(Misplaced { message, span });
        }
    }
    found
}

struct Search<'s> {
    typing: &'s Typing<'s>,
    name: &'s str,
    allowed: Place,
}

impl Search<'_> {
    fn find(&self, ty: &TypeExpr, place: Place) -> Option<(Place, Span)> {
        match &ty.kind {
            TypeKind::Named { name, .. } if name.name == self.name => {
                (place != self.allowed).then_some((place, ty.span))
            }
            TypeKind::Named { name, args } => {
                let marks = self.typing.variances(&name.name);
                args.iter().enumerate().find_map(|(at, arg)| {
                    let inner = match marks.get(at).copied().flatten() {
                        Some(Variance::Out) => place,
                        Some(Variance::In) => place.flipped(),
                        None => match name.name.as_str() {
                            "iter" | "Iter" | "Generator" | "generator" | "Stream" | "stream" | "Result" => {
                                place
                            }
                            _ => Place::Invariant,
                        },
                    };
                    self.find(arg, inner)
                })
            }
            TypeKind::Union(members) => members.iter().find_map(|member| self.find(member, place)),
            TypeKind::Shape(fields) => fields.iter().find_map(|field| self.find(&field.ty, place)),
            TypeKind::Fn { params, ret } => params
                .iter()
                .find_map(|param| self.find(param, place.flipped()))
                .or_else(|| self.find(ret, place)),
            TypeKind::Str(_) | TypeKind::Int(_) | TypeKind::Nil => None,
        }
    }
}
