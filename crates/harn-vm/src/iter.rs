//! Lazy single-pass iterators. Sources are pulled in place; combinators of other crates implement
//! [`Source`] and may call closures that await.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use harn_value::{Dict, Foreign, Range, Ref, Set, Str, Value, View};

use crate::cx::Cx;
use crate::error::{Error, Result};
use crate::generator::Generator;

/// The next item of a source that may have to wait for it.
pub type NextFuture<'a> = Pin<Box<dyn Future<Output = Result<Option<Value>>> + 'a>>;

/// Where the items of an iterator come from.
pub trait Source {
    /// The next item if it can be had without calling closures or waiting: `Some(None)` at the end,
    /// `None` when [`Source::next`] must be used.
    ///
    /// # Errors
    /// What the source throws.
    fn try_next(&mut self) -> Result<Option<Option<Value>>> {
        Ok(None)
    }

    /// The next item.
    fn next<'a>(&'a mut self, cx: &'a Cx) -> NextFuture<'a>;
}

/// Items of a value that is at hand.
enum Items {
    List(Ref<Vec<Value>>, usize),
    Set(Ref<Set>, usize),
    /// Pairs `(key, value)` in key order.
    Dict(Ref<Dict>, usize),
    Text(Str, usize),
    Range(Range),
    Generator(Value),
    /// Anything else that is pulled through the trait, such as a channel or a combinator.
    Source(Box<dyn Source>),
    Done,
}

struct State {
    items: RefCell<Items>,
    done: Cell<bool>,
}

/// An iterator: a shared position in a source. Clones see the same progress.
#[derive(Clone)]
pub struct Iter(Rc<State>);

impl Iter {
    fn new(items: Items) -> Iter {
        Iter(Rc::new(State { items: RefCell::new(items), done: Cell::new(false) }))
    }

    /// An iterator over a source of another crate.
    pub fn from_source(source: impl Source + 'static) -> Iter {
        Iter::new(Items::Source(Box::new(source)))
    }

    /// An iterator over any iterable value; an iterator itself is returned unchanged.
    ///
    /// # Errors
    /// `Type error: iter: value of type T is not iterable`
    pub fn over(value: &Value) -> Result<Iter> {
        Ok(match value.view() {
            View::List(items) => Iter::new(Items::List(items.clone(), 0)),
            View::Set(items) => Iter::new(Items::Set(items.clone(), 0)),
            View::Dict(items) => Iter::new(Items::Dict(items.clone(), 0)),
            View::Str(text) => Iter::new(Items::Text(text.clone(), 0)),
            View::Range(range) => Iter::new(Items::Range(**range)),
            View::Foreign(_) => {
                if let Some(iter) = value.downcast::<Iter>() {
                    iter.clone()
                } else if value.downcast::<Generator>().is_some() {
                    Iter::new(Items::Generator(value.clone()))
                } else if let Some(channel) = value.downcast::<crate::channel::Channel>() {
                    Iter::new(Items::Source(channel.source()))
                } else if let Some(stream) = value.downcast::<crate::channel::StreamValue>() {
                    stream.0.clone()
                } else {
                    return Err(not_iterable(value));
                }
            }
            _ => return Err(not_iterable(value)),
        })
    }

    /// As a value of the program.
    pub fn into_value(self) -> Value {
        Value::foreign(self)
    }

    /// Whether it is known to have no more items.
    pub fn is_done(&self) -> bool {
        self.0.done.get()
    }

    /// The next item without waiting or calling closures: `Some(None)` at the end, `None` when
    /// [`Iter::next`] must be used.
    ///
    /// # Errors
    /// What the source throws.
    #[inline]
    pub fn try_next(&self) -> Result<Option<Option<Value>>> {
        let Ok(mut items) = self.0.items.try_borrow_mut() else {
            return Err(Error::runtime("iterator is already being advanced"));
        };
        let item = match &mut *items {
            Items::List(list, at) => step(list.get(*at), at),
            Items::Set(set, at) => step(set.nth(*at), at),
            Items::Dict(dict, at) => match dict.nth(*at) {
                Some((key, value)) => {
                    *at += 1;
                    Some(Value::pair(key.into(), value.clone()))
                }
                None => None,
            },
            Items::Text(text, at) => match text[*at..].chars().next() {
                Some(c) => {
                    *at += c.len_utf8();
                    Some(Value::str(c.encode_utf8(&mut [0; 4])))
                }
                None => None,
            },
            Items::Range(range) => {
                if range.is_empty() {
                    None
                } else {
                    let item = range.start;
                    match range.start.checked_add(1) {
                        Some(next) => range.start = next,
                        None => *range = Range { start: 1, end: 0, exclusive: false },
                    }
                    Some(Value::int(item))
                }
            }
            Items::Generator(_) => return Ok(None),
            Items::Source(source) => match source.try_next() {
                Ok(Some(item)) => item,
                Ok(None) => return Ok(None),
                Err(error) => {
                    *items = Items::Done;
                    self.0.done.set(true);
                    return Err(error);
                }
            },
            Items::Done => None,
        };
        if item.is_none() {
            *items = Items::Done;
            self.0.done.set(true);
        }
        Ok(Some(item))
    }

    /// The next item; `None` at the end and ever after.
    ///
    /// # Errors
    /// What the source throws; the iterator is exhausted then.
    pub async fn next(&self, cx: &Cx) -> Result<Option<Value>> {
        if let Some(item) = self.try_next()? {
            return Ok(item);
        }
        // Taken out while it is pulled, so that a source that pulls itself gets an error, not a panic.
        let mut items = self.0.items.replace(Items::Done);
        let item = match &mut items {
            Items::Generator(generator) => {
                cx.resume(generator).await.map(|v| if v.is_absent() { None } else { Some(v) })
            }
            Items::Source(source) => source.next(cx).await,
            _ => Ok(None),
        };
        match &item {
            Ok(Some(_)) => {
                self.0.items.replace(items);
            }
            _ => self.0.done.set(true),
        }
        item
    }
}

#[inline(always)]
fn step(item: Option<&Value>, at: &mut usize) -> Option<Value> {
    *at += 1;
    item.cloned()
}

fn not_iterable(value: &Value) -> Error {
    Error::type_error(format!("iter: value of type {} is not iterable", value.type_name()))
}

impl Foreign for Iter {
    fn type_name(&self) -> &'static str {
        "iter"
    }

    fn print(&self, out: &mut String) {
        out.push_str(if self.is_done() { "<iter (exhausted)>" } else { "<iter>" });
    }

    fn equals(&self, other: &dyn Foreign) -> bool {
        let other: &dyn std::any::Any = other;
        other.downcast_ref::<Iter>().is_some_and(|other| Rc::ptr_eq(&self.0, &other.0))
    }
}
