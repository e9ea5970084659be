//! Runs: heads, sources and waitpoints. The journal is in `journal.rs`.
//!
//! A change of a run locks its row first, so that an answer and the end of the run are ordered.

use tokio_postgres::Row;

use super::connect::{Db, count, get};
use super::fault::{Fault, Outcome};
use super::journal;
use super::read::{digest, text};
use super::statement::{page, signed};
use crate::error::Error;
use crate::model::{Fence, Lease};
use crate::run::{
    Answer, JournalEntry, NewRun, NewStatus, NewWaitpoint, Parent, Prune, Run, RunFilter, RunStatus, Source,
    StatusRow, StoreStats, Waitpoint, Wish,
};
use crate::scheduling::Scheduling;
use crate::write::{self, Write, Written};

pub(super) fn apply(db: &Db, fence: &Fence, write: &Write) -> Outcome<Written> {
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
            let sql = "UPDATE run SET failure = $1, tries = tries + 1, updated_ms = $2 WHERE number = $3";
            db.run(sql, &[failure, at_ms, &own.number])?;
            Ok(Written::Done(true))
        }
        Write::RunReopen { run: id, due_ms, at_ms } => {
            let own = own(db, fence, id)?;
            write::has_ended(id, own.status)?;
            if let Some(head) = one(db, id)? {
                key_is_free(db, &head.scheduling)?;
            }
            set_status(db, own.number, NewStatus::Queued { due_ms: *due_ms }, Some(""), *at_ms)?;
            db.run("UPDATE run SET tries = 0 WHERE number = $1", &[&own.number])?;
            Ok(Written::Done(true))
        }
        Write::RunInfo { run: id, info, at_ms } => {
            let own = own(db, fence, id)?;
            db.run(
                "UPDATE run SET info = $1, updated_ms = $2 WHERE number = $3",
                &[info, at_ms, &own.number],
            )?;
            Ok(Written::Done(true))
        }
        Write::RunDelete { run: id } => delete(db, fence, id),
        Write::SourcePut { run: id, path, bytes } => {
            let own = own(db, fence, id)?;
            let new = journal::share(db, bytes)?;
            let sql = "DELETE FROM source WHERE run = $1 AND path = $2 RETURNING digest";
            if let Some(old) = db.row(sql, &[&own.number, path], |row| digest(get(row, 0)?))? {
                journal::unshare(db, old)?;
            }
            let sql = "INSERT INTO source (run, path, digest) VALUES ($1, $2, $3)";
            db.run(sql, &[&own.number, path, &&new.0[..]])?;
            Ok(Written::Digest(new))
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
                       VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING";
            let quorum = i64::from(*quorum);
            let args: super::connect::Args<'_> =
                &[&own.number, request_id, kind, prompt, info, asked_ms, due_ms, &quorum];
            Ok(Written::Done(db.run(sql, args)? > 0))
        }
        Write::WaitpointAnswer { run: id, request_id, answer } => {
            write::of_run(fence, id)?;
            self::answer(db, id, request_id, answer)?;
            Ok(Written::Done(true))
        }
        Write::WaitpointClose { run: id, request_id, at_ms } => {
            let own = own(db, fence, id)?;
            waitpoint(db, id, request_id)?;
            let sql = "UPDATE waitpoint SET closed_ms = $1
                       WHERE run = $2 AND request_id = $3 AND closed_ms IS NULL";
            Ok(Written::Done(db.run(sql, &[at_ms, &own.number, request_id])? > 0))
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

/// Reads a run; `lock` locks it until the transaction ends.
fn find(db: &Db, id: &str, lock: &str) -> Outcome<Option<Own>> {
    let sql = format!("SELECT number, status, length, answers, wish FROM run WHERE id = $1 {lock}");
    db.row(&sql, &[&id], |row| {
        Ok(Own {
            number: get(row, 0)?,
            status: status(row, 1)?,
            length: count(row, 2)?,
            answers: count(row, 3)?,
            wish: Wish::of(get(row, 4)?),
        })
    })
}

fn existing(db: &Db, id: &str, lock: &str) -> Outcome<Own> {
    Ok(find(db, id, lock)?.ok_or_else(|| Error::missing(write::run_label(id)))?)
}

/// Returns the run if the lease belongs to it.
fn own(db: &Db, fence: &Fence, id: &str) -> Outcome<Own> {
    write::of_run(fence, id)?;
    existing(db, id, "FOR UPDATE")
}

/// The journal of a run, from an entry on.
pub(super) fn journal(db: &Db, id: &str, from: u64, limit: usize) -> Outcome<Vec<JournalEntry>> {
    let own = existing(db, id, "")?;
    journal::read(db, id, (own.number, own.length), from, limit)
}

/// The run that has not ended and has a key.
pub(super) fn key_owner(db: &Db, scheduling: &Scheduling) -> Outcome<Option<String>> {
    let sql = "SELECT id FROM run WHERE queue = $1 AND key = $2 AND ended_ms IS NULL";
    db.row(sql, &[&scheduling.queue, &scheduling.key], |row| get(row, 0))
}

/// Rejects a key that a run has which has not ended.
fn key_is_free(db: &Db, scheduling: &Scheduling) -> Outcome<()> {
    let (queue, Some(key)) = (&scheduling.queue, &scheduling.key) else { return Ok(()) };
    match key_owner(db, scheduling)? {
        Some(run) => Err(Error::KeyInUse { queue: queue.clone(), key: key.clone(), run }.into()),
        None => Ok(()),
    }
}

fn insert(db: &Db, fence: &Fence, new: &NewRun, parent: Option<&Parent>, at_ms: i64) -> Outcome<i64> {
    write::of_run(fence, &new.id)?;
    let args =
        serde_json::to_string(&new.args).map_err(|error| Error::invalid("arguments", error.to_string()))?;
    let sql = "INSERT INTO run (id, program, args, status, note, info, parent, parent_length, created_ms, updated_ms,
                   queue, priority, key, grp)
               VALUES ($1, $2, $3, $4, '', $5, $6, $7, $8, $8, $9, $10, $11, $12)
               ON CONFLICT DO NOTHING RETURNING number";
    let status = new.status.status() as i64;
    let from = (parent.map(|parent| &*parent.run), parent.map(|parent| signed(parent.length)));
    let Scheduling { queue, priority, key, group } = &new.scheduling;
    let values: super::connect::Args<'_> = &[
        &new.id,
        &new.program,
        &args,
        &status,
        &new.info,
        &from.0,
        &from.1,
        &at_ms,
        queue,
        priority,
        key,
        group,
    ];
    let Some(number) = db.row(sql, values, |row| get(row, 0))? else {
        if find(db, &new.id, "")?.is_none() {
            key_is_free(db, &new.scheduling)?;
        }
        return Err(Error::Exists { what: write::run_label(&new.id) }.into());
    };
    set_status(db, number, new.status, None, at_ms)?;
    Ok(number)
}

pub(super) fn set_status(
    db: &Db,
    number: i64,
    new: NewStatus,
    note: Option<&str>,
    at_ms: i64,
) -> Outcome<()> {
    let status = new.status();
    let sql =
        "UPDATE run SET status = $1, due_ms = $2, exit_code = $3, note = coalesce($4, note), updated_ms = $5,
               started_ms = CASE WHEN $6 THEN coalesce(started_ms, $5) ELSE started_ms END,
               starts = starts + CASE WHEN $6 THEN 1 ELSE 0 END,
               ended_ms = CASE WHEN $7 THEN $5 END, wish = CASE WHEN $6 THEN wish ELSE 0 END,
               failure = CASE WHEN $9 THEN NULL ELSE failure END WHERE number = $8";
    let (begins, ends) = (status == RunStatus::Running, status.is_end());
    let succeeds = status == RunStatus::Completed;
    let note = note.map(str::as_bytes);
    let status = status as i64;
    let due_ms = new.due_ms();
    let values: super::connect::Args<'_> =
        &[&status, &due_ms, &new.exit_code(), &note, &at_ms, &begins, &ends, &number, &succeeds];
    db.run(sql, values).map(drop)
}

fn fork(db: &Db, fence: &Fence, from: &str, length: u64, new: &NewRun, at_ms: i64) -> Outcome<Written> {
    let source = existing(db, from, "FOR SHARE")?;
    write::long_enough(from, length, source.length)?;
    let number = insert(db, fence, new, Some(&Parent { run: from.to_owned(), length }), at_ms)?;
    journal::copy(db, source.number, number, length)?;
    let sql = "INSERT INTO source (run, path, digest) SELECT $1, path, digest FROM source WHERE run = $2";
    db.run(sql, &[&number, &source.number])?;
    let sql = "UPDATE shared SET refs = refs + named
               FROM (SELECT digest, count(*) AS named FROM source WHERE run = $1 GROUP BY 1) AS names
               WHERE shared.digest = names.digest";
    db.run(sql, &[&number])?;
    Ok(Written::Count(length))
}

pub(super) fn wish(db: &Db, id: &str, wish: Option<Wish>, at_ms: i64) -> Outcome<()> {
    let own = existing(db, id, "FOR UPDATE")?;
    write::goes_on(id, own.status)?;
    let sql = "UPDATE run SET wish = $1, updated_ms = $2 WHERE number = $3";
    db.run(sql, &[&Wish::number(wish), &at_ms, &own.number]).map(drop)
}

/// A few statements for all of them: each costs a trip to the server.
pub(super) fn prune(db: &Db, prune: &Prune) -> Outcome<u64> {
    let sql =
        "SELECT number, id FROM run WHERE status = $1 AND ended_ms < $2 ORDER BY ended_ms, number LIMIT $3
               FOR UPDATE SKIP LOCKED";
    let status = prune.status as i64;
    let found = db.rows(sql, &[&status, &prune.before_ms, &page(prune.limit)], |row| {
        Ok((get::<i64>(row, 0)?, Run::scope(get(row, 1)?)))
    })?;
    let (numbers, scopes): (Vec<i64>, Vec<String>) = found.into_iter().unzip();
    let sql = "WITH gone AS (
                   SELECT digest, count(*) AS named FROM (
                       SELECT digest FROM source WHERE run = ANY($1)
                       UNION ALL SELECT digest_of_payload FROM journal
                           WHERE run = ANY($1) AND digest_of_payload IS NOT NULL) AS every
                   GROUP BY digest)
               UPDATE shared SET refs = refs - named FROM gone WHERE shared.digest = gone.digest";
    db.run(sql, &[&numbers])?;
    for sql in [
        "DELETE FROM shared WHERE refs <= 0 AND digest IN (
             SELECT digest FROM source WHERE run = ANY($1)
             UNION ALL SELECT digest_of_payload FROM journal
                 WHERE run = ANY($1) AND digest_of_payload IS NOT NULL)",
        "DELETE FROM journal WHERE run = ANY($1)",
        "DELETE FROM source WHERE run = ANY($1)",
        "DELETE FROM answer WHERE waitpoint IN (SELECT number FROM waitpoint WHERE run = ANY($1))",
        "DELETE FROM waitpoint WHERE run = ANY($1)",
        "DELETE FROM run WHERE number = ANY($1)",
    ] {
        db.run(sql, &[&numbers])?;
    }
    db.run("DELETE FROM lease WHERE scope = ANY($1)", &[&scopes])?;
    Ok(numbers.len() as u64)
}

pub(super) fn bytes(db: &Db, id: &str) -> Outcome<u64> {
    let number = existing(db, id, "")?.number;
    let sql = "SELECT ((SELECT coalesce(sum(length(coalesce(payload, bytes, '')) + length(place) + length(name) + 48), 0)
                   FROM journal LEFT JOIN shared ON shared.digest = digest_of_payload WHERE run = $1)
               + (SELECT coalesce(sum(length(bytes)), 0)
                   FROM source JOIN shared ON shared.digest = source.digest WHERE run = $1)
               + (SELECT length(info) + length(coalesce(failure, '')) FROM run WHERE number = $1))::bigint";
    db.one(sql, &[&number], |row| count(row, 0))
}

pub(super) fn stats(db: &Db, now_ms: i64) -> Outcome<StoreStats> {
    let sql = "SELECT status, count(*), count(*) FILTER (WHERE due_ms <= $1), min(due_ms) FILTER (WHERE due_ms <= $1)
               FROM run GROUP BY status";
    let rows = db.rows(sql, &[&now_ms], |row| {
        Ok(StatusRow {
            status: status(row, 0)?,
            count: count(row, 1)?,
            due: count(row, 2)?,
            oldest_due_ms: get(row, 3)?,
        })
    })?;
    let sql =
        format!("SELECT count(*) FROM run JOIN lease ON scope = 'run/' || id WHERE status = $2 AND {HELD}");
    let held = db.one(&sql, &[&now_ms, &(RunStatus::Running as i64)], |row| count(row, 0))?;
    let sql = "SELECT version, (SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint
                   FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = relnamespace
                   WHERE nspname = 'harn' AND relkind = 'r') FROM schema_version";
    let (schema, bytes) = db.one(sql, &[], |row| Ok((get::<i32>(row, 0)?, count(row, 1)?)))?;
    Ok(StoreStats::of_rows(u32::try_from(schema).unwrap_or_default(), bytes, rows, held))
}

fn delete(db: &Db, fence: &Fence, id: &str) -> Outcome<Written> {
    write::of_run(fence, id)?;
    let Some(Own { number, .. }) = find(db, id, "FOR UPDATE")? else { return Ok(Written::Done(false)) };
    journal::delete(db, number)?;
    for old in db.rows("SELECT digest FROM source WHERE run = $1", &[&number], |row| digest(get(row, 0)?))? {
        journal::unshare(db, old)?;
    }
    db.run("DELETE FROM source WHERE run = $1", &[&number])?;
    let sql = "DELETE FROM answer WHERE waitpoint IN (SELECT number FROM waitpoint WHERE run = $1)";
    db.run(sql, &[&number])?;
    db.run("DELETE FROM waitpoint WHERE run = $1", &[&number])?;
    db.run("DELETE FROM run WHERE number = $1", &[&number])?;
    Ok(Written::Done(true))
}

pub(super) const RUN: &str = "SELECT id, number, program, args, status, due_ms, exit_code, note, info, parent, parent_length,
    length, effects, answers, starts, created_ms, started_ms, updated_ms, ended_ms, scope, owner, epoch, until_ms,
    failure, tries, wish, queue, priority, key, grp FROM run";

fn status(row: &Row, index: usize) -> Outcome<RunStatus> {
    let found: i64 = get(row, index)?;
    let known = RunStatus::ALL.into_iter().find(|status| *status as i64 == found);
    known.ok_or_else(|| Fault::Damaged(format!("there is no status {found}")))
}

pub(super) fn head(row: &Row) -> Outcome<Run> {
    let args: &str = get(row, 3)?;
    let parent: Option<String> = get(row, 9)?;
    let owner: Option<String> = get(row, 20)?;
    Ok(Run {
        id: get(row, 0)?,
        number: count(row, 1)?,
        program: get(row, 2)?,
        args: serde_json::from_str(args).map_err(|error| Fault::Damaged(error.to_string()))?,
        status: status(row, 4)?,
        due_ms: get(row, 5)?,
        scheduling: Scheduling {
            queue: get(row, 26)?,
            priority: get(row, 27)?,
            key: get(row, 28)?,
            group: get(row, 29)?,
        },
        exit_code: get(row, 6)?,
        note: text(get(row, 7)?)?,
        failure: get(row, 23)?,
        tries: count(row, 24)?,
        wish: Wish::of(get(row, 25)?),
        info: get(row, 8)?,
        parent: match parent {
            Some(run) => Some(Parent { run, length: count(row, 10)? }),
            None => None,
        },
        length: count(row, 11)?,
        effects: count(row, 12)?,
        answers: count(row, 13)?,
        starts: count(row, 14)?,
        created_ms: get(row, 15)?,
        started_ms: get(row, 16)?,
        updated_ms: get(row, 17)?,
        ended_ms: get(row, 18)?,
        lease: match owner {
            Some(owner) if !owner.is_empty() => {
                Some(Lease { scope: get(row, 19)?, owner, epoch: count(row, 21)?, until_ms: get(row, 22)? })
            }
            _ => None,
        },
    })
}

pub(super) fn one(db: &Db, id: &str) -> Outcome<Option<Run>> {
    db.row(&format!("{RUN} LEFT JOIN lease ON scope = 'run/' || id WHERE id = $1"), &[&id], head)
}

/// Whether a process has the lease of the run, at the time `$1`.
pub(super) const HELD: &str = "(coalesce(owner, '') <> '' AND until_ms > $1)";

pub(super) fn all(db: &Db, filter: RunFilter, limit: usize) -> Outcome<Vec<Run>> {
    let (status, held) = match filter.status {
        None => (None, None),
        Some(RunStatus::Running) => (Some(RunStatus::Running), Some(true)),
        Some(RunStatus::Abandoned) => (Some(RunStatus::Running), Some(false)),
        Some(status) => (Some(status), None),
    };
    let sql = format!(
        "{RUN} LEFT JOIN lease ON scope = 'run/' || id
         WHERE number < $2 AND ($3::bigint IS NULL OR status = $3) AND ($4::boolean IS NULL OR {HELD} = $4)
         ORDER BY number DESC LIMIT $5"
    );
    let before = filter.before.map_or(i64::MAX, signed);
    let status = status.map(|status| status as i64);
    db.rows(&sql, &[&filter.now_ms, &before, &status, &held, &page(limit)], head)
}

pub(super) fn sources(db: &Db, id: &str) -> Outcome<Vec<Source>> {
    let number = existing(db, id, "")?.number;
    let sql =
        "SELECT path, source.digest, bytes FROM source LEFT JOIN shared ON shared.digest = source.digest
               WHERE run = $1 ORDER BY path";
    db.rows(sql, &[&number], |row| {
        let digest = digest(get(row, 1)?)?;
        Ok(Source { path: get(row, 0)?, digest, bytes: journal::whole(digest, get(row, 2)?)? })
    })
}

const WAITPOINT: &str = "SELECT waitpoint.number, run.id, request_id, kind, prompt, waitpoint.info, asked_ms,
    waitpoint.due_ms, quorum, closed_ms FROM waitpoint JOIN run ON run.number = waitpoint.run";

fn asked(row: &Row) -> Outcome<(i64, Waitpoint)> {
    let asked = NewWaitpoint {
        request_id: get(row, 2)?,
        kind: get(row, 3)?,
        prompt: get(row, 4)?,
        info: get(row, 5)?,
        asked_ms: get(row, 6)?,
        due_ms: get(row, 7)?,
        quorum: u32::try_from(count(row, 8)?).unwrap_or(u32::MAX),
    };
    let waitpoint = Waitpoint { run: get(row, 1)?, asked, answers: Vec::new(), closed_ms: get(row, 9)? };
    Ok((get(row, 0)?, waitpoint))
}

fn answers(db: &Db, found: (i64, Waitpoint)) -> Outcome<Waitpoint> {
    let (number, mut waitpoint) = found;
    let sql = "SELECT value, person, at_ms, signature FROM answer WHERE waitpoint = $1 ORDER BY number";
    waitpoint.answers = db.rows(sql, &[&number], |row| {
        Ok(Answer { value: get(row, 0)?, by: get(row, 1)?, at_ms: get(row, 2)?, signature: get(row, 3)? })
    })?;
    Ok(waitpoint)
}

fn waitpoint(db: &Db, run: &str, request_id: &str) -> Outcome<(i64, Waitpoint)> {
    existing(db, run, "")?;
    let sql = format!("{WAITPOINT} WHERE run.id = $1 AND request_id = $2");
    let found = db.row(&sql, &[&run, &request_id], asked)?;
    Ok(found.ok_or_else(|| Error::missing(write::request_label(run, request_id)))?)
}

pub(super) fn one_waitpoint(db: &Db, run: &str, request_id: &str) -> Outcome<Waitpoint> {
    answers(db, waitpoint(db, run, request_id)?)
}

pub(super) fn waitpoints(db: &Db, run: Option<&str>, open: bool) -> Outcome<Vec<Waitpoint>> {
    if let Some(run) = run {
        existing(db, run, "")?;
    }
    let unclosed = if open { "AND closed_ms IS NULL AND run.ended_ms IS NULL" } else { "" };
    let sql =
        format!("{WAITPOINT} WHERE ($1::text IS NULL OR run.id = $1) {unclosed} ORDER BY waitpoint.number");
    let mut out = Vec::new();
    for found in db.rows(&sql, &[&run], asked)? {
        out.push(answers(db, found)?);
    }
    out.retain(|waitpoint| !open || waitpoint.is_open());
    Ok(out)
}

pub(super) fn answer(db: &Db, id: &str, request_id: &str, answer: &Answer) -> Outcome<Waitpoint> {
    // Other answers, and a suspension of the run, wait for this transaction.
    let run = existing(db, id, "FOR UPDATE")?;
    let (number, waitpoint) = waitpoint(db, id, request_id)?;
    let mut waitpoint = answers(db, (number, waitpoint))?;
    write::answerable(&waitpoint, &answer.by)?;
    write::goes_on(id, run.status)?;
    let sql = "INSERT INTO answer (waitpoint, value, person, at_ms, signature) VALUES ($1, $2, $3, $4, $5)";
    db.run(sql, &[&number, &answer.value, &answer.by, &answer.at_ms, &answer.signature])?;
    let sql = "UPDATE run SET answers = answers + 1, updated_ms = $1,
               due_ms = CASE WHEN status = $2 THEN least(coalesce(due_ms, $1), $1) ELSE due_ms END WHERE number = $3";
    db.run(sql, &[&answer.at_ms, &(RunStatus::Suspended as i64), &run.number])?;
    waitpoint.answers.push(answer.clone());
    Ok(waitpoint)
}
