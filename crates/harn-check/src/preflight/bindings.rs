//! Compares bindings with templates: names that a template uses without a binding, and bindings that no template
//! uses.
//!
//! At run time, a missing name is nil, or its directive is printed unchanged: the prompt is wrong, and nothing fails. A name is
//! not reported if the template handles its absence: its first use is a condition, or has a `default`.

use std::rc::Rc;
use std::sync::Arc;

use harn_syntax::{Diagnostic, SourceFile, Span};
use harn_template::{FreeName, FreeNames};

use super::calls::RenderCall;
use super::parsed::Parsed;
use crate::codes::{MISSING_BINDING, UNUSED_BINDING};
use harn_syntax::suggest::close;

/// The use of each dict literal that calls take as bindings.
#[derive(Default)]
pub(crate) struct Ledger {
    entries: Vec<Entry>,
}

struct Entry {
    file: Option<Arc<SourceFile>>,
    literal: Span,
    /// The possibly unused names, with their spans.
    keys: Vec<(String, Span)>,
    /// The templates that receive the bindings, and how many are given as text.
    paths: Vec<String>,
    texts: usize,
    used: Vec<String>,
    /// Names that a template lacks.
    missing: Vec<String>,
    /// Whether all uses of the bindings are known.
    complete: bool,
}

impl Ledger {
    /// Records that the uses of a call are unknown.
    pub(crate) fn incomplete(&mut self, file: Option<&Arc<SourceFile>>, call: &RenderCall<'_>) {
        if let Some(entry) = self.entry(file, call) {
            entry.complete = false;
        }
    }

    fn entry(&mut self, file: Option<&Arc<SourceFile>>, call: &RenderCall<'_>) -> Option<&mut Entry> {
        let bindings = call.bindings.as_ref()?;
        let name = |file: Option<&Arc<SourceFile>>| file.map(|file| file.name().to_owned());
        let known = self
            .entries
            .iter()
            .position(|e| e.literal == bindings.literal && name(e.file.as_ref()) == name(file));
        let at = known.unwrap_or_else(|| {
            self.entries.push(Entry {
                file: file.cloned(),
                literal: bindings.literal,
                keys: bindings.keys.iter().map(|key| (key.name.to_string(), key.span)).collect(),
                paths: Vec::new(),
                texts: 0,
                used: Vec::new(),
                missing: Vec::new(),
                complete: bindings.only_rendered,
            });
            self.entries.len() - 1
        });
        Some(&mut self.entries[at])
    }

    /// Compares the bindings of a call with the names that its template uses; returns the missing ones.
    pub(crate) fn compare(
        &mut self,
        file: Option<&Arc<SourceFile>>,
        call: &RenderCall<'_>,
        free: &FreeNames,
        templates: &[Rc<Parsed>],
    ) -> Vec<Diagnostic> {
        let Some(bindings) = &call.bindings else { return Vec::new() };
        let Some(entry) = self.entry(file, call) else { return Vec::new() };
        entry.complete &= free.complete;
        if call.is_text {
            entry.texts += 1;
        } else if !entry.paths.iter().any(|path| path == call.path) {
            entry.paths.push(call.path.to_string());
        }
        let is_bound = |name: &str| bindings.keys.iter().any(|key| key.name == name);
        let mut diagnostics = Vec::new();
        let mut reported: Vec<&str> = Vec::new();
        for name in &free.names {
            if is_bound(&name.name) {
                entry.used.push(name.name.clone());
                continue;
            }
            entry.missing.push(name.name.clone());
            if reported.contains(&name.name.as_str()) || is_optional(name, templates) {
                continue;
            }
            reported.push(&name.name);
            let template =
                if call.is_text { "the template".to_owned() } else { format!("template '{}'", call.path) };
            let message = format!("preflight: {template} uses `{}`, which is not bound", name.name);
            let place = match &*name.template_uri {
                "" => format!("line {}, column {} of the template", name.line, name.col),
                uri => format!("{uri}:{}:{}", name.line, name.col),
            };
            let mut diagnostic = Diagnostic::error(message)
                .with_code(MISSING_BINDING)
                .with_label(bindings.place, "preflight")
                .with_note(format!("used at {place}"));
            let unused = bindings.keys.iter().map(|key| key.name.as_str());
            let unused = unused.filter(|key| !free.names.iter().any(|name| name.name == *key));
            diagnostic.help = close(&name.name, unused).map(|near| {
                format!("did you mean `{}` instead of `{near}`, which the template does not use?", name.name)
            });
            diagnostics.push(diagnostic);
        }
        diagnostics
    }

    /// Returns the bindings that no template uses.
    pub(crate) fn unused(self) -> Vec<(Option<Arc<SourceFile>>, Diagnostic)> {
        let mut found = Vec::new();
        for entry in self.entries.into_iter().filter(|entry| entry.complete) {
            let paths: Vec<String> = entry.paths.iter().map(|path| format!("'{path}'")).collect();
            let by = match (paths.as_slice(), entry.texts) {
                ([], 1) => "the template".to_owned(),
                ([path], 0) => format!("template {path}"),
                (paths, 0) => format!("the templates {}", paths.join(", ")),
                _ => "any of the templates".to_owned(),
            };
            for (key, span) in &entry.keys {
                if key == "llm" || key.starts_with('_') || entry.used.contains(key) {
                    continue;
                }
                let message = format!("preflight: binding `{key}` is not used by {by}");
                let mut diagnostic =
                    Diagnostic::warning(message).with_code(UNUSED_BINDING).with_label(*span, "preflight");
                let near = close(key, entry.missing.iter().map(String::as_str));
                diagnostic.help = near.map(|near| format!("did you mean `{near}`?"));
                found.push((entry.file.clone(), diagnostic));
            }
        }
        found
    }
}

/// Returns whether the first use of a name allows it to be absent.
fn is_optional(name: &FreeName, templates: &[Rc<Parsed>]) -> bool {
    if name.bare {
        return false;
    }
    let Some(parsed) = templates.iter().find(|parsed| parsed.shown.name() == &*name.template_uri) else {
        return false;
    };
    let start = parsed.shown.offset(name.line as usize, name.col as usize).unwrap_or_default() as usize;
    let rest = parsed.shown.text().get(start..).unwrap_or_default();
    let directive = rest.split("}}").next().unwrap_or_default();
    let inside = directive.trim_start_matches('{').trim_start_matches('-').trim_start();
    let word = inside.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or_default();
    let defaulted = inside.split('|').skip(1).any(|filter| filter.trim_start().starts_with("default"));
    // The included template may handle its absence.
    matches!(word, "if" | "elif" | "include") || defaulted
}
