//! Errors of HTTP requests.

use harn_vm::Error;

/// Returns the error `http: TEXT`.
pub(super) fn wrong(text: &str) -> Error {
    Error::thrown(format!("http: {text}"))
}
