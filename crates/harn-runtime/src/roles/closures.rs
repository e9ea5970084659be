//! What the program brings to a runtime. It travels as a value, so that each task gets copies of what closures capture, as
//! everywhere in the language.

use harn_value::Value;
use harn_vm::closure::{Closure, is_callable};
use harn_vm::{Cx, Result};

use crate::convert::{entry, partial};

/// A task and the closures that it sees.
#[derive(Clone)]
pub(crate) struct At {
    /// The task.
    pub(crate) cx: Cx,
    /// The closures: a dict of dicts.
    pub(crate) closures: Value,
}

impl At {
    /// The closure of a name in a group; nil when there is none.
    pub(crate) fn closure(&self, group: &str, name: &str) -> Value {
        entry(&entry(&self.closures, group), name)
    }

    /// Calls a closure with as many of the arguments as it takes.
    ///
    /// # Errors
    /// What it throws.
    pub(crate) async fn call(&self, closure: &Value, mut args: Vec<Value>) -> Result<Value> {
        if let Some(closure) = Closure::of(closure)
            && !closure.proto.rest
        {
            args.truncate(closure.proto.param_names.len());
        }
        self.cx.call(closure, args).await
    }

    /// A hidden builtin with its first arguments, as a function.
    ///
    /// # Errors
    /// No builtin has that name.
    pub(crate) fn partial(&self, name: &str, args: Vec<Value>) -> Result<Value> {
        partial(&self.cx, name, args)
    }
}

/// The names of the closures in a dict.
pub(crate) fn callable_names(dict: &Value) -> Vec<String> {
    let dict = dict.to_dict();
    let each = dict.iter().flat_map(|dict| dict.iter());
    each.filter(|(_, value)| is_callable(value)).map(|(key, _)| key.to_string()).collect()
}
