//! Schemas as they travel: Harn dicts and OpenAPI objects become JSON Schema.

use serde_json::{Value, json};

use crate::json::{Object, list_at, str_at};

/// Writes a schema (JSON Schema, OpenAPI or a Harn schema dict) as JSON Schema.
pub fn to_json_schema(schema: &Value) -> Value {
    let Some(map) = schema.as_object() else { return schema.clone() };
    let mut out = Object::new();
    let mut nullable = false;
    for (key, value) in map {
        let (key, value) = match key.as_str() {
            "type" => match type_words(value, &mut out) {
                Some(value) => ("type", value),
                None => continue,
            },
            "nullable" => {
                nullable = value == &Value::Bool(true);
                continue;
            }
            "properties" | "definitions" | "$defs" => (key.as_str(), map_values(value)),
            "components" => (key.as_str(), map_of(value, map_values)),
            "additional_properties" | "additionalProperties" => {
                ("additionalProperties", to_json_schema(value))
            }
            "items" => ("items", to_json_schema(value)),
            // The first branch that fits wins, so several may; and strict hosts know no `oneOf`.
            "union" => ("anyOf", each(value)),
            "oneOf" | "anyOf" => (key.as_str(), each(value)),
            "all_of" | "allOf" => ("allOf", each(value)),
            "min_items" => ("minItems", value.clone()),
            "max_items" => ("maxItems", value.clone()),
            "min_length" => ("minLength", value.clone()),
            "max_length" => ("maxLength", value.clone()),
            "min" => ("minimum", value.clone()),
            "max" => ("maximum", value.clone()),
            other => (other, value.clone()),
        };
        out.insert(key.to_string(), value);
    }
    if nullable {
        add_null(&mut out);
    }
    Value::Object(out)
}

fn map_values(value: &Value) -> Value {
    map_of(value, to_json_schema)
}

fn map_of(value: &Value, change: impl Fn(&Value) -> Value) -> Value {
    match value.as_object() {
        Some(map) => Value::Object(map.iter().map(|(k, v)| (k.clone(), change(v))).collect()),
        None => value.clone(),
    }
}

fn each(value: &Value) -> Value {
    match value.as_array() {
        Some(items) => items.iter().map(to_json_schema).collect(),
        None => value.clone(),
    }
}

/// Translates type words; `any` has no counterpart and `set` needs a second keyword.
fn type_words(value: &Value, out: &mut Object) -> Option<Value> {
    let word = |word: &str| match word {
        "dict" => "object",
        "list" | "set" => "array",
        "int" => "integer",
        "float" => "number",
        "bool" => "boolean",
        "nil" => "null",
        other => match other {
            "object" => "object",
            "array" => "array",
            "integer" => "integer",
            "number" => "number",
            "boolean" => "boolean",
            "null" => "null",
            _ => "string",
        },
    };
    match value {
        Value::String(text) if text == "any" => None,
        Value::String(text) => {
            if text == "set" {
                out.insert("uniqueItems".into(), true.into());
            }
            Some(word(text).into())
        }
        Value::Array(items) => {
            Some(items.iter().filter_map(Value::as_str).map(|w| Value::from(word(w))).collect())
        }
        other => Some(other.clone()),
    }
}

fn add_null(out: &mut Object) {
    let with_null = match out.get("type") {
        Some(Value::String(one)) => json!([one, "null"]),
        Some(Value::Array(many)) if !many.iter().any(|t| t == "null") => {
            many.iter().cloned().chain(["null".into()]).collect()
        }
        Some(_) => return,
        None => {
            let whole = std::mem::take(out);
            out.insert("anyOf".into(), json!([whole, {"type": "null"}]));
            return;
        }
    };
    out.insert("type".into(), with_null);
    if let Some(Value::Array(members)) = out.get_mut("enum")
        && !members.contains(&Value::Null)
    {
        members.push(Value::Null);
    }
}

/// Returns whether hosts accept the schema in strict mode: every object forbids other keys and requires
/// all it has.
pub fn is_strict(schema: &Value) -> bool {
    match schema {
        Value::Array(items) => items.iter().all(is_strict),
        Value::Object(map) => {
            let own = match map.get("properties").and_then(Value::as_object) {
                Some(properties) => {
                    let required = list_at(schema, "required");
                    map.get("additionalProperties") == Some(&Value::Bool(false))
                        && properties.keys().all(|k| required.iter().any(|r| r == k.as_str()))
                }
                None => str_at(schema, "type") != Some("object"),
            };
            own && map.iter().all(|(key, v)| match key.as_str() {
                "properties" | "$defs" | "definitions" => {
                    v.as_object().is_none_or(|m| m.values().all(is_strict))
                }
                "enum" | "const" | "default" | "example" | "examples" => true,
                _ => is_strict(v),
            })
        }
        _ => true,
    }
}

// Most lines, depth and keys of a described shape.
const MAX_LINES: usize = 8;
const MAX_DEPTH: usize = 3;
const MAX_KEYS: usize = 16;

/// Describes the objects of a schema, one line each, for a model that got them wrong.
pub fn shape_lines(schema: &Value) -> Vec<String> {
    let mut out = Vec::new();
    describe(&to_json_schema(schema), "root", 0, &mut out);
    out
}

fn keys_text(keys: &[&str]) -> String {
    let shown = keys.iter().take(MAX_KEYS).copied().collect::<Vec<_>>().join(", ");
    match keys.len().checked_sub(MAX_KEYS) {
        Some(more) if more > 0 => format!("{shown} ... (+{more} more)"),
        _ => shown,
    }
}

fn describe(schema: &Value, path: &str, depth: usize, out: &mut Vec<String>) {
    if depth > MAX_DEPTH || out.len() >= MAX_LINES {
        return;
    }
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        let mut keys: Vec<&str> = properties.keys().map(String::as_str).collect();
        keys.sort_unstable();
        let required: Vec<&str> = list_at(schema, "required").iter().filter_map(Value::as_str).collect();
        let mut line = format!("- {path} object allowed keys: {}", keys_text(&keys));
        if !required.is_empty() {
            line.push_str(&format!("; required keys: {}", keys_text(&required)));
        }
        out.push(line);
        for key in keys {
            let inner = if path == "root" { key.to_string() } else { format!("{path}.{key}") };
            describe(&properties[key], &inner, depth + 1, out);
        }
    }
    if let Some(items) = schema.get("items") {
        describe(items, &format!("{path}[]"), depth + 1, out);
    }
}

/// Returns the required and the allowed top-level keys of a schema.
pub fn top_level_keys(schema: &Value) -> (Vec<String>, Vec<String>) {
    let required = list_at(schema, "required").iter().filter_map(Value::as_str).map(str::to_string).collect();
    let mut allowed: Vec<String> = schema
        .get("properties")
        .and_then(Value::as_object)
        .map(|p| p.keys().cloned().collect())
        .unwrap_or_default();
    allowed.sort();
    (required, allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn harn_words_become_json_schema() {
        assert_eq!(
            to_json_schema(&json!({"type": "dict", "properties": {
                "a": {"type": "int", "min": 1, "nullable": true}, "b": {"type": "set", "items": {"type": "any"}},
                "c": {"union": [{"type": "nil"}, {"type": "string"}]}},
                "additional_properties": false})),
            json!({"type": "object", "properties": {
                "a": {"type": ["integer", "null"], "minimum": 1}, "b": {"uniqueItems": true, "type": "array", "items": {}},
                "c": {"anyOf": [{"type": "null"}, {"type": "string"}]}},
                "additionalProperties": false})
        );
    }

    #[test]
    fn strictness_needs_closed_objects_all_the_way_down() {
        let inner = json!({"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]});
        let outer = |inner: &Value| json!({"type": "object", "properties": {"a": inner}, "required": ["a"], "additionalProperties": false});
        assert!(!is_strict(&outer(&inner)));
        let mut closed = inner.clone();
        closed["additionalProperties"] = false.into();
        assert!(is_strict(&outer(&closed)));
        closed["required"] = json!([]);
        assert!(!is_strict(&outer(&closed)));
    }

    #[test]
    fn shapes_are_described_line_by_line() {
        let schema = json!({"type": "dict", "required": ["a"], "properties": {
            "a": {"type": "string"}, "l": {"type": "list", "items": {"type": "dict", "properties": {"x": {"type": "int"}}}}}});
        assert_eq!(
            shape_lines(&schema),
            ["- root object allowed keys: a, l; required keys: a", "- l[] object allowed keys: x"]
        );
    }
}
