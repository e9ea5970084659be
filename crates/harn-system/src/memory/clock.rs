//! A clock that moves when something waits for it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

/// How often the other tasks of the thread get their turn before the clock moves: nobody says that there is nothing left to do.
const TURNS: u32 = 64;

/// What a look at the clock takes: work that watches it comes to its deadline, though nothing here takes time.
const LOOK: Duration = Duration::from_micros(100);

/// The time, and who waits for which.
pub(super) struct Clock {
    now: Cell<Duration>,
    /// What a look takes.
    look: Cell<Duration>,
    waiting: RefCell<BTreeSet<(Duration, u64)>>,
    next: Cell<u64>,
    /// The turns that the earliest wait has given to others.
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

    /// Looks at the clock.
    pub(super) fn look(&self) -> Duration {
        self.now.replace(self.now.get() + self.look.get())
    }

    /// From now on each look takes so long.
    pub(super) fn slow_down(&self, look: Duration) {
        self.look.set(look);
    }
}

/// A wait.
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
        // Nothing outside the thread wakes it.
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
