//! Which bracket is left open: the place to look at when the text ends too early.

use crate::layout::is_partner;
use crate::lexer;
use crate::span::Span;
use crate::token::TokenKind;

/// The longest text that is looked through: every error that misses a bracket looks again.
const MAX_SOURCE: usize = 256 * 1024;

/// Returns the bracket before byte `before` that its writer forgot to close, if one is open there.
///
/// The grammar only knows that *some* bracket is open: a `}` closes the innermost one, so that a forgotten brace in a
/// function is missed at the end of the file. Indentation tells more: a `}` that begins its line closes a bracket whose
/// line is indented alike. The first pair that does not agree names the culprit; without one it is a bracket that was
/// left open inside a closed one, or the innermost that is open at the end. Where every bracket has its partner, none.
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
            // What was left open inside is what its writer forgot.
            if let Some((_, inner)) = open.get(depth + 1) {
                suspect.get_or_insert(*inner);
            }
            open.truncate(depth);
        }
    }
    let missing = suspect.filter(|_| !open.is_empty()).or(open.last().map(|(_, span)| *span)).or(suspect)?;
    (missing.start < before).then_some(missing)
}

/// The width of the blanks before the first sign of the line.
fn indent(source: &str, at: u32) -> usize {
    let start = source[..at as usize].rfind('\n').map_or(0, |end| end + 1);
    source[start..].chars().take_while(|c| *c == ' ' || *c == '\t').count()
}

/// The same, if what stands at `at` is that first sign.
fn indent_if_first(source: &str, at: u32) -> Option<usize> {
    let start = source[..at as usize].rfind('\n').map_or(0, |end| end + 1);
    let before = &source[start..at as usize];
    before.chars().all(|c| c == ' ' || c == '\t').then(|| before.chars().count())
}
