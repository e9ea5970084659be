//! The expression lexer: reads one token at a time from the body of a directive.

use crate::error::{ErrorKind, Fail};

/// A token. Source text is not copied; strings include their quotes and are unescaped by [`unescape`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Token<'s> {
    Name(&'s str),
    Int(i64),
    Float(f64),
    /// With its quotes.
    Str(&'s str),
    Dot,
    Comma,
    Colon,
    Pipe,
    OpenParen,
    CloseParen,
    OpenBracket,
    CloseBracket,
    CloseBrace,
    Not,
    And,
    Or,
    Compare(super::Comparison),
    End,
}

/// Returns whether `text` is an identifier: a letter of any script or `_`, then letters, digits, `_`.
pub(crate) fn is_identifier(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(starts_name) && chars.all(continues_name)
}

/// Returns whether `name` is a reserved literal.
pub(crate) fn reserved_literal(name: &str) -> bool {
    matches!(name, "true" | "false" | "nil")
}

fn starts_name(c: char) -> bool {
    c.is_alphabetic() || c == '_'
}

fn continues_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Returns the length of the identifier at the start of `text`; 0 if there is none.
fn name_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    if !bytes.first().is_some_and(|b| b.is_ascii_alphabetic() || *b == b'_' || *b >= 0x80) {
        return 0;
    }
    let ascii = bytes.iter().take_while(|b| b.is_ascii_alphanumeric() || **b == b'_').count();
    if bytes.get(ascii).is_none_or(u8::is_ascii) {
        return ascii;
    }
    if ascii == 0 && !text.starts_with(starts_name) {
        return 0;
    }
    text.find(|c| !continues_name(c)).unwrap_or(text.len())
}

/// Reads the token at the start of `text`, which has no leading whitespace. Also returns its length.
///
/// `braces` enables `}` as a token, for the bindings of an include.
pub(crate) fn token(text: &str, braces: bool) -> Result<(Token<'_>, usize), Fail> {
    use super::Comparison::*;
    let bytes = text.as_bytes();
    let Some(&first) = bytes.first() else { return Ok((Token::End, 0)) };
    let next = bytes.get(1).copied();
    let simple = |token| Ok((token, 1));
    match first {
        b'.' => simple(Token::Dot),
        b',' => simple(Token::Comma),
        b':' => simple(Token::Colon),
        b'(' => simple(Token::OpenParen),
        b')' => simple(Token::CloseParen),
        b'[' => simple(Token::OpenBracket),
        b']' => simple(Token::CloseBracket),
        b'}' if braces => simple(Token::CloseBrace),
        b'|' if next == Some(b'|') => Ok((Token::Or, 2)),
        b'|' => simple(Token::Pipe),
        b'&' if next == Some(b'&') => Ok((Token::And, 2)),
        b'&' => Err(Box::new(ErrorKind::UnexpectedAmpersand)),
        b'=' if next == Some(b'=') => Ok((Token::Compare(Equal), 2)),
        b'=' => Err(Box::new(ErrorKind::UnexpectedAssign)),
        b'!' if next == Some(b'=') => Ok((Token::Compare(NotEqual), 2)),
        b'!' => simple(Token::Not),
        b'<' if next == Some(b'=') => Ok((Token::Compare(LessEqual), 2)),
        b'<' => simple(Token::Compare(Less)),
        b'>' if next == Some(b'=') => Ok((Token::Compare(GreaterEqual), 2)),
        b'>' => simple(Token::Compare(Greater)),
        b'"' | b'\'' => match string_length(text) {
            Some(length) => Ok((Token::Str(&text[..length]), length)),
            None => Err(Box::new(ErrorKind::UnterminatedDirective)),
        },
        b'0'..=b'9' => number(text),
        b'-' if next.is_some_and(|b| b.is_ascii_digit()) => number(text),
        _ => match name_length(text) {
            0 => {
                let character = text.chars().next().map(String::from).unwrap_or_default();
                Err(Box::new(ErrorKind::UnexpectedCharacter { character }))
            }
            length => Ok((name_token(&text[..length]), length)),
        },
    }
}

fn name_token(name: &str) -> Token<'_> {
    match name {
        "and" => Token::And,
        "or" => Token::Or,
        "not" => Token::Not,
        _ => Token::Name(name),
    }
}

fn number(text: &str) -> Result<(Token<'_>, usize), Fail> {
    let digits_from =
        |from: usize| from + text.as_bytes()[from..].iter().take_while(|b| b.is_ascii_digit()).count();
    let mut end = digits_from(usize::from(text.starts_with('-')));
    let mut points = 0;
    while text.as_bytes().get(end) == Some(&b'.') && digits_from(end + 1) > end + 1 {
        points += 1;
        end = digits_from(end + 1);
    }
    let literal = &text[..end];
    let invalid_number = || Box::new(ErrorKind::InvalidNumber { literal: literal.to_owned() });
    let token = match points {
        0 => Token::Int(
            literal
                .parse()
                .map_err(|_| Box::new(ErrorKind::InvalidInteger { literal: literal.to_owned() }))?,
        ),
        1 => Token::Float(literal.parse().map_err(|_| invalid_number())?),
        _ => return Err(invalid_number()),
    };
    Ok((token, end))
}

/// Returns the length of the string literal at the start of `text`, including quotes; `None` if it is not closed.
pub(crate) fn string_length(text: &str) -> Option<usize> {
    let quote = *text.as_bytes().first()?;
    let mut at = 1;
    loop {
        at += memchr::memchr2(quote, b'\\', text.as_bytes().get(at..)?)?;
        if text.as_bytes()[at] == quote {
            return Some(at + 1);
        }
        // The backslash escapes one character, which may be several bytes long.
        at += 1 + text[at + 1..].chars().next()?.len_utf8();
    }
}

/// Returns the content of a string literal with quotes.
pub(crate) fn unescape(literal: &str) -> std::borrow::Cow<'_, str> {
    let inner = &literal[1..literal.len() - 1];
    if !inner.contains('\\') {
        return inner.into();
    }
    let mut text = String::with_capacity(inner.len());
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            text.push(c);
            continue;
        }
        match chars.next() {
            Some('n') => text.push('\n'),
            Some('t') => text.push('\t'),
            Some('r') => text.push('\r'),
            Some(other) => text.push(other),
            None => {}
        }
    }
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Vec<Token<'_>> {
        let mut rest = text.trim_start();
        let mut all = Vec::new();
        loop {
            let (token, length) = self::token(rest, true).unwrap();
            if token == Token::End {
                return all;
            }
            all.push(token);
            rest = rest[length..].trim_start();
        }
    }

    #[test]
    fn numbers_need_digits_on_both_sides_of_the_point() {
        assert_eq!(
            tokens("1.5 -0.25 -3 1."),
            [Token::Float(1.5), Token::Float(-0.25), Token::Int(-3), Token::Int(1), Token::Dot]
        );
        assert_eq!(token("1.2.3", false).unwrap_err().to_string(), "invalid number `1.2.3`");
        assert_eq!(
            token("9223372036854775808", false).unwrap_err().to_string(),
            "invalid integer `9223372036854775808`"
        );
        assert_eq!(token("-9223372036854775808", false).unwrap().0, Token::Int(i64::MIN));
    }

    #[test]
    fn names_take_letters_of_any_script() {
        assert_eq!(
            tokens("größe _x1 名前 and"),
            [Token::Name("größe"), Token::Name("_x1"), Token::Name("名前"), Token::And]
        );
        assert_eq!(token("€", false).unwrap_err().to_string(), "unexpected character `€` in expression");
        assert!(!is_identifier("1a") && !is_identifier("") && is_identifier("é1"));
    }

    #[test]
    fn strings_unescape_known_letters_and_keep_others() {
        assert_eq!(unescape(r#""a\n\t\r\\\"\'\qé""#), "a\n\t\r\\\"'qé");
        assert_eq!(string_length(r#"'a\'b' c"#), Some(6));
        assert_eq!(string_length(r#"'a\é'"#), Some(6));
        assert_eq!(string_length("'abc"), None);
        assert_eq!(string_length("'abc\\"), None);
    }
}
