//! Durable runs: `harn run --durable`, `harn resume`, `harn replay`, `harn fork`.

use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use harn_check::Settings;
use harn_journal::{
    Difference, Drain, Entry, FORMAT, InDoubtPolicy, Journal, Keeper, LEASE_MS, Nowhere, Pending, Setup,
    Stop, StoreKeeper, Trouble, What, take_lease, wait,
};
use harn_runtime::Generation;
use harn_store::{
    Digest, Error as StoreError, Fence, NewRun, NewStatus, Place, Run, RunFilter, RunStatus, Scheduling,
    Store, Wish, Write,
};
use harn_system::{Capture, Layer, Real, System, SystemExt};
use harn_value::{Data as Value, json};

use crate::args::{Cli, Command, ForkArgs, ReplayArgs, ResumeArgs, RunArgs, given_command, usage_error};
use crate::cmd::run::{Sink, options, program_of, text};
use crate::health::Usage;
use crate::program::{self, End};
use crate::signal;
use crate::surroundings::with_task;

/// Number of entries read in one query.
const PAGE: usize = 10_000;

/// Number of entries read in one query when only the first ones are needed.
const FIRST: usize = 200;

/// Number of entries at the end of a journal that are searched for the last effect.
const END: usize = 2_000;

/// Exit code of a run that was stopped and can be resumed: `EX_TEMPFAIL` of `sysexits`.
const TO_BE_RESUMED: u8 = 75;

/// Exit code of a run that the user cancelled: that of a process killed by SIGINT.
const CANCELLED: u8 = 130;

/// Minimum delay, in milliseconds, before a run that was stopped by an outage of the store continues.
const OUTAGE_MS: i64 = 2_000;

/// Prefix of the note of such a run.
pub(super) const OUTAGE: &str = "the store was not available: ";

/// How long a run may wait in a process started by a worker before it is suspended.
const WORKERS_PATIENCE: Duration = Duration::from_secs(20);

pub(super) type Failed<T> = Result<T, String>;

/// Opens the store of the project of the working directory.
pub(super) fn store() -> Failed<Arc<dyn Store>> {
    let real = Real::new();
    let place = program::store_place(&real)?;
    if let Place::File(path) = &place
        && let Some(folder) = path.parent()
    {
        real.make_dirs(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    place.open().map_err(|error| error.to_string())
}

/// Opens the store of the project if it exists. Read-only commands do not create one.
pub(super) fn known_store(id: &str) -> Failed<Arc<dyn Store>> {
    let real = Real::new();
    match program::store_place(&real)? {
        Place::File(path) if !real.is_file(&path) => Err(missing(id)),
        _ => store(),
    }
}

pub(super) fn missing(id: &str) -> String {
    let place =
        program::store_place(&Real::new()).map_or_else(|_| "the store".to_owned(), |place| place.to_string());
    format!("unknown run '{id}' in {place}; `harn runs list` lists its runs")
}

/// Prints the error of a failed command and returns the exit code.
pub(super) fn failed(text: &str) -> u8 {
    eprintln!("{}", harn_syntax::error_line(text));
    1
}

/// Returns the arguments in the details of a request.
pub(super) fn shown_arguments(details: &[u8]) -> Option<String> {
    harn_runtime::shown_arguments(&serde_json::from_slice(details).ok()?)
}

/// Generates a run ID.
pub(super) fn drawn() -> String {
    format!("{:012x}", Real::new().random_u64() >> 16)
}

/// Rejects invalid run IDs.
pub(super) fn checked(id: &str) -> Failed<()> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if id.is_empty() || id.len() > 64 || !id.chars().all(fits) {
        return Err(format!("invalid run ID '{id}': use 1 to 64 letters, digits, `-`, `_` and `.`"));
    }
    Ok(())
}

/// Formats a time for display, to the second.
pub(super) fn shown_time(ms: i64) -> String {
    let at = jiff::Timestamp::from_millisecond(ms).unwrap_or(jiff::Timestamp::MAX);
    at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// Returns the metadata needed to restart the program.
///
/// # Errors
/// A path is not UTF-8.
pub(super) fn facts(args: &RunArgs, command: &[String]) -> Failed<Value> {
    let options =
        serde_json::to_string(args).map_err(|error| format!("cannot store the options: {error}"))?;
    let options: Value = serde_json::from_str(&options).unwrap_or_default();
    Ok(json!({
        "version": env!("CARGO_PKG_VERSION"), "journal": FORMAT, "command": command, "options": options,
        "task": args.task, "dir": Real::new().work_dir().display().to_string(), "secrets": [],
    }))
}

/// Returns the names of the keys that are secret from the first entry of a run.
fn secrets(info: &Value) -> Vec<String> {
    let names = info["secrets"].as_array().into_iter().flatten().filter_map(Value::as_str);
    names.map(str::to_owned).collect()
}

/// Adds the keys of this process. Runs of older versions record a key when their program reads it.
fn add_secrets(info: &mut Value) {
    if info["secrets"].is_array() {
        let mut names = secrets(info);
        names.extend(harn_system::secret_variables());
        names.sort();
        names.dedup();
        info["secrets"] = names.into_iter().map(Value::from).collect::<Vec<Value>>().into();
    }
}

/// Name of the last field of sealed metadata: a digest of everything before it.
const SEAL: &str = ",\"seal\":\"";

/// Number of digits of a seal.
const DIGITS: usize = 16;

fn seal_of(text: &str) -> String {
    Digest::of(text.as_bytes()).to_string()[..DIGITS].to_owned()
}

/// Seals the metadata of a run, because the store has no checksum for it.
pub(super) fn sealed(mut info: Value) -> Vec<u8> {
    if let Some(map) = info.as_object_mut() {
        map.remove("seal");
    }
    let text = info.to_string();
    let seal = seal_of(&text);
    let open = text.strip_suffix('}').unwrap_or(&text);
    format!("{open}{SEAL}{seal}\"}}").into_bytes()
}

/// Whether the metadata of a run is intact. Metadata of older versions has no seal.
fn is_intact(info: &[u8], format: u64) -> bool {
    let Ok(text) = std::str::from_utf8(info) else { return false };
    match text.rsplit_once(SEAL) {
        Some((open, rest)) if rest.len() == DIGITS + 2 => {
            rest == format!("{}\"}}", seal_of(&format!("{open}}}")))
        }
        _ => format == 0,
    }
}

/// Returns the journal format of a run. Metadata without a format number predates the numbering and has format 0.
pub(super) fn format_of(info: &Value) -> u64 {
    info["journal"].as_u64().unwrap_or(0)
}

/// Whether this version can replay the journal of a run.
pub(super) fn can_follow(run: &Run) -> bool {
    let info: Value = serde_json::from_slice(&run.info).unwrap_or_default();
    format_of(&info) <= FORMAT
}

/// Returns the arguments and metadata that a run was started with.
pub(super) fn given(run: &Run) -> Failed<(RunArgs, Value)> {
    let broken = || format!("run '{}': what it was started with cannot be read", run.id);
    let info: Value = serde_json::from_slice(&run.info).map_err(|_| broken())?;
    let format = format_of(&info);
    if format > FORMAT {
        let version = info["version"].as_str().unwrap_or("a later one");
        return Err(format!(
            "run '{}' has journal format {format}, and this version of Harn follows formats up to {FORMAT}; the run is unchanged: resume it with Harn {version}",
            run.id
        ));
    }
    if !is_intact(&run.info, format) {
        return Err(format!(
            "run '{}': what it was started with was changed in the store; restore a copy of the store",
            run.id
        ));
    }
    if info["options"].is_object() {
        let mut args: RunArgs = serde_json::from_str(&info["options"].to_string()).map_err(|_| broken())?;
        args.task = info["task"].as_str().map(str::to_owned);
        return Ok((args, info));
    }
    // Older versions store only the command line.
    let command = info["command"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let cli = Cli::try_parse_from(command).map_err(|_| broken())?;
    let mut args = match cli.command {
        Command::Run(args) => args,
        // `--json` there applies to the output of `submit`, not to the output of the run.
        Command::Submit(args) => RunArgs { json: false, quiet: false, ..args.run },
        _ => return Err(broken()),
    };
    args.task = info["task"].as_str().map(str::to_owned);
    Ok((args, info))
}

/// Maps all strings in a value.
fn each_text(data: Value, change: &dyn Fn(String) -> String) -> Value {
    match data {
        Value::String(text) => Value::String(change(text)),
        Value::Array(items) => items.into_iter().map(|item| each_text(item, change)).collect(),
        Value::Object(map) => Value::Object(
            map.into_iter().map(|(key, value)| (change(key), each_text(value, change))).collect(),
        ),
        other => other,
    }
}

/// Returns the generation number of a run and the state that the previous generation passed, with current keys.
pub(super) fn generation(info: &Value, journal: &Journal) -> Generation {
    let state = each_text(info["state"].clone(), &|text| journal.reveal(text));
    Generation { number: info["generation"].as_u64().unwrap_or(1), state }
}

/// Returns the name under which the program's source is stored.
pub(super) fn source_name(args: &RunArgs) -> String {
    args.file.as_ref().map_or_else(|| "<inline>".to_owned(), |path| path.display().to_string())
}

/// Whether a run is durable, by the command line or the project's settings.
pub(crate) fn is_wanted(args: &RunArgs) -> bool {
    let dir = args.file.as_deref().and_then(Path::parent).unwrap_or(Path::new(""));
    if args.durable || Settings::find(&Real::new(), dir).0.durable {
        return true;
    }
    for (name, given) in
        [("--run-id", args.run_id.is_some()), ("--suspend-after", args.suspend_after.is_some())]
    {
        if given {
            usage_error(
                "run",
                &format!("{name} requires --durable, or `durable = true` in `[run]` of harn.toml"),
            );
        }
    }
    false
}

/// Starts a durable run. Returns the exit code.
pub(crate) fn begin(args: RunArgs) -> u8 {
    let sink = Sink::of(args.json, args.quiet);
    let text = match text("run", &args, &sink) {
        Ok(text) => text,
        Err(code) => return code,
    };
    // A program with syntax errors does not create a run.
    if let Err(problems) = program_of(&args, text.clone()).parse() {
        return sink.finish(End::Refused(problems));
    }
    let command = given_command();
    let id = args.run_id.clone().unwrap_or_else(drawn);
    let begun = checked(&id).and_then(|()| {
        facts(&args, &command)?;
        let store = store()?;
        let fence = take_lease(&*store, &Real::new(), &id).map_err(|error| explained(&id, &error))?.fence();
        let at_ms = Real::new().now_ms();
        let mut info = facts(&args, &command)?;
        add_secrets(&mut info);
        let run = NewRun {
            id: id.clone(),
            program: source_name(&args),
            args: args.args.clone(),
            status: NewStatus::Running,
            scheduling: Scheduling::default(),
            info: sealed(info.clone()),
        };
        let source =
            Write::SourcePut { run: id.clone(), path: source_name(&args), bytes: text.clone().into_bytes() };
        let made = wait(store.write(&fence, vec![Write::RunCreate { run, at_ms }, source]));
        made.map_err(|error| explained(&id, &error))?;
        Ok((Owned { store, fence, id: id.clone(), lease_ms: LEASE_MS, drains: false }, info))
    });
    let (owned, info) = match begun {
        Ok(begun) => begun,
        Err(text) => return failed(&text),
    };
    eprintln!("[harn] run {id} started; if it is interrupted, `harn resume {id}` continues it");
    let suspend_after = args.suspend_after;
    let system = with_task(sink.system(), args.task.as_deref());
    let setup = Setup { suspend_after, secrets: secrets(&info), ..Setup::new(system, owned.keeper()) };
    owned.work(args, text, info, &sink, setup)
}

/// Converts an error of the store to a message about a run.
pub(super) fn explained(id: &str, error: &StoreError) -> String {
    match error {
        StoreError::Exists { .. } => {
            format!(
                "run '{id}' already exists; choose another --run-id, or delete it with `harn runs rm {id}`"
            )
        }
        StoreError::Held { .. } => {
            format!("run '{id}' is executed by another process; stop it, or wait until its lease expires")
        }
        StoreError::Missing { .. } => missing(id),
        other => format!("run '{id}': {other}"),
    }
}

/// A run whose lease this process holds.
struct Owned {
    store: Arc<dyn Store>,
    fence: Fence,
    id: String,
    /// Duration of the lease: after this time without a renewal, another process may take the run.
    lease_ms: i64,
    /// Whether SIGTERM drains the run, as for a worker.
    drains: bool,
}

impl Owned {
    fn keeper(&self) -> Box<dyn Keeper> {
        Box::new(StoreKeeper::new(self.store.clone(), self.fence.clone(), &*self.id, self.lease_ms))
    }

    /// Stores the status of the run and releases the lease.
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

    /// Executes the run until it ends or stops. Returns the exit code. After `continue_as_new`, the program restarts
    /// here with a new journal.
    fn work(self, args: RunArgs, text: String, mut info: Value, sink: &Sink, mut setup: Setup) -> u8 {
        let program = program_of(&args, text);
        let (inner, suspend_after) = (setup.inner.clone(), setup.suspend_after);
        let drains = self.drains;
        loop {
            let is_new = setup.entries.is_empty();
            let journal = Journal::new(setup);
            let generation = generation(&info, &journal);
            if let Some(stop) = journal.stopped() {
                return self.stopped(stop, sink);
            }
            if drains {
                let drainer = journal.drainer();
                signal::drain_on_sigterm(move || drainer.ask(Drain::Worker));
            }
            let system: Rc<dyn System> = Rc::new(journal.clone());
            let live = journal.clone();
            let usage = Rc::default();
            let options = program::RunOptions {
                usage: Rc::clone(&usage),
                journal: Some(journal.clone()),
                generation: Some(generation.clone()),
                witness: sink.witness(move || live.is_live()),
                ..options(args.clone())
            };
            let warn = |problem: &crate::report::Problem| {
                if is_new {
                    sink.warn(problem);
                }
            };
            let end = program::run(&program, options, system, warn, signal::stop_on_signal);
            let settled = journal.settle();
            if let Some(stop) = journal.stopped().or(settled.err()) {
                return self.stopped(stop, sink);
            }
            let end = match (journal.output(), end) {
                (Err(error), End::Result { .. }) if error.kind() != std::io::ErrorKind::BrokenPipe => {
                    let text = format!("cannot write to standard output: {error}");
                    End::Failed(Box::new(crate::report::Problem::general(text)))
                }
                (_, end) => end,
            };
            let End::Anew(state) = end else {
                let failure = super::failure::Failure::of(&end, |text| journal.hide(text));
                let code = sink.finish(end);
                let used = Usage::from_data(&info["used_before"]).plus(usage.get());
                return match failure {
                    None => self.ended(code, used),
                    Some(failure) => self.failed(failure, code, used),
                };
            };
            let used = Usage::from_data(&info["used_before"]).plus(usage.get());
            let next = generation.next(each_text(state, &|text| journal.hide(text)));
            let begun = match self.begin_anew(next, used) {
                Ok(begun) => begun,
                Err(text) => {
                    drop(self.leave(None, ""));
                    return failed(&text);
                }
            };
            info = begun.0;
            let secrets = secrets(&info);
            setup = Setup {
                entries: begun.1,
                suspend_after,
                secrets,
                ..Setup::new(inner.clone(), self.keeper())
            };
        }
    }

    /// Marks the run as completed and returns the exit code.
    fn ended(&self, code: u8, used: Usage) -> u8 {
        let written = self.usage(used).map_err(|trouble| trouble.text).and_then(|usage| {
            let (run, note, at_ms) = (self.id.clone(), String::new(), Real::new().now_ms());
            let status = NewStatus::Completed { exit_code: i32::from(code) };
            let writes =
                usage.into_iter().chain([Write::RunStatus { run, status, note, at_ms }, Write::Release]);
            wait(self.store.write(&self.fence, writes.collect())).map_err(|error| explained(&self.id, &error))
        });
        match written {
            Ok(_) => code,
            Err(text) => failed(&text),
        }
    }

    /// Returns the write that stores the usage of the run, or `None` if it has not called models.
    fn usage(&self, used: Usage) -> Result<Option<Write>, Trouble> {
        if used.calls == 0 {
            return Ok(None);
        }
        let id = &self.id;
        let run =
            wait(self.store.run(id)).map_err(|error| trouble(id, &error))?.ok_or_else(|| missing(id))?;
        let mut info: Value = serde_json::from_slice(&run.info).unwrap_or_default();
        info["usage"] = used.data();
        Ok(Some(Write::RunInfo { run: id.clone(), info: sealed(info), at_ms: Real::new().now_ms() }))
    }

    /// Stores the failure of the run. Queues the run again if its retry policy allows it. Returns the exit code.
    fn failed(&self, failure: super::failure::Failure, code: u8, used: Usage) -> u8 {
        let id = &self.id;
        let stored = head_and_end(&*self.store, id).and_then(|(head, entries)| {
            let (mut writes, retry) = failure.writes(&head, &entries, code);
            if retry.is_none() {
                // A retry reuses the recorded calls of this attempt and counts their usage again.
                writes.splice(0..0, self.usage(used)?);
            }
            wait(self.store.write(&self.fence, writes)).map_err(|error| trouble(id, &error))?;
            Ok(retry)
        });
        match stored {
            Ok(None) => code,
            Ok(Some((note, due_ms))) => {
                let text = format!("[harn] run {id}: {note}; the next try is at {}", shown_time(due_ms));
                eprintln!("{}", harn_syntax::printable(&text));
                TO_BE_RESUMED
            }
            Err(trouble) if trouble.is_outage => self.stopped_by(trouble),
            Err(trouble) => failed(&trouble.text),
        }
    }

    /// Replaces the journal atomically after `continue_as_new`. The new journal begins with the requests made before
    /// the program was loaded, so the program stays the one that the run was started with. Returns the metadata and
    /// those first entries.
    fn begin_anew(&self, generation: Generation, used: Usage) -> Failed<(Value, Vec<Entry>)> {
        let id = &self.id;
        let wrong = |error: StoreError| explained(id, &error);
        let run = wait(self.store.run(id)).map_err(wrong)?.ok_or_else(|| missing(id))?;
        let (_, mut info) = given(&run)?;
        info["generation"] = generation.number.into();
        info["state"] = generation.state;
        if used.calls > 0 {
            info["used_before"] = used.data();
        }
        let at_ms = Real::new().now_ms();
        let (mut writes, entries) = replaced(&*self.store, run, &info, NewStatus::Running, at_ms)?;
        writes.push(Write::Renew { until_ms: at_ms + self.lease_ms });
        wait(self.store.write(&self.fence, writes)).map_err(wrong)?;
        Ok((info, entries))
    }

    /// Suspends a run that only waits, and releases it. Returns false if an answer arrived in the meantime.
    fn suspend(&self, due_ms: Option<i64>, pending: &[Pending], note: &str) -> Failed<bool> {
        let wrong = |error: StoreError| explained(&self.id, &error);
        loop {
            let run = wait(self.store.run(&self.id)).map_err(wrong)?.ok_or_else(|| missing(&self.id))?;
            let asked = wait(self.store.waitpoints(Some(&self.id), false)).map_err(wrong)?;
            // A late answer is ignored.
            let is_answered = |own: &Pending| {
                asked.iter().filter(|found| found.asked.request_id == own.id).any(|found| {
                    let mut new = found.answers.iter().skip(own.had as usize);
                    new.any(|answer| found.asked.due_ms.is_none_or(|due_ms| answer.at_ms <= due_ms))
                })
            };
            if pending.iter().any(is_answered) {
                return Ok(false);
            }
            let status = NewStatus::Suspended { due_ms, answers: run.answers };
            let (id, note, at_ms) = (self.id.clone(), note.to_owned(), Real::new().now_ms());
            let writes = vec![Write::RunStatus { run: id, status, note, at_ms }, Write::Release];
            match wait(self.store.write(&self.fence, writes)) {
                // An answer arrived between the query and the write.
                Err(StoreError::Conflict { .. }) => {}
                written => return written.map(|_| true).map_err(wrong),
            }
        }
    }

    /// Releases a run that needs `harn resume ID` to continue, and stores the reason.
    fn park(&self, note: &str) {
        let answers = wait(self.store.run(&self.id)).ok().flatten().map_or(0, |run| run.answers);
        let status = NewStatus::Suspended { due_ms: None, answers };
        if self.leave(Some(status), note).is_err() {
            // If this fails too, there is no other way to report it. The lease expires.
            drop(self.leave(None, ""));
        }
    }

    /// Ends the process of a run that only waits, and prints how to continue.
    fn suspended(self, due_ms: Option<i64>, pending: &[Pending], sink: &Sink) -> u8 {
        let id = &self.id;
        let until = due_ms.map_or(String::new(), |due_ms| format!(" until {}", shown_time(due_ms)));
        let note = match pending.len() {
            0 => format!("waits{until}"),
            1 => format!("waits for an answer{until}"),
            n => format!("waits for {n} answers{until}"),
        };
        match self.suspend(due_ms, pending, &note) {
            Err(text) => return failed(&text),
            Ok(false) => {
                drop(self.leave(None, ""));
                return resume_one(&self.store, id, InDoubtPolicy::Ask).unwrap_or_else(|text| failed(&text));
            }
            Ok(true) => {}
        }
        sink.suspended(id, due_ms, pending);
        let mut text = format!("[harn] run {id} {note}");
        let asked = harn_store::wait(self.store.waitpoints(Some(id), true)).unwrap_or_default();
        for Pending { id: request, kind, prompt, .. } in pending {
            let value = match &**kind {
                "question" => "VALUE",
                "waitpoint" => "VALUE` or `--reject",
                "in_doubt" => "--approve` or `RESULT` or `--reject",
                _ => "--approve` or `--reject",
            };
            let how = value.replace("` or `", &format!("` or `harn answer {id} {request} "));
            let details = asked.iter().find(|found| found.asked.request_id == *request);
            let prompt = harn_syntax::with_margin(prompt, harn_syntax::MARGIN);
            text += &format!("\n  {kind} {request}: {prompt}");
            if let Some(arguments) = details.and_then(|found| shown_arguments(&found.asked.info)) {
                text += &format!("\n    {arguments}");
            }
            text += &format!("\n    `harn answer {id} {request} {how}`");
        }
        let then = if pending.is_empty() { "" } else { " after the answer" };
        let separator = if pending.is_empty() { "; " } else { "\n" };
        eprintln!("{}{separator}`harn resume {id}` continues it{then}", harn_syntax::printable(&text));
        TO_BE_RESUMED
    }

    /// Queues a run that was stopped by an outage of the store. If the store still cannot be written, the lease expires
    /// and a worker takes over the run.
    fn stopped_by(&self, trouble: Trouble) -> u8 {
        let id = &self.id;
        let text = format!("run '{id}': the store is not available: {trouble}; the run continues later");
        eprintln!("{}", harn_syntax::error_line(&text));
        let real = Real::new();
        // Random delay, so that runs do not all continue at the same moment.
        let delay_ms = OUTAGE_MS + real.random_u64().cast_signed().rem_euclid(OUTAGE_MS);
        let status = NewStatus::Queued { due_ms: real.now_ms() + delay_ms };
        let _ = self.leave(Some(status), &format!("{OUTAGE}{trouble}"));
        TO_BE_RESUMED
    }

    /// Releases a drained run. Another worker may continue it immediately.
    fn drained(&self, why: Drain) -> u8 {
        let now_ms = Real::new().now_ms();
        match self.suspend(Some(now_ms), &[], why.note()) {
            Ok(_) => TO_BE_RESUMED,
            Err(text) => failed(&text),
        }
    }

    /// Reports why the run stopped and how to continue it.
    fn stopped(self, stop: Stop, sink: &Sink) -> u8 {
        let id = &self.id;
        match stop {
            Stop::Interrupted => {
                eprintln!("[harn] run {id} was interrupted; `harn resume {id}` continues it");
                // If this fails, there is no other way to report it. The lease expires.
                drop(self.leave(None, ""));
                // The result of the cleanup has no effect.
                signal::exit_code()
            }
            Stop::Difference(difference) => {
                self.park(&Stop::Difference(difference.clone()).to_string());
                shown_difference(id, &difference)
            }
            Stop::Suspended { due_ms, pending } => self.suspended(due_ms, &pending, sink),
            Stop::Drained(why) => self.drained(why),
            Stop::Cancelled => {
                eprintln!("[harn] run {id} was cancelled");
                match self.leave(Some(NewStatus::Cancelled), "") {
                    Ok(()) => CANCELLED,
                    Err(text) => failed(&text),
                }
            }
            Stop::Unkept(trouble) if trouble.is_outage => self.stopped_by(trouble),
            stop => {
                self.park(&stop.to_string());
                eprintln!(
                    "error: {}",
                    harn_syntax::printable(&format!("run '{id}': {stop}; `harn resume {id}` continues it"))
                );
                TO_BE_RESUMED
            }
        }
    }
}

/// Returns the writes that replace a run by one with a new journal, and the first entries of that journal: the requests
/// made before the program was loaded, so that the program stays the one that the run was started with.
pub(super) fn replaced(
    store: &dyn Store,
    run: Run,
    info: &Value,
    status: NewStatus,
    at_ms: i64,
) -> Failed<(Vec<Write>, Vec<Entry>)> {
    let id = run.id.clone();
    let entries = beginning(store, &id)?;
    let sources = wait(store.sources(&id)).map_err(|error| explained(&id, &error))?.into_iter();
    let Run { program, args, scheduling, .. } = run;
    let new = NewRun { id: id.clone(), program, args, status, scheduling, info: sealed(info.clone()) };
    let mut writes = vec![Write::RunDelete { run: id.clone() }, Write::RunCreate { run: new, at_ms }];
    writes.extend(sources.map(|source| Write::SourcePut {
        run: id.clone(),
        path: source.path,
        bytes: source.bytes,
    }));
    let kept = entries.iter().map(Entry::to_store).collect();
    writes.push(Write::JournalAppend { run: id, entries: kept, at_ms });
    Ok((writes, entries))
}

/// Returns the entries recorded before the program was loaded.
fn beginning(store: &dyn Store, id: &str) -> Failed<Vec<Entry>> {
    let (mut found, mut read) = (Vec::new(), 0);
    loop {
        let page = wait(store.journal(id, read, FIRST)).map_err(|error| explained(id, &error))?;
        read += page.len() as u64;
        let is_last = page.is_empty();
        for entry in page {
            let entry = Entry::from_store(&entry)
                .ok_or_else(|| format!("run '{id}': {}", Stop::Unreadable(entry.seq)))?;
            match entry.what {
                What::Program => return Ok(found),
                What::Printed { .. } | What::Printing { .. } => {}
                _ => found.push(Entry { seq: found.len() as u64, ..entry }),
            }
        }
        if is_last {
            return Ok(found);
        }
    }
}

/// Prints where the program and its journal differ.
pub(super) fn shown_difference(id: &str, difference: &Difference) -> u8 {
    let Difference { seq, was, was_at, now, now_at, .. } = difference;
    let place = |at: &str| if at.is_empty() { String::new() } else { format!(" at {at}") };
    let (was, now) = (format!("{was}{}", place(was_at)), format!("{now}{}", place(now_at)));
    let sides = match was == now {
        true => format!("  both: {was}, with different data"),
        false => format!("  was: {was}\n  now: {now}"),
    };
    eprintln!(
        "error: run '{id}': the program differs from its journal at entry {seq}\n{sides}\n  = help: `harn fork {id} --at {seq} --changed` continues from there in a new run with the changed program"
    );
    1
}

/// A run with its arguments, source and journal.
pub(crate) struct Known {
    pub(super) run: Run,
    args: RunArgs,
    /// Metadata of the run.
    info: Value,
    pub(super) text: String,
    pub(super) entries: Vec<Entry>,
}

impl Known {
    /// Returns the names of the keys that are secret from the first entry of the run.
    pub(super) fn secrets(&self) -> Vec<String> {
        secrets(&self.info)
    }
}

/// Converts an error of the store, and marks outages.
pub(super) fn trouble(id: &str, error: &StoreError) -> Trouble {
    Trouble { text: explained(id, error), is_outage: error.is_outage() }
}

/// Returns a run and the last entries of its journal.
fn head_and_end(store: &dyn Store, id: &str) -> Result<(Run, Vec<Entry>), Trouble> {
    let run = wait(store.run(id)).map_err(|error| trouble(id, &error))?.ok_or_else(|| missing(id))?;
    let entries = last_entries(store, &run)?;
    Ok((run, entries))
}

/// Returns the last entries of a run.
///
/// # Errors
/// The store cannot be read.
pub(super) fn last_entries(store: &dyn Store, run: &Run) -> Result<Vec<Entry>, Trouble> {
    let from = run.length.saturating_sub(END as u64);
    let found = wait(store.journal(&run.id, from, END)).map_err(|error| trouble(&run.id, &error))?;
    let entries = found.iter().map(Entry::from_store).collect::<Option<Vec<Entry>>>();
    Ok(entries.ok_or_else(|| format!("run '{}': an entry of its journal cannot be read", run.id))?)
}

/// Loads a run.
pub(super) fn known(store: &dyn Store, id: &str) -> Result<Known, Trouble> {
    let wrong = |error: StoreError| trouble(id, &error);
    let run = wait(store.run(id)).map_err(wrong)?.ok_or_else(|| missing(id))?;
    let (args, info) = given(&run)?;
    let here = Real::new().work_dir().display().to_string();
    if info["dir"].as_str().is_some_and(|dir| dir != here) {
        let dir = info["dir"].as_str().unwrap_or_default();
        return Err(
            format!("run '{id}' was started in {dir}: go there first, as its paths begin there").into()
        );
    }
    let name = source_name(&args);
    let sources = wait(store.sources(id)).map_err(wrong)?;
    let source = sources.into_iter().find(|source| source.path == name);
    let text = source.and_then(|source| String::from_utf8(source.bytes).ok());
    let text = text.ok_or_else(|| format!("run '{id}': its program is not in the store"))?;
    let mut entries = Vec::new();
    while (entries.len() as u64) < run.length {
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
    Ok(Known { run, args, info, text, entries })
}

/// Resumes a run. Returns the exit code.
pub(crate) fn resume(args: &ResumeArgs) -> u8 {
    let store = match args.id.as_deref().map_or_else(store, known_store) {
        Ok(store) => store,
        Err(text) => return failed(&text),
    };
    let policy = in_doubt_policy(args);
    if let Some(id) = &args.id {
        let code = match args.lease {
            Some((epoch, lease_ms)) => return execute(&store, id, epoch, lease_ms),
            None => resume_one(&store, id, policy),
        };
        return code.unwrap_or_else(|text| failed(&text));
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
            // Runs that were never started are left to workers.
            RunStatus::Queued if run.starts == 0 => false,
            RunStatus::Suspended | RunStatus::Queued => run.due_ms.is_some_and(|due_ms| due_ms <= now_ms),
            _ => false,
        };
        open.extend(page.into_iter().filter(is_due).map(|run| run.id));
    }
    // Oldest first.
    let mut worst = 0;
    for id in open.into_iter().rev() {
        let code = resume_one(&store, &id, policy.clone()).unwrap_or_else(|text| failed(&text));
        worst = worst.max(code);
    }
    worst
}

/// Continues a run that a worker has leased. Returns the exit code.
pub(super) fn execute(store: &Arc<dyn Store>, id: &str, epoch: u64, lease_ms: i64) -> u8 {
    let fence = Fence { scope: Run::scope(id).into(), epoch };
    let owned = Owned { store: store.clone(), fence, id: id.to_owned(), lease_ms, drains: true };
    owned.go_on(InDoubtPolicy::Ask, Some(WORKERS_PATIENCE)).unwrap_or_else(|text| failed(&text))
}

/// Returns the user's policy for effects in doubt.
fn in_doubt_policy(args: &ResumeArgs) -> InDoubtPolicy {
    match &args.skip_in_doubt {
        Some(text) => InDoubtPolicy::Skip(
            serde_json::from_str(text).unwrap_or_else(|_| serde_json::Value::String(text.clone())),
        ),
        None if args.retry_in_doubt => InDoubtPolicy::Retry,
        None => InDoubtPolicy::Ask,
    }
}

fn resume_one(store: &Arc<dyn Store>, id: &str, in_doubt: InDoubtPolicy) -> Failed<u8> {
    let wrong = |error: StoreError| explained(id, &error);
    // Full data is read only after the lease is taken; before that, another process may still change the run.
    let found = wait(store.run(id)).map_err(wrong)?;
    if found.is_none() {
        return Err(explained(id, &StoreError::Missing { what: String::new() }));
    }
    let fence = take_lease(&**store, &Real::new(), id).map_err(wrong)?.fence();
    Owned { store: store.clone(), fence, id: id.to_owned(), lease_ms: LEASE_MS, drains: false }
        .go_on(in_doubt, None)
}

impl Owned {
    /// Continues the run. `worker` is set if a worker started it: a program that waits for longer than that is
    /// suspended.
    fn go_on(self, in_doubt: InDoubtPolicy, worker: Option<Duration>) -> Failed<u8> {
        let id = &*self.id;
        let wrong = |error: StoreError| trouble(id, &error);
        let begun = known(&*self.store, id).and_then(|mut known| {
            if known.run.status.is_end() {
                let word = known.run.status.word();
                let retry = match known.run.status {
                    RunStatus::Failed => format!("`harn runs retry {id}` retries it, "),
                    _ => String::new(),
                };
                let text = format!("run '{id}' has ended ({word}); {retry}`harn replay {id}` shows it again");
                return Err(text.into());
            }
            if let Some(wish) = known.run.wish {
                let status = match wish {
                    Wish::Cancel => NewStatus::Cancelled,
                    Wish::Pause => NewStatus::Paused { due_ms: None },
                };
                self.leave(Some(status), "")?;
                return Err(format!("run '{id}' is {}", status.status().word()).into());
            }
            if worker.is_none() {
                let status = NewStatus::Running;
                let (run, note, at_ms) = (id.to_owned(), String::new(), Real::new().now_ms());
                let write = Write::RunStatus { run, status, note, at_ms };
                wait(self.store.write(&self.fence, vec![write])).map_err(wrong)?;
            }
            let before = known.info.clone();
            add_secrets(&mut known.info);
            // New entries have this format: older versions must not replay them.
            known.info["journal"] = FORMAT.into();
            if known.info != before {
                let (run, info) = (id.to_owned(), sealed(known.info.clone()));
                let write = Write::RunInfo { run, info, at_ms: Real::new().now_ms() };
                wait(self.store.write(&self.fence, vec![write])).map_err(wrong)?;
            }
            Ok(known)
        });
        let known = match begun {
            Ok(known) => known,
            Err(trouble) if worker.is_some() && trouble.is_outage => return Ok(self.stopped_by(trouble)),
            Err(Trouble { text, .. }) => {
                if worker.is_some() {
                    self.park(&text);
                } else {
                    drop(self.leave(None, ""));
                }
                return Err(text);
            }
        };
        let sink = Sink::of(known.args.json, known.args.quiet);
        let system = with_task(sink.system(), known.args.task.as_deref());
        let system: Rc<dyn System> = match worker {
            Some(_) => Rc::new(IgnoreClosedPipe(system)),
            None => system,
        };
        let setup = Setup {
            entries: known.entries,
            in_doubt,
            secrets: secrets(&known.info),
            suspend_after: known.args.suspend_after.or(worker),
            ..Setup::new(system, self.keeper())
        };
        Ok(self.work(known.args, known.text, known.info, &sink, setup))
    }
}

/// A system that ignores a closed pipe at standard output: the program continues, and its output is lost.
struct IgnoreClosedPipe(Rc<dyn System>);

impl Layer for IgnoreClosedPipe {
    fn inner(&self) -> &dyn System {
        &*self.0
    }

    fn write_out(&self, text: &str) -> std::io::Result<()> {
        ignore_closed_pipe(self.0.write_out(text))
    }

    fn flush(&self) -> std::io::Result<()> {
        ignore_closed_pipe(self.0.flush())
    }
}

fn ignore_closed_pipe(written: std::io::Result<()>) -> std::io::Result<()> {
    written.or_else(|error| if error.kind() == std::io::ErrorKind::BrokenPipe { Ok(()) } else { Err(error) })
}

/// Replays a run. Returns the exit code.
pub(crate) fn replay(args: &ReplayArgs) -> u8 {
    let known = known_store(&args.id).and_then(|store| Ok(known(&*store, &args.id)?));
    let known = match known {
        Ok(known) => known,
        Err(text) if args.id.ends_with(".json") => {
            return failed(&format!("{text}; to replay a run record, give the path of an existing file"));
        }
        Err(text) => return failed(&text),
    };
    if args.check {
        return check(&known).unwrap_or_else(|text| failed(&text));
    }
    let sink = Sink::of(args.json, false);
    let setup = Setup {
        entries: known.entries,
        replay: true,
        until: args.until,
        secrets: secrets(&known.info),
        // With `harn replay ID | head`, the closed pipe is not a difference from the journal.
        ..Setup::new(Rc::new(IgnoreClosedPipe(sink.system())), Box::new(Nowhere))
    };
    let program = program_of(&known.args, known.text);
    let journal = Journal::new(setup);
    let system: Rc<dyn System> = Rc::new(journal.clone());
    let options = program::RunOptions {
        journal: Some(journal.clone()),
        generation: Some(generation(&known.info, &journal)),
        witness: sink.witness(|| true),
        ..options(known.args)
    };
    let warn = |problem: &crate::report::Problem| sink.warn(problem);
    let end = program::run(&program, options, system.clone(), warn, signal::stop_on_signal);
    drop(system.flush());
    let id = &args.id;
    match journal.stopped() {
        Some(Stop::Difference(difference)) => shown_difference(id, &difference),
        Some(Stop::Interrupted) => sink.finish(end),
        Some(stop @ (Stop::End | Stop::Until(_))) => {
            eprint!("{}", harn_syntax::notice(&format!("run {id}: {stop}")));
            0
        }
        Some(stop) => failed(&format!("run '{id}': {stop}")),
        None => match journal.left_over() {
            Some(difference) => shown_difference(id, &difference),
            None => sink.finish(end),
        },
    }
}

/// The result of replaying a journal.
struct Followed {
    journal: Journal,
    /// The first entry that differs.
    difference: Option<Difference>,
    output: String,
    /// The exit code; `None` if the journal ends before the program.
    code: Option<u8>,
}

/// Replays the journal of a run with a program, without output. `current`: the program is the current source, not the
/// run's.
fn followed(known: &Known, text: String, current: bool) -> Failed<Followed> {
    let capture = Rc::new(Capture::over(Rc::new(Real::new())));
    let setup = Setup {
        entries: known.entries.clone(),
        replay: true,
        reload: current,
        secrets: known.secrets(),
        keeps_requests: true,
        ..Setup::new(capture.clone(), Box::new(Nowhere))
    };
    let journal = Journal::new(setup);
    let options = program::RunOptions {
        journal: Some(journal.clone()),
        generation: Some(generation(&known.info, &journal)),
        ..options(known.args.clone())
    };
    let program = program_of(&known.args, text);
    let end = program::run(&program, options, Rc::new(journal.clone()), |_| {}, signal::stop_on_signal);
    let (difference, code) = match journal.stopped() {
        Some(Stop::Difference(difference)) => (Some(*difference), None),
        Some(Stop::End) => (None, None),
        Some(stop) => return Err(format!("run '{}': {stop}", known.run.id)),
        None => {
            let code = match end {
                End::Result { code, .. } => code,
                _ => 1,
            };
            (journal.left_over(), Some(code))
        }
    };
    Ok(Followed { journal, difference, output: capture.output(), code })
}

/// Compares a run with its current program: effects, output and exit code. Returns the exit code of the command.
fn check(known: &Known) -> Failed<u8> {
    let text = match &known.args.file {
        Some(path) => program::source_text(path)?,
        None => known.text.clone(),
    };
    let id = &known.run.id;
    let new = followed(known, text, true)?;
    let old = followed(known, known.text.clone(), false)?;
    if let Some(difference) = &new.difference {
        let code = shown_difference(id, difference);
        let (was, now) = difference.digests;
        if let (Some(was), Some(now)) = (old.journal.request(was), new.journal.request(now)) {
            eprintln!("the data (- recorded, + now):");
            shown_diff(&was, &now);
        }
        return Ok(code);
    }
    if old.difference.is_none() && old.output != new.output {
        eprintln!("error: run '{id}': the output differs from the recorded run; the effects are the same");
        shown_diff(&old.output, &new.output);
        return Ok(1);
    }
    if old.difference.is_none()
        && let (Some(was), Some(now)) = (old.code, new.code)
        && was != now
    {
        eprintln!("error: run '{id}': the exit code is {now}, it was {was}");
        return Ok(1);
    }
    let length = known.entries.len();
    crate::out::write(&format!("run {id}: no difference in {length} entries\n"));
    Ok(0)
}

/// Maximum number of printed lines of a diff.
const DIFF: usize = 60;

/// Number of context lines around a change.
const CONTEXT: usize = 3;

/// Prints the lines that differ, with context.
fn shown_diff(was: &str, now: &str) {
    let Some(diff) = crate::conformance::expect::difference(was, now) else { return };
    let lines: Vec<&str> = diff.lines().collect();
    let changes: Vec<usize> = (0..lines.len()).filter(|at| !lines[*at].starts_with("  ")).collect();
    let near = |at: &usize| changes.iter().any(|change| change.abs_diff(*at) <= CONTEXT);
    let (mut shown, mut last) = (0, None);
    for at in (0..lines.len()).filter(near) {
        if last.is_some_and(|last| last + 1 != at) {
            eprintln!("  ...");
        }
        eprintln!("{}", harn_syntax::printable(lines[at]));
        (shown, last) = (shown + 1, Some(at));
        if shown == DIFF {
            eprintln!("  ... (the diff is longer)");
            return;
        }
    }
}

/// Starts a run from a copy of another run's journal. Returns the exit code.
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
    known.info["forked_at"] = args.at.into();
    known.info["journal"] = FORMAT.into();
    let text = match (&known.args.file, args.changed) {
        (Some(path), true) => program::source_text(path)?,
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
        scheduling: Scheduling { key: None, ..known.run.scheduling.clone() },
        info: sealed(known.info.clone()),
    };
    let (path, bytes) = (source_name(&known.args), text.clone().into_bytes());
    let writes = vec![
        // The fork's journal is rewritten during replay: with changed sources, its first entries differ.
        Write::RunFork { from: args.id.clone(), length: 0, run, at_ms },
        Write::SourcePut { run: id.clone(), path, bytes },
    ];
    wait(store.write(&fence, writes)).map_err(wrong)?;
    let owned = Owned { store, fence, id: id.clone(), lease_ms: LEASE_MS, drains: false };
    eprintln!("[harn] run {id} continues from entry {} of run {}", args.at, args.id);
    let sink = Sink::of(known.args.json, known.args.quiet);
    let setup = Setup {
        entries: known.entries,
        copies: true,
        secrets: secrets(&known.info),
        suspend_after: known.args.suspend_after,
        reload: args.changed,
        ..Setup::new(with_task(sink.system(), known.args.task.as_deref()), owned.keeper())
    };
    Ok(owned.work(known.args, text, known.info, &sink, setup))
}
