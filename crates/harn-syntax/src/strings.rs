//! The content of string literals: its end, escapes, and the indentation of `"""` strings.

use std::ops::Range;

use smol_str::{SmolStr, SmolStrBuilder};

/// The end of a run of literal text; `len` is the number of bytes before it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TextEnd {
    /// The closing quote (or quotes).
    Quote { len: usize },
    /// `${`.
    Interpolation { len: usize },
    /// A line feed inside a one-line string, or the end of the file.
    Missing { len: usize },
}

/// Finds the end of the literal text at the start of `text`.
pub(crate) fn scan(text: &str, triple: bool) -> TextEnd {
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' if !triple => return TextEnd::Quote { len: at },
            b'"' if bytes[at..].starts_with(b"\"\"\"") => return TextEnd::Quote { len: at },
            b'$' if bytes.get(at + 1) == Some(&b'{') => return TextEnd::Interpolation { len: at },
            b'\n' if !triple => return TextEnd::Missing { len: at },
            b'\\' if !triple && bytes.get(at + 1).is_some_and(|&next| next != b'\n') => at += 2,
            _ => at += 1,
        }
    }
    TextEnd::Missing { len: bytes.len() }
}

/// Resolves the escapes of a `"..."` string. Also returns the ranges of invalid `\u{...}` escapes.
pub(crate) fn unescape(raw: &str) -> (SmolStr, Vec<Range<usize>>) {
    let mut out = SmolStrBuilder::new();
    let mut bad = Vec::new();
    let mut rest = raw;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let offset = raw.len() - rest.len() + at;
        let after = &rest[at + 1..];
        let plain = match after.as_bytes().first() {
            Some(b'n') => Some('\n'),
            Some(b't') => Some('\t'),
            Some(b'r') => Some('\r'),
            Some(b'0') => Some('\0'),
            Some(b'\\') => Some('\\'),
            Some(b'"') => Some('"'),
            Some(b'$') => Some('$'),
            _ => None,
        };
        if let Some(c) = plain {
            out.push(c);
            rest = &after[1..];
        } else if let Some((digits, len)) = unicode_escape(after) {
            match u32::from_str_radix(digits, 16).ok().and_then(char::from_u32) {
                Some(c) => out.push(c),
                None => bad.push(offset..offset + 1 + len),
            }
            rest = &after[len..];
        } else {
            out.push('\\');
            rest = after;
        }
    }
    out.push_str(rest);
    (out.finish(), bad)
}

/// Splits `u{HEX}` at the start of `text` into its digits and its length.
fn unicode_escape(text: &str) -> Option<(&str, usize)> {
    let digits = text.strip_prefix("u{")?;
    let len = digits.find(|c: char| !c.is_ascii_hexdigit())?;
    ((1..=6).contains(&len) && digits[len..].starts_with('}')).then(|| (&digits[..len], len + 3))
}

/// A part of a `"""` string.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// Literal text.
    Text(String),
    /// An interpolation; its content is not used.
    Hole(String),
}

/// Applies the three steps of `"""` strings: drops the first line feed, strips the common indentation, drops the
/// last line feed. Also converts `\r\n` to `\n`, so that strings do not depend on the line endings of the file.
pub(crate) fn dedent(pieces: &mut [Piece]) {
    for piece in pieces.iter_mut() {
        if let Piece::Text(text) = piece
            && text.contains("\r\n")
        {
            *text = text.replace("\r\n", "\n");
        }
    }
    if let Some(Piece::Text(text)) = pieces.first_mut()
        && text.starts_with('\n')
    {
        text.remove(0);
    }
    let indent = common_indent(pieces);
    strip_indent(pieces, indent);
    if let Some(Piece::Text(text)) = pieces.last_mut()
        && text.ends_with('\n')
    {
        text.pop();
    }
}

/// Returns the minimum number of leading whitespace characters over all lines with other characters.
fn common_indent(pieces: &[Piece]) -> usize {
    let mut least = None;
    // Leading whitespace of the current line; `None` after its first other character.
    let mut blanks = Some(0);
    for piece in pieces {
        let Piece::Text(text) = piece else {
            if let Some(count) = blanks.take() {
                least = Some(least.map_or(count, |least: usize| least.min(count)));
            }
            continue;
        };
        for c in text.chars() {
            match (c, blanks) {
                ('\n', _) => blanks = Some(0),
                (' ' | '\t', Some(count)) => blanks = Some(count + 1),
                (_, Some(count)) => {
                    least = Some(least.map_or(count, |least: usize| least.min(count)));
                    blanks = None;
                }
                (_, None) => {}
            }
        }
    }
    least.unwrap_or(0)
}

/// Removes `indent` whitespace characters from every line; lines with only whitespace become empty.
fn strip_indent(pieces: &mut [Piece], indent: usize) {
    let mut line_start = true;
    let last = pieces.len().saturating_sub(1);
    for (at, piece) in pieces.iter_mut().enumerate() {
        let Piece::Text(text) = piece else {
            line_start = false;
            continue;
        };
        let mut out = String::with_capacity(text.len());
        let line_feeds = text.bytes().filter(|&b| b == b'\n').count();
        for (index, line) in text.split('\n').enumerate() {
            if index > 0 {
                out.push('\n');
                line_start = true;
            }
            let blank = line.bytes().all(|b| b == b' ' || b == b'\t');
            // The last line of a piece continues in the interpolation after it, if there is one.
            let whole_line = index < line_feeds || at == last;
            if !line_start {
                out.push_str(line);
            } else if !(blank && whole_line) {
                out.push_str(line.get(indent..).unwrap_or(""));
            }
            line_start = false;
        }
        *text = out;
    }
}
