//! Waits, requests and processes, and the delivery of their results.
//!
//! The program never waits for the system directly. It waits for an operation here, and [`Outside::hand_over`]
//! delivers one completion at a time, when no other work is left. While a journal is followed, its entries determine
//! which.

use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::marker::PhantomData;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use harn_store::Wish;
use harn_system::{
    Beside, Command, Finished, HttpError, HttpErrorKind, HttpReply, HttpRequest, InDoubt, Outside,
    PeerRequest, System, Uncertain, Waiting, is_secret_header,
};

use crate::body::{JournalBody, Link};
use crate::doubt::{Decision, finished_of, reply_of, uncertain};
use crate::entry::{Digester, Entry, What};
use crate::journal::{Begun, Core, Journal, Status};
use crate::keeper::Kept;
use crate::op::{Drain, Drainer, Exchange, Inquired, Op, OpWake, Running};
use crate::retry::REPEATABLE;
use crate::secrets::Secrets;
use crate::setup::Stop;
use crate::wire::{Answer, Came, STOPPED, nanos, path_bytes};

/// How long a write waits for entries of other tasks, while there is other work.
const GATHER: Duration = Duration::from_millis(1);

/// With this many operations others will soon wait for entries as well: the group is collected for this long, even
/// without other work. Each group is a disk write, and interrupts the program when it ends.
const MANY: usize = 256;
const GATHER_MANY: Duration = Duration::from_micros(1500);

/// How often a process looks whether a user wants its run to be paused or cancelled.
const WISHES: Duration = Duration::from_secs(1);

/// Numbers from here on belong to work that no task waits for.
const ASIDE: u64 = 1 << 63;

/// Waits until entries are persisted.
pub(crate) struct KeptUpTo {
    core: Rc<Core>,
    upto: u64,
}

impl Future for KeptUpTo {
    type Output = bool;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<bool> {
        if self.core.is_stopped() {
            return Poll::Ready(false);
        }
        let mut state = self.core.state.borrow_mut();
        if state.kept >= self.upto {
            return Poll::Ready(true);
        }
        state.waiting.push(context.waker().clone());
        Poll::Pending
    }
}

/// Waits until an operation is delivered.
pub(crate) struct Wait<T> {
    core: Rc<Core>,
    op: u64,
    answer: PhantomData<T>,
}

impl<T: Answer + Unpin> Future for Wait<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let outcome = {
            let mut state = self.core.state.borrow_mut();
            match state.ops.get_mut(&self.op) {
                None => None,
                Some(op) => match op.outcome.take() {
                    Some(outcome) => Some(outcome),
                    None => {
                        op.waker = Some(context.waker().clone());
                        None
                    }
                },
            }
        };
        match outcome {
            Some(outcome) => {
                self.core.state.borrow_mut().ops.remove(&self.op);
                Poll::Ready(self.core.decoded(&outcome))
            }
            None => Poll::Pending,
        }
    }
}

impl<T> Drop for Wait<T> {
    fn drop(&mut self) {
        let op = self.core.state.borrow_mut().ops.remove(&self.op);
        // Outside of the borrow, because dropping may read the clock.
        drop(op);
    }
}

impl Core {
    /// Waits until all current entries are persisted. They are written together with those of other tasks.
    pub(crate) fn kept(&self) -> KeptUpTo {
        let now = nanos(self.inner.monotonic());
        self.state.borrow_mut().wanted.get_or_insert(now);
        KeptUpTo { core: self.own(), upto: self.position() }
    }

    pub(crate) fn begin_op<T: Answer + Unpin>(
        &self,
        name: &'static str,
        note: Rc<str>,
        digest: u64,
        due: Option<u64>,
        begin: Box<dyn FnOnce() -> Running>,
    ) -> Wait<T> {
        self.begin_op_of(name, note, digest, due, None, begin)
    }

    pub(crate) fn begin_op_of<T: Answer + Unpin>(
        &self,
        name: &'static str,
        note: Rc<str>,
        digest: u64,
        due: Option<u64>,
        inquired: Option<Rc<Inquired>>,
        begin: Box<dyn FnOnce() -> Running>,
    ) -> Wait<T> {
        let place = self.here();
        let (op, live) = {
            let mut state = self.state.borrow_mut();
            let op = state.next_op;
            state.next_op += 1;
            let begin = Some(begin);
            let (running, outcome, waker) = (None, None, None);
            let new = Op { name, note, digest, place, begin, running, outcome, waker, due, inquired };
            state.ops.insert(op, new);
            (op, state.live)
        };
        if live {
            self.wakes.begin(op);
        }
        Wait { core: self.own(), op, answer: PhantomData }
    }

    /// Starts a timer. One that `restarts` has all of its time again in a resumed run.
    pub(crate) fn begin_sleep(&self, time: Duration, restarts: bool) -> Waiting<'static, ()> {
        let core = self.own();
        if self.is_loading() {
            return self.inner.sleep(time);
        }
        let (_, now) = self.clocks();
        // A resumed run must not start the timer again.
        self.pin_clocks();
        let until = now.saturating_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        let digest = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let note = format!("{} ms", time.as_millis());
        let begin = Box::new(move || -> Running {
            let wait = core.inner.sleep(if restarts { time } else { core.left(until) });
            Box::pin(async move {
                wait.await;
                Vec::new()
            })
        });
        Box::pin(self.begin_op::<()>("sleep", note.into(), digest, Some(until), begin))
    }

    /// Starts an operation that reads input. Keys are removed from the result.
    pub(crate) fn begin_input(
        &self,
        name: &'static str,
        read: fn(&dyn System) -> Waiting<'static, io::Result<Option<String>>>,
    ) -> Waiting<'static, io::Result<Option<String>>> {
        let core = self.own();
        let begin = Box::new(move || -> Running {
            Box::pin(async move {
                let text = read(&*core.inner).await;
                text.map(|text| text.map(|text| core.secrets.borrow().hide(text.into_bytes()))).encode()
            })
        });
        let wait = self.begin_op::<io::Result<Option<Vec<u8>>>>(name, "".into(), 0, None, begin);
        let core = self.own();
        Box::pin(async move {
            let text = wait.await?;
            Ok(text.map(|bytes| String::from_utf8_lossy(&core.show_keys(bytes)).into_owned()))
        })
    }

    pub(crate) fn begin_run(&self, command: Command) -> Waiting<'_, io::Result<Finished>> {
        let note = std::iter::once(&command.program).chain(&command.arguments);
        let note: Rc<str> = self.named(&note.map(String::as_str).collect::<Vec<_>>().join(" ")).into();
        let dir = command.dir.as_deref().map(path_bytes).unwrap_or_default();
        let words = std::iter::once(&command.program).chain(&command.arguments).map(|word| word.as_bytes());
        let digest = self.digest(words.chain([dir.as_slice(), &command.input]));
        let begun = self.begin_change("run", digest, &note, command.uncertain == Uncertain::Retry);
        let asks = command.uncertain == Uncertain::Ask;
        let doubt = (begun && command.uncertain != Uncertain::Retry).then(|| self.doubt("run", &note));
        let inquired = doubt.clone().filter(|_| asks);
        let (core, op) = (self.own(), self.next_op());
        let text = format!(
            "`{note}`: the run was interrupted while this program ran, and it is unknown how far it came; to run it again, pass idempotent: true or on_uncertain: \"retry\" (\"ask\" asks a human), or resume with --retry-in-doubt"
        );
        let begin = Box::new(move || -> Running {
            Box::pin(async move {
                let ran = match core.decide_about(doubt.as_ref(), asks, op).await {
                    Decision::Result(result) => Ok(finished_of(&result)),
                    Decision::Fail => Err(io::Error::other(InDoubt(text))),
                    Decision::Again if core.kept().await => core.inner.run(command).await,
                    Decision::Again => Err(io::Error::other(STOPPED)),
                };
                ran.map(|ran| core.without_keys(ran)).encode()
            })
        });
        let wait = self.begin_op_of::<io::Result<Finished>>("run", note, digest, None, inquired, begin);
        let core = self.own();
        Box::pin(async move {
            wait.await.map(|ran| Finished {
                stdout: core.show_keys(ran.stdout),
                stderr: core.show_keys(ran.stderr),
                ..ran
            })
        })
    }

    /// A resumed run starts a peer again. Requests that were answered before are not sent again.
    pub(crate) fn begin_peer(&self, request: PeerRequest) -> Waiting<'_, io::Result<Vec<u8>>> {
        let note = format!("{} of {}", request.method, request.peer.command.program);
        let note: Rc<str> = self.named(&note).into();
        let words = [&*request.peer.id, &*request.method, &*request.params];
        let digest = self.digest(words.map(str::as_bytes));
        let is_repeatable = request.uncertain == Uncertain::Retry;
        let begun = !is_repeatable && self.begin_change("peer", digest, &note, false);
        let asks = request.uncertain == Uncertain::Ask;
        let doubt = begun.then(|| self.doubt("peer", &note));
        let inquired = doubt.clone().filter(|_| asks);
        let (core, op) = (self.own(), self.next_op());
        let text = format!(
            "{note}: the run was interrupted while this request was under way, and it is unknown whether it was carried out; to send it again, resume with --retry-in-doubt" // prose-ok: error text
        );
        let begin = Box::new(move || -> Running {
            Box::pin(async move {
                let answer = match core.decide_about(doubt.as_ref(), asks, op).await {
                    Decision::Result(result) => Ok(result.to_string().into_bytes()),
                    Decision::Fail => Err(io::Error::other(InDoubt(text))),
                    Decision::Again if core.kept().await => core.inner.ask_peer(request).await,
                    Decision::Again => Err(io::Error::other(STOPPED)),
                };
                answer.map(|bytes| core.secrets.borrow().hide(bytes)).encode()
            })
        });
        let wait = self.begin_op_of::<io::Result<Vec<u8>>>("peer", note, digest, None, inquired, begin);
        let core = self.own();
        Box::pin(async move { wait.await.map(|bytes| core.show_keys(bytes)) })
    }

    /// Work of the runtime is repeated if its outcome is unknown; that is harmless.
    pub(crate) fn begin_beside(&self, work: Beside) -> Waiting<'_, io::Result<Vec<u8>>> {
        if self.is_loading() {
            return self.inner.beside(work);
        }
        let Beside { name, note, work } = work;
        let digest = Digester::new().add(name.as_bytes()).add(note.as_bytes()).end();
        let core = self.own();
        let begin = Box::new(move || -> Running {
            Box::pin(async move {
                // Its output must not be ahead of the journal.
                let done =
                    if core.kept().await { work(&*core.inner).await } else { Err(io::Error::other(STOPPED)) };
                done.map(|bytes| core.secrets.borrow().hide(bytes)).encode()
            })
        });
        let wait = self.begin_op::<io::Result<Vec<u8>>>(name, note.into(), digest, None, begin);
        let core = self.own();
        Box::pin(async move { wait.await.map(|bytes| core.show_keys(bytes)) })
    }

    fn without_keys(&self, ran: Finished) -> Finished {
        let secrets = self.secrets.borrow();
        Finished { stdout: secrets.hide(ran.stdout), stderr: secrets.hide(ran.stderr), ..ran }
    }

    /// Records that an effect that must not be repeated is about to happen. Returns true if an earlier process
    /// recorded it.
    fn begin_change(&self, name: &'static str, digest: u64, note: &Rc<str>, is_repeatable: bool) -> bool {
        match self.begun(name, digest, &|| note.to_string()) {
            Begun::Before(_) => true,
            Begun::Stopped => false,
            Begun::Now => {
                let (name, note) = (name.to_owned(), note.to_string());
                let before = is_repeatable.then_some(REPEATABLE);
                self.push(What::Begin { name, note, digest, before });
                false
            }
        }
    }

    pub(crate) fn begin_http(&self, request: HttpRequest) -> Waiting<'_, Result<HttpReply, HttpError>> {
        let note = format!("{} {}", request.method, without_query(&request.url));
        let note: Rc<str> = self.named(&note).into();
        let digest = digest_of(&request, &self.secrets.borrow());
        if self.keeps_requests() {
            self.note_request(digest, text_of(&request));
        }
        let begun =
            !is_reading(&request) && self.begin_change("http", digest, &note, is_repeatable(&request));
        let asks = request.uncertain == Uncertain::Ask;
        let doubt = (begun && !is_repeatable(&request)).then(|| self.doubt("http", &note));
        let inquired = doubt.clone().filter(|_| asks);
        let (core, request, op) = (self.own(), Rc::new(request), self.next_op());
        let link = Rc::new(RefCell::new(Link::new(request.clone(), is_repeatable(&request))));
        if !is_repeatable(&request) {
            let exchange: Weak<dyn Exchange> = Rc::<RefCell<Link>>::downgrade(&link);
            let exchanges = &mut self.state.borrow_mut().exchanges;
            exchanges.retain(|link| link.strong_count() > 0);
            exchanges.push(exchange);
        }
        let (own, what) = (link.clone(), note.clone());
        let begin = Box::new(move || -> Running {
            Box::pin(async move {
                let sent = match core.decide_about(doubt.as_ref(), asks, op).await {
                    Decision::Result(result) => return reply_of(&result).encode(),
                    Decision::Fail => Err(uncertain(&what)),
                    Decision::Again if is_reading(&request) || core.kept().await => {
                        core.inner.http(HttpRequest::clone(&request)).await
                    }
                    Decision::Again => Err(HttpError::new(HttpErrorKind::Broken, STOPPED)),
                };
                let came: Result<Came, HttpError> = match sent {
                    Err(error) => Err(error),
                    Ok(reply) => {
                        let head = (reply.status, core.plain_headers(reply.headers));
                        let whole = Link::receive(&own, reply.body).await;
                        let hide = |body| core.secrets.borrow().hide(body);
                        Ok(Came { head, body: whole.map(|body| body.map(hide)) })
                    }
                };
                came.encode()
            })
        });
        let (name, note_of_op) = ("http", note.clone());
        let wait =
            self.begin_op_of::<Result<Came, HttpError>>(name, note_of_op, digest, None, inquired, begin);
        let core = self.own();
        Box::pin(async move {
            let Came { head: (status, headers), body } = wait.await?;
            link.borrow_mut().status = status;
            let body = body.map(|body| body.map(|body| core.show_keys(body)));
            let body = JournalBody::new(core, link, note, digest, body);
            Ok(HttpReply { status, headers, body: Box::new(body) })
        })
    }

    /// Returns the number of the next operation.
    pub(crate) fn next_op(&self) -> u64 {
        self.state.borrow().next_op
    }

    /// Decides about an effect; without a doubt it happens.
    async fn decide_about(&self, doubt: Option<&Rc<Inquired>>, asks: bool, op: u64) -> Decision {
        match doubt {
            None => Decision::Again,
            Some(doubt) => self.decide(doubt, asks, op).await,
        }
    }

    fn plain_headers(&self, headers: Vec<(String, String)>) -> Vec<(String, String)> {
        let secrets = self.secrets.borrow();
        let plain = |value: String| String::from_utf8_lossy(&secrets.hide(value.into_bytes())).into_owned();
        headers.into_iter().map(|(name, value)| (name, plain(value))).collect()
    }

    /// Runs work that no task waits for.
    pub(crate) fn aside(&self, work: impl Future<Output = ()> + 'static) {
        let mut state = self.state.borrow_mut();
        let op = ASIDE | state.next_aside();
        let work: Kept = Box::pin(async move {
            work.await;
            Ok(())
        });
        state.aside.insert(op, work);
        drop(state);
        self.wakes.push(op);
    }

    /// Polls one operation.
    fn advance(&self, op: u64) {
        let waker = Waker::from(Arc::new(OpWake { op, wakes: self.wakes.clone() }));
        let mut context = Context::from_waker(&waker);
        if op & ASIDE != 0 {
            let taken = self.state.borrow_mut().aside.remove(&op);
            if let Some(mut work) = taken
                && work.as_mut().poll(&mut context).is_pending()
            {
                self.state.borrow_mut().aside.insert(op, work);
            }
            return;
        }
        let taken = {
            let mut state = self.state.borrow_mut();
            let Some(own) = state.ops.get_mut(&op).filter(|own| own.outcome.is_none()) else { return };
            own.running.take().map(Ok).or_else(|| own.begin.take().map(Err))
        };
        let begins = matches!(taken, Some(Err(_)));
        let mut running = match taken {
            None => return,
            Some(Ok(running)) => running,
            Some(Err(begin)) => begin(),
        };
        match running.as_mut().poll(&mut context) {
            Poll::Pending => {
                if let Some(own) = self.state.borrow_mut().ops.get_mut(&op) {
                    own.running = Some(running);
                }
            }
            Poll::Ready(outcome) => {
                drop(running);
                if !self.is_stopped() {
                    self.state.borrow_mut().ended_ops.push_back((op, outcome, begins));
                }
            }
        }
    }

    /// Returns how long entries that a task waits for are collected; `None` if no task waits.
    fn gathers_for(&self, idle: bool) -> Option<u64> {
        let state = self.state.borrow();
        let many = state.ops.len() >= MANY;
        let since = state.wanted?;
        // A busy program can receive completions at any time, and is never idle.
        let until = match (many, idle) {
            (true, _) => since + nanos(GATHER_MANY),
            (false, true) => since + nanos(GATHER),
            (false, false) => return Some(0),
        };
        Some(until.saturating_sub(nanos(self.inner.monotonic())))
    }

    /// Returns whether to collect further entries although no other work is left. Wakes the waker when that ends.
    fn gathers(&self, context: &mut Context<'_>) -> bool {
        let left = self.gathers_for(true);
        let state = &mut *self.state.borrow_mut();
        let Some(left) = left.filter(|left| *left > 0 && state.ops.len() >= MANY) else {
            state.gathering = None;
            return false;
        };
        let pause = state.gathering.get_or_insert_with(|| self.inner.sleep(Duration::from_nanos(left)));
        let pending = pause.as_mut().poll(context).is_pending();
        if !pending {
            // The timer may belong to an earlier group; a completed future must not be polled again.
            state.gathering = None;
        }
        pending
    }

    /// Delivers the operation that ended first. Returns false if there is none.
    fn hand_over_ended(&self, looks: u32, idle: bool) -> bool {
        loop {
            let Some((op, outcome, begins)) = self.state.borrow_mut().ended_ops.pop_front() else {
                return false;
            };
            // The operation may have been dropped meanwhile.
            let Some((name, note, digest, place)) = self
                .state
                .borrow()
                .ops
                .get(&op)
                .map(|own| (own.name.to_owned(), own.note.to_string(), own.digest, own.place.clone()))
            else {
                continue;
            };
            let clock = self.move_clocks();
            self.state.borrow_mut().hand_over_undecided(Some(op));
            let what = What::Finish { name, note, digest, op, looks, idle, clock, outcome: outcome.clone() };
            self.push_at(what, place);
            self.wakes.handed_over(begins);
            self.deliver(op, outcome);
            return true;
        }
    }

    fn deliver(&self, op: u64, outcome: Vec<u8>) {
        let mut state = self.state.borrow_mut();
        state.looks = 0;
        let waker = state.ops.get_mut(&op).and_then(|own| {
            own.outcome = Some(outcome);
            own.running = None;
            own.begin = None;
            own.waker.take()
        });
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Returns the digest of the operation for which the journal has a different one.
    fn digest_now(&self) -> u64 {
        let state = self.state.borrow();
        let followed = match state.recorded.front() {
            Some(Entry { what: What::Finish { op, .. }, .. }) => state.ops.get(op),
            _ => None,
        };
        followed.or_else(|| state.ops.values().find(|op| op.is_open())).map_or(0, |op| op.digest)
    }

    /// Follows the next entry, if it is a delivery.
    fn hand_over_recorded(&self, looks: u32, idle: bool) -> Poll<()> {
        let here = |what: &What| matches!(what, What::Finish { looks: at, idle: was, .. } if *at == looks && *was == idle);
        if !self.state.borrow().next_is(here) {
            if idle {
                // No task is ready, and the next entry is something else.
                let waiting: Vec<String> = self.state.borrow().waiting_for();
                let now = match waiting.as_slice() {
                    [] => "nothing left to do".to_owned(),
                    names => names.join(" or "),
                };
                self.differs(now, self.digest_now());
            }
            return Poll::Pending;
        }
        let fits = {
            let state = self.state.borrow();
            state.next_is(|what| match what {
                What::Finish { name, digest, op, .. } => {
                    state.ops.get(op).is_some_and(|own| own.name == name && own.digest == *digest)
                }
                _ => false,
            })
        };
        if !fits {
            let waiting = self.state.borrow().waiting_for().join(" or ");
            self.differs(waiting, self.digest_now());
            return Poll::Pending;
        }
        let Some(Entry { what: What::Finish { op, clock, outcome, .. }, .. }) = self.take() else {
            return Poll::Pending;
        };
        self.set_clocks(clock);
        self.deliver(op, outcome);
        Poll::Ready(())
    }
}

impl Outside for Journal {
    fn hand_over(&self, context: &mut Context<'_>, idle: bool) -> Poll<()> {
        let core = &self.0;
        core.wakes.watch(context.waker());
        core.follow_notes();
        if !idle {
            core.state.borrow_mut().looks += 1;
        }
        let looks = core.state.borrow().looks;
        if !idle && core.replay && core.state.borrow().is_followed() {
            // A busy program may end without another request.
            return Poll::Pending;
        }
        match core.status() {
            Status::Stopped => {
                // Waits for time end if no task is ready; others are interrupted.
                if !idle {
                    return Poll::Pending;
                }
                let mut wakers: Vec<Waker> = Vec::new();
                let is_timer = |op: &&mut Op| op.due.is_some() && op.inquired.is_none() && op.is_open();
                for op in core.state.borrow_mut().ops.values_mut().filter(is_timer) {
                    op.outcome = Some(Vec::new());
                    wakers.extend(op.waker.take());
                }
                let any = !wakers.is_empty();
                wakers.into_iter().for_each(Waker::wake);
                return if any { Poll::Ready(()) } else { Poll::Pending };
            }
            Status::Following => return core.hand_over_recorded(looks, idle),
            Status::Live => {}
        }
        if core.gathers_for(idle) == Some(0) || core.output_is_due() {
            core.flush_next();
        }
        core.look_after(context);
        if !idle && core.catches_up() {
            return Poll::Pending;
        }
        if !idle {
            let state = &mut *core.state.borrow_mut();
            state.is_loose |= state.ops.values().any(Op::is_open);
        }
        if core.hand_over_ended(looks, idle) {
            return Poll::Ready(());
        }
        // Polls each woken operation once. One that is woken again is polled next time.
        for op in core.wakes.ready() {
            core.advance(op);
            if core.is_stopped() {
                return Poll::Pending;
            }
            if core.hand_over_ended(looks, idle) {
                return Poll::Ready(());
            }
        }
        if idle {
            if !core.gathers(context) {
                core.flush_next();
            }
            core.look_after(context);
            core.suspend();
        }
        Poll::Pending
    }

    fn work(&self, context: &mut Context<'_>) {
        let core = &self.0;
        if core.is_stopped() || core.drains() || !core.state.borrow().live || core.catches_up() {
            return;
        }
        core.wakes.watch(context.waker());
        if core.gathers_for(false) == Some(0) {
            core.flush_next();
        }
        core.look_after(context);
        for op in core.wakes.ready() {
            core.advance(op);
            if core.is_stopped() {
                return;
            }
        }
    }
}

impl Journal {
    /// Renews the lease periodically while the run is executed.
    pub fn stay_alive(&self) {
        let core = self.0.own();
        if core.replay {
            return;
        }
        let own = Rc::downgrade(&core);
        core.aside(async move {
            let mut renewed = Duration::ZERO;
            loop {
                let Some(core) = own.upgrade() else { return };
                let third = Duration::from_millis(core.keeper.lease_ms().unsigned_abs() / 3);
                let wished = core.keeper.wished();
                drop(core);
                let wish = wished.await;
                let Some(core) = own.upgrade() else { return };
                match wish {
                    Some(Wish::Cancel) => return core.stop(Stop::Cancelled),
                    Some(Wish::Pause) => Drainer(core.wakes.clone()).ask(Drain::Pause),
                    None => {}
                }
                let pause = core.inner.sleep(third.min(WISHES));
                drop(core);
                pause.await;
                let Some(core) = own.upgrade() else { return };
                let now = core.inner.monotonic();
                if now.saturating_sub(renewed) + WISHES / 2 < third {
                    continue;
                }
                renewed = now;
                let kept = core.keeper.alive(core.inner.now_ms());
                drop(core);
                if let Err(text) = kept.await
                    && let Some(core) = own.upgrade()
                {
                    core.stop(Stop::Unkept(text));
                    return;
                }
            }
        });
    }
}

/// Returns whether a request only reads.
pub(crate) fn is_reading(request: &HttpRequest) -> bool {
    matches!(request.method.as_str(), "GET" | "HEAD" | "OPTIONS")
}

/// Returns whether a request can be sent twice.
fn is_repeatable(request: &HttpRequest) -> bool {
    is_reading(request)
        || matches!(request.method.as_str(), "PUT" | "DELETE")
        || request.uncertain == Uncertain::Retry
}

/// Returns an address without the parts that may contain a key.
pub(crate) fn without_query(url: &str) -> &str {
    url.split(['?', '#']).next().unwrap_or(url)
}

/// Returns the digest of a request without its keys.
pub(crate) fn digest_of(request: &HttpRequest, secrets: &Secrets) -> u64 {
    let url = without_query(&request.url);
    let mut digester = Digester::new().add(request.method.as_bytes()).add(&secrets.without(url.as_bytes()));
    for (name, value) in &request.headers {
        digester = digester.add(name.as_bytes());
        if !is_secret_header(name) {
            digester = digester.add(&secrets.without(value.as_bytes()));
        }
    }
    for piece in request.body.iter().flat_map(|body| &body.0) {
        digester = digester.add(&secrets.without(piece));
    }
    digester.end()
}

/// Describes a request for humans, without its secret headers.
fn text_of(request: &HttpRequest) -> String {
    let mut text = format!("{} {}\n", request.method, without_query(&request.url));
    for (name, value) in request.headers.iter().filter(|(name, _)| !is_secret_header(name)) {
        text += &format!("{name}: {value}\n");
    }
    let body: Vec<u8> =
        request.body.iter().flat_map(|body| &body.0).flat_map(|piece| piece.to_vec()).collect();
    if body.is_empty() {
        return text;
    }
    let body = match serde_json::from_slice::<serde_json::Value>(&body) {
        Ok(json) => serde_json::to_string_pretty(&json).unwrap_or_default(),
        Err(_) => String::from_utf8_lossy(&body).into_owned(),
    };
    text + "\n" + &body + "\n"
}
