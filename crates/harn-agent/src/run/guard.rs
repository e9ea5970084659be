//! Guardrails: functions and agents that check the input or the answer of a loop and can stop it.

use harn_llm::Conversation;
use harn_llm::message::Role;

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

    /// Returns the messages that may become part of a session, which has the first `stored` ones; `None` if no further one may.
    /// A guardrail that stops the loop also keeps what it rejects from later calls: an input with all that follows, or the
    /// last reply, which is withheld until the guardrails have accepted it.
    pub fn session_messages(&self, stored: usize) -> Option<Conversation> {
        let withholds = match &self.state.blocked {
            Some(blocked) if blocked.stage == "input" => return None,
            Some(_) => true,
            // A validator, a reminder or a callback may run before the guardrails, and a stored message cannot be removed.
            None => self.config.guards_output && !self.state.guarded && self.state.status.is_none(),
        };
        let mut out = self.state.messages.clone();
        let reply = self.state.messages.iter().rposition(|message| message.role == Role::Assistant);
        if withholds && let Some(reply) = reply.filter(|reply| *reply >= stored) {
            // Results of tools that the withheld reply calls would have no call.
            out.truncate(reply);
        }
        Some(out)
    }

    /// Ends the loop with an answer that passed the guardrails.
    pub(super) fn guarded(&mut self) {
        self.state.guarded = true;
        self.end(Status::Done);
    }
}
