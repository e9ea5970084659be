//! Schemas as they travel: Harn dicts and OpenAPI objects become JSON Schema. What JSON Schema has and Harn's form has
//! not stays as it is.

use harn_value::{Data as Value, data::Map, json};

use crate::words;

type Object = Map<String, Value>;

/// Writes a schema (JSON Schema, OpenAPI or a Harn schema dict) as JSON Schema.
pub fn as_json_schema(schema: &Value) -> Value {
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
                ("additionalProperties", as_json_schema(value))
            }
            "items" => ("items", as_json_schema(value)),
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
    map_of(value, as_json_schema)
}

fn map_of(value: &Value, change: impl Fn(&Value) -> Value) -> Value {
    match value.as_object() {
        Some(map) => Value::Object(map.iter().map(|(k, v)| (k.clone(), change(v))).collect()),
        None => value.clone(),
    }
}

fn each(value: &Value) -> Value {
    match value.as_array() {
        Some(items) => items.iter().map(as_json_schema).collect(),
        None => value.clone(),
    }
}

/// Translates type words; `any` has no counterpart and `set` needs a second keyword.
fn type_words(value: &Value, out: &mut Object) -> Option<Value> {
    let word = words::json_or_text;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn harn_words_become_json_schema() {
        assert_eq!(
            as_json_schema(&json!({"type": "dict", "properties": {
                "a": {"type": "int", "min": 1, "nullable": true}, "b": {"type": "set", "items": {"type": "any"}},
                "c": {"union": [{"type": "nil"}, {"type": "string"}]}},
                "additional_properties": false})),
            json!({"type": "object", "properties": {
                "a": {"type": ["integer", "null"], "minimum": 1}, "b": {"uniqueItems": true, "type": "array", "items": {}},
                "c": {"anyOf": [{"type": "null"}, {"type": "string"}]}},
                "additionalProperties": false})
        );
    }
}
