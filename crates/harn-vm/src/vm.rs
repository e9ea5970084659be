//! The virtual machine of one program: builtin tables, interned names, functions, module variables, and state of other
//! crates.

use std::any::Any;
use std::cell::{Cell, RefCell, UnsafeCell};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Waker;

use harn_system::{Ceiling, System};
use harn_value::{Str, Value};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::access::{Gate, Names};
use crate::arena::Arena;
use crate::builtin::{Builtin, MethodTable};
use crate::bytecode::Proto;
use crate::cleanup::Cleanups;
use crate::closure::is_callable;
use crate::cx::States;
use crate::cycles::Sweep;
use crate::identity::TaskFacts;
use crate::observe::Observer;
use crate::spans::{ASKED_WITH, Spans};
use crate::task::{Globals, Task};
use crate::vm_id::VmId;

type Methods = FxHashMap<&'static str, FxHashMap<&'static str, &'static Builtin>>;

/// The shared state of a program. One program, one thread.
pub struct Vm {
    /// Identifies the VM.
    pub(crate) id: Rc<VmId>,
    /// Generators dropped before they ended. Closed before the functions that they use are dropped.
    pub(crate) cleanups: Rc<Cleanups>,
    /// Whether a function with `yield` and cleanup blocks, or one that takes locks, was compiled. Then the values of a
    /// block's variables are dropped at its end, and code checks for dropped generators after every statement.
    pub(crate) settles: Cell<bool>,
    /// Whether the program requests tracing spans; functions compiled afterwards open one.
    pub(crate) traces: Cell<bool>,
    pub(crate) spans: Rc<Spans>,
    pub(crate) system: Rc<dyn System>,
    /// The directory that relative names of source files refer to; by default the working directory.
    pub(crate) source_base: Option<PathBuf>,
    gate: Gate,
    builtins: FxHashMap<&'static str, &'static Builtin>,
    tables: Vec<&'static [Builtin]>,
    method_tables: Vec<MethodTable>,
    methods: RefCell<Methods>,
    globals: RefCell<FxHashMap<String, Value>>,
    /// The builtins that compiled code refers to.
    referred: RefCell<FxHashSet<&'static str>>,
    interned: RefCell<FxHashMap<Box<str>, Str>>,
    functions: UnsafeCell<Vec<Value>>,
    /// Changes whenever the tables of functions, modules or module variables grow.
    pub(crate) version: Cell<u64>,
    /// The task whose fiber is being polled. Invariant: the tables do not grow meanwhile.
    pub(crate) running: RefCell<Option<Rc<Task>>>,
    /// Functions replaced by `override` stay alive, because frames point to them.
    retired: RefCell<Vec<Value>>,
    pub(crate) modules: RefCell<Vec<Module>>,
    protos: Protos,
    /// Memory of code and constants.
    pub(crate) arena: Arena,
    states: States,
    /// Named types of each file.
    pub(crate) types: Rc<crate::types::Types>,
    interrupt: Interrupt,
    /// Changes whenever a method is added, which invalidates the caches of call sites.
    pub(crate) method_epoch: Cell<usize>,
    /// Number of live tasks besides the root.
    pub(crate) live_tasks: Cell<usize>,
    /// Whether every function is verified when it is compiled.
    pub(crate) verifies: bool,
    /// Whether a program whose tasks all wait for each other ends with an error.
    pub(crate) tells_deadlocks: bool,
    /// Called before every statement.
    pub(crate) observer: Option<Rc<dyn Observer>>,
    /// Functions of other crates that add facts about tasks.
    pub(crate) task_facts: Vec<TaskFacts>,
    /// Functions of other crates that add facts for `debug` of `runtime_context`.
    pub(crate) debug_facts: Vec<TaskFacts>,
    /// Returns the source of `std/...` modules.
    pub(crate) std_modules: fn(&str) -> Option<&'static str>,
    /// Last field: dropped when no field above refers to the program's data any more.
    _sweep: Sweep,
}

/// All compiled functions.
#[derive(Default)]
struct Protos(RefCell<Vec<Rc<Proto>>>);

impl Drop for Protos {
    /// Breaks reference cycles: a method creates instances of its own struct, so its code holds the type that holds the
    /// method. No method is called after the VM is dropped.
    fn drop(&mut self) {
        for proto in self.0.get_mut() {
            for ty in &proto.structs {
                // SAFETY: no call site of the VM runs any more.
                drop(unsafe { ty.take_methods() });
            }
        }
    }
}

impl Drop for Vm {
    fn drop(&mut self) {
        // Fibers may hold the list longer than the VM lives.
        self.cleanups.close();
    }
}

/// A loaded file.
pub(crate) struct Module {
    pub(crate) file: Rc<str>,
    pub(crate) source: Rc<str>,
    pub(crate) globals: Globals,
    global_names: Vec<String>,
}

/// Stops a running program from another thread or a signal handler.
#[derive(Clone, Default)]
pub struct Interrupt {
    flag: Arc<AtomicBool>,
    waker: Arc<Mutex<Option<Waker>>>,
}

impl Interrupt {
    /// Asks the program to stop: its cleanup blocks run, then it ends.
    pub fn interrupt(&self) {
        self.flag.store(true, Ordering::SeqCst);
        let waker = self.waker.lock().ok().and_then(|mut slot| slot.take());
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Withdraws the request (a REPL continues after an interrupted evaluation).
    pub fn clear(&self) {
        self.flag.store(false, Ordering::SeqCst);
    }

    /// Returns whether a stop was requested.
    pub fn is_set(&self) -> bool {
        self.flag.load(Ordering::Relaxed)
    }

    /// Waits until a stop is requested.
    pub async fn asked(&self) {
        std::future::poll_fn(|context| {
            self.register(context.waker());
            if self.is_set() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
        })
        .await;
    }

    pub(crate) fn register(&self, waker: &Waker) {
        if let Ok(mut slot) = self.waker.lock() {
            *slot = Some(waker.clone());
        }
    }
}

/// Why a VM cannot be built: two functions have the same name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BuildError {
    /// Two builtins have this name.
    Builtin(&'static str),
    /// Two methods of this type have this name.
    Method(&'static str, &'static str),
    /// A function among the globals has the name of a builtin.
    Global(String),
}

impl std::fmt::Display for BuildError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            BuildError::Builtin(name) => write!(f, "builtin `{name}` already exists: choose another name"),
            BuildError::Method(ty, name) => {
                write!(f, "method `{ty}.{name}` already exists: choose another name")
            }
            BuildError::Global(name) => {
                write!(f, "global function `{name}` has the name of a builtin: choose another name")
            }
        }
    }
}

impl std::error::Error for BuildError {}

/// Rejects a function with the name of a builtin, which it would shadow; a global that cannot be called does not.
fn check_global(
    builtins: &FxHashMap<&'static str, &'static Builtin>,
    name: &str,
    value: &Value,
) -> Result<(), BuildError> {
    if is_callable(value) && builtins.contains_key(name) {
        return Err(BuildError::Global(name.to_owned()));
    }
    Ok(())
}

/// Configuration of a VM.
pub struct VmBuilder {
    system: Rc<dyn System>,
    source_base: Option<PathBuf>,
    names: Option<Names>,
    ceiling: Option<Ceiling>,
    tables: Vec<&'static [Builtin]>,
    methods: Vec<MethodTable>,
    /// The first method that two calls of [`VmBuilder::methods`] define.
    collision: Option<BuildError>,
    globals: Vec<(String, Value)>,
    std_modules: fn(&str) -> Option<&'static str>,
    verify: bool,
    tells_deadlocks: bool,
    observer: Option<Rc<dyn Observer>>,
    task_facts: Vec<TaskFacts>,
    debug_facts: Vec<TaskFacts>,
}

impl VmBuilder {
    /// Creates a builder with a system and the builtins of the language itself.
    pub fn new(system: Rc<dyn System>) -> VmBuilder {
        VmBuilder {
            system,
            source_base: None,
            names: None,
            ceiling: None,
            tables: crate::tables(),
            methods: Vec::new(),
            collision: None,
            globals: Vec::new(),
            std_modules: |_| None,
            verify: cfg!(debug_assertions),
            tells_deadlocks: false,
            observer: None,
            task_facts: Vec::new(),
            debug_facts: Vec::new(),
        }
    }

    /// Verifies every compiled function, and panics if the interpreter cannot run its code safely. Debug builds always
    /// do.
    #[must_use]
    pub fn verify(mut self) -> VmBuilder {
        self.verify = true;
        self
    }

    /// Reports an error to a program whose tasks all wait for each other. Only for a host that does not send to the
    /// program's channels from outside of its tasks.
    #[must_use]
    pub fn tell_deadlocks(mut self) -> VmBuilder {
        self.tells_deadlocks = true;
        self
    }

    /// Shows every statement of the program to an observer before it runs, and every error where it is thrown. The
    /// compiler then emits observation points, which it otherwise omits.
    #[must_use]
    pub fn observe(mut self, observer: Rc<dyn Observer>) -> VmBuilder {
        self.observer = Some(observer);
        self
    }

    /// Adds a function with facts about the running task, for `runtime_context` and scopes of shared state.
    #[must_use]
    pub fn task_facts(mut self, facts: TaskFacts) -> VmBuilder {
        self.task_facts.push(facts);
        self
    }

    /// Adds a function with facts for the entry `debug` of `runtime_context`; it is called only there, so it may be
    /// expensive.
    #[must_use]
    pub fn debug_facts(mut self, facts: TaskFacts) -> VmBuilder {
        self.debug_facts.push(facts);
        self
    }

    /// Adds tables of builtins.
    #[must_use]
    pub fn builtins(mut self, tables: impl IntoIterator<Item = &'static [Builtin]>) -> VmBuilder {
        self.tables.extend(tables);
        self
    }

    /// Adds methods of value types. If several tables define a method of the same name and type, the first one is used;
    /// a method that an earlier call has added is an error of [`VmBuilder::try_build`].
    #[must_use]
    pub fn methods(mut self, tables: impl IntoIterator<Item = MethodTable>) -> VmBuilder {
        let earlier = self.methods.len();
        self.methods.extend(tables);
        let (earlier, added) = self.methods.split_at(earlier);
        let exists = |ty: &str, name: &str| {
            let of_type = earlier.iter().filter(|table| table.type_name == ty);
            of_type.flat_map(|table| table.methods).any(|method| method.name() == name)
        };
        let collision = added.iter().find_map(|table| {
            let method = table.methods.iter().find(|method| exists(table.type_name, method.name()))?;
            Some(BuildError::Method(table.type_name, method.name()))
        });
        self.collision = self.collision.or(collision);
        self
    }

    /// Adds a name that is visible in every file (`pi`, `argv`).
    #[must_use]
    pub fn global(mut self, name: &str, value: impl Into<Value>) -> VmBuilder {
        self.globals.push((name.to_owned(), value.into()));
        self
    }

    /// Sets the function that returns the source of `std/NAME` modules.
    #[must_use]
    pub fn std_modules(mut self, source: fn(&str) -> Option<&'static str>) -> VmBuilder {
        self.std_modules = source;
        self
    }

    /// Resolves relative names of source files against this directory instead of the working directory of the program.
    #[must_use]
    pub fn source_base(mut self, dir: PathBuf) -> VmBuilder {
        self.source_base = Some(dir);
        self
    }

    /// Limits the builtins that programs may call.
    #[must_use]
    pub fn limit_names(mut self, names: Names) -> VmBuilder {
        self.names = Some(names);
        self
    }

    /// Applies a policy to the whole program. See [`Limit`](crate::Limit).
    #[must_use]
    pub fn limit(mut self, ceiling: Ceiling) -> VmBuilder {
        self.ceiling = Some(ceiling);
        self
    }

    /// Builds the VM.
    ///
    /// # Panics
    /// If [`VmBuilder::try_build`] returns an error.
    pub fn build(self) -> Rc<Vm> {
        self.try_build().unwrap_or_else(|error| panic!("{error}"))
    }

    /// Builds the VM.
    ///
    /// # Errors
    /// Two builtins, two methods of a type, or a builtin and a global function have the same name.
    pub fn try_build(self) -> Result<Rc<Vm>, BuildError> {
        harn_value::memory::program_thread();
        let mut builtins = FxHashMap::default();
        builtins.reserve(self.tables.iter().map(|t| t.len()).sum());
        for builtin in self.tables.iter().copied().flatten() {
            if builtins.insert(builtin.name(), builtin).is_some() {
                return Err(BuildError::Builtin(builtin.name()));
            }
        }
        if let Some(collision) = self.collision {
            return Err(collision);
        }
        for (name, value) in &self.globals {
            check_global(&builtins, name, value)?;
        }
        let gate = Gate::default();
        if let Some(names) = self.names {
            gate.limit_names(names);
        }
        if let Some(ceiling) = self.ceiling {
            gate.limit_program(&self.system, ceiling);
        }
        let cleanups: Rc<Cleanups> = Rc::default();
        if self.observer.is_some() {
            cleanups.observe();
        }
        Ok(Rc::new(Vm {
            source_base: self.source_base,
            id: Rc::new(VmId::new()),
            cleanups,
            settles: Cell::new(false),
            traces: Cell::new(false),
            spans: Spans::new(self.system.clone()),
            system: self.system,
            gate,
            builtins,
            tables: self.tables,
            method_tables: self.methods,
            methods: RefCell::default(),
            globals: RefCell::new(self.globals.into_iter().collect()),
            referred: RefCell::default(),
            interned: RefCell::default(),
            functions: UnsafeCell::default(),
            version: Cell::new(0),
            running: RefCell::default(),
            retired: RefCell::default(),
            modules: RefCell::default(),
            protos: Protos::default(),
            arena: Arena::default(),
            states: States::default(),
            types: Rc::default(),
            interrupt: Interrupt::default(),
            method_epoch: Cell::new(1),
            live_tasks: Cell::new(0),
            verifies: self.verify,
            tells_deadlocks: self.tells_deadlocks,
            observer: self.observer,
            task_facts: self.task_facts,
            debug_facts: self.debug_facts,
            std_modules: self.std_modules,
            _sweep: Sweep,
        }))
    }
}

impl Vm {
    /// Returns the builtin called `name`.
    pub fn builtin(&self, name: &str) -> Option<&'static Builtin> {
        self.builtins.get(name).copied()
    }

    /// Returns the builtin called `name` and records that code refers to it.
    pub(crate) fn refer_to(&self, name: &str) -> Option<&'static Builtin> {
        let builtin = self.builtin(name)?;
        self.referred.borrow_mut().insert(builtin.name());
        Some(builtin)
    }

    /// Returns whether code compiled so far refers to a builtin.
    pub(crate) fn names_builtin(&self, name: &str) -> bool {
        self.referred.borrow().contains(name)
    }

    /// Returns whether code compiled so far refers to a builtin of a namespace.
    pub fn refers_to(&self, namespace: &str) -> bool {
        let is_of = |name: &&str| name.strip_prefix(namespace).is_some_and(|rest| rest.starts_with('.'));
        self.referred.borrow().iter().any(is_of)
    }

    /// Returns the names of all builtins that a program may call, in no particular order.
    pub fn builtin_names(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.builtins.keys().copied().filter(|name| !name.starts_with("__"))
    }

    /// Returns all builtins, table by table in the order of the documentation.
    pub fn builtins(&self) -> impl Iterator<Item = &'static Builtin> + '_ {
        self.tables.iter().flat_map(|table| table.iter()).filter(|b| !b.name().starts_with("__"))
    }

    /// Returns all methods by type.
    pub fn method_tables(&self) -> &[MethodTable] {
        &self.method_tables
    }

    /// Returns the built-in method `name` of values whose `type_of` is `type_name`.
    pub fn method(&self, type_name: &'static str, name: &str) -> Option<&'static Builtin> {
        let mut methods = self.methods.borrow_mut();
        let of_type = methods.entry(type_name).or_insert_with(|| {
            let mut found = FxHashMap::default();
            for table in self.method_tables.iter().filter(|t| t.type_name == type_name) {
                for method in table.methods {
                    found.entry(method.name()).or_insert(method);
                }
            }
            for table in self.method_tables.iter().filter(|t| t.type_name == "any") {
                for method in table.methods {
                    found.entry(method.name()).or_insert(method);
                }
            }
            found
        });
        of_type.get(name).copied()
    }

    /// Returns the names of all methods of a type, including those of every type.
    pub fn method_names(&self, type_name: &str) -> Vec<&'static str> {
        let tables = self.method_tables.iter().filter(|t| t.type_name == type_name || t.type_name == "any");
        tables.flat_map(|table| table.methods).map(Builtin::name).collect()
    }

    /// Returns a global value such as `pi`.
    pub fn global(&self, name: &str) -> Option<Value> {
        self.globals.borrow().get(name).cloned()
    }

    /// Sets a global value; visible to code compiled afterwards.
    ///
    /// # Panics
    /// If it is a function that has the name of a builtin.
    pub fn set_global(&self, name: &str, value: impl Into<Value>) {
        let value = value.into();
        check_global(&self.builtins, name, &value).unwrap_or_else(|error| panic!("{error}"));
        self.globals.borrow_mut().insert(name.to_owned(), value);
    }

    /// Returns the names of the globals.
    pub fn global_names(&self) -> Vec<String> {
        self.globals.borrow().keys().cloned().collect()
    }

    /// Returns the unique string object of a name, so that lookups compare pointers.
    pub fn intern(&self, text: &str) -> Str {
        if let Some(known) = self.interned.borrow().get(text) {
            return known.clone();
        }
        let new = Str::new(text);
        let _ = (new.hash_code(), new.char_count());
        self.interned.borrow_mut().insert(text.into(), new.clone());
        new
    }

    /// Returns the handle that stops the program from outside.
    pub fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }

    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupt.is_set()
    }

    /// Returns the system without the limits of any task, for internal use of the runtime.
    pub fn system(&self) -> &Rc<dyn System> {
        &self.system
    }

    pub(crate) fn gate(&self) -> &Gate {
        &self.gate
    }

    pub(crate) fn state<T: Any + Default>(&self) -> Rc<T> {
        self.states.get::<T>()
    }

    /// Returns the state of another crate for this program, created on first use.
    pub fn extension<T: Any + Default>(&self) -> Rc<T> {
        self.state::<T>()
    }

    /// Returns the running task, for code that has no context.
    pub fn running_task(&self) -> Option<Rc<Task>> {
        self.running.borrow().clone()
    }

    pub(crate) fn keep(&self, proto: &Rc<Proto>) {
        self.protos.0.borrow_mut().push(proto.clone());
    }

    /// Returns every statement that an observer would see: module number and span. Pipelines that extend each other
    /// share statements.
    pub fn statements(&self) -> Vec<(u32, harn_syntax::Span)> {
        let protos = self.protos.0.borrow();
        let of = |proto: &Rc<Proto>| proto.statements().map(|span| (proto.module, span)).collect::<Vec<_>>();
        let mut all: Vec<_> = protos.iter().flat_map(of).collect();
        all.sort_by_key(|(module, span)| (*module, span.start, span.end));
        all.dedup();
        all
    }

    // ---- functions and module variables ----

    /// Records that a table grows.
    fn grow_tables(&self) {
        // Fibers hold pointers to the tables while they run.
        assert!(self.running.borrow().is_none(), "code is compiled while a program of this VM runs");
        self.version.set(self.version.get() + 1);
    }

    pub(crate) fn new_function(&self) -> u32 {
        self.grow_tables();
        // SAFETY: no reference into the vector is held across calls; single-threaded.
        let functions = unsafe { &mut *self.functions.get() };
        functions.push(Value::NIL);
        functions.len() as u32 - 1
    }

    /// Returns the number of functions.
    pub(crate) fn function_count(&self) -> usize {
        // SAFETY: as in `new_function`.
        unsafe { (*self.functions.get()).len() }
    }

    /// Returns the number of variables of a module; 0 if there is no such module.
    pub(crate) fn global_count(&self, module: usize) -> usize {
        // SAFETY: as in `new_function`.
        self.modules.borrow().get(module).map_or(0, |m| unsafe { (*m.globals.get()).len() })
    }

    pub(crate) fn set_function(&self, index: u32, value: Value) {
        // SAFETY: as above.
        let functions = unsafe { &mut *self.functions.get() };
        let old = std::mem::replace(&mut functions[index as usize], value);
        if old.is_heap() {
            self.retired.borrow_mut().push(old);
        }
    }

    /// Returns a function value.
    pub(crate) fn function(&self, index: u32) -> Value {
        // SAFETY: as in `new_function`.
        unsafe { &*self.functions.get() }.get(index as usize).cloned().unwrap_or_default()
    }

    /// Returns a pointer to the function values, valid until the next function is added.
    pub(crate) fn functions(&self) -> *const Value {
        // SAFETY: as above.
        unsafe { (*self.functions.get()).as_ptr() }
    }

    pub(crate) fn new_module(&self, file: &str, source: &str) -> u32 {
        // Must be known before the program's first function is compiled.
        self.traces.set(self.traces.get() || source.contains(ASKED_WITH));
        self.grow_tables();
        let mut modules = self.modules.borrow_mut();
        modules.push(Module {
            file: file.into(),
            source: source.into(),
            globals: Rc::default(),
            global_names: Vec::new(),
        });
        modules.len() as u32 - 1
    }

    /// Returns the name of the program's entry file; empty before one is loaded.
    pub fn program_file(&self) -> Rc<str> {
        self.modules.borrow().first().map_or_else(|| Rc::from(""), |module| module.file.clone())
    }

    pub(crate) fn new_global(&self, module: u32, name: &str, mutable: bool) -> u32 {
        self.grow_tables();
        let mut modules = self.modules.borrow_mut();
        modules[module as usize].global_names.push(name.to_owned());
        // SAFETY: no reference into the vector is held across calls; single-threaded.
        let globals = unsafe { &mut *modules[module as usize].globals.get() };
        globals.push(if mutable {
            crate::closure::Variable::of_module(Value::ABSENT)
        } else {
            Value::ABSENT
        });
        globals.len() as u32 - 1
    }

    /// Returns the name of a module variable.
    pub(crate) fn global_name(&self, module: usize, index: usize) -> String {
        self.modules.borrow().get(module).and_then(|m| m.global_names.get(index).cloned()).unwrap_or_default()
    }

    /// Returns the function value of a compiled top-level function.
    pub(crate) fn function_of(&self, proto: &Proto) -> Value {
        // SAFETY: as in `new_function`.
        let functions = unsafe { &*self.functions.get() };
        let found = functions.iter().find(|f| {
            crate::closure::Closure::of(f).is_some_and(|c| std::ptr::eq(&raw const *c.proto, proto))
        });
        found.cloned().unwrap_or_default()
    }

    /// Returns the variables of a module; none if there is no such module.
    pub(crate) fn module_globals(&self, module: usize) -> Globals {
        self.modules.borrow().get(module).map(|m| m.globals.clone()).unwrap_or_default()
    }

    /// Returns the name and source of a loaded file, by its number.
    pub fn source(&self, module: u32) -> Option<(Rc<str>, Rc<str>)> {
        self.modules.borrow().get(module as usize).map(|m| (m.file.clone(), m.source.clone()))
    }

    /// Returns the file of a module and the line of an offset in it, from 1.
    pub(crate) fn line_of(&self, module: u32, offset: u32) -> Option<(Rc<str>, usize)> {
        let (file, source) = self.source(module)?;
        let before = source.get(..offset as usize)?;
        Some((file, before.bytes().filter(|byte| *byte == b'\n').count() + 1))
    }
}
