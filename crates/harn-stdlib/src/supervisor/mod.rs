//! Supervisors: they keep background tasks of a program running and restart them when they fail (04, section 12).
//!
//! `plan.rs` parses the specification and `policy.rs` decides about restarts; `state.rs` is the state of a supervisor,
//! `work.rs` its behavior, `view.rs` its representation for programs. A supervisor is a separate task that belongs to
//! the task that started it, and its children belong to it: when the owner ends, they end too.

mod plan;
mod policy;
mod state;
mod view;
mod work;

pub use state::debug_facts;
pub(crate) use state::{Supervisor, Supervisors};
