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
    /// Error of the sender, until a receiver throws it.
    failure: RefCell<Option<Error>>,
    /// Result that the sender returns in addition to the items; `None` if the channel has no result.
    outcome: RefCell<Option<Outcome>>,
    /// What the creator of the channel stores with it.
    data: Option<Rc<dyn std::any::Any>>,
    /// Set when the program waits for the end: sends no longer wait for room.
    unbounded: Cell<bool>,
    wakers: RefCell<Vec<Waker>>,
}

/// Result of a sender in addition to the items: see [`Channel::result`].
enum Outcome {
    Pending,
    Settled(Value),
    /// The thrown value.
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

/// A queue shared by all tasks that hold a handle. Each value goes to one receiver.
#[derive(Clone)]
pub struct Channel(Rc<State>);

/// The sending end of a channel whose receivers may be dropped; sending then fails.
#[derive(Clone)]
pub struct Sender(Weak<State>);

/// Outcome of a receive without waiting.
pub enum Received {
    /// A value.
    Item(Value),
    /// Empty for now.
    Empty,
    /// Closed and drained.
    Closed,
}

impl Channel {
    /// Creates a channel; `name` is only for display, the capacity is at least 1.
    pub fn new(name: &str, capacity: usize) -> Channel {
        Channel::with(name, capacity, None, None)
    }

    fn with(
        name: &str,
        capacity: usize,
        outcome: Option<Outcome>,
        data: Option<Rc<dyn std::any::Any>>,
    ) -> Channel {
        Channel(Rc::new(State {
            name: Str::new(name),
            capacity: capacity.max(1),
            queue: RefCell::default(),
            closed: Cell::new(false),
            failure: RefCell::default(),
            outcome: RefCell::new(outcome),
            data,
            unbounded: Cell::new(false),
            wakers: RefCell::default(),
        }))
    }

    /// Creates a channel whose sender returns a result besides the items, and that stores `data` for its methods.
    pub fn with_result<T: 'static>(name: &str, capacity: usize, data: T) -> Channel {
        Channel::with(name, capacity, Some(Outcome::Pending), Some(Rc::new(data)))
    }

    /// Returns the data of [`Channel::with_result`], if it has this type.
    pub fn data<T: 'static>(&self) -> Option<Rc<T>> {
        self.0.data.clone()?.downcast().ok()
    }

    /// Waits until the sender ends and returns its result. Values not received meanwhile stay in the channel.
    ///
    /// # Errors
    /// The sender's failure; also if the channel has no result or was closed before one was set.
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

    /// Returns a sending end that holds only a weak reference to the channel.
    pub fn sender(&self) -> Sender {
        Sender(Rc::downgrade(&self.0))
    }

    /// Converts to a value of the program.
    pub fn into_value(self) -> Value {
        Value::foreign(self)
    }

    /// Returns the label.
    pub fn name(&self) -> &Str {
        &self.0.name
    }

    /// Returns whether both are the same channel.
    pub fn is(&self, other: &Channel) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }

    /// Sends a value; waits while the buffer is full. Returns false if the channel is closed.
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

    /// Waits for the next value; returns `None` once the channel is closed and drained.
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

    /// Like [`Channel::receive`].
    ///
    /// # Errors
    /// The sender's failure.
    pub async fn receive_or_fail(&self) -> Result<Option<Value>> {
        let value = self.receive().await;
        if value.is_none() {
            self.failed()?;
        }
        Ok(value)
    }

    /// Waits for the first of `channels` that has a value, and returns its position and the value; `None` when all
    /// are closed and drained.
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

    /// Like [`Channel::receive_any`] without waiting: `None` if no channel is ready, `Some(None)` if all are closed
    /// and drained.
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

    /// Closes the channel for sending; buffered values can still be received.
    pub fn close(&self) {
        self.0.closed.set(true);
        self.0.changed();
    }

    /// Returns whether the channel is closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.0.closed.get()
    }

    /// Returns the number of buffered values.
    pub(crate) fn depth(&self) -> usize {
        self.0.queue.borrow().len()
    }

    /// Returns how many values are buffered before a sender waits.
    pub(crate) fn capacity(&self) -> usize {
        self.0.capacity
    }

    /// Returns the sender's failure, once: the receiver that finds the channel closed throws it.
    pub(crate) fn failed(&self) -> Result<()> {
        self.0.failure.take().map_or(Ok(()), Err)
    }
}

impl Sender {
    /// Sends a value; waits while the buffer is full. Returns false if the channel is closed or has no receivers
    /// left.
    pub async fn send(&self, value: Value) -> bool {
        send(&self.0, value).await
    }

    /// Closes the channel.
    pub fn close(&self) {
        if let Some(state) = self.0.upgrade() {
            Channel(state).close();
        }
    }

    /// Sets the result that [`Channel::result`] waits for.
    pub fn settle(&self, result: Value) {
        if let Some(state) = self.0.upgrade() {
            *state.outcome.borrow_mut() = Some(Outcome::Settled(result));
            state.changed();
        }
    }

    /// Closes the channel because the sender failed: buffered values can still be received, and the receiver that
    /// reaches the end throws `error`.
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

    /// Waits until the channel is closed or has no receivers left.
    pub async fn closed(&self) {
        poll_fn(|context| match self.0.upgrade().filter(|s| !s.closed.get()) {
            // Dropping the last handle wakes waiting tasks.
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
        // A queue that is shared with another object would be traced twice.
        if Rc::strong_count(&self.0) == 1
            && let Ok(queue) = self.0.queue.try_borrow()
        {
            queue.iter().for_each(visit);
        }
    }
}

/// An iterator's source. It holds the channel's value instead of the queue itself, so that the queued values can be
/// traced.
pub(crate) struct ChannelSource(Value);

impl ChannelSource {
    /// Creates a source from a channel value; returns `None` for other values.
    pub(crate) fn of(value: &Value) -> Option<Box<ChannelSource>> {
        value.downcast::<Channel>().is_some().then(|| Box::new(ChannelSource(value.clone())))
    }

    fn channel(&self) -> &Channel {
        // SAFETY: only `of` creates a `ChannelSource`.
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
    /// Creates a stream value from a source.
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
