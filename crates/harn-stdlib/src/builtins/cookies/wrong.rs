//! Errors of the cookie builtins.

use harn_value::Value;
use harn_vm::Error;

use harn_vm::builtin::ArgName;

/// Returns the error `cookie: TEXT`.
pub(super) fn refused(text: &str) -> Error {
    Error::runtime(format!("cookie: {text}"))
}

pub(super) fn missing(function: &str, count: usize) -> Error {
    refused(&format!("{function} requires {count} arguments"))
}

/// Returns the type error for a value of a list or a dict of headers.
pub(super) fn no_text(builtin: &'static str, param: &'static str, value: &Value) -> Error {
    ArgName { builtin, index: 1, param }.expected("string", value)
}
