//! The entries of a journal.

use std::sync::Arc;

use harn_store::{EntryKind, JournalEntry};
use serde::{Deserialize, Serialize};

use crate::secrets::Secrets;

/// The format of the journals that this version writes. It reads all formats from 0 on. A new kind of entry, a new
/// effect, another digest of arguments or another form of an answer is a new format.
pub const FORMAT: u64 = 2;

/// The place of an entry that says how much a run had printed when it was retried.
const RETRY: &str = "retry";

/// The event of an entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum What {
    /// An effect that must not be repeated is about to happen.
    Begin {
        /// Name of the effect, such as `append`.
        name: String,
        /// Description for humans.
        note: String,
        /// Digest of the arguments.
        digest: u64,
        /// The previous state, as far as it shows whether the effect happened.
        before: Option<u64>,
    },
    /// The answer of an immediate effect.
    Call {
        /// Name of the effect.
        name: String,
        /// Description for humans.
        note: String,
        /// Digest of the arguments.
        digest: u64,
        /// The answer.
        #[serde(with = "serde_bytes")]
        outcome: Vec<u8>,
    },
    /// An operation has ended, and its result is delivered.
    Finish {
        /// Name of the effect.
        name: String,
        /// Description for humans.
        note: String,
        /// Digest of the arguments.
        digest: u64,
        /// Number of the operation.
        op: u64,
        /// How often the busy program has polled for results since the last entry of this kind.
        looks: u32,
        /// Whether no task was ready.
        idle: bool,
        /// The clocks at the delivery.
        clock: (i64, u64),
        /// The answer.
        #[serde(with = "serde_bytes")]
        outcome: Vec<u8>,
    },
    /// The clocks have moved.
    Clock {
        /// The number of the look since the last entry that shows it; 0: the clocks were set back while no process
        /// executed the run.
        look: u32,
        /// Milliseconds since 1970, and monotonic nanoseconds.
        clock: (i64, u64),
    },
    /// How much of the output was written.
    Printed {
        /// Bytes on standard output.
        out: u64,
        /// Bytes on standard error.
        err: u64,
    },
    /// The program is loaded and begins.
    Program,
    /// How much the program had printed without a delivery before. The output need not be written yet.
    Printing {
        /// Bytes on standard output.
        out: u64,
        /// Bytes on standard error.
        err: u64,
    },
    /// The answers that the runtime received before the program or between two of its statements, in place of an entry for each.
    Lookups(Lookups),
}

/// Answers that the runtime received. Each entry costs a row of a store and an index entry, and the runtime looks up some dozen
/// facts for each run, most of them several times.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lookups {
    /// The answers that differ from each other.
    answers: Vec<Lookup>,
    /// Which answer each request received.
    order: Vec<u32>,
}

/// A request of the runtime and its answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Lookup {
    name: String,
    note: String,
    digest: u64,
    #[serde(with = "serde_bytes")]
    outcome: Vec<u8>,
}

impl Lookups {
    /// Creates the entry of one answer.
    pub(crate) fn of(name: String, note: String, digest: u64, outcome: Vec<u8>) -> Lookups {
        Lookups { answers: vec![Lookup { name, note, digest, outcome }], order: vec![0] }
    }

    /// Adds the answers of another entry.
    pub(crate) fn append(&mut self, other: Lookups) {
        let places: Vec<u32> = other
            .answers
            .into_iter()
            .map(|new| {
                let known = self.answers.iter().position(|known| *known == new);
                if known.is_none() {
                    self.answers.push(new);
                }
                u32::try_from(known.unwrap_or(self.answers.len() - 1)).unwrap_or(u32::MAX)
            })
            .collect();
        self.order.extend(other.order.into_iter().filter_map(|at| places.get(at as usize)));
    }

    fn calls(self) -> impl Iterator<Item = What> {
        let Lookups { answers, order } = self;
        order.into_iter().filter_map(move |at| {
            let Lookup { name, note, digest, outcome } = answers.get(at as usize)?.clone();
            Some(What::Call { name, note, digest, outcome })
        })
    }
}

/// A place in the execution of a program.
#[derive(Debug, Clone)]
pub struct Place {
    /// The path of the task: numbers of children from the root, such as `0.2.1`.
    pub task: Arc<str>,
    /// File and line; may be empty.
    pub at: Arc<str>,
}

/// An entry of a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Number of the entry, from 0.
    pub seq: u64,
    /// The path of the task.
    pub task: Arc<str>,
    /// Number of earlier effects of the task.
    pub count: u64,
    /// Place in the sources; may be empty.
    pub place: Arc<str>,
    /// Time of the entry.
    pub at_ms: i64,
    /// The event.
    pub what: What,
}

impl What {
    /// Returns the name of the effect.
    pub fn name(&self) -> &str {
        match self {
            What::Begin { name, .. } | What::Call { name, .. } | What::Finish { name, .. } => name,
            What::Clock { .. } => "clock",
            What::Printed { .. } => "printed",
            What::Program => "program",
            What::Printing { .. } => "printing",
            What::Lookups(_) => "lookups",
        }
    }

    /// Returns the description for humans.
    pub fn note(&self) -> &str {
        match self {
            What::Begin { note, .. } | What::Call { note, .. } | What::Finish { note, .. } => note,
            What::Clock { .. }
            | What::Printed { .. }
            | What::Printing { .. }
            | What::Program
            | What::Lookups(_) => "",
        }
    }

    /// Replaces keys by their names in the description.
    pub(crate) fn without_keys(mut self, secrets: &Secrets) -> What {
        if secrets.is_empty() {
            return self;
        }
        match &mut self {
            What::Begin { note, .. } | What::Call { note, .. } | What::Finish { note, .. } => {
                *note = secrets.named(note);
            }
            What::Lookups(lookups) => {
                lookups.answers.iter_mut().for_each(|answer| answer.note = secrets.named(&answer.note));
            }
            What::Clock { .. } | What::Printed { .. } | What::Printing { .. } | What::Program => {}
        }
        self
    }

    fn kind(&self) -> EntryKind {
        match self {
            What::Begin { .. } => EntryKind::Begin,
            What::Call { .. } | What::Finish { .. } => EntryKind::Outcome,
            What::Clock { .. } => EntryKind::Interrupt,
            What::Printed { .. } | What::Printing { .. } | What::Program | What::Lookups(_) => {
                EntryKind::Order
            }
        }
    }

    pub(crate) fn digest(&self) -> u64 {
        match self {
            What::Begin { digest, .. } | What::Call { digest, .. } | What::Finish { digest, .. } => *digest,
            What::Clock { .. }
            | What::Printed { .. }
            | What::Printing { .. }
            | What::Program
            | What::Lookups(_) => 0,
        }
    }

    /// Returns whether the entry is an effect, and not only a time or output.
    pub fn is_effect(&self) -> bool {
        matches!(self, What::Call { .. } | What::Finish { .. })
    }
}

/// Yields the entries that an entry contains.
pub(crate) fn unpack(entry: Entry) -> impl Iterator<Item = Entry> {
    let Entry { seq, task, count, place, at_ms, what } = entry;
    let (lookups, what) = match what {
        What::Lookups(lookups) => (lookups, None),
        what => (Lookups::default(), Some(what)),
    };
    let all = what.into_iter().chain(lookups.calls());
    all.map(move |what| Entry { seq, task: task.clone(), count, place: place.clone(), at_ms, what })
}

impl Entry {
    /// Returns the entry after which a retried run continues; `printed` is what the failed try has written.
    pub(crate) fn retry(seq: u64, printed: (u64, u64), at_ms: i64) -> Entry {
        let what = What::Printed { out: printed.0, err: printed.1 };
        Entry { seq, task: "0".into(), count: 0, place: RETRY.into(), at_ms, what }
    }

    /// Returns whether a retried run continues after the entry. What was printed later belongs to the failed try.
    pub(crate) fn is_retry(&self) -> bool {
        matches!(self.what, What::Printed { .. }) && &*self.place == RETRY
    }

    /// Converts to the form of a store.
    pub fn to_store(&self) -> JournalEntry {
        JournalEntry {
            seq: self.seq,
            task: self.task.clone(),
            count: self.count,
            kind: self.what.kind(),
            name: self.what.name().into(),
            place: self.place.clone(),
            digest: self.what.digest().to_le_bytes().to_vec(),
            at_ms: self.at_ms,
            // This serialization cannot fail.
            payload: postcard::to_stdvec(&self.what).unwrap_or_default(),
        }
    }

    /// Reads an entry from a store; `None` if it has no format of this version.
    pub fn from_store(entry: &JournalEntry) -> Option<Entry> {
        Some(Entry {
            seq: entry.seq,
            task: entry.task.clone(),
            count: entry.count,
            place: entry.place.clone(),
            at_ms: entry.at_ms,
            what: postcard::from_bytes(&entry.payload).ok()?,
        })
    }
}

/// A digest of bytes that is stable across versions. It serves comparison, not security.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Digester(u64);

impl Digester {
    pub(crate) fn new() -> Digester {
        Digester(0xCBF2_9CE4_8422_2325)
    }

    fn word(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(0x0000_0100_0000_01B3);
        self.0 ^= self.0 >> 29;
    }

    /// Adds bytes to the digest.
    pub(crate) fn add(mut self, bytes: &[u8]) -> Digester {
        self.word(bytes.len() as u64);
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.word(u64::from_le_bytes(*word));
        }
        for byte in rest {
            self.word(u64::from(*byte));
        }
        self
    }

    pub(crate) fn end(self) -> u64 {
        self.0
    }
}

/// Returns the digest of several pieces.
pub(crate) fn digest<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> u64 {
    pieces.into_iter().fold(Digester::new(), Digester::add).end()
}
