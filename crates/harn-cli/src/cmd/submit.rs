//! `harn submit`: submits a program to the store, for a worker to run.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use harn_check::{Queue, RetryPolicy, Settings};
use harn_journal::wait;
use harn_store::{
    DEFAULT_QUEUE, Error as StoreError, MAX_NAME, NewRun, NewStatus, QueueLimits, Rate, RunQueue, Scheduling,
    Store, Submission, Submitted, Write,
};
use harn_system::{Real, System, SystemExt};
use harn_value::{Data as Value, json};

use super::cron::Schedule;
use super::durable::{Failed, checked, drawn, explained, facts, failed, sealed, source_name, store};
use super::providers::{envelope, print};
use super::run::{Sink, program_of, text};
use crate::args::{RunArgs, SubmitArgs, given_command, need_folders, usage_error};

/// Submits a program. Returns the exit code.
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
    let submitted = match &args.input_file {
        Some(file) => submit_lines(args, file, &text),
        None => submit_one(args, &text),
    };
    match submitted {
        Ok((_, data)) if args.run.json => print(&envelope(&data)),
        Ok((text, _)) => print(&text),
        Err(text) => failed(&text),
    }
}

/// The data shared by all runs of a submission.
struct Plan<'a> {
    args: &'a SubmitArgs,
    text: &'a str,
    store: Arc<dyn Store>,
    retry: Option<Value>,
    /// The queues of the manifest.
    known: BTreeMap<String, Queue>,
    command: Vec<String>,
    now_ms: i64,
}

/// A run to submit.
#[derive(Default)]
struct Job {
    id: Option<String>,
    args: Option<Vec<String>>,
    queue: Option<String>,
    priority: Option<i32>,
    key: Option<String>,
    group: Option<String>,
    at: Option<String>,
}

impl<'a> Plan<'a> {
    fn new(args: &'a SubmitArgs, text: &'a str) -> Failed<Plan<'a>> {
        let dir = args.run.file.as_deref().and_then(Path::parent).unwrap_or(Path::new(""));
        let (runs, known) = Settings::of_runs(&Real::new(), dir)?;
        let policy = of_options(args).or(of_program(args, text)?).or(runs.retry);
        let (retry, command, now_ms) = (retry_facts(policy), given_command(), Real::new().now_ms());
        Ok(Plan { args, text, store: store()?, retry, known, command, now_ms })
    }

    /// Creates the run of a job, due at `due_ms`.
    fn run(&self, id: &str, job: Job, due_ms: i64, schedule: Option<(&str, &str)>) -> Failed<NewRun> {
        checked(id)?;
        let own = self.args;
        // `--json` applies to the output of `submit`, not to the output of the run.
        let mut run = RunArgs { json: false, quiet: false, ..own.run.clone() };
        if let Some(args) = job.args {
            run.args = args;
        }
        let mut info = facts(&run, &self.command)?;
        if let Some(policy) = &self.retry {
            info["retry"] = policy.clone();
        }
        if let Some((name, every)) = schedule {
            info["every"] = every.into();
            info["schedule"] = name.into();
        }
        let scheduling = Scheduling {
            queue: job.queue.or_else(|| own.queue.clone()).unwrap_or_else(|| DEFAULT_QUEUE.to_owned()),
            priority: job.priority.or(own.priority).unwrap_or(0),
            key: job.key.or_else(|| own.key.clone()),
            group: job.group.or_else(|| own.group.clone()),
        };
        for (name, value) in [("key", &scheduling.key), ("group", &scheduling.group)] {
            if let Some(value) = value {
                named(name, value)?;
            }
        }
        let status = NewStatus::Queued { due_ms };
        let program = source_name(&own.run);
        Ok(NewRun { id: id.to_owned(), program, args: run.args, status, scheduling, info: sealed(info) })
    }

    /// Queues the runs atomically.
    fn submit(&self, runs: Vec<NewRun>) -> Failed<Vec<Submitted>> {
        let mut names: Vec<&str> = runs.iter().map(|run| &*run.scheduling.queue).collect();
        names.sort_unstable();
        names.dedup();
        // A queue that is not in the manifest keeps the limits in the store.
        let named = |name: &str| queue_of(&self.known, name).transpose();
        let queues = names.into_iter().filter_map(named).collect::<Failed<Vec<_>>>()?;
        let sources = vec![(source_name(&self.args.run), self.text.as_bytes().to_vec())];
        let id = runs.first().map(|run| run.id.clone()).unwrap_or_default();
        let submission = Submission { queues, runs, sources, at_ms: self.now_ms };
        wait(self.store.submit_runs(submission)).map_err(|error| match error {
            StoreError::Exists { what } if what != format!("run '{id}'") => format!("{what} already exists"),
            error => explained(&id, &error),
        })
    }
}

/// Rejects invalid store names.
fn named(what: &str, value: &str) -> Failed<()> {
    let fits = !value.is_empty() && value.len() <= MAX_NAME && !value.contains('\0');
    fits.then_some(()).ok_or_else(|| format!("invalid {what}: expected 1 to {MAX_NAME} bytes"))
}

/// Returns a queue with its limits in the manifest; `None` for the default queue without a table there.
fn queue_of(known: &BTreeMap<String, Queue>, name: &str) -> Failed<Option<RunQueue>> {
    match known.get(name) {
        Some(queue) => Ok(Some(RunQueue { name: name.to_owned(), limits: limits(queue) })),
        None if name == DEFAULT_QUEUE => Ok(None),
        None => Err(unknown_queue(name, known.keys().map(String::as_str))),
    }
}

/// Returns the error for an undeclared queue.
pub(super) fn unknown_queue<'a>(name: &str, known: impl Iterator<Item = &'a str> + Clone) -> String {
    let near = harn_syntax::suggest::close(name, known.chain([DEFAULT_QUEUE]));
    let near = near.map_or_else(String::new, |near| format!("did you mean '{near}'? "));
    format!("unknown queue '{name}'; {near}declare it with a line `[queues.{name}]` in harn.toml")
}

/// Converts the limits of a queue in the manifest.
pub(super) fn limits(queue: &Queue) -> QueueLimits {
    let rate = |(count, period): (u32, Duration)| {
        let period_ms = i64::try_from(period.as_millis()).unwrap_or(i64::MAX);
        Rate { count, period_ms }
    };
    QueueLimits {
        concurrency: queue.concurrency,
        rate: queue.rate.map(rate),
        group_concurrency: queue.group_concurrency,
        group_rate: queue.group_rate.map(rate),
    }
}

/// Submits one run, or the first run of a schedule.
fn submit_one(args: &SubmitArgs, text: &str) -> Failed<(String, Value)> {
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
    let id = match &args.every {
        Some(_) => scheduled(&name, due_ms),
        None => name.clone(),
    };
    let plan = Plan::new(args, text)?;
    let run = plan.run(&id, Job::default(), due_ms, args.every.as_deref().map(|every| (&*name, every)))?;
    let queue = run.scheduling.queue.clone();
    let at = jiff::Timestamp::from_millisecond(due_ms).map_or_else(|_| String::new(), |at| at.to_string());
    Ok(match plan.submit(vec![run])?.pop() {
        Some(Submitted::Duplicate { run }) => {
            let key = args.key.as_deref().unwrap_or_default();
            let text = format!("run {run} has the key '{key}', and has not ended; no run was queued\n");
            (text, json!({"id": run, "created": false, "queue": queue}))
        }
        _ => {
            let when =
                if args.at.is_some() || args.every.is_some() { format!(" for {at}") } else { String::new() };
            let data = json!({"id": id, "created": true, "queue": queue, "due_at": at, "every": args.every});
            (format!("run {id} queued{when}; `harn worker` runs it\n"), data)
        }
    })
}

/// Number of runs submitted in one transaction.
const BATCH: usize = 1_000;

/// The largest file of runs.
const MAX_LINES: u64 = 1 << 30;

/// Submits one run for each line of a file.
fn submit_lines(args: &SubmitArgs, file: &Path, text: &str) -> Failed<(String, Value)> {
    let shown = file.display();
    let lines =
        Real::new().read_text(file, MAX_LINES).map_err(|error| format!("cannot read {shown}: {error}"))?;
    let plan = Plan::new(args, text)?;
    let default_at = args.at.as_deref().map(|at| time(at, plan.now_ms)).transpose()?;
    let mut runs = Vec::new();
    for (n, line) in lines.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let run = job(line).and_then(|mut job| {
            let at = job.at.take().map(|at| time(&at, plan.now_ms)).transpose()?;
            let id = job.id.take().unwrap_or_else(drawn);
            let queue = job.queue.as_deref().or(args.queue.as_deref()).unwrap_or(DEFAULT_QUEUE);
            queue_of(&plan.known, queue)?;
            plan.run(&id, job, at.or(default_at).unwrap_or(plan.now_ms), None)
        });
        runs.push(run.map_err(|why| format!("{shown}:{}: {why}", n + 1))?);
    }
    if runs.is_empty() {
        return Err(format!(
            "{shown} has no runs: expected a JSON object per line, such as {{\"args\": [\"a\"]}}"
        ));
    }
    let (mut created, mut data) = (0, Vec::with_capacity(runs.len()));
    let mut rest = runs.into_iter();
    loop {
        let batch: Vec<NewRun> = rest.by_ref().take(BATCH).collect();
        if batch.is_empty() {
            break;
        }
        let ids: Vec<String> = batch.iter().map(|run| run.id.clone()).collect();
        let submitted = plan.submit(batch).map_err(|why| match data.len() {
            0 => why,
            count => format!("{why}; the first {count} runs of {shown} are submitted"),
        })?;
        for (id, submitted) in ids.into_iter().zip(submitted) {
            data.push(match submitted {
                Submitted::Created => {
                    created += 1;
                    json!({"id": id, "created": true})
                }
                Submitted::Duplicate { run } => json!({"id": run, "created": false}),
            });
        }
    }
    let duplicates = data.len() - created;
    let more = match duplicates {
        0 => String::new(),
        count => format!(", {count} not queued because another run has their key"),
    };
    let text = format!("{created} runs queued{more}; `harn worker` runs them\n");
    Ok((text, json!({"created": created, "duplicates": duplicates, "runs": data})))
}

/// Parses a line of a file of runs.
fn job(line: &str) -> Failed<Job> {
    let value: Value = serde_json::from_str(line).map_err(|error| format!("invalid JSON: {error}"))?;
    let map = value.as_object().ok_or("expected a JSON object")?;
    let mut job = Job::default();
    for (key, value) in map {
        let text = || value.as_str().map(str::to_owned).ok_or_else(|| format!("`{key}` must be a string"));
        match &**key {
            "id" => job.id = Some(text()?),
            "queue" => job.queue = Some(text()?),
            "key" => job.key = Some(text()?),
            "group" => job.group = Some(text()?),
            "at" => job.at = Some(text()?),
            "priority" => {
                let priority = value.as_i64().filter(|n| (-1000..=1000).contains(n)).map(|n| n as i32);
                job.priority = Some(priority.ok_or("`priority` must be a number from -1000 to 1000")?);
            }
            "args" => {
                let texts = value.as_array().and_then(|args| {
                    args.iter().map(|arg| arg.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>()
                });
                job.args = Some(texts.ok_or("`args` must be a list of strings")?);
            }
            _ => {
                return Err(format!(
                    "unknown key `{key}`: expected id, args, queue, priority, key, group or at"
                ));
            }
        }
    }
    Ok(job)
}

/// Returns the retry policy of the command line.
fn of_options(args: &SubmitArgs) -> RetryPolicy {
    RetryPolicy {
        retries: args.retries.map(u64::from),
        backoff: args.backoff.map(|kind| kind.word().to_owned()),
        delay: args.retry_delay,
        max_delay: args.max_retry_delay,
    }
}

/// Returns the retry policy of the program. A program that does not parse has none: its runs fail when they are loaded
/// and are not retried.
///
/// # Errors
/// The arguments of `@retry` are invalid.
fn of_program(args: &SubmitArgs, text: &str) -> Failed<RetryPolicy> {
    let program = program_of(&args.run, text.to_owned());
    let Ok(tree) = program.parse() else { return Ok(RetryPolicy::default()) };
    RetryPolicy::of_program(&tree).map_err(|(span, message)| {
        let (line, column) = program.line_column(span);
        format!("{}:{line}:{column}: {message}", program.name())
    })
}

/// Returns the retry policy as metadata of a run, or `None` without retries.
fn retry_facts(policy: RetryPolicy) -> Option<Value> {
    let retries = policy.retries.filter(|retries| *retries > 0)?;
    let ms = |time: Option<Duration>, default: Duration| {
        i64::try_from(time.unwrap_or(default).as_millis()).unwrap_or(i64::MAX)
    };
    Some(json!({
        "retries": retries,
        "backoff": policy.backoff.unwrap_or_else(|| "exponential".to_owned()),
        "delay_ms": ms(policy.delay, Duration::from_secs(1)),
        "max_delay_ms": ms(policy.max_delay, Duration::from_secs(3_600)),
    }))
}

/// Returns the name of a run of a schedule.
fn scheduled(name: &str, due_ms: i64) -> String {
    let at = jiff::Timestamp::from_millisecond(due_ms).unwrap_or(jiff::Timestamp::MAX);
    let is_minute = due_ms % 60_000 == 0;
    format!("{name}-{}", at.strftime(if is_minute { "%Y%m%dT%H%MZ" } else { "%Y%m%dT%H%M%SZ" }))
}

/// Queues the next run of a schedule exactly once, even if the current run is started several times. Times that have
/// passed in the meantime are skipped.
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
            // Stored first, so that a restart of this run computes the same next run.
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
        scheduling: run.scheduling.clone(),
        info: sealed(info.clone()),
    };
    let sources = wait(store.sources(&run.id))?;
    let sources = sources.into_iter().map(|source| (source.path, source.bytes)).collect();
    let submission = Submission { queues: Vec::new(), runs: vec![next], sources, at_ms: now_ms };
    match wait(store.submit_runs(submission)) {
        Ok(_) => Ok(Some(id)),
        // A previous worker of this run has already created it.
        Err(StoreError::Exists { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Parses a time with a time zone, a time without one (UTC), or a duration from now.
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
