//! Positions in a source. Harn uses byte offsets; the protocol uses lines and columns, in UTF-16 units.

use harn_syntax::Span;
use lsp_types::{Position, Range};

/// The offsets of the line starts.
#[derive(Clone, Debug)]
pub(crate) struct Lines {
    starts: Vec<u32>,
}

impl Lines {
    pub(crate) fn of(text: &str) -> Lines {
        let bytes = text.as_bytes();
        // A line ends with `\n`, `\r\n` or `\r`.
        let is_end =
            |at: &usize| bytes[*at] == b'\n' || bytes[*at] == b'\r' && bytes.get(at + 1) != Some(&b'\n');
        let ends = (0..bytes.len()).filter(is_end).map(|at| at as u32 + 1);
        Lines { starts: std::iter::once(0).chain(ends).collect() }
    }

    /// Returns the line of an offset, from 0.
    pub(crate) fn line(&self, offset: u32) -> u32 {
        self.starts.partition_point(|start| *start <= offset).saturating_sub(1) as u32
    }

    /// Returns the offset of a line start; the end of the source for later lines.
    pub(crate) fn start(&self, line: u32, text: &str) -> u32 {
        self.starts.get(line as usize).copied().unwrap_or(text.len() as u32)
    }

    /// Converts an offset to a position of the protocol.
    pub(crate) fn position(&self, text: &str, offset: u32) -> Position {
        let offset = floor(text, offset);
        let line = self.line(offset);
        let start = self.starts[line as usize] as usize;
        let units = text[start..offset as usize].chars().map(char::len_utf16).sum::<usize>();
        Position::new(line, units as u32)
    }

    /// Converts a position of the protocol to an offset. Columns after the end of a line mean its end.
    pub(crate) fn offset(&self, text: &str, position: Position) -> u32 {
        let start = self.start(position.line, text) as usize;
        let mut units = 0;
        for (at, c) in text[start..].char_indices() {
            // The end of a line is before its line terminator.
            if units >= position.character || matches!(c, '\n' | '\r') {
                return (start + at) as u32;
            }
            units += c.len_utf16() as u32;
        }
        text.len() as u32
    }

    pub(crate) fn range(&self, text: &str, span: Span) -> Range {
        Range::new(self.position(text, span.start), self.position(text, span.end.max(span.start)))
    }

    pub(crate) fn span(&self, text: &str, range: Range) -> Span {
        let (start, end) = (self.offset(text, range.start), self.offset(text, range.end));
        Span::new(start.min(end), end.max(start))
    }
}

/// Returns the last character boundary at or before an offset.
fn floor(text: &str, offset: u32) -> u32 {
    let mut at = (offset as usize).min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at as u32
}

/// Returns the start of the identifier that ends at an offset.
pub(crate) fn word_start(text: &str, offset: u32) -> u32 {
    let head = &text[..floor(text, offset) as usize];
    head.char_indices()
        .rev()
        .take_while(|(_, c)| c.is_alphanumeric() || *c == '_')
        .last()
        .map_or(head.len(), |(at, _)| at) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_units_of_utf_16() {
        let text = "a😀b\r\n\té\n";
        let lines = Lines::of(text);
        assert_eq!(lines.position(text, 5), Position::new(0, 3));
        assert_eq!(lines.offset(text, Position::new(0, 3)), 5);
        // In the middle of a surrogate pair: the offset after it.
        assert_eq!(lines.offset(text, Position::new(0, 2)), 5);
        assert_eq!(lines.offset(text, Position::new(0, 99)), 6);
        assert_eq!(lines.position(text, 11), Position::new(1, 2));
        assert_eq!(lines.offset(text, Position::new(1, 2)), 11);
        assert_eq!(lines.offset(text, Position::new(9, 0)), text.len() as u32);
    }

    #[test]
    fn lines_end_with_each_line_terminator_of_the_protocol() {
        let text = "// a\rb\r\r\nlet x = 1\n\r";
        let lines = Lines::of(text);
        assert_eq!(lines.position(text, 5), Position::new(1, 0));
        assert_eq!(lines.position(text, 9), Position::new(3, 0));
        assert_eq!(lines.offset(text, Position::new(3, 9)), 18);
        assert_eq!(lines.offset(text, Position::new(0, 9)), 4);
        assert_eq!(lines.offset(text, Position::new(1, 1)), 6);
        assert_eq!(lines.offset(text, Position::new(5, 0)), text.len() as u32);
    }

    #[test]
    fn every_offset_has_its_place() {
        let text = "let s = \"😀é\"\n\nx\r\ny\rz\r\r\n";
        let lines = Lines::of(text);
        for (at, c) in text.char_indices() {
            if c != '\n' || !text[..at].ends_with('\r') {
                assert_eq!(lines.offset(text, lines.position(text, at as u32)), at as u32, "{at}");
            }
        }
    }
}
