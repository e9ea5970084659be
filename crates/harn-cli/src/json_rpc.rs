//! JSON-RPC with the parent process over the standard streams, with one message per line.

#![expect(
    clippy::disallowed_methods,
    reason = "messages are no output of a program; threads are waited for outside of any event loop"
)]

use std::io::{self, BufRead, Read, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use harn_value::{Data as Json, json};

/// The line is not valid JSON.
pub(crate) const PARSE_ERROR: i64 = -32700;
/// The message is invalid in the current state.
pub(crate) const INVALID_REQUEST: i64 = -32600;

/// Maximum length of a message: 64 MiB.
const MAX_LINE: u64 = 64 << 20;

/// Returns the client's messages without empty lines. A line that is too long or not UTF-8 is returned as an error; the
/// lines after it are still read.
pub(crate) fn lines() -> impl Iterator<Item = Result<String, Problem>> {
    let mut input = io::stdin().lock();
    std::iter::from_fn(move || next_line(&mut input, MAX_LINE))
}

fn next_line(input: &mut impl BufRead, most: u64) -> Option<Result<String, Problem>> {
    loop {
        let mut line = Vec::new();
        // A read error ends the input.
        let read = input.by_ref().take(most).read_until(b'\n', &mut line).ok()?;
        if read == 0 {
            return None;
        }
        if read as u64 == most && line.last() != Some(&b'\n') {
            while !matches!(skip(input), Ok(true) | Err(_)) {}
            let text = format!("the line is longer than {most} bytes");
            return Some(Err(Problem::new(PARSE_ERROR, text)));
        }
        match String::from_utf8(line) {
            Ok(line) if line.trim().is_empty() => {}
            Ok(line) => return Some(Ok(line)),
            Err(_) => return Some(Err(Problem::new(PARSE_ERROR, "the line is no UTF-8"))),
        }
    }
}

/// Skips part of an oversized line. Returns whether the end of the line or of the input was reached.
fn skip(input: &mut impl BufRead) -> io::Result<bool> {
    let piece = input.fill_buf()?;
    let end = piece.iter().position(|byte| *byte == b'\n');
    let (done, used) = (end.is_some() || piece.is_empty(), end.map_or(piece.len(), |at| at + 1));
    input.consume(used);
    Ok(done)
}

/// Sleeps briefly while a thread is about to end.
pub(crate) fn pause() {
    std::thread::sleep(Duration::from_millis(10));
}

/// The error of a request.
#[derive(Debug, Clone)]
pub(crate) struct Problem {
    pub(crate) code: i64,
    pub(crate) message: String,
}

impl Problem {
    pub(crate) fn new(code: i64, message: impl Into<String>) -> Problem {
        Problem { code, message: message.into() }
    }
}

fn answer_message(id: &Json, answer: Result<Json, Problem>) -> Json {
    let mut message = json!({"jsonrpc": "2.0", "id": id});
    match answer {
        Ok(result) => message["result"] = result,
        Err(problem) => message["error"] = json!({"code": problem.code, "message": problem.message}),
    }
    message
}

/// Serializes a response that is sent on its own.
pub(crate) fn answer_text(id: &Json, answer: Result<Json, Problem>) -> String {
    answer_message(id, answer).to_string()
}

/// Standard output, with one message per line.
#[derive(Default)]
pub(crate) struct Wire {
    turn: Mutex<()>,
    closed: AtomicBool,
}

impl Wire {
    /// Whether the client has closed the output.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    pub(crate) fn answer(&self, id: &Json, answer: Result<Json, Problem>) {
        self.send(&answer_message(id, answer));
    }

    pub(crate) fn ask(&self, id: &str, method: &str, params: &Json) {
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
    }

    pub(crate) fn tell(&self, method: &str, params: &Json) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    fn send(&self, message: &Json) {
        let _turn = self.turn.lock();
        let mut out = io::stdout().lock();
        // JSON on one line: line feeds in strings are escaped.
        if out.write_all(format!("{message}\n").as_bytes()).and_then(|()| out.flush()).is_err() {
            self.closed.store(true, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_are_no_messages_are_told_and_skipped() {
        let mut input = b"{}\n\n  \n\xff\n123456789012\nlast".as_slice();
        let mut next = || next_line(&mut input, 10).map(|line| line.map_err(|problem| problem.message));
        assert_eq!(next(), Some(Ok("{}\n".to_owned())));
        assert_eq!(next(), Some(Err("the line is no UTF-8".to_owned())));
        assert_eq!(next(), Some(Err("the line is longer than 10 bytes".to_owned())));
        assert_eq!(next(), Some(Ok("last".to_owned())));
        assert_eq!(next(), None);
    }
}
