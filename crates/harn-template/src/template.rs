//! [`Template`]: a text that was parsed once, and can be rendered many times.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::fmt;
use std::rc::Rc;

use crate::error::TemplateError;
use crate::loader::Origin;
use crate::program::Program;

/// A parsed template: parse once, render many times.
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
    /// The first parse error, with its place; or that the text is larger than [`crate::MAX_TEMPLATE_BYTES`].
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

    /// Parses a template that is in no file.
    ///
    /// # Errors
    /// As [`Template::parse`].
    pub fn inline(text: &str) -> Result<Template, TemplateError> {
        Template::parse(Origin::Inline, text.to_owned())
    }

    /// Where the template comes from.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Path, `std://` URI, or the empty string for an inline template.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// The text it was parsed from.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// SHA-256 of the source, 64 lowercase hex digits: `template_revision_hash` of the render event.
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

    /// Line and column of a byte offset, from 1, columns in characters.
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

/// Line and column of `offset`. Counted on demand: only errors, traces and lints ask.
pub(crate) fn position(source: &str, offset: u32) -> (u32, u32) {
    let before = &source[..offset as usize];
    let line_start = memchr::memrchr(b'\n', before.as_bytes()).map_or(0, |at| at + 1);
    let line = 1 + memchr::memchr_iter(b'\n', before.as_bytes()).count();
    let column = 1 + before[line_start..].chars().count();
    (line as u32, column as u32)
}
