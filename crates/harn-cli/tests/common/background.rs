//! Helpers for processes that run during a test: starting workers, submitting runs, and waiting for a condition.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::{Ran, command, harn_in};

/// Returns a command in a directory, with its standard streams redirected to null.
pub(crate) fn silent(folder: &Path, args: &[&str]) -> Command {
    let mut command = command(args);
    command.current_dir(folder).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Starts a command in a directory, with its standard streams redirected to null.
pub(crate) fn start(folder: &Path, args: &[&str]) -> Child {
    silent(folder, args).spawn().expect("harn starts")
}

/// Kills a process.
pub(crate) fn stop(mut process: Child) {
    process.kill().expect("it is ours");
    process.wait().expect("it ends");
}

/// Waits until `look` returns a value. Checks take at most a fifth of the time, so that they do not take processor time
/// from the awaited processes.
pub(crate) fn found<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        let check = Instant::now();
        if let Some(found) = look() {
            return found;
        }
        assert!(begin.elapsed() < Duration::from_secs(400), "waited in vain until {what}");
        std::thread::sleep((check.elapsed() * 4).max(Duration::from_millis(10)));
    }
}

/// Waits until a condition is true.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    found(what, || holds().then_some(()));
}

/// Submits runs with these arguments.
pub(crate) fn submit(folder: &Path, args: &[&str]) -> Ran {
    let ran = harn_in(folder, &[&["submit"], args].concat());
    assert_eq!(ran.code, 0, "{args:?}: {}", ran.shown());
    ran
}

/// Submits a run with an ID.
pub(crate) fn submit_as(folder: &Path, id: &str, args: &[&str]) {
    submit(folder, &[&["--run-id", id], args].concat());
}

/// Executes all runs that are due.
pub(crate) fn drain(folder: &Path) -> Ran {
    harn_in(folder, &["worker", "--drain"])
}
