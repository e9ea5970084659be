//! How runs are scheduled: queues, priorities, keys and limits.

/// The queue of runs that name none.
pub const DEFAULT_QUEUE: &str = "default";

/// How a run is scheduled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scheduling {
    /// The queue.
    pub queue: String,
    /// Runs of a queue with a higher priority start first.
    pub priority: i32,
    /// At most one run of a queue that has not ended has this key.
    pub key: Option<String>,
    /// The group for the limits per group.
    pub group: Option<String>,
}

impl Default for Scheduling {
    fn default() -> Self {
        Scheduling { queue: DEFAULT_QUEUE.to_owned(), priority: 0, key: None, group: None }
    }
}

/// A rate: at most `count` starts in any period of `period_ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Number of starts.
    pub count: u32,
    /// The period in milliseconds.
    pub period_ms: i64,
}

/// The limits of a queue, over all workers of a store; `None` limits nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueLimits {
    /// Number of runs that execute at once.
    pub concurrency: Option<u32>,
    /// Rate of starts.
    pub rate: Option<Rate>,
    /// Number of runs of a group that execute at once.
    pub group_concurrency: Option<u32>,
    /// Rate of starts of a group.
    pub group_rate: Option<Rate>,
}

impl QueueLimits {
    pub(crate) fn is_empty(&self) -> bool {
        *self == QueueLimits::default()
    }

    /// The longest period of its rates: older starts are not needed.
    pub(crate) fn longest_ms(&self) -> Option<i64> {
        [self.rate, self.group_rate].into_iter().flatten().map(|rate| rate.period_ms).max()
    }
}

/// A queue of runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunQueue {
    /// Its name.
    pub name: String,
    /// Its limits.
    pub limits: QueueLimits,
}

/// A queue and its runs ([`crate::Store::run_queues`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueState {
    /// The queue.
    pub queue: RunQueue,
    /// Number of queued runs.
    pub queued: u64,
    /// How many runs are queued, or suspended, and due.
    pub ready: u64,
    /// Number of runs that a process executes.
    pub running: u64,
    /// Number of suspended runs.
    pub suspended: u64,
    /// Since when the ready run that has waited longest has been due.
    pub oldest_due_ms: Option<i64>,
}
