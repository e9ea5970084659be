//! Schemas of types: JSON Schema for tool parameters, and Harn's own schema dicts for type aliases.

use std::borrow::Cow;

use harn_schema::words;
use harn_syntax::ast::{Name, TypeExpr, TypeKind, TypeParam};
use harn_value::{Dict, Value};
use rustc_hash::{FxHashMap, FxHashSet};

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

/// Types that are not recursive by themselves are unfolded this deep; a generic one may refer to ever larger ones.
const MAX_DEPTH: usize = 32;

fn dict<const N: usize>(entries: [(&str, Value); N]) -> Value {
    Value::dict(entries.into_iter().collect::<Dict>())
}

/// The JSON Schema of a type.
pub(crate) fn json_schema(ty: &TypeExpr, aliases: &Aliases) -> Value {
    schema(ty, aliases, true)
}

/// The schema dict of a type alias.
pub(crate) fn schema_of(ty: &TypeExpr, aliases: &Aliases) -> Value {
    schema(ty, aliases, false)
}

/// The schema of a type. Types that refer to themselves stand under their names in `$defs`, and are referred to.
fn schema(ty: &TypeExpr, aliases: &Aliases, json: bool) -> Value {
    let mut lowering = Lowering { aliases, json, named: Vec::new() };
    let mut whole = lowering.build(ty, 0);
    // The list grows while it is gone through.
    let mut done = 0;
    let mut named = Dict::new();
    while let Some(name) = lowering.named.get(done).cloned() {
        done += 1;
        if let Some(alias) = aliases.get(&name) {
            named.insert(name.as_str(), lowering.build(&alias.ty, 0));
        }
    }
    // What a recursive type is itself is wanted, not a reference to it.
    if let Some(name) = whole.as_dict().and_then(|dict| referred(dict)) {
        whole = named.get_str(&name).cloned().unwrap_or(whole);
    }
    if !named.is_empty()
        && let Some(dict) = whole.as_dict_mut()
    {
        harn_value::Ref::make_mut(dict).insert("$defs", named);
    }
    whole
}

/// The name that a schema refers to.
fn referred(schema: &Dict) -> Option<String> {
    schema.get_str("$ref")?.as_str()?.strip_prefix("#/$defs/").map(str::to_owned)
}

/// The making of one schema.
struct Lowering<'a> {
    aliases: &'a Aliases,
    json: bool,
    /// The types that were referred to by name, in order.
    named: Vec<Name>,
}

impl Lowering<'_> {
    /// Whether the type with this name leads back to itself.
    fn is_recursive(&self, name: &Name) -> bool {
        let mut seen: FxHashSet<&str> = FxHashSet::default();
        let mut todo: Vec<&str> = Vec::new();
        if let Some(alias) = self.aliases.get(name) {
            mentioned(&alias.ty, self.aliases, &mut todo);
        }
        while let Some(next) = todo.pop() {
            if next == name.as_str() {
                return true;
            }
            if seen.insert(next)
                && let Some(alias) = self.aliases.get(next)
            {
                mentioned(&alias.ty, self.aliases, &mut todo);
            }
        }
        false
    }

    fn build(&mut self, ty: &TypeExpr, depth: usize) -> Value {
        self.lower(ty, depth).unwrap_or_else(|| {
            if self.json { dict([("type", Value::str("any"))]) } else { Value::dict(Dict::new()) }
        })
    }

    /// The schema of a type; `None` for types that have none and accept anything.
    fn lower(&mut self, ty: &TypeExpr, depth: usize) -> Option<Value> {
        let json = self.json;
        let mut inner = |ty: &TypeExpr| self.build(ty, depth + 1);
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
                (other, args) => {
                    let alias = self.aliases.get(other)?;
                    // Each argument makes another type of a generic one, so those are unfolded.
                    if alias.params.is_empty() && self.is_recursive(&name.name) {
                        if !self.named.contains(&name.name) {
                            self.named.push(name.name.clone());
                        }
                        return Some(dict([("$ref", Value::from(format!("#/$defs/{other}")))]));
                    }
                    if depth < MAX_DEPTH { self.lower(&alias.with(args), depth + 1) } else { None }
                }
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
                let options: Option<Vec<Value>> = members.iter().map(|m| self.lower(m, depth + 1)).collect();
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
}

/// The names of types that a type mentions.
fn mentioned<'t>(ty: &'t TypeExpr, aliases: &Aliases, found: &mut Vec<&'t str>) {
    match &ty.kind {
        TypeKind::Named { name, args } => {
            if aliases.contains_key(&name.name) {
                found.push(&name.name);
            }
            args.iter().for_each(|arg| mentioned(arg, aliases, found));
        }
        TypeKind::Union(members) => members.iter().for_each(|member| mentioned(member, aliases, found)),
        TypeKind::Shape(fields) => fields.iter().for_each(|field| mentioned(&field.ty, aliases, found)),
        // A function has no schema of its parts.
        TypeKind::Fn { .. } | TypeKind::Str(_) | TypeKind::Int(_) | TypeKind::Nil => {}
    }
}

/// The values of a union that consists of literals of one kind.
fn literals(members: &[TypeExpr], value: impl Fn(&TypeKind) -> Option<Value>) -> Option<Value> {
    members.iter().map(|m| value(&m.kind)).collect::<Option<Vec<_>>>().map(Value::list)
}
