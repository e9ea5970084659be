//! Running programs: from a loaded program to its outcome, and REPL sessions.

use std::rc::Rc;

use harn_syntax::{Diagnostic, SourceFile, Span};
use harn_system::System;
use harn_value::Value;
use rustc_hash::FxHashMap;

use crate::bytecode::Proto;
use crate::closure::Closure;
use crate::compile::{self, Mode, ModuleScope};
use crate::cx::Cx;
use crate::error::{Error, ErrorKind, Result, TraceEntry};
use crate::fiber::Fiber;
use crate::modules::{LoadError, Program, Source, Step};
use crate::task::Task;
use crate::vm::Vm;

/// How a program ended.
pub struct Outcome {
    /// The value of the entry pipeline, or of a script's top-level `return`; or the error.
    pub result: Result<Value>,
}

impl Outcome {
    /// The exit code of the contract, and a line for standard error in the case of an `Err` result.
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

/// The error of a step that cannot be run.
pub(crate) fn fail(vm: &Vm, text: &str, module: u32, span: Span) -> Error {
    let mut error = Error::runtime(text);
    let file = vm.source(module).map_or_else(|| "".into(), |(file, _)| file);
    error.push_trace(TraceEntry { function: "pipeline".to_owned(), file, module, span });
    error
}

/// The end of a program: its tasks stop, and generators that are suspended run their cleanup, the youngest first.
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
    /// Runs the program. `entry` names the pipeline to run instead of the usual one; `args` supplies
    /// pipeline parameters by name (others are nil).
    pub async fn run(&self, vm: &Rc<Vm>, entry: Option<&str>, args: &[(&str, Value)]) -> Outcome {
        let task = root_task(vm);
        let result = self.run_in(vm, &task, entry, args).await;
        let result = task.ending(result);
        let result = end(vm, &task, result).await;
        let flushed = vm.system.flush();
        Outcome {
            result: match (flushed, result) {
                (Err(error), Ok(_)) => Err(Error::output(&error)),
                // A program that chose its exit code did not choose to lose what it had printed.
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

    /// The name of the first parameter of the pipeline of a name, or of the one that runs when none is named.
    pub fn first_parameter(&self, entry: Option<&str>) -> Option<&str> {
        let (_, proto) = self.pipeline(entry).ok()??;
        proto.param_names.first().map(String::as_str)
    }

    /// Name and code of the pipeline of a name, or the one that runs when none is named; nothing when there is none.
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
        for step in &self.steps {
            match step {
                Step::Run(proto) => last = call(vm, task, proto, Vec::new()).await?,
                Step::Fail { text, module, span } => return Err(fail(vm, text, *module, *span)),
            }
        }
        let Some((_, proto)) = self.pipeline(entry)? else { return Ok(last) };
        let values = proto
            .param_names
            .iter()
            .map(|name| args.iter().find(|(n, _)| n == name).map_or(Value::NIL, |(_, v)| v.clone()))
            .collect();
        call(vm, task, proto, values).await
    }
}

/// A REPL session: inputs share variables, functions and types.
pub struct Session {
    vm: Rc<Vm>,
    task: Rc<Task>,
    scope: ModuleScope,
    count: usize,
}

impl Session {
    /// An empty session.
    pub fn new(vm: &Rc<Vm>) -> Session {
        let id = vm.new_module("<repl>", "");
        let scope = ModuleScope {
            id,
            source: id,
            file: "<repl>".into(),
            names: FxHashMap::default(),
            aliases: FxHashMap::default(),
            has_pipelines: false,
        };
        Session { vm: vm.clone(), task: root_task(vm), scope, count: 0 }
    }

    /// Names declared so far, in alphabetical order.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.scope.names.keys().map(ToString::to_string).collect();
        names.sort();
        names
    }

    /// Evaluates an input. Its value is that of the last expression.
    ///
    /// # Errors
    /// Syntax and compile errors; [`EvalError::Run`] for errors of the running input. The session stays
    /// usable after any of them.
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
                    drop(call(&self.vm, &self.task, proto, Vec::new()).await.map_err(EvalError::Run)?)
                }
                Step::Fail { text, .. } => return Err(EvalError::Run(Error::runtime(text.clone()))),
            }
        }
        let result = call(&self.vm, &self.task, &compiled.main, Vec::new()).await;
        let _ = self.vm.system.flush();
        self.task.ending(result).map_err(EvalError::Run)
    }

    /// Ends the session: its tasks stop, and generators that are suspended run their cleanup.
    ///
    /// # Errors
    /// What ends a program (`exit`) in cleanup.
    pub async fn end(&mut self) -> Result<()> {
        let result = end(&self.vm, &self.task, Ok(Value::NIL)).await;
        let _ = self.vm.system.flush();
        result.map(drop)
    }
}

/// Why an input has no value.
pub enum EvalError {
    /// It cannot be compiled.
    Load(LoadError),
    /// It failed while running.
    Run(Error),
}

/// Frames shown of a deep call stack: the innermost and the outermost.
const SHOWN: (usize, usize) = (20, 10);

/// An uncaught error as a diagnostic, with the file it points into.
pub fn uncaught(vm: &Vm, error: &Error) -> (Diagnostic, Option<SourceFile>) {
    let (declared, place, callers) = error.places();
    let Some(place) = place else {
        return (Diagnostic::error(error.uncaught_text()), None);
    };
    let source = vm.source(place.module).map(|(file, text)| SourceFile::new(&*file, &*text));
    let line = source.as_ref().map(|s| s.line(place.span.start));
    let text = match line {
        Some(line) if error.shows_line() => format!("{} (line {line})", error.uncaught_text()),
        _ => error.uncaught_text(),
    };
    let mut diagnostic = Diagnostic::error(text).at(place.span);
    diagnostic.help = source.as_ref().and_then(|source| advice(vm, error, source, place.span));
    if let Some(declared) = declared {
        let text = "the parameter";
        diagnostic = match vm.source(declared.module) {
            _ if declared.module == place.module => diagnostic.with_label(declared.span, text),
            Some((name, source)) => {
                let file = std::sync::Arc::new(SourceFile::new(&*name, &*source));
                diagnostic.with_label_in(file, declared.span, text)
            }
            None => diagnostic,
        };
    }
    for note in error.notes() {
        diagnostic = diagnostic.with_note(note.clone());
    }
    let shown = |entry: &TraceEntry, name: &str| {
        let line = vm
            .source(entry.module)
            .map_or(0, |(_, text)| harn_syntax::source_map::line_column(&text, entry.span.start).0);
        let _ = name;
        format!("called from {} at {}:{line}", entry.function, entry.file)
    };
    let total = callers.len();
    for (i, entry) in callers.iter().enumerate() {
        if total > SHOWN.0 + SHOWN.1 {
            if i == SHOWN.0 {
                diagnostic = diagnostic.with_note(format!("... {} more frames", total - SHOWN.0 - SHOWN.1));
            }
            if i >= SHOWN.0 && i < total - SHOWN.1 {
                continue;
            }
        }
        diagnostic = diagnostic.with_note(shown(entry, &entry.function));
    }
    (diagnostic, source)
}

/// The way out of errors that people of other languages run into.
fn advice(vm: &Vm, error: &Error, source: &SourceFile, at: Span) -> Option<String> {
    let text = error.uncaught_text();
    let text = text.split_once(": ").map_or(&*text, |(_, rest)| rest);
    if let Some(rest) = text.strip_prefix("Undefined variable: ").or(text.strip_prefix("Undefined builtin: "))
    {
        let name = rest.split(' ').next().unwrap_or(rest);
        return harn_syntax::habits::undefined(name, source.text().get(at.end as usize..)?);
    }
    if let Some(help) = missing_value(text, source, at) {
        return Some(help);
    }
    let (name, type_name) = text.strip_prefix("unknown method `")?.split_once("` on ")?;
    let tables = vm.method_tables().iter().filter(|table| table.type_name == type_name);
    let mut names: Vec<&str> = tables.flat_map(|table| table.methods).map(|method| method.name()).collect();
    names.sort_unstable();
    names.dedup();
    harn_syntax::habits::method_help(name, type_name, &names)
}

/// The way out of errors about a value that is not what was expected: nil, text in place of a dict, a function.
fn missing_value(text: &str, source: &SourceFile, at: Span) -> Option<String> {
    if let Some(rest) = text.strip_prefix("Cannot ")
        && [" nil and ", " nil from ", " nil by "].iter().any(|part| rest.contains(part))
    {
        let line = source.line_text(source.line(at.start)).unwrap_or_default();
        let counted = line.split_once("+=").filter(|(target, _)| target.trim_end().ends_with(']'));
        return Some(match counted {
            Some((target, more)) => {
                let target = target.rsplit(['{', ';', '}']).next().unwrap_or(target).trim();
                let more = more.split(['}', ';']).next().unwrap_or(more).trim();
                format!("what is not there yet is nil: `{target} = ({target} ?? 0) + {more}`")
            }
            None => "what is missing is nil: a value in its place is `value ?? 0`".to_owned(),
        });
    }
    if let Some(name) = text.strip_prefix("cannot access property `")
        && let Some((name, of)) = name.split_once("` on ")
    {
        return match of {
            "nil" => Some(format!(
                "what is missing is nil: `?.{name}` gives nil then, and `value?.{name} ?? other` another value"
            )),
            "string" => Some(format!("the value is text; if it is JSON: `json_parse(text).{name}`")),
            _ => None,
        };
    }
    if text.starts_with("cannot destructure ") && text.contains("(a, b) pattern") {
        return Some(
            "index and value of a list are `for (i, x) in xs.iter().enumerate() { ... }`".to_owned(),
        );
    }
    if text.contains("No match arm matched the value") {
        return Some("an arm for all other values is `_ -> { ... }`, at the end".to_owned());
    }
    if let Some((_, rest)) = text.split_once("process spawn failed: ")
        && let Some(command) = rest.split('`').nth(1).filter(|command| command.contains(' '))
    {
        let words: Vec<String> = command.split_whitespace().map(|word| format!("\"{word}\"")).collect();
        let words = words.join(", ");
        return Some(format!(
            "each argument stands by itself: `exec({words})`; a line of a shell is `shell(\"{command}\")`"
        ));
    }
    if text.starts_with("cannot index into builtin") {
        return Some("this is a function: call it with parentheses, as `env(\"HOME\")`".to_owned());
    }
    let durations = ["duration to dict", "duration from dict", "dict and duration"];
    durations.iter().any(|part| text.contains(part)).then(|| {
        "dates are moved by `date_add(date, -1d)`; two of them are compared by `date_diff(a, b)`".to_owned()
    })
}

/// The largest file that is read as a program.
pub const MAX_SOURCE: u64 = harn_front::MAX_BYTES;

/// A source from a file of at most [`MAX_SOURCE`] bytes.
///
/// # Errors
/// The text for `Error reading PATH: ...`.
pub fn read_source(system: &dyn System, path: &str) -> std::result::Result<Source, String> {
    let bytes = system.read(std::path::Path::new(path), MAX_SOURCE);
    let bytes = bytes.map_err(|e| format!("Error reading {path}: {e}"))?;
    let text = String::from_utf8(bytes).map_err(|e| {
        format!("Error reading {path}: not valid UTF-8 text (byte {})", e.utf8_error().valid_up_to())
    })?;
    let dir = std::path::Path::new(path).parent().map(std::path::PathBuf::from).unwrap_or_default();
    Ok(Source { name: path.to_owned(), text, dir })
}
