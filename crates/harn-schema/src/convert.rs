//! Converts canonical schemas to JSON Schema and OpenAPI.

use harn_value::{Dict, Str, Value};

use crate::canonical::{SchemaError, canonical, text};
use crate::with_stack;
use crate::words;

/// The target notation of a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// `type: ["string", "null"]` for nullable values.
    JsonSchema,
    /// `nullable: true` for nullable values.
    OpenApi,
}

/// Converts a schema to JSON Schema.
///
/// # Errors
/// Returns an error if the schema is malformed.
pub fn to_json_schema(schema: &Value, dialect: Dialect) -> Result<Dict, SchemaError> {
    Ok(convert(&canonical(schema)?, dialect))
}

fn convert(schema: &Dict, dialect: Dialect) -> Dict {
    with_stack(|| {
        let mut out = Dict::new();
        let part =
            |value: &Value| value.as_dict().map_or_else(|| value.clone(), |s| convert(s, dialect).into());
        let parts = |value: &Value| {
            value.as_list().map_or_else(|| value.clone(), |l| Value::list(l.iter().map(part).collect()))
        };
        for (key, value) in schema.iter() {
            let (name, value) = match key.as_str() {
                "type" | "nullable" => continue,
                named @ ("properties" | "$defs" | "definitions") => (named, parts_by_name(value, &part)),
                "components" => {
                    let schemas = |(key, value): (&Str, &Value)| {
                        let is_schemas = key.as_str() == "schemas";
                        let value = if is_schemas { parts_by_name(value, &part) } else { value.clone() };
                        (key.clone(), value)
                    };
                    let components = value.as_dict().map(|d| d.iter().map(schemas).collect::<Dict>());
                    ("components", components.map_or_else(|| value.clone(), Value::from))
                }
                "items" => ("items", part(value)),
                "additional_properties" => ("additionalProperties", part(value)),
                "union" => ("oneOf", parts(value)),
                "all_of" => ("allOf", parts(value)),
                "min" => ("minimum", float(value)),
                "max" => ("maximum", float(value)),
                other => (words::json_key(other), value.clone()),
            };
            out.insert(name, value);
        }
        if text(schema.get_str("type")) == Some("set") {
            out.insert("uniqueItems", true);
        }
        let nullable = schema.get_str("nullable").is_some_and(Value::truthy);
        if let Some(name) = text(schema.get_str("type")).filter(|name| *name != "any") {
            out.insert("type", words::json(name));
        }
        match (nullable, dialect) {
            (false, _) => out,
            (true, Dialect::OpenApi) => {
                out.insert("nullable", true);
                out
            }
            (true, Dialect::JsonSchema) => with_null(out),
        }
    })
}

fn parts_by_name(value: &Value, part: &dyn Fn(&Value) -> Value) -> Value {
    let parts = value.as_dict().map(|d| d.iter().map(|(k, v)| (k.clone(), part(v))).collect::<Dict>());
    parts.map_or_else(|| value.clone(), Value::from)
}

/// Keywords that stay outside when a schema becomes a branch: reference targets and annotations.
const OUTSIDE: [&str; 6] = ["$defs", "definitions", "components", "title", "description", "default"];

/// Returns a schema that also accepts null. Every keyword that would reject null is adapted.
fn with_null(mut schema: Dict) -> Dict {
    let null = || Value::from([("type", "null")].into_iter().collect::<Dict>());
    if ["const", "$ref", "allOf"].iter().any(|key| schema.contains(key)) {
        let (mut out, mut branch) = (Dict::new(), Dict::new());
        for (key, value) in schema.iter() {
            let side = if OUTSIDE.contains(&key.as_str()) { &mut out } else { &mut branch };
            side.insert(key.clone(), value.clone());
        }
        out.insert("anyOf", vec![Value::from(branch), null()]);
        return out;
    }
    if let Some(name) = schema.get_str("type").cloned() {
        schema.insert("type", vec![name, Value::str("null")]);
    }
    for (key, more) in [("enum", Value::default()), ("oneOf", null())] {
        if let Some(list) = schema.get_mut(&Str::new(key)).and_then(Value::as_list_mut)
            && !list.contains(&more)
        {
            list.make_mut().push(more);
        }
    }
    schema
}

fn float(value: &Value) -> Value {
    value.as_number().map_or_else(|| value.clone(), Value::float)
}
