//! Sessions, which hold options shared by several requests, and streams, whose bodies are read incrementally.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use harn_system::HttpError;
use harn_value::{Dict, Ref, Value};
use harn_vm::{Cx, Error, Result};

use super::mock::Reply;
use super::options::Options;
use super::send::{Opened, head, open};
use crate::args::printed;
use crate::pieces::{Pieces, Turn};

/// Maximum number of sessions, and of streams, that a program can have open.
const MOST: usize = 64;

/// The sessions and streams of a program.
#[derive(Default)]
pub(crate) struct Handles {
    made: Cell<u64>,
    sessions: RefCell<BTreeMap<String, Ref<Dict>>>,
    streams: RefCell<BTreeMap<String, Rc<Stream>>>,
}

impl Handles {
    fn name(&self, kind: &str) -> String {
        self.made.set(self.made.get() + 1);
        format!("{kind}-{}", self.made.get())
    }

    /// Removes the streams, which closes their connections.
    pub(crate) fn clear_streams(&self) {
        self.streams.borrow_mut().clear();
    }
}

/// Stores options under a handle. All requests of a program share the connection pool, with or without a session.
pub(crate) fn begin_session(cx: &Cx, options: Ref<Dict>) -> Result<String> {
    let handles = cx.state::<Handles>();
    if handles.sessions.borrow().len() >= MOST {
        return Err(Error::thrown(format!("http_session: maximum open sessions ({MOST}) reached")));
    }
    let name = handles.name("http-session");
    handles.sessions.borrow_mut().insert(name.clone(), options);
    Ok(name)
}

/// Removes a session; returns false if it does not exist.
pub(crate) fn end_session(cx: &Cx, handle: &str) -> bool {
    cx.state::<Handles>().sessions.borrow_mut().remove(handle).is_some()
}

/// Merges the options of a call into those of the session that they name.
pub(crate) fn in_session(cx: &Cx, builtin: &str, options: Ref<Dict>) -> Result<Ref<Dict>> {
    match options.get_str("session").filter(|session| !session.is_nil()) {
        None => Ok(options),
        Some(session) => over_session(cx, builtin, &printed(session), &options),
    }
}

/// Merges options into those of a session; headers are merged one by one.
pub(crate) fn over_session(cx: &Cx, builtin: &str, handle: &str, options: &Dict) -> Result<Ref<Dict>> {
    let kept = cx.state::<Handles>().sessions.borrow().get(handle).cloned();
    let unknown = || Error::thrown(format!("{builtin}: unknown HTTP session '{handle}'"));
    let mut all = (*kept.ok_or_else(unknown)?).clone();
    for (name, value) in options.iter().filter(|(_, value)| !value.is_nil()) {
        let merged = match (name.as_str(), all.get_str(name).and_then(Value::to_dict), value.to_dict()) {
            ("headers", Some(kept), Some(own)) => headers_over(&kept, &own),
            _ => value.clone(),
        };
        all.insert(name.as_str(), merged);
    }
    Ok(Ref::new(all))
}

fn headers_over(kept: &Dict, own: &Dict) -> Value {
    let replaced = |name: &str| own.keys().any(|other| other.eq_ignore_ascii_case(name));
    let kept = kept.iter().filter(|(name, _)| !replaced(name));
    let mut all = Dict::new();
    for (name, value) in kept.chain(own.iter()) {
        all.insert(name.as_str(), value.clone());
    }
    Value::dict(all)
}

/// A reply whose body is read incrementally.
struct Stream {
    head: Dict,
    turn: Turn,
    source: RefCell<Source>,
}

struct Source {
    /// Received bytes that have not been read yet.
    ahead: Bytes,
    pieces: Pieces,
}

/// Sends a request and stores its reply under a handle.
pub(crate) async fn open_stream(cx: &Cx, method: &str, url: &str, options: &Options) -> Result<String> {
    let handles = cx.state::<Handles>();
    let full = || {
        let full = handles.streams.borrow().len() >= MOST;
        full.then(|| Error::thrown(format!("http_stream_open: maximum open streams ({MOST}) reached")))
    };
    if let Some(error) = full() {
        return Err(error);
    }
    let (reply, source) = match open(cx, "http_stream_open", method, url, options).await? {
        Opened::Mock(Reply { status, headers, body }) => (
            Reply { status, headers, body: Vec::new() },
            Source { ahead: body.into(), pieces: Pieces::default() },
        ),
        Opened::Net(reply) => {
            let source = Source { ahead: Bytes::new(), pieces: Pieces::of(reply.body) };
            (Reply { status: reply.status, headers: reply.headers, body: Vec::new() }, source)
        }
    };
    // Other tasks may have opened streams in the meantime.
    if let Some(error) = full() {
        return Err(error);
    }
    let name = handles.name("http-stream");
    let stream = Stream { head: head(&reply), turn: Turn::default(), source: RefCell::new(source) };
    handles.streams.borrow_mut().insert(name.clone(), Rc::new(stream));
    Ok(name)
}

fn unknown(builtin: &str, handle: &str) -> Error {
    Error::thrown(format!("{builtin}: unknown stream '{handle}'"))
}

/// Returns the head of the reply: `{status, headers, ok}`.
pub(crate) fn stream_info(cx: &Cx, handle: &str) -> Result<Dict> {
    let handles = cx.state::<Handles>();
    let streams = handles.streams.borrow();
    let stream = streams.get(handle).ok_or_else(|| unknown("http_stream_info", handle))?;
    Ok(stream.head.clone())
}

/// Reads up to `most` bytes of the body; `None` at its end.
pub(crate) async fn read_stream(cx: &Cx, handle: &str, most: usize) -> Result<Option<Vec<u8>>> {
    const READ: &str = "http_stream_read";
    let stream = cx.state::<Handles>().streams.borrow().get(handle).cloned();
    let stream = stream.ok_or_else(|| unknown(READ, handle))?;
    let _turn = stream.turn.take(READ, handle)?;
    let piece = poll_fn(|context| stream.source.borrow_mut().poll(most, context)).await;
    piece.map_err(|error| {
        let text = format!("{READ}: failed to read response body: {error}");
        Error::thrown(text).with_facts(crate::failures::of_http(error.kind, String::new()))
    })
}

impl Source {
    /// Returns up to `most` received bytes; `None` at the end.
    fn poll(&mut self, most: usize, context: &mut Context<'_>) -> Poll<Result<Option<Vec<u8>>, HttpError>> {
        while self.ahead.is_empty() {
            match ready!(self.pieces.poll(context))? {
                Some(piece) => self.ahead = piece,
                None => return Poll::Ready(Ok(None)),
            }
        }
        Poll::Ready(Ok(Some(self.ahead.split_to(most.min(self.ahead.len())).to_vec())))
    }
}

/// Closes a stream; returns false if it does not exist.
pub(crate) fn close_stream(cx: &Cx, handle: &str) -> bool {
    cx.state::<Handles>().streams.borrow_mut().remove(handle).is_some()
}
