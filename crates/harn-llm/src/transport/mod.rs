//! HTTP with a provider: one request, its reply piece by piece, and what can go wrong on the way.
//!
//! A `Carrier` brings a request to its server. `network.rs` is the one that does, through the [`System`](harn_system::System);
//! `cassette.rs` has one around another that records, and one that answers from a recording.

mod cassette;
mod network;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use harn_system::{Egress, Payload};

use crate::embedder::LocalFuture;
use crate::error::{Category, Kind, LlmError};
use crate::event::StreamEvent;
use crate::request::Request;
use crate::response::ResponseBuilder;
use crate::secret::Secret;
use crate::wire::{ReplyReader, WireRequest};

pub use crate::reply_head::ReplyHead;
pub(crate) use cassette::{Recording, Replaying};
pub(crate) use network::Network;

/// The reason of the error with which a body begins again: the run was interrupted, and the repeated reply differs.
const RESTARTED: &str = "restarted";

/// What is kept of the body of an error reply.
const MAX_ERROR_BODY: usize = 16 << 10;

/// An HTTP request of any kind.
#[derive(Clone)]
pub struct HttpRequest<'a> {
    /// For messages.
    pub provider: &'a str,
    /// `GET` or `POST`.
    pub method: &'a str,
    /// Whole address.
    pub url: String,
    /// All headers but content type and authorisation.
    pub headers: Vec<(String, String)>,
    /// Authorisation header; never recorded.
    pub auth: Vec<(String, Secret)>,
    /// JSON body, as it is sent.
    pub body: Option<Payload>,
    /// The rules for its connections.
    pub egress: Option<Arc<Egress>>,
    /// When to give up, on the clock of the carrier.
    pub deadline: Duration,
    /// The timeout behind the deadline, for messages.
    pub timeout: Duration,
    /// Whether nothing is done with the body before all of it is there.
    pub whole: bool,
}

/// A reply whose body is still to be read.
pub(crate) struct HttpReply<'a> {
    pub(crate) head: ReplyHead,
    pub(crate) body: Box<dyn ReplyBody + 'a>,
}

/// The body of a reply, as it comes.
pub(crate) trait ReplyBody {
    /// The next piece; `None` at its end. More than `idle` without one is an error.
    fn chunk(&mut self, idle: Option<Duration>) -> LocalFuture<'_, Result<Option<Bytes>, LlmError>>;

    /// Gives up a body whose reply is complete, such that its connection can serve the next call.
    fn release<'a>(self: Box<Self>) -> LocalFuture<'a, ()>
    where
        Self: 'a;
}

/// Whoever brings requests to servers.
pub(crate) trait Carrier {
    /// Sends a request and returns the reply once its headers are there.
    fn send<'a>(&'a self, request: &'a HttpRequest<'a>) -> LocalFuture<'a, Result<HttpReply<'a>, LlmError>>;

    /// The time of the clock that deadlines belong to.
    fn now(&self) -> Duration;
}

/// A reply read to its end.
#[derive(Debug, Clone)]
pub struct WholeReply {
    /// Status and headers.
    pub head: ReplyHead,
    /// The body.
    pub text: String,
}

impl HttpReply<'_> {
    /// Reads at most `limit` bytes of the body as text; a body that breaks off gives what came.
    async fn text(&mut self, limit: usize) -> String {
        let mut bytes = Vec::new();
        while let Ok(Some(chunk)) = self.body.chunk(None).await {
            let room = limit.saturating_sub(bytes.len());
            bytes.extend_from_slice(&chunk[..chunk.len().min(room)]);
            if chunk.len() >= room {
                break;
            }
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// Sends a request and reads the reply as text, up to `limit` bytes, whatever its status.
///
/// # Errors
/// No reply came.
pub(crate) async fn fetch(
    carrier: &dyn Carrier,
    request: &HttpRequest<'_>,
    limit: usize,
) -> Result<WholeReply, LlmError> {
    let mut reply = carrier.send(request).await?;
    let text = reply.text(limit).await;
    Ok(WholeReply { head: reply.head.clone(), text })
}

/// Receives each event of a reply, and may stop it with an error.
type Watching<'w> = dyn FnMut(&StreamEvent) -> Result<(), LlmError> + 'w;

/// Exchanges a model request: sends it, decodes the reply as it comes, and hands every event on.
///
/// # Errors
/// Anything between here and a complete reply, and what `watch` stops it with; the connection is
/// closed then.
pub(crate) async fn exchange(
    carrier: &dyn Carrier,
    request: &Request,
    wire: WireRequest,
    auth: Vec<(String, Secret)>,
    now_ms: i64,
    watch: &mut Watching<'_>,
) -> Result<ResponseBuilder, LlmError> {
    let route = &request.route;
    let provider = route.provider.as_str();
    let mut headers = route.plain_headers();
    headers.extend(wire.headers);
    let http = HttpRequest {
        provider,
        method: "POST",
        url: wire.url,
        headers,
        auth,
        // What it was written from is gone while the reply is waited for.
        body: Some(wire.body.into_payload()),
        egress: route.egress.clone(),
        deadline: carrier.now() + request.timeout,
        timeout: request.timeout,
        whole: !wire.stream,
    };
    watch(&StreamEvent::Sent)?;
    let mut reply = carrier.send(&http).await?;
    if !reply.head.is_success() {
        let read = reply.text(MAX_ERROR_BODY + route.longest_secret()).await;
        let hidden = route.hide(&read);
        let body = crate::json::clip(&hidden, MAX_ERROR_BODY);
        return Err(LlmError::http(provider, &reply.head, body, now_ms));
    }
    let mut reader = ReplyReader::new(request, wire.stream);
    let mut builder = ResponseBuilder::default();
    let mut events = Vec::new();
    let give = |events: &mut Vec<StreamEvent>, builder: &mut ResponseBuilder, watch: &mut Watching<'_>| {
        events.drain(..).try_for_each(|event| {
            builder.push(&event);
            watch(&event)
        })
    };
    let mut at_end = false;
    while !reader.is_over() {
        match reply.body.chunk(request.idle_timeout).await {
            Ok(None) => {
                at_end = true;
                break;
            }
            Ok(Some(chunk)) => {
                let fed = reader.feed(&chunk, &mut events);
                give(&mut events, &mut builder, watch)?;
                fed.map_err(|e| e.with_usage(reader.usage()))?;
            }
            Err(error) if error.reason == RESTARTED => {
                reader = ReplyReader::new(request, wire.stream);
                builder = ResponseBuilder::default();
                watch(&StreamEvent::Restart)?;
            }
            Err(error) => return Err(error.with_usage(reader.usage())),
        }
    }
    let ended = reader.finish(request, &reply.head.content_type, &mut events);
    give(&mut events, &mut builder, watch)?;
    ended?;
    if !at_end {
        reply.body.release().await;
    }
    Ok(builder)
}

fn invalid_request(message: String) -> LlmError {
    let mut error = LlmError::new(Category::Generic, message);
    (error.kind, error.reason) = (Kind::Terminal, "invalid_request");
    error
}
