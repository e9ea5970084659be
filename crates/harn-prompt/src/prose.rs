//! Prose that a model reads comes from outside: template assets, rendered by whoever owns the template engine.

use std::collections::BTreeMap;

use harn_value::{Data as Value, data::Map};

/// An asset could not be rendered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("prompt asset `{asset}`: {cause}")]
pub struct ProseError {
    /// The asset's name, such as `std/agent/prompts/progress_nudge.harn.prompt`.
    pub asset: String,
    /// What went wrong.
    pub cause: String,
}

/// Supplies rendered template assets by name.
pub trait Prose {
    /// Renders the asset `name` (`std/...harn.prompt`) with `bindings`.
    ///
    /// # Errors
    /// When there is no such asset or it does not render.
    fn render(&self, name: &str, bindings: &Map<String, Value>) -> Result<String, ProseError>;
}

impl<F> Prose for F
where
    F: Fn(&str, &Map<String, Value>) -> Result<String, ProseError>,
{
    fn render(&self, name: &str, bindings: &Map<String, Value>) -> Result<String, ProseError> {
        self(name, bindings)
    }
}

/// Prose from a table of finished texts: bindings are not looked at. For tests and for programs without templates.
#[derive(Clone, Debug, Default)]
pub struct FixedProse {
    texts: BTreeMap<String, String>,
}

impl FixedProse {
    /// Creates an empty table: every asset is unknown.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a text under an asset name.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, text: impl Into<String>) -> Self {
        self.texts.insert(name.into(), text.into());
        self
    }
}

impl Prose for FixedProse {
    fn render(&self, name: &str, _bindings: &Map<String, Value>) -> Result<String, ProseError> {
        let unknown = || ProseError { asset: name.to_owned(), cause: "no such asset".to_owned() };
        self.texts.get(name).cloned().ok_or_else(unknown)
    }
}

/// Returns the name of an agent prompt: `progress_nudge` becomes `std/agent/prompts/progress_nudge.harn.prompt`.
#[must_use]
pub fn agent_asset(stem: &str) -> String {
    format!("std/agent/prompts/{stem}.harn.prompt")
}
