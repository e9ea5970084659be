//! A program as a Model Context Protocol server: `offer.rs` contains what it offers, `template.rs` parses URIs; this
//! module answers requests. The host handles messages, streams and processes.
//!
//! Method names and shapes are those of the protocol's revision 2025-11-25.

mod offer;
mod template;

use harn_value::{Data as Json, data::Map, json};
use harn_value::{Dict, Value};
use harn_vm::{ErrorKind, ExportedFunction, Instance, Result};

use offer::Content;
pub(crate) use offer::Offers;

use crate::builtins::result_text;
use crate::convert::{from_json, told};
use crate::driver::report_bug;
use crate::exported::{self, CALL, Tool};

/// Supported revisions of the protocol, newest first.
pub const MCP_REVISIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// The method is unknown.
const METHOD_NOT_FOUND: i64 = -32601;
/// The parameters are invalid.
const INVALID_PARAMS: i64 = -32602;
/// The program failed.
const INTERNAL_ERROR: i64 = -32603;
/// The resource does not exist.
const NO_RESOURCE: i64 = -32002;

/// The error of a request: the error object of a JSON-RPC reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpProblem {
    /// Its code.
    pub code: i64,
    /// The user-facing message.
    pub message: String,
    /// The exit code, if the program ended during the request.
    pub exit: Option<i32>,
}

impl std::fmt::Display for McpProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (code {})", self.message, self.code)
    }
}

impl std::error::Error for McpProblem {}

impl McpProblem {
    fn new(code: i64, message: impl Into<String>) -> McpProblem {
        McpProblem { code, message: message.into(), exit: None }
    }
}

type Answer = std::result::Result<Json, McpProblem>;

/// A running program, and what it offers.
pub struct McpServer {
    instance: Instance,
    name: String,
    offered: Vec<Tool>,
}

impl McpServer {
    /// Creates a server called `name` for a program that has run.
    pub fn new(instance: Instance, name: &str) -> McpServer {
        McpServer { instance, name: name.to_owned(), offered: Vec::new() }
    }

    /// Offers what the program registered, or else the functions and tools that it exports. `functions` contains those
    /// functions with their descriptions.
    ///
    /// # Errors
    /// An exported tool is invalid, or the program offers nothing.
    pub fn offer(&mut self, functions: &[(ExportedFunction, String)]) -> Result<()> {
        if self.is_empty() {
            self.offered = exported::functions(&self.instance, functions)?;
            let exported: Vec<Value> = {
                let names = self.instance.exports();
                names.filter_map(|name| self.instance.export(name)).collect()
            };
            let offers = self.offers();
            for value in exported {
                let is_registry = value.to_dict().is_some_and(|dict| {
                    dict.get_str("_type").is_some_and(|kind| kind.to_string() == "tool_registry")
                });
                if is_registry {
                    offers.add_tools("mcp_tools", &value)?;
                }
            }
        }
        if self.is_empty() {
            let text = "the program offers nothing: export a function with `pub fn`, or register tools with mcp_tools(...), texts with mcp_resource(...) or prompts with mcp_prompt(...)"; // prose-ok: diagnostic
            return Err(crate::convert::thrown(text));
        }
        Ok(())
    }

    /// Returns the program.
    pub fn instance(&self) -> &Instance {
        &self.instance
    }

    fn offers(&self) -> std::rc::Rc<Offers> {
        self.instance.vm().extension::<Offers>()
    }

    fn is_empty(&self) -> bool {
        let offers = self.offers();
        self.offered.is_empty()
            && offers.tools.borrow().is_empty()
            && offers.resources.borrow().is_empty()
            && offers.templates.borrow().is_empty()
            && offers.prompts.borrow().is_empty()
    }

    fn tools(&self) -> Vec<Tool> {
        let registered = self.offers().tools.borrow().clone();
        self.offered.iter().cloned().chain(registered).collect()
    }

    /// Answers a request. Dropping the future cancels the work that it has started.
    ///
    /// # Errors
    /// The error of the reply.
    pub async fn answer(&self, method: &str, params: &Json) -> Answer {
        if !params.is_object() && !params.is_null() {
            return Err(McpProblem::new(INVALID_PARAMS, format!("{method}: `params` must be an object")));
        }
        let offers = self.offers();
        let list = |key: &str, shown: Vec<Json>| match params["cursor"].is_null() {
            true => Ok(json!({key: shown})),
            false => Err(McpProblem::new(
                INVALID_PARAMS,
                format!("{method}: no such `cursor`: lists are given whole"),
            )), // prose-ok: diagnostic
        };
        match method {
            "initialize" => self.initialize(params),
            "ping" => Ok(json!({})),
            "tools/list" => list("tools", self.tools().into_iter().map(|tool| tool.shown).collect()),
            "tools/call" => self.call_tool(params).await,
            "resources/list" => {
                list("resources", offers.resources.borrow().iter().map(|r| r.shown.clone()).collect())
            }
            "resources/templates/list" => {
                list("resourceTemplates", offers.templates.borrow().iter().map(|t| t.shown.clone()).collect())
            }
            "resources/read" => self.read(params).await,
            "prompts/list" => {
                list("prompts", offers.prompts.borrow().iter().map(|p| p.shown.clone()).collect())
            }
            "prompts/get" => self.prompt(params).await,
            other => Err(McpProblem::new(METHOD_NOT_FOUND, format!("unknown method `{other}`"))),
        }
    }

    fn initialize(&self, params: &Json) -> Answer {
        let Some(wanted) = params["protocolVersion"].as_str() else {
            return Err(McpProblem::new(INVALID_PARAMS, "initialize: `protocolVersion` must be a string"));
        };
        let spoken = MCP_REVISIONS.iter().find(|known| **known == wanted).unwrap_or(&MCP_REVISIONS[0]);
        let offers = self.offers();
        let mut capabilities = Map::new();
        if !self.tools().is_empty() {
            capabilities.insert("tools".to_owned(), json!({}));
        }
        if !offers.resources.borrow().is_empty() || !offers.templates.borrow().is_empty() {
            capabilities.insert("resources".to_owned(), json!({}));
        }
        if !offers.prompts.borrow().is_empty() {
            capabilities.insert("prompts".to_owned(), json!({}));
        }
        Ok(json!({
            "protocolVersion": spoken,
            "capabilities": capabilities,
            "serverInfo": {"name": self.name, "version": env!("CARGO_PKG_VERSION")},
        }))
    }

    async fn call_tool(&self, params: &Json) -> Answer {
        let name = given("tools/call", params, "name")?;
        let Some(tool) = self.tools().into_iter().find(|tool| tool.name == name) else {
            let known = self.tools().iter().map(|tool| tool.name.clone()).collect::<Vec<_>>().join(", ");
            return Err(McpProblem::new(
                INVALID_PARAMS,
                format!("there is no tool `{name}`; there are: {known}"),
            ));
        };
        let failed = |text: String| Ok(json!({"content": [{"type": "text", "text": text}], "isError": true}));
        let mut arguments = match &params["arguments"] {
            Json::Null => json!({}),
            given @ Json::Object(_) => given.clone(),
            _ => return Err(McpProblem::new(INVALID_PARAMS, "tools/call: `arguments` must be an object")),
        };
        // A model can correct its arguments, so it receives the error as a result of the tool.
        let wrong = harn_schema::errors(&tool.shown["inputSchema"], &arguments);
        if !wrong.is_empty() {
            return failed(format!("wrong arguments for {name}: {}", wrong.join("; ")));
        }
        harn_schema::with_ints(&tool.shown["inputSchema"], &mut arguments);
        let Some(call) = self.instance.vm().builtin(CALL) else {
            return Err(McpProblem::new(INTERNAL_ERROR, "tools cannot be called"));
        };
        match self.run(&call.value(), vec![tool.call, from_json(&arguments)]).await {
            Ok(value) => {
                let mut answer = json!({"content": [{"type": "text", "text": shown(&value)}]});
                if tool.shown.get("outputSchema").is_some() {
                    match harn_value::json::to_data(&value) {
                        Ok(data) if data.is_object() => answer["structuredContent"] = data,
                        _ => {
                            let kind = value.type_name();
                            return failed(format!(
                                "{name} gave a {kind}, where an object of data is declared"
                            ));
                        }
                    }
                }
                if value.is_nil() {
                    answer["content"] = json!([]);
                }
                Ok(answer)
            }
            Err(Ended::Failed(text)) => failed(text),
            Err(Ended::Over(problem)) => Err(problem),
        }
    }

    async fn read(&self, params: &Json) -> Answer {
        let uri = given("resources/read", params, "uri")?;
        let offers = self.offers();
        let contents = |text: &str, mime_type: Option<&String>| {
            let mut one = json!({"uri": uri, "text": text});
            if let Some(mime_type) = mime_type {
                one["mimeType"] = mime_type.as_str().into();
            }
            json!({"contents": [one]})
        };
        let known = offers.resources.borrow().iter().find(|resource| resource.uri == uri).cloned();
        let (handler, values, mime_type) = if let Some(resource) = known {
            match resource.content {
                Content::Text(text) => return Ok(contents(&text, resource.mime_type.as_ref())),
                Content::Handler(handler) => {
                    (handler, [("uri", uri.as_str())].into_iter().collect::<Dict>(), resource.mime_type)
                }
            }
        } else {
            let found = offers
                .templates
                .borrow()
                .iter()
                .find_map(|template| Some((template.pattern.values(&uri)?, template.clone())));
            let Some((values, template)) = found else {
                return Err(McpProblem::new(NO_RESOURCE, format!("resource not found: {uri}")));
            };
            (template.handler, values, template.mime_type)
        };
        match self.run(&handler, vec![values.into()]).await {
            Ok(value) if value.is_nil() => {
                Err(McpProblem::new(NO_RESOURCE, format!("resource not found: {uri}")))
            }
            Ok(value) => Ok(contents(&result_text(&value), mime_type.as_ref())),
            Err(ended) => Err(ended.problem()),
        }
    }

    async fn prompt(&self, params: &Json) -> Answer {
        let name = given("prompts/get", params, "name")?;
        let known = self.offers().prompts.borrow().iter().find(|prompt| prompt.name == name).cloned();
        let wrong = |text: String| McpProblem::new(INVALID_PARAMS, format!("prompts/get: {text}"));
        let Some(prompt) = known else { return Err(wrong(format!("there is no prompt `{name}`"))) };
        let mut values = Dict::new();
        match &params["arguments"] {
            Json::Null => {}
            Json::Object(map) => {
                for (key, value) in map {
                    let Some(text) = value.as_str() else {
                        return Err(wrong(format!("argument `{key}` must be a string")));
                    };
                    if !prompt.arguments.contains(key) {
                        return Err(wrong(format!("prompt `{name}` has no argument `{key}`")));
                    }
                    values.insert(key.as_str(), text);
                }
            }
            _ => return Err(wrong("`arguments` must be an object".to_owned())),
        }
        if let Some(missing) = prompt.required.iter().find(|key| !values.contains(key)) {
            return Err(wrong(format!("prompt `{name}` needs the argument `{missing}`")));
        }
        let value = self.run(&prompt.handler, vec![values.into()]).await.map_err(Ended::problem)?;
        let messages = messages_of(&value).map_err(|why| {
            let text = format!(
                "the handler of prompt `{name}` gave {why}; a string or a list of {{role, content}} is wanted"
            ); // prose-ok: diagnostic
            McpProblem::new(INTERNAL_ERROR, text)
        })?;
        let mut answer = json!({"messages": messages});
        if let Some(description) = prompt.shown.get("description") {
            answer["description"] = description.clone();
        }
        Ok(answer)
    }

    /// Calls a function of the program. Failures are also reported to the user who runs the server.
    async fn run(&self, f: &Value, args: Vec<Value>) -> std::result::Result<Value, Ended> {
        let error = match exported::call(&self.instance, f, args).await {
            Ok(value) => return Ok(value),
            Err(error) => error,
        };
        match error.kind() {
            ErrorKind::Exit(code) => {
                let text = format!("the program ended with exit code {code}");
                Err(Ended::Over(McpProblem { exit: Some(*code), ..McpProblem::new(INTERNAL_ERROR, text) }))
            }
            ErrorKind::Abort => Err(Ended::Over(McpProblem::new(INTERNAL_ERROR, "the program was stopped"))),
            _ => {
                report_bug(self.instance.vm(), &error);
                Err(Ended::Failed(told(&error)))
            }
        }
    }
}

/// Converts a result to a string: data becomes JSON, which all clients and models can read.
fn shown(value: &Value) -> String {
    let is_data = value.as_list().is_some() || value.to_dict().is_some();
    match harn_value::json::to_data(value) {
        Ok(data) if is_data => data.to_string(),
        _ => result_text(value),
    }
}

/// Why a function of the program has no result.
enum Ended {
    /// It threw this error.
    Failed(String),
    /// The program ends.
    Over(McpProblem),
}

impl Ended {
    fn problem(self) -> McpProblem {
        match self {
            Ended::Failed(text) => McpProblem::new(INTERNAL_ERROR, text),
            Ended::Over(problem) => problem,
        }
    }
}

fn given(method: &str, params: &Json, key: &str) -> std::result::Result<String, McpProblem> {
    let text = params[key].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    text.ok_or_else(|| McpProblem::new(INVALID_PARAMS, format!("{method}: `{key}` is required")))
}

/// Converts the result of a prompt's handler to messages.
fn messages_of(value: &Value) -> std::result::Result<Vec<Json>, String> {
    let message = |role: &str, text: &str| json!({"role": role, "content": {"type": "text", "text": text}});
    if let Some(text) = value.as_str() {
        return Ok(vec![message("user", text.as_str())]);
    }
    let Some(items) = value.as_list() else { return Err(format!("a value of type {}", value.type_name())) };
    let read = |item: &Value| {
        let (role, content) = (item.field("role")?.as_str()?, item.field("content")?.as_str()?);
        matches!(role.as_str(), "user" | "assistant").then(|| message(role.as_str(), content.as_str()))
    };
    let wrong = |item: &Value| format!("the message {}", harn_value::short(item, 60));
    items.iter().map(|item| read(item).ok_or_else(|| wrong(item))).collect()
}
