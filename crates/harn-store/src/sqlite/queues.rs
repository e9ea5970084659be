//! Queues of runs as statements.

use rusqlite::{Connection, Row, params};

use super::fault::Outcome;
use super::runs::{HELD, RUN, add, head, set_status};
use super::statement::{row, rows, run, signed};
use super::{journal, leases};
use crate::error::Error;
use crate::queue::{ClaimRuns, Claims, Submission, Submitted, Take, taken};
use crate::run::{NewStatus, Run, RunStatus};
use crate::scheduling::{QueueLimits, QueueState, Rate, RunQueue};

const QUEUE: &str = "name, concurrency, rate, rate_ms, group_concurrency, group_rate, group_rate_ms";

/// The order in which the runs of a queue are taken. The index `run_ready` has it.
const READY: &str = "status IN (0, 2) AND due_ms <= ?1";

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
    for queue in all(db)? {
        let sql = format!(
            "SELECT count(CASE WHEN status = 0 THEN 1 END), count(CASE WHEN {READY} THEN 1 END),
             count(CASE WHEN status = 1 AND {HELD} THEN 1 END), count(CASE WHEN status = 2 THEN 1 END),
             min(CASE WHEN {READY} THEN due_ms END)
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
    let Some(first) = next(db, queue, claim, "", "")? else { return Ok(Take::Nothing) };
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
    let QueueLimits { concurrency, rate, group_concurrency, group_rate } = queue.limits;
    let executed =
        format!("FROM run JOIN lease ON scope = 'run/' || id WHERE status = 1 AND queue = ?2 AND {HELD}");
    if let Some(most) = concurrency {
        let sql = format!("SELECT count(*) {executed}");
        let count: u32 = row(db, &sql, params![claim.now_ms, queue.name], |row| row.get(0))?.unwrap_or(0);
        if count >= most {
            return Ok(None);
        }
    }
    let mut groups = String::new();
    if let Some(most) = group_concurrency {
        groups += &format!(
            "AND (grp IS NULL OR grp NOT IN (SELECT grp {executed} AND grp IS NOT NULL
             GROUP BY grp HAVING count(*) >= {most}))"
        );
    }
    let mut starts = String::new();
    if let Some(Rate { count: most, period_ms }) = rate {
        let sql = "SELECT count(*) FROM start WHERE queue = ? AND at_ms > ?";
        let since = claim.now_ms - period_ms;
        let count: u32 = row(db, sql, params![queue.name, since], |row| row.get(0))?.unwrap_or(0);
        if count >= most {
            starts.push_str("AND status = 2 ");
        }
    }
    if let Some(Rate { count, period_ms }) = group_rate {
        starts += &format!(
            "AND (status = 2 OR grp IS NULL OR grp NOT IN (SELECT grp FROM start
             WHERE queue = ?2 AND at_ms > ?1 - {period_ms} AND grp IS NOT NULL
             GROUP BY grp HAVING count(*) >= {count}))"
        );
    }
    next(db, queue, claim, &groups, &starts)
}

/// The next run of a queue: an interrupted one, else a queued or suspended one that is due.
fn next(
    db: &Connection,
    queue: &RunQueue,
    claim: &ClaimRuns,
    groups: &str,
    starts: &str,
) -> Outcome<Option<Run>> {
    let kinds =
        [("status = 1".to_owned(), "number"), (format!("{READY} {starts}"), "priority DESC, due_ms, number")];
    for (which, order) in kinds {
        let mut others = String::new();
        loop {
            let sql = format!(
                "{RUN} WHERE queue = ?2 AND {which} AND NOT {HELD} {groups} {others} ORDER BY {order} LIMIT 1"
            );
            match row(db, &sql, params![claim.now_ms, queue.name], head)? {
                Some(run) if !(claim.can_follow)(&run) => others += &format!("AND number <> {} ", run.number),
                Some(run) => return Ok(Some(run)),
                None => break,
            }
        }
    }
    Ok(None)
}
