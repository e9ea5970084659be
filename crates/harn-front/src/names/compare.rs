//! Compares the names of a file before and after an edit: every remaining use must resolve to the same declaration.

use harn_syntax::Span;
use harn_syntax::ast::Name;
use rustc_hash::FxHashMap;

use super::{Names, SymbolId};
use crate::edits::edited_spans;

/// The edits of a source in order, to map offsets before the edits to offsets after them.
struct Shift {
    /// Each span before the edits with the span after them.
    edits: Vec<(Span, Span)>,
}

impl Shift {
    /// Returns the edit that replaces a part of a span in the original text.
    fn region(&self, span: Span) -> Option<usize> {
        self.edits.iter().position(|(old, _)| old.start < span.end && span.start < old.end)
    }

    /// Returns the edit that produced a part of a span in the edited text.
    fn region_after(&self, span: Span) -> Option<usize> {
        self.edits.iter().position(|(_, new)| new.start < span.end && span.start < new.end)
    }

    /// Maps the start of a name that no edit replaces.
    fn start(&self, offset: u32) -> u32 {
        let before = self.edits.iter().rev().find(|(old, _)| old.end <= offset);
        before.map_or(offset, |(old, new)| offset - old.end + new.end)
    }
}

/// The result of a comparison.
#[derive(Clone, Debug, Default)]
pub struct NameChanges {
    /// The first name that resolves to another declaration or has a new use, with a span in the original text.
    pub rebound: Option<(Name, Span)>,
    /// The removed uses, by their spans in the original text.
    pub removed: Vec<Span>,
}

impl Names {
    /// Compares with the names of the text after `edits`. Uses in a replaced span are paired by name, then by
    /// order, so that an edit may rename a declaration together with its uses.
    #[must_use]
    pub fn changes(&self, after: &Names, edits: &[(Span, String)]) -> NameChanges {
        let shift = Shift { edits: edited_spans(edits) };
        let symbols = self.paired_symbols(after, &shift);
        let same = |old: Option<SymbolId>, new: Option<SymbolId>| match (old, new) {
            (Some(old), Some(new)) => symbols.get(&old) == Some(&new),
            (None, None) => true,
            _ => false,
        };
        let mut found = NameChanges::default();
        let mut rebound = |name: &Name, span: Span| {
            found.rebound.get_or_insert_with(|| (name.clone(), span));
        };
        let here: FxHashMap<u32, usize> =
            after.uses.iter().enumerate().map(|(at, used)| (used.span.start, at)).collect();
        let mut inside: Vec<Vec<usize>> = vec![Vec::new(); shift.edits.len()];
        let mut inside_after = inside.clone();
        let mut outside = 0;
        for (at, used) in self.uses.iter().enumerate() {
            if let Some(region) = shift.region(used.span) {
                inside[region].push(at);
                continue;
            }
            outside += 1;
            let new = here.get(&shift.start(used.span.start)).map(|&at| &after.uses[at]);
            if !new.is_some_and(|new| new.name == used.name && same(used.symbol, new.symbol)) {
                rebound(&used.name, used.span);
            }
        }
        for (at, used) in after.uses.iter().enumerate() {
            match shift.region_after(used.span) {
                Some(region) => inside_after[region].push(at),
                None => outside -= 1,
            }
        }
        if outside != 0
            && let Some(used) = after.uses.iter().find(|used| shift.region_after(used.span).is_none())
        {
            rebound(&used.name, Span::at(0));
        }
        for (region, (old, new)) in inside.into_iter().zip(inside_after).enumerate() {
            let name_before = |at: usize| &self.uses[at].name;
            let name_after = |at: usize| &after.uses[at].name;
            let (pairs, more) = pair(&old, &new, name_before, name_after);
            let wrong = pairs.iter().find(|(a, b)| !same(self.uses[*a].symbol, after.uses[*b].symbol));
            let wrong = wrong.map(|(_, b)| *b).into_iter().chain(more);
            wrong.for_each(|at| rebound(name_after(at), shift.edits[region].0));
            let kept = |at: &usize| pairs.iter().any(|(old, _)| old == at);
            found.removed.extend(old.iter().filter(|at| !kept(at)).map(|&at| self.uses[at].span));
        }
        found
    }

    fn paired_symbols(&self, after: &Names, shift: &Shift) -> FxHashMap<SymbolId, SymbolId> {
        let mut out = FxHashMap::default();
        let mut inside: Vec<Vec<SymbolId>> = vec![Vec::new(); shift.edits.len()];
        let mut inside_after = inside.clone();
        let here: FxHashMap<u32, SymbolId> =
            after.symbols.iter().enumerate().map(|(id, symbol)| (symbol.span.start, id)).collect();
        for (id, symbol) in self.symbols.iter().enumerate() {
            match shift.region(symbol.span) {
                Some(region) => inside[region].push(id),
                None => {
                    let new = here.get(&shift.start(symbol.span.start)).copied();
                    out.extend(
                        new.filter(|&new| after.symbols[new].name == symbol.name).map(|new| (id, new)),
                    );
                }
            }
        }
        for (id, symbol) in after.symbols.iter().enumerate() {
            if let Some(region) = shift.region_after(symbol.span) {
                inside_after[region].push(id);
            }
        }
        for (mut old, mut new) in inside.into_iter().zip(inside_after) {
            old.sort_by_key(|&id| self.symbols[id].span.start);
            new.sort_by_key(|&id| after.symbols[id].span.start);
            let pairs = pair(&old, &new, |id| &self.symbols[id].name, |id| &after.symbols[id].name);
            out.extend(pairs.0);
        }
        out
    }
}

/// Pairs replaced items with new items: first the nth occurrence of each name with the nth, then the remaining ones
/// in order if there are equally many. Returns the pairs and the new items without a counterpart.
fn pair<'n>(
    old: &[usize],
    new: &[usize],
    name_before: impl Fn(usize) -> &'n Name,
    name_after: impl Fn(usize) -> &'n Name,
) -> (Vec<(usize, usize)>, Vec<usize>) {
    let mut pairs = Vec::new();
    let mut left: Vec<usize> = old.to_vec();
    let mut more = Vec::new();
    for &at in new {
        match left.iter().position(|&before| name_before(before) == name_after(at)) {
            Some(place) => pairs.push((left.remove(place), at)),
            None => more.push(at),
        }
    }
    if left.len() == more.len() {
        pairs.extend(left.into_iter().zip(more.drain(..)));
    }
    (pairs, more)
}

#[cfg(test)]
mod tests {
    use harn_syntax::Span;

    use super::super::Names;
    use super::NameChanges;
    use crate::edits::apply_edits;

    /// Replaces the nth occurrence of each name.
    fn changes(text: &str, edits: &[(&str, usize, &str)]) -> NameChanges {
        let names = |text: &str| Names::of(&harn_syntax::parse_for_tools(text).program, text.len() as u32);
        let span = |word: &str, nth: usize| {
            let at = text.match_indices(word).nth(nth).map(|(at, _)| at).expect("the word is there");
            Span::new(at as u32, (at + word.len()) as u32)
        };
        let edits: Vec<(Span, String)> =
            edits.iter().map(|(word, nth, new)| (span(word, *nth), (*new).to_owned())).collect();
        names(text).changes(&names(&apply_edits(text, &edits)), &edits)
    }

    #[test]
    fn a_new_name_may_capture_mentions_of_another() {
        let text = "let _r = 10\nfn f(n) {\n  let r = 3\n  n * _r\n}";
        assert_eq!(
            changes(text, &[("r = 3", 0, "_r = 3")]).rebound.as_ref().map(|(name, _)| name.as_str()),
            Some("_r")
        );
        assert_eq!(changes(text, &[("r = 3", 0, "_q = 3")]).rebound, None);
    }

    #[test]
    fn a_declaration_is_renamed_with_its_mentions() {
        let text = "let a = 1\nprintln(a + 2)";
        let done = changes(text, &[("a", 0, "bb"), ("a", 1, "bb")]);
        assert_eq!((done.rebound, done.removed.len()), (None, 0));
        assert_eq!(
            changes(text, &[("a", 0, "bb")]).rebound.as_ref().map(|(name, _)| name.as_str()),
            Some("a")
        );
        assert_eq!(
            changes(text, &[("a", 0, "println"), ("a", 1, "println")])
                .rebound
                .as_ref()
                .map(|(name, _)| name.as_str()),
            Some("println")
        );
    }

    #[test]
    fn mentions_in_a_replaced_span_are_paired() {
        let text = "fn f(n) {\n  let m = n + 1\n  return m\n}";
        let done = changes(text, &[("let m = n + 1\n  return m", 0, "return n + 1")]);
        assert_eq!((done.rebound, done.removed.len()), (None, 1));
        let text = "fn f(n) {\n  let m = n\n  return m\n}";
        assert_eq!(
            changes(text, &[("return m", 0, "return n + n")]).rebound.as_ref().map(|(name, _)| name.as_str()),
            Some("n")
        );
    }
}
