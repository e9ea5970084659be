//! [`Str`]: immutable UTF-8 text in one allocation, with its hash and character count cached.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error, realloc};
use std::cell::Cell;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::ptr::NonNull;

/// What stands in front of the bytes of a string.
#[repr(C)]
pub(crate) struct StrHeader {
    pub(crate) count: Cell<usize>,
    /// Hash of the bytes; 0 while unknown.
    hash: Cell<u32>,
    /// Bytes in use.
    len: usize,
    /// Bytes allocated behind the header.
    capacity: usize,
    /// Number of Unicode scalar values; `UNKNOWN` until somebody asks.
    chars: Cell<usize>,
}

const UNKNOWN: usize = usize::MAX;
const HEADER: usize = size_of::<StrHeader>();

/// An immutable, counted UTF-8 string. Cloning bumps a count. Equality looks at the pointer first,
/// then at the cached hash and the bytes.
#[repr(transparent)]
pub struct Str(pub(crate) NonNull<StrHeader>);

fn layout(capacity: usize) -> Layout {
    HEADER
        .checked_add(capacity)
        .and_then(|size| Layout::from_size_align(size, align_of::<StrHeader>()).ok())
        .expect("sizes are bounded by memory::check before text is built")
}

impl Str {
    /// Copies `text` to the heap.
    pub fn new(text: &str) -> Str {
        Str::concat(text, "")
    }

    /// The text of `a` followed by `b`, in one allocation.
    pub fn concat(a: &str, b: &str) -> Str {
        let mut s = Str::with_capacity(a.len() + b.len());
        // SAFETY: fresh and unique, capacity reserved above.
        unsafe {
            s.push_unchecked(a.as_bytes());
            s.push_unchecked(b.as_bytes());
        }
        s
    }

    fn with_capacity(capacity: usize) -> Str {
        let layout = layout(capacity);
        // SAFETY: the layout is never empty (it holds the header).
        let raw = unsafe { alloc(layout) }.cast::<StrHeader>();
        let Some(ptr) = NonNull::new(raw) else { handle_alloc_error(layout) };
        // SAFETY: freshly allocated for a header.
        unsafe {
            ptr.write(StrHeader {
                count: Cell::new(1),
                hash: Cell::new(0),
                len: 0,
                capacity,
                chars: Cell::new(UNKNOWN),
            });
        }
        Str(ptr)
    }

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
        // SAFETY: a `Str` holds one count, so the header is alive.
        unsafe { self.0.as_ref() }
    }

    /// The text.
    #[inline(always)]
    pub fn as_str(&self) -> &str {
        let len = self.header().len;
        // SAFETY: `len` bytes behind the header were copied from `str`s.
        unsafe {
            let bytes = self.0.as_ptr().cast::<u8>().add(HEADER);
            std::str::from_utf8_unchecked(std::slice::from_raw_parts(bytes, len))
        }
    }

    /// Whether this is the only reference.
    #[inline(always)]
    pub fn is_unique(&self) -> bool {
        self.header().count.get() == 1
    }

    /// Appends `tail`: in place when this is the only reference (growing by doubling, so that
    /// repeated appends cost amortised constant time), else into a new string.
    pub fn push_str(&mut self, tail: &str) {
        if !self.is_unique() {
            // The copy is likely to be appended to again: leave room.
            let len = self.len() + tail.len();
            let mut copy = Str::with_capacity(len + len / 2);
            // SAFETY: fresh, with room for both parts.
            unsafe {
                copy.push_unchecked(self.as_bytes());
                copy.push_unchecked(tail.as_bytes());
            }
            *self = copy;
            return;
        }
        let (len, capacity) = (self.header().len, self.header().capacity);
        let needed = len + tail.len();
        // SAFETY: unique; `tail` may be a view of another string only, since `self` is borrowed mutably.
        unsafe {
            if needed > capacity {
                let grown = needed.max(capacity * 2).max(24);
                let raw = realloc(self.0.as_ptr().cast(), layout(capacity), layout(grown).size());
                let Some(ptr) = NonNull::new(raw.cast::<StrHeader>()) else {
                    handle_alloc_error(layout(grown))
                };
                self.0 = ptr;
                self.0.as_mut().capacity = grown;
            }
            let known = self.header().chars.get();
            let header = self.0.as_mut();
            header.hash.set(0);
            // Text that is all ASCII so far stays so when ASCII is appended; anything else is recounted on demand.
            header.chars.set(if known == len && tail.is_ascii() { needed } else { UNKNOWN });
            self.push_unchecked(tail.as_bytes());
        }
    }

    /// Number of Unicode scalar values, counted once.
    #[inline]
    pub fn char_count(&self) -> usize {
        let known = self.header().chars.get();
        if known != UNKNOWN {
            return known;
        }
        let count = self.as_str().chars().count();
        self.header().chars.set(count);
        count
    }

    /// Whether every character is one byte, so that positions are byte offsets.
    #[inline]
    pub fn is_ascii(&self) -> bool {
        self.char_count() == self.len()
    }

    /// Byte offset of character `index`, or the length if there are fewer.
    pub fn byte_offset(&self, index: usize) -> usize {
        if self.is_ascii() {
            return index.min(self.len());
        }
        self.as_str().char_indices().nth(index).map_or(self.len(), |(at, _)| at)
    }

    /// The characters from `start` to before `end`.
    pub fn char_range(&self, start: usize, end: usize) -> &str {
        if start >= end {
            return "";
        }
        let from = self.byte_offset(start);
        if self.is_ascii() {
            return &self.as_str()[from..end.min(self.len())];
        }
        let rest = &self.as_str()[from..];
        let to = rest.char_indices().nth(end - start).map_or(rest.len(), |(at, _)| at);
        &rest[..to]
    }

    /// The hash of the bytes (Fx with a fixed seed), computed once. Never 0, never shown to a program.
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

    /// Whether both are the same object.
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

/// The hash that [`Str::hash_code`] caches, for looking up text that is not a `Str`.
pub fn hash_text(text: &str) -> u32 {
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
    // SAFETY: called once, when the last reference is gone; the layout is the one it was allocated with.
    unsafe {
        let layout = layout(ptr.as_ref().capacity);
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
