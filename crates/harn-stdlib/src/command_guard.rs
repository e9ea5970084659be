//! Who looks at commands before they run. The builtins that run programs ask the guard that the runtime attached.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use harn_value::{Dict, Ref, Value};
use harn_vm::{Cx, Result};

/// A result that comes later.
pub type Later<'a> = Pin<Box<dyn Future<Output = Result<Value>> + 'a>>;

/// Runs a command as its request says: `argv` or `command`, `cwd` and what else the builtin takes.
pub type Runner<'a> = Box<dyn FnOnce(Ref<Dict>) -> Later<'a> + 'a>;

/// Decides about commands.
pub trait CommandGuard {
    /// Whether anything is forbidden or watched where the running task is.
    fn is_on(&self, cx: &Cx) -> bool;

    /// Runs a command, changed or not, or gives the result that stands for one that is not run.
    fn run<'a>(&'a self, cx: &'a Cx, request: Ref<Dict>, run: Runner<'a>) -> Later<'a>;
}

#[derive(Default)]
struct Attached(RefCell<Option<Rc<dyn CommandGuard>>>);

/// Makes a guard look at every command of the program from now on.
pub fn attach_command_guard(cx: &Cx, guard: Rc<dyn CommandGuard>) {
    *cx.state::<Attached>().0.borrow_mut() = Some(guard);
}

/// The guard that watches the running task.
pub(crate) fn guard(cx: &Cx) -> Option<Rc<dyn CommandGuard>> {
    let guard = cx.state::<Attached>().0.borrow().clone()?;
    guard.is_on(cx).then_some(guard)
}
