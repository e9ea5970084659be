//! Lists between brackets.

use chumsky::prelude::*;

use super::{Grammar, Input, InputExt};
use crate::token::TokenKind;

/// Items up to and including `close`, separated by commas or newlines; a trailing comma is allowed.
pub(super) fn list<'s, T>(item: impl Grammar<'s, T>, close: TokenKind) -> impl Grammar<'s, Vec<T>> {
    custom(move |inp: &mut Input<'s, '_>| {
        let mut items = Vec::new();
        loop {
            inp.eat(TokenKind::Newline);
            if inp.eat(close).is_some() {
                return Ok(items);
            }
            if inp.missing().is_some() && breaks_off(inp.look_kind(0)) {
                return Ok(items);
            }
            if inp.look_kind(0) == TokenKind::Eof {
                return inp.expected(close.text());
            }
            let start = inp.at();
            items.push(inp.parse(&item)?);
            let next = inp.look_kind(0);
            if matches!(next, TokenKind::Comma | TokenKind::Newline) {
                inp.bump();
            } else if next != close {
                if inp.missing().is_none() {
                    return inp.expected(close.text());
                }
                if inp.at() == start && !breaks_off(next) {
                    inp.bump();
                }
            }
        }
    })
}

/// Returns whether a token ends a list that is never closed.
pub(super) fn breaks_off(kind: TokenKind) -> bool {
    kind.closes()
        || matches!(
            kind,
            TokenKind::Eof
                | TokenKind::Semi
                | TokenKind::Let
                | TokenKind::Var
                | TokenKind::For
                | TokenKind::While
                | TokenKind::Return
                | TokenKind::Pub
                | TokenKind::Import
                | TokenKind::Pipeline
                | TokenKind::Struct
                | TokenKind::Enum
                | TokenKind::Tool
        )
}

/// Entries up to and including `}`, separated by newlines or nothing.
pub(super) fn entries<'s, T>(item: impl Grammar<'s, T>) -> impl Grammar<'s, Vec<T>> {
    until_brace(item, false)
}

/// Entries up to and including `}`, separated by newlines, commas or nothing.
pub(super) fn loose_list<'s, T>(item: impl Grammar<'s, T>) -> impl Grammar<'s, Vec<T>> {
    until_brace(item, true)
}

fn until_brace<'s, T>(item: impl Grammar<'s, T>, commas: bool) -> impl Grammar<'s, Vec<T>> {
    custom(move |inp: &mut Input<'s, '_>| {
        let mut items = Vec::new();
        loop {
            inp.eat(TokenKind::Newline);
            if inp.eat(TokenKind::RBrace).is_some() {
                return Ok(items);
            }
            if inp.look_kind(0) == TokenKind::Eof {
                return if inp.missing().is_some() { Ok(items) } else { inp.expected("}") };
            }
            let start = inp.at();
            items.push(inp.parse(&item)?);
            if commas {
                inp.eat(TokenKind::Comma);
            }
            if inp.at() == start {
                inp.bump();
            }
        }
    })
}
