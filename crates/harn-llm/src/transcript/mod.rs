//! Transcripts: conversations as immutable dicts of messages and events.
//!
//! Pure functions on JSON. The caller supplies identifiers ([`Ids`]), so equal inputs produce equal outputs.

mod call;
mod compact;
mod events;
mod lifecycle;
mod messages;

pub(crate) use call::assistant_message;
pub(crate) use call::paused_message;
pub(crate) use call::search_events;
pub use call::{CallRecord, of_call};
pub(crate) use compact::conversation_lines;
pub use compact::{
    CompactOptions, Compacted, Strategy, apply as compact, archivable, archivable_of, compaction_text,
    is_long_result, is_private, plan as compact_plan, render, render as compact_text, render_masked,
    tokens_of,
};
pub(crate) use events::message_event;
pub use events::{event, message_events};
pub use lifecycle::{abandon, archive, fork, reset, resume};
pub use messages::{
    add_asset, add_message, add_tool_result, events_by_kind, export, field, from_messages, import,
    render_full, render_visible, stats,
};

use harn_value::{Data as Value, json};

use crate::json::{list_at, str_at};

/// Generates fresh identifiers.
pub type Ids<'a> = dyn Fn() -> String + 'a;

/// Returns whether a value is a transcript dict.
pub fn is_transcript(value: &Value) -> bool {
    str_at(value, "_type") == Some("transcript")
}

/// Creates an empty transcript.
pub fn empty(metadata: Option<Value>, ids: &Ids<'_>) -> Value {
    let mut out =
        json!({"_type": "transcript", "version": 2, "id": ids(), "messages": [], "events": [], "assets": []});
    if let Some(metadata) = metadata.filter(|m| !m.is_null()) {
        out["metadata"] = metadata;
    }
    out
}

/// Returns the events of a transcript that do not represent its messages.
pub fn extra_events(transcript: &Value) -> Vec<Value> {
    let of_message = |e: &Value| matches!(str_at(e, "kind"), Some("message" | "tool_result"));
    list_at(transcript, "events").iter().filter(|e| !of_message(e)).cloned().collect()
}

/// Replaces the messages of a transcript and recreates their events; other events are unchanged.
pub(crate) fn with_messages(transcript: &Value, messages: Vec<Value>, ids: &Ids<'_>) -> Value {
    let mut out = transcript.clone();
    let extra = extra_events(transcript);
    let events: Vec<Value> = message_events(&messages, ids).into_iter().chain(extra).collect();
    out["messages"] = messages.into();
    out["events"] = events.into();
    out
}
