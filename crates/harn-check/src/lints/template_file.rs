//! The rules for template files. The template engine, which knows the grammar, implements them.

use std::path::Path;

use harn_syntax::{Diagnostic, Span};
use harn_template::{Finding, LintSettings, Origin, Severity};

use crate::settings::Settings;

/// Runs the template rules on a `.harn.prompt` or `.prompt` file. Rules that `settings` turn off for the file are left
/// out. Findings are in source order; places are those of the template.
pub fn lint_template_file(path: &Path, text: &str, settings: &Settings) -> Vec<Diagnostic> {
    let defaults = LintSettings::default();
    let threshold = settings.template_variant_branch_threshold;
    let limits =
        LintSettings { variant_branch_threshold: threshold.unwrap_or(defaults.variant_branch_threshold) };
    harn_template::lint(Origin::File(path.to_owned()), text, &limits)
        .into_iter()
        .filter(|finding| !settings.is_disabled(finding.rule, path))
        .map(|finding| diagnostic(&finding))
        .collect()
}

/// Converts a finding of the engine to a diagnostic; the part of its message after `;` is advice.
pub(crate) fn diagnostic(finding: &Finding) -> Diagnostic {
    let (message, advice) = match finding.message.split_once("; ") {
        Some((message, advice)) if finding.severity == Severity::Warning => (message, Some(advice)),
        _ => (finding.message.as_str(), None),
    };
    let diagnostic = match finding.severity {
        Severity::Error => Diagnostic::error(message),
        Severity::Warning => Diagnostic::warning(message),
    };
    let span = Span::new(finding.span.start as u32, finding.span.end as u32);
    let mut diagnostic =
        diagnostic.with_code(finding.rule).with_label(span, format!("lint[{}]", finding.rule));
    diagnostic.help = advice.map(str::to_owned);
    diagnostic
}
