//! Identity of the VM that compiled a function.
//!
//! Code refers to functions, modules and variables by their numbers in the tables of its VM, and frames point to code
//! that the VM keeps alive. A function or a generator therefore runs only in its own VM. Each place where one could
//! enter another VM compares the numbers and throws an error.

use std::cell::RefCell;

use crate::error::Error;

/// The number of a VM, unique in its thread. Programs, functions and generators share the `VmId` of their VM; the
/// number is reused only after all of them are dropped.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct VmId(u32);

#[derive(Default)]
struct Numbers {
    next: u32,
    free: Vec<u32>,
}

thread_local! {
    static NUMBERS: RefCell<Numbers> = const { RefCell::new(Numbers { next: 0, free: Vec::new() }) };
}

impl VmId {
    /// Allocates a number that no other VM and no function of this thread has.
    pub(crate) fn new() -> VmId {
        NUMBERS.with_borrow_mut(|numbers| {
            VmId(numbers.free.pop().unwrap_or_else(|| {
                // Cannot overflow: 2^32 VMs do not fit into memory.
                numbers.next += 1;
                numbers.next
            }))
        })
    }

    /// Returns the number, small enough for the data that every call reads.
    pub(crate) fn number(&self) -> u32 {
        self.0
    }
}

impl Drop for VmId {
    fn drop(&mut self) {
        // Fails only while the thread ends, when no VM is built any more.
        let _ = NUMBERS.try_with(|numbers| numbers.borrow_mut().free.push(self.0));
    }
}

/// Returns the error for a function, generator or program of another VM.
#[cold]
pub(crate) fn of_another_vm(what: &str) -> Error {
    Error::type_error(format!("this {what} belongs to another VM: run it in the VM that loaded it"))
}
