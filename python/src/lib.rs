//! The Rust half of the Python package `harn`: programs on threads of their own, and values on their way between them and
//! Python. The other half, `python/harn`, has the functions that people call.

mod calls;
mod data;
mod machine;
mod pending;
mod python;

use std::path::PathBuf;

use pyo3::prelude::*;

/// Reads the text of a program: its name, text and folder.
#[pyfunction]
fn read_source(path: PathBuf) -> PyResult<(String, String, PathBuf)> {
    machine::read(&path).map_err(pyo3::exceptions::PyOSError::new_err)
}

/// The working directory.
#[pyfunction]
fn work_dir() -> PathBuf {
    machine::here()
}

#[pymodule]
fn _harn(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<machine::Machine>()?;
    module.add_class::<machine::Handle>()?;
    module.add_class::<pending::Pending>()?;
    module.add_class::<calls::Reply>()?;
    module.add_class::<python::RecordData>()?;
    module.add_class::<python::VariantData>()?;
    module.add_class::<python::Wrapped>()?;
    module.add_function(wrap_pyfunction!(python::set_factories, module)?)?;
    module.add_function(wrap_pyfunction!(read_source, module)?)?;
    module.add_function(wrap_pyfunction!(work_dir, module)?)
}
