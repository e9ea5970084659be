//! Functions of Python as functions of a program. Nothing of Python runs on the program's thread but the handing over: its
//! own threads call, so that a function that waits holds up nobody, and may call the program back.

use std::rc::{Rc, Weak};
use std::sync::{Arc, Mutex, PoisonError};

use harn_value::{Dict, Value};
use harn_vm::channel::StreamValue;
use harn_vm::iter::{NextFuture, Source};
use harn_vm::{Cx, Error, NativeFunction};
use pyo3::prelude::*;
use pyo3::types::PyList;
use tokio::sync::oneshot;

use crate::data::{Data, Object, PythonObject, to_data, to_value};
use crate::machine::Side;
use crate::python;

/// An exception of Python.
pub(crate) struct Thrown {
    /// The name of its class.
    type_name: String,
    message: String,
    exception: Object,
    /// What is thrown in its place: an error of a program that passed through Python.
    value: Option<Data>,
}

type Answer = Result<Data, Thrown>;

/// Where Python leaves the result of a call.
#[pyclass(frozen, module = "harn._harn")]
pub(crate) struct Reply {
    sender: Mutex<Option<oneshot::Sender<Answer>>>,
    stop: Arc<Mutex<Stop>>,
}

/// Whether a call is still wanted, and who is told when it is not.
#[derive(Default)]
struct Stop {
    stopped: bool,
    listener: Option<Py<PyAny>>,
}

impl Reply {
    fn give(&self, answer: Answer) {
        let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(sender) = sender {
            // Whoever asked may have gone.
            let _ = sender.send(answer);
        }
    }
}

#[pymethods]
impl Reply {
    /// The call gave a value.
    fn resolve(&self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let data = python::to_data(value, 0)?;
        self.give(Ok(data));
        Ok(())
    }

    /// The call raised an exception.
    #[pyo3(signature = (exception, type_name, message, value=None))]
    fn reject(
        &self,
        exception: Py<PyAny>,
        type_name: String,
        message: String,
        value: Option<&Bound<'_, PyAny>>,
    ) {
        let value = value.and_then(|value| python::to_data(value, 0).ok());
        self.give(Err(Thrown { type_name, message, exception: Arc::new(exception), value }));
    }

    /// Calls `listener` when nobody waits for the result any more.
    fn on_cancel(&self, py: Python<'_>, listener: Py<PyAny>) -> PyResult<()> {
        let mut stop = self.stop.lock().unwrap_or_else(PoisonError::into_inner);
        if stop.stopped {
            drop(stop);
            listener.call0(py)?;
        } else {
            stop.listener = Some(listener);
        }
        Ok(())
    }
}

/// Tells Python when the call is given up.
struct Watch(Option<Arc<Mutex<Stop>>>);

impl Drop for Watch {
    fn drop(&mut self) {
        let Some(stop) = self.0.take() else { return };
        let mut stop = stop.lock().unwrap_or_else(PoisonError::into_inner);
        stop.stopped = true;
        let listener = stop.listener.take();
        drop(stop);
        if let Some(listener) = listener {
            Python::try_attach(|py| drop(listener.call0(py)));
        }
    }
}

fn to_thrown(side: &Rc<Side>, thrown: &Thrown) -> Error {
    if let Some(Ok(value)) = thrown.value.as_ref().map(|value| to_value(side, value)) {
        return Error::thrown(value);
    }
    let mut dict = Dict::new();
    dict.insert("category", "python");
    dict.insert(
        "message",
        if thrown.message.is_empty() {
            thrown.type_name.clone()
        } else {
            format!("{}: {}", thrown.type_name, thrown.message)
        },
    );
    dict.insert("type", thrown.type_name.as_str());
    dict.insert("exception", Value::foreign(PythonObject(thrown.exception.clone())));
    Error::thrown(Value::dict(dict))
}

/// Calls an object of Python and waits for the result.
async fn call(side: Weak<Side>, object: Object, args: Vec<Value>) -> harn_vm::Result<Value> {
    let Some(own) = side.upgrade() else { return Err(Error::runtime("the program has ended")) };
    let args: Result<Vec<Data>, String> = args.iter().map(|arg| to_data(&own, arg, 0)).collect();
    let args = args.map_err(Error::runtime)?;
    drop(own);
    let (sender, receiver) = oneshot::channel();
    let stop = Arc::<Mutex<Stop>>::default();
    let mut watch = Watch(Some(stop.clone()));
    let handed = Python::try_attach(|py| -> PyResult<()> {
        let reply = Py::new(py, Reply { sender: Mutex::new(Some(sender)), stop })?;
        let args: Vec<Py<PyAny>> =
            args.into_iter().map(|arg| python::to_python(py, arg)).collect::<PyResult<_>>()?;
        python::factory(py, "dispatch")?.call1((object.bind(py), PyList::new(py, args)?, reply))?;
        Ok(())
    });
    match handed {
        None => return Err(Error::runtime("Python has ended")),
        Some(Err(error)) => return Err(Error::runtime(format!("Python: {error}"))),
        Some(Ok(())) => {}
    }
    let answer = receiver.await;
    watch.0 = None;
    let Some(side) = side.upgrade() else { return Err(Error::runtime("the program has ended")) };
    match answer {
        Ok(Ok(data)) => to_value(&side, &data).map_err(Error::runtime),
        Ok(Err(thrown)) => Err(to_thrown(&side, &thrown)),
        Err(_) => Err(Error::runtime("the Python function gave no answer")),
    }
}

/// A function of Python as a value of the program.
pub(crate) fn function(side: &Rc<Side>, object: &Object) -> Value {
    let (side, own) = (Rc::downgrade(side), object.clone());
    let run = move |_: Cx, args| call(side.clone(), own.clone(), args);
    NativeFunction::of_host("python", run, Rc::new(PythonObject(object.clone())))
}

/// Items that a function of Python gives.
struct Pulled {
    side: Weak<Side>,
    next: Object,
}

impl Source for Pulled {
    fn next<'a>(&'a mut self, _cx: &'a Cx) -> NextFuture<'a> {
        let (side, next) = (self.side.clone(), self.next.clone());
        Box::pin(async move {
            let item = call(side, next, Vec::new()).await?;
            Ok(item.as_list().and_then(|list| list.first().cloned()))
        })
    }
}

/// A stream whose items a function of Python gives.
pub(crate) fn stream(side: &Rc<Side>, next: &Object) -> Value {
    StreamValue::value(Pulled { side: Rc::downgrade(side), next: next.clone() })
}
