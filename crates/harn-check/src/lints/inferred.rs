//! Types that rules need, from the checker.

use std::cell::OnceCell;

use harn_syntax::Span;

use crate::tell::types_of;
use crate::told::Told;
use crate::world::{Source, World};

/// The types that the checker infers, on demand.
pub(super) struct Types<'a> {
    source: &'a Source<'a>,
    world: &'a World<'a>,
    told: OnceCell<Told>,
}

impl<'a> Types<'a> {
    pub(super) fn new(source: &'a Source<'a>, world: &'a World<'a>) -> Types<'a> {
        Types { source, world, told: OnceCell::new() }
    }

    fn told(&self) -> &Told {
        self.told.get_or_init(|| types_of(self.source, self.world))
    }

    /// Returns whether an expression that is compared with a bool certainly is one.
    pub(super) fn is_bool(&self, span: Span) -> bool {
        self.told().bools.contains(&span)
    }

    /// Returns whether an object before a dot is of a builtin type or struct without functions of its own. A dict may
    /// have one under each key.
    pub(super) fn has_only_methods(&self, object: Span) -> bool {
        let known = self.told().objects.iter().find(|(span, _)| *span == object);
        known.is_some_and(|(_, ty)| ty.word.is_some_and(|word| word != "dict"))
    }
}
