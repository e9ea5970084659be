//! Semantics of values in templates: string form, truthiness, order, field access. They differ from those of the
//! language: blank strings are falsy, and a path step on any value returns at least `nil`.

use std::borrow::Cow;
use std::cmp::Ordering;

use harn_value::{Str, Value, View};

/// Returns the string form: `nil` is empty, a string is unchanged, everything else is formatted like `to_string`.
pub(crate) fn text_of(value: &Value) -> Cow<'_, str> {
    match value.view() {
        View::Nil => Cow::Borrowed(""),
        View::Str(s) => Cow::Borrowed(s.as_str()),
        _ => Cow::Owned(value.to_string()),
    }
}

/// Appends the string form.
#[inline]
pub(crate) fn write_value(value: &Value, out: &mut String) {
    match value.view() {
        View::Nil => {}
        View::Str(s) => {
            harn_value::steps::reserve(out, s.len());
            out.push_str(s);
        }
        View::Int(i) => harn_value::print_int(i, out),
        _ => harn_value::print(value, out),
    }
}

/// Returns the truthiness for `if`, `and`, `or`, `not` and `default`: as in the language, except that blank strings
/// are falsy and a zero duration and empty bytes are truthy.
#[inline]
pub(crate) fn truthy(value: &Value) -> bool {
    match value.view() {
        View::Nil => false,
        View::Bool(b) => b,
        View::Int(i) => i != 0,
        View::Float(f) => f != 0.0,
        View::Str(s) => !s.trim_start().is_empty(),
        View::List(items) => !items.is_empty(),
        View::Set(items) => !items.is_empty(),
        View::Dict(dict) => !dict.is_empty(),
        _ => true,
    }
}

/// Compares two numbers or two strings; `None` for anything else and for NaN.
pub(crate) fn order(a: &Value, b: &Value) -> Option<Ordering> {
    use View::{Float, Int};
    match (a.view(), b.view()) {
        (Int(_) | Float(_), Int(_) | Float(_)) | (View::Str(_), View::Str(_)) => harn_value::compare(a, b),
        _ => None,
    }
}

/// Returns the field of a dict or struct instance; `None` if it is absent or the value has no fields.
#[inline]
pub(crate) fn field<'v>(value: &'v Value, name: &Str) -> Option<&'v Value> {
    if let Some(dict) = value.as_dict() {
        return dict.get(name);
    }
    value.as_struct().and_then(|object| object.get(name))
}

/// Returns the item of a list or the character of a string; a negative index is relative to the end.
pub(crate) fn index(value: &Value, index: i64) -> Option<Cow<'_, Value>> {
    let place = |length: usize| {
        let at = if index < 0 { i64::try_from(length).ok()?.checked_add(index)? } else { index };
        usize::try_from(at).ok().filter(|at| *at < length)
    };
    match value.view() {
        View::List(items) => place(items.len()).map(|at| Cow::Borrowed(&items[at])),
        View::Str(s) => place(s.char_count()).map(|at| Cow::Owned(Value::str(s.char_range(at, at + 1)))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_for_numbers_and_text_only() {
        assert_eq!(order(&Value::int(1), &Value::float(1.5)), Some(Ordering::Less));
        assert_eq!(order(&Value::str("a"), &Value::str("B")), Some(Ordering::Greater));
        assert_eq!(order(&Value::NIL, &Value::NIL), None);
        assert_eq!(order(&Value::TRUE, &Value::TRUE), None);
        assert_eq!(order(&Value::duration(1), &Value::duration(1)), None);
        assert_eq!(order(&Value::float(f64::NAN), &Value::int(1)), None);
    }

    #[test]
    fn indices_count_from_both_ends() {
        let list = Value::list(vec![Value::int(10), Value::int(20)]);
        let at = |i| index(&list, i).map(|v| v.as_int());
        assert_eq!(
            (at(0), at(-1), at(2), at(-3), at(i64::MIN)),
            (Some(Some(10)), Some(Some(20)), None, None, None)
        );
        let text = Value::str("aé");
        assert_eq!(index(&text, -1).map(|v| v.to_string()).as_deref(), Some("é"));
        assert_eq!(index(&Value::int(5), 0).map(Cow::into_owned), None);
    }

    #[test]
    fn truth_follows_the_contract() {
        let falsy = [
            Value::NIL,
            Value::FALSE,
            Value::int(0),
            Value::float(-0.0),
            Value::str(""),
            Value::str(" \n"),
            Value::list(vec![]),
        ];
        assert!(falsy.iter().all(|v| !truthy(v)));
        let empty_range = Value::range(harn_value::Range { start: 1, end: 1, exclusive: true });
        assert!(
            [Value::duration(0), empty_range, Value::bytes(vec![]), Value::float(f64::NAN)]
                .iter()
                .all(truthy)
        );
    }
}
