//! Cleanup of generators that are dropped half-way: their `finally` and `defer` blocks run when the last reference
//! goes, and at the latest when the program ends.
//!
//! Dropping a value must not run code of the program: it happens in the middle of an instruction. So a dropped
//! generator hands its stack to the [`Cleanups`] of its VM, and fibers look there between two instructions
//! (`Op::Settle`, the end of a loop, a return) and before they poll, wait or end. A fiber runs the blocks as it runs a
//! generator, on the stack that was handed over: they may wait, and cleanup that drops further generators needs no
//! Rust stack. An iterator that waits on a stack of its own ([`Lanes`](crate::iter::Lanes)) is treated alike.
//!
//! Invariant: the list belongs to one VM. A generator finds it through a weak reference, because values may outlive
//! the VM, and its functions with it: then nothing of the stack may be looked at any more.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Weak;

use crate::coroutine::Coroutine;
use crate::generator::Generator;
use crate::iter::lanes::Slot;

/// Stacks of dropped generators, in the order in which they were dropped.
#[allow(clippy::vec_box, reason = "coroutines move between owners as boxes")]
pub(crate) type Queue = VecDeque<Box<Coroutine>>;

/// What is suspended and may have cleanup blocks.
enum Suspended {
    /// The pointer is valid: a generator takes itself out when it is dropped.
    Generator(*const Generator),
    /// The stack of an iterator that waits beside others.
    Lane(Weak<Slot>),
}

/// Generators of one VM whose cleanup blocks have to run.
#[derive(Default)]
pub(crate) struct Cleanups {
    /// Length of `queue`, where the interpreter finds it quickly; in observed programs with [`OBSERVED`].
    pending: Cell<usize>,
    queue: RefCell<Queue>,
    /// What is alive and may have cleanup blocks, by number, which is its age.
    alive: RefCell<BTreeMap<u64, Suspended>>,
    next: Cell<u64>,
    /// The VM was dropped, and with it the functions whose frames are on the stacks.
    closed: Cell<bool>,
}

/// Added to the length of the queue where an observer wants every statement.
const OBSERVED: usize = 1 << 62;

impl Cleanups {
    /// Whether the interpreter is to leave its loop: something is to be run, or an observer looks.
    #[inline(always)]
    pub(crate) fn pending(&self) -> bool {
        self.pending.get() != 0
    }

    /// Whether something is to be run.
    pub(crate) fn waiting(&self) -> bool {
        self.pending.get() & !OBSERVED != 0
    }

    /// From now on the interpreter leaves its loop at every look.
    pub(crate) fn observe(&self) {
        self.pending.set(self.pending.get() | OBSERVED);
    }

    /// Called when the VM is dropped: from now on no cleanup runs, and no stack is read.
    pub(crate) fn close(&self) {
        self.closed.set(true);
        self.alive.take();
        drop(self.queue.take());
    }

    fn set_length(&self, length: usize) {
        self.pending.set(self.pending.get() & OBSERVED | length);
    }

    /// A number for a new generator.
    pub(crate) fn number(&self) -> u64 {
        let number = self.next.get();
        self.next.set(number + 1);
        number
    }

    /// Remembers a generator, which stays where it is.
    pub(crate) fn remember(&self, number: u64, generator: &Generator) {
        self.alive.borrow_mut().insert(number, Suspended::Generator(&raw const *generator));
    }

    /// Remembers a stack that waits beside others.
    pub(crate) fn remember_lane(&self, number: u64, slot: Weak<Slot>) {
        self.alive.borrow_mut().insert(number, Suspended::Lane(slot));
    }

    /// A stack that waited beside others has ended, or is given up: then `rest` runs its cleanup blocks.
    pub(crate) fn lane_ended(&self, number: u64, rest: Option<Box<Coroutine>>) {
        self.alive.borrow_mut().remove(&number);
        rest.into_iter().for_each(|rest| self.add(rest));
    }

    /// A generator is dropped; `rest` is its stack if it was suspended.
    pub(crate) fn dropped(&self, number: u64, rest: Option<Box<Coroutine>>) {
        self.alive.borrow_mut().remove(&number);
        if let Some(rest) = rest.filter(|co| !self.closed.get() && co.has_cleanup()) {
            self.add(rest);
        }
    }

    /// Whether the functions of its VM are still there.
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

    /// The stack that was handed over first, and the others: what is dropped while its cleanup runs comes before them.
    pub(crate) fn take(&self) -> Option<(Box<Coroutine>, Queue)> {
        let mut rest = self.queue.take();
        self.set_length(0);
        Some((rest.pop_front()?, rest))
    }

    /// Gives back what [`Cleanups::take`] gave, behind what was dropped since.
    pub(crate) fn put_back(&self, mut rest: Queue) {
        let mut queue = self.queue.borrow_mut();
        queue.append(&mut rest);
        self.set_length(queue.len());
    }

    /// At the end of the program: the youngest of what is still suspended is treated as dropped. False when there is
    /// nothing.
    pub(crate) fn abandon_youngest(&self) -> bool {
        let Some((_, youngest)) = self.alive.borrow_mut().pop_last() else { return false };
        match youngest {
            Suspended::Generator(generator) => {
                // SAFETY: it would have taken itself out of the list when it was dropped.
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
