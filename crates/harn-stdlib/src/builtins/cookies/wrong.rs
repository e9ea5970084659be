//! What is wrong with a cookie, in words.

use harn_value::Value;
use harn_vm::Error;

use harn_vm::builtin::ArgName;

/// `cookie: TEXT`
pub(super) fn refused(text: &str) -> Error {
    Error::runtime(format!("cookie: {text}"))
}

pub(super) fn missing(function: &str, count: usize) -> Error {
    refused(&format!("{function} requires {count} arguments"))
}

/// What a list or a dict of headers may not hold.
pub(super) fn no_text(builtin: &'static str, param: &'static str, value: &Value) -> Error {
    ArgName { builtin, index: 1, param }.expected("string", value)
}
