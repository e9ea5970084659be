//! Type conversions and properties of values.

use std::cell::RefCell;
use std::hash::{BuildHasher, BuildHasherDefault, Hash};

use harn_value::{Structural, Tag, Value, View, steps};
use harn_vm::{Cx, Error, builtins};
use rustc_hash::{FxHashMap, FxHasher};

use crate::args::{Given, printed, with_stack};
use crate::methods::length;

builtins! {
    /// Types and conversion.
    pub(crate) static CONVERSION: "conversion";

    /// Returns the name of a value's type.
    ///
    /// ```harn
    /// println([type_of(1), type_of("x"), type_of(Ok(1)), type_of(type_of)]) // -> [int, string, enum, builtin]
    /// ```
    Pure fn type_of(cx, value: Value) -> "string" {
        value.type_name()
    }

    /// Returns the printed form of a value.
    ///
    /// ```harn
    /// println(to_string(1.0) + "!") // -> 1.0!
    /// ```
    Pure fn to_string(cx, value: Value as "any?") -> "string" {
        printed(&value)
    }

    /// Converts to an int, or returns nil if the value is not convertible.
    ///
    /// A float is truncated toward zero and clamped to the range of ints. A string must consist of
    /// digits with an optional sign.
    ///
    /// ```harn
    /// println([to_int("+7"), to_int(-2.9), to_int("4.5"), to_int(true)]) // -> [7, -2, nil, nil]
    /// ```
    Pure fn to_int(cx, value: Value) -> "int | nil" {
        match value.view() {
            View::Int(i) => Some(i),
            View::Float(f) => Some(f as i64),
            View::Str(s) => s.parse::<i64>().ok(),
            _ => None,
        }
    }

    /// Converts to a float, or returns nil if the value is not convertible.
    ///
    /// A string must be a decimal number with an optional exponent, or `inf` or `nan` in any case.
    ///
    /// ```harn
    /// println([to_float(2), to_float("1e3"), to_float(" 1"), to_float(true)]) // -> [2.0, 1000.0, nil, nil]
    /// ```
    Pure fn to_float(cx, value: Value) -> "float | nil" {
        match value.view() {
            View::Int(i) => Some(i as f64),
            View::Float(f) => Some(f),
            View::Str(s) => parse_float(s),
            _ => None,
        }
    }

    /// Converts to a list: a set to its items, any other value to a list of that value.
    ///
    /// ```harn
    /// println([to_list(set(1, 2)), to_list("abc"), to_list(nil)]) // -> [[1, 2], [abc], [nil]]
    /// ```
    Pure fn to_list(cx, value: Value) -> "list" {
        match value.view() {
            View::List(_) => value,
            View::Set(set) => Value::list(set.iter().cloned().collect()),
            _ => Value::list(vec![value]),
        }
    }

    /// Returns the length of a value: the number of its characters, bytes, items or entries.
    ///
    /// The length of nil is 0.
    ///
    /// ```harn
    /// println([len("café"), len([1, 2]), len({}), len(range(5)), len(nil)]) // -> [4, 2, 0, 5, 0]
    /// ```
    Pure fn len(cx, value: Value as "string | bytes | list | dict | set | range | nil") -> "int" {
        match value.view() {
            View::Str(s) => s.char_count() as i64,
            View::Bytes(b) => b.len() as i64,
            View::List(l) => l.len() as i64,
            View::Dict(d) => d.len() as i64,
            View::Set(s) => s.len() as i64,
            View::Range(r) => length(r)?,
            View::Struct(_) => value.to_dict().map_or(0, |fields| fields.len() as i64),
            _ => 0,
        }
    }

    /// Returns whether both values are the same list, dict, set, pair or function.
    ///
    /// Other values are compared by content.
    ///
    /// ```harn
    /// let a = [1]
    /// let b = a
    /// println([is_same(a, b), is_same([1], [1]), is_same("hi", "hi")]) // -> [true, false, true]
    /// ```
    Pure fn is_same(cx, a: Value, b: Value) -> "bool" {
        match a.tag() {
            Tag::List | Tag::Dict | Tag::Set | Tag::Pair | Tag::Closure => a.same(&b),
            _ => a.same(&b) || a == b,
        }
    }

    /// Returns a string that identifies the object: `type@id`.
    ///
    /// ```harn
    /// let a = [1]
    /// println([addr_of(42), addr_of(nil), addr_of(a) == addr_of(a)]) // -> [int@42, nil@nil, true]
    /// ```
    State fn addr_of(cx, value: Value) -> "string" {
        let place = match value.tag() {
            Tag::Nil | Tag::Bool | Tag::Int | Tag::Float | Tag::Duration | Tag::Native => value.to_string(),
            _ => object_number(cx, &value).to_string(),
        };
        format!("{}@{place}", value.type_name())
    }

    /// Returns a hash of structure and types as an int, the same in every run.
    ///
    /// ```harn
    /// println(hash_value({a: 1, b: 2}) == hash_value({b: 2, a: 1})) // -> true
    /// println(hash_value(1) == hash_value(1.0)) // -> false
    /// ```
    Pure fn hash_value(cx, value: Value) -> "int" {
        stable_hash(&value) as i64
    }

    /// Throws; marks code that must not be reached.
    ///
    /// ```harn
    /// println(try { unreachable("state 7") }) // -> Result.Err(Runtime error: unreachable code was reached: state 7)
    /// ```
    Pure fn unreachable(cx, value: Given as "any?") -> "never" {
        Err::<Value, Error>(Error::runtime(match value.0 {
            Some(value) => format!("unreachable code was reached: {value}"),
            None => "unreachable code was reached".to_owned(),
        }))
    }
}

/// Parses a decimal with an optional exponent, or `inf`, `infinity`, `nan` in any case.
pub(crate) fn parse_float(text: &str) -> Option<f64> {
    text.parse().ok()
}

/// Objects with their numbers, by address. They are kept alive so that an address is not reused.
#[derive(Default)]
struct Objects(RefCell<FxHashMap<usize, (usize, Value)>>);

fn object_number(cx: &Cx, value: &Value) -> usize {
    let address = match value.view() {
        View::Str(s) => s.as_ptr().addr(),
        View::Bytes(b) => b.address(),
        View::List(l) => l.address(),
        View::Dict(d) => d.address(),
        View::Set(s) => s.address(),
        View::Range(r) => r.address(),
        View::Pair(p) => p.address(),
        View::Enum(e) => e.address(),
        View::Struct(s) => s.address(),
        View::Foreign(f) => f.address(),
        _ => 0,
    };
    let objects = cx.state::<Objects>();
    let mut objects = objects.0.borrow_mut();
    let next = objects.len() + 1;
    objects.entry(address).or_insert_with(|| (next, value.clone())).0
}

/// Returns a 64-bit hash that is consistent with structural equality and the type.
fn stable_hash(value: &Value) -> u64 {
    match value.view() {
        // Sets are equal in any order, so the hashes of their items are summed.
        View::Set(set) => {
            let hashes = || steps::each(set.iter()).map(stable_hash);
            let items = with_stack(|| hashes().fold(0u64, u64::wrapping_add));
            finish((Tag::Set as u8, items))
        }
        _ => finish(Structural(value.clone())),
    }
}

fn finish(value: impl Hash) -> u64 {
    BuildHasherDefault::<FxHasher>::default().hash_one(value)
}
