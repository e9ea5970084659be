//! Programs that begin anew: what a program hands over ends it, and it begins again with that. So the journal of a program that
//! runs for ever begins again, too.

use std::cell::RefCell;

use harn_value::{Data, json};
use harn_vm::{Cx, Error, Result, Vm};

use crate::convert::thrown;

/// How often a program has begun, and what it has handed over the time before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Generation {
    /// Counts from 1.
    pub number: u64,
    /// What was handed over; nil the first time.
    pub state: Data,
}

impl Default for Generation {
    fn default() -> Generation {
        Generation { number: 1, state: Data::Null }
    }
}

impl Generation {
    /// The one after this.
    #[must_use]
    pub fn next(&self, state: Data) -> Generation {
        Generation { number: self.number + 1, state }
    }
}

/// Where the state has the file of a daemon that rests.
const DAEMON: &str = "daemon";

#[derive(Default)]
struct Anew {
    /// Without one, nobody is there who would let the program begin again.
    begun: RefCell<Option<Generation>>,
    handed: RefCell<Option<Data>>,
}

/// Says which time a program begins: it may begin anew then.
pub fn begin_generation(vm: &Vm, generation: Generation) {
    *vm.extension::<Anew>().begun.borrow_mut() = Some(generation);
}

/// What a program has handed over, if it has ended so.
pub fn handed_over(vm: &Vm) -> Option<Data> {
    vm.extension::<Anew>().handed.borrow_mut().take()
}

/// What the program has handed over the time before.
pub(crate) fn state(cx: &Cx) -> Data {
    let anew = cx.state::<Anew>();
    let begun = anew.begun.borrow();
    begun.as_ref().map_or(Data::Null, |generation| generation.state.clone())
}

/// Refuses where a program cannot begin anew; `what` wants it to.
pub(crate) fn allowed(cx: &Cx, what: &str) -> Result<()> {
    if cx.state::<Anew>().begun.borrow().is_some() {
        return Ok(());
    }
    Err(thrown(format!(
        "{what}: a program can restart only under `harn run`, `harn resume` or a worker" // prose-ok: diagnostic
    )))
}

/// What a program hands over for a daemon that rests: all that it was given itself, and the file of the snapshot.
///
/// # Errors
/// What it was given is no dict.
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

/// Whether the program began anew because the daemon with this file rested.
pub(crate) fn rested_in(cx: &Cx, file: &str) -> bool {
    state(cx)[DAEMON] == *file
}

/// The end of a program that hands something over.
pub(crate) fn hand_over(cx: &Cx, state: Data) -> Error {
    *cx.state::<Anew>().handed.borrow_mut() = Some(state);
    Error::exit(0)
}
