//! A lenient parser for the JSON that models write: with comments, trailing or missing commas, other quotes, unquoted
//! keys, Python literals, raw line breaks, invalid escapes, or missing closing brackets. It takes linear time.

use harn_value::Data as Value;

use crate::json::Object;

/// The maximum nesting of values; deeper text is rejected.
const DEPTH: usize = 64;

/// Parses the value at the start of the input, and returns the offset of its end. With `may_end`, the input may end
/// inside the value; open strings and brackets are then closed. Valid JSON yields the same value as a JSON parser.
pub(super) fn parse(text: &str, may_end: bool) -> Option<(Value, usize)> {
    let mut reader = Reader { text, at: 0, depth: 0, may_end };
    reader.blanks();
    let value = reader.value()?;
    reader.blanks();
    Some((value, reader.at))
}

/// Replaces escapes of unpaired surrogates, which JSON parsers reject, with that of U+FFFD. Returns `None` when the
/// input contains no such escape.
pub(crate) fn without_lone_surrogates(text: &str) -> Option<String> {
    replace_lone_surrogates(text, |_, out| out.push_str("\\ufffd"))
}

/// Replaces escapes of unpaired surrogates with the output of `write`, which receives their code. Returns `None` when
/// the input contains no such escape.
pub(crate) fn replace_lone_surrogates(text: &str, write: impl Fn(u32, &mut String)) -> Option<String> {
    let mut out = String::new();
    let (mut copied, mut at) = (0, 0);
    while let Some(found) = memchr::memchr(b'\\', text.as_bytes().get(at..)?) {
        let start = at + found;
        let Some(first) = surrogate(text, start) else {
            // An escaped character cannot start another escape.
            at = (start + 2).min(text.len());
            continue;
        };
        let second = surrogate(text, start + 6).filter(|low| *low >= 0xDC00);
        if first < 0xDC00 && second.is_some() {
            at = start + 12;
            continue;
        }
        out.push_str(&text[copied..start]);
        write(first, &mut out);
        at = start + 6;
        copied = at;
    }
    (copied > 0).then(|| out + &text[copied..])
}

/// Returns the surrogate whose escape starts at an offset.
fn surrogate(text: &str, at: usize) -> Option<u32> {
    let digits = text.get(at..at + 6)?.strip_prefix("\\u")?;
    let code = u32::from_str_radix(digits, 16).ok()?;
    (0xD800..0xE000).contains(&code).then_some(code)
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
    depth: usize,
    may_end: bool,
}

impl<'t> Reader<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn take(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    fn accept(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        if found {
            self.at += wanted.len_utf8();
        }
        found
    }

    /// Skips whitespace and comments; returns whether a line ended.
    fn blanks(&mut self) -> bool {
        let from = self.at;
        loop {
            let rest = self.rest();
            let trimmed = rest.trim_start();
            self.at += rest.len() - trimmed.len();
            let length = if trimmed.starts_with("//") || trimmed.starts_with('#') {
                trimmed.find('\n').unwrap_or(trimmed.len())
            } else if trimmed.starts_with("/*") {
                trimmed.find("*/").map_or(trimmed.len(), |end| end + 2)
            } else {
                return self.text[from..self.at].contains('\n');
            };
            self.at += length;
        }
    }

    fn value(&mut self) -> Option<Value> {
        if self.depth == DEPTH {
            return None;
        }
        self.depth += 1;
        let value = match self.peek()? {
            '{' => self.object(),
            '[' => self.list(),
            c if closing(c).is_some() => self.string().map(Value::String),
            '-' | '+' | '.' | '0'..='9' => self.number(),
            _ => self.word(),
        };
        self.depth -= 1;
        value
    }

    /// Returns whether a list or object ends here: at its bracket, or at the end of the input.
    fn closes(&mut self, bracket: char) -> Option<bool> {
        match self.peek() {
            Some(c) if c == bracket => {
                self.at += 1;
                Some(true)
            }
            Some(_) => Some(false),
            None => self.may_end.then_some(true),
        }
    }

    fn object(&mut self) -> Option<Value> {
        self.at += 1;
        let mut out = Object::new();
        loop {
            self.blanks();
            if self.closes('}')? {
                return Some(Value::Object(out));
            }
            let key =
                if self.peek().is_some_and(|c| closing(c).is_some()) { self.string()? } else { self.key()? };
            self.blanks();
            if !self.accept(':') {
                // A key that is cut off at the end of the input is dropped. If it is the only one, the input may not be
                // an object.
                let cut = self.may_end && self.rest().is_empty() && !out.is_empty();
                return cut.then_some(Value::Object(out));
            }
            self.blanks();
            if self.rest().is_empty() {
                return self.may_end.then_some(Value::Object(out));
            }
            let value = self.value()?;
            out.insert(key, value);
            self.separator('}')?;
        }
    }

    fn list(&mut self) -> Option<Value> {
        self.at += 1;
        let mut out = Vec::new();
        loop {
            self.blanks();
            if self.closes(']')? {
                return Some(Value::Array(out));
            }
            out.push(self.value()?);
            self.separator(']')?;
        }
    }

    /// Skips the separator between two entries: a comma. It may be missing at the end of a line, and trailing.
    fn separator(&mut self, bracket: char) -> Option<()> {
        let line = self.blanks();
        if self.accept(',') {
            return Some(());
        }
        (line || self.peek().is_none_or(|c| c == bracket)).then_some(())
    }

    fn key(&mut self) -> Option<String> {
        let rest = self.rest();
        let end =
            rest.find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '$' | '-'))).unwrap_or(rest.len());
        let key = rest[..end].to_owned();
        self.at += end;
        (!key.is_empty()).then_some(key)
    }

    fn word(&mut self) -> Option<Value> {
        let rest = self.rest();
        let end = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
        let value = match &rest[..end] {
            "true" | "True" => Value::Bool(true),
            "false" | "False" => Value::Bool(false),
            "null" | "None" | "undefined" | "nil" => Value::Null,
            _ => return None,
        };
        self.at += end;
        Some(value)
    }

    fn number(&mut self) -> Option<Value> {
        let rest = self.rest();
        let part = |c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.' | 'e' | 'E' | '_');
        let end = rest.find(|c| !part(c)).unwrap_or(rest.len());
        let text = rest[..end].trim_start_matches('+').replace('_', "");
        let value = match serde_json::from_str(&text) {
            Ok(value) => value,
            Err(_) => Value::from(text.parse::<f64>().ok()?),
        };
        self.at += end;
        Some(value)
    }

    fn string(&mut self) -> Option<String> {
        let open = self.take()?;
        let ends = closing(open)?;
        let mut out = String::new();
        loop {
            match self.take() {
                None => return self.may_end.then_some(out),
                Some('\\') => self.escape(&mut out)?,
                Some(c) if ends.contains(&c) && self.is_end() => return Some(out),
                Some(c) => out.push(c),
            }
        }
    }

    /// Returns whether a quote ends its string, judged by the characters after it.
    fn is_end(&self) -> bool {
        let rest = self.rest();
        let next = rest.trim_start();
        let between = &rest[..rest.len() - next.len()];
        next.is_empty()
            || next.starts_with([',', ':', '}', ']', '#'])
            || next.starts_with("//")
            || next.starts_with("/*")
            || between.contains('\n')
    }

    fn escape(&mut self, out: &mut String) -> Option<()> {
        let c = match self.take() {
            None => return self.may_end.then_some(()),
            Some(c) => c,
        };
        match c {
            'n' => out.push('\n'),
            't' => out.push('\t'),
            'r' => out.push('\r'),
            'b' => out.push('\u{8}'),
            'f' => out.push('\u{c}'),
            '"' | '\\' | '/' | '\'' => out.push(c),
            'u' => self.unicode(out),
            // A line continuation.
            '\n' => {}
            other => {
                out.push('\\');
                out.push(other);
            }
        }
        Some(())
    }

    /// Parses the digits of an escape; a surrogate pair is one character.
    fn unicode(&mut self, out: &mut String) {
        let code = |text: &str| u32::from_str_radix(text, 16).ok();
        let Some(first) = self.rest().get(..4).and_then(code) else {
            out.push_str("\\u");
            return;
        };
        self.at += 4;
        let low = self.rest().strip_prefix("\\u").and_then(|rest| rest.get(..4)).and_then(code);
        let low = low.filter(|low| (0xD800..0xDC00).contains(&first) && (0xDC00..0xE000).contains(low));
        let whole = match low {
            Some(low) => {
                self.at += 6;
                0x10000 + ((first - 0xD800) << 10) + (low - 0xDC00)
            }
            None => first,
        };
        out.push(char::from_u32(whole).unwrap_or('\u{fffd}'));
    }
}

/// Returns the quotes that can close a string opened by `open`.
fn closing(open: char) -> Option<&'static [char]> {
    Some(match open {
        '"' => &['"'],
        '\'' => &['\''],
        '`' => &['`'],
        '\u{201c}' | '\u{201e}' | '\u{201d}' => &['\u{201d}', '\u{201c}', '"'],
        '\u{2018}' | '\u{2019}' => &['\u{2019}', '\''],
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use harn_value::json;
    use proptest::prelude::*;

    fn whole(text: &str) -> Option<Value> {
        parse(text, true).filter(|(_, end)| *end == text.len()).map(|(value, _)| value)
    }

    #[test]
    fn what_models_write_is_read() {
        let a = json!({"code": "a"});
        for (text, value) in [
            ("{\"code\": \"a\", }", a.clone()),
            ("{ // note\n \"code\": \"a\" /* b */ }", a.clone()),
            ("{'code': 'a'}", a.clone()),
            ("{code: \"a\"}", a.clone()),
            ("{\u{201c}code\u{201d}: \u{201c}a\u{201d}}", a.clone()),
            ("{\"code\": \"a\"", a.clone()),
            ("{\"code\": \"a", a.clone()),
            ("{\"code\": \"a\", \"n\"", a.clone()),
            ("{\"code\": \"a\", \"n\":", a),
            ("{\"a\": True, \"b\": None}", json!({"a": true, "b": null})),
            ("{\"a\": \"x\ny\"}", json!({"a": "x\ny"})),
            ("{\"a\": \"\\d+\"}", json!({"a": "\\d+"})),
            ("{\"a\": \"it's \"so\"\"}", json!({"a": "it's \"so\""})),
            ("{'a': 'it's'}", json!({"a": "it's"})),
            ("{\"a\": 1\n\"b\": 2}", json!({"a": 1, "b": 2})),
            ("[1, 2,", json!([1, 2])),
            ("{\"a\": \"\\ud83d\"}", json!({"a": "\u{fffd}"})),
            ("{\"a\": .5, \"b\": +1}", json!({"a": 0.5, "b": 1})),
        ] {
            assert_eq!(whole(text), Some(value), "{text}");
        }
    }

    #[test]
    fn what_is_no_data_is_not() {
        for text in ["{a}", "[aside]", "{ and so on }", "", "{\"a\" 1}", "{\"a\": b}"] {
            assert_eq!(whole(text), None, "{text}");
        }
        assert_eq!(parse("{\"a\": 1", false), None);
        assert_eq!(whole(&"[".repeat(100_000)), None);
    }

    #[test]
    fn lone_surrogates_are_replaced() {
        assert_eq!(without_lone_surrogates("\"\\ud83d\\ude00\""), None);
        assert_eq!(without_lone_surrogates("\"a\\ud83d b\"").as_deref(), Some("\"a\\ufffd b\""));
        assert_eq!(
            without_lone_surrogates("\"\\ude00\\ud83d\\ude00\"").as_deref(),
            Some("\"\\ufffd\\ud83d\\ude00\"")
        );
        assert_eq!(without_lone_surrogates("\"\\\\ud83d\""), None);
    }

    proptest! {
        #[test]
        fn json_is_read_as_json(keys in prop::collection::vec((".{0,6}", ".{0,8}", any::<i64>(), any::<f64>()), 0..5)) {
            let value: Value = keys.into_iter().map(|(key, text, n, x)| json!({key: [text, n, x, {"k": null}]})).collect();
            for text in [value.to_string(), format!("{value:#}")] {
                let read: Value = serde_json::from_str(&text).unwrap();
                prop_assert_eq!(whole(&text), Some(read), "{}", text);
            }
        }

        #[test]
        fn any_text_is_read_or_not(text in ".{0,60}") {
            let _ = parse(&text, true);
        }
    }
}
