//! The types of method calls.

use harn_syntax::ast::*;

use super::{present, result, soft};
use crate::pass::Pass;
use crate::types::{Ty, Typing, from_table};

impl<'a> Pass<'a> {
    pub(super) fn method_type(&mut self, object: &'a Expr, name: &str, args: &'a [Arg]) -> Ty {
        if let Some(decl) = self.enum_named(object) {
            return self.variant_type(decl, name, args);
        }
        if let ExprKind::Name(space) = &object.kind
            && let Some(ty) = self.namespaced_type(space, name, args)
        {
            return ty;
        }
        let ty = self.infer(object);
        if let Ty::Named(kind, items) = &ty {
            let given: Vec<Ty> = args.iter().map(|arg| self.infer(&arg.value)).collect();
            if let Some(ty) = self.grown(kind, items, name, &given) {
                return ty;
            }
            if let Some(ty) = of_container(kind, items, name, &given) {
                return ty;
            }
            if let Some(method) = self.impl_method(kind, name) {
                let Some(ret) = method.func.ret.as_ref().filter(|_| !method.func.has_yield) else {
                    return Ty::Any;
                };
                // The type arguments of the struct are unknown in its `impl`.
                return self.typing.resolve_with(ret, &Typing::env(&method.type_params, &[]));
            }
        }
        match ty.word() {
            // An entry of a dict may be called like a method.
            Some("dict") | None => Ty::Any,
            Some(word) => result(self.world.signatures.method(word, name).map(|signature| signature.returns)),
        }
    }

    /// The type of a list or set to which an item is added: it has items of both types.
    fn grown(&self, kind: &str, items: &[Ty], name: &str, args: &[Ty]) -> Option<Ty> {
        let ([item], [added]) = (items, args) else { return None };
        if !matches!((kind, name), ("list", "push" | "append") | ("set", "add")) {
            return None;
        }
        if matches!(added, Ty::Any | Ty::Unknown) {
            return Some(Ty::named(kind));
        }
        Some(Ty::Named(Name::new(kind), vec![self.joined(item, added)]))
    }

    /// The method of a struct of this file.
    pub(crate) fn impl_method(&self, owner: &str, name: &str) -> Option<&'a FnDecl> {
        let methods: &'a [&'a FnDecl] = self.typing.declared.methods(owner);
        methods.iter().copied().find(|method| method.name.name == name)
    }

    /// `Result.Ok(e)`, and builtins with a dot in their name.
    fn namespaced_type(&mut self, space: &str, name: &str, args: &'a [Arg]) -> Option<Ty> {
        let is_free = matches!(self.scopes.look_up(space, 0), crate::scope::Lookup::Missing);
        if !is_free {
            return None;
        }
        if let ("Result", [arg]) = (space, args) {
            let ty = self.infer(&arg.value);
            return match name {
                "Ok" => Some(Ty::Named(Name::new_static("Result"), vec![ty, Ty::Any])),
                "Err" => Some(Ty::Named(Name::new_static("Result"), vec![Ty::Any, ty])),
                _ => None,
            };
        }
        let full = format!("{space}.{name}");
        Some(from_table(self.world.signatures.builtin(&full)?.returns))
    }
}

/// The result of a method of a container that passes the types of its items on.
fn of_container(kind: &str, items: &[Ty], name: &str, args: &[Ty]) -> Option<Ty> {
    let iter_of = |ty: Ty| Ty::Named(Name::new_static("iter"), vec![ty]);
    let pair_of = |a: Ty, b: Ty| Ty::Named(Name::new_static("Pair"), vec![a, b]);
    let maybe = |ty: &Ty| Ty::union([Ty::OneOf(vec![Ty::Nil]), ty.clone()]);
    let same = || Some(Ty::Named(Name::new(kind), items.to_vec()));
    match (kind, items) {
        ("list", [item]) => match name {
            "compact" => Some(Ty::list_of(present(item))),
            // The function may test for nil.
            "filter" | "take_while" | "skip_while" => Some(Ty::list_of(soft(item))),
            "sort" | "sort_by" | "reverse" | "unique" | "take" | "skip" | "drop" | "slice" | "pop" => same(),
            "first" | "last" if args.is_empty() => Some(maybe(item)),
            "first" | "last" => same(),
            "find" | "min_by" | "max_by" => Some(maybe(item)),
            "min" | "max" if args.is_empty() => Some(maybe(item)),
            "window" | "each_cons" | "sliding_window" | "chunks" | "chunk" => {
                Some(Ty::list_of(Ty::list_of(item.clone())))
            }
            "map" => match args {
                [Ty::Fn(_, ret)] => Some(Ty::list_of((**ret).clone())),
                _ => Some(Ty::named("list")),
            },
            "iter" => Some(iter_of(item.clone())),
            _ => None,
        },
        ("dict", [key, value]) => match name {
            "filter" | "rekey" | "map_keys" => same(),
            "merge" if args.first() == Some(&Ty::Named(Name::new(kind), items.to_vec())) => same(),
            "merge" | "map_values" => Some(Ty::named("dict")),
            "entries" => Some(Ty::named("list")),
            "count" => Some(Ty::named("int")),
            "has" | "empty" => Some(Ty::named("bool")),
            "keys" => Some(Ty::list_of(key.clone())),
            "values" => Some(Ty::list_of(value.clone())),
            "get" if args.len() == 1 => Some(maybe(value)),
            "iter" => Some(iter_of(pair_of(key.clone(), value.clone()))),
            _ => None,
        },
        ("iter", []) => match name {
            "map" | "flat_map" | "filter" | "take" | "skip" | "take_while" | "skip_while" | "chain"
            | "zip" | "enumerate" | "chunks" | "windows" => Some(Ty::named("iter")),
            _ => None,
        },
        ("iter", [item]) => match name {
            "filter" | "take_while" | "skip_while" => Some(iter_of(soft(item))),
            "take" | "skip" | "chain" => same(),
            "map" | "flat_map" => Some(Ty::named("iter")),
            "zip" => Some(iter_of(pair_of(item.clone(), Ty::Any))),
            "enumerate" => Some(iter_of(pair_of(Ty::named("int"), item.clone()))),
            "chunks" | "windows" => Some(iter_of(Ty::list_of(item.clone()))),
            "to_list" => Some(Ty::list_of(item.clone())),
            "to_set" => Some(Ty::Named(Name::new_static("set"), vec![item.clone()])),
            "to_dict" => Some(Ty::named("dict")),
            "count" => Some(Ty::named("int")),
            "sum" => Some(Ty::OneOf(vec![Ty::named("int"), Ty::named("float")])),
            "min" | "max" | "first" | "last" | "find" => Some(maybe(&present(item))),
            "any" | "all" => Some(Ty::named("bool")),
            "for_each" => Some(Ty::Nil),
            _ => None,
        },
        _ => None,
    }
}
