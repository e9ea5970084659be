//! Writes: all possible changes of a store, and their results. A list of writes is one transaction.

use crate::error::{Error, Result};
use crate::model::{Claimed, Digest, Expect, Fence, NewEvent, NewMessage};
use crate::run::{Answer, JournalEntry, NewRun, NewStatus, NewWaitpoint, Run, RunStatus, Waitpoint};
use crate::scheduling::{RunQueue, Scheduling};

/// Maximum length of a name, in bytes.
pub const MAX_NAME: usize = 512;

/// Maximum size of a value, payload, message, entry or blob, in bytes.
pub(crate) const MAX_VALUE: usize = 256 << 20;

/// Maximum number of entries in a journal.
pub(crate) const MAX_JOURNAL: u64 = 1 << 32;

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// Extends the lease of the write.
    Renew {
        /// The new expiry.
        until_ms: i64,
    },
    /// Releases the lease; later writes with it are rejected.
    Release,
    /// Sets a value. Returns [`Written::Version`].
    KvPut {
        /// The namespace.
        space: String,
        /// The key.
        key: String,
        /// The value.
        value: Vec<u8>,
        /// The precondition.
        expect: Expect,
    },
    /// Removes a value. Returns [`Written::Done`]: whether it existed.
    KvDelete {
        /// The namespace.
        space: String,
        /// The key.
        key: String,
        /// The precondition.
        expect: Expect,
    },
    /// Adds events to a topic. Returns [`Written::Last`]: the id of the last one.
    LogAppend {
        /// The topic.
        topic: String,
        /// The events, at least one.
        events: Vec<NewEvent>,
    },
    /// Removes the oldest events of a topic; ids continue. Returns [`Written::Count`].
    LogTrim {
        /// The topic.
        topic: String,
        /// The last id to remove.
        through: u64,
    },
    /// Adds a message to a queue. Returns [`Written::Done`]: false if its id exists already.
    QueuePush {
        /// The queue.
        queue: String,
        /// The message.
        message: NewMessage,
    },
    /// Claims due messages, the longest due first. Returns [`Written::Claimed`].
    QueueClaim {
        /// The queue.
        queue: String,
        /// The time.
        now_ms: i64,
        /// When unanswered messages are delivered again.
        until_ms: i64,
        /// Maximum number of messages.
        limit: usize,
    },
    /// Acknowledges and removes a message.
    QueueAck {
        /// The queue.
        queue: String,
        /// The message.
        id: String,
        /// The attempt of the claim.
        attempt: u32,
    },
    /// Reports a failed attempt. Returns [`Written::Done`]: whether there will be another one.
    QueueNack {
        /// The queue.
        queue: String,
        /// The message.
        id: String,
        /// The attempt of the claim.
        attempt: u32,
        /// When to try again; `None` to give up.
        retry_ms: Option<i64>,
        /// The error message.
        reason: String,
    },
    /// Extends the time of a claim.
    QueueExtend {
        /// The queue.
        queue: String,
        /// The message.
        id: String,
        /// The attempt of the claim.
        attempt: u32,
        /// The new time of delivery.
        until_ms: i64,
    },
    /// Removes a message in any state. Returns [`Written::Done`]: whether it existed.
    QueueRemove {
        /// The queue.
        queue: String,
        /// The message.
        id: String,
    },
    /// Creates a session, which belongs to the scope of the lease.
    SessionCreate {
        /// Its id.
        id: String,
        /// The name of its state.
        status: String,
        /// Metadata.
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
        /// New metadata, if it changes.
        info: Option<Vec<u8>>,
        /// The time.
        at_ms: i64,
    },
    /// Adds entries. Returns [`Written::Count`]: their total number.
    SessionAppend {
        /// Its id.
        id: String,
        /// Number of the first entry, from 0: a repeated append is rejected.
        first: u64,
        /// The entries.
        entries: Vec<Vec<u8>>,
        /// The time.
        at_ms: i64,
    },
    /// Removes the newest messages of a session. Returns [`Written::Count`]: how many were removed.
    SessionTruncate {
        /// Its id.
        id: String,
        /// Number of entries to retain.
        length: u64,
        /// The time.
        at_ms: i64,
    },
    /// Creates a session from the first entries of another one; it belongs to the scope of the lease.
    SessionFork {
        /// The session that is copied, of any owner.
        from: String,
        /// Number of copied entries.
        length: u64,
        /// The id of the new one.
        id: String,
        /// The time.
        at_ms: i64,
    },
    /// Removes a session with all entries. Returns [`Written::Done`]: whether it existed.
    SessionDelete {
        /// Its id.
        id: String,
    },
    /// Creates a run. Like all writes of a run, this needs the lease of [`Run::scope`].
    RunCreate {
        /// The run.
        run: NewRun,
        /// The time.
        at_ms: i64,
    },
    /// Creates a run from the beginning of another one: with that part of its journal, and its sources. Returns
    /// [`Written::Count`]: the number of entries.
    RunFork {
        /// The run that is copied, of any owner.
        from: String,
        /// Number of copied journal entries.
        length: u64,
        /// The new run.
        run: NewRun,
        /// The time.
        at_ms: i64,
    },
    /// Sets the status of a run.
    RunStatus {
        /// The run.
        run: String,
        /// The new status.
        status: NewStatus,
        /// A note for humans; may be empty.
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
    /// Changes the metadata of a run.
    RunInfo {
        /// The run.
        run: String,
        /// The new metadata.
        info: Vec<u8>,
        /// The time.
        at_ms: i64,
    },
    /// Removes a run with all its data. Returns [`Written::Done`]: whether it existed.
    RunDelete {
        /// The run.
        run: String,
    },
    /// Stores a source of a run; replaces one with the same path. Returns [`Written::Digest`].
    SourcePut {
        /// The run.
        run: String,
        /// The name of the source.
        path: String,
        /// The content.
        bytes: Vec<u8>,
    },
    /// Adds entries to the journal of a run. Returns [`Written::Count`]: their total number.
    JournalAppend {
        /// The run.
        run: String,
        /// The entries. The first has the next number: a repeated append is rejected.
        entries: Vec<JournalEntry>,
        /// The time.
        at_ms: i64,
    },
    /// Removes the entries of a journal from a number on, for a run in any status. Returns [`Written::Count`]: how
    /// many were removed.
    JournalCut {
        /// The run.
        run: String,
        /// Number of entries to retain.
        length: u64,
        /// The time.
        at_ms: i64,
    },
    /// Opens a waitpoint of a run. Returns [`Written::Done`]: false if it exists already.
    WaitpointOpen {
        /// The run.
        run: String,
        /// The waitpoint.
        waitpoint: NewWaitpoint,
    },
    /// Answers what a run waits for, as [`crate::Store::answer`], by its owner: with an answer that came with the run, or
    /// out of the program itself.
    WaitpointAnswer {
        /// The run.
        run: String,
        /// The id of the request.
        request_id: String,
        /// The answer.
        answer: Answer,
    },
    /// Closes a waitpoint. Returns [`Written::Done`]: false if it was closed before.
    WaitpointClose {
        /// The run.
        run: String,
        /// The id of the request.
        request_id: String,
        /// The time.
        at_ms: i64,
    },
    /// Stores bytes under their digest. Returns [`Written::Digest`].
    BlobPut {
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// Removes a blob. Returns [`Written::Done`]: whether it existed.
    BlobDelete {
        /// Its digest.
        digest: Digest,
    },
}

/// The result of a write; each write documents its variant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    /// Whether the write changed data.
    Done(bool),
    /// The new version of a value.
    Version(u64),
    /// The id of the last event.
    Last(u64),
    /// A number.
    Count(u64),
    /// The messages that were claimed.
    Claimed(Vec<Claimed>),
    /// The digest of a blob.
    Digest(Digest),
}

/// Rejects invalid writes before anything is written.
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
            source(path, bytes)
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

/// Checks a source.
pub(crate) fn source(path: &str, bytes: &[u8]) -> Result<()> {
    text("path of the source", path)?;
    size("source", bytes)
}

/// Checks a new run.
pub(crate) fn new_run(run: &NewRun) -> Result<()> {
    name("run", &run.id)?;
    scheduling(&run.scheduling)?;
    text("program", &run.program)?;
    run.args.iter().try_for_each(|arg| text("argument", arg))?;
    if !matches!(run.status, NewStatus::Queued { .. } | NewStatus::Running) {
        return Err(Error::invalid("status", "a run begins queued or running"));
    }
    size("info", &run.info)
}

/// Rejects invalid names and limits.
pub(crate) fn queue(queue: &RunQueue) -> Result<()> {
    name("queue", &queue.name)?;
    let limits = &queue.limits;
    let rates = [limits.rate, limits.group_rate];
    let counts = [limits.concurrency, limits.group_concurrency, rates[0].map(|rate| rate.count)];
    let is_wrong = counts.into_iter().chain([rates[1].map(|rate| rate.count)]).flatten().any(|n| n == 0)
        || rates.into_iter().flatten().any(|rate| rate.period_ms <= 0);
    match is_wrong {
        true => Err(Error::invalid(format!("limits of queue '{}'", queue.name), "expected at least 1")),
        false => Ok(()),
    }
}

/// Rejects an invalid scheduling.
fn scheduling(of: &Scheduling) -> Result<()> {
    name("queue", &of.queue)?;
    of.key.as_deref().map_or(Ok(()), |key| name("key", key))?;
    of.group.as_deref().map_or(Ok(()), |group| name("group", group))
}

/// Checks a string: at most the size of a value, without NUL.
fn text(what: &str, text: &str) -> Result<()> {
    if text.contains('\0') {
        return Err(Error::invalid(what, "it contains a NUL"));
    }
    size(what, text.as_bytes())
}

/// Validates an answer.
pub(crate) fn check_answer(answer: &Answer) -> Result<()> {
    name("name of the person", &answer.by)?;
    text("signature", &answer.signature)?;
    size("answer", &answer.value)
}

/// Checks a name: limited length, without NUL.
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

/// Returns the name of a session for messages.
pub(crate) fn label(id: &str) -> String {
    format!("session '{id}'")
}

/// Compares the current version with the one that the writer expects.
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

/// The error of an append that does not start at the end of the session.
pub(crate) fn misplaced(id: &str, first: u64, length: u64) -> Error {
    Error::Conflict {
        what: label(id),
        expected: format!("entry {first} to be the next"),
        found: format!("{length} entries"),
    }
}

/// The error of a fork of more entries than exist.
pub(crate) fn too_short(id: &str, wanted: u64, length: u64) -> Error {
    Error::Conflict {
        what: label(id),
        expected: format!("at least {wanted} entries"),
        found: format!("{length} entries"),
    }
}

/// Compares a fence with the current epoch: 0 if the lease never existed.
pub(crate) fn fenced(fence: &Fence, current: u64) -> Result<()> {
    if current != 0 && current == fence.epoch {
        return Ok(());
    }
    Err(Error::Fenced { scope: fence.scope.to_string(), epoch: fence.epoch, current })
}

/// Returns the name of a run for messages.
pub(crate) fn run_label(id: &str) -> String {
    format!("run '{id}'")
}

/// Checks that a lease belongs to a run.
pub(crate) fn of_run(fence: &Fence, id: &str) -> Result<()> {
    let scope = Run::scope(id);
    if *fence.scope == *scope {
        return Ok(());
    }
    Err(Error::Owned { what: run_label(id), scope })
}

/// Rejects changes to a run that has ended.
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

/// Rejects the suspension of a run with an answer that its owner has not read.
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

/// Rejects entries that do not continue at the end of the journal.
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

/// Rejects a fork of more entries than exist.
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

/// Returns the name of a request for messages.
pub(crate) fn request_label(run: &str, request_id: &str) -> String {
    format!("request '{request_id}' of run '{run}'")
}

/// Rejects an answer that is too late, or a second one from the same reviewer.
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
