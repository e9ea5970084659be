//! Reference-counted heap objects. Every object starts with its reference count, so that
//! [`crate::Value`] can clone any of them without knowing the type. Single-threaded by construction
//! (`!Send`, `!Sync`).

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::NonNull;

/// A heap object: the reference count, followed by the body.
#[repr(C)]
pub(crate) struct Object<T> {
    pub(crate) count: Cell<usize>,
    pub(crate) body: T,
}

/// A reference-counted pointer to a heap object of a known type: like `Rc` without weak references,
/// with a layout that [`crate::Value`] can share.
#[repr(transparent)]
pub struct Ref<T>(pub(crate) NonNull<Object<T>>, PhantomData<Object<T>>);

impl<T> Ref<T> {
    /// Moves `body` to the heap.
    pub fn new(body: T) -> Ref<T> {
        let object = Box::new(Object { count: Cell::new(1), body });
        Ref(NonNull::from(Box::leak(object)), PhantomData)
    }

    #[inline(always)]
    fn object(&self) -> &Object<T> {
        // SAFETY: a `Ref` holds one reference, so the object is alive.
        unsafe { self.0.as_ref() }
    }

    /// Returns whether this is the only reference.
    #[inline(always)]
    pub fn is_unique(&self) -> bool {
        self.object().count.get() == 1
    }

    /// Returns the body for writing, if this is the only reference.
    #[inline(always)]
    pub fn get_mut(&mut self) -> Option<&mut T> {
        if self.is_unique() {
            // SAFETY: the only reference, borrowed mutably.
            Some(unsafe { &mut self.0.as_mut().body })
        } else {
            None
        }
    }

    /// Returns the body for writing; copies it first if there are other references (copy on write).
    #[inline(always)]
    pub fn make_mut(&mut self) -> &mut T
    where
        T: Clone,
    {
        if !self.is_unique() {
            self.separate();
        }
        // SAFETY: unique by the lines above, borrowed mutably.
        unsafe { &mut self.0.as_mut().body }
    }

    #[cold]
    #[inline(never)]
    fn separate(&mut self)
    where
        T: Clone,
    {
        *self = Ref::new((**self).clone());
    }

    /// Returns whether both point to the same object.
    #[inline(always)]
    pub fn same(a: &Ref<T>, b: &Ref<T>) -> bool {
        a.0 == b.0
    }

    /// Returns the address, for identity tests and inline caches only; not visible to programs.
    #[inline(always)]
    pub fn address(&self) -> usize {
        self.0.as_ptr().addr()
    }

    #[inline(always)]
    pub(crate) fn into_raw(self) -> *mut () {
        let raw = self.0.as_ptr().cast();
        std::mem::forget(self);
        raw
    }
}

impl<T> Deref for Ref<T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        &self.object().body
    }
}

impl<T> Clone for Ref<T> {
    #[inline(always)]
    fn clone(&self) -> Ref<T> {
        let count = &self.object().count;
        count.set(count.get() + 1);
        Ref(self.0, PhantomData)
    }
}

impl<T> Drop for Ref<T> {
    #[inline(always)]
    fn drop(&mut self) {
        let count = &self.object().count;
        let left = count.get() - 1;
        count.set(left);
        if left == 0 {
            // SAFETY: the last reference is dropped; the box was made by `Ref::new`.
            drop(unsafe { Box::from_raw(self.0.as_ptr()) });
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Ref<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
