//! Details of failures that programs see as strings.
//!
//! A failed file operation is caught as the message that the contract fixes. Its path, kind and code are stored
//! separately and looked up by that message: equal messages are treated as the same failure.

use std::cell::RefCell;
use std::collections::VecDeque;

use harn_value::{Dict, Value};

use crate::error::Error;

/// Maximum number of stored failures; the oldest are dropped first.
const KEPT: usize = 256;

/// Failures of spawned tasks that were never awaited.
#[derive(Default)]
pub struct TaskFaults(RefCell<Option<Error>>);

impl TaskFaults {
    /// Takes the first failure of such a task, or an error about the first task that was still running when the program
    /// ended.
    pub fn take(&self) -> Option<Error> {
        self.0.take()
    }

    pub(crate) fn note(&self, fault: impl FnOnce() -> Error) {
        self.0.borrow_mut().get_or_insert_with(fault);
    }
}

/// Details of the latest failures of a program.
#[derive(Default)]
pub struct Failures(RefCell<VecDeque<(Value, Dict)>>);

impl Failures {
    /// Stores the details of `error`, if it has any.
    #[cold]
    pub fn learn(&self, error: &Error) {
        let Some(facts) = error.facts() else { return };
        let text = error.caught();
        let mut known = self.0.borrow_mut();
        known.retain(|(old, _)| *old != text);
        if known.len() == KEPT {
            known.pop_front();
        }
        known.push_back((text, facts.clone()));
    }

    /// Returns the details of a failure with this message, also if it has the prefix that a settled task adds.
    pub fn of(&self, text: &str) -> Option<Dict> {
        let bare = text.strip_prefix("Thrown: ").unwrap_or(text);
        let is = |known: &Value| {
            known.as_str().is_some_and(|known| known.as_str() == text || known.as_str() == bare)
        };
        self.0.borrow().iter().rev().find(|(known, _)| is(known)).map(|(_, facts)| facts.clone())
    }
}
