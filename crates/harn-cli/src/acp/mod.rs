//! `harn serve acp`: serves a program as an agent to editors and other clients over standard input and output, with one
//! JSON-RPC message per line, by the Agent Client Protocol.
//!
//! Message types come from the protocol's crate, `agent-client-protocol-schema` (`protocol.rs` reads and writes them).
//! The transport of `agent-client-protocol` is not used, for two reasons. Its queue of messages to the client is
//! unbounded, so a program that prints faster than its client reads would exceed its memory limit; here a session waits
//! until its line is written. And it closes the connection after a line that is too long or not UTF-8; here such a line
//! gets an error response and the next one is read.
//!
//! This module reads messages and routes them to their sessions. `updates.rs` converts events of loops to updates of
//! the protocol, `client.rs` makes the client the program's host, `session.rs` runs the program on its own thread, once
//! per prompt, and `log.rs` stores the updates so that the session can be loaded later.

mod client;
mod log;
mod protocol;
mod session;
mod updates;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use agent_client_protocol_schema::ProtocolVersion;
use agent_client_protocol_schema::v1::{
    AGENT_METHOD_NAMES, AgentCapabilities, AgentMethodNames, AuthenticateRequest, AuthenticateResponse,
    CancelNotification, ErrorCode, Implementation, InitializeRequest, InitializeResponse, LoadSessionRequest,
    LoadSessionResponse, McpServer, Meta, NewSessionRequest, NewSessionResponse, PromptCapabilities,
    PromptRequest, RequestId, SystemPrompt,
};
use harn_runtime::ModelTraffic;
use harn_system::{Real, System, SystemExt};
use harn_value::{Data as Json, json};

use crate::args::AcpArgs;
use crate::json_rpc::{self, Problem, Wire};
use crate::program::{self, Program};
use log::Log;
use protocol::problem;
use session::{Command, Handle, Start};

/// The method names of the protocol.
const NAMES: AgentMethodNames = AGENT_METHOD_NAMES;

/// How long sessions may take to end after the client disconnects.
const GRACE: Duration = Duration::from_secs(2);

/// Notifications from the client to the program that Harn adds to the protocol.
const NOTIFICATIONS: [&str; 6] = [
    "session/input",
    "user_message",
    "agent/user_message",
    "session/remind",
    "agent/resume",
    "skills/update",
];

/// Serves a program and returns the exit code.
pub(crate) fn serve(args: AcpArgs) -> u8 {
    let log = Arc::new(crate::logs::Log::new(args.operation.log_format));
    let fail = |why: &str| {
        log.write(&format!("{}\n", harn_syntax::printable(why)));
        1
    };
    let health = match args.operation.serve() {
        Ok(health) => health,
        Err(why) => return fail(&format!("error: {why}")),
    };
    let packages = crate::cmd::packages::ready(args.file.parent().into_iter());
    let text = match packages.and_then(|()| program::read_text(&args.file)) {
        Ok(text) => text,
        Err(why) => return fail(&why),
    };
    let traffic = ModelTraffic { replies: args.llm_mock, ..ModelTraffic::default() };
    let mut options = program::RunOptions { traffic: traffic.clone(), ..Default::default() };
    // Report a program that cannot run at startup, before a client opens a session.
    let system = std::rc::Rc::new(Real::new());
    if let Err(end) = program::prepare(&Program::of(&args.file, text.clone()), &mut options, system, |_| ()) {
        if let (_, Err(failure)) = end.settle() {
            log.write(&failure.draw(false));
        }
        return 1;
    }
    let file = Real::new().work_dir().join(&args.file);
    let mut server = Server {
        wire: Arc::default(),
        start: Start { file, text, traffic, extended: false, servers: String::new(), health, log },
        initialized: false,
        sessions: BTreeMap::new(),
    };
    server.start.health.ready();
    for line in json_rpc::lines() {
        match line {
            Ok(line) => server.take(&line),
            Err(problem) => server.wire.answer(&Json::Null, Err(problem)),
        }
        if server.wire.is_closed() {
            break;
        }
    }
    server.end();
    0
}

/// Validates the working directory of a session and returns it.
///
/// # Errors
/// The directory does not exist, or the client requests a session feature that is not supported.
fn folder(
    method: &str,
    cwd: PathBuf,
    servers: &[McpServer],
    more: &[PathBuf],
    prompt: Option<&SystemPrompt>,
) -> Result<(PathBuf, String), Problem> {
    let wrong = |why: &str| Err(problem(ErrorCode::InvalidParams, format!("{method}: {why}")));
    if !cwd.is_absolute() {
        return wrong("`cwd` must be an absolute path");
    }
    if !Real::new().is_dir(&cwd) {
        return wrong(&format!("directory not found: {}", cwd.display()));
    }
    let servers = servers.iter().map(server).collect::<Result<Vec<Json>, String>>();
    let servers = servers.and_then(|servers| {
        let text = Json::from(servers).to_string();
        harn_runtime::check_client_servers(&text).map(|()| text)
    });
    let servers = match servers {
        Ok(servers) => servers,
        Err(why) => return wrong(&format!("`mcpServers`: {why}")),
    };
    if !more.is_empty() {
        return wrong("a program works in one folder; leave `additionalDirectories` away");
    }
    if prompt.is_some() {
        return wrong("the program has the system prompts of its loops; leave `systemPrompt` away");
    }
    Ok((cwd, servers))
}

/// Converts a server of the client to a configuration entry.
fn server(named: &McpServer) -> Result<Json, String> {
    let McpServer::Stdio(server) = named else {
        return Err("only servers over standard input and output are supported".to_owned());
    };
    let env = server.env.iter().map(|variable| (variable.name.clone(), variable.value.as_str().into()));
    let command = server.command.display().to_string();
    Ok(
        json!({"name": server.name, "command": command, "args": server.args, "env": Json::Object(env.collect())}),
    )
}

struct Server {
    wire: Arc<Wire>,
    start: Start,
    initialized: bool,
    sessions: BTreeMap<String, Handle>,
}

impl Server {
    /// Handles one line from the client.
    fn take(&mut self, line: &str) {
        let message: Json = match serde_json::from_str(line) {
            Ok(message) => message,
            Err(error) => {
                let problem = problem(ErrorCode::ParseError, format!("the line is not valid JSON: {error}"));
                return self.wire.answer(&Json::Null, Err(problem));
            }
        };
        let id = message.get("id").cloned();
        let Some(method) = message["method"].as_str() else {
            match id {
                Some(id) if message.get("result").is_some() || message.get("error").is_some() => {
                    self.route_answer(&id, &message);
                }
                id => {
                    let problem = problem(ErrorCode::InvalidRequest, "a message needs a `method`");
                    self.wire.answer(&id.unwrap_or_default(), Err(problem));
                }
            }
            return;
        };
        let params = &message["params"];
        match id {
            Some(id) if id.clone().read::<RequestId>().is_err() => {
                let text = "the `id` of a request must be a text or a whole number";
                self.wire.answer(&Json::Null, Err(problem(ErrorCode::InvalidRequest, text)));
            }
            Some(id) => match self.request(&id, method, params) {
                Ok(None) => {}
                Ok(Some(result)) => self.wire.answer(&id, Ok(result)),
                Err(problem) => self.wire.answer(&id, Err(problem)),
            },
            // Notifications have no response, so errors are logged.
            None => {
                if let Err(problem) = self.notification(method, params) {
                    let text = format!("warning: {method}: {}", problem.message);
                    self.start.log.write(&harn_syntax::notice(&text));
                }
            }
        }
    }

    /// Handles a request. Returns `None` if a session will send the response later.
    fn request(&mut self, id: &Json, method: &str, params: &Json) -> Result<Option<Json>, Problem> {
        if method == NAMES.initialize {
            return self.initialize(protocol::params(method, params)?).map(Some);
        }
        if !self.initialized {
            return Err(problem(ErrorCode::InvalidRequest, "`initialize` comes first"));
        }
        match method {
            _ if method == NAMES.authenticate => {
                protocol::params::<AuthenticateRequest>(method, params)?;
                Ok(Some(Json::lossy(&AuthenticateResponse::new())))
            }
            _ if method == NAMES.session_new => self.open(protocol::params(method, params)?).map(Some),
            _ if method == NAMES.session_load => self.load(protocol::params(method, params)?).map(Some),
            _ if method == NAMES.session_prompt => {
                let PromptRequest { session_id, prompt, .. } = protocol::params(method, params)?;
                let task = updates::prompt_text(&prompt)
                    .map_err(|why| problem(ErrorCode::InvalidParams, format!("{method}: {why}")))?;
                let session = self.session(&session_id.0)?;
                if !session.begin() {
                    let text = format!("{method}: a prompt of this session is still being answered");
                    return Err(problem(ErrorCode::InvalidRequest, text));
                }
                session.send(Command::Prompt { id: id.clone(), task });
                Ok(None)
            }
            other => Err(problem(ErrorCode::MethodNotFound, format!("unknown method `{other}`"))),
        }
    }

    fn initialize(&mut self, asked: InitializeRequest) -> Result<Json, Problem> {
        let harn = asked.client_capabilities.meta.as_ref().and_then(|meta| meta.get("harn"));
        self.start.extended =
            !matches!(harn, None | Some(serde_json::Value::Null | serde_json::Value::Bool(false)));
        self.initialized = true;
        let own = json!({
            "requests": client::REQUESTS, "notifications": NOTIFICATIONS, "sessionUpdates": updates::OWN,
        });
        let capabilities = AgentCapabilities::new()
            .load_session(true)
            .prompt_capabilities(PromptCapabilities::new().embedded_context(true))
            .meta(Meta::from_iter([("harn".to_owned(), own.into())]));
        // A client with another version is offered the supported one.
        let answer = InitializeResponse::new(ProtocolVersion::V1)
            .agent_capabilities(capabilities)
            .agent_info(Implementation::new("harn", env!("CARGO_PKG_VERSION")).title("Harn"));
        Ok(Json::lossy(&answer))
    }

    fn open(&mut self, asked: NewSessionRequest) -> Result<Json, Problem> {
        let NewSessionRequest { cwd, additional_directories: more, mcp_servers, system_prompt, .. } = asked;
        let (cwd, servers) = folder(NAMES.session_new, cwd, &mcp_servers, &more, system_prompt.as_ref())?;
        let mut bytes = [0; 8];
        Real::new().random(&mut bytes);
        let id = format!("session_{:016x}", u64::from_ne_bytes(bytes));
        let log = Log::of(&cwd, &id).filter(|log| match log.begin() {
            Ok(()) => true,
            Err(error) => {
                eprint!(
                    "{}",
                    harn_syntax::notice(&format!(
                        "warning: the session cannot be loaded later: {}: {error}",
                        cwd.display()
                    ))
                );
                false
            }
        });
        self.start(&id, &cwd, log, &[], servers);
        Ok(Json::lossy(&NewSessionResponse::new(id)))
    }

    /// Loads a session of another process and replays its updates to the client.
    fn load(&mut self, asked: LoadSessionRequest) -> Result<Json, Problem> {
        let wrong = |why: String| problem(ErrorCode::InvalidParams, format!("session/load: {why}"));
        let LoadSessionRequest { cwd, additional_directories: more, mcp_servers, system_prompt, .. } = asked;
        let (cwd, servers) = folder(NAMES.session_load, cwd, &mcp_servers, &more, system_prompt.as_ref())?;
        let id = asked.session_id.0.to_string();
        if self.sessions.contains_key(&id) {
            return Err(wrong(format!("`{id}` is open already")));
        }
        let log = Log::of(&cwd, &id).filter(Log::exists);
        let log = log.ok_or_else(|| wrong(format!("there is no session `{id}` in {}", cwd.display())))?;
        let updates = log.updates().map_err(|error| wrong(format!("`{id}` cannot be read: {error}")))?;
        for update in &updates {
            self.wire.tell("session/update", &json!({"sessionId": id, "update": update}));
        }
        self.start(&id, &cwd, Some(log), &updates, servers);
        Ok(Json::lossy(&LoadSessionResponse::new()))
    }

    fn start(&mut self, id: &str, cwd: &Path, log: Option<Log>, before: &[Json], servers: String) {
        let start = Start { servers, ..self.start.clone() };
        let handle = Handle::start(id, cwd, log, before, start, self.wire.clone());
        self.sessions.insert(id.to_owned(), handle);
    }

    fn session(&self, id: &str) -> Result<&Handle, Problem> {
        let known = self.sessions.get(id);
        known.ok_or_else(|| problem(ErrorCode::InvalidParams, format!("there is no session `{id}`")))
    }

    fn notification(&self, method: &str, params: &Json) -> Result<(), Problem> {
        match method {
            _ if method == NAMES.session_cancel => {
                let CancelNotification { session_id, .. } =
                    protocol::read(params).map_err(|why| problem(ErrorCode::InvalidParams, why))?;
                self.session(&session_id.0)?.cancel();
            }
            _ if NOTIFICATIONS.contains(&method) => {
                let Some(id) = params["sessionId"].as_str() else {
                    let text = "`sessionId` must be the id of a session";
                    return Err(problem(ErrorCode::InvalidParams, text));
                };
                let command = Command::Tell { method: method.to_owned(), params: params.clone() };
                self.session(id)?.send(command);
            }
            // The protocol lets agents ignore notifications with these prefixes.
            _ if method.starts_with("$/") || method.starts_with('_') => {}
            _ => return Err(problem(ErrorCode::MethodNotFound, "unknown notification")),
        }
        Ok(())
    }

    /// Routes an answer to the session that sent the request. The id of a request begins with its session's id.
    fn route_answer(&self, id: &Json, message: &Json) {
        let session = id.as_str().and_then(|id| self.sessions.get(id.split_once(':')?.0));
        let (Some(session), Some(id)) = (session, id.as_str()) else {
            eprint!(
                "{}",
                harn_syntax::notice(&format!("warning: the client has answered {id}, which nobody asked"))
            );
            return;
        };
        let answer = match message.get("error") {
            Some(error) => Err(protocol::error_of(error)),
            None => Ok(message["result"].clone()),
        };
        session.send(Command::Answer { id: id.to_owned(), answer });
    }

    /// Ends all sessions after the client disconnected.
    fn end(self) {
        let sessions: Vec<Handle> = self.sessions.into_values().collect();
        for session in &sessions {
            session.cancel();
            session.send(Command::Close);
        }
        let until = GRACE.as_millis() / 10;
        for _ in 0..until {
            if sessions.iter().all(Handle::is_over) {
                return;
            }
            json_rpc::pause();
        }
    }
}
