//! Export of a run to a file, to inspect or replay it elsewhere: one JSON object per line, and a digest of them in the
//! last line.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use harn_store::{Digest, JournalEntry, Waitpoint};
use harn_system::{Real, System};
use harn_value::{Data as Value, json};

use super::{Failure, Outcome, Shown, each_entry, head, store, wait};

/// The version of the format.
pub(super) const VERSION: u64 = 1;

pub(super) fn export(id: &str, output: Option<&Path>) -> Outcome<Shown> {
    let store = store(id)?;
    let run = head(&*store, id)?;
    let mut out = String::new();
    let mut line = |value: &Value| {
        out.push_str(&value.to_string());
        out.push('\n');
    };
    let parent = run
        .parent
        .as_ref()
        .map(|parent| json!({"id": parent.run, "entries": super::list::forked_at(&run, parent.length)}));
    line(&json!({
        "harn_run": VERSION, "id": run.id, "program": run.program, "args": run.args, "status": run.status.word(),
        "queue": run.scheduling.queue, "priority": run.scheduling.priority, "group": run.scheduling.group,
        "exit_code": run.exit_code, "note": run.note, "info": bytes(&run.info), "parent": parent,
        "created_ms": run.created_ms, "started_ms": run.started_ms, "updated_ms": run.updated_ms,
        "ended_ms": run.ended_ms,
    }));
    for source in wait(store.sources(id))? {
        line(&json!({"source": source.path, "bytes": bytes(&source.bytes)}));
    }
    each_entry(&*store, &run, 0, u64::MAX, |entry| {
        line(&entry_json(&entry));
        Ok(())
    })?;
    for waitpoint in wait(store.waitpoints(Some(id), false))? {
        line(&waitpoint_json(&waitpoint));
    }
    let digest = Digest::of(out.as_bytes()).to_string();
    out.push_str(&format!("{}\n", json!({"end": true, "entries": run.length, "sha256": digest})));
    let Some(path) = output else { return Ok(Shown::new(out, Value::Null)) };
    let text = format!("run {id} exported to {}\n", path.display());
    Real::new()
        .replace(path, out.as_bytes())
        .map_err(|error| Failure::new("write_failed", format!("cannot write {}: {error}", path.display())))?;
    Ok(Shown::new(text, Value::Null))
}

/// Returns bytes as a string if they are UTF-8.
fn bytes(bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => json!({"text": text}),
        Err(_) => json!({"base64": STANDARD.encode(bytes)}),
    }
}

fn entry_json(entry: &JournalEntry) -> Value {
    json!({
        "entry": entry.seq, "kind": entry.kind.word(), "task": &*entry.task, "count": entry.count,
        "name": &*entry.name, "place": &*entry.place, "digest": bytes(&entry.digest), "at_ms": entry.at_ms,
        "payload": bytes(&entry.payload),
    })
}

fn waitpoint_json(waitpoint: &Waitpoint) -> Value {
    let asked = &waitpoint.asked;
    let answers = waitpoint.answers.iter().map(|answer| {
        json!({"value": bytes(&answer.value), "by": answer.by, "at_ms": answer.at_ms, "signature": answer.signature})
    });
    json!({
        "waitpoint": asked.request_id, "kind": asked.kind, "prompt": asked.prompt, "info": bytes(&asked.info),
        "asked_ms": asked.asked_ms, "due_ms": asked.due_ms, "quorum": asked.quorum,
        "answers": answers.collect::<Vec<_>>(), "closed_ms": waitpoint.closed_ms,
    })
}
