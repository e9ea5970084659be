//! The system allocator with per-thread counters of bytes, so that the memory limit of the virtual machine is
//! enforced.

use std::alloc::{GlobalAlloc, Layout, System};

use harn_value::memory::{allocated, freed, large};
use harn_value::steps::LARGE;

/// The system allocator with counters.
pub(crate) struct Counting;

// SAFETY: every call is forwarded to the system allocator with the same arguments; the counters are two
// thread-local cells, which do not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        allocated(layout.size());
        if layout.size() >= LARGE {
            large();
        }
        // SAFETY: the caller fulfils the contract of the system allocator.
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
