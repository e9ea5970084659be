//! Properties of a loop's tools that are set by its options.

use std::collections::BTreeMap;

use harn_stdlib::Doubts;
use harn_system::Uncertain;
use harn_value::Value;
use harn_value::{Data as Json, data::Map};
use harn_vm::closure::is_callable;
use harn_vm::{Cx, Error, Result};

use crate::agents::{AGENT_TOOL, is_agent, with_model};
use crate::convert::{entry, partial, text, to_json, with_functions};

/// Returns the surface for the validation of a loop's tools.
pub(crate) fn surface_of(
    prompt: &str,
    system: Option<&str>,
    options: &Map<String, Json>,
) -> Map<String, Json> {
    let keys = ["tools", "policy", "approval_policy", "permissions", "tool_search"];
    let given = keys.iter().filter_map(|key| Some(((*key).to_owned(), options.get(*key)?.clone())));
    let mut surface: Map<String, Json> = given.collect();
    // The tools of servers and skills are added later.
    let more =
        ["mcp_servers", "skills"].iter().any(|key| options.get(*key).is_some_and(|given| !given.is_null()));
    if !more {
        let named = harn_agent::surface::NAMES.iter();
        surface.extend(named.filter_map(|key| Some(((*key).to_owned(), options.get(*key)?.clone()))));
    }
    // Rules may name the tools of handoffs.
    let given = options.get("handoffs").filter(|given| !given.is_null());
    let handoffs =
        given.and_then(|given| harn_agent::agents::Handoff::from_option(given).ok()).unwrap_or_default();
    let entries = handoffs.iter().map(|handoff| handoff.entry(&handoff.tool));
    match surface.get_mut("tools").filter(|_| !handoffs.is_empty()) {
        Some(Json::Array(list)) => list.extend(entries),
        Some(registry) => {
            if let Some(list) = registry["tools"].as_array_mut() {
                list.extend(entries);
            }
        }
        None if !handoffs.is_empty() => {
            surface.insert("tools".to_owned(), entries.collect());
        }
        None => {}
    }
    surface.insert("prompt".to_owned(), prompt.into());
    surface.insert("system".to_owned(), system.into());
    surface
}

/// Returns the tools of a registry or of a list of tools and registries, by name. OpenAI's format has the name in
/// `function`.
fn named(tools: &Value) -> Vec<(String, Value)> {
    let list = if tools.as_list().is_some() { with_functions(tools) } else { entry(tools, "tools") };
    let mut out = Vec::new();
    for tool in list.as_list().into_iter().flat_map(|list| list.iter()) {
        let name = || text(&entry(tool, "name")).or_else(|| text(&entry(&entry(tool, "function"), "name")));
        if harn_agent::registry::is_registry(tool) {
            out.extend(named(tool));
        } else if let Some(name) = name() {
            out.push((name, tool.clone()));
        }
    }
    out
}

/// Returns the handlers of tools and agents, by name. Agents without a model use the model in `options`.
///
/// # Errors
/// The builtin that runs agents is missing.
pub(crate) fn handlers(cx: &Cx, tools: &Value, options: &Value) -> Result<BTreeMap<String, Value>> {
    let mut out = BTreeMap::new();
    for (name, tool) in named(tools) {
        if is_agent(&tool) {
            let shown = harn_agent::agents::tool_entry(&to_json(&tool));
            let name = shown["name"].as_str().unwrap_or_default().to_owned();
            out.insert(name, partial(cx, AGENT_TOOL, vec![with_model(&tool, options)])?);
            continue;
        }
        let handler = entry(&tool, "handler");
        if is_callable(&handler) {
            out.insert(name, handler);
        }
    }
    Ok(out)
}

/// Returns how tools handle effects that are in doubt, by name.
///
/// # Errors
/// A tool has an invalid setting.
pub(crate) fn doubts(tools: &Value) -> Result<BTreeMap<String, Uncertain>> {
    let mut out = BTreeMap::new();
    for (name, tool) in named(tools) {
        let said = Doubts::read(&entry(&tool, "idempotent"), &entry(&tool, "on_uncertain"));
        let said = said.map_err(|wrong| Error::thrown(format!("tool '{name}': {wrong}")))?;
        out.extend(said.map(|said| (name, said)));
    }
    Ok(out)
}
