//! The allocator of the binary: mimalloc, counting bytes for `--max-memory`.
//!
//! Large blocks are the system allocator's (see `LARGE`).
//!
//! mimalloc asks the system for huge pages. They make programs with much data up to a quarter faster, but a program
//! of one line would take 12 MiB instead of 7. So they are off until something large is allocated. Large blocks of the
//! system allocator get them, too (see `HUGE`).

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, Ordering};

/// A sanitizer or valgrind watches the system's allocator.
#[cfg(feature = "system-allocator")]
use System as MiMalloc;
use harn_value::memory::{allocated, freed, large};
#[cfg(not(feature = "system-allocator"))]
use mimalloc::MiMalloc;

/// An allocation of this many bytes means that the program has much data. It is left to the system's allocator, which grows
/// large blocks by moving pages instead of copying them to fresh ones: a list or text that grows by doubling would
/// otherwise have the kernel clear three times the memory that it ends with.
const LARGE: usize = 1 << 20;

/// Blocks that are asked for with this size or more are to lie in huge pages: the kernel hands out 2 MiB at a time then, not
/// 4 KiB. Blocks that grow to it are not: they have room that may never be used, and would be cleared all the same.
#[cfg(all(target_os = "linux", not(feature = "system-allocator")))]
const HUGE: usize = 4 << 20;

static SMALL: AtomicBool = AtomicBool::new(true);

/// Goes without huge pages for now. The loader calls it before the allocator's own initialiser, whose first touch of
/// memory would otherwise be of huge pages already.
#[cfg(target_os = "linux")]
#[used]
// SAFETY: the section holds pointers to functions of this type, which the C runtime calls once, in order of their
// number, before `main`; `start_small` needs nothing of Rust's runtime.
#[unsafe(link_section = ".init_array.00100")]
static BEFORE_ALL: extern "C" fn() = {
    extern "C" fn start_small() {
        huge_pages(false);
        crate::limits::look_at_output();
    }
    start_small
};

/// After a large allocation was counted: turns huge pages on, once, and lets the limit be looked at.
#[cold]
fn grown() {
    large();
    if SMALL.swap(false, Ordering::Relaxed) {
        huge_pages(true);
    }
}

#[cfg(target_os = "linux")]
fn huge_pages(on: bool) {
    let (off, unused): (libc::c_ulong, libc::c_ulong) = (libc::c_ulong::from(!on), 0);
    // SAFETY: sets one flag of this process; a kernel that does not know it refuses and nothing changes.
    unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, off, unused, unused, unused) };
}

/// Elsewhere huge pages are the system's business.
#[cfg(not(target_os = "linux"))]
fn huge_pages(_on: bool) {}

/// Asks for huge pages for a block of the system allocator that `size` was asked for, if it is there and large enough.
#[cfg(all(target_os = "linux", not(feature = "system-allocator")))]
#[inline]
unsafe fn in_huge_pages(at: *mut u8, size: usize) -> *mut u8 {
    const PAGE: usize = 4096;
    if size >= HUGE && !at.is_null() {
        // The whole mapping of the block: the kernel splits one of which only a part is to have them, and the allocator
        // could not grow it in place any more.
        // SAFETY: the block is the system allocator's. The advice changes nothing of what is in memory, and the kernel
        // refuses it for a range that does not begin with a page.
        unsafe {
            let end = at.add(libc::malloc_usable_size(at.cast()));
            let start = at.map_addr(|address| address & !(PAGE - 1));
            libc::madvise(start.cast(), end.addr() - start.addr(), libc::MADV_HUGEPAGE);
        }
    }
    at
}

/// Elsewhere they are the system's business.
#[cfg(not(all(target_os = "linux", not(feature = "system-allocator"))))]
#[inline]
unsafe fn in_huge_pages(at: *mut u8, _size: usize) -> *mut u8 {
    at
}

/// mimalloc that reports to [`harn_value::memory`] what each thread allocates and frees.
pub(crate) struct Counting;

// SAFETY: every call goes to mimalloc or, by the size of the block, to the system's allocator, with the same arguments. Who
// gives a block back says its size, so it goes to where it came from. Counting touches only two thread-local cells, which
// need no allocation themselves (they are const-initialised and have no destructor).
unsafe impl GlobalAlloc for Counting {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        allocated(layout.size());
        if layout.size() >= LARGE {
            grown();
            // SAFETY: the caller's contract is that of both allocators.
            return unsafe { in_huge_pages(System.alloc(layout), layout.size()) };
        }
        // SAFETY: as above.
        unsafe { MiMalloc.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        allocated(layout.size());
        if layout.size() >= LARGE {
            grown();
            // SAFETY: as above.
            return unsafe { in_huge_pages(System.alloc_zeroed(layout), layout.size()) };
        }
        // SAFETY: as above.
        unsafe { MiMalloc.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        freed(layout.size());
        if layout.size() >= LARGE {
            // SAFETY: as above.
            return unsafe { System.dealloc(at, layout) };
        }
        // SAFETY: as above.
        unsafe { MiMalloc.dealloc(at, layout) }
    }

    #[inline]
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if layout.size() < LARGE && size < LARGE {
            freed(layout.size());
            allocated(size);
            // SAFETY: as above.
            return unsafe { MiMalloc.realloc(at, layout, size) };
        }
        // SAFETY: as above.
        unsafe { self.realloc_large(at, layout, size) }
    }
}

impl Counting {
    /// As `realloc`, where the block is large before or after.
    #[cold]
    unsafe fn realloc_large(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if layout.size() >= LARGE && size >= LARGE {
            freed(layout.size());
            allocated(size);
            grown();
            // SAFETY: by contract; the block came from there.
            return unsafe { System.realloc(at, layout, size) };
        }
        // From one allocator to the other.
        // SAFETY: by contract: `size` with the same alignment makes a layout, and both blocks have room for what is copied.
        unsafe {
            let new = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
            if !new.is_null() {
                new.copy_from_nonoverlapping(at, layout.size().min(size));
                self.dealloc(at, layout);
            }
            new
        }
    }
}
