//! Sources of an iterator's items.

use std::cell::Cell;
use std::future::Future;
use std::mem::ManuallyDrop;
use std::pin::Pin;
use std::task::{Context, Poll};

use harn_value::{Dict, List, Range, Ref, Set, Str, Value};

use super::Iter;
use crate::cx::Cx;
use crate::error::{Error, Result};

/// The next item of a source that may have to wait for it.
pub type NextFuture<'a> = Pin<Box<dyn Future<Output = Result<Option<Value>>> + 'a>>;

/// A source that may wait, or does not simply return one item after another.
pub trait Source {
    /// Returns the next item if possible without calling closures or waiting: `Some(None)` at the end,
    /// `None` if [`Source::next`] must be used.
    ///
    /// # Errors
    /// Errors of the source.
    fn try_next(&mut self) -> Result<Option<Option<Value>>> {
        Ok(None)
    }

    /// Waits for the next item. Dropping the future early must not lose an item.
    fn next<'a>(&'a mut self, cx: &'a Cx) -> NextFuture<'a>;

    /// Called when a loop over it was left; background work may stop.
    fn left(&mut self) {}

    /// Visits the values that the source holds, like [`Foreign::trace`](harn_value::Foreign::trace).
    fn trace(&self, visit: &mut dyn FnMut(&Value)) {
        let _ = visit;
    }
}

/// The items of a value in memory, or of a source that is pulled.
pub(super) enum Items {
    /// The list, the next position, and the end position.
    List(Ref<List>, usize, usize),
    Set(Ref<Set>, usize, usize),
    /// Pairs `(key, value)` in key order.
    Dict(Ref<Dict>, usize, usize),
    /// The string and the byte offset of the next character.
    Text(Str, usize),
    Range(Range),
    Generator(Value),
    /// An iterator with other references.
    Shared(Iter),
    Source(Box<dyn Source>),
    /// The source is moved to the future that waits for it.
    OnLoan,
    Done,
}

/// Passes a reference to `visit` as a value.
fn lend<T>(held: &Ref<T>, visit: &mut dyn FnMut(&Value))
where
    Value: From<Ref<T>>,
{
    // SAFETY: the copy is not dropped, so the reference count does not change.
    visit(&ManuallyDrop::new(Value::from(unsafe { std::ptr::read(held) })));
}

const NOTHING: Range = Range { start: 1, end: 0, exclusive: false };

impl Items {
    pub(super) fn range(range: Range) -> Items {
        // With an inclusive end, `start` can always advance by one.
        Items::Range(range.last().map_or(NOTHING, |end| Range { start: range.start, end, exclusive: false }))
    }

    /// Returns the next item of a value in memory; `None` for a source that must be pulled.
    #[inline]
    pub(super) fn quick_next(&mut self) -> Option<Option<Value>> {
        Some(match self {
            Items::List(list, at, end) => step(at, *end, |at| list.get(at).cloned()),
            Items::Set(set, at, end) => step(at, *end, |at| set.nth(at).cloned()),
            Items::Dict(dict, at, end) => {
                step(at, *end, |at| dict.nth(at).map(|(key, value)| Value::pair(key.into(), value.clone())))
            }
            Items::Text(text, at) => text[*at..].chars().next().map(|c| {
                *at += c.len_utf8();
                Str::from_char(c).into()
            }),
            Items::Range(range) => {
                let item = range.start;
                if item > range.end {
                    None
                } else {
                    match item.checked_add(1) {
                        Some(next) => range.start = next,
                        None => *range = NOTHING,
                    }
                    Some(Value::int(item))
                }
            }
            Items::Done => None,
            Items::Generator(_) | Items::Shared(_) | Items::Source(_) | Items::OnLoan => return None,
        })
    }

    /// Visits the values that it holds.
    pub(super) fn trace(&self, visit: &mut dyn FnMut(&Value)) {
        match self {
            Items::List(list, ..) => lend(list, visit),
            Items::Set(set, ..) => lend(set, visit),
            Items::Dict(dict, ..) => lend(dict, visit),
            Items::Generator(generator) => visit(generator),
            Items::Shared(iter) => visit(iter.as_value()),
            Items::Source(source) => source.trace(visit),
            Items::Text(..) | Items::Range(_) | Items::OnLoan | Items::Done => {}
        }
    }

    /// Returns whether items are in memory, so that they can be skipped by position.
    pub(super) fn is_indexed(&self) -> bool {
        self.remaining().is_some()
    }

    /// Returns the number of remaining items if known.
    pub(super) fn remaining(&self) -> Option<u64> {
        let between = |at: usize, end: usize, len: usize| end.min(len).saturating_sub(at) as u64;
        match self {
            Items::List(list, at, end) => Some(between(*at, *end, list.len())),
            Items::Set(set, at, end) => Some(between(*at, *end, set.len())),
            Items::Dict(dict, at, end) => Some(between(*at, *end, dict.len())),
            Items::Range(range) => Some(range.len()),
            Items::Done => Some(0),
            _ => None,
        }
    }

    /// Skips up to `n` items; returns the number of skipped items. Strings are skipped in pieces.
    pub(super) fn advance(&mut self, n: u64) -> u64 {
        const PIECE: usize = 4096;
        if let Items::Text(text, at) = self {
            let most = usize::try_from(n).unwrap_or(PIECE).min(PIECE);
            let rest = &text[*at..];
            let mut passed = 0;
            let bytes = rest.chars().take(most).inspect(|_| passed += 1).map(char::len_utf8).sum::<usize>();
            *at += bytes;
            return passed;
        }
        let Some(left) = self.remaining() else { return 0 };
        let n = n.min(left);
        match self {
            Items::List(_, at, _) | Items::Set(_, at, _) | Items::Dict(_, at, _) => *at += n as usize,
            Items::Range(range) => {
                let start = i128::from(range.start) + i128::from(n);
                match i64::try_from(start) {
                    Ok(start) => range.start = start,
                    Err(_) => *range = NOTHING,
                }
            }
            _ => {}
        }
        n
    }

    /// Drops all but the first `n` items.
    pub(super) fn truncate(&mut self, n: u64) {
        let places = usize::try_from(n).unwrap_or(usize::MAX);
        match self {
            Items::List(_, at, end) | Items::Set(_, at, end) | Items::Dict(_, at, end) => {
                *end = (*end).min(at.saturating_add(places));
            }
            Items::Range(range) if n < range.len() => {
                let last = i128::from(range.start) + i128::from(n) - 1;
                match i64::try_from(last) {
                    Ok(last) => range.end = last,
                    Err(_) => *range = NOTHING,
                }
            }
            _ => {}
        }
    }
}

#[inline(always)]
fn step(at: &mut usize, end: usize, item: impl FnOnce(usize) -> Option<Value>) -> Option<Value> {
    if *at >= end {
        return None;
    }
    *at += 1;
    item(*at - 1)
}

/// A source that is moved out of its iterator during a wait; it is returned when the wait ends or is
/// dropped.
pub(super) struct Loan<'a> {
    iter: &'a Iter,
    source: Items,
}

impl<'a> Loan<'a> {
    pub(super) fn of(iter: &'a Iter) -> Loan<'a> {
        let source = std::mem::replace(&mut iter.state().body.borrow_mut().items, Items::OnLoan);
        Loan { iter, source }
    }

    pub(super) async fn next(&mut self, cx: &Cx) -> Result<Option<Value>> {
        match &mut self.source {
            Items::Source(source) => source.next(cx).await,
            Items::OnLoan => Err(super::already_advanced()),
            _ => Ok(None),
        }
    }

    /// Drops a source that has failed.
    pub(super) fn forget(&mut self) {
        self.source = Items::Done;
    }
}

impl Drop for Loan<'_> {
    fn drop(&mut self) {
        let source = std::mem::replace(&mut self.source, Items::Done);
        let mut body = self.iter.state().body.borrow_mut();
        if matches!(body.items, Items::OnLoan) {
            body.items = source;
        }
    }
}

thread_local! {
    static NESTED: Cell<u32> = const { Cell::new(0) };
}

/// Maximum nesting depth of futures of sources over sources.
const MAX_NESTED: u32 = 1000;

/// A future that may poll nested futures of this type; fails beyond the maximum depth.
pub(super) struct Nested<'a>(Pin<Box<dyn Future<Output = Result<Value>> + 'a>>);

impl<'a> Nested<'a> {
    pub(super) fn new(future: Pin<Box<dyn Future<Output = Result<Value>> + 'a>>) -> Nested<'a> {
        Nested(future)
    }
}

impl Future for Nested<'_> {
    type Output = Result<Value>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<Value>> {
        let depth = NESTED.get();
        if depth >= MAX_NESTED {
            return Poll::Ready(Err(Error::runtime(format!(
                "iterators that wait are nested more than {MAX_NESTED} deep"
            ))));
        }
        NESTED.set(depth + 1);
        let polled = stacker::maybe_grow(64 * 1024, 2 * 1024 * 1024, || self.0.as_mut().poll(context));
        NESTED.set(depth);
        polled
    }
}
