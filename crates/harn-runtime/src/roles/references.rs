//! References: values stored under the hash of their content, for tools, plans and the program.

use harn_agent::harness::ReferenceSpec;
use harn_agent::roles::content_id;
use harn_agent::roles::reference::{ReferenceError, Stored, check};
use harn_value::Value;
use harn_value::{Data as Json, json};
use harn_vm::Result;
use harn_vm::closure::is_callable;

use crate::convert::{OrThrow, data, entry, from_json, text, thrown};
use crate::roles::closures::At;
use crate::roles::runtime::RoleRuntime;
use crate::roles::shelf::key;

fn spec_of<'a>(runtime: &'a RoleRuntime, kind: &str) -> Result<&'a ReferenceSpec> {
    let spec = runtime.spec.references.iter().find(|spec| spec.name == kind);
    spec.ok_or_else(|| ReferenceError::UnknownKind(kind.to_owned())).or_throw()
}

fn key_of(runtime: &RoleRuntime, kind: &str, id: &str) -> String {
    key(&["reference", runtime.tenant(), kind, id])
}

/// Stores a value and returns `{kind, id, glimpse}`.
///
/// # Errors
/// The kind is unknown, the value does not match it, the glimpse throws, or the store fails.
pub(crate) async fn create(
    at: &At,
    runtime: &RoleRuntime,
    reference: &Value,
    value: &Value,
    options: &Value,
) -> Result<Value> {
    let kind = match reference.as_str() {
        Some(kind) => kind.to_string(),
        None => text(&entry(reference, "name"))
            .ok_or_else(|| thrown("create_reference: expected a reference spec or its name"))?,
    };
    if let Some(dict) = options.to_dict()
        && let Some(key) = dict.keys().find(|key| key.as_str() != "glimpse")
    {
        return Err(thrown(format!("create_reference: unknown option '{key}'; there is glimpse")));
    }
    let spec = spec_of(runtime, &kind)?;
    let json = data("create_reference: value", value)?;
    check(spec, &json).or_throw()?;
    let given = entry(options, "glimpse");
    let own = entry(reference, "glimpse");
    let glimpse = if is_callable(&given) {
        given
    } else if !given.is_nil() {
        return Err(thrown("create_reference: glimpse must be a closure"));
    } else if is_callable(&own) {
        own
    } else {
        at.closure("glimpses", &kind)
    };
    let glimpse = match is_callable(&glimpse) {
        true => data("create_reference: glimpse", &at.call(&glimpse, vec![value.clone()]).await?)?,
        false => json!({}),
    };
    let id = content_id(&json);
    let stored = Stored::new(spec, json, glimpse.clone(), at.cx.vm().system().now_ms()).to_json();
    runtime.kv.change(at, &key_of(runtime, &kind, &id), |_| Ok((stored, ()))).await?;
    Ok(from_json(&json!({"kind": kind, "id": id, "glimpse": glimpse})))
}

/// Returns the value with a kind and an id.
///
/// # Errors
/// The kind is unknown, the value is missing or expired, or the store fails.
pub(crate) async fn find(at: &At, runtime: &RoleRuntime, kind: &str, id: &str) -> Result<Stored> {
    spec_of(runtime, kind)?;
    let stored = runtime.kv.get(at, &key_of(runtime, kind, id)).await?;
    let now = at.cx.vm().system().now_ms();
    let stored = stored.and_then(|stored| Stored::read(&stored, now));
    stored.ok_or_else(|| ReferenceError::NotFound(kind.to_owned(), id.to_owned())).or_throw()
}

/// Returns kind and id of the argument of `resolve_reference`.
///
/// # Errors
/// The argument is not `{kind, id}`.
pub(crate) fn named(function: &str, reference: &Value) -> Result<(String, String)> {
    let part = |key: &str| entry(reference, key).as_str().map(|text| text.to_string());
    match (part("kind"), part("id")) {
        (Some(kind), Some(id)) => Ok((kind, id)),
        _ => Err(thrown(format!("{function}: expected a dict {{kind, id}}, got {}", reference.type_name()))),
    }
}

/// Implements `resolveRef` and `glimpseRef`.
///
/// # Errors
/// As [`find`].
pub(crate) async fn tool(at: &At, runtime: &RoleRuntime, name: &str, args: &Json) -> Result<Value> {
    let part = |key: &str| args[key].as_str().unwrap_or_default();
    let stored = find(at, runtime, part("kind"), part("id")).await?;
    if name == "glimpseRef" {
        return Ok(from_json(&stored.glimpse));
    }
    Ok(from_json(&json!({"kind": part("kind"), "value": stored.value, "glimpse": stored.glimpse})))
}
