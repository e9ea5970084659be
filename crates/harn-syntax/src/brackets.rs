//! Finds the unclosed bracket when the source ends too early.

use crate::layout::is_partner;
use crate::lexer;
use crate::span::Span;
use crate::token::TokenKind;

/// Maximum size of a source that is searched, in bytes: every error about a missing bracket searches again.
const MAX_SOURCE: usize = 256 * 1024;

/// Returns the bracket before byte `before` that is most likely unclosed, if any.
///
/// The grammar only knows that *some* bracket is open: a `}` closes the innermost one, so a forgotten brace in a
/// function is reported at the end of the file. Indentation is more precise: a `}` at the start of a line should
/// close a bracket whose line has the same indentation. The first pair with different indentation identifies the
/// unclosed bracket. Otherwise it is a bracket left open inside a closed one, or the innermost bracket that is open
/// at the end. Returns `None` if all brackets match.
pub(crate) fn opener(source: &str, before: u32) -> Option<Span> {
    if source.len() > MAX_SOURCE {
        return None;
    }
    let lexed = lexer::lex(source);
    let mut open: Vec<(TokenKind, Span)> = Vec::new();
    let mut suspect = None;
    for token in &lexed.tokens {
        if token.kind.opens() {
            open.push((token.kind, token.span));
        } else if token.kind.closes() {
            let Some(depth) = open.iter().rposition(|(kind, _)| is_partner(*kind, token.kind)) else {
                continue;
            };
            let partner = open[depth].1;
            let closing = indent_if_first(source, token.span.start);
            if token.kind == TokenKind::RBrace
                && suspect.is_none()
                && closing.is_some_and(|closing| closing < indent(source, partner.start))
            {
                suspect = Some(partner);
            }
            // A bracket left open inside a closed one is the most likely culprit.
            if let Some((_, inner)) = open.get(depth + 1) {
                suspect.get_or_insert(*inner);
            }
            open.truncate(depth);
        }
    }
    let missing = suspect.filter(|_| !open.is_empty()).or(open.last().map(|(_, span)| *span)).or(suspect)?;
    (missing.start < before).then_some(missing)
}

/// Returns the width of the leading whitespace of the line.
fn indent(source: &str, at: u32) -> usize {
    let start = source[..at as usize].rfind('\n').map_or(0, |end| end + 1);
    source[start..].chars().take_while(|c| *c == ' ' || *c == '\t').count()
}

/// Returns the same width if the byte at `at` is the first non-whitespace character of its line.
fn indent_if_first(source: &str, at: u32) -> Option<usize> {
    let start = source[..at as usize].rfind('\n').map_or(0, |end| end + 1);
    let before = &source[start..at as usize];
    before.chars().all(|c| c == ' ' || c == '\t').then(|| before.chars().count())
}
