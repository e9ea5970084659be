//! Tool registries: plain dicts `{_type: "tool_registry", tools: [entry, …]}` that no function changes in place.
//! `define.rs` validates new entries, `describe.rs` renders registries for models and programs.

mod define;
mod describe;

use harn_value::{Dict, List, Ref, Value};

pub(crate) use define::RUNTIME_TOOLS;
pub use define::define;
pub use describe::{describe, format_result, listing, parse_calls, schema};

/// The error of a misused registry function, as a script catches it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RegistryError(pub String);

/// `Result` with a registry error.
pub type Result<T> = std::result::Result<T, RegistryError>;

pub(crate) fn fail<T>(text: impl Into<String>) -> Result<T> {
    Err(RegistryError(text.into()))
}

pub(crate) const TYPE: &str = "tool_registry";

/// Creates a dict of this type with `items` under `key`.
pub(crate) fn tagged(type_name: &str, key: &str, items: Vec<Value>) -> Value {
    let mut dict = Dict::new();
    dict.insert("_type", type_name);
    dict.insert(key, items);
    dict.into()
}

/// Returns whether a dict has this `_type`.
pub(crate) fn is_tagged(value: &Value, type_name: &str) -> bool {
    let tag = value.as_dict().and_then(|d| d.get_str("_type"));
    tag.and_then(Value::as_str).is_some_and(|t| t.as_str() == type_name)
}

/// Replaces the items of a registry; its other keys are unchanged.
pub(crate) fn with_items(registry: &Value, key: &str, items: Vec<Value>) -> Value {
    let mut dict = registry.as_dict().map(|d| (**d).clone()).unwrap_or_default();
    dict.insert(key, items);
    dict.into()
}

/// Returns the string under `key` of an entry.
pub(crate) fn text_of(entry: &Value, key: &str) -> Option<String> {
    entry.as_dict()?.get_str(key)?.as_str().map(|s| s.to_string())
}

/// Creates an empty registry.
pub fn empty() -> Value {
    tagged(TYPE, "tools", Vec::new())
}

/// Returns the entries of a registry.
///
/// # Errors
/// `<function>: argument must be a tool registry (created with tool_registry())`
pub fn entries(function: &str, registry: &Value) -> Result<Ref<List>> {
    let list = registry.as_dict().and_then(|d| d.get_str("tools")).and_then(Value::as_list);
    match list {
        Some(list) if is_tagged(registry, TYPE) => Ok(list.clone()),
        None if is_tagged(registry, TYPE) => Ok(Ref::new(List::new())),
        _ => fail(format!("{function}: argument must be a tool registry (created with tool_registry())")),
    }
}

/// Returns whether a value is a tool registry.
pub fn is_registry(value: &Value) -> bool {
    is_tagged(value, TYPE)
}

/// Returns the name of an entry.
pub fn name_of(entry: &Value) -> Option<String> {
    text_of(entry, "name")
}

/// Returns an entry without its handler, as programs see it.
pub fn public_entry(entry: &Value) -> Value {
    let mut dict = entry.as_dict().map(|d| (**d).clone()).unwrap_or_default();
    dict.remove("handler");
    dict.into()
}

/// Finds an entry by name.
///
/// # Errors
/// The first argument is not a registry.
pub fn find(function: &str, registry: &Value, name: &str) -> Result<Option<Value>> {
    let entries = entries(function, registry)?;
    Ok(entries.iter().find(|e| name_of(e).as_deref() == Some(name)).cloned())
}

/// Retains the entries with these names, in registry order.
///
/// # Errors
/// The arguments have other types.
pub fn select(registry: &Value, names: &Value) -> Result<Value> {
    if registry.as_dict().is_none() {
        return fail("tool_select: first argument must be a tool registry");
    }
    let entries = entries("tool_select", registry)?;
    let Some(names) = names.as_list() else {
        return fail("tool_select: second argument must be a list of tool names");
    };
    let names: Vec<String> = names.iter().map(Value::to_string).collect();
    let kept = entries.iter().filter(|e| name_of(e).is_some_and(|n| names.contains(&n))).cloned();
    Ok(with_items(registry, "tools", kept.collect()))
}

/// Removes the entry with this name.
///
/// # Errors
/// The first argument is not a registry.
pub fn remove(registry: &Value, name: &str) -> Result<Value> {
    if registry.as_dict().is_none() {
        return fail("tool_remove: first argument must be a tool registry");
    }
    let entries = entries("tool_remove", registry)?;
    let kept = entries.iter().filter(|e| name_of(e).as_deref() != Some(name)).cloned();
    Ok(with_items(registry, "tools", kept.collect()))
}
