//! The one form of a schema: snake_case keys, Harn's type names, unknown keys dropped.

use harn_value::{Dict, Str, Value};

use crate::with_stack;
use crate::words;

/// Why a dict is no schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchemaError {
    /// A schema, or a part that must be one, is something else.
    NotADict,
    /// `union` or `all_of` is no list.
    NotAList,
}

impl std::fmt::Display for SchemaError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            SchemaError::NotADict => "schema must be a dict",
            SchemaError::NotAList => "schema union/all_of must be a list",
        })
    }
}

impl std::error::Error for SchemaError {}

/// The canonical spelling of a schema key; `None` for keys that mean nothing.
fn key_name(key: &str) -> Option<&str> {
    Some(match key {
        "additionalProperties" => "additional_properties",
        "minItems" => "min_items",
        "maxItems" => "max_items",
        "minLength" => "min_length",
        "maxLength" => "max_length",
        "minimum" => "min",
        "maximum" => "max",
        "oneOf" | "anyOf" => "union",
        "allOf" => "all_of",
        "type"
        | "properties"
        | "required"
        | "additional_properties"
        | "items"
        | "min_items"
        | "max_items"
        | "min_length"
        | "max_length"
        | "pattern"
        | "min"
        | "max"
        | "enum"
        | "const"
        | "union"
        | "all_of"
        | "nullable"
        | "default"
        | "$ref"
        | "title"
        | "description"
        | "format"
        | "deprecated"
        | "readOnly"
        | "writeOnly"
        | "example"
        | "examples"
        | "x-harn-type" => key,
        _ => return None,
    })
}

/// The canonical form of a schema.
///
/// # Errors
/// When the schema, or a part of it that must be one, is no dict, or a list of branches no list.
pub fn canonical(schema: &Value) -> Result<Dict, SchemaError> {
    let Some(schema) = schema.as_dict() else { return Err(SchemaError::NotADict) };
    with_stack(|| canonical_dict(schema))
}

fn canonical_dict(schema: &Dict) -> Result<Dict, SchemaError> {
    let mut out = Dict::new();
    for (key, value) in schema.iter() {
        let Some(name) = key_name(key) else { continue };
        // When both spellings are given the canonical one wins.
        if name != key.as_str() && schema.contains(name) {
            continue;
        }
        match name {
            "type" => match value.as_list() {
                Some(types) => drop(out.insert("union", types.iter().map(type_schema).collect::<Vec<_>>())),
                None => drop(out.insert("type", canonical_type(value))),
            },
            "properties" => {
                let Some(properties) = value.as_dict() else { return Err(SchemaError::NotADict) };
                let mut parts = Dict::with_capacity(properties.len());
                for (key, part) in properties.iter() {
                    parts.insert(key.clone(), canonical(part)?);
                }
                out.insert("properties", parts);
            }
            "items" => drop(out.insert("items", canonical(value)?)),
            "additional_properties" => match value.as_dict() {
                Some(_) => drop(out.insert("additional_properties", canonical(value)?)),
                None => drop(out.insert("additional_properties", value.clone())),
            },
            "union" | "all_of" => {
                let Some(branches) = value.as_list() else { return Err(SchemaError::NotAList) };
                let branches: Result<Vec<Value>, _> =
                    branches.iter().map(|branch| canonical(branch).map(Value::from)).collect();
                out.insert(name, branches?);
            }
            _ => drop(out.insert(Str::new(name), value.clone())),
        }
    }
    let is = |key: &str, wanted: &str| text(out.get_str(key)) == Some(wanted);
    let unique = schema.get_str("uniqueItems").is_some_and(Value::truthy);
    if is("x-harn-type", "set") || (unique && is("type", "list")) {
        out.insert("type", "set");
    }
    Ok(out)
}

fn canonical_type(value: &Value) -> Value {
    value.as_str().map_or_else(|| value.clone(), |name| Value::str(words::harn(name)))
}

/// `{type: T}`
fn type_schema(value: &Value) -> Value {
    Value::dict([("type", canonical_type(value))].into_iter().collect())
}

/// The text of an entry that is a string.
pub(crate) fn text(value: Option<&Value>) -> Option<&str> {
    value.and_then(Value::as_str).map(|text| text.as_str())
}
