//! [`Value`]: 16 bytes, a tag and a payload of 64 bits (`word`). Only this file and the heap objects depend on the
//! layout; all other code uses the methods.
//!
//! ```text
//! byte 0     tag                     8..16  word
//! Nil        0                              unused
//! Bool       1                              0 or 1
//! Int        2                              the i64's bits
//! Float      3                              the f64's bits
//! Duration   4                              milliseconds (i64)
//! Absent     5                              unused: no value here (never seen by a program)
//! Native     6                              pointer to something that lives for the whole program
//! Str ..     8..                            counted pointer to a heap object that starts with its count
//! ```

use std::cell::Cell;
use std::ptr::NonNull;

use crate::foreign::{Foreign, ForeignObject};
use crate::object::{Object, Ref};
use crate::pace::{spend_bytes, spend_items};
use crate::text::StrHeader;
use crate::{Dict, EnumValue, List, Pair, Range, Set, Str, StructValue};

/// The kind of a [`Value`]. The order is part of the layout: all tags from [`Tag::Str`] on are
/// reference-counted pointers and have bit 3 or 4 set, so that the OR of many tags shows whether any value is
/// one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
#[repr(u8)]
pub enum Tag {
    /// `nil`
    Nil = 0,
    /// `true`, `false`
    Bool = 1,
    /// 64-bit signed integer
    Int = 2,
    /// IEEE double
    Float = 3,
    /// signed milliseconds
    Duration = 4,
    /// no value: an unset variable, a missing argument, an absent struct field
    Absent = 5,
    /// a builtin function
    Native = 6,
    /// immutable string
    Str = 8,
    /// immutable bytes
    Bytes = 9,
    /// list
    List = 10,
    /// dict
    Dict = 11,
    /// set
    Set = 12,
    /// lazy range of ints
    Range = 13,
    /// pair
    Pair = 14,
    /// enum value
    Enum = 15,
    /// struct instance
    Struct = 16,
    /// function of the program (defined in the VM crate)
    Closure = 17,
    /// a captured variable (defined in the VM crate; not visible to programs)
    Cell = 18,
    /// any other heap object: iterators, generators, handles
    Foreign = 19,
}

/// A Harn value. Cloning copies 16 bytes and, for heap values, increments the reference count.
#[repr(C)]
pub struct Value {
    tag: Tag,
    word: *mut (),
}

/// A borrowed view of a value, for `match`.
#[derive(Clone, Copy)]
pub enum View<'a> {
    /// `nil` (and the internal "no value")
    Nil,
    /// bool
    Bool(bool),
    /// int
    Int(i64),
    /// float
    Float(f64),
    /// milliseconds
    Duration(i64),
    /// builtin function
    Native(&'static NativeHeader),
    /// string
    Str(&'a Str),
    /// bytes
    Bytes(&'a Ref<Vec<u8>>),
    /// list
    List(&'a Ref<List>),
    /// dict
    Dict(&'a Ref<Dict>),
    /// set
    Set(&'a Ref<Set>),
    /// range
    Range(&'a Ref<Range>),
    /// pair
    Pair(&'a Ref<Pair>),
    /// enum value
    Enum(&'a Ref<EnumValue>),
    /// struct instance
    Struct(&'a Ref<StructValue>),
    /// closure, iterator, generator, handle
    Foreign(&'a dyn Foreign),
}

/// The first field of a builtin's table entry (`repr(C)`): the part that the value layer needs.
#[derive(Debug)]
pub struct NativeHeader {
    /// The name by which programs call it.
    pub name: &'static str,
}

impl Value {
    /// `nil`
    pub const NIL: Value = Value::raw(Tag::Nil, std::ptr::null_mut());
    /// "No value here"; not visible to programs.
    pub const ABSENT: Value = Value::raw(Tag::Absent, std::ptr::null_mut());
    /// `true`
    pub const TRUE: Value = Value::raw(Tag::Bool, std::ptr::without_provenance_mut(1));
    /// `false`
    pub const FALSE: Value = Value::raw(Tag::Bool, std::ptr::null_mut());

    const fn raw(tag: Tag, word: *mut ()) -> Value {
        Value { tag, word }
    }

    /// Creates an int.
    #[inline(always)]
    pub const fn int(i: i64) -> Value {
        Value::raw(Tag::Int, std::ptr::without_provenance_mut(i as usize))
    }

    /// Creates a float.
    #[inline(always)]
    pub const fn float(f: f64) -> Value {
        Value::raw(Tag::Float, std::ptr::without_provenance_mut(f.to_bits() as usize))
    }

    /// Creates a bool.
    #[inline(always)]
    pub const fn bool(b: bool) -> Value {
        Value::raw(Tag::Bool, std::ptr::without_provenance_mut(b as usize))
    }

    /// Creates a duration of `ms` milliseconds.
    #[inline(always)]
    pub const fn duration(ms: i64) -> Value {
        Value::raw(Tag::Duration, std::ptr::without_provenance_mut(ms as usize))
    }

    /// Creates a string with a copy of `text`.
    pub fn str(text: &str) -> Value {
        Str::new(text).into()
    }

    /// Creates a list.
    pub fn list(items: Vec<Value>) -> Value {
        Ref::new(List::from(items)).into()
    }

    /// Creates a dict.
    pub fn dict(dict: Dict) -> Value {
        spend_items(dict.len());
        Ref::new(dict).into()
    }

    /// Creates a bytes value.
    pub fn bytes(bytes: Vec<u8>) -> Value {
        spend_bytes(bytes.len());
        Value::raw(Tag::Bytes, Ref::new(bytes).into_raw())
    }

    /// Creates a set.
    pub fn set_of(set: Set) -> Value {
        spend_items(set.len());
        Value::raw(Tag::Set, Ref::new(set).into_raw())
    }

    /// Creates the pair `(first, second)`.
    pub fn pair(first: Value, second: Value) -> Value {
        Value::raw(Tag::Pair, Ref::new(Pair { first, second }).into_raw())
    }

    /// Creates a lazy range of ints.
    pub fn range(range: Range) -> Value {
        Value::raw(Tag::Range, Ref::new(range).into_raw())
    }

    /// Creates a builtin function from the header at the start of its table entry.
    ///
    /// # Safety
    /// `entry` points to the header of a table entry of the VM crate, which lives as long as the process.
    pub const unsafe fn native(entry: *const NativeHeader) -> Value {
        Value::raw(Tag::Native, entry.cast_mut().cast())
    }

    /// Creates a value for an object of another crate.
    pub fn foreign<T: Foreign>(body: T) -> Value {
        ForeignObject::allocate(Tag::Foreign, body)
    }

    /// Creates a value for an object of the VM crate with a dedicated tag, so that
    /// [`Value::downcast_unchecked`] needs only the tag.
    ///
    /// Safe code cannot call it:
    ///
    /// ```compile_fail,E0133
    /// use harn_value::{Foreign, Tag, Value};
    ///
    /// fn forge(body: impl Foreign) -> Value {
    ///     Value::tagged(Tag::Closure, body)
    /// }
    /// ```
    ///
    /// # Safety
    /// `tag` is [`Tag::Closure`] or [`Tag::Cell`], and `T` the one type that the VM crate has for that tag.
    #[inline]
    pub unsafe fn tagged<T: Foreign>(tag: Tag, body: T) -> Value {
        debug_assert!(matches!(tag, Tag::Closure | Tag::Cell), "only these tags belong to another crate");
        ForeignObject::allocate(tag, body)
    }

    /// Creates a value from the result of [`Value::word`]; takes over one reference.
    ///
    /// # Safety
    /// `word` is that of a live object with this tag, and the caller owns one of its references.
    pub unsafe fn from_raw(tag: Tag, word: *mut ()) -> Value {
        Value::raw(tag, word)
    }

    /// Returns the raw payload: for a heap value, the pointer to its object.
    #[inline(always)]
    pub fn word(&self) -> *mut () {
        self.word
    }

    /// Returns address and reference count of a heap value's object.
    #[inline(always)]
    pub(crate) fn address_and_count(&self) -> (usize, usize) {
        debug_assert!(self.is_heap());
        // SAFETY: heap objects start with `count`; callers have checked the tag.
        (self.word.addr(), unsafe { (*self.word.cast::<Cell<usize>>()).get() })
    }

    /// Returns the tag.
    #[inline(always)]
    pub fn tag(&self) -> Tag {
        self.tag
    }

    /// Returns the tag's bits, for [`Value::HEAP_BITS`].
    #[inline(always)]
    pub fn tag_bits(&self) -> u8 {
        self.tag as u8
    }

    /// Set in the OR of [`Value::tag_bits`] exactly if one of the values is a reference-counted pointer.
    pub const HEAP_BITS: u8 = 0x18;

    /// Returns whether the value is a reference-counted pointer.
    #[inline(always)]
    pub fn is_heap(&self) -> bool {
        self.tag as u8 >= Tag::Str as u8
    }

    /// Returns whether it is `nil`.
    #[inline(always)]
    pub fn is_nil(&self) -> bool {
        self.tag == Tag::Nil
    }

    /// Returns whether it is the internal "no value".
    #[inline(always)]
    pub fn is_absent(&self) -> bool {
        self.tag == Tag::Absent
    }

    /// Returns the bits of an inline value as an int. Only meaningful after a tag test.
    #[inline(always)]
    pub fn int_bits(&self) -> i64 {
        self.word.addr() as i64
    }

    /// Returns the bits of an inline value as a float. Only meaningful after a tag test.
    #[inline(always)]
    pub fn float_bits(&self) -> f64 {
        f64::from_bits(self.word.addr() as u64)
    }

    /// Returns the int, if it is one.
    #[inline(always)]
    pub fn as_int(&self) -> Option<i64> {
        (self.tag == Tag::Int).then(|| self.int_bits())
    }

    /// Returns the float, if it is one (ints are not converted).
    #[inline(always)]
    pub fn as_float(&self) -> Option<f64> {
        (self.tag == Tag::Float).then(|| self.float_bits())
    }

    /// Returns an int or float as a float.
    #[inline(always)]
    pub fn as_number(&self) -> Option<f64> {
        match self.tag {
            Tag::Int => Some(self.int_bits() as f64),
            Tag::Float => Some(self.float_bits()),
            _ => None,
        }
    }

    /// Returns the bool, if it is one (no truthiness).
    #[inline(always)]
    pub fn as_bool(&self) -> Option<bool> {
        (self.tag == Tag::Bool).then(|| self.int_bits() != 0)
    }

    /// Returns the milliseconds, if it is a duration.
    pub fn as_duration(&self) -> Option<i64> {
        (self.tag == Tag::Duration).then(|| self.int_bits())
    }

    /// Returns the string, if it is one.
    #[inline(always)]
    pub fn as_str(&self) -> Option<&Str> {
        // SAFETY: the tag guarantees that `word` is a `Str`, which is one transparent pointer.
        (self.tag == Tag::Str).then(|| unsafe { &*(&raw const self.word).cast::<Str>() })
    }

    /// Returns the object as a `Ref<T>`.
    ///
    /// # Safety
    /// The tag belongs to objects with body `T`.
    #[inline(always)]
    unsafe fn body<T>(&self) -> &Ref<T> {
        // SAFETY: `Ref<T>` is one transparent pointer to `Object<T>`, and so is `word`.
        unsafe { &*(&raw const self.word).cast::<Ref<T>>() }
    }

    /// Returns the object as a `Ref<T>` for writing.
    ///
    /// # Safety
    /// As for `body`.
    #[inline(always)]
    unsafe fn body_mut<T>(&mut self) -> &mut Ref<T> {
        // SAFETY: as in `body`; borrowed mutably.
        unsafe { &mut *(&raw mut self.word).cast::<Ref<T>>() }
    }

    /// Returns the bytes, if it is a bytes value.
    pub fn as_bytes(&self) -> Option<&Ref<Vec<u8>>> {
        // SAFETY: tag checked.
        (self.tag == Tag::Bytes).then(|| unsafe { self.body() })
    }

    /// Returns the list, if it is one.
    #[inline(always)]
    pub fn as_list(&self) -> Option<&Ref<List>> {
        // SAFETY: tag checked.
        (self.tag == Tag::List).then(|| unsafe { self.body() })
    }

    /// Returns the list for writing (through [`Ref::get_mut`] or [`Ref::make_mut`]).
    #[inline(always)]
    pub fn as_list_mut(&mut self) -> Option<&mut Ref<List>> {
        // SAFETY: tag checked.
        if self.tag == Tag::List { Some(unsafe { self.body_mut() }) } else { None }
    }

    /// Returns the dict, if it is one.
    #[inline(always)]
    pub fn as_dict(&self) -> Option<&Ref<Dict>> {
        // SAFETY: tag checked.
        (self.tag == Tag::Dict).then(|| unsafe { self.body() })
    }

    /// Returns the dict for writing.
    #[inline(always)]
    pub fn as_dict_mut(&mut self) -> Option<&mut Ref<Dict>> {
        // SAFETY: tag checked.
        if self.tag == Tag::Dict { Some(unsafe { self.body_mut() }) } else { None }
    }

    /// Returns the string for writing.
    #[inline(always)]
    pub fn as_str_mut(&mut self) -> Option<&mut Str> {
        // SAFETY: the tag guarantees that `word` is a `Str`.
        if self.tag == Tag::Str { Some(unsafe { &mut *(&raw mut self.word).cast::<Str>() }) } else { None }
    }

    /// Returns the set, if it is one.
    pub fn as_set(&self) -> Option<&Ref<Set>> {
        // SAFETY: tag checked.
        (self.tag == Tag::Set).then(|| unsafe { self.body() })
    }

    /// Returns the set for writing.
    pub fn as_set_mut(&mut self) -> Option<&mut Ref<Set>> {
        // SAFETY: tag checked.
        if self.tag == Tag::Set { Some(unsafe { self.body_mut() }) } else { None }
    }

    /// Returns the range, if it is one.
    #[inline(always)]
    pub fn as_range(&self) -> Option<&Ref<Range>> {
        // SAFETY: tag checked.
        (self.tag == Tag::Range).then(|| unsafe { self.body() })
    }

    /// Returns the pair, if it is one.
    pub fn as_pair(&self) -> Option<&Ref<Pair>> {
        // SAFETY: tag checked.
        (self.tag == Tag::Pair).then(|| unsafe { self.body() })
    }

    /// Returns the enum value, if it is one.
    #[inline(always)]
    pub fn as_enum(&self) -> Option<&Ref<EnumValue>> {
        // SAFETY: tag checked.
        (self.tag == Tag::Enum).then(|| unsafe { self.body() })
    }

    /// Returns the struct instance, if it is one.
    #[inline(always)]
    pub fn as_struct(&self) -> Option<&Ref<StructValue>> {
        // SAFETY: tag checked.
        (self.tag == Tag::Struct).then(|| unsafe { self.body() })
    }

    /// Returns the struct instance for writing.
    #[inline(always)]
    pub fn as_struct_mut(&mut self) -> Option<&mut Ref<StructValue>> {
        // SAFETY: tag checked.
        if self.tag == Tag::Struct { Some(unsafe { self.body_mut() }) } else { None }
    }

    /// Returns the header of the builtin function, if it is one. The pointer may be cast back to the table
    /// entry that was passed to [`Value::native`].
    #[inline(always)]
    pub fn as_native(&self) -> Option<*const NativeHeader> {
        (self.tag == Tag::Native).then(|| self.word.cast_const().cast())
    }

    /// Returns the object of another crate, if it is one (including closures and cells).
    pub fn as_foreign(&self) -> Option<&dyn Foreign> {
        // SAFETY: only `ForeignObject::allocate` creates these tags.
        (self.tag >= Tag::Closure).then(|| unsafe { ForeignObject::as_dyn(self.word) })
    }

    /// Returns the object of another crate, if it is of type `T`.
    #[inline]
    pub fn downcast<T: Foreign>(&self) -> Option<&T> {
        if self.tag < Tag::Closure {
            return None;
        }
        // SAFETY: the tag is one of the foreign ones.
        unsafe { ForeignObject::downcast::<T>(self.word) }
    }

    /// Like [`Value::downcast`], without the type test.
    ///
    /// # Safety
    /// The value was made by [`Value::tagged`] or [`Value::foreign`] from a `T`.
    #[inline(always)]
    pub unsafe fn downcast_unchecked<T: Foreign>(&self) -> &T {
        // SAFETY: by contract.
        unsafe { ForeignObject::body::<T>(self.word) }
    }

    /// Returns a borrowed view for `match`.
    #[inline]
    pub fn view(&self) -> View<'_> {
        // SAFETY: every arm interprets `word` according to its tag.
        unsafe {
            match self.tag {
                Tag::Nil | Tag::Absent => View::Nil,
                Tag::Bool => View::Bool(self.int_bits() != 0),
                Tag::Int => View::Int(self.int_bits()),
                Tag::Float => View::Float(self.float_bits()),
                Tag::Duration => View::Duration(self.int_bits()),
                Tag::Native => View::Native(&*self.word.cast_const().cast::<NativeHeader>()),
                Tag::Str => View::Str(&*(&raw const self.word).cast::<Str>()),
                Tag::Bytes => View::Bytes(self.body()),
                Tag::List => View::List(self.body()),
                Tag::Dict => View::Dict(self.body()),
                Tag::Set => View::Set(self.body()),
                Tag::Range => View::Range(self.body()),
                Tag::Pair => View::Pair(self.body()),
                Tag::Enum => View::Enum(self.body()),
                Tag::Struct => View::Struct(self.body()),
                Tag::Closure | Tag::Cell | Tag::Foreign => View::Foreign(ForeignObject::as_dyn(self.word)),
            }
        }
    }

    /// Returns whether a heap value has no other reference, so that changing it in place is unobservable.
    #[inline(always)]
    pub fn is_unique(&self) -> bool {
        // SAFETY: heap objects start with `count`.
        self.is_heap() && unsafe { (*self.word.cast::<Cell<usize>>()).get() == 1 }
    }

    /// Returns whether both are the same heap object or the same inline value.
    #[inline(always)]
    pub fn same(&self, other: &Value) -> bool {
        self.tag == other.tag && self.word == other.word
    }

    /// Returns the address of a heap object, for identity tests within a traversal only; not visible to
    /// programs.
    #[inline(always)]
    pub fn address(&self) -> usize {
        self.word.addr()
    }

    /// Moves the value out, leaving nil.
    #[inline(always)]
    pub fn take(&mut self) -> Value {
        std::mem::replace(self, Value::NIL)
    }

    /// Overwrites with an int; faster than assignment if the old value is inline.
    #[inline(always)]
    pub fn set_int(&mut self, i: i64) {
        self.put(Value::int(i));
    }

    /// Overwrites with a float.
    #[inline(always)]
    pub fn set_float(&mut self, f: f64) {
        self.put(Value::float(f));
    }

    /// Overwrites with a bool.
    #[inline(always)]
    pub fn set_bool(&mut self, b: bool) {
        self.put(Value::bool(b));
    }

    /// Decrements the reference count of the value's object, if it has one. Leaves the bits unchanged: the
    /// caller overwrites them.
    #[inline(always)]
    fn count_down(&mut self) {
        if self.is_heap() {
            // SAFETY: heap objects start with `count`.
            let count = unsafe { &*self.word.cast::<Cell<usize>>() };
            let left = count.get() - 1;
            if left == 0 {
                drop_heap(self);
            } else {
                count.set(left);
            }
        }
    }

    /// Sets it to nil. Like [`Value::put`], but decrements the count of a shared object in place.
    #[inline(always)]
    pub fn release(&mut self) {
        self.count_down();
        // SAFETY: the old value's reference was released.
        unsafe { std::ptr::write(self, Value::NIL) };
    }

    /// Like [`Value::put`], for places whose old value is often a shared object.
    #[inline(always)]
    pub fn put_counted(&mut self, new: Value) {
        self.count_down();
        // SAFETY: the old value's reference was released.
        unsafe { std::ptr::write(self, new) };
    }

    /// Overwrites: one tag test and two stores if the old value is inline.
    #[inline(always)]
    pub fn put(&mut self, new: Value) {
        if self.is_heap() {
            drop_heap(self);
        }
        // SAFETY: the old value is inline now or was dropped by `drop_heap`.
        unsafe { std::ptr::write(self, new) };
    }

    /// Returns whether the value is truthy: all values except false, nil, 0, 0.0, a zero duration, and empty
    /// strings, bytes, lists, dicts and sets.
    #[inline(always)]
    pub fn truthy(&self) -> bool {
        match self.tag {
            Tag::Bool | Tag::Int | Tag::Duration => self.int_bits() != 0,
            Tag::Nil => false,
            _ => self.truthy_slow(),
        }
    }

    fn truthy_slow(&self) -> bool {
        match self.view() {
            View::Nil => false,
            View::Float(f) => f != 0.0,
            View::Str(s) => !s.is_empty(),
            View::Bytes(b) => !b.is_empty(),
            View::List(l) => !l.is_empty(),
            View::Dict(d) => !d.is_empty(),
            View::Set(s) => !s.is_empty(),
            _ => true,
        }
    }

    /// Returns the name for `type_of`.
    pub fn type_name(&self) -> &'static str {
        match self.view() {
            View::Nil => "nil",
            View::Bool(_) => "bool",
            View::Int(_) => "int",
            View::Float(_) => "float",
            View::Duration(_) => "duration",
            View::Native(_) => "builtin",
            View::Str(_) => "string",
            View::Bytes(_) => "bytes",
            View::List(_) => "list",
            View::Dict(_) => "dict",
            View::Set(_) => "set",
            View::Range(_) => "range",
            View::Pair(_) => "pair",
            View::Enum(_) => "enum",
            View::Struct(_) => "struct",
            View::Foreign(f) => f.type_name(),
        }
    }
}

/// Drops the heap value in `slot`, leaving the slot's bytes unchanged (the caller overwrites them).
#[cold]
#[inline(never)]
fn drop_heap(slot: &mut Value) {
    // SAFETY: takes over the slot's count exactly once; the caller overwrites the slot without reading it.
    drop(unsafe { std::ptr::read(slot) });
}

impl Clone for Value {
    #[inline(always)]
    fn clone(&self) -> Value {
        if self.is_heap() {
            // SAFETY: heap objects start with `count`.
            let count = unsafe { &*self.word.cast::<Cell<usize>>() };
            count.set(count.get() + 1);
        }
        Value { tag: self.tag, word: self.word }
    }
}

impl Drop for Value {
    #[inline(always)]
    fn drop(&mut self) {
        if self.is_heap() {
            // SAFETY: heap objects start with `count`.
            let count = unsafe { &*self.word.cast::<Cell<usize>>() };
            let left = count.get() - 1;
            if left == 0 {
                // SAFETY: this was the last reference.
                unsafe { free(self.tag, self.word) };
            } else {
                count.set(left);
            }
        }
    }
}

thread_local! {
    static FREEING: Cell<u32> = const { Cell::new(0) };
    static LATER: Later = const { Cell::new(Vec::new()) };
}

/// Data nested deeper than this is freed through a list instead of by recursion.
const FREE_DEPTH: u32 = 128;

/// Frees an object whose last reference was dropped. Uses bounded stack for any nesting depth.
///
/// # Safety
/// The count is 1 and belongs to the caller; the tag is the object's.
#[inline(never)]
unsafe fn free(tag: Tag, word: *mut ()) {
    if tag == Tag::Str {
        // SAFETY: by contract.
        drop(Str(unsafe { NonNull::new_unchecked(word.cast::<StrHeader>()) }));
        return;
    }
    let depth = FREEING.get();
    // While the thread ends, the list may be destroyed already; the little data freed then is freed by
    // recursion.
    if depth >= FREE_DEPTH && LATER.try_with(|list| push(list, (tag, word))).is_ok() {
        return;
    }
    FREEING.set(depth + 1);
    // SAFETY: by contract.
    unsafe { free_now(tag, word) };
    if depth == 0 {
        while let Ok(Some((tag, word))) = LATER.try_with(pop) {
            // SAFETY: put there by the lines above, with its only reference.
            unsafe { free_now(tag, word) };
        }
    }
    FREEING.set(depth);
}

type Later = Cell<Vec<(Tag, *mut ())>>;

fn push(list: &Later, object: (Tag, *mut ())) {
    let mut later = list.take();
    later.push(object);
    list.set(later);
}

fn pop(list: &Later) -> Option<(Tag, *mut ())> {
    let mut later = list.take();
    let next = later.pop();
    list.set(later);
    next
}

unsafe fn free_now(tag: Tag, word: *mut ()) {
    unsafe fn drop_object<T>(word: *mut ()) {
        // SAFETY: the caller's tag belongs to objects with body `T`, made by `Ref::new`.
        drop(unsafe { Box::from_raw(word.cast::<Object<T>>()) });
    }
    // SAFETY: each arm uses the body type of its tag.
    unsafe {
        match tag {
            Tag::Bytes => drop_object::<Vec<u8>>(word),
            Tag::List => drop_object::<List>(word),
            Tag::Dict => drop_object::<Dict>(word),
            Tag::Set => drop_object::<Set>(word),
            Tag::Range => drop_object::<Range>(word),
            Tag::Pair => drop_object::<Pair>(word),
            Tag::Enum => drop_object::<EnumValue>(word),
            Tag::Struct => drop_object::<StructValue>(word),
            Tag::Closure | Tag::Cell | Tag::Foreign => ForeignObject::free(word),
            _ => {}
        }
    }
}

impl Default for Value {
    fn default() -> Value {
        Value::NIL
    }
}

macro_rules! from_body {
    ($($tag:ident: $body:ty $(, $len:path)?;)*) => {$(
        impl From<Ref<$body>> for Value {
            #[inline(always)]
            fn from(body: Ref<$body>) -> Value {
                Value::raw(Tag::$tag, body.into_raw())
            }
        }
        impl From<$body> for Value {
            #[inline(always)]
            fn from(body: $body) -> Value {
                $(spend_items($len(&body));)?
                Value::raw(Tag::$tag, Ref::new(body).into_raw())
            }
        }
    )*};
}

from_body! {
    Dict: Dict, Dict::len;
    Set: Set, Set::len;
    Range: Range;
    Pair: Pair;
    Enum: EnumValue;
    Struct: StructValue;
}

impl From<Ref<List>> for Value {
    #[inline(always)]
    fn from(body: Ref<List>) -> Value {
        Value::raw(Tag::List, body.into_raw())
    }
}

impl From<Vec<Value>> for Value {
    fn from(items: Vec<Value>) -> Value {
        Value::list(items)
    }
}

impl From<Str> for Value {
    #[inline(always)]
    fn from(s: Str) -> Value {
        Value::raw(Tag::Str, s.into_raw())
    }
}

impl From<&Str> for Value {
    fn from(s: &Str) -> Value {
        s.clone().into()
    }
}

impl From<&str> for Value {
    fn from(s: &str) -> Value {
        Value::str(s)
    }
}

impl From<String> for Value {
    fn from(s: String) -> Value {
        Value::str(&s)
    }
}

impl From<&String> for Value {
    fn from(s: &String) -> Value {
        Value::str(s)
    }
}

impl From<i64> for Value {
    fn from(i: i64) -> Value {
        Value::int(i)
    }
}

impl From<usize> for Value {
    fn from(i: usize) -> Value {
        Value::int(i as i64)
    }
}

impl From<f64> for Value {
    fn from(f: f64) -> Value {
        Value::float(f)
    }
}

impl From<bool> for Value {
    fn from(b: bool) -> Value {
        Value::bool(b)
    }
}

impl From<()> for Value {
    fn from((): ()) -> Value {
        Value::NIL
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(v: Option<T>) -> Value {
        v.map_or(Value::NIL, Into::into)
    }
}

impl std::fmt::Debug for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}({self})", self.type_name())
    }
}
