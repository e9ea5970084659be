//! Parser and diagnostics: spans, tokens, syntax tree.
//!
//! This is the lowest crate: it does not depend on values, types or execution. Source text passes these stages:
//! ```text
//! lexer (tokens, comments) → layout (which newlines separate, what `{` `?` `<` mean) → parser → ast::Program
//! ```
//!
//! Every stage continues after an error, so that one [`parse`] reports all of them. Errors are converted to
//! [`Diagnostic`]s, the common form in which this crate and the higher ones report problems to users.
//!
//! Read `ast/mod.rs` first, then `layout.rs`, then `parser/mod.rs`.

#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

pub mod ast;
mod brackets;
pub mod diagnostic;
pub mod doc;
pub mod error;
mod frame;
pub mod habits;
mod layout;
pub mod lexer;
mod parser;
pub mod schema_place;
pub mod shapes;
pub mod signature;
pub mod source_map;
pub mod span;
mod strings;
pub mod suggest;
pub mod token;
mod type_scan;
pub mod visit;

pub use diagnostic::{Diagnostic, Elsewhere, Severity};
pub use error::{Stage, SyntaxError, SyntaxErrorKind};
pub use frame::{MARGIN, error_line, notice, printable, printable_name, with_margin};
pub use source_map::{SourceFile, SourceMap};
pub use span::{FileId, Span};

use ast::Program;

/// Maximum number of brackets, braces and interpolations that are open at the same time.
pub const MAX_NESTING: usize = 256;

/// Maximum number of chained operators in one statement, along the deepest path through its brackets. It bounds the
/// depth of the tree, so that recursive walks do not overflow the stack.
pub(crate) const MAX_CHAIN: usize = 1000;

/// Maximum number of errors reported for one source.
pub const MAX_ERRORS: usize = 1000;

/// The result of [`parse`].
#[derive(Clone, Debug, Default)]
pub struct Parsed {
    /// The tree; [`parse`] omits statements with errors.
    pub program: Program,
    /// All errors in source order; the first one is reported as *the* error of the file.
    pub errors: Vec<SyntaxError>,
    /// The tokens after the layout pass; only set by [`parse_for_tools`].
    pub tokens: Vec<token::Token>,
}

impl Parsed {
    /// Returns whether the parsed `source` is incomplete, so that more lines may make it valid. A REPL uses this to
    /// decide whether to read another line.
    pub fn is_incomplete(&self, source: &str) -> bool {
        self.errors.first().is_some_and(|error| match error.kind {
            SyntaxErrorKind::UnexpectedEnd { .. } | SyntaxErrorKind::UnterminatedComment => true,
            SyntaxErrorKind::UnterminatedString => error.span.slice(source).len() == 3,
            _ => false,
        })
    }
}

/// Parses a source file. Never panics; the time is linear in the length of the source.
pub fn parse(source: &str) -> Parsed {
    parse_with(source, false)
}

/// Parses a source that is being edited. Returns the same errors as [`parse`], the tokens, and a tree that includes
/// the valid parts of statements with errors. Missing parts are represented by an empty name or
/// [`ExprKind::Error`](ast::ExprKind::Error): `let b = user.` is the member `""` of `user`.
pub fn parse_for_tools(source: &str) -> Parsed {
    parse_with(source, true)
}

/// Returns the tokens after the layout pass and the comments of a source, without a tree. After an error that
/// aborts the lexer, only the tokens up to it.
pub fn tokens(source: &str) -> (Vec<token::Token>, Vec<token::Comment>) {
    let mut lexed = lexer::lex(source);
    if !lexed.aborted {
        layout::lay_out(&mut lexed, source);
    }
    (lexed.tokens, lexed.comments)
}

fn parse_with(source: &str, keep: bool) -> Parsed {
    let mut lexed = lexer::lex(source);
    if !lexed.aborted {
        layout::lay_out(&mut lexed, source);
    }
    if lexed.aborted {
        let errors = std::mem::take(&mut lexed.errors);
        let tokens = if keep { std::mem::take(&mut lexed.tokens) } else { Vec::new() };
        return Parsed { program: parser::finish_program(Vec::new(), lexed), errors, tokens };
    }
    let (items, syntax_errors) = parser::parse_program(source, &lexed, keep);
    let errors = error::merge(source, std::mem::take(&mut lexed.errors), syntax_errors);
    let tokens = if keep { std::mem::take(&mut lexed.tokens) } else { Vec::new() };
    Parsed { program: parser::finish_program(items, lexed), errors, tokens }
}
