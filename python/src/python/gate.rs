//! Controls which machine threads enter the interpreter. A thread that attaches while the interpreter shuts down would
//! never return, so the gate is closed first: at exit, after the threads inside have left.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pyo3::Python;

/// The time that threads inside have to leave when the gate closes.
const LEAVE: Duration = Duration::from_secs(2);

struct Gate {
    closed: bool,
    inside: usize,
}

static GATE: Mutex<Gate> = Mutex::new(Gate { closed: false, inside: 0 });
static LEFT: Condvar = Condvar::new();

fn gate() -> MutexGuard<'static, Gate> {
    GATE.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Inside;

impl Drop for Inside {
    fn drop(&mut self) {
        gate().inside -= 1;
        LEFT.notify_all();
    }
}

/// Runs `f` with the interpreter. Returns `None` if the interpreter has shut down or the gate is closed.
pub(super) fn attach<T>(f: impl FnOnce(Python<'_>) -> T) -> Option<T> {
    {
        let mut gate = gate();
        if gate.closed {
            return None;
        }
        gate.inside += 1;
    }
    let _inside = Inside;
    Python::try_attach(f)
}

/// Closes the gate and waits until the threads inside have left, at most `LEAVE`. The caller must not hold the
/// interpreter.
pub(super) fn close() {
    let mut gate = gate();
    gate.closed = true;
    drop(LEFT.wait_timeout_while(gate, LEAVE, |gate| gate.inside > 0));
}

/// Resets the number of threads inside: after a fork there are none.
pub(super) fn reset() {
    gate().inside = 0;
}
