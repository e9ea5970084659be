//! Looking at runs: all of them, one of them, and its journal.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use harn_store::{JournalEntry, Run, RunFilter, Waitpoint};
use harn_system::{Real, System, SystemExt};
use harn_value::{Data as Value, json};

use super::{Outcome, Shown, each_entry, head, opened, store, time, wait};
use crate::args::{RunsEventsArgs, RunsListArgs};
use crate::cmd::durable::{can_follow, format_of};
use crate::table;

pub(super) fn list(args: &RunsListArgs) -> Outcome<Shown> {
    let now_ms = Real::new().now_ms();
    let filter = RunFilter { status: args.status, now_ms, before: None };
    let (runs, open) = match opened()? {
        Some(store) => (
            wait(store.runs(filter, usize::try_from(args.limit).unwrap_or(usize::MAX)))?,
            wait(store.waitpoints(None, true))?,
        ),
        None => (Vec::new(), Vec::new()),
    };
    let mut pending: BTreeMap<&str, Vec<&Waitpoint>> = BTreeMap::new();
    for waitpoint in &open {
        pending.entry(&waitpoint.run).or_default().push(waitpoint);
    }
    let pending = |run: &Run| pending.get(&*run.id).map_or(&[][..], Vec::as_slice);
    let data: Vec<Value> = runs.iter().map(|run| described(run, pending(run), now_ms)).collect();
    let rows: Vec<Vec<String>> = runs
        .iter()
        .map(|run| {
            let asks = pending(run).len();
            let waits = if asks > 0 { format!("{asks} open") } else { "-".to_owned() };
            vec![
                run.id.clone(),
                status(run, now_ms),
                short(run.started_ms.unwrap_or(run.created_ms)),
                run.effects.to_string(),
                waits,
                run.program.clone(),
            ]
        })
        .collect();
    let text = if rows.is_empty() {
        let records = super::records(&Real::new());
        let hint = match args.status.is_none() && Real::new().is_dir(&records) {
            true => format!("Records of workflows are in {}: `harn runs list --dir`\n", records.display()),
            false => String::new(),
        };
        format!("No runs.\n{hint}")
    } else {
        table::draw(&["RUN", "STATUS", "STARTED", "EFFECTS", "ASKS", "PROGRAM"], &rows)
    };
    Ok(Shown::new(text, json!({"runs": data})))
}

/// The status of a run, with the format of its journal when this version cannot follow it.
fn status(run: &Run, now_ms: i64) -> String {
    let word = run.status_at(now_ms).word();
    if can_follow(run) { word.to_owned() } else { format!("{word} (journal format {})", journal_format(run)) }
}

fn journal_format(run: &Run) -> u64 {
    format_of(&serde_json::from_slice(&run.info).unwrap_or_default())
}

/// A moment, to the second.
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
    Ok(Shown::new(page(&run, &waitpoints, now_ms), data))
}

/// A run for tools.
pub(super) fn described(run: &Run, pending: &[&Waitpoint], now_ms: i64) -> Value {
    let at = |at_ms: Option<i64>| at_ms.map_or(Value::Null, |at_ms| time(at_ms).into());
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
        "journal_format": journal_format(run),
        "can_resume": can_follow(run) && !run.status.is_end(),
        "parent": run.parent.as_ref().map(|parent| json!({"id": parent.run, "entries": forked_at(run, parent.length)})),
        "owner": run.lease.as_ref().map(|lease| json!({"name": lease.owner, "until": time(lease.until_ms)})),
        "info": info,
    })
}

/// How many entries a fork has of its parent. It writes them anew while it follows them, so the store has copied none, and the facts
/// about the run say it.
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

/// Stands before further lines of a value.
const MARGIN: &str = "          | ";

/// A run for people.
fn page(run: &Run, waitpoints: &[Waitpoint], now_ms: i64) -> String {
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
    if let Some(parent) = &run.parent {
        line("fork of", &format!("{}, at entry {}", parent.run, forked_at(run, parent.length)));
    }
    line("started", &run.started_ms.map_or("not yet".to_owned(), short));
    if let Some(ended) = run.ended_ms {
        line("ended", &short(ended));
    }
    if let Some(due) = run.due_ms {
        line("goes on", &short(due));
    }
    line("journal", &format!("{} effects in {} entries", run.effects, run.length));
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

/// The time of day. Runs of old did not note one before their first look at the clock.
fn clock(at_ms: i64) -> String {
    if at_ms == 0 {
        return format!("{:<12}", "-");
    }
    let full = time(at_ms);
    full.split_once('T').map_or(full.clone(), |(_, rest)| format!("{:<12}", rest.trim_end_matches('Z')))
}

/// An entry in one line.
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
