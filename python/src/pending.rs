//! Results that a program has not produced yet.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use harn_vm::Interrupt;

use crate::data::Data;
use crate::machine::{Command, CommandSender};

/// A frame of a stack trace.
pub struct Frame {
    /// The function's name, empty at the top level.
    pub function: String,
    /// The file, under the name that the program was loaded with.
    pub file: String,
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
}

/// The reason why a call has no result.
pub struct Failure {
    /// Selects the exception class: a key of `_KINDS` in `harn/_errors.py`.
    pub kind: &'static str,
    /// The error category of the program, if it set one.
    pub category: Option<String>,
    /// The message without the location.
    pub message: String,
    /// The value that `catch` would bind.
    pub value: Data,
    /// Innermost frame first.
    pub trace: Vec<Frame>,
    /// Additional lines of the error.
    pub notes: Vec<String>,
    /// The exit code of a program that called `exit`.
    pub code: Option<i32>,
}

/// All values of [`Failure::kind`].
pub const KINDS: [&str; 11] = [
    "cancelled",
    "closed",
    "conversion",
    "exit",
    "name",
    "runtime",
    "syntax",
    "thrown",
    "type",
    "unsupported_type",
    "value",
];

impl Failure {
    /// A failure without a location in the program.
    pub fn plain(kind: &'static str, message: impl Into<String>) -> Box<Failure> {
        Box::new(Failure {
            kind,
            category: None,
            message: message.into(),
            value: Data::Nil,
            trace: Vec::new(),
            notes: Vec::new(),
            code: None,
        })
    }

    /// The failure of every call of a machine that has ended.
    pub fn closed() -> Box<Failure> {
        Failure::plain("closed", "the program has ended: its machine was closed")
    }
}

/// The result of a call.
pub type Outcome = Result<Data, Box<Failure>>;

/// A callback that runs once, on any thread.
pub type Listener = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct SlotState {
    outcome: Option<Outcome>,
    settled: bool,
    listeners: Vec<Listener>,
}

/// The place where the machine's thread stores the result of one call.
#[derive(Default)]
pub struct ResultSlot {
    state: Mutex<SlotState>,
    settled: Condvar,
}

impl ResultSlot {
    fn state(&self) -> MutexGuard<'_, SlotState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores the result and runs the listeners. Only the first result is stored.
    fn settle(&self, outcome: Outcome) {
        let mut state = self.state();
        if state.settled {
            return;
        }
        state.outcome = Some(outcome);
        state.settled = true;
        let listeners = std::mem::take(&mut state.listeners);
        drop(state);
        self.settled.notify_all();
        for listener in listeners {
            listener();
        }
    }

    /// Waits at most `timeout` for the result. Returns whether there is one.
    pub fn wait(&self, timeout: Duration) -> bool {
        let waited = self.settled.wait_timeout_while(self.state(), timeout, |state| !state.settled);
        waited.unwrap_or_else(PoisonError::into_inner).0.settled
    }

    /// Calls `listener` when there is a result: immediately, or on the machine's thread.
    pub fn on_settled(&self, listener: Listener) {
        let mut state = self.state();
        if state.settled {
            drop(state);
            listener();
        } else {
            state.listeners.push(listener);
        }
    }

    /// Takes the result out. The second caller gets `None`.
    pub fn take(&self) -> Option<Outcome> {
        self.state().outcome.take()
    }
}

/// The writing end of a [`ResultSlot`]. If it is dropped without a result, it completes the slot with
/// [`Failure::closed`], so that no caller waits for a machine that has ended for any reason.
pub struct Completion(Arc<ResultSlot>);

impl Completion {
    /// Creates a slot and its writing end.
    pub fn with_slot() -> (Completion, Arc<ResultSlot>) {
        let slot = Arc::<ResultSlot>::default();
        (Completion(slot.clone()), slot)
    }

    /// Stores the result.
    pub fn settle(self, outcome: Outcome) {
        self.0.settle(outcome);
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
        self.0.settle(Err(Failure::closed()));
    }
}

/// Interrupts a whole program, including one that is not built yet.
#[derive(Default)]
pub struct ProgramInterrupt(Mutex<(bool, Option<Interrupt>)>);

impl ProgramInterrupt {
    /// Stops the program: its cleanup blocks run, then it ends.
    pub fn interrupt(&self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.0 = true;
        if let Some(interrupt) = &state.1 {
            interrupt.interrupt();
        }
    }

    /// Connects the interrupt of the VM, and triggers it immediately if the program was stopped before.
    pub(crate) fn connect(&self, interrupt: &Interrupt) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.0 {
            interrupt.interrupt();
        }
        state.1 = Some(interrupt.clone());
    }
}

/// The target of [`Pending::cancel`].
pub enum CancelTarget {
    /// The call with this number.
    Call(u64, CommandSender),
    /// The program.
    Program(Arc<ProgramInterrupt>),
}

/// A call that may not have completed yet.
pub struct Pending {
    /// Contains the result.
    pub slot: Arc<ResultSlot>,
    /// The target of `cancel`.
    pub target: CancelTarget,
}

impl Pending {
    /// Stops the call, or the program that it runs. Only cleanup blocks still run.
    pub fn cancel(&self) {
        match &self.target {
            CancelTarget::Program(interrupt) => interrupt.interrupt(),
            // A machine that has ended has no calls.
            CancelTarget::Call(call, commands) => commands.send(Command::Abort(*call)),
        }
    }
}
