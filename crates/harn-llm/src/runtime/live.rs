//! The text for people of a reply that is still coming.

use crate::tool_text::sanitize_partial;

/// Up to this many bytes a reply is looked through at every piece, beyond in steps that grow with it: all looks together
/// take time linear in its length.
const SMALL: usize = 4096;

/// Takes a reply as it arrives and gives out what of it is certain to be for people, in pieces.
#[derive(Debug, Default)]
pub(super) struct LiveText {
    raw: String,
    /// What was given out.
    given: String,
    /// Bytes of `raw` at which it is looked through again.
    next: usize,
    /// The line that ends the loop which asks, when it has one of its own.
    sentinel: Option<String>,
}

impl LiveText {
    /// Text of a loop that ends at this line.
    pub(super) fn until(sentinel: Option<&str>) -> LiveText {
        LiveText { sentinel: sentinel.map(str::to_owned), ..LiveText::default() }
    }

    /// Adds text; gives what can be shown now.
    pub(super) fn feed(&mut self, text: &str) -> Option<String> {
        self.raw.push_str(text);
        if self.raw.len() < self.next {
            return None;
        }
        self.next = self.raw.len() + if self.raw.len() < SMALL { 1 } else { self.raw.len() / 64 };
        let mut open = self.raw.as_str();
        // Some JSON is a plan for the program: whether it is shows at its end.
        if let Some(at) = open.rfind("```").filter(|_| open.matches("```").count() % 2 == 1) {
            open = &open[..at];
        }
        let line = open.rfind('\n').map_or(0, |at| at + 1);
        if self.may_end_the_loop(&open[line..]) {
            open = &open[..line];
        }
        // One or two backticks may become a fence; three at the end close one.
        let ticks = open.len() - open.trim_end_matches('`').len();
        let whole = if ticks < 3 { open.len() - ticks } else { open.len() };
        let shown = self.without_sentinel(&sanitize_partial(&open[..whole]));
        self.give(&shown)
    }

    /// Ends the text; gives what of the finished one was not shown yet. What was shown cannot be taken back.
    pub(super) fn finish(mut self, visible: &str) -> Option<String> {
        let visible = self.without_sentinel(visible);
        self.give(&visible)
    }

    fn give(&mut self, shown: &str) -> Option<String> {
        let more = shown.strip_prefix(self.given.as_str()).filter(|more| !more.is_empty())?.to_owned();
        self.given.push_str(&more);
        Some(more)
    }

    /// Whether a last line may become one of the words that end a loop or announce a plan.
    fn may_end_the_loop(&self, line: &str) -> bool {
        let line = line.trim();
        let words = ["##DONE##", "DONE", "PLAN_READY"].into_iter().chain(self.sentinel.as_deref());
        !line.is_empty() && words.into_iter().any(|word| word.starts_with(line))
    }

    fn without_sentinel(&self, text: &str) -> String {
        let Some(sentinel) = &self.sentinel else { return text.to_owned() };
        let lines: Vec<&str> = text.lines().filter(|line| line.trim() != sentinel).collect();
        lines.join("\n").trim().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool_text::sanitize;

    /// The pieces of a text that comes in chunks of so many characters.
    fn pieces(text: &str, size: usize) -> Vec<String> {
        let chars: Vec<char> = text.chars().collect();
        let mut live = LiveText::default();
        let mut out: Vec<String> =
            chars.chunks(size).filter_map(|chunk| live.feed(&chunk.iter().collect::<String>())).collect();
        out.extend(live.finish(&sanitize(text)));
        out
    }

    #[test]
    fn plain_text_comes_at_once() {
        assert_eq!(pieces("Once upon a time.", 5), ["Once", " upon", " a tim", "e."]);
    }

    #[test]
    fn the_line_that_ends_a_loop_is_not_shown() {
        let mut live = LiveText::until(Some("ALL FINISHED"));
        let mut out = String::new();
        for piece in ["All", " is well.\nALL F", "INISHED"] {
            out.extend(live.feed(piece));
        }
        out.extend(live.finish("All is well.\nALL FINISHED"));
        assert_eq!(out, "All is well.");
    }

    #[test]
    fn the_pieces_are_the_visible_text() {
        for text in [
            "Hi <think>no PRIVATE</think> there.\n\n\n\nBye\n",
            "a\n##DONE##\n",
            "before <tool_call>\nread({path: \"x\"})\n</tool_call> after",
            "<user_response>only this</user_response>",
            "x\n```json\n{\"plan\": []}\n```\ny",
            "x\n```json\n{\"a\": 1}\n```\ny # z",
            "DONE is a word\nDONE\n",
            "[result of t]\n1\n[end of t result]\nok",
            "größer <b>é</b> 1 < 2",
        ] {
            for size in 1..12 {
                let joined = pieces(text, size).concat();
                assert_eq!(joined, sanitize(text), "{text:?} in pieces of {size}");
            }
        }
    }
}
