//! Sending a request: mocks first, then the network, with retries.

use std::cell::RefCell;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, SystemTime};

use harn_system::real::Replacement;
use harn_value::{Dict, Value};
use harn_vm::{Cx, Error, Result};
use rustc_hash::FxHashMap;
use url::form_urlencoded;

use super::mock::{Mocks, Reply};
use super::options::Options;

/// Clients by the options that belong to a client rather than to a request; each keeps connections.
#[derive(Default)]
struct Clients(RefCell<FxHashMap<String, reqwest::Client>>);

const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Why an attempt gave no reply.
struct Failed {
    text: String,
    /// A timeout or a failed connection.
    passing: bool,
}

/// Sends a request and gives `{status, headers, body, ok}`.
pub(crate) async fn send(cx: &Cx, method: &str, url: &str, options: &Options) -> Result<Dict> {
    let request = Request::new(method, url, options)?;
    let reply =
        request.with_retries(cx, options).await.map_err(|text| Error::thrown(format!("http: {text}")))?;
    let mut dict = head(&reply);
    dict.insert("body", String::from_utf8_lossy(&reply.body).into_owned());
    Ok(dict)
}

/// Sends a request and writes the body to a file as it comes; gives `{status, headers, bytes_written, ok}`.
pub(crate) async fn download(
    cx: &Cx,
    method: &str,
    url: &str,
    path: &Path,
    options: &Options,
) -> Result<Dict> {
    let request = Request::new(method, url, options)?;
    let failed = |text: String| Error::thrown(format!("http_download: {text}"));
    let write_failed = |reason: std::io::Error| failed(format!("cannot write {}: {reason}", path.display()));
    if let Some(reply) = request.mocked(cx) {
        let mut dict = head(&reply);
        let written = if success(reply.status) { reply.body.as_slice() } else { &[] };
        if success(reply.status) {
            harn_system::real::files::replace(path, written).map_err(write_failed)?;
        }
        dict.insert("bytes_written", written.len() as i64);
        return Ok(dict);
    }
    let mut response = request.start(cx, options).await.map_err(|error| failed(error.text))?;
    let (status, headers) = head_of(&response);
    let mut written = 0i64;
    // A page that says why there is nothing to download is not what the file is for.
    if success(status) {
        let mut file = Replacement::new(path).map_err(write_failed)?;
        while let Some(chunk) =
            response.chunk().await.map_err(|error| failed(format!("request failed: {}", cause(&error))))?
        {
            file.write_all(&chunk).map_err(write_failed)?;
            written += chunk.len() as i64;
        }
        file.commit().map_err(write_failed)?;
    }
    let mut dict = head(&Reply { status, headers, body: Vec::new() });
    dict.insert("bytes_written", written);
    Ok(dict)
}

fn success(status: u16) -> bool {
    (200..300).contains(&status)
}

fn head(reply: &Reply) -> Dict {
    let mut dict = Dict::new();
    dict.insert("status", i64::from(reply.status));
    let headers = reply.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    dict.insert("headers", Value::dict(headers.collect()));
    dict.insert("ok", success(reply.status));
    dict
}

struct Request<'a> {
    method: String,
    url: String,
    headers: Vec<(String, String)>,
    body: Option<&'a [u8]>,
}

impl<'a> Request<'a> {
    fn new(method: &str, url: &str, options: &'a Options) -> Result<Request<'a>> {
        let lower = url.get(..8).unwrap_or(url).to_lowercase();
        if !lower.starts_with("http://") && !lower.starts_with("https://") {
            let text = format!("http: URL must start with http:// or https://, got '{url}'");
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
        let mut headers = options.headers.clone();
        let body = options.body.as_ref();
        if let Some(kind) = body.and_then(|body| body.content_type.clone())
            && !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type"))
        {
            headers.push(("content-type".to_owned(), kind));
        }
        Ok(Request {
            method: method.to_uppercase(),
            url,
            headers,
            body: body.map(|body| body.bytes.as_slice()),
        })
    }

    fn mocked(&self, cx: &Cx) -> Option<Reply> {
        cx.state::<Mocks>().answer(&self.method, &self.url, &self.headers, self.body)
    }

    async fn with_retries(&self, cx: &Cx, options: &Options) -> std::result::Result<Reply, String> {
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
                return outcome.map_err(|error| error.text);
            }
            let pause = pause(cx, options, attempt, outcome.as_ref().ok());
            cx.sleep(pause).await.map_err(|error| error.to_string())?;
            attempt += 1;
        }
    }

    async fn once(&self, cx: &Cx, options: &Options) -> std::result::Result<Reply, Failed> {
        let response = self.start(cx, options).await?;
        let (status, headers) = head_of(&response);
        let body = response.bytes().await.map_err(|error| Failed {
            text: format!("failed to read response body: {}", cause(&error)),
            passing: error.is_timeout(),
        })?;
        Ok(Reply { status, headers, body: body.to_vec() })
    }

    /// Sends the request and waits for the head of the reply.
    async fn start(&self, cx: &Cx, options: &Options) -> std::result::Result<reqwest::Response, Failed> {
        let lasting = |text: String| Failed { text, passing: false };
        let client = client(cx, options).map_err(lasting)?;
        let method = reqwest::Method::from_bytes(self.method.as_bytes())
            .map_err(|reason| lasting(format!("invalid method '{}': {reason}", self.method)))?;
        let mut request = client.request(method, &self.url).timeout(options.timeout);
        for (name, value) in &self.headers {
            let name = reqwest::header::HeaderName::from_bytes(name.as_bytes())
                .map_err(|reason| lasting(format!("invalid header name '{name}': {reason}")))?;
            request = request.header(name, value);
        }
        if let Some(body) = self.body {
            request = request.body(body.to_vec());
        }
        request.send().await.map_err(|error| Failed {
            text: format!("request failed: {}", cause(&error)),
            passing: error.is_timeout() || error.is_connect(),
        })
    }
}

fn head_of(response: &reqwest::Response) -> (u16, Vec<(String, String)>) {
    let header = |(name, value): (&reqwest::header::HeaderName, &reqwest::header::HeaderValue)| {
        (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
    };
    (response.status().as_u16(), response.headers().iter().map(header).collect())
}

/// How long to wait before the next attempt.
fn pause(cx: &Cx, options: &Options, attempt: u32, reply: Option<&Reply>) -> Duration {
    let share = (cx.host().random() >> 11) as f64 / (1u64 << 53) as f64;
    let doubled = options.backoff.saturating_mul(2u32.saturating_pow(attempt));
    let varied = doubled.min(LONGEST_PAUSE).mul_f64(0.75 + share / 2.0);
    let asked = reply.filter(|reply| options.respect_retry_after && matches!(reply.status, 429 | 503));
    let asked = asked.and_then(|reply| {
        let (_, value) = reply.headers.iter().find(|(name, _)| name == "retry-after")?;
        match value.trim().parse::<f64>() {
            Ok(seconds) => Duration::try_from_secs_f64(seconds).ok(),
            Err(_) => httpdate::parse_http_date(value).ok()?.duration_since(SystemTime::now()).ok(),
        }
    });
    varied.max(asked.unwrap_or_default()).min(LONGEST_PAUSE)
}

/// The causes of an error without the address, which may hold a key.
fn cause(error: &reqwest::Error) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        let text = inner.to_string();
        if parts.last() != Some(&text) {
            parts.push(text);
        }
        source = inner.source();
    }
    if error.is_timeout() {
        return "operation timed out".to_owned();
    }
    if parts.is_empty() { "the request could not be sent".to_owned() } else { parts.join(": ") }
}

fn client(cx: &Cx, options: &Options) -> std::result::Result<reqwest::Client, String> {
    let key = format!(
        "{:?} {:?} {} {:?}",
        options.connect_timeout, options.read_timeout, options.redirects, options.proxy
    );
    let clients = cx.state::<Clients>();
    if let Some(client) = clients.0.borrow().get(&key) {
        return Ok(client.clone());
    }
    // An error means that another crate has chosen a provider already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = || {
        let policy = match options.redirects {
            0 => reqwest::redirect::Policy::none(),
            n => reqwest::redirect::Policy::limited(n),
        };
        let mut builder = reqwest::Client::builder().redirect(policy);
        if let Some(time) = options.connect_timeout {
            builder = builder.connect_timeout(time);
        }
        if let Some(time) = options.read_timeout {
            builder = builder.read_timeout(time);
        }
        match &options.proxy {
            Some(proxy) => reqwest::Proxy::all(proxy)
                .map(|p| builder.proxy(p))
                .map_err(|reason| format!("invalid proxy '{proxy}': {reason}")),
            None => Ok(builder),
        }
    };
    // A machine without root certificates can still talk plain HTTP.
    let client = match builder()?.build() {
        Ok(client) => client,
        Err(_) => {
            builder()?.tls_certs_only([]).build().map_err(|error| format!("request failed: {error}"))?
        }
    };
    clients.0.borrow_mut().insert(key, client.clone());
    Ok(client)
}
