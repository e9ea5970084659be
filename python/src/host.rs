//! Objects of the host language: functions that a program calls, streams that it reads, values that it passes on.

use std::any::Any;
use std::rc::{Rc, Weak};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use harn_value::{Dict, Foreign, Value};
use harn_vm::channel::StreamValue;
use harn_vm::iter::{NextFuture, Source};
use harn_vm::{Cx, Error, NativeFunction};
use tokio::sync::oneshot;

use crate::data::{Data, to_data, to_value};
use crate::machine::MachineState;
use crate::pending::Listener;

/// An object of the host language.
pub trait HostObject: Any + Send + Sync {
    /// A number that is equal for two references to one object.
    fn identity(&self) -> usize;

    /// Starts a call. The host stores the result in `reply`, immediately or later, on any thread.
    ///
    /// # Errors
    /// The reason why the host cannot start the call.
    fn call(&self, args: Vec<Data>, reply: Reply) -> Result<(), String>;
}

/// A shared reference to an object of the host language.
pub type Object = Arc<dyn HostObject>;

/// An exception of the host language.
pub struct HostException {
    /// The name of its class.
    pub type_name: String,
    /// Its message.
    pub message: String,
    /// The exception itself.
    pub exception: Object,
    /// The value that is thrown instead: an error of a program that passed through the host.
    pub value: Option<Data>,
}

/// The result of a call of a host function.
pub type Answer = Result<Data, HostException>;

/// Whether the program still waits for a call, and the listener for its cancellation.
#[derive(Default)]
struct Cancellation {
    cancelled: bool,
    listener: Option<Listener>,
}

type SharedCancellation = Arc<Mutex<Cancellation>>;

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The place where the host stores the result of one call. Dropping it without a result makes the call fail.
pub struct Reply {
    sender: Mutex<Option<oneshot::Sender<Answer>>>,
    cancellation: SharedCancellation,
}

impl Reply {
    /// Stores the result. Only the first one is stored.
    pub fn send(&self, answer: Answer) {
        let sender = locked(&self.sender).take();
        if let Some(sender) = sender {
            // The program may have cancelled the call.
            let _ = sender.send(answer);
        }
    }

    /// Calls `listener` when the program cancels the call, or immediately if it already has.
    pub fn on_cancel(&self, listener: Listener) {
        let mut cancellation = locked(&self.cancellation);
        if cancellation.cancelled {
            drop(cancellation);
            listener();
        } else {
            cancellation.listener = Some(listener);
        }
    }
}

/// Reports cancellation to the host when the call is dropped before its result.
struct CancelOnDrop(Option<SharedCancellation>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        let Some(cancellation) = self.0.take() else { return };
        let listener = {
            let mut cancellation = locked(&cancellation);
            cancellation.cancelled = true;
            cancellation.listener.take()
        };
        if let Some(listener) = listener {
            listener();
        }
    }
}

/// An object of the host language as a value of a program.
pub struct HostValue(pub Object);

impl Foreign for HostValue {
    fn type_name(&self) -> &'static str {
        "python_object"
    }

    fn print(&self, out: &mut String) {
        out.push_str("<python object>");
    }

    fn equals(&self, other: &dyn Foreign) -> bool {
        let other: &dyn Any = other;
        other.downcast_ref::<HostValue>().is_some_and(|other| self.identity() == other.identity())
    }

    fn identity(&self) -> usize {
        self.0.identity()
    }
}

fn to_error(state: &Rc<MachineState>, exception: &HostException) -> Error {
    if let Some(Ok(value)) = exception.value.as_ref().map(|value| to_value(state, value)) {
        return Error::thrown(value);
    }
    let HostException { type_name, message, exception, .. } = exception;
    let message = if message.is_empty() { type_name.clone() } else { format!("{type_name}: {message}") };
    let mut dict = Dict::new();
    dict.insert("category", "python");
    dict.insert("message", message);
    dict.insert("type", type_name.as_str());
    dict.insert("exception", Value::foreign(HostValue(exception.clone())));
    Error::thrown(Value::dict(dict))
}

/// Calls an object of the host and waits for the result.
async fn call(state: Weak<MachineState>, object: Object, args: Vec<Value>) -> harn_vm::Result<Value> {
    let ended = || Error::runtime("the program has ended");
    let args: Result<Vec<Data>, String> = {
        let state = state.upgrade().ok_or_else(ended)?;
        args.iter().map(|arg| to_data(&state, arg, 0)).collect()
    };
    let (sender, receiver) = oneshot::channel();
    let cancellation = SharedCancellation::default();
    let mut guard = CancelOnDrop(Some(cancellation.clone()));
    let reply = Reply { sender: Mutex::new(Some(sender)), cancellation };
    object.call(args.map_err(Error::runtime)?, reply).map_err(Error::runtime)?;
    let answer = receiver.await;
    guard.0 = None;
    let state = state.upgrade().ok_or_else(ended)?;
    match answer {
        Ok(Ok(data)) => to_value(&state, &data).map_err(Error::runtime),
        Ok(Err(exception)) => Err(to_error(&state, &exception)),
        Err(_) => Err(Error::runtime("the Python function returned no result")),
    }
}

/// Returns a closure of the program that calls a function of the host.
pub(crate) fn function(state: &Rc<MachineState>, object: &Object) -> Value {
    let (state, callee) = (Rc::downgrade(state), object.clone());
    let run = move |_: Cx, args| call(state.clone(), callee.clone(), args);
    NativeFunction::of_host("python", run, Rc::new(HostValue(object.clone())))
}

/// The items that a function of the host returns: each call returns a list with one item.
struct HostItems {
    state: Weak<MachineState>,
    next: Object,
}

impl Source for HostItems {
    fn next<'a>(&'a mut self, _cx: &'a Cx) -> NextFuture<'a> {
        let (state, next) = (self.state.clone(), self.next.clone());
        Box::pin(async move {
            let item = call(state, next, Vec::new()).await?;
            Ok(item.as_list().and_then(|list| list.first().cloned()))
        })
    }
}

/// Returns a stream of the items that a function of the host returns.
pub(crate) fn stream(state: &Rc<MachineState>, next: &Object) -> Value {
    StreamValue::value(HostItems { state: Rc::downgrade(state), next: next.clone() })
}
