//! Conversion of stopped or panicking native code to errors of the program.
//!
//! While a fiber runs, a [`Watch`] makes native code of this thread stoppable on behalf of that fiber: traversals count
//! their steps ([`harn_value::steps`]), the lookout detects that the memory limit, a deadline, a cancellation or a
//! signal requires them to stop, and they unwind to [`catch`]. A panic inside native code ends there too, so that a
//! broken builtin causes an error that `try` can catch and does not end the process.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use harn_value::steps::{Lookout, Stopped, set_lookout};

use crate::cx::Cx;
use crate::error::{Error, Result};

thread_local! {
    /// The running fiber.
    static RUNNING: RefCell<Option<Cx>> = const { RefCell::new(None) };
    /// Why the current native code is stopped.
    static REASON: Cell<Option<Error>> = const { Cell::new(None) };
    /// Message and location of the last panic.
    static PANIC: Cell<Option<String>> = const { Cell::new(None) };
}

/// While it exists, native code of this thread can be stopped on behalf of one fiber.
pub(crate) struct Watch {
    fiber: Option<Cx>,
    lookout: Option<Lookout>,
}

impl Watch {
    pub(crate) fn new(cx: &Cx) -> Watch {
        Watch { fiber: RUNNING.replace(Some(cx.clone())), lookout: set_lookout(Some(lookout)) }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        RUNNING.replace(self.fiber.take());
        set_lookout(self.lookout);
    }
}

/// File and line.
pub type Place = (std::rc::Rc<str>, usize);

/// Returns the running task: its path from the root, and file and line of the builtin that it called last. `None` while
/// no task runs.
pub fn running_place() -> Option<(String, Option<Place>)> {
    let cx = RUNNING.with_borrow(Clone::clone)?;
    Some((cx.task().path(), cx.call_place()))
}

/// While it exists, native code of this thread is not stopped: for handling an interruption, and for work that must be
/// atomic. Only for short work without waits.
pub struct Calm(Option<Lookout>);

impl Calm {
    /// Disables stopping.
    #[must_use]
    pub fn new() -> Calm {
        Calm(set_lookout(None))
    }
}

impl Default for Calm {
    fn default() -> Calm {
        Calm::new()
    }
}

impl Drop for Calm {
    fn drop(&mut self) {
        set_lookout(self.0);
    }
}

/// Returns whether the current native code must stop; the reason is stored for [`catch`].
fn lookout() -> bool {
    let reason = RUNNING.with_borrow(|fiber| fiber.as_ref().and_then(|cx| cx.check().err()));
    let stop = reason.is_some();
    REASON.set(reason);
    stop
}

/// Ends the current native function with an error, from code that cannot return one: a conversion, a comparison. Only
/// for code that a program has called.
#[cold]
pub fn stop(error: Error) -> ! {
    REASON.set(Some(error));
    resume_unwind(Box::new(Stopped))
}

/// Maximum nesting of data for a conversion to a tree of another crate. Such trees are dropped and serialized by
/// recursion, and their readers accept less than half of this depth.
pub const MAX_NESTING: usize = 512;

/// Ends the current native function if a conversion is too deep.
#[inline]
pub fn check_nesting(depth: usize) {
    if depth > MAX_NESTING {
        stop(Error::runtime(format!("data is nested too deeply: more than {MAX_NESTING} levels")));
    }
}

/// Runs native code; converts a stop or a panic to an error.
#[inline]
pub(crate) fn catch<R>(work: impl FnOnce() -> R) -> Result<R> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|payload| reason(&*payload))
}

#[cold]
fn reason(payload: &(dyn Any + Send)) -> Error {
    if payload.is::<Stopped>()
        && let Some(error) = REASON.take()
    {
        return error;
    }
    let said = payload.downcast_ref::<&str>().map(|s| (*s).to_owned());
    let said = PANIC.take().or(said).or_else(|| payload.downcast_ref::<String>().cloned());
    Error::runtime(format!("internal error: {}; please report it", said.unwrap_or_default()))
}

/// Silences panics inside native functions of a program: they become errors, which include the location.
pub fn quiet_panics() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if RUNNING.try_with(|fiber| fiber.try_borrow().is_ok_and(|fiber| fiber.is_none())).unwrap_or(true) {
            return before(info);
        }
        let text = info.payload_as_str().unwrap_or("panic");
        let place = info.location().map_or(String::new(), |place| format!(" ({place})"));
        PANIC.set(Some(format!("{text}{place}")));
    }));
}
