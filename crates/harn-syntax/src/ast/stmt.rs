//! Statements, binding patterns and assignment targets.

use super::{BinaryOp, Block, Decl, Expr, Function, Ident, Name, TypeExpr};
use crate::span::Span;

/// A statement.
#[derive(Clone, PartialEq, Debug)]
pub struct Stmt {
    /// The kind, with its parts.
    pub kind: StmtKind,
    /// Source range without the separator.
    pub span: Span,
}

/// The kinds of statements.
#[derive(Clone, PartialEq, Debug)]
pub enum StmtKind {
    /// `let pattern = value` or `var pattern = value`.
    Let {
        /// `var`: the names can be assigned.
        mutable: bool,
        /// The bound pattern.
        pattern: Pattern,
        /// The annotation; only with [`PatternKind::Name`].
        ty: Option<TypeExpr>,
        /// The value.
        value: Expr,
    },
    /// `target = value`, `target += value`, ...
    Assign {
        /// The assigned place.
        target: Target,
        /// The operator of a compound assignment.
        op: Option<BinaryOp>,
        /// Location of `=`, `+=`, ...
        op_span: Span,
        /// The right side.
        value: Expr,
    },
    /// `for pattern in iter { body }`.
    For {
        /// The pattern that each item is bound to.
        pattern: Pattern,
        /// The iterated value.
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
        /// The value thrown if the condition is falsy.
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
        /// The replaced function.
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
    /// The path from the variable to the replaced part; empty for a plain variable.
    pub path: Vec<TargetStep>,
    /// Source range of the target.
    pub span: Span,
}

/// One step of a [`Target`].
#[derive(Clone, PartialEq, Debug)]
pub enum TargetStep {
    /// `.name`; the span covers the name.
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
    /// Returns the source range of the step without a leading `.`.
    pub fn span(&self) -> Span {
        match self {
            Self::Member(name) => name.span,
            Self::Index { span, .. } => *span,
        }
    }
}

/// The pattern bound by a `let`, `var` or `for`.
#[derive(Clone, PartialEq, Debug)]
pub struct Pattern {
    /// Its form.
    pub kind: PatternKind,
    /// Source range of the pattern.
    pub span: Span,
}

/// The forms of binding patterns. They do not nest. A name `_` binds nothing.
#[derive(Clone, PartialEq, Debug)]
pub enum PatternKind {
    /// `name`.
    Name(Ident),
    /// `{a, b = default, key: name = default, ...rest}`.
    Dict {
        /// The entries before `...`.
        fields: Vec<DictField>,
        /// The name after `...`.
        rest: Option<Ident>,
    },
    /// `[a, b = default, ...rest]`.
    List {
        /// The elements before `...`.
        elems: Vec<ListElem>,
        /// The name after `...`.
        rest: Option<Ident>,
    },
    /// `(a, b)`, only in `for`.
    Pair(Ident, Ident),
}

/// An entry of a dict pattern.
#[derive(Clone, PartialEq, Debug)]
pub struct DictField {
    /// The key.
    pub key: Ident,
    /// The bound variable; equal to the key unless renamed.
    pub name: Ident,
    /// Used when the value is nil.
    pub default: Option<Expr>,
}

/// An element of a list pattern.
#[derive(Clone, PartialEq, Debug)]
pub struct ListElem {
    /// The bound variable.
    pub name: Ident,
    /// Used when the value is nil.
    pub default: Option<Expr>,
}

/// `[pub] import ...`.
#[derive(Clone, PartialEq, Debug)]
pub struct Import {
    /// Whether it is `pub import`, which re-exports the names.
    pub is_pub: bool,
    /// The listed names; `None` imports everything.
    pub names: Option<Vec<Ident>>,
    /// The path as written, without quotes.
    pub path: Name,
    /// Location of the path, including quotes.
    pub path_span: Span,
    /// Source range of the import.
    pub span: Span,
}

impl Import {
    /// Returns the sort key of an import at the top of a file: embedded modules precede paths, and importing
    /// everything precedes importing single names.
    pub fn sort_key(&self) -> (bool, &str, bool, Vec<&str>) {
        let mut names: Vec<&str> = self.names.iter().flatten().map(|name| name.name.as_str()).collect();
        names.sort_unstable();
        (!self.path.starts_with("std/"), self.path.as_str(), self.names.is_some(), names)
    }
}

impl Stmt {
    /// Returns whether the statement is separated from its neighbours by an empty line at file level.
    pub fn stands_apart(&self) -> bool {
        matches!(&self.kind, StmtKind::Decl(decl) if !matches!(decl.kind, super::DeclKind::Type(_)))
    }
}
