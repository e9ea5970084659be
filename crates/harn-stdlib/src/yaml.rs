//! YAML text to values and back. Scalars are read as JSON would have them (the core schema): dates
//! stay text. The tree is built from parser events without recursion, so nesting needs no stack.

use std::borrow::Cow;
use std::cell::Cell;
use std::str::Chars;

use harn_value::{Dict, Str, Value, View, json, steps};
use rustc_hash::FxHashMap;
use saphyr_parser::{Event, Parser, ScalarStyle, Tag};

use crate::args::{printed, with_stack};

/// Reads one document.
///
/// # Errors
/// What is wrong and where.
pub fn parse(text: &str) -> Result<Value, String> {
    let mut builder = Builder::default();
    let ahead = Cell::new(0);
    for event in Parser::new_from_iter(Read { chars: text.chars(), ahead: &ahead, paid: 0 }) {
        let (event, _) = event.map_err(|error| error.to_string())?;
        ahead.set(0);
        builder.add(event)?;
    }
    Ok(builder.root.unwrap_or_default())
}

/// What the parser keeps at most of one item of a list or dict in one line: two tokens of 104 bytes in a queue that
/// doubles.
const KEPT_PER_ITEM: usize = 400;

/// Text as the parser reads it. A list or dict in brackets may turn out to be a key, so all of it is read before its first
/// event is known: memory and time of that are looked at here.
struct Read<'a> {
    chars: Chars<'a>,
    /// Items that were read since the last event.
    ahead: &'a Cell<usize>,
    /// Items that there was room for.
    paid: usize,
}

impl Iterator for Read<'_> {
    type Item = char;

    fn next(&mut self) -> Option<char> {
        let char = self.chars.next()?;
        if matches!(char, ',' | ':' | '[' | '{') {
            steps::step();
            let ahead = self.ahead.get() + 1;
            self.ahead.set(ahead);
            if ahead == 1 {
                self.paid = 0;
            } else if ahead > 2 * self.paid.max(1024) {
                self.paid = ahead;
                steps::room(2 * ahead * KEPT_PER_ITEM);
            }
        }
        Some(char)
    }
}

/// A collection that is still open.
enum Open {
    List(Vec<Value>),
    /// Entries, and the key that waits for its value.
    Dict(Dict, Option<Str>),
}

#[derive(Default)]
struct Builder {
    open: Vec<(Open, usize)>,
    anchors: FxHashMap<usize, Value>,
    root: Option<Value>,
    documents: usize,
}

impl Builder {
    fn add(&mut self, event: Event<'_>) -> Result<(), String> {
        steps::step();
        match event {
            Event::DocumentStart(_) => {
                self.documents += 1;
                if self.documents > 1 {
                    return Err("more than one document".to_owned());
                }
                Ok(())
            }
            Event::Scalar(text, style, anchor, tag) => {
                let value = scalar(&text, style, tag.as_deref());
                self.finish(value, anchor)
            }
            Event::Alias(anchor) => match self.anchors.get(&anchor).cloned() {
                Some(value) => self.place(value),
                None => Err("an alias refers to something that is still open".to_owned()),
            },
            Event::SequenceStart(anchor, _) => {
                self.open.push((Open::List(Vec::new()), anchor));
                Ok(())
            }
            Event::MappingStart(anchor, _) => {
                self.open.push((Open::Dict(Dict::new(), None), anchor));
                Ok(())
            }
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some((Open::List(items), anchor)) => self.finish(Value::list(items), anchor),
                Some((Open::Dict(dict, _), anchor)) => self.finish(Value::dict(dict), anchor),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    fn finish(&mut self, value: Value, anchor: usize) -> Result<(), String> {
        if anchor > 0 {
            self.anchors.insert(anchor, value.clone());
        }
        self.place(value)
    }

    /// Puts a finished value where it belongs.
    fn place(&mut self, value: Value) -> Result<(), String> {
        match self.open.last_mut() {
            None => self.root = Some(value),
            Some((Open::List(items), _)) => items.push(value),
            Some((Open::Dict(dict, key), _)) => match key.take() {
                Some(name) => {
                    if dict.insert(name.clone(), value).is_some() {
                        return Err(format!("duplicate key '{name}'"));
                    }
                }
                None => *key = Some(printed(&value)),
            },
        }
        Ok(())
    }
}

fn scalar(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Value {
    let is_text = tag.is_some_and(|tag| tag.is_yaml_core_schema() && tag.suffix == "str");
    if is_text || !matches!(style, ScalarStyle::Plain) { Value::str(text) } else { plain(text) }
}

/// A scalar without quotes.
fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::NIL,
        "true" | "True" | "TRUE" => return Value::TRUE,
        "false" | "False" | "FALSE" => return Value::FALSE,
        ".nan" | ".NaN" | ".NAN" => return Value::float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => return Value::float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => return Value::float(f64::NEG_INFINITY),
        _ => {}
    }
    let based = |prefix: &str, base| {
        text.strip_prefix(prefix).and_then(|digits| i64::from_str_radix(digits, base).ok())
    };
    if let Some(int) = based("0x", 16).or_else(|| based("0o", 8)) {
        return Value::int(int);
    }
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let numeric = digits.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        && digits.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E' | b'+' | b'-'))
        && digits.bytes().any(|b| b.is_ascii_digit());
    if numeric {
        if digits.bytes().all(|b| b.is_ascii_digit())
            && let Ok(int) = text.parse()
        {
            return Value::int(int);
        }
        if let Ok(float) = text.parse() {
            return Value::float(float);
        }
    }
    Value::str(text)
}

/// Writes a value in block style, keys in byte order, with a newline at the end.
pub(crate) fn stringify(value: &Value) -> String {
    let mut out = String::new();
    write_block(value, 0, &mut out);
    if !out.ends_with('\n') {
        out.push('\n');
    }
    out
}

/// Items of a list or set.
fn items(value: &Value) -> Option<Vec<Value>> {
    match value.view() {
        View::List(list) => Some(list.to_vec()),
        View::Set(set) => Some(set.iter().cloned().collect()),
        _ => None,
    }
}

fn write_block(value: &Value, depth: usize, out: &mut String) {
    with_stack(|| {
        if let Some(items) = items(value).filter(|items| !items.is_empty()) {
            for item in items {
                indent(depth, out);
                out.push('-');
                write_child(&item, depth + 1, true, out);
            }
        } else if let Some(dict) = value.to_dict().filter(|dict| !dict.is_empty()) {
            for (key, item) in dict.iter() {
                indent(depth, out);
                out.push_str(&quoted(key));
                out.push(':');
                write_child(item, depth + 1, false, out);
            }
        } else {
            out.push_str(&inline(value));
        }
    });
}

/// Writes what follows `-` or `key:`.
fn write_child(value: &Value, depth: usize, in_list: bool, out: &mut String) {
    let nested_list = items(value).is_some_and(|items| !items.is_empty());
    let nested_dict = value.to_dict().is_some_and(|dict| !dict.is_empty());
    if in_list && (nested_dict || nested_list) {
        // The first line of a nested collection stands behind the dash.
        let mut nested = String::new();
        write_block(value, depth, &mut nested);
        out.push(' ');
        out.push_str(nested.trim_start());
    } else if nested_dict || nested_list {
        out.push('\n');
        write_block(value, depth, out);
    } else {
        out.push(' ');
        out.push_str(&inline(value));
        out.push('\n');
    }
}

fn indent(depth: usize, out: &mut String) {
    steps::bytes(2 * depth);
    (0..depth).for_each(|_| out.push_str("  "));
}

fn inline(value: &Value) -> Cow<'_, str> {
    match value.view() {
        View::Nil => "null".into(),
        View::Bool(_) | View::Int(_) => value.to_string().into(),
        View::Float(f) if f.is_nan() => ".nan".into(),
        View::Float(f) if f.is_infinite() => if f > 0.0 { ".inf" } else { "-.inf" }.into(),
        View::Float(f) => {
            let text = value.to_string();
            // A large whole float prints without a point and would be read as an int.
            if f.fract() == 0.0 && !text.contains('.') { format!("{text}.0").into() } else { text.into() }
        }
        View::List(_) | View::Set(_) => "[]".into(),
        View::Dict(_) | View::Struct(_) => "{}".into(),
        View::Str(text) => quoted(text),
        _ => printed(value).to_string().into(),
    }
}

/// Text as it is where it reads back as the same text, else as a JSON string.
fn quoted(text: &str) -> Cow<'_, str> {
    let special = text.starts_with(|c: char| c.is_whitespace() || "-?:,[]{}#&*!|>'\"%@`".contains(c))
        || text.ends_with(|c: char| c.is_whitespace() || c == ':')
        // `...` ends a document.
        || text.strip_prefix("...").is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace))
        || text.contains(": ")
        || text.contains(" #")
        || text.contains(|c: char| {
            c.is_control() || matches!(c, '\u{85}' | '\u{2028}' | '\u{2029}' | '\u{feff}')
        })
        || plain(text).as_str().is_none();
    if !special {
        return text.into();
    }
    let mut out = String::new();
    json::write_string(text, &mut out);
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> String {
        parse(text).map_or_else(|error| format!("error: {error}"), |value| json::stringify(&value))
    }

    #[test]
    fn scalars_follow_the_core_schema() {
        assert_eq!(
            read("[null, ~, true, 1, -2, 0x1F, 1.5, '1', 2024-01-15, 1.2.3, yes, '']"),
            r#"[null,null,true,1,-2,31,1.5,"1","2024-01-15","1.2.3","yes",""]"#
        );
    }

    #[test]
    fn what_is_written_reads_back() {
        for text in [
            "a", "", " a", "a: b", "- x", "null", "1", "1.0", "#", "a #b", "é\n", "true", "{", "a:", "'",
            "\t", "0x1F", "~", "...", "... x", "...x", "....", "---", "--- x",
        ] {
            let value: Dict = [(text, Value::list(vec![Value::str(text), Value::float(1e20), Value::NIL]))]
                .into_iter()
                .collect();
            let value =
                Value::list(vec![value.clone().into(), Value::list(vec![value.into(), Value::list(vec![])])]);
            let written = stringify(&value);
            assert_eq!(parse(&written).map(|v| v.to_string()), Ok(value.to_string()), "{written}");
        }
    }

    #[test]
    fn nesting_needs_no_stack() {
        let deep = "[".repeat(20_000) + &"]".repeat(20_000);
        // Refused or read, but never a crash.
        let _ = parse(&deep);
        let _ = parse(&"- ".repeat(5_000));
    }
}
