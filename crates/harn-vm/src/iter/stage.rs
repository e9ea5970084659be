//! The stages of an iterator: how each one requests an item, processes an item, and processes the result of the
//! function that it called.

use std::collections::VecDeque;

use harn_value::Value;

use super::Iter;
use crate::call_loop::Slots;
use crate::error::Result;

/// A stage of an iterator.
pub enum Stage {
    /// `f(item)` for every item.
    Map(Value),
    /// The items for which the function returns a truthy value.
    Filter(Value),
    /// Calls the function with every item and passes the item on.
    Tap(Value),
    /// The accumulator after every item: `acc = f(acc, item)`.
    Scan {
        /// The accumulator.
        accumulator: Value,
        /// The function.
        f: Value,
    },
    /// The given number of items.
    Take(u64),
    /// The items after skipping this many.
    Skip(u64),
    /// Items up to the first for which `f` is falsy, or with `until`, truthy; that item is consumed.
    TakeWhile {
        /// The function.
        f: Value,
        /// Whether a truthy result of `f` ends it.
        until: bool,
        /// Whether it has ended.
        done: bool,
    },
    /// Items from the first one for which `f` is falsy.
    SkipWhile {
        /// The function.
        f: Value,
        /// Whether that item was found.
        started: bool,
    },
    /// Items of the iterables that `f` returns.
    FlatMap {
        /// The function.
        f: Value,
        /// The iterable returned last.
        inner: Option<Iter>,
    },
    /// Pairs of items, up to the end of the shorter source.
    Zip {
        /// The second source.
        other: Iter,
        /// An item that waits for its partner.
        first: Option<Value>,
    },
    /// The items, followed by those of other iterators.
    Chain(Parts),
    /// Pairs `(index, item)`, with the next index.
    Enumerate(i64),
    /// Lists of `size` items; the last may be shorter.
    Chunks {
        /// Length of a list.
        size: usize,
        /// The list that is being filled.
        chunk: Vec<Value>,
        /// Whether the last list was returned.
        done: bool,
    },
    /// Lists of `size` adjacent items.
    Windows {
        /// Length of a list.
        size: usize,
        /// The last items.
        window: VecDeque<Value>,
    },
}

/// Iterators that follow the items.
pub struct Parts {
    pub(super) rest: VecDeque<Iter>,
    /// Whether the items before them are consumed.
    pub(super) begun: bool,
}

impl Stage {
    /// Visits the values that the stage holds.
    pub(super) fn trace(&self, visit: &mut dyn FnMut(&Value)) {
        match self {
            Stage::Map(f)
            | Stage::Filter(f)
            | Stage::Tap(f)
            | Stage::TakeWhile { f, .. }
            | Stage::SkipWhile { f, .. } => visit(f),
            Stage::Scan { accumulator, f } => {
                visit(accumulator);
                visit(f);
            }
            Stage::FlatMap { f, inner } => {
                visit(f);
                inner.iter().for_each(|inner| visit(inner.as_value()));
            }
            Stage::Zip { other, first } => {
                visit(other.as_value());
                first.iter().for_each(visit);
            }
            Stage::Chain(parts) => parts.rest.iter().for_each(|part| visit(part.as_value())),
            Stage::Chunks { chunk, .. } => chunk.iter().for_each(visit),
            Stage::Windows { window, .. } => window.iter().for_each(visit),
            Stage::Take(_) | Stage::Skip(_) | Stage::Enumerate(_) => {}
        }
    }
}

impl Parts {
    pub(super) fn calls(&self) -> bool {
        self.rest.iter().any(|part| part.state().calls.get())
    }
}

/// Where the next item comes from.
pub(super) enum Ask {
    /// From the stages below.
    Below,
    /// From the stage itself.
    Itself(Option<Value>),
    /// From another iterator.
    Other(Iter),
    /// From another iterator, as will all later items: this stage and those below are no longer needed.
    Last(Iter),
}

/// Result of processing an item, the end, or the result of a call.
pub(super) enum Next {
    /// Pass this to the next stage.
    Pass(Option<Value>),
    /// Get another item from below.
    Below,
    /// Ask this stage again.
    Again,
    /// Call this function with this many slots; the last value is saved for the result.
    Call(Value, usize, Value),
}

impl Stage {
    /// Creates a stage that continues with `other`.
    pub fn chain(other: Iter) -> Stage {
        Stage::Chain(Parts { rest: VecDeque::from([other]), begun: false })
    }

    /// Returns whether it calls a function, itself or through an iterator that it pulls.
    pub(super) fn calls(&self) -> bool {
        match self {
            Stage::Zip { other, .. } => other.state().calls.get(),
            Stage::Chain(parts) => parts.calls(),
            stage => stage.function().is_some(),
        }
    }

    /// Returns the function that it calls.
    pub(super) fn function(&self) -> Option<&Value> {
        match self {
            Stage::Map(f)
            | Stage::Filter(f)
            | Stage::Tap(f)
            | Stage::Scan { f, .. }
            | Stage::TakeWhile { f, .. }
            | Stage::SkipWhile { f, .. }
            | Stage::FlatMap { f, .. } => Some(f),
            _ => None,
        }
    }

    /// Requests the next item.
    #[inline]
    pub(super) fn ask(&mut self) -> Ask {
        match self {
            Stage::Take(0) | Stage::TakeWhile { done: true, .. } | Stage::Chunks { done: true, .. } => {
                Ask::Itself(None)
            }
            Stage::FlatMap { inner: Some(inner), .. } => match inner.quick() {
                Some(item) => Ask::Itself(Some(item)),
                None => Ask::Other(inner.clone()),
            },
            Stage::Zip { other, first: Some(_) } => Ask::Other(other.clone()),
            Stage::Chain(parts) if parts.begun && parts.rest.len() == 1 => {
                parts.rest.pop_front().map_or(Ask::Itself(None), Ask::Last)
            }
            Stage::Chain(parts) if parts.begun => match parts.rest.front() {
                Some(part) => match part.quick() {
                    Some(item) => Ask::Itself(Some(item)),
                    None => Ask::Other(part.clone()),
                },
                None => Ask::Itself(None),
            },
            _ => Ask::Below,
        }
    }

    /// Processes an item from below, or the end.
    ///
    /// # Errors
    /// The memory limit.
    #[inline]
    pub(super) fn item(&mut self, item: Option<Value>, slots: &mut Slots, spent: &mut u32) -> Result<Next> {
        let Some(item) = item else {
            return Ok(match self {
                Stage::Chain(parts) => {
                    parts.begun = true;
                    Next::Again
                }
                Stage::Chunks { chunk, done, .. } => {
                    *done = true;
                    let last = std::mem::take(chunk);
                    Next::Pass((!last.is_empty()).then(|| Value::list(last)))
                }
                _ => Next::Pass(None),
            });
        };
        Ok(match self {
            Stage::Map(f) | Stage::FlatMap { f, .. } => {
                slots[0].put(item);
                Next::Call(f.clone(), 1, Value::NIL)
            }
            Stage::Filter(f)
            | Stage::Tap(f)
            | Stage::TakeWhile { f, .. }
            | Stage::SkipWhile { f, started: false } => {
                slots[0].put(item.clone());
                Next::Call(f.clone(), 1, item)
            }
            Stage::Scan { accumulator, f } => {
                slots[0].put(accumulator.take());
                slots[1].put(item);
                Next::Call(f.clone(), 2, Value::NIL)
            }
            Stage::Take(left) => {
                *left -= 1;
                Next::Pass(Some(item))
            }
            Stage::Skip(left) if *left > 0 => {
                *left -= 1;
                Next::Below
            }
            Stage::Zip { first, .. } => {
                *first = Some(item);
                Next::Again
            }
            Stage::Enumerate(index) => {
                *index += 1;
                Next::Pass(Some(Value::pair(Value::int(*index - 1), item)))
            }
            Stage::Chunks { size, chunk, .. } => {
                if chunk.len() == chunk.capacity() && chunk.len() >= 4096 {
                    // The next push doubles the capacity.
                    harn_value::memory::check(chunk.len() * 2 * size_of::<Value>())?;
                }
                chunk.push(item);
                if chunk.len() < *size {
                    return Ok(Next::Below);
                }
                Next::Pass(Some(Value::list(std::mem::take(chunk))))
            }
            Stage::Windows { size, window } => {
                if window.len() == window.capacity() && window.len() >= 4096 {
                    harn_value::memory::check(window.len() * 2 * size_of::<Value>())?;
                }
                window.push_back(item);
                if window.len() < *size {
                    return Ok(Next::Below);
                }
                harn_value::memory::check(*size * size_of::<Value>())?;
                *spent = spent.saturating_add(u32::try_from(*size).unwrap_or(u32::MAX));
                let list = window.iter().cloned().collect();
                window.pop_front();
                Next::Pass(Some(Value::list(list)))
            }
            Stage::Skip(_) | Stage::SkipWhile { .. } | Stage::Chain(_) => Next::Pass(Some(item)),
        })
    }

    /// Processes the result of the function; `kept` is the value that was saved with the call.
    ///
    /// # Errors
    /// The error of `flat_map` for a result that is not iterable.
    #[inline]
    pub(super) fn answer(&mut self, answer: Value, kept: Value) -> Result<Next> {
        Ok(match self {
            Stage::Filter(_) if !answer.truthy() => Next::Below,
            Stage::Filter(_) | Stage::Tap(_) => Next::Pass(Some(kept)),
            Stage::Scan { accumulator, .. } => {
                accumulator.put(answer.clone());
                Next::Pass(Some(answer))
            }
            Stage::TakeWhile { until, done, .. } => {
                *done = answer.truthy() == *until;
                Next::Pass((!*done).then_some(kept))
            }
            Stage::SkipWhile { started, .. } => {
                *started = !answer.truthy();
                if *started { Next::Pass(Some(kept)) } else { Next::Below }
            }
            Stage::FlatMap { inner, .. } => {
                *inner = Some(Iter::over(&answer)?);
                Next::Again
            }
            _ => Next::Pass(Some(answer)),
        })
    }

    /// Processes an item of the other iterator that the stage asked for, or its end.
    pub(super) fn other(&mut self, item: Option<Value>) -> Next {
        match (self, item) {
            (Stage::Zip { first, .. }, item) => {
                let first = first.take();
                Next::Pass(item.zip(first).map(|(second, first)| Value::pair(first, second)))
            }
            (Stage::FlatMap { inner, .. }, None) => {
                *inner = None;
                Next::Below
            }
            (Stage::Chain(parts), None) => {
                parts.rest.pop_front();
                Next::Again
            }
            (_, item) => Next::Pass(item),
        }
    }
}

impl Iter {
    /// Returns the next item of an iterator without stages over a value in memory, if there is one.
    #[inline]
    fn quick(&self) -> Option<Value> {
        let state = self.state();
        if state.busy.get() {
            return None;
        }
        let mut body = state.body.try_borrow_mut().ok()?;
        if body.stages.is_empty() { body.items.quick_next().flatten() } else { None }
    }
}
