//! `harn run`: runs a program and converts its result to an exit code.

use std::io::Write;
use std::path::Path;
use std::rc::Rc;

use harn_check::Settings;
use harn_journal::Pending;
use harn_runtime::Generation;
use harn_syntax::Severity;
use harn_system::{Level, Real, Stream, System, SystemExt, real};
use harn_value::{Data as Value, json};
use harn_vm::Names;
use rustc_hash::FxHashSet;

use crate::args::{RunArgs, need_folders, usage_error};
use crate::events::{EventSystem, Events};
use crate::findings;
use crate::profile::Profile;
use crate::program::{self, End, Failure, Program, RunOptions, Witness};
use crate::report::Problem;
use crate::signal;
use crate::style::Colour;

/// Runs the program. Returns the exit code.
pub(crate) fn run(args: RunArgs) -> u8 {
    let sink = Sink::of(args.json, args.quiet);
    let text = match text("run", &args, &sink) {
        Ok(text) => text,
        Err(code) => return code,
    };
    let program = program_of(&args, text);
    if args.explain_cost {
        return super::explain_cost::explain_cost(&program).unwrap_or_else(|end| sink.finish(end));
    }
    let mut generation = Generation::default();
    loop {
        let warn = |problem: &Problem| {
            if generation.number == 1 {
                sink.warn(problem);
            }
        };
        let options = RunOptions {
            generation: Some(generation.clone()),
            witness: sink.witness(|| true),
            ..options(args.clone())
        };
        match program::run(&program, options, sink.system(), warn, signal::stop_on_signal) {
            End::Anew(state) => generation = generation.next(state),
            end => return sink.finish(end),
        }
    }
}

/// Returns the source of the program. The error is the exit code.
pub(super) fn text(command: &str, args: &RunArgs, sink: &Sink) -> Result<String, u8> {
    let program = match (&args.eval, &args.file) {
        (Some(_), Some(_)) => usage_error(
            command,
            &format!("`harn {command}` accepts either `-e <code>` or `<file.harn>`, not both"),
        ),
        (None, None) => {
            // The default entry file of a project.
            let hint = if Real::new().is_file(Path::new("main.harn")) {
                format!("; here: harn {command} main.harn")
            } else {
                String::new()
            };
            usage_error(
                command,
                &format!("`harn {command}` requires either `-e <code>` or `<file.harn>`{hint}"),
            )
        }
        (Some(code), None) => Ok(code.clone()),
        (None, Some(path)) => program::read_text(path).map_err(|text| {
            let file = path.with_extension("harn");
            let is_meant = path.extension().is_none() && Real::new().is_file(&file);
            if is_meant { format!("{text}\n  = help: did you mean `{}`?", file.display()) } else { text }
        }),
    };
    for record in [&args.models.llm_mock_record, &args.models.llm_cassette_record].into_iter().flatten() {
        if args.file.as_deref().is_some_and(|file| real::files::same_file(file, record)) {
            usage_error(
                command,
                &format!("`{}` is the program: a recording would replace it", record.display()),
            );
        }
    }
    let text = program.map_err(|text| sink.unreadable(&text))?;
    let folder = args.file.as_deref().and_then(Path::parent).unwrap_or(Path::new(""));
    let (_, located) = Settings::find(&Real::new(), folder);
    let told = findings::about_table(located, "run");
    let (errors, warnings): (Vec<Problem>, Vec<Problem>) =
        told.into_iter().partition(|problem| problem.diagnostic.severity == Severity::Error);
    if !errors.is_empty() {
        return Err(sink.finish(End::Refused(errors)));
    }
    warnings.iter().for_each(|problem| sink.warn(problem));
    if let Some(folder) = args.file.as_deref().and_then(Path::parent) {
        super::packages::ready([folder].into_iter()).map_err(|text| sink.unready(&text))?;
    }
    Ok(text)
}

/// Creates the program from its source.
pub(super) fn program_of(args: &RunArgs, text: String) -> Program {
    match &args.file {
        Some(path) => Program::of(path, text),
        None => Program::inline(text),
    }
}

/// Returns the options of the run.
pub(super) fn options(args: RunArgs) -> RunOptions {
    if let Some(limit) = args.max_memory {
        harn_value::memory::set_limit(limit);
    }
    need_folders("run", "--skill-dir", &args.skill_dirs);
    let names = names(args.allow, args.deny);
    let sandbox = args.sandbox.map(|word| {
        let known = "none, read_only, workspace_write, process_exec or network";
        Level::of(&word).unwrap_or_else(|| {
            usage_error("run", &format!("unknown sandbox level '{word}': expected {known}"))
        })
    });
    RunOptions {
        source_base: None,
        argv: args.args,
        task: args.task,
        entry: None,
        skills: args.skill_dirs,
        traffic: args.models.traffic(),
        names,
        sandbox,
        trace: args.trace,
        profile: Profile::of(args.profile, args.profile_json),
        generation: None,
        watch: None,
        observer: None,
        witness: None,
        journal: None,
        usage: Default::default(),
        tasks_must_end: false,
    }
}

/// Returns the builtins that are allowed or denied. An unknown name is a usage error, because a typo could allow a
/// builtin that should be denied.
pub(super) fn names(allow: Option<Vec<String>>, deny: Option<Vec<String>>) -> Option<Names> {
    let given = allow.as_ref().or(deny.as_ref())?;
    let names: FxHashSet<String> =
        given.iter().map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect();
    if names.is_empty() {
        let option = if allow.is_some() { "--allow" } else { "--deny" };
        usage_error("run", &format!("`{option}` names no builtin"));
    }
    let vm = program::bare_vm();
    if let Some(unknown) = names.iter().filter(|name| vm.builtin(name).is_none()).min() {
        let hint = harn_vm::suggest::hint(unknown, vm.builtin_names());
        usage_error("run", &format!("unknown builtin '{unknown}'{hint}"));
    }
    Some(if allow.is_some() { Names::Only(names) } else { Names::AllBut(names) })
}

/// The destination of results.
pub(super) enum Sink {
    /// Text on the standard streams.
    Text,
    /// JSON events on standard output.
    Events(Events),
}

impl Sink {
    pub(super) fn of(json: bool, quiet: bool) -> Sink {
        if json { Sink::Events(Events::new(quiet)) } else { Sink::Text }
    }

    pub(super) fn system(&self) -> Rc<dyn System> {
        match self {
            Sink::Text => Rc::new(Real::new()),
            Sink::Events(events) => Rc::new(EventSystem::new(events.clone())),
        }
    }

    /// Returns the observer that writes events. While `is_new` returns false, events are replayed ones and are skipped.
    pub(super) fn witness(&self, is_new: impl Fn() -> bool + 'static) -> Option<Witness> {
        let Sink::Events(events) = self else { return None };
        let events = events.clone();
        Some(Box::new(move |event_type, fields| {
            if is_new() {
                events.happened(event_type, fields);
            }
        }))
    }

    /// Reports that the packages of the project are not installed.
    pub(super) fn unready(&self, text: &str) -> u8 {
        match self {
            Sink::Text => eprintln!("{}", harn_syntax::error_line(text)),
            Sink::Events(events) => drop(events.fail("dependencies", text, Value::Null)),
        }
        1
    }

    pub(super) fn unreadable(&self, text: &str) -> u8 {
        match self {
            Sink::Text => eprintln!("{}", harn_syntax::printable(text)),
            Sink::Events(events) => drop(events.fail("unreadable", text, Value::Null)),
        }
        1
    }

    /// Prints a warning. The program still runs.
    pub(super) fn warn(&self, problem: &Problem) {
        write_err(&problem.draw(Colour::of(Stream::Error).on()));
    }

    /// Emits an event that the run is suspended without a process.
    pub(super) fn suspended(&self, id: &str, due_ms: Option<i64>, pending: &[Pending]) {
        let Sink::Events(events) = self else { return };
        let pending = pending
            .iter()
            .map(|request| json!({"request_id": request.id, "kind": request.kind, "prompt": request.prompt}));
        let pending: Vec<Value> = pending.collect();
        let at = due_ms.and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok()).map(|at| at.to_string());
        // A failed write is ignored; the exit code also reports the suspension.
        let _ = events.send("suspended", json!({"run_id": id, "due_at": at, "pending": pending}));
    }

    /// Reports the end of the program. Returns the exit code.
    pub(super) fn finish(&self, end: End) -> u8 {
        match self {
            Sink::Text => finish_text(end),
            Sink::Events(events) => finish_events(events, end),
        }
    }
}

fn finish_text(end: End) -> u8 {
    if let End::Result { value, shown: true, .. } = &end
        && !value.is_nil()
    {
        crate::out::write(&format!("{value}\n"));
    }
    let (code, result) = end.settle();
    if let Err(failure) = result {
        write_err(&failure.draw(Colour::of(Stream::Error).on()));
    }
    code
}

fn finish_events(events: &Events, end: End) -> u8 {
    let (code, result) = end.settle();
    let (code, result) = match result.map(|value| harn_value::json::to_data(&value)) {
        Ok(Err(unfit)) => {
            let message = format!("the result cannot be written as JSON: {unfit}");
            (1, Err(Failure { code: "runtime_error", message, problems: Vec::new() }))
        }
        Ok(Ok(value)) => (code, Ok(value)),
        Err(failure) => (code, Err(failure)),
    };
    // If the reader closed the pipe, the last event is dropped.
    let _ = match result {
        Ok(value) => events.send("result", json!({"value": value, "exit_code": code})),
        Err(failure) if failure.problems.is_empty() => {
            events.fail(failure.code, &failure.message, json!({"exit_code": code}))
        }
        Err(failure) => events.fail(failure.code, &failure.message, failure.details()),
    };
    code
}

fn write_err(text: &str) {
    // If standard error is closed, the message is dropped.
    let _ = std::io::stderr().write_all(text.as_bytes());
}
