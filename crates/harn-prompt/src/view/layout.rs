//! Terminal layout: the width of a string, and line wrapping.

/// Returns the width of `text` in terminal columns: wide East Asian characters and emoji take two columns, combining
/// marks and control characters none.
pub(super) fn width(text: &str) -> usize {
    text.chars().map(char_width).sum()
}

fn char_width(c: char) -> usize {
    match u32::from(c) {
        0..=0x1f | 0x7f..=0x9f | 0x300..=0x36f | 0x200b..=0x200f | 0xfe00..=0xfe0f => 0,
        0x1100..=0x115f | 0x2e80..=0xa4cf | 0xac00..=0xd7a3 | 0xf900..=0xfaff | 0xfe30..=0xfe6f => 2,
        0xff00..=0xff60 | 0xffe0..=0xffe6 | 0x1f300..=0x1f64f | 0x1f900..=0x1f9ff | 0x20000..=0x3fffd => 2,
        _ => 1,
    }
}

/// Wraps `text` to lines of at most `columns` columns, at spaces where possible. Line breaks and indentation are
/// preserved; an empty string is one empty line.
pub(super) fn wrap(text: &str, columns: usize) -> Vec<String> {
    let columns = columns.max(1);
    text.split('\n').flat_map(|line| wrap_line(line.trim_end(), columns)).collect()
}

fn wrap_line(line: &str, columns: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut current = String::new();
    for word in line.split_inclusive(' ') {
        if width(&current) + width(word.trim_end()) > columns && !current.trim().is_empty() {
            lines.push(current.trim_end().to_owned());
            current.clear();
        }
        for c in word.chars() {
            if width(&current) + char_width(c) > columns && c != ' ' {
                lines.push(std::mem::take(&mut current).trim_end().to_owned());
            }
            current.push(printable(c));
        }
    }
    lines.push(current.trim_end().to_owned());
    lines
}

/// Replaces control characters, which could affect the terminal, with their pictures (`␛`), and a tab, which would
/// shift the margin, with a space.
fn printable(c: char) -> char {
    match u32::from(c) {
        0x09 => ' ',
        code @ 0..=0x1f => char::from_u32(0x2400 + code).unwrap_or(' '),
        0x7f => '\u{2421}',
        0x80..=0x9f => '\u{fffd}',
        _ => c,
    }
}

/// Pads `text` with spaces to `columns`.
pub(super) fn pad(text: &str, columns: usize) -> String {
    let missing = columns.saturating_sub(width(text));
    let mut padded = text.to_owned();
    padded.extend(std::iter::repeat_n(' ', missing));
    padded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_at_blanks() {
        assert_eq!(wrap("one two three", 8), ["one two", "three"]);
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("a\n\n  b c", 4), ["a", "", "  b", "c"]);
        assert_eq!(wrap("", 4), [""]);
    }

    #[test]
    fn long_words_break_inside() {
        assert_eq!(wrap("abcdefgh", 3), ["abc", "def", "gh"]);
        assert_eq!(wrap("x abcdefgh", 4), ["x", "abcd", "efgh"]);
        assert_eq!(wrap("abc", 0), ["a", "b", "c"]);
    }

    #[test]
    fn control_characters_are_shown_not_sent() {
        assert_eq!(wrap("a\tb\u{1b}[2J\u{7f}\u{9b}", 20), ["a b␛[2J␡\u{fffd}"]);
    }

    #[test]
    fn wide_characters_count_two() {
        assert_eq!(width("日本"), 4);
        assert_eq!(wrap("日本語", 4), ["日本", "語"]);
        assert_eq!(pad("日", 4), "日  ");
        assert_eq!(width("e\u{301}"), 1);
    }
}
