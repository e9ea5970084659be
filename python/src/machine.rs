//! A machine: a program, its VM and their thread.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use harn_check::Settings;
use harn_runtime::{configure_event_log, configure_sessions, install_manifest_hooks, install_servers};
use harn_runtime::{install_skills, llm_runtime, start_servers, unwritten_calls, vm_builder};
use harn_syntax::SourceFile;
use harn_syntax::source_map::line_column;
use harn_system::{Ceiling, Layer, Level, Real, System, SystemExt};
use harn_value::{Dict, Value};
use harn_vm::error::TraceEntry;
use harn_vm::{Error, ErrorKind, Instance, LoadError, Source, Vm, block_on, load};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

use crate::data::{Data, RemoteValue, to_data, to_value};
use crate::pending::{
    CancelTarget, Completion, Failure, Frame, Outcome, Pending, ProgramInterrupt, ResultSlot,
};

/// The stack of a machine's thread: as large as that of a main thread.
const STACK: usize = 8 << 20;

/// The environment variable that restricts programs to a sandbox, as for `harn run`.
const SANDBOX: &str = "HARN_HANDLER_SANDBOX";

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

fn new_id() -> u64 {
    NEXT_ID.fetch_add(1, Ordering::Relaxed)
}

/// The callee of a [`Command::Call`].
pub enum Target {
    /// An exported function.
    Export(String),
    /// A builtin.
    Builtin(String),
    /// A function value of the program.
    Remote(Arc<RemoteValue>),
    /// Returns the next item of a value of the program.
    NextItem(Arc<RemoteValue>),
    /// The pipeline with this name, or the default one; its parameters are the arguments by name. The result is a list
    /// with the pipeline's value, or nil if the program has no pipeline.
    Pipeline(Option<String>, Vec<(String, Data)>),
}

/// A message to the thread of a machine.
pub enum Command {
    /// Runs the top level.
    Begin(Completion),
    /// Calls a target.
    Call {
        /// The call's number for [`Command::Abort`].
        call: u64,
        /// The callee.
        target: Target,
        /// The arguments.
        args: Vec<Data>,
        /// Receives the result.
        done: Completion,
    },
    /// Lists the exported names.
    Exports(Completion),
    /// Aborts a call.
    Abort(u64),
    /// Releases a value that the host no longer refers to.
    Release(u64),
    /// Ends the program and its thread.
    Close(Completion),
    /// Wakes the thread so that it ends.
    End,
}

/// The sending end of a machine's commands.
#[derive(Clone)]
pub struct CommandSender(UnboundedSender<Command>);

impl CommandSender {
    /// Sends a command. A machine that has ended drops it, which completes its result.
    pub(crate) fn send(&self, command: Command) {
        drop(self.0.send(command));
    }

    pub(crate) fn call(&self, target: Target, args: Vec<Data>) -> Pending {
        let ((done, slot), call) = (Completion::with_slot(), new_id());
        self.send(Command::Call { call, target, args, done });
        Pending { slot, target: CancelTarget::Call(call, self.clone()) }
    }
}

/// Captured output of a program.
#[derive(Default)]
pub struct Output {
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

/// The system of a machine: it captures output and overlays environment variables.
struct MachineSystem {
    real: Real,
    env: HashMap<String, String>,
    /// `None` if programs write to the streams of the process.
    output: Option<Arc<Mutex<Output>>>,
}

impl MachineSystem {
    fn capture(&self, write: impl FnOnce(&mut Output)) -> bool {
        let Some(output) = &self.output else { return false };
        write(&mut locked(output));
        true
    }
}

impl Layer for MachineSystem {
    fn inner(&self) -> &dyn System {
        &self.real
    }

    fn env(&self, name: &str) -> Option<String> {
        self.env.get(name).cloned().or_else(|| self.real.env(name))
    }

    fn write_out(&self, text: &str) -> io::Result<()> {
        if self.capture(|output| output.out.push_str(text)) { Ok(()) } else { self.real.write_out(text) }
    }

    fn write_err(&self, text: &str) {
        if !self.capture(|output| output.err.push_str(text)) {
            self.real.write_err(text);
        }
    }
}

/// The inputs of a machine. They are sent to its thread, so they contain no `System`: that is built there.
pub struct MachineOptions {
    /// The program.
    pub source: Source,
    /// The global `argv`.
    pub argv: Vec<String>,
    /// The task in the global `context`.
    pub task: Option<String>,
    /// Additional global names.
    pub globals: Vec<(String, Data)>,
    /// Replies of the provider `mock`.
    pub mocks: Vec<Data>,
    /// Environment variables that shadow those of the process.
    pub env: HashMap<String, String>,
    /// Whether output is captured instead of written to the streams of the process.
    pub capture: bool,
    /// Whether the manifest of the program's directory applies: hooks, skills, servers, sessions, the event log.
    pub project: bool,
}

/// The state of a machine on its own thread.
pub(crate) struct MachineState {
    id: u64,
    commands: CommandSender,
    exported: RefCell<HashMap<u64, Value>>,
    calls: RefCell<HashMap<u64, harn_vm::Call>>,
    /// Completed when the top level has ended, if it was started.
    top_level: RefCell<Option<oneshot::Receiver<()>>>,
    /// Results of `Close`, stored when everything else has ended.
    closing: RefCell<Vec<(Completion, Outcome)>>,
    ended: Cell<bool>,
}

impl MachineState {
    fn new(id: u64, commands: CommandSender) -> Rc<MachineState> {
        Rc::new(MachineState {
            id,
            commands,
            exported: RefCell::default(),
            calls: RefCell::default(),
            top_level: RefCell::default(),
            closing: RefCell::default(),
            ended: Cell::new(false),
        })
    }

    /// A state without a thread.
    #[cfg(test)]
    pub(crate) fn detached() -> Rc<MachineState> {
        MachineState::new(new_id(), CommandSender(unbounded_channel().0))
    }

    /// Returns the number of values that the host refers to.
    #[cfg(test)]
    pub(crate) fn exported_count(&self) -> usize {
        self.exported.borrow().len()
    }

    /// Stores a value for the host to refer to.
    pub(crate) fn export(&self, value: &Value) -> Arc<RemoteValue> {
        let id = new_id();
        self.exported.borrow_mut().insert(id, value.clone());
        Arc::new(RemoteValue {
            id,
            machine: self.id,
            type_name: value.type_name().to_owned(),
            text: harn_value::short(value, 200),
            commands: self.commands.clone(),
        })
    }

    /// Whether a value belongs to this machine.
    pub(crate) fn owns(&self, remote: &RemoteValue) -> bool {
        remote.machine == self.id
    }

    /// Returns the value that the host refers to.
    ///
    /// # Errors
    /// It belongs to another program.
    pub(crate) fn lookup(&self, remote: &RemoteValue) -> Result<Value, String> {
        let value = self.owns(remote).then(|| self.exported.borrow().get(&remote.id).cloned());
        value.flatten().ok_or_else(|| format!("{} belongs to another program", remote.text))
    }

    fn outcome(&self, vm: &Vm, result: harn_vm::Result<Value>) -> Outcome {
        match result {
            Ok(value) => to_data(self, &value, 0).map_err(|why| Failure::plain("conversion", why)),
            Err(error) => Err(self.failure(vm, &error)),
        }
    }

    fn failure(&self, vm: &Vm, error: &Error) -> Box<Failure> {
        let value = to_data(self, &error.caught(), 0).unwrap_or(Data::Nil);
        let thrown = match error.kind() {
            ErrorKind::Thrown(thrown) => Some(thrown),
            _ => None,
        };
        let text_of = |dict: Option<&Dict>, key: &str| {
            dict.and_then(|d| d.get_str(key)?.as_str().map(ToString::to_string))
        };
        let thrown_dict = thrown.and_then(|value| value.as_dict()).map(|dict| &**dict);
        let (kind, code) = match error.kind() {
            ErrorKind::Thrown(_) => ("thrown", None),
            ErrorKind::Type(_) => ("type", None),
            ErrorKind::Exit(code) => ("exit", Some(*code)),
            ErrorKind::Abort => ("cancelled", None),
            ErrorKind::Runtime(_) | ErrorKind::Plain(_) | ErrorKind::Category { .. } => ("runtime", None),
        };
        let category = match error.kind() {
            ErrorKind::Category { category, .. } => Some(category.clone()),
            _ => text_of(thrown_dict, "category"),
        };
        let message = match thrown {
            Some(value) => {
                text_of(thrown_dict, "message").unwrap_or_else(|| harn_value::short(value, 64 << 10))
            }
            None => error.uncaught_text(),
        };
        let frame = |entry: &TraceEntry| {
            let (_, text) = vm.source(entry.module)?;
            let (line, column) = line_column(&text, entry.span.start);
            Some(Frame { function: entry.function.clone(), file: entry.file.to_string(), line, column })
        };
        Box::new(Failure {
            kind,
            category: category.or_else(|| text_of(error.facts(), "category")),
            message,
            value,
            trace: error.trace().iter().filter_map(frame).collect(),
            notes: error.notes().to_vec(),
            code,
        })
    }
}

/// The failure of a source that does not compile.
fn load_failure(source: &Source, error: &LoadError) -> Box<Failure> {
    let file = SourceFile::new(source.name.clone(), source.text.clone());
    let frame = |diagnostic: &harn_syntax::Diagnostic| {
        let (line, column) = line_column(&source.text, diagnostic.span?.start);
        Some(Frame { function: String::new(), file: source.name.clone(), line, column })
    };
    let diagnostics = error.diagnostics(&file);
    let mut failure = Failure::plain("syntax", error.canonical(&source.text));
    failure.trace = diagnostics.first().and_then(frame).into_iter().collect();
    failure.notes = diagnostics.iter().skip(1).map(|d| d.message.clone()).collect();
    failure
}

/// The upper bound that the environment sets for a program, as for `harn run`.
///
/// # Errors
/// The variable has an unknown value.
pub(crate) fn sandbox(variable: Option<&str>, roots: Vec<PathBuf>) -> Result<Option<Ceiling>, String> {
    match variable {
        None | Some("" | "off") => Ok(None),
        Some("enforce") => {
            Ok(Some(Ceiling { level: Level::ProcessExec, roots: Some(roots), ..Ceiling::default() }))
        }
        Some(other) => Err(format!("{SANDBOX} must be `enforce` or `off`, got `{other}`")),
    }
}

/// Builds the VM and compiles the program.
fn prepare(
    state: &Rc<MachineState>,
    options: MachineOptions,
    output: &Arc<Mutex<Output>>,
    interrupt: &ProgramInterrupt,
) -> Result<(Rc<Vm>, Instance), Box<Failure>> {
    let MachineOptions { source, argv, task, globals, mocks, env, capture, project } = options;
    let rejected = |why: String| Failure::plain("runtime", why);
    let system: Rc<dyn System> =
        Rc::new(MachineSystem { real: Real::new(), env, output: capture.then(|| output.clone()) });
    let manifest = if project { Settings::manifest(&*system, &source.dir) } else { None };
    if manifest.is_some()
        && let Some(problem) = Settings::unparsable(&*system, &source.dir)
    {
        return Err(rejected(problem.diagnostic.message));
    }
    let root = manifest.and_then(|path| path.parent().map(Path::to_owned));
    // The process decides, not `env`, which may come from an untrusted source.
    let process = Real::new().env(SANDBOX);
    let roots = [Some(system.work_dir()), root.clone()].into_iter().flatten().collect();
    let ceiling = sandbox(process.as_deref(), roots).map_err(rejected)?;
    let root = root.map_or(Value::NIL, |root| Value::str(&root.display().to_string()));
    let task = task.map_or(Value::NIL, Value::from);
    let context: Dict =
        [("task", task), ("project_root", root), ("task_type", Value::NIL)].into_iter().collect();
    let argv: Vec<Value> = argv.iter().map(|arg| Value::str(arg)).collect();
    let mut builder =
        vm_builder(system).global("argv", Value::from(argv)).global("context", Value::dict(context));
    if let Some(ceiling) = ceiling {
        builder = builder.limit(ceiling);
    }
    let vm = builder.build();
    interrupt.connect(vm.interrupt());
    for (name, value) in &globals {
        if vm.builtin(name).is_some() {
            let why = format!("globals: `{name}` is a builtin; choose another name");
            return Err(Failure::plain("value", why));
        }
        vm.set_global(name, to_value(state, value).map_err(rejected)?);
    }
    if project {
        install_servers(&vm, &source.dir);
        install_skills(&vm, &source.dir, &[])
            .and_then(|()| configure_sessions(&vm, &source.dir))
            .and_then(|()| configure_event_log(&vm, &source.dir))
            .map_err(rejected)?;
    }
    for mock in &mocks {
        let reply = harn_value::json::to_data(&to_value(state, mock).map_err(rejected)?);
        let reply = reply.map_err(|why| rejected(format!("mocks: {why}")))?;
        llm_runtime(&vm).mock_push(&reply).map_err(|why| Failure::plain("value", why))?;
    }
    let program = load(&vm, &source).map_err(|error| load_failure(&source, &error))?;
    let instance = Instance::new(&vm, program);
    Ok((vm, instance))
}

/// Runs a machine on this thread until it is closed.
fn run_machine(
    state: &Rc<MachineState>,
    options: MachineOptions,
    mut commands: UnboundedReceiver<Command>,
    output: &Arc<Mutex<Output>>,
    ready: Completion,
    interrupt: &ProgramInterrupt,
) {
    let (dir, project) = (options.source.dir.clone(), options.project);
    let (vm, instance) = match prepare(state, options, output, interrupt) {
        Ok(prepared) => prepared,
        Err(failure) => return ready.settle(Err(failure)),
    };
    let instance = Rc::new(instance);
    let served = block_on(async {
        if project {
            if let Err(why) = install_manifest_hooks(&vm, &dir).await {
                return ready.settle(Err(Failure::plain("runtime", why)));
            }
            start_servers(&vm).await;
        }
        ready.settle(Ok(Data::Nil));
        while let Some(command) = commands.recv().await {
            handle(state, &instance, command);
            if state.ended.get() {
                break;
            }
        }
    });
    if let Err(error) = served {
        // `ready` was dropped with the future, so the reason is only in the output.
        vm.system().write_err(&format!("error: cannot start the event loop: {error}\n"));
    }
}

fn handle(state: &Rc<MachineState>, instance: &Rc<Instance>, command: Command) {
    match command {
        Command::Begin(done) => {
            let (ended, top_level) = oneshot::channel();
            *state.top_level.borrow_mut() = Some(top_level);
            let (state, instance) = (state.clone(), instance.clone());
            harn_vm::spawn(async move {
                let result = instance.begin().await;
                done.settle(state.outcome(instance.vm(), result));
                drop(ended);
            });
        }
        Command::Call { call, target, args, done } => match start(state, instance, &target, &args) {
            Err(failure) => done.settle(Err(failure)),
            Ok(None) => done.settle(Ok(Data::Nil)),
            Ok(Some(running)) => {
                state.calls.borrow_mut().insert(call, running.clone());
                let (state, instance) = (state.clone(), instance.clone());
                let is_pipeline = matches!(target, Target::Pipeline(..));
                harn_vm::spawn(async move {
                    let result = running.result().await;
                    state.calls.borrow_mut().remove(&call);
                    let outcome = state.outcome(instance.vm(), result);
                    done.settle(if is_pipeline {
                        outcome.map(|data| Data::List(vec![data]))
                    } else {
                        outcome
                    });
                });
            }
        },
        Command::Exports(done) => {
            let names = instance.exports().map(|name| Data::Str(name.to_owned()));
            done.settle(Ok(Data::List(names.collect())));
        }
        Command::Abort(call) => {
            if let Some(call) = state.calls.borrow().get(&call) {
                call.abort();
            }
        }
        Command::Release(id) => {
            let value = state.exported.borrow_mut().remove(&id);
            // Dropping it may release further values, which borrows the map again.
            drop(value);
        }
        Command::Close(done) => {
            let (state, instance) = (state.clone(), instance.clone());
            harn_vm::spawn(async move {
                let running: Vec<harn_vm::Call> = state.calls.borrow().values().cloned().collect();
                running.iter().for_each(harn_vm::Call::abort);
                let top_level = state.top_level.take();
                if let Some(top_level) = top_level {
                    // `Machine::interrupt_top_level` interrupts it. The sender is dropped without a message.
                    let _ = top_level.await;
                }
                let ended = instance.end().await;
                let mut outcome = state.outcome(instance.vm(), ended.map(|()| Value::NIL));
                if let (Ok(_), Some(why)) = (&outcome, unwritten_calls(instance.vm())) {
                    outcome = Err(Failure::plain("runtime", why));
                }
                state.closing.borrow_mut().push((done, outcome));
                state.ended.set(true);
                state.commands.send(Command::End);
            });
        }
        Command::End => {}
    }
}

/// Starts a call. Returns `None` if there is no pipeline to call.
fn start(
    state: &Rc<MachineState>,
    instance: &Instance,
    target: &Target,
    args: &[Data],
) -> Result<Option<harn_vm::Call>, Box<Failure>> {
    let invalid = |why: String| Failure::plain("value", why);
    if let Target::Pipeline(entry, parameters) = target {
        let value = |(name, data): &(String, Data)| to_value(state, data).map(|value| (name.clone(), value));
        let parameters: Vec<_> = parameters.iter().map(value).collect::<Result<_, _>>().map_err(invalid)?;
        let started = instance.pipeline(entry.as_deref(), &parameters);
        return started.map_err(|error| state.failure(instance.vm(), &error));
    }
    let values: Vec<Value> =
        args.iter().map(|arg| to_value(state, arg)).collect::<Result<_, _>>().map_err(invalid)?;
    let function = match target {
        Target::Export(name) => instance.export(name).ok_or_else(|| {
            let known: Vec<&str> = instance.exports().collect();
            let known = if known.is_empty() { "nothing".to_owned() } else { known.join(", ") };
            Failure::plain("name", format!("the program exports no '{name}'; it exports {known}"))
        })?,
        Target::Builtin(name) => {
            let unknown = || Failure::plain("name", format!("unknown builtin '{name}'"));
            instance.vm().builtin(name).ok_or_else(unknown)?.value()
        }
        Target::Remote(remote) => state.lookup(remote).map_err(invalid)?,
        Target::NextItem(remote) => {
            return Ok(Some(instance.next(&state.lookup(remote).map_err(invalid)?)));
        }
        Target::Pipeline(..) => return Ok(None),
    };
    Ok(Some(instance.call(&function, values)))
}

/// A running machine.
struct Running {
    commands: CommandSender,
    interrupt: Arc<ProgramInterrupt>,
}

/// The machines whose threads have not ended, by their number.
static RUNNING: Mutex<Option<HashMap<u64, Running>>> = Mutex::new(None);
static ENDED: Condvar = Condvar::new();

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps a machine in [`RUNNING`] while its thread runs.
struct Registration(u64);

impl Registration {
    fn new(id: u64, running: Running) -> Registration {
        locked(&RUNNING).get_or_insert_default().insert(id, running);
        Registration(id)
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let ended = locked(&RUNNING).as_mut().and_then(|running| running.remove(&self.0));
        drop(ended);
        ENDED.notify_all();
    }
}

/// Returns the number of machines whose threads have not ended.
pub fn running_machines() -> usize {
    locked(&RUNNING).as_ref().map_or(0, HashMap::len)
}

/// Interrupts and closes all machines, and waits at most `timeout` for their threads. Returns whether all have ended.
pub fn close_all(timeout: Duration) -> bool {
    let running = locked(&RUNNING);
    for machine in running.iter().flat_map(HashMap::values) {
        machine.interrupt.interrupt();
        machine.commands.send(Command::Close(Completion::with_slot().0));
    }
    wait_ended(running, timeout, |running| !running.is_empty())
}

/// Waits at most `timeout` while `some_run` is true. Returns whether it is false.
fn wait_ended(
    running: MutexGuard<'_, Option<HashMap<u64, Running>>>,
    timeout: Duration,
    some_run: impl Fn(&HashMap<u64, Running>) -> bool,
) -> bool {
    let condition = |running: &mut Option<HashMap<u64, Running>>| running.as_ref().is_some_and(&some_run);
    let waited = ENDED.wait_timeout_while(running, timeout, condition);
    !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
}

/// Forgets all machines after a fork: their threads belong to the parent process.
pub fn forget_all() {
    if let Some(running) = locked(&RUNNING).take() {
        std::mem::forget(running);
    }
}

/// A program on its own thread. Dropping it closes the program.
pub struct Machine {
    id: u64,
    commands: CommandSender,
    output: Arc<Mutex<Output>>,
    ready: Arc<ResultSlot>,
    interrupt: Arc<ProgramInterrupt>,
    top_level: Mutex<Option<Arc<ResultSlot>>>,
}

impl Machine {
    /// Starts the thread, which compiles the program: see [`Machine::ready`].
    ///
    /// # Errors
    /// The system cannot start a thread.
    pub fn start(options: MachineOptions) -> io::Result<Machine> {
        let (id, (sender, receiver)) = (new_id(), unbounded_channel());
        let ((done, ready), commands) = (Completion::with_slot(), CommandSender(sender));
        let (output, interrupt) = (Arc::<Mutex<Output>>::default(), Arc::<ProgramInterrupt>::default());
        let machine = Machine {
            id,
            commands: commands.clone(),
            output: output.clone(),
            ready,
            interrupt: interrupt.clone(),
            top_level: Mutex::default(),
        };
        let running = Running { commands: commands.clone(), interrupt: interrupt.clone() };
        let registration = Registration::new(id, running);
        let run = move || {
            let state = MachineState::new(id, commands);
            run_machine(&state, options, receiver, &output, done, &interrupt);
            state.exported.take();
            let closing = state.closing.take();
            drop((state, registration));
            closing.into_iter().for_each(|(done, outcome)| done.settle(outcome));
        };
        std::thread::Builder::new().name("harn".to_owned()).stack_size(STACK).spawn(run)?;
        Ok(machine)
    }

    fn program_call(&self, command: impl FnOnce(Completion) -> Command) -> Pending {
        let (done, slot) = Completion::with_slot();
        self.commands.send(command(done));
        Pending { slot, target: CancelTarget::Program(self.interrupt.clone()) }
    }

    /// Completes when the program is compiled.
    pub fn ready(&self) -> Pending {
        Pending { slot: self.ready.clone(), target: CancelTarget::Program(self.interrupt.clone()) }
    }

    /// Runs the top level.
    pub fn begin(&self) -> Pending {
        let pending = self.program_call(Command::Begin);
        *locked(&self.top_level) = Some(pending.slot.clone());
        pending
    }

    /// Interrupts the top level if it is running. A top level without tasks never yields, so no command reaches its
    /// thread.
    fn interrupt_top_level(&self) {
        let top_level = locked(&self.top_level).take();
        if top_level.is_some_and(|slot| !slot.wait(Duration::ZERO)) {
            self.interrupt.interrupt();
        }
    }

    /// Runs a pipeline: see [`Target::Pipeline`].
    pub fn pipeline(&self, entry: Option<String>, parameters: Vec<(String, Data)>) -> Pending {
        let target = Target::Pipeline(entry, parameters);
        self.program_call(|done| Command::Call { call: new_id(), target, args: Vec::new(), done })
    }

    /// Calls an exported function.
    pub fn call(&self, name: String, args: Vec<Data>) -> Pending {
        self.commands.call(Target::Export(name), args)
    }

    /// Calls a builtin.
    pub fn builtin(&self, name: String, args: Vec<Data>) -> Pending {
        self.commands.call(Target::Builtin(name), args)
    }

    /// Lists the exported names.
    pub fn exports(&self) -> Pending {
        self.program_call(Command::Exports)
    }

    /// Returns the captured output so far: standard output and standard error.
    pub fn output(&self) -> (String, String) {
        let output = locked(&self.output);
        (output.out.clone(), output.err.clone())
    }

    /// Returns whether the program has not ended.
    pub fn is_running(&self) -> bool {
        !self.wait_ended(Duration::ZERO)
    }

    /// Waits at most `timeout` for the end of the program. Returns whether it has ended.
    pub fn wait_ended(&self, timeout: Duration) -> bool {
        wait_ended(locked(&RUNNING), timeout, |running| running.contains_key(&self.id))
    }

    /// Ends the program and its thread: tasks are cancelled, cleanup runs.
    pub fn close(&self) -> Pending {
        self.interrupt_top_level();
        self.program_call(Command::Close)
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.interrupt_top_level();
        self.commands.send(Command::Close(Completion::with_slot().0));
    }
}

/// Reads the source of a program as the command line does.
///
/// # Errors
/// `Error reading PATH: …`
pub fn read_source(path: &Path) -> Result<Source, String> {
    harn_vm::read_source(&Real::new(), &path.display().to_string())
}

/// Returns the working directory, for programs without a file.
pub fn work_dir() -> PathBuf {
    Real::new().work_dir()
}
