//! Type parameters: their bindings in a call, and substitution.

use harn_syntax::ast::Name;

use super::{Field, Ty, canonical};

/// The types that the type parameters of a call are bound to, in order of their first use.
pub(crate) type Bindings = Vec<(Name, Ty)>;

/// A parameter that was bound to two types.
pub(crate) struct Conflict {
    pub(crate) param: Name,
    pub(crate) first: Ty,
    pub(crate) second: Ty,
}

/// Binds the parameters in `pattern` by the type of an argument.
///
/// # Errors
/// The first parameter that is bound to another type already.
pub(crate) fn bind(pattern: &Ty, actual: &Ty, found: &mut Bindings) -> Result<(), Box<Conflict>> {
    match (pattern, actual) {
        (Ty::Var(name), _) => return bind_one(name, actual, found),
        (Ty::Named(a, wanted), Ty::Named(b, given))
            if canonical(a) == canonical(b) && wanted.len() == given.len() =>
        {
            for (wanted, given) in wanted.iter().zip(given) {
                bind(wanted, given, found)?;
            }
        }
        (Ty::Shape(wanted), Ty::Shape(given)) => {
            for field in wanted {
                if let Some(other) = given.iter().find(|other| other.name == field.name) {
                    bind(&field.ty, &other.ty, found)?;
                }
            }
        }
        (Ty::Named(name, args), Ty::Shape(given)) if name == "dict" && args.len() == 2 => {
            bind(&args[0], &Ty::named("string"), found)?;
            bind(&args[1], &Ty::union(given.iter().map(|field| field.ty.clone())), found)?;
        }
        (Ty::Fn(params, ret), Ty::Fn(given, result)) => {
            for (param, given) in params.iter().zip(given) {
                bind(param, given, found)?;
            }
            bind(ret, result, found)?;
        }
        // `T | nil` binds `T` to the type without nil.
        (Ty::Union(wanted), _) => {
            let vars: Vec<&Ty> = wanted.iter().filter(|member| matches!(member, Ty::Var(_))).collect();
            if let [var] = vars.as_slice() {
                let rest = super::without(actual, |member| wanted.contains(member));
                if rest != Ty::Never {
                    bind(var, &rest, found)?;
                }
            }
        }
        _ => {}
    }
    Ok(())
}

fn bind_one(name: &Name, actual: &Ty, found: &mut Bindings) -> Result<(), Box<Conflict>> {
    let Some((_, known)) = found.iter_mut().find(|(other, _)| other == name) else {
        found.push((name.clone(), actual.clone()));
        return Ok(());
    };
    match (has_hole(known), has_hole(actual)) {
        (true, false) => *known = actual.clone(),
        (false, false) if known != actual => {
            return Err(Box::new(Conflict {
                param: name.clone(),
                first: known.clone(),
                second: actual.clone(),
            }));
        }
        _ => {}
    }
    Ok(())
}

/// Returns whether a part of a type is unknown.
fn has_hole(ty: &Ty) -> bool {
    match ty {
        Ty::Any | Ty::OneOf(_) | Ty::Var(_) => true,
        Ty::Named(name, args) => {
            args.iter().any(has_hole)
                || (args.is_empty() && matches!(name.as_str(), "list" | "dict" | "closure"))
        }
        Ty::Union(members) => members.iter().any(has_hole),
        Ty::Shape(fields) => fields.iter().any(|field| has_hole(&field.ty)),
        Ty::Fn(params, ret) => params.iter().any(has_hole) || has_hole(ret),
        _ => false,
    }
}

/// Replaces the parameters of a type; unbound ones become unknown.
pub(crate) fn substitute(ty: &Ty, bound: &Bindings) -> Ty {
    let all = |types: &[Ty]| types.iter().map(|ty| substitute(ty, bound)).collect::<Vec<_>>();
    match ty {
        Ty::Var(name) => bound.iter().find(|(other, _)| other == name).map_or(Ty::Any, |(_, ty)| ty.clone()),
        Ty::Named(name, args) if !args.is_empty() => Ty::Named(name.clone(), all(args)),
        Ty::Union(members) => Ty::union(all(members)),
        Ty::Shape(fields) => Ty::Shape(
            fields.iter().map(|field| Field { ty: substitute(&field.ty, bound), ..field.clone() }).collect(),
        ),
        Ty::Fn(params, ret) => Ty::Fn(all(params), Box::new(substitute(ret, bound))),
        other => other.clone(),
    }
}
