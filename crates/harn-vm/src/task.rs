//! Tasks: the state of a fiber besides its stack: output, deadlines, cancellation, its copy of the program's variables,
//! and the result that others wait for. `Cx::task_identity` in `identity.rs` returns the identity of the running task
//! (its ID, group and session).

use std::cell::{Cell, LazyCell, RefCell, UnsafeCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::{Rc, Weak};
use std::task::{Poll, Waker};
use std::time::Duration;

use harn_system::System;
use harn_value::Value;

use crate::access::Access;
use crate::error::{Error, Result};
use crate::identity::{Birth, Origin};
use crate::spans::TaskSpans;
use crate::task_scope::Scopes;
use crate::vm::Vm;

/// Module-level variables.
pub(crate) type Globals = Rc<UnsafeCell<Vec<Value>>>;

/// Message of the error that a cancelled wait throws.
pub const CANCELLED: &str = "kind:cancelled:VM cancelled by host";

/// How long cleanup may still wait after its task was cancelled.
pub(crate) const GRACE: Duration = Duration::from_millis(250);

/// Number of checks (each some thousands of steps) for which a cancelled task may still run without waiting.
const GRACE_CHECKS: u32 = 2;

/// Number of checks for which cleanup may run after its task was stopped, before it is interrupted too.
const CLEANUP_CHECKS: u32 = 64;

/// Numbers of the tasks of a group that have ended, in that order.
#[derive(Default)]
pub struct Ends {
    numbers: RefCell<VecDeque<usize>>,
    waker: RefCell<Option<Waker>>,
}

impl Ends {
    /// Adds the number of a task that has ended, or another number, to wake the task that waits for the next one.
    pub fn add(&self, number: usize) {
        self.numbers.borrow_mut().push_back(number);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// Waits for the next end and returns its number.
    pub async fn next(&self) -> usize {
        std::future::poll_fn(|context| match self.numbers.borrow_mut().pop_front() {
            Some(number) => Poll::Ready(number),
            None => {
                *self.waker.borrow_mut() = Some(context.waker().clone());
                Poll::Pending
            }
        })
        .await
    }
}

/// The strongest stop request that was thrown into a task; cleanup runs after it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Told {
    Nothing,
    /// Cancellation: an error that the task can catch.
    Cancelled,
    /// Abort.
    Aborted,
}

/// State of the handle of a task that the program spawned.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Handle {
    /// No handle: the code that started the task waits for it.
    None,
    /// The program may still ask for the result.
    Held,
    /// The handle was dropped; the program cannot ask for the result any more.
    Gone,
}

/// A deadline.
#[derive(Clone, Copy)]
struct Deadline {
    token: u64,
    /// On the clock of the system, like all times here.
    at: Duration,
}

/// A task of the program.
pub struct Task {
    /// Number among the children of its parent, from 1; 0 for the root.
    pub id: u64,
    pub(crate) birth: Birth,
    pub(crate) spans: TaskSpans,
    parent: Option<Weak<Task>>,
    /// The root task, unless this is it. A parent may be dropped before its child has cleaned up.
    root: Option<Weak<Task>>,
    system: Rc<dyn System>,
    pub(crate) globals: Globals,
    /// Collected output of a child; `None` in the root, which writes immediately.
    output: RefCell<Option<String>>,
    cancelled: Cell<bool>,
    /// When waits other than `sleep` and locks are interrupted after a cancellation request.
    wait_until: Cell<Option<Duration>>,
    /// Checks left before a busy loop is interrupted: after a cancellation request, and again after a stop request was
    /// thrown.
    grace: Cell<u32>,
    aborted: Cell<bool>,
    /// The exit code with which a descendant has ended the program.
    exit: Cell<Option<i32>>,
    told: Cell<Told>,
    /// Whether the running native function was called by cleanup after an error.
    cleans_up: Cell<bool>,
    /// How long waits of cleanup may still take after a stop request was thrown.
    cleanup_left: Cell<Duration>,
    /// Start of the current wait of cleanup.
    cleanup_since: Cell<Option<Duration>>,
    deadlines: RefCell<Vec<Deadline>>,
    /// Its access limits, innermost last.
    access: RefCell<Vec<(u64, Rc<Access>)>>,
    /// Values of enclosing scopes, see [`crate::task_scope::TaskScope`].
    pub(crate) scopes: RefCell<Scopes>,
    next_token: Cell<u64>,
    waker: RefCell<Option<Waker>>,
    /// Children that were not awaited yet, by number in order of creation.
    pub(crate) children: RefCell<BTreeMap<u64, Rc<Task>>>,
    next_child: Cell<u64>,
    result: RefCell<Option<Result<Value>>>,
    finished: Cell<bool>,
    waiters: RefCell<Vec<Waker>>,
    /// The group to which its end is reported, and the number in it.
    group: RefCell<Option<(Rc<Ends>, usize)>>,
    /// Whether its result will never be requested: its parent removes it when it ends.
    abandoned: Cell<bool>,
    /// State of its handle, if the program started it with `spawn`.
    handle: Cell<Handle>,
    /// The module and the byte offset of its `spawn`.
    spawned_at: Cell<Option<(u32, u32)>>,
    /// Whether it has failed by itself and the failure was not reported yet.
    unheard: Cell<bool>,
}

impl Task {
    pub(crate) fn root(system: Rc<dyn System>, globals: Globals) -> Rc<Task> {
        let birth = Birth::new(Origin::Program, None);
        Rc::new(Task::with(0, birth, None, None, system, globals, None))
    }

    fn with(
        id: u64,
        birth: Birth,
        parent: Option<Weak<Task>>,
        root: Option<Weak<Task>>,
        system: Rc<dyn System>,
        globals: Globals,
        output: Option<String>,
    ) -> Task {
        Task {
            id,
            birth,
            spans: TaskSpans::default(),
            parent,
            root,
            system,
            globals,
            output: RefCell::new(output),
            cancelled: Cell::new(false),
            wait_until: Cell::new(None),
            grace: Cell::new(GRACE_CHECKS),
            aborted: Cell::new(false),
            exit: Cell::new(None),
            told: Cell::new(Told::Nothing),
            cleans_up: Cell::new(false),
            cleanup_left: Cell::new(GRACE),
            cleanup_since: Cell::new(None),
            deadlines: RefCell::default(),
            access: RefCell::default(),
            scopes: RefCell::default(),
            next_token: Cell::new(1),
            waker: RefCell::default(),
            children: RefCell::default(),
            next_child: Cell::new(1),
            result: RefCell::default(),
            finished: Cell::new(false),
            waiters: RefCell::default(),
            group: RefCell::default(),
            abandoned: Cell::new(false),
            handle: Cell::new(Handle::None),
            spawned_at: Cell::new(None),
            unheard: Cell::new(false),
        }
    }

    /// Creates a child that inherits deadlines and cancellation and collects its output.
    pub(crate) fn child(self: &Rc<Task>, origin: Origin, globals: Globals) -> Rc<Task> {
        let id = self.next_child.get();
        self.next_child.set(id + 1);
        let (parent, system) = (Rc::downgrade(self), self.system.clone());
        let root = self.root.clone().unwrap_or_else(|| parent.clone());
        let (birth, output) = (Birth::new(origin, Some(self)), Some(String::new()));
        let child = Task::with(id, birth, Some(parent), Some(root), system, globals, output);
        if self.cancelled.get() {
            child.cancel();
        }
        *child.deadlines.borrow_mut() = self.deadlines.borrow().clone();
        *child.access.borrow_mut() = self.access.borrow().last().cloned().into_iter().collect();
        *child.scopes.borrow_mut() = self.scopes.borrow().clone();
        child.next_token.set(self.next_token.get());
        let child = Rc::new(child);
        self.children.borrow_mut().insert(id, child.clone());
        child
    }

    /// Creates a child that shares the variables and writes immediately: a call by the host.
    pub(crate) fn beside(self: &Rc<Task>) -> Rc<Task> {
        let child = self.child(Origin::Host, self.globals.clone());
        child.set_values(self.values());
        *child.output.borrow_mut() = None;
        child
    }

    /// Replaces the limits inherited from the owner with those of another task.
    pub(crate) fn take_limits_of(&self, other: &Task) {
        self.deadlines.borrow_mut().clone_from(&other.deadlines.borrow());
        self.next_token.set(other.next_token.get().max(self.next_token.get()));
        *self.access.borrow_mut() = other.access.borrow().last().cloned().into_iter().collect();
        if other.cancelled.get() {
            self.cancel();
        }
    }

    /// Returns the root task.
    pub fn root_of(self: &Rc<Task>) -> Rc<Task> {
        self.root.as_ref().and_then(Weak::upgrade).unwrap_or_else(|| self.clone())
    }

    /// Returns the numbers of the tasks from the root to this one, such as `0.2.1`.
    pub fn path(&self) -> String {
        // Tasks may be nested deeper than calls, so this does not recurse.
        let mut ids = vec![self.id];
        let mut above = self.parent();
        while let Some(task) = above {
            ids.push(task.id);
            above = task.parent();
        }
        ids.iter().rev().map(u64::to_string).collect::<Vec<_>>().join(".")
    }

    /// Returns the task that created this one.
    pub fn parent(&self) -> Option<Rc<Task>> {
        self.parent.as_ref()?.upgrade()
    }

    // ---- output ----

    pub(crate) fn print(&self, vm: &Vm, text: &str) -> Result<()> {
        if let Some(block) = &mut *self.output.borrow_mut() {
            harn_value::memory::check(text.len())?;
            block.push_str(text);
            return Ok(());
        }
        vm.system.write_out(text).map_err(|error| Error::output(&error))
    }

    /// Takes the collected output.
    pub(crate) fn take_output(&self) -> String {
        self.output.borrow_mut().as_mut().map(std::mem::take).unwrap_or_default()
    }

    // ---- limits ----

    pub(crate) fn access(&self) -> Option<Rc<Access>> {
        self.access.borrow().last().map(|(_, access)| access.clone())
    }

    pub(crate) fn push_access(&self, token: u64, access: Rc<Access>) {
        self.access.borrow_mut().push((token, access));
    }

    pub(crate) fn pop_access(&self, token: u64) {
        self.access.borrow_mut().retain(|(own, _)| *own != token);
    }

    // ---- deadlines ----

    fn now(&self) -> Duration {
        self.system.monotonic()
    }

    /// Adds a deadline; returns the token that removes it.
    pub(crate) fn push_deadline(&self, limit: Duration) -> u64 {
        let token = self.next_token.get();
        self.next_token.set(token + 1);
        // Reading the clock may run code of the system, so nothing is borrowed meanwhile.
        let at = self.now().saturating_add(limit);
        self.deadlines.borrow_mut().push(Deadline { token, at });
        token
    }

    pub(crate) fn pop_deadline(&self, token: u64) {
        self.deadlines.borrow_mut().retain(|d| d.token != token);
    }

    /// Returns the time at which a wait in progress must be interrupted at the latest.
    pub(crate) fn next_deadline(&self) -> Option<Duration> {
        let cleanup = self.cleanup_since.get().map(|since| since + self.cleanup_left.get());
        let told = cleanup.or(self.wait_until.get());
        self.deadlines.borrow().iter().map(|d| d.at).chain(told).min()
    }

    /// Returns the error of an expired deadline and removes that deadline.
    fn expired(&self) -> Option<Error> {
        if self.deadlines.borrow().is_empty() {
            return None;
        }
        let now = self.now();
        let at = self.deadlines.borrow().iter().position(|d| d.at <= now)?;
        // Creating the error allocates, which may run cleanup code that reads deadlines, so nothing is borrowed
        // meanwhile.
        self.deadlines.borrow_mut().remove(at);
        Some(Error::thrown("Deadline exceeded").interrupting())
    }

    /// Returns whether a call was interrupted from outside: by a deadline that existed when there were `before`
    /// deadlines, or by cancellation. In that case, the error of the call is not its own.
    pub fn interrupted_since(&self, before: usize) -> bool {
        self.cancelled.get() || self.deadlines.borrow().len() < before
    }

    /// Returns the number of active deadlines.
    pub fn deadline_count(&self) -> usize {
        self.deadlines.borrow().len()
    }

    // ---- cancellation ----

    /// Returns whether cancellation was requested.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.get()
    }

    /// Requests cancellation of the task and its children.
    pub fn cancel(&self) {
        self.cancelled.set(true);
        self.wait_until.set(Some(self.now() + GRACE));
        self.wake();
        for child in self.children.borrow().values() {
            child.cancel();
        }
    }

    /// Stops the task at its next suspension point; only its cleanup blocks still run.
    pub fn abort(&self) {
        if !self.finished.get() {
            self.aborted.set(true);
            self.wake();
        }
    }

    /// Ends the program with an exit code: aborts all ancestors of this task up to the root or the call of the host,
    /// which ends with that code. The first such exit code is used.
    pub(crate) fn end_program(self: &Rc<Task>, code: i32) {
        let mut task = self.clone();
        while let Some(above) = task.parent().filter(|_| task.output.borrow().is_some()) {
            above.abort();
            task = above;
        }
        if task.exit.get().is_none() {
            task.exit.set(Some(code));
        }
    }

    /// Returns the result of the task: `result`, unless a descendant has ended the program.
    pub(crate) fn ending(&self, result: Result<Value>) -> Result<Value> {
        match self.exit.get() {
            Some(code) => Err(Error::exit(code)),
            None => result,
        }
    }

    /// Returns whether the task was aborted.
    pub fn is_aborted(&self) -> bool {
        self.aborted.get()
    }

    pub(crate) fn set_waker(&self, waker: &Waker) {
        let mut slot = self.waker.borrow_mut();
        if !slot.as_ref().is_some_and(|w| w.will_wake(waker)) {
            *slot = Some(waker.clone());
        }
    }

    fn wake(&self) {
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }

    /// Returns whether waits of its cleanup are limited, after a stop request.
    pub(crate) fn is_stopping(&self) -> bool {
        self.told.get() > Told::Nothing || self.aborted.get()
    }

    /// Returns whether the abort was thrown already: an error of its cleanup must not resume it.
    pub(crate) fn has_to_stop(&self) -> bool {
        self.told.get() == Told::Aborted
    }

    /// Returns whether the running native function was called by cleanup after an error.
    pub(crate) fn cleans_up(&self) -> bool {
        self.cleans_up.get()
    }

    /// Sets whether cleanup calls the native function that is about to run; returns the previous state.
    pub(crate) fn note_cleanup(&self, cleans_up: bool) -> bool {
        self.cleans_up.replace(cleans_up)
    }

    /// Returns the error that interrupts a wait in progress, if any. `cleans_up` is true for a wait of cleanup.
    pub(crate) fn interruption(&self, cleans_up: bool) -> Option<Error> {
        if self.aborted.get() {
            return Some(self.stop_waiting(cleans_up));
        }
        if let Some(error) = self.expired() {
            return Some(error);
        }
        if cleans_up {
            return self.cleanup_interruption();
        }
        let until = self.wait_until.get()?;
        let now = self.now();
        if now < until {
            return None;
        }
        self.wait_until.set(Some(now + GRACE));
        self.tell(Told::Cancelled);
        Some(Error::thrown(CANCELLED).interrupting())
    }

    /// Returns the error that ends a wait of cleanup when the total time for such waits is used up.
    fn cleanup_interruption(&self) -> Option<Error> {
        let now = self.now();
        let since = self.cleanup_since.get().unwrap_or(now);
        self.cleanup_since.set(Some(since));
        let over = now.saturating_sub(since) >= self.cleanup_left.get();
        over.then(|| Error::thrown(CANCELLED).interrupting())
    }

    /// Ends a wait; a wait of cleanup reduces the time left for such waits.
    pub(crate) fn wait_over(&self) {
        if let Some(since) = self.cleanup_since.take() {
            let waited = self.now().saturating_sub(since);
            self.cleanup_left.set(self.cleanup_left.get().saturating_sub(waited));
        }
    }

    /// Returns the error for a wait of an aborted task. In cleanup it can be caught, so that the remaining cleanup
    /// runs.
    pub(crate) fn stop_waiting(&self, cleans_up: bool) -> Error {
        if !cleans_up {
            return self.tell_to_stop();
        }
        self.tell(Told::Aborted);
        Error::thrown(CANCELLED).interrupting()
    }

    /// Checks whether a `sleep` or a wait for a lock may start or continue. Cleanup after a stop request may wait
    /// within its time limit.
    ///
    /// # Errors
    /// The cancellation error.
    pub fn check_wait(&self) -> Result<()> {
        if self.cleans_up.get() {
            let time = if self.has_to_stop() { Duration::ZERO } else { self.cleanup_left.get() };
            return if time.is_zero() { Err(Error::thrown(CANCELLED)) } else { Ok(()) };
        }
        if !self.cancelled.get() {
            return Ok(());
        }
        self.tell(Told::Cancelled);
        Err(Error::thrown(CANCELLED))
    }

    /// Called at intervals while the task computes. A stopped task runs its cleanup, which is interrupted only if it
    /// takes long.
    ///
    /// # Errors
    /// The error to stop with.
    pub(crate) fn check(&self, vm: &Vm) -> Result<()> {
        if vm.is_interrupted() || self.aborted.get() {
            let in_time = self.told.get() == Told::Aborted && self.spend_grace();
            return if in_time { Ok(()) } else { Err(self.tell_to_stop()) };
        }
        if let Some(error) = self.expired() {
            return Err(error);
        }
        if self.cancelled.get() && !self.spend_grace() {
            self.tell(Told::Cancelled);
            return Err(Error::thrown(CANCELLED).interrupting());
        }
        Ok(())
    }

    fn spend_grace(&self) -> bool {
        let left = self.grace.get();
        self.grace.set(left.saturating_sub(1));
        left > 0
    }

    /// Records a stop request. The first time, cleanup gets its checks.
    fn tell(&self, what: Told) {
        if self.told.get() < what {
            self.told.set(what);
            self.grace.set(CLEANUP_CHECKS);
        }
    }

    /// Returns the error that ends the task.
    pub(crate) fn tell_to_stop(&self) -> Error {
        self.tell(Told::Aborted);
        Error::new(crate::error::ErrorKind::Abort).interrupting()
    }

    // ---- result ----

    pub(crate) fn finish(&self, result: Result<Value>) {
        self.spans.end();
        *self.result.borrow_mut() = Some(result);
        self.finished.set(true);
        for waiter in self.waiters.borrow_mut().drain(..) {
            waiter.wake();
        }
        if let Some((ends, number)) = self.group.take() {
            ends.add(number);
        }
        if self.abandoned.get() {
            self.forget_silent();
        }
    }

    /// Removes this task from its parent.
    pub(crate) fn forget(&self) {
        if let Some(parent) = self.parent() {
            parent.children.borrow_mut().remove(&self.id);
        }
    }

    /// Stops the task; its result will not be requested.
    pub(crate) fn abandon(&self) {
        self.abandoned.set(true);
        if self.finished.get() {
            self.forget_silent();
        } else {
            self.abort();
        }
    }

    /// Lets its parent remove it when it ends, unless it has output: its result will not be requested.
    pub fn detach(&self) {
        self.abandoned.set(true);
    }

    /// Like [`Task::forget`], unless it has output that its parent must still print.
    fn forget_silent(&self) {
        if self.output.borrow().as_ref().is_none_or(String::is_empty) {
            self.forget();
        }
    }

    /// Registers `ends` to be notified when the task ends.
    pub(crate) fn report_to(&self, ends: &Rc<Ends>, number: usize) {
        *self.group.borrow_mut() = Some((ends.clone(), number));
    }

    /// Sets the location of the `spawn` that started it.
    pub(crate) fn set_spawned_at(&self, at: Option<(u32, u32)>) {
        self.spawned_at.set(at);
    }

    /// Returns the locations of the `spawn`s whose tasks still run, in the order of the tasks.
    pub(crate) fn running_spawns(&self) -> Vec<(u32, u32)> {
        // Reading the clock is an effect: it is read only if a deadline may have ended a task.
        let now = LazyCell::new(|| self.now());
        // A task whose own deadline ends it now is not reported as unfinished.
        let runs = |child: &&Rc<Task>| {
            let is_over = || child.deadlines.borrow().iter().any(|deadline| deadline.at <= *now);
            !(child.is_finished() || child.cancelled.get() || child.aborted.get() || is_over())
        };
        self.children.borrow().values().filter(runs).filter_map(|child| child.spawned_at.get()).collect()
    }

    /// Returns whether the task has ended.
    pub fn is_finished(&self) -> bool {
        self.finished.get()
    }

    /// Takes the result.
    pub(crate) fn take_result(&self) -> Option<Result<Value>> {
        self.unheard.set(false);
        self.result.borrow_mut().take()
    }

    /// Sets the state of the program's handle of this task.
    pub(crate) fn set_handle(&self, handle: Handle) {
        self.handle.set(handle);
    }

    /// Records, before the task is finished, whether it fails by itself: it was neither aborted nor cancelled, and none
    /// of the `limits` deadlines that existed at its start has expired.
    pub(crate) fn note_failure(&self, result: &Result<Value>, limits: usize) {
        let failed = result.as_ref().err().is_some_and(|error| error.is_catchable());
        self.unheard.set(failed && !self.aborted.get() && !self.interrupted_since(limits));
    }

    /// Returns the error of a failed spawned task that will never be requested: its handle was dropped, or `at_end` its
    /// owner ends.
    pub(crate) fn unheard_failure(&self, at_end: bool) -> Option<Error> {
        let nobody_asks = match self.handle.get() {
            Handle::None => false,
            Handle::Held => at_end,
            Handle::Gone => true,
        };
        if !nobody_asks || !self.unheard.get() {
            return None;
        }
        self.take_result()?.err()
    }

    /// Waits for the end of the task.
    pub async fn ended(&self) {
        std::future::poll_fn(|context| {
            if self.finished.get() {
                return Poll::Ready(());
            }
            self.waiters.borrow_mut().push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}
