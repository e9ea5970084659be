//! `harn completions SHELL`: prints a shell completion script.

use std::io::Write;

use clap::CommandFactory;

use crate::args::Cli;

/// Prints the script.
pub(crate) fn completions(shell: clap_complete::Shell) -> u8 {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "harn", &mut script);
    // The reader may close the pipe; that is not an error.
    let _ = crate::out::Out.write_all(&script);
    0
}
