//! A simulated clock that advances when a task waits for it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

/// Number of turns that the other tasks of the thread get before the clock advances. The executor does not report when
/// it has no ready task.
const TURNS: u32 = 64;

/// The time that reading the clock takes, so that code that polls it reaches its deadline although no operation takes
/// time.
const LOOK: Duration = Duration::from_micros(100);

/// The time, and the waiting tasks by their deadlines.
pub(super) struct Clock {
    now: Cell<Duration>,
    /// The time that a reading takes.
    look: Cell<Duration>,
    waiting: RefCell<BTreeSet<(Duration, u64)>>,
    next: Cell<u64>,
    /// The turns that the earliest wait has already yielded.
    turns: Cell<u32>,
}

impl Default for Clock {
    fn default() -> Clock {
        Clock {
            now: Cell::default(),
            look: Cell::new(LOOK),
            waiting: RefCell::default(),
            next: Cell::default(),
            turns: Cell::default(),
        }
    }
}

impl Clock {
    pub(super) fn now(&self) -> Duration {
        self.now.get()
    }

    /// Reads the clock and advances it by the duration of a reading.
    pub(super) fn look(&self) -> Duration {
        self.now.replace(self.now.get() + self.look.get())
    }

    /// Sets the time that each further reading takes.
    pub(super) fn slow_down(&self, look: Duration) {
        self.look.set(look);
    }
}

/// A wait for a deadline.
pub(super) struct Sleep {
    clock: Rc<Clock>,
    own: (Duration, u64),
}

impl Sleep {
    pub(super) fn new(clock: Rc<Clock>, time: Duration) -> Sleep {
        let own = (clock.now().saturating_add(time), clock.next.replace(clock.next.get() + 1));
        Sleep { clock, own }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let clock = &self.clock;
        if clock.now() >= self.own.0 {
            return Poll::Ready(());
        }
        let mut waiting = clock.waiting.borrow_mut();
        waiting.insert(self.own);
        if waiting.first() == Some(&self.own) {
            let turns = clock.turns.get() + 1;
            if turns > TURNS {
                clock.turns.set(0);
                clock.now.set(self.own.0);
                return Poll::Ready(());
            }
            clock.turns.set(turns);
        }
        // No event outside of the thread wakes it.
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        let mut waiting = self.clock.waiting.borrow_mut();
        if waiting.first() == Some(&self.own) {
            self.clock.turns.set(0);
        }
        waiting.remove(&self.own);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Waker;

    #[test]
    fn the_earliest_wait_ends_first() {
        let clock = Rc::new(Clock::default());
        let sleep = |ms| Box::pin(Sleep::new(clock.clone(), Duration::from_millis(ms)));
        let mut waits = [sleep(30), sleep(10), sleep(20)];
        let dropped = sleep(1);
        let mut ended = Vec::new();
        let mut context = Context::from_waker(Waker::noop());
        drop(dropped);
        while ended.len() < waits.len() {
            for (n, wait) in waits.iter_mut().enumerate() {
                if !ended.contains(&n) && wait.as_mut().poll(&mut context).is_ready() {
                    ended.push(n);
                }
            }
            for n in &ended {
                waits[*n] = sleep(1_000);
            }
        }
        assert_eq!(ended, [1, 2, 0]);
        assert_eq!(clock.now(), Duration::from_millis(30));
    }
}
