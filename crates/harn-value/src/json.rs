//! Conversion between JSON text and values.
//!
//! [`parse`] parses text directly to values: no intermediate tree, exact numbers, nesting up to [`MAX_DEPTH`].
//! [`stringify()`] and [`pretty`] write the contract's JSON form, with dict keys in byte order. [`from_data`] and
//! [`to_data`] convert trees.

use std::fmt;

use crate::equal::with_stack;
use crate::print::print_float;
use crate::print::print_number;
use crate::{Data, Dict, Str, Value, View, memory, print_int, steps};

/// Maximum nesting that [`parse`] accepts.
pub const MAX_DEPTH: usize = 10_000;

/// A JSON syntax error with its location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseError {
    /// Message, with the wording of `serde_json`.
    pub reason: &'static str,
    /// Line, from 1.
    pub line: usize,
    /// Column in bytes, from 1; 0 at the start of a line.
    pub column: usize,
}

impl ParseError {
    /// Returns whether the input ended too early, so that it could be valid with more input.
    pub fn is_eof(&self) -> bool {
        self.reason.starts_with("EOF")
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at line {} column {}", self.reason, self.line, self.column)
    }
}

impl std::error::Error for ParseError {}

/// Conversion of whole numbers that do not fit into 64 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BigNumbers {
    /// The nearest float.
    #[default]
    Float,
    /// Their digits as a string.
    Text,
    /// The input is rejected.
    Refused,
}

/// Parses JSON text to a value. Whole numbers that fit become ints, others floats; of several equal keys, the last one
/// is used.
///
/// # Errors
/// A syntax error with line and column.
pub fn parse(text: &str) -> Result<Value, ParseError> {
    parse_with(text, BigNumbers::Float)
}

/// Like [`parse`], with a choice for large whole numbers.
///
/// # Errors
/// As for [`parse`].
pub fn parse_with(text: &str, big_numbers: BigNumbers) -> Result<Value, ParseError> {
    let mut parser = Parser { text, bytes: text.as_bytes(), at: 0, scratch: String::new(), big_numbers };
    let parsed = parser.value(0).and_then(|value| {
        parser.skip_blanks();
        if parser.at < parser.bytes.len() { Err(parser.here("trailing characters")) } else { Ok(value) }
    });
    parsed.map_err(|Wrong { reason, at }| {
        let before = &parser.bytes[..at.min(parser.bytes.len())];
        let line_start = before.iter().rposition(|&b| b == b'\n').map_or(0, |newline| newline + 1);
        let line = 1 + before.iter().filter(|&&b| b == b'\n').count();
        ParseError { reason, line, column: before.len() - line_start }
    })
}

/// An error and the number of input bytes up to it.
struct Wrong {
    reason: &'static str,
    at: usize,
}

struct Parser<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    /// Buffer for strings with escapes.
    scratch: String,
    big_numbers: BigNumbers,
}

type Parsed<T> = Result<T, Wrong>;

impl Parser<'_> {
    /// Returns an error at the next byte.
    #[cold]
    fn here(&self, reason: &'static str) -> Wrong {
        Wrong { reason, at: self.at + 1 }
    }

    #[inline]
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    #[inline]
    fn skip_blanks(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    fn value(&mut self, depth: usize) -> Parsed<Value> {
        steps::step();
        self.skip_blanks();
        match self.peek() {
            Some(b'"') => {
                self.at += 1;
                Ok(self.string()?.into())
            }
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b'{') if depth < MAX_DEPTH => with_stack(|| self.object(depth + 1)),
            Some(b'[') if depth < MAX_DEPTH => with_stack(|| self.array(depth + 1)),
            Some(b'{' | b'[') => Err(self.here("recursion limit exceeded")),
            Some(b'n') => self.word("null", Value::NIL),
            Some(b't') => self.word("true", Value::TRUE),
            Some(b'f') => self.word("false", Value::FALSE),
            Some(_) => Err(self.here("expected value")),
            None => Err(self.here("EOF while parsing a value")),
        }
    }

    fn word(&mut self, word: &'static str, value: Value) -> Parsed<Value> {
        for expected in word.bytes() {
            match self.peek() {
                Some(b) if b == expected => self.at += 1,
                Some(_) => return Err(self.here("expected ident")),
                None => return Err(self.here("EOF while parsing a value")),
            }
        }
        Ok(value)
    }

    fn array(&mut self, depth: usize) -> Parsed<Value> {
        self.at += 1;
        let mut items = Vec::new();
        loop {
            self.skip_blanks();
            match self.peek() {
                Some(b']') if items.is_empty() => break,
                Some(b']') => return Err(self.here("trailing comma")),
                None => return Err(self.here(if items.is_empty() { EOF_LIST } else { EOF_VALUE })),
                Some(_) => {}
            }
            items.push(self.value(depth)?);
            self.skip_blanks();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => break,
                Some(_) => return Err(self.here("expected `,` or `]`")),
                None => return Err(self.here(EOF_LIST)),
            }
        }
        self.at += 1;
        Ok(Value::list(items))
    }

    fn object(&mut self, depth: usize) -> Parsed<Value> {
        self.at += 1;
        let mut dict = Dict::new();
        loop {
            self.skip_blanks();
            match self.peek() {
                Some(b'"') => self.at += 1,
                Some(b'}') if dict.is_empty() => break,
                Some(b'}') => return Err(self.here("trailing comma")),
                Some(_) => return Err(self.here("key must be a string")),
                None => return Err(self.here(if dict.is_empty() { EOF_OBJECT } else { EOF_VALUE })),
            }
            let key = self.string()?;
            self.skip_blanks();
            match self.peek() {
                Some(b':') => self.at += 1,
                Some(_) => return Err(self.here("expected `:`")),
                None => return Err(self.here(EOF_OBJECT)),
            }
            let value = self.value(depth)?;
            dict.insert(key, value);
            self.skip_blanks();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => break,
                Some(_) => return Err(self.here("expected `,` or `}`")),
                None => return Err(self.here(EOF_OBJECT)),
            }
        }
        self.at += 1;
        Ok(Value::dict(dict))
    }

    /// Parses a string after its opening quote.
    fn string(&mut self) -> Parsed<Str> {
        let start = self.at;
        self.plain_part();
        if self.peek() == Some(b'"') {
            let text = &self.text[start..self.at];
            self.at += 1;
            return Ok(Str::new(text));
        }
        self.scratch.clear();
        self.scratch.push_str(&self.text[start..self.at]);
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(Str::new(&self.scratch));
                }
                Some(b'\\') => {
                    self.at += 1;
                    let c = self.escape()?;
                    self.scratch.push(c);
                }
                Some(_) => {
                    return Err(self.here("control character (\\u0000-\\u001F) found while parsing a string"));
                }
                None => return Err(self.here(EOF_STRING)),
            }
            let start = self.at;
            self.plain_part();
            self.scratch.push_str(&self.text[start..self.at]);
        }
    }

    /// Skips to the next quote, backslash or control character.
    #[inline]
    fn plain_part(&mut self) {
        while let Some(b) = self.peek() {
            if b == b'"' || b == b'\\' || b < 0x20 {
                break;
            }
            self.at += 1;
        }
    }

    fn escape(&mut self) -> Parsed<char> {
        let Some(b) = self.peek() else { return Err(self.here(EOF_STRING)) };
        let c = match b {
            b'"' | b'\\' | b'/' => b as char,
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                self.at += 1;
                return self.unicode_escape();
            }
            _ => return Err(self.here("invalid escape")),
        };
        self.at += 1;
        Ok(c)
    }

    fn unicode_escape(&mut self) -> Parsed<char> {
        let first = self.hex()?;
        let code = match first {
            0xDC00..=0xDFFF => return Err(self.back("lone leading surrogate in hex escape")),
            0xD800..=0xDBFF => {
                if self.bytes.get(self.at..self.at + 2) != Some(b"\\u") {
                    return Err(self.here("unexpected end of hex escape"));
                }
                self.at += 2;
                let second = self.hex()?;
                if !(0xDC00..=0xDFFF).contains(&second) {
                    return Err(self.back("lone leading surrogate in hex escape"));
                }
                0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00)
            }
            code => code,
        };
        Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER))
    }

    /// Returns an error at the last byte read.
    #[cold]
    fn back(&self, reason: &'static str) -> Wrong {
        Wrong { reason, at: self.at }
    }

    fn hex(&mut self) -> Parsed<u32> {
        let mut code = 0;
        for _ in 0..4 {
            let Some(b) = self.peek() else { return Err(self.here(EOF_STRING)) };
            let Some(digit) = (b as char).to_digit(16) else { return Err(self.here("invalid escape")) };
            code = code * 16 + digit;
            self.at += 1;
        }
        Ok(code)
    }

    fn number(&mut self) -> Parsed<Value> {
        let start = self.at;
        let negative = self.peek() == Some(b'-');
        self.at += usize::from(negative);
        let digits = self.at;
        self.digits()?;
        if self.bytes[digits] == b'0' && self.at > digits + 1 {
            self.at = digits + 1;
            return Err(self.here("invalid number"));
        }
        let mut whole = true;
        if self.peek() == Some(b'.') {
            whole = false;
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            whole = false;
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits()?;
        }
        let text = &self.text[start..self.at];
        if whole {
            if text.len() <= 18 {
                // At most 18 digits: cannot overflow.
                let magnitude =
                    self.bytes[digits..self.at].iter().fold(0i64, |n, d| n * 10 + i64::from(d - b'0'));
                return Ok(Value::int(if negative { -magnitude } else { magnitude }));
            }
            if let Ok(int) = text.parse() {
                return Ok(Value::int(int));
            }
            match self.big_numbers {
                BigNumbers::Float => {}
                BigNumbers::Text => return Ok(Value::str(text)),
                BigNumbers::Refused => return Err(self.back("number does not fit into 64 bits")),
            }
        }
        match text.parse::<f64>() {
            Ok(float) if float.is_finite() => Ok(Value::float(float)),
            _ => Err(self.back("number out of range")),
        }
    }

    fn digits(&mut self) -> Parsed<()> {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        match self.peek() {
            _ if self.at > start => Ok(()),
            Some(_) => Err(self.here("invalid number")),
            None => Err(self.here(EOF_VALUE)),
        }
    }
}

const EOF_VALUE: &str = "EOF while parsing a value";
const EOF_LIST: &str = "EOF while parsing a list";
const EOF_OBJECT: &str = "EOF while parsing an object";
const EOF_STRING: &str = "EOF while parsing a string";

/// Formats compact JSON: no spaces, dict keys in byte order. Non-finite floats, functions, enum values, durations,
/// pairs, iterators and handles become `null`; a whole float is written with a decimal point, so that it is parsed as a
/// float; sets become arrays, structs objects, ranges their printed form, bytes `{"$bytes_b64": ".."}`.
pub fn stringify(value: &Value) -> String {
    let mut out = String::new();
    write(value, &mut out);
    out
}

/// Like [`stringify()`], indented by two spaces per level.
pub fn pretty(value: &Value) -> String {
    let mut out = String::new();
    write_layout(value, Some(0), &mut out);
    out
}

/// Appends compact JSON.
pub fn write(value: &Value, out: &mut String) {
    write_layout(value, None, out);
}

/// Formats compact JSON of data: no spaces, keys in byte order. Opaque values become `null`.
pub fn stringify_data(data: &Data) -> String {
    let mut out = String::new();
    write_data(data, None, &mut out);
    out
}

/// Like [`stringify_data`], indented by two spaces per level.
pub fn pretty_data(data: &Data) -> String {
    let mut out = String::new();
    write_data(data, Some(0), &mut out);
    out
}

fn write_data(data: &Data, indent: Option<usize>, out: &mut String) {
    steps::step();
    match data {
        Data::Null | Data::Opaque(_) => out.push_str("null"),
        Data::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
        Data::Number(number) => match number.as_f64().filter(|_| number.is_f64()) {
            Some(float) => write_float(float, out),
            None => print_number(number, out),
        },
        Data::String(text) => write_string(text, out),
        Data::Array(items) => with_stack(|| write_items(items.iter(), indent, out, write_data)),
        Data::Object(map) => with_stack(|| {
            write_entries(map.sorted().map(|(key, value)| (key.as_str(), value)), indent, out, write_data);
        }),
    }
}

/// Appends `value`; `indent` is the depth of the current line, or `None` for compact form.
fn write_layout(value: &Value, indent: Option<usize>, out: &mut String) {
    steps::step();
    match value.view() {
        View::Bool(b) => out.push_str(if b { "true" } else { "false" }),
        View::Int(i) => print_int(i, out),
        View::Float(f) => write_float(f, out),
        View::Str(s) => write_string(s, out),
        View::Bytes(b) => {
            out.push_str("{\"$bytes_b64\":");
            out.push_str(if indent.is_some() { " \"" } else { "\"" });
            write_base64(b, out);
            out.push_str("\"}");
        }
        View::Range(_) => write_string(&value.to_string(), out),
        View::List(items) => with_stack(|| write_items(items.iter(), indent, out, write_layout)),
        View::Set(items) => with_stack(|| write_items(items.iter(), indent, out, write_layout)),
        View::Dict(d) => with_stack(|| write_dict(d.iter(), indent, out)),
        View::Struct(s) => with_stack(|| write_dict(s.fields().into_iter(), indent, out)),
        _ => out.push_str("null"),
    }
}

fn new_line(indent: Option<usize>, out: &mut String) {
    if let Some(depth) = indent {
        out.push('\n');
        steps::bytes(2 * depth);
        (0..depth).for_each(|_| out.push_str("  "));
    }
}

fn write_items<T>(
    items: impl ExactSizeIterator<Item = T>,
    indent: Option<usize>,
    out: &mut String,
    write: impl Fn(T, Option<usize>, &mut String),
) {
    if items.len() == 0 {
        return out.push_str("[]");
    }
    let inner = indent.map(|depth| depth + 1);
    for (i, item) in items.enumerate() {
        out.push(if i == 0 { '[' } else { ',' });
        new_line(inner, out);
        write(item, inner, out);
    }
    new_line(indent, out);
    out.push(']');
}

fn write_dict<'a>(
    entries: impl ExactSizeIterator<Item = (&'a Str, &'a Value)>,
    indent: Option<usize>,
    out: &mut String,
) {
    write_entries(entries.map(|(key, value)| (key.as_str(), value)), indent, out, write_layout);
}

fn write_entries<'a, T>(
    entries: impl ExactSizeIterator<Item = (&'a str, T)>,
    indent: Option<usize>,
    out: &mut String,
    write: impl Fn(T, Option<usize>, &mut String),
) {
    if entries.len() == 0 {
        return out.push_str("{}");
    }
    let inner = indent.map(|depth| depth + 1);
    for (i, (key, value)) in entries.enumerate() {
        out.push(if i == 0 { '{' } else { ',' });
        new_line(inner, out);
        write_string(key, out);
        out.push_str(if indent.is_some() { ": " } else { ":" });
        write(value, inner, out);
    }
    new_line(indent, out);
    out.push('}');
}

fn write_float(f: f64, out: &mut String) {
    if !f.is_finite() {
        return out.push_str("null");
    }
    let start = out.len();
    print_float(f, out);
    if !out[start..].contains('.') {
        out.push_str(".0");
    }
}

/// Appends `text` as a JSON string; escapes quote, backslash and control characters.
pub fn write_string(text: &str, out: &mut String) {
    steps::bytes(text.len());
    steps::reserve(out, text.len() + 2);
    out.push('"');
    let mut rest = text;
    while let Some(at) = rest.bytes().position(|b| b == b'"' || b == b'\\' || b < 0x20) {
        out.push_str(&rest[..at]);
        match rest.as_bytes()[at] {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            control => {
                const DIGITS: &[u8; 16] = b"0123456789abcdef";
                out.push_str("\\u00");
                out.push(DIGITS[usize::from(control >> 4)] as char);
                out.push(DIGITS[usize::from(control & 15)] as char);
            }
        }
        rest = &rest[at + 1..];
    }
    out.push_str(rest);
    out.push('"');
}

/// Appends standard base64 with padding.
fn write_base64(bytes: &[u8], out: &mut String) {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for group in bytes.chunks(3) {
        let bits = group.iter().enumerate().fold(0u32, |bits, (i, &b)| bits | u32::from(b) << (16 - 8 * i));
        for i in 0..4 {
            let digit = ALPHABET[(bits >> (18 - 6 * i)) as usize & 63] as char;
            out.push(if i <= group.len() { digit } else { '=' });
        }
    }
}

/// Converts data to a value; opaque values become nil.
pub fn from_data(data: &Data) -> Value {
    steps::step();
    match data {
        Data::Null | Data::Opaque(_) => Value::NIL,
        Data::Bool(b) => Value::bool(*b),
        Data::Number(n) => {
            n.as_i64().map_or_else(|| Value::float(n.as_f64().unwrap_or(f64::NAN)), Value::int)
        }
        Data::String(s) => {
            steps::bytes(s.len());
            Value::str(s)
        }
        Data::Array(items) => with_stack(|| Value::list(items.iter().map(from_data).collect())),
        Data::Object(map) => {
            with_stack(|| Value::dict(map.iter().map(|(k, v)| (k.as_str(), from_data(v))).collect()))
        }
    }
}

/// Converts to data, with keys in byte order and values that JSON lacks replaced. Non-finite floats become null,
/// durations their milliseconds; sets and pairs become lists, other values their printed form.
///
/// # Errors
/// The value is nested deeper than `MAX_TREE_DEPTH`, or larger than the memory limit (values may share parts).
pub fn to_data(value: &Value) -> Result<Data, Unfit> {
    tree(value, 0)
}

/// Maximum nesting that [`to_data`] accepts: data is freed and written by recursion.
pub(crate) const MAX_TREE_DEPTH: usize = 512;

/// Why a value cannot be converted to data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unfit {
    /// Deeper than `MAX_TREE_DEPTH`.
    TooDeep,
    /// Larger than the memory limit.
    TooLarge,
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unfit::TooDeep => write!(f, "nested deeper than {MAX_TREE_DEPTH} levels"),
            Unfit::TooLarge => f.write_str("larger than the memory limit"),
        }
    }
}

impl std::error::Error for Unfit {}

fn tree(value: &Value, depth: usize) -> Result<Data, Unfit> {
    if depth > MAX_TREE_DEPTH {
        return Err(Unfit::TooDeep);
    }
    memory::check(0).map_err(|_| Unfit::TooLarge)?;
    let part = |value: &Value| tree(value, depth + 1);
    let entry = |(key, value): (&Str, &Value)| Ok((key.to_string(), tree(value, depth + 1)?));
    Ok(match value.view() {
        View::Nil => Data::Null,
        View::Bool(b) => b.into(),
        View::Int(i) | View::Duration(i) => i.into(),
        View::Float(f) => f.into(),
        View::Str(s) => s.as_str().into(),
        View::List(items) => {
            with_stack(|| items.iter().map(part).collect::<Result<_, _>>().map(Data::Array))?
        }
        View::Set(items) => with_stack(|| items.iter().map(part).collect::<Result<_, _>>().map(Data::Array))?,
        View::Pair(p) => with_stack(|| Ok(Data::Array(vec![part(&p.first)?, part(&p.second)?])))?,
        View::Dict(d) => with_stack(|| d.iter().map(entry).collect::<Result<_, _>>().map(Data::Object))?,
        View::Struct(s) => {
            with_stack(|| s.fields().into_iter().map(entry).collect::<Result<_, _>>().map(Data::Object))?
        }
        _ => Data::String(crate::short(value, memory::left())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fails(text: &str) -> String {
        parse(text).unwrap_err().to_string()
    }

    #[test]
    fn numbers_keep_their_exact_form() {
        let show = |text| format!("{:?}", parse(text).unwrap());
        assert_eq!(show("9223372036854775807"), "int(9223372036854775807)");
        assert_eq!(show("-9223372036854775808"), "int(-9223372036854775808)");
        assert_eq!(show("9223372036854775808"), "float(9223372036854776000)");
        assert_eq!(show("1.0"), "float(1.0)");
        assert_eq!(show("-0"), "int(0)");
        assert_eq!(show("1e3"), "float(1000.0)");
        assert_eq!(show("0.1"), "float(0.1)");
        assert_eq!(show("2.2250738585072014e-308").len(), show("2.2250738585072014e-308").len());
        assert_eq!(
            stringify(&parse("[1.0, 1e21, -0.0, 1.5]").unwrap()),
            "[1.0,1000000000000000000000.0,-0.0,1.5]"
        );
    }

    #[test]
    fn errors_say_what_and_where() {
        assert_eq!(fails(""), "EOF while parsing a value at line 1 column 0");
        assert_eq!(fails("{'a': 1}"), "key must be a string at line 1 column 2");
        assert_eq!(fails("[1,]"), "trailing comma at line 1 column 4");
        assert_eq!(fails("[1\n 2]"), "expected `,` or `]` at line 2 column 2");
        assert_eq!(fails("1 2"), "trailing characters at line 1 column 3");
        assert_eq!(fails("nope"), "expected ident at line 1 column 2");
        assert_eq!(fails("01"), "invalid number at line 1 column 2");
        assert_eq!(fails("{\"a\""), "EOF while parsing an object at line 1 column 4");
        assert_eq!(fails("\"\\ud800\""), "unexpected end of hex escape at line 1 column 8");
        assert_eq!(fails("1e999"), "number out of range at line 1 column 5");
    }

    #[test]
    fn errors_agree_with_serde_json() {
        for text in [
            "",
            "[",
            "[1",
            "[1,",
            "{",
            "{\"a",
            "{\"a\":",
            "{\"a\":1,",
            "{,}",
            "tru",
            "-",
            "1.",
            "1e",
            "\"\\q\"",
            "\"a\nb\"",
            "[1}",
            "@",
            "01",
            "1 2",
            "[1,]",
            "{\"a\":1,}",
            "\n\n x",
        ] {
            let theirs = serde_json::from_str::<serde_json::Value>(text).unwrap_err().to_string();
            assert_eq!(fails(text), theirs, "{text:?}");
        }
    }

    #[test]
    fn nesting_has_a_limit_and_no_crash() {
        let nested = |n: usize| "[".repeat(n) + &"]".repeat(n);
        let deep = parse(&nested(MAX_DEPTH)).unwrap();
        assert_eq!(stringify(&deep), nested(MAX_DEPTH));
        assert!(fails(&nested(MAX_DEPTH + 1)).starts_with("recursion limit exceeded at line 1"));
    }

    #[test]
    fn every_kind_of_value_has_its_form() {
        let mut set = crate::Set::new();
        set.insert(Value::int(1));
        let list = Value::list(vec![
            Value::NIL,
            Value::float(f64::NAN),
            Value::bytes(b"hi!?".to_vec()),
            set.into(),
            Value::range(crate::Range { start: 0, end: 3, exclusive: true }),
            Value::duration(5),
            Value::ok(Value::NIL),
            Value::str("a\"\\\n\u{1}é"),
        ]);
        assert_eq!(
            stringify(&list),
            r#"[null,null,{"$bytes_b64":"aGkhPw=="},[1],"0 to 3 exclusive",null,null,"a\"\\\n\u0001é"]"#
        );
    }

    #[test]
    fn pretty_indents_by_two() {
        let value = parse(r#"{"b":[1,{}],"a":{"x":[]}}"#).unwrap();
        assert_eq!(pretty(&value), "{\n  \"a\": {\n    \"x\": []\n  },\n  \"b\": [\n    1,\n    {}\n  ]\n}");
    }

    #[test]
    fn data_has_its_keys_sorted_and_its_floats_exact() {
        use crate::json;
        let value =
            json!({"b": [{"z": 1, "a": 2}], "a": {}, "é": [], "Z": null, "f": Data::opaque("closure", "f")});
        assert_eq!(
            pretty_data(&value),
            "{\n  \"Z\": null,\n  \"a\": {},\n  \"b\": [\n    {\n      \"a\": 2,\n      \"z\": 1\n    }\n  ],\n  \"f\": null,\n  \"é\": []\n}"
        );
        assert_eq!(
            stringify_data(&value),
            "{\"Z\":null,\"a\":{},\"b\":[{\"a\":2,\"z\":1}],\"f\":null,\"é\":[]}"
        );
        assert_eq!(
            stringify_data(&json!([50.0, 0.1, 1e21, -0.0, 7, u64::MAX])),
            "[50.0,0.1,1000000000000000000000.0,-0.0,7,18446744073709551615]"
        );
        assert_eq!(stringify_data(&json!("a\"\\\n\t\r\u{1}é本")), "\"a\\\"\\\\\\n\\t\\r\\u0001é本\"");
        let value = json!({"x": [1, 2.5, "t", true, null, {"y": "\u{0}"}]});
        for text in [pretty_data(&value), stringify_data(&value)] {
            assert_eq!(text.parse::<Data>().unwrap(), value);
        }
    }

    fn any_json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            any::<String>().prop_map(Into::into),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
                prop::collection::vec((any::<String>(), inner), 0..4)
                    .prop_map(|entries| serde_json::Value::Object(entries.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn reads_what_serde_writes_and_back(json in any_json()) {
            let value = parse(&json.to_string()).unwrap();
            prop_assert_eq!(to_data(&value), Ok(Data::from(json.clone())));
            prop_assert_eq!(&serde_json::from_str::<serde_json::Value>(&stringify(&value)).unwrap(), &json);
            prop_assert_eq!(&serde_json::from_str::<serde_json::Value>(&pretty(&value)).unwrap(), &json);
        }

        #[test]
        fn never_panics_on_any_text(text in "[\\[\\]{}\",:0-9eE.+\\-nul\\\\ tf\n]{0,40}") {
            let ours = parse(&text).map(|v| stringify(&v));
            let theirs = serde_json::from_str::<serde_json::Value>(&text);
            prop_assert_eq!(ours.is_ok(), theirs.is_ok(), "{}", text);
        }

        #[test]
        fn floats_read_back(f in any::<f64>()) {
            prop_assume!(f.is_finite());
            let text = stringify(&Value::float(f));
            prop_assert_eq!(parse(&text).unwrap().as_number(), Some(f));
        }
    }
}
