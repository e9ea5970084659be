//! Binding patterns of `let`, `var` and `for`.

use chumsky::prelude::*;

use super::expr::expr;
use super::list::breaks_off;
use super::{Grammar, Input, InputExt, Parse, Reason, after, ident, newline, tok, word};
use crate::ast::{DictField, Ident, ListElem, Name, Pattern, PatternKind};
use crate::token::TokenKind;

/// `name`, `{...}` or `[...]`.
pub(super) fn pattern<'s>() -> impl Grammar<'s, Pattern> {
    custom(|inp: &mut Input<'s, '_>| {
        let start = inp.at();
        let kind = match inp.look_kind(0) {
            TokenKind::Ident => PatternKind::Name(inp.parse(ident("variable name"))?),
            TokenKind::LBracket => {
                let (elems, rest) = parts(inp, TokenKind::RBracket, list_elem)?;
                PatternKind::List { elems, rest }
            }
            kind if kind.is_lbrace() => {
                let (fields, rest) = parts(inp, TokenKind::RBrace, dict_field)?;
                PatternKind::Dict { fields, rest }
            }
            _ => match inp.missing() {
                Some(span) => PatternKind::Name(Ident { name: Name::default(), span }),
                None => return inp.fail(Reason::ExpectedBinding),
            },
        };
        Ok(Pattern { kind, span: inp.span_from_token(start) })
    })
}

/// `(a, b)` or any other pattern.
pub(super) fn for_pattern<'s>() -> impl Grammar<'s, Pattern> {
    custom(|inp: &mut Input<'s, '_>| {
        if inp.look_kind(0) != TokenKind::LParen {
            return inp.parse(pattern());
        }
        let start = inp.at();
        let pair = tok(TokenKind::LParen)
            .ignore_then(ident("variable name"))
            .then_ignore(tok(TokenKind::Comma))
            .then(ident("variable name"))
            .then_ignore(newline())
            .then_ignore(tok(TokenKind::RParen));
        let (first, second) = inp.parse(pair)?;
        Ok(Pattern { kind: PatternKind::Pair(first, second), span: inp.span_from_token(start) })
    })
}

/// Parses the parts between brackets; a `...name` part may end them, also without a comma before it.
fn parts<'s, T>(
    inp: &mut Input<'s, '_>,
    close: TokenKind,
    part: fn(&mut Input<'s, '_>) -> Parse<T>,
) -> Parse<(Vec<T>, Option<Ident>)> {
    inp.bump();
    let mut found = Vec::new();
    loop {
        inp.eat(TokenKind::Newline);
        if inp.eat(close).is_some() {
            return Ok((found, None));
        }
        if inp.eat(TokenKind::Ellipsis).is_some() {
            let rest = inp.parse(ident("variable name"))?;
            inp.eat(TokenKind::Comma);
            inp.eat(TokenKind::Newline);
            inp.parse(tok(close))?;
            return Ok((found, Some(rest)));
        }
        if inp.missing().is_some() && breaks_off(inp.look_kind(0)) {
            return Ok((found, None));
        }
        if inp.look_kind(0) == TokenKind::Eof {
            return inp.expected(close.text());
        }
        let start = inp.at();
        found.push(part(inp)?);
        let next = inp.look_kind(0);
        if matches!(next, TokenKind::Comma | TokenKind::Newline) {
            inp.bump();
        } else if next != close && next != TokenKind::Ellipsis {
            if inp.missing().is_none() {
                return inp.expected(close.text());
            }
            if inp.at() == start && !breaks_off(next) {
                inp.bump();
            }
        }
    }
}

fn dict_field<'s>(inp: &mut Input<'s, '_>) -> Parse<DictField> {
    let renamed = inp.look_kind(1) == TokenKind::Colon;
    let key = if renamed { inp.parse(word("field name"))? } else { inp.parse(ident("field name"))? };
    let name = if renamed {
        inp.parse(tok(TokenKind::Colon).ignore_then(ident("variable name")))?
    } else {
        key.clone()
    };
    Ok(DictField { key, name, default: inp.parse(after(TokenKind::Eq, expr()))? })
}

fn list_elem<'s>(inp: &mut Input<'s, '_>) -> Parse<ListElem> {
    let name = inp.parse(ident("variable name"))?;
    Ok(ListElem { name, default: inp.parse(after(TokenKind::Eq, expr()))? })
}
