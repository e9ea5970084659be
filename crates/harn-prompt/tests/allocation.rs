//! The prompt of an assembly is written with a single allocation of its exact length.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::RefCell;
use std::collections::BTreeSet;

use harn_prompt::{Fragment, reduce};

/// The system allocator, which records the size of every allocation and reallocation while recording is on.
struct Counting;

thread_local! {
    static SIZES: RefCell<Option<Vec<usize>>> = const { RefCell::new(None) };
}

fn note(size: usize) {
    // The list's own growth is not recorded, because the list is borrowed then. A terminating thread has no list.
    let _ = SIZES.try_with(|sizes| {
        if let Ok(mut sizes) = sizes.try_borrow_mut()
            && let Some(list) = sizes.as_mut()
        {
            list.push(size);
        }
    });
}

// SAFETY: every call is passed on to the system allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(size);
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn the_text_is_one_allocation() {
    let body = "A sentence of guidance that is long enough to matter. ".repeat(20);
    let fragments: Vec<_> =
        (0..1000).map(|i| Fragment::new(format!("f{i}"), "primary", body.clone())).collect();
    SIZES.set(Some(Vec::with_capacity(100_000)));
    let assembly = reduce(&fragments, &BTreeSet::new(), &BTreeSet::new());
    let sizes = SIZES.take().unwrap();

    let text = assembly.text.unwrap();
    assert_eq!(text.capacity(), text.len());
    assert!(text.len() > 1_000_000);
    // No other allocation is nearly as large as the prompt: no growing buffer, no list of joined parts.
    let large: Vec<_> = sizes.iter().filter(|size| **size >= text.len() / 2).collect();
    assert_eq!(large, [&text.len()]);
    // Two per fragment, for its id and its source in the trace, plus the trace and the prompt.
    assert_eq!(sizes.len(), 2 * fragments.len() + 2);
}
