//! Tools, skills and the agent loop, without I/O.
//!
//! The loop is a state machine that can be saved between any two steps: [`AgentLoop::next_step`] returns what is needed
//! next (call a model, run tools, call a callback), and [`AgentLoop::answer`] takes the result. The driver decides how
//! models are called and tools are executed; pausing, replay and tests need no other mechanism. Progress is reported as
//! [`AgentEvent`]s.
//!
//! The crate does not depend on the VM. Registries hold script values ([`harn_value::Value`]) because handlers are
//! closures; the loop itself operates on JSON.
//!
//! Read `run/mod.rs` first (the steps of an iteration), then `run/dispatch.rs` (the stages of a tool call) and
//! `config.rs` (the options).
//!
//! | Directory or file | Content |
//! | --- | --- |
//! | `run/` | the loop itself |
//! | `policy/`, `ceiling.rs` | whether a tool call may run; the intersection of policies |
//! | `harness/` | the specs of agents with roles, plans and runtimes |
//! | `roles/` | the decisions of a role runtime |
//! | `workflow/`, `lifecycle/`, `daemon/` | graphs of loops; delegated work; loops that wait for events |
//! | `profile/` | facts about a project directory, as parts of a prompt |
//! | `evals/` | eval packs; records of repeated corrections |
//! | `mcp.rs` | MCP servers: their options, tools and results |
//! | `assemble.rs` | artifacts split into chunks that fit a budget |
//! | `artifact.rs`, `handoff.rs`, `plan_artifact.rs` | the values that agents pass to each other |
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
pub mod loop_options;
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
