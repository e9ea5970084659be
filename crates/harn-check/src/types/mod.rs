//! Types of the checker: from annotations, literals and declarations.
//!
//! An unknown type is [`Ty::Any`], which is compatible with everything. A union is accepted if each member is; for a
//! [`Ty::OneOf`], the result of a builtin, one accepted member is enough.
//!
//! | File | Content |
//! | --- | --- |
//! | `fits` | compatibility of types |
//! | `resolve` | from an annotation to a [`Ty`] |
//! | `table` | from a type of the table of builtins to a [`Ty`] |
//! | `generics` | type parameters and their bindings |
//! | `interface` | structs that satisfy an interface, and explanations for others |
//! | `variance` | `in` and `out` at declarations |
//! | `narrow` | parts of unions |

mod fits;
mod generics;
mod interface;
mod narrow;
mod resolve;
mod table;
mod variance;

use std::fmt;

use harn_syntax::ast::{Name, ShapeField, TypeExpr, TypeKind};

pub(crate) use fits::detail;
pub(crate) use generics::{Bindings, bind, substitute};
pub(crate) use narrow::{members, only, union_tag, without};
pub use resolve::is_builtin_type;
pub(crate) use resolve::{BUILTIN, Declared, TypeName, Typing};
pub(crate) use table::from_table;
pub(crate) use variance::misplaced;

/// A type.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Ty {
    /// Unknown.
    Any,
    /// `unknown`: any value, which must be tested before its use.
    Unknown,
    /// `never`: no value.
    Never,
    /// A type parameter of a function that is called.
    Var(Name),
    /// `nil`.
    Nil,
    /// `int`, `list<int>`, a struct, an enum.
    Named(Name, Vec<Ty>),
    /// An interface, with the structs that satisfy it.
    Interface(Name, Vec<Name>),
    /// `A | B`.
    Union(Vec<Ty>),
    /// One of several types, as the result of a builtin: the program may know which.
    OneOf(Vec<Ty>),
    /// `{a: int, b?: string}`.
    Shape(Vec<Field>),
    /// `fn(A) -> R`.
    Fn(Vec<Ty>, Box<Ty>),
    /// A string literal.
    Str(Name),
    /// An int literal.
    Int(i64),
}

/// A field of a shape.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Field {
    pub(crate) name: Name,
    pub(crate) optional: bool,
    pub(crate) ty: Ty,
}

impl Ty {
    /// A type without arguments.
    pub(crate) fn named(name: &str) -> Ty {
        Ty::Named(Name::new(name), Vec::new())
    }

    /// `list<element>`, or `list` when the element is not known.
    pub(crate) fn list_of(element: Ty) -> Ty {
        let args = if element == Ty::Any { Vec::new() } else { vec![element] };
        Ty::Named(Name::new_static("list"), args)
    }

    /// Returns the union of distinct types; unknown if one of them is unknown.
    pub(crate) fn union(types: impl IntoIterator<Item = Ty>) -> Ty {
        let mut members: Vec<Ty> = Vec::new();
        let mut never = false;
        let mut soft = false;
        for ty in types {
            match ty {
                Ty::Any => return Ty::Any,
                Ty::Never => never = true,
                Ty::Union(inner) => members.extend(inner),
                Ty::OneOf(inner) => {
                    soft = true;
                    members.extend(inner);
                }
                other => members.push(other),
            }
        }
        let mut seen: Vec<Ty> = Vec::with_capacity(members.len());
        for member in members {
            if !seen.contains(&member) {
                seen.push(member);
            }
        }
        match seen.pop() {
            None if never => Ty::Never,
            None => Ty::Any,
            Some(only) if seen.is_empty() => only,
            Some(last) => {
                seen.push(last);
                if soft { Ty::OneOf(seen) } else { Ty::Union(seen) }
            }
        }
    }

    /// Returns the name of a type without arguments, as the rules for operators need it. A literal type has the name
    /// of its type.
    pub(crate) fn plain(&self) -> Option<&str> {
        match self {
            Ty::Nil => Some("nil"),
            Ty::Named(name, args) if args.is_empty() => Some(canonical(name)),
            Ty::Str(_) => Some("string"),
            Ty::Int(_) => Some("int"),
            _ => None,
        }
    }

    /// Returns the result of `type_of` for values of the type, if it is certain.
    pub(crate) fn word(&self) -> Option<&'static str> {
        Some(match self {
            Ty::Nil => "nil",
            Ty::Shape(_) => "dict",
            Ty::Str(_) => "string",
            Ty::Int(_) => "int",
            Ty::Named(name, _) => {
                const WORDS: [&str; 10] =
                    ["bool", "bytes", "dict", "duration", "float", "int", "list", "range", "set", "string"];
                WORDS.into_iter().find(|word| word == name)?
            }
            _ => return None,
        })
    }
}

impl fmt::Display for Ty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, types: &[Ty], between: &str| {
            for (at, ty) in types.iter().enumerate() {
                write!(f, "{}{ty}", if at == 0 { "" } else { between })?;
            }
            Ok(())
        };
        match self {
            Ty::Any => f.write_str("any"),
            Ty::Unknown => f.write_str("unknown"),
            Ty::Never => f.write_str("never"),
            Ty::Var(name) => f.write_str(name),
            Ty::Nil => f.write_str("nil"),
            Ty::Interface(name, _) => f.write_str(name),
            Ty::Named(name, args) => {
                f.write_str(canonical(name))?;
                if !args.is_empty() {
                    f.write_str("<")?;
                    list(f, args, ", ")?;
                    f.write_str(">")?;
                }
                Ok(())
            }
            Ty::Union(members) | Ty::OneOf(members) => list(f, members, " | "),
            Ty::Shape(fields) => {
                f.write_str("{")?;
                for (at, field) in fields.iter().enumerate() {
                    let (comma, mark) =
                        (if at == 0 { "" } else { ", " }, if field.optional { "?" } else { "" });
                    match &field.ty {
                        Ty::OneOf(_) if field.optional => {
                            let given = without(&field.ty, |member| *member == Ty::Nil);
                            write!(f, "{comma}{}{mark}: {given}", field.name)?;
                        }
                        ty => write!(f, "{comma}{}{mark}: {ty}", field.name)?,
                    }
                }
                f.write_str("}")
            }
            Ty::Fn(params, ret) => {
                f.write_str("fn(")?;
                list(f, params, ", ")?;
                write!(f, ") -> {ret}")
            }
            Ty::Str(text) => write!(f, "\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")),
            Ty::Int(value) => write!(f, "{value}"),
        }
    }
}

/// Returns the canonical name of a type.
fn canonical(name: &str) -> &str {
    match name {
        "generator" => "Generator",
        "stream" => "Stream",
        "Iter" => "iter",
        other => other,
    }
}

/// Returns the canonical form of an annotation, for messages.
pub(crate) fn type_text(ty: &TypeExpr) -> String {
    let list =
        |types: &[TypeExpr], between: &str| types.iter().map(type_text).collect::<Vec<_>>().join(between);
    match &ty.kind {
        TypeKind::Named { name, args } => {
            let name = canonical(&name.name);
            if args.is_empty() { name.to_owned() } else { format!("{name}<{}>", list(args, ", ")) }
        }
        TypeKind::Union(members) => list(members, " | "),
        TypeKind::Shape(fields) => {
            let field = |field: &ShapeField| {
                let mark = if field.optional { "?" } else { "" };
                format!("{}{mark}: {}", field.name.name, type_text(&field.ty))
            };
            format!("{{{}}}", fields.iter().map(field).collect::<Vec<_>>().join(", "))
        }
        TypeKind::Fn { params, ret } => format!("fn({}) -> {}", list(params, ", "), type_text(ret)),
        TypeKind::Str(text) => format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")),
        TypeKind::Int(value) => value.to_string(),
        TypeKind::Nil => "nil".to_owned(),
    }
}
