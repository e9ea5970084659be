//! Doc comments: comments directly above a declaration.

use crate::token::{Comment, CommentKind};

/// Returns the comment directly above byte `start` without comment markers: consecutive lines of `//` or `///`, or
/// a block comment that ends on the line above. Returns an empty string if there is no such comment.
pub fn comment_above(text: &str, start: usize) -> String {
    let mut lines: Vec<&str> = Vec::new();
    let mut end = text[..start].rfind('\n').map_or(0, |at| at + 1);
    while end > 0 {
        let head = &text[..end - 1];
        let begin = head.rfind('\n').map_or(0, |at| at + 1);
        let line = head[begin..].trim();
        let Some(comment) = line.strip_prefix("//") else { break };
        lines.push(comment.trim_start_matches('/').trim());
        end = begin;
    }
    if !lines.is_empty() {
        lines.reverse();
        return lines.join("\n");
    }
    let head = text[..end].trim_end();
    if !head.ends_with("*/") || text[head.len()..start].matches('\n').count() > 1 {
        return String::new();
    }
    let Some(open) = head.rfind("/*") else { return String::new() };
    let inner = head[open + 2..head.len() - 2].trim_start_matches('*');
    let strip = |line: &str| line.trim().trim_start_matches('*').trim().to_owned();
    inner.lines().map(strip).collect::<Vec<_>>().join("\n").trim().to_owned()
}

/// Returns the content of the doc comment (`/** ... */` or lines of `///`) directly before byte `start`; other
/// comments may come between. A doc comment that follows code on an earlier line belongs to that code and is
/// ignored.
pub(crate) fn before(text: &str, comments: &[Comment], start: u32) -> Option<String> {
    let mut at = comments.partition_point(|comment| comment.span.end <= start);
    let mut next = start;
    let mut lines = Vec::new();
    while let Some(comment) = at.checked_sub(1).and_then(|at| comments.get(at)) {
        let gap = text.get(comment.span.end as usize..next as usize)?;
        let breaks = gap.matches('\n').count();
        let line = text[..comment.span.start as usize].rsplit('\n').next().unwrap_or_default();
        let leads = line.trim().is_empty();
        let body = comment.span.slice(text);
        if !gap.trim().is_empty() || breaks > 1 || breaks == 1 && !leads {
            break;
        }
        match comment.kind {
            CommentKind::DocBlock if lines.is_empty() => {
                let inner = body.trim_start_matches("/**").trim_end_matches("*/");
                lines.extend(inner.lines().map(|line| line.trim().trim_start_matches('*').trim()).rev());
                break;
            }
            CommentKind::DocLine => lines.push(body.trim_start_matches('/').trim()),
            CommentKind::Line | CommentKind::Block => {}
            CommentKind::DocBlock => break,
        }
        (next, at) = (comment.span.start, at - 1);
    }
    lines.reverse();
    let text = lines.join("\n").trim().to_owned();
    (!text.is_empty()).then_some(text)
}

/// Splits a doc comment into its description and the parameter descriptions of its `@param name description` lines.
pub fn split_params(doc: &str) -> (String, Vec<(&str, &str)>) {
    fn param(line: &str) -> Option<(&str, &str)> {
        line.strip_prefix("@param")?.trim().split_once(char::is_whitespace)
    }
    let params =
        doc.lines().filter_map(param).map(|(name, text)| (name, text.trim_start_matches(['-', ' '])));
    let rest: Vec<&str> = doc.lines().filter(|line| param(line).is_none()).collect();
    (rest.join("\n").trim().to_owned(), params.collect())
}

/// Returns the `//!` lines at the top of a file, which describe the file.
pub fn head_comment(text: &str) -> String {
    let lines = text
        .strip_prefix('\u{FEFF}')
        .unwrap_or(text)
        .lines()
        .map(str::trim_start)
        .skip_while(|line| line.starts_with("#!"));
    let lines = lines.map_while(|line| line.strip_prefix("//!"));
    lines.map(str::trim).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_above_a_declaration() {
        let text = "// one\n// two\nfn f() { }\n\n/** three */\nfn g() { }\n// far\n\nfn h() { }";
        let at = |word: &str| text.find(word).expect("the word");
        assert_eq!(comment_above(text, at("fn f")), "one\ntwo");
        assert_eq!(comment_above(text, at("fn g")), "three");
        assert_eq!(comment_above(text, at("fn h")), "");
        assert_eq!(comment_above(text, 0), "");
    }

    #[test]
    fn the_head_of_a_file() {
        assert_eq!(head_comment("//! One.\n//! Two.\n\n//! Three.\nfn f() { }"), "One.\nTwo.");
        assert_eq!(head_comment("// One.\n"), "");
    }
}
