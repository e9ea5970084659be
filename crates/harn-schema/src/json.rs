//! Schemas serialized as JSON: converts Harn dicts and OpenAPI objects to JSON Schema. JSON Schema keywords without
//! a Harn equivalent remain unchanged.

use harn_value::{Data as Value, data::Map, json};

use crate::words;

type Object = Map<String, Value>;

/// Converts a schema (JSON Schema, OpenAPI or a Harn schema dict) to JSON Schema.
pub fn as_json_schema(schema: &Value) -> Value {
    hoisted(plain(schema))
}

/// Moves the `$defs` of subschemas to the root, where references are resolved. A name that the root already uses
/// for another schema gets a numeric suffix.
pub fn hoisted(mut schema: Value) -> Value {
    let Some(root) = schema.as_object_mut() else { return schema };
    let mut named = match root.shift_remove("$defs") {
        Some(Value::Object(named)) => named,
        Some(other) => Object::from_iter([("$defs".to_owned(), other)]),
        None => Object::new(),
    };
    root.values_mut().for_each(|part| gather(part, &mut named));
    let own: Vec<String> = named.keys().cloned().collect();
    for name in own {
        if let Some(mut part) = named.get(&name).cloned() {
            gather(&mut part, &mut named);
            named.insert(name, part);
        }
    }
    if !named.is_empty() {
        root.insert("$defs".to_owned(), named.into());
    }
    schema
}

/// Collects the `$defs` of a subschema and removes them from it.
fn gather(part: &mut Value, named: &mut Object) {
    match part {
        Value::Array(items) => items.iter_mut().for_each(|item| gather(item, named)),
        Value::Object(map) => {
            map.values_mut().for_each(|inner| gather(inner, named));
            let Some(own) = map.shift_remove("$defs") else { return };
            let Value::Object(own) = own else {
                map.insert("$defs".to_owned(), own);
                return;
            };
            let mut other_names: Vec<(String, String)> = Vec::new();
            for (name, schema) in &own {
                if named.get(name).is_some_and(|there| there != schema) {
                    let free = (2..)
                        .map(|n| format!("{name}_{n}"))
                        .find(|free| !named.contains_key(free) && !own.contains_key(free));
                    other_names.extend(free.map(|free| (name.clone(), free)));
                }
            }
            let renamed = |name: &str| {
                other_names.iter().find(|(from, _)| from == name).map_or(name, |(_, to)| to).to_owned()
            };
            map.values_mut().for_each(|inner| refer(inner, &renamed));
            if let Some(Value::String(reference)) = map.get_mut("$ref") {
                change_reference(reference, &renamed);
            }
            for (name, mut schema) in own {
                refer(&mut schema, &renamed);
                named.insert(renamed(&name), schema);
            }
        }
        _ => {}
    }
}

/// Updates references to renamed schemas.
fn refer(part: &mut Value, renamed: &impl Fn(&str) -> String) {
    match part {
        Value::Array(items) => items.iter_mut().for_each(|item| refer(item, renamed)),
        Value::Object(map) => {
            if let Some(Value::String(reference)) = map.get_mut("$ref") {
                change_reference(reference, renamed);
            }
            map.values_mut().for_each(|inner| refer(inner, renamed));
        }
        _ => {}
    }
}

fn change_reference(reference: &mut String, renamed: &impl Fn(&str) -> String) {
    if let Some(name) = reference.strip_prefix("#/$defs/") {
        *reference = format!("#/$defs/{}", renamed(name));
    }
}

fn plain(schema: &Value) -> Value {
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
            "additional_properties" | "additionalProperties" => ("additionalProperties", plain(value)),
            "items" => ("items", plain(value)),
            // The first matching branch is used, so several may match; strict servers do not support `oneOf`.
            "union" => ("anyOf", each(value)),
            "oneOf" | "anyOf" => (key.as_str(), each(value)),
            "all_of" | "allOf" => ("allOf", each(value)),
            other => (words::json_key(other), value.clone()),
        };
        out.insert(key.to_string(), value);
    }
    if nullable {
        add_null(&mut out);
    }
    Value::Object(out)
}

fn map_values(value: &Value) -> Value {
    map_of(value, plain)
}

fn map_of(value: &Value, change: impl Fn(&Value) -> Value) -> Value {
    match value.as_object() {
        Some(map) => Value::Object(map.iter().map(|(k, v)| (k.clone(), change(v))).collect()),
        None => value.clone(),
    }
}

fn each(value: &Value) -> Value {
    match value.as_array() {
        Some(items) => items.iter().map(plain).collect(),
        None => value.clone(),
    }
}

/// Translates type names; `any` has no equivalent and `set` requires a second keyword.
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
    fn named_schemas_of_parts_stand_at_the_root() {
        let tree = |leaf: &str| {
            json!({"type": "dict", "properties": {"v": {"type": leaf}, "kids": {"type": "list",
            "items": {"$ref": "#/$defs/T"}}}})
        };
        let part = |leaf: &str| {
            let mut part = tree(leaf);
            part["$defs"] = json!({"T": tree(leaf)});
            part
        };
        let whole = as_json_schema(
            &json!({"type": "dict", "properties": {"a": part("int"), "b": part("int"), "c": part("string")}}),
        );
        let at = |pointer: &str| whole.pointer(pointer).cloned().unwrap_or_default();
        assert_eq!(at("/properties/a/properties/kids/items/$ref"), json!("#/$defs/T"));
        assert_eq!(at("/properties/b/properties/kids/items/$ref"), json!("#/$defs/T"));
        assert_eq!(at("/properties/c/properties/kids/items/$ref"), json!("#/$defs/T_2"));
        assert_eq!(at("/$defs/T/properties/v/type"), json!("integer"));
        assert_eq!(at("/$defs/T_2/properties/v/type"), json!("string"));
        assert_eq!(at("/$defs/T_2/properties/kids/items/$ref"), json!("#/$defs/T_2"));
        assert_eq!(at("/properties/c/$defs"), Value::Null);
        let deep = json!({"a": {"v": 1, "kids": []}, "c": {"v": "x", "kids": [{"v": "y", "kids": [{"v": 5, "kids": []}]}]}});
        assert_eq!(
            crate::errors(&whole, &deep),
            ["at c.kids[0].kids[0].v: expected type 'string', got 'int'"]
        );
    }

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
