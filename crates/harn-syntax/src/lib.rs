//! Source text to syntax tree: spans, tokens, parser, diagnostics.
//!
//! This is the lowest crate: it knows nothing of values, types or execution. A text goes through
//!
//! ```text
//! lexer (tokens, comments) → layout (which newlines separate, what `{` `?` `<` mean) → parser → ast::Program
//! ```
//!
//! and every stage goes on after an error, so that one [`parse`] reports all of them. Errors become
//! [`Diagnostic`]s, the one form in which this and the higher crates tell people what is wrong.
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

/// How many brackets, braces and interpolations may be open at once.
pub const MAX_NESTING: usize = 256;

/// How many operators one statement may chain, counting along the deepest path through its brackets. It bounds the
/// depth of the tree, so that recursive walks over it fit on an ordinary stack.
pub(crate) const MAX_CHAIN: usize = 1000;

/// How many errors are reported for one text.
pub const MAX_ERRORS: usize = 1000;

/// The result of [`parse`].
#[derive(Clone, Debug, Default)]
pub struct Parsed {
    /// The tree; of [`parse`], statements with errors are left out.
    pub program: Program,
    /// All errors in source order; the first is *the* error of the file.
    pub errors: Vec<SyntaxError>,
    /// The tokens, laid out; only of [`parse_for_tools`].
    pub tokens: Vec<token::Token>,
}

impl Parsed {
    /// Tells whether `source`, the text that was parsed, may become correct when more lines follow: something is
    /// still open at its end. A REPL asks this to decide whether to read on.
    pub fn is_incomplete(&self, source: &str) -> bool {
        self.errors.first().is_some_and(|error| match error.kind {
            SyntaxErrorKind::UnexpectedEnd { .. } | SyntaxErrorKind::UnterminatedComment => true,
            SyntaxErrorKind::UnterminatedString => error.span.slice(source).len() == 3,
            _ => false,
        })
    }
}

/// Parses a source text. Never panics, whatever the text; its time is linear in the length of the text.
pub fn parse(source: &str) -> Parsed {
    parse_with(source, false)
}

/// Parses a text that somebody is still writing: the same errors as [`parse`], and besides them the tokens and a tree with
/// what can be kept of statements that have errors. What is missing there is an empty name or
/// [`ExprKind::Error`](ast::ExprKind::Error): `let b = user.` is the member `""` of `user`.
pub fn parse_for_tools(source: &str) -> Parsed {
    parse_with(source, true)
}

/// The laid-out tokens and the comments of a text, without a tree. Up to the first error where there is one.
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
