//! Parts of unions: what a condition leaves of a type.

use harn_syntax::ast::Name;

use super::Ty;

/// The members of a type; a type that is no union is its only one.
pub(crate) fn members(ty: &Ty) -> &[Ty] {
    match ty {
        Ty::Union(members) | Ty::OneOf(members) => members,
        other => std::slice::from_ref(other),
    }
}

/// The type without the members that `drop` names; `never` when none is left.
pub(crate) fn without(ty: &Ty, drop: impl Fn(&Ty) -> bool) -> Ty {
    only(ty, |member| !drop(member))
}

/// The members that `keep` names; `never` when there is none.
pub(crate) fn only(ty: &Ty, keep: impl Fn(&Ty) -> bool) -> Ty {
    let mut left: Vec<Ty> = members(ty).iter().filter(|member| keep(member)).cloned().collect();
    match left.len() {
        0 => Ty::Never,
        1 => left.pop().unwrap_or(Ty::Never),
        _ if matches!(ty, Ty::OneOf(_)) => Ty::OneOf(left),
        _ => Ty::Union(left),
    }
}

/// The field that tells the shapes of a union apart: each has it, with a literal of its own.
pub(crate) fn union_tag(ty: &Ty) -> Option<&Name> {
    let Ty::Union(members) = ty else { return None };
    let Ty::Shape(first) = members.first()? else { return None };
    let literal = |member: &Ty, name: &Name| match member {
        Ty::Shape(fields) => fields
            .iter()
            .find(|field| field.name == *name && !field.optional)
            .map(|field| field.ty.clone())
            .filter(|ty| matches!(ty, Ty::Str(_) | Ty::Int(_))),
        _ => None,
    };
    first.iter().map(|field| &field.name).find(|name| {
        let tags: Vec<Option<Ty>> = members.iter().map(|member| literal(member, name)).collect();
        tags.iter().enumerate().all(|(at, tag)| tag.is_some() && !tags[..at].contains(tag))
    })
}
