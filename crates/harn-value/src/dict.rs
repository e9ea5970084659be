//! [`Dict`]: string keys to values. Looked up by hash, always walked in byte order of the keys.

use std::cell::OnceCell;

use hashbrown::HashTable;

use crate::text::hash_text;
use crate::{Str, Value};

/// Up to this many keys are scanned; more get a hash table (measured: a pointer scan wins up to eight).
const SCAN_LIMIT: usize = 8;

#[derive(Clone)]
struct Entry {
    key: Str,
    value: Value,
}

/// A dictionary with string keys.
///
/// Entries live in a vector in insertion order, which only [`Dict::written`] tells. Iteration is in byte order of
/// the keys: as long as keys arrive in that order nothing needs sorting, otherwise the order is made
/// once when something iterates and kept until a key is added or removed.
#[derive(Clone, Default)]
pub struct Dict {
    entries: Vec<Entry>,
    table: Option<Box<HashTable<u32>>>,
    /// Whether `entries` is not in key order.
    unordered: bool,
    order: OnceCell<Box<[u32]>>,
}

impl Dict {
    /// An empty dict.
    pub fn new() -> Dict {
        Dict::default()
    }

    /// An empty dict with room for `capacity` entries.
    pub fn with_capacity(capacity: usize) -> Dict {
        Dict { entries: Vec::with_capacity(capacity), ..Dict::default() }
    }

    /// Number of entries.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no entries.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    #[inline]
    fn find(&self, key: &Str) -> Option<usize> {
        match &self.table {
            None => {
                // Property names are interned, so most hits are pointer hits.
                if let Some(at) = self.entries.iter().position(|e| Str::same(&e.key, key)) {
                    return Some(at);
                }
                self.entries.iter().position(|e| e.key == *key)
            }
            Some(table) => table
                .find(u64::from(key.hash_code()).wrapping_mul(SPREAD), |&at| {
                    self.entries[at as usize].key == *key
                })
                .map(|&at| at as usize),
        }
    }

    fn find_text(&self, key: &str) -> Option<usize> {
        match &self.table {
            None => self.entries.iter().position(|e| e.key.as_str() == key),
            Some(table) => table
                .find(u64::from(hash_text(key)).wrapping_mul(SPREAD), |&at| {
                    self.entries[at as usize].key.as_str() == key
                })
                .map(|&at| at as usize),
        }
    }

    /// The value of `key`.
    #[inline]
    pub fn get(&self, key: &Str) -> Option<&Value> {
        self.find(key).map(|at| &self.entries[at].value)
    }

    /// The value of the key with this text.
    pub fn get_str(&self, key: &str) -> Option<&Value> {
        self.find_text(key).map(|at| &self.entries[at].value)
    }

    /// The value of `key`, for writing.
    #[inline]
    pub fn get_mut(&mut self, key: &Str) -> Option<&mut Value> {
        self.find(key).map(|at| &mut self.entries[at].value)
    }

    /// Whether the key with this text is present.
    pub fn contains(&self, key: &str) -> bool {
        self.find_text(key).is_some()
    }

    /// Sets `key`, and returns the value it had.
    #[inline]
    pub fn insert(&mut self, key: impl Into<Str>, value: impl Into<Value>) -> Option<Value> {
        let (key, value) = (key.into(), value.into());
        if let Some(at) = self.find(&key) {
            return Some(std::mem::replace(&mut self.entries[at].value, value));
        }
        self.push_new(key, value);
        None
    }

    /// The value of `key`, added as nil when it was absent.
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

    /// The value of the key that is written as this int.
    pub fn get_int(&self, key: i64) -> Option<&Value> {
        self.get_str(itoa::Buffer::new().format(key))
    }

    /// As [`Dict::entry`] for the key that is written as this int: only a new key becomes a string.
    pub fn entry_int(&mut self, key: i64) -> &mut Value {
        let mut digits = itoa::Buffer::new();
        let text = digits.format(key);
        let at = match self.find_text(text) {
            Some(at) => at,
            None => {
                self.push_new(Str::new(text), Value::NIL);
                self.entries.len() - 1
            }
        };
        &mut self.entries[at].value
    }

    /// Sets all keys of `more`. Into an empty dict it is copied as it is, without hashing a key.
    pub fn spread(&mut self, more: &Dict) {
        if self.is_empty() {
            let (entries, table) = (more.entries.clone(), more.table.clone());
            *self = Dict { entries, table, unordered: more.unordered, order: OnceCell::new() };
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
        let hash = key.hash_code();
        self.entries.push(Entry { key, value });
        if let Some(table) = &mut self.table {
            let entries = &self.entries;
            table.insert_unique(u64::from(hash).wrapping_mul(SPREAD), at as u32, |&i| {
                u64::from(entries[i as usize].key.hash_code()).wrapping_mul(SPREAD)
            });
        } else if at >= SCAN_LIMIT {
            self.build_table();
        }
    }

    #[cold]
    fn build_table(&mut self) {
        let entries = &self.entries;
        let mut table = HashTable::with_capacity(entries.len() * 2);
        for at in 0..entries.len() as u32 {
            let hash = |i: &u32| u64::from(entries[*i as usize].key.hash_code()).wrapping_mul(SPREAD);
            table.insert_unique(hash(&at), at, hash);
        }
        self.table = Some(Box::new(table));
    }

    /// Removes the key with this text, and returns its value.
    pub fn remove(&mut self, key: &str) -> Option<Value> {
        let at = self.find_text(key)?;
        self.order.take();
        let last = self.entries.len() - 1;
        if let Some(table) = &mut self.table {
            let entries = &self.entries;
            let hash = |i: usize| u64::from(entries[i].key.hash_code()).wrapping_mul(SPREAD);
            if let Ok(slot) = table.find_entry(hash(at), |&i| i as usize == at) {
                slot.remove();
            }
            if at != last
                && let Some(moved) = table.find_mut(hash(last), |&i| i as usize == last)
            {
                *moved = at as u32;
            }
        }
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

    /// The entry at place `index` of the key order.
    pub fn nth(&self, index: usize) -> Option<(&Str, &Value)> {
        let at = match self.order() {
            Some(order) => *order.get(index)? as usize,
            None => index,
        };
        self.entries.get(at).map(|e| (&e.key, &e.value))
    }

    /// Entries in byte order of the keys.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&Str, &Value)> + ExactSizeIterator {
        let order = self.order();
        (0..self.entries.len()).map(move |i| {
            let e = &self.entries[order.map_or(i, |o| o[i] as usize)];
            (&e.key, &e.value)
        })
    }

    /// Entries in the order in which their keys were first written, for what people declare: schemas, parameters. Removing
    /// a key puts the last one in its place.
    pub fn written(&self) -> impl DoubleEndedIterator<Item = (&Str, &Value)> + ExactSizeIterator {
        self.entries.iter().map(|e| (&e.key, &e.value))
    }

    /// Keys in byte order.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &Str> + ExactSizeIterator {
        self.iter().map(|(k, _)| k)
    }

    /// Values in byte order of their keys.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &Value> + ExactSizeIterator {
        self.iter().map(|(_, v)| v)
    }

    /// All values, in no particular order.
    pub fn values_in_any_order(&self) -> impl Iterator<Item = &Value> {
        self.entries.iter().map(|e| &e.value)
    }

    /// All values for writing, in no particular order.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut Value> {
        self.entries.iter_mut().map(|e| &mut e.value)
    }
}

/// `hashbrown` takes its control bits from the top of a 64-bit hash and ours has 32: spread them.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

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
