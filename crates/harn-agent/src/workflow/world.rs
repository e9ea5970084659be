//! What a run needs of its surroundings: the time, identifiers, prompts.

use harn_prompt::Prose;

/// What a run needs of its surroundings.
pub struct World<'a> {
    /// The time as RFC 3339.
    pub now: &'a dyn Fn() -> String,
    /// Makes identifiers.
    pub ids: &'a dyn Fn() -> String,
    /// Renders prompts.
    pub prose: &'a dyn Prose,
}
