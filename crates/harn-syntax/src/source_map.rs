//! The files of a program: names, contents, lines and columns.

use std::sync::Arc;

use crate::span::{FileId, Span};

/// Returns the 1-based line and column of a byte offset; columns count Unicode scalar values.
///
/// Scans the source. For many lookups in one file use [`SourceFile::line_column`].
pub fn line_column(source: &str, offset: u32) -> (usize, usize) {
    let before = &source.as_bytes()[..(offset as usize).min(source.len())];
    let line_start = before.iter().rposition(|&b| b == b'\n').map_or(0, |at| at + 1);
    let line = before.iter().filter(|&&b| b == b'\n').count() + 1;
    (line, count_chars(&before[line_start..]) + 1)
}

/// Returns the number of characters in UTF-8 bytes cut at a character boundary.
fn count_chars(bytes: &[u8]) -> usize {
    bytes.iter().filter(|&&b| b & 0xC0 != 0x80).count()
}

/// All files of a run or check.
#[derive(Clone, Default, Debug)]
pub struct SourceMap {
    files: Vec<Arc<SourceFile>>,
}

impl SourceMap {
    /// Creates an empty map.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a file and returns its id. The name is shown in diagnostics unchanged.
    pub fn add(&mut self, name: impl Into<String>, text: impl Into<String>) -> FileId {
        let id = FileId(self.files.len() as u32);
        self.files.push(Arc::new(SourceFile::new(name, text)));
        id
    }

    /// Returns a file of this map; `None` if the id belongs to another map.
    pub fn get(&self, id: FileId) -> Option<&Arc<SourceFile>> {
        self.files.get(id.0 as usize)
    }

    /// Returns the id of the first file with this name.
    pub fn find(&self, name: &str) -> Option<FileId> {
        self.files.iter().position(|file| file.name == name).map(|at| FileId(at as u32))
    }

    /// Iterates over the files in insertion order.
    pub fn iter(&self) -> impl Iterator<Item = (FileId, &Arc<SourceFile>)> {
        self.files.iter().enumerate().map(|(at, file)| (FileId(at as u32), file))
    }
}

/// A source file with its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    name: String,
    text: String,
    /// The offset of the first byte of every line.
    lines: Vec<u32>,
    /// The number of characters before each block of [`BLOCK`] bytes.
    blocks: Vec<u32>,
}

/// Block size for counting columns of long lines: a line of a megabyte may have ten thousand diagnostics.
const BLOCK: usize = 4096;

impl SourceFile {
    /// Creates a source file. The name is shown in diagnostics unchanged.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        let text = text.into();
        let mut lines = vec![0];
        lines.extend(
            text.bytes().enumerate().filter(|&(_, b)| b == b'\n').map(|(at, _)| at.saturating_add(1) as u32),
        );
        let mut seen = 0;
        let blocks = text.as_bytes().chunks(BLOCK).map(|block| {
            let before = seen;
            seen += count_chars(block) as u32;
            before
        });
        let blocks = blocks.collect();
        Self { name: name.into(), text, lines, blocks }
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the content.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the 1-based line of an offset.
    pub fn line(&self, offset: u32) -> usize {
        self.lines.partition_point(|&start| start <= offset)
    }

    /// Returns the 1-based line and column of an offset; columns count Unicode scalar values.
    pub fn line_column(&self, offset: u32) -> (usize, usize) {
        let offset = offset.min(self.text.len() as u32);
        let line = self.line(offset);
        let (start, end) = (self.lines[line - 1] as usize, offset as usize);
        let column = match end - start {
            ..BLOCK => count_chars(&self.text.as_bytes()[start..end]),
            _ => self.chars_before(end) - self.chars_before(start),
        };
        (line, column + 1)
    }

    /// Returns the number of characters before an offset.
    fn chars_before(&self, offset: usize) -> usize {
        let block = (offset / BLOCK).min(self.blocks.len().saturating_sub(1));
        let before = self.blocks.get(block).map_or(0, |&chars| chars as usize);
        before + count_chars(&self.text.as_bytes()[block * BLOCK..offset])
    }

    /// Returns a line (1-based) without its line end; `None` if it does not exist.
    pub fn line_text(&self, line: usize) -> Option<&str> {
        let span = self.line_span(line)?;
        Some(span.slice(&self.text))
    }

    /// Returns the span of a line (1-based) without its line end.
    pub(crate) fn line_span(&self, line: usize) -> Option<Span> {
        let start = *self.lines.get(line.checked_sub(1)?)?;
        let end = self.lines.get(line).map_or(self.text.len() as u32, |next| next - 1);
        let cut = self.text.as_bytes()[start as usize..end as usize].ends_with(b"\r");
        Some(Span::new(start, end - u32::from(cut)))
    }

    /// Returns the offset of a 1-based line and column; columns past the end of a line are clamped to its end.
    pub fn offset(&self, line: usize, column: usize) -> Option<u32> {
        let span = self.line_span(line)?;
        let text = span.slice(&self.text);
        let inside = text.char_indices().nth(column.saturating_sub(1)).map_or(text.len(), |(at, _)| at);
        Some(span.start + inside as u32)
    }

    /// Returns the number of lines; a final line feed starts an additional empty line.
    pub fn line_count(&self) -> usize {
        self.lines.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_long_lines_are_counted_in_characters() {
        for line in ["x".repeat(3 * BLOCK), "é".repeat(2 * BLOCK), "aé🎉".repeat(2000)] {
            let text = format!("short é\n{line}\n{line}");
            let file = SourceFile::new("f", text.clone());
            for at in (0..=text.len()).filter(|at| at % 7 == 0 || at % BLOCK < 3 || *at == text.len()) {
                if text.is_char_boundary(at) {
                    assert_eq!(file.line_column(at as u32), line_column(&text, at as u32), "{at}");
                }
            }
        }
        let whole = SourceFile::new("f", "y".repeat(2 * BLOCK));
        assert_eq!(whole.line_column(2 * BLOCK as u32), (1, 2 * BLOCK + 1));
    }
}
