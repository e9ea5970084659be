//! The tables of a store in memory. A copy is cheap: tables are shared until one is changed.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::model::{Dead, Digest, Entry, Lease, NewEvent, NewMessage, Session, Topic};
use crate::run::{JournalEntry, NewStatus, Run, RunStatus, Waitpoint};
use crate::scheduling::QueueLimits;

pub(super) type Table<K, V> = Arc<BTreeMap<K, V>>;

#[derive(Clone, Default)]
pub(super) struct State {
    /// Counter of value writes, so that versions are unique.
    pub(super) revision: u64,
    /// Counter of messages, for their order at equal due times.
    pub(super) messages: u64,
    pub(super) leases: Table<String, Lease>,
    pub(super) kv: Table<String, Table<String, Entry>>,
    pub(super) topics: Table<String, Log>,
    pub(super) queues: Table<String, Table<String, Message>>,
    pub(super) sessions: Table<String, Kept>,
    /// Counter of waitpoints.
    pub(super) asked: u64,
    /// Counter of runs.
    pub(super) made: u64,
    pub(super) runs: Table<String, KeptRun>,
    /// The queues of runs that were stored.
    pub(super) run_queues: Table<String, QueueLimits>,
    /// The starts of queues with a rate: queue, group and time.
    pub(super) starts: Arc<Vec<(String, Option<String>, i64)>>,
    pub(super) blobs: Table<Digest, Arc<[u8]>>,
}

/// A topic.
#[derive(Clone, Default)]
pub(super) struct Log {
    pub(super) last: u64,
    pub(super) events: Table<u64, NewEvent>,
}

impl Log {
    pub(super) fn described(&self, name: &str) -> Topic {
        Topic { name: name.to_owned(), last: self.last, count: self.events.len() as u64 }
    }
}

/// A message and its state; `new.ready_ms` is when it can be claimed next.
#[derive(Clone)]
pub(super) struct Message {
    pub(super) new: NewMessage,
    pub(super) number: u64,
    pub(super) attempts: u32,
    pub(super) claimed: bool,
    pub(super) dead: bool,
    pub(super) reason: String,
}

impl Message {
    /// Returns whether all attempts are used up.
    pub(super) fn spent(&self) -> bool {
        self.attempts >= self.new.max_attempts
    }

    /// Returns whether it was given up, or its last attempt was not answered.
    pub(super) fn is_dead(&self, now_ms: i64) -> bool {
        self.dead || (self.new.ready_ms <= now_ms && self.spent())
    }

    pub(super) fn obituary(&self) -> Dead {
        Dead {
            id: self.new.id.clone(),
            body: self.new.body.clone(),
            attempts: self.attempts,
            reason: self.reason.clone(),
        }
    }
}

/// A session with its entries.
#[derive(Clone)]
pub(super) struct Kept {
    pub(super) head: Session,
    pub(super) entries: Arc<Vec<Arc<[u8]>>>,
}

/// The source of a program and of its imports, by name.
pub(super) type Sources = BTreeMap<String, (Digest, Arc<[u8]>)>;

/// A run with its data. Readers fill in the lease of the head.
#[derive(Clone)]
pub(super) struct KeptRun {
    pub(super) head: Run,
    pub(super) journal: Arc<Vec<JournalEntry>>,
    pub(super) sources: Arc<Sources>,
    /// In order of their requests.
    pub(super) waitpoints: Arc<Vec<(u64, Waitpoint)>>,
}

impl KeptRun {
    /// Returns the head with the current lease.
    pub(super) fn seen(&self, state: &State) -> Run {
        let mut head = self.head.clone();
        head.lease = state.leases.get(&Run::scope(&head.id)).filter(|lease| !lease.owner.is_empty()).cloned();
        head
    }

    pub(super) fn set_status(&mut self, new: NewStatus, at_ms: i64) {
        let head = &mut self.head;
        let new = new.as_wished(head.wish);
        head.status = new.status();
        if head.status != RunStatus::Running {
            head.wish = None;
        }
        if head.status == RunStatus::Completed {
            head.failure = None;
        }
        head.due_ms = new.due_ms();
        head.exit_code = new.exit_code();
        head.updated_ms = at_ms;
        head.ended_ms = head.status.is_end().then_some(at_ms);
        if head.status == RunStatus::Running {
            head.started_ms = head.started_ms.or(Some(at_ms));
            head.starts += 1;
        }
    }
}
