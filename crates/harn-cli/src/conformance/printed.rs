//! Captured output of a case or test.

use std::cell::{Ref, RefCell};
use std::io;
use std::rc::Rc;

/// Maximum captured output of a program, so that endless output does not exhaust memory.
const LIMIT: usize = 16 << 20;

/// Captures the output of a program. Clones share the buffer.
#[derive(Clone, Default)]
pub(crate) struct Printed(Rc<RefCell<String>>);

impl Printed {
    /// Appends output.
    ///
    /// # Errors
    /// The output would exceed the limit; nothing is appended.
    pub(crate) fn push(&self, text: &str) -> io::Result<()> {
        let mut all = self.0.borrow_mut();
        if all.len() + text.len() > LIMIT {
            return Err(io::Error::other(format!("a test may print at most {} MiB", LIMIT >> 20)));
        }
        all.push_str(text);
        Ok(())
    }

    /// Returns the output so far.
    pub(crate) fn text(&self) -> Ref<'_, str> {
        Ref::map(self.0.borrow(), String::as_str)
    }
}
