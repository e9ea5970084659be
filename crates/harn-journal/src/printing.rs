//! Output of a program. It is written once the entries that led to it are persisted: a resumed run prints the same.

use std::io;
use std::time::Duration;

use crate::entry::What;
use crate::journal::{Core, State};
use crate::wire::nanos;

/// How long a busy program collects output before it is checked.
const GATHER: Duration = Duration::from_millis(5);

/// A program that has printed more than this waits until it is written.
const MOST: usize = 1 << 16;

impl State {
    /// Returns the number of written bytes of both streams.
    pub(crate) fn shown(&self) -> (u64, u64) {
        let (out, err) = self.output.bytes;
        (self.printed.0.max(self.known.0) - out as u64, self.printed.1.max(self.known.1) - err as u64)
    }

    /// Forgets what a failed try has written after this position: the program may print something else now.
    pub(crate) fn forget_failed_try(&mut self) {
        if std::mem::take(&mut self.is_of_failed_try) {
            self.known = (self.known.0.min(self.printed.0), self.known.1.min(self.printed.1));
            self.noted = self.known;
        }
    }
}

impl Core {
    /// Returns the part of `text` that was not written before, and the position of its end in the output. Records
    /// that position.
    pub(crate) fn fresh<'a>(&self, text: &'a str, error: bool) -> (&'a str, u64) {
        let mut state = self.state.borrow_mut();
        let known = if error { state.known.1 } else { state.known.0 };
        let printed = if error { &mut state.printed.1 } else { &mut state.printed.0 };
        let done = usize::try_from(known.saturating_sub(*printed)).unwrap_or(usize::MAX).min(text.len());
        *printed += text.len() as u64;
        // A replay prints everything.
        (if self.replay { text } else { text.get(done..).unwrap_or("") }, *printed)
    }

    fn write(&self, text: &str, error: bool) -> io::Result<()> {
        if error {
            self.inner.write_err(text);
            return Ok(());
        }
        self.inner.write_out(text)
    }

    /// Writes `text`, at once or when the entries that led to it are persisted.
    pub(crate) fn show(&self, text: &str, error: bool) -> io::Result<()> {
        self.pin_clocks();
        if self.is_stopped() {
            // Output without a recorded place is not shown, and not treated as printed.
            let printed = &mut self.state.borrow_mut().printed;
            *(if error { &mut printed.1 } else { &mut printed.0 }) -= text.len() as u64;
            return Ok(());
        }
        let mut state = self.state.borrow_mut();
        // Output that depends on the fact that nothing was delivered waits for an entry that records it, or for the
        // next entry.
        let upto = state.position() + u64::from(state.is_loose);
        if self.replay || (state.output.is_empty() && state.kept >= upto) {
            drop(state);
            return self.write(text, error);
        }
        if state.output.is_empty() {
            state.output.seen_to = nanos(self.inner.monotonic());
        }
        state.output.hold(upto, text, error);
        let is_much = state.output.bytes.0 + state.output.bytes.1 > MOST;
        drop(state);
        if is_much {
            self.commit();
        }
        self.state.borrow().output.failure()
    }

    /// Writes the output that waited for entries that are persisted now.
    pub(crate) fn release(&self) {
        let mut any = false;
        loop {
            let piece = {
                let state = &mut *self.state.borrow_mut();
                state.output.take(state.kept)
            };
            let Some(piece) = piece else { break };
            any = true;
            let written = self.write(&piece.text, piece.error);
            self.state.borrow_mut().output.note(written);
        }
        if any {
            let written = self.inner.flush();
            let state = &mut *self.state.borrow_mut();
            state.output.note(written);
            state.output.seen_to = nanos(self.inner.monotonic());
        }
    }

    /// Returns whether an earlier process has printed more: its steps until then are not in the journal, so no new
    /// delivery may happen before.
    pub(crate) fn catches_up(&self) -> bool {
        let state = self.state.borrow();
        let least = (state.known.0.max(state.promised.0), state.known.1.max(state.promised.1));
        state.printed.0 < least.0 || state.printed.1 < least.1
    }

    /// Records how much a busy program has printed, if that output waits for an entry: a resumed run lets it print as
    /// much before the next delivery.
    pub(crate) fn pin_printing(&self) {
        let state = &mut *self.state.borrow_mut();
        if state.output.waits_for() > state.position() {
            let (out, err) = state.printed;
            state.note(What::Printing { out, err });
            state.is_loose = false;
        }
    }

    /// Returns whether entries must be written for output: those that it waits for, or one that it was written.
    pub(crate) fn output_is_due(&self) -> bool {
        let state = self.state.borrow();
        let waits = !state.output.is_empty() || state.shown() != state.noted;
        waits
            && state.under_way.is_empty()
            && nanos(self.inner.monotonic()) >= state.output.seen_to.saturating_add(nanos(GATHER))
    }
}
