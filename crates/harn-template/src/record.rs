//! Additional results of a render: the executed branches and the origin of each part of the output.

use std::rc::Rc;

/// The result of a recorded render.
#[derive(Clone, Debug, PartialEq)]
pub struct Rendered {
    /// The output.
    pub text: String,
    /// Branches in execution order: `branches` of the `template.render` event.
    pub branches: Vec<Branch>,
    /// The origins of all parts, in the order in which the parts were finished; empty unless requested.
    pub spans: Vec<Span>,
}

/// A decision: the executed branch of an `if`, or the envelope of a section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Branch {
    /// `if` or `section`.
    pub kind: &'static str,
    /// The template that contains the directive.
    pub template_uri: Rc<str>,
    /// Line of the directive, 1-based.
    pub line: u32,
    /// Column of the directive in characters, 1-based.
    pub col: u32,
    /// Line and column of the `if` or `section` that contains the branch.
    pub opened: (u32, u32),
    /// `if`, `elif:<n>`, `else`, `none`, or the label of an envelope.
    pub branch_id: String,
    /// The condition as written with whitespace collapsed, or the name of the section.
    pub branch_label: Option<String>,
}

/// The construct that produced a part of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// Literal text.
    Text,
    /// An expression.
    Expr,
    /// `{{ name }}`, bound or not.
    LegacyBare,
    /// The executed branch of an `if`.
    If,
    /// One iteration of a loop.
    ForIteration,
    /// A whole include.
    Include,
    /// A section with its envelope.
    Section,
}

impl SpanKind {
    /// Returns the name that scripts see.
    pub fn as_str(self) -> &'static str {
        match self {
            SpanKind::Text => "text",
            SpanKind::Expr => "expr",
            SpanKind::LegacyBare => "legacy_bare",
            SpanKind::If => "if",
            SpanKind::ForIteration => "for_iteration",
            SpanKind::Include => "include",
            SpanKind::Section => "section",
        }
    }
}

/// A part of the output and its origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The construct that produced it.
    pub kind: SpanKind,
    /// Start offset in the output.
    pub output_start: usize,
    /// End offset in the output, exclusive.
    pub output_end: usize,
    /// Line of the directive, 1-based; 0 for [`SpanKind::Text`] and [`SpanKind::LegacyBare`].
    pub template_line: u32,
    /// Column of the directive, 1-based; 0 like the line.
    pub template_col: u32,
    /// The output of an expression or a bound bare name; truncated to 79 characters and `…` if longer than 80.
    pub bound_value: Option<String>,
    /// The template that contains the directive.
    pub template_uri: Rc<str>,
    /// For spans inside an include: the index of the include's span in the list.
    pub parent: Option<usize>,
}

/// Collects branches and spans.
#[derive(Default)]
pub(crate) struct Recorder {
    pub(crate) branches: Vec<Branch>,
    pub(crate) spans: Vec<Span>,
    pub(crate) want_spans: bool,
    /// Output offset and location of every open `if`.
    pub(crate) open_ifs: Vec<(usize, (u32, u32))>,
}

impl Recorder {
    /// Adds a span of `range` in the output.
    pub(crate) fn span(&mut self, kind: SpanKind, range: (usize, usize), place: (u32, u32), uri: &Rc<str>) {
        if self.want_spans {
            self.spans.push(Span {
                kind,
                output_start: range.0,
                output_end: range.1,
                template_line: place.0,
                template_col: place.1,
                bound_value: None,
                template_uri: Rc::clone(uri),
                parent: None,
            });
        }
    }

    /// Records the output of the most recent span.
    pub(crate) fn bound_value(&mut self, text: &str) {
        if let Some(span) = self.spans.last_mut() {
            span.bound_value = Some(shorten(text));
        }
    }

    /// Sets the most recent span as the parent of all spans from index `first` that have no parent.
    pub(crate) fn adopt(&mut self, first: usize) {
        if let Some((_, children)) = self.spans.get_mut(first..).and_then(<[Span]>::split_last_mut) {
            let parent = first + children.len();
            for child in children.iter_mut().filter(|child| child.parent.is_none()) {
                child.parent = Some(parent);
            }
        }
    }

    /// Adjusts the spans from index `first` after a section was wrapped: its body began at `start`, lost `stripped`
    /// leading bytes, and now has the range `body`.
    pub(crate) fn shift(&mut self, first: usize, start: usize, stripped: usize, body: (usize, usize)) {
        let moved = |at: usize| body.0 + at.saturating_sub(start + stripped).min(body.1 - body.0);
        for span in self.spans.iter_mut().skip(first) {
            span.output_start = moved(span.output_start);
            span.output_end = moved(span.output_end);
        }
    }
}

/// Truncates `text` to at most 80 characters.
fn shorten(text: &str) -> String {
    match text.char_indices().nth(80) {
        None => text.to_owned(),
        Some(_) => {
            let cut = text.char_indices().nth(79).map_or(text.len(), |(at, _)| at);
            format!("{}…", &text[..cut])
        }
    }
}

/// Replaces every run of whitespace in `text` by one space.
pub(crate) fn collapse(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_values_are_cut() {
        assert_eq!(shorten(&"é".repeat(80)), "é".repeat(80));
        assert_eq!(shorten(&"é".repeat(81)), format!("{}…", "é".repeat(79)));
    }
}
