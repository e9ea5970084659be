//! Stable sorting and extremes by the language's ordering.

use std::cmp::Ordering;

use harn_value::{Tag, Value, compare, steps};

/// Sorts by the language's order. Values of different kinds compare as equal and keep their places as
/// far as an order that is not total allows; the result is always a permutation.
pub(crate) fn sort(items: &mut [Value]) {
    sort_keyed(items, |v| v);
}

/// Sorts by a key at hand, stable.
pub(crate) fn sort_keyed<T>(items: &mut [T], key: impl Fn(&T) -> &Value) {
    let Some(first) = items.first() else { return };
    let tag = key(first).tag();
    let uniform = items.iter().all(|item| key(item).tag() == tag);
    match tag {
        // The usual lists are of one simple type: a total order, which the standard sort is fast on.
        Tag::Int if uniform => items.sort_by_key(|item| key(item).int_bits()),
        Tag::Str if uniform => items.sort_by(|a, b| order(key(a), key(b))),
        Tag::Float if uniform && items.iter().all(|item| !key(item).float_bits().is_nan()) => {
            items.sort_by(|a, b| order(key(a), key(b)));
        }
        _ => merge_sort(items, &|a, b| order(key(a), key(b))),
    }
}

fn order(a: &Value, b: &Value) -> Ordering {
    steps::step();
    compare(a, b).unwrap_or(Ordering::Equal)
}

/// A stable merge sort that gives a permutation for any comparison, also one that is not transitive
/// (the standard sort may panic then).
fn merge_sort<T>(items: &mut [T], order: &impl Fn(&T, &T) -> Ordering) {
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

/// Rearranges so that place `i` gets what stood at `places[i]`.
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

/// The first of the smallest (`Ordering::Less`) or largest (`Ordering::Greater`) items.
pub(crate) fn extreme<'a, T>(
    items: impl IntoIterator<Item = &'a T>,
    key: impl Fn(&T) -> &Value,
    wanted: Ordering,
) -> Option<&'a T> {
    let mut items = items.into_iter();
    let mut best = items.next()?;
    for item in items {
        if compare(key(item), key(best)) == Some(wanted) {
            best = item;
        }
    }
    Some(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_comparison_gives_a_permutation() {
        let mut items: Vec<Value> = (0..100)
            .map(|i| match i % 4 {
                0 => Value::float(f64::NAN),
                1 => Value::int(100 - i),
                2 => Value::str("x"),
                _ => Value::float(i as f64 / 2.0),
            })
            .collect();
        let mut before: Vec<String> = items.iter().map(Value::to_string).collect();
        sort(&mut items);
        let mut after: Vec<String> = items.iter().map(Value::to_string).collect();
        before.sort();
        after.sort();
        assert_eq!(before, after);
    }

    #[test]
    fn equal_keys_keep_their_order() {
        let pair = |k: f64, v: i64| (Value::float(k), v);
        let mut items = vec![pair(2.0, 1), pair(1.0, 2), pair(2.0, 3), pair(1.0, 4)];
        items.push((Value::int(1), 5));
        sort_keyed(&mut items, |(k, _)| k);
        assert_eq!(items.iter().map(|(_, v)| *v).collect::<Vec<_>>(), [2, 4, 5, 1, 3]);
    }
}
