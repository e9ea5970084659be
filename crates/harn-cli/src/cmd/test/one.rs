//! One run of a test in its own VM.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use harn_runtime::ModelTraffic;
use harn_system::{Layer, Real, System, SystemExt, Waiting};
use harn_vm::Interrupt;

use super::coverage::{Counter, Files};
use super::find::Test;
use crate::args::TestArgs;
use crate::conformance::printed::Printed;
use crate::program::{self, End, Program, RunOptions};

/// The directory of recorded model replies, relative to the working directory.
const REPLIES: &str = ".harn-fixtures";

/// Returns the directory of recorded model replies.
pub(super) fn replies() -> PathBuf {
    Real::new().work_dir().join(REPLIES)
}

/// Environment variable that disables model calls.
const DISABLED: &str = "HARN_LLM_CALLS_DISABLED";

/// The settings shared by all tests of a command.
#[derive(Clone)]
pub(super) struct Settings {
    /// Whether line coverage is recorded.
    pub(super) coverage: bool,
    /// Whether snapshots are rewritten.
    update_snapshots: bool,
    skills: Vec<PathBuf>,
    /// Whether model calls are logged.
    pub(super) logs: bool,
    /// The directory into which model replies are recorded, if any.
    pub(super) keep: Option<PathBuf>,
    /// The directory from which model replies are replayed, if any.
    pub(super) kept: Option<PathBuf>,
}

impl Settings {
    pub(super) fn of(args: &TestArgs) -> Settings {
        Settings {
            coverage: args.coverage || args.coverage_out.is_some(),
            update_snapshots: args.update_snapshots,
            skills: args.skill_dirs.clone(),
            logs: args.determinism,
            keep: args.record.then(replies),
            kept: args.replay.then(replies),
        }
    }
}

/// The result of one run of a test.
#[derive(Default)]
pub(super) struct Run {
    pub(super) failure: Option<String>,
    pub(super) output: String,
    /// The lines that were executed.
    pub(super) covered: Files,
    /// The log of its model calls.
    pub(super) calls: String,
}

impl Run {
    fn failed(text: String) -> Run {
        Run { failure: Some(text), ..Run::default() }
    }
}

/// Returns the file of model replies next to a program: the mocks of its tests.
pub(super) fn fixture(path: &Path) -> Option<PathBuf> {
    Some(path.with_extension("llm-mock.jsonl")).filter(|path| Real::new().is_file(path))
}

/// Runs a test once.
#[expect(clippy::disallowed_methods, reason = "a folder that is gone at the end, also after a panic")]
pub(super) fn run(test: &Test, settings: &Settings, ready: &dyn Fn(&Interrupt)) -> Run {
    if let Some(broken) = &test.broken {
        return Run::failed(broken.clone());
    }
    let program = match Program::read(&test.path) {
        Ok(program) => program,
        Err(text) => return Run::failed(format!("error: {text}")),
    };
    let state = match tempfile::tempdir() {
        Ok(state) => state,
        Err(error) => {
            return Run::failed(format!("error: cannot make a folder for the state of the test: {error}"));
        }
    };
    let folder = test.path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let real = Real::new();
    let cwd = real.canonical(folder.unwrap_or(Path::new("."))).unwrap_or_else(|_| real.work_dir());
    let output = Printed::default();
    let log = settings.logs.then(|| state.path().join("calls"));
    let absolute = |path: PathBuf| real.work_dir().join(path);
    let traffic = ModelTraffic {
        replies: fixture(&test.path).map(absolute),
        keep: settings.keep.clone(),
        kept: settings.kept.clone(),
        ..ModelTraffic::default()
    };
    let counter: Rc<Counter> = Rc::default();
    let observer = settings.coverage.then(|| counter.clone() as Rc<dyn harn_vm::Observer>);
    let skills = settings.skills.iter().map(|folder| real.work_dir().join(folder)).collect();
    let options = RunOptions {
        entry: Some(test.name.clone()),
        traffic,
        skills,
        observer,
        tasks_must_end: true,
        source_base: Some(real.work_dir()),
        ..RunOptions::default()
    };
    let system = TestSystem {
        inner: real,
        cwd,
        state: state.path().display().to_string(),
        out: output.clone(),
        asks_models: settings.keep.is_some(),
        update_snapshots: settings.update_snapshots,
        log: log.as_ref().map(|log| log.display().to_string()),
    };
    let warned = output.clone();
    let end = program::run(
        &program,
        options,
        Rc::new(system),
        |problem| drop(warned.push(&problem.draw(false))),
        |interrupt| ready(&interrupt),
    );
    let failure = match end {
        // A test passes when it returns, with any value. A nonzero `exit` fails it.
        End::Result { code, exit: true, .. } if code != 0 => {
            Some(format!("error: the test ended with exit({code})"))
        }
        End::Result { .. } | End::Anew(_) => None,
        End::Refused(problems) => Some(problems.iter().map(|p| p.draw(false)).collect::<Vec<_>>().join("\n")),
        End::Failed(problem) => Some(problem.draw(false)),
        End::Stopped => Some("error: interrupted".to_owned()),
    };
    let failure = failure.map(|text| with_way_out(text, settings));
    let calls = log.map(|log| log.join("llm_transcript.jsonl"));
    let calls = calls.and_then(|log| Real::new().read_text(&log, u64::MAX).ok()).unwrap_or_default();
    let output = output.text().to_owned();
    Run { failure, output, covered: counter.files(), calls }
}

/// Adds a hint to a failure if the test called a model, because the test runner disables model calls.
fn with_way_out(mut text: String, settings: &Settings) -> String {
    if settings.keep.is_none() && text.contains(DISABLED) && Real::new().env(DISABLED).is_none() {
        text = format!(
            "{}\n   = note: tests do not call models: set the reply with `llm_mock` or in a file NAME.llm-mock.jsonl next to the \
             test, or record one with `harn test --record`\n",
            text.trim_end()
        );
    }
    text
}

/// The system of a test: output is captured, paths are relative to the test's directory, state is discarded, and models
/// are not called.
struct TestSystem {
    inner: Real,
    cwd: PathBuf,
    /// A temporary directory for persistent state.
    state: String,
    out: Printed,
    /// Model calls are allowed: their replies are recorded.
    asks_models: bool,
    update_snapshots: bool,
    /// A directory for the log of model calls.
    log: Option<String>,
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
        self.out.push(text)
    }

    fn write_err(&self, text: &str) {
        // When the capture is full, further output is dropped.
        let _ = self.out.push(text);
    }

    fn read_line(&self) -> Waiting<'static, std::io::Result<Option<String>>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    fn env(&self, name: &str) -> Option<String> {
        match name {
            DISABLED if self.asks_models => self.inner.env(name),
            DISABLED => Some("1".to_owned()),
            "HARN_LLM_PROVIDER" => self.inner.env(name).or_else(|| Some("mock".to_owned())),
            "HARN_STATE_DIR" => Some(self.state.clone()),
            name if name.starts_with("HARN_EVENT_LOG_") => None,
            "HARN_UPDATE_SNAPSHOTS" if self.update_snapshots => Some("1".to_owned()),
            "HARN_LLM_TRANSCRIPT_DIR" if self.log.is_some() => self.log.clone(),
            _ => self.inner.env(name),
        }
    }
}
