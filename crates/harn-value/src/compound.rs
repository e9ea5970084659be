//! The smaller compound values: range, pair, enum value, struct instance.

use std::cell::{OnceCell, RefCell};
use std::hash::{Hash, Hasher};

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::{Ref, Str, Value, View};

/// A lazy range of ints from `start` to `end`; `exclusive` stores how it was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Range {
    /// First element.
    pub start: i64,
    /// The bound as written.
    pub end: i64,
    /// Whether `end` itself is excluded.
    pub exclusive: bool,
}

impl Range {
    /// Returns the number of elements (ranges never run backwards; the full int range saturates).
    pub fn len(&self) -> u64 {
        if self.is_empty() {
            return 0;
        }
        let span = self.end.wrapping_sub(self.start) as u64;
        if self.exclusive { span } else { span.saturating_add(1) }
    }

    /// Returns whether it has no elements.
    pub fn is_empty(&self) -> bool {
        if self.exclusive { self.end <= self.start } else { self.end < self.start }
    }

    /// Returns the last element, if any.
    pub fn last(&self) -> Option<i64> {
        (!self.is_empty()).then(|| if self.exclusive { self.end - 1 } else { self.end })
    }

    /// Returns whether `i` is an element.
    pub fn contains(&self, i: i64) -> bool {
        self.last().is_some_and(|last| i >= self.start && i <= last)
    }
}

/// The pair `(first, second)`.
#[derive(Clone)]
pub struct Pair {
    /// First component.
    pub first: Value,
    /// Second component.
    pub second: Value,
}

/// A value compared by structure and type, as in sets and `unique`: `1`, `1.0`, `"1"` and `true` differ;
/// lists and dicts are compared by content.
#[derive(Clone)]
pub struct Structural(pub Value);

impl PartialEq for Structural {
    fn eq(&self, other: &Structural) -> bool {
        // All handles have the same hash, so a set of many compares each with all others.
        crate::steps::step();
        crate::equal::identical(&self.0, &other.0)
    }
}

impl Eq for Structural {}

impl Hash for Structural {
    fn hash<H: Hasher>(&self, state: &mut H) {
        crate::equal::hash_structure(&self.0, state);
    }
}

/// The declaration of an enum.
#[derive(Debug)]
pub struct EnumType {
    /// Its name.
    pub name: Str,
    /// Its variants, in order.
    pub variants: Vec<Str>,
}

impl EnumType {
    /// Returns the index of the variant with this name.
    pub fn variant(&self, name: &str) -> Option<u32> {
        self.variants.iter().position(|v| v.as_str() == name).map(|at| at as u32)
    }
}

/// An enum value: variant and payload.
#[derive(Clone)]
pub struct EnumValue {
    /// The enum it belongs to.
    pub ty: Ref<EnumType>,
    /// Index of the variant.
    pub variant: u32,
    /// The payload.
    pub fields: SmallVec<[Value; 2]>,
}

thread_local! {
    static RESULT: Ref<EnumType> = Ref::new(EnumType {
        name: Str::new("Result"),
        variants: vec![Str::new("Ok"), Str::new("Err")],
    });
}

impl EnumValue {
    /// Returns the declaration of the built-in `Result`: variant 0 is `Ok`, 1 is `Err`.
    pub fn result_type() -> Ref<EnumType> {
        RESULT.with(Ref::clone)
    }

    /// Returns the name of the variant.
    pub fn variant_name(&self) -> &Str {
        &self.ty.variants[self.variant as usize]
    }

    /// Returns `Some(Ok(payload))` or `Some(Err(payload))` for a value of an enum named `Result` with such
    /// variants.
    pub fn as_result(&self) -> Option<Result<Value, Value>> {
        if self.ty.name != "Result" {
            return None;
        }
        let payload = self.fields.first().cloned().unwrap_or_default();
        match self.variant_name().as_str() {
            "Ok" => Some(Ok(payload)),
            "Err" => Some(Err(payload)),
            _ => None,
        }
    }
}

impl Value {
    /// Creates `Result.Ok(value)`.
    pub fn ok(value: Value) -> Value {
        EnumValue { ty: EnumValue::result_type(), variant: 0, fields: SmallVec::from_iter([value]) }.into()
    }

    /// Creates `Result.Err(error)`.
    pub fn err(error: Value) -> Value {
        EnumValue { ty: EnumValue::result_type(), variant: 1, fields: SmallVec::from_iter([error]) }.into()
    }
}

/// The declaration of a struct.
pub struct StructType {
    /// The types of the fields, once they are known; unset if the fields have no annotations.
    pub types: OnceCell<Box<dyn FieldTypes>>,
    /// Its name.
    pub name: Str,
    /// Field names in order of declaration; slot `i` of an instance holds field `i`.
    pub fields: Vec<Str>,
    /// Methods of all `impl` blocks.
    methods: RefCell<FxHashMap<Str, Value>>,
    /// Whether instances are immutable: assigning a field is an error.
    pub frozen: bool,
    /// Slots in byte order of the field names.
    sorted: Vec<u32>,
}

impl StructType {
    /// Creates a declaration without methods.
    pub fn new(name: Str, fields: Vec<Str>) -> StructType {
        let mut sorted: Vec<u32> = (0..fields.len() as u32).collect();
        sorted.sort_by(|&a, &b| fields[a as usize].cmp(&fields[b as usize]));
        StructType {
            types: OnceCell::new(),
            name,
            fields,
            methods: RefCell::default(),
            frozen: false,
            sorted,
        }
    }

    /// Creates a declaration with immutable instances.
    pub fn frozen(name: Str, fields: Vec<Str>) -> StructType {
        StructType { frozen: true, ..StructType::new(name, fields) }
    }

    /// What is wrong with a value for a field, if the field has a type that excludes the value. `grown`: the value was made
    /// from the old value of the field by adding to it, so that only its kind is compared.
    pub fn problem(&self, name: &Str, value: &Value, grown: bool) -> Option<String> {
        let types = self.types.get()?;
        types.problem(self.slot(name)?, value, grown)
    }

    /// Returns the method with this name.
    #[inline]
    pub fn method(&self, name: &Str) -> Option<Value> {
        self.methods.borrow().get(name).cloned()
    }

    /// Returns the first method for which `is_it` returns true.
    pub fn find_method(&self, is_it: impl Fn(&Value) -> bool) -> Option<Value> {
        self.methods.borrow().values().find(|method| is_it(method)).cloned()
    }

    /// Returns the names of the methods, in no particular order.
    pub fn method_names(&self) -> Vec<Str> {
        self.methods.borrow().keys().cloned().collect()
    }

    /// Adds or replaces a method; returns the replaced one.
    ///
    /// # Safety
    /// No cache refers to the replaced method without holding a reference: call sites look it up again.
    pub unsafe fn set_method(&self, name: Str, method: Value) -> Option<Value> {
        self.methods.borrow_mut().insert(name, method)
    }

    /// Removes all methods.
    ///
    /// # Safety
    /// As for [`StructType::set_method`].
    pub unsafe fn take_methods(&self) -> FxHashMap<Str, Value> {
        self.methods.take()
    }

    /// Returns the slot of a field by its name.
    pub fn position(&self, name: &str) -> Option<usize> {
        let found = self.sorted.binary_search_by(|&slot| self.fields[slot as usize].as_str().cmp(name));
        found.ok().map(|at| self.sorted[at] as usize)
    }

    /// Returns the slot of a declared field.
    #[inline]
    pub fn slot(&self, name: &Str) -> Option<usize> {
        self.fields
            .iter()
            .position(|f| Str::same(f, name))
            .or_else(|| self.fields.iter().position(|f| f == name))
    }
}

/// Validates the values of a struct's fields.
pub trait FieldTypes {
    /// What is wrong with `value` for the field in `slot`; with `grown`, compares only the kind.
    fn problem(&self, slot: usize, value: &Value, grown: bool) -> Option<String>;
}

/// A struct instance.
#[derive(Clone)]
pub struct StructValue {
    /// Its declaration.
    pub ty: Ref<StructType>,
    /// One value per declared field; [`Value::ABSENT`] for an omitted field.
    pub slots: SmallVec<[Value; 4]>,
    /// Fields added by assignment that the declaration lacks.
    pub extra: Option<Box<crate::Dict>>,
}

impl StructValue {
    /// Returns the value of a field; `None` if absent or unknown.
    #[inline]
    pub fn get(&self, name: &Str) -> Option<&Value> {
        match self.ty.slot(name) {
            Some(slot) => Some(&self.slots[slot]).filter(|v| !v.is_absent()),
            None => self.extra.as_ref()?.get(name),
        }
    }

    /// Returns the value of a field for writing; adds the field if absent.
    pub fn entry(&mut self, name: &Str) -> &mut Value {
        match self.ty.slot(name) {
            Some(slot) => {
                let place = &mut self.slots[slot];
                if place.is_absent() {
                    *place = Value::NIL;
                }
                place
            }
            None => self.extra.get_or_insert_with(Box::default).entry(name),
        }
    }

    /// Returns the present fields in byte order of their names.
    pub fn fields(&self) -> Vec<(&Str, &Value)> {
        let declared = self.ty.sorted.iter().map(|&slot| {
            let slot = slot as usize;
            (&self.ty.fields[slot], &self.slots[slot])
        });
        let mut all: Vec<_> = declared.filter(|(_, v)| !v.is_absent()).collect();
        if let Some(extra) = &self.extra {
            all.extend(extra.iter());
            all.sort_by(|a, b| a.0.cmp(b.0));
        }
        all
    }

    /// Like [`StructValue::get`], for a Rust string.
    pub fn get_str(&self, name: &str) -> Option<&Value> {
        match self.ty.fields.iter().position(|field| field.as_str() == name) {
            Some(slot) => Some(&self.slots[slot]).filter(|v| !v.is_absent()),
            None => self.extra.as_ref()?.get_str(name),
        }
    }

    /// Returns the present fields as a dict.
    pub fn to_dict(&self) -> crate::Dict {
        self.fields().into_iter().map(|(k, v)| (k.clone(), v.clone())).collect()
    }
}

impl Value {
    /// Returns a dict, or a struct's fields as a dict; `None` for other values.
    pub fn to_dict(&self) -> Option<Ref<crate::Dict>> {
        match self.view() {
            View::Dict(d) => Some(d.clone()),
            View::Struct(s) => Some(Ref::new(s.to_dict())),
            _ => None,
        }
    }

    /// Returns an entry of a dict or a field of a struct; `None` if it is missing, and for other values.
    pub fn field(&self, name: &str) -> Option<&Value> {
        match self.view() {
            View::Dict(d) => d.get_str(name),
            View::Struct(s) => s.get_str(name),
            _ => None,
        }
    }
}
