//! Generators and streams: functions that run on a separate stack and yield values.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use harn_value::{Foreign, Value};

use crate::bytecode::{HandlerKind, Proto};
use crate::cleanup::Cleanups;
use crate::coroutine::Coroutine;
use crate::vm_id::VmId;

/// A suspended function. `next()`, `for` and iterators resume it.
pub struct Generator {
    /// Its stack; `None` while it runs and after its end.
    pub(crate) coroutine: RefCell<Option<Box<Coroutine>>>,
    pub(crate) done: Cell<bool>,
    stream: bool,
    /// The VM that may resume it.
    pub(crate) vm: Rc<VmId>,
    /// The queue that receives its stack if it is dropped before it ends, and its number there; empty for a function
    /// without cleanup blocks.
    cleanups: Weak<Cleanups>,
    number: u64,
}

impl Generator {
    /// Creates a generator of the function `proto` that will run on `coroutine`.
    pub(crate) fn value(coroutine: Box<Coroutine>, proto: &Proto, cleanups: &Rc<Cleanups>) -> Value {
        // Only the function itself suspends, so only its own blocks can be pending.
        let has_cleanup = proto.handlers.iter().any(|h| h.kind == HandlerKind::Finally);
        let number = if has_cleanup { cleanups.number() } else { 0 };
        let value = Value::foreign(Generator {
            coroutine: RefCell::new(Some(coroutine)),
            done: Cell::new(false),
            stream: proto.stream,
            vm: proto.vm.clone(),
            cleanups: if has_cleanup { Rc::downgrade(cleanups) } else { Weak::new() },
            number,
        });
        if let (true, Some(generator)) = (has_cleanup, value.downcast::<Generator>()) {
            cleanups.remember(number, generator);
        }
        value
    }

    /// Ends a suspended generator and queues its cleanup blocks. No effect while it runs or after its end.
    pub(crate) fn close(&self) {
        if let Some(rest) = self.end()
            && let Some(cleanups) = self.cleanups.upgrade()
        {
            cleanups.dropped(self.number, Some(rest));
        }
    }

    /// Ends a suspended generator and returns its stack; `None` while it runs and after its end.
    pub(crate) fn end(&self) -> Option<Box<Coroutine>> {
        let rest = self.coroutine.borrow_mut().take();
        if rest.is_some() {
            self.done.set(true);
        }
        rest
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

    fn trace(&self, visit: &mut dyn FnMut(&Value)) {
        // While it runs, the fiber owns its stack.
        if let Ok(coroutine) = self.coroutine.try_borrow()
            && let Some(coroutine) = &*coroutine
        {
            coroutine.trace(visit);
        }
    }

    fn finalize(&self) -> bool {
        // Without its VM, the functions on the stack no longer exist.
        let Some(cleanups) = self.cleanups.upgrade().filter(|cleanups| cleanups.is_open()) else {
            return false;
        };
        let rest = self.end().filter(|rest| rest.has_cleanup());
        let has_cleanup = rest.is_some();
        if has_cleanup {
            cleanups.dropped(self.number, rest);
        }
        has_cleanup
    }
}

impl Drop for Generator {
    fn drop(&mut self) {
        if let Some(cleanups) = self.cleanups.upgrade() {
            cleanups.dropped(self.number, self.coroutine.get_mut().take());
        }
    }
}
