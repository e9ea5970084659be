//! Bodies that a program reads in chunks. Reads are cancel safe: the chunk remains for the next read.

use std::cell::Cell;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use harn_system::{Body, HttpError};
use harn_vm::{Error, Result};

type Piece = std::result::Result<Option<Bytes>, HttpError>;

/// A future for the next chunk of a body, which owns the body.
type Next = Pin<Box<dyn Future<Output = (Box<dyn Body>, Piece)>>>;

/// The remaining chunks of a body.
#[derive(Default)]
pub(crate) struct Pieces(Option<Next>);

impl Pieces {
    /// Returns the chunks of a body.
    pub(crate) fn of(body: Box<dyn Body>) -> Pieces {
        Pieces(Some(next_of(body)))
    }

    /// Returns the next chunk; `None` at the end and after an error.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Piece> {
        let Some(next) = &mut self.0 else { return Poll::Ready(Ok(None)) };
        let (body, piece) = ready!(next.as_mut().poll(context));
        self.0 = matches!(piece, Ok(Some(_))).then(|| next_of(body));
        Poll::Ready(piece)
    }

    /// Closes the connection.
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

/// Permits only one wait at a time: two would consume each other's messages.
#[derive(Default)]
pub(crate) struct Turn(Cell<bool>);

/// A wait that has begun, until it is dropped.
pub(crate) struct Taken<'a>(&'a Turn);

impl Turn {
    /// Starts a wait of a builtin on a handle.
    ///
    /// # Errors
    /// Another task waits on it.
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
