//! The border to Python: its objects as data and back, and its exceptions.

use std::sync::Arc;

use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{
    PyBool, PyByteArray, PyBytes, PyDict, PyFloat, PyFrozenSet, PyInt, PyList, PyRange, PySet, PyString,
    PyTuple,
};

use crate::data::{Data, MAX_DEPTH};
use crate::machine::Handle;
use crate::pending::Failure;

static FACTORIES: PyOnceLock<Py<PyDict>> = PyOnceLock::new();

/// Takes what the Python half of the package brings.
#[pyfunction]
pub(crate) fn set_factories(py: Python<'_>, factories: Py<PyDict>) {
    let _ = FACTORIES.set(py, factories);
}

pub(crate) fn internal() -> PyErr {
    PyRuntimeError::new_err("harn: internal error; please report it")
}

/// A function of the Python half.
pub(crate) fn factory<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    let factories = FACTORIES.get(py).ok_or_else(internal)?;
    factories.bind(py).get_item(name)?.ok_or_else(internal)
}

/// The fields of a record on their way to a program.
#[pyclass(frozen, module = "harn._harn")]
pub(crate) struct RecordData {
    name: String,
    fields: Py<PyDict>,
    origin: Option<Py<Handle>>,
}

#[pymethods]
impl RecordData {
    #[new]
    #[pyo3(signature = (name, fields, origin=None))]
    fn new(name: String, fields: Py<PyDict>, origin: Option<Py<Handle>>) -> RecordData {
        RecordData { name, fields, origin }
    }
}

/// The value of an enum on its way to a program.
#[pyclass(frozen, module = "harn._harn")]
pub(crate) struct VariantData {
    name: String,
    variant: String,
    fields: Py<PyList>,
    origin: Py<Handle>,
}

#[pymethods]
impl VariantData {
    #[new]
    fn new(name: String, variant: String, fields: Py<PyList>, origin: Py<Handle>) -> VariantData {
        VariantData { name, variant, fields, origin }
    }
}

/// An object that stands for something which Python has no type for.
#[pyclass(frozen, module = "harn._harn")]
pub(crate) struct Wrapped {
    /// `pull`, `callable`, `opaque`, `pair`, `duration`.
    kind: String,
    object: Py<PyAny>,
}

#[pymethods]
impl Wrapped {
    #[new]
    fn new(kind: String, object: Py<PyAny>) -> Wrapped {
        Wrapped { kind, object }
    }
}

fn wrong(py: Python<'_>, kind: &'static str, message: String) -> PyErr {
    to_error(py, Failure::plain(kind, message))
}

/// Arguments of a call.
///
/// # Errors
/// What cannot be taken along.
pub(crate) fn all_to_data(objects: &[Bound<'_, PyAny>]) -> PyResult<Vec<Data>> {
    objects.iter().map(|object| to_data(object, 0)).collect()
}

fn entries(dict: &Bound<'_, PyDict>, depth: usize) -> PyResult<Vec<(String, Data)>> {
    let mut out = Vec::with_capacity(dict.len());
    for (key, value) in dict.iter() {
        let Ok(name) = key.cast::<PyString>() else {
            let type_name = key.get_type().name()?;
            let message = format!("keys of dicts must be str, got {type_name}: {}", key.repr()?);
            return Err(wrong(dict.py(), "convert_type", message));
        };
        out.push((text(name)?, to_data(&value, depth + 1)?));
    }
    Ok(out)
}

fn text(string: &Bound<'_, PyString>) -> PyResult<String> {
    string.extract::<String>().map_err(|_| {
        let message = "a str with lone surrogates has no form in UTF-8".to_owned();
        wrong(string.py(), "convert", message)
    })
}

/// Takes an object along.
///
/// # Errors
/// An exception that says what cannot be taken along.
pub(crate) fn to_data(object: &Bound<'_, PyAny>, depth: usize) -> PyResult<Data> {
    let py = object.py();
    if depth > MAX_DEPTH {
        let message = format!("data is nested too deeply (or holds itself): more than {MAX_DEPTH} levels");
        return Err(wrong(py, "convert", message));
    }
    let list = |items: &mut dyn Iterator<Item = Bound<'_, PyAny>>| -> PyResult<Vec<Data>> {
        items.map(|item| to_data(&item, depth + 1)).collect()
    };
    if object.is_none() {
        return Ok(Data::Nil);
    }
    if let Ok(b) = object.cast_exact::<PyBool>() {
        return Ok(Data::Bool(b.is_true()));
    }
    if let Ok(int) = object.cast_exact::<PyInt>() {
        let small = int.extract::<i64>();
        return small.map(Data::Int).map_err(|_| {
            let message =
                "an int of Harn has 64 bits: this one is too large; pass it as str or float".to_owned();
            wrong(py, "convert", message)
        });
    }
    if let Ok(float) = object.cast_exact::<PyFloat>() {
        return Ok(Data::Float(float.value()));
    }
    if let Ok(string) = object.cast_exact::<PyString>() {
        return text(string).map(Data::Str);
    }
    if let Ok(items) = object.cast_exact::<PyList>() {
        return list(&mut items.iter()).map(Data::List);
    }
    if let Ok(dict) = object.cast_exact::<PyDict>() {
        return entries(dict, depth).map(Data::Dict);
    }
    if let Ok(items) = object.cast_exact::<PyTuple>() {
        return list(&mut items.iter()).map(Data::List);
    }
    if let Ok(bytes) = object.cast::<PyBytes>() {
        return Ok(Data::Bytes(bytes.as_bytes().to_vec()));
    }
    if let Ok(bytes) = object.cast::<PyByteArray>() {
        return Ok(Data::Bytes(bytes.to_vec()));
    }
    if let Ok(items) = object.cast_exact::<PySet>() {
        return list(&mut items.iter()).map(Data::Set);
    }
    if let Ok(items) = object.cast_exact::<PyFrozenSet>() {
        return list(&mut items.iter()).map(Data::Set);
    }
    if let Ok(range) = object.cast::<PyRange>() {
        let part = |name: &str| range.getattr(name).and_then(|n| n.extract::<i64>());
        if part("step")? == 1 {
            let start = part("start")?;
            return Ok(Data::Range(start, part("stop")?.max(start)));
        }
        return list(&mut range.try_iter()?.collect::<PyResult<Vec<_>>>()?.into_iter()).map(Data::List);
    }
    if let Ok(handle) = object.cast::<Handle>() {
        return Ok(Data::Other(handle.get().remote.clone()));
    }
    if let Ok(record) = object.cast::<RecordData>() {
        let record = record.get();
        return Ok(Data::Record {
            name: record.name.clone(),
            fields: entries(record.fields.bind(py), depth)?,
            origin: record.origin.as_ref().map(|handle| handle.get().remote.clone()),
        });
    }
    if let Ok(variant) = object.cast::<VariantData>() {
        let variant = variant.get();
        return Ok(Data::Variant {
            name: variant.name.clone(),
            variant: variant.variant.clone(),
            fields: list(&mut variant.fields.bind(py).iter())?,
            origin: variant.origin.get().remote.clone(),
        });
    }
    if let Ok(wrapped) = object.cast::<Wrapped>() {
        let Wrapped { kind, object } = wrapped.get();
        let own = Arc::new(object.clone_ref(py));
        return match kind.as_str() {
            "pull" => Ok(Data::Pull(own)),
            "callable" => Ok(Data::Callable(own)),
            "opaque" => Ok(Data::Opaque(own)),
            "duration" => object.extract::<i64>(py).map(Data::Duration),
            "pair" => {
                let (first, second) = object.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>(py)?;
                Ok(Data::Pair(Box::new([to_data(&first, depth + 1)?, to_data(&second, depth + 1)?])))
            }
            _ => Err(internal()),
        };
    }
    // Everything else is made into one of the above, or refused, in Python.
    to_data(&factory(py, "adapt")?.call1((object,))?, depth + 1)
}

/// Makes an object of data.
///
/// # Errors
/// What Python refuses.
pub(crate) fn to_python(py: Python<'_>, data: Data) -> PyResult<Py<PyAny>> {
    let all =
        |items: Vec<Data>| items.into_iter().map(|item| to_python(py, item)).collect::<PyResult<Vec<_>>>();
    let dict = |entries: Vec<(String, Data)>| -> PyResult<Bound<'_, PyDict>> {
        let dict = PyDict::new(py);
        for (key, value) in entries {
            dict.set_item(key, to_python(py, value)?)?;
        }
        Ok(dict)
    };
    let handle = |remote| Py::new(py, Handle { remote });
    match data {
        Data::Nil => Ok(py.None()),
        Data::Bool(b) => b.into_py_any(py),
        Data::Int(i) => i.into_py_any(py),
        Data::Float(f) => f.into_py_any(py),
        Data::Str(text) => text.into_py_any(py),
        Data::Bytes(bytes) => PyBytes::new(py, &bytes).into_py_any(py),
        Data::Duration(ms) => factory(py, "duration")?.call1((ms,))?.into_py_any(py),
        Data::List(items) => PyList::new(py, all(items)?)?.into_py_any(py),
        Data::Dict(entries) => dict(entries)?.into_py_any(py),
        Data::Set(items) => factory(py, "set")?.call1((PyList::new(py, all(items)?)?,))?.into_py_any(py),
        Data::Pair(parts) => {
            let [first, second] = *parts;
            let pair = (to_python(py, first)?, to_python(py, second)?);
            factory(py, "pair")?.call1(pair)?.into_py_any(py)
        }
        Data::Range(start, end) => factory(py, "range")?.call1((start, end))?.into_py_any(py),
        Data::Record { name, fields, origin } => {
            let origin = origin.map(handle).transpose()?;
            factory(py, "record")?.call1((name, dict(fields)?, origin))?.into_py_any(py)
        }
        Data::Variant { name, variant, fields, origin } => {
            let fields = PyList::new(py, all(fields)?)?;
            factory(py, "variant")?.call1((name, variant, fields, handle(origin)?))?.into_py_any(py)
        }
        Data::Function(remote) => factory(py, "function")?.call1((handle(remote)?,))?.into_py_any(py),
        Data::Stream(remote) => factory(py, "stream")?.call1((handle(remote)?,))?.into_py_any(py),
        Data::Other(remote) => factory(py, "other")?.call1((handle(remote)?,))?.into_py_any(py),
        Data::Callable(object) | Data::Opaque(object) | Data::Pull(object) => Ok(object.clone_ref(py)),
    }
}

/// The exception of a failure.
pub(crate) fn to_error(py: Python<'_>, failure: Failure) -> PyErr {
    let made = || -> PyResult<Bound<'_, PyAny>> {
        let trace: Vec<(String, String, usize, usize)> =
            failure.trace.into_iter().map(|p| (p.function, p.file, p.line, p.column)).collect();
        let value = to_python(py, failure.value)?;
        let parts =
            (failure.kind, failure.category, failure.message, value, trace, failure.notes, failure.code);
        factory(py, "error")?.call1(parts)
    };
    match made() {
        Ok(exception) => PyErr::from_value(exception),
        Err(error) => error,
    }
}
