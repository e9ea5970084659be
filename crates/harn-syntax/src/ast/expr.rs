//! Expressions, match arms and operators.

use super::{Block, Function, Ident, Name, TypeExpr};
use crate::span::Span;

/// An expression.
#[derive(Clone, PartialEq, Debug)]
pub struct Expr {
    /// The kind, with its operands.
    pub kind: ExprKind,
    /// Source range of the expression.
    pub span: Span,
}

/// The kinds of expressions.
#[derive(Clone, PartialEq, Debug)]
pub enum ExprKind {
    /// `nil`.
    Nil,
    /// `true`, `false`.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A float, or an integer literal that does not fit an int.
    Float(f64),
    /// A duration in milliseconds.
    Duration(i64),
    /// A string without interpolation; escapes are resolved.
    Str(Name),
    /// A string with interpolation.
    Interp(Vec<StrPart>),
    /// A variable, function, builtin, type name or the pipe placeholder `_`.
    Name(Name),
    /// `(inner)`. Retained so that `(x.f)(5)` is not parsed as a method call and the formatter can print it.
    Paren(Box<Expr>),
    /// `[a, ...b]`.
    List(Vec<Arg>),
    /// `{a: 1, [k]: 2, ...d}`.
    Dict(Vec<DictItem>),
    /// `Name {a: 1}`.
    StructLit {
        /// The struct.
        name: Ident,
        /// The fields.
        items: Vec<DictItem>,
    },
    /// `{ params -> body }` or `fn(params) { body }`.
    Closure {
        /// The function.
        func: Box<Function>,
        /// Written with `fn`.
        is_fn: bool,
    },
    /// `if a { } else if b { } else { }`.
    If {
        /// The conditions and their blocks; at least one.
        arms: Vec<IfArm>,
        /// The last `else`.
        else_body: Option<Block>,
    },
    /// `match value { arms }`.
    Match {
        /// The matched value.
        value: Box<Expr>,
        /// The arms in order.
        arms: Vec<MatchArm>,
    },
    /// `try { } catch (e: T) { } finally { }`.
    Try {
        /// The body.
        body: Block,
        /// The handler.
        catch: Option<Box<Catch>>,
        /// The `finally` block.
        finally: Option<Block>,
    },
    /// `try* operand`.
    TryStar(Box<Expr>),
    /// `retry count { body }`.
    Retry {
        /// The maximum number of attempts.
        count: Box<Expr>,
        /// The body.
        body: Block,
    },
    /// `deadline limit { body }`.
    Deadline {
        /// The time limit.
        limit: Box<Expr>,
        /// The body.
        body: Block,
    },
    /// `spawn { body }`; a function without parameters.
    Spawn(Box<Function>),
    /// `parallel ...`.
    Parallel(Box<Parallel>),
    /// `select { cases }`.
    Select(Box<Select>),
    /// `-a`, `!a`.
    Unary {
        /// The operator.
        op: UnaryOp,
        /// Location of the operator.
        op_span: Span,
        /// The operand.
        operand: Box<Expr>,
    },
    /// `a + b`, comparisons, membership.
    Binary {
        /// The operator.
        op: BinaryOp,
        /// Location of the operator.
        op_span: Span,
        /// The left operand.
        lhs: Box<Expr>,
        /// The right operand.
        rhs: Box<Expr>,
    },
    /// `a && b`, `a || b`, `a ?? b`: the right operand is evaluated only if needed.
    Logic {
        /// The operator.
        op: LogicOp,
        /// Location of the operator.
        op_span: Span,
        /// The left operand.
        lhs: Box<Expr>,
        /// The right operand.
        rhs: Box<Expr>,
    },
    /// `cond ? then : other`.
    Ternary {
        /// The condition.
        cond: Box<Expr>,
        /// The value when truthy.
        then: Box<Expr>,
        /// The value when falsy.
        other: Box<Expr>,
    },
    /// `start to end`, `start to end exclusive`.
    Range {
        /// The first value.
        start: Box<Expr>,
        /// The bound.
        end: Box<Expr>,
        /// Whether the bound is excluded.
        exclusive: bool,
        /// Location of `to`.
        op_span: Span,
    },
    /// `value |> func`.
    Pipe {
        /// The piped value.
        value: Box<Expr>,
        /// The receiving function; if it contains the name `_`, an expression in which `_` is the piped value.
        func: Box<Expr>,
        /// Location of `|>`.
        op_span: Span,
    },
    /// `callee<types>(args)`.
    Call {
        /// The called expression.
        callee: Box<Expr>,
        /// Explicit type arguments; present only if the callee is an [`ExprKind::Name`].
        type_args: Vec<TypeExpr>,
        /// The arguments.
        args: Vec<Arg>,
    },
    /// `object.name(args)`, `object?.name(args)`; also constructs enum values.
    MethodCall {
        /// The receiver.
        object: Box<Expr>,
        /// The method.
        name: Ident,
        /// The arguments.
        args: Vec<Arg>,
        /// Written with `?.`.
        optional: bool,
    },
    /// `object.name`, `object?.name`.
    Member {
        /// The receiver.
        object: Box<Expr>,
        /// The member.
        name: Ident,
        /// Written with `?.`.
        optional: bool,
    },
    /// `object[index]`, `object?[index]`.
    Index {
        /// The receiver.
        object: Box<Expr>,
        /// The index.
        index: Box<Expr>,
        /// Written with `?[`.
        optional: bool,
        /// Location of `[` or `?[`, for errors.
        op_span: Span,
    },
    /// `object[start:end]`.
    Slice {
        /// The receiver.
        object: Box<Expr>,
        /// The first position.
        start: Option<Box<Expr>>,
        /// The exclusive end position.
        end: Option<Box<Expr>>,
        /// Location of `[`.
        op_span: Span,
    },
    /// `operand?`.
    Propagate {
        /// The result that is unwrapped.
        operand: Box<Expr>,
        /// Location of `?`.
        op_span: Span,
    },
    /// Placeholder where an error was reported; never occurs in a program without errors.
    Error,
}

/// A piece of an interpolated string.
#[derive(Clone, PartialEq, Debug)]
pub enum StrPart {
    /// Literal text; escapes are resolved.
    Text(Name),
    /// `${expr}`.
    Expr(Expr),
}

/// An argument of a call or an element of a list literal.
#[derive(Clone, PartialEq, Debug)]
pub struct Arg {
    /// Written with `...`.
    pub spread: bool,
    /// The value.
    pub value: Expr,
}

/// An entry of a dict or struct literal.
#[derive(Clone, PartialEq, Debug)]
pub enum DictItem {
    /// `key: value`; the key is a name, a keyword or a plain string.
    Entry {
        /// The key.
        key: Ident,
        /// The value.
        value: Expr,
    },
    /// `[key]: value`, or an entry with an interpolated string as key.
    Computed {
        /// The key.
        key: Expr,
        /// The value.
        value: Expr,
    },
    /// `...value`.
    Spread(Expr),
}

/// `if cond { body }` inside an `if` chain.
#[derive(Clone, PartialEq, Debug)]
pub struct IfArm {
    /// The condition.
    pub cond: Expr,
    /// The block.
    pub body: Block,
}

/// `p1 | p2 if guard -> { body }`.
#[derive(Clone, PartialEq, Debug)]
pub struct MatchArm {
    /// The alternatives; at least one. With more than one, none of them binds a name.
    pub patterns: Vec<MatchPattern>,
    /// The condition after `if`.
    pub guard: Option<Expr>,
    /// The body.
    pub body: Block,
    /// The whole arm.
    pub span: Span,
}

/// A pattern of a match arm.
#[derive(Clone, PartialEq, Debug)]
pub struct MatchPattern {
    /// Its form.
    pub kind: MatchPatternKind,
    /// Source range of the pattern.
    pub span: Span,
}

/// The forms of match patterns.
#[derive(Clone, PartialEq, Debug)]
pub enum MatchPatternKind {
    /// `_`.
    Wildcard,
    /// `name`: matches everything and binds it.
    Bind(Ident),
    /// A literal or any other expression, compared with `==`. In or-patterns also a bare name.
    Value(Expr),
    /// `{k: p, ...rest}`.
    Dict {
        /// The keys and their patterns.
        entries: Vec<(Ident, MatchPattern)>,
        /// The name after `...`.
        rest: Option<Ident>,
    },
    /// `[p1, p2, ...rest]`.
    List {
        /// The prefix.
        items: Vec<MatchPattern>,
        /// The name after `...`.
        rest: Option<Ident>,
    },
    /// `E.V`, `E.V(p)`, `Ok(p)`, `Err(p)`. The parser produces it for every `Name.member` whose first letter is
    /// upper case; if no enum has that name, it is treated as a value.
    Variant {
        /// The enum; `Result` for `Ok` and `Err`.
        enum_name: Ident,
        /// The variant.
        variant: Ident,
        /// The payload patterns; `None` without parentheses.
        fields: Option<Vec<MatchPattern>>,
    },
}

/// `catch (name: ty) { body }`.
#[derive(Clone, PartialEq, Debug)]
pub struct Catch {
    /// The name that the error is bound to.
    pub name: Option<Ident>,
    /// The type of errors that are handled.
    pub ty: Option<TypeExpr>,
    /// The handler.
    pub body: Block,
}

/// A `parallel` expression.
#[derive(Clone, PartialEq, Debug)]
pub struct Parallel {
    /// Its form.
    pub kind: ParallelKind,
    /// The count or the collection.
    pub source: Expr,
    /// The value after `max_concurrent:`.
    pub max_concurrent: Option<Expr>,
    /// The body, with zero or one parameter.
    pub func: Function,
    /// Whether it ends with `as stream`; only with [`ParallelKind::Each`].
    pub as_stream: bool,
}

/// The forms of `parallel`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ParallelKind {
    /// `parallel count`.
    Count,
    /// `parallel each list`.
    Each,
    /// `parallel settle list`.
    Settle,
}

/// A `select` expression: at least one case, timeout or default, but not both a timeout and a default.
#[derive(Clone, PartialEq, Debug)]
pub struct Select {
    /// The `name from channel { body }` cases in order.
    pub cases: Vec<SelectCase>,
    /// `timeout limit { body }`.
    pub timeout: Option<(Expr, Block)>,
    /// `default { body }`.
    pub default: Option<Block>,
}

/// `name from channel { body }`.
#[derive(Clone, PartialEq, Debug)]
pub struct SelectCase {
    /// The name that the received value is bound to.
    pub name: Ident,
    /// The channel.
    pub channel: Expr,
    /// The body.
    pub body: Block,
}

/// Prefix operators.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum UnaryOp {
    /// `!`.
    Not,
    /// `-`.
    Neg,
}

/// Operators that always evaluate both operands.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BinaryOp {
    /// `+`.
    Add,
    /// `-`.
    Sub,
    /// `*`.
    Mul,
    /// `/`.
    Div,
    /// `%`.
    Rem,
    /// `**`.
    Pow,
    /// `==`.
    Eq,
    /// `!=`.
    Ne,
    /// `<`.
    Lt,
    /// `>`.
    Gt,
    /// `<=`.
    Le,
    /// `>=`.
    Ge,
    /// `in`.
    In,
    /// `not in`.
    NotIn,
}

impl BinaryOp {
    /// Returns the operator as written.
    pub const fn symbol(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Sub => "-",
            Self::Mul => "*",
            Self::Div => "/",
            Self::Rem => "%",
            Self::Pow => "**",
            Self::Eq => "==",
            Self::Ne => "!=",
            Self::Lt => "<",
            Self::Gt => ">",
            Self::Le => "<=",
            Self::Ge => ">=",
            Self::In => "in",
            Self::NotIn => "not in",
        }
    }
}

/// Operators that evaluate the right operand only if needed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LogicOp {
    /// `&&`.
    And,
    /// `||`.
    Or,
    /// `??`.
    Coalesce,
}

impl LogicOp {
    /// Returns the operator as written.
    pub const fn symbol(self) -> &'static str {
        match self {
            Self::And => "&&",
            Self::Or => "||",
            Self::Coalesce => "??",
        }
    }
}

impl Expr {
    /// Creates an expression.
    pub const fn new(kind: ExprKind, span: Span) -> Self {
        Self { kind, span }
    }

    /// Returns the name if the expression is a plain name, with or without parentheses.
    pub fn as_name(&self) -> Option<&Name> {
        match &self.kind {
            ExprKind::Name(name) => Some(name),
            ExprKind::Paren(inner) => inner.as_name(),
            _ => None,
        }
    }

    /// Returns the location reported by a runtime error of this node: the operator of an operation, the name of a
    /// member or method, otherwise the whole expression.
    pub fn blame(&self) -> Span {
        match &self.kind {
            ExprKind::Unary { op_span, .. }
            | ExprKind::Binary { op_span, .. }
            | ExprKind::Logic { op_span, .. }
            | ExprKind::Range { op_span, .. }
            | ExprKind::Pipe { op_span, .. }
            | ExprKind::Index { op_span, .. }
            | ExprKind::Slice { op_span, .. }
            | ExprKind::Propagate { op_span, .. } => *op_span,
            ExprKind::MethodCall { name, .. } | ExprKind::Member { name, .. } => name.span,
            ExprKind::Call { callee, .. } => callee.blame(),
            ExprKind::Paren(inner) => inner.blame(),
            _ => self.span,
        }
    }
}
