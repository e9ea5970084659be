//! The options that a loop has in addition to those of its model calls.

use harn_llm::options::shape::{self, Shape, shown};
use harn_schema::options::{FromData, Options};
use harn_value::Data as Json;
use serde::{Deserialize, Serialize};

use crate::agents::{Handoff, is_agent};
use crate::compaction::{Compaction, CompactionOptions};
use crate::daemon::{DaemonConfig, DaemonOptions};
use crate::error::ConfigError;

/// The options of `agent_loop` that a single call ignores.
#[derive(Options)]
#[options(data)]
pub struct LoopOptions {
    /// Maximum number of turns.
    #[option(shown = "50", foreign = ["iterations", "maxSteps", "max_iters", "max_steps", "max_turns", "turns"])]
    pub(crate) max_iterations: Option<u32>,
    /// Whether the loop continues until the sentinel.
    #[option(shown = "false")]
    pub(crate) persistent: bool,
    /// The string that ends a persistent loop.
    #[option(shape = Shape::Text, default = harn_prompt::turn::DEFAULT_SENTINEL.to_owned(), shown = "\"##DONE##\"")]
    pub(crate) done_sentinel: String,
    /// Allowed number of turns in a row without a tool call. After one more, the loop ends with the status `stuck`.
    #[option(shown = "3")]
    pub(crate) max_nudges: Option<u32>,
    /// The message after a turn without a tool call. The default is built in.
    pub(crate) nudge: Option<String>,
    /// Accept the sentinel only if the last call of the tool `run` succeeded.
    #[option(shown = "false")]
    pub(crate) exit_when_verified: bool,
    /// End a persistent loop when a reply has a line `next_phase: X` and X is not this value.
    pub(crate) break_unless_phase: Option<String>,
    /// Maximum input and output tokens, checked after each turn.
    #[option(range = 1..)]
    pub(crate) token_budget: Option<i64>,
    /// End the loop after one of these tools succeeded.
    pub(crate) stop_after_successful_tools: Vec<String>,
    /// If none of these tools succeeded, the status is `failed`.
    pub(crate) require_successful_tools: Vec<String>,
    /// `require_action_or_yield`: a turn must call a tool or end the loop. `allow_done_sentinel`: nudges mention the sentinel. `max_prose_chars`: characters of prose that the history retains.
    pub(crate) turn_policy: Option<TurnPolicy>,
    /// A set of defaults: `tool_using`, `researcher` (30 turns), `verifier` (5), `completer` (1).
    #[option(ty = "string", default = Profile::TOOL_USING, shown = "\"tool_using\"", with = Profile::of)]
    pub(crate) profile: Profile,
    /// What the loop has to deliver: `{root_task, deliverables, rationale, observations}`.
    #[option(ty = "dict", dependent)]
    _task_ledger: (),
    /// What the loop has to deliver, as strings or dicts.
    #[option(ty = "list", dependent)]
    _deliverables: (),
    /// The task that the deliverables belong to.
    #[option(ty = "string")]
    _root_task: (),
    /// Closures and agents that can stop the loop at its input.
    #[option(ty = "list", with = |value| guardrails("input_guardrails", value))]
    pub(crate) input_guardrails: bool,
    /// Closures and agents that can stop the loop at its answer.
    #[option(ty = "list", with = |value| guardrails("output_guardrails", value))]
    pub(crate) output_guardrails: bool,
    /// The name of the agent, in events and in `last_agent`. With `handoffs`, `agent` by default.
    #[option(shape = Shape::Text)]
    pub(crate) name: Option<String>,
    /// Agents to which the model can transfer the conversation.
    #[option(ty = "list", with = Handoff::from_option)]
    pub(crate) handoffs: Vec<Handoff>,
    /// Maximum number of transfers.
    #[option(default = 10)]
    pub(crate) max_handoffs: u32,
    /// Retries of a failed tool call.
    #[option(default = 0)]
    pub(crate) tool_retries: u32,
    /// The first pause between them, in milliseconds.
    #[option(default = 1000)]
    pub(crate) tool_backoff_ms: u64,
    /// Bugs in a handler, such as an unknown variable: `"report"` prints them on standard error, `"raise"` ends the loop, `"silent"` sends them only to the model.
    #[option(default = ToolErrors::Report, shown = "\"report\"")]
    pub(crate) tool_errors: ToolErrors,
    /// Maximum length of a tool result. Harn cuts the middle out of longer results.
    #[option(range = 1.., default = 16_000, shown = "16000")]
    pub(crate) tool_output_max_chars: usize,
    /// Example calls in the prompt, for tools in text format.
    #[option(ty = "string", shape = Shape::Str)]
    _tool_examples: (),
    /// Calls that the model writes as text although the loop uses native tool calls: `"allow"` runs them, `"allow_once"` runs only those of the first such reply, `"reject"` rejects them.
    #[option(ty = "string", default = Fallback::Allow, shown = "\"allow\"", with = Fallback::of)]
    pub(crate) native_tool_fallback: Fallback,
    /// The number of repeated calls after which a call gets a warning; 0 turns detection off.
    #[option(default = 2)]
    pub(crate) loop_detect_warn: u32,
    /// The number of repeated calls after which a call is blocked.
    #[option(default = 3)]
    pub(crate) loop_detect_block: u32,
    /// The number of repeated calls after which a call is skipped.
    #[option(default = 4)]
    pub(crate) loop_detect_skip: u32,
    /// MCP servers that run while the loop runs.
    #[option(ty = "list", with = |value| crate::mcp::servers(Some(value)).map(drop))]
    _mcp_servers: (),
    /// Which tool calls need an approval.
    #[option(ty = "dict")]
    _approval_policy: (),
    /// Which tool calls are allowed.
    #[option(ty = "dict")]
    _permissions: (),
    /// Rules for commands.
    #[option(ty = "dict")]
    _command_policy: (),
    /// Changes the messages and the system prompt of each turn.
    #[option(ty = "function", with = |value| callback("context_callback", value))]
    pub(crate) context_callback: bool,
    /// Another name of `context_callback`.
    #[option(ty = "function", with = |value| callback("context_filter", value))]
    pub(crate) context_filter: bool,
    /// Called after each turn with tool calls; can send a message or end the loop.
    #[option(ty = "function", with = |value| callback("post_turn_callback", value), foreign = ["callbacks", "stop_when"])]
    pub(crate) post_turn_callback: bool,
    /// Makes the model calls; by default a plain call.
    #[option(ty = "function", with = |value| callback("llm_caller", value))]
    _llm_caller: bool,
    /// Text appended to the system prompt in each turn, or a closure that returns it.
    pub(crate) recitation: Recitation,
    /// Name of the tool with which the model reports progress. If the loop offers it, the prompt asks the model to call it after each finished step.
    #[option(ty = "string", shape = Shape::Str, dependent)]
    _progress_tool: (),
    /// Which reminders the model receives.
    #[option(ty = "bool | dict", shown = "true")]
    _reminders: (),
    /// Skills of the loop.
    #[option(ty = "dict | list", dependent)]
    _skills: (),
    /// Whether the prompt lists the skills.
    #[option(ty = "bool", shape = Shape::Bool, shown = "true")]
    _skill_catalog: (),
    /// How Harn selects skills: `{strategy, top_n, sticky}`.
    #[option(ty = "dict", shown = "{top_n: 1, sticky: true}", dependent)]
    _skill_match: (),
    /// Paths of the files that the loop works on, to select skills.
    #[option(ty = "list | string", dependent)]
    _working_files: (),
    #[option(group = CompactionOptions, with = Compaction::new)]
    pub(crate) compaction: Compaction,
    #[option(group = DaemonOptions, with = DaemonConfig::new)]
    pub(crate) daemon: Option<DaemonConfig>,
}

/// How calls written as text are handled in native mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fallback {
    /// They are executed.
    Allow,
    /// Only those of the first such turn are executed.
    AllowOnce,
    /// They are rejected.
    Reject,
}

impl Fallback {
    /// Returns the value of the option.
    pub fn as_str(self) -> &'static str {
        match self {
            Fallback::Allow => "allow",
            Fallback::AllowOnce => "allow_once",
            Fallback::Reject => "reject",
        }
    }
}

/// How runtime errors inside a tool handler are handled, as opposed to errors that the program throws itself. The model
/// receives them in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToolErrors {
    /// Each place is reported once on standard error.
    Report,
    /// They end the loop.
    Raise,
    /// They are not reported anywhere else.
    Silent,
}

/// `turn_policy`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnPolicy {
    /// A turn must act or end the loop.
    pub require_action: bool,
    /// Nudges may mention the sentinel.
    pub allow_sentinel: bool,
    /// Maximum length of prose; longer prose is truncated.
    pub max_prose_chars: Option<usize>,
}

/// Source of the message at the end of the system prompt.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Recitation {
    /// No message.
    #[default]
    None,
    /// The value of the option.
    Text(String),
    /// A callback returns the message each turn.
    Callback,
}

/// The defaults of a profile.
pub(crate) struct Profile {
    pub(crate) iterations: u32,
    pub(crate) nudges: u32,
    pub(crate) schema_retries: u32,
}

impl Profile {
    const TOOL_USING: Profile = Profile { iterations: 50, nudges: 3, schema_retries: 1 };

    fn of(value: &Json) -> Result<Profile, ConfigError> {
        let (iterations, nudges, schema_retries) = match value.printed().as_str() {
            "tool_using" => return Ok(Profile::TOOL_USING),
            "researcher" => (30, 4, 1),
            "verifier" => (5, 0, 3),
            "completer" => (1, 0, 1),
            word => {
                return Err(ConfigError(format!(
                    "agent_loop: profile must be one of tool_using, researcher, verifier, completer; got `{word}`"
                )));
            }
        };
        Ok(Profile { iterations, nudges, schema_retries })
    }
}

impl Fallback {
    fn of(value: &Json) -> Result<Fallback, ConfigError> {
        match value.printed().as_str() {
            "allow" => Ok(Fallback::Allow),
            "allow_once" => Ok(Fallback::AllowOnce),
            "reject" => Ok(Fallback::Reject),
            word => Err(ConfigError(format!(
                "agent_loop: native_tool_fallback must be one of allow, allow_once, reject; got `{word}`"
            ))),
        }
    }
}

impl FromData for ToolErrors {
    const TYPE: &'static str = "string";
    const SHAPE: Shape = Shape::Word(&["report", "raise", "silent"]);

    fn from_data(value: &Json) -> Option<ToolErrors> {
        Some(match value.as_str()? {
            "raise" => ToolErrors::Raise,
            "silent" => ToolErrors::Silent,
            _ => ToolErrors::Report,
        })
    }
}

impl FromData for TurnPolicy {
    const TYPE: &'static str = "dict";
    const SHAPE: Shape = shape::TURN_POLICY;

    fn from_data(value: &Json) -> Option<TurnPolicy> {
        Some(TurnPolicy {
            require_action: value["require_action_or_yield"] == Json::Bool(true),
            allow_sentinel: value["allow_done_sentinel"] != Json::Bool(false),
            max_prose_chars: usize::from_data(&value["max_prose_chars"]),
        })
    }
}

impl FromData for Recitation {
    const TYPE: &'static str = "string | function";
    const SHAPE: Shape = Shape::Either(&[Shape::Str, Shape::Closure]);

    fn from_data(value: &Json) -> Option<Recitation> {
        Some(match value.as_opaque() {
            Some(_) => Recitation::Callback,
            None => Recitation::Text(value.printed()),
        })
    }
}

fn callback(name: &str, value: &Json) -> Result<bool, ConfigError> {
    match value.as_opaque() {
        Some(_) => Ok(true),
        None => Err(ConfigError(format!("{name} must be a closure"))),
    }
}

/// Returns whether the option has guardrails.
///
/// # Errors
/// The option is not a list of closures and agents.
fn guardrails(name: &str, value: &Json) -> Result<bool, ConfigError> {
    let wrong =
        |what: String, value: &Json| Err(ConfigError(format!("agent_loop: {what}, got {}", shown(value))));
    let Some(list) = value.as_array() else {
        return wrong(format!("{name} must be a list of closures and agents"), value); // prose-ok: diagnostic
    };
    let fits = |value: &Json| value.as_opaque().is_some() || is_agent(value);
    match list.iter().enumerate().find(|(_, value)| !fits(value)) {
        Some((at, value)) => wrong(format!("{name}[{at}] must be a closure or an agent"), value),
        None => Ok(!list.is_empty()),
    }
}
