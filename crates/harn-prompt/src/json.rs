//! JSON as prompts show it: two-space indent, keys sorted by code point, floats that read back.

use std::fmt::Write as _;

use serde_json::Value;

use crate::value::sorted;

/// Writes `value` as indented JSON with sorted keys and no trailing newline. Non-ASCII stays as it is; a whole float
/// keeps its `.0`; an empty container is `[]` or `{}`.
#[must_use]
pub fn pretty_sorted(value: &Value) -> String {
    let mut out = String::new();
    write(&mut out, value, Some(0));
    out
}

/// Writes `value` as JSON on one line, without blanks, keys sorted.
#[must_use]
pub fn compact_sorted(value: &Value) -> String {
    let mut out = String::new();
    write(&mut out, value, None);
    out
}

fn write(out: &mut String, value: &Value, indent: Option<usize>) {
    match value {
        Value::Number(n) => match n.as_f64().filter(|_| n.is_f64()) {
            Some(float) => write_float(out, float),
            None => push_display(out, n),
        },
        Value::Array(items) => block(out, ['[', ']'], items, indent, write),
        Value::Object(map) => block(out, ['{', '}'], sorted(map), indent, |out, (key, item), inner| {
            write_string(out, key);
            out.push_str(if inner.is_some() { ": " } else { ":" });
            write(out, item, inner);
        }),
        Value::String(s) => write_string(out, s),
        Value::Null | Value::Bool(_) => push_display(out, value),
    }
}

fn block<T>(
    out: &mut String,
    brackets: [char; 2],
    items: impl IntoIterator<Item = T>,
    indent: Option<usize>,
    mut item: impl FnMut(&mut String, T, Option<usize>),
) {
    let inner = indent.map(|n| n + 1);
    let line = |out: &mut String, indent: Option<usize>| {
        if let Some(depth) = indent {
            out.push('\n');
            out.extend(std::iter::repeat_n("  ", depth));
        }
    };
    out.push(brackets[0]);
    let mut first = true;
    for value in items {
        if !first {
            out.push(',');
        }
        first = false;
        line(out, inner);
        item(out, value, inner);
    }
    if !first {
        line(out, indent);
    }
    out.push(brackets[1]);
}

fn write_string(out: &mut String, s: &str) {
    out.push('"');
    for c in s.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c < ' ' => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

fn write_float(out: &mut String, float: f64) {
    let start = out.len();
    push_display(out, float);
    if !out[start..].contains('.') {
        out.push_str(".0");
    }
}

fn push_display(out: &mut String, value: impl std::fmt::Display) {
    let _ = write!(out, "{value}");
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_are_sorted_at_every_level() {
        let value = json!({"b": [{"z": 1, "a": 2}], "a": {}, "é": [], "Z": null});
        assert_eq!(
            pretty_sorted(&value),
            "{\n  \"Z\": null,\n  \"a\": {},\n  \"b\": [\n    {\n      \"a\": 2,\n      \"z\": 1\n    }\n  ],\n  \"é\": []\n}"
        );
        assert_eq!(compact_sorted(&value), "{\"Z\":null,\"a\":{},\"b\":[{\"a\":2,\"z\":1}],\"é\":[]}");
    }

    #[test]
    fn floats_read_back_and_keep_their_point() {
        assert_eq!(
            compact_sorted(&json!([50.0, 0.1, 1e21, -0.0, 7])),
            "[50.0,0.1,1000000000000000000000.0,-0.0,7]"
        );
    }

    #[test]
    fn strings_are_escaped_but_not_transliterated() {
        assert_eq!(compact_sorted(&json!("a\"\\\n\t\r\u{1}é本")), "\"a\\\"\\\\\\n\\t\\r\\u0001é本\"");
    }

    #[test]
    fn what_is_written_reads_back() {
        let value = json!({"x": [1, 2.5, "t", true, null, {"y": "\u{0}"}]});
        for text in [pretty_sorted(&value), compact_sorted(&value)] {
            assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
        }
    }
}
