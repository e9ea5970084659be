//! The smallest value of a schema: the default reply of the mock model.

use harn_value::{Data as Value, data::Map, json};

use crate::json::as_json_schema;

/// Maximum depth of followed subschemas and references.
const MAX_DEPTH: usize = 32;

/// Returns a small value that matches the types, limits, enums and required properties of a schema. Ignores
/// `pattern`.
pub fn minimal(schema: &Value) -> Value {
    let schema = as_json_schema(schema);
    of(&schema, &schema, 0)
}

fn of(root: &Value, schema: &Value, depth: usize) -> Value {
    let Some(map) = schema.as_object().filter(|_| depth < MAX_DEPTH) else { return Value::Null };
    let first = |key: &str| map.get(key).and_then(Value::as_array).and_then(|list| list.first());
    if let Some(value) = map.get("const").or_else(|| map.get("default")).or_else(|| first("enum")) {
        return value.clone();
    }
    let target = map.get("$ref").and_then(Value::as_str).and_then(|to| root.pointer(to.strip_prefix('#')?));
    if let Some(inner) =
        target.or_else(|| first("anyOf")).or_else(|| first("oneOf")).or_else(|| first("allOf"))
    {
        return of(root, inner, depth + 1);
    }
    let word = map.get("type").and_then(|word| word.as_str().or_else(|| first("type")?.as_str()));
    let int = |key: &str| map.get(key).and_then(Value::as_i64);
    let count = |key: &str| usize::try_from(int(key).unwrap_or(0)).unwrap_or(0);
    match word.unwrap_or(if map.contains_key("properties") { "object" } else { "null" }) {
        "string" => "a".repeat(count("minLength")).into(),
        "integer" => {
            let least = int("minimum").or_else(|| int("exclusiveMinimum").map(|n| n.saturating_add(1)));
            let most = int("maximum").or_else(|| int("exclusiveMaximum").map(|n| n.saturating_sub(1)));
            0.max(least.unwrap_or(0)).min(most.unwrap_or(i64::MAX)).into()
        }
        "number" => {
            let float = |key: &str| map.get(key).and_then(Value::as_f64);
            let least = float("minimum").or_else(|| float("exclusiveMinimum").map(|n| n + 1.0));
            let most = float("maximum").or_else(|| float("exclusiveMaximum").map(|n| n - 1.0));
            0.0_f64.max(least.unwrap_or(0.0)).min(most.unwrap_or(f64::MAX)).into()
        }
        "boolean" => false.into(),
        "array" => {
            let item = || map.get("items").map_or(Value::Null, |items| of(root, items, depth + 1));
            (0..count("minItems")).map(|_| item()).collect::<Vec<Value>>().into()
        }
        "object" => {
            let required = map.get("required").and_then(Value::as_array).into_iter().flatten();
            let property = |name: &str| map.get("properties").and_then(|all| all.get(name));
            let fields = required.filter_map(Value::as_str).map(|name| {
                let value = property(name).map_or_else(|| "".into(), |part| of(root, part, depth + 1));
                (name.to_owned(), value)
            });
            Value::Object(Map::from_iter(fields))
        }
        _ => json!(null),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_fits_its_schema() {
        for schema in [
            json!({"type": "dict", "required": ["a", "b", "c"], "properties": {
                "a": {"type": "int", "min": 3}, "b": {"enum": ["x", "y"]}, "z": {"type": "int"},
                "c": {"type": "list", "min_items": 2, "items": {"type": "string", "min_length": 2}}}}),
            json!({"union": [{"type": "float", "maximum": -1.5}, {"type": "nil"}]}),
            json!({"type": ["integer", "null"], "exclusiveMaximum": 0}),
            json!({"$ref": "#/$defs/T", "$defs": {"T": {"type": "object", "required": ["next"], "properties": {
                "next": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/T"}]}}}}}),
        ] {
            let value = minimal(&schema);
            assert!(crate::errors(&schema, &value).is_empty(), "{schema} {value}");
        }
        let endless = json!({"$ref": "#/$defs/T", "$defs": {"T": {"$ref": "#/$defs/T"}}});
        assert_eq!(minimal(&endless), Value::Null);
    }
}
