//! The memory limit of the program's data.
//!
//! The binary's allocator counts bytes through [`allocated`] and [`freed`] and reports large pieces with
//! [`large`]. The VM asks [`check`] before it builds something of a known size and now and then in loops; walks
//! of native code ask through [`crate::steps`], at once when a large piece has passed the limit; and after each native
//! function the VM asks [`settle`]. Each turns a refusal into an error that the script can catch. The
//! allocator itself refuses nothing: memory that is asked for and not yet touched costs nothing.
//!
//! A thread that runs programs ([`program_thread`]) counts for itself. All other threads share one count, which every program
//! sees: what a program allocates and the store's thread frees, or the reverse, cancels out.

use std::cell::Cell;
use std::sync::atomic::{AtomicIsize, Ordering};

/// Largest single string or list when no limit was set, in bytes.
pub const DEFAULT_LIMIT: usize = 4 << 30;

/// How far the count of a thread without programs runs ahead of [`SHARED`], in bytes.
const BATCH: isize = 4 << 10;

/// Bytes in use of the threads that run no programs. Negative when they freed more than they allocated.
static SHARED: AtomicIsize = AtomicIsize::new(0);

/// The bytes that one thread counted and did not add to [`SHARED`].
struct Count {
    used: Cell<isize>,
    /// The distance from zero at which they are added.
    batch: Cell<isize>,
}

thread_local! {
    static COUNT: Count = const { Count { used: Cell::new(0), batch: Cell::new(BATCH) } };
    static LIMIT: Cell<usize> = const { Cell::new(DEFAULT_LIMIT) };
    static PASSED: Cell<bool> = const { Cell::new(false) };
    static WANTED: Cell<usize> = const { Cell::new(0) };
}

/// Counts an allocation on this thread.
#[inline(always)]
pub fn allocated(bytes: usize) {
    let _ = COUNT.try_with(|count| {
        let used = count.used.get() + bytes as isize;
        count.used.set(used);
        if used > count.batch.get() {
            share(count);
        }
    });
}

/// Counts a release on this thread.
#[inline(always)]
pub fn freed(bytes: usize) {
    let _ = COUNT.try_with(|count| {
        let used = count.used.get() - bytes as isize;
        count.used.set(used);
        if used < -count.batch.get() {
            share(count);
        }
    });
}

#[cold]
fn share(count: &Count) {
    SHARED.fetch_add(count.used.take(), Ordering::Relaxed);
}

/// Lets this thread count its bytes for the programs that it runs, and for no others.
pub fn program_thread() {
    COUNT.with(|count| count.batch.set(isize::MAX));
}

/// What this thread and the threads without programs have in use.
fn in_use() -> isize {
    COUNT.try_with(|count| count.used.get()).unwrap_or(0) + SHARED.load(Ordering::Relaxed)
}

/// Says that a large piece was allocated: when it passed the limit, the next step of a walk looks.
#[cold]
pub fn large() {
    let used = used();
    if LIMIT.try_with(Cell::get).is_ok_and(|limit| used > limit) {
        let _ = PASSED.try_with(|passed| passed.set(true));
        crate::pace::hurry();
    }
}

/// Bytes in use of the programs of this thread; 0 when the allocator does not count.
pub fn used() -> usize {
    in_use().max(0) as usize
}

/// Bytes that this thread has in use, after [`program_thread`]. Negative when it freed more than it allocated.
pub fn used_by_thread() -> isize {
    COUNT.with(|count| count.used.get())
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

impl std::fmt::Display for OverLimit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "memory limit of {} bytes exceeded", self.limit)
    }
}

impl std::error::Error for OverLimit {}

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
