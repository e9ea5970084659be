//! Writes as statements.
//!
//! Transactions of several processes run in parallel: each locks the rows that it compares. Under a lease that is the
//! row of the lease, so a process that takes it over waits until the write has ended.

use super::connect::{Db, count, get};
use super::fault::Outcome;
use super::statement::{page, pieces, signed};
use super::{runs, sessions};
use crate::error::Error;
use crate::model::{Claimed, Digest, Expect, Fence, NewEvent, NewMessage};
use crate::write::{Write, Written};

/// Makes all writes under a lease. After an error the caller rolls back.
pub(super) fn all(db: &Db, fence: &Fence, writes: &[Write]) -> Outcome<Vec<Written>> {
    let mut out = Vec::with_capacity(writes.len());
    let mut is_locked = false;
    for write in writes {
        if !is_locked {
            let sql = "SELECT epoch FROM lease WHERE scope = $1 FOR UPDATE";
            let current = db.row(sql, &[&&*fence.scope], |row| count(row, 0))?.unwrap_or(0);
            crate::write::fenced(fence, current)?;
        }
        // The row cannot change until the transaction ends, except by a release in it: a write after a release has no
        // lease.
        is_locked = *write != Write::Release;
        out.push(one(db, fence, write)?);
    }
    Ok(out)
}

fn one(db: &Db, fence: &Fence, write: &Write) -> Outcome<Written> {
    let done = |rows: u64| Ok(Written::Done(rows > 0));
    match write {
        Write::Renew { until_ms } => {
            done(db.run("UPDATE lease SET until_ms = $1 WHERE scope = $2", &[until_ms, &&*fence.scope])?)
        }
        Write::Release => {
            let sql = "UPDATE lease SET owner = '', until_ms = 0, epoch = epoch + 1 WHERE scope = $1";
            done(db.run(sql, &[&&*fence.scope])?)
        }
        Write::KvPut { space, key, value, expect } => kv_put(db, space, key, value, *expect),
        Write::KvDelete { space, key, expect } => {
            expected(db, space, key, *expect)?;
            done(db.run("DELETE FROM kv WHERE space = $1 AND key = $2", &[space, key])?)
        }
        Write::LogAppend { topic, events } => log_append(db, topic, events),
        Write::LogTrim { topic, through } => {
            let sql = "DELETE FROM event WHERE topic = (SELECT id FROM topic WHERE name = $1) AND id <= $2";
            Ok(Written::Count(db.run(sql, &[topic, &signed(*through)])?))
        }
        Write::QueuePush { queue, message } => {
            let NewMessage { id, body, ready_ms, max_attempts } = message;
            let sql = "INSERT INTO message (queue, id, body, ready_ms, max_attempts)
                       VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING";
            done(db.run(sql, &[queue, id, body, ready_ms, &i64::from(*max_attempts)])?)
        }
        Write::QueueClaim { queue, now_ms, until_ms, limit } => claim(db, queue, *now_ms, *until_ms, *limit),
        Write::QueueAck { queue, id, attempt } => {
            claimed(db, queue, id, *attempt)?;
            done(db.run("DELETE FROM message WHERE queue = $1 AND id = $2", &[queue, id])?)
        }
        Write::QueueNack { queue, id, attempt, retry_ms, reason } => {
            let last = claimed(db, queue, id, *attempt)?;
            let again = retry_ms.filter(|_| !last);
            let sql = "UPDATE message SET claimed = false, dead = $1, ready_ms = $2, reason = $3
                       WHERE queue = $4 AND id = $5";
            db.run(sql, &[&again.is_none(), &again.unwrap_or(0), &reason.as_bytes(), queue, id])?;
            Ok(Written::Done(again.is_some()))
        }
        Write::QueueExtend { queue, id, attempt, until_ms } => {
            claimed(db, queue, id, *attempt)?;
            done(db.run(
                "UPDATE message SET ready_ms = $1 WHERE queue = $2 AND id = $3",
                &[until_ms, queue, id],
            )?)
        }
        Write::QueueRemove { queue, id } => {
            done(db.run("DELETE FROM message WHERE queue = $1 AND id = $2", &[queue, id])?)
        }
        Write::SessionCreate { .. }
        | Write::SessionUpdate { .. }
        | Write::SessionAppend { .. }
        | Write::SessionTruncate { .. }
        | Write::SessionFork { .. }
        | Write::SessionDelete { .. } => sessions::apply(db, fence, write),
        Write::RunCreate { .. }
        | Write::RunFork { .. }
        | Write::RunStatus { .. }
        | Write::RunInfo { .. }
        | Write::RunFailure { .. }
        | Write::RunReopen { .. }
        | Write::RunDelete { .. }
        | Write::SourcePut { .. }
        | Write::JournalAppend { .. }
        | Write::JournalCut { .. }
        | Write::WaitpointOpen { .. }
        | Write::WaitpointAnswer { .. }
        | Write::WaitpointClose { .. } => runs::apply(db, fence, write),
        Write::BlobPut { bytes } => {
            let digest = Digest::of(bytes);
            // The bytes are not sent if they exist.
            let sql = "SELECT 1 FROM blob WHERE digest = $1 FOR SHARE";
            if db.row(sql, &[&&digest.0[..]], |_| Ok(()))?.is_none() {
                let sql = "INSERT INTO blob (digest, bytes) VALUES ($1, $2) ON CONFLICT DO NOTHING";
                db.run(sql, &[&&digest.0[..], bytes])?;
            }
            Ok(Written::Digest(digest))
        }
        Write::BlobDelete { digest } => {
            done(db.run("DELETE FROM blob WHERE digest = $1", &[&&digest.0[..]])?)
        }
    }
}

/// Returns the version of an existing value and locks it until the transaction ends.
fn version(db: &Db, space: &str, key: &str) -> Outcome<Option<u64>> {
    let sql = "SELECT version FROM kv WHERE space = $1 AND key = $2 FOR UPDATE";
    db.row(sql, &[&space, &key], |row| count(row, 0))
}

/// Compares the current version with the one that the writer expects.
fn expected(db: &Db, space: &str, key: &str, expect: Expect) -> Outcome<()> {
    if expect == Expect::Anything {
        return Ok(());
    }
    Ok(crate::write::expected(space, key, expect, version(db, space, key)?)?)
}

fn kv_put(db: &Db, space: &str, key: &str, value: &[u8], expect: Expect) -> Outcome<Written> {
    let sql = match expect {
        Expect::Absent => {
            "INSERT INTO kv (space, key, version, value) VALUES ($1, $2, nextval('revision'), $3)
             ON CONFLICT DO NOTHING RETURNING version"
        }
        Expect::Anything => {
            "INSERT INTO kv (space, key, version, value) VALUES ($1, $2, nextval('revision'), $3)
             ON CONFLICT (space, key) DO UPDATE SET version = nextval('revision'), value = $3 RETURNING version"
        }
        Expect::Version(_) => {
            expected(db, space, key, expect)?;
            "UPDATE kv SET version = nextval('revision'), value = $3 WHERE space = $1 AND key = $2
             RETURNING version"
        }
    };
    match db.row(sql, &[&space, &key, &value], |row| count(row, 0))? {
        Some(version) => Ok(Written::Version(version)),
        None => {
            // Another writer has set it, and may have removed it since.
            let found = version(db, space, key)?.unwrap_or_default();
            crate::write::expected(space, key, expect, Some(found))?;
            Err(Error::missing(format!("'{key}' in '{space}'")).into())
        }
    }
}

fn log_append(db: &Db, topic: &str, events: &[NewEvent]) -> Outcome<Written> {
    // Other writers of the topic wait until this transaction ends, so readers see ids in order.
    let sql = "INSERT INTO topic AS known (name, last) VALUES ($1, $2)
               ON CONFLICT (name) DO UPDATE SET last = known.last + $2 RETURNING id, last";
    let length = events.len() as i64;
    let (number, last): (i64, u64) =
        db.one(sql, &[&topic, &length], |row| Ok((get(row, 0)?, count(row, 1)?)))?;
    let mut id = signed(last) + 1 - length;
    let sql = "INSERT INTO event (topic, id, kind, payload, headers, at_ms)
               SELECT $1, $2 + n - 1, kind, payload, headers, at_ms
               FROM unnest($3::text[], $4::bytea[], $5::text[], $6::bigint[])
                   WITH ORDINALITY AS new (kind, payload, headers, at_ms, n)";
    for piece in pieces(events, |event| event.payload.len() + event.kind.len()) {
        let headers = piece.iter().map(|event| serde_json::to_string(&event.headers));
        let headers = headers
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| Error::invalid("headers", error.to_string()))?;
        let kinds: Vec<&str> = piece.iter().map(|event| &*event.kind).collect();
        let payloads: Vec<&[u8]> = piece.iter().map(|event| &*event.payload).collect();
        let times: Vec<i64> = piece.iter().map(|event| event.at_ms).collect();
        db.run(sql, &[&number, &id, &kinds, &payloads, &headers, &times])?;
        id += piece.len() as i64;
    }
    Ok(Written::Last(last))
}

fn claim(db: &Db, queue: &str, now_ms: i64, until_ms: i64, limit: usize) -> Outcome<Written> {
    // A message that was claimed for the last time and not answered is dead. Rows that another worker has locked are
    // skipped.
    let sql = "UPDATE message SET dead = true, claimed = false WHERE number IN (
                   SELECT number FROM message
                   WHERE queue = $1 AND NOT dead AND ready_ms <= $2 AND attempts >= max_attempts
                   FOR UPDATE SKIP LOCKED)";
    db.run(sql, &[&queue, &now_ms])?;
    let sql = "WITH due AS (
                   SELECT number, ready_ms FROM message
                   WHERE queue = $1 AND NOT dead AND ready_ms <= $2 AND attempts < max_attempts
                   ORDER BY ready_ms, number LIMIT $4 FOR UPDATE SKIP LOCKED)
               UPDATE message SET claimed = true, attempts = attempts + 1, ready_ms = $3
               FROM due WHERE message.number = due.number
               RETURNING due.ready_ms, message.number, id, body, attempts";
    let mut due = db.rows(sql, &[&queue, &now_ms, &until_ms, &page(limit)], |row| {
        let attempt = u32::try_from(count(row, 4)?).unwrap_or(u32::MAX);
        let place: (i64, i64) = (get(row, 0)?, get(row, 1)?);
        Ok((place, Claimed { id: get(row, 2)?, body: get(row, 3)?, attempt }))
    })?;
    due.sort_by_key(|(place, _)| *place);
    Ok(Written::Claimed(due.into_iter().map(|(_, claimed)| claimed).collect()))
}

/// Returns whether this is the last attempt of a message; an error if the receipt is invalid.
fn claimed(db: &Db, queue: &str, id: &str, attempt: u32) -> Outcome<bool> {
    let sql = "SELECT attempts >= max_attempts FROM message
               WHERE queue = $1 AND id = $2 AND attempts = $3 AND claimed AND NOT dead FOR UPDATE";
    let last = db.row(sql, &[&queue, &id, &i64::from(attempt)], |row| get(row, 0))?;
    let missing = || Error::NotClaimed { queue: queue.to_owned(), id: id.to_owned(), attempt };
    Ok(last.ok_or_else(missing)?)
}
