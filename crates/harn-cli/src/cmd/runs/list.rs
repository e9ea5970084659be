//! Output of runs: a list, one run, and its journal.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use harn_store::{DEFAULT_QUEUE, JournalEntry, Run, RunFilter, RunStatus, Scheduling, Store, Waitpoint};
use harn_system::{Real, System, SystemExt};
use harn_value::{Data as Value, json};

use super::change::{failure, matching};
use super::{Outcome, Shown, each_entry, head, opened, store, time, wait};
use crate::args::{Filter, RunsEventsArgs, RunsListArgs};
use crate::cmd::durable::{OUTAGE, can_follow, format_of};
use crate::health::Usage;
use crate::table;

pub(super) fn list(args: &RunsListArgs) -> Outcome<Shown> {
    let now_ms = Real::new().now_ms();
    let shows_failures = args.failed || args.dead;
    let status = if shows_failures { Some(RunStatus::Failed) } else { args.status };
    let limit = usize::try_from(args.limit).unwrap_or(usize::MAX);
    let store = opened()?;
    let (runs, open) = match &store {
        Some(store) => (chosen(&**store, args, status, limit, now_ms)?, wait(store.waitpoints(None, true))?),
        None => (Vec::new(), Vec::new()),
    };
    let mut sizes = BTreeMap::new();
    if let Some(store) = store.filter(|_| args.size) {
        for run in &runs {
            sizes.insert(run.number, wait(store.run_bytes(&run.id))?);
        }
    }
    let mut pending: BTreeMap<&str, Vec<&Waitpoint>> = BTreeMap::new();
    for waitpoint in &open {
        pending.entry(&waitpoint.run).or_default().push(waitpoint);
    }
    let pending = |run: &Run| pending.get(&*run.id).map_or(&[][..], Vec::as_slice);
    let described = |run: &Run| {
        let mut data = described(run, pending(run), now_ms);
        if let Some(bytes) = sizes.get(&run.number) {
            data["bytes"] = (*bytes).into();
        }
        data
    };
    let data: Vec<Value> = runs.iter().map(described).collect();
    let is_plain = |run: &Run| run.scheduling.queue == DEFAULT_QUEUE && run.scheduling.priority == 0;
    let shows_queues = !runs.iter().all(is_plain);
    let row = |run: &Run| {
        let mut row = if shows_failures {
            failed_row(run)
        } else {
            vec![
                run.id.clone(),
                self::status(run, now_ms),
                short(run.started_ms.unwrap_or(run.created_ms)),
                run.effects.to_string(),
                waits_for(run, pending(run).len(), now_ms),
                run.program.clone(),
            ]
        };
        if shows_queues {
            row.extend([run.scheduling.queue.clone(), run.scheduling.priority.to_string()]);
        }
        row.extend(sizes.get(&run.number).map(u64::to_string));
        row
    };
    let rows: Vec<Vec<String>> = runs.iter().map(row).collect();
    let mut columns = match shows_failures {
        true => vec!["RUN", "ENDED", "TRIES", "CATEGORY", "LAST EFFECT", "ERROR"],
        false => vec!["RUN", "STATUS", "STARTED", "EFFECTS", "WAITS FOR", "PROGRAM"],
    };
    if shows_queues {
        columns.extend(["QUEUE", "PRIORITY"]);
    }
    columns.extend(args.size.then_some("BYTES"));
    let text = if rows.is_empty() {
        let records = super::records(&Real::new());
        let is_plain = args.status.is_none() && !shows_failures && args.filter.is_none();
        let hint = match is_plain && Real::new().is_dir(&records) {
            true => format!("Records of workflows are in {}: `harn runs list --dir`\n", records.display()),
            false => String::new(),
        };
        format!("No runs.\n{hint}")
    } else {
        table::draw(&columns, &rows)
    };
    Ok(Shown::new(text, json!({"runs": data})))
}

/// Selects the runs of a list.
fn chosen(
    store: &dyn Store,
    args: &RunsListArgs,
    status: Option<RunStatus>,
    limit: usize,
    now_ms: i64,
) -> Outcome<Vec<Run>> {
    if args.filter.is_none() && !args.dead {
        return wait(store.runs(RunFilter { status, now_ms, before: None }, limit));
    }
    let filter = args.filter.clone().unwrap_or_default();
    let mut found = matching(store, &Filter { status: status.or(filter.status), ..filter })?;
    found.retain(|run| !args.dead || is_dead(run));
    found.reverse();
    found.truncate(limit);
    Ok(found)
}

/// Whether a failed run has used all its retries.
fn is_dead(run: &Run) -> bool {
    let info = serde_json::from_slice::<Value>(&run.info).unwrap_or_default();
    info["retry"]["retries"].as_u64().is_some_and(|retries| run.tries > retries)
}

/// Formats a row in the list of failed runs.
fn failed_row(run: &Run) -> Vec<String> {
    let failure = failure(run);
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let effect = &failure["last_effect"];
    let effect = match effect.is_null() {
        true => "-".to_owned(),
        false => format!("{} {}", text(&effect["name"]), text(&effect["about"])).trim_end().to_owned(),
    };
    vec![
        run.id.clone(),
        run.ended_ms.map_or_else(|| "-".to_owned(), short),
        run.tries.max(1).to_string(),
        text(&failure["category"]),
        effect,
        if run.note.is_empty() {
            format!("exit code {}", run.exit_code.unwrap_or(1))
        } else {
            run.note.clone()
        },
    ]
}

/// Returns what a run waits for: `asks` open requests to humans, a time, the store or a worker.
fn waits_for(run: &Run, asks: usize, now_ms: i64) -> String {
    let later = run.due_ms.filter(|due_ms| *due_ms > now_ms).map(short);
    match (run.status_at(now_ms), later) {
        (RunStatus::Suspended | RunStatus::Running, _) if asks == 1 => "1 answer".to_owned(),
        (RunStatus::Suspended | RunStatus::Running, _) if asks > 1 => format!("{asks} answers"),
        (RunStatus::Queued, _) if run.note.starts_with(OUTAGE) => "the store".to_owned(),
        (RunStatus::Queued, Some(at)) if run.tries > 0 => format!("retry at {at}"),
        (RunStatus::Suspended | RunStatus::Queued, Some(at)) => at,
        (RunStatus::Suspended, None) if run.due_ms.is_none() => "resume".to_owned(),
        (RunStatus::Suspended | RunStatus::Queued | RunStatus::Abandoned, _) => "a worker".to_owned(),
        (RunStatus::Paused, _) => "unpause".to_owned(),
        _ => "-".to_owned(),
    }
}

/// Returns the status of a run, with its journal format if this version cannot replay it.
fn status(run: &Run, now_ms: i64) -> String {
    let word = run.status_at(now_ms).word();
    if can_follow(run) { word.to_owned() } else { format!("{word} (journal format {})", journal_format(run)) }
}

fn journal_format(run: &Run) -> u64 {
    format_of(&serde_json::from_slice(&run.info).unwrap_or_default())
}

/// Formats a time, to the second.
fn short(at_ms: i64) -> String {
    time(at_ms.div_euclid(1000) * 1000)
}

pub(super) fn show(id: &str) -> Outcome<Shown> {
    let store = store(id)?;
    let now_ms = Real::new().now_ms();
    let run = head(&*store, id)?;
    let waitpoints = wait(store.waitpoints(Some(id), false))?;
    let sources = wait(store.sources(id))?;
    let ended = run.status.is_end();
    let pending: Vec<&Waitpoint> = waitpoints.iter().filter(|w| w.is_open() && !ended).collect();
    let mut data = described(&run, &pending, now_ms);
    data["answered"] =
        waitpoints.iter().filter(|w| !w.answers.is_empty()).map(answered).collect::<Vec<_>>().into();
    let sources = sources.iter().map(|source| {
        json!({"path": source.path, "sha256": source.digest.to_string(), "bytes": source.bytes.len()})
    });
    data["sources"] = sources.collect::<Vec<_>>().into();
    let bytes = wait(store.run_bytes(id))?;
    data["bytes"] = bytes.into();
    Ok(Shown::new(page(&run, &waitpoints, now_ms, bytes), data))
}

/// Returns a run as JSON.
pub(super) fn described(run: &Run, pending: &[&Waitpoint], now_ms: i64) -> Value {
    let at = |at_ms: Option<i64>| at_ms.map_or(Value::Null, |at_ms| time(at_ms).into());
    let asks = pending.len();
    let pending: Vec<Value> = pending
        .iter()
        .map(|waitpoint| {
            let asked = &waitpoint.asked;
            json!({
                "request_id": asked.request_id, "kind": asked.kind, "prompt": asked.prompt,
                "asked_at": time(asked.asked_ms), "due_at": at(asked.due_ms),
                "quorum": asked.quorum, "answers": waitpoint.answers.len(),
                "details": serde_json::from_slice::<Value>(&asked.info).unwrap_or_default(),
            })
        })
        .collect();
    let mut info = serde_json::from_slice::<Value>(&run.info).unwrap_or_default();
    if let Some(map) = info.as_object_mut() {
        map.remove("seal");
    }
    json!({
        "id": run.id,
        "status": run.status_at(now_ms).word(),
        "generation": info["generation"].as_u64().unwrap_or(1),
        "program": run.program,
        "args": run.args,
        "queue": run.scheduling.queue,
        "priority": run.scheduling.priority,
        "key": run.scheduling.key,
        "group": run.scheduling.group,
        "pending": pending,
        "effects": run.effects,
        "entries": run.length,
        "starts": run.starts,
        "created_at": time(run.created_ms),
        "started_at": at(run.started_ms),
        "updated_at": time(run.updated_ms),
        "ended_at": at(run.ended_ms),
        "due_at": at(run.due_ms),
        "exit_code": run.exit_code,
        "note": run.note,
        "tries": run.tries,
        "failure": failure(run),
        "usage": info["usage"].clone(),
        "waits_for": Some(waits_for(run, asks, now_ms)).filter(|waits_for| waits_for != "-"),
        "journal_format": journal_format(run),
        "can_resume": can_follow(run) && !run.status.is_end(),
        "parent": run.parent.as_ref().map(|parent| json!({"id": parent.run, "entries": forked_at(run, parent.length)})),
        "owner": run.lease.as_ref().map(|lease| json!({"name": lease.owner, "until": time(lease.until_ms)})),
        "info": info,
    })
}

/// Returns the number of entries that a fork shares with its parent. A fork rewrites them during replay, so the store
/// has not copied any; the number is in the run's metadata.
pub(super) fn forked_at(run: &Run, copied: u64) -> u64 {
    let info = serde_json::from_slice::<Value>(&run.info).unwrap_or_default();
    info["forked_at"].as_u64().unwrap_or(copied)
}

fn answered(waitpoint: &Waitpoint) -> Value {
    let answers = waitpoint.answers.iter().map(|answer| {
        let text = || String::from_utf8_lossy(&answer.value).into_owned().into();
        json!({
            "value": serde_json::from_slice::<Value>(&answer.value).unwrap_or_else(|_| text()),
            "by": answer.by, "at": time(answer.at_ms), "signature": answer.signature,
        })
    });
    json!({
        "request_id": waitpoint.asked.request_id, "kind": waitpoint.asked.kind, "prompt": waitpoint.asked.prompt,
        "answers": answers.collect::<Vec<_>>(),
    })
}

/// Prefix of the continuation lines of a value.
const MARGIN: &str = "          | ";

/// Formats a run for display.
fn page(run: &Run, waitpoints: &[Waitpoint], now_ms: i64, bytes: u64) -> String {
    let status = run.status_at(now_ms);
    let mut out = String::new();
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(out, "{name:<9} {}", harn_syntax::with_margin(value, MARGIN));
    };
    line("run", &run.id);
    line(
        "status",
        &match run.exit_code {
            Some(code) => format!("{} (exit code {code})", status.word()),
            None => self::status(run, now_ms),
        },
    );
    if !run.note.is_empty() {
        line("note", &run.note);
    }
    line("program", &run.program);
    if !run.args.is_empty() {
        line("args", &run.args.join(" "));
    }
    let Scheduling { queue, priority, key, group } = &run.scheduling;
    if run.scheduling != Scheduling::default() {
        let named = |name: &str, value: &Option<String>| {
            value.as_ref().map_or_else(String::new, |value| format!(", {name} {value}"))
        };
        line("queue", &format!("{queue}, priority {priority}{}{}", named("key", key), named("group", group)));
    }
    if let Some(parent) = &run.parent {
        line("fork of", &format!("{}, at entry {}", parent.run, forked_at(run, parent.length)));
    }
    line("started", &run.started_ms.map_or("not yet".to_owned(), short));
    if let Some(ended) = run.ended_ms {
        line("ended", &short(ended));
    }
    if let Some(due) = run.due_ms {
        line("continues", &short(due));
    }
    line("journal", &format!("{} effects in {} entries, {bytes} bytes", run.effects, run.length));
    let info = serde_json::from_slice::<Value>(&run.info).unwrap_or_default();
    if info["usage"].is_object() {
        let Usage { calls, input_tokens, output_tokens, cost_usd } = Usage::from_data(&info["usage"]);
        let tokens = format!("{input_tokens} tokens in, {output_tokens} out");
        line("models", &format!("{calls} calls, {tokens}, {cost_usd} USD"));
    }
    let failure = failure(run);
    if !failure.is_null() {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        line("error", &format!("{} ({})", text(&failure["message"]), text(&failure["category"])));
        line("tries", &format!("{} failed, the last at {}", run.tries.max(1), text(&failure["time"])));
        if let Some(at) = failure["at"].as_str() {
            line("at", at);
        }
        for call in failure["stack"].as_array().into_iter().flatten() {
            line("", &format!("  in {}, {}:{}", text(&call["function"]), text(&call["file"]), call["line"]));
        }
        let effect = &failure["last_effect"];
        if !effect.is_null() {
            let (name, about, at) = (text(&effect["name"]), text(&effect["about"]), text(&effect["at"]));
            line("effect", &format!("{name} {about} at {at} (entry {})", effect["entry"]));
        }
    }
    if let Some(lease) = &run.lease {
        line("owner", &format!("{} until {}", lease.owner, short(lease.until_ms)));
    }
    for waitpoint in waitpoints {
        let asked = &waitpoint.asked;
        let answers = waitpoint.answers.iter().map(|answer| {
            format!(
                "  answered by {} at {}: {}",
                answer.by,
                short(answer.at_ms),
                String::from_utf8_lossy(&answer.value)
            )
        });
        let open = if waitpoint.is_open() && !status.is_end() { "asks" } else { "asked" };
        line(open, &format!("{} ({}): {}", asked.request_id, asked.kind, asked.prompt));
        if let Some(arguments) = crate::cmd::durable::shown_arguments(&asked.info) {
            line("", &format!("  {arguments}"));
        }
        answers.for_each(|answer| line("", &answer));
    }
    out
}

pub(super) fn events(args: &RunsEventsArgs) -> Outcome<Shown> {
    let store = store(&args.id)?;
    let run = head(&*store, &args.id)?;
    let (mut text, mut data) = (String::new(), Vec::new());
    each_entry(&*store, &run, args.from, args.limit, |entry| {
        if args.json {
            data.push(event(&entry));
        } else {
            let _ = writeln!(text, "{:>6}  {}  {}", entry.seq, clock(entry.at_ms), told(&entry));
        }
        Ok(())
    })?;
    if text.is_empty() {
        text.push_str("No entries.\n");
    }
    let data = json!({"id": run.id, "entries": run.length, "effects": run.effects, "events": data});
    Ok(Shown::new(text, data))
}

/// Formats the time of day. Runs of older versions have no time before their first read of the clock.
fn clock(at_ms: i64) -> String {
    if at_ms == 0 {
        return format!("{:<12}", "-");
    }
    let full = time(at_ms);
    full.split_once('T').map_or(full.clone(), |(_, rest)| format!("{:<12}", rest.trim_end_matches('Z')))
}

/// Formats an entry in one line.
pub(super) fn told(entry: &JournalEntry) -> String {
    let place = if entry.place.is_empty() { String::new() } else { format!(" at {}", entry.place) };
    let task = if entry.task.is_empty() { "main" } else { &entry.task };
    let line =
        format!("{:<9} {}{place} (task {task}, effect {})", entry.kind.word(), entry.name, entry.count);
    harn_syntax::printable(&line).into_owned()
}

fn event(entry: &JournalEntry) -> Value {
    json!({
        "seq": entry.seq, "kind": entry.kind.word(), "name": &*entry.name, "task": &*entry.task,
        "count": entry.count, "place": &*entry.place, "at": Some(entry.at_ms).filter(|at_ms| *at_ms != 0).map(time), "bytes": entry.payload.len(),
    })
}
