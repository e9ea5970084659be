//! `harn serve mcp --transport http`: each message is a POST request with a JSON response. A separate thread accepts
//! the requests; they are processed on the program's thread.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use harn_runtime::MCP_REVISIONS;
use harn_system::{Real, System, SystemExt};
use harn_value::Data as Json;
use harn_vm::Interrupt;
use tokio::sync::{mpsc, oneshot};

use super::guard::{self, Admitted, Guard};
use super::{AT_ONCE, Counted, GRACE};
use crate::args::McpArgs;
use crate::json_rpc::{INVALID_REQUEST, PARSE_ERROR, Problem, answer_text};

/// Maximum size of a message: 64 MiB.
const MAX_BODY: usize = 64 << 20;

/// Maximum size of a server card: 1 MiB.
const MAX_CARD: u64 = 1 << 20;

/// Maximum number of sessions. When it is exceeded, the oldest one must be initialized again.
const MAX_SESSIONS: usize = 4096;

/// Path of the server card.
const CARD: &str = "/.well-known/mcp.json";

/// Header with the session ID.
const SESSION: &str = "mcp-session-id";

/// Header with the protocol version.
const REVISION: &str = "mcp-protocol-version";

/// A server that is listening.
pub(super) struct Listener {
    #[expect(clippy::disallowed_types, reason = "this is a server: it listens")]
    socket: std::net::TcpListener,
    app: App,
}

/// The settings of a server.
pub(super) struct Settings {
    address: String,
    path: String,
    card: Option<String>,
    key: Option<String>,
    secret: Option<String>,
}

impl Settings {
    /// Returns the settings on the command line and in the environment.
    ///
    /// # Errors
    /// A setting is invalid.
    pub(super) fn of(args: &McpArgs) -> Result<Settings, String> {
        let set = |text: Option<String>, name: &str| match text {
            Some(text) if text.trim().is_empty() => Err(format!("{name} must not be empty")),
            text => Ok(text),
        };
        let key = args.api_key.clone();
        let key = key.or_else(|| Real::new().env("HARN_SERVE_API_KEY").filter(|key| !key.is_empty()));
        let path = args.path.clone().unwrap_or_else(|| "/mcp".to_owned());
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "/-_.~".contains(c);
        if !path.starts_with('/') || path == CARD || !path.chars().all(is_plain) {
            return Err(format!("--path must be a path such as /mcp, got '{path}'"));
        }
        Ok(Settings {
            address: args.bind.clone().unwrap_or_else(|| "127.0.0.1:8765".to_owned()),
            path,
            card: args.card.as_deref().map(card).transpose()?,
            key: set(key, "--api-key")?,
            secret: set(args.hmac_secret.clone(), "--hmac-secret")?,
        })
    }

    /// Starts to listen.
    ///
    /// # Errors
    /// The address cannot be used, or it is reachable from other machines and no key is set.
    #[expect(clippy::disallowed_types, reason = "this is a server: it listens")]
    pub(super) fn listen(self) -> Result<Listener, String> {
        let failed = |error: std::io::Error| format!("cannot listen on {}: {error}", self.address);
        let socket = std::net::TcpListener::bind(self.address.as_str()).map_err(failed)?;
        let address = socket.local_addr().map_err(failed)?;
        socket.set_nonblocking(true).map_err(failed)?;
        if !address.ip().is_loopback() && self.key.is_none() && self.secret.is_none() {
            return Err(format!(
                "{} can be reached from other machines: give --api-key (or HARN_SERVE_API_KEY) or --hmac-secret",
                self.address
            ));
        }
        let guard = Guard::new(self.key, self.secret);
        Ok(Listener { socket, app: App { guard, address, path: self.path, card: self.card } })
    }
}

/// Reads a server card.
fn card(path: &std::path::Path) -> Result<String, String> {
    let wrong = |why: String| format!("--card: {}: {why}", path.display());
    let bytes = Real::new().read(path, MAX_CARD).map_err(|error| wrong(error.to_string()))?;
    match serde_json::from_slice::<Json>(&bytes) {
        Ok(card) if card.is_object() => Ok(card.to_string()),
        Ok(_) => Err(wrong("a card is a JSON object".to_owned())),
        Err(error) => Err(wrong(format!("no JSON: {error}"))),
    }
}

/// The state shared by all requests.
struct App {
    guard: Guard,
    address: SocketAddr,
    path: String,
    card: Option<String>,
}

/// A received message, and the channel for its response.
struct Incoming {
    session: Option<String>,
    /// `None` if the client ends the session.
    message: Option<Json>,
    reply: oneshot::Sender<Reply>,
}

/// The response to a message.
enum Reply {
    /// A response of the protocol, with the session ID if it starts a session.
    Answer(StatusCode, String, Option<String>),
    /// No body.
    Nothing(StatusCode),
}

type Shared = State<Arc<(App, mpsc::Sender<Incoming>)>>;

/// Serves requests until a signal arrives or the program ends. Returns the exit code.
pub(super) async fn converse(server: &Counted, listener: Listener, interrupt: &Interrupt) -> u8 {
    let Listener { socket, app } = listener;
    let (address, path) = (app.address, app.path.clone());
    let (send, mut incoming) = mpsc::channel(AT_ONCE);
    let (stop, stopped) = oneshot::channel::<()>();
    let (end, ended) = oneshot::channel();
    std::thread::spawn(move || drop(end.send(listen(socket, app, send, stopped))));
    crate::out::write(&format!("Harn MCP server listening on http://{address}{path}\n"));
    let mut room = Room::new(server);
    let code = loop {
        tokio::select! {
            biased;
            () = interrupt.asked() => break 0,
            Some(ended) = room.requests.next() => {
                if let Some(code) = room.ended(ended) {
                    break code;
                }
            }
            came = incoming.recv(), if room.requests.len() < AT_ONCE => match came {
                Some(came) => room.take(came),
                None => break 1,
            },
        }
    };
    // Pending responses are still sent.
    drop((stop, room, incoming));
    match Real::new().within(GRACE, ended).await {
        Some(Ok(Err(why))) => {
            server.log.write(&harn_syntax::notice(&format!("error: {why}")));
            code.max(1)
        }
        _ => code,
    }
}

/// Accepts requests until `stopped`.
#[expect(clippy::disallowed_types, reason = "this is a server: it listens")]
fn listen(
    socket: std::net::TcpListener,
    app: App,
    send: mpsc::Sender<Incoming>,
    stopped: oneshot::Receiver<()>,
) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("the server has stopped: {error}");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    runtime.block_on(async {
        let socket = tokio::net::TcpListener::from_std(socket).map_err(failed)?;
        let path = app.path.clone();
        let router = Router::new()
            .route(&path, any(message))
            .route(CARD, get(show_card))
            .with_state(Arc::new((app, send)));
        let served = axum::serve(socket, router).with_graceful_shutdown(async move { drop(stopped.await) });
        served.await.map_err(failed)
    })
}

/// The card describes the server to clients that have no key yet.
async fn show_card(State(shared): Shared) -> Response {
    match &shared.0.card {
        Some(card) => json_response(StatusCode::OK, card.clone()),
        None => refusal(StatusCode::NOT_FOUND, "the server has no card"),
    }
}

fn json_response(status: StatusCode, body: String) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
}

/// Returns a rejection as a JSON-RPC error.
fn refusal(status: StatusCode, why: &str) -> Response {
    let body = answer_text(&Json::Null, Err(Problem::new(INVALID_REQUEST, why)));
    let mut response = json_response(status, body);
    if status == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, header::HeaderValue::from_static("Bearer"));
    }
    response
}

async fn message(State(shared): Shared, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let (guard, headers, method) = (&shared.0.guard, head.headers, head.method);
    // Reject unauthenticated requests before reading the body.
    let by = match guard.admit(&headers) {
        Ok(by) => by,
        Err((status, why)) => return refusal(status, why),
    };
    let Ok(body) = to_bytes(body, MAX_BODY).await else {
        return refusal(StatusCode::PAYLOAD_TOO_LARGE, "the message is too large, or did not come whole");
    };
    let signed = (method.as_str(), head.uri.path(), &*body);
    if by == Admitted::BySignature && !guard.is_signed(&headers, signed, Real::new().now_ms() / 1000) {
        let (status, why) = guard::UNKNOWN;
        return refusal(status, why);
    }
    let given = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let message = match method {
        Method::POST => match read(&given, &body) {
            Ok(message) => Some(message),
            Err(response) => return *response,
        },
        Method::DELETE => None,
        _ => {
            return refusal(
                StatusCode::METHOD_NOT_ALLOWED,
                "a message is a POST; the server begins none itself",
            );
        }
    };
    let (reply, replied) = oneshot::channel();
    let incoming = Incoming { session: given(SESSION), message, reply };
    let gone = || refusal(StatusCode::SERVICE_UNAVAILABLE, "the server ends");
    if shared.1.send(incoming).await.is_err() {
        return gone();
    }
    match replied.await {
        Ok(Reply::Answer(status, body, session)) => {
            let mut response = json_response(status, body);
            if let Some(session) = session.and_then(|session| session.parse().ok()) {
                response.headers_mut().insert(SESSION, session);
            }
            response
        }
        Ok(Reply::Nothing(status)) => status.into_response(),
        Err(_) => gone(),
    }
}

/// Parses the message of a request. The error is the response.
fn read(given: &impl Fn(&str) -> Option<String>, body: &[u8]) -> Result<Json, Box<Response>> {
    let kind = given(header::CONTENT_TYPE.as_str()).unwrap_or_default();
    if !kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json") {
        return Err(Box::new(refusal(StatusCode::UNSUPPORTED_MEDIA_TYPE, "a message is application/json")));
    }
    if let Some(revision) = given(REVISION).filter(|revision| !MCP_REVISIONS.contains(&revision.as_str())) {
        let known = MCP_REVISIONS.join(", ");
        let why = format!("revision '{revision}' of the protocol is not spoken here; there are {known}");
        return Err(Box::new(refusal(StatusCode::BAD_REQUEST, &why)));
    }
    serde_json::from_slice(body).map_err(|error| {
        let problem = Problem::new(PARSE_ERROR, format!("the message is not valid JSON: {error}"));
        Box::new(json_response(StatusCode::BAD_REQUEST, answer_text(&Json::Null, Err(problem))))
    })
}

/// A completed request. A cancelled request has no response.
struct Ended {
    key: (String, String),
    id: Json,
    answer: Option<Result<Json, harn_runtime::McpProblem>>,
    begins: bool,
    reply: oneshot::Sender<Reply>,
}

/// The sessions, and the requests in progress with a handle to cancel each.
struct Room<'a> {
    server: &'a Counted,
    requests: FuturesUnordered<std::pin::Pin<Box<dyn Future<Output = Ended> + 'a>>>,
    cancels: BTreeMap<(String, String), oneshot::Sender<()>>,
    /// Oldest first.
    sessions: VecDeque<String>,
}

impl<'a> Room<'a> {
    fn new(server: &'a Counted) -> Room<'a> {
        let (requests, cancels) = (FuturesUnordered::new(), BTreeMap::new());
        Room { server, requests, cancels, sessions: VecDeque::new() }
    }

    /// Handles a message.
    fn take(&mut self, incoming: Incoming) {
        let Incoming { session, message, reply } = incoming;
        let refuse = |reply: oneshot::Sender<Reply>, status, id: &Json, why: &str| {
            let body = answer_text(id, Err(Problem::new(INVALID_REQUEST, why)));
            drop(reply.send(Reply::Answer(status, body, None)));
        };
        let bad = StatusCode::BAD_REQUEST;
        let id = message.as_ref().and_then(|message| message.get("id")).cloned().unwrap_or_default();
        let method = message.as_ref().and_then(|message| message["method"].as_str()).map(str::to_owned);
        let begins = method.as_deref() == Some("initialize") && !id.is_null();
        let session = match session {
            _ if begins => self.begin(),
            Some(session) if self.sessions.contains(&session) => session,
            Some(_) => {
                return refuse(
                    reply,
                    StatusCode::NOT_FOUND,
                    &id,
                    "there is no such session; `initialize` begins one",
                );
            }
            None => {
                return refuse(
                    reply,
                    bad,
                    &id,
                    "`initialize` comes first, and gives the header Mcp-Session-Id",
                );
            }
        };
        let Some(message) = message else {
            self.leave(&session);
            return drop(reply.send(Reply::Nothing(StatusCode::NO_CONTENT)));
        };
        let Some(method) = method else {
            // The server sends no requests, so responses of the client are ignored.
            if message.get("result").is_some() || message.get("error").is_some() {
                return drop(reply.send(Reply::Nothing(StatusCode::ACCEPTED)));
            }
            return refuse(reply, bad, &id, "a message needs a `method`");
        };
        let params = message["params"].clone();
        if id.is_null() {
            if method == "notifications/cancelled"
                && let Some(cancel) = self.cancels.remove(&(session, params["requestId"].to_string()))
            {
                let _ = cancel.send(());
            }
            return drop(reply.send(Reply::Nothing(StatusCode::ACCEPTED)));
        }
        let key = (session, id.to_string());
        if !id.is_string() && !id.is_number() {
            return refuse(reply, bad, &Json::Null, "an `id` is a string or a number");
        }
        if self.cancels.contains_key(&key) {
            return refuse(reply, bad, &id, "a request of this `id` is still being answered");
        }
        let (cancel, cancelled) = oneshot::channel();
        self.cancels.insert(key.clone(), cancel);
        let server = self.server;
        self.requests.push(Box::pin(async move {
            let answer = tokio::select! {
                biased;
                Ok(()) = cancelled => None,
                answer = server.answer(&method, &params) => Some(answer),
            };
            Ended { key, id, answer, begins, reply }
        }));
    }

    /// Starts a session. Returns its ID, which cannot be guessed.
    fn begin(&mut self) -> String {
        if self.sessions.len() == MAX_SESSIONS
            && let Some(oldest) = self.sessions.front().cloned()
        {
            self.leave(&oldest);
        }
        let mut bytes = [0; 16];
        Real::new().random(&mut bytes);
        let name = bytes.map(|byte| format!("{byte:02x}")).concat();
        self.sessions.push_back(name.clone());
        name
    }

    /// Ends a session and cancels its requests.
    fn leave(&mut self, session: &str) {
        self.sessions.retain(|known| known != session);
        let keys: Vec<_> = self.cancels.keys().filter(|(of, _)| of == session).cloned().collect();
        for cancel in keys.iter().filter_map(|key| self.cancels.remove(key)).collect::<Vec<_>>() {
            let _ = cancel.send(());
        }
    }

    /// Sends a response. Returns the exit code if the program called `exit` during the request.
    fn ended(&mut self, ended: Ended) -> Option<u8> {
        let Ended { key, id, answer, begins, reply } = ended;
        self.cancels.remove(&key);
        let Some(answer) = answer else {
            drop(reply.send(Reply::Nothing(StatusCode::ACCEPTED)));
            return None;
        };
        if begins && answer.is_err() {
            self.leave(&key.0);
        }
        let session = (begins && answer.is_ok()).then_some(key.0);
        let code = answer.as_ref().err().and_then(|problem| problem.exit);
        let body = answer_text(&id, answer.map_err(|problem| Problem::new(problem.code, problem.message)));
        // The client may be gone.
        drop(reply.send(Reply::Answer(StatusCode::OK, body, session)));
        code.map(|code| code.clamp(0, 255) as u8)
    }
}
