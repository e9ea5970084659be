//! Generators and streams: functions that run on a stack of their own and hand out values.

use std::cell::{Cell, RefCell};

use harn_value::{Foreign, Value};

use crate::fiber::Coroutine;

/// A suspended function. `next()`, `for` and iterators resume it.
pub struct Generator {
    /// Its stack; `None` while it runs and after its end.
    pub(crate) coroutine: RefCell<Option<Box<Coroutine>>>,
    pub(crate) done: Cell<bool>,
    stream: bool,
}

impl Generator {
    pub(crate) fn value(coroutine: Box<Coroutine>, stream: bool) -> Value {
        Value::foreign(Generator { coroutine: RefCell::new(Some(coroutine)), done: Cell::new(false), stream })
    }
}

impl Foreign for Generator {
    fn type_name(&self) -> &'static str {
        if self.stream { "stream" } else { "generator" }
    }

    fn print(&self, out: &mut String) {
        out.push_str(match (self.stream, self.done.get()) {
            (false, false) => "<generator>",
            (false, true) => "<generator (done)>",
            (true, false) => "<stream>",
            (true, true) => "<stream (done)>",
        });
    }

    fn equals(&self, _other: &dyn Foreign) -> bool {
        false
    }
}

impl Drop for Generator {
    fn drop(&mut self) {
        // Pending `finally` and `defer` blocks of an abandoned generator run at the next chance.
        if let Some(coroutine) = self.coroutine.get_mut().take()
            && coroutine.has_cleanup()
        {
            crate::fiber::abandon(coroutine);
        }
    }
}
