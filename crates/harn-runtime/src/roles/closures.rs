//! The closures that the program passes to a runtime. They are passed as a value, so that each task receives copies of
//! captured variables, as everywhere in the language.

use harn_value::Value;
use harn_vm::closure::{Closure, is_callable};
use harn_vm::{Cx, Result};

use crate::convert::{entry, partial};

/// A task and the closures that it can use.
#[derive(Clone)]
pub(crate) struct At {
    /// The task.
    pub(crate) cx: Cx,
    /// The closures: a dict of dicts.
    pub(crate) closures: Value,
}

impl At {
    /// Returns a closure of a group by name; nil if it does not exist.
    pub(crate) fn closure(&self, group: &str, name: &str) -> Value {
        entry(&entry(&self.closures, group), name)
    }

    /// Calls a closure with as many of the arguments as it accepts.
    ///
    /// # Errors
    /// The error that it throws.
    pub(crate) async fn call(&self, closure: &Value, mut args: Vec<Value>) -> Result<Value> {
        if let Some(closure) = Closure::of(closure)
            && !closure.proto.rest
        {
            args.truncate(closure.proto.param_names.len());
        }
        self.cx.call(closure, args).await
    }

    /// Returns a hidden builtin with its first arguments bound, as a function.
    ///
    /// # Errors
    /// The builtin does not exist.
    pub(crate) fn partial(&self, name: &str, args: Vec<Value>) -> Result<Value> {
        partial(&self.cx, name, args)
    }
}

/// Returns the names of the closures in a dict.
pub(crate) fn callable_names(dict: &Value) -> Vec<String> {
    let dict = dict.to_dict();
    let each = dict.iter().flat_map(|dict| dict.iter());
    each.filter(|(_, value)| is_callable(value)).map(|(key, _)| key.to_string()).collect()
}
