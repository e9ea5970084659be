//! Runs with a journal: `harn run --durable`, `harn resume`, `harn replay`, `harn fork`.

use std::rc::Rc;
use std::sync::Arc;

use clap::Parser;
use harn_journal::{Difference, Entry, Journal, Keeper, Nowhere, Setup, Stop, StoreKeeper, take_lease, wait};
use harn_store::{
    Error as StoreError, Fence, NewRun, NewStatus, Run, RunFilter, RunStatus, SqliteStore, Store, Write,
};
use harn_system::{Capture, Real, System, SystemExt};
use serde_json::{Value, json};

use crate::args::{Cli, Command, ForkArgs, ReplayArgs, ResumeArgs, RunArgs, with_run};
use crate::cmd::run::{Sink, options, program_of, text};
use crate::program::{self, End};
use crate::signal;

/// Entries that are read at once.
const PAGE: usize = 10_000;

/// Exit code of a run that was stopped and can go on: that of a temporary failure, in the list of `sysexits`.
const TO_BE_RESUMED: u8 = 75;

type Failed<T> = Result<T, String>;

/// The store of the project that the working directory belongs to.
fn store() -> Failed<Arc<SqliteStore>> {
    let real = Real::new();
    let path = program::state_file(&real);
    if let Some(folder) = path.parent() {
        real.make_dirs(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    Ok(Arc::new(SqliteStore::new(path)))
}

/// The store of the project, if it has one: who only looks makes none.
fn known_store(id: &str) -> Failed<Arc<SqliteStore>> {
    let real = Real::new();
    if real.is_file(&program::state_file(&real)) { store() } else { Err(missing(id)) }
}

fn missing(id: &str) -> String {
    format!("there is no run '{id}' here: runs are kept in the project that they were started in")
}

/// The end of a command that has failed.
fn failed(text: &str) -> u8 {
    eprintln!("{}", harn_syntax::printable(text));
    1
}

/// A name for a run.
fn drawn() -> String {
    format!("{:012x}", Real::new().random_u64() >> 16)
}

/// Refuses what cannot be the name of a run.
fn checked(id: &str) -> Failed<()> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if id.is_empty() || id.len() > 64 || !id.chars().all(fits) {
        return Err(format!(
            "'{id}' cannot be the name of a run: expected 1 to 64 letters, digits, `-`, `_` and `.`"
        ));
    }
    Ok(())
}

/// A time for people, to the second.
fn shown_time(ms: i64) -> String {
    let at = jiff::Timestamp::from_millisecond(ms).unwrap_or(jiff::Timestamp::MAX);
    at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// What is needed to start the program again.
fn facts(task: Option<&str>, command: &[String]) -> Value {
    json!({
        "version": env!("CARGO_PKG_VERSION"), "command": command, "task": task,
        "dir": Real::new().work_dir().display().to_string(),
    })
}

/// The arguments that a run was begun with.
fn given(run: &Run) -> Failed<(RunArgs, Value)> {
    let broken = || format!("run '{}': what it was started with cannot be read", run.id);
    let info: Value = serde_json::from_slice(&run.info).map_err(|_| broken())?;
    let command = info["command"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let cli = Cli::try_parse_from(command).map_err(|_| broken())?;
    let Command::Run(mut args) = cli.command else { return Err(broken()) };
    args.task = info["task"].as_str().map(str::to_owned);
    Ok((args, info))
}

/// The name under which the text of the program is kept.
fn source_name(args: &RunArgs) -> String {
    args.file.as_ref().map_or_else(|| "<inline>".to_owned(), |path| path.display().to_string())
}

/// Begins a run with a journal; gives the exit code.
pub(crate) fn begin(args: RunArgs) -> u8 {
    let sink = Sink::of(args.json, args.quiet);
    let text = match text(&args, &sink) {
        Ok(text) => text,
        Err(code) => return code,
    };
    let command: Vec<String> = with_run(std::env::args_os().collect())
        .iter()
        .map(|arg| arg.to_string_lossy().into_owned())
        .collect();
    let id = args.run_id.clone().unwrap_or_else(drawn);
    let begun = checked(&id).and_then(|()| {
        let store = store()?;
        let fence = take_lease(&*store, &Real::new(), &id).map_err(|error| explained(&id, &error))?.fence();
        let at_ms = Real::new().now_ms();
        let run = NewRun {
            id: id.clone(),
            program: source_name(&args),
            args: args.args.clone(),
            status: NewStatus::Running,
            info: facts(args.task.as_deref(), &command).to_string().into_bytes(),
        };
        let source =
            Write::SourcePut { run: id.clone(), path: source_name(&args), bytes: text.clone().into_bytes() };
        let made = wait(store.write(&fence, vec![Write::RunCreate { run, at_ms }, source]));
        made.map_err(|error| explained(&id, &error))?;
        Ok(Owned { store, fence, id: id.clone() })
    });
    let owned = match begun {
        Ok(owned) => owned,
        Err(text) => return failed(&text),
    };
    eprintln!("[harn] run {id} is kept");
    let suspend_after = args.suspend_after;
    let setup = Setup { suspend_after, ..Setup::new(sink.system(), owned.keeper()) };
    owned.work(args, text, &sink, setup)
}

/// An error of the store, in terms of runs.
fn explained(id: &str, error: &StoreError) -> String {
    match error {
        StoreError::Exists { .. } => {
            format!(
                "there is a run '{id}' already: `harn resume {id}` goes on with it, or choose another name"
            )
        }
        StoreError::Held { .. } => format!("run '{id}' is being worked on by another process"),
        StoreError::Missing { .. } => missing(id),
        other => format!("run '{id}': {other}"),
    }
}

/// A run that this process may write.
struct Owned {
    store: Arc<SqliteStore>,
    fence: Fence,
    id: String,
}

impl Owned {
    fn keeper(&self) -> Box<dyn Keeper> {
        Box::new(StoreKeeper::new(self.store.clone(), self.fence.clone(), &*self.id))
    }

    /// Says how the run stands, and gives it back.
    fn leave(&self, status: Option<NewStatus>, note: &str) -> Failed<()> {
        let at_ms = Real::new().now_ms();
        let status = status.map(|status| Write::RunStatus {
            run: self.id.clone(),
            status,
            note: note.to_owned(),
            at_ms,
        });
        let writes = status.into_iter().chain([Write::Release]).collect();
        wait(self.store.write(&self.fence, writes)).map(drop).map_err(|error| explained(&self.id, &error))
    }

    /// Works on the run until it ends or stops; gives the exit code.
    fn work(self, args: RunArgs, text: String, sink: &Sink, setup: Setup) -> u8 {
        let is_new = setup.entries.is_empty();
        let program = program_of(&args, text);
        let journal = Journal::new(setup);
        let system: Rc<dyn System> = Rc::new(journal.clone());
        let options = program::RunOptions { journal: Some(journal.clone()), ..options(args) };
        let warn = |problem: &crate::report::Problem| {
            if is_new {
                sink.warn(problem);
            }
        };
        let end = program::run(&program, options, system, warn, signal::stop_on_signal);
        let settled = journal.settle();
        match journal.stopped().or(settled.err()) {
            None => {
                let code = sink.finish(end);
                let exit_code = i32::from(code);
                let status = if code == 0 {
                    NewStatus::Completed { exit_code }
                } else {
                    NewStatus::Failed { exit_code }
                };
                match self.leave(Some(status), "") {
                    Ok(()) => code,
                    Err(text) => failed(&text),
                }
            }
            Some(stop) => self.stopped(stop, end),
        }
    }

    /// Tells why the run has stopped, and how to go on.
    fn stopped(self, stop: Stop, end: End) -> u8 {
        let id = &self.id;
        match stop {
            Stop::Interrupted => {
                let (code, _) = end.settle();
                eprintln!("[harn] run {id} was interrupted; `harn resume {id}` goes on with it");
                // Nobody is left to write it when this fails; the lease runs out then.
                drop(self.leave(None, ""));
                code
            }
            Stop::Difference(difference) => {
                drop(self.leave(None, ""));
                shown_difference(id, &difference)
            }
            Stop::Suspended(due_ms) => {
                let at = shown_time(due_ms);
                let note = format!("waits until {at}");
                match self.leave(Some(NewStatus::Suspended { due_ms: Some(due_ms), answers: 0 }), &note) {
                    Ok(()) => {
                        eprintln!("[harn] run {id} waits until {at}; `harn resume {id}` goes on with it");
                        TO_BE_RESUMED
                    }
                    Err(text) => failed(&text),
                }
            }
            stop => {
                drop(self.leave(None, ""));
                eprintln!("run '{id}': {stop}; `harn resume {id}` goes on with it");
                TO_BE_RESUMED
            }
        }
    }
}

/// Shows where a program and its journal part.
fn shown_difference(id: &str, difference: &Difference) -> u8 {
    let Difference { seq, was, was_at, now, now_at } = difference;
    let place = |at: &str| if at.is_empty() { String::new() } else { format!(" at {at}") };
    eprintln!(
        "run '{id}': the program differs from its journal at entry {seq}\n  was: {was}{}\n  now: {now}{}\n  = help: `harn fork {id} --at {seq} --changed` goes on from there in a new run, with the sources of today",
        place(was_at),
        place(now_at)
    );
    1
}

/// A run with what is known of it.
struct Known {
    run: Run,
    args: RunArgs,
    text: String,
    entries: Vec<Entry>,
}

/// Reads a run.
fn known(store: &dyn Store, id: &str) -> Failed<Known> {
    let wrong = |error: StoreError| explained(id, &error);
    let run = wait(store.run(id)).map_err(wrong)?.ok_or_else(|| missing(id))?;
    let (args, info) = given(&run)?;
    let here = Real::new().work_dir().display().to_string();
    if info["dir"].as_str().is_some_and(|dir| dir != here) {
        let dir = info["dir"].as_str().unwrap_or_default();
        return Err(format!("run '{id}' was started in {dir}: go there first, as its paths begin there"));
    }
    let name = source_name(&args);
    let sources = wait(store.sources(id)).map_err(wrong)?;
    let source = sources.into_iter().find(|source| source.path == name);
    let text = source.and_then(|source| String::from_utf8(source.bytes).ok());
    let text = text.ok_or_else(|| format!("run '{id}': its program is not in the store"))?;
    let mut entries = Vec::new();
    loop {
        let page = wait(store.journal(id, entries.len() as u64, PAGE)).map_err(wrong)?;
        if page.is_empty() {
            break;
        }
        for entry in &page {
            entries.push(
                Entry::from_store(entry)
                    .ok_or_else(|| format!("run '{id}': {}", Stop::Unreadable(entry.seq)))?,
            );
        }
    }
    Ok(Known { run, args, text, entries })
}

/// Goes on with a run; gives the exit code.
pub(crate) fn resume(args: &ResumeArgs) -> u8 {
    let store = match args.id.as_deref().map_or_else(store, known_store) {
        Ok(store) => store,
        Err(text) => return failed(&text),
    };
    if let Some(id) = &args.id {
        return resume_one(&store, id, args.retry_in_doubt).unwrap_or_else(|text| failed(&text));
    }
    let now_ms = Real::new().now_ms();
    let filter = RunFilter { status: None, now_ms, before: None };
    let mut filter = filter;
    let mut open = Vec::new();
    loop {
        let page = match wait(store.runs(filter, PAGE)) {
            Ok(page) => page,
            Err(error) => return failed(&error.to_string()),
        };
        let Some(last) = page.last() else { break };
        filter.before = Some(last.number);
        let is_due = |run: &Run| match run.status {
            RunStatus::Running => true,
            RunStatus::Suspended => run.due_ms.is_some_and(|due_ms| due_ms <= now_ms),
            _ => false,
        };
        open.extend(page.into_iter().filter(is_due).map(|run| run.id));
    }
    // The oldest first.
    let mut worst = 0;
    for id in open.into_iter().rev() {
        let code = resume_one(&store, &id, args.retry_in_doubt).unwrap_or_else(|text| failed(&text));
        worst = worst.max(code);
    }
    worst
}

fn resume_one(store: &Arc<SqliteStore>, id: &str, retry_in_doubt: bool) -> Failed<u8> {
    let wrong = |error: StoreError| explained(id, &error);
    // Who looks before it has the right might read what another process goes on with.
    let found = wait(store.run(id)).map_err(wrong)?;
    if found.is_none() {
        return Err(explained(id, &StoreError::Missing { what: String::new() }));
    }
    let fence = take_lease(&**store, &Real::new(), id).map_err(wrong)?.fence();
    let owned = Owned { store: store.clone(), fence, id: id.to_owned() };
    let begun = known(&**store, id).and_then(|known| {
        if known.run.status.is_end() {
            let word = known.run.status.word();
            return Err(format!("run '{id}' has ended ({word}); `harn replay {id}` shows it again"));
        }
        let status = NewStatus::Running;
        let (run, note, at_ms) = (id.to_owned(), String::new(), Real::new().now_ms());
        let started = wait(store.write(&owned.fence, vec![Write::RunStatus { run, status, note, at_ms }]));
        started.map(|_| known).map_err(wrong)
    });
    let known = match begun {
        Ok(known) => known,
        Err(text) => {
            drop(owned.leave(None, ""));
            return Err(text);
        }
    };
    let sink = Sink::of(known.args.json, known.args.quiet);
    let setup = Setup {
        entries: known.entries,
        retry_in_doubt,
        suspend_after: known.args.suspend_after,
        ..Setup::new(sink.system(), owned.keeper())
    };
    Ok(owned.work(known.args, known.text, &sink, setup))
}

/// Shows a run again; gives the exit code.
pub(crate) fn replay(args: &ReplayArgs) -> u8 {
    let known = known_store(&args.id).and_then(|store| known(&*store, &args.id));
    let known = match known {
        Ok(known) => known,
        Err(text) => return failed(&text),
    };
    let text = match (args.check, &known.args.file) {
        (true, Some(path)) => match program::read_text(path) {
            Ok(text) => text,
            Err(text) => return failed(&text),
        },
        _ => known.text,
    };
    let sink = Sink::of(args.json, false);
    let quiet = Rc::new(Capture::over(Rc::new(Real::new())));
    let inner: Rc<dyn System> = if args.check { quiet } else { sink.system() };
    let length = known.entries.len();
    let setup = Setup {
        entries: known.entries,
        replay: true,
        until: args.until,
        reload: args.check,
        ..Setup::new(inner, Box::new(Nowhere))
    };
    let program = program_of(&known.args, text);
    let journal = Journal::new(setup);
    let system: Rc<dyn System> = Rc::new(journal.clone());
    let options = program::RunOptions { journal: Some(journal.clone()), ..options(known.args) };
    let warn = |problem: &crate::report::Problem| {
        if !args.check {
            sink.warn(problem);
        }
    };
    let end = program::run(&program, options, system.clone(), warn, signal::stop_on_signal);
    drop(system.flush());
    let id = &args.id;
    match journal.stopped() {
        Some(Stop::Difference(difference)) => shown_difference(id, &difference),
        Some(Stop::Interrupted) => sink.finish(end),
        Some(stop @ (Stop::End | Stop::Until(_))) => {
            eprintln!("[harn] run {id}: {stop}");
            0
        }
        Some(stop) => failed(&format!("run '{id}': {stop}")),
        None => match journal.left_over() {
            Some(difference) => shown_difference(id, &difference),
            None if args.check => {
                println!("run {id}: no difference in {length} entries");
                0
            }
            None => sink.finish(end),
        },
    }
}

/// Begins a run with the journal of another one; gives the exit code.
pub(crate) fn fork(args: ForkArgs) -> u8 {
    forked(args).unwrap_or_else(|text| failed(&text))
}

fn forked(args: ForkArgs) -> Failed<u8> {
    let store = known_store(&args.id)?;
    let mut known = known(&*store, &args.id)?;
    let id = args.run_id.unwrap_or_else(drawn);
    checked(&id)?;
    if args.at > known.entries.len() as u64 {
        let length = known.entries.len();
        return Err(format!("run '{}' has {length} entries, so it cannot be forked at {}", args.id, args.at));
    }
    known.entries.retain(|entry| entry.seq < args.at);
    let text = match (&known.args.file, args.changed) {
        (Some(path), true) => program::read_text(path)?,
        _ => known.text,
    };
    let wrong = |error: StoreError| explained(&id, &error);
    let fence = take_lease(&*store, &Real::new(), &id).map_err(wrong)?.fence();
    let at_ms = Real::new().now_ms();
    let run = NewRun {
        id: id.clone(),
        program: known.run.program.clone(),
        args: known.run.args.clone(),
        status: NewStatus::Running,
        info: known.run.info.clone(),
    };
    let (path, bytes) = (source_name(&known.args), text.clone().into_bytes());
    let writes = vec![
        // The journal of the fork is written anew while it is followed: with changed sources its beginning is another one.
        Write::RunFork { from: args.id.clone(), length: 0, run, at_ms },
        Write::SourcePut { run: id.clone(), path, bytes },
    ];
    wait(store.write(&fence, writes)).map_err(wrong)?;
    let owned = Owned { store, fence, id: id.clone() };
    eprintln!("[harn] run {id} goes on from entry {} of run {}", args.at, args.id);
    let sink = Sink::of(known.args.json, known.args.quiet);
    let setup = Setup {
        entries: known.entries,
        copies: true,
        suspend_after: known.args.suspend_after,
        reload: args.changed,
        ..Setup::new(sink.system(), owned.keeper())
    };
    Ok(owned.work(known.args, text, &sink, setup))
}
