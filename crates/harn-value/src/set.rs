//! [`Set`]: unique values in the order of their first insertion.

use std::cell::OnceCell;
use std::hash::Hasher;

use hashbrown::HashTable;
use rustc_hash::FxHasher;

use crate::Value;
use crate::equal::{hash_structure, identical};

#[derive(Clone)]
struct Entry {
    hash: u64,
    /// [`Value::ABSENT`] where an element was removed.
    value: Value,
}

/// Unique values in the order of their first insertion. Elements count by structure and type.
///
/// Entries live in a vector. A removed element leaves a hole, so that removal takes constant time; holes at either
/// end go at once, the others when they outnumber the elements. With holes in between, the places of the elements
/// are listed when something iterates, and kept until the next change.
#[derive(Clone, Default)]
pub struct Set {
    entries: Vec<Entry>,
    /// Places in `entries`.
    table: HashTable<u32>,
    /// Entries in front of the first element.
    head: usize,
    order: OnceCell<Box<[u32]>>,
}

fn hash(value: &Value) -> u64 {
    if let Some(i) = value.as_int() {
        return hash_int(i);
    }
    let mut hasher = FxHasher::default();
    hash_structure(value, &mut hasher);
    hasher.finish()
}

/// Ints that follow each other get neighbouring places in the table (the low bits), where the processor finds them fast.
/// Those that are far apart are spread, and the marks that are compared first (the high bits) are mixed.
#[inline]
fn hash_int(i: i64) -> u64 {
    const MIX: u64 = 0x9E37_79B9_7F4A_7C15;
    let i = i as u64;
    let place = i.wrapping_add((i >> 12).wrapping_mul(MIX) >> 20);
    (place & (u64::MAX >> 7)) | (i.wrapping_mul(MIX) & !(u64::MAX >> 7))
}

impl Set {
    /// An empty set.
    pub fn new() -> Set {
        Set::default()
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Adds `value`; false if it was there already.
    pub fn insert(&mut self, value: Value) -> bool {
        let hash = hash(&value);
        let entries = &self.entries;
        let known = |&at: &u32| {
            let entry = &entries[at as usize];
            entry.hash == hash && identical(&entry.value, &value)
        };
        if self.table.find(hash, known).is_some() {
            return false;
        }
        self.table.insert_unique(hash, entries.len() as u32, |&at| entries[at as usize].hash);
        self.entries.push(Entry { hash, value });
        self.order.take();
        true
    }

    /// Whether `value` is an element.
    pub fn contains(&self, value: &Value) -> bool {
        if self.is_empty() {
            return false;
        }
        let hash = hash(value);
        let same = |&at: &u32| {
            let entry = &self.entries[at as usize];
            entry.hash == hash && identical(&entry.value, value)
        };
        self.table.find(hash, same).is_some()
    }

    /// Removes `value`, keeping the order of the others; false if it was absent.
    pub fn remove(&mut self, value: &Value) -> bool {
        if self.is_empty() {
            return false;
        }
        let hash = hash(value);
        let entries = &self.entries;
        let same = |&at: &u32| {
            let entry = &entries[at as usize];
            entry.hash == hash && identical(&entry.value, value)
        };
        let Ok(slot) = self.table.find_entry(hash, same) else { return false };
        let at = slot.remove().0 as usize;
        self.entries[at].value.put(Value::ABSENT);
        self.order.take();
        while self.entries.pop_if(|last| last.value.is_absent()).is_some() {}
        while self.entries.get(self.head).is_some_and(|first| first.value.is_absent()) {
            self.head += 1;
        }
        self.head = self.head.min(self.entries.len());
        if self.entries.len() > 2 * self.len() + 8 {
            self.close_holes();
        }
        true
    }

    fn close_holes(&mut self) {
        self.entries.retain(|entry| !entry.value.is_absent());
        self.head = 0;
        self.table.clear();
        let entries = &self.entries;
        for (at, entry) in entries.iter().enumerate() {
            self.table.insert_unique(entry.hash, at as u32, |&at| entries[at as usize].hash);
        }
    }

    /// Places of the elements, when there are holes between them.
    fn order(&self) -> Option<&[u32]> {
        if self.entries.len() - self.head == self.len() {
            return None;
        }
        Some(self.order.get_or_init(|| {
            let places = self.entries.iter().enumerate().filter(|(_, entry)| !entry.value.is_absent());
            places.map(|(at, _)| at as u32).collect()
        }))
    }

    /// Element at place `index` of the insertion order.
    pub fn nth(&self, index: usize) -> Option<&Value> {
        let at = match self.order() {
            Some(order) => *order.get(index)? as usize,
            None => self.head.checked_add(index)?,
        };
        self.entries.get(at).map(|entry| &entry.value)
    }

    /// Elements in insertion order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Value> + ExactSizeIterator {
        let order = self.order();
        (0..self.len())
            .map(move |i| &self.entries[order.map_or(self.head + i, |order| order[i] as usize)].value)
    }
}

impl FromIterator<Value> for Set {
    fn from_iter<I: IntoIterator<Item = Value>>(items: I) -> Set {
        let mut set = Set::new();
        for value in items {
            set.insert(value);
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn behaves_like_a_list_without_repetitions(ops in prop::collection::vec((0u8..4, 0i64..30), 0..300)) {
            let mut set = Set::new();
            let mut model: Vec<i64> = Vec::new();
            for (op, item) in ops {
                let known = model.contains(&item);
                match op {
                    0 | 1 => {
                        prop_assert_eq!(set.insert(Value::int(item)), !known);
                        if !known {
                            model.push(item);
                        }
                    }
                    2 => {
                        prop_assert_eq!(set.remove(&Value::int(item)), known);
                        model.retain(|i| *i != item);
                    }
                    _ => prop_assert_eq!(set.nth(3).and_then(Value::as_int), model.get(3).copied()),
                }
                prop_assert_eq!(set.len(), model.len());
                prop_assert_eq!(set.contains(&Value::int(item)), model.contains(&item));
                prop_assert_eq!(set.nth(model.len()).is_none(), true);
            }
            let got: Vec<i64> = set.iter().filter_map(Value::as_int).collect();
            prop_assert_eq!(&got, &model);
            let back: Vec<i64> = set.clone().iter().rev().filter_map(Value::as_int).collect();
            model.reverse();
            prop_assert_eq!(&back, &model);
        }
    }

    #[test]
    fn ints_in_any_steps_are_spread() {
        for step in [1, 2, 7, 16, 1 << 10, 1 << 12, 1 << 16, 1 << 20, 1 << 32, (1 << 40) + 1, -3, -4096] {
            let mut places = vec![0u32; 4096];
            (0..2000i64).for_each(|n| places[hash_int(n * step) as usize % 4096] += 1);
            let most = places.iter().max().copied().unwrap_or(0);
            assert!(most <= 40, "{most} ints of 2000 in one place at steps of {step}");
        }
    }

    #[test]
    fn removing_leaves_no_more_holes_than_elements() {
        let mut set: Set = (0..10_000).map(Value::int).collect();
        for i in (0..10_000).filter(|i| i % 100 != 0) {
            set.remove(&Value::int(i));
        }
        assert_eq!(set.len(), 100);
        assert!(set.entries.len() <= 2 * set.len() + 8);
    }
}
