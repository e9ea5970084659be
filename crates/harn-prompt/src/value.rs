//! Helpers for option dicts.

use harn_value::{Data as Value, data::Map};

/// Returns the value under `key` unless it is missing or nil.
pub fn present<'a>(map: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
    map.get(key).filter(|v| !v.is_null())
}

/// Returns the string under `key` unless it is missing, of another type or only whitespace.
pub fn text<'a>(map: &'a Map<String, Value>, key: &str) -> Option<&'a str> {
    map.get(key).and_then(Value::as_str).filter(|s| !s.trim().is_empty())
}

/// Returns whether the value under `key` is `true`.
pub fn flag(map: &Map<String, Value>, key: &str) -> bool {
    map.get(key) == Some(&Value::Bool(true))
}

/// Returns names from any supported shape: a list of names, a dict (keys whose value is neither false nor nil), or a
/// single name. Skips everything else.
pub fn names(value: &Value) -> Vec<String> {
    let keep = |name: &str| !name.trim().is_empty();
    match value {
        Value::String(name) if keep(name) => vec![name.clone()],
        Value::Array(items) => {
            items.iter().filter_map(Value::as_str).filter(|n| keep(n)).map(str::to_owned).collect()
        }
        Value::Object(map) => {
            let set = |v: &Value| !matches!(v, Value::Null | Value::Bool(false));
            map.sorted().filter(|(k, v)| keep(k) && set(v)).map(|(k, _)| k.clone()).collect()
        }
        _ => Vec::new(),
    }
}

/// Creates an object with the entries in the given order.
pub fn object<const N: usize>(entries: [(&str, Value); N]) -> Value {
    Value::Object(entries.into_iter().map(|(k, v)| (k.to_owned(), v)).collect())
}

#[cfg(test)]
mod tests {
    use harn_value::json;

    use super::*;

    #[test]
    fn names_come_from_lists_dicts_and_single_names() {
        assert_eq!(names(&json!(["a", 1, "", "b"])), ["a", "b"]);
        assert_eq!(names(&json!({"z": true, "y": false, "x": null, "w": 0})), ["w", "z"]);
        assert_eq!(names(&json!("one")), ["one"]);
        assert!(names(&json!(3)).is_empty());
    }
}
