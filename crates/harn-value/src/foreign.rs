//! Heap objects whose type belongs to another crate: closures, iterators, generators, handles.

use std::any::TypeId;
use std::cell::Cell;

use crate::value::{Tag, Value};

/// An object that programs can hold and that this crate knows nothing about.
pub trait Foreign: std::any::Any {
    /// The name that `type_of` gives.
    fn type_name(&self) -> &'static str;

    /// Writes the printed form.
    fn print(&self, out: &mut String);

    /// Whether two objects are equal by `==`. `other` is of the same Rust type.
    fn equals(&self, other: &dyn Foreign) -> bool;

    /// A number for hashing: the same for objects that are equal.
    fn identity(&self) -> usize {
        self.address()
    }

    /// Visits the values that the object holds, each counted reference at most once. What is left out counts as
    /// referenced from outside: cycles through it are never freed, but nothing in use ever is.
    fn trace(&self, visit: &mut dyn FnMut(&Value)) {
        let _ = visit;
    }

    /// Whether code of the program must run before the object, which nothing outside of a cycle refers to any more,
    /// goes away. If so, the object hands that code to whoever runs it, and the cycle is looked at again afterwards.
    fn finalize(&self) -> bool {
        false
    }

    /// The address of the object, for identity tests.
    fn address(&self) -> usize {
        (&raw const *self).addr()
    }
}

/// What stands behind the count: enough to use and free the body without knowing its type.
struct Class {
    type_id: TypeId,
    as_dyn: unsafe fn(*mut ()) -> *const dyn Foreign,
    free: unsafe fn(*mut ()),
}

#[repr(C)]
pub(crate) struct ForeignObject<T> {
    count: Cell<usize>,
    class: &'static Class,
    body: T,
}

struct ClassOf<T>(std::marker::PhantomData<T>);

impl<T: Foreign> ClassOf<T> {
    const CLASS: Class = Class {
        type_id: TypeId::of::<T>(),
        // SAFETY (both): called with the word of a value that `allocate::<T>` made.
        as_dyn: |word| unsafe { &raw const (*word.cast::<ForeignObject<T>>()).body as *const dyn Foreign },
        free: |word| drop(unsafe { Box::from_raw(word.cast::<ForeignObject<T>>()) }),
    };
}

impl ForeignObject<()> {
    pub(crate) fn allocate<T: Foreign>(tag: Tag, body: T) -> Value {
        let object = Box::new(ForeignObject { count: Cell::new(1), class: &ClassOf::<T>::CLASS, body });
        // SAFETY: the object starts with its count and callers pass a foreign tag.
        unsafe { Value::from_raw(tag, Box::into_raw(object).cast()) }
    }

    /// # Safety
    /// `word` belongs to a live foreign object.
    pub(crate) unsafe fn as_dyn<'a>(word: *mut ()) -> &'a dyn Foreign {
        // SAFETY: `ForeignObject` is `repr(C)`, so count and class sit at the same place for every body.
        unsafe { &*((*word.cast::<ForeignObject<()>>()).class.as_dyn)(word) }
    }

    /// # Safety
    /// As for `as_dyn`.
    #[inline]
    pub(crate) unsafe fn downcast<'a, T: Foreign>(word: *mut ()) -> Option<&'a T> {
        // SAFETY: as above; the body is only touched when the type matches.
        unsafe {
            let is_t = (*word.cast::<ForeignObject<()>>()).class.type_id == TypeId::of::<T>();
            is_t.then(|| Self::body::<T>(word))
        }
    }

    /// # Safety
    /// `word` belongs to a live foreign object with body `T`.
    #[inline(always)]
    pub(crate) unsafe fn body<'a, T: Foreign>(word: *mut ()) -> &'a T {
        // SAFETY: by contract.
        unsafe { &(*word.cast::<ForeignObject<T>>()).body }
    }

    /// # Safety
    /// The last reference to the object is gone.
    pub(crate) unsafe fn free(word: *mut ()) {
        // SAFETY: by contract.
        unsafe { ((*word.cast::<ForeignObject<()>>()).class.free)(word) }
    }
}
