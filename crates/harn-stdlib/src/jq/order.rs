//! The order of jq: null, false, true, numbers, strings, arrays, objects.

use std::cmp::Ordering;

use harn_value::{Value, View, steps};

use super::view::{entries, items, number};
use crate::args::with_stack;

fn rank(value: &Value) -> u8 {
    match value.view() {
        View::Nil => 0,
        View::Bool(false) => 1,
        View::Bool(true) => 2,
        View::Int(_) | View::Float(_) => 3,
        View::Str(_) => 4,
        View::List(_) | View::Set(_) => 5,
        View::Dict(_) | View::Struct(_) => 6,
        _ => 7,
    }
}

/// Compares two values. NaN is less than all other numbers.
pub(super) fn order(a: &Value, b: &Value) -> Ordering {
    steps::step();
    rank(a).cmp(&rank(b)).then_with(|| with_stack(|| same_kind(a, b)))
}

fn is_nan(value: &Value) -> bool {
    value.as_float().is_some_and(f64::is_nan)
}

/// Returns `a == b`, which is false for NaN.
pub(super) fn same(a: &Value, b: &Value) -> bool {
    if rank(a) == 7 { harn_value::equal(a, b) } else { order(a, b).is_eq() && !is_nan(a) }
}

/// Returns `a < b`; NaN is less than every number, including NaN.
pub(super) fn less(a: &Value, b: &Value) -> bool {
    order(a, b).is_lt() || is_nan(a) && is_nan(b)
}

fn same_kind(a: &Value, b: &Value) -> Ordering {
    match (a.view(), b.view()) {
        (View::Int(a), View::Int(b)) => a.cmp(&b),
        (View::Str(a), View::Str(b)) => a.as_str().cmp(b.as_str()),
        (View::Int(_) | View::Float(_), _) => match (number(a), number(b)) {
            (Some(a), Some(b)) => a.partial_cmp(&b).unwrap_or_else(|| b.is_nan().cmp(&a.is_nan())),
            _ => Ordering::Equal,
        },
        (View::List(_) | View::Set(_), _) => {
            let (a, b) = (items(a), items(b));
            let differs = a.iter().zip(&b).map(|(a, b)| order(a, b)).find(|order| order.is_ne());
            differs.unwrap_or_else(|| a.len().cmp(&b.len()))
        }
        (View::Dict(_) | View::Struct(_), _) => {
            let (a, b) = (entries(a), entries(b));
            let keys = a.iter().map(|(key, _)| key.as_str()).cmp(b.iter().map(|(key, _)| key.as_str()));
            let values = || a.iter().zip(&b).map(|((_, a), (_, b))| order(a, b)).find(|order| order.is_ne());
            keys.then_with(|| values().unwrap_or(Ordering::Equal))
        }
        (View::Nil | View::Bool(_), _) => Ordering::Equal,
        _ => a.type_name().cmp(b.type_name()),
    }
}
