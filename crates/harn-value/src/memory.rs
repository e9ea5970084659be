//! The memory limit of the program's data.
//!
//! The binary's allocator counts bytes through [`allocated`] and [`freed`] and reports large allocations with
//! [`large`]. The VM calls [`check`] before it builds a value of known size and at intervals in loops. Traversals in
//! native code check through [`crate::steps`], immediately after a large allocation has exceeded the limit. After each
//! native function, the VM calls [`settle`]. Each check converts a violation to an error that the script can catch. The
//! allocator itself rejects nothing: memory that is allocated but not yet touched costs nothing.
//!
//! A thread that runs programs ([`program_thread`]) has a separate count. All other threads share one count, which
//! every program includes: if a program allocates memory that the store's thread frees, or the reverse, both counts
//! cancel out.

use std::cell::Cell;
use std::sync::atomic::{AtomicIsize, Ordering};

/// Default memory limit in bytes, if none was set.
pub const DEFAULT_LIMIT: usize = 4 << 30;

/// Maximum difference that a thread without programs accumulates before it updates [`SHARED`], in bytes.
const BATCH: isize = 4 << 10;

/// Bytes in use by threads that run no programs. Negative if they freed more than they allocated.
static SHARED: AtomicIsize = AtomicIsize::new(0);

/// Bytes counted by one thread and not yet added to [`SHARED`].
struct Count {
    used: Cell<isize>,
    /// The absolute value at which they are added.
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

/// Makes this thread count its bytes separately, for the programs that it runs.
pub fn program_thread() {
    COUNT.with(|count| count.batch.set(isize::MAX));
}

/// Returns the bytes in use by this thread and by the threads without programs.
fn in_use() -> isize {
    COUNT.try_with(|count| count.used.get()).unwrap_or(0) + SHARED.load(Ordering::Relaxed)
}

/// Reports a large allocation: if it exceeded the limit, the next step of a traversal checks.
#[cold]
pub fn large() {
    let used = used();
    if LIMIT.try_with(Cell::get).is_ok_and(|limit| used > limit) {
        let _ = PASSED.try_with(|passed| passed.set(true));
        crate::pace::hurry();
    }
}

/// Returns the bytes in use by the programs of this thread; 0 if the allocator does not count.
pub fn used() -> usize {
    in_use().max(0) as usize
}

/// Returns the bytes in use by this thread, after [`program_thread`]. Negative if it freed more than it allocated.
pub fn used_by_thread() -> isize {
    COUNT.with(|count| count.used.get())
}

/// Sets the limit of this thread in bytes.
pub fn set_limit(bytes: usize) {
    LIMIT.set(bytes);
}

/// Returns the number of bytes that may still be allocated.
pub fn left() -> usize {
    LIMIT.get().saturating_sub(used())
}

/// Returns the new size in bytes of an allocation that grows from `size` to at least `needed`: doubled, so that
/// repeated appends take amortized constant time, but near the limit only by half of the remaining memory, so that
/// reserved memory does not exceed the limit.
pub fn growth(size: usize, needed: usize) -> usize {
    let doubled = needed.max(size.saturating_mul(2));
    if doubled < crate::pace::LARGE || check(doubled - size).is_ok() {
        return doubled;
    }
    needed.max(size + left() / 2)
}

/// The error for exceeding the memory limit.
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

/// Checks whether `more` bytes may be allocated.
///
/// # Errors
/// [`OverLimit`] if the bytes in use plus `more` exceed the limit.
#[inline]
pub fn check(more: usize) -> Result<(), OverLimit> {
    let limit = LIMIT.get();
    if used().saturating_add(more) > limit { Err(OverLimit { limit }) } else { Ok(()) }
}

/// Records the size of the next allocation for [`look`].
pub(crate) fn want(bytes: usize) {
    WANTED.set(bytes);
}

/// Like [`check`], with the recorded size.
///
/// # Errors
/// As for [`check`].
pub fn look() -> Result<(), OverLimit> {
    check(WANTED.take())
}

/// Called after work that may have allocated large values: like `check(0)` if one exceeded the limit.
///
/// # Errors
/// [`OverLimit`] if the limit is still exceeded.
#[inline(always)]
pub fn settle() -> Result<(), OverLimit> {
    if PASSED.get() { settle_passed() } else { Ok(()) }
}

/// Records that the program was notified of a violation, which happens only once.
pub fn told() {
    PASSED.set(false);
}

#[cold]
fn settle_passed() -> Result<(), OverLimit> {
    PASSED.set(false);
    check(0)
}
