//! The allocator of the binary: mimalloc, counting bytes per thread for `--max-memory`.
//!
//! mimalloc asks the system for huge pages. They make programs with much data up to a quarter faster, but a program
//! of one line would take 12 MiB instead of 7. So they are off until something large is allocated.

use std::alloc::{GlobalAlloc, Layout};
use std::sync::atomic::{AtomicBool, Ordering};

use harn_value::memory::{allocated, freed, large};
#[cfg(not(feature = "system-allocator"))]
use mimalloc::MiMalloc;
/// A sanitizer or valgrind watches the system's allocator.
#[cfg(feature = "system-allocator")]
use std::alloc::System as MiMalloc;

/// An allocation of this many bytes means that the program has much data.
const LARGE: usize = 1 << 20;

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

/// mimalloc that tells [`harn_value::memory`] what each thread takes and gives back.
pub(crate) struct Counting;

// SAFETY: every call goes to mimalloc with the same arguments; counting touches only two thread-local cells, which
// need no allocation themselves (they are const-initialised and have no destructor).
unsafe impl GlobalAlloc for Counting {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        allocated(layout.size());
        if layout.size() >= LARGE {
            grown();
        }
        // SAFETY: the caller's contract is mimalloc's.
        unsafe { MiMalloc.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        allocated(layout.size());
        if layout.size() >= LARGE {
            grown();
        }
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
        if size >= LARGE {
            grown();
        }
        // SAFETY: as above.
        unsafe { MiMalloc.realloc(at, layout, size) }
    }
}
