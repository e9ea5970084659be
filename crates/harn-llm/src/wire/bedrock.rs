//! Amazon Bedrock: the Converse API.

use std::collections::BTreeMap;

use bytes::Bytes;
use harn_value::{Data as Value, json};

use super::anthropic::JSON_TOOL;
use super::names::wire_name;
use super::node::Node;
use super::out::{Items, object};
use super::outgoing::{Part, Rules, Side, Thoughts, Turn, is_claude, items};
use super::{
    Body, Decode, NOT_OFFERED, Warning, WireRequest, asked_output, claude, error_member, refused,
    sent_overrides, system_parts, wrong_shape,
};
use crate::error::{CallError, LlmError};
use crate::event::{StopReason, StreamEvent, Usage};
use crate::json::{Object, str_at};
use crate::message::ImageSource;
use crate::options::Thinking;
use crate::request::{OutputChannel, Request};
use crate::structured::provider_schema::inlined;
use crate::tools::ToolChoice;

pub(super) fn encode(request: &Request) -> Result<WireRequest, CallError> {
    let route = &request.route;
    let mut warnings = Vec::new();
    let mut body = Object::new();
    let system = system_parts(request);
    if !system.is_empty() {
        body.insert("system".into(), json!([{"text": system.join("\n\n")}]));
    }
    body.insert("messages".into(), Value::Null);
    // Keys that the API passes on to the model.
    let mut fields = Object::new();
    let thinking = if is_claude(&route.model) {
        claude::write_thinking(request, &mut fields, &mut warnings)
    } else {
        if request.thinking.is_on() {
            let options = "the fields of this model go under the option `bedrock`";
            let text = format!("thinking is not sent to \"{}\": {options}", route.model);
            warnings.push(Warning { text, once: true });
        }
        Thinking::Disabled
    };
    body.insert("inferenceConfig".into(), inference_config(request, thinking, &mut warnings));
    write_tools(request, thinking.is_on(), &mut body);
    warnings.extend(refused(request, &["top_k", "seed", "frequency_penalty", "presence_penalty"]));
    let mut own: Object = sent_overrides(&request.overrides).into_iter().collect();
    match own.shift_remove("additionalModelRequestFields") {
        Some(Value::Object(extra)) => fields.extend(extra),
        _ => fields.extend(own),
    }
    if !fields.is_empty() {
        body.insert("additionalModelRequestFields".into(), Value::Object(fields));
    }
    let prefill = match is_claude(&route.model) {
        true => claude::prefill(request, &mut warnings),
        false => request.prefill.as_ref(),
    };
    let mut path = route.endpoint.replace("{model}", &percent_encode(&route.model));
    let stream = request.stream && (route.caps.streams_tools || !body.contains_key("toolConfig"));
    if stream {
        path.push_str("-stream");
    }
    Ok(WireRequest {
        url: route.url(&path),
        headers: Vec::new(),
        stream,
        body: Body::new(body).with_list("messages", turns(request, prefill)?),
        warnings,
    })
}

/// Percent-encodes everything except unreserved characters.
pub(crate) fn percent_encode(text: &str) -> String {
    text.bytes()
        .map(|b| match b {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(b).to_string(),
            _ => format!("%{b:02X}"),
        })
        .collect()
}

fn inference_config(request: &Request, thinking: Thinking, warnings: &mut Vec<Warning>) -> Value {
    let mut out = Object::new();
    if let Some(most) = asked_output(request) {
        out.insert("maxTokens".into(), most.into());
    }
    let sampling = &request.sampling;
    let [(_, temperature), (_, top_p)] = if is_claude(&request.route.model) {
        claude::sampling(request, thinking, warnings)
    } else {
        [("temperature", sampling.temperature), ("top_p", sampling.top_p)]
    };
    for (key, value) in [("temperature", temperature), ("topP", top_p)] {
        if let Some(value) = value {
            out.insert(key.into(), value.into());
        }
    }
    if !sampling.stop.is_empty() {
        out.insert("stopSequences".into(), sampling.stop.clone().into());
    }
    Value::Object(out)
}

fn tool_spec(name: &str, description: &str, schema: &Value) -> Value {
    let mut spec = json!({"name": name, "inputSchema": {"json": schema}});
    // The API rejects an empty description.
    if !description.is_empty() {
        spec["description"] = description.into();
    }
    json!({"toolSpec": spec})
}

fn write_tools(request: &Request, thinks: bool, body: &mut Object) {
    let any_object = json!({"type": "object"});
    let spec = |tool: &Value| {
        let f = tool.get("function")?;
        let schema = f.get("parameters").map_or_else(|| any_object.clone(), inlined);
        let description = str_at(f, "description").unwrap_or_default();
        Some(tool_spec(&wire_name(str_at(f, "name")?), description, &schema))
    };
    // The API cannot disable calls, so the tools are left out.
    let is_forbidden = request.tool_choice == Some(ToolChoice::None);
    let mut specs: Vec<Value> = request.tools.iter().filter(|_| !is_forbidden).filter_map(spec).collect();
    let mut choice = match &request.tool_choice {
        Some(ToolChoice::Auto) => Some(json!({"auto": {}})),
        Some(ToolChoice::Required) => Some(json!({"any": {}})),
        Some(ToolChoice::Tool(name)) => Some(json!({"tool": {"name": wire_name(name)}})),
        Some(ToolChoice::Raw(value)) => Some(value.clone()),
        Some(ToolChoice::None) | None => None,
    };
    if request.output.channel == OutputChannel::Tool {
        if let Some(schema) = claude::reply_schema(request) {
            let definition = json!({"name": "response", "schema": schema.to_string()});
            let format = json!({"type": "json_schema", "structure": {"jsonSchema": definition}});
            body.insert("outputConfig".into(), json!({"textFormat": format}));
        } else {
            // Forcing this tool would prevent calls of other tools, and is rejected while thinking is on.
            if specs.is_empty() && !thinks && request.output.forces_tool {
                choice = Some(json!({"tool": {"name": JSON_TOOL}}));
            }
            let schema = request.output.schema.as_ref().map_or_else(|| any_object.clone(), inlined);
            specs.push(tool_spec(JSON_TOOL, &request.output.tool_description, &schema));
        }
    }
    // A history with calls is rejected if the request has no tools.
    if specs.is_empty() {
        let called = request.messages.called_tools();
        specs = called.iter().map(|name| tool_spec(&wire_name(name), NOT_OFFERED, &any_object)).collect();
        choice = None;
    }
    if specs.is_empty() {
        return;
    }
    let mut config = json!({"tools": specs});
    if let Some(choice) = choice {
        config["toolChoice"] = choice;
    }
    body.insert("toolConfig".into(), config);
}

fn turns(request: &Request, prefill: Option<&String>) -> Result<Vec<Bytes>, CallError> {
    let write = |turn: &Turn<'_>, out: &mut Items<'_>| {
        out.object(|message| {
            message.text("role", if turn.side == Side::Model { "assistant" } else { "user" });
            message.list("content", |list| turn.parts.iter().for_each(|part| write_part(part, list)));
        });
        Ok(())
    };
    let prefill = prefill.map(|text| text.trim_end()).filter(|text| !text.is_empty());
    let prefill = prefill.map(|text| {
        object(|message| {
            message.text("role", "assistant");
            message.list("content", |list| list.object(|block| block.text("text", text)));
        })
    });
    // Other models reason by default.
    let thinks = request.thinking.is_on() || !is_claude(&request.route.model);
    let thoughts = if thinks { Thoughts::Signed } else { Thoughts::None };
    items(&request.messages, &Rules::of(request, thoughts), prefill, &write)
}

fn write_part(part: &Part<'_>, out: &mut Items<'_>) {
    match part {
        Part::Text { text, .. } => out.object(|out| out.text("text", text)),
        Part::Image(image) => out.object(|out| {
            out.object("image", |out| {
                out.text("format", image.media_type.rsplit('/').next().unwrap_or("png"));
                out.object("source", |source| match &image.source {
                    ImageSource::Base64(data) => source.text("bytes", data),
                    ImageSource::Url(url) => source.object("s3Location", |place| place.text("uri", url)),
                });
            });
        }),
        Part::Document(document) => out.object(|out| {
            out.object("document", |out| {
                out.text("format", document.extension());
                out.text("name", &document.plain_name());
                out.object("source", |source| match &document.source {
                    ImageSource::Base64(data) => source.text("bytes", data),
                    ImageSource::Url(url) => source.object("s3Location", |place| place.text("uri", url)),
                });
            });
        }),
        Part::Call(call) => out.object(|out| {
            out.object("toolUse", |out| {
                out.text("toolUseId", &call.id);
                out.text("name", &call.name);
                out.value("input", &call.arguments);
            });
        }),
        Part::Result(answer) => out.object(|out| {
            out.object("toolResult", |out| {
                out.text("toolUseId", &answer.id);
                out.list("content", |list| {
                    let mut any = false;
                    for part in answer.each_part() {
                        any = true;
                        write_part(&part, list);
                    }
                    // Bedrock also rejects an empty result.
                    if !any {
                        list.object(|out| out.text("text", "[no output]"));
                    }
                });
                out.text("status", if answer.failed { "error" } else { "success" });
            });
        }),
        Part::Own(value) => out.value(value),
        Part::Thought { text, signature } => out.object(|out| {
            out.object("reasoningContent", |out| {
                out.object("reasoningText", |out| {
                    out.text("text", text);
                    out.text("signature", signature.unwrap_or_default());
                });
            });
        }),
    }
}

/// Ends a reasoning block. A block without text or signature is returned as opaque provider data.
fn close_thought(text: &str, signature: String, block: Value, out: &mut Vec<StreamEvent>) {
    let is_whole = !text.is_empty() && !signature.is_empty();
    out.push(if is_whole { StreamEvent::Signature(signature) } else { StreamEvent::TurnData(block) });
}

pub(super) fn read(provider: &str, body: &Node<'_>) -> Result<Vec<StreamEvent>, LlmError> {
    if let Some(error) = error_member(provider, body) {
        return Err(error);
    }
    let content = body.at("output").at("message").at("content").as_list();
    let Some(content) = content else { return Err(wrong_shape(provider, body)) };
    let mut out = Vec::new();
    for (index, block) in content.iter().enumerate() {
        if let Some(text) = block.str_at("text") {
            out.push(StreamEvent::Text(text.into()));
        } else if let Some(call) = block.get("toolUse") {
            let text = |key: &str| call.str_at(key).map(str::to_string);
            out.push(StreamEvent::ToolCallStart { index, id: text("toolUseId"), name: text("name") });
            let arguments = call.get("input").map(Node::to_string).unwrap_or_default();
            out.push(StreamEvent::ToolCallDelta { index, arguments });
        } else if let Some(thought) = block.get("reasoningContent") {
            let part = thought.at("reasoningText");
            let text = part.string_at("text");
            out.push(StreamEvent::Reasoning(text.clone()));
            close_thought(&text, part.string_at("signature"), block.to_value(), &mut out);
        }
    }
    if let Some(usage) = body.get("usage") {
        out.push(StreamEvent::Usage(usage_of(usage)));
    }
    if let Some(reason) = body.str_at("stopReason") {
        out.push(StreamEvent::Stop(StopReason::from_provider(reason)));
    }
    Ok(out)
}

fn usage_of(usage: &Node<'_>) -> Usage {
    Usage {
        input: usage.int_at("inputTokens"),
        output: usage.int_at("outputTokens"),
        cache_read: usage.int_at("cacheReadInputTokens"),
        cache_write: usage.int_at("cacheWriteInputTokens"),
        ..Usage::default()
    }
    .with_cached_input()
}

/// A reasoning block of a stream, as far as it has arrived.
#[derive(Default)]
struct Thought {
    text: String,
    signature: String,
    redacted: String,
}

/// Decodes the event stream.
pub(super) struct Decoder {
    provider: String,
    thoughts: BTreeMap<usize, Thought>,
    stopped: bool,
    /// Whether the token usage, which arrives last, was read.
    counted: bool,
}

impl Decoder {
    pub(super) fn new(provider: String) -> Self {
        Decoder { provider, thoughts: BTreeMap::new(), stopped: false, counted: false }
    }

    fn block_delta(&mut self, index: usize, delta: &Node<'_>, out: &mut Vec<StreamEvent>) {
        if let Some(text) = delta.str_at("text") {
            out.push(StreamEvent::Text(text.into()));
        } else if let Some(call) = delta.get("toolUse") {
            out.push(StreamEvent::ToolCallDelta { index, arguments: call.string_at("input") });
        } else if let Some(part) = delta.get("reasoningContent") {
            let thought = self.thoughts.entry(index).or_default();
            thought.signature.push_str(part.str_at("signature").unwrap_or_default());
            thought.redacted.push_str(part.str_at("redactedContent").unwrap_or_default());
            if let Some(text) = part.str_at("text") {
                thought.text.push_str(text);
                out.push(StreamEvent::Reasoning(text.into()));
            }
        }
    }
}

impl Thought {
    /// Emits the events with which the reasoning is sent back, as for a reply in one piece.
    fn finish(self, out: &mut Vec<StreamEvent>) {
        let Thought { text, signature, redacted } = self;
        if !redacted.is_empty() {
            out.push(StreamEvent::TurnData(json!({"reasoningContent": {"redactedContent": redacted}})));
            return;
        }
        let part = if signature.is_empty() {
            json!({"text": text})
        } else {
            json!({"text": text, "signature": signature})
        };
        close_thought(&text, signature, json!({"reasoningContent": {"reasoningText": part}}), out);
    }
}

/// Creates the error of an exception in a stream, with the status that the service uses outside of streams.
fn exception(provider: &str, exception: &Node<'_>) -> LlmError {
    const STATUSES: [(&str, i64); 6] = [
        ("throttlingException", 429),
        ("serviceUnavailableException", 503),
        ("modelNotReadyException", 503),
        ("modelTimeoutException", 408),
        ("validationException", 400),
        ("accessDeniedException", 403),
    ];
    let status = STATUSES.iter().find(|(name, _)| exception.get(name).is_some());
    // For other exceptions, the model or the service failed during the reply.
    let status = status.map_or(500, |(_, status)| *status);
    let (name, payload) = match exception {
        Node::Object(members) => {
            members.first().map_or(("error", &Node::Null), |(name, payload)| (name, payload))
        }
        _ => ("error", exception),
    };
    let said = payload.str_at("message").or_else(|| payload.str_at("originalMessage"));
    let message = format!("{name}: {}", said.unwrap_or("no message"));
    LlmError::api(provider, &json!({"code": status, "message": message}))
}

impl Decode for Decoder {
    fn message(&mut self, value: &Node<'_>, out: &mut Vec<StreamEvent>) -> Result<(), LlmError> {
        if let Some(failed) = value.get("exception") {
            return Err(exception(&self.provider, failed));
        }
        let at = |event: &Node<'_>| event.index_at("contentBlockIndex").unwrap_or(0);
        if let Some(event) = value.get("contentBlockStart") {
            if let Some(call) = event.at("start").get("toolUse") {
                let text = |key: &str| call.str_at(key).map(str::to_string);
                let (id, name) = (text("toolUseId"), text("name"));
                out.push(StreamEvent::ToolCallStart { index: at(event), id, name });
            }
        } else if let Some(event) = value.get("contentBlockDelta") {
            self.block_delta(at(event), event.at("delta"), out);
        } else if let Some(event) = value.get("contentBlockStop") {
            if let Some(thought) = self.thoughts.remove(&at(event)) {
                thought.finish(out);
            }
        } else if let Some(event) = value.get("messageStop") {
            self.stopped = true;
            let reason = event.str_at("stopReason").unwrap_or("end_turn");
            out.push(StreamEvent::Stop(StopReason::from_provider(reason)));
        } else if let Some(event) = value.get("metadata") {
            self.counted = true;
            out.push(StreamEvent::Usage(usage_of(event.at("usage"))));
        }
        Ok(())
    }

    fn is_complete(&self) -> bool {
        self.stopped
    }

    fn is_over(&self) -> bool {
        self.stopped && self.counted
    }
}

#[cfg(test)]
mod tests {
    use super::super::node::read_value;
    use super::*;
    use crate::sample;

    #[test]
    fn a_conversation_with_tools() {
        let wire = encode(&sample::request(
            "bedrock",
            "anthropic.claude-3:0",
            json!({"system": "s", "max_tokens": 5, "tools": [{"name": "t"}], "tool_choice": "required", "bedrock": {"k": 1},
                "messages": [{"role": "user", "content": "u"},
                {"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "t", "arguments": "{}"}},
                                                     {"id": "b", "function": {"name": "t", "arguments": "{}"}}]},
                {"role": "tool", "tool_call_id": "a", "content": "1"}, {"role": "tool", "tool_call_id": "b", "content": "2"}]}),
        ))
        .unwrap();
        assert!(
            wire.url.ends_with("/model/anthropic.claude-3%3A0/converse-stream") && wire.stream,
            "{}",
            wire.url
        );
        let result = |id: &str, text: &str| json!({"toolResult": {"toolUseId": id, "content": [{"text": text}], "status": "success"}});
        assert_eq!(
            wire.body.to_json()["messages"][2],
            json!({"role": "user", "content": [result("a", "1"), result("b", "2")]})
        );
        assert_eq!(wire.body.to_json()["toolConfig"]["toolChoice"], json!({"any": {}}));
        assert_eq!(wire.body.to_json()["additionalModelRequestFields"], json!({"k": 1}));
    }

    #[test]
    fn replies_have_a_format_or_a_tool() {
        let (format, tool) = ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "amazon.nova-pro-v1:0");
        let body = |model: &str, options: Value| {
            encode(&sample::request("bedrock", model, options)).unwrap().body.to_json()
        };
        let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
        let asked = body(format, json!({"schema": schema, "tools": [{"name": "t"}]}));
        let definition = &asked["outputConfig"]["textFormat"]["structure"]["jsonSchema"];
        let sent: Value = serde_json::from_str(definition["schema"].as_str().unwrap()).unwrap();
        assert_eq!((&sent["required"], &sent["additionalProperties"]), (&json!(["n"]), &json!(false)));
        assert_eq!(asked["toolConfig"]["tools"].as_array().unwrap().len(), 1);
        // The format would be weaker than this schema.
        let limited = json!({"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}});
        for (model, schema) in [(format, &limited), (tool, &schema)] {
            let asked = body(model, json!({"schema": schema}));
            assert_eq!(asked.get("outputConfig"), None, "{model}");
            assert_eq!(asked["toolConfig"]["toolChoice"], json!({"tool": {"name": "json_response"}}));
            let spec = &asked["toolConfig"]["tools"][0]["toolSpec"];
            assert_eq!(&spec["inputSchema"]["json"], schema);
        }
        // With other tools, or while thinking is on, the tool cannot be forced.
        for more in [json!({"tools": [{"name": "t"}]}), json!({"thinking": true})] {
            let mut options = json!({"schema": schema});
            options.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let asked = body("anthropic.claude-sonnet-4-20250514-v1:0", options);
            assert_eq!(asked["toolConfig"].get("toolChoice"), None);
            assert!(asked["toolConfig"]["tools"].to_string().contains("json_response"));
        }
        assert_eq!(body("meta.llama3-70b-instruct-v1:0", json!({"schema": schema})).get("toolConfig"), None);
    }

    #[test]
    fn messages_that_say_nothing_part_no_turns() {
        let thought = json!([{"type": "reasoning", "text": "hm"}]);
        let messages = json!([{"role": "user", "content": "q"}, {"role": "assistant", "content": thought},
            {"role": "user", "content": "next"}, {"role": "assistant", "content": "ok"},
            {"role": "user", "content": ""}, {"role": "assistant", "content": "more"}]);
        let request = sample::request("bedrock", "anthropic.claude-3:0", json!({"messages": messages}));
        let body = encode(&request).unwrap().body.to_json();
        let turn =
            |role: &str, a: &str, b: &str| json!({"role": role, "content": [{"text": a}, {"text": b}]});
        assert_eq!(body["messages"], json!([turn("user", "q", "next"), turn("assistant", "ok", "more")]));
    }

    #[test]
    fn a_reply() {
        let events = read_value(
            read,
            "bedrock",
            json!({"output": {"message": {"content": [{"text": "a"},
            {"toolUse": {"toolUseId": "x", "name": "t", "input": {"k": 1}}}]}}, "stopReason": "tool_use",
            "usage": {"inputTokens": 1, "outputTokens": 2}}),
        )
        .unwrap();
        assert_eq!(events.len(), 5);
    }
}
