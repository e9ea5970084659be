//! What a program that is to be run is told, and what came of it.

use std::path::PathBuf;
use std::time::Duration;

use crate::wait::Uncertain;

/// A program to run to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// Its name, looked up in `PATH`, or a path.
    pub program: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Where it runs; the working directory when `None`.
    pub dir: Option<PathBuf>,
    /// Variables to set (`Some`) or to take away (`None`).
    pub env: Vec<(String, Option<String>)>,
    /// Whether it starts with an empty environment.
    pub clear_env: bool,
    /// What it reads on standard input.
    pub input: Vec<u8>,
    /// Ends it, and the processes it has started, after this time.
    pub timeout: Option<Duration>,
    /// Most bytes of output, of both streams together. What writes more is ended, which is an error.
    pub max_output: u64,
    /// What a run that goes on does with it when nobody knows how far it came.
    pub uncertain: Uncertain,
}

/// The error of a program of which nobody knows how far it came: the process that ran it has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InDoubt(pub String);

impl std::fmt::Display for InDoubt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for InDoubt {}

impl Command {
    /// Bytes of output that are kept when nothing else is said: 64 MiB.
    pub const MAX_OUTPUT: u64 = 64 << 20;

    /// A command with empty input, no limit of time, and the usual one of output.
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

/// How a program ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Finished {
    /// Its number while it ran, which is that of its process group, too.
    pub pid: u32,
    /// Its exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// What it wrote to standard output.
    pub stdout: Vec<u8>,
    /// What it wrote to standard error.
    pub stderr: Vec<u8>,
    /// Whether its time was over.
    pub timed_out: bool,
}
