//! What a case or a test prints.

use std::cell::{Ref, RefCell};
use std::io;
use std::rc::Rc;

/// The most that is kept of one program: one that prints for ever must not fill the memory.
const LIMIT: usize = 16 << 20;

/// Keeps what a program prints. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Printed(Rc<RefCell<String>>);

impl Printed {
    /// Adds text.
    ///
    /// # Errors
    /// When it would be more than is kept; nothing is added then.
    pub(crate) fn push(&self, text: &str) -> io::Result<()> {
        let mut all = self.0.borrow_mut();
        if all.len() + text.len() > LIMIT {
            return Err(io::Error::other(format!("a test may print at most {} MiB", LIMIT >> 20)));
        }
        all.push_str(text);
        Ok(())
    }

    /// What was printed so far.
    pub(crate) fn text(&self) -> Ref<'_, str> {
        Ref::map(self.0.borrow(), String::as_str)
    }
}
