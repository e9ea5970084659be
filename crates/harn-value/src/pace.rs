//! How many steps native code takes between two looks, and what is large enough to look at once.

use std::cell::Cell;

/// Steps between two looks.
pub(crate) const PACE: u32 = 8192;

/// Bytes of a large piece of memory.
pub const LARGE: usize = 1 << 20;

thread_local! {
    /// Steps until the next look.
    pub(crate) static LEFT: Cell<u32> = const { Cell::new(PACE) };
}

/// Steps of bulk work after which other tasks get their turn and deadlines are checked: some ten milliseconds.
const TURN: usize = 1 << 18;

/// A string or bytes value of this length is bulk work when it is made or read. For smaller ones it is enough to count the
/// calls and loops of the program.
pub(crate) const BULK_BYTES: usize = 1 << 16;

/// A list, dict or set of this length is bulk work when it is made.
pub(crate) const BULK_ITEMS: usize = 1 << 12;

/// Bytes per step.
pub(crate) const BYTES_PER_STEP: usize = 64;

thread_local! {
    /// Bulk work since the last turn, in steps.
    static SPENT: Cell<usize> = const { Cell::new(0) };
    /// Bulk work of the thread, in steps.
    pub(crate) static TOTAL: Cell<u64> = const { Cell::new(0) };
    /// Whether the turn is over.
    pub(crate) static DUE: Cell<bool> = const { Cell::new(false) };
}

/// Counts bulk work. Stops nothing, so that it can be called anywhere.
#[cold]
#[inline(never)]
pub(crate) fn spend(steps: usize) {
    TOTAL.set(TOTAL.get().wrapping_add(steps as u64));
    let spent = SPENT.get().saturating_add(steps);
    SPENT.set(spent);
    if spent >= TURN {
        DUE.set(true);
    }
}

/// Counts the bytes of a string or bytes value that was made or is about to be read.
#[inline(always)]
pub(crate) fn spend_bytes(len: usize) {
    if len >= BULK_BYTES {
        spend(len / BYTES_PER_STEP);
    }
}

/// Counts the items of a list, dict or set that was made.
#[inline(always)]
pub(crate) fn spend_items(len: usize) {
    if len >= BULK_ITEMS {
        spend(len);
    }
}

/// Begins a new turn.
pub(crate) fn begin_turn() {
    SPENT.set(0);
    DUE.set(false);
}

/// Makes the next step look.
pub(crate) fn hurry() {
    let _ = LEFT.try_with(|left| left.set(0));
}
