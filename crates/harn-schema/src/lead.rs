//! A fast path to the capture groups of patterns that begin with a literal prefix.
//!
//! A general search finds the end of a match, then its start, then its groups. If all matches of a pattern begin
//! with the same literal, as for `user=(\w+)`, a match can only start at an occurrence of it, and one pass over the
//! match finds the groups.

use std::cell::RefCell;

use memchr::memmem::Finder;
use regex_automata::util::primitives::NonMaxUsize;
use regex_automata::{Anchored, Input, dfa::onepass};
use regex_syntax::hir::{Hir, HirKind};
use smallvec::{SmallVec, smallvec};

/// Size limit of the compiled automaton in bytes: patterns for the fields of a line need a few thousand.
const STATES: usize = 256 << 10;

/// The bounds of the groups: the start of group n at index 2n, its end at 2n + 1.
pub(crate) type Slots = SmallVec<[Option<NonMaxUsize>; 16]>;

/// Finds the groups of a pattern that begins with a literal prefix.
pub(crate) struct Lead {
    text: Finder<'static>,
    states: onepass::DFA,
    cache: RefCell<onepass::Cache>,
}

/// The result of a search for the next match.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// No match.
    None,
    /// A match; its groups are in the slots.
    Found,
    /// No match starts before this offset. Continuing here could scan the remaining text again for each possible
    /// start, so the caller continues with the general search, which has linear time.
    From(usize),
}

impl Lead {
    /// Compiles a pattern without flags; `None` if it has no literal prefix or one pass cannot determine its
    /// groups.
    pub(crate) fn new(pattern: &str) -> Option<Lead> {
        let tree = regex_syntax::parse(pattern).ok()?;
        let text = first_text(&tree)?;
        let config = onepass::Config::new().size_limit(Some(STATES));
        let states = onepass::Builder::new().configure(config).build(pattern).ok()?;
        let cache = RefCell::new(states.create_cache());
        Some(Lead { text: Finder::new(text).into_owned(), states, cache })
    }

    /// Allocates slots for the groups.
    pub(crate) fn slots(&self) -> Slots {
        smallvec![None; self.states.get_nfa().group_info().slot_len()]
    }

    /// Searches for the first match at or after an offset.
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

/// Returns the literal prefix of all matches.
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
