//! The task ledger in a loop: it is included in each call, changed by a tool, and checked before the end.

use harn_prompt::untrusted::quote;
use harn_prompt::{Prose, prose::agent_asset};
use harn_value::{Data as Json, data::Map, json};

use super::reply::bindings;
use super::state::{Answered, Call};
use super::{AgentLoop, LoopError, ToolStatus};

impl AgentLoop {
    /// Answers a call of [`LEDGER`](crate::ledger::LEDGER).
    pub(super) fn answer_ledger(&mut self, call: &Call) {
        let (said, status) = match &mut self.state.ledger {
            None => {
                ("ledger unavailable: no task ledger is active in this turn".to_owned(), ToolStatus::Error)
            }
            Some(ledger) => match ledger.apply(&call.arguments) {
                Ok(done) => (format!("ledger: {done}"), ToolStatus::Ok),
                Err(problem) => (format!("ledger error: {problem}"), ToolStatus::Error),
            },
        };
        let text = format!("<tool_result>{}</tool_result>", quote(&said));
        let (id, name) = (call.id.clone(), call.name.clone());
        self.state.turn.answered.push(Answered {
            id,
            name,
            text,
            status,
            executed: false,
            quoted: true,
            media: Vec::new(),
        });
    }

    /// Returns the message that shows the ledger in one call.
    ///
    /// # Errors
    /// The asset does not render.
    pub(super) fn ledger_message(&self, prose: &dyn Prose) -> Result<Option<Json>, LoopError> {
        let Some(ledger) = &self.state.ledger else { return Ok(None) };
        let bindings = match ledger.to_json() {
            Json::Object(map) => map,
            _ => Map::new(),
        };
        let text = prose.render(&agent_asset("task_ledger_state"), &bindings)?;
        let text = quote(text.trim());
        let content = format!("<runtime_injection kind=\"task_ledger\">\n{text}\n</runtime_injection>");
        Ok(Some(json!({"role": "user", "content": content})))
    }

    /// Returns the deliverables that prevent the end of the task, as bindings of the feedback.
    pub(super) fn ledger_refusal(&self) -> Option<Map<String, Json>> {
        let pending = self.state.ledger.as_ref()?.pending();
        (!pending.is_empty())
            .then(|| bindings([("pending", json!(pending)), ("done_sentinel", json!(self.config.sentinel))]))
    }
}
