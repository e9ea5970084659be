//! Runs what [`harn_agent::roles`] decides: agents with roles, their tools, the people who are asked, and what is kept.
//!
//! `closures.rs` is what the program brings, `shelf.rs` where things are kept, `runtime.rs` what a handle stands for, `run.rs` a run
//! and its events, `interpret.rs` how a turn is made, `invoke.rs` a turn with its memory, `ask.rs` the questions to people,
//! `references.rs` and `plans.rs` their toolkits, `tools.rs` the calls of tools, `start.rs` how a run begins and ends,
//! `create.rs` the check of everything before. Files use those named before them only.

pub(crate) mod ask;
pub(crate) mod closures;
pub(crate) mod create;
pub(crate) mod interpret;
pub(crate) mod invoke;
pub(crate) mod plans;
pub(crate) mod references;
pub(crate) mod run;
pub(crate) mod runtime;
pub(crate) mod shelf;
pub(crate) mod start;
pub(crate) mod tools;
