//! HTTP: one request, its reply chunk by chunk, and what can go wrong on the way.
//!
//! The client is made on first use, so that a program without model calls does not pay for TLS set-up.
//! Redirects are followed by hand and only to the same origin, so keys never travel elsewhere.

use std::cell::{OnceCell, RefCell};
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use tokio::time::Instant;
use url::Url;

use crate::error::{Category, Kind, LlmError};
use crate::event::StreamEvent;
use crate::record::Cassette;
use crate::request::Request;
use crate::response::ResponseBuilder;
use crate::wire::{ReplyReader, WireRequest};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
const MAX_REDIRECTS: usize = 5;
/// What is kept of the body of an error reply.
const MAX_ERROR_BODY: usize = 16 << 10;

/// The HTTP side of a runtime.
#[derive(Default)]
pub struct Transport {
    /// For hosts elsewhere: honours proxies of the environment.
    proxied: OnceCell<reqwest::Client>,
    /// For this machine: never goes through a proxy.
    direct: OnceCell<reqwest::Client>,
    /// Where exchanges are recorded to or replayed from.
    pub cassette: RefCell<Option<Cassette>>,
}

/// An HTTP request of any kind.
#[derive(Debug, Clone)]
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
    pub body: Option<Value>,
    /// When to give up.
    pub deadline: Instant,
    /// The timeout behind the deadline, for messages.
    pub timeout: Duration,
}

/// A reply whose body is still to be read.
pub struct HttpReply {
    /// Status code.
    pub status: u16,
    /// Reason phrase.
    pub phrase: String,
    /// `content-type`, or `unknown`.
    pub content_type: String,
    /// `retry-after`.
    pub retry_after: Option<String>,
    body: Body,
}

/// A reply read to its end.
#[derive(Debug, Clone)]
pub struct WholeReply {
    /// Status code.
    pub status: u16,
    /// Reason phrase.
    pub phrase: String,
    /// `retry-after`.
    pub retry_after: Option<String>,
    /// The body.
    pub text: String,
}

enum Body {
    Net(reqwest::Response),
    Recorded(Option<Bytes>),
}

/// Why no further chunk came.
enum ChunkError {
    Deadline,
    Idle(Duration),
    Broken(String),
}

impl HttpReply {
    async fn chunk(
        &mut self,
        deadline: Instant,
        idle: Option<Duration>,
    ) -> Result<Option<Bytes>, ChunkError> {
        let response = match &mut self.body {
            Body::Recorded(bytes) => return Ok(bytes.take()),
            Body::Net(response) => response,
        };
        let until = idle.map_or(deadline, |idle| deadline.min(Instant::now() + idle));
        match tokio::time::timeout_at(until, response.chunk()).await {
            Ok(Ok(chunk)) => Ok(chunk),
            Ok(Err(e)) => Err(ChunkError::Broken(describe(&e))),
            Err(_) => Err(match idle {
                Some(idle) if until < deadline => ChunkError::Idle(idle),
                _ => ChunkError::Deadline,
            }),
        }
    }

    /// Reads at most `limit` bytes of the body as text; a body that breaks off gives what came.
    async fn text(&mut self, deadline: Instant, limit: usize) -> String {
        let mut bytes = Vec::new();
        while let Ok(Some(chunk)) = self.chunk(deadline, None).await {
            let room = limit.saturating_sub(bytes.len());
            bytes.extend_from_slice(&chunk[..chunk.len().min(room)]);
            if chunk.len() >= room {
                break;
            }
        }
        String::from_utf8_lossy(&bytes).into_owned()
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

fn build_client(direct: bool) -> Result<reqwest::Client, reqwest::Error> {
    // Another part of the program may have installed a provider already; either will do.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = || {
        let b = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("harn/", env!("CARGO_PKG_VERSION")));
        if direct { b.no_proxy() } else { b }
    };
    // A machine without root certificates can still talk plain HTTP to a local server.
    builder().build().or_else(|_| builder().tls_certs_only([]).build())
}

impl Transport {
    fn client(&self, url: &Url) -> Result<&reqwest::Client, reqwest::Error> {
        let direct = is_loopback(url);
        let cell = if direct { &self.direct } else { &self.proxied };
        if let Some(client) = cell.get() {
            return Ok(client);
        }
        let client = build_client(direct)?;
        Ok(cell.get_or_init(|| client))
    }

    /// Sends a request and returns the reply once its headers are there.
    ///
    /// # Errors
    /// No reply came, or it redirects to another origin.
    pub async fn send(&self, request: &HttpRequest<'_>) -> Result<HttpReply, LlmError> {
        let provider = request.provider;
        let invalid = |message: String| {
            let mut error = LlmError::new(Category::Generic, message);
            (error.kind, error.reason) = (Kind::Terminal, "invalid_request");
            error
        };
        let mut url = Url::parse(&request.url)
            .map_err(|e| invalid(format!("{provider} API error: invalid address `{}`: {e}", request.url)))?;
        if let Some(Cassette::Replay(tape)) = &mut *self.cassette.borrow_mut() {
            return tape.find(request).map(|r| HttpReply {
                status: r.status,
                phrase: r.phrase,
                content_type: r.content_type,
                retry_after: r.retry_after,
                body: Body::Recorded(Some(r.body.into())),
            });
        }
        for _ in 0..=MAX_REDIRECTS {
            let response = self.send_once(request, &url).await?;
            if !response.status().is_redirection() {
                return Ok(reply_of(response));
            }
            let target = response.headers().get("location").and_then(|v| v.to_str().ok());
            let Some(next) = target.and_then(|t| url.join(t).ok()) else { return Ok(reply_of(response)) };
            if next.origin() != url.origin() {
                return Err(invalid(format!(
                    // prose-ok: diagnostic
                    "{provider} API error: redirected to {}, another host, which is not followed; set the provider's base URL to it if it is right",
                    next.origin().ascii_serialization()
                )));
            }
            url = next;
        }
        Err(invalid(format!(
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
            builder = builder.header("content-type", "application/json").body(body.to_string());
        }
        match tokio::time::timeout_at(request.deadline, builder.send()).await {
            Err(_) => Err(timed_out(provider, request.timeout)),
            Ok(Err(e)) if e.is_timeout() => Err(timed_out(provider, CONNECT_TIMEOUT)),
            Ok(Err(e)) if e.is_builder() => {
                let mut error =
                    LlmError::new(Category::Generic, format!("{provider} API error: {}", describe(&e)));
                (error.kind, error.reason) = (Kind::Terminal, "invalid_request");
                Err(error)
            }
            Ok(Err(e)) => Err(failed(describe(&e))),
            Ok(Ok(response)) => Ok(response),
        }
    }

    /// Sends a request and reads the whole reply as text, whatever its status.
    ///
    /// # Errors
    /// No reply came.
    pub async fn fetch(&self, request: &HttpRequest<'_>, limit: usize) -> Result<WholeReply, LlmError> {
        let mut reply = self.send(request).await?;
        let text = reply.text(request.deadline, limit).await;
        self.record(request, &reply, text.as_bytes());
        Ok(WholeReply { status: reply.status, phrase: reply.phrase, retry_after: reply.retry_after, text })
    }

    fn record(&self, request: &HttpRequest<'_>, reply: &HttpReply, body: &[u8]) {
        if let Some(Cassette::Record(tape)) = &mut *self.cassette.borrow_mut() {
            tape.add(
                request,
                reply.status,
                &reply.phrase,
                &reply.content_type,
                reply.retry_after.as_deref(),
                body,
            );
        }
    }

    fn is_recording(&self) -> bool {
        matches!(&*self.cassette.borrow(), Some(Cassette::Record(_)))
    }

    /// Exchanges a model request: sends it, decodes the reply as it comes, and hands every event on.
    ///
    /// # Errors
    /// Anything between here and a complete reply.
    pub async fn exchange(
        &self,
        request: &Request,
        wire: WireRequest,
        auth: Vec<(String, crate::secret::Secret)>,
        now_ms: i64,
        on_event: &mut dyn FnMut(&StreamEvent),
    ) -> Result<ResponseBuilder, LlmError> {
        let route = &request.route;
        let provider = route.provider.as_str();
        let http = HttpRequest {
            provider,
            method: "POST",
            url: wire.url,
            headers: wire.headers,
            auth,
            body: Some(wire.body),
            deadline: Instant::now() + request.timeout,
            timeout: request.timeout,
        };
        let mut reply = self.send(&http).await?;
        if !(200..300).contains(&reply.status) {
            let body = reply.text(http.deadline, MAX_ERROR_BODY).await;
            self.record(&http, &reply, body.as_bytes());
            return Err(LlmError::http(
                provider,
                reply.status,
                &reply.phrase,
                &body,
                reply.retry_after.as_deref(),
                now_ms,
            ));
        }
        let mut reader = ReplyReader::new(request, wire.stream);
        let mut builder = ResponseBuilder::default();
        let mut events = Vec::new();
        let mut taken = Vec::new();
        let recording = self.is_recording();
        let mut give = |events: &mut Vec<StreamEvent>, builder: &mut ResponseBuilder| {
            for event in events.drain(..) {
                builder.push(&event);
                on_event(&event);
            }
        };
        while !reader.is_over() {
            match reply.chunk(http.deadline, request.idle_timeout).await {
                Ok(None) => break,
                Ok(Some(chunk)) => {
                    if recording {
                        taken.extend_from_slice(&chunk);
                    }
                    let fed = reader.feed(&chunk, &mut events);
                    give(&mut events, &mut builder);
                    fed.map_err(|e| e.with_usage(reader.usage()))?;
                }
                Err(problem) => {
                    return Err(broken(provider, problem, request.timeout).with_usage(reader.usage()));
                }
            }
        }
        let ended = reader.finish(request, &reply.content_type, &mut events);
        give(&mut events, &mut builder);
        if recording {
            self.record(&http, &reply, &taken);
        }
        ended?;
        Ok(builder)
    }
}

fn reply_of(response: reqwest::Response) -> HttpReply {
    let header = |name: &str| response.headers().get(name).and_then(|v| v.to_str().ok()).map(str::to_string);
    HttpReply {
        status: response.status().as_u16(),
        phrase: response.status().canonical_reason().unwrap_or_default().to_string(),
        content_type: header("content-type").unwrap_or_else(|| "unknown".to_string()),
        retry_after: header("retry-after"),
        body: Body::Net(response),
    }
}

fn seconds(time: Duration) -> f64 {
    time.as_secs_f64()
}

fn timed_out(provider: &str, after: Duration) -> LlmError {
    LlmError::new(
        Category::Timeout,
        format!("{provider} API error: request timed out after {}s", seconds(after)),
    )
}

fn broken(provider: &str, problem: ChunkError, timeout: Duration) -> LlmError {
    match problem {
        ChunkError::Idle(idle) => LlmError::new(
            Category::Timeout,
            format!("stream idle timeout: no data received for {}s", seconds(idle)),
        ),
        ChunkError::Deadline => LlmError::new(
            Category::Timeout,
            format!(
                "stream overall deadline exceeded: {}s budget reached before stream completed",
                seconds(timeout)
            ),
        ),
        ChunkError::Broken(text) => {
            LlmError::new(Category::TransientNetwork, format!("{provider} stream error (body): {text}"))
        }
    }
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
