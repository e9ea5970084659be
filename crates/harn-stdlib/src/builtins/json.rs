//! JSON: parsing, formatting, extraction from text, and JSON Pointer.

use harn_schema::options::Options;
use harn_value::json::{self, BigNumbers};
use harn_value::json_partial::parse_partial;
use harn_value::{Dict, Value};
use harn_vm::builtin::{OptionDict, Text};
use harn_vm::{Error, Result, builtins};

use crate::args::{Given, MaybeText, printed};
use crate::json_search;

/// Options of `json_parse`.
#[derive(Options)]
struct ParseOptions {
    /// Representation of integers beyond 64 bits: `"float"`, `"string"` or `"error"`.
    #[option(default = BigNumbers::Float, shown = "\"float\"", ty = "string", with = big_numbers)]
    big_numbers: BigNumbers,
}

builtins! {
    /// JSON.
    pub(crate) static JSON: "json";

    /// Parses JSON.
    ///
    /// Objects become dicts and `null` becomes nil. Integers within 64 bits become ints, all other numbers
    /// floats. Of duplicate keys, the last one applies.
    ///
    /// ```harn
    /// println(json_parse("{\"a\": [1, 2.0, null]}")) // -> {a: [1, 2.0, nil]}
    /// println(try { json_parse("[1,]") }) // -> Result.Err(JSON parse error: trailing comma at line 1 column 4)
    /// println(json_parse("12345678901234567890", {big_numbers: "string"})) // -> 12345678901234567890
    /// ```
    Pure fn json_parse(cx, s: Text as "string", options: OptionDict<ParseOptions>) -> "any" {
        let ParseOptions { big_numbers } = options.read()?;
        // RFC 8259, 8.1: a parser may ignore a byte order mark.
        let text = s.strip_prefix('\u{feff}').unwrap_or(&s);
        json::parse_with(text, big_numbers).map_err(|error| Error::thrown(format!("JSON parse error: {error}")))?
    }

    /// Parses the beginning of JSON, such as a model's reply while it is streamed.
    ///
    /// Open lists, dicts and strings are closed at the end of the input. A key without its value and a truncated number
    /// or literal are dropped. Input without any value is nil. Throws if the input is not the beginning of JSON.
    ///
    /// ```harn
    /// println(json_parse_partial("{\"title\": \"Bern\", \"tags\": [\"city\", \"cap")) // -> {tags: [city, cap], title: Bern}
    /// println(json_parse_partial("{\"people\": 134")) // -> {}
    /// println(try { json_parse_partial("[1 2") }) // -> Result.Err(JSON parse error: expected `,` or `]` at line 1 column 4)
    /// ```
    Pure fn json_parse_partial(cx, s: Text as "string") -> "any" {
        let text = s.strip_prefix('\u{feff}').unwrap_or(&s);
        parse_partial(text).map_err(|error| Error::thrown(format!("JSON parse error: {error}")))?
    }

    /// Serializes a value as compact JSON, with dict keys in byte order.
    ///
    /// Floats round-trip, and whole floats keep their decimal point. NaN and infinities, functions, enum values,
    /// durations, pairs and handles become `null`; sets become arrays and structs objects.
    ///
    /// ```harn
    /// println(json_stringify({b: [1, 1.5, "x"], a: nil})) // -> {"a":null,"b":[1,1.5,"x"]}
    /// ```
    Pure fn json_stringify(cx, value: Value) -> "string" {
        json::stringify(&value)
    }

    /// Serializes a value as JSON with an indentation of two spaces per level.
    ///
    /// ```harn
    /// println(split(json_pretty({a: [1]}), "\n")[1]) // ->   "a": [
    /// ```
    Pure fn json_pretty(cx, value: Value) -> "string" {
        json::pretty(&value)
    }

    /// Finds JSON in a string and parses it, for instance in a model's answer.
    ///
    /// Returns the whole string if it is an object or a list, else the first fenced block with JSON, else the first
    /// object, else the first list, else the whole string. Braces and brackets without JSON are skipped. Values inside
    /// of malformed or truncated JSON are ignored. With a key, the entry of the dict is returned.
    ///
    /// ```harn
    /// println(json_extract("Sure! {\"answer\": 42} Bye.")) // -> {answer: 42}
    /// println(json_extract("Fill {name} in: {\"answer\": 42}", "answer")) // -> 42
    /// ```
    Pure fn json_extract(cx, s: MaybeText as "string", key: Given as "string?") -> "any" {
        let Some(s) = s.0 else {
            return Err(Error::thrown("json_extract requires at least 1 argument: text"));
        };
        let value = json_search::first_json(&s)
            .map_err(|error| Error::thrown(format!("json_extract: failed to parse JSON: {error}")))?;
        match key.0.filter(|key| !key.is_nil()) {
            None => value,
            Some(key) => {
                let key = printed(&key);
                let Some(dict) = value.as_dict() else {
                    return Err(Error::thrown("json_extract: parsed value is not a dict, cannot extract key"));
                };
                match dict.get(&key) {
                    Some(entry) => entry.clone(),
                    None => return Err(Error::thrown(format!("json_extract: key '{key}' not found"))),
                }
            }
        }
    }

    /// Returns the value at a JSON pointer (RFC 6901), or nil if the path does not exist.
    ///
    /// ```harn
    /// println(json_pointer({a: [10, {"b/c": 20}]}, "/a/1/b~1c")) // -> 20
    /// ```
    Pure fn json_pointer(cx, value: Given, pointer: Given) -> "any" {
        let (Some(value), Some(pointer)) = (value.0, pointer.0) else {
            return Err(Error::thrown("json_pointer requires 2 arguments"));
        };
        let steps = steps("json_pointer", &pointer)?;
        steps.iter().try_fold(value, |value, step| child(&value, step))
    }

    /// Returns a copy with the value at a JSON pointer replaced.
    ///
    /// The last step inserts or replaces a dict key, replaces a list item, or appends for `-` or an
    /// index equal to the length. If a parent is missing, the value is returned unchanged.
    ///
    /// ```harn
    /// println(json_pointer_set({a: [1]}, "/a/-", 2)) // -> {a: [1, 2]}
    /// ```
    Pure fn json_pointer_set(cx, value: Given, pointer: Given, new: Given) -> "any" {
        let (Some(value), Some(pointer), Some(new)) = (value.0, pointer.0, new.0) else {
            return Err(Error::thrown("json_pointer_set requires 3 arguments"));
        };
        let steps = steps("json_pointer_set", &pointer)?;
        match steps.split_last() {
            None => new,
            Some((last, parents)) => changed(value, parents, |parent| set_child(parent, last, new)),
        }
    }

    /// Returns a copy without the value at a JSON pointer.
    ///
    /// ```harn
    /// println(json_pointer_delete({a: [1, 2], b: 3}, "/a/0")) // -> {a: [2], b: 3}
    /// ```
    Pure fn json_pointer_delete(cx, value: Given, pointer: Given) -> "any" {
        let (Some(value), Some(pointer)) = (value.0, pointer.0) else {
            return Err(Error::thrown("json_pointer_delete requires 2 arguments"));
        };
        let steps = steps("json_pointer_delete", &pointer)?;
        match steps.split_last() {
            None => Value::NIL,
            Some((last, parents)) => changed(value, parents, |parent| delete_child(parent, last)),
        }
    }
}

fn steps(name: &str, pointer: &Value) -> Result<Vec<String>> {
    let pointer = printed(pointer);
    if pointer.is_empty() {
        return Ok(Vec::new());
    }
    let Some(path) = pointer.strip_prefix('/') else {
        return Err(Error::thrown(format!("{name}: pointer must be empty or start with '/'")));
    };
    path.split('/').map(|step| unescape(name, step)).collect()
}

fn unescape(name: &str, step: &str) -> Result<String> {
    let mut out = String::with_capacity(step.len());
    let mut chars = step.chars();
    while let Some(c) = chars.next() {
        if c != '~' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('0') => out.push('~'),
            Some('1') => out.push('/'),
            Some(other) => {
                return Err(Error::thrown(format!("{name}: invalid escape '~{other}' in pointer")));
            }
            None => return Err(Error::thrown(format!("{name}: dangling '~' in pointer"))),
        }
    }
    Ok(out)
}

/// Parses a list index: digits without leading zeros.
fn index(step: &str) -> Option<usize> {
    let plain = step == "0" || (!step.starts_with('0') && step.bytes().all(|b| b.is_ascii_digit()));
    if plain { step.parse().ok() } else { None }
}

fn child(value: &Value, step: &str) -> Option<Value> {
    match value.as_list() {
        Some(list) => list.get(index(step)?).cloned(),
        None => value.to_dict()?.get_str(step).cloned(),
    }
}

/// Applies `change` to the target of `parents`; returns the value unchanged if the target does not exist.
fn changed(mut value: Value, parents: &[String], change: impl FnOnce(&mut Value)) -> Value {
    fn place<'a>(value: &'a mut Value, parents: &[String]) -> Option<&'a mut Value> {
        let Some((step, rest)) = parents.split_first() else { return Some(value) };
        let next = if value.as_list().is_some() {
            value.as_list_mut()?.make_mut().get_mut(index(step)?)?
        } else {
            value.as_dict_mut()?.make_mut().get_mut(&step.as_str().into())?
        };
        place(next, rest)
    }
    if let Some(parent) = place(&mut value, parents) {
        change(parent);
    }
    value
}

fn set_child(parent: &mut Value, step: &str, new: Value) {
    if let Some(list) = parent.as_list_mut() {
        let len = list.len();
        match index(step) {
            Some(at) if at < len => list.make_mut()[at] = new,
            Some(at) if at == len => list.make_mut().push(new),
            None if step == "-" => list.make_mut().push(new),
            _ => {}
        }
    } else if let Some(dict) = parent.as_dict_mut() {
        Dict::insert(dict.make_mut(), step, new);
    }
}

fn delete_child(parent: &mut Value, step: &str) {
    if let Some(list) = parent.as_list_mut() {
        if let Some(at) = index(step).filter(|at| *at < list.len()) {
            list.make_mut().with_vec(|items| items.remove(at));
        }
    } else if let Some(dict) = parent.as_dict_mut()
        && dict.contains(step)
    {
        dict.make_mut().remove(step);
    }
}

fn big_numbers(value: &Value) -> std::result::Result<BigNumbers, String> {
    match value.as_str().map(|word| word.as_str()) {
        Some("float") => Ok(BigNumbers::Float),
        Some("string") => Ok(BigNumbers::Text),
        Some("error") => Ok(BigNumbers::Refused),
        _ => Err(format!("must be float, string or error, got {}", harn_value::short(value, 60))),
    }
}
