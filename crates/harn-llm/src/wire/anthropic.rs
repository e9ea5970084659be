//! Anthropic Messages.

use std::collections::BTreeMap;

use bytes::Bytes;
use harn_value::{Data as Value, json};

use super::names::wire_name;
use super::node::Node;
use super::out::{Items, Members, object};
use super::outgoing::{Answer, Part, Rules, Side, Thoughts, Turn, items};
use super::{
    Body, Decode, NOT_OFFERED, WireRequest, claude, counts_of, error_member, merge_overrides, refused,
    wrong_shape,
};
use crate::error::{CallError, LlmError};
use crate::event::{StopReason, StreamEvent, Usage};
use crate::json::{Object, str_at};
use crate::media::Document;
use crate::message::{Image, ImageSource};
use crate::options::Thinking;
use crate::request::{OutputChannel, Request};
use crate::tools::{ToolShape, strip_for_wire};

/// Name of the tool that forces structured output.
pub(crate) const JSON_TOOL: &str = "json_response";

const INTERLEAVED: &str = "interleaved-thinking-2025-05-14";

pub(super) fn encode(request: &Request) -> Result<WireRequest, CallError> {
    let model = &request.route.model;
    let mut warnings = Vec::new();
    let mut body = Object::new();
    body.insert("model".into(), model.as_str().into());
    if let Some(system) = system_text(request) {
        body.insert("system".into(), system.into());
    }
    let messages = write_messages(request, claude::prefill(request, &mut warnings))?;
    body.insert("messages".into(), Value::Null);
    let thinking = claude::write_thinking(request, &mut body, &mut warnings);
    body.insert("max_tokens".into(), claude::max_tokens(request).into());
    for (key, value) in claude::sampling(request, thinking, &mut warnings) {
        if let Some(value) = value {
            body.insert(key.into(), value.into());
        }
    }
    let takes_top_k = claude::takes_budget(model) && !matches!(thinking, Thinking::Enabled { .. });
    if let Some(top_k) = request.sampling.top_k.filter(|_| takes_top_k) {
        body.insert("top_k".into(), top_k.into());
    }
    if !request.sampling.stop.is_empty() {
        body.insert("stop_sequences".into(), request.sampling.stop.clone().into());
    }
    write_tools(request, thinking.is_on(), &mut body);
    if request.cache {
        body.insert("cache_control".into(), json!({"type": "ephemeral"}));
    }
    warnings.extend(refused(request, &["seed", "frequency_penalty", "presence_penalty"]));
    if request.stream {
        body.insert("stream".into(), true.into());
    }
    merge_overrides(&mut body, &request.overrides);
    let betas = beta_features(request);
    let mut headers = Vec::new();
    if !request.route.extra_headers.iter().any(|(name, _)| name == "anthropic-version") {
        headers.push(("anthropic-version".to_string(), "2023-06-01".to_string()));
    }
    if !betas.is_empty() {
        headers.push(("anthropic-beta".to_string(), betas.join(",")));
    }
    Ok(WireRequest {
        url: request.route.url(&request.route.endpoint),
        headers,
        stream: request.stream,
        body: Body::new(body).with_list("messages", messages).with_list("tools", written_tools(request)),
        warnings,
    })
}

fn written_tools(request: &Request) -> Vec<Bytes> {
    request.tools.written(request.route.style, &|t| strip_for_wire(t, ToolShape::Anthropic))
}

fn write_tools(request: &Request, thinks: bool, body: &mut Object) {
    let mut choice = request.tool_choice.as_ref().map(|c| c.to_anthropic());
    let asks = request.output.channel == OutputChannel::Tool;
    if let Some(schema) = claude::reply_schema(request).filter(|_| asks) {
        let format = json!({"type": "json_schema", "schema": schema});
        body.entry("output_config").or_insert_with(|| json!({}))["format"] = format;
        if !request.tools.is_empty() {
            body.insert("tools".into(), Value::Null);
        }
    } else if asks {
        // Forcing this tool would prevent calls of other tools, and is rejected while thinking is on.
        if request.tools.is_empty() && !thinks && request.output.forces_tool {
            choice = Some(json!({"type": "tool", "name": JSON_TOOL}));
        }
        let any_object = || json!({"type": "object", "additionalProperties": true});
        let schema = request.output.schema.clone().unwrap_or_else(any_object);
        let stripped = request.tools.iter().map(|t| strip_for_wire(t, ToolShape::Anthropic));
        let own = json!({
            "name": JSON_TOOL, "description": request.output.tool_description, "input_schema": schema,
        });
        body.insert("tools".into(), stripped.chain([own]).collect());
    } else if !request.tools.is_empty() {
        body.insert("tools".into(), Value::Null);
    } else {
        // A history with calls is rejected if the request has no tools.
        let called = request.messages.called_tools();
        if !called.is_empty() {
            let tool = |name: &String| json!({"name": wire_name(name), "description": NOT_OFFERED, "input_schema": {"type": "object"}});
            body.insert("tools".into(), called.iter().map(tool).collect());
            choice = Some(json!({"type": "none"}));
        }
    }
    if let Some(choice) = choice.filter(|_| body.contains_key("tools")) {
        body.insert("tool_choice".into(), choice);
    }
}

/// Returns whether a request asks for its answer with the reply format instead of the answer tool.
pub(crate) fn answers_in_format(request: &Request) -> bool {
    request.route.style.has_reply_tool()
        && request.output.channel == OutputChannel::Tool
        && claude::reply_schema(request).is_some()
}

fn beta_features(request: &Request) -> Vec<String> {
    let caps = &request.route.caps;
    let mut betas: Vec<String> = Vec::new();
    let thinks = matches!(request.thinking, Thinking::Enabled { .. } | Thinking::Adaptive);
    let interleaved = request.interleaved_thinking || (thinks && caps.interleaved_thinking_supported);
    let all = caps.anthropic_beta_features.iter().chain(&request.beta_features).cloned();
    for name in all.chain(interleaved.then(|| INTERLEAVED.to_string())) {
        if !betas.contains(&name) {
            betas.push(name);
        }
    }
    betas
}

/// Returns the system prompt, followed by the system messages of the list unless it already includes them.
fn system_text(request: &Request) -> Option<String> {
    let parts = super::system_parts(request);
    (!parts.is_empty()).then(|| parts.join("\n\n"))
}

/// Serializes the turns. A prefilled reply must not end with whitespace.
fn write_messages(request: &Request, prefill: Option<&String>) -> Result<Vec<Bytes>, CallError> {
    let thoughts = if request.thinking.is_on() { Thoughts::Signed } else { Thoughts::None };
    let write = |turn: &Turn<'_>, out: &mut Items<'_>| {
        out.object(|message| {
            message.text("role", if turn.side == Side::Model { "assistant" } else { "user" });
            match turn.parts.as_slice() {
                // A single text is written as a plain string.
                [Part::Text { text, mark: None, .. }] => message.text("content", text),
                parts => message.list("content", |list| parts.iter().for_each(|part| write_part(part, list))),
            }
        });
        Ok(())
    };
    let prefill = prefill.map(|text| text.trim_end()).filter(|text| !text.is_empty()).map(|text| {
        object(|message| {
            message.text("role", "assistant");
            message.text("content", text);
        })
    });
    items(&request.messages, &Rules::of(request, thoughts), prefill, &write)
}

fn write_part(part: &Part<'_>, out: &mut Items<'_>) {
    match part {
        Part::Text { text, mark, .. } => out.object(|block| {
            block.text("type", "text");
            block.text("text", text);
            if let Some(mark) = mark {
                block.value("cache_control", mark);
            }
        }),
        Part::Image(image) => write_image(image, out),
        Part::Document(document) => write_document(document, out),
        Part::Thought { text, signature } => out.object(|block| {
            block.text("type", "thinking");
            block.text("thinking", text);
            block.text("signature", signature.unwrap_or_default());
        }),
        Part::Call(call) => out.object(|block| {
            block.text("type", "tool_use");
            block.text("id", &call.id);
            block.text("name", &call.name);
            block.value("input", &call.arguments);
        }),
        Part::Result(answer) => out.object(|block| {
            block.text("type", "tool_result");
            block.text("tool_use_id", &answer.id);
            write_result(answer, block);
            if answer.failed {
                block.value("is_error", &true.into());
            }
        }),
        Part::Own(value) => out.value(value),
    }
}

fn write_result(answer: &Answer<'_>, out: &mut Members<'_>) {
    if answer.parts.media.is_empty() {
        return out.text("content", &answer.parts.text);
    }
    out.list("content", |list| answer.each_part().for_each(|part| write_part(&part, list)));
}

fn write_image(image: &Image, out: &mut Items<'_>) {
    out.object(|block| {
        block.text("type", "image");
        write_source(&image.source, &image.media_type, block);
    });
}

fn write_document(document: &Document, out: &mut Items<'_>) {
    out.object(|block| {
        block.text("type", "document");
        write_source(&document.source, &document.media_type, block);
        if let Some(title) = &document.title {
            block.text("title", title);
        }
    });
}

fn write_source(from: &ImageSource, media_type: &str, block: &mut Members<'_>) {
    block.object("source", |source| match from {
        ImageSource::Url(url) => {
            source.text("type", "url");
            source.text("url", url);
        }
        ImageSource::Base64(data) => {
            source.text("type", "base64");
            source.text("media_type", media_type);
            source.text("data", data);
        }
    });
}

/// A reasoning block whose signature has not arrived yet.
struct Thought {
    any: bool,
    signature: String,
}

impl Thought {
    /// Returns the signature. A block with only a signature is returned as opaque provider data.
    fn signed(self) -> Option<StreamEvent> {
        let Thought { any, signature } = self;
        match (signature.is_empty(), any) {
            (true, _) => None,
            (false, true) => Some(StreamEvent::Signature(signature)),
            (false, false) => {
                let block = json!({"type": "thinking", "thinking": "", "signature": signature});
                Some(StreamEvent::TurnData(block))
            }
        }
    }
}

/// Returns the query of a tool search; `None` for other tools that the provider runs.
fn search_query(block: &Value) -> Option<StreamEvent> {
    let text = |key: &str| str_at(block, key).unwrap_or_default().to_owned();
    let query = block.get("input").cloned().unwrap_or_else(|| json!({}));
    text("name").starts_with("tool_search").then(|| StreamEvent::SearchQuery {
        id: text("id"),
        name: text("name"),
        query,
    })
}

/// Reads the result of a tool that the provider ran.
fn server_result(kind: &str, block: &Node<'_>, out: &mut Vec<StreamEvent>) {
    if kind == "tool_search_tool_result" {
        out.push(search_result(block));
    }
    if kind.ends_with("tool_result") || kind == "mcp_tool_use" {
        out.push(StreamEvent::TurnData(block.to_value()));
    }
}

fn search_result(block: &Node<'_>) -> StreamEvent {
    let references = block.at("content").list_at("tool_references");
    StreamEvent::SearchResult {
        tool_use_id: block.string_at("tool_use_id"),
        tool_names: references.iter().filter_map(|r| r.str_at("tool_name")).map(str::to_string).collect(),
    }
}

pub(super) fn read(provider: &str, body: &Node<'_>) -> Result<Vec<StreamEvent>, LlmError> {
    let Some(content) = body.at("content").as_list() else {
        return Err(error_member(provider, body).unwrap_or_else(|| wrong_shape(provider, body)));
    };
    let mut out = Vec::new();
    if let Some(model) = body.str_at("model") {
        out.push(StreamEvent::Model(model.into()));
    }
    for (index, block) in content.iter().enumerate() {
        let text = |key: &str| block.string_at(key);
        match block.str_at("type").unwrap_or_default() {
            "text" => out.push(StreamEvent::Text(text("text"))),
            "thinking" => {
                let thought = Thought { any: !text("thinking").is_empty(), signature: text("signature") };
                out.push(StreamEvent::Reasoning(text("thinking")));
                out.extend(thought.signed());
            }
            "redacted_thinking" => out.push(StreamEvent::TurnData(block.to_value())),
            "tool_use" => {
                out.push(StreamEvent::ToolCallStart {
                    index,
                    id: Some(text("id")),
                    name: Some(text("name")),
                });
                let arguments = block.get("input").map(Node::to_string).unwrap_or_default();
                out.push(StreamEvent::ToolCallDelta { index, arguments });
            }
            "server_tool_use" => {
                out.push(StreamEvent::TurnData(block.to_value()));
                out.extend(search_query(&block.to_value()));
            }
            kind => server_result(kind, block, &mut out),
        }
    }
    if let Some(usage) = body.get("usage") {
        out.push(StreamEvent::Usage(counts_of(usage).with_cached_input()));
    }
    if let Some(reason) = body.str_at("stop_reason") {
        out.push(StreamEvent::Stop(StopReason::from_provider(reason)));
    }
    Ok(out)
}

/// Decodes the event stream.
pub(super) struct Decoder {
    provider: String,
    /// Open calls of provider-side tools by block index, with the JSON of their input so far.
    queries: BTreeMap<usize, (Value, String)>,
    thoughts: BTreeMap<usize, Thought>,
    /// The counts so far, in the provider's terms: `input` excludes cached tokens.
    counts: Usage,
    stopped: bool,
}

impl Decoder {
    pub(super) fn new(provider: String) -> Self {
        Decoder {
            provider,
            queries: BTreeMap::new(),
            thoughts: BTreeMap::new(),
            counts: Usage::default(),
            stopped: false,
        }
    }

    fn usage(&mut self, usage: &Node<'_>) -> StreamEvent {
        self.counts.merge(counts_of(usage));
        StreamEvent::Usage(self.counts.with_cached_input())
    }

    fn block_start(&mut self, index: usize, block: &Node<'_>, out: &mut Vec<StreamEvent>) {
        let text = |key: &str| block.string_at(key);
        match block.str_at("type").unwrap_or_default() {
            "tool_use" => {
                out.push(StreamEvent::ToolCallStart {
                    index,
                    id: Some(text("id")),
                    name: Some(text("name")),
                });
            }
            "server_tool_use" => {
                self.queries.insert(index, (block.to_value(), String::new()));
            }
            "text" if !text("text").is_empty() => out.push(StreamEvent::Text(text("text"))),
            "thinking" => {
                let any = !text("thinking").is_empty();
                self.thoughts.insert(index, Thought { any, signature: text("signature") });
                out.extend(any.then(|| StreamEvent::Reasoning(text("thinking"))));
            }
            "redacted_thinking" => out.push(StreamEvent::TurnData(block.to_value())),
            kind => server_result(kind, block, out),
        }
    }

    fn block_delta(&mut self, index: usize, delta: &Node<'_>, out: &mut Vec<StreamEvent>) {
        let text = |key: &str| delta.string_at(key);
        match delta.str_at("type").unwrap_or_default() {
            "text_delta" => out.push(StreamEvent::Text(text("text"))),
            "thinking_delta" => {
                if let Some(thought) = self.thoughts.get_mut(&index) {
                    thought.any |= !text("thinking").is_empty();
                }
                out.push(StreamEvent::Reasoning(text("thinking")));
            }
            "signature_delta" => match self.thoughts.get_mut(&index) {
                Some(thought) => thought.signature.push_str(delta.str_at("signature").unwrap_or_default()),
                None => out.push(StreamEvent::Signature(text("signature"))),
            },
            "input_json_delta" => match self.queries.get_mut(&index) {
                Some((_, json)) => json.push_str(delta.str_at("partial_json").unwrap_or_default()),
                None => out.push(StreamEvent::ToolCallDelta { index, arguments: text("partial_json") }),
            },
            _ => {}
        }
    }
}

impl Decode for Decoder {
    fn message(&mut self, value: &Node<'_>, out: &mut Vec<StreamEvent>) -> Result<(), LlmError> {
        let index = value.index_at("index").unwrap_or(0);
        match value.str_at("type").unwrap_or_default() {
            "message_start" => {
                let message = value.at("message");
                if let Some(model) = message.str_at("model") {
                    out.push(StreamEvent::Model(model.into()));
                }
                out.push(self.usage(message.at("usage")));
            }
            "content_block_start" => self.block_start(index, value.at("content_block"), out),
            "content_block_delta" => self.block_delta(index, value.at("delta"), out),
            "content_block_stop" => {
                if let Some((mut block, json)) = self.queries.remove(&index) {
                    if !json.is_empty() {
                        block["input"] = crate::message::parse_arguments(&json);
                    }
                    out.extend(search_query(&block));
                    out.push(StreamEvent::TurnData(block));
                }
                out.extend(self.thoughts.remove(&index).and_then(Thought::signed));
            }
            "message_delta" => {
                if let Some(usage) = value.get("usage") {
                    out.push(self.usage(usage));
                }
                if let Some(reason) = value.at("delta").str_at("stop_reason") {
                    out.push(StreamEvent::Stop(StopReason::from_provider(reason)));
                }
            }
            "message_stop" => self.stopped = true,
            _ => {
                if let Some(error) = error_member(&self.provider, value) {
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn is_complete(&self) -> bool {
        self.stopped
    }

    fn is_over(&self) -> bool {
        self.stopped
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    const SONNET: &str = "claude-sonnet-4-20250514";

    fn body(model: &str, options: Value) -> Value {
        encode(&sample::request("anthropic", model, options)).unwrap().body.to_json()
    }

    #[test]
    fn a_plain_call() {
        let wire =
            encode(&sample::request("anthropic", SONNET, json!({"system": "s", "stream": false}))).unwrap();
        assert_eq!(wire.url, "https://api.anthropic.com/v1/messages");
        assert_eq!(
            wire.body.to_json(),
            json!({"model": SONNET, "system": "s", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 16384})
        );
    }

    #[test]
    fn texts_keep_their_marks_for_the_cache() {
        let marked = json!({"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}});
        for content in [json!([marked]), json!([marked, {"type": "text", "text": "b"}])] {
            let messages = json!([{"role": "user", "content": content}]);
            assert_eq!(body(SONNET, json!({"messages": messages}))["messages"], messages);
        }
    }

    #[test]
    fn results_of_one_turn_share_a_message() {
        let messages = json!([
            {"role": "assistant", "content": "", "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "x", "arguments": "{}"}},
                {"id": "b", "type": "function", "function": {"name": "y", "arguments": "{\"n\":1}"}}]},
            {"role": "tool", "tool_call_id": "a", "content": "1"},
            {"role": "tool", "tool_call_id": "b", "content": "2"},
            {"role": "user", "content": "go on"},
            {"role": "system", "content": "late"}]);
        let body = body(SONNET, json!({"messages": messages}));
        assert_eq!(
            body["messages"],
            json!([
                {"role": "user", "content": "[earlier messages were removed]"},
                {"role": "assistant", "content": [
                    {"type": "tool_use", "id": "a", "name": "x", "input": {}},
                    {"type": "tool_use", "id": "b", "name": "y", "input": {"n": 1}}]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "a", "content": "1"},
                    {"type": "tool_result", "tool_use_id": "b", "content": "2"},
                    {"type": "text", "text": "go on"}]}])
        );
        assert_eq!(body["system"], "late");
    }

    #[test]
    fn thinking_needs_room_and_no_temperature() {
        let b = body(SONNET, json!({"thinking": {"budget_tokens": 20000}, "temperature": 0.5, "top_k": 3}));
        assert_eq!(b["thinking"], json!({"type": "enabled", "budget_tokens": 20000}));
        assert_eq!(
            (b["max_tokens"].as_i64(), b.get("temperature"), b.get("top_k")),
            (Some(21024), None, None)
        );
        let b = body("claude-opus-4-7", json!({"thinking": true, "temperature": 0.5}));
        assert_eq!(
            (&b["thinking"], b.get("temperature")),
            (&json!({"type": "adaptive", "display": "summarized"}), None)
        );
    }

    #[test]
    fn signed_reasoning_goes_back_with_tool_turns() {
        let messages = json!([
            {"role": "assistant", "content": [
                {"type": "reasoning", "text": "hm", "signature": "sig", "visibility": "private"},
                {"type": "tool_call", "id": "a", "name": "x", "arguments": {}}]},
            {"role": "tool_result", "tool_use_id": "a", "content": "1"}]);
        let on = body(SONNET, json!({"messages": messages, "thinking": true}));
        assert_eq!(
            on["messages"][1]["content"][0],
            json!({"type": "thinking", "thinking": "hm", "signature": "sig"})
        );
        let off = body(SONNET, json!({"messages": messages}));
        assert_eq!(off["messages"][1]["content"][0]["type"], "tool_use");
    }

    #[test]
    fn a_tool_loop_begun_without_thinking_goes_on_without_it() {
        let turn = |reasoning: bool| {
            let call = json!({"type": "tool_call", "id": "a", "name": "x", "arguments": {}});
            let thought = json!({"type": "reasoning", "text": "hm", "signature": "sig"});
            let content = if reasoning { json!([thought, call]) } else { json!([call]) };
            [
                json!({"role": "assistant", "content": content}),
                json!({"role": "tool_result", "tool_use_id": "a", "content": "1"}),
            ]
        };
        let asks = |messages: Vec<Value>| {
            let request =
                sample::request("anthropic", SONNET, json!({"messages": messages, "thinking": true}));
            let wire = encode(&request).unwrap();
            (wire.body.to_json().get("thinking").is_some(), wire.warnings.len())
        };
        let user = json!({"role": "user", "content": "u"});
        let with = |turns: &[[Value; 2]]| [vec![user.clone()], turns.concat()].concat();
        assert_eq!(asks(with(&[turn(true)])), (true, 0));
        // Only the start of the loop matters.
        assert_eq!(asks(with(&[turn(true), turn(false)])), (true, 0));
        assert_eq!(asks(with(&[turn(false)])), (false, 1));
        // A finished loop does not matter.
        assert_eq!(
            asks(
                [with(&[turn(false)]), vec![json!({"role": "assistant", "content": "done"}), user.clone()]]
                    .concat()
            ),
            (true, 0)
        );
    }

    #[test]
    fn structured_output_is_a_forced_tool_unless_others_exist() {
        let b = body(SONNET, json!({"schema": {"type": "object"}}));
        assert_eq!(b["tool_choice"], json!({"type": "tool", "name": "json_response"}));
        let b = body(SONNET, json!({"schema": {"type": "object"}, "tools": [{"name": "t"}]}));
        assert_eq!((b["tools"].as_array().unwrap().len(), b.get("tool_choice")), (2, None));
    }

    #[test]
    fn betas_are_ordered_and_single() {
        let o = json!({"thinking": true, "anthropic_beta_features": ["b", "a", "b"], "interleaved_thinking": true});
        let wire = encode(&sample::request("anthropic", "claude-opus-4-7", o)).unwrap();
        assert_eq!(wire.headers.last(), Some(&("anthropic-beta".to_string(), format!("b,a,{INTERLEAVED}"))));
    }

    #[test]
    fn unsupported_options_warn() {
        let wire =
            encode(&sample::request("anthropic", SONNET, json!({"seed": 1, "temperature": 1.7}))).unwrap();
        let texts: Vec<&str> = wire.warnings.iter().map(|w| w.text.as_str()).collect();
        assert!(
            texts.contains(&"\"seed\" is not supported by provider \"anthropic\", ignoring"),
            "{texts:?}"
        );
        assert_eq!(wire.body.to_json()["temperature"], json!(1.0));
    }

    #[test]
    fn prefill_is_sent_below_4_6_only() {
        let b = body(SONNET, json!({"prefill": "{"}));
        assert_eq!(b["messages"][1], json!({"role": "assistant", "content": "{"}));
        assert_eq!(
            body("claude-sonnet-4-6", json!({"prefill": "{"}))["messages"].as_array().unwrap().len(),
            1
        );
    }
}
