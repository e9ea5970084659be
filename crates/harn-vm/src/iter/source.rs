//! Where the items of an iterator come from.

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

/// A source that waits, or has other rules than "one item after the other".
pub trait Source {
    /// The next item if it can be had without calling closures or waiting: `Some(None)` at the end,
    /// `None` when [`Source::next`] must be used.
    ///
    /// # Errors
    /// What the source throws.
    fn try_next(&mut self) -> Result<Option<Option<Value>>> {
        Ok(None)
    }

    /// The next item. A future that is dropped half-way must lose no item.
    fn next<'a>(&'a mut self, cx: &'a Cx) -> NextFuture<'a>;

    /// A loop over it was left: what works for it need not go on.
    fn left(&mut self) {}

    /// Visits the values that the source holds, as [`Foreign::trace`](harn_value::Foreign::trace) does.
    fn trace(&self, visit: &mut dyn FnMut(&Value)) {
        let _ = visit;
    }
}

/// Items of a value that is at hand, or of something that is pulled.
pub(super) enum Items {
    /// The list, the next place, and the place behind the last one.
    List(Ref<List>, usize, usize),
    Set(Ref<Set>, usize, usize),
    /// Pairs `(key, value)` in key order.
    Dict(Ref<Dict>, usize, usize),
    /// The text and the byte offset of the next character.
    Text(Str, usize),
    Range(Range),
    Generator(Value),
    /// An iterator that somebody else holds, too.
    Shared(Iter),
    Source(Box<dyn Source>),
    /// A source that is waited for: it is with the future that waits.
    OnLoan,
    Done,
}

/// Shows a reference as the value that it is.
fn lend<T>(held: &Ref<T>, visit: &mut dyn FnMut(&Value))
where
    Value: From<Ref<T>>,
{
    // SAFETY: the copy is not dropped, so the count stays what it is.
    visit(&ManuallyDrop::new(Value::from(unsafe { std::ptr::read(held) })));
}

const NOTHING: Range = Range { start: 1, end: 0, exclusive: false };

impl Items {
    pub(super) fn range(range: Range) -> Items {
        // With the end inside, `start` can always move on by one.
        Items::Range(range.last().map_or(NOTHING, |end| Range { start: range.start, end, exclusive: false }))
    }

    /// The next item of a value that is at hand; `None` for what must be pulled.
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

    /// Visits the values that are held.
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

    /// Whether items lie in memory, so that places can be passed over without a look.
    pub(super) fn is_indexed(&self) -> bool {
        self.remaining().is_some()
    }

    /// How many items are left, when that is known.
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

    /// Passes over up to `n` items; says over how many. Text is passed over in pieces.
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

    /// Leaves out all but the first `n` items.
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

/// A source taken out of its iterator while it is waited for; comes back when the wait ends or is given up.
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

    /// The source has failed and is not needed any more.
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

/// Futures of sources over sources over ... may nest this deep.
const MAX_NESTED: u32 = 1000;

/// A future that may poll others of its kind; refuses to nest without bound.
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
