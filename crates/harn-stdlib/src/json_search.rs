//! Extraction of JSON from text, such as the reply of a model.
//!
//! The time is linear in the length of the input. A failed attempt either started a JSON object or a list of
//! containers, whose span is then skipped as a whole, or it stopped before another bracket outside of strings. Two such
//! attempts that read the same byte differ in whether the byte is part of a string, so at most two of them read a byte.

use harn_value::json::{self, ParseError};
use harn_value::{Value, steps};

/// Parses the first JSON value in `text`: all of it, else a fenced block, else the first object among the
/// outermost values, else the first list. Braces that are not JSON are skipped, and so is malformed JSON with its
/// content.
///
/// # Errors
/// The reason why the first candidate is not valid JSON.
pub(crate) fn first_json(text: &str) -> Result<Value, ParseError> {
    let text = text.trim();
    if text.starts_with(['{', '[']) && scan(text.as_bytes(), 0).is_ok_and(|end| end == text.len()) {
        return json::parse(text);
    }
    let mut failure = None;
    for block in Fences(text) {
        let error = match json::parse(block) {
            Ok(value) => return Ok(value),
            Err(error) => error,
        };
        match search(block) {
            Ok(value) => return Ok(value),
            Err(inner) => failure = failure.or(inner).or(Some(error)),
        }
    }
    search(text).or_else(|error| failure.or(error).map_or_else(|| json::parse(text), Err))
}

/// The contents of the fenced blocks in a string. A fence inside a JSON string does not end the block.
struct Fences<'a>(&'a str);

impl<'a> Iterator for Fences<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let (_, after) = self.0.split_once("```")?;
        let (_, content) = after.split_once('\n')?;
        let start = content.len() - content.trim_start().len();
        let json_end = match content.as_bytes().get(start) {
            Some(b'{' | b'[') => scan(content.as_bytes(), start).ok(),
            _ => None,
        };
        let searched = json_end.unwrap_or(start);
        let close = content[searched..].find("```").map_or(content.len(), |at| searched + at);
        self.0 = content.get(close + 3..).unwrap_or("");
        Some(content[..close].trim())
    }
}

/// Searches the outermost objects and lists in a string.
///
/// # Errors
/// It contains neither; the reason is that of the first malformed one, if any.
fn search(text: &str) -> Result<Value, Option<ParseError>> {
    let bytes = text.as_bytes();
    let (mut at, mut list, mut broken) = (0, None, None);
    while let Some(found) = memchr::memchr2(b'{', b'[', &bytes[at..]) {
        steps::bytes(found);
        let start = at + found;
        at = match scan(bytes, start) {
            Ok(end) => {
                let span = &text[start..end];
                if bytes[start] == b'{' {
                    return json::parse(span).map_err(Some);
                }
                list = list.or(Some(span));
                end
            }
            Err(Likeness::None) => start + 1,
            Err(likeness) => match balanced(bytes, start) {
                Some(end) => {
                    broken = broken.or_else(|| json::parse(&text[start..end]).err());
                    end
                }
                None if likeness == Likeness::Relaxed => start + 1,
                // The remaining text is inside of it, as in a truncated reply.
                None => {
                    broken = broken.or_else(|| json::parse(&text[start..]).err());
                    break;
                }
            },
        };
    }
    match list {
        Some(list) => json::parse(list).map_err(Some),
        None => Err(broken),
    }
}

/// How similar to JSON a malformed span is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Likeness {
    None,
    /// An object whose first key is not a JSON string.
    Relaxed,
    /// An object with a key, or a list with containers.
    Json,
}

/// The expected next token.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expect {
    Value,
    /// A value or the end of the list.
    Item,
    Key,
    /// A key or the end of the object.
    Entry,
    /// A comma or the end of the container.
    Separator,
}

/// Scans the object or list that begins at `start`, and returns its end.
fn scan(bytes: &[u8], start: usize) -> Result<usize, Likeness> {
    let mut at = start;
    let mut open = Vec::new();
    let mut expect = Expect::Value;
    let mut likeness = Likeness::None;
    loop {
        at = blanks(bytes, at);
        steps::step();
        let Some(&byte) = bytes.get(at) else { return Err(likeness) };
        let values = matches!(expect, Expect::Value | Expect::Item);
        let next = match byte {
            b'{' | b'[' if values => {
                if !open.is_empty() {
                    likeness = Likeness::Json;
                }
                open.push(byte);
                expect = if byte == b'{' { Expect::Entry } else { Expect::Item };
                at += 1;
                continue;
            }
            b'}' | b']' => {
                let empty = if byte == b'}' { Expect::Entry } else { Expect::Item };
                let opener = if byte == b'}' { b'{' } else { b'[' };
                if open.last() != Some(&opener) || !(expect == empty || expect == Expect::Separator) {
                    return Err(likeness);
                }
                open.pop();
                if open.is_empty() {
                    return Ok(at + 1);
                }
                Some(at + 1)
            }
            b',' if expect == Expect::Separator => {
                expect = if open.last() == Some(&b'{') { Expect::Key } else { Expect::Value };
                at += 1;
                continue;
            }
            b'"' if matches!(expect, Expect::Key | Expect::Entry) => {
                let colon = string(bytes, at)
                    .map(|end| blanks(bytes, end))
                    .filter(|at| bytes.get(*at) == Some(&b':'));
                let Some(colon) = colon else { return Err(likeness) };
                likeness = Likeness::Json;
                expect = Expect::Value;
                at = colon + 1;
                continue;
            }
            _ if expect == Expect::Entry && likeness == Likeness::None && relaxed_key(bytes, at) => {
                return Err(Likeness::Relaxed);
            }
            b'"' if values => string(bytes, at),
            b'-' | b'0'..=b'9' if values => number(bytes, at),
            b'a'..=b'z' if values => word(bytes, at),
            _ => None,
        };
        let Some(end) = next else { return Err(likeness) };
        at = end;
        expect = Expect::Separator;
    }
}

fn blanks(bytes: &[u8], at: usize) -> usize {
    let count = bytes[at..].iter().take_while(|b| matches!(b, b' ' | b'\n' | b'\r' | b'\t')).count();
    steps::bytes(count);
    at + count
}

/// Returns the end of the string that begins with the quote at `start`.
fn string(bytes: &[u8], start: usize) -> Option<usize> {
    let mut at = start + 1;
    loop {
        let run = bytes[at..].iter().position(|b| matches!(b, b'"' | b'\\' | 0..=0x1f))?;
        steps::bytes(run);
        at += run;
        match bytes[at] {
            b'"' => return Some(at + 1),
            b'\\' => match bytes.get(at + 1)? {
                b'u' if bytes.get(at + 2..at + 6)?.iter().all(u8::is_ascii_hexdigit) => at += 6,
                b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => at += 2,
                _ => return None,
            },
            _ => return None,
        }
    }
}

/// Returns the end of the number at `start`.
fn number(bytes: &[u8], start: usize) -> Option<usize> {
    let digits = |at: usize| at + bytes[at..].iter().take_while(|b| b.is_ascii_digit()).count();
    let some_digits = |at: usize| Some(digits(at)).filter(|end| *end > at);
    let first = start + usize::from(bytes[start] == b'-');
    let mut end = if bytes.get(first) == Some(&b'0') { first + 1 } else { some_digits(first)? };
    if bytes.get(end) == Some(&b'.') {
        end = some_digits(end + 1)?;
    }
    if let Some(b'e' | b'E') = bytes.get(end) {
        end = some_digits(end + 1 + usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-'))))?;
    }
    steps::bytes(end - start);
    Some(end)
}

fn word(bytes: &[u8], at: usize) -> Option<usize> {
    let words: [&[u8]; 3] = [b"null", b"true", b"false"];
    words.iter().find(|word| bytes[at..].starts_with(word)).map(|word| at + word.len())
}

/// Returns whether a name or a single-quoted string, followed by a colon, comes next.
fn relaxed_key(bytes: &[u8], at: usize) -> bool {
    let end = match bytes[at] {
        b'\'' => bytes[at + 1..].iter().position(|b| matches!(b, b'\'' | b'\n')).map(|len| at + len + 2),
        _ => Some(
            at + bytes[at..]
                .iter()
                .take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'$'))
                .count(),
        ),
    };
    let Some(end) = end.filter(|end| *end > at && *end <= bytes.len()) else { return false };
    steps::bytes(end - at);
    bytes.get(blanks(bytes, end)) == Some(&b':')
}

/// Returns the end of the span from a bracket to its closing bracket; brackets in strings are ignored.
fn balanced(bytes: &[u8], start: usize) -> Option<usize> {
    let (mut depth, mut in_string, mut escaped) = (0usize, false, false);
    for (at, byte) in steps::each(bytes.iter().enumerate().skip(start)) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> String {
        first_json(text).map_or_else(|error| format!("error: {error}"), |value| json::stringify(&value))
    }

    #[test]
    fn braces_that_hold_no_json_are_passed_over() {
        for (text, expected) in [
            (r#"Fill {name} in. Result: {"a": 1}"#, r#"{"a":1}"#),
            (r#"{{name}} {{"a": 1}}"#, r#"{"a":1}"#),
            (r#"fn f() { return 1 } gives {"a": {"b": "}"}}"#, r#"{"a":{"b":"}"}}"#),
            (r#"{ see {"a": 1} }"#, r#"{"a":1}"#),
            (r#"a { b {"x": 1}"#, r#"{"x":1}"#),
            (r#"it's 5" {wide" {"a": 1}"#, r#"{"a":1}"#),
            (r#"{"just a string"} {"a": 1}"#, r#"{"a":1}"#),
            (r#"{x : x > 0} then {"a": 1}"#, r#"{"a":1}"#),
            ("[link](url) and [1, 2]", "[1,2]"),
            ("[x [1, 2]", "[1,2]"),
            (r#"see [1]: {"a": 1}"#, r#"{"a":1}"#),
            (r#"[INFO] [{"a": 1}, {"a": 2}] done"#, r#"[{"a":1},{"a":2}]"#),
            (r#"[{"a": 1}]"#, r#"[{"a":1}]"#),
            (r#"[[1], {"a": 2}]"#, r#"[[1],{"a":2}]"#),
            (r#"First {"a": 1,} corrected {"a": 2}"#, r#"{"a":2}"#),
            ("{}", "{}"),
            ("Result: 42", "error: "),
            ("42", "42"),
            (r#""a {b} c""#, r#""a {b} c""#),
        ] {
            let got = found(text);
            assert!(got == expected || expected == "error: " && got.starts_with(expected), "{text}: {got}");
        }
    }

    #[test]
    fn nothing_inside_of_broken_json_is_the_answer() {
        for text in [
            // Truncated.
            r#"{"items": [{"id": 1}, {"id": 2}, {"id":"#,
            r#"Result: [{"id": 1}, {"id": 2"#,
            // Trailing commas, unquoted keys.
            r#"{"a": {"b": 1}, "list": [1, 2,],}"#,
            r#"[{"id": 1}, {"id": 2},]"#,
            r#"{a: {"b": 1}}"#,
            r#"{'a': {"b": 1}}"#,
            "```json\n{\"a\": {\"b\": 1},}\n```",
        ] {
            assert!(found(text).starts_with("error: "), "{text}: {}", found(text));
        }
    }

    #[test]
    fn fenced_blocks() {
        for (text, expected) in [
            ("```json\n{\"a\": 1}\n```\n{\"b\": 2}", r#"{"a":1}"#),
            ("{x} ```\n[1, 2]\n```", "[1,2]"),
            ("```\n\"text\"\n```", r#""text""#),
            // The first block is not JSON.
            ("```sh\nls {a,b}\n```\nthen\n```json\n{\"a\": 1}\n```", r#"{"a":1}"#),
            ("```sh\nls\n```\nthen {\"a\": 1}", r#"{"a":1}"#),
            // A fence in a string.
            ("```json\n{\"a\": \"```sh ls```\", \"b\": 1}\n```", r#"{"a":"```sh ls```","b":1}"#),
            ("{\"md\": \"```json\\n{}\\n```\"}", r#"{"md":"```json\n{}\n```"}"#),
            ("```json\n// comment\n{\"a\": 1}\n```", r#"{"a":1}"#),
            ("```{\"a\": 1}```", r#"{"a":1}"#),
            ("```json\n{\"a\": 1}", r#"{"a":1}"#),
        ] {
            assert_eq!(found(text), expected, "{text}");
        }
    }

    #[test]
    fn hostile_text_takes_linear_time() {
        for piece in [
            "{",
            "[",
            "{\"",
            "[\"",
            "{\"a\":",
            "[[",
            "[{",
            "{\"a",
            "{'",
            "{a",
            "{\"\\\"",
            "[\",\",",
            "{\":\":",
            "```\n",
            "```\n{",
            "```\n{\"a\":\"```\n",
            "[1,",
            "{ ",
            "[\"[\",",
            "}{",
            "\"{",
            "{\"{\":",
            "][",
        ] {
            let measured = |count: usize| {
                let text = piece.repeat(count);
                let before = steps::counted();
                let _ = first_json(&text);
                steps::counted() - before
            };
            let (small, large) = (measured(20_000), measured(200_000));
            assert!(large <= 15 * small + 100_000, "{piece}: {small} steps, then {large}");
        }
    }
}
