//! HTTP exchanges with a provider: one request, its streamed reply, and the possible failures.
//!
//! A `Carrier` sends a request to its server. `network.rs` is the one that uses the network, through the
//! [`System`](harn_system::System). `cassette.rs` has a carrier that records the exchanges of another one, and one that
//! replays a recording.

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

/// The reason of the error after which a body restarts: the run was interrupted, and the repeated reply differs.
const RESTARTED: &str = "restarted";

/// The maximum number of bytes read of the body of an error reply.
const MAX_ERROR_BODY: usize = 16 << 10;

/// An HTTP request of any kind.
#[derive(Clone)]
pub struct HttpRequest<'a> {
    /// The provider, for messages.
    pub provider: &'a str,
    /// `GET` or `POST`.
    pub method: &'a str,
    /// Full URL.
    pub url: String,
    /// All headers except content type and authorisation.
    pub headers: Vec<(String, String)>,
    /// Authorisation headers; never recorded.
    pub auth: Vec<(String, Secret)>,
    /// JSON body, as it is sent.
    pub body: Option<Payload>,
    /// The egress rules for its connections.
    pub egress: Option<Arc<Egress>>,
    /// The deadline, on the carrier's clock.
    pub deadline: Duration,
    /// The timeout from which the deadline was computed, for messages.
    pub timeout: Duration,
    /// Whether the body is only used once it is complete.
    pub whole: bool,
}

/// A reply whose body has not been read yet.
pub(crate) struct HttpReply<'a> {
    pub(crate) head: ReplyHead,
    pub(crate) body: Box<dyn ReplyBody + 'a>,
}

/// The streamed body of a reply.
pub(crate) trait ReplyBody {
    /// Returns the next chunk; `None` at the end.
    ///
    /// # Errors
    /// No chunk arrived within `idle`, or the connection failed.
    fn chunk(&mut self, idle: Option<Duration>) -> LocalFuture<'_, Result<Option<Bytes>, LlmError>>;

    /// Releases a body whose reply is complete, so that its connection can be reused.
    fn release<'a>(self: Box<Self>) -> LocalFuture<'a, ()>
    where
        Self: 'a;
}

/// Sends requests to servers.
pub(crate) trait Carrier {
    /// Sends a request and returns the reply once its headers have arrived.
    fn send<'a>(&'a self, request: &'a HttpRequest<'a>) -> LocalFuture<'a, Result<HttpReply<'a>, LlmError>>;

    /// Returns the current time of the clock to which deadlines refer.
    fn now(&self) -> Duration;
}

/// A complete reply.
#[derive(Debug, Clone)]
pub struct WholeReply {
    /// Status and headers.
    pub head: ReplyHead,
    /// The body.
    pub text: String,
}

impl HttpReply<'_> {
    /// Reads at most `limit` bytes of the body as text. If the body ends with an error, returns what was read before
    /// it.
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
/// No reply arrived.
pub(crate) async fn fetch(
    carrier: &dyn Carrier,
    request: &HttpRequest<'_>,
    limit: usize,
) -> Result<WholeReply, LlmError> {
    let mut reply = carrier.send(request).await?;
    let text = reply.text(limit).await;
    Ok(WholeReply { head: reply.head.clone(), text })
}

/// Receives each event of a reply, and can abort the reply with an error.
type Watching<'w> = dyn FnMut(&StreamEvent) -> Result<(), LlmError> + 'w;

/// Sends a model request, decodes the reply as it arrives, and passes every event to `watch`.
///
/// # Errors
/// The exchange fails before the reply is complete, or `watch` aborts it; the connection is then closed.
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
        // Drops the sources of the body, which are not needed while waiting for the reply.
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
