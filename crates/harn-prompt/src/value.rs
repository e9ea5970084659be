//! Harn values that travel as JSON: their type names, their printed form, and the values JSON cannot hold.
//!
//! Callers translate their values to [`serde_json::Value`]. A struct instance becomes the object of its fields. A value
//! that JSON has no word for (a set, a range, a closure, a float that is not finite) becomes a [`foreign`] value: an
//! object with one reserved key that carries the type name and the printed form, so that error texts and the display
//! form stay the language's own.

use std::fmt::Write as _;

use serde_json::{Map, Value};

/// The reserved key of a foreign value. No Harn source writes it by accident: it starts with a NUL.
const FOREIGN_KEY: &str = "\u{0}harn";

/// A value that JSON cannot hold, as [`as_foreign`] finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Foreign<'a> {
    /// The language's type name, such as `set` or `closure`.
    pub type_name: &'a str,
    /// The printed form, such as `set(1, 2)`.
    pub display: &'a str,
}

/// Wraps a value that JSON cannot hold: its type name and its printed form.
#[must_use]
pub fn foreign(type_name: &str, display: &str) -> Value {
    let mut map = Map::new();
    map.insert(FOREIGN_KEY.to_owned(), Value::from(vec![type_name, display]));
    Value::Object(map)
}

/// Recognises what [`foreign`] made.
#[must_use]
pub fn as_foreign(value: &Value) -> Option<Foreign<'_>> {
    let map = value.as_object().filter(|map| map.len() == 1)?;
    match map.get(FOREIGN_KEY)?.as_array()?.as_slice() {
        [Value::String(type_name), Value::String(display)] => Some(Foreign { type_name, display }),
        _ => None,
    }
}

/// Returns the fields of a dict or struct instance; a foreign value has none.
#[must_use]
pub fn as_dict(value: &Value) -> Option<&Map<String, Value>> {
    if as_foreign(value).is_some() {
        return None;
    }
    value.as_object()
}

/// Returns the language's name for the type of `value`.
#[must_use]
pub fn type_name(value: &Value) -> &str {
    match value {
        Value::Null => "nil",
        Value::Bool(_) => "bool",
        Value::Number(n) if n.is_f64() => "float",
        Value::Number(_) => "int",
        Value::String(_) => "string",
        Value::Array(_) => "list",
        Value::Object(_) => as_foreign(value).map_or("dict", |f| f.type_name),
    }
}

/// Returns the printed form of `value`: what `to_string` gives in the language.
#[must_use]
pub fn display(value: &Value) -> String {
    let mut out = String::new();
    write_display(&mut out, value);
    out
}

fn write_display(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("nil"),
        Value::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
        Value::Number(n) => match n.as_f64().filter(|_| n.is_f64()) {
            Some(float) => write_float(out, float),
            None => {
                let _ = write!(out, "{n}");
            }
        },
        Value::String(s) => out.push_str(s),
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push_str(", ");
                }
                write_display(out, item);
            }
            out.push(']');
        }
        Value::Object(map) => {
            if let Some(f) = as_foreign(value) {
                out.push_str(f.display);
                return;
            }
            out.push('{');
            for (i, (key, item)) in sorted(map).into_iter().enumerate() {
                if i > 0 {
                    out.push_str(", ");
                }
                out.push_str(key);
                out.push_str(": ");
                write_display(out, item);
            }
            out.push('}');
        }
    }
}

/// Writes a float as the language prints it: whole ones below 1e15 with one decimal, never an exponent.
fn write_float(out: &mut String, float: f64) {
    if float.fract() == 0.0 && float.abs() < 1e15 {
        let _ = write!(out, "{float:.1}");
    } else {
        let _ = write!(out, "{float}");
    }
}

/// Returns the entries of a dict in byte order of their keys, the order in which the language iterates.
pub fn sorted(map: &Map<String, Value>) -> Vec<(&String, &Value)> {
    let mut entries: Vec<_> = map.iter().collect();
    entries.sort_by(|a, b| a.0.cmp(b.0));
    entries
}

/// Returns the value under `key` unless it is missing or nil.
pub fn present<'a>(map: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
    map.get(key).filter(|v| !v.is_null())
}

/// Returns the string under `key` unless it is missing, of another type or blank.
pub fn text<'a>(map: &'a Map<String, Value>, key: &str) -> Option<&'a str> {
    map.get(key).and_then(Value::as_str).filter(|s| !s.trim().is_empty())
}

/// Tells whether `key` holds exactly `true`.
pub fn flag(map: &Map<String, Value>, key: &str) -> bool {
    map.get(key) == Some(&Value::Bool(true))
}

/// Reads names from any of the shapes in which they may be given: a list of names, a dict (keys whose value is neither
/// false nor nil), or a single name. Whatever is no name is left out.
pub fn names(value: &Value) -> Vec<String> {
    let keep = |name: &str| !name.trim().is_empty();
    match value {
        Value::String(name) if keep(name) => vec![name.clone()],
        Value::Array(items) => {
            items.iter().filter_map(Value::as_str).filter(|n| keep(n)).map(str::to_owned).collect()
        }
        Value::Object(_) => as_dict(value)
            .map(|map| {
                let set = |v: &Value| !matches!(v, Value::Null | Value::Bool(false));
                sorted(map).into_iter().filter(|(k, v)| keep(k) && set(v)).map(|(k, _)| k.clone()).collect()
            })
            .unwrap_or_default(),
        _ => Vec::new(),
    }
}

/// Builds an object in the order given.
pub fn object<const N: usize>(entries: [(&str, Value); N]) -> Value {
    Value::Object(entries.into_iter().map(|(k, v)| (k.to_owned(), v)).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn printed_form_is_the_languages_own() {
        let value = json!({"b": [1, 2.0, "a", null], "a": true, "c": {"x": 1e300}, "d": 0.1});
        let long = format!("{}", 1e300);
        assert_eq!(display(&value), format!("{{a: true, b: [1, 2.0, a, nil], c: {{x: {long}}}, d: 0.1}}"));
        assert_eq!(display(&json!(1e15)), "1000000000000000");
        assert_eq!(display(&json!(-0.0)), "-0.0");
    }

    #[test]
    fn foreign_values_keep_type_and_printed_form() {
        let set = foreign("set", "set(1, 2)");
        assert_eq!(type_name(&set), "set");
        assert_eq!(display(&json!([set.clone()])), "[set(1, 2)]");
        assert!(as_dict(&set).is_none());
        assert!(as_foreign(&json!({"a": 1})).is_none());
    }

    #[test]
    fn names_come_from_lists_dicts_and_single_names() {
        assert_eq!(names(&json!(["a", 1, "", "b"])), ["a", "b"]);
        assert_eq!(names(&json!({"z": true, "y": false, "x": null, "w": 0})), ["w", "z"]);
        assert_eq!(names(&json!("one")), ["one"]);
        assert!(names(&json!(3)).is_empty());
    }
}
