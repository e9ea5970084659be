//! Regular expressions: linear time, without look-around and back-references.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::rc::Rc;

use harn_schema::{Pattern, search};
use harn_value::{Dict, Str, Value, steps};
use harn_vm::builtin::Text;
use harn_vm::{Error, Result, builtins};

use crate::args::room_for_bytes;

builtins! {
    /// Regular expressions.
    pub(crate) static REGEX: "regex";

    /// Lists all matches of a pattern; nil if the pattern does not match.
    ///
    /// `flags` is a string of `i` (ignore case), `m` (`^` and `$` match at lines), `s` (`.` matches a
    /// newline) and `x` (whitespace in the pattern is ignored).
    ///
    /// ```harn
    /// println(regex_match("[0-9]+", "a1 b22")) // -> [1, 22]
    /// println(regex_match("z", "abc")) // -> nil
    /// println(regex_match("ab", "xABx", "i")) // -> [AB]
    /// ```
    Pure fn regex_match(cx, pattern: Text as "string", s: Text, flags: Text as "string" = "") -> "list | nil" {
        let regex = compile(&pattern, &flags)?;
        let matches = steps::gather(search::find(&regex, &s).map(|found| Value::str(&s[found])));
        (!matches.is_empty()).then_some(matches)
    }

    /// Replaces every match of a pattern.
    ///
    /// In the replacement, `$1`, `${1}`, `$name` and `${name}` refer to groups, and `$$` is a dollar sign; a group that
    /// the pattern does not have is empty. In a Harn string `${..}` interpolates: write `$1` or a raw string.
    ///
    /// ```harn
    /// println(regex_replace("(\\w+)@(\\w+)", "$2 at $1", "me@home")) // -> home at me
    /// println(regex_replace("(\\d+) pixels", "$1px", "12 pixels")) // -> 12px
    /// ```
    Pure fn regex_replace(cx, pattern: Text as "string", replacement: Text as "string", s: Text) -> "string" {
        replace_all(&pattern, &replacement, &s)?
    }

    /// Replaces every match of a pattern; an alias of `regex_replace`.
    ///
    /// ```harn
    /// println(regex_replace_all("[aeiou]", "_", "banana")) // -> b_n_n_
    /// ```
    Pure fn regex_replace_all(cx, pattern: Text as "string", replacement: Text as "string", s: Text) -> "string" {
        replace_all(&pattern, &replacement, &s)?
    }

    /// Lists the matches of a pattern as dicts `{match, groups}`, with named groups under their names.
    ///
    /// A group without a match is nil in `groups`.
    ///
    /// ```harn
    /// let c = regex_captures("(?<key>\\w+)=(\\d+)?", "a=1 b=")
    /// println(c[0]) // -> {groups: [a, 1], key: a, match: a=1}
    /// println(c[1].groups) // -> [b, nil]
    /// ```
    Pure fn regex_captures(cx, pattern: Text as "string", s: Text) -> "list" {
        let regex = compile(&pattern, "")?;
        let keys = cx.state::<Keys>();
        let keys = keys.0.get_or_init(|| ["match", "groups"].map(|name| cx.vm().intern(name)));
        let mut groups = search::Groups::new(&regex, &s);
        steps::gather(std::iter::from_fn(|| groups.advance().then(|| capture(&regex, &s, &groups, keys))))
    }

    /// Splits a string at every match of a pattern; the string is the first argument.
    ///
    /// ```harn
    /// println(regex_split("a, b;c", "[,;] *")) // -> [a, b, c]
    /// ```
    Pure fn regex_split(cx, s: Text, pattern: Text as "string", flags: Text as "string" = "") -> "list" {
        let regex = compile(&pattern, &flags)?;
        steps::gather(search::split(&regex, &s).map(Value::str))
    }
}

/// The keys of a match dict. Programs usually look them up with the same string, which is then found by its address.
#[derive(Default)]
struct Keys(OnceCell<[Str; 2]>);

fn replace_all(pattern: &str, replacement: &str, s: &str) -> Result<String> {
    let regex = compile(pattern, "")?;
    let replacement = with_ends(replacement);
    let mut out = String::new();
    let mut end = 0;
    for found in search::captures(&regex, s) {
        let Some(whole) = found.get(0) else { continue };
        out.push_str(&s[end..whole.start()]);
        found.expand(&replacement, &mut out);
        end = whole.end();
        room_for_bytes(out.len())?;
    }
    out.push_str(&s[end..]);
    Ok(out)
}

/// Delimits group numbers in a replacement: `$1px` is group 1 and `px`. The library would look up a group named `1px`,
/// which cannot exist.
fn with_ends(replacement: &str) -> Cow<'_, str> {
    let mut out = String::new();
    let mut done = 0;
    let mut at = 0;
    while let Some(dollar) = replacement[at..].find('$').map(|found| at + found) {
        let rest = &replacement[dollar + 1..];
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let goes_on = rest[digits..].starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        at = dollar + 1 + digits;
        if rest.starts_with('$') {
            at = dollar + 2;
        } else if digits > 0 && goes_on {
            out.push_str(&replacement[done..dollar]);
            out.push_str(&format!("${{{}}}", &rest[..digits]));
            done = at;
        }
    }
    if done == 0 {
        return Cow::Borrowed(replacement);
    }
    out.push_str(&replacement[done..]);
    Cow::Owned(out)
}

fn capture(pattern: &Pattern, text: &str, found: &search::Groups<'_>, [whole, parts]: &[Str; 2]) -> Value {
    let group = |n: usize| found.get(n).map(|place| Value::str(&text[place]));
    let mut dict = Dict::with_capacity(2);
    for (n, name) in &pattern.names {
        if let Some(group) = group(*n) {
            dict.insert(name.as_str(), group);
        }
    }
    dict.insert(whole.clone(), group(0));
    let groups: Vec<Value> = (1..pattern.captures_len()).map(|n| group(n).into()).collect();
    dict.insert(parts.clone(), groups);
    dict.into()
}

fn compile(pattern: &str, flags: &str) -> Result<Rc<Pattern>> {
    harn_schema::compiled(pattern, flags).map_err(|reason| Error::thrown(invalid(pattern, reason)))
}

/// Returns the error of an invalid regular expression with these flags.
pub fn wrong_pattern(pattern: &str, flags: &str) -> Option<String> {
    harn_schema::compiled(pattern, flags).err().map(|reason| invalid(pattern, reason))
}

fn invalid(pattern: &str, reason: String) -> String {
    // The library prints the pattern on several lines; the last line is the reason.
    let Some((_, wrong)) = reason.rsplit_once("\nerror: ") else {
        return format!("Invalid regex: {}", harn_value::short(&Value::from(reason), 200));
    };
    let shown = harn_value::short(&Value::str(pattern), 60).replace('\n', "\\n");
    format!("Invalid regex: {}: `{shown}`", wrong.trim())
}
