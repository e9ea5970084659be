//! Source edits: spans with their replacements.

use harn_syntax::Span;

/// Applies edits to `text`. The edits must not overlap.
#[must_use]
pub fn apply_edits(text: &str, edits: &[(Span, String)]) -> String {
    let mut sorted: Vec<&(Span, String)> = edits.iter().collect();
    // Of two edits at one offset, the insertion comes first in the text.
    sorted.sort_by_key(|(span, _)| std::cmp::Reverse((span.start, span.end)));
    let mut out = text.to_owned();
    sorted.into_iter().for_each(|(span, new)| out.replace_range(span.range(), new));
    out
}

/// Returns the replaced spans in order, each with the span of its replacement after all edits are applied.
#[must_use]
pub fn edited_spans(edits: &[(Span, String)]) -> Vec<(Span, Span)> {
    let mut sorted: Vec<&(Span, String)> = edits.iter().collect();
    sorted.sort_by_key(|(span, _)| (span.start, span.end));
    let mut moved = 0i64;
    let each = sorted.into_iter().map(|(span, new)| {
        let start = (i64::from(span.start) + moved) as u32;
        moved += new.len() as i64 - i64::from(span.len());
        (*span, Span::new(start, start + new.len() as u32))
    });
    each.collect()
}
