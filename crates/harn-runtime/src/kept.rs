//! Script values that pass through data and come back: closures, sets and the like are kept beside it.
//!
//! A workflow's graph is plain data to the crate that works with it, but the tools of its nodes have handlers. Here
//! they get a number on the way in, and their place back on the way out.

use harn_value::Data as Json;
use harn_value::data::{Map, Opaque};
use harn_value::{Dict, Value, View, steps};
use harn_vm::check_nesting;

use crate::convert::to_json;

/// Values that JSON has no word for.
#[derive(Default)]
pub(crate) struct Kept(Vec<Value>);

impl Kept {
    /// Converts a value, keeping what JSON cannot hold.
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
            // Pauses of retries, and the time of a command that verifies.
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
