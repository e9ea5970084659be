//! The items of a list: a vector with constant-time removal at the front, so that a list can be used as a queue.

use std::fmt;
use std::mem::{ManuallyDrop, size_of};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use crate::Value;
use crate::pace::spend_items;

/// Items in order.
///
/// # Safety
/// Invariant: `items - gone` is the start of the allocation of a `Vec<Value>` with a capacity of `gone + room`, and
/// exactly the `len` slots from `items` on hold values (`len <= room`). The fields change only in this file.
#[repr(C)]
pub struct List {
    items: NonNull<Value>,
    len: usize,
    /// Number of slots from `items` on.
    room: usize,
    /// Number of slots before `items`, whose values were removed.
    gone: usize,
}

impl List {
    /// Creates an empty list.
    pub const fn new() -> List {
        List { items: NonNull::dangling(), len: 0, room: 0, gone: 0 }
    }

    /// Returns the number of items that fit without reallocation.
    #[inline(always)]
    pub fn capacity(&self) -> usize {
        self.room
    }

    /// Adds an item at the end.
    #[inline(always)]
    pub fn push(&mut self, item: Value) {
        if self.len == self.room {
            self.grow();
        }
        // SAFETY: there is a free slot after the items.
        unsafe { self.items.add(self.len).write(item) };
        self.len += 1;
    }

    /// Removes and returns the last item.
    #[inline]
    pub fn pop(&mut self) -> Option<Value> {
        self.len = self.len.checked_sub(1)?;
        // SAFETY: it was the last item and is no longer included in `len`.
        Some(unsafe { self.items.add(self.len).read() })
    }

    /// Removes all but the first `len` items.
    pub fn truncate(&mut self, len: usize) {
        if len < self.len {
            let count = self.len - len;
            self.len = len;
            // SAFETY: these items are no longer included in `len`.
            unsafe { NonNull::slice_from_raw_parts(self.items.add(len), count).drop_in_place() };
        }
    }

    /// Removes the first `count` items. The others are not moved.
    pub fn remove_front(&mut self, count: usize) {
        let count = count.min(self.len);
        let first = self.items;
        // SAFETY: inside the allocation, or at its end.
        self.items = unsafe { first.add(count) };
        self.len -= count;
        self.room -= count;
        self.gone += count;
        // SAFETY: these items are no longer included in `len`.
        unsafe { NonNull::slice_from_raw_parts(first, count).drop_in_place() };
    }

    /// Appends copies of `items`.
    pub fn extend_from_slice(&mut self, items: &[Value]) {
        if self.room - self.len < items.len() {
            self.with_vec(|vec| vec.reserve(items.len()));
        }
        spend_items(items.len());
        for item in items {
            // SAFETY: room was made above.
            unsafe { self.items.add(self.len).write(item.clone()) };
            self.len += 1;
        }
    }

    /// Runs operations that require a vector: insertion, filtering, reserving memory.
    pub fn with_vec<T>(&mut self, change: impl FnOnce(&mut Vec<Value>) -> T) -> T {
        /// Restores the list from the vector, even if `change` unwinds.
        struct Lent<'a>(&'a mut List, Vec<Value>);
        impl Drop for Lent<'_> {
            fn drop(&mut self) {
                *self.0 = List::from(std::mem::take(&mut self.1));
            }
        }
        let vec = std::mem::take(self).into_vec();
        let mut lent = Lent(self, vec);
        change(&mut lent.1)
    }

    /// Returns the items as a vector.
    pub fn into_vec(self) -> Vec<Value> {
        let list = ManuallyDrop::new(self);
        // SAFETY: by the invariant. The items move to the start of the allocation, which has room for them, and the
        // list no longer owns them.
        unsafe {
            let start = list.items.sub(list.gone);
            if list.gone > 0 {
                start.copy_from(list.items, list.len);
            }
            Vec::from_raw_parts(start.as_ptr(), list.len, list.gone + list.room)
        }
    }

    /// Makes room for one more item. If so many items were removed at the front that the cost of moving the remaining
    /// ones is amortized, moves them; otherwise allocates more memory.
    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        let moving_is_enough = self.gone > 0 && self.gone >= self.len / 2;
        self.with_vec(|vec| {
            if !moving_is_enough {
                vec.reserve(1);
            }
        });
    }
}

impl Drop for List {
    fn drop(&mut self) {
        // SAFETY: by the invariant; the items are dropped in place, then the allocation is freed without items.
        unsafe {
            let memory = Vec::from_raw_parts(self.items.sub(self.gone).as_ptr(), 0, self.gone + self.room);
            NonNull::slice_from_raw_parts(self.items, self.len).drop_in_place();
            drop(memory);
        }
    }
}

impl Deref for List {
    type Target = [Value];
    #[inline(always)]
    fn deref(&self) -> &[Value] {
        // SAFETY: by the invariant.
        unsafe { NonNull::slice_from_raw_parts(self.items, self.len).as_ref() }
    }
}

impl DerefMut for List {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [Value] {
        // SAFETY: by the invariant.
        unsafe { NonNull::slice_from_raw_parts(self.items, self.len).as_mut() }
    }
}

impl From<Vec<Value>> for List {
    #[inline]
    fn from(items: Vec<Value>) -> List {
        spend_items(items.len());
        let mut items = ManuallyDrop::new(items);
        // SAFETY: a vector's pointer is not null.
        let first = unsafe { NonNull::new_unchecked(items.as_mut_ptr()) };
        List { items: first, len: items.len(), room: items.capacity(), gone: 0 }
    }
}

impl Clone for List {
    fn clone(&self) -> List {
        self.to_vec().into()
    }
}

impl Default for List {
    fn default() -> List {
        List::new()
    }
}

impl Extend<Value> for List {
    fn extend<I: IntoIterator<Item = Value>>(&mut self, items: I) {
        self.with_vec(|vec| vec.extend(items));
    }
}

impl fmt::Debug for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

const _: () = assert!(size_of::<List>() == 32);

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(range: std::ops::Range<i64>) -> Vec<Value> {
        range.map(|i| Value::str(&format!("item {i}"))).collect()
    }

    fn ints(list: &[Value]) -> Vec<i64> {
        list.iter().filter_map(Value::as_int).collect()
    }

    #[test]
    fn a_queue_stays_small() {
        let mut list = List::new();
        for i in 0..100_000 {
            list.push(Value::int(i));
            if i >= 100 {
                assert_eq!(list[0].as_int(), Some(i - 100));
                list.remove_front(1);
            }
        }
        assert_eq!(list.len(), 100);
        assert!(list.capacity() + list.gone <= 512, "{} places", list.capacity() + list.gone);
    }

    #[test]
    fn it_does_what_a_vector_does() {
        let mut list = List::from(texts(0..10));
        list.remove_front(3);
        list.truncate(5);
        assert_eq!(format!("{list:?}"), format!("{:?}", &texts(3..8)[..]));
        assert_eq!(list.pop().map(|v| v.to_string()).as_deref(), Some("item 7"));
        list.extend_from_slice(&texts(20..40));
        list.with_vec(|vec| vec.insert(0, Value::NIL));
        assert_eq!((list.len(), list[1].to_string()), (25, "item 3".to_owned()));
        let copy = list.clone();
        list.remove_front(100);
        assert!(list.is_empty() && list.pop().is_none());
        list.push(Value::int(1));
        list.extend([Value::int(2)]);
        assert_eq!(ints(&list), [1, 2]);
        assert_eq!(copy.into_vec().len(), 25);
    }

    #[test]
    fn every_item_is_counted_once() {
        let item = Value::str("shared by all");
        let mut list = List::from(vec![item.clone(); 8]);
        list.remove_front(2);
        list.push(item.clone());
        list.truncate(6);
        let vec = list.clone().into_vec();
        drop((list, vec));
        assert!(item.is_unique());
    }

    #[test]
    fn a_vector_comes_back_when_a_change_unwinds() {
        let mut list = List::from(texts(0..3));
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            list.with_vec(|vec| {
                vec.truncate(2);
                std::panic::resume_unwind(Box::new(()));
            });
        }));
        assert!(result.is_err());
        assert_eq!(list.len(), 2);
    }
}
