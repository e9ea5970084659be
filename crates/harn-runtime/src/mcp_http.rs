//! Servers of the Model Context Protocol that are reached over HTTP: each message is a POST, and its reply is JSON, or a stream of
//! events with the answer among them.
//!
//! As with servers that are programs, nothing that comes is trusted: a reply has a limit, every wait has an end, what is no answer
//! to the question is passed over, and a redirect, which would take the key elsewhere, is an error.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use harn_agent::mcp;
use harn_llm::secret::{RedactData, Secret, redact_url};
use harn_llm::sse::{Framer, Framing};
use harn_system::{HttpError, HttpErrorKind, HttpReply, HttpRequest, Refusal, Uncertain};
use harn_value::{Data as Json, json};
use harn_vm::{Cx, Error, Result};

use crate::convert::thrown;

/// The largest message of a server: 16 MiB.
pub(crate) const MAX_MESSAGE: u64 = 16 << 20;

/// The longest that an address, session or version of a server may be.
const MAX_WORD: usize = 1024;

/// A server that is reached over HTTP.
pub(crate) struct Link {
    url: String,
    token: Option<Secret>,
    /// The parameters of `initialize`.
    hello: Json,
    last_id: Cell<u64>,
    /// What the server calls this connection, when it has a word for it.
    session: RefCell<Option<String>>,
    /// The version of the protocol that the server speaks.
    version: RefCell<Option<String>>,
}

/// How a question is asked.
#[derive(Clone, Copy)]
pub(crate) struct Manner {
    /// How long the answer may take.
    pub(crate) timeout: Duration,
    /// What a run that goes on does with it when nobody knows whether it was carried out.
    pub(crate) uncertain: Uncertain,
}

impl Link {
    pub(crate) fn new(url: &str, token: Option<&str>, hello: Json) -> Link {
        Link {
            url: url.to_owned(),
            token: token.map(Secret::new),
            hello,
            last_id: Cell::new(0),
            session: RefCell::default(),
            version: RefCell::default(),
        }
    }

    /// The address, for people: without a password and what stands behind the path.
    pub(crate) fn url(&self) -> String {
        redact_url(self.url.split(['?', '#']).next().unwrap_or(&self.url))
    }

    /// Greets the server, and gives its answer as JSON.
    ///
    /// # Errors
    /// It cannot be reached, or what it says is no answer. `name` says which server it is.
    pub(crate) async fn greet(&self, cx: &Cx, name: &str, manner: Manner) -> Result<Vec<u8>> {
        let end = Deadline::of(cx, manner);
        let answer = self.exchange(cx, name, "initialize", self.hello.clone(), manner).await?;
        let answer = answer.ok_or_else(|| self.forgotten(name))?;
        let said: Json = serde_json::from_slice(&answer).unwrap_or_default();
        let version = said["result"]["protocolVersion"].as_str().filter(|version| is_word(version));
        *self.version.borrow_mut() = version.map(str::to_owned);
        let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        let reply =
            self.post(cx, name, &ready, end.left(cx, manner)).await?.ok_or_else(|| self.forgotten(name))?;
        reply.body.release().await;
        Ok(answer)
    }

    /// Asks the server, and gives its answer as JSON.
    ///
    /// # Errors
    /// As [`Link::greet`].
    pub(crate) async fn ask(
        &self,
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
        // The specification of the protocol, "Session Management": whoever is answered 404 begins a new session. The server has
        // not carried out what it was asked in the old one.
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

    /// Asks the server once. `None` when it knows nothing of this connection any more.
    async fn exchange(
        &self,
        cx: &Cx,
        name: &str,
        method: &str,
        params: Json,
        manner: Manner,
    ) -> Result<Option<Vec<u8>>> {
        self.last_id.set(self.last_id.get() + 1);
        let id = self.last_id.get();
        let question = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let end = Deadline::of(cx, manner);
        let Some(reply) = self.post(cx, name, &question, manner).await? else { return Ok(None) };
        if let Some(session) = reply.header("mcp-session-id").filter(|session| is_word(session)) {
            *self.session.borrow_mut() = Some(session.to_owned());
        }
        let broken = |error: &HttpError| self.failed(cx, name, error);
        let kind = reply.header("content-type").unwrap_or_default().to_ascii_lowercase();
        if !kind.starts_with("text/event-stream") {
            let bytes = reply.read().await.map_err(|error| broken(&error))?;
            return match serde_json::from_slice::<Json>(&bytes) {
                Ok(said) if is_answer(&said, id) => Ok(Some(self.without_key(said, bytes))),
                _ => Err(thrown(format!("MCP server '{name}' sent no answer to {method}"))),
            };
        }
        let mut body = reply.body;
        let limit = usize::try_from(MAX_MESSAGE).unwrap_or(usize::MAX);
        let mut framer = Framer::new(Framing::Sse, limit);
        loop {
            let piece = body.next().await.map_err(|error| broken(&error))?;
            let mut said = Vec::new();
            let mut take = |text: &str| said.push(text.to_owned());
            let cut = match &piece {
                Some(piece) => framer.feed(piece, &mut take),
                None => {
                    framer.finish(&mut take);
                    Ok(())
                }
            };
            for text in said {
                let Ok(message) = serde_json::from_str::<Json>(&text) else { continue };
                if is_answer(&message, id) {
                    body.release().await;
                    return Ok(Some(self.without_key(message, text.into_bytes())));
                }
                // A server that asks on and on does not put off the end.
                self.reply_to(cx, name, &message, end.left(cx, manner)).await?;
            }
            if cut.is_err() {
                return Err(thrown(format!("MCP server '{name}': a message is larger than {limit} bytes")));
            }
            if piece.is_none() {
                return Err(thrown(format!(
                    "MCP server '{name}' ended its reply without an answer to {method}"
                )));
            }
        }
    }

    /// The bytes of an answer without the key, should the server repeat it: the answer goes to the program, the model and the logs.
    fn without_key(&self, mut answer: Json, bytes: Vec<u8>) -> Vec<u8> {
        match &self.token {
            Some(token) if token.redact_answer(&mut answer) => answer.to_string().into_bytes(),
            _ => bytes,
        }
    }

    /// Answers a question of the server; anything else is passed over.
    async fn reply_to(&self, cx: &Cx, name: &str, message: &Json, manner: Manner) -> Result<()> {
        let id = &message["id"];
        let (Some(method), false) = (message["method"].as_str(), id.is_null()) else { return Ok(()) };
        let answer = match method {
            "ping" => json!({"jsonrpc": "2.0", "id": id, "result": {}}),
            _ => {
                json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "Method not found"}})
            }
        };
        if let Some(reply) = self.post(cx, name, &answer, manner).await? {
            reply.body.release().await;
        }
        Ok(())
    }

    /// Sends a message, and waits for the head of the reply. `None` when the server knows nothing of this connection any more.
    async fn post(&self, cx: &Cx, name: &str, message: &Json, manner: Manner) -> Result<Option<HttpReply>> {
        let mut headers = vec![
            ("content-type".to_owned(), "application/json".to_owned()),
            ("accept".to_owned(), "application/json, text/event-stream".to_owned()),
        ];
        let version = self.version.borrow().clone().unwrap_or_else(|| mcp::VERSION.to_owned());
        headers.push(("mcp-protocol-version".to_owned(), version));
        headers.extend(self.session.borrow().clone().map(|session| ("mcp-session-id".to_owned(), session)));
        headers.extend(
            self.token
                .as_ref()
                .map(|token| ("authorization".to_owned(), format!("Bearer {}", token.reveal()))),
        );
        harn_stdlib::check_egress(cx, "mcp_connect", &self.url)?;
        let request = HttpRequest {
            headers,
            body: Some(message.to_string().into_bytes().into()),
            timeout: Some(manner.timeout),
            max_response: MAX_MESSAGE,
            uncertain: manner.uncertain,
            egress: harn_stdlib::egress_rules(cx.vm())?,
            ..HttpRequest::new("POST", &*self.url)
        };
        let reply = cx.system().http(request).await.map_err(|error| self.failed(cx, name, &error))?;
        if (200..300).contains(&reply.status) {
            return Ok(Some(reply));
        }
        if reply.status == 404 && self.session.borrow().is_some() {
            reply.body.release().await;
            return Ok(None);
        }
        let why = match reply.status {
            300..=399 => " (it sends elsewhere; name the address that it leads to)",
            401 | 403 => " (it wants another `auth_token`)",
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
                thrown(self.token.as_ref().map_or_else(|| text.clone(), |token| token.redact(&text)))
            }
        }
    }
}

/// When a question and all that belongs to it must be over, on the clock that never goes back.
#[derive(Clone, Copy)]
struct Deadline(Duration);

impl Deadline {
    fn of(cx: &Cx, manner: Manner) -> Deadline {
        Deadline(cx.system().monotonic().saturating_add(manner.timeout))
    }

    /// What is left of the time; nothing is a request that ends at once.
    fn left(self, cx: &Cx, manner: Manner) -> Manner {
        Manner { timeout: self.0.saturating_sub(cx.system().monotonic()), ..manner }
    }
}

/// What a server says of itself and may stand in a header.
fn is_word(text: &str) -> bool {
    !text.is_empty() && text.len() <= MAX_WORD && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Whether a message answers the question with this number.
fn is_answer(message: &Json, id: u64) -> bool {
    message["id"].as_u64() == Some(id) && message["method"].is_null()
}
