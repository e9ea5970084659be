//! Requests over the network.
//!
//! Redirects are handled here and followed only within the same origin, so that keys are never sent to another host.

use std::cell::OnceCell;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use harn_system::{Blocked, Body, HttpErrorKind, Resolver, System, SystemExt, Uncertain};
use url::Url;

use super::{Carrier, HttpReply, HttpRequest, ReplyBody, ReplyHead, invalid_request};
use crate::embedder::LocalFuture;
use crate::error::{Category, Kind, LlmError};
use crate::secret::redact_url;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
const MAX_REDIRECTS: usize = 5;

/// The network of a system.
pub(crate) struct Network {
    system: Rc<dyn System>,
    /// Resolves host names instead of the system, once set; then no proxy is used either.
    pub(crate) resolver: OnceCell<Resolver>,
}

impl Network {
    pub(crate) fn new(system: Rc<dyn System>) -> Network {
        Network { system, resolver: OnceCell::new() }
    }
}

impl Carrier for Network {
    fn send<'a>(&'a self, request: &'a HttpRequest<'a>) -> LocalFuture<'a, Result<HttpReply<'a>, LlmError>> {
        Box::pin(async move {
            let reply = self.follow(request).await?;
            let head = head_of(&reply);
            let body = NetworkBody { system: &*self.system, request, body: reply.body };
            Ok(HttpReply { head, body: Box::new(body) })
        })
    }

    fn now(&self) -> Duration {
        self.system.monotonic()
    }
}

impl Network {
    /// Sends a request and follows redirects within the same origin.
    async fn follow(&self, request: &HttpRequest<'_>) -> Result<harn_system::HttpReply, LlmError> {
        let provider = request.provider;
        let mut url = Url::parse(&request.url).map_err(|e| {
            let shown = redact_url(&request.url);
            invalid_request(format!("{provider} API error: invalid address `{shown}`: {e}"))
        })?;
        for _ in 0..=MAX_REDIRECTS {
            let reply = self.send_once(request, &url).await?;
            if !(300..400).contains(&reply.status) {
                return Ok(reply);
            }
            let target = reply.header("location").and_then(|target| url.join(target).ok());
            let Some(next) = target else { return Ok(reply) };
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

    async fn send_once(
        &self,
        request: &HttpRequest<'_>,
        url: &Url,
    ) -> Result<harn_system::HttpReply, LlmError> {
        let provider = request.provider;
        let mut headers =
            vec![("user-agent".to_owned(), concat!("harn/", env!("CARGO_PKG_VERSION")).to_owned())];
        headers.extend(request.headers.iter().cloned());
        for (name, secret) in &request.auth {
            let value = secret.reveal();
            if !value.bytes().all(|byte| byte == b'\t' || (b' '..=b'~').contains(&byte)) {
                let message =
                    format!("{provider} API error: the API key holds characters that a header cannot carry");
                return Err(LlmError::new(Category::Auth, message));
            }
            headers.push((name.clone(), value.to_owned()));
        }
        if request.body.is_some() {
            headers.push(("content-type".to_owned(), "application/json".to_owned()));
        }
        let resolver = self.resolver.get().cloned();
        let outgoing = harn_system::HttpRequest {
            headers,
            body: request.body.clone(),
            connect_timeout: Some(CONNECT_TIMEOUT),
            // Requests to this machine never use a proxy.
            direct: resolver.is_some() || is_loopback(url),
            resolver,
            egress: request.egress.clone(),
            max_response: u64::MAX,
            // Sending a model request twice is harmless.
            uncertain: Uncertain::Retry,
            whole: request.whole,
            ..harn_system::HttpRequest::new(request.method, url.as_str())
        };
        let left = request.deadline.saturating_sub(self.system.monotonic());
        match self.system.within_limit(left, self.system.http(outgoing)).await {
            None => Err(timed_out(provider, request.timeout)),
            Some(Ok(reply)) => Ok(reply),
            Some(Err(error)) => Err(match error.kind {
                HttpErrorKind::Timeout => {
                    let mut error = timed_out(provider, CONNECT_TIMEOUT);
                    error.reason = "connect_timeout";
                    error
                }
                HttpErrorKind::Egress => blocked(&error.text),
                HttpErrorKind::Invalid => invalid_request(format!("{provider} API error: {error}")),
                _ => LlmError::new(Category::TransientNetwork, format!("{provider} API error: {error}")),
            }),
        }
    }
}

struct NetworkBody<'a> {
    system: &'a dyn System,
    request: &'a HttpRequest<'a>,
    body: Box<dyn Body>,
}

impl ReplyBody for NetworkBody<'_> {
    fn chunk(&mut self, idle: Option<Duration>) -> LocalFuture<'_, Result<Option<Bytes>, LlmError>> {
        Box::pin(async move {
            let request = self.request;
            // Only the time without data is limited, not the duration of a stream.
            let wait = idle.map_or(request.timeout, |idle| idle.min(request.timeout));
            match self.system.within_limit(wait, self.body.next()).await {
                Some(Ok(chunk)) => Ok(chunk),
                Some(Err(error)) => {
                    let text = format!("{} stream error (body): {error}", request.provider);
                    let mut failed = LlmError::new(Category::TransientNetwork, text);
                    if error.kind == HttpErrorKind::Restarted {
                        failed.reason = super::RESTARTED;
                    }
                    Err(failed)
                }
                None => Err(silent(wait)),
            }
        })
    }

    fn release<'a>(self: Box<Self>) -> LocalFuture<'a, ()>
    where
        Self: 'a,
    {
        self.body.release()
    }
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(url::Host::Ipv4(ip)) => ip.is_loopback(),
        Some(url::Host::Ipv6(ip)) => ip.is_loopback(),
        None => false,
    }
}

fn head_of(reply: &harn_system::HttpReply) -> ReplyHead {
    ReplyHead {
        status: reply.status,
        phrase: reply.phrase().to_owned(),
        content_type: reply.header("content-type").unwrap_or("unknown").to_owned(),
        retry_after: retry_after(reply.header("retry-after-ms"), reply.header("retry-after")),
    }
}

/// Returns the retry delay in the form of `retry-after`; OpenAI and Azure also send it in milliseconds.
fn retry_after(ms: Option<&str>, seconds: Option<&str>) -> Option<String> {
    let ms = ms.and_then(|ms| ms.trim().parse::<f64>().ok()).filter(|ms| *ms >= 0.0);
    ms.map(|ms| (ms / 1000.0).to_string()).or_else(|| seconds.map(str::to_owned))
}

/// Creates the error of a request that an egress rule blocks; `text` is the system's error.
fn blocked(text: &str) -> LlmError {
    let message = match Blocked::parse(text) {
        Some((place, Blocked { host, port, reason })) => {
            let port = port.map(|port| format!(":{port}")).unwrap_or_default();
            format!("EgressBlocked: llm_call blocked {host}{port} for {} ({reason})", redact_url(place))
        }
        None => "EgressBlocked: llm_call".to_owned(),
    };
    let mut error = LlmError::new(Category::EgressBlocked, message);
    (error.kind, error.reason) = (Kind::Terminal, "egress_blocked");
    error
}

fn timed_out(provider: &str, after: Duration) -> LlmError {
    LlmError::new(
        Category::Timeout,
        format!("{provider} API error: request timed out after {}s", after.as_secs_f64()),
    )
}

/// Creates the error of a body that sent no data for `wait`.
fn silent(wait: Duration) -> LlmError {
    let message = format!("stream idle timeout: no data received for {}s", wait.as_secs_f64());
    LlmError::new(Category::Timeout, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_named_in_milliseconds_or_seconds() {
        assert_eq!(retry_after(Some("1500"), Some("9")).as_deref(), Some("1.5"));
        assert_eq!(retry_after(Some("soon"), Some("9")).as_deref(), Some("9"));
        assert_eq!(retry_after(None, None), None);
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
