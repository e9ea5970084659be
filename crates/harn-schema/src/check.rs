//! Validation of a value against a schema.

use harn_value::{Dict, Ref, Set, Str, Value, View, compare, equal};

use crate::canonical::{SchemaError, canonical, text};
use crate::complaint::Complaint;
use crate::pattern::compiled;
use crate::search::find;
use crate::with_stack;

/// Validates `value` against `schema`. With `defaults`, missing properties are filled from their defaults first.
/// Returns the normalized value, or all errors in the documented order, each as `at <path>: <message>`.
///
/// # Errors
/// Returns an error if the schema itself is malformed.
pub fn check(
    value: &Value,
    schema: &Value,
    defaults: bool,
) -> Result<Result<Value, Vec<String>>, SchemaError> {
    let mut checker = Checker { root: schema, named: Vec::new(), defaults, errors: Vec::new(), hops: 0 };
    let checked = checker.check(value, &canonical(schema)?, &Path::Root)?;
    Ok(if checker.errors.is_empty() { Ok(checked) } else { Err(checker.errors) })
}

/// The current path in the value: a linked list up to the root, formatted only for errors.
enum Path<'a> {
    Root,
    Key(&'a Path<'a>, &'a str),
    Index(&'a Path<'a>, usize),
}

impl std::fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Iterates instead of recursing, because values may be arbitrarily deep.
        let mut steps = Vec::new();
        let mut at = self;
        while let Path::Key(parent, _) | Path::Index(parent, _) = at {
            steps.push(at);
            at = parent;
        }
        if steps.is_empty() {
            return f.write_str("root");
        }
        for (i, step) in steps.iter().rev().enumerate() {
            match step {
                Path::Key(_, key) if i == 0 => f.write_str(key)?,
                Path::Key(_, key) => write!(f, ".{key}")?,
                Path::Index(_, index) => write!(f, "[{index}]")?,
                Path::Root => {}
            }
        }
        Ok(())
    }
}

struct Checker<'a> {
    /// The schema as passed: references are resolved in it.
    root: &'a Value,
    /// The `$defs` of the enclosing schemas, innermost last: a subschema may have its own.
    named: Vec<Ref<Dict>>,
    defaults: bool,
    errors: Vec<String>,
    /// Number of references and branches followed since the last step into the value; bounds circular references.
    hops: usize,
}

const MAX_HOPS: usize = 64;

type Checked = Result<Value, SchemaError>;

impl Checker<'_> {
    fn error(&mut self, path: &Path<'_>, complaint: Complaint<'_>) {
        self.errors.push(format!("at {path}: {complaint}"));
    }

    fn check(&mut self, value: &Value, schema: &Dict, path: &Path<'_>) -> Checked {
        with_stack(|| self.check_here(value, schema, path))
    }

    /// Validates a part of the value.
    fn check_child(&mut self, value: &Value, schema: &Dict, path: &Path<'_>) -> Checked {
        let hops = std::mem::take(&mut self.hops);
        let checked = self.check(value, schema, path);
        self.hops = hops;
        checked
    }

    /// Validates the same value against another schema; `label` names it in the error about circular references.
    fn check_same(&mut self, value: &Value, schema: &Dict, path: &Path<'_>, label: &str) -> Checked {
        if self.hops >= MAX_HOPS {
            self.error(path, Complaint::Reference(label));
            return Ok(value.clone());
        }
        self.hops += 1;
        let checked = self.check(value, schema, path);
        self.hops -= 1;
        checked
    }

    fn check_here(&mut self, value: &Value, schema: &Dict, path: &Path<'_>) -> Checked {
        let Some(named) = schema.get_str("$defs").and_then(Value::as_dict) else {
            return self.check_all(value, schema, path);
        };
        self.named.push(named.clone());
        let checked = self.check_all(value, schema, path);
        self.named.pop();
        checked
    }

    /// Validates against a named schema from `$defs` if the reference points to one.
    fn check_named(&mut self, value: &Value, reference: &str, path: &Path<'_>) -> Option<Checked> {
        let name = reference.strip_prefix("#/$defs/")?.replace("~1", "/").replace("~0", "~");
        let of = |named: &Ref<Dict>| named.get_str(&name)?.as_dict().cloned();
        let at = self.named.iter().rposition(|named| of(named).is_some())?;
        let schema = of(&self.named[at])?;
        // Names in the referenced schema are resolved in the scope of its definition.
        let inner = self.named.split_off(at + 1);
        let checked = self.check_same(value, &schema, path, reference);
        self.named.extend(inner);
        Some(checked)
    }

    fn check_all(&mut self, value: &Value, schema: &Dict, path: &Path<'_>) -> Checked {
        if let Some(reference) = text(schema.get_str("$ref")) {
            if let Some(checked) = self.check_named(value, reference, path) {
                return checked;
            }
            return match self.resolve(reference) {
                Some(target) => self.check_same(value, &canonical(&target)?, path, reference),
                None => {
                    self.error(path, Complaint::Reference(reference));
                    Ok(value.clone())
                }
            };
        }
        if value.is_nil() && schema.get_str("nullable").is_some_and(Value::truthy) {
            return Ok(Value::NIL);
        }
        if let Some(constant) = schema.get_str("const") {
            if !equal(constant, value) {
                self.error(path, Complaint::Constant { expected: constant, got: value });
            }
            return Ok(value.clone());
        }
        if let Some(expected) = text(schema.get_str("type"))
            && !has_type(value, expected)
        {
            let got = value.type_name();
            self.error(path, Complaint::Type { expected, got });
            return Ok(value.clone());
        }
        if let Some(allowed) = schema.get_str("enum")
            && !allowed.as_list().is_some_and(|list| list.iter().any(|item| equal(item, value)))
        {
            self.error(path, Complaint::NotOneOf(allowed));
        }
        self.check_limits(value, schema, path);
        let mut value = self.check_parts(value, schema, path)?;
        if let Some(branches) = schema.get_str("union").and_then(Value::as_list) {
            value = self.check_union(&value, branches, path)?;
        }
        if let Some(branches) = schema.get_str("all_of").and_then(Value::as_list) {
            for branch in branches.iter().filter_map(Value::as_dict) {
                value = self.check_same(&value, branch, path, "all_of")?;
            }
        }
        Ok(value)
    }

    /// Returns the value normalized by the first branch that accepts it.
    fn check_union(&mut self, value: &Value, branches: &[Value], path: &Path<'_>) -> Checked {
        for branch in branches.iter().filter_map(Value::as_dict) {
            let before = self.errors.len();
            let checked = self.check_same(value, branch, path, "union")?;
            if self.errors.len() == before {
                return Ok(checked);
            }
            self.errors.truncate(before);
        }
        self.error(path, Complaint::NoBranch);
        Ok(value.clone())
    }

    /// Checks bounds, lengths and patterns for the kinds of values that they apply to.
    fn check_limits(&mut self, value: &Value, schema: &Dict, path: &Path<'_>) {
        use std::cmp::Ordering::{Greater, Less};
        let limit = |name: &str| schema.get_str(name).filter(|limit| limit.as_number().is_some());
        let beyond = |count: usize, name: &str, side| {
            limit(name).filter(|limit| compare(&Value::from(count), limit) == Some(side))
        };
        match value.view() {
            View::Int(_) | View::Float(_) => {
                if let Some(min) = limit("min").filter(|min| compare(value, min).is_none_or(|o| o == Less)) {
                    self.error(path, Complaint::Below { limit: min, got: value });
                }
                if let Some(max) = limit("max").filter(|max| compare(value, max).is_none_or(|o| o == Greater))
                {
                    self.error(path, Complaint::Above { limit: max, got: value });
                }
            }
            View::Str(text) => {
                let length = text.char_count();
                if let Some(min) = beyond(length, "min_length", Less) {
                    self.error(path, Complaint::Shorter { limit: min, got: length });
                }
                if let Some(max) = beyond(length, "max_length", Greater) {
                    self.error(path, Complaint::Longer { limit: max, got: length });
                }
                self.check_pattern(text, schema, path);
            }
            View::List(_) | View::Set(_) => {
                let count =
                    value.as_list().map_or_else(|| value.as_set().map_or(0, |s| s.len()), |l| l.len());
                if let Some(min) = beyond(count, "min_items", Less) {
                    self.error(path, Complaint::Fewer { limit: min, got: count });
                }
                if let Some(max) = beyond(count, "max_items", Greater) {
                    self.error(path, Complaint::More { limit: max, got: count });
                }
            }
            _ => {}
        }
    }

    fn check_pattern(&mut self, value: &str, schema: &Dict, path: &Path<'_>) {
        let Some(pattern) = text(schema.get_str("pattern")) else { return };
        match compiled(pattern, "") {
            Ok(regex) if find(&regex, value).next().is_some() => {}
            Ok(_) => self.error(path, Complaint::Pattern(pattern)),
            Err(reason) => self.error(path, Complaint::BrokenPattern { pattern, reason: &reason }),
        }
    }

    /// Validates properties and items.
    fn check_parts(&mut self, value: &Value, schema: &Dict, path: &Path<'_>) -> Checked {
        match value.view() {
            View::Dict(_) | View::Struct(_) => self.check_properties(value, schema, path),
            View::List(items) => {
                let Some(item_schema) = schema.get_str("items").and_then(Value::as_dict) else {
                    return Ok(value.clone());
                };
                let mut checked = Vec::with_capacity(items.len());
                for (i, item) in items.iter().enumerate() {
                    checked.push(self.check_child(item, item_schema, &Path::Index(path, i))?);
                }
                Ok(Value::list(checked))
            }
            View::Set(items) => {
                let Some(item_schema) = schema.get_str("items").and_then(Value::as_dict) else {
                    return Ok(value.clone());
                };
                let mut checked = Set::new();
                for (i, item) in items.iter().enumerate() {
                    checked.insert(self.check_child(item, item_schema, &Path::Index(path, i))?);
                }
                Ok(checked.into())
            }
            _ => Ok(value.clone()),
        }
    }

    fn check_properties(&mut self, value: &Value, schema: &Dict, path: &Path<'_>) -> Checked {
        let Some(given) = value.to_dict() else { return Ok(value.clone()) };
        let properties = schema.get_str("properties").and_then(Value::as_dict);
        let property = |key: &str| properties.and_then(|p| p.get_str(key)).and_then(Value::as_dict);
        let default = |key: &str| property(key).and_then(|p| p.get_str("default")).filter(|_| self.defaults);
        let mut missing = Vec::new();
        for key in schema.get_str("required").and_then(Value::as_list).into_iter().flat_map(|l| l.iter()) {
            let key = key.to_string();
            if !given.contains(&key) && default(&key).is_none() {
                missing.push(key);
            }
        }
        for key in missing {
            self.error(path, Complaint::Missing(&key));
        }
        let mut changes: Vec<(Str, Value)> = Vec::new();
        for (key, part_schema) in properties.into_iter().flat_map(|p| p.iter()) {
            let Some(part_schema) = part_schema.as_dict() else { continue };
            let part = match given.get(key) {
                Some(part) => part,
                None => match part_schema.get_str("default").filter(|_| self.defaults) {
                    Some(default) => default,
                    None => continue,
                },
            };
            changes.push((key.clone(), self.check_child(part, part_schema, &Path::Key(path, key))?));
        }
        match schema.get_str("additional_properties") {
            Some(extra) if extra.as_bool() == Some(false) => {
                for key in given.keys().filter(|key| property(key).is_none()) {
                    self.error(path, Complaint::Unexpected(key));
                }
            }
            Some(extra) => {
                if let Some(extra) = extra.as_dict() {
                    for (key, part) in given.iter().filter(|(key, _)| property(key).is_none()) {
                        changes.push((key.clone(), self.check_child(part, extra, &Path::Key(path, key))?));
                    }
                }
            }
            None => {}
        }
        Ok(with_entries(value, changes))
    }

    /// Resolves a reference from the root of the schema as passed.
    fn resolve(&self, reference: &str) -> Option<Value> {
        let path = reference.strip_prefix('#')?;
        let steps = path.split('/').skip(1).map(|step| step.replace("~1", "/").replace("~0", "~"));
        steps.into_iter().try_fold(self.root.clone(), |value, step| match value.view() {
            View::Dict(dict) => dict.get_str(&step).cloned(),
            View::List(list) => list.get(step.parse::<usize>().ok()?).cloned(),
            _ => None,
        })
    }
}

/// Returns a copy of a dict or struct with some entries replaced or added.
fn with_entries(value: &Value, entries: Vec<(Str, Value)>) -> Value {
    if entries.is_empty() {
        return value.clone();
    }
    let mut value = value.clone();
    if let Some(instance) = value.as_struct_mut() {
        let instance = instance.make_mut();
        for (key, part) in entries {
            *instance.entry(&key) = part;
        }
    } else if let Some(dict) = value.as_dict_mut() {
        Ref::make_mut(dict).extend(entries);
    }
    value
}

fn has_type(value: &Value, expected: &str) -> bool {
    match expected {
        "any" => true,
        "dict" => matches!(value.view(), View::Dict(_) | View::Struct(_)),
        // An int is also a number; a float is not an int, even without a fractional part.
        "float" => matches!(value.view(), View::Int(_) | View::Float(_)),
        _ => value.type_name() == expected,
    }
}
