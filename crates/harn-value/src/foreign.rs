//! Heap objects whose type is defined in another crate: closures, iterators, generators, handles.

use std::any::TypeId;
use std::cell::Cell;

use crate::value::{Tag, Value};

/// An object of another crate that programs can hold.
pub trait Foreign: std::any::Any {
    /// Returns the name for `type_of`.
    fn type_name(&self) -> &'static str;

    /// Writes the printed form.
    fn print(&self, out: &mut String);

    /// Returns whether two objects are equal by `==`. `other` has the same Rust type.
    fn equals(&self, other: &dyn Foreign) -> bool;

    /// Returns a number for hashing, the same for equal objects.
    fn identity(&self) -> usize {
        self.address()
    }

    /// Visits the values that the object holds, each counted reference at most once. References that are not visited
    /// are treated as coming from outside: cycles through them are never freed, but no object in use is freed
    /// either.
    fn trace(&self, visit: &mut dyn FnMut(&Value)) {
        let _ = visit;
    }

    /// Returns whether code of the program must run before the object, which is only reachable from a garbage cycle,
    /// is freed. If so, the object passes that code to the code that runs it, and the cycle is examined again later.
    fn finalize(&self) -> bool {
        false
    }

    /// Returns the address of the object, for identity tests.
    fn address(&self) -> usize {
        (&raw const *self).addr()
    }
}

/// Stored after the reference count: operations to use and free the body without knowing its type.
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
        // SAFETY (both): called with the `word` of a value that `allocate::<T>` made.
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

    /// Returns the object of a value.
    ///
    /// # Safety
    /// `word` belongs to a live foreign object.
    pub(crate) unsafe fn as_dyn<'a>(word: *mut ()) -> &'a dyn Foreign {
        // SAFETY: `ForeignObject` is `repr(C)`, so count and class have the same offset for every body.
        unsafe { &*((*word.cast::<ForeignObject<()>>()).class.as_dyn)(word) }
    }

    /// Returns the body if it is a `T`.
    ///
    /// # Safety
    /// As for `as_dyn`.
    #[inline]
    pub(crate) unsafe fn downcast<'a, T: Foreign>(word: *mut ()) -> Option<&'a T> {
        // SAFETY: as above; the body is accessed only if the type matches.
        unsafe {
            let is_t = (*word.cast::<ForeignObject<()>>()).class.type_id == TypeId::of::<T>();
            is_t.then(|| Self::body::<T>(word))
        }
    }

    /// Returns the body without a type check.
    ///
    /// # Safety
    /// `word` belongs to a live foreign object with body `T`.
    #[inline(always)]
    pub(crate) unsafe fn body<'a, T: Foreign>(word: *mut ()) -> &'a T {
        // SAFETY: by contract.
        unsafe { &(*word.cast::<ForeignObject<T>>()).body }
    }

    /// Frees the object.
    ///
    /// # Safety
    /// The last reference to the object was dropped.
    pub(crate) unsafe fn free(word: *mut ()) {
        // SAFETY: by contract.
        unsafe { ((*word.cast::<ForeignObject<()>>()).class.free)(word) }
    }
}
