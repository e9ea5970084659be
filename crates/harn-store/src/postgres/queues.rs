//! Queues of runs as statements.
//!
//! Processes that take runs from a queue with limits lock its row first: so they count one after the other.

use std::collections::BTreeMap;

use tokio_postgres::Row;

use super::connect::{Args, Db, count, get};
use super::fault::{Fault, Outcome};
use super::runs::{HELD, RUN, head, key_owner, set_status};
use super::statement::{pieces, signed};
use super::{journal, leases};
use crate::error::Error;
use crate::queue::{ClaimRuns, Claims, Submission, Submitted, Take, taken};
use crate::queue_sql::{Conditions, Dialect, QUEUE};
use crate::run::{NewRun, NewStatus, Run, RunStatus};
use crate::scheduling::{QueueLimits, QueueState, Rate, RunQueue};
use crate::write;

fn dialect() -> Dialect {
    Dialect { mark: '$', runs: format!("{RUN} JOIN lease ON scope = 'run/' || id"), held: HELD }
}

fn limit(row: &Row, index: usize) -> Outcome<Option<u32>> {
    let found: Option<i64> = get(row, index)?;
    let limit = found.map(u32::try_from).transpose();
    limit.map_err(|_| Fault::Damaged(format!("a limit is {found:?}")))
}

fn queue(row: &Row) -> Outcome<RunQueue> {
    let rate = |at: usize| -> Outcome<Option<Rate>> {
        let period_ms: Option<i64> = get(row, at + 1)?;
        Ok(limit(row, at)?.zip(period_ms).map(|(count, period_ms)| Rate { count, period_ms }))
    };
    let limits = QueueLimits {
        concurrency: limit(row, 1)?,
        rate: rate(2)?,
        group_concurrency: limit(row, 4)?,
        group_rate: rate(5)?,
    };
    Ok(RunQueue { name: get(row, 0)?, limits })
}

fn all(db: &Db) -> Outcome<Vec<RunQueue>> {
    db.rows(&format!("SELECT {QUEUE} FROM queue ORDER BY name"), &[], queue)
}

pub(super) fn set(db: &Db, queues: &[RunQueue]) -> Outcome<()> {
    // A row that stays as it is is not locked.
    let sql = format!(
        "INSERT INTO queue AS old ({QUEUE}) VALUES ($1, $2, $3, $4, $5, $6, $7)
         ON CONFLICT (name) DO UPDATE SET concurrency = $2, rate = $3, rate_ms = $4, group_concurrency = $5,
             group_rate = $6, group_rate_ms = $7
         WHERE (old.concurrency, old.rate, old.rate_ms, old.group_concurrency, old.group_rate, old.group_rate_ms)
             IS DISTINCT FROM ($2, $3, $4, $5, $6, $7)"
    );
    for RunQueue { name, limits } in queues {
        let wide = |limit: Option<u32>| limit.map(i64::from);
        let (rate, group_rate) = (limits.rate, limits.group_rate);
        let values: Args<'_> = &[
            name,
            &wide(limits.concurrency),
            &wide(rate.map(|rate| rate.count)),
            &rate.map(|rate| rate.period_ms),
            &wide(limits.group_concurrency),
            &wide(group_rate.map(|rate| rate.count)),
            &group_rate.map(|rate| rate.period_ms),
        ];
        db.run(&sql, values)?;
    }
    Ok(())
}

pub(super) fn submit(db: &Db, submission: &Submission) -> Outcome<Vec<Submitted>> {
    set(db, &submission.queues)?;
    let mut names: Vec<&str> = submission.runs.iter().map(|run| &*run.scheduling.queue).collect();
    names.sort_unstable();
    names.dedup();
    db.run("INSERT INTO queue (name) SELECT unnest($1::text[]) ON CONFLICT DO NOTHING", &[&names])?;
    let mut results = Vec::with_capacity(submission.runs.len());
    let mut numbers: Vec<i64> = Vec::with_capacity(submission.runs.len());
    for piece in pieces(&submission.runs, |run| run.info.len() + run.program.len()) {
        let mut created = insert(db, piece, submission.at_ms)?;
        for run in piece {
            // Of two runs with one id, the first one is created.
            if let Some(number) = created.remove(&*run.id) {
                numbers.push(number);
                results.push(Submitted::Created);
                continue;
            }
            let known = db.row("SELECT 1 FROM run WHERE id = $1", &[&run.id], |_| Ok(()))?;
            if known.is_some() {
                return Err(Error::Exists { what: write::run_label(&run.id) }.into());
            }
            let owner = key_owner(db, &run.scheduling)?;
            let run = owner.ok_or_else(|| Fault::Again("a run with the same key has ended".to_owned()))?;
            results.push(Submitted::Duplicate { run });
        }
    }
    for (path, bytes) in submission.sources.iter().filter(|_| !numbers.is_empty()) {
        let digest = journal::share_by(db, bytes, numbers.len() as i64)?;
        let sql = "INSERT INTO source (run, path, digest) SELECT unnest($1::bigint[]), $2, $3";
        db.run(sql, &[&numbers, path, &&digest.0[..]])?;
    }
    Ok(results)
}

/// Makes those of the runs whose ids and keys are free, with leases that no process has; returns their numbers.
fn insert<'a>(db: &Db, runs: &'a [NewRun], at_ms: i64) -> Outcome<BTreeMap<&'a str, i64>> {
    let args = runs.iter().map(|run| serde_json::to_string(&run.args));
    let args: Vec<String> =
        args.collect::<Result<_, _>>().map_err(|error| Error::invalid("arguments", error.to_string()))?;
    let ids: Vec<&str> = runs.iter().map(|run| &*run.id).collect();
    let programs: Vec<&str> = runs.iter().map(|run| &*run.program).collect();
    let infos: Vec<&[u8]> = runs.iter().map(|run| &*run.info).collect();
    let due: Vec<Option<i64>> = runs.iter().map(|run| run.status.due_ms()).collect();
    let queues: Vec<&str> = runs.iter().map(|run| &*run.scheduling.queue).collect();
    let priorities: Vec<i32> = runs.iter().map(|run| run.scheduling.priority).collect();
    let keys: Vec<Option<&str>> = runs.iter().map(|run| run.scheduling.key.as_deref()).collect();
    let groups: Vec<Option<&str>> = runs.iter().map(|run| run.scheduling.group.as_deref()).collect();
    let sql = "INSERT INTO run (id, program, args, status, note, info, created_ms, updated_ms, due_ms, queue, priority,
                   key, grp)
               SELECT id, program, args, 0, '', info, $9, $9, due_ms, queue, priority, key, grp
               FROM unnest($1::text[], $2::text[], $3::text[], $4::bytea[], $5::bigint[], $6::text[], $7::integer[],
                       $8::text[], $10::text[])
                   WITH ORDINALITY AS new (id, program, args, info, due_ms, queue, priority, key, grp, n)
               ORDER BY n ON CONFLICT DO NOTHING RETURNING id, number";
    let values: Args<'_> =
        &[&ids, &programs, &args, &infos, &due, &queues, &priorities, &keys, &at_ms, &groups];
    let found = db.rows(sql, values, |row| Ok((get::<String>(row, 0)?, get::<i64>(row, 1)?)))?;
    let found: BTreeMap<String, i64> = found.into_iter().collect();
    let scopes: Vec<String> = found.keys().map(|id| Run::scope(id)).collect();
    let sql = "INSERT INTO lease (scope, owner, epoch, until_ms) SELECT unnest($1::text[]), '', 1, 0
               ON CONFLICT DO NOTHING";
    db.run(sql, &[&scopes])?;
    Ok(ids.into_iter().filter_map(|id| Some((id, *found.get(id)?))).collect())
}

pub(super) fn states(db: &Db, now_ms: i64) -> Outcome<Vec<QueueState>> {
    let ready = dialect().ready();
    let sql = format!(
        "SELECT count(*) FILTER (WHERE status = 0), count(*) FILTER (WHERE {ready}),
             count(*) FILTER (WHERE status = 1 AND {HELD}), count(*) FILTER (WHERE status = 2),
             min(due_ms) FILTER (WHERE {ready})
         FROM run LEFT JOIN lease ON scope = 'run/' || id WHERE queue = $2 AND ended_ms IS NULL"
    );
    let mut states = Vec::new();
    for queue in all(db)? {
        states.push(db.one(&sql, &[&now_ms, &queue.name], |row| {
            Ok(QueueState {
                queue: queue.clone(),
                queued: count(row, 0)?,
                ready: count(row, 1)?,
                running: count(row, 2)?,
                suspended: count(row, 3)?,
                oldest_due_ms: get(row, 4)?,
            })
        })?);
    }
    Ok(states)
}

pub(super) fn claim(db: &Db, claim: &ClaimRuns) -> Outcome<Claims> {
    claim.serve(all(db)?, |queue| take(db, queue, claim))
}

/// Locks the run that is read, and its lease; skips a run that is claimed or written at this moment. A locked row was read again,
/// so no other process has taken it.
const LOCK: &str = "FOR UPDATE OF run, lease SKIP LOCKED";

fn take(db: &Db, queue: &RunQueue, claim: &ClaimRuns) -> Outcome<Take> {
    let is_limited = !queue.limits.is_empty();
    let lock = if is_limited { "" } else { LOCK };
    let Some(first) = next(db, queue, claim, &Conditions::default(), lock)? else { return Ok(Take::Nothing) };
    let found = match is_limited {
        false => first,
        true => match allowed(db, queue, claim)? {
            Some(run) => run,
            None => return Ok(Take::Limited),
        },
    };
    let now_ms = claim.now_ms;
    let lease = leases::acquire(db, &Run::scope(&found.id), &claim.owner, now_ms, claim.until_ms)?;
    if let Some(longest_ms) = queue.limits.longest_ms().filter(|_| found.status == RunStatus::Queued) {
        let sql = "DELETE FROM start WHERE queue = $1 AND at_ms <= $2";
        db.run(sql, &[&queue.name, &(now_ms - longest_ms)])?;
        let sql = "INSERT INTO start (queue, grp, at_ms) VALUES ($1, $2, $3)";
        db.run(sql, &[&queue.name, &found.scheduling.group, &now_ms])?;
    }
    set_status(db, signed(found.number), NewStatus::Running, Some(""), now_ms)?;
    Ok(Take::Run(Box::new((taken(found, &lease, now_ms), lease))))
}

/// The next run that the limits of a queue allow.
fn allowed(db: &Db, queue: &RunQueue, claim: &ClaimRuns) -> Outcome<Option<Run>> {
    let sql = format!("SELECT {QUEUE} FROM queue WHERE name = $1 FOR UPDATE");
    let Some(queue) = db.row(&sql, &[&queue.name], self::queue)? else { return Ok(None) };
    let count = |sql: &str, time_ms: i64| db.one(sql, &[&time_ms, &queue.name], |row| count(row, 0));
    match dialect().conditions(&queue.limits, claim.now_ms, count)? {
        Some(conditions) => next(db, &queue, claim, &conditions, LOCK),
        None => Ok(None),
    }
}

fn next(
    db: &Db,
    queue: &RunQueue,
    claim: &ClaimRuns,
    conditions: &Conditions,
    lock: &str,
) -> Outcome<Option<Run>> {
    dialect().next(claim, conditions, lock, |sql| db.row(sql, &[&claim.now_ms, &queue.name], head))
}
