//! The arguments of callbacks.

use harn_llm::transcript::is_private;
use harn_value::{Data as Json, json};

use super::AgentLoop;
use crate::feedback;

impl AgentLoop {
    /// Returns the argument of `context_callback`.
    pub(super) fn shaping_context(&self, system: &str) -> Json {
        let visible = &self.seen().to_json();
        let recorded =
            &if self.state.seen.is_some() { self.state.messages.to_json() } else { visible.clone() };
        let last = |list: &[Json], n: usize| Json::from(list[list.len().saturating_sub(n)..].to_vec());
        let latest = |list, role| latest_text(list, role).map_or(Json::Null, Json::from);
        let result = |list: &[Json]| list.iter().rev().find_map(tool_result).map_or(Json::Null, Json::from);
        json!({
            "iteration": self.state.iterations,
            "system": if system.is_empty() { Json::Null } else { system.into() },
            "messages": visible, "visible_messages": visible, "recorded_messages": recorded,
            "recent_visible_messages": last(visible, 8), "recent_recorded_messages": last(recorded, 12),
            "latest_visible_user_message": latest(visible, "user"),
            "latest_recorded_user_message": latest(recorded, "user"),
            "latest_visible_assistant_message": latest(visible, "assistant"),
            "latest_recorded_assistant_message": latest(recorded, "assistant"),
            "latest_tool_result": result(visible), "latest_recorded_tool_result": result(recorded),
        })
    }

    /// Returns the session as reminder providers see it: `{id, iteration, messages, tools_used}`.
    pub fn session(&self, id: &str) -> Json {
        let mut session = self.recitation_context();
        session["id"] = id.into();
        session
    }

    /// Returns the argument of a `recitation` closure.
    pub(super) fn recitation_context(&self) -> Json {
        json!({
            "iteration": self.state.iterations, "messages": self.seen().to_json(),
            "tools_used": self.state.tools_used,
        })
    }
}

/// Returns the content of a user message that the runtime did not create.
pub(super) fn said_by_a_person(message: &Json) -> Option<String> {
    (!is_of_runtime(message)).then(|| text_of(message)).flatten()
}

/// Returns whether the runtime created a message.
pub(super) fn is_of_runtime(message: &Json) -> bool {
    feedback_kind(message).is_some()
}

/// Returns the content of the newest message of a role that the runtime did not create.
fn latest_text(messages: &[Json], role: &str) -> Option<String> {
    let found = messages.iter().rev().find(|m| m["role"] == role && feedback_kind(m).is_none());
    found.and_then(text_of)
}

/// Returns the feedback kind of a message that the runtime created.
fn feedback_kind(message: &Json) -> Option<&str> {
    let content = message["content"].as_str()?;
    content.strip_prefix("<runtime_feedback kind=\"")?.split('"').next()
}

/// Returns the text of a message: its text blocks joined by empty lines.
pub(super) fn text_of(message: &Json) -> Option<String> {
    match &message["content"] {
        Json::String(text) => Some(text.clone()),
        Json::Array(blocks) => {
            let public = blocks.iter().filter(|block| !is_private(block));
            let texts: Vec<&str> = public.filter_map(|block| block["text"].as_str()).collect();
            (!texts.is_empty()).then(|| texts.join("\n\n"))
        }
        _ => None,
    }
}

/// Returns the tool result in a message of any format.
fn tool_result(message: &Json) -> Option<String> {
    match message["role"].as_str() {
        Some("tool" | "tool_result") => text_of(message),
        Some("user") => match &message["content"] {
            Json::String(text) => feedback::text_of(text, "tool_results").map(str::to_owned),
            Json::Array(blocks) => {
                blocks.iter().rev().find(|b| b["type"] == "tool_result").map(|b| b["content"].printed())
            }
            _ => None,
        },
        _ => None,
    }
}
