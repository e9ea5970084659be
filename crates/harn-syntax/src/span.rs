//! Locations in source text: byte ranges and file ids.

/// A half-open range of byte offsets in a source file.
///
/// Both ends are on character boundaries. A span does not identify its file; where several files are involved, it
/// is accompanied by a [`FileId`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Span {
    /// Offset of the first byte.
    pub start: u32,
    /// Offset after the last byte.
    pub end: u32,
}

impl Span {
    /// Creates the span `start..end`.
    pub const fn new(start: u32, end: u32) -> Self {
        Self { start, end }
    }

    /// Creates an empty span at `offset`.
    pub const fn at(offset: u32) -> Self {
        Self { start: offset, end: offset }
    }

    /// Returns the smallest span that covers both.
    ///
    /// ```text
    /// self         ├──┤
    /// other                ├────┤
    /// result       ├────────────┤
    /// ```
    pub fn to(self, other: Span) -> Self {
        Self { start: self.start.min(other.start), end: self.end.max(other.end) }
    }

    /// Returns the length in bytes.
    pub const fn len(self) -> u32 {
        self.end - self.start
    }

    /// Returns whether the span is empty.
    pub const fn is_empty(self) -> bool {
        self.start == self.end
    }

    /// Returns whether the span contains `offset`.
    pub const fn contains(self, offset: u32) -> bool {
        self.start <= offset && offset < self.end
    }

    /// Returns the span as a range for slicing the source.
    pub const fn range(self) -> std::ops::Range<usize> {
        self.start as usize..self.end as usize
    }

    /// Returns the covered part of `source`; empty if the span is out of bounds.
    pub fn slice(self, source: &str) -> &str {
        source.get(self.range()).unwrap_or("")
    }
}

impl std::fmt::Debug for Span {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}..{}", self.start, self.end)
    }
}

/// The id of a file in a [`SourceMap`](crate::SourceMap).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct FileId(pub u32);
