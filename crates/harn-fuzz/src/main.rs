//! `harn-fuzz [--seconds N] [--seed N] [TARGET...]`: runs the parts of Harn that process untrusted input with
//! random input, and stops at the first panic, hang or unbounded memory growth.
//!
//! A run of a target is a child process, so that stack overflows and aborts are findings too. Input number `i`
//! depends only on the seed, on `i` and on the stored corpus, so the parent can save the input that crashed a
//! child. Files: `generate.rs` generates programs, `mutate.rs` mutates inputs, `corpus.rs` stores inputs,
//! `blocks.rs` rewrites programs to equivalent ones, `reference` is a second interpreter, `replies.rs`,
//! `documents.rs`, `values.rs` and `files.rs` contain the targets for external input, `target.rs` defines the
//! checked properties, `watch.rs` is the parent.

mod alloc;
mod blocks;
mod corpus;
mod documents;
mod files;
mod generate;
mod machine;
mod mutate;
mod reference;
mod replies;
mod rng;
mod target;
mod values;
mod watch;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: alloc::Counting = alloc::Counting;

/// The command line arguments.
struct Options {
    seconds: u64,
    seed: u64,
    /// Run only this input in this process (set by `--input`, to reproduce a finding).
    input: Option<PathBuf>,
    /// Run this number of generated inputs in this process instead of for a time.
    count: Option<u64>,
    /// For a child process: the file with its input counter, and the number of its first input.
    child: Option<(PathBuf, u64)>,
    targets: Vec<&'static target::Target>,
}

fn main() -> ExitCode {
    match read_arguments(std::env::args().skip(1)) {
        Ok(Some(options)) => run(&options),
        Ok(None) => {
            println!("{}", usage());
            ExitCode::SUCCESS
        }
        Err(text) => {
            eprintln!("error: {text}\n\n{}", usage());
            ExitCode::from(2)
        }
    }
}

fn run(options: &Options) -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    if let (Some(path), [target]) = (&options.input, options.targets.as_slice()) {
        return match std::fs::read(path) {
            Ok(bytes) => {
                (target.check)(&bytes);
                println!("{}: nothing found", target.name);
                ExitCode::SUCCESS
            }
            Err(e) => {
                eprintln!("error: cannot read {}: {e}", path.display());
                ExitCode::FAILURE
            }
        };
    }
    if let Some(count) = options.count {
        for target in &options.targets {
            for index in 0..count {
                (target.check)(&(target.generate)(&mut rng::Rng::new(options.seed, index)));
            }
            println!("{:10} {count} generated inputs, nothing found", target.name);
        }
        return ExitCode::SUCCESS;
    }
    if let (Some((counter, first)), [target]) = (&options.child, options.targets.as_slice()) {
        return watch::run_child(target, options.seed, *first, counter);
    }
    let mut clean = true;
    for target in &options.targets {
        clean &= watch::run_parent(target, &root, options.seed, options.seconds);
    }
    if clean { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn usage() -> String {
    let names: Vec<&str> = target::TARGETS.iter().map(|t| t.name).collect();
    format!(
        "Usage: harn-fuzz [--seconds N] [--seed N] [--count N] [--input FILE] [TARGET...]\n\n\
         TARGET is one of: {}. Without one, each is run for N seconds (default 20).\n\
         --count N tries N generated inputs of each in this process, which a panic ends.\n\
         --input FILE gives a kept finding to the one target named.",
        names.join(", ")
    )
}

fn read_arguments(mut args: impl Iterator<Item = String>) -> Result<Option<Options>, String> {
    let mut options =
        Options { seconds: 20, seed: 1, input: None, count: None, child: None, targets: Vec::new() };
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
        let number = |text: String| text.parse::<u64>().map_err(|_| format!("{text:?} is not a number"));
        match arg.as_str() {
            "-h" | "--help" => return Ok(None),
            "--seconds" => options.seconds = number(value()?)?,
            "--seed" => options.seed = number(value()?)?,
            "--count" => options.count = Some(number(value()?)?),
            "--input" => options.input = Some(value()?.into()),
            "--child" => options.child = Some((value()?.into(), number(value()?)?)),
            name => options.targets.push(
                target::TARGETS
                    .iter()
                    .find(|t| t.name == name)
                    .ok_or_else(|| format!("no such target: {name}"))?,
            ),
        }
    }
    if options.targets.is_empty() {
        options.targets = target::TARGETS.iter().collect();
    }
    if options.input.is_some() && options.targets.len() != 1 {
        return Err("--input needs the name of one target".to_owned());
    }
    Ok(Some(options))
}
