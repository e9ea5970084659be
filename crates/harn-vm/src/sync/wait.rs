//! Waiting for what other tasks bring.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use harn_system::SystemExt;
use harn_value::Value;

use crate::concurrency::millis;
use crate::cx::Cx;
use crate::error::Result;
use crate::scheduler::among_tasks;

/// The time in an argument of the type `duration | int | {timeout_ms?: duration | int, max_wait_ms?: duration | int}?`.
pub(crate) fn limit_of(timeout: &Value) -> Option<Duration> {
    match timeout.as_dict() {
        Some(dict) => ["timeout_ms", "max_wait_ms"].iter().find_map(|key| dict.get_str(key).and_then(millis)),
        None => millis(timeout),
    }
}

/// Waits for what other tasks bring, at most for `limit`; `None` when that was over first.
///
/// # Errors
/// The cancellation error, as soon as cancellation is requested.
pub(super) async fn for_tasks<T>(
    cx: &Cx,
    limit: Option<Duration>,
    waited: impl Future<Output = T>,
) -> Result<Option<T>> {
    let mut waited = pin!(waited);
    // Cancellation wakes the task, and with it this future.
    let unless_cancelled = poll_fn(|context| match cx.task().check_wait() {
        Err(error) => Poll::Ready(Err(error)),
        Ok(()) => waited.as_mut().poll(context).map(Ok),
    });
    match limit {
        Some(limit) => cx.vm().system().within(limit, unless_cancelled).await.transpose(),
        None => among_tasks(unless_cancelled).await.map(Some),
    }
}
