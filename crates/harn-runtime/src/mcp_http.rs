//! Model Context Protocol servers over Streamable HTTP: each message is a POST, and its reply is JSON, or a stream of
//! events that contains the answer. A broken stream is resumed, and a separate stream (GET) receives messages that the
//! server sends on its own initiative.
//!
//! As with servers that are programs, all input is untrusted: replies have a size limit, all waits have a time limit,
//! unexpected messages are dropped, and a redirect is an error, because it would send the key elsewhere.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use harn_agent::mcp;
use harn_llm::secret::{RedactData, Secret, redact_url};
use harn_llm::sse::{Framer, Framing};
use harn_system::{
    Beside, HttpError, HttpErrorKind, HttpReply, HttpRequest, Refusal, Ruled, SystemExt, Uncertain,
};
use harn_value::{Data as Json, Foreign, Value, json};
use harn_vm::{Cx, Error, Result};

use crate::convert::thrown;
use crate::mcp_callbacks::Callbacks;
use crate::mcp_oauth;

/// Maximum size of a server's message: 16 MiB.
pub(crate) const MAX_MESSAGE: u64 = 16 << 20;

/// Maximum length of a server's URI, session id or protocol version.
const MAX_WORD: usize = 1024;

/// How often a stream is resumed without new events.
const MAX_RESUMES: u32 = 5;

/// The default delay before a stream is resumed, and the maximum that a server may request.
const RESUME_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// Time limit for ending a session.
const GOODBYE: Duration = Duration::from_secs(5);

/// The hidden builtin that runs [`Aside`].
pub(crate) const ASIDE: &str = "__mcp_aside";

/// A server that is reached over HTTP.
pub(crate) struct Link {
    url: String,
    token: RefCell<Option<Secret>>,
    /// Whether the token is from the user's sign-in, and whether it was renewed since the last reply.
    signs_in: bool,
    renewed: Cell<bool>,
    renewals: Cell<u64>,
    /// Headers that the program configured.
    headers: Vec<(String, String)>,
    /// Values of headers that are secrets.
    secrets: Vec<Secret>,
    /// The parameters of `initialize`.
    hello: Json,
    callbacks: Rc<Callbacks>,
    last_id: Cell<u64>,
    /// The session id, if the server assigned one.
    session: RefCell<Option<String>>,
    /// The protocol version of the server.
    version: RefCell<Option<String>>,
    /// Whether the stream for messages of the server is open.
    listens: Cell<bool>,
    closed: Cell<bool>,
}

/// How a request is sent.
#[derive(Clone, Copy)]
pub(crate) struct Manner {
    /// The time limit of the reply.
    pub(crate) timeout: Duration,
    /// How a resumed run handles the request if its effect is in doubt.
    pub(crate) uncertain: Uncertain,
}

/// A duration that means no limit.
const FOREVER: Duration = Duration::from_secs(1 << 40);

impl Manner {
    /// Returns the time limit of a request; `None` for no limit.
    fn limit(self) -> Option<Duration> {
        Some(self.timeout).filter(|timeout| *timeout < FOREVER / 2)
    }
}

/// Background work for a connection.
pub(crate) enum Aside {
    /// Receive the messages that the server sends on its own initiative.
    Listen,
    /// Notify the server that a request was cancelled.
    Cancel(u64),
    /// End the session.
    Close,
}

/// A connection and its background work, as the argument of [`ASIDE`].
struct Errand {
    link: Rc<Link>,
    name: String,
    work: Cell<Option<Aside>>,
}

impl Foreign for Errand {
    fn type_name(&self) -> &'static str {
        "mcp_errand"
    }

    fn print(&self, out: &mut String) {
        out.push_str("<mcp_errand>");
    }

    fn equals(&self, other: &dyn Foreign) -> bool {
        self.address() == other.address()
    }
}

/// Runs the background work of [`ASIDE`]. Its failure is not reported to the program.
///
/// # Errors
/// The running task is interrupted.
pub(crate) async fn run_aside(cx: &Cx, argument: &Value) -> Result<()> {
    let Some(errand) = argument.downcast::<Errand>() else { return Ok(()) };
    let done = match errand.work.take() {
        None => Ok(()),
        Some(Aside::Listen) => errand.link.listen(cx, &errand.name).await,
        Some(Aside::Cancel(id)) => errand.link.tell_cancelled(cx, &errand.name, id).await,
        Some(Aside::Close) => errand.link.close(cx).await,
    };
    done.or_else(|error| if error.is_catchable() { Ok(()) } else { Err(error) })
}

/// A pending request. Dropping it before the reply cancels the request.
struct Asked<'a> {
    cx: &'a Cx,
    link: &'a Rc<Link>,
    name: &'a str,
    id: Option<u64>,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.link.aside(self.cx, self.name, Aside::Cancel(id));
        }
    }
}

/// A stream of events, and its position.
struct Events {
    framer: Framer,
    /// Whether events have arrived since the stream was resumed.
    fresh: bool,
}

/// The end of a stream.
enum End {
    Answer(Vec<u8>),
    /// Without an answer: the error, if the stream broke.
    Over(Option<HttpError>),
}

impl Link {
    pub(crate) fn new(
        url: &str,
        token: Option<&str>,
        headers: &[(String, String)],
        hello: Json,
        callbacks: Rc<Callbacks>,
    ) -> Link {
        let secret = headers.iter().filter(|(name, _)| harn_system::is_secret_header(name));
        Link {
            url: url.to_owned(),
            signs_in: token.is_none() && headers.iter().all(|(name, _)| name != "authorization"),
            renewed: Cell::default(),
            renewals: Cell::default(),
            token: RefCell::new(token.map(Secret::new)),
            secrets: secret.map(|(_, value)| Secret::new(&**value)).collect(),
            headers: headers.to_vec(),
            hello,
            callbacks,
            last_id: Cell::new(0),
            session: RefCell::default(),
            version: RefCell::default(),
            listens: Cell::default(),
            closed: Cell::default(),
        }
    }

    /// Returns the URL for messages: without password, query and fragment.
    pub(crate) fn url(&self) -> String {
        redact_url(self.url.split(['?', '#']).next().unwrap_or(&self.url))
    }

    /// Starts background work.
    pub(crate) fn aside(self: &Rc<Self>, cx: &Cx, name: &str, work: Aside) {
        let errand = Errand { link: self.clone(), name: name.to_owned(), work: Cell::new(Some(work)) };
        if let Some(builtin) = cx.vm().builtin(ASIDE) {
            cx.spawn_for(&cx.task().root_of(), &builtin.value(), vec![Value::foreign(errand)]).detach();
        }
    }

    /// Sends `initialize`, and returns the reply as JSON.
    ///
    /// # Errors
    /// The server cannot be reached, or its reply is invalid. `name` is the name of the server.
    pub(crate) async fn greet(self: &Rc<Self>, cx: &Cx, name: &str, manner: Manner) -> Result<Vec<u8>> {
        let end = Deadline::of(cx, manner);
        self.read_token(cx);
        let answer = self.exchange(cx, name, "initialize", self.hello.clone(), manner).await?;
        let answer = answer.ok_or_else(|| self.forgotten(name))?;
        let said: Json = serde_json::from_slice(&answer).unwrap_or_default();
        let version = said["result"]["protocolVersion"].as_str().filter(|version| is_word(version));
        *self.version.borrow_mut() = version.map(str::to_owned);
        let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        let reply =
            self.post(cx, name, &ready, end.left(cx, manner)).await?.ok_or_else(|| self.forgotten(name))?;
        reply.body.release().await;
        // Some servers announce changes of tools without declaring it.
        let has_tools = said["result"]["capabilities"]["tools"].is_object();
        if (has_tools || self.callbacks.answers().any()) && !self.listens.replace(true) {
            self.aside(cx, name, Aside::Listen);
        }
        Ok(answer)
    }

    /// Reads the token of the user's sign-in.
    fn read_token(&self, cx: &Cx) {
        if self.signs_in {
            let count = match self.renewals.get() {
                0 => String::new(),
                count => format!("_{count}"),
            };
            let token = cx.system().env(&format!("{}{count}", mcp_oauth::token_variable(&self.url)));
            *self.token.borrow_mut() = token.map(Secret::new);
        }
    }

    /// Renews the token of the user's sign-in. Returns whether there is a new one.
    async fn renew_token(&self, cx: &Cx) -> bool {
        if !self.signs_in || self.token.borrow().is_none() || self.renewed.replace(true) {
            return false;
        }
        let Ok(rules) = harn_stdlib::egress_rules(cx.vm()) else { return false };
        let url = self.url.clone();
        // The exchanged data are secrets, so they are not recorded in a journal.
        let work = Beside::new("mcp token", "renew a token", move |system| {
            Box::pin(async move {
                mcp_oauth::refresh(&Ruled { system, rules }, &url).await.map_err(std::io::Error::other)?;
                Ok(Vec::new())
            })
        });
        let renewed = cx.system().beside(work).await.is_ok();
        if renewed {
            self.renewals.set(self.renewals.get() + 1);
            self.read_token(cx);
        }
        renewed
    }

    /// Sends a request, and returns the reply as JSON.
    ///
    /// # Errors
    /// As [`Link::greet`].
    pub(crate) async fn ask(
        self: &Rc<Self>,
        cx: &Cx,
        name: &str,
        method: &str,
        params: Json,
        manner: Manner,
    ) -> Result<Vec<u8>> {
        let end = Deadline::of(cx, manner);
        if let Some(answer) = self.exchange(cx, name, method, params.clone(), manner).await? {
            return Ok(answer);
        }
        // The specification of the protocol, "Session Management": a client that receives 404 starts a new session. The
        // server has not executed the request of the old session.
        *self.session.borrow_mut() = None;
        self.greet(cx, name, end.left(cx, manner)).await?;
        let answer = self.exchange(cx, name, method, params, end.left(cx, manner)).await?;
        answer.ok_or_else(|| self.forgotten(name))
    }

    fn forgotten(&self, name: &str) -> Error {
        thrown(format!(
            "MCP server '{name}' at {} forgets each connection at once: it answers with status 404",
            self.url()
        ))
    }

    /// Sends a request once. `None` when the server no longer knows the session.
    async fn exchange(
        self: &Rc<Self>,
        cx: &Cx,
        name: &str,
        method: &str,
        params: Json,
        manner: Manner,
    ) -> Result<Option<Vec<u8>>> {
        self.last_id.set(self.last_id.get() + 1);
        let id = self.last_id.get();
        let question = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let mut clock = Clock::of(cx, manner, self.callbacks.answers().any());
        // The specification forbids cancelling `initialize`.
        let mut asked = Asked { cx, link: self, name, id: (method != "initialize").then_some(id) };
        let late = || thrown(format!("MCP server '{name}' at {}: no answer in time", self.url()));
        let sent = self.post(cx, name, &question, clock.manner(cx));
        let reply = match clock.within(cx, sent, late).await {
            Ok(Some(reply)) => reply,
            other => {
                asked.id = None;
                return other.map(|_| None);
            }
        };
        if let Some(session) = reply.header("mcp-session-id").filter(|session| is_word(session)) {
            *self.session.borrow_mut() = Some(session.to_owned());
        }
        if !is_stream(&reply) {
            let read = clock.within(cx, reply.read(), || clock.late());
            let bytes = read.await.map_err(|error| self.failed(cx, name, &error))?;
            asked.id = None;
            return match serde_json::from_slice::<Json>(&bytes) {
                Ok(said) if is_answer(&said, id) => Ok(Some(self.without_key(said, bytes))),
                _ => Err(thrown(format!("MCP server '{name}' sent no answer to {method}"))),
            };
        }
        let limit = usize::try_from(MAX_MESSAGE).unwrap_or(usize::MAX);
        let mut events = Events { framer: Framer::new(Framing::Sse, limit), fresh: true };
        let (mut reply, mut resumes) = (reply, 0);
        loop {
            let broken = match self.read_events(cx, name, reply, &mut events, Some(id), &mut clock).await? {
                End::Answer(answer) => {
                    asked.id = None;
                    return Ok(Some(answer));
                }
                End::Over(broken) => broken,
            };
            // The specification, "Resumability and Redelivery": a stream with event ids may be continued.
            resumes = if std::mem::take(&mut events.fresh) { 1 } else { resumes + 1 };
            let last = events.framer.last_event_id().map(str::to_owned);
            let Some(last) = last.filter(|_| resumes <= MAX_RESUMES) else {
                return Err(match broken {
                    Some(error) => self.failed(cx, name, &error),
                    None => {
                        thrown(format!("MCP server '{name}' ended its reply without an answer to {method}"))
                    }
                });
            };
            cx.sleep(pause(&events.framer).min(clock.left(cx))).await?;
            reply = match self.open(cx, name, Some(&last), clock.manner(cx)).await? {
                Some(reply) => reply,
                None => {
                    return Err(thrown(format!(
                        "MCP server '{name}' ended its reply without an answer to {method}, and does not continue it" // prose-ok: diagnostic
                    )));
                }
            };
        }
    }

    /// Reads a stream up to its end, or up to the answer to a request. Requests of the server are answered meanwhile.
    async fn read_events(
        &self,
        cx: &Cx,
        name: &str,
        reply: HttpReply,
        events: &mut Events,
        id: Option<u64>,
        clock: &mut Clock,
    ) -> Result<End> {
        let mut body = reply.body;
        loop {
            let piece = match clock.within(cx, body.next(), || clock.late()).await {
                Ok(piece) => piece,
                // A broken stream is resumed, but not after a timeout.
                Err(error) if error.kind == HttpErrorKind::Broken => return Ok(End::Over(Some(error))),
                Err(error) => return Err(self.failed(cx, name, &error)),
            };
            let mut said = Vec::new();
            let mut take = |text: &str| said.push(text.to_owned());
            let cut = match &piece {
                Some(piece) => events.framer.feed(piece, &mut take),
                None => {
                    events.framer.finish(&mut take);
                    Ok(())
                }
            };
            events.fresh |= !said.is_empty();
            for text in said {
                let Ok(message) = serde_json::from_str::<Json>(&text) else { continue };
                if id.is_some_and(|id| is_answer(&message, id)) {
                    body.release().await;
                    return Ok(End::Answer(self.without_key(message, text.into_bytes())));
                }
                clock.check(cx, || {
                    thrown(format!("MCP server '{name}' at {}: no answer in time", self.url()))
                })?;
                if let Some(answer) = clock.aside(cx, self.callbacks.hear(cx, name, &message)).await? {
                    // Requests of the server do not extend the time limit.
                    if let Some(reply) = self.post(cx, name, &answer, clock.manner(cx)).await? {
                        reply.body.release().await;
                    }
                }
            }
            if cut.is_err() {
                return Err(thrown(format!(
                    "MCP server '{name}': a message is larger than {MAX_MESSAGE} bytes"
                )));
            }
            if piece.is_none() {
                return Ok(End::Over(None));
            }
        }
    }

    /// Receives messages that the server sends on its own initiative, until the connection is closed. Servers without
    /// such a stream reject it.
    async fn listen(&self, cx: &Cx, name: &str) -> Result<()> {
        let limit = usize::try_from(MAX_MESSAGE).unwrap_or(usize::MAX);
        let mut events = Events { framer: Framer::new(Framing::Sse, limit), fresh: false };
        let manner = Manner { timeout: FOREVER, uncertain: Uncertain::Retry };
        let mut failures = 0;
        while !self.closed.get() && failures < MAX_RESUMES {
            let last = events.framer.last_event_id().map(str::to_owned);
            match self.open(cx, name, last.as_deref(), manner).await {
                Ok(Some(reply)) => {
                    let mut clock = Clock::of(cx, manner, false);
                    let ended = self.read_events(cx, name, reply, &mut events, None, &mut clock).await;
                    if ended.as_ref().is_err_and(|error| !error.is_catchable()) {
                        return ended.map(|_| ());
                    }
                }
                Ok(None) => return Ok(()),
                Err(error) if !error.is_catchable() => return Err(error),
                Err(_) => {}
            }
            failures = if std::mem::take(&mut events.fresh) { 0 } else { failures + 1 };
            cx.sleep(pause(&events.framer)).await?;
        }
        Ok(())
    }

    /// Opens a stream, or continues one after an event. `None` if the server does not support it.
    async fn open(
        &self,
        cx: &Cx,
        name: &str,
        last: Option<&str>,
        manner: Manner,
    ) -> Result<Option<HttpReply>> {
        let mut headers = self.headers("text/event-stream");
        headers.extend(last.map(|last| ("last-event-id".to_owned(), last.to_owned())));
        let request = HttpRequest { timeout: manner.limit(), ..self.request(cx, "GET", headers)? };
        let reply = cx.system().http(request).await.map_err(|error| self.failed(cx, name, &error))?;
        if reply.status == 200 && is_stream(&reply) {
            return Ok(Some(reply));
        }
        let status = reply.status;
        reply.body.release().await;
        match status {
            500..=599 | 429 => Err(thrown(format!("MCP server '{name}' answered with status {status}"))),
            _ => Ok(None),
        }
    }

    async fn tell_cancelled(&self, cx: &Cx, name: &str, id: u64) -> Result<()> {
        let params = json!({"requestId": id, "reason": "the caller no longer waits"});
        let told = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
        let manner = Manner { timeout: GOODBYE, uncertain: Uncertain::Retry };
        if let Some(reply) = self.post(cx, name, &told, manner).await? {
            reply.body.release().await;
        }
        Ok(())
    }

    /// Ends the session, if the server has one. A server need not support that.
    pub(crate) async fn close(&self, cx: &Cx) -> Result<()> {
        if self.closed.replace(true) || self.session.borrow().is_none() {
            return Ok(());
        }
        let request = self.request(cx, "DELETE", self.headers("application/json, text/event-stream"))?;
        let request = HttpRequest { timeout: Some(GOODBYE), uncertain: Uncertain::Retry, ..request };
        *self.session.borrow_mut() = None;
        if let Ok(reply) = cx.system().http(request).await {
            reply.body.release().await;
        }
        Ok(())
    }

    /// Redacts keys from a reply, because the reply is passed to the program, the model and the logs.
    fn without_key(&self, mut answer: Json, bytes: Vec<u8>) -> Vec<u8> {
        let token = self.token.borrow();
        let keys = token.iter().chain(&self.secrets);
        let found = keys.fold(false, |found, key| key.redact_answer(&mut answer) | found);
        if found { answer.to_string().into_bytes() } else { bytes }
    }

    fn headers(&self, accept: &str) -> Vec<(String, String)> {
        let mut headers = self.headers.clone();
        headers.push(("accept".to_owned(), accept.to_owned()));
        let version = self.version.borrow().clone().unwrap_or_else(|| mcp::VERSION.to_owned());
        headers.push(("mcp-protocol-version".to_owned(), version));
        headers.extend(self.session.borrow().clone().map(|session| ("mcp-session-id".to_owned(), session)));
        let token = self.token.borrow().as_ref().map(|token| format!("Bearer {}", token.reveal()));
        headers.extend(token.map(|token| ("authorization".to_owned(), token)));
        headers
    }

    fn request(&self, cx: &Cx, method: &str, headers: Vec<(String, String)>) -> Result<HttpRequest> {
        harn_stdlib::check_egress(cx, "mcp_connect", &self.url)?;
        let egress = harn_stdlib::egress_rules(cx.vm())?;
        Ok(HttpRequest { headers, max_response: MAX_MESSAGE, egress, ..HttpRequest::new(method, &*self.url) })
    }

    /// Sends a message, and waits for the head of the reply. `None` when the server no longer knows the session.
    async fn post(&self, cx: &Cx, name: &str, message: &Json, manner: Manner) -> Result<Option<HttpReply>> {
        let reply = loop {
            let mut headers = self.headers("application/json, text/event-stream");
            headers.push(("content-type".to_owned(), "application/json".to_owned()));
            let request = HttpRequest {
                body: Some(message.to_string().into_bytes().into()),
                timeout: manner.limit(),
                uncertain: manner.uncertain,
                ..self.request(cx, "POST", headers)?
            };
            let reply = cx.system().http(request).await.map_err(|error| self.failed(cx, name, &error))?;
            if reply.status != 401 || !self.renew_token(cx).await {
                break reply;
            }
            reply.body.release().await;
        };
        if (200..300).contains(&reply.status) {
            self.renewed.set(false);
            return Ok(Some(reply));
        }
        if reply.status == 404 && self.session.borrow().is_some() {
            reply.body.release().await;
            return Ok(None);
        }
        let why = match reply.status {
            300..=399 => " (it sends elsewhere; name the address that it leads to)",
            401 | 403 if !self.signs_in => " (it wants another `auth_token`)",
            401 | 403 => " (sign in with `harn mcp login`, or give another `auth_token`)",
            _ => "",
        };
        let status = reply.status;
        reply.body.release().await;
        Err(thrown(format!("MCP server '{name}' answered with status {status}{why}")))
    }

    fn failed(&self, cx: &Cx, name: &str, error: &HttpError) -> Error {
        match error.kind {
            HttpErrorKind::Refused => cx.refused(&Refusal::Ceiling("network")),
            HttpErrorKind::InDoubt => Error::category("in_doubt", error.text.clone()),
            HttpErrorKind::Egress => harn_stdlib::egress_error("mcp_connect", &error.text),
            _ => {
                let text = format!("MCP server '{name}' at {}: {}", self.url(), error.text);
                let token = self.token.borrow();
                thrown(token.iter().chain(&self.secrets).fold(text, |text, key| key.redact(&text)))
            }
        }
    }
}

/// Returns the delay before a stream is resumed: the one that the server requests, up to a maximum.
fn pause(framer: &Framer) -> Duration {
    framer.retry_ms().map_or(RESUME_PAUSE, Duration::from_millis).min(MAX_PAUSE)
}

fn is_stream(reply: &HttpReply) -> bool {
    reply.header("content-type").unwrap_or_default().to_ascii_lowercase().starts_with("text/event-stream")
}

/// The deadline of a request including all its parts, on the monotonic clock.
#[derive(Clone, Copy)]
struct Deadline(Duration);

impl Deadline {
    fn of(cx: &Cx, manner: Manner) -> Deadline {
        Deadline(cx.system().monotonic().saturating_add(manner.timeout))
    }

    /// Returns the remaining time; with zero, a request ends immediately.
    fn left(self, cx: &Cx, manner: Manner) -> Manner {
        Manner { timeout: self.0.saturating_sub(cx.system().monotonic()), ..manner }
    }
}

/// The time limit of an exchange, without the duration of the program's callbacks.
struct Clock {
    end: Deadline,
    manner: Manner,
    /// Callbacks may take long, so each wait for the server is limited instead of the whole exchange.
    paused: bool,
}

impl Clock {
    fn of(cx: &Cx, manner: Manner, paused: bool) -> Clock {
        Clock { end: Deadline::of(cx, manner), manner, paused }
    }

    fn left(&self, cx: &Cx) -> Duration {
        self.end.left(cx, self.manner).timeout
    }

    /// Returns how a request of the exchange is sent.
    fn manner(&self, cx: &Cx) -> Manner {
        let timeout = if self.paused { FOREVER } else { self.left(cx) };
        Manner { timeout, ..self.manner }
    }

    /// Waits for the server.
    async fn within<T, E>(
        &self,
        cx: &Cx,
        wait: impl Future<Output = std::result::Result<T, E>>,
        late: impl FnOnce() -> E,
    ) -> std::result::Result<T, E> {
        if !self.paused {
            return wait.await;
        }
        cx.system().within_limit(self.left(cx), wait).await.unwrap_or_else(|| Err(late()))
    }

    fn late(&self) -> HttpError {
        HttpError::new(HttpErrorKind::Timeout, format!("no answer within {:?}", self.manner.timeout))
    }

    /// Waits for the program.
    async fn aside<T>(&mut self, cx: &Cx, work: impl Future<Output = T>) -> T {
        if !self.paused {
            return work.await;
        }
        let before = cx.system().monotonic();
        let done = work.await;
        let took = cx.system().monotonic().saturating_sub(before);
        self.end.0 = self.end.0.saturating_add(took);
        done
    }

    fn check(&self, cx: &Cx, late: impl FnOnce() -> Error) -> Result<()> {
        if self.paused && self.left(cx).is_zero() { Err(late()) } else { Ok(()) }
    }
}

/// Returns whether a string from the server is valid in a header.
fn is_word(text: &str) -> bool {
    !text.is_empty() && text.len() <= MAX_WORD && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Returns whether a message is the answer to the request with this id.
fn is_answer(message: &Json, id: u64) -> bool {
    message["id"].as_u64() == Some(id) && message["method"].is_null()
}
