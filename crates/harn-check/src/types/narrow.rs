//! Narrowing of unions by conditions.

use harn_syntax::ast::Name;

use super::Ty;

/// Returns the members of a type; a type that is not a union is its only member.
pub(crate) fn members(ty: &Ty) -> &[Ty] {
    match ty {
        Ty::Union(members) | Ty::OneOf(members) => members,
        other => std::slice::from_ref(other),
    }
}

/// Returns the type without the members that `drop` accepts; `never` if none is left.
pub(crate) fn without(ty: &Ty, drop: impl Fn(&Ty) -> bool) -> Ty {
    only(ty, |member| !drop(member))
}

/// Returns the union of the members that `keep` accepts; `never` if there are none.
pub(crate) fn only(ty: &Ty, keep: impl Fn(&Ty) -> bool) -> Ty {
    let mut left: Vec<Ty> = members(ty).iter().filter(|member| keep(member)).cloned().collect();
    match left.len() {
        0 => Ty::Never,
        1 => left.pop().unwrap_or(Ty::Never),
        _ if matches!(ty, Ty::OneOf(_)) => Ty::OneOf(left),
        _ => Ty::Union(left),
    }
}

/// Returns the discriminant of a union of shapes: a field that each of them has, with a different literal.
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
