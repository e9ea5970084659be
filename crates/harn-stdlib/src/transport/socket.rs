//! WebSocket connections of programs.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use harn_system::{Frame, HttpError, HttpErrorKind, HttpRequest, Waiting};
use harn_value::{Dict, Value};
use harn_vm::{Cx, Error, Result};

use super::{Limits, Mocks, Open, failed, message_too_large, only_type, wait};
use crate::args::printed;
use crate::http::egress::{check_egress, egress_rules};
use crate::http::{Options, redacted_url};
use crate::pieces::Turn;

const CONNECT: &str = "websocket_connect";
const SEND: &str = "websocket_send";
const RECEIVE: &str = "websocket_receive";
const CLOSE: &str = "websocket_close";

/// The normal close code, and the codes that a program may send (RFC 6455 section 7.4).
const NORMAL: i64 = 1000;
const CODES: std::ops::RangeInclusive<i64> = 1000..=4999;
/// Maximum size of a ping or pong, and of a close reason, in bytes.
const MAX_CONTROL: usize = 125;
const MAX_REASON: usize = 123;

type Live = Rc<dyn harn_system::Socket>;
type Next = Waiting<'static, std::result::Result<Option<Frame>, HttpError>>;

/// A WebSocket connection of a program.
pub(crate) struct Socket {
    url: String,
    limits: Limits,
    /// Number of messages that have been returned.
    given: Cell<u64>,
    /// Whether a message was too large, so that the connection can only be closed.
    too_large: Cell<bool>,
    turn: Turn,
    line: Line,
}

/// The other side of the connection.
enum Line {
    /// A server, until it closes the connection, and the wait for its next frame.
    Live(RefCell<Option<Live>>, RefCell<Option<Next>>),
    /// A mock: its frames, and whether it echoes sent frames.
    Mock(RefCell<VecDeque<Frame>>, bool),
}

/// Opens a WebSocket and returns its handle.
pub(crate) async fn connect(cx: &Cx, url: &str, given: &Dict) -> Result<String> {
    let lower = url.get(..6).unwrap_or(url).to_lowercase();
    if !lower.starts_with("ws://") && !lower.starts_with("wss://") {
        let shown = redacted_url(url);
        return Err(Error::thrown(format!("{CONNECT}: URL must start with ws:// or wss://, got '{shown}'")));
    }
    let limits = Limits::of(CONNECT, given, "max_messages")?;
    let options = Options::of(cx, given, None)?;
    check_egress(cx, CONNECT, url)?;
    let (open, mocks) = (cx.state::<Open>(), cx.state::<Mocks>());
    let (handle, line) = match mocks.socket(url) {
        Some(script) => {
            let handle = open.handle("ws");
            mocks.called(CONNECT, url, &handle, None, Value::NIL);
            (handle, Line::Mock(RefCell::new(script.messages.into()), script.echo))
        }
        None => {
            let request = HttpRequest {
                headers: options.headers,
                timeout: Some(options.timeout),
                connect_timeout: options.connect_timeout,
                proxy: options.proxy,
                egress: egress_rules(cx.vm())?,
                max_response: limits.bytes,
                ..HttpRequest::new("GET", url)
            };
            let opened = cx.system().websocket(request).await;
            let socket = opened.map_err(|error| failed(cx, CONNECT, url, &error))?;
            (open.handle("ws"), Line::Live(RefCell::new(Some(socket)), RefCell::default()))
        }
    };
    let (given, too_large) = Default::default();
    let socket = Socket { url: url.to_owned(), limits, given, too_large, turn: Turn::default(), line };
    open.sockets.borrow_mut().insert(handle.clone(), Rc::new(socket));
    Ok(handle)
}

impl Socket {
    /// Returns the next message, waiting at most for `limit`.
    pub(crate) async fn receive(&self, cx: &Cx, handle: &str, limit: Duration) -> Result<Value> {
        let _turn = self.turn.take(RECEIVE, handle)?;
        if self.too_large.get() {
            return Err(message_too_large(RECEIVE, self.limits.bytes));
        }
        let frame = match &self.line {
            Line::Mock(frames, _) => match frames.borrow_mut().pop_front() {
                Some(frame) => Some(frame),
                None => return Ok(only_type("timeout")),
            },
            Line::Live(..) => match wait(cx, limit, |context| self.poll_frame(cx, context)).await? {
                Some(frame) => frame,
                None => return Ok(only_type("timeout")),
            },
        };
        let Some(frame) = frame else { return Ok(Value::NIL) };
        if frame.size() as u64 > self.limits.bytes {
            return Err(self.end_too_large());
        }
        if self.given.get() == self.limits.messages {
            self.hang_up();
            return Err(Error::thrown(format!("{RECEIVE}: websocket '{handle}' exceeded max_messages")));
        }
        self.given.set(self.given.get() + 1);
        Ok(value_of(frame))
    }

    fn poll_frame(&self, cx: &Cx, context: &mut Context<'_>) -> Poll<Result<Option<Frame>>> {
        let Line::Live(socket, next) = &self.line else { return Poll::Ready(Ok(None)) };
        let Some(live) = socket.borrow().clone() else { return Poll::Ready(Ok(None)) };
        let came = ready!(next.borrow_mut().get_or_insert_with(|| live.next()).as_mut().poll(context));
        *next.borrow_mut() = None;
        Poll::Ready(match came {
            Ok(Some(frame)) => Ok(Some(frame)),
            Ok(None) => {
                self.hang_up();
                Ok(None)
            }
            Err(error) if error.kind == HttpErrorKind::TooLarge => Err(self.end_too_large()),
            Err(error) => {
                self.hang_up();
                Err(failed(cx, RECEIVE, &self.url, &error))
            }
        })
    }

    fn end_too_large(&self) -> Error {
        self.too_large.set(true);
        self.hang_up();
        message_too_large(RECEIVE, self.limits.bytes)
    }

    fn hang_up(&self) {
        match &self.line {
            Line::Live(socket, next) => {
                *next.borrow_mut() = None;
                *socket.borrow_mut() = None;
            }
            Line::Mock(frames, _) => frames.borrow_mut().clear(),
        }
    }

    /// Sends a frame.
    pub(crate) async fn send(&self, cx: &Cx, handle: &str, frame: Frame) -> Result<()> {
        let closed = || Error::thrown(format!("{SEND}: the connection is closed"));
        if frame.size() as u64 > self.limits.bytes {
            return Err(message_too_large(SEND, self.limits.bytes));
        }
        if self.too_large.get() {
            return Err(closed());
        }
        match &self.line {
            Line::Mock(frames, echo) => {
                let (kind, data) = (kind_of(&frame), data_of(&frame));
                cx.state::<Mocks>().called(SEND, &self.url, handle, Some(kind), data);
                if *echo {
                    frames.borrow_mut().push_back(frame);
                }
                Ok(())
            }
            Line::Live(socket, _) => {
                let live = socket.borrow().clone().ok_or_else(closed)?;
                match cx.wait(live.send(frame)).await? {
                    Ok(true) => Ok(()),
                    Ok(false) => Err(Error::thrown(format!("{SEND}: send buffer full"))),
                    Err(error) => Err(failed(cx, SEND, &self.url, &error)),
                }
            }
        }
    }

    /// Sends a close frame and closes the connection.
    pub(crate) async fn close(&self, cx: &Cx, handle: &str) -> Result<()> {
        match &self.line {
            Line::Mock(..) => cx.state::<Mocks>().called(CLOSE, &self.url, handle, None, Value::NIL),
            Line::Live(socket, _) => {
                let live = socket.borrow_mut().take();
                if let Some(live) = live {
                    // Errors are ignored, because the other side may already have closed the connection.
                    let _ = cx.wait(live.send(Frame::Close(NORMAL as u16, String::new()))).await?;
                }
            }
        }
        self.hang_up();
        Ok(())
    }
}

fn kind_of(frame: &Frame) -> &'static str {
    match frame {
        Frame::Text(_) => "text",
        Frame::Binary(_) => "binary",
        Frame::Ping(_) => "ping",
        Frame::Pong(_) => "pong",
        Frame::Close(..) => "close",
    }
}

/// Returns the payload of a frame: text as string, bytes as base64.
fn data_of(frame: &Frame) -> Value {
    match frame {
        Frame::Text(text) | Frame::Close(_, text) => Value::str(text),
        Frame::Binary(bytes) | Frame::Ping(bytes) | Frame::Pong(bytes) => Value::str(&STANDARD.encode(bytes)),
    }
}

fn value_of(frame: Frame) -> Value {
    let mut dict = Dict::new();
    dict.insert("type", kind_of(&frame));
    match &frame {
        Frame::Text(_) => dict.insert("data", data_of(&frame)),
        Frame::Binary(_) | Frame::Ping(_) | Frame::Pong(_) => dict.insert("data_base64", data_of(&frame)),
        Frame::Close(code, reason) => {
            dict.insert("code", i64::from(*code));
            dict.insert("reason", reason.as_str())
        }
    };
    dict.into()
}

/// Parses a message of a mock: text, bytes, or a dict with its type.
pub(super) fn scripted(message: &Value) -> Result<Frame> {
    const NAME: &str = "websocket_mock";
    let Some(dict) = message.to_dict() else { return frame_of(NAME, message, &Dict::new()) };
    let mut options = Dict::clone(&dict);
    let in_base64 = dict.get_str("data_base64").cloned();
    options.insert("base64", in_base64.is_some());
    let data = in_base64.or_else(|| dict.get_str("data").cloned()).unwrap_or_default();
    frame_of(NAME, &data, &options)
}

/// Returns the frame for a message and the options `type`, `base64`, `code` and `reason`.
pub(crate) fn frame_of(builtin: &str, message: &Value, options: &Dict) -> Result<Frame> {
    let wrong = |text: &str| Error::thrown(format!("{builtin}: {text}"));
    let get = |name: &str| options.get_str(name).filter(|value| !value.is_nil());
    let in_base64 = get("base64").is_some_and(Value::truthy);
    let bytes = match (message.as_bytes(), message.as_str()) {
        (Some(bytes), _) => bytes.to_vec(),
        (None, Some(text)) if in_base64 => {
            STANDARD.decode(text.as_bytes()).map_err(|reason| wrong(&format!("invalid base64: {reason}")))?
        }
        (None, Some(text)) => text.as_bytes().to_vec(),
        (None, None) if message.is_nil() => Vec::new(),
        (None, None) => {
            return Err(wrong(&format!("a message must be bytes or string, got {}", message.type_name())));
        }
    };
    let default = if message.as_bytes().is_some() || in_base64 { "binary" } else { "text" };
    let kind = get("type").map_or_else(|| default.into(), printed);
    let text =
        |bytes| String::from_utf8(bytes).map_err(|_| wrong("a text must be UTF-8; send bytes as binary"));
    match &*kind {
        "ping" | "pong" if bytes.len() > MAX_CONTROL => {
            Err(wrong(&format!("a {kind} carries at most {MAX_CONTROL} bytes, got {}", bytes.len())))
        }
        "ping" => Ok(Frame::Ping(bytes)),
        "pong" => Ok(Frame::Pong(bytes)),
        "close" => {
            let code = get("code").and_then(Value::as_int).unwrap_or(NORMAL);
            if !CODES.contains(&code) {
                return Err(wrong(&format!("code must be between 1000 and 4999, got {code}")));
            }
            let reason = match get("reason") {
                Some(reason) => printed(reason).to_string(),
                None => text(bytes)?,
            };
            if reason.len() > MAX_REASON {
                return Err(wrong(&format!("reason has at most {MAX_REASON} bytes, got {}", reason.len())));
            }
            Ok(Frame::Close(code as u16, reason))
        }
        "text" | "binary" if message.is_nil() => Err(wrong("the message is missing")),
        "text" => text(bytes).map(Frame::Text),
        "binary" => Ok(Frame::Binary(bytes)),
        other => Err(wrong(&format!("type must be text, binary, ping, pong or close, got '{other}'"))),
    }
}
