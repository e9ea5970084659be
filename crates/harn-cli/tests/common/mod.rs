//! Helpers that run the built binary.

#![allow(dead_code, reason = "each test file uses its part")]

pub(crate) mod background;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

/// The result of a run of the binary.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    /// Formats the exit code and both streams for snapshots.
    pub(crate) fn shown(&self) -> String {
        format!("exit code: {}\n--- stdout\n{}--- stderr\n{}", self.code, self.out, self.err)
    }
}

/// Returns the command, without colours and isolated from the user's files. `HARN_TEST_BINARY` selects another build.
pub(crate) fn command(args: &[&str]) -> Command {
    let binary = std::env::var_os("HARN_TEST_BINARY");
    let mut command = Command::new(binary.unwrap_or_else(|| env!("CARGO_BIN_EXE_harn").into()));
    command.args(args).env("NO_COLOR", "1").env_remove("FORCE_COLOR").env_remove("HARN_TASK");
    for name in ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "HARN_LLM_PROVIDER", "HARN_LLM_MODEL"] {
        command.env_remove(name);
    }
    command
}

/// Whether sampling tests run all cases: `HARN_EVERY_CASE`, which `make test-every-case` sets.
pub(crate) fn every_case() -> bool {
    std::env::var_os("HARN_EVERY_CASE").is_some()
}

/// Runs the binary to its end.
pub(crate) fn harn(args: &[&str]) -> Ran {
    finish(command(args), b"")
}

/// Runs the binary in a directory.
pub(crate) fn harn_in(folder: &Path, args: &[&str]) -> Ran {
    let mut command = command(args);
    command.current_dir(folder);
    finish(command, b"")
}

/// Runs the binary with standard input.
pub(crate) fn harn_with(args: &[&str], input: &str) -> Ran {
    finish(command(args), input.as_bytes())
}

/// Runs a command to its end.
pub(crate) fn finish(mut command: Command, input: &[u8]) -> Ran {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("harn starts");
    let mut stdin = child.stdin.take().expect("stdin is piped");
    let input = input.to_vec();
    let feeder = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().expect("harn ends");
    feeder.join().expect("the feeder ends");
    Ran {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Creates a scratch directory with files.
pub(crate) fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a scratch folder");
    for (name, text) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
        std::fs::write(path, text).expect("a file");
    }
    folder
}

/// Runs a program in a file named `main.harn`.
pub(crate) fn run_text(text: &str) -> Ran {
    let folder = folder(&[("main.harn", text)]);
    harn_in(folder.path(), &["run", "main.harn"])
}

/// Runs a program in a directory as the durable run `r`.
pub(crate) fn durable(folder: &Path, args: &[&str]) -> Ran {
    durable_as(folder, "r", args)
}

/// Runs a program in a directory as a durable run.
pub(crate) fn durable_as(folder: &Path, id: &str, args: &[&str]) -> Ran {
    harn_in(folder, &[&["run", "--durable", "--run-id", id], args].concat())
}

/// Returns the output of `harn runs show` for the run `r`.
pub(crate) fn shown(folder: &Path) -> Value {
    shown_of(folder, "r")
}

/// Returns the output of `harn runs show` for a run.
pub(crate) fn shown_of(folder: &Path, id: &str) -> Value {
    let ran = harn_in(folder, &["runs", "show", id, "--json"]);
    serde_json::from_str::<Value>(&ran.out).unwrap_or_else(|_| panic!("{}", ran.shown()))["data"].clone()
}

/// Returns the content of a file, or an empty string if it does not exist.
pub(crate) fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// Returns all messages of a daemon's snapshot file, starting with those in its history file.
pub(crate) fn recorded(file: &Path, snapshot: &Value) -> Vec<Value> {
    let bytes = snapshot["earlier"]["bytes"].as_u64().unwrap_or(0);
    let beside = std::fs::read(format!("{}.history", file.display())).unwrap_or_default();
    let own = &beside[..usize::try_from(bytes).expect("a length")];
    let lines = own.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let mut parts: Vec<Value> = lines.map(|line| serde_json::from_slice(line).expect("a line")).collect();
    parts.push(snapshot.clone());
    parts.iter().flat_map(|part| part["recorded_messages"].as_array().expect("messages").clone()).collect()
}

/// Returns the root of the repository.
pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the number of kills per test; `make kill` sets it.
pub(crate) fn kills() -> u64 {
    std::env::var("HARN_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(15)
}

/// Returns the time before a test kills a program: `least` to `least + more` milliseconds, and longer on a loaded
/// machine, where startup alone may take longer.
pub(crate) fn life(chance: &mut Chance, least: u64, more: u64) -> Duration {
    Duration::from_millis(least + chance.below(more)).mul_f64(slowness())
}

/// Returns the current startup time relative to an idle machine, measured at most every two seconds.
fn slowness() -> f64 {
    const QUIET: Duration = Duration::from_millis(40);
    static MEASURED: std::sync::Mutex<Option<(std::time::Instant, f64)>> = std::sync::Mutex::new(None);
    let mut measured = MEASURED.lock().unwrap();
    let now = std::time::Instant::now();
    match *measured {
        Some((at, factor)) if now.duration_since(at) < Duration::from_secs(2) => factor,
        _ => {
            harn(&["run", "-e", ""]);
            let factor = now.elapsed().div_duration_f64(QUIET).max(1.0);
            *measured = Some((std::time::Instant::now(), factor));
            factor
        }
    }
}

/// Starts a program of a directory, whose output nobody reads.
pub(crate) fn begin(folder: &Path, program: &str, arguments: &[&str]) -> Child {
    background::start(folder, &[&["run", program, "--"], arguments].concat())
}

/// Starts a program and kills it after `life`.
pub(crate) fn run_and_kill(folder: &Path, program: &str, argument: &str, life: Duration) {
    let mut child = begin(folder, program, &[argument]);
    std::thread::sleep(life);
    child.kill().expect("it is ours");
    child.wait().expect("it ends");
}

/// Waits until a started program has appended to a file, because startup is slow on a busy machine.
pub(crate) fn until_longer(file: &Path, than: usize) {
    let begun = std::time::Instant::now();
    while text(file).len() <= than {
        assert!(begun.elapsed() < Duration::from_secs(60), "nothing is added to {}", file.display());
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Parses a JSON file that must be complete.
pub(crate) fn whole(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{} is torn: {e}\n{text}", path.display()))
}

/// Pseudorandom numbers with a fixed seed.
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}
