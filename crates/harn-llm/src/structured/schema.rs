//! Descriptions of a schema for hosts and models.

use harn_schema::as_json_schema;
use harn_value::Data as Value;

use crate::json::list_at;

// The maximum number of lines, depth and keys of a described shape.
const MAX_LINES: usize = 8;
const MAX_DEPTH: usize = 3;
const MAX_KEYS: usize = 16;

/// Describes the objects of a schema, one line each, for a model that violated it.
pub(crate) fn shape_lines(schema: &Value) -> Vec<String> {
    let mut out = Vec::new();
    describe(&as_json_schema(schema), "root", 0, &mut out);
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
pub(crate) fn top_level_keys(schema: &Value) -> (Vec<String>, Vec<String>) {
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
    use harn_value::json;

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
