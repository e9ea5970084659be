//! Loading and running programs. This module alone drives the crates below.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use harn_check::{Quiet, Settings};
use harn_journal::{Journal, Place, Reins};
use harn_runtime::{Generation, ModelTraffic};
use harn_syntax::ast::{Function, Stmt, StmtKind, TypeParam};
use harn_syntax::visit::{self, Visitor};
use harn_syntax::{Diagnostic, Severity, SourceFile, Span};
use harn_system::{Ceiling, Level, Memory, Real, System, SystemExt};
use harn_value::{Dict, Value};
use harn_vm::{ErrorKind, Interrupt, LoadError, Source, Vm, block_on, block_on_with};

use crate::at_once::AtOnce;
use crate::profile::{Profile, Stage};
use crate::report::Problem;
use crate::signal;
use crate::surroundings::with_task;

/// The name of inline code in messages.
const INLINE: &str = "<inline>";

/// The code inserted before inline code to make it the body of a pipeline.
const INLINE_HEAD: &str = "pipeline main(task) { ";

/// A program whose source was read but not checked.
pub(crate) struct Program {
    source: Source,
    /// The source as the user wrote it.
    file: Arc<SourceFile>,
    /// Offset at which [`INLINE_HEAD`] was inserted.
    head: Option<u32>,
    /// Whether the value of the last expression is printed: inline code without a `return`.
    shows: bool,
}

/// An observer of a run's events. It receives the type of an event and its fields.
pub(crate) type Witness = Box<dyn Fn(&str, harn_value::Data)>;

/// The settings of a run.
#[derive(Default)]
pub(crate) struct RunOptions {
    /// The list `argv`.
    pub(crate) argv: Vec<String>,
    /// The task of the program.
    pub(crate) task: Option<String>,
    /// The pipeline to run instead of the default one.
    pub(crate) entry: Option<String>,
    /// Directories of skills that take precedence over all others.
    pub(crate) skills: Vec<PathBuf>,
    /// The source of model replies, and the recording of model calls.
    pub(crate) traffic: ModelTraffic,
    /// The directory that relative names of source files refer to, if it is not the working directory of the program.
    pub(crate) source_base: Option<PathBuf>,
    /// The builtins that the program may call.
    pub(crate) names: Option<harn_vm::Names>,
    /// The sandbox level. With one, file access is limited to the working directory and the project.
    pub(crate) sandbox: Option<Level>,
    /// Whether to print a summary of model calls on standard error at the end.
    pub(crate) trace: bool,
    /// Measures the duration of each stage.
    pub(crate) profile: Option<Profile>,
    /// Records or replays a journal. It is also the system of the run.
    pub(crate) journal: Option<Journal>,
    /// Is called before every statement.
    pub(crate) observer: Option<Rc<dyn harn_vm::Observer>>,
    /// Receives events of model calls, tool calls and hooks.
    pub(crate) witness: Option<Witness>,
    /// The generation of a program that may use `continue_as_new`. The caller must handle [`End::Anew`].
    pub(crate) generation: Option<Generation>,
    /// Makes the run a dry run without models, and receives every call.
    pub(crate) watch: Option<Box<dyn FnMut(harn_runtime::SentCall)>>,
    /// Receives the usage at the end of the run.
    pub(crate) usage: Rc<std::cell::Cell<crate::health::Usage>>,
    /// Whether the program fails if a task failed without being awaited or still runs at the end.
    pub(crate) tasks_must_end: bool,
}

/// Searches for a `return` at the top level of the program, whose value is an exit code.
struct Returns(bool);

impl Returns {
    fn in_program(program: &harn_syntax::ast::Program) -> bool {
        let mut search = Returns(false);
        search.stmts(&program.items);
        search.0
    }
}

impl<'a> Visitor<'a> for Returns {
    fn stmt(&mut self, stmt: &'a Stmt) {
        self.0 |= matches!(stmt.kind, StmtKind::Return(_));
        visit::walk_stmt(self, stmt);
    }

    fn function(&mut self, _func: &'a Function, _type_params: &'a [TypeParam]) {}
}

/// How a program ended.
pub(crate) enum End {
    /// It ran to its end or called `exit`.
    Result {
        /// The exit code.
        code: u8,
        /// The payload of an `Err` result.
        err: Option<String>,
        /// The result.
        value: Value,
        /// Whether it called `exit`.
        exit: bool,
        /// Whether the program is an expression from the command line: its value is printed and is not an exit code.
        shown: bool,
    },
    /// It continues as new with this state.
    Anew(harn_value::Data),
    /// It was not run because of these problems.
    Refused(Vec<Problem>),
    /// An uncaught error.
    Failed(Box<Problem>),
    /// It was interrupted.
    Stopped,
}

/// Why a program failed.
pub(crate) struct Failure {
    /// An error code for tools.
    pub(crate) code: &'static str,
    /// The message, for users and tools.
    pub(crate) message: String,
    /// The findings or the error.
    pub(crate) problems: Vec<Problem>,
}

impl Failure {
    /// Formats the failure for users. An interruption, which the user requested, has no message.
    pub(crate) fn draw(&self, colour: bool) -> String {
        match self.code {
            "stopped" => String::new(),
            _ if self.problems.is_empty() => format!("{}\n", self.message),
            _ => self.problems.iter().map(|problem| problem.draw(colour)).collect::<Vec<_>>().join("\n"),
        }
    }

    /// Returns the problems as JSON.
    pub(crate) fn details(&self) -> harn_value::Data {
        self.problems.iter().map(Problem::json).collect::<Vec<_>>().into()
    }
}

impl End {
    /// Returns the exit code, and the result or the failure.
    pub(crate) fn settle(self) -> (u8, Result<Value, Failure>) {
        let failure = |code, message, problems| Err(Failure { code, message, problems });
        match self {
            End::Result { code, err: None, value, .. } => (code, Ok(value)),
            End::Anew(_) => (0, Ok(Value::NIL)),
            End::Result { code, err: Some(text), .. } => (code, failure("err_result", text, Vec::new())),
            End::Refused(problems) => {
                let first = problems.iter().find(|p| is_error(p)).map_or(String::new(), |p| p.plain.clone());
                (1, failure("diagnostics", first, problems))
            }
            End::Failed(problem) => (1, failure("runtime_error", problem.plain.clone(), vec![*problem])),
            End::Stopped => {
                (signal::exit_code(), failure("stopped", "stopped by a signal".to_owned(), Vec::new()))
            }
        }
    }
}

/// Reads a source, possibly from a pipe, up to the maximum size of a program.
fn read_source(from: impl std::io::Read) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(harn_vm::MAX_SOURCE + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > harn_vm::MAX_SOURCE {
        let limit = harn_vm::MAX_SOURCE;
        return Err(std::io::Error::other(format!(
            "more than {limit} bytes, which is the limit of a source"
        )));
    }
    Ok(bytes)
}

/// Reads a file, or standard input for `-`.
///
/// # Errors
/// `Error reading <path>: <reason>`
#[expect(clippy::disallowed_methods, reason = "a source may be no text, and has a limit")]
pub(crate) fn read_text(path: &Path) -> Result<String, String> {
    let name = path.display();
    let bytes = if path.as_os_str() == "-" {
        read_source(std::io::stdin())
    } else {
        Real::new().read(path, harn_vm::MAX_SOURCE)
    };
    let bytes = bytes.map_err(|e| format!("Error reading {name}: {e}"))?;
    String::from_utf8(bytes).map_err(|e| {
        let at = e.utf8_error().valid_up_to();
        let line = e.as_bytes()[..at].iter().filter(|b| **b == b'\n').count() + 1;
        format!("Error reading {name}: not valid UTF-8 (line {line}, byte {at} of the file)")
    })
}

/// Reads a file, or standard input for `-`, with an error message that follows `error: `.
///
/// # Errors
/// `cannot read <path>: <reason>`
pub(crate) fn source_text(path: &Path) -> Result<String, String> {
    read_text(path).map_err(|text| text.replacen("Error reading", "cannot read", 1))
}

/// Converts a span of inline code with its head at `at` to one of the user's code, which is `end` bytes long.
fn without_head(span: Span, at: u32, end: u32) -> Span {
    // There is a separator after imports.
    let head = INLINE_HEAD.len() as u32 + u32::from(at > 0);
    let back = |offset: u32| if offset > at { offset.saturating_sub(head).max(at).min(end) } else { offset };
    Span::new(back(span.start), back(span.end))
}

impl Program {
    /// Reads a file, or standard input for `-`.
    ///
    /// # Errors
    /// `Error reading <path>: <reason>`
    pub(crate) fn read(path: &Path) -> Result<Program, String> {
        Ok(Program::of(path, read_text(path)?))
    }

    /// Creates a program from the content of a file.
    pub(crate) fn of(path: &Path, text: String) -> Program {
        let name = path.display().to_string();
        let dir = path.parent().map(Path::to_owned).unwrap_or_default();
        Program {
            file: Arc::new(SourceFile::new(name.clone(), text.clone())),
            source: Source { name, text, dir },
            head: None,
            shows: false,
        }
    }

    /// Creates a program from inline code: the body of a pipeline, optionally preceded by imports.
    pub(crate) fn inline(code: String) -> Program {
        let file = Arc::new(SourceFile::new(INLINE, code.clone()));
        let parsed = harn_syntax::parse(&code);
        let whole = !parsed.errors.is_empty() || parsed.program.pipelines().next().is_some();
        let (text, head) = if whole {
            // Syntax errors are reported for the unchanged code, and code with a pipeline is already a complete
            // program.
            (code, None)
        } else {
            let imports = parsed.program.imports().map(|import| import.span.end).max().unwrap_or(0) as usize;
            let skip = code[imports..].len()
                - code[imports..].trim_start_matches([';', ' ', '\t', '\r', '\n']).len();
            let at = if imports == 0 { 0 } else { imports + skip };
            let separator = match code[..at].chars().last() {
                None => "",
                Some(';' | '\n') => " ",
                Some(_) => ";",
            };
            (format!("{}{separator}{INLINE_HEAD}{}\n}}", &code[..at], &code[at..]), Some(at as u32))
        };
        let shows = head.is_some() && !Returns::in_program(&parsed.program);
        Program { source: Source { name: INLINE.to_owned(), text, dir: PathBuf::new() }, file, head, shows }
    }

    /// Converts a span of the executed source to one of the user's source.
    fn original(&self, span: Span) -> Span {
        self.head.map_or(span, |at| without_head(span, at, self.file.text().len() as u32))
    }

    /// Converts a diagnostic about the executed source to a problem of the user's source.
    fn problem(&self, mut diagnostic: Diagnostic, plain: String) -> Problem {
        diagnostic.span = diagnostic.span.map(|span| self.original(span));
        for (span, _) in &mut diagnostic.labels {
            *span = self.original(*span);
        }
        crate::report::add_neighbours(&mut diagnostic);
        Problem { diagnostic, file: Some(self.file.clone()), plain, calls: Vec::new(), category: None }
    }

    /// Converts the outcome of the VM.
    pub(crate) fn end(&self, vm: &Vm, outcome: &harn_vm::Outcome) -> End {
        let (code, err) = outcome.exit_code();
        match &outcome.result {
            Ok(value) => {
                let shown = self.shows && err.is_none();
                let code = if shown { 0 } else { code as u8 };
                End::Result { code, err, value: value.clone(), exit: false, shown }
            }
            Err(error) => match error.kind() {
                ErrorKind::Exit(code) => {
                    if let Some(state) = harn_runtime::handed_over(vm).filter(|_| *code == 0) {
                        return End::Anew(state);
                    }
                    let code = (*code).clamp(0, 255) as u8;
                    End::Result { code, err: None, value: Value::NIL, exit: true, shown: false }
                }
                ErrorKind::Abort => End::Stopped,
                _ => End::Failed(Box::new(Problem::of_error(vm, error))),
            },
        }
    }

    /// Returns the name of the program in messages.
    pub(crate) fn name(&self) -> &str {
        &self.source.name
    }

    /// Returns the calls of `wanted` builtins.
    ///
    /// # Errors
    /// The syntax errors.
    pub(crate) fn calls(
        &self,
        wanted: impl Fn(&str) -> bool,
    ) -> Result<Vec<harn_check::CallSite>, Vec<Problem>> {
        Ok(harn_check::call_sites(&*self.parse()?, wanted))
    }

    /// Returns the line and column in the user's source.
    pub(crate) fn line_column(&self, span: Span) -> (usize, usize) {
        self.file.line_column(self.original(span).start)
    }

    /// Returns the source.
    pub(crate) fn text(&self) -> &str {
        &self.source.text
    }

    /// Returns the directory that imports and template paths are relative to.
    pub(crate) fn dir(&self) -> &Path {
        &self.source.dir
    }

    /// Returns all syntax errors; or, if there are none, the findings of the checker, compile errors, and problems of
    /// imports and templates.
    pub(crate) fn check(&self, settings: &Settings, quiet: &Quiet) -> Vec<Problem> {
        self.check_on(&bare_vm(), settings, &Real::new(), quiet)
    }

    /// Checks with the given VM and file system, like `check`.
    pub(crate) fn check_on(
        &self,
        vm: &Vm,
        settings: &Settings,
        system: &dyn System,
        quiet: &Quiet,
    ) -> Vec<Problem> {
        let tree = match self.parse() {
            Ok(tree) => tree,
            Err(errors) => return errors,
        };
        let mut problems = self.findings_on(vm, &tree, system);
        for problem in &mut problems {
            if harn_check::is_error(problem.diagnostic.code) {
                problem.diagnostic.severity = Severity::Error;
            }
        }
        // Stricter project settings apply only to `harn lint`.
        let rules = Settings { complexity_threshold: None, require_file_header: false, ..settings.clone() };
        self.add_rules(&tree, &world(&Names(vm), system), &rules, &mut problems);
        // The layout is checked by `harn fmt --check`.
        problems.retain(|problem| !harn_check::LAYOUT_RULES.contains(&problem.diagnostic.code));
        if settings.strict_types {
            problems.retain(|problem| problem.diagnostic.code != "untyped-dict-access");
        }
        if let Err(errors) = self.compile(vm, tree.clone()) {
            let known: Vec<_> = problems.iter().filter(|p| is_error(p)).map(Problem::start).collect();
            problems.extend(errors.into_iter().filter(|error| !known.contains(&error.start())));
        }
        if settings.strict_types {
            let found = harn_check::strict_types(&tree).into_iter();
            problems.extend(found.map(|d| self.problem(d.clone(), d.message)));
        }
        let located =
            harn_check::check_templates(&self.checked(&tree), &world(&Names(vm), system), settings, quiet);
        problems.extend(located.into_iter().map(|located| self.of_located(located)));
        self.withdraw_unproven(&tree, &world(&Names(vm), system), &mut problems);
        problems
    }

    /// Removes fixes that may change the meaning of this file.
    fn withdraw_unproven(
        &self,
        tree: &harn_syntax::ast::Program,
        world: &harn_check::World<'_>,
        problems: &mut [Problem],
    ) {
        let own = problems.iter_mut().filter(|problem| self.is_own(problem));
        let own = own.map(|problem| &mut problem.diagnostic);
        harn_check::withdraw_unproven(&self.checked(tree), world, own);
    }

    fn is_own(&self, problem: &Problem) -> bool {
        problem.file.as_ref().is_none_or(|file| file.name() == self.source.name)
    }

    /// Returns the source with all fixes of `found` that together preserve its meaning, and their number.
    pub(crate) fn fixed(&self, found: &[Problem]) -> Option<(String, usize)> {
        let tree = self.parse().ok()?;
        let vm = bare_vm();
        let (names, system) = (Names(&vm), Real::new());
        let own = found.iter().filter(|problem| self.is_own(problem)).map(|problem| &problem.diagnostic);
        let fixes = harn_check::compatible_fixes(&self.checked(&tree), &world(&names, &system), own);
        let edits: Vec<_> = fixes.iter().flat_map(|fix| fix.edits.clone()).collect();
        (!fixes.is_empty()).then(|| (harn_front::apply_edits(&self.source.text, &edits), fixes.len()))
    }

    /// Returns the modules and assets of the program.
    ///
    /// # Errors
    /// The syntax errors.
    pub(crate) fn bundle(&self, settings: &Settings) -> Result<harn_check::Bundle, Vec<Problem>> {
        let tree = self.parse()?;
        let (vm, system) = (bare_vm(), Real::new());
        Ok(harn_check::bundle_of(&self.checked(&tree), &world(&Names(&vm), &system), settings))
    }

    /// Returns the violations of its functions' invariants.
    ///
    /// # Errors
    /// The syntax errors.
    pub(crate) fn violations(&self) -> Result<Vec<harn_check::Violation>, Vec<Problem>> {
        let tree = self.parse()?;
        let (vm, system) = (bare_vm(), Real::new());
        Ok(harn_check::check_invariants(&self.checked(&tree), &world(&Names(&vm), &system)))
    }

    /// Whether it declares a function, tool or pipeline with this name.
    pub(crate) fn has_handler(&self, name: &str) -> bool {
        harn_check::has_handler(&harn_syntax::parse(&self.source.text).program, name)
    }

    /// Converts a finding of the checker, which may be about another file.
    pub(crate) fn of_located(&self, located: harn_check::Located) -> Problem {
        match &located.file {
            None => self.problem(located.diagnostic.clone(), located.diagnostic.message),
            Some(_) => Problem::located(located),
        }
    }

    /// Returns the findings that depend on the program alone, without disabled rules.
    pub(crate) fn lint(&self, settings: &Settings) -> Vec<Problem> {
        match self.parse() {
            Ok(tree) => {
                let file = Path::new(&self.source.name);
                let is_on = |p: &Problem| is_error(p) || !settings.is_disabled(p.diagnostic.code, file);
                let vm = bare_vm();
                let mut found = self.findings(&vm, &tree);
                found.retain(is_on);
                let (names, system) = (Names(&vm), Real::new());
                self.add_rules(&tree, &world(&names, &system), settings, &mut found);
                self.withdraw_unproven(&tree, &world(&names, &system), &mut found);
                found.sort_by_key(Problem::start);
                found
            }
            Err(errors) => errors,
        }
    }

    /// Adds the findings of the lint rules. They replace equal findings of the checker.
    fn add_rules(
        &self,
        tree: &harn_syntax::ast::Program,
        world: &harn_check::World<'_>,
        settings: &Settings,
        found: &mut Vec<Problem>,
    ) {
        let rules = harn_check::lint_program(&self.checked(tree), world, settings, &max_tools(self.dir()));
        found.retain(|problem| problem.diagnostic.code != "W0101");
        found.extend(rules.into_iter().map(|d| self.problem(d.clone(), d.message)));
    }

    /// Returns the program in the form that the checker expects.
    fn checked<'a>(&'a self, tree: &'a harn_syntax::ast::Program) -> harn_check::Source<'a> {
        harn_check::Source { name: &self.source.name, dir: &self.source.dir, text: &self.source.text, tree }
    }

    /// Parses the program.
    ///
    /// # Errors
    /// All syntax errors.
    pub(crate) fn parse(&self) -> Result<Rc<harn_syntax::ast::Program>, Vec<Problem>> {
        let parsed = harn_syntax::parse(&self.source.text);
        if parsed.errors.is_empty() {
            Ok(Rc::new(parsed.program))
        } else {
            Err(self.refused(&LoadError::Syntax(parsed.errors)))
        }
    }

    /// Returns the findings of the checker.
    fn findings(&self, vm: &Vm, tree: &harn_syntax::ast::Program) -> Vec<Problem> {
        self.findings_on(vm, tree, &Real::new())
    }

    fn findings_on(&self, vm: &Vm, tree: &harn_syntax::ast::Program, system: &dyn System) -> Vec<Problem> {
        let found = harn_check::check_program(&self.checked(tree), &world(&Names(vm), system));
        found.into_iter().map(|d| self.problem(d.clone(), d.message)).collect()
    }

    /// Compiles the program and its imports.
    fn compile(
        &self,
        vm: &Vm,
        tree: Rc<harn_syntax::ast::Program>,
    ) -> Result<harn_vm::Program, Vec<Problem>> {
        harn_vm::load_tree(vm, &self.source, tree).map_err(|error| self.refused(&error))
    }

    fn refused(&self, error: &LoadError) -> Vec<Problem> {
        let file = SourceFile::new(self.source.name.clone(), self.source.text.clone());
        let mut plain = error.canonical(&self.source.text);
        let diagnostics = error.diagnostics(&file).into_iter();
        diagnostics.map(|d| self.problem(d, std::mem::take(&mut plain))).collect()
    }

    /// Parses, checks and compiles. Returns the program, the warnings, and the warnings at code that the program
    /// reaches immediately.
    ///
    /// # Errors
    /// All findings.
    fn load(
        &self,
        vm: &Vm,
        entry: Option<&str>,
        profile: Option<&Profile>,
    ) -> Result<(harn_vm::Program, Vec<Problem>, Vec<Problem>), Vec<Problem>> {
        let tree = Profile::time(profile, Stage::Parse, || self.parse())?;
        let mut found = Profile::time(profile, Stage::Check, || self.findings_on(vm, &tree, &**vm.system()));
        if found.iter().any(is_error) {
            return Err(found);
        }
        // Options without effect are reported by the call itself.
        found.retain(|problem| !harn_check::is_slip(problem.diagnostic.code));
        match Profile::time(profile, Stage::Compile, || self.compile(vm, tree.clone())) {
            Ok(program) => {
                if let Some(at) = self.head {
                    let end = self.file.text().len() as u32;
                    vm.show_entry_as(SourceFile::clone(&self.file), move |span| without_head(span, at, end));
                }
                let own = |problem: &Problem| {
                    problem.file.as_ref().is_some_and(|file| file.name() == self.source.name)
                };
                let at_once = AtOnce::of(&tree, entry);
                let reached = |problem: &Problem| {
                    let place = problem.diagnostic.span.filter(|_| own(problem));
                    place.is_some_and(|place| at_once.reaches(place))
                };
                let (soon, found) = found.into_iter().partition(reached);
                Ok((program, found, soon))
            }
            Err(errors) => {
                found.extend(errors);
                Err(found)
            }
        }
    }
}

pub(crate) fn is_error(problem: &Problem) -> bool {
    problem.diagnostic.severity == Severity::Error
}

/// The names of a VM, for the checker.
pub(crate) struct Names<'a>(pub(crate) &'a Vm);

impl harn_check::Signatures for Names<'_> {
    fn is_builtin(&self, name: &str) -> bool {
        self.0.builtin(name).is_some() || self.0.global(name).is_some()
    }

    fn builtin_names(&self) -> Vec<&str> {
        self.0.builtin_names().collect()
    }

    fn builtin(&self, name: &str) -> Option<harn_syntax::signature::Signature> {
        self.0.builtin(name).map(harn_vm::Builtin::check_signature)
    }

    fn wrong_options(
        &self,
        builtin: &str,
        parameter: &str,
        set: &str,
        given: &[harn_syntax::signature::GivenOption],
        complete: bool,
    ) -> Vec<harn_syntax::signature::OptionProblem> {
        harn_runtime::wrong_options(builtin, parameter, set, given, complete)
    }

    fn method(&self, type_name: &'static str, name: &str) -> Option<harn_syntax::signature::Signature> {
        self.0.method(type_name, name).map(harn_vm::Builtin::check_signature)
    }

    fn record(&self, builtin: &str) -> Option<&'static harn_syntax::signature::Record> {
        harn_runtime::record(builtin)
    }

    fn wrong_pattern(&self, pattern: &str, flags: &str) -> Option<String> {
        harn_runtime::wrong_pattern(pattern, flags)
    }

    fn method_names(&self, type_name: &'static str) -> Vec<&str> {
        self.0.method_names(type_name)
    }
}

/// Returns the environment of a program for the checker.
pub(crate) fn world<'a>(names: &'a Names<'a>, system: &'a dyn System) -> harn_check::World<'a> {
    harn_check::World {
        signatures: names,
        files: harn_front::Through(system),
        std_module: harn_runtime::std_module,
        prompt_asset: harn_runtime::prompt_asset,
    }
}

/// Returns a VM for lookups, with the names that every program has.
pub(crate) fn bare_vm() -> Rc<Vm> {
    given(harn_runtime::vm_builder(Rc::new(Memory::new())), &RunOptions::default(), &Value::NIL).build()
}

/// Returns a VM for a session without a file.
pub(crate) fn session_vm(system: Rc<dyn System>) -> Rc<Vm> {
    let project = project(&*system, Path::new(""), drop);
    given(harn_runtime::vm_builder(system), &RunOptions::default(), &project).tell_deadlocks().build()
}

/// Returns a function that looks up the maximum number of tools of a model route, with the configuration of a program
/// in `dir`. The configuration is read on the first call.
pub(crate) fn max_tools(dir: &Path) -> impl Fn(Option<&str>, Option<&str>) -> Option<(String, u64)> {
    let dir = dir.to_owned();
    let machine = std::cell::OnceCell::new();
    move |provider, model| {
        let (_vm, runtime) = machine.get_or_init(|| {
            let vm = session_vm(Rc::new(Real::new()));
            let runtime = harn_runtime::llm_runtime_at(&vm, &dir);
            (vm, runtime)
        });
        harn_runtime::max_tools(runtime, provider, model)
    }
}

/// Adds the globals of every program: `argv` and `context`.
fn given(builder: harn_vm::VmBuilder, options: &RunOptions, project: &Value) -> harn_vm::VmBuilder {
    let argv: Vec<Value> = options.argv.iter().map(|arg| Value::str(arg)).collect();
    let context: Dict =
        [("task", task(options)), ("project_root", project.clone()), ("task_type", Value::NIL)]
            .into_iter()
            .collect();
    let builder = builder.global("argv", Value::from(argv)).global("context", Value::dict(context));
    match &options.source_base {
        Some(dir) => builder.source_base(dir.clone()),
        None => builder,
    }
}

/// Returns the root of the project that a directory belongs to, or nil. `warn` receives a warning about an untrusted
/// manifest.
fn project(system: &dyn System, dir: &Path, warn: impl FnOnce(String)) -> Value {
    let Some(manifest) = Settings::manifest(system, dir) else { return Value::NIL };
    match harn_front::trust::warning(system, &manifest) {
        Some(text) => {
            warn(text);
            Value::NIL
        }
        None => manifest.parent().map_or(Value::NIL, |root| Value::str(&root.display().to_string())),
    }
}

/// Returns the location of the project's store: a database, or [`state_file`].
///
/// # Errors
/// The manifest is invalid.
pub(crate) fn store_place(system: &dyn System) -> Result<harn_store::Place, String> {
    harn_runtime::store_place(system, || state_file(system))
}

/// Returns the file of persistent state: `HARN_STATE_FILE`, or `state.db` in the project's state directory.
pub(crate) fn state_file(system: &dyn System) -> PathBuf {
    let set = |name: &str| system.env(name).filter(|path| !path.is_empty()).map(PathBuf::from);
    let here = system.work_dir();
    let root =
        || harn_front::project_root(&here, &harn_front::Through(system)).unwrap_or_else(|| here.clone());
    let folder = || set("HARN_STATE_DIR").map_or_else(|| root().join(".harn"), |folder| here.join(folder));
    let file = set("HARN_STATE_FILE").map_or_else(|| folder().join("state.db"), |file| here.join(file));
    let root = root();
    if file.starts_with(&root) {
        system.confine(&file, &root);
    }
    file
}

fn task(options: &RunOptions) -> Value {
    options.task.as_deref().map_or(Value::NIL, Value::str)
}

/// Returns the findings of the checker about a source without a file and without syntax errors. `vm` has the names that
/// it can use.
pub(crate) fn check_text(
    vm: &Vm,
    text: &str,
    tree: &harn_syntax::ast::Program,
) -> Vec<harn_syntax::Diagnostic> {
    let source = harn_check::Source { name: "<repl>", dir: Path::new(""), text, tree };
    harn_check::check_program(&source, &world(&Names(vm), &**vm.system()))
}

/// A VM with a loaded program that can run repeatedly.
pub(crate) struct Prepared {
    /// The VM.
    pub(crate) vm: Rc<Vm>,
    loaded: harn_vm::Program,
    /// Findings that do not prevent a run.
    pub(crate) warnings: Vec<Problem>,
    /// Findings at code that runs immediately. They are reported unless the program's own error reports them.
    soon: Vec<Problem>,
    project: Value,
    dir: PathBuf,
    hooked: std::cell::Cell<bool>,
}

impl Prepared {
    /// Runs the program once.
    ///
    /// # Errors
    /// The project's hooks cannot be installed.
    pub(crate) async fn run(&self, entry: Option<&str>, task: Value) -> Result<harn_vm::Outcome, String> {
        if !self.hooked.replace(true) {
            harn_runtime::install_manifest_hooks(&self.vm, &self.dir).await?;
            harn_runtime::start_servers(&self.vm).await;
        }
        let first = self.loaded.first_parameter(entry).unwrap_or("task");
        // Known parameter names take precedence over the position.
        let args = [("project", self.project.clone()), ("task", task.clone()), (first, task)];
        Ok(self.loaded.run(&self.vm, entry, &args).await)
    }
}

/// A program that stays loaded after its run, and its exported functions with their doc comments. It is started with
/// `Instance::begin`.
pub(crate) type Living = (harn_vm::Instance, Vec<(harn_vm::ExportedFunction, String)>);

fn living(vm: &Rc<Vm>, loaded: harn_vm::Program, text: &str) -> Living {
    let said = |f: harn_vm::ExportedFunction| {
        let said = harn_syntax::doc::comment_above(text, f.start);
        (f, said)
    };
    let functions = loaded.functions().into_iter().map(said).collect();
    (harn_vm::Instance::new(vm, loaded), functions)
}

impl Prepared {
    /// Converts the program to one that stays loaded. `text` is its source.
    pub(crate) fn instance(self, text: &str) -> Living {
        living(&self.vm, self.loaded, text)
    }
}

impl Program {
    /// Loads the program into the VM of another one. Returns its warnings, too.
    ///
    /// # Errors
    /// It cannot be run.
    pub(crate) fn beside(&self, vm: &Rc<Vm>) -> Result<(Living, Vec<Problem>), End> {
        let (loaded, warnings, soon) = self.load(vm, None, None).map_err(End::Refused)?;
        Ok((living(vm, loaded, &self.source.text), warnings.into_iter().chain(soon).collect()))
    }
}

/// Returns the sandbox level of the options, limited by `HARN_HANDLER_SANDBOX`. The variable is read from the process
/// and not from the journal, so a resumed run obeys the current value.
fn confined(level: Option<Level>) -> Result<Option<Level>, String> {
    match Real::new().env("HARN_HANDLER_SANDBOX").as_deref() {
        None | Some("" | "off") => Ok(level),
        Some("enforce") => Ok(Some(level.map_or(Level::ProcessExec, |level| level.min(Level::ProcessExec)))),
        Some(other) => Err(format!("HARN_HANDLER_SANDBOX must be `enforce` or `off`, got `{other}`")),
    }
}

/// Creates a VM and loads a program into it. `ready` receives its interrupt handle.
///
/// # Errors
/// The program cannot be loaded.
pub(crate) fn prepare(
    program: &Program,
    options: &mut RunOptions,
    system: Rc<dyn System>,
    ready: impl FnOnce(Interrupt),
) -> Result<Prepared, End> {
    let refused = |text: String| End::Refused(vec![Problem::general(text)]);
    // A journal already wraps the system with the task, so the program's reads are recorded.
    let system = match options.journal {
        None => with_task(system, options.task.as_deref()),
        Some(_) => system,
    };
    if let Some(located) = Settings::unparsable(&*system, program.dir()) {
        return Err(End::Refused(vec![Problem::located(located)]));
    }
    let sandbox = confined(options.sandbox).map_err(refused)?;
    let project = project(&*system, program.dir(), |text| {
        system.write_err(&harn_syntax::notice(&format!("warning: {text}")));
    });
    let roots = [Some(system.work_dir()), project.as_str().map(|root| PathBuf::from(root.as_str()))];
    let mut builder = given(harn_runtime::vm_builder(system), options, &project).tell_deadlocks();
    if let Some(names) = options.names.take() {
        builder = builder.limit_names(names);
    }
    if let Some(level) = sandbox {
        let roots = Some(roots.into_iter().flatten().collect());
        builder = builder.limit(Ceiling { level, roots, ..Ceiling::default() });
    }
    if let Some(observer) = options.observer.take() {
        builder = builder.observe(observer);
    }
    let vm = builder.build();
    ready(vm.interrupt().clone());
    if let Some(witness) = options.witness.take() {
        harn_runtime::observe_run(&vm, witness);
    }
    if let Some(journal) = &options.journal {
        journal.hold(reins(vm.interrupt()));
    }
    if options.journal.is_some() {
        harn_runtime::read_model_table_from(&vm, Rc::new(Real::new()));
    }
    harn_runtime::install_servers(&vm, program.dir());
    if let Some(generation) = options.generation.take() {
        harn_runtime::begin_generation(&vm, generation);
    }
    harn_runtime::install_skills(&vm, program.dir(), &options.skills)
        .and_then(|()| harn_runtime::configure_sessions(&vm, program.dir()))
        .and_then(|()| match options.journal {
            None => harn_runtime::configure_event_log(&vm, program.dir()),
            // Reads the process's environment directly, because the journal records only the program's reads.
            Some(_) => harn_runtime::refuse_event_log(&Real::new()),
        })
        .map_err(refused)?;
    let profile = options.profile.as_ref();
    let (loaded, warnings, soon) =
        program.load(&vm, options.entry.as_deref(), profile).map_err(End::Refused)?;
    if let Some(watch) = options.watch.take() {
        harn_runtime::rehearse_calls(&vm, &program.source.dir, watch);
    }
    options.traffic.apply(&vm, &program.source.dir).map_err(refused)?;
    let dir = program.dir().to_owned();
    Ok(Prepared { vm, loaded, warnings, soon, project, dir, hooked: std::cell::Cell::new(false) })
}

/// Whether an error is on the same line as a finding.
fn tells_of(error: Option<&Problem>, finding: &Problem) -> bool {
    let line = |problem: &Problem| {
        let file = problem.file.as_ref()?;
        Some((file.name().to_owned(), file.line(problem.diagnostic.span?.start)))
    };
    error.and_then(line).is_some_and(|place| Some(place) == line(finding))
}

/// Runs a program. `warn` receives warnings before it starts; `ready` receives its interrupt handle.
pub(crate) fn run(
    program: &Program,
    mut options: RunOptions,
    system: Rc<dyn System>,
    warn: impl Fn(&Problem),
    ready: impl FnOnce(Interrupt),
) -> End {
    let prepared = match prepare(program, &mut options, system, ready) {
        Ok(prepared) => prepared,
        Err(end) => return end,
    };
    let vm = prepared.vm.clone();
    if options.trace || options.profile.is_some() {
        harn_runtime::keep_attempts(&vm);
    }
    prepared.warnings.iter().for_each(&warn);
    let running = prepared.run(options.entry.as_deref(), task(&options));
    let clock = Real::new();
    let begun = clock.monotonic();
    let ran = match &options.journal {
        None => block_on(running),
        Some(journal) => {
            harn_value::steps::restart();
            journal.begin_program();
            journal.stay_alive();
            block_on_with(journal, running)
        }
    };
    let outcome = match ran {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(text)) => return End::Refused(vec![Problem::general(text)]),
        Err(error) => {
            return End::Refused(vec![Problem::general(format!("cannot start the event loop: {error}"))]);
        }
    };
    options.usage.set(crate::health::Usage::of(&vm));
    for text in harn_runtime::unheard_failures(&vm) {
        vm.system().write_err(&harn_syntax::notice(&format!("warning: {text}")));
    }
    if let Some(text) = options.traffic.leftovers(&vm) {
        vm.system().write_err(&format!("warning: {text}\n"));
    }
    if let Some(summary) = options.trace.then(|| harn_runtime::attempts_summary(&vm)).flatten() {
        vm.system().write_err(&summary);
    }
    let mut end = unless_unwritten(&vm, program.end(&vm, &outcome));
    if options.tasks_must_end
        && let End::Result { .. } = end
        && let Some(fault) = vm.extension::<harn_vm::TaskFaults>().take()
    {
        end = End::Failed(Box::new(Problem::of_error(&vm, &fault)));
    }
    if let Some(profile) = &options.profile {
        profile.add(Stage::Run, clock.monotonic().saturating_sub(begun));
        if let Err(text) = profile.tell(program.name(), &vm)
            && let End::Result { .. } | End::Anew(_) = end
        {
            end = End::Failed(Box::new(Problem::general(text)));
        }
    }
    let failure = match &end {
        End::Failed(problem) => Some(&**problem),
        _ => None,
    };
    prepared.soon.iter().filter(|problem| !tells_of(failure, problem)).for_each(warn);
    end
}

/// Replaces a successful end by a failure if the recording of model calls could not be written.
pub(crate) fn unless_unwritten(vm: &Vm, end: End) -> End {
    let Some(text) = harn_runtime::unwritten_calls(vm) else { return end };
    if let End::Result { .. } | End::Anew(_) = end {
        return End::Failed(Box::new(Problem::general(text)));
    }
    // The program's own failure is more important.
    vm.system().write_err(&format!("warning: {text}\n"));
    end
}

/// Returns the functions with which a journal controls its program.
fn reins(interrupt: &Interrupt) -> Reins {
    let (stop, look) = (interrupt.clone(), interrupt.clone());
    Reins {
        place: Box::new(|| {
            let (task, at) = harn_vm::running_place()?;
            let at = at.map_or_else(String::new, |(file, line)| format!("{file}:{line}"));
            Some(Place { task: task.into(), at: at.into() })
        }),
        stop: Box::new(move || stop.interrupt()),
        is_stopped: Box::new(move || look.is_set()),
    }
}
