//! Parsing of incomplete JSON text.

use crate::Value;
use crate::json::{ParseError, parse};

/// Parses a prefix of a JSON text. Open lists, dicts and strings end where the prefix ends. A key without its value,
/// and a truncated number, literal or escape are omitted; a number at the end of a list or dict may continue, so it is
/// omitted as well. A prefix without any value is nil. Reads the input at most three times.
///
/// # Errors
/// A syntax error, if the input is not a prefix of JSON.
pub fn parse_partial(text: &str) -> Result<Value, ParseError> {
    parse_as(text, true)
}

/// As [`parse_partial`], but leaves out a string value that the end of the text cuts, as it leaves out a cut number.
///
/// # Errors
/// As [`parse_partial`].
pub fn parse_closed(text: &str) -> Result<Value, ParseError> {
    parse_as(text, false)
}

fn parse_as(text: &str, with_open_string: bool) -> Result<Value, ParseError> {
    let end = text.trim_end();
    let is_open = end.is_empty() || !matches!(end.as_bytes()[end.len() - 1], b'}' | b']' | b'"');
    if !is_open && let Ok(value) = parse(text) {
        return Ok(value);
    }
    match completed(text, with_open_string) {
        Some(text) => parse(&text),
        None => parse(text).or_else(|error| {
            let start = end.trim_start();
            let is_open_string = !with_open_string && start.starts_with('"');
            if is_open_string || may_continue(start) { Ok(Value::NIL) } else { Err(error) }
        }),
    }
}

const LITERALS: [&str; 3] = ["true", "false", "null"];

/// Returns whether unquoted input may be a prefix of a number or literal.
fn may_continue(text: &str) -> bool {
    LITERALS.iter().any(|word| word.starts_with(text))
        || text.bytes().all(|b| b"+-.eE0123456789".contains(&b))
}

/// Position of the scan in a list or dict.
#[derive(Clone, Copy, PartialEq)]
enum Frame {
    List,
    /// Before or inside a key.
    Key,
    /// After a key.
    Field,
}

/// Returns the input up to its last complete part, with open brackets closed; `None` if it has no complete part. With
/// `with_open_string`, an unterminated string value is closed as well, instead of being dropped.
fn completed(text: &str, with_open_string: bool) -> Option<String> {
    let bytes = text.as_bytes();
    let mut frames: Vec<Frame> = Vec::new();
    // End of the last complete part. No frame is opened or closed after it, because both end a part.
    let (mut safe, mut at, mut open_string) = (0, 0, false);
    let mut is_behind_value = false;
    while let Some(byte) = bytes.get(at) {
        if is_behind_value && !b" \n\r\t,:]}".contains(byte) {
            // Two values without a comma: the parser reports the error.
            return Some(text.to_owned());
        }
        match byte {
            b'{' | b'[' => {
                frames.push(if *byte == b'{' { Frame::Key } else { Frame::List });
                at += 1;
                safe = at;
            }
            b'}' | b']' => {
                frames.pop();
                is_behind_value = true;
                at += 1;
                safe = at;
            }
            b'"' => {
                let is_key = frames.last() == Some(&Frame::Key);
                let (end, closed) = string_end(bytes, at + 1);
                at = if closed { end } else { bytes.len() };
                if !is_key && (closed || with_open_string) {
                    (safe, open_string, is_behind_value) = (end, !closed, true);
                }
            }
            b':' | b',' => {
                if let Some(frame) = frames.last_mut().filter(|frame| **frame != Frame::List) {
                    *frame = if *byte == b':' { Frame::Field } else { Frame::Key };
                }
                is_behind_value = false;
                at += 1;
            }
            b' ' | b'\n' | b'\r' | b'\t' => at += 1,
            _ => {
                let length = bytes[at..].iter().position(|b| b" \n\r\t,:]}".contains(b));
                let end = length.map_or(bytes.len(), |length| at + length);
                // Errors in the middle are left to the parser.
                let run = &text[at..end];
                if length.is_some() || LITERALS.contains(&run) || !may_continue(run) {
                    safe = end;
                }
                is_behind_value = true;
                at = end;
            }
        }
    }
    let mut out = text[..safe].to_owned();
    if open_string {
        out.push('"');
    }
    out.extend(frames.iter().rev().map(|frame| if *frame == Frame::List { ']' } else { '}' }));
    (!out.trim().is_empty()).then_some(out)
}

/// Returns the end of a string and true if it is closed; otherwise the end of its last complete character.
fn string_end(bytes: &[u8], mut at: usize) -> (usize, bool) {
    loop {
        let length = match bytes.get(at) {
            None => return (at, false),
            Some(b'"') => return (at + 1, true),
            Some(b'\\') => match escape_length(&bytes[at..]) {
                Some(length) => length,
                None => return (at, false),
            },
            Some(_) => 1,
        };
        at += length;
    }
}

/// Returns the length of an escape in bytes, including both parts of a surrogate pair; `None` if it is truncated.
fn escape_length(bytes: &[u8]) -> Option<usize> {
    if *bytes.get(1)? != b'u' {
        return Some(2);
    }
    let is_high = matches!(bytes.get(2..6)?, [b'd' | b'D', b'8' | b'9' | b'a' | b'b' | b'A' | b'B', ..]);
    let follows = |at: usize, wanted: u8| bytes.get(at).map(|byte| *byte == wanted);
    if is_high && follows(6, b'\\')? && follows(7, b'u')? {
        bytes.get(8..12)?;
        return Some(12);
    }
    Some(6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::stringify;
    use proptest::prelude::*;

    fn partial(text: &str) -> String {
        parse_partial(text).map_or_else(|error| error.to_string(), |value| stringify(&value))
    }

    #[test]
    fn what_is_there_is_read() {
        for (text, value) in [
            ("", "null"),
            (" ", "null"),
            ("{", "{}"),
            ("{\"a", "{}"),
            ("{\"a\"", "{}"),
            ("{\"a\": ", "{}"),
            ("{\"a\": 1", "{}"),
            ("{\"a\": 1,", "{\"a\":1}"),
            ("{\"a\": \"x", "{\"a\":\"x\"}"),
            ("{\"a\": \"x\\", "{\"a\":\"x\"}"),
            ("{\"a\": \"x\\ud83d\\ude", "{\"a\":\"x\"}"),
            ("{\"a\": \"x\\ud83d\\ude00", "{\"a\":\"x\u{1f600}\"}"),
            ("[1, [2, tru", "[1,[2]]"),
            ("[1, [2, true", "[1,[2,true]]"),
            ("[1, 2", "[1]"),
            ("[{\"a\": []}", "[{\"a\":[]}]"),
            ("12", "12"),
            ("-", "null"),
            ("\"te", "\"te\""),
            ("{\"a\": nope, \"b", "expected ident at line 1 column 8"),
            ("[1 2, ", "expected `,` or `]` at line 1 column 4"),
            ("] x", "expected value at line 1 column 1"),
            ("[1 2", "expected `,` or `]` at line 1 column 4"),
            ("{\"a\": 1} {", "trailing characters at line 1 column 10"),
            ("[1, nop", "expected ident at line 1 column 6"),
            ("no", "expected ident at line 1 column 2"),
        ] {
            assert_eq!(partial(text), value, "{text}");
        }
    }

    #[test]
    fn an_open_string_is_left_out_on_request() {
        let closed = |text: &str| stringify(&parse_closed(text).unwrap());
        for (text, value) in [
            ("{\"a\": \"x\", \"b\": \"y", "{\"a\":\"x\"}"),
            ("[\"x\", \"y", "[\"x\"]"),
            ("[\"x\", \"y\"", "[\"x\",\"y\"]"),
            ("{\"a\": {\"b\": \"", "{\"a\":{}}"),
            ("\"te", "null"),
        ] {
            assert_eq!(closed(text), value, "{text}");
        }
    }

    /// Returns whether a value is a prefix of another one.
    fn begins(part: &Value, whole: &Value) -> bool {
        if let (Some(part), Some(whole)) = (part.as_str(), whole.as_str()) {
            return whole.starts_with(part.as_str());
        }
        if let (Some(part), Some(whole)) = (part.as_list(), whole.as_list()) {
            return part.len() <= whole.len() && part.iter().zip(whole.iter()).all(|(a, b)| begins(a, b));
        }
        if let (Some(part), Some(whole)) = (part.as_dict(), whole.as_dict()) {
            return part.iter().all(|(key, value)| whole.get(key).is_some_and(|other| begins(value, other)));
        }
        part.is_nil() || crate::equal(part, whole)
    }

    fn document() -> impl Strategy<Value = String> {
        let scalar = prop_oneof![
            Just("null".to_owned()),
            any::<bool>().prop_map(|b| b.to_string()),
            any::<i32>().prop_map(|n| n.to_string()),
            (-1e9..1e9).prop_map(|x: f64| format!("{x:e}")),
            "[a-z\"\\\\\n\u{e9}\u{1f600}]{0,8}".prop_map(|text| stringify(&Value::str(&text))),
            Just("\"\\ud83d\\ude00\\n\\u00e9\"".to_owned()),
        ];
        scalar.prop_recursive(4, 24, 4, |inner| {
            let blank = prop_oneof![Just(""), Just(" "), Just("\n  ")];
            prop_oneof![
                (prop::collection::vec(inner.clone(), 0..4), blank.clone())
                    .prop_map(|(items, blank)| format!("[{blank}{}]", items.join(&format!(",{blank}")))),
                (prop::collection::vec(("[a-z,:{\u{e9}]{1,4}", inner), 0..4), blank).prop_map(
                    |(fields, blank)| {
                        let fields = fields.iter().enumerate();
                        let fields: Vec<String> =
                            fields.map(|(n, (key, value))| format!("\"{key}{n}\":{blank}{value}")).collect();
                        format!("{{{}{blank}}}", fields.join(&format!("{blank},")))
                    }
                ),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        /// Each prefix of a document yields a prefix of its value; no part that was returned is retracted.
        #[test]
        fn each_cut_is_a_beginning(text in document()) {
            let whole = parse(&text).unwrap();
            let mut last = Value::NIL;
            for (end, _) in text.char_indices().chain([(text.len(), ' ')]) {
                let part = parse_partial(&text[..end]).map_err(|e| TestCaseError::fail(format!("{e}: {:?}", &text[..end])))?;
                // A number at the top level may continue.
                if !text.starts_with(['-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9']) {
                    prop_assert!(begins(&part, &whole), "{:?} of {}", part, text);
                    prop_assert!(begins(&last, &part), "{:?} after {:?} of {}", part, last, text);
                }
                last = part;
            }
            prop_assert!(crate::equal(&last, &whole), "{:?} of {}", last, text);
        }
    }
}
