//! The lazy combinators. Each is a [`Source`] over other iterators: `try_next` answers at once where
//! no closure has to be called, `next` is the general way.

use std::collections::VecDeque;

use harn_value::Value;
use harn_vm::iter::{Iter, NextFuture, Source};
use harn_vm::{Cx, Error, Result};

/// What [`Source::try_next`] answers: nothing to say, or an item, or the end.
type Quick = Result<Option<Option<Value>>>;

/// `f(item)` for every item.
pub(crate) struct Map {
    pub(crate) items: Iter,
    pub(crate) f: Value,
}

impl Source for Map {
    fn next<'a>(&'a mut self, cx: &'a Cx) -> NextFuture<'a> {
        Box::pin(async move {
            match self.items.next(cx).await? {
                Some(item) => cx.call(&self.f, [item]).await.map(Some),
                None => Ok(None),
            }
        })
    }
}

/// The items for which `f` holds.
pub(crate) struct Filter {
    pub(crate) items: Iter,
    pub(crate) f: Value,
}

impl Source for Filter {
    fn next<'a>(&'a mut self, cx: &'a Cx) -> NextFuture<'a> {
        Box::pin(async move {
            while let Some(item) = self.items.next(cx).await? {
                if cx.call(&self.f, [item.clone()]).await?.truthy() {
                    return Ok(Some(item));
                }
            }
            Ok(None)
        })
    }
}

/// Items of what `f` gives for every item.
pub(crate) struct FlatMap {
    pub(crate) items: Iter,
    pub(crate) f: Value,
    pub(crate) inner: Option<Iter>,
}

impl Source for FlatMap {
    fn try_next(&mut self) -> Quick {
        match &self.inner {
            Some(inner) => Ok(inner.try_next()?.filter(Option::is_some)),
            None => Ok(None),
        }
    }

    fn next<'a>(&'a mut self, cx: &'a Cx) -> NextFuture<'a> {
        Box::pin(async move {
            loop {
                if let Some(inner) = &self.inner
                    && let Some(item) = inner.next(cx).await?
                {
                    return Ok(Some(item));
                }
                let Some(item) = self.items.next(cx).await? else { return Ok(None) };
                self.inner = Some(Iter::over(&cx.call(&self.f, [item]).await?)?);
            }
        })
    }
}

/// The first items.
pub(crate) struct Take {
    pub(crate) items: Iter,
    pub(crate) left: u64,
}

impl Source for Take {
    fn try_next(&mut self) -> Quick {
        if self.left == 0 {
            return Ok(Some(None));
        }
        let item = self.items.try_next()?;
        if item.is_some() {
            self.left -= 1;
        }
        Ok(item)
    }

    fn next<'a>(&'a mut self, cx: &'a Cx) -> NextFuture<'a> {
        Box::pin(async move {
            if self.left == 0 {
                return Ok(None);
            }
            self.left -= 1;
            self.items.next(cx).await
        })
    }
}

/// The items after the first ones.
pub(crate) struct Skip {
    pub(crate) items: Iter,
    pub(crate) left: u64,
}

impl Source for Skip {
    fn try_next(&mut self) -> Quick {
        while self.left > 0 {
            match self.items.try_next()? {
                Some(Some(_)) => self.left -= 1,
                other => return Ok(other),
            }
        }
        self.items.try_next()
    }

    fn next<'a>(&'a mut self, cx: &'a Cx) -> NextFuture<'a> {
        Box::pin(async move {
            while self.left > 0 {
                if self.items.next(cx).await?.is_none() {
                    return Ok(None);
                }
                self.left -= 1;
            }
            self.items.next(cx).await
        })
    }
}

/// Items up to the first for which `f` does not hold, or (`until`) does hold; that one is consumed.
pub(crate) struct TakeWhile {
    pub(crate) items: Iter,
    pub(crate) f: Value,
    pub(crate) until: bool,
    pub(crate) done: bool,
}

impl Source for TakeWhile {
    fn next<'a>(&'a mut self, cx: &'a Cx) -> NextFuture<'a> {
        Box::pin(async move {
            if self.done {
                return Ok(None);
            }
            let Some(item) = self.items.next(cx).await? else { return Ok(None) };
            if cx.call(&self.f, [item.clone()]).await?.truthy() != self.until {
                return Ok(Some(item));
            }
            self.done = true;
            Ok(None)
        })
    }
}

/// Items from the first on for which `f` does not hold.
pub(crate) struct SkipWhile {
    pub(crate) items: Iter,
    pub(crate) f: Value,
    pub(crate) started: bool,
}

impl Source for SkipWhile {
    fn try_next(&mut self) -> Quick {
        if self.started { self.items.try_next() } else { Ok(None) }
    }

    fn next<'a>(&'a mut self, cx: &'a Cx) -> NextFuture<'a> {
        Box::pin(async move {
            while let Some(item) = self.items.next(cx).await? {
                if self.started || !cx.call(&self.f, [item.clone()]).await?.truthy() {
                    self.started = true;
                    return Ok(Some(item));
                }
            }
            Ok(None)
        })
    }
}

/// Pairs of items, as long as both have some.
pub(crate) struct Zip {
    pub(crate) a: Iter,
    pub(crate) b: Iter,
    /// An item of `a` that waits for its partner.
    pub(crate) first: Option<Value>,
}

impl Source for Zip {
    fn try_next(&mut self) -> Quick {
        if self.first.is_none() {
            match self.a.try_next()? {
                Some(Some(item)) => self.first = Some(item),
                other => return Ok(other),
            }
        }
        Ok(self.b.try_next()?.map(|second| Some(Value::pair(self.first.take()?, second?))))
    }

    fn next<'a>(&'a mut self, cx: &'a Cx) -> NextFuture<'a> {
        Box::pin(async move {
            if self.first.is_none() {
                self.first = self.a.next(cx).await?;
            }
            let Some(first) = self.first.take() else { return Ok(None) };
            Ok(self.b.next(cx).await?.map(|second| Value::pair(first, second)))
        })
    }
}

/// All items of one iterator after the other.
pub(crate) struct Chain {
    pub(crate) parts: VecDeque<Iter>,
}

impl Source for Chain {
    fn try_next(&mut self) -> Quick {
        while let Some(part) = self.parts.front() {
            match part.try_next()? {
                Some(None) => drop(self.parts.pop_front()),
                other => return Ok(other),
            }
        }
        Ok(Some(None))
    }

    fn next<'a>(&'a mut self, cx: &'a Cx) -> NextFuture<'a> {
        Box::pin(async move {
            while let Some(part) = self.parts.front() {
                if let Some(item) = part.next(cx).await? {
                    return Ok(Some(item));
                }
                self.parts.pop_front();
            }
            Ok(None)
        })
    }
}

/// Pairs `(index, item)`.
pub(crate) struct Enumerate {
    pub(crate) items: Iter,
    pub(crate) index: i64,
}

impl Enumerate {
    fn number(&mut self, item: Option<Value>) -> Option<Value> {
        let item = item?;
        self.index += 1;
        Some(Value::pair(Value::int(self.index - 1), item))
    }
}

impl Source for Enumerate {
    fn try_next(&mut self) -> Quick {
        Ok(self.items.try_next()?.map(|item| self.number(item)))
    }

    fn next<'a>(&'a mut self, cx: &'a Cx) -> NextFuture<'a> {
        Box::pin(async move {
            let item = self.items.next(cx).await?;
            Ok(self.number(item))
        })
    }
}

/// Lists of `size` items; the last may be shorter.
pub(crate) struct Chunks {
    pub(crate) items: Iter,
    pub(crate) size: usize,
}

impl Source for Chunks {
    fn next<'a>(&'a mut self, cx: &'a Cx) -> NextFuture<'a> {
        Box::pin(async move {
            let mut chunk = Vec::new();
            while chunk.len() < self.size
                && let Some(item) = self.items.next(cx).await?
            {
                chunk.push(item);
            }
            Ok((!chunk.is_empty()).then(|| Value::list(chunk)))
        })
    }
}

/// Lists of `size` neighbours.
pub(crate) struct Windows {
    pub(crate) items: Iter,
    pub(crate) size: usize,
    pub(crate) window: VecDeque<Value>,
}

impl Source for Windows {
    fn next<'a>(&'a mut self, cx: &'a Cx) -> NextFuture<'a> {
        Box::pin(async move {
            if self.window.len() == self.size {
                self.window.pop_front();
            }
            while self.window.len() < self.size {
                let Some(item) = self.items.next(cx).await? else { return Ok(None) };
                self.window.push_back(item);
            }
            Ok(Some(Value::list(self.window.iter().cloned().collect())))
        })
    }
}

/// Pulls an iterator to its end; now and then looks whether the task was cancelled, so that a source
/// without end can be stopped.
pub(crate) struct Pull<'a> {
    items: &'a Iter,
    pulled: u32,
}

impl<'a> Pull<'a> {
    pub(crate) fn new(items: &'a Iter) -> Pull<'a> {
        Pull { items, pulled: 0 }
    }

    pub(crate) async fn next(&mut self, cx: &Cx) -> Result<Option<Value>> {
        const CHECK_EVERY: u32 = 1024;
        self.pulled = self.pulled.wrapping_add(1);
        if self.pulled.is_multiple_of(CHECK_EVERY) {
            cx.check()?;
        }
        self.items.next(cx).await
    }
}

/// Drains an iterator, refusing to gather more than memory allows.
pub(crate) async fn drain(cx: &Cx, items: &Iter) -> Result<Vec<Value>> {
    let mut out = Vec::new();
    let mut items = Pull::new(items);
    while let Some(item) = items.next(cx).await? {
        if out.len() == out.capacity() && out.len() > 4096 {
            // The next push doubles the vector.
            crate::args::room_for(out.len() * 2)?;
        }
        out.push(item);
    }
    Ok(out)
}

/// The dict `{done, value}` that `next()` gives.
pub(crate) fn step(item: Option<Value>) -> Value {
    let done = item.is_none();
    let entries = [("done", Value::bool(done)), ("value", item.unwrap_or_default())];
    Value::dict(entries.into_iter().collect())
}

/// The sum so far and one more number.
///
/// # Errors
/// `Type error: iter.sum: expected number, got T`
pub(crate) fn add(sum: &Value, item: &Value) -> Result<Value> {
    match (sum.as_int(), item.as_int()) {
        (Some(sum), Some(item)) => Ok(Value::int(sum.wrapping_add(item))),
        _ => match (sum.as_number(), item.as_number()) {
            (Some(sum), Some(item)) => Ok(Value::float(sum + item)),
            _ => {
                let text = format!("iter.sum: expected number, got {}", item.type_name());
                Err(Error::type_error(text))
            }
        },
    }
}
