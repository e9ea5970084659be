//! A request to a loopback server, and its reply.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};

use harn_value::{Data as Value, json};

use crate::rules::{Api, Violation, violation};

/// A received request.
#[derive(Debug, Clone)]
pub struct Request {
    /// Method, target and version.
    pub line: String,
    /// Headers; the names are in lower case.
    pub headers: Vec<(String, String)>,
    /// JSON body; `Null` if it is not JSON.
    pub body: Value,
}

impl Request {
    /// Parses the head (request line and headers) and adds the body.
    pub fn parse(head: &str, body: &[u8]) -> Request {
        let mut lines = head.lines();
        let line = lines.next().unwrap_or_default().to_owned();
        let headers = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()))
            .collect();
        Request { line, headers, body: serde_json::from_slice(body).unwrap_or(Value::Null) }
    }

    /// Reads one request from a connection.
    ///
    /// # Errors
    /// Returns an error if the connection ends inside the request.
    pub fn read(mut reader: impl BufRead) -> io::Result<Request> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        let mut request = Request::parse(&head, b"");
        let length = request.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        request.body = serde_json::from_slice(&body).unwrap_or(Value::Null);
        Ok(request)
    }

    /// Returns the value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    /// Returns the path and the query.
    pub fn target(&self) -> &str {
        self.line.split(' ').nth(1).unwrap_or_default()
    }
}

/// Returns the reply to send: the prepared one, or status 400 in the provider's format if the API rejects the
/// request. Both are recorded.
pub fn answer(test: &str, request: &Request, canned: &[u8]) -> Vec<u8> {
    let reply = match violation(request) {
        Some(violation) => refusal(request, &violation),
        None => canned.to_vec(),
    };
    record(test, request, &reply);
    reply
}

fn refusal(request: &Request, violation: &Violation) -> Vec<u8> {
    let message = violation.to_string();
    let body = match Api::of(request.target()) {
        Some(Api::Anthropic) => {
            json!({"type": "error", "error": {"type": "invalid_request_error", "message": message}})
        }
        Some(Api::Gemini) => json!({"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}}),
        Some(Api::Bedrock) => json!({"message": message}),
        Some(Api::Ollama | Api::OllamaGenerate) => json!({"error": message}),
        _ => json!({"error": {"message": message, "type": "invalid_request_error", "param": null, "code": null}}),
    }
    .to_string();
    let head =
        "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length:";
    format!("{head} {}\r\n\r\n{body}", body.len()).into_bytes()
}

/// Returns the directory in which exchanges are recorded, if any.
pub fn log_directory() -> Option<PathBuf> {
    std::env::var_os("HARN_WIRE_LOG").filter(|dir| !dir.is_empty()).map(PathBuf::from)
}

/// Appends an exchange with a model API to the log of this process, if recording is enabled.
pub fn record(test: &str, request: &Request, reply: &[u8]) {
    let (Some(dir), Some(api)) = (log_directory(), Api::of(request.target())) else { return };
    let text = String::from_utf8_lossy(reply);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let bytes = reply.get(head.len() + 4..).unwrap_or_default();
    let is_binary = str::from_utf8(reply).is_err();
    let hex = is_binary.then(|| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
    let kind = Request::parse(head, b"").header("content-type").unwrap_or_default().to_owned();
    let status = head.split(' ').nth(1).and_then(|status| status.parse::<i64>().ok());
    let line = json!({
        "test": test, "api": api.name(), "target": request.target(), "request": request.body,
        "reply": {"status": status, "type": kind, "body": body, "hex": hex},
    });
    append(&dir, &line);
}

/// Appends a request without a reply, made by a test that sends nothing.
pub fn record_request(test: &str, url: &str, body: &Value) {
    let target = url.splitn(4, '/').nth(3).unwrap_or_default();
    let (Some(dir), Some(api)) = (log_directory(), Api::of(target)) else { return };
    append(&dir, &json!({"test": test, "api": api.name(), "target": format!("/{target}"), "request": body}));
}

fn append(dir: &Path, line: &Value) {
    thread_local! {
        static SEEN: RefCell<HashMap<PathBuf, std::fs::File>> = RefCell::default();
    }
    SEEN.with(|files| {
        let mut files = files.borrow_mut();
        let path = dir.join(format!("{}.jsonl", std::process::id()));
        let file = files.entry(path).or_insert_with_key(|path| {
            std::fs::create_dir_all(dir).expect("the log directory can be made");
            OpenOptions::new().create(true).append(true).open(path).expect("the log can be opened")
        });
        file.write_all(format!("{line}\n").as_bytes()).expect("the log can be written");
    });
}
