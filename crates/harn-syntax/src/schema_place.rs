//! Places where the name of a type denotes its schema. The compiler inserts the schema there; the checker uses the
//! same list.

/// Returns the index of the argument of a builtin that may be the name of a type.
pub fn argument(builtin: &str) -> Option<usize> {
    match builtin {
        "schema_of" => Some(0),
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

/// Returns whether the value of this dict key may be the name of a type.
pub fn is_key(key: &str) -> bool {
    matches!(key, "output_schema" | "json_schema" | "schema" | "input_schema" | "parameters" | "returns")
}
