//! The transcript of a finished call: the messages sent, the reply, and the provider's searches.

use harn_value::{Data as Value, json};

use super::{Ids, event, extra_events, message_events};
use crate::json::Object;
use crate::message::PROVIDER_DATA;
use crate::request::Request;
use crate::response::{About, Block, Response};
use crate::wire::WireStyle;

/// The inputs of a transcript.
pub struct CallRecord<'a> {
    /// The transcript that was continued.
    pub base: Option<&'a Value>,
    /// The request.
    pub request: &'a Request,
    /// The messages of the request that the transcript stores.
    pub messages: Vec<Value>,
    /// The reply.
    pub response: &'a Response,
    /// The applied structural experiment, if any.
    pub experiment: Value,
}

/// Creates the transcript of a call, in state `active`.
pub fn of_call(record: CallRecord<'_>, ids: &Ids<'_>) -> Value {
    let (request, response) = (record.request, record.response);
    let mut messages = record.messages;
    messages.push(assistant_message(request.route.style, response));
    let mut events = message_events(&messages, ids);
    let extra = record.base.map(extra_events).unwrap_or_default();
    events.extend(extra);
    events.extend(search_events(request, response, ids));
    let calls: Vec<Value> = response.tool_calls_json();
    events.push(event(
        "provider_payload",
        "assistant",
        "internal",
        "",
        Some(json!({
            "model": response.model, "input_tokens": response.usage.input.unwrap_or(0),
            "output_tokens": response.usage.output.unwrap_or(0), "tool_calls": calls,
            "thinking_summary": response.thinking_summary, "structural_experiment": record.experiment,
        })),
        ids,
    ));
    for (kind, text) in
        [("private_reasoning", &response.thinking), ("thinking_summary", &response.thinking_summary)]
    {
        if let Some(text) = text {
            events.push(event(kind, "assistant", "private", text, None, ids));
        }
    }
    let mut out = match record.base {
        Some(base) => base.as_object().cloned().unwrap_or_default(),
        None => Object::new(),
    };
    out.insert("_type".into(), "transcript".into());
    out.insert("version".into(), 2.into());
    out.entry("id").or_insert_with(|| ids().into());
    out.insert("messages".into(), messages.into());
    out.insert("events".into(), events.into());
    out.entry("assets").or_insert_with(|| json!([]));
    out.insert("state".into(), "active".into());
    Value::Object(out)
}

/// Creates the assistant message of a transcript: canonical blocks, or the provider's shape of a turn with tool calls.
pub(crate) fn assistant_message(style: WireStyle, response: &Response) -> Value {
    let mut out = json!({"role": "assistant"});
    if response.tool_calls.is_empty() {
        let own = |block: &&Block| !matches!(block, Block::ProviderData(..));
        out["content"] = response.blocks.iter().filter(own).map(Block::to_json).collect();
    } else {
        with_calls(style, response, &mut out);
    }
    if let Some(thinking) = &response.thinking {
        out["reasoning"] = thinking.as_str().into();
    }
    if let Some(data) = provider_data(style, response) {
        out[PROVIDER_DATA] = data;
    }
    out
}

/// Creates the message of a turn that its provider asks to continue.
pub(crate) fn paused_message(style: WireStyle, response: &Response) -> Value {
    let mut out = assistant_message(style, response);
    let data = provider_data(style, response);
    let mut data = data.unwrap_or_else(|| json!({"provider": response.provider, "wire": style.word()}));
    data["paused"] = true.into();
    out[PROVIDER_DATA] = data;
    out
}

/// Returns the provider data of a message: the provider, and the order of its parts with their opaque data. Returns
/// `None` when the reply has no such data.
fn provider_data(style: WireStyle, response: &Response) -> Option<Value> {
    let blocks = &response.blocks;
    let any = blocks.iter().any(|block| matches!(block, Block::ProviderData(..)));
    if !any && !blocks.iter().any(|block| matches!(block, Block::Reasoning(_, Some(_)))) {
        return None;
    }
    let data_of = |wanted: &About| {
        blocks.iter().find_map(|block| match block {
            Block::ProviderData(about, data) if about == wanted => Some(data.clone()),
            _ => None,
        })
    };
    let mut parts: Vec<Value> = Vec::new();
    let mut has_text = false;
    for block in blocks {
        let (part, data) = match block {
            Block::OutputText(_) if !std::mem::replace(&mut has_text, true) => {
                (json!({"part": "text"}), data_of(&About::Text))
            }
            Block::Reasoning(..) => (json!({"part": "reasoning"}), None),
            Block::ToolCall(call) => {
                (json!({"part": "call", "id": call.id}), data_of(&About::Call(call.id.clone())))
            }
            Block::ProviderData(About::Turn, data) => (json!({}), Some(data.clone())),
            _ => continue,
        };
        let mut part = part;
        if let Some(data) = data {
            part["data"] = data;
        }
        parts.push(part);
    }
    Some(json!({
        "provider": response.provider, "wire": style.word(), "model": response.model, "parts": parts,
    }))
}

fn with_calls(style: WireStyle, response: &Response, out: &mut Value) {
    let text = response.text.as_str();
    let signed = response.blocks.iter().filter(|b| matches!(b, Block::Reasoning(_, Some(_))));
    let mut blocks: Vec<Value> = signed.map(Block::to_json).collect();
    match style {
        // Signed reasoning requires a list of blocks.
        _ if style == WireStyle::Anthropic || (style == WireStyle::Bedrock && !blocks.is_empty()) => {
            if !text.is_empty() {
                blocks.push(json!({"type": "text", "text": text}));
            }
            blocks.extend(
                response
                    .tool_calls
                    .iter()
                    .map(|c| json!({"type": "tool_use", "id": c.id, "name": c.name, "input": c.arguments})),
            );
            out["content"] = blocks.into();
        }
        WireStyle::OllamaChat | WireStyle::OllamaRaw => {
            out["content"] = text.into();
            out["tool_calls"] = response
                .tool_calls
                .iter()
                .enumerate()
                .map(|(n, c)| {
                    json!({"id": c.id, "type": "function",
                           "function": {"index": n, "name": c.name, "arguments": c.arguments}})
                })
                .collect();
        }
        _ => {
            out["content"] = text.into();
            out["tool_calls"] = response
                .tool_calls
                .iter()
                .map(|c| {
                    json!({"id": c.id, "type": "function",
                           "function": {"name": c.name, "arguments": c.arguments.to_string()}})
                })
                .collect();
        }
    }
}

/// Returns events for the searches that the provider ran.
pub(crate) fn search_events(request: &Request, response: &Response, ids: &Ids<'_>) -> Vec<Value> {
    // The mock has only one wire format; the given tool shows whose search it imitates.
    let asked = |tool: &Value| tool["type"].as_str().is_some_and(|t| t.starts_with("tool_search_tool_"));
    let anthropic = request.route.style == WireStyle::Anthropic || request.tools.iter().any(asked);
    let mode = if anthropic { "anthropic" } else { "openai" };
    response
        .blocks
        .iter()
        .filter_map(|block| match block {
            Block::SearchQuery { id, name, query } => {
                let metadata = json!({"id": id, "name": name, "query": query, "mode": mode});
                Some(event("tool_search_query", "assistant", "internal", "", Some(metadata), ids))
            }
            Block::SearchResult { tool_use_id, tool_names } => {
                let references: Vec<Value> = tool_names.iter().map(|n| json!({"tool_name": n})).collect();
                let metadata = json!({"tool_use_id": tool_use_id, "tool_references": references,
                                      "promoted": tool_names, "mode": mode});
                Some(event("tool_search_result", "tool", "internal", "", Some(metadata), ids))
            }
            _ => None,
        })
        .collect()
}
