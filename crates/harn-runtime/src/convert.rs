//! The border between script values and JSON.
//!
//! What JSON cannot hold (closures, sets, ranges, floats that are not finite, …) crosses it as an opaque
//! value, so that error texts still name its type; on the way back it is nil.

use harn_value::{Data as Json, data::Map};
use harn_value::{Dict, Value, View, steps};
use harn_vm::closure::Partial;
use harn_vm::{Cx, Error, ErrorKind, Result, check_nesting};

/// Converts a script value. Ends the builtin with an error when it is nested too deeply or too large for the memory
/// limit.
pub(crate) fn to_json(value: &Value) -> Json {
    to_json_at(value, 0)
}

fn to_json_at(value: &Value, depth: usize) -> Json {
    check_nesting(depth);
    steps::step();
    let depth = depth + 1;
    let opaque = || Json::opaque(value.type_name(), &value.to_string());
    match value.view() {
        View::Nil => Json::Null,
        View::Bool(b) => b.into(),
        View::Int(i) => i.into(),
        View::Float(f) => serde_json::Number::from_f64(f).map_or_else(opaque, Json::Number),
        View::Str(text) => {
            // The text itself, and what is made of it there: a message, an event.
            steps::room(text.len().saturating_mul(2));
            steps::bytes(text.len());
            text.as_str().into()
        }
        View::List(items) => items.iter().map(|item| to_json_at(item, depth)).collect(),
        View::Dict(dict) => Json::Object(object(dict, depth)),
        View::Struct(instance) => {
            let fields = instance.fields().into_iter();
            Json::Object(fields.map(|(key, value)| (key.to_string(), to_json_at(value, depth))).collect())
        }
        _ => opaque(),
    }
}

/// In the order in which it was written: schemas and parameters go out in it.
fn object(dict: &Dict, depth: usize) -> Map<String, Json> {
    dict.written().map(|(key, value)| (key.to_string(), to_json_at(value, depth))).collect()
}

/// Converts back; nil for what is opaque.
pub(crate) use harn_value::json::from_data as from_json;

/// An option that is kept, so it must be data.
pub(crate) fn data_option(function: &str, options: &Value, key: &str) -> Result<Json> {
    data(&format!("{function}: {key}"), &entry(options, key))
}

/// A value that is kept, so it must be data.
pub(crate) fn data(what: &str, value: &Value) -> Result<Json> {
    let data = to_json(value);
    harn_stdlib::check_data(what, value)?;
    Ok(data)
}

/// An option dict; anything else counts as empty. A list of `tools` may hold registries, such as `tool` declarations make:
/// their tools take their place.
pub(crate) fn options(value: &Value) -> Map<String, Json> {
    let value_of = value;
    match to_json(value) {
        Json::Object(mut map) => {
            for (key, value) in &mut map {
                if let View::Duration(milliseconds) = entry(value_of, key).view() {
                    *value = duration_option(key, milliseconds);
                }
            }
            if let Some(Json::Array(tools)) = map.get_mut("tools") {
                *tools = std::mem::take(tools).into_iter().flat_map(tools_in).collect();
            }
            map
        }
        _ => Map::new(),
    }
}

/// A duration in the unit of its option: milliseconds where the name says so, else seconds.
#[expect(clippy::cast_precision_loss, reason = "waits are far below 2^53 milliseconds")]
fn duration_option(key: &str, milliseconds: i64) -> Json {
    if key.ends_with("_ms") { milliseconds.into() } else { (milliseconds as f64 / 1000.0).into() }
}

fn tools_in(mut item: Json) -> Vec<Json> {
    if harn_agent::agents::is_agent(&item) {
        return vec![harn_agent::agents::tool_entry(&item)];
    }
    match item.get_mut("tools").map(Json::take) {
        Some(Json::Array(tools)) if item["_type"] == "tool_registry" => tools,
        Some(other) => {
            item["tools"] = other;
            vec![item]
        }
        None => vec![item],
    }
}

/// The entry of a dict or the field of a struct, nil when there is none.
pub(crate) fn entry(value: &Value, key: &str) -> Value {
    value.field(key).cloned().unwrap_or_default()
}

/// Text of a value: nil is none, other values their display form.
pub(crate) fn text(value: &Value) -> Option<String> {
    if let View::Str(text) = value.view() {
        steps::room(text.len().saturating_mul(2));
        steps::bytes(text.len());
    }
    (!value.is_nil()).then(|| value.to_string())
}

/// The function that calls a builtin with these arguments in front of its own.
///
/// # Errors
/// No builtin has that name.
pub(crate) fn partial(cx: &Cx, name: &str, args: Vec<Value>) -> Result<Value> {
    let builtin = cx.vm().builtin(name).ok_or_else(|| Error::runtime(format!("no builtin {name}")))?;
    Ok(Partial::value(builtin, args))
}

/// The error that throws a plain string.
pub(crate) fn thrown(text: impl std::fmt::Display) -> Error {
    let text = text.to_string();
    steps::bytes(text.len());
    Error::thrown(text)
}

/// What people are told of an error: what a text says, the message of a dict, else all of it.
pub(crate) fn told(error: &Error) -> String {
    let caught = error.caught();
    let message = entry(&caught, "message");
    match (error.kind(), message.as_str()) {
        (ErrorKind::Thrown(value), _) if value.as_str().is_some() => value.to_string(),
        (ErrorKind::Thrown(_), Some(message)) => message.to_string(),
        _ => error.uncaught_text(),
    }
}

/// Turns an error of a pure crate into a thrown string.
pub(crate) trait OrThrow<T> {
    /// The value, or the error's text thrown.
    fn or_throw(self) -> Result<T>;
}

impl<T, E: std::fmt::Display> OrThrow<T> for std::result::Result<T, E> {
    fn or_throw(self) -> Result<T> {
        self.map_err(thrown)
    }
}
