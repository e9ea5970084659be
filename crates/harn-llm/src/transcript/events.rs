//! Events of a transcript: one per message, in a form that can be shown without knowledge of message shapes.

use harn_prompt::untrusted::quote_name;
use harn_value::{Data as Value, json};

use super::Ids;
use crate::json::{list_at, str_at};

/// Creates an event.
pub fn event(
    kind: &str,
    role: &str,
    visibility: &str,
    text: &str,
    metadata: Option<Value>,
    ids: &Ids<'_>,
) -> Value {
    let mut out = json!({"id": ids(), "kind": kind, "role": role, "visibility": visibility, "text": text, "blocks": []});
    if let Some(metadata) = metadata {
        out["metadata"] = metadata;
    }
    out
}

/// Returns the events of messages, in order.
pub fn message_events(messages: &[Value], ids: &Ids<'_>) -> Vec<Value> {
    messages.iter().map(|m| message_event(m, ids)).collect()
}

/// Returns the event of a message.
pub(crate) fn message_event(message: &Value, ids: &Ids<'_>) -> Value {
    let role = str_at(message, "role").unwrap_or("user");
    let is_result = matches!(role, "tool_result" | "tool");
    let default = if is_result { "internal" } else { "public" };
    let blocks: Vec<Value> = blocks_of(message, default);
    let shows = |word: &str| blocks.iter().any(|b| str_at(b, "visibility") == Some(word));
    let visibility = if shows("public") {
        "public"
    } else if shows("internal") {
        "internal"
    } else if shows("private") {
        "private"
    } else {
        default
    };
    let texts: Vec<String> = blocks.iter().filter_map(block_text).filter(|t| !t.is_empty()).collect();
    let kind = if role == "tool_result" { "tool_result" } else { "message" };
    let text = texts.join(" ");
    let mut out = json!({"id": ids(), "kind": kind, "role": role, "visibility": visibility, "text": text});
    out["blocks"] = blocks.into();
    out
}

fn blocks_of(message: &Value, default: &str) -> Vec<Value> {
    let fill = |block: &Value| -> Value {
        let mut block = match block {
            Value::Object(_) => block.clone(),
            other => json!({"type": "text", "text": crate::json::display(other)}),
        };
        if block.get("type").is_none() {
            block["type"] = "text".into();
        }
        if block.get("visibility").is_none() {
            let internal = str_at(&block, "type") == Some("tool_result");
            block["visibility"] = if internal { "internal" } else { default }.into();
        }
        block
    };
    match message.get("content") {
        Some(Value::Array(blocks)) => blocks.iter().map(fill).collect(),
        Some(Value::Null) | None => Vec::new(),
        Some(Value::String(text)) if text.is_empty() => Vec::new(),
        Some(block) => vec![fill(block)],
    }
}

/// Renders a block for the text of its event; `None` for reasoning.
fn block_text(block: &Value) -> Option<String> {
    let label = || {
        ["name", "title", "path", "asset_id"]
            .iter()
            .find_map(|k| str_at(block, k))
            .unwrap_or_else(|| str_at(block, "type").unwrap_or("file"))
    };
    let label = || quote_name(label());
    let named =
        |keys: &[&str]| quote_name(keys.iter().find_map(|key| str_at(block, key)).unwrap_or_default());
    match str_at(block, "type").unwrap_or("text") {
        "text" | "output_text" | "input_text" => str_at(block, "text").map(str::to_string),
        "reasoning" | "reasoning_summary" | "thinking" => None,
        "tool_call" | "tool_use" => Some(format!("<tool_call:{}>", named(&["name"]))),
        "tool_result" => Some(format!("<tool_result:{}>", named(&["name", "tool_use_id"]))),
        "image" => Some(format!("<image:{}>", label())),
        "file" => Some(format!("<file:{}>", label())),
        other => Some(format!("<{}>", quote_name(other))),
    }
}

/// Returns all events as (visibility, role, text).
pub(super) fn shown(transcript: &Value) -> impl Iterator<Item = (&str, &str, &str)> {
    list_at(transcript, "events").iter().map(|e| {
        let text = |key: &'static str| str_at(e, key).unwrap_or_default();
        (text("visibility"), text("role"), text("text"))
    })
}
