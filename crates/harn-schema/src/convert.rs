//! Canonical schemas as JSON Schema and OpenAPI.

use harn_value::{Dict, Str, Value};

use crate::canonical::{SchemaError, canonical, text};
use crate::with_stack;
use crate::words;

/// Which notation a schema is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// `type: ["string", "null"]` for what may be nil.
    JsonSchema,
    /// `nullable: true` for what may be nil.
    OpenApi,
}

/// A schema in the names of JSON Schema.
///
/// # Errors
/// When the schema is malformed.
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
                named @ ("properties" | "$defs") => {
                    let properties = value
                        .as_dict()
                        .map(|d| d.iter().map(|(k, v)| (k.clone(), part(v))).collect::<Dict>());
                    (named, properties.map_or_else(|| value.clone(), Value::from))
                }
                "items" => ("items", part(value)),
                "additional_properties" => ("additionalProperties", part(value)),
                "union" => ("oneOf", parts(value)),
                "all_of" => ("allOf", parts(value)),
                "min" => ("minimum", float(value)),
                "max" => ("maximum", float(value)),
                "min_items" => ("minItems", value.clone()),
                "max_items" => ("maxItems", value.clone()),
                "min_length" => ("minLength", value.clone()),
                "max_length" => ("maxLength", value.clone()),
                other => (other, value.clone()),
            };
            out.insert(name, value);
        }
        if text(schema.get_str("type")) == Some("set") {
            out.insert("uniqueItems", true);
        }
        set_type(
            &mut out,
            text(schema.get_str("type")),
            schema.get_str("nullable").is_some_and(Value::truthy),
            dialect,
        );
        out
    })
}

fn set_type(out: &mut Dict, name: Option<&str>, nullable: bool, dialect: Dialect) {
    let name = name.filter(|name| *name != "any").map(words::json);
    match (nullable, dialect) {
        (false, _) => {
            if let Some(name) = name {
                out.insert("type", name);
            }
        }
        (true, Dialect::OpenApi) => {
            if let Some(name) = name {
                out.insert("type", name);
            }
            out.insert("nullable", true);
        }
        (true, Dialect::JsonSchema) => match name {
            Some(name) => drop(out.insert("type", vec![Value::str(name), Value::str("null")])),
            None => {
                // Without a type of its own nil is one more branch.
                if let Some(branches) = out.get_mut(&Str::new("oneOf")).and_then(Value::as_list_mut) {
                    let null: Dict = [("type", "null")].into_iter().collect();
                    branches.make_mut().push(null.into());
                }
            }
        },
    }
}

fn float(value: &Value) -> Value {
    value.as_number().map_or_else(|| value.clone(), Value::float)
}
