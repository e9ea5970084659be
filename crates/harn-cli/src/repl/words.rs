//! Completion of names and members, and syntax colours, for the REPL's line editor.

use std::borrow::Cow;

use crate::keywords::KEYWORDS;

/// The commands of the REPL.
pub(crate) const COMMANDS: &[&str] =
    &[":all", ":doc", ":help", ":load", ":quit", ":reset", ":save", ":time", ":type"];

/// Returns the start of the word that ends at `at`, and whether it follows a dot.
pub(crate) fn word_before(line: &str, at: usize) -> (usize, bool) {
    let head = line.get(..at).unwrap_or(line);
    let start = head
        .char_indices()
        .rev()
        .take_while(|(_, c)| c.is_alphanumeric() || *c == '_')
        .last()
        .map_or(head.len(), |(i, _)| i);
    let member = head[..start].ends_with('.') && !head[..start].ends_with("..");
    (start, member)
}

/// Returns the expression before the dot at `at`, as far as it can be found without parsing: a chain of names, calls
/// and subscripts, or a string.
pub(crate) fn receiver(line: &str, at: usize) -> &str {
    let (start, member) = word_before(line, at);
    if !member {
        return "";
    }
    let head = line[..start - 1].trim_end_matches('?');
    let mut open = 0_usize;
    let mut from = head.len();
    let mut quoted = false;
    for (i, c) in head.char_indices().rev() {
        match c {
            '"' => quoted = !quoted,
            _ if quoted => {}
            ')' | ']' | '}' => open += 1,
            '(' | '[' | '{' if open > 0 => open -= 1,
            _ if open > 0 || c.is_alphanumeric() || c == '_' || c == '.' => {}
            _ => break,
        }
        from = i;
    }
    &head[from..]
}

/// Colours keywords, strings, numbers and comments of a line.
pub(crate) fn highlight(line: &str) -> Cow<'_, str> {
    let mut out = String::with_capacity(line.len() + 32);
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        let (take, code) = if rest.starts_with("//") {
            (rest.len(), "90")
        } else if first == '"' {
            (string_end(rest), "32")
        } else if first.is_ascii_digit() {
            (run(rest, |c| c.is_ascii_alphanumeric() || c == '_' || c == '.'), "36")
        } else if first.is_alphabetic() || first == '_' {
            let take = run(rest, |c| c.is_alphanumeric() || c == '_');
            (take, if KEYWORDS.iter().any(|k| k.name == &rest[..take]) { "35" } else { "" })
        } else {
            (first.len_utf8(), "")
        };
        let (piece, tail) = rest.split_at(take);
        if code.is_empty() {
            out.push_str(piece);
        } else {
            out.push_str(&format!("\x1b[{code}m{piece}\x1b[0m"));
        }
        rest = tail;
    }
    Cow::Owned(out)
}

fn run(text: &str, belongs: impl Fn(char) -> bool) -> usize {
    text.char_indices().find(|(_, c)| !belongs(*c)).map_or(text.len(), |(i, _)| i)
}

/// Returns the end of the string at the start of `text`.
fn string_end(text: &str) -> usize {
    let mut escaped = false;
    for (i, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return i + 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_before_the_cursor() {
        assert_eq!(word_before("let x = pri", 11), (8, false));
        assert_eq!(word_before("xs.ma", 5), (3, true));
        assert_eq!(word_before("[...x", 5), (4, false));
    }

    #[test]
    fn the_receiver_of_a_member() {
        assert_eq!(receiver("let y = xs.filter({ x -> x > 1 }).ma", 36), "xs.filter({ x -> x > 1 })");
        assert_eq!(receiver("f(a.", 4), "a");
        assert_eq!(receiver("\"a b\".", 6), "\"a b\"");
        assert_eq!(receiver("user?.na", 8), "user");
        assert_eq!(receiver("abc", 3), "");
    }

    #[test]
    fn colours_leave_the_text_alone() {
        let line = "let s = \"a \\\" b\" + 12.5 // é";
        let plain = highlight(line).replace("\x1b[0m", "");
        let plain = ["90", "32", "36", "35"].iter().fold(plain, |t, c| t.replace(&format!("\x1b[{c}m"), ""));
        assert_eq!(plain, line);
    }
}
