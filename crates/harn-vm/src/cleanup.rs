//! Cleanup of generators that are dropped before they end: their `finally` and `defer` blocks run when the last
//! reference is dropped, and at the latest when the program ends.
//!
//! Dropping a value must not run code of the program, because it happens in the middle of an instruction. Therefore a
//! dropped generator passes its stack to the [`Cleanups`] of its VM. Fibers check that list between two instructions
//! (`Op::Settle`, the end of a loop, a return) and before they poll, wait or end. A fiber runs the blocks like a
//! generator, on the stack that was passed: the blocks may wait, and cleanup that drops further generators needs no
//! Rust stack. An iterator that waits on a separate stack ([`Lanes`](crate::iter::Lanes)) is treated the same way.
//!
//! Invariant: the list belongs to one VM. A generator refers to it through a weak reference, because values may
//! outlive the VM together with its functions. After that, the stack must not be read.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Weak;

use crate::coroutine::Coroutine;
use crate::generator::Generator;
use crate::iter::lanes::Slot;

/// Stacks of dropped generators, in the order in which they were dropped.
#[allow(clippy::vec_box, reason = "coroutines move between owners as boxes")]
pub(crate) type Queue = VecDeque<Box<Coroutine>>;

/// A suspended computation that may have cleanup blocks.
enum Suspended {
    /// The pointer is valid: a generator removes itself when it is dropped.
    Generator(*const Generator),
    /// The stack of an iterator that waits concurrently with others.
    Lane(Weak<Slot>),
}

/// Generators of one VM whose cleanup blocks have to run.
#[derive(Default)]
pub(crate) struct Cleanups {
    /// Length of `queue`, in a cell that the interpreter reads quickly; in observed programs [`OBSERVED`] is added.
    pending: Cell<usize>,
    queue: RefCell<Queue>,
    /// Suspended computations that may have cleanup blocks, by number (creation order).
    alive: RefCell<BTreeMap<u64, Suspended>>,
    next: Cell<u64>,
    /// Set when the VM is dropped, and with it the functions whose frames are on the stacks.
    closed: Cell<bool>,
}

/// Added to the length of the queue if an observer wants every statement.
const OBSERVED: usize = 1 << 62;

impl Cleanups {
    /// Returns whether the interpreter must leave its loop: cleanup is pending or an observer is attached.
    #[inline(always)]
    pub(crate) fn pending(&self) -> bool {
        self.pending.get() != 0
    }

    /// Returns whether cleanup is pending.
    pub(crate) fn waiting(&self) -> bool {
        self.pending.get() & !OBSERVED != 0
    }

    /// Makes the interpreter leave its loop at every check from now on.
    pub(crate) fn observe(&self) {
        self.pending.set(self.pending.get() | OBSERVED);
    }

    /// Called when the VM is dropped: from now on no cleanup runs and no stack is read.
    pub(crate) fn close(&self) {
        self.closed.set(true);
        self.alive.take();
        drop(self.queue.take());
    }

    fn set_length(&self, length: usize) {
        self.pending.set(self.pending.get() & OBSERVED | length);
    }

    /// Returns a number for a new generator.
    pub(crate) fn number(&self) -> u64 {
        let number = self.next.get();
        self.next.set(number + 1);
        number
    }

    /// Registers a generator, whose address must not change.
    pub(crate) fn remember(&self, number: u64, generator: &Generator) {
        self.alive.borrow_mut().insert(number, Suspended::Generator(&raw const *generator));
    }

    /// Registers a stack that waits concurrently with others.
    pub(crate) fn remember_lane(&self, number: u64, slot: Weak<Slot>) {
        self.alive.borrow_mut().insert(number, Suspended::Lane(slot));
    }

    /// Removes a stack that ended or was abandoned; in the second case `rest` is queued for cleanup.
    pub(crate) fn lane_ended(&self, number: u64, rest: Option<Box<Coroutine>>) {
        self.alive.borrow_mut().remove(&number);
        rest.into_iter().for_each(|rest| self.add(rest));
    }

    /// Removes a dropped generator; `rest` is its stack if it was suspended.
    pub(crate) fn dropped(&self, number: u64, rest: Option<Box<Coroutine>>) {
        self.alive.borrow_mut().remove(&number);
        if let Some(rest) = rest.filter(|co| !self.closed.get() && co.has_cleanup()) {
            self.add(rest);
        }
    }

    /// Returns whether the VM's functions still exist.
    pub(crate) fn is_open(&self) -> bool {
        !self.closed.get()
    }

    fn add(&self, coroutine: Box<Coroutine>) {
        if self.closed.get() {
            return;
        }
        let mut queue = self.queue.borrow_mut();
        queue.push_back(coroutine);
        self.set_length(queue.len());
    }

    /// Returns the stack that was queued first, and the others. Values dropped during its cleanup are queued before
    /// the others.
    pub(crate) fn take(&self) -> Option<(Box<Coroutine>, Queue)> {
        let mut rest = self.queue.take();
        self.set_length(0);
        Some((rest.pop_front()?, rest))
    }

    /// Returns the unprocessed stacks of [`Cleanups::take`] to the queue, after the stacks that were dropped since.
    pub(crate) fn put_back(&self, mut rest: Queue) {
        let mut queue = self.queue.borrow_mut();
        queue.append(&mut rest);
        self.set_length(queue.len());
    }

    /// Treats the youngest suspended computation as dropped, at the end of the program. Returns false if there is
    /// none.
    pub(crate) fn abandon_youngest(&self) -> bool {
        let Some((_, youngest)) = self.alive.borrow_mut().pop_last() else { return false };
        match youngest {
            Suspended::Generator(generator) => {
                // SAFETY: a dropped generator would have removed itself from the list.
                let rest = unsafe { &*generator }.end();
                rest.filter(|co| co.has_cleanup()).into_iter().for_each(|rest| self.add(rest));
            }
            Suspended::Lane(slot) => {
                let fiber = slot.upgrade().and_then(|slot| slot.take());
                fiber.and_then(|fiber| fiber.give_up()).into_iter().for_each(|rest| self.add(rest));
            }
        }
        true
    }
}
