//! The classes of the module.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use harn_system::{Real, System};
use harn_vm::Source;
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use super::convert::{self, PythonObject};
use super::{factory, gate};
use crate::data::{Data, RemoteValue};
use crate::host::{self, HostException, HostObject, Object};
use crate::machine::{self, MachineOptions};
use crate::pending::{self, Failure, Listener};

/// The interval at which a wait checks for signals.
const SIGNAL_CHECK: Duration = Duration::from_millis(50);

/// A wait without a limit.
const FOREVER: Duration = Duration::from_secs(1 << 32);

impl HostObject for PythonObject {
    fn identity(&self) -> usize {
        self.0.as_ptr() as usize
    }

    fn call(&self, args: Vec<Data>, reply: host::Reply) -> Result<(), String> {
        let call = |py: Python<'_>| -> PyResult<()> {
            let reply = Py::new(py, Reply(reply))?;
            let args: Vec<Py<PyAny>> =
                args.into_iter().map(|arg| convert::to_python(py, arg)).collect::<PyResult<_>>()?;
            factory(py, "dispatch")?.call1((self.0.bind(py), PyList::new(py, args)?, reply))?;
            Ok(())
        };
        match gate::attach(call) {
            Some(called) => called.map_err(|error| format!("Python: {error}")),
            None => Err("the Python interpreter has ended".to_owned()),
        }
    }
}

/// A listener that calls a function of Python without arguments.
fn listener(callback: Py<PyAny>) -> Listener {
    Box::new(move || {
        // The callback fails if its event loop is closed; then there is no waiter.
        gate::attach(|py| drop(callback.call0(py)));
    })
}

/// The place where Python stores the result of a call.
#[pyclass(frozen, module = "harn._harn")]
pub(super) struct Reply(host::Reply);

#[pymethods]
impl Reply {
    /// Stores the returned value.
    fn resolve(&self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.0.send(Ok(convert::to_data(value, 0)?));
        Ok(())
    }

    /// Stores an exception. `value` is the error of a program that passed through Python.
    #[pyo3(signature = (exception, type_name, message, value=None))]
    fn reject(
        &self,
        exception: Py<PyAny>,
        type_name: String,
        message: String,
        value: Option<&Bound<'_, PyAny>>,
    ) {
        let value = value.and_then(|value| convert::to_data(value, 0).ok());
        let exception: Object = Arc::new(PythonObject(exception));
        self.0.send(Err(HostException { type_name, message, exception, value }));
    }

    /// Calls `callback` when the program cancels the call.
    fn on_cancel(&self, callback: Py<PyAny>) {
        self.0.on_cancel(listener(callback));
    }
}

/// A call of a program that may not be done yet.
#[pyclass(frozen, module = "harn._harn")]
pub(super) struct Pending(pending::Pending);

#[pymethods]
impl Pending {
    /// Waits for the result, at most `seconds`; returns whether there is one. `signals` handles signals meanwhile, which only
    /// the main thread can.
    #[pyo3(signature = (seconds=None, signals=false))]
    fn wait(&self, py: Python<'_>, seconds: Option<f64>, signals: bool) -> PyResult<bool> {
        let limit = seconds.map(|s| Duration::try_from_secs_f64(s.max(0.0)).unwrap_or(FOREVER));
        let clock = Real::new();
        let start = clock.monotonic();
        loop {
            let left =
                limit.map_or(FOREVER, |limit| limit.saturating_sub(clock.monotonic().saturating_sub(start)));
            let step = if signals { left.min(SIGNAL_CHECK) } else { left };
            if py.detach(|| self.0.slot.wait(step)) {
                return Ok(true);
            }
            if signals {
                py.check_signals()?;
            }
            if left <= step {
                return Ok(false);
            }
        }
    }

    /// Calls `callback` as soon as there is a result, on any thread.
    fn on_done(&self, callback: Py<PyAny>) {
        self.0.slot.on_settled(listener(callback));
    }

    /// Stops the call: its cleanup blocks run, nothing else does.
    fn cancel(&self) {
        self.0.cancel();
    }

    /// Returns the result, once, or raises the exception of its failure.
    fn result(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match self.0.slot.take() {
            Some(Ok(data)) => convert::to_python(py, data),
            Some(Err(failure)) => Err(convert::to_error(py, failure)),
            None => Err(convert::to_error(py, Failure::plain("closed", "the result was taken before"))),
        }
    }
}

/// A value of a program that stays there.
#[pyclass(frozen, module = "harn._harn")]
pub(super) struct Handle(pub(super) Arc<RemoteValue>);

#[pymethods]
impl Handle {
    /// Its type in Harn.
    #[getter]
    fn type_name(&self) -> &str {
        &self.0.type_name
    }

    /// Its printed form.
    #[getter]
    fn text(&self) -> &str {
        &self.0.text
    }

    /// Calls it.
    fn call(&self, args: Vec<Bound<'_, PyAny>>) -> PyResult<Pending> {
        Ok(Pending(self.0.call(convert::all_to_data(&args)?)))
    }

    /// Requests its next item: a list of the item, or `None` at the end.
    fn next(&self) -> Pending {
        Pending(self.0.next_item())
    }
}

/// A program on its own thread.
#[pyclass(frozen, module = "harn._harn")]
pub(super) struct Machine(machine::Machine);

#[pymethods]
impl Machine {
    #[new]
    #[pyo3(signature = (name, text, directory, argv, task, env, globals, mocks, capture, project))]
    #[expect(clippy::too_many_arguments, reason = "the Python half passes them by name")]
    fn new(
        name: String,
        text: String,
        directory: PathBuf,
        argv: Vec<String>,
        task: Option<String>,
        env: HashMap<String, String>,
        globals: &Bound<'_, PyDict>,
        mocks: Vec<Bound<'_, PyAny>>,
        capture: bool,
        project: bool,
    ) -> PyResult<Machine> {
        let options = MachineOptions {
            source: Source { name, text, dir: directory },
            argv,
            task,
            globals: convert::entries(globals, 0)?,
            mocks: convert::all_to_data(&mocks)?,
            env,
            capture,
            project,
        };
        let failed = |error| PyOSError::new_err(format!("cannot start a thread for the program: {error}"));
        machine::Machine::start(options).map(Machine).map_err(failed)
    }

    /// Is done when the program is compiled.
    fn ready(&self) -> Pending {
        Pending(self.0.ready())
    }

    /// Runs the top level.
    fn begin(&self) -> Pending {
        Pending(self.0.begin())
    }

    /// Runs a pipeline: the result is a list of its value, or `None` when the program has no pipeline.
    #[pyo3(signature = (entry, parameters))]
    fn pipeline(&self, entry: Option<String>, parameters: &Bound<'_, PyDict>) -> PyResult<Pending> {
        Ok(Pending(self.0.pipeline(entry, convert::entries(parameters, 0)?)))
    }

    /// Calls an exported function.
    fn call(&self, name: String, args: Vec<Bound<'_, PyAny>>) -> PyResult<Pending> {
        Ok(Pending(self.0.call(name, convert::all_to_data(&args)?)))
    }

    /// Calls a builtin.
    fn builtin(&self, name: String, args: Vec<Bound<'_, PyAny>>) -> PyResult<Pending> {
        Ok(Pending(self.0.builtin(name, convert::all_to_data(&args)?)))
    }

    /// Lists the exported names.
    fn exports(&self) -> Pending {
        Pending(self.0.exports())
    }

    /// Returns the captured output so far: standard output and standard error.
    fn output(&self) -> (String, String) {
        self.0.output()
    }

    /// Ends the program and its thread: tasks stop, cleanup runs.
    fn close(&self) -> Pending {
        Pending(self.0.close())
    }
}

/// The fields of a record that crosses to a program.
#[pyclass(frozen, module = "harn._harn")]
pub(super) struct RecordData {
    pub(super) name: String,
    pub(super) fields: Py<PyDict>,
    pub(super) origin: Option<Py<Handle>>,
}

#[pymethods]
impl RecordData {
    #[new]
    #[pyo3(signature = (name, fields, origin=None))]
    fn new(name: String, fields: Py<PyDict>, origin: Option<Py<Handle>>) -> RecordData {
        RecordData { name, fields, origin }
    }
}

/// A value of an enum that crosses to a program.
#[pyclass(frozen, module = "harn._harn")]
pub(super) struct VariantData {
    pub(super) name: String,
    pub(super) variant: String,
    pub(super) fields: Py<PyList>,
    pub(super) origin: Py<Handle>,
}

#[pymethods]
impl VariantData {
    #[new]
    fn new(name: String, variant: String, fields: Py<PyList>, origin: Py<Handle>) -> VariantData {
        VariantData { name, variant, fields, origin }
    }
}

/// An object that the Python half has adapted for a program. `kind` is one of `pull`, `callable`, `opaque`, `pair` and
/// `duration`.
#[pyclass(frozen, module = "harn._harn")]
pub(super) struct Adapted {
    pub(super) kind: String,
    pub(super) object: Py<PyAny>,
}

#[pymethods]
impl Adapted {
    #[new]
    fn new(kind: String, object: Py<PyAny>) -> Adapted {
        Adapted { kind, object }
    }
}
