//! Skills of a loop: which are active, which tools they show, and their activation and deactivation.

use std::collections::BTreeMap;

use harn_llm::Role;
use harn_prompt::{Prose, ProseError};
use harn_value::{Data as Json, json};
use serde::{Deserialize, Serialize};

use super::state::{Answered, Call, Note, Phase};
use super::{AgentLoop, Cached, Status, Step, ToolStatus};
use crate::event::AgentEvent;
use crate::loop_skill::{Candidate, LoopSkill, id_of, is_runtime_tool};
use crate::tool::{Backend, LoopTool};

/// A closure of a skill that must be called.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillHook {
    /// The id of the skill.
    pub skill: String,
    /// `on_activate` or `on_deactivate`.
    pub hook: String,
}

/// An MCP server that a skill needs or no longer needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Binding {
    /// The id of the skill.
    pub skill: String,
    /// The name of the server in the manifest of the project.
    pub server: String,
    /// Whether the skill was activated; false if it was deactivated.
    pub wanted: bool,
    /// Whether the skill was already active when the loop started; restarting its servers is then not reported.
    pub again: bool,
}

impl AgentLoop {
    /// Returns the ids of the active skills, best first.
    pub fn active_skills(&self) -> &[String] {
        &self.state.skills.active
    }

    /// Starts an iteration; matches skills if due.
    pub(super) fn open(&mut self) -> Option<Step> {
        if self.own_iterations() >= self.config.max_iterations {
            self.end_out_of_turns();
            return None;
        }
        if std::mem::take(&mut self.state.skills.stale) {
            self.state.phase = Phase::Start;
            return Some(Step::ReadSkills);
        }
        self.state.phase = Phase::Begin;
        if self.config.skills.list.is_empty() {
            return None;
        }
        if let Some(question) = self.skills_question() {
            return Some(question);
        }
        if let Some(question) = self.unread_skills() {
            return Some(question);
        }
        self.choose_skills();
        let bindings = std::mem::take(&mut self.state.skills.bindings);
        if bindings.is_empty() { self.skill_hooks() } else { Some(Step::BindServers(bindings)) }
    }

    /// Handles reloaded skills. Active skills that no longer exist are deactivated at the next selection.
    pub(super) fn skills_read(
        &mut self,
        option: Json,
        list: Vec<LoopSkill>,
        variables: BTreeMap<String, String>,
        prose: &dyn Prose,
    ) -> Result<(), ProseError> {
        self.config.options.insert("skills".to_owned(), option);
        self.config.skills.list = list;
        self.add_variables(variables);
        if !self.config.skills.loadable {
            self.config.offer_skills(prose)?;
        }
        // An active skill may show other tools now.
        self.offered = Cached::default();
        Ok(())
    }

    fn add_variables(&mut self, variables: BTreeMap<String, String>) {
        for (name, value) in variables {
            self.config.skills.variables.entry(name).or_insert(value);
        }
    }

    /// Returns the request for the bodies of the host's skills that are about to be activated.
    fn unread_skills(&mut self) -> Option<Step> {
        if !self.config.skills.list.iter().any(LoopSkill::is_unread) {
            return None;
        }
        let (skills, state) = (&self.config.skills, &self.state.skills);
        let (first, carried) = (!state.matched, skills.carried.as_ref());
        let mut next: Vec<String> = match carried.filter(|_| first && skills.sticky) {
            Some(carried) => carried.clone(),
            None if first || !skills.sticky => {
                let by_host = state.answered.as_ref().and_then(Option::as_ref).cloned();
                let found = by_host.unwrap_or_else(|| skills.rank(&self.query()));
                found.into_iter().take(skills.top_n).map(|candidate| candidate.id).collect()
            }
            None => state.active.clone(),
        };
        for id in &state.loaded {
            if !next.contains(id) {
                next.push(id.clone());
            }
        }
        next.retain(|id| skills.get(id).is_some_and(LoopSkill::is_unread));
        if next.is_empty() {
            return None;
        }
        self.state.phase = Phase::Start;
        Some(Step::FetchSkills(next))
    }

    /// Handles the fetched skills; a skill that the host does not provide is removed.
    pub(super) fn skills_fetched(
        &mut self,
        asked: &[String],
        fetched: Vec<Option<LoopSkill>>,
        variables: BTreeMap<String, String>,
    ) {
        self.add_variables(variables);
        let missing: Vec<&String> =
            asked.iter().zip(&fetched).filter(|(_, skill)| skill.is_none()).map(|(id, _)| id).collect();
        fetched.into_iter().flatten().for_each(|skill| self.config.skills.put(skill));
        if let Some(admitting) = self.state.turn.admitting.take() {
            // The model requested the skill, and may request it again.
            self.state.phase = Phase::Dispatch;
            self.load_skill(&admitting.call);
            self.state.turn.leading = false;
            self.run_ready();
            return;
        }
        let is_there = |id: &String| !missing.contains(&id);
        self.config.skills.list.retain(|skill| is_there(&skill.id));
        let option = self.config.options.get_mut("skills").and_then(|registry| registry.get_mut("skills"));
        if let Some(catalog) = option.and_then(Json::as_array_mut) {
            catalog.retain(|entry| id_of(entry).as_ref().is_none_or(is_there));
        }
        let state = &mut self.state.skills;
        state.active.retain(is_there);
        state.loaded.retain(is_there);
        if let Some(Some(found)) = &mut state.answered {
            found.retain(|candidate| is_there(&candidate.id));
        }
    }

    /// Returns the pending closures of activated and deactivated skills, if any. The turn starts after them.
    pub(super) fn skill_hooks(&mut self) -> Option<Step> {
        let hooks = std::mem::take(&mut self.state.skills.hooks);
        (!hooks.is_empty()).then_some(Step::RunSkillHooks(hooks))
    }

    /// Reports MCP servers that were started or released for skills, with errors.
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

    /// Ends the loop because `max_iterations` is reached.
    pub(super) fn end_out_of_turns(&mut self) {
        let max_iterations = Some(self.config.max_iterations);
        self.events.push(AgentEvent::BudgetExhausted { max_iterations, message: None });
        self.state.out_of_turns = true;
        self.end(Status::BudgetExhausted);
    }

    /// Selects the active skills, and reports activations and deactivations.
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
                // The session's skills are already active, so those that remain are not reported again.
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
        wanted.retain(|id| self.config.skills.get(id).is_some());
        let before = std::mem::replace(&mut self.state.skills.active, wanted.clone());
        if first {
            // The servers of skills that remain active ended with the previous loop.
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

    /// Requests or releases the servers of a skill.
    fn bind(&mut self, id: &str, wanted: bool, again: bool) {
        let servers = self.config.skills.get(id).map(|skill| skill.servers.clone()).unwrap_or_default();
        let of = |server: String| Binding { skill: id.to_owned(), server, wanted, again };
        self.state.skills.bindings.extend(servers.into_iter().map(of));
    }

    /// Returns the current task: the newest message of the user, or the prompt of the loop.
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
            "allowed_tools": skill.allowed_tools.as_deref().unwrap_or_default(),
        });
        self.tell_skill("skill_activated", fields.clone());
        self.events.push(AgentEvent::SkillActivated(fields));
        if skill.allowed_tools.is_some() {
            let fields = json!({"name": id, "allowed_tools": skill.allowed_tools});
            self.tell_skill("skill_scope_tools", fields.clone());
            self.events.push(AgentEvent::SkillScopeTools(fields));
        }
        self.bind(id, true, false);
        self.hook(id, "on_activate");
    }

    fn hook(&mut self, id: &str, hook: &str) {
        if self.config.skills.list.iter().any(|skill| skill.id == id && skill.has_hook(hook)) {
            self.state.skills.hooks.push(SkillHook { skill: id.to_owned(), hook: hook.to_owned() });
        }
    }

    fn tell_skill(&mut self, kind: &str, fields: Json) {
        self.state.notes.push(Note::internal(kind, "system", "", fields));
    }

    /// Returns whether the active skills leave a tool visible.
    pub(super) fn in_scope(&self, tool: &LoopTool) -> bool {
        let is_handoff = tool.backend == Backend::Handoff;
        if self.state.skills.active.is_empty() || is_handoff || is_runtime_tool(&tool.name) {
            return true;
        }
        let skills = self.state.skills.active.iter().filter_map(|id| self.config.skills.get(id));
        let mut narrowing = skills.filter(|skill| skill.allowed_tools.is_some()).peekable();
        let namespace = tool.entry.get("namespace").and_then(Json::as_str);
        narrowing.peek().is_none() || narrowing.any(|skill| skill.allows(&tool.name, namespace))
    }

    /// Returns whether the active skills hide any tool.
    pub(super) fn is_scoped(&self) -> bool {
        !self.state.skills.active.is_empty() && self.config.tools.iter().any(|tool| !self.in_scope(tool))
    }

    /// Returns the entries of the active skills, for prompt assembly.
    pub(super) fn active_entries(&self) -> Vec<Json> {
        let skills = self.state.skills.active.iter().filter_map(|id| self.config.skills.get(id));
        skills.map(LoopSkill::shown).collect()
    }

    /// Answers a call of the tool that loads skills.
    pub(super) fn load_skill(&mut self, call: &Call) {
        let loaded = self.config.skills.load(&call.arguments);
        let event = loaded.skill.or(loaded.refused.map(|(skill, _)| skill)).map(|skill| {
            let signature = skill.file.as_ref().map(|file| file.signature.clone()).unwrap_or_default();
            json!({"skill_id": skill.id, "signer_fingerprint": signature.fingerprint, "signed": signature.signed,
                   "trusted": signature.trusted})
        });
        let refused = loaded.refused.map(|(_, code)| code);
        let (text, id) = (loaded.text, loaded.skill.map(|skill| skill.id.clone()));
        let status = if id.is_some() { ToolStatus::Ok } else { ToolStatus::Error };
        // The trace of unsigned skills must include the rejected ones.
        if let Some(mut fields) = event {
            if let Some(code) = refused {
                fields["error"] = code.into();
            }
            self.tell_skill("skill.loaded", fields);
        }
        if let Some(id) = id {
            super::state::add_once(&mut self.state.skills.loaded, &id);
        }
        let (id, name) = (call.id.clone(), call.name.clone());
        self.state.turn.answered.push(Answered {
            id,
            name,
            text,
            status,
            executed: false,
            quoted: false,
            media: Vec::new(),
        });
    }
}
