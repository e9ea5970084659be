//! Runs of programs: their head, their journal, their sources, and what they wait for.
//!
//! A run is written by whoever has the lease of its scope ([`Run::scope`]). Only an answer to something that it waits for
//! comes from elsewhere ([`crate::Store::answer`]).

use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use crate::model::Lease;

/// How a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RunStatus {
    /// Waits for somebody to start it.
    Queued,
    /// Somebody works on it.
    Running,
    /// Waits for an answer or a time, and holds no process.
    Suspended,
    /// Has ended well.
    Completed,
    /// Has ended with an error.
    Failed,
    /// Was running, and its owner has not been heard of for longer than its lease. Never written: it follows from the lease.
    Abandoned,
    /// A user has ended it.
    Cancelled,
    /// A user holds it back: no worker takes it.
    Paused,
}

impl RunStatus {
    /// All of them. The store has their positions.
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

    /// The word for it.
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

    /// The status with that word.
    #[must_use]
    pub fn named(word: &str) -> Option<RunStatus> {
        RunStatus::ALL.into_iter().find(|status| status.word() == word)
    }

    /// Whether nothing can follow: such a run takes no journal and no other status.
    #[must_use]
    pub fn is_end(self) -> bool {
        matches!(self, RunStatus::Completed | RunStatus::Failed | RunStatus::Cancelled)
    }
}

/// What becomes of a run ([`crate::Write::RunStatus`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewStatus {
    /// To be started by a worker.
    Queued {
        /// Not before this time.
        due_ms: i64,
    },
    /// The owner of the lease works on it.
    Running,
    /// It waits. Refused with [`crate::Error::Conflict`] when there are more answers than `answers`: one of them came while
    /// the owner was about to stop, and is to be looked at first.
    Suspended {
        /// When it goes on without an answer, if ever.
        due_ms: Option<i64>,
        /// How many answers the owner has seen ([`Run::answers`]).
        answers: u64,
    },
    /// It has ended well.
    Completed {
        /// The exit code of the program.
        exit_code: i32,
    },
    /// It has ended with an error.
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
    /// The status that a reader sees then.
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

    /// From when on a worker may take it.
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
    /// How it stands, without regard to its lease; see [`Run::status_at`].
    pub status: RunStatus,
    /// When a queued or suspended run may go on, if it does not wait for an answer alone.
    pub due_ms: Option<i64>,
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
    /// How many answers it has got, to all that it has asked for.
    pub answers: u64,
    /// How often somebody began or went on to work on it.
    pub starts: u64,
    /// When it was made.
    pub created_ms: i64,
    /// When somebody worked on it first.
    pub started_ms: Option<i64>,
    /// When it was changed last.
    pub updated_ms: i64,
    /// When it ended.
    pub ended_ms: Option<i64>,
    /// Who has the right to write it; `None` when nobody has.
    pub lease: Option<Lease>,
}

impl Run {
    /// The scope of the lease under which the run with this id is written.
    #[must_use]
    pub fn scope(id: &str) -> String {
        format!("run/{id}")
    }

    /// How it stands at a time: a running one whose lease has run out is abandoned.
    #[must_use]
    pub fn status_at(&self, now_ms: i64) -> RunStatus {
        let held = self.lease.as_ref().is_some_and(|lease| lease.until_ms > now_ms);
        if self.status == RunStatus::Running && !held { RunStatus::Abandoned } else { self.status }
    }
}

/// Which runs to list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunFilter {
    /// Only those that stand so.
    pub status: Option<RunStatus>,
    /// The time at which they do ([`Run::status_at`]).
    pub now_ms: i64,
    /// Only those with a lower number: the last of the page before.
    pub before: Option<u64>,
}

/// What an entry of a journal is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EntryKind {
    /// An effect is about to happen that may not happen twice.
    Begin,
    /// What came of an effect.
    Outcome,
    /// Which of several things came first.
    Order,
    /// Where a task was interrupted.
    Interrupt,
}

impl EntryKind {
    /// All of them.
    pub const ALL: [EntryKind; 4] =
        [EntryKind::Begin, EntryKind::Outcome, EntryKind::Order, EntryKind::Interrupt];

    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            EntryKind::Begin => "begin",
            EntryKind::Outcome => "outcome",
            EntryKind::Order => "order",
            EntryKind::Interrupt => "interrupt",
        }
    }

    /// The kind with that word.
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
    /// How many effects the task had before.
    pub count: u64,
    /// What it is about.
    pub kind: EntryKind,
    /// The effect, such as the name of a builtin.
    pub name: Arc<str>,
    /// Where in the sources; may be empty.
    pub place: Arc<str>,
    /// The digest of the arguments, of whatever length the writer takes; may be empty.
    pub digest: Vec<u8>,
    /// When it was made.
    pub at_ms: i64,
    /// The data, of any size up to 256 MiB. Large ones are kept once under their SHA-256, by the store itself.
    pub payload: Vec<u8>,
}

/// Follows the chain of checksums through a journal.
pub(crate) struct Chain {
    /// The checksum of the entry before; 0 before the first.
    last: i64,
    /// Whether an entry was part of the chain: then all that follow are.
    has_begun: bool,
}

impl Chain {
    /// The chain behind an entry with this checksum.
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
    /// Tells an entry from one in which a byte was changed; a payload that is kept elsewhere stands for its digest. The checksum of the
    /// entry before makes a chain: no entry can be replaced without those that follow. Older entries stand alone.
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

/// Something that a run waits for, to be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewWaitpoint {
    /// Its id within the run.
    pub request_id: String,
    /// What kind of answer is expected, such as `question` or `approval`.
    pub kind: String,
    /// The question, for people.
    pub prompt: String,
    /// All that was asked, in a form that the clients agree on.
    pub info: Vec<u8>,
    /// When it was asked.
    pub asked_ms: i64,
    /// When the run goes on without an answer, if ever. For readers: [`NewStatus::Suspended`] tells workers.
    pub due_ms: Option<i64>,
    /// How many answers it takes; at least 1. Each must be given by another person.
    pub quorum: u32,
}

impl NewWaitpoint {
    /// What ties an answer to what was asked: another question, or the same one about another action, has another signature.
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

/// Something that a run waits for, or has waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waitpoint {
    /// The run.
    pub run: String,
    /// What was asked.
    pub asked: NewWaitpoint,
    /// The answers so far, in the order in which they came.
    pub answers: Vec<Answer>,
    /// When the run closed it: no answer is taken any more.
    pub closed_ms: Option<i64>,
}

impl Waitpoint {
    /// Whether an answer may still be given.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.closed_ms.is_none() && self.answers.len() < self.asked.quorum as usize
    }
}

/// An answer to a [`Waitpoint`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The answer, in a form that the clients agree on.
    pub value: Vec<u8>,
    /// Who gave it.
    pub by: String,
    /// When.
    pub at_ms: i64,
    /// A signature over what was answered; may be empty.
    pub signature: String,
}
