//! Native functions that consume an iterator, completely or up to a result.

use harn_value::Value;

use super::{Iter, Pull, Pulled, Quick};
use crate::call_loop::{CallLoop, Slots, Steps, Turn};
use crate::error::{Error, Result};

/// What a sink needs after an item or an answer.
pub enum Flow {
    /// The next item.
    More,
    /// A call of its function with this many of the slots.
    Call(usize),
    /// The end, with this result.
    Done(Value),
}

/// Consumer of the items.
pub trait Sink {
    /// Consumes an item.
    ///
    /// # Errors
    /// The error that the native function ends with.
    fn item(&mut self, item: Value, slots: &mut Slots) -> Result<Flow>;

    /// Receives the result of its function, if it calls one.
    ///
    /// # Errors
    /// As for [`Sink::item`].
    fn answer(&mut self, answer: Value) -> Result<Flow> {
        drop(answer);
        Ok(Flow::More)
    }

    /// Makes the result after the last item.
    ///
    /// # Errors
    /// As for [`Sink::item`].
    fn end(&mut self) -> Result<Value>;
}

impl CallLoop {
    /// Pulls `items` into `sink`, whose function is `f` (nil if it has none).
    pub fn drain(items: Iter, f: Value, sink: impl Sink + 'static) -> CallLoop {
        CallLoop::new(f, Drain { pull: Pull::new(items), sink, asked: false })
    }

    /// Pulls `items` into a vector; fails if it would exceed the memory limit.
    pub fn collect(items: Iter, end: impl FnOnce(Vec<Value>) -> Result<Value> + 'static) -> CallLoop {
        CallLoop::drain(items, Value::NIL, Collect { out: Vec::new(), end: Some(end) })
    }

    /// Folds the items without calling functions of the program.
    pub fn fold<S: 'static>(
        items: Iter,
        state: S,
        step: impl FnMut(&mut S, Value) -> Result<()> + 'static,
        end: impl FnOnce(S) -> Value + 'static,
    ) -> CallLoop {
        CallLoop::drain(items, Value::NIL, Fold { step, rest: Some((state, end)) })
    }

    /// Pulls one item and returns the result of `end` for it.
    pub fn first(items: Iter, end: impl FnOnce(Option<Value>) -> Value + 'static) -> CallLoop {
        CallLoop::drain(items, Value::NIL, First(Some(end)))
    }
}

struct Drain<S> {
    pull: Pull,
    sink: S,
    /// Whether the last action was a call of the sink's function.
    asked: bool,
}

impl<S: Sink> Steps for Drain<S> {
    fn next(&mut self, mut reply: Option<Value>, slots: &mut Slots) -> Result<Turn> {
        if std::mem::take(&mut self.asked) {
            match self.sink.answer(reply.take().unwrap_or_default())? {
                Flow::More => {}
                Flow::Call(count) => {
                    self.asked = true;
                    return Ok(Turn::Call(count));
                }
                Flow::Done(value) => return Ok(Turn::Done(value)),
            }
        }
        loop {
            let item = match self.pull.quick(&mut reply, slots) {
                Quick::Call(f) => return Ok(Turn::CallOther(f, 1)),
                Quick::Item => reply.take().unwrap_or_default(),
                Quick::No => match self.pull.step(reply.take(), slots)? {
                    Pulled::Item(item) => item,
                    Pulled::End => return self.sink.end().map(Turn::Done),
                    Pulled::Call(f, count) => return Ok(Turn::CallOther(f, count)),
                    Pulled::Resume(generator) => return Ok(Turn::Resume(generator)),
                    Pulled::Wait(iter) => return Ok(Turn::Wait(iter)),
                    Pulled::Pause => return Ok(Turn::Pause),
                },
            };
            match self.sink.item(item, slots)? {
                // The fiber counts calls as steps.
                Flow::More => harn_value::steps::step(),
                Flow::Call(count) => {
                    self.asked = true;
                    return Ok(Turn::Call(count));
                }
                Flow::Done(value) => return Ok(Turn::Done(value)),
            }
        }
    }

    fn failed(&mut self) {
        if !self.asked {
            self.pull.failed();
        }
    }
}

struct Collect<End> {
    out: Vec<Value>,
    end: Option<End>,
}

/// Checks that a full vector or list may grow.
///
/// # Errors
/// The memory limit.
#[inline]
pub fn room_for_one(len: usize, capacity: usize) -> Result<()> {
    if len == capacity && len >= 4096 {
        // The next push doubles the capacity.
        harn_value::memory::check(len * 2 * size_of::<Value>()).map_err(Error::from)?;
    }
    Ok(())
}

impl<End: FnOnce(Vec<Value>) -> Result<Value>> Sink for Collect<End> {
    fn item(&mut self, item: Value, _: &mut Slots) -> Result<Flow> {
        room_for_one(self.out.len(), self.out.capacity())?;
        self.out.push(item);
        Ok(Flow::More)
    }

    fn end(&mut self) -> Result<Value> {
        let out = std::mem::take(&mut self.out);
        self.end.take().map_or(Ok(Value::NIL), |end| end(out))
    }
}

struct Fold<S, Step, End> {
    step: Step,
    rest: Option<(S, End)>,
}

impl<S, Step, End> Sink for Fold<S, Step, End>
where
    Step: FnMut(&mut S, Value) -> Result<()>,
    End: FnOnce(S) -> Value,
{
    fn item(&mut self, item: Value, _: &mut Slots) -> Result<Flow> {
        if let Some((state, _)) = &mut self.rest {
            (self.step)(state, item)?;
        }
        Ok(Flow::More)
    }

    fn end(&mut self) -> Result<Value> {
        Ok(self.rest.take().map(|(state, end)| end(state)).unwrap_or_default())
    }
}

struct First<End>(Option<End>);

impl<End: FnOnce(Option<Value>) -> Value> Sink for First<End> {
    fn item(&mut self, item: Value, _: &mut Slots) -> Result<Flow> {
        Ok(Flow::Done(self.0.take().map(|end| end(Some(item))).unwrap_or_default()))
    }

    fn end(&mut self) -> Result<Value> {
        Ok(self.0.take().map(|end| end(None)).unwrap_or_default())
    }
}
