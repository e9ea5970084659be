//! Queues of runs as statements.

use rusqlite::{Connection, Row, params};

use super::fault::Outcome;
use super::runs::{HELD, RUN, add, head, set_status};
use super::statement::{row, rows, run, signed};
use super::{journal, leases};
use crate::error::Error;
use crate::queue::{ClaimRuns, Claims, Submission, Submitted, Take, taken};
use crate::queue_sql::{Conditions, Dialect, QUEUE};
use crate::run::{NewStatus, Run, RunStatus};
use crate::scheduling::{QueueLimits, QueueState, Rate, RunQueue};

fn dialect() -> Dialect {
    Dialect { mark: '?', runs: RUN.to_owned(), held: HELD }
}

fn queue(row: &Row<'_>) -> rusqlite::Result<RunQueue> {
    let rate = |at: usize| -> rusqlite::Result<Option<Rate>> {
        let (count, period_ms): (Option<u32>, Option<i64>) = (row.get(at)?, row.get(at + 1)?);
        Ok(count.zip(period_ms).map(|(count, period_ms)| Rate { count, period_ms }))
    };
    let limits = QueueLimits {
        concurrency: row.get(1)?,
        rate: rate(2)?,
        group_concurrency: row.get(4)?,
        group_rate: rate(5)?,
    };
    Ok(RunQueue { name: row.get(0)?, limits })
}

fn all(db: &Connection) -> Outcome<Vec<RunQueue>> {
    rows(db, &format!("SELECT {QUEUE} FROM queue ORDER BY name"), [], queue)
}

pub(super) fn set(db: &Connection, queues: &[RunQueue]) -> Outcome<()> {
    for RunQueue { name, limits } in queues {
        let (rate, group_rate) = (limits.rate, limits.group_rate);
        let values = params![
            name,
            limits.concurrency,
            rate.map(|rate| rate.count),
            rate.map(|rate| rate.period_ms),
            limits.group_concurrency,
            group_rate.map(|rate| rate.count),
            group_rate.map(|rate| rate.period_ms),
        ];
        run(db, &format!("INSERT OR REPLACE INTO queue ({QUEUE}) VALUES (?, ?, ?, ?, ?, ?, ?)"), values)?;
    }
    Ok(())
}

pub(super) fn submit(db: &Connection, submission: &Submission) -> Outcome<Vec<Submitted>> {
    set(db, &submission.queues)?;
    let mut results = Vec::with_capacity(submission.runs.len());
    let mut numbers = Vec::with_capacity(submission.runs.len());
    for new in &submission.runs {
        run(db, "INSERT INTO queue (name) VALUES (?) ON CONFLICT DO NOTHING", [&new.scheduling.queue])?;
        match add(db, new, None, submission.at_ms) {
            Ok(number) => numbers.push(number),
            Err(super::Fault::Other(Error::KeyInUse { run, .. })) => {
                results.push(Submitted::Duplicate { run });
                continue;
            }
            Err(fault) => return Err(fault),
        }
        results.push(Submitted::Created);
    }
    for (path, bytes) in submission.sources.iter().filter(|_| !numbers.is_empty()) {
        let digest = journal::share_by(db, bytes, numbers.len())?;
        for number in &numbers {
            let sql = "INSERT INTO source (run, path, digest) VALUES (?, ?, ?)";
            run(db, sql, params![number, path, digest.0])?;
        }
    }
    Ok(results)
}

pub(super) fn states(db: &Connection, now_ms: i64) -> Outcome<Vec<QueueState>> {
    let mut states = Vec::new();
    let ready = dialect().ready();
    for queue in all(db)? {
        let sql = format!(
            "SELECT count(CASE WHEN status = 0 THEN 1 END), count(CASE WHEN {ready} THEN 1 END),
             count(CASE WHEN status = 1 AND {HELD} THEN 1 END), count(CASE WHEN status = 2 THEN 1 END),
             min(CASE WHEN {ready} THEN due_ms END)
             FROM run LEFT JOIN lease ON scope = 'run/' || id WHERE queue = ?2 AND ended_ms IS NULL"
        );
        let found = row(db, &sql, params![now_ms, queue.name], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?))
        })?;
        let (queued, ready, running, suspended, oldest_due_ms) = found.unwrap_or_default();
        states.push(QueueState { queue, queued, ready, running, suspended, oldest_due_ms });
    }
    Ok(states)
}

pub(super) fn claim(db: &Connection, claim: &ClaimRuns) -> Outcome<Claims> {
    claim.serve(all(db)?, |queue| take(db, queue, claim))
}

fn take(db: &Connection, queue: &RunQueue, claim: &ClaimRuns) -> Outcome<Take> {
    let Some(first) = next(db, queue, claim, &Conditions::default())? else { return Ok(Take::Nothing) };
    let found = match queue.limits.is_empty() {
        true => first,
        false => match allowed(db, queue, claim)? {
            Some(run) => run,
            None => return Ok(Take::Limited),
        },
    };
    let now_ms = claim.now_ms;
    let lease = leases::acquire(db, &Run::scope(&found.id), &claim.owner, now_ms, claim.until_ms)?;
    if let Some(longest_ms) = queue.limits.longest_ms().filter(|_| found.status == RunStatus::Queued) {
        run(
            db,
            "DELETE FROM start WHERE queue = ? AND at_ms <= ?",
            params![queue.name, now_ms - longest_ms],
        )?;
        let sql = "INSERT INTO start (queue, grp, at_ms) VALUES (?, ?, ?)";
        run(db, sql, params![queue.name, found.scheduling.group, now_ms])?;
    }
    set_status(db, signed(found.number), NewStatus::Running, Some(""), now_ms)?;
    Ok(Take::Run(Box::new((taken(found, &lease, now_ms), lease))))
}

/// The next run that the limits of a queue allow.
fn allowed(db: &Connection, queue: &RunQueue, claim: &ClaimRuns) -> Outcome<Option<Run>> {
    let count = |sql: &str, time_ms| -> Outcome<u64> {
        let count: Option<u32> = row(db, sql, params![time_ms, queue.name], |row| row.get(0))?;
        Ok(count.unwrap_or(0).into())
    };
    match dialect().conditions(&queue.limits, claim.now_ms, count)? {
        Some(conditions) => next(db, queue, claim, &conditions),
        None => Ok(None),
    }
}

fn next(
    db: &Connection,
    queue: &RunQueue,
    claim: &ClaimRuns,
    conditions: &Conditions,
) -> Outcome<Option<Run>> {
    dialect().next(claim, conditions, "", |sql| row(db, sql, params![claim.now_ms, queue.name], head))
}
