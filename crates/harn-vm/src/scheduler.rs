//! The scheduler of tasks.
//!
//! Tasks of a program take turns on one thread, first in, first out. Only this queue determines the order, so a program
//! whose external events arrive in the same order runs in the same order. A journal records that order: with
//! [`block_on_with`], an [`Outside`] delivers external events only when no task is ready, or after a round in which a
//! task used up its slice (so that a busy program still receives events). Without a journal, tasks wait for the system
//! directly.
//!
//! The event loop below (timers, sockets, child processes) is tokio's; the scheduler is one future in it.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use harn_system::Outside;

/// Number of turns before the event loop gets one: if a thousand tasks have a request to send, the first request must
/// not wait until the last task is ready.
const TURNS: usize = 61;

/// The waker of a task.
struct Signal {
    /// The slot of the task; [`ROOT`] for the root future.
    slot: usize,
    /// Whether it is in the queue.
    queued: AtomicBool,
    queue: Arc<Queue>,
}

/// The slot of the root.
const ROOT: usize = usize::MAX;

/// Signals in the order of their turns.
#[derive(Default)]
struct Ready {
    tasks: VecDeque<Arc<Signal>>,
    /// Signals woken by the event loop: a task whose connection is established continues before a thousand others
    /// start.
    came: VecDeque<Arc<Signal>>,
    /// Whether the event loop is running.
    outside: bool,
}

#[derive(Default)]
struct Queue {
    ready: Mutex<Ready>,
    /// Whether the scheduler will check the queue before it waits.
    looking: AtomicBool,
    /// Wakes the scheduler.
    outer: Mutex<Option<Waker>>,
}

impl Queue {
    fn ready(&self) -> std::sync::MutexGuard<'_, Ready> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ready {
    fn is_empty(&self) -> bool {
        self.tasks.is_empty() && self.came.is_empty()
    }
}

impl Signal {
    fn new(slot: usize, queue: &Arc<Queue>) -> Arc<Signal> {
        Arc::new(Signal { slot, queued: AtomicBool::new(false), queue: queue.clone() })
    }

    fn push(self: Arc<Signal>) {
        if self.queued.swap(true, Ordering::AcqRel) {
            return;
        }
        let queue = self.queue.clone();
        let mut ready = queue.ready();
        if ready.outside {
            ready.came.push_back(self)
        } else {
            ready.tasks.push_back(self)
        }
        drop(ready);
        if !queue.looking.load(Ordering::SeqCst) {
            let outer = queue.outer.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if let Some(outer) = outer {
                outer.wake();
            }
        }
    }
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.push();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.load(Ordering::Acquire) {
            self.clone().push();
        }
    }
}

/// A task.
struct Job {
    future: Pin<Box<dyn Future<Output = ()>>>,
    signal: Arc<Signal>,
    waker: Waker,
    /// Whether it waits only for other tasks.
    among_tasks: bool,
}

/// The turns of the tasks that were ready at the same time. The event loop may run in the middle of a round, but no
/// events are delivered there.
#[derive(Default)]
struct Round {
    /// Remaining turns.
    left: usize,
    /// Whether a task used up its slice in this round.
    used_up: bool,
    /// Whether external events are checked before the next round.
    look: bool,
}

/// Tasks by slot; `None` while a task takes its turn, and after its end.
#[derive(Default)]
struct Scheduler {
    queue: Arc<Queue>,
    jobs: RefCell<Vec<Option<Job>>>,
    free: RefCell<Vec<usize>>,
    /// Set at the end: tasks spawned afterwards never run.
    ended: Cell<bool>,
    /// Number of tasks that are ready or wait for something other than tasks; includes the root until it waits only for
    /// tasks.
    others: Cell<usize>,
    root_among_tasks: Cell<bool>,
    /// Whether all tasks wait for each other and the root was not notified yet.
    stuck: Cell<bool>,
    /// Whether a task used up its slice with few long operations.
    long_slice: Cell<bool>,
    /// Whether an [`Outside`] determines when tasks take their turns.
    follows_outside: bool,
}

thread_local! {
    /// The scheduler of the program that this thread runs.
    static CURRENT: RefCell<Option<Rc<Scheduler>>> = const { RefCell::new(None) };
}

/// Starts a task; its first turn comes after those of the tasks that are ready now.
///
/// # Panics
/// Outside of [`block_on`].
pub fn spawn(future: impl Future<Output = ()> + 'static) {
    let scheduler = CURRENT.with_borrow(Clone::clone).expect("a task is started inside of block_on");
    scheduler.spawn(Box::pin(future));
}

thread_local! {
    /// Whether the running task waits only for other tasks.
    static AMONG_TASKS: Cell<bool> = const { Cell::new(false) };
}

/// Waits for something that only other tasks can cause: a value in a channel, the end of a task, the release of a lock.
/// If all tasks wait like this, none can continue, and a deadlock is reported to the program.
pub async fn among_tasks<T>(waiting: impl Future<Output = T>) -> T {
    let mut waiting = pin!(waiting);
    poll_fn(|context| {
        let polled = waiting.as_mut().poll(context);
        AMONG_TASKS.set(polled.is_pending());
        polled
    })
    .await
}

/// Records that the running task waits for something other than tasks.
pub(crate) fn waits_for_more() {
    AMONG_TASKS.set(false);
}

/// Returns whether all tasks wait for each other; returns true only once, to the task that can report it.
pub(crate) fn take_deadlock() -> bool {
    CURRENT.with_borrow(|current| current.as_ref().is_some_and(|scheduler| scheduler.stuck.take()))
}

/// Returns whether a program runs on this thread and has not ended.
pub(crate) fn is_running() -> bool {
    let runs = |current: &RefCell<Option<Rc<Scheduler>>>| {
        current
            .try_borrow()
            .is_ok_and(|current| current.as_ref().is_some_and(|scheduler| !scheduler.ended.get()))
    };
    CURRENT.try_with(runs).unwrap_or(false)
}

/// Returns whether a journal determines when the program on this thread takes its turns.
pub(crate) fn follows_outside() -> bool {
    CURRENT.with_borrow(|current| current.as_ref().is_some_and(|scheduler| scheduler.follows_outside))
}

/// Records that the running task used up its slice with few long operations: timers and sockets get their turn after
/// this round, not after [`TURNS`] such slices.
pub(crate) fn end_long_slice() {
    CURRENT.with_borrow(|current| {
        if let Some(scheduler) = current {
            scheduler.long_slice.set(true);
        }
    });
}

/// Lets the other ready tasks take their turns.
pub(crate) async fn take_turns() {
    let mut waited = false;
    poll_fn(|context| {
        if std::mem::replace(&mut waited, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Runs a future of this crate to completion on the current thread. Tasks that remain are dropped.
///
/// # Errors
/// The system does not provide the resources of an event loop.
///
/// # Panics
/// In an async task of another Tokio runtime, which must not block; use `tokio::task::spawn_blocking` there.
pub fn block_on<T>(future: impl Future<Output = T>) -> std::io::Result<T> {
    run(future, None)
}

/// Like [`block_on`], with external events delivered by `outside`.
///
/// # Errors
/// As for [`block_on`].
///
/// # Panics
/// As for [`block_on`].
pub fn block_on_with<T>(outside: &dyn Outside, future: impl Future<Output = T>) -> std::io::Result<T> {
    run(future, Some(outside))
}

/// Restores the previous scheduler and drops the tasks of this one.
struct Entered {
    own: Rc<Scheduler>,
    before: Option<Rc<Scheduler>>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.own.end();
        CURRENT.set(self.before.take());
    }
}

fn run<T>(future: impl Future<Output = T>, outside: Option<&dyn Outside>) -> std::io::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // Tasks are dropped inside the event loop, as timers and processes require.
    let _guard = runtime.enter();
    let scheduler = Rc::new(Scheduler { follows_outside: outside.is_some(), ..Scheduler::default() });
    let entered = Entered { own: scheduler.clone(), before: CURRENT.replace(Some(scheduler.clone())) };
    let mut future = pin!(future);
    let root = Signal::new(ROOT, &scheduler.queue);
    let root_waker = Waker::from(root.clone());
    root.clone().push();
    scheduler.others.set(1);
    let mut round = Round::default();
    let turns = poll_fn(|context| {
        scheduler.turns(context, &mut round, outside, &root, &mut || {
            future.as_mut().poll(&mut Context::from_waker(&root_waker))
        })
    });
    // Disables tokio's cooperative budget, which would interrupt turns at points that do not depend on the program.
    let result = runtime.block_on(tokio::task::coop::unconstrained(turns));
    drop(entered);
    Ok(result)
}

impl Scheduler {
    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()>>>) {
        if self.ended.get() {
            return;
        }
        let mut jobs = self.jobs.borrow_mut();
        let slot = self.free.borrow_mut().pop().unwrap_or_else(|| {
            jobs.push(None);
            jobs.len() - 1
        });
        let signal = Signal::new(slot, &self.queue);
        let waker = Waker::from(signal.clone());
        jobs[slot] = Some(Job { future, signal: signal.clone(), waker, among_tasks: false });
        drop(jobs);
        self.others.set(self.others.get() + 1);
        signal.push();
    }

    /// Drops all tasks, and those that they start meanwhile.
    fn end(&self) {
        self.ended.set(true);
        let jobs = std::mem::take(&mut *self.jobs.borrow_mut());
        drop(jobs);
        *self.queue.ready() = Ready::default();
    }

    /// Lets tasks take their turns until the root ends or no task is ready.
    fn turns<T>(
        &self,
        context: &mut Context<'_>,
        round: &mut Round,
        outside: Option<&dyn Outside>,
        root_signal: &Arc<Signal>,
        root: &mut dyn FnMut() -> Poll<T>,
    ) -> Poll<T> {
        self.queue.looking.store(true, Ordering::SeqCst);
        *self.queue.outer.lock().unwrap_or_else(PoisonError::into_inner) = Some(context.waker().clone());
        if let Some(outside) = outside {
            if std::mem::take(&mut round.look) {
                let _ = outside.hand_over(context, false);
            } else if round.left > 0 {
                outside.work(context);
            }
        }
        let came = {
            let mut ready = self.queue.ready();
            ready.outside = false;
            std::mem::take(&mut ready.came)
        };
        for signal in came {
            if let Some(value) = self.take_turn(&signal, root) {
                return Poll::Ready(value);
            }
        }
        let mut turns = 0;
        loop {
            if round.left == 0 {
                round.used_up = false;
                round.left = self.queue.ready().tasks.len();
            }
            if round.left == 0 {
                if self.others.get() == 0 && !self.stuck.replace(true) {
                    root_signal.clone().push();
                    continue;
                }
                if let Some(outside) = outside
                    && outside.hand_over(context, true).is_ready()
                {
                    continue;
                }
                // From now on, waking a task also wakes the scheduler.
                self.queue.looking.store(false, Ordering::SeqCst);
                if self.queue.ready().is_empty() {
                    return self.leave(outside);
                }
                self.queue.looking.store(true, Ordering::SeqCst);
                continue;
            }
            while round.left > 0 && turns < TURNS {
                round.left -= 1;
                let Some(signal) = self.queue.ready().tasks.pop_front() else { break };
                turns += 1;
                if let Some(value) = self.take_turn(&signal, root) {
                    return Poll::Ready(value);
                }
                round.used_up |= signal.queued.load(Ordering::Acquire);
            }
            round.look = round.left == 0 && round.used_up && outside.is_some();
            let is_long = round.left == 0 && self.long_slice.take();
            if round.look || is_long || turns >= TURNS {
                context.waker().wake_by_ref();
                return self.leave(outside);
            }
        }
    }

    /// Lets the event loop run.
    fn leave<T>(&self, outside: Option<&dyn Outside>) -> Poll<T> {
        // With a journal, events are delivered in the recorded order.
        self.queue.ready().outside = outside.is_none();
        Poll::Pending
    }

    /// Runs one turn of a task or of the root; returns the value of the root when it has ended.
    fn take_turn<T>(&self, signal: &Arc<Signal>, root: &mut dyn FnMut() -> Poll<T>) -> Option<T> {
        signal.queued.store(false, Ordering::Release);
        if signal.slot != ROOT {
            self.turn(signal);
            return None;
        }
        AMONG_TASKS.set(false);
        let polled = root();
        let now = polled.is_pending() && AMONG_TASKS.take();
        self.count(self.root_among_tasks.replace(now), now);
        match polled {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }

    /// Updates the count of tasks that wait for something other than tasks.
    fn count(&self, before: bool, now: bool) {
        match (before, now) {
            (false, true) => self.others.set(self.others.get() - 1),
            (true, false) => self.others.set(self.others.get() + 1),
            _ => {}
        }
    }

    /// Runs one turn of a task.
    fn turn(&self, signal: &Arc<Signal>) {
        let slot = signal.slot;
        // The slot of an ended task may have been reused.
        let mut jobs = self.jobs.borrow_mut();
        let taken = jobs.get_mut(slot).and_then(|job| job.take_if(|job| Arc::ptr_eq(&job.signal, signal)));
        drop(jobs);
        let Some(mut job) = taken else { return };
        AMONG_TASKS.set(false);
        let done = job.future.as_mut().poll(&mut Context::from_waker(&job.waker)).is_ready();
        let now = done || AMONG_TASKS.take();
        self.count(std::mem::replace(&mut job.among_tasks, now), now);
        if done {
            drop(job);
            self.free.borrow_mut().push(slot);
        } else if let Some(place) = self.jobs.borrow_mut().get_mut(slot) {
            *place = Some(job);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_take_turns_in_order() {
        let order = Rc::new(RefCell::new(Vec::new()));
        let own = order.clone();
        block_on(async move {
            for n in 0..3 {
                let order = own.clone();
                spawn(async move {
                    for step in 0..3 {
                        order.borrow_mut().push((step, n));
                        take_turns().await;
                    }
                });
            }
            for _ in 0..8 {
                take_turns().await;
            }
        })
        .expect("an event loop");
        let wanted: Vec<_> = (0..3).flat_map(|step| (0..3).map(move |n| (step, n))).collect();
        assert_eq!(*order.borrow(), wanted);
    }

    #[test]
    fn what_the_event_loop_wakes_goes_before_those_that_begin() {
        let begun = Rc::new(Cell::new(0));
        let counted = begun.clone();
        let seen = block_on(async move {
            let (own, seen) = tokio::sync::oneshot::channel();
            let counter = counted.clone();
            spawn(async move {
                // The event loop wakes it.
                tokio::task::yield_now().await;
                let _ = own.send(counter.get());
            });
            for _ in 0..10 * TURNS {
                let counted = counted.clone();
                spawn(async move { counted.set(counted.get() + 1) });
            }
            seen.await
        });
        assert!(seen.expect("an event loop").expect("a task") <= TURNS);
        assert!(begun.get() >= TURNS - 1, "the others had their turns, too");
    }

    #[test]
    fn what_another_thread_wakes_goes_on() {
        let (send, receive) = tokio::sync::oneshot::channel();
        let thread = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(5));
            send.send(7)
        });
        let got = block_on(async {
            let (own, done) = tokio::sync::oneshot::channel();
            spawn(async move {
                let _ = own.send(receive.await);
            });
            done.await
        });
        assert_eq!(got.expect("an event loop").expect("a task").expect("a value"), 7);
        thread.join().expect("a thread").expect("a receiver");
    }

    #[test]
    fn tasks_that_are_left_behind_are_dropped() {
        struct Dropped(Rc<Cell<bool>>);
        impl Drop for Dropped {
            fn drop(&mut self) {
                self.0.set(true);
            }
        }
        let dropped = Rc::new(Cell::new(false));
        let held = Dropped(dropped.clone());
        block_on(async move {
            spawn(async move {
                let _held = held;
                std::future::pending::<()>().await;
            });
            take_turns().await;
        })
        .expect("an event loop");
        assert!(dropped.get());
    }
}
