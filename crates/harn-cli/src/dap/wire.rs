//! Messages of the Debug Adapter Protocol: JSON with a `Content-Length` header. The few shapes in use are defined here,
//! because the available libraries for the protocol are alpha versions or generated and unmaintained.

#![expect(clippy::disallowed_methods, reason = "messages are no output of a program")]

use std::io::{self, BufRead, Write};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError};

use harn_value::{Data as Json, json};

/// A message of the client.
#[derive(Debug, Clone)]
pub(super) enum Message {
    Request(Request),
    /// The response to a reverse request, by its number: the body or an error message.
    Answer(i64, Result<Json, String>),
}

/// A request of the client.
#[derive(Debug, Clone)]
pub(super) struct Request {
    pub(super) seq: i64,
    pub(super) command: String,
    pub(super) arguments: Json,
}

impl Request {
    /// Returns a string argument, or an empty string.
    pub(super) fn text(&self, name: &str) -> &str {
        self.arguments[name].as_str().unwrap_or_default()
    }

    /// Returns a number argument.
    pub(super) fn number(&self, name: &str) -> Option<usize> {
        self.arguments[name].as_u64().and_then(|n| usize::try_from(n).ok())
    }
}

/// Returns the input of requests.
pub(super) fn input() -> io::StdinLock<'static> {
    io::stdin().lock()
}

/// Reads the next message. Returns `None` at the end of the input.
///
/// # Errors
/// The input cannot be read or is not a valid message.
pub(super) fn read(input: &mut impl BufRead) -> io::Result<Option<Message>> {
    loop {
        let Some(body) = harn_lsp::read_frame(input)? else { return Ok(None) };
        let message: Json = serde_json::from_slice(&body).map_err(|why| {
            io::Error::new(io::ErrorKind::InvalidData, format!("a message is not valid JSON: {why}"))
        })?;
        if message["type"] == "response" {
            let answer = if message["success"] == true {
                Ok(message["body"].clone())
            } else {
                Err(message["message"].as_str().unwrap_or("no reason was given").to_owned())
            };
            return Ok(Some(Message::Answer(message["request_seq"].as_i64().unwrap_or(0), answer)));
        }
        if message["type"] != "request" {
            continue;
        }
        let command = message["command"].as_str().unwrap_or_default().to_owned();
        let seq = message["seq"].as_i64().unwrap_or(0);
        let arguments = message["arguments"].clone();
        return Ok(Some(Message::Request(Request { seq, command, arguments })));
    }
}

/// Standard output, written one message at a time.
#[derive(Default)]
pub(super) struct Wire {
    turn: Mutex<()>,
    next: AtomicI64,
    closed: AtomicBool,
}

impl Wire {
    /// Whether the output is closed.
    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Sends a response to a request.
    pub(super) fn answer(&self, request: &Request, answer: Result<Json, String>) {
        let mut message = json!({
            "type": "response", "request_seq": request.seq, "command": request.command, "success": answer.is_ok(),
        });
        match answer {
            Ok(body) => message["body"] = body,
            Err(text) => {
                message["message"] = text.as_str().into();
                message["body"] = json!({"error": {"id": 1, "format": text, "showUser": false}});
            }
        }
        self.send(message);
    }

    /// Sends a reverse request. `number` receives its number before it is sent.
    pub(super) fn ask(&self, command: &str, arguments: Json, number: impl FnOnce(i64)) {
        let message = json!({"type": "request", "command": command, "arguments": arguments});
        self.send_numbered(message, number);
    }

    /// Sends an event.
    pub(super) fn event(&self, name: &str, body: Json) {
        self.send(json!({"type": "event", "event": name, "body": body}));
    }

    fn send(&self, message: Json) {
        self.send_numbered(message, |_| ());
    }

    fn send_numbered(&self, mut message: Json, number: impl FnOnce(i64)) {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let seq = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        number(seq);
        message["seq"] = seq.into();
        let text = message.to_string();
        let mut out = io::stdout().lock();
        let written = write!(out, "Content-Length: {}\r\n\r\n{text}", text.len()).and_then(|()| out.flush());
        if written.is_err() {
            self.closed.store(true, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_answers_are_read_and_other_messages_passed_over() {
        let message = |text: &str| format!("Content-Length: {}\r\n\r\n{text}", text.len());
        let other = message("{\"type\": \"event\", \"seq\": 1}")
            + &message("{\"type\": \"response\", \"request_seq\": 7, \"success\": true, \"body\": 3}")
            + &message(
                "{\"type\": \"response\", \"request_seq\": 8, \"success\": false, \"message\": \"no\"}",
            );
        let asked = message(
            "{\"type\": \"request\", \"seq\": 2, \"command\": \"next\", \"arguments\": {\"threadId\": 1}}",
        );
        let mut input = io::Cursor::new(other + &asked + "Content-Length: x\r\n\r\n");
        let answer = |message| match message {
            Message::Answer(seq, answer) => (seq, answer),
            Message::Request(request) => panic!("{request:?}"),
        };
        assert_eq!(answer(read(&mut input).unwrap().unwrap()), (7, Ok(json!(3))));
        assert_eq!(answer(read(&mut input).unwrap().unwrap()), (8, Err("no".to_owned())));
        let Message::Request(request) = read(&mut input).unwrap().unwrap() else { panic!("no request") };
        assert_eq!((request.seq, request.command.as_str(), request.number("threadId")), (2, "next", Some(1)));
        assert!(read(&mut input).is_err());
        assert!(read(&mut io::Cursor::new("")).unwrap().is_none());
        let large = format!("content-length: {}\r\n\r\n", u64::MAX);
        assert!(read(&mut io::Cursor::new(large)).is_err());
    }
}
