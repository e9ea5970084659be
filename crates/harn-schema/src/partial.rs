//! Validation of incomplete values, such as partially streamed answers.

use harn_value::{Data as Value, json};
use jsonschema::Validator;
use serde_json::Value as Tree;

use crate::fits::with_ints;
use crate::json::as_json_schema;

/// Keywords that an incomplete value may satisfy later, or that can only be evaluated for a complete value.
const UNDECIDED: [&str; 17] = [
    "required",
    "minItems",
    "minProperties",
    "minLength",
    "pattern",
    "format",
    "contains",
    "minContains",
    "dependentRequired",
    "dependentSchemas",
    "dependencies",
    "not",
    "if",
    "then",
    "else",
    "unevaluatedProperties",
    "unevaluatedItems",
];

/// Maximum nesting depth of schemas; deeper ones accept any value.
const DEPTH: usize = 64;

/// A validator for incomplete values.
pub struct PartialSchema {
    own: Value,
    validator: Option<Validator>,
}

impl PartialSchema {
    /// Compiles a schema in Harn's form or as JSON Schema. An invalid schema accepts any value; its error is reported
    /// when the complete value is validated.
    pub fn new(schema: &Value) -> PartialSchema {
        let relaxed = relaxed(&as_json_schema(schema), 0);
        PartialSchema { own: schema.clone(), validator: jsonschema::validator_for(&Tree::from(relaxed)).ok() }
    }

    /// Returns whether the complete value may still match the schema. If so, converts integral floats to ints where the
    /// schema requires ints.
    pub fn accepts(&self, value: &mut Value) -> bool {
        let accepted =
            self.validator.as_ref().is_none_or(|validator| validator.is_valid(&Tree::from(value.clone())));
        if accepted {
            with_ints(&self.own, value);
        }
        accepted
    }
}

/// Returns the schema without the keywords that only a complete value can satisfy. `oneOf` becomes `anyOf`, because an
/// incomplete value may match several members.
fn relaxed(schema: &Value, depth: usize) -> Value {
    let Some(map) = schema.as_object().filter(|_| depth < DEPTH) else {
        return if depth < DEPTH { schema.clone() } else { json!({}) };
    };
    let inner = |value: &Value| relaxed(value, depth + 1);
    let named = |value: &Value| match value.as_object() {
        Some(map) => Value::Object(map.iter().map(|(name, value)| (name.clone(), inner(value))).collect()),
        None => value.clone(),
    };
    let listed = |value: &Value| match value.as_array() {
        Some(list) => list.iter().map(inner).collect(),
        None => inner(value),
    };
    let part = |(key, value): (&String, &Value)| {
        let value = match key.as_str() {
            key if UNDECIDED.contains(&key) => return None,
            "properties" | "patternProperties" | "$defs" | "definitions" => named(value),
            "items" | "prefixItems" | "allOf" | "anyOf" | "oneOf" => listed(value),
            "additionalProperties" | "additionalItems" | "propertyNames" => inner(value),
            _ => value.clone(),
        };
        let key = if key == "oneOf" && !map.contains_key("anyOf") { "anyOf" } else { key };
        // If the schema has an `anyOf` already, the `oneOf` is dropped.
        (key != "oneOf").then(|| (key.to_owned(), value))
    };
    Value::Object(map.iter().filter_map(part).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_parts_are_accepted_and_wrong_ones_are_not() {
        let schema = json!({
            "type": "object",
            "properties": {
                "required": {"type": "string", "minLength": 5},
                "kind": {"enum": ["bill", "offer"]},
                "items": {"type": "array", "minItems": 2, "items": {"$ref": "#/$defs/item"}},
                "of": {"oneOf": [
                    {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
                    {"type": "object", "properties": {"b": {"type": "string"}}, "required": ["b"]},
                ]},
            },
            "required": ["required", "kind"],
            "additionalProperties": false,
            "$defs": {"item": {"type": "object", "properties": {"n": {"type": "integer", "maximum": 9}}, "required": ["n"]}},
        });
        let partial = PartialSchema::new(&schema);
        for (value, is_accepted) in [
            (json!({}), true),
            (json!({"required": "ab"}), true),
            (json!({"required": 1}), false),
            (json!({"kind": "bill"}), true),
            (json!({"kind": "bil"}), false),
            (json!({"items": [{}]}), true),
            (json!({"items": [{"n": 10}]}), false),
            (json!({"of": {}}), true),
            (json!({"of": {"a": 1}}), true),
            (json!({"other": 1}), false),
            (json!([]), false),
        ] {
            assert_eq!(partial.accepts(&mut value.clone()), is_accepted, "{value}");
        }
        let mut whole = json!({"items": [{"n": 2.0}]});
        assert!(partial.accepts(&mut whole) && whole == json!({"items": [{"n": 2}]}));
    }
}
