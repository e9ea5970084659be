//! Writes of sessions.

use super::connect::{Db, count, get};
use super::fault::Outcome;
use super::statement::{number, pieces, signed};
use crate::error::Error;
use crate::model::Fence;
use crate::write::{Write, Written, label};

pub(super) fn apply(db: &Db, fence: &Fence, write: &Write) -> Outcome<Written> {
    match write {
        Write::SessionCreate { id, status, info, at_ms } => {
            insert(db, fence, id, &Head { status, info, length: 0 }, *at_ms)?;
            Ok(Written::Done(true))
        }
        Write::SessionUpdate { id, status, info, at_ms } => {
            let (session, _) = owned(db, fence, id)?;
            let sql = "UPDATE session SET status = coalesce($1, status), info = coalesce($2, info),
                       updated_ms = $3 WHERE number = $4";
            db.run(sql, &[status, info, at_ms, &session])?;
            Ok(Written::Done(true))
        }
        Write::SessionAppend { id, first, entries, at_ms } => {
            let (session, length) = owned(db, fence, id)?;
            if *first != length {
                return Err(crate::write::misplaced(id, *first, length).into());
            }
            let sql = "INSERT INTO entry (session, n, body) SELECT $1, $2 + n - 1, body
                       FROM unnest($3::bytea[]) WITH ORDINALITY AS new (body, n)";
            let mut n = number(length)?;
            for piece in pieces(entries, Vec::len) {
                db.run(sql, &[&session, &n, &piece])?;
                n += piece.len() as i64;
            }
            let length = length + entries.len() as u64;
            set_length(db, session, length, *at_ms)?;
            Ok(Written::Count(length))
        }
        Write::SessionTruncate { id, length, at_ms } => {
            let (session, _) = owned(db, fence, id)?;
            let cut =
                db.run("DELETE FROM entry WHERE session = $1 AND n >= $2", &[&session, &signed(*length)])?;
            if cut > 0 {
                set_length(db, session, *length, *at_ms)?;
            }
            Ok(Written::Count(cut))
        }
        Write::SessionFork { from, length, id, at_ms } => fork(db, fence, from, *length, id, *at_ms),
        Write::SessionDelete { id } => {
            if find(db, id, "FOR UPDATE")?.is_none() {
                return Ok(Written::Done(false));
            }
            let (session, _) = owned(db, fence, id)?;
            db.run("DELETE FROM session WHERE number = $1", &[&session])?;
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

/// Number, scope and length of a session; `lock` is what holds it as it is until the transaction ends.
fn find(db: &Db, id: &str, lock: &str) -> Outcome<Option<(i64, String, u64)>> {
    let sql = format!("SELECT number, scope, length FROM session WHERE id = $1 {lock}");
    db.row(&sql, &[&id], |row| Ok((get(row, 0)?, get(row, 1)?, count(row, 2)?)))
}

/// Number and length of a session that the lease may change.
fn owned(db: &Db, fence: &Fence, id: &str) -> Outcome<(i64, u64)> {
    let found = find(db, id, "FOR UPDATE")?;
    let (session, scope, length) = found.ok_or_else(|| Error::missing(label(id)))?;
    if *scope != *fence.scope {
        return Err(Error::Owned { what: label(id), scope }.into());
    }
    Ok((session, length))
}

fn insert(db: &Db, fence: &Fence, id: &str, head: &Head<'_>, at_ms: i64) -> Outcome<i64> {
    let sql = "INSERT INTO session (id, scope, status, info, length, created_ms, updated_ms)
               VALUES ($1, $2, $3, $4, $5, $6, $6) ON CONFLICT DO NOTHING RETURNING number";
    let length = number(head.length)?;
    let made =
        db.row(sql, &[&id, &&*fence.scope, &head.status, &head.info, &length, &at_ms], |row| get(row, 0))?;
    Ok(made.ok_or_else(|| Error::Exists { what: label(id) })?)
}

fn set_length(db: &Db, session: i64, length: u64, at_ms: i64) -> Outcome<()> {
    let sql = "UPDATE session SET length = $1, updated_ms = $2 WHERE number = $3";
    db.run(sql, &[&number(length)?, &at_ms, &session]).map(drop)
}

fn fork(db: &Db, fence: &Fence, from: &str, wanted: u64, id: &str, at_ms: i64) -> Outcome<Written> {
    let found = find(db, from, "FOR SHARE")?;
    let (source, _, length) = found.ok_or_else(|| Error::missing(label(from)))?;
    if wanted > length {
        return Err(crate::write::too_short(from, wanted, length).into());
    }
    let sql = "SELECT status, info FROM session WHERE number = $1";
    let (status, info): (String, Vec<u8>) =
        db.one(sql, &[&source], |row| Ok((get(row, 0)?, get(row, 1)?)))?;
    let session = insert(db, fence, id, &Head { status: &status, info: &info, length: wanted }, at_ms)?;
    let sql =
        "INSERT INTO entry (session, n, body) SELECT $1, n, body FROM entry WHERE session = $2 AND n < $3";
    db.run(sql, &[&session, &source, &number(wanted)?])?;
    Ok(Written::Count(wanted))
}
