//! Schemas of tools, plans and references: JSON Schema, or a type map that is converted to it.

use std::collections::BTreeSet;

use harn_schema::words;
use harn_value::{Data as Value, data::Map, json};

use super::HarnessError;

/// Maximum number of inlined references; a schema that needs more retains its `$defs`.
const MAX_INLINED: usize = 2_000;

/// Lowers a schema dict to JSON Schema.
///
/// A JSON Schema is preserved, with `#/$defs/...` references inlined (recursive ones remain, with their `$defs`). Any
/// other dict is a type map, in which every key is required. Errors name `function`.
///
/// # Errors
/// The value, or a part of a type map, is not a valid schema.
pub fn lower_schema(function: &str, schema: &Value) -> Result<Value, HarnessError> {
    let dict = schema.as_object().ok_or_else(|| HarnessError::Schema(function.to_owned()))?;
    lower_dict(function, dict)
}

fn lower_dict(function: &str, dict: &Map<String, Value>) -> Result<Value, HarnessError> {
    if is_json_schema(dict) {
        return Ok(inline(dict));
    }
    let mut properties = Map::new();
    // In declaration order.
    for (key, value) in dict {
        properties.insert(key.clone(), lower_type(function, value)?);
    }
    let mut required: Vec<&String> = properties.keys().collect();
    required.sort();
    let required = json!(required);
    Ok(json!({"type": "object", "properties": properties, "required": required}))
}

fn is_json_schema(dict: &Map<String, Value>) -> bool {
    let type_name = |value: &Value| {
        value.as_str().is_some_and(|name| words::WORDS.iter().any(|known| known.json == name))
    };
    ["$schema", "$ref", "properties"].iter().any(|key| dict.contains_key(*key))
        || match dict.get("type") {
            Some(Value::Array(names)) => !names.is_empty() && names.iter().all(type_name),
            Some(name) => type_name(name),
            None => false,
        }
}

fn lower_type(function: &str, value: &Value) -> Result<Value, HarnessError> {
    let unsupported = || HarnessError::Schema(function.to_owned());
    match value {
        Value::String(name) => match name.strip_suffix('?') {
            Some(inner) => Ok(json!({"anyOf": [named(inner).ok_or_else(unsupported)?, {"type": "null"}]})),
            None => named(name).ok_or_else(unsupported),
        },
        Value::Array(items) => match items.as_slice() {
            [item] => Ok(json!({"type": "array", "items": lower_type(function, item)?})),
            _ => Err(unsupported()),
        },
        other => lower_dict(function, other.as_object().ok_or_else(unsupported)?),
    }
}

fn named(name: &str) -> Option<Value> {
    match name {
        "any" => Some(json!({})),
        "string" | "int" | "float" | "number" | "bool" | "list" | "dict" => {
            Some(json!({"type": words::json(name)}))
        }
        _ => None,
    }
}

/// Inlines `#/$defs/...` references.
fn inline(schema: &Map<String, Value>) -> Value {
    let empty = Map::new();
    let defs = schema.get("$defs").and_then(Value::as_object).unwrap_or(&empty);
    let mut inliner = Inliner { defs, open: Vec::new(), kept: BTreeSet::new(), inlined: 0 };
    let mut root = schema.clone();
    root.shift_remove("$defs");
    let mut lowered = inliner.visit(&Value::Object(root));
    if let (false, Value::Object(map)) = (inliner.kept.is_empty(), &mut lowered) {
        let mut needed = inliner.kept.clone();
        let mut queue: Vec<String> = needed.iter().cloned().collect();
        while let Some(name) = queue.pop() {
            let mut found = Vec::new();
            defs.get(&name).into_iter().for_each(|def| references(def, &mut found));
            queue.extend(found.into_iter().filter(|name| needed.insert(name.clone())));
        }
        let kept = defs.iter().filter(|(name, _)| needed.contains(*name));
        map.insert("$defs".into(), kept.map(|(k, v)| (k.clone(), v.clone())).collect::<Map<_, _>>().into());
    }
    lowered
}

struct Inliner<'a> {
    defs: &'a Map<String, Value>,
    open: Vec<String>,
    kept: BTreeSet<String>,
    inlined: usize,
}

impl Inliner<'_> {
    fn visit(&mut self, value: &Value) -> Value {
        match value {
            Value::Array(items) => items.iter().map(|item| self.visit(item)).collect(),
            Value::Object(map) => match reference(map).filter(|name| self.defs.contains_key(name)) {
                Some(name) => self.resolve(name, map),
                None => map.iter().map(|(k, v)| (k.clone(), self.visit(v))).collect::<Map<_, _>>().into(),
            },
            other => other.clone(),
        }
    }

    fn resolve(&mut self, name: String, site: &Map<String, Value>) -> Value {
        if self.open.contains(&name) || self.inlined >= MAX_INLINED {
            self.kept.insert(name);
            return Value::Object(site.clone());
        }
        self.inlined += 1;
        let def = self.defs.get(&name).cloned().unwrap_or_default();
        self.open.push(name);
        let mut lowered = self.visit(&def);
        self.open.pop();
        // Keywords next to the reference (such as a description) refine its target.
        if let Value::Object(map) = &mut lowered {
            for (key, value) in site.iter().filter(|(key, _)| *key != "$ref") {
                map.insert(key.clone(), self.visit(value));
            }
        }
        lowered
    }
}

fn reference(map: &Map<String, Value>) -> Option<String> {
    let pointer = map.get("$ref")?.as_str()?.strip_prefix("#/$defs/")?;
    Some(pointer.replace("~1", "/").replace("~0", "~"))
}

fn references(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        Value::Object(map) => {
            found.extend(reference(map));
            map.values().for_each(|item| references(item, found));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lowered(schema: Value) -> Value {
        lower_schema("f", &schema).unwrap()
    }

    #[test]
    fn type_maps_require_every_key() {
        assert_eq!(
            lowered(json!({"query": "string", "limit": "int"})).to_string(),
            json!({"type": "object", "properties": {"query": {"type": "string"}, "limit": {"type": "integer"}},
                "required": ["limit", "query"]})
            .to_string()
        );
        assert_eq!(lowered(json!({})), json!({"type": "object", "properties": {}, "required": []}));
    }

    #[test]
    fn every_type_name_is_known() {
        let properties = |map: Value| lowered(map)["properties"].clone();
        assert_eq!(
            properties(
                json!({"a": "float", "b": "number", "c": "bool", "d": "list", "e": "dict", "f": "any",
                "g": ["int"], "h": {"x": "string"}, "i": "int?", "j": [["string?"]], "k": {"type": "string", "minLength": 1}})
            ),
            json!({"a": {"type": "number"}, "b": {"type": "number"}, "c": {"type": "boolean"}, "d": {"type": "array"},
                "e": {"type": "object"}, "f": {}, "g": {"type": "array", "items": {"type": "integer"}},
                "h": {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]},
                "i": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
                "j": {"type": "array", "items": {"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "null"}]}}},
                "k": {"type": "string", "minLength": 1}})
        );
    }

    #[test]
    fn a_json_schema_is_kept() {
        for schema in [
            json!({"type": "object", "properties": {"a": {"type": "string"}}}),
            json!({"properties": {}}),
            json!({"$schema": "x", "anything": 1}),
            json!({"type": ["string", "null"]}),
            json!({"$ref": "#/elsewhere"}),
        ] {
            assert_eq!(lowered(schema.clone()), schema);
        }
        assert_eq!(
            lowered(json!({"type": "int"}))["properties"]["type"]["type"],
            "integer",
            "a key named type"
        );
    }

    #[test]
    fn references_are_inlined() {
        let schema = json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/A", "description": "d"}},
            "$defs": {"A": {"type": "array", "items": {"$ref": "#/$defs/B"}}, "B": {"type": "string"}}});
        assert_eq!(
            lowered(schema),
            json!({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string"}, "description": "d"}}})
        );
    }

    #[test]
    fn recursive_references_stay_with_their_defs() {
        let node = json!({"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}, "leaf": {"$ref": "#/$defs/Leaf"}}});
        let schema = json!({"$ref": "#/$defs/Node", "$defs": {"Node": node, "Leaf": {"type": "string"}, "Unused": {}}});
        assert_eq!(
            lowered(schema),
            json!({"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}, "leaf": {"type": "string"}},
                "$defs": {"Node": node, "Leaf": {"type": "string"}}})
        );
    }

    #[test]
    fn doubling_definitions_do_not_explode() {
        let mut defs = Map::new();
        for i in 0..40 {
            let next = json!({"$ref": format!("#/$defs/d{}", i + 1)});
            defs.insert(format!("d{i}"), json!({"anyOf": [next, next]}));
        }
        defs.insert("d40".into(), json!({"type": "string"}));
        let schema = lowered(json!({"$ref": "#/$defs/d0", "$defs": defs}));
        assert!(schema["$defs"].as_object().is_some_and(|defs| !defs.is_empty()));
        assert!(schema.to_string().len() < 1_000_000);
    }

    #[test]
    fn everything_else_is_unsupported() {
        for bad in [
            json!("string"),
            json!(["int"]),
            json!(1),
            json!({"a": 1}),
            json!({"a": "integer"}),
            json!({"a": []}),
            json!({"a": ["int", "int"]}),
            json!({"a": "int??"}),
            Value::opaque("closure", "<fn()>"),
            json!({"a": Value::opaque("set", "set()")}),
        ] {
            assert_eq!(
                lower_schema("define_tool", &bad).unwrap_err().to_string(),
                "define_tool: unsupported schema"
            );
        }
    }
}
