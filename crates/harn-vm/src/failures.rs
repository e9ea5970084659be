//! What is known of failures that programs see as text.
//!
//! A failed file operation is caught as the text that the contract fixes. Its path, kind and code are kept beside it, found
//! again by that text: equal texts tell of equal failures.

use std::cell::RefCell;
use std::collections::VecDeque;

use harn_value::{Dict, Value};

use crate::error::Error;

/// Failures whose facts are kept; older ones are forgotten first.
const KEPT: usize = 256;

/// What became of spawned tasks that nothing awaited.
#[derive(Default)]
pub struct TaskFaults(RefCell<Option<Error>>);

impl TaskFaults {
    /// Takes the first failure of such a task, or an error about the first task that still ran at the end of the program.
    pub fn take(&self) -> Option<Error> {
        self.0.take()
    }

    pub(crate) fn note(&self, fault: impl FnOnce() -> Error) {
        self.0.borrow_mut().get_or_insert_with(fault);
    }
}

/// The facts of the latest failures of a program.
#[derive(Default)]
pub struct Failures(RefCell<VecDeque<(Value, Dict)>>);

impl Failures {
    /// Keeps what `error` brings about itself, if anything.
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

    /// The facts of a failure with this text; also behind the prefix that a settled task gives it.
    pub fn of(&self, text: &str) -> Option<Dict> {
        let bare = text.strip_prefix("Thrown: ").unwrap_or(text);
        let is = |known: &Value| {
            known.as_str().is_some_and(|known| known.as_str() == text || known.as_str() == bare)
        };
        self.0.borrow().iter().rev().find(|(known, _)| is(known)).map(|(_, facts)| facts.clone())
    }
}
