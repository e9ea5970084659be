//! The canonical form of numbers and doc comments.

use std::borrow::Cow;

/// Returns the shortest form of a float: with a digit after the point, or with an exponent if it is very large or
/// small. Groups of digits are preserved, and also an int that exceeds the range of int.
pub(crate) fn float(text: &str, value: f64) -> Cow<'_, str> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'_'));
    let is_float = text.contains('.') || !digits && !text.starts_with("0x");
    if !is_float || !value.is_finite() {
        return Cow::Borrowed(text);
    }
    if digits && text.contains('_') {
        let short = text.trim_end_matches(['0', '_']);
        return if short.ends_with('.') { Cow::Owned(format!("{short}0")) } else { Cow::Borrowed(short) };
    }
    let shortest = format!("{value:?}");
    if shortest == text { Cow::Borrowed(text) } else { Cow::Owned(shortest) }
}

/// A duration in the largest unit that it is a multiple of.
pub(crate) fn duration(milliseconds: i64) -> String {
    let factors = UNITS.iter().rev().scan(1, |product: &mut i64, (factor, unit)| {
        *product *= factor;
        Some((*product, *unit))
    });
    let fits = |(length, _): &(i64, &str)| milliseconds != 0 && milliseconds % length == 0;
    let (length, unit) = factors.filter(fits).last().unwrap_or((1, "ms"));
    format!("{}{unit}", milliseconds / length)
}

/// The units of durations, each with how many of the next smaller one it is.
const UNITS: [(i64, &str); 6] = [(7, "w"), (24, "d"), (60, "h"), (60, "m"), (1000, "s"), (1, "ms")];

/// Returns the lines of a comment `/** */` or of a run of `///`, without delimiters and without empty lines at both
/// ends; `None` if it must not be changed: it contains comment delimiters, or directives for tools.
pub(crate) fn documentation(text: &str) -> Option<Vec<&str>> {
    let mut lines = match text.strip_prefix("/**") {
        Some(rest) => block(rest.strip_suffix("*/")?)?,
        None => text.split('\n').map(|line| line.trim().strip_prefix("///")).collect::<Option<Vec<_>>>()?,
    };
    if lines.iter().any(|line| line.contains("/*") || line.contains("*/") || line.contains("harn-lint:")) {
        return None;
    }
    if text.starts_with("///") {
        let shift = indentation(&lines);
        lines.iter_mut().for_each(|line| *line = line.get(shift..).unwrap_or(""));
    }
    let mut lines: Vec<&str> = lines.into_iter().map(str::trim_end).collect();
    while lines.last().is_some_and(|line| line.is_empty()) {
        lines.pop();
    }
    let empty = lines.iter().take_while(|line| line.is_empty()).count();
    lines.drain(..empty);
    // Between the delimiters, surrounding whitespace has no meaning.
    if let [one] = &mut lines[..] {
        *one = one.trim();
    }
    Some(lines)
}

/// The lines between the signs of a block, without the stars that they all begin with.
fn block(inner: &str) -> Option<Vec<&str>> {
    if inner.contains("/*") || inner.contains("*/") {
        return None;
    }
    let (first, rest) = match inner.split_once('\n') {
        Some((first, rest)) => (first.trim(), rest),
        None => return Some(vec![inner.trim()]),
    };
    let mut lines: Vec<&str> = rest.split('\n').map(str::trim_end).collect();
    // The line before the closing delimiter.
    let last = lines.pop().filter(|last| !last.trim().is_empty());
    lines.extend(last);
    if lines.iter().all(|line| line.trim_start().starts_with('*')) {
        lines.iter_mut().for_each(|line| *line = &line.trim_start()[1..]);
    }
    let shift = indentation(&lines);
    lines.iter_mut().for_each(|line| *line = line.get(shift..).unwrap_or(""));
    lines.insert(0, first);
    Some(lines)
}

/// Returns the indentation that all non-empty lines share.
fn indentation(lines: &[&str]) -> usize {
    let blanks = |line: &&str| line.len() - line.trim_start_matches([' ', '\t']).len();
    lines.iter().filter(|line| !line.trim().is_empty()).map(blanks).min().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_short() {
        let short = |text: &str| float(text, text.replace('_', "").parse().expect("a float")).into_owned();
        for (text, form) in [
            ("1.50", "1.5"),
            ("2.0", "2.0"),
            ("2.000", "2.0"),
            ("1e5", "100000.0"),
            ("2.5E-3", "0.0025"),
            ("1e300", "1e300"),
            ("1.0e-9", "1e-9"),
            ("0.1000000000000000055", "0.1"),
            ("1_000.50", "1_000.5"),
            ("1_000.00_0", "1_000.0"),
            ("9223372036854775808", "9223372036854775808"),
            ("1e999", "1e999"),
            ("007.5", "7.5"),
        ] {
            assert_eq!(short(text), form, "{text}");
            assert_eq!(short(form), form, "{text}, once more");
        }
        assert_eq!(float("0xFFFFFFFFFFFFFFFFE", 2.9e20), "0xFFFFFFFFFFFFFFFFE");
    }

    #[test]
    fn durations_have_the_largest_unit() {
        for (milliseconds, form) in [
            (0, "0ms"),
            (1, "1ms"),
            (1500, "1500ms"),
            (1000, "1s"),
            (90_000, "90s"),
            (3_600_000, "1h"),
            (86_400_000, "1d"),
            (604_800_000, "1w"),
            (691_200_000, "8d"),
            (i64::MAX, "9223372036854775807ms"),
        ] {
            assert_eq!(duration(milliseconds), form);
        }
    }

    #[test]
    fn documentation_without_its_signs() {
        let lines = |text: &str| documentation(text).map(|lines| lines.join("\n"));
        assert_eq!(lines("/**Doc.*/").as_deref(), Some("Doc."));
        assert_eq!(lines("/** */").as_deref(), Some(""));
        assert_eq!(lines("/**\n * One.\n *\n *   two\n */").as_deref(), Some("One.\n\n  two"));
        assert_eq!(lines("/** One.\n    Two.\n      three\n*/").as_deref(), Some("One.\nTwo.\n  three"));
        assert_eq!(lines("/// One.\n  ///\n  ///  two").as_deref(), Some("One.\n\n two"));
        assert_eq!(lines("/** a /* b */ c */"), None);
        assert_eq!(lines("/// a */ b"), None);
    }
}
