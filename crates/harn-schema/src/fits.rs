//! Validation of JSON. JSON Schema with its full vocabulary decides validity (there 1 is a number); errors have the
//! messages and the order of [`check()`](crate::check()) wherever that supports the keyword.

use harn_value::Data as Value;
use harn_value::json::from_data;
use jsonschema::error::{TypeKind, ValidationErrorKind};
use serde_json::Value as Tree;

use crate::complaint::Complaint;
use crate::json::as_json_schema;
use crate::{check, words};

/// Converts whole numbers such as 1.0 to ints where the schema requires an int, because JSON has only one kind of
/// number and functions with an int parameter expect an int. Returns whether any number was converted. Numbers that
/// do not fit 64 bits remain floats, and [`errors`] reports them.
pub fn with_ints(schema: &Value, data: &mut Value) -> bool {
    let schema = as_json_schema(schema);
    let mut changed = false;
    at_ints(&schema, &schema, data, "", 0, &mut |_, number| {
        if let Some(int) = number.as_f64().filter(|float| is_whole_int(*float)) {
            *number = Value::from(int as i64);
            changed = true;
        }
    });
    changed
}

/// Returns whether a float is an int that fits 64 bits.
fn is_whole_int(float: f64) -> bool {
    float.fract() == 0.0 && (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&float)
}

/// Maximum depth of followed references and subschemas.
const MAX_STEPS: usize = 256;

/// Calls `found` with the path and the value of each non-int number where the schema accepts ints but no other
/// numbers.
fn at_ints(
    root: &Value,
    schema: &Value,
    data: &mut Value,
    path: &str,
    steps: usize,
    found: &mut dyn FnMut(&str, &mut Value),
) {
    let Some(map) = schema.as_object().filter(|_| steps < MAX_STEPS) else { return };
    if let Some(reference) = map.get("$ref").and_then(Value::as_str) {
        if let Some(target) = reference.strip_prefix('#').and_then(|pointer| root.pointer(pointer)) {
            at_ints(root, target, data, path, steps + 1, found);
        }
        return;
    }
    if data.is_number() {
        if data.as_i64().is_none() && wants(root, schema, "integer", 0) && !wants(root, schema, "number", 0) {
            found(path, data);
        }
        return;
    }
    let branches = ["anyOf", "oneOf", "allOf"].into_iter().filter_map(|key| map.get(key)?.as_array());
    for branch in branches.flatten() {
        at_ints(root, branch, data, path, steps + 1, found);
    }
    match data {
        Value::Array(items) => {
            let Some(schema) = map.get("items") else { return };
            for (at, item) in items.iter_mut().enumerate() {
                at_ints(root, schema, item, &format!("{path}[{at}]"), steps + 1, found);
            }
        }
        Value::Object(fields) => {
            for (name, value) in fields.iter_mut() {
                let own = map.get("properties").and_then(|properties| properties.get(name));
                let Some(schema) = own.or_else(|| map.get("additionalProperties")) else { continue };
                let dot = if path.is_empty() { "" } else { "." };
                at_ints(root, schema, value, &format!("{path}{dot}{name}"), steps + 1, found);
            }
        }
        _ => {}
    }
}

/// Returns whether a schema accepts values of a type, based on its types and branches.
fn wants(root: &Value, schema: &Value, word: &str, steps: usize) -> bool {
    let Some(map) = schema.as_object().filter(|_| steps < MAX_STEPS) else { return false };
    let of_type = match map.get("type") {
        Some(Value::String(one)) => one == word,
        Some(Value::Array(several)) => several.iter().any(|one| *one == word),
        _ => false,
    };
    let target = map.get("$ref").and_then(Value::as_str).and_then(|to| root.pointer(to.strip_prefix('#')?));
    let branches =
        ["anyOf", "oneOf", "allOf"].into_iter().filter_map(|key| map.get(key)?.as_array()).flatten();
    of_type || branches.chain(target).any(|inner| wants(root, inner, word, steps + 1))
}

/// Returns the errors of `data`, each as `at <path>: <message>`; empty if it is valid. An invalid schema is
/// reported as an error.
pub fn errors(schema: &Value, data: &Value) -> Vec<String> {
    let errors = by_json_schema(schema, data);
    if errors.is_empty() {
        return too_large(schema, data);
    }
    match check(&from_data(data), &from_data(schema), false) {
        Ok(Err(own)) => own,
        _ => errors,
    }
}

/// Returns the error of an invalid schema; `None` if it is valid.
pub fn compile_error(schema: &Value) -> Option<String> {
    jsonschema::validator_for(&Tree::from(as_json_schema(schema))).err().map(|error| error.to_string())
}

/// Returns errors for numbers that are ints in JSON Schema but do not fit an int in Harn.
fn too_large(schema: &Value, data: &Value) -> Vec<String> {
    let schema = as_json_schema(schema);
    let mut errors = Vec::new();
    at_ints(&schema, &schema, &mut data.clone(), "", 0, &mut |path, number| {
        if !number.as_f64().is_some_and(is_whole_int) {
            let path = if path.is_empty() { "root" } else { path };
            errors.push(format!("at {path}: {}", Complaint::Type { expected: "int", got: "float" }));
        }
    });
    errors.dedup();
    errors
}

fn by_json_schema(schema: &Value, data: &Value) -> Vec<String> {
    let (schema, tree) = (Tree::from(as_json_schema(schema)), Tree::from(data.clone()));
    let validator = match jsonschema::validator_for(&schema) {
        Ok(validator) => validator,
        Err(e) => return vec![format!("at root: invalid schema: {e}")],
    };
    let mut found: Vec<(u8, String)> = Vec::new();
    for error in validator.iter_errors(&tree) {
        let path = path_text(&error.instance_path().to_string(), data);
        let (rank, text) = describe(error.kind(), error.instance(), &error.to_string());
        for text in text {
            found.push((rank, format!("at {path}: {text}")));
        }
    }
    // Missing keys are the most important information for a model.
    found.sort_by_key(|(rank, _)| *rank);
    found.into_iter().map(|(_, text)| text).collect()
}

/// Converts a JSON pointer to `a.b[0]`, or to `root`.
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

/// Formats a value like Harn.
fn display(tree: &Tree) -> String {
    Value::from(tree.clone()).printed()
}

fn list_text(options: &Tree) -> String {
    let items: Vec<String> = options.as_array().map(|o| o.iter().map(display).collect()).unwrap_or_default();
    items.join(", ")
}

fn describe(kind: &ValidationErrorKind, instance: &Tree, otherwise: &str) -> (u8, Vec<String>) {
    let one = |complaint: Complaint<'_>| (1, vec![complaint.to_string()]);
    let length = || instance.as_str().map_or(0, |s| s.chars().count());
    let items = || instance.as_array().map_or(0, Vec::len);
    match kind {
        ValidationErrorKind::Required { property } => {
            (0, vec![Complaint::Missing(&display(property)).to_string()])
        }
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            let mut keys: Vec<&String> = unexpected.iter().collect();
            keys.sort();
            (2, keys.into_iter().map(|key| Complaint::Unexpected(key).to_string()).collect())
        }
        ValidationErrorKind::Type { kind } => {
            let wanted = match kind {
                TypeKind::Single(one) => words::harn(&one.to_string()).to_owned(),
                TypeKind::Multiple(_) => return one(Complaint::NoBranch),
            };
            one(Complaint::Type { expected: &wanted, got: Value::from(instance.clone()).type_name() })
        }
        ValidationErrorKind::Constant { expected_value } => {
            one(Complaint::Constant { expected: &display(expected_value), got: &display(instance) })
        }
        ValidationErrorKind::Enum { options } => {
            one(Complaint::NotOneOf(&format_args!("[{}]", list_text(options))))
        }
        ValidationErrorKind::AnyOf { .. }
        | ValidationErrorKind::OneOfNotValid { .. }
        | ValidationErrorKind::OneOfMultipleValid { .. } => one(Complaint::NoBranch),
        ValidationErrorKind::Minimum { limit } => one(Complaint::Below { limit, got: instance }),
        ValidationErrorKind::Maximum { limit } => one(Complaint::Above { limit, got: instance }),
        ValidationErrorKind::MinLength { limit } => one(Complaint::Shorter { limit, got: length() }),
        ValidationErrorKind::MaxLength { limit } => one(Complaint::Longer { limit, got: length() }),
        ValidationErrorKind::MinItems { limit } => one(Complaint::Fewer { limit, got: items() }),
        ValidationErrorKind::MaxItems { limit } => one(Complaint::More { limit, got: items() }),
        ValidationErrorKind::Pattern { pattern } => one(Complaint::Pattern(pattern)),
        _ => (1, vec![otherwise.to_owned()]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use harn_value::json;

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

    /// Both validators report identical messages for the same data.
    #[test]
    fn programs_and_replies_hear_the_same_words() {
        let object = |properties: Value| json!({"type": "dict", "properties": properties});
        let cases = [
            (json!({"type": "int"}), json!("x")),
            (json!({"type": "string", "min_length": 2}), json!("x")),
            (json!({"type": "string", "maxLength": 2}), json!("xyz")),
            (json!({"type": "list", "min_items": 1}), json!([])),
            (json!({"type": "list", "maxItems": 1}), json!([1, 2])),
            (json!({"type": "float", "minimum": 0.5}), json!(0.25)),
            (json!({"type": "string", "pattern": "^a+$"}), json!("b")),
            (json!({"type": "string", "enum": ["a", "b"]}), json!("c")),
            (json!({"const": 3}), json!(4)),
            (json!({"union": [{"type": "int"}, {"type": "nil"}]}), json!("x")),
            (object(json!({"a": object(json!({"b": {"type": "bool"}}))})), json!({"a": {"b": 1}})),
        ];
        for (schema, data) in cases {
            let own = check(&from_data(&data), &from_data(&schema), false).unwrap().unwrap_err();
            assert_eq!(own, errors(&schema, &data), "{schema}");
            assert_eq!(own, by_json_schema(&schema, &data), "{schema}");
        }
    }

    #[test]
    fn a_reply_may_write_a_whole_number_for_a_float() {
        let schema = json!({"type": "dict", "properties": {"a": {"type": "float"}, "b": {"type": "int"}}});
        assert!(errors(&schema, &json!({"a": 1, "b": 1})).is_empty());
        assert_eq!(errors(&schema, &json!({"a": 1, "b": "x"})), ["at b: expected type 'int', got 'string'"]);
    }

    #[test]
    fn whole_numbers_become_ints_where_ints_are_wanted() {
        let schema = json!({"type": "dict", "properties": {"n": {"type": "int"}, "f": {"type": "float"}, "l": {"type": "list",
            "items": {"union": [{"type": "int"}, {"type": "nil"}]}}, "e": {"union": [{"type": "int"}, {"type": "float"}]}}});
        let mut data = json!({"n": 1.0, "f": 1.0, "l": [2.0, null], "e": 3.0});
        assert!(errors(&schema, &data).is_empty());
        with_ints(&schema, &mut data);
        assert_eq!(data.to_string(), r#"{"n":1,"f":1.0,"l":[2,null],"e":3.0}"#);
        let large = json!({"n": 9_223_372_036_854_775_808.0, "l": [1, -1e300]});
        assert_eq!(
            errors(&schema, &large),
            ["at n: expected type 'int', got 'float'", "at l[1]: expected type 'int', got 'float'"]
        );
    }

    #[test]
    fn a_nonsensical_schema_is_an_error_not_a_panic() {
        assert!(errors(&json!({"type": 3}), &json!(1))[0].starts_with("at root: invalid schema"));
    }
}
