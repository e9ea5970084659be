//! Server-sent events.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use harn_system::HttpReply;
use harn_value::{Dict, Value};
use harn_vm::{Cx, Error, Result};

use super::events::{Event, Reader};
use super::{Limits, Mocks, Open, failed, message_too_large, only_type, wait};
use crate::http::egress::check_egress;
use crate::http::{Options, open_stream, redacted_url};
use crate::pieces::{Pieces, Turn};

const RECEIVE: &str = "sse_receive";
const CONNECT: &str = "sse_connect";

/// An event stream of a program.
pub(crate) struct Stream {
    url: String,
    limits: Limits,
    /// Number of events that have been returned.
    given: Cell<u64>,
    /// Whether the `open` event has been returned.
    told: Cell<bool>,
    turn: Turn,
    incoming: RefCell<Incoming>,
}

struct Incoming {
    events: VecDeque<Event>,
    reader: Reader,
    /// Empty for a mock.
    pieces: Pieces,
    /// Whether an event was too large.
    too_large: bool,
}

/// Opens an event stream and returns its handle.
pub(crate) async fn connect(cx: &Cx, method: &str, url: &str, given: &Dict) -> Result<String> {
    let limits = Limits::of(CONNECT, given, "max_events")?;
    let options = with_accept(Options::of(cx, given, None)?);
    let mocks = cx.state::<Mocks>();
    let open = cx.state::<Open>();
    let mut incoming = Incoming {
        events: VecDeque::new(),
        reader: Reader::new(limits.bytes),
        pieces: Pieces::default(),
        too_large: false,
    };
    let handle = match mocks.stream(url) {
        Some(events) => {
            check_egress(cx, CONNECT, url)?;
            let handle = open.handle("sse");
            mocks.called(CONNECT, url, &handle, None, Value::NIL);
            incoming.events = events.into();
            handle
        }
        None => {
            let reply = open_stream(cx, CONNECT, method, url, options).await?;
            check_reply(url, &reply)?;
            incoming.pieces = Pieces::of(reply.body);
            open.handle("sse")
        }
    };
    let (given, told) = Default::default();
    let stream = Stream {
        url: url.to_owned(),
        limits,
        given,
        told,
        turn: Turn::default(),
        incoming: RefCell::new(incoming),
    };
    open.streams.borrow_mut().insert(handle.clone(), Rc::new(stream));
    Ok(handle)
}

fn with_accept(mut options: Options) -> Options {
    let named =
        |options: &Options| options.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("accept"));
    if !named(&options) {
        options.headers.push(("accept".to_owned(), "text/event-stream".to_owned()));
    }
    options
}

fn check_reply(url: &str, reply: &HttpReply) -> Result<()> {
    let wrong = |reason: String| {
        Err(Error::thrown(format!("{CONNECT}: request failed: {reason} ({})", redacted_url(url))))
    };
    if !(200..300).contains(&reply.status) {
        return wrong(format!("the server answered with status {}", reply.status));
    }
    let kind = reply.header("content-type").unwrap_or_default();
    let plain = kind.split(';').next().unwrap_or_default().trim();
    if !plain.eq_ignore_ascii_case("text/event-stream") {
        return wrong(format!("the reply is '{plain}' and no text/event-stream"));
    }
    Ok(())
}

impl Stream {
    /// Returns the next event, waiting at most for `limit`.
    pub(crate) async fn receive(&self, cx: &Cx, handle: &str, limit: Duration) -> Result<Value> {
        let _turn = self.turn.take(RECEIVE, handle)?;
        if !self.told.replace(true) {
            return Ok(only_type("open"));
        }
        let Some(event) = wait(cx, limit, |context| self.poll_event(cx, context)).await? else {
            return Ok(only_type("timeout"));
        };
        let Some(event) = event else { return Ok(Value::NIL) };
        if self.given.get() == self.limits.messages {
            self.incoming.borrow_mut().pieces.end();
            return Err(Error::thrown(format!("{RECEIVE}: stream '{handle}' exceeded max_events")));
        }
        self.given.set(self.given.get() + 1);
        Ok(value_of(event))
    }

    fn poll_event(&self, cx: &Cx, context: &mut Context<'_>) -> Poll<Result<Option<Event>>> {
        let mut incoming = self.incoming.borrow_mut();
        loop {
            // Checks the limit for events of a mock, which have not been parsed.
            if let Some(event) = incoming.events.pop_front() {
                if event.data.len() as u64 <= self.limits.bytes {
                    return Poll::Ready(Ok(Some(event)));
                }
                incoming.too_large = true;
                incoming.events.clear();
            }
            if incoming.too_large {
                incoming.pieces.end();
                return Poll::Ready(Err(message_too_large(RECEIVE, self.limits.bytes)));
            }
            match ready!(incoming.pieces.poll(context)) {
                Ok(Some(piece)) => {
                    let Incoming { events, reader, too_large, .. } = &mut *incoming;
                    *too_large = reader.feed(&piece, events).is_err();
                }
                Ok(None) => return Poll::Ready(Ok(None)),
                Err(error) => return Poll::Ready(Err(failed(cx, RECEIVE, &self.url, &error))),
            }
        }
    }
}

fn value_of(event: Event) -> Value {
    let mut dict = Dict::new();
    dict.insert("type", "event");
    dict.insert("event", event.name);
    dict.insert("data", event.data);
    dict.insert("id", event.id);
    dict.insert("retry_ms", event.retry_ms);
    dict.into()
}
