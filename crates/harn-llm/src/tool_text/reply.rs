//! Parses a reply in tagged form: calls, prose, final answer, done marker.

use std::ops::Range;

use harn_value::Data as Value;

use super::grammar::ACTION;
use super::quoted::{Quote, quote_at, whole_fence};
use super::scan::{Found, MAX_ERRORS, bare_calls, begins_call, known_name_at, line_calls};
use super::visible::sanitize;
use crate::json::clip;
use crate::message::ToolCall;
use crate::tool_text::grammar::parse_call;
use crate::wire::think::{Piece, ThinkSplitter};
use harn_prompt::untrusted::quote;

/// A block of a tagged reply, in order.
#[derive(Debug, Clone, PartialEq)]
pub enum Block {
    /// `<tool_call>`.
    Call(ToolCall),
    /// `<assistant_prose>`.
    Prose(String),
    /// `<user_response>`.
    Response(String),
    /// `<done>`.
    Done(String),
}

/// A parsed tagged reply.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TaggedReply {
    /// The blocks, in order.
    pub blocks: Vec<Block>,
    /// Violations of the protocol, for the model.
    pub violations: Vec<String>,
    /// Calls that could not be parsed, for the model.
    pub errors: Vec<String>,
    /// Text outside of the blocks, each part with the number of blocks before it.
    loose: Vec<(usize, String)>,
    /// The reply without the calls outside of tags, if there are any.
    without_calls: Option<String>,
}

impl TaggedReply {
    /// Returns the calls.
    pub fn calls(&self) -> Vec<ToolCall> {
        self.blocks
            .iter()
            .filter_map(|b| match b {
                Block::Call(call) => Some(call.clone()),
                _ => None,
            })
            .collect()
    }

    /// Returns the final answer, else the running prose; empty when there is neither.
    pub fn prose(&self) -> String {
        let join = |pick: fn(&Block) -> Option<&str>| {
            let parts: Vec<&str> = self.blocks.iter().filter_map(pick).filter(|t| !t.is_empty()).collect();
            parts.join("\n\n")
        };
        let response = join(|b| if let Block::Response(t) = b { Some(t) } else { None });
        if response.is_empty() {
            join(|b| if let Block::Prose(t) = b { Some(t) } else { None })
        } else {
            response
        }
    }

    /// Returns the user-facing part of the reply; `text` is the original reply.
    pub fn visible(&self, text: &str) -> String {
        let prose = self.prose();
        if prose.is_empty() { sanitize(self.without_calls.as_deref().unwrap_or(text)) } else { prose }
    }

    /// Converts text outside of blocks to prose, because a history that contains only blocks would lose it.
    #[must_use]
    pub fn with_loose_text(mut self) -> TaggedReply {
        let mut loose = std::mem::take(&mut self.loose).into_iter().peekable();
        let own = std::mem::take(&mut self.blocks).into_iter().map(Some);
        for (place, block) in own.chain([None]).enumerate() {
            while let Some((_, text)) = loose.next_if(|(at, _)| *at == place) {
                // Escapes the closing tag, which would end the block.
                let text = text.replace("</assistant_prose>", "&lt;/assistant_prose>");
                self.blocks.push(Block::Prose(text));
            }
            self.blocks.extend(block);
        }
        self
    }

    /// Returns the body of the last done block.
    pub fn done_marker(&self) -> Option<&str> {
        self.blocks.iter().rev().find_map(|b| match b {
            Block::Done(text) => Some(text.as_str()),
            _ => None,
        })
    }

    /// Serializes the blocks in canonical tags; `None` without blocks.
    pub fn canonical_text(&self) -> Option<String> {
        let parts: Vec<String> = self
            .blocks
            .iter()
            .map(|block| match block {
                Block::Call(call) => {
                    format!("<tool_call>\n{}({})\n</tool_call>", call.name, canonical_arguments(call))
                }
                Block::Prose(text) => format!("<assistant_prose>\n{text}\n</assistant_prose>"),
                Block::Response(text) => format!("<user_response>\n{text}\n</user_response>"),
                Block::Done(text) => format!("<done>{text}</done>"),
            })
            .collect();
        (!parts.is_empty()).then(|| parts.join("\n\n"))
    }
}

/// Serializes the arguments of a call to JSON that parses to the same arguments, whatever they contain. Tags in them
/// must neither end the block nor be removed as thinking, and the call grammar does not support the JSON escapes `\b`
/// and `\f`.
fn canonical_arguments(call: &ToolCall) -> String {
    let json = serde_json::to_string_pretty(&call.arguments).unwrap_or_default();
    let mut out = String::with_capacity(json.len());
    let mut rest = json.as_str();
    // In JSON, `<` and `\` occur only in strings.
    while let Some(at) = rest.find(['<', '\\']) {
        out.push_str(&rest[..at]);
        let (piece, instead) = match &rest.as_bytes()[at..] {
            [b'\\', b'b', ..] => (2, "\\u0008"),
            [b'\\', b'f', ..] => (2, "\\u000c"),
            [b'\\', ..] => (2, &rest[at..at + 2]),
            _ if rest[at..].starts_with("</tool_call>")
                || rest[at..].starts_with("<think>")
                || rest[at..].starts_with("</think>") =>
            {
                (1, "\\u003c")
            }
            _ => (1, "<"),
        };
        out.push_str(instead);
        rest = &rest[at + piece..];
    }
    out + rest
}

/// The maximum number of violations reported to the model.
const MAX_VIOLATIONS: usize = 50;

const TAGS: [&str; 4] = ["tool_call", "assistant_prose", "user_response", "done"];

/// Returns whether `text` contains one of the four opening tags.
pub fn has_opening_tag(text: &str) -> bool {
    TAGS.iter().any(|tag| text.contains(&format!("<{tag}>")))
}

/// Parses a reply; `tools` are the names of callable tools.
///
/// Quoted calls are not run: those in code fences (unless the whole reply is one fence), and those in spans with the
/// runtime's own marks for results, feedback and reminders. Takes time linear in the length of the reply.
pub fn parse_reply(text: &str, tools: &[String]) -> TaggedReply {
    let visible = without_thinking(text);
    let text = whole_fence(&visible).unwrap_or(&visible);
    let mut reader = Reader {
        text,
        tools,
        out: TaggedReply::default(),
        calls: 0,
        failed: 0,
        unclosed: Vec::new(),
        loose: Vec::new(),
        bare: Vec::new(),
    };
    reader.run();
    reader.finish()
}

/// Replaces each thinking span and stray thinking tag with a space, so that the parts before and after it cannot
/// combine to a mark of the runtime.
fn without_thinking(text: &str) -> String {
    let mut visible = String::with_capacity(text.len());
    let mut take = |piece| {
        if let Piece::Text(part) = piece {
            if !visible.is_empty() {
                visible.push(' ');
            }
            visible.push_str(&part);
        }
    };
    let mut splitter = ThinkSplitter::default();
    splitter.feed(text, &mut take);
    splitter.finish(&mut take);
    visible.replace("</think>", " ").replace("<think>", " ")
}

struct Reader<'a> {
    text: &'a str,
    tools: &'a [String],
    out: TaggedReply,
    calls: usize,
    /// The number of calls that could not be parsed. Each may have required a scan of all remaining input.
    failed: usize,
    /// Tags without another closing tag, so that it is not searched for again.
    unclosed: Vec<&'static str>,
    /// Text outside of the blocks, each part with the number of blocks before it.
    loose: Vec<(usize, Range<usize>)>,
    /// Calls outside of tags.
    bare: Vec<Range<usize>>,
}

impl Reader<'_> {
    fn run(&mut self) {
        let text = self.text;
        let mut at = 0;
        while at < text.len() {
            let rest = &text[at..];
            let blank = rest.len() - rest.trim_start().len();
            at += blank;
            let rest = &text[at..];
            if rest.is_empty() {
                break;
            }
            at += match quote_at(text, at, true) {
                Some(quote) => self.quoted(at, quote),
                None if rest.starts_with('<') => self.tag(at),
                None => self.stray(at),
            };
        }
        let out = &self.out;
        let nothing = out.blocks.is_empty() && out.violations.is_empty() && out.errors.is_empty();
        if nothing && !text.trim().is_empty() {
            self.out.violations.push(
                "the reply has none of the blocks <tool_call>, <assistant_prose>, <user_response>, <done>"
                    .to_string(),
            );
        }
    }

    fn finish(self) -> TaggedReply {
        let text = self.text;
        let mut out = self.out;
        out.violations.truncate(MAX_VIOLATIONS);
        out.loose = self.loose.into_iter().map(|(place, span)| (place, text[span].to_owned())).collect();
        out.without_calls = (!self.bare.is_empty()).then(|| {
            let ends = self.bare.iter().map(|call| call.end);
            let starts = self.bare.iter().map(|call| call.start).chain([text.len()]);
            [0].into_iter().chain(ends).zip(starts).map(|(from, to)| &text[from..to]).collect()
        });
        out
    }

    /// Records text outside of the blocks.
    fn loose(&mut self, span: Range<usize>) {
        let text = &self.text[span.clone()];
        let start = span.start + (text.len() - text.trim_start().len());
        let end = start + text.trim().len();
        let place = self.out.blocks.len();
        match self.loose.last_mut() {
            _ if start == end => {}
            Some((at, before)) if *at == place && self.text[before.end..start].trim().is_empty() => {
                before.end = end;
            }
            _ => self.loose.push((place, start..end)),
        }
    }

    /// Parses what starts with `<`; returns the number of bytes used.
    fn tag(&mut self, at: usize) -> usize {
        let rest = &self.text[at..];
        for tag in TAGS {
            let open = format!("<{tag}>");
            let Some(inner) = rest.strip_prefix(open.as_str()) else { continue };
            let close = format!("</{tag}>");
            let end = if self.unclosed.contains(&tag) { None } else { inner.find(&close) };
            let Some(end) = end else {
                if !self.unclosed.contains(&tag) {
                    self.unclosed.push(tag);
                }
                self.out.violations.push(format!("Unclosed <{tag}> tag: expected {close}"));
                return skip_tag(rest);
            };
            self.block(tag, &inner[..end]);
            return open.len() + end + close.len();
        }
        let inner = &rest[1..];
        let name = known_name_at(inner, self.tools).filter(|_| self.failed < MAX_ERRORS);
        let call = name.and_then(|name| {
            let call = parse_call(rest, 1 + name.len(), name);
            self.failed += usize::from(call.is_err());
            Some((name, call.ok()?))
        });
        if let Some((name, call)) = call {
            let id = format!("tc_angle_{name}");
            self.out.blocks.push(Block::Call(ToolCall { id, name: call.name, arguments: call.arguments }));
            self.out.violations.push(format!("`<{name}(...)>` is not a block: wrap the call in <tool_call>"));
            let used = call.end + usize::from(rest[call.end..].starts_with('>'));
            self.bare.push(at..at + used);
            return used;
        }
        let used = skip_tag(rest);
        self.loose(at..at + used);
        let tag = quote(clip(rest[..used].trim_end(), 120));
        self.out.violations.push(format!("Unknown top-level tag {tag}"));
        used
    }

    fn block(&mut self, tag: &str, body: &str) {
        match tag {
            "tool_call" => self.call_block(body),
            "assistant_prose" => self.out.blocks.push(Block::Prose(body.trim().to_string())),
            "user_response" => self.out.blocks.push(Block::Response(body.trim().to_string())),
            _ if body.trim().is_empty() => {
                self.out.violations.push("<done> must hold the done marker".to_string());
            }
            _ => self.out.blocks.push(Block::Done(body.trim().to_string())),
        }
    }

    fn call_block(&mut self, body: &str) {
        let mut found = bare_calls(body, self.tools);
        let explained = !found.errors.is_empty();
        self.out.errors.append(&mut found.errors);
        match found.calls.len() {
            0 => {
                if !explained {
                    let body = quote(clip(body.trim(), 200));
                    self.out
                        .errors
                        .push(format!("<tool_call> body contained no call of a known tool: {body}"));
                }
            }
            1 => {
                for call in found.calls {
                    self.push_call(call.name, call.arguments);
                }
            }
            n => self
                .out
                .errors
                .push(format!("<tool_call> body contained {n} calls; emit one call per <tool_call> block.")),
        }
    }

    fn push_call(&mut self, name: String, arguments: Value) {
        let id = format!("tc_{}", self.calls);
        self.calls += 1;
        self.out.blocks.push(Block::Call(ToolCall { id, name, arguments }));
    }

    /// Skips a quoted span. If it contains calls, the model receives the reason why they were not run.
    fn quoted(&mut self, at: usize, quote: Quote<'_>) -> usize {
        // A fence is text; only the runtime may write its own marks.
        if self.text[at..].starts_with(['`', '~']) {
            self.loose(at..at + quote.len);
        }
        let holds_call =
            has_opening_tag(quote.body) || quote.body.lines().any(|line| begins_call(line, self.tools));
        if holds_call {
            self.out.violations.push(format!("Calls inside {} are quoted text and were not run", quote.kind));
        }
        quote.len
    }

    /// Parses text outside of tags, up to the next known tag or quotation; returns the number of bytes used.
    fn stray(&mut self, at: usize) -> usize {
        let end = self.end_of_stray(at);
        let text = &self.text[at..end];
        let found = if self.failed < MAX_ERRORS { line_calls(text, self.tools) } else { Found::default() };
        self.failed += found.errors.len();
        self.out.errors.extend(found.errors);
        let mut from = at;
        if found.calls.is_empty() {
            let preview = quote(clip(text.trim(), 120));
            self.out.violations.push(format!("Stray text outside response tags: {preview}"));
        } else {
            // The form of ReAct is a form that prompts ask for, not a departure.
            let is_bare = |span: &Range<usize>| !text[span.clone()].starts_with(ACTION);
            let bare = found.calls.iter().zip(&found.spans).filter(|(_, span)| is_bare(span));
            let names: Vec<&str> = bare.map(|(call, _)| call.name.as_str()).collect();
            if !names.is_empty() {
                self.out.violations.push(format!(
                    "Calls outside <tool_call> blocks: {}; wrap each call in <tool_call>",
                    names.join(", ")
                ));
            }
            for (call, span) in found.calls.into_iter().zip(found.spans) {
                self.loose(from..at + span.start);
                from = at + span.end;
                self.bare.push(at + span.start..from);
                self.push_call(call.name, call.arguments);
            }
        }
        self.loose(from..end);
        end - at
    }

    /// Returns the offset of the next opening tag or quotation after `at`. Scans each byte once.
    fn end_of_stray(&self, at: usize) -> usize {
        let (text, bytes) = (self.text, self.text.as_bytes());
        let mut next = at;
        while let Some(found) = bytes[next..].iter().position(|b| matches!(b, b'<' | b'`' | b'~' | b'[')) {
            next += found;
            let opens = |tag: &str| text[next + 1..].strip_prefix(tag).is_some_and(|t| t.starts_with('>'));
            if next > at
                && (bytes[next] == b'<' && TAGS.iter().any(|tag| opens(tag))
                    || quote_at(text, next, false).is_some())
            {
                return next;
            }
            next += 1;
        }
        text.len()
    }
}

/// Returns the length of an unknown tag: up to its `>`, or to the end of the line.
fn skip_tag(rest: &str) -> usize {
    rest.find(['>', '\n']).map_or(rest.len(), |n| n + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use harn_value::json;

    fn read(text: &str) -> TaggedReply {
        parse_reply(text, &["read".to_string(), "write".to_string()])
    }

    #[test]
    fn a_call_with_prose() {
        let reply =
            read("<assistant_prose>hey</assistant_prose>\n<tool_call>\nread({ path: \"x\" })\n</tool_call>");
        assert_eq!(reply.prose(), "hey");
        assert_eq!(
            reply.calls(),
            [ToolCall { id: "tc_0".into(), name: "read".into(), arguments: json!({"path": "x"}) }]
        );
        assert!(reply.violations.is_empty() && reply.errors.is_empty());
        assert_eq!(
            reply.canonical_text().unwrap(),
            "<assistant_prose>\nhey\n</assistant_prose>\n\n<tool_call>\nread({\n  \"path\": \"x\"\n})\n</tool_call>"
        );
    }

    /// Serializing and parsing a call yields the same call, even if its arguments contain what the parser searches for.
    #[test]
    fn calls_written_anew_are_the_same() {
        let pieces = [
            "</tool_call>",
            "<tool_call>",
            "<think>",
            "</think>",
            "<<E\n",
            "\nE\n",
            "\u{8}",
            "\u{c}",
            "\\",
            "\\b",
            "\"",
            "`",
            "```\n",
            "\n",
            "\r",
            "\0",
            "\u{2028}",
            "<",
            "/",
            "//",
            "/*",
            "é",
            "😀",
            "read({})",
            "[end of x result]",
            "</",
            "tool_call>",
            "\t",
            "\u{7f}",
            " ",
        ];
        let mut texts = Vec::new();
        for a in pieces {
            for b in pieces {
                texts.extend(pieces.iter().map(|c| format!("{a}{b}{c}")));
            }
        }
        for texts in texts.chunks(200) {
            let mut arguments = json!({"n": [0, -1, u64::MAX, i64::MIN, 1e300, -0.0, 0.1, 1e16], "x": null, "": {}, "d": [true]});
            for text in texts {
                arguments[text.as_str()] = json!(text.as_str());
            }
            let call = ToolCall { id: "tc_0".into(), name: "read".into(), arguments };
            let reply = TaggedReply { blocks: vec![Block::Call(call.clone())], ..TaggedReply::default() };
            let again = read(&reply.canonical_text().unwrap());
            assert_eq!((again.calls(), again.errors, again.violations), (vec![call], vec![], vec![]));
        }
        // Calls in JSON, as in other protocols, must have an object as arguments too.
        for arguments in ["[1]", "\"[1]\"", "3", "\"x\"", "null"] {
            let text =
                format!(r#"[{{"id": "call_1", "function": {{"name": "read", "arguments": {arguments}}}}}]"#);
            let reply = read(&text);
            assert!(
                reply.calls().iter().all(|call| call.arguments.is_object()),
                "{text}: {:?}",
                reply.calls()
            );
        }
    }

    #[test]
    fn ids_count_over_the_whole_reply() {
        let reply = read("<tool_call>read()</tool_call><tool_call>write()</tool_call>");
        let ids: Vec<String> = reply.calls().into_iter().map(|c| c.id).collect();
        assert_eq!(ids, ["tc_0", "tc_1"]);
    }

    #[test]
    fn the_answer_outranks_prose_and_done_is_seen() {
        let reply = read(
            "<think>x</think><assistant_prose>a</assistant_prose><user_response> b </user_response><done>##DONE##</done>",
        );
        assert_eq!((reply.prose().as_str(), reply.done_marker()), ("b", Some("##DONE##")));
        assert!(read("<done> </done>").violations[0].contains("<done>"));
    }

    #[test]
    fn hostile_text_is_read_in_linear_time() {
        for piece in [
            "<tool_call>",
            "read({ a: <<E\n",
            "line without any call\n",
            "Action: read\n",
            "Action: read\nAction Input: {\n",
            "<think></think>",
            "<b",
            "<a>",
            "`",
        ] {
            let reply = read(&piece.repeat(40_000));
            assert!(reply.violations.len() <= MAX_VIOLATIONS);
        }
    }

    #[test]
    fn quoted_calls_are_not_run() {
        let call = "<tool_call>\nwrite({ a: 1 })\n</tool_call>\nwrite({ a: 2 })\n<write({ a: 3 })>";
        for (open, close) in [
            ("The file says:\n```\n", "\n```\n"),
            ("See\n  ~~~~md\n", "\n~~~~\n"),
            ("The file says:\n```\n", ""),
            ("<tool_result name=\"read\">", "</tool_result>"),
            ("<tool_result>", ""),
            ("<runtime_feedback kind=\"tool_results\">\n", "\n</runtime_feedback>"),
            ("<system-reminder>", "</system-reminder>"),
            ("[result of read]\n", "\n[end of read result]\n"),
            ("[result of read]\n[end of the line\n", "\n[end of read result]\n"),
            (
                "[result of read]\n</think>[end of x result]\n<think></think>[end of x result]\n",
                "\n[end of read result]\n",
            ),
            ("<tool_result>\n</tool_</think>result>\n</tool_<think>a</think>result>\n", "\n</tool_result>"),
        ] {
            let reply = read(&format!("{open}{call}{close}"));
            assert_eq!(reply.calls(), [], "{open}");
            let told = reply.violations.iter().any(|v| v.contains("quoted text and were not run"));
            assert!(told, "{open}{:?}", reply.violations);
        }
        let mixed = format!("```\n{call}\n```\n<tool_call>read({{ a: \"```\" }})</tool_call>");
        assert_eq!(read(&mixed).calls()[0].name, "read");
        assert_eq!(
            read("```js\nread({})\n```").calls().len(),
            1,
            "a reply that is one fence is the call itself"
        );
        assert_eq!(read("<tool_call>\n```\nread({})\n```\n</tool_call>").calls().len(), 1);
    }

    #[test]
    fn calls_in_the_form_of_react_run_without_a_complaint() {
        let text = "Thought: I read it.\nAction: read\nAction Input: {\"a\": 1}\n";
        let reply = read(text);
        assert_eq!(
            reply.calls(),
            [ToolCall { id: "tc_0".into(), name: "read".into(), arguments: json!({"a": 1}) }]
        );
        assert_eq!((&reply.violations, &reply.errors), (&vec![], &vec![]));
        assert_eq!(reply.visible(text), "Thought: I read it.");
        let quoted = read("It says:\n```\nAction: read\nAction Input: {}\n```\n");
        assert!(quoted.calls().is_empty());
        assert!(quoted.violations.iter().any(|v| v.contains("quoted text and were not run")));
    }

    #[test]
    fn text_beside_the_blocks_is_kept_apart() {
        let reply = read(
            "Look:\n```\nread({})\n```\n<b>now</b> </assistant_prose>\nread({ a: 1 })\n<tool_result>x</tool_result>\nso\n<done>D</done> bye",
        );
        assert_eq!(reply.calls().len(), 1);
        assert_eq!(
            reply.with_loose_text().canonical_text().unwrap(),
            "<assistant_prose>\nLook:\n```\nread({})\n```\n<b>now</b> &lt;/assistant_prose>\n</assistant_prose>\n\n\
             <tool_call>\nread({\n  \"a\": 1\n})\n</tool_call>\n\n<assistant_prose>\nso\n</assistant_prose>\n\n\
             <done>D</done>\n\n<assistant_prose>\nbye\n</assistant_prose>"
        );
    }

    #[test]
    fn people_see_no_calls() {
        let visible = |text: &str| read(text).visible(text);
        for call in ["read({ a: 1 })", "tool_call: read({});", "<read({})>", "```js\nread({})\n```"] {
            assert_eq!(visible(call), "", "{call}");
        }
        assert_eq!(visible(r#"[{"id": "x", "function": {"name": "read", "arguments": {}}}]"#), "");
        assert_eq!(
            visible("I look.\nread({}); write({})\nThen <b>more</b>."),
            "I look.\n\nThen <b>more</b>."
        );
        assert_eq!(visible("```\nread({})\n```\nas text"), "```\nread({})\n```\nas text");
        assert_eq!(visible("say `read({})` or <tool_call>read()</tool_call>"), "say `read({})` or");
        assert_eq!(visible("read({})\n<user_response>a</user_response>"), "a");
    }

    #[test]
    fn what_the_model_is_told_forges_nothing() {
        let reply = read("text </runtime_feedback>\n</tool_result>");
        assert!(
            reply
                .violations
                .iter()
                .all(|v| !v.contains("</runtime_feedback>") && !v.contains("</tool_result>"))
        );
    }

    #[test]
    fn departures_are_reported() {
        assert!(read("hello").violations[0].starts_with("Stray text outside response tags: hello"));
        assert!(read("<b>").violations[0].contains("<b>"));
        let reply = read("read({ a: 1 })");
        assert_eq!(reply.calls().len(), 1);
        assert!(reply.violations[0].contains("read"));
        let reply = read("<tool_call>read()\nwrite()</tool_call>");
        assert_eq!(
            reply.errors,
            ["<tool_call> body contained 2 calls; emit one call per <tool_call> block."]
        );
        let reply = read("<read({ a: 1 })>");
        assert_eq!(reply.calls()[0].id, "tc_angle_read");
    }
}
