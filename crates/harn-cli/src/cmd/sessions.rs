//! `harn sessions`: the conversations in the project's store.

use std::fmt::Write as _;
use std::io;
use std::path::Path;
use std::time::Duration;

use harn_runtime::{SessionContent, SessionHead, StoredSessions};
use harn_system::{Real, System};
use harn_value::{Data as Value, json};

use super::runs::{Failure, Outcome, Shown, opened, show, time};
use crate::args::SessionsCommand;
use crate::table;

/// Runs the command and returns its exit code.
pub(crate) fn sessions(command: SessionsCommand) -> u8 {
    let (shown, as_json) = match command {
        SessionsCommand::List { limit, json } => (list(limit), json),
        SessionsCommand::Show { id, last, json } => (messages(&id, last), json),
        SessionsCommand::Export { id, output } => (export(&id, output.as_deref()), false),
        SessionsCommand::Trim { id, keep, json } => (trim(&id, keep), json),
        SessionsCommand::Rm { ids, json } => (remove(&ids), json),
        SessionsCommand::Prune { older_than, dry_run, json } => (prune(older_than, dry_run), json),
    };
    show(shown, as_json)
}

/// Returns the sessions of the project's store, or `None` if there is no store.
fn stored() -> Outcome<Option<StoredSessions>> {
    Ok(opened()?.map(StoredSessions::new))
}

fn wait<T>(answer: impl Future<Output = io::Result<T>>) -> Outcome<T> {
    harn_journal::wait(answer).map_err(|error| Failure::new("store_failed", error.to_string()))
}

fn missing(id: &str) -> Failure {
    let text = format!("unknown session '{id}'; `harn sessions list` lists all sessions");
    Failure::new("session_not_found", text)
}

fn heads(sessions: Option<&StoredSessions>) -> Outcome<Vec<SessionHead>> {
    sessions.map_or_else(|| Ok(Vec::new()), |sessions| wait(sessions.list()))
}

fn content(id: &str) -> Outcome<SessionContent> {
    let found = stored()?.map(|sessions| wait(sessions.read(id))).transpose()?.flatten();
    found.ok_or_else(|| missing(id))
}

fn described(heads: &[SessionHead]) -> Value {
    let one = |head: &SessionHead| {
        json!({
            "id": head.id, "messages": head.messages, "created_at": time(head.created_ms),
            "updated_at": time(head.updated_ms),
        })
    };
    heads.iter().map(one).collect::<Vec<_>>().into()
}

fn list(limit: u64) -> Outcome<Shown> {
    let mut heads = heads(stored()?.as_ref())?;
    let all = heads.len();
    heads.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    let mut text = match heads.is_empty() {
        true => "No stored sessions.\n".to_owned(),
        false => drawn(&heads),
    };
    if heads.len() < all {
        let _ = writeln!(text, "{} of {all} sessions; use --limit to list more", heads.len());
    }
    Ok(Shown::new(text, json!({"sessions": described(&heads), "total": all})))
}

fn drawn(heads: &[SessionHead]) -> String {
    let second = |at_ms: i64| time(at_ms.div_euclid(1000) * 1000);
    let row = |head: &SessionHead| {
        vec![head.id.clone(), head.messages.to_string(), second(head.created_ms), second(head.updated_ms)]
    };
    table::draw(&["SESSION", "MESSAGES", "CREATED", "UPDATED"], &heads.iter().map(row).collect::<Vec<_>>())
}

fn messages(id: &str, last: Option<u64>) -> Outcome<Shown> {
    let SessionContent { messages, info, .. } = content(id)?;
    let first =
        last.map_or(0, |last| messages.len().saturating_sub(usize::try_from(last).unwrap_or(usize::MAX)));
    let shown = &messages[first..];
    let mut text = String::new();
    if let Some(summary) = info["summary"].as_str().filter(|_| first == 0) {
        let _ = writeln!(text, "summary: {summary}");
    }
    for message in shown {
        let role = message["role"].as_str().unwrap_or("?");
        match message["content"].as_str() {
            // Lines after the first are indented, so that none can pass for another message.
            Some(content) if !content.is_empty() => {
                let _ = writeln!(text, "{role}: {}", content.replace('\n', "\n  "));
            }
            _ => {
                let mut rest = message.clone();
                if let Some(fields) = rest.as_object_mut() {
                    fields.remove("role");
                }
                let _ = writeln!(text, "{role}: {rest}");
            }
        }
    }
    // The model and its tools wrote the messages: their control characters must not reach the terminal.
    let text = text.lines().map(|line| format!("{}\n", harn_syntax::printable(line))).collect();
    let total = messages.len();
    Ok(Shown::new(text, json!({"id": id, "messages": shown.to_vec(), "total": total, "info": info})))
}

fn export(id: &str, output: Option<&Path>) -> Outcome<Shown> {
    let SessionContent { messages, events, info } = content(id)?;
    let document = json!({"harn_session": 1, "id": id, "messages": messages, "events": events, "info": info});
    let document = format!("{document}\n");
    let Some(path) = output else { return Ok(Shown::new(document, Value::Null)) };
    Real::new()
        .replace(path, document.as_bytes())
        .map_err(|error| Failure::new("write_failed", format!("cannot write {}: {error}", path.display())))?;
    Ok(Shown::new(format!("session {id} exported to {}\n", path.display()), Value::Null))
}

fn trim(id: &str, keep: u64) -> Outcome<Shown> {
    let sessions = stored()?.ok_or_else(|| missing(id))?;
    let keep = usize::try_from(keep).unwrap_or(usize::MAX);
    let left = wait(sessions.trim(&Real::new(), id, keep))?.ok_or_else(|| missing(id))?;
    Ok(Shown::new(format!("session {id} has {left} messages\n"), json!({"id": id, "messages": left})))
}

/// Deletes sessions. Stops at the first error; sessions deleted before it stay deleted.
fn remove(ids: &[String]) -> Outcome<Shown> {
    let mut text = String::new();
    for id in ids {
        let sessions = stored()?.ok_or_else(|| missing(id))?;
        if !wait(sessions.delete(&Real::new(), id))? {
            return Err(missing(id));
        }
        let _ = writeln!(text, "session {id} deleted");
    }
    if let Some(sessions) = stored()? {
        wait(sessions.compact())?;
    }
    Ok(Shown::new(text, json!({"deleted": ids})))
}

fn prune(older_than: Duration, dry_run: bool) -> Outcome<Shown> {
    let real = Real::new();
    let sessions = stored()?;
    let age = i64::try_from(older_than.as_millis()).unwrap_or(i64::MAX);
    let before = real.now_ms().saturating_sub(age);
    let mut old = heads(sessions.as_ref())?;
    old.retain(|head| head.updated_ms < before);
    if dry_run {
        let text = if old.is_empty() { "No sessions to delete.\n".to_owned() } else { drawn(&old) };
        return Ok(Shown::new(text, json!({"sessions": described(&old)})));
    }
    let mut deleted = 0;
    if let Some(sessions) = &sessions {
        for head in &old {
            deleted += usize::from(wait(sessions.delete(&real, &head.id))?);
        }
        wait(sessions.compact())?;
    }
    Ok(Shown::new(format!("{deleted} sessions deleted\n"), json!({"deleted": deleted})))
}
