//! Programs from text to end: the one place that drives the crates below.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use harn_runtime::ModelTraffic;
use harn_syntax::{Diagnostic, Severity, SourceFile, Span};
use harn_value::{Dict, Value};
use harn_vm::host::{CaptureHost, Host};
use harn_vm::{Error, ErrorKind, Interrupt, Source, Vm, block_on, load};

use crate::conformance::expect::Outcome;
use crate::report::Problem;

/// How inline code is named in messages.
const INLINE: &str = "<inline>";

/// What stands before inline code, which is the body of a pipeline.
const INLINE_HEAD: &str = "pipeline main(task) { ";

/// A program that was read but not yet looked at.
pub(crate) struct Program {
    source: Source,
    /// The text as the user wrote it.
    file: Rc<SourceFile>,
    /// Where [`INLINE_HEAD`] was put in.
    head: Option<u32>,
}

/// What a program is given.
#[derive(Default)]
pub(crate) struct RunOptions {
    /// The list `argv`.
    pub(crate) argv: Vec<String>,
    /// The text of the task.
    pub(crate) task: Option<String>,
    /// Where model calls are answered from, and what of them is kept.
    pub(crate) traffic: ModelTraffic,
}

/// How a program ended.
pub(crate) enum End {
    /// It ran to its end or called `exit`.
    Result {
        /// The exit code.
        code: u8,
        /// The payload of an `Err` result.
        err: Option<String>,
        /// The result for tools.
        value: serde_json::Value,
    },
    /// It was not run.
    Refused(Vec<Problem>),
    /// An uncaught error.
    Failed(Box<Problem>),
    /// It was interrupted.
    Stopped,
}

impl Program {
    /// Reads a file, or standard input for `-`.
    ///
    /// # Errors
    /// `Error reading <path>: <reason>`
    pub(crate) fn read(path: &Path) -> Result<Program, String> {
        let name = path.display().to_string();
        let bytes = if name == "-" {
            let mut bytes = Vec::new();
            std::io::Read::read_to_end(&mut std::io::stdin(), &mut bytes).map(|_| bytes)
        } else {
            std::fs::read(path)
        };
        let bytes = bytes.map_err(|e| format!("Error reading {name}: {e}"))?;
        let text = String::from_utf8(bytes).map_err(|e| {
            let at = e.utf8_error().valid_up_to();
            let line = e.as_bytes()[..at].iter().filter(|b| **b == b'\n').count() + 1;
            format!("Error reading {name}: not valid UTF-8 (line {line}, byte {at} of the file)")
        })?;
        let dir = path.parent().map(Path::to_owned).unwrap_or_default();
        Ok(Program {
            file: Rc::new(SourceFile::new(name.clone(), text.clone())),
            source: Source { name, text, dir },
            head: None,
        })
    }

    /// Takes inline code: the body of a pipeline, behind the imports it may begin with.
    pub(crate) fn inline(code: String) -> Program {
        let file = Rc::new(SourceFile::new(INLINE, code.clone()));
        let parsed = harn_syntax::parse(&code);
        let whole = !parsed.errors.is_empty() || parsed.program.pipelines().next().is_some();
        let (text, head) = if whole {
            // Errors are best told about the text as it is; and what has a pipeline is a program already.
            (code, None)
        } else {
            let imports = parsed.program.imports().map(|import| import.span.end).max().unwrap_or(0) as usize;
            let skip = code[imports..].len()
                - code[imports..].trim_start_matches([';', ' ', '\t', '\r', '\n']).len();
            let at = if imports == 0 { 0 } else { imports + skip };
            (format!("{}{INLINE_HEAD}{}\n}}", &code[..at], &code[at..]), Some(at as u32))
        };
        Program { source: Source { name: INLINE.to_owned(), text, dir: PathBuf::new() }, file, head }
    }

    /// A span of the text that runs as one of the text the user wrote.
    fn original(&self, span: Span) -> Span {
        let Some(at) = self.head else { return span };
        let head = INLINE_HEAD.len() as u32;
        let end = self.file.text().len() as u32;
        let back =
            |offset: u32| if offset > at { offset.saturating_sub(head).max(at).min(end) } else { offset };
        Span::new(back(span.start), back(span.end))
    }

    /// A diagnostic about the text that runs as a problem of the text the user wrote.
    fn problem(&self, mut diagnostic: Diagnostic, plain: String) -> Problem {
        diagnostic.span = diagnostic.span.map(|span| self.original(span));
        for (span, _) in &mut diagnostic.labels {
            *span = self.original(*span);
        }
        Problem { diagnostic, file: Some(self.file.clone()), plain, calls: Vec::new() }
    }

    /// An uncaught error, in terms of the text the user wrote.
    fn failure(&self, vm: &Vm, error: &Error) -> Problem {
        let problem = Problem::of_error(vm, error);
        if self.head.is_some() && problem.file.as_ref().is_some_and(|file| file.name() == INLINE) {
            let calls = problem.calls;
            return Problem { calls, ..self.problem(problem.diagnostic, problem.plain) };
        }
        problem
    }

    /// Everything that can be said without running: all syntax errors, or else compile errors, findings and what is
    /// wrong with templates. Also whether the project wants warnings to count as errors.
    pub(crate) fn check(&self) -> (Vec<Problem>, bool) {
        let vm = bare_vm();
        let (settings, complaint) = harn_check::Settings::find(&self.source.dir);
        let complaint = complaint.map(|d| Problem {
            file: None,
            plain: d.message.clone(),
            diagnostic: d,
            calls: Vec::new(),
        });
        let mut problems: Vec<Problem> = complaint.into_iter().collect();
        match self.load(&vm) {
            Ok((program, findings)) => {
                problems.extend(findings);
                let located =
                    harn_check::check_templates(&self.checked(&program), &world(&Names(&vm)), &settings);
                problems.extend(located.into_iter().map(|l| match l.file {
                    None => self.problem(l.diagnostic.clone(), l.diagnostic.message),
                    Some(file) => {
                        let plain = l.diagnostic.message.clone();
                        Problem { diagnostic: l.diagnostic, file: Some(file), plain, calls: Vec::new() }
                    }
                }));
            }
            Err(errors) => problems.extend(errors),
        }
        (problems, settings.strict)
    }

    /// The program as the checker takes it.
    fn checked<'a>(&'a self, program: &'a harn_vm::Program) -> harn_check::Source<'a> {
        harn_check::Source {
            name: &self.source.name,
            dir: &self.source.dir,
            text: &self.source.text,
            tree: &program.tree,
        }
    }

    /// Parses, compiles and checks; gives the program and what was found, or the errors that forbid to compile it.
    fn load(&self, vm: &Rc<Vm>) -> Result<(harn_vm::Program, Vec<Problem>), Vec<Problem>> {
        let program = load(vm, &self.source).map_err(|error| {
            let file = SourceFile::new(self.source.name.clone(), self.source.text.clone());
            let mut plain = error.canonical(&self.source.text);
            error
                .diagnostics(&file)
                .into_iter()
                .map(|d| self.problem(d, std::mem::take(&mut plain)))
                .collect::<Vec<_>>()
        })?;
        let found = harn_check::check_program(&self.checked(&program), &world(&Names(vm)));
        let problems = found.into_iter().map(|d| self.problem(d.clone(), d.message)).collect();
        Ok((program, problems))
    }
}

/// The names of a machine, for the checker.
struct Names<'a>(&'a Vm);

impl harn_check::Signatures for Names<'_> {
    fn is_builtin(&self, name: &str) -> bool {
        self.0.builtin(name).is_some() || self.0.global(name).is_some()
    }

    fn builtin_names(&self) -> Vec<&str> {
        self.0.builtin_names().collect()
    }
}

/// What the checker is told about the machine.
fn world<'a>(names: &'a Names<'a>) -> harn_check::World<'a> {
    harn_check::World {
        signatures: names,
        std_module: harn_runtime::std_module,
        prompt_asset: harn_runtime::prompt_asset,
    }
}

/// A machine for looking things up.
pub(crate) fn bare_vm() -> Rc<Vm> {
    harn_runtime::vm_builder(Box::new(CaptureHost::default())).build()
}

/// A machine for a session that has no file.
pub(crate) fn session_vm(host: Box<dyn Host>) -> Rc<Vm> {
    given(harn_runtime::vm_builder(host), &RunOptions::default()).build()
}

/// Puts in what every program finds: `argv` and `context`.
fn given(builder: harn_vm::VmBuilder, options: &RunOptions) -> harn_vm::VmBuilder {
    let argv: Vec<Value> = options.argv.iter().map(|arg| Value::str(arg)).collect();
    let context: Dict = [("task", task(options)), ("project_root", Value::NIL), ("task_type", Value::NIL)]
        .into_iter()
        .collect();
    builder.global("argv", Value::from(argv)).global("context", Value::dict(context))
}

fn task(options: &RunOptions) -> Value {
    options.task.as_deref().map_or(Value::NIL, Value::str)
}

/// Runs a program. `warn` hears of warnings before it starts; `ready` gets the means to stop it.
pub(crate) fn run(
    program: &Program,
    options: RunOptions,
    host: Box<dyn Host>,
    warn: impl Fn(&Problem),
    ready: impl FnOnce(Interrupt),
) -> End {
    let vm = given(harn_runtime::vm_builder(host), &options).build();
    ready(vm.interrupt().clone());
    let (loaded, warnings) = match program.load(&vm) {
        Ok((_, found)) if found.iter().any(|p| p.diagnostic.severity == Severity::Error) => {
            return End::Refused(found);
        }
        Ok(loaded) => loaded,
        Err(problems) => return End::Refused(problems),
    };
    if let Err(text) = options.traffic.apply(&vm) {
        return End::Refused(vec![Problem::general(text)]);
    }
    warnings.iter().for_each(warn);
    let outcome = match block_on(loaded.run(&vm, None, &[("task", task(&options))])) {
        Ok(outcome) => outcome,
        Err(error) => {
            return End::Refused(vec![Problem::general(format!("cannot start the event loop: {error}"))]);
        }
    };
    if let Some(text) = options.traffic.leftovers(&vm) {
        vm.host().write_err(&format!("warning: {text}\n"));
    }
    let (code, err) = outcome.exit_code();
    match &outcome.result {
        Ok(value) => End::Result { code: code as u8, err, value: harn_value::json::to_serde(value) },
        Err(error) => match error.kind() {
            ErrorKind::Exit(code) => {
                End::Result { code: (*code).clamp(0, 255) as u8, err: None, value: serde_json::Value::Null }
            }
            ErrorKind::Abort => End::Stopped,
            _ => End::Failed(Box::new(program.failure(&vm, error))),
        },
    }
}

/// The host of a conformance case: output is collected, real model calls are off.
#[derive(Clone, Default)]
struct CaseHost(Rc<RefCell<String>>);

impl Host for CaseHost {
    fn write_out(&self, text: &str) -> std::io::Result<()> {
        self.0.borrow_mut().push_str(text);
        Ok(())
    }

    fn write_err(&self, _text: &str) {}

    fn read_line(&self) -> std::io::Result<Option<String>> {
        Ok(None)
    }

    fn env(&self, name: &str) -> Option<String> {
        // What a case says about models must not depend on who runs it.
        let about_models =
            ["HARN_LLM_", "HARN_DEFAULT_PROVIDER", "LLM_PROVIDER", "LOCAL_LLM_", "OLLAMA_", "AWS_"];
        match name {
            "HARN_LLM_CALLS_DISABLED" => Some("1".to_owned()),
            "HARN_PROVIDERS_CONFIG" => None,
            _ if about_models.iter().any(|start| name.starts_with(start)) => None,
            _ if name.ends_with("_API_KEY") || name.ends_with("_TOKEN") => None,
            _ => std::env::var(name).ok(),
        }
    }
}

/// Runs a conformance case.
///
/// # Errors
/// A sentence when the program cannot be read.
pub(crate) fn run_captured(
    path: &Path,
    mock: Option<&Path>,
    ready: impl FnOnce(&Interrupt),
) -> Result<Outcome, String> {
    let program = Program::read(path)?;
    let host = CaseHost::default();
    let warnings = RefCell::new(String::new());
    let end = run(
        &program,
        RunOptions {
            traffic: ModelTraffic { replies: mock.map(Path::to_owned), ..ModelTraffic::default() },
            ..RunOptions::default()
        },
        Box::new(host.clone()),
        |problem| warnings.borrow_mut().push_str(&format!("warning: {}\n", problem.diagnostic.message)),
        |interrupt| ready(&interrupt),
    );
    let output = warnings.into_inner() + &host.0.borrow();
    let error = match end {
        End::Result { .. } => None,
        End::Refused(problems) => {
            let first = problems.into_iter().find(|p| p.diagnostic.severity == Severity::Error);
            Some(first.map_or_else(String::new, |p| p.plain))
        }
        End::Failed(problem) => Some(problem.plain),
        End::Stopped => Some("interrupted".to_owned()),
    };
    Ok(Outcome { output, error })
}
