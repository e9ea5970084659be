//! [`Set`]: unique values in insertion order.

use std::cell::OnceCell;
use std::hash::Hasher;

use hashbrown::HashTable;
use rustc_hash::FxHasher;

use crate::Value;
use crate::array_part::ArrayPart;
use crate::equal::{hash_structure, identical};

/// Position of an element that the int array does not cover.
#[derive(Clone, Copy)]
struct Slot {
    hash: u32,
    at: u32,
}

impl Slot {
    /// Returns the hash from which the table takes its positions (low bits) and control bytes (high bits).
    #[inline(always)]
    fn table_hash(self) -> u64 {
        table_hash(self.hash)
    }
}

#[inline(always)]
fn table_hash(hash: u32) -> u64 {
    let hash = u64::from(hash);
    hash | ((hash >> MARK_FROM) << (32 + MARK_FROM))
}

/// The bits of a hash from this one on become the table's control byte.
const MARK_FROM: u32 = 25;

/// Unique values in the order of their first insertion. Elements are distinguished by structure and type.
///
/// Entries are stored in a vector. A removed element leaves a hole, so that removal takes constant time. Holes at the
/// end are removed at once, holes at the front are skipped and removed when there are many, holes in between when they
/// outnumber the elements. If there are holes in between, the positions of the elements are computed on the first
/// iteration and cached until the next change.
#[derive(Default)]
pub struct Set {
    /// [`Value::ABSENT`] for a removed element.
    entries: Vec<Value>,
    /// Positions in `entries` of the covered ints.
    ints: ArrayPart,
    /// Positions of all other elements.
    table: HashTable<Slot>,
    /// Number of elements.
    len: usize,
    /// Number of entries before the first element.
    head: usize,
    order: OnceCell<Box<[u32]>>,
}

impl Clone for Set {
    fn clone(&self) -> Set {
        crate::pace::spend_items(self.len);
        let Set { entries, ints, table, len, head, order } = self;
        Set {
            entries: entries.clone(),
            ints: ints.clone(),
            table: table.clone(),
            len: *len,
            head: *head,
            order: order.clone(),
        }
    }
}

fn hash(value: &Value) -> u32 {
    if let Some(i) = value.as_int() {
        return hash_int(i);
    }
    let mut hasher = FxHasher::default();
    hash_structure(value, &mut hasher);
    let hash = hasher.finish();
    (hash ^ (hash >> 32)) as u32
}

/// Consecutive ints get adjacent positions in the table (low bits), which is cache-friendly. Distant ints are spread,
/// and the bits that are compared first (high bits) are mixed.
#[inline]
fn hash_int(i: i64) -> u32 {
    const MIX: u64 = 0x9E37_79B9_7F4A_7C15;
    let i = i as u64;
    let place = i.wrapping_add((i >> 12).wrapping_mul(MIX) >> 20);
    let places = (1 << MARK_FROM) - 1;
    (place & places) as u32 | ((i.wrapping_mul(MIX) >> 32) as u32 & !(places as u32))
}

impl Set {
    /// Creates an empty set.
    pub fn new() -> Set {
        Set::default()
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds `value`; returns false if it was already present.
    #[inline]
    pub fn insert(&mut self, value: Value) -> bool {
        if let Some(int) = value.as_int()
            && let Some(known) = self.ints.find(int)
        {
            if known.is_some() {
                return false;
            }
            self.ints.set(int, self.entries.len() as u32);
            self.push(value);
            return true;
        }
        self.insert_hashed(value)
    }

    /// Like [`Set::insert`], for values that the array does not cover.
    fn insert_hashed(&mut self, value: Value) -> bool {
        let hash = hash(&value);
        if self.find(hash, &value).is_some() {
            return false;
        }
        let place = self.entries.len() as u32;
        // The table is about to be rebuilt, so check whether its elements are ints.
        let full = self.table.len() == self.table.capacity();
        self.push(value);
        if full && self.entries.last().is_some_and(|last| last.as_int().is_some()) {
            self.cover_ints();
        }
        let covered = self.entries[place as usize].as_int().is_some_and(|int| self.ints.set(int, place));
        if !covered {
            let slot = Slot { hash, at: place };
            self.table.insert_unique(slot.table_hash(), slot, |slot| slot.table_hash());
        }
        true
    }

    #[inline(always)]
    fn push(&mut self, value: Value) {
        self.entries.push(value);
        self.len += 1;
        if self.order.get().is_some() {
            self.order.take();
        }
    }

    /// Moves ints from the table to the array, if there are enough of them.
    #[cold]
    fn cover_ints(&mut self) {
        let Set { entries, ints, table, .. } = self;
        if ints.grow(entries.iter().filter_map(Value::as_int)) {
            table
                .retain(|slot| !entries[slot.at as usize].as_int().is_some_and(|int| ints.set(int, slot.at)));
        }
    }

    /// Returns the position of a value that the array does not cover.
    #[inline]
    fn find(&self, hash: u32, value: &Value) -> Option<u32> {
        let same = |slot: &Slot| slot.hash == hash && identical(&self.entries[slot.at as usize], value);
        self.table.find(table_hash(hash), same).map(|slot| slot.at)
    }

    /// Returns whether `value` is an element.
    #[inline]
    pub fn contains(&self, value: &Value) -> bool {
        if let Some(int) = value.as_int()
            && let Some(known) = self.ints.find(int)
        {
            return known.is_some();
        }
        !self.table.is_empty() && self.find(hash(value), value).is_some()
    }

    /// Removes `value`, preserving the order of the others; returns false if it was absent.
    pub fn remove(&mut self, value: &Value) -> bool {
        let covered = value.as_int().filter(|int| self.ints.find(*int).is_some());
        let at = match covered {
            Some(int) => self.ints.clear(int),
            None => self.remove_hashed(value),
        };
        let Some(at) = at else { return false };
        self.vacate(at as usize);
        true
    }

    /// Makes a hole for an element that is no longer referenced by the index.
    #[inline(always)]
    fn vacate(&mut self, at: usize) {
        self.len -= 1;
        self.entries[at].put(Value::ABSENT);
        if self.order.get().is_some() {
            self.order.take();
        }
        if self.len == 0 {
            self.entries.clear();
            self.head = 0;
            return;
        }
        if at == self.head {
            while self.entries.get(self.head).is_some_and(Value::is_absent) {
                self.head += 1;
            }
        } else if at + 1 == self.entries.len() {
            while self.entries.pop_if(|last| last.is_absent()).is_some() {}
        }
        // Holes at the front are limited as well, because a copy of the set takes time for all entries.
        if self.entries.len() - self.head > 2 * self.len + 8 || self.head > 8 * self.len + 64 {
            self.close_holes();
        }
    }

    /// Returns whether `int` is an element if the array covers it; `None` if it has to be hashed.
    #[inline(always)]
    pub fn contains_int(&self, int: i64) -> Option<bool> {
        match self.ints.find(int) {
            Some(known) => Some(known.is_some()),
            None => self.table.is_empty().then_some(false),
        }
    }

    /// Adds `int` if the array covers it and there is room; otherwise returns false without any effect.
    #[inline(always)]
    pub fn insert_int(&mut self, int: i64) -> bool {
        match self.ints.find(int) {
            Some(Some(_)) => true,
            Some(None) if self.entries.len() < self.entries.capacity() => {
                self.ints.set(int, self.entries.len() as u32);
                self.push(Value::int(int));
                true
            }
            _ => false,
        }
    }

    /// Removes `int` if the array covers it; returns false without any effect if it has to be hashed.
    #[inline(always)]
    pub fn remove_int(&mut self, int: i64) -> bool {
        let known = self.ints.find(int);
        if let Some(Some(at)) = known {
            self.ints.clear(int);
            self.vacate(at as usize);
        }
        known.is_some()
    }

    fn remove_hashed(&mut self, value: &Value) -> Option<u32> {
        if self.table.is_empty() {
            return None;
        }
        let hash = hash(value);
        let entries = &self.entries;
        let same = |slot: &Slot| slot.hash == hash && identical(&entries[slot.at as usize], value);
        self.table.find_entry(table_hash(hash), same).ok().map(|slot| slot.remove().0.at)
    }

    #[cold]
    #[inline(never)]
    fn close_holes(&mut self) {
        if !self.table.is_empty() {
            // The new position of each entry.
            let mut places = vec![0; self.entries.len()];
            let mut next = 0;
            for (entry, place) in self.entries.iter().zip(&mut places) {
                *place = next;
                next += u32::from(!entry.is_absent());
            }
            for slot in self.table.iter_mut() {
                slot.at = places[slot.at as usize];
            }
        }
        self.entries.drain(..self.head);
        self.head = 0;
        self.entries.retain(|entry| !entry.is_absent());
        for (at, entry) in self.entries.iter().enumerate() {
            if let Some(int) = entry.as_int() {
                self.ints.set(int, at as u32);
            }
        }
    }

    /// Returns the positions of the elements if there are holes between them.
    fn order(&self) -> Option<&[u32]> {
        if self.entries.len() - self.head == self.len {
            return None;
        }
        Some(self.order.get_or_init(|| {
            let places = self.entries.iter().enumerate().filter(|(_, entry)| !entry.is_absent());
            places.map(|(at, _)| at as u32).collect()
        }))
    }

    /// Returns the element at position `index` of the insertion order.
    pub fn nth(&self, index: usize) -> Option<&Value> {
        let at = match self.order() {
            Some(order) => *order.get(index)? as usize,
            None => self.head.checked_add(index)?,
        };
        self.entries.get(at)
    }

    /// Iterates over the elements in insertion order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Value> + ExactSizeIterator {
        let order = self.order();
        (0..self.len).map(move |i| &self.entries[order.map_or(self.head + i, |order| order[i] as usize)])
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

    proptest! {
        #[test]
        fn ints_in_the_array_and_others_in_the_table_are_one_set(
            ops in prop::collection::vec((0u8..3, 0usize..400), 0..1500),
            (step, start) in (prop::sample::select(vec![1i64, 3, 5, 1 << 20]), -60i64..60),
        ) {
            // Some of the values are strings, some negative, some covered by the array and some not.
            let value = |n: usize| match n % 7 {
                0 => Value::from(n.to_string()),
                1 => Value::float(n as f64),
                _ => Value::int(start + n as i64 * step),
            };
            let mut set = Set::new();
            let mut model: Vec<usize> = Vec::new();
            for (op, n) in ops {
                let known = model.contains(&n);
                let int = value(n).as_int();
                if let Some(told) = int.and_then(|int| set.contains_int(int)) {
                    prop_assert_eq!(told, known);
                }
                if op == 2 {
                    if int.is_some_and(|int| set.remove_int(int)) {
                        prop_assert!(!set.remove(&value(n)));
                    } else {
                        prop_assert_eq!(set.remove(&value(n)), known);
                    }
                    model.retain(|m| *m != n);
                } else if int.is_some_and(|int| set.insert_int(int)) {
                    prop_assert!(!set.insert(value(n)));
                    if !known {
                        model.push(n);
                    }
                } else {
                    prop_assert_eq!(set.insert(value(n)), !known);
                    if !known {
                        model.push(n);
                    }
                }
                prop_assert_eq!(set.len(), model.len());
            }
            for n in 0..400 {
                prop_assert_eq!(set.contains(&value(n)), model.contains(&n));
            }
            prop_assert!(set.iter().zip(&model).all(|(v, n)| identical(v, &value(*n))));
            prop_assert_eq!(set.iter().len(), model.len());
        }
    }

    #[test]
    fn ints_that_follow_each_other_need_no_table() {
        let mut set: Set = (0..100_000).map(|i| Value::int(i * 7919 % 100_003)).collect();
        assert!(set.table.is_empty() && set.ints.len() < 300_000, "{} {}", set.table.len(), set.ints.len());
        set.insert(Value::int(1 << 40));
        set.insert(Value::int(-1));
        assert_eq!((set.table.len(), set.len()), (2, 100_002));
        let far: Set = (0..1000).map(|i| Value::int(i << 20)).collect();
        assert!(far.ints.len() <= 4);
    }

    #[test]
    fn ints_in_any_steps_are_spread() {
        for step in [1, 2, 7, 16, 1 << 10, 1 << 12, 1 << 16, 1 << 20, 1 << 32, (1 << 40) + 1, -3, -4096] {
            let mut places = vec![0u32; 4096];
            (0..2000i64).for_each(|n| places[table_hash(hash_int(n * step)) as usize % 4096] += 1);
            let most = places.iter().max().copied().unwrap_or(0);
            assert!(most <= 40, "{most} ints of 2000 in one place at steps of {step}");
        }
    }

    #[test]
    fn holes_in_front_are_few_and_places_stay_right() {
        // As a queue: values are added at the end and removed at the front, a mix of ints and strings.
        let value = |i: i64| if i % 3 == 0 { Value::from(i.to_string()) } else { Value::int(i) };
        let mut set = Set::new();
        for i in 0..5000 {
            set.insert(value(i));
            if i >= 40 {
                assert!(set.remove(&value(i - 40)));
            }
            assert!(set.entries.len() <= 9 * set.len() + 65, "{} of {}", set.entries.len(), set.len());
            assert!(!set.contains(&value(i - 40)));
            assert!(set.contains(&value(i)) && set.contains(&value((i - 39).max(0))));
        }
        assert!(set.iter().zip(4960..5000).all(|(v, i)| identical(v, &value(i))));
        for i in (4960..5000).rev() {
            assert!(set.remove(&value(i)));
            assert_eq!(set.nth(0).is_some(), i > 4960);
        }
        assert_eq!((set.entries.len(), set.head, set.len()), (0, 0, 0));
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
