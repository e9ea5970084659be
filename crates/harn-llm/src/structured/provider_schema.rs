//! Converts schemas to the form of each provider: Gemini's subset, the strict subset of OpenAI and Anthropic, an object
//! at the root.
//!
//! Property names are never treated as keywords: only the values of `properties` and `$defs` are schemas.

use harn_value::{Data as Value, json};

use crate::json::{Object, list_at, str_at};

/// The key of a list or scalar that is wrapped in an object, because providers accept only objects at the root.
pub(crate) const WRAPPED: &str = "result";

/// The maximum nesting of schemas; references may be cyclic.
const DEPTH: usize = 24;

/// The maximum nesting that strict mode accepts.
const STRICT_DEPTH: usize = 10;

/// Returns whether all values of a schema are objects.
pub(crate) fn is_object(schema: &Value) -> bool {
    let target = resolve(schema, schema).unwrap_or(schema);
    str_at(target, "type") == Some("object")
        && !target.get("nullable").is_some_and(|n| *n == Value::Bool(true))
}

/// Returns the schema with an object at its root: another type is wrapped as the property [`WRAPPED`].
pub(crate) fn with_object_root(schema: &Value) -> Value {
    if is_object(schema) || schema.as_object().is_some_and(|map| map.is_empty()) {
        return schema.clone();
    }
    let mut inner = schema.clone();
    let defs = inner.as_object_mut().and_then(|map| map.shift_remove("$defs"));
    let mut out = json!({
        "type": "object", "properties": {WRAPPED: inner}, "required": [WRAPPED], "additionalProperties": false,
    });
    if let Some(defs) = defs {
        out["$defs"] = defs;
    }
    out
}

/// Returns the value that a wrapped answer contains.
pub(crate) fn unwrapped(value: &Value) -> Option<&Value> {
    value.as_object().filter(|map| map.len() == 1)?.get(WRAPPED)
}

/// Returns the value without optional keys whose value is null although their schema does not allow null.
pub(crate) fn without_optional_nulls(schema: &Value, value: &Value) -> Value {
    without_nulls(schema, schema, value, 0)
}

fn without_nulls(root: &Value, schema: &Value, value: &Value, depth: usize) -> Value {
    let schema = resolve(root, schema).unwrap_or(schema);
    if depth > DEPTH {
        return value.clone();
    }
    match value {
        Value::Array(items) => {
            let own = schema.get("items").unwrap_or(&Value::Null);
            items.iter().map(|item| without_nulls(root, own, item, depth + 1)).collect()
        }
        Value::Object(map) => {
            let required = list_at(schema, "required");
            let part = |(key, value): (&String, &Value)| {
                let own = schema.get("properties").and_then(|named| named.get(key.as_str()));
                let own = own.unwrap_or(&Value::Null);
                let optional = !required.iter().any(|name| name == key.as_str());
                let dropped = value.is_null() && optional && own.get("type").is_some_and(Value::is_string);
                (!dropped).then(|| (key.clone(), without_nulls(root, own, value, depth + 1)))
            };
            Value::Object(map.iter().filter_map(part).collect())
        }
        other => other.clone(),
    }
}

/// Returns the target of a schema's reference.
fn resolve<'s>(root: &'s Value, schema: &Value) -> Option<&'s Value> {
    let path = str_at(schema, "$ref")?.strip_prefix('#')?;
    path.split('/')
        .skip(1)
        .try_fold(root, |at, key| at.get(key.replace("~1", "/").replace("~0", "~").as_str()))
}

/// Returns the schema with all references replaced by their targets. A cyclic reference becomes an unrestricted object.
pub(crate) fn inlined(schema: &Value) -> Value {
    let mut out = inline(schema, schema, 0);
    if let Some(map) = out.as_object_mut() {
        map.shift_remove("$defs");
        map.shift_remove("definitions");
    }
    out
}

fn inline(root: &Value, schema: &Value, depth: usize) -> Value {
    let Some(map) = schema.as_object() else {
        return match schema {
            Value::Array(items) => items.iter().map(|item| inline(root, item, depth + 1)).collect(),
            other => other.clone(),
        };
    };
    if depth > DEPTH {
        return json!({"type": "object"});
    }
    if let Some(target) = resolve(root, schema) {
        let mut out = inline(root, target, depth + 1);
        if let Some(own) = out.as_object_mut() {
            let more = map.iter().filter(|(key, _)| *key != "$ref");
            own.extend(more.map(|(key, value)| (key.clone(), value.clone())));
        }
        return out;
    }
    let part = |(key, value): (&String, &Value)| {
        let value = match (key.as_str(), value) {
            ("properties" | "patternProperties" | "$defs" | "definitions", Value::Object(named))
                if key != "$defs" && key != "definitions" =>
            {
                named
                    .iter()
                    .map(|(name, schema)| (name.clone(), inline(root, schema, depth + 1)))
                    .collect::<Object>()
                    .into()
            }
            (
                "items"
                | "prefixItems"
                | "anyOf"
                | "oneOf"
                | "allOf"
                | "not"
                | "additionalProperties"
                | "contains",
                _,
            ) => inline(root, value, depth + 1),
            _ => value.clone(),
        };
        (key.clone(), value)
    };
    Value::Object(map.iter().map(part).collect())
}

/// Merges `allOf` into the schema itself. Returns `None` when the parts contradict each other.
fn merged(schema: &Value) -> Option<Value> {
    let mut out = schema.as_object()?.clone();
    let Some(Value::Array(parts)) = out.shift_remove("allOf") else { return Some(schema.clone()) };
    for part in parts {
        let part = merged(&part)?;
        for (key, value) in part.as_object()? {
            match (out.get_mut(key), value) {
                (None, _) => {
                    out.insert(key.clone(), value.clone());
                }
                (Some(Value::Object(own)), Value::Object(more)) if key == "properties" => {
                    for (name, schema) in more {
                        if own.insert(name.clone(), schema.clone()).is_some_and(|known| known != *schema) {
                            return None;
                        }
                    }
                }
                (Some(Value::Array(own)), Value::Array(more)) if key == "required" => {
                    let new: Vec<Value> = more.iter().filter(|name| !own.contains(name)).cloned().collect();
                    own.extend(new);
                }
                (Some(_), _) if matches!(key.as_str(), "description" | "title") => {}
                (Some(own), _) if own == value => {}
                _ => return None,
            }
        }
    }
    Some(Value::Object(out))
}

// ----- Gemini

/// Keywords of Gemini's schemas whose values are copied unchanged. Source: `Schema` of the Gemini API.
const GEMINI_PLAIN: [&str; 13] = [
    "title",
    "description",
    "nullable",
    "maxItems",
    "minItems",
    "minProperties",
    "maxProperties",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "pattern",
    "propertyOrdering",
];

/// Returns the schema in Gemini's subset of OpenAPI: a single `type`, `nullable`, `anyOf`, only strings in `enum`, and
/// no references.
pub(crate) fn for_gemini(schema: &Value) -> Value {
    gemini(&inlined(schema), 0)
}

fn gemini(schema: &Value, depth: usize) -> Value {
    let schema = merged(schema).unwrap_or_else(|| schema.clone());
    let Some(map) = schema.as_object().filter(|_| depth <= DEPTH) else { return json!({}) };
    let mut out = Object::new();
    let mut types: Vec<&str> = match map.get("type") {
        Some(Value::String(word)) => vec![word],
        Some(Value::Array(words)) => words.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let count = types.len();
    types.retain(|word| *word != "null");
    let mut nullable = types.len() < count;
    if let [word] = types.as_slice() {
        out.insert("type".into(), (*word).into());
    }
    for (key, value) in map {
        match key.as_str() {
            "properties" => {
                let named = value.as_object().into_iter().flatten();
                let named: Object =
                    named.map(|(name, schema)| (name.clone(), gemini(schema, depth + 1))).collect();
                out.insert(key.clone(), Value::Object(named));
            }
            "required" => {
                let known = |name: &&Value| {
                    name.as_str()
                        .is_some_and(|name| map.get("properties").is_some_and(|p| p.get(name).is_some()))
                };
                out.insert(key.clone(), list_at(&schema, "required").iter().filter(known).cloned().collect());
            }
            "items" if value.is_object() => {
                out.insert(key.clone(), gemini(value, depth + 1));
            }
            // A tuple becomes a list whose items may have any of the tuple's types.
            "items" | "prefixItems" => {
                let places: Vec<Value> =
                    value.as_array().into_iter().flatten().map(|s| gemini(s, depth + 1)).collect();
                out.insert("items".into(), one_of(places));
            }
            "anyOf" | "oneOf" => {
                let mut choices = Vec::new();
                for choice in value.as_array().into_iter().flatten() {
                    if str_at(choice, "type") == Some("null") {
                        nullable = true;
                    } else {
                        choices.push(gemini(choice, depth + 1));
                    }
                }
                if let Value::Object(choice) = one_of(choices) {
                    for (key, value) in choice {
                        out.entry(key).or_insert(value);
                    }
                }
            }
            "const" => constant(std::slice::from_ref(value), &mut out, &mut nullable),
            "enum" => constant(value.as_array().map_or(&[], Vec::as_slice), &mut out, &mut nullable),
            "exclusiveMinimum" | "exclusiveMaximum" if value.is_number() => {
                let step = if key == "exclusiveMinimum" { 1 } else { -1 };
                let bound = if key == "exclusiveMinimum" { "minimum" } else { "maximum" };
                // For integers the adjacent number is the limit; for other numbers the limit itself is the best
                // approximation.
                let whole = value.as_i64().filter(|_| types.as_slice() == ["integer"]);
                let limit = whole.map_or_else(|| value.clone(), |n| n.saturating_add(step).into());
                out.entry(bound.to_owned()).or_insert(limit);
            }
            "format"
                if matches!(
                    value.as_str(),
                    Some("enum" | "date-time" | "int32" | "int64" | "float" | "double")
                ) =>
            {
                out.insert(key.clone(), value.clone());
            }
            key if GEMINI_PLAIN.contains(&key) => {
                out.insert(key.to_owned(), value.clone());
            }
            _ => {}
        }
    }
    if types.len() > 1 {
        let choices = types.iter().map(|word| {
            let mut choice = map.clone();
            choice.insert("type".into(), (*word).into());
            for key in ["description", "title", "nullable"] {
                choice.shift_remove(key);
            }
            gemini(&Value::Object(choice), depth + 1)
        });
        let choices: Vec<Value> = choices.collect();
        let kept = |key: &String| matches!(key.as_str(), "description" | "title");
        out.retain(|key, _| kept(key));
        out.insert("anyOf".into(), choices.into());
    }
    if str_at(&schema, "type") == Some("array") {
        // Gemini rejects a list without an item schema.
        out.entry("items").or_insert_with(|| json!({"type": "string"}));
    }
    if nullable {
        out.insert("nullable".into(), true.into());
    }
    Value::Object(out)
}

/// Returns a choice between schemas.
fn one_of(mut choices: Vec<Value>) -> Value {
    match choices.len() {
        0 => json!({}),
        1 => choices.remove(0),
        _ => json!({"anyOf": choices}),
    }
}

/// Writes the values that a schema allows. Gemini's `enum` contains only strings, so other values are listed in the
/// description.
fn constant(values: &[Value], out: &mut Object, nullable: &mut bool) {
    let allowed: Vec<Value> = values.iter().filter(|value| !value.is_null()).cloned().collect();
    *nullable |= allowed.len() < values.len();
    if !allowed.is_empty() && allowed.iter().all(Value::is_string) {
        out.insert("type".into(), "string".into());
        out.insert("enum".into(), allowed.into());
        return;
    }
    let words: Vec<&str> = allowed.iter().map(type_word).collect();
    if let Some(first) = words.first().filter(|first| words.iter().all(|word| word == *first)) {
        out.insert("type".into(), (*first).into());
    }
    let texts: Vec<String> = allowed.iter().map(Value::to_string).collect();
    if !texts.is_empty() {
        let own = out.get("description").and_then(Value::as_str).map(|text| format!("{text} "));
        out.insert(
            "description".into(),
            format!("{}One of: {}", own.unwrap_or_default(), texts.join(", ")).into(),
        );
    }
}

fn type_word(value: &Value) -> &'static str {
    match value {
        Value::Bool(_) => "boolean",
        Value::Number(n) if n.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
        _ => "string",
    }
}

// ----- strict mode

/// Keywords of strict schemas other than those that contain schemas. Source: OpenAI, "Structured Outputs: supported
/// schemas".
const STRICT_PLAIN: [&str; 14] = [
    "type",
    "title",
    "description",
    "enum",
    "const",
    "required",
    "additionalProperties",
    "pattern",
    "multipleOf",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "$schema",
];

const STRICT_FORMATS: [&str; 9] =
    ["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"];

/// Returns an equivalent schema in the subset of strict mode; `None` if the schema has no equivalent. Every object is
/// closed and requires all its properties.
pub(crate) fn strict_form(schema: &Value) -> Option<Value> {
    if schema.get("anyOf").is_some() || schema.get("oneOf").is_some() {
        return None;
    }
    with_definitions(schema, true)
}

/// Returns the schema in the subset of Claude's structured outputs: like strict mode, but with optional properties.
/// Objects are closed unless the schema sets `additionalProperties`; a reply without additional properties matches the
/// original schema as well.
pub(crate) fn reply_form(schema: &Value) -> Option<Value> {
    let limits =
        ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "maxItems", "pattern"];
    let closed = closed(schema);
    if closed.get("anyOf").is_some() || closed.get("oneOf").is_some() {
        return None;
    }
    // Claude rejects these limits, and dropping them would weaken the schema.
    with_definitions(&closed, false).filter(|schema| !has_keyword(schema, &limits))
}

/// Returns the schema with closed objects.
fn closed(schema: &Value) -> Value {
    let Some(map) = schema.as_object() else { return schema.clone() };
    let each = |part: &Value| match part {
        Value::Object(parts) => parts.iter().map(|(name, part)| (name.clone(), closed(part))).collect(),
        other => other.clone(),
    };
    let mut out: Object = map
        .iter()
        .map(|(key, part)| {
            let part = match (key.as_str(), part) {
                ("properties" | "$defs" | "definitions", part) => each(part),
                ("items", part) => closed(part),
                ("anyOf" | "oneOf", Value::Array(choices)) => choices.iter().map(closed).collect(),
                (_, part) => part.clone(),
            };
            (key.clone(), part)
        })
        .collect();
    let names = map.get("properties").and_then(Value::as_object).filter(|names| !names.is_empty());
    if names.is_some() && !map.contains_key("additionalProperties") {
        out.insert("additionalProperties".into(), false.into());
    }
    Value::Object(out)
}

/// Returns the strict form including the referenced schemas. With `all`, objects require all their properties.
fn with_definitions(schema: &Value, all: bool) -> Option<Value> {
    let mut out = strict(schema, schema, 0, all)?;
    for key in ["$defs", "definitions"] {
        if let Some(Value::Object(named)) = schema.get(key) {
            let named: Option<Object> = named
                .iter()
                .map(|(name, part)| Some((name.clone(), strict(schema, part, 1, all)?)))
                .collect();
            out[key] = Value::Object(named?);
        }
    }
    Some(out)
}

fn strict(root: &Value, schema: &Value, depth: usize, all: bool) -> Option<Value> {
    if depth > STRICT_DEPTH {
        return None;
    }
    let schema = &merged(schema)?;
    let map = schema.as_object()?;
    if let Some(reference) = map.get("$ref") {
        if map.len() == 1 {
            resolve(root, schema)?;
            return Some(json!({"$ref": reference}));
        }
        // A reference must be the only key, so a reference with siblings is replaced by its target merged with them.
        let mut target = resolve(root, schema)?.as_object()?.clone();
        target.extend(
            map.iter().filter(|(key, _)| *key != "$ref").map(|(key, value)| (key.clone(), value.clone())),
        );
        return strict(root, &Value::Object(target), depth + 1, all);
    }
    if !["type", "anyOf", "oneOf", "enum", "const"].iter().any(|key| map.contains_key(*key)) {
        return None;
    }
    let is = |word: &str| match map.get("type") {
        Some(Value::String(own)) => own == word,
        Some(Value::Array(words)) => words.iter().any(|own| own.as_str() == Some(word)),
        _ => false,
    };
    if is("array") && !map.get("items").is_some_and(Value::is_object) {
        return None;
    }
    if is("object") || map.contains_key("properties") {
        let required = list_at(schema, "required");
        let named = map.get("properties").and_then(Value::as_object)?;
        let closed = map.get("additionalProperties") == Some(&Value::Bool(false));
        if !closed || (all && !named.keys().all(|name| required.iter().any(|r| r == name.as_str()))) {
            return None;
        }
    }
    let mut out = Object::new();
    for (key, value) in map {
        let value = match key.as_str() {
            "properties" => {
                let named: Option<Object> = value
                    .as_object()?
                    .iter()
                    .map(|(name, part)| Some((name.clone(), strict(root, part, depth + 1, all)?)))
                    .collect();
                Value::Object(named?)
            }
            "items" => strict(root, value, depth + 1, all)?,
            "anyOf" | "oneOf" => {
                let choices: Option<Vec<Value>> =
                    value.as_array()?.iter().map(|choice| strict(root, choice, depth + 1, all)).collect();
                out.insert("anyOf".into(), choices?.into());
                continue;
            }
            // A default is only a hint, as the model writes every key.
            "default" | "examples" | "example" | "$defs" | "definitions" => continue,
            "minItems" | "maxItems" => value.clone(),
            "format" if value.as_str().is_some_and(|format| STRICT_FORMATS.contains(&format)) => {
                value.clone()
            }
            key if STRICT_PLAIN.contains(&key) => value.clone(),
            _ => return None,
        };
        out.insert(key.clone(), value);
    }
    Some(Value::Object(out))
}

/// Returns whether any of these keywords occurs in a schema.
fn has_keyword(schema: &Value, keywords: &[&str]) -> bool {
    match schema {
        Value::Array(items) => items.iter().any(|item| has_keyword(item, keywords)),
        Value::Object(map) => map.iter().any(|(key, value)| match (key.as_str(), value) {
            ("properties" | "$defs" | "definitions", Value::Object(named)) => {
                named.values().any(|schema| has_keyword(schema, keywords))
            }
            ("enum" | "const" | "required", _) => false,
            (key, value) => keywords.contains(&key) || has_keyword(value, keywords),
        }),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn property(schema: Value) -> Value {
        for_gemini(&json!({"type": "object", "properties": {"q": schema}}))["properties"]["q"].clone()
    }

    #[test]
    fn gemini_gets_its_subset() {
        for (given, sent) in [
            (json!({"type": ["string", "null"]}), json!({"type": "string", "nullable": true})),
            (
                json!({"anyOf": [{"type": "string"}, {"type": "null"}]}),
                json!({"type": "string", "nullable": true}),
            ),
            (
                json!({"oneOf": [{"type": "string"}, {"type": "integer"}]}),
                json!({"anyOf": [{"type": "string"}, {"type": "integer"}]}),
            ),
            (
                json!({"type": ["string", "integer"]}),
                json!({"anyOf": [{"type": "string"}, {"type": "integer"}]}),
            ),
            (json!({"const": "a"}), json!({"type": "string", "enum": ["a"]})),
            (json!({"enum": [1, 2]}), json!({"type": "integer", "description": "One of: 1, 2"})),
            (json!({"enum": ["a", null]}), json!({"type": "string", "enum": ["a"], "nullable": true})),
            (json!({"type": "integer", "exclusiveMinimum": 0}), json!({"type": "integer", "minimum": 1})),
            (json!({"type": "string", "format": "uri"}), json!({"type": "string"})),
            (json!({"type": "array"}), json!({"type": "array", "items": {"type": "string"}})),
            (
                json!({"allOf": [{"type": "object", "properties": {"a": {"type": "string"}}}, {"required": ["a"]}]}),
                json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}),
            ),
        ] {
            assert_eq!(property(given.clone()), sent, "{given}");
        }
    }

    #[test]
    fn references_are_replaced_and_circles_end() {
        let schema = json!({"type": "object", "properties": {"q": {"$ref": "#/$defs/Q", "description": "d"}}, "$defs": {"Q": {"type": "string"}}});
        assert_eq!(for_gemini(&schema)["properties"]["q"], json!({"type": "string", "description": "d"}));
        let circle = json!({"$ref": "#/$defs/N", "$defs": {"N": {"type": "object", "properties": {"next": {"$ref": "#/$defs/N"}}}}});
        assert!(!for_gemini(&circle).to_string().contains("$ref"));
    }

    #[test]
    fn properties_may_be_named_like_keywords() {
        let names = ["additionalProperties", "$ref", "const", "oneOf", "type", "properties", "required"];
        let properties: Object =
            names.iter().map(|name| ((*name).to_owned(), json!({"type": "string"}))).collect();
        let schema = json!({"type": "object", "properties": properties, "required": names, "additionalProperties": false});
        assert_eq!(for_gemini(&schema)["properties"], schema["properties"]);
        assert_eq!(for_gemini(&schema)["required"], schema["required"]);
        assert_eq!(strict_form(&schema), Some(schema));
    }

    #[test]
    fn strict_where_the_meaning_stays() {
        let closed = |q: Value| json!({"type": "object", "properties": {"q": q}, "required": ["q"], "additionalProperties": false});
        let form = |q: Value| strict_form(&closed(q)).map(|schema| schema["properties"]["q"].clone());
        let choice = json!([{"type": "string"}, {"type": "integer"}]);
        assert_eq!(form(json!({"oneOf": choice})), Some(json!({"anyOf": choice})));
        assert_eq!(form(json!({"allOf": [{"type": "string"}]})), Some(json!({"type": "string"})));
        assert_eq!(form(json!({"type": "string", "default": "x"})), Some(json!({"type": "string"})));
        for other in [
            json!({}),
            json!({"type": "array"}),
            json!({"type": "object"}),
            json!({"type": "string", "minLength": 1}),
            json!({"not": {"type": "string"}}),
            json!({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": false}),
        ] {
            assert_eq!(form(other.clone()), None, "{other}");
        }
        let mut referring = closed(json!({"$ref": "#/$defs/Q", "description": "the q"}));
        referring["$defs"] = json!({"Q": {"type": "string"}});
        let sent = strict_form(&referring).unwrap();
        assert_eq!(sent["properties"]["q"], json!({"type": "string", "description": "the q"}));
    }

    #[test]
    fn keys_that_may_be_missing_may_be_null() {
        let schema = json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}, "c": {"type": ["string", "null"]}}, "required": ["a"]});
        let value = json!({"a": null, "b": null, "c": null});
        assert_eq!(without_optional_nulls(&schema, &value), json!({"a": null, "c": null}));
    }

    #[test]
    fn replies_are_closed_where_nothing_says_that_they_are_open() {
        let inner = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
        let schema = json!({"type": "object", "properties": {"a": inner, "b": {"type": "array", "items": inner}}, "required": ["a"]});
        let form = reply_form(&schema).unwrap();
        for place in [
            "/additionalProperties",
            "/properties/a/additionalProperties",
            "/properties/b/items/additionalProperties",
        ] {
            let json = serde_json::to_value(&form).unwrap();
            assert_eq!(json.pointer(place), Some(&serde_json::Value::Bool(false)), "{place}");
        }
        assert_eq!(form["required"], json!(["a"]));
        for more in [
            json!({"additionalProperties": true}),
            json!({"additionalProperties": {"type": "string"}}),
            json!({"properties": {"n": {"type": "integer", "minimum": 0}}}),
            json!({"properties": {}}),
        ] {
            let mut schema = inner.clone();
            schema.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            assert_eq!(reply_form(&schema), None, "{schema}");
        }
        assert_eq!(strict_form(&schema), None);
    }

    #[test]
    fn lists_and_scalars_are_wrapped() {
        let list =
            json!({"type": "array", "items": {"$ref": "#/$defs/Q"}, "$defs": {"Q": {"type": "string"}}});
        let wrapped = with_object_root(&list);
        assert_eq!(wrapped["properties"][WRAPPED]["type"], "array");
        assert_eq!(wrapped["$defs"], list["$defs"]);
        assert!(is_object(&wrapped) && with_object_root(&wrapped) == wrapped);
        assert_eq!(unwrapped(&json!({"result": [1]})), Some(&json!([1])));
        assert_eq!(unwrapped(&json!({"result": 1, "more": 2})), None);
    }
}
