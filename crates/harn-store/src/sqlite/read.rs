//! Reads as statements.

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ValueRef};
use rusqlite::{Connection, Row, params};

use super::fault::Outcome;
use super::statement::{page, row, rows, signed};
use crate::error::Error;
use crate::model::{Dead, Digest, Entry, Event, Lease, NewEvent, QueueStats, Session, Topic};
use crate::write::label;

pub(super) fn lease(db: &Connection, scope: &str) -> Outcome<Option<Lease>> {
    let sql = "SELECT scope, owner, epoch, until_ms FROM lease WHERE scope = ?";
    row(db, sql, [scope], |row| {
        Ok(Lease { scope: row.get(0)?, owner: row.get(1)?, epoch: row.get(2)?, until_ms: row.get(3)? })
    })
}

pub(super) fn kv_get(db: &Connection, space: &str, key: &str) -> Outcome<Option<Entry>> {
    let sql = "SELECT value, version FROM kv WHERE space = ? AND key = ?";
    row(db, sql, [space, key], |row| Ok(Entry { value: row.get(0)?, version: row.get(1)? }))
}

pub(super) fn kv_list(
    db: &Connection,
    space: &str,
    prefix: &str,
    after: Option<&str>,
    limit: usize,
) -> Outcome<Vec<(String, Entry)>> {
    // Compared as bytes, from the prefix on, until a key does not begin with it: the index is read in order, and only there.
    let sql = "SELECT key, value, version FROM kv WHERE space = ?1 AND key >= ?2 AND key > ?3
               ORDER BY key LIMIT ?4";
    let mut statement = db.prepare_cached(sql)?;
    let mut found = statement.query(params![space, prefix, after.unwrap_or(""), page(limit)])?;
    let mut out = Vec::new();
    while let Some(row) = found.next()? {
        let key: String = row.get(0)?;
        if !key.starts_with(prefix) {
            break;
        }
        out.push((key, Entry { value: row.get(1)?, version: row.get(2)? }));
    }
    Ok(out)
}

pub(super) fn log_read(db: &Connection, topic: &str, after: u64, limit: usize) -> Outcome<Vec<Event>> {
    let sql = "SELECT id, kind, payload, headers, at_ms FROM event
               WHERE topic = (SELECT id FROM topic WHERE name = ?) AND id > ? ORDER BY id LIMIT ?";
    rows(db, sql, params![topic, signed(after), page(limit)], |row| {
        let event = NewEvent {
            kind: row.get(1)?,
            payload: row.get(2)?,
            headers: row.get::<_, Headers>(3)?.0,
            at_ms: row.get(4)?,
        };
        Ok(Event { id: row.get(0)?, event })
    })
}

struct Headers(Vec<(String, String)>);

impl FromSql for Headers {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        serde_json::from_str(value.as_str()?).map(Headers).map_err(|e| FromSqlError::Other(Box::new(e)))
    }
}

const TOPIC: &str = "SELECT name, last, (SELECT count(*) FROM event WHERE topic = topic.id) FROM topic";

fn topic(row: &Row<'_>) -> rusqlite::Result<Topic> {
    Ok(Topic { name: row.get(0)?, last: row.get(1)?, count: row.get(2)? })
}

pub(super) fn log_topic(db: &Connection, name: &str) -> Outcome<Option<Topic>> {
    row(db, &format!("{TOPIC} WHERE name = ?"), [name], topic)
}

pub(super) fn log_topics(db: &Connection, after: Option<&str>, limit: usize) -> Outcome<Vec<Topic>> {
    let sql = format!("{TOPIC} WHERE name > ? ORDER BY name LIMIT ?");
    rows(db, &sql, params![after.unwrap_or(""), page(limit)], topic)
}

pub(super) fn queue_stats(db: &Connection, queue: &str, now_ms: i64) -> Outcome<QueueStats> {
    let sql = "SELECT coalesce(sum(dead = 0 AND ready_ms <= ?2 AND attempts < max_attempts), 0),
                      coalesce(sum(dead = 0 AND ready_ms > ?2 AND claimed = 0), 0),
                      coalesce(sum(dead = 0 AND ready_ms > ?2 AND claimed = 1), 0),
                      coalesce(sum(dead = 1 OR (ready_ms <= ?2 AND attempts >= max_attempts)), 0)
               FROM message WHERE queue = ?1";
    let stats = row(db, sql, params![queue, now_ms], |row| {
        Ok(QueueStats { ready: row.get(0)?, delayed: row.get(1)?, claimed: row.get(2)?, dead: row.get(3)? })
    })?;
    Ok(stats.unwrap_or_default())
}

pub(super) fn queue_dead(
    db: &Connection,
    queue: &str,
    now_ms: i64,
    after: Option<&str>,
    limit: usize,
) -> Outcome<Vec<Dead>> {
    let sql = "SELECT id, body, attempts, reason FROM message
               WHERE queue = ? AND (dead = 1 OR (ready_ms <= ? AND attempts >= max_attempts)) AND id > ?
               ORDER BY id LIMIT ?";
    rows(db, sql, params![queue, now_ms, after.unwrap_or(""), page(limit)], |row| {
        Ok(Dead { id: row.get(0)?, body: row.get(1)?, attempts: row.get(2)?, reason: row.get(3)? })
    })
}

/// In the table of sessions `kind` is 1.
const SESSION: &str = "SELECT id, scope, status, info, length, created_ms, updated_ms FROM record";

fn head(row: &Row<'_>) -> rusqlite::Result<Session> {
    Ok(Session {
        id: row.get(0)?,
        scope: row.get(1)?,
        status: row.get(2)?,
        info: row.get(3)?,
        length: row.get(4)?,
        created_ms: row.get(5)?,
        updated_ms: row.get(6)?,
    })
}

pub(super) fn session(db: &Connection, id: &str) -> Outcome<Option<Session>> {
    row(db, &format!("{SESSION} WHERE kind = 1 AND id = ?"), params![id], head)
}

pub(super) fn sessions(
    db: &Connection,

    status: Option<&str>,
    after: Option<&str>,
    limit: usize,
) -> Outcome<Vec<Session>> {
    let (after, limit) = (after.unwrap_or(""), page(limit));
    match status {
        Some(status) => {
            let sql = format!("{SESSION} WHERE kind = 1 AND status = ? AND id > ? ORDER BY id LIMIT ?");
            rows(db, &sql, params![status, after, limit], head)
        }
        None => {
            let sql = format!("{SESSION} WHERE kind = 1 AND id > ? ORDER BY id LIMIT ?");
            rows(db, &sql, params![after, limit], head)
        }
    }
}

pub(super) fn session_entries(db: &Connection, id: &str, from: u64, limit: usize) -> Outcome<Vec<Vec<u8>>> {
    let sql = "SELECT number FROM record WHERE kind = 1 AND id = ?";
    let number: Option<i64> = row(db, sql, params![id], |row| row.get(0))?;
    let number = number.ok_or_else(|| Error::missing(label(id)))?;
    let sql = "SELECT body FROM entry WHERE record = ? AND n >= ? ORDER BY n LIMIT ?";
    rows(db, sql, params![number, signed(from), page(limit)], |row| row.get(0))
}

pub(super) fn blob(db: &Connection, digest: Digest) -> Outcome<Option<Vec<u8>>> {
    let bytes: Option<Vec<u8>> =
        row(db, "SELECT bytes FROM blob WHERE digest = ?", [digest.0], |row| row.get(0))?;
    match bytes {
        Some(bytes) if Digest::of(&bytes) != digest => Err(damaged(digest).into()),
        bytes => Ok(bytes),
    }
}

/// The caller fills in the path.
fn damaged(digest: Digest) -> Error {
    Error::Corrupt { path: std::path::PathBuf::new(), detail: format!("blob {digest} has other bytes") }
}

pub(super) fn blobs(db: &Connection, after: Option<Digest>, limit: usize) -> Outcome<Vec<(Digest, u64)>> {
    let after = after.map_or(Vec::new(), |digest| digest.0.to_vec());
    let sql = "SELECT digest, length(bytes) FROM blob WHERE digest > ? ORDER BY digest LIMIT ?";
    rows(db, sql, params![after, page(limit)], |row| Ok((Digest(row.get(0)?), row.get(1)?)))
}

/// Checks the whole file, and compares every blob with its digest.
pub(super) fn verify(db: &Connection) -> Outcome<Vec<String>> {
    let mut found = rows(db, "PRAGMA integrity_check(100)", [], |row| row.get::<_, String>(0))?;
    found.retain(|line| line != "ok");
    let mut after = None;
    loop {
        let batch = blobs(db, after, 256)?;
        let Some((last, _)) = batch.last().copied() else { break };
        for (digest, _) in batch {
            if let Err(super::fault::Fault::Other(Error::Corrupt { detail, .. })) = blob(db, digest) {
                found.push(detail);
            }
        }
        after = Some(last);
    }
    found.extend(super::journal::verify(db)?);
    Ok(found)
}
