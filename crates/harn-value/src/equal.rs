//! Equality (`==`), identity by structure and type (sets, `unique`), hashing and ordering.

use std::cmp::Ordering;
use std::hash::Hasher;

use crate::{Dict, Value, View};

/// Runs `f` with enough stack for another level of nesting.
#[inline]
pub(crate) fn with_stack<R>(f: impl FnOnce() -> R) -> R {
    stacker::maybe_grow(64 * 1024, 2 * 1024 * 1024, f)
}

fn same_items<'a>(
    a: impl ExactSizeIterator<Item = &'a Value>,
    b: impl ExactSizeIterator<Item = &'a Value>,
    same: fn(&Value, &Value) -> bool,
) -> bool {
    a.len() == b.len() && a.zip(b).all(|(x, y)| same(x, y))
}

fn same_entries(a: &Dict, b: &Dict, same: fn(&Value, &Value) -> bool) -> bool {
    a.len() == b.len() && a.iter().zip(b.iter()).all(|((ka, va), (kb, vb))| ka == kb && same(va, vb))
}

impl PartialEq for Value {
    #[inline]
    fn eq(&self, other: &Value) -> bool {
        equal(self, other)
    }
}

/// The language's `==`: never fails, compares int and float numerically and containers by content.
pub fn equal(a: &Value, b: &Value) -> bool {
    match (a.view(), b.view()) {
        (View::Int(x), View::Int(y)) => x == y,
        (View::Str(x), View::Str(y)) => x == y,
        (View::Nil, View::Nil) => true,
        (View::Bool(x), View::Bool(y)) => x == y,
        (View::Float(x), View::Float(y)) => x == y,
        (View::Int(x), View::Float(y)) | (View::Float(y), View::Int(x)) => int_equals_float(x, y),
        (View::Duration(x), View::Duration(y)) => x == y,
        (View::Bytes(x), View::Bytes(y)) => **x == **y,
        (View::Range(x), View::Range(y)) => **x == **y,
        (View::Native(x), View::Native(y)) => x.name == y.name,
        (View::Foreign(x), View::Foreign(y)) => a.tag() == b.tag() && x.equals(y),
        _ if a.tag() == b.tag() => with_stack(|| compound(a, b, equal)),
        _ => false,
    }
}

fn int_equals_float(i: i64, f: f64) -> bool {
    // Exact: a float in range with no fraction is an int; comparing as floats would round large ints.
    f.fract() == 0.0 && (-9.223_372_036_854_776e18..9.223_372_036_854_776e18).contains(&f) && f as i64 == i
}

fn compound(a: &Value, b: &Value, same: fn(&Value, &Value) -> bool) -> bool {
    match (a.view(), b.view()) {
        (View::List(x), View::List(y)) => same_items(x.iter(), y.iter(), same),
        (View::Dict(x), View::Dict(y)) => same_entries(x, y, same),
        (View::Set(x), View::Set(y)) => x.len() == y.len() && x.iter().all(|v| y.contains(v)),
        (View::Pair(x), View::Pair(y)) => same(&x.first, &y.first) && same(&x.second, &y.second),
        (View::Enum(x), View::Enum(y)) => {
            x.ty.name == y.ty.name
                && x.variant_name() == y.variant_name()
                && same_items(x.fields.iter(), y.fields.iter(), same)
        }
        (View::Struct(x), View::Struct(y)) => {
            let (fx, fy) = (x.fields(), y.fields());
            x.ty.name == y.ty.name
                && fx.len() == fy.len()
                && fx.iter().zip(&fy).all(|((ka, va), (kb, vb))| ka == kb && same(va, vb))
        }
        _ => false,
    }
}

/// Equality by structure **and type**: `1` and `1.0` differ, NaN equals itself.
pub fn identical(a: &Value, b: &Value) -> bool {
    if a.tag() != b.tag() {
        return false;
    }
    match (a.view(), b.view()) {
        (View::Float(x), View::Float(y)) => x.to_bits() == y.to_bits(),
        (View::Foreign(x), View::Foreign(y)) => a.same(b) || x.equals(y),
        (View::List(_) | View::Dict(_) | View::Pair(_) | View::Enum(_) | View::Struct(_), _) => {
            with_stack(|| compound(a, b, identical))
        }
        _ => equal(a, b),
    }
}

/// Feeds a hash that agrees with [`identical`].
pub fn hash_structure(value: &Value, state: &mut impl Hasher) {
    state.write_u8(value.tag() as u8);
    match value.view() {
        View::Nil => {}
        View::Bool(b) => state.write_u8(u8::from(b)),
        View::Int(i) | View::Duration(i) => state.write_i64(i),
        View::Float(f) => state.write_u64(f.to_bits()),
        View::Str(s) => state.write_u32(s.hash_code()),
        View::Bytes(b) => state.write(b),
        View::Range(r) => {
            state.write_i64(r.start);
            state.write_i64(r.end);
        }
        View::Native(n) => state.write(n.name.as_bytes()),
        View::List(items) => with_stack(|| items.iter().for_each(|v| hash_structure(v, state))),
        View::Dict(d) => with_stack(|| {
            for (key, value) in d.iter() {
                state.write_u32(key.hash_code());
                hash_structure(value, state);
            }
        }),
        // Sets are equal in any order: the size is the only cheap thing that agrees.
        View::Set(s) => state.write_usize(s.len()),
        View::Pair(p) => with_stack(|| {
            hash_structure(&p.first, state);
            hash_structure(&p.second, state);
        }),
        View::Enum(e) => with_stack(|| {
            state.write_u32(e.variant_name().hash_code());
            e.fields.iter().for_each(|v| hash_structure(v, state));
        }),
        View::Struct(s) => with_stack(|| {
            for (key, value) in s.fields() {
                state.write_u32(key.hash_code());
                hash_structure(value, state);
            }
        }),
        // Handles are equal by identity or by a rule of their own: the type is all that is safe to hash.
        View::Foreign(f) => state.write(f.type_name().as_bytes()),
    }
}

/// The language's ordering. `None` when a NaN is involved (all comparisons false); combinations
/// without an order of their own compare as equal.
pub fn compare(a: &Value, b: &Value) -> Option<Ordering> {
    match (a.view(), b.view()) {
        (View::Int(x), View::Int(y)) | (View::Duration(x), View::Duration(y)) => Some(x.cmp(&y)),
        (View::Float(x), View::Float(y)) => x.partial_cmp(&y),
        (View::Int(x), View::Float(y)) => compare_int_float(x, y),
        (View::Float(x), View::Int(y)) => compare_int_float(y, x).map(Ordering::reverse),
        (View::Str(x), View::Str(y)) => Some(x.as_str().cmp(y.as_str())),
        (View::Pair(x), View::Pair(y)) => with_stack(|| match compare(&x.first, &y.first) {
            Some(Ordering::Equal) => compare(&x.second, &y.second),
            other => other,
        }),
        _ => Some(Ordering::Equal),
    }
}

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
    fn data_of_any_depth_compares_and_drops() {
        let nest = || (0..200_000).fold(Value::NIL, |inner, _| Value::list(vec![inner]));
        assert!(equal(&nest(), &nest()));
        assert_eq!(nest().to_string().len(), 2 * 200_000 + 3);
    }
}
