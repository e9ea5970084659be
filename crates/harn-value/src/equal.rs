//! Equality (`==`), identity by structure and type (sets, `unique`), hashing and ordering.

use std::cmp::Ordering;
use std::hash::Hasher;

use rustc_hash::{FxHashMap, FxHashSet, FxHasher};

use crate::{Ref, Str, Value, View, steps};

/// Runs `f` with enough stack for another level of nesting, and counts one step.
#[inline]
pub fn with_stack<R>(f: impl FnOnce() -> R) -> R {
    steps::step();
    stacker::maybe_grow(64 * 1024, 2 * 1024 * 1024, f)
}

/// Number of compound values that a traversal visits before it starts to record shared ones.
const SMALL: u32 = 512;

/// A comparison of two values. Values may share parts, so that they are small in memory but take exponential time to
/// traverse: a pair of shared parts that was found equal is not traversed again.
struct Walk {
    leaf: fn(&Value, &Value) -> Option<bool>,
    visits: u32,
    same: FxHashSet<(usize, usize)>,
}

impl Walk {
    fn new(leaf: fn(&Value, &Value) -> Option<bool>) -> Walk {
        Walk { leaf, visits: 0, same: FxHashSet::default() }
    }

    fn same(&mut self, a: &Value, b: &Value) -> bool {
        if let Some(decided) = (self.leaf)(a, b) {
            return decided;
        }
        self.visits = self.visits.saturating_add(1);
        let shared = self.visits > SMALL && !a.is_unique() && !b.is_unique();
        let places = (a.address(), b.address());
        if shared && self.same.contains(&places) {
            return true;
        }
        let same = with_stack(|| self.compound(a, b));
        if shared && same {
            self.same.insert(places);
        }
        same
    }

    fn items(&mut self, a: &[Value], b: &[Value]) -> bool {
        a.len() == b.len()
            && a.chunks(CHUNK).zip(b.chunks(CHUNK)).all(|(a, b)| {
                steps::steps(a.len());
                a.iter().zip(b).all(|(x, y)| self.same(x, y))
            })
    }

    fn entries<'a>(
        &mut self,
        a: impl ExactSizeIterator<Item = (&'a Str, &'a Value)>,
        b: impl ExactSizeIterator<Item = (&'a Str, &'a Value)>,
    ) -> bool {
        a.len() == b.len() && steps::each(a).zip(b).all(|((ka, va), (kb, vb))| ka == kb && self.same(va, vb))
    }

    fn compound(&mut self, a: &Value, b: &Value) -> bool {
        match (a.view(), b.view()) {
            (View::List(x), View::List(y)) => self.items(x, y),
            (View::Dict(x), View::Dict(y)) => self.entries(x.iter(), y.iter()),
            (View::Set(x), View::Set(y)) => {
                Ref::same(x, y) || x.len() == y.len() && steps::each(x.iter()).all(|v| y.contains(v))
            }
            (View::Pair(x), View::Pair(y)) => {
                self.same(&x.first, &y.first) && self.same(&x.second, &y.second)
            }
            (View::Enum(x), View::Enum(y)) => {
                x.ty.name == y.ty.name
                    && x.variant_name() == y.variant_name()
                    && self.items(&x.fields, &y.fields)
            }
            (View::Struct(x), View::Struct(y)) => {
                x.ty.name == y.ty.name && self.entries(x.fields().into_iter(), y.fields().into_iter())
            }
            _ => false,
        }
    }
}

/// Number of items between two calls of [`steps::steps`].
const CHUNK: usize = 256;

impl PartialEq for Value {
    #[inline]
    fn eq(&self, other: &Value) -> bool {
        equal(self, other)
    }
}

/// Implements the language's `==`: never fails, compares int and float numerically and containers by content.
pub fn equal(a: &Value, b: &Value) -> bool {
    // Strings are compared most often, so their path is the shortest.
    if let (Some(x), Some(y)) = (a.as_str(), b.as_str()) {
        return same_text(x, y);
    }
    equal_leaf(a, b).unwrap_or_else(|| Walk::new(equal_leaf).same(a, b))
}

/// Most different strings differ in their length or their first byte.
#[inline]
fn same_text(x: &Str, y: &Str) -> bool {
    if Str::same(x, y) {
        return true;
    }
    let (x, y) = (x.as_bytes(), y.as_bytes());
    x.len() == y.len() && x.first() == y.first() && (x.len() < 2 || same_bytes(x, y))
}

/// Implements [`equal`] for values without parts; `None` for two containers of one type.
#[inline]
fn equal_leaf(a: &Value, b: &Value) -> Option<bool> {
    Some(match (a.view(), b.view()) {
        (View::Int(x), View::Int(y)) => x == y,
        (View::Str(x), View::Str(y)) => same_text(x, y),
        (View::Nil, View::Nil) => true,
        (View::Bool(x), View::Bool(y)) => x == y,
        (View::Float(x), View::Float(y)) => x == y,
        (View::Int(x), View::Float(y)) | (View::Float(y), View::Int(x)) => int_equals_float(x, y),
        (View::Duration(x), View::Duration(y)) => x == y,
        (View::Bytes(x), View::Bytes(y)) => x.len() == y.len() && same_bytes(x, y),
        (View::Range(x), View::Range(y)) => **x == **y,
        (View::Native(x), View::Native(y)) => x.name == y.name,
        (View::Foreign(x), View::Foreign(y)) => a.tag() == b.tag() && x.equals(y),
        _ if a.tag() == b.tag() => return None,
        _ => false,
    })
}

/// Comparing long strings takes linear time, which is counted in steps.
#[inline]
fn same_bytes(a: &[u8], b: &[u8]) -> bool {
    if a.len() > 1024 {
        steps::bytes(a.len());
    }
    a == b
}

fn int_equals_float(i: i64, f: f64) -> bool {
    // Exact: a float in range with no fraction is an int; comparing as floats would round large ints.
    f.fract() == 0.0 && (-9.223_372_036_854_776e18..9.223_372_036_854_776e18).contains(&f) && f as i64 == i
}

/// Compares by structure **and type**: `1` and `1.0` differ, NaN equals itself.
pub fn identical(a: &Value, b: &Value) -> bool {
    identical_leaf(a, b).unwrap_or_else(|| Walk::new(identical_leaf).same(a, b))
}

fn identical_leaf(a: &Value, b: &Value) -> Option<bool> {
    if a.tag() != b.tag() {
        return Some(false);
    }
    match (a.view(), b.view()) {
        (View::Float(x), View::Float(y)) => Some(x.to_bits() == y.to_bits()),
        (View::Foreign(x), View::Foreign(y)) => Some(a.same(b) || x.equals(y)),
        // References to the same object are identical, even if it contains NaN.
        _ if a.is_heap() && a.same(b) => Some(true),
        _ => equal_leaf(a, b),
    }
}

/// Feeds a hash that is consistent with [`identical`].
pub(crate) fn hash_structure(value: &Value, state: &mut impl Hasher) {
    if !hash_leaf(value, state) {
        state.write_u64(Hashes::default().of(value));
    }
}

/// Feeds a value without parts, and the tag of any value; returns false for a container.
#[inline]
fn hash_leaf(value: &Value, state: &mut impl Hasher) -> bool {
    state.write_u8(value.tag() as u8);
    match value.view() {
        View::Nil => {}
        View::Bool(b) => state.write_u8(u8::from(b)),
        View::Int(i) | View::Duration(i) => state.write_i64(i),
        View::Float(f) => state.write_u64(f.to_bits()),
        View::Str(s) => state.write_u32(s.hash_code()),
        View::Bytes(b) => {
            steps::bytes(b.len());
            state.write(b);
        }
        View::Range(r) => {
            state.write_i64(r.start);
            state.write_i64(r.end);
        }
        View::Native(n) => state.write(n.name.as_bytes()),
        // Not visible to programs: sets preserve insertion order.
        View::Foreign(f) => state.write_usize(f.identity()),
        // Sets are equal in any order; only their size is cheap and independent of the order.
        View::Set(s) => state.write_usize(s.len()),
        View::List(_) | View::Dict(_) | View::Pair(_) | View::Enum(_) | View::Struct(_) => return false,
    }
    true
}

/// Hashes of containers, computed separately so that shared parts are traversed once.
#[derive(Default)]
struct Hashes {
    visits: u32,
    known: FxHashMap<usize, u64>,
}

impl Hashes {
    fn of(&mut self, value: &Value) -> u64 {
        self.visits = self.visits.saturating_add(1);
        let shared = self.visits > SMALL && !value.is_unique();
        if shared && let Some(known) = self.known.get(&value.address()) {
            return *known;
        }
        let mut state = FxHasher::default();
        with_stack(|| self.parts(value, &mut state));
        let hash = state.finish();
        if shared {
            self.known.insert(value.address(), hash);
        }
        hash
    }

    fn part(&mut self, value: &Value, state: &mut FxHasher) {
        steps::step();
        if !hash_leaf(value, state) {
            state.write_u64(self.of(value));
        }
    }

    fn parts(&mut self, value: &Value, state: &mut FxHasher) {
        match value.view() {
            View::List(items) => items.iter().for_each(|v| self.part(v, state)),
            View::Dict(d) => {
                for (key, value) in d.iter() {
                    state.write_u32(key.hash_code());
                    self.part(value, state);
                }
            }
            View::Pair(p) => {
                self.part(&p.first, state);
                self.part(&p.second, state);
            }
            View::Enum(e) => {
                state.write_u32(e.variant_name().hash_code());
                e.fields.iter().for_each(|v| self.part(v, state));
            }
            View::Struct(s) => {
                for (key, value) in s.fields() {
                    state.write_u32(key.hash_code());
                    self.part(value, state);
                }
            }
            _ => {}
        }
    }
}

/// Implements the language's ordering. Returns `None` if a NaN is involved (all comparisons are false); values without
/// a defined order compare as equal.
pub fn compare(a: &Value, b: &Value) -> Option<Ordering> {
    match (a.view(), b.view()) {
        (View::Int(x), View::Int(y)) | (View::Duration(x), View::Duration(y)) => Some(x.cmp(&y)),
        (View::Float(x), View::Float(y)) => x.partial_cmp(&y),
        (View::Int(x), View::Float(y)) => compare_int_float(x, y),
        (View::Float(x), View::Int(y)) => compare_int_float(y, x).map(Ordering::reverse),
        (View::Str(x), View::Str(y)) => {
            let common = x.len().min(y.len());
            if common > 1024 && !Str::same(x, y) {
                steps::bytes(common);
            }
            Some(x.as_str().cmp(y.as_str()))
        }
        (View::Pair(x), View::Pair(y)) => with_stack(|| match compare(&x.first, &y.first) {
            Some(Ordering::Equal) => compare(&x.second, &y.second),
            other => other,
        }),
        _ => Some(Ordering::Equal),
    }
}

/// Implements the language's ordering for kinds with a defined order: numbers, durations, strings, and pairs up to the
/// first difference. The inner `None` means a NaN.
///
/// # Errors
/// The kinds have no defined order.
pub fn order(a: &Value, b: &Value) -> Result<Option<Ordering>, Unordered> {
    use View::{Duration, Float, Int, Pair, Str};
    match (a.view(), b.view()) {
        (Int(_) | Float(_), Int(_) | Float(_)) | (Duration(_), Duration(_)) | (Str(_), Str(_)) => {
            Ok(compare(a, b))
        }
        (Pair(x), Pair(y)) => with_stack(|| match order(&x.first, &y.first)? {
            Some(Ordering::Equal) => order(&x.second, &y.second),
            other => Ok(other),
        }),
        _ => Err(Unordered { left: a.type_name(), right: b.type_name() }),
    }
}

/// The error for two values without a defined order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unordered {
    /// Type of the first value.
    pub left: &'static str,
    /// Type of the second value.
    pub right: &'static str,
}

impl std::fmt::Display for Unordered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "cannot order {} and {}", self.left, self.right)
    }
}

impl std::error::Error for Unordered {}

fn compare_int_float(i: i64, f: f64) -> Option<Ordering> {
    if f.is_nan() {
        return None;
    }
    if f >= 9.223_372_036_854_776e18 {
        return Some(Ordering::Less);
    }
    if f < -9.223_372_036_854_776e18 {
        return Some(Ordering::Greater);
    }
    // In range: compare the whole part exactly, then the fraction.
    let whole = f.trunc();
    Some(i.cmp(&(whole as i64)).then_with(|| 0.0.partial_cmp(&(f - whole)).unwrap_or(Ordering::Equal)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_compare_exactly_across_types() {
        let big = (1i64 << 53) + 1;
        assert!(!equal(&Value::int(big), &Value::float((1i64 << 53) as f64)));
        assert_eq!(compare(&Value::int(big), &Value::float((1i64 << 53) as f64)), Some(Ordering::Greater));
        assert!(equal(&Value::int(1), &Value::float(1.0)));
        assert_eq!(compare(&Value::int(1), &Value::float(f64::NAN)), None);
        assert_eq!(compare(&Value::int(-1), &Value::float(-1.5)), Some(Ordering::Greater));
    }

    #[test]
    fn identity_keeps_types_apart() {
        assert!(!identical(&Value::int(1), &Value::float(1.0)));
        assert!(identical(&Value::float(f64::NAN), &Value::float(f64::NAN)));
        assert!(identical(&Value::list(vec![Value::int(1)]), &Value::list(vec![Value::int(1)])));
    }

    #[test]
    fn shared_parts_are_walked_once() {
        let doubled =
            || (0..70).fold(Value::list(vec![Value::str("x")]), |d, _| Value::list(vec![d.clone(), d]));
        let (a, b) = (doubled(), doubled());
        assert!(equal(&a, &a) && equal(&a, &b) && identical(&a, &b));
        let hash = |v: &Value| {
            let mut state = FxHasher::default();
            hash_structure(v, &mut state);
            state.finish()
        };
        assert_eq!(hash(&a), hash(&b));
        let nan = Value::list(vec![Value::float(f64::NAN)]);
        assert!(!equal(&nan, &nan) && identical(&nan, &nan));
    }

    #[test]
    fn data_of_any_depth_compares_and_drops() {
        let nest = || (0..200_000).fold(Value::NIL, |inner, _| Value::list(vec![inner]));
        assert!(equal(&nest(), &nest()));
        assert_eq!(nest().to_string().len(), 2 * 200_000 + 3);
    }
}
