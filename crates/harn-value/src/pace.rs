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

/// Makes the next step look.
pub(crate) fn hurry() {
    let _ = LEFT.try_with(|left| left.set(0));
}
