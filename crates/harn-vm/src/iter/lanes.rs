//! Waiting for several iterators concurrently.
//!
//! The work that produces an iterator's next item (a generator that waits, a function that a stage calls) needs a
//! stack. So each iterator that has to wait gets its own [`Fiber`], which belongs to the pulling task: nothing is
//! copied, and deadlines and cancellation apply to it. The fiber outlives the wait for an item, because another
//! iterator may be first, and continues with the next wait.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll};

use harn_value::Value;

use super::Iter;
use crate::cleanup::Cleanups;
use crate::cx::Cx;
use crate::error::Result;
use crate::fiber::Fiber;

/// The fiber of a lane that is in progress. The list of suspended computations shares it, so that its cleanup runs at
/// the end of the program.
pub(crate) type Slot = RefCell<Option<Box<Fiber>>>;

/// An iterator that may wait concurrently with others.
struct Lane {
    iter: Iter,
    slot: Rc<Slot>,
    /// The list in which the fiber is registered, and its number there.
    listed: Option<(Weak<Cleanups>, u64)>,
}

impl Lane {
    fn new(iter: Iter) -> Lane {
        Lane { iter, slot: Rc::default(), listed: None }
    }

    /// Polls for the next item. After `Pending`, the waker is called when polling may make progress.
    fn poll(&mut self, cx: &Cx, context: &mut Context<'_>) -> Poll<Result<Option<Value>>> {
        let mut fiber = match self.slot.take() {
            Some(fiber) => fiber,
            None => match self.iter.try_next() {
                Ok(Some(found)) => return Poll::Ready(Ok(found)),
                Ok(None) => Box::new(Fiber::for_pull(cx, self.iter.clone())),
                Err(error) => return Poll::Ready(Err(error)),
            },
        };
        match Pin::new(&mut *fiber).poll(context) {
            Poll::Ready(result) => {
                self.unlist(None);
                Poll::Ready(result.map(|item| (!item.is_absent()).then_some(item)))
            }
            Poll::Pending => {
                self.slot.replace(Some(fiber));
                if self.listed.is_none() {
                    let cleanups = &cx.vm().cleanups;
                    let number = cleanups.number();
                    cleanups.remember_lane(number, Rc::downgrade(&self.slot));
                    self.listed = Some((Rc::downgrade(cleanups), number));
                }
                Poll::Pending
            }
        }
    }

    /// Called when the wait ends: the fiber is dropped, unless functions of the iterator are in progress.
    fn rest(&mut self) {
        let waits = self.slot.borrow().as_ref().is_some_and(|fiber| fiber.only_waits());
        if waits {
            self.give_up();
        }
    }

    fn give_up(&mut self) {
        if let Some(fiber) = self.slot.take() {
            self.unlist(Some(fiber));
        }
    }

    fn unlist(&mut self, fiber: Option<Box<Fiber>>) {
        let listed = self.listed.take().and_then(|(cleanups, number)| Some((cleanups.upgrade()?, number)));
        if let Some((cleanups, number)) = listed {
            cleanups.lane_ended(number, fiber.and_then(Fiber::give_up));
        }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.give_up();
    }
}

/// A set of iterators; the next item is that of the first one that has an item.
pub struct Lanes(VecDeque<Lane>);

impl Lanes {
    /// Creates lanes for these iterators; they take turns in this order.
    pub fn new(iters: impl IntoIterator<Item = Iter>) -> Lanes {
        Lanes(iters.into_iter().map(Lane::new).collect())
    }

    /// Waits for the next item: of the iterator whose turn it is, or of the next one in turn that does not have to
    /// wait. Returns `None` when all have ended.
    ///
    /// # Errors
    /// The error of one of them.
    pub async fn next(&mut self, cx: &Cx) -> Result<Option<Value>> {
        let waiting = Waiting(&mut self.0);
        poll_fn(|context| {
            let lanes = &mut *waiting.0;
            let mut place = 0;
            while let Some(lane) = lanes.get_mut(place) {
                match lane.poll(cx, context) {
                    Poll::Pending => place += 1,
                    Poll::Ready(Ok(None)) => drop(lanes.remove(place)),
                    Poll::Ready(Ok(item)) => {
                        lanes.rotate_left(place + 1);
                        return Poll::Ready(Ok(item));
                    }
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                }
            }
            if lanes.is_empty() { Poll::Ready(Ok(None)) } else { Poll::Pending }
        })
        .await
    }

    /// Removes all lanes except the one that returned the last item.
    pub fn keep_last(&mut self) {
        let others = self.0.len().saturating_sub(1);
        self.0.drain(..others);
    }

    /// Visits the iterators.
    pub fn trace(&self, visit: &mut dyn FnMut(&Value)) {
        self.0.iter().for_each(|lane| visit(lane.iter.as_value()));
    }
}

/// Exists while a task waits for the lanes.
struct Waiting<'a>(&'a mut VecDeque<Lane>);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.iter_mut().for_each(Lane::rest);
    }
}
