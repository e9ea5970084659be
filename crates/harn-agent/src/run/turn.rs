//! The end of a turn: results are added to the history, callbacks are called, and the loop ends or continues.

use harn_llm::options::shape::Shape;
use harn_prompt::Prose;
use harn_value::{Data as Json, json};

use super::state::{Phase, add_once};
use super::{AgentLoop, Delivery, LoopError, Status, Step, ToolStatus};
use crate::event::AgentEvent;

impl AgentLoop {
    /// Ends a turn whose calls are all answered.
    pub(super) fn end_turn(&mut self) -> Option<Step> {
        self.append_results();
        self.pass_on(|delivery| delivery == Delivery::FinishStep);
        let turn = &self.state.turn;
        self.state.single_tool_turns =
            if turn.names.len() == 1 { self.state.single_tool_turns + 1 } else { 0 };
        let info = self.turn_info();
        let iteration = self.state.iterations - 1;
        self.events.push(AgentEvent::TurnEnd { iteration, turn_info: info.clone() });
        let succeeded = |name: &String| {
            self.state.turn.answered.iter().any(|a| a.status == ToolStatus::Ok && a.name == *name)
        };
        self.state.turn.stop |= self.config.stop_after.iter().any(succeeded);
        self.state.phase = Phase::Close;
        (self.config.reviews_turns && !self.state.turn.stop).then_some(Step::ReviewTurn(info))
    }

    /// Returns the argument of `post_turn_callback`, which is also part of `turn_end`.
    fn turn_info(&self) -> Json {
        let turn = &self.state.turn;
        let executed: Vec<_> = turn.answered.iter().filter(|a| a.executed).collect();
        let results: Vec<Json> = executed
            .iter()
            .map(|a| {
                json!({"tool_name": a.name, "status": a.status.as_str(),
                       "rejected": a.status == ToolStatus::Rejected})
            })
            .collect();
        let mut successful = Vec::new();
        for answered in executed.iter().filter(|a| a.status == ToolStatus::Ok) {
            add_once(&mut successful, &answered.name);
        }
        json!({
            "tool_names": turn.names, "tool_results": results, "successful_tool_names": successful,
            "tool_count": turn.names.len(), "iteration": self.state.iterations - 1,
            "failed": turn.answered.iter().any(|a| a.status != ToolStatus::Ok),
            "consecutive_single_tool_turns": self.state.single_tool_turns,
            "session_tools_used": self.state.tools_used, "session_successful_tools": self.state.successful,
        })
    }

    /// Handles the return value of `post_turn_callback`.
    ///
    /// # Errors
    /// The value is invalid.
    pub(super) fn reviewed(&mut self, value: &Json) -> Result<(), LoopError> {
        let wrong = |got: &str| {
            let text = "post_turn_callback must return nil, a string, a bool, or {message?, stop?}, got"; // prose-ok: diagnostic
            LoopError::Callback(format!("{text} {got}"))
        };
        let message = match value {
            Json::Null => None,
            Json::Bool(stop) => {
                self.state.turn.stop |= *stop;
                None
            }
            Json::String(text) => Some(text.clone()),
            Json::Object(map) => {
                const FIELDS: Shape = Shape::Dict(&[("message", Shape::Str), ("stop", Shape::Bool)]);
                FIELDS.check("it", value).map_err(|error| wrong(&format!("a dict: {error}")))?;
                self.state.turn.stop |= map.get("stop") == Some(&Json::Bool(true));
                map.get("message").and_then(Json::as_str).map(str::to_owned)
            }
            other => return Err(wrong(other.type_name())),
        };
        if let Some(text) = message.filter(|t| !t.trim().is_empty()) {
            self.feedback("post_turn_callback", &text);
        }
        Ok(())
    }

    /// Ends a turn with tools: the loop ends, the conversation is transferred, or the history is compacted if needed.
    pub(super) fn close_turn(&mut self) {
        if self.state.turn.stop {
            self.end(Status::Done);
        } else if let Some(transfer) = self.state.turn.handoff.take() {
            self.state.phase = Phase::HandOff(transfer);
        } else if self.state.turn.finished || !self.compact_after_turn(Phase::Finish) {
            self.state.phase = Phase::Finish;
        }
    }

    /// Decides whether the loop continues after a turn with tools.
    pub(super) fn finish_turn(&mut self, prose: &dyn Prose) -> Result<(), LoopError> {
        let violations = std::mem::take(&mut self.state.turn.violations);
        self.violations(violations, true, prose)?;
        let errors = std::mem::take(&mut self.state.turn.parse_errors);
        if !errors.is_empty() {
            let text = self.parse_guidance(&errors, prose)?;
            self.feedback("parse_error", &text);
        }
        let once = self.config.tools.is_empty()
            && !self.config.persistent
            && !self.config.structured
            && self.config.daemon.is_none();
        if self.state.turn.finished || once {
            self.end(Status::Done);
            return Ok(());
        }
        self.after_turn_without_tools()
    }

    /// Checks the token budget and continues.
    pub(super) fn after_turn_without_tools(&mut self) -> Result<(), LoopError> {
        let used = self.state.counts.input_tokens + self.state.counts.output_tokens;
        if self.config.token_budget.is_some_and(|budget| used >= budget) {
            let message = Some(format!(
                "token_budget: {used} tokens are used of {}",
                self.config.token_budget.unwrap_or_default()
            ));
            self.events.push(AgentEvent::BudgetExhausted { max_iterations: None, message });
            self.end(Status::BudgetExhausted);
        } else {
            self.state.phase = Phase::Start;
        }
        Ok(())
    }
}
