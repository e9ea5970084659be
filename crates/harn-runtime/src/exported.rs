//! Functions of a program that somebody outside calls by name, with arguments by name.

use harn_llm::tools::parse_tools;
use harn_value::{Data as Json, data::Map, json};
use harn_value::{Dict, Value};
use harn_vm::{Call, ExportedFunction, Instance, Result};

use crate::convert::{thrown, to_json};

/// The builtin that calls the only tool of a registry.
pub(crate) const CALL: &str = "__call_tool";

/// What is said of a tool in MCP's words.
const HINTS: [&str; 4] = ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"];

/// A tool.
#[derive(Clone)]
pub(crate) struct Tool {
    /// Its name.
    pub(crate) name: String,
    /// A registry with this tool alone, which can be called.
    pub(crate) call: Value,
    /// Name, description and schemas, as lists of tools show them.
    pub(crate) shown: Json,
}

/// A call that ends when nobody waits for it any more.
struct Held(Call);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Calls a function of a program, and ends it when this is dropped.
///
/// # Errors
/// What the function throws.
pub(crate) async fn call(instance: &Instance, f: &Value, args: Vec<Value>) -> Result<Value> {
    Held(instance.call(f, args)).0.result().await
}

/// The functions that a program exports, as tools. `functions` has them with what is said of each.
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
    /// It is none.
    pub(crate) fn read(given: &Value) -> Result<Tool> {
        // Closures are not shown, and JSON has none.
        let mut plain = given.to_dict().map(|dict| (*dict).clone()).unwrap_or_default();
        plain.remove("handler");
        let plain = to_json(&plain.into());
        let read =
            parse_tools(&Json::Array(vec![plain.clone()])).map_err(|error| thrown(error.to_string()))?;
        let Some(tool) = read.into_iter().next() else { return Err(thrown("not a tool")) };
        let mut shown =
            json!({"name": tool.name, "description": tool.description, "inputSchema": tool.parameters});
        // Only objects may be described.
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

    /// A function as a tool.
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
