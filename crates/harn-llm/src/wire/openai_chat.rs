//! OpenAI Chat Completions, which OpenAI and most other providers support.

use std::borrow::Cow;
use std::collections::HashMap;

use bytes::Bytes;
use harn_value::{Data as Value, json};

use super::node::Node;
use super::out::{Items, said};
use super::outgoing::{Call, Part, Rules, Side, Thoughts, Turn, items};
use super::think::{ThinkSplitter, split};
use super::{
    Body, Decode, Warning, WireRequest, asked_output, error_member, merge_overrides, refused, usage_of,
    wrong_shape,
};
use crate::config::Dialect;
use crate::error::{CallError, LlmError};
use crate::event::{REFUSAL, StopReason, StreamEvent};
use crate::json::Object;
use crate::message::ImageSource;
use crate::options::Thinking;
use crate::request::{OutputChannel, Request};
use crate::tools::{ToolShape, strip_for_wire};

pub(super) fn encode(request: &Request) -> Result<WireRequest, CallError> {
    let route = &request.route;
    let (dialect, caps) = (route.dialect, &route.caps);
    let mut body = Object::new();
    let mut warnings = Vec::new();
    // On Azure, the deployment in the URL selects the model.
    if dialect != Dialect::Azure {
        body.insert("model".into(), route.model.as_str().into());
    }
    body.insert("messages".into(), Value::Null);
    if let Some(most) = asked_output(request) {
        let key = if caps.requires_completion_tokens { "max_completion_tokens" } else { "max_tokens" };
        body.insert(key.into(), most.into());
    }
    write_sampling(request, &mut body, &mut warnings);
    if !request.tools.is_empty() {
        body.insert("tools".into(), Value::Null);
        if let Some(choice) = &request.tool_choice {
            body.insert("tool_choice".into(), choice.to_openai());
        }
    }
    write_thinking(request, &mut body);
    if request.output.channel != OutputChannel::None {
        body.insert("response_format".into(), response_format(request));
    }
    // Claude caches only on request; other models of this wire format cache automatically.
    if request.cache && dialect == Dialect::Openrouter && route.model.starts_with("anthropic/") {
        body.insert("cache_control".into(), json!({"type": "ephemeral"}));
    }
    if dialect == Dialect::Ollama {
        body.insert("think".into(), request.thinking.is_on().into());
        body.insert("keep_alive".into(), request.ollama.keep_alive.clone());
        body.insert("options".into(), super::ollama::options(request));
    }
    let stream = request.stream && (caps.streams_schema || request.output.schema.is_none());
    if stream {
        body.insert("stream".into(), true.into());
        body.insert("stream_options".into(), json!({"include_usage": true}));
    }
    if dialect == Dialect::Ollama {
        super::ollama::merge_ollama_overrides(&mut body, &request.overrides);
    } else {
        merge_overrides(&mut body, &request.overrides);
    }
    let tools = request.tools.written(route.style, &|t| strip_for_wire(t, ToolShape::OpenAi));
    Ok(WireRequest {
        url: route.url(&route.endpoint),
        headers: Vec::new(),
        stream,
        body: Body::new(body).with_list("messages", write_messages(request)?).with_list("tools", tools),
        warnings,
    })
}

fn write_sampling(request: &Request, body: &mut Object, warnings: &mut Vec<Warning>) {
    let sampling = &request.sampling;
    let penalised = request.route.dialect != Dialect::Ollama;
    let floats = [
        ("temperature", sampling.temperature),
        ("top_p", sampling.top_p),
        ("frequency_penalty", sampling.frequency_penalty.filter(|_| penalised)),
        ("presence_penalty", sampling.presence_penalty.filter(|_| penalised)),
    ];
    for (key, value) in floats {
        if let Some(value) = value {
            body.insert(key.into(), value.into());
        }
    }
    warnings.extend(refused(request, &["top_k"]));
    if !penalised {
        warnings.extend(refused(request, &["frequency_penalty", "presence_penalty"]));
    }
    if !request.sampling.stop.is_empty() {
        body.insert("stop".into(), request.sampling.stop.clone().into());
    }
    if let Some(seed) = request.sampling.seed {
        body.insert("seed".into(), seed.into());
    }
}

fn write_thinking(request: &Request, body: &mut Object) {
    let caps = &request.route.caps;
    if request.route.dialect == Dialect::Openrouter {
        let reasoning = match request.thinking {
            Thinking::Disabled => return,
            Thinking::Enabled { budget_tokens: Some(n) } => json!({"max_tokens": n}),
            Thinking::Enabled { .. } | Thinking::Adaptive => json!({"enabled": true}),
            Thinking::Effort(level) => json!({"effort": level.as_str()}),
        };
        body.insert("reasoning".into(), reasoning);
        return;
    }
    if let Thinking::Effort(level) = request.thinking
        && caps.reasoning_effort_supported
    {
        body.insert("reasoning_effort".into(), level.as_str().into());
    }
    if caps.honors_chat_template_kwargs {
        let mut kwargs = Object::new();
        kwargs.insert("enable_thinking".into(), request.thinking.is_on().into());
        if request.prefill.is_some() {
            kwargs.insert("add_generation_prompt".into(), false.into());
            kwargs.insert("continue_final_message".into(), true.into());
        }
        if caps.preserve_thinking {
            kwargs.insert("preserve_thinking".into(), true.into());
        }
        body.insert("chat_template_kwargs".into(), Value::Object(kwargs));
    }
}

fn response_format(request: &Request) -> Value {
    match &request.output.schema {
        None => json!({"type": "json_object"}),
        Some(schema) => {
            let strict = request.output.strict;
            json!({"type": "json_schema", "json_schema": {"name": "response", "schema": schema, "strict": strict}})
        }
    }
}

fn write_messages(request: &Request) -> Result<Vec<Bytes>, CallError> {
    let caps = &request.route.caps;
    let instructs = if caps.prefers_role_developer { "developer" } else { "system" };
    let thoughts = if caps.preserve_thinking { Thoughts::All } else { Thoughts::None };
    let rules = Rules::of(request, thoughts);
    // OpenRouter handles signatures itself.
    let signs = rules.demands_signature() && request.route.dialect != Dialect::Openrouter;
    let write = |turn: &Turn<'_>, out: &mut Items<'_>| {
        match turn.side {
            Side::System => out.written(&said("system", &turn.text())),
            Side::Developer => out.written(&said(instructs, &turn.text())),
            Side::Model => write_assistant(turn, signs, out),
            Side::User => write_user(turn, out),
        }
        Ok(())
    };
    let prefill = request.prefill.as_ref().map(|text| said("assistant", text));
    let mut out = items(&request.messages, &rules, prefill, &write)?;
    if let Some(system) = &request.system {
        let mut first = said(instructs, system);
        if !out.is_empty() {
            first.push(b',');
        }
        out.insert(0, first.into());
    }
    Ok(out)
}

/// Serializes the model's turn; with `signs`, its first call needs a Google signature.
fn write_assistant(turn: &Turn<'_>, signs: bool, out: &mut Items<'_>) {
    let (mut text, thoughts) = (turn.text(), turn.thoughts());
    let fields = |key: &'static str| turn.own().filter_map(move |data| data.get(key));
    let apart = fields("reasoning_content").next().is_some();
    if !thoughts.is_empty() && !apart {
        text = format!("<think>\n{thoughts}\n</think>\n\n{text}");
    }
    out.object(|out| {
        out.text("role", "assistant");
        out.text("content", &text);
        if apart {
            out.text("reasoning_content", &thoughts);
        }
        let details: Vec<&Value> =
            fields("reasoning_details").filter_map(Value::as_array).flatten().collect();
        if !details.is_empty() {
            out.list("reasoning_details", |list| details.iter().for_each(|detail| list.value(detail)));
        }
        if turn.calls().next().is_some() {
            let first = turn.calls().next();
            out.list("tool_calls", |calls| {
                for call in turn.calls() {
                    write_call(call, signs && first == Some(call), calls);
                }
            });
        }
    });
}

fn write_call(call: &Call<'_>, signs: bool, out: &mut Items<'_>) {
    out.object(|out| {
        out.text("id", &call.id);
        out.text("type", "function");
        out.object("function", |function| {
            function.text("name", &call.name);
            function.text("arguments", &call.arguments.to_string());
        });
        if let Some(extra) = call.data.and_then(|data| data.get("extra_content")) {
            out.value("extra_content", extra);
        } else if signs {
            out.value("extra_content", &json!({"google": {"thought_signature": super::gemini::UNSIGNED}}));
        }
    });
}

/// Serializes the user's turn: tool results become separate messages, followed by the other parts of the turn.
fn write_user(turn: &Turn<'_>, out: &mut Items<'_>) {
    let (mut blocks, mut rich) = (false, false);
    for part in &turn.parts {
        match part {
            Part::Result(answer) => out.object(|out| {
                out.text("role", "tool");
                out.text("tool_call_id", &answer.id);
                out.text("content", &answer.parts.marked());
            }),
            Part::Text { .. } => blocks = true,
            _ => (blocks, rich) = (true, true),
        }
    }
    if !blocks {
        return;
    }
    // Text-only servers do not accept a list.
    if !rich {
        out.written(&said("user", &turn.text()));
        return;
    }
    out.object(|out| {
        out.text("role", "user");
        out.list("content", |list| turn.parts.iter().for_each(|part| write_part(part, list)));
    });
}

fn write_part(part: &Part<'_>, out: &mut Items<'_>) {
    match part {
        Part::Text { text, .. } => out.object(|part| {
            part.text("type", "text");
            part.text("text", text);
        }),
        Part::Image(image) => out.object(|part| {
            part.text("type", "image_url");
            part.object("image_url", |url| {
                url.text("url", &image.to_url());
                if let Some(detail) = &image.detail {
                    url.text("detail", detail);
                }
            });
        }),
        Part::Document(document) => match &document.source {
            ImageSource::Base64(_) => out.object(|part| {
                part.text("type", "file");
                part.object("file", |file| {
                    file.text("filename", &document.file_name());
                    file.text("file_data", &document.source.to_url(&document.media_type));
                });
            }),
            ImageSource::Url(_) => out.object(|part| {
                part.text("type", "text");
                part.text("text", &document.notice());
            }),
        },
        Part::Own(value) => out.value(value),
        // These parts are separate messages, or do not occur in user turns.
        Part::Result(_) | Part::Thought { .. } | Part::Call(_) => {}
    }
}

/// Returns the `content` member as a string, concatenating text blocks.
fn content_text<'a>(content: &'a Node<'_>) -> Cow<'a, str> {
    match content {
        Node::Str(text) => Cow::Borrowed(text),
        Node::Array(blocks) => {
            let texts = blocks.iter().filter(|b| matches!(b.str_at("type"), Some("text" | "output_text")));
            Cow::Owned(texts.filter_map(|b| b.str_at("text")).collect())
        }
        _ => Cow::Borrowed(""),
    }
}

/// Returns the reasoning of a message or delta; some servers send the same text in both fields.
fn reasoning_fields<'a>(message: &'a Node<'_>) -> impl Iterator<Item = &'a str> {
    let text = |key: &str| message.str_at(key).filter(|t| !t.is_empty());
    let first = text("reasoning");
    first.into_iter().chain(text("reasoning_content").filter(|t| Some(*t) != first))
}

fn summary_field<'a>(message: &'a Node<'_>) -> Option<&'a str> {
    message
        .str_at("reasoning_summary")
        .or_else(|| message.str_at("thinking_summary"))
        .or_else(|| message.at("reasoning").str_at("summary"))
        .filter(|s| !s.is_empty())
}

/// The members of a message that are sent back unchanged, collected from the deltas of a stream.
#[derive(Default)]
struct Fields {
    reasoned: bool,
    details: Vec<Value>,
}

impl Fields {
    fn take(&mut self, message: &Node<'_>) {
        self.reasoned |= message.str_at("reasoning_content").is_some_and(|text| !text.is_empty());
        for detail in message.list_at("reasoning_details") {
            self.add(detail.to_value());
        }
    }

    /// Adds a detail, or a fragment of one: fragments have the same type and index.
    fn add(&mut self, piece: Value) {
        let same = |known: &Value| {
            ["type", "index", "id"].iter().all(|key| match (known.get(*key), piece.get(*key)) {
                (Some(a), Some(b)) => a == b || *key == "id",
                _ => *key != "type",
            })
        };
        let known = self.details.last_mut().filter(|known| same(known));
        let (Some(Value::Object(known)), Value::Object(members)) = (known, &piece) else {
            self.details.push(piece);
            return;
        };
        // An encrypted detail arrives in one piece.
        if known.contains_key("data") && members.contains_key("data") {
            self.details.push(piece);
            return;
        }
        for (key, value) in members {
            match (known.get_mut(key), value) {
                (_, Value::Null) => {}
                (Some(Value::String(text)), Value::String(more))
                    if matches!(key.as_str(), "text" | "summary") =>
                {
                    text.push_str(more);
                }
                _ => {
                    known.insert(key.clone(), value.clone());
                }
            }
        }
    }

    fn finish(&mut self, out: &mut Vec<StreamEvent>) {
        let mut data = Object::new();
        if self.reasoned {
            // A flag suffices, because the message already contains the reasoning.
            data.insert("reasoning_content".into(), true.into());
        }
        if !self.details.is_empty() {
            data.insert("reasoning_details".into(), std::mem::take(&mut self.details).into());
        }
        if !data.is_empty() {
            out.push(StreamEvent::TurnData(Value::Object(data)));
        }
    }
}

/// Reads the calls of a message or delta; `place` numbers them. Tool search entries become search events.
fn read_calls(
    calls: &[Node<'_>],
    mut place: impl FnMut(usize, &Node<'_>) -> usize,
    out: &mut Vec<StreamEvent>,
) {
    for (position, call) in calls.iter().enumerate() {
        match call.str_at("type") {
            Some("tool_search_call") => out.push(StreamEvent::SearchQuery {
                id: call.string_at("id"),
                name: call.str_at("name").unwrap_or("tool_search").into(),
                query: call.get("query").or_else(|| call.get("input")).map_or(Value::Null, Node::to_value),
            }),
            Some("tool_search_output") => out.push(StreamEvent::SearchResult {
                tool_use_id: call.str_at("call_id").or_else(|| call.str_at("id")).unwrap_or_default().into(),
                tool_names: reference_names(call.list_at("tool_references")),
            }),
            _ => {
                let index = place(position, call);
                let function = call.at("function");
                let text =
                    |v: &Node<'_>, key: &str| v.str_at(key).filter(|s| !s.is_empty()).map(str::to_string);
                out.push(StreamEvent::ToolCallStart {
                    index,
                    id: text(call, "id"),
                    name: text(function, "name"),
                });
                let arguments = function.at("arguments").arguments_text();
                if !arguments.is_empty() {
                    out.push(StreamEvent::ToolCallDelta { index, arguments });
                }
                if let Some(extra) = call.present("extra_content") {
                    let data = json!({"extra_content": extra.to_value()});
                    out.push(StreamEvent::CallData { index, data });
                }
            }
        }
    }
}

/// Returns the names in a list of references: strings, or dicts with `tool_name` or `name`.
pub(super) fn reference_names(references: &[Node<'_>]) -> Vec<String> {
    let name = |r: &Node<'_>| {
        r.as_str().or_else(|| r.str_at("tool_name")).or_else(|| r.str_at("name")).map(str::to_string)
    };
    // A namespace contains its tools.
    let nested = |r: &Node<'_>| match r.list_at("tools") {
        [] => name(r).into_iter().collect(),
        tools => tools.iter().filter_map(name).collect::<Vec<_>>(),
    };
    references.iter().flat_map(nested).collect()
}

pub(super) fn read(provider: &str, body: &Node<'_>) -> Result<Vec<StreamEvent>, LlmError> {
    let Some(choice) = body.list_at("choices").first() else {
        return Err(error_member(provider, body).unwrap_or_else(|| wrong_shape(provider, body)));
    };
    if let Some(error) = error_member(provider, choice) {
        return Err(error);
    }
    let message = choice.at("message");
    let mut out = Vec::new();
    if let Some(model) = body.str_at("model") {
        out.push(StreamEvent::Model(model.into()));
    }
    let (mut visible, inline) = split(&content_text(message.at("content")));
    let refusal = message.str_at("refusal").filter(|refusal| !refusal.is_empty());
    if visible.is_empty()
        && let Some(refusal) = refusal
    {
        visible = refusal.to_string();
    }
    let reasoning: Vec<&str> =
        reasoning_fields(message).chain(Some(inline.as_str()).filter(|t| !t.is_empty())).collect();
    if !reasoning.is_empty() {
        out.push(StreamEvent::Reasoning(reasoning.join("\n")));
    }
    if let Some(summary) = summary_field(message) {
        out.push(StreamEvent::ReasoningSummary(summary.into()));
    }
    let mut fields = Fields::default();
    fields.take(message);
    fields.finish(&mut out);
    if !visible.is_empty() {
        out.push(StreamEvent::Text(visible));
    }
    read_calls(message.list_at("tool_calls"), |position, _| position, &mut out);
    read_function_call(message, &mut out);
    if let Some(usage) = body.present("usage") {
        out.push(StreamEvent::Usage(usage_of(usage)));
    }
    if let Some(reason) = choice.str_at("finish_reason") {
        out.push(StreamEvent::Stop(stop_reason(reason, refusal.is_some())));
    }
    Ok(out)
}

/// Reads `function_call`, the predecessor of `tool_calls`: a reply has at most one call, without an id.
fn read_function_call(message: &Node<'_>, out: &mut Vec<StreamEvent>) {
    let Some(function) = message.present("function_call") else { return };
    let name = function.str_at("name").filter(|name| !name.is_empty()).map(str::to_owned);
    out.push(StreamEvent::ToolCallStart { index: 0, id: None, name });
    let arguments = function.at("arguments").arguments_text();
    if !arguments.is_empty() {
        out.push(StreamEvent::ToolCallDelta { index: 0, arguments });
    }
}

/// Returns the stop reason of a reply. A refusal has the same reason as a finished answer and is identified by
/// `refused`.
pub(super) fn stop_reason(word: &str, refused: bool) -> StopReason {
    match StopReason::from_provider(word) {
        StopReason::EndTurn if refused => StopReason::Other(REFUSAL.to_owned()),
        reason => reason,
    }
}

/// A call of a stream, as far as it has arrived.
#[derive(Default)]
struct OpenCall {
    id: Option<String>,
    name: Option<String>,
    arguments: Extent,
}

/// Tracks whether a streamed JSON object is complete.
#[derive(Default)]
struct Extent {
    depth: usize,
    in_string: bool,
    escaped: bool,
    complete: bool,
}

impl Extent {
    fn feed(&mut self, text: &str) {
        for byte in text.bytes() {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' if self.in_string => self.escaped = true,
                b'"' => self.in_string = !self.in_string,
                _ if self.in_string => {}
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    self.complete |= self.depth == 0;
                }
                _ => {}
            }
        }
    }
}

/// The calls of a stream. Servers number them correctly, not at all, or all with the same index.
#[derive(Default)]
struct Places {
    calls: Vec<OpenCall>,
    /// The call to which an index refers.
    of_index: HashMap<usize, usize>,
}

impl Places {
    /// Returns the call to which a delta belongs. A different id starts a new call, whatever the index. So does a name
    /// once the arguments of the call with that id are complete, because some servers use the same id for all calls. A
    /// delta without id and name continues the call of its index, else the last one.
    fn place(&mut self, call: &Node<'_>) -> usize {
        let text =
            |node: &Node<'_>, key: &str| node.str_at(key).filter(|text| !text.is_empty()).map(str::to_owned);
        let (index, id, name) = (call.index_at("index"), text(call, "id"), text(call.at("function"), "name"));
        let last = self.calls.len().checked_sub(1);
        let arguments = call.at("function").at("arguments").arguments_text();
        let by_id =
            id.as_ref().and_then(|id| self.calls.iter().rposition(|known| known.id.as_ref() == Some(id)));
        let is_new_index = index.is_some_and(|index| !self.of_index.contains_key(&index));
        let repeats_id = name.is_some() && (is_new_index || !arguments.is_empty());
        let by_index = match index {
            Some(index) => self.of_index.get(&index).copied(),
            None => last,
        };
        // Returns whether the id or name of the delta contradicts a call.
        let differs = |at: usize| {
            let OpenCall { id: known_id, name: known_name, .. } = &self.calls[at];
            let other = |known: &Option<String>, own: &Option<String>| {
                known.is_some() && own.is_some() && known != own
            };
            other(known_id, &id) && name.is_some() || id.is_none() && other(known_name, &name)
        };
        let place = match (by_id, by_index) {
            (Some(at), _) if repeats_id && self.calls[at].arguments.complete => self.calls.len(),
            (Some(at), _) => at,
            (None, Some(at)) if !differs(at) => at,
            (None, None) if id.is_none() && name.is_none() => last.unwrap_or(0),
            _ => self.calls.len(),
        };
        if place == self.calls.len() {
            self.calls.push(OpenCall::default());
        }
        let known = &mut self.calls[place];
        known.id = known.id.take().or(id);
        known.name = known.name.take().or(name);
        known.arguments.feed(&arguments);
        if let Some(index) = index {
            self.of_index.insert(index, place);
        }
        place
    }
}

/// Decodes the event stream.
pub(super) struct Decoder {
    provider: String,
    places: Places,
    refused: bool,
    think: ThinkSplitter,
    fields: Fields,
    finished: bool,
    done: bool,
    model_seen: bool,
}

impl Decoder {
    pub(super) fn new(provider: String) -> Self {
        Decoder {
            provider,
            places: Places::default(),
            refused: false,
            think: ThinkSplitter::default(),
            fields: Fields::default(),
            finished: false,
            done: false,
            model_seen: false,
        }
    }
}

impl Decode for Decoder {
    fn message(&mut self, value: &Node<'_>, out: &mut Vec<StreamEvent>) -> Result<(), LlmError> {
        if let Some(error) = error_member(&self.provider, value) {
            return Err(error);
        }
        if !self.model_seen
            && let Some(model) = value.str_at("model").filter(|m| !m.is_empty())
        {
            self.model_seen = true;
            out.push(StreamEvent::Model(model.into()));
        }
        if let Some(usage) = value.present("usage") {
            out.push(StreamEvent::Usage(usage_of(usage)));
        }
        let Some(choice) = value.list_at("choices").first() else { return Ok(()) };
        if let Some(error) = error_member(&self.provider, choice) {
            return Err(error);
        }
        if let Some(delta) = choice.get("delta").or_else(|| choice.get("message")) {
            self.fields.take(delta);
            out.extend(reasoning_fields(delta).map(|text| StreamEvent::Reasoning(text.into())));
            if let Some(summary) = summary_field(delta) {
                out.push(StreamEvent::ReasoningSummary(summary.into()));
            }
            let text = content_text(delta.at("content"));
            if !text.is_empty() {
                self.think.feed(&text, &mut |piece| out.push(piece.into()));
            }
            if let Some(refusal) = delta.str_at("refusal").filter(|r| !r.is_empty()) {
                self.refused = true;
                out.push(StreamEvent::Text(refusal.into()));
            }
            read_calls(delta.list_at("tool_calls"), |_, call| self.places.place(call), out);
            read_function_call(delta, out);
        }
        if !self.finished
            && let Some(reason) = choice.str_at("finish_reason")
        {
            self.finished = true;
            out.push(StreamEvent::Stop(stop_reason(reason, self.refused)));
        }
        Ok(())
    }

    fn done(&mut self) {
        self.done = true;
    }

    fn is_complete(&self) -> bool {
        self.done || self.finished
    }

    fn is_over(&self) -> bool {
        self.done
    }

    fn finish(&mut self, out: &mut Vec<StreamEvent>) {
        self.think.finish(&mut |piece| out.push(piece.into()));
        self.fields.finish(out);
    }
}

#[cfg(test)]
mod tests {
    use super::super::node::read_value;
    use super::*;
    use crate::sample;

    fn body(provider: &str, model: &str, options: Value) -> Value {
        encode(&sample::request(provider, model, options)).unwrap().body.to_json()
    }

    #[test]
    fn a_plain_call() {
        let wire = encode(&sample::request("openai", "gpt-4o", json!({"system": "s", "seed": 7}))).unwrap();
        assert_eq!(wire.url, "https://api.openai.com/v1/chat/completions");
        assert_eq!(
            wire.body.to_json(),
            json!({"model": "gpt-4o", "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "hi"}],
                   "max_tokens": 16384, "seed": 7, "stream": true, "stream_options": {"include_usage": true}})
        );
    }

    #[test]
    fn reasoning_models_use_their_own_keys() {
        let b = body("openai", "o3-mini", json!({"reasoning_effort": "low", "system": "s", "max_tokens": 5}));
        assert_eq!((&b["reasoning_effort"], &b["max_completion_tokens"]), (&json!("low"), &json!(5)));
        assert_eq!(b["messages"][0]["role"], "developer");
        assert!(b.get("max_tokens").is_none());
        let b = body("openai", "gpt-5", json!({"reasoning_effort": "low", "max_tokens": 5}));
        assert_eq!((&b["reasoning_effort"], &b["max_completion_tokens"]), (&json!("low"), &json!(5)));
    }

    #[test]
    fn features_of_another_provider_are_told() {
        let options = json!({"anthropic_beta_features": ["b"]});
        for (provider, model) in [("openai", "gpt-4o"), ("gemini", "gemini-2.5-pro"), ("ollama", "qwen3:8b")]
        {
            let wire = crate::wire::encode(&sample::request(provider, model, options.clone())).unwrap();
            let texts: Vec<&str> = wire.warnings.iter().map(|w| w.text.as_str()).collect();
            let told =
                format!("\"anthropic_beta_features\" is not supported by provider \"{provider}\", ignoring");
            assert_eq!(texts, [told.as_str()]);
        }
    }

    #[test]
    fn openrouter_has_its_own_reasoning_object() {
        let reasoning =
            |t: Value| body("openrouter", "qwen/qwen3-8b", json!({"thinking": t}))["reasoning"].clone();
        assert_eq!(reasoning(json!(true)), json!({"enabled": true}));
        assert_eq!(reasoning(json!({"budget_tokens": 9})), json!({"max_tokens": 9}));
        assert_eq!(reasoning(json!("high")), json!({"effort": "high"}));
        assert_eq!(reasoning(json!(false)), Value::Null);
    }

    #[test]
    fn template_hosts_are_told_whether_to_think() {
        let b = body("local", "qwen3.6-27b", json!({"prefill": "x"}));
        assert_eq!(
            b["chat_template_kwargs"],
            json!({"enable_thinking": false, "add_generation_prompt": false, "continue_final_message": true,
                   "preserve_thinking": true})
        );
        assert_eq!(b["messages"][1], json!({"role": "assistant", "content": "x"}));
    }

    #[test]
    fn anthropic_history_is_rewritten() {
        let b = body(
            "openai",
            "gpt-4o",
            json!({"messages": [
            {"role": "assistant", "content": [{"type": "text", "text": "t"}, {"type": "tool_use", "id": "a", "name": "x", "input": {"k": 1}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "r"}, {"type": "text", "text": "u"}]}]}),
        );
        assert_eq!(
            b["messages"],
            json!([
                {"role": "assistant", "content": "t", "tool_calls": [
                    {"id": "a", "type": "function", "function": {"name": "x", "arguments": "{\"k\":1}"}}]},
                {"role": "tool", "tool_call_id": "a", "content": "r"},
                {"role": "user", "content": "u"}])
        );
    }

    #[test]
    fn images_and_overrides() {
        let b = body(
            "openai",
            "gpt-4o",
            json!({"openai": {"user": "me", "seed": 1, "force_native_tool_search": true}, "seed": 2,
            "messages": [{"role": "user", "content": [{"type": "text", "text": "see"},
                {"type": "image", "base64": "AA==", "media_type": "image/png", "detail": "low"}]}]}),
        );
        assert_eq!(
            (&b["user"], &b["seed"], b.get("force_native_tool_search")),
            (&json!("me"), &json!(1), None)
        );
        assert_eq!(
            b["messages"][0]["content"][1],
            json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AA==", "detail": "low"}})
        );
    }

    #[test]
    fn schemas_travel_as_response_format() {
        let b = body("openai", "gpt-4o", json!({"schema": {"type": "object"}}));
        assert_eq!(b["response_format"]["json_schema"]["name"], "response");
        let b = body("openai", "gpt-4o", json!({"response_format": "json"}));
        assert_eq!(b["response_format"], json!({"type": "json_object"}));
    }

    /// Returns the index of each call or fragment, with its id or a fragment of its arguments.
    fn places(calls: &[Value]) -> Vec<(usize, String)> {
        let mut decoder = Decoder::new("p".into());
        let mut out = Vec::new();
        for call in calls {
            let delta = json!({"choices": [{"delta": {"tool_calls": [call]}}]});
            decoder.message(&Node::parse(&delta.to_string()).unwrap(), &mut out).unwrap();
        }
        out.iter()
            .map(|event| match event {
                StreamEvent::ToolCallStart { index, id, .. } => (*index, id.clone().unwrap_or_default()),
                StreamEvent::ToolCallDelta { index, arguments } => (*index, arguments.clone()),
                other => panic!("{other:?}"),
            })
            .collect()
    }

    /// Returns the arguments of each call.
    fn arguments(calls: &[Value]) -> Vec<String> {
        let mut out = Vec::new();
        for (at, text) in places(calls) {
            out.resize(out.len().max(at + 1), String::new());
            if text != "c" {
                out[at].push_str(&text);
            }
        }
        out
    }

    #[test]
    fn calls_that_share_an_id_are_told_apart_by_their_arguments() {
        let call = |index: Option<usize>, id: Option<&str>, name: Option<&str>, arguments: &str| {
            let mut call = json!({"function": {"arguments": arguments}});
            index.iter().for_each(|index| call["index"] = (*index).into());
            id.iter().for_each(|id| call["id"] = (*id).into());
            name.iter().for_each(|name| call["function"]["name"] = (*name).into());
            call
        };
        let (id, x) = (Some("c"), Some("x"));
        let both = ["{\"q\":\"}{\"}", "{\"q\":[2]}"];
        // Distinct indexes, in fragments; no index, in one piece each; the same index for all.
        for calls in [
            vec![
                call(Some(0), id, x, ""),
                call(Some(0), None, None, "{\"q\":"),
                call(Some(0), None, None, "\"}{\"}"),
                call(Some(1), id, x, ""),
                call(Some(1), None, None, "{\"q\":[2]}"),
            ],
            vec![call(None, id, x, both[0]), call(None, id, x, both[1])],
            vec![call(Some(0), id, x, both[0]), call(Some(0), id, x, both[1])],
        ] {
            assert_eq!(arguments(&calls), both);
        }
        // Id and name are repeated in each fragment, including the last one.
        for index in [None, Some(0)] {
            let pieces = [
                call(index, id, x, "{\"q\":"),
                call(index, id, x, "[1]"),
                call(index, id, x, "}"),
                call(index, id, x, ""),
            ];
            assert_eq!(arguments(&pieces), ["{\"q\":[1]}"]);
        }
        // A fragment arrives with another index.
        let pieces = [call(Some(0), id, x, "{\"q\":"), call(Some(1), id, None, "[1]}")];
        assert_eq!(arguments(&pieces), ["{\"q\":[1]}"]);
    }

    #[test]
    fn calls_without_an_index_are_told_apart_by_their_ids() {
        let places = places(&[
            json!({"id": "a", "function": {"name": "x", "arguments": "{\"n\":"}}),
            json!({"function": {"arguments": "1}"}}),
            json!({"id": "b", "function": {"name": "y", "arguments": "{}"}}),
        ]);
        let expected = [(0, "a"), (0, "{\"n\":"), (0, ""), (0, "1}"), (1, "b"), (1, "{}")]
            .map(|(n, text)| (n, text.to_owned()));
        assert_eq!(places, expected);
    }

    #[test]
    fn replies_split_reasoning_and_text() {
        let events = read_value(read,
            "p",
            json!({"choices": [{"message": {"content": "<think>b</think>\n\nhi", "reasoning": "a", "reasoning_content": "a"},
                                 "finish_reason": "length"}]}),
        )
        .unwrap();
        assert_eq!(
            events,
            [
                StreamEvent::Reasoning("a\nb".into()),
                StreamEvent::TurnData(json!({"reasoning_content": true})),
                StreamEvent::Text("hi".into()),
                StreamEvent::Stop(StopReason::MaxTokens)
            ]
        );
    }
}
