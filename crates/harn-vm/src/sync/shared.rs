//! Cells and maps: values that tasks share, with compare-and-set.

use std::cell::RefCell;
use std::collections::BTreeMap;

use harn_value::{Dict, Str, Value};

use super::mailboxes;
use super::scope::{Kind, Name, required, text, type_of_handle};
use crate::builtin::Maybe;
use crate::builtins;
use crate::cx::Cx;
use crate::error::{Error, Result};
use crate::signature::wrong_type;

/// The `_type` of a snapshot.
const SNAPSHOT: &str = "shared_snapshot";

/// A cell or a map; the value of a map is a dict.
struct Entry {
    value: Value,
    version: i64,
    reads: i64,
    writes: i64,
    cas_hits: i64,
    cas_misses: i64,
    stale: i64,
}

impl Entry {
    fn new(value: Value) -> Entry {
        Entry { value, version: 0, reads: 0, writes: 0, cas_hits: 0, cas_misses: 0, stale: 0 }
    }

    /// Returns the state of an object that was never opened.
    fn absent(kind: Kind) -> Entry {
        Entry::new(if kind == Kind::Map { Dict::new().into() } else { Value::NIL })
    }

    fn wrote(&mut self) {
        self.version += 1;
        self.writes += 1;
    }

    fn replace(&mut self, value: Value) -> Value {
        self.wrote();
        std::mem::replace(&mut self.value, value)
    }

    /// Returns the value of a key of a map.
    fn at(&self, key: &str) -> Option<Value> {
        self.value.as_dict()?.get_str(key).cloned()
    }

    /// Sets or removes a key of a map; returns the old value.
    fn put(&mut self, key: &Str, value: Option<Value>) -> Value {
        let Some(dict) = self.value.as_dict_mut() else { return Value::NIL };
        if value.is_none() && !dict.contains(key) {
            return Value::NIL;
        }
        let dict = dict.make_mut();
        let before = match value {
            Some(value) => dict.insert(key.clone(), value),
            None => dict.remove(key),
        };
        self.wrote();
        before.unwrap_or_default()
    }

    fn metrics(&self) -> Dict {
        [
            ("cas_failure_count", self.cas_misses),
            ("cas_success_count", self.cas_hits),
            ("read_count", self.reads),
            ("stale_read_count", self.stale),
            ("version", self.version),
            ("write_count", self.writes),
        ]
        .into_iter()
        .collect()
    }
}

type Entries = RefCell<BTreeMap<Name, Entry>>;

/// The cells and maps of a program.
#[derive(Default)]
struct Shared {
    cells: Entries,
    maps: Entries,
}

impl Shared {
    fn of(&self, kind: Kind) -> &Entries {
        if kind == Kind::Map { &self.maps } else { &self.cells }
    }

    fn open(&self, kind: Kind, name: &Name, initial: Value) {
        self.of(kind).borrow_mut().entry(name.clone()).or_insert_with(|| Entry::new(initial));
    }

    fn read<T>(&self, kind: Kind, name: &Name, read: impl FnOnce(&Entry) -> T) -> T {
        match self.of(kind).borrow_mut().get_mut(name) {
            Some(entry) => {
                entry.reads += 1;
                read(entry)
            }
            None => read(&Entry::absent(kind)),
        }
    }

    /// Modifies an object, which is created if it was never opened. Returns the result of `write`, so that the caller
    /// drops it after the borrow ends.
    fn write<T>(&self, kind: Kind, name: &Name, write: impl FnOnce(&mut Entry) -> T) -> T {
        let mut entries = self.of(kind).borrow_mut();
        write(entries.entry(name.clone()).or_insert_with(|| Entry::absent(kind)))
    }

    /// Writes if the result of `current` equals the expected value, which may be a snapshot.
    fn cas(
        &self,
        kind: Kind,
        name: &Name,
        expected: &Value,
        current: impl FnOnce(&Entry) -> Value,
        write: impl FnOnce(&mut Entry) -> Value,
    ) -> bool {
        let found = self.of(kind).borrow().get(name).map(|entry| (current(entry), entry.version));
        let is_there = found.is_some();
        let (value, version) = found.unwrap_or_default();
        let snapshot = expected.as_dict().filter(|_| type_of_handle(expected) == Some(SNAPSHOT));
        let stale = snapshot.is_some_and(|s| s.get_str("version").and_then(Value::as_int) != Some(version));
        let wanted =
            snapshot.map_or_else(|| expected.clone(), |s| s.get_str("value").cloned().unwrap_or_default());
        let hit = !stale && value == wanted;
        // A miss does not create an object.
        if !hit && !is_there {
            return false;
        }
        let _before = self.write(kind, name, |entry| {
            entry.stale += i64::from(stale);
            entry.cas_misses += i64::from(!hit);
            entry.cas_hits += i64::from(hit);
            if hit { write(entry) } else { Value::NIL }
        });
        hit
    }
}

fn snapshot(value: Value, version: i64) -> Dict {
    [("_type", Value::str(SNAPSHOT)), ("value", value), ("version", Value::int(version))]
        .into_iter()
        .collect()
}

/// Opens a cell or a map; returns its handle.
fn open(cx: &Cx, kind: Kind, target: &Maybe, initial: Value) -> Result<Dict> {
    let (name, options) = Name::opened(cx, kind.word(), "key/name is required", target)?;
    let option = options.and_then(|options| options.get_str("initial").cloned());
    let initial = option.filter(|value| !value.is_nil()).unwrap_or(initial);
    let initial = match kind {
        Kind::Map if initial.is_nil() => Dict::new().into(),
        Kind::Map if initial.as_dict().is_none() => {
            return Err(Error::type_error(wrong_type("shared_map", "initial", "dict", initial.type_name())));
        }
        _ => initial,
    };
    cx.state::<Shared>().open(kind, &name, initial);
    Ok(name.handle(kind))
}

/// Resolves a map and a key in it.
fn place(cx: &Cx, builtin: &str, needs: &str, handle: Maybe, key: Maybe) -> Result<(Name, Str)> {
    let key = required(builtin, needs, key)?;
    let name = Name::required(cx, builtin, Kind::Map, needs, handle)?;
    Ok((name, text(builtin, "key", "text", &key)?))
}

/// Returns the metrics of one object for `shared_metrics`.
fn metrics_of(cx: &Cx, handle: &Value) -> Result<Dict> {
    const NAME: &str = "shared_metrics";
    let shared = cx.state::<Shared>();
    let known = |kind: Kind, name: &Name| {
        if kind == Kind::Mailbox {
            return mailboxes::metrics_of(cx, name);
        }
        shared.of(kind).borrow().get(name).map(Entry::metrics)
    };
    let kinds = [Kind::Cell, Kind::Map, Kind::Mailbox];
    if handle.as_dict().is_some() {
        let own = type_of_handle(handle);
        let Some(kind) = kinds.into_iter().find(|kind| own == Some(kind.word())) else {
            return Err(Error::runtime(format!(
                "{NAME}: expected shared_cell, shared_map or mailbox handle"
            )));
        };
        let name = Name::of(cx, NAME, kind, handle)?;
        let absent =
            || if kind == Kind::Mailbox { mailboxes::absent() } else { Entry::absent(kind).metrics() };
        return Ok(known(kind, &name).unwrap_or_else(absent));
    }
    let name = Name::of(cx, NAME, Kind::Cell, handle)?;
    Ok(kinds
        .into_iter()
        .find_map(|kind| known(kind, &name))
        .unwrap_or_else(|| Entry::absent(Kind::Cell).metrics()))
}

/// Returns the metrics of all objects for `shared_metrics`, with their handles.
fn all_metrics(cx: &Cx) -> Vec<Value> {
    let shared = cx.state::<Shared>();
    let mut all = Vec::new();
    for kind in [Kind::Cell, Kind::Map] {
        for (name, entry) in shared.of(kind).borrow().iter() {
            all.push(with_handle(entry.metrics(), name, kind));
        }
    }
    all.extend(
        mailboxes::all(cx).into_iter().map(|(name, metrics)| with_handle(metrics, &name, Kind::Mailbox)),
    );
    all
}

fn with_handle(mut metrics: Dict, name: &Name, kind: Kind) -> Value {
    metrics.spread(&name.handle(kind));
    metrics.into()
}

builtins! {
    /// Cells and maps that tasks share.
    pub(crate) static SHARED_STATE: "shared_state";

    /// Opens a cell, a value that tasks share, and returns its handle.
    ///
    /// An existing cell keeps its value. Options name a scope (`shared_scope_id`). Where a handle is expected, a name
    /// refers to the cell in the default scope of the running task.
    ///
    /// ```harn
    /// let hits = shared_cell("hits", 0)
    /// parallel 3 { _i ->
    ///   var done = false
    ///   while !done {
    ///     let seen = shared_snapshot(hits)
    ///     done = shared_cas(hits, seen, seen.value + 1)
    ///   }
    /// }
    /// println(shared_get(hits)) // -> 3
    /// ```
    State fn shared_cell(cx, key: Maybe as "text | {key?: text, name?: text, scope?: text, initial?: any, tenant_id?: text}", initial: Value as "any?") -> "dict" {
        open(cx, Kind::Cell, &key, initial)
    }

    /// Returns the value of a cell, or nil if it was never opened.
    ///
    /// ```harn
    /// println(shared_get(shared_cell("mode", "fast"))) // -> fast
    /// ```
    State fn shared_get(cx, cell: Maybe as "text | dict") -> "any" {
        let name = Name::required(cx, "shared_get", Kind::Cell, "handle is required", cell)?;
        cx.state::<Shared>().read(Kind::Cell, &name, |entry| entry.value.clone())
    }

    /// Returns `{_type, value, version}` of a cell, for `shared_cas`.
    ///
    /// ```harn
    /// println(shared_snapshot(shared_cell("n", 1))) // -> {_type: shared_snapshot, value: 1, version: 0}
    /// ```
    State fn shared_snapshot(cx, cell: Maybe as "text | dict") -> "dict" {
        let name = Name::required(cx, "shared_snapshot", Kind::Cell, "handle is required", cell)?;
        cx.state::<Shared>().read(Kind::Cell, &name, |entry| snapshot(entry.value.clone(), entry.version))
    }

    /// Sets the value of a cell and returns the previous value.
    ///
    /// ```harn
    /// let n = shared_cell("n", 1)
    /// println([shared_set(n, 2), shared_get(n)]) // -> [1, 2]
    /// ```
    State fn shared_set(cx, cell: Maybe as "text | dict", value: Maybe) -> "any" {
        const NEEDS: &str = "requires handle and value";
        let value = required("shared_set", NEEDS, value)?;
        let name = Name::required(cx, "shared_set", Kind::Cell, NEEDS, cell)?;
        cx.state::<Shared>().write(Kind::Cell, &name, |entry| entry.replace(value))
    }

    /// Sets a cell to `new` if it has the expected value; returns whether it did.
    ///
    /// `expected` is a value or a snapshot. With a snapshot, the result is false if the cell was
    /// written since the snapshot was taken.
    ///
    /// ```harn
    /// let n = shared_cell("n", 1)
    /// println([shared_cas(n, 1, 2), shared_cas(n, 1, 3)]) // -> [true, false]
    /// ```
    State fn shared_cas(cx, cell: Maybe as "text | dict", expected: Maybe, new: Maybe) -> "bool" {
        const NEEDS: &str = "requires handle, expected, and new value";
        let new = required("shared_cas", NEEDS, new)?;
        let expected = required("shared_cas", NEEDS, expected)?;
        let name = Name::required(cx, "shared_cas", Kind::Cell, NEEDS, cell)?;
        let shared = cx.state::<Shared>();
        shared.cas(Kind::Cell, &name, &expected, |entry| entry.value.clone(), |entry| entry.replace(new))
    }

    /// Opens a map that tasks share and returns its handle.
    ///
    /// An existing map keeps its entries. Options and names are those of `shared_cell`.
    ///
    /// ```harn
    /// let seen = shared_map("seen", {a: 1})
    /// shared_map_set(seen, "b", 2)
    /// println(shared_map_entries(seen)) // -> {a: 1, b: 2}
    /// ```
    State fn shared_map(cx, key: Maybe as "text | {key?: text, name?: text, scope?: text, initial?: dict, tenant_id?: text}", initial: Value as "dict?") -> "dict" {
        open(cx, Kind::Map, &key, initial)
    }

    /// Returns the value of a key of a map, or `default`.
    ///
    /// ```harn
    /// println(shared_map_get(shared_map("m"), "x", 7)) // -> 7
    /// ```
    State fn shared_map_get(cx, map: Maybe as "text | dict", key: Maybe as "text", default: Value as "any?") -> "any" {
        let (name, key) = place(cx, "shared_map_get", "requires handle and key", map, key)?;
        cx.state::<Shared>().read(Kind::Map, &name, |entry| entry.at(&key)).unwrap_or(default)
    }

    /// Sets a key of a map and returns its previous value.
    ///
    /// ```harn
    /// let m = shared_map("m")
    /// println([shared_map_set(m, "x", 1), shared_map_set(m, "x", 2)]) // -> [nil, 1]
    /// ```
    State fn shared_map_set(cx, map: Maybe as "text | dict", key: Maybe as "text", value: Maybe) -> "any" {
        const NEEDS: &str = "requires handle, key, and value";
        let value = required("shared_map_set", NEEDS, value)?;
        let (name, key) = place(cx, "shared_map_set", NEEDS, map, key)?;
        cx.state::<Shared>().write(Kind::Map, &name, |entry| entry.put(&key, Some(value)))
    }

    /// Removes a key of a map and returns its value.
    ///
    /// ```harn
    /// println(shared_map_delete(shared_map("m", {x: 1}), "x")) // -> 1
    /// ```
    State fn shared_map_delete(cx, map: Maybe as "text | dict", key: Maybe as "text") -> "any" {
        let (name, key) = place(cx, "shared_map_delete", "requires handle and key", map, key)?;
        // This does not create a map that was never opened.
        let shared = cx.state::<Shared>();
        shared.maps.borrow_mut().get_mut(&name).map(|entry| entry.put(&key, None))
    }

    /// Returns the entries of a map as a dict.
    ///
    /// ```harn
    /// println(shared_map_entries(shared_map("m", {x: 1}))) // -> {x: 1}
    /// ```
    State fn shared_map_entries(cx, map: Maybe as "text | dict") -> "dict" {
        let name = Name::required(cx, "shared_map_entries", Kind::Map, "handle is required", map)?;
        cx.state::<Shared>().read(Kind::Map, &name, |entry| entry.value.clone())
    }

    /// Returns `{_type, value, version}` of a key of a map, for `shared_map_cas`.
    ///
    /// The version applies to the whole map.
    ///
    /// ```harn
    /// println(shared_map_snapshot(shared_map("m", {x: 1}), "x").value) // -> 1
    /// ```
    State fn shared_map_snapshot(cx, map: Maybe as "text | dict", key: Maybe as "text") -> "dict" {
        let (name, key) = place(cx, "shared_map_snapshot", "requires handle and key", map, key)?;
        let read = |entry: &Entry| snapshot(entry.at(&key).unwrap_or_default(), entry.version);
        cx.state::<Shared>().read(Kind::Map, &name, read)
    }

    /// Sets a key of a map to `new` if it has the expected value; returns whether it did.
    ///
    /// `expected` is a value, nil for a missing key, or a snapshot. If `new` is nil, the key is
    /// removed.
    ///
    /// ```harn
    /// let m = shared_map("m")
    /// println([shared_map_cas(m, "x", nil, 1), shared_map_cas(m, "x", nil, 2)]) // -> [true, false]
    /// ```
    State fn shared_map_cas(cx, map: Maybe as "text | dict", key: Maybe as "text", expected: Maybe, new: Maybe) -> "bool" {
        const NEEDS: &str = "requires handle, key, expected, and new value";
        let new = required("shared_map_cas", NEEDS, new)?;
        let expected = required("shared_map_cas", NEEDS, expected)?;
        let (name, key) = place(cx, "shared_map_cas", NEEDS, map, key)?;
        let new = Some(new).filter(|new| !new.is_nil());
        let shared = cx.state::<Shared>();
        let current = |entry: &Entry| entry.at(&key).unwrap_or_default();
        shared.cas(Kind::Map, &name, &expected, current, |entry| entry.put(&key, new))
    }

    /// Returns the metrics of a cell, a map or a mailbox.
    ///
    /// Without a handle, returns a list for all of them, with `_type`, `scope` and `key`. `stale_read_count` is the
    /// number of compare-and-set attempts with an outdated snapshot.
    ///
    /// ```harn
    /// let n = shared_cell("n")
    /// shared_set(n, 1)
    /// println(shared_metrics(n).write_count) // -> 1
    /// ```
    State fn shared_metrics(cx, handle: Value as "text | dict?") -> "dict | list" {
        if handle.is_nil() { Value::list(all_metrics(cx)) } else { metrics_of(cx, &handle)?.into() }
    }
}
