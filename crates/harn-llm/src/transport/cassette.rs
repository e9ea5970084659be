//! Recorded exchanges: a carrier that records the exchanges of another one, and one that replays a recording.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;

use super::{Carrier, HttpReply, HttpRequest, ReplyBody};
use crate::embedder::LocalFuture;
use crate::error::{Category, LlmError};
use crate::record::{Recorded, Recorder, Tape};

/// Records each exchange when it ends, whatever its outcome.
pub(crate) struct Recording {
    pub(crate) recorder: RefCell<Recorder>,
    pub(crate) inner: Rc<dyn Carrier>,
}

impl Carrier for Recording {
    fn send<'a>(&'a self, request: &'a HttpRequest<'a>) -> LocalFuture<'a, Result<HttpReply<'a>, LlmError>> {
        let mut exchange = Exchange { carrier: self, request, recorded: Recorded::default() };
        Box::pin(async move {
            let reply = self.inner.send(request).await;
            match &reply {
                Ok(reply) => {
                    exchange.recorded.head = Some(reply.head.clone());
                    exchange.recorded.is_cut = true;
                }
                Err(error) => exchange.recorded.failure = Some(error.clone()),
            }
            let HttpReply { head, body } = reply?;
            Ok(HttpReply { head, body: Box::new(RecordedBody { exchange, body }) })
        })
    }

    fn now(&self) -> Duration {
        self.inner.now()
    }
}

/// An exchange that is being recorded. Dropping it records what was read so far.
struct Exchange<'a> {
    carrier: &'a Recording,
    request: &'a HttpRequest<'a>,
    recorded: Recorded,
}

impl Drop for Exchange<'_> {
    fn drop(&mut self) {
        self.carrier.recorder.borrow_mut().add(self.request, &self.recorded);
    }
}

struct RecordedBody<'a> {
    exchange: Exchange<'a>,
    body: Box<dyn ReplyBody + 'a>,
}

impl ReplyBody for RecordedBody<'_> {
    fn chunk(&mut self, idle: Option<Duration>) -> LocalFuture<'_, Result<Option<Bytes>, LlmError>> {
        Box::pin(async move {
            let read = self.body.chunk(idle).await;
            match &read {
                Ok(Some(chunk)) => self.exchange.recorded.body.extend_from_slice(chunk),
                Ok(None) => self.exchange.recorded.is_cut = false,
                Err(error) => self.exchange.recorded.failure = Some(error.clone()),
            }
            read
        })
    }

    fn release<'a>(mut self: Box<Self>) -> LocalFuture<'a, ()>
    where
        Self: 'a,
    {
        self.exchange.recorded.is_cut = false;
        self.body.release()
    }
}

/// Replays exchanges from a tape; nothing is sent over the network.
pub(crate) struct Replaying {
    tape: RefCell<Tape>,
    clock: Rc<dyn Carrier>,
}

impl Replaying {
    /// Creates a carrier that replays a tape, with the clock of another carrier.
    pub(crate) fn new(tape: Tape, clock: Rc<dyn Carrier>) -> Replaying {
        Replaying { tape: RefCell::new(tape), clock }
    }

    /// Returns the number of unused exchanges.
    pub(crate) fn unused(&self) -> usize {
        self.tape.borrow().unused()
    }
}

impl Carrier for Replaying {
    fn send<'a>(&'a self, request: &'a HttpRequest<'a>) -> LocalFuture<'a, Result<HttpReply<'a>, LlmError>> {
        let found = self.tape.borrow_mut().find(request).and_then(|recorded| {
            let body = ReplayedBody { bytes: Some(recorded.body.into()), failure: recorded.failure };
            match (recorded.head, body.failure.clone()) {
                (Some(head), _) => Ok(HttpReply { head, body: Box::new(body) as Box<dyn ReplyBody> }),
                (None, Some(failure)) => Err(failure),
                (None, None) => Err(LlmError::new(Category::Generic, "nothing was recorded")),
            }
        });
        Box::pin(std::future::ready(found))
    }

    fn now(&self) -> Duration {
        self.clock.now()
    }
}

/// Bytes, followed by the error that ended the recorded exchange.
struct ReplayedBody {
    bytes: Option<Bytes>,
    failure: Option<LlmError>,
}

impl ReplyBody for ReplayedBody {
    fn chunk(&mut self, _: Option<Duration>) -> LocalFuture<'_, Result<Option<Bytes>, LlmError>> {
        let next = match (self.bytes.take(), self.failure.take()) {
            (Some(bytes), later) => {
                self.failure = later;
                Ok(Some(bytes))
            }
            (None, Some(failure)) => Err(failure),
            (None, None) => Ok(None),
        };
        Box::pin(std::future::ready(next))
    }

    fn release<'a>(self: Box<Self>) -> LocalFuture<'a, ()>
    where
        Self: 'a,
    {
        Box::pin(std::future::ready(()))
    }
}
