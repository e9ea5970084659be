//! Guardrails: functions and agents that stop a loop, at its input or at its answer.

use super::state::Blocked;
use super::{AgentLoop, Status};
use crate::event::AgentEvent;

impl AgentLoop {
    /// Stops the loop. Its result has no text then: that of an answer is what a guardrail withholds, and that of a reply to
    /// an input was written before the guardrail had decided.
    pub(super) fn block(&mut self, blocked: Blocked) {
        self.state.text.clear();
        self.state.visible.clear();
        self.state.turn.text.clear();
        self.state.data = None;
        let Blocked { stage, guardrail, reason } = blocked.clone();
        self.events.push(AgentEvent::GuardrailTripped { stage, guardrail, reason });
        self.state.blocked = Some(blocked);
        self.end(Status::Blocked);
    }

    /// Ends the loop with an answer that passed.
    pub(super) fn guarded(&mut self) {
        self.state.guarded = true;
        self.end(Status::Done);
    }
}
