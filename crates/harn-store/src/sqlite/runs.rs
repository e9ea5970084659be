//! Runs: heads, sources and waitpoints. The journal is in `journal.rs`.

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::fault::Outcome;
use super::journal;
use super::statement::{page, row, rows, run, signed};
use crate::error::Error;
use crate::model::{Digest, Fence, Lease};
use crate::run::{
    Answer, JournalEntry, NewRun, NewStatus, NewWaitpoint, Parent, Prune, Run, RunFilter, RunStatus, Source,
    StatusRow, StoreStats, Waitpoint, Wish,
};
use crate::scheduling::Scheduling;
use crate::write::{self, Write, Written};

pub(super) fn apply(db: &Connection, fence: &Fence, write: &Write) -> Outcome<Written> {
    match write {
        Write::RunCreate { run, at_ms } => {
            insert(db, fence, run, None, *at_ms)?;
            Ok(Written::Done(true))
        }
        Write::RunFork { from, length, run, at_ms } => fork(db, fence, from, *length, run, *at_ms),
        Write::RunStatus { run: id, status, note, at_ms } => {
            let own = own(db, fence, id)?;
            write::goes_on(id, own.status)?;
            write::all_seen(id, *status, own.answers)?;
            set_status(db, own.number, status.as_wished(own.wish), Some(note), *at_ms)?;
            Ok(Written::Done(true))
        }
        Write::RunFailure { run: id, failure, at_ms } => {
            let own = own(db, fence, id)?;
            write::goes_on(id, own.status)?;
            let sql = "UPDATE run SET failure = ?, tries = tries + 1, updated_ms = ? WHERE number = ?";
            run(db, sql, params![failure, at_ms, own.number])?;
            Ok(Written::Done(true))
        }
        Write::RunReopen { run: id, due_ms, at_ms } => {
            let own = own(db, fence, id)?;
            write::has_ended(id, own.status)?;
            if let Some(head) = one(db, id)? {
                key_is_free(db, &head.scheduling)?;
            }
            set_status(db, own.number, NewStatus::Queued { due_ms: *due_ms }, Some(""), *at_ms)?;
            run(db, "UPDATE run SET tries = 0 WHERE number = ?", [own.number])?;
            Ok(Written::Done(true))
        }
        Write::RunInfo { run: id, info, at_ms } => {
            let own = own(db, fence, id)?;
            run(
                db,
                "UPDATE run SET info = ?, updated_ms = ? WHERE number = ?",
                params![info, at_ms, own.number],
            )?;
            Ok(Written::Done(true))
        }
        Write::RunDelete { run: id } => delete(db, fence, id),
        Write::SourcePut { run: id, path, bytes } => {
            let own = own(db, fence, id)?;
            let old: Option<[u8; 32]> = row(
                db,
                "SELECT digest FROM source WHERE run = ? AND path = ?",
                params![own.number, path],
                |row| row.get(0),
            )?;
            let digest = journal::share(db, bytes)?;
            if let Some(old) = old {
                journal::unshare(db, Digest(old))?;
            }
            let sql = "INSERT OR REPLACE INTO source (run, path, digest) VALUES (?, ?, ?)";
            run(db, sql, params![own.number, path, digest.0])?;
            Ok(Written::Digest(digest))
        }
        Write::JournalAppend { run: id, entries, at_ms } => {
            let own = own(db, fence, id)?;
            write::goes_on(id, own.status)?;
            write::in_order(id, entries, own.length)?;
            journal::append(db, own.number, entries, *at_ms)
        }
        Write::JournalCut { run: id, length, at_ms } => {
            let own = own(db, fence, id)?;
            write::long_enough(id, *length, own.length)?;
            journal::cut(db, own.number, *length, *at_ms)
        }
        Write::WaitpointOpen { run: id, waitpoint } => {
            let own = own(db, fence, id)?;
            write::goes_on(id, own.status)?;
            let NewWaitpoint { request_id, kind, prompt, info, asked_ms, due_ms, quorum } = waitpoint;
            let sql = "INSERT INTO waitpoint (run, request_id, kind, prompt, info, asked_ms, due_ms, quorum)
                       VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING";
            let args = params![own.number, request_id, kind, prompt, info, asked_ms, due_ms, quorum];
            Ok(Written::Done(run(db, sql, args)? > 0))
        }
        Write::WaitpointAnswer { run: id, request_id, answer } => {
            write::of_run(fence, id)?;
            self::answer(db, id, request_id, answer)?;
            Ok(Written::Done(true))
        }
        Write::WaitpointClose { run: id, request_id, at_ms } => {
            let own = own(db, fence, id)?;
            waitpoint(db, id, request_id)?;
            let sql =
                "UPDATE waitpoint SET closed_ms = ? WHERE run = ? AND request_id = ? AND closed_ms IS NULL";
            Ok(Written::Done(run(db, sql, params![at_ms, own.number, request_id])? > 0))
        }
        _ => unreachable!("only writes of runs are handed over"),
    }
}

/// The columns of a run that its writes need.
struct Own {
    number: i64,
    status: RunStatus,
    length: u64,
    answers: u64,
    wish: Option<Wish>,
}

fn find(db: &Connection, id: &str) -> Outcome<Option<Own>> {
    row(db, "SELECT number, status, length, answers, wish FROM run WHERE id = ?", [id], |row| {
        Ok(Own {
            number: row.get(0)?,
            status: status(row, 1)?,
            length: row.get(2)?,
            answers: row.get(3)?,
            wish: Wish::of(row.get(4)?),
        })
    })
}

/// Returns the run if the lease belongs to it.
fn own(db: &Connection, fence: &Fence, id: &str) -> Outcome<Own> {
    write::of_run(fence, id)?;
    Ok(find(db, id)?.ok_or_else(|| Error::missing(write::run_label(id)))?)
}

/// The journal of a run, from an entry on.
pub(super) fn journal(db: &Connection, id: &str, from: u64, limit: usize) -> Outcome<Vec<JournalEntry>> {
    let own = find(db, id)?.ok_or_else(|| Error::missing(write::run_label(id)))?;
    journal::read(db, id, (own.number, own.length), from, limit)
}

fn number(db: &Connection, id: &str) -> Outcome<i64> {
    Ok(find(db, id)?.ok_or_else(|| Error::missing(write::run_label(id)))?.number)
}

/// Makes a run that no process has.
pub(super) fn add(db: &Connection, new: &NewRun, parent: Option<&Parent>, at_ms: i64) -> Outcome<i64> {
    let args =
        serde_json::to_string(&new.args).map_err(|error| Error::invalid("arguments", error.to_string()))?;
    let sql = "INSERT INTO run (id, program, args, status, note, info, parent, parent_length, created_ms, updated_ms,
                   queue, priority, key, grp)
               VALUES (?1, ?2, ?3, ?4, '', ?5, ?6, ?7, ?8, ?8, ?9, ?10, ?11, ?12) ON CONFLICT DO NOTHING RETURNING number";
    let status = new.status.status() as i64;
    let from = (parent.map(|parent| &*parent.run), parent.map(|parent| signed(parent.length)));
    let Scheduling { queue, priority, key, group } = &new.scheduling;
    let values = params![
        new.id,
        new.program,
        args,
        status,
        new.info,
        from.0,
        from.1,
        at_ms,
        queue,
        priority,
        key,
        group
    ];
    let number = db.prepare_cached(sql)?.query_row(values, |row| row.get(0)).optional()?;
    let Some(number) = number else {
        if find(db, &new.id)?.is_none() {
            key_is_free(db, &new.scheduling)?;
        }
        return Err(Error::Exists { what: write::run_label(&new.id) }.into());
    };
    set_status(db, number, new.status, None, at_ms)?;
    Ok(number)
}

/// Rejects a key that a run has which has not ended.
fn key_is_free(db: &Connection, scheduling: &Scheduling) -> Outcome<()> {
    let (queue, Some(key)) = (&scheduling.queue, &scheduling.key) else { return Ok(()) };
    let sql = "SELECT id FROM run WHERE queue = ? AND key = ? AND ended_ms IS NULL";
    match row(db, sql, [queue, key], |row| row.get(0))? {
        Some(run) => Err(Error::KeyInUse { queue: queue.clone(), key: key.clone(), run }.into()),
        None => Ok(()),
    }
}

fn insert(db: &Connection, fence: &Fence, new: &NewRun, parent: Option<&Parent>, at_ms: i64) -> Outcome<i64> {
    write::of_run(fence, &new.id)?;
    add(db, new, parent, at_ms)
}

pub(super) fn set_status(
    db: &Connection,
    number: i64,
    new: NewStatus,
    note: Option<&str>,
    at_ms: i64,
) -> Outcome<()> {
    let status = new.status();
    let sql = "UPDATE run SET status = ?1, due_ms = ?2, exit_code = ?3, note = coalesce(?4, note), updated_ms = ?5,
               started_ms = CASE WHEN ?6 THEN coalesce(started_ms, ?5) ELSE started_ms END, starts = starts + ?6,
               ended_ms = CASE WHEN ?7 THEN ?5 END, wish = CASE WHEN ?6 THEN wish ELSE 0 END,
               failure = CASE WHEN ?9 THEN NULL ELSE failure END WHERE number = ?8";
    let (begins, ends) = (status == RunStatus::Running, status.is_end());
    let succeeds = status == RunStatus::Completed;
    let values =
        params![status as i64, new.due_ms(), new.exit_code(), note, at_ms, begins, ends, number, succeeds];
    run(db, sql, values).map(drop)
}

fn fork(
    db: &Connection,
    fence: &Fence,
    from: &str,
    length: u64,
    new: &NewRun,
    at_ms: i64,
) -> Outcome<Written> {
    let source = find(db, from)?.ok_or_else(|| Error::missing(write::run_label(from)))?;
    write::long_enough(from, length, source.length)?;
    let number = insert(db, fence, new, Some(&Parent { run: from.to_owned(), length }), at_ms)?;
    journal::copy(db, source.number, number, length)?;
    let sql = "INSERT INTO source (run, path, digest) SELECT ?, path, digest FROM source WHERE run = ?";
    run(db, sql, params![number, source.number])?;
    let sql = "UPDATE shared SET refs = refs + (SELECT count(*) FROM source WHERE run = ?1 AND digest = shared.digest)
               WHERE digest IN (SELECT digest FROM source WHERE run = ?1)";
    run(db, sql, [number])?;
    Ok(Written::Count(length))
}

pub(super) fn wish(db: &Connection, id: &str, wish: Option<Wish>, at_ms: i64) -> Outcome<()> {
    let own = find(db, id)?.ok_or_else(|| Error::missing(write::run_label(id)))?;
    write::goes_on(id, own.status)?;
    let sql = "UPDATE run SET wish = ?, updated_ms = ? WHERE number = ?";
    run(db, sql, params![Wish::number(wish), at_ms, own.number]).map(drop)
}

pub(super) fn prune(db: &Connection, prune: &Prune) -> Outcome<u64> {
    let sql =
        "SELECT number, id FROM run WHERE status = ? AND ended_ms < ? ORDER BY ended_ms, number LIMIT ?";
    let args = params![prune.status as i64, prune.before_ms, page(prune.limit)];
    let found = rows(db, sql, args, |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?)))?;
    for (number, id) in &found {
        remove(db, *number)?;
        run(db, "DELETE FROM lease WHERE scope = ?", [Run::scope(id)])?;
    }
    Ok(found.len() as u64)
}

pub(super) fn bytes(db: &Connection, id: &str) -> Outcome<u64> {
    let number = number(db, id)?;
    let sql = "SELECT (SELECT coalesce(sum(length(coalesce(payload, bytes, x'')) + length(place) + length(name) + 48), 0)
                   FROM journal LEFT JOIN shared ON shared.digest = digest_of_payload
                   WHERE key BETWEEN ?1 << 32 AND (?1 << 32) + 4294967295)
               + (SELECT coalesce(sum(length(bytes)), 0)
                   FROM source JOIN shared ON shared.digest = source.digest WHERE run = ?1)
               + (SELECT length(info) + length(coalesce(failure, x'')) FROM run WHERE number = ?1)";
    Ok(row(db, sql, [number], |row| row.get(0))?.unwrap_or(0))
}

pub(super) fn stats(db: &Connection, now_ms: i64) -> Outcome<StoreStats> {
    let sql = "SELECT status, count(*), count(CASE WHEN due_ms <= ?1 THEN 1 END),
               min(CASE WHEN due_ms <= ?1 THEN due_ms END) FROM run GROUP BY status";
    let found = rows(db, sql, [now_ms], |row| {
        Ok(StatusRow {
            status: status(row, 0)?,
            count: row.get(1)?,
            due: row.get(2)?,
            oldest_due_ms: row.get(3)?,
        })
    })?;
    let sql =
        format!("SELECT count(*) FROM run JOIN lease ON scope = 'run/' || id WHERE status = ?2 AND {HELD}");
    let held = row(db, &sql, params![now_ms, RunStatus::Running as i64], |row| row.get(0))?.unwrap_or(0);
    let sql = "SELECT user_version, page_count * page_size
               FROM pragma_user_version, pragma_page_count, pragma_page_size";
    let (schema, bytes) = row(db, sql, [], |row| Ok((row.get(0)?, row.get(1)?)))?.unwrap_or_default();
    Ok(StoreStats::of_rows(schema, bytes, found, held))
}

fn delete(db: &Connection, fence: &Fence, id: &str) -> Outcome<Written> {
    write::of_run(fence, id)?;
    let Some(Own { number, .. }) = find(db, id)? else { return Ok(Written::Done(false)) };
    remove(db, number)?;
    Ok(Written::Done(true))
}

fn remove(db: &Connection, number: i64) -> Outcome<()> {
    journal::delete(db, number)?;
    for digest in rows(db, "SELECT digest FROM source WHERE run = ?", [number], |row| row.get(0))? {
        journal::unshare(db, Digest(digest))?;
    }
    run(db, "DELETE FROM source WHERE run = ?", [number])?;
    run(db, "DELETE FROM answer WHERE waitpoint IN (SELECT number FROM waitpoint WHERE run = ?)", [number])?;
    run(db, "DELETE FROM waitpoint WHERE run = ?", [number])?;
    run(db, "DELETE FROM run WHERE number = ?", [number]).map(drop)
}

pub(super) const RUN: &str = "SELECT id, number, program, args, status, due_ms, exit_code, note, info, parent, parent_length,
    length, effects, answers, starts, created_ms, started_ms, updated_ms, ended_ms, scope, owner, epoch, until_ms,
    failure, tries, wish, queue, priority, key, grp FROM run LEFT JOIN lease ON scope = 'run/' || id";

fn wrong(index: usize, why: String) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(index, rusqlite::types::Type::Null, why.into())
}

fn status(row: &Row<'_>, index: usize) -> rusqlite::Result<RunStatus> {
    let found: i64 = row.get(index)?;
    let known = RunStatus::ALL.into_iter().find(|status| *status as i64 == found);
    known.ok_or_else(|| wrong(index, format!("there is no status {found}")))
}

pub(super) fn head(row: &Row<'_>) -> rusqlite::Result<Run> {
    let args: String = row.get(3)?;
    let parent: Option<String> = row.get(9)?;
    let owner: Option<String> = row.get(20)?;
    Ok(Run {
        id: row.get(0)?,
        number: row.get(1)?,
        program: row.get(2)?,
        args: serde_json::from_str(&args).map_err(|error| wrong(3, error.to_string()))?,
        status: status(row, 4)?,
        due_ms: row.get(5)?,
        scheduling: Scheduling {
            queue: row.get(26)?,
            priority: row.get(27)?,
            key: row.get(28)?,
            group: row.get(29)?,
        },
        exit_code: row.get(6)?,
        note: row.get(7)?,
        failure: row.get(23)?,
        tries: row.get(24)?,
        wish: Wish::of(row.get(25)?),
        info: row.get(8)?,
        parent: match parent {
            Some(run) => Some(Parent { run, length: row.get(10)? }),
            None => None,
        },
        length: row.get(11)?,
        effects: row.get(12)?,
        answers: row.get(13)?,
        starts: row.get(14)?,
        created_ms: row.get(15)?,
        started_ms: row.get(16)?,
        updated_ms: row.get(17)?,
        ended_ms: row.get(18)?,
        lease: match owner {
            Some(owner) if !owner.is_empty() => {
                Some(Lease { scope: row.get(19)?, owner, epoch: row.get(21)?, until_ms: row.get(22)? })
            }
            _ => None,
        },
    })
}

pub(super) fn one(db: &Connection, id: &str) -> Outcome<Option<Run>> {
    row(db, &format!("{RUN} WHERE id = ?"), [id], head)
}

/// Whether a process has the lease of the run, at the time `?1`.
pub(super) const HELD: &str = "(coalesce(owner, '') <> '' AND until_ms > ?1)";

pub(super) fn all(db: &Connection, filter: RunFilter, limit: usize) -> Outcome<Vec<Run>> {
    let (status, held) = match filter.status {
        None => (None, None),
        Some(RunStatus::Running) => (Some(RunStatus::Running), Some(true)),
        Some(RunStatus::Abandoned) => (Some(RunStatus::Running), Some(false)),
        Some(status) => (Some(status), None),
    };
    let sql = format!(
        "{RUN} WHERE number < ?2 AND (?3 IS NULL OR status = ?3) AND (?4 IS NULL OR {HELD} = ?4)
         ORDER BY number DESC LIMIT ?5"
    );
    let before = filter.before.map_or(i64::MAX, signed);
    let status = status.map(|status| status as i64);
    rows(db, &sql, params![filter.now_ms, before, status, held, page(limit)], head)
}

pub(super) fn sources(db: &Connection, id: &str) -> Outcome<Vec<Source>> {
    let number = number(db, id)?;
    let sql =
        "SELECT path, source.digest, bytes FROM source LEFT JOIN shared ON shared.digest = source.digest
               WHERE run = ? ORDER BY path";
    let found = rows(db, sql, [number], |row| {
        Ok((row.get::<_, String>(0)?, Digest(row.get(1)?), row.get::<_, Option<Vec<u8>>>(2)?))
    })?;
    let whole = found.into_iter().map(|(path, digest, bytes)| {
        let bytes = journal::whole(digest, bytes)?;
        Ok(Source { path, digest, bytes })
    });
    whole.collect()
}

const WAITPOINT: &str = "SELECT waitpoint.number, run.id, request_id, kind, prompt, waitpoint.info, asked_ms,
    waitpoint.due_ms, quorum, closed_ms FROM waitpoint JOIN run ON run.number = waitpoint.run";

fn asked(row: &Row<'_>) -> rusqlite::Result<(i64, Waitpoint)> {
    let asked = NewWaitpoint {
        request_id: row.get(2)?,
        kind: row.get(3)?,
        prompt: row.get(4)?,
        info: row.get(5)?,
        asked_ms: row.get(6)?,
        due_ms: row.get(7)?,
        quorum: row.get(8)?,
    };
    let waitpoint = Waitpoint { run: row.get(1)?, asked, answers: Vec::new(), closed_ms: row.get(9)? };
    Ok((row.get(0)?, waitpoint))
}

fn answers(db: &Connection, found: (i64, Waitpoint)) -> Outcome<Waitpoint> {
    let (number, mut waitpoint) = found;
    let sql = "SELECT value, by, at_ms, signature FROM answer WHERE waitpoint = ? ORDER BY number";
    waitpoint.answers = rows(db, sql, [number], |row| {
        Ok(Answer { value: row.get(0)?, by: row.get(1)?, at_ms: row.get(2)?, signature: row.get(3)? })
    })?;
    Ok(waitpoint)
}

fn waitpoint(db: &Connection, run: &str, request_id: &str) -> Outcome<(i64, Waitpoint)> {
    number(db, run)?;
    let found =
        row(db, &format!("{WAITPOINT} WHERE run.id = ? AND request_id = ?"), [run, request_id], asked)?;
    Ok(found.ok_or_else(|| Error::missing(write::request_label(run, request_id)))?)
}

pub(super) fn one_waitpoint(db: &Connection, run: &str, request_id: &str) -> Outcome<Waitpoint> {
    answers(db, waitpoint(db, run, request_id)?)
}

pub(super) fn waitpoints(db: &Connection, run: Option<&str>, open: bool) -> Outcome<Vec<Waitpoint>> {
    if let Some(run) = run {
        number(db, run)?;
    }
    let unclosed = if open { "AND closed_ms IS NULL AND run.ended_ms IS NULL" } else { "" };
    let sql = format!("{WAITPOINT} WHERE (?1 IS NULL OR run.id = ?1) {unclosed} ORDER BY waitpoint.number");
    let mut out = Vec::new();
    for found in rows(db, &sql, [run], asked)? {
        out.push(answers(db, found)?);
    }
    out.retain(|waitpoint| !open || waitpoint.is_open());
    Ok(out)
}

pub(super) fn answer(db: &Connection, id: &str, request_id: &str, answer: &Answer) -> Outcome<Waitpoint> {
    let (number, waitpoint) = waitpoint(db, id, request_id)?;
    let mut waitpoint = answers(db, (number, waitpoint))?;
    write::answerable(&waitpoint, &answer.by)?;
    let head = one(db, id)?.ok_or_else(|| Error::missing(write::run_label(id)))?;
    write::goes_on(id, head.status)?;
    let sql = "INSERT INTO answer (waitpoint, value, by, at_ms, signature) VALUES (?, ?, ?, ?, ?)";
    run(db, sql, params![number, answer.value, answer.by, answer.at_ms, answer.signature])?;
    let sql = "UPDATE run SET answers = answers + 1, updated_ms = ?1,
               due_ms = CASE WHEN status = ?2 THEN min(coalesce(due_ms, ?1), ?1) ELSE due_ms END WHERE id = ?3";
    run(db, sql, params![answer.at_ms, RunStatus::Suspended as i64, id])?;
    waitpoint.answers.push(answer.clone());
    Ok(waitpoint)
}
