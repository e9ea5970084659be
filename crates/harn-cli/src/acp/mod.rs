//! `harn serve acp`: a program as an agent that editors and other clients talk to over standard input and output, one
//! JSON-RPC message a line, by the Agent Client Protocol.
//!
//! `updates.rs` says events of loops in the protocol's words, `client.rs` is the client as the
//! program's host, `session.rs` runs the program in a thread of its own, once for each prompt, `log.rs` keeps what was told for
//! whoever loads the session later. Here messages are read and handed to the session they are for.

mod client;
mod log;
mod session;
mod updates;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use harn_runtime::ModelTraffic;
use harn_system::{Real, System, SystemExt};
use harn_value::{Data as Json, json};

use crate::args::AcpArgs;
use crate::json_rpc::{self, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR, Problem, Wire};
use crate::program::{self, Program};
use log::Log;
use session::{Command, Handle, Start};

/// The version of the protocol that is spoken.
const VERSION: u64 = 1;

/// How long sessions may take to end when the client has gone.
const GRACE: Duration = Duration::from_secs(2);

/// What a client may tell the program besides the methods of the protocol.
const NOTIFICATIONS: [&str; 4] = ["session/input", "user_message", "agent/user_message", "agent/resume"];

/// Serves a program; gives the exit code.
pub(crate) fn serve(args: AcpArgs) -> u8 {
    let packages = crate::cmd::packages::ready(args.file.parent().into_iter());
    let text = match packages.and_then(|()| program::read_text(&args.file)) {
        Ok(text) => text,
        Err(why) => {
            eprintln!("{}", harn_syntax::printable(&why));
            return 1;
        }
    };
    let traffic = ModelTraffic { replies: args.llm_mock, ..ModelTraffic::default() };
    let mut options = program::RunOptions { traffic: traffic.clone(), ..Default::default() };
    // A program that cannot run is told here, not to somebody who opens a session.
    let system = std::rc::Rc::new(Real::new());
    if let Err(end) = program::prepare(&Program::of(&args.file, text.clone()), &mut options, system, |_| ()) {
        if let (_, Err(failure)) = end.settle() {
            eprint!("{}", failure.draw(false));
        }
        return 1;
    }
    let file = Real::new().work_dir().join(&args.file);
    let mut server = Server {
        wire: Arc::default(),
        start: Start { file, text, traffic, extended: false },
        initialized: false,
        sessions: BTreeMap::new(),
    };
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

/// The folder that a session is to work in.
fn folder(params: &Json, method: &str) -> Result<PathBuf, Problem> {
    let wrong = |why: &str| Problem::new(INVALID_PARAMS, format!("{method}: {why}"));
    let cwd = params["cwd"].as_str().map(PathBuf::from).filter(|cwd| cwd.is_absolute());
    let cwd = cwd.ok_or_else(|| wrong("`cwd` must be an absolute path"))?;
    if !Real::new().is_dir(&cwd) {
        return Err(wrong(&format!("there is no folder {}", cwd.display())));
    }
    if params["mcpServers"].as_array().is_some_and(|servers| !servers.is_empty()) {
        return Err(wrong("this version starts no MCP servers of clients; leave `mcpServers` empty")); // prose-ok: diagnostic
    }
    Ok(cwd)
}

struct Server {
    wire: Arc<Wire>,
    start: Start,
    initialized: bool,
    sessions: BTreeMap<String, Handle>,
}

impl Server {
    /// Takes one line.
    fn take(&mut self, line: &str) {
        let message: Json = match serde_json::from_str(line) {
            Ok(message) => message,
            Err(error) => {
                let problem = Problem::new(PARSE_ERROR, format!("the line is no JSON: {error}"));
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
                    let problem = Problem::new(INVALID_REQUEST, "a message needs a `method`");
                    self.wire.answer(&id.unwrap_or_default(), Err(problem));
                }
            }
            return;
        };
        let params = &message["params"];
        match id {
            Some(id) => match self.request(&id, method, params) {
                Ok(None) => {}
                Ok(Some(result)) => self.wire.answer(&id, Ok(result)),
                Err(problem) => self.wire.answer(&id, Err(problem)),
            },
            // Nobody waits for an answer: what is wrong is told to whoever runs the server.
            None => {
                if let Err(problem) = self.notification(method, params) {
                    eprintln!("[harn] warning: {method}: {}", problem.message);
                }
            }
        }
    }

    /// Answers a request; nothing when a session is going to.
    fn request(&mut self, id: &Json, method: &str, params: &Json) -> Result<Option<Json>, Problem> {
        if method == "initialize" {
            return self.initialize(params).map(Some);
        }
        if !self.initialized {
            return Err(Problem::new(INVALID_REQUEST, "`initialize` comes first"));
        }
        match method {
            "authenticate" => Ok(Some(json!({}))),
            "session/new" => self.open(params).map(Some),
            "session/load" => self.load(params).map(Some),
            "session/prompt" => {
                let task = updates::prompt_text(&params["prompt"])
                    .map_err(|why| Problem::new(INVALID_PARAMS, format!("session/prompt: {why}")))?;
                let session = self.session(params)?;
                if !session.begin() {
                    let text = "session/prompt: a prompt of this session is still being answered";
                    return Err(Problem::new(INVALID_REQUEST, text));
                }
                session.send(Command::Prompt { id: id.clone(), task });
                Ok(None)
            }
            other => Err(Problem::new(METHOD_NOT_FOUND, format!("unknown method `{other}`"))),
        }
    }

    fn initialize(&mut self, params: &Json) -> Result<Json, Problem> {
        if !params["protocolVersion"].is_u64() {
            return Err(Problem::new(INVALID_PARAMS, "initialize: `protocolVersion` must be a number"));
        }
        let harn = &params["clientCapabilities"]["_meta"]["harn"];
        self.start.extended = !matches!(harn, Json::Null | Json::Bool(false));
        self.initialized = true;
        Ok(json!({
            "protocolVersion": VERSION,
            "agentCapabilities": {
                "loadSession": true,
                "promptCapabilities": {"image": false, "audio": false, "embeddedContext": true},
                "_meta": {"harn": {
                    "requests": client::REQUESTS, "notifications": NOTIFICATIONS,
                    "sessionUpdates": updates::OWN,
                }},
            },
            "agentInfo": {"name": "harn", "title": "Harn", "version": env!("CARGO_PKG_VERSION")},
            "authMethods": [],
        }))
    }

    fn open(&mut self, params: &Json) -> Result<Json, Problem> {
        let cwd = folder(params, "session/new")?;
        let mut bytes = [0; 8];
        Real::new().random(&mut bytes);
        let id = format!("session_{:016x}", u64::from_ne_bytes(bytes));
        let log = Log::of(&cwd, &id).filter(|log| match log.begin() {
            Ok(()) => true,
            Err(error) => {
                eprintln!("[harn] warning: the session cannot be loaded later: {}: {error}", cwd.display());
                false
            }
        });
        self.start(&id, &cwd, log, &[]);
        Ok(json!({"sessionId": id}))
    }

    /// Goes on with a session of another process: the client is told what it was told then.
    fn load(&mut self, params: &Json) -> Result<Json, Problem> {
        let wrong = |why: String| Problem::new(INVALID_PARAMS, format!("session/load: {why}"));
        let cwd = folder(params, "session/load")?;
        let id = params["sessionId"].as_str().unwrap_or_default().to_owned();
        if self.sessions.contains_key(&id) {
            return Err(wrong(format!("`{id}` is open already")));
        }
        let log = Log::of(&cwd, &id).filter(Log::exists);
        let log = log.ok_or_else(|| wrong(format!("there is no session `{id}` in {}", cwd.display())))?;
        let updates = log.updates().map_err(|error| wrong(format!("`{id}` cannot be read: {error}")))?;
        for update in &updates {
            self.wire.tell("session/update", &json!({"sessionId": id, "update": update}));
        }
        self.start(&id, &cwd, Some(log), &updates);
        Ok(json!({}))
    }

    fn start(&mut self, id: &str, cwd: &Path, log: Option<Log>, before: &[Json]) {
        let handle = Handle::start(id, cwd, log, before, self.start.clone(), self.wire.clone());
        self.sessions.insert(id.to_owned(), handle);
    }

    fn session(&self, params: &Json) -> Result<&Handle, Problem> {
        let id = params["sessionId"].as_str();
        let known = id.and_then(|id| self.sessions.get(id));
        known.ok_or_else(|| {
            let text = match id {
                Some(id) => format!("there is no session `{id}`"),
                None => "`sessionId` must be the id of a session".to_owned(),
            };
            Problem::new(INVALID_PARAMS, text)
        })
    }

    fn notification(&self, method: &str, params: &Json) -> Result<(), Problem> {
        match method {
            "session/cancel" => self.session(params)?.cancel(),
            _ if NOTIFICATIONS.contains(&method) => {
                let command = Command::Tell { method: method.to_owned(), params: params.clone() };
                self.session(params)?.send(command);
            }
            // Those of the protocol that an agent need not know begin so.
            _ if method.starts_with("$/") || method.starts_with('_') => {}
            _ => return Err(Problem::new(METHOD_NOT_FOUND, "unknown notification")),
        }
        Ok(())
    }

    /// Hands an answer to the session that asked: the id of its question begins with the session's.
    fn route_answer(&self, id: &Json, message: &Json) {
        let session = id.as_str().and_then(|id| self.sessions.get(id.split_once(':')?.0));
        let (Some(session), Some(id)) = (session, id.as_str()) else {
            eprintln!("[harn] warning: the client has answered {id}, which nobody asked");
            return;
        };
        let answer = match message.get("error") {
            Some(error) => Err(Problem::read(error)),
            None => Ok(message["result"].clone()),
        };
        session.send(Command::Answer { id: id.to_owned(), answer });
    }

    /// The client has gone.
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
