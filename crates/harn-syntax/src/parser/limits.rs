//! Doc comments and constraint attributes of fields and parameters: `/** Years */ @range(0..=150) age: int`.

use super::attribute::attr_value;
use super::{Input, InputExt, Parse, ident, tok};
use crate::ast::{AttrValue, Limit, Note, TypeExpr, TypeKind};
use crate::error::{Rule, SyntaxErrorKind};
use crate::token::TokenKind;

/// Parses the doc comment and the constraints before a field or parameter; `None` if both are absent.
pub(super) fn note(inp: &mut Input<'_, '_>) -> Parse<Option<Box<Note>>> {
    let doc = inp.doc_comment();
    let mut limits = Vec::new();
    while inp.look_kind(0) == TokenKind::At {
        let start = inp.at();
        let next = limit(inp)?;
        let is_repeated = |(word, _): &(&str, AttrValue)| {
            limits.iter().flat_map(|limit: &Limit| &limit.words).any(|(known, _)| known == word)
        };
        if next.words.iter().any(is_repeated) {
            return inp.fail_at(start, super::Reason::Rule(Rule::RepeatedLimit));
        }
        limits.push(next);
        inp.eat(TokenKind::Newline);
    }
    Ok((doc.is_some() || !limits.is_empty()).then(|| Box::new(Note { doc, limits })))
}

/// The constraint attributes with the schema keywords of their lower and upper bound.
const LIMITS: [(&str, &str, &str); 3] =
    [("range", "min", "max"), ("length", "min_length", "max_length"), ("items", "min_items", "max_items")];

fn limit(inp: &mut Input<'_, '_>) -> Parse<Limit> {
    let start = inp.at();
    inp.bump();
    let name = inp.parse(ident("`range`, `length`, `items` or `pattern`"))?;
    inp.parse(tok(TokenKind::LParen))?;
    let known = LIMITS.into_iter().find(|(limit, ..)| *limit == name.name);
    let words = match known {
        Some((limit, least, most)) => bounds(inp, limit == "range", least, most)?,
        None if name.name == "pattern" => match attr_value(inp)? {
            AttrValue::Str(text) if regex::Regex::new(&text).is_err() => {
                return inp.fail_at(start, super::Reason::Rule(Rule::LimitPattern));
            }
            text @ AttrValue::Str(_) => vec![("pattern", text)],
            _ => return inp.fail_at(start, super::Reason::Rule(Rule::LimitArgument)),
        },
        None => return inp.fail_at(start, super::Reason::Rule(Rule::UnknownLimit)),
    };
    inp.parse(tok(TokenKind::RParen))?;
    Ok(Limit { words, span: inp.span_from_token(start) })
}

/// Parses `a..=b`, `a..b`, `a..`, `..=b`, or one number for both bounds.
fn bounds(
    inp: &mut Input<'_, '_>,
    of_numbers: bool,
    least: &'static str,
    most: &'static str,
) -> Parse<Vec<(&'static str, AttrValue)>> {
    let start = inp.at();
    let wrong = |inp: &mut Input<'_, '_>| inp.fail_at(start, super::Reason::Rule(Rule::LimitArgument));
    let mut words = Vec::new();
    if inp.look_kind(0) != TokenKind::Dot {
        words.push((least, attr_value(inp)?));
    }
    if inp.eat(TokenKind::Dot).is_none() {
        let [(_, only)] = words.as_slice() else { return wrong(inp) };
        words.push((most, only.clone()));
    } else {
        if inp.eat(TokenKind::Dot).is_none() {
            return wrong(inp);
        }
        let inclusive = inp.eat(TokenKind::Eq).is_some();
        if inp.look_kind(0) != TokenKind::RParen {
            match (attr_value(inp)?, inclusive) {
                (value, true) => words.push((most, value)),
                (AttrValue::Int(end), false) => words.push((most, AttrValue::Int(end.saturating_sub(1)))),
                // An exclusive float bound has no useful inclusive equivalent.
                (_, false) => return wrong(inp),
            }
        }
    }
    let number = |value: &AttrValue| match value {
        AttrValue::Int(value) if of_numbers || *value >= 0 => Some(*value as f64),
        AttrValue::Float(value) if of_numbers => Some(*value),
        _ => None,
    };
    let ends: Option<Vec<f64>> = words.iter().map(|(_, value)| number(value)).collect();
    match ends.as_deref() {
        Some([least, most]) if least <= most => Ok(words),
        Some([_]) => Ok(words),
        _ => wrong(inp),
    }
}

/// Reports constraints that do not apply to an inline type; named types are not resolved here and accept all.
pub(super) fn check_limits(inp: &mut Input<'_, '_>, note: Option<&Note>, ty: Option<&TypeExpr>) {
    for limit in note.into_iter().flat_map(|note| &note.limits) {
        let word = limit.words.first().map_or("", |(word, _)| word);
        if ty.is_some_and(|ty| !takes(ty, word)) {
            inp.report_at(SyntaxErrorKind::Rule(Rule::LimitOfOtherType), limit.span);
        }
    }
}

fn takes(ty: &TypeExpr, word: &str) -> bool {
    match &ty.kind {
        TypeKind::Named { name, .. } => match name.name.as_str() {
            "int" | "float" => matches!(word, "min" | "max"),
            "string" => matches!(word, "min_length" | "max_length" | "pattern"),
            "list" | "set" => matches!(word, "min_items" | "max_items"),
            "bool" | "dict" | "bytes" | "closure" | "nil" | "duration" => false,
            _ => true,
        },
        TypeKind::Union(members) => members.iter().any(|member| takes(member, word)),
        TypeKind::Shape(_) | TypeKind::Fn { .. } | TypeKind::Str(_) | TypeKind::Int(_) | TypeKind::Nil => {
            false
        }
    }
}
