//! [`Dict`]: string keys to values. Lookup by hash, iteration in byte order of the keys.

use std::cell::{Cell, OnceCell};

use hashbrown::HashTable;

use crate::array_part::{ArrayPart, int_of};
use crate::text::hash_text;
use crate::{Str, Value};

/// Maximum number of keys that are searched linearly; larger dicts have a hash table (measured: a pointer scan is
/// faster up to eight).
const SCAN_LIMIT: usize = 8;

#[derive(Clone)]
struct Entry {
    key: Str,
    value: Value,
}

/// Position of an entry.
#[derive(Clone, Copy)]
struct Slot {
    /// Hash of the key, so that keys are read only if the hashes are equal, and not when the table grows.
    hash: u32,
    at: u32,
}

impl Slot {
    fn new(entry: &Entry, at: usize) -> Slot {
        Slot { hash: entry.key.hash_code(), at: at as u32 }
    }

    #[inline(always)]
    fn table_hash(&self) -> u64 {
        table_hash(self.hash)
    }
}

/// `hashbrown` takes its control bits from the top of a 64-bit hash and ours has 32 bits, so spread them.
#[inline(always)]
fn table_hash(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// Index of a dict with many entries.
#[derive(Clone)]
struct Index {
    /// Positions in `entries`.
    table: HashTable<Slot>,
    /// Position of the last successful lookup: an entry that is read is often written next.
    last: Cell<u32>,
    /// Positions in `entries` of the keys that are printed forms of the covered ints. They are in the table as well.
    ints: ArrayPart,
}

/// A dictionary with string keys.
///
/// Entries are stored in a vector in insertion order, which only [`Dict::written`] exposes. Iteration is in byte order
/// of the keys: while keys are added in that order, no sorting is needed; otherwise the order is computed on the first
/// iteration and cached until a key is added or removed.
#[derive(Default)]
pub struct Dict {
    entries: Vec<Entry>,
    index: Option<Box<Index>>,
    /// Whether `entries` is not in key order.
    unordered: bool,
    order: OnceCell<Box<[u32]>>,
}

impl Clone for Dict {
    fn clone(&self) -> Dict {
        crate::pace::spend_items(self.len());
        let Dict { entries, index, unordered, order } = self;
        Dict { entries: entries.clone(), index: index.clone(), unordered: *unordered, order: order.clone() }
    }
}

impl Dict {
    /// Creates an empty dict.
    pub fn new() -> Dict {
        Dict::default()
    }

    /// Creates an empty dict with room for `capacity` entries.
    pub fn with_capacity(capacity: usize) -> Dict {
        Dict { entries: Vec::with_capacity(capacity), ..Dict::default() }
    }

    /// Returns the number of entries.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether the dict is empty.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    #[inline(always)]
    fn find(&self, key: &Str) -> Option<usize> {
        let at = match &self.index {
            // Property names are interned, so most lookups in small dicts succeed by comparing pointers.
            None => self.entries.iter().position(|e| Str::same(&e.key, key)),
            Some(index) => {
                let last = index.last.get() as usize;
                self.entries.get(last).is_some_and(|e| Str::same(&e.key, key)).then_some(last)
            }
        };
        if at.is_some() { at } else { self.find_equal(key) }
    }

    #[inline(never)]
    fn find_equal(&self, key: &Str) -> Option<usize> {
        let Some(index) = &self.index else { return self.entries.iter().position(|e| e.key == *key) };
        let hash = key.hash_code();
        let same = |slot: &Slot| slot.hash == hash && self.entries[slot.at as usize].key == *key;
        let at = index.table.find(table_hash(hash), same)?.at;
        index.last.set(at);
        Some(at as usize)
    }

    fn find_text(&self, key: &str) -> Option<usize> {
        match &self.index {
            None => self.entries.iter().position(|e| e.key.as_str() == key),
            Some(index) => {
                let hash = hash_text(key);
                let same =
                    |slot: &Slot| slot.hash == hash && self.entries[slot.at as usize].key.as_str() == key;
                index.table.find(table_hash(hash), same).map(|slot| slot.at as usize)
            }
        }
    }

    /// Returns the value of `key`.
    #[inline]
    pub fn get(&self, key: &Str) -> Option<&Value> {
        self.find(key).map(|at| &self.entries[at].value)
    }

    /// Returns the value of `key`, given as a Rust string.
    pub fn get_str(&self, key: &str) -> Option<&Value> {
        self.find_text(key).map(|at| &self.entries[at].value)
    }

    /// Returns the value of `key` for writing.
    #[inline]
    pub fn get_mut(&mut self, key: &Str) -> Option<&mut Value> {
        self.find(key).map(|at| &mut self.entries[at].value)
    }

    /// Returns whether `key` is present.
    pub fn contains(&self, key: &str) -> bool {
        self.find_text(key).is_some()
    }

    /// Sets `key`; returns the old value.
    #[inline]
    pub fn insert(&mut self, key: impl Into<Str>, value: impl Into<Value>) -> Option<Value> {
        let (key, value) = (key.into(), value.into());
        if let Some(at) = self.find(&key) {
            return Some(std::mem::replace(&mut self.entries[at].value, value));
        }
        self.push_new(key, value);
        None
    }

    /// Returns the value of `key` for writing; an absent key is added as nil.
    #[inline]
    pub fn entry(&mut self, key: &Str) -> &mut Value {
        let at = match self.find(key) {
            Some(at) => at,
            None => {
                self.push_new(key.clone(), Value::NIL);
                self.entries.len() - 1
            }
        };
        &mut self.entries[at].value
    }

    /// Returns the value of the key that is the printed form of this int.
    #[inline]
    pub fn get_int(&self, key: i64) -> Option<&Value> {
        if let Some(index) = &self.index
            && let Some(known) = index.ints.find(key)
        {
            return known.map(|at| &self.entries[at as usize].value);
        }
        self.get_str(itoa::Buffer::new().format(key))
    }

    /// Like [`Dict::get_int`], for writing.
    #[inline]
    pub fn get_int_mut(&mut self, key: i64) -> Option<&mut Value> {
        let known = self.index.as_ref().and_then(|index| index.ints.find(key));
        let at = match known {
            Some(at) => at? as usize,
            None => self.find_text(itoa::Buffer::new().format(key))?,
        };
        Some(&mut self.entries[at].value)
    }

    /// Returns the value of the key that is the printed form of this int, for writing, if the array covers it; `None`
    /// if the key is absent or would have to be hashed.
    #[inline(always)]
    pub fn known_int_mut(&mut self, key: i64) -> Option<&mut Value> {
        let at = self.index.as_ref()?.ints.find(key)??;
        self.entries.get_mut(at as usize).map(|entry| &mut entry.value)
    }

    /// Like [`Dict::entry`] for the key that is the printed form of this int; only a new key allocates a string.
    #[inline]
    pub fn entry_int(&mut self, key: i64) -> &mut Value {
        let known = self.index.as_ref().and_then(|index| index.ints.find(key)).flatten();
        let at = match known {
            Some(at) => at as usize,
            None => self.place_of_int(key),
        };
        &mut self.entries[at].value
    }

    /// Returns the position of the key that is the printed form of this int; adds an absent key.
    #[inline(never)]
    fn place_of_int(&mut self, key: i64) -> usize {
        let mut digits = itoa::Buffer::new();
        let text = digits.format(key);
        if let Some(at) = self.find_text(text) {
            return at;
        }
        self.push_new(Str::new(text), Value::NIL);
        self.entries.len() - 1
    }

    /// Sets all keys of `more`. An empty dict becomes a copy, without hashing any key.
    pub fn spread(&mut self, more: &Dict) {
        if self.is_empty() {
            let (entries, index) = (more.entries.clone(), more.index.clone());
            *self = Dict { entries, index, unordered: more.unordered, order: OnceCell::new() };
        } else {
            for entry in &more.entries {
                self.insert(entry.key.clone(), entry.value.clone());
            }
        }
    }

    fn push_new(&mut self, key: Str, value: Value) {
        let at = self.entries.len();
        if !self.unordered && self.entries.last().is_some_and(|last| last.key > key) {
            self.unordered = true;
        }
        self.order.take();
        let (hash, int) = (key.hash_code(), int_of(&key));
        self.entries.push(Entry { key, value });
        let Some(index) = &mut self.index else {
            if at >= SCAN_LIMIT {
                self.build_index();
            }
            return;
        };
        let Index { table, ints, .. } = &mut **index;
        let entries = &self.entries;
        // The table is about to be rebuilt, so check whether its keys are ints.
        if int.is_some() && table.len() == table.capacity() {
            cover_ints(entries, ints);
        }
        let slot = Slot { hash, at: at as u32 };
        table.insert_unique(slot.table_hash(), slot, Slot::table_hash);
        if let Some(int) = int {
            ints.set(int, at as u32);
        }
    }

    #[cold]
    fn build_index(&mut self) {
        let entries = &self.entries;
        let mut table = HashTable::with_capacity(entries.len() * 2);
        for (at, entry) in entries.iter().enumerate() {
            let slot = Slot::new(entry, at);
            table.insert_unique(slot.table_hash(), slot, Slot::table_hash);
        }
        let mut ints = ArrayPart::default();
        cover_ints(entries, &mut ints);
        self.index = Some(Box::new(Index { table, last: Cell::new(0), ints }));
    }

    /// Removes `key`; returns its value.
    pub fn remove(&mut self, key: &str) -> Option<Value> {
        let last = self.entries.len().checked_sub(1)?;
        let at = match &mut self.index {
            None => self.entries.iter().position(|entry| entry.key.as_str() == key)?,
            Some(index) => {
                let Index { table, ints, .. } = &mut **index;
                let entries = &self.entries;
                let hash = hash_text(key);
                let same = |slot: &Slot| slot.hash == hash && entries[slot.at as usize].key.as_str() == key;
                let at = table.find_entry(table_hash(hash), same).ok()?.remove().0.at as usize;
                int_of(key).and_then(|int| ints.clear(int));
                if at != last {
                    let moved = Slot::new(&entries[last], last);
                    if let Some(slot) = table.find_mut(moved.table_hash(), |slot| slot.at == moved.at) {
                        slot.at = at as u32;
                    }
                    int_of(&entries[last].key).map(|int| ints.set(int, at as u32));
                }
                at
            }
        };
        self.order.take();
        self.unordered |= at != last;
        Some(self.entries.swap_remove(at).value)
    }

    fn order(&self) -> Option<&[u32]> {
        if !self.unordered {
            return None;
        }
        Some(self.order.get_or_init(|| {
            let mut order: Vec<u32> = (0..self.entries.len() as u32).collect();
            order.sort_unstable_by(|&a, &b| self.entries[a as usize].key.cmp(&self.entries[b as usize].key));
            order.into()
        }))
    }

    /// Returns the entry at position `index` of the key order.
    pub fn nth(&self, index: usize) -> Option<(&Str, &Value)> {
        let at = match self.order() {
            Some(order) => *order.get(index)? as usize,
            None => index,
        };
        self.entries.get(at).map(|e| (&e.key, &e.value))
    }

    /// Iterates over the entries in byte order of the keys.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&Str, &Value)> + ExactSizeIterator {
        let order = self.order();
        (0..self.entries.len()).map(move |i| {
            let e = &self.entries[order.map_or(i, |o| o[i] as usize)];
            (&e.key, &e.value)
        })
    }

    /// Iterates over the entries in the order in which their keys were first written, for declarations: schemas,
    /// parameters. Removing a key moves the last entry to its position.
    pub fn written(&self) -> impl DoubleEndedIterator<Item = (&Str, &Value)> + ExactSizeIterator {
        self.entries.iter().map(|e| (&e.key, &e.value))
    }

    /// Iterates over the keys in byte order.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &Str> + ExactSizeIterator {
        self.iter().map(|(k, _)| k)
    }

    /// Iterates over the values in byte order of their keys.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &Value> + ExactSizeIterator {
        self.iter().map(|(_, v)| v)
    }

    /// Iterates over all values, in no particular order.
    pub(crate) fn values_in_any_order(&self) -> impl Iterator<Item = &Value> {
        self.entries.iter().map(|e| &e.value)
    }

    /// Iterates over all values for writing, in no particular order.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut Value> {
        self.entries.iter_mut().map(|e| &mut e.value)
    }
}

/// Extends the array to the keys that are ints, if there are enough of them.
#[cold]
fn cover_ints(entries: &[Entry], ints: &mut ArrayPart) {
    let keys = || {
        entries.iter().enumerate().filter_map(|(at, entry)| int_of(&entry.key).map(|int| (int, at as u32)))
    };
    if ints.grow(keys().map(|(int, _)| int)) {
        for (int, at) in keys() {
            ints.set(int, at);
        }
    }
}

impl<K: Into<Str>, V: Into<Value>> FromIterator<(K, V)> for Dict {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(items: I) -> Dict {
        let mut dict = Dict::new();
        dict.extend(items);
        dict
    }
}

impl<K: Into<Str>, V: Into<Value>> Extend<(K, V)> for Dict {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, items: I) {
        for (key, value) in items {
            self.insert(key, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn ints_find_the_keys_that_they_are_written_as(
            ops in prop::collection::vec((0u8..4, 0i64..300, any::<i64>()), 0..1500),
            (step, start) in (prop::sample::select(vec![1i64, 3, 1 << 20]), -40i64..40),
        ) {
            let mut dict = Dict::new();
            let mut model = BTreeMap::new();
            for (op, n, value) in ops {
                let int = start + n * step;
                // Strings that look like ints but are not printed forms.
                let key = if n % 5 == 0 { format!("0{int}") } else { int.to_string() };
                match op {
                    0 => prop_assert_eq!(dict.remove(&key).and_then(|v| v.as_int()), model.remove(&key)),
                    1 => {
                        dict.insert(key.as_str(), value);
                        model.insert(key, value);
                    }
                    _ => {
                        dict.entry_int(int).put(Value::int(value));
                        model.insert(int.to_string(), value);
                    }
                }
            }
            for n in 0..300 {
                let int = start + n * step;
                let want = model.get(&int.to_string()).copied();
                prop_assert_eq!(dict.get_int(int).and_then(Value::as_int), want);
                prop_assert_eq!(dict.get_str(&int.to_string()).and_then(Value::as_int), want);
            }
            let got: Vec<(String, Option<i64>)> = dict.iter().map(|(k, v)| (k.to_string(), v.as_int())).collect();
            let want: Vec<(String, Option<i64>)> = model.into_iter().map(|(k, v)| (k, Some(v))).collect();
            prop_assert_eq!(&got, &want);
        }

        #[test]
        fn behaves_like_a_sorted_map(ops in prop::collection::vec((0u8..3, 0u8..40, any::<i64>()), 0..200)) {
            let mut dict = Dict::new();
            let mut model = BTreeMap::new();
            for (op, key, value) in ops {
                let key = format!("k{key}");
                if op == 0 {
                    prop_assert_eq!(dict.remove(&key).and_then(|v| v.as_int()), model.remove(&key));
                } else {
                    dict.insert(key.as_str(), value);
                    model.insert(key, value);
                }
                prop_assert_eq!(dict.len(), model.len());
            }
            let got: Vec<(String, Option<i64>)> = dict.iter().map(|(k, v)| (k.to_string(), v.as_int())).collect();
            let want: Vec<(String, Option<i64>)> = model.into_iter().map(|(k, v)| (k, Some(v))).collect();
            prop_assert_eq!(&got, &want);
            for (key, value) in &got {
                prop_assert_eq!(dict.get_str(key).and_then(|v| v.as_int()), *value);
                prop_assert_eq!(dict.get(&Str::new(key)).and_then(|v| v.as_int()), *value);
            }
        }
    }
}
