//! Where native code that was stopped, or that failed, becomes an error of the program.
//!
//! While a fiber runs, a [`Watch`] makes it the one for whose sake native code of this thread is stopped: walks say
//! their steps ([`harn_value::steps`]), the lookout finds that the memory limit, a deadline, a cancellation or a
//! signal wants them to end, and they unwind up to [`catch`]. A panic inside native code ends there too, so that one
//! broken builtin is an error that `try` catches and not the end of the process.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use harn_value::steps::{Lookout, Stopped, set_lookout};

use crate::cx::Cx;
use crate::error::{Error, Result};

thread_local! {
    /// The fiber that runs.
    static RUNNING: RefCell<Option<Cx>> = const { RefCell::new(None) };
    /// Why the work in progress ends.
    static REASON: Cell<Option<Error>> = const { Cell::new(None) };
    /// Text and place of the last panic.
    static PANIC: Cell<Option<String>> = const { Cell::new(None) };
}

/// While it lives, native code of this thread can be stopped for the sake of one fiber.
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

/// The task that runs: its path from the root, and file and line of the builtin that it called last. Nothing while no
/// task runs.
pub fn running_place() -> Option<(String, Option<Place>)> {
    let cx = RUNNING.with_borrow(Clone::clone)?;
    Some((cx.task().path(), cx.call_place()))
}

/// While it lives, native code of this thread is not stopped: what handles an interruption, and what must be done whole
/// or not at all. It is for work without waits that takes no long time.
pub struct Calm(Option<Lookout>);

impl Calm {
    /// Begins the calm.
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

/// Whether the work in progress is to end; the reason is kept for [`catch`].
fn lookout() -> bool {
    let reason = RUNNING.with_borrow(|fiber| fiber.as_ref().and_then(|cx| cx.check().err()));
    let stop = reason.is_some();
    REASON.set(reason);
    stop
}

/// Ends the native function in progress with an error, from code that can return none: a conversion, a comparison.
/// Only for code that a program called.
#[cold]
pub fn stop(error: Error) -> ! {
    REASON.set(Some(error));
    resume_unwind(Box::new(Stopped))
}

/// The nesting of data that a conversion to a tree of another crate accepts. Such trees are freed and written
/// by recursion, and nothing that reads them takes half as much.
pub const MAX_NESTING: usize = 512;

/// Ends the native function in progress when a conversion has gone too deep.
#[inline]
pub fn check_nesting(depth: usize) {
    if depth > MAX_NESTING {
        stop(Error::runtime(format!("data is nested too deeply: more than {MAX_NESTING} levels")));
    }
}

/// Runs native code. What stopped it, a panic too, is an error.
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

/// Makes panics inside native functions of a program silent: they become errors, which name the place.
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
