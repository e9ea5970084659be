//! Handoffs: the model calls a tool, the turn ends, and the loop of another agent continues the conversation.

use harn_llm::tool_text::parse_reply;
use harn_llm::{Conversation, Message, Role};
use harn_prompt::Prose;
use harn_prompt::prose::agent_asset;
use harn_prompt::untrusted::quote;
use harn_value::{Data as Json, json};

use super::context::{is_of_runtime, text_of};
use super::reply::bindings;
use super::state::{Call, Phase, State, Transfer};
use super::{AgentLoop, Cached, LoopError, ToolStatus};
use crate::agents::{Handoff, History};
use crate::config::LoopConfig;
use crate::event::AgentEvent;

impl AgentLoop {
    /// Handles the call of a handoff. The first one ends the turn, unless the limit is reached.
    pub(super) fn request_handoff(&mut self, call: &Call, prose: &dyn Prose) -> Result<(), LoopError> {
        let Some(at) = self.config.handoffs.iter().position(|handoff| handoff.tool == call.name) else {
            return Err(LoopError::Unexpected);
        };
        let to = self.config.handoffs[at].agent.clone();
        let limit = self.config.max_handoffs;
        let used = u32::try_from(self.state.handoffs.len()).unwrap_or(u32::MAX);
        let taken = self.state.turn.handoff.as_ref().map(|transfer| transfer.to.clone());
        if taken.is_some() || used >= limit {
            let of = bindings([("agent", json!(to)), ("limit", json!(limit)), ("taken", json!(taken))]);
            let text = prose.render(&agent_asset("handoff_rejected"), &of)?.trim().to_owned();
            self.state.counts.rejections += 1;
            let category = Some("handoff_rejected");
            self.record(call, text, ToolStatus::Rejected, category, 0, false, json!({}));
            return Ok(());
        }
        let from = self.config.name.clone().unwrap_or_default();
        let message = call.arguments["message"].as_str().filter(|text| !text.trim().is_empty());
        let text = prose.render(&agent_asset("handoff_accepted"), &bindings([("agent", json!(to))]))?;
        self.record(call, text.trim().to_owned(), ToolStatus::Ok, None, 0, false, json!({}));
        self.state.turn.handoff = Some(Transfer { from, to, message: message.map(str::to_owned), at });
        Ok(())
    }

    /// Returns the handoff of a transfer.
    pub fn handoff(&self, transfer: &Transfer) -> Option<&Handoff> {
        self.config.handoffs.get(transfer.at)
    }

    /// Returns the part of the conversation that another agent sees; `None` means all of it. For [`History::Callback`],
    /// returns the argument of the closure.
    pub fn history_for(&self, history: History) -> Option<Vec<Json>> {
        let seen = || self.seen().to_json();
        match history {
            History::Full => None,
            History::Callback => Some(seen()),
            History::Task => {
                let task = Message::text_of(Role::User, self.config.prompt.clone());
                // A loop without a prompt was started with messages; its first user message is its task.
                let first = || seen().into_iter().find(|message| message["role"] == "user");
                let task = (!self.config.prompt.is_empty()).then(|| task.to_json());
                Some(task.or_else(first).into_iter().collect())
            }
            History::Messages => {
                let names = self.tool_names();
                Some(seen().iter().filter_map(|message| spoken(message, &names)).collect())
            }
        }
    }

    /// Creates the loop in which another agent continues, with the record, counters and limits of this one. `view` is
    /// the part of the conversation that it sees; `None` means all of it.
    ///
    /// # Errors
    /// The view contains an item that is not a message, or an asset does not render.
    pub fn hand_off(
        mut self,
        mut config: LoopConfig,
        transfer: Transfer,
        view: Option<Vec<Json>>,
        prose: &dyn Prose,
    ) -> Result<AgentLoop, LoopError> {
        let before = &mut self.state;
        let used = before.counts.input_tokens.saturating_add(before.counts.output_tokens);
        let made = u32::try_from(before.handoffs.len()).unwrap_or(u32::MAX).saturating_add(1);
        let (limits, own) = (&self.config, &mut config);
        own.max_iterations = before.iterations.saturating_add(own.max_iterations).min(limits.max_iterations);
        own.max_handoffs = made.saturating_add(own.max_handoffs).min(limits.max_handoffs);
        let budget = own.token_budget.map(|budget| used.saturating_add(budget));
        own.token_budget = budget.into_iter().chain(limits.token_budget).min();
        own.prompt.clone_from(&limits.prompt);
        let event = transfer.to_json();
        let seen = match view {
            Some(list) => {
                let wrong = |what: &str| {
                    let place = "agent_loop: handoffs: history must return a list of messages"; // prose-ok: diagnostic
                    LoopError::Callback(format!("{place}, {what}"))
                };
                if let Some(other) = list.iter().find(|message| !message.is_object()) {
                    return Err(wrong(&format!("got one with a value of type {}", other.type_name())));
                }
                Some(Conversation::from_json(&list).map_err(|error| wrong(&error.0))?)
            }
            None => before.seen.take(),
        };
        let filtered = self.config.handoffs.get(transfer.at).is_some_and(|h| h.history != History::Full);
        let ledger = config.ledger.take();
        let of = bindings([
            ("from", json!(transfer.from)),
            ("message", json!(transfer.message.as_deref().map(quote))),
        ]);
        before.handoffs.push(transfer);
        let mut state = State {
            phase: Phase::Start,
            messages: std::mem::take(&mut before.messages),
            seen,
            summary: before.summary.take(),
            notes: std::mem::take(&mut before.notes),
            queued: std::mem::take(&mut before.queued),
            heard: std::mem::take(&mut before.heard),
            text: std::mem::take(&mut before.text),
            visible: std::mem::take(&mut before.visible),
            iterations: before.iterations,
            tools_used: std::mem::take(&mut before.tools_used),
            successful: std::mem::take(&mut before.successful),
            rejected: std::mem::take(&mut before.rejected),
            reminders: std::mem::take(&mut before.reminders),
            moments: std::mem::take(&mut before.moments),
            budget_level: before.budget_level,
            counts: std::mem::take(&mut before.counts),
            handoffs: std::mem::take(&mut before.handoffs),
            hooked: before.hooked,
            ledger,
            ..State::default()
        };
        state.notes.push(super::state::Note::internal("agent_handoff", "system", "", event.clone()));
        let mut events = std::mem::take(&mut self.events);
        events.push(AgentEvent::AgentHandoff(event));
        let mut next = AgentLoop { config, state, events, offered: Cached::default(), paths: self.paths };
        if filtered {
            let text = prose.render(&agent_asset("handoff_message"), &of)?;
            next.feedback("handoff", &text);
        }
        Ok(next)
    }
}

/// Returns a message of the user or an agent without tool calls and results; `None` for any other message.
fn spoken(message: &Json, tools: &[String]) -> Option<Json> {
    let role = message["role"].as_str().unwrap_or_default();
    let is_result = |block: &Json| block["type"] == "tool_result";
    match role {
        "user" if is_of_runtime(message) => None,
        "user" => {
            let blocks = message["content"].as_array();
            if blocks.is_some_and(|blocks| blocks.iter().any(is_result)) {
                return None;
            }
            Some(message.clone())
        }
        "assistant" => {
            let text = text_of(message)?;
            let visible = parse_reply(&text, tools).visible(&text);
            let text = visible.trim();
            (!text.is_empty()).then(|| json!({"role": "assistant", "content": text}))
        }
        _ => None,
    }
}
