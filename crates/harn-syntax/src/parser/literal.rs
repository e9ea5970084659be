//! Numbers, durations and strings.

use chumsky::prelude::*;

use super::expr::expr;
use super::{Grammar, Input, InputExt, Parse, tok};
use crate::ast::{Expr, ExprKind, StrPart};
use crate::error::{CompileRule, Rule, SyntaxErrorKind};
use crate::token::TokenKind;

/// The value of an integer token.
enum Number {
    Int(i64),
    Float(f64),
    TooLarge,
}

/// Parses an integer literal; decimal ones that do not fit an int become floats.
fn read_int(text: &str) -> Number {
    let digits = text.replace('_', "");
    let radix = match digits.as_bytes() {
        [b'0', b'x', ..] => 16,
        [b'0', b'o', ..] => 8,
        [b'0', b'b', ..] => 2,
        _ => {
            // The lexer has already reported anything but digits.
            let parsed = digits.parse().map(Number::Int);
            return parsed.unwrap_or_else(|_| Number::Float(digits.parse().unwrap_or(0.0)));
        }
    };
    i64::from_str_radix(&digits[2..], radix).map_or(Number::TooLarge, Number::Int)
}

/// Parses a duration literal to milliseconds; `None` on overflow.
fn read_duration(text: &str) -> Option<i64> {
    let unit_at = text.find(|c: char| c.is_ascii_alphabetic())?;
    let (digits, unit) = text.split_at(unit_at);
    let factor = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60 * 1000,
        "h" => 60 * 60 * 1000,
        "d" => 24 * 60 * 60 * 1000,
        _ => 7 * 24 * 60 * 60 * 1000,
    };
    digits.replace('_', "").parse::<i64>().ok()?.checked_mul(factor)
}

/// A number or duration; the caller must have checked the kind of the token.
pub(super) fn number<'s>() -> impl Grammar<'s, ExprKind> {
    custom(|inp: &mut Input<'s, '_>| {
        let token = inp.bump();
        let text = token.span.slice(inp.state().0.source);
        Ok(match token.kind {
            TokenKind::Float => ExprKind::Float(text.replace('_', "").parse().unwrap_or(0.0)),
            TokenKind::Duration => ExprKind::Duration(read_duration(text).unwrap_or_else(|| {
                inp.report_at(SyntaxErrorKind::Compile(CompileRule::DurationTooLarge), token.span);
                0
            })),
            _ => match read_int(text) {
                Number::Int(value) => ExprKind::Int(value),
                Number::Float(value) => ExprKind::Float(value),
                Number::TooLarge => {
                    inp.report_at(SyntaxErrorKind::Rule(Rule::IntTooLarge), token.span);
                    ExprKind::Int(0)
                }
            },
        })
    })
}

/// An integer with an optional `-`, as used in types and attributes.
pub(super) fn type_int<'s>() -> impl Grammar<'s, i64> {
    custom(|inp: &mut Input<'s, '_>| {
        let start = inp.at();
        let negative = inp.eat(TokenKind::Minus).is_some();
        let token = inp.look(0);
        if token.kind != TokenKind::Int {
            return inp.expected("int");
        }
        inp.bump();
        let text = token.span.slice(inp.state().0.source);
        let value = match read_int(text) {
            Number::Int(value) => Some(if negative { -value } else { value }),
            // The minimum int has no positive counterpart.
            _ if negative => format!("-{}", text.replace('_', "")).parse().ok(),
            _ => None,
        };
        Ok(value.unwrap_or_else(|| {
            let span = inp.span_from_token(start);
            inp.report_at(SyntaxErrorKind::Rule(Rule::IntTooLarge), span);
            0
        }))
    })
}

/// The parts of a string with interpolation, beginning with its opening quote.
pub(super) fn interpolated<'s>() -> impl Grammar<'s, ExprKind> {
    custom(|inp: &mut Input<'s, '_>| {
        inp.parse(tok(TokenKind::StrStart))?;
        let mut parts = Vec::new();
        loop {
            let token = inp.look(0);
            match token.kind {
                TokenKind::StrText => {
                    inp.bump();
                    parts.push(StrPart::Text(inp.state().0.text(token)));
                }
                TokenKind::InterpStart => {
                    inp.bump();
                    parts.push(StrPart::Expr(hole(inp)?));
                }
                TokenKind::StrEnd => {
                    inp.bump();
                    return Ok(ExprKind::Interp(parts));
                }
                _ if inp.missing().is_some() => return Ok(ExprKind::Interp(parts)),
                _ => return inp.expected("\""),
            }
        }
    })
}

fn hole<'s>(inp: &mut Input<'s, '_>) -> Parse<Expr> {
    let next = inp.look(0);
    if next.kind == TokenKind::InterpEnd {
        // The lexer has already reported the empty interpolation.
        inp.bump();
        return Ok(Expr::new(ExprKind::Error, next.span));
    }
    let value = inp.parse(expr())?;
    inp.eat(TokenKind::Newline);
    inp.parse(tok(TokenKind::InterpEnd))?;
    Ok(value)
}
