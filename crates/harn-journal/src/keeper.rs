//! Destinations of entries.

use std::cell::RefCell;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use harn_store::{Answer, Error as StoreError, Fence, Lease, NewWaitpoint, Run, Store, Wish, Write, wait};
use harn_system::{System, SystemExt};

use crate::entry::Entry;

/// Why something could not be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// What is wrong.
    pub text: String,
    /// Whether it may pass by itself: the store is away, locked or full.
    pub is_outage: bool,
}

impl std::fmt::Display for Trouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Trouble {}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Trouble {
        Trouble { text: error.to_string(), is_outage: error.is_outage() }
    }
}

impl From<String> for Trouble {
    fn from(text: String) -> Trouble {
        Trouble { text, is_outage: false }
    }
}

impl From<Trouble> for String {
    fn from(trouble: Trouble) -> String {
        trouble.text
    }
}

/// The result of a write.
pub type Kept = Pin<Box<dyn Future<Output = Result<(), Trouble>>>>;

/// What a user asks of the process that has the run.
pub(crate) type Wished = Pin<Box<dyn Future<Output = Option<Wish>>>>;

/// The number of answers to all requests of a run.
pub type Count = Pin<Box<dyn Future<Output = Result<u64, Trouble>>>>;

/// Persists entries.
pub trait Keeper {
    /// Writes entries, all or none, after those of earlier calls. The write starts at once, without a poll.
    fn append(&self, entries: Vec<Entry>, at_ms: i64) -> Kept;

    /// Renews the lease of the run.
    fn alive(&self, at_ms: i64) -> Kept;

    /// Returns the duration of the lease in milliseconds.
    fn lease_ms(&self) -> i64 {
        LEASE_MS
    }

    /// Stores a request for humans; an existing one is not changed. Like all writes, it starts without a poll.
    fn open(&self, request: NewWaitpoint) -> Kept;

    /// Returns the answers to a request so far.
    fn answers(&self, request: &NewWaitpoint) -> Answers;

    /// Returns the number of answers to all requests. If it has not grown, there is no new answer.
    fn answered(&self) -> Count;

    /// Closes a request for answers.
    fn close(&self, request_id: &str, at_ms: i64) -> Kept;

    /// What a user asks of this process.
    fn wished(&self) -> Wished {
        Box::pin(std::future::ready(None))
    }
}

/// The answers that a keeper has. The inner error says why an answer is not valid.
pub type Answers = Pin<Box<dyn Future<Output = Result<Vec<Result<Answer, String>>, Trouble>>>>;

/// Checks answers: an answer is valid only for the exact question that it was given to.
fn judged(request: &NewWaitpoint, found: Vec<Answer>) -> Vec<Result<Answer, String>> {
    let judge = |answer: Answer| {
        if request.signature(&answer.value, &answer.by, answer.at_ms) == answer.signature {
            return Ok(answer);
        }
        let (by, id) = (&answer.by, &request.request_id);
        Err(format!(
            "the answer of {by} to request '{id}' was given to something else than what is asked now; ask again"
        ))
    };
    found.into_iter().map(judge).collect()
}

fn kept() -> Kept {
    Box::pin(std::future::ready(Ok(())))
}

/// Stores nothing: for replays.
pub struct Nowhere;

impl Keeper for Nowhere {
    fn append(&self, _: Vec<Entry>, _: i64) -> Kept {
        kept()
    }

    fn alive(&self, _: i64) -> Kept {
        kept()
    }

    fn open(&self, _: NewWaitpoint) -> Kept {
        kept()
    }

    fn answers(&self, _: &NewWaitpoint) -> Answers {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    fn answered(&self) -> Count {
        Box::pin(std::future::ready(Ok(0)))
    }

    fn close(&self, _: &str, _: i64) -> Kept {
        kept()
    }
}

/// Stores entries in memory, for tests.
#[derive(Clone, Default)]
pub struct MemoryKeeper(Rc<RefCell<Held>>);

#[derive(Default)]
struct Held {
    entries: Vec<Entry>,
    requests: Vec<(NewWaitpoint, Vec<Answer>, bool)>,
}

impl MemoryKeeper {
    /// Returns the stored entries.
    pub fn entries(&self) -> Vec<Entry> {
        self.0.borrow().entries.clone()
    }

    /// Returns the open requests.
    pub fn requests(&self) -> Vec<NewWaitpoint> {
        let held = self.0.borrow();
        let open = held
            .requests
            .iter()
            .filter(|(asked, answers, closed)| !closed && answers.len() < asked.quorum as usize);
        open.map(|(asked, ..)| asked.clone()).collect()
    }

    /// Answers a request. Returns false if no request with this id is open.
    pub fn answer(&self, request_id: &str, value: &str, by: &str, at_ms: i64) -> bool {
        let mut held = self.0.borrow_mut();
        let found = held.requests.iter_mut().find(|(asked, answers, closed)| {
            asked.request_id == request_id && !closed && answers.len() < asked.quorum as usize
        });
        let Some((asked, answers, _)) = found else { return false };
        let signature = asked.signature(value.as_bytes(), by, at_ms);
        answers.push(Answer { value: value.into(), by: by.to_owned(), at_ms, signature });
        true
    }
}

impl Keeper for MemoryKeeper {
    fn append(&self, entries: Vec<Entry>, _: i64) -> Kept {
        self.0.borrow_mut().entries.extend(entries);
        kept()
    }

    fn alive(&self, _: i64) -> Kept {
        kept()
    }

    fn open(&self, request: NewWaitpoint) -> Kept {
        let requests = &mut self.0.borrow_mut().requests;
        if !requests.iter().any(|(asked, ..)| asked.request_id == request.request_id) {
            requests.push((request, Vec::new(), false));
        }
        kept()
    }

    fn answers(&self, request: &NewWaitpoint) -> Answers {
        let held = self.0.borrow();
        let found = held.requests.iter().find(|(asked, ..)| asked.request_id == request.request_id);
        let found = found.map_or_else(Vec::new, |(_, answers, _)| answers.clone());
        Box::pin(std::future::ready(Ok(judged(request, found))))
    }

    fn answered(&self) -> Count {
        let count = self.0.borrow().requests.iter().map(|(_, answers, _)| answers.len() as u64).sum();
        Box::pin(std::future::ready(Ok(count)))
    }

    fn close(&self, request_id: &str, _: i64) -> Kept {
        let requests = &mut self.0.borrow_mut().requests;
        for (asked, _, closed) in requests.iter_mut() {
            *closed |= asked.request_id == request_id;
        }
        kept()
    }
}

/// Default duration of a lease in milliseconds: how long a dead process blocks its run.
pub const LEASE_MS: i64 = 15_000;

/// Stores entries in a store, under the lease of the run.
pub struct StoreKeeper {
    store: Arc<dyn Store>,
    fence: Fence,
    run: String,
    lease_ms: i64,
}

impl StoreKeeper {
    /// Creates a keeper for a run whose lease is held. Each write extends the lease by `lease_ms`.
    pub fn new(store: Arc<dyn Store>, fence: Fence, run: impl Into<String>, lease_ms: i64) -> StoreKeeper {
        StoreKeeper { store, fence, run: run.into(), lease_ms }
    }

    fn write(&self, writes: Vec<Write>) -> Kept {
        self.write_or(writes, |_| false)
    }

    /// Writes, and ignores some errors.
    fn write_or(&self, writes: Vec<Write>, does_not_matter: fn(&StoreError) -> bool) -> Kept {
        let store = self.store.clone();
        let fence = self.fence.clone();
        // The store starts the write when it is called, so it is called here and not at the first poll.
        let mut asked = Box::pin(async move { store.write(&fence, writes).await.map(drop) });
        let first = asked.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        Box::pin(async move {
            let done = match first {
                Poll::Ready(done) => done,
                Poll::Pending => asked.await,
            };
            done.or_else(|error| if does_not_matter(&error) { Ok(()) } else { Err(error.into()) })
        })
    }
}

impl Keeper for StoreKeeper {
    fn append(&self, entries: Vec<Entry>, at_ms: i64) -> Kept {
        let entries = entries.iter().map(Entry::to_store).collect();
        let run = self.run.clone();
        self.write(vec![
            Write::JournalAppend { run, entries, at_ms },
            Write::Renew { until_ms: at_ms + self.lease_ms },
        ])
    }

    fn alive(&self, at_ms: i64) -> Kept {
        self.write(vec![Write::Renew { until_ms: at_ms + self.lease_ms }])
    }

    fn lease_ms(&self) -> i64 {
        self.lease_ms
    }

    fn open(&self, waitpoint: NewWaitpoint) -> Kept {
        self.write(vec![Write::WaitpointOpen { run: self.run.clone(), waitpoint }])
    }

    fn answers(&self, request: &NewWaitpoint) -> Answers {
        let (store, run, request) = (self.store.clone(), self.run.clone(), request.clone());
        Box::pin(async move {
            match store.waitpoint(&run, &request.request_id).await {
                Ok(found) => Ok(judged(&request, found.answers)),
                Err(StoreError::Missing { .. }) => Ok(Vec::new()),
                Err(error) => Err(error.into()),
            }
        })
    }

    fn answered(&self) -> Count {
        let (store, run) = (self.store.clone(), self.run.clone());
        Box::pin(async move {
            let found = store.run(&run).await?;
            Ok(found.map_or(0, |run| run.answers))
        })
    }

    fn close(&self, request_id: &str, at_ms: i64) -> Kept {
        let (run, request_id) = (self.run.clone(), request_id.to_owned());
        self.write_or(vec![Write::WaitpointClose { run, request_id, at_ms }], |error| {
            // The request was closed before it was opened.
            matches!(error, StoreError::Missing { .. })
        })
    }

    fn wished(&self) -> Wished {
        let (store, run) = (self.store.clone(), self.run.clone());
        // A store that does not answer is noticed where something is written.
        Box::pin(async move { store.run(&run).await.ok().flatten().and_then(|run| run.wish) })
    }
}

/// Takes the lease of a run. A dead process of this machine does not block it.
///
/// # Errors
/// Another process executes the run; errors of the store.
pub fn take_lease(store: &dyn Store, system: &dyn System, run: &str) -> Result<Lease, StoreError> {
    let (own, host) = owner(system);
    let scope = Run::scope(run);
    let take = |owner: &str| {
        let now = system.now_ms();
        wait(store.acquire(&scope, owner, now, now + LEASE_MS))
    };
    match take(&own) {
        Err(StoreError::Held { owner, .. }) if is_dead(system, &owner, &host) => {
            // Takes over the lease under the owner's name: if the process is alive after all, its next write is
            // rejected. Then releases it, because another process would see this name as dead as well. A process that
            // is rejected here has been overtaken, and learns by which owner.
            let _ = take(&owner).and_then(|lease| wait(store.write(&lease.fence(), vec![Write::Release])));
            take(&own)
        }
        taken => taken,
    }
}

/// Returns the owner name of this process, and the name of the machine in it.
#[must_use]
pub fn owner(system: &dyn System) -> (String, String) {
    let host = system.read(Path::new("/proc/sys/kernel/hostname"), 4096).unwrap_or_default();
    let host = String::from_utf8_lossy(&host).trim().to_owned();
    let chance = system.random_u64();
    (format!("{}@{host}/{chance:016x}", system.pid()), host)
}

/// Returns whether the owner of a lease was a process of this machine that has ended.
fn is_dead(system: &dyn System, owner: &str, host: &str) -> bool {
    let Some((pid, rest)) = owner.split_once('@') else { return false };
    let here = !host.is_empty() && rest.split_once('/').is_some_and(|(name, _)| name == host);
    let Some(pid) = pid.parse::<u32>().ok().filter(|_| here && system.is_dir(Path::new("/proc"))) else {
        return false;
    };
    match system.read_text(Path::new(&format!("/proc/{pid}/stat")), 4096) {
        // The state follows the name in parentheses; Z and X are processes that ended and were not reaped yet.
        Ok(stat) => stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['Z', 'X'])),
        Err(_) => !system.is_dir(Path::new(&format!("/proc/{pid}"))),
    }
}
