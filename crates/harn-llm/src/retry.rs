//! Decides whether a call is retried, and after which delay.

use std::time::Duration;

use crate::error::{Kind, LlmError};
use crate::event::{EMPTY, MALFORMED_CALL};

/// Returns the delay before retry `n` (counted from one): the delay that the server requests, else an exponential
/// backoff. `seed` adds up to a quarter of jitter, so that clients that failed together do not retry together.
pub fn delay(error: &LlmError, n: u32, backoff_ms: u64, seed: &str) -> Duration {
    if let Some(ms) = error.retry_after_ms {
        return Duration::from_millis(ms);
    }
    let wait = backoff_ms.saturating_mul(1u64 << (n.saturating_sub(1)).min(4));
    let hash = seed.bytes().fold(0u64, |hash, byte| hash.wrapping_mul(31).wrapping_add(u64::from(byte)));
    let jitter = if seed.is_empty() { 0 } else { (wait / 4).saturating_mul(hash % 101) / 100 };
    Duration::from_millis(wait.saturating_add(jitter))
}

/// Returns whether a retry may succeed.
pub(crate) fn is_transient(error: &LlmError) -> bool {
    error.kind == Kind::Transient
}

/// Returns whether the model replied without an answer: with an empty reply, or with a call that its provider could not
/// parse. The last such reply becomes the result.
pub(crate) fn is_without_answer(error: &LlmError) -> bool {
    matches!(error.reason, EMPTY | MALFORMED_CALL)
}

/// Returns whether the reply is empty and reports no tokens. Gateways reply this way when their upstream server fails.
pub(crate) fn is_uncounted(error: &LlmError) -> bool {
    error.reason == EMPTY && error.partial_usage.is_none_or(|usage| usage.output.unwrap_or(0) == 0)
}

/// Returns whether the failure is an empty reply that reports tokens.
pub(crate) fn is_empty_completion(error: &LlmError) -> bool {
    let m = &error.message;
    m.contains("delivered no content") && (m.contains("completion_tokens=") || m.contains("eval_count="))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Category;

    #[test]
    fn backoff_doubles_up_to_sixteen_times() {
        let error = LlmError::new(Category::ServerError, "x");
        let waits: Vec<u64> =
            (1..8).map(|n| u64::try_from(delay(&error, n, 250, "").as_millis()).unwrap()).collect();
        assert_eq!(waits, [250, 500, 1000, 2000, 4000, 4000, 4000]);
        let mut hinted = error;
        hinted.retry_after_ms = Some(5);
        assert_eq!(delay(&hinted, 3, 250, "a"), Duration::from_millis(5));
        let error = LlmError::new(Category::ServerError, "x");
        let waits: Vec<u128> = ["a", "b", "c"].map(|seed| delay(&error, 1, 1000, seed).as_millis()).to_vec();
        assert!(waits.iter().all(|ms| (1000..=1250).contains(ms)) && waits[0] != waits[1], "{waits:?}");
    }
}
