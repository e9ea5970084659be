//! Facts about variables at a place, beyond their declarations, and how they are discarded.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::types::Ty;

/// A variable, identified by its declaration, and a path of fields in its value.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Place {
    pub(crate) def: u32,
    pub(crate) path: String,
}

/// A fact about a place.
#[derive(Clone)]
pub(crate) struct Fact {
    pub(crate) ty: Ty,
    /// The kinds that tests have excluded for a value of type `unknown`, as a bit set over [`KINDS`].
    pub(crate) ruled_out: u16,
}

/// The kinds of `type_of` that the checker distinguishes, in the order of messages.
pub(crate) const KINDS: [&str; 9] =
    ["int", "string", "float", "bool", "nil", "list", "dict", "closure", "bytes"];

/// The facts at the end of a branch, as far as they differ from the facts at its start.
pub(crate) struct End(pub(crate) FxHashMap<Place, Option<Fact>>);

/// The facts beyond declarations.
#[derive(Default)]
pub(crate) struct Flow {
    pub(crate) facts: FxHashMap<Place, Fact>,
    /// The facts before each change.
    undo: Vec<(Place, Option<Fact>)>,
    /// The variables that were assigned, in order.
    pub(crate) touched: Vec<u32>,
}

/// A state to return to.
#[derive(Clone, Copy)]
pub(crate) struct Mark {
    undo: usize,
    touched: usize,
}

impl Flow {
    /// Returns the current state.
    pub(crate) fn mark(&self) -> Mark {
        Mark { undo: self.undo.len(), touched: self.touched.len() }
    }

    pub(crate) fn set(&mut self, place: Place, fact: Option<Fact>) {
        let before = match fact {
            Some(fact) => self.facts.insert(place.clone(), fact),
            None => self.facts.remove(&place),
        };
        self.undo.push((place, before));
    }

    /// Discards the facts since a mark, and all facts about variables that were assigned since.
    pub(crate) fn rewind(&mut self, mark: Mark) {
        self.go_back(mark);
        let touched: FxHashSet<u32> = self.touched[mark.touched..].iter().copied().collect();
        self.forget(|place| touched.contains(&place.def));
    }

    /// Restores the facts at a mark, before another branch is walked.
    pub(crate) fn go_back(&mut self, mark: Mark) {
        while self.undo.len() > mark.undo {
            let Some((place, before)) = self.undo.pop() else { break };
            match before {
                Some(fact) => self.facts.insert(place, fact),
                None => self.facts.remove(&place),
            };
        }
    }

    /// Returns the changes since a mark.
    pub(crate) fn end_since(&self, mark: Mark) -> End {
        let changed = self.undo[mark.undo..].iter().map(|(place, _)| place);
        End(changed.map(|place| (place.clone(), self.facts.get(place).cloned())).collect())
    }

    pub(crate) fn forget(&mut self, about: impl Fn(&Place) -> bool) {
        if self.facts.is_empty() {
            return;
        }
        let gone: Vec<Place> = self.facts.keys().filter(|place| about(place)).cloned().collect();
        gone.into_iter().for_each(|place| self.set(place, None));
    }

    /// Returns the distinct variables that were assigned since a mark.
    pub(crate) fn touched_since(&self, mark: Mark) -> Vec<u32> {
        let mut found: Vec<u32> = self.touched[mark.touched..].to_vec();
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Returns the variables of type `unknown` for which some kinds were excluded, with the remaining kinds.
    pub(crate) fn half_covered(&self) -> Vec<(u32, Vec<&'static str>)> {
        let all = (1u16 << KINDS.len()) - 1;
        let mut found: Vec<(u32, Vec<&'static str>)> = self
            .facts
            .iter()
            .filter(|(_, fact)| fact.ty == Ty::Unknown && fact.ruled_out != 0 && fact.ruled_out != all)
            .map(|(place, fact)| {
                let left = |at: &usize| fact.ruled_out & (1 << *at) == 0;
                (place.def, (0..KINDS.len()).filter(left).map(|at| KINDS[at]).collect())
            })
            .collect();
        found.sort();
        found
    }
}
