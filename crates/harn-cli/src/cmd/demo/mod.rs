//! `harn demo`: runs a program that is embedded in the binary, without keys, network or project.
//!
//! `scenarios.rs` lists the scenarios, `stage.rs` sets up the directory and streams of a run, `record.rs` writes its
//! record.

mod record;
mod scenarios;
mod stage;

use std::io::Write;

use harn_runtime::ModelTraffic;
use harn_system::{Real, Stream, System};
use harn_value::{Data as Value, json};
use harn_vm::suggest;

use crate::args::DemoArgs;
use crate::out::Out;
use crate::program::{self, Program, RunOptions};
use crate::report::Problem;
use crate::signal;
use crate::style::Colour;
use scenarios::{PROGRAM, REPLIES, SCENARIOS, Scenario};
use stage::{Stage, Streams};

/// Width of the list in columns.
const WIDTH: usize = 80;

/// The hint printed at the end.
const NEXT: &str = "\
Next: `harn demo --list` shows the scenarios,
`harn explain prompt FILE.harn` shows the prompts of your program.";

/// Exit code for an unknown scenario.
const USAGE: u8 = 2;

/// Runs or lists scenarios. Returns the exit code.
pub(crate) fn demo(args: &DemoArgs) -> u8 {
    if args.list {
        return list(args.json);
    }
    let scenario = match args.scenario.as_deref() {
        Some(id) => match SCENARIOS.iter().find(|scenario| scenario.id == id) {
            Some(scenario) => scenario,
            None => return unknown(id),
        },
        None if !args.json && at_a_terminal() => match choose() {
            Ok(scenario) => scenario,
            Err(code) => return code,
        },
        None => return list(args.json),
    };
    match run(scenario, args) {
        Ok(code) => code,
        Err(problem) => {
            eprintln!("{}", harn_syntax::error_line(&problem));
            1
        }
    }
}

fn unknown(id: &str) -> u8 {
    let hint = suggest::hint(id, SCENARIOS.iter().map(|scenario| scenario.id));
    eprint!("error: unknown scenario `{id}`{hint}\n\n{}", list_text(Colour::of(Stream::Error)));
    USAGE
}

fn list(json: bool) -> u8 {
    let text = if json {
        let row = |s: &Scenario| json!({"id": s.id, "title": s.title, "description": flowing(s.description)});
        pretty(&json!({"scenarios": SCENARIOS.iter().map(row).collect::<Vec<_>>()}))
    } else {
        list_text(Colour::of(Stream::Output))
    };
    // The reader may close the pipe; that is not an error.
    let _ = Out.write_all(text.as_bytes());
    0
}

fn list_text(colour: Colour) -> String {
    let mut out = "Scenarios (no key or network needed):\n".to_owned();
    for scenario in SCENARIOS {
        out += &format!("\n  {}  {}\n", colour.strong(scenario.id), scenario.title);
        for line in wrapped(scenario.description, WIDTH - 6) {
            out += &format!("      {line}\n");
        }
    }
    out + "\nRun one with `harn demo NAME`.\n"
}

/// Whether the user can be prompted.
fn at_a_terminal() -> bool {
    let system = Real::new();
    system.is_terminal(Stream::Input) && system.is_terminal(Stream::Output)
}

/// Prompts on the terminal. An empty answer selects the first scenario.
fn choose() -> Result<&'static Scenario, u8> {
    for (n, scenario) in SCENARIOS.iter().enumerate() {
        let _ = writeln!(Out, "  {}. {}  {}", n + 1, scenario.id, scenario.title);
    }
    let _ = write!(Out, "Which one? [1] ");
    let _ = Out.flush();
    let answer = Real::new().read_line_now().map_err(|_| 1)?.unwrap_or_default();
    let answer = answer.trim();
    let number = if answer.is_empty() { Ok(1) } else { answer.parse::<usize>() };
    let found = match number {
        Ok(n) => n.checked_sub(1).and_then(|at| SCENARIOS.get(at)),
        Err(_) => SCENARIOS.iter().find(|scenario| scenario.id == answer),
    };
    found.ok_or_else(|| unknown(answer))
}

/// Runs a scenario and writes a record.
///
/// # Errors
/// The scratch directory cannot be written, or the program cannot be read.
fn run(scenario: &Scenario, args: &DemoArgs) -> Result<u8, String> {
    let stage = Stage::set(scenario.files)?;
    let out = Colour::of(Stream::Output);
    let say = |text: String| {
        if !args.json {
            let mut stdout = Out;
            let _ = writeln!(stdout, "{text}").and_then(|()| stdout.flush());
        }
    };
    let mode = if args.live {
        "(live: real models, with your keys)"
    } else {
        "(recorded replies, no API key needed)"
    };
    say(format!(
        "{}\n{}\n{mode}\n",
        out.strong(&format!("=== harn demo · {} ===", scenario.id)),
        scenario.title
    ));

    let program = Program::read(&stage.path(PROGRAM))?;
    let streams = Streams::new(!args.json);
    let has_replies = scenario.files.iter().any(|(name, _)| *name == REPLIES);
    // Without recorded replies, every model call is an error: a scenario has replies for all its calls or makes none.
    let replies = (!args.live).then(|| stage.path(if has_replies { REPLIES } else { stage::NO_REPLIES }));
    let options =
        RunOptions { traffic: ModelTraffic { replies, ..ModelTraffic::default() }, ..RunOptions::default() };
    // The record is optional: the demo also runs without it.
    let unkept = |problem: String| eprintln!("warning: {problem}; `--no-record` keeps none");
    let folder = (!args.no_record).then(|| record::Folder::make(scenario).map_err(unkept).ok()).flatten();
    let calls = folder.as_ref().filter(|_| has_replies).map(record::Folder::calls);
    let clock = Real::new();
    let warn = |problem: &Problem| streams.write_err(&problem.draw(streams.colour()));
    let end = program::run(&program, options, stage.system(&streams, calls), warn, signal::stop_on_signal);
    let (code, result) = end.settle();
    if let Err(failure) = result {
        streams.write_err(&failure.draw(streams.colour()));
    }
    let elapsed_ms = u64::try_from(clock.monotonic().as_millis()).unwrap_or(u64::MAX);

    let folder = folder.and_then(|folder| folder.write(scenario, code, &streams).map_err(unkept).ok());
    if args.json {
        let _ = Out.write_all(
            pretty(&json!({
                "scenario": scenario.id, "title": scenario.title, "exit_code": code, "elapsed_ms": elapsed_ms,
                "stdout": streams.out(), "stderr": streams.err(), "run_record_dir": folder,
            }))
            .as_bytes(),
        );
        return Ok(code);
    }
    if code != 0 {
        eprintln!("\nerror: demo `{}` failed (exit {code})", scenario.id);
        if args.live && is_about_credentials(&(streams.err() + &streams.out())) {
            eprintln!("A key is missing or refused; `harn demo {}` runs without one.", scenario.id);
        }
        return Ok(code);
    }
    say(format!("\n--- demo complete in {elapsed_ms} ms ---"));
    if let Some(folder) = &folder {
        say(format!("Record: {folder}/run.json"));
    }
    say(NEXT.to_owned());
    Ok(code)
}

fn is_about_credentials(text: &str) -> bool {
    let text = text.to_lowercase();
    ["api key", "api_key", "credential", "unauthorized", "auth"].iter().any(|word| text.contains(word))
}

fn pretty(value: &Value) -> String {
    // Serialization of these values cannot fail.
    serde_json::to_string_pretty(value).unwrap_or_default() + "\n"
}

/// Collapses whitespace to single spaces.
fn flowing(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= columns => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}
