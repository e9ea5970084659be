//! What is wrong with a request, in words.

use harn_vm::Error;

/// `http: TEXT`
pub(super) fn wrong(text: &str) -> Error {
    Error::thrown(format!("http: {text}"))
}
