//! The hook for command policies. The builtins that run programs call the guard attached by the runtime.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use harn_value::{Dict, Ref, Value};
use harn_vm::{Cx, Result};

/// A future result.
pub type Later<'a> = Pin<Box<dyn Future<Output = Result<Value>> + 'a>>;

/// Runs the command of a request: `argv` or `command`, `cwd` and the other parameters of the builtin.
pub type Runner<'a> = Box<dyn FnOnce(Ref<Dict>) -> Later<'a> + 'a>;

/// Decides whether commands may run.
pub trait CommandGuard {
    /// Returns whether the running task is subject to a command policy.
    fn is_on(&self, cx: &Cx) -> bool;

    /// Runs a command, changed or not, or returns a result in place of one that is blocked.
    fn run<'a>(&'a self, cx: &'a Cx, request: Ref<Dict>, run: Runner<'a>) -> Later<'a>;
}

#[derive(Default)]
struct Attached(RefCell<Option<Rc<dyn CommandGuard>>>);

/// Attaches a guard for all further commands of the program.
pub fn attach_command_guard(cx: &Cx, guard: Rc<dyn CommandGuard>) {
    *cx.state::<Attached>().0.borrow_mut() = Some(guard);
}

/// Returns the guard that applies to the running task.
pub(crate) fn guard(cx: &Cx) -> Option<Rc<dyn CommandGuard>> {
    let guard = cx.state::<Attached>().0.borrow().clone()?;
    guard.is_on(cx).then_some(guard)
}
