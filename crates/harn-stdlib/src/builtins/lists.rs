//! Functions on lists and dicts. Most have a method of the same name; these take the collection first.

use harn_value::{Dict, List, Ref, Structural, Value};
use harn_vm::closure::acts_as_function;
use harn_vm::{Error, Result, builtins};

use crate::args::{Given, Int};
use crate::sequences::{self, Groups, Seen, splice};

builtins! {
    /// Lists and dicts.
    pub(crate) static LISTS: "collections";

    /// Lists the keys of a dict in byte order.
    ///
    /// ```harn
    /// println(keys({b: 1, a: 2})) // -> [a, b]
    /// ```
    Pure fn keys(cx, dict: Value as "dict") -> "list" {
        dict.to_dict().map_or_else(Vec::new, |d| d.keys().map(Value::from).collect())
    }

    /// Lists the values of a dict in the order of its keys.
    ///
    /// ```harn
    /// println(values({b: 1, a: 2})) // -> [2, 1]
    /// ```
    Pure fn values(cx, dict: Value as "dict") -> "list" {
        dict.to_dict().map_or_else(Vec::new, |d| d.values().cloned().collect())
    }

    /// Lists the entries of a dict as dicts `{key, value}`, in the order of the keys.
    ///
    /// ```harn
    /// for e in entries({a: 1}) { println("${e.key}=${e.value}") } // -> a=1
    /// ```
    Pure fn entries(cx, dict: Value as "dict") -> "list" {
        dict.to_dict().map_or_else(Vec::new, |d| entry_dicts(&d))
    }

    /// Splits a list into consecutive chunks; the last may be shorter.
    ///
    /// A size below 1 is treated as 1.
    ///
    /// ```harn
    /// println(chunk([1, 2, 3], 2)) // -> [[1, 2], [3]]
    /// ```
    Pure fn chunk(cx, items: Given as "list", size: Int) -> "list" {
        sequences::chunks(&list("chunk", items)?, size.positive_or(1))?
    }

    /// Lists the full windows of a list.
    ///
    /// A size or step below 1 is treated as 1. A list shorter than the size has no window.
    ///
    /// ```harn
    /// println(window([1, 2, 3, 4], 2)) // -> [[1, 2], [2, 3], [3, 4]]
    /// println(window([1, 2, 3, 4], 2, 2)) // -> [[1, 2], [3, 4]]
    /// ```
    Pure fn window(cx, items: Given as "list", size: Int, step: Int) -> "list" {
        sequences::windows(&list("window", items)?, size.positive_or(2), step.positive_or(1))?
    }

    /// Groups the items of a list by the printed form of the results of `f`.
    ///
    /// ```harn
    /// println(group_by([1, 2, 3], { x -> x % 2 })) // -> {0: [2], 1: [1, 3]}
    /// ```
    Pure async fn group_by(cx, items: Given as "list", f: Given as "function(1)") -> "dict" {
        let (items, f) = list_and_callback("group_by", items, f)?;
        let mut groups = Groups::default();
        for item in items.iter() {
            let key = cx.call(&f, [item.clone()]).await?;
            groups.add(&key, item.clone());
        }
        groups.into_dict()
    }

    /// Splits a list into the items for which `f` holds and the others: `{match, no_match}`.
    ///
    /// The method of the same name returns a list of two lists instead.
    ///
    /// ```harn
    /// println(partition([1, 2, 3], { x -> x > 1 })) // -> {match: [2, 3], no_match: [1]}
    /// ```
    Pure async fn partition(cx, items: Given as "list", f: Given as "function(1)") -> "dict" {
        let (items, f) = list_and_callback("partition", items, f)?;
        let (mut yes, mut no) = (Vec::new(), Vec::new());
        for item in items.iter() {
            let side = if cx.call(&f, [item.clone()]).await?.truthy() { &mut yes } else { &mut no };
            side.push(item.clone());
        }
        [("match", yes), ("no_match", no)].into_iter().collect::<Dict>()
    }

    /// Removes items with a duplicate key, as returned by `f`; the first item of each key stays.
    ///
    /// Keys are compared by structure and type: `1` and `1.0` differ.
    ///
    /// ```harn
    /// println(dedup_by(["a", "bb", "c"], { s -> len(s) })) // -> [a, bb]
    /// ```
    Pure async fn dedup_by(cx, items: Given as "list", f: Given as "function(1)") -> "list" {
        let (items, f) = list_and_callback("dedup_by", items, f)?;
        let mut seen = Seen::default();
        let mut kept = Vec::new();
        for item in items.iter() {
            if seen.insert(Structural(cx.call(&f, [item.clone()]).await?)) {
                kept.push(item.clone());
            }
        }
        kept
    }

    /// Calls `f` for every item and concatenates the returned lists; other results are appended
    /// unchanged.
    ///
    /// ```harn
    /// println(flat_map([1, 2], { x -> [x, x * 10] })) // -> [1, 10, 2, 20]
    /// ```
    Pure async fn flat_map(cx, items: Given as "list", f: Given as "function(1)") -> "list" {
        let (items, f) = list_and_callback("flat_map", items, f)?;
        let mut out = Vec::new();
        for item in items.iter() {
            splice(&mut out, cx.call(&f, [item.clone()]).await?);
        }
        out
    }
}

/// Returns `{key, value}` for every entry, in key order.
pub(crate) fn entry_dicts(dict: &Dict) -> Vec<Value> {
    dict.iter()
        .map(|(key, value)| {
            let entry = [("key", Value::from(key)), ("value", value.clone())];
            Value::dict(entry.into_iter().collect())
        })
        .collect()
}

fn list(name: &str, items: Given) -> Result<Ref<List>> {
    let Some(items) = items.0 else {
        return Err(Error::runtime(format!("{name}: first argument must be a list")));
    };
    items.as_list().cloned().ok_or_else(|| {
        Error::type_error(format!("{name}: first argument must be a list, got {}", items.type_name()))
    })
}

fn list_and_callback(name: &str, items: Given, f: Given) -> Result<(Ref<List>, Value)> {
    let items = list(name, items)?;
    let Some(f) = f.0 else {
        return Err(Error::runtime(format!("{name}: callback is required")));
    };
    if !acts_as_function(&f) {
        let text = format!("{name}: callback must be callable, got {}", f.type_name());
        return Err(Error::type_error(text));
    }
    Ok((items, f))
}
