//! The reducer: the only place where a system prompt is assembled.
//!
//! ```text
//! fragments   a        b (needs tool x)   c [after]   d
//! text        a.body ⏎⏎ d.body ⏎⏎ c.body              x is not active, so b is left out
//! ranges      0..3      5..9      11..20
//! ```

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;

use harn_value::Data as Value;

use crate::fragment::{Bucket, Fragment};
use crate::value::object;

/// The separator between two fragments in the prompt.
pub const SEPARATOR: &str = "\n\n";

/// Why a fragment is included or excluded. The display form is part of the contract.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The body is empty or only whitespace.
    EmptyBody,
    /// The first required tool that is not active.
    MissingTool(String),
    /// The first required capability flag that is not set.
    MissingCap(String),
    /// All requirements are met; both lists are empty for a fragment without requirements.
    Present {
        /// The required tools, all active.
        tools: Vec<String>,
        /// The required flags, all set.
        caps: Vec<String>,
    },
}

impl Reason {
    /// Returns whether a fragment with this reason is included.
    #[must_use]
    pub fn is_included(&self) -> bool {
        matches!(self, Self::Present { .. })
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EmptyBody => f.write_str("empty body"),
            Self::MissingTool(name) => write!(f, "requires tool `{name}` (not available)"),
            Self::MissingCap(flag) => write!(f, "requires capability `{flag}` (not set)"),
            Self::Present { tools, caps } => match (tools.is_empty(), caps.is_empty()) {
                (true, true) => f.write_str("unconditional"),
                (false, true) => write!(f, "tool(s) present: {}", tools.join(", ")),
                (true, false) => write!(f, "capabilit(ies) present: {}", caps.join(", ")),
                (false, false) => write!(
                    f,
                    "tool(s) present: {}; capabilit(ies) present: {}",
                    tools.join(", "),
                    caps.join(", ")
                ),
            },
        }
    }
}

/// The provenance of one fragment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provenance {
    /// The fragment's id.
    pub id: String,
    /// The fragment's source.
    pub source: String,
    /// The fragment's bucket.
    pub bucket: Bucket,
    /// Why it is included or excluded.
    pub reason: Reason,
    /// Byte range of its body in [`Assembly::text`]; `None` when it is excluded.
    pub range: Option<Range<usize>>,
}

impl Provenance {
    /// Returns whether the fragment is included.
    #[must_use]
    pub fn included(&self) -> bool {
        self.range.is_some()
    }

    /// Returns the size of the fragment in the prompt in bytes, 0 when it is excluded.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.range.as_ref().map_or(0, ExactSizeIterator::len)
    }

    /// Returns the trace entry `{id, source, bucket, included, reason, bytes}`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        object([
            ("id", self.id.clone().into()),
            ("source", self.source.clone().into()),
            ("bucket", self.bucket.as_str().into()),
            ("included", self.included().into()),
            ("reason", self.reason.to_string().into()),
            ("bytes", self.bytes().into()),
        ])
    }
}

/// A system prompt and the provenance of every declared fragment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assembly {
    /// The system prompt; `None` when nothing was included.
    pub text: Option<String>,
    /// One entry per fragment, in declaration order.
    pub provenance: Vec<Provenance>,
}

impl Assembly {
    /// Returns the prompt, empty if nothing was included.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.text.as_deref().unwrap_or("")
    }

    /// Returns the body of `entry` in the prompt, empty when it is excluded.
    #[must_use]
    pub fn body(&self, entry: &Provenance) -> &str {
        entry.range.clone().and_then(|range| self.as_str().get(range)).unwrap_or("")
    }

    /// Returns the number of included fragments.
    #[must_use]
    pub fn included(&self) -> usize {
        self.provenance.iter().filter(|p| p.included()).count()
    }

    /// Returns the number of excluded fragments.
    #[must_use]
    pub fn excluded(&self) -> usize {
        self.provenance.len() - self.included()
    }

    /// Iterates over the included entries in the order of the prompt.
    pub fn in_text_order(&self) -> impl Iterator<Item = &Provenance> {
        let of = |bucket| self.provenance.iter().filter(move |p| p.included() && p.bucket == bucket);
        of(Bucket::Before).chain(of(Bucket::After))
    }

    /// Returns the entry whose body contains `offset`; `None` between two fragments and after the end.
    #[must_use]
    pub fn at(&self, offset: usize) -> Option<&Provenance> {
        self.provenance.iter().find(|p| p.range.as_ref().is_some_and(|r| r.contains(&offset)))
    }
}

/// Reduces an ordered list of fragments to a system prompt.
///
/// Each fragment is included or excluded independently. The prompt consists of the bodies of the included `before`
/// fragments and then those of the included `after` fragments, in list order, joined by blank lines. Equal inputs
/// produce equal bytes. The prompt is written with a single allocation of its exact length.
#[must_use]
pub fn reduce(fragments: &[Fragment], tools: &BTreeSet<String>, caps: &BTreeSet<String>) -> Assembly {
    let mut provenance: Vec<Provenance> = fragments
        .iter()
        .map(|fragment| Provenance {
            id: fragment.id.clone(),
            source: fragment.source.clone(),
            bucket: fragment.bucket,
            reason: decide(fragment, tools, caps),
            range: None,
        })
        .collect();

    let mut end = 0;
    for bucket in [Bucket::Before, Bucket::After] {
        for (fragment, entry) in fragments.iter().zip(&mut provenance) {
            if fragment.bucket == bucket && entry.reason.is_included() {
                let start = if end == 0 { 0 } else { end + SEPARATOR.len() };
                end = start + fragment.body.trim().len();
                entry.range = Some(start..end);
            }
        }
    }
    Assembly { text: (end > 0).then(|| write_text(fragments, &provenance, end)), provenance }
}

fn decide(fragment: &Fragment, tools: &BTreeSet<String>, caps: &BTreeSet<String>) -> Reason {
    if fragment.body.trim().is_empty() {
        return Reason::EmptyBody;
    }
    if let Some(name) = fragment.requires_tools.iter().find(|name| !tools.contains(*name)) {
        return Reason::MissingTool(name.clone());
    }
    if let Some(flag) = fragment.requires_caps.iter().find(|flag| !caps.contains(*flag)) {
        return Reason::MissingCap(flag.clone());
    }
    Reason::Present { tools: fragment.requires_tools.clone(), caps: fragment.requires_caps.clone() }
}

fn write_text(fragments: &[Fragment], provenance: &[Provenance], length: usize) -> String {
    let mut text = String::with_capacity(length);
    for bucket in [Bucket::Before, Bucket::After] {
        for (fragment, entry) in fragments.iter().zip(provenance) {
            if entry.bucket == bucket && entry.included() {
                if !text.is_empty() {
                    text.push_str(SEPARATOR);
                }
                text.push_str(fragment.body.trim());
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|n| (*n).to_owned()).collect()
    }

    fn reasons(assembly: &Assembly) -> Vec<String> {
        assembly.provenance.iter().map(|p| p.reason.to_string()).collect()
    }

    #[test]
    fn before_then_after_in_list_order() {
        let fragments = [
            Fragment::new("a", "primary", "  A\n"),
            Fragment::new("z", "primary", "Z").in_bucket(Bucket::After),
            Fragment::new("b", "primary", "B"),
            Fragment::new("y", "primary", "Y").in_bucket(Bucket::After),
        ];
        let assembly = reduce(&fragments, &set(&[]), &set(&[]));
        assert_eq!(assembly.text.as_deref(), Some("A\n\nB\n\nZ\n\nY"));
        let ids: Vec<_> = assembly.provenance.iter().map(|p| p.id.as_str()).collect();
        assert_eq!(ids, ["a", "z", "b", "y"], "the trace keeps declaration order");
        let ranges: Vec<_> = assembly.provenance.iter().map(|p| p.range.clone()).collect();
        assert_eq!(ranges, [Some(0..1), Some(6..7), Some(3..4), Some(9..10)]);
        let text_order: Vec<_> = assembly.in_text_order().map(|p| p.id.as_str()).collect();
        assert_eq!(text_order, ["a", "b", "z", "y"]);
    }

    #[test]
    fn reasons_are_tested_in_their_order() {
        let gated = |body: &str| {
            Fragment::new("g", "s", body)
                .requiring_tool("a")
                .requiring_tool("b")
                .requiring_cap("x")
                .requiring_cap("y")
        };
        let fragments = [gated(" \n"), gated("t")];
        let with = |tools: &[&str], caps: &[&str]| reasons(&reduce(&fragments, &set(tools), &set(caps)));
        assert_eq!(with(&[], &[]), ["empty body", "requires tool `a` (not available)"]);
        assert_eq!(with(&["a"], &[])[1], "requires tool `b` (not available)");
        assert_eq!(with(&["a", "b"], &["y"])[1], "requires capability `x` (not set)");
        assert_eq!(with(&["a", "b"], &["x"])[1], "requires capability `y` (not set)");
        assert_eq!(with(&["b", "a"], &["y", "x"])[1], "tool(s) present: a, b; capabilit(ies) present: x, y");
    }

    #[test]
    fn included_reasons_name_what_was_required() {
        let fragments = [
            Fragment::new("u", "s", "u"),
            Fragment::new("t", "s", "t").requiring_tool("todo"),
            Fragment::new("c", "s", "c").requiring_cap("language.rust"),
        ];
        let assembly = reduce(&fragments, &set(&["todo"]), &set(&["language.rust"]));
        assert_eq!(
            reasons(&assembly),
            ["unconditional", "tool(s) present: todo", "capabilit(ies) present: language.rust"]
        );
    }

    #[test]
    fn nothing_included_is_no_prompt() {
        assert_eq!(reduce(&[], &set(&[]), &set(&[])), Assembly::default());
        let assembly = reduce(&[Fragment::new("a", "s", " ")], &set(&[]), &set(&[]));
        assert_eq!(assembly.text, None);
        assert_eq!((assembly.included(), assembly.excluded()), (0, 1));
        assert_eq!(assembly.provenance[0].bytes(), 0);
    }

    #[test]
    fn equal_ids_are_decided_one_by_one() {
        let fragments = [
            Fragment::new("same", "s", "one"),
            Fragment::new("same", "s", "two").requiring_tool("x"),
            Fragment::new("same", "s", "one"),
        ];
        let assembly = reduce(&fragments, &set(&[]), &set(&[]));
        assert_eq!(assembly.as_str(), "one\n\none");
        assert_eq!(assembly.provenance.len(), 3);
    }

    #[test]
    fn bytes_count_utf8_and_ranges_find_their_fragment() {
        let fragments = [Fragment::new("a", "s", "né"), Fragment::new("b", "s", "本")];
        let assembly = reduce(&fragments, &set(&[]), &set(&[]));
        assert_eq!(assembly.provenance[0].bytes(), 3);
        assert_eq!(assembly.at(2).map(|p| p.id.as_str()), Some("a"));
        assert_eq!(assembly.at(3), None, "separator");
        assert_eq!(assembly.at(6).map(|p| p.id.as_str()), Some("b"));
        assert_eq!(assembly.body(&assembly.provenance[1]), "本");
    }
}
