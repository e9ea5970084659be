//! Where the characters of long text that is not all ASCII begin: one offset per 64 characters, made when somebody
//! first asks for a place, and kept beside the strings, since few of them need it.

use std::cell::RefCell;

use rustc_hash::FxHashMap;

/// Characters between two known offsets.
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

    /// Adds the characters of `tail`, which begins at byte `base` of the text.
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

    /// Byte offset of character `index` of `text`, or its length.
    pub(crate) fn offset(&self, text: &str, index: usize) -> usize {
        let Some(&start) = self.offsets.get(index / STEP) else { return text.len() };
        let rest = text.get(start..).unwrap_or_default();
        rest.char_indices().nth(index % STEP).map_or(text.len(), |(at, _)| start + at)
    }
}

thread_local! {
    /// By address of the string's header. A string that is in here is marked, and takes its entry out when it is freed.
    static INDEXES: RefCell<FxHashMap<usize, CharIndex>> = RefCell::default();
}

/// What `read` finds in the index of the string at `address`, if there is one.
pub(crate) fn with<R>(address: usize, read: impl FnOnce(&CharIndex) -> R) -> Option<R> {
    INDEXES.try_with(|indexes| indexes.borrow().get(&address).map(read)).ok().flatten()
}

/// Keeps the index of the string at `address`; false when the thread is ending.
pub(crate) fn keep(address: usize, index: CharIndex) -> bool {
    INDEXES.try_with(|indexes| drop(indexes.borrow_mut().insert(address, index))).is_ok()
}

/// Takes the index of the string at `address` out.
#[cold]
pub(crate) fn take(address: usize) -> Option<CharIndex> {
    INDEXES.try_with(|indexes| indexes.borrow_mut().remove(&address)).ok().flatten()
}

#[cfg(test)]
pub(crate) fn count() -> usize {
    INDEXES.with(|indexes| indexes.borrow().len())
}
