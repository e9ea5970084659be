//! Options of HTTP requests.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use harn_schema::options as described;
use harn_system::{SystemExt, Tls, Uncertain};
use harn_value::{Dict, Ref, Value, json};
use harn_vm::task_scope::TaskScope;
use harn_vm::{Cx, Error, Result};

use super::tls;
use super::wrong::wrong;
use crate::args::printed;
use crate::places::resolve;

/// The body of a request.
#[derive(Clone)]
pub(crate) struct Body {
    pub(crate) bytes: Vec<u8>,
    /// Only set for forms and JSON.
    pub(crate) content_type: Option<String>,
}

/// Options of a request.
#[derive(described::Options)]
pub(crate) struct HttpOptions {
    /// Headers; nil entries are omitted.
    headers: Option<Ref<Dict>>,
    /// Query parameters.
    query: Option<Ref<Dict>>,
    /// Body; a dict or list is sent as JSON.
    body: Value,
    /// Value of the header `Authorization`: a string, `{bearer}`, or `{basic: {user, password}}`.
    #[option(ty = "string | {bearer?: any, basic?: {user?: any, password?: any}}")]
    auth: Value,
    /// Time limit of the whole exchange.
    #[option(shown = "30s")]
    timeout: Option<Duration>,
    /// The same as `timeout`.
    timeout_ms: Option<Duration>,
    /// The same as `timeout`; takes precedence over both.
    total_timeout_ms: Option<Duration>,
    /// Time limit of the connection.
    connect_timeout_ms: Option<Duration>,
    /// Time limit between two parts of the reply.
    read_timeout_ms: Option<Duration>,
    /// Whether redirects are followed. Headers with secrets are not sent to other hosts.
    #[option(default = true)]
    follow_redirects: bool,
    /// Maximum number of redirects.
    #[option(default = 10, ty = "int", with = count)]
    max_redirects: usize,
    /// Maximum size of the reply's body in bytes (`http_download`: 1 GiB).
    #[option(shown = "64 MiB", ty = "int", with = positive)]
    max_response_bytes: Option<u64>,
    /// Parts of a form instead of a body; each has a `name` and a `value`, `value_base64` or `path`.
    #[option(ty = "list<form_part>")]
    multipart: Value,
    /// URL of a proxy, or the hosts that are reached without a proxy.
    #[option(ty = "string | {url?: string, no_proxy?: string | list}")]
    proxy: Value,
    /// User and password for the proxy.
    #[option(ty = "{user?: any, pass?: any, password?: any}")]
    proxy_auth: Option<Ref<Dict>>,
    /// Whether the reply may be compressed; a compressed body is decompressed.
    #[option(default = true)]
    decompress: bool,
    /// Maximum number of retries.
    #[option(default = 0, ty = "int", with = count)]
    retries: usize,
    /// Retries and their first pause; takes precedence over `retries` and `backoff`.
    retry: Retry,
    /// Pause before the first retry; it doubles with each retry.
    #[option(default = Duration::from_secs(1), shown = "1s")]
    backoff: Duration,
    /// Whether the `Retry-After` header of a reply sets the pause.
    #[option(default = true)]
    respect_retry_after: bool,
    /// Status codes that are retried.
    #[option(default = RETRIED.to_vec(), shown = "[408, 429, 500, 502, 503, 504]", ty = "list", with = statuses)]
    retry_on: Vec<i64>,
    /// Methods that are retried.
    #[option(default = retried_methods(), shown = "[GET, HEAD, PUT, DELETE, OPTIONS]", ty = "list", with = methods)]
    retry_methods: Vec<String>,
    /// Whether the server may receive the request twice: it carries an `Idempotency-Key`, the same on each attempt, and an
    /// interrupted durable run sends it again.
    idempotent: bool,
    /// Recovery of a request with unknown outcome in a resumed run: `"fail"`, `"retry"` or `"ask"`.
    #[option(ty = "string")]
    on_uncertain: Value,
    /// PEM files that are trusted in addition to those of the system, a client certificate, and pins (SHA-256 in hex or base64) of
    /// the server's public key.
    #[option(
        ty = "{ca_bundle_path?: string, client_cert_path?: string, client_key_path?: string, client_identity_path?: string, pinned_sha256?: string | list}"
    )]
    tls: Option<Ref<Dict>>,
}

/// The option `retry`.
#[derive(described::Options, Default)]
struct Retry {
    /// Maximum number of retries.
    #[option(ty = "int", with = some_count)]
    max: Option<usize>,
    /// Pause before the first retry; it doubles with each retry.
    backoff_ms: Option<Duration>,
}

/// Options of a request that may belong to a session.
#[derive(described::Options)]
pub(crate) struct SessionRequestOptions {
    #[option(flatten)]
    _http: HttpOptions,
    /// Session whose options are the defaults of this request.
    _session: Option<String>,
}

/// Options of a request with an explicit method.
#[derive(described::Options)]
pub(crate) struct MethodOptions {
    #[option(flatten)]
    _request: SessionRequestOptions,
    /// Method of the request.
    #[option(shown = "GET")]
    _method: Option<String>,
}

/// Options of a server-sent event stream.
#[derive(described::Options)]
pub(crate) struct SseOptions {
    #[option(flatten)]
    _http: HttpOptions,
    /// Maximum number of events.
    #[option(shown = "10000")]
    _max_events: Option<i64>,
    /// Maximum size of an event in bytes.
    #[option(shown = "1 MiB")]
    _max_message_bytes: Option<i64>,
}

/// Options of a WebSocket.
#[derive(described::Options)]
pub(crate) struct WebsocketOptions {
    /// Headers of the handshake; nil entries are omitted.
    _headers: Option<Ref<Dict>>,
    /// Value of the header `Authorization`: a string, `{bearer}`, or `{basic: {user, password}}`.
    #[option(ty = "string | {bearer?: any, basic?: {user?: any, password?: any}}")]
    _auth: Value,
    /// Time limit of the handshake.
    #[option(shown = "30s")]
    _timeout: Option<Duration>,
    /// The same as `timeout`; takes precedence over it.
    _timeout_ms: Option<Duration>,
    /// Time limit of the connection.
    _connect_timeout_ms: Option<Duration>,
    /// URL of a proxy.
    #[option(ty = "string | {url?: string}")]
    _proxy: Value,
    /// Maximum number of messages.
    #[option(shown = "10000")]
    _max_messages: Option<i64>,
    /// Maximum size of a message in bytes.
    #[option(shown = "1 MiB")]
    _max_message_bytes: Option<i64>,
}

fn count(value: &Value) -> std::result::Result<usize, String> {
    let count = value.as_int().and_then(|n| usize::try_from(n).ok());
    count.ok_or_else(|| "must not be negative".to_owned())
}

fn some_count(value: &Value) -> std::result::Result<Option<usize>, String> {
    count(value).map(Some)
}

fn positive(value: &Value) -> std::result::Result<Option<u64>, String> {
    let limit = value.as_int().and_then(|n| u64::try_from(n).ok()).filter(|n| *n > 0);
    limit.map(Some).ok_or_else(|| "must be a positive int".to_owned())
}

fn retried_methods() -> Vec<String> {
    ["GET", "HEAD", "PUT", "DELETE", "OPTIONS"].map(str::to_owned).to_vec()
}

fn methods(value: &Value) -> std::result::Result<Vec<String>, String> {
    let list = value.as_list().ok_or("must be a list of methods")?;
    Ok(list.iter().map(|method| text(method).to_uppercase()).collect())
}

/// The header by which a server recognizes a repeated request.
const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// The default handling of effects in doubt: the setting of the tool whose handler runs.
#[derive(Default)]
pub struct Doubts(pub TaskScope<Uncertain>);

impl Doubts {
    /// Parses the option `on_uncertain`, or `idempotent` if it is nil.
    ///
    /// # Errors
    /// The expected value.
    pub fn read(
        idempotent: &Value,
        on_uncertain: &Value,
    ) -> std::result::Result<Option<Uncertain>, &'static str> {
        let again = match idempotent.as_bool() {
            None if !idempotent.is_nil() => return Err("idempotent must be true or false"),
            again => again.unwrap_or(false),
        };
        if on_uncertain.is_nil() {
            return Ok(again.then_some(Uncertain::Retry));
        }
        match on_uncertain.as_str().map(|word| word.as_str()) {
            Some("retry") => Ok(Some(Uncertain::Retry)),
            Some("fail") => Ok(Some(Uncertain::Fail)),
            Some("ask") => Ok(Some(Uncertain::Ask)),
            _ => Err("on_uncertain must be \"retry\", \"fail\" or \"ask\""),
        }
    }
}

/// Returns how to handle an effect in doubt, according to the options.
///
/// # Errors
/// An option is invalid.
pub(crate) fn uncertain(cx: &Cx, builtin: &str, idempotent: bool, word: Option<&Value>) -> Result<Uncertain> {
    let word = word.cloned().unwrap_or_default();
    let said = Doubts::read(&idempotent.into(), &word);
    let said = said.map_err(|text| Error::thrown(format!("{builtin}: {text}")))?;
    Ok(said.or_else(|| cx.state::<Doubts>().0.current(cx)).unwrap_or_default())
}

/// The options of a call, with defaults.
pub(crate) struct Options {
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) query: Vec<(String, String)>,
    pub(crate) body: Option<Body>,
    pub(crate) timeout: Duration,
    pub(crate) connect_timeout: Option<Duration>,
    pub(crate) read_timeout: Option<Duration>,
    pub(crate) retries: u32,
    pub(crate) backoff: Duration,
    pub(crate) retry_on: Vec<i64>,
    pub(crate) retry_methods: Vec<String>,
    pub(crate) respect_retry_after: bool,
    pub(crate) redirects: usize,
    pub(crate) proxy: Option<String>,
    /// The hosts that bypass the proxy.
    pub(crate) no_proxy: Option<String>,
    /// The value of `Proxy-Authorization`.
    pub(crate) proxy_auth: Option<String>,
    pub(crate) tls: Option<Arc<Tls>>,
    pub(crate) decompress: bool,
    /// Maximum size of the reply body in bytes, if the call sets it.
    pub(crate) max_response: Option<u64>,
    pub(crate) uncertain: Uncertain,
}

const RETRIED: [i64; 6] = [408, 429, 500, 502, 503, 504];

impl Options {
    /// Parses the options; `body` is the argument of `http_post` and related functions.
    pub(crate) fn of(cx: &Cx, options: &Dict, body: Option<&Value>) -> Result<Options> {
        let given = <HttpOptions as described::Options>::read(&described::Entries::Dict(options));
        let given = given.map_err(|text| wrong(&text))?;
        let timeout = given.total_timeout_ms.or(given.timeout_ms).or(given.timeout);
        let mut headers = headers(given.headers.as_deref(), &given.auth)?;
        if given.idempotent && !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(IDEMPOTENCY_KEY)) {
            // Generated once: it is the same for each attempt and, through the journal, for a resumed run.
            let key = format!("{:016x}{:016x}", cx.system().random_u64(), cx.system().random_u64());
            headers.push((IDEMPOTENCY_KEY.to_owned(), key));
        }
        let proxy_part = |name: &str| given.proxy.as_dict().and_then(|proxy| proxy.get_str(name));
        Ok(Options {
            headers,
            uncertain: uncertain(cx, "http", given.idempotent, Some(&given.on_uncertain))?,
            query: pairs(given.query.as_deref()),
            body: request_body(cx, &given.multipart, body.unwrap_or(&given.body))?,
            timeout: timeout.unwrap_or(Duration::from_secs(30)),
            connect_timeout: given.connect_timeout_ms,
            read_timeout: given.read_timeout_ms,
            retries: u32::try_from(given.retry.max.unwrap_or(given.retries).min(1000)).unwrap_or(1000),
            backoff: given.retry.backoff_ms.unwrap_or(given.backoff),
            retry_on: given.retry_on,
            retry_methods: given.retry_methods,
            respect_retry_after: given.respect_retry_after,
            redirects: if given.follow_redirects { given.max_redirects } else { 0 },
            max_response: given.max_response_bytes,
            proxy: (!given.proxy.is_nil()).then(|| match given.proxy.as_dict() {
                Some(_) => proxy_part("url").map(text).unwrap_or_default(),
                None => text(&given.proxy),
            }),
            no_proxy: proxy_part("no_proxy").filter(|hosts| !hosts.is_nil()).map(|hosts| {
                let listed = |list: &[Value]| list.iter().map(text).collect::<Vec<_>>().join(",");
                hosts.as_list().map_or_else(|| text(hosts), |list| listed(list))
            }),
            proxy_auth: given.proxy_auth.map(|auth| {
                let password = if auth.contains("password") { "password" } else { "pass" };
                basic(&auth, "user", password)
            }),
            tls: given.tls.map(|tls| tls::read(cx, &tls).map(Arc::new)).transpose()?,
            decompress: given.decompress,
        })
    }
}

fn text(value: &Value) -> String {
    printed(value).to_string()
}

/// Returns the entries whose value is not nil, in printed form.
fn pairs(dict: Option<&Dict>) -> Vec<(String, String)> {
    let given = dict.into_iter().flat_map(Dict::iter).filter(|(_, value)| !value.is_nil());
    given.map(|(key, value)| (key.to_string(), text(value))).collect()
}

fn headers(given: Option<&Dict>, auth: &Value) -> Result<Vec<(String, String)>> {
    let mut headers = pairs(given);
    let named = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"));
    if !auth.is_nil() && !named {
        headers.push(("authorization".to_owned(), authorization(auth)?));
    }
    Ok(headers)
}

fn authorization(auth: &Value) -> Result<String> {
    let Some(dict) = auth.as_dict() else { return Ok(text(auth)) };
    if let Some(token) = dict.get_str("bearer") {
        return Ok(format!("Bearer {}", text(token)));
    }
    let Some(basic) = dict.get_str("basic").and_then(Value::to_dict) else {
        return Err(wrong("auth must be a string, {bearer} or {basic: {user, password}}"));
    };
    Ok(self::basic(&basic, "user", "password"))
}

fn basic(dict: &Dict, user: &str, password: &str) -> String {
    let part = |name: &str| dict.get_str(name).map(text).unwrap_or_default();
    format!("Basic {}", STANDARD.encode(format!("{}:{}", part(user), part(password))))
}

/// Parses the statuses of `retry_on`. An invalid status is an error, because it would never cause a retry.
fn statuses(given: &Value) -> std::result::Result<Vec<i64>, String> {
    let list = given.as_list().ok_or("must be a list of statuses")?;
    let status = |item: &Value| match item.as_int() {
        Some(status @ 100..=599) => Ok(status),
        _ => Err(format!("must hold statuses (100 to 599), got `{}`", text(item))),
    };
    list.iter().map(status).collect()
}

fn request_body(cx: &Cx, multipart: &Value, body: &Value) -> Result<Option<Body>> {
    let body = Some(body).filter(|body| !body.is_nil());
    let multipart = Some(multipart).filter(|parts| !parts.is_nil());
    match (body, multipart) {
        (Some(_), Some(_)) => Err(wrong("body and multipart options are mutually exclusive")),
        (None, None) => Ok(None),
        (Some(body), None) => {
            // Text has no implied content type; a dict or list is sent as JSON with its content type.
            let is_json = body.as_dict().is_some() || body.as_list().is_some() || body.as_struct().is_some();
            let content_type = is_json.then(|| "application/json".to_owned());
            Ok(Some(Body { bytes: body_bytes(body), content_type }))
        }
        (None, Some(parts)) => form(cx, parts).map(Some),
    }
}

/// Encodes a body: dicts and lists as compact JSON, bytes unchanged, other values in printed form.
pub(super) fn body_bytes(body: &Value) -> Vec<u8> {
    if let Some(bytes) = body.as_bytes() {
        return (**bytes).clone();
    }
    if body.as_list().is_some() || body.to_dict().is_some() {
        return json::stringify(body).into_bytes();
    }
    text(body).into_bytes()
}

struct Part {
    head: String,
    content: Vec<u8>,
}

fn form(cx: &Cx, parts: &Value) -> Result<Body> {
    let Some(parts) = parts.as_list() else { return Err(wrong("multipart must be a list")) };
    let parts: Vec<Part> = parts.iter().map(|part| form_part(cx, part)).collect::<Result<_>>()?;
    let mut boundary = "harn-boundary".to_owned();
    let occurs = |boundary: &str, content: &[u8]| {
        content.windows(boundary.len()).any(|window| window == boundary.as_bytes())
    };
    while parts.iter().any(|part| occurs(&boundary, &part.content)) {
        boundary.push('-');
    }
    let mut bytes = Vec::new();
    for part in &parts {
        bytes.extend_from_slice(format!("--{boundary}\r\n{}\r\n", part.head).as_bytes());
        bytes.extend_from_slice(&part.content);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
    Ok(Body { bytes, content_type: Some(format!("multipart/form-data; boundary={boundary}")) })
}

fn form_part(cx: &Cx, part: &Value) -> Result<Part> {
    let Some(part) = part.to_dict() else { return Err(wrong("multipart entries must be dicts")) };
    let get = |name: &str| part.get_str(name).filter(|value| !value.is_nil());
    let Some(name) = get("name") else { return Err(wrong("multipart entry requires name")) };
    let content = if let Some(value) = get("value") {
        body_bytes(value)
    } else if let Some(value) = get("value_base64") {
        STANDARD.decode(text(value)).map_err(|reason| wrong(&format!("invalid value_base64: {reason}")))?
    } else if let Some(path) = get("path") {
        let path = path.as_str().filter(|path| !path.is_empty());
        let Some(path) = path else { return Err(wrong("multipart path must be a path")) };
        let path = resolve(cx, path);
        let read = cx.system().read(&path, u64::MAX);
        read.map_err(|reason| {
            cx.refusal(&reason).unwrap_or_else(|| wrong(&format!("cannot read {}: {reason}", path.display())))
        })?
    } else {
        return Err(wrong("multipart entry requires value, value_base64, or path"));
    };
    let quoted = |text: String| text.replace('"', "%22").replace(['\r', '\n'], " ");
    let mut head = format!("Content-Disposition: form-data; name=\"{}\"", quoted(text(name)));
    if let Some(file) = get("filename") {
        head.push_str(&format!("; filename=\"{}\"", quoted(text(file))));
    }
    head.push_str("\r\n");
    if let Some(kind) = get("content_type") {
        head.push_str(&format!("Content-Type: {}\r\n", text(kind).replace(['\r', '\n'], " ")));
    }
    Ok(Part { head, content })
}
