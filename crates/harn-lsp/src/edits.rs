//! Formatting of a file or a part of it; inlay hints for types.

use harn_syntax::Span;
use harn_syntax::ast::{Stmt, StmtKind};
use lsp_types::{InlayHint, InlayHintKind, InlayHintLabel, Range, TextEdit};

use crate::document::Document;
use crate::workspace::Workspace;

/// Maximum length of a type in a hint, in characters.
const MAX_HINT: usize = 40;

/// Returns the edits that format a file; none for a file with errors.
pub(crate) fn format(workspace: &Workspace<'_>, document: &Document) -> Vec<TextEdit> {
    let options = workspace.host.format_options(&document.path, &workspace.overlay);
    match harn_fmt::format(&document.text, &options) {
        Ok(text) => difference(document, Span::new(0, document.text.len() as u32), &text),
        Err(_) => Vec::new(),
    }
}

/// Returns the edit of a span, without common parts at both ends.
fn difference(document: &Document, span: Span, new: &str) -> Vec<TextEdit> {
    let old = document.slice(span);
    if old == new {
        return Vec::new();
    }
    let same = |a: (char, char)| a.0 == a.1;
    let front: usize =
        old.chars().zip(new.chars()).take_while(|&pair| same(pair)).map(|(c, _)| c.len_utf8()).sum();
    let (old_rest, new_rest) = (&old[front..], &new[front..]);
    let back: usize = old_rest
        .chars()
        .rev()
        .zip(new_rest.chars().rev())
        .take_while(|&pair| same(pair))
        .map(|(c, _)| c.len_utf8())
        .sum();
    let changed = Span::new(span.start + front as u32, span.end - back as u32);
    vec![TextEdit::new(document.range(changed), new_rest[..new_rest.len() - back].to_owned())]
}

/// Returns the edits that format the top-level statements of a range.
pub(crate) fn format_range(workspace: &Workspace<'_>, document: &Document, range: Range) -> Vec<TextEdit> {
    let options = workspace.host.format_options(&document.path, &workspace.overlay);
    let Ok(text) = harn_fmt::format(&document.text, &options) else { return Vec::new() };
    let formatted = harn_syntax::parse(&text);
    let wanted = document.lines.span(&document.text, range);
    let (old, new) = (&document.parsed().program.items, &formatted.program.items);
    // Imports may be reordered; everything else remains in place.
    if old.len() != new.len() {
        return Vec::new();
    }
    let touched = |item: &Stmt| {
        !matches!(item.kind, StmtKind::Import(_))
            && item.span.start <= wanted.end
            && wanted.start <= item.span.end
    };
    let Some(first) = old.iter().position(touched) else { return Vec::new() };
    let Some(last) = old.iter().rposition(touched) else { return Vec::new() };
    let before = Span::new(old[first].span.start, old[last].span.end);
    let after = Span::new(new[first].span.start, new[last].span.end);
    difference(document, before, after.slice(&text))
}

/// Returns the types of variables without annotation.
pub(crate) fn hints(workspace: &Workspace<'_>, document: &Document, range: Range) -> Vec<InlayHint> {
    let wanted = document.lines.span(&document.text, range);
    let told = document.told(&workspace.world());
    let shown = told.variables.iter().filter(|(span, ty)| {
        wanted.start <= span.end
            && span.end <= wanted.end
            && ty.text.chars().count() <= MAX_HINT
            && ty.text != "closure"
    });
    shown
        .map(|(span, ty)| InlayHint {
            position: document.lines.position(&document.text, span.end),
            label: InlayHintLabel::String(format!(": {}", ty.text)),
            kind: Some(InlayHintKind::TYPE),
            text_edits: None,
            tooltip: None,
            padding_left: None,
            padding_right: None,
            data: None,
        })
        .collect()
}
