//! Tracing of the references that values hold, for the cycle collector, one object at a time.

use crate::value::{Tag, Value, View};

impl Value {
    /// Returns address and reference count of the object of a value that can hold other values; `None` for all
    /// others. The address is for identity only.
    #[inline]
    pub fn holder(&self) -> Option<(usize, usize)> {
        match self.tag() {
            Tag::List
            | Tag::Dict
            | Tag::Set
            | Tag::Pair
            | Tag::Enum
            | Tag::Struct
            | Tag::Closure
            | Tag::Cell
            | Tag::Foreign => Some(self.address_and_count()),
            _ => None,
        }
    }

    /// Visits every value that this value's object holds directly, each reference once. An object of another
    /// crate may omit some (see [`crate::Foreign::trace`]).
    pub fn children(&self, visit: &mut dyn FnMut(&Value)) {
        match self.view() {
            View::List(items) => items.iter().for_each(visit),
            View::Dict(entries) => entries.values_in_any_order().for_each(visit),
            View::Set(items) => items.iter().for_each(visit),
            View::Pair(pair) => [&pair.first, &pair.second].into_iter().for_each(visit),
            View::Enum(e) => e.fields.iter().for_each(visit),
            View::Struct(s) => {
                s.slots.iter().for_each(&mut *visit);
                if let Some(extra) = &s.extra {
                    extra.values_in_any_order().for_each(visit);
                }
            }
            View::Foreign(object) => object.trace(visit),
            _ => {}
        }
    }
}
