//! The SQL that selects the next run of a queue.
//!
//! The databases differ in the prefix of placeholders, in the query of runs, and in locks ([`Dialect`]).

use crate::queue::ClaimRuns;
use crate::run::Run;
use crate::scheduling::{QueueLimits, Rate};

/// The columns of a queue.
pub(crate) const QUEUE: &str =
    "name, concurrency, rate, rate_ms, group_concurrency, group_rate, group_rate_ms";

/// The differences between the SQL of the databases. In each query, the first placeholder is the time, and the second
/// one is the name of the queue.
pub(crate) struct Dialect {
    /// The prefix of a placeholder, as in `?1` and `$1`.
    pub(crate) mark: char,
    /// The start of a query of runs with their leases, up to `WHERE`.
    pub(crate) runs: String,
    /// The condition that a process holds the lease of a run at this time.
    pub(crate) held: &'static str,
}

/// Conditions for the next run of a queue.
#[derive(Default)]
pub(crate) struct Conditions {
    /// For all runs: the concurrency limit of the group allows another run.
    groups: String,
    /// For waiting runs: the rate limits allow another start.
    starts: String,
}

impl Dialect {
    /// Returns the condition for waiting runs that are due. The index `run_ready` has their order.
    pub(crate) fn ready(&self) -> String {
        format!("status IN (0, 2) AND due_ms <= {}1", self.mark)
    }

    /// Returns the conditions that follow from the limits of a queue; `None` if none of its runs may be claimed.
    /// `count` executes a query that returns a number, with a time and the name of the queue.
    pub(crate) fn conditions<E>(
        &self,
        limits: &QueueLimits,
        now_ms: i64,
        mut count: impl FnMut(&str, i64) -> Result<u64, E>,
    ) -> Result<Option<Conditions>, E> {
        let QueueLimits { concurrency, rate, group_concurrency, group_rate } = *limits;
        let (mark, held) = (self.mark, self.held);
        let executed = format!(
            "FROM run JOIN lease ON scope = 'run/' || id WHERE status = 1 AND queue = {mark}2 AND {held}"
        );
        if let Some(most) = concurrency
            && count(&format!("SELECT count(*) {executed}"), now_ms)? >= u64::from(most)
        {
            return Ok(None);
        }
        let mut found = Conditions::default();
        if let Some(most) = group_concurrency {
            found.groups = format!(
                "AND (grp IS NULL OR grp NOT IN (SELECT grp {executed} AND grp IS NOT NULL
                 GROUP BY grp HAVING count(*) >= {most}))"
            );
        }
        if let Some(Rate { count: most, period_ms }) = rate {
            let sql = format!("SELECT count(*) FROM start WHERE at_ms > {mark}1 AND queue = {mark}2");
            if count(&sql, now_ms - period_ms)? >= u64::from(most) {
                found.starts.push_str("AND status = 2 ");
            }
        }
        if let Some(Rate { count: most, period_ms }) = group_rate {
            found.starts += &format!(
                "AND (status = 2 OR grp IS NULL OR grp NOT IN (SELECT grp FROM start
                 WHERE queue = {mark}2 AND at_ms > {mark}1 - {period_ms} AND grp IS NOT NULL
                 GROUP BY grp HAVING count(*) >= {most}))"
            );
        }
        Ok(Some(found))
    }

    /// Returns the next run of a queue: an interrupted one, else a queued or suspended one that is due. `find` executes
    /// a query that returns at most one run, with the time and the name of the queue; `lock` is the end of the query.
    pub(crate) fn next<E>(
        &self,
        claim: &ClaimRuns,
        Conditions { groups, starts }: &Conditions,
        lock: &str,
        mut find: impl FnMut(&str) -> Result<Option<Run>, E>,
    ) -> Result<Option<Run>, E> {
        let kinds = [
            ("status = 1".to_owned(), "number"),
            (format!("{} {starts}", self.ready()), "priority DESC, due_ms, number"),
        ];
        let Dialect { mark, runs, held } = self;
        for (which, order) in kinds {
            let mut others = String::new();
            loop {
                let sql = format!(
                    "{runs} WHERE queue = {mark}2 AND {which} AND NOT {held} {groups} {others}
                     ORDER BY {order} LIMIT 1 {lock}"
                );
                match find(&sql)? {
                    Some(run) if !(claim.can_follow)(&run) => {
                        others += &format!("AND number <> {} ", run.number)
                    }
                    Some(run) => return Ok(Some(run)),
                    None => break,
                }
            }
        }
        Ok(None)
    }
}
