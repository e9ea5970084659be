//! [`Str`]: an immutable UTF-8 string in one allocation, with its hash and character count cached.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error, realloc};
use std::cell::{Cell, OnceCell};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::ptr::NonNull;

use crate::char_index::{self, CharIndex};
use crate::pace::spend_bytes;
use crate::steps;

/// The header before the bytes of a string.
#[repr(C)]
pub(crate) struct StrHeader {
    pub(crate) count: Cell<usize>,
    /// Bytes in use.
    len: usize,
    /// Hash of the bytes; 0 while unknown.
    hash: Cell<u32>,
    /// Cached facts: the flags below, and in the other bits the number of characters.
    facts: Cell<u32>,
}

/// The capacity is [`room`] of the length; otherwise it equals the length.
const ROOMY: u32 = 1 << 31;
/// Every character is one byte.
const ASCII: u32 = 1 << 30;
/// Not every character is one byte, and the low bits store the number of characters.
const COUNTED: u32 = 1 << 29;
/// Not every character is one byte, and there is a [`CharIndex`].
const INDEXED: u32 = 1 << 28;
/// The bits that store the number of characters.
const CHARS: u32 = INDEXED - 1;

const HEADER: usize = size_of::<StrHeader>();
const _: () = assert!(HEADER == 24);

/// In shorter strings, a character is found by a linear scan.
const INDEX_FROM: usize = 256;

impl StrHeader {
    /// Returns the number of bytes allocated after the header.
    #[inline]
    fn capacity(&self) -> usize {
        if self.facts.get() & ROOMY != 0 { room(self.len) } else { self.len }
    }
}

/// An immutable, reference-counted UTF-8 string. Cloning increments the count. Equality compares the pointers first,
/// then the cached hash and the bytes.
#[repr(transparent)]
pub struct Str(pub(crate) NonNull<StrHeader>);

fn layout(capacity: usize) -> Layout {
    HEADER
        .checked_add(capacity)
        .and_then(|size| Layout::from_size_align(size, align_of::<StrHeader>()).ok())
        .expect("sizes are bounded by memory::check before text is built")
}

thread_local! {
    /// The strings of one ASCII character.
    static LETTERS: OnceCell<Box<[Str]>> = const { OnceCell::new() };
}

#[cold]
fn letters_of_ascii() -> Box<[Str]> {
    (0..128u8).map(|byte| Str::new(char::from(byte).encode_utf8(&mut [0; 4]))).collect()
}

/// Returns the facts about the characters of a string of `len` bytes with these facts, after `tail` is appended.
fn chars_with(facts: u32, len: usize, tail: &str) -> u32 {
    let known = match facts & (ASCII | COUNTED) {
        ASCII if tail.is_ascii() => return ASCII,
        ASCII => len,
        COUNTED => (facts & CHARS) as usize,
        _ => return 0,
    };
    let count = u32::try_from(known + tail.chars().count()).ok().filter(|count| *count <= CHARS);
    count.map_or(0, |count| COUNTED | count)
}

/// Returns the capacity of a growable string of `len` bytes: the next of 24, 32, 48, 64, 96, 128 and so on. It
/// depends on the length alone, so it need not be stored.
fn room(len: usize) -> usize {
    let above = len.max(24).next_power_of_two();
    let between = above / 4 * 3;
    if len <= between { between } else { above }
}

impl Str {
    /// Copies `text` to the heap; counts one step, so that code that creates many strings, or a large one, can be
    /// interrupted.
    pub fn new(text: &str) -> Str {
        steps::step();
        steps::room(text.len());
        Str::concat(text, "")
    }

    /// Concatenates `a` and `b` in one allocation.
    pub fn concat(a: &str, b: &str) -> Str {
        let mut s = Str::allocate(a.len() + b.len(), 0);
        // SAFETY: new and unique, capacity reserved above.
        unsafe {
            s.push_unchecked(a.as_bytes());
            s.push_unchecked(b.as_bytes());
        }
        s
    }

    fn allocate(capacity: usize, facts: u32) -> Str {
        spend_bytes(capacity);
        let layout = layout(capacity);
        // SAFETY: the layout is never empty (it holds the header).
        let raw = unsafe { alloc(layout) }.cast::<StrHeader>();
        let Some(ptr) = NonNull::new(raw) else { handle_alloc_error(layout) };
        // SAFETY: newly allocated for a header.
        unsafe {
            ptr.write(StrHeader { count: Cell::new(1), len: 0, hash: Cell::new(0), facts: Cell::new(facts) });
        }
        Str(ptr)
    }

    /// Appends bytes.
    ///
    /// # Safety
    /// The string is unique and has room for `bytes`, which continue valid UTF-8.
    unsafe fn push_unchecked(&mut self, bytes: &[u8]) {
        unsafe {
            let header = self.0.as_mut();
            let end = self.0.as_ptr().cast::<u8>().add(HEADER + header.len);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), end, bytes.len());
            header.len += bytes.len();
        }
    }

    #[inline(always)]
    fn header(&self) -> &StrHeader {
        // SAFETY: a `Str` holds one reference, so the header is alive.
        unsafe { self.0.as_ref() }
    }

    /// Returns the string.
    #[inline(always)]
    pub fn as_str(&self) -> &str {
        let len = self.header().len;
        // SAFETY: the `len` bytes after the header were copied from `str`s.
        unsafe {
            let bytes = self.0.as_ptr().cast::<u8>().add(HEADER);
            std::str::from_utf8_unchecked(std::slice::from_raw_parts(bytes, len))
        }
    }

    /// Returns whether this is the only reference.
    #[inline(always)]
    pub fn is_unique(&self) -> bool {
        self.header().count.get() == 1
    }

    /// Appends `tail`: in place if this is the only reference (growing by a third or a half, so that repeated appends
    /// take amortized constant time), otherwise to a new string.
    pub fn push_str(&mut self, tail: &str) {
        let len = self.len();
        let needed = len + tail.len();
        if !self.is_unique() {
            // The copy is likely to be appended to again, so reserve memory.
            let mut copy = Str::allocate(room(needed), ROOMY);
            // SAFETY: new, with room for both parts.
            unsafe {
                copy.push_unchecked(self.as_bytes());
                copy.push_unchecked(tail.as_bytes());
            }
            *self = copy;
            return;
        }
        let facts = self.header().facts.get();
        let index = if facts & INDEXED != 0 { char_index::take(self.address()) } else { None };
        let capacity = self.header().capacity();
        // SAFETY: unique; `tail` may be a view of another string only, since `self` is borrowed mutably.
        unsafe {
            if needed > capacity {
                let grown = room(needed);
                spend_bytes(grown);
                let raw = realloc(self.0.as_ptr().cast(), layout(capacity), layout(grown).size());
                let Some(ptr) = NonNull::new(raw.cast::<StrHeader>()) else {
                    handle_alloc_error(layout(grown))
                };
                self.0 = ptr;
            }
            // A string that grows is `ROOMY` from now on, even if its capacity was exact and nothing was added.
            let roomy = if needed > capacity { ROOMY } else { facts & ROOMY };
            let header = self.0.as_mut();
            header.hash.set(0);
            header.facts.set(roomy | chars_with(facts, len, tail));
            self.push_unchecked(tail.as_bytes());
        }
        if let Some(mut index) = index {
            index.extend(tail, len);
            self.keep(index);
        }
    }

    /// Returns the number of Unicode scalar values; cached.
    #[inline]
    pub fn char_count(&self) -> usize {
        let facts = self.header().facts.get();
        if facts & ASCII != 0 {
            self.len()
        } else if facts & COUNTED != 0 {
            (facts & CHARS) as usize
        } else {
            self.count_chars()
        }
    }

    #[cold]
    #[inline(never)]
    fn count_chars(&self) -> usize {
        let facts = self.header().facts.get();
        if facts & INDEXED != 0
            && let Some(count) = char_index::with(self.address(), CharIndex::chars)
        {
            return count;
        }
        if self.as_str().is_ascii() {
            self.header().facts.set(facts & ROOMY | ASCII);
            return self.len();
        }
        let count = self.as_str().chars().count();
        match u32::try_from(count).ok().filter(|count| *count <= CHARS) {
            Some(low) => self.header().facts.set(facts & (ROOMY | INDEXED) | COUNTED | low),
            // The index of a very long string stores the number.
            None => self.keep(CharIndex::new(self)),
        }
        count
    }

    /// Returns whether every character is one byte, so that positions are byte offsets.
    #[inline]
    pub fn is_ascii(&self) -> bool {
        self.header().facts.get() & ASCII != 0 || self.char_count() == self.len()
    }

    /// Returns the byte offset of character `index`, or the length if there are fewer characters.
    pub fn byte_offset(&self, index: usize) -> usize {
        if self.is_ascii() {
            return index.min(self.len());
        }
        if self.len() < INDEX_FROM {
            return self.as_str().char_indices().nth(index).map_or(self.len(), |(at, _)| at);
        }
        if self.header().facts.get() & INDEXED == 0 {
            self.keep(CharIndex::new(self));
        }
        char_index::with(self.address(), |known| known.offset(self, index)).unwrap_or_else(|| {
            // The thread is ending.
            self.as_str().char_indices().nth(index).map_or(self.len(), |(at, _)| at)
        })
    }

    fn address(&self) -> usize {
        self.0.as_ptr().addr()
    }

    fn keep(&self, index: CharIndex) {
        if char_index::keep(self.address(), index) {
            let facts = &self.header().facts;
            facts.set(facts.get() | INDEXED);
        }
    }

    /// Returns the characters from `start` to before `end`.
    pub fn char_range(&self, start: usize, end: usize) -> &str {
        if start >= end {
            return "";
        }
        let from = self.byte_offset(start);
        if self.is_ascii() {
            return &self.as_str()[from..end.min(self.len())];
        }
        let rest = &self.as_str()[from..];
        let to = if end - start < INDEX_FROM {
            rest.char_indices().nth(end - start).map_or(rest.len(), |(at, _)| at)
        } else {
            self.byte_offset(end) - from
        };
        &rest[..to]
    }

    /// Returns a string of one character; ASCII ones are cached.
    pub fn from_char(c: char) -> Str {
        let known = || LETTERS.try_with(|letters| letters.get_or_init(letters_of_ascii)[c as usize].clone());
        match c.is_ascii().then(known) {
            Some(Ok(letter)) => letter,
            _ => Str::new(c.encode_utf8(&mut [0; 4])),
        }
    }

    /// Returns the character at position `index` as a string; empty after the end.
    pub fn char_at(&self, index: usize) -> Str {
        let c = if self.is_ascii() {
            self.as_bytes().get(index).map(|byte| char::from(*byte))
        } else {
            self.as_str()[self.byte_offset(index)..].chars().next()
        };
        c.map_or_else(|| Str::new(""), Str::from_char)
    }

    /// Returns the hash of the bytes (Fx with a fixed seed); cached. Never 0, not visible to programs.
    #[inline(always)]
    pub fn hash_code(&self) -> u32 {
        let known = self.header().hash.get();
        if known != 0 { known } else { self.hash_slow() }
    }

    #[cold]
    fn hash_slow(&self) -> u32 {
        let hash = hash_text(self.as_str());
        self.header().hash.set(hash);
        hash
    }

    /// Returns whether both are the same object.
    #[inline(always)]
    pub fn same(a: &Str, b: &Str) -> bool {
        a.0 == b.0
    }

    #[inline(always)]
    pub(crate) fn into_raw(self) -> *mut () {
        let raw = self.0.as_ptr().cast();
        std::mem::forget(self);
        raw
    }
}

/// Computes the hash that [`Str::hash_code`] caches, for looking up strings that are not a `Str`.
pub(crate) fn hash_text(text: &str) -> u32 {
    let mut hasher = rustc_hash::FxHasher::default();
    hasher.write(text.as_bytes());
    let hash = hasher.finish();
    ((hash >> 32) as u32 ^ hash as u32) | 1
}

impl Deref for Str {
    type Target = str;
    #[inline(always)]
    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl Clone for Str {
    #[inline(always)]
    fn clone(&self) -> Str {
        let count = &self.header().count;
        count.set(count.get() + 1);
        Str(self.0)
    }
}

impl Drop for Str {
    #[inline(always)]
    fn drop(&mut self) {
        let header = self.header();
        let left = header.count.get() - 1;
        header.count.set(left);
        if left == 0 {
            free(self.0);
        }
    }
}

#[inline(never)]
fn free(ptr: NonNull<StrHeader>) {
    // SAFETY: called once, when the last reference is dropped; the layout is the one it was allocated with.
    unsafe {
        let header = ptr.as_ref();
        if header.facts.get() & INDEXED != 0 {
            char_index::take(ptr.as_ptr().addr());
        }
        let layout = layout(header.capacity());
        dealloc(ptr.as_ptr().cast(), layout);
    }
}

impl PartialEq for Str {
    #[inline(always)]
    fn eq(&self, other: &Str) -> bool {
        self.0 == other.0 || (self.len() == other.len() && self.as_bytes() == other.as_bytes())
    }
}

impl Eq for Str {}

impl PartialEq<str> for Str {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for Str {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl Hash for Str {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u32(self.hash_code());
    }
}

impl PartialOrd for Str {
    fn partial_cmp(&self, other: &Str) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Str {
    fn cmp(&self, other: &Str) -> std::cmp::Ordering {
        self.as_str().cmp(other.as_str())
    }
}

impl From<&str> for Str {
    fn from(text: &str) -> Str {
        Str::new(text)
    }
}

impl From<String> for Str {
    fn from(text: String) -> Str {
        Str::new(&text)
    }
}

impl fmt::Display for Str {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Str {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn grows_and_finds_characters_as_string_does(
            parts in prop::collection::vec("[a-zé€\u{1F600}]{0,90}", 0..12),
            share in prop::collection::vec(any::<bool>(), 12),
            places in prop::collection::vec(0usize..1200, 8),
        ) {
            let mut text = Str::new("");
            let mut model = String::new();
            let mut held = Vec::new();
            for (part, share) in parts.iter().zip(share) {
                if share {
                    held.push((text.clone(), model.clone()));
                }
                let place = places[0] % (model.chars().count() + 1);
                prop_assert_eq!(text.byte_offset(place), model.char_indices().nth(place).map_or(model.len(), |(at, _)| at));
                text.push_str(part);
                model.push_str(part);
                prop_assert_eq!(text.as_str(), model.as_str());
                prop_assert_eq!(text.char_count(), model.chars().count());
                prop_assert_eq!(text.is_ascii(), model.is_ascii());
            }
            for pair in places.windows(2) {
                let (start, end) = (pair[0].min(pair[1]), pair[0].max(pair[1]));
                let want: String = model.chars().skip(start).take(end - start).collect();
                prop_assert_eq!(text.char_range(start, end), want.as_str());
            }
            for (text, model) in held {
                prop_assert_eq!(text.as_str(), model.as_str());
                prop_assert_eq!(text.char_count(), model.chars().count());
            }
        }
    }

    #[test]
    fn an_index_lives_as_long_as_its_text() {
        let before = char_index::count();
        let mut text = Str::new(&"é".repeat(1000));
        assert_eq!(text.byte_offset(900), 1800);
        assert_eq!(char_index::count(), before + 1);
        text.push_str(&"x".repeat(1000));
        assert_eq!(text.byte_offset(1500), 2500);
        assert_eq!(text.char_count(), 2000);
        assert_eq!(char_index::count(), before + 1);
        drop(text);
        assert_eq!(char_index::count(), before);
    }

    #[test]
    fn room_depends_on_the_length_alone() {
        for len in 0..5000 {
            let room = room(len);
            assert!(room >= len && super::room(room) == room && (len < 24 || room < 2 * len));
        }
    }
}
