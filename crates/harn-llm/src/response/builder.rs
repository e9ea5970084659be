//! Builds a reply from its events, in the order in which they arrived.

use std::collections::{BTreeMap, BTreeSet};

use super::{About, Block, Response};
use crate::dialect::Dialect;
use crate::error::{Category, LlmError};
use crate::event::{EMPTY, MALFORMED_CALL, StopReason, StreamEvent, Usage};
use crate::message::{ToolCall, parse_arguments};
use crate::wire::anthropic::JSON_TOOL;
use harn_value::Data as Value;

/// Makes a call id unique within its reply. Some servers assign the same id to every call, but results are matched by
/// id, so the second call becomes `<id>_2`, and so on.
fn unused_id(given: String, used: &mut BTreeSet<String>) -> String {
    let mut id = given.clone();
    let mut n = 1;
    while !used.insert(id.clone()) {
        n += 1;
        id = format!("{given}_{n}");
    }
    id
}

/// Builds a [`Response`] from events.
#[derive(Debug, Default)]
pub struct ResponseBuilder {
    blocks: Vec<Slot>,
    calls: BTreeMap<usize, OpenCall>,
    usage: Usage,
    model: Option<String>,
    stop: Option<StopReason>,
    text_data: Option<Value>,
}

#[derive(Debug)]
enum Slot {
    Block(Block),
    /// The position of a call; calls fill the positions in ascending order of index.
    Call,
}

#[derive(Debug, Default)]
struct OpenCall {
    id: Option<String>,
    name: Option<String>,
    arguments: String,
    data: Option<Value>,
}

impl ResponseBuilder {
    /// Processes one event.
    pub fn push(&mut self, event: &StreamEvent) {
        match event {
            // Each attempt has its own builder.
            StreamEvent::Restart | StreamEvent::Sent | StreamEvent::Whole => {}
            StreamEvent::Text(text) => match self.blocks.last_mut() {
                Some(Slot::Block(Block::OutputText(last))) => last.push_str(text),
                _ if text.is_empty() => {}
                _ => self.blocks.push(Slot::Block(Block::OutputText(text.clone()))),
            },
            StreamEvent::Reasoning(text) => match self.blocks.last_mut() {
                Some(Slot::Block(Block::Reasoning(last, None))) => last.push_str(text),
                _ if text.is_empty() => {}
                _ => self.blocks.push(Slot::Block(Block::Reasoning(text.clone(), None))),
            },
            StreamEvent::Signature(text) => {
                let last = self.blocks.iter_mut().rev().find_map(|slot| match slot {
                    Slot::Block(Block::Reasoning(_, signature)) => Some(signature),
                    _ => None,
                });
                if let Some(signature) = last {
                    signature.get_or_insert_default().push_str(text);
                }
            }
            StreamEvent::ReasoningSummary(text) => match self.blocks.last_mut() {
                Some(Slot::Block(Block::ReasoningSummary(last))) => last.push_str(text),
                _ if text.is_empty() => {}
                _ => self.blocks.push(Slot::Block(Block::ReasoningSummary(text.clone()))),
            },
            StreamEvent::ToolCallStart { index, id, name } => {
                let call = self.call(*index);
                if call.id.is_none() {
                    call.id.clone_from(id);
                }
                if call.name.is_none() {
                    call.name.clone_from(name);
                }
            }
            StreamEvent::ToolCallDelta { index, arguments } => {
                self.call(*index).arguments.push_str(arguments)
            }
            StreamEvent::TurnData(data) => {
                self.blocks.push(Slot::Block(Block::ProviderData(About::Turn, data.clone())));
            }
            StreamEvent::TextData(data) => self.text_data = Some(data.clone()),
            StreamEvent::CallData { index, data } => self.call(*index).data = Some(data.clone()),
            StreamEvent::SearchQuery { id, name, query } => {
                self.blocks.push(Slot::Block(Block::SearchQuery {
                    id: id.clone(),
                    name: name.clone(),
                    query: super::search_query(query.clone()),
                }))
            }
            StreamEvent::SearchResult { tool_use_id, tool_names } => {
                self.blocks.push(Slot::Block(Block::SearchResult {
                    tool_use_id: tool_use_id.clone(),
                    tool_names: tool_names.clone(),
                }));
            }
            StreamEvent::Usage(usage) => self.usage.merge(*usage),
            StreamEvent::Model(model) => self.model = Some(model.clone()),
            StreamEvent::Stop(reason) => self.stop = Some(reason.clone()),
        }
    }

    fn call(&mut self, index: usize) -> &mut OpenCall {
        let blocks = &mut self.blocks;
        self.calls.entry(index).or_insert_with(|| {
            blocks.push(Slot::Call);
            OpenCall::default()
        })
    }

    /// Returns the token counts so far.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// Returns the visible text so far.
    pub fn text(&self) -> String {
        self.blocks
            .iter()
            .filter_map(|slot| match slot {
                Slot::Block(Block::OutputText(text)) => Some(text.as_str()),
                _ => None,
            })
            .collect()
    }

    /// Finishes the reply of a route.
    ///
    /// # Errors
    /// The reply is empty.
    pub fn finish(self, provider: &str, model: &str, dialect: Dialect) -> Result<Response, LlmError> {
        let mut out = Response::new(provider, model);
        // Only Ollama replies with a more specific name than the requested one.
        if let Some(answered) = self.model.filter(|_| dialect == Dialect::Ollama) {
            out.model = answered;
        }
        out.usage = self.usage;
        let stop = self.stop;
        out.stop_reason = stop.as_ref().map(|s| s.as_str().to_string());
        let mut ids = BTreeSet::new();
        let mut calls = self.calls.into_iter().map(|(index, call)| {
            let given = call.id.filter(|id| !id.is_empty()).unwrap_or_else(|| format!("call_{index}"));
            let id = unused_id(given, &mut ids);
            let name = call.name.unwrap_or_default();
            (ToolCall { id, name, arguments: parse_arguments(&call.arguments) }, call.data)
        });
        let (mut thinking, mut summary) = (String::new(), String::new());
        let mut forced_json = None;
        for slot in self.blocks {
            let block = match slot {
                Slot::Block(block) => block,
                Slot::Call => match calls.next() {
                    Some((call, _)) if call.name == JSON_TOOL => {
                        forced_json = Some(call.arguments);
                        continue;
                    }
                    Some((call, data)) => {
                        if let Some(data) = data {
                            out.blocks.push(Block::ProviderData(About::Call(call.id.clone()), data));
                        }
                        out.tool_calls.push(call.clone());
                        Block::ToolCall(call)
                    }
                    None => continue,
                },
            };
            match &block {
                Block::OutputText(text) => out.text.push_str(text),
                Block::Reasoning(text, _) => thinking.push_str(text),
                Block::ReasoningSummary(text) => summary.push_str(text),
                _ => {}
            }
            out.blocks.push(block);
        }
        if let Some(data) = self.text_data.filter(|_| !out.text.is_empty()) {
            out.blocks.push(Block::ProviderData(About::Text, data));
        }
        // With calls of other tools the turn is not over, even if the model has already answered.
        if let Some(json) = forced_json.filter(|_| out.tool_calls.is_empty()) {
            let text = match out.text.trim().is_empty() {
                true => json.to_string(),
                false => format!("\n\n{json}"),
            };
            out.text.push_str(&text);
            out.blocks.push(Block::OutputText(text));
            out.answer = Some(json);
            if out.stop_reason.as_deref() == Some("tool_use") {
                out.stop_reason = Some("end_turn".to_string());
            }
        }
        let says = |block: &Block| !matches!(block, Block::ProviderData(..));
        let empty = !out.blocks.iter().any(says) && out.text.is_empty();
        match &stop {
            _ if !empty => {}
            Some(StopReason::Other(word)) if word == MALFORMED_CALL => {
                let message = format!("model {model} made a call that its provider could not read");
                return Err(not_answered(message, MALFORMED_CALL).with_usage(out.usage));
            }
            // A refusal or a filtered reply may be empty.
            Some(StopReason::Other(_)) => {}
            _ => {
                let message = match out.usage.output.filter(|n| *n > 0) {
                    Some(n) => empty_completion(dialect, model, n),
                    // prose-ok: diagnostic
                    None => format!("model {model} delivered no content and reported no tokens"),
                };
                return Err(not_answered(message, EMPTY).with_usage(out.usage));
            }
        }
        out.thinking = Some(thinking).filter(|t| !t.is_empty());
        out.thinking_summary = Some(summary).filter(|t| !t.is_empty());
        Ok(out)
    }
}

/// Creates the error of a reply without an answer, which is retried.
fn not_answered(message: String, reason: &'static str) -> LlmError {
    let mut error = LlmError::new(Category::ServerError, message);
    error.reason = reason;
    error
}

fn empty_completion(dialect: Dialect, model: &str, tokens: i64) -> String {
    if dialect == Dialect::Ollama {
        format!(
            // prose-ok: diagnostic
            "ollama model {model} reported eval_count={tokens} but delivered no content or thinking; \
             the server may have dropped the reply, try again or use another model"
        )
    } else {
        format!(
            "openai-compatible model {model} reported completion_tokens={tokens} but delivered no content, \
             reasoning, or tool calls"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use harn_value::json;

    fn build(events: &[StreamEvent]) -> Response {
        let mut builder = ResponseBuilder::default();
        events.iter().for_each(|e| builder.push(e));
        builder.finish("p", "m", Dialect::Plain).unwrap()
    }

    fn start(index: usize, id: &str, name: &str) -> StreamEvent {
        StreamEvent::ToolCallStart { index, id: Some(id.into()), name: Some(name.into()) }
    }

    fn delta(index: usize, text: &str) -> StreamEvent {
        StreamEvent::ToolCallDelta { index, arguments: text.into() }
    }

    #[test]
    fn fragments_merge_and_calls_are_ordered_by_index() {
        let r = build(&[
            StreamEvent::Text("a".into()),
            StreamEvent::Text("b".into()),
            start(1, "y", "two"),
            start(0, "x", "one"),
            delta(0, "{\"k\""),
            delta(1, "nope"),
            delta(0, ":1}"),
        ]);
        assert_eq!((r.text.as_str(), r.blocks.len()), ("ab", 3));
        assert_eq!(
            r.tool_calls[0],
            ToolCall { id: "x".into(), name: "one".into(), arguments: json!({"k": 1}) }
        );
        let error = r.tool_calls[1].arguments["__parse_error"].as_str().unwrap();
        assert!(
            error.starts_with("Could not parse tool arguments as JSON: ")
                && error.ends_with("Raw input: nope")
        );
    }

    #[test]
    fn reasoning_alone_is_the_text() {
        let r = build(&[StreamEvent::Reasoning("hm".into()), StreamEvent::Signature("s".into())]);
        assert_eq!((r.text.as_str(), r.thinking.as_deref()), ("", Some("hm")));
        let dict = r.to_json();
        assert_eq!(
            (&dict["text"], &dict["visible_text"], &dict["prose"]),
            (&json!("hm"), &json!(""), &json!(""))
        );
        assert_eq!(r.blocks[0].to_json()["signature"], "s");
    }

    #[test]
    fn the_forced_json_tool_becomes_text() {
        let r = build(&[
            start(0, "x", JSON_TOOL),
            delta(0, "{\"a\": 1}"),
            StreamEvent::Stop(StopReason::ToolUse),
        ]);
        assert_eq!(
            (r.text.as_str(), r.tool_calls.len(), r.stop_reason.as_deref()),
            ("{\"a\":1}", 0, Some("end_turn"))
        );
    }

    #[test]
    fn counted_tokens_without_content_are_an_error() {
        let mut builder = ResponseBuilder::default();
        builder.push(&StreamEvent::Usage(Usage { output: Some(7), ..Usage::default() }));
        let error = builder.finish("openai", "m", Dialect::Openai).unwrap_err();
        assert_eq!(
            error.message,
            "openai-compatible model m reported completion_tokens=7 but delivered no content, reasoning, or tool calls"
        );
        assert_eq!(error.kind, crate::error::Kind::Transient);
    }

    #[test]
    fn the_result_dict_has_its_fields() {
        let mut r = build(&[StreamEvent::Text("hi".into())]);
        r.read_tags(&crate::response::Offered::default());
        let dict = r.to_json();
        for key in [
            "text",
            "visible_text",
            "prose",
            "model",
            "provider",
            "input_tokens",
            "output_tokens",
            "cache_read_tokens",
            "cache_write_tokens",
            "cache_creation_input_tokens",
            "cache_hit_ratio",
            "cache_savings_usd",
            "usage",
            "blocks",
        ] {
            assert!(dict.get(key).is_some(), "{key}");
        }
        assert!(dict.get("tool_calls").is_none() && dict.get("thinking").is_none());
    }
}
