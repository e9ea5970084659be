//! Script values that pass through JSON and back: closures, sets and similar values are stored separately.
//!
//! For example, a workflow's graph is plain data for the crate that processes it, but the tools of its nodes have
//! handlers. They are replaced by numbers and later restored.

use harn_value::Data as Json;
use harn_value::data::{Map, Opaque};
use harn_value::{Dict, Value, View, steps};
use harn_vm::check_nesting;

use crate::convert::to_json;

/// Values that JSON cannot represent.
#[derive(Default)]
pub(crate) struct Kept(Vec<Value>);

impl Kept {
    /// Converts a value, and stores the parts that JSON cannot represent.
    pub(crate) fn take(&mut self, value: &Value) -> Json {
        self.take_at(value, 0)
    }

    fn take_at(&mut self, value: &Value, depth: usize) -> Json {
        check_nesting(depth);
        steps::step();
        match value.view() {
            View::List(items) => items.iter().map(|item| self.take_at(item, depth + 1)).collect(),
            View::Dict(dict) => Json::Object(self.object(dict, depth + 1)),
            View::Struct(_) => {
                value.to_dict().map_or(Json::Null, |dict| Json::Object(self.object(&dict, depth + 1)))
            }
            View::Nil | View::Bool(_) | View::Int(_) | View::Str(_) => to_json(value),
            View::Float(number) if number.is_finite() => to_json(value),
            _ => {
                self.0.push(value.clone());
                let (text, kept) = (value.to_string().into(), Some(self.0.len() - 1));
                Json::Opaque(Box::new(Opaque { type_name: value.type_name(), text, kept }))
            }
        }
    }

    fn object(&mut self, dict: &Dict, depth: usize) -> Map<String, Json> {
        let millis = |key: &str, value: &Value| match value.view() {
            // Delays between retries, and the timeout of a command that verifies.
            View::Duration(ms) if key == "backoff_ms" || (key == "timeout" && dict.contains("command")) => {
                Some(ms)
            }
            _ => None,
        };
        dict.written()
            .map(|(key, value)| {
                let value = match millis(key.as_str(), value) {
                    Some(ms) => ms.into(),
                    None => self.take_at(value, depth),
                };
                (key.to_string(), value)
            })
            .collect()
    }

    /// Converts back.
    pub(crate) fn give(&self, json: &Json) -> Value {
        match json {
            Json::Array(items) => Value::list(items.iter().map(|item| self.give(item)).collect()),
            Json::Object(map) => {
                map.iter().map(|(key, value)| (key.as_str(), self.give(value))).collect::<Dict>().into()
            }
            Json::Opaque(opaque) => opaque.kept.and_then(|at| self.0.get(at)).cloned().unwrap_or_default(),
            plain => crate::convert::from_json(plain),
        }
    }
}
