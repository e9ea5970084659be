//! The sources of the `stream` namespace that are not shared with the iterator methods.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::{Poll, Waker};
use std::time::Duration;

use harn_value::{Foreign, Value};
use harn_vm::Cx;
use harn_vm::iter::{Iter, Lanes, NextFuture, Source};

/// Yields one item of each source in turn.
pub(crate) struct Rotate {
    /// The next source is in front.
    pub(crate) sources: VecDeque<Iter>,
}

impl Source for Rotate {
    fn next<'a>(&'a mut self, cx: &'a Cx) -> NextFuture<'a> {
        Box::pin(async move {
            // A source stays in the queue while it is awaited, because the wait may be dropped.
            while let Some(source) = self.sources.front() {
                if let Some(item) = source.next(cx).await? {
                    self.sources.rotate_left(1);
                    return Ok(Some(item));
                }
                self.sources.pop_front();
            }
            Ok(None)
        })
    }

    fn trace(&self, visit: &mut dyn FnMut(&Value)) {
        self.sources.iter().for_each(|source| visit(source.as_value()));
    }
}

/// Yields the items of all sources as they become available; with `race`, only those of the first source that has one.
pub(crate) struct Merge {
    pub(crate) lanes: Lanes,
    pub(crate) race: bool,
}

impl Source for Merge {
    fn next<'a>(&'a mut self, cx: &'a Cx) -> NextFuture<'a> {
        Box::pin(async move {
            let item = self.lanes.next(cx).await?;
            if item.is_some() && std::mem::take(&mut self.race) {
                self.lanes.keep_last();
            }
            Ok(item)
        })
    }

    fn trace(&self, visit: &mut dyn FnMut(&Value)) {
        self.lanes.trace(visit);
    }
}

/// State shared by the iterators of a broadcast.
struct Shared {
    items: Iter,
    /// One queue per iterator, with the items that it has not returned yet.
    queues: RefCell<Vec<VecDeque<Value>>>,
    /// Whether one of the iterators awaits the source.
    pulled: Cell<bool>,
    /// The iterators that wait for that one.
    wakers: RefCell<Vec<Waker>>,
}

impl Foreign for Shared {
    fn type_name(&self) -> &'static str {
        "broadcast"
    }

    fn print(&self, out: &mut String) {
        out.push_str("<broadcast>");
    }

    fn equals(&self, other: &dyn Foreign) -> bool {
        self.address() == other.address()
    }

    fn trace(&self, visit: &mut dyn FnMut(&Value)) {
        visit(self.items.as_value());
        if let Ok(queues) = self.queues.try_borrow() {
            queues.iter().flatten().for_each(visit);
        }
    }
}

/// Exists while an iterator of a broadcast awaits the source.
struct Pulling<'a>(&'a Shared);

impl<'a> Pulling<'a> {
    fn begin(shared: &'a Shared) -> Option<Pulling<'a>> {
        (!shared.pulled.replace(true)).then(|| Pulling(shared))
    }
}

impl Drop for Pulling<'_> {
    fn drop(&mut self) {
        self.0.pulled.set(false);
        self.0.wakers.take().into_iter().for_each(Waker::wake);
    }
}

/// One of several iterators over the same source.
pub(crate) struct Broadcast {
    /// A [`Shared`].
    shared: Value,
    place: usize,
}

impl Broadcast {
    /// Splits `items` into `count` sources.
    pub(crate) fn split(items: Iter, count: usize) -> Vec<Broadcast> {
        let queues = RefCell::new(vec![VecDeque::new(); count]);
        let shared = Shared { items, queues, pulled: Cell::new(false), wakers: RefCell::default() };
        let shared = Value::foreign(shared);
        (0..count).map(|place| Broadcast { shared: shared.clone(), place }).collect()
    }
}

impl Source for Broadcast {
    fn next<'a>(&'a mut self, cx: &'a Cx) -> NextFuture<'a> {
        Box::pin(async move {
            let Some(shared) = self.shared.downcast::<Shared>() else { return Ok(None) };
            let _pulling = loop {
                if let Some(item) = shared.queues.borrow_mut()[self.place].pop_front() {
                    return Ok(Some(item));
                }
                if let Some(pulling) = Pulling::begin(shared) {
                    break pulling;
                }
                // Another iterator already awaits the source, and will also queue the item for this one.
                poll_fn(|context| {
                    if !shared.pulled.get() {
                        return Poll::Ready(());
                    }
                    shared.wakers.borrow_mut().push(context.waker().clone());
                    Poll::Pending
                })
                .await;
            };
            let item = shared.items.next(cx).await?;
            if let Some(item) = &item {
                for (place, queue) in shared.queues.borrow_mut().iter_mut().enumerate() {
                    if place != self.place {
                        queue.push_back(item.clone());
                    }
                }
            }
            Ok(item)
        })
    }

    fn trace(&self, visit: &mut dyn FnMut(&Value)) {
        visit(&self.shared);
    }
}

/// Delays items so that they are at least `gap` apart.
pub(crate) struct Throttle {
    items: Iter,
    gap: Duration,
    /// When the last item was returned, on the monotonic clock of the system.
    last: Option<Duration>,
    /// An item that is delayed.
    held: Option<Value>,
}

impl Throttle {
    pub(crate) fn new(items: Iter, gap: Duration) -> Throttle {
        Throttle { items, gap, last: None, held: None }
    }
}

impl Source for Throttle {
    fn next<'a>(&'a mut self, cx: &'a Cx) -> NextFuture<'a> {
        Box::pin(async move {
            if self.held.is_none() {
                self.held = self.items.next(cx).await?;
            }
            if let (Some(last), Some(_)) = (self.last, &self.held) {
                let wait = (last + self.gap).saturating_sub(cx.system().monotonic());
                if !wait.is_zero() {
                    cx.sleep(wait).await?;
                }
            }
            self.last = Some(cx.system().monotonic());
            Ok(self.held.take())
        })
    }

    fn trace(&self, visit: &mut dyn FnMut(&Value)) {
        visit(self.items.as_value());
        self.held.iter().for_each(visit);
    }
}

/// Yields the latest of the items that arrive within a time window.
pub(crate) struct Debounce {
    items: Iter,
    window: Duration,
    /// The latest item, and the end of the window.
    held: Option<(Value, Duration)>,
}

impl Debounce {
    pub(crate) fn new(items: Iter, window: Duration) -> Debounce {
        Debounce { items, window, held: None }
    }
}

impl Source for Debounce {
    fn next<'a>(&'a mut self, cx: &'a Cx) -> NextFuture<'a> {
        Box::pin(async move {
            if self.held.is_none() {
                let Some(first) = self.items.next(cx).await? else { return Ok(None) };
                self.held = Some((first, cx.system().monotonic().saturating_add(self.window)));
            }
            if let Some((_, end)) = self.held {
                let wait = end.saturating_sub(cx.system().monotonic());
                if !wait.is_zero() {
                    cx.sleep(wait).await?;
                }
            }
            let mut dropped = 0u32;
            while let Some(Some(newer)) = self.items.try_next()? {
                if let Some((latest, _)) = &mut self.held {
                    *latest = newer;
                }
                dropped = dropped.wrapping_add(1);
                if dropped.is_multiple_of(1024) {
                    cx.check()?;
                }
            }
            Ok(self.held.take().map(|(latest, _)| latest))
        })
    }

    fn trace(&self, visit: &mut dyn FnMut(&Value)) {
        visit(self.items.as_value());
        self.held.iter().for_each(|(latest, _)| visit(latest));
    }
}
