//! A program as the host of another one, as attached by `harn playground`.

use harn_value::Value;
use harn_value::json;
use harn_vm::{Error, ExportedFunction, Instance, Result};

use harn_stdlib::{Answer, HostBridge};

use crate::convert::{from_json, thrown, to_json};
use crate::exported::{self, CALL, Tool};

/// A program whose exported functions implement the host: `host_call("notes.list", {…})` calls `notes_list`, and a call
/// of the host's tool `read` calls `read`. The entries of the dict are named arguments.
pub struct HostModule {
    instance: Instance,
    /// The name in error messages.
    name: String,
    tools: Vec<Tool>,
}

impl HostModule {
    /// Creates a host called `name`; `functions` contains its exported functions with their descriptions.
    ///
    /// # Errors
    /// A function cannot be described.
    pub fn new(
        instance: Instance,
        name: &str,
        functions: &[(ExportedFunction, String)],
    ) -> Result<HostModule> {
        let tools = exported::functions(&instance, functions)?;
        Ok(HostModule { instance, name: name.to_owned(), tools })
    }

    /// Returns the program.
    pub fn instance(&self) -> &Instance {
        &self.instance
    }

    async fn run(&self, asked: &str, function: &str, arguments: Value) -> Result<Value> {
        let Some(tool) = self.tools.iter().find(|tool| tool.name == function) else {
            let known: Vec<&str> = self.tools.iter().map(|tool| tool.name.as_str()).collect();
            let known = if known.is_empty() { "nothing".to_owned() } else { known.join(", ") };
            return Err(thrown(format!(
                "{asked} needs `pub fn {function}` in {}, which exports {known}",
                self.name
            )));
        };
        let arguments = if arguments.is_nil() { from_json(&json!({})) } else { arguments };
        let plain = to_json(&arguments);
        let wrong = harn_schema::errors(&tool.shown["inputSchema"], &plain);
        if !wrong.is_empty() {
            return Err(thrown(format!("{asked}: {function} of {}: {}", self.name, wrong.join("; "))));
        }
        let Some(call) = self.instance.vm().builtin(CALL) else {
            return Err(Error::runtime("functions of the host cannot be called"));
        };
        let mut whole = plain;
        // Values that JSON cannot represent are passed unchanged.
        let arguments = if harn_schema::with_ints(&tool.shown["inputSchema"], &mut whole) {
            from_json(&whole)
        } else {
            arguments
        };
        exported::call(&self.instance, &call.value(), vec![tool.call.clone(), arguments]).await
    }
}

impl HostBridge for HostModule {
    fn call<'a>(&'a self, capability: &'a str, operation: &'a str, params: Value) -> Answer<'a> {
        Box::pin(async move {
            let fits = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
            let function: String = format!("{capability}_{operation}").chars().map(fits).collect();
            // A loop asks every host for its skills, so a missing function is not an error.
            if capability == "skills" && !self.tools.iter().any(|tool| tool.name == function) {
                return None;
            }
            let asked = format!("host_call(\"{capability}.{operation}\")");
            Some(self.run(&asked, &function, params).await)
        })
    }

    fn tools(&self) -> Vec<Value> {
        let shown = self.tools.iter().map(|tool| {
            let shown = &tool.shown;
            from_json(&json!({
                "name": shown["name"], "description": shown["description"], "schema": shown["inputSchema"],
                "deprecated": false,
            }))
        });
        shown.collect()
    }

    fn call_tool<'a>(&'a self, name: &'a str, arguments: Value) -> Answer<'a> {
        let asked = format!("the host's tool `{name}`");
        Box::pin(async move { Some(self.run(&asked, name, arguments).await) })
    }
}
