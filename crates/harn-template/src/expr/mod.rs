//! Expressions: the tree built by the parser and evaluated by the renderer.

mod lexer;
pub(crate) mod parser;

use harn_value::{Str, Value};

use crate::filters::FilterSpec;

pub(crate) use lexer::{is_identifier, reserved_literal, unescape};

/// A compiled expression. Names are resolved to slots; chains are flat, so only parentheses and `not` add depth,
/// which the parser limits.
#[derive(Debug)]
pub(crate) enum Expr {
    Literal(Value),
    Path(Path),
    /// `loop.index` and the other fields of `loop`, read without building the `loop` dict.
    Loop {
        depth: u16,
        field: LoopField,
    },
    Not(Box<Expr>),
    /// `a and b and c`: the first falsy operand, otherwise the last one.
    And(Box<[Expr]>),
    /// `a or b or c`: the first truthy operand, otherwise the last one.
    Or(Box<[Expr]>),
    Compare(Box<(Comparison, Expr, Expr)>),
    Pipeline(Box<(Expr, Box<[FilterCall]>)>),
}

/// A name with the steps after it.
#[derive(Debug)]
pub(crate) struct Path {
    pub(crate) root: Name,
    pub(crate) steps: Box<[Step]>,
}

/// The storage of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Name {
    /// A variable of an enclosing loop of the same template.
    Local(u16),
    /// The `loop` dict of the enclosing loop at this depth, counted from the outermost.
    Loop(u16),
    /// Any other name, as an index into the template's free names.
    Free(u32),
}

/// One `.name`, `["name"]` or `[n]`.
#[derive(Debug)]
pub(crate) enum Step {
    Field(Str),
    Index(i64),
}

/// A field of `loop`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LoopField {
    First,
    Index,
    Index0,
    Last,
    Length,
}

impl LoopField {
    fn from_name(name: &str) -> Option<LoopField> {
        Some(match name {
            "first" => LoopField::First,
            "index" => LoopField::Index,
            "index0" => LoopField::Index0,
            "last" => LoopField::Last,
            "length" => LoopField::Length,
            _ => return None,
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

/// `| name: args`. Unknown names and wrong argument counts are stored, because they fail only when rendering
/// reaches them.
#[derive(Debug)]
pub(crate) struct FilterCall {
    pub(crate) filter: Result<&'static FilterSpec, FilterProblem>,
    /// Byte range of the name in the source.
    pub(crate) name: (u32, u32),
    pub(crate) args: Box<[Expr]>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FilterProblem {
    Unknown,
    Arity,
}

impl Expr {
    /// Calls `visit` for this expression and all nested ones, outermost first.
    pub(crate) fn walk<'e>(&'e self, visit: &mut dyn FnMut(&'e Expr)) {
        visit(self);
        match self {
            Expr::Literal(_) | Expr::Path(_) | Expr::Loop { .. } => {}
            Expr::Not(inner) => inner.walk(visit),
            Expr::And(all) | Expr::Or(all) => all.iter().for_each(|e| e.walk(visit)),
            Expr::Compare(parts) => {
                parts.1.walk(visit);
                parts.2.walk(visit);
            }
            Expr::Pipeline(parts) => {
                parts.0.walk(visit);
                parts.1.iter().flat_map(|call| &call.args).for_each(|e| e.walk(visit));
            }
        }
    }
}

/// Returns the length of the string literal that starts at `at`, including quotes; `None` if it is not closed.
pub(crate) fn string_length_at(source: &str, at: usize) -> Option<usize> {
    lexer::string_length(&source[at..])
}
