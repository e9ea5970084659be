//! Guardrails: functions and agents that check the input or the answer of a loop and can stop it.

use harn_llm::Conversation;
use harn_llm::message::Role;

use super::state::{Blocked, Phase};
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

    /// Returns the messages that may become part of a session. A guardrail that stops the loop also keeps what it rejects from
    /// later calls: an input with all that follows, or the answer, which is withheld until the guardrails have accepted it.
    pub fn session_messages(&self) -> Option<Conversation> {
        let messages = &self.state.messages;
        let withholds = match &self.state.blocked {
            Some(blocked) if blocked.stage == "input" => return None,
            Some(_) => true,
            None => self.state.phase == Phase::Guard && self.state.status.is_none(),
        };
        let mut out = messages.clone();
        if withholds
            && let Some(answer) = messages.iter().rposition(|message| message.role == Role::Assistant)
        {
            // Results of tools that the rejected message calls would have no call.
            out.truncate(answer);
        }
        Some(out)
    }

    /// Ends the loop with an answer that passed the guardrails.
    pub(super) fn guarded(&mut self) {
        self.state.guarded = true;
        self.end(Status::Done);
    }
}
