//! Google Gemini: `generateContent`, on the public API and on Vertex AI.

use bytes::Bytes;
use harn_value::{Data as Value, json};

use super::names::wire_name;
use super::node::Node;
use super::out::{Items, object};
use super::outgoing::{Part, Rules, Side, Thoughts, Turn, items};
use super::{
    Body, Decode, WireRequest, asked_output, error_member, merge_overrides, refused, system_parts,
    wrong_shape,
};
use crate::error::{CallError, LlmError};
use crate::event::{StopReason, StreamEvent, Usage};
use crate::json::{Object, str_at};
use crate::message::ImageSource;
use crate::options::Thinking;
use crate::request::{OutputChannel, Request};
use crate::structured::provider_schema::for_gemini;
use crate::tools::{ToolChoice, ToolShape, strip_for_wire};

pub(super) fn encode(request: &Request) -> Result<WireRequest, CallError> {
    let route = &request.route;
    let mut warnings = Vec::new();
    let mut body = Object::new();
    let system = system_parts(request);
    body.insert("contents".into(), Value::Null);
    if !system.is_empty() {
        body.insert("system_instruction".into(), json!({"parts": [{"text": system.join("\n\n")}]}));
    }
    body.insert("generationConfig".into(), generation_config(request));
    write_tools(request, &mut body);
    warnings.extend(refused(request, &["seed", "frequency_penalty", "presence_penalty"]));
    merge_overrides(&mut body, &request.overrides);
    let model = route.model.strip_prefix("models/").unwrap_or(&route.model);
    let mut path = route.endpoint.replace("{model}", model);
    if request.stream {
        path = path.replace(":generateContent", ":streamGenerateContent?alt=sse");
    }
    Ok(WireRequest {
        url: route.url(&path),
        headers: Vec::new(),
        stream: request.stream,
        body: Body::new(body).with_list("contents", contents(request)?),
        warnings,
    })
}

fn generation_config(request: &Request) -> Value {
    let mut out = Object::new();
    if let Some(most) = asked_output(request) {
        out.insert("maxOutputTokens".into(), most.into());
    }
    for (key, value) in [("temperature", request.sampling.temperature), ("topP", request.sampling.top_p)] {
        if let Some(value) = value {
            out.insert(key.into(), value.into());
        }
    }
    if let Some(top_k) = request.sampling.top_k {
        out.insert("topK".into(), top_k.into());
    }
    if !request.sampling.stop.is_empty() {
        out.insert("stopSequences".into(), request.sampling.stop.clone().into());
    }
    if request.output.channel != OutputChannel::None {
        out.insert("responseMimeType".into(), "application/json".into());
        if let Some(schema) = &request.output.schema {
            out.insert("responseSchema".into(), for_gemini(schema));
        }
    }
    if let Some(config) = thinking_config(request) {
        out.insert("thinkingConfig".into(), config);
    }
    Value::Object(out)
}

/// Returns the thinking options: a budget in tokens or a level, depending on the capabilities. Source: Google, "Gemini
/// thinking".
fn thinking_config(request: &Request) -> Option<Value> {
    /// The model itself decides how much it thinks.
    const DYNAMIC: i64 = -1;
    let by_budget = request.route.caps.thinks("enabled");
    Some(match request.thinking {
        Thinking::Disabled => return None,
        Thinking::Enabled { budget_tokens: Some(0) } => json!({"thinkingBudget": 0}),
        Thinking::Enabled { budget_tokens } if by_budget => {
            json!({"includeThoughts": true, "thinkingBudget": budget_tokens.unwrap_or(DYNAMIC)})
        }
        Thinking::Effort(level) => {
            json!({"includeThoughts": true, "thinkingLevel": level.as_str().to_ascii_uppercase()})
        }
        Thinking::Enabled { .. } | Thinking::Adaptive => json!({"includeThoughts": true}),
    })
}

fn write_tools(request: &Request, body: &mut Object) {
    let declarations: Vec<Value> = request
        .tools
        .iter()
        .map(|tool| strip_for_wire(tool, ToolShape::OpenAi))
        .filter_map(|mut tool| tool.get_mut("function").map(std::mem::take))
        .map(|mut function| {
            if let Some(parameters) = function.get_mut("parameters") {
                *parameters = for_gemini(parameters);
            }
            function
        })
        .collect();
    if declarations.is_empty() {
        return;
    }
    body.insert("tools".into(), json!([{"functionDeclarations": declarations}]));
    let config = match &request.tool_choice {
        None => return,
        Some(ToolChoice::Auto) => json!({"mode": "AUTO"}),
        Some(ToolChoice::None) => json!({"mode": "NONE"}),
        Some(ToolChoice::Required) => json!({"mode": "ANY"}),
        Some(ToolChoice::Tool(name)) => json!({"mode": "ANY", "allowedFunctionNames": [wire_name(name)]}),
        Some(ToolChoice::Raw(value)) => value.clone(),
    };
    body.insert("toolConfig".into(), json!({"functionCallingConfig": config}));
}

/// Placeholder signature for a call that the model did not make itself: Gemini 3 rejects a turn whose first call has no
/// signature. Source: Google Cloud, "Thought signatures".
pub(super) const UNSIGNED: &str = "skip_thought_signature_validator";

fn contents(request: &Request) -> Result<Vec<Bytes>, CallError> {
    let rules = Rules::of(request, Thoughts::None);
    let signs = rules.demands_signature();
    let write = |turn: &Turn<'_>, out: &mut Items<'_>| {
        out.object(|message| {
            message.text("role", if turn.side == Side::Model { "model" } else { "user" });
            let first = turn.calls().next().filter(|_| signs);
            message.list("parts", |list| {
                for part in &turn.parts {
                    let signs = matches!(part, Part::Call(call) if first == Some(call));
                    write_part(part, signs, list);
                }
            });
        });
        Ok(())
    };
    let prefill = request.prefill.as_ref().map(|text| {
        object(|message| {
            message.text("role", "model");
            message.list("parts", |list| list.object(|part| part.text("text", text)));
        })
    });
    items(&request.messages, &rules, prefill, &write)
}

/// Serializes a part; with `signs`, it is a call that needs a signature.
fn write_part(part: &Part<'_>, signs: bool, out: &mut Items<'_>) {
    let own = |data: &Option<&Value>, key: &str| data.and_then(|data| str_at(data, key)).map(str::to_owned);
    match part {
        Part::Text { text, data, .. } => out.object(|part| {
            part.text("text", text);
            if let Some(signature) = own(data, "thoughtSignature") {
                part.text("thoughtSignature", &signature);
            }
        }),
        Part::Image(image) => write_media(&image.source, &image.media_type, out),
        Part::Document(document) => write_media(&document.source, &document.media_type, out),
        Part::Call(call) => out.object(|part| {
            part.object("functionCall", |out| {
                if let Some(id) = own(&call.data, "id") {
                    out.text("id", &id);
                }
                out.text("name", &call.name);
                out.value("args", &call.arguments);
            });
            let signature =
                own(&call.data, "thoughtSignature").or_else(|| signs.then(|| UNSIGNED.to_owned()));
            if let Some(signature) = signature {
                part.text("thoughtSignature", &signature);
            }
        }),
        Part::Result(answer) => out.object(|part| {
            part.object("functionResponse", |out| {
                if let Some(id) = own(&answer.data, "id") {
                    out.text("id", &id);
                }
                out.text("name", &answer.name);
                if answer.content.is_object() {
                    return out.value("response", &answer.content);
                }
                let key = if answer.failed { "error" } else { "result" };
                out.object("response", |response| match answer.parts.media.as_slice() {
                    [] => response.value(key, &answer.content),
                    _ => response.text(key, &answer.parts.marked()),
                });
            });
        }),
        Part::Own(value) => out.value(value),
        // Gemini does not receive reasoning.
        Part::Thought { .. } => {}
    }
}

fn write_media(from: &ImageSource, media_type: &str, out: &mut Items<'_>) {
    let (kind, key, value) = match from {
        ImageSource::Base64(data) => ("inline_data", "data", data),
        ImageSource::Url(url) => ("file_data", "file_uri", url),
    };
    out.object(|part| {
        part.object(kind, |data| {
            data.text("mime_type", media_type);
            data.text(key, value);
        });
    });
}

/// Reads a reply; each message of a stream is one too.
fn read_part(body: &Node<'_>, calls: &mut usize, out: &mut Vec<StreamEvent>) -> bool {
    if let Some(usage) = body.get("usageMetadata") {
        // Reasoning tokens and the prompts of provider-side tools are reported separately, but billed.
        let sum = |a: &str, b: &str| match (usage.int_at(a), usage.int_at(b)) {
            (Some(a), Some(b)) => a.checked_add(b),
            (a, b) => a.or(b),
        };
        out.push(StreamEvent::Usage(Usage {
            input: sum("promptTokenCount", "toolUsePromptTokenCount"),
            output: sum("candidatesTokenCount", "thoughtsTokenCount"),
            cache_read: usage.int_at("cachedContentTokenCount"),
            reasoning: usage.int_at("thoughtsTokenCount"),
            ..Usage::default()
        }));
    }
    let Some(candidate) = body.list_at("candidates").first() else {
        let blocked = body.at("promptFeedback").str_at("blockReason");
        if let Some(reason) = blocked {
            out.push(StreamEvent::Stop(StopReason::from_provider(reason)));
        }
        return blocked.is_some();
    };
    for part in candidate.at("content").list_at("parts") {
        if let Some(call) = part.get("functionCall") {
            let index = *calls;
            *calls += 1;
            let name = call.str_at("name").map(str::to_string);
            let own = call.str_at("id").filter(|id| !id.is_empty());
            let id = Some(own.map_or_else(|| format!("gemini_tool_{index}"), str::to_owned));
            out.push(StreamEvent::ToolCallStart { index, id, name });
            let arguments = call.get("args").map(Node::to_string).unwrap_or_default();
            out.push(StreamEvent::ToolCallDelta { index, arguments });
            let mut data = Object::new();
            for (key, value) in [("id", own), ("thoughtSignature", part.str_at("thoughtSignature"))] {
                if let Some(value) = value {
                    data.insert(key.into(), value.into());
                }
            }
            if !data.is_empty() {
                out.push(StreamEvent::CallData { index, data: Value::Object(data) });
            }
            continue;
        }
        if part.get("text").is_none() {
            // For example code that the provider ran.
            out.push(StreamEvent::TurnData(part.to_value()));
        }
        if let Some(signature) = part.str_at("thoughtSignature").filter(|_| part.get("text").is_some()) {
            out.push(StreamEvent::TextData(json!({"thoughtSignature": signature})));
        }
        if let Some(text) = part.str_at("text").filter(|t| !t.is_empty()) {
            let private = part.is_true("thought");
            out.push(if private {
                StreamEvent::Reasoning(text.into())
            } else {
                StreamEvent::Text(text.into())
            });
        }
    }
    let Some(reason) = candidate.str_at("finishReason") else { return false };
    let stop = StopReason::from_provider(reason);
    out.push(StreamEvent::Stop(if *calls > 0 && stop == StopReason::EndTurn {
        StopReason::ToolUse
    } else {
        stop
    }));
    true
}

pub(super) fn read(provider: &str, body: &Node<'_>) -> Result<Vec<StreamEvent>, LlmError> {
    if let Some(error) = error_member(provider, body) {
        return Err(error);
    }
    // The reply to a streaming request may be a list of replies.
    let replies = match body {
        Node::Array(list) => list.as_slice(),
        one => std::slice::from_ref(one),
    };
    let (mut out, mut calls, mut ended) = (Vec::new(), 0, false);
    for reply in replies {
        if let Some(error) = error_member(provider, reply) {
            return Err(error);
        }
        ended |= read_part(reply, &mut calls, &mut out);
    }
    if ended || !out.is_empty() { Ok(out) } else { Err(wrong_shape(provider, body)) }
}

/// Decodes the event stream.
pub(super) struct Decoder {
    provider: String,
    calls: usize,
    ended: bool,
}

impl Decoder {
    pub(super) fn new(provider: String) -> Self {
        Decoder { provider, calls: 0, ended: false }
    }
}

impl Decode for Decoder {
    fn message(&mut self, value: &Node<'_>, out: &mut Vec<StreamEvent>) -> Result<(), LlmError> {
        if let Some(error) = error_member(&self.provider, value) {
            return Err(error);
        }
        self.ended |= read_part(value, &mut self.calls, out);
        Ok(())
    }

    fn is_complete(&self) -> bool {
        self.ended
    }

    fn is_over(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::super::node::read_value;
    use super::*;
    use crate::sample;

    #[test]
    fn a_request_in_parts() {
        let wire = encode(&sample::request(
            "gemini",
            "gemini-2.5-pro",
            json!({"system": "s", "max_tokens": 5, "schema": {"type": "object", "additionalProperties": false},
                "tools": [{"name": "t"}], "tool_choice": {"name": "t"}, "messages": [
                {"role": "user", "content": [{"type": "text", "text": "u"}, {"type": "image", "url": "gs://x", "media_type": "image/png"}]},
                {"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "t", "arguments": "{}"}}]},
                {"role": "tool", "tool_call_id": "a", "content": "r"}]}),
        ))
        .unwrap();
        assert_eq!(
            wire.url,
            "https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse"
        );
        assert_eq!(
            wire.body.to_json(),
            json!({
                "contents": [
                    {"role": "user", "parts": [{"text": "u"}, {"file_data": {"mime_type": "image/png", "file_uri": "gs://x"}}]},
                    {"role": "model", "parts": [{"functionCall": {"name": "t", "args": {}}}]},
                    {"role": "user", "parts": [{"functionResponse": {"name": "t", "response": {"result": "r"}}}]}],
                "system_instruction": {"parts": [{"text": "s"}]},
                "generationConfig": {"maxOutputTokens": 5, "responseMimeType": "application/json", "responseSchema": {"type": "object"}},
                "tools": [{"functionDeclarations": [{"name": "t", "description": "",
                    "parameters": {"type": "object", "properties": {}, "required": []}}]}],
                "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["t"]}}})
        );
    }

    #[test]
    fn empty_texts_are_not_sent() {
        let calls = json!([{"id": "a", "function": {"name": "t", "arguments": "{}"}}]);
        let messages = json!([{"role": "user", "content": "u"}, {"role": "assistant", "content": "", "tool_calls": calls},
                              {"role": "tool", "tool_call_id": "a", "content": "r"}]);
        let request = sample::request("gemini", "gemini-2.5-pro", json!({"messages": messages}));
        let body = encode(&request).unwrap().body.to_json();
        assert_eq!(body["contents"][1]["parts"], json!([{"functionCall": {"name": "t", "args": {}}}]));
    }

    #[test]
    fn a_reply_in_parts() {
        let events = read_value(read,
            "gemini",
            json!({"candidates": [{"content": {"parts": [{"text": "hm", "thought": true}, {"text": "a"},
                {"functionCall": {"name": "t", "args": {"k": 1}}}]}, "finishReason": "STOP"}],
                "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 4, "cachedContentTokenCount": 1}}),
        )
        .unwrap();
        let mut builder = crate::response::ResponseBuilder::default();
        events.iter().for_each(|e| builder.push(e));
        let r = builder.finish("gemini", "m", crate::config::Dialect::Plain).unwrap();
        assert_eq!(
            (r.text.as_str(), r.thinking.as_deref(), r.stop_reason.as_deref()),
            ("a", Some("hm"), Some("tool_use"))
        );
        assert_eq!((r.tool_calls[0].id.as_str(), r.usage.cache_read), ("gemini_tool_0", Some(1)));
        assert!(read_value(read, "gemini", json!({"x": 1})).is_err());
    }
}
