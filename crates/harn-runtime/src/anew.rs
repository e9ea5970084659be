//! Programs that restart with `continue_as_new`: the call ends the program, which then restarts with the passed state.
//! This also restarts the journal of a program that runs indefinitely.

use std::cell::RefCell;

use harn_value::{Data, json};
use harn_vm::{Cx, Error, Result, Vm};

use crate::convert::thrown;

/// The number of a program's generation, and the state that the previous generation passed to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Generation {
    /// The number of the generation, starting at 1.
    pub number: u64,
    /// The passed state; null in the first generation.
    pub state: Data,
}

impl Default for Generation {
    fn default() -> Generation {
        Generation { number: 1, state: Data::Null }
    }
}

impl Generation {
    /// Returns the next generation.
    #[must_use]
    pub fn next(&self, state: Data) -> Generation {
        Generation { number: self.number + 1, state }
    }
}

/// The key of the state that contains the snapshot file of an idle daemon.
const DAEMON: &str = "daemon";

#[derive(Default)]
struct Anew {
    /// `None` if the host does not support restarting the program.
    begun: RefCell<Option<Generation>>,
    handed: RefCell<Option<Data>>,
}

/// Sets the current generation of the program, which allows it to call `continue_as_new`.
pub fn begin_generation(vm: &Vm, generation: Generation) {
    *vm.extension::<Anew>().begun.borrow_mut() = Some(generation);
}

/// Takes the state that the program passed to its next generation, if it ended by `continue_as_new`.
pub fn handed_over(vm: &Vm) -> Option<Data> {
    vm.extension::<Anew>().handed.borrow_mut().take()
}

/// Returns the state that the previous generation passed.
pub(crate) fn state(cx: &Cx) -> Data {
    let anew = cx.state::<Anew>();
    let begun = anew.begun.borrow();
    begun.as_ref().map_or(Data::Null, |generation| generation.state.clone())
}

/// Returns an error that names `what` if the program cannot restart.
pub(crate) fn allowed(cx: &Cx, what: &str) -> Result<()> {
    if cx.state::<Anew>().begun.borrow().is_some() {
        return Ok(());
    }
    Err(thrown(format!(
        "{what}: a program can restart only under `harn run`, `harn resume` or a worker" // prose-ok: diagnostic
    )))
}

/// Returns the state that a program with an idle daemon passes on: the state that it received, plus the file of the
/// snapshot.
///
/// # Errors
/// The received state is not a dict.
pub(crate) fn with_daemon(cx: &Cx, file: &str) -> Result<Data> {
    let mut handed = match state(cx) {
        Data::Null => json!({}),
        Data::Object(map) => Data::Object(map),
        other => {
            return Err(thrown(format!(
                "agent_loop: continue_as_new_after: the state that continue_as_new passed must be a dict, got {}", // prose-ok: diagnostic
                other.type_name()
            )));
        }
    };
    handed[DAEMON] = file.into();
    Ok(handed)
}

/// Returns whether the program restarted because the daemon with this file was idle.
pub(crate) fn rested_in(cx: &Cx, file: &str) -> bool {
    state(cx)[DAEMON] == *file
}

/// Stores the state for the next generation and returns the error that ends the program.
pub(crate) fn hand_over(cx: &Cx, state: Data) -> Error {
    *cx.state::<Anew>().handed.borrow_mut() = Some(state);
    Error::exit(0)
}
