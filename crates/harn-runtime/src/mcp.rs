//! Connections to Model Context Protocol servers.

use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use harn_agent::mcp::{self, MAX_TOOLS, Program, Reach, Server, ServerResult};
use harn_llm::secret::{RedactData, Secret};
use harn_system::{Command, Peer, PeerRequest, PeerStep, System, SystemExt, Uncertain, is_secret_variable};
use harn_value::{Data as Json, data::Map, json};
use harn_value::{Dict, Foreign, Ref, Value};
use harn_vm::{Cx, Error, Result};

use crate::command_policy::CommandPolicies;
use crate::convert::{entry, from_json, thrown, to_json};
use crate::llm_embedder::new_id;
use crate::mcp_callbacks::Callbacks;
use crate::mcp_http::{Aside, Link, MAX_MESSAGE, Manner};

/// The default time limit of a request.
const PATIENCE: Duration = Duration::from_secs(60);

/// Maximum number of pages of a list.
const MAX_PAGES: usize = 100;

/// A connection to a server. The server ends with the last value that refers to it.
pub(crate) struct Client {
    way: Way,
    timeout: Duration,
    /// The name of the server: the configured one, or else the one that the server reports.
    name: RefCell<String>,
    left: Cell<bool>,
    system: Rc<dyn System>,
    callbacks: Rc<Callbacks>,
    /// The server's reply to `initialize`.
    hello: RefCell<Json>,
    /// The number of the last exchange with a program.
    exchange: Cell<u64>,
}

/// The transport of a connection.
enum Way {
    /// A child process, and the secrets that it received.
    Program(Box<Peer>, Vec<Secret>),
    Http(Rc<Link>),
}

/// An exchange with a child process. Dropping it before its end cancels the request.
struct Exchange<'a> {
    system: &'a dyn System,
    id: Option<String>,
}

impl Drop for Exchange<'_> {
    fn drop(&mut self) {
        if let Some(id) = &self.id {
            self.system.leave_peer(id);
        }
    }
}

impl Foreign for Client {
    fn type_name(&self) -> &'static str {
        "mcp_client"
    }

    fn print(&self, out: &mut String) {
        out.push_str("<mcp_client ");
        out.push_str(&self.name.borrow());
        out.push('>');
    }

    fn equals(&self, other: &dyn Foreign) -> bool {
        self.address() == other.address()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.leave();
    }
}

impl Client {
    /// Starts a server and initializes the connection. `what` is the name of the caller in errors.
    ///
    /// # Errors
    /// The server cannot be started or does not reply; a policy forbids it.
    pub(crate) async fn connect(
        cx: &Cx,
        what: &str,
        server: &Server,
        callbacks: &Rc<Callbacks>,
    ) -> Result<Client> {
        // This applies to servers of the program, of a loop and of the manifest.
        if !cx.allows_name("mcp_connect") {
            return Err(Error::category("tool_rejected", "Tool 'mcp_connect' is not permitted.")); // prose-ok: diagnostic
        }
        let policies = CommandPolicies::of(cx);
        let program = match &server.reach {
            Reach::Program(program) if !policies.chain(cx).is_empty() => program,
            _ => return Client::open(cx, what, server, callbacks).await,
        };
        // A server is a program, so command policies apply to it.
        let argv: Vec<Value> = program.command.iter().map(|part| Value::str(part)).collect();
        let mut request = Dict::new();
        request.insert("mode", "argv");
        request.insert("argv", argv);
        request.insert("cwd", folder(cx, program).display().to_string());
        let opened = RefCell::new(None);
        let to = &opened;
        let start = Box::new(move |request: Ref<Dict>| -> harn_stdlib::Later<'_> {
            Box::pin(async move {
                let request = to_json(&request.into());
                let part = |part: &Json| part.as_str().map(str::to_owned);
                let argv = request["argv"].as_array().into_iter().flatten().filter_map(part).collect();
                let cwd = part(&request["cwd"]);
                let env = program.env.clone();
                let reach = Reach::Program(Program { command: argv, env, cwd });
                let server = Server { reach, ..server.clone() };
                *to.borrow_mut() = Some(Client::open(cx, what, &server, callbacks).await?);
                Ok(from_json(&json!({"stdout": "", "stderr": "", "success": true})))
            })
        });
        let said = to_json(&policies.run(cx, Ref::new(request), start).await?);
        let reason =
            || said["reason"].as_str().unwrap_or("a command policy does not let it start").to_owned();
        opened.into_inner().ok_or_else(|| Error::category("tool_rejected", format!("{what}: {}", reason())))
    }

    async fn open(cx: &Cx, what: &str, server: &Server, callbacks: &Rc<Callbacks>) -> Result<Client> {
        let way = match &server.reach {
            Reach::Http { url, token, headers, .. } => {
                let hello = server.hello();
                Way::Http(Rc::new(Link::new(url, token.as_deref(), headers, hello, callbacks.clone())))
            }
            Reach::Program(asked) => {
                let Some((program, arguments)) = asked.command.split_first() else {
                    return Err(thrown(format!("{what}: command is required")));
                };
                let env = asked.env.iter().map(|(name, value)| (name.clone(), Some(value.clone())));
                let keys = asked.env.iter().filter(|(name, _)| is_secret_variable(name));
                let keys = keys.map(|(_, value)| Secret::new(&**value)).collect();
                let command = Command {
                    arguments: arguments.to_vec(),
                    dir: Some(folder(cx, asked)),
                    env: env.collect(),
                    max_output: MAX_MESSAGE,
                    ..Command::new(program)
                };
                let id = format!("mcp_{}", new_id(cx.vm()));
                let heard = server.answers.methods();
                Way::Program(Box::new(Peer { id, command, hello: server.hello().to_string(), heard }), keys)
            }
        };
        let client = Client {
            way,
            timeout: server.timeout_ms.map_or(PATIENCE, Duration::from_millis),
            name: RefCell::new(server.name.clone()),
            left: Cell::new(false),
            system: cx.system(),
            callbacks: callbacks.clone(),
            hello: RefCell::default(),
            exchange: Cell::new(0),
        };
        let hello = client.ask_as(cx, "initialize", json!({}), Uncertain::Retry).await?;
        let named = hello["serverInfo"]["name"].as_str().filter(|name| !name.trim().is_empty());
        if client.name.borrow().is_empty() {
            let name = named.map_or_else(|| client.shown_name(), str::to_owned);
            *client.name.borrow_mut() = name;
        }
        *client.hello.borrow_mut() = hello;
        if let Some(level) = server.log_level.as_ref().filter(|_| client.declares("logging")) {
            client.ask(cx, "logging/setLevel", json!({"level": level})).await?;
        }
        Ok(client)
    }

    /// Returns whether the server declared a capability.
    fn declares(&self, capability: &str) -> bool {
        self.hello.borrow()["capabilities"][capability].is_object()
    }

    /// Returns the instructions of the server, if it has any.
    pub(crate) fn instructions(&self) -> Option<String> {
        let text = self.hello.borrow()["instructions"].as_str().map(str::trim).map(str::to_owned);
        text.filter(|text| !text.is_empty())
    }

    /// Returns whether the server has announced changed tools since the last call.
    ///
    /// # Errors
    /// The running task is interrupted.
    pub(crate) async fn take_changes(&self, cx: &Cx) -> Result<bool> {
        if let Way::Program(peer, _) = &self.way
            && self.declares("tools")
        {
            loop {
                let message =
                    self.step(peer, PeerStep::Poll, 0, "", "{}", self.timeout, Uncertain::Retry).await;
                let Some(message) = message.ok().filter(|message| !message.is_empty()) else { break };
                // The reply to a request is sent with the next step.
                let answer = self.hear(cx, &message).await?;
                if let Some(answer) = answer {
                    let sent = answer.to_string();
                    let _ =
                        self.step(peer, PeerStep::Send, 0, "", &sent, self.timeout, Uncertain::Retry).await;
                }
            }
        }
        Ok(self.callbacks.tools_changed.take())
    }

    /// Processes a message of a program. Returns the reply to a request.
    async fn hear(&self, cx: &Cx, message: &[u8]) -> Result<Option<Json>> {
        let message: Json = serde_json::from_slice(message).unwrap_or_default();
        self.callbacks.hear(cx, &self.shown_name(), &message).await
    }

    /// Returns the name of the server.
    pub(crate) fn name(&self) -> String {
        self.name.borrow().clone()
    }

    /// Returns whether the connection was closed.
    pub(crate) fn is_left(&self) -> bool {
        self.left.get()
    }

    /// Closes the connection.
    pub(crate) fn leave(&self) {
        if !self.left.replace(true)
            && let Way::Program(peer, _) = &self.way
        {
            self.system.leave_peer(&peer.id);
        }
    }

    /// Closes the connection, and also the session of a server over HTTP.
    ///
    /// # Errors
    /// The running task is interrupted.
    pub(crate) async fn close(&self, cx: &Cx) -> Result<()> {
        self.leave();
        match &self.way {
            Way::Http(link) => link.close(cx).await,
            Way::Program(..) => Ok(()),
        }
    }

    /// Like [`Client::close`], without waiting.
    pub(crate) fn close_aside(&self, cx: &Cx) {
        self.leave();
        if let Way::Http(link) = &self.way {
            link.aside(cx, &self.shown_name(), Aside::Close);
        }
    }

    /// Returns whether the server may have tools: it declares them, or declares no capabilities.
    pub(crate) fn has_tools(&self) -> bool {
        let hello = self.hello.borrow();
        let declared = hello["capabilities"].as_object();
        declared.is_none_or(|declared| declared.is_empty() || declared.contains_key("tools"))
    }

    /// Sends a request that may be repeated.
    ///
    /// # Errors
    /// The server rejects the request or cannot be reached.
    pub(crate) async fn ask(&self, cx: &Cx, method: &str, params: Json) -> Result<Json> {
        self.ask_as(cx, method, params, Uncertain::Retry).await
    }

    async fn ask_as(&self, cx: &Cx, method: &str, params: Json, uncertain: Uncertain) -> Result<Json> {
        if self.left.get() {
            return Err(thrown("MCP client is disconnected"));
        }
        let answer = match &self.way {
            Way::Program(peer, keys) => {
                let answer = self.ask_program(cx, peer, keys, method, &params, uncertain).await?;
                without_keys(keys, answer)
            }
            Way::Http(link) => {
                let (name, manner) = (self.shown_name(), Manner { timeout: self.timeout, uncertain });
                match method {
                    "initialize" => link.greet(cx, &name, manner).await?,
                    _ => link.ask(cx, &name, method, params, manner).await?,
                }
            }
        };
        mcp::answer(&answer).map_err(|problem| match problem.starts_with("MCP error") {
            true => thrown(problem),
            false => thrown(format!("MCP server '{}' sent {problem}", self.shown_name())),
        })
    }

    async fn ask_program(
        &self,
        cx: &Cx,
        peer: &Peer,
        keys: &[Secret],
        method: &str,
        params: &Json,
        uncertain: Uncertain,
    ) -> Result<Vec<u8>> {
        let number = self.exchange.get() + 1;
        self.exchange.set(number);
        let mut exchange = Exchange { system: &*self.system, id: Some(format!("{}#{number}", peer.id)) };
        let (mut step, mut params, mut left) = (PeerStep::Ask, params.to_string(), self.timeout);
        let answer = loop {
            let began = cx.system().monotonic();
            let said = self.step(peer, step, number, method, &params, left, uncertain).await;
            let Ok(bytes) = &said else { break said };
            // The duration of callbacks is not part of the server's time limit.
            left = left.saturating_sub(cx.system().monotonic().saturating_sub(began));
            if peer.heard.is_empty() || !is_request(bytes) {
                break said;
            }
            let answer = self.hear(cx, bytes).await?;
            (step, params) = (PeerStep::Continue, answer.unwrap_or_default().to_string());
        };
        exchange.id = None;
        answer.map_err(|error| {
            if let Some(refused) = cx.refusal(&error) {
                return refused;
            }
            // Its output before it ended is included.
            let told = keys.iter().fold(error.to_string(), |text, key| key.redact(&text));
            if error.get_ref().is_some_and(|inner| inner.is::<harn_system::InDoubt>()) {
                return Error::category("in_doubt", told);
            }
            match error.kind() {
                std::io::ErrorKind::BrokenPipe | std::io::ErrorKind::TimedOut => {
                    thrown(format!("MCP server '{}': {told}", self.shown_name()))
                }
                _ => thrown(format!("mcp_connect: failed to spawn '{}': {told}", peer.command.program)),
            }
        })
    }

    /// Performs one step of an exchange with a program.
    #[expect(clippy::too_many_arguments, reason = "the fields of a request, used in this file only")]
    async fn step(
        &self,
        peer: &Peer,
        step: PeerStep,
        exchange: u64,
        method: &str,
        params: &str,
        timeout: Duration,
        uncertain: Uncertain,
    ) -> std::io::Result<Vec<u8>> {
        let (method, params) = (method.to_owned(), params.to_owned());
        let request = PeerRequest { peer: peer.clone(), exchange, step, method, params, timeout, uncertain };
        self.system.ask_peer(request).await
    }

    fn shown_name(&self) -> String {
        let name = self.name.borrow();
        match &self.way {
            _ if !name.is_empty() => name.clone(),
            Way::Program(peer, _) => peer.command.program.clone(),
            Way::Http(link) => link.url(),
        }
    }

    /// Calls a tool and returns the protocol's result.
    ///
    /// # Errors
    /// The server rejects the call or cannot be reached.
    pub(crate) async fn call(
        &self,
        cx: &Cx,
        tool: &str,
        arguments: Json,
        uncertain: Uncertain,
    ) -> Result<Json> {
        let params = json!({"name": tool, "arguments": arguments});
        self.ask_as(cx, "tools/call", params, uncertain).await
    }

    /// Calls a tool by its entry in a registry, using the name that the server lists, or else its registered name.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub(crate) async fn call_entry(&self, cx: &Cx, entry: &Json, arguments: &Json) -> Result<ServerResult> {
        let tool = entry["_mcp_tool"].as_str().or_else(|| entry["name"].as_str()).unwrap_or_default();
        let uncertain = if entry["idempotent"] == true { Uncertain::Retry } else { Uncertain::Fail };
        self.call(cx, tool, arguments.clone(), uncertain).await.map(|result| ServerResult::of(&result))
    }

    /// Returns all pages of a list.
    ///
    /// # Errors
    /// As [`Client::ask`]; the list has too many pages.
    pub(crate) async fn list(&self, cx: &Cx, method: &str, key: &str) -> Result<Vec<Json>> {
        let mut all = Vec::new();
        let mut cursor = Json::Null;
        for _ in 0..MAX_PAGES {
            let params = if cursor.is_null() { json!({}) } else { json!({"cursor": cursor}) };
            let mut page = self.ask(cx, method, params).await?;
            let Json::Array(items) = page[key].take() else {
                return Err(thrown(format!("MCP server '{}' sent no list of {key}", self.shown_name())));
            };
            all.extend(items);
            if all.len() > MAX_TOOLS {
                break;
            }
            let next = page["nextCursor"].take();
            if next == cursor {
                return Ok(all);
            }
            cursor = next;
            // Some servers end a list with an empty cursor.
            if cursor.as_str().is_none_or(str::is_empty) {
                return Ok(all);
            }
        }
        let name = self.shown_name();
        Err(thrown(format!(
            "MCP server '{name}' lists more than {MAX_TOOLS} {key}, or in more than {MAX_PAGES} pages"
        )))
    }

    /// Returns the tools of the server, each with the server's name.
    ///
    /// # Errors
    /// As [`Client::list`].
    pub(crate) async fn tools(&self, cx: &Cx) -> Result<Vec<Json>> {
        Ok(mcp::listed(&self.name(), self.list(cx, "tools/list", "tools").await?))
    }
}

/// Returns whether a message is a request or notification of the server.
fn is_request(bytes: &[u8]) -> bool {
    serde_json::from_slice::<Json>(bytes).is_ok_and(|message| message["method"].is_string())
}

/// Redacts the secrets that the server received from a reply, because the reply is passed to the program, the model and
/// the logs.
fn without_keys(keys: &[Secret], bytes: Vec<u8>) -> Vec<u8> {
    if keys.is_empty() {
        return bytes;
    }
    let Ok(mut answer) = serde_json::from_slice::<Json>(&bytes) else { return bytes };
    let found = keys.iter().fold(false, |found, key| key.redact_answer(&mut answer) | found);
    if found { answer.to_string().into_bytes() } else { bytes }
}

fn folder(cx: &Cx, program: &Program) -> PathBuf {
    let work = cx.system().work_dir();
    program.cwd.as_ref().map_or(work.clone(), |folder| work.join(folder))
}

/// Converts durations in the entries of `mcp_servers` to seconds, because JSON has no durations.
pub(crate) fn in_seconds(given: &Value, options: &mut Map<String, Json>) {
    let given = entry(given, "mcp_servers");
    let (Some(list), Some(Json::Array(entries))) = (given.as_list(), options.get_mut("mcp_servers")) else {
        return;
    };
    for (value, json) in list.iter().zip(entries) {
        if let Json::Object(map) = json {
            timeout_in_seconds(value, map);
        }
    }
}

/// Converts the timeout in a server's entry to seconds.
pub(crate) fn timeout_in_seconds(given: &Value, map: &mut Map<String, Json>) {
    #[expect(clippy::cast_precision_loss, reason = "waits are far below 2^53 milliseconds")]
    if let Some(ms) = entry(given, "timeout").as_duration() {
        map.insert("timeout".to_owned(), json!(ms as f64 / 1000.0));
    }
}
