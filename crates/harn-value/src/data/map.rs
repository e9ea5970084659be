//! A map with insertion order.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash, RandomState};
use std::slice;

use hashbrown::HashTable;

/// A map from keys to values in insertion order. Equality ignores the order.
///
/// Nearly all dicts of options, messages and events are small: up to [`SCANNED`] entries, a key is found by a linear
/// scan, so such a map is one allocation. Larger ones have an additional index.
#[derive(Debug, Clone)]
pub struct Map<K, V> {
    entries: Vec<(K, V)>,
    index: Option<Box<Index>>,
}

/// Maximum number of entries that are searched linearly.
const SCANNED: usize = 16;

/// Positions of the entries of a large map by the hash of their keys. Keys are untrusted input, so the hash is keyed.
#[derive(Debug, Clone, Default)]
struct Index {
    keyed: RandomState,
    places: HashTable<usize>,
}

impl Index {
    fn of<K: Hash, V>(entries: &[(K, V)]) -> Index {
        let mut index = Index { keyed: RandomState::new(), places: HashTable::with_capacity(entries.len()) };
        for at in 0..entries.len() {
            index.add(entries, at);
        }
        index
    }

    fn add<K: Hash, V>(&mut self, entries: &[(K, V)], at: usize) {
        let Index { keyed, places } = self;
        let hash = |at: &usize| keyed.hash_one(&entries[*at].0);
        places.insert_unique(hash(&at), at, hash);
    }

    fn forget<K: Hash, V>(&mut self, entries: &[(K, V)], at: usize) {
        let hash = self.keyed.hash_one(&entries[at].0);
        if let Ok(entry) = self.places.find_entry(hash, |place| *place == at) {
            entry.remove();
        }
    }
}

impl<K, V> Default for Map<K, V> {
    fn default() -> Self {
        Map { entries: Vec::new(), index: None }
    }
}

impl<K, V> Map<K, V> {
    /// Creates an empty map.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates an empty map with room for this many entries.
    #[must_use]
    pub fn with_capacity(entries: usize) -> Self {
        Map { entries: Vec::with_capacity(entries), index: None }
    }

    /// Returns the number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether the map is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Iterates over the entries.
    #[must_use]
    pub fn iter(&self) -> Iter<'_, K, V> {
        Iter(self.entries.iter())
    }

    /// Iterates over the entries with mutable values.
    pub fn iter_mut(&mut self) -> IterMut<'_, K, V> {
        IterMut(self.entries.iter_mut())
    }

    /// Iterates over the keys.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &K> + ExactSizeIterator + Clone {
        self.entries.iter().map(|(key, _)| key)
    }

    /// Iterates over the values.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &V> + ExactSizeIterator + Clone {
        self.entries.iter().map(|(_, value)| value)
    }

    /// Iterates over the values mutably.
    pub fn values_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut V> + ExactSizeIterator {
        self.entries.iter_mut().map(|(_, value)| value)
    }

    /// Consumes the map and iterates over its values.
    pub fn into_values(self) -> impl DoubleEndedIterator<Item = V> + ExactSizeIterator {
        self.entries.into_iter().map(|(_, value)| value)
    }

    /// Consumes the map and iterates over its keys.
    pub fn into_keys(self) -> impl DoubleEndedIterator<Item = K> + ExactSizeIterator {
        self.entries.into_iter().map(|(key, _)| key)
    }

    /// Removes all entries.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.index = None;
    }
}

impl<K: Hash + Eq, V> Map<K, V> {
    fn place<Q: ?Sized + Hash + Eq>(&self, key: &Q) -> Option<usize>
    where
        K: Borrow<Q>,
    {
        match &self.index {
            None => self.entries.iter().position(|(name, _)| name.borrow() == key),
            Some(index) => {
                let same = |at: &usize| self.entries[*at].0.borrow() == key;
                index.places.find(index.keyed.hash_one(key), same).copied()
            }
        }
    }

    /// Returns the value of a key.
    pub fn get<Q: ?Sized + Hash + Eq>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.place(key).map(|at| &self.entries[at].1)
    }

    /// Returns the value of a key for writing.
    pub fn get_mut<Q: ?Sized + Hash + Eq>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        self.place(key).map(|at| &mut self.entries[at].1)
    }

    /// Returns whether there is an entry with this key.
    pub fn contains_key<Q: ?Sized + Hash + Eq>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.place(key).is_some()
    }

    /// Sets the value of a key, appending a new key at the end; returns the old value.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        match self.place(&key) {
            Some(at) => Some(std::mem::replace(&mut self.entries[at].1, value)),
            None => {
                self.push(key, value);
                None
            }
        }
    }

    /// Appends an entry whose key is known to be new.
    fn push(&mut self, key: K, value: V) -> usize {
        let at = self.entries.len();
        self.entries.push((key, value));
        match &mut self.index {
            Some(index) => index.add(&self.entries, at),
            None if at >= SCANNED => self.index = Some(Box::new(Index::of(&self.entries))),
            None => {}
        }
        at
    }

    /// Removes an entry; the last entry moves to its position.
    pub fn remove<Q: ?Sized + Hash + Eq>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let (at, last) = (self.place(key)?, self.entries.len() - 1);
        if let Some(index) = &mut self.index {
            index.forget(&self.entries, at);
            if at != last {
                index.forget(&self.entries, last);
            }
        }
        let (_, value) = self.entries.swap_remove(at);
        if let Some(index) = self.index.as_mut().filter(|_| at != last) {
            index.add(&self.entries, at);
        }
        Some(value)
    }

    /// Removes an entry; later entries move up.
    pub fn shift_remove<Q: ?Sized + Hash + Eq>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let at = self.place(key)?;
        if let Some(index) = &mut self.index {
            index.forget(&self.entries, at);
            index.places.iter_mut().filter(|place| **place > at).for_each(|place| *place -= 1);
        }
        Some(self.entries.remove(at).1)
    }

    /// Inserts an entry at a position; returns the value of a replaced entry with the same key.
    pub fn shift_insert(&mut self, at: usize, key: K, value: V) -> Option<V> {
        let before = self.shift_remove(&key);
        self.entries.insert(at.min(self.entries.len()), (key, value));
        self.index_anew();
        before
    }

    /// Retains only the entries for which `keep` returns true.
    pub fn retain(&mut self, mut keep: impl FnMut(&K, &mut V) -> bool) {
        self.entries.retain_mut(|(key, value)| keep(key, value));
        self.index_anew();
    }

    fn index_anew(&mut self) {
        self.index = (self.entries.len() > SCANNED).then(|| Box::new(Index::of(&self.entries)));
    }

    /// Returns the entry of this key, which may be vacant.
    pub fn entry(&mut self, key: impl Into<K>) -> Entry<'_, K, V> {
        let key = key.into();
        let at = self.place(&key).ok_or(key);
        Entry { map: self, at }
    }

    /// Iterates over the entries in key order, in which the language iterates over dicts.
    pub fn sorted(&self) -> impl ExactSizeIterator<Item = (&K, &V)>
    where
        K: Ord,
    {
        let mut entries: Vec<(&K, &V)> = self.iter().collect();
        entries.sort_unstable_by(|a, b| a.0.cmp(b.0));
        entries.into_iter()
    }
}

/// An entry that may be vacant.
#[derive(Debug)]
pub struct Entry<'a, K, V> {
    map: &'a mut Map<K, V>,
    at: Result<usize, K>,
}

impl<'a, K: Hash + Eq, V> Entry<'a, K, V> {
    /// Returns the value; inserts the result of `make` if vacant.
    pub fn or_insert_with(self, make: impl FnOnce() -> V) -> &'a mut V {
        let at = match self.at {
            Ok(at) => at,
            Err(key) => self.map.push(key, make()),
        };
        &mut self.map.entries[at].1
    }

    /// Returns the value; inserts `value` if vacant.
    pub fn or_insert(self, value: V) -> &'a mut V {
        self.or_insert_with(|| value)
    }

    /// Returns the value; inserts the default if vacant.
    pub fn or_default(self) -> &'a mut V
    where
        V: Default,
    {
        self.or_insert_with(V::default)
    }
}

impl<K: Hash + Eq, V: PartialEq> PartialEq for Map<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().all(|(key, value)| other.get(key) == Some(value))
    }
}

impl<K: Hash + Eq, V: Eq> Eq for Map<K, V> {}

impl<K: Hash + Eq, V> FromIterator<(K, V)> for Map<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let entries = entries.into_iter();
        let mut map = Map::with_capacity(entries.size_hint().0);
        map.extend(entries);
        map
    }
}

impl<K: Hash + Eq, V> Extend<(K, V)> for Map<K, V> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        for (key, value) in entries {
            self.insert(key, value);
        }
    }
}

impl<K, V> IntoIterator for Map<K, V> {
    type Item = (K, V);
    type IntoIter = std::vec::IntoIter<(K, V)>;

    fn into_iter(self) -> Self::IntoIter {
        self.entries.into_iter()
    }
}

impl<'a, K, V> IntoIterator for &'a Map<K, V> {
    type Item = (&'a K, &'a V);
    type IntoIter = Iter<'a, K, V>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'a, K, V> IntoIterator for &'a mut Map<K, V> {
    type Item = (&'a K, &'a mut V);
    type IntoIter = IterMut<'a, K, V>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}

/// Iterator over the entries of a [`Map`].
#[derive(Debug)]
pub struct Iter<'a, K, V>(slice::Iter<'a, (K, V)>);

impl<K, V> Clone for Iter<'_, K, V> {
    fn clone(&self) -> Self {
        Iter(self.0.clone())
    }
}

/// Iterator over the entries of a [`Map`] with mutable values.
#[derive(Debug)]
pub struct IterMut<'a, K, V>(slice::IterMut<'a, (K, V)>);

macro_rules! walks {
    ($name:ident, $value:ty, $parts:expr) => {
        impl<'a, K, V> Iterator for $name<'a, K, V> {
            type Item = (&'a K, $value);

            fn next(&mut self) -> Option<Self::Item> {
                self.0.next().map($parts)
            }

            fn size_hint(&self) -> (usize, Option<usize>) {
                self.0.size_hint()
            }
        }

        impl<K, V> DoubleEndedIterator for $name<'_, K, V> {
            fn next_back(&mut self) -> Option<Self::Item> {
                self.0.next_back().map($parts)
            }
        }

        impl<K, V> ExactSizeIterator for $name<'_, K, V> {}
    };
}

walks!(Iter, &'a V, |(key, value)| (key, value));
walks!(IterMut, &'a mut V, |(key, value)| (&*key, value));

impl<K: Hash + Eq + Borrow<Q>, V, Q: ?Sized + Hash + Eq> std::ops::Index<&Q> for Map<K, V> {
    type Output = V;

    fn index(&self, key: &Q) -> &V {
        self.get(key).expect("an entry that is known to be there")
    }
}

impl<K: Hash + Eq + Borrow<Q>, V, Q: ?Sized + Hash + Eq> std::ops::IndexMut<&Q> for Map<K, V> {
    fn index_mut(&mut self, key: &Q) -> &mut V {
        self.get_mut(key).expect("an entry that is known to be there")
    }
}

#[cfg(test)]
mod tests {
    use indexmap::IndexMap;
    use proptest::prelude::*;

    use super::*;

    fn in_order(map: &Map<String, u8>) -> Vec<(String, u8)> {
        map.iter().map(|(key, value)| (key.clone(), *value)).collect()
    }

    proptest! {
        /// Small and large maps behave like `IndexMap`.
        #[test]
        fn it_is_a_map_that_keeps_its_order(steps in prop::collection::vec((0u8..7, 0u8..40, any::<u8>()), 0..120)) {
            let (mut ours, mut theirs) = (Map::<String, u8>::new(), IndexMap::<String, u8>::new());
            for (what, key, value) in steps {
                let key = format!("k{key}");
                match what {
                    0..=2 => prop_assert_eq!(ours.insert(key.clone(), value), theirs.insert(key, value)),
                    3 => prop_assert_eq!(ours.remove(&key), theirs.swap_remove(&key)),
                    4 => prop_assert_eq!(ours.shift_remove(&key), theirs.shift_remove(&key)),
                    5 => prop_assert_eq!(ours.entry(key.as_str()).or_insert(value), theirs.entry(key).or_insert(value)),
                    _ if value < 30 => {
                        ours.retain(|_, v| *v % 3 != 0);
                        theirs.retain(|_, v| *v % 3 != 0);
                    }
                    _ => {
                        let at = usize::from(value) % (theirs.len() + 1);
                        if !theirs.contains_key(&key) {
                            ours.shift_insert(at, key.clone(), value);
                            theirs.shift_insert(at, key, value);
                        }
                    }
                }
                let expected: Vec<_> = theirs.iter().map(|(key, value)| (key.clone(), *value)).collect();
                prop_assert_eq!(in_order(&ours), expected);
                for key in (0..40).map(|n| format!("k{n}")) {
                    prop_assert_eq!(ours.get(&key), theirs.get(&key));
                }
            }
            let mut backwards: Map<String, u8> = ours.iter().rev().map(|(key, value)| (key.clone(), *value)).collect();
            prop_assert_eq!(&backwards, &ours);
            backwards.insert("more".to_owned(), 0);
            prop_assert_ne!(&backwards, &ours);
        }
    }

    /// A reply with very many keys takes linear, not quadratic, time.
    #[test]
    fn large_dicts_are_found_by_an_index() {
        let map: Map<String, usize> = (0..100_000).map(|n| (n.to_string(), n)).collect();
        assert!(map.index.is_some() && (0..100_000).all(|n| map.get(n.to_string().as_str()) == Some(&n)));
        let small: Map<String, usize> = (0..SCANNED).map(|n| (n.to_string(), n)).collect();
        assert!(small.index.is_none());
    }
}
