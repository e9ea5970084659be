//! State that tasks share besides channels and atomics: named locks, cells, maps and mailboxes.
//!
//! All of it belongs to one VM. Locks have a kind and a key; cells, maps and mailboxes have a key in a scope, which is
//! resolved when they are opened.

mod lock;
mod locks;
mod mailboxes;
mod scope;
mod shared;
mod wait;

use crate::builtin::Builtin;

pub(crate) use lock::held_locks;
pub(crate) use locks::{enter_block, gives_permits, leave_block};
pub(crate) use wait::TimeLimit;

/// Returns the builtin tables.
pub(crate) fn tables() -> [&'static [Builtin]; 4] {
    [locks::LOCKS, shared::SHARED_STATE, scope::SCOPES, mailboxes::MAILBOXES]
}
