//! Several iterators that are waited for at the same time.
//!
//! What an iterator needs before its next item comes (a generator that waits, a function that a stage calls) runs on a
//! stack. So each of them that has to wait gets a [`Fiber`] of its own, which belongs to the task that pulls: nothing
//! is copied, and deadlines and cancellation reach it. It outlives the wait for an item, since another iterator may be
//! first, and goes on with the next one.

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

/// The fiber of a lane that is in the middle of something. The list of what is suspended shares it, so that its cleanup
/// runs at the end of the program.
pub(crate) type Slot = RefCell<Option<Box<Fiber>>>;

/// An iterator that may wait beside others.
struct Lane {
    iter: Iter,
    slot: Rc<Slot>,
    /// Where the fiber is listed, and under which number.
    listed: Option<(Weak<Cleanups>, u64)>,
}

impl Lane {
    fn new(iter: Iter) -> Lane {
        Lane { iter, slot: Rc::default(), listed: None }
    }

    /// The next item. `Pending` wakes whoever polled when there may be more to say.
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

    /// Nobody waits any more: the iterator is let go, unless that would lose what its functions have begun.
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

/// Iterators of which the first that has an item gives the next one.
pub struct Lanes(VecDeque<Lane>);

impl Lanes {
    /// Waits for these; they take turns, in this order.
    pub fn new(iters: impl IntoIterator<Item = Iter>) -> Lanes {
        Lanes(iters.into_iter().map(Lane::new).collect())
    }

    /// The next item: of the iterator whose turn it is, or the next in turn that does not have to wait. `None` when
    /// all have ended.
    ///
    /// # Errors
    /// What one of them throws.
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

    /// Leaves out all but the one that gave the last item.
    pub fn keep_last(&mut self) {
        let others = self.0.len().saturating_sub(1);
        self.0.drain(..others);
    }

    /// Visits the iterators.
    pub fn trace(&self, visit: &mut dyn FnMut(&Value)) {
        self.0.iter().for_each(|lane| visit(lane.iter.as_value()));
    }
}

/// While it lives, somebody waits.
struct Waiting<'a>(&'a mut VecDeque<Lane>);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.iter_mut().for_each(Lane::rest);
    }
}
