//! Templates of `format` and their format specifications: `{}`, `{key}`, `{:.2}`, `{key:>8}`.

use harn_value::{Value, View};
use harn_vm::{Error, Result};

/// The maximum width and precision; wider text can be created with `pad_left`.
const MAX_WIDTH: usize = 10_000;

/// Replaces `{key}` and `{key:format}` by the values of a dict. A key with a `:` is first looked up as a whole, before
/// the `:` separates a format; placeholders without a value are kept.
///
/// # Errors
///
/// A format is unknown or does not fit the value.
pub(crate) fn keys<'a>(template: &str, lookup: impl Fn(&str) -> Option<&'a Value>) -> Result<String> {
    let mut out = String::new();
    let mut rest = template;
    while let Some(open) = rest.find('{') {
        let (before, tail) = rest.split_at(open);
        out.push_str(before);
        let Some(close) = tail.find('}') else {
            rest = tail;
            break;
        };
        let key = &tail[1..close];
        let formatted = || key.rsplit_once(':').and_then(|(key, format)| Some((lookup(key)?, format)));
        if let Some(value) = lookup(key) {
            harn_value::print(value, &mut out);
        } else if let Some((value, format)) = formatted() {
            out.push_str(&apply(value, format)?);
        } else {
            out.push_str(&tail[..=close]);
        }
        rest = &tail[close + 1..];
    }
    out.push_str(rest);
    Ok(out)
}

/// Replaces `{}` and `{:format}` by the values in order; placeholders without a value are kept.
///
/// # Errors
///
/// A format is unknown or does not fit the value.
pub(crate) fn places(template: &str, values: &[Value]) -> Result<String> {
    let mut out = String::new();
    let mut values = values.iter();
    let mut rest = template;
    while let Some(open) = rest.find('{') {
        let (before, tail) = rest.split_at(open);
        out.push_str(before);
        let close = tail.find('}').filter(|close| *close == 1 || tail[1..].starts_with(':'));
        let Some((close, value)) = close.and_then(|close| Some((close, values.next()?))) else {
            out.push('{');
            rest = &tail[1..];
            continue;
        };
        match tail[1..close].strip_prefix(':') {
            Some(format) => out.push_str(&apply(value, format)?),
            None => harn_value::print(value, &mut out),
        }
        rest = &tail[close + 1..];
    }
    out.push_str(rest);
    Ok(out)
}

/// A parsed format.
#[derive(Default)]
struct Format {
    fill: Option<char>,
    align: Option<char>,
    plus: bool,
    zeros: bool,
    width: usize,
    commas: bool,
    precision: Option<usize>,
    kind: Option<char>,
}

impl Format {
    /// Returns `None` if `text` is not a format.
    fn parse(text: &str) -> Option<Self> {
        let is_align = |c: &char| matches!(c, '<' | '>' | '^');
        let mut format = Self::default();
        let mut chars: &[char] = &text.chars().collect::<Vec<_>>();
        match chars {
            [fill, align, rest @ ..] if is_align(align) => {
                (format.fill, format.align, chars) = (Some(*fill), Some(*align), rest);
            }
            [align, rest @ ..] if is_align(align) => (format.align, chars) = (Some(*align), rest),
            _ => {}
        }
        let eat = |chars: &mut &[char], wanted: char| match chars {
            [first, rest @ ..] if *first == wanted => {
                *chars = rest;
                true
            }
            _ => false,
        };
        format.plus = eat(&mut chars, '+');
        format.zeros = eat(&mut chars, '0');
        format.width = number(&mut chars)?.unwrap_or(0);
        format.commas = eat(&mut chars, ',');
        if eat(&mut chars, '.') {
            format.precision = Some(number(&mut chars)??);
        }
        if let [kind, rest @ ..] = chars {
            format.kind = Some(*kind).filter(|kind| "dfe%xXobs".contains(*kind));
            format.kind?;
            chars = rest;
        }
        chars.is_empty().then_some(format)
    }
}

/// Parses an optional number; returns `None` if it is too large.
fn number(chars: &mut &[char]) -> Option<Option<usize>> {
    let digits = chars.iter().take_while(|c| c.is_ascii_digit()).count();
    let text: String = chars[..digits].iter().collect();
    *chars = &chars[digits..];
    if text.is_empty() {
        return Some(None);
    }
    text.parse().ok().filter(|n| *n <= MAX_WIDTH).map(Some)
}

/// Formats a value.
fn apply(value: &Value, text: &str) -> Result<String> {
    let Some(format) = Format::parse(text) else {
        return Err(Error::runtime(format!(
            "format: unknown format `{text}`; a format is [[fill]align][+][0][width][,][.precision][type], such as `.2`, \
             `>8`, `05`, `,` or `.1%`"
        )));
    };
    let misfit = |wanted: &str| {
        Err(Error::type_error(format!("format: `{text}` needs {wanted}, got {}", value.type_name())))
    };
    let body = match (format.kind, value.view()) {
        (None | Some('s'), View::Int(_) | View::Float(_)) if format.kind == Some('s') => value.to_string(),
        (None | Some('d'), View::Int(n)) if format.precision.is_none() => n.to_string(),
        (Some('x'), View::Int(n)) => radix(n, |n| format!("{n:x}")),
        (Some('X'), View::Int(n)) => radix(n, |n| format!("{n:X}")),
        (Some('o'), View::Int(n)) => radix(n, |n| format!("{n:o}")),
        (Some('b'), View::Int(n)) => radix(n, |n| format!("{n:b}")),
        (Some('d' | 'x' | 'X' | 'o' | 'b'), _) => return misfit("an int"),
        (None, View::Float(_)) if format.precision.is_none() => value.to_string(),
        (None | Some('f'), View::Int(_) | View::Float(_)) => {
            rounded(value.as_number().unwrap_or_default(), format.precision.unwrap_or(6))
        }
        (Some('e'), View::Int(_) | View::Float(_)) => {
            let precision = format.precision.unwrap_or(6);
            format!("{:.precision$e}", value.as_number().unwrap_or_default())
        }
        (Some('%'), View::Int(_) | View::Float(_)) => {
            let percent = value.as_number().unwrap_or_default() * 100.0;
            format!("{}%", rounded(percent, format.precision.unwrap_or(0)))
        }
        (Some('f' | 'e' | '%'), _) => return misfit("a number"),
        _ if format.plus || format.commas || format.zeros => return misfit("a number"),
        _ => {
            let text = value.to_string();
            match format.precision {
                Some(most) => text.chars().take(most).collect(),
                None => text,
            }
        }
    };
    let is_number = matches!(value.view(), View::Int(_) | View::Float(_)) && format.kind != Some('s');
    Ok(format.pad(format.sign_and_group(body, is_number), is_number))
}

/// Formats an int in another base, with the sign before the digits.
fn radix(n: i64, digits: impl Fn(u64) -> String) -> String {
    let sign = if n < 0 { "-" } else { "" };
    format!("{sign}{}", digits(n.unsigned_abs()))
}

impl Format {
    /// Adds the plus sign and the thousands separators.
    fn sign_and_group(&self, body: String, is_number: bool) -> String {
        if !is_number || !(self.plus || self.commas) {
            return body;
        }
        let (sign, digits) =
            body.strip_prefix('-').map_or((if self.plus { "+" } else { "" }, &*body), |d| ("-", d));
        let whole = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
        let mut out = sign.to_owned();
        for (at, c) in digits[..whole].chars().enumerate() {
            if self.commas && at > 0 && (whole - at) % 3 == 0 {
                out.push(',');
            }
            out.push(c);
        }
        out + &digits[whole..]
    }

    /// Pads to the width: numbers on the left by default, other values on the right.
    fn pad(&self, body: String, is_number: bool) -> String {
        let missing = self.width.saturating_sub(body.chars().count());
        if missing == 0 {
            return body;
        }
        if self.zeros && self.align.is_none() {
            let (sign, digits) = body.split_at(usize::from(body.starts_with(['-', '+'])));
            return format!("{sign}{}{digits}", "0".repeat(missing));
        }
        let fill = self.fill.unwrap_or(' ').to_string();
        let left = match self.align {
            Some('<') => 0,
            Some('^') => missing / 2,
            Some(_) => missing,
            None if is_number => missing,
            None => 0,
        };
        format!("{}{body}{}", fill.repeat(left), fill.repeat(missing - left))
    }
}

/// Formats a number with `digits` decimal places; halves are rounded away from zero, based on the decimal form of the
/// number.
pub(crate) fn rounded(n: f64, digits: usize) -> String {
    if !n.is_finite() {
        return format!("{n:.digits$}");
    }
    let text = format!("{n}");
    let (sign, text) = text.strip_prefix('-').map_or(("", text.as_str()), |rest| ("-", rest));
    let (whole, behind) = text.split_once('.').unwrap_or((text, ""));
    let mut kept: Vec<u8> =
        whole.bytes().chain(behind.bytes().chain(std::iter::repeat(b'0')).take(digits)).collect();
    if behind.as_bytes().get(digits).is_some_and(|digit| *digit >= b'5') {
        match kept.iter().rposition(|digit| *digit != b'9') {
            Some(at) => {
                kept[at] += 1;
                kept[at + 1..].fill(b'0');
            }
            None => {
                kept.fill(b'0');
                kept.insert(0, b'1');
            }
        }
    }
    let mut text: String = kept.into_iter().map(char::from).collect();
    if digits > 0 {
        text.insert(text.len() - digits, '.');
    }
    format!("{sign}{text}")
}
