//! A program and its thread.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use harn_runtime::{configure_sessions, install_manifest_hooks, install_skills, llm_runtime, vm_builder};
use harn_syntax::SourceFile;
use harn_syntax::source_map::line_column;
use harn_system::{Layer, Real, System, SystemExt};
use harn_value::{Dict, Value};
use harn_vm::{Error, ErrorKind, Instance, Interrupt, LoadError, Source, Vm, block_on, load};
use pyo3::prelude::*;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::data::{Data, Remote, to_data, to_value};
use crate::pending::{Failure, Outcome, Pending, Place, Slot};
use crate::python;

/// The stack of a program's thread: as large as that of a main thread.
const STACK: usize = 8 << 20;

static NUMBERS: AtomicU64 = AtomicU64::new(1);

fn number() -> u64 {
    NUMBERS.fetch_add(1, Ordering::Relaxed)
}

/// What is called.
pub(crate) enum Target {
    /// An exported function.
    Export(String),
    /// A builtin.
    Builtin(String),
    /// A value of the program.
    Kept(Arc<Remote>),
    /// The next item of a value of the program.
    Next(Arc<Remote>),
    /// The pipeline of a name, or the usual one, with its parameters in the place of arguments.
    Pipeline(Option<String>),
}

/// What the thread of a program is told.
pub(crate) enum Command {
    Begin(Arc<Slot>),
    Call { call: u64, target: Target, args: Vec<Data>, slot: Arc<Slot> },
    Exports(Arc<Slot>),
    Abort(u64),
    Release(u64),
    Close(Arc<Slot>),
}

/// What a program has written.
#[derive(Default)]
struct Written {
    out: String,
    err: String,
}

/// The machine's system: what programs write is kept, and variables of the environment are laid over its own.
struct Surroundings {
    real: Real,
    env: HashMap<String, String>,
    /// Nothing when programs write to the streams of the process.
    written: Option<Arc<Mutex<Written>>>,
}

impl Surroundings {
    fn keep(&self, write: impl FnOnce(&mut Written)) -> bool {
        let Some(written) = &self.written else { return false };
        write(&mut written.lock().unwrap_or_else(PoisonError::into_inner));
        true
    }
}

impl Layer for Surroundings {
    fn inner(&self) -> &dyn System {
        &self.real
    }

    fn env(&self, name: &str) -> Option<String> {
        self.env.get(name).cloned().or_else(|| self.real.env(name))
    }

    fn write_out(&self, text: &str) -> io::Result<()> {
        if self.keep(|written| written.out.push_str(text)) { Ok(()) } else { self.real.write_out(text) }
    }

    fn write_err(&self, text: &str) {
        if !self.keep(|written| written.err.push_str(text)) {
            self.real.write_err(text);
        }
    }
}

/// The inputs of a machine. It crosses to the machine's thread, so it holds no `System`: that is built there.
struct Setup {
    source: Source,
    argv: Vec<String>,
    task: Option<String>,
    globals: Vec<(String, Data)>,
    mocks: Vec<Data>,
    /// Environment variables that shadow those of the process.
    env: HashMap<String, String>,
    /// The buffer for captured output, `None` when programs write to the streams of the process.
    written: Option<Arc<Mutex<Written>>>,
}

/// A program as its own thread sees it.
pub(crate) struct Side {
    pub(crate) machine: u64,
    commands: UnboundedSender<Command>,
    values: RefCell<HashMap<u64, Value>>,
    calls: RefCell<HashMap<u64, harn_vm::Call>>,
    /// Who waits for an answer.
    waiting: RefCell<Vec<Weak<Slot>>>,
    closing: Cell<bool>,
}

impl Side {
    /// Keeps a value for Python.
    pub(crate) fn keep(&self, value: &Value) -> Arc<Remote> {
        let id = number();
        self.values.borrow_mut().insert(id, value.clone());
        Arc::new(Remote {
            id,
            machine: self.machine,
            type_name: value.type_name().to_owned(),
            text: harn_value::short(value, 200),
            commands: self.commands.clone(),
        })
    }

    /// The value that Python holds.
    ///
    /// # Errors
    /// It belongs to another program.
    pub(crate) fn kept(&self, remote: &Remote) -> Result<Value, String> {
        let own = (remote.machine == self.machine).then(|| self.values.borrow().get(&remote.id).cloned());
        own.flatten().ok_or_else(|| format!("{} belongs to another program", remote.text))
    }

    fn expect(&self, slot: &Arc<Slot>) {
        let mut waiting = self.waiting.borrow_mut();
        if waiting.len() >= 64 {
            waiting.retain(|slot| slot.strong_count() > 0);
        }
        waiting.push(Arc::downgrade(slot));
    }

    fn outcome(&self, vm: &Vm, result: harn_vm::Result<Value>) -> Outcome {
        match result {
            Ok(value) => to_data(self, &value, 0).map_err(|why| Failure::plain("conversion", why)),
            Err(error) => Err(self.failure(vm, &error)),
        }
    }

    fn failure(&self, vm: &Vm, error: &Error) -> Failure {
        let value = to_data(self, &error.caught(), 0).unwrap_or(Data::Nil);
        let (kind, code) = match error.kind() {
            ErrorKind::Thrown(_) => ("thrown", None),
            ErrorKind::Type(_) => ("type", None),
            ErrorKind::Exit(code) => ("exit", Some(*code)),
            ErrorKind::Abort => ("cancelled", None),
            _ => ("runtime", None),
        };
        let named =
            |dict: Option<&Dict>| dict.and_then(|d| d.get_str("category")?.as_str().map(ToString::to_string));
        let category = match error.kind() {
            ErrorKind::Category { category, .. } => Some(category.clone()),
            ErrorKind::Thrown(thrown) => named(thrown.as_dict().map(|d| &**d)),
            _ => None,
        };
        let message = match error.kind() {
            ErrorKind::Thrown(thrown) => {
                let said =
                    thrown.as_dict().and_then(|d| d.get_str("message")?.as_str().map(ToString::to_string));
                said.unwrap_or_else(|| harn_value::short(thrown, 64 << 10))
            }
            _ => error.uncaught_text(),
        };
        let place = |entry: &harn_vm::error::TraceEntry| {
            let (_, text) = vm.source(entry.module)?;
            let (line, column) = line_column(&text, entry.span.start);
            Some(Place { function: entry.function.clone(), file: entry.file.to_string(), line, column })
        };
        Failure {
            kind,
            category: category.or_else(|| named(error.facts())),
            message,
            value,
            trace: error.trace().iter().filter_map(place).collect(),
            notes: error.notes().to_vec(),
            code,
        }
    }
}

/// The errors of a text that is no program.
fn load_failure(source: &Source, error: &LoadError) -> Failure {
    let file = SourceFile::new(source.name.clone(), source.text.clone());
    let place = |diagnostic: &harn_syntax::Diagnostic| {
        let (line, column) = line_column(&source.text, diagnostic.span?.start);
        Some(Place { function: String::new(), file: source.name.clone(), line, column })
    };
    let diagnostics = error.diagnostics(&file);
    let mut failure = Failure::plain("syntax", error.canonical(&source.text));
    failure.trace = diagnostics.first().and_then(place).into_iter().collect();
    failure.notes = diagnostics.iter().skip(1).map(|d| d.message.clone()).collect();
    failure
}

/// The machine and its program, or why there is none.
fn prepare(side: &Rc<Side>, setup: Setup) -> Result<(Rc<Vm>, Instance), Failure> {
    let Setup { source, argv, task, globals, mocks, env, written } = setup;
    let system = Surroundings { real: Real::new(), env, written };
    let argv: Vec<Value> = argv.iter().map(|arg| Value::str(arg)).collect();
    let task = task.map_or(Value::NIL, Value::from);
    let context: Dict =
        [("task", task), ("project_root", Value::NIL), ("task_type", Value::NIL)].into_iter().collect();
    let builder =
        vm_builder(Rc::new(system)).global("argv", Value::from(argv)).global("context", Value::dict(context));
    let vm = builder.build();
    let refused = |why: String| Failure::plain("runtime", why);
    for (name, value) in &globals {
        if vm.builtin(name).is_some() {
            return Err(Failure::plain(
                "value",
                format!("globals: `{name}` is a builtin; choose another name"),
            ));
        }
        vm.set_global(name, to_value(side, value).map_err(refused)?);
    }
    install_skills(&vm, &source.dir, &[]).map_err(refused)?;
    configure_sessions(&vm, &source.dir).map_err(refused)?;
    for mock in &mocks {
        let answer = harn_value::json::to_data(&to_value(side, mock).map_err(refused)?);
        let answer = answer.map_err(|why| refused(format!("mocks: {why}")))?;
        llm_runtime(&vm).mock_push(&answer).map_err(|why| Failure::plain("value", why))?;
    }
    let program = load(&vm, &source).map_err(|error| load_failure(&source, &error))?;
    let instance = Instance::new(&vm, program);
    Ok((vm, instance))
}

/// What the thread of a program does.
fn live(
    setup: Setup,
    commands: UnboundedSender<Command>,
    mut told: UnboundedReceiver<Command>,
    ready: &Slot,
    stop: &Mutex<Option<Interrupt>>,
    machine: u64,
) {
    let side = Rc::new(Side {
        machine,
        commands,
        values: RefCell::default(),
        calls: RefCell::default(),
        waiting: RefCell::default(),
        closing: Cell::new(false),
    });
    let dir = setup.source.dir.clone();
    let (vm, instance) = match prepare(&side, setup) {
        Ok(made) => made,
        Err(failure) => return ready.settle(Err(failure)),
    };
    *stop.lock().unwrap_or_else(PoisonError::into_inner) = Some(vm.interrupt().clone());
    let instance = Rc::new(instance);
    let served = block_on(async {
        if let Err(why) = install_manifest_hooks(&vm, &dir).await {
            return ready.settle(Err(Failure::plain("runtime", why)));
        }
        ready.settle(Ok(Data::Nil));
        while let Some(command) = told.recv().await {
            handle(&side, &instance, command);
            if side.closing.get() {
                break;
            }
        }
    });
    if let Err(error) = served {
        ready.settle(Err(Failure::plain("runtime", format!("cannot start the event loop: {error}"))));
    }
    told.close();
    while let Ok(command) = told.try_recv() {
        match command {
            Command::Begin(slot) | Command::Call { slot, .. } | Command::Exports(slot) => {
                slot.settle(Err(Failure::closed()));
            }
            Command::Close(slot) => slot.settle(Ok(Data::Nil)),
            Command::Abort(_) | Command::Release(_) => {}
        }
    }
    for slot in side.waiting.take().iter().filter_map(Weak::upgrade) {
        slot.settle(Err(Failure::closed()));
    }
    side.values.take();
}

fn handle(side: &Rc<Side>, instance: &Rc<Instance>, command: Command) {
    match command {
        Command::Begin(slot) => {
            side.expect(&slot);
            let (side, instance) = (side.clone(), instance.clone());
            harn_vm::spawn(async move {
                let result = instance.begin().await;
                slot.settle(side.outcome(instance.vm(), result));
            });
        }
        Command::Call { call, target, args, slot } => {
            side.expect(&slot);
            match start(side, instance, &target, &args) {
                Err(failure) => slot.settle(Err(failure)),
                Ok(None) => slot.settle(Ok(Data::Nil)),
                Ok(Some(running)) => {
                    side.calls.borrow_mut().insert(call, running.clone());
                    let (side, instance) = (side.clone(), instance.clone());
                    // Nothing is what a program without a pipeline gives.
                    let is_pipeline = matches!(target, Target::Pipeline(_));
                    harn_vm::spawn(async move {
                        let result = running.result().await;
                        side.calls.borrow_mut().remove(&call);
                        let outcome = side.outcome(instance.vm(), result);
                        slot.settle(if is_pipeline {
                            outcome.map(|data| Data::List(vec![data]))
                        } else {
                            outcome
                        });
                    });
                }
            }
        }
        Command::Exports(slot) => {
            slot.settle(Ok(Data::List(instance.exports().map(|name| Data::Str(name.to_owned())).collect())));
        }
        Command::Abort(call) => {
            if let Some(call) = side.calls.borrow().get(&call) {
                call.abort();
            }
        }
        Command::Release(id) => {
            let value = side.values.borrow_mut().remove(&id);
            // Its end may let go of others.
            drop(value);
        }
        Command::Close(slot) => {
            let (side, instance) = (side.clone(), instance.clone());
            harn_vm::spawn(async move {
                let running: Vec<harn_vm::Call> = side.calls.borrow().values().cloned().collect();
                running.iter().for_each(harn_vm::Call::abort);
                let ended = instance.end().await;
                let outcome = side.outcome(instance.vm(), ended.map(|()| Value::NIL));
                side.closing.set(true);
                // Wakes the loop that looks.
                let _ = side.commands.send(Command::Release(0));
                slot.settle(outcome);
            });
        }
    }
}

/// Starts what was asked for.
fn start(
    side: &Rc<Side>,
    instance: &Instance,
    target: &Target,
    args: &[Data],
) -> Result<Option<harn_vm::Call>, Failure> {
    let wrong = |why: String| Failure::plain("value", why);
    if let Target::Pipeline(entry) = target {
        let mut given = Vec::new();
        if let [Data::Dict(entries)] = args {
            for (name, value) in entries {
                given.push((name.clone(), to_value(side, value).map_err(wrong)?));
            }
        }
        return instance
            .pipeline(entry.as_deref(), &given)
            .map_err(|error| side.failure(instance.vm(), &error));
    }
    let values: Vec<Value> =
        args.iter().map(|arg| to_value(side, arg)).collect::<Result<_, _>>().map_err(wrong)?;
    let function = match target {
        Target::Export(name) => instance.export(name).ok_or_else(|| {
            let known: Vec<&str> = instance.exports().collect();
            let known = if known.is_empty() { "nothing".to_owned() } else { known.join(", ") };
            Failure::plain("name", format!("the program exports no '{name}'; it exports {known}"))
        })?,
        Target::Builtin(name) => match instance.vm().builtin(name) {
            Some(builtin) => builtin.value(),
            None => return Err(Failure::plain("name", format!("there is no builtin '{name}'"))),
        },
        Target::Kept(remote) => side.kept(remote).map_err(wrong)?,
        Target::Next(remote) => {
            return Ok(Some(instance.next(&side.kept(remote).map_err(wrong)?)));
        }
        Target::Pipeline(_) => return Ok(None),
    };
    Ok(Some(instance.call(&function, values)))
}

/// Asks something of a program.
pub(crate) fn submit(
    commands: &UnboundedSender<Command>,
    interrupt: Option<Interrupt>,
    command: impl FnOnce(u64, Arc<Slot>) -> Command,
) -> Pending {
    let (call, slot) = (number(), Arc::<Slot>::default());
    if commands.send(command(call, slot.clone())).is_err() {
        slot.settle(Err(Failure::closed()));
    }
    Pending { slot, call, commands: commands.clone(), interrupt }
}

/// A value of a program that stays there.
#[pyclass(frozen, module = "harn._harn")]
pub(crate) struct Handle {
    pub(crate) remote: Arc<Remote>,
}

#[pymethods]
impl Handle {
    /// Its type in Harn.
    #[getter]
    fn type_name(&self) -> &str {
        &self.remote.type_name
    }

    /// Its printed form.
    #[getter]
    fn text(&self) -> &str {
        &self.remote.text
    }

    /// Its number.
    #[getter]
    fn id(&self) -> u64 {
        self.remote.id
    }

    /// Calls it.
    fn call(&self, args: Vec<Bound<'_, PyAny>>) -> PyResult<Pending> {
        let args = python::all_to_data(&args)?;
        let target = Target::Kept(self.remote.clone());
        Ok(submit(&self.remote.commands, None, |call, slot| Command::Call { call, target, args, slot }))
    }

    /// Asks for its next item: a list of one, or nothing.
    fn next(&self) -> Pending {
        let target = Target::Next(self.remote.clone());
        submit(&self.remote.commands, None, |call, slot| Command::Call {
            call,
            target,
            args: Vec::new(),
            slot,
        })
    }
}

/// A program on a thread of its own.
#[pyclass(frozen, module = "harn._harn")]
pub(crate) struct Machine {
    commands: UnboundedSender<Command>,
    written: Arc<Mutex<Written>>,
    ready: Arc<Slot>,
    stop: Arc<Mutex<Option<Interrupt>>>,
}

#[pymethods]
impl Machine {
    #[new]
    #[pyo3(signature = (name, text, folder, argv, task, env, globals, mocks, capture))]
    #[expect(clippy::too_many_arguments, reason = "the Python side has names for them")]
    fn new(
        name: String,
        text: String,
        folder: PathBuf,
        argv: Vec<String>,
        task: Option<String>,
        env: HashMap<String, String>,
        globals: &Bound<'_, pyo3::types::PyDict>,
        mocks: Vec<Bound<'_, PyAny>>,
        capture: bool,
    ) -> PyResult<Machine> {
        let written = Arc::<Mutex<Written>>::default();
        let Data::Dict(globals) = python::to_data(globals.as_any(), 0)? else {
            return Err(python::internal());
        };
        let mocks = python::all_to_data(&mocks)?;
        let source = Source { name, text, dir: folder };
        let captured = capture.then(|| written.clone());
        let setup = Setup { source, argv, task, globals, mocks, env, written: captured };
        let (commands, told) = unbounded_channel();
        let (ready, stop) = (Arc::<Slot>::default(), Arc::<Mutex<Option<Interrupt>>>::default());
        let (own, slot, holder) = (commands.clone(), ready.clone(), stop.clone());
        let run = move || {
            live(setup, own, told, &slot, &holder, number());
            // Whatever happened: nobody waits for ever.
            slot.settle(Err(Failure::closed()));
        };
        let thread = std::thread::Builder::new().name("harn".to_owned()).stack_size(STACK).spawn(run);
        thread.map_err(|error| {
            pyo3::exceptions::PyOSError::new_err(format!("cannot start a thread for the program: {error}"))
        })?;
        Ok(Machine { commands, written, ready, stop })
    }

    /// Done when the program is compiled.
    fn ready(&self) -> Pending {
        Pending { slot: self.ready.clone(), call: 0, commands: self.commands.clone(), interrupt: None }
    }

    /// Runs the top level.
    fn begin(&self) -> Pending {
        submit(&self.commands, self.interrupt(), |_, slot| Command::Begin(slot))
    }

    /// Runs a pipeline.
    #[pyo3(signature = (entry, args))]
    fn pipeline(&self, entry: Option<String>, args: &Bound<'_, pyo3::types::PyDict>) -> PyResult<Pending> {
        let args = vec![python::to_data(args.as_any(), 0)?];
        let target = Target::Pipeline(entry);
        Ok(submit(&self.commands, self.interrupt(), |call, slot| Command::Call { call, target, args, slot }))
    }

    /// Calls an exported function.
    fn call(&self, name: String, args: Vec<Bound<'_, PyAny>>) -> PyResult<Pending> {
        let args = python::all_to_data(&args)?;
        let target = Target::Export(name);
        Ok(submit(&self.commands, None, |call, slot| Command::Call { call, target, args, slot }))
    }

    /// Calls a builtin.
    fn builtin(&self, name: String, args: Vec<Bound<'_, PyAny>>) -> PyResult<Pending> {
        let args = python::all_to_data(&args)?;
        let target = Target::Builtin(name);
        Ok(submit(&self.commands, None, |call, slot| Command::Call { call, target, args, slot }))
    }

    /// The names that the program exports.
    fn exports(&self) -> Pending {
        submit(&self.commands, None, |_, slot| Command::Exports(slot))
    }

    /// What was written so far: standard output and standard error.
    fn output(&self) -> (String, String) {
        let written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        (written.out.clone(), written.err.clone())
    }

    /// Ends the program: its tasks stop, its cleanup runs.
    fn close(&self) -> Pending {
        let pending = submit(&self.commands, None, |_, slot| Command::Close(slot));
        if self.commands.is_closed() {
            pending.slot.settle(Ok(Data::Nil));
        }
        pending
    }
}

impl Machine {
    fn interrupt(&self) -> Option<Interrupt> {
        self.stop.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.commands.send(Command::Close(Arc::default()));
    }
}

/// Reads the text of a program as the command line does.
///
/// # Errors
/// `Error reading PATH: …`
pub(crate) fn read(path: &Path) -> Result<(String, String, PathBuf), String> {
    let source = harn_vm::read_source(&Real::new(), &path.display().to_string())?;
    Ok((source.name, source.text, source.dir))
}

/// The working directory, for programs without a file.
pub(crate) fn here() -> PathBuf {
    Real::new().work_dir()
}
