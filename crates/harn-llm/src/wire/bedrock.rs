//! Amazon Bedrock: the Converse API. Replies come in one piece.

use bytes::Bytes;
use harn_value::{Data as Value, json};

use super::names::wire_name;
use super::node::Node;
use super::out::{Items, object};
use super::outgoing::{Part, Rules, Side, Thoughts, Turn, items};
use super::{
    Body, NOT_OFFERED, WireRequest, asked_output, error_member, refused, sent_overrides, system_parts,
    wrong_shape,
};
use crate::error::{CallError, LlmError};
use crate::event::{StopReason, StreamEvent, Usage};
use crate::json::{Object, str_at};
use crate::message::ImageSource;
use crate::request::Request;
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
    body.insert("inferenceConfig".into(), inference_config(request));
    write_tools(request, &mut body);
    warnings.extend(refused(request, &["top_k", "seed", "frequency_penalty", "presence_penalty"]));
    // What the caller adds goes where the API takes keys it does not know itself.
    let own: Object = sent_overrides(&request.overrides).into_iter().collect();
    if let Some(extra) = own.get("additionalModelRequestFields") {
        body.insert("additionalModelRequestFields".into(), extra.clone());
    } else if !own.is_empty() {
        body.insert("additionalModelRequestFields".into(), Value::Object(own));
    }
    Ok(WireRequest {
        url: route.url(&route.endpoint.replace("{model}", &percent_encode(&route.model))),
        headers: Vec::new(),
        stream: false,
        body: Body::new(body).with_list("messages", turns(request)?),
        warnings,
    })
}

/// Encodes everything but unreserved characters.
pub(crate) fn percent_encode(text: &str) -> String {
    text.bytes()
        .map(|b| match b {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(b).to_string(),
            _ => format!("%{b:02X}"),
        })
        .collect()
}

fn inference_config(request: &Request) -> Value {
    let mut out = Object::new();
    if let Some(most) = asked_output(request) {
        out.insert("maxTokens".into(), most.into());
    }
    for (key, value) in [("temperature", request.sampling.temperature), ("topP", request.sampling.top_p)] {
        if let Some(value) = value {
            out.insert(key.into(), value.into());
        }
    }
    if !request.sampling.stop.is_empty() {
        out.insert("stopSequences".into(), request.sampling.stop.clone().into());
    }
    Value::Object(out)
}

fn write_tools(request: &Request, body: &mut Object) {
    let specs: Vec<Value> = request
        .tools
        .iter()
        .filter_map(|tool| {
            let f = tool.get("function")?;
            let schema = f.get("parameters").map_or_else(|| json!({"type": "object"}), inlined);
            let mut spec = json!({"name": wire_name(str_at(f, "name")?), "inputSchema": {"json": schema}});
            // The API refuses an empty description.
            if let Some(description) = str_at(f, "description").filter(|d| !d.is_empty()) {
                spec["description"] = description.into();
            }
            Some(json!({"toolSpec": spec}))
        })
        .collect();
    // There is no way to forbid calls but to leave the tools out. A history with calls is rejected without any.
    if specs.is_empty() || request.tool_choice == Some(ToolChoice::None) {
        let spec = |name: &String| {
            let schema = json!({"json": {"type": "object"}});
            json!({"toolSpec": {"name": wire_name(name), "description": NOT_OFFERED, "inputSchema": schema}})
        };
        let called: Vec<Value> = request.messages.called_tools().iter().map(spec).collect();
        if !called.is_empty() {
            body.insert("toolConfig".into(), json!({"tools": called}));
        }
        return;
    }
    let mut config = json!({"tools": specs});
    match &request.tool_choice {
        Some(ToolChoice::Auto) => config["toolChoice"] = json!({"auto": {}}),
        Some(ToolChoice::Required) => config["toolChoice"] = json!({"any": {}}),
        Some(ToolChoice::Tool(name)) => config["toolChoice"] = json!({"tool": {"name": wire_name(name)}}),
        Some(ToolChoice::Raw(value)) => config["toolChoice"] = value.clone(),
        Some(ToolChoice::None) | None => {}
    }
    body.insert("toolConfig".into(), config);
}

fn turns(request: &Request) -> Result<Vec<Bytes>, CallError> {
    let write = |turn: &Turn<'_>, out: &mut Items<'_>| {
        out.object(|message| {
            message.text("role", if turn.side == Side::Model { "assistant" } else { "user" });
            message.list("content", |list| turn.parts.iter().for_each(|part| write_part(part, list)));
        });
        Ok(())
    };
    let prefill = request.prefill.as_ref().map(|text| text.trim_end()).filter(|text| !text.is_empty());
    let prefill = prefill.map(|text| {
        object(|message| {
            message.text("role", "assistant");
            message.list("content", |list| list.object(|block| block.text("text", text)));
        })
    });
    items(&request.messages, &Rules::of(request, Thoughts::None), prefill, &write)
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
                    // An empty result is rejected here, too.
                    if !any {
                        list.object(|out| out.text("text", "[no output]"));
                    }
                });
                out.text("status", if answer.failed { "error" } else { "success" });
            });
        }),
        Part::Own(value) => out.value(value),
        // Not sent.
        Part::Thought { .. } => {}
    }
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
        } else if let Some(text) = block.at("reasoningContent").at("reasoningText").str_at("text") {
            out.push(StreamEvent::Reasoning(text.into()));
        }
        if block.get("reasoningContent").is_some() {
            out.push(StreamEvent::TurnData(block.to_value()));
        }
    }
    if let Some(usage) = body.get("usage") {
        out.push(StreamEvent::Usage(
            Usage {
                input: usage.int_at("inputTokens"),
                output: usage.int_at("outputTokens"),
                cache_read: usage.int_at("cacheReadInputTokens"),
                cache_write: usage.int_at("cacheWriteInputTokens"),
                ..Usage::default()
            }
            .with_cached_input(),
        ));
    }
    if let Some(reason) = body.str_at("stopReason") {
        out.push(StreamEvent::Stop(StopReason::from_provider(reason)));
    }
    Ok(out)
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
        assert!(wire.url.ends_with("/model/anthropic.claude-3%3A0/converse") && !wire.stream, "{}", wire.url);
        let result = |id: &str, text: &str| json!({"toolResult": {"toolUseId": id, "content": [{"text": text}], "status": "success"}});
        assert_eq!(
            wire.body.to_json()["messages"][2],
            json!({"role": "user", "content": [result("a", "1"), result("b", "2")]})
        );
        assert_eq!(wire.body.to_json()["toolConfig"]["toolChoice"], json!({"any": {}}));
        assert_eq!(wire.body.to_json()["additionalModelRequestFields"], json!({"k": 1}));
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
