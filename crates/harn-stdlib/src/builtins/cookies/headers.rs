//! Parsing of the headers `Cookie` and `Set-Cookie`.

use harn_value::{Dict, Str, Value, steps};
use harn_vm::Result;

use super::date;
use super::wrong::{no_text, refused};

/// Returns the values of the headers named `header`, from a string, a list of strings, or a dict of headers with names
/// in any case.
///
/// # Errors
/// A type error for values that are not strings.
pub(super) fn texts(
    function: &'static str,
    param: &'static str,
    header: &str,
    given: &Value,
) -> Result<Vec<Str>> {
    let mut out = Vec::new();
    let mut add = |value: &Value| match (value.as_str(), value.as_list()) {
        (Some(text), _) => {
            out.push(text.clone());
            Ok(())
        }
        (None, Some(items)) => items.iter().try_for_each(|item| {
            out.push(item.as_str().cloned().ok_or_else(|| no_text(function, param, item))?);
            Ok(())
        }),
        _ if value.is_nil() => Ok(()),
        _ => Err(no_text(function, param, value)),
    };
    match given.to_dict() {
        Some(dict) => {
            for (_, value) in steps::each(dict.iter()).filter(|(name, _)| name.eq_ignore_ascii_case(header)) {
                add(value)?;
            }
        }
        None => add(given)?,
    }
    Ok(out)
}

/// The cookies of a request, in order, and the invalid segments.
pub(super) struct Cookies {
    pairs: Vec<(String, String)>,
    invalid: Vec<Value>,
}

impl Cookies {
    /// Parses the values of `Cookie` headers.
    pub(super) fn read(texts: &[Str]) -> Cookies {
        let mut cookies = Cookies { pairs: Vec::new(), invalid: Vec::new() };
        for text in texts {
            steps::bytes(text.len());
            for segment in text.split(';').map(str::trim).filter(|segment| !segment.is_empty()) {
                match pair(segment) {
                    Ok((name, value)) => cookies.pairs.push((name.to_owned(), value.to_owned())),
                    Err(reason) => {
                        let entry = [("segment", segment), ("reason", reason)].into_iter().collect();
                        cookies.invalid.push(Value::dict(entry));
                    }
                }
            }
        }
        cookies
    }

    /// Returns the first value of each name, in their order.
    pub(super) fn firsts(self) -> Vec<(String, String)> {
        let mut seen = rustc_hash::FxHashSet::default();
        self.pairs.into_iter().filter(|(name, _)| seen.insert(name.clone())).collect()
    }

    /// Returns the result of `cookie_parse`.
    pub(super) fn into_dict(self) -> Dict {
        let mut values: rustc_hash::FxHashMap<&str, Vec<Value>> = rustc_hash::FxHashMap::default();
        let mut pairs = Vec::with_capacity(self.pairs.len());
        for (name, value) in &self.pairs {
            values.entry(name).or_default().push(Value::str(value));
            pairs.push(Value::dict(
                [("name", name.as_str()), ("value", value.as_str())].into_iter().collect(),
            ));
        }
        let (mut cookies, mut duplicates) = (Dict::new(), Dict::new());
        for (name, _) in &self.pairs {
            // Names that have been removed are duplicates.
            let Some(all) = values.remove(name.as_str()) else { continue };
            cookies.insert(name.as_str(), all[0].clone());
            if all.len() > 1 {
                duplicates.insert(name.as_str(), Value::list(all));
            }
        }
        let mut dict = Dict::new();
        dict.insert("cookies", Value::dict(cookies));
        dict.insert("pairs", Value::list(pairs));
        dict.insert("duplicates", Value::dict(duplicates));
        dict.insert("invalid", Value::list(self.invalid));
        dict
    }
}

/// Applies a `Set-Cookie` header to the cookies of a browser; an invalid cookie is ignored.
pub(super) fn apply(text: &str, now_ms: i64, cookies: &mut Vec<(String, String)>) {
    steps::bytes(text.len());
    let mut parts = text.split(';').map(str::trim);
    let Some(Ok((name, value))) = parts.next().map(pair) else { return };
    let (mut max_age, mut expires) = (None, None);
    for (attribute, value) in parts.filter_map(|part| part.split_once('=')) {
        match attribute.trim_end().to_ascii_lowercase().as_str() {
            "max-age" => max_age = age(value.trim()).or(max_age),
            "expires" => expires = date::millis(value).or(expires),
            _ => {}
        }
    }
    // RFC 6265, 5.3: `Max-Age` takes precedence over `Expires`.
    let is_over = match max_age {
        Some(age) => age <= 0,
        None => expires.is_some_and(|at| at <= now_ms),
    };
    match cookies.iter().position(|(known, _)| known == name) {
        Some(at) if is_over => drop(cookies.remove(at)),
        Some(at) => value.clone_into(&mut cookies[at].1),
        None if is_over => {}
        None => cookies.push((name.to_owned(), value.to_owned())),
    }
}

/// Parses a number of seconds, saturated to the range of an int.
fn age(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    let beyond = if digits.len() < text.len() { i64::MIN } else { i64::MAX };
    is_number.then(|| text.parse().unwrap_or(beyond))
}

/// Parses `name=value`; the error is the reason why it is not a valid cookie.
fn pair(segment: &str) -> std::result::Result<(&str, &str), &'static str> {
    let (name, value) = segment.split_once('=').ok_or("missing '='")?;
    let (name, value) = (name.trim(), value.trim());
    let value = value.strip_prefix('"').and_then(|inner| inner.strip_suffix('"')).unwrap_or(value);
    match (is_name(name), is_value(value)) {
        (false, _) => Err("invalid name"),
        (_, false) => Err("invalid value"),
        _ => Ok((name, value)),
    }
}

/// Returns whether a name is a token, as cookie names must be.
pub(super) fn is_name(text: &str) -> bool {
    let is_token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    !text.is_empty() && text.bytes().all(is_token)
}

/// Returns whether a string is a valid cookie value.
pub(super) fn is_value(text: &str) -> bool {
    text.bytes().all(|b| matches!(b, b'!'..=b'~') && !b"\",;\\".contains(&b))
}

/// Checks the name and the value of a cookie.
pub(super) fn checked(name: &str, value: &str) -> Result<()> {
    if !is_name(name) {
        return Err(refused("cookie name is empty or contains invalid characters"));
    }
    if !is_value(value) {
        let text = "cookie value contains spaces, quotes, separators, or control characters; encode it first";
        return Err(refused(text));
    }
    Ok(())
}
