//! Conversion between objects of Python and [`Data`], and the exceptions of failures.

use std::any::Any;
use std::sync::Arc;

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyByteArray, PyBytes, PyDict, PyFloat, PyFrozenSet, PyInt, PyList, PyRange, PySet, PyString,
    PyTuple,
};

use super::classes::{Adapted, Handle, RecordData, VariantData};
use super::{factory, internal_error};
use crate::data::{Data, MAX_DEPTH, with_stack};
use crate::host::Object;
use crate::pending::Failure;

/// An object of Python that a program refers to.
pub(super) struct PythonObject(pub(super) Py<PyAny>);

fn error(py: Python<'_>, kind: &'static str, message: impl Into<String>) -> PyErr {
    to_error(py, Failure::plain(kind, message))
}

/// Converts the arguments of a call.
///
/// # Errors
/// See [`to_data`].
pub(super) fn all_to_data(objects: &[Bound<'_, PyAny>]) -> PyResult<Vec<Data>> {
    objects.iter().map(|object| to_data(object, 0)).collect()
}

/// Converts the entries of a dict.
///
/// # Errors
/// A key is not a `str`; see [`to_data`] for the values.
pub(super) fn entries(dict: &Bound<'_, PyDict>, depth: usize) -> PyResult<Vec<(String, Data)>> {
    let mut out = Vec::with_capacity(dict.len());
    for (key, value) in dict.iter() {
        let Ok(name) = key.cast::<PyString>() else {
            let message =
                format!("keys of dicts must be str, got {}: {}", key.get_type().name()?, key.repr()?);
            return Err(error(dict.py(), "unsupported_type", message));
        };
        out.push((text(name)?, to_data(&value, depth + 1)?));
    }
    Ok(out)
}

fn text(string: &Bound<'_, PyString>) -> PyResult<String> {
    let message = "a str with lone surrogates cannot be encoded in UTF-8";
    string.extract::<String>().map_err(|_| error(string.py(), "conversion", message))
}

/// Converts an object. The Python half adapts objects of classes that this function does not know.
///
/// # Errors
/// Harn has no type for the object or a part of it, or it is nested too deeply.
pub(super) fn to_data(object: &Bound<'_, PyAny>, depth: usize) -> PyResult<Data> {
    let py = object.py();
    if depth > MAX_DEPTH {
        let message = format!("data is nested too deeply (or contains itself): more than {MAX_DEPTH} levels");
        return Err(error(py, "conversion", message));
    }
    with_stack(|| level_to_data(object, depth))
}

fn level_to_data(object: &Bound<'_, PyAny>, depth: usize) -> PyResult<Data> {
    let py = object.py();
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
        let message = "an int of Harn has 64 bits: this one is too large; pass it as str or float";
        return int.extract::<i64>().map(Data::Int).map_err(|_| error(py, "conversion", message));
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
        return Ok(Data::Remote(handle.get().0.clone()));
    }
    if let Ok(record) = object.cast::<RecordData>() {
        let record = record.get();
        return Ok(Data::Record {
            name: record.name.clone(),
            fields: entries(record.fields.bind(py), depth)?,
            origin: record.origin.as_ref().map(|handle| handle.get().0.clone()),
        });
    }
    if let Ok(variant) = object.cast::<VariantData>() {
        let variant = variant.get();
        return Ok(Data::Variant {
            name: variant.name.clone(),
            variant: variant.variant.clone(),
            fields: list(&mut variant.fields.bind(py).iter())?,
            origin: variant.origin.get().0.clone(),
        });
    }
    if let Ok(adapted) = object.cast::<Adapted>() {
        let Adapted { kind, object } = adapted.get();
        let shared = || -> Object { Arc::new(PythonObject(object.clone_ref(py))) };
        return match kind.as_str() {
            "pull" => Ok(Data::Pull(shared())),
            "callable" => Ok(Data::Callable(shared())),
            "opaque" => Ok(Data::Opaque(shared())),
            "duration" => object.extract::<i64>(py).map(Data::Duration),
            "pair" => {
                let (first, second) = object.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>(py)?;
                Ok(Data::Pair(Box::new([to_data(&first, depth + 1)?, to_data(&second, depth + 1)?])))
            }
            _ => Err(internal_error()),
        };
    }
    to_data(&factory(py, "adapt")?.call1((object,))?, depth + 1)
}

/// Converts data to a Python object.
///
/// # Errors
/// Python raises an exception, as for a set of lists.
pub(super) fn to_python(py: Python<'_>, data: Data) -> PyResult<Py<PyAny>> {
    with_stack(|| level_to_python(py, data))
}

fn level_to_python(py: Python<'_>, data: Data) -> PyResult<Py<PyAny>> {
    let all =
        |items: Vec<Data>| items.into_iter().map(|item| to_python(py, item)).collect::<PyResult<Vec<_>>>();
    let dict = |entries: Vec<(String, Data)>| -> PyResult<Bound<'_, PyDict>> {
        let dict = PyDict::new(py);
        for (key, value) in entries {
            dict.set_item(key, to_python(py, value)?)?;
        }
        Ok(dict)
    };
    let handle = |remote| Py::new(py, Handle(remote));
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
        Data::Remote(remote) => factory(py, "remote")?.call1((handle(remote)?,))?.into_py_any(py),
        Data::Callable(object) | Data::Opaque(object) | Data::Pull(object) => {
            let object: &dyn Any = &*object;
            let object = object.downcast_ref::<PythonObject>().ok_or_else(internal_error)?;
            Ok(object.0.clone_ref(py))
        }
    }
}

/// Creates the exception for a failure.
pub(super) fn to_error(py: Python<'_>, failure: Box<Failure>) -> PyErr {
    let make = || -> PyResult<Bound<'_, PyAny>> {
        let trace: Vec<(String, String, usize, usize)> =
            failure.trace.into_iter().map(|f| (f.function, f.file, f.line, f.column)).collect();
        let value = to_python(py, failure.value)?;
        let parts =
            (failure.kind, failure.category, failure.message, value, trace, failure.notes, failure.code);
        factory(py, "error")?.call1(parts)
    };
    match make() {
        Ok(exception) => PyErr::from_value(exception),
        Err(error) => error,
    }
}
