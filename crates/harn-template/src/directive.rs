//! Parsers for the heads of `for`, `include`, `section` and `endsection`.

use std::borrow::Cow;

use harn_value::Str;

use crate::error::{ErrorKind, Fail};
use crate::expr::parser::{Parser, Resolver, Within};
use crate::expr::{Expr, is_identifier, reserved_literal, string_length_at, unescape};
use crate::sections::{self, SectionSpec};

/// `K, V in E` or `X in E`, up to the start of the iterable.
pub(crate) struct ForHead<'s> {
    pub(crate) key: Option<&'s str>,
    pub(crate) value: &'s str,
    pub(crate) iterable: usize,
}

pub(crate) struct IncludeHead {
    pub(crate) path: Expr,
    pub(crate) with: Vec<(Str, Expr)>,
}

pub(crate) struct SectionHead {
    pub(crate) spec: &'static SectionSpec,
    /// The argument used by the section.
    pub(crate) argument: Option<Expr>,
    /// Locations of the names of ignored arguments.
    pub(crate) others: Vec<(u32, u32)>,
}

/// Parses the head of a `for`.
pub(crate) fn for_head(source: &str, (start, end): (usize, usize)) -> Result<ForHead<'_>, Fail> {
    let text = &source[start..end];
    let at = find_word(text, "in").ok_or_else(|| Box::new(ErrorKind::ExpectedIn))?;
    let names: Vec<&str> = text[..at].split(',').map(str::trim).collect();
    let valid = names.iter().all(|name| is_identifier(name) && !reserved_literal(name));
    let iterable = start + at + "in".len();
    match names[..] {
        [value] if valid => Ok(ForHead { key: None, value, iterable }),
        [key, value] if valid => Ok(ForHead { key: Some(key), value, iterable }),
        [_] => Err(Box::new(ErrorKind::InvalidLoopVariable)),
        _ => Err(Box::new(ErrorKind::InvalidLoopVariables)),
    }
}

/// Returns the offset of `word` in `text`, surrounded by whitespace and outside quotes and brackets.
fn find_word(text: &str, word: &str) -> Option<usize> {
    let mut depth = 0usize;
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        match c {
            '"' | '\'' => {
                at += string_length_at(text, at)?;
                continue;
            }
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ if depth == 0
                && text[..at].ends_with(char::is_whitespace)
                && text[at..]
                    .strip_prefix(word)
                    .is_some_and(|rest| rest.starts_with(char::is_whitespace)) =>
            {
                return Some(at);
            }
            _ => {}
        }
        at += c.len_utf8();
    }
    None
}

/// Parses the head of an `include`.
pub(crate) fn include_head<'s>(
    source: &'s str,
    (start, end): (usize, usize),
    names: &mut dyn Resolver<'s>,
) -> Result<IncludeHead, Fail> {
    let mut parser = Parser::new(source, start, end, Within::IncludePath, names)?;
    let path = parser.expression()?;
    let mut with = Vec::new();
    let behind_with = parser.rest().strip_prefix("with").filter(|rest| {
        parser.follows_whitespace() && !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_')
    });
    let Some(behind) = behind_with else {
        parser.finish()?;
        return Ok(IncludeHead { path, with });
    };
    let expected_bindings = || Box::new(ErrorKind::ExpectedWithBindings);
    let inside = behind.trim_start().strip_prefix('{').ok_or_else(expected_bindings)?;
    parser.enter_bindings(inside.len())?;
    loop {
        if parser.take_close_brace()? {
            break;
        }
        if parser.at_end() {
            return Err(expected_bindings());
        }
        let rest = parser.rest();
        let key_length = rest.find([':', ',', '}']).unwrap_or(rest.len());
        if !rest[key_length..].starts_with(':') {
            return Err(Box::new(ErrorKind::ExpectedWithEntry));
        }
        let key = rest[..key_length].trim_end();
        if !is_identifier(key) {
            return Err(Box::new(ErrorKind::InvalidWithKey));
        }
        parser.skip(key_length + 1)?;
        let value = parser.expression()?;
        let key = parser.intern(key);
        with.retain(|(other, _)| *other != key);
        with.push((key, value));
        if parser.take_close_brace()? {
            break;
        }
        if parser.at_end() {
            return Err(expected_bindings());
        }
        if !parser.take_comma()? {
            return Err(parser.left_over());
        }
    }
    parser.finish()?;
    Ok(IncludeHead { path, with })
}

/// Parses the head of a `section`.
pub(crate) fn section_head<'s>(
    source: &'s str,
    (start, end): (usize, usize),
    names: &mut dyn Resolver<'s>,
) -> Result<SectionHead, Fail> {
    let text = source[start..end].trim_start();
    let start = end - text.len();
    if text.is_empty() {
        return Err(Box::new(ErrorKind::ExpectedSectionName));
    }
    let (name, length) = quoted_name(text)?.ok_or_else(|| Box::new(ErrorKind::SectionNameNotLiteral))?;
    let spec = sections::find(&name)
        .ok_or_else(|| Box::new(ErrorKind::UnknownSection { name: name.into_owned() }))?;
    let mut at = start + length;
    let (mut argument, mut others) = (None, Vec::new());
    loop {
        at = end - source[at..end].trim_start_matches(|c: char| c == ',' || c.is_whitespace()).len();
        let rest = &source[at..end];
        if rest.is_empty() {
            return Ok(SectionHead { spec, argument, others });
        }
        let name_length =
            rest.find(|c: char| c == '=' || c == ',' || c.is_whitespace()).unwrap_or(rest.len());
        let (name, behind) = rest.split_at(name_length);
        let value = behind.trim_start().strip_prefix('=').filter(|value| !value.starts_with('='));
        let value = value.ok_or_else(|| Box::new(ErrorKind::ExpectedSectionArgument))?;
        if !is_identifier(name) {
            return Err(Box::new(ErrorKind::InvalidSectionArgument));
        }
        let mut parser = Parser::new(source, end - value.len(), end, Within::SectionArguments, names)?;
        let expr = parser.expression()?;
        if spec.argument == Some(name) {
            argument = Some(expr);
        } else {
            others.push((at as u32, (at + name_length) as u32));
        }
        at = end - parser.rest().len();
    }
}

/// Returns the name repeated in an `endsection`, if any.
pub(crate) fn end_section_name(
    source: &str,
    (start, end): (usize, usize),
) -> Result<Option<Cow<'_, str>>, Fail> {
    let text = source[start..end].trim_start();
    if text.is_empty() {
        return Ok(None);
    }
    let (name, length) = quoted_name(text)?.ok_or_else(|| Box::new(ErrorKind::SectionNameNotLiteral))?;
    if text.len() > length {
        return Err(Box::new(ErrorKind::TokensAfterEndSection));
    }
    Ok(Some(name))
}

/// Returns the string literal at the start of `text` and its length; `None` without a quote.
fn quoted_name(text: &str) -> Result<Option<(Cow<'_, str>, usize)>, Fail> {
    if !text.starts_with(['"', '\'']) {
        return Ok(None);
    }
    let length = string_length_at(text, 0).ok_or_else(|| Box::new(ErrorKind::UnterminatedSectionName))?;
    Ok(Some((unescape(&text[..length]), length)))
}
