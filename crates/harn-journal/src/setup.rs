//! What a journal begins with, and why it ends a run.

use std::rc::Rc;
use std::time::Duration;

use harn_system::System;

use crate::entry::{Entry, Place};
use crate::keeper::{Keeper, Trouble};
use crate::op::{Drain, Pending};

/// What holds the program that a journal belongs to.
pub struct Reins {
    /// Says where the program is.
    pub place: Box<dyn Fn() -> Option<Place>>,
    /// Makes it stop.
    pub stop: Box<dyn Fn()>,
    /// Whether somebody else made it stop.
    pub is_stopped: Box<dyn Fn() -> bool>,
}

/// A journal and a program that do not agree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The number of the entry.
    pub seq: u64,
    /// What the journal has there.
    pub was: String,
    /// Where that was in the sources.
    pub was_at: String,
    /// What the program does now.
    pub now: String,
    /// Where it is.
    pub now_at: String,
    /// The digests of both requests, for [`crate::Journal::request`]; 0 when there is no request.
    pub digests: (u64, u64),
}

/// Why a run was stopped from here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Stop {
    /// The program does something else than the journal says.
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
    /// A replay has come to the end of a journal that has no end.
    #[error("the journal ends here: the run was interrupted, or is still going on")]
    End,
    /// A replay has come to where it was to stop.
    #[error("stopped before entry {0}")]
    Until(u64),
    /// The program does nothing but wait.
    #[error("it does nothing but wait")]
    Suspended {
        /// Until then at the longest, in milliseconds since 1970.
        due_ms: Option<i64>,
        /// What it asks of people.
        pending: Vec<Pending>,
    },
    /// The run was asked to make room, and nothing is under way whose outcome is not in the journal.
    #[error("{}", .0.note())]
    Drained(Drain),
    /// A user cancelled the run.
    #[error("cancelled")]
    Cancelled,
    /// Somebody stopped the program: the run can be resumed.
    #[error("interrupted")]
    Interrupted,
    /// A key that the run had is not set.
    #[error("the environment variable {0} is not set; the run had it when it began")]
    MissingKey(String),
}

/// How a resumed run decides about an effect that began before, while no outcome is known.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum InDoubtPolicy {
    /// By the answer of a reviewer. Without one the program gets an error, and the run is suspended if nothing handles it.
    #[default]
    Ask,
    /// The effect happens again.
    Retry,
    /// The effect has this result.
    Skip(serde_json::Value),
}

/// What a journal begins with.
pub struct Setup {
    /// The system that is asked where there is no entry.
    pub inner: Rc<dyn System>,
    /// Where new entries go.
    pub keeper: Box<dyn Keeper>,
    /// The entries that are there.
    pub entries: Vec<Entry>,
    /// Nothing happens outside, and output is written from the beginning.
    pub replay: bool,
    /// Stops before this entry, whether it would be followed or written.
    pub until: Option<u64>,
    /// The names of the keys that are known before the first entry.
    pub secrets: Vec<String>,
    /// What was asked before the program was loaded is asked again: the sources of today.
    pub reload: bool,
    /// How effects in doubt are decided.
    pub in_doubt: InDoubtPolicy,
    /// The arguments of effects are stored in memory, for [`crate::Journal::request`].
    pub keeps_requests: bool,
    /// What is followed is written down again: the journal of a fork.
    pub copies: bool,
    /// A program that does nothing but wait for longer than this is stopped; [`Duration::MAX`]: never. Without it, one that
    /// waits for a person is stopped at once, and another one after [`LONG`].
    pub suspend_after: Option<Duration>,
    /// Whether there are people who can be asked.
    pub people: bool,
}

/// A wait that is worth a new process.
pub const LONG: Duration = Duration::from_secs(5 * 60);

/// A wait that is not, while a person is asked, too.
pub(crate) const SHORT: Duration = Duration::from_secs(10);

impl Setup {
    /// A journal that begins.
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
