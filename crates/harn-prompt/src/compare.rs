//! Compares two assemblies: added and removed fragments, and the length of the shared prefix.

use std::collections::HashMap;

use harn_value::Data as Value;

use crate::reduce::{Assembly, Provenance};
use crate::value::object;

/// How a fragment differs between two assemblies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// In both prompts with the same body, or in neither.
    Same,
    /// In both prompts with different bodies.
    Edited,
    /// In the first prompt only.
    Removed,
    /// In the second prompt only.
    Added,
}

impl Change {
    /// Returns the name used in results.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Edited => "edited",
            Self::Removed => "removed",
            Self::Added => "added",
        }
    }
}

/// One fragment in two assemblies. `None` means that it was not declared there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row<'a> {
    /// The fragment's id.
    pub id: &'a str,
    /// Its entry in the first assembly.
    pub left: Option<&'a Provenance>,
    /// Its entry in the second assembly.
    pub right: Option<&'a Provenance>,
    /// How it differs.
    pub change: Change,
}

/// The difference between two assemblies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference<'a> {
    /// One row per fragment of either side, in declaration order.
    pub rows: Vec<Row<'a>>,
    /// Number of leading bytes that both prompts share.
    pub shared_prefix: usize,
    /// Length of the second prompt minus length of the first, in bytes.
    pub byte_delta: i64,
    /// The first fragment of the second prompt that is not part of the shared prefix, else such a fragment of the first
    /// prompt.
    pub first_difference: Option<&'a str>,
}

impl Difference<'_> {
    /// Returns the ids of all fragments with that change, in declaration order.
    #[must_use]
    pub fn ids(&self, change: Change) -> Vec<&str> {
        self.rows.iter().filter(|row| row.change == change).map(|row| row.id).collect()
    }

    /// Returns `{removed, added, edited, bytes, shared_prefix_bytes, first_difference}`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        object([
            ("removed", self.ids(Change::Removed).into()),
            ("added", self.ids(Change::Added).into()),
            ("edited", self.ids(Change::Edited).into()),
            ("bytes", self.byte_delta.into()),
            ("shared_prefix_bytes", self.shared_prefix.into()),
            ("first_difference", self.first_difference.into()),
        ])
    }
}

/// Compares two assemblies. Fragments are matched by id, and fragments with equal ids by their order.
#[must_use]
pub fn compare<'a>(left: &'a Assembly, right: &'a Assembly) -> Difference<'a> {
    let partners: HashMap<Key<'_>, &Provenance> = numbered(right).collect();
    let places: HashMap<Key<'_>, usize> = numbered(left).enumerate().map(|(i, (key, _))| (key, i)).collect();
    // A fragment that only the second assembly has comes after its predecessor there.
    let mut added: Vec<Vec<&Provenance>> = vec![Vec::new(); left.provenance.len() + 1];
    let mut behind = 0;
    for (key, entry) in numbered(right) {
        match places.get(&key) {
            Some(place) => behind = place + 1,
            None => added[behind].push(entry),
        }
    }
    let row = |id: &'a str, l, r| Row { id, left: l, right: r, change: change(left, l, right, r) };
    let mut added = added.into_iter().map(|list| list.into_iter().map(|r| row(&r.id, None, Some(r))));
    let mut rows: Vec<Row<'a>> = added.next().into_iter().flatten().collect();
    for ((key, entry), inserted) in numbered(left).zip(added) {
        rows.push(row(key.0, Some(entry), partners.get(&key).copied()));
        rows.extend(inserted);
    }

    let shared_prefix = shared_prefix(left.as_str(), right.as_str());
    let length = |assembly: &Assembly| i64::try_from(assembly.as_str().len()).unwrap_or(i64::MAX);
    Difference {
        rows,
        shared_prefix,
        byte_delta: length(right) - length(left),
        first_difference: first_behind(right, shared_prefix).or_else(|| first_behind(left, shared_prefix)),
    }
}

/// Returns the number of leading bytes that two strings share, rounded down to a character boundary of both.
#[must_use]
pub fn shared_prefix(left: &str, right: &str) -> usize {
    let mut length = left.bytes().zip(right.bytes()).take_while(|(a, b)| a == b).count();
    while !left.is_char_boundary(length) || !right.is_char_boundary(length) {
        length -= 1;
    }
    length
}

/// A fragment's id and the number of its occurrence.
type Key<'a> = (&'a str, usize);

fn numbered(assembly: &Assembly) -> impl Iterator<Item = (Key<'_>, &Provenance)> {
    let mut seen = HashMap::<&str, usize>::new();
    assembly.provenance.iter().map(move |entry| {
        let count = seen.entry(&entry.id).or_default();
        *count += 1;
        ((entry.id.as_str(), *count), entry)
    })
}

fn change(left: &Assembly, l: Option<&Provenance>, right: &Assembly, r: Option<&Provenance>) -> Change {
    let l = l.filter(|entry| entry.included());
    let r = r.filter(|entry| entry.included());
    match (l, r) {
        (None, None) => Change::Same,
        (Some(_), None) => Change::Removed,
        (None, Some(_)) => Change::Added,
        (Some(l), Some(r)) if left.body(l) == right.body(r) => Change::Same,
        (Some(_), Some(_)) => Change::Edited,
    }
}

fn first_behind(assembly: &Assembly, offset: usize) -> Option<&str> {
    assembly.in_text_order().find(|p| p.range.as_ref().is_some_and(|r| r.end > offset)).map(|p| p.id.as_str())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::fragment::Fragment;
    use crate::reduce::reduce;

    fn assembly(parts: &[(&str, &str)]) -> Assembly {
        let fragments: Vec<_> = parts.iter().map(|(id, body)| Fragment::new(*id, "s", *body)).collect();
        reduce(&fragments, &BTreeSet::new(), &BTreeSet::new())
    }

    fn rows<'a>(difference: &Difference<'a>) -> Vec<(&'a str, &'static str)> {
        difference.rows.iter().map(|row| (row.id, row.change.as_str())).collect()
    }

    #[test]
    fn rows_stand_in_declaration_order_of_both_sides() {
        let left = assembly(&[("a", "A"), ("b", "B"), ("d", "D")]);
        let right = assembly(&[("z", "Z"), ("a", "A"), ("c", "C"), ("d", "E")]);
        let difference = compare(&left, &right);
        assert_eq!(
            rows(&difference),
            [("z", "added"), ("a", "same"), ("c", "added"), ("b", "removed"), ("d", "edited")]
        );
        assert_eq!(difference.byte_delta, 3);
    }

    #[test]
    fn equal_ids_are_matched_in_order() {
        let left = assembly(&[("a", "1"), ("a", "2")]);
        let right = assembly(&[("a", "1")]);
        assert_eq!(rows(&compare(&left, &right)), [("a", "same"), ("a", "removed")]);
    }

    #[test]
    fn the_shared_prefix_ends_where_texts_part() {
        let left = assembly(&[("a", "same"), ("b", "tail one")]);
        let right = assembly(&[("a", "same"), ("b", "tail two")]);
        let difference = compare(&left, &right);
        assert_eq!(difference.shared_prefix, "same\n\ntail ".len());
        assert_eq!(difference.first_difference, Some("b"));
        assert_eq!(compare(&left, &left).first_difference, None);
        assert_eq!(compare(&left, &left).shared_prefix, left.as_str().len());
    }

    #[test]
    fn what_was_cut_off_is_the_first_difference() {
        let left = assembly(&[("a", "A"), ("b", "B")]);
        let right = assembly(&[("a", "A")]);
        assert_eq!(compare(&left, &right).first_difference, Some("b"));
    }

    #[test]
    fn a_shared_prefix_never_splits_a_character() {
        assert_eq!(shared_prefix("né", "nè"), 1);
        assert_eq!(shared_prefix("né", "né"), 3);
        assert_eq!(shared_prefix("", "x"), 0);
    }
}
