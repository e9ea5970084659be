//! Comparison of a case's result with its expectation file, and the diff.

use regex::Regex;

/// The expected result of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Expectation {
    /// Exactly this output.
    Output(String),
    /// A failure with a message that matches one of these patterns.
    Error(Vec<String>),
    /// These lint findings. The program is not run.
    Findings(String),
    /// An invalid expectation file, with the reason. Only this case fails.
    Unclear(String),
}

/// The result of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// The printed output.
    pub(crate) output: String,
    /// The message of its failure.
    pub(crate) error: Option<String>,
}

impl Expectation {
    /// Parses an `.error` file.
    pub(crate) fn error(text: &str) -> Expectation {
        Expectation::Error(
            text.lines().map(str::trim_end).filter(|l| !l.is_empty()).map(str::to_owned).collect(),
        )
    }

    /// Returns `None` if the outcome is as expected, otherwise a description of the difference.
    pub(crate) fn mismatch(&self, path: &str, outcome: &Outcome) -> Option<String> {
        match (self, &outcome.error) {
            (Expectation::Unclear(why), _) => Some(why.clone()),
            (Expectation::Output(_) | Expectation::Findings(_), Some(error)) => {
                Some(format!("{path}: runtime error: {error}"))
            }
            (Expectation::Output(expected) | Expectation::Findings(expected), None) => {
                difference(expected, &outcome.output)
            }
            (Expectation::Error(patterns), None) => Some(format!(
                "{path}: expected error containing '{}', but succeeded",
                patterns.join("' or '")
            )),
            (Expectation::Error(patterns), Some(error)) => {
                let found = patterns.iter().any(|p| matches(p, error));
                (!found).then(|| {
                    format!("expected error containing: {}\nactual error: {error}", patterns.join("\n  or: "))
                })
            }
        }
    }
}

/// Whether an error message matches a pattern: a substring, or, with the prefix `re:`, a regular expression.
fn matches(pattern: &str, error: &str) -> bool {
    match pattern.strip_prefix("re:") {
        Some(regex) => match Regex::new(regex) {
            Ok(regex) => regex.is_match(error),
            Err(e) => {
                eprintln!("warning: invalid regular expression in an .error file: {e}");
                false
            }
        },
        None => error.contains(pattern),
    }
}

/// Returns a line without the parts that vary: the duration of a timer.
fn comparable(line: &str) -> &str {
    if !line.starts_with("[timer] ") || !line.ends_with("ms") {
        return line;
    }
    let number = |c: char| c.is_ascii_digit() || c == '.';
    line[..line.len() - 2].trim_end_matches(number)
}

/// Returns the lines of a string, without trailing whitespace.
fn lines(text: &str) -> Vec<&str> {
    text.trim_end().lines().collect()
}

/// Returns a line diff, or `None` if both strings are equal.
pub(crate) fn difference(expected: &str, actual: &str) -> Option<String> {
    let (expected, actual) = (lines(expected), lines(actual));
    let same = |a: &str, b: &str| comparable(a) == comparable(b);
    if expected.len() == actual.len() && expected.iter().zip(&actual).all(|(a, b)| same(a, b)) {
        return None;
    }
    // The common prefix and suffix are skipped to keep the table below small.
    let front = expected.iter().zip(&actual).take_while(|(a, b)| same(a, b)).count();
    let (e, a) = (&expected[front..], &actual[front..]);
    let back = e.iter().rev().zip(a.iter().rev()).take_while(|(a, b)| same(a, b)).count();
    let (e, a) = (&e[..e.len() - back], &a[..a.len() - back]);
    let mut out: Vec<String> = expected[..front].iter().map(|line| format!("  {line}")).collect();
    if e.len() * a.len() > 4_000_000 {
        out.extend(e.iter().map(|line| format!("- {line}")));
        out.extend(a.iter().map(|line| format!("+ {line}")));
    } else {
        middle(e, a, &mut out);
    }
    out.extend(expected[expected.len() - back..].iter().map(|line| format!("  {line}")));
    Some(out.join("\n"))
}

/// Appends a diff based on the longest common subsequence of two lists of lines.
fn middle(e: &[&str], a: &[&str], out: &mut Vec<String>) {
    let wide = a.len() + 1;
    let mut common = vec![0_u32; (e.len() + 1) * wide];
    for i in (0..e.len()).rev() {
        for j in (0..a.len()).rev() {
            common[i * wide + j] = if comparable(e[i]) == comparable(a[j]) {
                common[(i + 1) * wide + j + 1] + 1
            } else {
                common[(i + 1) * wide + j].max(common[i * wide + j + 1])
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    while i < e.len() || j < a.len() {
        if i < e.len() && j < a.len() && comparable(e[i]) == comparable(a[j]) {
            out.push(format!("  {}", e[i]));
            (i, j) = (i + 1, j + 1);
        } else if j == a.len() || (i < e.len() && common[(i + 1) * wide + j] >= common[i * wide + j + 1]) {
            out.push(format!("- {}", e[i]));
            i += 1;
        } else {
            out.push(format!("+ {}", a[j]));
            j += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(output: &str) -> Outcome {
        Outcome { output: output.to_owned(), error: None }
    }

    fn failed(error: &str) -> Outcome {
        Outcome { output: String::new(), error: Some(error.to_owned()) }
    }

    #[test]
    fn white_space_at_the_end_and_timer_numbers_do_not_count() {
        let expected = Expectation::Output("a\n[timer] load: 12ms\n".to_owned());
        assert_eq!(expected.mismatch("p", &printed("a\n[timer] load: 7ms\n\n  ")), None);
        assert!(expected.mismatch("p", &printed("a\n[timer] save: 7ms")).is_some());
    }

    #[test]
    fn a_difference_is_shown_line_by_line() {
        let expected = Expectation::Output("one\ntwo\nthree\nfour\n".to_owned());
        let diff = expected.mismatch("p", &printed("one\n2\nthree\nfour\n")).unwrap();
        assert_eq!(diff, "  one\n- two\n+ 2\n  three\n  four");
    }

    #[test]
    fn an_error_matches_by_part_alternative_or_expression() {
        let text = "Type error: Cannot add int and nil (line 2)";
        assert_eq!(Expectation::error("Cannot add int and nil").mismatch("p", &failed(text)), None);
        assert_eq!(Expectation::error("no\nCannot add\n").mismatch("p", &failed(text)), None);
        assert_eq!(Expectation::error(r"re:add \w+ and nil").mismatch("p", &failed(text)), None);
        assert!(
            Expectation::error("Cannot subtract")
                .mismatch("p", &failed(text))
                .unwrap()
                .contains("actual error")
        );
        let succeeded = Expectation::error("x").mismatch("a.harn", &printed("")).unwrap();
        assert_eq!(succeeded, "a.harn: expected error containing 'x', but succeeded");
    }

    #[test]
    fn an_error_where_output_is_expected_is_shown() {
        let text = Expectation::Output(String::new()).mismatch("a.harn", &failed("Thrown: x")).unwrap();
        assert_eq!(text, "a.harn: runtime error: Thrown: x");
    }
}
