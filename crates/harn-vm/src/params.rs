//! Checks of annotations at run time: parameters, variables, results and fields.

use std::rc::Rc;

use harn_syntax::ast::{ShapeField, TypeExpr, TypeKind};
use harn_syntax::signature::Kinds;
use harn_value::{Dict, FieldTypes, Ref, Str, Tag, Value};

use crate::error::{Error, Result};
use crate::types::{Alias, Named, Scope};

/// A type that can be checked at run time; `None` from [`Check::of`] means "not checked".
#[derive(Clone, Debug, PartialEq)]
pub enum Check {
    /// A kind, by name (`int` and `float` are interchangeable).
    Kind(&'static str),
    /// A literal.
    Literal(Literal),
    /// `list<T>`
    List(Option<Box<Check>>),
    /// `dict<K, V>`
    Dict(Option<Box<Check>>),
    /// `{a: T, b?: U}`: name, optional, type (unchecked types test presence only), type in source notation
    Shape(Vec<(Str, bool, Option<Check>, String)>),
    /// `A | B`
    Union(Vec<Check>),
    /// A named union whose members are of one kind; messages use the name.
    Named(String, Box<Check>),
    /// A named interface.
    Interface(String),
    /// An instance of the struct, or a dict with the shape of its fields, as external data has.
    Struct(Str, Option<Box<Check>>),
    /// A value of the enum.
    Enum(Str),
}

/// A literal type.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Literal {
    Str(String),
    Int(i64),
}

impl Literal {
    fn value(&self) -> Value {
        match self {
            Literal::Str(s) => Value::str(s),
            Literal::Int(i) => Value::int(*i),
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Literal::Str(_) => "string",
            Literal::Int(_) => "int",
        }
    }
}

/// The check of one annotated place.
pub struct TypeCheck {
    /// The name of the variable, `f()` for the result of `f`, `S.x` for a field of the struct `S`.
    pub name: String,
    /// The check of the value.
    pub check: Rc<Check>,
    /// What has the annotation.
    pub place: Annotated,
}

/// What has an annotation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Annotated {
    /// A parameter: the wrong value is in the call.
    Parameter,
    /// A parameter of a generator, which runs later than it is called.
    LateParameter,
    /// A variable, a result or a field.
    Value,
}

/// A dict or a struct, which a shape describes.
const RECORD: Kinds = Kinds::DICT.or(Kinds::STRUCT);

const KINDS: &[&str] = &["int", "float", "string", "bytes", "bool", "list", "dict", "set", "nil", "closure"];

/// Maximum number of parts of a type that are checked. Types nested in types may multiply; parts beyond the limit are
/// not checked.
const MAX_PARTS: usize = 1000;

/// Builder of a check.
struct Making {
    /// The named types that enclose the current one. A recursive reference is not checked: a function that descends
    /// such a value checks it step by step, not completely at each call.
    inside: Vec<*const Alias>,
    parts: usize,
    enums: bool,
}

impl Check {
    /// Returns the check for a type with the names of `scope`; `None` if it cannot be checked. Enums in parameters of a
    /// tool are not checked, because a model cannot write enum values.
    pub(crate) fn of(ty: &TypeExpr, scope: &Scope<'_>, of_tool: bool) -> Option<Check> {
        Making { inside: Vec::new(), parts: 0, enums: !of_tool }.check(ty, scope)
    }
}

impl Making {
    fn check(&mut self, ty: &TypeExpr, scope: &Scope<'_>) -> Option<Check> {
        self.parts += 1;
        if self.parts > MAX_PARTS {
            return None;
        }
        let mut boxed = |ty: &TypeExpr| self.check(ty, scope).map(Box::new);
        match &ty.kind {
            TypeKind::Named { name, args } => match (name.name.as_str(), &args[..]) {
                ("list", [item]) => Some(Check::List(boxed(item))),
                ("dict", [_, value]) => Some(Check::Dict(boxed(value))),
                (name, args) => match KINDS.iter().find(|kind| **kind == name) {
                    Some(kind) if args.is_empty() => Some(Check::Kind(kind)),
                    Some(_) => None,
                    None => self.named(name, args, scope),
                },
            },
            TypeKind::Union(members) => {
                members.iter().map(|m| self.check(m, scope)).collect::<Option<Vec<_>>>().map(Check::Union)
            }
            TypeKind::Shape(fields) => {
                let field = |ShapeField { name, optional, ty, .. }: &ShapeField| {
                    (Str::new(&name.name), *optional, self.check(ty, scope), type_text(given(ty, scope)))
                };
                Some(Check::Shape(fields.iter().map(field).collect()))
            }
            TypeKind::Fn { .. } => Some(Check::Kind("closure")),
            TypeKind::Str(text) => Some(Check::Literal(Literal::Str(text.to_string()))),
            TypeKind::Int(i) => Some(Check::Literal(Literal::Int(*i))),
            TypeKind::Nil => Some(Check::Kind("nil")),
        }
    }

    fn named(&mut self, name: &str, args: &[TypeExpr], scope: &Scope<'_>) -> Option<Check> {
        match scope.find(name)? {
            Named::Argument(ty, scope) => self.check(ty, scope),
            Named::Interface => Some(Check::Interface(name.to_owned())),
            Named::Enum(ty) => self.enums.then(|| Check::Enum(ty.name.clone())),
            Named::Alias(alias) => self.inside(name, &alias, args, scope),
            Named::Struct(ty, alias) => {
                let shape = self.inside(name, &alias, args, scope);
                Some(Check::Struct(ty.name.clone(), shape.map(Box::new)))
            }
        }
    }

    fn inside(&mut self, name: &str, alias: &Alias, args: &[TypeExpr], scope: &Scope<'_>) -> Option<Check> {
        if self.inside.contains(&std::ptr::from_ref(alias)) {
            return None;
        }
        self.inside.push(alias);
        let check = self.check(&alias.ty, &scope.of(alias, args, scope));
        self.inside.pop();
        check.map(
            |check| {
                if check.is_of_one_kind() { Check::Named(name.to_owned(), Box::new(check)) } else { check }
            },
        )
    }
}

/// Returns the argument of a generic type's parameter.
fn given<'a>(ty: &'a TypeExpr, scope: &'a Scope<'_>) -> &'a TypeExpr {
    match &ty.kind {
        TypeKind::Named { name, .. } => match scope.find(&name.name) {
            Some(Named::Argument(argument, _)) => argument,
            _ => ty,
        },
        _ => ty,
    }
}

impl Check {
    /// The check for the type of a field of the struct `of`, whose own name is not looked into again.
    pub(crate) fn of_field(ty: &TypeExpr, scope: &Scope<'_>, of: &Alias) -> Option<Check> {
        Making { inside: vec![std::ptr::from_ref(of)], parts: 0, enums: true }.check(ty, scope)
    }

    /// The same, or nil.
    pub(crate) fn or_nil(self) -> Check {
        match self {
            Check::Union(mut members) => {
                members.push(Check::Kind("nil"));
                Check::Union(members)
            }
            check => Check::Union(vec![check, Check::Kind("nil")]),
        }
    }

    /// The kinds whose values all pass.
    pub(crate) fn kinds(&self) -> Kinds {
        match self {
            Check::Kind("float") => Kinds::FLOAT.or(Kinds::INT),
            Check::Kind("dict") => RECORD,
            Check::Kind("closure") => Kinds::CLOSURE.or(Kinds::BUILTIN),
            Check::Kind(kind) => Kinds::named(kind),
            Check::List(None) => Kinds::LIST,
            Check::Dict(None) => RECORD,
            Check::Union(members) => members.iter().fold(Kinds::NONE, |all, member| all.or(member.kinds())),
            Check::Named(_, check) => check.kinds(),
            Check::Interface(_) => Kinds::STRUCT,
            _ => Kinds::NONE,
        }
    }

    /// The kinds that a value which passes can have.
    pub(crate) fn possible(&self) -> Kinds {
        match self {
            Check::Kind(_) | Check::Interface(_) => self.kinds(),
            Check::Literal(Literal::Str(_)) => Kinds::STRING,
            Check::Literal(Literal::Int(_)) => Kinds::INT,
            Check::List(_) => Kinds::LIST,
            Check::Dict(_) | Check::Shape(_) | Check::Struct(..) => RECORD,
            Check::Union(members) => {
                members.iter().fold(Kinds::NONE, |all, member| all.or(member.possible()))
            }
            Check::Named(_, check) => check.possible(),
            Check::Enum(_) => Kinds::ENUM,
        }
    }

    /// Returns whether `value` passes; the fast path before a message is built.
    pub fn accepts(&self, value: &Value) -> bool {
        match self {
            Check::Kind(kind) => kind_accepts(kind, value),
            Check::Literal(literal) => *value == literal.value(),
            Check::List(item) => match (value.as_list(), item) {
                (Some(items), Some(check)) => items.iter().all(|v| check.accepts(v)),
                (list, None) => list.is_some(),
                (None, _) => false,
            },
            Check::Dict(item) => match (value.to_dict(), item) {
                (Some(dict), Some(check)) => dict.values().all(|v| check.accepts(v)),
                (dict, None) => dict.is_some(),
                (None, _) => false,
            },
            Check::Shape(fields) => {
                let fits = |dict: &Dict| {
                    fields.iter().all(|(name, optional, check, _)| match dict.get(name) {
                        None => *optional,
                        Some(v) => check.as_ref().is_none_or(|c| c.accepts(v)),
                    })
                };
                match value.as_dict() {
                    Some(dict) => fits(dict),
                    None => value.to_dict().is_some_and(|dict| fits(&dict)),
                }
            }
            Check::Union(members) => members.iter().any(|m| m.accepts(value)),
            Check::Named(_, check) => check.accepts(value),
            Check::Interface(_) => value.as_struct().is_some(),
            Check::Struct(name, shape) => match value.as_struct() {
                Some(instance) => instance.ty.name == *name,
                None => value.as_dict().is_some() && shape.as_ref().is_none_or(|shape| shape.accepts(value)),
            },
            Check::Enum(name) => value.as_enum().is_some_and(|value| value.ty.name == *name),
        }
    }

    /// Returns the kind name that messages of unions and elements use.
    fn kind(&self) -> String {
        match self {
            Check::Kind(kind) => (*kind).to_owned(),
            Check::Literal(literal) => literal.kind().to_owned(),
            Check::List(_) => "list".to_owned(),
            Check::Dict(_) | Check::Shape(_) => "dict".to_owned(),
            Check::Union(members) => members.iter().map(Check::kind).collect::<Vec<_>>().join("|"),
            Check::Interface(name) | Check::Named(name, _) => name.clone(),
            Check::Struct(name, _) | Check::Enum(name) => name.to_string(),
        }
    }

    /// Returns whether it is a union of shapes, whose kinds do not distinguish them.
    fn is_of_one_kind(&self) -> bool {
        let Check::Union(members) = self else { return false };
        members.iter().filter(|member| member.kind() == "dict").count() > 1
    }

    /// The only member of a union that values of this kind can pass: the value is wrong inside.
    fn member_for(&self, value: &Value) -> Option<&Check> {
        let Check::Union(members) = self else { return None };
        let mut possible = members.iter().filter(|member| kind_of(value).is_within(member.possible()));
        let only = possible.next()?;
        possible.next().is_none().then_some(only)
    }

    fn literals(&self) -> Option<Vec<Value>> {
        match self {
            Check::Union(members) => members
                .iter()
                .map(|m| match m {
                    Check::Literal(l) => Some(l.value()),
                    _ => None,
                })
                .collect(),
            _ => None,
        }
    }
}

/// The kind of a value.
fn kind_of(value: &Value) -> Kinds {
    match value.tag() as u32 {
        // The numbers of these kinds are those of the tags.
        tag if tag <= Tag::Closure as u32 => Kinds(1 << tag),
        _ => Kinds::named(value.type_name()),
    }
}

fn kind_accepts(kind: &str, value: &Value) -> bool {
    match (kind, value.type_name()) {
        ("float", "int") | ("closure", "builtin") | ("dict", "struct") => true,
        (kind, name) => kind == name,
    }
}

impl TypeCheck {
    /// Checks a value.
    ///
    /// # Errors
    /// The message of the contract (chapter 02, A15).
    pub fn check(&self, value: &Value) -> Result<()> {
        if self.check.accepts(value) {
            return Ok(());
        }
        Err(match self.place {
            Annotated::Parameter => self.parameter_error(value).of_parameter(),
            Annotated::LateParameter => self.parameter_error(value),
            Annotated::Value => Error::type_error(self.problem(value)),
        })
    }

    #[cold]
    fn parameter_error(&self, value: &Value) -> Error {
        Error::type_error(format!("parameter {}", self.problem(value)))
    }

    #[cold]
    fn problem(&self, value: &Value) -> String {
        self.problem_of(&self.check, value)
    }

    fn problem_of(&self, check: &Check, value: &Value) -> String {
        let name = &self.name;
        match check {
            Check::Interface(interface) => {
                format!(
                    "'{name}': expected value satisfying interface '{interface}', got {}",
                    value.type_name()
                )
            }
            Check::Shape(_) | Check::Dict(Some(_)) => shape_problem(check, name, value),
            Check::Struct(_, Some(shape)) if value.as_dict().is_some() => shape_problem(shape, name, value),
            other => match value_problem(other, name, value) {
                Some(problem) => problem,
                None if self.place != Annotated::Value => {
                    format!("'{name}' expected {}, got {} ({value})", other.kind(), value.type_name())
                }
                None => match other.member_for(value) {
                    Some(member) => self.problem_of(member, value),
                    None => format!("'{name}' must be {}, got {}", other.kind(), value.type_name()),
                },
            },
        }
    }
}

/// The checks of the fields of a struct, in order of declaration; `None` for fields that accept all values.
pub(crate) struct FieldChecks(pub(crate) Vec<Option<TypeCheck>>);

impl FieldTypes for FieldChecks {
    fn problem(&self, slot: usize, value: &Value, grown: bool) -> Option<String> {
        let check = self.0.get(slot)?.as_ref()?;
        let kind = kind_of(value);
        let accepts = kind.is_within(check.check.kinds())
            || if grown { kind.is_within(check.check.possible()) } else { check.check.accepts(value) };
        (!accepts).then(|| check.problem(value))
    }
}

/// What is wrong inside a value that is not a shape; `None` if the value as a whole is of the wrong kind.
fn value_problem(check: &Check, name: &str, value: &Value) -> Option<String> {
    Some(match check {
        Check::Literal(literal) => format!("'{name}': expected constant {}, got {value}", literal.value()),
        Check::List(Some(_)) if value.as_list().is_some() => {
            let mut problems = Vec::new();
            element_problems(check, "root", value, &mut problems);
            format!("'{name}': {}", problems.join("; "))
        }
        check => match check.literals() {
            Some(literals) => {
                format!("'{name}': value must be one of {}, got {value}", Value::list(literals))
                    .split(", got ")
                    .next()
                    .unwrap_or_default()
                    .to_owned()
            }
            None => return None,
        },
    })
}

fn element_problems(check: &Check, path: &str, value: &Value, out: &mut Vec<String>) {
    match (check, value.as_list(), value.to_dict()) {
        (Check::List(Some(item)), Some(items), _) => {
            for (i, v) in items.iter().enumerate() {
                element_problems(item, &format!("{path}[{i}]"), v, out);
            }
        }
        (Check::Shape(fields), _, Some(dict)) => {
            for (name, optional, check, ty) in fields {
                match (dict.get(name), check) {
                    (None, _) if !optional => out.push(format!("at {path}: missing field '{name}' ({ty})")),
                    (Some(v), Some(check)) => element_problems(check, &format!("{path}.{name}"), v, out),
                    _ => {}
                }
            }
        }
        _ if check.accepts(value) => {}
        _ => out.push(match check.literals() {
            Some(literals) => format!("at {path}: value must be one of {}", Value::list(literals)),
            None => format!("at {path}: expected type '{}', got '{}'", check.kind(), value.type_name()),
        }),
    }
}

/// Returns the message after `parameter ` for shapes and `dict<K, V>`.
fn shape_problem(check: &Check, path: &str, value: &Value) -> String {
    let Some(dict) = value.to_dict() else {
        return format!("'{path}': expected dict or struct, got {}", value.type_name());
    };
    match check {
        Check::Dict(Some(item)) => {
            for (key, v) in dict.iter() {
                if !item.accepts(v) {
                    return field_problem(item, path, key, v, &item.kind());
                }
            }
            String::new()
        }
        Check::Shape(fields) => {
            for (name, optional, _, ty) in fields {
                if !optional && !dict.contains(name) {
                    return format!("'{path}': missing field '{name}' ({ty}){}", similar_key(name, &dict));
                }
            }
            let mut sorted: Vec<_> = fields.iter().collect();
            sorted.sort_by(|a, b| a.0.cmp(&b.0));
            for (name, _, check, ty) in sorted {
                if let (Some(v), Some(check)) = (dict.get(name), check)
                    && !check.accepts(v)
                {
                    return field_problem(check, path, name, v, ty);
                }
            }
            String::new()
        }
        _ => String::new(),
    }
}

fn field_problem(check: &Check, path: &str, key: &str, value: &Value, ty: &str) -> String {
    match check {
        Check::Shape(_) if value.to_dict().is_some() => shape_problem(check, &format!("{path}.{key}"), value),
        Check::Shape(_) => {
            format!("'{path}': field '{key}' expected dict or struct, got {}", value.type_name())
        }
        Check::Struct(_, Some(shape)) if value.as_dict().is_some() => {
            shape_problem(shape, &format!("{path}.{key}"), value)
        }
        Check::Kind(_) | Check::Struct(..) | Check::Enum(_) | Check::Named(..) => {
            format!("'{path}': field '{key}' expected {ty}, got {}", value.type_name())
        }
        check => value_problem(check, &format!("{path}.{key}"), value).unwrap_or_else(|| {
            format!("'{path}.{key}' expected {}, got {} ({value})", check.kind(), value.type_name())
        }),
    }
}

fn similar_key(name: &str, dict: &Ref<Dict>) -> String {
    let first = name.chars().next();
    // In a dict larger than a hand-written one, a similar key is a coincidence.
    dict.keys()
        .take(1000)
        .find(|key| key.chars().next() == first && crate::suggest::distance(name, key) <= 2)
        .map(|key| format!(", did you mean '{key}'?"))
        .unwrap_or_default()
}

/// Formats a type in source notation.
pub(crate) fn type_text(ty: &TypeExpr) -> String {
    let join = |types: &[TypeExpr], sep: &str| types.iter().map(type_text).collect::<Vec<_>>().join(sep);
    match &ty.kind {
        TypeKind::Named { name, args } if args.is_empty() => name.name.to_string(),
        TypeKind::Named { name, args } => format!("{}<{}>", name.name, join(args, ", ")),
        TypeKind::Union(members) => join(members, " | "),
        TypeKind::Shape(fields) => {
            let fields: Vec<String> = fields
                .iter()
                .map(|f| {
                    format!("{}{}: {}", f.name.name, if f.optional { "?" } else { "" }, type_text(&f.ty))
                })
                .collect();
            format!("{{{}}}", fields.join(", "))
        }
        TypeKind::Fn { params, ret } => format!("fn({}) -> {}", join(params, ", "), type_text(ret)),
        TypeKind::Str(text) => format!("\"{text}\""),
        TypeKind::Int(i) => i.to_string(),
        TypeKind::Nil => "nil".to_owned(),
    }
}
