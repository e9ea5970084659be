//! Runs programs in a VM with all components, in a temporary directory and with a given environment.
#![allow(dead_code, clippy::unwrap_used, reason = "each test file uses its part, and may panic")]

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use harn_system::{Capture, Layer, Real, System};
use harn_value::Value;
use harn_vm::{Source, block_on, load, uncaught};

struct TestSystem {
    capture: Rc<Capture>,
    dir: PathBuf,
    env: BTreeMap<String, String>,
}

impl Layer for TestSystem {
    fn inner(&self) -> &dyn System {
        &*self.capture
    }

    fn env(&self, name: &str) -> Option<String> {
        self.env.get(name).cloned()
    }

    fn cwd(&self) -> io::Result<PathBuf> {
        Ok(self.dir.clone())
    }
}

/// The outcome of a program.
pub(crate) struct Run {
    /// Its standard output.
    pub(crate) output: String,
    /// Its standard error.
    pub(crate) errors: String,
    /// The message of the error that ended it.
    pub(crate) error: Option<String>,
}

/// Runs `text` as the file `name` in the directory `dir`, with only these environment variables.
pub(crate) fn run_with(name: &str, text: &str, dir: &Path, env: &[(&str, &str)], mock: Option<&Path>) -> Run {
    run_in(name, text, dir, env, mock, |_| ())
}

/// Like [`run_with`], and calls a function with the VM before the program runs.
pub(crate) fn run_in(
    name: &str,
    text: &str,
    dir: &Path,
    env: &[(&str, &str)],
    mock: Option<&Path>,
    prepare: impl FnOnce(&Rc<harn_vm::Vm>),
) -> Run {
    let scratch = tempfile::tempdir().unwrap();
    let capture = Rc::new(Capture::over(Rc::new(Real::new())));
    let mut env: BTreeMap<String, String> =
        env.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    if dir == Path::new("/") {
        // A program without a directory stores its state in the temporary directory.
        let state = scratch.path().join("state").display().to_string();
        env.insert("HARN_STATE_DIR".to_owned(), state.clone());
        env.insert("HARN_RUN_DIR".to_owned(), state);
    }
    let system = TestSystem { capture: capture.clone(), dir: scratch.path().to_owned(), env };
    let vm = harn_runtime::vm_builder(Rc::new(system)).global("argv", Value::list(Vec::new())).build();
    prepare(&vm);
    let source =
        Source { name: dir.join(name).display().to_string(), text: text.into(), dir: dir.to_owned() };
    let replies = mock.map(Path::to_owned);
    let ready = harn_runtime::ModelTraffic { replies, ..Default::default() }.apply(&vm, dir);
    let ready = ready.and_then(|()| harn_runtime::install_skills(&vm, dir, &[]));
    let ready = ready.and_then(|()| harn_runtime::configure_sessions(&vm, dir));
    let error = match (ready, load(&vm, &source)) {
        (Err(error), _) => Some(error),
        (_, Err(error)) => Some(error.canonical(text)),
        (_, Ok(program)) => match block_on(async {
            harn_runtime::install_manifest_hooks(&vm, dir).await?;
            Ok(program.run(&vm, None, &[]).await)
        }) {
            Ok(Err(text)) => Some(text),
            Ok(Ok(outcome)) => match outcome.result {
                Err(error) if error.is_catchable() => Some(uncaught(&vm, &error).0.message),
                _ => None,
            },
            Err(error) => Some(error.to_string()),
        },
    };
    Run { output: capture.output(), errors: capture.errors(), error }
}

/// Runs a program without network calls.
pub(crate) fn run(text: &str) -> Run {
    run_with("test.harn", text, Path::new("/"), &[("HARN_LLM_CALLS_DISABLED", "1")], None)
}

/// Returns the output of a program that must succeed.
pub(crate) fn output(text: &str, env: &[(&str, &str)]) -> String {
    let run = run_with("test.harn", text, Path::new("/"), env, None);
    assert_eq!(run.error, None, "{}{}", run.output, run.errors);
    run.output
}
