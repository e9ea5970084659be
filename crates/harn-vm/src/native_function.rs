//! Functions that a host passes to a program as values: Rust closures.

use std::any::Any;
use std::future::Future;
use std::rc::Rc;

use harn_value::{Foreign, Value};

use crate::builtin::{NativeFuture, Rest};
use crate::builtins;
use crate::closure::Partial;
use crate::cx::Cx;
use crate::error::{Error, Result};

builtins! {
    /// Functions of the host.
    static HOST: "host";

    /// Calls a function of the host.
    State async fn call_native = "__call_native"(cx, function: Value, args: Rest) -> "any" {
        let Some(native) = function.downcast::<NativeFunction>() else {
            return Err(Error::type_error("expected a function of the host"));
        };
        let call = (native.run)(cx.clone(), args.0);
        call.await?
    }
}

type Body = Rc<dyn Fn(Cx, Vec<Value>) -> NativeFuture>;

/// A function of the host, as stored in a function value.
pub struct NativeFunction {
    name: String,
    run: Body,
    host: Rc<dyn Any>,
}

impl NativeFunction {
    /// Creates a function value that runs `run` with the arguments of the call. `run` may wait, and may call
    /// functions of the program.
    ///
    /// ```
    /// use harn_system::Memory;
    /// use harn_vm::{NativeFunction, Source, Value, VmBuilder, block_on, load};
    ///
    /// let base = 40;
    /// let add = NativeFunction::value("add", move |_cx, args| async move {
    ///     Ok(Value::int(base + args.first().and_then(Value::as_int).unwrap_or(0)))
    /// });
    /// let vm = VmBuilder::new(std::rc::Rc::new(Memory::new())).global("add", add).build();
    /// let source = Source { name: "demo".into(), text: "return add(2)".into(), dir: ".".into() };
    /// let program = load(&vm, &source).unwrap_or_else(|_| panic!("a valid program"));
    /// let outcome = block_on(program.run(&vm, None, &[])).unwrap();
    /// assert_eq!(outcome.result.unwrap().as_int(), Some(42));
    /// ```
    pub fn value<F>(name: &str, run: impl Fn(Cx, Vec<Value>) -> F + 'static) -> Value
    where
        F: Future<Output = Result<Value>> + 'static,
    {
        NativeFunction::of_host(name, run, Rc::new(()))
    }

    /// Like `NativeFunction::value`, with data of the host that [`NativeFunction::host`] returns.
    pub fn of_host<F>(name: &str, run: impl Fn(Cx, Vec<Value>) -> F + 'static, host: Rc<dyn Any>) -> Value
    where
        F: Future<Output = Result<Value>> + 'static,
    {
        let run: Body = Rc::new(move |cx, args| Box::pin(run(cx, args)));
        let function = NativeFunction { name: name.to_owned(), run, host };
        Partial::value(&HOST[0], vec![Value::foreign(function)])
    }

    /// Returns the host's data of a function value; `None` for other functions.
    pub fn host(value: &Value) -> Option<Rc<dyn Any>> {
        let partial = value.downcast::<Partial>()?;
        partial.args.first()?.downcast::<NativeFunction>().map(|function| function.host.clone())
    }
}

impl Foreign for NativeFunction {
    fn type_name(&self) -> &'static str {
        "closure"
    }

    fn print(&self, out: &mut String) {
        out.push_str(&format!("<fn {}>", self.name));
    }

    fn equals(&self, _other: &dyn Foreign) -> bool {
        false
    }
}
