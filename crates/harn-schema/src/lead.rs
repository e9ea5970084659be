//! A shorter way to the groups of patterns that begin with a text.
//!
//! A general search looks for the end of a match, then for its start, then for its groups. When all matches of a pattern begin
//! with the same text, as those of `user=(\w+)` do, each starts where that text stands, and one pass over the match finds
//! the groups.

use std::cell::RefCell;

use memchr::memmem::Finder;
use regex_automata::util::primitives::NonMaxUsize;
use regex_automata::{Anchored, Input, dfa::onepass};
use regex_syntax::hir::{Hir, HirKind};
use smallvec::{SmallVec, smallvec};

/// Bytes that the states of a pattern may take: those of a line's fields need a few thousand.
const STATES: usize = 256 << 10;

/// The ends of groups: the start of group n at 2n, its end behind it.
pub(crate) type Slots = SmallVec<[Option<NonMaxUsize>; 16]>;

/// How the groups of a pattern that begins with a text are found.
pub(crate) struct Lead {
    text: Finder<'static>,
    states: onepass::DFA,
    cache: RefCell<onepass::Cache>,
}

/// What a look for the next match comes to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// There is none.
    None,
    /// Its groups are in the slots.
    Found,
    /// There is none that starts before this place. Looking on may read the rest of the text again for each place where the
    /// pattern might start, so it is for the general search, whose time is linear.
    From(usize),
}

impl Lead {
    /// For a pattern without flags; none when it does not begin with a text or one pass does not tell its groups.
    pub(crate) fn new(pattern: &str) -> Option<Lead> {
        let tree = regex_syntax::parse(pattern).ok()?;
        let text = first_text(&tree)?;
        let config = onepass::Config::new().size_limit(Some(STATES));
        let states = onepass::Builder::new().configure(config).build(pattern).ok()?;
        let cache = RefCell::new(states.create_cache());
        Some(Lead { text: Finder::new(text).into_owned(), states, cache })
    }

    /// Room for the groups.
    pub(crate) fn slots(&self) -> Slots {
        smallvec![None; self.states.get_nfa().group_info().slot_len()]
    }

    /// Looks for the first match from a place on.
    pub(crate) fn look(&self, text: &str, from: usize, slots: &mut Slots) -> Look {
        let Some(at) = self.text.find(&text.as_bytes()[from..]) else { return Look::None };
        let start = from + at;
        let input = Input::new(text).range(start..).anchored(Anchored::Yes);
        match self.states.try_search_slots(&mut self.cache.borrow_mut(), &input, slots) {
            Ok(Some(_)) => Look::Found,
            _ => Look::From(start),
        }
    }
}

/// The text that each match begins with.
fn first_text(tree: &Hir) -> Option<&[u8]> {
    match tree.kind() {
        HirKind::Literal(text) => Some(&text.0),
        HirKind::Concat(parts) => parts.first().and_then(first_text),
        HirKind::Capture(group) => first_text(&group.sub),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_that_begin_with_a_text_have_one() {
        let lead = |pattern| first_text(&regex_syntax::parse(pattern).unwrap()).map(<[u8]>::to_vec);
        assert_eq!(lead("user=(\\w+)"), Some(b"user=".to_vec()));
        assert_eq!(lead("(ab)c"), Some(b"ab".to_vec()));
        assert_eq!(lead("ä+"), None);
        for pattern in ["", "^a", "a|b", "a?b", "(?i)ab", "\\bab", "[ab]c", "(?:ab)*c"] {
            assert_eq!(lead(pattern), None, "{pattern}");
        }
    }

    #[test]
    fn what_does_not_start_where_the_text_stands_is_left_to_the_search() {
        let lead = Lead::new("a(b+)c").unwrap();
        let mut slots = lead.slots();
        assert_eq!(lead.look("xxabbc", 0, &mut slots), Look::Found);
        assert_eq!(slots[2].map(NonMaxUsize::get), Some(3));
        assert_eq!(lead.look("xab abc", 0, &mut slots), Look::From(1));
        assert_eq!(lead.look("xbc", 0, &mut slots), Look::None);
        assert!(Lead::new("a(.*)(.*)b").is_none(), "which group has what cannot be told in one pass");
    }
}
