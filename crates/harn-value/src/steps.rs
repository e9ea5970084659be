//! How native code stays interruptible.
//!
//! Native code that walks data of the program or loops over a text says [`step`] for every item and
//! [`steps`] for work that grows with a size. Every some thousands of steps the lookout of the thread
//! is asked, which the VM sets while a program runs. It looks at the clock, at signals and at the memory in
//! use. When it wants the work to end, the walk unwinds with [`Stopped`], without the machinery of a
//! panic's message, up to the place where the VM called native code; there it becomes an error that the
//! program can catch. So a walk needs no error of its own, wherever it is: in a comparison, in a hash, in the
//! middle of a sort.
//!
//! Bulk work without a walk is counted, too. Constructors of strings, lists, dicts and sets count the bytes or items of
//! large ones, and a call of a native function counts the large strings among its arguments. After some ten
//! milliseconds of such work [`turn_is_due`] returns true, and the interpreter ends its slice after the instruction.
//! A program of few long calls therefore stops as soon as one of many short calls, and other tasks get their turn.
//! Sizes decide, not the clock: a replay takes its turns at the same places.
//!
//! Without a lookout (data used from Rust) nothing is ever stopped.

use std::cell::Cell;

use crate::Value;
pub use crate::pace::LARGE;
use crate::pace::{BYTES_PER_STEP, DUE, LEFT, PACE, TOTAL};

/// Bytes that a large text gets beside those that it was asked to hold.
const BETWEEN: usize = LARGE / 16;

/// What a stopped walk unwinds with.
pub struct Stopped;

/// Says whether the work in progress is to end.
pub type Lookout = fn() -> bool;

thread_local! {
    static LOOKOUT: Cell<Option<Lookout>> = const { Cell::new(None) };
}

/// Starts to count anew: a program whose journal is followed has to look at its clock after the same steps.
pub fn restart() {
    LEFT.set(PACE);
    begin_turn();
}

/// Whether bulk work has used up the slice of the fiber.
#[inline(always)]
pub fn turn_is_due() -> bool {
    DUE.get()
}

/// Begins a new turn.
pub fn begin_turn() {
    crate::pace::begin_turn();
}

/// Counts the large strings and bytes among the arguments of a native function. Lists, dicts and sets are not counted:
/// most functions read few of their items, and those that walk them call [`step`].
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

/// One item of a walk, one turn of a loop.
#[inline(always)]
pub fn step() {
    let left = LEFT.get();
    if left == 0 { look() } else { LEFT.set(left - 1) }
}

/// `n` steps at once.
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

/// Steps that this thread has counted so far.
pub fn counted() -> u64 {
    TOTAL.get() + u64::from(PACE.saturating_sub(LEFT.get()))
}

/// Work that touches this many bytes.
#[inline]
pub fn bytes(n: usize) {
    steps(n / BYTES_PER_STEP);
}

/// Before a large piece of memory is asked for: ends the work if it would pass the memory limit.
#[inline]
pub fn room(bytes: usize) {
    if bytes >= LARGE && crate::memory::check(bytes).is_err() {
        crate::memory::want(bytes);
        look();
        // Nobody looked.
        crate::memory::want(0);
    }
}

/// Room for `more` bytes at the end of a text. Near the memory limit a large one gets little more than it needs, and the
/// work ends where that is not left.
#[inline]
pub fn reserve(text: &mut String, more: usize) {
    let needed = text.len().saturating_add(more);
    if needed > text.capacity() && needed >= LARGE {
        // What is written between such pieces fits, too: the text would double for a comma.
        text.reserve_exact(grown(text.capacity(), needed + BETWEEN) - text.len());
    }
}

/// Adds an item to a list, as a step and with room as [`reserve`] gives it to a text.
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

/// The new size in bytes of something large that grows from `size` to at least `needed`: by a part of what it is, so that
/// many small pieces cost no more than one large one.
#[cold]
fn grown(size: usize, needed: usize) -> usize {
    let doubled = needed.max(size.saturating_mul(2));
    if crate::memory::check(doubled - size).is_ok() {
        return doubled;
    }
    // While it grows it is there twice.
    let least = needed.max(size + size / 32);
    if crate::memory::check(least).is_err() {
        crate::memory::want(least);
        look();
        // Nobody looked.
        crate::memory::want(0);
    }
    crate::memory::growth(size, needed).max(least)
}

/// The items of an iterator as a list, each of them a step.
pub fn gather<T>(items: impl Iterator<Item = T>) -> Vec<T> {
    let mut out = Vec::new();
    items.for_each(|item| push(&mut out, item));
    out
}

/// The items of an iterator, each of them a step.
pub fn each<I: IntoIterator>(items: I) -> impl Iterator<Item = I::Item> {
    items.into_iter().inspect(|_| step())
}

/// Sets the lookout of this thread and gives the one before.
pub fn set_lookout(lookout: Option<Lookout>) -> Option<Lookout> {
    LOOKOUT.replace(lookout)
}

/// Ends the work in progress if the lookout says so.
#[cold]
#[inline(never)]
pub fn look() {
    LEFT.set(PACE);
    crate::pace::spend(PACE as usize);
    // What runs while something unwinds must not unwind itself.
    if !std::thread::panicking() && LOOKOUT.get().is_some_and(|stop| stop()) {
        std::panic::resume_unwind(Box::new(Stopped));
    }
}
