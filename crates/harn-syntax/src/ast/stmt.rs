//! Statements, and what they bind and assign.

use super::{BinaryOp, Block, Decl, Expr, Function, Ident, Name, TypeExpr};
use crate::span::Span;

/// A statement.
#[derive(Clone, PartialEq, Debug)]
pub struct Stmt {
    /// What it is.
    pub kind: StmtKind,
    /// Its text without the separator.
    pub span: Span,
}

/// The kinds of statements.
#[derive(Clone, PartialEq, Debug)]
pub enum StmtKind {
    /// `let pattern = value` or `var pattern = value`.
    Let {
        /// `var`: the names can be assigned.
        mutable: bool,
        /// What is bound.
        pattern: Pattern,
        /// The annotation; only with [`PatternKind::Name`].
        ty: Option<TypeExpr>,
        /// The value.
        value: Expr,
    },
    /// `target = value`, `target += value`, ...
    Assign {
        /// What is assigned.
        target: Target,
        /// The operator of a compound assignment.
        op: Option<BinaryOp>,
        /// Where `=`, `+=`, ... stands.
        op_span: Span,
        /// The right side.
        value: Expr,
    },
    /// `for pattern in iter { body }`.
    For {
        /// What each item is bound to.
        pattern: Pattern,
        /// What is iterated.
        iter: Expr,
        /// The body.
        body: Block,
    },
    /// `while cond { body }`.
    While {
        /// The condition.
        cond: Expr,
        /// The body.
        body: Block,
    },
    /// `guard cond else { body }`.
    Guard {
        /// The condition.
        cond: Expr,
        /// Runs when the condition is falsy.
        body: Block,
    },
    /// `require cond, message`.
    Require {
        /// The condition.
        cond: Expr,
        /// Thrown when it is falsy.
        message: Option<Expr>,
    },
    /// `return value`.
    Return(Option<Expr>),
    /// `throw value`.
    Throw(Expr),
    /// `break`.
    Break,
    /// `continue`.
    Continue,
    /// `yield value`.
    Yield(Option<Expr>),
    /// `emit value`.
    Emit(Expr),
    /// `defer { body }`.
    Defer(Block),
    /// `mutex { body }`.
    Mutex(Block),
    /// `override name(params) { body }`.
    Override {
        /// The function replaced.
        name: Ident,
        /// Its new body; parameters are plain names.
        func: Box<Function>,
    },
    /// A declaration.
    Decl(Box<Decl>),
    /// An import; only in [`Program::items`](super::Program::items).
    Import(Box<Import>),
    /// An expression.
    Expr(Expr),
}

/// The left side of an assignment: a variable and a path into its value.
#[derive(Clone, PartialEq, Debug)]
pub struct Target {
    /// The variable.
    pub root: Ident,
    /// The steps from its value to the part that is replaced; empty for a plain variable.
    pub path: Vec<TargetStep>,
    /// The whole text.
    pub span: Span,
}

/// One step of a [`Target`].
#[derive(Clone, PartialEq, Debug)]
pub enum TargetStep {
    /// `.name`; the span is that of the name.
    Member(Ident),
    /// `[index]`.
    Index {
        /// The index.
        index: Expr,
        /// From `[` to `]`.
        span: Span,
    },
}

impl TargetStep {
    /// Returns the text of the step without a leading `.`.
    pub fn span(&self) -> Span {
        match self {
            Self::Member(name) => name.span,
            Self::Index { span, .. } => *span,
        }
    }
}

/// What a `let`, `var` or `for` binds.
#[derive(Clone, PartialEq, Debug)]
pub struct Pattern {
    /// Its form.
    pub kind: PatternKind,
    /// Its text.
    pub span: Span,
}

/// The forms of binding patterns. They do not nest. A name `_` binds nothing.
#[derive(Clone, PartialEq, Debug)]
pub enum PatternKind {
    /// `name`.
    Name(Ident),
    /// `{a, b = default, key: name = default, ...rest}`.
    Dict {
        /// The entries before the rest.
        fields: Vec<DictField>,
        /// The name behind `...`.
        rest: Option<Ident>,
    },
    /// `[a, b = default, ...rest]`.
    List {
        /// The elements before the rest.
        elems: Vec<ListElem>,
        /// The name behind `...`.
        rest: Option<Ident>,
    },
    /// `(a, b)`, only in `for`.
    Pair(Ident, Ident),
}

/// An entry of a dict pattern.
#[derive(Clone, PartialEq, Debug)]
pub struct DictField {
    /// The key looked up.
    pub key: Ident,
    /// The variable bound; the key again unless renamed.
    pub name: Ident,
    /// Used when the value is nil.
    pub default: Option<Expr>,
}

/// An element of a list pattern.
#[derive(Clone, PartialEq, Debug)]
pub struct ListElem {
    /// The variable bound.
    pub name: Ident,
    /// Used when the value is nil.
    pub default: Option<Expr>,
}

/// `[pub] import ...`.
#[derive(Clone, PartialEq, Debug)]
pub struct Import {
    /// `pub import`: the names are exported again.
    pub is_pub: bool,
    /// The listed names; `None` for the form that brings everything.
    pub names: Option<Vec<Ident>>,
    /// The path as written, without quotes.
    pub path: Name,
    /// Where the path stands, with quotes.
    pub path_span: Span,
    /// The whole text.
    pub span: Span,
}

impl Import {
    /// What the imports at the head of a file are sorted by: embedded modules first, then paths, everything before
    /// single names.
    pub fn sort_key(&self) -> (bool, &str, bool, Vec<&str>) {
        let mut names: Vec<&str> = self.names.iter().flatten().map(|name| name.name.as_str()).collect();
        names.sort_unstable();
        (!self.path.starts_with("std/"), self.path.as_str(), self.names.is_some(), names)
    }
}

impl Stmt {
    /// Whether an empty line sets it apart from what is around it at the top of a file.
    pub fn stands_apart(&self) -> bool {
        matches!(&self.kind, StmtKind::Decl(decl) if !matches!(decl.kind, super::DeclKind::Type(_)))
    }
}
