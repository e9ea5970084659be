//! The data types of a store. All times are milliseconds since 1970-01-01 UTC, given by the caller.

use std::fmt;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use crate::error::{Error, Result};

/// The right to write for a scope, for some time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The scope of the lease, such as `run/7c0e`.
    pub scope: String,
    /// The owner: a name that no two processes share. Empty without an owner.
    pub owner: String,
    /// Grows each time the lease changes hands.
    pub epoch: u64,
    /// The expiry. Afterwards others can take the lease; until then, and until they do, its owner can write.
    pub until_ms: i64,
}

impl Lease {
    /// Returns the fence for the writes of the owner.
    #[must_use]
    pub fn fence(&self) -> Fence {
        Fence { scope: self.scope.as_str().into(), epoch: self.epoch }
    }
}

/// Proof of a lease: every write carries one, and is rejected after the lease has a new owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    /// The scope of the lease.
    pub scope: Arc<str>,
    /// Its epoch when it was given.
    pub epoch: u64,
}

/// A value of the key-value store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The value.
    pub value: Vec<u8>,
    /// Changes with every write; no two writes of one store have the same.
    pub version: u64,
}

/// The precondition of a write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expect {
    /// Any state.
    #[default]
    Anything,
    /// No value exists.
    Absent,
    /// The value has this version.
    Version(u64),
}

/// An event to be added to a topic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewEvent {
    /// What kind of event.
    pub kind: String,
    /// Its data, in a form that the clients agree on.
    pub payload: Vec<u8>,
    /// Facts about it, in the order given.
    pub headers: Vec<(String, String)>,
    /// When it happened.
    pub at_ms: i64,
}

/// An event of a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Consecutive number in the topic, from 1.
    pub id: u64,
    /// The event.
    pub event: NewEvent,
}

/// A topic of the event log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topic {
    /// Its name.
    pub name: String,
    /// The id of the newest event, whether it is still there or not; 0 without one.
    pub last: u64,
    /// How many events are there.
    pub count: u64,
}

/// A message to be put into a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewMessage {
    /// Its id. A message is not added while the queue has another one with the same id.
    pub id: String,
    /// The content.
    pub body: Vec<u8>,
    /// The earliest time of the first claim.
    pub ready_ms: i64,
    /// How often the message is claimed before it is dead; at least 1.
    pub max_attempts: u32,
}

/// A claimed message. It is delivered again if it is not answered in time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimed {
    /// Its id.
    pub id: String,
    /// The content.
    pub body: Vec<u8>,
    /// The number of this attempt, from 1. Id and attempt are the receipt for an answer.
    pub attempt: u32,
}

/// A message that has used all its attempts, or was given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dead {
    /// Its id.
    pub id: String,
    /// The content.
    pub body: Vec<u8>,
    /// How often it was tried.
    pub attempts: u32,
    /// The reason that the last worker reported, or empty.
    pub reason: String,
}

/// How many messages of a queue are in which state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueStats {
    /// May be claimed now.
    pub ready: u64,
    /// Wait for their time.
    pub delayed: u64,
    /// Are claimed.
    pub claimed: u64,
    /// Are dead.
    pub dead: u64,
}

/// The head of a session: a conversation, of which the entries are the messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Its id.
    pub id: String,
    /// The scope of the lease under which it was created; only that scope can write it.
    pub scope: String,
    /// The name of its state, such as `running`.
    pub status: String,
    /// Metadata, in a format that the clients define.
    pub info: Vec<u8>,
    /// The number of its entries.
    pub length: u64,
    /// When it was made.
    pub created_ms: i64,
    /// When it was changed last.
    pub updated_ms: i64,
}

/// The SHA-256 of some bytes: the name of a blob.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// The digest of some bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Digest {
        Digest(Sha256::digest(bytes).into())
    }

    /// Parses 64 hexadecimal digits.
    ///
    /// # Errors
    /// `text` has another form.
    pub fn parse(text: &str) -> Result<Digest> {
        let wrong = || Error::invalid("digest", format!("expected 64 hexadecimal digits, got '{text}'"));
        if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        let mut out = [0; 32];
        for (byte, pair) in out.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            let pair = std::str::from_utf8(pair).map_err(|_| wrong())?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| wrong())?;
        }
        Ok(Digest(out))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
