//! WebSockets. Each received and each sent frame is an entry. The connection does not outlive the process.

use std::cell::RefCell;
use std::rc::Rc;

use harn_system::{Frame, HttpError, HttpErrorKind, HttpRequest, Socket, Waiting};

use crate::entry::Digester;
use crate::journal::Core;
use crate::op::Running;
use crate::outside::{digest_of, without_query};
use crate::wire::{Answer, STOPPED};

/// `None`: the end, or nothing was received. `Some`: a frame, or success.
type Outcome = Result<Option<Vec<u8>>, HttpError>;

type Slot = Rc<RefCell<Option<Rc<dyn Socket>>>>;

fn broken(text: &str) -> HttpError {
    HttpError::new(HttpErrorKind::Broken, text)
}

/// A resumed run has no connection: the peer was connected to a process that is gone.
fn inner(slot: &Slot) -> Result<Rc<dyn Socket>, HttpError> {
    slot.borrow().clone().ok_or_else(|| broken("the run was interrupted, and the connection ended with it"))
}

impl Core {
    pub(crate) fn begin_websocket(
        &self,
        request: HttpRequest,
    ) -> Waiting<'_, Result<Rc<dyn Socket>, HttpError>> {
        let note: Rc<str> = self.named(without_query(&request.url)).into();
        let digest = digest_of(&request, &self.secrets.borrow());
        let slot = Slot::default();
        let (core, own) = (self.own(), slot.clone());
        let begin = Box::new(move || -> Running {
            Box::pin(async move {
                let opened = match core.kept().await {
                    true => core.inner.websocket(request).await,
                    false => Err(broken(STOPPED)),
                };
                let outcome: Outcome = opened.map(|socket| {
                    *own.borrow_mut() = Some(socket);
                    Some(Vec::new())
                });
                outcome.encode()
            })
        });
        let wait = self.begin_op::<Outcome>("websocket", note.clone(), digest, None, begin);
        let core = self.own();
        Box::pin(async move {
            wait.await?;
            let socket: Rc<dyn Socket> = Rc::new(JournalSocket { core, slot, note, digest });
            Ok(socket)
        })
    }
}

struct JournalSocket {
    core: Rc<Core>,
    slot: Slot,
    note: Rc<str>,
    digest: u64,
}

impl Socket for JournalSocket {
    fn next(self: Rc<Self>) -> Waiting<'static, Result<Option<Frame>, HttpError>> {
        let digest = Digester::new().add(&self.digest.to_le_bytes()).end();
        let (core, slot) = (self.core.clone(), self.slot.clone());
        let begin = Box::new(move || -> Running {
            Box::pin(async move {
                let came = match inner(&slot) {
                    Ok(socket) => socket.next().await,
                    Err(error) => Err(error),
                };
                let secrets = core.secrets.borrow();
                let outcome: Outcome = came.map(|frame| frame.map(|frame| secrets.hide(frame.to_bytes())));
                outcome.encode()
            })
        });
        let wait = self.core.begin_op::<Outcome>("websocket_next", self.note.clone(), digest, None, begin);
        Box::pin(async move {
            let Some(bytes) = wait.await? else { return Ok(None) };
            let frame = Frame::of_bytes(&self.core.show_keys(bytes));
            frame.map(Some).ok_or_else(|| broken("the journal holds no frame here"))
        })
    }

    fn send(self: Rc<Self>, frame: Frame) -> Waiting<'static, Result<bool, HttpError>> {
        let digest = self.core.digest([self.digest.to_le_bytes().as_slice(), &frame.to_bytes()]);
        let (core, slot) = (self.core.clone(), self.slot.clone());
        let begin = Box::new(move || -> Running {
            Box::pin(async move {
                let sent = match inner(&slot) {
                    Err(error) => Err(error),
                    Ok(_) if !core.kept().await => Err(broken(STOPPED)),
                    Ok(socket) => socket.send(frame).await,
                };
                let outcome: Outcome = sent.map(|taken| taken.then(Vec::new));
                outcome.encode()
            })
        });
        let wait = self.core.begin_op::<Outcome>("websocket_send", self.note.clone(), digest, None, begin);
        Box::pin(async move { Ok(wait.await?.is_some()) })
    }
}
