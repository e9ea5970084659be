//! Byte offsets of characters in long strings that are not all ASCII: one offset per 64 characters. An index is created
//! on the first access by position and stored outside of the strings, because few strings need it.

use std::cell::RefCell;

use rustc_hash::FxHashMap;

/// Number of characters between two stored offsets.
const STEP: usize = 64;

/// Byte offsets of every [`STEP`]th character.
#[derive(Default)]
pub(crate) struct CharIndex {
    offsets: Vec<usize>,
    chars: usize,
}

impl CharIndex {
    pub(crate) fn new(text: &str) -> CharIndex {
        let mut index = CharIndex::default();
        index.extend(text, 0);
        index
    }

    /// Adds the characters of `tail`, which begins at byte `base` of the string.
    pub(crate) fn extend(&mut self, tail: &str, base: usize) {
        for (at, _) in tail.char_indices() {
            if self.chars.is_multiple_of(STEP) {
                self.offsets.push(base + at);
            }
            self.chars += 1;
        }
    }

    pub(crate) fn chars(&self) -> usize {
        self.chars
    }

    /// Returns the byte offset of character `index` of `text`, or its length.
    pub(crate) fn offset(&self, text: &str, index: usize) -> usize {
        let Some(&start) = self.offsets.get(index / STEP) else { return text.len() };
        let rest = text.get(start..).unwrap_or_default();
        rest.char_indices().nth(index % STEP).map_or(text.len(), |(at, _)| start + at)
    }
}

thread_local! {
    /// By address of the string's header. A string with an entry is marked, and removes it when it is freed.
    static INDEXES: RefCell<FxHashMap<usize, CharIndex>> = RefCell::default();
}

/// Calls `read` with the index of the string at `address`, if there is one.
pub(crate) fn with<R>(address: usize, read: impl FnOnce(&CharIndex) -> R) -> Option<R> {
    INDEXES.try_with(|indexes| indexes.borrow().get(&address).map(read)).ok().flatten()
}

/// Stores the index of the string at `address`; returns false if the thread is ending.
pub(crate) fn keep(address: usize, index: CharIndex) -> bool {
    INDEXES.try_with(|indexes| drop(indexes.borrow_mut().insert(address, index))).is_ok()
}

/// Removes and returns the index of the string at `address`.
#[cold]
pub(crate) fn take(address: usize) -> Option<CharIndex> {
    INDEXES.try_with(|indexes| indexes.borrow_mut().remove(&address)).ok().flatten()
}

#[cfg(test)]
pub(crate) fn count() -> usize {
    INDEXES.with(|indexes| indexes.borrow().len())
}
