//! A template of the preflight.

use std::sync::Arc;

use harn_syntax::SourceFile;
use harn_template::Template;

/// A template that parsed.
pub(crate) struct Parsed {
    pub(crate) template: Template,
    /// Its name in diagnostics.
    pub(crate) shown: Arc<SourceFile>,
}
