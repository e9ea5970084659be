//! The result dict of a loop.

use harn_llm::{Conversation, transcript};
use harn_prompt::reminder::{pending, reminder_event};
use harn_value::{Data as Json, json};

use super::state::{Blocked, Note, Transfer, add_once};
use super::{AgentLoop, Status};

impl AgentLoop {
    /// Returns the final status; `None` while the loop runs.
    pub fn status(&self) -> Option<Status> {
        let status = self.state.status?;
        if status == Status::Blocked {
            return Some(status);
        }
        // A daemon that ends normally is idle.
        let status =
            if self.config.daemon.is_some() && status == Status::Done { Status::Idle } else { status };
        Some(if self.unmet_requirement().is_none() { status } else { Status::Failed })
    }

    /// Returns the tools of `require_successful_tools` if none of them has succeeded.
    pub fn unmet_requirement(&self) -> Option<&[String]> {
        let required = &self.config.require;
        let met = required.is_empty() || required.iter().any(|name| self.state.successful.contains(name));
        (!met).then_some(required)
    }

    /// Returns the user-visible text of the last turn.
    pub fn last_visible(&self) -> &str {
        &self.state.turn.text
    }

    /// Returns whether the last turn was completed, so that nothing is left half done.
    pub fn is_turn_completed(&self) -> bool {
        !matches!(self.state.status, None | Some(Status::BudgetExhausted))
    }

    /// Returns whether a model has replied.
    pub fn has_called(&self) -> bool {
        self.state.counts.llm_calls > 0
    }

    /// Returns whether `max_iterations` ended the loop, and no other limit.
    pub fn is_out_of_turns(&self) -> bool {
        self.state.out_of_turns
    }

    /// Adds an event to the transcript.
    pub fn note(&mut self, kind: &str, text: &str, metadata: Json) {
        self.state.notes.push(Note::internal(kind, "system", text, metadata));
    }

    /// Returns the result dict. `ids` generates identifiers of the transcript and its events.
    pub fn outcome(&self, duration_ms: i64, ids: &dyn Fn() -> String) -> Json {
        let mut out = self.outcome_without_messages(duration_ms, ids);
        AgentLoop::add_messages(&self.state.messages, &mut out, ids);
        out
    }

    /// Returns the result dict without the messages of its transcript and their events, for readers that already have
    /// them.
    pub fn outcome_without_messages(&self, duration_ms: i64, ids: &dyn Fn() -> String) -> Json {
        let state = &self.state;
        let (status, natural) =
            (self.status().map_or("active", Status::as_str), state.status.map_or("active", Status::as_str));
        let counts = &state.counts;
        let mut distinct = Vec::new();
        state.tools_used.iter().for_each(|name| add_once(&mut distinct, name));
        let mut out = json!({
            "status": status,
            "stop_reason": state.stop_reason,
            "text": state.text,
            "visible_text": state.visible.join("\n\n"),
            "final_text": state.turn.text,
            "data": state.data,
            "error": self.failure(),
            "blocked": state.blocked.as_ref().map(Blocked::to_json),
            "last_agent": self.config.name,
            "handoffs": state.handoffs.iter().map(Transfer::to_json).collect::<Vec<Json>>(),
            "iterations": state.iterations,
            "duration_ms": duration_ms,
            "tools_used": state.tools_used,
            "rejected_tools": state.rejected,
            "llm": {"iterations": state.iterations, "duration_ms": counts.llm_ms,
                    "input_tokens": counts.input_tokens, "output_tokens": counts.output_tokens},
            "tools": {"calls": state.tools_used, "successful": state.successful, "rejected": state.rejected,
                      "mode": self.config.format.as_str()},
            "deferred_user_messages": self.unheard(),
            "daemon_state": if self.config.daemon.is_some() { status } else { "active" },
            "daemon_snapshot_path": self.config.daemon.as_ref().and_then(|daemon| daemon.snapshot_path()),
            "task_ledger": state.ledger.clone().unwrap_or_default().to_json(),
            "ledger_done_rejections": state.ledger_refusals,
            "trace": {
                "status": natural, "iterations": state.iterations, "total_duration_ms": duration_ms,
                "llm_calls": counts.llm_calls, "tool_executions": counts.executions,
                "tool_rejections": counts.rejections, "interventions": counts.interventions,
                "compactions": counts.compactions,
                "native_text_tool_fallbacks": counts.fallbacks,
                "native_text_tool_fallback_rejections": counts.fallback_rejections,
                "empty_completion_retries": counts.empty_retries,
                "total_input_tokens": counts.input_tokens, "total_output_tokens": counts.output_tokens,
                "total_llm_duration_ms": counts.llm_ms, "total_tool_duration_ms": counts.tool_ms,
                "tools_used": distinct,
            },
        });
        // Moved instead of copied, because it is large.
        out["transcript"] = self.transcript(ids);
        out
    }

    /// Adds the messages to a result of [`AgentLoop::outcome_without_messages`], and their events before the others.
    pub fn add_messages(messages: &Conversation, result: &mut Json, ids: &dyn Fn() -> String) {
        let messages = messages.to_json();
        let mut events = transcript::message_events(&messages, ids);
        if let Some(others) = result["transcript"]["events"].as_array_mut() {
            events.append(others);
        }
        result["transcript"]["messages"] = messages.into();
        result["transcript"]["events"] = events.into();
    }

    fn transcript(&self, ids: &dyn Fn() -> String) -> Json {
        let state = &self.state;
        let notes = state.notes.iter().map(|note| {
            let metadata = Some(note.metadata.read()).filter(|m| !m.is_null());
            transcript::event(&note.kind, &note.role, &note.visibility, &note.text, metadata, ids)
        });
        let mut events: Vec<Json> = notes.collect();
        events.extend(pending(&state.reminders).iter().map(reminder_event));
        let id = self.config.session_id.clone().unwrap_or_else(ids);
        let mut out = json!({
            "_type": "transcript", "version": 2, "id": id, "messages": null, "events": null,
            "assets": [], "state": if matches!(self.status(), Some(Status::Done | Status::Idle)) { "active" } else { "paused" },
        });
        out["events"] = events.into();
        let given = self.config.options.get("transcript").and_then(|t| t.get("summary"));
        let given = given.filter(|s| !s.is_null()).map(Json::printed);
        let parts: Vec<String> = given.into_iter().chain(state.summary.clone()).collect();
        if !parts.is_empty() {
            out["summary"] = parts.join("\n\n").into();
        }
        out
    }
}
