//! Waiting for the world, and what becomes of a wait that a process did not survive.

use std::future::Future;
use std::pin::Pin;

/// A wait, in the thread of the one who waits. Dropping it takes back what was asked for.
pub type Waiting<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// What becomes of an effect of which nobody knows whether it happened, because the process ended in the middle of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Uncertain {
    /// It is an error that says so.
    #[default]
    Fail,
    /// It is done again: the other side takes it twice without harm.
    Retry,
    /// A person decides whether it is done again. Where nobody can be asked, it is an error.
    Ask,
}
