//! Commands and their results.

use std::path::PathBuf;
use std::time::Duration;

use crate::wait::Uncertain;

/// A program to run to completion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// The name, looked up in `PATH`, or a path.
    pub program: String,
    /// The arguments.
    pub arguments: Vec<String>,
    /// The working directory; that of the caller if `None`.
    pub dir: Option<PathBuf>,
    /// Environment variables to set (`Some`) or remove (`None`).
    pub env: Vec<(String, Option<String>)>,
    /// Whether to start with an empty environment.
    pub clear_env: bool,
    /// The content of standard input.
    pub input: Vec<u8>,
    /// Kills the program and its child processes after this time.
    pub timeout: Option<Duration>,
    /// Maximum output in bytes, of both streams together. A program that writes more is killed, which is an error.
    pub max_output: u64,
    /// How a resumed run treats the command if it is unknown whether it was executed.
    pub uncertain: Uncertain,
}

/// The error of a program that is in doubt: the process that ran it has ended, so its outcome is unknown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InDoubt(pub String);

impl std::fmt::Display for InDoubt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for InDoubt {}

impl Command {
    /// Default maximum output in bytes: 64 MiB.
    pub const MAX_OUTPUT: u64 = 64 << 20;

    /// Creates a command with empty input, no time limit and the default output limit.
    pub fn new(program: impl Into<String>) -> Command {
        Command {
            program: program.into(),
            arguments: Vec::new(),
            dir: None,
            env: Vec::new(),
            clear_env: false,
            input: Vec::new(),
            timeout: None,
            max_output: Command::MAX_OUTPUT,
            uncertain: Uncertain::Fail,
        }
    }
}

/// The result of a program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Finished {
    /// The process id, which on Unix is also that of its process group.
    pub pid: u32,
    /// The exit code; `None` if a signal terminated the program.
    pub code: Option<i32>,
    /// The signal that terminated the program.
    pub signal: Option<i32>,
    /// The content of standard output.
    pub stdout: Vec<u8>,
    /// The content of standard error.
    pub stderr: Vec<u8>,
    /// Whether the time limit was exceeded.
    pub timed_out: bool,
}
