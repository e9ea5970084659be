//! The types of a file, for editors.

use harn_syntax::Span;
use harn_syntax::ast::Name;

/// The types of a file, as far as they are known.
#[derive(Clone, Debug, Default)]
pub struct Told {
    /// Of the objects in front of a dot.
    pub objects: Vec<(Span, ToldType)>,
    /// Of the variables without an annotation, by the place of their name.
    pub variables: Vec<(Span, ToldType)>,
    /// Bool operands of comparisons with `true` or `false`.
    pub bools: Vec<Span>,
}

/// A type in readable form.
#[derive(Clone, Debug)]
pub struct ToldType {
    /// As messages show it.
    pub text: String,
    /// What `type_of` says of a value, where that is certain: the name of the table of its methods.
    pub word: Option<&'static str>,
    /// The struct that it is an instance of.
    pub name: Option<Name>,
    /// The fields that are known: those of a shape or struct.
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
