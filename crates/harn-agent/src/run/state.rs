//! The state of a loop between two steps.

use std::collections::{BTreeMap, VecDeque};

use harn_llm::Conversation;
use harn_prompt::untrusted::quote;
use harn_value::{Data as Json, json};
use serde::{Deserialize, Serialize};

use super::{Binding, ModelCall, Moment, SkillHook, Step, ToolRun, ToolStatus};
use crate::compaction::Engine;
use crate::detect::Detector;
use crate::ledger::Ledger;
use crate::loop_skill::Candidate;
use crate::policy::{Question, Reply};

/// The final status of a loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The model has finished.
    Done,
    /// Too many turns contained no tool call.
    Stuck,
    /// Nothing can wake the daemon any more.
    Idle,
    /// The daemon was polled too often without a reason to wake.
    Watchdog,
    /// A limit was reached.
    BudgetExhausted,
    /// A required tool did not succeed.
    Failed,
    /// A guardrail stopped it.
    Blocked,
}

impl Status {
    /// Returns the name in results.
    pub fn as_str(self) -> &'static str {
        match self {
            Status::Done => "done",
            Status::Stuck => "stuck",
            Status::Idle => "idle",
            Status::Watchdog => "watchdog",
            Status::BudgetExhausted => "budget_exhausted",
            Status::Failed => "failed",
            Status::Blocked => "blocked",
        }
    }
}

/// When the model receives user input that arrives while the loop runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Delivery {
    /// Before the next model call.
    InterruptImmediate,
    /// At the end of the turn.
    #[default]
    FinishStep,
    /// When the loop becomes idle or ends.
    WaitForCompletion,
}

impl Delivery {
    /// Returns the name in messages and events.
    pub fn as_str(self) -> &'static str {
        match self {
            Delivery::InterruptImmediate => "interrupt_immediate",
            Delivery::FinishStep => "finish_step",
            Delivery::WaitForCompletion => "wait_for_completion",
        }
    }

    /// Parses a name.
    pub fn read(word: &str) -> Option<Delivery> {
        let all = [Delivery::InterruptImmediate, Delivery::FinishStep, Delivery::WaitForCompletion];
        all.into_iter().find(|delivery| delivery.as_str() == word)
    }
}

/// User input that the model has not received yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Input {
    pub(super) text: String,
    pub(super) delivery: Delivery,
}

/// The phase of a loop.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) enum Phase {
    /// Before an iteration.
    #[default]
    Start,
    /// Skills are selected and the turn starts.
    Begin,
    /// The system prompt must be built, with this recitation.
    Compose(Option<String>),
    /// The model must be called.
    Call(ModelCall),
    /// The next calls must be taken from the queue.
    Dispatch,
    /// Older messages must be compacted.
    Compact(Box<Compacting>),
    /// All calls are answered.
    EndTurn,
    /// The turn's callbacks must be called.
    Close,
    /// The answer must be validated.
    Validate,
    /// The guardrails must check the answer.
    Guard,
    /// The conversation must be transferred.
    HandOff(Transfer),
    /// The turn has ended; whether the loop continues is not decided yet.
    Finish,
    /// A daemon is idle; true if it has just become idle.
    Rest(bool),
    /// The loop has ended.
    Ended,
}

/// A tool call of the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Call {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) arguments: Json,
    /// Questions of `approval_policy` that were asked together with those of an earlier call of the turn, with the
    /// replies.
    #[serde(default)]
    pub(super) asked: Vec<(Question, Reply)>,
}

impl Call {
    pub(super) fn new(id: String, name: String, arguments: Json) -> Call {
        Call { id, name, arguments, asked: Vec::new() }
    }

    /// Takes the reply to this request if it was asked in advance. Each reply is used once.
    pub(super) fn take_reply(&mut self, question: &Question) -> Option<Reply> {
        let is_same = |(asked, _): &(Question, Reply)| asked == question;
        let at =
            self.asked.iter().position(is_same).filter(|_| matches!(question, Question::Approve { .. }))?;
        Some(self.asked.remove(at).1)
    }
}

/// A call that is being checked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Admitting {
    pub(super) call: Call,
    /// Whether it was reported to subscribers and hooks.
    pub(super) announced: bool,
    /// The answers to questions of the policies.
    pub(super) answers: Vec<Reply>,
    /// The layer whose host replaced the arguments with these ones.
    #[serde(default)]
    pub(super) confirmed: Option<usize>,
    /// How often a host replaced the arguments.
    #[serde(default)]
    pub(super) replaced: u32,
}

impl Admitting {
    pub(super) fn new(call: Call) -> Admitting {
        Admitting { call, announced: false, answers: Vec::new(), confirmed: None, replaced: 0 }
    }

    /// Replaces the arguments. Answers about the old ones are dropped.
    pub(super) fn replace(&mut self, arguments: Json, confirmed: Option<usize>) {
        self.call.arguments = arguments;
        self.answers.clear();
        self.confirmed = confirmed;
        self.replaced += 1;
    }
}

/// An answered call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Answered {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) text: String,
    pub(super) status: ToolStatus,
    /// Whether it was executed; only then is it reported to callbacks.
    pub(super) executed: bool,
    /// Whether the runtime created the text and already quoted untrusted content in it.
    #[serde(default)]
    pub(super) quoted: bool,
    /// Images and documents of the result.
    #[serde(default)]
    pub(super) media: Vec<Json>,
}

impl Answered {
    /// Returns the text for the model.
    pub(super) fn shown(&self) -> String {
        if self.quoted { self.text.clone() } else { quote(&self.text).into_owned() }
    }
}

/// The current turn.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Turn {
    pub(super) calls: VecDeque<Call>,
    /// The user-visible text of the model.
    pub(super) text: String,
    pub(super) names: Vec<String>,
    pub(super) answered: Vec<Answered>,
    /// The assistant's message in a provider's format; nil in text format.
    pub(super) assistant: Json,
    /// Whether the model reported that it has finished.
    pub(super) finished: bool,
    /// Whether a callback or option stops the loop.
    pub(super) stop: bool,
    pub(super) parse_errors: Vec<String>,
    pub(super) violations: Vec<String>,
    /// Whether only read-only calls have been taken so far.
    pub(super) leading: bool,
    /// The call about which a question is pending.
    #[serde(default)]
    pub(super) admitting: Option<Box<Admitting>>,
    /// Calls that passed the checks and run together with later ones.
    #[serde(default)]
    pub(super) ready: Vec<ToolRun>,
    /// The handoff that ends the turn.
    #[serde(default)]
    pub(super) handoff: Option<Transfer>,
    /// Whether the calls in `ready` must run before any other call is checked.
    #[serde(default)]
    pub(super) hold: bool,
}

/// A transfer of the conversation to another agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Transfer {
    /// The agent that transfers it.
    pub from: String,
    /// The agent that receives it.
    pub to: String,
    /// The message of the transferring agent.
    pub message: Option<String>,
    /// Index of the handoff in the option `handoffs`.
    pub at: usize,
}

impl Transfer {
    /// Returns the dict for results and events.
    pub(super) fn to_json(&self) -> Json {
        json!({"from": self.from, "to": self.to, "message": self.message})
    }
}

/// Which guardrail stopped a loop, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blocked {
    /// `input` or `output`.
    pub stage: String,
    /// The guardrail: the name of an agent, or the index in the option.
    pub guardrail: String,
    /// The reason.
    pub reason: String,
}

impl Blocked {
    /// Returns the dict for results.
    pub(super) fn to_json(&self) -> Json {
        json!({"stage": self.stage, "guardrail": self.guardrail, "reason": self.reason})
    }
}

/// A transcript event without its id.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Note {
    pub(super) kind: String,
    pub(super) role: String,
    pub(super) visibility: String,
    pub(super) text: String,
    pub(super) metadata: Packed,
}

impl Note {
    pub(super) fn internal(kind: &str, role: &str, text: &str, metadata: Json) -> Note {
        let visibility = "internal".to_owned();
        Note {
            kind: kind.to_owned(),
            role: role.to_owned(),
            visibility,
            text: text.to_owned(),
            metadata: Packed::of(&metadata),
        }
    }

    pub(super) fn private(kind: &str, text: &str) -> Note {
        let mut note = Note::internal(kind, "assistant", text, json!(null));
        note.visibility = "private".to_owned();
        note
    }
}

/// JSON that is stored for a long time and read once. Its serialized form takes less memory than a tree.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Packed {
    Text(Box<str>),
    /// JSON with floats, whose last bit may be lost in serialization.
    Tree(Box<Json>),
}

impl Packed {
    pub(super) fn of(value: &Json) -> Packed {
        match has_floats(value) {
            true => Packed::Tree(Box::new(value.clone())),
            false => Packed::Text(value.to_string().into()),
        }
    }

    pub(super) fn read(&self) -> Json {
        match self {
            Packed::Text(text) => serde_json::from_str(text).unwrap_or_default(),
            Packed::Tree(value) => (**value).clone(),
        }
    }
}

fn has_floats(value: &Json) -> bool {
    match value {
        Json::Number(number) => number.is_f64(),
        Json::Array(items) => items.iter().any(has_floats),
        Json::Object(map) => map.values().any(has_floats),
        _ => false,
    }
}

impl Serialize for Packed {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.read().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Packed {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Packed, D::Error> {
        Json::deserialize(deserializer).map(|value| Packed::of(&value))
    }
}

/// A search of deferred tools; past searches determine which tools are loaded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct PastSearch {
    pub(super) id: String,
    pub(super) arguments: Json,
    pub(super) found: Vec<String>,
}

/// Messages to be compacted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Archive {
    /// The messages, oldest first.
    pub messages: Vec<Json>,
    /// What produces the summary.
    pub engine: Engine,
}

/// A compaction in progress.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Compacting {
    pub(super) archive: Archive,
    /// Number of messages before the summary.
    pub(super) keep_first: usize,
    pub(super) mode: String,
    /// Whether it is the second pass, because the result of the first one was too large.
    pub(super) second: bool,
    pub(super) tokens_before: i64,
    /// The next phase.
    pub(super) resume: Phase,
}

/// The skills of a running loop.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct SkillState {
    /// Ids, best first.
    pub(super) active: Vec<String>,
    /// Ids of the skills that the model loaded; they remain active.
    pub(super) loaded: Vec<String>,
    /// Whether skills have been matched at least once.
    pub(super) matched: bool,
    /// The host's answer about matching skills; the inner `None` means that the host did not answer.
    #[serde(default)]
    pub(super) answered: Option<Option<Vec<Candidate>>>,
    /// Servers to start or release, and closures to call after that.
    #[serde(default)]
    pub(super) bindings: Vec<Binding>,
    #[serde(default)]
    pub(super) hooks: Vec<SkillHook>,
    /// Whether the fallback to another strategy was reported.
    #[serde(default)]
    pub(super) warned: bool,
    /// Whether the skills must be reloaded.
    #[serde(default)]
    pub(super) stale: bool,
}

/// The idle state of a daemon.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Resting {
    /// Index in the list of poll intervals.
    pub(super) backoff: usize,
    pub(super) attempts: u64,
    pub(super) waited_ms: u64,
    pub(super) changed_at: BTreeMap<String, f64>,
    /// Whether the initial state of the files is known, so that changes can be detected.
    pub(super) looked: bool,
    /// Whether the loop resumed from a snapshot.
    pub(super) resumed: bool,
    /// Iterations of earlier processes, which do not count towards `max_iterations`.
    pub(super) earlier: u32,
    /// How often older history was removed.
    #[serde(default)]
    pub(super) trims: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct State {
    pub(super) phase: Phase,
    /// Whether hooks are called before tool calls.
    #[serde(default)]
    pub(super) hooked: bool,
    /// The current step, which has no answer yet.
    pub(super) asked: Option<Step>,
    /// The model call while a callback shapes its context.
    pub(super) composed: Option<ModelCall>,
    pub(super) turn: Turn,
    pub(super) status: Option<Status>,
    /// Whether `max_iterations` ended the loop.
    #[serde(default)]
    pub(super) out_of_turns: bool,

    /// The provider's stop reason of the last reply.
    #[serde(default)]
    pub(super) stop_reason: Option<String>,

    /// The answer, once a final reply contains one.
    #[serde(default)]
    pub(super) data: Option<Json>,
    /// Why the loop has no answer.
    #[serde(default)]
    pub(super) failure: Option<String>,
    /// The guardrail that stopped the loop.
    #[serde(default)]
    pub(super) blocked: Option<Blocked>,
    /// Whether the answer passed the guardrails.
    #[serde(default)]
    pub(super) guarded: bool,
    /// The transfers of the conversation so far.
    #[serde(default)]
    pub(super) handoffs: Vec<Transfer>,
    /// Number of requests for a corrected answer.
    #[serde(default)]
    pub(super) corrections: u32,

    /// All messages.
    pub(super) messages: Conversation,
    /// The model's view of the messages after a compaction; saved by `saved.rs`.
    #[serde(skip)]
    pub(super) seen: Option<Conversation>,
    /// The summary that replaces older messages.
    pub(super) summary: Option<String>,
    /// The compaction whose summary is pending.
    pub(super) compacting: Option<Box<Compacting>>,
    /// Whether the size of this turn's request was checked.
    pub(super) preflighted: bool,
    /// Bytes of the last system prompt.
    pub(super) system_bytes: i64,
    pub(super) notes: Vec<Note>,
    pub(super) queued: Vec<(String, String)>,
    /// The required beginning of the next reply.
    #[serde(default)]
    pub(super) prefill: Option<String>,
    /// User input that arrived while the loop ran.
    #[serde(default)]
    pub(super) heard: Vec<Input>,

    pub(super) text: String,
    pub(super) visible: Vec<String>,
    pub(super) iterations: u32,
    pub(super) nudges: u32,
    pub(super) single_tool_turns: u32,

    pub(super) tools_used: Vec<String>,
    pub(super) successful: Vec<String>,
    pub(super) rejected: Vec<String>,
    pub(super) detector: Detector,
    /// Whether the last `run` call succeeded, and its output.
    pub(super) verified: Option<(bool, String)>,
    pub(super) promoted: Vec<String>,
    pub(super) searches: Vec<PastSearch>,

    pub(super) skills: SkillState,
    pub(super) ledger: Option<Ledger>,
    /// How often the ledger rejected the sentinel.
    pub(super) ledger_refusals: u32,

    /// A transcript with the session's reminders.
    pub(super) reminders: Json,
    /// Ids of the reminders that the current turn has shown to the model.
    pub(super) shown: Vec<String>,
    /// Pending events for reminder providers.
    pub(super) moments: VecDeque<Moment>,
    /// Whether the model has replied and the turn has not ended.
    pub(super) in_turn: bool,
    /// Tokens of the last request and its reply, and the number of messages in them.
    pub(super) counted: Option<(i64, usize)>,
    /// The last reported pressure levels, in percent of the context window and of the token budget.
    pub(super) window_level: u64,
    pub(super) budget_level: u64,

    pub(super) counts: Counts,
    /// The idle state, for daemons.
    pub(super) resting: Resting,
}

/// Totals for the result.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Counts {
    pub(super) llm_calls: u32,
    pub(super) input_tokens: i64,
    pub(super) output_tokens: i64,
    pub(super) llm_ms: i64,
    pub(super) tool_ms: i64,
    pub(super) executions: u32,
    pub(super) rejections: u32,
    pub(super) interventions: u32,
    pub(super) compactions: u32,
    pub(super) fallbacks: u32,
    pub(super) fallback_rejections: u32,
    #[serde(default)]
    pub(super) empty_retries: u32,
}

/// Adds a name unless the list contains it.
pub(super) fn add_once(list: &mut Vec<String>, name: &str) {
    if !list.iter().any(|n| n == name) {
        list.push(name.to_owned());
    }
}
