//! Waiting for other tasks.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use harn_schema::options::Options;
use harn_system::SystemExt;

use crate::cx::Cx;
use crate::error::Result;
use crate::scheduler::among_tasks;

/// Time limit of waiting for a lock or a value.
#[derive(Options)]
#[options(short = "timeout_ms")]
pub(crate) struct TimeLimit {
    /// Time limit; 0 does not wait.
    #[option(shown = "no limit")]
    timeout_ms: Option<Duration>,
    /// The same as `timeout_ms`.
    max_wait_ms: Option<Duration>,
}

impl TimeLimit {
    pub(crate) fn limit(self) -> Option<Duration> {
        self.timeout_ms.or(self.max_wait_ms)
    }
}

/// Waits for an event that another task causes, at most for `limit`; returns `None` on timeout.
///
/// # Errors
/// The cancellation error, as soon as cancellation is requested.
pub(super) async fn for_tasks<T>(
    cx: &Cx,
    limit: Option<Duration>,
    waited: impl Future<Output = T>,
) -> Result<Option<T>> {
    let mut waited = pin!(waited);
    // Cancellation wakes the task and with it this future.
    let unless_cancelled = poll_fn(|context| match cx.task().check_wait() {
        Err(error) => Poll::Ready(Err(error)),
        Ok(()) => waited.as_mut().poll(context).map(Ok),
    });
    match limit {
        Some(limit) => cx.vm().system().within(limit, unless_cancelled).await.transpose(),
        None => among_tasks(unless_cancelled).await.map(Some),
    }
}
