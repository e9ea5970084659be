//! Tokens: what the lexer hands to the layout pass and the parser.

use crate::span::Span;

/// A comment, kept beside the tree for the formatter and for documentation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Comment {
    /// Its form.
    pub kind: CommentKind,
    /// Its text with the comment marks, without the line feed.
    pub span: Span,
}

/// The forms of comments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CommentKind {
    /// `// ...`.
    Line,
    /// `/* ... */`.
    Block,
    /// `/// ...`.
    DocLine,
    /// `/** ... */`.
    DocBlock,
}
