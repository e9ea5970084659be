//! HTTP: one request, its reply chunk by chunk, and what can go wrong on the way.
//!
//! The client is made on first use, so that a program without model calls does not pay for TLS set-up.
//! Redirects are followed by hand and only to the same origin, so keys never travel elsewhere.

use std::cell::{OnceCell, RefCell};
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;
use url::Url;

use crate::error::{Category, Kind, LlmError};
use crate::event::StreamEvent;
use crate::record::{Cassette, Recorded};
use crate::request::Request;
use crate::response::ResponseBuilder;
use crate::secret::redact_url;
use crate::wire::{Body as RequestBody, ReplyReader, WireRequest};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
const MAX_REDIRECTS: usize = 5;
/// How long a call waits for the end of a body behind a reply that is complete. Servers send it right behind.
const LINGER: Duration = Duration::from_millis(20);
/// How long and how much is read beside the program when it did not come by then.
const DRAIN: (Duration, usize) = (Duration::from_secs(5), 64 << 10);
/// What is kept of the body of an error reply.
const MAX_ERROR_BODY: usize = 16 << 10;

/// Finds the addresses of a host.
pub type Resolver = dyn Fn(&str) -> std::io::Result<Vec<IpAddr>> + Send + Sync;

/// The HTTP side of a runtime.
#[derive(Default)]
pub struct Transport {
    /// Finds addresses instead of the system, once set; then no proxy is used either.
    pub resolver: OnceCell<Arc<Resolver>>,
    /// For hosts elsewhere: honours proxies of the environment.
    proxied: OnceCell<reqwest::Client>,
    /// For this machine: never goes through a proxy.
    direct: OnceCell<reqwest::Client>,
    /// Where exchanges are recorded to or replayed from.
    pub cassette: RefCell<Option<Cassette>>,
}

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
    pub auth: Vec<(String, crate::secret::Secret)>,
    /// JSON body.
    pub body: Option<RequestBody>,
    /// When to give up.
    pub deadline: Instant,
    /// The timeout behind the deadline, for messages.
    pub timeout: Duration,
}

/// Status line and the headers that matter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplyHead {
    /// Status code.
    pub status: u16,
    /// Reason phrase.
    pub phrase: String,
    /// `content-type`, or `unknown`.
    pub content_type: String,
    /// `retry-after`.
    pub retry_after: Option<String>,
}

impl ReplyHead {
    /// Returns whether the status is a success.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

/// A reply whose body is still to be read. When it is dropped, what was read of it is recorded.
struct HttpReply<'a> {
    head: ReplyHead,
    body: Body,
    exchange: Exchange<'a>,
}

/// An exchange on its way into a recording: written when it is over, however it ended.
struct Exchange<'a> {
    transport: &'a Transport,
    request: &'a HttpRequest<'a>,
    recorded: Recorded,
}

impl Drop for Exchange<'_> {
    fn drop(&mut self) {
        if let Some(Cassette::Record(tape)) = &mut *self.transport.cassette.borrow_mut() {
            tape.add(self.request, &self.recorded);
        }
    }
}

/// A reply read to its end.
#[derive(Debug, Clone)]
pub struct WholeReply {
    /// Status and headers.
    pub head: ReplyHead,
    /// The body.
    pub text: String,
}

enum Body {
    Net(reqwest::Response),
    /// Bytes, and then what broke the recorded exchange off.
    Recorded(Option<Bytes>, Option<LlmError>),
}

impl HttpReply<'_> {
    /// The next piece of the body; `None` at its end.
    async fn chunk(&mut self, idle: Option<Duration>) -> Result<Option<Bytes>, LlmError> {
        let request = self.exchange.request;
        let response = match &mut self.body {
            Body::Recorded(bytes, failure) => {
                return match (bytes.take(), failure.take()) {
                    (Some(bytes), later) => {
                        *failure = later;
                        Ok(Some(bytes))
                    }
                    (None, Some(failure)) => Err(failure),
                    (None, None) => Ok(None),
                };
            }
            Body::Net(response) => response,
        };
        let until = idle.map_or(request.deadline, |idle| request.deadline.min(Instant::now() + idle));
        let error = match tokio::time::timeout_at(until, response.chunk()).await {
            Ok(Ok(chunk)) => {
                if let Some(chunk) = chunk.as_ref().filter(|_| self.exchange.transport.is_recording()) {
                    self.exchange.recorded.body.extend_from_slice(chunk);
                }
                return Ok(chunk);
            }
            Ok(Err(e)) => LlmError::new(
                Category::TransientNetwork,
                format!("{} stream error (body): {}", request.provider, describe(&e)),
            ),
            Err(_) => silent(idle.filter(|_| until < request.deadline), request.timeout),
        };
        self.exchange.recorded.failure = Some(error.clone());
        Err(error)
    }

    /// Reads the end of a body whose reply is complete: only then the connection serves the next call.
    async fn release(&mut self) {
        let Body::Net(response) = &mut self.body else { return };
        if tokio::time::timeout(LINGER, drain(response)).await.is_err()
            && let Body::Net(mut response) = std::mem::replace(&mut self.body, Body::Recorded(None, None))
        {
            tokio::spawn(async move { tokio::time::timeout(DRAIN.0, drain(&mut response)).await });
        }
    }

    /// Reads at most `limit` bytes of the body as text; a body that breaks off gives what came.
    async fn text(&mut self, limit: usize) -> String {
        let mut bytes = Vec::new();
        while let Ok(Some(chunk)) = self.chunk(None).await {
            let room = limit.saturating_sub(bytes.len());
            bytes.extend_from_slice(&chunk[..chunk.len().min(room)]);
            if chunk.len() >= room {
                break;
            }
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// Reads a body to its end, or until it is too long to be worth the connection.
async fn drain(response: &mut reqwest::Response) {
    let mut room = DRAIN.1;
    while let Ok(Some(chunk)) = response.chunk().await {
        match room.checked_sub(chunk.len()) {
            Some(rest) => room = rest,
            None => return,
        }
    }
}

/// The pieces of a body on their way out; how long they are is known from the start.
struct Outgoing {
    pieces: std::vec::IntoIter<Bytes>,
    left: u64,
}

fn outgoing(body: &RequestBody) -> reqwest::Body {
    let pieces = body.pieces();
    let left = pieces.iter().map(|piece| piece.len() as u64).sum();
    reqwest::Body::wrap(Outgoing { pieces: pieces.into_iter(), left })
}

impl http_body::Body for Outgoing {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, Self::Error>>> {
        Poll::Ready(self.pieces.next().map(|piece| {
            self.left -= piece.len() as u64;
            Ok(http_body::Frame::data(piece))
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> http_body::SizeHint {
        http_body::SizeHint::with_exact(self.left)
    }
}

/// The cause chain of an error without the address, which may hold a key.
fn describe(error: &reqwest::Error) -> String {
    let mut out = String::new();
    let mut source: Option<&dyn std::error::Error> = std::error::Error::source(error);
    while let Some(cause) = source {
        let text = cause.to_string();
        if !out.contains(&text) {
            if !out.is_empty() {
                out.push_str(": ");
            }
            out.push_str(&text);
        }
        source = cause.source();
    }
    if out.is_empty() { "connection failed".to_string() } else { out }
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(url::Host::Ipv4(ip)) => ip.is_loopback(),
        Some(url::Host::Ipv6(ip)) => ip.is_loopback(),
        None => false,
    }
}

/// A [`Resolver`] as the client wants it.
struct Resolve(Arc<Resolver>);

impl reqwest::dns::Resolve for Resolve {
    fn resolve(&self, name: reqwest::dns::Name) -> reqwest::dns::Resolving {
        let found = (self.0)(name.as_str());
        Box::pin(async {
            // The port comes from the address of the request.
            let addresses = found?.into_iter().map(|ip| SocketAddr::new(ip, 0));
            Ok(Box::new(addresses) as reqwest::dns::Addrs)
        })
    }
}

fn build_client(direct: bool, resolver: Option<&Arc<Resolver>>) -> Result<reqwest::Client, reqwest::Error> {
    // Another part of the program may have installed a provider already; either will do.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = || {
        let b = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("harn/", env!("CARGO_PKG_VERSION")));
        let b = if direct { b.no_proxy() } else { b };
        match resolver {
            Some(resolver) => b.dns_resolver(Arc::new(Resolve(resolver.clone()))),
            None => b,
        }
    };
    // A machine without root certificates can still talk plain HTTP to a local server.
    builder().build().or_else(|_| builder().tls_certs_only([]).build())
}

impl Transport {
    fn client(&self, url: &Url) -> Result<&reqwest::Client, reqwest::Error> {
        let resolver = self.resolver.get();
        let direct = resolver.is_some() || is_loopback(url);
        let cell = if direct { &self.direct } else { &self.proxied };
        if let Some(client) = cell.get() {
            return Ok(client);
        }
        let client = build_client(direct, resolver)?;
        Ok(cell.get_or_init(|| client))
    }

    /// Sends a request and returns the reply once its headers are there.
    async fn send<'a>(&'a self, request: &'a HttpRequest<'a>) -> Result<HttpReply<'a>, LlmError> {
        let replayed = match &mut *self.cassette.borrow_mut() {
            Some(Cassette::Replay(tape)) => Some(tape.find(request)?),
            _ => None,
        };
        let mut exchange = Exchange { transport: self, request, recorded: Recorded::default() };
        if let Some(recorded) = replayed {
            return match (recorded.head, recorded.failure) {
                (Some(head), failure) => {
                    let body = Body::Recorded(Some(recorded.body.into()), failure);
                    Ok(HttpReply { head, body, exchange })
                }
                (None, failure) => {
                    Err(failure.unwrap_or_else(|| LlmError::new(Category::Generic, "nothing was recorded")))
                }
            };
        }
        match self.follow(request).await {
            Ok(response) => {
                let head = head_of(&response);
                exchange.recorded.head = Some(head.clone());
                Ok(HttpReply { head, body: Body::Net(response), exchange })
            }
            Err(error) => {
                exchange.recorded.failure = Some(error.clone());
                Err(error)
            }
        }
    }

    /// Sends a request, and again wherever the host redirects it to on itself.
    async fn follow(&self, request: &HttpRequest<'_>) -> Result<reqwest::Response, LlmError> {
        let provider = request.provider;
        let mut url = Url::parse(&request.url).map_err(|e| {
            let shown = redact_url(&request.url);
            invalid_request(format!("{provider} API error: invalid address `{shown}`: {e}"))
        })?;
        for _ in 0..=MAX_REDIRECTS {
            let response = self.send_once(request, &url).await?;
            if !response.status().is_redirection() {
                return Ok(response);
            }
            let target = response.headers().get("location").and_then(|v| v.to_str().ok());
            let Some(next) = target.and_then(|t| url.join(t).ok()) else { return Ok(response) };
            if next.origin() != url.origin() {
                return Err(invalid_request(format!(
                    // prose-ok: diagnostic
                    "{provider} API error: redirected to {}, another host, which is not followed; set the provider's base URL to it if it is right",
                    next.origin().ascii_serialization()
                )));
            }
            url = next;
        }
        Err(invalid_request(format!(
            "{provider} API error: more than {MAX_REDIRECTS} redirects, the last to {}",
            url.path()
        )))
    }

    async fn send_once(&self, request: &HttpRequest<'_>, url: &Url) -> Result<reqwest::Response, LlmError> {
        let provider = request.provider;
        let failed =
            |text: String| LlmError::new(Category::TransientNetwork, format!("{provider} API error: {text}"));
        let client = self.client(url).map_err(|e| failed(describe(&e)))?;
        let method = if request.method == "GET" { reqwest::Method::GET } else { reqwest::Method::POST };
        let mut builder = client.request(method, url.clone());
        for (name, value) in &request.headers {
            builder = builder.header(name, value);
        }
        for (name, secret) in &request.auth {
            let mut value = reqwest::header::HeaderValue::from_str(secret.reveal()).map_err(|_| {
                let message =
                    format!("{provider} API error: the API key holds characters that a header cannot carry");
                LlmError::new(Category::Auth, message)
            })?;
            value.set_sensitive(true);
            builder = builder.header(name, value);
        }
        if let Some(body) = &request.body {
            builder = builder.header("content-type", "application/json").body(outgoing(body));
        }
        match tokio::time::timeout_at(request.deadline, builder.send()).await {
            Err(_) => Err(timed_out(provider, request.timeout)),
            Ok(Err(e)) if e.is_timeout() => Err(timed_out(provider, CONNECT_TIMEOUT)),
            Ok(Err(e)) if e.is_builder() => {
                Err(invalid_request(format!("{provider} API error: {}", describe(&e))))
            }
            Ok(Err(e)) => Err(failed(describe(&e))),
            Ok(Ok(response)) => Ok(response),
        }
    }

    /// Sends a request and reads the reply as text, up to `limit` bytes, whatever its status.
    ///
    /// # Errors
    /// No reply came.
    pub async fn fetch(&self, request: &HttpRequest<'_>, limit: usize) -> Result<WholeReply, LlmError> {
        let mut reply = self.send(request).await?;
        let text = reply.text(limit).await;
        Ok(WholeReply { head: reply.head.clone(), text })
    }

    fn is_recording(&self) -> bool {
        matches!(&*self.cassette.borrow(), Some(Cassette::Record(_)))
    }

    /// Exchanges a model request: sends it, decodes the reply as it comes, and hands every event on.
    ///
    /// # Errors
    /// Anything between here and a complete reply, and what `watch` stops it with; the connection is
    /// closed then.
    pub async fn exchange(
        &self,
        request: &Request,
        wire: WireRequest,
        auth: Vec<(String, crate::secret::Secret)>,
        now_ms: i64,
        watch: &mut dyn FnMut(&StreamEvent) -> Result<(), LlmError>,
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
            body: Some(wire.body),
            deadline: Instant::now() + request.timeout,
            timeout: request.timeout,
        };
        let mut reply = self.send(&http).await?;
        if !reply.head.is_success() {
            let read = reply.text(MAX_ERROR_BODY + route.longest_secret()).await;
            let hidden = route.hide(&read);
            let body = crate::json::clip(&hidden, MAX_ERROR_BODY);
            return Err(LlmError::http(provider, &reply.head, body, now_ms));
        }
        let mut reader = ReplyReader::new(request, wire.stream);
        let mut builder = ResponseBuilder::default();
        let mut events = Vec::new();
        let mut give = |events: &mut Vec<StreamEvent>, builder: &mut ResponseBuilder| {
            events.drain(..).try_for_each(|event| {
                builder.push(&event);
                watch(&event)
            })
        };
        let mut at_end = false;
        while !reader.is_over() {
            match reply.chunk(request.idle_timeout).await {
                Ok(None) => {
                    at_end = true;
                    break;
                }
                Ok(Some(chunk)) => {
                    let fed = reader.feed(&chunk, &mut events);
                    give(&mut events, &mut builder)?;
                    fed.map_err(|e| e.with_usage(reader.usage()))?;
                }
                Err(error) => return Err(error.with_usage(reader.usage())),
            }
        }
        let ended = reader.finish(request, &reply.head.content_type, &mut events);
        give(&mut events, &mut builder)?;
        ended?;
        if !at_end {
            reply.release().await;
        }
        Ok(builder)
    }
}

fn invalid_request(message: String) -> LlmError {
    let mut error = LlmError::new(Category::Generic, message);
    (error.kind, error.reason) = (Kind::Terminal, "invalid_request");
    error
}

fn head_of(response: &reqwest::Response) -> ReplyHead {
    let header = |name: &str| response.headers().get(name).and_then(|v| v.to_str().ok()).map(str::to_string);
    ReplyHead {
        status: response.status().as_u16(),
        phrase: response.status().canonical_reason().unwrap_or_default().to_string(),
        content_type: header("content-type").unwrap_or_else(|| "unknown".to_string()),
        retry_after: header("retry-after"),
    }
}

fn timed_out(provider: &str, after: Duration) -> LlmError {
    LlmError::new(
        Category::Timeout,
        format!("{provider} API error: request timed out after {}s", after.as_secs_f64()),
    )
}

/// The error of a body that stopped coming: silent for `idle`, or not done after `timeout`.
fn silent(idle: Option<Duration>, timeout: Duration) -> LlmError {
    let message = match idle {
        Some(idle) => format!("stream idle timeout: no data received for {}s", idle.as_secs_f64()),
        None => format!(
            "stream overall deadline exceeded: {}s budget reached before stream completed",
            timeout.as_secs_f64()
        ),
    };
    LlmError::new(Category::Timeout, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_made_on_first_use_and_kept() {
        let transport = Transport::default();
        assert!(transport.proxied.get().is_none() && transport.direct.get().is_none());
        for (url, direct) in [("https://api.example.com/v1", false), ("http://127.0.0.1:9/", true)] {
            transport.client(&Url::parse(url).unwrap()).unwrap();
            assert_eq!(transport.direct.get().is_some(), direct, "{url}");
        }
        assert!(transport.proxied.get().is_some());
    }

    #[test]
    fn this_machine_is_recognised() {
        for (url, here) in [
            ("http://localhost:1", true),
            ("http://a.localhost", true),
            ("http://[::1]:8", true),
            ("http://127.9.9.9", true),
            ("http://10.0.0.1", false),
            ("http://localhost.example.com", false),
        ] {
            assert_eq!(is_loopback(&Url::parse(url).unwrap()), here, "{url}");
        }
    }
}
