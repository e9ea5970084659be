//! Writes: what can be changed in a store, and what comes back. A list of writes happens as a whole or not at all.

use crate::error::{Error, Result};
use crate::model::{Claimed, Digest, Expect, Fence, NewEvent, NewMessage};
use crate::run::{Answer, JournalEntry, NewRun, NewStatus, NewWaitpoint, Run, RunStatus, Waitpoint};

/// The longest name of anything, in bytes.
pub const MAX_NAME: usize = 512;

/// The largest value, payload, message, entry or blob, in bytes.
pub(crate) const MAX_VALUE: usize = 256 << 20;

/// The largest number of entries in a journal.
pub(crate) const MAX_JOURNAL: u64 = 1 << 32;

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
    /// Makes a session, which belongs to the scope of the lease.
    SessionCreate {
        /// Its id.
        id: String,
        /// A word for its state.
        status: String,
        /// Facts about it.
        info: Vec<u8>,
        /// The time.
        at_ms: i64,
    },
    /// Changes the head of a session.
    SessionUpdate {
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
    SessionAppend {
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
    SessionTruncate {
        /// Its id.
        id: String,
        /// How many entries stay.
        length: u64,
        /// The time.
        at_ms: i64,
    },
    /// Makes a session out of the first entries of another one; the new one belongs to the scope of the lease.
    SessionFork {
        /// The one that is copied; it may belong to anybody.
        from: String,
        /// How many of its entries.
        length: u64,
        /// The id of the new one.
        id: String,
        /// The time.
        at_ms: i64,
    },
    /// Removes a session with all entries. Gives [`Written::Done`]: whether there was one.
    SessionDelete {
        /// Its id.
        id: String,
    },
    /// Makes a run. As all writes of a run it needs the lease of [`Run::scope`].
    RunCreate {
        /// The run.
        run: NewRun,
        /// The time.
        at_ms: i64,
    },
    /// Makes a run out of the beginning of another one: with that part of its journal, and its sources. Gives
    /// [`Written::Count`]: the number of entries.
    RunFork {
        /// The run that is copied; it may belong to anybody.
        from: String,
        /// How many entries of its journal.
        length: u64,
        /// The new run.
        run: NewRun,
        /// The time.
        at_ms: i64,
    },
    /// Says how a run stands.
    RunStatus {
        /// The run.
        run: String,
        /// How it stands now.
        status: NewStatus,
        /// A line for people; may be empty.
        note: String,
        /// The time.
        at_ms: i64,
    },
    /// Stores what a try failed with, and counts the try.
    RunFailure {
        /// The run.
        run: String,
        /// What it failed with, in a form that the clients agree on.
        failure: Vec<u8>,
        /// The time.
        at_ms: i64,
    },
    /// Queues a run that has ended; its failed tries are counted from 0 again.
    RunReopen {
        /// The run.
        run: String,
        /// When it may be started.
        due_ms: i64,
        /// The time.
        at_ms: i64,
    },
    /// Changes the facts about a run.
    RunInfo {
        /// The run.
        run: String,
        /// The new facts.
        info: Vec<u8>,
        /// The time.
        at_ms: i64,
    },
    /// Removes a run with all that belongs to it. Gives [`Written::Done`]: whether there was one.
    RunDelete {
        /// The run.
        run: String,
    },
    /// Keeps a source of a run; another one under the same path is replaced. Gives [`Written::Digest`].
    SourcePut {
        /// The run.
        run: String,
        /// The name of the source.
        path: String,
        /// What is in it.
        bytes: Vec<u8>,
    },
    /// Adds entries to the journal of a run. Gives [`Written::Count`]: how many there are now.
    JournalAppend {
        /// The run.
        run: String,
        /// The entries. The first has the number that comes next: an append that was made before is refused.
        entries: Vec<JournalEntry>,
        /// The time.
        at_ms: i64,
    },
    /// Cuts off the entries of a journal from a number on, of a run in any status. Gives [`Written::Count`]: how many there were.
    JournalCut {
        /// The run.
        run: String,
        /// How many entries stay.
        length: u64,
        /// The time.
        at_ms: i64,
    },
    /// Says what a run waits for. Gives [`Written::Done`]: false when it has asked for that before.
    WaitpointOpen {
        /// The run.
        run: String,
        /// What it waits for.
        waitpoint: NewWaitpoint,
    },
    /// Answers what a run waits for, as [`crate::Store::answer`], by its owner: with an answer that came with the run, or
    /// out of the program itself.
    WaitpointAnswer {
        /// The run.
        run: String,
        /// The id of what was asked.
        request_id: String,
        /// The answer.
        answer: Answer,
    },
    /// Says that a run waits for this no longer. Gives [`Written::Done`]: false when it was closed before.
    WaitpointClose {
        /// The run.
        run: String,
        /// The id of what was asked.
        request_id: String,
        /// The time.
        at_ms: i64,
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
        Write::SessionCreate { id, status, info, .. } => {
            name("session", id)?;
            name("status", status)?;
            size("info", info)
        }
        Write::SessionUpdate { id, status, info, .. } => {
            name("session", id)?;
            status.as_deref().map_or(Ok(()), |status| name("status", status))?;
            info.as_ref().map_or(Ok(()), |info| size("info", info))
        }
        Write::SessionAppend { id, entries, .. } => {
            name("session", id)?;
            entries.iter().try_for_each(|entry| size("entry", entry))
        }
        Write::SessionTruncate { id, .. } | Write::SessionDelete { id } => name("session", id),
        Write::SessionFork { from, id, .. } => {
            name("session", from)?;
            name("session", id)
        }
        Write::BlobPut { bytes } => size("blob", bytes),
        Write::RunCreate { run, .. } => new_run(run),
        Write::RunFork { from, run, .. } => name("run", from).and_then(|()| new_run(run)),
        Write::RunStatus { run, note, .. } => name("run", run).and_then(|()| size("note", note.as_bytes())),
        Write::RunInfo { run, info, .. } => name("run", run).and_then(|()| size("info", info)),
        Write::RunFailure { run, failure, .. } => name("run", run).and_then(|()| size("failure", failure)),
        Write::RunReopen { run, .. } => name("run", run),
        Write::RunDelete { run } | Write::JournalCut { run, .. } => name("run", run),
        Write::SourcePut { run, path, bytes } => {
            name("run", run)?;
            text("path of the source", path)?;
            size("source", bytes)
        }
        Write::JournalAppend { run, entries, .. } => {
            name("run", run)?;
            entries.iter().try_for_each(|entry| {
                text("task", &entry.task)?;
                text("name of the effect", &entry.name)?;
                text("place", &entry.place)?;
                size("payload", &entry.payload)
            })
        }
        Write::WaitpointOpen { run, waitpoint } => {
            name("run", run)?;
            name("request id", &waitpoint.request_id)?;
            name("kind of waitpoint", &waitpoint.kind)?;
            text("prompt", &waitpoint.prompt)?;
            if waitpoint.quorum == 0 {
                return Err(Error::invalid("quorum", "expected at least 1"));
            }
            size("info", &waitpoint.info)
        }
        Write::WaitpointAnswer { run, answer, .. } => name("run", run).and_then(|()| check_answer(answer)),
        Write::WaitpointClose { run, request_id, .. } => {
            name("run", run).and_then(|()| name("request id", request_id))
        }
    }
}

fn new_run(run: &NewRun) -> Result<()> {
    name("run", &run.id)?;
    text("program", &run.program)?;
    run.args.iter().try_for_each(|arg| text("argument", arg))?;
    if !matches!(run.status, NewStatus::Queued { .. } | NewStatus::Running) {
        return Err(Error::invalid("status", "a run begins queued or running"));
    }
    size("info", &run.info)
}

/// Text of any length up to that of a value, without NUL.
fn text(what: &str, text: &str) -> Result<()> {
    if text.contains('\0') {
        return Err(Error::invalid(what, "it contains a NUL"));
    }
    size(what, text.as_bytes())
}

/// What an answer must have.
pub(crate) fn check_answer(answer: &Answer) -> Result<()> {
    name("name of the person", &answer.by)?;
    text("signature", &answer.signature)?;
    size("answer", &answer.value)
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

/// What a session is called in messages.
pub(crate) fn label(id: &str) -> String {
    format!("session '{id}'")
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

/// An append that does not begin where the session ends.
pub(crate) fn misplaced(id: &str, first: u64, length: u64) -> Error {
    Error::Conflict {
        what: label(id),
        expected: format!("entry {first} to be the next"),
        found: format!("{length} entries"),
    }
}

/// A fork of more entries than there are.
pub(crate) fn too_short(id: &str, wanted: u64, length: u64) -> Error {
    Error::Conflict {
        what: label(id),
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

/// What a run is called in messages.
pub(crate) fn run_label(id: &str) -> String {
    format!("run '{id}'")
}

/// Whether a lease is the one of a run.
pub(crate) fn of_run(fence: &Fence, id: &str) -> Result<()> {
    let scope = Run::scope(id);
    if *fence.scope == *scope {
        return Ok(());
    }
    Err(Error::Owned { what: run_label(id), scope })
}

/// Refuses changes to a run that has ended.
pub(crate) fn goes_on(id: &str, status: RunStatus) -> Result<()> {
    if !status.is_end() {
        return Ok(());
    }
    let (expected, found) = ("a run that has not ended".to_owned(), status.word().to_owned());
    Err(Error::Conflict { what: run_label(id), expected, found })
}

/// Refuses to queue a run again that has not ended.
pub(crate) fn has_ended(id: &str, status: RunStatus) -> Result<()> {
    if status.is_end() {
        return Ok(());
    }
    let (expected, found) = ("a run that has ended".to_owned(), status.word().to_owned());
    Err(Error::Conflict { what: run_label(id), expected, found })
}

/// Refuses to suspend a run that has got an answer which its owner has not seen.
pub(crate) fn all_seen(id: &str, status: NewStatus, found: u64) -> Result<()> {
    match status {
        NewStatus::Suspended { answers, .. } if answers != found => Err(Error::Conflict {
            what: run_label(id),
            expected: format!("{answers} answers"),
            found: format!("{found} answers"),
        }),
        _ => Ok(()),
    }
}

/// Refuses entries that do not go on where the journal ends.
pub(crate) fn in_order(id: &str, entries: &[JournalEntry], length: u64) -> Result<()> {
    match (length..).zip(entries).find(|(next, entry)| entry.seq != *next) {
        None if length.saturating_add(entries.len() as u64) > MAX_JOURNAL => Err(Error::invalid(
            run_label(id),
            format!("a journal has at most {MAX_JOURNAL} entries: let the program hand over to a new run"),
        )),
        None => Ok(()),
        Some((next, entry)) => Err(Error::Conflict {
            what: format!("the journal of {}", run_label(id)),
            expected: format!("entry {} to be the next", entry.seq),
            found: format!("{next} entries"),
        }),
    }
}

/// Refuses a fork of more entries than there are.
pub(crate) fn long_enough(id: &str, wanted: u64, length: u64) -> Result<()> {
    if wanted <= length {
        return Ok(());
    }
    Err(Error::Conflict {
        what: run_label(id),
        expected: format!("at least {wanted} entries"),
        found: format!("{length} entries"),
    })
}

/// What a request is called in messages.
pub(crate) fn request_label(run: &str, request_id: &str) -> String {
    format!("request '{request_id}' of run '{run}'")
}

/// Refuses an answer that comes too late, or twice from the same person.
pub(crate) fn answerable(waitpoint: &Waitpoint, by: &str) -> Result<()> {
    let what = request_label(&waitpoint.run, &waitpoint.asked.request_id);
    if waitpoint.answers.iter().any(|answer| answer.by == by) {
        return Err(Error::Exists { what: format!("an answer of {by} to {what}") });
    }
    if waitpoint.is_open() {
        return Ok(());
    }
    let found = match waitpoint.closed_ms {
        Some(_) => "closed by the run".to_owned(),
        None => {
            format!("answered by {}", waitpoint.answers.iter().map(|a| &*a.by).collect::<Vec<_>>().join(", "))
        }
    };
    Err(Error::Conflict { what, expected: "an open request".to_owned(), found })
}
