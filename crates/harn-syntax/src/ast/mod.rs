//! The syntax tree: plain enums with boxed children.
//!
//! Every node carries the [`Span`] of its text. The tree is what the text says and no more: names are not resolved,
//! `_` in a pipe is an ordinary [`ExprKind::Name`], and enum variants, methods and fields are told apart later.
//! Its depth is bounded (see `MAX_CHAIN`), so recursive walks and `drop` need no special care.
//!
//! Reading order: [`Program`], [`Stmt`], [`Decl`], [`Function`], [`Expr`].

mod decl;
mod expr;
mod stmt;
mod ty;

pub use decl::*;
pub use expr::*;
pub use stmt::*;
pub use ty::*;

use crate::span::Span;
use crate::token::Comment;

/// An identifier's text or a string literal's content; cheap to clone.
pub type Name = smol_str::SmolStr;

/// An identifier where it is written.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Ident {
    /// The text.
    pub name: Name,
    /// Where it stands.
    pub span: Span,
}

/// A parsed file.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Program {
    /// Imports, declarations and statements in source order. Imports occur only here, never in blocks.
    pub items: Vec<Stmt>,
    /// The `#!` line without its line feed.
    pub shebang: Option<Span>,
    /// All comments in source order, for the formatter and for documentation.
    pub comments: Vec<Comment>,
}

impl Program {
    /// Iterates over the pipelines declared at file level, in source order.
    pub fn pipelines(&self) -> impl Iterator<Item = (&Decl, &PipelineDecl)> {
        self.items.iter().filter_map(|item| match &item.kind {
            StmtKind::Decl(decl) => match &decl.kind {
                DeclKind::Pipeline(pipeline) => Some((&**decl, pipeline)),
                _ => None,
            },
            _ => None,
        })
    }

    /// Returns the pipeline that runs without another choice: `default`, or else the first one.
    pub fn entry_pipeline(&self) -> Option<(&Decl, &PipelineDecl)> {
        self.pipelines().find(|(_, pipeline)| pipeline.name.name == "default").or(self.pipelines().next())
    }

    /// Iterates over the imports, in source order.
    pub fn imports(&self) -> impl Iterator<Item = &Import> {
        self.items.iter().filter_map(|item| match &item.kind {
            StmtKind::Import(import) => Some(&**import),
            _ => None,
        })
    }
}

/// `{ statements }`.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Block {
    /// The statements in order. The last one, if it is an expression, gives the block its value.
    pub stmts: Vec<Stmt>,
    /// From `{` to `}`.
    pub span: Span,
}
