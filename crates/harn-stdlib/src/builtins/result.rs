//! `Ok`, `Err` and operations on them.

use harn_value::Value;
use harn_vm::{Error, builtins};

builtins! {
    /// `Result` values.
    pub(crate) static RESULTS: "results";

    /// Returns a successful `Result`.
    ///
    /// ```harn
    /// println([Ok(1), Ok()]) // -> [Result.Ok(1), Result.Ok(nil)]
    /// ```
    Pure fn ok = "Ok"(cx, value: Value as "any?") -> "Result" {
        Value::ok(value)
    }

    /// Returns a failed `Result`.
    ///
    /// ```harn
    /// println(Err("not found")) // -> Result.Err(not found)
    /// ```
    Pure fn err = "Err"(cx, error: Value as "any?") -> "Result" {
        Value::err(error)
    }

    /// Returns whether a value is `Ok`.
    ///
    /// ```harn
    /// println([is_ok(Ok(1)), is_ok(Err(1)), is_ok(1)]) // -> [true, false, false]
    /// ```
    Pure fn is_ok(cx, result: Value) -> "bool" {
        matches!(as_result(&result), Some(Ok(_)))
    }

    /// Returns whether a value is `Err`.
    ///
    /// ```harn
    /// println([is_err(Ok(1)), is_err(try { throw "no" }), is_err(1)]) // -> [false, true, false]
    /// ```
    Pure fn is_err(cx, result: Value) -> "bool" {
        matches!(as_result(&result), Some(Err(_)))
    }

    /// Returns the value of an `Ok`, and throws for an `Err`.
    ///
    /// A value that is not a `Result` is returned unchanged.
    ///
    /// ```harn
    /// println([unwrap(Ok(1)), unwrap(2)]) // -> [1, 2]
    /// println(try { unwrap(Err("bad")) }) // -> Result.Err(Runtime error: unwrap called on Err: bad)
    /// ```
    Pure fn unwrap(cx, result: Value) -> "any" {
        match as_result(&result) {
            Some(Ok(value)) => value,
            Some(Err(error)) => return Err(Error::runtime(format!("unwrap called on Err: {error}"))),
            None => result,
        }
    }

    /// Returns the value of an `Ok`, or `default` for an `Err`.
    ///
    /// ```harn
    /// println([unwrap_or(Ok(1), 0), unwrap_or(Err("bad"), 0), unwrap_or(5, 0)]) // -> [1, 0, 5]
    /// ```
    Pure fn unwrap_or(cx, result: Value, default: Value) -> "any" {
        match as_result(&result) {
            Some(Ok(value)) => value,
            Some(Err(_)) => default,
            None => result,
        }
    }

    /// Returns the error of an `Err`, and throws for any other value.
    ///
    /// ```harn
    /// println(unwrap_err(Err("bad"))) // -> bad
    /// println(try { unwrap_err(1) }) // -> Result.Err(Runtime error: unwrap_err called on non-Err)
    /// ```
    Pure fn unwrap_err(cx, result: Value) -> "any" {
        match as_result(&result) {
            Some(Err(error)) => error,
            _ => return Err(Error::runtime("unwrap_err called on non-Err")),
        }
    }
}

fn as_result(value: &Value) -> Option<Result<Value, Value>> {
    value.as_enum()?.as_result()
}
