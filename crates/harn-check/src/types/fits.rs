//! Compatibility of types (types guide, "Compatibility").

use harn_syntax::ast::Variance;

use super::resolve::{ANY_STRUCT, BUILTIN};
use super::{Field, Ty, Typing, canonical};

impl Typing<'_> {
    /// Returns whether a value of type `actual` is accepted as `expected`, with the declarations of the file.
    pub(crate) fn fits(&self, expected: &Ty, actual: &Ty) -> bool {
        Fits(Some(self)).fits(expected, actual)
    }
}

/// Returns whether a value of type `actual` is accepted as `expected`; structs and enums are compared by name only.
#[cfg(test)]
pub(crate) fn fits(expected: &Ty, actual: &Ty) -> bool {
    Fits(None).fits(expected, actual)
}

/// Whether the types may be one: where a type is both read and written.
#[derive(Clone, Copy)]
struct Fits<'a>(Option<&'a Typing<'a>>);

impl Fits<'_> {
    fn fits(self, expected: &Ty, actual: &Ty) -> bool {
        match (expected, actual) {
            (Ty::Any | Ty::Unknown | Ty::Var(_), _)
            | (_, Ty::Any | Ty::Never | Ty::Var(_))
            | (Ty::Nil, Ty::Nil) => true,
            // Which member the value has, the program may know.
            (_, Ty::OneOf(members)) => members.iter().any(|member| self.fits(expected, member)),
            (_, Ty::Union(members)) => members.iter().all(|member| self.fits(expected, member)),
            (Ty::Union(members) | Ty::OneOf(members), _) => {
                members.iter().any(|member| self.fits(member, actual))
            }
            (Ty::Interface(name, structs), Ty::Named(actual, _)) => {
                let any = structs.iter().any(|known| known == ANY_STRUCT);
                actual == name || structs.contains(actual) || (any && !BUILTIN.contains(&actual.as_str()))
            }
            (Ty::Interface(a, _), Ty::Interface(b, _)) => a == b,
            (Ty::Str(a), Ty::Str(b)) => a == b,
            (Ty::Int(a), Ty::Int(b)) => a == b,
            (Ty::Str(_), _) => named(actual, "string"),
            (_, Ty::Str(_)) => named(expected, "string"),
            (Ty::Int(_), _) => named(actual, "int"),
            (_, Ty::Int(_)) => named(expected, "int") || named(expected, "float"),
            // A schema is a dict, and whether a dict is a schema shows when it is used.
            (Ty::Named(name, _), Ty::Shape(_)) | (Ty::Shape(_), Ty::Named(name, _)) if name == "Schema" => {
                true
            }
            (Ty::Named(a, _), Ty::Named(b, _)) if is_schema_and_dict(a, b) => true,
            (Ty::Shape(wanted), Ty::Shape(given)) => self.detail(wanted, given).is_empty(),
            (Ty::Shape(wanted), Ty::Named(name, args)) if name != "dict" => {
                let fields = self.0.and_then(|typing| typing.struct_fields(name, args));
                fields.is_some_and(|given| self.detail(wanted, &given).is_empty())
            }
            (Ty::Shape(_), _) => named(actual, "dict"),
            (Ty::Named(name, args), Ty::Shape(fields)) if name == "dict" => match args.as_slice() {
                [key, value] => {
                    self.fits(key, &Ty::named("string")) && fields.iter().all(|f| self.fits(value, &f.ty))
                }
                _ => true,
            },
            (Ty::Fn(params, ret), Ty::Fn(given, result)) => {
                params.len() == given.len()
                    && params.iter().zip(given).all(|(param, given)| self.fits(given, param))
                    && self.fits(ret, result)
            }
            (Ty::Fn(..), _) => named(actual, "closure"),
            (_, Ty::Fn(..)) => named(expected, "closure"),
            (Ty::Named(a, wanted), Ty::Named(b, given)) => self.named(a, wanted, b, given),
            _ => false,
        }
    }

    fn named(self, a: &str, wanted: &[Ty], b: &str, given: &[Ty]) -> bool {
        if a == "float" && b == "int" {
            return true;
        }
        let (a, b) = (canonical(a), canonical(b));
        if a != b {
            return false;
        }
        if wanted.len() != given.len() {
            return true;
        }
        let variances = self.0.map(|typing| typing.variances(a)).unwrap_or_default();
        wanted.iter().zip(given).enumerate().all(|(at, (w, g))| {
            let covariant = matches!(a, "iter" | "Generator" | "Stream" | "Result" | "Pair" | "Schema");
            match variances.get(at).copied().flatten() {
                Some(Variance::In) => self.fits(g, w),
                Some(Variance::Out) => self.fits(w, g),
                None if covariant => self.fits(w, g),
                None => self.fits(w, g) && may_be_one(w, g),
            }
        })
    }

    /// Describes the missing fields of a shape, and those of a wrong type.
    fn detail(self, wanted: &[Field], given: &[Field]) -> Vec<String> {
        let wrong = |field: &Field| match given.iter().find(|other| other.name == field.name) {
            None if field.optional => None,
            None => Some(format!("missing field '{}' ({})", field.name, field.ty)),
            Some(other) if field.optional || self.fits(&field.ty, &other.ty) => None,
            Some(other) => {
                Some(format!("field '{}' has type {}, expected {}", field.name, other.ty, field.ty))
            }
        };
        wanted.iter().filter_map(wrong).collect()
    }
}

/// Whether two types have values in common, as the arguments of a type that is both read and written must.
fn may_be_one(a: &Ty, b: &Ty) -> bool {
    match (a, b) {
        (Ty::Any | Ty::Unknown | Ty::Never | Ty::Var(_), _) | (_, Ty::Any | Ty::Never | Ty::Var(_)) => true,
        (Ty::Union(members) | Ty::OneOf(members), other)
        | (other, Ty::Union(members) | Ty::OneOf(members)) => {
            members.iter().any(|member| may_be_one(member, other))
        }
        (Ty::Shape(a), Ty::Shape(b)) => a.iter().all(|field| {
            b.iter()
                .find(|other| other.name == field.name)
                .is_none_or(|other| may_be_one(&field.ty, &other.ty))
        }),
        (Ty::Named(a, x), Ty::Named(b, y)) => {
            is_schema_and_dict(a, b)
                || canonical(a) == canonical(b)
                    && (x.len() != y.len() || x.iter().zip(y).all(|(x, y)| may_be_one(x, y)))
        }
        _ => true,
    }
}

/// Whether one name is that of schemas and the other that of dicts.
fn is_schema_and_dict(a: &str, b: &str) -> bool {
    matches!((a, b), ("Schema", "dict") | ("dict", "Schema"))
}

/// Whether a type has this name, with or without arguments.
fn named(ty: &Ty, wanted: &str) -> bool {
    matches!(ty, Ty::Named(name, _) if name == wanted)
}

/// Describes the missing fields of a shape, and those of a wrong type.
pub(crate) fn detail(typing: &Typing<'_>, wanted: &[Field], given: &[Field]) -> Vec<String> {
    Fits(Some(typing)).detail(wanted, given)
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
    fn a_union_fits_when_each_member_does() {
        let either = Ty::union([Ty::named("int"), Ty::Nil]);
        assert!(fits(&either, &Ty::Nil) && !fits(&Ty::named("int"), &either));
        let given = Ty::OneOf(vec![Ty::named("int"), Ty::Nil]);
        assert!(fits(&Ty::named("int"), &given) && !fits(&Ty::named("string"), &given));
        assert!(fits(&Ty::list_of(either.clone()), &list("int")));
        assert!(!fits(&list("int"), &Ty::list_of(either.clone())));
        assert!(!fits(&Ty::named("string"), &either) && !fits(&either, &Ty::named("bool")));
    }

    #[test]
    fn unknown_takes_and_does_not_give() {
        assert!(fits(&Ty::Unknown, &Ty::Nil) && !fits(&Ty::named("int"), &Ty::Unknown));
        assert!(fits(&Ty::Any, &Ty::Unknown) && fits(&Ty::Nil, &Ty::Never) && !fits(&Ty::Never, &Ty::Nil));
    }

    #[test]
    fn schemas_are_dicts() {
        let schema = |of: &str| Ty::Named("Schema".into(), vec![Ty::named(of)]);
        let shape = Ty::Shape(vec![Field { name: "type".into(), optional: false, ty: Ty::named("string") }]);
        for dict in [Ty::named("dict"), shape] {
            assert!(fits(&schema("int"), &dict) && fits(&dict, &schema("int")));
        }
        assert!(fits(&list("dict"), &Ty::list_of(schema("int"))));
        assert!(!fits(&schema("int"), &schema("string")) && !fits(&schema("int"), &Ty::named("int")));
    }

    #[test]
    fn shapes_say_what_is_missing() {
        let field = |name: &str, ty: &str, optional| Field { name: name.into(), optional, ty: Ty::named(ty) };
        let wanted = [field("name", "string", false), field("age", "int", false), field("note", "int", true)];
        let given = [field("age", "string", false), field("extra", "int", false)];
        assert_eq!(
            Fits(None).detail(&wanted, &given).join("; "),
            "missing field 'name' (string); field 'age' has type string, expected int"
        );
        assert!(fits(&Ty::Shape(given.to_vec()), &Ty::named("dict")));
        assert!(!fits(&Ty::Shape(given.to_vec()), &Ty::named("int")));
    }
}
