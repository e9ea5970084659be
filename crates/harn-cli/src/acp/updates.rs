//! Conversion of prompts to program input, and of loop events to session updates.

use std::collections::BTreeMap;

use agent_client_protocol_schema::v1::{
    ContentBlock, ContentChunk, EmbeddedResourceResource, Plan, PlanEntry, PlanEntryPriority,
    PlanEntryStatus, SessionUpdate, ToolCall, ToolCallStatus, ToolCallUpdate, ToolCallUpdateFields, ToolKind,
};
use harn_value::Data as Json;

/// Updates that Harn adds to the protocol. Only clients that request them receive them.
pub(super) const OWN: [&str; 18] = [
    "turn_start",
    "turn_end",
    "feedback_injected",
    "budget_exhausted",
    "loop_stuck",
    "fs_watch",
    "daemon_watchdog_tripped",
    "skill_activated",
    "skill_deactivated",
    "skill_scope_tools",
    "tool_search_query",
    "tool_search_result",
    "transcript_compacted",
    "handoff",
    "agent_handoff",
    "answer_partial",
    "guardrail_tripped",
    "worker_update",
];

/// Converts a prompt to a string: its text blocks, links and embedded resources, separated by empty lines.
///
/// # Errors
/// A content block is not supported.
pub(super) fn prompt_text(prompt: &[ContentBlock]) -> Result<String, String> {
    let mut parts = Vec::new();
    for block in prompt {
        let kind = match block {
            ContentBlock::Text(text) => {
                parts.push(text.text.clone());
                continue;
            }
            ContentBlock::ResourceLink(link) => {
                parts.push(link.uri.clone());
                continue;
            }
            ContentBlock::Resource(embedded) => match &embedded.resource {
                EmbeddedResourceResource::TextResourceContents(text) => {
                    parts.push(format!("{}:\n{}", text.uri, text.text));
                    continue;
                }
                _ => "resource` without `text",
            },
            ContentBlock::Image(_) => "image",
            ContentBlock::Audio(_) => "audio",
            _ => "unknown",
        };
        return Err(format!("content of type `{kind}` cannot be given to a program"));
    }
    let text = parts.join("\n\n");
    if text.trim().is_empty() { Err("the prompt is empty".to_owned()) } else { Ok(text) }
}

/// An agent message.
pub(super) fn said(text: &str) -> Json {
    Json::lossy(&SessionUpdate::AgentMessageChunk(chunk(text)))
}

/// A user message, for replay to a client that loads the session.
pub(super) fn heard(text: &str) -> Json {
    Json::lossy(&SessionUpdate::UserMessageChunk(chunk(text)))
}

fn chunk(text: &str) -> ContentChunk {
    ContentChunk::new(ContentBlock::from(text))
}

/// Counts the uses of each call id in the updates.
pub(super) fn calls_in(updates: &[Json]) -> BTreeMap<String, u64> {
    let mut calls = BTreeMap::new();
    for id in
        updates.iter().filter(|u| u["sessionUpdate"] == "tool_call").filter_map(|u| u["toolCallId"].as_str())
    {
        let numbered = id.rsplit_once('.').and_then(|(id, number)| Some((id, number.parse::<u64>().ok()?)));
        match numbered.filter(|(id, _)| calls.contains_key(*id)) {
            Some((id, number)) => drop(calls.insert(id.to_owned(), number)),
            None => drop(calls.insert(id.to_owned(), 1)),
        }
    }
    calls
}

/// Converts a loop event to an update. Returns `None` for an event that the client does not support. `known_as` returns
/// the client's id of a call; its second argument is whether the call begins.
pub(super) fn update(event: &Json, extended: bool, known_as: impl Fn(&str, bool) -> String) -> Option<Json> {
    let text = |key: &str| event[key].as_str().unwrap_or_default();
    let kind = text("type");
    Some(Json::lossy(&match kind {
        "agent_message_chunk" => SessionUpdate::AgentMessageChunk(chunk(text("text"))),
        "agent_thought_chunk" => SessionUpdate::AgentThoughtChunk(chunk(text("text"))),
        "tool_call" => SessionUpdate::ToolCall(
            ToolCall::new(known_as(text("tool_call_id"), true), text("tool_name"))
                .kind(tool_kind(text("kind")))
                .status(status(text("status")))
                .raw_input(given(&event["raw_input"])),
        ),
        "tool_call_update" => {
            let shown = event["raw_output"].as_str().or_else(|| event["error"].as_str());
            let shown = shown.filter(|shown| !shown.is_empty());
            let fields = ToolCallUpdateFields::new()
                .status(status(text("status")))
                .raw_input(given(&event["raw_input"]))
                .raw_output(given(&event["raw_output"]))
                .content(shown.map(|shown| vec![ContentBlock::from(shown).into()]));
            SessionUpdate::ToolCallUpdate(ToolCallUpdate::new(known_as(text("tool_call_id"), false), fields))
        }
        "plan" => SessionUpdate::Plan(Plan::new(entries(&event["entries"]))),
        _ if extended => {
            let mut out = event.clone();
            if let Some(map) = out.as_object_mut() {
                map.shift_remove("type");
                map.insert("sessionUpdate".to_owned(), kind.into());
            }
            return Some(out);
        }
        _ => return None,
    }))
}

/// Converts a JSON value unchanged; null becomes `None`.
pub(super) fn given(data: &Json) -> Option<serde_json::Value> {
    (!data.is_null()).then(|| data.clone().into())
}

fn status(word: &str) -> ToolCallStatus {
    match word {
        "pending" => ToolCallStatus::Pending,
        "in_progress" => ToolCallStatus::InProgress,
        "completed" => ToolCallStatus::Completed,
        _ => ToolCallStatus::Failed,
    }
}

/// Parses the tool kind in a tool's annotations.
fn tool_kind(word: &str) -> ToolKind {
    Json::from(word).read().unwrap_or_default()
}

/// Converts the entries of a plan. Unknown values become the default.
fn entries(given: &Json) -> Vec<PlanEntry> {
    let list = given.as_array().into_iter().flatten();
    list.map(|entry| {
        let priority = entry["priority"].clone().read().unwrap_or(PlanEntryPriority::Medium);
        let status = entry["status"].clone().read().unwrap_or(PlanEntryStatus::Pending);
        PlanEntry::new(entry["content"].as_str().unwrap_or_default(), priority, status)
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use harn_value::json;

    fn update(event: &Json, extended: bool) -> Option<Json> {
        super::update(event, extended, |id, _| id.to_owned())
    }

    fn prompt_text(blocks: &Json) -> Result<String, String> {
        super::prompt_text(&blocks.clone().read::<Vec<ContentBlock>>().unwrap())
    }

    #[test]
    fn prompts_are_texts() {
        let blocks = json!([
            {"type": "text", "text": "Fix it."},
            {"type": "resource_link", "uri": "file:///a.rs", "name": "a.rs"},
            {"type": "resource", "resource": {"uri": "file:///b.rs", "text": "fn b() {}"}},
        ]);
        assert_eq!(prompt_text(&blocks).unwrap(), "Fix it.\n\nfile:///a.rs\n\nfile:///b.rs:\nfn b() {}");
        assert_eq!(prompt_text(&json!([])).unwrap_err(), "the prompt is empty");
        let image = json!([{"type": "image", "data": "", "mimeType": "image/png"}]);
        assert_eq!(prompt_text(&image).unwrap_err(), "content of type `image` cannot be given to a program");
        let bytes = json!([{"type": "resource", "resource": {"uri": "file:///a.bin", "blob": ""}}]);
        assert_eq!(
            prompt_text(&bytes).unwrap_err(),
            "content of type `resource` without `text` cannot be given to a program"
        );
    }

    #[test]
    fn events_are_updates() {
        let event = json!({"type": "tool_call_update", "tool_call_id": "1", "tool_name": "x", "status": "failed",
                           "error": "no", "session_id": "s"});
        assert_eq!(
            update(&event, false).unwrap(),
            json!({"sessionUpdate": "tool_call_update", "toolCallId": "1", "status": "failed",
                   "content": [{"type": "content", "content": {"type": "text", "text": "no"}}]})
        );
        let call = json!({"type": "tool_call", "tool_call_id": "1", "tool_name": "x", "status": "pending", "kind": "edit",
                          "raw_input": {"b": 1, "a": [null]}});
        assert_eq!(
            update(&call, false).unwrap(),
            json!({"sessionUpdate": "tool_call", "toolCallId": "1", "title": "x", "kind": "edit",
                   "rawInput": {"b": 1, "a": [null]}})
        );
        let own = json!({"type": "turn_start", "iteration": 0, "session_id": "s"});
        assert_eq!(update(&own, false), None);
        assert_eq!(
            update(&own, true).unwrap(),
            json!({"iteration": 0, "session_id": "s", "sessionUpdate": "turn_start"})
        );
        let plan =
            json!({"type": "plan", "entries": [{"content": "a", "status": "blocked", "priority": "high"}]});
        assert_eq!(
            update(&plan, false).unwrap()["entries"],
            json!([{"content": "a", "priority": "high", "status": "pending"}])
        );
    }
}
