//! Diagnostics of `harn check` and `harn lint` during typing, and code actions that fix them.

use std::rc::Rc;

use harn_syntax::diagnostic::Fix;
use harn_syntax::{Diagnostic, Severity, Span};
use lsp_types::{
    CodeAction, CodeActionKind, DiagnosticRelatedInformation, DiagnosticSeverity, DiagnosticTag, Location,
    NumberOrString, Range, TextEdit, WorkspaceEdit,
};

use crate::document::{Document, uri_of};
use crate::workspace::Workspace;

/// Returns the diagnostics of a document.
pub(crate) fn find(workspace: &Workspace<'_>, document: &Rc<Document>) -> Vec<Diagnostic> {
    if document.is_template() {
        return workspace.host.check_template(&document.path, &document.text, &workspace.overlay);
    }
    let errors = &document.parsed().errors;
    if errors.is_empty() {
        return workspace.host.check(&document.path, &document.text, &workspace.overlay);
    }
    errors.iter().map(|error| error.diagnostic(&document.text)).collect()
}

/// Converts a diagnostic to the protocol.
pub(crate) fn shown(document: &Document, found: &Diagnostic) -> lsp_types::Diagnostic {
    let span = place(document, found);
    let mut message = found.message.clone();
    for (label, text) in &found.labels {
        if *label == span && !text.is_empty() && !text.starts_with("lint[") && *text != found.message {
            message.push_str(&format!("\n{text}"));
        }
    }
    for note in &found.notes {
        message.push_str(&format!("\n{note}"));
    }
    if let Some(help) = &found.help {
        message.push_str(&format!("\nhelp: {help}"));
    }
    let own = found.labels.iter().filter(|(label, text)| *label != span && !text.is_empty());
    let own = own.map(|(label, text)| DiagnosticRelatedInformation {
        location: document.location(*label),
        message: text.clone(),
    });
    let elsewhere = found.elsewhere.iter().filter_map(|place| {
        let uri = uri_of(std::path::Path::new(place.file.name()))?;
        let range = crate::text::Lines::of(place.file.text()).range(place.file.text(), place.span);
        let message = if place.text.is_empty() { "see here".to_owned() } else { place.text.clone() };
        Some(DiagnosticRelatedInformation { location: Location::new(uri, range), message })
    });
    let related: Vec<_> = own.chain(elsewhere).collect();
    let is_unused = found.code.contains("unused") || found.code.contains("unreachable");
    lsp_types::Diagnostic {
        range: document.range(span),
        severity: Some(match found.severity {
            Severity::Error => DiagnosticSeverity::ERROR,
            Severity::Warning => DiagnosticSeverity::WARNING,
            Severity::Info => DiagnosticSeverity::INFORMATION,
        }),
        code: (!found.code.is_empty()).then(|| NumberOrString::String(found.code.to_owned())),
        source: Some("harn".to_owned()),
        message,
        related_information: (!related.is_empty()).then_some(related),
        tags: is_unused.then(|| vec![DiagnosticTag::UNNECESSARY]),
        ..lsp_types::Diagnostic::default()
    }
}

/// Returns the span of a finding; the first line if it has none.
fn place(document: &Document, found: &Diagnostic) -> Span {
    let span = found.span.unwrap_or(Span::new(0, document.text.find(['\n', '\r']).unwrap_or(0) as u32));
    let end = document.text.len() as u32;
    Span::new(span.start.min(end), span.end.clamp(span.start.min(end), end))
}

fn edits(document: &Document, fix: &Fix) -> Vec<TextEdit> {
    fix.edits.iter().map(|(span, text)| TextEdit::new(document.range(*span), text.clone())).collect()
}

#[allow(clippy::mutable_key_type, reason = "the protocol's own type of changes")]
fn change(document: &Document, edits: Vec<TextEdit>) -> WorkspaceEdit {
    WorkspaceEdit { changes: Some([(document.uri.clone(), edits)].into()), ..WorkspaceEdit::default() }
}

/// The kind of the code action that applies all safe fixes.
pub(crate) fn fix_all() -> CodeActionKind {
    CodeActionKind::from("source.fixAll.harn".to_owned())
}

/// Returns the fixes of the diagnostics in a range, and one action for all fixes that preserve the
/// program's meaning.
pub(crate) fn actions(
    workspace: &Workspace<'_>,
    document: &Document,
    found: &[Diagnostic],
    range: Range,
    only: Option<&[CodeActionKind]>,
) -> Vec<CodeAction> {
    // `source` includes `source.fixAll`.
    let wanted = |kind: &CodeActionKind| {
        only.is_none_or(|only| {
            only.iter()
                .any(|asked| kind == asked || kind.as_str().starts_with(&format!("{}.", asked.as_str())))
        })
    };
    let span = document.lines.span(&document.text, range);
    let mut out = Vec::new();
    let touches = |found: &&Diagnostic| {
        let at = place(document, found);
        at.start <= span.end && span.start <= at.end
    };
    if wanted(&CodeActionKind::QUICKFIX) {
        for finding in found.iter().filter(touches) {
            let Some(fix) = &finding.fix else { continue };
            out.push(CodeAction {
                title: fix.title.clone(),
                kind: Some(CodeActionKind::QUICKFIX),
                diagnostics: Some(vec![shown(document, finding)]),
                edit: Some(change(document, edits(document, fix))),
                is_preferred: Some(true),
                ..CodeAction::default()
            });
        }
    }
    if wanted(&fix_all()) {
        let all = all_edits(workspace, document, found);
        if !all.is_empty() {
            out.push(CodeAction {
                title: "Apply all fixes that keep the meaning".to_owned(),
                kind: Some(fix_all()),
                edit: Some(change(document, all)),
                ..CodeAction::default()
            });
        }
    }
    out
}

/// Returns the edits of all fixes that can be applied together without changing the program's meaning.
fn all_edits(workspace: &Workspace<'_>, document: &Document, found: &[Diagnostic]) -> Vec<TextEdit> {
    if !document.parsed().errors.is_empty() {
        return Vec::new();
    }
    let name = document.path.display().to_string();
    let source = document.source(&name);
    let fixes = harn_check::compatible_fixes(&source, &workspace.world(), found.iter());
    fixes.into_iter().flat_map(|fix| edits(document, fix)).collect()
}
