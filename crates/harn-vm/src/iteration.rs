//! Slow paths of `IterPrep`, `IterNext` and `ListSpread`: loops over values other than lists, and the items that a
//! spread adds.
//!
//! The safety of the `unsafe` blocks follows from the invariants at the top of `interp.rs`.

use harn_value::{Range, Str, Value, View};

use crate::call_loop::CallLoop;
use crate::error::{Error, Result};
use crate::fiber::Fiber;
use crate::generator::Generator;
use crate::iter::Iter;

/// How a loop continues.
pub(crate) enum Next {
    Item,
    End,
    Generator(Value),
    /// This returns the item, [`Value::ABSENT`] at the end.
    Pull(CallLoop),
}

impl Fiber {
    /// Stores the next item of a loop over anything but a list in register `a + 2`.
    #[inline(never)]
    pub(crate) fn next_item(&mut self, regs: *mut Value, a: usize, pairs: bool) -> Result<Next> {
        // SAFETY: the loop state is in the frame.
        let (source, position, item) =
            unsafe { (&*regs.add(a), &mut *regs.add(a + 1), &mut *regs.add(a + 2)) };
        let at = position.int_bits();
        let next = match source.view() {
            View::Range(r) => match r.start.checked_add(at).filter(|i| r.contains(*i)) {
                Some(i) => Value::int(i),
                None => return Ok(Next::End),
            },
            View::Set(items) => match items.nth(at as usize) {
                Some(v) => v.clone(),
                None => return Ok(Next::End),
            },
            View::Dict(d) => match d.nth(at as usize) {
                Some((k, v)) if pairs => Value::pair(k.into(), v.clone()),
                Some((k, v)) => {
                    let mut entry = harn_value::Dict::with_capacity(2);
                    entry.insert("key", k);
                    entry.insert("value", v.clone());
                    Value::dict(entry)
                }
                None => return Ok(Next::End),
            },
            View::Str(text) => match text.as_str().get(at as usize..).and_then(|t| t.chars().next()) {
                Some(c) => {
                    position.set_int(at + c.len_utf8() as i64);
                    item.put(Str::from_char(c).into());
                    return Ok(Next::Item);
                }
                None => return Ok(Next::End),
            },
            View::Foreign(_) => {
                if source.downcast::<Generator>().is_some() {
                    return Ok(Next::Generator(source.clone()));
                }
                let Ok(iter) = Iter::over(source) else { return Ok(Next::End) };
                match iter.try_next()? {
                    Some(Some(v)) => v,
                    Some(None) => return Ok(Next::End),
                    None => {
                        let pull = CallLoop::first(iter, |item| item.unwrap_or(Value::ABSENT));
                        return Ok(Next::Pull(pull));
                    }
                }
            }
            _ => return Ok(Next::End),
        };
        position.set_int(at + 1);
        item.put(next);
        Ok(Next::Item)
    }
}

/// Converts the value of a `for` to loop state.
pub(crate) fn prepare_iteration(v: &mut Value) -> Result<()> {
    match v.view() {
        View::List(_) | View::Set(_) | View::Dict(_) | View::Range(_) | View::Str(_) => Ok(()),
        View::Nil => {
            v.put(Value::list(Vec::new()));
            Ok(())
        }
        View::Foreign(_) if v.downcast::<Generator>().is_some() || Iter::is(v) => Ok(()),
        View::Foreign(_) => match Iter::over(v) {
            Ok(iter) => {
                v.put(iter.into_value());
                Ok(())
            }
            Err(_) => Err(Error::type_error(format!("cannot iterate over {}", v.type_name()))),
        },
        _ => Err(Error::type_error(format!("cannot iterate over {}", v.type_name()))),
    }
}

pub(crate) enum Spread {
    Items(Vec<Value>),
    Iter(Iter),
    No,
}

/// Returns the items that `...v` adds to a list.
pub(crate) fn spread_items(v: &Value) -> Spread {
    match v.view() {
        View::List(items) => Spread::Items(items.to_vec()),
        View::Set(items) => Spread::Items(items.iter().cloned().collect()),
        View::Range(r) => match i64::try_from(r.len()) {
            Ok(len) if len < 1 << 20 => {
                let r: Range = **r;
                Spread::Items((0..len).map(|i| Value::int(r.start + i)).collect())
            }
            _ => Iter::over(v).map_or(Spread::No, Spread::Iter),
        },
        View::Foreign(_) => Iter::over(v).map_or(Spread::No, Spread::Iter),
        _ => Spread::No,
    }
}
