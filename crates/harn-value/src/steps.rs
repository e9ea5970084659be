//! Interruption of native code.
//!
//! Native code that traverses data of the program or loops over a string calls [`step`] for every item and [`steps`]
//! for work proportional to a size. Every few thousand steps the lookout of the thread is called, which the VM sets
//! while a program runs. It checks the clock, signals and the memory in use. If the work must end, the traversal
//! unwinds with [`Stopped`], without printing a panic message, up to the place where the VM called native code; there
//! it becomes an error that the program can catch. So a traversal needs no error result, even in a comparison, in a
//! hash, or in the middle of a sort.
//!
//! Bulk work without a traversal is counted as well. Constructors of strings, lists, dicts and sets count the bytes or
//! items of large ones, and a call of a native function counts the large strings among its arguments. After some ten
//! milliseconds of such work [`turn_is_due`] returns true, and the interpreter ends its slice after the instruction.
//! Therefore a program of few long calls stops as soon as one of many short calls, and other tasks can run. Sizes
//! determine this, not the clock, so that a replay switches tasks at the same points.
//!
//! Without a lookout (data used from Rust) nothing is ever interrupted.

use std::cell::Cell;

use crate::Value;
pub use crate::pace::LARGE;
use crate::pace::{BYTES_PER_STEP, DUE, LEFT, PACE, TOTAL};

/// Additional bytes that a large string reserves beyond the requested size.
const BETWEEN: usize = LARGE / 16;

/// The panic payload of an interrupted traversal.
pub struct Stopped;

/// Returns whether the current work must end.
pub type Lookout = fn() -> bool;

thread_local! {
    static LOOKOUT: Cell<Option<Lookout>> = const { Cell::new(None) };
}

/// Restarts counting: a program that follows a journal has to read its clock after the same number of steps.
pub fn restart() {
    LEFT.set(PACE);
    begin_turn();
}

/// Returns whether bulk work has used up the slice of the fiber.
#[inline(always)]
pub fn turn_is_due() -> bool {
    DUE.get()
}

/// Starts a new turn.
pub fn begin_turn() {
    crate::pace::begin_turn();
}

/// Counts the large strings and bytes among the arguments of a native function. Lists, dicts and sets are not counted:
/// most functions read few of their items, and those that traverse them call [`step`].
#[inline(always)]
pub fn reads(args: &[Value]) {
    for arg in args {
        if let Some(text) = arg.as_str() {
            crate::pace::spend_bytes(text.len());
        } else if let Some(bytes) = arg.as_bytes() {
            crate::pace::spend_bytes(bytes.len());
        }
    }
}

/// Counts one item of a traversal or one iteration of a loop.
#[inline(always)]
pub fn step() {
    let left = LEFT.get();
    if left == 0 { look() } else { LEFT.set(left - 1) }
}

/// Counts `n` steps at once.
#[inline]
pub fn steps(n: usize) {
    match LEFT.get().checked_sub(u32::try_from(n).unwrap_or(u32::MAX)) {
        Some(left) => LEFT.set(left),
        None => {
            crate::pace::spend(n);
            look();
        }
    }
}

/// Returns the number of steps that this thread has counted so far.
pub fn counted() -> u64 {
    TOTAL.get() + u64::from(PACE.saturating_sub(LEFT.get()))
}

/// Counts work that touches this many bytes.
#[inline]
pub fn bytes(n: usize) {
    steps(n / BYTES_PER_STEP);
}

/// Called before a large allocation: ends the work if it would exceed the memory limit.
#[inline]
pub fn room(bytes: usize) {
    if bytes >= LARGE && crate::memory::check(bytes).is_err() {
        crate::memory::want(bytes);
        look();
        // Reset if no lookout has read it.
        crate::memory::want(0);
    }
}

/// Reserves `more` bytes at the end of a string. Near the memory limit, a large one reserves little more than it needs,
/// and the work ends if that is not available.
#[inline]
pub fn reserve(text: &mut String, more: usize) {
    let needed = text.len().saturating_add(more);
    if needed > text.capacity() && needed >= LARGE {
        // Includes room for separators between such pieces; otherwise the string would double for a comma.
        text.reserve_exact(grown(text.capacity(), needed + BETWEEN) - text.len());
    }
}

/// Adds an item to a list; counts one step and reserves memory like [`reserve`].
#[inline]
pub fn push<T>(items: &mut Vec<T>, item: T) {
    step();
    let size = size_of_val(&items[..]);
    if items.len() == items.capacity() && size >= LARGE {
        let size = grown(size, size + size_of::<T>());
        items.reserve_exact(size / size_of::<T>() - items.len());
    }
    items.push(item);
}

/// Returns the new size in bytes of a large allocation that grows from `size` to at least `needed`: by a fraction of
/// its size, so that many small additions cost no more than one large one.
#[cold]
fn grown(size: usize, needed: usize) -> usize {
    let doubled = needed.max(size.saturating_mul(2));
    if crate::memory::check(doubled - size).is_ok() {
        return doubled;
    }
    // While it grows, both copies exist.
    let least = needed.max(size + size / 32);
    if crate::memory::check(least).is_err() {
        crate::memory::want(least);
        look();
        // Reset if no lookout has read it.
        crate::memory::want(0);
    }
    crate::memory::growth(size, needed).max(least)
}

/// Collects the items of an iterator; each one counts one step.
pub fn gather<T>(items: impl Iterator<Item = T>) -> Vec<T> {
    let mut out = Vec::new();
    items.for_each(|item| push(&mut out, item));
    out
}

/// Iterates over items; each one counts one step.
pub fn each<I: IntoIterator>(items: I) -> impl Iterator<Item = I::Item> {
    items.into_iter().inspect(|_| step())
}

/// Sets the lookout of this thread; returns the previous one.
pub fn set_lookout(lookout: Option<Lookout>) -> Option<Lookout> {
    LOOKOUT.replace(lookout)
}

/// Ends the current work if the lookout requires it.
#[cold]
#[inline(never)]
pub fn look() {
    LEFT.set(PACE);
    crate::pace::spend(PACE as usize);
    // Code that runs during unwinding must not unwind itself.
    if !std::thread::panicking() && LOOKOUT.get().is_some_and(|stop| stop()) {
        std::panic::resume_unwind(Box::new(Stopped));
    }
}
