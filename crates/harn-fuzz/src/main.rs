//! `harn-fuzz [--seconds N] [--seed N] [TARGET...]`: feeds random input to the parts of Harn that read what
//! strangers write, and stops at the first panic, hang or growth without bound.
//!
//! One run of a target is a child process: so that a stack overflow or an abort is a finding too, not the end of
//! the run. Input number `i` depends on the seed, on `i` and on the kept corpus alone, so the parent can write down
//! any input a child died on. Files: `generate.rs` makes programs, `mutate.rs` breaks texts, `corpus.rs` keeps
//! inputs, `blocks.rs` rewrites programs without changing them, `reference` is a second interpreter, `replies.rs`,
//! `documents.rs`, `values.rs` and `files.rs` hold targets for text from outside, `target.rs` says what must hold, `watch.rs` is
//! the parent.

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

/// What the command line asks for.
struct Options {
    seconds: u64,
    seed: u64,
    /// Only this input, in this process (set by `--input`, to look at a finding).
    input: Option<PathBuf>,
    /// So many generated inputs, in this process, instead of a time.
    count: Option<u64>,
    /// This process is a child: where it counts its inputs, and the first one to try.
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
