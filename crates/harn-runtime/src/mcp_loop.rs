//! MCP servers of an agent loop.

use std::rc::Rc;

use harn_agent::mcp::{self, ServerResult};
use harn_value::{Data as Json, Value, data::Map, json};
use harn_vm::{Cx, Error, ErrorKind, Result};

use crate::convert::{entry, thrown, told};
use crate::mcp::{Client, in_seconds};
use crate::mcp_callbacks::Callbacks;
use crate::mcp_project::ProjectServers;

/// Maximum number of characters of a server's instructions in a prompt.
const MAX_INSTRUCTIONS: usize = 8_000;

/// The servers of a loop, which end with it.
#[derive(Default)]
pub(crate) struct LoopServers(Vec<LoopServer>);

struct LoopServer {
    /// Its name in the options.
    name: String,
    client: Client,
}

impl LoopServers {
    /// Starts the servers of the option `mcp_servers`, and adds their tools to those of the options.
    ///
    /// # Errors
    /// A server is invalid, cannot be started, or lists tools that cannot be used.
    pub(crate) async fn start(
        cx: &Cx,
        given: &Value,
        options: &mut Map<String, Json>,
    ) -> Result<LoopServers> {
        in_seconds(given, options);
        let servers = mcp::servers(options.get("mcp_servers")).map_err(thrown)?;
        let given = entry(given, "mcp_servers");
        let given = given.as_list().map(|list| list.iter().cloned().collect::<Vec<_>>()).unwrap_or_default();
        let mut clients = Vec::new();
        let mut entries: Vec<Json> = Vec::new();
        let mut advisory: Vec<Json> = Vec::new();
        for (server, given) in servers.iter().zip(&given) {
            let failed = |error: Error| match error.kind() {
                ErrorKind::Thrown(_) => {
                    thrown(format!("agent_loop: MCP server `{}`: {}", server.name, told(&error)))
                }
                _ => error,
            };
            let place = format!("agent_loop: MCP server `{}`", server.name);
            let callbacks = Rc::new(Callbacks::of(&place, given)?);
            let client = Client::connect(cx, "agent_loop", server, &callbacks).await.map_err(failed)?;
            let tools = if client.has_tools() { client.tools(cx).await.map_err(failed)? } else { Vec::new() };
            let made = mcp::entries(&server.name, &tools);
            entries.extend(made.map_err(|why| thrown(format!("agent_loop: {why}")))?);
            if let Some(text) = client.instructions().filter(|_| server.instructions) {
                let text: String = text.chars().take(MAX_INSTRUCTIONS).collect();
                advisory.push(json!({"name": server.name, "instructions": text}));
            }
            clients.push(LoopServer { name: server.name.clone(), client });
        }
        if !advisory.is_empty() {
            options.entry("mcp_initialize_advisory").or_insert(true.into());
            let context = options.entry("mcp_context").or_insert_with(|| json!({}));
            if let Json::Object(context) = context {
                context.entry("initialize_advisory").or_insert_with(|| advisory.into());
            }
        }
        let taken: Vec<String> = clients.iter().map(|server| server.name.clone()).collect();
        entries.extend(ProjectServers::of(cx).client_tools(cx, &taken).await?);
        if entries.is_empty() {
            return Ok(LoopServers(clients));
        }
        let place = options.entry("tools").or_insert(Json::Null);
        let list = match place {
            Json::Object(registry) => registry.entry("tools").or_insert_with(|| json!([])),
            Json::Null => {
                *place = json!([]);
                place
            }
            other => other,
        };
        if let Json::Array(list) = list {
            let twice = |entry: &&Json| list.iter().any(|known| known["name"] == entry["name"]);
            if let Some(entry) = entries.iter().find(twice) {
                let name = entry["name"].as_str().unwrap_or_default();
                return Err(thrown(format!(
                    "agent_loop: duplicate tool name `{name}` after MCP server prefixing"
                )));
            }
            list.extend(entries);
        }
        Ok(LoopServers(clients))
    }

    /// Returns the names of the servers.
    pub(crate) fn names(&self) -> Vec<String> {
        self.0.iter().map(|server| server.name.clone()).collect()
    }

    /// Calls a tool by its entry; `None` if it does not belong to a server of the loop.
    pub(crate) async fn call(&self, cx: &Cx, entry: &Json, arguments: &Json) -> Option<Result<ServerResult>> {
        let server = entry["mcp_server"].as_str()?;
        let server = self.0.iter().find(|known| known.name == server)?;
        Some(server.client.call_entry(cx, entry, arguments).await)
    }

    /// Returns the tools of servers that have announced changes, as entries of a registry.
    ///
    /// # Errors
    /// The running task is interrupted.
    pub(crate) async fn changes(&self, cx: &Cx) -> Result<Vec<(String, Vec<Json>)>> {
        let mut changes = Vec::new();
        for LoopServer { name, client } in &self.0 {
            if !client.take_changes(cx).await? {
                continue;
            }
            let listed = match client.tools(cx).await {
                Ok(tools) => mcp::entries(name, &tools),
                Err(error) if !error.is_catchable() => return Err(error),
                Err(error) => Err(told(&error)),
            };
            match listed {
                Ok(entries) => changes.push((name.clone(), entries)),
                Err(why) => {
                    let text = format!("warning: MCP server '{name}' changed its tools: {why}");
                    cx.system().write_err(&harn_syntax::notice(&text));
                }
            }
        }
        Ok(changes)
    }

    /// Ends the sessions of servers over HTTP.
    pub(crate) async fn close(&self, cx: &Cx) -> Result<()> {
        for server in &self.0 {
            server.client.close(cx).await?;
        }
        Ok(())
    }
}
