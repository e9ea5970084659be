//! `tool_define`: validates and adds entries.

use harn_llm::tools::SCHEMA_KEYS;
use harn_value::{Dict, Value};

use super::{Result, fail, name_of, with_items};

/// The backends that can execute a tool.
const EXECUTORS: [&str; 4] = ["harn", "host_bridge", "mcp_server", "provider_native"];

/// Tools that the runtime executes itself if a registry names them without a handler.
pub(crate) const RUNTIME_TOOLS: [&str; 4] = ["read_file", "list_directory", "emit_plan", "update_plan"];

/// Adds a tool at the end; an existing entry with the same name is removed.
///
/// `args` are the arguments of `tool_define`: registry, name, description, config.
///
/// # Errors
/// `tool_define: …`, with a separate message for each kind of invalid argument.
pub fn define(args: &[Value]) -> Result<Value> {
    let [registry, name, description, config, ..] = args else {
        return fail("tool_define: requires registry, name, description, and config dict");
    };
    if registry.as_dict().is_none() {
        return fail("tool_define: first argument must be a tool registry");
    }
    let known = super::entries("tool_define", registry)?;
    let Some(config) = config.to_dict() else {
        return fail("tool_define: config must be a dict with parameters and handler");
    };
    let name = name.to_string();
    let entry = entry(&name, &description.to_string(), &config)?;
    let mut tools: Vec<Value> =
        known.iter().filter(|e| name_of(e).as_deref() != Some(name.as_str())).cloned().collect();
    tools.push(entry);
    Ok(with_items(registry, "tools", tools))
}

fn entry(name: &str, description: &str, config: &Dict) -> Result<Value> {
    if config.contains("params") && !config.contains("parameters") {
        return fail("tool_define: use 'parameters', not 'params'");
    }
    let handler = config.get_str("handler").filter(|h| !h.is_nil());
    let executor = executor(name, config, handler.is_some())?;
    check_backend(name, executor, config, handler.is_some())?;
    check_flags(config)?;

    let mut out = Dict::new();
    for (key, value) in config.iter() {
        if !matches!(key.as_str(), "handler" | "executor" | "returns" | "parameters" | "name" | "description")
        {
            out.insert(key.clone(), value.clone());
        }
    }
    out.insert("name", name);
    out.insert("description", description);
    // Definitions in the format of a provider or an MCP server use other keys for `parameters`.
    let parameters = SCHEMA_KEYS.iter().find_map(|key| config.get_str(key).filter(|p| !p.is_nil()));
    out.insert("parameters", parameters.cloned().unwrap_or_else(|| Dict::new().into()));
    if let Some(handler) = handler {
        out.insert("handler", handler.clone());
    }
    if let Some(executor) = executor {
        out.insert("executor", executor);
    }
    if let Some(returns) = config.get_str("returns").filter(|r| !r.is_nil()) {
        out.insert("outputSchema", returns.clone());
    }
    Ok(out.into())
}

/// Returns the executor of a tool: the declared one, or `harn` if there is a handler. `None` means that the host
/// dispatches it.
fn executor(name: &str, config: &Dict, has_handler: bool) -> Result<Option<&'static str>> {
    let declared = config.get_str("executor").filter(|e| !e.is_nil());
    let Some(declared) = declared else {
        if !config.contains("handler") {
            return fail(format!(
                "tool_define: tool \"{name}\" has no `handler` and no `executor`. Either attach a `handler` fn (executor: \"harn\") or declare an alternate backend, e.g. executor: \"host_bridge\" + host_capability: \"cap.op\", executor: \"mcp_server\" + mcp_server: \"server-name\", executor: \"provider_native\". Defining a handlerless tool would surface as `[builtin_call] unhandled: {name}` at the first model call." // prose-ok: contract text
            ));
        }
        return Ok(has_handler.then_some("harn"));
    };
    let Some(word) = declared.as_str() else {
        return fail(
            "tool_define: `executor` must be a string (\"harn\", \"host_bridge\", \"mcp_server\", or \"provider_native\")",
        );
    };
    let word = if word.as_str() == "harn_builtin" { "harn" } else { word.as_str() };
    match EXECUTORS.iter().find(|known| **known == word) {
        Some(known) => Ok(Some(known)),
        None => fail(format!(
            "tool_define: unknown executor \"{word}\" for tool \"{name}\". Expected one of: \"harn\", \"host_bridge\", \"mcp_server\", \"provider_native\""
        )),
    }
}

fn check_backend(name: &str, executor: Option<&str>, config: &Dict, has_handler: bool) -> Result<()> {
    let named = |key: &str| config.get_str(key).is_some_and(|v| !v.is_nil());
    let tool = format!("tool_define: tool \"{name}\" declares executor:");
    match executor {
        Some("harn") if !has_handler && !RUNTIME_TOOLS.contains(&name) => fail(format!(
            // prose-ok: diagnostic
            "{tool} \"harn\" but has no `handler`. Attach the handler fn or change the executor."
        )),
        Some("harn") if named("host_capability") => fail(format!(
            "{tool} \"harn\" but also sets `host_capability`. Drop one — the harn executor runs the handler in-VM and never reaches the host bridge." // prose-ok: contract text
        )),
        Some("harn") if named("mcp_server") => fail(format!(
            "{tool} \"harn\" but also sets `mcp_server`. Drop one — MCP-served tools must declare executor: \"mcp_server\"." // prose-ok: contract text
        )),
        Some("host_bridge") if has_handler => fail(format!(
            "{tool} \"host_bridge\" but also has a `handler`. Drop the handler — host-bridge tools are dispatched by the host shell, not the VM." // prose-ok: contract text
        )),
        Some("host_bridge") if !named("host_capability") => fail(format!(
            "{tool} \"host_bridge\" but is missing `host_capability`. Set it to the canonical bridge identifier (e.g. \"interaction.ask\") so `harn check` can validate the binding against the host capability manifest." // prose-ok: contract text
        )),
        Some("mcp_server") if has_handler => fail(format!(
            "{tool} \"mcp_server\" but also has a `handler`. Drop the handler — MCP-served tools route through the MCP transport." // prose-ok: contract text
        )),
        Some("mcp_server") if !named("mcp_server") => {
            fail(format!("{tool} \"mcp_server\" but is missing `mcp_server` (the configured server name)."))
        }
        Some("provider_native") if has_handler => fail(format!(
            "{tool} \"provider_native\" but also has a `handler`. Provider-side tools are executed by the model server; the runtime never dispatches them locally." // prose-ok: contract text
        )),
        _ => Ok(()),
    }
}

fn check_flags(config: &Dict) -> Result<()> {
    if config.get_str("defer_loading").is_some_and(|v| v.as_bool().is_none()) {
        return fail(
            "tool_define: `defer_loading` must be a bool (true → hold schema back until a tool_search call surfaces it; false or absent → ship eagerly)", // prose-ok: contract text
        );
    }
    let bad_namespace = |v: &Value| !v.is_nil() && v.as_str().is_none_or(|s| s.trim().is_empty());
    if config.get_str("namespace").is_some_and(bad_namespace) {
        return fail(
            "tool_define: `namespace` must be a non-empty string (groups deferred tools for OpenAI tool_search; Anthropic ignores it)", // prose-ok: contract text
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use harn_value::json::parse;

    fn with(config: &str) -> Result<Value> {
        define(&[crate::registry::empty(), "t".into(), "d".into(), parse(config).unwrap()])
    }

    fn error(config: &str) -> String {
        with(config).unwrap_err().0
    }

    #[test]
    fn a_later_definition_of_a_name_stands_last() {
        let mut registry = crate::registry::empty();
        for name in ["a", "b", "a"] {
            registry =
                define(&[registry, name.into(), "d".into(), parse(r#"{"handler": null}"#).unwrap()]).unwrap();
        }
        let names: Vec<_> =
            crate::registry::entries("x", &registry).unwrap().iter().filter_map(name_of).collect();
        assert_eq!(names, ["b", "a"]);
    }

    #[test]
    fn an_explicit_nil_handler_declares_a_host_tool() {
        let registry = with(r#"{"handler": null, "policy": {"x": 1}, "returns": "string"}"#).unwrap();
        let entry = crate::registry::find("x", &registry, "t").unwrap().unwrap();
        assert_eq!(
            entry.to_string(),
            "{description: d, name: t, outputSchema: string, parameters: {}, policy: {x: 1}}"
        );
    }

    #[test]
    fn each_mistake_has_its_text() {
        assert_eq!(
            define(&[]).unwrap_err().0,
            "tool_define: requires registry, name, description, and config dict"
        );
        assert!(
            error("{}").ends_with("would surface as `[builtin_call] unhandled: t` at the first model call.")
        );
        assert!(error(r#"{"params": {}}"#).contains("use 'parameters', not 'params'"));
        assert!(error(r#"{"executor": 3}"#).contains("`executor` must be a string"));
        assert!(
            error(r#"{"executor": "rocketship"}"#).contains("unknown executor \"rocketship\" for tool \"t\"")
        );
        assert!(error(r#"{"executor": "harn_builtin"}"#).contains("\"harn\" but has no `handler`"));
        assert!(error(r#"{"executor": "host_bridge"}"#).contains("missing `host_capability`"));
        assert!(error(r#"{"executor": "mcp_server"}"#).contains("missing `mcp_server`"));
        assert!(
            error(r#"{"handler": null, "defer_loading": "yes"}"#).contains("`defer_loading` must be a bool")
        );
        assert!(
            error(r#"{"handler": null, "namespace": " "}"#)
                .contains("`namespace` must be a non-empty string")
        );
        let dict = parse("{}").unwrap();
        let other = define(&[dict.clone(), "t".into(), "d".into(), dict]).unwrap_err().0;
        assert_eq!(other, "tool_define: argument must be a tool registry (created with tool_registry())");
    }
}
