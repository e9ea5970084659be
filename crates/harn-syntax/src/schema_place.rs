//! Places where the name of a type denotes its schema. The compiler inserts the schema there; the checker uses the
//! same list.

use crate::ast::{Arg, TypeExpr, TypeKind};

/// Returns the index of the argument of a builtin that may be the name of a type.
pub fn argument(builtin: &str) -> Option<usize> {
    match builtin {
        SCHEMA_OF => Some(0),
        "schema_is"
        | "schema_expect"
        | "schema_parse"
        | "schema_check"
        | "is_type"
        | "json_validate"
        | "llm_call_structured"
        | "llm_call_structured_safe"
        | "llm_call_structured_result" => Some(1),
        _ => None,
    }
}

/// The builtin that takes a type expression, `schema_of(list<Item>)`.
pub(crate) const SCHEMA_OF: &str = "schema_of";

/// The type of a call `schema_of(list<Item>)`, which the parser stores as the only type argument of a call without arguments.
pub fn written_type<'a>(callee: &str, type_args: &'a [TypeExpr], args: &[Arg]) -> Option<&'a TypeExpr> {
    match (type_args, args) {
        ([ty], []) if callee == SCHEMA_OF => Some(ty),
        _ => None,
    }
}

/// Returns whether the parser reads a type in parentheses as a type, and not as an expression.
pub fn is_clearly_a_type(ty: &TypeExpr) -> bool {
    let starts = |ty: &TypeExpr| {
        matches!(ty.kind, TypeKind::Named { .. } | TypeKind::Nil | TypeKind::Str(_) | TypeKind::Int(_))
    };
    match &ty.kind {
        TypeKind::Named { args, .. } => !args.is_empty(),
        TypeKind::Union(members) => members.first().is_some_and(starts),
        _ => false,
    }
}

/// Returns whether the value of this dict key may be the name of a type.
pub fn is_key(key: &str) -> bool {
    matches!(key, "output_schema" | "json_schema" | "schema" | "input_schema" | "parameters" | "returns")
}
