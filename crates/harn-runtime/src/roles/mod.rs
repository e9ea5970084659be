//! Executes the decisions of [`harn_agent::roles`]: agents with roles, their tools, approvals, and stored data.
//!
//! `closures.rs` defines the program's closures, `shelf.rs` the stores, `runtime.rs` the state of a handle, `run.rs` a
//! run and its events, `interpret.rs` the interpreters of turns, `invoke.rs` a turn with memory, `ask.rs` approval
//! questions, `references.rs` and `plans.rs` the toolkits, `tools.rs` tool calls, `start.rs` the start and end of a
//! run, `create.rs` the validation before it. Files only use those named before them.

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
