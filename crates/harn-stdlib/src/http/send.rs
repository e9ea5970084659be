//! Sending of requests: first to mocks, then over the network, with retries.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use harn_system::{HttpError, HttpErrorKind, HttpReply, HttpRequest, Refusal, SystemExt};
use harn_value::{Dict, Value};
use harn_vm::{Cx, Error, Result};
use url::form_urlencoded;

use super::egress;
use super::mock::{Mocks, Reply, redacted_url};
use super::options::Options;
use crate::failures;

const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Default maximum size of a download: 1 GiB.
const MAX_DOWNLOAD: u64 = 1 << 30;

/// The time limit of an exchange without its own limit.
const FOREVER: Duration = Duration::from_secs(u32::MAX as u64);

/// The reason why an attempt has no reply.
struct Failed {
    error: Error,
    /// Whether a retry may succeed: a timeout or a failed connection.
    passing: bool,
}

impl Failed {
    /// Returns the error that a builtin throws.
    fn of(self, builtin: &str) -> Error {
        let Some(facts) = self.error.facts().cloned() else { return self.error };
        Error::thrown(format!("{builtin}: {}", self.error.caught())).with_facts(facts)
    }
}

/// Sends a request and returns `{status, headers, body, ok}`.
pub(crate) async fn send(cx: &Cx, method: &str, url: &str, options: &Options) -> Result<Dict> {
    let request = Request::new(cx, "http_request", method, url, options)?;
    let reply = request.with_retries(cx, options).await.map_err(|error| error.of("http"))?;
    let mut dict = head(&reply);
    dict.insert("body", String::from_utf8_lossy(&reply.body).into_owned());
    Ok(dict)
}

/// Sends a request and streams the body to a file; returns `{status, headers, bytes_written, ok}`.
pub(crate) async fn download(
    cx: &Cx,
    method: &str,
    url: &str,
    path: &Path,
    options: &Options,
) -> Result<Dict> {
    let request = Request::new(cx, "http_download", method, url, options)?;
    let write_failed = |reason: std::io::Error| {
        let text = || format!("http_download: cannot write {}: {reason}", path.display());
        failures::of_io(cx, &reason, Some(path), text)
    };
    if let Some(reply) = request.mocked(cx) {
        let mut dict = head(&reply);
        let written = if success(reply.status) { reply.body.as_slice() } else { &[] };
        if success(reply.status) {
            cx.system().replace(path, written).map_err(write_failed)?;
        }
        dict.insert("bytes_written", written.len() as i64);
        return Ok(dict);
    }
    let reply =
        request.start(cx, options, MAX_DOWNLOAD, true).await.map_err(|error| error.of("http_download"))?;
    let mut written = 0i64;
    let HttpReply { status, headers, mut body } = reply;
    // The body of an error reply is not written to the file.
    if success(status) {
        let mut file = cx.system().draft(path).map_err(write_failed)?;
        loop {
            match body.next().await {
                Ok(Some(piece)) => {
                    file.write_all(&piece).map_err(write_failed)?;
                    written += piece.len() as i64;
                }
                Ok(None) => break,
                Err(error) if error.kind == HttpErrorKind::Restarted => {
                    file = cx.system().draft(path).map_err(write_failed)?;
                    written = 0;
                }
                Err(error) => return Err(request.failed(&error, "request failed").of("http_download")),
            }
        }
        file.commit().map_err(write_failed)?;
    }
    let mut dict = head(&Reply { status, headers, body: Vec::new() });
    dict.insert("bytes_written", written);
    Ok(dict)
}

/// A reply whose head has been received.
pub(super) enum Opened {
    /// The reply of a mock, with its body.
    Mock(Reply),
    /// A reply from the network.
    Net(HttpReply),
}

/// Sends a request and returns the reply before its body is read.
pub(super) async fn open(
    cx: &Cx,
    builtin: &'static str,
    method: &str,
    url: &str,
    options: &Options,
) -> Result<Opened> {
    let request = Request::new(cx, builtin, method, url, options)?;
    match request.mocked(cx) {
        Some(reply) => Ok(Opened::Mock(reply)),
        None => {
            let reply = request.start(cx, options, MAX_DOWNLOAD, false).await;
            Ok(Opened::Net(reply.map_err(|error| error.of(builtin))?))
        }
    }
}

/// Sends a request whose reply is an unbounded stream, and waits for its head. The time limit of the options applies to
/// this wait.
pub(crate) async fn open_stream(
    cx: &Cx,
    surface: &'static str,
    method: &str,
    url: &str,
    mut options: Options,
) -> Result<HttpReply> {
    let patience = std::mem::replace(&mut options.timeout, FOREVER);
    let request = Request::new(cx, surface, method, url, &options)?;
    let may_retry = options.retry_methods.contains(&request.method);
    let mut attempt = 0;
    loop {
        let begun = cx.system().within_limit(patience, request.start(cx, &options, u64::MAX, false)).await;
        let outcome = begun.unwrap_or_else(|| {
            let late = HttpError::new(HttpErrorKind::Timeout, "operation timed out");
            Err(request.failed(&late, "request failed"))
        });
        let passing = match &outcome {
            Ok(reply) => options.retry_on.contains(&i64::from(reply.status)),
            Err(error) => error.passing,
        };
        if !may_retry || !passing || attempt >= options.retries {
            return outcome.map_err(|error| error.of(surface));
        }
        cx.sleep(pause(cx, &options, attempt, None)).await?;
        attempt += 1;
    }
}

fn success(status: u16) -> bool {
    (200..300).contains(&status)
}

/// Returns `{status, headers, ok}`.
pub(super) fn head(reply: &Reply) -> Dict {
    let mut dict = Dict::new();
    dict.insert("status", i64::from(reply.status));
    let mut headers: BTreeMap<&str, String> = BTreeMap::new();
    for (name, value) in &reply.headers {
        // RFC 9110 joins repeated headers with commas, which a cookie may contain.
        let between = if name == "set-cookie" { "\n" } else { ", " };
        let joined = headers.entry(name).and_modify(|all| all.push_str(between));
        joined.or_default().push_str(value);
    }
    dict.insert("headers", Value::dict(headers.into_iter().collect()));
    dict.insert("ok", success(reply.status));
    dict
}

struct Request<'a> {
    /// The builtin, as named in egress errors.
    surface: &'static str,
    method: String,
    url: String,
    headers: Vec<(String, String)>,
    body: Option<&'a [u8]>,
}

impl<'a> Request<'a> {
    fn new(
        cx: &Cx,
        surface: &'static str,
        method: &str,
        url: &str,
        options: &'a Options,
    ) -> Result<Request<'a>> {
        let lower = url.get(..8).unwrap_or(url).to_lowercase();
        if !lower.starts_with("http://") && !lower.starts_with("https://") {
            let text = format!("http: URL must start with http:// or https://, got '{}'", redacted_url(url));
            return Err(Error::thrown(text));
        }
        let mut url = url.to_owned();
        if !options.query.is_empty() {
            let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(&options.query).finish();
            let fragment = url.find('#').map(|at| url.split_off(at)).unwrap_or_default();
            url.push(if url.contains('?') { '&' } else { '?' });
            url.push_str(&query);
            url.push_str(&fragment);
        }
        // Checked before mocks, which replace only the network.
        egress::check_egress(cx, surface, &url)?;
        let mut headers = options.headers.clone();
        let body = options.body.as_ref();
        if let Some(kind) = body.and_then(|body| body.content_type.clone())
            && !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type"))
        {
            headers.push(("content-type".to_owned(), kind));
        }
        Ok(Request {
            surface,
            method: method.to_uppercase(),
            url,
            headers,
            body: body.map(|body| body.bytes.as_slice()),
        })
    }

    fn mocked(&self, cx: &Cx) -> Option<Reply> {
        cx.state::<Mocks>().answer(&self.method, &self.url, &self.headers, self.body)
    }

    async fn with_retries(&self, cx: &Cx, options: &Options) -> std::result::Result<Reply, Failed> {
        let may_retry = options.retry_methods.contains(&self.method);
        let mut attempt = 0;
        loop {
            let outcome = match self.mocked(cx) {
                Some(reply) => Ok(reply),
                None => self.once(cx, options).await,
            };
            let passing = match &outcome {
                Ok(reply) => options.retry_on.contains(&i64::from(reply.status)),
                Err(error) => error.passing,
            };
            if !may_retry || !passing || attempt >= options.retries {
                return outcome;
            }
            let pause = pause(cx, options, attempt, outcome.as_ref().ok());
            cx.sleep(pause).await.map_err(|error| Failed { error, passing: false })?;
            attempt += 1;
        }
    }

    async fn once(&self, cx: &Cx, options: &Options) -> std::result::Result<Reply, Failed> {
        let reply = self.start(cx, options, HttpRequest::MAX_RESPONSE, true).await?;
        let (status, headers) = (reply.status, reply.headers.clone());
        let body = reply.read().await.map_err(|error| Failed {
            passing: error.kind == HttpErrorKind::Timeout,
            ..self.unread(&error)
        })?;
        Ok(Reply { status, headers, body })
    }

    /// Sends the request and waits for the head of the reply. With `whole`, the caller reads the whole body next.
    async fn start(
        &self,
        cx: &Cx,
        options: &Options,
        limit: u64,
        whole: bool,
    ) -> std::result::Result<HttpReply, Failed> {
        let request = HttpRequest {
            headers: self.headers.clone(),
            body: self.body.map(|body| body.to_vec().into()),
            timeout: Some(options.timeout),
            connect_timeout: options.connect_timeout,
            read_timeout: options.read_timeout,
            redirects: options.redirects,
            proxy: options.proxy.clone(),
            no_proxy: options.no_proxy.clone(),
            proxy_auth: options.proxy_auth.clone(),
            tls: options.tls.clone(),
            decompress: options.decompress,
            max_response: options.max_response.unwrap_or(limit),
            uncertain: options.uncertain,
            whole,
            egress: egress::egress_rules(cx.vm()).map_err(|error| Failed { error, passing: false })?,
            ..HttpRequest::new(&*self.method, &*self.url)
        };
        cx.system().http(request).await.map_err(|error| match error.kind {
            HttpErrorKind::Refused => {
                Failed { error: cx.refused(&Refusal::Ceiling("network")), passing: false }
            }
            HttpErrorKind::InDoubt => {
                Failed { error: Error::structured("in_doubt", &error.text), passing: false }
            }
            HttpErrorKind::Egress => {
                Failed { error: egress::egress_error(self.surface, &error.text), passing: false }
            }
            HttpErrorKind::Invalid => {
                let facts = failures::of_http(error.kind, redacted_url(&self.url));
                Failed { error: Error::thrown(error.text).with_facts(facts), passing: false }
            }
            _ => self.failed(&error, "request failed"),
        })
    }

    /// Returns the failure of a body.
    fn unread(&self, error: &HttpError) -> Failed {
        match error.kind {
            HttpErrorKind::InDoubt => {
                Failed { error: Error::structured("in_doubt", &error.text), passing: false }
            }
            _ => self.failed(error, "failed to read response body"),
        }
    }

    /// Returns the failure of an exchange; `what` describes the operation.
    fn failed(&self, error: &HttpError, what: &str) -> Failed {
        let facts = failures::of_http(error.kind, redacted_url(&self.url));
        Failed {
            error: Error::thrown(format!("{what}: {error}")).with_facts(facts),
            passing: error.is_passing(),
        }
    }
}

/// Returns the delay before the next attempt.
fn pause(cx: &Cx, options: &Options, attempt: u32, reply: Option<&Reply>) -> Duration {
    let share = (cx.system().random_u64() >> 11) as f64 / (1u64 << 53) as f64;
    let doubled = options.backoff.saturating_mul(2u32.saturating_pow(attempt));
    let varied = doubled.min(LONGEST_PAUSE).mul_f64(0.75 + share / 2.0);
    let asked = reply.filter(|reply| options.respect_retry_after && matches!(reply.status, 429 | 503));
    let asked = asked.and_then(|reply| {
        let (_, value) = reply.headers.iter().find(|(name, _)| name == "retry-after")?;
        match value.trim().parse::<f64>() {
            Ok(seconds) => Duration::try_from_secs_f64(seconds).ok(),
            Err(_) => until(cx, httpdate::parse_http_date(value).ok()?),
        }
    });
    varied.max(asked.unwrap_or_default()).min(LONGEST_PAUSE)
}

/// Returns the time until a date.
fn until(cx: &Cx, date: SystemTime) -> Option<Duration> {
    let now = u64::try_from(cx.system().now_ms()).ok()?;
    date.duration_since(UNIX_EPOCH).ok()?.checked_sub(Duration::from_millis(now))
}
