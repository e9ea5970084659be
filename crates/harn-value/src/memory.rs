//! How much memory the program's data may take.
//!
//! The binary's allocator counts bytes through [`allocated`] and [`freed`] and reports large pieces with
//! [`large`]. The VM asks [`check`] before it builds something of a known size and now and then in loops; walks
//! of native code ask through [`crate::steps`], at once when a large piece has passed the limit; and after each native
//! function the VM asks [`settle`]. Each turns a refusal into an error that the script can catch. The
//! allocator itself refuses nothing: memory that is asked for and not yet touched costs nothing.

use std::cell::Cell;

/// Largest single string or list when no limit was set, in bytes.
pub const DEFAULT_LIMIT: usize = 4 << 30;

thread_local! {
    static USED: Cell<isize> = const { Cell::new(0) };
    static LIMIT: Cell<usize> = const { Cell::new(DEFAULT_LIMIT) };
    static PASSED: Cell<bool> = const { Cell::new(false) };
    static WANTED: Cell<usize> = const { Cell::new(0) };
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

/// Says that a large piece was allocated: when it passed the limit, the next step of a walk looks.
#[cold]
pub fn large() {
    let used = USED.try_with(Cell::get).unwrap_or(0).max(0) as usize;
    if LIMIT.try_with(Cell::get).is_ok_and(|limit| used > limit) {
        let _ = PASSED.try_with(|passed| passed.set(true));
        crate::pace::hurry();
    }
}

/// Bytes in use on this thread; 0 when the allocator does not count.
pub fn used() -> usize {
    USED.get().max(0) as usize
}

/// Sets the limit of this thread in bytes.
pub fn set_limit(bytes: usize) {
    LIMIT.set(bytes);
}

/// Bytes that may still be allocated.
pub fn left() -> usize {
    LIMIT.get().saturating_sub(used())
}

/// The new size in bytes of something that grows from `size` to at least `needed`: doubled, so that repeated appends
/// cost constant time, but near the limit by half of what is left, so that room for growth does not pass it.
pub fn growth(size: usize, needed: usize) -> usize {
    let doubled = needed.max(size.saturating_mul(2));
    if doubled < crate::pace::LARGE || check(doubled - size).is_ok() {
        return doubled;
    }
    needed.max(size + left() / 2)
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

/// Notes what is about to be allocated, for the next [`look`].
pub(crate) fn want(bytes: usize) {
    WANTED.set(bytes);
}

/// As [`check`], with what is about to be allocated.
///
/// # Errors
/// As [`check`].
pub fn look() -> Result<(), OverLimit> {
    check(WANTED.take())
}

/// After work that may have allocated large pieces: as `check(0)` if one passed the limit.
///
/// # Errors
/// [`OverLimit`] when the limit is still passed.
#[inline(always)]
pub fn settle() -> Result<(), OverLimit> {
    if PASSED.get() { settle_passed() } else { Ok(()) }
}

/// Notes that the program is told of a refusal: once is enough.
pub fn told() {
    PASSED.set(false);
}

#[cold]
fn settle_passed() -> Result<(), OverLimit> {
    PASSED.set(false);
    check(0)
}
