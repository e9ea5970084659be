//! Corrects a line with foreign syntax: replaces one form after the other until the line parses.
//!
//! A form is a line pattern with its replacement. It applies only if the parser failed inside the matched part, so
//! patterns may be broad. The first matching form is used, so special forms must precede general ones.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use crate::token::TokenKind;

use super::form::{Fix, Table};
use super::{forms, libraries, shell, special, statements};

/// The tables, in order of precedence.
const TABLES: [Table; 4] = [statements::FORMS, special::FORMS, shell::FORMS, forms::FORMS];

/// A compiled row of a table.
struct Form {
    pattern: Regex,
    fix: &'static Fix,
    why: &'static str,
}

/// The forms, compiled on the first error.
static COMPILED: LazyLock<Vec<Form>> = LazyLock::new(|| {
    let rows = TABLES.into_iter().flatten();
    rows.filter_map(|(pattern, fix, why)| Some(Form { pattern: Regex::new(pattern).ok()?, fix, why }))
        .collect()
});

/// Maximum number of forms replaced in one line.
const ROUNDS: usize = 8;

/// Returns the advice for `line`, where the parser failed at byte `at`.
pub(super) fn advice(line: &str, at: usize) -> Option<String> {
    let (why, fixed) = fix(line, at, |_| true)?;
    let Some(mut text) = fixed else { return Some(with_library(why.to_owned(), line)) };
    let mut whys = vec![why];
    let mut readable = false;
    for _ in 0..ROUNDS {
        let Some(at) = failure(&text) else {
            readable = true;
            break;
        };
        // Forms without a replacement are skipped: the remainder of a foreign line is not a shell command.
        let Some((why, fixed)) = fix(&text, at, |form| !matches!(form.fix, Fix::None)) else { break };
        if !whys.contains(&why) {
            whys.push(why);
        }
        match fixed {
            Some(fixed) if fixed != text => text = fixed,
            _ => break,
        }
    }
    let mut said = whys.join("; ");
    // Shows the corrected line only if it parses; otherwise it would mislead.
    if readable {
        said.push_str(&format!(": `{}`", libraries::in_our_words(text.trim())));
    }
    Some(with_library(said, &text))
}

/// Appends the advice for the first foreign library function in `line`.
fn with_library(mut said: String, line: &str) -> String {
    if let Some(more) = libraries::in_line(line).filter(|more| !said.contains(more)) {
        said.push_str("; ");
        said.push_str(more);
    }
    said
}

/// Returns the explanation of the first matching form at `at` among the `wanted` ones, and the line with the match
/// replaced if the form has a replacement.
fn fix(line: &str, at: usize, wanted: fn(&Form) -> bool) -> Option<(&'static str, Option<String>)> {
    let texts = texts(line);
    let bare = Bare::of(line, &texts, at);
    COMPILED.iter().filter(|form| wanted(form)).find_map(|form| {
        form.fix(line, at, &texts).or_else(|| {
            let bare = bare.as_ref()?;
            let (why, fixed) = form.fix(&bare.line, bare.at, &[])?;
            Some((why, fixed.map(|fixed| bare.filled(&fixed))))
        })
    })
}

impl Form {
    /// Returns the explanation, and the line with the match at `at` replaced. Ignores matches that begin or end
    /// inside one of the string literals `texts`.
    fn fix(&self, line: &str, at: usize, texts: &[Range<usize>]) -> Option<(&'static str, Option<String>)> {
        let found = self.pattern.captures_iter(line).find(|found| {
            found.get(0).is_some_and(|all| {
                let cut = |text: &Range<usize>| {
                    text.contains(&all.start()) || text.start < all.end() && all.end() <= text.end
                };
                all.start() <= at && at <= all.end() && !texts.iter().any(cut)
            })
        })?;
        let fixed = match self.fix {
            Fix::By(template) => {
                let mut text = String::new();
                found.expand(template, &mut text);
                text.replace("{  ->", "{ ->")
            }
            Fix::With(function) => function(&found),
            Fix::None => return Some((self.why, None)),
        };
        let all = found.get(0)?;
        Some((self.why, Some(format!("{}{fixed}{}", &line[..all.start()], &line[all.end()..]))))
    }
}

/// Returns the ranges of string contents in a line, without quotes.
fn texts(line: &str) -> Vec<Range<usize>> {
    let inside = |kind: TokenKind, text: &str| match kind {
        TokenKind::Str if text.starts_with("\"\"\"") => Some((3, 3)),
        TokenKind::Str => Some((1, 1)),
        TokenKind::RawStr => Some((2, 1)),
        TokenKind::StrText => Some((0, 0)),
        _ => None,
    };
    let tokens = crate::lexer::lex(line).tokens;
    let texts = tokens.iter().filter_map(|token| {
        let (begin, end) = inside(token.kind, token.span.slice(line))?;
        let (start, stop) = (token.span.start as usize + begin, (token.span.end as usize).checked_sub(end)?);
        (start < stop).then_some(start..stop)
    });
    texts.collect()
}

/// A line in which each string content is replaced by one letter, so that patterns do not match inside strings.
struct Bare {
    line: String,
    /// Byte offset at which the parser failed.
    at: usize,
    /// The letters and the string contents that they replace.
    texts: Vec<(char, String)>,
}

impl Bare {
    /// Replaces the string contents of a line; returns `None` if it has none, or if the parser failed inside one.
    fn of(line: &str, texts: &[Range<usize>], at: usize) -> Option<Bare> {
        let letters = || ('\u{ac00}'..='\u{d7a3}').take(texts.len());
        if texts.is_empty() || line.contains(|c| letters().any(|letter| letter == c)) {
            return None;
        }
        let mut bare = Bare { line: String::new(), at, texts: Vec::new() };
        let mut done = 0;
        for (letter, text) in letters().zip(texts) {
            if text.contains(&at) {
                return None;
            }
            bare.line.push_str(line.get(done..text.start)?);
            bare.line.push(letter);
            bare.texts.push((letter, line.get(text.clone())?.to_owned()));
            done = text.end;
            if done <= at {
                bare.at = bare.line.len() + (at - done);
            }
        }
        bare.line.push_str(line.get(done..)?);
        Some(bare)
    }

    /// Restores the string contents of a line.
    fn filled(&self, line: &str) -> String {
        let mut out = String::with_capacity(line.len());
        for c in line.chars() {
            match self.texts.iter().find(|(letter, _)| *letter == c) {
                Some((_, text)) => out.push_str(text),
                None => out.push(c),
            }
        }
        out
    }
}

/// Returns the byte offset at which a line fails to parse; `None` if it parses, possibly inside a block, or is only
/// incomplete.
fn failure(line: &str) -> Option<usize> {
    const BLOCKS: [(&str, &str); 6] = [
        ("", ""),
        ("if x {\n", "}"),
        ("try {\n", "}"),
        ("match x {\n", "->"),
        ("impl X {\n", "fn "),
        ("select {\n", "from "),
    ];
    let mut first = None;
    for (block, _) in BLOCKS.into_iter().filter(|(_, sign)| line.contains(sign)) {
        let text = format!("{block}{line}");
        let error = crate::parse(&text).errors.into_iter().next()?;
        let at = error.span.start as usize;
        if at >= text.trim_end().len() {
            return None;
        }
        first.get_or_insert(at.saturating_sub(block.len()));
    }
    first
}

/// Returns advice for a line that opens a bracket and has the closing one in a `//` comment, as in `f(7 // 2)`.
pub(super) fn hidden_closer(line: &str) -> Option<String> {
    static DIVISION: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"([\w)\]])\s*//\s*([\w(])").ok());
    let found = (*DIVISION).as_ref()?.captures(line)?;
    let all = found.get(0)?;
    let (left, right) = (found.get(1)?.as_str(), found.get(2)?.as_str());
    let fixed = format!("{}{left} / {right}{}", &line[..all.start()], &line[all.end()..]);
    Some(format!(
        "`//` starts a comment that hides the rest of the line; integer division is `/`: `{}`",
        fixed.trim()
    ))
}

#[cfg(test)]
mod tests {
    use super::{COMPILED, TABLES, advice};

    #[test]
    fn every_pattern_compiles() {
        assert_eq!(COMPILED.len(), TABLES.into_iter().map(<[_]>::len).sum::<usize>());
    }

    #[test]
    fn what_stands_in_a_text_is_no_code() {
        let told = |line: &str, sign: &str| advice(line, line.find(sign).unwrap());
        // The end of one string and the beginning of the next must not match as `b"..."`.
        assert!(!told(r#"f({"a b": [x], 1: 2}["1"])"#, "1:").unwrap().contains("prefix"));
        assert!(told(r#"f(b"a b")"#, "\"a").unwrap().contains("prefix"));
        // String contents are preserved and do not prevent a match of the form around them.
        assert!(
            told(r#"match x { 1 => "a: b, c", _ => "d" }"#, "=>")
                .unwrap()
                .ends_with(r#"1 -> { "a: b, c" } _ -> { "d" } }`"#)
        );
        let line = r#"if "a b, ${c.d("e f")} g" is not "h => i" { }"#;
        assert!(told(line, "is not").unwrap().ends_with(r#"`if "a b, ${c.d("e f")} g" != "h => i" { }`"#));
    }
}
