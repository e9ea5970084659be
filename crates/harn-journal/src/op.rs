//! Operations that take time, and who is told that they may go on.

use std::cell::Cell;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};

use crate::entry::Place;

/// An operation on its way: what it gives, as bytes for the journal. What cannot be bytes goes another way.
pub(crate) type Running = Pin<Box<dyn Future<Output = Vec<u8>>>>;

/// What an operation asks of a person.
pub(crate) struct Inquired {
    pub(crate) request: Pending,
    /// Whether the request is where people find it, and has no answer yet.
    pub(crate) waits: Cell<bool>,
}

/// A request to a person that has no answer yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pending {
    /// Its id.
    pub id: String,
    /// What kind of answer is expected.
    pub kind: String,
    /// The question.
    pub prompt: String,
    /// How many answers the program has had already.
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
    /// Makes the operation happen. Taken when it begins.
    pub(crate) begin: Option<Box<dyn FnOnce() -> Running>>,
    pub(crate) running: Option<Running>,
    pub(crate) outcome: Option<Vec<u8>>,
    pub(crate) waker: Option<Waker>,
    /// For a wait: when it is over. It is over, too, when the run is stopped and nothing else is to be done.
    pub(crate) due: Option<u64>,
    /// For what may have to wait for a person.
    pub(crate) inquired: Option<Rc<Inquired>>,
}

impl Op {
    /// Whether it is still waited for.
    pub(crate) fn is_open(&self) -> bool {
        self.outcome.is_none()
    }

    /// When it is over; nothing for what is no wait.
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

/// Operations that may go on, and who is told.
#[derive(Default)]
pub(crate) struct Wakes {
    ready: Mutex<Ready>,
    outer: Mutex<Option<Waker>>,
    drain: Mutex<Option<Drain>>,
}

/// What begins goes before what goes on: a request that stands behind a thousand replies leaves when the last of them was worked
/// on, and its server has nothing to do until then.
#[derive(Default)]
struct Ready {
    begins: VecDeque<u64>,
    others: VecDeque<u64>,
    /// Whether something has begun and ended at once: then the others have their turn, or who does nothing but that would keep them
    /// from it for ever.
    others_first: bool,
    /// Whether those that are told now begin.
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

    /// An operation that is to begin.
    pub(crate) fn begin(&self, op: u64) {
        self.ops().begins.push_back(op);
        self.wake_all();
    }

    pub(crate) fn push_all(&self, ops: impl IntoIterator<Item = u64>) {
        self.ops().others.extend(ops);
    }

    /// Tells those who have waited for their entries to be kept: what they are about begins now.
    pub(crate) fn are_kept(&self, waiting: Vec<Waker>) {
        self.ops().begin = true;
        waiting.into_iter().for_each(Waker::wake);
        self.ops().begin = false;
    }

    /// The operations that may go on, of those that said so by now: what begins and what goes on are each looked at once. One that
    /// says so again meanwhile is looked at the next time.
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

    /// Notes whether what was handed over had only just begun.
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

/// Notes that an operation may go on.
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

    /// Each one says at once that it may go on again.
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
