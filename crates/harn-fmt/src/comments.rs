//! The comments of a source, handed out in order to the pieces that they stand at.

use harn_syntax::token::{Comment, CommentKind};

use crate::doc::Doc;

/// The comments that have not been printed yet.
pub(crate) struct Comments<'s> {
    pub(crate) source: &'s str,
    all: Vec<Comment>,
    next: usize,
    /// The width of lines of dashes.
    separator: usize,
}

impl<'s> Comments<'s> {
    pub(crate) fn new(source: &'s str, all: Vec<Comment>, separator: usize) -> Self {
        Comments { source, all, next: 0, separator }
    }

    /// Where the last one that was handed out ends.
    pub(crate) fn last_end(&self) -> u32 {
        self.next.checked_sub(1).map_or(0, |last| self.all[last].span.end)
    }

    /// Whether there is one between two places.
    pub(crate) fn any_between(&self, start: u32, end: u32) -> bool {
        let at = self.all.partition_point(|comment| comment.span.start < start);
        self.all.get(at).is_some_and(|comment| comment.span.start < end)
    }

    /// The next one if it stands before `end`.
    pub(crate) fn take_before(&mut self, end: u32) -> Option<Comment> {
        let comment = *self.all.get(self.next)?;
        if comment.span.start >= end {
            return None;
        }
        self.next += 1;
        Some(comment)
    }

    /// Leaves out those that end before `end`: they are part of a text that is printed as it is.
    pub(crate) fn skip_to(&mut self, end: u32) {
        while self.all.get(self.next).is_some_and(|comment| comment.span.start < end) {
            self.next += 1;
        }
    }

    /// Those before a place within a line: they go to its end, but for short ones that can stay.
    pub(crate) fn inline(&mut self, end: u32) -> Doc<'s> {
        let mut parts = Vec::new();
        while let Some(comment) = self.take_before(end) {
            let text = self.text(comment);
            if matches!(comment.kind, CommentKind::Block | CommentKind::DocBlock) && !text.contains('\n') {
                parts.push(Doc::text(text));
                parts.push(Doc::text(" "));
            } else {
                parts.push(Doc::suffix(text));
            }
        }
        if parts.is_empty() { Doc::nil() } else { Doc::concat(parts) }
    }

    /// Those behind `end` that end its line.
    pub(crate) fn trailing(&mut self, end: u32) -> Doc<'s> {
        let mut parts = Vec::new();
        let mut from = end;
        while let Some(&comment) = self.all.get(self.next) {
            let gap = self.source.get(from as usize..comment.span.start as usize).unwrap_or("\n");
            let rest = self.source[comment.span.end as usize..].split('\n').next().unwrap_or("");
            let ends_line = rest.trim_start_matches([' ', '\t', '\r', ',', ';']).is_empty()
                || rest.trim_start().starts_with("//");
            if !gap.chars().all(|c| matches!(c, ' ' | '\t' | ',' | ';')) || !ends_line {
                break;
            }
            self.next += 1;
            from = comment.span.end;
            parts.push(Doc::suffix(self.text(comment)));
        }
        if parts.is_empty() { Doc::nil() } else { Doc::concat(parts) }
    }

    /// Those before a place that end the line of an opening bracket.
    pub(crate) fn behind_bracket(&mut self, end: u32) -> Doc<'s> {
        let mut parts = Vec::new();
        while let Some(&comment) = self.all.get(self.next) {
            let before = &self.source[..comment.span.start as usize];
            let line = before.rsplit('\n').next().unwrap_or("");
            let rest = self.source[comment.span.end as usize..].split('\n').next().unwrap_or("");
            let ends_line = rest.trim().is_empty() || rest.trim_start().starts_with("//");
            if comment.span.start >= end || line.trim().is_empty() || !ends_line {
                break;
            }
            self.next += 1;
            parts.push(Doc::suffix(self.text(comment)));
        }
        if parts.is_empty() { Doc::nil() } else { Doc::concat(parts) }
    }

    /// The text of a comment without blanks at its end.
    pub(crate) fn text(&self, comment: Comment) -> &'s str {
        comment.span.slice(self.source).trim_end()
    }

    /// A comment on lines of its own.
    pub(crate) fn block(&self, comment: Comment) -> Doc<'s> {
        let text = self.text(comment);
        if let Some(bar) = self.bar(text) {
            return Doc::owned(bar);
        }
        let mut lines = text.split('\n').map(str::trim_end);
        let first = lines.next().unwrap_or("");
        let starred = text.contains('\n') && lines.clone().all(|line| line.trim_start().starts_with('*'));
        if !starred {
            return Doc::text(text);
        }
        let mut parts = vec![Doc::text(first)];
        for line in lines {
            parts.push(Doc::hard());
            parts.push(Doc::text(" "));
            parts.push(Doc::text(line.trim_start()));
        }
        Doc::concat(parts)
    }

    /// A line of dashes in its width.
    fn bar(&self, text: &str) -> Option<String> {
        let dashes = text.strip_prefix("//")?.trim();
        let is_bar = dashes.len() >= 4 && dashes.bytes().all(|b| b == b'-');
        is_bar.then(|| format!("// {}", "-".repeat(self.separator.saturating_sub(3).max(4))))
    }

    /// How many line feeds there are between two places.
    pub(crate) fn lines_between(&self, start: u32, end: u32) -> usize {
        self.source
            .get(start as usize..end as usize)
            .map_or(0, |gap| gap.bytes().filter(|b| *b == b'\n').count())
    }
}
