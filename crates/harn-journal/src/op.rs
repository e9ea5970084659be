//! Operations that take time, and their wakers.

use std::cell::Cell;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};

use crate::entry::Place;

/// An operation in progress. It returns bytes for the journal; results that cannot be bytes are passed separately.
pub(crate) type Running = Pin<Box<dyn Future<Output = Vec<u8>>>>;

/// The request of an operation to a human.
pub(crate) struct Inquired {
    pub(crate) request: Pending,
    /// Whether the request is open in the store.
    pub(crate) waits: Cell<bool>,
}

/// A request to a human without an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pending {
    /// ID of the request.
    pub id: String,
    /// The expected kind of answer.
    pub kind: String,
    /// The question.
    pub prompt: String,
    /// Number of answers that the program has received.
    pub had: u32,
}

/// A request that must not be sent twice, and its reply.
pub(crate) trait Exchange {
    /// Whether a part of the reply is still to come.
    fn is_under_way(&self) -> bool;
}

/// Operations that happen outside.
const EXCHANGES: [&str; 4] = ["run", "peer", "http", "body"];

/// An operation that the program waits for.
pub(crate) struct Op {
    pub(crate) name: &'static str,
    pub(crate) note: Rc<str>,
    pub(crate) digest: u64,
    pub(crate) place: Place,
    /// Starts the operation. Taken at the start.
    pub(crate) begin: Option<Box<dyn FnOnce() -> Running>>,
    pub(crate) running: Option<Running>,
    pub(crate) outcome: Option<Vec<u8>>,
    pub(crate) waker: Option<Waker>,
    /// For a wait: when it ends. It also ends when the run is stopped and no other work is left.
    pub(crate) due: Option<u64>,
    /// Set if the operation may wait for a human.
    pub(crate) inquired: Option<Rc<Inquired>>,
}

impl Op {
    /// Returns whether the program still waits for it.
    pub(crate) fn is_open(&self) -> bool {
        self.outcome.is_none()
    }

    /// Returns when a wait ends; `None` for other operations.
    pub(crate) fn due(&self) -> Option<u64> {
        self.due
    }

    /// Whether something happens outside that the journal does not know yet. Timers and people can be waited for later.
    pub(crate) fn is_under_way(&self) -> bool {
        let waits = self.inquired.as_ref().is_some_and(|inquired| inquired.waits.get());
        self.is_open() && !waits && EXCHANGES.contains(&self.name)
    }

    pub(crate) fn described(&self) -> String {
        format!("{} {}", self.name, self.note)
    }
}

/// Operations that can be polled, and the waker of the program.
#[derive(Default)]
pub(crate) struct Wakes {
    ready: Mutex<Ready>,
    outer: Mutex<Option<Waker>>,
    drain: Mutex<Option<Drain>>,
}

/// New operations are polled before others: a request behind a thousand replies would leave after the last of them
/// was processed, and its server would be idle until then.
#[derive(Default)]
struct Ready {
    begins: VecDeque<u64>,
    others: VecDeque<u64>,
    /// Whether an operation started and ended at once. Then the others are polled first; otherwise a task that
    /// repeats such operations would starve them.
    others_first: bool,
    /// Whether the operations that are woken now start.
    begin: bool,
}

impl Wakes {
    fn ops(&self) -> MutexGuard<'_, Ready> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push(&self, op: u64) {
        let mut ops = self.ops();
        if ops.begin {
            ops.begins.push_back(op)
        } else {
            ops.others.push_back(op)
        }
        drop(ops);
        self.wake_all();
    }

    /// Marks an operation as ready to start.
    pub(crate) fn begin(&self, op: u64) {
        self.ops().begins.push_back(op);
        self.wake_all();
    }

    pub(crate) fn push_all(&self, ops: impl IntoIterator<Item = u64>) {
        self.ops().others.extend(ops);
    }

    /// Wakes the tasks whose entries are persisted; their operations start now.
    pub(crate) fn are_kept(&self, waiting: Vec<Waker>) {
        self.ops().begin = true;
        waiting.into_iter().for_each(Waker::wake);
        self.ops().begin = false;
    }

    /// Returns the operations that were woken before this call, each once. An operation that is woken meanwhile is
    /// returned by the next call.
    pub(crate) fn ready(&self) -> impl Iterator<Item = u64> + '_ {
        let (begins, others, others_first) = {
            let ops = self.ops();
            (ops.begins.len(), ops.others.len(), ops.others_first)
        };
        (0..begins + others).map_while(move |n| {
            let ops = &mut *self.ops();
            let begin = if others_first { n >= others } else { n < begins };
            if begin { ops.begins.pop_front() } else { ops.others.pop_front() }
        })
    }

    /// Notes whether the delivered operation had only just started.
    pub(crate) fn handed_over(&self, had_begun_now: bool) {
        self.ops().others_first = had_begun_now;
    }

    /// Why the run is to make room, if it is.
    pub(crate) fn drain(&self) -> Option<Drain> {
        *self.drain.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn watch(&self, waker: &Waker) {
        *self.outer.lock().unwrap_or_else(PoisonError::into_inner) = Some(waker.clone());
    }

    pub(crate) fn wake_all(&self) {
        let outer = self.outer.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(outer) = outer {
            outer.wake();
        }
    }
}

/// Why a run makes room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drain {
    /// Its worker ends.
    Worker,
    /// A user pauses it.
    Pause,
}

impl Drain {
    /// The reason, as a note of the run.
    #[must_use]
    pub fn note(self) -> &'static str {
        match self {
            Drain::Worker => "its worker was stopped",
            Drain::Pause => "paused",
        }
    }
}

/// Asks a run to make room, from any thread: it stops at the first moment at which nothing is under way outside.
#[derive(Clone)]
pub struct Drainer(pub(crate) Arc<Wakes>);

impl Drainer {
    /// Asks. The first reason stays.
    pub fn ask(&self, why: Drain) {
        self.0.drain.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
        self.0.wake_all();
    }
}

/// Marks an operation as ready to be polled.
pub(crate) struct OpWake {
    pub(crate) op: u64,
    pub(crate) wakes: Arc<Wakes>,
}

impl Wake for OpWake {
    fn wake(self: Arc<Self>) {
        self.wakes.push(self.op);
    }
}

#[cfg(test)]
mod tests {
    use super::Wakes;

    /// Wakes each operation again while it is polled.
    fn looked_at(wakes: &Wakes) -> Vec<u64> {
        wakes.ready().inspect(|op| wakes.push(*op)).collect()
    }

    #[test]
    fn each_is_looked_at_once_whoever_goes_first() {
        let wakes = Wakes::default();
        wakes.push_all([1, 2]);
        wakes.begin(3);
        assert_eq!(looked_at(&wakes), [3, 1, 2]);
        wakes.begin(4);
        wakes.handed_over(true);
        assert_eq!(looked_at(&wakes), [3, 1, 2, 4]);
        wakes.handed_over(false);
        wakes.begin(5);
        assert_eq!(looked_at(&wakes), [5, 3, 1, 2, 4]);
    }
}
