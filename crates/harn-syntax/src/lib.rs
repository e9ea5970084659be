//! Source text to syntax tree: spans, tokens, parser, diagnostics.
//!
//! This is the lowest crate: it knows nothing of values, types or execution. Text goes through [`lexer`](token) →
//! layout pass (which decides which newlines separate statements) → parser, and comes out as [`ast::Program`].
//! Read `ast.rs` first.

pub mod ast;
pub mod span;
pub mod token;

pub use span::{FileId, Span};

/// How many brackets, braces and interpolations may be open at once.
pub const MAX_NESTING: usize = 256;

/// How many operators one statement may chain, counting along the deepest path through its brackets. It bounds the
/// depth of the tree, so that recursive walks over it fit on an ordinary stack.
pub const MAX_CHAIN: usize = 1000;
