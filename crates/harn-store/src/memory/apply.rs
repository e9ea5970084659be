//! Writes in memory. Each validates first, so that a rejected one changes nothing.

use std::collections::btree_map::Entry as Slot;
use std::sync::Arc;

use super::runs;
use super::state::{Kept, Message, State};
use crate::error::{Error, Result};
use crate::model::{Claimed, Digest, Entry, Fence, NewEvent, Session};
use crate::write::{self, Write, Written, label};

pub(super) fn all(state: &mut State, fence: &Fence, writes: Vec<Write>) -> Result<Vec<Written>> {
    let mut out = Vec::with_capacity(writes.len());
    for write in writes {
        let current = state.leases.get(&*fence.scope).map_or(0, |lease| lease.epoch);
        write::fenced(fence, current)?;
        out.push(one(state, fence, write)?);
    }
    Ok(out)
}

fn one(state: &mut State, fence: &Fence, write: Write) -> Result<Written> {
    let written = match write {
        Write::Renew { until_ms } => {
            let lease = Arc::make_mut(&mut state.leases).get_mut(&*fence.scope);
            Written::Done(lease.map(|lease| lease.until_ms = until_ms).is_some())
        }
        Write::Release => {
            let lease = Arc::make_mut(&mut state.leases).get_mut(&*fence.scope);
            Written::Done(
                lease
                    .map(|lease| {
                        lease.owner.clear();
                        lease.until_ms = 0;
                        lease.epoch += 1;
                    })
                    .is_some(),
            )
        }
        Write::KvPut { space, key, value, expect } => {
            write::expected(&space, &key, expect, version(state, &space, &key))?;
            state.revision += 1;
            let entry = Entry { value, version: state.revision };
            Arc::make_mut(Arc::make_mut(&mut state.kv).entry(space).or_default()).insert(key, entry);
            Written::Version(state.revision)
        }
        Write::KvDelete { space, key, expect } => {
            write::expected(&space, &key, expect, version(state, &space, &key))?;
            let space = Arc::make_mut(&mut state.kv).get_mut(&space);
            Written::Done(space.is_some_and(|space| Arc::make_mut(space).remove(&key).is_some()))
        }
        Write::LogAppend { topic, events } => log_append(state, topic, events),
        Write::LogTrim { topic, through } => {
            let Some(topic) = Arc::make_mut(&mut state.topics).get_mut(&topic) else {
                return Ok(Written::Count(0));
            };
            let before = topic.events.len();
            Arc::make_mut(&mut topic.events).retain(|id, _| *id > through);
            Written::Count((before - topic.events.len()) as u64)
        }
        Write::QueuePush { queue, message } => {
            let queue = Arc::make_mut(Arc::make_mut(&mut state.queues).entry(queue).or_default());
            match queue.entry(message.id.clone()) {
                Slot::Occupied(_) => Written::Done(false),
                Slot::Vacant(slot) => {
                    state.messages += 1;
                    slot.insert(Message {
                        new: message,
                        number: state.messages,
                        attempts: 0,
                        claimed: false,
                        dead: false,
                        reason: String::new(),
                    });
                    Written::Done(true)
                }
            }
        }
        Write::QueueClaim { queue, now_ms, until_ms, limit } => claim(state, &queue, now_ms, until_ms, limit),
        Write::QueueAck { queue, id, attempt } => {
            claimed(state, &queue, &id, attempt)?;
            Written::Done(remove(state, &queue, &id))
        }
        Write::QueueNack { queue, id, attempt, retry_ms, reason } => {
            let message = claimed(state, &queue, &id, attempt)?;
            let again = retry_ms.filter(|_| !message.spent());
            message.claimed = false;
            message.dead = again.is_none();
            message.new.ready_ms = again.unwrap_or(0);
            message.reason = reason;
            Written::Done(again.is_some())
        }
        Write::QueueExtend { queue, id, attempt, until_ms } => {
            claimed(state, &queue, &id, attempt)?.new.ready_ms = until_ms;
            Written::Done(true)
        }
        Write::QueueRemove { queue, id } => Written::Done(remove(state, &queue, &id)),
        Write::SessionCreate { id, status, info, at_ms } => {
            let head = new_head(id, fence, status, info, at_ms);
            create(state, Kept { head, entries: Arc::default() })?;
            Written::Done(true)
        }
        Write::SessionUpdate { id, status, info, at_ms } => {
            let head = &mut owned(state, fence, &id)?.head;
            head.status = status.unwrap_or_else(|| std::mem::take(&mut head.status));
            head.info = info.unwrap_or_else(|| std::mem::take(&mut head.info));
            head.updated_ms = at_ms;
            Written::Done(true)
        }
        Write::SessionAppend { id, first, entries, at_ms } => {
            let kept = owned(state, fence, &id)?;
            if first != kept.head.length {
                return Err(write::misplaced(&id, first, kept.head.length));
            }
            Arc::make_mut(&mut kept.entries).extend(entries.into_iter().map(Arc::from));
            kept.head.length = kept.entries.len() as u64;
            kept.head.updated_ms = at_ms;
            Written::Count(kept.head.length)
        }
        Write::SessionTruncate { id, length, at_ms } => {
            let kept = owned(state, fence, &id)?;
            let cut = kept.head.length.saturating_sub(length);
            if cut > 0 {
                Arc::make_mut(&mut kept.entries).truncate(usize::try_from(length).unwrap_or(usize::MAX));
                kept.head.length = length;
                kept.head.updated_ms = at_ms;
            }
            Written::Count(cut)
        }
        Write::SessionFork { from, length, id, at_ms } => fork(state, fence, &from, length, id, at_ms)?,
        Write::SessionDelete { id } => {
            let key = id;
            if !state.sessions.contains_key(&key) {
                return Ok(Written::Done(false));
            }
            owned(state, fence, &key)?;
            Arc::make_mut(&mut state.sessions).remove(&key);
            Written::Done(true)
        }
        Write::RunCreate { run, at_ms } => runs::create(state, fence, run, at_ms)?,
        Write::RunFork { from, length, run, at_ms } => runs::fork(state, fence, &from, length, run, at_ms)?,
        Write::RunDelete { run } => runs::delete(state, fence, &run)?,
        Write::WaitpointAnswer { run, request_id, answer } => {
            write::of_run(fence, &run)?;
            runs::answer(state, &run, &request_id, answer)?;
            Written::Done(true)
        }
        Write::RunStatus { ref run, .. }
        | Write::RunInfo { ref run, .. }
        | Write::RunFailure { ref run, .. }
        | Write::RunReopen { ref run, .. }
        | Write::SourcePut { ref run, .. }
        | Write::JournalAppend { ref run, .. }
        | Write::JournalCut { ref run, .. }
        | Write::WaitpointOpen { ref run, .. }
        | Write::WaitpointClose { ref run, .. } => {
            let run = run.clone();
            runs::change(state, fence, &run, write)?
        }
        Write::BlobPut { bytes } => {
            let digest = Digest::of(&bytes);
            Arc::make_mut(&mut state.blobs).entry(digest).or_insert_with(|| bytes.into());
            Written::Digest(digest)
        }
        Write::BlobDelete { digest } => {
            Written::Done(Arc::make_mut(&mut state.blobs).remove(&digest).is_some())
        }
    };
    Ok(written)
}

fn version(state: &State, space: &str, key: &str) -> Option<u64> {
    state.kv.get(space)?.get(key).map(|entry| entry.version)
}

fn log_append(state: &mut State, topic: String, events: Vec<NewEvent>) -> Written {
    let topic = Arc::make_mut(&mut state.topics).entry(topic).or_default();
    let log = Arc::make_mut(&mut topic.events);
    for event in events {
        topic.last += 1;
        log.insert(topic.last, event);
    }
    Written::Last(topic.last)
}

fn claim(state: &mut State, queue: &str, now_ms: i64, until_ms: i64, limit: usize) -> Written {
    let Some(queue) = Arc::make_mut(&mut state.queues).get_mut(queue) else {
        return Written::Claimed(Vec::new());
    };
    let mut due: Vec<&mut Message> = Arc::make_mut(queue)
        .values_mut()
        .filter(|message| !message.dead && message.new.ready_ms <= now_ms)
        .collect();
    // A message that was claimed for the last time and not answered is dead.
    for message in due.iter_mut().filter(|message| message.spent()) {
        message.dead = true;
        message.claimed = false;
    }
    due.retain(|message| !message.dead);
    due.sort_by_key(|message| (message.new.ready_ms, message.number));
    let claimed = due.into_iter().take(limit).map(|message| {
        message.claimed = true;
        message.attempts += 1;
        message.new.ready_ms = until_ms;
        Claimed { id: message.new.id.clone(), body: message.new.body.clone(), attempt: message.attempts }
    });
    Written::Claimed(claimed.collect())
}

/// Returns the message of a receipt.
fn claimed<'a>(state: &'a mut State, queue: &str, id: &str, attempt: u32) -> Result<&'a mut Message> {
    Arc::make_mut(&mut state.queues)
        .get_mut(queue)
        .and_then(|queue| Arc::make_mut(queue).get_mut(id))
        .filter(|message| message.claimed && !message.dead && message.attempts == attempt)
        .ok_or_else(|| Error::NotClaimed { queue: queue.to_owned(), id: id.to_owned(), attempt })
}

fn remove(state: &mut State, queue: &str, id: &str) -> bool {
    let queue = Arc::make_mut(&mut state.queues).get_mut(queue);
    queue.is_some_and(|queue| Arc::make_mut(queue).remove(id).is_some())
}

fn new_head(id: String, fence: &Fence, status: String, info: Vec<u8>, at_ms: i64) -> Session {
    let scope = fence.scope.to_string();
    Session { id, scope, status, info, length: 0, created_ms: at_ms, updated_ms: at_ms }
}

fn create(state: &mut State, kept: Kept) -> Result<()> {
    let id = kept.head.id.clone();
    if state.sessions.contains_key(&id.clone()) {
        return Err(Error::Exists { what: label(&id) });
    }
    Arc::make_mut(&mut state.sessions).insert(id, kept);
    Ok(())
}

/// Returns a session that the lease can change.
fn owned<'a>(state: &'a mut State, fence: &Fence, id: &str) -> Result<&'a mut Kept> {
    let kept = Arc::make_mut(&mut state.sessions).get_mut(&id.to_owned());
    let kept = kept.ok_or_else(|| Error::missing(label(id)))?;
    if *kept.head.scope != *fence.scope {
        return Err(Error::Owned { what: label(id), scope: kept.head.scope.clone() });
    }
    Ok(kept)
}

fn fork(
    state: &mut State,
    fence: &Fence,

    from: &str,
    wanted: u64,
    id: String,
    at_ms: i64,
) -> Result<Written> {
    let source = state.sessions.get(from);
    let source = source.ok_or_else(|| Error::missing(label(from)))?;
    if wanted > source.head.length {
        return Err(write::too_short(from, wanted, source.head.length));
    }
    let mut head = new_head(id, fence, source.head.status.clone(), source.head.info.clone(), at_ms);
    head.length = wanted;
    let entries = source.entries.iter().take(usize::try_from(wanted).unwrap_or(usize::MAX)).cloned();
    let kept = Kept { head, entries: Arc::new(entries.collect()) };
    create(state, kept)?;
    Ok(Written::Count(wanted))
}
