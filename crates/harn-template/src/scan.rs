//! Splits a template into text, directives and comments, and applies the trim markers.

use crate::error::{ErrorKind, Fail};
use crate::expr::string_length_at;
use crate::program::Site;

/// A piece of a template. Ranges are byte offsets in the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Piece {
    /// Literal text, already trimmed; may be empty.
    Text { start: usize, end: usize },
    /// The content of a raw block.
    Raw { start: usize, end: usize },
    /// A directive: its location, the body without surrounding whitespace, and everything between the braces except
    /// trim dashes.
    Directive { site: Site, body: (usize, usize), inner: (usize, usize) },
}

/// The scanner: an iterator over pieces.
pub(crate) struct Scanner<'s> {
    source: &'s str,
    at: usize,
    /// Whether the last directive ended in `-}}`, so that the following text is trimmed.
    trim_next: bool,
    /// A piece that has been read and is returned after the preceding text.
    pending: Option<Piece>,
}

impl<'s> Scanner<'s> {
    pub(crate) fn new(source: &'s str) -> Scanner<'s> {
        Scanner { source, at: 0, trim_next: false, pending: None }
    }

    /// Returns the next piece; `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<Piece>, (Site, Fail)> {
        if let Some(piece) = self.pending.take() {
            return Ok(Some(piece));
        }
        loop {
            if self.at >= self.source.len() {
                return Ok(None);
            }
            let mut start = self.at;
            let open = find_pair(self.source.as_bytes(), start, b'{');
            let mut end = open.unwrap_or(self.source.len());
            if std::mem::take(&mut self.trim_next) {
                start += right_trim(&self.source[start..end]);
            }
            if let Some(open) = open {
                if self.source.as_bytes().get(open + 2) == Some(&b'-') {
                    end -= left_trim(&self.source[start..end]);
                }
                self.pending = self.tag(open)?;
            } else {
                self.at = end;
            }
            if start < end {
                return Ok(Some(Piece::Text { start, end }));
            }
            if let Some(piece) = self.pending.take() {
                return Ok(Some(piece));
            }
        }
    }

    /// Reads the construct that starts with the `{{` at `open`, and moves past it. Returns `None` for a comment.
    fn tag(&mut self, open: usize) -> Result<Option<Piece>, (Site, Fail)> {
        let bytes = self.source.as_bytes();
        let inner = open + 2 + usize::from(bytes.get(open + 2) == Some(&b'-'));
        let fail = |kind| {
            // The error concerns the whole remaining source; it shows the line of the opening braces.
            let end = memchr::memchr(b'\n', &bytes[open..]).map_or(bytes.len(), |at| open + at);
            (site(open, end), Box::new(kind))
        };
        if bytes.get(inner) == Some(&b'#') {
            let close = memchr::memmem::find(&bytes[inner + 1..], b"#}}");
            let close = close.ok_or_else(|| fail(ErrorKind::UnterminatedComment))?;
            self.at = inner + 1 + close + 3;
            return Ok(None);
        }
        let close = directive_end(self.source, inner);
        if starts_raw(&bytes[inner..]) {
            let block = close.and_then(|close| {
                let (end, next) = raw_end(self.source, close + 2)?;
                Some((close + 2, end, next))
            });
            let (start, end, next) = block.ok_or_else(|| fail(ErrorKind::UnterminatedRaw))?;
            self.at = next;
            return Ok(Some(Piece::Raw { start, end }));
        }
        let close = close.ok_or_else(|| fail(ErrorKind::UnterminatedDirective))?;
        self.at = close + 2;
        self.trim_next = close > inner && bytes[close - 1] == b'-';
        let inner = (inner, close - usize::from(self.trim_next));
        let text = &self.source[inner.0..inner.1];
        let body_start = inner.1 - text.trim_start().len();
        let body = (body_start, body_start + text.trim().len());
        Ok(Some(Piece::Directive { site: site(open, close + 2), body, inner }))
    }
}

fn site(start: usize, end: usize) -> Site {
    Site { start: start as u32, end: end as u32 }
}

/// Returns the offset of the first pair of `brace` bytes at or after `at`.
fn find_pair(bytes: &[u8], mut at: usize, brace: u8) -> Option<usize> {
    loop {
        at += memchr::memchr(brace, &bytes[at..])?;
        if bytes.get(at + 1) == Some(&brace) {
            return Some(at);
        }
        at += 1;
    }
}

/// Returns the offset of the `}}` that closes a directive whose content starts at `from`: the first one outside
/// quotes.
fn directive_end(source: &str, from: usize) -> Option<usize> {
    let bytes = source.as_bytes();
    let mut at = from;
    loop {
        at += memchr::memchr3(b'}', b'"', b'\'', &bytes[at..])?;
        if bytes[at] != b'}' {
            at += string_length_at(source, at)?;
        } else if bytes.get(at + 1) == Some(&b'}') {
            return Some(at);
        } else {
            at += 1;
        }
    }
}

/// Returns whether the content of a directive begins with `raw`.
fn starts_raw(inside: &[u8]) -> bool {
    let blanks = inside.iter().take_while(|b| matches!(b, b' ' | b'\t')).count();
    inside[blanks..].strip_prefix(b"raw").is_some_and(|rest| {
        matches!(rest.first(), Some(b' ' | b'\t' | b'\n' | b'\r'))
            || rest.starts_with(b"}}")
            || rest.starts_with(b"-}}")
    })
}

/// Returns the range of the first `{{ endraw }}` at or after `from`, with any whitespace and dashes inside.
fn raw_end(source: &str, from: usize) -> Option<(usize, usize)> {
    let padding = |c: char| c == '-' || c.is_whitespace();
    let mut at = from;
    loop {
        let open = find_pair(source.as_bytes(), at, b'{')?;
        let close = source[open + 2..]
            .trim_start_matches(padding)
            .strip_prefix("endraw")
            .and_then(|rest| rest.trim_start_matches(padding).strip_prefix("}}"));
        if let Some(rest) = close {
            return Some((open, source.len() - rest.len()));
        }
        at = open + 1;
    }
}

/// Returns the number of bytes that `{{-` removes from the end of `text`: spaces and tabs, then at most one line
/// break.
fn left_trim(text: &str) -> usize {
    let kept = text.trim_end_matches([' ', '\t']);
    let kept = kept.strip_suffix("\r\n").or_else(|| kept.strip_suffix('\n')).unwrap_or(kept);
    text.len() - kept.len()
}

/// Returns the number of bytes that `-}}` removes from the start of `text`: spaces and tabs, then at most one line
/// break.
fn right_trim(text: &str) -> usize {
    let kept = text.trim_start_matches([' ', '\t']);
    let kept = kept.strip_prefix("\r\n").or_else(|| kept.strip_prefix(['\n', '\r'])).unwrap_or(kept);
    text.len() - kept.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Formats pieces: text unchanged, directives as `<body>`, raw blocks as `[text]`.
    fn show(source: &str) -> String {
        let mut scanner = Scanner::new(source);
        let mut shown = String::new();
        loop {
            match scanner.next() {
                Ok(Some(Piece::Text { start, end })) => shown.push_str(&source[start..end]),
                Ok(Some(Piece::Raw { start, end })) => shown.push_str(&format!("[{}]", &source[start..end])),
                Ok(Some(Piece::Directive { body, .. })) => {
                    shown.push_str(&format!("<{}>", &source[body.0..body.1]))
                }
                Ok(None) => return shown,
                Err((site, kind)) => return format!("{kind} at {}", site.start),
            }
        }
    }

    #[test]
    fn directives_end_at_the_first_braces_outside_quotes() {
        assert_eq!(show("a {{ x }} b"), "a <x> b");
        assert_eq!(show(r#"{{ x | default: "}}" }}!"#), r#"<x | default: "}}">!"#);
        assert_eq!(show(r#"{{ "\"}}" }}"#), r#"<"\"}}">"#);
        assert_eq!(show("{ {{x}} } }}"), "{ <x> } }}");
        assert_eq!(show("{{{x}}}"), "<{x>}");
        assert_eq!(show("a {{ x"), "unterminated directive at 2");
        assert_eq!(show("{{ don't }}"), "unterminated directive at 0");
    }

    #[test]
    fn trim_markers_take_blanks_and_one_line_break() {
        assert_eq!(show("a  \n {{-x-}}  \n\n b"), "a  <x>\n b");
        assert_eq!(show("a\n\n\n{{- 1 -}}\n\n\nb"), "a\n\n<1>\n\nb");
        assert_eq!(show("a\r\n{{- 1 -}}\r\n\tb"), "a<1>\tb");
        assert_eq!(show("a\r{{- 1 -}}\rb"), "a\r<1>b");
        assert_eq!(show("a {{-5}} {{ -5 }}"), "a<5> <-5>");
        assert_eq!(show("{{ x --}} b"), "<x ->b");
    }

    #[test]
    fn trimming_stops_at_other_directives_and_comments() {
        assert_eq!(show("a {{x}}{{- y }}"), "a <x><y>");
        assert_eq!(show("a {{# c #}}{{- y }}"), "a <y>");
        assert_eq!(show("{{ x -}}{{# c #}} b"), "<x> b");
        assert_eq!(show("{{ x -}} \n {{- y }}"), "<x><y>");
    }

    #[test]
    fn comments_vanish_and_only_trim_to_the_left() {
        assert_eq!(show("a {{# x }} #}} b"), "a  b");
        assert_eq!(show("a {{-# x -#}} b"), "a b");
        assert_eq!(show("a{{#}}b"), "unterminated comment at 1");
        assert_eq!(show("a{{#}}b#}}c"), "ac");
        assert_eq!(show("{{ # }}"), "<#>");
    }

    #[test]
    fn raw_blocks_are_copied() {
        assert_eq!(show("{{ raw }}{{ x }} \"{{ endraw }}!"), "[{{ x }} \"]!");
        assert_eq!(show("a {{- raw -}} b {{- endraw -}} c"), "a[ b ] c");
        assert_eq!(show("{{raw}}{{{endraw}}"), "[{]");
        assert_eq!(show("{{ raw"), "unterminated directive at 0");
        assert_eq!(show("{{ raw "), "unterminated `{{ raw }}` block at 0");
        assert_eq!(show("{{ raw }} {{ endraww }}"), "unterminated `{{ raw }}` block at 0");
        assert_eq!(show("{{\nraw }}"), "<raw>");
        assert_eq!(show("{{ rawx }}"), "<rawx>");
    }

    proptest! {
        #[test]
        fn scanning_never_panics(source in r"([{}#\-'\x22 \n\r\taé]|raw|endraw|\{\{|\}\}){0,40}") {
            show(&source);
        }

        #[test]
        fn trims_take_only_blanks_and_one_break(before in r"[ab \t\n\r]{0,12}", after in r"[ab \t\n\r]{0,12}") {
            let trimmed = show(&format!("{before}{{{{- x -}}}}{after}"));
            let (left, right) = trimmed.split_once("<x>").unwrap();
            let (cut_left, cut_right) = (&before[left.len()..], &after[..after.len() - right.len()]);
            prop_assert!(before.starts_with(left) && after.ends_with(right));
            for cut in [cut_left, cut_right] {
                prop_assert!(cut.chars().all(|c| " \t\n\r".contains(c)));
            }
            prop_assert!(cut_left.matches('\n').count() <= 1);
            prop_assert!(cut_right.replace("\r\n", "\n").chars().filter(|c| "\r\n".contains(*c)).count() <= 1);
        }
    }
}
