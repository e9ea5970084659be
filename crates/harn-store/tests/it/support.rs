//! What the tests share.

use std::future::Future;
use std::sync::Arc;

use harn_store::{ClaimRuns, Error, Fence, Lease, NewEvent, NewMessage, Place, Result, Run, Store, Write};

/// Runs a future to its end.
pub(crate) fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(future)
}

/// A lease for a scope that nobody else has.
pub(crate) async fn fence(store: &dyn Store, scope: &str) -> Fence {
    store.acquire(scope, "tester", 0, 1000).await.expect("a lease").fence()
}

pub(crate) async fn one(store: &dyn Store, fence: &Fence, write: Write) -> Result<harn_store::Written> {
    store.write(fence, vec![write]).await.map(|mut written| written.remove(0))
}

/// Takes the next run of any queue.
pub(crate) async fn claim_one(
    store: &dyn Store,
    owner: &str,
    now_ms: i64,
    until_ms: i64,
) -> Result<Option<(Run, Lease)>> {
    let (owner, queues) = (owner.to_owned(), Vec::new());
    let claim = ClaimRuns { owner, now_ms, until_ms, limit: 1, queues, after: None, can_follow: |_| true };
    Ok(store.claim_runs(claim).await?.runs.pop())
}

pub(crate) fn event(kind: &str) -> NewEvent {
    NewEvent { kind: kind.to_owned(), ..NewEvent::default() }
}

pub(crate) fn message(id: &str, ready_ms: i64, max_attempts: u32) -> NewMessage {
    NewMessage { id: id.to_owned(), body: id.as_bytes().to_vec(), ready_ms, max_attempts }
}

pub(crate) fn is_fenced<T>(result: &Result<T>) -> bool {
    result.as_ref().err().is_some_and(Error::is_fenced)
}

/// Numbers that look random and are the same in every run.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

/// Starts this test binary again, to run one test that stands for another process.
pub(crate) fn child(test: &str, place: &Place, number: u64) -> std::process::Child {
    std::process::Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", test, "--ignored", "--nocapture", "--test-threads=1"])
        .env(
            "HARN_STORE_TEST_PLACE",
            match place {
                Place::File(path) => path.display().to_string(),
                Place::Url(url) => url.clone(),
            },
        )
        .env("HARN_STORE_TEST_NUMBER", number.to_string())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("a child")
}

/// What the parent has told this process, if there is one.
pub(crate) fn told() -> Option<(Arc<dyn Store>, u64)> {
    let place = std::env::var("HARN_STORE_TEST_PLACE").ok()?;
    let place = if place.contains("://") { Place::Url(place) } else { Place::File(place.into()) };
    let store = place.open().expect("a store");
    Some((store, std::env::var("HARN_STORE_TEST_NUMBER").ok()?.parse().ok()?))
}
