//! Schemas of types: JSON Schema for tool parameters, and Harn's own schema dicts for type aliases.

use std::borrow::Cow;

use harn_schema::words;
use harn_syntax::ast::{Name, TypeExpr, TypeKind, TypeParam};
use harn_value::{Dict, Value};
use rustc_hash::FxHashMap;

/// The types that a program gives names, by these.
pub(crate) type Aliases = FxHashMap<Name, Alias>;

/// A type that has a name.
#[derive(Clone, Debug)]
pub(crate) struct Alias {
    /// The names that stand for the arguments of a generic one.
    pub(crate) params: Vec<Name>,
    /// What the name stands for.
    pub(crate) ty: TypeExpr,
}

impl Alias {
    pub(crate) fn of(params: &[TypeParam], ty: TypeExpr) -> Alias {
        Alias { params: params.iter().map(|param| param.name.name.clone()).collect(), ty }
    }

    /// The type for these arguments. A parameter without an argument stands for anything.
    fn with(&self, args: &[TypeExpr]) -> Cow<'_, TypeExpr> {
        if self.params.is_empty() || args.is_empty() {
            return Cow::Borrowed(&self.ty);
        }
        let mut ty = self.ty.clone();
        fill(&mut ty, &|name| self.params.iter().position(|param| param == name).and_then(|at| args.get(at)));
        Cow::Owned(ty)
    }
}

/// Puts arguments where the names of parameters stand.
fn fill<'a>(ty: &mut TypeExpr, argument: &dyn Fn(&Name) -> Option<&'a TypeExpr>) {
    match &mut ty.kind {
        TypeKind::Named { name, args } if args.is_empty() => {
            if let Some(given) = argument(&name.name) {
                *ty = given.clone();
            }
        }
        TypeKind::Named { args, .. } => args.iter_mut().for_each(|arg| fill(arg, argument)),
        TypeKind::Union(members) => members.iter_mut().for_each(|member| fill(member, argument)),
        TypeKind::Shape(fields) => fields.iter_mut().for_each(|field| fill(&mut field.ty, argument)),
        TypeKind::Fn { params, ret } => {
            params.iter_mut().for_each(|param| fill(param, argument));
            fill(ret, argument);
        }
        TypeKind::Str(_) | TypeKind::Int(_) | TypeKind::Nil => {}
    }
}

/// How deep an alias may refer to other aliases.
const MAX_DEPTH: usize = 32;

fn dict<const N: usize>(entries: [(&str, Value); N]) -> Value {
    Value::dict(entries.into_iter().collect::<Dict>())
}

/// The JSON Schema of a type.
pub(crate) fn json_schema(ty: &TypeExpr, aliases: &Aliases) -> Value {
    build(ty, aliases, true, 0)
}

/// The schema dict of a type alias.
pub(crate) fn schema_of(ty: &TypeExpr, aliases: &Aliases) -> Value {
    build(ty, aliases, false, 0)
}

fn build(ty: &TypeExpr, aliases: &Aliases, json: bool, depth: usize) -> Value {
    lower(ty, aliases, json, depth)
        .unwrap_or_else(|| if json { dict([("type", Value::str("any"))]) } else { Value::dict(Dict::new()) })
}

/// The schema of a type; `None` for types that have none and accept anything.
fn lower(ty: &TypeExpr, aliases: &Aliases, json: bool, depth: usize) -> Option<Value> {
    let inner = |ty: &TypeExpr| build(ty, aliases, json, depth + 1);
    let word = |harn: &'static str| Value::str(if json { words::json(harn) } else { harn });
    let named = |harn: &'static str| Some(dict([("type", word(harn))]));
    match &ty.kind {
        TypeKind::Named { name, args } => match (name.name.as_str(), &args[..]) {
            ("int", []) => named("int"),
            ("float", []) => named("float"),
            ("bool", []) => named("bool"),
            ("string", []) => named("string"),
            ("nil", []) => named("nil"),
            ("list", []) => named("list"),
            ("dict", []) => named("dict"),
            ("set", []) => named("set"),
            ("bytes", []) => named("bytes"),
            ("closure", []) if !json => named("closure"),
            ("list", [item]) => Some(dict([("type", word("list")), ("items", inner(item))])),
            ("dict", [key, value]) => {
                let kind = word("dict");
                if !matches!(&key.kind, TypeKind::Named { name, .. } if name.name == "string") {
                    return Some(dict([("type", kind)]));
                }
                let values = if json { "additionalProperties" } else { "additional_properties" };
                Some(dict([("type", kind), (values, inner(value))]))
            }
            (other, args) => match aliases.get(other) {
                Some(alias) if depth < MAX_DEPTH => lower(&alias.with(args), aliases, json, depth + 1),
                _ => None,
            },
        },
        TypeKind::Nil => named("nil"),
        TypeKind::Fn { .. } if json => None,
        TypeKind::Fn { .. } => named("closure"),
        TypeKind::Str(text) => Some(dict([("type", Value::str("string")), ("const", Value::str(text))])),
        TypeKind::Int(i) => {
            let kind = word("int");
            Some(dict([("type", kind), ("const", Value::int(*i))]))
        }
        TypeKind::Union(members) => {
            if let Some(values) = literals(members, |kind| match kind {
                TypeKind::Str(text) => Some(Value::str(text)),
                _ => None,
            }) {
                return Some(dict([("type", Value::str("string")), ("enum", values)]));
            }
            if let Some(values) = literals(members, |kind| match kind {
                TypeKind::Int(i) => Some(Value::int(*i)),
                _ => None,
            }) {
                let kind = word("int");
                return Some(dict([("type", kind), ("enum", values)]));
            }
            let options: Option<Vec<Value>> =
                members.iter().map(|m| lower(m, aliases, json, depth + 1)).collect();
            Some(dict([(if json { "anyOf" } else { "union" }, Value::list(options?))]))
        }
        TypeKind::Shape(fields) => {
            let properties: Dict = fields.iter().map(|f| (f.name.name.as_str(), inner(&f.ty))).collect();
            let required: Vec<Value> =
                fields.iter().filter(|f| !f.optional).map(|f| Value::str(&f.name.name)).collect();
            let kind = word("dict");
            let mut schema: Dict =
                [("type", kind), ("properties", Value::dict(properties))].into_iter().collect();
            if !required.is_empty() {
                schema.insert("required", Value::list(required));
            }
            Some(schema.into())
        }
    }
}

/// The values of a union that consists of literals of one kind.
fn literals(members: &[TypeExpr], value: impl Fn(&TypeKind) -> Option<Value>) -> Option<Value> {
    members.iter().map(|m| value(&m.kind)).collect::<Option<Vec<_>>>().map(Value::list)
}
