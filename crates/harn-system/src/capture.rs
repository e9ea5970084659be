//! Keeps what is written instead of writing it.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use crate::system::{Layer, System};

/// A system whose output is kept in memory.
pub struct Capture {
    inner: Rc<dyn System>,
    out: RefCell<String>,
    err: RefCell<String>,
}

impl Capture {
    /// Keeps the output of `inner`.
    pub fn over(inner: Rc<dyn System>) -> Capture {
        Capture { inner, out: RefCell::default(), err: RefCell::default() }
    }

    /// What was written to standard output so far.
    pub fn output(&self) -> String {
        self.out.borrow().clone()
    }

    /// What was written to standard error so far.
    pub fn errors(&self) -> String {
        self.err.borrow().clone()
    }
}

impl Layer for Capture {
    fn inner(&self) -> &dyn System {
        &*self.inner
    }

    fn write_out(&self, text: &str) -> io::Result<()> {
        self.out.borrow_mut().push_str(text);
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn write_err(&self, text: &str) {
        self.err.borrow_mut().push_str(text);
    }
}
