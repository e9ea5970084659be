//! Tasks: what a fiber knows besides its stack — output, deadlines, cancellation, its copy of the
//! program's variables, and the result that others wait for. Who the running task is (its id, its group, its session) is
//! what `Cx::task_identity` in `identity.rs` says.

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

/// Text of the error that a cancelled wait throws.
pub const CANCELLED: &str = "kind:cancelled:VM cancelled by host";

/// Time that cleanup may still wait once a task was cancelled.
pub(crate) const GRACE: Duration = Duration::from_millis(250);

/// Checks (each some thousands of steps) that a cancelled task may still run without waiting.
const GRACE_CHECKS: u32 = 2;

/// Checks that its cleanup may take once a task was told to stop, before that is cut short, too.
const CLEANUP_CHECKS: u32 = 64;

/// Numbers of the tasks of a group that have ended, in that order.
#[derive(Default)]
pub struct Ends {
    numbers: RefCell<VecDeque<usize>>,
    waker: RefCell<Option<Waker>>,
}

impl Ends {
    /// Adds the number of a task that has ended, or one that is no task's, to wake who waits for the next.
    pub fn add(&self, number: usize) {
        self.numbers.borrow_mut().push_back(number);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// Waits for the next end.
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

/// What a task was told, which its cleanup runs after.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Told {
    Nothing,
    /// That it is cancelled: an error that it can catch.
    Cancelled,
    /// To stop at once.
    Aborted,
}

/// The handle of a task that the program spawned.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Handle {
    /// There is none: what began the task waits for it.
    None,
    /// The program may still ask for the result.
    Held,
    /// The program can ask for the result no more.
    Gone,
}

/// A limit in time.
#[derive(Clone, Copy)]
struct Deadline {
    token: u64,
    /// On the clock of the system, as every time here.
    at: Duration,
}

/// A task of the program.
pub struct Task {
    /// Number among the children of its parent, from 1; 0 for the root.
    pub id: u64,
    pub(crate) birth: Birth,
    pub(crate) spans: TaskSpans,
    parent: Option<Weak<Task>>,
    /// The task that the program began with, unless this is it. A parent may be gone before its child has cleaned up.
    root: Option<Weak<Task>>,
    system: Rc<dyn System>,
    pub(crate) globals: Globals,
    /// Collected output of a child; `None` in the root, which writes at once.
    output: RefCell<Option<String>>,
    cancelled: Cell<bool>,
    /// When waits other than `sleep` and locks are interrupted, once cancellation was requested.
    wait_until: Cell<Option<Duration>>,
    /// Checks left before a busy loop is interrupted: after a cancellation, and again when the task was told.
    grace: Cell<u32>,
    aborted: Cell<bool>,
    /// The exit code with which a task below it has ended the program.
    exit: Cell<Option<i32>>,
    told: Cell<Told>,
    /// Whether the native function that is asked how far it is runs in cleanup that an error has led to.
    cleans_up: Cell<bool>,
    /// Time that waits of cleanup may still take, once the task was told.
    cleanup_left: Cell<Duration>,
    /// Since when one of them lasts.
    cleanup_since: Cell<Option<Duration>>,
    deadlines: RefCell<Vec<Deadline>>,
    /// What it may do outside, innermost last.
    access: RefCell<Vec<(u64, Rc<Access>)>>,
    /// What is open around it, see [`crate::task_scope::TaskScope`].
    pub(crate) scopes: RefCell<Scopes>,
    next_token: Cell<u64>,
    waker: RefCell<Option<Waker>>,
    /// Children that were not awaited yet, by number, which is the order of creation.
    pub(crate) children: RefCell<BTreeMap<u64, Rc<Task>>>,
    next_child: Cell<u64>,
    result: RefCell<Option<Result<Value>>>,
    finished: Cell<bool>,
    waiters: RefCell<Vec<Waker>>,
    /// Who else is told of the end, and under which number.
    group: RefCell<Option<(Rc<Ends>, usize)>>,
    /// Whether nobody will ask for its result any more: its parent forgets it when it ends.
    abandoned: Cell<bool>,
    /// Whether the program began it with `spawn`, and still has its handle.
    handle: Cell<Handle>,
    /// The module and the offset of its `spawn`.
    spawned_at: Cell<Option<(u32, u32)>>,
    /// Whether it has failed by itself, and nobody was told so far.
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

    /// A child that inherits deadlines and cancellation and collects its output.
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

    /// A child that shares the variables, and writes at once: a call by the host.
    pub(crate) fn beside(self: &Rc<Task>) -> Rc<Task> {
        let child = self.child(Origin::Host, self.globals.clone());
        child.set_values(self.values());
        *child.output.borrow_mut() = None;
        child
    }

    /// Puts the limits of another task in the place of those that the owner gave.
    pub(crate) fn take_limits_of(&self, other: &Task) {
        self.deadlines.borrow_mut().clone_from(&other.deadlines.borrow());
        self.next_token.set(other.next_token.get().max(self.next_token.get()));
        *self.access.borrow_mut() = other.access.borrow().last().cloned().into_iter().collect();
        if other.cancelled.get() {
            self.cancel();
        }
    }

    /// The task that the program began with.
    pub fn root_of(self: &Rc<Task>) -> Rc<Task> {
        self.root.as_ref().and_then(Weak::upgrade).unwrap_or_else(|| self.clone())
    }

    /// Numbers of children from the root, such as `0.2.1`.
    pub fn path(&self) -> String {
        // Tasks in tasks may go deeper than calls.
        let mut ids = vec![self.id];
        let mut above = self.parent();
        while let Some(task) = above {
            ids.push(task.id);
            above = task.parent();
        }
        ids.iter().rev().map(u64::to_string).collect::<Vec<_>>().join(".")
    }

    /// The task that created this one.
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

    /// Hands the collected output over.
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

    /// Adds a deadline; the token removes it.
    pub(crate) fn push_deadline(&self, limit: Duration) -> u64 {
        let token = self.next_token.get();
        self.next_token.set(token + 1);
        // What a look at the clock does is the system's business: nothing is held meanwhile.
        let at = self.now().saturating_add(limit);
        self.deadlines.borrow_mut().push(Deadline { token, at });
        token
    }

    pub(crate) fn pop_deadline(&self, token: u64) {
        self.deadlines.borrow_mut().retain(|d| d.token != token);
    }

    /// When a wait in progress is to be interrupted at the latest.
    pub(crate) fn next_deadline(&self) -> Option<Duration> {
        let cleanup = self.cleanup_since.get().map(|since| since + self.cleanup_left.get());
        let told = cleanup.or(self.wait_until.get());
        self.deadlines.borrow().iter().map(|d| d.at).chain(told).min()
    }

    /// The error of an expired deadline; that deadline is spent.
    fn expired(&self) -> Option<Error> {
        if self.deadlines.borrow().is_empty() {
            return None;
        }
        let now = self.now();
        let at = self.deadlines.borrow().iter().position(|d| d.at <= now)?;
        // Making the error allocates, and that may run cleanup code that asks for deadlines: nothing is held meanwhile.
        self.deadlines.borrow_mut().remove(at);
        Some(Error::thrown("Deadline exceeded").interrupting())
    }

    /// Whether something outside of a call has interrupted it: a deadline that was there when `before` deadlines were, or
    /// cancellation. An error that the call ends with is not its own then.
    pub fn interrupted_since(&self, before: usize) -> bool {
        self.cancelled.get() || self.deadlines.borrow().len() < before
    }

    /// How many deadlines hold.
    pub fn deadline_count(&self) -> usize {
        self.deadlines.borrow().len()
    }

    // ---- cancellation ----

    /// Whether cancellation was requested.
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

    /// Stops the task at its next suspension point; its cleanup blocks run, nothing else does.
    pub fn abort(&self) {
        if !self.finished.get() {
            self.aborted.set(true);
            self.wake();
        }
    }

    /// This task has ended the program: all tasks above it stop, up to the one that the program, or a call by the host, began
    /// with, which ends with that code. The first such end counts.
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

    /// What the task ends with: its own result, unless a task below it has ended the program.
    pub(crate) fn ending(&self, result: Result<Value>) -> Result<Value> {
        match self.exit.get() {
            Some(code) => Err(Error::exit(code)),
            None => result,
        }
    }

    /// Whether the task is to stop.
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

    /// Whether waits of its cleanup are limited: it was told to stop, or is to stop.
    pub(crate) fn is_stopping(&self) -> bool {
        self.told.get() > Told::Nothing || self.aborted.get()
    }

    /// Whether it was told to stop at once: what its cleanup throws does not make it go on.
    pub(crate) fn has_to_stop(&self) -> bool {
        self.told.get() == Told::Aborted
    }

    /// Whether the native function that runs was called by cleanup that an error has led to.
    pub(crate) fn cleans_up(&self) -> bool {
        self.cleans_up.get()
    }

    /// Notes whether cleanup calls the native function that is about to run; says what was noted before.
    pub(crate) fn note_cleanup(&self, cleans_up: bool) -> bool {
        self.cleans_up.replace(cleans_up)
    }

    /// The error that interrupts a wait in progress, if there is one. `cleans_up` says that cleanup waits.
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

    /// The error that ends a wait of cleanup, when all the time that its waits may take is over.
    fn cleanup_interruption(&self) -> Option<Error> {
        let now = self.now();
        let since = self.cleanup_since.get().unwrap_or(now);
        self.cleanup_since.set(Some(since));
        let over = now.saturating_sub(since) >= self.cleanup_left.get();
        over.then(|| Error::thrown(CANCELLED).interrupting())
    }

    /// A wait is over: one of cleanup has used up some of the time that those may take.
    pub(crate) fn wait_over(&self) {
        if let Some(since) = self.cleanup_since.take() {
            let waited = self.now().saturating_sub(since);
            self.cleanup_left.set(self.cleanup_left.get().saturating_sub(waited));
        }
    }

    /// The error of a wait of a task that is to stop at once. In cleanup it can be caught, so that the rest of that runs.
    pub(crate) fn stop_waiting(&self, cleans_up: bool) -> Error {
        if !cleans_up {
            return self.tell_to_stop();
        }
        self.tell(Told::Aborted);
        Error::thrown(CANCELLED).interrupting()
    }

    /// The error with which a `sleep` or a wait for a lock must not start or go on. Cleanup that runs since the task was
    /// told may wait for as long as all of its waits may take.
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

    /// Called now and then while the task computes. Who was told to stop cleans up: that is interrupted only when it takes
    /// long.
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

    /// The first time, cleanup gets time.
    fn tell(&self, what: Told) {
        if self.told.get() < what {
            self.told.set(what);
            self.grace.set(CLEANUP_CHECKS);
        }
    }

    /// The error that ends the task.
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

    /// The parent need not look after this task any more.
    pub(crate) fn forget(&self) {
        if let Some(parent) = self.parent() {
            parent.children.borrow_mut().remove(&self.id);
        }
    }

    /// Stops the task; nobody will ask for its result.
    pub(crate) fn abandon(&self) {
        self.abandoned.set(true);
        if self.finished.get() {
            self.forget_silent();
        } else {
            self.abort();
        }
    }

    /// Its parent forgets it when it ends, unless it has printed something: nobody will ask for its result.
    pub fn detach(&self) {
        self.abandoned.set(true);
    }

    /// As [`Task::forget`], unless it has printed something that its parent still has to show.
    fn forget_silent(&self) {
        if self.output.borrow().as_ref().is_none_or(String::is_empty) {
            self.forget();
        }
    }

    /// Tells `ends` when the task ends.
    pub(crate) fn report_to(&self, ends: &Rc<Ends>, number: usize) {
        *self.group.borrow_mut() = Some((ends.clone(), number));
    }

    /// Notes where the program began it with `spawn`.
    pub(crate) fn set_spawned_at(&self, at: Option<(u32, u32)>) {
        self.spawned_at.set(at);
    }

    /// Returns the places of the `spawn`s whose tasks still run, in the order of the tasks.
    pub(crate) fn running_spawns(&self) -> Vec<(u32, u32)> {
        // The clock is an effect: it is read only where a limit may have ended a task.
        let now = LazyCell::new(|| self.now());
        // What a limit of the program's own ends at this moment is no surprise.
        let runs = |child: &&Rc<Task>| {
            let is_over = || child.deadlines.borrow().iter().any(|deadline| deadline.at <= *now);
            !(child.is_finished() || child.cancelled.get() || child.aborted.get() || is_over())
        };
        self.children.borrow().values().filter(runs).filter_map(|child| child.spawned_at.get()).collect()
    }

    /// Whether the task has ended.
    pub fn is_finished(&self) -> bool {
        self.finished.get()
    }

    /// Takes the result.
    pub(crate) fn take_result(&self) -> Option<Result<Value>> {
        self.unheard.set(false);
        self.result.borrow_mut().take()
    }

    /// Says what became of the handle that the program has of this task.
    pub(crate) fn set_handle(&self, handle: Handle) {
        self.handle.set(handle);
    }

    /// Notes, before it is finished, that the task fails by itself: neither was it ended nor did a limit pass that it has
    /// from its owner, who had `limits` of them when it began.
    pub(crate) fn note_failure(&self, result: &Result<Value>, limits: usize) {
        let failed = result.as_ref().err().is_some_and(|error| error.is_catchable());
        self.unheard.set(failed && !self.aborted.get() && !self.interrupted_since(limits));
    }

    /// The error of a spawned task that failed, when nobody will ask for it: its handle is gone, or `at_end` its owner ends.
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
