//! Which values may stand where (types guide, "Compatibility").

use super::{Field, Ty, canonical};

/// Whether a value of type `actual` may stand where `expected` is asked for. When in doubt, it may.
pub(crate) fn fits(expected: &Ty, actual: &Ty) -> bool {
    match (expected, actual) {
        (Ty::Any, _) | (_, Ty::Any) | (Ty::Nil, Ty::Nil) => true,
        // Which member the value has is known only when the program runs.
        (_, Ty::Union(members)) => members.iter().any(|member| fits(expected, member)),
        (Ty::Union(members), _) => members.iter().any(|member| fits(member, actual)),
        (Ty::Interface(name, structs), Ty::Named(actual, _)) => actual == name || structs.contains(actual),
        (Ty::Interface(a, _), Ty::Interface(b, _)) => a == b,
        (Ty::Str(a), Ty::Str(b)) => a == b,
        (Ty::Int(a), Ty::Int(b)) => a == b,
        (Ty::Str(_), _) => named(actual, "string"),
        (_, Ty::Str(_)) => named(expected, "string"),
        (Ty::Int(_), _) => named(actual, "int"),
        (_, Ty::Int(_)) => named(expected, "int") || named(expected, "float"),
        (Ty::Shape(wanted), Ty::Shape(given)) => detail(wanted, given).is_empty(),
        (Ty::Shape(_), _) => named(actual, "dict"),
        (Ty::Named(name, args), Ty::Shape(fields)) if name == "dict" => match args.as_slice() {
            [_, value] => fields.iter().all(|field| fits(value, &field.ty)),
            _ => true,
        },
        (Ty::Fn(params, ret), Ty::Fn(given, result)) => {
            params.len() == given.len()
                && params.iter().zip(given).all(|(param, given)| fits(given, param))
                && fits(ret, result)
        }
        (Ty::Fn(..), _) => named(actual, "closure"),
        (_, Ty::Fn(..)) => named(expected, "closure"),
        (Ty::Named(a, wanted), Ty::Named(b, given)) => {
            if a == "float" && b == "int" {
                return true;
            }
            let (a, b) = (canonical(a), canonical(b));
            a == b
                && (wanted.len() != given.len() || {
                    let covariant = matches!(a, "iter" | "Generator" | "Stream" | "Result" | "Pair");
                    wanted.iter().zip(given).all(|(w, g)| fits(w, g) && (covariant || fits(g, w)))
                })
        }
        _ => false,
    }
}

/// Whether a type has this name, with or without arguments.
fn named(ty: &Ty, wanted: &str) -> bool {
    matches!(ty, Ty::Named(name, _) if name == wanted)
}

/// What a shape lacks, or has of a wrong type.
pub(crate) fn detail(wanted: &[Field], given: &[Field]) -> Vec<String> {
    let wrong = |field: &Field| match given.iter().find(|other| other.name == field.name) {
        None if field.optional => None,
        None => Some(format!("missing field '{}' ({})", field.name, field.ty)),
        Some(other) if field.optional || fits(&field.ty, &other.ty) => None,
        Some(other) => Some(format!("field '{}' has type {}, expected {}", field.name, other.ty, field.ty)),
    };
    wanted.iter().filter_map(wrong).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(element: &str) -> Ty {
        Ty::list_of(Ty::named(element))
    }

    #[test]
    fn numbers_flow_one_way() {
        let (int, float) = (Ty::named("int"), Ty::named("float"));
        assert!(fits(&float, &int) && !fits(&int, &float));
        assert!(!fits(&list("float"), &list("int")) && fits(&Ty::named("list"), &list("int")));
        assert!(fits(&float, &Ty::Int(1)) && fits(&Ty::Int(1), &int) && !fits(&Ty::Int(1), &Ty::Int(2)));
    }

    #[test]
    fn a_union_fits_when_a_member_may() {
        let either = Ty::union([Ty::named("int"), Ty::Nil]);
        assert!(fits(&either, &Ty::Nil) && fits(&Ty::named("int"), &either));
        assert!(!fits(&Ty::named("string"), &either) && !fits(&either, &Ty::named("bool")));
    }

    #[test]
    fn shapes_say_what_is_missing() {
        let field = |name: &str, ty: &str, optional| Field { name: name.into(), optional, ty: Ty::named(ty) };
        let wanted = [field("name", "string", false), field("age", "int", false), field("note", "int", true)];
        let given = [field("age", "string", false), field("extra", "int", false)];
        assert_eq!(
            detail(&wanted, &given).join("; "),
            "missing field 'name' (string); field 'age' has type string, expected int"
        );
        assert!(fits(&Ty::Shape(given.to_vec()), &Ty::named("dict")));
        assert!(!fits(&Ty::Shape(given.to_vec()), &Ty::named("int")));
    }
}
