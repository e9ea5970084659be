//! Channels: bounded queues between tasks, and streams of task results.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::{Rc, Weak};
use std::task::{Poll, Waker};

use harn_value::{Foreign, Str, Value};

use crate::cx::Cx;
use crate::error::{Error, Result};
use crate::iter::{Iter, NextFuture, Source};

struct State {
    name: Str,
    capacity: usize,
    queue: RefCell<VecDeque<Value>>,
    closed: Cell<bool>,
    /// Why the sender gave up, until a receiver is told.
    failure: RefCell<Option<Error>>,
    /// Whether there is something more than the items to wait for, and what it is once it is there.
    outcome: RefCell<Option<Outcome>>,
    /// Somebody waits for the end: the buffer takes what comes.
    unbounded: Cell<bool>,
    wakers: RefCell<Vec<Waker>>,
}

/// What a sender gives besides the items: see [`Channel::result`].
enum Outcome {
    Pending,
    Settled(Value),
    /// With what is thrown.
    Failed(Value),
}

impl State {
    fn changed(&self) {
        let wakers = std::mem::take(&mut *self.wakers.borrow_mut());
        wakers.into_iter().for_each(Waker::wake);
    }

    fn wait(&self, waker: &Waker) {
        let mut wakers = self.wakers.borrow_mut();
        if !wakers.iter().any(|known| known.will_wake(waker)) {
            wakers.push(waker.clone());
        }
    }
}

impl Drop for State {
    fn drop(&mut self) {
        self.changed();
    }
}

/// A queue shared by all tasks that hold the handle. Each value goes to one receiver.
#[derive(Clone)]
pub struct Channel(Rc<State>);

/// The sending end of a channel whose receivers may go away: sending fails then.
#[derive(Clone)]
pub struct Sender(Weak<State>);

/// What a receiver finds.
pub enum Received {
    /// A value.
    Item(Value),
    /// Nothing now.
    Empty,
    /// Nothing ever again.
    Closed,
}

impl Channel {
    /// A channel; `name` is only shown, the capacity is at least 1.
    pub fn new(name: &str, capacity: usize) -> Channel {
        Channel(Rc::new(State {
            name: Str::new(name),
            capacity: capacity.max(1),
            queue: RefCell::default(),
            closed: Cell::new(false),
            failure: RefCell::default(),
            outcome: RefCell::default(),
            unbounded: Cell::new(false),
            wakers: RefCell::default(),
        }))
    }

    /// A channel whose sender gives a result besides the items.
    pub fn with_result(name: &str, capacity: usize) -> Channel {
        let channel = Channel::new(name, capacity);
        *channel.0.outcome.borrow_mut() = Some(Outcome::Pending);
        channel
    }

    /// Waits for the end of the sender and gives its result. What nobody has received meanwhile stays in the channel.
    ///
    /// # Errors
    /// What the sender failed with; the channel has no result, or was closed before.
    pub async fn result(&self) -> Result<Value> {
        self.0.unbounded.set(true);
        self.0.changed();
        poll_fn(|context| match &*self.0.outcome.borrow() {
            Some(Outcome::Settled(result)) => Poll::Ready(Ok(result.clone())),
            Some(Outcome::Failed(thrown)) => Poll::Ready(Err(Error::thrown(thrown.clone()))),
            Some(Outcome::Pending) if !self.0.closed.get() => {
                self.0.wait(context.waker());
                Poll::Pending
            }
            Some(Outcome::Pending) => {
                let name = &self.0.name;
                Poll::Ready(Err(Error::thrown(format!("channel.result: {name} was closed before its end"))))
            }
            None => Poll::Ready(Err(Error::runtime(
                "channel.result: only the channel of llm_stream has a result",
            ))),
        })
        .await
    }

    /// A sending end that does not keep the channel alive.
    pub fn sender(&self) -> Sender {
        Sender(Rc::downgrade(&self.0))
    }

    /// As a value of the program.
    pub fn into_value(self) -> Value {
        Value::foreign(self)
    }

    /// The label.
    pub fn name(&self) -> &Str {
        &self.0.name
    }

    /// Whether both are the same channel.
    pub fn is(&self, other: &Channel) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }

    /// Waits while the buffer is full; false if the channel is closed.
    pub async fn send(&self, value: Value) -> bool {
        send(&Rc::downgrade(&self.0), value).await
    }

    /// Takes a value without waiting.
    pub(crate) fn try_receive(&self) -> Received {
        let item = self.0.queue.borrow_mut().pop_front();
        match item {
            Some(value) => {
                self.0.changed();
                Received::Item(value)
            }
            None if self.0.closed.get() => Received::Closed,
            None => Received::Empty,
        }
    }

    /// The next value; `None` once the channel is closed and drained.
    pub async fn receive(&self) -> Option<Value> {
        poll_fn(|context| match self.try_receive() {
            Received::Item(value) => Poll::Ready(Some(value)),
            Received::Closed => Poll::Ready(None),
            Received::Empty => {
                self.0.wait(context.waker());
                Poll::Pending
            }
        })
        .await
    }

    /// As [`Channel::receive`].
    ///
    /// # Errors
    /// What the sender failed with.
    pub(crate) async fn receive_or_fail(&self) -> Result<Option<Value>> {
        let value = self.receive().await;
        if value.is_none() {
            self.failed()?;
        }
        Ok(value)
    }

    /// The first of `channels` that has a value, with its position; `None` when all are closed and drained.
    pub(crate) async fn receive_any(channels: &[Channel]) -> Option<(usize, Value)> {
        poll_fn(|context| match Channel::try_any(channels) {
            Some(found) => Poll::Ready(found),
            None => {
                channels.iter().for_each(|c| c.0.wait(context.waker()));
                Poll::Pending
            }
        })
        .await
    }

    /// As [`Channel::receive_any`] without waiting: `None` when nothing is ready now, `Some(None)` when
    /// all are closed and drained.
    #[allow(clippy::option_option, reason = "not ready and ended are different answers")]
    pub(crate) fn try_any(channels: &[Channel]) -> Option<Option<(usize, Value)>> {
        let mut open = false;
        for (i, channel) in channels.iter().enumerate() {
            match channel.try_receive() {
                Received::Item(value) => return Some(Some((i, value))),
                Received::Empty => open = true,
                Received::Closed => {}
            }
        }
        if open { None } else { Some(None) }
    }

    /// No further sends; what is buffered can still be received.
    pub fn close(&self) {
        self.0.closed.set(true);
        self.0.changed();
    }

    /// Whether it was closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.0.closed.get()
    }

    /// How many values wait in it.
    pub(crate) fn depth(&self) -> usize {
        self.0.queue.borrow().len()
    }

    /// How many values it takes before a sender waits.
    pub(crate) fn capacity(&self) -> usize {
        self.0.capacity
    }

    /// Why the sender gave up, once: the receiver that finds the channel closed throws it.
    pub(crate) fn failed(&self) -> Result<()> {
        self.0.failure.take().map_or(Ok(()), Err)
    }
}

impl Sender {
    /// Waits while the buffer is full; false if the channel is closed or nobody can receive any more.
    pub async fn send(&self, value: Value) -> bool {
        send(&self.0, value).await
    }

    /// Closes the channel.
    pub fn close(&self) {
        if let Some(state) = self.0.upgrade() {
            Channel(state).close();
        }
    }

    /// Gives the result that [`Channel::result`] waits for.
    pub fn settle(&self, result: Value) {
        if let Some(state) = self.0.upgrade() {
            *state.outcome.borrow_mut() = Some(Outcome::Settled(result));
            state.changed();
        }
    }

    /// Closes the channel because the sender failed: what is buffered can still be received, and the
    /// receiver that comes to the end throws `error`.
    pub fn fail(&self, error: Error) {
        if let Some(state) = self.0.upgrade() {
            let mut outcome = state.outcome.borrow_mut();
            if outcome.is_some() {
                *outcome = Some(Outcome::Failed(error.caught()));
            }
            drop(outcome);
            *state.failure.borrow_mut() = Some(error);
            Channel(state).close();
        }
    }

    /// Waits until the channel is closed or nobody can receive any more.
    pub async fn closed(&self) {
        poll_fn(|context| match self.0.upgrade().filter(|s| !s.closed.get()) {
            // Dropping the last handle wakes whoever waits.
            Some(state) => {
                state.wait(context.waker());
                Poll::Pending
            }
            None => Poll::Ready(()),
        })
        .await;
    }
}

async fn send(state: &Weak<State>, value: Value) -> bool {
    let mut value = Some(value);
    poll_fn(|context| {
        let Some(state) = state.upgrade().filter(|s| !s.closed.get()) else { return Poll::Ready(false) };
        if state.unbounded.get() || state.queue.borrow().len() < state.capacity {
            state.queue.borrow_mut().extend(value.take());
            state.changed();
            return Poll::Ready(true);
        }
        state.wait(context.waker());
        Poll::Pending
    })
    .await
}

impl Foreign for Channel {
    fn type_name(&self) -> &'static str {
        "channel"
    }

    fn print(&self, out: &mut String) {
        out.push_str("<channel:");
        out.push_str(&self.0.name);
        out.push('>');
    }

    fn equals(&self, other: &dyn Foreign) -> bool {
        let other: &dyn std::any::Any = other;
        other.downcast_ref::<Channel>().is_some_and(|other| self.is(other))
    }

    fn identity(&self) -> usize {
        Rc::as_ptr(&self.0).addr()
    }

    fn trace(&self, visit: &mut dyn FnMut(&Value)) {
        // A queue that another object refers to as well would be visited twice.
        if Rc::strong_count(&self.0) == 1
            && let Ok(queue) = self.0.queue.try_borrow()
        {
            queue.iter().for_each(visit);
        }
    }
}

/// An iterator's source. It holds the channel's value, not the queue itself: what the queue holds can be traced then.
pub(crate) struct ChannelSource(Value);

impl ChannelSource {
    /// A source of what is sent to the channel that `value` is; `None` when it is none.
    pub(crate) fn of(value: &Value) -> Option<Box<ChannelSource>> {
        value.downcast::<Channel>().is_some().then(|| Box::new(ChannelSource(value.clone())))
    }

    fn channel(&self) -> &Channel {
        // SAFETY: `of` is the only maker.
        unsafe { self.0.downcast_unchecked::<Channel>() }
    }
}

impl Source for ChannelSource {
    fn try_next(&mut self) -> Result<Option<Option<Value>>> {
        Ok(match self.channel().try_receive() {
            Received::Item(value) => Some(Some(value)),
            Received::Closed => {
                self.channel().failed()?;
                Some(None)
            }
            Received::Empty => None,
        })
    }

    fn next<'a>(&'a mut self, _cx: &'a Cx) -> NextFuture<'a> {
        Box::pin(crate::scheduler::among_tasks(self.channel().receive_or_fail()))
    }

    fn trace(&self, visit: &mut dyn FnMut(&Value)) {
        visit(&self.0);
    }
}

/// A stream made by native code: an iterator whose type is `stream`.
pub struct StreamValue(pub Iter);

impl StreamValue {
    /// A stream over a source.
    pub fn value(source: impl Source + 'static) -> Value {
        Value::foreign(StreamValue(Iter::from_source(source)))
    }
}

impl Foreign for StreamValue {
    fn type_name(&self) -> &'static str {
        "stream"
    }

    fn print(&self, out: &mut String) {
        out.push_str(if self.0.is_done() { "<stream (done)>" } else { "<stream>" });
    }

    fn equals(&self, _other: &dyn Foreign) -> bool {
        false
    }

    fn trace(&self, visit: &mut dyn FnMut(&Value)) {
        visit(self.0.as_value());
    }
}
