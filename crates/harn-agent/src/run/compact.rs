//! Compaction in a loop: a summary replaces older messages in the model's view, but not in the record.

use harn_llm::transcript::{archivable_of, render};
use harn_llm::{Conversation, Message, Role};
use harn_value::json;
use std::rc::Rc;

use super::state::{Archive, Compacting, Note, Phase};
use super::{AgentLoop, Step};
use crate::compaction::Engine;
use crate::event::AgentEvent;

/// Minimum size of the archived messages, as the threshold divided by this number. Otherwise a loop whose last messages
/// alone exceed the threshold would request a summary in every turn.
const WORTH_IT: i64 = 20;

impl AgentLoop {
    /// Returns the messages that the model sees.
    pub(super) fn seen(&self) -> &Conversation {
        self.state.seen.as_ref().unwrap_or(&self.state.messages)
    }

    /// Returns the estimated tokens of the next request, without its tools.
    fn estimate(&self) -> i64 {
        self.seen().tokens_from(0) + self.state.system_bytes / 4
    }

    /// Starts a compaction before a call if needed; returns whether it did.
    pub(super) fn compact_before_call(
        &mut self,
        system_bytes: usize,
        resume: impl FnOnce() -> Phase,
    ) -> bool {
        self.state.system_bytes = i64::try_from(system_bytes).unwrap_or(i64::MAX);
        let first = !std::mem::replace(&mut self.state.preflighted, true);
        first
            && self.estimate() >= self.config.compaction.threshold
            && self.begin_compaction("preflight", resume())
    }

    /// Starts a compaction after a turn with tools if needed; returns whether it did.
    pub(super) fn compact_after_turn(&mut self, resume: Phase) -> bool {
        self.estimate() > self.config.compaction.threshold && self.begin_compaction("auto", resume)
    }

    /// Starts a compaction before a daemon becomes idle, whatever the size; returns whether there is anything to
    /// compact.
    pub(super) fn consolidate(&mut self, resume: Phase) -> bool {
        let compaction = &self.config.compaction;
        let Some(engine) = compaction.engine else { return false };
        let (keep_first, keep_last) = (compaction.keep_first, compaction.keep_last);
        let threshold = std::mem::take(&mut self.config.compaction.threshold);
        let begun = self.plan_compaction("auto", engine, keep_first, keep_last, false, resume);
        self.config.compaction.threshold = threshold;
        begun
    }

    fn begin_compaction(&mut self, mode: &str, resume: Phase) -> bool {
        let compaction = &self.config.compaction;
        let Some(engine) = compaction.engine else { return false };
        let (keep_first, keep_last) = (compaction.keep_first, compaction.keep_last);
        self.plan_compaction(mode, engine, keep_first, keep_last, false, resume)
    }

    fn plan_compaction(
        &mut self,
        mode: &str,
        engine: Engine,
        keep_first: usize,
        keep_last: usize,
        second: bool,
        resume: Phase,
    ) -> bool {
        let seen = self.seen();
        let Some(range) = archivable_of(seen, keep_first, keep_last) else { return false };
        // Measured in the same way as the threshold, including arguments of calls.
        let tokens = seen.with(|all| all[range.clone()].iter().map(|message| message.tokens()).sum::<i64>());
        // A summary of only a summary would add nothing.
        if range.len() < 2 && !second || tokens.saturating_mul(WORTH_IT) < self.config.compaction.threshold {
            return false;
        }
        let archive = Archive { messages: seen.to_json_to(range.end).split_off(range.start), engine };
        let (mode, tokens_before) = (mode.to_owned(), self.estimate());
        // The results of the last call before the range must stay with it.
        let keep_first = range.start;
        let compacting = Compacting { archive, keep_first, mode, second, tokens_before, resume };
        self.state.phase = Phase::Compact(Box::new(compacting));
        true
    }

    /// Requests the summary.
    pub(super) fn ask_for_summary(&mut self, compacting: Box<Compacting>) -> Step {
        let archive = compacting.archive.clone();
        self.state.compacting = Some(compacting);
        Step::Compact(archive)
    }

    /// Replaces the archived messages with a summary. `None` means that no summary was produced, so the messages are
    /// truncated.
    pub(super) fn compacted(&mut self, written: Option<String>) {
        let Some(compacting) = self.state.compacting.take() else { return };
        let Compacting { archive, keep_first, mode, second, tokens_before, resume } = *compacting;
        let written = written.filter(|text| !text.trim().is_empty());
        let used = if written.is_some() { archive.engine } else { Engine::Truncate };
        let text = written.unwrap_or_else(|| render(&archive.messages, Engine::Truncate.layout(), None));
        let archived = archive.messages.len();
        let mut seen = Conversation::new();
        let summary = Rc::new(Message::text_of(Role::User, text.clone()));
        let old = self.seen().clone();
        old.iter().take(keep_first).for_each(|message| seen.push(message));
        seen.push(summary);
        old.iter().skip(keep_first + archived).for_each(|message| seen.push(message));
        self.state.seen = Some(seen);
        // The provider's token usage is that of the old history.
        self.state.counted = None;
        self.state.counts.compactions += 1;
        self.state.summary = Some(match self.state.summary.take() {
            Some(old) => format!("{old}\n\n{text}"),
            None => text.clone(),
        });
        let compaction = &self.config.compaction;
        let metadata = json!({
            "mode": mode, "strategy": compaction.strategy, "engine_strategy": used.as_str(),
            "archived_messages": archived, "estimated_tokens_before": tokens_before,
            "estimated_tokens_after": self.estimate(), "keep_first": keep_first, "keep_last": compaction.keep_last,
        });
        let (limit, hard_engine, keep_last) =
            (compaction.hard_limit, compaction.hard_engine, compaction.keep_last);
        let told = harn_llm::transcript::compaction_text(&compaction.strategy);
        self.state.notes.push(Note::internal("compaction", "system", &told, metadata.clone()));
        self.events.push(AgentEvent::TranscriptCompacted(metadata));
        self.reminders_survive(archived, &text);
        let too_large = limit.is_some_and(|limit| self.estimate() > limit);
        if second
            || !too_large
            || !self.plan_compaction(&mode, hard_engine, keep_first, keep_last, true, resume.clone())
        {
            self.state.phase = resume;
        }
    }
}
