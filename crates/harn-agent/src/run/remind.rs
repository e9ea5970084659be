//! Reminders of a loop: when providers are asked, which reminders a call contains, and when reminders expire.

use harn_prompt::reminder::providers::pressure_level;
use harn_prompt::reminder::{Lifecycle, compact, mark_fired, pending, post_turn, transcript_of};
use harn_value::{Data as Json, data::Map, json};
use serde::{Deserialize, Serialize};

use super::AgentLoop;
use super::state::Phase;
use crate::event::AgentEvent;

/// An event for reminder providers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Moment {
    /// One of [`harn_prompt::reminder::providers::EVENTS`].
    pub event: String,
    /// The payload; its keys depend on the event.
    pub payload: Json,
}

impl AgentLoop {
    /// Returns the reminders of the session: a transcript that contains nothing else. The driver may replace it between
    /// two steps.
    pub fn reminders_mut(&mut self) -> &mut Json {
        &mut self.state.reminders
    }

    /// Asks the providers of an event, if there are any, before the loop continues.
    pub(super) fn moment(&mut self, event: &str, payload: impl FnOnce(&Self) -> Json) {
        if self.config.remind_at.contains(event) {
            let mut payload = payload(self);
            payload["iteration"] = self.state.iterations.into();
            self.state.moments.push_back(Moment { event: event.to_owned(), payload });
        }
    }

    /// Handles the start of a turn. A pressure level is reported only when it is newly reached, because a reminder in
    /// every turn would change the system prompt each time and invalidate the provider's cache.
    pub(super) fn before_turn(&mut self) {
        if self.state.iterations == 0 {
            self.moment("session_start", |agent| json!({"prompt": agent.config.prompt}));
        }
        let used = self.used_tokens();
        let window = self.config.context_window;
        let level = newly_reached(&mut self.state.window_level, used, window);
        self.moment("pre_turn", |_| {
            with_level(level, json!({"used_tokens": used, "context_window": window}))
        });
        let counts = &self.state.counts;
        let used = u64::try_from(counts.input_tokens + counts.output_tokens).unwrap_or(0);
        let budget = self.config.token_budget.and_then(|budget| u64::try_from(budget).ok());
        let level = newly_reached(&mut self.state.budget_level, used, budget);
        if level.is_some() {
            self.moment("budget_pressure", |_| {
                with_level(level, json!({"used_tokens": used, "token_budget": budget}))
            });
        }
    }

    /// Returns the tokens of the next request: the provider's count for the last one, plus an estimate for newer
    /// messages.
    fn used_tokens(&self) -> u64 {
        let (counted, messages_then) = self.state.counted.unwrap_or_default();
        u64::try_from(counted + self.seen().tokens_from(messages_then)).unwrap_or(0)
    }

    /// Adds the pending reminders to the options of a call.
    pub(super) fn show_reminders(&mut self, options: &mut Map<String, Json>) {
        if !pending(&self.state.reminders).is_empty() {
            self.state.reminders = mark_fired(&self.state.reminders, self.state.iterations.into());
        }
        let pending = pending(&self.state.reminders);
        self.state.shown = pending.iter().map(|reminder| reminder.id.clone()).collect();
        let fired: Vec<Lifecycle> = self.state.shown.iter().map(|id| Lifecycle::of("fired", id)).collect();
        self.tell(&fired);
        let mut transcript = transcript_of(&pending);
        match options.get_mut("transcript") {
            Some(Json::Object(given)) => {
                // The messages precede the loop's own, and the reminders are those of the session; only the summary is
                // still needed.
                given.insert("messages".into(), json!([]));
                given.insert("events".into(), transcript["events"].take());
            }
            _ if pending.is_empty() => {}
            _ => {
                options.insert("transcript".into(), transcript);
            }
        }
    }

    fn tell(&mut self, lifecycle: &[Lifecycle]) {
        self.events.extend(lifecycle.iter().map(|entry| AgentEvent::Reminder(entry.to_json())));
    }

    /// After a compaction, retains only the reminders that request it.
    pub(super) fn reminders_survive(&mut self, archived: usize, summary: &str) {
        let survivors = compact(&self.state.reminders);
        self.state.reminders = survivors.transcript;
        self.tell(&survivors.lifecycle);
        self.moment("post_compact", |_| json!({"archived_messages": archived, "summary": summary}));
    }

    /// Handles the end of a turn in all cases: decrements the remaining turns of reminders that the model has seen.
    pub(super) fn after_turn(&mut self) {
        if !matches!(self.state.phase, Phase::Start | Phase::Rest(_) | Phase::Ended)
            || !std::mem::take(&mut self.state.in_turn)
        {
            return;
        }
        let shown = std::mem::take(&mut self.state.shown);
        let rest = post_turn(&self.state.reminders, |reminder| shown.contains(&reminder.id));
        self.state.reminders = rest.transcript;
        self.tell(&rest.lifecycle);
        self.moment("post_turn", |agent| {
            let turn = &agent.state.turn;
            json!({"text": turn.text, "tool_names": turn.names,
                   "failed": turn.answered.iter().any(|a| a.status != super::ToolStatus::Ok)})
        });
    }
}

/// Returns the pressure level if it is higher than the last one, `told`. A level that was left and is reached again is
/// reported again.
fn newly_reached(told: &mut u64, used: u64, limit: Option<u64>) -> Option<u64> {
    let level = limit.and_then(|limit| pressure_level(used, limit)).unwrap_or(0);
    let before = std::mem::replace(told, level);
    (level > before).then_some(level)
}

fn with_level(level: Option<u64>, mut payload: Json) -> Json {
    if let Some(level) = level {
        payload["level"] = level.into();
    }
    payload
}
