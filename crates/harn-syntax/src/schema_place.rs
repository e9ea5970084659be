//! Where the name of a type stands for its schema: the compiler puts the schema there, and the checker knows that it does.

/// Which argument of a builtin may be the name of a type.
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

/// Whether the value of a key in a dict may be the name of a type.
pub fn is_key(key: &str) -> bool {
    matches!(key, "output_schema" | "json_schema" | "schema" | "input_schema" | "parameters" | "returns")
}
