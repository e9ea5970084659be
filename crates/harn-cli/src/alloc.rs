//! The allocator of the binary: mimalloc, counting bytes per thread for `--max-memory`.

use std::alloc::{GlobalAlloc, Layout};

use harn_value::memory::{allocated, freed};
use mimalloc::MiMalloc;

/// mimalloc that tells [`harn_value::memory`] what each thread takes and gives back.
pub(crate) struct Counting;

// SAFETY: every call goes to mimalloc with the same arguments; counting touches only two thread-local cells, which
// need no allocation themselves (they are const-initialised and have no destructor).
unsafe impl GlobalAlloc for Counting {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        allocated(layout.size());
        // SAFETY: the caller's contract is mimalloc's.
        unsafe { MiMalloc.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        allocated(layout.size());
        // SAFETY: as above.
        unsafe { MiMalloc.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        freed(layout.size());
        // SAFETY: as above.
        unsafe { MiMalloc.dealloc(at, layout) }
    }

    #[inline]
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        freed(layout.size());
        allocated(size);
        // SAFETY: as above.
        unsafe { MiMalloc.realloc(at, layout, size) }
    }
}
