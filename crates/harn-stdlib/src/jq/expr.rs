//! Expressions, and the functions that they call.

use harn_value::Value;

use super::format::Format;
use super::{Flow, Out};

/// A parsed expression.
pub(super) enum Expr {
    Input,
    Literal(Value),
    /// `$name`
    Variable(String),
    /// `"a\(b)"`, with the format of the inserted values
    Text(Format, Vec<Piece>),
    /// `@format`
    Format(Format),
    /// `..`
    Descend,
    /// `term[key]`; the key is evaluated with the input of the whole expression
    Index(Box<Expr>, Box<Expr>),
    Slice(Box<Expr>, Option<Box<Expr>>, Option<Box<Expr>>),
    Each(Box<Expr>),
    Pipe(Box<Expr>, Box<Expr>),
    Comma(Box<Expr>, Box<Expr>),
    Operator(Operator, Box<Expr>, Box<Expr>),
    And(Box<Expr>, Box<Expr>),
    Or(Box<Expr>, Box<Expr>),
    /// `a // b`
    Alternative(Box<Expr>, Box<Expr>),
    Negate(Box<Expr>),
    /// `try body catch handler`, `body?`
    Try(Box<Expr>, Option<Box<Expr>>),
    Array(Option<Box<Expr>>),
    Object(Vec<(Expr, Expr)>),
    If(Box<Expr>, Box<Expr>, Box<Expr>),
    /// `source as $name | body`
    Bind(Box<Expr>, String, Box<Expr>),
    Reduce(Box<Fold>),
    Foreach(Box<Fold>, Option<Box<Expr>>),
    Call(&'static Function, Vec<Expr>),
}

/// `source as $name (start; update)`
pub(super) struct Fold {
    pub(super) source: Expr,
    pub(super) name: String,
    pub(super) start: Expr,
    pub(super) update: Expr,
}

/// A part of a string with interpolated values.
pub(super) enum Piece {
    Text(String),
    Value(Expr),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// A function and the number of its arguments.
pub(super) struct Function {
    pub(super) name: &'static str,
    pub(super) arity: usize,
    pub(super) run: Run,
}

pub(super) enum Run {
    /// Returns one result for an input.
    Plain(fn(&Value) -> Flow<Value>),
    /// Returns one result for an input and each combination of argument values; the last argument is the outermost
    /// loop.
    With(fn(&Value, &[Value]) -> Flow<Value>),
    /// A form that evaluates its arguments itself.
    Form(fn(&[Expr], &Value, Scope<'_>, Out<'_>) -> Flow),
}

/// The variables in scope.
pub(super) struct Variable<'a> {
    pub(super) name: &'a str,
    pub(super) value: Value,
    pub(super) outer: Scope<'a>,
}

pub(super) type Scope<'a> = Option<&'a Variable<'a>>;
