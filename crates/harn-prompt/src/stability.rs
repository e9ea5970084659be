//! Prefix stability: which fragments may change between turns, and how much of the prompt precedes the first of them.
//!
//! Providers cache a prompt by its leading bytes. A fragment that changes makes everything after it uncacheable, so the
//! report contains the position of the first fragment that may change.

use std::ops::Range;

use harn_value::Data as Value;

use crate::fragment::Fragment;
use crate::reduce::{Assembly, Provenance, Reason};
use crate::value::object;

/// How often a fragment may change within one session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stability {
    /// The same in every turn.
    Fixed,
    /// Changes with the set of active tools, skills or capabilities.
    WithScope,
    /// May change in every turn.
    EachTurn,
}

impl Stability {
    /// Returns the name used in results.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fixed => "fixed",
            Self::WithScope => "with_scope",
            Self::EachTurn => "each_turn",
        }
    }

    /// Classifies a fragment by its id, its source and its requirements.
    #[must_use]
    pub fn of(fragment: &Fragment) -> Self {
        classify(&fragment.id, &fragment.source, !fragment.requires_tools.is_empty())
    }

    fn of_entry(entry: &Provenance) -> Self {
        let gated = matches!(&entry.reason, Reason::Present { tools, .. } if !tools.is_empty());
        classify(&entry.id, &entry.source, gated)
    }
}

/// Required capabilities do not make a fragment changeable: they come from options and the project, not from the turn.
fn classify(id: &str, source: &str, gated_on_tools: bool) -> Stability {
    match (id, source) {
        ("primary:recitation", _) | (_, "reminder" | "message" | "transcript") => Stability::EachTurn,
        ("primary:active_skills" | "primary:skill_catalog" | "primary:text_tool_contract", _) => {
            Stability::WithScope
        }
        _ if gated_on_tools => Stability::WithScope,
        _ => Stability::Fixed,
    }
}

/// One fragment of the prompt and how often it may change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StableSpan {
    /// The fragment's id.
    pub id: String,
    /// Its byte range in the prompt.
    pub range: Range<usize>,
    /// How often it may change.
    pub stability: Stability,
}

/// The stability of a whole prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StabilityReport {
    /// The fragments in the order of the prompt.
    pub spans: Vec<StableSpan>,
    /// Bytes before the first fragment that is not fixed; the whole length when all are fixed.
    pub stable_prefix_bytes: usize,
    /// Length of the prompt in bytes.
    pub total_bytes: usize,
    /// Id of the first fragment that is not fixed.
    pub first_change: Option<String>,
    /// Ids of fixed fragments after the first one that may change. They cannot be part of a cached prefix either.
    pub fixed_behind_change: Vec<String>,
}

impl StabilityReport {
    /// Returns the first fragment that is not fixed.
    #[must_use]
    pub fn first(&self) -> Option<&StableSpan> {
        self.spans.iter().find(|span| span.stability != Stability::Fixed)
    }

    /// Returns `{stable_prefix_bytes, total_bytes, first_change, fixed_behind_change, fragments}` with fragments
    /// `{id, start, end, stability}`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let span = |s: &StableSpan| {
            object([
                ("id", s.id.clone().into()),
                ("start", s.range.start.into()),
                ("end", s.range.end.into()),
                ("stability", s.stability.as_str().into()),
            ])
        };
        object([
            ("stable_prefix_bytes", self.stable_prefix_bytes.into()),
            ("total_bytes", self.total_bytes.into()),
            ("first_change", self.first_change.clone().into()),
            ("fixed_behind_change", self.fixed_behind_change.clone().into()),
            ("fragments", self.spans.iter().map(span).collect::<Vec<_>>().into()),
        ])
    }
}

/// Reports which part of an assembly is the same in the next turn.
#[must_use]
pub fn stability_report(assembly: &Assembly) -> StabilityReport {
    let spans: Vec<StableSpan> = assembly
        .in_text_order()
        .filter_map(|entry| {
            let range = entry.range.clone()?;
            Some(StableSpan { id: entry.id.clone(), range, stability: Stability::of_entry(entry) })
        })
        .collect();
    let total_bytes = assembly.as_str().len();
    let first = spans.iter().position(|span| span.stability != Stability::Fixed);
    let behind = first.map_or(&[][..], |i| &spans[i..]);
    StabilityReport {
        stable_prefix_bytes: first.map_or(total_bytes, |i| spans[i].range.start),
        total_bytes,
        first_change: first.map(|i| spans[i].id.clone()),
        fixed_behind_change: behind
            .iter()
            .filter(|span| span.stability == Stability::Fixed)
            .map(|span| span.id.clone())
            .collect(),
        spans,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::fragment::Bucket;
    use crate::reduce::reduce;

    #[test]
    fn the_stable_prefix_ends_at_the_first_fragment_that_may_change() {
        let fragments = [
            Fragment::new("host:system_suffix", "host:system_suffix", "tail").in_bucket(Bucket::After),
            Fragment::new("primary:system", "primary", "base"),
            Fragment::new("profile:rust", "profile:rust", "rust").requiring_cap("language.rust"),
            Fragment::new("tool:t.guidance", "tool:t", "guide").requiring_tool("t"),
            Fragment::new("reminder:r", "reminder", "note"),
        ];
        let set = |name: &str| BTreeSet::from([name.to_owned()]);
        let report = stability_report(&reduce(&fragments, &set("t"), &set("language.rust")));
        assert_eq!(report.stable_prefix_bytes, "base\n\nrust\n\n".len());
        assert_eq!(report.first_change.as_deref(), Some("tool:t.guidance"));
        assert_eq!(report.fixed_behind_change, ["host:system_suffix"]);
        let kinds: Vec<_> = report.spans.iter().map(|s| s.stability.as_str()).collect();
        assert_eq!(kinds, ["fixed", "fixed", "with_scope", "each_turn", "fixed"]);
    }

    #[test]
    fn an_all_fixed_prompt_is_stable_to_its_end() {
        let assembly =
            reduce(&[Fragment::new("primary", "primary", "base")], &BTreeSet::new(), &BTreeSet::new());
        let report = stability_report(&assembly);
        assert_eq!((report.stable_prefix_bytes, report.total_bytes), (4, 4));
        assert_eq!(report.first_change, None);
        assert_eq!(stability_report(&Assembly::default()).total_bytes, 0);
    }

    #[test]
    fn every_kind_of_fragment_has_its_class() {
        let class = |id: &str, source: &str| Stability::of(&Fragment::new(id, source, "b"));
        assert_eq!(class("primary:active_skills", "primary"), Stability::WithScope);
        assert_eq!(class("primary:skill_catalog", "primary"), Stability::WithScope);
        assert_eq!(class("primary:text_tool_contract", "primary"), Stability::WithScope);
        assert_eq!(class("primary:loop_contract", "primary"), Stability::Fixed);
        assert_eq!(class("primary:recitation", "primary"), Stability::EachTurn);
        assert_eq!(class("transcript:summary", "transcript"), Stability::EachTurn);
        assert_eq!(class("message:1", "message"), Stability::EachTurn);
        assert_eq!(class("call:output_instruction", "call"), Stability::Fixed);
    }
}
