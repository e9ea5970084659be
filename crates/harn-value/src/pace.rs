//! Number of steps between two checks of native code, and the size of allocations that are checked immediately.

use std::cell::Cell;

/// Number of steps between two checks.
pub(crate) const PACE: u32 = 8192;

/// Size of a large allocation in bytes.
pub const LARGE: usize = 1 << 20;

thread_local! {
    /// Steps until the next check.
    pub(crate) static LEFT: Cell<u32> = const { Cell::new(PACE) };
}

/// Steps of bulk work after which other tasks run and deadlines are checked: some ten milliseconds.
const TURN: usize = 1 << 18;

/// Creating or reading a string or bytes value of this length is bulk work. For smaller ones it is enough to count the
/// calls and loops of the program.
pub(crate) const BULK_BYTES: usize = 1 << 16;

/// Creating a list, dict or set of this length is bulk work.
pub(crate) const BULK_ITEMS: usize = 1 << 12;

/// Bytes per step.
pub(crate) const BYTES_PER_STEP: usize = 64;

thread_local! {
    /// Bulk work since the last turn, in steps.
    static SPENT: Cell<usize> = const { Cell::new(0) };
    /// Bulk work of the thread, in steps.
    pub(crate) static TOTAL: Cell<u64> = const { Cell::new(0) };
    /// Whether the turn has ended.
    pub(crate) static DUE: Cell<bool> = const { Cell::new(false) };
}

/// Counts bulk work. Never interrupts, so it can be called anywhere.
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

/// Counts the bytes of a string or bytes value that was created or will be read.
#[inline(always)]
pub(crate) fn spend_bytes(len: usize) {
    if len >= BULK_BYTES {
        spend(len / BYTES_PER_STEP);
    }
}

/// Counts the items of a new list, dict or set.
#[inline(always)]
pub(crate) fn spend_items(len: usize) {
    if len >= BULK_ITEMS {
        spend(len);
    }
}

/// Starts a new turn.
pub(crate) fn begin_turn() {
    SPENT.set(0);
    DUE.set(false);
}

/// Makes the next step perform a check.
pub(crate) fn hurry() {
    let _ = LEFT.try_with(|left| left.set(0));
}
