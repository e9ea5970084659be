//! Checking data against a schema, with error lines of the form `at <path>: <text>`.

use jsonschema::error::{TypeKind, ValidationErrorKind};
use serde_json::Value;

use super::schema::to_json_schema;
use crate::json::{display, type_name};

/// Returns the errors of `data`; empty when it fits. A schema that makes no sense is an error itself.
pub fn errors(schema: &Value, data: &Value) -> Vec<String> {
    let schema = to_json_schema(schema);
    let validator = match jsonschema::validator_for(&schema) {
        Ok(validator) => validator,
        Err(e) => return vec![format!("at root: invalid schema: {e}")],
    };
    let mut found: Vec<(u8, String)> = Vec::new();
    for error in validator.iter_errors(data) {
        let path = path_text(&error.instance_path().to_string(), data);
        let (rank, text) = describe(error.kind(), error.instance(), &error.to_string());
        for text in text {
            found.push((rank, format!("at {path}: {text}")));
        }
    }
    // Missing keys are what a model must hear first.
    found.sort_by_key(|(rank, _)| *rank);
    found.into_iter().map(|(_, text)| text).collect()
}

/// Turns a JSON pointer into `a.b[0]`, or `root`.
fn path_text(pointer: &str, data: &Value) -> String {
    let mut out = String::new();
    let mut here = Some(data);
    for part in pointer.split('/').skip(1) {
        let key = part.replace("~1", "/").replace("~0", "~");
        match here {
            Some(Value::Array(items)) => {
                out.push_str(&format!("[{key}]"));
                here = key.parse::<usize>().ok().and_then(|n| items.get(n));
            }
            other => {
                if !out.is_empty() {
                    out.push('.');
                }
                out.push_str(&key);
                here = other.and_then(|v| v.get(&key));
            }
        }
    }
    if out.is_empty() { "root".to_string() } else { out }
}

fn list_text(options: &Value) -> String {
    let items: Vec<String> = options.as_array().map(|o| o.iter().map(display).collect()).unwrap_or_default();
    items.join(", ")
}

fn harn_word(json_type: &str) -> &str {
    match json_type {
        "object" => "dict",
        "array" => "list",
        "integer" => "int",
        "number" => "float",
        "boolean" => "bool",
        "null" => "nil",
        other => other,
    }
}

fn describe(kind: &ValidationErrorKind, instance: &Value, otherwise: &str) -> (u8, Vec<String>) {
    let one = |text: String| (1, vec![text]);
    let length = || instance.as_str().map_or(0, |s| s.chars().count());
    let items = || instance.as_array().map_or(0, Vec::len);
    match kind {
        ValidationErrorKind::Required { property } => {
            (0, vec![format!("missing required key '{}'", display(property))])
        }
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            let mut keys: Vec<&String> = unexpected.iter().collect();
            keys.sort();
            (2, keys.into_iter().map(|k| format!("unexpected key '{k}'")).collect())
        }
        ValidationErrorKind::Type { kind } => {
            let wanted = match kind {
                TypeKind::Single(one) => harn_word(&one.to_string()).to_string(),
                TypeKind::Multiple(_) => return one("value did not match any union branch".to_string()),
            };
            one(format!("expected type '{wanted}', got '{}'", type_name(instance)))
        }
        ValidationErrorKind::Constant { expected_value } => {
            one(format!("expected constant {}, got {}", display(expected_value), display(instance)))
        }
        ValidationErrorKind::Enum { options } => {
            one(format!("value must be one of [{}]", list_text(options)))
        }
        ValidationErrorKind::AnyOf { .. }
        | ValidationErrorKind::OneOfNotValid { .. }
        | ValidationErrorKind::OneOfMultipleValid { .. } => {
            one("value did not match any union branch".to_string())
        }
        ValidationErrorKind::Minimum { limit } => one(format!("expected value >= {limit}, got {instance}")),
        ValidationErrorKind::Maximum { limit } => one(format!("expected value <= {limit}, got {instance}")),
        ValidationErrorKind::MinLength { limit } => {
            one(format!("expected length >= {limit}, got {}", length()))
        }
        ValidationErrorKind::MaxLength { limit } => {
            one(format!("expected length <= {limit}, got {}", length()))
        }
        ValidationErrorKind::MinItems { limit } => {
            one(format!("expected at least {limit} items, got {}", items()))
        }
        ValidationErrorKind::MaxItems { limit } => {
            one(format!("expected at most {limit} items, got {}", items()))
        }
        ValidationErrorKind::Pattern { pattern } => one(format!("value does not match pattern '{pattern}'")),
        _ => one(otherwise.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn errors_name_place_and_cause() {
        let schema = json!({"type": "dict", "required": ["a", "b"], "additional_properties": false, "properties": {
            "a": {"type": "int", "min": 3}, "b": {"type": "string"},
            "l": {"type": "list", "items": {"type": "dict", "properties": {"x": {"enum": ["p", "q"]}}}}}});
        assert_eq!(
            errors(&schema, &json!({"a": 1, "l": [{}, {"x": "r"}], "z": 0})),
            [
                "at root: missing required key 'b'",
                "at a: expected value >= 3, got 1",
                "at l[1].x: value must be one of [p, q]",
                "at root: unexpected key 'z'",
            ]
        );
        assert_eq!(errors(&schema, &json!([])), ["at root: expected type 'dict', got 'list'"]);
        assert!(errors(&schema, &json!({"a": 3, "b": ""})).is_empty());
    }

    #[test]
    fn a_nonsensical_schema_is_an_error_not_a_panic() {
        assert!(errors(&json!({"type": 3}), &json!(1))[0].starts_with("at root: invalid schema"));
    }
}
