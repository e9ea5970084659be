//! Lazy single-pass iterators: a source of items and the stages that they pass through.
//!
//! A combinator (`map`, `skip`, `zip`) adds a stage. It modifies the iterator in place if there is no other
//! reference, so that a pipeline of any length is one flat list. A shared iterator becomes the source of a new one,
//! and both share the position. `Pull` takes one item through the stages. It is a state machine that returns what it
//! needs (a call, a generator's next value, a wait), and is used by the interpreter's loops ([`drain`]) as well as by
//! native futures ([`Iter::next`]).

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;

use harn_value::{Foreign, Range, Value, View};

use crate::cx::Cx;
use crate::error::{Error, Result};
use crate::generator::Generator;

pub mod drain;
pub(crate) mod lanes;
mod pull;
mod source;
mod stage;

pub use lanes::Lanes;
pub(crate) use pull::{Pull, Pulled, Quick};
use source::Items;
pub use source::{NextFuture, Source};
pub use stage::Stage;

/// Source and stages of an iterator.
struct Body {
    items: Items,
    /// From the source outwards.
    stages: Vec<Stage>,
}

impl Body {
    /// Merges the source into this iterator, as long as it is an iterator without other references: a chain of
    /// iterators becomes one flat list of stages.
    fn absorb(&mut self) {
        let mut taken: Vec<Vec<Stage>> = Vec::new();
        while let Items::Shared(inner) = &mut self.items
            && inner.0.is_unique()
            && !inner.state().busy.get()
        {
            let Body { items, stages } = inner.state().body.replace(Body::done());
            self.items = items;
            taken.push(stages);
        }
        if taken.is_empty() {
            return;
        }
        let own = std::mem::take(&mut self.stages);
        for stage in taken.into_iter().rev().flatten().chain(own) {
            self.push(stage);
        }
    }

    /// Adds an outermost stage.
    fn push(&mut self, stage: Stage) {
        match (self.stages.last_mut(), stage) {
            (Some(Stage::Chain(parts)), Stage::Chain(mut more)) if !parts.begun && !more.begun => {
                parts.rest.append(&mut more.rest);
            }
            (_, stage) => self.stages.push(stage),
        }
    }

    fn done() -> Body {
        Body { items: Items::Done, stages: Vec::new() }
    }
}

/// The shared state of an [`Iter`].
struct State {
    body: RefCell<Body>,
    /// Whether an item is in progress. The code that produces it must not pull the iterator.
    busy: Cell<bool>,
    done: Cell<bool>,
    /// Whether a stage, here or in an iterator that this one pulls, calls functions.
    calls: Cell<bool>,
}

/// An iterator: a shared position in a source. Clones share the position.
///
/// It is a value of the program, so that a chain of iterators of any length is freed like nested data.
#[derive(Clone)]
pub struct Iter(Value);

impl Iter {
    fn new(items: Items) -> Iter {
        let calls = match &items {
            Items::Shared(inner) => inner.state().calls.get(),
            _ => false,
        };
        Iter(Value::foreign(State {
            body: RefCell::new(Body { items, stages: Vec::new() }),
            busy: Cell::new(false),
            done: Cell::new(false),
            calls: Cell::new(calls),
        }))
    }

    /// Returns it as a value of the program.
    pub fn as_value(&self) -> &Value {
        &self.0
    }

    fn state(&self) -> &State {
        // SAFETY: only `Iter::new` and `Iter::over` create it, with a `State` object.
        unsafe { self.0.downcast_unchecked::<State>() }
    }

    /// Creates an iterator over a source of another crate.
    pub fn from_source(source: impl Source + 'static) -> Iter {
        Iter::new(Items::Source(Box::new(source)))
    }

    /// Returns an iterator over any iterable value; an iterator itself is returned unchanged.
    ///
    /// # Errors
    /// `Type error: iter: value of type T is not iterable`
    pub fn over(value: &Value) -> Result<Iter> {
        Ok(match value.view() {
            View::List(items) => Iter::new(Items::List(items.clone(), 0, usize::MAX)),
            View::Set(items) => Iter::new(Items::Set(items.clone(), 0, usize::MAX)),
            View::Dict(items) => Iter::new(Items::Dict(items.clone(), 0, usize::MAX)),
            View::Str(text) => Iter::new(Items::Text(text.clone(), 0)),
            View::Range(range) => Iter::new(Items::range(**range)),
            View::Foreign(_) => {
                if value.downcast::<State>().is_some() {
                    Iter(value.clone())
                } else if value.downcast::<Generator>().is_some() {
                    Iter::new(Items::Generator(value.clone()))
                } else if let Some(source) = crate::channel::ChannelSource::of(value) {
                    Iter::new(Items::Source(source))
                } else if let Some(stream) = value.downcast::<crate::channel::StreamValue>() {
                    stream.0.clone()
                } else {
                    return Err(not_iterable(value));
                }
            }
            _ => return Err(not_iterable(value)),
        })
    }

    /// Returns whether a value is an iterator.
    pub(crate) fn is(value: &Value) -> bool {
        value.downcast::<State>().is_some()
    }

    /// Converts it to a value of the program.
    pub fn into_value(self) -> Value {
        self.0
    }

    /// Notifies the source that a loop over a value was left.
    pub(crate) fn left(value: &Value) {
        if let Some(state) = value.downcast::<State>()
            && let Ok(mut body) = state.body.try_borrow_mut()
            && let Items::Source(source) = &mut body.items
        {
            source.left();
        }
    }

    /// Returns whether it is known to have no more items.
    pub(crate) fn is_done(&self) -> bool {
        self.state().done.get()
    }

    /// Returns the iterator with one more stage.
    #[must_use]
    pub fn then(self, stage: Stage) -> Iter {
        let this = if self.0.is_unique() && !self.state().busy.get() {
            self
        } else {
            Iter::new(Items::Shared(self))
        };
        let state = this.state();
        let mut body = state.body.borrow_mut();
        let in_memory = body.stages.is_empty() && body.items.is_indexed();
        match stage {
            // Items in memory can be skipped by position.
            Stage::Skip(n) if in_memory => {
                body.items.advance(n);
            }
            Stage::Take(n) if in_memory => body.items.truncate(n),
            stage => {
                state.calls.set(state.calls.get() || stage.calls());
                body.push(stage);
            }
        }
        state.done.set(false);
        drop(body);
        this
    }

    /// Returns an iterator over the items of both.
    #[must_use]
    pub fn chain(self, other: Iter) -> Iter {
        self.then(Stage::chain(other))
    }

    /// Skips `n` items that are in memory and pass through no stage; returns the number of skipped items. Fewer than
    /// `n` does not mean that the iterator has ended.
    fn advance(&self, n: u64) -> u64 {
        let mut iter = self.clone();
        // Follow iterators over iterators, to a limited depth.
        for _ in 0..64 {
            let state = iter.state();
            let Ok(mut body) = state.body.try_borrow_mut() else { return 0 };
            if state.busy.get() || !body.stages.is_empty() {
                return 0;
            }
            let inner = match &mut body.items {
                Items::Shared(inner) => inner.clone(),
                items => return items.advance(n),
            };
            drop(body);
            iter = inner;
        }
        0
    }

    /// Returns the number of remaining items if it is known without pulling; the items are then consumed.
    pub fn count_at_once(&self) -> Option<u64> {
        let state = self.state();
        let body = state.body.try_borrow().ok()?;
        let plain = body.stages.iter().all(|stage| matches!(stage, Stage::Enumerate(_)));
        let count = body.items.remaining().filter(|_| plain && !state.busy.get())?;
        drop(body);
        self.exhaust();
        Some(count)
    }

    /// Returns the remaining items as a range if possible; they are then consumed. Returns `None` for an empty range.
    pub fn take_range(&self) -> Option<Range> {
        let state = self.state();
        let body = state.body.try_borrow().ok()?;
        let Items::Range(range) = &body.items else { return None };
        let range = Some(*range).filter(|r| body.stages.is_empty() && !state.busy.get() && !r.is_empty())?;
        drop(body);
        self.exhaust();
        Some(range)
    }

    /// Skips all items but the last, if they are in memory and pass through no stage.
    pub fn skip_to_last(&self) {
        let state = self.state();
        if state.busy.get() {
            return;
        }
        if let Ok(mut body) = state.body.try_borrow_mut()
            && body.stages.iter().all(|stage| matches!(stage, Stage::Enumerate(_)))
            && let Some(left) = body.items.remaining()
            && left > 1
        {
            body.items.advance(left - 1);
            for stage in &mut body.stages {
                if let Stage::Enumerate(index) = stage {
                    *index = index.saturating_add(i64::try_from(left - 1).unwrap_or(i64::MAX));
                }
            }
        }
    }

    /// Marks it as ended and drops its source and stages.
    fn exhaust(&self) {
        let state = self.state();
        state.done.set(true);
        if let Ok(mut body) = state.body.try_borrow_mut() {
            let old = std::mem::replace(&mut *body, Body::done());
            drop(body);
            drop(old);
        }
    }

    /// Returns the next item without waiting or calling functions: `Some(None)` at the end, `None` if [`Iter::next`]
    /// must be used.
    ///
    /// # Errors
    /// Errors of the source; `iterator is already being advanced`.
    #[inline]
    pub fn try_next(&self) -> Result<Option<Option<Value>>> {
        let state = self.state();
        if !state.busy.get()
            && let Ok(mut body) = state.body.try_borrow_mut()
            && body.stages.is_empty()
        {
            let item = match (body.items.quick_next(), &mut body.items) {
                (None, Items::Source(source)) => source.try_next(),
                (item, _) => Ok(item),
            };
            // `None` means a source that waits, or an iterator over another one.
            if !matches!(item, Ok(None)) {
                if !matches!(item, Ok(Some(Some(_)))) {
                    body.items = Items::Done;
                    state.done.set(true);
                }
                return item;
            }
        }
        self.try_pull()
    }

    #[inline(never)]
    fn try_pull(&self) -> Result<Option<Option<Value>>> {
        if self.state().calls.get() {
            return if self.state().busy.get() { Err(already_advanced()) } else { Ok(None) };
        }
        let mut pull = Pull::new(self.clone());
        match pull.step(None, &mut Default::default())? {
            Pulled::Item(item) => Ok(Some(Some(item))),
            Pulled::End => Ok(Some(None)),
            // Items that the stages have consumed so far stay in them.
            _ => Ok(None),
        }
    }

    /// Returns the next item; `None` at the end and always after it.
    ///
    /// # Errors
    /// The error of the source or of a called function, after which the iterator is exhausted.
    /// `iterator is already being advanced` if it is pulled from a function that it calls, or while another task
    /// waits for its next item.
    pub async fn next(&self, cx: &Cx) -> Result<Option<Value>> {
        if let Some(item) = self.try_next()? {
            return Ok(item);
        }
        let mut pull = Pull::new(self.clone());
        let mut args = Default::default();
        let mut reply = None;
        loop {
            let answer = match pull.step(reply.take(), &mut args)? {
                Pulled::Item(item) => return Ok(Some(item)),
                Pulled::End => return Ok(None),
                Pulled::Call(f, count) => cx.call(&f, args.iter_mut().take(count).map(Value::take)).await,
                Pulled::Resume(generator) => cx.resume(&generator).await,
                Pulled::Wait(iter) => iter.wait(cx).await,
                Pulled::Pause => {
                    cx.give_way().await?;
                    continue;
                }
            };
            match answer {
                Ok(value) => reply = Some(value),
                Err(error) => {
                    pull.failed();
                    return Err(error);
                }
            }
        }
    }

    /// Waits for the source's next item; returns [`Value::ABSENT`] at the end.
    ///
    /// # Errors
    /// The error of the source, after which the iterator is exhausted.
    pub(crate) fn wait<'a>(&'a self, cx: &'a Cx) -> impl Future<Output = Result<Value>> + 'a {
        source::Nested::new(Box::pin(async move {
            let mut loan = source::Loan::of(self);
            let next = loan.next(cx).await;
            match next {
                Ok(item) => Ok(item.unwrap_or(Value::ABSENT)),
                Err(error) => {
                    loan.forget();
                    self.exhaust();
                    Err(error)
                }
            }
        }))
    }

    /// Like [`Iter::wait`], but owns its arguments.
    pub(crate) fn wait_owned(self, cx: Cx) -> Pin<Box<dyn Future<Output = Result<Value>>>> {
        Box::pin(async move { self.wait(&cx).await })
    }
}

fn already_advanced() -> Error {
    Error::runtime("iterator is already being advanced")
}

fn not_iterable(value: &Value) -> Error {
    Error::type_error(format!("iter: value of type {} is not iterable", value.type_name()))
}

impl Foreign for State {
    fn type_name(&self) -> &'static str {
        "iter"
    }

    fn print(&self, out: &mut String) {
        out.push_str(if self.done.get() { "<iter (exhausted)>" } else { "<iter>" });
    }

    fn equals(&self, other: &dyn Foreign) -> bool {
        std::ptr::addr_eq(&raw const *self, &raw const *other)
    }

    fn trace(&self, visit: &mut dyn FnMut(&Value)) {
        // While an item is in progress, the waiting task holds a part of the body.
        if !self.busy.get()
            && let Ok(body) = self.body.try_borrow()
        {
            body.items.trace(visit);
            body.stages.iter().for_each(|stage| stage.trace(visit));
        }
    }
}
