//! Messages of a conversation in one neutral shape.
//!
//! Programs pass dicts of several shapes (plain strings, block lists, OpenAI and Anthropic tool turns, Harn's own
//! canonical blocks). [`crate::Conversation`] parses each of them once into a neutral form, so that every wire format
//! has a single input and a transcript made with one provider can continue with another. The original dict can be
//! restored byte for byte: for the usual shapes only the name of the shape is stored, for any other the dict itself.

use std::rc::Rc;

use harn_value::{Data as Value, json};

use crate::error::OptionError;
use crate::json::{display, str_at};
use crate::media::Document;
pub use crate::media::{Image, ImageSource};

/// The member of an assistant message with data that only its provider reads: `{provider, wire, model, parts}`. Parts
/// are in the order of the reply: `{part: "text" | "reasoning" | "call", id?, data?}`, or `{data}` alone.
pub(crate) const PROVIDER_DATA: &str = "provider_data";

/// The role of a message's author.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Durable instructions.
    System,
    /// Durable instructions in newer OpenAI APIs.
    Developer,
    /// The user, and tool results.
    User,
    /// The model.
    Assistant,
}

impl Role {
    /// Returns the name used on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::System => "system",
            Role::Developer => "developer",
            Role::User => "user",
            Role::Assistant => "assistant",
        }
    }
}

/// One message in the neutral shape.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// The author's role.
    pub role: Role,
    /// The parts of the message.
    pub content: Vec<ContentBlock>,
    dict: Dict,
    tokens: i64,
    strings: (usize, usize),
}

/// The shape of the dict from which a message was parsed.
#[derive(Debug, Clone, PartialEq)]
enum Dict {
    /// `{role, content: "text"}`
    Text,
    /// `{role, content: [blocks]}` with blocks in Anthropic's shape.
    Blocks,
    /// `{role: "assistant", content: "text", tool_calls: [...], reasoning?}` in OpenAI's shape.
    Calls,
    /// `{role: "tool", tool_call_id, content}`
    Result,
    /// Any other shape: the original dict.
    Given(Box<Value>),
}

/// A part of a message.
#[derive(Debug, Clone, PartialEq)]
pub enum ContentBlock {
    /// Visible text.
    Text(String),
    /// An image.
    Image(Image),
    /// A document, such as a PDF file.
    Document(Document),
    /// Private reasoning; sent back only to providers that require it.
    Reasoning {
        /// The reasoning text.
        text: String,
        /// The provider's signature, without which the provider rejects the reasoning.
        signature: Option<String>,
    },
    /// A tool call by the model.
    ToolUse(ToolCall),
    /// The result of a tool call.
    ToolResult {
        /// Id of the call that this answers.
        id: String,
        /// Name of the tool, when known.
        name: Option<String>,
        /// The result: a string, or blocks.
        content: Value,
        /// Whether the tool failed.
        failed: bool,
    },
    /// A block of an unknown type, passed through unchanged.
    Other(Value),
    /// Opaque provider data: the index of the part in the message's `provider_data`.
    Provider(usize),
}

/// A tool call by the model.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    /// Id that links the result to the call.
    pub id: String,
    /// The name of the tool.
    pub name: String,
    /// Arguments, normally an object.
    pub arguments: Value,
}

impl ToolCall {
    /// Returns the dict used in results: `{id, name, arguments}`.
    pub fn to_json(&self) -> Value {
        json!({"id": self.id, "name": self.name, "arguments": self.arguments})
    }

    /// Returns the dict of Chat Completions, with the arguments as a JSON string.
    pub(crate) fn to_openai(&self) -> Value {
        json!({"id": self.id, "type": "function",
               "function": {"name": self.name, "arguments": self.arguments.to_string()}})
    }
}

impl Message {
    /// Returns the dict from which the message was parsed.
    pub fn to_json(&self) -> Value {
        match &self.dict {
            Dict::Given(value) => (**value).clone(),
            form => self.write(form),
        }
    }

    /// Returns the original dict, where it is stored.
    pub(crate) fn given(&self) -> Option<&Value> {
        match &self.dict {
            Dict::Given(value) => Some(value),
            _ => None,
        }
    }

    /// Returns the provider, wire format and model that produced the turn, if the message has provider data.
    pub(crate) fn origin(&self) -> Option<(&str, &str, &str)> {
        let data = self.given()?.get(PROVIDER_DATA)?;
        Some((str_at(data, "provider")?, str_at(data, "wire")?, str_at(data, "model").unwrap_or_default()))
    }

    /// Returns whether this is a turn that the provider asks the client to continue.
    pub(crate) fn is_paused(&self) -> bool {
        let data = self.given().and_then(|dict| dict.get(PROVIDER_DATA));
        data.is_some_and(|data| data.get("paused") == Some(&Value::Bool(true)))
    }

    fn provider_parts(&self) -> &[Value] {
        let data = self.given().and_then(|dict| dict.get(PROVIDER_DATA));
        data.map_or(&[], |data| crate::json::list_at(data, "parts"))
    }

    /// Returns the provider's data of the part at index `at`.
    pub(crate) fn part_data(&self, at: usize) -> Option<&Value> {
        self.provider_parts().get(at)?.get("data")
    }

    /// Returns the provider's data of the visible text, or of a call.
    pub(crate) fn data_of(&self, part: &str, id: Option<&str>) -> Option<&Value> {
        let own = |entry: &&Value| str_at(entry, "part") == Some(part) && str_at(entry, "id") == id;
        self.provider_parts().iter().find(own)?.get("data")
    }

    /// Returns whether the message contains tool results, native or as text.
    pub(crate) fn holds_results(&self) -> bool {
        self.content.iter().any(|block| match block {
            ContentBlock::ToolResult { .. } => true,
            ContentBlock::Text(text) => text.starts_with(harn_prompt::untrusted::RESULTS),
            _ => false,
        })
    }

    /// Returns whether the message's dict is identical to `value`, byte for byte.
    pub(crate) fn is_dict(&self, value: &Value) -> bool {
        identical(&self.to_json(), value)
    }

    /// Builds the dict of a shape.
    fn write(&self, form: &Dict) -> Value {
        let role = self.role.as_str();
        match form {
            Dict::Given(value) => (**value).clone(),
            Dict::Text => json!({"role": role, "content": self.text("")}),
            Dict::Blocks => {
                let blocks: Vec<Value> = self.content.iter().map(block_dict).collect();
                json!({"role": role, "content": blocks})
            }
            Dict::Calls => {
                let calls: Vec<Value> = self.tool_calls().map(ToolCall::to_openai).collect();
                let mut out = json!({"role": role, "content": self.text(""), "tool_calls": calls});
                let reasoning = self.reasoning();
                if !reasoning.is_empty() {
                    out["reasoning"] = reasoning.into();
                }
                out
            }
            Dict::Result => match self.content.first() {
                Some(ContentBlock::ToolResult { id, content, failed, .. }) => {
                    with_failure(json!({"role": "tool", "tool_call_id": id, "content": content}), *failed)
                }
                _ => Value::Null,
            },
        }
    }

    /// Returns the estimated tokens of the dict.
    pub fn tokens(&self) -> i64 {
        self.tokens
    }

    /// Returns the number of non-empty strings in the dict, and their bytes.
    pub fn strings(&self) -> (usize, usize) {
        self.strings
    }

    /// Creates a message with only text.
    pub fn text_of(role: Role, text: String) -> Message {
        let tokens = ["role", role.as_str(), "content", text.as_str()];
        let tokens = tokens.iter().map(|part| crate::estimate::estimate_tokens(part)).sum();
        let bytes = role.as_str().len() + text.len();
        let strings = (if text.is_empty() { 1 } else { 2 }, bytes);
        Message { role, content: vec![ContentBlock::Text(text)], dict: Dict::Text, tokens, strings }
    }

    /// Returns whether the dict has the role `user`.
    pub(crate) fn is_from_user(&self) -> bool {
        match &self.dict {
            Dict::Given(value) => str_at(value, "role") == Some("user"),
            Dict::Result => false,
            Dict::Text | Dict::Blocks | Dict::Calls => self.role == Role::User,
        }
    }

    /// Returns whether the message has no content to send, so that every provider would reject it. `thoughts` says
    /// whether reasoning is sent.
    pub(crate) fn is_blank(&self, thoughts: bool) -> bool {
        let is_unsent = |block: &ContentBlock| match block {
            ContentBlock::Reasoning { .. } => !thoughts,
            ContentBlock::Provider(_) => true,
            _ => false,
        };
        self.content.iter().all(|block| is_blank_text(block) || is_unsent(block))
    }

    /// Returns the `cache_control` of the block with content `text`, if the message sets it.
    pub(crate) fn cache_mark(&self, text: &str) -> Option<&Value> {
        let Dict::Given(dict) = &self.dict else { return None };
        let mut blocks = crate::json::list_at(dict, "content").iter();
        let block = blocks.find(|block| str_at(block, "text") == Some(text))?;
        block.get("cache_control").filter(|mark| mark.is_object())
    }

    /// Returns whether the message contains an image.
    pub(crate) fn has_image(&self) -> bool {
        self.content.iter().any(|block| match block {
            ContentBlock::Image(_) => true,
            ContentBlock::ToolResult { content, .. } => crate::media::holds_image(content),
            _ => false,
        })
    }

    /// Returns whether the message contains a tool result.
    pub(crate) fn holds_result(&self) -> bool {
        self.content.iter().any(|block| matches!(block, ContentBlock::ToolResult { .. }))
    }

    /// Returns whether the message itself contains an image, outside of tool results.
    pub(crate) fn shows_image(&self) -> bool {
        self.content.iter().any(|block| matches!(block, ContentBlock::Image(_)))
    }

    /// Returns all text of the message, joined by `separator`.
    pub fn text(&self, separator: &str) -> String {
        let parts: Vec<&str> = self
            .content
            .iter()
            .filter_map(|block| match block {
                ContentBlock::Text(text) => Some(text.as_str()),
                _ => None,
            })
            .collect();
        parts.join(separator)
    }

    /// Returns the calls in the message.
    pub fn tool_calls(&self) -> impl DoubleEndedIterator<Item = &ToolCall> + Clone {
        self.content.iter().filter_map(|block| match block {
            ContentBlock::ToolUse(call) => Some(call),
            _ => None,
        })
    }

    /// Returns the private reasoning of the message.
    pub fn reasoning(&self) -> String {
        self.content
            .iter()
            .filter_map(|block| match block {
                ContentBlock::Reasoning { text, .. } => Some(text.as_str()),
                _ => None,
            })
            .collect()
    }
}

/// Parses a message dict in the context of the messages before it.
///
/// # Errors
/// An image has no source or type.
pub(crate) fn read(value: Value, earlier: &[Rc<Message>]) -> Result<Message, OptionError> {
    let (role, mut content) = read_message(&value, earlier)?;
    for block in &mut content {
        if let ContentBlock::ToolResult { id, name: name @ None, .. } = block {
            *name = called_name(earlier, id);
        }
    }
    if let Some(data) = value.get(PROVIDER_DATA) {
        content = arranged(content, crate::json::list_at(data, "parts"));
    }
    let form = match value.get("content") {
        _ if str_at(&value, "role") == Some("tool") => Dict::Result,
        _ if value.get("tool_calls").is_some() => Dict::Calls,
        Some(Value::Array(_)) => Dict::Blocks,
        _ => Dict::Text,
    };
    // Provider data does not count towards the estimate: signatures are long but cheap, and each provider counts them
    // differently.
    let unseen = value.get(PROVIDER_DATA).map_or(0, crate::estimate::estimate_json);
    let tokens = crate::estimate::estimate_json(&value).saturating_sub(unseen);
    let mut strings = (0, 0);
    count_strings(&value, &mut strings);
    let mut message = Message { role, content, dict: Dict::Text, tokens, strings };
    let written = message.write(&form);
    message.dict = if identical(&written, &value) { form } else { Dict::Given(Box::new(value)) };
    message.content.shrink_to_fit();
    Ok(message)
}

/// Sorts the blocks of a message into the order of its parts. Blocks without a part come last.
fn arranged(content: Vec<ContentBlock>, parts: &[Value]) -> Vec<ContentBlock> {
    let mut rest: Vec<Option<ContentBlock>> = content.into_iter().map(Some).collect();
    let mut out = Vec::with_capacity(rest.len() + parts.len());
    for (at, part) in parts.iter().enumerate() {
        let id = str_at(part, "id").unwrap_or_default();
        let kind = str_at(part, "part");
        let mut first = true;
        let mut take = |wanted: &dyn Fn(&ContentBlock) -> bool, all: bool| {
            for slot in &mut rest {
                if (all || first) && slot.as_ref().is_some_and(wanted) {
                    first = false;
                    out.extend(slot.take());
                }
            }
        };
        match kind {
            Some("text") => take(&|block| matches!(block, ContentBlock::Text(_)), true),
            Some("reasoning") => take(&|block| matches!(block, ContentBlock::Reasoning { .. }), false),
            Some("call") => {
                take(&|block| matches!(block, ContentBlock::ToolUse(call) if call.id == id), false);
            }
            _ => out.push(ContentBlock::Provider(at)),
        }
    }
    out.extend(rest.into_iter().flatten());
    out
}

/// Parses the blocks of a message's content.
///
/// # Errors
/// An image has no source or type.
pub(crate) fn read_blocks(content: &Value) -> Result<Vec<ContentBlock>, OptionError> {
    let mut out = Vec::new();
    match content {
        Value::Array(blocks) => blocks.iter().try_for_each(|block| read_block(block, &mut out))?,
        block => read_block(block, &mut out)?,
    }
    Ok(out)
}

fn count_strings(value: &Value, counts: &mut (usize, usize)) {
    match value {
        Value::String(text) if !text.is_empty() => {
            counts.0 += 1;
            counts.1 += text.len();
        }
        Value::Array(items) => items.iter().for_each(|item| count_strings(item, counts)),
        Value::Object(map) => map.values().for_each(|item| count_strings(item, counts)),
        _ => {}
    }
}

/// Returns whether two values have the same JSON bytes, including the order of keys.
fn identical(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|((k, v), (l, w))| k == l && identical(v, w))
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(v, w)| identical(v, w))
        }
        _ => a == b,
    }
}

fn block_dict(block: &ContentBlock) -> Value {
    match block {
        ContentBlock::Text(text) => json!({"type": "text", "text": text}),
        ContentBlock::ToolUse(call) => {
            json!({"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments})
        }
        ContentBlock::ToolResult { id, content, failed, .. } => {
            with_failure(json!({"type": "tool_result", "tool_use_id": id, "content": content}), *failed)
        }
        ContentBlock::Other(value) => value.clone(),
        ContentBlock::Image(_)
        | ContentBlock::Document(_)
        | ContentBlock::Reasoning { .. }
        | ContentBlock::Provider(_) => Value::Null,
    }
}

fn with_failure(mut result: Value, failed: bool) -> Value {
    if failed {
        result["is_error"] = true.into();
    }
    result
}

fn is_blank_text(block: &ContentBlock) -> bool {
    matches!(block, ContentBlock::Text(text) if text.trim().is_empty())
}

fn read_message(value: &Value, earlier: &[Rc<Message>]) -> Result<(Role, Vec<ContentBlock>), OptionError> {
    let word = str_at(value, "role").unwrap_or("user");
    if matches!(word, "tool" | "tool_result" | "function") {
        let name = str_at(value, "tool_name").or_else(|| str_at(value, "name")).map(str::to_string);
        let id = ["tool_call_id", "tool_use_id"].iter().find_map(|k| str_at(value, k)).map(str::to_string);
        let id = id.or_else(|| name.as_deref().and_then(|n| open_call_id(earlier, n)));
        let content = value.get("content").cloned().unwrap_or_else(|| "".into());
        let id = id.or_else(|| name.clone()).unwrap_or_default();
        let block = ContentBlock::ToolResult { id, name, content, failed: is_failure(value) };
        return Ok((Role::User, vec![block]));
    }
    let role = match word {
        "assistant" => Role::Assistant,
        "system" => Role::System,
        "developer" => Role::Developer,
        _ => Role::User,
    };
    let mut content = Vec::new();
    if let Some(reasoning) = str_at(value, "reasoning").filter(|r| !r.is_empty()) {
        content.push(ContentBlock::Reasoning { text: reasoning.to_string(), signature: None });
    }
    match value.get("content") {
        None | Some(Value::Null) => {}
        Some(Value::String(text)) => content.push(ContentBlock::Text(text.clone())),
        Some(other) => content.extend(read_blocks(other)?),
    }
    // The first block repeats the reasoning of the `reasoning` field.
    if content.iter().filter(|b| matches!(b, ContentBlock::Reasoning { .. })).count() > 1
        && str_at(value, "reasoning").is_some()
    {
        content.remove(0);
    }
    for image in crate::json::list_at(value, "images") {
        let image = match image {
            Value::String(data) => Image {
                source: ImageSource::Base64(data.clone()),
                media_type: "image/png".into(),
                detail: None,
            },
            block => Image::from_json(block)?,
        };
        content.push(ContentBlock::Image(image));
    }
    if role == Role::Assistant {
        // The content may contain the same calls as blocks.
        let in_blocks = content.len();
        for (n, call) in crate::json::list_at(value, "tool_calls").iter().enumerate() {
            let function = call.get("function").unwrap_or(call);
            let id = str_at(call, "id").map_or_else(|| format!("call_{n}"), str::to_string);
            let mut blocks = content[..in_blocks].iter();
            if !blocks.any(|b| matches!(b, ContentBlock::ToolUse(c) if c.id == id)) {
                content.push(ContentBlock::ToolUse(read_call(id, function)));
            }
        }
    }
    Ok((role, content))
}

/// Returns whether a result is marked as a failure.
fn is_failure(result: &Value) -> bool {
    result.get("is_error") == Some(&Value::Bool(true))
}

fn read_call(id: String, function: &Value) -> ToolCall {
    let arguments = match function.get("arguments").or_else(|| function.get("input")) {
        Some(Value::String(text)) => parse_arguments(text),
        Some(Value::Null) | None => json!({}),
        Some(other) => other.clone(),
    };
    ToolCall { id, name: str_at(function, "name").unwrap_or_default().to_string(), arguments }
}

fn read_block(block: &Value, out: &mut Vec<ContentBlock>) -> Result<(), OptionError> {
    if let Value::String(text) = block {
        out.push(ContentBlock::Text(text.clone()));
        return Ok(());
    }
    let text = |key: &str| str_at(block, key).unwrap_or_default().to_string();
    match str_at(block, "type").unwrap_or("text") {
        "text" | "output_text" | "input_text" => match block.get("text") {
            Some(value) => out.push(ContentBlock::Text(display(value))),
            None => out.push(ContentBlock::Text(block.get("content").map(display).unwrap_or_default())),
        },
        "image" => out.push(ContentBlock::Image(Image::from_json(block)?)),
        "tool_use" | "tool_call" => out.push(ContentBlock::ToolUse(read_call(text("id"), block))),
        "tool_result" => out.push(ContentBlock::ToolResult {
            id: text("tool_use_id"),
            name: str_at(block, "name").map(str::to_string),
            content: block.get("content").cloned().unwrap_or_else(|| "".into()),
            failed: is_failure(block),
        }),
        "document" if Document::is_neutral(block) => {
            out.push(ContentBlock::Document(Document::from_json(block)?));
        }
        "reasoning" | "thinking" => out.push(ContentBlock::Reasoning {
            text: str_at(block, "text").or_else(|| str_at(block, "thinking")).unwrap_or_default().to_string(),
            signature: str_at(block, "signature").map(str::to_string),
        }),
        "reasoning_summary" | "tool_search_query" | "tool_search_result" | "provider_data" => {}
        _ => {
            let mut other = block.clone();
            if let Some(map) = other.as_object_mut() {
                map.shift_remove("visibility");
            }
            out.push(ContentBlock::Other(other));
        }
    }
    Ok(())
}

/// Returns the id of the call that a result without an id answers, assuming that results are in the order of the calls.
fn open_call_id(earlier: &[Rc<Message>], name: &str) -> Option<String> {
    let turn = earlier.iter().rposition(|m| m.tool_calls().any(|c| c.name == name))?;
    let answers = earlier[turn + 1..].iter().flat_map(|m| &m.content);
    let answered: Vec<&str> = answers
        .filter_map(|block| match block {
            ContentBlock::ToolResult { id, .. } => Some(id.as_str()),
            _ => None,
        })
        .collect();
    let mut calls = earlier[turn].tool_calls().filter(|c| c.name == name);
    let open = calls.clone().find(|c| !answered.contains(&c.id.as_str())).or_else(|| calls.next_back());
    open.map(|c| c.id.clone())
}

/// Returns the name of the tool that was called with an id.
fn called_name(earlier: &[Rc<Message>], id: &str) -> Option<String> {
    earlier.iter().rev().flat_map(|m| m.tool_calls()).find(|c| c.id == id).map(|c| c.name.clone())
}

/// Parses the JSON source of a call's arguments. Invalid JSON becomes a `__parse_error` object that tool dispatchers
/// turn into an error result.
pub(crate) fn parse_arguments(text: &str) -> Value {
    if text.trim().is_empty() {
        return json!({});
    }
    let repaired = || serde_json::from_str(&crate::structured::without_lone_surrogates(text)?).ok();
    match serde_json::from_str(text) {
        Ok(value) => value,
        Err(e) => repaired().unwrap_or_else(|| {
            json!({"__parse_error": format!(
                "Could not parse tool arguments as JSON: {e}. Raw input: {}", crate::json::clip(text, 200)
            )})
        }),
    }
}

/// Parses JSON that is still arriving: as it is, or with its open strings and brackets closed. Returns `None` when both
/// fail; the caller then shows the raw text.
pub fn parse_partial_arguments(text: &str) -> Option<Value> {
    if let Ok(value) = serde_json::from_str(text) {
        return Some(value);
    }
    let (mut open, mut in_string, mut escaped) = (Vec::new(), false, false);
    for c in text.chars() {
        match c {
            _ if escaped => escaped = false,
            '\\' if in_string => escaped = true,
            '"' => in_string = !in_string,
            _ if in_string => {}
            '{' => open.push('}'),
            '[' => open.push(']'),
            '}' | ']' => {
                open.pop();
            }
            _ => {}
        }
    }
    let mut closed = text.to_string();
    if escaped {
        closed.pop();
    }
    if in_string {
        closed.push('"');
    }
    closed.extend(open.iter().rev());
    serde_json::from_str(&closed).ok()
}

/// Returns the content of a tool result as a string; media blocks become a short marker.
pub fn result_text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        Value::Array(blocks) if blocks.iter().all(|b| crate::media::block_text(b).is_some()) => {
            let texts: Vec<_> = blocks.iter().filter_map(crate::media::block_text).collect();
            texts.join("\n")
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Conversation;
    use proptest::prelude::*;

    fn all(dicts: &[Value]) -> Result<Vec<Rc<Message>>, OptionError> {
        Ok(Conversation::from_json(dicts)?.iter().collect())
    }

    /// Message dicts of the usual shapes, with and without unusual parts.
    fn dicts() -> impl Strategy<Value = Value> {
        let text = || "[a-z<\\\"ü\n]{0,6}";
        let block = prop_oneof![
            text().prop_map(|t| json!({"type": "text", "text": t})),
            text().prop_map(|t| json!({"type": "tool_result", "tool_use_id": "c", "content": t})),
            text().prop_map(|t| json!({"type": "tool_use", "id": t, "name": "n", "input": {"b": 1, "a": t}})),
            text().prop_map(|t| json!({"text": t, "type": "output_text", "visibility": "public"})),
            text().prop_map(|t| json!({"type": "thinking", "thinking": t, "signature": "s"})),
            text().prop_map(|t| json!({"type": "own", "x": t})),
        ];
        let call = text().prop_map(|t| {
            json!({"id": t, "type": "function", "function": {"name": "n", "arguments": format!("{{\"a\":\"{}\"}}", t.len())}})
        });
        let role =
            prop_oneof![Just("user"), Just("assistant"), Just("system"), Just("tool"), Just("strange")];
        let content = prop_oneof![
            text().prop_map(Value::from),
            proptest::collection::vec(block, 0..3).prop_map(Value::from),
            Just(Value::Null)
        ];
        (role, content, proptest::collection::vec(call, 0..3), 0..6u8).prop_map(
            |(role, content, calls, more)| {
                let mut out = json!({"role": role, "content": content});
                if more % 2 == 1 {
                    out["tool_calls"] = calls.into();
                }
                match more {
                    2 => out["tool_call_id"] = "c".into(),
                    3 => out["reasoning"] = "because".into(),
                    4 => out["name"] = "n".into(),
                    _ => {}
                }
                out
            },
        )
    }

    proptest! {
        #[test]
        fn the_dict_that_was_read_can_be_had_back(list in proptest::collection::vec(dicts(), 0..5)) {
            let read = Conversation::from_json(&list).unwrap();
            prop_assert_eq!(Value::from(read.to_json()).to_string(), Value::from(list).to_string());
        }
    }

    #[test]
    fn usual_shapes_are_kept_once() {
        let usual = [
            json!({"role": "user", "content": "hi"}),
            json!({"role": "assistant", "content": "", "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{\"path\":\"x\"}"}}]}),
            json!({"role": "tool", "tool_call_id": "c1", "content": "data"}),
            json!({"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "read", "input": {"path": "x"}}]}),
            json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "data"}]}),
        ];
        assert!(all(&usual).unwrap().iter().all(|m| !matches!(m.dict, Dict::Given(_))));
        assert_eq!(all(&usual[..1]).unwrap()[0].strings(), (2, 6));
    }

    #[test]
    fn openai_and_anthropic_tool_turns_read_alike() {
        let openai = [
            json!({"role": "assistant", "content": "", "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{\"path\":\"x\"}"}}]}),
            json!({"role": "tool", "tool_call_id": "c1", "content": "data"}),
        ];
        let anthropic = [
            json!({"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "read", "input": {"path": "x"}}]}),
            json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "data"}]}),
        ];
        let strip = |m: Vec<Rc<Message>>| -> Vec<ContentBlock> {
            m.iter().flat_map(|m| m.content.clone()).filter(|b| !is_blank_text(b)).collect()
        };
        let (a, b) = (all(&openai).unwrap(), all(&anthropic).unwrap());
        assert_eq!(strip(a), strip(b));
    }

    #[test]
    fn a_result_named_by_tool_finds_its_call() {
        let messages = all(&[
            json!({"role": "assistant", "tool_calls": [{"id": "c9", "function": {"name": "read", "arguments": {}}}]}),
            json!({"role": "tool", "tool_name": "read", "content": "data"}),
        ])
        .unwrap();
        assert!(matches!(&messages[1].content[0], ContentBlock::ToolResult { id, .. } if id == "c9"));
    }

    #[test]
    fn results_named_by_tool_answer_calls_of_one_tool_in_order() {
        let call = |id: &str| json!({"id": id, "function": {"name": "read", "arguments": {}}});
        let result = json!({"role": "tool", "tool_name": "read", "content": "data"});
        let turn = json!({"role": "assistant", "tool_calls": [call("a"), call("b")]});
        let messages = all(&[turn, result.clone(), result]).unwrap();
        let answered = |at: usize| match &messages[at].content[0] {
            ContentBlock::ToolResult { id, .. } => id.clone(),
            other => panic!("{other:?}"),
        };
        assert_eq!((answered(1), answered(2)), ("a".to_string(), "b".to_string()));
    }

    #[test]
    fn a_result_knows_the_tool_of_its_call() {
        let messages = all(&[
            json!({"role": "assistant", "tool_calls": [{"id": "c9", "function": {"name": "read", "arguments": {}}}]}),
            json!({"role": "tool", "tool_call_id": "c9", "content": "data"}),
        ])
        .unwrap();
        assert!(
            matches!(&messages[1].content[0], ContentBlock::ToolResult { name, .. } if name.as_deref() == Some("read"))
        );
    }

    #[test]
    fn images_need_one_source_a_type_and_a_known_detail() {
        let read = |block: Value| all(&[json!({"role": "user", "content": [block]})]).map_err(|e| e.0);
        let source = "llm_call image content requires exactly one of url or base64";
        assert_eq!(read(json!({"type": "image", "media_type": "image/png"})).unwrap_err(), source);
        assert_eq!(read(json!({"type": "image", "url": "u", "base64": "b"})).unwrap_err(), source);
        assert_eq!(
            read(json!({"type": "image", "url": "u"})).unwrap_err(),
            "llm_call image content requires media_type"
        );
        assert_eq!(
            read(json!({"type": "image", "url": "u", "mime_type": "image/png", "detail": "max"}))
                .unwrap_err(),
            "llm_call image detail must be \"low\", \"high\", or \"auto\""
        );
        assert!(read(json!({"type": "image", "data": "AA==", "media_type": "image/png"})).is_ok());
    }

    #[test]
    fn partial_arguments_are_closed() {
        assert_eq!(parse_partial_arguments("{\"a\": [1, {\"b\": \"x\\"), Some(json!({"a": [1, {"b": "x"}]})));
        assert_eq!(parse_partial_arguments("{\"a\": 1}"), Some(json!({"a": 1})));
        assert_eq!(parse_partial_arguments("{\"a\":"), None);
    }

    #[test]
    fn empty_assistant_turns_say_nothing() {
        let messages = all(&[json!({"role": "assistant", "content": ""}), json!(3)]).unwrap();
        assert!(messages.len() == 1 && messages[0].is_blank(true));
        let thought = json!({"role": "assistant", "content": [{"type": "reasoning", "text": "hm"}]});
        let messages = all(&[thought]).unwrap();
        assert!(messages[0].is_blank(false) && !messages[0].is_blank(true));
    }
}
