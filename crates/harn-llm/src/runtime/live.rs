//! The text for people and the tool calls of a reply that is still coming.

use std::collections::BTreeMap;

use crate::event::StreamEvent;
use crate::tool_text::{may_be_call, sanitize_partial};

/// What a listener hears of a reply that is still coming.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Live {
    /// More text for people.
    Text(String),
    /// The model begins to write a tool call.
    CallOpens {
        /// Id of the call.
        id: String,
        /// The tool.
        name: String,
    },
    /// More of the JSON of a call's arguments.
    CallGoesOn {
        /// Id of the call.
        id: String,
        /// The piece.
        arguments: String,
    },
    /// The attempt broke off: text and calls so far are void, another attempt begins.
    Void,
}

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
    /// Tools whose calls may stand in the text: they are not for people.
    tools: Vec<String>,
}

impl LiveText {
    /// Text of a model that may call these tools, in a loop that ends at this line.
    pub(super) fn of(tools: &[String], sentinel: Option<&str>) -> LiveText {
        LiveText { sentinel: sentinel.map(str::to_owned), tools: tools.to_vec(), ..LiveText::default() }
    }

    /// Adds text; gives what can be shown now.
    pub(super) fn feed(&mut self, text: &str) -> Option<String> {
        self.raw.push_str(text);
        if self.raw.len() < self.next {
            return None;
        }
        self.next = self.raw.len() + if self.raw.len() < SMALL { 1 } else { self.raw.len() / 64 };
        let mut open = &self.raw[..may_be_call(&self.raw, &self.tools)];
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

/// Takes the events of a reply and tells of its native tool calls while the model writes them.
#[derive(Debug, Default)]
pub(super) struct LiveCalls {
    calls: BTreeMap<usize, OpenCall>,
    /// The reply came as a whole: there is nothing to be told ahead.
    whole: bool,
}

#[derive(Debug, Default)]
struct OpenCall {
    id: Option<String>,
    name: Option<String>,
    /// Arguments that came before id and name.
    early: String,
    told: bool,
}

impl LiveCalls {
    /// Whether somebody was told of a call.
    pub(super) fn is_open(&self) -> bool {
        self.calls.values().any(|call| call.told)
    }

    pub(super) fn feed(&mut self, event: &StreamEvent, deliver: &mut dyn FnMut(Live)) {
        match event {
            StreamEvent::Whole => self.whole = true,
            StreamEvent::ToolCallStart { index, id, name } if !self.whole => {
                let call = self.calls.entry(*index).or_default();
                call.id = call.id.take().or_else(|| id.clone().filter(|id| !id.is_empty()));
                call.name = call.name.take().or_else(|| name.clone());
                self.open(*index, deliver);
            }
            StreamEvent::ToolCallDelta { index, arguments } if !self.whole => {
                let call = self.calls.entry(*index).or_default();
                match &call.id {
                    Some(id) if call.told => {
                        deliver(Live::CallGoesOn { id: id.clone(), arguments: arguments.clone() });
                    }
                    _ => call.early.push_str(arguments),
                }
            }
            _ => {}
        }
    }

    /// Tells of a call once its id and name are known. The second one of an id gets another at the end of the reply.
    fn open(&mut self, index: usize, deliver: &mut dyn FnMut(Live)) {
        let Some(OpenCall { id: Some(id), name: Some(name), told: false, .. }) = self.calls.get(&index)
        else {
            return;
        };
        let (id, name) = (id.clone(), name.clone());
        if self.calls.values().any(|call| call.told && call.id.as_ref() == Some(&id)) {
            return;
        }
        deliver(Live::CallOpens { id: id.clone(), name });
        if let Some(call) = self.calls.get_mut(&index) {
            call.told = true;
            let arguments = std::mem::take(&mut call.early);
            if !arguments.is_empty() {
                deliver(Live::CallGoesOn { id, arguments });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool_text::sanitize;

    #[test]
    fn calls_are_told_while_they_are_written() {
        let start = |index, id: Option<&str>, name: Option<&str>| StreamEvent::ToolCallStart {
            index,
            id: id.map(str::to_owned),
            name: name.map(str::to_owned),
        };
        let delta = |index, text: &str| StreamEvent::ToolCallDelta { index, arguments: text.to_owned() };
        let opens = |id: &str, name: &str| Live::CallOpens { id: id.to_owned(), name: name.to_owned() };
        let more = |id: &str, text: &str| Live::CallGoesOn { id: id.to_owned(), arguments: text.to_owned() };
        let mut heard = Vec::new();
        let mut calls = LiveCalls::default();
        for event in [
            start(0, Some("a"), None),
            delta(0, "{"),
            start(0, None, Some("read")),
            delta(0, "}"),
            start(1, Some("a"), Some("read")),
            delta(1, "{}"),
            start(2, None, Some("read")),
        ] {
            calls.feed(&event, &mut |live| heard.push(live));
        }
        assert_eq!(heard, [opens("a", "read"), more("a", "{"), more("a", "}")]);
        assert!(calls.is_open());
        let mut whole = LiveCalls::default();
        for event in [StreamEvent::Whole, start(0, Some("a"), Some("read"))] {
            whole.feed(&event, &mut |live| panic!("{live:?}"));
        }
        assert!(!whole.is_open());
    }

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
        let mut live = LiveText::of(&[], Some("ALL FINISHED"));
        let mut out = String::new();
        for piece in ["All", " is well.\nALL F", "INISHED"] {
            out.extend(live.feed(piece));
        }
        out.extend(live.finish("All is well.\nALL FINISHED"));
        assert_eq!(out, "All is well.");
    }

    #[test]
    fn calls_outside_of_tags_are_not_shown() {
        let tools = ["read".to_string()];
        for text in [
            "I look.\n  tool_call: read({ a: 1 })\nThen more.",
            "Say reading\n<read({})>",
            "[{\"id\": \"x\", \"function\": {\"name\": \"read\", \"arguments\": {}}}]",
            "[1] a note\n```js\nread({})\n```\nread it",
        ] {
            let visible = crate::tool_text::parse_reply(text, &tools).visible(text);
            for size in 1..9 {
                let mut live = LiveText::of(&tools, None);
                let chars: Vec<char> = text.chars().collect();
                let chunks = chars.chunks(size).map(|chunk| chunk.iter().collect::<String>());
                let mut out: String = chunks.filter_map(|chunk| live.feed(&chunk)).collect();
                out.extend(live.finish(&visible));
                assert_eq!(out, visible, "{text:?} in pieces of {size}");
            }
        }
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
