//! The agent loop as a state machine.
//!
//! An iteration goes through these states; each arrow that needs the world is a [`Step`]:
//!
//! ```text
//! Start ─recite─► Compose ─shape context─► Call ─call model─► Reply ─► Dispatch ─run tools─► … ─review─► Start
//!                                                               └─ text only ─► Start or Ended
//! ```
//!
//! `reply.rs` reads what the model answered, `answer.rs` judges the final answer, `guard.rs` is about guardrails, `handoff.rs` transfers the conversation to another agent,
//! `dispatch.rs` takes calls through the checks, `review.rs` those that were changed afterwards, `search.rs` answers searches for
//! tools, `saved.rs` says how a loop is saved, `turn.rs` ends turns, `remind.rs` is about reminders, `context.rs` makes what callbacks see, `input.rs` is about what people and the host say, `outcome.rs` the result.
//! Providers of reminders may be asked before any state.

mod answer;
mod compact;
mod context;
mod daemon;
mod dispatch;
mod guard;
mod handoff;
mod input;
mod judged;
mod ledger;
mod outcome;
mod remind;
mod reply;
mod review;
mod saved;
mod search;
mod skills;
mod state;
#[cfg(test)]
mod tests;
mod turn;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use harn_llm::{Conversation, Message, Role};
use harn_prompt::reminder::{pending, transcript_of};
use harn_prompt::turn::{ToolListing, TurnInput};
use harn_prompt::{Fragment, Prose, ProseError, TurnError};
use harn_value::{Data as Json, data::Map, json};
use serde::{Deserialize, Serialize};

use crate::config::{Format, LoopConfig, Recitation};
use crate::error::ConfigError;
use crate::event::AgentEvent;
use crate::loop_skill::LoopSkill;
use crate::policy::{NoPaths, Paths, Question, Reply};
use crate::tool::{Backend, LoopTool, Offered};
pub use daemon::{Look, Rest};
pub use input::unwrapped;
pub use remind::Moment;
pub use review::{Review, Reviewed};
pub use skills::{Binding, SkillHook};
pub use state::{Archive, Blocked, Delivery, Status, Transfer};
use state::{Phase, State};

/// The kind of feedback that is no message: the next reply begins with it.
const PREFILL: &str = "prefill_assistant";

/// What the loop needs next.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Step {
    /// Write the text that stands for these messages.
    Compact(Archive),
    /// Ask the host which skills fit, with these parameters of `skill/match`.
    MatchSkills(Json),
    /// Ask the host which deferred tools fit, with these parameters of `tool_search/query`.
    SearchTools(Json),
    /// Read the layers of skills again: they have changed.
    ReadSkills,
    /// Ask the host for these of its skills with their texts, by their ids in the loop.
    FetchSkills(Vec<String>),
    /// Start these servers of tools for skills, or give them back.
    BindServers(Vec<Binding>),
    /// Call these closures of skills, in order; an error of theirs is reported and changes nothing.
    RunSkillHooks(Vec<SkillHook>),
    /// Ask the option `recitation` with this dict.
    Recite(Json),
    /// Ask `context_callback` with this dict.
    ShapeContext(Json),
    /// Call a model.
    CallModel(ModelCall),
    /// Let the hooks look at this call before it is checked.
    BeforeTool(ToolIntent),
    /// Ask these before a call is decided: about the call, and about later ones of the turn. They may be asked at the same time.
    Permit(#[serde(deserialize_with = "one_or_many")] Vec<PermissionQuestion>),
    /// Run these calls; when there are several they may run at the same time.
    RunTools(Vec<ToolRun>),
    /// Ask `post_turn_callback` with this dict.
    ReviewTurn(Json),
    /// Ask `output_validator` about this answer.
    ValidateOutput(Json),
    /// Ask `output_guardrails` about this answer.
    GuardOutput(Json),
    /// Transfer the conversation: [`AgentLoop::hand_off`] makes the loop of the other agent.
    HandOff(Transfer),
    /// Ask the providers of reminders that subscribe to this event.
    Remind(Moment),
    /// Rest, and look whether there is a reason to go on.
    Rest(Rest),
    /// The loop is over: see [`AgentLoop::outcome`].
    Finished,
}

/// A call of a model that a loop needs. The conversation and the tools stay with the loop: see [`AgentLoop::call`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelCall {
    /// The options of the call, the system text among them. Of the tools they hold what prompt assembly looks at.
    #[serde(with = "shared")]
    pub options: Rc<Json>,
    /// What is sent instead of the loop's conversation, when a callback has chosen it.
    pub messages: Option<Conversation>,
}

/// A shared value is saved as what it is.
mod shared {
    use std::rc::Rc;

    use harn_value::Data as Json;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(value: &Rc<Json>, to: S) -> Result<S::Ok, S::Error> {
        value.as_ref().serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Rc<Json>, D::Error> {
        Json::deserialize(from).map(Rc::new)
    }
}

/// A call that the model wants.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolIntent {
    /// Id of the call.
    pub id: String,
    /// The tool.
    pub name: String,
    /// Its arguments.
    pub arguments: Json,
}

impl ToolIntent {
    fn of(call: &state::Call) -> ToolIntent {
        ToolIntent { id: call.id.clone(), name: call.name.clone(), arguments: call.arguments.clone() }
    }
}

/// What hooks leave of a call.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HookVerdict {
    /// Arguments that take the place of the model's.
    pub arguments: Option<Json>,
    /// Why the call does not run.
    pub deny: Option<String>,
}

/// What has to be known before a call is decided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PermissionQuestion {
    /// The call.
    pub intent: ToolIntent,
    /// What to ask.
    pub question: Question,
    /// How many calls of the turn come before it, counted from the one that is being decided.
    #[serde(default)]
    pub ahead: usize,
}

/// Reads a list, or the one item of a snapshot from before there was a list.
fn one_or_many<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Vec<PermissionQuestion>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Saved {
        Many(Vec<PermissionQuestion>),
        One(Box<PermissionQuestion>),
    }
    Ok(match Saved::deserialize(from)? {
        Saved::Many(questions) => questions,
        Saved::One(question) => vec![*question],
    })
}

/// A tool call that passed all checks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolRun {
    /// Id of the call.
    pub id: String,
    /// The tool.
    pub name: String,
    /// Its arguments.
    pub arguments: Json,
    /// Who runs it.
    pub backend: Backend,
    /// How often a failed execution may be tried again.
    pub retries: u32,
    /// Milliseconds before the first retry; doubles with each.
    pub backoff_ms: u64,
    /// How it was approved, when somebody was asked.
    #[serde(default)]
    pub approval: Option<String>,
}

/// How an execution ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolStatus {
    /// With a result.
    Ok,
    /// With an error.
    Error,
    /// It was refused.
    Rejected,
}

impl ToolStatus {
    /// Returns the word of callbacks and events.
    pub fn as_str(self) -> &'static str {
        match self {
            ToolStatus::Ok => "ok",
            ToolStatus::Error => "error",
            ToolStatus::Rejected => "rejected",
        }
    }
}

/// What a tool gave.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolReply {
    /// The result as the model reads it; for a refusal its reason.
    pub text: String,
    /// Images and documents of the result, as blocks of a message.
    #[serde(default)]
    pub media: Vec<Json>,
    /// How it ended.
    pub status: ToolStatus,
    /// Milliseconds it took.
    pub duration_ms: i64,
}

impl ToolReply {
    /// Makes a reply that is only text.
    pub fn new(text: String, status: ToolStatus, duration_ms: i64) -> ToolReply {
        ToolReply { text, media: Vec::new(), status, duration_ms }
    }
}

/// The answer to a [`Step`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Answer {
    /// To [`Step::Compact`]: what a model or callback wrote, or the layout of the engine; nothing when that failed.
    Summary(Option<String>),
    /// To [`Step::MatchSkills`] or [`Step::SearchTools`]: what the host said; nothing without one, or when it failed.
    Host(Option<Json>),
    /// To [`Step::ReadSkills`].
    SkillsRead {
        /// The option `skills` as it is now.
        option: Json,
        /// Its skills.
        list: Vec<LoopSkill>,
        /// Values of the variables that their texts mention.
        variables: BTreeMap<String, String>,
    },
    /// To [`Step::FetchSkills`].
    Skills {
        /// In the same order; nothing for what the host does not give.
        skills: Vec<Option<LoopSkill>>,
        /// Values of the variables that their texts mention.
        variables: BTreeMap<String, String>,
    },
    /// To [`Step::BindServers`], in the same order: what went wrong.
    Bound(Vec<Option<String>>),
    /// To [`Step::RunSkillHooks`].
    SkillHooks,
    /// To [`Step::Recite`].
    Recitation(Option<String>),
    /// To [`Step::ShapeContext`]: what the callback returned.
    Context(Json),
    /// To [`Step::CallModel`]: the result dict of the call.
    Reply {
        /// The result dict. Of its transcript only the last message is looked at.
        result: Json,
        /// Milliseconds the call took.
        duration_ms: i64,
    },
    /// To [`Step::CallModel`] or [`Step::Compact`]: a budget refused the call, and said this.
    OverBudget(String),
    /// To [`Step::BeforeTool`].
    BeforeTool(HookVerdict),
    /// To [`Step::Permit`], in the same order.
    Permit(Vec<Reply>),
    /// To [`Step::RunTools`], in the same order.
    Tools(Vec<ToolReply>),
    /// To [`Step::ReviewTurn`]: what the callback returned.
    Review(Json),
    /// To [`Step::ValidateOutput`]: what is wrong with the answer, if anything.
    Validated(Option<String>),
    /// To [`Step::CallModel`] or [`Step::GuardOutput`]: a guardrail stops the loop.
    Blocked(Blocked),
    /// To [`Step::GuardOutput`]: all guardrails let the answer pass.
    Guarded,
    /// To [`Step::Remind`]: what came up is in [`AgentLoop::reminders_mut`].
    Reminded,
    /// To [`Step::Rest`].
    Rested(Look),
}

/// The loop cannot go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoopError {
    /// A callback returned something that has no meaning here.
    #[error("{0}")]
    Callback(String),
    /// A prompt asset did not render.
    #[error(transparent)]
    Prose(#[from] ProseError),
    /// The options of prompt assembly are wrong.
    #[error("{0}")]
    Prompt(String),
    /// The answer does not belong to the step that was asked.
    #[error("agent_loop: unexpected answer to a step")]
    Unexpected,
}

impl From<TurnError> for LoopError {
    fn from(error: TurnError) -> LoopError {
        match error {
            TurnError::Prose(error) => LoopError::Prose(error),
            other => LoopError::Prompt(other.to_string()),
        }
    }
}

/// A running loop: its settings and its state, both of which can be saved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentLoop {
    config: LoopConfig,
    #[serde(with = "saved")]
    state: State,
    /// Told and not yet taken.
    events: Vec<AgentEvent>,
    /// The tools offered to the model, when some are held back.
    #[serde(skip)]
    offered: Cached,
    #[serde(skip)]
    paths: Lookup,
}

/// How the loop finds out where paths lead: no part of its state.
#[derive(Clone)]
struct Lookup(Rc<dyn Paths>);

impl Default for Lookup {
    fn default() -> Lookup {
        Lookup(Rc::new(NoPaths))
    }
}

impl fmt::Debug for Lookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lookup")
    }
}

impl PartialEq for Lookup {
    fn eq(&self, _: &Lookup) -> bool {
        true
    }
}

/// Something that can be made again: it is no part of the loop's state.
#[derive(Debug, Clone, Default)]
struct Cached(RefCell<Option<(Held, Rc<Offered>)>>);

/// What was found, and the skills that were active.
type Held = (Vec<String>, Vec<String>);

impl PartialEq for Cached {
    fn eq(&self, _: &Cached) -> bool {
        true
    }
}

impl AgentLoop {
    /// Begins a loop.
    pub fn new(mut config: LoopConfig) -> AgentLoop {
        let reminders = pending(config.options.get("transcript").unwrap_or(&Json::Null));
        let reminders = transcript_of(&reminders);
        let messages = std::mem::take(&mut config.history);
        let ledger = config.ledger.take();
        let mut state = State { messages, reminders, ledger, ..State::default() };
        if !config.prompt.is_empty() || state.messages.is_empty() {
            state.messages.push(Rc::new(Message::text_of(Role::User, config.prompt.clone())));
        }
        AgentLoop { config, state, events: Vec::new(), offered: Cached::default(), paths: Lookup::default() }
    }

    /// The call that a step asks for, as [`harn_llm::LlmRuntime`] takes it: conversation and tools are shared with the
    /// loop.
    pub fn call(&self, call: &ModelCall) -> harn_llm::Call {
        harn_llm::Call {
            options: call.options.clone(),
            messages: Some(call.messages.clone().unwrap_or_else(|| self.seen().clone())),
            tools: (!self.config.tools.is_empty()).then(|| self.offered().set.clone()),
            ..harn_llm::Call::default()
        }
    }

    /// The same as one option dict, for callers that take the place of `llm_call`.
    pub fn call_options(&self, call: &ModelCall) -> Map<String, Json> {
        let mut options = call.options.as_object().cloned().unwrap_or_default();
        let messages = call.messages.as_ref().unwrap_or_else(|| self.seen());
        options.insert("messages".into(), messages.to_json().into());
        if options.contains_key("tools") {
            options.insert("tools".into(), self.visible_tools().into());
        }
        options
    }

    /// Adds a message to the history.
    fn tell_model(&mut self, message: Json) {
        // Only pictures can be wrong, and the loop writes none; a message that cannot be read is not sent either.
        if let Err(error) = self.state.messages.push_json(message) {
            let note = state::Note::internal("unreadable_message", "system", &error.0, Json::Null);
            self.state.notes.push(note);
            return;
        }
        if let (Some(seen), Some(message)) = (&mut self.state.seen, self.state.messages.last()) {
            seen.push(message);
        }
    }

    /// Returns what was said so far.
    pub fn messages(&self) -> &Conversation {
        &self.state.messages
    }

    /// Returns whether calls of the last reply are not answered yet, to be asked after an answer was given.
    pub fn is_in_tool_turn(&self) -> bool {
        matches!(self.state.phase, Phase::Dispatch | Phase::EndTurn)
    }

    /// Returns the settings.
    pub fn config(&self) -> &LoopConfig {
        &self.config
    }

    /// Says how policies find out where paths lead. Until then all paths are unknown: no pattern permits them.
    pub fn look_up_paths(&mut self, paths: Rc<dyn Paths>) {
        self.paths = Lookup(paths);
    }

    /// Says whether hooks want to see calls before they run, from the next call on.
    pub fn set_hooked(&mut self, hooked: bool) {
        self.state.hooked = hooked;
    }

    /// Puts tools of a server in the place of those that it has in this loop.
    ///
    /// # Errors
    /// A tool is wrong, or has the name of another one. The loop keeps its tools then.
    pub fn replace_tools(&mut self, server: &str, entries: &[Json]) -> Result<(), ConfigError> {
        self.config.replace_tools(server, entries)?;
        self.offered = Cached::default();
        Ok(())
    }

    /// Says that the layers of skills have changed: they are read again before the next iteration.
    pub fn renew_skills(&mut self) {
        self.state.skills.stale = true;
    }

    /// Takes the events since the last time.
    pub fn take_events(&mut self) -> Vec<AgentEvent> {
        std::mem::take(&mut self.events)
    }

    /// Queues feedback for the beginning of the next turn.
    pub fn inject_feedback(&mut self, kind: &str, text: &str) {
        self.state.queued.push((kind.to_owned(), text.to_owned()));
    }

    /// Returns what is needed next. Asking again without answering gives the same step.
    ///
    /// # Errors
    /// A prompt asset does not render, or options of prompt assembly are wrong.
    pub fn next_step(&mut self, prose: &dyn Prose) -> Result<Step, LoopError> {
        if let Some(step) = &self.state.asked {
            return Ok(step.clone());
        }
        let step = loop {
            self.after_turn();
            if let Some(moment) = self.state.moments.pop_front() {
                break Step::Remind(moment);
            }
            match std::mem::take(&mut self.state.phase) {
                Phase::Start => {
                    if let Some(step) = self.open() {
                        break step;
                    }
                }
                Phase::Begin => {
                    if let Some(step) = self.begin() {
                        break step;
                    }
                }
                Phase::Compose(recitation) => {
                    if let Some(step) = self.compose(recitation, prose)? {
                        break step;
                    }
                }
                Phase::Call(call) => break Step::CallModel(call),
                Phase::Dispatch => {
                    if let Some(step) = self.dispatch(prose)? {
                        break step;
                    }
                }
                Phase::EndTurn => {
                    if let Some(step) = self.end_turn() {
                        break step;
                    }
                }
                Phase::Compact(compacting) => break self.ask_for_summary(compacting),
                Phase::Rest(first) => break Step::Rest(self.resting(first)),
                Phase::Validate => break Step::ValidateOutput(self.answer_to_validate()),
                Phase::Guard => break Step::GuardOutput(self.answer_to_validate()),
                Phase::HandOff(transfer) => break Step::HandOff(transfer),
                Phase::Close => self.close_turn(),
                Phase::Finish => self.finish_turn(prose)?,
                Phase::Ended => {
                    self.state.phase = Phase::Ended;
                    return Ok(Step::Finished);
                }
            }
        };
        self.state.asked = Some(step.clone());
        Ok(step)
    }

    /// Takes the answer to the step asked last.
    ///
    /// # Errors
    /// The answer belongs to another step, a callback's value has no meaning, or an asset does not render.
    pub fn answer(&mut self, answer: Answer, prose: &dyn Prose) -> Result<(), LoopError> {
        let Some(step) = self.state.asked.take() else { return Err(LoopError::Unexpected) };
        match (step, answer) {
            (Step::BindServers(bindings), Answer::Bound(problems)) if bindings.len() == problems.len() => {
                self.bound(&bindings, &problems);
            }
            // The phase behind the hooks is set already.
            (Step::RunSkillHooks(_), Answer::SkillHooks) => {}
            (Step::MatchSkills(_), Answer::Host(answer)) => self.skills_matched(answer.as_ref()),
            (Step::ReadSkills, Answer::SkillsRead { option, list, variables }) => {
                self.skills_read(option, list, variables, prose)?;
            }
            (Step::FetchSkills(ids), Answer::Skills { skills, variables }) if ids.len() == skills.len() => {
                self.skills_fetched(&ids, skills, variables);
            }
            (Step::SearchTools(_), Answer::Host(answer)) => self.host_searched(answer.as_ref()),
            (Step::Recite(_), Answer::Recitation(text)) => self.state.phase = Phase::Compose(text),
            (Step::ShapeContext(_), Answer::Context(value)) => self.shaped(&value, prose)?,
            (Step::CallModel(_), Answer::Reply { result, duration_ms }) => {
                self.reply(&result, duration_ms, prose)?;
            }
            (Step::Compact(_), Answer::Summary(written)) => self.compacted(written),
            (Step::CallModel(_) | Step::Compact(_), Answer::OverBudget(message)) => {
                self.events
                    .push(AgentEvent::BudgetExhausted { max_iterations: None, message: Some(message) });
                self.end(Status::BudgetExhausted);
            }
            (Step::RunTools(runs), Answer::Tools(replies)) if runs.len() == replies.len() => {
                for (run, reply) in runs.into_iter().zip(replies) {
                    self.executed(run, reply, prose)?;
                }
                self.state.phase = Phase::Dispatch;
            }
            (Step::BeforeTool(_), Answer::BeforeTool(verdict)) => self.hooked(verdict),
            (Step::Permit(asked), Answer::Permit(replies)) if asked.len() == replies.len() => {
                self.permitted(asked, replies);
            }
            (Step::CallModel(_) | Step::GuardOutput(_), Answer::Blocked(blocked)) => self.block(blocked),
            (Step::GuardOutput(_), Answer::Guarded) => self.guarded(),
            (Step::Remind(_), Answer::Reminded) => {}
            (Step::Rest(_), Answer::Rested(look)) => self.rested(look, prose)?,
            (Step::ValidateOutput(_), Answer::Validated(wrong)) => self.output_validated(wrong)?,
            (Step::ReviewTurn(_), Answer::Review(value)) => {
                self.reviewed(&value)?;
                self.state.phase = Phase::Close;
            }
            (step, _) => {
                self.state.asked = Some(step);
                return Err(LoopError::Unexpected);
            }
        }
        Ok(())
    }

    /// Ends the loop; with an answer that guardrails have not seen, they look at it first.
    fn end(&mut self, status: Status) {
        if status == Status::Done && self.config.guards_output && !self.state.guarded {
            self.state.phase = Phase::Guard;
            return;
        }
        self.state.status = Some(status);
        self.state.phase = Phase::Ended;
    }

    /// Begins a turn.
    fn begin(&mut self) -> Option<Step> {
        if let Some(hooks) = self.skill_hooks() {
            self.state.phase = Phase::Begin;
            return Some(hooks);
        }
        self.state.preflighted = false;
        self.events.push(AgentEvent::TurnStart { iteration: self.state.iterations });
        self.pass_on(|delivery| delivery == Delivery::InterruptImmediate);
        for (kind, text) in std::mem::take(&mut self.state.queued) {
            if kind == PREFILL {
                self.events.push(AgentEvent::FeedbackInjected { kind, content: text.clone() });
                self.state.prefill = Some(text);
            } else {
                self.feedback(&kind, &text);
            }
        }
        self.before_turn();
        match &self.config.recitation {
            Recitation::None => {
                self.state.phase = Phase::Compose(None);
                None
            }
            Recitation::Text(text) => {
                self.state.phase = Phase::Compose(Some(text.clone()));
                None
            }
            Recitation::Callback => Some(Step::Recite(self.recitation_context())),
        }
    }

    /// Makes the options of the model call.
    fn compose(&mut self, recitation: Option<String>, prose: &dyn Prose) -> Result<Option<Step>, LoopError> {
        let fragments = self.turn_fragments(recitation.clone(), None, prose)?;
        let system_bytes = fragments.iter().map(|fragment| fragment.body.len()).sum();
        if self.compact_before_call(system_bytes, || Phase::Compose(recitation)) {
            return Ok(None);
        }
        let options = self.options_of_call(&fragments);
        let active = self.config.shapes_context.then(|| {
            let (tools, caps) = (harn_prompt::active_tools(&options), harn_prompt::active_caps(&options));
            harn_prompt::reduce(&fragments, &tools, &caps)
        });
        let call = ModelCall { options: Rc::new(Json::Object(options)), messages: None };
        let Some(system) = active else {
            self.call_next(call, prose)?;
            return Ok(None);
        };
        self.state.composed = Some(call);
        Ok(Some(Step::ShapeContext(self.shaping_context(system.as_str()))))
    }

    /// Returns the primary block of the next turn. `session_system` is the system text stored with the session; without it,
    /// that of the transcript that the loop goes on with.
    ///
    /// # Errors
    /// A prompt asset does not render, or options of prompt assembly are wrong.
    pub fn turn_fragments(
        &self,
        recitation: Option<String>,
        session_system: Option<&str>,
        prose: &dyn Prose,
    ) -> Result<Vec<Fragment>, LoopError> {
        let config = &self.config;
        let mut options = config.options.clone();
        options.insert("system".into(), config.system.clone().or_else(|| self.option_text("system")).into());
        // Without tools there is no text protocol, so its tags must not be asked for.
        let format = if config.tools.is_empty() { Format::Native } else { config.format };
        options.insert("tool_format".into(), format.as_str().into());
        options.insert("recitation".into(), recitation.into());
        let active = self.active_entries();
        if !active.is_empty() {
            options.insert("active_skills".into(), active.into());
        }
        let offered = self.offered();
        options.insert("tools".into(), offered.names.clone().into());
        let mut listing = match config.format {
            Format::Text => offered.listing().clone(),
            Format::Native => ToolListing::default(),
        };
        listing.deferred = self.stubs();
        let options = Json::Object(options);
        let stored = || harn_prompt::turn::session_system(options.get("transcript")?);
        let session_system = session_system.or_else(stored);
        let input = TurnInput { options: &options, session_system, listing: &listing };
        let mut fragments = harn_prompt::turn_fragments(&input, prose)?;
        // Tools that are not there now: their guidance is left out, and the trace says so.
        let absent = self.config.tools.iter().filter(|tool| self.waits(tool) || !self.in_scope(tool));
        let absent: Vec<Json> = absent.map(|tool| tool.entry.clone()).collect();
        fragments.extend(harn_prompt::tool_guidance(&absent));
        Ok(fragments)
    }

    /// Deferred tools that no search has brought up yet.
    fn waiting_tools(&self) -> impl Iterator<Item = &LoopTool> {
        self.config.tools.iter().filter(|tool| self.waits(tool))
    }

    fn waits(&self, tool: &LoopTool) -> bool {
        self.config.search.is_some() && tool.deferred && !self.state.promoted.contains(&tool.name)
    }

    fn option_text(&self, key: &str) -> Option<String> {
        let value = self.config.options.get(key)?;
        value.as_str().map(str::to_owned)
    }

    /// Entries of the tools that the model sees in this turn: found ones lose their flag.
    fn visible_tools(&self) -> Vec<Json> {
        let mut out: Vec<Json> = Vec::new();
        if let Some(search) = &self.config.search {
            out.push(search.tool.clone());
        }
        for tool in self.config.tools.iter().filter(|tool| !self.waits(tool) && self.in_scope(tool)) {
            let found = self.state.promoted.contains(&tool.name);
            let mut entry = tool.entry.clone();
            if found && let Some(map) = entry.as_object_mut() {
                map.shift_remove("defer_loading");
            }
            out.push(entry);
        }
        out
    }

    /// What the model is offered in this turn: shared by all loops with the same tools, unless some are held back.
    fn offered(&self) -> Rc<Offered> {
        if self.config.search.is_none() && !self.is_scoped() {
            return self.config.tools.offered().clone();
        }
        let now = (self.state.promoted.clone(), self.state.skills.active.clone());
        let mut cached = self.offered.0.borrow_mut();
        match &*cached {
            Some((then, offered)) if *then == now => offered.clone(),
            _ => {
                let offered = Rc::new(Offered::new(&self.visible_tools()));
                *cached = Some((now, offered.clone()));
                offered
            }
        }
    }

    /// Deferred tools that the contract names, when `include_stub_listing` asks for it.
    fn stubs(&self) -> Vec<(String, String)> {
        let option = self.config.options.get("tool_search");
        let wanted = option.and_then(|o| o.get("include_stub_listing")).is_some_and(harn_llm::json::truthy);
        if !wanted {
            return Vec::new();
        }
        self.waiting_tools()
            .map(|tool| {
                let text = harn_llm::json::str_at(&tool.entry, "description").unwrap_or_default();
                (tool.name.clone(), harn_llm::tool_text::first_sentence(text).to_string())
            })
            .collect()
    }

    fn options_of_call(&mut self, fragments: &[Fragment]) -> Map<String, Json> {
        // What `system` and `prompt` say is in the fragments and messages.
        let is_for_calls =
            |key: &str| !matches!(key, "system" | "prompt") && !crate::config::is_of_loops(key);
        let given = self.config.options.iter().filter(|(key, _)| is_for_calls(key));
        let mut options: Map<String, Json> =
            given.map(|(key, value)| (key.to_owned(), value.clone())).collect();
        self.show_reminders(&mut options);
        if let Some(text) = self.state.prefill.take() {
            options.insert("prefill".into(), text.into());
        }
        let config = &self.config;
        let fragments: Vec<Json> = fragments.iter().map(fragment_json).collect();
        options.insert("_system_fragments".into(), fragments.into());
        options.insert("_iteration".into(), self.state.iterations.into());
        options.insert("tool_format".into(), config.format.as_str().into());
        if !config.tools.is_empty() {
            options.insert("tools".into(), self.offered().names.clone().into());
        }
        if config.search.is_some() {
            options.shift_remove("tool_search");
        }
        if config.structured || config.validates {
            // The loop judges: a reply that calls tools is not its answer, and a correction is a turn of its own.
            options.insert("output_validation".into(), "off".into());
            options.insert("schema_retries".into(), 0.into());
            options.shift_remove("output_validator");
        }
        if config.persistent {
            options.insert("done_sentinel".into(), config.sentinel.as_str().into());
        }
        options
    }

    fn shaped(&mut self, value: &Json, prose: &dyn Prose) -> Result<(), LoopError> {
        let Some(mut call) = self.state.composed.take() else { return Err(LoopError::Unexpected) };
        let messages = |value: &Json| -> Result<Conversation, LoopError> {
            let wrong = |what: &str| {
                LoopError::Callback(format!("context_callback returned an invalid response: {what}"))
            };
            let list = value.as_array().filter(|list| list.iter().all(Json::is_object));
            let list = list.ok_or_else(|| wrong("messages must be a list of message dicts"))?;
            self.seen().with_same(list).map_err(|e| wrong(&e.0))
        };
        match value {
            Json::Null => {}
            Json::Array(_) => call.messages = Some(messages(value)?),
            Json::Object(map) => {
                let wrong = |what: String| {
                    LoopError::Callback(format!("context_callback returned an invalid response: {what}"))
                };
                if let Some(key) = map.keys().find(|key| !["messages", "system"].contains(&key.as_str())) {
                    return Err(wrong(format!("unknown field `{key}`")));
                }
                if let Some(system) = map.get("system").filter(|s| !s.is_null() && !s.is_string()) {
                    return Err(wrong(format!("system must be a string, got {}", system.type_name())));
                }
                if let Some(list) = map.get("messages").filter(|m| !m.is_null()) {
                    call.messages = Some(messages(list)?);
                }
                if let Some(system) = map.get("system").filter(|s| !s.is_null()) {
                    let body = system.printed();
                    Rc::make_mut(&mut call.options)["_system_fragments"] =
                        json!([{"id": "primary:system", "source": "primary", "body": body}]);
                }
            }
            other => {
                return Err(LoopError::Callback(format!(
                    "context_callback must return nil, a messages list, or a dict with optional messages/system fields; got {}",
                    other.type_name()
                )));
            }
        }
        self.call_next(call, prose)
    }

    /// The call is made; the ledger is shown in this one only.
    fn call_next(&mut self, mut call: ModelCall, prose: &dyn Prose) -> Result<(), LoopError> {
        if let Some(message) = self.ledger_message(prose)? {
            let mut messages = call.messages.take().unwrap_or_else(|| self.seen().clone());
            messages.push_json(message).map_err(|e| LoopError::Callback(e.0))?;
            call.messages = Some(messages);
        }
        self.state.phase = Phase::Call(call);
        Ok(())
    }

    /// Appends a message of the runtime.
    fn feedback(&mut self, kind: &str, text: &str) {
        self.tell_model(crate::feedback::message(kind, text));
        self.events
            .push(AgentEvent::FeedbackInjected { kind: kind.to_owned(), content: text.trim().to_owned() });
    }
}

fn fragment_json(fragment: &Fragment) -> Json {
    json!({
        "id": fragment.id, "source": fragment.source, "bucket": fragment.bucket.as_str(), "body": fragment.body,
        "requires_tools": fragment.requires_tools, "requires_caps": fragment.requires_caps,
    })
}
