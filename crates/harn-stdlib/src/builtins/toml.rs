//! TOML.

use harn_value::{Dict, Value, View};
use harn_vm::builtin::Text;
use harn_vm::{Error, Result, builtins};

use crate::args::{printed, with_stack};

builtins! {
    /// TOML.
    pub(crate) static TOML: "toml";

    /// Reads TOML; dates and times become text.
    ///
    /// ```harn
    /// println(toml_parse("a = 1\n[b]\nc = [1.5, \"x\"]\nd = 2024-01-15")) // -> {a: 1, b: {c: [1.5, x], d: 2024-01-15}}
    /// println(is_err(try { toml_parse("a = ") })) // -> true
    /// ```
    Pure fn toml_parse(cx, s: Text) -> "dict" {
        from_table(&s.parse::<toml::Table>().map_err(|reason| unparsable(&s, &reason))?)
    }

    /// Writes a dict as TOML.
    ///
    /// ```harn
    /// print(toml_stringify({a: 1})) // -> a = 1
    /// println(try { toml_stringify({a: nil}) }) // -> Result.Err(toml_stringify: unsupported nil value at 'a')
    /// ```
    Pure fn toml_stringify(cx, value: Value) -> "string" {
        let Some(dict) = value.to_dict() else {
            let text = format!("toml_stringify: the top level must be a dict, got {}", value.type_name());
            return Err(Error::thrown(text));
        };
        toml::to_string(&to_table(&dict)?).map_err(|reason| Error::thrown(format!("toml_stringify: {reason}")))?
    }
}

/// Why a text is no TOML, with the place, both from 1 and columns in characters.
fn unparsable(text: &str, reason: &toml::de::Error) -> Error {
    let place = reason.span().and_then(|span| text.get(..span.start)).map(|before| {
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        format!(" at line {line}, column {column}")
    });
    Error::thrown(format!("TOML parse error: {}{}", reason.message(), place.unwrap_or_default()))
}

fn from_table(table: &toml::Table) -> Dict {
    table.iter().map(|(key, value)| (key.as_str(), from_toml(value))).collect()
}

fn from_toml(value: &toml::Value) -> Value {
    match value {
        toml::Value::String(text) => Value::str(text),
        toml::Value::Integer(i) => Value::int(*i),
        toml::Value::Float(f) => Value::float(*f),
        toml::Value::Boolean(b) => Value::bool(*b),
        toml::Value::Datetime(time) => Value::from(time.to_string()),
        toml::Value::Array(items) => with_stack(|| Value::list(items.iter().map(from_toml).collect())),
        toml::Value::Table(table) => with_stack(|| from_table(table).into()),
    }
}

fn to_table(dict: &Dict) -> Result<toml::Table> {
    with_stack(|| dict.iter().map(|(key, value)| Ok((key.to_string(), to_toml(key, value)?))).collect())
}

fn to_toml(key: &str, value: &Value) -> Result<toml::Value> {
    Ok(match value.view() {
        View::Nil => {
            return Err(Error::thrown(format!("toml_stringify: unsupported nil value at '{key}'")));
        }
        View::Bool(b) => toml::Value::Boolean(b),
        View::Int(i) => toml::Value::Integer(i),
        View::Float(f) => toml::Value::Float(f),
        View::List(items) => {
            let items: Result<Vec<_>> = with_stack(|| items.iter().map(|item| to_toml(key, item)).collect());
            toml::Value::Array(items?)
        }
        View::Set(items) => {
            let items: Result<Vec<_>> = with_stack(|| items.iter().map(|item| to_toml(key, item)).collect());
            toml::Value::Array(items?)
        }
        View::Dict(dict) => toml::Value::Table(to_table(dict)?),
        View::Struct(instance) => toml::Value::Table(to_table(&instance.to_dict())?),
        _ => toml::Value::String(printed(value).to_string()),
    })
}
