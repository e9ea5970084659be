//! The trait of all stores.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use crate::error::{Error, Result};
use crate::model::{
    Claimed, Dead, Digest, Entry, Event, Expect, Fence, Lease, NewEvent, QueueStats, Session, Topic,
};
use crate::queue::{ClaimRuns, Claims, Submission, Submitted};
use crate::run::{Answer, JournalEntry, Prune, Run, RunFilter, Source, StoreStats, Waitpoint, Wish};
use crate::scheduling::{QueueState, RunQueue};
use crate::write::{Write, Written};

/// A pending answer. Dropping it does not undo a write that was started.
pub type Reply<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// Persistent data. Times and ids are arguments: a store has no clock and no randomness.
///
/// Lists are read in pages: `after` is the last name of the page before, `limit` the length of a page.
pub trait Store: Send + Sync {
    /// Takes a lease if it has no owner, has expired, or belongs to `owner` (whose earlier fences become invalid).
    /// The new epoch is higher than all earlier ones.
    ///
    /// # Errors
    /// [`Error::Held`], and errors of the storage.
    fn acquire<'a>(&'a self, scope: &'a str, owner: &'a str, now_ms: i64, until_ms: i64) -> Reply<'a, Lease>;

    /// Makes changes, all or none, under a lease. Once answered, they survive a crash of the process.
    ///
    /// # Errors
    /// [`Error::Fenced`] if the lease is not the current one; the errors of the single writes; errors of the storage.
    fn write<'a>(&'a self, fence: &'a Fence, writes: Vec<Write>) -> Reply<'a, Vec<Written>>;

    /// Returns a lease.
    fn lease<'a>(&'a self, scope: &'a str) -> Reply<'a, Option<Lease>>;

    /// A value of the key-value store.
    fn kv_get<'a>(&'a self, space: &'a str, key: &'a str) -> Reply<'a, Option<Entry>>;

    /// The keys that begin with `prefix`, sorted by bytes, with their values.
    fn kv_list<'a>(
        &'a self,
        space: &'a str,
        prefix: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> Reply<'a, Vec<(String, Entry)>>;

    /// The events of a topic with ids above `after`.
    fn log_read<'a>(&'a self, topic: &'a str, after: u64, limit: usize) -> Reply<'a, Vec<Event>>;

    /// Returns a topic; `None` if no event was ever added.
    fn log_topic<'a>(&'a self, topic: &'a str) -> Reply<'a, Option<Topic>>;

    /// The topics, sorted by name.
    fn log_topics<'a>(&'a self, after: Option<&'a str>, limit: usize) -> Reply<'a, Vec<Topic>>;

    /// Returns the numbers of messages in a queue by state.
    fn queue_stats<'a>(&'a self, queue: &'a str, now_ms: i64) -> Reply<'a, QueueStats>;

    /// The dead messages of a queue, sorted by id: those given up, and those whose last attempt was not answered in time.
    fn queue_dead<'a>(
        &'a self,
        queue: &'a str,
        now_ms: i64,
        after: Option<&'a str>,
        limit: usize,
    ) -> Reply<'a, Vec<Dead>>;

    /// The head of a session.
    fn session<'a>(&'a self, id: &'a str) -> Reply<'a, Option<Session>>;

    /// The heads of sessions, sorted by id; only those with `status`, if one is given.
    fn sessions<'a>(
        &'a self,

        status: Option<&'a str>,
        after: Option<&'a str>,
        limit: usize,
    ) -> Reply<'a, Vec<Session>>;

    /// Returns entries of a session from number `from` on, counted from 0.
    ///
    /// # Errors
    /// [`Error::Missing`] if the session does not exist.
    fn session_entries<'a>(&'a self, id: &'a str, from: u64, limit: usize) -> Reply<'a, Vec<Vec<u8>>>;

    /// The bytes of a blob, compared with their digest.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when they are not what was put.
    fn blob(&self, digest: Digest) -> Reply<'_, Option<Vec<u8>>>;

    /// The digests and sizes of the blobs, sorted.
    fn blobs(&self, after: Option<Digest>, limit: usize) -> Reply<'_, Vec<(Digest, u64)>>;

    /// The head of a run.
    fn run<'a>(&'a self, id: &'a str) -> Reply<'a, Option<Run>>;

    /// The heads of runs, the newest first.
    fn runs(&self, filter: RunFilter, limit: usize) -> Reply<'_, Vec<Run>>;

    /// Returns entries of the journal of a run from number `from` on. Committed entries can be read while the run is
    /// written.
    ///
    /// # Errors
    /// [`Error::Missing`] if the run does not exist; [`Error::Corrupt`] if a payload was changed.
    fn journal<'a>(&'a self, run: &'a str, from: u64, limit: usize) -> Reply<'a, Vec<JournalEntry>>;

    /// The sources of a run, sorted by path, compared with their digests.
    ///
    /// # Errors
    /// As [`Store::journal`].
    fn sources<'a>(&'a self, run: &'a str) -> Reply<'a, Vec<Source>>;

    /// Returns the waitpoints of a run in the order of their requests; of all runs without `run`. `open`: only those
    /// that accept answers.
    fn waitpoints<'a>(&'a self, run: Option<&'a str>, open: bool) -> Reply<'a, Vec<Waitpoint>>;

    /// Returns a waitpoint of a run.
    ///
    /// # Errors
    /// [`crate::Error::Missing`] when the run has not asked for it.
    fn waitpoint<'a>(&'a self, run: &'a str, request_id: &'a str) -> Reply<'a, Waitpoint>;

    /// Answers a waitpoint. This needs no lease: the answer comes from a process that does not execute the run. A
    /// suspended run becomes due.
    ///
    /// # Errors
    /// [`Error::Missing`] if the run or request does not exist; [`Error::Exists`] if this reviewer has answered it;
    /// [`Error::Conflict`] if it accepts no more answers.
    fn answer<'a>(&'a self, run: &'a str, request_id: &'a str, answer: Answer) -> Reply<'a, Waitpoint>;

    /// Takes the leases of runs that are abandoned, or queued or suspended and due, and sets their status to running. No two
    /// callers get the same run. Queues are served in turn; in a queue, abandoned runs come first, then those with the highest
    /// priority, then those that have been due longest. The limits of a queue hold over all callers: of runs that execute, and
    /// of starts of queued runs.
    ///
    /// # Errors
    /// Errors of the storage.
    fn claim_runs(&self, claim: ClaimRuns) -> Reply<'_, Claims>;

    /// Queues runs, all or none; no process has their leases. The results are in the order of the runs.
    ///
    /// # Errors
    /// [`Error::Exists`] if there is a run with the id of one of them; errors of the storage.
    fn submit_runs(&self, submission: Submission) -> Reply<'_, Vec<Submitted>>;

    /// Stores queues; their limits replace the stored ones.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a limit of 0; errors of the storage.
    fn set_run_queues(&self, queues: Vec<RunQueue>) -> Reply<'_, ()>;

    /// The queues of runs, sorted by name.
    fn run_queues(&self, now_ms: i64) -> Reply<'_, Vec<QueueState>>;

    /// Asks the process that has a run to pause or cancel it; `None` takes that back. This needs no lease. When that process
    /// stops working on the run, the run is paused or cancelled.
    ///
    /// # Errors
    /// [`Error::Missing`] without such a run; [`Error::Conflict`] when it has ended.
    fn wish<'a>(&'a self, run: &'a str, wish: Option<Wish>, at_ms: i64) -> Reply<'a, ()>;

    /// Removes runs that have ended, the oldest first, with all that belongs to them. Gives how many there were.
    fn prune(&self, prune: Prune) -> Reply<'_, u64>;

    /// How many bytes the journal and the sources of a run take. Bytes that several runs share count for each.
    ///
    /// # Errors
    /// [`Error::Missing`] without such a run.
    fn run_bytes<'a>(&'a self, run: &'a str) -> Reply<'a, u64>;

    /// Returns figures about the store.
    fn stats(&self, now_ms: i64) -> Reply<'_, StoreStats>;

    /// Returns the space of removed data to the file system.
    fn compact(&self) -> Reply<'_, ()>;

    /// Checks all data; returns one line per damage.
    fn verify(&self) -> Reply<'_, Vec<String>>;
}

/// Single writes with typed results.
pub trait StoreExt: Store {
    /// Makes a single write.
    fn write_one<'a>(&'a self, fence: &'a Fence, write: Write) -> Reply<'a, Written> {
        Box::pin(async move {
            let mut written = self.write(fence, vec![write]).await?;
            written.pop().ok_or(Error::Closed)
        })
    }

    /// Extends a lease.
    fn renew<'a>(&'a self, fence: &'a Fence, until_ms: i64) -> Reply<'a, ()> {
        Box::pin(async move { self.write_one(fence, Write::Renew { until_ms }).await.map(drop) })
    }

    /// Releases a lease.
    fn release<'a>(&'a self, fence: &'a Fence) -> Reply<'a, ()> {
        Box::pin(async move { self.write_one(fence, Write::Release).await.map(drop) })
    }

    /// Sets a value; returns its version.
    fn kv_put<'a>(
        &'a self,
        fence: &'a Fence,
        space: &'a str,
        key: &'a str,
        value: Vec<u8>,
        expect: Expect,
    ) -> Reply<'a, u64> {
        let write = Write::KvPut { space: space.to_owned(), key: key.to_owned(), value, expect };
        number(self.write_one(fence, write))
    }

    /// Adds one event; returns its id.
    fn log_append<'a>(&'a self, fence: &'a Fence, topic: &'a str, event: NewEvent) -> Reply<'a, u64> {
        number(self.write_one(fence, Write::LogAppend { topic: topic.to_owned(), events: vec![event] }))
    }

    /// Claims messages of a queue.
    fn queue_claim<'a>(
        &'a self,
        fence: &'a Fence,
        queue: &'a str,
        now_ms: i64,
        until_ms: i64,
        limit: usize,
    ) -> Reply<'a, Vec<Claimed>> {
        let write = Write::QueueClaim { queue: queue.to_owned(), now_ms, until_ms, limit };
        Box::pin(async move {
            match self.write_one(fence, write).await? {
                Written::Claimed(claimed) => Ok(claimed),
                _ => Err(Error::Closed),
            }
        })
    }

    /// Adds entries to a session; returns their total number.
    fn session_append<'a>(
        &'a self,
        fence: &'a Fence,

        id: &'a str,
        first: u64,
        entries: Vec<Vec<u8>>,
        at_ms: i64,
    ) -> Reply<'a, u64> {
        let write = Write::SessionAppend { id: id.to_owned(), first, entries, at_ms };
        number(self.write_one(fence, write))
    }

    /// Stores bytes under their digest.
    fn blob_put<'a>(&'a self, fence: &'a Fence, bytes: Vec<u8>) -> Reply<'a, Digest> {
        Box::pin(async move {
            match self.write_one(fence, Write::BlobPut { bytes }).await? {
                Written::Digest(digest) => Ok(digest),
                _ => Err(Error::Closed),
            }
        })
    }
}

impl<S: Store + ?Sized> StoreExt for S {}

fn number<'a>(written: Reply<'a, Written>) -> Reply<'a, u64> {
    Box::pin(async move {
        match written.await? {
            Written::Version(n) | Written::Last(n) | Written::Count(n) => Ok(n),
            _ => Err(Error::Closed),
        }
    })
}

struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for an answer of a store on this thread. The store works on another one.
pub fn wait<T>(answer: impl Future<Output = T>) -> T {
    let mut answer = pin!(answer);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        match answer.as_mut().poll(&mut context) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}
