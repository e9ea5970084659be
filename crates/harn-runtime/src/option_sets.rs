//! The sets of options that signatures name.

use harn_llm::options::{DataOptions, OptionField};

/// Returns the options of a model call.
pub fn call_options() -> &'static [OptionField] {
    harn_llm::CallOptions::FIELDS
}

/// Returns the options that a loop has besides those of its calls.
pub fn loop_options() -> &'static [OptionField] {
    harn_agent::loop_options::LoopOptions::FIELDS
}

/// The options of a run of a workflow.
pub fn workflow_options() -> impl Iterator<Item = &'static OptionField> {
    harn_agent::workflow::RunOptions::fields()
}
