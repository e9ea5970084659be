//! Records every exchange with a provider, and replays a run without one.
//!
//! A cassette is a JSONL file with one exchange per line, in order, including failed ones. It never contains keys or
//! authorisation headers. A replayed request must equal a recorded one. If no unused recording matches, the error shows
//! the most similar recorded request and the differences.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use harn_system::Payload;
use harn_value::{Data as Value, json};

use crate::error::{Category, Kind, LlmError};
use crate::event_stream::with_payloads;
use crate::json::{Object, canonical, present, str_at};
use crate::options::Shape;
use crate::options::shape::shown;
use crate::secret::{Secret, redact_url};
use crate::spread::{hide_spread, without_spread};
use crate::transport::{HttpRequest, ReplyHead};

/// The shapes of the fields of a reply for which a wrong type would change the reply.
const RESPONSE: &[(&str, Shape)] = &[
    ("body", Shape::Str),
    ("body_base64", Shape::Str),
    ("content_type", Shape::Str),
    ("failure", Shape::Map(&Shape::Any)),
    ("phrase", Shape::Str),
    ("retry_after", Shape::Str),
];

/// The content type of Bedrock's streams.
const EVENT_STREAM: &str = "vnd.amazon.eventstream";

/// The maximum number of difference lines in an error.
const MAX_DIFF: usize = 12;

/// Writes exchanges as lines.
pub struct Recorder {
    sink: Box<dyn FnMut(&str)>,
}

impl Recorder {
    /// Creates a recorder that passes each line (without its line feed) to `sink`.
    pub fn new(sink: impl FnMut(&str) + 'static) -> Self {
        Recorder { sink: Box::new(sink) }
    }

    pub(crate) fn add(&mut self, request: &HttpRequest<'_>, reply: &Recorded) {
        let secrets: Vec<&Secret> = request.auth.iter().map(|(_, secret)| secret).collect();
        let mut response = Object::new();
        let mut bytes = None;
        if let Some(head) = &reply.head {
            response.insert("status".into(), head.status.into());
            response.insert("phrase".into(), head.phrase.as_str().into());
            response.insert("content_type".into(), head.content_type.as_str().into());
            response.insert("retry_after".into(), head.retry_after.as_deref().into());
            match hidden_body(&secrets, reply) {
                Ok(text) => {
                    response.insert("body".into(), text.into());
                }
                Err(other) => bytes = Some(other),
            }
        }
        if let Some(error) = &reply.failure {
            response.insert("failure".into(), error.to_json());
        }
        let mut line = json!({"request": request_json(request), "response": response});
        hide(&secrets, &mut line);
        if let Some(bytes) = bytes {
            line["response"]["body_base64"] = BASE64.encode(bytes).into();
        }
        (self.sink)(&line.to_string());
    }
}

fn hidden(secrets: &[&Secret], text: &str) -> String {
    secrets.iter().fold(text.to_owned(), |text, secret| secret.redact_whole(&text))
}

/// Redacts secrets in every string and key of a value. Both recorded requests and the requests compared with them are
/// redacted, so that a request that contains a key still matches.
fn hide(secrets: &[&Secret], value: &mut Value) {
    match value {
        Value::String(text) => *text = hidden(secrets, text),
        Value::Array(items) => items.iter_mut().for_each(|item| hide(secrets, item)),
        Value::Object(map) => {
            map.values_mut().for_each(|item| hide(secrets, item));
            if map.keys().any(|name| hidden(secrets, name) != *name) {
                *map = map.iter().map(|(name, item)| (hidden(secrets, name), item.clone())).collect();
            }
        }
        _ => {}
    }
}

/// Returns the body of a reply without secrets: a string, or the bytes of a body that is not text.
fn hidden_body(secrets: &[&Secret], reply: &Recorded) -> Result<String, Vec<u8>> {
    // Messages of an event stream have lengths and checksums, which must match the redacted payloads.
    if reply.head.as_ref().is_some_and(|head| head.content_type.contains(EVENT_STREAM)) {
        let hidden = with_payloads(&reply.body, |payloads| {
            hide_spread(secrets, &mut payloads.iter_mut().collect::<Vec<_>>(), reply.is_cut);
            payloads.iter_mut().for_each(|payload| hide(secrets, payload));
        });
        if let Ok(hidden) = hidden {
            return Err(hidden.unwrap_or_else(|| reply.body.clone()));
        }
    }
    let of_text = |text: &str| {
        // A truncated body may end with part of a secret.
        let of_end = |text: String, secret: &&Secret| {
            if reply.is_cut { secret.redact(&text) } else { secret.redact_whole(&text) }
        };
        secrets.iter().fold(text.to_owned(), of_end)
    };
    let text = of_text(&String::from_utf8_lossy(&reply.body));
    if let Some(text) = without_spread(secrets, &text, reply.is_cut) {
        return Ok(text);
    }
    if std::str::from_utf8(&reply.body).is_ok() {
        return Ok(text);
    }
    let chunks = reply.body.utf8_chunks();
    Err(chunks.flat_map(|chunk| [of_text(chunk.valid()).as_bytes(), chunk.invalid()].concat()).collect())
}

/// Parses a body as JSON; null if it is not JSON.
fn json_of(body: &Payload) -> Value {
    serde_json::from_slice(&body.to_bytes()).unwrap_or_default()
}

/// Returns the parts of a request that must match: method, URL, body, and the headers that change the provider's
/// behaviour. Other headers may contain secrets.
fn request_json(request: &HttpRequest<'_>) -> Value {
    let mut out = json!({"method": request.method, "url": redact_url(&request.url),
                         "body": request.body.as_ref().map(json_of)});
    let telling = |name: &str| matches!(name, "anthropic-beta" | "anthropic-version");
    let headers: Object = request
        .headers
        .iter()
        .filter(|(name, _)| telling(name))
        .map(|(name, value)| (name.clone(), value.as_str().into()))
        .collect();
    if !headers.is_empty() {
        out["headers"] = headers.into();
    }
    out
}

/// The reply to a request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Recorded {
    /// Status and headers, if they arrived.
    pub(crate) head: Option<ReplyHead>,
    /// The part of the body that was read.
    pub(crate) body: Vec<u8>,
    /// The error that ended the exchange.
    pub(crate) failure: Option<LlmError>,
    /// Whether the body was not read to its end.
    pub(crate) is_cut: bool,
}

impl Recorded {
    fn read(response: &Value) -> Result<Recorded, String> {
        let fields = response.as_object().ok_or("`response` must be a dict")?;
        harn_schema::shape::check_fields(RESPONSE.iter().copied(), fields)
            .map_err(|wrong| format!("`response`: {wrong}"))?;
        let text = |key: &str| str_at(response, key).unwrap_or_default().to_string();
        let status = present(response, "status")
            .map(|given| {
                let status = given.as_i64().and_then(|n| u16::try_from(n).ok());
                status.filter(|n| (100..1000).contains(n)).ok_or_else(|| {
                    format!("`response`: status must be an HTTP status from 100 to 999, got {}", shown(given))
                })
            })
            .transpose()?;
        let head = status.map(|status| ReplyHead {
            status,
            phrase: text("phrase"),
            content_type: text("content_type"),
            retry_after: str_at(response, "retry_after").map(str::to_string),
        });
        let body = match str_at(response, "body_base64") {
            Some(encoded) => BASE64.decode(encoded).map_err(|e| format!("`body_base64`: {e}"))?,
            None => text("body").into_bytes(),
        };
        let failure = present(response, "failure")
            .map(|error| {
                let word = str_at(error, "category").unwrap_or(Category::Generic.as_str());
                let category = Category::from_word(word).ok_or_else(|| {
                    format!("`response`: failure.category `{word}` is no category of errors")
                })?;
                Ok::<_, String>(LlmError::new(category, str_at(error, "message").unwrap_or_default()))
            })
            .transpose()?;
        if head.is_none() && failure.is_none() {
            return Err("`response` has neither `status` nor `failure`".to_string());
        }
        Ok(Recorded { head, body, failure, is_cut: false })
    }
}

/// Recorded exchanges, each used once.
#[derive(Debug, Default)]
pub struct Tape {
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    request: Value,
    reply: Recorded,
    used: bool,
}

impl Tape {
    /// Parses a cassette.
    ///
    /// # Errors
    /// A line is not a valid exchange.
    pub fn parse(text: &str) -> Result<Tape, String> {
        let mut entries = Vec::new();
        for (n, line) in text.lines().enumerate().filter(|(_, l)| !l.trim().is_empty()) {
            let wrong = |what: String| format!("cassette line {}: {what}", n + 1);
            let value = crate::json::parse_line(line).map_err(&wrong)?;
            let (Some(request), Some(response)) = (value.get("request"), value.get("response")) else {
                return Err(wrong("expected `request` and `response`".to_string()));
            };
            let reply = Recorded::read(response).map_err(wrong)?;
            entries.push(Entry { request: canonical(request), reply, used: false });
        }
        Ok(Tape { entries })
    }

    /// Returns the number of unused exchanges.
    pub fn unused(&self) -> usize {
        self.entries.iter().filter(|entry| !entry.used).count()
    }

    pub(crate) fn find(&mut self, request: &HttpRequest<'_>) -> Result<Recorded, LlmError> {
        let secrets: Vec<&Secret> = request.auth.iter().map(|(_, secret)| secret).collect();
        let mut wanted = request_json(request);
        hide(&secrets, &mut wanted);
        let wanted = canonical(&wanted);
        if let Some(entry) = self.entries.iter_mut().find(|e| !e.used && e.request == wanted) {
            entry.used = true;
            return Ok(entry.reply.clone());
        }
        let text = wanted.to_string();
        let words = counted(&text);
        let nearest = self
            .entries
            .iter()
            .map(|entry| (unlike(&words, &entry.request), diff(&entry.request, &wanted), entry.used))
            .min_by_key(|(unlike, lines, used)| (*unlike, lines.len(), *used))
            .map(|(_, lines, used)| (lines, used));
        let detail = match nearest {
            None => "the cassette is empty".to_string(),
            Some((lines, true)) if lines.is_empty() => {
                "it was recorded, but fewer times than it is made".to_string()
            }
            Some((lines, _)) => {
                let shown: Vec<&str> = lines.iter().take(MAX_DIFF).map(String::as_str).collect();
                let more = match lines.len().saturating_sub(MAX_DIFF) {
                    0 => String::new(),
                    n => format!("\n({n} more lines)"),
                };
                format!(
                    "the nearest recorded request differs (- recorded, + made):\n{}{more}",
                    shown.join("\n")
                )
            }
        };
        let url = redact_url(&request.url);
        let message = format!("replay: no recorded request matches this one to {url}; {detail}");
        let mut error = LlmError::new(Category::Generic, message);
        // A retry cannot succeed either, whatever phrases the message contains.
        (error.kind, error.reason) = (Kind::Terminal, "unknown");
        Err(error)
    }
}

/// Counts how often each word occurs.
fn counted(text: &str) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for word in text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
        *counts.entry(word).or_default() += 1;
    }
    counts
}

/// Returns the number of words by which a recorded request differs from the current one. A prompt is a single string in
/// the body, so comparing words is the only way to find the recorded prompt that was edited.
fn unlike(made: &BTreeMap<&str, usize>, recorded: &Value) -> usize {
    let text = recorded.to_string();
    let recorded = counted(&text);
    let more = |a: &BTreeMap<&str, usize>, b: &BTreeMap<&str, usize>| -> usize {
        a.iter().map(|(word, count)| count.saturating_sub(b.get(word).copied().unwrap_or(0))).sum()
    };
    more(made, &recorded) + more(&recorded, made)
}

/// Lists the differences between two values, one line per leaf and side.
fn diff(recorded: &Value, made: &Value) -> Vec<String> {
    let mut out = Vec::new();
    diff_at("", recorded, made, &mut out);
    out
}

fn diff_at(path: &str, a: &Value, b: &Value, out: &mut Vec<String>) {
    match (a, b) {
        (Value::Object(x), Value::Object(y)) => {
            let keys: std::collections::BTreeSet<&String> = x.keys().chain(y.keys()).collect();
            for key in keys {
                let inner = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                diff_side(&inner, x.get(key), y.get(key), out);
            }
        }
        (Value::Array(x), Value::Array(y)) => {
            for n in 0..x.len().max(y.len()) {
                diff_side(&format!("{path}[{n}]"), x.get(n), y.get(n), out);
            }
        }
        _ if a != b => {
            out.push(format!("- {path}: {}", shorten(a)));
            out.push(format!("+ {path}: {}", shorten(b)));
        }
        _ => {}
    }
}

fn diff_side(path: &str, a: Option<&Value>, b: Option<&Value>, out: &mut Vec<String>) {
    match (a, b) {
        (Some(a), Some(b)) => diff_at(path, a, b, out),
        (Some(a), None) => out.push(format!("- {path}: {}", shorten(a))),
        (None, Some(b)) => out.push(format!("+ {path}: {}", shorten(b))),
        (None, None) => {}
    }
}

fn shorten(value: &Value) -> String {
    let text = value.to_string();
    let cut = crate::json::clip(&text, 120);
    if cut.len() < text.len() { format!("{cut}…") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::rc::Rc;
    use std::time::Duration;

    fn request(body: Value) -> HttpRequest<'static> {
        HttpRequest {
            provider: "p",
            method: "POST",
            url: "http://h/x".into(),
            headers: vec![],
            auth: vec![("authorization".into(), crate::secret::Secret::new("Bearer sk-123456"))],
            body: body.as_object().cloned().map(|fields| crate::wire::Body::new(fields).into_payload()),
            egress: None,
            deadline: Duration::ZERO,
            timeout: Duration::ZERO,
            whole: false,
        }
    }

    fn tape(lines: &str) -> Tape {
        Tape::parse(lines).unwrap()
    }

    fn recorded(status: u16, body: &[u8], failure: Option<LlmError>) -> Recorded {
        let head = (status > 0).then(|| ReplyHead {
            status,
            phrase: "OK".into(),
            content_type: "text/plain".into(),
            retry_after: None,
        });
        Recorded { head, body: body.to_vec(), failure, is_cut: false }
    }

    #[test]
    fn a_recording_replays_and_holds_no_key() {
        let lines = Rc::new(RefCell::new(String::new()));
        let sink = lines.clone();
        let mut recorder = Recorder::new(move |line| sink.borrow_mut().push_str(&format!("{line}\n")));
        let mut made = request(json!({"b": 1, "a": [2], "note": "sk-123456"}));
        made.url = "http://me:sk-other@h/x?api-version=1&key=sk-third".into();
        recorder.add(&made, &recorded(200, b"key sk-123456 ok", None));
        recorder.add(&made, &recorded(200, b"bytes \xff", None));
        let broken = LlmError::new(Category::TransientNetwork, "p stream error (body): gone sk-123456");
        recorder.add(&made, &recorded(200, b"half", Some(broken)));
        recorder.add(&made, &recorded(0, b"", Some(LlmError::new(Category::Timeout, "late"))));
        let text = lines.borrow().clone();
        assert!(!text.contains("sk-") && text.contains("key *** ok"), "{text}");
        let mut tape = tape(&text);
        made.body = request(json!({"note": "sk-123456", "a": [2], "b": 1})).body;
        assert_eq!(tape.find(&made).unwrap().body, b"key *** ok");
        assert_eq!(tape.find(&made).unwrap().body, b"bytes \xff");
        let half = tape.find(&made).unwrap();
        assert_eq!(
            (half.body.as_slice(), half.failure.unwrap().category),
            (&b"half"[..], Category::TransientNetwork)
        );
        let late = tape.find(&made).unwrap();
        assert!(late.head.is_none());
        assert_eq!(late.failure.unwrap().message, "late");
        assert_eq!(tape.unused(), 0);
        let again = tape.find(&made).unwrap_err();
        assert!(again.message.contains("fewer times"), "{again}");
    }

    #[test]
    fn a_key_in_a_request_is_in_no_error() {
        let line = json!({"request": {"method": "POST", "url": "http://h/x", "body": {"user": "***", "n": 1}},
                          "response": {"status": 200}});
        let error = tape(&line.to_string()).find(&request(json!({"user": "sk-123456", "n": 2}))).unwrap_err();
        assert!(error.message.ends_with("\n- body.n: 1\n+ body.n: 2"), "{error}");
    }

    #[test]
    fn a_body_that_is_no_text_is_recorded_without_the_key() {
        let lines = Rc::new(RefCell::new(String::new()));
        let sink = lines.clone();
        let mut recorder = Recorder::new(move |line| sink.borrow_mut().push_str(line));
        let made = request(json!({}));
        recorder.add(&made, &recorded(200, b"key sk-123456 \xff", None));
        assert_eq!(tape(&lines.borrow()).find(&made).unwrap().body, b"key *** \xff");
    }

    #[test]
    fn wrong_values_of_a_reply_are_named() {
        let told = |response: Value| {
            Tape::parse(&json!({"request": {}, "response": response}).to_string()).unwrap_err()
        };
        for (response, wrong) in [
            (
                json!({"status": 99999}),
                "`response`: status must be an HTTP status from 100 to 999, got int `99999`",
            ),
            (
                json!({"status": "x"}),
                "`response`: status must be an HTTP status from 100 to 999, got string `x`",
            ),
            (json!({"status": 200, "body": 5}), "`response`: body must be a string, got int `5`"),
            (json!({"failure": "late"}), "`response`: failure must be a dict, got string `late`"),
            (
                json!({"failure": {"category": "lat"}}),
                "`response`: failure.category `lat` is no category of errors",
            ),
            (json!({}), "`response` has neither `status` nor `failure`"),
            (json!(5), "`response` must be a dict"),
        ] {
            assert_eq!(told(response), format!("cassette line 1: {wrong}"));
        }
    }

    #[test]
    fn another_request_shows_the_nearest_one_and_the_difference() {
        let line = |body: Value| json!({"request": {"method": "POST", "url": "http://h/x", "body": body}, "response": {"status": 200}});
        let text = format!("{}\n{}", line(json!({"far": [1, 2, 3]})), line(json!({"m": "a", "n": 1})));
        let error = tape(&text).find(&request(json!({"m": "b", "n": 1}))).unwrap_err();
        assert!(error.message.ends_with("- body.m: \"a\"\n+ body.m: \"b\""), "{error}");
    }

    #[test]
    fn the_nearest_request_is_the_one_with_the_words_of_the_prompt() {
        let line = |prompt: &str| json!({"request": {"method": "POST", "url": "http://h/x", "body": {"m": prompt}}, "response": {"status": 200}});
        let text = ["count the apples", "write a poem on the sea", "name three rivers"]
            .map(|p| line(p).to_string())
            .join("\n");
        for (made, nearest) in
            [("write a poem on the river", "a poem on the sea"), ("name four rivers", "three rivers")]
        {
            let error = tape(&text).find(&request(json!({"m": made}))).unwrap_err();
            assert!(error.message.contains(nearest), "{error}");
        }
    }
}
