//! The clients behind `sse_*` and `websocket_*`: connections that a program holds by name, and what stands in for them in tests.
//!
//! | File | What it holds |
//! | --- | --- |
//! | `events` | events of a stream from its bytes |
//! | `sse` | streams of events |
//! | `socket` | WebSockets |
//! | `mock` | what stands in for both, and the record of what was asked of it |
//!
//! A wait that is given up takes nothing away: what a connection gives next stays in it for the next wait.

mod events;
mod mock;
mod socket;
mod sse;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use harn_system::{HttpError, HttpErrorKind, Refusal, SystemExt};
use harn_value::{Dict, Value};
use harn_vm::{Cx, Error, Result};

use crate::failures;
use crate::http::redacted_url;

pub(crate) use mock::Mocks;
pub(crate) use socket::{Socket, connect as connect_socket, frame_of};
pub(crate) use sse::{Stream, connect as connect_stream};

/// Messages of a connection, and bytes of each, when nothing else is said.
const MAX_MESSAGES: u64 = 10_000;
const MAX_BYTES: u64 = 1 << 20;

/// The open connections of a program, by their handles.
#[derive(Default)]
pub(crate) struct Open {
    last: Cell<u64>,
    streams: RefCell<BTreeMap<String, Rc<Stream>>>,
    sockets: RefCell<BTreeMap<String, Rc<Socket>>>,
}

impl Open {
    /// A handle that no other connection of the program has had.
    fn handle(&self, kind: &str) -> String {
        self.last.set(self.last.get() + 1);
        format!("{kind}-{}", self.last.get())
    }

    /// The stream of events of a handle.
    pub(crate) fn stream(&self, builtin: &str, handle: &str) -> Result<Rc<Stream>> {
        let found = self.streams.borrow().get(handle).cloned();
        found.ok_or_else(|| Error::thrown(format!("{builtin}: unknown stream '{handle}'")))
    }

    /// The WebSocket of a handle.
    pub(crate) fn socket(&self, builtin: &str, handle: &str) -> Result<Rc<Socket>> {
        let found = self.sockets.borrow().get(handle).cloned();
        found.ok_or_else(|| Error::thrown(format!("{builtin}: unknown websocket '{handle}'")))
    }

    /// Hangs up; false when there is no such stream.
    pub(crate) fn end_stream(&self, handle: &str) -> bool {
        self.streams.borrow_mut().remove(handle).is_some()
    }

    /// Takes a WebSocket out, to close it.
    pub(crate) fn end_socket(&self, handle: &str) -> Option<Rc<Socket>> {
        self.sockets.borrow_mut().remove(handle)
    }
}

/// Messages and bytes that a connection may bring.
struct Limits {
    messages: u64,
    bytes: u64,
}

impl Limits {
    fn of(builtin: &str, options: &Dict, messages: &str) -> Result<Limits> {
        let limit = |name: &str, default: u64| match options.get_str(name).and_then(Value::as_int) {
            None => Ok(default),
            Some(limit) => u64::try_from(limit)
                .ok()
                .filter(|limit| *limit > 0)
                .ok_or_else(|| Error::thrown(format!("{builtin}: {name} must be a positive int"))),
        };
        Ok(Limits { messages: limit(messages, MAX_MESSAGES)?, bytes: limit("max_message_bytes", MAX_BYTES)? })
    }
}

/// Waits for what a connection gives, at most for `limit`; cancellation and deadlines end the wait.
async fn wait<T>(
    cx: &Cx,
    limit: Duration,
    mut look: impl FnMut(&mut Context<'_>) -> Poll<Result<T>>,
) -> Result<Option<T>> {
    let look = poll_fn(|context| match cx.task().check_wait() {
        Err(error) => Poll::Ready(Err(error)),
        Ok(()) => look(context),
    });
    cx.system().within(limit, look).await.transpose()
}

/// The error of a connection that failed.
fn failed(cx: &Cx, builtin: &str, url: &str, error: &HttpError) -> Error {
    match error.kind {
        HttpErrorKind::Refused => cx.refused(&Refusal::Ceiling("network")),
        HttpErrorKind::Egress => crate::http::egress::egress_error(builtin, &error.text),
        kind => {
            let facts = failures::of_http(kind, redacted_url(url));
            Error::thrown(format!("{builtin}: failed: {error}")).with_facts(facts)
        }
    }
}

fn message_too_large(builtin: &str, limit: u64) -> Error {
    Error::thrown(format!("{builtin}: message exceeded max_message_bytes ({limit})"))
}

/// A dict that says nothing but what it is.
fn only_type(kind: &str) -> Value {
    [("type", kind)].into_iter().collect::<Dict>().into()
}
