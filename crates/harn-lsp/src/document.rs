//! An immutable source with its derived data. An edit creates a new document.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};

use harn_check::{Source, Told, World};
use harn_front::Names;
use harn_syntax::{Parsed, Span};
use lsp_types::{Position, Range, Uri};

use crate::text::Lines;

/// A program or a template.
pub(crate) struct Document {
    pub(crate) path: PathBuf,
    pub(crate) uri: Uri,
    pub(crate) text: String,
    pub(crate) lines: Lines,
    parsed: OnceCell<Parsed>,
    names: OnceCell<Names>,
    told: OnceCell<Told>,
}

impl Document {
    pub(crate) fn new(path: PathBuf, uri: Uri, text: String) -> Document {
        Document {
            lines: Lines::of(&text),
            path,
            uri,
            text,
            parsed: OnceCell::new(),
            names: OnceCell::new(),
            told: OnceCell::new(),
        }
    }

    /// Returns whether it is a prompt template.
    pub(crate) fn is_template(&self) -> bool {
        self.path.extension().is_some_and(|extension| extension == "prompt")
    }

    pub(crate) fn parsed(&self) -> &Parsed {
        self.parsed.get_or_init(|| {
            if self.is_template() { Parsed::default() } else { harn_syntax::parse_for_tools(&self.text) }
        })
    }

    pub(crate) fn names(&self) -> &Names {
        self.names.get_or_init(|| Names::of(&self.parsed().program, self.text.len() as u32))
    }

    /// Returns the known types; computed once per document.
    pub(crate) fn told(&self, world: &World<'_>) -> &Told {
        let name = self.path.display().to_string();
        self.told.get_or_init(|| harn_check::types_of(&self.source(&name), world))
    }

    /// Returns the program for the checker.
    pub(crate) fn source<'a>(&'a self, name: &'a str) -> Source<'a> {
        Source { name, dir: self.dir(), text: &self.text, tree: &self.parsed().program }
    }

    pub(crate) fn dir(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new(""))
    }

    pub(crate) fn slice(&self, span: Span) -> &str {
        span.slice(&self.text)
    }

    pub(crate) fn range(&self, span: Span) -> Range {
        self.lines.range(&self.text, span)
    }

    pub(crate) fn offset(&self, position: Position) -> u32 {
        self.lines.offset(&self.text, position)
    }

    pub(crate) fn location(&self, span: Span) -> lsp_types::Location {
        lsp_types::Location::new(self.uri.clone(), self.range(span))
    }

    /// Returns whether an offset is inside a comment.
    pub(crate) fn in_comment(&self, offset: u32) -> bool {
        let comments = &self.parsed().program.comments;
        let at = comments.partition_point(|comment| comment.span.start < offset);
        at.checked_sub(1).is_some_and(|at| {
            let comment = &comments[at];
            offset < comment.span.end
                || offset == comment.span.end && self.slice(comment.span).starts_with("//")
        })
    }

    /// Returns the comment lines directly above an offset, without their delimiters.
    pub(crate) fn comments_above(&self, start: u32) -> String {
        harn_syntax::doc::comment_above(&self.text, start as usize)
    }
}

/// Returns the file of a URI.
pub(crate) fn path_of(uri: &Uri) -> Option<PathBuf> {
    let rest = uri.as_str().strip_prefix("file://")?;
    // The path follows the host name, which is empty for this machine.
    let path = &rest[rest.find('/')?..];
    let mut bytes = Vec::with_capacity(path.len());
    let raw = path.as_bytes();
    let mut at = 0;
    while at < raw.len() {
        let code = raw.get(at + 1..at + 3).and_then(|hex| std::str::from_utf8(hex).ok());
        match code.and_then(|hex| u8::from_str_radix(hex, 16).ok()).filter(|_| raw[at] == b'%') {
            Some(byte) => {
                bytes.push(byte);
                at += 3;
            }
            None => {
                bytes.push(raw[at]);
                at += 1;
            }
        }
    }
    let path = String::from_utf8(bytes).ok()?;
    // A drive letter follows the slash.
    let is_drive = path.as_bytes().get(2) == Some(&b':') && path.as_bytes()[1].is_ascii_alphabetic();
    Some(PathBuf::from(if is_drive { &path[1..] } else { &path }))
}

/// Returns the URI of a file.
pub(crate) fn uri_of(path: &Path) -> Option<Uri> {
    let mut out = String::from("file://");
    let text = path.to_str()?.replace('\\', "/");
    if !text.starts_with('/') {
        out.push('/');
    }
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte) {
            out.push(byte as char);
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_paths() {
        let uri: Uri = "file:///tmp/a%20b/%C3%A9.harn".parse().expect("an address");
        assert_eq!(path_of(&uri), Some(PathBuf::from("/tmp/a b/é.harn")));
        assert_eq!(uri_of(Path::new("/tmp/a b/é.harn")).as_ref(), Some(&uri));
        assert_eq!(path_of(&"untitled:x".parse().expect("an address")), None);
        let drive: Uri = "file:///c%3A/x.harn".parse().expect("an address");
        assert_eq!(path_of(&drive), Some(PathBuf::from("c:/x.harn")));
    }
}
