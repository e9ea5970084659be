//! The events of a loop: the type that subscribers, hosts and tests receive.

use harn_value::{Data as Json, json};
use serde::{Deserialize, Serialize};

/// An event of a loop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum AgentEvent {
    /// The model wrote user-visible text.
    AgentMessageChunk {
        /// The new part.
        text: String,
    },
    /// A part of a structured answer has arrived.
    AnswerPartial {
        /// The answer so far; missing parts are absent.
        value: Json,
    },
    /// The reply broke off and is requested again: its streamed text is void.
    AgentMessageReset,
    /// The model's private reasoning.
    AgentThoughtChunk {
        /// The new part.
        text: String,
    },
    /// An iteration has started.
    TurnStart {
        /// Its number, from 0.
        iteration: u32,
    },
    /// A turn with tool calls has ended.
    TurnEnd {
        /// Its number, from 0.
        iteration: u32,
        /// The argument of `post_turn_callback`.
        turn_info: Json,
    },
    /// The model requests a tool call.
    ToolCall(ToolProgress),
    /// The status of a call changed.
    ToolCallUpdate(ToolProgress),
    /// The runtime sent a message to the model.
    FeedbackInjected {
        /// The kind of the message.
        kind: String,
        /// The content.
        content: String,
    },
    /// A limit ended the loop.
    BudgetExhausted {
        /// The limit on iterations, if the loop reached it.
        #[serde(skip_serializing_if = "Option::is_none")]
        max_iterations: Option<u32>,
        /// Why the budget rejected a call.
        #[serde(skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
    /// Too many turns without action ended the loop.
    LoopStuck {
        /// The limit.
        max_nudges: u32,
        /// Number of the last iteration.
        last_iteration: u32,
        /// Beginning of the last reply.
        tail_excerpt: String,
    },
    /// Loop detection handled a repeated call; for the trace only.
    LoopIntervention {
        /// The tool.
        tool_name: String,
        /// `warn`, `block` or `skip`.
        kind: String,
        /// Number of repetitions of the call.
        count: u32,
    },
    /// In native mode, the model wrote calls as text; for the trace only.
    NativeToolFallback {
        /// Whether they are executed.
        accepted: bool,
        /// The option `native_tool_fallback`.
        policy: String,
        /// The number of such turns so far.
        fallback_index: u32,
        /// Number of calls.
        tool_call_count: usize,
    },
    /// A final reply does not match the schema, and the model is called again; for the trace only.
    SchemaRetry {
        /// The number of such requests so far.
        attempt: u32,
        /// The validation errors.
        errors: Vec<String>,
        /// Whether the model receives a message about it.
        nudge_used: bool,
        /// The content of the message.
        correction_prompt: String,
    },
    /// A warning for the user who runs the program; for standard error only.
    Warning {
        /// The warning.
        text: String,
    },
    /// A skill was activated.
    SkillActivated(Json),
    /// A skill was deactivated.
    SkillDeactivated(Json),
    /// An active skill restricts the tools that the model sees.
    SkillScopeTools(Json),
    /// A summary replaced older messages.
    TranscriptCompacted(Json),
    /// Files that a daemon watches have changed.
    FsWatch {
        /// The changed files.
        watch_paths: Vec<String>,
    },
    /// A daemon was polled too often without a reason to wake.
    DaemonWatchdogTripped {
        /// Number of polls.
        attempts: u64,
        /// Total wait in milliseconds.
        elapsed_ms: u64,
    },
    /// The status of delegated work changed.
    WorkerUpdate(Json),
    /// A stage of a workflow created a handoff.
    Handoff(Json),
    /// The conversation was transferred to another agent: `{from, to, message}`.
    AgentHandoff(Json),
    /// A guardrail stopped the loop.
    GuardrailTripped {
        /// `input` or `output`.
        stage: String,
        /// The name of the guardrail.
        guardrail: String,
        /// The reason.
        reason: String,
    },
    /// The model wrote a plan: `{plan, entries, tool_name, tool_use_id}`.
    Plan(Json),
    /// The status of a reminder changed; for the event log only.
    Reminder(Json),
    /// The model searches for deferred tools.
    ToolSearchQuery(Json),
    /// The tools that the search found.
    ToolSearchResult(Json),
}

/// The state of a tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolProgress {
    /// Id of the call.
    pub tool_call_id: String,
    /// The tool.
    pub tool_name: String,
    /// `pending`, `in_progress`, `completed` or `failed`.
    pub status: String,
    /// The kind in the tool's annotations; set on the first event of a call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw_input: Option<Json>,
    /// The JSON of the arguments so far, while it is incomplete and cannot be parsed yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw_input_partial: Option<String>,
    /// The result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw_output: Option<Json>,
    /// The error message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Its category.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_category: Option<String>,
    /// The backend that executes the tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub executor: Option<Json>,
    /// Milliseconds since the call was accepted, including approvals; set by the driver of the loop, which has the
    /// clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<i64>,
    /// Milliseconds of execution, if the call was executed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execution_duration_ms: Option<i64>,
}

impl ToolProgress {
    /// Creates the state of a call of which only the name is known.
    pub fn new(id: &str, name: &str, status: &str) -> ToolProgress {
        ToolProgress {
            tool_call_id: id.to_owned(),
            tool_name: name.to_owned(),
            status: status.to_owned(),
            kind: None,
            raw_input: None,
            raw_input_partial: None,
            raw_output: None,
            error: None,
            error_category: None,
            executor: None,
            duration_ms: None,
            execution_duration_ms: None,
        }
    }
}

impl AgentEvent {
    /// Returns whether subscribers receive the event.
    pub fn is_live(&self) -> bool {
        use AgentEvent::{LoopIntervention, NativeToolFallback, Reminder, SchemaRetry, Warning};
        !matches!(
            self,
            LoopIntervention { .. }
                | NativeToolFallback { .. }
                | Reminder(_)
                | SchemaRetry { .. }
                | Warning { .. }
        )
    }

    /// Returns the dict that subscribers receive.
    pub fn to_json(&self, session_id: &str) -> Json {
        let mut out = match self {
            AgentEvent::ToolSearchQuery(fields) => tagged("tool_search_query", fields),
            AgentEvent::ToolSearchResult(fields) => tagged("tool_search_result", fields),
            AgentEvent::TranscriptCompacted(fields) => tagged("transcript_compacted", fields),
            AgentEvent::Plan(fields) => tagged("plan", fields),
            AgentEvent::Handoff(fields) => tagged("handoff", fields),
            AgentEvent::AgentHandoff(fields) => tagged("agent_handoff", fields),
            AgentEvent::SkillActivated(fields) => tagged("skill_activated", fields),
            AgentEvent::SkillDeactivated(fields) => tagged("skill_deactivated", fields),
            AgentEvent::SkillScopeTools(fields) => tagged("skill_scope_tools", fields),
            AgentEvent::WorkerUpdate(fields) => tagged("worker_update", fields),
            other => Json::lossy(other),
        };
        out["session_id"] = session_id.into();
        out
    }
}

fn tagged(kind: &str, fields: &Json) -> Json {
    let mut out = json!({"type": kind});
    for (key, value) in fields.as_object().into_iter().flatten() {
        out[key] = value.clone();
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_dicts_with_type_and_session() {
        assert_eq!(
            AgentEvent::TurnStart { iteration: 2 }.to_json("s"),
            json!({"type": "turn_start", "iteration": 2, "session_id": "s"})
        );
        let call = AgentEvent::ToolCall(ToolProgress::new("1", "read", "pending"));
        assert_eq!(
            call.to_json("s"),
            json!({"type": "tool_call", "tool_call_id": "1", "tool_name": "read", "status": "pending", "session_id": "s"})
        );
        let found = AgentEvent::ToolSearchResult(json!({"promoted": ["x"]}));
        assert_eq!(found.to_json("s")["promoted"], json!(["x"]));
    }
}
