//! Functions of a program that external callers call by name, with named arguments.

use harn_llm::tools::parse_tools;
use harn_value::{Data as Json, data::Map, json};
use harn_value::{Dict, Value};
use harn_vm::{Call, ExportedFunction, Instance, Result};

use crate::convert::{thrown, to_json};

/// The builtin that calls the only tool of a registry.
pub(crate) const CALL: &str = "__call_tool";

/// MCP's annotations of a tool.
const HINTS: [&str; 4] = ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"];

/// A callable tool.
#[derive(Clone)]
pub(crate) struct Tool {
    /// The name of the tool.
    pub(crate) name: String,
    /// A callable registry with only this tool.
    pub(crate) call: Value,
    /// Name, description and schemas, as lists of tools show them.
    pub(crate) shown: Json,
}

/// A call that is cancelled when its caller stops waiting.
struct Held(Call);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Calls a function of a program; dropping the future cancels the call.
///
/// # Errors
/// The error that the function throws.
pub(crate) async fn call(instance: &Instance, f: &Value, args: Vec<Value>) -> Result<Value> {
    Held(instance.call(f, args)).0.result().await
}

/// Returns the exported functions of a program as tools. `functions` contains their descriptions.
///
/// # Errors
/// A function cannot be described.
pub(crate) fn functions(instance: &Instance, functions: &[(ExportedFunction, String)]) -> Result<Vec<Tool>> {
    let known = functions.iter().filter_map(|(f, said)| Some((f, said, instance.export(&f.name)?)));
    known.map(|(function, said, value)| Tool::of_function(function, said, &value)).collect()
}

impl Tool {
    /// Reads the entry of a registry.
    ///
    /// # Errors
    /// The value is not a valid tool.
    pub(crate) fn read(given: &Value) -> Result<Tool> {
        // Closures are not shown, and JSON cannot represent them.
        let mut plain = given.to_dict().map(|dict| (*dict).clone()).unwrap_or_default();
        plain.remove("handler");
        let plain = to_json(&plain.into());
        let read =
            parse_tools(&Json::Array(vec![plain.clone()])).map_err(|error| thrown(error.to_string()))?;
        let Some(tool) = read.into_iter().next() else { return Err(thrown("not a tool")) };
        let mut shown =
            json!({"name": tool.name, "description": tool.description, "inputSchema": tool.parameters});
        // MCP only supports output schemas of objects.
        let returns = tool.output_schema.filter(|schema| schema["type"] == "object");
        if let Some(returns) = returns {
            shown["outputSchema"] = returns;
        }
        let said = &plain["annotations"];
        if let Some(title) = said["title"].as_str().or_else(|| plain["title"].as_str()) {
            shown["title"] = title.into();
        }
        let hints: Map<String, Json> = HINTS
            .iter()
            .filter_map(|hint| {
                Some(((*hint).to_owned(), said.get(*hint).filter(|v| v.is_boolean())?.clone()))
            })
            .collect();
        if !hints.is_empty() {
            shown["annotations"] = hints.into();
        }
        let mut alone = Dict::new();
        alone.insert("_type", "tool_registry");
        alone.insert("tools", vec![given.clone()]);
        Ok(Tool { name: tool.name, call: alone.into(), shown })
    }

    /// Creates a tool from a function.
    fn of_function(function: &ExportedFunction, description: &str, value: &Value) -> Result<Tool> {
        let mut tool = Dict::new();
        tool.insert("name", function.name.as_str());
        tool.insert("description", description);
        tool.insert("parameters", function.parameters.clone());
        if let Some(returns) = &function.returns {
            tool.insert("returns", returns.clone());
        }
        tool.insert("handler", value.clone());
        Tool::read(&tool.into())
    }
}
