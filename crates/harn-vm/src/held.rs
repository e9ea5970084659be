//! [`Held`]: an error stored in a register.

use std::cell::RefCell;

use harn_value::Value;

use crate::error::{Error, ErrorKind};

/// An error in a register while a `finally` block runs.
pub(crate) struct Held(RefCell<Option<Error>>);

impl Held {
    pub(crate) fn value(error: Error) -> Value {
        Value::foreign(Held(RefCell::new(Some(error))))
    }

    /// Returns whether the value is an error that has not been rethrown yet.
    pub(crate) fn holds(value: &Value) -> bool {
        value.downcast::<Held>().is_some_and(|held| held.0.borrow().is_some())
    }

    /// Takes the error to rethrow it.
    pub(crate) fn take(value: &Value) -> Error {
        value
            .downcast::<Held>()
            .and_then(|held| held.0.borrow_mut().take())
            .unwrap_or_else(|| Error::new(ErrorKind::Abort))
    }

    /// Returns the value that `catch` binds.
    pub(crate) fn caught(value: &Value) -> Value {
        value
            .downcast::<Held>()
            .and_then(|held| held.0.borrow().as_ref().map(Error::caught))
            .unwrap_or_default()
    }
}

impl harn_value::Foreign for Held {
    fn type_name(&self) -> &'static str {
        "error"
    }

    fn print(&self, out: &mut String) {
        out.push_str("<error>");
    }

    fn equals(&self, _other: &dyn harn_value::Foreign) -> bool {
        false
    }
}
