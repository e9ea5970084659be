//! OpenAI Responses.

use serde_json::{Value, json};

use super::openai_chat::reference_names;
use super::{Decode, WireRequest, error_member, merge_overrides, unsupported, wrong_shape};
use crate::error::{CallError, LlmError};
use crate::event::{StopReason, StreamEvent, Usage};
use crate::json::{Object, list_at, present, str_at};
use crate::message::{ContentBlock, Message, Role, normalise, result_text};
use crate::options::Thinking;
use crate::request::{OutputChannel, Request};
use crate::tools::{ToolShape, strip_for_wire};

pub(super) fn encode(request: &Request) -> Result<WireRequest, CallError> {
    let route = &request.route;
    let mut warnings = Vec::new();
    let mut body = Object::new();
    body.insert("model".into(), route.model.as_str().into());
    if let Some(system) = &request.system {
        body.insert("instructions".into(), system.as_str().into());
    }
    let mut input = Vec::new();
    for message in normalise(&request.messages)? {
        write_message(&message, request.system_hoisted, &mut input);
    }
    if let Some(prefill) = &request.prefill {
        input.push(json!({"role": "assistant", "content": [{"type": "output_text", "text": prefill}]}));
    }
    body.insert("input".into(), input.into());
    if request.max_tokens > 0 {
        body.insert("max_output_tokens".into(), request.max_tokens.into());
    }
    for (key, value) in [("temperature", request.temperature), ("top_p", request.top_p)] {
        if let Some(value) = value {
            body.insert(key.into(), value.into());
        }
    }
    for (param, given) in [
        ("top_k", request.top_k.is_some()),
        ("stop", !request.stop.is_empty()),
        ("seed", request.seed.is_some()),
        ("frequency_penalty", request.frequency_penalty.is_some()),
        ("presence_penalty", request.presence_penalty.is_some()),
    ] {
        if given {
            warnings.push(unsupported(param, &route.provider));
        }
    }
    if !request.tools.is_empty() {
        body.insert("tools".into(), request.tools.iter().map(flatten).collect());
        if let Some(choice) = &request.tool_choice {
            body.insert("tool_choice".into(), choice.to_responses());
        }
    }
    if let Thinking::Effort(level) = request.thinking {
        body.insert("reasoning".into(), json!({"effort": level.as_str(), "summary": "auto"}));
    }
    if request.output.channel != OutputChannel::None {
        let format = match &request.output.schema {
            None => json!({"type": "json_object"}),
            Some(schema) => {
                json!({"type": "json_schema", "name": "response", "schema": schema, "strict": request.output.strict})
            }
        };
        body.insert("text".into(), json!({"format": format}));
    }
    body.insert("store".into(), false.into());
    if request.stream {
        body.insert("stream".into(), true.into());
    }
    merge_overrides(&mut body, &request.overrides);
    Ok(WireRequest {
        url: route.url(&route.endpoint),
        headers: Vec::new(),
        stream: request.stream,
        body: Value::Object(body),
        warnings,
    })
}

/// Flattens a tool in the shape of Chat Completions; meta-tools pass.
fn flatten(tool: &Value) -> Value {
    let tool = strip_for_wire(tool, ToolShape::OpenAi);
    let Some(function) = tool.get("function").and_then(Value::as_object) else { return tool };
    let mut out = Object::new();
    out.insert("type".into(), "function".into());
    out.extend(function.clone());
    for key in ["defer_loading", "namespace"] {
        if let Some(value) = tool.get(key) {
            out.insert(key.into(), value.clone());
        }
    }
    Value::Object(out)
}

fn write_message(message: &Message, hoisted: bool, out: &mut Vec<Value>) {
    if hoisted && matches!(message.role, Role::System | Role::Developer) {
        return;
    }
    let text_type = if message.role == Role::Assistant { "output_text" } else { "input_text" };
    let mut content = Vec::new();
    let mut items = Vec::new();
    for block in &message.content {
        match block {
            ContentBlock::Text(text) if text.is_empty() => {}
            ContentBlock::Text(text) => content.push(json!({"type": text_type, "text": text})),
            ContentBlock::Image(image) => {
                let mut part = json!({"type": "input_image", "image_url": image.to_url()});
                if let Some(detail) = &image.detail {
                    part["detail"] = detail.as_str().into();
                }
                content.push(part);
            }
            ContentBlock::ToolUse(call) => items.push(json!({"type": "function_call", "call_id": call.id,
                "name": call.name, "arguments": call.arguments.to_string()})),
            ContentBlock::ToolResult { id, content, .. } => {
                items.push(
                    json!({"type": "function_call_output", "call_id": id, "output": result_text(content)}),
                );
            }
            ContentBlock::Reasoning { .. } => {}
            ContentBlock::Other(value) => content.push(value.clone()),
        }
    }
    let turn = (!content.is_empty()).then(|| json!({"role": message.role.as_str(), "content": content}));
    // The model speaks before it calls; the user speaks after results.
    if message.role == Role::Assistant {
        out.extend(turn);
        out.extend(items);
    } else {
        let empty = turn.is_none() && items.is_empty();
        out.extend(items);
        out.extend(turn);
        if empty {
            out.push(json!({"role": message.role.as_str(), "content": [{"type": text_type, "text": ""}]}));
        }
    }
}

fn read_item(item: &Value, index: usize, out: &mut Vec<StreamEvent>) {
    let text = |key: &str| str_at(item, key).unwrap_or_default().to_string();
    match str_at(item, "type").unwrap_or_default() {
        "message" => {
            for part in list_at(item, "content") {
                if let Some(text) = str_at(part, "text").or_else(|| str_at(part, "refusal")) {
                    out.push(StreamEvent::Text(text.into()));
                }
            }
        }
        "function_call" => {
            out.push(StreamEvent::ToolCallStart {
                index,
                id: Some(text("call_id")),
                name: Some(text("name")),
            });
            out.push(StreamEvent::ToolCallDelta { index, arguments: text("arguments") });
        }
        "reasoning" => {
            let parts: Vec<&str> =
                list_at(item, "summary").iter().filter_map(|s| str_at(s, "text")).collect();
            if !parts.is_empty() {
                out.push(StreamEvent::ReasoningSummary(parts.join("\n\n")));
            }
        }
        _ => read_search(item, out),
    }
}

fn read_search(item: &Value, out: &mut Vec<StreamEvent>) {
    match str_at(item, "type").unwrap_or_default() {
        "tool_search_call" => {
            let query = ["arguments", "query", "input"].iter().find_map(|k| present(item, k)).cloned();
            let query = match query {
                Some(Value::String(text)) => serde_json::from_str(&text).unwrap_or(Value::String(text)),
                other => other.unwrap_or(Value::Null),
            };
            out.push(StreamEvent::SearchQuery {
                id: str_at(item, "call_id").or_else(|| str_at(item, "id")).unwrap_or_default().into(),
                name: str_at(item, "name").unwrap_or("tool_search").into(),
                query,
            });
        }
        "tool_search_output" => {
            let tools = if item.get("tools").is_some() {
                list_at(item, "tools")
            } else {
                list_at(item, "tool_references")
            };
            out.push(StreamEvent::SearchResult {
                tool_use_id: str_at(item, "call_id")
                    .or_else(|| str_at(item, "id"))
                    .unwrap_or_default()
                    .into(),
                tool_names: reference_names(tools),
            });
        }
        _ => {}
    }
}

fn read_end(response: &Value, called: bool, out: &mut Vec<StreamEvent>) {
    if let Some(usage) = present(response, "usage") {
        out.push(StreamEvent::Usage(Usage::from_json(usage)));
    }
    let reason = response.get("incomplete_details").and_then(|d| str_at(d, "reason"));
    let stop = match (str_at(response, "status"), reason) {
        (Some("incomplete"), Some(reason)) => StopReason::from_provider(reason),
        (Some("completed"), _) if called => StopReason::ToolUse,
        (Some(status), _) => StopReason::from_provider(status),
        (None, _) => return,
    };
    out.push(StreamEvent::Stop(stop));
}

fn is_call(item: &Value) -> bool {
    str_at(item, "type") == Some("function_call")
}

pub(super) fn read(provider: &str, body: &Value) -> Result<Vec<StreamEvent>, LlmError> {
    if let Some(error) = error_member(provider, body) {
        return Err(error);
    }
    let Some(items) = body.get("output").and_then(Value::as_array) else {
        return Err(wrong_shape(provider, body));
    };
    let mut out = Vec::new();
    if let Some(model) = str_at(body, "model") {
        out.push(StreamEvent::Model(model.into()));
    }
    for (index, item) in items.iter().enumerate() {
        read_item(item, index, &mut out);
    }
    read_end(body, items.iter().any(is_call), &mut out);
    Ok(out)
}

/// Reads the event stream.
pub(super) struct Decoder {
    provider: String,
    over: bool,
    called: bool,
    /// Items of which deltas were seen, so that their final form says nothing new.
    streamed: std::collections::BTreeSet<usize>,
    /// Whether a summary was seen already, so that the next one starts a new paragraph.
    summarised: bool,
}

impl Decoder {
    pub(super) fn new(provider: String) -> Self {
        Decoder { provider, over: false, called: false, streamed: Default::default(), summarised: false }
    }
}

impl Decode for Decoder {
    fn message(&mut self, value: &Value, out: &mut Vec<StreamEvent>) -> Result<(), LlmError> {
        let index = value
            .get("output_index")
            .and_then(Value::as_u64)
            .and_then(|n| usize::try_from(n).ok())
            .unwrap_or(0);
        let delta = || str_at(value, "delta").unwrap_or_default().to_string();
        match str_at(value, "type").unwrap_or_default() {
            "response.output_text.delta" | "response.refusal.delta" => {
                self.streamed.insert(index);
                out.push(StreamEvent::Text(delta()));
            }
            "response.function_call_arguments.delta" => {
                self.streamed.insert(index);
                out.push(StreamEvent::ToolCallDelta { index, arguments: delta() });
            }
            "response.reasoning_summary_part.added" if self.summarised => {
                out.push(StreamEvent::ReasoningSummary("\n\n".into()));
            }
            "response.reasoning_summary_text.delta" => {
                self.summarised = true;
                self.streamed.insert(index);
                out.push(StreamEvent::ReasoningSummary(delta()));
            }
            "response.output_item.added" => {
                let item = &value["item"];
                if is_call(item) {
                    self.called = true;
                    let text = |key: &str| str_at(item, key).map(str::to_string);
                    out.push(StreamEvent::ToolCallStart { index, id: text("call_id"), name: text("name") });
                }
            }
            "response.output_item.done" => {
                let item = &value["item"];
                self.called |= is_call(item);
                if !self.streamed.contains(&index) {
                    read_item(item, index, out);
                }
            }
            "response.created" => {
                if let Some(model) = str_at(&value["response"], "model") {
                    out.push(StreamEvent::Model(model.into()));
                }
            }
            "response.completed" | "response.incomplete" => {
                self.over = true;
                read_end(&value["response"], self.called, out);
            }
            "response.failed" => {
                let response = &value["response"];
                return Err(error_member(&self.provider, response).unwrap_or_else(|| {
                    LlmError::api(&self.provider, &json!({"message": "the response failed"}))
                }));
            }
            "error" => {
                let error = error_member(&self.provider, value);
                return Err(error.unwrap_or_else(|| LlmError::api(&self.provider, value)));
            }
            _ => {
                if let Some(error) = error_member(&self.provider, value) {
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn is_complete(&self) -> bool {
        self.over
    }

    fn is_over(&self) -> bool {
        self.over
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::sample;
    use crate::wire::WireStyle;

    fn request(options: Value) -> Request {
        let mut request = sample::request("openai", "gpt-5.4", options);
        request.route.style = WireStyle::OpenAiResponses;
        request.route.endpoint = "/responses".into();
        request
    }

    #[test]
    fn history_becomes_items() {
        let wire = encode(&request(json!({"system": "s", "stream": false, "tools": [{"name": "x", "namespace": "n", "defer_loading": true}, {"name": "y", "namespace": "n"}],
            "tool_choice": {"name": "x"}, "messages": [
                {"role": "user", "content": "u"},
                {"role": "assistant", "content": "t", "tool_calls": [{"id": "a", "function": {"name": "x", "arguments": "{}"}}]},
                {"role": "tool", "tool_call_id": "a", "content": "r"}]})))
        .unwrap();
        assert_eq!(wire.url, "https://api.openai.com/v1/responses");
        assert_eq!(
            wire.body["input"],
            json!([
                {"role": "user", "content": [{"type": "input_text", "text": "u"}]},
                {"role": "assistant", "content": [{"type": "output_text", "text": "t"}]},
                {"type": "function_call", "call_id": "a", "name": "x", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "a", "output": "r"}])
        );
        assert_eq!(wire.body["tools"][0]["name"], "x");
        assert_eq!(wire.body["tools"][0]["namespace"], "n");
        assert_eq!(wire.body["tools"][1].get("namespace"), None);
        assert_eq!(wire.body["tool_choice"], json!({"type": "function", "name": "x"}));
        assert_eq!((&wire.body["instructions"], &wire.body["store"]), (&json!("s"), &json!(false)));
    }

    #[test]
    fn a_whole_reply() {
        let events = read(
            "openai",
            &json!({"status": "completed", "output": [
            {"type": "reasoning", "summary": [{"text": "s1"}, {"text": "s2"}]},
            {"type": "tool_search_call", "id": "q", "arguments": "{\"q\":1}"},
            {"type": "tool_search_output", "call_id": "q", "tools": [{"name": "deploy"}]},
            {"type": "message", "content": [{"type": "output_text", "text": "hi"}]},
            {"type": "function_call", "call_id": "c", "name": "x", "arguments": "{}"}],
            "usage": {"input_tokens": 3, "output_tokens": 4, "input_tokens_details": {"cached_tokens": 2}}}),
        )
        .unwrap();
        let mut builder = crate::response::ResponseBuilder::default();
        events.iter().for_each(|e| builder.push(e));
        let r = builder.finish("openai", "m").unwrap();
        assert_eq!((r.text.as_str(), r.thinking_summary.as_deref()), ("hi", Some("s1\n\ns2")));
        assert_eq!((r.stop_reason.as_deref(), r.usage.cache_read), (Some("tool_use"), Some(2)));
        assert_eq!((r.tool_calls.len(), r.blocks.len()), (1, 5));
    }
}
