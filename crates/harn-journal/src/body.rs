//! Bodies of replies, piece by piece. Each piece is an entry.

use std::cell::RefCell;
use std::rc::Rc;

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
    pub(crate) body: Option<Box<dyn Body>>,
    /// How much of it the program has.
    given: u64,
}

impl Link {
    pub(crate) fn new(request: Rc<HttpRequest>, again: bool) -> Link {
        Link { request, again, status: 0, body: None, given: 0 }
    }
}

/// A body that the program reads.
pub(crate) struct JournalBody {
    core: Rc<Core>,
    link: Rc<RefCell<Link>>,
    note: Rc<str>,
    digest: u64,
}

impl JournalBody {
    pub(crate) fn new(core: Rc<Core>, link: Rc<RefCell<Link>>, note: Rc<str>, digest: u64) -> JournalBody {
        JournalBody { core, link, note, digest }
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
        let (core, link) = (self.core.clone(), self.link.clone());
        let begin = Box::new(move || -> std::pin::Pin<Box<dyn std::future::Future<Output = Vec<u8>>>> {
            Box::pin(async move {
                let taken = link.borrow_mut().body.take();
                let body = match taken {
                    Some(body) => Ok(body),
                    None => reopened(&core, &link).await,
                };
                let piece: Piece = match body {
                    Err(error) => Err(error),
                    Ok(mut body) => {
                        let piece = body.next().await;
                        link.borrow_mut().body = Some(body);
                        let secrets = core.secrets.borrow();
                        piece.map(|piece| piece.map(|bytes| secrets.hide(bytes.into())))
                    }
                };
                piece.encode()
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

    fn release(self: Box<Self>) -> Waiting<'static, ()> {
        let body = self.link.borrow_mut().body.take();
        if let Some(body) = body {
            self.core.aside(body.release());
        }
        Box::pin(std::future::ready(()))
    }
}
