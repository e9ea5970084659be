//! The builtins of prompts, model calls and agents, one file per group.

use harn_vm::{Builtin, MethodTable};

mod agent;
mod artifact;
mod command;
mod daemon;
mod evals;
mod graph;
mod harness;
mod hitl;
mod hook;
mod llm;
mod mailbox;
mod mcp;
mod mcp_server;
mod mock;
mod models;
mod prompt;
mod reminder;
mod roles;
mod session;
mod skill;
mod stream;
mod template;
mod tool;
mod transcript;
mod waitpoint;
mod worker;
mod workflow;

/// Returns the tables of builtins, in the order of the reference.
pub(crate) fn tables() -> Vec<&'static [Builtin]> {
    vec![
        template::TEMPLATES,
        prompt::PROMPTS,
        harness::HARNESS,
        roles::ROLES,
        llm::LLM,
        models::MODELS,
        models::COSTS,
        mock::MOCK,
        tool::TOOLS,
        hook::HOOKS,
        hitl::HITL,
        waitpoint::WAITPOINTS,
        command::COMMANDS,
        skill::SKILLS,
        agent::AGENTS,
        session::SESSIONS,
        worker::WORKERS,
        daemon::DAEMONS,
        transcript::TRANSCRIPTS,
        reminder::REMINDERS,
        graph::GRAPHS,
        workflow::WORKFLOWS,
        evals::EVALS,
        mailbox::MAILBOX,
        artifact::ARTIFACTS,
        mcp::MCP,
        mcp_server::MCP_SERVER,
    ]
}

/// Returns functions that are called as methods of a builtin's name (`transcript.inject_reminder(…)`).
pub(crate) fn methods() -> [MethodTable; 4] {
    [
        MethodTable { type_name: "builtin", methods: reminder::METHODS },
        MethodTable { type_name: "builtin", methods: mailbox::METHODS },
        // `std/agents` also exports a function with this name.
        MethodTable { type_name: "closure", methods: mailbox::METHODS },
        MethodTable { type_name: "channel", methods: stream::RESULT },
    ]
}

pub(crate) use evals::noted as noted_metrics;
pub(crate) use graph::read_keeping as read_graph;
pub(crate) use harness::{PREDICATE, descriptions, plain, program_record};
pub(crate) use llm::{call_dict, call_once, check_system, failed};
pub(crate) use template::{file, json_schema as template_schema};
pub(crate) use tool::{model_result, result_text};
