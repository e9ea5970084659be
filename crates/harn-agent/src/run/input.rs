//! Input of users while a loop runs, and the host's answers about skills and deferred tools.

use std::rc::Rc;

use harn_llm::{Message, Role};
use harn_value::{Data as Json, json};

use super::state::{Delivery, Input, Note};
use super::{AgentLoop, Phase, Step};
use crate::event::AgentEvent;
use crate::loop_skill::Candidate;

impl AgentLoop {
    /// Queues user input that arrives while the loop runs.
    pub fn hear(&mut self, text: &str, delivery: Delivery) {
        self.state.heard.push(Input { text: text.to_owned(), delivery });
    }

    /// Returns whether there is input that the model has not received.
    pub(super) fn has_unheard(&self) -> bool {
        !self.state.heard.is_empty()
    }

    /// Returns the input that the model has not received, in order of arrival.
    pub(super) fn unheard(&self) -> Vec<&str> {
        self.state.heard.iter().map(|input| input.text.as_str()).collect()
    }

    /// Sends the input that is due now to the model; returns whether there was any.
    pub(super) fn pass_on(&mut self, due: impl Fn(Delivery) -> bool) -> bool {
        let heard = std::mem::take(&mut self.state.heard);
        let (now, later): (Vec<Input>, Vec<Input>) = heard.into_iter().partition(|input| due(input.delivery));
        self.state.heard = later;
        for Input { text, delivery } in &now {
            self.say(Rc::new(Message::text_of(Role::User, text.clone())));
            let mut note = Note::internal("host_input", "user", text, json!({"delivery": delivery.as_str()}));
            note.visibility = "public".to_owned();
            self.state.notes.push(note);
        }
        !now.is_empty()
    }

    /// Returns the question which skills match, if the strategy is the host's and the host has not been asked yet.
    pub(super) fn skills_question(&mut self) -> Option<Step> {
        let skills = &self.config.skills;
        let due = !self.state.skills.matched || !skills.sticky;
        let by_host = matches!(skills.strategy.as_str(), "host" | "embedding");
        if !due || !by_host || self.state.skills.answered.is_some() {
            return None;
        }
        let offered = skills.list.iter().filter(|skill| skill.for_models);
        let candidates: Vec<Json> = offered
            .map(|skill| {
                json!({"name": skill.id, "description": skill.text("description"),
                       "when_to_use": skill.text("when_to_use"), "paths": skill.paths})
            })
            .collect();
        self.state.phase = Phase::Start;
        Some(Step::MatchSkills(json!({
            "strategy": skills.strategy, "prompt": self.query(), "working_files": skills.working_files,
            "candidates": candidates,
        })))
    }

    /// Handles the host's answer about skills; `None` without a host or if it failed.
    pub(super) fn skills_matched(&mut self, answer: Option<&Json>) {
        let found = answer.map(|answer| {
            let list = unwrapped(answer);
            let list = list.get("matches").unwrap_or(list).as_array().into_iter().flatten();
            let mut found: Vec<Candidate> = list.filter_map(|found| self.host_match(found)).collect();
            // The sort is stable: skills with equal scores stay in the host's order.
            found.sort_by(|a, b| b.score.total_cmp(&a.score));
            found
        });
        self.state.skills.answered = Some(found);
    }

    fn host_match(&self, found: &Json) -> Option<Candidate> {
        let name = found.as_str().or_else(|| found["name"].as_str())?;
        let skill = self.config.skills.get(name).filter(|skill| skill.for_models)?;
        let score = found["score"].as_f64().filter(|score| score.is_finite()).unwrap_or(1.0);
        let reason = found.get("reason").filter(|reason| !reason.is_null());
        let reason = reason.map_or_else(|| "host match".to_owned(), Json::printed);
        Some(Candidate { id: skill.id.clone(), score, reason })
    }

    /// Returns the matching skills, best first, and the strategy that found them.
    pub(super) fn fitting_skills(&mut self) -> (Vec<Candidate>, String) {
        let wanted = self.config.skills.strategy.clone();
        let text = match self.state.skills.answered.take() {
            Some(Some(found)) => return (found, wanted),
            Some(None) => format!(
                // prose-ok: diagnostic
                "agent.skill_match: no host answers `skill/match` for strategy `{wanted}`; `metadata` is used"
            ),
            None if wanted == "metadata" => String::new(),
            None => format!("skill_match: unknown strategy `{wanted}`; `metadata` is used"),
        };
        if !text.is_empty() && !std::mem::replace(&mut self.state.skills.warned, true) {
            self.events.push(AgentEvent::Warning { text });
        }
        (self.config.skills.rank(&self.query()), "metadata".to_owned())
    }
}

/// Returns a host's answer, which may be wrapped in `result`.
pub fn unwrapped(answer: &Json) -> &Json {
    match answer.as_object() {
        Some(map) if map.len() == 1 => map.get("result").unwrap_or(answer),
        _ => answer,
    }
}
