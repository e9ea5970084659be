//! Schemas of types: JSON Schema for tool parameters, and Harn's own schema dicts for type aliases.

use harn_syntax::ast::{Name, TypeExpr, TypeKind};
use harn_value::{Dict, Value};
use rustc_hash::FxHashMap;

type Aliases = FxHashMap<Name, TypeExpr>;

/// How deep an alias may refer to other aliases.
const MAX_DEPTH: usize = 32;

fn dict<const N: usize>(entries: [(&str, Value); N]) -> Value {
    Value::dict(entries.into_iter().collect::<Dict>())
}

/// The JSON Schema of a type.
pub(crate) fn json_schema(ty: &TypeExpr, aliases: &Aliases) -> Value {
    build(ty, aliases, true, 0)
}

/// The schema dict of a type alias.
pub(crate) fn schema_of(ty: &TypeExpr, aliases: &Aliases) -> Value {
    build(ty, aliases, false, 0)
}

fn build(ty: &TypeExpr, aliases: &Aliases, json: bool, depth: usize) -> Value {
    let inner = |ty: &TypeExpr| build(ty, aliases, json, depth + 1);
    let named = |name: &'static str| dict([("type", Value::str(name))]);
    match &ty.kind {
        TypeKind::Named { name, args } => match (name.name.as_str(), &args[..]) {
            ("int", []) => named(if json { "integer" } else { "int" }),
            ("float", []) => named(if json { "number" } else { "float" }),
            ("bool", []) => named(if json { "boolean" } else { "bool" }),
            ("string", []) => named("string"),
            ("nil", []) => named(if json { "null" } else { "nil" }),
            ("list", []) => named(if json { "array" } else { "list" }),
            ("dict", []) => named(if json { "object" } else { "dict" }),
            ("list", [item]) => {
                dict([("type", Value::str(if json { "array" } else { "list" })), ("items", inner(item))])
            }
            ("dict", [_, value]) => dict([
                ("type", Value::str(if json { "object" } else { "dict" })),
                (if json { "additionalProperties" } else { "additional_properties" }, inner(value)),
            ]),
            (other, _) => match aliases.get(other) {
                Some(alias) if depth < MAX_DEPTH => inner(alias),
                _ => named("any"),
            },
        },
        TypeKind::Nil => named(if json { "null" } else { "nil" }),
        TypeKind::Fn { .. } => named("any"),
        TypeKind::Str(text) => {
            dict([("type", Value::str("string")), ("enum", Value::list(vec![Value::str(text)]))])
        }
        TypeKind::Int(i) => dict([
            ("type", Value::str(if json { "integer" } else { "int" })),
            ("enum", Value::list(vec![Value::int(*i)])),
        ]),
        TypeKind::Union(members) => {
            let texts: Option<Vec<Value>> = members
                .iter()
                .map(|m| match &m.kind {
                    TypeKind::Str(text) => Some(Value::str(text)),
                    _ => None,
                })
                .collect();
            match texts {
                Some(texts) => dict([("type", Value::str("string")), ("enum", Value::list(texts))]),
                None => {
                    let options = Value::list(members.iter().map(inner).collect());
                    dict([(if json { "anyOf" } else { "union" }, options)])
                }
            }
        }
        TypeKind::Shape(fields) => {
            let properties: Dict = fields.iter().map(|f| (f.name.name.as_str(), inner(&f.ty))).collect();
            let required: Vec<Value> =
                fields.iter().filter(|f| !f.optional).map(|f| Value::str(&f.name.name)).collect();
            dict([
                ("type", Value::str(if json { "object" } else { "dict" })),
                ("properties", Value::dict(properties)),
                ("required", Value::list(required)),
            ])
        }
    }
}
