//! Assertions and categorized errors.

use harn_value::{Dict, Value, View};
use harn_vm::builtin::Text;
use harn_vm::failures::Failures;
use harn_vm::{Cx, Error, builtins};

use crate::args::{Given, printed};

builtins! {
    /// Assertions and categorized errors.
    pub(crate) static ERRORS: "errors";

    /// Throws unless the condition is true.
    ///
    /// ```harn
    /// assert(1 < 2)
    /// println(try { assert(false) }) // -> Result.Err(Assertion failed)
    /// println(try { assert(0, "no items") }) // -> Result.Err(no items)
    /// ```
    Pure fn assert(cx, condition: Value, message: Given as "any?") -> "nil" {
        if !condition.truthy() {
            let error = failed(&message, "Assertion failed".to_owned());
            return Err(error.with_note(format!("the condition is {}", shown(&condition))));
        }
    }

    /// Throws unless both values are equal.
    ///
    /// ```harn
    /// assert_eq(1, 1.0)
    /// println(try { assert_eq(1, 2) }) // -> Result.Err(Assertion failed: expected 2, got 1)
    /// ```
    Pure fn assert_eq(cx, actual: Value, expected: Given, message: Given as "any?") -> "nil" {
        let Some(expected) = expected.0 else {
            return Err(Error::thrown("assert_eq requires at least 2 arguments"));
        };
        if actual != expected {
            let place = difference(&expected, &actual, 0);
            let (wanted, got) = apart(&expected.to_string(), &actual.to_string());
            let text = format!("Assertion failed: expected {wanted}, got {got}");
            let mut error = failed(&message, text);
            if is_given(&message) {
                error = error.with_note(format!("expected {wanted}")).with_note(format!("got {got}"));
            }
            return Err(match place {
                Some(place) => error.with_note(place),
                None => error,
            });
        }
    }

    /// Throws when both values are equal.
    ///
    /// ```harn
    /// assert_ne(1, 2)
    /// println(try { assert_ne(1, 1) }) // -> Result.Err(Assertion failed: values should not be equal: 1)
    /// ```
    Pure fn assert_ne(cx, a: Value, b: Given, message: Given as "any?") -> "nil" {
        let Some(b) = b.0 else {
            return Err(Error::thrown("assert_ne requires at least 2 arguments"));
        };
        if a == b {
            let text = format!("Assertion failed: values should not be equal: {}", shown(&a));
            let error = failed(&message, text);
            let note = is_given(&message).then(|| format!("both are {}", shown(&a)));
            return Err(note.into_iter().fold(error, Error::with_note));
        }
    }

    /// Throws the dict `{category, message}`.
    ///
    /// An unknown or missing category becomes `generic`.
    ///
    /// ```harn
    /// println(try { throw_error("slow down", "rate_limit") }) // -> Result.Err({category: rate_limit, message: slow down})
    /// ```
    Pure fn throw_error(cx, message: Text, category: Value as "string?") -> "never" {
        let known = category.as_str().filter(|c| CATEGORIES.contains(&c.as_str()));
        Err::<Value, Error>(Error::structured(known.map_or("generic", |c| c.as_str()), &message))
    }

    /// Returns the category of a caught error.
    ///
    /// For a dict, the category is its `category`; for a string, it is derived from the message.
    ///
    /// ```harn
    /// println(error_category({category: "auth", message: "no"})) // -> auth
    /// println(error_category("HTTP 429 Too Many Requests")) // -> rate_limit
    /// println(error_category("boom")) // -> generic
    /// ```
    Pure fn error_category(cx, error: Value) -> "string" {
        category_of(&error)
    }

    /// Returns details of a caught error: `{category, kind, message, path?, url?, status?, code?}`.
    ///
    /// `kind` is the kind of failure: `not_found`, `permission_denied`, `timeout`, `connect` and others for files,
    /// processes and the network, else `runtime`, `type` or `thrown`. `code` is the error number of the operating
    /// system. For a dict that a program threw, the fields of the dict take precedence. `category` may be more specific
    /// than `error_category`, which only sees the message.
    ///
    /// ```harn
    /// try { read_file("/no/such/file") } catch (e) {
    ///   let info = error_info(e)
    ///   println([info.category, info.kind, info.path]) // -> [not_found, not_found, /no/such/file]
    /// }
    /// println(error_info("boom")) // -> {category: generic, kind: thrown, message: boom}
    /// ```
    State fn error_info(cx, error: Value) -> "{category: string, kind: string, message: string, path?: string, url?: string, status?: int, code?: int}" {
        info(cx, &error)
    }

    /// Returns whether a caught error is a timeout.
    ///
    /// ```harn
    /// println(is_timeout("Deadline exceeded")) // -> true
    /// ```
    Pure fn is_timeout(cx, error: Value) -> "bool" {
        category_of(&error) == "timeout"
    }

    /// Returns whether a caught error is a rate limit.
    ///
    /// ```harn
    /// println([is_rate_limited({category: "rate_limit"}), is_rate_limited(7)]) // -> [true, false]
    /// ```
    Pure fn is_rate_limited(cx, error: Value) -> "bool" {
        category_of(&error) == "rate_limit"
    }
}

fn failed(message: &Given, default: String) -> Error {
    let given = message.0.as_ref().filter(|m| !m.is_nil());
    Error::thrown(given.map_or_else(|| default.into(), printed))
}

/// Returns whether the program provides a failure message.
fn is_given(message: &Given) -> bool {
    message.0.as_ref().is_some_and(|m| !m.is_nil())
}

/// Maximum depth at which the first difference of nested data is searched.
const DEEP: usize = 64;

/// Describes the first difference of two collections; `None` for values without parts.
fn difference(expected: &Value, actual: &Value, depth: usize) -> Option<String> {
    let mut path = String::new();
    let (mut expected, mut actual) = (expected.clone(), actual.clone());
    for level in depth..DEEP {
        let step = match (expected.view(), actual.view()) {
            (View::List(a), View::List(b)) if a.len() == b.len() => a
                .iter()
                .zip(b.iter())
                .position(|(a, b)| a != b)
                .map(|at| (format!("[{at}]"), a[at].clone(), b[at].clone())),
            (View::List(a), View::List(b)) => {
                return Some(format!("{} items expected{}, got {}", a.len(), at(&path), b.len()));
            }
            (View::Dict(a), View::Dict(b)) => {
                if let Some((key, _)) = a.iter().find(|(key, _)| b.get(key).is_none()) {
                    return Some(format!("`{key}` is missing{}", at(&path)));
                }
                if let Some((key, _)) = b.iter().find(|(key, _)| a.get(key).is_none()) {
                    return Some(format!("`{key}` is not expected{}", at(&path)));
                }
                let entry = a.iter().find(|(key, value)| b.get(key).is_some_and(|other| other != *value));
                entry.and_then(|(key, value)| Some((format!(".{key}"), value.clone(), b.get(key)?.clone())))
            }
            (View::Str(a), View::Str(b)) => return texts_apart(a.as_str(), b.as_str(), &path),
            _ => None,
        };
        let Some((name, a, b)) = step else {
            let (a, b) = apart(&expected.to_string(), &actual.to_string());
            return (level > depth).then(|| format!("they differ at {path}: expected {a}, got {b}"));
        };
        path.push_str(&name);
        (expected, actual) = (a, b);
    }
    None
}

/// Strings with more characters are reported with the position of the difference.
const LONG_TEXT: usize = 40;

/// Describes the first difference of two strings: by line, or by character for long ones.
fn texts_apart(expected: &str, actual: &str, path: &str) -> Option<String> {
    let lines = || expected.lines().map(Some).chain([None]).zip(actual.lines().map(Some).chain([None]));
    let place = at(path);
    if expected.contains('\n') || actual.contains('\n') {
        let (line, (a, b)) = lines().enumerate().find(|(_, (a, b))| a != b)?;
        let quoted =
            |text: Option<&str>| text.map_or_else(|| "the end".to_owned(), |text| format!("`{text}`"));
        let (a, b) = (quoted(a), quoted(b));
        return Some(format!("they differ in line {}{place}: expected {a}, got {b}", line + 1));
    }
    let long = |text: &str| text.chars().count() > LONG_TEXT;
    if long(expected) || long(actual) {
        let same = expected.chars().zip(actual.chars()).take_while(|(a, b)| a == b).count();
        return Some(format!("they differ from character {same} on{place}"));
    }
    let (a, b) = apart(expected, actual);
    (!path.is_empty()).then(|| format!("they differ at {path}: expected {a}, got {b}"))
}

/// Returns ` at .a[0]`, or nothing for the value itself.
fn at(path: &str) -> String {
    if path.is_empty() { String::new() } else { format!(" at {path}") }
}

/// The categories that `throw_error` accepts.
const CATEGORIES: [&str; 16] = [
    "timeout",
    "auth",
    "rate_limit",
    "overloaded",
    "server_error",
    "transient_network",
    "schema_validation",
    "tool_error",
    "tool_rejected",
    "egress_blocked",
    "cancelled",
    "not_found",
    "circuit_open",
    "budget_exceeded",
    "in_doubt",
    "generic",
];

fn category_of(error: &Value) -> String {
    match error.view() {
        View::Dict(dict) => match dict.get_str("category") {
            Some(category) if !category.is_nil() => category.to_string(),
            _ => "generic".to_owned(),
        },
        View::Str(message) => classify(message).to_owned(),
        _ => "generic".to_owned(),
    }
}

/// Returns the properties of an error.
fn info(cx: &Cx, error: &Value) -> Dict {
    let mut info = Dict::new();
    let (category, kind) = match error.as_str() {
        Some(text) => {
            let text = text.as_str();
            if let Some(facts) = cx.state::<Failures>().of(text) {
                for (name, value) in facts.iter() {
                    info.insert(name.clone(), value.clone());
                }
            }
            let kind = match text.split_once(": ") {
                Some(("Runtime error", _)) => "runtime",
                Some(("Type error", _)) => "type",
                _ => "thrown",
            };
            (category_of(error), Value::str(kind))
        }
        None => (category_of(error), Value::str("thrown")),
    };
    let mut message = error.to_string();
    if let View::Dict(given) = error.view() {
        for name in ["kind", "path", "url", "status", "code"] {
            if let Some(value) = given.get_str(name).filter(|value| !value.is_nil()) {
                info.insert(name, value.clone());
            }
        }
        if let Some(text) = given.get_str("message").filter(|text| !text.is_nil()) {
            message = text.to_string();
        }
    }
    if info.get_str("category").is_none() {
        info.insert("category", category);
    }
    if info.get_str("kind").is_none() {
        info.insert("kind", kind);
    }
    info.insert("message", message);
    info
}

/// Classifies an error that is only a message.
pub(crate) fn classify(message: &str) -> &'static str {
    // `Error [<category>]: <text>` is the caught form of a categorized error.
    if let Some((category, _)) = message.strip_prefix("Error [").and_then(|rest| rest.split_once("]: "))
        && let Some(known) = CATEGORIES.iter().find(|known| **known == category)
    {
        return known;
    }
    if let Some(category) = message.split(|c: char| !c.is_alphanumeric()).find_map(status_category) {
        return category;
    }
    const EXACT: [(&str, &str); 10] = [
        ("Deadline exceeded", "timeout"),
        ("context deadline exceeded", "timeout"),
        ("overloaded_error", "overloaded"),
        ("api_error", "server_error"),
        ("insufficient_quota", "rate_limit"),
        ("billing_hard_limit_reached", "rate_limit"),
        ("invalid_api_key", "auth"),
        ("authentication_error", "auth"),
        ("not_found_error", "not_found"),
        ("model_not_found", "not_found"),
    ];
    if let Some((_, category)) = EXACT.iter().find(|(words, _)| message.contains(words)) {
        return category;
    }
    if message.contains("circuit_open") {
        return "circuit_open";
    }
    const NETWORK: [&str; 7] = [
        "connection reset",
        "connection refused",
        "connection closed",
        "broken pipe",
        "dns error",
        "stream error",
        "unexpected eof",
    ];
    let lower = message.to_lowercase();
    if NETWORK.iter().any(|words| lower.contains(words)) { "transient_network" } else { "generic" }
}

fn status_category(word: &str) -> Option<&'static str> {
    match word {
        "401" | "403" => Some("auth"),
        "404" | "410" => Some("not_found"),
        "408" | "504" | "522" | "524" => Some("timeout"),
        "429" => Some("rate_limit"),
        "503" | "529" => Some("overloaded"),
        "500" | "502" => Some("server_error"),
        _ => None,
    }
}

/// Maximum number of characters of a value in messages.
const SHOWN: usize = 200;

/// Formats a value for messages, truncated if it is long.
fn shown(value: &Value) -> String {
    harn_value::short(value, SHOWN)
}

/// Formats two strings for messages, truncated around their first difference.
fn apart(a: &str, b: &str) -> (String, String) {
    let same = a.chars().zip(b.chars()).take_while(|(x, y)| x == y).count();
    let long = a.chars().nth(SHOWN).is_some() || b.chars().nth(SHOWN).is_some();
    let from = if long && same > SHOWN / 2 { same - 40 } else { 0 };
    let part = |text: &str| {
        let mut chars = text.chars().skip(from);
        let head = if from > 0 { "..." } else { "" };
        let body: String = chars.by_ref().take(SHOWN).collect();
        let tail = if chars.next().is_some() { "..." } else { "" };
        format!("{head}{body}{tail}")
    };
    (part(a), part(b))
}

#[cfg(test)]
mod tests {
    use harn_value::Value;

    use super::{apart, difference};

    #[test]
    fn the_first_difference_of_nested_data() {
        let json = |text: &str| harn_value::json::parse(text).unwrap();
        let told = |a: &str, b: &str| difference(&json(a), &json(b), 0);
        assert_eq!(told("1", "2"), None);
        assert_eq!(told("[1, 2]", "[1, 3]").unwrap(), "they differ at [1]: expected 2, got 3");
        assert_eq!(told("[1]", "[1, 3]").unwrap(), "1 items expected, got 2");
        let nested = told(r#"{"a": [{"b": 1}]}"#, r#"{"a": [{"b": 2}]}"#).unwrap();
        assert_eq!(nested, "they differ at .a[0].b: expected 1, got 2");
        assert_eq!(told(r#"{"a": {"b": 1}}"#, r#"{"a": {}}"#).unwrap(), "`b` is missing at .a");
        assert_eq!(told("{}", r#"{"c": 1}"#).unwrap(), "`c` is not expected");
        let _: Value = json("null");
    }

    #[test]
    fn long_values_are_cut_around_their_difference() {
        assert_eq!(apart("1", "2"), ("1".into(), "2".into()));
        let (a, b) = apart(&("x".repeat(1000) + "A"), &("x".repeat(1000) + "B" + &"y".repeat(500)));
        assert_eq!(a, format!("...{}A", "x".repeat(40)));
        assert!(b.starts_with("...x") && b.contains('B') && b.ends_with("y...") && b.len() == 206, "{b}");
        assert_eq!(apart(&"z".repeat(300), "").0, "z".repeat(200) + "...");
    }
}
