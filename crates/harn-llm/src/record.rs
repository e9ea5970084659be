//! Recording every exchange with a provider, and replaying a run without one.
//!
//! A cassette is a JSONL file: one exchange per line, in order. Keys and authorisation headers are
//! never part of it. A replayed request must equal a recorded one; if none is left that does, the error
//! shows the nearest recorded request and where the two differ.

use serde_json::{Value, json};

use crate::error::{Category, LlmError};
use crate::json::{canonical, int_at, str_at};
use crate::transport::HttpRequest;

/// What a transport does with its exchanges.
pub enum Cassette {
    /// Writes each to a sink.
    Record(Recorder),
    /// Takes each from recorded ones.
    Replay(Tape),
}

/// Writes exchanges as lines.
pub struct Recorder {
    sink: Box<dyn FnMut(&str)>,
}

impl Recorder {
    /// Makes a recorder that hands each line (without its end) to `sink`.
    pub fn new(sink: impl FnMut(&str) + 'static) -> Self {
        Recorder { sink: Box::new(sink) }
    }

    pub(crate) fn add(
        &mut self,
        request: &HttpRequest<'_>,
        status: u16,
        phrase: &str,
        content_type: &str,
        retry_after: Option<&str>,
        body: &[u8],
    ) {
        let text = String::from_utf8_lossy(body);
        let text = request.auth.iter().fold(text.into_owned(), |text, (_, secret)| redact_key(secret, &text));
        let line = json!({
            "request": request_json(request),
            "response": {"status": status, "phrase": phrase, "content_type": content_type,
                         "retry_after": retry_after, "body": text},
        });
        (self.sink)(&line.to_string());
    }
}

/// Hides a key in text, also when the header holds it behind `Bearer `.
fn redact_key(secret: &crate::secret::Secret, text: &str) -> String {
    let bare = secret.reveal().strip_prefix("Bearer ").unwrap_or(secret.reveal());
    crate::secret::Secret::new(bare).redact(text)
}

fn request_json(request: &HttpRequest<'_>) -> Value {
    json!({"method": request.method, "url": request.url, "body": request.body})
}

/// A recorded reply.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) phrase: String,
    pub(crate) content_type: String,
    pub(crate) retry_after: Option<String>,
    pub(crate) body: Vec<u8>,
}

/// Recorded exchanges, each of which is used once.
#[derive(Debug, Default)]
pub struct Tape {
    entries: Vec<(Value, Value, bool)>,
}

impl Tape {
    /// Reads a cassette.
    ///
    /// # Errors
    /// A line is no exchange.
    pub fn parse(text: &str) -> Result<Tape, String> {
        let mut entries = Vec::new();
        for (n, line) in text.lines().enumerate().filter(|(_, l)| !l.trim().is_empty()) {
            let value: Value =
                serde_json::from_str(line).map_err(|e| format!("cassette line {}: {e}", n + 1))?;
            match (value.get("request"), value.get("response")) {
                (Some(request), Some(response)) => entries.push((request.clone(), response.clone(), false)),
                _ => return Err(format!("cassette line {}: expected `request` and `response`", n + 1)),
            }
        }
        Ok(Tape { entries })
    }

    /// Returns how many exchanges were not used.
    pub fn unused(&self) -> usize {
        self.entries.iter().filter(|(_, _, used)| !used).count()
    }

    pub(crate) fn find(&mut self, request: &HttpRequest<'_>) -> Result<Reply, LlmError> {
        let wanted = canonical(&request_json(request));
        let hit = self.entries.iter_mut().find(|(r, _, used)| !used && canonical(r) == wanted);
        if let Some((_, response, used)) = hit {
            *used = true;
            let text = |key: &str| str_at(response, key).unwrap_or_default().to_string();
            return Ok(Reply {
                status: int_at(response, "status").and_then(|n| u16::try_from(n).ok()).unwrap_or(200),
                phrase: text("phrase"),
                content_type: text("content_type"),
                retry_after: str_at(response, "retry_after").map(str::to_string),
                body: text("body").into_bytes(),
            });
        }
        let nearest = self
            .entries
            .iter()
            .map(|(recorded, _, used)| (diff(recorded, &wanted), *used))
            .min_by_key(|(lines, used)| (lines.len(), *used));
        let detail = match nearest {
            None => "the cassette is empty".to_string(),
            Some((lines, true)) if lines.is_empty() => {
                "it was recorded, but fewer times than it is made".to_string()
            }
            Some((lines, _)) => {
                let shown: Vec<&str> = lines.iter().take(12).map(String::as_str).collect();
                format!("the nearest recorded request differs (- recorded, + made):\n{}", shown.join("\n"))
            }
        };
        let message = format!("replay: no recorded request matches this one to {}; {detail}", request.url);
        Err(LlmError::new(Category::Generic, message))
    }
}

/// Lists where two values differ, one line per leaf and side.
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
            body: Some(body),
            deadline: tokio::time::Instant::now(),
            timeout: Duration::ZERO,
        }
    }

    fn tape(lines: &str) -> Tape {
        Tape::parse(lines).unwrap()
    }

    #[test]
    fn a_recording_replays_and_holds_no_key() {
        let lines = Rc::new(RefCell::new(String::new()));
        let sink = lines.clone();
        let mut recorder = Recorder::new(move |line| sink.borrow_mut().push_str(&format!("{line}\n")));
        let made = request(json!({"b": 1, "a": [2]}));
        recorder.add(&made, 200, "OK", "text/plain", None, b"key sk-123456 ok");
        let text = lines.borrow().clone();
        assert!(!text.contains("sk-123456") && text.contains("key *** ok"), "{text}");
        let mut tape = tape(&text);
        assert_eq!(tape.find(&request(json!({"a": [2], "b": 1}))).unwrap().body, b"key *** ok");
        assert_eq!(tape.unused(), 0);
        let again = tape.find(&made).unwrap_err();
        assert!(again.message.contains("fewer times"), "{again}");
    }

    #[test]
    fn another_request_shows_the_nearest_one_and_the_difference() {
        let line = |body: Value| json!({"request": {"method": "POST", "url": "http://h/x", "body": body}, "response": {"status": 200}});
        let text = format!("{}\n{}", line(json!({"far": [1, 2, 3]})), line(json!({"m": "a", "n": 1})));
        let error = tape(&text).find(&request(json!({"m": "b", "n": 1}))).unwrap_err();
        assert!(error.message.ends_with("- body.m: \"a\"\n+ body.m: \"b\""), "{error}");
    }
}
