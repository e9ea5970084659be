//! Settings of a journal, and reasons to stop a run.

use std::rc::Rc;
use std::time::Duration;

use harn_system::System;

use crate::entry::{Entry, Place};
use crate::keeper::{Keeper, Trouble};
use crate::op::{Drain, Pending};

/// Control over the program that a journal belongs to.
pub struct Reins {
    /// Returns the current place of the program.
    pub place: Box<dyn Fn() -> Option<Place>>,
    /// Stops the program.
    pub stop: Box<dyn Fn()>,
    /// Returns whether the run was stopped from outside.
    pub is_stopped: Box<dyn Fn() -> bool>,
}

/// A difference between a journal and a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Number of the entry.
    pub seq: u64,
    /// The recorded request.
    pub was: String,
    /// Its place in the sources.
    pub was_at: String,
    /// The request that the program makes now.
    pub now: String,
    /// The current place.
    pub now_at: String,
    /// The digests of both requests, for [`crate::Journal::request`]; 0 if there is no request.
    pub digests: (u64, u64),
}

/// Why the journal stopped a run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Stop {
    /// The program differs from the journal.
    #[error("the program does something else than its journal says: entry {} was {} at {}, now it is {} at {}", .0.seq, .0.was, .0.was_at, .0.now, .0.now_at)]
    Difference(Box<Difference>),
    /// The journal cannot be written.
    #[error("the journal cannot be written: {0}")]
    Unkept(Trouble),
    /// The journal cannot be read.
    #[error(
        "entry {0} of the journal cannot be read: it was written by another version of Harn, or it is damaged"
    )]
    Unreadable(u64),
    /// A replay has reached the end of a journal without an end entry.
    #[error("the journal ends here: the run was interrupted, or is still going on")]
    End,
    /// A replay has reached the entry at which it should stop.
    #[error("stopped before entry {0}")]
    Until(u64),
    /// Every operation of the program waits.
    #[error("it does nothing but wait")]
    Suspended {
        /// When the run is due at the latest, in milliseconds since 1970.
        due_ms: Option<i64>,
        /// Its open requests to humans.
        pending: Vec<Pending>,
    },
    /// The run was asked to make room, and nothing is under way whose outcome is not in the journal.
    #[error("{}", .0.note())]
    Drained(Drain),
    /// A user cancelled the run.
    #[error("cancelled")]
    Cancelled,
    /// The program was interrupted. The run can be resumed.
    #[error("interrupted")]
    Interrupted,
    /// A key that the run had is not set.
    #[error("the environment variable {0} is not set; the run had it when it began")]
    MissingKey(String),
}

/// How a resumed run decides about effects in doubt.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum InDoubtPolicy {
    /// A reviewer decides. Without an answer the program gets an error, and the run is suspended if it is not
    /// handled.
    #[default]
    Ask,
    /// Repeats the effect.
    Retry,
    /// Uses this result.
    Skip(serde_json::Value),
}

/// Settings of a journal.
pub struct Setup {
    /// The system that answers requests without an entry.
    pub inner: Rc<dyn System>,
    /// The destination of new entries.
    pub keeper: Box<dyn Keeper>,
    /// The existing entries.
    pub entries: Vec<Entry>,
    /// Executes no effects, and prints the output from the beginning.
    pub replay: bool,
    /// Stops before this entry, followed or new.
    pub until: Option<u64>,
    /// Names of the keys that are known before the first entry.
    pub secrets: Vec<String>,
    /// Requests before the program was loaded are made again: loads the current sources.
    pub reload: bool,
    /// The decision about effects in doubt.
    pub in_doubt: InDoubtPolicy,
    /// Stores the arguments of effects in memory, for [`crate::Journal::request`].
    pub keeps_requests: bool,
    /// Followed entries are written again: the journal of a fork.
    pub copies: bool,
    /// Suspends a program that only waits for longer than this; [`Duration::MAX`]: never. By default a wait for a
    /// human suspends at once, another one after [`LONG`].
    pub suspend_after: Option<Duration>,
    /// Whether humans can answer requests.
    pub people: bool,
}

/// A wait that justifies a new process.
pub const LONG: Duration = Duration::from_secs(5 * 60);

/// A wait that does not, while a human is asked too.
pub(crate) const SHORT: Duration = Duration::from_secs(10);

impl Setup {
    /// Creates the settings of a new journal.
    pub fn new(inner: Rc<dyn System>, keeper: Box<dyn Keeper>) -> Setup {
        Setup {
            inner,
            keeper,
            entries: Vec::new(),
            replay: false,
            until: None,
            secrets: Vec::new(),
            reload: false,
            in_doubt: InDoubtPolicy::Ask,
            keeps_requests: false,
            copies: false,
            suspend_after: None,
            people: true,
        }
    }
}
