//! What a call may say about its request.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use harn_system::{SystemExt, Tls, Uncertain};
use harn_value::{Dict, Value, json};
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
    /// Set for forms only.
    pub(crate) content_type: Option<String>,
}

/// The names of all options.
pub(crate) const NAMES: &[&str] = &[
    "auth",
    "backoff",
    "body",
    "connect_timeout_ms",
    "decompress",
    "follow_redirects",
    "headers",
    "idempotent",
    "max_redirects",
    "multipart",
    "on_uncertain",
    "proxy",
    "proxy_auth",
    "query",
    "read_timeout_ms",
    "respect_retry_after",
    "retries",
    "retry",
    "retry_methods",
    "retry_on",
    "session",
    "timeout",
    "timeout_ms",
    "tls",
    "total_timeout_ms",
];

/// The header by which a server knows a request again.
const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// What becomes of effects in doubt whose options say nothing: what the tool says whose handler runs.
#[derive(Default)]
pub struct Doubts(pub TaskScope<Uncertain>);

impl Doubts {
    /// The word of an option, or of `idempotent`, as it is written.
    ///
    /// # Errors
    /// What must be there instead.
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

/// What becomes of an effect when nobody knows whether it happened, as options say it.
///
/// # Errors
/// A word that is none of those that there are.
pub(crate) fn uncertain(cx: &Cx, builtin: &str, idempotent: bool, word: Option<&Value>) -> Result<Uncertain> {
    let word = word.cloned().unwrap_or_default();
    let said = Doubts::read(&idempotent.into(), &word);
    let said = said.map_err(|text| Error::thrown(format!("{builtin}: {text}")))?;
    Ok(said.or_else(|| cx.state::<Doubts>().0.current(cx)).unwrap_or_default())
}

/// The options of one call, with their defaults filled in.
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
    /// The hosts that are asked without the proxy.
    pub(crate) no_proxy: Option<String>,
    /// What the proxy is shown.
    pub(crate) proxy_auth: Option<String>,
    pub(crate) tls: Option<Arc<Tls>>,
    pub(crate) decompress: bool,
    /// Most bytes of the body of the reply, when the call says so.
    pub(crate) max_response: Option<u64>,
    pub(crate) uncertain: Uncertain,
}

const RETRIED: [i64; 6] = [408, 429, 500, 502, 503, 504];
const RETRIED_METHODS: [&str; 5] = ["GET", "HEAD", "PUT", "DELETE", "OPTIONS"];

impl Options {
    /// Reads the options; `body` is the argument of `http_post` and its kin.
    pub(crate) fn of(cx: &Cx, options: &Dict, body: Option<&Value>) -> Result<Options> {
        let get = |name: &str| options.get_str(name).filter(|value| !value.is_nil());
        for (name, value) in options.iter() {
            not_negative(name, value)?;
        }
        let millis = |name: &str| get(name).and_then(millis_of);
        let retry = get("retry").and_then(Value::to_dict);
        let retry_part = |name: &str, alias: &str| {
            retry.as_ref().and_then(|r| r.get_str(name)).or_else(|| get(alias)).and_then(millis_of)
        };
        let follow = get("follow_redirects").is_none_or(Value::truthy);
        let max_redirects = get("max_redirects").and_then(Value::as_int).map_or(10, crate::args::size);
        let timeout =
            millis("total_timeout_ms").or_else(|| millis("timeout_ms")).or_else(|| millis("timeout"));
        let texts =
            |name: &str| get(name).and_then(Value::as_list).map(|l| l.iter().map(text).collect::<Vec<_>>());
        let idempotent = get("idempotent").is_some_and(Value::truthy);
        let mut headers = headers(options)?;
        if idempotent && !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(IDEMPOTENCY_KEY)) {
            // Drawn once: each attempt carries the same, and so does a run that goes on, whose journal has it.
            let key = format!("{:016x}{:016x}", cx.system().random_u64(), cx.system().random_u64());
            headers.push((IDEMPOTENCY_KEY.to_owned(), key));
        }
        Ok(Options {
            headers,
            uncertain: uncertain(cx, "http", idempotent, get("on_uncertain"))?,
            query: pairs(get("query").and_then(Value::to_dict).as_deref()),
            body: request_body(cx, options, body)?,
            timeout: timeout.unwrap_or(Duration::from_secs(30)),
            connect_timeout: millis("connect_timeout_ms"),
            read_timeout: millis("read_timeout_ms"),
            retries: retry_part("max", "retries").map_or(0, |n| n.as_millis().min(1000) as u32),
            backoff: retry_part("backoff_ms", "backoff").unwrap_or(Duration::from_secs(1)),
            retry_on: get("retry_on").map_or_else(|| Ok(RETRIED.to_vec()), statuses)?,
            retry_methods: texts("retry_methods").map_or_else(
                || RETRIED_METHODS.map(str::to_owned).to_vec(),
                |methods| methods.iter().map(|m| m.to_uppercase()).collect(),
            ),
            respect_retry_after: get("respect_retry_after").is_none_or(Value::truthy),
            redirects: if follow { max_redirects } else { 0 },
            max_response: match get("max_response_bytes") {
                None => None,
                Some(limit) => {
                    let limit = limit.as_int().and_then(|n| u64::try_from(n).ok()).filter(|n| *n > 0);
                    Some(limit.ok_or_else(|| wrong("max_response_bytes must be a positive int"))?)
                }
            },
            proxy: get("proxy").map(|proxy| match proxy.as_dict() {
                Some(dict) => dict.get_str("url").map(text).unwrap_or_default(),
                None => text(proxy),
            }),
            no_proxy: get("proxy").and_then(Value::as_dict).and_then(|proxy| {
                let hosts = proxy.get_str("no_proxy").filter(|hosts| !hosts.is_nil())?;
                let listed = |list: &[Value]| list.iter().map(text).collect::<Vec<_>>().join(",");
                Some(hosts.as_list().map_or_else(|| text(hosts), |list| listed(list)))
            }),
            proxy_auth: get("proxy_auth").and_then(Value::to_dict).map(|auth| {
                let password = if auth.contains("password") { "password" } else { "pass" };
                basic(&auth, "user", password)
            }),
            tls: get("tls")
                .and_then(Value::to_dict)
                .map(|tls| tls::read(cx, &tls).map(Arc::new))
                .transpose()?,
            decompress: get("decompress").is_none_or(Value::truthy),
        })
    }
}

/// No limit, wait or count is below zero.
fn not_negative(name: &str, value: &Value) -> Result<()> {
    match value.as_int().or_else(|| value.as_duration()) {
        Some(n) if n < 0 => Err(wrong(&format!("{name} must not be negative"))),
        _ => Ok(()),
    }
}

fn text(value: &Value) -> String {
    printed(value).to_string()
}

/// A count or a time in milliseconds; what the table of builtins does not know of is checked in [`not_negative`].
fn millis_of(value: &Value) -> Option<Duration> {
    let ms = value.as_int().or_else(|| value.as_duration())?;
    Some(Duration::from_millis(u64::try_from(ms).unwrap_or(0)))
}

/// Entries whose value is not nil, in printed form.
fn pairs(dict: Option<&Dict>) -> Vec<(String, String)> {
    let given = dict.into_iter().flat_map(Dict::iter).filter(|(_, value)| !value.is_nil());
    given.map(|(key, value)| (key.to_string(), text(value))).collect()
}

fn headers(options: &Dict) -> Result<Vec<(String, String)>> {
    let mut headers = pairs(options.get_str("headers").and_then(Value::to_dict).as_deref());
    let named = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"));
    if let Some(auth) = options.get_str("auth").filter(|auth| !auth.is_nil() && !named) {
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

/// The statuses of `retry_on`. One that is none would never be met, and the request would not be sent again.
fn statuses(given: &Value) -> Result<Vec<i64>> {
    let list = given.as_list().ok_or_else(|| wrong("retry_on must be a list of statuses"))?;
    let status = |item: &Value| match item.as_int() {
        Some(status @ 100..=599) => Ok(status),
        _ => Err(wrong(&format!("retry_on must hold statuses (100 to 599), got `{}`", text(item)))),
    };
    list.iter().map(status).collect()
}

fn request_body(cx: &Cx, options: &Dict, body: Option<&Value>) -> Result<Option<Body>> {
    let body = body.or_else(|| options.get_str("body")).filter(|body| !body.is_nil());
    let multipart = options.get_str("multipart").filter(|parts| !parts.is_nil());
    match (body, multipart) {
        (Some(_), Some(_)) => Err(wrong("body and multipart options are mutually exclusive")),
        (None, None) => Ok(None),
        (Some(body), None) => {
            // Text may be anything; a dict or list goes out as JSON, and says so.
            let is_json = body.as_dict().is_some() || body.as_list().is_some() || body.as_struct().is_some();
            let content_type = is_json.then(|| "application/json".to_owned());
            Ok(Some(Body { bytes: body_bytes(body), content_type }))
        }
        (None, Some(parts)) => form(cx, parts).map(Some),
    }
}

/// Text in printed form; dicts and lists as compact JSON; bytes as they are.
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
