//! Bodies of replies in pieces. Each piece is an entry, except for a body that arrived completely with its head.

use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use bytes::Bytes;
use harn_system::{Body, HttpError, HttpErrorKind, HttpRequest, Uncertain, Waiting};

use crate::doubt::{Decision, uncertain};
use crate::entry::Digester;
use crate::journal::Core;
use crate::op::{Exchange, Inquired, Running};
use crate::wire::{Answer, STOPPED};

/// Maximum size of a body that is recorded with its head; a larger one has an entry per piece.
const MOST: usize = 16 << 20;

/// The connection that a body comes from.
pub(crate) struct Link {
    request: Rc<HttpRequest>,
    /// Whether the request can be repeated.
    again: bool,
    /// The status that the program has seen.
    pub(crate) status: u16,
    /// The body; `None` before it arrives, and after the process that read it has ended.
    body: Option<Box<dyn Body>>,
    /// Whether this process has received it.
    is_received: bool,
    /// Data that was read ahead of the program's request.
    ahead: Option<Result<Option<Bytes>, HttpError>>,
    /// The end of the data so far, as long as it may be the beginning of a key.
    held: Vec<u8>,
    /// Data that the program already has from a body whose connection is closed.
    given: Vec<u8>,
}

impl Link {
    pub(crate) fn new(request: Rc<HttpRequest>, again: bool) -> Link {
        Link {
            request,
            again,
            status: 0,
            body: None,
            is_received: false,
            ahead: None,
            held: Vec::new(),
            given: Vec::new(),
        }
    }

    /// Receives a new body. Returns all of it if it is complete, or if the program reads nothing before the end.
    pub(crate) async fn receive(
        link: &RefCell<Link>,
        mut body: Box<dyn Body>,
    ) -> Option<Result<Vec<u8>, HttpError>> {
        link.borrow_mut().is_received = true;
        if body.is_over() {
            return Some(Ok(Vec::new()));
        }
        if link.borrow().request.whole {
            let mut bytes = Vec::new();
            loop {
                match body.next().await {
                    Err(error) => return Some(Err(error)),
                    Ok(None) => return Some(Ok(bytes)),
                    Ok(Some(piece)) => bytes.extend_from_slice(&piece),
                }
                if bytes.len() > MOST {
                    let mut link = link.borrow_mut();
                    (link.body, link.ahead) = (Some(body), Some(Ok(Some(bytes.into()))));
                    return None;
                }
            }
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
            Some(Ok(Some(piece))) if body.is_over() => Some(Ok(piece.into())),
            ahead => {
                let mut link = link.borrow_mut();
                (link.body, link.ahead) = (Some(body), ahead);
                None
            }
        }
    }

    /// Continues a repeated reply after the data that the program has from the first one. A reply that differs is an
    /// error.
    async fn reopen(link: &RefCell<Link>, mut body: Box<dyn Body>) -> Result<(), HttpError> {
        let given = std::mem::take(&mut link.borrow_mut().given);
        let mut found = Vec::new();
        while found.len() < given.len() && given.starts_with(&found) {
            match body.next().await? {
                Some(piece) => found.extend_from_slice(&piece),
                None => break,
            }
        }
        let mut link = link.borrow_mut();
        (link.body, link.is_received) = (Some(body), true);
        if let Some(rest) = found.strip_prefix(given.as_slice()) {
            link.ahead = (!rest.is_empty()).then(|| Ok(Some(Bytes::copy_from_slice(rest))));
            return Ok(());
        }
        link.ahead = (!found.is_empty()).then(|| Ok(Some(found.into())));
        let text = "the run was interrupted while this reply was read, and the repeated reply differs";
        Err(HttpError::new(HttpErrorKind::Restarted, text))
    }
}

impl Exchange for RefCell<Link> {
    fn is_under_way(&self) -> bool {
        // While it is being changed, something is.
        self.try_borrow().map_or(true, |link| link.body.as_ref().is_some_and(|body| !body.is_over()))
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

/// The part of a body that the entry of its head contains.
enum Whole {
    /// Its pieces are entries.
    No,
    /// All of it, or the error that ended it; not passed to the program yet.
    Here(Result<Vec<u8>, HttpError>),
    /// The program has all of it.
    Given,
}

impl JournalBody {
    pub(crate) fn new(
        core: Rc<Core>,
        link: Rc<RefCell<Link>>,
        note: Rc<str>,
        digest: u64,
        whole: Option<Result<Vec<u8>, HttpError>>,
    ) -> JournalBody {
        let whole = match whole {
            None => Whole::No,
            Some(Ok(body)) if body.is_empty() => Whole::Given,
            Some(body) => Whole::Here(body),
        };
        JournalBody { core, link, note, digest, whole }
    }
}

type Piece = Result<Option<Vec<u8>>, HttpError>;

fn lost(text: &str) -> HttpError {
    HttpError::new(HttpErrorKind::Broken, text)
}

/// Repeats a request whose reply is lost. Returns false if the effect has a given result, and no body follows.
async fn resend(
    core: &Core,
    link: &RefCell<Link>,
    doubt: Option<&Rc<Inquired>>,
    note: &str,
    op: u64,
) -> Result<bool, HttpError> {
    let (request, status, is_received) = {
        let link = link.borrow();
        (link.request.clone(), link.status, link.is_received)
    };
    if is_received {
        return Err(lost("the wait for a part of this reply was given up, and the connection with it"));
    }
    if let Some(doubt) = doubt {
        let asks = request.uncertain == Uncertain::Ask;
        match core.decide(doubt, asks, op).await {
            Decision::Again => {}
            Decision::Result(_) => return Ok(false),
            Decision::Fail => return Err(uncertain(note)),
        }
    }
    if !core.kept().await {
        return Err(lost(STOPPED));
    }
    let reply = core.inner.http(HttpRequest::clone(&request)).await?;
    if reply.status != status {
        return Err(lost(&format!(
            "the run was interrupted while this reply was read, and the repeated request got status {} instead of {status}",
            reply.status
        )));
    }
    Link::reopen(link, reply.body).await?;
    Ok(true)
}

/// Returns the next piece. It does not end within a key: such an end waits for the next piece.
async fn whole_keys(core: &Core, link: &RefCell<Link>) -> Piece {
    let mut data = std::mem::take(&mut link.borrow_mut().held);
    loop {
        match next_piece(link).await {
            Ok(Some(piece)) => {
                data.extend_from_slice(&piece);
                let end = core.secrets.borrow().open_end(&data);
                if end < data.len() {
                    link.borrow_mut().held = data.split_off(data.len() - end);
                    return Ok(Some(data));
                }
            }
            end if data.is_empty() => return end.map(|_| None),
            end => {
                link.borrow_mut().ahead = Some(end);
                return Ok(Some(data));
            }
        }
    }
}

async fn next_piece(link: &RefCell<Link>) -> Result<Option<Bytes>, HttpError> {
    let (body, ahead) = {
        let mut link = link.borrow_mut();
        (link.body.take(), link.ahead.take())
    };
    let Some(mut body) = body else { return ahead.unwrap_or(Ok(None)) };
    let piece = match ahead {
        Some(piece) => piece,
        None => body.next().await,
    };
    link.borrow_mut().body = Some(body);
    piece
}

impl Body for JournalBody {
    fn next(&mut self) -> Waiting<'_, Result<Option<Bytes>, HttpError>> {
        match std::mem::replace(&mut self.whole, Whole::Given) {
            Whole::No => self.whole = Whole::No,
            Whole::Here(body) => return Box::pin(std::future::ready(body.map(|body| Some(body.into())))),
            Whole::Given => return Box::pin(std::future::ready(Ok(None))),
        }
        let (core, link) = (self.core.clone(), self.link.clone());
        let (note, op) = (self.note.clone(), self.core.next_op());
        let (is_in_doubt, asks) = {
            let link = link.borrow();
            (!link.again && !link.is_received, link.request.uncertain == Uncertain::Ask)
        };
        let doubt = is_in_doubt.then(|| self.core.doubt("http", &self.note));
        let inquired = doubt.clone().filter(|_| asks);
        let begin = Box::new(move || -> Running {
            Box::pin(async move {
                let is_open = link.borrow().body.is_some();
                let opened =
                    if is_open { Ok(true) } else { resend(&core, &link, doubt.as_ref(), &note, op).await };
                let piece = match opened {
                    Err(error) => Err(error),
                    Ok(false) => Ok(None),
                    Ok(true) => whole_keys(&core, &link).await,
                };
                let secrets = core.secrets.borrow();
                let hidden: Piece = piece.map(|piece| piece.map(|bytes| secrets.hide(bytes)));
                hidden.encode()
            })
        });
        let digest = Digester::new().add(&self.digest.to_le_bytes()).end();
        let wait = self.core.begin_op_of::<Piece>("body", self.note.clone(), digest, None, inquired, begin);
        Box::pin(async move {
            let piece = wait.await;
            let mut link = self.link.borrow_mut();
            match piece {
                Ok(piece) => Ok(piece.map(|bytes| {
                    let bytes = self.core.show_keys(bytes);
                    if !link.is_received {
                        link.given.extend_from_slice(&bytes);
                    }
                    Bytes::from(bytes)
                })),
                Err(error) => {
                    if error.kind == HttpErrorKind::Restarted {
                        link.given.clear();
                    }
                    Err(error)
                }
            }
        })
    }

    fn is_over(&self) -> bool {
        // The state of the connection does not matter: a replay knows only the journal.
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
