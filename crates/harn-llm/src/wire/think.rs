//! Separates `<think>` spans from visible text, even if chunk boundaries split the tags.

use crate::event::StreamEvent;

const OPEN: &str = "<think>";
const CLOSE: &str = "</think>";

/// A piece of split text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Visible.
    Text(String),
    /// Private.
    Reasoning(String),
}

impl From<Piece> for StreamEvent {
    fn from(piece: Piece) -> StreamEvent {
        match piece {
            Piece::Text(text) => StreamEvent::Text(text),
            Piece::Reasoning(text) => StreamEvent::Reasoning(text),
        }
    }
}

/// Splits a stream of text into visible text and reasoning.
#[derive(Debug, Default)]
pub struct ThinkSplitter {
    /// Text that may be the start of a tag.
    held: String,
    inside: bool,
    /// Whether visible text other than line breaks was emitted.
    started: bool,
    /// Line breaks at the very start, dropped if a span follows.
    leading: String,
    seen_span: bool,
    /// Whitespace at the end of reasoning, emitted only if more reasoning follows.
    blanks: String,
    reasoned: bool,
}

impl ThinkSplitter {
    /// Adds text and emits the part that is already certain.
    pub fn feed(&mut self, text: &str, out: &mut dyn FnMut(Piece)) {
        // Text is copied only when a tag may be split.
        let mut held = std::mem::take(&mut self.held);
        if held.is_empty() {
            held.push_str(self.feed_whole(text, out));
        } else {
            held.push_str(text);
            let rest = self.feed_whole(&held, out).len();
            held.drain(..held.len() - rest);
        }
        self.held = held;
    }

    /// Emits the certain part of `text`, which nothing held back precedes; returns the remainder.
    fn feed_whole<'t>(&mut self, text: &'t str, out: &mut dyn FnMut(Piece)) -> &'t str {
        let mut rest = text;
        loop {
            let tag = if self.inside { CLOSE } else { OPEN };
            let Some(at) = find(rest, tag) else { break };
            self.give(&rest[..at], out);
            rest = &rest[at + tag.len()..];
            self.inside = !self.inside;
            self.seen_span = true;
            if self.inside {
                self.leading.clear();
            }
        }
        let keep = held_back(rest, if self.inside { CLOSE } else { OPEN });
        let (certain, held) = rest.split_at(rest.len() - keep);
        self.give(certain, out);
        held
    }

    /// Ends the stream and emits the held-back part.
    pub fn finish(&mut self, out: &mut dyn FnMut(Piece)) {
        let held = std::mem::take(&mut self.held);
        self.give(&held, out);
        if !self.seen_span && !self.leading.is_empty() {
            out(Piece::Text(std::mem::take(&mut self.leading)));
        }
    }

    fn give(&mut self, text: &str, out: &mut dyn FnMut(Piece)) {
        if self.inside {
            self.give_reasoning(text, out);
            return;
        }
        let mut text = text;
        if !self.started {
            let rest = text.trim_start_matches(['\n', '\r']);
            if !self.seen_span {
                self.leading.push_str(&text[..text.len() - rest.len()]);
            }
            text = rest;
            if text.is_empty() {
                return;
            }
            self.started = true;
            let leading = std::mem::take(&mut self.leading);
            out(Piece::Text(leading + text));
        } else if !text.is_empty() {
            out(Piece::Text(text.to_string()));
        }
    }

    fn give_reasoning(&mut self, text: &str, out: &mut dyn FnMut(Piece)) {
        let text = if self.reasoned { text } else { text.trim_start() };
        let solid = text.trim_end();
        if solid.is_empty() {
            if self.reasoned {
                self.blanks.push_str(text);
            }
            return;
        }
        self.reasoned = true;
        let blanks = std::mem::take(&mut self.blanks);
        out(Piece::Reasoning(blanks + solid));
        self.blanks.push_str(&text[solid.len()..]);
    }
}

/// Finds a tag. Most text contains no `<`, so that byte is searched first.
fn find(text: &str, tag: &str) -> Option<usize> {
    memchr::memchr_iter(b'<', text.as_bytes()).find(|at| text[*at..].starts_with(tag))
}

/// Returns the length of the suffix of `text` that may be the start of `tag`.
fn held_back(text: &str, tag: &str) -> usize {
    let from = text.floor_char_boundary(text.len().saturating_sub(tag.len() - 1));
    text[from..].rfind('<').map_or(0, |at| {
        let end = &text[from + at..];
        if tag.starts_with(end) { end.len() } else { 0 }
    })
}

/// Splits a complete text into (visible, reasoning).
pub fn split(text: &str) -> (String, String) {
    let mut splitter = ThinkSplitter::default();
    let (mut visible, mut reasoning) = (String::new(), String::new());
    let mut take = |piece| match piece {
        Piece::Text(t) => visible.push_str(&t),
        Piece::Reasoning(r) => reasoning.push_str(&r),
    };
    splitter.feed(text, &mut take);
    splitter.finish(&mut take);
    (visible, reasoning)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(a: &str, b: &str) -> (String, String) {
        (a.to_string(), b.to_string())
    }

    #[test]
    fn spans_are_taken_out() {
        assert_eq!(split("<think>\n a \n</think>\n\nhello"), pair("hello", "a"));
        assert_eq!(split("x<think>a</think>y<think>b</think>z"), pair("xyz", "ab"));
        assert_eq!(split("x<think>rest"), pair("x", "rest"));
        assert_eq!(split("\n\nno span"), pair("\n\nno span", ""));
        assert_eq!(split("a < b <thin"), pair("a < b <thin", ""));
    }

    #[test]
    fn every_cut_gives_the_same_split() {
        let text = "\n<think>é a\n b</think>\n\nhi <thi no <think> c </think>!";
        let whole = split(text);
        for (cut, _) in text.char_indices() {
            let mut splitter = ThinkSplitter::default();
            let (mut visible, mut reasoning) = (String::new(), String::new());
            let mut take = |piece| match piece {
                Piece::Text(t) => visible.push_str(&t),
                Piece::Reasoning(r) => reasoning.push_str(&r),
            };
            splitter.feed(&text[..cut], &mut take);
            splitter.feed(&text[cut..], &mut take);
            splitter.finish(&mut take);
            assert_eq!((visible, reasoning), whole, "cut at {cut}");
        }
    }
}
