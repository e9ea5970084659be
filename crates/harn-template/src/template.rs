//! [`Template`]: a template that is parsed once and can be rendered many times.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::fmt;
use std::rc::Rc;

use crate::error::TemplateError;
use crate::loader::Origin;
use crate::program::Program;

/// A parsed template.
pub struct Template {
    pub(crate) origin: Origin,
    pub(crate) uri: Rc<str>,
    pub(crate) source: Cow<'static, str>,
    pub(crate) program: Program,
    hash: OnceCell<String>,
}

impl Template {
    /// Parses `text`.
    ///
    /// # Errors
    /// Returns the first parse error with its location, or an error if the source is larger than
    /// [`crate::MAX_TEMPLATE_BYTES`].
    pub fn parse(origin: Origin, text: impl Into<Cow<'static, str>>) -> Result<Template, TemplateError> {
        let source = text.into();
        let uri: Rc<str> = origin.uri().into();
        match crate::compile::compile(&source) {
            Ok(program) => Ok(Template { origin, uri, source, program, hash: OnceCell::new() }),
            Err((site, kind)) => {
                let range = site.start as usize..site.end as usize;
                Err(TemplateError::at(uri, position(&source, site.start), range, *kind))
            }
        }
    }

    /// Parses a template that is not stored in a file.
    ///
    /// # Errors
    /// Like [`Template::parse`].
    pub fn inline(text: &str) -> Result<Template, TemplateError> {
        Template::parse(Origin::Inline, text.to_owned())
    }

    /// Returns the origin of the template.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Returns the path, the `std://` URI, or an empty string for an inline template.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// Returns the source.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Returns the SHA-256 hash of the source as 64 lowercase hex digits: `template_revision_hash` of the render
    /// event.
    pub fn revision_hash(&self) -> &str {
        self.hash.get_or_init(|| {
            use sha2::{Digest, Sha256};
            use std::fmt::Write;
            Sha256::digest(self.source.as_bytes()).iter().fold(String::with_capacity(64), |mut hex, byte| {
                let _ = write!(hex, "{byte:02x}");
                hex
            })
        })
    }

    /// Returns the 1-based line and column of a byte offset; columns count characters.
    pub fn position(&self, offset: usize) -> (u32, u32) {
        position(&self.source, offset as u32)
    }

    pub(crate) fn text(&self, start: u32, end: u32) -> &str {
        &self.source[start as usize..end as usize]
    }
}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Template").field("uri", &self.uri).finish_non_exhaustive()
    }
}

/// Returns the 1-based line and column of `offset`. Computed on demand, because only errors, traces and lints need
/// it.
pub(crate) fn position(source: &str, offset: u32) -> (u32, u32) {
    let before = &source[..offset as usize];
    let line_start = memchr::memrchr(b'\n', before.as_bytes()).map_or(0, |at| at + 1);
    let line = 1 + memchr::memchr_iter(b'\n', before.as_bytes()).count();
    let column = 1 + before[line_start..].chars().count();
    (line as u32, column as u32)
}
