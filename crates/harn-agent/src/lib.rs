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
//! call) and `config.rs` (the options).
//!
//! | Folder or file | What it holds |
//! | --- | --- |
//! | `run/` | the loop itself |
//! | `policy/`, `ceiling.rs` | whether a tool call may run; what is left of the rights that were asked for |
//! | `harness/` | the specifications of agents with roles, plans and runtimes |
//! | `roles/` | what a runtime of such agents decides |
//! | `workflow/`, `lifecycle/`, `daemon/` | graphs of loops; work that is handed on; loops that wait for events |
//! | `profile/` | what a project folder says about itself, as parts of a prompt |
//! | `evals/` | packs of cases that runs are judged by; what has to be corrected again and again |
//! | `mcp.rs` | servers of tools: how a loop names them, what they list and answer |
//! | `assemble.rs` | artifacts in chunks that fit a budget |
//! | `artifact.rs`, `handoff.rs`, `plan_artifact.rs` | what agents hand to each other |
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]
#![forbid(unsafe_code)]

pub mod agents;
pub mod artifact;
pub mod assemble;
pub mod ceiling;
pub mod command;
pub mod compaction;
pub mod config;
pub mod daemon;
pub mod detect;
pub mod error;
pub mod evals;
pub mod event;
pub mod feedback;
pub mod handoff;
pub mod harness;
pub mod hook;
pub mod host_skill;
pub mod ledger;
pub mod lifecycle;
pub mod loop_skill;
pub mod mcp;
pub mod microcompact;
pub mod neighbours;
pub mod plan_artifact;
pub mod policy;
pub mod profile;
pub mod registry;
pub mod roles;
pub mod run;
pub mod skill_file;
pub mod skill_sign;
pub mod skills;
pub mod surface;
pub mod synthesis;
pub mod tool;
pub mod workflow;

pub use config::LoopConfig;
pub use error::ConfigError;
pub use event::{AgentEvent, ToolProgress};
pub use registry::RegistryError;
pub use run::{
    AgentLoop, Answer, Archive, Binding, Blocked, Delivery, HookVerdict, Look, LoopError, ModelCall, Moment,
    PermissionQuestion, Rest, Review, Reviewed, SkillHook, Step, ToolIntent, ToolReply, ToolRun, ToolStatus,
    Transfer, unwrapped,
};
