//! A lock: its free permits, the holders of the others, and a first-come, first-served queue.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::rc::{Rc, Weak};
use std::task::{Poll, Waker};
use std::time::Duration;

use harn_system::System;
use harn_value::{Dict, Foreign, Str, Value};
use rustc_hash::FxHashMap;

use super::wait;
use crate::cx::Cx;
use crate::error::{Error, Result};
use crate::task::Task;

/// The kind of a lock. Locks of different kinds are different locks, even with the same key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Mutex,
    RwLock,
    Semaphore,
    Gate,
}

impl Kind {
    pub(super) const ALL: [Kind; 4] = [Kind::Mutex, Kind::RwLock, Kind::Semaphore, Kind::Gate];

    pub(super) fn word(self) -> &'static str {
        match self {
            Kind::Mutex => "mutex",
            Kind::RwLock => "rwlock",
            Kind::Semaphore => "semaphore",
            Kind::Gate => "gate",
        }
    }
}

/// Counters that `sync_metrics` reports in addition to the state.
#[derive(Default)]
struct Counters {
    acquired: Cell<i64>,
    timed_out: Cell<i64>,
    cancelled: Cell<i64>,
    released: Cell<i64>,
    longest_queue: Cell<usize>,
    waited: Cell<Duration>,
    held: Cell<Duration>,
}

fn count(counter: &Cell<i64>) {
    counter.set(counter.get().saturating_add(1));
}

fn add(sum: &Cell<Duration>, time: Duration) {
    sum.set(sum.get().saturating_add(time));
}

fn milliseconds(time: &Cell<Duration>) -> i64 {
    i64::try_from(time.get().as_millis()).unwrap_or(i64::MAX)
}

/// A lock.
pub(super) struct Lock {
    kind: Kind,
    key: Str,
    capacity: i64,
    free: Cell<i64>,
    queue: RefCell<VecDeque<Rc<Place>>>,
    /// The tasks that acquired permits, by permit number.
    holders: RefCell<FxHashMap<u64, Weak<Task>>>,
    next_permit: Cell<u64>,
    counted: Counters,
    /// Whether wait and hold times may be requested; otherwise the clock is never read.
    timed: Cell<bool>,
    system: Rc<dyn System>,
}

/// An entry in the queue of a lock.
struct Place {
    permits: i64,
    granted: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Lock {
    /// Takes permits without waiting, unless other tasks are waiting.
    pub(super) fn try_acquire(self: &Rc<Lock>, task: &Rc<Task>, permits: i64) -> Option<Permit> {
        let permit = self.take_free(task, permits);
        if permit.is_none() {
            count(&self.counted.timed_out);
        }
        permit
    }

    /// Takes permits if they are free and no other task waits for them.
    fn take_free(self: &Rc<Lock>, task: &Rc<Task>, permits: i64) -> Option<Permit> {
        if self.free.get() < permits || !self.queue.borrow().is_empty() {
            return None;
        }
        self.free.set(self.free.get() - permits);
        Some(self.permit(task, permits, self.clock()))
    }

    /// Takes permits; waits for them at most for `limit`. Returns `None` on timeout.
    ///
    /// # Errors
    /// The cancellation error.
    pub(super) async fn acquire(
        self: &Rc<Lock>,
        cx: &Cx,
        permits: i64,
        limit: Option<Duration>,
    ) -> Result<Option<Permit>> {
        if limit.is_some_and(|limit| limit.is_zero()) {
            return Ok(self.try_acquire(cx.task(), permits));
        }
        // No wait, so cancellation does not apply.
        if let Some(permit) = self.take_free(cx.task(), permits) {
            let longest = &self.counted.longest_queue;
            longest.set(longest.get().max(1));
            return Ok(Some(permit));
        }
        let mut waiter = Waiter::new(self, permits);
        let granted = wait::for_tasks(cx, limit, waiter.granted()).await?.is_some();
        if granted {
            return Ok(Some(waiter.take(cx.task())));
        }
        waiter.end = End::TimedOut;
        Ok(None)
    }

    /// Returns the time if it is measured.
    fn clock(&self) -> Duration {
        if self.timed.get() { self.system.monotonic() } else { Duration::ZERO }
    }

    /// Returns whether the task holds a permit of the lock.
    pub(super) fn is_held_by(&self, task: &Rc<Task>) -> bool {
        self.holders.borrow().values().any(|holder| std::ptr::eq(holder.as_ptr(), Rc::as_ptr(task)))
    }

    /// Creates a permit after its count was taken from the free ones.
    fn permit(self: &Rc<Lock>, task: &Rc<Task>, permits: i64, since: Duration) -> Permit {
        let number = self.next_permit.get();
        self.next_permit.set(number + 1);
        self.holders.borrow_mut().insert(number, Rc::downgrade(task));
        count(&self.counted.acquired);
        Permit { lock: self.clone(), permits, number, since, released: Cell::new(false) }
    }

    /// Frees permits, first for waiting tasks.
    fn give_back(&self, permits: i64) {
        self.free.set(self.free.get() + permits);
        self.serve();
    }

    /// Grants free permits to waiting tasks in their order: a request for many permits is not overtaken by one for few.
    fn serve(&self) {
        while let Some(place) = self.next_served() {
            place.granted.set(true);
            if let Some(waker) = place.waker.take() {
                waker.wake();
            }
        }
    }

    fn next_served(&self) -> Option<Rc<Place>> {
        let mut queue = self.queue.borrow_mut();
        if queue.front()?.permits > self.free.get() {
            return None;
        }
        let place = queue.pop_front()?;
        self.free.set(self.free.get() - place.permits);
        Some(place)
    }

    /// Returns the metrics for `sync_metrics`.
    pub(super) fn metrics(&self) -> Dict {
        let counted = &self.counted;
        let numbers = [
            ("capacity", self.capacity),
            ("acquisition_count", counted.acquired.get()),
            ("timeout_count", counted.timed_out.get()),
            ("cancellation_count", counted.cancelled.get()),
            ("release_count", counted.released.get()),
            ("current_held", self.capacity - self.free.get()),
            ("current_queue_depth", self.queue.borrow().len() as i64),
            ("max_queue_depth", counted.longest_queue.get() as i64),
            ("total_wait_ms", milliseconds(&counted.waited)),
            ("total_held_ms", milliseconds(&counted.held)),
        ];
        let mut metrics: Dict = numbers.into_iter().collect();
        metrics.insert("kind", self.kind.word());
        metrics.insert("key", &self.key);
        metrics
    }
}

/// How a wait ended without a permit.
enum End {
    TimedOut,
    /// Cancellation, a deadline or the end of the task.
    GivenUp,
}

/// A task that waits for permits. If dropped before it has taken them, it leaves the queue.
struct Waiter {
    lock: Rc<Lock>,
    place: Rc<Place>,
    since: Duration,
    end: End,
    taken: bool,
}

impl Waiter {
    fn new(lock: &Rc<Lock>, permits: i64) -> Waiter {
        let place = Rc::new(Place { permits, granted: Cell::new(false), waker: RefCell::default() });
        let mut queue = lock.queue.borrow_mut();
        queue.push_back(place.clone());
        let longest = &lock.counted.longest_queue;
        longest.set(longest.get().max(queue.len()));
        drop(queue);
        Waiter { lock: lock.clone(), place, since: lock.clock(), end: End::GivenUp, taken: false }
    }

    fn granted(&self) -> impl Future<Output = ()> + use<> {
        let place = self.place.clone();
        poll_fn(move |context| {
            if place.granted.get() {
                return Poll::Ready(());
            }
            *place.waker.borrow_mut() = Some(context.waker().clone());
            Poll::Pending
        })
    }

    /// Takes the granted permit.
    fn take(mut self, task: &Rc<Task>) -> Permit {
        self.taken = true;
        let now = self.lock.clock();
        add(&self.lock.counted.waited, now.saturating_sub(self.since));
        self.lock.permit(task, self.place.permits, now)
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        if self.taken {
            return;
        }
        let counted = &self.lock.counted;
        count(match self.end {
            End::TimedOut => &counted.timed_out,
            End::GivenUp => &counted.cancelled,
        });
        if self.place.granted.get() {
            return self.lock.give_back(self.place.permits);
        }
        self.lock.queue.borrow_mut().retain(|place| !Rc::ptr_eq(place, &self.place));
        // Tasks after this one in the queue may be served now.
        self.lock.serve();
    }
}

/// Permits of a lock, held until released or until the last reference is dropped.
pub(crate) struct Permit {
    lock: Rc<Lock>,
    permits: i64,
    number: u64,
    since: Duration,
    released: Cell<bool>,
}

impl Permit {
    /// Releases the lock. Returns false if it was already released.
    pub(super) fn release(&self) -> bool {
        if self.released.replace(true) {
            return false;
        }
        let counted = &self.lock.counted;
        count(&counted.released);
        // Permits dropped at the end of a program must not read the clock, which would be recorded in its journal.
        if crate::scheduler::is_running() {
            add(&counted.held, self.lock.clock().saturating_sub(self.since));
        }
        self.lock.holders.borrow_mut().remove(&self.number);
        self.lock.give_back(self.permits);
        true
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.release();
    }
}

impl Foreign for Permit {
    fn type_name(&self) -> &'static str {
        "sync_permit"
    }

    fn print(&self, out: &mut String) {
        out.push_str("<sync_permit:");
        out.push_str(self.lock.kind.word());
        out.push(':');
        out.push_str(&self.lock.key);
        out.push('>');
    }

    fn equals(&self, other: &dyn Foreign) -> bool {
        std::ptr::addr_eq(&raw const *self, &raw const *other)
    }
}

/// The locks of a program by kind and key.
#[derive(Default)]
pub(super) struct Locks([RefCell<BTreeMap<Box<str>, Rc<Lock>>>; Kind::ALL.len()]);

impl Locks {
    /// Returns the lock with this key; creates it on first use.
    ///
    /// # Errors
    /// It was created with another capacity, or has fewer permits than `permits`.
    pub(super) fn open(
        &self,
        cx: &Cx,
        kind: Kind,
        key: &str,
        capacity: i64,
        permits: i64,
    ) -> Result<Rc<Lock>> {
        let mut locks = self.0[kind as usize].borrow_mut();
        let known = locks.get(key);
        let word = kind.word();
        if let Some(lock) = known.filter(|lock| lock.capacity != capacity) {
            let own = lock.capacity;
            let text = format!("sync {word} '{key}' already exists with capacity {own}, not {capacity}");
            return Err(Error::runtime(text));
        }
        if permits > capacity {
            let text = format!("sync {word} '{key}' requested {permits} permits from capacity {capacity}");
            return Err(Error::runtime(text));
        }
        let timed = cx.vm().names_builtin("sync_metrics");
        if let Some(lock) = known {
            lock.timed.set(timed);
            return Ok(lock.clone());
        }
        let lock = Rc::new(Lock {
            kind,
            key: Str::new(key),
            capacity,
            free: Cell::new(capacity),
            queue: RefCell::default(),
            holders: RefCell::default(),
            next_permit: Cell::new(0),
            counted: Counters::default(),
            timed: Cell::new(timed),
            system: cx.vm().system().clone(),
        });
        locks.insert(key.into(), lock.clone());
        Ok(lock)
    }

    /// Returns the lock with this key, if it has been used.
    pub(super) fn get(&self, kind: Kind, key: &str) -> Option<Rc<Lock>> {
        self.0[kind as usize].borrow().get(key).cloned()
    }

    /// Returns all locks of a kind, by key.
    pub(super) fn all(&self, kind: Kind) -> Vec<Rc<Lock>> {
        self.0[kind as usize].borrow().values().cloned().collect()
    }
}

/// Returns the locks that the running task holds, as `KIND:KEY`.
pub(crate) fn held_locks(cx: &Cx) -> Vec<Value> {
    let locks = cx.state::<Locks>();
    let all = Kind::ALL.iter().flat_map(|kind| locks.all(*kind));
    let held = all.filter(|lock| lock.is_held_by(cx.task()));
    held.map(|lock| Value::from(format!("{}:{}", lock.kind.word(), lock.key))).collect()
}
