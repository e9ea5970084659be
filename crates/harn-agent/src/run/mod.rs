//! The agent loop as a state machine.
//!
//! An iteration passes through these states; each arrow with a label is a [`Step`] that the driver executes:
//!
//! ```text
//! Start ─recite─► Compose ─shape context─► Call ─call model─► Reply ─► Dispatch ─run tools─► … ─review─► Start
//!                                                               └─ text only ─► Start or Ended
//! ```
//!
//! `reply.rs` reads replies of the model, `answer.rs` validates the final answer, `guard.rs` handles guardrails,
//! `handoff.rs` transfers the conversation to another agent, `dispatch.rs` checks calls, `review.rs` checks calls that
//! were changed afterwards, `search.rs` answers tool searches, `saved.rs` defines the saved form, `turn.rs` ends turns,
//! `remind.rs` handles reminders, `context.rs` builds the arguments of callbacks, `input.rs` handles input of users and
//! the host, `outcome.rs` builds the result. Reminder providers may be asked before any state.

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

/// The kind of feedback that is not a message but the beginning of the next reply.
const PREFILL: &str = "prefill_assistant";

/// The next step that the driver must execute.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Step {
    /// Summarize these messages.
    Compact(Archive),
    /// Ask the host which skills match, with these parameters of `skill/match`.
    MatchSkills(Json),
    /// Ask the host which deferred tools match, with these parameters of `tool_search/query`.
    SearchTools(Json),
    /// Reload the skill layers, because they have changed.
    ReadSkills,
    /// Fetch these skills of the host with their bodies, by their ids in the loop.
    FetchSkills(Vec<String>),
    /// Start or release these MCP servers for skills.
    BindServers(Vec<Binding>),
    /// Call these closures of skills, in order; an error in one is reported and changes nothing.
    RunSkillHooks(Vec<SkillHook>),
    /// Call the option `recitation` with this dict.
    Recite(Json),
    /// Call `context_callback` with this dict.
    ShapeContext(Json),
    /// Call the model.
    CallModel(ModelCall),
    /// Call the `PreToolUse` hooks with this call before it is checked.
    BeforeTool(ToolIntent),
    /// Ask these questions before a call is decided: about the call, and about later ones of the turn. They may be
    /// asked concurrently.
    Permit(#[serde(deserialize_with = "one_or_many")] Vec<PermissionQuestion>),
    /// Run these calls; several calls may run concurrently.
    RunTools(Vec<ToolRun>),
    /// Call `post_turn_callback` with this dict.
    ReviewTurn(Json),
    /// Call `output_validator` with this answer.
    ValidateOutput(Json),
    /// Call `output_guardrails` with this answer.
    GuardOutput(Json),
    /// Transfer the conversation: [`AgentLoop::hand_off`] creates the loop of the other agent.
    HandOff(Transfer),
    /// Ask the reminder providers that subscribe to this event.
    Remind(Moment),
    /// Wait while the daemon is idle, and poll for a reason to wake.
    Rest(Rest),
    /// The loop has ended: see [`AgentLoop::outcome`].
    Finished,
}

/// A model call. The loop retains the conversation and the tools: see [`AgentLoop::call`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelCall {
    /// The options of the call, including the system prompt. They contain only the parts of the tools that prompt
    /// assembly needs.
    #[serde(with = "shared")]
    pub options: Rc<Json>,
    /// Messages from a callback that are sent instead of the loop's conversation.
    pub messages: Option<Conversation>,
}

/// Serializes a shared value as the value itself.
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

/// A call that the model requests.
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

/// The combined result of the hooks of a call.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HookVerdict {
    /// Arguments that replace the model's.
    pub arguments: Option<Json>,
    /// Why the call is denied.
    pub deny: Option<String>,
}

/// A question that must be answered before a call is decided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PermissionQuestion {
    /// The call.
    pub intent: ToolIntent,
    /// The question.
    pub question: Question,
    /// Position of the call in the turn, relative to the one that is being decided.
    #[serde(default)]
    pub ahead: usize,
}

/// Reads a list, or the single item of an old snapshot.
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
    /// The backend that executes it.
    pub backend: Backend,
    /// Maximum number of retries after a failed execution.
    pub retries: u32,
    /// Milliseconds before the first retry; doubles with each retry.
    pub backoff_ms: u64,
    /// How it was approved, if approval was requested.
    #[serde(default)]
    pub approval: Option<String>,
}

/// The status of a tool result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolStatus {
    /// The call succeeded.
    Ok,
    /// The call failed.
    Error,
    /// The call was rejected.
    Rejected,
}

impl ToolStatus {
    /// Returns the name in callbacks and events.
    pub fn as_str(self) -> &'static str {
        match self {
            ToolStatus::Ok => "ok",
            ToolStatus::Error => "error",
            ToolStatus::Rejected => "rejected",
        }
    }
}

/// The result of a tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolReply {
    /// The result for the model; the reason of a rejection.
    pub text: String,
    /// Images and documents of the result, as message blocks.
    #[serde(default)]
    pub media: Vec<Json>,
    /// The status.
    pub status: ToolStatus,
    /// Duration in milliseconds.
    pub duration_ms: i64,
}

impl ToolReply {
    /// Creates a result that contains only text.
    pub fn new(text: String, status: ToolStatus, duration_ms: i64) -> ToolReply {
        ToolReply { text, media: Vec::new(), status, duration_ms }
    }
}

/// The answer to a [`Step`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Answer {
    /// To [`Step::Compact`]: the output of a model or callback, or the layout of the engine; `None` if it failed.
    Summary(Option<String>),
    /// To [`Step::MatchSkills`] or [`Step::SearchTools`]: the host's answer; `None` without a host or if it failed.
    Host(Option<Json>),
    /// To [`Step::ReadSkills`].
    SkillsRead {
        /// The current value of the option `skills`.
        option: Json,
        /// Its skills.
        list: Vec<LoopSkill>,
        /// Values of the variables in their bodies.
        variables: BTreeMap<String, String>,
    },
    /// To [`Step::FetchSkills`].
    Skills {
        /// In the same order; `None` for a skill that the host does not provide.
        skills: Vec<Option<LoopSkill>>,
        /// Values of the variables in their bodies.
        variables: BTreeMap<String, String>,
    },
    /// To [`Step::BindServers`], in the same order: the error message, if any.
    Bound(Vec<Option<String>>),
    /// To [`Step::RunSkillHooks`].
    SkillHooks,
    /// To [`Step::Recite`].
    Recitation(Option<String>),
    /// To [`Step::ShapeContext`]: the return value of the callback.
    Context(Json),
    /// To [`Step::CallModel`]: the result dict of the call.
    Reply {
        /// The result dict. Only the last message of its transcript is used.
        result: Json,
        /// Duration of the call in milliseconds.
        duration_ms: i64,
    },
    /// To [`Step::CallModel`] or [`Step::Compact`]: a budget rejected the call with this message.
    OverBudget(String),
    /// To [`Step::BeforeTool`].
    BeforeTool(HookVerdict),
    /// To [`Step::Permit`], in the same order.
    Permit(Vec<Reply>),
    /// To [`Step::RunTools`], in the same order.
    Tools(Vec<ToolReply>),
    /// To [`Step::ReviewTurn`]: the return value of the callback.
    Review(Json),
    /// To [`Step::ValidateOutput`]: the validation error, if any.
    Validated(Option<String>),
    /// To [`Step::CallModel`] or [`Step::GuardOutput`]: a guardrail stops the loop.
    Blocked(Blocked),
    /// To [`Step::GuardOutput`]: the answer passed all guardrails.
    Guarded,
    /// To [`Step::Remind`]: new reminders are in [`AgentLoop::reminders_mut`].
    Reminded,
    /// To [`Step::Rest`].
    Rested(Look),
}

/// An error that ends the loop.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoopError {
    /// A callback returned an invalid value.
    #[error("{0}")]
    Callback(String),
    /// A prompt asset did not render.
    #[error(transparent)]
    Prose(#[from] ProseError),
    /// The options of prompt assembly are invalid.
    #[error("{0}")]
    Prompt(String),
    /// The answer does not match the current step.
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
    /// Events that have not been taken yet.
    events: Vec<AgentEvent>,
    /// The tools offered to the model, if some are hidden.
    #[serde(skip)]
    offered: Cached,
    #[serde(skip)]
    paths: Lookup,
}

/// Resolves paths for the loop; not part of its state.
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

/// A cache that can be recomputed; not part of the loop's state.
#[derive(Debug, Clone, Default)]
struct Cached(RefCell<Option<(Held, Rc<Offered>)>>);

/// The discovered tools, and the active skills.
type Held = (Vec<String>, Vec<String>);

impl PartialEq for Cached {
    fn eq(&self, _: &Cached) -> bool {
        true
    }
}

impl AgentLoop {
    /// Creates a loop.
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

    /// Returns the call of a step for [`harn_llm::LlmRuntime`]; conversation and tools are shared with the loop.
    pub fn call(&self, call: &ModelCall) -> harn_llm::Call {
        harn_llm::Call {
            options: call.options.clone(),
            messages: Some(call.messages.clone().unwrap_or_else(|| self.seen().clone())),
            tools: (!self.config.tools.is_empty()).then(|| self.offered().set.clone()),
            ..harn_llm::Call::default()
        }
    }

    /// Returns the same as one option dict, for replacements of `llm_call`.
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
        // Only images can be invalid, and the loop creates none; an unreadable message is not sent.
        if let Err(error) = self.state.messages.push_json(message) {
            let note = state::Note::internal("unreadable_message", "system", &error.0, Json::Null);
            self.state.notes.push(note);
            return;
        }
        if let (Some(seen), Some(message)) = (&mut self.state.seen, self.state.messages.last()) {
            seen.push(message);
        }
    }

    /// Returns the recorded messages.
    pub fn messages(&self) -> &Conversation {
        &self.state.messages
    }

    /// Returns whether calls of the last reply are still unanswered. Call it after an answer.
    pub fn is_in_tool_turn(&self) -> bool {
        matches!(self.state.phase, Phase::Dispatch | Phase::EndTurn)
    }

    /// Returns the settings.
    pub fn config(&self) -> &LoopConfig {
        &self.config
    }

    /// Sets how policies resolve paths. Until then all paths are unknown and no pattern permits them.
    pub fn look_up_paths(&mut self, paths: Rc<dyn Paths>) {
        self.paths = Lookup(paths);
    }

    /// Sets whether hooks are called before tool calls, from the next call on.
    pub fn set_hooked(&mut self, hooked: bool) {
        self.state.hooked = hooked;
    }

    /// Replaces the tools of a server in this loop.
    ///
    /// # Errors
    /// A tool is invalid, or has the name of another one. The tools are then unchanged.
    pub fn replace_tools(&mut self, server: &str, entries: &[Json]) -> Result<(), ConfigError> {
        self.config.replace_tools(server, entries)?;
        self.offered = Cached::default();
        Ok(())
    }

    /// Marks the skill layers as changed: they are reloaded before the next iteration.
    pub fn renew_skills(&mut self) {
        self.state.skills.stale = true;
    }

    /// Takes the events since the last call.
    pub fn take_events(&mut self) -> Vec<AgentEvent> {
        std::mem::take(&mut self.events)
    }

    /// Queues feedback for the next turn.
    pub fn inject_feedback(&mut self, kind: &str, text: &str) {
        self.state.queued.push((kind.to_owned(), text.to_owned()));
    }

    /// Returns the next step. Repeated calls without an answer return the same step.
    ///
    /// # Errors
    /// A prompt asset does not render, or options of prompt assembly are invalid.
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

    /// Handles the answer to the current step.
    ///
    /// # Errors
    /// The answer belongs to another step, a callback returned an invalid value, or an asset does not render.
    pub fn answer(&mut self, answer: Answer, prose: &dyn Prose) -> Result<(), LoopError> {
        let Some(step) = self.state.asked.take() else { return Err(LoopError::Unexpected) };
        match (step, answer) {
            (Step::BindServers(bindings), Answer::Bound(problems)) if bindings.len() == problems.len() => {
                self.bound(&bindings, &problems);
            }
            // The phase that follows the hooks is already set.
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

    /// Ends the loop. An answer that guardrails have not checked is passed to them first.
    fn end(&mut self, status: Status) {
        if status == Status::Done && self.config.guards_output && !self.state.guarded {
            self.state.phase = Phase::Guard;
            return;
        }
        self.state.status = Some(status);
        self.state.phase = Phase::Ended;
    }

    /// Starts a turn.
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

    /// Builds the options of the model call.
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

    /// Returns the primary block of the next turn. `session_system` is the system prompt stored with the session;
    /// without it, that of the transcript that the loop continues.
    ///
    /// # Errors
    /// A prompt asset does not render, or options of prompt assembly are invalid.
    pub fn turn_fragments(
        &self,
        recitation: Option<String>,
        session_system: Option<&str>,
        prose: &dyn Prose,
    ) -> Result<Vec<Fragment>, LoopError> {
        let config = &self.config;
        let mut options = config.options.clone();
        options.insert("system".into(), config.system.clone().or_else(|| self.option_text("system")).into());
        // Without tools, the text protocol is not used, so the prompt must not mention its tags.
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
        // The guidance of unavailable tools is omitted, which is recorded in the trace.
        let absent = self.config.tools.iter().filter(|tool| self.waits(tool) || !self.in_scope(tool));
        let absent: Vec<Json> = absent.map(|tool| tool.entry.clone()).collect();
        fragments.extend(harn_prompt::tool_guidance(&absent));
        Ok(fragments)
    }

    /// Returns the deferred tools that no search has found yet.
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

    /// Returns the entries of the tools that the model sees in this turn; those found by a search are no longer
    /// deferred.
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

    /// Returns the tools for this turn: shared by all loops with the same tools, unless some are hidden.
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

    /// Returns the deferred tools that the contract names if `include_stub_listing` is set.
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
        // The contents of `system` and `prompt` are already in the fragments and messages.
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
            // The loop itself validates: a reply with tool calls is not the answer, and a correction is a separate
            // turn.
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

    /// Makes the call. The ledger is shown only in this call.
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
