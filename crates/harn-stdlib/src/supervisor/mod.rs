//! Supervisors: they keep tasks running that a program cannot wait for, and start them again when they fail (04, section 12).
//!
//! `plan.rs` reads what a program asks for and `policy.rs` says when a task is started again; `state.rs` is what a supervisor
//! knows, `work.rs` what it does, `view.rs` what programs see of it. A supervisor is a task of its own, which belongs to the task
//! that began it, and its children belong to it: whatever ends it ends them.

mod plan;
mod policy;
mod state;
mod view;
mod work;

pub use state::debug_facts;
pub(crate) use state::{Supervisor, Supervisors};
