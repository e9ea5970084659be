//! Waiting for external effects, and the handling of waits that a process did not survive.

use std::future::Future;
use std::pin::Pin;

/// A wait in the current thread. Dropping it cancels the operation.
pub type Waiting<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// The handling of an effect in doubt: the process ended before the outcome was recorded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Uncertain {
    /// Fails with an error.
    #[default]
    Fail,
    /// Repeats the effect, which must be idempotent.
    Retry,
    /// A human reviewer decides whether to repeat the effect. Without reviewers it is an error.
    Ask,
}
