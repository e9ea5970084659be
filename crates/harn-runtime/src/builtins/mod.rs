//! The builtins of prompts, model calls and agents, one file per group.

use harn_vm::Builtin;

mod agent;
mod llm;
mod mock;
mod models;
mod prompt;
mod skill;
mod template;
mod tool;
mod transcript;

/// The tables, in the order of the reference.
pub(crate) fn tables() -> Vec<&'static [Builtin]> {
    vec![
        template::TEMPLATES,
        prompt::PROMPTS,
        llm::LLM,
        models::MODELS,
        models::COSTS,
        mock::MOCK,
        tool::TOOLS,
        skill::SKILLS,
        agent::AGENTS,
        transcript::TRANSCRIPTS,
    ]
}

pub(crate) use llm::{call_dict, failed};
pub(crate) use tool::{BoundTools, result_text};
