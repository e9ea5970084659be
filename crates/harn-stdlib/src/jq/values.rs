//! Operations on values in jq: access, arithmetic, conversion.

use harn_value::{Dict, Ref, Str, Value, View, json, steps};

use super::order::same;
use super::view::{entries, items, number};
use super::{Flow, fail};
use crate::args::with_stack;

/// Returns the name of a type in jq.
pub(super) fn type_name(value: &Value) -> &'static str {
    match value.view() {
        View::Nil => "null",
        View::Bool(_) => "boolean",
        View::Int(_) | View::Float(_) => "number",
        View::Str(_) => "string",
        View::List(_) | View::Set(_) => "array",
        View::Dict(_) | View::Struct(_) => "object",
        _ => value.type_name(),
    }
}

/// Returns the type and the beginning of the JSON of a value.
pub(super) fn shown(value: &Value) -> String {
    let text = json_text(value);
    let short: String = text.chars().take(11).collect();
    let dots = if short.len() < text.len() { "..." } else { "" };
    format!("{} ({short}{dots})", type_name(value))
}

/// Returns compact JSON; integral floats have no decimal point.
pub(super) fn json_text(value: &Value) -> String {
    match value.as_float() {
        Some(float) => json::stringify(&from_number(float)),
        None => json::stringify(value),
    }
}

/// Returns a string unchanged, other values as JSON.
pub(super) fn text(value: &Value) -> Str {
    value.as_str().cloned().unwrap_or_else(|| json_text(value).into())
}

pub(super) fn holds(value: &Value) -> bool {
    !value.is_nil() && value.as_bool() != Some(false)
}

/// Converts an exactly representable integral float to an int.
pub(super) fn from_number(float: f64) -> Value {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if float.fract() == 0.0 && float.abs() <= EXACT { Value::int(float as i64) } else { Value::float(float) }
}

/// Returns the items of an array.
///
/// # Errors
/// The value is not an array.
pub(super) fn array(value: &Value, name: &str) -> Flow<Vec<Value>> {
    if type_name(value) == "array" {
        Ok(items(value))
    } else {
        fail(format!("{} cannot be {name}", shown(value)))
    }
}

/// Returns the values of an array or object.
pub(super) fn children(value: &Value) -> Option<Vec<Value>> {
    match type_name(value) {
        "array" => Some(items(value)),
        "object" => Some(entries(value).into_iter().map(|(_, value)| value).collect()),
        _ => None,
    }
}

/// Resolves a negative index from the end.
fn place(index: f64, len: usize) -> f64 {
    if index < 0.0 { index + len as f64 } else { index }
}

/// Evaluates `value[key]`.
///
/// # Errors
/// The value does not support such keys.
pub(super) fn index(value: &Value, key: &Value) -> Flow<Value> {
    match (type_name(value), type_name(key)) {
        ("null", "number" | "string" | "object") => Ok(Value::NIL),
        ("object", "string") => {
            let dict = value.to_dict();
            let found = dict.as_ref().zip(key.as_str()).and_then(|(dict, key)| dict.get(key).cloned());
            Ok(found.unwrap_or_default())
        }
        ("array", "number") => {
            let at = |len: usize| {
                let at = place(number(key)?.floor(), len);
                (0.0 <= at && at < len as f64).then_some(at as usize)
            };
            Ok(match value.as_list() {
                Some(list) => at(list.len()).and_then(|at| list.get(at).cloned()).unwrap_or_default(),
                None => {
                    let items = items(value);
                    at(items.len()).map(|at| items[at].clone()).unwrap_or_default()
                }
            })
        }
        ("array", "array") => indices(value, key),
        ("array" | "boolean" | "number" | "string", "string") => {
            fail(format!("cannot index {} with {}", type_name(value), json_text(key)))
        }
        (value, key) => fail(format!("cannot index {value} with {key}")),
    }
}

/// Evaluates `value[start:end]`.
///
/// # Errors
/// The value cannot be sliced, or a bound is not a number.
pub(super) fn slice(value: &Value, start: &Value, end: &Value) -> Flow<Value> {
    let kind = type_name(value);
    if kind == "null" {
        return Ok(Value::NIL);
    }
    if !matches!(kind, "array" | "string") {
        return fail(format!("cannot index {kind} with object"));
    }
    if [start, end].iter().any(|bound| !bound.is_nil() && number(bound).is_none()) {
        return fail("start and end indices of a slice must be numbers");
    }
    let bounds = |len: usize| {
        let start = number(start).map_or(0.0, |at| place(at, len).floor());
        let end = number(end).map_or(len as f64, |at| place(at, len).ceil());
        let start = (start.max(0.0) as usize).min(len);
        (start, (end.max(0.0) as usize).min(len).max(start))
    };
    if let Some(text) = value.as_str() {
        steps::bytes(text.len());
        let (start, end) = bounds(text.char_count());
        let byte = |n: usize| text.char_indices().nth(n).map_or(text.len(), |(at, _)| at);
        return Ok(Value::str(&text[byte(start)..byte(end)]));
    }
    let items = items(value);
    let (start, end) = bounds(items.len());
    Ok(Value::list(items[start..end].to_vec()))
}

pub(super) fn negated(value: &Value) -> Option<Value> {
    match value.as_int().and_then(i64::checked_neg) {
        Some(int) => Some(Value::int(int)),
        None => number(value).map(|n| from_number(-n)),
    }
}

fn wrong<T>(a: &Value, b: &Value, what: &str) -> Flow<T> {
    fail(format!("{} and {} cannot be {what}", shown(a), shown(b)))
}

fn arithmetic(
    a: &Value,
    b: &Value,
    ints: fn(i64, i64) -> Option<i64>,
    floats: fn(f64, f64) -> f64,
) -> Option<Value> {
    if let (Some(a), Some(b)) = (a.as_int(), b.as_int())
        && let Some(int) = ints(a, b)
    {
        return Some(Value::int(int));
    }
    Some(from_number(floats(number(a)?, number(b)?)))
}

/// Evaluates `a + b`.
///
/// # Errors
/// The types cannot be added.
pub(super) fn add(a: &Value, b: &Value) -> Flow<Value> {
    if a.is_nil() {
        return Ok(b.clone());
    }
    if b.is_nil() {
        return Ok(a.clone());
    }
    if let Some(sum) = arithmetic(a, b, i64::checked_add, |a, b| a + b) {
        return Ok(sum);
    }
    match (type_name(a), type_name(b)) {
        ("string", "string") => {
            let (a, b) = (text(a), text(b));
            steps::bytes(a.len() + b.len());
            steps::room(a.len() + b.len());
            Ok(Value::from([a.as_str(), b.as_str()].concat()))
        }
        ("array", "array") => {
            let mut all = items(a);
            all.extend(items(b));
            Ok(Value::list(all))
        }
        ("object", "object") => Ok(Value::dict(entries(a).into_iter().chain(entries(b)).collect::<Dict>())),
        _ => wrong(a, b, "added"),
    }
}

/// Evaluates `a - b`.
///
/// # Errors
/// The types cannot be subtracted.
pub(super) fn subtract(a: &Value, b: &Value) -> Flow<Value> {
    if let Some(difference) = arithmetic(a, b, i64::checked_sub, |a, b| a - b) {
        return Ok(difference);
    }
    if (type_name(a), type_name(b)) != ("array", "array") {
        return wrong(a, b, "subtracted");
    }
    let gone = items(b);
    let mut left = items(a);
    left.retain(|item| !gone.iter().any(|gone| same(item, gone)));
    Ok(Value::list(left))
}

/// Evaluates `a * b`.
///
/// # Errors
/// The types cannot be multiplied.
pub(super) fn multiply(a: &Value, b: &Value) -> Flow<Value> {
    if let Some(product) = arithmetic(a, b, i64::checked_mul, |a, b| a * b) {
        return Ok(product);
    }
    match (type_name(a), type_name(b)) {
        ("string", "number") => repeated(a, b),
        ("number", "string") => repeated(b, a),
        ("object", "object") => Ok(merged(a, b)),
        _ => wrong(a, b, "multiplied"),
    }
}

fn repeated(string: &Value, count: &Value) -> Flow<Value> {
    let (string, count) = (text(string), number(count).unwrap_or(0.0));
    if count.is_nan() || count < 0.0 {
        return Ok(Value::NIL);
    }
    let count = if 0.0 < count && count < 1.0 { 1 } else { count as usize };
    let len = string.len().saturating_mul(count);
    if isize::try_from(len).is_err() {
        return fail("the repeated string is too long");
    }
    steps::room(len);
    steps::bytes(len);
    Ok(Value::from(string.repeat(count)))
}

fn merged(a: &Value, b: &Value) -> Value {
    let mut dict: Dict = entries(a).into_iter().collect();
    for (key, new) in entries(b) {
        let old = dict.get(&key).filter(|old| type_name(old) == "object" && type_name(&new) == "object");
        let new = match old {
            Some(old) => with_stack(|| merged(old, &new)),
            None => new,
        };
        dict.insert(key, new);
    }
    Value::dict(dict)
}

/// Evaluates `a / b`.
///
/// # Errors
/// The types cannot be divided, or `b` is 0.
pub(super) fn divide(a: &Value, b: &Value) -> Flow<Value> {
    if let (Some(a), Some(b)) = (a.as_str(), b.as_str()) {
        return Ok(split(a, b));
    }
    let exact = |a: i64, b: i64| if a.checked_rem(b)? == 0 { a.checked_div(b) } else { None };
    match number(b).filter(|divisor| *divisor == 0.0 && number(a).is_some()) {
        Some(_) => wrong(a, b, "divided because the divisor is zero"),
        None => arithmetic(a, b, exact, |a, b| a / b).map_or_else(|| wrong(a, b, "divided"), Ok),
    }
}

/// Evaluates `a % b` on the integral parts.
///
/// # Errors
/// The types cannot be divided, or `b` is 0.
pub(super) fn remainder(a: &Value, b: &Value) -> Flow<Value> {
    let (Some(x), Some(y)) = (number(a), number(b)) else { return wrong(a, b, "divided") };
    if x.is_nan() || y.is_nan() {
        return Ok(Value::float(f64::NAN));
    }
    let whole = |value: &Value, float: f64| value.as_int().unwrap_or(float as i64);
    match whole(b, y) {
        0 => wrong(a, b, "divided because the divisor is zero"),
        divisor => Ok(Value::int(whole(a, x).wrapping_rem(divisor))),
    }
}

/// Splits a string at a separator; an empty separator splits it into characters.
pub(super) fn split(text: &str, separator: &str) -> Value {
    steps::bytes(text.len());
    Value::list(match (text, separator) {
        ("", _) => Vec::new(),
        (_, "") => steps::gather(text.chars().map(|c| Value::str(c.encode_utf8(&mut [0; 4])))),
        _ => steps::gather(text.split(separator).map(Value::str)),
    })
}

/// Returns an object with entries.
pub(super) fn object(entries: impl IntoIterator<Item = (&'static str, Value)>) -> Value {
    Value::dict(entries.into_iter().collect::<Dict>())
}

/// Returns the dict of an object.
pub(super) fn dict(value: &Value) -> Option<Ref<Dict>> {
    value.to_dict()
}

/// Returns the positions of a substring, a sublist or an item.
///
/// # Errors
/// The value does not support such parts.
pub(super) fn indices(value: &Value, part: &Value) -> Flow<Value> {
    if value.is_nil() {
        return Ok(Value::NIL);
    }
    if let (Some(text), Some(part)) = (value.as_str(), part.as_str()) {
        let starts = |(_, (at, _)): &(usize, (usize, char))| text[*at..].starts_with(part.as_str());
        let found = steps::each(text.char_indices().enumerate()).filter(starts);
        let places = if part.is_empty() { Vec::new() } else { found.map(|(n, _)| Value::from(n)).collect() };
        return Ok(Value::list(places));
    }
    if type_name(value) != "array" {
        return fail(format!("cannot search {} for {}", shown(value), shown(part)));
    }
    let (own, part) =
        (items(value), if type_name(part) == "array" { items(part) } else { vec![part.clone()] });
    if part.is_empty() {
        return Ok(Value::list(Vec::new()));
    }
    let at = |start: &usize| own[*start..].iter().zip(&part).all(|(a, b)| same(a, b));
    let starts = 0..(own.len() + 1).saturating_sub(part.len());
    Ok(Value::list(steps::each(starts).filter(at).map(Value::from).collect()))
}
