//! [`Template`]: the compiled form. A flat list of instructions over the source text; names are slots,
//! jumps are indices, static text stays a range of the source.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::fmt;
use std::rc::Rc;

use harn_value::Str;

use crate::error::TemplateError;
use crate::expr::{Expr, Name};
use crate::loader::Origin;
use crate::sections::SectionSpec;

/// The largest template that is accepted, in bytes.
pub const MAX_TEMPLATE_BYTES: usize = 64 << 20;

/// A parsed template: parse once, render many times.
pub struct Template {
    pub(crate) origin: Origin,
    pub(crate) uri: Rc<str>,
    pub(crate) source: Cow<'static, str>,
    pub(crate) program: Program,
    hash: OnceCell<String>,
}

/// What the compiler makes of the source.
#[derive(Debug, Default)]
pub(crate) struct Program {
    pub(crate) ops: Vec<Op>,
    pub(crate) writes: Vec<Write>,
    pub(crate) tests: Vec<Test>,
    pub(crate) loops: Vec<Loop>,
    pub(crate) includes: Vec<Include>,
    pub(crate) sections: Vec<Section>,
    /// Names that are bound outside the template.
    pub(crate) free: Vec<Str>,
    /// How many loop variables are alive at once, at most.
    pub(crate) locals: usize,
}

/// The bytes of a directive, from `{{` to behind `}}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Site {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

/// An instruction. Targets are indices into the list.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Op {
    /// Copies a range of the source.
    Text {
        start: u32,
        end: u32,
    },
    /// Writes an expression.
    Write(u32),
    /// `{{ name }}` with a loop variable.
    WriteLocal {
        slot: u16,
        at: u32,
    },
    /// `{{ name }}` with a name from outside. `start..end` is the source between the braces, written
    /// back when the name is bound nowhere.
    Bare {
        free: u32,
        start: u32,
        end: u32,
    },
    /// Goes on if the condition holds, else jumps.
    Test {
        test: u32,
        otherwise: u32,
    },
    /// The end of a branch of an `if`.
    EndBranch {
        target: u32,
    },
    /// Starts a loop, or jumps to `empty` (the `else` body, or behind the loop).
    For {
        info: u32,
        empty: u32,
    },
    /// The next round, or on to `exit`.
    Next {
        body: u32,
        exit: u32,
    },
    Include(u32),
    SectionStart(u32),
    SectionEnd(u32),
}

#[derive(Debug)]
pub(crate) struct Write {
    pub(crate) expr: Expr,
    pub(crate) site: Site,
}

/// A condition of an `if` or `elif`.
#[derive(Debug)]
pub(crate) struct Test {
    pub(crate) expr: Expr,
    pub(crate) site: Site,
    /// Where the condition is written.
    pub(crate) condition: (u32, u32),
    /// 0 for the `if`, then the number of the `elif`.
    pub(crate) branch: u32,
    /// The `{{` of the `if` that this belongs to.
    pub(crate) opened_at: u32,
    pub(crate) otherwise: Otherwise,
}

/// What a failed test means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Otherwise {
    /// Another condition is tried.
    Elif,
    /// The `else` at this place is taken.
    Else(u32),
    /// Nothing is taken.
    Nothing,
}

#[derive(Debug)]
pub(crate) struct Loop {
    pub(crate) iterable: Expr,
    pub(crate) site: Site,
    pub(crate) key: Option<u16>,
    pub(crate) value: u16,
}

#[derive(Debug)]
pub(crate) struct Include {
    pub(crate) path: Expr,
    pub(crate) with: Vec<(Str, Expr)>,
    /// Loop variables that the included template sees, innermost first.
    pub(crate) scope: Box<[(Str, Name)]>,
    pub(crate) site: Site,
}

#[derive(Debug)]
pub(crate) struct Section {
    pub(crate) spec: &'static SectionSpec,
    pub(crate) argument: Option<Expr>,
    /// Where `llm` is found.
    pub(crate) llm: Name,
    pub(crate) site: Site,
}

impl Template {
    /// Parses `text`.
    ///
    /// # Errors
    /// The first parse error, with its place; or that the text is larger than [`MAX_TEMPLATE_BYTES`].
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
