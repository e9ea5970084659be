//! Conversion between YAML and values. Scalars follow the core schema, as in JSON: dates remain text. The tree is built
//! from parser events without recursion, so nesting needs no stack space.

use std::borrow::Cow;
use std::cell::Cell;
use std::str::Chars;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use harn_value::{Dict, Ref, Str, Value, View, json, steps};
use rustc_hash::FxHashMap;
use saphyr_parser::{Event, Parser, ScalarStyle, Tag};

use crate::args::{printed, with_stack};

/// Parses one document. Keys are strings: a scalar key retains its spelling. The merge key `<<` adds the missing
/// entries of one or more maps, where earlier maps take precedence.
///
/// # Errors
/// The reason and the position: invalid syntax, a duplicate key, a map or list as key, `<<` without maps, a tag outside
/// of the core schema.
pub fn parse(text: &str) -> Result<Value, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut builder = Builder::default();
    let ahead = Cell::new(0);
    for event in Parser::new_from_iter(Read { chars: text.chars(), ahead: &ahead, paid: 0 }) {
        let (event, span) = event.map_err(|error| error.to_string())?;
        ahead.set(0);
        let place =
            |reason| format!("{reason} at line {} column {}", span.start.line(), span.start.col() + 1);
        builder.add(event).map_err(place)?;
    }
    Ok(builder.root.unwrap_or_default())
}

/// Maximum memory of the parser per item of a flow collection: two tokens of 104 bytes in a queue that doubles its
/// capacity.
const KEPT_PER_ITEM: usize = 400;

/// The input of the parser. A flow collection may turn out to be a key, so the parser reads it completely before it
/// emits the first event. Its memory and time are accounted here.
struct Read<'a> {
    chars: Chars<'a>,
    /// Items that have been read since the last event.
    ahead: &'a Cell<usize>,
    /// Items whose memory has been accounted.
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

/// An unfinished collection.
enum Open {
    List(Vec<Value>),
    Dict(OpenDict),
}

#[derive(Default)]
struct OpenDict {
    dict: Dict,
    /// The key that waits for its value.
    key: Option<Key>,
    /// The maps of a merge key.
    merged: Option<Vec<Ref<Dict>>>,
}

enum Key {
    Name(Str),
    Merge,
}

impl OpenDict {
    /// Inserts an entry.
    ///
    /// # Errors
    /// The key is a duplicate, or `<<` has a value that is neither a map nor a list of maps.
    fn insert(&mut self, key: Key, value: Value) -> Result<(), String> {
        let repeated = match key {
            Key::Name(name) => self.dict.insert(name.clone(), value).is_some().then_some(name),
            Key::Merge => self.merged.replace(merge_sources(&value)?).is_some().then(|| MERGE.into()),
        };
        repeated.map_or(Ok(()), |name| Err(format!("duplicate key '{name}'")))
    }

    fn close(mut self) -> Value {
        for source in self.merged.unwrap_or_default() {
            for (key, value) in steps::each(source.iter()) {
                if !self.dict.contains(key) {
                    self.dict.insert(key.clone(), value.clone());
                }
            }
        }
        Value::dict(self.dict)
    }
}

/// The merge key, written without quotes.
const MERGE: &str = "<<";

/// Returns the maps of a merge key in order of precedence.
fn merge_sources(value: &Value) -> Result<Vec<Ref<Dict>>, String> {
    let map = |value: &Value| {
        let wrong = || format!("'<<' merges a map or a list of maps, got {}", value.type_name());
        value.to_dict().ok_or_else(wrong)
    };
    match value.as_list() {
        Some(list) => steps::each(list.iter()).map(map).collect(),
        None => map(value).map(|only| vec![only]),
    }
}

/// A finished node.
struct Node {
    value: Value,
    /// The spelling of a scalar without quotes and tag.
    plain: Option<Str>,
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
                let plain = (matches!(style, ScalarStyle::Plain) && tag.is_none()).then(|| Str::from(&*text));
                self.finish(Node { value: scalar(&text, style, tag.as_deref())?, plain }, anchor)
            }
            Event::Alias(anchor) => match self.anchors.get(&anchor).cloned() {
                Some(value) => self.place(value.into()),
                None => Err("an alias refers to a node that is still open".to_owned()),
            },
            Event::SequenceStart(anchor, tag) => {
                collection_tag(tag.as_deref(), &["seq", "omap", "pairs"])?;
                self.open.push((Open::List(Vec::new()), anchor));
                Ok(())
            }
            Event::MappingStart(anchor, tag) => {
                collection_tag(tag.as_deref(), &["map", "set"])?;
                self.open.push((Open::Dict(OpenDict::default()), anchor));
                Ok(())
            }
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some((Open::List(items), anchor)) => self.finish(Value::list(items).into(), anchor),
                Some((Open::Dict(dict), anchor)) => self.finish(dict.close().into(), anchor),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    fn finish(&mut self, node: Node, anchor: usize) -> Result<(), String> {
        if anchor > 0 {
            self.anchors.insert(anchor, node.value.clone());
        }
        self.place(node)
    }

    /// Adds a finished node to its parent.
    fn place(&mut self, node: Node) -> Result<(), String> {
        match self.open.last_mut() {
            None => self.root = Some(node.value),
            Some((Open::List(items), _)) => items.push(node.value),
            Some((Open::Dict(open), _)) => match open.key.take() {
                Some(key) => open.insert(key, node.value)?,
                None => open.key = Some(node.into_key()?),
            },
        }
        Ok(())
    }
}

impl From<Value> for Node {
    fn from(value: Value) -> Node {
        Node { value, plain: None }
    }
}

impl Node {
    /// Converts the node to a key.
    ///
    /// # Errors
    /// A list or map cannot be a key.
    fn into_key(self) -> Result<Key, String> {
        match (self.plain, self.value.view()) {
            (Some(plain), _) if plain == MERGE => Ok(Key::Merge),
            (Some(plain), _) => Ok(Key::Name(plain)),
            (None, View::List(_) | View::Dict(_)) => {
                Err(format!("a key must be a scalar, got {}", self.value.type_name()))
            }
            (None, View::Nil) => Ok(Key::Name("null".into())),
            (None, _) => Ok(Key::Name(printed(&self.value))),
        }
    }
}

fn unknown_tag(tag: &Tag) -> String {
    let core = tag.is_yaml_core_schema();
    let handle = if core { "!!" } else { tag.handle.as_str() };
    format!("unsupported tag '{handle}{}'", tag.suffix)
}

/// Accepts redundant tags of a collection.
fn collection_tag(tag: Option<&Tag>, known: &[&str]) -> Result<(), String> {
    let fits =
        |tag: &Tag| unspecific(tag) || tag.is_yaml_core_schema() && known.contains(&tag.suffix.as_str());
    tag.filter(|tag| !fits(tag)).map_or(Ok(()), |tag| Err(unknown_tag(tag)))
}

/// Returns whether the tag is a plain `!`, which disables resolution by content.
fn unspecific(tag: &Tag) -> bool {
    tag.handle.is_empty() && tag.suffix == "!" || tag.handle == "!" && tag.suffix.is_empty()
}

fn scalar(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Result<Value, String> {
    let Some(tag) = tag else {
        return Ok(if matches!(style, ScalarStyle::Plain) { plain(text) } else { Value::str(text) });
    };
    if unspecific(tag) {
        return Ok(Value::str(text));
    }
    if !tag.is_yaml_core_schema() {
        return Err(unknown_tag(tag));
    }
    let value = plain(text);
    let fitting = match tag.suffix.as_str() {
        "str" | "timestamp" => Some(Value::str(text)),
        "null" => Some(value).filter(Value::is_nil),
        "bool" => Some(value).filter(|value| value.as_bool().is_some()),
        "int" => Some(value).filter(|value| value.as_int().is_some()),
        "float" => value.as_number().map(Value::float),
        "binary" => {
            let packed: String = text.split_ascii_whitespace().collect();
            BASE64.decode(packed).ok().map(Value::bytes)
        }
        _ => return Err(unknown_tag(tag)),
    };
    fitting.ok_or_else(|| {
        format!("'{}' is not a value of the tag '!!{}'", harn_value::short(&Value::str(text), 60), tag.suffix)
    })
}

/// Parses a plain scalar by the core schema of YAML 1.2.
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
    // A number beyond 64 bits becomes a float, as for decimal numbers.
    let based = |prefix: &str, base: u32| {
        let digits = text.strip_prefix(prefix).filter(|digits| !digits.is_empty())?;
        let digits: Vec<u32> = digits.chars().map(|c| c.to_digit(base)).collect::<Option<_>>()?;
        let int = digits
            .iter()
            .try_fold(0i64, |n, digit| n.checked_mul(i64::from(base))?.checked_add(i64::from(*digit)));
        let float = || digits.iter().fold(0.0, |n, digit| n * f64::from(base) + f64::from(*digit));
        Some(int.map_or_else(|| Value::float(float()), Value::int))
    };
    if let Some(number) = based("0x", 16).or_else(|| based("0o", 8)) {
        return number;
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

/// Formats a value in block style, with keys in byte order and a trailing newline.
pub(crate) fn stringify(value: &Value) -> String {
    let mut out = String::new();
    write_block(value, 0, &mut out);
    if !out.ends_with('\n') {
        out.push('\n');
    }
    out
}

/// Returns the items of a list or set.
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

/// Writes the value after `-` or `key:`.
fn write_child(value: &Value, depth: usize, in_list: bool, out: &mut String) {
    let nested_list = items(value).is_some_and(|items| !items.is_empty());
    let nested_dict = value.to_dict().is_some_and(|dict| !dict.is_empty());
    if in_list && (nested_dict || nested_list) {
        // The first line of a nested collection follows the dash.
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
            // A large integral float prints without a decimal point and would be parsed as an int.
            if f.fract() == 0.0 && !text.contains('.') { format!("{text}.0").into() } else { text.into() }
        }
        View::List(_) | View::Set(_) => "[]".into(),
        View::Dict(_) | View::Struct(_) => "{}".into(),
        View::Str(text) => quoted(text),
        View::Bytes(bytes) => format!("!!binary \"{}\"", BASE64.encode(&bytes[..])).into(),
        _ => printed(value).to_string().into(),
    }
}

/// Returns whether YAML 1.1 would parse a plain scalar as another type than text: `no`, `1:30`, `1_000`, `2024-01-15`.
fn older_scalar(text: &str) -> bool {
    const WORDS: [&str; 8] = ["y", "n", "yes", "no", "on", "off", "<<", "="];
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    WORDS.iter().any(|word| text.eq_ignore_ascii_case(word))
        || digits.starts_with(|c: char| c.is_ascii_digit() || c == '.')
            && digits.bytes().any(|b| b.is_ascii_digit())
            && digits.bytes().all(|b| b.is_ascii_hexdigit() || b"_:.-+xoTtZz ".contains(&b))
}

/// Returns `text` unquoted if YAML parses it as the same string, else as a JSON string.
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
        || older_scalar(text)
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
    fn merge_keys_add_what_is_missing() {
        for (text, expected) in [
            ("a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3}", r#"{"a":{"x":1,"y":2},"b":{"x":1,"y":3}}"#),
            // Before or after the map's other entries.
            ("b: {y: 3, <<: {x: 1, y: 2}}", r#"{"b":{"x":1,"y":3}}"#),
            // The first map of a list takes precedence.
            ("<<: [{x: 1, y: 1}, {x: 2, z: 2}]\nz: 3", r#"{"x":1,"y":1,"z":3}"#),
            // Merged maps include what they have merged.
            (
                "a: &a {x: 1}\nb: &b {<<: *a, y: 2}\nc: {<<: *b, z: 3}",
                r#"{"a":{"x":1},"b":{"x":1,"y":2},"c":{"x":1,"y":2,"z":3}}"#,
            ),
            // Merging is not recursive.
            ("<<: {m: {x: 1}}\nm: {y: 2}", r#"{"m":{"y":2}}"#),
            ("<<: []", "{}"),
            // A quoted key and a value are not merge keys.
            ("'<<': {x: 1}\nv: <<", r#"{"<<":{"x":1},"v":"<<"}"#),
            ("<<: 1", "error: '<<' merges a map or a list of maps, got int at line 1 column 5"),
            ("<<: [{}, [1]]", "error: '<<' merges a map or a list of maps, got list at line 1 column 13"),
            ("<<: {a: 1}\n<<: {b: 1}", "error: duplicate key '<<' at line 2 column 10"),
            ("<<: {a: *b}", "error: "),
        ] {
            let got = read(text);
            assert!(got == expected || expected == "error: " && got.starts_with(expected), "{text}: {got}");
        }
    }

    #[test]
    fn nothing_is_lost_in_silence() {
        for (text, expected) in [
            ("a: !Ref x", "error: unsupported tag '!Ref' at line 1 column 4"),
            ("a: !vault |\n  12\n", "error: unsupported tag '!vault' at line 1 column 4"),
            ("a: !<tag:x,1:y> x", "error: unsupported tag"),
            ("a: !!python/tuple [1]", "error: unsupported tag '!!python/tuple' at line 1 column 4"),
            (
                "[!!str 1, !!int '2', !!float 3, !!null '', ! 4, !!bool 'true']",
                r#"["1",2,3.0,null,"4",true]"#,
            ),
            ("!!int x", "error: 'x' is not a value of the tag '!!int' at line 1 column 1"),
            ("!!binary aGk=", r#"{"$bytes_b64":"aGk="}"#),
            ("!!set {a, b}", r#"{"a":null,"b":null}"#),
            ("? [1, 2]\n: x", "error: a key must be a scalar, got list"),
            ("? {a: 1}\n: x", "error: a key must be a scalar, got dict"),
            // A key is text and retains its spelling.
            (
                "{3.10: a, 0x1F: b, 010: c, True: d, ~: e, null: f}",
                r#"{"010":"c","0x1F":"b","3.10":"a","True":"d","null":"f","~":"e"}"#,
            ),
            ("a: 1\n'a': 2", "error: duplicate key 'a' at line 2 column 6"),
            ("--- 1\n--- 2", "error: more than one document at line 2 column 1"),
            (
                "[0x-5, 0xFFFFFFFFFFFFFFFF, -0x1F, 0o17, 0o8, 1_000, 1:30, 0x]",
                r#"["0x-5",18446744073709552000.0,"-0x1F",15,"0o8","1_000","1:30","0x"]"#,
            ),
            (
                "[.5, 5., +1, -.5e3, 1e3, 1e, ., 1.5.2, NaN]",
                r#"[0.5,5.0,1,-500.0,1000.0,"1e",".","1.5.2","NaN"]"#,
            ),
        ] {
            let got = read(text);
            assert!(
                got == expected || got.starts_with(expected) && !expected.ends_with('}'),
                "{text}: {got}"
            );
        }
    }

    #[test]
    fn what_is_written_reads_back() {
        for text in [
            "a",
            "",
            " a",
            "a: b",
            "- x",
            "null",
            "1",
            "1.0",
            "#",
            "a #b",
            "é\n",
            "true",
            "{",
            "a:",
            "'",
            "\t",
            "0x1F",
            "~",
            "...",
            "... x",
            "...x",
            "....",
            "---",
            "--- x",
            "<<",
            "no",
            "Yes",
            "1:30",
            "1_000",
            "2024-01-15",
            "1.2.3",
            "=",
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
        // Either an error or a value, but never a crash.
        let _ = parse(&deep);
        let _ = parse(&"- ".repeat(5_000));
    }
}
