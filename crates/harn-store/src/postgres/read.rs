//! Reads as statements.

use super::connect::{Db, count, get};
use super::fault::{Fault, Outcome};
use super::statement::{page, signed};
use crate::error::Error;
use crate::model::{Dead, Digest, Entry, Event, Lease, NewEvent, QueueStats, Session, Topic};
use crate::write::label;

pub(super) fn lease(db: &Db, scope: &str) -> Outcome<Option<Lease>> {
    let sql = "SELECT scope, owner, epoch, until_ms FROM lease WHERE scope = $1";
    db.row(sql, &[&scope], |row| {
        Ok(Lease { scope: get(row, 0)?, owner: get(row, 1)?, epoch: count(row, 2)?, until_ms: get(row, 3)? })
    })
}

pub(super) fn kv_get(db: &Db, space: &str, key: &str) -> Outcome<Option<Entry>> {
    let sql = "SELECT value, version FROM kv WHERE space = $1 AND key = $2";
    db.row(sql, &[&space, &key], |row| Ok(Entry { value: get(row, 0)?, version: count(row, 1)? }))
}

pub(super) fn kv_list(
    db: &Db,
    space: &str,
    prefix: &str,
    after: Option<&str>,
    limit: usize,
) -> Outcome<Vec<(String, Entry)>> {
    // Reads the index in order from the prefix on; keys are compared as bytes, and a prefix is not a pattern.
    let sql = "SELECT key, value, version FROM kv WHERE space = $1 AND key >= $2 AND key > $3
                   AND starts_with(key, $2) ORDER BY key LIMIT $4";
    let after = after.unwrap_or_default();
    db.rows(sql, &[&space, &prefix, &after, &page(limit)], |row| {
        Ok((get(row, 0)?, Entry { value: get(row, 1)?, version: count(row, 2)? }))
    })
}

pub(super) fn log_read(db: &Db, topic: &str, after: u64, limit: usize) -> Outcome<Vec<Event>> {
    let sql = "SELECT id, kind, payload, headers, at_ms FROM event
               WHERE topic = (SELECT id FROM topic WHERE name = $1) AND id > $2 ORDER BY id LIMIT $3";
    db.rows(sql, &[&topic, &signed(after), &page(limit)], |row| {
        let headers: String = get(row, 3)?;
        let headers = serde_json::from_str(&headers).map_err(|error| Fault::Damaged(error.to_string()))?;
        let event = NewEvent { kind: get(row, 1)?, payload: get(row, 2)?, headers, at_ms: get(row, 4)? };
        Ok(Event { id: count(row, 0)?, event })
    })
}

const TOPIC: &str = "SELECT name, last, (SELECT count(*) FROM event WHERE topic = topic.id) FROM topic";

fn topic(row: &tokio_postgres::Row) -> Outcome<Topic> {
    Ok(Topic { name: get(row, 0)?, last: count(row, 1)?, count: count(row, 2)? })
}

pub(super) fn log_topic(db: &Db, name: &str) -> Outcome<Option<Topic>> {
    db.row(&format!("{TOPIC} WHERE name = $1"), &[&name], topic)
}

pub(super) fn log_topics(db: &Db, after: Option<&str>, limit: usize) -> Outcome<Vec<Topic>> {
    let sql = format!("{TOPIC} WHERE name > $1 ORDER BY name LIMIT $2");
    db.rows(&sql, &[&after.unwrap_or_default(), &page(limit)], topic)
}

pub(super) fn queue_stats(db: &Db, queue: &str, now_ms: i64) -> Outcome<QueueStats> {
    let sql = "SELECT count(*) FILTER (WHERE NOT dead AND ready_ms <= $2 AND attempts < max_attempts),
                      count(*) FILTER (WHERE NOT dead AND ready_ms > $2 AND NOT claimed),
                      count(*) FILTER (WHERE NOT dead AND ready_ms > $2 AND claimed),
                      count(*) FILTER (WHERE dead OR (ready_ms <= $2 AND attempts >= max_attempts))
               FROM message WHERE queue = $1";
    db.one(sql, &[&queue, &now_ms], |row| {
        Ok(QueueStats {
            ready: count(row, 0)?,
            delayed: count(row, 1)?,
            claimed: count(row, 2)?,
            dead: count(row, 3)?,
        })
    })
}

pub(super) fn queue_dead(
    db: &Db,
    queue: &str,
    now_ms: i64,
    after: Option<&str>,
    limit: usize,
) -> Outcome<Vec<Dead>> {
    let sql = "SELECT id, body, attempts, reason FROM message
               WHERE queue = $1 AND (dead OR (ready_ms <= $2 AND attempts >= max_attempts)) AND id > $3
               ORDER BY id LIMIT $4";
    db.rows(sql, &[&queue, &now_ms, &after.unwrap_or_default(), &page(limit)], |row| {
        let attempts = u32::try_from(count(row, 2)?).unwrap_or(u32::MAX);
        Ok(Dead { id: get(row, 0)?, body: get(row, 1)?, attempts, reason: text(get(row, 3)?)? })
    })
}

/// Decodes a string that is stored as bytes.
pub(super) fn text(bytes: Vec<u8>) -> Outcome<String> {
    String::from_utf8(bytes).map_err(|error| Fault::Damaged(error.to_string()))
}

const SESSION: &str = "SELECT id, scope, status, info, length, created_ms, updated_ms FROM session";

fn head(row: &tokio_postgres::Row) -> Outcome<Session> {
    Ok(Session {
        id: get(row, 0)?,
        scope: get(row, 1)?,
        status: get(row, 2)?,
        info: get(row, 3)?,
        length: count(row, 4)?,
        created_ms: get(row, 5)?,
        updated_ms: get(row, 6)?,
    })
}

pub(super) fn session(db: &Db, id: &str) -> Outcome<Option<Session>> {
    db.row(&format!("{SESSION} WHERE id = $1"), &[&id], head)
}

pub(super) fn sessions(
    db: &Db,
    status: Option<&str>,
    after: Option<&str>,
    limit: usize,
) -> Outcome<Vec<Session>> {
    let (after, limit) = (after.unwrap_or_default(), page(limit));
    match status {
        Some(status) => {
            let sql = format!("{SESSION} WHERE status = $1 AND id > $2 ORDER BY id LIMIT $3");
            db.rows(&sql, &[&status, &after, &limit], head)
        }
        None => db.rows(&format!("{SESSION} WHERE id > $1 ORDER BY id LIMIT $2"), &[&after, &limit], head),
    }
}

pub(super) fn session_entries(db: &Db, id: &str, from: u64, limit: usize) -> Outcome<Vec<Vec<u8>>> {
    let number: Option<i64> =
        db.row("SELECT number FROM session WHERE id = $1", &[&id], |row| get(row, 0))?;
    let number = number.ok_or_else(|| Error::missing(label(id)))?;
    let sql = "SELECT body FROM entry WHERE session = $1 AND n >= $2 ORDER BY n LIMIT $3";
    db.rows(sql, &[&number, &signed(from), &page(limit)], |row| get(row, 0))
}

/// Reads a digest.
pub(super) fn digest(bytes: &[u8]) -> Outcome<Digest> {
    let wrong = |_| Fault::Damaged(format!("a digest has {} bytes", bytes.len()));
    bytes.try_into().map(Digest).map_err(wrong)
}

pub(super) fn blob(db: &Db, digest: Digest) -> Outcome<Option<Vec<u8>>> {
    let sql = "SELECT bytes FROM blob WHERE digest = $1";
    let bytes: Option<Vec<u8>> = db.row(sql, &[&&digest.0[..]], |row| get(row, 0))?;
    match bytes {
        Some(bytes) if Digest::of(&bytes) != digest => {
            Err(Fault::Damaged(format!("blob {digest} has other bytes")))
        }
        bytes => Ok(bytes),
    }
}

pub(super) fn blobs(db: &Db, after: Option<Digest>, limit: usize) -> Outcome<Vec<(Digest, u64)>> {
    let after = after.map_or(Vec::new(), |digest| digest.0.to_vec());
    let sql = "SELECT digest, length(bytes)::bigint FROM blob WHERE digest > $1 ORDER BY digest LIMIT $2";
    db.rows(sql, &[&after, &page(limit)], |row| Ok((digest(get(row, 0)?)?, count(row, 1)?)))
}

/// Compares blobs and shared bytes with their digests, reference counts with references, and journals with their
/// lengths. The server checks its files with `pg_amcheck` and data checksums.
pub(super) fn verify(db: &Db) -> Outcome<Vec<String>> {
    let looks = [
        "SELECT 'blob ' || encode(digest, 'hex') || ' has other bytes' FROM blob
         WHERE sha256(bytes) <> digest ORDER BY digest",
        "SELECT 'the bytes ' || encode(digest, 'hex') || ' are others' FROM shared
         WHERE sha256(bytes) <> digest ORDER BY digest",
        "SELECT 'bytes are counted ' || refs || ' times and named ' || coalesce(named, 0) || ' times' FROM shared
         LEFT JOIN (SELECT digest, count(*) AS named FROM (
             SELECT digest FROM source
             UNION ALL SELECT digest_of_payload FROM journal WHERE digest_of_payload IS NOT NULL) AS every
             GROUP BY digest) AS names USING (digest)
         WHERE refs <> coalesce(named, 0) ORDER BY digest",
        "SELECT 'run ''' || id || ''' has ' || coalesce(found, 0) || ' of ' || length || ' entries' FROM run
         LEFT JOIN (SELECT run, count(*) AS found FROM journal GROUP BY run) AS kept ON kept.run = run.number
         WHERE length <> coalesce(found, 0) ORDER BY number",
    ];
    let mut found = Vec::new();
    for sql in looks {
        found.extend(db.rows(sql, &[], |row| get::<String>(row, 0))?);
    }
    Ok(found)
}
