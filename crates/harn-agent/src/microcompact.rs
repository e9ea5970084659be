//! Truncation of long tool output: retains the beginning, the end, and lines between them that look like diagnostics.

/// Smaller limits are ignored.
const SMALLEST_LIMIT: usize = 200;
/// Maximum number of diagnostic lines retained from the middle.
const MAX_DIAGNOSTICS: usize = 32;

/// Shortens `text` to about `max_chars` characters, at line ends where possible.
pub fn microcompact(text: &str, max_chars: usize) -> String {
    let length = text.chars().count();
    if max_chars < SMALLEST_LIMIT || length <= max_chars {
        return text.to_owned();
    }
    let half = max_chars / 2;
    let head = head(text, half);
    let tail = tail(&text[head.len()..], half);
    let middle = &text[head.len()..text.len() - tail.len()];
    let snipped = middle.chars().count();
    let diagnostics: Vec<&str> =
        middle.lines().filter(|line| is_diagnostic(line)).take(MAX_DIAGNOSTICS).map(str::trim_end).collect();
    let (head, tail) = (head.trim_end_matches('\n'), tail.trim_start_matches('\n'));
    if diagnostics.is_empty() {
        return format!("{head}\n[... {snipped} characters snipped ...]\n{tail}");
    }
    let lines = diagnostics.join("\n");
    format!("{head}\n[diagnostic lines preserved]\n{lines}\n[... output compacted ...]\n{tail}")
}

/// Returns the first whole lines within `budget` characters, or part of the first line if it is longer.
fn head(text: &str, budget: usize) -> &str {
    let cut = text.char_indices().nth(budget).map_or(text.len(), |(at, _)| at);
    match text[..cut].rfind('\n') {
        Some(end) => &text[..=end],
        None => &text[..cut],
    }
}

/// Returns the last whole lines within `budget` characters, or part of the last line if it is longer.
fn tail(text: &str, budget: usize) -> &str {
    let count = text.chars().count();
    let cut = text.char_indices().nth(count.saturating_sub(budget)).map_or(text.len(), |(at, _)| at);
    match text[cut..].find('\n') {
        Some(end) if cut + end + 1 < text.len() => &text[cut + end + 1..],
        _ => &text[cut..],
    }
}

fn is_diagnostic(line: &str) -> bool {
    let lower = line.to_lowercase();
    let marked = ["error:", "warning:", "note:", "error[", "panicked at", "failed", "failure", "fail:"];
    if marked.iter().any(|word| lower.contains(word)) {
        return true;
    }
    // `file:LINE` alone is not a diagnostic; the line must also contain a word that indicates a problem.
    let has_place = line.split_whitespace().any(|word| {
        let mut parts = word.split(':');
        parts.next().is_some_and(|file| file.contains('.'))
            && parts.next().is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
    });
    has_place
        && ["error", "exception", "expected", "undefined", "cannot"].iter().any(|word| lower.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_text_and_tiny_limits_change_nothing() {
        assert_eq!(microcompact("abc", 200), "abc");
        let long = "x".repeat(500);
        assert_eq!(microcompact(&long, 199), long);
    }

    #[test]
    fn whole_lines_of_both_ends_stay() {
        let text: String = (0..100).map(|n| format!("line number {n:03}\n")).collect();
        let short = microcompact(&text, 200);
        assert!(short.starts_with("line number 000\n") && short.ends_with("line number 099\n"), "{short}");
        assert!(short.contains("\n[... ") && short.contains(" characters snipped ...]\n"), "{short}");
        assert!(short.chars().count() < 260);
    }

    #[test]
    fn diagnostics_of_the_middle_stay() {
        let mut text: String = (0..100).map(|n| format!("line {n}\n")).collect();
        text.insert_str(text.len() / 2, "\nsrc/a.rs:12: error: boom\n");
        let short = microcompact(&text, 200);
        assert!(
            short.contains(
                "[diagnostic lines preserved]\nsrc/a.rs:12: error: boom\n[... output compacted ...]"
            )
        );
    }

    #[test]
    fn one_long_line_is_cut_between_characters() {
        let text = "ä".repeat(1000);
        let short = microcompact(&text, 300);
        assert!(short.starts_with("ä") && short.contains("[... 700 characters snipped ...]"), "{short}");
    }
}
