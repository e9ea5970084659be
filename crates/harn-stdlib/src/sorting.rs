//! Stable sorting and extremes by the order of the language.

use std::cmp::Ordering;

use harn_value::{Tag, Value, View, compare, steps, with_stack};
use harn_vm::call_loop::{Slots, Steps, Turn};
use harn_vm::{Error, Result};

use crate::args::room_for_bytes;

/// Sorts by the order of the language.
///
/// # Errors
/// `Type error: cannot order int and string`
pub(crate) fn sort(items: &mut [Value]) -> Result<()> {
    sort_keyed(items, |v| v)
}

/// Sorts by an existing key; the sort is stable.
///
/// # Errors
/// As [`sort`].
pub(crate) fn sort_keyed<T>(items: &mut [T], key: impl Fn(&T) -> &Value) -> Result<()> {
    let Some(first) = items.first() else { return Ok(()) };
    let tag = key(first).tag();
    let uniform = items.iter().all(|item| key(item).tag() == tag);
    match tag {
        // Most lists have items of one simple type with a total order, for which the standard sort is fast.
        Tag::Int if uniform => items.sort_by_key(|item| key(item).int_bits()),
        Tag::Str if uniform => sort_texts(items, key)?,
        Tag::Float if uniform => items.sort_by(|a, b| order(key(a), key(b))),
        _ => {
            let mut failed = None;
            merge_sort(items, &mut |a, b| {
                let (a, b) = (key(a), key(b));
                let order = order(a, b);
                if order == Ordering::Equal && failed.is_none() && harn_value::order(a, b).is_err() {
                    failed = Some(no_order(b, a));
                }
                order
            });
            if let Some(error) = failed {
                return Err(error);
            }
        }
    }
    Ok(())
}

fn bytes_of(text: &Value) -> &[u8] {
    text.as_str().map_or(&[], |text| text.as_str().as_bytes())
}

/// Maximum length of a common prefix that is searched, in bytes.
const START: usize = 256;

/// Sorts by strings. Each string is stored with the eight bytes after the common prefix; if they differ, the strings,
/// which are scattered in memory, need not be read.
fn sort_texts<T>(items: &mut [T], key: impl Fn(&T) -> &Value) -> Result<()> {
    room_for_bytes(items.len().saturating_mul(2 * size_of::<(u64, usize)>()))?;
    let start = items.first().map_or(&[][..], |item| bytes_of(key(item)));
    let shared = items.iter().fold(start.len().min(START), |shared, item| {
        steps::step();
        let pairs = start[..shared].iter().zip(bytes_of(key(item)));
        pairs.take_while(|(a, b)| a == b).count()
    });
    let head = |item: &T| {
        let rest = &bytes_of(key(item))[shared..];
        let mut bytes = [0; 8];
        let size = rest.len().min(8);
        bytes[..size].copy_from_slice(&rest[..size]);
        u64::from_be_bytes(bytes)
    };
    let mut places: Vec<(u64, usize)> = items.iter().map(head).zip(0..).collect();
    places.sort_by(|&(a, at), &(b, bt)| match a.cmp(&b) {
        Ordering::Equal => order(key(&items[at]), key(&items[bt])),
        unlike => {
            steps::step();
            unlike
        }
    });
    permute(items, places.into_iter().map(|(_, at)| at).collect());
    Ok(())
}

fn no_order(a: &Value, b: &Value) -> Error {
    Error::type_error(format!("cannot order {} and {}", a.type_name(), b.type_name()))
}

/// Adds a number to a sum; other values are skipped.
///
/// # Errors
/// `Runtime error: Integer overflow: A + B`
pub(crate) fn add_number(sum: &Value, item: &Value) -> Result<Value> {
    match (sum.as_int(), item.as_int()) {
        (Some(a), Some(b)) => {
            let sum = a.checked_add(b).map(Value::int);
            sum.ok_or_else(|| Error::runtime(format!("Integer overflow: {a} + {b}")))
        }
        _ => Ok(match (sum.as_number(), item.as_number()) {
            (Some(a), Some(b)) => Value::float(a + b),
            _ => sum.clone(),
        }),
    }
}

/// A stable merge sort whose comparisons call a function of the program.
pub(crate) struct Comparing {
    from: Vec<Value>,
    to: Vec<Value>,
    width: usize,
    /// The next items of the two runs to be merged.
    left: usize,
    right: usize,
    /// The ends of those runs.
    middle: usize,
    end: usize,
}

impl Comparing {
    pub(crate) fn new(items: Vec<Value>) -> Comparing {
        let to = Vec::with_capacity(items.len());
        let mut sort = Comparing { from: items, to, width: 1, left: 0, right: 0, middle: 0, end: 0 };
        sort.begin(0);
        sort
    }

    /// Selects the two runs at `start`.
    fn begin(&mut self, start: usize) {
        let len = self.from.len();
        self.left = start.min(len);
        self.middle = (start + self.width).min(len);
        self.right = self.middle;
        self.end = (start + self.width * 2).min(len);
    }
}

impl Steps for Comparing {
    fn next(&mut self, reply: Option<Value>, slots: &mut Slots) -> Result<Turn> {
        if let Some(reply) = reply {
            let Some(sign) = reply.as_number().filter(|sign| !sign.is_nan()) else {
                let got = reply.type_name();
                return Err(Error::type_error(format!(
                    "list.sort: the function must give a number, got {got}"
                )));
            };
            // The right item goes first only if it is smaller, so the sort is stable.
            let at = if sign < 0.0 { &mut self.right } else { &mut self.left };
            self.to.push(self.from[*at].clone());
            *at += 1;
        }
        loop {
            if self.left < self.middle && self.right < self.end {
                slots[0].put(self.from[self.right].clone());
                slots[1].put(self.from[self.left].clone());
                return Ok(Turn::Call(2));
            }
            self.to.extend_from_slice(&self.from[self.left..self.middle]);
            self.to.extend_from_slice(&self.from[self.right..self.end]);
            if self.end < self.from.len() {
                self.begin(self.end);
                continue;
            }
            std::mem::swap(&mut self.from, &mut self.to);
            self.to.clear();
            self.width *= 2;
            if self.width >= self.from.len() {
                return Ok(Turn::Done(Value::list(std::mem::take(&mut self.from))));
            }
            self.begin(0);
        }
    }
}

fn order(a: &Value, b: &Value) -> Ordering {
    steps::step();
    placed(a, b)
}

/// Compares values in the order of the language, extended by NaN, which is greater than all numbers. Otherwise, other
/// items in the same list could be out of order.
fn placed(a: &Value, b: &Value) -> Ordering {
    let is_nan = |value: &Value| value.as_float().is_some_and(f64::is_nan);
    compare(a, b).unwrap_or_else(|| match (a.view(), b.view()) {
        (View::Pair(a), View::Pair(b)) => {
            with_stack(|| placed(&a.first, &b.first).then_with(|| placed(&a.second, &b.second)))
        }
        _ => is_nan(a).cmp(&is_nan(b)),
    })
}

/// A stable merge sort that returns a permutation for any comparison, even one that is not transitive (for which the
/// standard sort may panic).
fn merge_sort<T>(items: &mut [T], order: &mut impl FnMut(&T, &T) -> Ordering) {
    let len = items.len();
    let mut places: Vec<usize> = (0..len).collect();
    let mut merged: Vec<usize> = Vec::with_capacity(len);
    let mut width = 1;
    while width < len {
        merged.clear();
        for start in (0..len).step_by(width * 2) {
            let middle = (start + width).min(len);
            let end = (start + width * 2).min(len);
            let (mut left, mut right) = (start, middle);
            while left < middle && right < end {
                if order(&items[places[right]], &items[places[left]]) == Ordering::Less {
                    merged.push(places[right]);
                    right += 1;
                } else {
                    merged.push(places[left]);
                    left += 1;
                }
            }
            merged.extend_from_slice(&places[left..middle]);
            merged.extend_from_slice(&places[right..end]);
        }
        std::mem::swap(&mut places, &mut merged);
        width *= 2;
    }
    permute(items, places);
}

/// Rearranges items so that position `i` receives the item at `places[i]`.
fn permute<T>(items: &mut [T], mut places: Vec<usize>) {
    for start in 0..places.len() {
        let mut at = start;
        while places[at] != start {
            let from = places[at];
            items.swap(at, from);
            places[at] = at;
            at = from;
        }
        places[at] = at;
    }
}

/// Replaces `best` by an item that is less (`Ordering::Less`) or greater (`Ordering::Greater`).
///
/// # Errors
/// As [`sort`].
pub(crate) fn take_better(best: &mut Value, item: Value, wanted: Ordering) -> Result<()> {
    match placed(&item, best) {
        order if order == wanted => *best = item,
        Ordering::Equal if harn_value::order(best, &item).is_err() => {
            return Err(no_order(best, &item));
        }
        _ => {}
    }
    Ok(())
}

/// Returns the first of the smallest (`Ordering::Less`) or largest (`Ordering::Greater`) items.
///
/// # Errors
/// As [`sort`].
pub(crate) fn extreme<'a, T>(
    items: impl IntoIterator<Item = &'a T>,
    key: impl Fn(&T) -> &Value,
    wanted: Ordering,
) -> Result<Option<&'a T>> {
    let mut items = items.into_iter();
    let Some(mut best) = items.next() else { return Ok(None) };
    for item in steps::each(items) {
        match placed(key(item), key(best)) {
            order if order == wanted => best = item,
            Ordering::Equal if harn_value::order(key(best), key(item)).is_err() => {
                return Err(no_order(key(best), key(item)));
            }
            _ => {}
        }
    }
    Ok(Some(best))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_comparison_gives_a_permutation() {
        let mut items: Vec<Value> = (0..100)
            .map(|i| match i % 3 {
                0 => Value::float(f64::NAN),
                1 => Value::int(100 - i),
                _ => Value::float(i as f64 / 2.0),
            })
            .collect();
        let mut before: Vec<String> = items.iter().map(Value::to_string).collect();
        sort(&mut items).unwrap();
        let mut after: Vec<String> = items.iter().map(Value::to_string).collect();
        before.sort();
        after.sort();
        assert_eq!(before, after);
    }

    #[test]
    fn texts_are_in_the_order_of_their_bytes() {
        let starts = ["", "a", "name", &"a long beginning that all of them share: ".repeat(10)];
        let ends = [
            "",
            "\0",
            "\0\0",
            "a",
            "b",
            "12345678",
            "123456789",
            "12345678\0",
            "1234567",
            "é",
            "z",
            "\u{10ffff}",
        ];
        for start in starts {
            for turn in 0..ends.len() {
                let mut texts: Vec<String> = ends.iter().map(|end| format!("{start}{end}")).collect();
                texts.rotate_left(turn);
                texts.extend(texts.clone());
                let mut items: Vec<(Value, usize)> =
                    texts.iter().enumerate().map(|(at, text)| (Value::from(text.as_str()), at)).collect();
                sort_keyed(&mut items, |(key, _)| key).unwrap();
                let mut expected: Vec<(&str, usize)> =
                    texts.iter().enumerate().map(|(at, text)| (text.as_str(), at)).collect();
                expected.sort();
                let got: Vec<(&str, usize)> =
                    items.iter().map(|(key, at)| (key.as_str().unwrap().as_str(), *at)).collect();
                assert_eq!(got, expected);
            }
        }
    }

    #[test]
    fn equal_keys_keep_their_order() {
        let pair = |k: f64, v: i64| (Value::float(k), v);
        let mut items = vec![pair(2.0, 1), pair(1.0, 2), pair(2.0, 3), pair(1.0, 4)];
        items.push((Value::int(1), 5));
        sort_keyed(&mut items, |(k, _)| k).unwrap();
        assert_eq!(items.iter().map(|(_, v)| *v).collect::<Vec<_>>(), [2, 4, 5, 1, 3]);
    }
}
