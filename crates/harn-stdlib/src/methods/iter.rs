//! Methods of iterators. A combinator returns a lazy iterator over the same source; a sink consumes the items.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::fmt::Display;

use harn_value::{Dict, Range, Set, Value};
use harn_vm::call_loop::Slots;
use harn_vm::iter::drain::{Flow, Sink};
use harn_vm::iter::{Iter, Stage};
use harn_vm::{CallLoop, Error, Result, builtins};

use crate::args::{Given, Items, callable};

builtins! {
    /// Lazy combinators of iterators.
    pub(crate) static COMBINATORS: "iter";

    /// Returns an iterator over `f(item)`.
    ///
    /// ```harn
    /// println(iter([1, 2]).map({ x -> x * 10 }).to_list()) // -> [10, 20]
    /// ```
    Pure fn map(cx, this: Items, f: Value as "!function(1)") -> "iter" {
        callable("iter.map", &f)?;
        this.0.then(Stage::Map(f)).into_value()
    }

    /// Returns an iterator over the items for which `f` holds.
    ///
    /// ```harn
    /// println(range(6).filter({ x -> x % 2 == 0 }).to_list()) // -> [0, 2, 4]
    /// ```
    Pure fn filter(cx, this: Items, f: Value as "!function(1)") -> "iter" {
        callable("iter.filter", &f)?;
        this.0.then(Stage::Filter(f)).into_value()
    }

    /// Returns an iterator over the items of the iterables that `f` returns.
    ///
    /// ```harn
    /// println(iter([1, 2]).flat_map({ x -> [x, x] }).to_list()) // -> [1, 1, 2, 2]
    /// ```
    Pure fn flat_map(cx, this: Items, f: Value as "!function(1)") -> "iter" {
        callable("iter.flat_map", &f)?;
        this.0.then(Stage::FlatMap { f, inner: None }).into_value()
    }

    /// Returns an iterator over the first `n` items.
    ///
    /// ```harn
    /// println((1 to 10000000).map({ x -> x * x }).take(3).to_list()) // -> [1, 4, 9]
    /// ```
    Pure fn take(cx, this: Items, n: Value as "!int") -> "iter" {
        this.0.then(Stage::Take(count_arg("iter.take", &n)?)).into_value()
    }

    /// Returns an iterator over the items after the first `n`.
    ///
    /// ```harn
    /// println(range(5).skip(3).to_list()) // -> [3, 4]
    /// ```
    Pure fn skip(cx, this: Items, n: Value as "!int") -> "iter" {
        this.0.then(Stage::Skip(count_arg("iter.skip", &n)?)).into_value()
    }

    /// Returns an iterator over the items up to the first for which `f` does not hold.
    ///
    /// That item is consumed.
    ///
    /// ```harn
    /// println(iter([1, 2, 9, 1]).take_while({ x -> x < 5 }).to_list()) // -> [1, 2]
    /// ```
    Pure fn take_while(cx, this: Items, f: Value as "!function(1)") -> "iter" {
        callable("iter.take_while", &f)?;
        this.0.then(Stage::TakeWhile { f, until: false, done: false }).into_value()
    }

    /// Returns an iterator over the items from the first for which `f` does not hold.
    ///
    /// ```harn
    /// println(iter([1, 2, 9, 1]).skip_while({ x -> x < 5 }).to_list()) // -> [9, 1]
    /// ```
    Pure fn skip_while(cx, this: Items, f: Value as "!function(1)") -> "iter" {
        callable("iter.skip_while", &f)?;
        this.0.then(Stage::SkipWhile { f, started: false }).into_value()
    }

    /// Returns an iterator over pairs of items, until the shorter ends.
    ///
    /// ```harn
    /// println(iter([1, 2]).zip("abc").to_list()) // -> [(1, a), (2, b)]
    /// ```
    Pure fn zip(cx, this: Items, other: Given) -> "iter" {
        this.0.then(Stage::Zip { other: iterable("iter.zip", other)?, first: None }).into_value()
    }

    /// Returns an iterator over the items of both.
    ///
    /// ```harn
    /// println(iter([1]).chain(range(2)).to_list()) // -> [1, 0, 1]
    /// ```
    Pure fn chain(cx, this: Items, other: Given) -> "iter" {
        this.0.chain(iterable("iter.chain", other)?).into_value()
    }

    /// Returns an iterator over pairs `(index, item)`.
    ///
    /// ```harn
    /// println(iter(["a", "b"]).enumerate().to_list()) // -> [(0, a), (1, b)]
    /// ```
    Pure fn enumerate(cx, this: Items) -> "iter" {
        this.0.then(Stage::Enumerate(0)).into_value()
    }

    /// Returns an iterator over lists of `n` items; the last may be shorter.
    ///
    /// ```harn
    /// println(range(3).chunks(2).to_list()) // -> [[0, 1], [2]]
    /// ```
    Pure fn chunks(cx, this: Items, n: Value as "!int") -> "iter" {
        let size = positive(&n).ok_or_else(|| Error::type_error("iter.chunks: chunk size must be positive"))?;
        this.0.then(Stage::Chunks { size, chunk: Vec::new(), done: false }).into_value()
    }

    /// Returns an iterator over the windows of `n` adjacent items, as lists.
    ///
    /// ```harn
    /// println(range(4).windows(3).to_list()) // -> [[0, 1, 2], [1, 2, 3]]
    /// ```
    Pure fn windows(cx, this: Items, n: Value as "!int") -> "iter" {
        let size = positive(&n).ok_or_else(|| Error::type_error("iter.windows: window size must be positive"))?;
        this.0.then(Stage::Windows { size, window: VecDeque::new() }).into_value()
    }

    /// Returns an iterator; an iterator is returned unchanged.
    ///
    /// ```harn
    /// println(range(3).iter().to_list()) // -> [0, 1, 2]
    /// ```
    Pure fn iter(cx, this: Items) -> "iter" {
        this.0.into_value()
    }
}

fn count_arg(method: &str, n: &Value) -> Result<u64> {
    let count = n.as_int().and_then(|n| u64::try_from(n).ok());
    count.ok_or_else(|| Error::type_error(format!("{method}: expected non-negative int")))
}

fn positive(n: &Value) -> Option<usize> {
    n.as_int().and_then(|n| usize::try_from(n).ok()).filter(|n| *n > 0)
}

fn iterable(method: &str, other: Given) -> Result<Iter> {
    match other.0 {
        Some(other) => Iter::over(&other),
        None => Err(Error::type_error(format!("{method}: expected iterable argument"))),
    }
}

builtins! {
    /// Sinks of iterators.
    pub(crate) static SINKS: "iter";

    /// Collects the remaining items in a list.
    ///
    /// ```harn
    /// println((1 to 3).to_list()) // -> [1, 2, 3]
    /// ```
    Pure loop fn to_list(cx, this: Items) -> "list" {
        CallLoop::collect(this.0, |items| Ok(Value::list(items)))
    }

    /// Collects the remaining items in a set.
    ///
    /// ```harn
    /// println(iter([1, 1, 2]).to_set()) // -> set(1, 2)
    /// ```
    Pure loop fn to_set(cx, this: Items) -> "set" {
        let step = |set: &mut Set, item| {
            set.insert(item);
            Ok(())
        };
        CallLoop::fold(this.0, Set::new(), step, Value::from)
    }

    /// Collects the remaining items, which must be pairs with string keys, in a dict.
    ///
    /// ```harn
    /// println(iter({a: 1, b: 2}).filter({ p -> p.second > 1 }).to_dict()) // -> {b: 2}
    /// ```
    Pure loop fn to_dict(cx, this: Items) -> "dict" {
        let step = |dict: &mut Dict, item: Value| {
            let Some(pair) = item.as_pair() else {
                return Err(unexpected("iter.to_dict: expected pair", &item));
            };
            let Some(key) = pair.first.as_str() else {
                return Err(unexpected("iter.to_dict: expected string key", &pair.first));
            };
            dict.insert(key.clone(), pair.second.clone());
            Ok(())
        };
        CallLoop::fold(this.0, Dict::new(), step, Value::from)
    }

    /// Pulls one item: `{done: false, value}`, or `{done: true, value: nil}` at the end.
    ///
    /// ```harn
    /// let it = iter([7])
    /// println([it.next(), it.next()]) // -> [{done: false, value: 7}, {done: true, value: nil}]
    /// ```
    Pure loop fn next(cx, this: Items) -> "dict" {
        CallLoop::first(this.0, step)
    }

    /// Counts the remaining items.
    ///
    /// ```harn
    /// println(iter("héy").count()) // -> 3
    /// ```
    Pure loop fn count(cx, this: Items) -> "int" {
        count_items(this.0)?
    }

    /// Counts the remaining items; an alias of `count`.
    ///
    /// ```harn
    /// println(iter([1, 2]).len()) // -> 2
    /// ```
    Pure loop fn len(cx, this: Items) -> "int" {
        count_items(this.0)?
    }

    /// Pulls one item; nil if the iterator is exhausted.
    ///
    /// ```harn
    /// let it = iter([1, 2])
    /// println([it.first(), it.first(), it.first()]) // -> [1, 2, nil]
    /// ```
    Pure loop fn first(cx, this: Items) -> "any" {
        CallLoop::first(this.0, Value::from)
    }

    /// Returns the last of the remaining items, or nil if the iterator is exhausted.
    ///
    /// ```harn
    /// println(iter([1, 2]).last()) // -> 2
    /// ```
    Pure loop fn last(cx, this: Items) -> "any" {
        this.0.skip_to_last();
        let step = |last: &mut Value, item| {
            last.put(item);
            Ok(())
        };
        CallLoop::fold(this.0, Value::NIL, step, |last| last)
    }

    /// Returns the sum of the remaining items, which must be numbers.
    ///
    /// ```harn
    /// println((1 to 100).sum()) // -> 5050
    /// ```
    Pure loop fn sum(cx, this: Items) -> "any" {
        if let Some(range) = this.0.take_range() {
            return range_sum(range).map(|sum| CallLoop::done(Value::int(sum)));
        }
        let step = |sum: &mut Value, item: Value| {
            *sum = add(sum, &item)?;
            Ok(())
        };
        CallLoop::fold(this.0, Value::int(0), step, |sum| sum)
    }

    /// Returns the smallest of the remaining items, or nil if the iterator is exhausted.
    ///
    /// ```harn
    /// println(iter([2, 1, 3]).min()) // -> 1
    /// ```
    Pure loop fn min(cx, this: Items) -> "any" {
        best(this.0, Ordering::Less)
    }

    /// Returns the largest of the remaining items, or nil if the iterator is exhausted.
    ///
    /// ```harn
    /// println(iter([2, 1, 3]).max()) // -> 3
    /// ```
    Pure loop fn max(cx, this: Items) -> "any" {
        best(this.0, Ordering::Greater)
    }

    /// Combines the remaining items: `f(accumulator, item)` for each, starting with `init`.
    ///
    /// ```harn
    /// println((1 to 4).reduce(1, { product, x -> product * x })) // -> 24
    /// ```
    Pure loop fn reduce(cx, this: Items, init: Given, f: Given as "function(2)") -> "any" {
        let (Some(init), Some(f)) = (init.0, f.0) else {
            return Err(Error::type_error("iter.reduce: expected (init, fn)"));
        };
        if !harn_vm::closure::acts_as_function(&f) {
            return Err(Error::type_error("iter.reduce: second arg must be callable"));
        }
        CallLoop::drain(this.0, f, Reduce { accumulator: init })
    }

    /// Returns whether `f` holds for any item; stops at the first such item.
    ///
    /// ```harn
    /// println(range(10).any({ x -> x > 3 })) // -> true
    /// ```
    Pure loop fn any(cx, this: Items, f: Value as "!function(1)") -> "bool" {
        callable("iter.any", &f)?;
        search(this.0, f, true, |found| found.is_some().into())
    }

    /// Returns whether `f` holds for all items; stops at the first item for which it does not.
    ///
    /// ```harn
    /// println(range(10).all({ x -> x < 3 })) // -> false
    /// ```
    Pure loop fn all(cx, this: Items, f: Value as "!function(1)") -> "bool" {
        callable("iter.all", &f)?;
        search(this.0, f, false, |found| found.is_none().into())
    }

    /// Returns the first item for which `f` holds, or nil if no item matches; later items remain.
    ///
    /// ```harn
    /// let it = iter([1, 2, 3])
    /// println([it.find({ x -> x > 1 }), it.to_list()]) // -> [2, [3]]
    /// ```
    Pure loop fn find(cx, this: Items, f: Value as "!function(1)") -> "any" {
        callable("iter.find", &f)?;
        search(this.0, f, true, Value::from)
    }

    /// Calls `f` for every remaining item.
    ///
    /// ```harn
    /// range(2).for_each({ x -> print(x) }) // -> 01
    /// ```
    Pure loop fn for_each(cx, this: Items, f: Value as "!function(1)") -> "nil" {
        callable("iter.for_each", &f)?;
        CallLoop::drain(this.0, f, ForEach)
    }
}

fn unexpected(what: &str, got: &Value) -> Error {
    Error::type_error(format!("{what}, got {}", got.type_name()))
}

/// Returns the dict `{done, value}` of `next()`.
fn step(item: Option<Value>) -> Value {
    let done = item.is_none();
    let entries = [("done", Value::bool(done)), ("value", item.unwrap_or_default())];
    Value::dict(entries.into_iter().collect())
}

fn count_items(items: Iter) -> Result<CallLoop> {
    if let Some(count) = items.count_at_once() {
        let count = i64::try_from(count);
        let count =
            count.map_err(|_| Error::runtime("Integer overflow: the items are more than an int can say"))?;
        return Ok(CallLoop::done(Value::int(count)));
    }
    let step = |count: &mut i64, _| {
        *count += 1;
        Ok(())
    };
    Ok(CallLoop::fold(items, 0, step, Value::int))
}

/// Returns the sum of a range, with the same result as adding its ints one by one.
///
/// # Errors
/// `Runtime error: Integer overflow: A + B`
fn range_sum(range: Range) -> Result<i64> {
    let Some(last) = range.last() else { return Ok(0) };
    let count = i128::from(last) - i128::from(range.start) + 1;
    // The sum of the first `n` ints; it decreases while they are negative, and then increases.
    let start = i128::from(range.start);
    let sum = |n: i128| (2 * start + n - 1).checked_mul(n).map(|twice| twice / 2);
    let fits = |n: i128| sum(n).is_some_and(|sum| i64::try_from(sum).is_ok());
    let turn = (-start).clamp(0, count);
    for (from, to) in [(0, turn), (turn, count)] {
        if fits(to) {
            continue;
        }
        // Binary search for the largest `n` whose sum fits.
        let (mut n, mut over) = (from, to);
        while over - n > 1 {
            let middle = n + (over - n) / 2;
            if fits(middle) { n = middle } else { over = middle }
        }
        return Err(overflow(sum(n).unwrap_or_default(), start + n));
    }
    Ok(sum(count).and_then(|sum| i64::try_from(sum).ok()).unwrap_or_default())
}

fn overflow(a: impl Display, b: impl Display) -> Error {
    Error::runtime(format!("Integer overflow: {a} + {b}"))
}

/// Adds a number to a sum.
///
/// # Errors
/// `Type error: iter.sum: expected number, got T`, `Runtime error: Integer overflow: A + B`
fn add(sum: &Value, item: &Value) -> Result<Value> {
    match (sum.as_int(), item.as_int()) {
        (Some(sum), Some(item)) => sum.checked_add(item).map(Value::int).ok_or_else(|| overflow(sum, item)),
        _ => match (sum.as_number(), item.as_number()) {
            (Some(sum), Some(item)) => Ok(Value::float(sum + item)),
            _ => Err(unexpected("iter.sum: expected number", item)),
        },
    }
}

fn best(items: Iter, wanted: Ordering) -> CallLoop {
    if let Some(range) = items.take_range() {
        let best = if wanted == Ordering::Less { Some(range.start) } else { range.last() };
        return CallLoop::done(best.into());
    }
    let step = move |best: &mut Option<Value>, item: Value| {
        if let Some(best) = best {
            crate::sorting::take_better(best, item, wanted)?;
        } else {
            *best = Some(item);
        }
        Ok(())
    };
    CallLoop::fold(items, None, step, Value::from)
}

/// `reduce` and `fold`: the result of each call is the first argument of the next.
pub(crate) struct Reduce {
    pub(crate) accumulator: Value,
}

impl Sink for Reduce {
    fn item(&mut self, item: Value, slots: &mut Slots) -> Result<Flow> {
        slots[0].put(self.accumulator.take());
        slots[1].put(item);
        Ok(Flow::Call(2))
    }

    fn answer(&mut self, answer: Value) -> Result<Flow> {
        self.accumulator.put(answer);
        Ok(Flow::More)
    }

    fn end(&mut self) -> Result<Value> {
        Ok(self.accumulator.take())
    }
}

/// Searches the first item for which the truthiness of `f(item)` is `wanted`.
struct Search<End> {
    wanted: bool,
    item: Value,
    end: End,
}

fn search(items: Iter, f: Value, wanted: bool, end: impl Fn(Option<Value>) -> Value + 'static) -> CallLoop {
    CallLoop::drain(items, f, Search { wanted, item: Value::NIL, end })
}

impl<End: Fn(Option<Value>) -> Value> Sink for Search<End> {
    fn item(&mut self, item: Value, slots: &mut Slots) -> Result<Flow> {
        slots[0].put(item.clone());
        self.item.put(item);
        Ok(Flow::Call(1))
    }

    fn answer(&mut self, answer: Value) -> Result<Flow> {
        if answer.truthy() == self.wanted {
            return Ok(Flow::Done((self.end)(Some(self.item.take()))));
        }
        Ok(Flow::More)
    }

    fn end(&mut self) -> Result<Value> {
        Ok((self.end)(None))
    }
}

struct ForEach;

impl Sink for ForEach {
    fn item(&mut self, item: Value, slots: &mut Slots) -> Result<Flow> {
        slots[0].put(item);
        Ok(Flow::Call(1))
    }

    fn end(&mut self) -> Result<Value> {
        Ok(Value::NIL)
    }
}

builtins! {
    /// Methods of generators, streams and channels.
    pub(crate) static PULL: "generator";

    /// Pulls one item: `{done: false, value}`, or `{done: true, value: nil}` at the end.
    ///
    /// ```harn
    /// fn numbers() { yield 1 }
    /// println(numbers().next()) // -> {done: false, value: 1}
    /// ```
    Pure loop fn pull = "next"(cx, this: Items) -> "dict" {
        CallLoop::first(this.0, step)
    }

    /// Returns an iterator over the remaining items.
    ///
    /// ```harn
    /// fn numbers() { yield 1; yield 2 }
    /// println(numbers().iter().map({ x -> x * 2 }).to_list()) // -> [2, 4]
    /// ```
    Pure fn over = "iter"(cx, this: Items) -> "iter" {
        this.0.into_value()
    }
}
