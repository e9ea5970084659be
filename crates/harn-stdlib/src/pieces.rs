//! Bodies that a program reads piece by piece. A wait that is given up takes nothing away: what it waited for stays for the next.

use std::cell::Cell;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use harn_system::{Body, HttpError};
use harn_vm::{Error, Result};

type Piece = std::result::Result<Option<Bytes>, HttpError>;

/// A wait for the next piece of a body, which keeps what it waits for.
type Next = Pin<Box<dyn Future<Output = (Box<dyn Body>, Piece)>>>;

/// The pieces of a body that are still to come.
#[derive(Default)]
pub(crate) struct Pieces(Option<Next>);

impl Pieces {
    /// Those of a body.
    pub(crate) fn of(body: Box<dyn Body>) -> Pieces {
        Pieces(Some(next_of(body)))
    }

    /// The next piece; `None` at the end, and behind an error.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Piece> {
        let Some(next) = &mut self.0 else { return Poll::Ready(Ok(None)) };
        let (body, piece) = ready!(next.as_mut().poll(context));
        self.0 = matches!(piece, Ok(Some(_))).then(|| next_of(body));
        Poll::Ready(piece)
    }

    /// Hangs up.
    pub(crate) fn end(&mut self) {
        self.0 = None;
    }
}

fn next_of(mut body: Box<dyn Body>) -> Next {
    Box::pin(async move {
        let piece = body.next().await;
        (body, piece)
    })
}

/// One wait at a time: two would take each other's messages.
#[derive(Default)]
pub(crate) struct Turn(Cell<bool>);

/// A wait that was begun, until it is dropped.
pub(crate) struct Taken<'a>(&'a Turn);

impl Turn {
    /// Begins a wait of a builtin for what a handle gives.
    ///
    /// # Errors
    /// Another task waits for it.
    pub(crate) fn take(&self, builtin: &str, handle: &str) -> Result<Taken<'_>> {
        if self.0.replace(true) {
            return Err(Error::thrown(format!("{builtin}: another task waits for '{handle}' already")));
        }
        Ok(Taken(self))
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.0.0.set(false);
    }
}
