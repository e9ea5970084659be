//! Programs from text to end: the one place that drives the crates below.

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

/// How inline code is named in messages.
const INLINE: &str = "<inline>";

/// What stands before inline code, which is the body of a pipeline.
const INLINE_HEAD: &str = "pipeline main(task) { ";

/// A program that was read but not yet looked at.
pub(crate) struct Program {
    source: Source,
    /// The text as the user wrote it.
    file: Arc<SourceFile>,
    /// Where [`INLINE_HEAD`] was put in.
    head: Option<u32>,
    /// The value of the last expression is printed: inline code without a `return`.
    shows: bool,
}

/// Who hears of what happens in a run, by the type of an event and its fields.
pub(crate) type Witness = Box<dyn Fn(&str, harn_value::Data)>;

/// What a program is given.
#[derive(Default)]
pub(crate) struct RunOptions {
    /// The list `argv`.
    pub(crate) argv: Vec<String>,
    /// The text of the task.
    pub(crate) task: Option<String>,
    /// The pipeline that runs in place of the usual one.
    pub(crate) entry: Option<String>,
    /// Folders of skills that come before all others.
    pub(crate) skills: Vec<PathBuf>,
    /// Where model calls are answered from, and what of them is kept.
    pub(crate) traffic: ModelTraffic,
    /// Which builtins it may call.
    pub(crate) names: Option<harn_vm::Names>,
    /// How much it may do outside of itself; files lie below the working directory and the project then.
    pub(crate) sandbox: Option<Level>,
    /// Ends with a summary of the model calls on standard error.
    pub(crate) trace: bool,
    /// Measures where the time goes.
    pub(crate) profile: Option<Profile>,
    /// Keeps or follows a journal; it is the system of the run as well.
    pub(crate) journal: Option<Journal>,
    /// Sees every statement before it runs.
    pub(crate) observer: Option<Rc<dyn harn_vm::Observer>>,
    /// Hears of model calls, calls of tools and hooks.
    pub(crate) witness: Option<Witness>,
    /// Which time the program begins, if it may begin anew; then [`End::Anew`] is to be looked for.
    pub(crate) generation: Option<Generation>,
    /// Makes the run a rehearsal without models: this sees every call.
    pub(crate) watch: Option<Box<dyn FnMut(harn_runtime::SentCall)>>,
    /// Gets what the run has used when it has ended.
    pub(crate) usage: Rc<std::cell::Cell<crate::health::Usage>>,
    /// A task that failed and was not awaited, or that still runs at the end, fails the program.
    pub(crate) tasks_must_end: bool,
}

/// Looks for a `return` of the program itself, whose value is an exit code.
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
        /// It called `exit`.
        exit: bool,
        /// The program is an expression from the command line, whose value is its output and no exit code.
        shown: bool,
    },
    /// It has handed this over, and is to begin anew with it.
    Anew(harn_value::Data),
    /// It was not run.
    Refused(Vec<Problem>),
    /// An uncaught error.
    Failed(Box<Problem>),
    /// It was interrupted.
    Stopped,
}

/// Why a program did not end well.
pub(crate) struct Failure {
    /// A word for tools.
    pub(crate) code: &'static str,
    /// The message, for people and tools.
    pub(crate) message: String,
    /// What was found, or the error.
    pub(crate) problems: Vec<Problem>,
}

impl Failure {
    /// What people see; nothing for an interruption, which they asked for.
    pub(crate) fn draw(&self, colour: bool) -> String {
        match self.code {
            "stopped" => String::new(),
            _ if self.problems.is_empty() => format!("{}\n", self.message),
            _ => self.problems.iter().map(|problem| problem.draw(colour)).collect::<Vec<_>>().join("\n"),
        }
    }

    /// The problems for tools.
    pub(crate) fn details(&self) -> harn_value::Data {
        self.problems.iter().map(Problem::json).collect::<Vec<_>>().into()
    }
}

impl End {
    /// The exit code, and the result or why there is none.
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

/// Reads a source, which may come through a pipe, up to the largest that is compiled.
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

/// Reads a text, from standard input for `-`.
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

/// The same, in words that go behind `error: `.
///
/// # Errors
/// `cannot read <path>: <reason>`
pub(crate) fn source_text(path: &Path) -> Result<String, String> {
    read_text(path).map_err(|text| text.replacen("Error reading", "cannot read", 1))
}

/// A span of inline code with its head at `at` as one of the code that was given, which is `end` bytes long.
fn without_head(span: Span, at: u32, end: u32) -> Span {
    // Behind imports there is a separator.
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

    /// The program with the text of a file.
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

    /// Takes inline code: the body of a pipeline, behind the imports it may begin with.
    pub(crate) fn inline(code: String) -> Program {
        let file = Arc::new(SourceFile::new(INLINE, code.clone()));
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

    /// A span of the text that runs as one of the text the user wrote.
    fn original(&self, span: Span) -> Span {
        self.head.map_or(span, |at| without_head(span, at, self.file.text().len() as u32))
    }

    /// A diagnostic about the text that runs as a problem of the text the user wrote.
    fn problem(&self, mut diagnostic: Diagnostic, plain: String) -> Problem {
        diagnostic.span = diagnostic.span.map(|span| self.original(span));
        for (span, _) in &mut diagnostic.labels {
            *span = self.original(*span);
        }
        crate::report::add_neighbours(&mut diagnostic);
        Problem { diagnostic, file: Some(self.file.clone()), plain, calls: Vec::new(), category: None }
    }

    /// How the program ended, by what the machine says.
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

    /// Its name in messages.
    pub(crate) fn name(&self) -> &str {
        &self.source.name
    }

    /// The calls of builtins that are `wanted`.
    ///
    /// # Errors
    /// The syntax errors.
    pub(crate) fn calls(
        &self,
        wanted: impl Fn(&str) -> bool,
    ) -> Result<Vec<harn_check::CallSite>, Vec<Problem>> {
        Ok(harn_check::call_sites(&*self.parse()?, wanted))
    }

    /// The line and column where the user wrote what the program has at a place.
    pub(crate) fn line_column(&self, span: Span) -> (usize, usize) {
        self.file.line_column(self.original(span).start)
    }

    /// Its text.
    pub(crate) fn text(&self) -> &str {
        &self.source.text
    }

    /// The folder that imports and templates start from.
    pub(crate) fn dir(&self) -> &Path {
        &self.source.dir
    }

    /// Everything that can be said without running: all syntax errors; or else the findings of the checker, what forbids
    /// to compile the program, and what is wrong with imports and templates.
    pub(crate) fn check(&self, settings: &Settings, quiet: &Quiet) -> Vec<Problem> {
        self.check_on(&bare_vm(), settings, &Real::new(), quiet)
    }

    /// The same with a machine at hand, and with the files of a system.
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
        // The project may ask for more of `harn lint`.
        let rules = Settings { complexity_threshold: None, require_file_header: false, ..settings.clone() };
        self.add_rules(&tree, &world(&Names(vm), system), &rules, &mut problems);
        // How a file is laid out is for `harn fmt --check` to say.
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

    /// Removes the fixes that may change the meaning of this file.
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

    /// Returns the text with all fixes of `found` that keep the meaning together, and how many they are.
    pub(crate) fn fixed(&self, found: &[Problem]) -> Option<(String, usize)> {
        let tree = self.parse().ok()?;
        let vm = bare_vm();
        let (names, system) = (Names(&vm), Real::new());
        let own = found.iter().filter(|problem| self.is_own(problem)).map(|problem| &problem.diagnostic);
        let fixes = harn_check::compatible_fixes(&self.checked(&tree), &world(&names, &system), own);
        let edits: Vec<_> = fixes.iter().flat_map(|fix| fix.edits.clone()).collect();
        (!fixes.is_empty()).then(|| (harn_front::apply_edits(&self.source.text, &edits), fixes.len()))
    }

    /// What it is made of besides its own file.
    ///
    /// # Errors
    /// The syntax errors.
    pub(crate) fn bundle(&self, settings: &Settings) -> Result<harn_check::Bundle, Vec<Problem>> {
        let tree = self.parse()?;
        let (vm, system) = (bare_vm(), Real::new());
        Ok(harn_check::bundle_of(&self.checked(&tree), &world(&Names(&vm), &system), settings))
    }

    /// Where the invariants of its functions do not hold.
    ///
    /// # Errors
    /// The syntax errors.
    pub(crate) fn violations(&self) -> Result<Vec<harn_check::Violation>, Vec<Problem>> {
        let tree = self.parse()?;
        let (vm, system) = (bare_vm(), Real::new());
        Ok(harn_check::check_invariants(&self.checked(&tree), &world(&Names(&vm), &system)))
    }

    /// Whether it declares a function, tool or pipeline of this name.
    pub(crate) fn has_handler(&self, name: &str) -> bool {
        harn_check::has_handler(&harn_syntax::parse(&self.source.text).program, name)
    }

    /// A finding of the checker, which may be about another file.
    pub(crate) fn of_located(&self, located: harn_check::Located) -> Problem {
        match &located.file {
            None => self.problem(located.diagnostic.clone(), located.diagnostic.message),
            Some(_) => Problem::located(located),
        }
    }

    /// What can be said of the program alone, without the rules that the project turned off.
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

    /// Adds what the rules say; where they say the same as the checker, their words count.
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

    /// The program as the checker takes it.
    fn checked<'a>(&'a self, tree: &'a harn_syntax::ast::Program) -> harn_check::Source<'a> {
        harn_check::Source { name: &self.source.name, dir: &self.source.dir, text: &self.source.text, tree }
    }

    /// Parses the program; all its syntax errors if there are any.
    pub(crate) fn parse(&self) -> Result<Rc<harn_syntax::ast::Program>, Vec<Problem>> {
        let parsed = harn_syntax::parse(&self.source.text);
        if parsed.errors.is_empty() {
            Ok(Rc::new(parsed.program))
        } else {
            Err(self.refused(&LoadError::Syntax(parsed.errors)))
        }
    }

    /// What the checker says.
    fn findings(&self, vm: &Vm, tree: &harn_syntax::ast::Program) -> Vec<Problem> {
        self.findings_on(vm, tree, &Real::new())
    }

    fn findings_on(&self, vm: &Vm, tree: &harn_syntax::ast::Program, system: &dyn System) -> Vec<Problem> {
        let found = harn_check::check_program(&self.checked(tree), &world(&Names(vm), system));
        found.into_iter().map(|d| self.problem(d.clone(), d.message)).collect()
    }

    /// Compiles the program and what it imports.
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

    /// Parses, checks and compiles; gives the program and the warnings, or everything that was found. The second list is of
    /// warnings that the program runs into at once.
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
        // The call itself tells of options without effect.
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

/// The names of a machine, for the checker.
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

/// What the checker is told about the machine.
pub(crate) fn world<'a>(names: &'a Names<'a>, system: &'a dyn System) -> harn_check::World<'a> {
    harn_check::World {
        signatures: names,
        files: harn_front::Through(system),
        std_module: harn_runtime::std_module,
        prompt_asset: harn_runtime::prompt_asset,
    }
}

/// A machine for looking things up, with the names that every program finds.
pub(crate) fn bare_vm() -> Rc<Vm> {
    given(harn_runtime::vm_builder(Rc::new(Memory::new())), &RunOptions::default(), &Value::NIL).build()
}

/// A machine for a session that has no file.
pub(crate) fn session_vm(system: Rc<dyn System>) -> Rc<Vm> {
    let project = project(&*system, Path::new(""), drop);
    given(harn_runtime::vm_builder(system), &RunOptions::default(), &project).tell_deadlocks().build()
}

/// Which number of tools a route accepts, as a program in a folder is configured. That is read when it is first asked for.
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

/// Puts in what every program finds: `argv` and `context`.
fn given(builder: harn_vm::VmBuilder, options: &RunOptions, project: &Value) -> harn_vm::VmBuilder {
    let argv: Vec<Value> = options.argv.iter().map(|arg| Value::str(arg)).collect();
    let context: Dict =
        [("task", task(options)), ("project_root", project.clone()), ("task_type", Value::NIL)]
            .into_iter()
            .collect();
    builder.global("argv", Value::from(argv)).global("context", Value::dict(context))
}

/// The root of the project that a folder belongs to, nil without one. `warn` hears of a manifest that is not trusted.
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

/// Where the store of the project is: in a database, or in [`state_file`].
///
/// # Errors
/// What is wrong in the manifest.
pub(crate) fn store_place(system: &dyn System) -> Result<harn_store::Place, String> {
    harn_runtime::store_place(system, || state_file(system))
}

/// The file of what outlives a process: `HARN_STATE_FILE`, or `state.db` in the state folder of the project.
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

/// What the checker says of a text without a file, which is parsed without errors; `vm` has the names that it finds.
pub(crate) fn check_text(
    vm: &Vm,
    text: &str,
    tree: &harn_syntax::ast::Program,
) -> Vec<harn_syntax::Diagnostic> {
    let source = harn_check::Source { name: "<repl>", dir: Path::new(""), text, tree };
    harn_check::check_program(&source, &world(&Names(vm), &**vm.system()))
}

/// A machine with a program in it that can be run again and again.
pub(crate) struct Prepared {
    /// The machine.
    pub(crate) vm: Rc<Vm>,
    loaded: harn_vm::Program,
    /// Findings that do not keep it from running.
    pub(crate) warnings: Vec<Problem>,
    /// Those that it runs into at once: they are told unless its own error tells of them.
    soon: Vec<Problem>,
    project: Value,
    dir: PathBuf,
    hooked: std::cell::Cell<bool>,
}

impl Prepared {
    /// Runs the program once.
    ///
    /// # Errors
    /// The hooks of the project cannot be put in.
    pub(crate) async fn run(&self, entry: Option<&str>, task: Value) -> Result<harn_vm::Outcome, String> {
        if !self.hooked.replace(true) {
            harn_runtime::install_manifest_hooks(&self.vm, &self.dir).await?;
            harn_runtime::start_servers(&self.vm).await;
        }
        let first = self.loaded.first_parameter(entry).unwrap_or("task");
        // Names that say what they are for go before the place.
        let args = [("project", self.project.clone()), ("task", task.clone()), (first, task)];
        Ok(self.loaded.run(&self.vm, entry, &args).await)
    }
}

/// A program that lives on when it has run, and its exported functions with what their comments say. It is to be begun with
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
    /// The program as one that lives on; `text` is its text.
    pub(crate) fn instance(self, text: &str) -> Living {
        living(&self.vm, self.loaded, text)
    }
}

impl Program {
    /// Loads the program into a machine that has another one; gives its warnings, too.
    ///
    /// # Errors
    /// It cannot be run.
    pub(crate) fn beside(&self, vm: &Rc<Vm>) -> Result<(Living, Vec<Problem>), End> {
        let (loaded, warnings, soon) = self.load(vm, None, None).map_err(End::Refused)?;
        Ok((living(vm, loaded, &self.source.text), warnings.into_iter().chain(soon).collect()))
    }
}

/// How much a program may do: what its options say, and no more than `HARN_HANDLER_SANDBOX` lets it. That is asked of the
/// process as it is, and not of a journal: a run that goes on is held to what is said now.
fn confined(level: Option<Level>) -> Result<Option<Level>, String> {
    match Real::new().env("HARN_HANDLER_SANDBOX").as_deref() {
        None | Some("" | "off") => Ok(level),
        Some("enforce") => Ok(Some(level.map_or(Level::ProcessExec, |level| level.min(Level::ProcessExec)))),
        Some(other) => Err(format!("HARN_HANDLER_SANDBOX must be `enforce` or `off`, got `{other}`")),
    }
}

/// Makes a machine and loads a program into it. `ready` gets the means to stop it.
///
/// # Errors
/// How it ended before it began.
pub(crate) fn prepare(
    program: &Program,
    options: &mut RunOptions,
    system: Rc<dyn System>,
    ready: impl FnOnce(Interrupt),
) -> Result<Prepared, End> {
    let refused = |text: String| End::Refused(vec![Problem::general(text)]);
    // A journal lies on a system that has it already, and so records what the program reads of it as ever.
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
            // Not asked through the journal, which holds what the program asks.
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

/// Whether an error is about the same line as a finding.
fn tells_of(error: Option<&Problem>, finding: &Problem) -> bool {
    let line = |problem: &Problem| {
        let file = problem.file.as_ref()?;
        Some((file.name().to_owned(), file.line(problem.diagnostic.span?.start)))
    };
    error.and_then(line).is_some_and(|place| Some(place) == line(finding))
}

/// Runs a program. `warn` hears of warnings before it starts; `ready` gets the means to stop it.
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

/// How a program ended, or that what was to be kept of its model calls was not written.
pub(crate) fn unless_unwritten(vm: &Vm, end: End) -> End {
    let Some(text) = harn_runtime::unwritten_calls(vm) else { return end };
    if let End::Result { .. } | End::Anew(_) = end {
        return End::Failed(Box::new(Problem::general(text)));
    }
    // Its own failure says more.
    vm.system().write_err(&format!("warning: {text}\n"));
    end
}

/// What a journal holds its program by.
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
