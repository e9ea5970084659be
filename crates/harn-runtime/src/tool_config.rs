//! Validation of the config of `tool_define`.

use harn_llm::tools::SCHEMA_KEYS;
use harn_value::{Dict, Value};
use harn_vm::closure::is_callable;
use harn_vm::{Error, Result};

use crate::convert::{thrown, to_json};

/// Checks the config of `tool_define`, key by key.
///
/// # Errors
/// Describes the first invalid key or value.
pub(crate) fn check_config(config: &Dict) -> Result<()> {
    check_keys(config)?;
    let given = |key| config.get_str(key).filter(|value| !value.is_nil());
    let wrong = |key: &str, what: &str, value: &Value| {
        Err(Error::type_error(format!("tool_define: {key} must be {what}, got {}", value.type_name())))
    };
    if let Some(handler) = given("handler").filter(|value| !is_callable(value)) {
        return wrong("handler", "closure", handler);
    }
    if let Some(guidance) = given("guidance").filter(|value| value.as_str().is_none()) {
        return wrong("guidance", "string", guidance);
    }
    if let Some(compact) = given("compact").filter(|value| value.as_bool().is_none()) {
        return wrong("compact", "bool", compact);
    }
    if let Some(annotations) = given("annotations") {
        harn_agent::tool::check_annotations("tool_define: annotations", &to_json(annotations))
            .map_err(thrown)?;
    }
    let said = |key| given(key).cloned().unwrap_or_default();
    if let Err(text) = harn_stdlib::Doubts::read(&said("idempotent"), &said("on_uncertain")) {
        return Err(Error::type_error(format!("tool_define: {text}")));
    }
    // A schema that is not a dict would be offered to models as a tool without arguments.
    for key in SCHEMA_KEYS {
        if let Some(schema) = given(key).filter(|value| value.to_dict().is_none()) {
            return wrong(key, "dict", schema);
        }
    }
    Ok(())
}

/// Rejects keys that are probably typos of keys which change the behaviour of a tool. Other keys are allowed.
fn check_keys(config: &Dict) -> Result<()> {
    const KNOWN: [&str; 12] = [
        "parameters",
        "handler",
        "executor",
        "returns",
        "annotations",
        "guidance",
        "description",
        "defer_loading",
        "host_capability",
        "mcp_server",
        "idempotent",
        "on_uncertain",
    ];
    for (key, _) in config.iter() {
        let key = key.as_str();
        let near = |known: &&str| harn_syntax::suggest::distance(key, known) <= 2;
        if !KNOWN.contains(&key)
            && let Some(known) = KNOWN.into_iter().find(near)
        {
            return Err(thrown(format!("tool_define: unknown key `{key}`, did you mean `{known}`?")));
        }
    }
    Ok(())
}
