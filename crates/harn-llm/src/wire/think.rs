//! Taking `<think>` spans out of visible text, also when the tags are cut by chunk borders.

const OPEN: &str = "<think>";
const CLOSE: &str = "</think>";

/// A piece of text after splitting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Visible.
    Text(String),
    /// Private.
    Reasoning(String),
}

/// Splits a stream of text into visible text and reasoning.
#[derive(Debug, Default)]
pub struct ThinkSplitter {
    /// Text that may be the beginning of a tag.
    held: String,
    inside: bool,
    /// Whether visible text other than line ends was given out.
    started: bool,
    /// Line ends at the very beginning: dropped when a span follows.
    leading: String,
    seen_span: bool,
    /// Blanks at the end of reasoning: given out only when more reasoning follows.
    blanks: String,
    reasoned: bool,
}

impl ThinkSplitter {
    /// Adds text and returns what is certain by now.
    pub fn feed(&mut self, text: &str) -> Vec<Piece> {
        let all = std::mem::take(&mut self.held) + text;
        let mut rest = all.as_str();
        let mut out = Vec::new();
        loop {
            let tag = if self.inside { CLOSE } else { OPEN };
            let Some(at) = rest.find(tag) else { break };
            self.give(&rest[..at], &mut out);
            rest = &rest[at + tag.len()..];
            self.inside = !self.inside;
            self.seen_span = true;
            if self.inside {
                self.leading.clear();
            }
        }
        let keep = held_back(rest, if self.inside { CLOSE } else { OPEN });
        let (certain, held) = rest.split_at(rest.len() - keep);
        self.give(certain, &mut out);
        self.held = held.to_string();
        out
    }

    /// Ends the text: what was held back is given out.
    pub fn finish(&mut self) -> Vec<Piece> {
        let mut out = Vec::new();
        let held = std::mem::take(&mut self.held);
        self.give(&held, &mut out);
        if !self.seen_span && !self.leading.is_empty() {
            out.push(Piece::Text(std::mem::take(&mut self.leading)));
        }
        out
    }

    fn give(&mut self, text: &str, out: &mut Vec<Piece>) {
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
            out.push(Piece::Text(leading + text));
        } else if !text.is_empty() {
            out.push(Piece::Text(text.to_string()));
        }
    }

    fn give_reasoning(&mut self, text: &str, out: &mut Vec<Piece>) {
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
        out.push(Piece::Reasoning(blanks + solid));
        self.blanks.push_str(&text[solid.len()..]);
    }
}

/// Returns how many bytes at the end of `text` may begin `tag`.
fn held_back(text: &str, tag: &str) -> usize {
    (1..tag.len()).rev().find(|n| text.ends_with(&tag[..*n])).unwrap_or(0)
}

/// Splits a whole text into (visible, reasoning).
pub fn split(text: &str) -> (String, String) {
    let mut splitter = ThinkSplitter::default();
    let (mut visible, mut reasoning) = (String::new(), String::new());
    for piece in splitter.feed(text).into_iter().chain(splitter.finish()) {
        match piece {
            Piece::Text(t) => visible.push_str(&t),
            Piece::Reasoning(r) => reasoning.push_str(&r),
        }
    }
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
            let mut pieces = splitter.feed(&text[..cut]);
            pieces.extend(splitter.feed(&text[cut..]));
            pieces.extend(splitter.finish());
            for piece in pieces {
                match piece {
                    Piece::Text(t) => visible.push_str(&t),
                    Piece::Reasoning(r) => reasoning.push_str(&r),
                }
            }
            assert_eq!((visible, reasoning), whole, "cut at {cut}");
        }
    }
}
