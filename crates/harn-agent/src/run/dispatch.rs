//! Tool calls: their arguments are normalized, limits and policies are checked, and the remaining calls run.

use harn_prompt::untrusted::quote_name;
use harn_prompt::{Prose, prose::agent_asset};
use harn_value::{Data as Json, data::Map, json};

use super::reply::bindings;
use super::state::{Admitting, Answered, Call, Note, Phase, add_once};
use super::{
    AgentLoop, HookVerdict, LoopError, PermissionQuestion, Step, ToolIntent, ToolReply, ToolRun, ToolStatus,
};
use crate::config::Format;
use crate::detect::Verdict;
use crate::event::{AgentEvent, ToolProgress};
use crate::ledger::LEDGER;
use crate::loop_skill::LOAD_SKILL;
use crate::microcompact::microcompact;
use crate::plan_artifact;
use crate::policy::{self, Case, Decision, PermissionEvent, Question, Reply};
use crate::tool::{Backend, LoopTool, declared_arguments, schema_of_properties};

/// Maximum number of times that a host may replace the arguments of a call.
const MOST_REPLACED: u32 = 8;

/// The result of the checks of a call.
enum Admission {
    /// It runs.
    Run(ToolRun),
    /// It was answered without running.
    Answered,
    /// This step must be answered first.
    Ask(Box<(Step, Admitting)>),
}

/// The decision about a call.
pub(super) enum Decided {
    /// It runs; contains the approval, if the host approved it.
    Run(Option<&'static str>),
    /// This question must be answered first.
    Ask(Question),
    /// It does not run.
    Denied { reason: String, approval: Option<&'static str> },
    /// Its arguments are invalid; contains the result for the model.
    Wrong(String),
}

impl AgentLoop {
    /// Takes calls from the queue, up to the next ones that must run, or to the end of the turn.
    pub(super) fn dispatch(&mut self, prose: &dyn Prose) -> Result<Option<Step>, LoopError> {
        while !std::mem::take(&mut self.state.turn.hold) {
            let admitting = match self.state.turn.admitting.take() {
                Some(admitting) => *admitting,
                None => {
                    let Some(call) = self.state.turn.calls.front() else { break };
                    // Results are recorded in call order, so the collected calls must run before any other call.
                    if !self.state.turn.ready.is_empty() && !self.is_read_only(&call.name) {
                        break;
                    }
                    let Some(call) = self.state.turn.calls.pop_front() else { break };
                    Admitting::new(call)
                }
            };
            match self.admit(admitting, prose)? {
                Admission::Run(run) if self.state.turn.leading && self.is_read_only(&run.name) => {
                    self.state.turn.ready.push(run);
                }
                Admission::Run(run) => {
                    self.state.turn.leading = false;
                    return Ok(Some(Step::RunTools(vec![run])));
                }
                Admission::Answered => {
                    self.state.turn.leading = false;
                    if !self.state.turn.ready.is_empty() {
                        break;
                    }
                }
                Admission::Ask(asked) => {
                    let (step, admitting) = *asked;
                    self.state.turn.admitting = Some(Box::new(admitting));
                    return Ok(Some(step));
                }
            }
        }
        let runs = std::mem::take(&mut self.state.turn.ready);
        self.state.turn.leading &= runs.is_empty();
        if runs.is_empty() {
            self.state.phase = Phase::EndTurn;
            return Ok(None);
        }
        Ok(Some(Step::RunTools(runs)))
    }

    fn is_read_only(&self, tool: &str) -> bool {
        self.config.tool(tool).is_some_and(|tool| tool.annotations.is_read_only())
    }

    /// Applies the verdict of the `PreToolUse` hooks to a call.
    pub(super) fn hooked(&mut self, verdict: HookVerdict) {
        self.state.phase = Phase::Dispatch;
        let Some(mut admitting) = self.state.turn.admitting.take() else { return };
        if let Some(arguments) = verdict.arguments {
            admitting.call.arguments = arguments;
        }
        match verdict.deny {
            Some(reason) => {
                self.denied(&admitting.call, &reason, json!({}));
                self.state.turn.leading = false;
                self.run_ready();
            }
            None => self.state.turn.admitting = Some(admitting),
        }
    }

    /// Runs the calls that were collected before a call that is already answered.
    pub(super) fn run_ready(&mut self) {
        // `dispatch` must not add another call to them, because its result would be recorded before this one.
        self.state.turn.hold = !self.state.turn.ready.is_empty();
    }

    /// Handles the answers to the policy's questions.
    pub(super) fn permitted(&mut self, asked: Vec<PermissionQuestion>, replies: Vec<Reply>) {
        self.state.phase = Phase::Dispatch;
        for (PermissionQuestion { question, ahead, .. }, reply) in asked.into_iter().zip(replies) {
            match ahead.checked_sub(1) {
                None => {
                    if let Some(admitting) = &mut self.state.turn.admitting {
                        admitting.answers.push(reply);
                    }
                }
                Some(place) => {
                    if let Some(call) = self.state.turn.calls.get_mut(place) {
                        call.asked.push((question, reply));
                    }
                }
            }
        }
    }

    /// Returns the questions to ask together with that of a call, so that a human sees all approvals of a turn at once.
    /// Conditions that decide whether a later call needs approval are asked first.
    ///
    /// A later call is decided again when its turn comes. The reply is only reused for the same request; if a condition
    /// or a hook changes the request, a new question is asked.
    fn questions(&self, call: &Call, question: Question) -> Vec<PermissionQuestion> {
        let own = |question| PermissionQuestion { intent: ToolIntent::of(call), question, ahead: 0 };
        // A hook may deny or change a later call before a question about it is asked.
        if self.state.hooked || !matches!(question, Question::Approve { .. }) {
            return vec![own(question)];
        }
        let later = self.state.turn.calls.iter().enumerate();
        let later = later.filter_map(|(place, call)| self.question_ahead(call, place + 1));
        let (approvals, conditions): (Vec<_>, Vec<_>) =
            later.partition(|asked| matches!(asked.question, Question::Approve { .. }));
        if !conditions.is_empty() {
            return conditions;
        }
        let mut questions = vec![own(question)];
        questions.extend(approvals);
        questions
    }

    /// Returns the next question about a call that is still in the queue, unless it depends on the calls before it.
    fn question_ahead(&self, call: &Call, ahead: usize) -> Option<PermissionQuestion> {
        let tool = self.config.tool(&call.name).filter(|tool| self.in_scope(tool))?;
        let mut arguments = call.arguments.clone();
        tool.prepare(&mut arguments);
        let is_wrong = !missing(tool, &arguments).is_empty() || !misfits(tool, &mut arguments).is_empty();
        if is_wrong || arguments.get("__parse_error").is_some() {
            return None;
        }
        let replies: Vec<Reply> = call.asked.iter().map(|(_, reply)| reply.clone()).collect();
        let paths = &*self.paths.0;
        let case = Case { tool, arguments: &arguments, answers: &replies, confirmed: None, paths };
        let policy::Verdict::Ask(question) = self.config.policy.decide(&case).verdict else { return None };
        // `permissions` may depend on the effects of earlier calls.
        let waits = match &question {
            Question::Approve { .. } => false,
            Question::Matches { list, .. } => list.place().0 != "approval_policy",
            Question::Escalate { .. } => true,
        };
        let intent = ToolIntent { id: call.id.clone(), name: call.name.clone(), arguments };
        (!waits).then_some(PermissionQuestion { intent, question, ahead })
    }

    fn admit(&mut self, mut admitting: Admitting, prose: &dyn Prose) -> Result<Admission, LoopError> {
        let call = &admitting.call;
        let tool = self.config.tool(&call.name).cloned();
        if !admitting.announced {
            if self.config.search.as_ref().is_some_and(|s| s.name == call.name) {
                if let Some(question) = self.search_question(call) {
                    return Ok(Admission::Ask(Box::new((question, admitting))));
                }
                self.search(call, None);
                return Ok(Admission::Answered);
            }
            if call.name == LOAD_SKILL && self.config.skills.loadable {
                if let Some(skill) = self.config.skills.unread(&call.arguments) {
                    let step = Step::FetchSkills(vec![skill.id.clone()]);
                    return Ok(Admission::Ask(Box::new((step, admitting))));
                }
                self.load_skill(call);
                return Ok(Admission::Answered);
            }
            if call.name == LEDGER && tool.as_ref().is_none_or(|tool| tool.backend == Backend::Runtime) {
                self.answer_ledger(call);
                return Ok(Admission::Answered);
            }
            admitting.announced = true;
            if let Some(answered) = self.announce(&mut admitting.call, tool.as_ref(), prose)? {
                return Ok(answered);
            }
            if let Some(tool) = &tool {
                tool.prepare(&mut admitting.call.arguments);
            }
            if self.state.hooked {
                let intent = ToolIntent::of(&admitting.call);
                return Ok(Admission::Ask(Box::new((Step::BeforeTool(intent), admitting))));
            }
        }
        let mut approval = None;
        if let Some(tool) = &tool {
            let mut notes = Vec::new();
            let decided = self.decide(&mut admitting, tool, &mut notes, prose)?;
            for (arguments, events) in notes {
                self.permission_notes(&admitting.call.name, &arguments, &events);
            }
            match decided {
                Decided::Ask(question) => {
                    let questions = self.questions(&admitting.call, question);
                    return Ok(Admission::Ask(Box::new((Step::Permit(questions), admitting))));
                }
                Decided::Run(by) => approval = by,
                Decided::Denied { reason, approval } => {
                    let metadata =
                        approval.map_or_else(|| json!({}), |approval| json!({"approval": approval}));
                    self.refused_by_policy(&admitting.call, &reason, metadata);
                    return Ok(Admission::Answered);
                }
                Decided::Wrong(text) => {
                    let (status, category) = (ToolStatus::Error, Some("schema_validation"));
                    self.refused(&admitting.call, text, status, category, json!({}));
                    return Ok(Admission::Answered);
                }
            }
        }
        let call = admitting.call;
        if tool.as_ref().is_some_and(|tool| tool.backend == Backend::Handoff) {
            self.request_handoff(&call, prose)?;
            return Ok(Admission::Answered);
        }
        self.intend(&call, tool.as_ref());
        if let Some(count) = self.state.detector.skips(self.config.limits, &call.name, &call.arguments) {
            self.intervened(&call.name, "skip", count);
            let metadata = json!({"loop_skipped": true, "repeat_count": count});
            let text = repeated("loop_skipped", &call.name, count, "", prose)?;
            self.refused(&call, text, ToolStatus::Rejected, Some("rejected_loop"), metadata);
            return Ok(Admission::Answered);
        }
        let backend = tool.map_or(Backend::Host, |t| t.backend);
        Ok(Admission::Run(ToolRun {
            id: call.id,
            name: call.name,
            arguments: call.arguments,
            backend,
            retries: self.config.tool_retries,
            backoff_ms: self.config.tool_backoff_ms,
            approval: approval.map(str::to_owned),
        }))
    }

    /// Decides about a call in its final form: every change of the arguments leads back here before the tool receives
    /// them. `notes` receives the decisions about each form.
    pub(super) fn decide(
        &self,
        admitting: &mut Admitting,
        tool: &LoopTool,
        notes: &mut Vec<(Json, Vec<PermissionEvent>)>,
        prose: &dyn Prose,
    ) -> Result<Decided, LoopError> {
        loop {
            tool.prepare(&mut admitting.call.arguments);
            let wrong = wrong_arguments(tool, &mut admitting.call.arguments, prose)?;
            let mut ask_policy = || loop {
                let decision = self.config.policy.decide(&Case {
                    tool,
                    arguments: &admitting.call.arguments,
                    answers: &admitting.answers,
                    confirmed: admitting.confirmed,
                    paths: &*self.paths.0,
                });
                let policy::Verdict::Ask(question) = &decision.verdict else { return decision };
                let Some(reply) = admitting.call.take_reply(question) else { return decision };
                admitting.answers.push(reply);
            };
            let Decision { verdict, mut events } = ask_policy();
            let deny = |reason: String, events: &mut Vec<PermissionEvent>| {
                let event = PermissionEvent { kind: "PermissionDeny", reason, escalated: false };
                let reason = event.reason.clone();
                events.push(event);
                Decided::Denied { reason, approval: None }
            };
            let decided = match (verdict, wrong) {
                // The policy is not asked about arguments that no handler would receive.
                (policy::Verdict::Ask(_), Some(text)) => return Ok(Decided::Wrong(text)),
                (policy::Verdict::Ask(question), None) => return Ok(Decided::Ask(question)),
                (policy::Verdict::Granted { .. }, Some(text)) => Decided::Wrong(text),
                (policy::Verdict::Granted { approval }, None) => Decided::Run(approval),
                (policy::Verdict::Replaced { layer, arguments }, _) if admitting.replaced < MOST_REPLACED => {
                    notes.push((admitting.call.arguments.clone(), events));
                    admitting.replace(arguments, Some(layer));
                    continue;
                }
                (policy::Verdict::Replaced { .. }, _) => {
                    let reason = format!("the host changed the arguments more than {MOST_REPLACED} times"); // prose-ok: diagnostic
                    deny(reason, &mut events)
                }
                (policy::Verdict::Denied(mut denial), _) => {
                    if denial.is_above_ceiling {
                        let advice = prose.render(&agent_asset("policy_advice"), &bindings([]))?;
                        let advised = format!("{}. {}", denial.reason, advice.trim());
                        let told = events.iter_mut().filter(|event| event.reason == denial.reason);
                        told.for_each(|event| event.reason.clone_from(&advised));
                        denial.reason = advised;
                    }
                    Decided::Denied { reason: denial.reason, approval: denial.approval }
                }
                (policy::Verdict::Unexpected, _) => {
                    let reason = "the answer to a permission question could not be understood"; // prose-ok: diagnostic
                    deny(reason.to_owned(), &mut events)
                }
            };
            notes.push((admitting.call.arguments.clone(), events));
            return Ok(decided);
        }
    }

    /// Returns the progress of a call that the model has started to write; `None` for runtime tools, whose calls are
    /// reported in another way.
    pub fn begun(&self, id: &str, name: &str) -> Option<ToolProgress> {
        let tool = self.config.tool(name);
        let is_own = self.config.search.as_ref().is_some_and(|search| search.name == name)
            || (name == LOAD_SKILL && self.config.skills.loadable)
            || (name == LEDGER && tool.is_none_or(|tool| tool.backend == Backend::Runtime));
        (!is_own).then(|| pending(id, name, tool))
    }

    /// Normalizes the arguments and reports the call. Answers it if it cannot run.
    fn announce(
        &mut self,
        call: &mut Call,
        tool: Option<&LoopTool>,
        prose: &dyn Prose,
    ) -> Result<Option<Admission>, LoopError> {
        if let Some(tool) = tool {
            tool.rename(&mut call.arguments);
        }
        let raw_input = Some(call.arguments.clone());
        self.events
            .push(AgentEvent::ToolCall(ToolProgress { raw_input, ..pending(&call.id, &call.name, tool) }));
        if let Some(problem) = call.arguments.get("__parse_error").and_then(Json::as_str) {
            let text = if self.is_cut_off() {
                // The parse error of a truncated call would mislead the model.
                let of = bindings([("tool", json!(call.name))]);
                prose.render(&agent_asset("call_cut_off"), &of)?.trim().to_owned()
            } else {
                problem.to_owned()
            };
            let text = format!("ERROR: {text}");
            self.refused(call, text, ToolStatus::Error, Some("schema_validation"), json!({}));
            return Ok(Some(Admission::Answered));
        }
        if let Some(tool) = tool
            && !self.in_scope(tool)
        {
            let reason = format!("tool '{}' is outside the tools of the active skills", call.name);
            self.denied(call, &reason, json!({}));
            return Ok(Some(Admission::Answered));
        }
        Ok(None)
    }

    /// Records the events of a decision.
    fn permission_notes(&mut self, tool: &str, arguments: &Json, events: &[PermissionEvent]) {
        for event in events {
            let metadata = json!({"tool_name": tool, "arguments": arguments, "reason": event.reason,
                                  "escalated": event.escalated});
            self.state.notes.push(Note::internal(event.kind, "tool", &event.reason, metadata));
        }
    }

    /// Records that the call reaches execution.
    fn intend(&mut self, call: &Call, tool: Option<&LoopTool>) {
        let metadata = json!({"arguments": call.arguments, "tool_use_id": call.id});
        self.state.notes.push(Note::internal("tool_intent", "assistant", &call.name, metadata));
        let mut progress = ToolProgress::new(&call.id, &call.name, "in_progress");
        progress.executor = tool.map(|t| match t.backend {
            Backend::Mcp => json!({"kind": t.backend.as_str(), "server": t.entry["mcp_server"]}),
            other => json!({"kind": other.as_str()}),
        });
        self.events.push(AgentEvent::ToolCallUpdate(progress));
        self.state.tools_used.push(call.name.clone());
    }

    /// Denies a call.
    fn denied(&mut self, call: &Call, reason: &str, metadata: Json) {
        let event = PermissionEvent { kind: "PermissionDeny", reason: reason.to_owned(), escalated: false };
        self.permission_notes(&call.name, &call.arguments, &[event]);
        self.refused_by_policy(call, reason, metadata);
    }

    /// Answers a call that the policy rejects.
    fn refused_by_policy(&mut self, call: &Call, reason: &str, mut metadata: Json) {
        add_once(&mut self.state.rejected, &call.name);
        metadata["rejected"] = true.into();
        let text = denial_text(&call.name, reason);
        self.refused(call, text, ToolStatus::Rejected, Some("permission_denied"), metadata);
    }

    /// Answers a call that is not executed.
    fn refused(
        &mut self,
        call: &Call,
        text: String,
        status: ToolStatus,
        category: Option<&str>,
        metadata: Json,
    ) {
        if status == ToolStatus::Rejected {
            self.state.counts.rejections += 1;
        }
        self.record(call, text, status, category, 0, false, metadata);
    }

    /// Handles the result of an execution.
    pub(super) fn executed(
        &mut self,
        run: ToolRun,
        reply: ToolReply,
        prose: &dyn Prose,
    ) -> Result<(), LoopError> {
        let run_approval = run.approval;
        let backend = run.backend;
        let call = Call::new(run.id, run.name, run.arguments);
        let counts = &mut self.state.counts;
        counts.executions += 1;
        counts.tool_ms += reply.duration_ms;
        let mut status = reply.status;
        let why = reply.text.trim_end_matches('.').to_owned();
        let mut text = match status {
            ToolStatus::Rejected => {
                let advice = prose.render(&agent_asset("do_not_retry"), &bindings([]))?;
                denial_text(&call.name, &format!("{} {}", reply.text, advice.trim()))
            }
            _ => reply.text,
        };
        if status == ToolStatus::Ok && (text.starts_with("Error:") || text.starts_with("ERROR:")) {
            status = ToolStatus::Error;
        }
        if status == ToolStatus::Rejected {
            self.state.counts.rejections += 1;
            add_once(&mut self.state.rejected, &call.name);
            if matches!(backend, Backend::Handler | Backend::Runtime) {
                // The handler attempted an operation that exceeds the effective policy.
                let event = PermissionEvent { kind: "PermissionDeny", reason: why, escalated: false };
                self.permission_notes(&call.name, &call.arguments, &[event]);
            }
        }
        let (media, dropped): (Vec<Json>, Vec<Json>) =
            reply.media.into_iter().partition(|block| self.config.media.accepts(block));
        let notices = dropped.iter().map(|block| {
            let kind = block["type"].as_str().unwrap_or_default();
            format!("[{kind} {}: the model does not accept it]", block["media_type"].printed())
        });
        let shown = Some(text).filter(|text| !text.is_empty());
        text = shown.into_iter().chain(notices).collect::<Vec<_>>().join("\n");
        let total_bytes = text.len();
        text = microcompact(&text, self.config.output_max_chars);
        let kept_bytes = text.len();
        if call.name == "run" {
            self.state.verified = Some((status == ToolStatus::Ok && succeeded(&text), text.clone()));
        }
        match self.state.detector.record(self.config.limits, &call.name, &call.arguments, &text) {
            Verdict::Fresh => {}
            Verdict::Warned(count) => {
                self.intervened(&call.name, "warn", count);
                let first = text.lines().next().unwrap_or_default();
                let hint = repeated("loop_warned", &call.name, count, first, prose)?;
                text.push('\n');
                text.push_str(&hint);
            }
            Verdict::Blocked(count) => {
                self.intervened(&call.name, "block", count);
                text = repeated("loop_blocked", &call.name, count, "", prose)?;
            }
        }
        if status == ToolStatus::Ok {
            add_once(&mut self.state.successful, &call.name);
        }
        let category = match status {
            ToolStatus::Ok => None,
            ToolStatus::Error => Some(match backend {
                Backend::Host => "host_bridge_error",
                Backend::Mcp => "mcp_server_error",
                _ => "tool_error",
            }),
            ToolStatus::Rejected => Some("permission_denied"),
        };
        self.moment("post_tool", |_| {
            json!({"tool_name": call.name, "tool_use_id": call.id, "arguments": call.arguments, "result": text,
                   "status": status.as_str(), "truncated": kept_bytes < total_bytes, "total_bytes": total_bytes,
                   "kept_bytes": kept_bytes})
        });
        let metadata = match &run_approval {
            Some(approval) => json!({"approval": approval}),
            None => json!({}),
        };
        self.record(&call, text, status, category, reply.duration_ms, true, metadata);
        if let Some(answered) = self.state.turn.answered.last_mut() {
            answered.media = media;
        }
        if backend == Backend::Runtime && status == ToolStatus::Ok {
            self.note_plan(&call);
        }
        Ok(())
    }

    /// Reports a plan that the model wrote.
    fn note_plan(&mut self, call: &Call) {
        let Some(Ok(plan)) = plan_artifact::emitted(&call.name, &call.arguments) else { return };
        let metadata = json!({
            "plan": plan, "entries": plan_artifact::entries(&plan), "tool_name": call.name, "tool_use_id": call.id,
        });
        let text = plan_artifact::markdown(&plan);
        let mut note = Note::internal("plan", "assistant", &text, metadata.clone());
        "public".clone_into(&mut note.visibility);
        self.state.notes.push(note);
        self.events.push(AgentEvent::Plan(metadata));
    }

    /// Reports that loop detection handled a call.
    fn intervened(&mut self, tool: &str, kind: &str, count: u32) {
        self.state.counts.interventions += 1;
        let (tool_name, kind) = (tool.to_owned(), kind.to_owned());
        self.events.push(AgentEvent::LoopIntervention { tool_name, kind, count });
    }

    /// Records a result for the transcript, the subscribers and the model.
    #[expect(clippy::too_many_arguments, reason = "one line per fact of a result")]
    pub(super) fn record(
        &mut self,
        call: &Call,
        text: String,
        status: ToolStatus,
        category: Option<&str>,
        duration_ms: i64,
        executed: bool,
        mut metadata: Json,
    ) {
        metadata["tool_name"] = call.name.as_str().into();
        metadata["tool_use_id"] = call.id.as_str().into();
        metadata["rejected"] = (status == ToolStatus::Rejected).into();
        if let Some(category) = category {
            metadata["error_category"] = category.into();
        }
        self.state.notes.push(Note::internal("tool_execution", "tool", &text, metadata));
        let word = if status == ToolStatus::Ok { "completed" } else { "failed" };
        let mut progress = ToolProgress::new(&call.id, &call.name, word);
        progress.execution_duration_ms = executed.then_some(duration_ms);
        progress.error_category = category.map(str::to_owned);
        match status {
            ToolStatus::Ok => progress.raw_output = Some(text.as_str().into()),
            _ => progress.error = Some(text.clone()),
        }
        self.events.push(AgentEvent::ToolCallUpdate(progress));
        let (id, name) = (call.id.clone(), call.name.clone());
        let media = Vec::new();
        self.state.turn.answered.push(Answered { id, name, text, status, executed, quoted: false, media });
    }

    /// Appends the results of the turn to the history, in the format of the assistant's message.
    pub(super) fn append_results(&mut self) {
        let turn = &self.state.turn;
        let assistant = &turn.assistant;
        if self.config.format == Format::Text || assistant.is_null() {
            let text = |a: &Answered| match kinds(&a.media) {
                media if media.is_empty() => a.shown(),
                media => lines([a.shown(), format!("[{media} below]")]),
            };
            let results: Vec<(String, String)> =
                turn.answered.iter().map(|a| (a.name.clone(), text(a))).collect();
            let mut message = crate::feedback::tool_results(&results);
            let media: Vec<Json> = turn.answered.iter().flat_map(|a| a.media.iter().cloned()).collect();
            if !media.is_empty() {
                let text = json!({"type": "text", "text": message["content"].take()});
                message["content"] = std::iter::once(text).chain(media).collect();
            }
            self.tell_model(message);
            return;
        }
        let blocks =
            assistant["content"].as_array().is_some_and(|c| c.iter().any(|b| b["type"] == "tool_use"));
        if blocks {
            let results: Vec<Json> = turn
                .answered
                .iter()
                .map(|a| {
                    let mut block = json!({"type": "tool_result", "tool_use_id": a.id, "content": a.shown()});
                    if !a.media.is_empty() {
                        let text = json!({"type": "text", "text": a.shown()});
                        let text = (!a.text.is_empty()).then_some(text);
                        block["content"] = text.into_iter().chain(a.media.iter().cloned()).collect();
                    }
                    if a.status != ToolStatus::Ok {
                        block["is_error"] = true.into();
                    }
                    block
                })
                .collect();
            self.tell_model(json!({"role": "user", "content": results}));
            return;
        }
        let by_name = assistant["tool_calls"][0]["function"]["index"].is_number();
        let mut media = Vec::new();
        for answered in self.state.turn.answered.clone() {
            let mut text = answered.shown();
            if !answered.media.is_empty() {
                // Tool messages contain only text, so the media follow in a user message.
                let of =
                    format!("{} of the result of {}:", kinds(&answered.media), quote_name(&answered.name));
                let mark = format!("[{} in the next message]", kinds(&answered.media));
                text = lines([text, mark]);
                media.push(json!({"type": "text", "text": of}));
                media.extend(answered.media);
            }
            let mut message = if by_name {
                json!({"role": "tool", "tool_name": answered.name, "content": text})
            } else {
                json!({"role": "tool", "tool_call_id": answered.id, "content": text})
            };
            if answered.status != ToolStatus::Ok {
                message["is_error"] = true.into();
            }
            self.tell_model(message);
        }
        if !media.is_empty() {
            self.tell_model(json!({"role": "user", "content": media}));
        }
    }
}

fn lines(parts: [String; 2]) -> String {
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n")
}

/// Describes the kinds of media: "image", "3 images", "image and document".
fn kinds(media: &[Json]) -> String {
    let count = |kind: &str| match media.iter().filter(|block| block["type"] == kind).count() {
        0 => None,
        1 => Some(kind.to_owned()),
        several => Some(format!("{several} {kind}s")),
    };
    [count("image"), count("document")].into_iter().flatten().collect::<Vec<_>>().join(" and ")
}

/// Returns the result of a call whose arguments are missing or invalid: no policy is asked about it, and no handler
/// receives it.
fn wrong_arguments(
    tool: &LoopTool,
    arguments: &mut Json,
    prose: &dyn Prose,
) -> Result<Option<String>, LoopError> {
    let missing = missing(tool, arguments);
    let (asset, of) = if missing.is_empty() {
        let problems = misfits(tool, arguments);
        if problems.is_empty() {
            return Ok(None);
        }
        ("wrong_arguments", bindings([("tool", json!(tool.name)), ("problems", json!(problems))]))
    } else {
        let of = bindings([("tool", json!(tool.name)), ("missing", json!(missing.join(", ")))]);
        ("missing_parameters", of)
    };
    Ok(Some(format!("ERROR: {}", prose.render(&agent_asset(asset), &of)?.trim())))
}

/// Returns the type errors in the arguments of a handler. Undeclared arguments, and nil for optional ones, are not
/// checked. Whole numbers are converted to ints where ints are declared.
fn misfits(tool: &LoopTool, arguments: &mut Json) -> Vec<String> {
    let (Backend::Handler, false, Some(given)) = (tool.backend, tool.is_of_runtime, arguments.as_object())
    else {
        return Vec::new();
    };
    // Arguments usually have a single type, which can be checked without compiling a schema.
    let plain = |(name, value): (&String, &Json)| {
        declared_arguments(&tool.entry)
            .and_then(|declared| declared.get(name))
            .is_some_and(|declared| is_plainly(declared, value))
    };
    if given.iter().all(plain) {
        return Vec::new();
    }
    let Some(schema) = tool.schema() else { return Vec::new() };
    let counts = |(name, value): &(&String, &Json)| {
        schema["properties"].get(*name).is_some() && (!value.is_null() || tool.required.contains(name))
    };
    let given: Map<String, Json> =
        given.iter().filter(counts).map(|(name, value)| (name.clone(), value.clone())).collect();
    // Missing arguments were already reported, together with those that annotations require.
    let of_given = schema_of_properties(&schema, &schema["properties"]);
    match harn_schema::compile_error(&of_given) {
        None => {
            let wrong = harn_schema::errors(&of_given, &Json::Object(given));
            if wrong.is_empty() {
                harn_schema::with_ints(&of_given, arguments);
            }
            wrong
        }
        // Without a valid schema, the handler would receive unchecked arguments.
        Some(wrong) => vec![format!("the schema of the tool is invalid: {wrong}")],
    }
}

/// Returns whether a value has the declared type of a parameter, if the type is the only constraint.
fn is_plainly(declared: &Json, value: &Json) -> bool {
    let word = match declared {
        Json::String(word) => Some(word.as_str()),
        Json::Object(map)
            if map
                .keys()
                .all(|key| matches!(key.as_str(), "type" | "description" | "default" | "required")) =>
        {
            map.get("type").and_then(Json::as_str)
        }
        _ => None,
    };
    match word.map(harn_schema::words::json_or_text) {
        Some("string") => value.is_string(),
        Some("integer") => value.is_i64(),
        Some("number") => value.is_number(),
        Some("boolean") => value.is_boolean(),
        Some("array") => value.is_array(),
        Some("object") => value.is_object(),
        _ => false,
    }
}

/// Creates the progress of a call that is not accepted yet.
fn pending(id: &str, name: &str, tool: Option<&LoopTool>) -> ToolProgress {
    let kind = tool.map(|tool| tool.annotations.kind.clone()).filter(|kind| kind != "other");
    ToolProgress { kind, ..ToolProgress::new(id, name, "pending") }
}

fn missing(tool: &LoopTool, arguments: &Json) -> Vec<String> {
    tool.required.iter().filter(|name| arguments.get(name.as_str()).is_none()).cloned().collect()
}

/// Renders the message for a repeated call; `first` is the first line of its result.
fn repeated(
    asset: &str,
    tool: &str,
    count: u32,
    first: &str,
    prose: &dyn Prose,
) -> Result<String, LoopError> {
    let of = bindings([("tool", json!(tool)), ("count", json!(count)), ("first", json!(first))]);
    Ok(prose.render(&agent_asset(asset), &of)?.trim_end().to_owned())
}

/// Returns the result of a denied call.
fn denial_text(tool: &str, reason: &str) -> String {
    let denial = json!({"error": "permission_denied", "reason": reason, "tool": tool});
    serde_json::to_string_pretty(&denial).unwrap_or_default()
}

/// Returns whether the output of a `run` tool indicates success.
fn succeeded(text: &str) -> bool {
    ["exit_code=0", "Command succeeded", "success=true"].iter().any(|mark| text.contains(mark))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_plainly_of_a_type_fits_its_schema() {
        let declared =
            ["int", "integer", "float", "string", "bool", "list", "dict", "any", "date"].map(Json::from);
        let dicts = [
            json!({"type": "int", "description": "a", "required": false}),
            json!({"type": "int", "minimum": 9}),
        ];
        let values =
            [json!(1), json!(1.5), json!("x"), json!(true), json!([1]), json!({"a": 1}), json!(null)];
        let mut plain = 0;
        for declared in declared.iter().chain(&dicts) {
            let entry = json!({"name": "t", "parameters": {"p": declared}});
            let tool = LoopTool::from_entry(&entry, true, &Map::new()).unwrap();
            let schema = tool.schema().unwrap();
            for value in &values {
                let fits = harn_schema::errors(&schema, &json!({"p": value})).is_empty();
                assert!(fits || !is_plainly(declared, value), "{declared} {value}");
                plain += usize::from(is_plainly(declared, value));
            }
        }
        assert!(plain >= 9 && !is_plainly(&dicts[1], &values[0]), "{plain}");
    }
}
