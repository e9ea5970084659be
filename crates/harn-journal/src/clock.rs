//! The clocks of a run: they move only between entries.

use std::time::Duration;

use crate::entry::{Entry, What};
use crate::journal::{Clock, Core};
use crate::setup::{LONG, SHORT, Stop};
use crate::wire::nanos;

/// The resolution of the clocks: shorter differences are not visible.
const GRAIN: Duration = Duration::from_millis(1);

/// How far the clock advances per look after the run was stopped.
const LEAP: Duration = Duration::from_secs(1);

impl Core {
    /// Returns the clocks: milliseconds since 1970, and monotonic nanoseconds. They move only between entries.
    pub(crate) fn clocks(&self) -> (i64, u64) {
        self.look_at_clocks(false)
    }

    /// Reads the clocks and always records an entry. Values that become visible to others must not depend on an
    /// unrecorded look, because a resumed run would look again.
    pub(crate) fn noted_clocks(&self) -> (i64, u64) {
        self.look_at_clocks(true)
    }

    fn look_at_clocks(&self, noted: bool) -> (i64, u64) {
        if self.loading.get() {
            return (self.inner.now_ms(), nanos(self.inner.monotonic()));
        }
        if self.is_stopped() {
            // Waits end at once now, so a program that compares the clock must see that time has passed.
            let mut state = self.state.borrow_mut();
            state.clock.mono = state.clock.mono.saturating_add(nanos(LEAP));
            return (state.clock.wall, state.clock.mono);
        }
        self.follow_notes();
        if !self.replay && self.state.borrow().is_over() {
            // Before the look is numbered: a later replay numbers it as well.
            self.end_of_record();
        }
        let mut state = self.state.borrow_mut();
        state.clock.looks += 1;
        let look = state.clock.looks;
        if !state.live {
            let clock = match state.recorded.front() {
                Some(Entry { what: What::Clock { look: own, clock }, .. }) if *own == look => *clock,
                _ => return (state.clock.wall, state.clock.mono),
            };
            (state.clock.wall, state.clock.mono) = clock;
            drop(state);
            self.take();
            return clock;
        }
        let (wall, mono) = self.real(&state.clock);
        let moved = mono.saturating_sub(state.clock.mono) >= nanos(GRAIN);
        if noted || moved || (wall - state.clock.wall).abs() >= 1 {
            (state.clock.wall, state.clock.mono) = (wall, mono);
            drop(state);
            self.push(What::Clock { look, clock: (wall, mono) });
            return (wall, mono);
        }
        (state.clock.wall, state.clock.mono)
    }

    /// Records the clocks if a look is not in the journal, because a resumed run would read them again, at a later time.
    pub(crate) fn pin_clocks(&self) {
        let state = self.state.borrow();
        let (look, clock) = (state.clock.looks, (state.clock.wall, state.clock.mono));
        let is_pinned = self.replay || !state.live || look == 0;
        drop(state);
        if !is_pinned && !self.loading.get() {
            self.push(What::Clock { look, clock });
        }
    }

    pub(crate) fn real(&self, clock: &Clock) -> (i64, u64) {
        let mono = nanos(self.inner.monotonic()).saturating_add(clock.ahead);
        (self.inner.now_ms(), mono.max(clock.mono))
    }

    /// Moves the clocks because an operation has ended.
    pub(crate) fn move_clocks(&self) -> (i64, u64) {
        let mut state = self.state.borrow_mut();
        (state.clock.wall, state.clock.mono) = self.real(&state.clock);
        (state.clock.wall, state.clock.mono)
    }

    /// Sets the clocks to recorded values.
    pub(crate) fn set_clocks(&self, (wall, mono): (i64, u64)) {
        let mut state = self.state.borrow_mut();
        (state.clock.wall, state.clock.mono, state.clock.looks) = (wall, mono, 0);
    }

    /// Returns the time that remains until `until`, on the monotonic clock.
    pub(crate) fn left(&self, until: u64) -> Duration {
        let state = self.state.borrow();
        let (_, mono) = self.real(&state.clock);
        Duration::from_nanos(until.saturating_sub(mono))
    }

    /// Suspends a program in which every operation waits, if the wait is long.
    pub(crate) fn suspend(&self) {
        let given = self.suspend_after;
        if given == Some(Duration::MAX) {
            return;
        }
        let Some((timer, any)) = self.state.borrow().waits_until() else { return };
        let pending = self.state.borrow().pending();
        let longest = given.unwrap_or(if pending.is_empty() { LONG } else { SHORT });
        if timer.is_some_and(|timer| self.left(timer) <= longest) {
            return;
        }
        let at = |until: u64| {
            let left = i64::try_from(self.left(until).as_millis()).unwrap_or(i64::MAX);
            self.inner.now_ms().saturating_add(left)
        };
        self.stop(Stop::Suspended { due_ms: any.map(at), pending });
    }
}
