//! Writes as statements.

use rusqlite::{Connection, OptionalExtension, params};

use super::fault::Outcome;
use super::runs;
use super::sessions;
use super::statement::{run, signed};
use crate::error::Error;
use crate::model::{Claimed, Digest, Expect, Fence, NewEvent, NewMessage};
use crate::write::{Write, Written};

/// Makes all writes under a lease. After an error the caller rolls back.
pub(super) fn all(db: &Connection, fence: &Fence, writes: &[Write]) -> Outcome<Vec<Written>> {
    let mut out = Vec::with_capacity(writes.len());
    let mut is_known = false;
    for write in writes {
        if !is_known {
            let current = db
                .prepare_cached("SELECT epoch FROM lease WHERE scope = ?")?
                .query_row([&*fence.scope], |row| row.get(0))
                .optional()?
                .unwrap_or(0);
            crate::write::fenced(fence, current)?;
        }
        // The row cannot change until the transaction ends, except by a release in it: a write after a release has no
        // lease.
        is_known = *write != Write::Release;
        out.push(one(db, fence, write)?);
    }
    Ok(out)
}

fn one(db: &Connection, fence: &Fence, write: &Write) -> Outcome<Written> {
    let done = |rows: usize| Ok(Written::Done(rows > 0));
    match write {
        Write::Renew { until_ms } => {
            done(run(db, "UPDATE lease SET until_ms = ? WHERE scope = ?", params![until_ms, &*fence.scope])?)
        }
        Write::Release => {
            let sql = "UPDATE lease SET owner = '', until_ms = 0, epoch = epoch + 1 WHERE scope = ?";
            done(run(db, sql, [&*fence.scope])?)
        }
        Write::KvPut { space, key, value, expect } => {
            expected(db, space, key, *expect)?;
            let sql = "UPDATE revision SET n = n + 1 RETURNING n";
            let version: u64 = db.prepare_cached(sql)?.query_row([], |row| row.get(0))?;
            let sql = "INSERT INTO kv (space, key, version, value) VALUES (?1, ?2, ?3, ?4)
                       ON CONFLICT DO UPDATE SET version = ?3, value = ?4";
            run(db, sql, params![space, key, version, value])?;
            Ok(Written::Version(version))
        }
        Write::KvDelete { space, key, expect } => {
            expected(db, space, key, *expect)?;
            done(run(db, "DELETE FROM kv WHERE space = ? AND key = ?", [space, key])?)
        }
        Write::LogAppend { topic, events } => log_append(db, topic, events),
        Write::LogTrim { topic, through } => {
            let sql = "DELETE FROM event WHERE topic = (SELECT id FROM topic WHERE name = ?) AND id <= ?";
            Ok(Written::Count(run(db, sql, params![topic, signed(*through)])? as u64))
        }
        Write::QueuePush { queue, message } => {
            let NewMessage { id, body, ready_ms, max_attempts } = message;
            let sql = "INSERT INTO message (queue, id, body, ready_ms, max_attempts) VALUES (?, ?, ?, ?, ?)
                       ON CONFLICT DO NOTHING";
            done(run(db, sql, params![queue, id, body, ready_ms, max_attempts])?)
        }
        Write::QueueClaim { queue, now_ms, until_ms, limit } => claim(db, queue, *now_ms, *until_ms, *limit),
        Write::QueueAck { queue, id, attempt } => {
            claimed(db, queue, id, *attempt)?;
            done(run(db, "DELETE FROM message WHERE queue = ? AND id = ?", [queue, id])?)
        }
        Write::QueueNack { queue, id, attempt, retry_ms, reason } => {
            let last = claimed(db, queue, id, *attempt)?;
            let again = retry_ms.filter(|_| !last);
            let sql = "UPDATE message SET claimed = 0, dead = ?, ready_ms = ?, reason = ?
                       WHERE queue = ? AND id = ?";
            run(db, sql, params![again.is_none(), again.unwrap_or(0), reason, queue, id])?;
            Ok(Written::Done(again.is_some()))
        }
        Write::QueueExtend { queue, id, attempt, until_ms } => {
            claimed(db, queue, id, *attempt)?;
            let sql = "UPDATE message SET ready_ms = ? WHERE queue = ? AND id = ?";
            done(run(db, sql, params![until_ms, queue, id])?)
        }
        Write::QueueRemove { queue, id } => {
            done(run(db, "DELETE FROM message WHERE queue = ? AND id = ?", [queue, id])?)
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
            let sql = "INSERT INTO blob (digest, bytes) VALUES (?, ?) ON CONFLICT DO NOTHING";
            run(db, sql, params![digest.0, bytes])?;
            Ok(Written::Digest(digest))
        }
        Write::BlobDelete { digest } => done(run(db, "DELETE FROM blob WHERE digest = ?", [digest.0])?),
    }
}

/// Compares the current version with the one that the writer expects.
fn expected(db: &Connection, space: &str, key: &str, expect: Expect) -> Outcome<()> {
    if expect == Expect::Anything {
        return Ok(());
    }
    let found: Option<u64> = db
        .prepare_cached("SELECT version FROM kv WHERE space = ? AND key = ?")?
        .query_row([space, key], |row| row.get(0))
        .optional()?;
    Ok(crate::write::expected(space, key, expect, found)?)
}

fn log_append(db: &Connection, topic: &str, events: &[NewEvent]) -> Outcome<Written> {
    let sql = "INSERT INTO topic (name, last) VALUES (?1, ?2)
               ON CONFLICT DO UPDATE SET last = last + ?2 RETURNING id, last";
    let (number, last): (i64, u64) = db
        .prepare_cached(sql)?
        .query_row(params![topic, events.len()], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let first = last + 1 - events.len() as u64;
    let sql = "INSERT INTO event (topic, id, kind, payload, headers, at_ms) VALUES (?, ?, ?, ?, ?, ?)";
    for (id, event) in (first..).zip(events) {
        let headers = serde_json::to_string(&event.headers)
            .map_err(|error| Error::Invalid { what: "headers".to_owned(), why: error.to_string() })?;
        run(db, sql, params![number, id, event.kind, event.payload, headers, event.at_ms])?;
    }
    Ok(Written::Last(last))
}

fn claim(db: &Connection, queue: &str, now_ms: i64, until_ms: i64, limit: usize) -> Outcome<Written> {
    // A message that was claimed for the last time and not answered is dead.
    let sql = "UPDATE message SET dead = 1, claimed = 0
               WHERE queue = ? AND dead = 0 AND ready_ms <= ? AND attempts >= max_attempts";
    run(db, sql, params![queue, now_ms])?;
    let sql = "SELECT number, id, body, attempts + 1 FROM message
               WHERE queue = ? AND dead = 0 AND ready_ms <= ? ORDER BY ready_ms, number LIMIT ?";
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let due: Vec<(i64, Claimed)> = db
        .prepare_cached(sql)?
        .query_map(params![queue, now_ms, limit], |row| {
            Ok((row.get(0)?, Claimed { id: row.get(1)?, body: row.get(2)?, attempt: row.get(3)? }))
        })?
        .collect::<Result<_, _>>()?;
    let sql = "UPDATE message SET claimed = 1, attempts = attempts + 1, ready_ms = ? WHERE number = ?";
    for (number, _) in &due {
        run(db, sql, params![until_ms, number])?;
    }
    Ok(Written::Claimed(due.into_iter().map(|(_, claimed)| claimed).collect()))
}

/// Returns whether this is the last attempt of a message; an error if the receipt is invalid.
fn claimed(db: &Connection, queue: &str, id: &str, attempt: u32) -> Outcome<bool> {
    let sql = "SELECT attempts >= max_attempts FROM message
               WHERE queue = ? AND id = ? AND attempts = ? AND claimed = 1 AND dead = 0";
    let last = db.prepare_cached(sql)?.query_row(params![queue, id, attempt], |row| row.get(0)).optional()?;
    let missing = || Error::NotClaimed { queue: queue.to_owned(), id: id.to_owned(), attempt };
    Ok(last.ok_or_else(missing)?)
}
