//! JSON text of values: the compact form of `json_stringify`, and the pretty form of sections.

use base64::Engine;
use harn_value::{Tag, Value, View};

/// What to do with functions inside data.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Functions {
    /// `null`, as `json_stringify` does.
    Null,
    /// Left out of the dicts and lists that hold them.
    Omit,
}

impl Functions {
    fn keep(self, value: &Value) -> bool {
        self == Functions::Null || !matches!(value.tag(), Tag::Closure | Tag::Native)
    }
}

struct Writer<'a> {
    out: &'a mut String,
    /// Indentation step; 0 for the compact form.
    indent: usize,
    level: usize,
    functions: Functions,
}

/// Appends the compact form: no blanks, keys in byte order.
pub(crate) fn write_compact(value: &Value, out: &mut String) {
    Writer { out, indent: 0, level: 0, functions: Functions::Null }.value(value);
}

/// Appends the pretty form: two blanks of indentation, `": "` after keys.
pub(crate) fn write_pretty(value: &Value, out: &mut String) {
    Writer { out, indent: 2, level: 0, functions: Functions::Null }.value(value);
}

/// Appends the pretty form without closures and builtin functions.
pub(crate) fn write_pretty_data(value: &Value, out: &mut String) {
    Writer { out, indent: 2, level: 0, functions: Functions::Omit }.value(value);
}

impl Writer<'_> {
    fn value(&mut self, value: &Value) {
        match value.view() {
            View::Nil => self.out.push_str("null"),
            View::Bool(b) => self.out.push_str(if b { "true" } else { "false" }),
            View::Int(i) => harn_value::print_int(i, self.out),
            View::Float(f) => self.float(f),
            View::Str(s) => self.string(s),
            View::Bytes(bytes) => {
                let text = base64::engine::general_purpose::STANDARD.encode(bytes.as_slice());
                self.block('{', '}', std::iter::once(&text), |w, text| {
                    w.key("$bytes_b64");
                    w.string(text);
                });
            }
            View::List(items) => self.items(items.iter()),
            View::Set(items) => self.items(items.iter()),
            View::Dict(dict) => self.entries(dict.iter()),
            View::Struct(object) => self.entries(object.fields().into_iter()),
            View::Range(_) => self.string(&value.to_string()),
            View::Duration(_) | View::Native(_) | View::Pair(_) | View::Enum(_) | View::Foreign(_) => {
                self.out.push_str("null");
            }
        }
    }

    fn items<'v>(&mut self, items: impl Iterator<Item = &'v Value>) {
        let functions = self.functions;
        let kept = items.filter(|item| functions.keep(item));
        self.block('[', ']', kept, Writer::value);
    }

    fn entries<'v>(&mut self, entries: impl Iterator<Item = (&'v harn_value::Str, &'v Value)>) {
        let functions = self.functions;
        let kept = entries.filter(|(_, value)| functions.keep(value));
        self.block('{', '}', kept, |w, (key, value)| {
            w.key(key);
            w.value(value);
        });
    }

    /// Writes a container. Values nest as deep as memory allows, so the stack grows on demand.
    fn block<T>(
        &mut self,
        open: char,
        close: char,
        parts: impl Iterator<Item = T>,
        mut write: impl FnMut(&mut Self, T),
    ) {
        self.out.push(open);
        self.level += 1;
        let mut empty = true;
        for part in parts {
            if !empty {
                self.out.push(',');
            }
            empty = false;
            self.line();
            stacker::maybe_grow(64 * 1024, 2 * 1024 * 1024, || write(self, part));
        }
        self.level -= 1;
        if !empty {
            self.line();
        }
        self.out.push(close);
    }

    fn line(&mut self) {
        if self.indent > 0 {
            self.out.push('\n');
            self.out.extend(std::iter::repeat_n(' ', self.indent * self.level));
        }
    }

    fn key(&mut self, key: &str) {
        self.string(key);
        self.out.push_str(if self.indent > 0 { ": " } else { ":" });
    }

    /// Shortest digits without an exponent; a whole float loses its point.
    fn float(&mut self, f: f64) {
        if !f.is_finite() {
            self.out.push_str("null");
            return;
        }
        let start = self.out.len();
        harn_value::print_float(f, self.out);
        if self.out[start..].ends_with(".0") {
            self.out.truncate(self.out.len() - 2);
        }
    }

    fn string(&mut self, text: &str) {
        self.out.push('"');
        let mut plain = 0;
        for (at, byte) in text.bytes().enumerate() {
            let escape = match byte {
                b'"' => "\\\"",
                b'\\' => "\\\\",
                b'\n' => "\\n",
                b'\r' => "\\r",
                b'\t' => "\\t",
                0..0x20 => "",
                _ => continue,
            };
            self.out.push_str(&text[plain..at]);
            plain = at + 1;
            if escape.is_empty() {
                const DIGITS: &[u8; 16] = b"0123456789abcdef";
                self.out.push_str("\\u00");
                self.out.push(DIGITS[usize::from(byte >> 4)] as char);
                self.out.push(DIGITS[usize::from(byte & 15)] as char);
            } else {
                self.out.push_str(escape);
            }
        }
        self.out.push_str(&text[plain..]);
        self.out.push('"');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use harn_value::{Dict, Range};

    fn compact(value: Value) -> String {
        let mut out = String::new();
        write_compact(&value, &mut out);
        out
    }

    #[test]
    fn compact_form_is_that_of_json_stringify() {
        let dict: Dict = [
            ("b", Value::float(1.0)),
            ("a", Value::list(vec![Value::NIL, Value::float(0.5), Value::int(-7)])),
        ]
        .into_iter()
        .collect();
        assert_eq!(compact(Value::dict(dict)), r#"{"a":[null,0.5,-7],"b":1}"#);
        assert_eq!(compact(Value::str("a\"\\\n\r\t\u{1}é/")), r#""a\"\\\n\r\t\u0001é/""#);
        assert_eq!(compact(Value::float(f64::NAN)), "null");
        assert_eq!(compact(Value::float(1e20)), "100000000000000000000");
        assert_eq!(compact(Value::bytes(b"hi".to_vec())), r#"{"$bytes_b64":"aGk="}"#);
        assert_eq!(compact(Value::range(Range { start: 1, end: 4, exclusive: false })), r#""1 to 4""#);
        assert_eq!(compact(Value::duration(5)), "null");
    }

    #[test]
    fn pretty_form_indents_by_two_and_keeps_empty_containers_short() {
        let dict: Dict = [("b", Value::list(vec![])), ("a", Value::list(vec![Value::int(1), Value::int(2)]))]
            .into_iter()
            .collect();
        let mut out = String::new();
        write_pretty(&Value::dict(dict), &mut out);
        assert_eq!(out, "{\n  \"a\": [\n    1,\n    2\n  ],\n  \"b\": []\n}");
    }

    #[test]
    fn data_of_any_depth_is_written() {
        let deep = (0..100_000).fold(Value::NIL, |inner, _| Value::list(vec![inner]));
        assert_eq!(compact(deep).len(), 200_004);
    }
}
