//! Where entries go.

use std::cell::RefCell;
use std::future::Future;
use std::path::Path;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use harn_store::{Error as StoreError, Fence, Lease, Run, Store, Write};
use harn_system::{System, SystemExt};

use crate::entry::Entry;

/// An answer of a keeper.
pub type Kept = Pin<Box<dyn Future<Output = Result<(), String>>>>;

/// Takes entries for good.
pub trait Keeper {
    /// Writes entries, all or none; those of an earlier call first. It begins at once, whether somebody waits or not.
    fn append(&self, entries: Vec<Entry>, at_ms: i64) -> Kept;

    /// Says that the run is still worked on.
    fn alive(&self, at_ms: i64) -> Kept;
}

/// Keeps nothing: for replays.
pub struct Nowhere;

impl Keeper for Nowhere {
    fn append(&self, _: Vec<Entry>, _: i64) -> Kept {
        Box::pin(std::future::ready(Ok(())))
    }

    fn alive(&self, _: i64) -> Kept {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// Keeps entries in memory, for tests.
#[derive(Clone, Default)]
pub struct MemoryKeeper(Rc<RefCell<Vec<Entry>>>);

impl MemoryKeeper {
    /// What was kept.
    pub fn entries(&self) -> Vec<Entry> {
        self.0.borrow().clone()
    }
}

impl Keeper for MemoryKeeper {
    fn append(&self, entries: Vec<Entry>, _: i64) -> Kept {
        self.0.borrow_mut().extend(entries);
        Box::pin(std::future::ready(Ok(())))
    }

    fn alive(&self, _: i64) -> Kept {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// How long a process that died holds a run back, in milliseconds.
pub const LEASE_MS: i64 = 15_000;

/// Keeps entries in a store, under the lease of the run.
pub struct StoreKeeper {
    store: Arc<dyn Store>,
    fence: Fence,
    run: String,
}

impl StoreKeeper {
    /// Keeps the entries of a run whose lease was taken.
    pub fn new(store: Arc<dyn Store>, fence: Fence, run: impl Into<String>) -> StoreKeeper {
        StoreKeeper { store, fence, run: run.into() }
    }

    fn write(&self, writes: Vec<Write>) -> Kept {
        let store = self.store.clone();
        let fence = self.fence.clone();
        // The store begins to write when it is asked, so it is asked here and not at the first poll.
        let mut asked = Box::pin(async move { store.write(&fence, writes).await.map(drop) });
        let first = asked.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        Box::pin(async move {
            match first {
                Poll::Ready(done) => done,
                Poll::Pending => asked.await,
            }
            .map_err(|error| error.to_string())
        })
    }
}

impl Keeper for StoreKeeper {
    fn append(&self, entries: Vec<Entry>, at_ms: i64) -> Kept {
        let entries = entries.iter().map(Entry::to_store).collect();
        let run = self.run.clone();
        self.write(vec![
            Write::JournalAppend { run, entries, at_ms },
            Write::Renew { until_ms: at_ms + LEASE_MS },
        ])
    }

    fn alive(&self, at_ms: i64) -> Kept {
        self.write(vec![Write::Renew { until_ms: at_ms + LEASE_MS }])
    }
}

/// Takes the lease of a run. A process of this machine that is gone does not hold it back.
///
/// # Errors
/// Another process works on the run; the errors of the store.
pub fn take_lease(store: &dyn Store, system: &dyn System, run: &str) -> Result<Lease, StoreError> {
    let host = system.read(Path::new("/proc/sys/kernel/hostname"), 4096).unwrap_or_default();
    let host = String::from_utf8_lossy(&host).trim().to_owned();
    let chance = system.random_u64();
    let own = format!("{}@{host}/{chance:016x}", system.pid());
    let scope = Run::scope(run);
    let take = |owner: &str| {
        let now = system.now_ms();
        wait(store.acquire(&scope, owner, now, now + LEASE_MS))
    };
    match take(&own) {
        // Its lease is taken in its name: should the process be there after all, its next write is refused.
        Err(StoreError::Held { owner, .. }) if is_dead(system, &owner, &host) => take(&owner),
        taken => taken,
    }
}

/// Whether the owner of a lease was a process of this machine that is gone.
fn is_dead(system: &dyn System, owner: &str, host: &str) -> bool {
    let Some((pid, rest)) = owner.split_once('@') else { return false };
    let here = !host.is_empty() && rest.split_once('/').is_some_and(|(name, _)| name == host);
    let Some(pid) = pid.parse::<u32>().ok().filter(|_| here && system.is_dir(Path::new("/proc"))) else {
        return false;
    };
    match system.read_text(Path::new(&format!("/proc/{pid}/stat")), 4096) {
        // The state stands behind the name in parentheses; Z and X are processes that ended and were not fetched yet.
        Ok(stat) => stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['Z', 'X'])),
        Err(_) => !system.is_dir(Path::new(&format!("/proc/{pid}"))),
    }
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
