//! Requests to humans, and the wait for their answers, which may exceed the lifetime of a process.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use harn_store::{Answer as Given, NewWaitpoint};
use harn_system::{Asked, Inquiry, Reply, Waiting};

use crate::journal::{Core, Journal, Status};
use crate::op::{Inquired, Pending, Running};
use crate::setup::Stop;
use crate::wire::{Answer, nanos};

/// How often a waiting process checks for answers that other processes have recorded.
const LOOK: Duration = Duration::from_millis(200);

impl Inquired {
    pub(crate) fn new(id: &str, kind: &str, prompt: &str, had: u32) -> Rc<Inquired> {
        let request = Pending { id: id.to_owned(), kind: kind.to_owned(), prompt: prompt.to_owned(), had };
        Rc::new(Inquired { request, waits: Cell::new(false) })
    }
}

impl Core {
    pub(crate) fn begin_inquiry(&self, inquiry: Inquiry) -> Waiting<'static, Asked> {
        if self.is_loading() {
            return self.inner.inquire(inquiry);
        }
        if !self.people {
            let time = self.begin_sleep(inquiry.time, false);
            return Box::pin(async move {
                time.await;
                Ok(None)
            });
        }
        let (wall, now) = self.noted_clocks();
        let limit = Some(inquiry.time).filter(|time| *time != Duration::MAX);
        let until = limit.map(|time| now.saturating_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)));
        let due_ms =
            limit.map(|time| wall.saturating_add(i64::try_from(time.as_millis()).unwrap_or(i64::MAX)));
        let Inquiry { id, kind, prompt, details, quorum, had, .. } = inquiry;
        self.state.borrow_mut().inquired.insert(id.clone());
        let inquired = Inquired::new(&id, &kind, &self.named(&prompt), had);
        let digest = self.digest([
            id.as_bytes(),
            kind.as_bytes(),
            prompt.as_bytes(),
            details.as_bytes(),
            &quorum.to_le_bytes(),
            &had.to_le_bytes(),
        ]);
        // Questions are stored where humans find them.
        let (prompt, details) = (self.named(&prompt), self.named(&details));
        let note = format!("{kind} {id}: {prompt}");
        let request = NewWaitpoint {
            request_id: id,
            kind,
            prompt,
            info: details.into_bytes(),
            asked_ms: wall,
            due_ms,
            quorum,
        };
        let (core, own) = (self.own(), inquired.clone());
        let begin = Box::new(move || -> Running {
            Box::pin(async move {
                let given = core.person(request, &own, until).await;
                let reply = given.map(|given| {
                    given.map(|given| Reply {
                        value: String::from_utf8_lossy(&given.value).into_owned(),
                        by: given.by,
                        at_ms: given.at_ms,
                        signature: given.signature,
                    })
                });
                reply.encode()
            })
        });
        Box::pin(self.begin_op_of::<Asked>("person", note.into(), digest, until, Some(inquired), begin))
    }

    /// Waits for the answer to a request; `None` after its deadline.
    pub(crate) async fn person(
        &self,
        request: NewWaitpoint,
        inquired: &Inquired,
        until: Option<u64>,
    ) -> Result<Option<Given>, String> {
        // A resumed run must reach the same request, so earlier entries are persisted first.
        if !self.kept().await {
            return Ok(None);
        }
        if let Err(text) = self.keeper.open(request.clone()).await {
            self.stop(Stop::Unkept(text));
            return Ok(None);
        }
        let mut seen = None;
        loop {
            if self.is_stopped() {
                return Ok(None);
            }
            let left = until.map_or(LOOK, |until| self.left(until));
            let (count, _) = self.answered.get();
            if seen != Some(count) || left.is_zero() {
                let answers = match self.keeper.answers(&request).await {
                    Ok(answers) => answers,
                    Err(text) => {
                        self.stop(Stop::Unkept(text));
                        return Ok(None);
                    }
                };
                let in_time = |given: &Given| request.due_ms.is_none_or(|due_ms| given.at_ms <= due_ms);
                match answers.into_iter().nth(inquired.request.had as usize) {
                    Some(Ok(given)) if in_time(&given) => return Ok(Some(given)),
                    Some(Err(text)) => return Err(text),
                    _ => {}
                }
                seen = Some(count);
            }
            if left.is_zero() {
                return Ok(None);
            }
            inquired.waits.set(true);
            self.inner.sleep(left.min(LOOK)).await;
            self.count_answers().await;
        }
    }

    /// Reads the number of answers, once for all waiting tasks.
    async fn count_answers(&self) {
        let now = nanos(self.inner.monotonic());
        let (count, at) = self.answered.get();
        if now.saturating_sub(at) < nanos(LOOK) / 2 {
            return;
        }
        self.answered.set((count, now));
        match self.keeper.answered().await {
            Ok(count) => self.answered.set((count, now)),
            Err(text) => self.stop(Stop::Unkept(text)),
        }
    }

    /// Marks a request as closed.
    pub(crate) fn end_inquiry(&self, id: &str) {
        if self.replay || !self.state.borrow_mut().inquired.remove(id) {
            return;
        }
        match self.status() {
            // A resumed run still needs the request.
            Status::Stopped => {}
            Status::Following => self.state.borrow_mut().ended.push(id.to_owned()),
            Status::Live => self.close(id),
        }
    }

    /// Closes a request in the store, after earlier writes.
    pub(crate) fn close(&self, id: &str) {
        let kept = self.keeper.close(id, self.inner.now_ms());
        let mut state = self.state.borrow_mut();
        let upto = state.kept_when_written();
        state.under_way.push_back((upto, kept));
    }
}

impl Journal {
    /// Returns the open requests to humans.
    pub fn pending(&self) -> Vec<Pending> {
        self.0.state.borrow().pending()
    }
}
