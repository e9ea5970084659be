//! The comments of a source, assigned in order to the code that they belong to.

use harn_syntax::token::{Comment, CommentKind};

use crate::doc::{Doc, columns};
use crate::literal;

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

    /// Returns the end of the last assigned comment.
    pub(crate) fn last_end(&self) -> u32 {
        self.next.checked_sub(1).map_or(0, |last| self.all[last].span.end)
    }

    /// Returns whether a comment is between two offsets.
    pub(crate) fn any_between(&self, start: u32, end: u32) -> bool {
        let at = self.all.partition_point(|comment| comment.span.start < start);
        self.all.get(at).is_some_and(|comment| comment.span.start < end)
    }

    /// Returns the source between two offsets without comments, in pieces.
    pub(crate) fn words_between(&self, start: u32, end: u32) -> Vec<&'s str> {
        let mut from = start;
        let mut words = Vec::new();
        let first = self.all.partition_point(|comment| comment.span.start < start);
        let within = self.all[first..].iter().map(|comment| (comment.span.start, comment.span.end));
        for (upto, next) in within.take_while(|(_, behind)| *behind <= end).chain([(end, end)]) {
            words.push(self.source[from as usize..upto as usize].trim());
            from = next;
        }
        words.retain(|word| !word.is_empty());
        words
    }

    /// Returns the source before an offset, without whitespace and comments at its end.
    pub(crate) fn code_before(&self, end: u32) -> &'s str {
        let mut head = self.source[..end as usize].trim_end();
        let count = self.all.partition_point(|comment| comment.span.start < end);
        for comment in self.all[..count].iter().rev() {
            if comment.span.slice(self.source).trim_end().len() + comment.span.start as usize != head.len() {
                break;
            }
            head = self.source[..comment.span.start as usize].trim_end();
        }
        head
    }

    /// Finds a sign after an offset, outside of comments.
    pub(crate) fn find(&self, from: u32, sign: &str) -> Option<u32> {
        let first = self.all.partition_point(|comment| comment.span.start < from);
        let mut at = from;
        for comment in &self.all[first..] {
            match self.source.get(at as usize..comment.span.start as usize)?.find(sign) {
                Some(found) => return Some(at + found as u32),
                None => at = comment.span.end,
            }
        }
        self.source.get(at as usize..)?.find(sign).map(|found| at + found as u32)
    }

    /// Takes the next comment if it begins before `end`.
    pub(crate) fn take_before(&mut self, end: u32) -> Option<Comment> {
        let comment = *self.all.get(self.next)?;
        if comment.span.start >= end {
            return None;
        }
        self.next += 1;
        Some(comment)
    }

    /// Extends a comment by the following lines of a `///` comment.
    pub(crate) fn run(&mut self, mut first: Comment) -> Comment {
        if first.kind != CommentKind::DocLine || !self.has_own_line(first) {
            return first;
        }
        while let Some(next) = self.all.get(self.next) {
            let gap = &self.source[first.span.end as usize..next.span.start as usize];
            if next.kind != CommentKind::DocLine || !gap.trim().is_empty() || gap.matches('\n').count() != 1 {
                break;
            }
            first.span.end = next.span.end;
            self.next += 1;
        }
        first
    }

    /// Skips the comments that end before `end`: they are part of source that is printed unchanged.
    pub(crate) fn skip_to(&mut self, end: u32) {
        while self.all.get(self.next).is_some_and(|comment| comment.span.start < end) {
            self.next += 1;
        }
    }

    /// Takes the comments before an offset within a line: they move to its end, except short block comments.
    pub(crate) fn inline(&mut self, end: u32) -> Doc<'s> {
        self.within(end, false)
    }

    /// Like [`Comments::inline`], with a leading space.
    pub(crate) fn inline_behind(&mut self, end: u32) -> Doc<'s> {
        self.within(end, true)
    }

    /// Like [`Comments::inline_behind`], up to the first comment with its own line.
    pub(crate) fn on_line(&mut self, end: u32) -> Doc<'s> {
        let own = |comment: &&Comment| comment.span.start < end && self.has_own_line(**comment);
        let end = self.all[self.next..].iter().find(own).map_or(end, |comment| comment.span.start);
        self.within(end, true)
    }

    /// Takes the comments after a piece of code and before more code on its line: they belong to that piece. A
    /// comment that ends the line is left for [`Comments::trailing`].
    pub(crate) fn behind(&mut self, end: u32) -> Doc<'s> {
        let mut parts = Vec::new();
        let mut from = end;
        while let Some(&comment) = self.all.get(self.next) {
            let gap = self.source.get(from as usize..comment.span.start as usize);
            let rest = self.source[comment.span.end as usize..].split('\n').next().unwrap_or("");
            if !gap.is_some_and(|gap| gap.bytes().all(|byte| matches!(byte, b' ' | b'\t')))
                || !self.fits_in_line(comment)
                || rest.trim().is_empty()
            {
                break;
            }
            self.next += 1;
            from = comment.span.end;
            parts.extend([Doc::text(" "), Doc::text(self.text(comment))]);
        }
        if parts.is_empty() { Doc::nil() } else { Doc::concat(parts) }
    }

    /// Whether code may follow a comment on its line.
    pub(crate) fn fits_in_line(&self, comment: Comment) -> bool {
        matches!(comment.kind, CommentKind::Block | CommentKind::DocBlock)
            && !self.text(comment).contains('\n')
    }

    /// Whether no code precedes a comment on its line.
    pub(crate) fn has_own_line(&self, comment: Comment) -> bool {
        let before = &self.source[..comment.span.start as usize];
        before.rsplit('\n').next().is_none_or(|line| line.trim().is_empty())
    }

    fn within(&mut self, end: u32, behind: bool) -> Doc<'s> {
        let mut parts = Vec::new();
        while let Some(comment) = self.take_before(end) {
            let text = self.text(comment);
            if self.fits_in_line(comment) {
                let pair = if behind {
                    [Doc::text(" "), Doc::text(text)]
                } else {
                    [Doc::text(text), Doc::text(" ")]
                };
                parts.extend(pair);
            } else {
                parts.push(Doc::suffix(text));
            }
        }
        if parts.is_empty() { Doc::nil() } else { Doc::concat(parts) }
    }

    /// Takes the comments after `end` that end its line.
    pub(crate) fn trailing(&mut self, end: u32) -> Doc<'s> {
        let mut parts = Vec::new();
        // Comments before that did not end the line are printed already; see `behind`.
        let mut from = end.max(self.last_end());
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

    /// Takes the comments before an offset that end the line of an opening bracket or of an operator.
    pub(crate) fn behind_bracket(&mut self, end: u32) -> Doc<'s> {
        let mut parts = Vec::new();
        while let Some(&comment) = self.all.get(self.next) {
            let rest = self.source[comment.span.end as usize..].split('\n').next().unwrap_or("");
            let ends_line = rest.trim().is_empty() || rest.trim_start().starts_with("//");
            if comment.span.start >= end || self.has_own_line(comment) || !ends_line {
                break;
            }
            self.next += 1;
            parts.push(Doc::suffix(self.text(comment)));
        }
        if parts.is_empty() { Doc::nil() } else { Doc::concat(parts) }
    }

    /// Returns the source of a comment without trailing whitespace.
    pub(crate) fn text(&self, comment: Comment) -> &'s str {
        comment.span.slice(self.source).trim_end()
    }

    /// Lays out a comment with its own lines.
    pub(crate) fn block(&self, comment: Comment) -> Doc<'s> {
        let text = self.text(comment);
        if let Some(bar) = self.bar(text) {
            return Doc::owned(bar);
        }
        if matches!(comment.kind, CommentKind::DocBlock | CommentKind::DocLine)
            && let Some(lines) = literal::documentation(text)
        {
            return documentation(&lines);
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

    /// Returns a line of dashes with the configured width, with its title if it has one.
    fn bar(&self, text: &str) -> Option<String> {
        let mut bar = match title(text)? {
            "" => "// ".to_owned(),
            title => format!("// ---- {title} "),
        };
        let dashes = self.separator.saturating_sub(columns(&bar)).max(4);
        bar.extend(std::iter::repeat_n('-', dashes));
        Some(bar)
    }

    /// Whether a comment is the first of three lines that head a section: dashes, a title, dashes.
    pub(crate) fn opens_section(&self, first: Comment) -> bool {
        let is_bar = |comment: Comment| title(self.text(comment)) == Some("");
        let [line, last, ..] = self.all[self.next..] else { return false };
        is_bar(first)
            && line.kind == CommentKind::Line
            && title(self.text(line)).is_none()
            && is_bar(last)
            && self.lines_between(first.span.end, line.span.start) == 1
            && self.lines_between(line.span.end, last.span.start) == 1
            && self.source[first.span.end as usize..line.span.start as usize].trim().is_empty()
            && self.source[line.span.end as usize..last.span.start as usize].trim().is_empty()
    }

    /// Counts the line feeds between two offsets.
    pub(crate) fn lines_between(&self, start: u32, end: u32) -> usize {
        self.source
            .get(start as usize..end as usize)
            .map_or(0, |gap| gap.bytes().filter(|b| *b == b'\n').count())
    }
}

/// Lays out a doc comment: on one line if it has one and fits, else with a star before each line.
fn documentation<'s>(lines: &[&'s str]) -> Doc<'s> {
    let one = match lines {
        [] => return Doc::text("/** */"),
        [one] => *one,
        lines => {
            let mut parts = vec![Doc::text("/**")];
            for line in lines {
                parts.extend([
                    Doc::hard(),
                    Doc::text(if line.is_empty() { " *" } else { " * " }),
                    Doc::text(line),
                ]);
            }
            parts.extend([Doc::hard(), Doc::text(" */")]);
            return Doc::concat(parts);
        }
    };
    let parts = vec![
        Doc::text("/**"),
        Doc::line(),
        Doc::if_broken(" * "),
        Doc::text(one),
        Doc::line(),
        Doc::if_broken(" "),
        Doc::text("*/"),
    ];
    Doc::group(Doc::concat(parts), false)
}

/// The title of a line that begins with dashes; empty if there are only dashes.
pub(crate) fn title(text: &str) -> Option<&str> {
    let body = text.strip_prefix("//")?.trim();
    let title = body.trim_start_matches('-');
    let is_bar = body.len() - title.len() >= 4 && (title.is_empty() || title.starts_with(' '));
    is_bar.then(|| title.trim_end_matches('-').trim())
}
