//! Schemas as types: of an alias, of `schema_of(...)`, of a dict literal.

use harn_syntax::ast::*;
use harn_syntax::schema_place;

use crate::pass::Pass;
use crate::scope::{Kind, Lookup};
use crate::types::{Field, Ty, TypeName, members};

/// Maximum depth of a schema literal.
const MAX_DEPTH: u32 = 16;

impl<'a> Pass<'a> {
    /// `Schema<T>` for the name of an alias where a value is expected.
    pub(super) fn alias_schema(&self, name: &Name) -> Ty {
        match self.alias_named(name) {
            Some(ty) => Ty::Named(Name::new_static("Schema"), vec![ty]),
            None => Ty::Any,
        }
    }

    /// The type that an alias without parameters stands for.
    fn alias_named(&self, name: &Name) -> Option<Ty> {
        match self.typing.name(name) {
            TypeName::Own(DeclKind::Type(alias)) if alias.type_params.is_empty() => {
                Some(self.typing.resolve(&alias.ty))
            }
            TypeName::Imported(DeclKind::Type(alias)) if alias.type_params.is_empty() => {
                Some(self.typing.resolve_in(&alias.ty, &[], self.typing.home(name)?))
            }
            _ => None,
        }
    }

    /// Returns the type of an argument; for a schema parameter, the type that its schema describes.
    pub(crate) fn argument_type(&mut self, wanted: &Ty, arg: &'a Expr) -> Ty {
        match wanted {
            Ty::Named(name, _) if name == "Schema" => match self.schema_type(arg) {
                Some(ty) => Ty::Named(name.clone(), vec![ty]),
                None => self.infer(arg),
            },
            _ => self.infer_as(wanted, arg),
        }
    }

    /// The type of a value where `wanted` is expected: a literal has its own type where literals are expected.
    pub(crate) fn infer_as(&mut self, wanted: &Ty, value: &'a Expr) -> Ty {
        let given = self.infer(value);
        if !takes_literals(wanted) {
            return given;
        }
        match &value.kind {
            ExprKind::Paren(inner) => self.infer_as(wanted, inner),
            ExprKind::Str(text) if has(wanted, |ty| matches!(ty, Ty::Str(_))) => Ty::Str(text.clone()),
            ExprKind::Int(number) if has(wanted, |ty| matches!(ty, Ty::Int(_))) => Ty::Int(*number),
            ExprKind::Ternary { then, other, .. } => {
                let types = [self.infer_as(wanted, then), self.infer_as(wanted, other)];
                Ty::union(types)
            }
            ExprKind::Dict(items) => {
                let (Ty::Shape(mut fields), Some(expected)) = (given.clone(), shape_of(wanted)) else {
                    return given;
                };
                for item in items {
                    let DictItem::Entry { key, value } = item else { continue };
                    let wanted = expected.iter().find(|field| field.name == key.name);
                    let field = fields.iter_mut().find(|field| field.name == key.name);
                    if let (Some(wanted), Some(field)) = (wanted, field) {
                        field.ty = self.infer_as(&wanted.ty, value);
                    }
                }
                Ty::Shape(fields)
            }
            ExprKind::List(items) if !items.is_empty() && items.iter().all(|item| !item.spread) => {
                let item = members(wanted).iter().find_map(|member| match member {
                    Ty::Named(name, args) if name == "list" => args.first(),
                    _ => None,
                });
                let Some(wanted) = item else { return given };
                let types: Vec<Ty> = items.iter().map(|item| self.infer_as(wanted, &item.value)).collect();
                Ty::list_of(Ty::union(types))
            }
            _ => given,
        }
    }

    /// The `T` of an expression that is a `Schema<T>`.
    fn held_schema(&mut self, expr: &'a Expr) -> Option<Ty> {
        match self.infer(expr) {
            Ty::Named(kind, mut args) if kind == "Schema" && args.len() == 1 => {
                args.pop().filter(|ty| *ty != Ty::Any)
            }
            _ => None,
        }
    }

    /// Caches the schema in a variable that is never assigned.
    pub(crate) fn note_schema(&mut self, name: &'a Ident, value: &'a Expr) {
        if let Some(ty) = self.schema_type(value) {
            self.held_schemas.insert(name.span.start, ty);
        }
    }

    /// Returns the type of the values that a schema accepts, if it is known.
    pub(crate) fn schema_type(&mut self, schema: &'a Expr) -> Option<Ty> {
        match &schema.kind {
            ExprKind::Paren(inner) => self.schema_type(inner),
            ExprKind::Name(name) => match self.scopes.look_up(name, schema.span.start) {
                Lookup::Is(Kind::Let | Kind::Other) => self.held_schema(schema).or_else(|| {
                    let held = self.held_schemas.get(&self.scopes.definition(name)?)?;
                    Some(held.clone())
                }),
                _ => self.alias_named(name),
            },
            ExprKind::Call { callee, args, type_args }
                if callee
                    .as_name()
                    .is_some_and(|name| schema_place::written_type(name, type_args, args).is_some()) =>
            {
                self.held_schema(schema)
            }
            ExprKind::Call { callee, args, .. } => match (callee.as_name()?.as_str(), args.as_slice()) {
                ("schema_of", [arg]) => self.schema_type(&arg.value),
                _ => self.held_schema(schema),
            },
            ExprKind::Dict(items) => schema_literal(items, 0).filter(|ty| *ty != Ty::Any),
            _ => None,
        }
    }
}

/// The type of a literal schema dict.
fn schema_literal(items: &[DictItem], depth: u32) -> Option<Ty> {
    if depth > MAX_DEPTH {
        return None;
    }
    let entry = |wanted: &str| {
        items.iter().find_map(|item| match item {
            DictItem::Entry { key, value } if key.name == wanted => Some(value),
            _ => None,
        })
    };
    let text = |expr: &Expr| match &expr.kind {
        ExprKind::Str(text) => Some(text.clone()),
        _ => None,
    };
    let inner = |expr: &Expr| match &expr.kind {
        ExprKind::Dict(items) => schema_literal(items, depth + 1),
        _ => None,
    };
    let list = |expr: &Expr, of: &dyn Fn(&Expr) -> Option<Ty>| match &expr.kind {
        ExprKind::List(members) => members.iter().map(|member| of(&member.value)).collect::<Option<Vec<_>>>(),
        _ => None,
    };
    let ty = if let Some(properties) = entry("properties") {
        let ExprKind::Dict(properties) = &properties.kind else { return None };
        let required: Vec<Name> = match entry("required").map(|required| &required.kind) {
            Some(ExprKind::List(names)) => names.iter().filter_map(|name| text(&name.value)).collect(),
            _ => Vec::new(),
        };
        let mut fields = Vec::new();
        for property in properties {
            let DictItem::Entry { key, value } = property else { return None };
            let optional = !required.contains(&key.name);
            fields.push(Field { name: key.name.clone(), optional, ty: inner(value).unwrap_or(Ty::Any) });
        }
        Ty::Shape(fields)
    } else if let Some(members) = entry("union").or(entry("oneOf")).or(entry("anyOf")) {
        Ty::union(list(members, &|member| inner(member))?)
    } else {
        let kind = entry("type")?;
        match &kind.kind {
            ExprKind::List(_) => Ty::union(list(kind, &|member| text(member).map(|word| named(&word)))?),
            _ => {
                let word = text(kind)?;
                match (named(&word), entry("items"), entry("additional_properties")) {
                    (Ty::Named(name, _), Some(items), _) if name == "list" => {
                        Ty::list_of(inner(items).unwrap_or(Ty::Any))
                    }
                    (Ty::Named(name, _), _, Some(values)) if name == "dict" => match inner(values) {
                        Some(value) => Ty::Named(name, vec![Ty::named("string"), value]),
                        None => Ty::named("dict"),
                    },
                    (ty, ..) => ty,
                }
            }
        }
    };
    match entry("nullable").map(|nullable| &nullable.kind) {
        Some(ExprKind::Bool(true)) => Some(Ty::union([ty, Ty::Nil])),
        _ => Some(ty),
    }
}

/// Returns the type with a name, of Harn or of JSON Schema.
fn named(word: &str) -> Ty {
    match word {
        "nil" | "null" => Ty::Nil,
        "object" => Ty::named("dict"),
        "array" => Ty::named("list"),
        "integer" => Ty::named("int"),
        "number" => Ty::named("float"),
        "boolean" => Ty::named("bool"),
        "int" | "float" | "string" | "bool" | "list" | "dict" | "set" | "bytes" | "closure" => {
            Ty::named(word)
        }
        _ => Ty::Any,
    }
}

impl<'a> Pass<'a> {
    /// Returns whether a value that does not fit would fit if its literals were any texts or ints.
    pub(crate) fn differs_by_literal(&mut self, wanted: &Ty, value: &'a Expr) -> bool {
        let plain = self.infer(value);
        takes_literals(wanted) && self.typing.fits(wanted, &plain)
    }
}

fn has(ty: &Ty, is: impl Fn(&Ty) -> bool) -> bool {
    members(ty).iter().any(is)
}

/// Whether a type names literals, itself or in its parts.
fn takes_literals(ty: &Ty) -> bool {
    has(ty, |member| match member {
        Ty::Str(_) | Ty::Int(_) => true,
        Ty::Shape(fields) => fields.iter().any(|field| takes_literals(&field.ty)),
        Ty::Named(name, args) if name == "list" => args.iter().any(takes_literals),
        _ => false,
    })
}

/// The fields of the only shape of a type.
fn shape_of(ty: &Ty) -> Option<&[Field]> {
    let mut shapes = members(ty).iter().filter_map(|member| match member {
        Ty::Shape(fields) => Some(fields.as_slice()),
        _ => None,
    });
    shapes.next().filter(|_| shapes.next().is_none())
}
