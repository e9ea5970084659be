//! The environment of a run: time, identifiers, prompts.

use harn_prompt::Prose;

/// The environment of a run.
pub struct World<'a> {
    /// Returns the time as RFC 3339.
    pub now: &'a dyn Fn() -> String,
    /// Generates identifiers.
    pub ids: &'a dyn Fn() -> String,
    /// Renders prompts.
    pub prose: &'a dyn Prose,
}
