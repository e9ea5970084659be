//! Prompts as a program takes them, and events of loops as the client is told of them.

use std::collections::BTreeMap;

use harn_value::{Data as Json, json};

/// Updates that the protocol does not know; only clients that ask for them get them.
pub(super) const OWN: [&str; 15] = [
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
    "worker_update",
];

/// The text of a prompt: its text blocks, links and embedded texts, with blank lines between.
///
/// # Errors
/// What is wrong with it.
pub(super) fn prompt_text(prompt: &Json) -> Result<String, String> {
    let Some(blocks) = prompt.as_array() else {
        return Err("`prompt` must be a list of content blocks".to_owned());
    };
    let mut parts = Vec::new();
    for block in blocks {
        let part = match block["type"].as_str() {
            Some("text") => block["text"].as_str().map(str::to_owned),
            Some("resource_link") => block["uri"].as_str().map(str::to_owned),
            Some("resource") => {
                let (resource, uri) = (&block["resource"], block["resource"]["uri"].as_str());
                resource["text"].as_str().zip(uri).map(|(text, uri)| format!("{uri}:\n{text}"))
            }
            kind => {
                let kind = kind.unwrap_or("without a type");
                return Err(format!("content of type `{kind}` cannot be given to a program"));
            }
        };
        parts.push(part.ok_or("a content block lacks its text or uri")?);
    }
    let text = parts.join("\n\n");
    if text.trim().is_empty() { Err("the prompt is empty".to_owned()) } else { Ok(text) }
}

/// Something that is said for people.
pub(super) fn said(text: &str) -> Json {
    json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}})
}

/// What the client has said, for one that is told it again.
pub(super) fn heard(text: &str) -> Json {
    json!({"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": text}})
}

/// How often the id of each call came up in updates.
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

/// An event of a loop as an update; nothing for one that the client does not know.
pub(super) fn update(event: &Json, extended: bool) -> Option<Json> {
    let text = |key: &str| event[key].as_str().unwrap_or_default();
    let kind = text("type");
    Some(match kind {
        "agent_message_chunk" => said(text("text")),
        "agent_thought_chunk" => {
            json!({"sessionUpdate": kind, "content": {"type": "text", "text": text("text")}})
        }
        "tool_call" => json!({
            "sessionUpdate": kind, "toolCallId": event["tool_call_id"], "title": event["tool_name"], "kind": "other",
            "status": event["status"], "rawInput": event["raw_input"],
        }),
        "tool_call_update" => {
            let mut out = json!({
                "sessionUpdate": kind, "toolCallId": event["tool_call_id"], "status": event["status"],
            });
            if !event["raw_output"].is_null() {
                out["rawOutput"] = event["raw_output"].clone();
            }
            let shown = event["raw_output"].as_str().or_else(|| event["error"].as_str());
            if let Some(shown) = shown.filter(|shown| !shown.is_empty()) {
                out["content"] = json!([{"type": "content", "content": {"type": "text", "text": shown}}]);
            }
            out
        }
        "plan" => json!({"sessionUpdate": kind, "entries": entries(&event["entries"])}),
        _ if extended => {
            let mut out = event.clone();
            if let Some(map) = out.as_object_mut() {
                map.shift_remove("type");
                map.insert("sessionUpdate".to_owned(), kind.into());
            }
            out
        }
        _ => return None,
    })
}

/// The entries of a plan, with the three fields and the words that the protocol knows.
fn entries(given: &Json) -> Vec<Json> {
    let list = given.as_array().into_iter().flatten();
    list.map(|entry| {
        let word = |key: &str, known: [&'static str; 3], default: &'static str| {
            let given = entry[key].as_str().unwrap_or_default();
            known.into_iter().find(|word| *word == given).unwrap_or(default)
        };
        json!({
            "content": entry["content"].as_str().unwrap_or_default(),
            "priority": word("priority", ["high", "medium", "low"], "medium"),
            "status": word("status", ["pending", "in_progress", "completed"], "pending"),
        })
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
