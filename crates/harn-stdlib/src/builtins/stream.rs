//! The namespace `stream`: operators on iterable values. They return lazy iterators; the sinks `collect`, `fold` and
//! `first` return values.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use harn_value::{Value, View};
use harn_vm::builtin::Rest;
use harn_vm::closure::is_callable;
use harn_vm::iter::drain::room_for_one;
use harn_vm::iter::{Iter, Lanes, Source, Stage};
use harn_vm::{CallLoop, Error, Result, builtins};

use crate::args::{Given, size};
use crate::methods::Reduce;
use crate::streams::{Broadcast, Debounce, Merge, Rotate, Throttle};

builtins! {
    /// Stream operators.
    pub(crate) static STREAM: "streams";

    /// Returns an iterator over `f(item)`.
    ///
    /// ```harn
    /// println(stream.map([1, 2], { x -> x * 2 }).to_list()) // -> [2, 4]
    /// ```
    Pure fn map = "stream.map"(cx, source: Given, f: Given) -> "iter" {
        let (items, f) = (over("stream.map", source)?, function("stream.map", 2, f)?);
        items.then(Stage::Map(f)).into_value()
    }

    /// Returns an iterator over the items for which `f` holds.
    ///
    /// ```harn
    /// println(stream.filter(range(6), { x -> x % 2 == 0 }).to_list()) // -> [0, 2, 4]
    /// ```
    Pure fn filter = "stream.filter"(cx, source: Given, f: Given) -> "iter" {
        let (items, f) = (over("stream.filter", source)?, function("stream.filter", 2, f)?);
        items.then(Stage::Filter(f)).into_value()
    }

    /// Returns an iterator that calls `f(item)` for its side effect and yields the item.
    ///
    /// ```harn
    /// println(stream.tap([1, 2], { x -> print(x) }).to_list()) // -> 12[1, 2]
    /// ```
    Pure fn tap = "stream.tap"(cx, source: Given, f: Given) -> "iter" {
        let (items, f) = (over("stream.tap", source)?, function("stream.tap", 2, f)?);
        items.then(Stage::Tap(f)).into_value()
    }

    /// Returns an iterator over the accumulator after every item: `acc = f(acc, item)`.
    ///
    /// ```harn
    /// println(stream.scan([1, 2, 3], 0, { acc, x -> acc + x }).to_list()) // -> [1, 3, 6]
    /// ```
    Pure fn scan = "stream.scan"(cx, source: Given, init: Given, f: Given) -> "iter" {
        let items = over("stream.scan", source)?;
        let accumulator = present("stream.scan", 2, init)?;
        items.then(Stage::Scan { accumulator, f: function("stream.scan", 3, f)? }).into_value()
    }

    /// Combines all items: `f(accumulator, item)` for each, starting with `init`.
    ///
    /// ```harn
    /// println(stream.fold([1, 2, 3], 0, { acc, x -> acc + x })) // -> 6
    /// ```
    Pure loop fn fold = "stream.fold"(cx, source: Given, init: Given, f: Given) -> "any" {
        let items = over("stream.fold", source)?;
        let accumulator = present("stream.fold", 2, init)?;
        let f = function("stream.fold", 3, f)?;
        CallLoop::drain(items, f, Reduce { accumulator })
    }

    /// Collects all items in a list; more than `max` (10000) items are an error.
    ///
    /// The second argument is the maximum, or a dict `{max}`.
    ///
    /// ```harn
    /// println(stream.collect("abc")) // -> [a, b, c]
    /// println(try { stream.collect([1, 2, 3], 2) }) // -> Result.Err(Runtime error: stream.collect: max cap 2 exceeded)
    /// ```
    Pure loop fn collect = "stream.collect"(cx, source: Value, options: Value as "!int | {max?: int}?") -> "list" {
        let source = Iter::over(&source)?;
        let max = cap(&options)?;
        let step = move |out: &mut Vec<Value>, item| {
            if out.len() >= max {
                return Err(Error::runtime(format!("stream.collect: max cap {max} exceeded")));
            }
            room_for_one(out.len(), out.capacity())?;
            out.push(item);
            Ok(())
        };
        CallLoop::fold(source, Vec::new(), step, Value::list)
    }

    /// Returns the first item, or nil if the source is empty.
    ///
    /// ```harn
    /// println([stream.first([7, 8]), stream.first([])]) // -> [7, nil]
    /// ```
    Pure loop fn first = "stream.first"(cx, source: Given) -> "any" {
        CallLoop::first(over("stream.first", source)?, Value::from)
    }

    /// Returns an iterator over the first `n` items.
    ///
    /// ```harn
    /// println(stream.take(1 to 1000000, 2).to_list()) // -> [1, 2]
    /// ```
    Pure fn take = "stream.take"(cx, source: Given, n: Given) -> "iter" {
        let items = over("stream.take", source)?;
        let n = present("stream.take", 2, n)?;
        let left = n.as_int().and_then(|n| u64::try_from(n).ok());
        let left = left.ok_or_else(|| wrong("stream.take", 2, "be a non-negative int", &n))?;
        items.then(Stage::Take(left)).into_value()
    }

    /// Returns an iterator over the items before the first for which `f` holds.
    ///
    /// ```harn
    /// println(stream.take_until([1, 2, 3, 1], { x -> x > 2 }).to_list()) // -> [1, 2]
    /// ```
    Pure fn take_until = "stream.take_until"(cx, source: Given, f: Given) -> "iter" {
        let (items, f) = (over("stream.take_until", source)?, function("stream.take_until", 2, f)?);
        items.then(Stage::TakeWhile { f, until: true, done: false }).into_value()
    }

    /// Returns an iterator over pairs of items, until the shorter ends.
    ///
    /// ```harn
    /// println(stream.zip([1, 2], "ab").to_list()) // -> [(1, a), (2, b)]
    /// ```
    Pure fn zip = "stream.zip"(cx, a: Given, b: Given) -> "iter" {
        let items = over("stream.zip", a)?;
        let other = Iter::over(&present("stream.zip", 2, b)?)?;
        items.then(Stage::Zip { other, first: None }).into_value()
    }

    /// Returns an iterator over the items of all sources, in the order of their arrival, with fair
    /// rotation.
    ///
    /// A source without a pending item does not block the others.
    ///
    /// ```harn
    /// println(stream.merge([1, 3], [2, 4]).to_list()) // -> [1, 2, 3, 4]
    /// ```
    Pure fn merge = "stream.merge"(cx, sources: Rest) -> "iter" {
        lazy(Merge { lanes: lanes("stream.merge", &sources)?, race: false })
    }

    /// Returns an iterator that takes one item of every source in turn, waiting for each.
    ///
    /// ```harn
    /// println(stream.interleave([1, 2, 3], "a").to_list()) // -> [1, a, 2, 3]
    /// ```
    Pure fn interleave = "stream.interleave"(cx, sources: Rest) -> "iter" {
        let sources = all("stream.interleave", 2, "at least two streams", &sources)?;
        lazy(Rotate { sources })
    }

    /// Returns an iterator over all items of the source that yields an item first.
    ///
    /// All sources are awaited concurrently; the cleanup blocks of the other sources run when the
    /// first source is known.
    ///
    /// ```harn
    /// println(stream.race([], [1, 2], [3]).to_list()) // -> [1, 2]
    /// ```
    Pure fn race = "stream.race"(cx, sources: Rest) -> "iter" {
        lazy(Merge { lanes: lanes("stream.race", &sources)?, race: true })
    }

    /// Returns a list of `n` iterators, each of which yields every item.
    ///
    /// ```harn
    /// let both = stream.broadcast(iter([1, 2]), 2)
    /// println([both[0].to_list(), both[1].to_list()]) // -> [[1, 2], [1, 2]]
    /// ```
    Pure fn broadcast = "stream.broadcast"(cx, source: Given, n: Given) -> "list" {
        let items = over("stream.broadcast", source)?;
        let n = present("stream.broadcast", 2, n)?;
        let count = n.as_int().filter(|n| *n > 0).map(size);
        let count = count.ok_or_else(|| wrong("stream.broadcast", 2, "be a positive int", &n))?;
        crate::args::room_for(count)?;
        Broadcast::split(items, count).into_iter().map(lazy).collect::<Vec<_>>()
    }

    /// Returns an iterator that yields at most `per_second` items per second.
    ///
    /// ```harn
    /// println(stream.throttle([1, 2], 1000).to_list()) // -> [1, 2]
    /// ```
    Clock fn throttle = "stream.throttle"(cx, source: Given, per_second: Given) -> "iter" {
        let items = over("stream.throttle", source)?;
        let rate = present("stream.throttle", 2, per_second)?;
        let Some(per_second) = rate.as_number() else {
            return Err(wrong("stream.throttle", 2, "be a positive number", &rate));
        };
        if !(per_second > 0.0 && per_second.is_finite()) {
            return Err(Error::type_error("stream.throttle: argument 2 must be a positive finite number"));
        }
        let gap = Duration::from_millis((1000.0 / per_second).ceil().min(1e12) as u64);
        lazy(Throttle::new(items, gap))
    }

    /// Returns an iterator that waits `window_ms` after an item and yields only the latest item
    /// received.
    ///
    /// ```harn
    /// println(stream.debounce([1, 2, 3], 0).to_list()) // -> [3]
    /// ```
    Clock fn debounce = "stream.debounce"(cx, source: Given, window_ms: Given as "duration | int | float") -> "iter" {
        let items = over("stream.debounce", source)?;
        let window = present("stream.debounce", 2, window_ms)?;
        let window = match window.view() {
            View::Int(ms) | View::Duration(ms) if ms >= 0 => ms.unsigned_abs(),
            View::Float(ms) if ms.is_finite() && ms >= 0.0 => ms as u64,
            View::Int(_) | View::Duration(_) | View::Float(_) => {
                let text = "stream.debounce: argument 2 must be finite and not negative";
                return Err(Error::runtime(text));
            }
            _ => return Err(wrong("stream.debounce", 2, "be a duration or a number of milliseconds", &window)),
        };
        lazy(Debounce::new(items, Duration::from_millis(window)))
    }
}

fn lazy(source: impl Source + 'static) -> Value {
    Iter::from_source(source).into_value()
}

fn present(name: &str, place: usize, value: Given) -> Result<Value> {
    value.0.ok_or_else(|| Error::type_error(format!("{name}: missing argument {place}")))
}

fn wrong(name: &str, place: usize, must: &str, got: &Value) -> Error {
    let got = got.type_name();
    Error::type_error(format!("{name}: argument {place} must {must}, got {got}"))
}

fn over(name: &str, source: Given) -> Result<Iter> {
    Iter::over(&present(name, 1, source)?)
}

fn function(name: &str, place: usize, f: Given) -> Result<Value> {
    let f = present(name, place, f)?;
    if is_callable(&f) { Ok(f) } else { Err(wrong(name, place, "be callable", &f)) }
}

fn all(name: &str, least: usize, expected: &str, sources: &Rest) -> Result<VecDeque<Iter>> {
    if sources.0.len() < least {
        return Err(Error::type_error(format!("{name}: expected {expected}")));
    }
    sources.0.iter().map(Iter::over).collect()
}

/// As [`all`], but ignores repeated sources: an iterator or a generator that is passed twice would be awaited
/// concurrently with itself.
fn lanes(name: &str, sources: &Rest) -> Result<Lanes> {
    let all = all(name, 1, "at least one stream", sources)?;
    let mut known = HashSet::new();
    let first = all
        .into_iter()
        .zip(&sources.0)
        .filter(|(_, value)| value.as_foreign().is_none_or(|source| known.insert(source.address())));
    Ok(Lanes::new(first.map(|(iter, _)| iter)))
}

fn cap(options: &Value) -> Result<usize> {
    const DEFAULT: i64 = 10_000;
    let max = match options.view() {
        View::Nil => Value::int(DEFAULT),
        View::Int(_) => options.clone(),
        View::Dict(dict) => dict.get_str("max").cloned().unwrap_or(Value::int(DEFAULT)),
        _ => {
            let got = options.type_name();
            let text = format!("stream.collect: second argument must be max int or options dict, got {got}");
            return Err(Error::type_error(text));
        }
    };
    max.as_int().and_then(|max| usize::try_from(max).ok()).ok_or_else(|| {
        let got = max.type_name();
        Error::type_error(format!("stream.collect: max must be a non-negative int, got {got}"))
    })
}
