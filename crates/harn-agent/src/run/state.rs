//! What a loop remembers between two steps.

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

/// How a loop ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The model finished.
    Done,
    /// It only talked.
    Stuck,
    /// A daemon has nothing left that could wake it.
    Idle,
    /// A daemon found no reason to go on too often.
    Watchdog,
    /// A limit was reached.
    BudgetExhausted,
    /// A tool that had to succeed did not.
    Failed,
    /// A guardrail stopped it.
    Blocked,
}

impl Status {
    /// Returns the word of results.
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

/// When the model hears what somebody said while the loop ran.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Delivery {
    /// Before the next call of the model.
    InterruptImmediate,
    /// At the end of the turn.
    #[default]
    FinishStep,
    /// When the loop rests or ends.
    WaitForCompletion,
}

impl Delivery {
    /// Returns the word of messages and events.
    pub fn as_str(self) -> &'static str {
        match self {
            Delivery::InterruptImmediate => "interrupt_immediate",
            Delivery::FinishStep => "finish_step",
            Delivery::WaitForCompletion => "wait_for_completion",
        }
    }

    /// Reads the word.
    pub fn read(word: &str) -> Option<Delivery> {
        let all = [Delivery::InterruptImmediate, Delivery::FinishStep, Delivery::WaitForCompletion];
        all.into_iter().find(|delivery| delivery.as_str() == word)
    }
}

/// What somebody said and the model has not heard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Input {
    pub(super) text: String,
    pub(super) delivery: Delivery,
}

/// Where in an iteration the loop stands.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) enum Phase {
    /// Before an iteration.
    #[default]
    Start,
    /// Skills are chosen, the turn begins.
    Begin,
    /// The system prompt is to be made, with this recitation.
    Compose(Option<String>),
    /// The model is to be called.
    Call(ModelCall),
    /// Calls are to be taken from the queue.
    Dispatch,
    /// Older messages are to give way.
    Compact(Box<Compacting>),
    /// All calls are answered.
    EndTurn,
    /// The turn's callbacks are asked.
    Close,
    /// The answer is to be validated.
    Validate,
    /// Guardrails are to look at the answer.
    Guard,
    /// The conversation is to be transferred.
    HandOff(Transfer),
    /// The turn is over, whether the loop goes on is to be decided.
    Finish,
    /// A daemon rests; whether it has just begun to.
    Rest(bool),
    /// The loop is over.
    Ended,
}

/// A call of the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Call {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) arguments: Json,
    /// Questions of `approval_policy` that were asked together with those of an earlier call of the turn, with the replies.
    #[serde(default)]
    pub(super) asked: Vec<(Question, Reply)>,
}

impl Call {
    pub(super) fn new(id: String, name: String, arguments: Json) -> Call {
        Call { id, name, arguments, asked: Vec::new() }
    }

    /// The reply of a human to this request, if it was asked in advance. A reply is used once.
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
    /// Whether subscribers and hooks know of it.
    pub(super) announced: bool,
    /// What the questions of its policies were answered.
    pub(super) answers: Vec<Reply>,
    /// The layer whose host put these arguments in place of others.
    #[serde(default)]
    pub(super) confirmed: Option<usize>,
    /// How often a host has done so.
    #[serde(default)]
    pub(super) replaced: u32,
}

impl Admitting {
    pub(super) fn new(call: Call) -> Admitting {
        Admitting { call, announced: false, answers: Vec::new(), confirmed: None, replaced: 0 }
    }

    /// Puts other arguments in place: nothing that was said of the old ones holds for them.
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
    /// Whether it reached execution: only then callbacks hear of it.
    pub(super) executed: bool,
    /// The runtime made the text, with what comes from others quoted in it.
    #[serde(default)]
    pub(super) quoted: bool,
    /// Images and documents of the result.
    #[serde(default)]
    pub(super) media: Vec<Json>,
}

impl Answered {
    /// The text as the model may read it.
    pub(super) fn shown(&self) -> String {
        if self.quoted { self.text.clone() } else { quote(&self.text).into_owned() }
    }
}

/// The turn under way.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Turn {
    pub(super) calls: VecDeque<Call>,
    /// What the model said for people.
    pub(super) text: String,
    pub(super) names: Vec<String>,
    pub(super) answered: Vec<Answered>,
    /// The assistant's message in a provider's shape; nil in text format.
    pub(super) assistant: Json,
    /// The model said that it is finished.
    pub(super) finished: bool,
    /// A callback or option wants the loop to stop.
    pub(super) stop: bool,
    pub(super) parse_errors: Vec<String>,
    pub(super) violations: Vec<String>,
    /// The leading run of read-only calls is still unbroken.
    pub(super) leading: bool,
    /// The call that waits for an answer about it.
    #[serde(default)]
    pub(super) admitting: Option<Box<Admitting>>,
    /// Calls that passed and run together with those behind them.
    #[serde(default)]
    pub(super) ready: Vec<ToolRun>,
    /// The handoff that ends the turn.
    #[serde(default)]
    pub(super) handoff: Option<Transfer>,
    /// Those run before anything else is looked at.
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
    /// What the first one says about it.
    pub message: Option<String>,
    /// The handoff, as a place in the option `handoffs`.
    pub at: usize,
}

impl Transfer {
    /// The dict of results and events.
    pub(super) fn to_json(&self) -> Json {
        json!({"from": self.from, "to": self.to, "message": self.message})
    }
}

/// Where a guardrail stopped a loop, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blocked {
    /// `input` or `output`.
    pub stage: String,
    /// The guardrail: the name of an agent, or its place in the option.
    pub guardrail: String,
    /// What it said.
    pub reason: String,
}

impl Blocked {
    /// The dict of results.
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

/// JSON that is kept for long and read once: its text, which takes a part of the room of a tree.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Packed {
    Text(Box<str>),
    /// With floats, whose last bit a text may lose.
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

/// A search of deferred tools, replayed to know what is promoted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct PastSearch {
    pub(super) id: String,
    pub(super) arguments: Json,
    pub(super) found: Vec<String>,
}

/// Messages that give way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Archive {
    /// The messages, oldest first.
    pub messages: Vec<Json>,
    /// Who writes the summary.
    pub engine: Engine,
}

/// A compaction under way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Compacting {
    pub(super) archive: Archive,
    /// Messages in front of the summary.
    pub(super) keep_first: usize,
    pub(super) mode: String,
    /// Whether it is the second pass, since the first one left too much.
    pub(super) second: bool,
    pub(super) tokens_before: i64,
    /// What comes next.
    pub(super) resume: Phase,
}

/// The skills of a running loop.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct SkillState {
    /// Ids, the best first.
    pub(super) active: Vec<String>,
    /// Ids that the model asked for; they stay.
    pub(super) loaded: Vec<String>,
    /// Whether the first pass is over.
    pub(super) matched: bool,
    /// What the host said about which skills fit; inside, nothing when it said nothing.
    #[serde(default)]
    pub(super) answered: Option<Option<Vec<Candidate>>>,
    /// Servers that are to be started or given back, and closures to be called behind that.
    #[serde(default)]
    pub(super) bindings: Vec<Binding>,
    #[serde(default)]
    pub(super) hooks: Vec<SkillHook>,
    /// Whether it was told that another strategy is used.
    #[serde(default)]
    pub(super) warned: bool,
    /// Whether they are to be read again.
    #[serde(default)]
    pub(super) stale: bool,
}

/// What a loop remembers of its rest.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Resting {
    /// Place in the list of waits.
    pub(super) backoff: usize,
    pub(super) attempts: u64,
    pub(super) waited_ms: u64,
    pub(super) changed_at: BTreeMap<String, f64>,
    /// Whether the files were looked at, so that a change can be told.
    pub(super) looked: bool,
    /// It goes on from a snapshot.
    pub(super) resumed: bool,
    /// Iterations of earlier processes: they do not count towards `max_iterations`.
    pub(super) earlier: u32,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct State {
    pub(super) phase: Phase,
    /// Whether hooks want to see calls before they run.
    #[serde(default)]
    pub(super) hooked: bool,
    /// The step that waits for its answer.
    pub(super) asked: Option<Step>,
    /// The call while a callback looks at its context.
    pub(super) composed: Option<ModelCall>,
    pub(super) turn: Turn,
    pub(super) status: Option<Status>,
    /// `max_iterations` ended the loop.
    #[serde(default)]
    pub(super) out_of_turns: bool,

    /// Why the last reply ended, in the provider's word.
    #[serde(default)]
    pub(super) stop_reason: Option<String>,

    /// The answer, once a final reply holds one.
    #[serde(default)]
    pub(super) data: Option<Json>,
    /// Why the loop has no answer.
    #[serde(default)]
    pub(super) failure: Option<String>,
    /// The guardrail that stopped the loop.
    #[serde(default)]
    pub(super) blocked: Option<Blocked>,
    /// Whether guardrails let the answer pass.
    #[serde(default)]
    pub(super) guarded: bool,
    /// The transfers of the conversation so far.
    #[serde(default)]
    pub(super) handoffs: Vec<Transfer>,
    /// How often the model was asked for a corrected answer.
    #[serde(default)]
    pub(super) corrections: u32,

    /// Everything that was said.
    pub(super) messages: Conversation,
    /// What the model sees of it, when older messages have given way; saved by `saved.rs`.
    #[serde(skip)]
    pub(super) seen: Option<Conversation>,
    /// What stands for them.
    pub(super) summary: Option<String>,
    /// The compaction that waits for its summary.
    pub(super) compacting: Option<Box<Compacting>>,
    /// Whether this turn has looked at the size of its request.
    pub(super) preflighted: bool,
    /// Bytes of the last system prompt.
    pub(super) system_bytes: i64,
    pub(super) notes: Vec<Note>,
    pub(super) queued: Vec<(String, String)>,
    /// How the next reply has to begin.
    #[serde(default)]
    pub(super) prefill: Option<String>,
    /// What people said while the loop ran.
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
    /// Whether the last `run` call succeeded, and what it gave.
    pub(super) verified: Option<(bool, String)>,
    pub(super) promoted: Vec<String>,
    pub(super) searches: Vec<PastSearch>,

    pub(super) skills: SkillState,
    pub(super) ledger: Option<Ledger>,
    /// How often the ledger has refused the sentinel.
    pub(super) ledger_refusals: u32,

    /// A transcript with the session's reminders.
    pub(super) reminders: Json,
    /// Those that the running turn has shown to the model.
    pub(super) shown: Vec<String>,
    /// What providers of reminders are still to be told.
    pub(super) moments: VecDeque<Moment>,
    /// The model has answered and the turn is not over.
    pub(super) in_turn: bool,
    /// Tokens of the last request and its reply, and how many messages those were.
    pub(super) counted: Option<(i64, usize)>,
    /// Pressure levels told last, in percent of the context window and of the token budget.
    pub(super) window_level: u64,
    pub(super) budget_level: u64,

    pub(super) counts: Counts,
    /// Of daemons.
    pub(super) resting: Resting,
}

/// Sums for the result.
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

/// Adds a name once.
pub(super) fn add_once(list: &mut Vec<String>, name: &str) {
    if !list.iter().any(|n| n == name) {
        list.push(name.to_owned());
    }
}
