//! Conversion between script values and JSON.
//!
//! Values that JSON cannot represent (closures, sets, ranges, floats that are not finite, …) become opaque values, so
//! that error messages can name their types; converting an opaque value back yields nil.

use harn_value::{Data as Json, data::Map};
use harn_value::{Dict, Value, View, steps};
use harn_vm::closure::{Partial, is_callable, tool_definition};
use harn_vm::{Cx, Error, ErrorKind, Result, check_nesting};

/// Converts a script value. Ends the builtin with an error when the value is nested too deeply or too large for the
/// memory limit.
pub(crate) fn to_json(value: &Value) -> Json {
    to_json_at(value, 0, Lacking::Opaque)
}

/// Converts a result of a tool, or other data of a program, for models and events: at any depth, sets become lists, and other
/// values that JSON lacks (enums, durations, ranges, bytes, ...) their printed form.
pub(crate) fn to_plain_json(value: &Value) -> Json {
    to_json_at(value, 0, Lacking::Plain)
}

/// The form of values that JSON lacks.
#[derive(Clone, Copy)]
enum Lacking {
    /// An opaque value that has its type.
    Opaque,
    /// A list for a set, else the printed form.
    Plain,
}

fn to_json_at(value: &Value, depth: usize, lacking: Lacking) -> Json {
    check_nesting(depth);
    steps::step();
    let depth = depth + 1;
    let other = || match lacking {
        Lacking::Opaque => Json::opaque(value.type_name(), &value.to_string()),
        Lacking::Plain => value.to_string().into(),
    };
    match value.view() {
        View::Nil => Json::Null,
        View::Bool(b) => b.into(),
        View::Int(i) => i.into(),
        View::Float(f) => serde_json::Number::from_f64(f).map_or_else(other, Json::Number),
        View::Str(text) => {
            // The string itself, and the message or event that will contain it.
            steps::room(text.len().saturating_mul(2));
            steps::bytes(text.len());
            text.as_str().into()
        }
        View::List(items) => items.iter().map(|item| to_json_at(item, depth, lacking)).collect(),
        View::Set(set) if matches!(lacking, Lacking::Plain) => {
            set.iter().map(|item| to_json_at(item, depth, lacking)).collect()
        }
        View::Dict(dict) => Json::Object(object(dict, depth, lacking)),
        View::Struct(instance) => {
            let fields = instance.fields().into_iter();
            Json::Object(
                fields.map(|(key, value)| (key.to_string(), to_json_at(value, depth, lacking))).collect(),
            )
        }
        _ => other(),
    }
}

/// Preserves insertion order, because schemas and parameters are sent in this order.
fn object(dict: &Dict, depth: usize, lacking: Lacking) -> Map<String, Json> {
    dict.written().map(|(key, value)| (key.to_string(), to_json_at(value, depth, lacking))).collect()
}

/// Converts back; opaque values become nil.
pub(crate) use harn_value::json::from_data as from_json;

/// Reads an option that is stored, and must therefore be data.
pub(crate) fn data_option(function: &str, options: &Value, key: &str) -> Result<Json> {
    data(&format!("{function}: {key}"), &entry(options, key))
}

/// Converts a value that is stored, and must therefore be data.
pub(crate) fn data(what: &str, value: &Value) -> Result<Json> {
    let data = to_json(value);
    harn_stdlib::check_data(what, value)?;
    Ok(data)
}

/// Converts an option dict; other values yield an empty one. A list of `tools` may contain registries, as created by
/// `tool` declarations: they are replaced by their tools.
pub(crate) fn options(value: &Value) -> Map<String, Json> {
    let value_of = value;
    match to_json(value) {
        Json::Object(mut map) => {
            for (key, value) in &mut map {
                if let View::Duration(milliseconds) = entry(value_of, key).view() {
                    *value = duration_option(key, milliseconds);
                }
            }
            let given = entry(value_of, "tools");
            if given.as_list().is_some_and(|list| list.iter().any(is_callable)) {
                map.insert("tools".to_owned(), to_json(&with_functions(&given)));
            }
            if let Some(Json::Array(tools)) = map.get_mut("tools") {
                *tools = std::mem::take(tools).into_iter().flat_map(tools_in).collect();
            }
            map
        }
        _ => Map::new(),
    }
}

/// A list of tools in which the definitions of their tools replace functions; other values as they are.
pub(crate) fn with_functions(tools: &Value) -> Value {
    match tools.as_list() {
        Some(list) if list.iter().any(is_callable) => {
            let tool = |item: &Value| tool_definition(item).unwrap_or_else(|| item.clone());
            Value::list(list.iter().map(tool).collect())
        }
        _ => tools.clone(),
    }
}

/// Converts a duration to the unit of its option: milliseconds if the name ends with `_ms`, else seconds.
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

/// Returns the entry of a dict or the field of a struct; nil if it is missing.
pub(crate) fn entry(value: &Value, key: &str) -> Value {
    value.field(key).cloned().unwrap_or_default()
}

/// Converts a value to a string: `None` for nil, the display form for other values.
pub(crate) fn text(value: &Value) -> Option<String> {
    if let View::Str(text) = value.view() {
        steps::room(text.len().saturating_mul(2));
        steps::bytes(text.len());
    }
    (!value.is_nil()).then(|| value.to_string())
}

/// Returns a function that calls a builtin with `args` before its own arguments.
///
/// # Errors
/// The builtin does not exist.
pub(crate) fn partial(cx: &Cx, name: &str, args: Vec<Value>) -> Result<Value> {
    let builtin = cx.vm().builtin(name).ok_or_else(|| Error::runtime(format!("no builtin {name}")))?;
    Ok(Partial::value(builtin, args))
}

/// Returns the error that throws a plain string.
pub(crate) fn thrown(text: impl std::fmt::Display) -> Error {
    let text = text.to_string();
    steps::bytes(text.len());
    Error::thrown(text)
}

/// Returns the user-facing message of an error: a thrown string, the `message` of a dict, or else the whole value.
pub(crate) fn told(error: &Error) -> String {
    let caught = error.caught();
    let message = entry(&caught, "message");
    match (error.kind(), message.as_str()) {
        (ErrorKind::Thrown(value), _) if value.as_str().is_some() => value.to_string(),
        (ErrorKind::Thrown(_), Some(message)) => message.to_string(),
        _ => error.uncaught_text(),
    }
}

/// Converts an error of a pure crate to a thrown string.
pub(crate) trait OrThrow<T> {
    /// Returns the value, or throws the message of the error.
    fn or_throw(self) -> Result<T>;
}

impl<T, E: std::fmt::Display> OrThrow<T> for std::result::Result<T, E> {
    fn or_throw(self) -> Result<T> {
        self.map_err(thrown)
    }
}
