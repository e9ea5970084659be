//! Suppression of findings by a comment: `// harn-lint: allow unused-variable: kept for the debugger`, at the end of
//! the line or on the line before. A reason is required.

use harn_syntax::Diagnostic;
use harn_syntax::Span;
use harn_syntax::ast::Program;

use crate::codes::{CODES, SUPPRESSION};
use crate::settings::canonical;

/// Prefix of such a comment.
const WORD: &str = "harn-lint:";

/// Removes suppressed findings, and reports invalid suppressions.
pub(super) fn apply(text: &str, tree: &Program, found: &mut Vec<Diagnostic>) {
    if !text.contains(WORD) {
        return;
    }
    let line_of = |at: u32| text[..at as usize].matches('\n').count();
    let mut own = Vec::new();
    for comment in &tree.comments {
        let body = comment.span.slice(text).trim_start_matches('/').trim();
        let Some(said) = body.strip_prefix(WORD) else { continue };
        match read(said.trim()) {
            Ok(rule) => {
                let before = text[..comment.span.start as usize].rsplit('\n').next().unwrap_or_default();
                let own_line = before.trim().is_empty();
                let line = line_of(comment.span.start) + usize::from(own_line);
                let before = found.len();
                found.retain(|d| d.code != rule || d.span.is_none_or(|span| line_of(span.start) != line));
                if found.len() == before {
                    own.push(wrong(comment.span, format!("there is no finding `{rule}` to allow here")));
                }
            }
            Err(message) => own.push(wrong(comment.span, message)),
        }
    }
    found.extend(own);
}

fn wrong(span: Span, message: String) -> Diagnostic {
    Diagnostic::warning(message)
        .with_code(SUPPRESSION)
        .with_label(span, format!("lint[{SUPPRESSION}]"))
        .with_help("write `// harn-lint: allow RULE: REASON` at the end of the line, or on the line before")
}

/// Parses the rule of `allow RULE: REASON`.
fn read(said: &str) -> Result<&str, String> {
    let Some(rest) = said.strip_prefix("allow ") else {
        return Err("`harn-lint:` is followed by `allow RULE: REASON`".to_owned());
    };
    let (rule, reason) = rest.split_once(':').unwrap_or((rest, ""));
    let rule = canonical(rule.trim());
    if !CODES.iter().any(|entry| entry.code == rule) {
        return Err(format!("there is no rule `{rule}`"));
    }
    if reason.trim().is_empty() {
        return Err(format!("say why `{rule}` is allowed here"));
    }
    Ok(rule)
}
