//! The clients of `sse_*` and `websocket_*`: connections that a program accesses by handle, and their mocks.
//!
//! | File | Content |
//! | --- | --- |
//! | `events` | the parser of event streams |
//! | `sse` | event streams |
//! | `socket` | WebSockets |
//! | `mock` | mocks of both, and the record of their calls |
//!
//! Waits are cancel safe: the next message remains in the connection for the next wait.

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

/// Default limits: messages of a connection, and bytes of each message.
const MAX_MESSAGES: u64 = 10_000;
const MAX_BYTES: u64 = 1 << 20;

/// The open connections of a program, by handle.
#[derive(Default)]
pub(crate) struct Open {
    last: Cell<u64>,
    streams: RefCell<BTreeMap<String, Rc<Stream>>>,
    sockets: RefCell<BTreeMap<String, Rc<Socket>>>,
}

impl Open {
    /// Returns a new handle that is unique in the program.
    fn handle(&self, kind: &str) -> String {
        self.last.set(self.last.get() + 1);
        format!("{kind}-{}", self.last.get())
    }

    /// Returns the event stream of a handle.
    pub(crate) fn stream(&self, builtin: &str, handle: &str) -> Result<Rc<Stream>> {
        let found = self.streams.borrow().get(handle).cloned();
        found.ok_or_else(|| Error::thrown(format!("{builtin}: unknown stream '{handle}'")))
    }

    /// Returns the WebSocket of a handle.
    pub(crate) fn socket(&self, builtin: &str, handle: &str) -> Result<Rc<Socket>> {
        let found = self.sockets.borrow().get(handle).cloned();
        found.ok_or_else(|| Error::thrown(format!("{builtin}: unknown websocket '{handle}'")))
    }

    /// Closes an event stream; returns false if it does not exist.
    pub(crate) fn end_stream(&self, handle: &str) -> bool {
        self.streams.borrow_mut().remove(handle).is_some()
    }

    /// Removes a WebSocket in order to close it.
    pub(crate) fn end_socket(&self, handle: &str) -> Option<Rc<Socket>> {
        self.sockets.borrow_mut().remove(handle)
    }
}

/// Maximum number of messages of a connection, and of bytes per message.
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

/// Waits for a message of a connection, at most for `limit`; cancellation and deadlines end the wait.
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

/// Returns the error of a failed connection.
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

/// Returns a dict with only a `type`.
fn only_type(kind: &str) -> Value {
    [("type", kind)].into_iter().collect::<Dict>().into()
}
