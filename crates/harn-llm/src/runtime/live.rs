//! Extracts user-facing text and tool calls from a reply that is still arriving.

use std::collections::BTreeMap;

use crate::event::StreamEvent;
use crate::tool_text::{may_be_call, sanitize_partial};
use crate::wire::anthropic::JSON_TOOL;

/// An event for the listener of a reply that is still arriving.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Live {
    /// More user-facing text.
    Text(String),
    /// More of the text of an answer with a schema, as the model writes it. It is not user-facing.
    Answer(String),
    /// The model starts to write a tool call.
    CallOpens {
        /// Id of the call.
        id: String,
        /// The name of the tool.
        name: String,
    },
    /// More of the JSON of a call's arguments.
    CallGoesOn {
        /// Id of the call.
        id: String,
        /// The fragment.
        arguments: String,
    },
    /// The attempt failed: all text and calls so far are void, and another attempt starts.
    Void,
}

/// Finds the arguments of the tool that takes the answer of a call with a schema.
#[derive(Debug, Default)]
pub(super) struct AnswerTool {
    index: Option<usize>,
}

impl AnswerTool {
    /// Returns the part of the answer that an event has.
    pub(super) fn arguments<'e>(&mut self, event: &'e StreamEvent) -> Option<&'e str> {
        match event {
            StreamEvent::ToolCallStart { index, name: Some(name), .. } => {
                if name == JSON_TOOL {
                    self.index = Some(*index);
                } else if self.index == Some(*index) {
                    // The reply continues after a pause, and its calls are numbered again.
                    self.index = None;
                }
                None
            }
            StreamEvent::ToolCallDelta { index, arguments } if self.index == Some(*index) => Some(arguments),
            _ => None,
        }
    }
}

/// Up to this size in bytes, a reply is scanned at every chunk. Beyond it, the steps grow with its size, so that all
/// scans together take linear time.
const SMALL: usize = 4096;

/// Processes a reply as it arrives and returns, in chunks, the part that is certain to be user-facing.
#[derive(Debug, Default)]
pub(super) struct LiveText {
    raw: String,
    /// The user-facing text returned so far.
    given: String,
    /// The size of `raw` in bytes at which it is scanned again.
    next: usize,
    /// The custom line that ends the calling loop, if it has one.
    sentinel: Option<String>,
    /// Tools that the model may call in text; such calls are not user-facing.
    tools: Vec<String>,
}

impl LiveText {
    /// Creates an extractor for a model that may call `tools`, in a loop that `sentinel` ends.
    pub(super) fn of(tools: &[String], sentinel: Option<&str>) -> LiveText {
        LiveText { sentinel: sentinel.map(str::to_owned), tools: tools.to_vec(), ..LiveText::default() }
    }

    /// Adds text; returns the part that can be shown now.
    pub(super) fn feed(&mut self, text: &str) -> Option<String> {
        self.raw.push_str(text);
        if self.raw.len() < self.next {
            return None;
        }
        self.next = self.raw.len() + if self.raw.len() < SMALL { 1 } else { self.raw.len() / 64 };
        let mut open = &self.raw[..may_be_call(&self.raw, &self.tools)];
        // A JSON block may be a plan for the program, which is known only at its end.
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

    /// Ends the reply; returns the part of `visible` that was not shown yet. Text that was shown cannot be retracted.
    pub(super) fn finish(mut self, visible: &str) -> Option<String> {
        let visible = self.without_sentinel(visible);
        self.give(&visible)
    }

    fn give(&mut self, shown: &str) -> Option<String> {
        let more = shown.strip_prefix(self.given.as_str()).filter(|more| !more.is_empty())?.to_owned();
        self.given.push_str(&more);
        Some(more)
    }

    /// Returns whether an incomplete last line may become a line that ends a loop or announces a plan.
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

/// Processes the events of a reply and reports its native tool calls while the model writes them.
#[derive(Debug, Default)]
pub(super) struct LiveCalls {
    calls: BTreeMap<usize, OpenCall>,
    /// The reply arrived as a whole, so nothing is streamed.
    whole: bool,
}

#[derive(Debug, Default)]
struct OpenCall {
    id: Option<String>,
    name: Option<String>,
    /// Arguments that arrived before id and name.
    early: String,
    told: bool,
}

impl LiveCalls {
    /// Returns whether a call was reported.
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

    /// Reports a call once its id and name are known. A second call with the same id is not reported here, because it
    /// gets a new id at the end of the reply.
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

    /// Returns the chunks of shown text when `text` arrives in chunks of `size` characters.
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
