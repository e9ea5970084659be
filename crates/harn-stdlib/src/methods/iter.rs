//! Methods of iterators. A combinator gives a new iterator over the same source and runs nothing; a
//! sink pulls.

use std::cmp::Ordering;
use std::collections::VecDeque;

use harn_value::{Dict, Set, Value, compare};
use harn_vm::iter::{Iter, Source};
use harn_vm::{Cx, Error, Result, builtins};

use crate::args::{Given, Items, callable};
use crate::iterators::{
    Chain, Chunks, Enumerate, Filter, FlatMap, Map, Pull, Skip, SkipWhile, Take, TakeWhile, Windows, Zip,
    add, drain, step,
};

builtins! {
    /// Lazy combinators of iterators.
    pub(crate) static COMBINATORS: "iter";

    /// Makes an iterator over `f(item)`.
    ///
    /// ```harn
    /// println(iter([1, 2]).map({ x -> x * 10 }).to_list()) // -> [10, 20]
    /// ```
    Pure fn map(cx, this: Items, f: Value) -> "iter" {
        callable("iter.map", &f)?;
        lazy(Map { items: this.0, f })
    }

    /// Makes an iterator over the items for which `f` holds.
    ///
    /// ```harn
    /// println(range(6).filter({ x -> x % 2 == 0 }).to_list()) // -> [0, 2, 4]
    /// ```
    Pure fn filter(cx, this: Items, f: Value) -> "iter" {
        callable("iter.filter", &f)?;
        lazy(Filter { items: this.0, f })
    }

    /// Makes an iterator over the items of what `f` gives, which must be iterable.
    ///
    /// ```harn
    /// println(iter([1, 2]).flat_map({ x -> [x, x] }).to_list()) // -> [1, 1, 2, 2]
    /// ```
    Pure fn flat_map(cx, this: Items, f: Value) -> "iter" {
        callable("iter.flat_map", &f)?;
        lazy(FlatMap { items: this.0, f, inner: None })
    }

    /// Makes an iterator over the first `n` items.
    ///
    /// ```harn
    /// println((1 to 10000000).map({ x -> x * x }).take(3).to_list()) // -> [1, 4, 9]
    /// ```
    Pure fn take(cx, this: Items, n: Value) -> "iter" {
        lazy(Take { left: count_arg("iter.take", &n)?, items: this.0 })
    }

    /// Makes an iterator over the items after the first `n`.
    ///
    /// ```harn
    /// println(range(5).skip(3).to_list()) // -> [3, 4]
    /// ```
    Pure fn skip(cx, this: Items, n: Value) -> "iter" {
        lazy(Skip { left: count_arg("iter.skip", &n)?, items: this.0 })
    }

    /// Makes an iterator over the items up to the first for which `f` does not hold.
    ///
    /// That item is consumed.
    ///
    /// ```harn
    /// println(iter([1, 2, 9, 1]).take_while({ x -> x < 5 }).to_list()) // -> [1, 2]
    /// ```
    Pure fn take_while(cx, this: Items, f: Value) -> "iter" {
        callable("iter.take_while", &f)?;
        lazy(TakeWhile { items: this.0, f, until: false, done: false })
    }

    /// Makes an iterator over the items from the first for which `f` does not hold.
    ///
    /// ```harn
    /// println(iter([1, 2, 9, 1]).skip_while({ x -> x < 5 }).to_list()) // -> [9, 1]
    /// ```
    Pure fn skip_while(cx, this: Items, f: Value) -> "iter" {
        callable("iter.skip_while", &f)?;
        lazy(SkipWhile { items: this.0, f, started: false })
    }

    /// Makes an iterator over pairs of items, until the shorter ends.
    ///
    /// ```harn
    /// println(iter([1, 2]).zip("abc").to_list()) // -> [(1, a), (2, b)]
    /// ```
    Pure fn zip(cx, this: Items, other: Given) -> "iter" {
        lazy(Zip { a: this.0, b: iterable("iter.zip", other)?, first: None })
    }

    /// Makes an iterator over the items of both.
    ///
    /// ```harn
    /// println(iter([1]).chain(range(2)).to_list()) // -> [1, 0, 1]
    /// ```
    Pure fn chain(cx, this: Items, other: Given) -> "iter" {
        lazy(Chain { parts: VecDeque::from([this.0, iterable("iter.chain", other)?]) })
    }

    /// Makes an iterator over pairs `(index, item)`.
    ///
    /// ```harn
    /// println(iter(["a", "b"]).enumerate().to_list()) // -> [(0, a), (1, b)]
    /// ```
    Pure fn enumerate(cx, this: Items) -> "iter" {
        lazy(Enumerate { items: this.0, index: 0 })
    }

    /// Makes an iterator over lists of `n` items; the last may be shorter.
    ///
    /// ```harn
    /// println(range(3).chunks(2).to_list()) // -> [[0, 1], [2]]
    /// ```
    Pure fn chunks(cx, this: Items, n: Value) -> "iter" {
        let size = positive(&n).ok_or_else(|| Error::type_error("iter.chunks: chunk size must be positive"))?;
        lazy(Chunks { items: this.0, size })
    }

    /// Makes an iterator over lists of `n` neighbours.
    ///
    /// ```harn
    /// println(range(4).windows(3).to_list()) // -> [[0, 1, 2], [1, 2, 3]]
    /// ```
    Pure fn windows(cx, this: Items, n: Value) -> "iter" {
        let size = positive(&n).ok_or_else(|| Error::type_error("iter.windows: window size must be positive"))?;
        lazy(Windows { items: this.0, size, window: VecDeque::new() })
    }

    /// Gives an iterator: itself, if it is one.
    ///
    /// ```harn
    /// println(range(3).iter().to_list()) // -> [0, 1, 2]
    /// ```
    Pure fn iter(cx, this: Items) -> "iter" {
        this.0.into_value()
    }
}

fn lazy(source: impl Source + 'static) -> Value {
    Iter::from_source(source).into_value()
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

    /// Gathers the remaining items in a list.
    ///
    /// ```harn
    /// println((1 to 3).to_list()) // -> [1, 2, 3]
    /// ```
    Pure async fn to_list(cx, this: Items) -> "list" {
        drain(&cx, &this.0).await?
    }

    /// Gathers the remaining items in a set.
    ///
    /// ```harn
    /// println(iter([1, 1, 2]).to_set()) // -> set(1, 2)
    /// ```
    Pure async fn to_set(cx, this: Items) -> "set" {
        drain(&cx, &this.0).await?.into_iter().collect::<Set>()
    }

    /// Gathers the remaining items, which must be pairs with string keys, in a dict.
    ///
    /// ```harn
    /// println(iter({a: 1, b: 2}).filter({ p -> p.second > 1 }).to_dict()) // -> {b: 2}
    /// ```
    Pure async fn to_dict(cx, this: Items) -> "dict" {
        let mut dict = Dict::new();
        let mut items = Pull::new(&this.0);
        while let Some(item) = items.next(&cx).await? {
            let Some(pair) = item.as_pair() else {
                return Err(unexpected("iter.to_dict: expected pair", &item));
            };
            let Some(key) = pair.first.as_str() else {
                return Err(unexpected("iter.to_dict: expected string key", &pair.first));
            };
            dict.insert(key.clone(), pair.second.clone());
        }
        dict
    }

    /// Pulls one item: `{done: false, value}`, or `{done: true, value: nil}` at the end.
    ///
    /// ```harn
    /// let it = iter([7])
    /// println([it.next(), it.next()]) // -> [{done: false, value: 7}, {done: true, value: nil}]
    /// ```
    Pure async fn next(cx, this: Items) -> "dict" {
        step(this.0.next(&cx).await?)
    }

    /// Counts the remaining items.
    ///
    /// ```harn
    /// println(iter("héy").count()) // -> 3
    /// ```
    Pure async fn count(cx, this: Items) -> "int" {
        count_items(&cx, &this.0).await?
    }

    /// Counts the remaining items: another name of `count`.
    ///
    /// ```harn
    /// println(iter([1, 2]).len()) // -> 2
    /// ```
    Pure async fn len(cx, this: Items) -> "int" {
        count_items(&cx, &this.0).await?
    }

    /// Pulls one item, nil when there is none.
    ///
    /// ```harn
    /// let it = iter([1, 2])
    /// println([it.first(), it.first(), it.first()]) // -> [1, 2, nil]
    /// ```
    Pure async fn first(cx, this: Items) -> "any" {
        this.0.next(&cx).await?
    }

    /// Gives the last of the remaining items, nil when there is none.
    ///
    /// ```harn
    /// println(iter([1, 2]).last()) // -> 2
    /// ```
    Pure async fn last(cx, this: Items) -> "any" {
        let mut last = None;
        let mut items = Pull::new(&this.0);
        while let Some(item) = items.next(&cx).await? {
            last = Some(item);
        }
        last
    }

    /// Adds up the remaining items, which must be numbers.
    ///
    /// ```harn
    /// println((1 to 100).sum()) // -> 5050
    /// ```
    Pure async fn sum(cx, this: Items) -> "any" {
        let mut sum = Value::int(0);
        let mut items = Pull::new(&this.0);
        while let Some(item) = items.next(&cx).await? {
            sum = add(&sum, &item)?;
        }
        sum
    }

    /// Gives the smallest of the remaining items, nil when there is none.
    ///
    /// ```harn
    /// println(iter([2, 1, 3]).min()) // -> 1
    /// ```
    Pure async fn min(cx, this: Items) -> "any" {
        best(&cx, &this.0, Ordering::Less).await?
    }

    /// Gives the largest of the remaining items, nil when there is none.
    ///
    /// ```harn
    /// println(iter([2, 1, 3]).max()) // -> 3
    /// ```
    Pure async fn max(cx, this: Items) -> "any" {
        best(&cx, &this.0, Ordering::Greater).await?
    }

    /// Combines the remaining items: `f(accumulator, item)` for each, starting with `init`.
    ///
    /// ```harn
    /// println((1 to 4).reduce(1, { product, x -> product * x })) // -> 24
    /// ```
    Pure async fn reduce(cx, this: Items, init: Given, f: Given) -> "any" {
        let (Some(init), Some(f)) = (init.0, f.0) else {
            return Err(Error::type_error("iter.reduce: expected (init, fn)"));
        };
        if !harn_vm::closure::is_callable(&f) {
            return Err(Error::type_error("iter.reduce: second arg must be callable"));
        }
        let mut accumulator = init;
        while let Some(item) = this.0.next(&cx).await? {
            accumulator = cx.call(&f, [accumulator, item]).await?;
        }
        accumulator
    }

    /// Says whether `f` holds for some item; stops there.
    ///
    /// ```harn
    /// println(range(10).any({ x -> x > 3 })) // -> true
    /// ```
    Pure async fn any(cx, this: Items, f: Value) -> "bool" {
        callable("iter.any", &f)?;
        search(&cx, &this.0, &f, true).await?.is_some()
    }

    /// Says whether `f` holds for all items; stops at the first for which it does not.
    ///
    /// ```harn
    /// println(range(10).all({ x -> x < 3 })) // -> false
    /// ```
    Pure async fn all(cx, this: Items, f: Value) -> "bool" {
        callable("iter.all", &f)?;
        search(&cx, &this.0, &f, false).await?.is_none()
    }

    /// Gives the first item for which `f` holds, nil when there is none; the rest stays.
    ///
    /// ```harn
    /// let it = iter([1, 2, 3])
    /// println([it.find({ x -> x > 1 }), it.to_list()]) // -> [2, [3]]
    /// ```
    Pure async fn find(cx, this: Items, f: Value) -> "any" {
        callable("iter.find", &f)?;
        search(&cx, &this.0, &f, true).await?
    }

    /// Calls `f` for every remaining item.
    ///
    /// ```harn
    /// range(2).for_each({ x -> print(x) }) // -> 01
    /// ```
    Pure async fn for_each(cx, this: Items, f: Value) -> "nil" {
        callable("iter.for_each", &f)?;
        while let Some(item) = this.0.next(&cx).await? {
            cx.call(&f, [item]).await?;
        }
    }
}

fn unexpected(what: &str, got: &Value) -> Error {
    Error::type_error(format!("{what}, got {}", got.type_name()))
}

async fn count_items(cx: &Cx, items: &Iter) -> Result<i64> {
    let mut count = 0;
    let mut items = Pull::new(items);
    while items.next(cx).await?.is_some() {
        count += 1;
    }
    Ok(count)
}

async fn best(cx: &Cx, items: &Iter, wanted: Ordering) -> Result<Option<Value>> {
    let mut best = None;
    let mut items = Pull::new(items);
    while let Some(item) = items.next(cx).await? {
        if best.as_ref().is_none_or(|best| compare(&item, best) == Some(wanted)) {
            best = Some(item);
        }
    }
    Ok(best)
}

/// The first item for which the truth of `f(item)` is `wanted`.
async fn search(cx: &Cx, items: &Iter, f: &Value, wanted: bool) -> Result<Option<Value>> {
    while let Some(item) = items.next(cx).await? {
        if cx.call(f, [item.clone()]).await?.truthy() == wanted {
            return Ok(Some(item));
        }
    }
    Ok(None)
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
    Pure async fn pull = "next"(cx, this: Items) -> "dict" {
        step(this.0.next(&cx).await?)
    }

    /// Makes an iterator over the remaining items.
    ///
    /// ```harn
    /// fn numbers() { yield 1; yield 2 }
    /// println(numbers().iter().map({ x -> x * 2 }).to_list()) // -> [2, 4]
    /// ```
    Pure fn over = "iter"(cx, this: Items) -> "iter" {
        this.0.into_value()
    }
}
