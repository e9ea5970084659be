//! TOML.

use harn_value::{Dict, Value, View, short, steps};
use harn_vm::builtin::Text;
use harn_vm::error::SHOWN;
use harn_vm::{Error, Result, builtins};

use crate::args::{printed, room_for_bytes, with_stack};

builtins! {
    /// TOML.
    pub(crate) static TOML: "toml";

    /// Parses TOML; dates and times become strings.
    ///
    /// ```harn
    /// println(toml_parse("a = 1\n[b]\nc = [1.5, \"x\"]\nd = 2024-01-15")) // -> {a: 1, b: {c: [1.5, x], d: 2024-01-15}}
    /// println(is_err(try { toml_parse("a = ") })) // -> true
    /// ```
    Pure fn toml_parse(cx, s: Text as "string") -> "dict" {
        if s.len() > MAX_TEXT {
            let text = format!("toml_parse: a text of {} bytes, at most {MAX_TEXT} are read", s.len());
            return Err(Error::thrown(text));
        }
        let s = s.strip_prefix('\u{feff}').unwrap_or(&s);
        // The memory that the parser needs for short entries; parsing cannot be interrupted.
        room_for_bytes(s.len().saturating_mul(32))?;
        from_table(&s.parse::<toml::Table>().map_err(|reason| unparsable(s, &reason))?)
    }

    /// Serializes a dict as TOML.
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
        toml::to_string(&to_table(&dict, 0)?).map_err(|reason| Error::thrown(format!("toml_stringify: {reason}")))?
    }
}

/// Returns the error for text that is not valid TOML, with line and column from 1; columns are in characters.
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

/// Maximum size of a document in bytes, far above handwritten files.
const MAX_TEXT: usize = 16 << 20;

/// Maximum nesting depth of the output; [`toml_parse`] accepts about as many levels.
const MAX_DEPTH: usize = 80;

fn to_table(dict: &Dict, depth: usize) -> Result<toml::Table> {
    dict.iter().map(|(key, value)| Ok((key.to_string(), to_toml(key, value, depth + 1)?))).collect()
}

fn to_array<'a>(key: &str, items: impl Iterator<Item = &'a Value>, depth: usize) -> Result<toml::Value> {
    items.map(|item| to_toml(key, item, depth + 1)).collect::<Result<Vec<_>>>().map(toml::Value::Array)
}

fn to_toml(key: &str, value: &Value, depth: usize) -> Result<toml::Value> {
    steps::step();
    if depth > MAX_DEPTH {
        let text = format!(
            "toml_stringify: more than {MAX_DEPTH} levels of nesting at '{}'",
            short(&Value::str(key), SHOWN)
        );
        return Err(Error::thrown(text));
    }
    Ok(match value.view() {
        View::Nil => {
            return Err(Error::thrown(format!("toml_stringify: unsupported nil value at '{key}'")));
        }
        View::Bool(b) => toml::Value::Boolean(b),
        View::Int(i) => toml::Value::Integer(i),
        View::Float(f) => toml::Value::Float(f),
        View::List(items) => to_array(key, items.iter(), depth)?,
        View::Set(items) => to_array(key, items.iter(), depth)?,
        View::Dict(dict) => toml::Value::Table(to_table(dict, depth)?),
        View::Struct(instance) => toml::Value::Table(to_table(&instance.to_dict(), depth)?),
        _ => toml::Value::String(printed(value).to_string()),
    })
}
