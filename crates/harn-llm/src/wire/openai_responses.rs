//! OpenAI Responses.

use harn_value::{Data as Value, json};

use super::node::Node;
use super::openai_chat::{reference_names, stop_reason};
use super::out::{Items, said};
use super::outgoing::{Part, Rules, Side, Thoughts, Turn, items};
use super::{
    Body, Decode, WireRequest, asked_output, error_member, merge_overrides, refused, usage_of, wrong_shape,
};
use crate::error::{CallError, LlmError};
use crate::event::{StopReason, StreamEvent};
use crate::json::Object;
use crate::message::ImageSource;
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
    let write = |turn: &Turn<'_>, out: &mut Items<'_>| {
        write_turn(turn, out);
        Ok(())
    };
    let prefill = request.prefill.as_ref().map(|text| said("assistant", text));
    let input = items(&request.messages, &Rules::of(request, Thoughts::None), prefill, &write)?;
    body.insert("input".into(), Value::Null);
    if let Some(most) = asked_output(request) {
        body.insert("max_output_tokens".into(), most.into());
    }
    for (key, value) in [("temperature", request.sampling.temperature), ("top_p", request.sampling.top_p)] {
        if let Some(value) = value {
            body.insert(key.into(), value.into());
        }
    }
    warnings.extend(refused(request, &["top_k", "stop", "seed", "frequency_penalty", "presence_penalty"]));
    if !request.tools.is_empty() {
        body.insert("tools".into(), Value::Null);
        if let Some(choice) = &request.tool_choice {
            body.insert("tool_choice".into(), choice.to_responses());
        }
    }
    if let Thinking::Effort(level) = request.thinking {
        body.insert("reasoning".into(), json!({"effort": level.as_str(), "summary": "auto"}));
    }
    if request.output.channel != OutputChannel::None {
        // The API rejects `json_object` unless a message other than the instructions mentions JSON.
        let object = || json!({"type": "object", "additionalProperties": true});
        let (schema, strict) = match &request.output.schema {
            None => (object(), false),
            Some(schema) => (schema.clone(), request.output.strict),
        };
        let format = json!({"type": "json_schema", "name": "response", "schema": schema, "strict": strict});
        body.insert("text".into(), json!({"format": format}));
    }
    if request.thinking.is_on() || route.caps.reasoning_effort_supported {
        // Other models reject it.
        body.insert("include".into(), json!(["reasoning.encrypted_content"]));
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
        body: Body::new(body)
            .with_list("input", input)
            .with_list("tools", request.tools.written(route.style, &flatten)),
        warnings,
    })
}

/// Flattens a tool in the shape of Chat Completions; meta-tools are unchanged.
fn flatten(tool: &Value) -> Value {
    if tool.get("type").and_then(Value::as_str) == Some("namespace") {
        let mut space = tool.clone();
        if let Some(tools) = space["tools"].as_array_mut() {
            tools.iter_mut().for_each(|tool| *tool = flatten(tool));
        }
        return space;
    }
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
    // The API makes a schema strict by default.
    out.entry("strict".to_owned()).or_insert(Value::Bool(false));
    Value::Object(out)
}

fn write_turn(turn: &Turn<'_>, out: &mut Items<'_>) {
    let role = match turn.side {
        Side::Model => "assistant",
        Side::User => "user",
        Side::System => "system",
        Side::Developer => "developer",
    };
    // The parts of the message itself; calls and results are separate items.
    let is_said = |part: &&Part<'_>| match part {
        Part::Text { .. } | Part::Image(_) | Part::Document(_) => true,
        Part::Own(value) => turn.side != Side::Model || value.get("refusal").is_some(),
        Part::Call(_) | Part::Result(_) | Part::Thought { .. } => false,
    };
    let write_said = |out: &mut Items<'_>| {
        if turn.side == Side::Model {
            let texts = turn.parts.iter().filter(is_said).filter_map(|part| match part {
                Part::Text { text, .. } => Some(&**text),
                Part::Own(value) => value.get("refusal").and_then(Value::as_str),
                _ => None,
            });
            // Content parts require replies with ids; an assistant message in the input is a string.
            texts.for_each(|text| out.written(&said(role, text)));
        } else if turn.parts.iter().any(|part| is_said(&part)) {
            out.object(|message| {
                message.text("role", role);
                message.list("content", |list| {
                    turn.parts.iter().filter(is_said).for_each(|part| write_part(part, list));
                });
            });
        }
    };
    // The model's parts stay in order, because reasoning must precede the items that it led to. User content comes
    // after results.
    let mut has_spoken = false;
    for part in &turn.parts {
        // The model's text comes before its calls.
        let begins = is_said(&part) || matches!(part, Part::Call(_));
        if turn.side == Side::Model && begins && !std::mem::replace(&mut has_spoken, true) {
            write_said(out);
        }
        match part {
            Part::Own(item) if turn.side == Side::Model && !is_said(&part) => out.value(item),
            part => write_own_item(part, out),
        }
    }
    if turn.side != Side::Model {
        write_said(out);
    }
}

fn write_part(part: &Part<'_>, out: &mut Items<'_>) {
    match part {
        Part::Text { text, .. } => out.object(|part| {
            part.text("type", "input_text");
            part.text("text", text);
        }),
        Part::Image(image) => out.object(|part| {
            part.text("type", "input_image");
            part.text("image_url", &image.to_url());
            // The API requires it.
            part.text("detail", image.detail.as_deref().unwrap_or("auto"));
        }),
        Part::Document(document) => out.object(|part| {
            part.text("type", "input_file");
            match &document.source {
                ImageSource::Url(url) => part.text("file_url", url),
                ImageSource::Base64(_) => {
                    part.text("filename", &document.file_name());
                    part.text("file_data", &document.source.to_url(&document.media_type));
                }
            }
        }),
        Part::Own(value) => out.value(value),
        // Not part of a message.
        Part::Call(_) | Part::Result(_) | Part::Thought { .. } => {}
    }
}

fn write_own_item(part: &Part<'_>, out: &mut Items<'_>) {
    match part {
        Part::Call(call) => out.object(|item| {
            item.text("type", "function_call");
            item.text("call_id", &call.id);
            item.text("name", &call.name);
            item.text("arguments", &call.arguments.to_string());
        }),
        Part::Result(answer) => out.object(|item| {
            item.text("type", "function_call_output");
            item.text("call_id", &answer.id);
            if answer.parts.media.is_empty() {
                return item.text("output", &answer.parts.text);
            }
            item.list("output", |list| {
                answer.each_part().for_each(|part| write_part(&part, list));
            });
        }),
        _ => {}
    }
}

fn read_item(item: &Node<'_>, index: usize, out: &mut Vec<StreamEvent>) {
    let text = |key: &str| item.string_at(key);
    match item.str_at("type").unwrap_or_default() {
        "message" => {
            for part in item.list_at("content") {
                if let Some(text) = part.str_at("text").or_else(|| part.str_at("refusal")) {
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
            take_item(item, out);
            let parts: Vec<&str> = item.list_at("summary").iter().filter_map(|s| s.str_at("text")).collect();
            if !parts.is_empty() {
                out.push(StreamEvent::ReasoningSummary(parts.join("\n\n")));
            }
        }
        _ => {
            take_item(item, out);
            read_search(item, out);
        }
    }
}

/// Emits an item that is sent back unchanged. Reasoning is sent back only if it is encrypted, because the server stores
/// nothing.
fn take_item(item: &Node<'_>, out: &mut Vec<StreamEvent>) {
    match item.str_at("type").unwrap_or_default() {
        "" | "message" | "function_call" => {}
        "reasoning" if item.present("encrypted_content").is_none() => {}
        _ => out.push(StreamEvent::TurnData(item.to_value())),
    }
}

fn read_search(item: &Node<'_>, out: &mut Vec<StreamEvent>) {
    match item.str_at("type").unwrap_or_default() {
        "tool_search_call" => {
            let query = ["arguments", "query", "input"].iter().find_map(|k| item.present(k));
            let query = match query.map_or(Value::Null, Node::to_value) {
                Value::String(text) => serde_json::from_str(&text).unwrap_or(Value::String(text)),
                other => other,
            };
            out.push(StreamEvent::SearchQuery {
                id: item.str_at("call_id").or_else(|| item.str_at("id")).unwrap_or_default().into(),
                name: item.str_at("name").unwrap_or("tool_search").into(),
                query,
            });
        }
        "tool_search_output" => {
            let tools = if item.get("tools").is_some() {
                item.list_at("tools")
            } else {
                item.list_at("tool_references")
            };
            out.push(StreamEvent::SearchResult {
                tool_use_id: item.str_at("call_id").or_else(|| item.str_at("id")).unwrap_or_default().into(),
                tool_names: reference_names(tools),
            });
        }
        _ => {}
    }
}

fn read_end(response: &Node<'_>, called: bool, refused: bool, out: &mut Vec<StreamEvent>) {
    if let Some(usage) = response.present("usage") {
        out.push(StreamEvent::Usage(usage_of(usage)));
    }
    let reason = response.at("incomplete_details").str_at("reason");
    let stop = match (response.str_at("status"), reason) {
        (Some("incomplete"), Some(reason)) => StopReason::from_provider(reason),
        (Some("completed"), _) if called => StopReason::ToolUse,
        (Some(status), _) => stop_reason(status, refused),
        (None, _) => return,
    };
    out.push(StreamEvent::Stop(stop));
}

fn is_refusal(item: &Node<'_>) -> bool {
    item.list_at("content").iter().any(|part| part.str_at("type") == Some("refusal"))
}

fn is_call(item: &Node<'_>) -> bool {
    item.str_at("type") == Some("function_call")
}

pub(super) fn read(provider: &str, body: &Node<'_>) -> Result<Vec<StreamEvent>, LlmError> {
    if let Some(error) = error_member(provider, body) {
        return Err(error);
    }
    let Some(items) = body.at("output").as_list() else {
        return Err(wrong_shape(provider, body));
    };
    let mut out = Vec::new();
    if let Some(model) = body.str_at("model") {
        out.push(StreamEvent::Model(model.into()));
    }
    for (index, item) in items.iter().enumerate() {
        read_item(item, index, &mut out);
    }
    read_end(body, items.iter().any(is_call), items.iter().any(is_refusal), &mut out);
    Ok(out)
}

/// Decodes the event stream.
pub(super) struct Decoder {
    provider: String,
    over: bool,
    called: bool,
    refused: bool,
    /// Items that were streamed, whose final form contains nothing new.
    streamed: std::collections::BTreeSet<usize>,
    /// Whether there was already a summary, so that the next one starts a new paragraph.
    summarised: bool,
}

impl Decoder {
    pub(super) fn new(provider: String) -> Self {
        Decoder {
            provider,
            over: false,
            called: false,
            refused: false,
            streamed: Default::default(),
            summarised: false,
        }
    }
}

impl Decode for Decoder {
    fn message(&mut self, value: &Node<'_>, out: &mut Vec<StreamEvent>) -> Result<(), LlmError> {
        let index = value.index_at("output_index").unwrap_or(0);
        let delta = || value.string_at("delta");
        match value.str_at("type").unwrap_or_default() {
            kind @ ("response.output_text.delta" | "response.refusal.delta") => {
                self.refused |= kind == "response.refusal.delta";
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
                let item = value.at("item");
                if is_call(item) {
                    self.called = true;
                    let text = |key: &str| item.str_at(key).map(str::to_string);
                    out.push(StreamEvent::ToolCallStart { index, id: text("call_id"), name: text("name") });
                }
            }
            "response.output_item.done" => {
                let item = value.at("item");
                self.called |= is_call(item);
                self.refused |= is_refusal(item);
                if self.streamed.contains(&index) {
                    take_item(item, out);
                } else {
                    read_item(item, index, out);
                }
            }
            "response.created" => {
                if let Some(model) = value.at("response").str_at("model") {
                    out.push(StreamEvent::Model(model.into()));
                }
            }
            "response.completed" | "response.incomplete" => {
                self.over = true;
                read_end(value.at("response"), self.called, self.refused, out);
            }
            "response.failed" => {
                let response = value.at("response");
                return Err(error_member(&self.provider, response).unwrap_or_else(|| {
                    LlmError::api(&self.provider, &json!({"message": "the response failed"}))
                }));
            }
            "error" => {
                let error = error_member(&self.provider, value);
                return Err(error.unwrap_or_else(|| LlmError::api(&self.provider, &value.to_value())));
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
    use super::super::node::read_value;
    use super::*;
    use crate::sample;
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
        let body = wire.body.to_json();
        assert_eq!(
            body["input"],
            json!([
                {"role": "user", "content": [{"type": "input_text", "text": "u"}]},
                {"role": "assistant", "content": "t"},
                {"type": "function_call", "call_id": "a", "name": "x", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "a", "output": "r"}])
        );
        assert_eq!(body["tools"][0]["name"], "x");
        assert_eq!(body["tools"][0]["strict"], false);
        assert_eq!(body["tools"][0]["namespace"], "n");
        assert_eq!(body["tools"][1].get("namespace"), None);
        assert_eq!(body["tool_choice"], json!({"type": "function", "name": "x"}));
        assert_eq!((&body["instructions"], &body["store"]), (&json!("s"), &json!(false)));
    }

    #[test]
    fn a_whole_reply() {
        let events = read_value(
            read,
            "openai",
            json!({"status": "completed", "output": [
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
        let r = builder.finish("openai", "m", crate::config::Dialect::Openai).unwrap();
        assert_eq!((r.text.as_str(), r.thinking_summary.as_deref()), ("hi", Some("s1\n\ns2")));
        assert_eq!((r.stop_reason.as_deref(), r.usage.cache_read), (Some("tool_use"), Some(2)));
        assert_eq!((r.tool_calls.len(), r.blocks.len()), (1, 7));
        assert_eq!(
            r.to_json()["blocks"].as_array().map(Vec::len),
            Some(5),
            "programs see no data of the provider"
        );
    }
}
