//! Writes: what can be changed in a store, and what comes back. A list of writes happens as a whole or not at all.

use crate::error::{Error, Result};
use crate::model::{Claimed, Digest, Expect, Fence, NewEvent, NewMessage, RecordKind};

/// The longest name of anything, in bytes.
pub const MAX_NAME: usize = 512;

/// The largest value, payload, message, entry or blob, in bytes.
pub const MAX_VALUE: usize = 256 << 20;

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// Prolongs the lease that the write carries.
    Renew {
        /// When it runs out then.
        until_ms: i64,
    },
    /// Gives that lease back; nothing can be written with it any more.
    Release,
    /// Sets a value. Gives [`Written::Version`].
    KvPut {
        /// The name space.
        space: String,
        /// The key.
        key: String,
        /// The value.
        value: Vec<u8>,
        /// What must be there.
        expect: Expect,
    },
    /// Removes a value. Gives [`Written::Done`]: whether there was one.
    KvDelete {
        /// The name space.
        space: String,
        /// The key.
        key: String,
        /// What must be there.
        expect: Expect,
    },
    /// Adds events to a topic. Gives [`Written::Last`]: the id of the last one.
    LogAppend {
        /// The topic.
        topic: String,
        /// The events, at least one.
        events: Vec<NewEvent>,
    },
    /// Forgets the oldest events of a topic; ids go on as before. Gives [`Written::Count`].
    LogTrim {
        /// The topic.
        topic: String,
        /// The newest id that is forgotten.
        through: u64,
    },
    /// Puts a message into a queue. Gives [`Written::Done`]: false when it has one with that id.
    QueuePush {
        /// The queue.
        queue: String,
        /// The message.
        message: NewMessage,
    },
    /// Takes the messages that are due, the longest due first. Gives [`Written::Claimed`].
    QueueClaim {
        /// The queue.
        queue: String,
        /// The time.
        now_ms: i64,
        /// When they come back if nothing is heard of them.
        until_ms: i64,
        /// At most so many.
        limit: usize,
    },
    /// Says that a message is done with; it is removed.
    QueueAck {
        /// The queue.
        queue: String,
        /// The message.
        id: String,
        /// The attempt that it was claimed with.
        attempt: u32,
    },
    /// Says that an attempt failed. Gives [`Written::Done`]: whether there will be another one.
    QueueNack {
        /// The queue.
        queue: String,
        /// The message.
        id: String,
        /// The attempt that it was claimed with.
        attempt: u32,
        /// When to try again; `None` to give up.
        retry_ms: Option<i64>,
        /// What went wrong.
        reason: String,
    },
    /// Asks for more time with a message.
    QueueExtend {
        /// The queue.
        queue: String,
        /// The message.
        id: String,
        /// The attempt that it was claimed with.
        attempt: u32,
        /// When it comes back then.
        until_ms: i64,
    },
    /// Removes a message in whatever state. Gives [`Written::Done`]: whether there was one.
    QueueRemove {
        /// The queue.
        queue: String,
        /// The message.
        id: String,
    },
    /// Makes a run or session, which belongs to the scope of the lease.
    RecordCreate {
        /// Run or session.
        kind: RecordKind,
        /// Its id.
        id: String,
        /// A word for its state.
        status: String,
        /// Facts about it.
        info: Vec<u8>,
        /// The time.
        at_ms: i64,
    },
    /// Changes the head of a run or session.
    RecordUpdate {
        /// Run or session.
        kind: RecordKind,
        /// Its id.
        id: String,
        /// The new state, if it changes.
        status: Option<String>,
        /// The new facts, if they change.
        info: Option<Vec<u8>>,
        /// The time.
        at_ms: i64,
    },
    /// Adds entries. Gives [`Written::Count`]: how many there are now.
    RecordAppend {
        /// Run or session.
        kind: RecordKind,
        /// Its id.
        id: String,
        /// The number of the first of them, from 0: an append that was made before is refused.
        first: u64,
        /// The entries.
        entries: Vec<Vec<u8>>,
        /// The time.
        at_ms: i64,
    },
    /// Cuts the newest messages off a session. Gives [`Written::Count`]: how many were cut off.
    RecordTruncate {
        /// Run or session; a run's journal is refused.
        kind: RecordKind,
        /// Its id.
        id: String,
        /// How many entries stay.
        length: u64,
        /// The time.
        at_ms: i64,
    },
    /// Makes a run or session out of the first entries of another one; the new one belongs to the scope of the lease.
    RecordFork {
        /// Run or session.
        kind: RecordKind,
        /// The one that is copied; it may belong to anybody.
        from: String,
        /// How many of its entries.
        length: u64,
        /// The id of the new one.
        id: String,
        /// The time.
        at_ms: i64,
    },
    /// Removes a run or session with all entries. Gives [`Written::Done`]: whether there was one.
    RecordDelete {
        /// Run or session.
        kind: RecordKind,
        /// Its id.
        id: String,
    },
    /// Keeps bytes under their digest. Gives [`Written::Digest`].
    BlobPut {
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// Removes a blob. Gives [`Written::Done`]: whether there was one.
    BlobDelete {
        /// Its digest.
        digest: Digest,
    },
}

/// What a write gives back; the write says which one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    /// Whether anything was done.
    Done(bool),
    /// The new version of a value.
    Version(u64),
    /// The id of the last event.
    Last(u64),
    /// A number of things.
    Count(u64),
    /// The messages that were claimed.
    Claimed(Vec<Claimed>),
    /// The digest of a blob.
    Digest(Digest),
}

/// Refuses what no store can hold, before anything is written.
pub(crate) fn check(write: &Write) -> Result<()> {
    match write {
        Write::Renew { .. } | Write::Release | Write::BlobDelete { .. } => Ok(()),
        Write::KvPut { space, key, value, .. } => {
            name("name space", space)?;
            name("key", key)?;
            size("value", value)
        }
        Write::KvDelete { space, key, .. } => {
            name("name space", space)?;
            name("key", key)
        }
        Write::LogAppend { topic, events } => {
            name("topic", topic)?;
            if events.is_empty() {
                return Err(Error::invalid("events", "there are none"));
            }
            events.iter().try_for_each(|event| {
                name("kind of event", &event.kind)?;
                size("payload", &event.payload)
            })
        }
        Write::LogTrim { topic, .. } => name("topic", topic),
        Write::QueuePush { queue, message } => {
            name("queue", queue)?;
            name("message id", &message.id)?;
            if message.max_attempts == 0 {
                return Err(Error::invalid("max_attempts", "expected at least 1"));
            }
            size("message", &message.body)
        }
        Write::QueueClaim { queue, now_ms, until_ms, limit } => {
            if until_ms <= now_ms {
                return Err(Error::invalid("until_ms", "a claim must end after it begins"));
            }
            if *limit == 0 {
                return Err(Error::invalid("limit", "expected at least 1"));
            }
            name("queue", queue)
        }
        Write::QueueAck { queue, id, .. }
        | Write::QueueNack { queue, id, .. }
        | Write::QueueExtend { queue, id, .. }
        | Write::QueueRemove { queue, id } => {
            name("queue", queue)?;
            name("message id", id)
        }
        Write::RecordCreate { kind, id, status, info, .. } => {
            name(kind.word(), id)?;
            name("status", status)?;
            size("info", info)
        }
        Write::RecordUpdate { kind, id, status, info, .. } => {
            name(kind.word(), id)?;
            status.as_deref().map_or(Ok(()), |status| name("status", status))?;
            info.as_ref().map_or(Ok(()), |info| size("info", info))
        }
        Write::RecordAppend { kind, id, entries, .. } => {
            name(kind.word(), id)?;
            entries.iter().try_for_each(|entry| size("entry", entry))
        }
        Write::RecordTruncate { kind: RecordKind::Run, .. } => {
            Err(Error::invalid("run", "a journal is never cut; fork the run instead"))
        }
        Write::RecordTruncate { kind, id, .. } | Write::RecordDelete { kind, id } => name(kind.word(), id),
        Write::RecordFork { kind, from, id, .. } => {
            name(kind.word(), from)?;
            name(kind.word(), id)
        }
        Write::BlobPut { bytes } => size("blob", bytes),
    }
}

/// Names are text of some bytes, without NUL.
pub(crate) fn name(what: &str, text: &str) -> Result<()> {
    if text.is_empty() {
        return Err(Error::invalid(what, "the name is empty"));
    }
    if text.len() > MAX_NAME {
        return Err(Error::invalid(
            what,
            format!("the name has {} bytes, at most {MAX_NAME} fit", text.len()),
        ));
    }
    if text.contains('\0') {
        return Err(Error::invalid(what, "the name contains a NUL"));
    }
    Ok(())
}

fn size(what: &str, bytes: &[u8]) -> Result<()> {
    if bytes.len() > MAX_VALUE {
        return Err(Error::invalid(what, format!("{} bytes, at most {MAX_VALUE} fit", bytes.len())));
    }
    Ok(())
}

/// What a record is called in messages.
pub(crate) fn label(kind: RecordKind, id: &str) -> String {
    format!("{} '{id}'", kind.word())
}

/// Compares the version that is there with what the writer expects.
pub(crate) fn expected(space: &str, key: &str, expect: Expect, found: Option<u64>) -> Result<()> {
    let shown = |version: Option<u64>| version.map_or("nothing".to_owned(), |n| format!("version {n}"));
    let wanted = match expect {
        Expect::Anything => return Ok(()),
        Expect::Absent => None,
        Expect::Version(version) => Some(version),
    };
    if wanted == found {
        return Ok(());
    }
    Err(Error::Conflict {
        what: format!("'{key}' in '{space}'"),
        expected: shown(wanted),
        found: shown(found),
    })
}

/// An append that does not begin where the record ends.
pub(crate) fn misplaced(kind: RecordKind, id: &str, first: u64, length: u64) -> Error {
    Error::Conflict {
        what: label(kind, id),
        expected: format!("entry {first} to be the next"),
        found: format!("{length} entries"),
    }
}

/// A fork of more entries than there are.
pub(crate) fn too_short(kind: RecordKind, id: &str, wanted: u64, length: u64) -> Error {
    Error::Conflict {
        what: label(kind, id),
        expected: format!("at least {wanted} entries"),
        found: format!("{length} entries"),
    }
}

/// Compares a fence with the epoch that the store knows: 0 when nobody ever had the lease.
pub(crate) fn fenced(fence: &Fence, current: u64) -> Result<()> {
    if current != 0 && current == fence.epoch {
        return Ok(());
    }
    Err(Error::Fenced { scope: fence.scope.to_string(), epoch: fence.epoch, current })
}
