//! What has been asked of a program and is not done yet.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use harn_vm::Interrupt;
use pyo3::prelude::*;
use tokio::sync::mpsc::UnboundedSender;

use crate::data::Data;
use crate::machine::Command;
use crate::python;

/// How often a wait looks whether Python got a signal.
const LOOK: Duration = Duration::from_millis(50);

/// A place in a program.
pub(crate) struct Place {
    pub(crate) function: String,
    pub(crate) file: String,
    pub(crate) line: usize,
    pub(crate) column: usize,
}

/// Why there is no result.
pub(crate) struct Failure {
    /// Which exception it becomes.
    pub(crate) kind: &'static str,
    pub(crate) category: Option<String>,
    pub(crate) message: String,
    /// What `catch` would see.
    pub(crate) value: Data,
    /// Innermost first.
    pub(crate) trace: Vec<Place>,
    pub(crate) notes: Vec<String>,
    /// Of a program that called `exit`.
    pub(crate) code: Option<i32>,
}

impl Failure {
    /// A failure that has no place in the program.
    pub(crate) fn plain(kind: &'static str, message: impl Into<String>) -> Failure {
        Failure {
            kind,
            category: None,
            message: message.into(),
            value: Data::Nil,
            trace: Vec::new(),
            notes: Vec::new(),
            code: None,
        }
    }

    /// Of everything that is asked of a program that is not there any more.
    pub(crate) fn closed() -> Failure {
        Failure::plain("closed", "the program has ended: its machine was closed")
    }
}

pub(crate) type Outcome = Result<Data, Failure>;

#[derive(Default)]
struct State {
    outcome: Option<Outcome>,
    settled: bool,
    listeners: Vec<Py<PyAny>>,
}

/// Where the thread of the program leaves the result.
#[derive(Default)]
pub(crate) struct Slot {
    state: Mutex<State>,
    changed: Condvar,
}

impl Slot {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves the result. Only the first one counts.
    pub(crate) fn settle(&self, outcome: Outcome) {
        let mut state = self.state();
        if state.settled {
            return;
        }
        state.outcome = Some(outcome);
        state.settled = true;
        let listeners = std::mem::take(&mut state.listeners);
        drop(state);
        self.changed.notify_all();
        if listeners.is_empty() {
            return;
        }
        // Without an interpreter there is nobody to tell.
        Python::try_attach(|py| {
            for listener in listeners {
                if let Err(error) = listener.call0(py) {
                    // The event loop may be closed by now.
                    drop(error);
                }
            }
        });
    }

    fn wait(&self, time: Duration) -> bool {
        let state = self.state();
        if state.settled {
            return true;
        }
        let (state, _) = self
            .changed
            .wait_timeout_while(state, time, |state| !state.settled)
            .unwrap_or_else(PoisonError::into_inner);
        state.settled
    }
}

/// What has been asked of a program.
#[pyclass(frozen, module = "harn._harn")]
pub(crate) struct Pending {
    pub(crate) slot: Arc<Slot>,
    /// The number of the call.
    pub(crate) call: u64,
    pub(crate) commands: UnboundedSender<Command>,
    /// Ends the whole program.
    pub(crate) interrupt: Option<Interrupt>,
}

#[pymethods]
impl Pending {
    /// Waits for the end, at most so many seconds; says whether it has come. Signals are handled meanwhile.
    #[pyo3(signature = (seconds=None))]
    fn wait(&self, py: Python<'_>, seconds: Option<f64>) -> PyResult<bool> {
        let until = seconds
            .map(|s| Instant::now() + Duration::try_from_secs_f64(s.max(0.0)).unwrap_or(Duration::MAX / 4));
        loop {
            let left = until.map_or(LOOK, |until| until.saturating_duration_since(Instant::now()).min(LOOK));
            if py.detach(|| self.slot.wait(left)) {
                return Ok(true);
            }
            py.check_signals()?;
            if until.is_some_and(|until| Instant::now() >= until) {
                return Ok(false);
            }
        }
    }

    /// Waits without looking at signals.
    fn settle_within(&self, py: Python<'_>, seconds: f64) -> bool {
        py.detach(|| self.slot.wait(Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or_default()))
    }

    /// Calls `listener` once there is a result, on whatever thread.
    fn on_done(&self, py: Python<'_>, listener: Py<PyAny>) -> PyResult<()> {
        let mut state = self.slot.state();
        if state.settled {
            drop(state);
            listener.call0(py)?;
        } else {
            state.listeners.push(listener);
        }
        Ok(())
    }

    /// Stops the call: its cleanup blocks run, nothing else does.
    fn cancel(&self) {
        match &self.interrupt {
            Some(interrupt) => interrupt.interrupt(),
            None => drop(self.commands.send(Command::Abort(self.call))),
        }
    }

    /// The result, once.
    fn result(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let outcome = self.slot.state().outcome.take();
        match outcome {
            Some(Ok(data)) => python::to_python(py, data),
            Some(Err(failure)) => Err(python::to_error(py, failure)),
            None => Err(python::to_error(py, Failure::plain("closed", "there is no result (any more)"))),
        }
    }
}
