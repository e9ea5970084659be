//! The sources behind the `stream` namespace that the iterator methods do not share.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use harn_value::Value;
use harn_vm::iter::{Iter, NextFuture, Source};
use harn_vm::{Cx, Result};

/// One item of each source in turn.
pub(crate) struct Rotate {
    /// The next source in turn is in front.
    pub(crate) sources: VecDeque<Iter>,
    /// Whether a source that has an item at hand goes before one that must be waited for.
    pub(crate) ready_first: bool,
}

impl Rotate {
    /// An item of the first source in turn that has one at hand. `Ok(None)` when none has.
    fn ready(&mut self) -> Result<Option<Value>> {
        let mut place = 0;
        while place < self.sources.len() {
            match self.sources[place].try_next()? {
                Some(Some(item)) => {
                    self.sources.rotate_left(place + 1);
                    return Ok(Some(item));
                }
                Some(None) => drop(self.sources.remove(place)),
                None => place += 1,
            }
        }
        Ok(None)
    }
}

impl Source for Rotate {
    fn next<'a>(&'a mut self, cx: &'a Cx) -> NextFuture<'a> {
        Box::pin(async move {
            loop {
                if self.ready_first
                    && let Some(item) = self.ready()?
                {
                    return Ok(Some(item));
                }
                let Some(source) = self.sources.pop_front() else { return Ok(None) };
                if let Some(item) = source.next(cx).await? {
                    self.sources.push_back(source);
                    return Ok(Some(item));
                }
            }
        })
    }
}

/// All items of the first source that gives one.
pub(crate) struct Race {
    pub(crate) sources: VecDeque<Iter>,
    pub(crate) winner: Option<Iter>,
}

impl Race {
    fn ready(&mut self) -> Result<Option<Value>> {
        for source in &self.sources {
            if let Some(Some(item)) = source.try_next()? {
                self.winner = Some(source.clone());
                return Ok(Some(item));
            }
        }
        Ok(None)
    }
}

impl Source for Race {
    fn next<'a>(&'a mut self, cx: &'a Cx) -> NextFuture<'a> {
        Box::pin(async move {
            if let Some(winner) = &self.winner {
                return winner.next(cx).await;
            }
            if let Some(item) = self.ready()? {
                self.sources.clear();
                return Ok(Some(item));
            }
            while let Some(source) = self.sources.pop_front() {
                if let Some(item) = source.next(cx).await? {
                    self.winner = Some(source);
                    self.sources.clear();
                    return Ok(Some(item));
                }
            }
            Ok(None)
        })
    }
}

/// What the iterators of one broadcast share.
struct Shared {
    items: Iter,
    /// Items that some iterator has not seen yet; each iterator has a queue of its own.
    queues: Vec<VecDeque<Value>>,
}

/// One of several iterators over the same source.
pub(crate) struct Broadcast {
    shared: Rc<RefCell<Shared>>,
    place: usize,
}

impl Broadcast {
    /// `count` sources over `items`.
    pub(crate) fn split(items: Iter, count: usize) -> Vec<Broadcast> {
        let shared = Rc::new(RefCell::new(Shared { items, queues: vec![VecDeque::new(); count] }));
        (0..count).map(|place| Broadcast { shared: shared.clone(), place }).collect()
    }

    /// Hands an item to the others.
    fn share(&self, item: &Value) {
        for (place, queue) in self.shared.borrow_mut().queues.iter_mut().enumerate() {
            if place != self.place {
                queue.push_back(item.clone());
            }
        }
    }

    fn waiting(&self) -> Option<Value> {
        self.shared.borrow_mut().queues[self.place].pop_front()
    }
}

impl Source for Broadcast {
    fn next<'a>(&'a mut self, cx: &'a Cx) -> NextFuture<'a> {
        Box::pin(async move {
            if let Some(item) = self.waiting() {
                return Ok(Some(item));
            }
            let items = self.shared.borrow().items.clone();
            let item = items.next(cx).await?;
            if let Some(item) = &item {
                self.share(item);
            }
            Ok(item)
        })
    }
}

/// At least `gap` between items.
pub(crate) struct Throttle {
    pub(crate) items: Iter,
    pub(crate) gap: Duration,
    /// When the last item was given, by the host's monotonic clock.
    pub(crate) last: Option<Duration>,
}

impl Source for Throttle {
    fn next<'a>(&'a mut self, cx: &'a Cx) -> NextFuture<'a> {
        Box::pin(async move {
            let Some(item) = self.items.next(cx).await? else { return Ok(None) };
            if let Some(last) = self.last {
                let wait = (last + self.gap).saturating_sub(cx.system().monotonic());
                if !wait.is_zero() {
                    cx.sleep(wait).await?;
                }
            }
            self.last = Some(cx.system().monotonic());
            Ok(Some(item))
        })
    }
}

/// The latest of items that come close together.
pub(crate) struct Debounce {
    pub(crate) items: Iter,
    pub(crate) window: Duration,
}

impl Source for Debounce {
    fn next<'a>(&'a mut self, cx: &'a Cx) -> NextFuture<'a> {
        Box::pin(async move {
            let Some(mut latest) = self.items.next(cx).await? else { return Ok(None) };
            if !self.window.is_zero() {
                cx.sleep(self.window).await?;
            }
            let mut dropped = 0u32;
            while let Some(Some(newer)) = self.items.try_next()? {
                latest = newer;
                dropped = dropped.wrapping_add(1);
                if dropped.is_multiple_of(1024) {
                    cx.check()?;
                }
            }
            Ok(Some(latest))
        })
    }
}
