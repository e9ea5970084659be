//! Write errors of recordings and logs of model calls: the program continues, and its run fails when it ends.

use std::cell::RefCell;

use harn_vm::Vm;

/// The first write error of a program's recordings and call log.
#[derive(Default)]
pub(crate) struct Unwritten(RefCell<Option<String>>);

impl Unwritten {
    pub(crate) fn note(vm: &Vm, text: String) {
        vm.extension::<Unwritten>().0.borrow_mut().get_or_insert(text);
    }
}

/// Returns the first write error of a program's recordings and call log, after it has run.
pub fn unwritten_calls(vm: &Vm) -> Option<String> {
    vm.extension::<Unwritten>().0.borrow().clone()
}
