//! The types of a file, for editors.

use harn_syntax::Span;
use harn_syntax::ast::Name;

/// The types of a file, as far as they are known.
#[derive(Clone, Debug, Default)]
pub struct Told {
    /// Types of the objects before a dot.
    pub objects: Vec<(Span, ToldType)>,
    /// Types of the variables without an annotation, by the span of their name.
    pub variables: Vec<(Span, ToldType)>,
    /// Bool operands of comparisons with `true` or `false`.
    pub bools: Vec<Span>,
}

/// A type in readable form.
#[derive(Clone, Debug)]
pub struct ToldType {
    /// The type, as in messages.
    pub text: String,
    /// The result of `type_of`, if it is certain: the name of its method table.
    pub word: Option<&'static str>,
    /// The struct that it is an instance of.
    pub name: Option<Name>,
    /// The known fields, of a shape or struct.
    pub fields: Vec<ToldMember>,
}

/// A field.
#[derive(Clone, Debug)]
pub struct ToldMember {
    /// Its name.
    pub name: Name,
    /// Its type.
    pub text: String,
}
