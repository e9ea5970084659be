//! How much memory the program's data may take. The binary's allocator counts bytes through
//! [`allocated`] and [`freed`]; the VM asks [`check`] before it builds something large and now and
//! then in loops, and turns a refusal into an error that the script can catch.

use std::cell::Cell;

/// Largest single string or list when no limit was set, in bytes.
const DEFAULT_LIMIT: usize = 4 << 30;

thread_local! {
    static USED: Cell<isize> = const { Cell::new(0) };
    static LIMIT: Cell<usize> = const { Cell::new(DEFAULT_LIMIT) };
}

/// Counts an allocation on this thread.
#[inline(always)]
pub fn allocated(bytes: usize) {
    let _ = USED.try_with(|used| used.set(used.get() + bytes as isize));
}

/// Counts a release on this thread.
#[inline(always)]
pub fn freed(bytes: usize) {
    let _ = USED.try_with(|used| used.set(used.get() - bytes as isize));
}

/// Bytes in use on this thread; 0 when the allocator does not count.
pub fn used() -> usize {
    USED.get().max(0) as usize
}

/// Sets the limit of this thread in bytes.
pub fn set_limit(bytes: usize) {
    LIMIT.set(bytes);
}

/// A refusal: what was asked for would pass the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OverLimit {
    /// The limit in bytes.
    pub limit: usize,
}

/// Whether `more` bytes may be allocated.
///
/// # Errors
/// [`OverLimit`] when the bytes in use plus `more` pass the limit.
#[inline]
pub fn check(more: usize) -> Result<(), OverLimit> {
    let limit = LIMIT.get();
    if used().saturating_add(more) > limit { Err(OverLimit { limit }) } else { Ok(()) }
}
