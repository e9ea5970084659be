//! The option sets that signatures refer to.

use harn_llm::options::{DataOptions, OptionField};

/// Returns the options of a model call.
pub fn call_options() -> &'static [OptionField] {
    harn_llm::CallOptions::FIELDS
}

/// Returns the options of a loop that are not options of its calls.
pub fn loop_options() -> &'static [OptionField] {
    harn_agent::loop_options::LoopOptions::FIELDS
}

/// Returns the options of a workflow run.
pub fn workflow_options() -> impl Iterator<Item = &'static OptionField> {
    harn_agent::workflow::RunOptions::fields()
}
