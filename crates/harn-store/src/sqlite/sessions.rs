//! Writes of sessions.

use rusqlite::{Connection, OptionalExtension, params};

use super::fault::Outcome;
use super::statement::{run, signed};
use crate::error::Error;
use crate::model::Fence;
use crate::write::{Write, Written, label};

pub(super) fn apply(db: &Connection, fence: &Fence, write: &Write) -> Outcome<Written> {
    match write {
        Write::SessionCreate { id, status, info, at_ms } => {
            insert(db, fence, id, &Head { status, info, length: 0 }, *at_ms)?;
            Ok(Written::Done(true))
        }
        Write::SessionUpdate { id, status, info, at_ms } => {
            let (number, _) = owned(db, fence, id)?;
            let sql = "UPDATE record SET status = coalesce(?, status), info = coalesce(?, info),
                       updated_ms = ? WHERE number = ?";
            run(db, sql, params![status, info, at_ms, number])?;
            Ok(Written::Done(true))
        }
        Write::SessionAppend { id, first, entries, at_ms } => {
            let (number, length) = owned(db, fence, id)?;
            if *first != length {
                return Err(crate::write::misplaced(id, *first, length).into());
            }
            let sql = "INSERT INTO entry (record, n, body) VALUES (?, ?, ?)";
            for (n, entry) in (length..).zip(entries) {
                run(db, sql, params![number, n, entry])?;
            }
            let length = length + entries.len() as u64;
            set_length(db, number, length, *at_ms)?;
            Ok(Written::Count(length))
        }
        Write::SessionTruncate { id, length, at_ms } => {
            let (number, _) = owned(db, fence, id)?;
            let cut =
                run(db, "DELETE FROM entry WHERE record = ? AND n >= ?", params![number, signed(*length)])?;
            if cut > 0 {
                set_length(db, number, *length, *at_ms)?;
            }
            Ok(Written::Count(cut as u64))
        }
        Write::SessionFork { from, length, id, at_ms } => fork(db, fence, from, *length, id, *at_ms),
        Write::SessionDelete { id } => {
            if find(db, id)?.is_none() {
                return Ok(Written::Done(false));
            }
            let (number, _) = owned(db, fence, id)?;
            run(db, "DELETE FROM record WHERE number = ?", [number])?;
            Ok(Written::Done(true))
        }
        _ => unreachable!("only writes of sessions are handed over"),
    }
}

struct Head<'a> {
    status: &'a str,
    info: &'a [u8],
    length: u64,
}

/// Number, scope and length of a session.
fn find(db: &Connection, id: &str) -> Outcome<Option<(i64, String, u64)>> {
    let sql = "SELECT number, scope, length FROM record WHERE kind = 1 AND id = ?";
    Ok(db
        .prepare_cached(sql)?
        .query_row(params![id], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()?)
}

/// Number and length of a session that the lease may change.
fn owned(db: &Connection, fence: &Fence, id: &str) -> Outcome<(i64, u64)> {
    let (number, scope, length) = find(db, id)?.ok_or_else(|| Error::missing(label(id)))?;
    if *scope != *fence.scope {
        return Err(Error::Owned { what: label(id), scope }.into());
    }
    Ok((number, length))
}

fn insert(db: &Connection, fence: &Fence, id: &str, head: &Head<'_>, at_ms: i64) -> Outcome<i64> {
    let sql = "INSERT INTO record (kind, id, scope, status, info, length, created_ms, updated_ms)
               VALUES (1, ?1, ?2, ?3, ?4, ?5, ?6, ?6) ON CONFLICT DO NOTHING RETURNING number";
    let args = params![id, &*fence.scope, head.status, head.info, head.length, at_ms];
    let number = db.prepare_cached(sql)?.query_row(args, |row| row.get(0)).optional()?;
    Ok(number.ok_or_else(|| Error::Exists { what: label(id) })?)
}

fn set_length(db: &Connection, number: i64, length: u64, at_ms: i64) -> Outcome<()> {
    let sql = "UPDATE record SET length = ?, updated_ms = ? WHERE number = ?";
    run(db, sql, params![length, at_ms, number]).map(drop)
}

fn fork(db: &Connection, fence: &Fence, from: &str, wanted: u64, id: &str, at_ms: i64) -> Outcome<Written> {
    let (source, _, length) = find(db, from)?.ok_or_else(|| Error::missing(label(from)))?;
    if wanted > length {
        return Err(crate::write::too_short(from, wanted, length).into());
    }
    let (status, info): (String, Vec<u8>) = db
        .prepare_cached("SELECT status, info FROM record WHERE number = ?")?
        .query_row([source], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let number = insert(db, fence, id, &Head { status: &status, info: &info, length: wanted }, at_ms)?;
    let sql = "INSERT INTO entry (record, n, body) SELECT ?, n, body FROM entry WHERE record = ? AND n < ?";
    run(db, sql, params![number, source, wanted])?;
    Ok(Written::Count(wanted))
}
