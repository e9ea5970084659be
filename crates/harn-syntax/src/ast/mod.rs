//! The syntax tree: plain enums with boxed children.
//!
//! Every node has the [`Span`] of its source text. The tree represents only the syntax: names are not resolved, `_`
//! in a pipe is an ordinary [`ExprKind::Name`], and later passes distinguish enum variants, methods and fields. Its
//! depth is bounded (see `MAX_CHAIN`), so recursive traversal and `drop` cannot overflow the stack.
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

/// The name of an identifier or the content of a string literal; cheap to clone.
pub type Name = smol_str::SmolStr;

/// An identifier with its location.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Ident {
    /// The name.
    pub name: Name,
    /// Its location.
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

    /// Returns the pipeline that runs by default: the one named `default`, otherwise the first one.
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
    /// The statements in order. If the last one is an expression, it is the value of the block.
    pub stmts: Vec<Stmt>,
    /// From `{` to `}`.
    pub span: Span,
}
