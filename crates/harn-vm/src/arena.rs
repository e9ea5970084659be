//! Contiguous memory for the data that the interpreter reads while running: code and constants of all functions.
//!
//! Allocators place objects of different sizes in separate regions. A small program would be spread over as many
//! pages, whose addresses differ only in high bits, and calls would miss in caches that cannot hold all of them.

use std::alloc::Layout;
use std::cell::{Cell, RefCell};
use std::ops::Deref;
use std::ptr::NonNull;
use std::rc::Rc;

/// Size of a chunk in bytes; a larger array gets a separate chunk of its size.
const CHUNK: usize = 16 << 10;

/// Bytes left free at the start of a chunk: the allocator's regions begin with objects that are used equally often.
const OFFSET: usize = 1 << 10;

/// Alignment of chunks: no packed type needs a stricter one.
const ALIGN: usize = 64;

/// Allocates packed arrays.
#[derive(Default)]
pub(crate) struct Arena {
    chunk: RefCell<Option<Rc<Chunk>>>,
}

struct Chunk {
    start: NonNull<u8>,
    size: usize,
    used: Cell<usize>,
}

impl Chunk {
    fn layout(size: usize) -> Layout {
        // Sizes are those of arrays in memory, far below the limit.
        Layout::from_size_align(size, ALIGN).unwrap_or(Layout::new::<[u8; CHUNK]>())
    }

    fn new(size: usize) -> Rc<Chunk> {
        let layout = Self::layout(size);
        // SAFETY: the size is not zero.
        let start = unsafe { std::alloc::alloc(layout) };
        let Some(start) = NonNull::new(start) else { std::alloc::handle_alloc_error(layout) };
        Rc::new(Chunk { start, size: layout.size(), used: Cell::new(OFFSET) })
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout; every array in the chunk holds a reference to it.
        unsafe { std::alloc::dealloc(self.start.as_ptr(), Self::layout(self.size)) };
    }
}

impl Arena {
    /// Moves `items` into the arena.
    pub(crate) fn pack<T>(&self, items: Vec<T>) -> Packed<T> {
        let bytes = size_of::<T>() * items.len();
        if bytes == 0 {
            return Packed { items: NonNull::from(Box::leak(items.into_boxed_slice())), chunk: None };
        }
        let mut current = self.chunk.borrow_mut();
        let room = |chunk: &Chunk| {
            let at = chunk.used.get().next_multiple_of(align_of::<T>());
            (at + bytes <= chunk.size).then_some(at)
        };
        let fitting = current.as_ref().and_then(|chunk| Some((chunk.clone(), room(chunk)?)));
        let (chunk, at) = fitting.unwrap_or_else(|| {
            let chunk = Chunk::new(CHUNK.max(OFFSET + bytes));
            *current = Some(chunk.clone());
            (chunk, OFFSET)
        });
        let count = items.len();
        // SAFETY: `at` is aligned (chunks have a stricter alignment than any `T` needs) and the bytes from `at` on
        // are free. The items are moved: the vector they came from is freed without dropping them.
        let items = unsafe {
            let target = chunk.start.as_ptr().add(at).cast::<T>();
            let mut items = std::mem::ManuallyDrop::new(items);
            std::ptr::copy_nonoverlapping(items.as_ptr(), target, count);
            drop(Vec::from_raw_parts(items.as_mut_ptr(), 0, items.capacity()));
            NonNull::slice_from_raw_parts(NonNull::new_unchecked(target), count)
        };
        const { assert!(align_of::<T>() <= ALIGN) };
        chunk.used.set(at + bytes);
        Packed { items, chunk: Some(chunk) }
    }
}

/// An array in an arena. Its memory lives as long as any array of its chunk.
pub struct Packed<T> {
    items: NonNull<[T]>,
    /// `None` for an array of zero bytes.
    chunk: Option<Rc<Chunk>>,
}

impl<T> Deref for Packed<T> {
    type Target = [T];
    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: the items live until this is dropped.
        unsafe { self.items.as_ref() }
    }
}

impl<T> Drop for Packed<T> {
    fn drop(&mut self) {
        if self.chunk.is_some() {
            // SAFETY: this array owns the items, and the chunk is freed after them.
            unsafe { std::ptr::drop_in_place(self.items.as_ptr()) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_lie_together_and_outlive_the_arena() {
        let arena = Arena::default();
        let token = Rc::new(());
        let numbers = arena.pack(vec![1u8, 2, 3]);
        let tokens = arena.pack(vec![token.clone(), token.clone()]);
        let none = arena.pack(Vec::<Rc<()>>::new());
        let large = arena.pack(vec![7u64; CHUNK]);
        let after = arena.pack(vec![token.clone()]);
        drop(arena);
        assert!(tokens.as_ptr().addr() - numbers.as_ptr().addr() < 64);
        assert_eq!((&*numbers, none.len(), large.len(), large[CHUNK - 1]), (&[1, 2, 3][..], 0, CHUNK, 7));
        assert_eq!(Rc::strong_count(&token), 4);
        drop(tokens);
        drop(large);
        assert_eq!(Rc::strong_count(&after[0]), 2);
        drop(after);
        assert_eq!(Rc::strong_count(&token), 1);
        assert_eq!(numbers[2], 3);
    }
}
