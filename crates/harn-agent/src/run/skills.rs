//! Skills of a loop: which are active, what they show of the tools, and what happens when one comes or goes.

use harn_llm::Role;
use harn_value::{Data as Json, json};
use serde::{Deserialize, Serialize};

use super::state::{Answered, Call, Note, Phase};
use super::{AgentLoop, Status, Step, ToolStatus};
use crate::event::AgentEvent;
use crate::loop_skill::{Candidate, LoopSkill, is_runtime_tool};
use crate::tool::LoopTool;

/// Closures of a skill that are to be called, in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillHook {
    /// Place of the skill in [`crate::loop_skill::LoopSkills::list`].
    pub skill: usize,
    /// `on_activate` or `on_deactivate`.
    pub hook: String,
}

/// A server of tools that a skill wants, or wants no more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Binding {
    /// The id of the skill.
    pub skill: String,
    /// The name of the server in the manifest of the project.
    pub server: String,
    /// Whether the skill has become active, or is active no longer.
    pub wanted: bool,
    /// Whether the skill was active already when the loop began: that its servers run again is no news.
    pub again: bool,
}

impl AgentLoop {
    /// The ids of the active skills, the best first.
    pub fn active_skills(&self) -> &[String] {
        &self.state.skills.active
    }

    /// Opens an iteration: skills are matched where that is due.
    pub(super) fn open(&mut self) -> Option<Step> {
        if self.own_iterations() >= self.config.max_iterations {
            self.end_out_of_turns();
            return None;
        }
        self.state.phase = Phase::Begin;
        if self.config.skills.list.is_empty() {
            return None;
        }
        if let Some(question) = self.skills_question() {
            return Some(question);
        }
        self.choose_skills();
        let bindings = std::mem::take(&mut self.state.skills.bindings);
        if bindings.is_empty() { self.skill_hooks() } else { Some(Step::BindServers(bindings)) }
    }

    /// The closures of skills that have come and gone, when there are any. The turn begins behind them.
    pub(super) fn skill_hooks(&mut self) -> Option<Step> {
        let hooks = std::mem::take(&mut self.state.skills.hooks);
        (!hooks.is_empty()).then_some(Step::RunSkillHooks(hooks))
    }

    /// Tells of servers that were started for skills, or given back; each with what went wrong.
    pub(super) fn bound(&mut self, bindings: &[Binding], problems: &[Option<String>]) {
        let told = |(binding, problem): &(&Binding, &Option<String>)| !binding.again || problem.is_some();
        for (Binding { skill, server, wanted, .. }, problem) in bindings.iter().zip(problems).filter(told) {
            let mut fields = json!({"skill": skill, "server": server});
            let kind = match (problem, wanted) {
                (Some(problem), _) => {
                    fields["error"] = problem.as_str().into();
                    let text = format!("skill `{skill}`: server `{server}` is not bound: {problem}");
                    self.events.push(AgentEvent::Warning { text });
                    "skill_mcp_bind_failed"
                }
                (None, true) => "skill_mcp_bound",
                (None, false) => "skill_mcp_unbound",
            };
            self.tell_skill(kind, fields);
        }
    }

    /// `max_iterations` is used up.
    pub(super) fn end_out_of_turns(&mut self) {
        let max_iterations = Some(self.config.max_iterations);
        self.events.push(AgentEvent::BudgetExhausted { max_iterations });
        self.state.out_of_turns = true;
        self.end(Status::BudgetExhausted);
    }

    /// Decides which skills are active, and tells of those that come and go.
    fn choose_skills(&mut self) {
        let first = !std::mem::replace(&mut self.state.skills.matched, true);
        let mut chosen: Vec<Candidate> = Vec::new();
        let mut wanted: Vec<String> = self.state.skills.active.clone();
        if first || !self.config.skills.sticky {
            let strategy;
            (chosen, strategy) = self.fitting_skills();
            let candidates: Vec<Json> =
                chosen.iter().map(|c| json!({"name": c.id, "score": c.score, "reason": c.reason})).collect();
            let skills = &self.config.skills;
            let metadata = json!({
                "strategy": strategy, "iteration": self.state.iterations, "reassess": !first,
                "candidates": candidates, "working_files": skills.working_files,
            });
            chosen.truncate(skills.top_n);
            wanted = chosen.iter().map(|c| c.id.clone()).collect();
            if let Some(carried) = skills.carried.as_ref().filter(|_| first) {
                // They are active already: the session goes on, so nothing is told again of those that stay.
                let carried: Vec<String> =
                    carried.iter().filter(|id| skills.get(id).is_some()).cloned().collect();
                if skills.sticky {
                    wanted.clone_from(&carried);
                }
                self.state.skills.active = carried;
            }
            self.state.notes.push(Note::internal("skill_matched", "system", "", metadata));
        }
        for id in &self.state.skills.loaded {
            if !wanted.contains(id) {
                wanted.push(id.clone());
            }
        }
        let before = std::mem::replace(&mut self.state.skills.active, wanted.clone());
        if first {
            // The servers of a skill that the session has brought along ended with the loop before.
            before.iter().filter(|id| wanted.contains(id)).for_each(|id| self.bind(id, true, true));
        }
        for id in before.iter().filter(|id| !wanted.contains(id)) {
            self.leaves(id);
        }
        for id in wanted.iter().filter(|id| !before.contains(id)) {
            let candidate = chosen.iter().find(|c| c.id == *id);
            self.enters(id, candidate);
        }
    }

    /// Wants the servers of a skill, or wants them no more.
    fn bind(&mut self, id: &str, wanted: bool, again: bool) {
        let servers = self.config.skills.get(id).map(|skill| skill.servers.clone()).unwrap_or_default();
        let of = |server: String| Binding { skill: id.to_owned(), server, wanted, again };
        self.state.skills.bindings.extend(servers.into_iter().map(of));
    }

    /// What the task is now: the last thing that a person said.
    pub(super) fn query(&self) -> String {
        let newest_first = self.state.messages.iter().rev().filter(|message| message.role == Role::User);
        let text = newest_first.filter_map(|message| super::context::said_by_a_person(&message.to_json()));
        text.into_iter().next().unwrap_or_else(|| self.config.prompt.clone())
    }

    fn leaves(&mut self, id: &str) {
        let fields = json!({"name": id, "iteration": self.state.iterations});
        self.tell_skill("skill_deactivated", fields.clone());
        self.events.push(AgentEvent::SkillDeactivated(fields));
        self.bind(id, false, false);
        self.hook(id, "on_deactivate");
    }

    fn enters(&mut self, id: &str, candidate: Option<&Candidate>) {
        let Some(skill) = self.config.skills.get(id).cloned() else { return };
        let fields = json!({
            "name": id, "description": skill.text("description"), "iteration": self.state.iterations,
            "score": candidate.map(|c| c.score),
            "reason": candidate.map_or("loaded by the model", |c| c.reason.as_str()),
            "allowed_tools": skill.allowed_tools,
        });
        self.tell_skill("skill_activated", fields.clone());
        self.events.push(AgentEvent::SkillActivated(fields));
        if !skill.allowed_tools.is_empty() {
            let fields = json!({"name": id, "allowed_tools": skill.allowed_tools});
            self.tell_skill("skill_scope_tools", fields.clone());
            self.events.push(AgentEvent::SkillScopeTools(fields));
        }
        self.bind(id, true, false);
        self.hook(id, "on_activate");
    }

    fn hook(&mut self, id: &str, hook: &str) {
        let at = self.config.skills.list.iter().position(|skill| skill.id == id && skill.has_hook(hook));
        self.state.skills.hooks.extend(at.map(|skill| SkillHook { skill, hook: hook.to_owned() }));
    }

    fn tell_skill(&mut self, kind: &str, fields: Json) {
        self.state.notes.push(Note::internal(kind, "system", "", fields));
    }

    /// Whether the active skills leave a tool visible.
    pub(super) fn in_scope(&self, tool: &LoopTool) -> bool {
        if self.state.skills.active.is_empty() || is_runtime_tool(&tool.name) {
            return true;
        }
        let skills = self.state.skills.active.iter().filter_map(|id| self.config.skills.get(id));
        let mut narrowing = skills.filter(|skill| !skill.allowed_tools.is_empty()).peekable();
        let namespace = tool.entry.get("namespace").and_then(Json::as_str);
        narrowing.peek().is_none() || narrowing.any(|skill| skill.allows(&tool.name, namespace))
    }

    /// Whether the active skills hide some tool.
    pub(super) fn is_scoped(&self) -> bool {
        !self.state.skills.active.is_empty() && self.config.tools.iter().any(|tool| !self.in_scope(tool))
    }

    /// The entries of the active skills, for prompt assembly.
    pub(super) fn active_entries(&self) -> Vec<Json> {
        let skills = self.state.skills.active.iter().filter_map(|id| self.config.skills.get(id));
        skills.map(LoopSkill::shown).collect()
    }

    /// Answers a call of the tool that loads skills.
    pub(super) fn load_skill(&mut self, call: &Call) {
        let loaded = self.config.skills.load(&call.arguments);
        let file = loaded.skill.and_then(|skill| skill.file.as_ref());
        let signature = file.map(|file| file.signature.clone()).unwrap_or_default();
        let (text, id) = (loaded.text, loaded.skill.map(|skill| skill.id.clone()));
        let status = if id.is_some() { ToolStatus::Ok } else { ToolStatus::Error };
        if let Some(id) = id {
            let fields = json!({"skill_id": id, "signer_fingerprint": signature.fingerprint, "signed": signature.signed,
                       "trusted": signature.trusted});
            self.tell_skill("skill.loaded", fields);
            super::state::add_once(&mut self.state.skills.loaded, &id);
        }
        let (id, name) = (call.id.clone(), call.name.clone());
        self.state.turn.answered.push(Answered { id, name, text, status, executed: false, quoted: false });
    }
}
