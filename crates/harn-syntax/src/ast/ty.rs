//! Type expressions as written in the source.

use super::{Ident, Name, Note};
use crate::span::Span;

/// A generic parameter.
#[derive(Clone, PartialEq, Debug)]
pub struct TypeParam {
    /// The name.
    pub name: Ident,
    /// The `in` or `out` before it.
    pub variance: Option<Variance>,
}

/// A variance marker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Variance {
    /// `in`: contravariant.
    In,
    /// `out`: covariant.
    Out,
}

/// A type expression as written in the source.
#[derive(Clone, PartialEq, Debug)]
pub struct TypeExpr {
    /// Its form.
    pub kind: TypeKind,
    /// Source range of the type.
    pub span: Span,
}

/// The forms of types.
#[derive(Clone, PartialEq, Debug)]
pub enum TypeKind {
    /// `name` or `name<args>`; `[T]` is `list<T>`, `true` and `false` are `bool`.
    Named {
        /// The name.
        name: Ident,
        /// The arguments.
        args: Vec<TypeExpr>,
    },
    /// `a | b`; at least two members, never a union itself.
    Union(Vec<TypeExpr>),
    /// `{a: T, b?: U}`.
    Shape(Vec<ShapeField>),
    /// `fn(A, B) -> R`.
    Fn {
        /// The parameters.
        params: Vec<TypeExpr>,
        /// The result.
        ret: Box<TypeExpr>,
    },
    /// A string literal type.
    Str(Name),
    /// An integer literal type.
    Int(i64),
    /// `nil`.
    Nil,
}

/// A field of a shape type.
#[derive(Clone, PartialEq, Debug)]
pub struct ShapeField {
    /// Its name.
    pub name: Ident,
    /// Marked `?`.
    pub optional: bool,
    /// Its type.
    pub ty: TypeExpr,
    /// Its description and schema constraints.
    pub note: Option<Box<Note>>,
}
