//! `harn completions SHELL`: a completion script on standard output.

use std::io::Write;

use clap::CommandFactory;

use crate::args::Cli;

/// Prints the script.
pub(crate) fn completions(shell: clap_complete::Shell) -> u8 {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "harn", &mut script);
    // A closed pipe is the reader's choice, not an error.
    let _ = crate::out::Out.write_all(&script);
    0
}
