//! Conversation messages in one neutral shape.
//!
//! Scripts hand in dicts of several shapes (plain text, block lists, OpenAI and Anthropic tool turns,
//! Harn's own canonical blocks). [`normalise`] reads them all, so that each wire format writes from a
//! single vocabulary and a transcript made with one provider continues on another.

use serde_json::{Value, json};

use crate::error::OptionError;
use crate::json::{display, present, str_at};

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Durable instructions.
    System,
    /// Durable instructions in newer OpenAI vocabulary.
    Developer,
    /// The user, and results of tools.
    User,
    /// The model.
    Assistant,
}

impl Role {
    /// Returns the word used on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::System => "system",
            Role::Developer => "developer",
            Role::User => "user",
            Role::Assistant => "assistant",
        }
    }
}

/// One message in neutral shape.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What is said.
    pub content: Vec<ContentBlock>,
    /// Position in the list it was read from.
    pub index: usize,
}

/// A part of a message.
#[derive(Debug, Clone, PartialEq)]
pub enum ContentBlock {
    /// Visible text.
    Text(String),
    /// A picture.
    Image(Image),
    /// Private reasoning; sent back only where a provider wants it.
    Reasoning {
        /// The text.
        text: String,
        /// The provider's signature, without which it does not take the text back.
        signature: Option<String>,
    },
    /// A call the model made.
    ToolUse(ToolCall),
    /// What a tool answered.
    ToolResult {
        /// Id of the call answered.
        id: String,
        /// Name of the tool, when known.
        name: Option<String>,
        /// The answer: text, or blocks.
        content: Value,
    },
    /// A block of a kind this crate does not know, passed on unchanged.
    Other(Value),
}

/// A call of a tool by the model.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    /// Id that ties the result to the call.
    pub id: String,
    /// The tool.
    pub name: String,
    /// Arguments, normally an object.
    pub arguments: Value,
}

impl ToolCall {
    /// Returns the dict used in results: `{id, name, arguments}`.
    pub fn to_json(&self) -> Value {
        json!({"id": self.id, "name": self.name, "arguments": self.arguments})
    }
}

/// A picture by address or by content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// Where it is.
    pub source: ImageSource,
    /// MIME type.
    pub media_type: String,
    /// `low`, `high` or `auto`.
    pub detail: Option<String>,
}

/// Where a picture is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImageSource {
    /// An address the provider fetches.
    Url(String),
    /// The bytes in base64.
    Base64(String),
}

impl Image {
    fn from_json(block: &Value) -> Result<Image, OptionError> {
        let text = |keys: &[&str]| keys.iter().find_map(|k| str_at(block, k)).filter(|s| !s.is_empty());
        let source = match (text(&["url", "file_uri"]), text(&["base64", "data"])) {
            (Some(url), None) => ImageSource::Url(url.to_string()),
            (None, Some(data)) => ImageSource::Base64(data.to_string()),
            _ => {
                return Err(OptionError::new("llm_call image content requires exactly one of url or base64"));
            }
        };
        let media_type = text(&["media_type", "mime_type"])
            .ok_or_else(|| OptionError::new("llm_call image content requires media_type"))?
            .to_string();
        let detail = match present(block, "detail") {
            None => None,
            Some(Value::String(d)) if matches!(d.as_str(), "low" | "high" | "auto") => Some(d.clone()),
            Some(_) => {
                return Err(OptionError::new("llm_call image detail must be \"low\", \"high\", or \"auto\""));
            }
        };
        Ok(Image { source, media_type, detail })
    }

    /// Returns the address, or the content as a `data:` address.
    pub fn to_url(&self) -> String {
        match &self.source {
            ImageSource::Url(url) => url.clone(),
            ImageSource::Base64(data) => format!("data:{};base64,{data}", self.media_type),
        }
    }
}

impl Message {
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

/// Reads message dicts of any supported shape; elements that are no dicts are skipped.
///
/// # Errors
/// Images without source or type.
pub fn normalise(messages: &[Value]) -> Result<Vec<Message>, OptionError> {
    let mut out: Vec<Message> = Vec::with_capacity(messages.len());
    for (index, value) in messages.iter().enumerate() {
        if !value.is_object() {
            continue;
        }
        let mut message = read_message(value, index, &out)?;
        for block in &mut message.content {
            if let ContentBlock::ToolResult { id, name: name @ None, .. } = block {
                *name = called_name(&out, id);
            }
        }
        // An assistant turn that holds nothing is refused by every provider.
        if message.role == Role::Assistant && message.content.iter().all(is_empty_text) {
            continue;
        }
        out.push(message);
    }
    Ok(out)
}

fn is_empty_text(block: &ContentBlock) -> bool {
    matches!(block, ContentBlock::Text(text) if text.is_empty())
}

fn read_message(value: &Value, index: usize, earlier: &[Message]) -> Result<Message, OptionError> {
    let word = str_at(value, "role").unwrap_or("user");
    if matches!(word, "tool" | "tool_result" | "function") {
        let name = str_at(value, "tool_name").or_else(|| str_at(value, "name")).map(str::to_string);
        let id = ["tool_call_id", "tool_use_id"].iter().find_map(|k| str_at(value, k)).map(str::to_string);
        let id = id.or_else(|| name.as_deref().and_then(|n| open_call_id(earlier, n)));
        let content = value.get("content").cloned().unwrap_or_else(|| "".into());
        let block =
            ContentBlock::ToolResult { id: id.or_else(|| name.clone()).unwrap_or_default(), name, content };
        return Ok(Message { role: Role::User, content: vec![block], index });
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
        Some(Value::Array(blocks)) => {
            for block in blocks {
                read_block(block, &mut content)?;
            }
        }
        Some(block) => read_block(block, &mut content)?,
    }
    // Reasoning blocks repeat the field of the same name.
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
        for (n, call) in crate::json::list_at(value, "tool_calls").iter().enumerate() {
            let function = call.get("function").unwrap_or(call);
            let id = str_at(call, "id").map_or_else(|| format!("call_{n}"), str::to_string);
            push_call(&mut content, read_call(id, function));
        }
    }
    Ok(Message { role, content, index })
}

fn push_call(content: &mut Vec<ContentBlock>, call: ToolCall) {
    let known = content.iter().any(|b| matches!(b, ContentBlock::ToolUse(c) if c.id == call.id));
    if !known {
        content.push(ContentBlock::ToolUse(call));
    }
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
        "tool_use" | "tool_call" => push_call(out, read_call(text("id"), block)),
        "tool_result" => out.push(ContentBlock::ToolResult {
            id: text("tool_use_id"),
            name: str_at(block, "name").map(str::to_string),
            content: block.get("content").cloned().unwrap_or_else(|| "".into()),
        }),
        "reasoning" | "thinking" => out.push(ContentBlock::Reasoning {
            text: str_at(block, "text").or_else(|| str_at(block, "thinking")).unwrap_or_default().to_string(),
            signature: str_at(block, "signature").map(str::to_string),
        }),
        "reasoning_summary" | "tool_search_query" | "tool_search_result" => {}
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

/// The call that a result without an id answers: results come in the order of the calls.
fn open_call_id(earlier: &[Message], name: &str) -> Option<String> {
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

/// The tool that a call of this id was for.
fn called_name(earlier: &[Message], id: &str) -> Option<String> {
    earlier.iter().rev().flat_map(|m| m.tool_calls()).find(|c| c.id == id).map(|c| c.name.clone())
}

/// Parses the JSON text of a call's arguments; text that is no JSON becomes a `__parse_error` object
/// that tool dispatchers turn into an error result.
pub fn parse_arguments(text: &str) -> Value {
    if text.trim().is_empty() {
        return json!({});
    }
    match serde_json::from_str(text) {
        Ok(value) => value,
        Err(e) => json!({"__parse_error": format!(
            "Could not parse tool arguments as JSON: {e}. Raw input: {}", crate::json::clip(text, 200)
        )}),
    }
}

/// Parses JSON text that is still arriving: as it is, or with its open strings and brackets closed.
/// `None` when even that gives no value; the text is then shown raw.
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

/// Returns the content of a tool result as text.
pub fn result_text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        Value::Array(blocks) if blocks.iter().all(|b| b.is_string() || str_at(b, "text").is_some()) => {
            let texts: Vec<&str> =
                blocks.iter().filter_map(|b| b.as_str().or_else(|| str_at(b, "text"))).collect();
            texts.join("\n")
        }
        other => other.to_string(),
    }
}

/// Returns whether any message holds a picture.
pub fn any_image(messages: &[Value]) -> bool {
    messages.iter().any(|m| {
        let is_image = |b: &Value| str_at(b, "type") == Some("image");
        !crate::json::list_at(m, "images").is_empty()
            || match m.get("content") {
                Some(Value::Array(blocks)) => blocks.iter().any(is_image),
                Some(block) => is_image(block),
                None => false,
            }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let strip = |m: Vec<Message>| -> Vec<ContentBlock> {
            m.into_iter().flat_map(|m| m.content).filter(|b| !is_empty_text(b)).collect()
        };
        let (a, b) = (normalise(&openai).unwrap(), normalise(&anthropic).unwrap());
        assert_eq!(strip(a), strip(b));
    }

    #[test]
    fn a_result_named_by_tool_finds_its_call() {
        let messages = normalise(&[
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
        let messages = normalise(&[turn, result.clone(), result]).unwrap();
        let answered = |at: usize| match &messages[at].content[0] {
            ContentBlock::ToolResult { id, .. } => id.clone(),
            other => panic!("{other:?}"),
        };
        assert_eq!((answered(1), answered(2)), ("a".to_string(), "b".to_string()));
    }

    #[test]
    fn a_result_knows_the_tool_of_its_call() {
        let messages = normalise(&[
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
        let read = |block: Value| normalise(&[json!({"role": "user", "content": [block]})]).map_err(|e| e.0);
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
    fn empty_assistant_turns_vanish() {
        assert!(normalise(&[json!({"role": "assistant", "content": ""}), json!(3)]).unwrap().is_empty());
    }
}
