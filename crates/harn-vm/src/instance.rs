//! A program that stays alive after its top level has run: the host calls exported functions repeatedly and
//! concurrently.

use std::rc::Rc;

use harn_value::Value;

use crate::builtins;
use crate::closure::{Closure, Constructor, Variable};
use crate::compile::Binding;
use crate::cx::Cx;
use crate::error::{Error, ErrorKind, Result};
use crate::fiber::Fiber;
use crate::modules::{Program, Step};
use crate::program::{call, end, fail, root_task};
use crate::task::Task;
use crate::vm::Vm;

builtins! {
    /// Builtins for calls from the host.
    static HOST: "host";

    /// Returns a list with the next item, or nil at the end.
    State async fn next_item = "__next_item"(cx, iterator: Value) -> "list?" {
        match cx.iter(&iterator)?.next(&cx).await? {
            Some(item) => Value::list(vec![item]),
            None => Value::NIL,
        }
    }
}

/// A program with the variables of its run.
pub struct Instance {
    vm: Rc<Vm>,
    task: Rc<Task>,
    program: Program,
}

/// A call of an [`Instance`]. Dropping it does not end the call.
#[derive(Clone)]
pub struct Call(Rc<Task>);

impl Instance {
    /// Creates an instance without running the program. All async functions below, and [`Instance::call`], must be used
    /// inside [`block_on`](crate::block_on).
    ///
    /// ```
    /// use harn_system::Memory;
    /// use harn_vm::{Instance, Source, Value, VmBuilder, block_on, load};
    ///
    /// let vm = VmBuilder::new(std::rc::Rc::new(Memory::new())).build();
    /// let text = "var total = 0\nfn add(n) { total = total + n; return total }".to_owned();
    /// let program = load(&vm, &Source { name: "demo".into(), text, dir: ".".into() });
    /// let instance = Instance::new(&vm, program.unwrap_or_else(|_| panic!("a valid program")));
    /// let last = block_on(async {
    ///     instance.begin().await.unwrap();
    ///     let add = instance.export("add").unwrap();
    ///     instance.call(&add, vec![Value::int(2)]).result().await.unwrap();
    ///     let last = instance.call(&add, vec![Value::int(3)]).result().await.unwrap();
    ///     instance.end().await.unwrap();
    ///     last
    /// });
    /// assert_eq!(last.unwrap().as_int(), Some(5));
    /// ```
    pub fn new(vm: &Rc<Vm>, program: Program) -> Instance {
        Instance { vm: vm.clone(), task: root_task(vm), program }
    }

    /// Runs the top level; returns the value of its `return`. Call [`Instance::end`] last, also after an error.
    ///
    /// # Errors
    /// The error that the top level throws; a type error if another VM loaded the program.
    pub async fn begin(&self) -> Result<Value> {
        self.program.check_vm(&self.vm)?;
        let mut last = Value::NIL;
        for step in &self.program.steps {
            last = match step {
                Step::Run(proto) => call(&self.vm, &self.task, proto, Vec::new()).await?,
                Step::Fail { text, module, span } => return Err(fail(&self.vm, text, *module, *span)),
            };
        }
        Ok(last)
    }

    /// Starts the named pipeline, or the default one. `args` supplies parameters by name (others are nil). Returns
    /// `None` if no name is given and the program has no pipeline.
    ///
    /// # Errors
    /// No pipeline has that name, or it has no parameter of a given name; another VM loaded the program.
    pub fn pipeline(&self, entry: Option<&str>, args: &[(String, Value)]) -> Result<Option<Call>> {
        self.program.check_vm(&self.vm)?;
        let Some((name, proto)) = self.program.pipeline(entry)? else { return Ok(None) };
        if let Some((unknown, _)) = args.iter().find(|(name, _)| !proto.param_names.contains(name)) {
            let known =
                if proto.param_names.is_empty() { "none".to_owned() } else { proto.param_names.join(", ") };
            return Err(Error::runtime(format!(
                "pipeline '{name}' has no parameter '{unknown}'; its parameters: {known}"
            )));
        }
        let given = |name: &String| args.iter().find(|(own, _)| own == name).map(|(_, value)| value.clone());
        let values = proto.param_names.iter().map(|name| given(name).unwrap_or_default()).collect();
        Ok(Some(self.call(&Closure::value(proto.clone(), Box::default()), values)))
    }

    /// Returns the virtual machine.
    pub fn vm(&self) -> &Rc<Vm> {
        &self.vm
    }

    /// Returns the names that the entry file exports, including re-exports, in order of declaration.
    pub fn exports(&self) -> impl Iterator<Item = &str> {
        let names = self.program.exports.iter();
        names.filter(|(_, binding)| self.value_of(binding).is_some()).map(|(name, _)| name.as_str())
    }

    /// Returns the value of a name; `None` for types that cannot be called, for pipelines, and if another VM loaded the
    /// program.
    fn value_of(&self, binding: &Binding) -> Option<Value> {
        self.program.check_vm(&self.vm).ok()?;
        match binding {
            Binding::Function { index } => Some(self.vm.function(*index)),
            Binding::Global { module, index, .. } => {
                let globals = self.vm.module_globals(*module as usize);
                // SAFETY: no reference into the vector is held across calls; single-threaded.
                let value = unsafe { &*globals.get() }.get(*index as usize).cloned()?;
                let value = Variable::of(&value).map_or(value.clone(), Variable::get);
                (!value.is_absent()).then_some(value)
            }
            Binding::Struct(ty, _) => Some(Value::foreign(Constructor(ty.clone()))),
            _ => None,
        }
    }

    /// Returns an exported value.
    pub fn export(&self, name: &str) -> Option<Value> {
        let (_, binding) = self.program.exports.iter().find(|(own, _)| own == name)?;
        self.value_of(binding)
    }

    /// Calls a function value of the program, or a builtin. The call is a separate task that shares the variables of
    /// the program; tasks that it has started and not awaited end with it.
    pub fn call(&self, f: &Value, args: Vec<Value>) -> Call {
        let task = self.task.beside();
        let fiber = Fiber::new(&self.vm, &task, f.clone(), args);
        let (vm, running) = (self.vm.clone(), task.clone());
        vm.live_tasks.set(vm.live_tasks.get() + 1);
        crate::scheduler::spawn(async move {
            let result = if running.is_aborted() { Err(Error::new(ErrorKind::Abort)) } else { fiber.await };
            let result = running.ending(result);
            Cx::new(vm.clone(), running.clone()).end_children().await;
            vm.live_tasks.set(vm.live_tasks.get() - 1);
            running.forget();
            running.finish(result);
        });
        Call(task)
    }

    /// Gets the next item of an iterator, a generator, a stream or a channel: a list of one item, or nil at the end.
    pub fn next(&self, iterator: &Value) -> Call {
        self.call(&HOST[0].value(), vec![iterator.clone()])
    }

    /// Ends the program: stops its tasks, runs the cleanup of suspended generators and flushes the output.
    ///
    /// # Errors
    /// An `exit` in cleanup; output that cannot be written.
    pub async fn end(&self) -> Result<()> {
        let result = end(&self.vm, &self.task, Ok(Value::NIL)).await;
        let flushed = self.vm.system.flush();
        result?;
        flushed.map_err(|error| Error::output(&error))
    }
}

impl Call {
    /// Waits for the end of the call. The result can be taken once.
    ///
    /// # Errors
    /// The error that the call throws; an abort error if the result was taken before.
    pub async fn result(&self) -> Result<Value> {
        self.0.ended().await;
        self.0.take_result().unwrap_or_else(|| Err(Error::new(ErrorKind::Abort)))
    }

    /// Requests cancellation: waits end with an error that cleanup may handle.
    pub fn cancel(&self) {
        self.0.cancel();
    }

    /// Stops the call at its next suspension point; only its cleanup blocks still run.
    pub fn abort(&self) {
        self.0.abort();
    }
}
