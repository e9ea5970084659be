//! A VM with all components: the builtins of the language, the standard library, templates, prompts, model calls and
//! agents, and the embedded `std/` modules and prompts.
//!
//! ```
//! use harn_runtime::vm_builder;
//! use std::rc::Rc;
//! use harn_system::Memory;
//! use harn_vm::{Source, block_on, load};
//!
//! let vm = vm_builder(Rc::new(Memory::new())).build();
//! let text = r#"return render_string("Hello {{ name }}!", {name: "Ada"})"#;
//! let program = load(&vm, &Source { name: "demo".into(), text: text.into(), dir: ".".into() });
//! let outcome = block_on(program.unwrap_or_else(|_| panic!("valid")).run(&vm, None, &[])).unwrap();
//! assert_eq!(outcome.result.unwrap().to_string(), "Hello Ada!");
//! ```
//!
//! The crate converts values and calls the crate that implements the feature.
//!
//! | Files | Content |
//! | --- | --- |
//! | `builtins/` | builtins for models, prompts, agents, workers and roles, one file per group |
//! | `convert.rs`, `kept.rs` | conversion between script values and JSON; closures within converted values |
//! | `assets.rs`, `listing.rs`, `estimate.rs` | embedded modules and prompts; lists of providers and models; cost estimates of calls |
//! | `llm_embedder.rs` | the program's environment, clock, warnings and prompts for model calls |
//! | `llm_layers.rs`, `llm_tables.rs`, `llm_replay.rs`, `llm_unwritten.rs` | project configuration of model calls; recording and replay, and its write errors |
//! | `driver.rs`, `driver/` | runs the steps of an agent loop: `driver/setup.rs` reads its options, `driver/tools.rs` runs its tools |
//! | `own_tools.rs` | tools of the runtime |
//! | `session.rs`, `compact.rs`, `reminders.rs`, `live.rs`, `trace.rs`, `witness.rs` | parts of a loop: its session, compaction, reminders, streamed text, `agent_trace`, external observers |
//! | `session_store.rs`, `stored.rs`, `event_pack.rs`, `event_store.rs` | sessions and events that outlive the process, in `harn-store` |
//! | `policy.rs`, `command_policy.rs`, `hooks.rs`, `hitl.rs` | permissions of a loop: limits, command policies, hooks, human in the loop |
//! | `waitpoint.rs` | named waitpoints, where tasks wait until they are completed |
//! | `host.rs` | messages of the host: the editor or service that the program works for |
//! | `skill_files.rs`, `skill_keys.rs`, `skill_host.rs` | skills on disk, keys of their signers; skills of the host |
//! | `template_state.rs` | the state of templates being rendered |
//! | `workflow.rs`, `mailbox.rs` | graphs of loops, and messages to them |
//! | `evals.rs`, `run_records.rs` | run records, suites and packs in files |
//! | `anew.rs` | programs that restart with `continue_as_new` |
//! | `mcp.rs`, `mcp_http.rs`, `mcp_project.rs` | clients of MCP servers, over pipes and HTTP; servers of a project |
//! | `option_sets.rs`, `option_check.rs`, `tool_config.rs`, `tool_options.rs`, `audit.rs` | option tables and their validation, including the options of tools and `audit` |
//! | `task_facts.rs` | the context of the running task for `runtime_context` |
//! | `mcp_server/`, `host_module.rs`, `exported.rs` | a program as an MCP server, or as the host of another one; functions called by name |
//! | `worker/`, `daemon.rs`, `daemon_view.rs`, `rest.rs` | workers; loops with a handle; waiting between turns |
//! | `roles/` | runtimes of agents with roles |
//! | `rehearsal.rs` | shows the prompts of a run without calling a model |

#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

mod agents;
mod anew;
mod assets;
mod audit;
mod builtins;
mod command_policy;
mod compact;
mod convert;
mod daemon;
mod daemon_view;
mod driver;
mod estimate;
mod evals;
mod event_pack;
mod event_store;
mod exported;
mod failure;
mod hitl;
mod hooks;
mod host;
mod host_module;
mod kept;
mod listing;
mod live;
mod llm_embedder;
mod llm_layers;
mod llm_replay;
mod llm_tables;
mod llm_unwritten;
mod mailbox;
mod manifest_check;
mod mcp;
mod mcp_callbacks;
mod mcp_http;
mod mcp_loop;
pub mod mcp_oauth;
mod mcp_project;
mod mcp_server;
mod model_tables;
mod option_check;
mod option_sets;
mod own_tools;
mod policy;
mod prompt_eval;
mod records;
mod rehearsal;
mod reminders;
mod rest;
mod roles;
mod run_records;
mod session;
mod session_admin;
mod session_store;
mod skill_files;
mod skill_host;
mod skill_keys;
mod store_place;
mod stored;
mod task_facts;
mod template_state;
mod tool_config;
mod tool_options;
mod trace;
mod waitpoint;
mod witness;
mod worker;
mod workflow;

use std::rc::Rc;

use harn_system::System;
use harn_value::Value;
use harn_vm::{Builtin, MethodTable, VmBuilder};

pub use anew::{Generation, begin_generation, handed_over};
pub use assets::{EmbeddedPrompts, prompt_asset, std_module, std_module_names};
pub use estimate::{CallEstimate, estimate_call};
pub use evals::{Evaluation, NO_COMPARE, evaluate_pack_file, evaluate_path};
pub use event_store::{configure_event_log, refuse_event_log};
pub use failure::error_category;
pub use harn_agent::loop_skill::{Candidate, REQUIRE_SIGNED as REQUIRE_SIGNED_SKILLS};
pub use harn_agent::skill_file::{FILE as SKILL_FILE, Signature, SkillFile};
pub use harn_agent::skill_sign::{SigningKey, fingerprint_of};
pub use harn_stdlib::{Answer, HostBridge, attach_host, constant_time_equal, hmac_sha256, wrong_pattern};
pub use hitl::shown_arguments;
pub use hooks::install_manifest_hooks;
pub use host::{HostInbox, host_inbox};
pub use host_module::HostModule;
pub use listing::{
    check_provider, describe_model, list_models, list_providers, max_tools, provider_catalog,
    provider_matrix, provider_of_model, tells_provider,
};
pub use llm_embedder::{llm_runtime, llm_runtime_at};
pub use llm_layers::read_model_table_from;
pub use llm_replay::ModelTraffic;
pub use llm_tables::{LlmConfigProblem, llm_config_problems, llm_config_slips};
pub use llm_unwritten::unwritten_calls;
pub use manifest_check::manifest_problems;
pub use mcp_project::{
    add_client_servers, check_client_servers, install_servers, project_http_server, project_servers,
    start_servers,
};
pub use mcp_server::{MCP_REVISIONS, McpProblem, McpServer};
pub use model_tables::{model_facts, stale_models, update_model_table};
pub use option_check::{own as own_options, wrong_options};
pub use option_sets::{call_options, loop_options, workflow_options};
pub use prompt_eval::{PromptJob, PromptMode, compare_prompts, package_packs};
pub use records::record;
pub use rehearsal::{SentCall, rehearse_calls};
pub use run_records::{RunRecord, diff as diff_run_records};
pub use session_admin::{SessionContent, SessionHead, StoredSessions};
pub use session_store::{configure_sessions, keep_sessions_of};
pub use skill_files::{
    SkillOnDisk, SkillsOnDisk, find_skills, install_skills, rank_skills, read_entry, read_skill, skills_in,
};
pub use skill_keys::{Signers, trusted_keys};
pub use store_place::store_place;
pub use witness::observe_run;
pub use worker::registry::unheard_failures;

/// Starts to record the model calls of a program for [`attempts_summary`].
pub fn keep_attempts(vm: &Rc<harn_vm::Vm>) {
    llm_runtime(vm).keep_attempts();
}

/// Returns a readable summary of the model calls of a program; `None` if it made none.
pub fn attempts_summary(vm: &Rc<harn_vm::Vm>) -> Option<String> {
    llm_runtime(vm).attempts_summary()
}

/// Returns the totals of a program's model calls, as far as they were recorded with [`keep_attempts`].
pub fn attempts_total(vm: &Rc<harn_vm::Vm>) -> harn_llm::runtime::AttemptsTotal {
    llm_runtime(vm).attempts_total()
}

/// Returns the default provider if none is configured.
pub fn builtin_provider() -> &'static str {
    harn_llm::config::Config::builtin_provider()
}

/// Returns the totals of a program's model calls. Does not create the model runtime.
pub fn model_totals(vm: &Rc<harn_vm::Vm>) -> harn_llm::cost::Totals {
    vm.extension::<llm_embedder::LlmState>().totals()
}

/// Returns how many tool calls the loops of a program have executed, and their total duration in milliseconds.
pub fn tools_total(vm: &Rc<harn_vm::Vm>) -> (i64, i64) {
    let summary = vm.extension::<llm_embedder::LlmState>().trace.borrow().summary();
    let field = |key: &str| summary[key].as_i64().unwrap_or(0);
    (field("tool_executions"), field("total_tool_duration_ms"))
}

/// Checks that `spec` is a valid structural experiment.
///
/// # Errors
/// A message for the user.
pub fn check_experiment(spec: &str) -> Result<(), String> {
    match harn_llm::experiment::Experiment::parse(&spec.into()) {
        Ok(Some(_)) => Ok(()),
        Ok(None) => Err("--structural-experiment names no experiment".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Returns the metrics that a program recorded with `eval_metric`, in order: `{name, value, metadata}`.
pub fn noted_metrics(vm: &harn_vm::Vm) -> Vec<harn_value::Data> {
    builtins::noted_metrics(vm)
}

/// Returns all tables of builtins in the order of the reference, except for those of the language itself.
pub fn tables() -> Vec<&'static [Builtin]> {
    let mut tables = harn_stdlib::builtins();
    tables.extend(builtins::tables());
    tables
}

/// Returns the methods of all value types.
pub fn methods() -> Vec<MethodTable> {
    let mut methods = harn_stdlib::methods();
    methods.extend(builtins::methods());
    methods
}

/// Returns the names of global values (`pi`, `e`).
pub fn globals() -> Vec<(&'static str, Value)> {
    harn_stdlib::globals()
}

/// Returns a builder for a VM with all components; callers add `argv` and similar globals.
pub fn vm_builder(system: Rc<dyn System>) -> VmBuilder {
    let builder = VmBuilder::new(system).builtins(tables()).methods(methods()).std_modules(std_module);
    let builder = builder.task_facts(harn_stdlib::task_facts).task_facts(task_facts::tell);
    let builder = builder.debug_facts(harn_stdlib::debug_facts);
    let builder = builder.global("skills", harn_agent::skills::empty());
    globals().into_iter().fold(builder, |builder, (name, value)| builder.global(name, value))
}

/// The README, so that its example runs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
