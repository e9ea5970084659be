//! How many tokens something will be, where nobody has counted them.

use harn_value::Data as Value;

/// Estimates the tokens of a text.
pub(crate) fn estimate_tokens(text: &str) -> i64 {
    i64::try_from(text.len().div_ceil(4)).unwrap_or(i64::MAX)
}

/// Estimates the tokens of a JSON value: its texts and keys, and one for every other scalar.
pub(crate) fn estimate_json(value: &Value) -> i64 {
    match value {
        Value::String(text) => estimate_tokens(text),
        Value::Array(items) => items.iter().map(estimate_json).sum(),
        Value::Object(map) => map.iter().map(|(key, v)| estimate_tokens(key) + estimate_json(v)).sum(),
        _ => 1,
    }
}
