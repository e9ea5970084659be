//! The line as it should be: forms of other languages are replaced, one after the other, until the line can be read.
//!
//! A form is a pattern of a line and its replacement. It speaks only when the parser failed inside of what the pattern
//! found, so a pattern may be generous. The first one that fits is taken: special forms stand before general ones.

use std::sync::LazyLock;

use regex::Regex;

use super::form::{Mend, Table};
use super::{forms, libraries, shell, special, statements};

/// The tables, in the order in which they are asked.
const TABLES: [Table; 4] = [statements::FORMS, special::FORMS, shell::FORMS, forms::FORMS];

/// One form of another language.
struct Form {
    pattern: Regex,
    mend: &'static Mend,
    why: &'static str,
}

/// The forms, compiled when the first error asks.
static COMPILED: LazyLock<Vec<Form>> = LazyLock::new(|| {
    let rows = TABLES.into_iter().flatten();
    rows.filter_map(|(pattern, mend, why)| Some(Form { pattern: Regex::new(pattern).ok()?, mend, why }))
        .collect()
});

/// How many forms of one line are replaced before it is given up.
const ROUNDS: usize = 8;

/// Returns the advice for `line`, where the parser failed at byte `at`.
pub(super) fn advice(line: &str, at: usize) -> Option<String> {
    let (why, mended) = mend(line, at)?;
    let Some(mut text) = mended else { return Some(with_library(why.to_owned(), line)) };
    let mut whys = vec![why];
    let mut readable = false;
    for _ in 0..ROUNDS {
        let Some(at) = failure(&text) else {
            readable = true;
            break;
        };
        let Some((why, mended)) = mend(&text, at) else { break };
        if !whys.contains(&why) {
            whys.push(why);
        }
        match mended {
            Some(mended) if mended != text => text = mended,
            _ => break,
        }
    }
    let mut said = whys.join("; ");
    // A line that cannot be read either would lead astray.
    if readable {
        said.push_str(&format!(": `{}`", libraries::in_our_words(text.trim())));
    }
    Some(with_library(said, &text))
}

/// Adds what stands here for the first function in `line` that another language's library has.
fn with_library(mut said: String, line: &str) -> String {
    if let Some(more) = libraries::in_line(line).filter(|more| !said.contains(more)) {
        said.push_str("; ");
        said.push_str(more);
    }
    said
}

/// The first form that fits at `at`: why, and the line with it replaced, if that is how it is mended.
fn mend(line: &str, at: usize) -> Option<(&'static str, Option<String>)> {
    COMPILED.iter().find_map(|form| {
        let found = form
            .pattern
            .captures_iter(line)
            .find(|found| found.get(0).is_some_and(|all| all.start() <= at && at <= all.end()))?;
        let mended = match form.mend {
            Mend::By(template) => {
                let mut text = String::new();
                found.expand(template, &mut text);
                text.replace("{  ->", "{ ->")
            }
            Mend::With(function) => function(&found),
            Mend::None => return Some((form.why, None)),
        };
        let all = found.get(0)?;
        Some((form.why, Some(format!("{}{mended}{}", &line[..all.start()], &line[all.end()..]))))
    })
}

/// Where a line cannot be read; nothing when it can, or only goes on in the next one. A line may stand in a block.
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

/// Returns advice for a line that opens a bracket and hides its partner behind `//`, as in `f(7 // 2)`.
pub(super) fn hidden_closer(line: &str) -> Option<String> {
    static DIVISION: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"([\w)\]])\s*//\s*([\w(])").ok());
    let found = (*DIVISION).as_ref()?.captures(line)?;
    let all = found.get(0)?;
    let (left, right) = (found.get(1)?.as_str(), found.get(2)?.as_str());
    let mended = format!("{}{left} / {right}{}", &line[..all.start()], &line[all.end()..]);
    Some(format!(
        "`//` begins a comment, and what it hides is missing; ints divide without rest by `/`: `{}`",
        mended.trim()
    ))
}

#[cfg(test)]
mod tests {
    use super::{COMPILED, TABLES};

    #[test]
    fn every_pattern_compiles() {
        assert_eq!(COMPILED.len(), TABLES.into_iter().map(<[_]>::len).sum::<usize>());
    }
}
