//! Tools, skills and the agent loop, without I/O.
//!
//! The loop is a state machine that can be saved between any two steps: [`AgentLoop::next_step`] says
//! what is needed next (call a model, run tools, ask a callback) and [`AgentLoop::answer`] takes the
//! result. Whoever drives it decides how models are called and tools are run; pausing, replaying and
//! testing need nothing else. What happens on the way is told as [`AgentEvent`]s.
//!
//! The crate knows nothing of the VM. Registries hold script values ([`harn_value::Value`]) because
//! handlers are closures; the loop itself lives on JSON.
//!
//! Read `run/mod.rs` first (the steps of an iteration), then `run/dispatch.rs` (what happens to a tool
//! call) and `config.rs` (the options). `harness/` holds the specs of role agents, plans and runtimes, `roles/` what their runtime decides, `profile/` the signals of
//! a project folder as gated fragments, `workflow/` graphs of loops and how they run, `ceiling.rs` what a request for rights keeps,
//! `artifact.rs`, `handoff.rs` and `plan_artifact.rs` what agents hand to each other.
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]
#![forbid(unsafe_code)]

pub mod artifact;
pub mod ceiling;
pub mod command;
pub mod compaction;
pub mod config;
pub mod daemon;
pub mod detect;
pub mod error;
pub mod event;
pub mod feedback;
pub mod handoff;
pub mod harness;
pub mod hook;
pub mod ledger;
pub mod lifecycle;
pub mod loop_skill;
pub mod microcompact;
pub mod plan_artifact;
pub mod policy;
pub mod profile;
pub mod registry;
pub mod roles;
pub mod run;
pub mod skill_file;
pub mod skills;
pub mod surface;
pub mod synthesis;
pub mod tool;
pub mod workflow;

pub use config::LoopConfig;
pub use error::ConfigError;
pub use event::AgentEvent;
pub use registry::RegistryError;
pub use run::{
    AgentLoop, Answer, Archive, Delivery, HookVerdict, Look, LoopError, ModelCall, Moment,
    PermissionQuestion, Rest, SkillHook, Step, ToolIntent, ToolReply, ToolRun, ToolStatus, unwrapped,
};
