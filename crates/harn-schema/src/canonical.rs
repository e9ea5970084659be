//! The canonical form of a schema: snake_case keys, Harn's type names, no unknown keys.

use harn_value::{Dict, Str, Value, steps};

use crate::with_stack;
use crate::{words, written};

/// The reason why a value is not a valid schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SchemaError {
    /// A schema, or a part that must be a schema, is not a dict.
    NotADict,
    /// `union` or `all_of` is not a list.
    NotAList,
    /// A keyword has an invalid value.
    Keyword {
        /// The keyword as written.
        name: String,
        /// The expected value.
        expected: &'static str,
        /// The type of its value.
        got: &'static str,
    },
    /// An unknown keyword similar to an existing one.
    Unknown {
        /// The key.
        name: String,
        /// The similar keyword.
        near: &'static str,
    },
}

impl std::fmt::Display for SchemaError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SchemaError::NotADict => f.write_str("schema must be a dict"),
            SchemaError::NotAList => f.write_str("schema union/all_of must be a list"),
            SchemaError::Keyword { name, expected, got } => {
                write!(f, "schema {name} must be {expected}, got {got}")
            }
            SchemaError::Unknown { name, near } => {
                write!(f, "schema: unknown keyword `{name}`; did you mean `{near}`?")
            }
        }
    }
}

impl std::error::Error for SchemaError {}

/// Returns the canonical spelling of a schema key; `None` for unknown keys.
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
        | "$defs"
        | "definitions"
        | "components"
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

/// Returns the canonical form of a schema.
///
/// # Errors
/// Returns an error if the schema or a subschema is not a dict, a list of branches is not a list, a keyword has an
/// invalid value, or a key is a misspelt keyword.
pub fn canonical(schema: &Value) -> Result<Dict, SchemaError> {
    let Some(schema) = schema.as_dict() else { return Err(SchemaError::NotADict) };
    with_stack(|| canonical_dict(schema))
}

fn canonical_dict(schema: &Dict) -> Result<Dict, SchemaError> {
    let mut out = Dict::new();
    for (key, value) in steps::each(schema.iter()) {
        let Some(name) = key_name(key) else {
            if let Some(near) = written::meant_keyword(key) {
                return Err(SchemaError::Unknown { name: key.as_str().to_owned(), near });
            }
            continue;
        };
        if let Some(expected) = unfit(name, value) {
            return Err(SchemaError::Keyword {
                name: key.as_str().to_owned(),
                expected,
                got: value.type_name(),
            });
        }
        // The canonical spelling takes precedence if both are present.
        if name != key.as_str() && schema.contains(name) {
            continue;
        }
        match name {
            "type" => match value.as_list() {
                Some(types) => drop(out.insert("union", types.iter().map(type_schema).collect::<Vec<_>>())),
                None => drop(out.insert("type", canonical_type(value))),
            },
            "properties" | "$defs" | "definitions" => drop(out.insert(name, canonical_parts(value)?)),
            // References point here, so referenced parts must be retained; OpenAPI also stores other objects here.
            "components" => {
                let mut components =
                    value.as_dict().map(|dict| (**dict).clone()).ok_or(SchemaError::NotADict)?;
                if let Some(schemas) = components.get_str("schemas") {
                    let schemas = canonical_parts(schemas)?;
                    components.insert("schemas", schemas);
                }
                out.insert(name, components);
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

/// Canonicalizes a dict of named schemas.
fn canonical_parts(value: &Value) -> Result<Dict, SchemaError> {
    let Some(named) = value.as_dict() else { return Err(SchemaError::NotADict) };
    named.iter().map(|(key, part)| Ok((key.clone(), Value::from(canonical(part)?)))).collect()
}

/// Returns the expected value of a keyword if `value` is invalid. Nil is equivalent to a missing keyword.
fn unfit(name: &str, value: &Value) -> Option<&'static str> {
    let is_text = |value: &Value| value.as_str().is_some();
    let all = |fits: &dyn Fn(&Value) -> bool| value.as_list().is_some_and(|list| list.iter().all(fits));
    let is_count = || value.as_number().is_some_and(|count| count >= 0.0 && count.fract() == 0.0);
    let (fits, expected) = match name {
        _ if value.is_nil() => return None,
        "type" => (is_text(value) || all(&is_text), "a type or a list of types"),
        // A bool in a property: the older OpenAPI spelling.
        "required" => (value.as_bool().is_some() || all(&is_text), "a list of names"),
        "enum" => (value.as_list().is_some(), "a list of values"),
        "additional_properties" => {
            (value.as_bool().is_some() || value.as_dict().is_some(), "a bool or a schema")
        }
        "nullable" => (value.as_bool().is_some(), "a bool"),
        "min_items" | "max_items" | "min_length" | "max_length" => {
            (is_count(), "a whole number of 0 or more")
        }
        "min" | "max" => (value.as_number().is_some(), "a number"),
        "pattern" | "$ref" => (is_text(value), "a string"),
        _ => return None,
    };
    (!fits).then_some(expected)
}

fn canonical_type(value: &Value) -> Value {
    value.as_str().map_or_else(|| value.clone(), |name| Value::str(words::harn(name)))
}

/// `{type: T}`
fn type_schema(value: &Value) -> Value {
    Value::dict([("type", canonical_type(value))].into_iter().collect())
}

/// Returns the content if the entry is a string.
pub(crate) fn text(value: Option<&Value>) -> Option<&str> {
    value.and_then(Value::as_str).map(|text| text.as_str())
}
