//! The allocator of the binary: mimalloc, with byte counts for `--max-memory`.
//!
//! Large blocks come from the system allocator (see `LARGE`).
//!
//! mimalloc uses huge pages by default. They make programs with much data up to 25% faster, but raise the memory use of
//! a one-line program from 7 to 12 MiB. So they are disabled until the first large allocation. Large blocks of the
//! system allocator get them, too (see `HUGE`).

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, Ordering};

/// Sanitizers and valgrind track the system allocator.
#[cfg(feature = "system-allocator")]
use System as MiMalloc;
use harn_value::memory::{allocated, freed, large};
#[cfg(not(feature = "system-allocator"))]
use mimalloc::MiMalloc;

/// An allocation of this size indicates a program with much data. It uses the system allocator, which grows large
/// blocks by remapping pages instead of copying them. With copies, the kernel would clear three times the final size of
/// a list or string that grows by doubling.
const LARGE: usize = 1 << 20;

/// Blocks allocated with at least this size should use huge pages: the kernel then allocates 2 MiB at a time instead of
/// 4 KiB. Blocks that grow to this size do not, because the kernel would also clear spare capacity that may never be
/// used.
#[cfg(all(target_os = "linux", not(feature = "system-allocator")))]
const HUGE: usize = 4 << 20;

static SMALL: AtomicBool = AtomicBool::new(true);

/// Disables huge pages at startup. The loader calls it before mimalloc's initializer, which would otherwise allocate
/// huge pages.
#[cfg(target_os = "linux")]
#[used]
// SAFETY: the section contains pointers to functions of this type. The C runtime calls them once, in order of their
// number, before `main`. `start_small` needs no Rust runtime.
#[unsafe(link_section = ".init_array.00100")]
static BEFORE_ALL: extern "C" fn() = {
    extern "C" fn start_small() {
        huge_pages(false);
        crate::limits::look_at_output();
    }
    start_small
};

/// Called after a large allocation: enables huge pages, once, and triggers a check of the memory limit.
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
    // SAFETY: sets one flag of this process. A kernel without support returns an error and changes nothing.
    unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, off, unused, unused, unused) };
}

/// On other systems the kernel decides about huge pages.
#[cfg(not(target_os = "linux"))]
fn huge_pages(_on: bool) {}

/// Requests huge pages for a system allocator block of requested size `size`, if the block is non-null and large
/// enough.
#[cfg(all(target_os = "linux", not(feature = "system-allocator")))]
#[inline]
unsafe fn in_huge_pages(at: *mut u8, size: usize) -> *mut u8 {
    const PAGE: usize = 4096;
    if size >= HUGE && !at.is_null() {
        // The advice covers the whole mapping. For a part of it, the kernel would split the mapping and the allocator
        // could no longer grow it in place.
        // SAFETY: the block belongs to the system allocator. The advice does not change the contents of memory, and the
        // kernel rejects a range that does not start at a page boundary.
        unsafe {
            let end = at.add(libc::malloc_usable_size(at.cast()));
            let start = at.map_addr(|address| address & !(PAGE - 1));
            libc::madvise(start.cast(), end.addr() - start.addr(), libc::MADV_HUGEPAGE);
        }
    }
    at
}

/// In other configurations the system decides about huge pages.
#[cfg(not(all(target_os = "linux", not(feature = "system-allocator"))))]
#[inline]
unsafe fn in_huge_pages(at: *mut u8, _size: usize) -> *mut u8 {
    at
}

/// mimalloc that reports each thread's allocations and deallocations to [`harn_value::memory`].
pub(crate) struct Counting;

// SAFETY: every call is forwarded with the same arguments to mimalloc or to the system allocator, depending on the
// block's size. The caller passes the size when it frees a block, so the block returns to its allocator. Counting only
// accesses two thread-local cells that never allocate (they are const-initialized and have no destructor).
unsafe impl GlobalAlloc for Counting {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        allocated(layout.size());
        if layout.size() >= LARGE {
            grown();
            // SAFETY: the caller upholds the contract of `GlobalAlloc`, which both allocators share.
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
    /// `realloc` of a block that is large before or after.
    #[cold]
    unsafe fn realloc_large(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if layout.size() >= LARGE && size >= LARGE {
            freed(layout.size());
            allocated(size);
            grown();
            // SAFETY: the caller upholds the contract, and the block came from the system allocator.
            return unsafe { System.realloc(at, layout, size) };
        }
        // Moves the block from one allocator to the other.
        // SAFETY: by contract, `size` with the same alignment is a valid layout, and both blocks have room for the
        // copied bytes.
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
