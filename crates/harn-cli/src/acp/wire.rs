//! Messages from and to the client, on the standard streams of the process.

#![expect(
    clippy::disallowed_methods,
    reason = "messages are no output of a program; threads are waited for outside of any event loop"
)]

use std::io::{self, BufRead, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value as Json, json};

/// The line is no JSON.
pub(super) const PARSE_ERROR: i64 = -32700;
/// The message is none that can be answered now.
pub(super) const INVALID_REQUEST: i64 = -32600;
/// Nobody knows the method.
pub(super) const METHOD_NOT_FOUND: i64 = -32601;
/// The parameters are wrong.
pub(super) const INVALID_PARAMS: i64 = -32602;
/// The program failed.
pub(super) const INTERNAL_ERROR: i64 = -32603;

/// The messages of the client as they come.
pub(super) fn lines() -> impl Iterator<Item = io::Result<String>> {
    io::stdin().lock().lines()
}

/// Waits for a moment, for a thread that is about to end.
pub(super) fn pause() {
    std::thread::sleep(Duration::from_millis(10));
}

/// Why a request has no result.
#[derive(Debug, Clone)]
pub(super) struct Problem {
    pub(super) code: i64,
    pub(super) message: String,
}

impl Problem {
    pub(super) fn new(code: i64, message: impl Into<String>) -> Problem {
        Problem { code, message: message.into() }
    }

    /// Reads the error of an answer.
    pub(super) fn read(error: &Json) -> Problem {
        let message = error["message"].as_str().unwrap_or("the client gave an error").to_owned();
        Problem { code: error["code"].as_i64().unwrap_or(INTERNAL_ERROR), message }
    }
}

/// Standard output, one message a line.
#[derive(Default)]
pub(super) struct Wire {
    turn: Mutex<()>,
    closed: AtomicBool,
}

impl Wire {
    /// Whether the client reads no longer.
    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    pub(super) fn answer(&self, id: &Json, answer: Result<Json, Problem>) {
        let mut message = json!({"jsonrpc": "2.0", "id": id});
        match answer {
            Ok(result) => message["result"] = result,
            Err(problem) => message["error"] = json!({"code": problem.code, "message": problem.message}),
        }
        self.send(&message);
    }

    pub(super) fn ask(&self, id: &str, method: &str, params: &Json) {
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
    }

    pub(super) fn tell(&self, method: &str, params: &Json) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    fn send(&self, message: &Json) {
        let _turn = self.turn.lock();
        let mut out = io::stdout().lock();
        // JSON of one line: line feeds in texts are escaped.
        if out.write_all(format!("{message}\n").as_bytes()).and_then(|()| out.flush()).is_err() {
            self.closed.store(true, Ordering::Relaxed);
        }
    }
}
