//! Bodies of replies, piece by piece. Each piece is an entry, but for a body that came whole with its head.

use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use bytes::Bytes;
use harn_system::{Body, HttpError, HttpErrorKind, HttpRequest, Waiting};

use crate::entry::Digester;
use crate::journal::Core;
use crate::wire::Answer;

/// The connection that a body comes from.
pub(crate) struct Link {
    request: Rc<HttpRequest>,
    /// Whether the request may be sent again.
    again: bool,
    /// The status that the program has seen.
    pub(crate) status: u16,
    /// The body; `None` before it is there, and when the process that read it has ended.
    body: Option<Box<dyn Body>>,
    /// What was read of it before somebody asked.
    ahead: Option<Result<Option<Bytes>, HttpError>>,
    /// How much of it the program has.
    given: u64,
}

impl Link {
    pub(crate) fn new(request: Rc<HttpRequest>, again: bool) -> Link {
        Link { request, again, status: 0, body: None, ahead: None, given: 0 }
    }

    /// Takes a body that begins. Gives all of it when all of it is there.
    pub(crate) async fn receive(link: &RefCell<Link>, mut body: Box<dyn Body>) -> Option<Vec<u8>> {
        if body.is_over() {
            return Some(Vec::new());
        }
        let first = {
            let mut next = body.next();
            poll_fn(|context| match next.as_mut().poll(context) {
                Poll::Ready(piece) => Poll::Ready(Some(piece)),
                Poll::Pending => Poll::Ready(None),
            })
            .await
        };
        match first {
            Some(Ok(Some(piece))) if body.is_over() => Some(piece.into()),
            ahead => {
                let mut link = link.borrow_mut();
                (link.body, link.ahead) = (Some(body), ahead);
                None
            }
        }
    }
}

/// A body that the program reads.
pub(crate) struct JournalBody {
    core: Rc<Core>,
    link: Rc<RefCell<Link>>,
    note: Rc<str>,
    digest: u64,
    whole: Whole,
}

/// What is known of a body from the entry of its head.
enum Whole {
    /// Its pieces are entries.
    No,
    /// All of it; it was not given yet.
    Here(Vec<u8>),
    /// All of it was given.
    Given,
}

impl JournalBody {
    pub(crate) fn new(
        core: Rc<Core>,
        link: Rc<RefCell<Link>>,
        note: Rc<str>,
        digest: u64,
        whole: Option<Vec<u8>>,
    ) -> JournalBody {
        let whole = match whole {
            None => Whole::No,
            Some(body) if body.is_empty() => Whole::Given,
            Some(body) => Whole::Here(body),
        };
        JournalBody { core, link, note, digest, whole }
    }
}

type Piece = Result<Option<Vec<u8>>, HttpError>;

fn lost() -> HttpError {
    HttpError::new(
        HttpErrorKind::Broken,
        "the run was interrupted while this reply was read, and the rest of it is gone",
    )
}

/// Sends a request again whose reply is gone. Only when the program has seen nothing of the body: a second reply may be
/// another one.
async fn reopened(core: &Core, link: &RefCell<Link>) -> Result<Box<dyn Body>, HttpError> {
    let (request, status) = {
        let link = link.borrow();
        if !link.again || link.given > 0 {
            return Err(lost());
        }
        (link.request.clone(), link.status)
    };
    if !core.kept().await {
        return Err(lost());
    }
    let reply = core.inner.http(HttpRequest::clone(&request)).await?;
    if reply.status == status { Ok(reply.body) } else { Err(lost()) }
}

impl Body for JournalBody {
    fn next(&mut self) -> Waiting<'_, Result<Option<Bytes>, HttpError>> {
        match std::mem::replace(&mut self.whole, Whole::Given) {
            Whole::No => self.whole = Whole::No,
            Whole::Here(body) => return Box::pin(std::future::ready(Ok(Some(body.into())))),
            Whole::Given => return Box::pin(std::future::ready(Ok(None))),
        }
        let (core, link) = (self.core.clone(), self.link.clone());
        let begin = Box::new(move || -> std::pin::Pin<Box<dyn std::future::Future<Output = Vec<u8>>>> {
            Box::pin(async move {
                let (taken, ahead) = {
                    let mut link = link.borrow_mut();
                    (link.body.take(), link.ahead.take())
                };
                let body = match taken {
                    Some(body) => Ok(body),
                    None => reopened(&core, &link).await,
                };
                let piece = match body {
                    Err(error) => Err(error),
                    Ok(mut body) => {
                        let piece = match ahead {
                            Some(piece) => piece,
                            None => body.next().await,
                        };
                        link.borrow_mut().body = Some(body);
                        piece
                    }
                };
                let secrets = core.secrets.borrow();
                let hidden: Piece = piece.map(|piece| piece.map(|bytes| secrets.hide(bytes.into())));
                hidden.encode()
            })
        });
        let digest = Digester::new().add(&self.digest.to_le_bytes()).end();
        let wait = self.core.begin_op::<Piece>("body", self.note.clone(), digest, None, begin);
        Box::pin(async move {
            let piece = wait.await?;
            Ok(piece.map(|bytes| {
                self.link.borrow_mut().given += bytes.len() as u64;
                Bytes::from(self.core.secrets.borrow().show(bytes))
            }))
        })
    }

    fn is_over(&self) -> bool {
        // Not what is known outside: whoever follows the journal later knows only what it says.
        matches!(self.whole, Whole::Given)
    }

    fn release(self: Box<Self>) -> Waiting<'static, ()> {
        let body = self.link.borrow_mut().body.take();
        if let Some(body) = body {
            self.core.aside(body.release());
        }
        Box::pin(std::future::ready(()))
    }
}
