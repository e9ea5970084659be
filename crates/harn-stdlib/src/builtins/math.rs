//! Arithmetic functions.

use std::cmp::Ordering;

use harn_value::{Value, View, steps};
use harn_vm::builtin::{Rest, kind};
use harn_vm::signature::{self, Kinds};
use harn_vm::{Error, Result, builtins};

use crate::args::{Given, Int};
use crate::format::rounded;

builtins! {
    /// Numbers.
    pub(crate) static MATH: "math";

    /// Returns the absolute value of a number; throws for the smallest int, which has none.
    ///
    /// ```harn
    /// println([abs(-3), abs(2.5)]) // -> [3, 2.5]
    /// ```
    Pure fn abs(cx, n: Value as "int | float") -> "int | float" {
        match n.as_int() {
            Some(i) => match i.checked_abs() {
                Some(i) => Value::int(i),
                None => return Err(Error::runtime(format!("Integer overflow: abs({i})"))),
            },
            None => n.as_float().map_or(Value::NIL, |f| Value::float(f.abs())),
        }
    }

    /// Returns the smallest of its arguments (numbers, strings, durations or pairs), or of the items of one list.
    ///
    /// For ints, the result is an int; for other numbers, a float. The result for an empty list is nil.
    ///
    /// ```harn
    /// println([min(2, 1), min(1, 2.0), min([3, 1, 2]), min("b", "a"), min(1s, 2s), min([])]) // -> [1, 1.0, 1, a, 1s, nil]
    /// ```
    Pure fn min(cx, first: Value as "int | float | string | duration | pair | list", second: Given as "int | float | string | duration | pair?", others: Rest as "int | float | string | duration | pair") -> "any" {
        check_second("min", &second)?;
        match second.0 {
            // The common call needs no list.
            Some(second) if others.0.is_empty() && first.as_list().is_none() => {
                pick_two("min", &first, &second, Ordering::Less)?
            }
            second => pick("min", first, second.into_iter().chain(others.0).collect(), Ordering::Less)?,
        }
    }

    /// Returns the largest of its arguments (numbers, strings, durations or pairs), or of the items of one list.
    ///
    /// For ints, the result is an int; for other numbers, a float. The result for an empty list is nil.
    ///
    /// ```harn
    /// println([max(2, 1), max(1, 2.0), max([3, 1, 2]), max("b", "a"), max(1s, 2s), max([])]) // -> [2, 2.0, 3, b, 2s, nil]
    /// ```
    Pure fn max(cx, first: Value as "int | float | string | duration | pair | list", second: Given as "int | float | string | duration | pair?", others: Rest as "int | float | string | duration | pair") -> "any" {
        check_second("max", &second)?;
        match second.0 {
            // The common call needs no list.
            Some(second) if others.0.is_empty() && first.as_list().is_none() => {
                pick_two("max", &first, &second, Ordering::Greater)?
            }
            second => pick("max", first, second.into_iter().chain(others.0).collect(), Ordering::Greater)?,
        }
    }

    /// Adds two ints and wraps around on 64-bit overflow.
    ///
    /// ```harn
    /// println(wrapping_add(9223372036854775807, 1)) // -> -9223372036854775808
    /// ```
    Pure fn wrapping_add(cx, a: i64, b: i64) -> "int" {
        a.wrapping_add(b)
    }

    /// Subtracts two ints and wraps around on 64-bit overflow.
    ///
    /// ```harn
    /// println(wrapping_sub(-9223372036854775807, 2)) // -> 9223372036854775807
    /// ```
    Pure fn wrapping_sub(cx, a: i64, b: i64) -> "int" {
        a.wrapping_sub(b)
    }

    /// Multiplies two ints and wraps around on 64-bit overflow.
    ///
    /// ```harn
    /// println(wrapping_mul(9223372036854775807, 2)) // -> -2
    /// ```
    Pure fn wrapping_mul(cx, a: i64, b: i64) -> "int" {
        a.wrapping_mul(b)
    }

    /// Formats a number with `digits` decimal places (0 to 100); halves are rounded away from zero, as by `round`.
    ///
    /// ```harn
    /// println([fixed(3.14159, 2), fixed(2.5, 2), fixed(2.5, 0), fixed(7, 0)]) // -> [3.14, 2.50, 3, 7]
    /// ```
    Pure fn fixed(cx, n: Value as "int | float", digits: i64) -> "string" {
        let digits = digit_count("fixed", digits)?;
        match n.as_int() {
            Some(i) if digits == 0 => i.to_string(),
            Some(i) => format!("{i}.{}", "0".repeat(digits)),
            None => rounded(n.as_number().unwrap_or_default(), digits),
        }
    }

    /// Returns the dot product of two vectors: `dot` of `std/math`, in Rust for the performance of searches.
    ///
    /// ```harn
    /// println(__vector_dot([1, 2], [3, 4])) // -> 11.0
    /// ```
    Pure fn vector_dot = "__vector_dot"(cx, a: Value, b: Value) -> "float" {
        products(&a, &b)?.ab
    }

    /// Returns the cosine of the angle between two vectors: `cosine_similarity` of `std/math`.
    ///
    /// ```harn
    /// println(__vector_cosine([1, 0], [0, 1])) // -> 0.0
    /// ```
    Pure fn vector_cosine = "__vector_cosine"(cx, a: Value, b: Value) -> "float" {
        let Products { ab, aa, bb } = products(&a, &b)?;
        let norms = aa.sqrt() * bb.sqrt();
        if norms > 0.0 {
            ab / norms
        } else {
            return Err(Error::thrown("cosine similarity requires non-zero vectors"));
        }
    }

    /// Rounds down to an int.
    ///
    /// ```harn
    /// println([floor(2.7), floor(-2.1), floor(3)]) // -> [2, -3, 3]
    /// ```
    Pure fn floor(cx, n: Value as "int | float") -> "int" {
        to_whole(&n, f64::floor)?
    }

    /// Rounds up to an int.
    ///
    /// ```harn
    /// println([ceil(2.1), ceil(-2.7)]) // -> [3, -2]
    /// ```
    Pure fn ceil(cx, n: Value as "int | float") -> "int" {
        to_whole(&n, f64::ceil)?
    }

    /// Rounds to the nearest int, or to `digits` decimal places; halves are rounded away from zero.
    ///
    /// ```harn
    /// println([round(2.5), round(-2.5), round(2.4), round(3.14159, 2)]) // -> [3, -3, 2, 3.14]
    /// ```
    Pure fn round(cx, n: Value as "int | float", digits: Int) -> "int | float" {
        match (digit_count("round", digits.or(0))?, n.as_number()) {
            (0, _) | (_, None) => to_whole(&n, f64::round)?,
            // Rounds the decimal form of the float, because scaling by a power of ten is inexact.
            (digits, Some(n)) => Value::float(round_to(n, digits)),
        }
    }

    /// Returns the square root; NaN for a negative number.
    ///
    /// ```harn
    /// println([sqrt(9), sqrt(-1)]) // -> [3.0, NaN]
    /// ```
    Pure fn sqrt(cx, n: Value as "int | float") -> "float" {
        n.as_number().map(f64::sqrt)
    }

    /// Raises `a` to the power of `b`.
    ///
    /// For two ints with `b` not negative, the result is an int, or a float on overflow.
    ///
    /// ```harn
    /// println([pow(2, 10), pow(2, -1), pow(2, 0.5) > 1.41]) // -> [1024, 0.5, true]
    /// ```
    Pure fn pow(cx, a: Value as "int | float", b: Value as "int | float") -> "any" {
        match (a.as_int(), b.as_int()) {
            (Some(a), Some(b)) if b >= 0 => {
                let exact = u32::try_from(b).ok().and_then(|b| a.checked_pow(b));
                exact.map_or_else(|| Value::float((a as f64).powf(b as f64)), Value::int)
            }
            _ => match (a.as_number(), b.as_number()) {
                (Some(a), Some(b)) => Value::float(a.powf(b)),
                _ => Value::NIL,
            },
        }
    }

    /// Returns the sign of a number: -1, 0 or 1.
    ///
    /// ```harn
    /// println([sign(-2.5), sign(0), sign(7)]) // -> [-1, 0, 1]
    /// ```
    Pure fn sign(cx, n: Value as "int | float") -> "any" {
        match n.view() {
            View::Int(i) => Value::int(i.signum()),
            View::Float(f) if f.is_nan() => n,
            View::Float(f) => Value::int(i64::from(f > 0.0) - i64::from(f < 0.0)),
            _ => Value::NIL,
        }
    }

    /// Returns the sine of an angle in radians.
    ///
    /// ```harn
    /// println(sin(0)) // -> 0.0
    /// ```
    Pure fn sin(cx, n: Value as "int | float") -> "float" {
        n.as_number().map(f64::sin)
    }

    /// Returns the cosine of an angle in radians.
    ///
    /// ```harn
    /// println(cos(0)) // -> 1.0
    /// ```
    Pure fn cos(cx, n: Value as "int | float") -> "float" {
        n.as_number().map(f64::cos)
    }

    /// Returns the tangent of an angle in radians.
    ///
    /// ```harn
    /// println(tan(0)) // -> 0.0
    /// ```
    Pure fn tan(cx, n: Value as "int | float") -> "float" {
        n.as_number().map(f64::tan)
    }

    /// Returns the angle in radians whose sine is `n`; NaN outside of -1 to 1.
    ///
    /// ```harn
    /// println([asin(0), asin(2)]) // -> [0.0, NaN]
    /// ```
    Pure fn asin(cx, n: Value as "int | float") -> "float" {
        n.as_number().map(f64::asin)
    }

    /// Returns the angle in radians whose cosine is `n`; NaN outside of -1 to 1.
    ///
    /// ```harn
    /// println(acos(1)) // -> 0.0
    /// ```
    Pure fn acos(cx, n: Value as "int | float") -> "float" {
        n.as_number().map(f64::acos)
    }

    /// Returns the angle in radians whose tangent is `n`.
    ///
    /// ```harn
    /// println(atan(0)) // -> 0.0
    /// ```
    Pure fn atan(cx, n: Value as "int | float") -> "float" {
        n.as_number().map(f64::atan)
    }

    /// Returns the natural logarithm.
    ///
    /// ```harn
    /// println([ln(1), ln(0), ln(-1)]) // -> [0.0, -inf, NaN]
    /// ```
    Pure fn ln(cx, n: Value as "int | float") -> "float" {
        n.as_number().map(f64::ln)
    }

    /// Returns the logarithm to base 2.
    ///
    /// ```harn
    /// println(log2(8)) // -> 3.0
    /// ```
    Pure fn log2(cx, n: Value as "int | float") -> "float" {
        n.as_number().map(f64::log2)
    }

    /// Returns the logarithm to base 10.
    ///
    /// ```harn
    /// println(log10(1000)) // -> 3.0
    /// ```
    Pure fn log10(cx, n: Value as "int | float") -> "float" {
        n.as_number().map(f64::log10)
    }

    /// Raises e to the power of `n`.
    ///
    /// ```harn
    /// println(exp(0)) // -> 1.0
    /// ```
    Pure fn exp(cx, n: Value as "int | float") -> "float" {
        n.as_number().map(f64::exp)
    }

    /// Returns the angle in radians of the point `(x, y)`.
    ///
    /// ```harn
    /// println(atan2(0, 1)) // -> 0.0
    /// ```
    Pure fn atan2(cx, y: Value as "int | float", x: Value as "int | float") -> "float" {
        match (y.as_number(), x.as_number()) {
            (Some(y), Some(x)) => Some(y.atan2(x)),
            _ => None,
        }
    }

    /// Returns whether a value is the float NaN.
    ///
    /// ```harn
    /// println([is_nan(0.0 / 0.0), is_nan(1), is_nan("NaN")]) // -> [true, false, false]
    /// ```
    Pure fn is_nan(cx, value: Value) -> "bool" {
        value.as_float().is_some_and(f64::is_nan)
    }

    /// Returns whether a value is an infinite float.
    ///
    /// ```harn
    /// println([is_infinite(1.0 / 0.0), is_infinite(1)]) // -> [true, false]
    /// ```
    Pure fn is_infinite(cx, value: Value) -> "bool" {
        value.as_float().is_some_and(f64::is_infinite)
    }
}

/// The dot product of two vectors, and of each with itself.
#[derive(Default)]
struct Products {
    ab: f64,
    aa: f64,
    bb: f64,
}

/// Computes the dot products of two vectors in one pass.
fn products(a: &Value, b: &Value) -> Result<Products> {
    let items = |v: &Value| v.as_list().cloned().ok_or_else(|| Error::thrown("items must be a list"));
    let (a, b) = (items(a)?, items(b)?);
    if a.len() != b.len() {
        return Err(Error::thrown("vectors must have the same length"));
    }
    harn_value::steps::steps(a.len());
    let mut sums = Products::default();
    for (a, b) in a.iter().zip(b.iter()) {
        let (Some(a), Some(b)) = (a.as_number(), b.as_number()) else {
            return Err(Error::thrown("items must contain only numbers"));
        };
        sums.ab += a * b;
        sums.aa += a * a;
        sums.bb += b * b;
    }
    Ok(sums)
}

/// Checks a number of decimal places.
fn digit_count(name: &str, digits: i64) -> Result<usize> {
    match usize::try_from(digits) {
        Ok(digits) if digits <= 100 => Ok(digits),
        _ => Err(Error::runtime(format!("{name}: digits must be between 0 and 100, got {digits}"))),
    }
}

/// Rounds to a number of decimal places, halves away from zero, based on the shortest decimal form.
fn round_to(n: f64, digits: usize) -> f64 {
    rounded(n, digits).parse().unwrap_or(n)
}

/// Checks the second argument of `min` and `max`, where nil differs from a missing argument.
fn check_second(name: &str, second: &Given) -> Result<()> {
    const TYPE: &str = "int | float | string | duration | pair";
    const KINDS: Kinds = Kinds::of(TYPE);
    match &second.0 {
        Some(value) if !KINDS.meets(kind(value)) => {
            Err(Error::type_error(signature::wrong_type(name, "second", TYPE, value.type_name())))
        }
        _ => Ok(()),
    }
}

/// Returns the smallest or largest value; NaN is greater than all numbers.
fn pick(name: &str, first: Value, others: Vec<Value>, wanted: Ordering) -> Result<Value> {
    let items = match first.as_list() {
        Some(list) if others.is_empty() => list.to_vec(),
        Some(_) => {
            return Err(Error::type_error(format!("{name}: takes one list, or numbers, or strings")));
        }
        None if others.is_empty() => {
            return Err(Error::runtime(format!("{name}: expected at least 2 arguments, or one list, got 1")));
        }
        None => std::iter::once(first).chain(others).collect(),
    };
    let mut items = items.into_iter();
    let Some(mut best) = items.next() else { return Ok(Value::NIL) };
    for item in steps::each(items) {
        best = pick_two(name, &best, &item, wanted)?;
    }
    pick_two(name, &best.clone(), &best, wanted)
}

fn pick_two(name: &str, a: &Value, b: &Value, wanted: Ordering) -> Result<Value> {
    if let (Some(x), Some(y)) = (a.as_int(), b.as_int()) {
        return Ok(Value::int(if y.cmp(&x) == wanted { y } else { x }));
    }
    if let (Some(x), Some(y)) = (a.as_str(), b.as_str()) {
        return Ok(if y.cmp(x) == wanted { b.clone() } else { a.clone() });
    }
    match (a.as_number(), b.as_number()) {
        // As in a sorted list: NaN is greater than all numbers.
        (Some(x), Some(y)) if wanted == Ordering::Greater && (x.is_nan() || y.is_nan()) => {
            Ok(Value::float(f64::NAN))
        }
        (Some(x), Some(y)) => Ok(Value::float(if wanted == Ordering::Less { x.min(y) } else { x.max(y) })),
        _ => match harn_value::order(a, b) {
            Ok(_) => Ok(if harn_value::order(b, a) == Ok(Some(wanted)) { b.clone() } else { a.clone() }),
            Err(kinds) if kinds.left == kinds.right => Err(Error::type_error(format!(
                "{name}: items must be numbers, strings, durations or pairs, got {}",
                kinds.left
            ))),
            Err(kinds) => Err(Error::type_error(kinds.to_string())),
        },
    }
}

fn to_whole(n: &Value, round: fn(f64) -> f64) -> Result<Value> {
    Ok(match n.view() {
        View::Int(_) => n.clone(),
        View::Float(f) if !f.is_finite() => {
            return Err(Error::runtime("cannot convert non-finite float to int"));
        }
        View::Float(f) => {
            let whole = round(f);
            if !(-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&whole) {
                return Err(Error::runtime("float is outside the representable int range"));
            }
            Value::int(whole as i64)
        }
        _ => Value::NIL,
    })
}

builtins! {
    /// Statistics over lists of numbers.
    pub(crate) static STATISTICS: "statistics";

    /// Returns the arithmetic mean.
    ///
    /// ```harn
    /// println(mean([1, 2, 6])) // -> 3.0
    /// ```
    Pure fn mean(cx, items: Value as "!list") -> "float" {
        average(&some_numbers("mean", &items)?)
    }

    /// Returns the median: the middle value of a list, or the mean of the two middle values.
    ///
    /// ```harn
    /// println([median([3, 1, 2]), median([1, 2, 3, 4])]) // -> [2.0, 2.5]
    /// ```
    Pure fn median(cx, items: Value as "!list") -> "float" {
        let items = sorted(some_numbers("median", &items)?);
        (items[(items.len() - 1) / 2] + items[items.len() / 2]) / 2.0
    }

    /// Returns the interpolated value below which `p` percent of a list's items are.
    ///
    /// ```harn
    /// println(percentile([1, 2, 3, 4, 5], 25)) // -> 2.0
    /// println(try { percentile([1], 101) }) // -> Result.Err(Runtime error: percentile must be between 0 and 100)
    /// ```
    Pure fn percentile(cx, items: Value as "!list", p: Value as "!int | float") -> "float" {
        let items = some_numbers("percentile", &items)?;
        let Some(p) = p.as_number() else { return Err(not_numeric("percentile")) };
        if !(0.0..=100.0).contains(&p) {
            return Err(Error::runtime("percentile must be between 0 and 100"));
        }
        let items = sorted(items);
        let place = (items.len() - 1) as f64 * p / 100.0;
        let low = items[place.floor() as usize];
        let high = items[place.ceil() as usize];
        low + (high - low) * place.fract()
    }

    /// Returns the variance; with `sample`, divided by n - 1.
    ///
    /// ```harn
    /// println([variance([1, 3]), variance([1, 3], true)]) // -> [1.0, 2.0]
    /// ```
    Pure fn variance(cx, items: Value as "!list", sample: Value as "bool?") -> "float" {
        spread("variance", &items, &sample)?
    }

    /// Returns the standard deviation: the square root of the variance.
    ///
    /// ```harn
    /// println(stddev([2, 4, 4, 4, 5, 5, 7, 9])) // -> 2.0
    /// ```
    Pure fn stddev(cx, items: Value as "!list", sample: Value as "bool?") -> "float" {
        spread("stddev", &items, &sample)?.sqrt()
    }
}

fn not_numeric(name: &str) -> Error {
    Error::type_error(format!("{name} must be numeric"))
}

fn numbers(name: &str, items: &Value) -> Result<Vec<f64>> {
    let Some(items) = items.as_list() else {
        return Err(Error::type_error(format!("{name}: items must be a list")));
    };
    steps::each(items.iter()).map(|item| item.as_number().ok_or_else(|| not_numeric(name))).collect()
}

fn some_numbers(name: &str, items: &Value) -> Result<Vec<f64>> {
    let items = numbers(name, items)?;
    if items.is_empty() { Err(Error::runtime(format!("{name}: items must not be empty"))) } else { Ok(items) }
}

fn sorted(mut items: Vec<f64>) -> Vec<f64> {
    // NaN after all numbers regardless of its sign, which depends on the machine.
    items.sort_by(|a, b| {
        steps::step();
        a.partial_cmp(b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
    });
    items
}

fn average(items: &[f64]) -> f64 {
    items.iter().sum::<f64>() / items.len() as f64
}

fn spread(name: &str, items: &Value, sample: &Value) -> Result<f64> {
    let items = some_numbers(name, items)?;
    let sample = sample.as_bool() == Some(true);
    if sample && items.len() < 2 {
        return Err(Error::runtime("sample variance requires at least 2 values"));
    }
    let mean = average(&items);
    let squares: f64 = items.iter().map(|x| (x - mean) * (x - mean)).sum();
    Ok(squares / (items.len() - usize::from(sample)) as f64)
}
