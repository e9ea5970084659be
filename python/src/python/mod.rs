//! The binding to Python: the module `_harn`, its classes, and the conversion of objects.

mod classes;
mod convert;
mod gate;

use std::path::PathBuf;
use std::time::Duration;

use pyo3::exceptions::{PyOSError, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;

use crate::machine;

static FACTORIES: PyOnceLock<Py<PyDict>> = PyOnceLock::new();

/// Registers the functions of the Python half of the package.
#[pyfunction]
fn set_factories(py: Python<'_>, factories: Py<PyDict>) {
    let _ = FACTORIES.set(py, factories);
}

fn internal_error() -> PyErr {
    PyRuntimeError::new_err("harn: internal error; please report it")
}

/// Returns a function of the Python half.
fn factory<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    let factories = FACTORIES.get(py).ok_or_else(internal_error)?;
    factories.bind(py).get_item(name)?.ok_or_else(internal_error)
}

/// Reads the source of a program: its name, text and directory.
#[pyfunction]
fn read_source(path: PathBuf) -> PyResult<(String, String, PathBuf)> {
    let source = machine::read_source(&path).map_err(PyOSError::new_err)?;
    Ok((source.name, source.text, source.dir))
}

/// Returns the working directory.
#[pyfunction]
fn work_dir() -> PathBuf {
    machine::work_dir()
}

/// Returns the number of machines whose threads have not ended.
#[pyfunction]
fn running_machines() -> usize {
    machine::running_machines()
}

/// Closes all machines, waits at most `seconds` for the end of their threads, and keeps those that remain from entering the
/// interpreter, which is about to end. Returns whether all have ended.
#[pyfunction]
fn shutdown(py: Python<'_>, seconds: f64) -> bool {
    py.detach(|| {
        let ended = machine::close_all(Duration::try_from_secs_f64(seconds).unwrap_or_default());
        gate::close();
        ended
    })
}

/// Forgets the machines of the parent process after a fork.
#[pyfunction]
fn after_fork() {
    machine::forget_all();
    gate::reset();
}

#[pymodule]
fn _harn(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<classes::Machine>()?;
    module.add_class::<classes::Handle>()?;
    module.add_class::<classes::Pending>()?;
    module.add_class::<classes::Reply>()?;
    module.add_class::<classes::RecordData>()?;
    module.add_class::<classes::VariantData>()?;
    module.add_class::<classes::Adapted>()?;
    module.add_function(wrap_pyfunction!(set_factories, module)?)?;
    module.add_function(wrap_pyfunction!(read_source, module)?)?;
    module.add_function(wrap_pyfunction!(work_dir, module)?)?;
    module.add_function(wrap_pyfunction!(running_machines, module)?)?;
    module.add_function(wrap_pyfunction!(shutdown, module)?)?;
    module.add_function(wrap_pyfunction!(after_fork, module)?)
}
