//! Running programs: from a loaded program to its outcome, and REPL sessions.

use std::rc::Rc;

use harn_syntax::Span;
use harn_system::System;
use harn_value::{Str, Value};
use rustc_hash::FxHashMap;

use crate::bytecode::Proto;
use crate::closure::Closure;
use crate::compile::{self, Mode, ModuleScope};
use crate::cx::Cx;
use crate::error::{Error, ErrorKind, Result, TraceEntry};
use crate::failures::TaskFaults;
use crate::fiber::Fiber;
use crate::modules::{LoadError, Program, Source, Step};
use crate::spans::{OpenSpan, SpanKind};
use crate::task::Task;
use crate::vm::Vm;

/// How a program ended.
pub struct Outcome {
    /// The value of the entry pipeline or of a script's top-level `return`, or the error.
    pub result: Result<Value>,
}

impl Outcome {
    /// Returns the exit code of the contract, and a line for standard error if the result is an `Err`.
    pub fn exit_code(&self) -> (i32, Option<String>) {
        match &self.result {
            Ok(value) => match (value.as_int(), crate::concurrency::as_result(value)) {
                (Some(n), _) => (n.clamp(0, 255) as i32, None),
                (_, Some(Err(payload))) => {
                    let text = harn_value::short(&payload, crate::error::LONG);
                    (1, Some(if text.is_empty() { "error".to_owned() } else { text }))
                }
                _ => (0, None),
            },
            Err(error) => match error.kind() {
                ErrorKind::Exit(code) => (code.rem_euclid(256), None),
                ErrorKind::Abort => (130, None),
                _ => (1, None),
            },
        }
    }
}

pub(crate) fn root_task(vm: &Vm) -> Rc<Task> {
    let task = Task::root(vm.system().clone(), vm.module_globals(0));
    vm.gate().enter(&task);
    task
}

pub(crate) async fn call(vm: &Rc<Vm>, task: &Rc<Task>, proto: &Rc<Proto>, args: Vec<Value>) -> Result<Value> {
    let callee = Closure::value(proto.clone(), Box::default());
    Fiber::new(vm, task, callee, args).await
}

/// Returns the error of a step that fails, with its location.
pub(crate) fn fail(vm: &Vm, text: &str, module: u32, span: Span) -> Error {
    let mut error = Error::runtime(text);
    let file = vm.source(module).map_or_else(|| "".into(), |(file, _)| file);
    error.push_trace(TraceEntry { function: "pipeline".to_owned(), file, module, span });
    error
}

/// Warns about the tasks that are cancelled by the end of the program, whose work is not completed.
fn tell_unfinished(vm: &Vm, task: &Task) {
    let mut places: Vec<((u32, u32), usize)> = Vec::new();
    for place in task.running_spawns() {
        match places.iter_mut().find(|(known, _)| *known == place) {
            Some((_, count)) => *count += 1,
            None => places.push((place, 1)),
        }
    }
    for ((module, offset), count) in places {
        let Some((file, line)) = vm.line_of(module, offset) else { continue };
        let tasks = if count == 1 { "task".to_owned() } else { format!("{count} tasks") };
        let was = if count == 1 { "was" } else { "were" };
        vm.state::<TaskFaults>().note(|| {
            let text = format!(
                "{tasks} spawned at {file}:{line} still ran at the end; await it or use a supervisor"
            );
            fail(vm, &text, module, Span::at(offset))
        });
        vm.system.write_err(&harn_syntax::notice(&format!(
            "warning: {tasks} spawned at {file}:{line} {was} cancelled because the program ended; await it or use a supervisor"
        )));
    }
}

/// Ends a program: stops its tasks, then runs the cleanup of suspended generators, youngest first.
pub(crate) async fn end(vm: &Rc<Vm>, task: &Rc<Task>, mut result: Result<Value>) -> Result<Value> {
    Cx::new(vm.clone(), task.clone()).end_children().await;
    loop {
        if vm.cleanups.waiting() {
            let cleaned = Fiber::for_cleanup(vm, task).await;
            result = result.and_then(|value| cleaned.map(|_| value));
        } else if !vm.cleanups.abandon_youngest() {
            return result;
        }
    }
}

impl Program {
    /// Runs the program in `vm`, which must be the VM that loaded it; in another one it ends with a type error.
    /// `entry` names the pipeline to run instead of the default one; `args` supplies pipeline parameters by name
    /// (others are nil).
    pub async fn run(&self, vm: &Rc<Vm>, entry: Option<&str>, args: &[(&str, Value)]) -> Outcome {
        if let Err(error) = self.check_vm(vm) {
            return Outcome { result: Err(error) };
        }
        let task = root_task(vm);
        let result = self.run_in(vm, &task, entry, args).await;
        let result = task.ending(result);
        if !matches!(&result, Err(error) if matches!(error.kind(), ErrorKind::Abort)) {
            tell_unfinished(vm, &task);
        }
        let result = end(vm, &task, result).await;
        let flushed = vm.system.flush();
        Outcome {
            result: match (flushed, result) {
                (Err(error), Ok(_)) => Err(Error::output(&error)),
                // An `exit` code must not hide that output was lost.
                (Err(error), Err(end))
                    if error.kind() != std::io::ErrorKind::BrokenPipe
                        && matches!(end.kind(), ErrorKind::Exit(_)) =>
                {
                    Err(Error::output(&error))
                }
                (_, result) => result,
            },
        }
    }

    /// Returns the name of the first parameter of the named or default pipeline.
    pub fn first_parameter(&self, entry: Option<&str>) -> Option<&str> {
        let (_, proto) = self.pipeline(entry).ok()??;
        proto.param_names.first().map(String::as_str)
    }

    /// Returns name and code of the named or default pipeline; `None` if the program has no pipeline.
    pub(crate) fn pipeline(&self, entry: Option<&str>) -> Result<Option<(&str, &Rc<Proto>)>> {
        let found = match entry {
            Some(name) => match self.pipelines.iter().find(|(n, _)| n == name) {
                Some(found) => Some(found),
                None => return Err(Error::runtime(format!("no pipeline named '{name}'"))),
            },
            None => self.pipelines.iter().find(|(n, _)| n == "default").or(self.pipelines.first()),
        };
        Ok(found.map(|(name, proto)| (name.as_str(), proto)))
    }

    async fn run_in(
        &self,
        vm: &Rc<Vm>,
        task: &Rc<Task>,
        entry: Option<&str>,
        args: &[(&str, Value)],
    ) -> Result<Value> {
        let mut last = Value::NIL;
        for (number, step) in self.steps.iter().enumerate() {
            match step {
                Step::Run(proto) => {
                    // The last step is the program itself.
                    let imported = number + 1 < self.steps.len();
                    let _span = imported.then(|| import_span(vm, task, proto));
                    last = call(vm, task, proto, Vec::new()).await?;
                }
                Step::Fail { text, module, span } => return Err(fail(vm, text, *module, *span)),
            }
        }
        let Some((name, proto)) = self.pipeline(entry)? else { return Ok(last) };
        let values = proto
            .param_names
            .iter()
            .map(|name| args.iter().find(|(n, _)| n == name).map_or(Value::NIL, |(_, v)| v.clone()))
            .collect();
        let _span = vm.span_in(task, SpanKind::Pipeline, || Str::new(name));
        call(vm, task, proto, values).await
    }
}

/// Opens the tracing span of the top level of an imported file.
fn import_span(vm: &Rc<Vm>, task: &Rc<Task>, main: &Proto) -> Option<OpenSpan> {
    vm.span_in(task, SpanKind::Import, || Str::new(&main.file))
}

/// A REPL session: inputs share variables, functions and types.
pub struct Session {
    vm: Rc<Vm>,
    task: Rc<Task>,
    scope: ModuleScope,
    count: usize,
}

impl Session {
    /// Creates an empty session.
    pub fn new(vm: &Rc<Vm>) -> Session {
        let id = vm.new_module("<repl>", "");
        let scope = ModuleScope {
            id,
            source: id,
            file: "<repl>".into(),
            names: FxHashMap::default(),
            has_pipelines: false,
        };
        Session { vm: vm.clone(), task: root_task(vm), scope, count: 0 }
    }

    /// Returns the names declared so far, in alphabetical order.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.scope.names.keys().map(ToString::to_string).collect();
        names.sort();
        names
    }

    /// Evaluates an input; returns the value of its last expression.
    ///
    /// # Errors
    /// Syntax and compile errors; [`EvalError::Run`] for errors of the running input. The session stays usable after
    /// an error.
    pub async fn eval(&mut self, text: &str) -> Result<Value, EvalError> {
        let parsed = harn_syntax::parse(text);
        if !parsed.errors.is_empty() {
            return Err(EvalError::Load(LoadError::Syntax(parsed.errors)));
        }
        self.count += 1;
        let name = format!("<repl:{}>", self.count);
        self.scope.source = self.vm.new_module(&name, text);
        self.scope.file = name.as_str().into();
        let mut imports = Vec::new();
        if parsed.program.imports().next().is_some() {
            let only: String =
                parsed.program.imports().map(|i| format!("{}\n", i.span.slice(text))).collect();
            imports =
                crate::modules::load_imports(&self.vm, &only, &mut self.scope).map_err(EvalError::Load)?;
        }
        compile::declare(&self.vm, &parsed.program, &mut self.scope, true);
        self.scope.know_types(&self.vm);
        let compiled = compile::compile(
            &self.vm,
            &parsed.program,
            &self.scope,
            &FxHashMap::default(),
            Mode::Interactive,
            true,
        )
        .map_err(|errors| EvalError::Load(LoadError::Compile(errors)))?;
        for step in &imports {
            match step {
                Step::Run(proto) => {
                    let _span = import_span(&self.vm, &self.task, proto);
                    drop(call(&self.vm, &self.task, proto, Vec::new()).await.map_err(EvalError::Run)?);
                }
                Step::Fail { text, .. } => return Err(EvalError::Run(Error::runtime(text.clone()))),
            }
        }
        let result = call(&self.vm, &self.task, &compiled.main, Vec::new()).await;
        let _ = self.vm.system.flush();
        self.task.ending(result).map_err(EvalError::Run)
    }

    /// Ends the session: stops its tasks and runs the cleanup of suspended generators.
    ///
    /// # Errors
    /// An `exit` in cleanup.
    pub async fn end(&mut self) -> Result<()> {
        let result = end(&self.vm, &self.task, Ok(Value::NIL)).await;
        let _ = self.vm.system.flush();
        result.map(drop)
    }
}

/// Why an input could not be evaluated.
#[derive(Debug)]
pub enum EvalError {
    /// It cannot be compiled.
    Load(LoadError),
    /// It failed while running.
    Run(Error),
}

impl std::fmt::Display for EvalError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            EvalError::Load(error) => error.fmt(f),
            EvalError::Run(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for EvalError {}

/// Maximum size of a program file in bytes.
pub const MAX_SOURCE: u64 = harn_front::MAX_BYTES;

/// Reads a source file of at most [`MAX_SOURCE`] bytes.
///
/// # Errors
/// The message `Error reading PATH: ...`.
pub fn read_source(system: &dyn System, path: &str) -> std::result::Result<Source, String> {
    let bytes = system.read(std::path::Path::new(path), MAX_SOURCE);
    let bytes = bytes.map_err(|e| format!("Error reading {path}: {e}"))?;
    let text = String::from_utf8(bytes).map_err(|e| {
        format!("Error reading {path}: not valid UTF-8 text (byte {})", e.utf8_error().valid_up_to())
    })?;
    let dir = std::path::Path::new(path).parent().map(std::path::PathBuf::from).unwrap_or_default();
    Ok(Source { name: path.to_owned(), text, dir })
}
