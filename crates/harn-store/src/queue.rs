//! Submitting runs to queues, and how workers take runs from queues.

use std::collections::VecDeque;

use crate::error::{Error, Result};
use crate::model::Lease;
use crate::run::{NewRun, NewStatus, Run, RunStatus};
use crate::scheduling::RunQueue;
use crate::write;

/// Runs to be queued, all or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submission {
    /// The queues of the runs. Their limits replace the stored ones.
    pub queues: Vec<RunQueue>,
    /// The runs; each has the status [`NewStatus::Queued`].
    pub runs: Vec<NewRun>,
    /// Path and content of the sources that all of them have.
    pub sources: Vec<(String, Vec<u8>)>,
    /// The time.
    pub at_ms: i64,
}

/// The result of a submission for one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Submitted {
    /// The run is queued.
    Created,
    /// This run has the key, and has not ended. Nothing was stored.
    Duplicate {
        /// Its id.
        run: String,
    },
}

/// Which runs a worker takes ([`crate::Store::claim_runs`]).
#[derive(Clone, Debug)]
pub struct ClaimRuns {
    /// The owner of their leases.
    pub owner: String,
    /// The time.
    pub now_ms: i64,
    /// The expiry of their leases.
    pub until_ms: i64,
    /// Maximum number of runs.
    pub limit: usize,
    /// Only runs of these queues; of all queues when empty.
    pub queues: Vec<String>,
    /// The queue that was served last: the next one in the order of names is served first.
    pub after: Option<String>,
    /// Runs for which this is false are not changed.
    pub can_follow: fn(&Run) -> bool,
}

impl ClaimRuns {
    pub(crate) fn check(&self) -> Result<()> {
        write::name("owner", &self.owner)?;
        if self.limit == 0 {
            return Err(Error::invalid("limit", "expected at least 1"));
        }
        self.queues.iter().try_for_each(|queue| write::name("queue", queue))
    }

    /// The queues to serve, in their order. `all` is sorted by name.
    fn in_turn(&self, all: Vec<RunQueue>) -> VecDeque<RunQueue> {
        let wanted = |queue: &RunQueue| self.queues.is_empty() || self.queues.contains(&queue.name);
        let mut found: VecDeque<RunQueue> = all.into_iter().filter(wanted).collect();
        if let Some(after) = &self.after {
            let next = found.iter().position(|queue| queue.name > *after).unwrap_or(0);
            found.rotate_left(next);
        }
        found
    }

    /// Takes runs from the queues in turn, one each, until there are enough.
    pub(crate) fn serve<E>(
        &self,
        all: Vec<RunQueue>,
        mut take: impl FnMut(&RunQueue) -> Result<Take, E>,
    ) -> Result<Claims, E> {
        let mut queues = self.in_turn(all);
        let mut claims = Claims::default();
        while claims.runs.len() < self.limit
            && let Some(queue) = queues.pop_front()
        {
            match take(&queue)? {
                Take::Run(run) => {
                    claims.runs.push(*run);
                    queues.push_back(queue);
                }
                Take::Limited => claims.is_limited = true,
                Take::Nothing => {}
            }
        }
        Ok(claims)
    }
}

/// Runs that a worker has taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claims {
    /// The runs, with their leases.
    pub runs: Vec<(Run, Lease)>,
    /// Whether the limits of a queue hold back a run that is due.
    pub is_limited: bool,
}

/// What a queue yields.
pub(crate) enum Take {
    Run(Box<(Run, Lease)>),
    /// Its limits allow no run now.
    Limited,
    Nothing,
}

/// A run as it is after it was taken under a lease.
pub(crate) fn taken(mut run: Run, lease: &Lease, now_ms: i64) -> Run {
    run.status = RunStatus::Running;
    (run.due_ms, run.exit_code, run.ended_ms) = (None, None, None);
    run.note.clear();
    run.updated_ms = now_ms;
    run.started_ms = run.started_ms.or(Some(now_ms));
    run.starts += 1;
    run.lease = Some(lease.clone());
    run
}

impl Submission {
    pub(crate) fn check(&self) -> Result<()> {
        self.queues.iter().try_for_each(write::queue)?;
        for run in &self.runs {
            write::new_run(run)?;
            if !matches!(run.status, NewStatus::Queued { .. }) {
                return Err(Error::invalid("status", "a submitted run is queued"));
            }
        }
        self.sources.iter().try_for_each(|(path, bytes)| write::source(path, bytes))
    }
}
