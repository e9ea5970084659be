//! Runs the tests of a project, each in a machine of its own.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use harn_system::{Layer, Real, System, SystemExt};
use harn_vm::Interrupt;

use super::find::{self, Test};
use super::report::{self, Fate, Outcome};
use crate::args::{TestArgs, usage_error};
use crate::conformance::filter::Filter;
use crate::conformance::run::run_each;
use crate::program::{self, End, Program, RunOptions};

/// The folder that is taken when none is named.
const FOLDER: &str = "tests";

/// Runs the tests of a file or folder; 1 if one failed.
pub(super) fn test(args: &TestArgs) -> u8 {
    let filter = Filter::parse(args.filter.as_deref()).unwrap_or_else(|text| usage_error("test", &text));
    let target = match &args.target {
        Some(target) => PathBuf::from(target),
        None if Real::new().is_dir(Path::new(FOLDER)) => PathBuf::from(FOLDER),
        None => usage_error("test", "no path specified and no tests/ directory found"),
    };
    if !Real::new().exists(&target) {
        eprintln!("error: Path not found: {}", harn_syntax::printable(&target.display().to_string()));
        return 1;
    }
    let tests = match find::find(&target) {
        Ok(tests) => tests,
        Err(text) => {
            eprintln!("error: {}", harn_syntax::printable(&text));
            return 1;
        }
    };
    let tests: Vec<Test> = tests
        .into_iter()
        .filter(|test| filter.takes(&test.name) || filter.takes(&test.path.display().to_string()))
        .collect();
    if let Err(text) = crate::cmd::packages::ready(tests.iter().filter_map(|test| test.path.parent())) {
        eprintln!("error: {}", harn_syntax::printable(&text));
        return 1;
    }
    if tests.is_empty() && !args.json {
        crate::out::write("No test pipelines found\n");
    } else if !args.json {
        crate::out::write(&report::head(&tests));
    }
    let clock = Real::new();
    let limit = Duration::from_millis(args.timeout);
    let ended = run_each(&tests, super::jobs(args), limit, |test| &test.name, run);
    let outcomes: Vec<Outcome> = tests
        .into_iter()
        .zip(ended)
        .map(|(test, ended)| {
            let (fate, output) = match ended.result {
                _ if ended.timed_out => (Fate::TimedOut(args.timeout), String::new()),
                Ok(Run { failure: None, output }) => (Fate::Passed, output),
                Ok(Run { failure: Some(text), output }) => (Fate::Failed(text), output),
                Err(panic) => (Fate::Failed(format!("error: {panic}")), String::new()),
            };
            Outcome { name: test.name, path: test.path, time: ended.time, fate, output }
        })
        .collect();
    match report::write(args, &target, &outcomes, clock.monotonic()) {
        Ok(()) => u8::from(outcomes.iter().any(|outcome| !matches!(outcome.fate, Fate::Passed))),
        Err(text) => {
            eprintln!("error: {text}");
            1
        }
    }
}

/// What a run of a test left.
struct Run {
    failure: Option<String>,
    output: String,
}

fn run(test: &Test, ready: &dyn Fn(&Interrupt)) -> Run {
    if let Some(broken) = &test.broken {
        return Run { failure: Some(broken.clone()), output: String::new() };
    }
    let program = match Program::read(&test.path) {
        Ok(program) => program,
        Err(text) => return Run { failure: Some(format!("error: {text}")), output: String::new() },
    };
    let state = match tempfile::tempdir() {
        Ok(state) => state,
        Err(error) => {
            let text = format!("error: cannot make a folder for the state of the test: {error}");
            return Run { failure: Some(text), output: String::new() };
        }
    };
    let folder = test.path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let real = Real::new();
    let cwd = real.canonical(folder.unwrap_or(Path::new("."))).unwrap_or_else(|_| real.work_dir());
    let output: Rc<RefCell<String>> = Rc::default();
    let system =
        TestSystem { inner: real, cwd, state: state.path().display().to_string(), out: output.clone() };
    let options = RunOptions { entry: Some(test.name.clone()), ..RunOptions::default() };
    let warned = output.clone();
    let end = program::run(
        &program,
        options,
        Rc::new(system),
        |problem| warned.borrow_mut().push_str(&problem.draw(false)),
        |interrupt| ready(&interrupt),
    );
    let failure = match end {
        // A test passes when it ends; what it gives does not count, an `exit` does.
        End::Result { code, exit: true, .. } if code != 0 => {
            Some(format!("error: the test ended with exit({code})"))
        }
        End::Result { .. } => None,
        End::Refused(problems) => Some(problems.iter().map(|p| p.draw(false)).collect::<Vec<_>>().join("\n")),
        End::Failed(problem) => Some(problem.draw(false)),
        End::Stopped => Some("error: interrupted".to_owned()),
    };
    let output = output.borrow().clone();
    Run { failure, output }
}

/// The system of a test: output is collected, paths begin at the test's folder, state is thrown away, and models are
/// not asked.
struct TestSystem {
    inner: Real,
    cwd: PathBuf,
    /// A folder for the state that outlives a program.
    state: String,
    out: Rc<RefCell<String>>,
}

impl Layer for TestSystem {
    fn inner(&self) -> &dyn System {
        &self.inner
    }

    fn cwd(&self) -> std::io::Result<PathBuf> {
        Ok(self.cwd.clone())
    }

    fn flush(&self) -> std::io::Result<()> {
        Ok(())
    }

    fn write_out(&self, text: &str) -> std::io::Result<()> {
        self.out.borrow_mut().push_str(text);
        Ok(())
    }

    fn write_err(&self, text: &str) {
        self.out.borrow_mut().push_str(text);
    }

    fn read_line(&self) -> std::io::Result<Option<String>> {
        Ok(None)
    }

    fn env(&self, name: &str) -> Option<String> {
        match name {
            "HARN_LLM_CALLS_DISABLED" => Some("1".to_owned()),
            "HARN_LLM_PROVIDER" => self.inner.env(name).or_else(|| Some("mock".to_owned())),
            "HARN_STATE_DIR" => Some(self.state.clone()),
            name if name.starts_with("HARN_EVENT_LOG_") => None,
            _ => self.inner.env(name),
        }
    }
}
