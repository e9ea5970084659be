//! Argument checks for the modules of the standard library that are written in Harn. They use the notation of the
//! tables of builtins, so that a wrong call has the same error.

use harn_value::Value;
use harn_vm::Error;
use harn_vm::builtin::{Text, check_value};
use harn_vm::builtins;

/// The type of a time: a duration, or a number in the unit of the function.
const TIME: &str = "duration | int | float";

builtins! {
    /// Argument checks of the standard modules.
    pub(crate) static OWN_ARGS: "errors";

    /// Returns the argument of a function if it has the type; otherwise, throws the error of a
    /// builtin.
    ///
    /// ```harn
    /// println(__takes("f", "n", "int", 1)) // -> 1
    /// ```
    Pure fn takes = "__takes"(cx, function: Text, param: Text, ty: Text, value: Value as "any?") -> "any" {
        check_value(&function, &param, &ty, &value)?;
        value
    }

    /// Throws a runtime error from a function of a standard module, like the error of a builtin.
    ///
    /// ```harn
    /// println(unwrap_err(try { __refuse("f: no such key") })) // -> Runtime error: f: no such key
    /// ```
    Pure fn refuse = "__refuse"(cx, text: Text) -> "never" {
        Err::<Value, Error>(Error::runtime(text.to_string()))
    }

    /// Returns a time as a number: a duration in units of `unit` milliseconds, a number unchanged.
    ///
    /// ```harn
    /// println(__time("f", "wait", 1, 2s)) // -> 2000
    /// ```
    Pure fn time = "__time"(cx, function: Text, param: Text, unit: i64, value: Value as "any?") -> "int | float" {
        check_value(&function, &param, TIME, &value)?;
        match value.as_duration() {
            Some(ms) if unit <= 1 => Value::int(ms),
            Some(ms) => Value::float(ms as f64 / unit as f64),
            None => value,
        }
    }
}
