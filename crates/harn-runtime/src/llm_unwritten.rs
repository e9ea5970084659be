//! What was to be kept of model calls and could not be written: a program goes on, and its run fails when it ends.

use std::cell::RefCell;

use harn_vm::Vm;

/// The first thing that could not be written of what was to be kept of a program's model calls.
#[derive(Default)]
pub(crate) struct Unwritten(RefCell<Option<String>>);

impl Unwritten {
    pub(crate) fn note(vm: &Vm, text: String) {
        vm.extension::<Unwritten>().0.borrow_mut().get_or_insert(text);
    }
}

/// Says, after a program ran, what could not be written of its model calls although it was to be kept.
pub fn unwritten_calls(vm: &Vm) -> Option<String> {
    vm.extension::<Unwritten>().0.borrow().clone()
}
