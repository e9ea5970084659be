//! A template of the preflight.

use std::sync::Arc;

use harn_syntax::SourceFile;
use harn_template::Template;

/// A template that parsed.
pub(crate) struct Parsed {
    pub(crate) template: Template,
    /// How diagnostics show it.
    pub(crate) shown: Arc<SourceFile>,
}
