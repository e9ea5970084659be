//! `harn submit`: puts a program into the store, for a worker to run.

use std::path::Path;
use std::time::Duration;

use harn_check::Settings;
use harn_journal::{take_lease, wait};
use harn_store::{Error as StoreError, NewRun, NewStatus, Store, Write};
use harn_system::{Real, System, SystemExt};
use harn_value::{Data as Value, json};

use super::cron::Schedule;
use super::durable::{Failed, checked, drawn, explained, facts, failed, sealed, source_name, store};
use super::providers::{envelope, print};
use super::run::{Sink, text};
use crate::args::{RunArgs, SubmitArgs, given_command, need_folders, usage_error};

/// Submits a program; gives the exit code.
pub(crate) fn submit(args: &SubmitArgs) -> u8 {
    // These options of `harn run` are hidden in the help of `harn submit`.
    let rejected = [
        (args.run.durable, "--durable is not needed: a submitted run always records a journal"),
        (args.run.explain_cost, "--explain-cost runs nothing: use it with `harn run`"),
        (args.run.quiet, "--quiet does not apply: a submitted run prints nothing here"),
    ];
    if let Some((_, text)) = rejected.iter().find(|(given, _)| *given) {
        usage_error("submit", text);
    }
    // A missing file is reported to the caller, not later to the worker.
    let models = &args.run.models;
    for (option, file) in [("--llm-mock", &models.llm_mock), ("--llm-cassette", &models.llm_cassette)] {
        if let Some(file) = file.as_deref().filter(|file| !Real::new().is_file(file)) {
            usage_error("submit", &format!("{option}: file not found: {}", file.display()));
        }
    }
    need_folders("submit", "--skill-dir", &args.run.skill_dirs);
    let text = match text("submit", &args.run, &Sink::of(false, false)) {
        Ok(text) => text,
        Err(code) => return code,
    };
    match submitted(args, text) {
        Ok((id, due_ms)) => {
            let at =
                jiff::Timestamp::from_millisecond(due_ms).map_or_else(|_| String::new(), |at| at.to_string());
            let data = json!({"id": id, "due_at": at, "every": args.every});
            let when =
                if args.at.is_some() || args.every.is_some() { format!(" for {at}") } else { String::new() };
            print(&if args.run.json {
                envelope(&data)
            } else {
                format!("run {id} queued{when}; `harn worker` runs it\n")
            });
            0
        }
        Err(text) => failed(&text),
    }
}

fn submitted(args: &SubmitArgs, text: String) -> Failed<(String, i64)> {
    let now_ms = Real::new().now_ms();
    let schedule = args.every.as_deref().map(Schedule::parse).transpose()?;
    let at = args.at.as_deref().map(|at| time(at, now_ms)).transpose()?;
    let due_ms = match (at, &schedule) {
        (Some(at), _) => at,
        (None, Some(schedule)) => schedule.after(now_ms).ok_or("the schedule has no time")?,
        (None, None) => now_ms,
    };
    let name = args.run.run_id.clone().unwrap_or_else(drawn);
    checked(&name)?;
    // What is written as JSON there is the answer of the command, not the output of the run.
    let run = RunArgs { json: false, quiet: false, ..args.run.clone() };
    let mut info = facts(&run, &given_command())?;
    let store = store()?;
    if let Some(policy) = retry_policy(args)? {
        info["retry"] = policy;
    }
    let id = match &args.every {
        Some(every) => {
            info["every"] = every.as_str().into();
            info["schedule"] = name.as_str().into();
            checked(&scheduled(&name, due_ms))?;
            scheduled(&name, due_ms)
        }
        None => name,
    };
    let run = NewRun {
        id: id.clone(),
        program: source_name(&args.run),
        args: args.run.args.clone(),
        status: NewStatus::Queued { due_ms },
        info: sealed(info.clone()),
    };
    let source = (source_name(&args.run), text.into_bytes());
    create(&*store, run, vec![source]).map_err(|error| explained(&id, &error))?;
    Ok((id, due_ms))
}

/// How a run is tried again: as the options say, and otherwise the manifest; nothing without retries.
fn retry_policy(args: &SubmitArgs) -> Failed<Option<Value>> {
    let dir = args.run.file.as_deref().and_then(Path::parent).unwrap_or(Path::new(""));
    let of_project = Settings::of_runs(&Real::new(), dir)?;
    let retries = args.retries.map(u64::from).or(of_project.retries).unwrap_or(0);
    if retries == 0 {
        return Ok(None);
    }
    let ms = |time: Option<Duration>, default: Duration| {
        i64::try_from(time.unwrap_or(default).as_millis()).unwrap_or(i64::MAX)
    };
    let backoff = args.backoff.map(|kind| kind.word().to_owned()).or(of_project.backoff);
    Ok(Some(json!({
        "retries": retries,
        "backoff": backoff.unwrap_or_else(|| "exponential".to_owned()),
        "delay_ms": ms(args.retry_delay.or(of_project.retry_delay), Duration::from_secs(1)),
        "max_delay_ms": ms(args.max_retry_delay.or(of_project.max_retry_delay), Duration::from_secs(3_600)),
    })))
}

/// The name of a run of a schedule.
fn scheduled(name: &str, due_ms: i64) -> String {
    let at = jiff::Timestamp::from_millisecond(due_ms).unwrap_or(jiff::Timestamp::MAX);
    format!("{name}-{}", at.strftime("%Y%m%dT%H%MZ"))
}

/// Makes a run that nobody works on yet.
fn create(store: &dyn Store, run: NewRun, sources: Vec<(String, Vec<u8>)>) -> Result<(), StoreError> {
    let fence = take_lease(store, &Real::new(), &run.id)?.fence();
    let (id, at_ms) = (run.id.clone(), Real::new().now_ms());
    let sources = sources.into_iter().map(|(path, bytes)| Write::SourcePut { run: id.clone(), path, bytes });
    let mut writes = vec![Write::RunCreate { run, at_ms }];
    writes.extend(sources);
    writes.push(Write::Release);
    let made = wait(store.write(&fence, writes)).map(drop);
    if made.is_err() {
        // Nobody is left to give it back when this fails; it runs out then.
        let _ = wait(store.write(&fence, vec![Write::Release]));
    }
    made
}

/// Queues the next run of a schedule, once, however often the run that is at hand is begun. Times that have passed meanwhile
/// are left out.
///
/// # Errors
/// The errors of the store.
pub(super) fn queue_next(
    store: &dyn Store,
    run: &harn_store::Run,
    fence: &harn_store::Fence,
) -> Result<Option<String>, StoreError> {
    let mut info: Value = serde_json::from_slice(&run.info).unwrap_or_default();
    let every = info["every"].as_str().and_then(|every| Schedule::parse(every).ok());
    let (Some(schedule), Some(name)) = (every, info["schedule"].as_str().map(str::to_owned)) else {
        return Ok(None);
    };
    let now_ms = Real::new().now_ms();
    let due_ms = match info["next_due_ms"].as_i64() {
        Some(due_ms) => due_ms,
        None => {
            let Some(due_ms) = schedule.after(now_ms.max(run.created_ms)) else { return Ok(None) };
            // Written first: whoever begins this run again comes to the same next one.
            info["next_due_ms"] = due_ms.into();
            let write = Write::RunInfo { run: run.id.clone(), info: sealed(info.clone()), at_ms: now_ms };
            wait(store.write(fence, vec![write]))?;
            due_ms
        }
    };
    let id = scheduled(&name, due_ms);
    if let Some(map) = info.as_object_mut() {
        map.remove("next_due_ms");
    }
    let next = NewRun {
        id: id.clone(),
        program: run.program.clone(),
        args: run.args.clone(),
        status: NewStatus::Queued { due_ms },
        info: sealed(info.clone()),
    };
    let sources = wait(store.sources(&run.id))?;
    let sources = sources.into_iter().map(|source| (source.path, source.bytes)).collect();
    match create(store, next, sources) {
        Ok(()) => Ok(Some(id)),
        // A worker that was here before has made it.
        Err(StoreError::Exists { .. } | StoreError::Held { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads a moment: a time with its zone, a time in UTC without one, or a length of time from now.
fn time(text: &str, now_ms: i64) -> Failed<i64> {
    if let Ok(length) = crate::args::parse_time(text) {
        return Ok(now_ms.saturating_add(i64::try_from(length.as_millis()).unwrap_or(i64::MAX)));
    }
    if let Ok(at) = text.parse::<jiff::Timestamp>() {
        return Ok(at.as_millisecond());
    }
    let plain = text.parse::<jiff::civil::DateTime>().ok();
    let at = plain.and_then(|at| at.to_zoned(jiff::tz::TimeZone::UTC).ok());
    at.map(|at| at.timestamp().as_millisecond()).ok_or_else(|| {
        format!("expected a time such as 2026-11-30T08:00:00Z or 2026-11-30T08:00 (UTC), or a delay such as 30s, 10m or 2h, got '{text}'")
    })
}
