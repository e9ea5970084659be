//! What a render can report besides its text: which branches were taken and where each part came from.

use std::rc::Rc;

/// Everything a recorded render gives.
#[derive(Clone, Debug, PartialEq)]
pub struct Rendered {
    /// The text.
    pub text: String,
    /// Decisions in order of execution: `branches` of the `template.render` event.
    pub branches: Vec<Branch>,
    /// Where each part came from, in the order in which parts were finished; empty unless asked for.
    pub spans: Vec<Span>,
}

/// A decision: which branch of an `if` was taken, or which envelope a section got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Branch {
    /// `if` or `section`.
    pub kind: &'static str,
    /// The template that contains the directive.
    pub template_uri: Rc<str>,
    /// Line of the directive, from 1.
    pub line: u32,
    /// Column of the directive in characters, from 1.
    pub col: u32,
    /// Line and column of the `if` or `section` that it is a branch of.
    pub opened: (u32, u32),
    /// `if`, `elif:<n>`, `else`, `none`, or the label of an envelope.
    pub branch_id: String,
    /// The condition as written with whitespace collapsed, or the name of the section.
    pub branch_label: Option<String>,
}

/// What made a part of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// Literal text.
    Text,
    /// An expression.
    Expr,
    /// `{{ name }}`, bound or not.
    LegacyBare,
    /// The taken branch of an `if`.
    If,
    /// One round of a loop.
    ForIteration,
    /// A whole include.
    Include,
    /// A section with its envelope.
    Section,
}

impl SpanKind {
    /// The name that scripts see.
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
    /// What made it.
    pub kind: SpanKind,
    /// First byte in the text.
    pub output_start: usize,
    /// Byte behind the last one.
    pub output_end: usize,
    /// Line of the directive, from 1; 0 for [`SpanKind::Text`] and [`SpanKind::LegacyBare`].
    pub template_line: u32,
    /// Column of the directive, from 1; 0 like the line.
    pub template_col: u32,
    /// The text that an expression or a bound bare name wrote, cut to 79 characters and `…` if longer than 80.
    pub bound_value: Option<String>,
    /// The template that contains the directive.
    pub template_uri: Rc<str>,
    /// For spans made inside an include: the index of the include's own span in the list.
    pub parent: Option<usize>,
}

/// Collects branches and spans.
#[derive(Default)]
pub(crate) struct Recorder {
    pub(crate) branches: Vec<Branch>,
    pub(crate) spans: Vec<Span>,
    pub(crate) want_spans: bool,
    /// Output length and place of every `if` that is open.
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

    /// Notes the text of the span that was added last.
    pub(crate) fn bound_value(&mut self, text: &str) {
        if let Some(span) = self.spans.last_mut() {
            span.bound_value = Some(shorten(text));
        }
    }

    /// Makes the span that was added last the parent of those from `first` on that have none.
    pub(crate) fn adopt(&mut self, first: usize) {
        if let Some((_, children)) = self.spans.get_mut(first..).and_then(<[Span]>::split_last_mut) {
            let parent = first + children.len();
            for child in children.iter_mut().filter(|child| child.parent.is_none()) {
                child.parent = Some(parent);
            }
        }
    }

    /// Moves the spans from `first` on after a section was wrapped: its body began at `start`, lost
    /// `stripped` bytes in front, and is now `body`.
    pub(crate) fn shift(&mut self, first: usize, start: usize, stripped: usize, body: (usize, usize)) {
        let moved = |at: usize| body.0 + at.saturating_sub(start + stripped).min(body.1 - body.0);
        for span in self.spans.iter_mut().skip(first) {
            span.output_start = moved(span.output_start);
            span.output_end = moved(span.output_end);
        }
    }
}

/// At most 80 characters of `text`.
fn shorten(text: &str) -> String {
    match text.char_indices().nth(80) {
        None => text.to_owned(),
        Some(_) => {
            let cut = text.char_indices().nth(79).map_or(text.len(), |(at, _)| at);
            format!("{}…", &text[..cut])
        }
    }
}

/// `text` with every run of whitespace as one blank.
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
