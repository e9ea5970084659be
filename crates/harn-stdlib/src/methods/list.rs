//! Methods of lists. No method changes its receiver: one that adds or removes items works in place only if the list has
//! no other reference.

use std::cmp::Ordering;
use std::ops::ControlFlow;

use harn_value::{Dict, Ref, Value, equal, steps};
use harn_vm::builtin::Text;
use harn_vm::call_loop::{CallLoop, Slots, Steps, Turn};
use harn_vm::{Result, builtins};

use crate::args::{Given, Int, callable, printed, room_for, size};
use crate::sequences::{self, Groups, splice};
use crate::sorting::{Comparing, add_number, extreme, sort, sort_keyed};
use crate::text;

type List = Ref<harn_value::List>;

builtins! {
    /// Methods of lists.
    pub(crate) static ACCESS: "list";

    /// Counts the items.
    ///
    /// ```harn
    /// println([1, nil].count()) // -> 2
    /// ```
    Pure fn count(cx, this: List) -> "int" {
        this.len()
    }

    /// Counts the items; an alias of `count`.
    ///
    /// ```harn
    /// println([].len()) // -> 0
    /// ```
    Pure fn len(cx, this: List) -> "int" {
        this.len()
    }

    /// Returns whether the list is empty.
    ///
    /// ```harn
    /// println([[].empty(), [nil].empty()]) // -> [true, false]
    /// ```
    Pure fn empty(cx, this: List) -> "bool" {
        this.is_empty()
    }

    /// Returns the first item, or nil if the list is empty; with a number, a list of that many
    /// items.
    ///
    /// ```harn
    /// println([[1, 2].first(), [1, 2].first(1), [].first()]) // -> [1, [1], nil]
    /// ```
    Pure fn first(cx, this: List, n: Int) -> "any" {
        match n.0 {
            Some(n) => Value::list(this[..size(n).min(this.len())].to_vec()),
            None => this.first().cloned().unwrap_or_default(),
        }
    }

    /// Returns the last item, or nil if the list is empty; with a number, a list of that many
    /// items.
    ///
    /// ```harn
    /// println([[1, 2].last(), [1, 2, 3].last(2)]) // -> [2, [2, 3]]
    /// ```
    Pure fn last(cx, this: List, n: Int) -> "any" {
        match n.0 {
            Some(n) => Value::list(this[this.len() - size(n).min(this.len())..].to_vec()),
            None => this.last().cloned().unwrap_or_default(),
        }
    }

    /// Returns whether any item is equal to `value`.
    ///
    /// ```harn
    /// println([1, 2].contains(2.0)) // -> true
    /// ```
    Pure fn contains(cx, this: List, value: Value) -> "bool" {
        steps::each(this.iter()).any(|item| equal(item, &value))
    }

    /// Returns the position of the first item equal to `value`, or -1 if no item is equal.
    ///
    /// ```harn
    /// println([["a", "b"].index_of("b"), [].index_of(1)]) // -> [1, -1]
    /// ```
    Pure fn index_of(cx, this: List, value: Value) -> "int" {
        position(steps::each(this.iter()).position(|item| equal(item, &value)))
    }

    /// Returns the items in ascending order, or in the order of a comparator or key function.
    ///
    /// A comparator takes two items and returns a negative number if the first comes first. A key function
    /// takes one item and returns the sort key. The sort is stable.
    ///
    /// ```harn
    /// println([3, 1, 2.5].sort()) // -> [1, 2.5, 3]
    /// println([1, 2, 3].sort({ a, b -> b - a })) // -> [3, 2, 1]
    /// println(["bb", "a"].sort({ s -> s.len() })) // -> [a, bb]
    /// ```
    Pure loop fn sort_ = "sort"(cx, this: List, f: Value as "function(2)?") -> "list" {
        match harn_vm::closure::parameter_count(&f) {
            None => {
                let mut this = this;
                sort(this.make_mut())?;
                CallLoop::done(this.into())
            }
            Some(count) if count > 1 => CallLoop::new(f, Comparing::new(this.to_vec())),
            Some(_) => keyed(f, this, sorted_by_key),
        }
    }

    /// Returns the smallest item, or nil if the list is empty; of equal items, the first.
    ///
    /// ```harn
    /// println([[3, 1].min(), [].min()]) // -> [1, nil]
    /// ```
    Pure fn min(cx, this: List) -> "any" {
        extreme(this.iter(), |v| v, Ordering::Less)?.cloned()
    }

    /// Returns the largest item, or nil if the list is empty; of equal items, the first.
    ///
    /// ```harn
    /// println(["b", "a"].max()) // -> b
    /// ```
    Pure fn max(cx, this: List) -> "any" {
        extreme(this.iter(), |v| v, Ordering::Greater)?.cloned()
    }

    /// Returns the sum of the numbers; other items are skipped.
    ///
    /// The sum is an int unless the list contains a float.
    ///
    /// ```harn
    /// println([[1, 2].sum(), [1, 0.5, "x"].sum(), [].sum()]) // -> [3, 1.5, 0]
    /// ```
    Pure fn sum(cx, this: List) -> "any" {
        total(&this)?
    }

    /// Returns the items in reverse order.
    ///
    /// ```harn
    /// println([1, 2].reverse()) // -> [2, 1]
    /// ```
    Pure fn reverse(cx, this: List) -> "list" {
        let mut this = this;
        steps::steps(this.len());
        this.make_mut().reverse();
        this
    }

    /// Replaces nested lists by their items, one level deep.
    ///
    /// ```harn
    /// println([1, [2, [3]]].flatten()) // -> [1, 2, [3]]
    /// ```
    Pure fn flatten(cx, this: List) -> "list" {
        sequences::flatten(&this)?
    }

    /// Joins the printed forms of the items.
    ///
    /// ```harn
    /// println([1, "a", nil].join("-")) // -> 1-a-nil
    /// ```
    Pure fn join(cx, this: List, separator: Text = "") -> "string" {
        text::join(this.iter(), &separator)?
    }

    /// Returns the list with `value` appended.
    ///
    /// The receiver does not change: write `xs = xs.push(v)`.
    ///
    /// ```harn
    /// let xs = [1]
    /// println([xs.push(2), xs]) // -> [[1, 2], [1]]
    /// ```
    Pure fn push(cx, this: List, value: Value) -> "list" {
        let mut this = this;
        if this.len() == this.capacity() && this.len() > 1 << 16 {
            room_for(this.len())?;
        }
        this.make_mut().push(value);
        this
    }

    /// Returns the list without its last item.
    ///
    /// ```harn
    /// println([[1, 2].pop(), [].pop()]) // -> [[1], []]
    /// ```
    Pure fn pop(cx, this: List) -> "list" {
        let mut this = this;
        if !this.is_empty() {
            this.make_mut().pop();
        }
        this
    }

    /// Returns the items from `start` to before `end`; negative positions count from the end.
    ///
    /// ```harn
    /// println([[1, 2, 3].slice(1), [1, 2, 3].slice(-2, -1), [1].slice(5)]) // -> [[2, 3], [2], []]
    /// ```
    Pure fn slice(cx, this: List, start: Int, end: Int) -> "list" {
        let len = this.len();
        let place = |n: i64| if n < 0 { len.saturating_sub(n.unsigned_abs() as usize) } else { size(n).min(len) };
        let (start, end) = (place(start.or(0)), place(end.or(i64::MAX)));
        part(this, start, end)
    }

    /// Returns the first `n` items.
    ///
    /// ```harn
    /// println([[1, 2, 3].take(2), [1].take()]) // -> [[1, 2], []]
    /// ```
    Pure fn take(cx, this: List, n: Int) -> "list" {
        part(this, 0, size(n.or(0)))
    }

    /// Returns the items after the first `n`.
    ///
    /// ```harn
    /// println([[1, 2, 3].skip(2), [1].skip()]) // -> [[3], [1]]
    /// ```
    Pure fn skip(cx, this: List, n: Int) -> "list" {
        part(this, size(n.or(0)), usize::MAX)
    }

    /// Removes duplicates, by structure and type; the first of equal items stays.
    ///
    /// ```harn
    /// println([1, 1.0, [2], [2], "1"].unique()) // -> [1, 1.0, [2], 1]
    /// ```
    Pure fn unique(cx, this: List) -> "list" {
        sequences::unique(&this)
    }

    /// Returns the items that are not nil.
    ///
    /// ```harn
    /// println([1, nil, false].compact()) // -> [1, false]
    /// ```
    Pure fn compact(cx, this: List) -> "list" {
        this.iter().filter(|item| !item.is_nil()).cloned().collect::<Vec<_>>()
    }

    /// Returns dicts `{index, value}`.
    ///
    /// The iterator method `enumerate` returns pairs instead.
    ///
    /// ```harn
    /// println(["a"].enumerate()) // -> [{index: 0, value: a}]
    /// ```
    Pure fn enumerate(cx, this: List) -> "list" {
        room_for(this.len().saturating_mul(8))?;
        let dict = |(index, value): (usize, &Value)| {
            let entries = [("index", Value::from(index)), ("value", value.clone())];
            Value::dict(entries.into_iter().collect())
        };
        steps::each(this.iter()).enumerate().map(dict).collect::<Vec<_>>()
    }

    /// Returns lists with one item from each of two lists, up to the length of the shorter list.
    ///
    /// ```harn
    /// println([1, 2].zip(["a", "b", "c"])) // -> [[1, a], [2, b]]
    /// ```
    Pure fn zip(cx, this: List, other: List) -> "list" {
        let both = |(a, b): (&Value, &Value)| Value::list(vec![a.clone(), b.clone()]);
        steps::each(this.iter()).zip(other.iter()).map(both).collect::<Vec<_>>()
    }

    /// Counts how often each item occurs, by printed form.
    ///
    /// ```harn
    /// println(["b", "a", "b"].tally()) // -> {a: 1, b: 2}
    /// ```
    Pure fn tally(cx, this: List) -> "dict" {
        let mut counts = Dict::new();
        for item in this.iter() {
            let count = counts.entry(&printed(item));
            *count = Value::int(count.as_int().unwrap_or(0) + 1);
        }
        counts
    }

    /// Returns an iterator over the items.
    ///
    /// ```harn
    /// println([1, 2].iter().map({ x -> x + 1 }).to_list()) // -> [2, 3]
    /// ```
    Pure fn iter(cx, this: Value) -> "iter" {
        cx.iter(&this)?.into_value()
    }
}

/// Returns the items in `start..end`, in place if the list has no other reference.
fn part(mut list: List, start: usize, end: usize) -> List {
    let end = end.min(list.len());
    let start = start.min(end);
    if let Some(items) = list.get_mut() {
        items.truncate(end);
        items.remove_front(start);
        return list;
    }
    Ref::new(list[start..end].to_vec().into())
}

/// Returns the position of a match, or -1.
fn position(found: Option<usize>) -> i64 {
    found.map_or(-1, |at| at as i64)
}

fn total(items: &[Value]) -> Result<Value> {
    let mut sum = Value::int(0);
    for item in steps::each(items) {
        sum = add_number(&sum, item)?;
    }
    Ok(sum)
}

builtins! {
    /// Methods of lists that take a function.
    pub(crate) static CALLBACKS: "list";

    /// Returns the results of `f` for all items.
    ///
    /// ```harn
    /// println([1, 2].map({ x -> x * 10 })) // -> [10, 20]
    /// ```
    Pure loop fn map(cx, this: List, f: Value as "!function(1)") -> "list" {
        callable("list.map", &f)?;
        let out = Vec::with_capacity(this.len());
        let step = |out: &mut Vec<Value>, _: &Value, reply| {
            out.push(reply);
            ControlFlow::Continue(())
        };
        CallLoop::over(f, this, out, step, Value::list)
    }

    /// Returns the items for which `f` holds.
    ///
    /// ```harn
    /// println([1, 2, 3].filter({ x -> x != 2 })) // -> [1, 3]
    /// ```
    Pure loop fn filter(cx, this: List, f: Value as "!function(1)") -> "list" {
        callable("list.filter", &f)?;
        let step = |out: &mut Vec<Value>, item: &Value, reply: Value| {
            if reply.truthy() {
                out.push(item.clone());
            }
            ControlFlow::Continue(())
        };
        CallLoop::over(f, this, Vec::new(), step, Value::list)
    }

    /// Calls `f` for every item and concatenates the returned lists; other results are appended
    /// unchanged.
    ///
    /// ```harn
    /// println([1, 2].flat_map({ x -> [x, x] })) // -> [1, 1, 2, 2]
    /// ```
    Pure loop fn flat_map(cx, this: List, f: Value as "!function(1)") -> "list" {
        callable("list.flat_map", &f)?;
        let step = |out: &mut Vec<Value>, _: &Value, reply| {
            splice(out, reply);
            ControlFlow::Continue(())
        };
        CallLoop::over(f, this, Vec::new(), step, Value::list)
    }

    /// Combines all items: `f(accumulator, item)` for each in order, starting with `init`.
    ///
    /// ```harn
    /// println([1, 2, 3].reduce(0, { sum, x -> sum + x })) // -> 6
    /// ```
    Pure loop fn reduce(cx, this: List, init: Value, f: Value as "!function(2)") -> "any" {
        callable("list.reduce", &f)?;
        CallLoop::new(f, Reduce { items: this, at: 0, init })
    }

    /// Returns the first item for which `f` holds, or nil if no item matches.
    ///
    /// ```harn
    /// println([1, 2, 3].find({ x -> x > 1 })) // -> 2
    /// ```
    Pure loop fn find(cx, this: List, f: Value as "!function(1)") -> "any" {
        callable("list.find", &f)?;
        search(f, this, true, |found| found.map(|(_, item)| item.clone()).into())
    }

    /// Returns the position of the first item for which `f` holds, or -1 if no item matches.
    ///
    /// ```harn
    /// println([1, 2, 3].find_index({ x -> x > 1 })) // -> 1
    /// ```
    Pure loop fn find_index(cx, this: List, f: Value as "!function(1)") -> "int" {
        callable("list.find_index", &f)?;
        search(f, this, true, |found| position(found.map(|(at, _)| at)).into())
    }

    /// Returns whether `f` holds for any item.
    ///
    /// ```harn
    /// println([[1, 2].any({ x -> x > 1 }), [].any({ x -> true })]) // -> [true, false]
    /// ```
    Pure loop fn any(cx, this: List, f: Value as "!function(1)") -> "bool" {
        callable("list.any", &f)?;
        search(f, this, true, |found| found.is_some().into())
    }

    /// Returns whether `f` holds for every item.
    ///
    /// ```harn
    /// println([[1, 2].all({ x -> x > 1 }), [].all({ x -> false })]) // -> [false, true]
    /// ```
    Pure loop fn all(cx, this: List, f: Value as "!function(1)") -> "bool" {
        callable("list.all", &f)?;
        search(f, this, false, |found| found.is_none().into())
    }

    /// Returns whether `f` holds for every item; an alias of `all`.
    ///
    /// ```harn
    /// println([2, 4].every({ x -> x % 2 == 0 })) // -> true
    /// ```
    Pure loop fn every(cx, this: List, f: Value as "!function(1)") -> "bool" {
        callable("list.every", &f)?;
        search(f, this, false, |found| found.is_none().into())
    }

    /// Returns whether `f` holds for no item; without `f`, whether the list is empty.
    ///
    /// ```harn
    /// println([[1, 2].none({ x -> x > 2 }), [1].none()]) // -> [true, false]
    /// ```
    Pure loop fn none(cx, this: List, f: Given as "function(1)?") -> "bool" {
        match f.0 {
            None => CallLoop::done(this.is_empty().into()),
            Some(f) => {
                callable("list.none", &f)?;
                search(f, this, true, |found| found.is_none().into())
            }
        }
    }

    /// Returns the items in ascending order of the results of `f`.
    ///
    /// The sort is stable, and `f` is called once per item.
    ///
    /// ```harn
    /// println(["ccc", "a", "bb"].sort_by({ s -> s.len() })) // -> [a, bb, ccc]
    /// ```
    Pure loop fn sort_by(cx, this: List, f: Value as "!function(1)") -> "list" {
        callable("list.sort_by", &f)?;
        keyed(f, this, sorted_by_key)
    }

    /// Returns the item with the smallest result of `f`, or nil if the list is empty.
    ///
    /// ```harn
    /// println(["bb", "a"].min_by({ s -> s.len() })) // -> a
    /// ```
    Pure loop fn min_by(cx, this: List, f: Value as "!function(1)") -> "any" {
        callable("list.min_by", &f)?;
        keyed(f, this, |keyed| Ok(extreme(&keyed, |(key, _)| key, Ordering::Less)?.map(|(_, item)| item.clone()).into()))
    }

    /// Returns the item with the largest result of `f`, or nil if the list is empty.
    ///
    /// ```harn
    /// println(["bb", "a"].max_by({ s -> s.len() })) // -> bb
    /// ```
    Pure loop fn max_by(cx, this: List, f: Value as "!function(1)") -> "any" {
        callable("list.max_by", &f)?;
        keyed(f, this, |keyed| Ok(extreme(&keyed, |(key, _)| key, Ordering::Greater)?.map(|(_, item)| item.clone()).into()))
    }

    /// Splits into two lists: the items for which `f` holds, and the others.
    ///
    /// ```harn
    /// println([1, 2, 3].partition({ x -> x > 1 })) // -> [[2, 3], [1]]
    /// ```
    Pure loop fn partition(cx, this: List, f: Value as "!function(1)") -> "list" {
        callable("list.partition", &f)?;
        let step = |(yes, no): &mut (Vec<Value>, Vec<Value>), item: &Value, reply: Value| {
            if reply.truthy() { yes } else { no }.push(item.clone());
            ControlFlow::Continue(())
        };
        let end = |(yes, no)| Value::list(vec![Value::list(yes), Value::list(no)]);
        CallLoop::over(f, this, Default::default(), step, end)
    }

    /// Groups the items by the printed form of the results of `f`.
    ///
    /// ```harn
    /// println([1, 2, 3].group_by({ x -> x % 2 == 0 })) // -> {false: [1, 3], true: [2]}
    /// ```
    Pure loop fn group_by(cx, this: List, f: Value as "!function(1)") -> "dict" {
        callable("list.group_by", &f)?;
        let step = |groups: &mut Groups, item: &Value, key: Value| {
            groups.add(&key, item.clone());
            ControlFlow::Continue(())
        };
        CallLoop::over(f, this, Groups::default(), step, |groups| groups.into_dict().into())
    }
}

/// `reduce`: the result of each call is the first argument of the next.
struct Reduce {
    items: List,
    at: usize,
    init: Value,
}

impl Steps for Reduce {
    fn next(&mut self, reply: Option<Value>, slots: &mut Slots) -> Result<Turn> {
        let accumulator = reply.unwrap_or_else(|| self.init.take());
        let Some(item) = self.items.get(self.at) else { return Ok(Turn::Done(accumulator)) };
        self.at += 1;
        *slots = [accumulator, item.clone()];
        Ok(Turn::Call(2))
    }
}

/// Searches the first item for which the truthiness of `f(item)` is `wanted`; `end` receives its position and the item.
fn search(
    f: Value,
    items: List,
    wanted: bool,
    end: impl Fn(Option<(usize, &Value)>) -> Value + Copy + 'static,
) -> CallLoop {
    let step = move |at: &mut usize, item: &Value, reply: Value| {
        if reply.truthy() == wanted {
            return ControlFlow::Break(end(Some((*at, item))));
        }
        *at += 1;
        ControlFlow::Continue(())
    };
    CallLoop::over(f, items, 0, step, move |_| end(None))
}

/// Pairs every item with the result of `f` as its key, and passes the pairs to `end`.
fn keyed(f: Value, items: List, end: fn(Vec<(Value, Value)>) -> Result<Value>) -> CallLoop {
    let keyed = Vec::with_capacity(items.len());
    CallLoop::new(f, Keyed { items, keyed, end })
}

struct Keyed {
    items: List,
    keyed: Vec<(Value, Value)>,
    end: fn(Vec<(Value, Value)>) -> Result<Value>,
}

impl Steps for Keyed {
    fn next(&mut self, reply: Option<Value>, slots: &mut Slots) -> Result<Turn> {
        if let (Some(key), Some(item)) = (reply, self.items.get(self.keyed.len())) {
            self.keyed.push((key, item.clone()));
        }
        match self.items.get(self.keyed.len()) {
            Some(item) => {
                slots[0].put(item.clone());
                Ok(Turn::Call(1))
            }
            None => (self.end)(std::mem::take(&mut self.keyed)).map(Turn::Done),
        }
    }
}

fn sorted_by_key(mut keyed: Vec<(Value, Value)>) -> Result<Value> {
    sort_keyed(&mut keyed, |(key, _)| key)?;
    Ok(Value::list(keyed.into_iter().map(|(_, item)| item).collect()))
}

builtins! {
    /// Methods that split lists into parts.
    pub(crate) static PIECES: "list";

    /// Splits the list into consecutive chunks; the last may be shorter.
    ///
    /// ```harn
    /// println([1, 2, 3].chunk(2)) // -> [[1, 2], [3]]
    /// ```
    Pure fn chunk(cx, this: List, n: Int) -> "list" {
        sequences::chunks(&this, n.positive_or(1))?
    }

    /// Splits the list into consecutive chunks; an alias of `chunk`.
    ///
    /// ```harn
    /// println([1, 2, 3].each_slice(2)) // -> [[1, 2], [3]]
    /// ```
    Pure fn each_slice(cx, this: List, n: Int) -> "list" {
        sequences::chunks(&this, n.positive_or(1))?
    }

    /// Returns the full windows of `n` items, at a distance of `step`.
    ///
    /// ```harn
    /// println([1, 2, 3].window(2)) // -> [[1, 2], [2, 3]]
    /// ```
    Pure fn window(cx, this: List, n: Int, step: Int) -> "list" {
        sequences::windows(&this, n.positive_or(2), step.positive_or(1))?
    }

    /// Returns the full windows of `n` items; an alias of `window`.
    ///
    /// ```harn
    /// println([1, 2, 3].each_cons(3)) // -> [[1, 2, 3]]
    /// ```
    Pure fn each_cons(cx, this: List, n: Int, step: Int) -> "list" {
        sequences::windows(&this, n.positive_or(2), step.positive_or(1))?
    }

    /// Returns the full windows of `n` items; an alias of `window`.
    ///
    /// ```harn
    /// println([1, 2, 3, 4].sliding_window(2, 2)) // -> [[1, 2], [3, 4]]
    /// ```
    Pure fn sliding_window(cx, this: List, n: Int, step: Int) -> "list" {
        sequences::windows(&this, n.positive_or(2), step.positive_or(1))?
    }
}
