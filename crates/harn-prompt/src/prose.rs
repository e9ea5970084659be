//! Rendered prompt templates, supplied by the owner of the template engine.

use std::collections::BTreeMap;

use harn_value::{Data as Value, data::Map};

/// A template asset that could not be rendered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("prompt asset `{asset}`: {cause}")]
pub struct ProseError {
    /// The asset's name, such as `std/agent/prompts/progress_nudge.harn.prompt`.
    pub asset: String,
    /// The cause.
    pub cause: String,
}

/// Supplies rendered template assets by name.
pub trait Prose {
    /// Renders the asset `name` (`std/...harn.prompt`) with `bindings`.
    ///
    /// # Errors
    /// The asset does not exist or cannot be rendered.
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

/// A table of rendered assets that ignores bindings. For tests and for programs without templates.
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

    /// Adds a rendered asset.
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
