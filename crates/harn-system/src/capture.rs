//! Captures output instead of writing it.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use crate::system::{Layer, System};

/// A system that captures its output in memory.
pub struct Capture {
    inner: Rc<dyn System>,
    out: RefCell<String>,
    err: RefCell<String>,
}

impl Capture {
    /// Captures the output of `inner`.
    pub fn over(inner: Rc<dyn System>) -> Capture {
        Capture { inner, out: RefCell::default(), err: RefCell::default() }
    }

    /// Returns the captured standard output.
    pub fn output(&self) -> String {
        self.out.borrow().clone()
    }

    /// Returns the captured standard error.
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
