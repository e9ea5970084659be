//! The store without a file: for tests, and for programs without persistence.

mod apply;
mod leases;
mod queues;
mod runs;
mod state;

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use self::state::{Message, State};
use crate::error::{Error, Result};
use crate::model::{Dead, Digest, Entry, Event, Fence, Lease, QueueStats, Session, Topic};
use crate::queue::{ClaimRuns, Claims, Submission, Submitted};
use crate::run::{Answer, JournalEntry, Prune, Run, RunFilter, Source, StoreStats, Waitpoint, Wish};
use crate::scheduling::{QueueState, RunQueue};
use crate::store::{Reply, Store};
use crate::write::{self, Write, Written, label};

/// A store in memory. Clones share its data.
#[derive(Clone, Default)]
pub struct MemoryStore {
    state: Arc<Mutex<State>>,
}

impl MemoryStore {
    /// An empty store.
    #[must_use]
    pub fn new() -> MemoryStore {
        MemoryStore::default()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read<T: Send + 'static>(&self, read: impl FnOnce(&State) -> Result<T>) -> Reply<'static, T> {
        Box::pin(std::future::ready(read(&self.state())))
    }

    fn change<T: Send + 'static>(&self, change: impl FnOnce(&mut State) -> Result<T>) -> Reply<'static, T> {
        Box::pin(std::future::ready(change(&mut self.state())))
    }
}

/// Returns the entries of a sorted map after `after`, at most `limit`.
fn page<K: Ord, V>(map: &BTreeMap<K, V>, after: Option<K>, limit: usize) -> impl Iterator<Item = (&K, &V)> {
    let start = after.map_or(Bound::Unbounded, Bound::Excluded);
    map.range((start, Bound::Unbounded)).take(limit)
}

impl Store for MemoryStore {
    fn acquire<'a>(&'a self, scope: &'a str, owner: &'a str, now_ms: i64, until_ms: i64) -> Reply<'a, Lease> {
        self.change(|state| {
            write::name("scope", scope)?;
            write::name("owner", owner)?;
            leases::acquire(state, scope, owner, now_ms, until_ms)
        })
    }

    fn write<'a>(&'a self, fence: &'a Fence, writes: Vec<Write>) -> Reply<'a, Vec<Written>> {
        self.change(|state| {
            writes.iter().try_for_each(write::check)?;
            // A failed single write changes nothing; of several writes, earlier ones may have been made.
            let before = (writes.len() > 1).then(|| state.clone());
            let outcome = apply::all(state, fence, writes);
            if let (Err(_), Some(before)) = (&outcome, before) {
                *state = before;
            }
            outcome
        })
    }

    fn lease<'a>(&'a self, scope: &'a str) -> Reply<'a, Option<Lease>> {
        self.read(|state| Ok(state.leases.get(scope).cloned()))
    }

    fn kv_get<'a>(&'a self, space: &'a str, key: &'a str) -> Reply<'a, Option<Entry>> {
        self.read(|state| Ok(state.kv.get(space).and_then(|space| space.get(key)).cloned()))
    }

    fn kv_list<'a>(
        &'a self,
        space: &'a str,
        prefix: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> Reply<'a, Vec<(String, Entry)>> {
        self.read(|state| {
            let Some(space) = state.kv.get(space) else { return Ok(Vec::new()) };
            let start = match after {
                Some(after) if after >= prefix => Bound::Excluded(after.to_owned()),
                _ => Bound::Included(prefix.to_owned()),
            };
            let found = space.range((start, Bound::Unbounded)).take_while(|(key, _)| key.starts_with(prefix));
            Ok(found.take(limit).map(|(key, entry)| (key.clone(), entry.clone())).collect())
        })
    }

    fn log_read<'a>(&'a self, topic: &'a str, after: u64, limit: usize) -> Reply<'a, Vec<Event>> {
        self.read(|state| {
            let Some(topic) = state.topics.get(topic) else { return Ok(Vec::new()) };
            let found = page(&topic.events, Some(after), limit);
            Ok(found.map(|(id, event)| Event { id: *id, event: event.clone() }).collect())
        })
    }

    fn log_topic<'a>(&'a self, topic: &'a str) -> Reply<'a, Option<Topic>> {
        self.read(|state| Ok(state.topics.get(topic).map(|found| found.described(topic))))
    }

    fn log_topics<'a>(&'a self, after: Option<&'a str>, limit: usize) -> Reply<'a, Vec<Topic>> {
        self.read(|state| {
            let found = page(&state.topics, after.map(str::to_owned), limit);
            Ok(found.map(|(name, topic)| topic.described(name)).collect())
        })
    }

    fn queue_stats<'a>(&'a self, queue: &'a str, now_ms: i64) -> Reply<'a, QueueStats> {
        self.read(|state| {
            let mut stats = QueueStats::default();
            for message in state.queues.get(queue).into_iter().flat_map(|queue| queue.values()) {
                let count = match message {
                    message if message.is_dead(now_ms) => &mut stats.dead,
                    message if message.new.ready_ms <= now_ms => &mut stats.ready,
                    Message { claimed: true, .. } => &mut stats.claimed,
                    _ => &mut stats.delayed,
                };
                *count += 1;
            }
            Ok(stats)
        })
    }

    fn queue_dead<'a>(
        &'a self,
        queue: &'a str,
        now_ms: i64,
        after: Option<&'a str>,
        limit: usize,
    ) -> Reply<'a, Vec<Dead>> {
        self.read(|state| {
            let Some(queue) = state.queues.get(queue) else { return Ok(Vec::new()) };
            let found = page(queue, after.map(str::to_owned), usize::MAX).filter(|(_, m)| m.is_dead(now_ms));
            Ok(found.take(limit).map(|(_, message)| message.obituary()).collect())
        })
    }

    fn session<'a>(&'a self, id: &'a str) -> Reply<'a, Option<Session>> {
        self.read(|state| Ok(state.sessions.get(&id.to_owned()).map(|found| found.head.clone())))
    }

    fn sessions<'a>(
        &'a self,

        status: Option<&'a str>,
        after: Option<&'a str>,
        limit: usize,
    ) -> Reply<'a, Vec<Session>> {
        self.read(|state| {
            let found = page(&state.sessions, after.map(str::to_owned), usize::MAX)
                .map(|(_, found)| &found.head)
                .filter(|head| status.is_none_or(|status| head.status == status));
            Ok(found.take(limit).cloned().collect())
        })
    }

    fn session_entries<'a>(&'a self, id: &'a str, from: u64, limit: usize) -> Reply<'a, Vec<Vec<u8>>> {
        self.read(|state| {
            let missing = || Error::missing(label(id));
            let found = state.sessions.get(&id.to_owned()).ok_or_else(missing)?;
            let from = usize::try_from(from).unwrap_or(usize::MAX);
            Ok(found.entries.iter().skip(from).take(limit).map(|entry| entry.to_vec()).collect())
        })
    }

    fn blob(&self, digest: Digest) -> Reply<'_, Option<Vec<u8>>> {
        self.read(|state| Ok(state.blobs.get(&digest).map(|bytes| bytes.to_vec())))
    }

    fn blobs(&self, after: Option<Digest>, limit: usize) -> Reply<'_, Vec<(Digest, u64)>> {
        self.read(|state| {
            let found = page(&state.blobs, after, limit);
            Ok(found.map(|(digest, bytes)| (*digest, bytes.len() as u64)).collect())
        })
    }

    fn run<'a>(&'a self, id: &'a str) -> Reply<'a, Option<Run>> {
        self.read(|state| Ok(state.runs.get(id).map(|run| run.seen(state))))
    }

    fn runs(&self, filter: RunFilter, limit: usize) -> Reply<'_, Vec<Run>> {
        self.read(|state| Ok(runs::all(state, filter, limit)))
    }

    fn journal<'a>(&'a self, run: &'a str, from: u64, limit: usize) -> Reply<'a, Vec<JournalEntry>> {
        self.read(|state| runs::journal(state, run, from, limit))
    }

    fn sources<'a>(&'a self, run: &'a str) -> Reply<'a, Vec<Source>> {
        self.read(|state| runs::sources(state, run))
    }

    fn waitpoints<'a>(&'a self, run: Option<&'a str>, open: bool) -> Reply<'a, Vec<Waitpoint>> {
        self.read(|state| runs::waitpoints(state, run, open))
    }

    fn waitpoint<'a>(&'a self, run: &'a str, request_id: &'a str) -> Reply<'a, Waitpoint> {
        self.read(|state| runs::one_waitpoint(state, run, request_id))
    }

    fn answer<'a>(&'a self, run: &'a str, request_id: &'a str, answer: Answer) -> Reply<'a, Waitpoint> {
        self.change(|state| {
            write::check_answer(&answer)?;
            runs::answer(state, run, request_id, answer)
        })
    }

    fn claim_runs(&self, claim: ClaimRuns) -> Reply<'_, Claims> {
        self.change(|state| claim.check().and_then(|()| queues::claim(state, &claim)))
    }

    fn submit_runs(&self, submission: Submission) -> Reply<'_, Vec<Submitted>> {
        self.change(|state| {
            submission.check()?;
            let before = state.clone();
            let outcome = queues::submit(state, submission);
            if outcome.is_err() {
                *state = before;
            }
            outcome
        })
    }

    fn set_run_queues(&self, queues: Vec<RunQueue>) -> Reply<'_, ()> {
        self.change(|state| {
            queues.iter().try_for_each(write::queue)?;
            queues::set(state, queues);
            Ok(())
        })
    }

    fn run_queues(&self, now_ms: i64) -> Reply<'_, Vec<QueueState>> {
        self.read(|state| Ok(queues::states(state, now_ms)))
    }

    fn wish<'a>(&'a self, run: &'a str, wish: Option<Wish>, at_ms: i64) -> Reply<'a, ()> {
        self.change(|state| runs::wish(state, run, wish, at_ms))
    }

    fn prune(&self, prune: Prune) -> Reply<'_, u64> {
        self.change(|state| Ok(runs::prune(state, &prune)))
    }

    fn run_bytes<'a>(&'a self, run: &'a str) -> Reply<'a, u64> {
        self.read(|state| runs::bytes(state, run))
    }

    fn stats(&self, now_ms: i64) -> Reply<'_, StoreStats> {
        self.read(move |state| Ok(runs::stats(state, now_ms)))
    }

    fn compact(&self) -> Reply<'_, ()> {
        self.read(|_| Ok(()))
    }

    fn verify(&self) -> Reply<'_, Vec<String>> {
        self.read(|_| Ok(Vec::new()))
    }
}
