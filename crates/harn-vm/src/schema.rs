//! Schemas of types: JSON Schema for tool parameters, and Harn's own schema dicts for type aliases.

use std::rc::Rc;

use harn_schema::words;
use harn_syntax::ast::{Note, ShapeField, TypeExpr, TypeKind};
use harn_value::{Dict, Str, Value};

use crate::types::{Alias, Named, Scope};

/// Maximum depth to which types that are not directly recursive are expanded; a generic type may refer to ever larger
/// ones.
const MAX_DEPTH: usize = 32;

/// Maximum number of expanded parts of a schema. Types nested in types may multiply: beyond the limit, a named type is
/// referred to by its name, and any other accepts anything.
const MAX_PARTS: usize = 4096;

fn dict<const N: usize>(entries: [(&str, Value); N]) -> Value {
    Value::dict(entries.into_iter().collect::<Dict>())
}

/// Returns the JSON Schema of a type.
pub(crate) fn json_schema(ty: &TypeExpr, scope: &Scope<'_>) -> Value {
    schema(scope, true, |lowering| lowering.build(ty, scope, 0))
}

/// Returns the schema dict of a named type.
pub(crate) fn schema_of(alias: &Rc<Alias>, scope: &Scope<'_>) -> Value {
    schema(scope, false, |lowering| {
        described(lowering.build(&alias.ty, &scope.of(alias, &[], scope), 0), alias.doc.as_deref())
    })
}

/// The schema dict of a type expression.
pub(crate) fn schema_of_type(ty: &TypeExpr, scope: &Scope<'_>) -> Value {
    schema(scope, false, |lowering| lowering.build(ty, scope, 0))
}

/// Adds the description and the constraints of a field or parameter to its schema, with the keywords of JSON Schema or
/// of Harn.
pub(crate) fn annotate(mut schema: Value, note: Option<&Note>, json: bool) -> Value {
    let Some(note) = note else { return schema };
    for (word, value) in note.limits.iter().flat_map(|limit| &limit.words) {
        limit(&mut schema, word, &crate::compile::attr_value(value), json);
    }
    described(schema, note.doc.as_deref())
}

/// Adds a constraint to a schema, or to the members of a union to which it applies.
fn limit(schema: &mut Value, word: &'static str, value: &Value, json: bool) {
    let Some(dict) = schema.as_dict_mut().map(harn_value::Ref::make_mut) else { return };
    let union = if json { "anyOf" } else { "union" };
    if let Some(members) = dict.get_str(union).and_then(Value::as_list) {
        let mut members = members.to_vec();
        members.iter_mut().for_each(|member| limit(member, word, value, json));
        dict.insert(union, Value::list(members));
        return;
    }
    let applies = |ty: &str| match word {
        "min" | "max" => matches!(ty, "int" | "integer" | "float" | "number" | "any"),
        "min_items" | "max_items" => matches!(ty, "list" | "array" | "set" | "any"),
        _ => matches!(ty, "string" | "any"),
    };
    if dict.get_str("type").and_then(Value::as_str).is_none_or(|ty| applies(ty)) {
        dict.insert(if json { words::json_key(word) } else { word }, value.clone());
    }
}

/// Adds a description to a schema that has none. Not to a reference: strict hosts reject keywords next to `$ref`.
fn described(mut schema: Value, doc: Option<&str>) -> Value {
    if let (Some(doc), Some(dict)) = (doc, schema.as_dict_mut()) {
        let dict = harn_value::Ref::make_mut(dict);
        if dict.get_str("$ref").is_none() {
            dict.insert("description", doc);
        }
    }
    schema
}

/// Returns the schema of a type. Recursive types are stored by name in `$defs` and referred to.
fn schema(scope: &Scope<'_>, json: bool, lower: impl FnOnce(&mut Lowering) -> Value) -> Value {
    let mut lowering = Lowering { json, parts: 0, named: Vec::new() };
    let mut whole = lower(&mut lowering);
    // The list grows during the iteration.
    let mut done = 0;
    let mut named = Dict::new();
    while let Some((alias, name)) = lowering.named.get(done).cloned() {
        done += 1;
        let schema = lowering.build(&alias.ty, &scope.of(&alias, &[], scope), 0);
        named.insert(name.as_str(), described(schema, alias.doc.as_deref()));
    }
    // The result is the recursive type itself, not a reference to it.
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

/// Returns the name that a schema refers to.
fn referred(schema: &Dict) -> Option<String> {
    schema.get_str("$ref")?.as_str()?.strip_prefix("#/$defs/").map(str::to_owned)
}

/// Builder of one schema.
struct Lowering {
    json: bool,
    /// Number of parts so far.
    parts: usize,
    /// The types that were referred to by name, in order, with those names: two files may use one name for different
    /// types.
    named: Vec<(Rc<Alias>, String)>,
}

impl Lowering {
    /// Returns the name by which a recursive type is referred to.
    fn name_of(&mut self, alias: &Rc<Alias>, name: &str) -> String {
        if let Some((_, known)) = self.named.iter().find(|(known, _)| Rc::ptr_eq(known, alias)) {
            return known.clone();
        }
        let is_free = |name: &String| self.named.iter().all(|(_, known)| known != name);
        let numbered = (2..).map(|number| format!("{name}_{number}"));
        let free = std::iter::once(name.to_owned()).chain(numbered).find(is_free).unwrap_or_default();
        self.named.push((alias.clone(), free.clone()));
        free
    }

    fn build(&mut self, ty: &TypeExpr, scope: &Scope<'_>, depth: usize) -> Value {
        self.lower(ty, scope, depth).unwrap_or_else(|| {
            if self.json { dict([("type", Value::str("any"))]) } else { Value::dict(Dict::new()) }
        })
    }

    /// Returns the schema of a type; `None` for types without a schema, which accept anything.
    fn lower(&mut self, ty: &TypeExpr, scope: &Scope<'_>, depth: usize) -> Option<Value> {
        self.parts += 1;
        let json = self.json;
        let mut inner = |ty: &TypeExpr| self.build(ty, scope, depth + 1);
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
                (other, args) => match scope.find(other)? {
                    Named::Argument(ty, scope) => self.lower(ty, scope, depth + 1),
                    Named::Alias(alias) | Named::Struct(_, alias) => {
                        // Each argument makes a different type of a generic one, so these are expanded.
                        let many = self.parts > MAX_PARTS;
                        if alias.params.is_empty() && (many || scope.is_recursive(&alias)) {
                            let name = self.name_of(&alias, other);
                            return Some(dict([("$ref", Value::from(format!("#/$defs/{name}")))]));
                        }
                        let inside = scope.of(&alias, args, scope);
                        if depth < MAX_DEPTH && !many {
                            let inner = self.lower(&alias.ty, &inside, depth + 1)?;
                            Some(described(inner, alias.doc.as_deref()))
                        } else {
                            None
                        }
                    }
                    Named::Enum(_) | Named::Interface => None,
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
                    members.iter().map(|m| self.lower(m, scope, depth + 1)).collect();
                Some(dict([(if json { "anyOf" } else { "union" }, Value::list(options?))]))
            }
            TypeKind::Shape(fields) => {
                let property = |f: &ShapeField| {
                    (Str::new(&f.name.name), annotate(inner(&f.ty), f.note.as_deref(), json))
                };
                let properties: Dict = fields.iter().map(property).collect();
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

/// Returns the values of a union of literals of one kind.
fn literals(members: &[TypeExpr], value: impl Fn(&TypeKind) -> Option<Value>) -> Option<Value> {
    members.iter().map(|m| value(&m.kind)).collect::<Option<Vec<_>>>().map(Value::list)
}
