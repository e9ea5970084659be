//! The system's allocator, counting bytes per thread, so that the memory limit of the machine works here too.

use std::alloc::{GlobalAlloc, Layout, System};

use harn_value::memory::{allocated, freed, large};
use harn_value::steps::LARGE;

/// The system's allocator with counts.
pub(crate) struct Counting;

// SAFETY: every call goes to the system's allocator with the same arguments; counting touches two thread-local cells,
// which need no allocation themselves.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        allocated(layout.size());
        if layout.size() >= LARGE {
            large();
        }
        // SAFETY: the caller's contract is the system's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        freed(layout.size());
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        freed(layout.size());
        allocated(size);
        if size >= LARGE {
            large();
        }
        // SAFETY: as above.
        unsafe { System.realloc(at, layout, size) }
    }
}
