//! Runs of programs: head, journal, sources and waitpoints.
//!
//! A run is written by the owner of the lease of its scope ([`Run::scope`]). Only answers to waitpoints come from
//! other processes ([`crate::Store::answer`]).

use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use crate::model::Lease;
use crate::scheduling::Scheduling;

/// The status of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RunStatus {
    /// Waits for a worker.
    Queued,
    /// A process executes the run.
    Running,
    /// Waits for an answer or a time, without a process.
    Suspended,
    /// Has succeeded.
    Completed,
    /// Has failed.
    Failed,
    /// Was running, and its owner did not renew the lease. Never stored: it follows from the lease.
    Abandoned,
    /// A user has ended it.
    Cancelled,
    /// A user holds it back: no worker takes it.
    Paused,
}

impl RunStatus {
    /// All values. The store saves their positions.
    pub const ALL: [RunStatus; 8] = [
        RunStatus::Queued,
        RunStatus::Running,
        RunStatus::Suspended,
        RunStatus::Completed,
        RunStatus::Failed,
        RunStatus::Abandoned,
        RunStatus::Cancelled,
        RunStatus::Paused,
    ];

    /// Returns the name of the status.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            RunStatus::Queued => "queued",
            RunStatus::Running => "running",
            RunStatus::Suspended => "suspended",
            RunStatus::Completed => "completed",
            RunStatus::Failed => "failed",
            RunStatus::Abandoned => "abandoned",
            RunStatus::Cancelled => "cancelled",
            RunStatus::Paused => "paused",
        }
    }

    /// Parses the name of a status.
    #[must_use]
    pub fn named(word: &str) -> Option<RunStatus> {
        RunStatus::ALL.into_iter().find(|status| status.word() == word)
    }

    /// Returns whether the status is final: such a run accepts no journal entries and no other status.
    #[must_use]
    pub fn is_end(self) -> bool {
        matches!(self, RunStatus::Completed | RunStatus::Failed | RunStatus::Cancelled)
    }
}

/// The new status of a run ([`crate::Write::RunStatus`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewStatus {
    /// To be started by a worker.
    Queued {
        /// Not before this time.
        due_ms: i64,
    },
    /// The owner of the lease works on it.
    Running,
    /// The run waits. Rejected with [`crate::Error::Conflict`] if there are more answers than `answers`: an answer
    /// came while the owner was about to stop, and must be processed first.
    Suspended {
        /// When the run is resumed without an answer, if ever.
        due_ms: Option<i64>,
        /// How many answers the owner has seen ([`Run::answers`]).
        answers: u64,
    },
    /// It has succeeded.
    Completed {
        /// The exit code of the program.
        exit_code: i32,
    },
    /// It has failed.
    Failed {
        /// The exit code of the program.
        exit_code: i32,
    },
    /// A user has ended it.
    Cancelled,
    /// A user holds it back.
    Paused {
        /// When it would have continued.
        due_ms: Option<i64>,
    },
}

impl NewStatus {
    /// Returns the resulting status.
    #[must_use]
    pub fn status(self) -> RunStatus {
        match self {
            NewStatus::Queued { .. } => RunStatus::Queued,
            NewStatus::Running => RunStatus::Running,
            NewStatus::Suspended { .. } => RunStatus::Suspended,
            NewStatus::Completed { .. } => RunStatus::Completed,
            NewStatus::Failed { .. } => RunStatus::Failed,
            NewStatus::Cancelled => RunStatus::Cancelled,
            NewStatus::Paused { .. } => RunStatus::Paused,
        }
    }

    /// Returns from when on a worker can take the run.
    pub(crate) fn due_ms(self) -> Option<i64> {
        match self {
            NewStatus::Queued { due_ms } => Some(due_ms),
            NewStatus::Suspended { due_ms, .. } | NewStatus::Paused { due_ms } => due_ms,
            NewStatus::Running
            | NewStatus::Completed { .. }
            | NewStatus::Failed { .. }
            | NewStatus::Cancelled => None,
        }
    }

    pub(crate) fn exit_code(self) -> Option<i32> {
        match self {
            NewStatus::Completed { exit_code } | NewStatus::Failed { exit_code } => Some(exit_code),
            NewStatus::Queued { .. }
            | NewStatus::Running
            | NewStatus::Suspended { .. }
            | NewStatus::Cancelled
            | NewStatus::Paused { .. } => None,
        }
    }

    /// What becomes of a run that stops working, when a user has asked for something meanwhile.
    pub(crate) fn as_wished(self, wish: Option<Wish>) -> NewStatus {
        match (wish, self) {
            (Some(Wish::Pause), NewStatus::Queued { due_ms }) => NewStatus::Paused { due_ms: Some(due_ms) },
            (Some(Wish::Pause), NewStatus::Suspended { due_ms, .. }) => NewStatus::Paused { due_ms },
            (
                Some(Wish::Cancel),
                NewStatus::Queued { .. } | NewStatus::Suspended { .. } | NewStatus::Paused { .. },
            ) => NewStatus::Cancelled,
            _ => self,
        }
    }
}

/// What a user asks of the process that has a run ([`crate::Store::wish`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// To hold it back.
    Pause,
    /// To end it.
    Cancel,
}

impl Wish {
    /// Its number in a store; 0 is none.
    pub(crate) fn number(wish: Option<Wish>) -> i64 {
        match wish {
            None => 0,
            Some(Wish::Pause) => 1,
            Some(Wish::Cancel) => 2,
        }
    }

    pub(crate) fn of(number: i64) -> Option<Wish> {
        match number {
            1 => Some(Wish::Pause),
            2 => Some(Wish::Cancel),
            _ => None,
        }
    }
}

/// Which runs to remove ([`crate::Store::prune`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prune {
    /// Only those that have ended so.
    pub status: RunStatus,
    /// Only those that ended before this time.
    pub before_ms: i64,
    /// At most so many.
    pub limit: usize,
}

/// Figures about a store ([`crate::Store::stats`]).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreStats {
    /// The version of its schema; 0 for a store in memory.
    pub schema: u32,
    /// The bytes that it takes on disk.
    pub bytes: u64,
    /// The numbers of runs with each status that occurs, in the order of [`RunStatus::ALL`].
    pub runs: Vec<(RunStatus, u64)>,
    /// How many runs a worker could take: queued or suspended and due, or abandoned.
    pub ready: u64,
    /// Since when the queued run that has waited longest has been due.
    pub oldest_due_ms: Option<i64>,
}

impl StoreStats {
    /// The number of runs with a status.
    #[must_use]
    pub fn count(&self, status: RunStatus) -> u64 {
        self.runs.iter().find(|(known, _)| *known == status).map_or(0, |(_, count)| *count)
    }

    /// Splits the runs that are stored as running by whether a process has their lease.
    pub(crate) fn of_rows(schema: u32, bytes: u64, rows: Vec<StatusRow>, held: u64) -> StoreStats {
        let mut stats = StoreStats { schema, bytes, ..StoreStats::default() };
        for status in RunStatus::ALL {
            let stored = if status == RunStatus::Abandoned { RunStatus::Running } else { status };
            let Some(row) = rows.iter().find(|row| row.status == stored) else { continue };
            let count = match status {
                RunStatus::Running => held,
                RunStatus::Abandoned => row.count.saturating_sub(held),
                _ => row.count,
            };
            if count > 0 {
                stats.runs.push((status, count));
            }
            match status {
                RunStatus::Queued | RunStatus::Suspended => stats.ready += row.due,
                RunStatus::Abandoned => stats.ready += count,
                _ => {}
            }
            if status == RunStatus::Queued {
                stats.oldest_due_ms = row.oldest_due_ms;
            }
        }
        stats
    }
}

/// The runs with a stored status.
pub(crate) struct StatusRow {
    pub(crate) status: RunStatus,
    pub(crate) count: u64,
    /// How many of them are due, and the earliest of these times.
    pub(crate) due: u64,
    pub(crate) oldest_due_ms: Option<i64>,
}

/// A run to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRun {
    /// Its id.
    pub id: String,
    /// Where the program is, as the user named it.
    pub program: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// [`NewStatus::Queued`] or [`NewStatus::Running`].
    pub status: NewStatus,
    /// How workers take it.
    pub scheduling: Scheduling,
    /// Facts about it, in a form that the clients agree on.
    pub info: Vec<u8>,
}

/// The run that another one was made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parent {
    /// Its id.
    pub run: String,
    /// How many entries of its journal were taken over.
    pub length: u64,
}

/// The head of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Its id.
    pub id: String,
    /// Counts the runs of a store in the order in which they were made.
    pub number: u64,
    /// Where the program is, as the user named it.
    pub program: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// The stored status, without regard to the lease; see [`Run::status_at`].
    pub status: RunStatus,
    /// When a queued or suspended run is due, unless it waits for an answer only.
    pub due_ms: Option<i64>,
    /// How workers take it.
    pub scheduling: Scheduling,
    /// The exit code, once it has ended.
    pub exit_code: Option<i32>,
    /// A line for people: what it waits for, or why it failed. May be empty.
    pub note: String,
    /// What the last failed try left, in a form that the clients agree on.
    pub failure: Option<Vec<u8>>,
    /// How many tries have failed.
    pub tries: u64,
    /// What a user asks of the process that has it.
    pub wish: Option<Wish>,
    /// Facts about it, in a form that the clients agree on.
    pub info: Vec<u8>,
    /// The run that it is a fork of.
    pub parent: Option<Parent>,
    /// The number of entries in its journal.
    pub length: u64,
    /// How many of them are outcomes.
    pub effects: u64,
    /// Number of answers to all its waitpoints.
    pub answers: u64,
    /// How often the run was started or resumed.
    pub starts: u64,
    /// When it was made.
    pub created_ms: i64,
    /// The first start.
    pub started_ms: Option<i64>,
    /// When it was changed last.
    pub updated_ms: i64,
    /// When it ended.
    pub ended_ms: Option<i64>,
    /// The current lease; `None` without an owner.
    pub lease: Option<Lease>,
}

impl Run {
    /// The scope of the lease under which the run with this id is written.
    #[must_use]
    pub fn scope(id: &str) -> String {
        format!("run/{id}")
    }

    /// Returns the status at a time: a running run whose lease has expired is abandoned.
    #[must_use]
    pub fn status_at(&self, now_ms: i64) -> RunStatus {
        let held = self.lease.as_ref().is_some_and(|lease| lease.until_ms > now_ms);
        if self.status == RunStatus::Running && !held { RunStatus::Abandoned } else { self.status }
    }
}

/// Filter for a list of runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunFilter {
    /// Only runs with this status.
    pub status: Option<RunStatus>,
    /// The time for that status ([`Run::status_at`]).
    pub now_ms: i64,
    /// Only runs with a lower number: that of the last run of the page before.
    pub before: Option<u64>,
}

/// The kind of a journal entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EntryKind {
    /// An effect that must not be repeated is about to happen.
    Begin,
    /// The outcome of an effect.
    Outcome,
    /// The order of events.
    Order,
    /// The place where a task was interrupted.
    Interrupt,
}

impl EntryKind {
    /// All values.
    pub const ALL: [EntryKind; 4] =
        [EntryKind::Begin, EntryKind::Outcome, EntryKind::Order, EntryKind::Interrupt];

    /// Returns the name of the kind.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            EntryKind::Begin => "begin",
            EntryKind::Outcome => "outcome",
            EntryKind::Order => "order",
            EntryKind::Interrupt => "interrupt",
        }
    }

    /// Parses the name of a kind.
    #[must_use]
    pub fn named(word: &str) -> Option<EntryKind> {
        EntryKind::ALL.into_iter().find(|kind| kind.word() == word)
    }
}

/// An entry of a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalEntry {
    /// Its number, from 0, without gaps.
    pub seq: u64,
    /// The path of the task.
    pub task: Arc<str>,
    /// Number of earlier effects of the task.
    pub count: u64,
    /// Its kind.
    pub kind: EntryKind,
    /// Name of the effect, such as a builtin.
    pub name: Arc<str>,
    /// Place in the sources; may be empty.
    pub place: Arc<str>,
    /// Digest of the arguments, of any length; may be empty.
    pub digest: Vec<u8>,
    /// When it was made.
    pub at_ms: i64,
    /// The data, at most 256 MiB. The store saves large payloads once, under their SHA-256.
    pub payload: Vec<u8>,
}

/// Follows the chain of checksums through a journal.
pub(crate) struct Chain {
    /// The checksum of the entry before; 0 before the first.
    last: i64,
    /// Whether an earlier entry was part of the chain: then all later ones are.
    has_begun: bool,
}

impl Chain {
    /// The chain after an entry with this checksum.
    pub(crate) fn after(last: Option<i64>) -> Chain {
        Chain { last: last.unwrap_or(0), has_begun: false }
    }

    /// The checksum of the next entry.
    pub(crate) fn next(&mut self, entry: &JournalEntry, shared: Option<&crate::Digest>) -> i64 {
        self.last = entry.checksum(shared, Some(self.last));
        self.last
    }

    /// Whether the next entry has this checksum.
    pub(crate) fn fits(&mut self, entry: &JournalEntry, shared: Option<&crate::Digest>, found: i64) -> bool {
        let is_linked = found == entry.checksum(shared, Some(self.last));
        let fits = is_linked || (!self.has_begun && found == entry.checksum(shared, None));
        self.has_begun |= is_linked;
        self.last = found;
        fits
    }
}

impl JournalEntry {
    /// Returns the checksum of an entry, which detects a changed byte; a shared payload is represented by its digest.
    /// It includes the checksum of the entry before: no entry can be replaced without those that follow. Older
    /// entries have no such chain.
    pub(crate) fn checksum(&self, shared: Option<&crate::Digest>, before: Option<i64>) -> i64 {
        let mut hash = Sha256::new();
        if let Some(before) = before {
            hash.update(before.to_le_bytes());
        }
        for number in [self.seq, self.count, self.kind as u64, self.at_ms.cast_unsigned()] {
            hash.update(number.to_le_bytes());
        }
        let payload = shared.map_or(&*self.payload, |digest| &digest.0);
        for part in [self.task.as_bytes(), self.name.as_bytes(), self.place.as_bytes(), &self.digest, payload]
        {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        let digest: [u8; 32] = hash.finalize().into();
        i64::from_le_bytes(*digest.first_chunk().unwrap_or(&[0; 8]))
    }
}

/// A source that a run was started with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Its name, as the run knows it.
    pub path: String,
    /// The SHA-256 of the bytes.
    pub digest: crate::Digest,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// A waitpoint to open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewWaitpoint {
    /// Its id within the run.
    pub request_id: String,
    /// The expected kind of answer, such as `question` or `approval`.
    pub kind: String,
    /// The question, for humans.
    pub prompt: String,
    /// The complete request, in a format that the clients define.
    pub info: Vec<u8>,
    /// Time of the request.
    pub asked_ms: i64,
    /// When the run is resumed without an answer, if ever. Informative only: workers use [`NewStatus::Suspended`].
    pub due_ms: Option<i64>,
    /// Number of required answers; at least 1. Each must come from a different reviewer.
    pub quorum: u32,
}

impl NewWaitpoint {
    /// Returns the signature that binds an answer to its request: another question, or the same one about another
    /// action, has another signature.
    #[must_use]
    pub fn signature(&self, value: &[u8], by: &str, at_ms: i64) -> String {
        let mut hash = Sha256::new();
        let when = at_ms.to_le_bytes();
        let parts: [&[u8]; 7] = [
            self.request_id.as_bytes(),
            self.kind.as_bytes(),
            self.prompt.as_bytes(),
            &self.info,
            value,
            by.as_bytes(),
            &when,
        ];
        for part in parts {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        format!("sha256:{}", crate::Digest(hash.finalize().into()))
    }
}

/// A waitpoint of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waitpoint {
    /// The run.
    pub run: String,
    /// The request.
    pub asked: NewWaitpoint,
    /// The answers so far, in order of arrival.
    pub answers: Vec<Answer>,
    /// When the run closed it: later answers are rejected.
    pub closed_ms: Option<i64>,
}

impl Waitpoint {
    /// Returns whether answers are accepted.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.closed_ms.is_none() && self.answers.len() < self.asked.quorum as usize
    }
}

/// An answer to a [`Waitpoint`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The answer, in a format that the clients define.
    pub value: Vec<u8>,
    /// The reviewer.
    pub by: String,
    /// The time.
    pub at_ms: i64,
    /// A signature over the answer; may be empty.
    pub signature: String,
}
