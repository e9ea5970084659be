//! Methods of dicts. Entries are always in byte order of their keys.

use harn_value::{Dict, Ref, Str, Value};
use harn_vm::builtin::Text;
use harn_vm::closure::parameter_count;
use harn_vm::{Result, builtins};

use crate::args::{callable, printed};
use crate::builtins::entry_dicts;

builtins! {
    /// Methods of dicts.
    pub(crate) static DICT: "dict";

    /// Lists the keys.
    ///
    /// ```harn
    /// println({b: 1, a: 2}.keys()) // -> [a, b]
    /// ```
    Pure fn keys(cx, this: Ref<Dict>) -> "list" {
        this.keys().map(Value::from).collect::<Vec<_>>()
    }

    /// Lists the values in the order of the keys.
    ///
    /// ```harn
    /// println({b: 1, a: 2}.values()) // -> [2, 1]
    /// ```
    Pure fn values(cx, this: Ref<Dict>) -> "list" {
        this.values().cloned().collect::<Vec<_>>()
    }

    /// Lists the entries as dicts `{key, value}`.
    ///
    /// ```harn
    /// println({a: 1}.entries()) // -> [{key: a, value: 1}]
    /// ```
    Pure fn entries(cx, this: Ref<Dict>) -> "list" {
        entry_dicts(&this)
    }

    /// Counts the entries.
    ///
    /// ```harn
    /// println({a: 1}.count()) // -> 1
    /// ```
    Pure fn count(cx, this: Ref<Dict>) -> "int" {
        this.len()
    }

    /// Counts the entries; an alias of `count`.
    ///
    /// ```harn
    /// println({}.len()) // -> 0
    /// ```
    Pure fn len(cx, this: Ref<Dict>) -> "int" {
        this.len()
    }

    /// Returns whether the dict is empty.
    ///
    /// ```harn
    /// println({}.empty()) // -> true
    /// ```
    Pure fn empty(cx, this: Ref<Dict>) -> "bool" {
        this.is_empty()
    }

    /// Returns whether a key is present, even if its value is nil.
    ///
    /// ```harn
    /// println([{a: nil}.has("a"), {}.has("a")]) // -> [true, false]
    /// ```
    Pure fn has(cx, this: Ref<Dict>, key: Text as "string | int") -> "bool" {
        this.get(&key.0).is_some()
    }

    /// Returns the value of a key, or `default` when the key is absent.
    ///
    /// ```harn
    /// println([{a: nil}.get("a", 1), {}.get("a", 1), {}.get("a")]) // -> [nil, 1, nil]
    /// ```
    Pure fn get(cx, this: Ref<Dict>, key: Text as "string | int", default: Value as "any?") -> "any" {
        this.get(&key.0).cloned().unwrap_or(default)
    }

    /// Returns the entries of both dicts; entries of `other` take precedence.
    ///
    /// ```harn
    /// println({a: 1, b: 1}.merge({b: 2})) // -> {a: 1, b: 2}
    /// ```
    Pure fn merge(cx, this: Ref<Dict>, other: Value as "dict") -> "dict" {
        let mut this = this;
        if let Some(other) = other.to_dict()
            && !other.is_empty()
        {
            this.make_mut().extend(other.iter().map(|(key, value)| (key.clone(), value.clone())));
        }
        this
    }

    /// Returns the dict without a key.
    ///
    /// ```harn
    /// let d = {a: 1, b: 2}
    /// println([d.remove("a"), d]) // -> [{b: 2}, {a: 1, b: 2}]
    /// ```
    Pure fn remove(cx, this: Ref<Dict>, key: Text as "string | int") -> "dict" {
        let mut this = this;
        // A shared dict is copied only if it changes.
        if this.is_unique() || this.contains(&key) {
            this.make_mut().remove(&key);
        }
        this
    }

    /// Returns the entries whose value satisfies `f`.
    ///
    /// A function with two parameters receives the key and the value.
    ///
    /// ```harn
    /// println({a: 1, b: 2}.filter({ k, v -> k == "a" })) // -> {a: 1}
    /// println({a: 1, b: 2}.filter({ v -> v > 1 })) // -> {b: 2}
    /// ```
    Pure async fn filter(cx, this: Ref<Dict>, f: Value as "!function(2)") -> "dict" {
        callable("dict.filter", &f)?;
        let mut out = Dict::new();
        for (key, value) in this.iter() {
            if call(&cx, &f, key, value, value).await?.truthy() {
                out.insert(key.clone(), value.clone());
            }
        }
        out
    }

    /// Returns the dict with `f(value)` in place of each value.
    ///
    /// ```harn
    /// println({a: 1, b: 2}.map_values({ v -> v * 10 })) // -> {a: 10, b: 20}
    /// ```
    Pure async fn map_values(cx, this: Ref<Dict>, f: Value as "!function(2)") -> "dict" {
        callable("dict.map_values", &f)?;
        let mut out = Dict::with_capacity(this.len());
        for (key, value) in this.iter() {
            out.insert(key.clone(), call(&cx, &f, key, value, value).await?);
        }
        out
    }

    /// Returns the dict with the printed form of `f(key)` in place of each key.
    ///
    /// If two keys become equal, the later entry replaces the earlier one.
    ///
    /// ```harn
    /// println({a: 1}.map_keys({ k -> k + k })) // -> {aa: 1}
    /// ```
    Pure async fn map_keys(cx, this: Ref<Dict>, f: Value as "!function(2)") -> "dict" {
        callable("dict.map_keys", &f)?;
        rename(&cx, &this, &f).await?
    }

    /// Returns the dict with other keys; an alias of `map_keys`.
    ///
    /// ```harn
    /// println({first_name: "Ada"}.rekey(snake_to_camel)) // -> {firstName: Ada}
    /// ```
    Pure async fn rekey(cx, this: Ref<Dict>, f: Value as "!function(2)") -> "dict" {
        callable("dict.rekey", &f)?;
        rename(&cx, &this, &f).await?
    }

    /// Returns an iterator over the pairs `(key, value)`.
    ///
    /// ```harn
    /// println({a: 1}.iter().to_list()) // -> [(a, 1)]
    /// ```
    Pure fn iter(cx, this: Value) -> "iter" {
        cx.iter(&this)?.into_value()
    }
}

/// Calls a function with key and value if it has two parameters, else with `only`.
async fn call(cx: &harn_vm::Cx, f: &Value, key: &Str, value: &Value, only: &Value) -> Result<Value> {
    if parameter_count(f) == Some(2) {
        cx.call(f, [key.into(), value.clone()]).await
    } else {
        cx.call(f, [only.clone()]).await
    }
}

async fn rename(cx: &harn_vm::Cx, dict: &Dict, f: &Value) -> Result<Dict> {
    let mut out = Dict::with_capacity(dict.len());
    for (key, value) in dict.iter() {
        let name = Value::from(key);
        let key = call(cx, f, key, value, &name).await?;
        out.insert(printed(&key), value.clone());
    }
    Ok(out)
}
