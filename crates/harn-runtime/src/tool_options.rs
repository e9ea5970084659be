//! What the options of a loop say of its tools.

use std::collections::BTreeMap;

use harn_stdlib::Doubts;
use harn_system::Uncertain;
use harn_value::Value;
use harn_value::{Data as Json, data::Map};
use harn_vm::closure::is_callable;
use harn_vm::{Error, Result};

use crate::convert::{entry, text};

/// What the tools of a loop are looked at with.
pub(crate) fn surface_of(
    prompt: &str,
    system: Option<&str>,
    options: &Map<String, Json>,
) -> Map<String, Json> {
    let keys = ["tools", "policy", "approval_policy", "permissions", "tool_search"];
    let given = keys.iter().filter_map(|key| Some(((*key).to_owned(), options.get(*key)?.clone())));
    let mut surface: Map<String, Json> = given.collect();
    // The tools of servers and skills come later.
    let more =
        ["mcp_servers", "skills"].iter().any(|key| options.get(*key).is_some_and(|given| !given.is_null()));
    if !more {
        let named = harn_agent::surface::NAMES.iter();
        surface.extend(named.filter_map(|key| Some(((*key).to_owned(), options.get(*key)?.clone()))));
    }
    surface.insert("prompt".to_owned(), prompt.into());
    surface.insert("system".to_owned(), system.into());
    surface
}

/// The tools of a registry or of a list of tools and registries, by name. OpenAI's shape has the name in `function`.
fn named(tools: &Value) -> Vec<(String, Value)> {
    let list = if tools.as_list().is_some() { tools.clone() } else { entry(tools, "tools") };
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

/// The handlers of tools, by name.
pub(crate) fn handlers(tools: &Value) -> BTreeMap<String, Value> {
    let all = named(tools).into_iter().map(|(name, tool)| (name, entry(&tool, "handler")));
    all.filter(|(_, handler)| is_callable(handler)).collect()
}

/// What tools say about effects of their handlers of which nobody knows whether they happened, by name.
///
/// # Errors
/// A tool says what is not known.
pub(crate) fn doubts(tools: &Value) -> Result<BTreeMap<String, Uncertain>> {
    let mut out = BTreeMap::new();
    for (name, tool) in named(tools) {
        let said = Doubts::read(&entry(&tool, "idempotent"), &entry(&tool, "on_uncertain"));
        let said = said.map_err(|wrong| Error::thrown(format!("tool '{name}': {wrong}")))?;
        out.extend(said.map(|said| (name, said)));
    }
    Ok(out)
}
