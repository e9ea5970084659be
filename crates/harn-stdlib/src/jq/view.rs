//! Access to parts of values.

use harn_value::{Str, Value, View, steps};

pub(super) fn number(value: &Value) -> Option<f64> {
    value.as_number()
}

/// Returns the items of an array; empty for other values.
pub(super) fn items(value: &Value) -> Vec<Value> {
    let items = match value.view() {
        View::List(items) => items.to_vec(),
        View::Set(items) => items.iter().cloned().collect(),
        _ => Vec::new(),
    };
    steps::steps(items.len());
    items
}

/// Returns the entries of an object in key order; empty for other values.
pub(super) fn entries(value: &Value) -> Vec<(Str, Value)> {
    let Some(dict) = value.to_dict() else { return Vec::new() };
    steps::steps(dict.len());
    dict.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
}
