//! Script values that pass through JSON and come back: closures, sets and the like are kept beside it.
//!
//! A workflow's graph is plain data to the crate that works with it, but the tools of its nodes have handlers. Here
//! they get a number on the way in, and their place back on the way out.

use harn_value::{Dict, Value, View, steps};
use harn_vm::check_nesting;
use serde_json::{Map, Value as Json};

use crate::convert::to_json;

/// The reserved key of a value that was kept. No Harn source writes it by accident: it starts with a NUL.
const KEY: &str = "\u{0}kept";

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
                let mut map = Map::new();
                map.insert(KEY.to_owned(), (self.0.len() - 1).into());
                Json::Object(map)
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
            Json::Object(map) => match number(map) {
                Some(at) => self.0.get(at).cloned().unwrap_or_default(),
                None => {
                    map.iter().map(|(key, value)| (key.as_str(), self.give(value))).collect::<Dict>().into()
                }
            },
            plain => crate::convert::from_json(plain),
        }
    }
}

/// What of a value a file can hold.
pub(crate) fn plain(json: &Json) -> Json {
    match json {
        Json::Array(items) => items.iter().map(plain).collect(),
        Json::Object(map) if number(map).is_some() => Json::Null,
        Json::Object(map) => {
            Json::Object(map.iter().map(|(key, value)| (key.clone(), plain(value))).collect())
        }
        other => other.clone(),
    }
}

fn number(map: &Map<String, Json>) -> Option<usize> {
    if map.len() != 1 {
        return None;
    }
    map.get(KEY)?.as_u64().and_then(|at| usize::try_from(at).ok())
}
