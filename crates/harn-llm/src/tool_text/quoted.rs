//! Quoted spans of a reply: code fences, and the runtime's own marks for results, feedback and reminders.

use harn_prompt::untrusted::is_end_mark;

/// A quoted span of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Quote<'a> {
    /// Its description for the model.
    pub(super) kind: &'static str,
    /// The quoted content.
    pub(super) body: &'a str,
    /// Its length, including both marks.
    pub(super) len: usize,
    /// Whether it has a closing mark.
    pub(super) closed: bool,
}

/// Marks of the runtime: the tag name, and its description for the model.
const SPANS: [(&str, &str); 3] = [
    ("tool_result", "a <tool_result> span"),
    ("runtime_feedback", "a <runtime_feedback> span"),
    ("system-reminder", "a <system-reminder> span"),
];

/// Returns the quotation that starts exactly at `at`. `fresh` says that a block of the reply ends immediately before
/// it. An unclosed quotation extends to the end of the input: it is unclear where the quotation ends, and running a
/// quoted call would be the worse error.
pub(super) fn quote_at(text: &str, at: usize, fresh: bool) -> Option<Quote<'_>> {
    let rest = &text[at..];
    match rest.as_bytes().first()? {
        b'<' => span_at(rest),
        // Checks the position first: counting the marks of a long run at each of its characters would take quadratic
        // time.
        b'`' | b'~' if fresh || begins_line(text, at) => fence_at(rest),
        b'[' if fresh || begins_line(text, at) => result_at(rest),
        _ => None,
    }
}

/// Returns the content of the input if it consists of one code fence.
pub(super) fn whole_fence(text: &str) -> Option<&str> {
    let trimmed = text.trim();
    let fence = fence_at(trimmed)?;
    (fence.closed && fence.len == trimmed.len()).then_some(fence.body)
}

/// Returns whether only whitespace precedes `at` on its line.
fn begins_line(text: &str, at: usize) -> bool {
    let before = text[..at].trim_end_matches([' ', '\t']);
    before.is_empty() || before.ends_with('\n')
}

/// Parses a fence of three or more backticks or tildes.
fn fence_at(rest: &str) -> Option<Quote<'_>> {
    let mark = rest.chars().next()?;
    let count = rest.len() - rest.trim_start_matches(mark).len();
    if count < 3 || !matches!(mark, '`' | '~') {
        return None;
    }
    let line_end = rest.find('\n')?;
    // With another backtick on the same line, it is inline code.
    if mark == '`' && rest[count..line_end].contains('`') {
        return None;
    }
    let start = line_end + 1;
    let mut line_start = start;
    while line_start < rest.len() {
        let end = rest[line_start..].find('\n').map_or(rest.len(), |n| line_start + n);
        let line = rest[line_start..end].trim();
        if line.len() >= count && line.chars().all(|c| c == mark) {
            let body = rest[start..line_start].strip_suffix('\n').unwrap_or(&rest[start..line_start]);
            return Some(Quote { kind: "a code fence", body, len: end, closed: true });
        }
        line_start = end + 1;
    }
    Some(Quote { kind: "a code fence", body: &rest[start..], len: rest.len(), closed: false })
}

fn span_at(rest: &str) -> Option<Quote<'_>> {
    let (name, kind) = SPANS.into_iter().find(|(name, _)| {
        let tail = rest[1..].strip_prefix(name);
        tail.is_some_and(|tail| tail.starts_with(|c: char| c == '>' || c.is_whitespace()))
    })?;
    let close = format!("</{name}>");
    match rest.find(&close) {
        Some(end) => Some(Quote { kind, body: &rest[..end], len: end + close.len(), closed: true }),
        None => Some(Quote { kind, body: rest, len: rest.len(), closed: false }),
    }
}

/// Parses the frame of one result: `[result of NAME]` on its own line, up to the line `[end of …]`.
fn result_at(rest: &str) -> Option<Quote<'_>> {
    if !rest.starts_with("[result of ") {
        return None;
    }
    let line_end = rest.find('\n').unwrap_or(rest.len());
    if !rest[..line_end].trim_end().ends_with(']') {
        return None;
    }
    let kind = "a quoted result";
    // Only a line that `quote` would escape ends the frame; a line that merely starts like it is part of the result.
    let mut lines =
        memchr::memmem::find_iter(&rest.as_bytes()[line_end..], b"\n[end of ").map(|n| line_end + n);
    let Some(end) = lines.find(|at| is_end_mark(&rest[at + 1..])) else {
        return Some(Quote { kind, body: rest, len: rest.len(), closed: false });
    };
    let len = rest[end + 1..].find('\n').map_or(rest.len(), |n| end + 1 + n);
    Some(Quote { kind, body: &rest[..end], len, closed: true })
}
