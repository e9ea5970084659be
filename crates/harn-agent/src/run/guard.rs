//! Guardrails: functions and agents that check the input or the answer of a loop and can stop it.

use super::state::Blocked;
use super::{AgentLoop, Status};
use crate::event::AgentEvent;

impl AgentLoop {
    /// Stops the loop. Its result then contains no text: that of an answer is withheld by the guardrail, and a reply to
    /// the input was written before the guardrail decided.
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

    /// Ends the loop with an answer that passed the guardrails.
    pub(super) fn guarded(&mut self) {
        self.state.guarded = true;
        self.end(Status::Done);
    }
}
