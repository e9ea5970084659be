//! What happens in a loop, as it happens: the one type that subscribers, hosts and tests see.

use harn_value::{Data as Json, json};
use serde::{Deserialize, Serialize};

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum AgentEvent {
    /// The model said something for people.
    AgentMessageChunk {
        /// The text.
        text: String,
    },
    /// More of an answer that a schema describes has arrived.
    AnswerPartial {
        /// The answer so far; what is not there yet is absent.
        value: Json,
    },
    /// The reply broke off and is asked for again: the text of it that was told is void.
    AgentMessageReset,
    /// The model's private reasoning.
    AgentThoughtChunk {
        /// The text.
        text: String,
    },
    /// An iteration begins.
    TurnStart {
        /// Its number, from 0.
        iteration: u32,
    },
    /// A turn with tool calls is over.
    TurnEnd {
        /// Its number, from 0.
        iteration: u32,
        /// What `post_turn_callback` is told.
        turn_info: Json,
    },
    /// The model wants a tool.
    ToolCall(ToolProgress),
    /// A call goes on or is over.
    ToolCallUpdate(ToolProgress),
    /// The runtime told the model something.
    FeedbackInjected {
        /// What it is about.
        kind: String,
        /// The text.
        content: String,
    },
    /// A limit ended the loop.
    BudgetExhausted {
        /// The limit on iterations, when it was that one.
        #[serde(skip_serializing_if = "Option::is_none")]
        max_iterations: Option<u32>,
        /// What the budget said of the call that it did not let pass.
        #[serde(skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
    /// Too many turns without action ended the loop.
    LoopStuck {
        /// The limit.
        max_nudges: u32,
        /// Number of the last iteration.
        last_iteration: u32,
        /// Beginning of the last text.
        tail_excerpt: String,
    },
    /// Loop detection did something about a call; for the trace only.
    LoopIntervention {
        /// The tool.
        tool_name: String,
        /// `warn`, `block` or `skip`.
        kind: String,
        /// How often the call repeated itself.
        count: u32,
    },
    /// Calls were written as text although they should travel natively; for the trace only.
    NativeToolFallback {
        /// Whether they are run.
        accepted: bool,
        /// The option `native_tool_fallback`.
        policy: String,
        /// The number of such turns so far.
        fallback_index: u32,
        /// How many calls there were.
        tool_call_count: usize,
    },
    /// A final reply is not the answer that was asked for, and the model is asked again; for the trace only.
    SchemaRetry {
        /// The number of such requests so far.
        attempt: u32,
        /// What is wrong.
        errors: Vec<String>,
        /// Whether the model receives a message about it.
        nudge_used: bool,
        /// The message.
        correction_prompt: String,
    },
    /// Something that whoever runs the program should know; for standard error only.
    Warning {
        /// The text.
        text: String,
    },
    /// A skill becomes active.
    SkillActivated(Json),
    /// A skill is active no longer.
    SkillDeactivated(Json),
    /// An active skill narrows the tools that the model sees.
    SkillScopeTools(Json),
    /// Older messages gave way to a summary.
    TranscriptCompacted(Json),
    /// Files that a daemon watches have changed.
    FsWatch {
        /// Which.
        watch_paths: Vec<String>,
    },
    /// A daemon found no reason to go on too often.
    DaemonWatchdogTripped {
        /// How often it looked.
        attempts: u64,
        /// How long it waited.
        elapsed_ms: u64,
    },
    /// Something happened to work that a loop handed on.
    WorkerUpdate(Json),
    /// A stage of a workflow has handed work on.
    Handoff(Json),
    /// The conversation was transferred to another agent: `{from, to, message}`.
    AgentHandoff(Json),
    /// A guardrail stopped the loop.
    GuardrailTripped {
        /// `input` or `output`.
        stage: String,
        /// Which one.
        guardrail: String,
        /// Why.
        reason: String,
    },
    /// The model has written down a plan: `{plan, entries, tool_name, tool_use_id}`.
    Plan(Json),
    /// Something happened to a reminder; for the event log only.
    Reminder(Json),
    /// The model searches deferred tools.
    ToolSearchQuery(Json),
    /// Tools that the search brought up.
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
    /// The kind that its annotations name, where the call begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw_input: Option<Json>,
    /// Their JSON so far, while the model writes it and it cannot be read yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw_input_partial: Option<String>,
    /// The result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw_output: Option<Json>,
    /// What went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Its category.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_category: Option<String>,
    /// Which backend runs the tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub executor: Option<Json>,
    /// Milliseconds since the model's call was taken up, with what was asked about it; whoever drives the loop has the clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<i64>,
    /// Milliseconds of execution, when it was executed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execution_duration_ms: Option<i64>,
}

impl ToolProgress {
    /// The state of a call that only has a name so far.
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
    /// Whether subscribers hear of it.
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

    /// Returns the dict that subscribers get.
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
