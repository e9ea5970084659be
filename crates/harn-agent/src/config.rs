//! The options of `agent_loop`, parsed once.

use std::collections::BTreeSet;

use harn_llm::Conversation;
use harn_llm::options::shape::Shape;
use harn_llm::options::{CallOptions, OutputFormat};
use harn_prompt::prose::agent_asset;
use harn_prompt::{Prose, ProseError};
use harn_schema::options::{DataOptions, FromData};
use harn_schema::shape::check_fields;
use harn_value::{Data as Json, data::Map, json};
use serde::{Deserialize, Serialize};

use crate::agents::Handoff;
use crate::compaction::Compaction;
use crate::daemon::DaemonConfig;
use crate::detect::Limits;
use crate::error::ConfigError;
use crate::ledger::{LEDGER, Ledger};
use crate::loop_options::LoopOptions;
pub use crate::loop_options::{Fallback, Recitation, ToolErrors, TurnPolicy};
use crate::loop_skill::{LOAD_SKILL, LoopSkills};
use crate::policy::Policy;
use crate::tool::{Annotations, Backend, LoopTool, LoopTools};

/// Returns whether an option exists only for agent loops; it is not passed to calls.
pub(crate) fn is_of_loops(key: &str) -> bool {
    LoopOptions::FIELDS.iter().any(|field| field.name == key)
}

/// How tool calls are encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// In the provider's native format.
    Native,
    /// As tags in the reply text.
    Text,
}

impl Format {
    /// Returns the name in options and results.
    pub fn as_str(self) -> &'static str {
        match self {
            Format::Native => "native",
            Format::Text => "text",
        }
    }
}

/// The configuration of a loop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoopConfig {
    /// The task.
    pub prompt: String,
    /// The name of the agent; agents that are targets of handoffs and their loops always have one.
    #[serde(default)]
    pub name: Option<String>,
    /// The caller's system prompt.
    pub system: Option<String>,
    /// The option dict without tools and history; closures are opaque values.
    pub options: Map<String, Json>,
    /// Whether the loop continues until the model writes the sentinel.
    pub persistent: bool,
    /// Maximum number of model calls.
    pub max_iterations: u32,
    /// Maximum number of consecutive text-only turns.
    pub max_nudges: u32,
    /// Custom content of nudges.
    pub nudge: Option<String>,
    /// The string that ends a persistent loop.
    pub sentinel: String,
    /// How tool calls are encoded.
    pub format: Format,
    /// How calls written as text are handled in native mode.
    pub fallback: Fallback,
    /// Whether the final reply must conform to a schema.
    #[serde(default)]
    pub structured: bool,
    /// Whether `output_validator` checks the answer.
    #[serde(default)]
    pub validates: bool,
    /// Whether `output_guardrails` check the answer.
    #[serde(default)]
    pub guards_output: bool,
    /// Agents to which the model can transfer the conversation.
    #[serde(default)]
    pub handoffs: Vec<Handoff>,
    /// Maximum number of transfers.
    #[serde(default)]
    pub max_handoffs: u32,
    /// The tools.
    pub tools: LoopTools,
    /// Maximum number of retries after a failed execution.
    pub tool_retries: u32,
    /// Base of the retry backoff in milliseconds.
    pub tool_backoff_ms: u64,
    /// Limits of loop detection.
    pub limits: Limits,
    /// The policy for tool calls.
    pub policy: Policy,
    /// Requirements for turns.
    pub turn_policy: TurnPolicy,
    /// The loop ends after a successful call of one of these tools.
    pub stop_after: Vec<String>,
    /// The loop fails without a successful call of one of these tools.
    pub require: Vec<String>,
    /// A persistent loop also ends in any phase other than this one.
    pub break_unless_phase: Option<String>,
    /// Whether the sentinel is only accepted after a successful `run`.
    pub exit_when_verified: bool,
    /// Input plus output tokens after which the loop ends.
    pub token_budget: Option<i64>,
    /// Name of the session.
    pub session_id: Option<String>,
    /// Whether `context_callback` is set.
    pub shapes_context: bool,
    /// Whether `post_turn_callback` is set.
    pub reviews_turns: bool,
    /// How errors in handlers are handled.
    pub tool_errors: ToolErrors,
    /// The message at the end of the system prompt.
    pub recitation: Recitation,
    /// Maximum length of tool output; longer output is truncated.
    pub output_max_chars: usize,
    /// Messages before the task, from `messages` or a transcript. The loop moves them into its state.
    pub history: Conversation,
    /// How deferred tools are found, if the client does the search.
    pub search: Option<Search>,
    /// Events for which reminder providers are registered.
    pub remind_at: BTreeSet<String>,
    /// The compaction settings.
    pub compaction: Compaction,
    /// The deliverables.
    pub ledger: Option<Ledger>,
    /// The skills, and how they are selected.
    pub skills: LoopSkills,
    /// The daemon settings, if the loop is a daemon.
    pub daemon: Option<DaemonConfig>,
    /// The model's context window in tokens, if known.
    pub context_window: Option<u64>,
    /// Kinds of media that the model accepts.
    #[serde(default)]
    pub media: Media,
}

/// Kinds of media that a model accepts in tool results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Media {
    /// Images.
    pub images: bool,
    /// Documents, such as PDF files.
    pub documents: bool,
}

impl Default for Media {
    fn default() -> Media {
        Media { images: true, documents: true }
    }
}

impl Media {
    /// Returns whether a block of a tool result may be sent.
    pub fn accepts(self, block: &Json) -> bool {
        if block["type"] == "image" { self.images } else { self.documents }
    }
}

/// The client's side of `tool_search`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Search {
    /// The synthetic tool as the model sees it.
    pub tool: Json,
    /// Its name.
    pub name: String,
}

impl LoopConfig {
    /// Reads the options. `default_format` is the model's default format for tool calls.
    ///
    /// # Errors
    /// An option is invalid, or a tool has no backend.
    pub fn new(
        prompt: &str,
        system: Option<&str>,
        mut options: Map<String, Json>,
        default_format: Format,
    ) -> Result<LoopConfig, ConfigError> {
        let of_calls =
            CallOptions::FIELDS.iter().filter(|field| ["session_id", "tool_format"].contains(&field.name));
        let fields = LoopOptions::FIELDS.iter().chain(of_calls).map(|field| (field.name, field.shape));
        check_fields(fields, &options).map_err(|e| ConfigError(format!("agent_loop: {e}")))?;
        crate::neighbours::reject_misplaced(&options)?;
        Shape::Text
            .check("session_id", options.get("session_id").unwrap_or(&Json::Null))
            .map_err(|e| ConfigError(format!("agent_loop: {e}")))?;
        let given = LoopOptions::read(&options).map_err(ConfigError)?;
        let format = match text(&options, "tool_format").as_deref() {
            Some("native") => Format::Native,
            Some("text") => Format::Text,
            _ => default_format,
        };
        for (key, default) in
            [("llm_retries", 2), ("llm_backoff_ms", 2000), ("schema_retries", given.profile.schema_retries)]
        {
            options.entry(key).or_insert_with(|| default.into());
        }
        let output = OutputFormat::from_options(&options).ok();
        let policy = Policy::from_options(&options).map_err(ConfigError)?;
        let guards = given.input_guardrails || given.output_guardrails;
        let alone = [("handoffs", !given.handoffs.is_empty()), ("guardrails", guards)];
        if let Some((what, _)) = alone.iter().find(|(_, is_given)| *is_given && given.daemon.is_some()) {
            return Err(ConfigError(format!("agent_loop: a daemon cannot have {what}")));
        }
        let mut tools = tools(options.shift_remove("tools").as_ref(), &policy)?;
        policy.check_arguments(&tools).map_err(ConfigError)?;
        let pinned = CallOptions::from_json(&harn_value::json!({"tool_search": options.get("tool_search")}))
            .map_err(|e| ConfigError(e.to_string()))?;
        // Without a search, no deferred tool would ever be loaded. Tools in `always_loaded` are not deferred.
        let eager = |tool: &LoopTool| {
            pinned.tool_search.as_ref().is_none_or(|search| search.always_loaded.contains(&tool.name))
        };
        tools.iter_mut().filter(|tool| eager(tool)).for_each(LoopTool::load);
        let tools = LoopTools::new(tools);
        Ok(LoopConfig {
            prompt: prompt.to_owned(),
            name: given.name.or_else(|| (!given.handoffs.is_empty()).then(|| "agent".to_owned())),
            guards_output: given.output_guardrails,
            max_handoffs: given.max_handoffs,
            handoffs: given.handoffs,
            system: system.filter(|s| !s.trim().is_empty()).map(str::to_owned),
            persistent: given.persistent,
            max_iterations: given.max_iterations.unwrap_or(given.profile.iterations),
            max_nudges: given.max_nudges.unwrap_or(given.profile.nudges),
            nudge: given.nudge,
            sentinel: given.done_sentinel,
            format,
            fallback: given.native_tool_fallback,
            structured: output.as_ref().is_some_and(OutputFormat::is_structured),
            validates: output.is_some_and(|output| output.validator.is_some()),
            tools,
            tool_retries: given.tool_retries,
            tool_backoff_ms: given.tool_backoff_ms,
            limits: Limits {
                warn: given.loop_detect_warn,
                block: given.loop_detect_block,
                skip: given.loop_detect_skip,
            },
            policy,
            turn_policy: given
                .turn_policy
                .unwrap_or_else(|| TurnPolicy { allow_sentinel: true, ..TurnPolicy::default() }),
            stop_after: given.stop_after_successful_tools,
            require: given.require_successful_tools,
            break_unless_phase: given.break_unless_phase,
            exit_when_verified: given.exit_when_verified,
            token_budget: given.token_budget,
            session_id: text(&options, "session_id"),
            shapes_context: given.context_callback || given.context_filter,
            reviews_turns: given.post_turn_callback,
            tool_errors: given.tool_errors,
            recitation: given.recitation,
            output_max_chars: given.tool_output_max_chars,
            history: history(&mut options)?,
            search: None,
            remind_at: BTreeSet::new(),
            skills: LoopSkills::from_options(&options)?,
            compaction: given.compaction,
            ledger: Ledger::from_options(&options)?,
            context_window: None,
            media: Media::default(),
            daemon: given.daemon,
            options,
        })
    }

    /// Adds a runtime tool that the model may call in this loop, unless a tool with this name exists.
    fn offer(
        &mut self,
        name: &str,
        asset: &str,
        parameters: Json,
        prose: &dyn Prose,
    ) -> Result<bool, ProseError> {
        if self.tool(name).is_some() {
            return Ok(false);
        }
        let description = prose.render(&agent_asset(asset), &Map::new())?;
        let entry = json!({"name": name, "description": description.trim(), "parameters": parameters});
        let mut tools = self.tools.to_vec();
        tools.push(LoopTool {
            name: name.to_owned(),
            entry,
            backend: Backend::Runtime,
            annotations: Annotations::default(),
            required: Vec::new(),
            deferred: false,
            is_of_runtime: false,
        });
        self.tools = LoopTools::new(tools);
        Ok(true)
    }

    /// Replaces a server's tools with new entries.
    pub(crate) fn replace_tools(&mut self, server: &str, entries: &[Json]) -> Result<(), ConfigError> {
        let is_own = |tool: &LoopTool| tool.entry["_mcp_server"] == server;
        let at = self.tools.iter().position(is_own).unwrap_or(self.tools.len());
        let mut tools: Vec<LoopTool> = self.tools.iter().filter(|tool| !is_own(tool)).cloned().collect();
        for (n, entry) in entries.iter().enumerate() {
            let mut tool = LoopTool::from_entry(entry, false, &self.policy.annotations)?;
            if tools.iter().any(|known| known.name == tool.name) {
                return Err(ConfigError(format!("duplicate tool name `{}`", tool.name)));
            }
            tool.load();
            tools.insert((at + n).min(tools.len()), tool);
        }
        self.policy.check_arguments(&tools).map_err(ConfigError)?;
        self.tools = LoopTools::new(tools);
        Ok(())
    }

    /// Adds the tools with which the model transfers the conversation to other agents.
    ///
    /// # Errors
    /// A tool has the same name as a handoff, or an asset does not render.
    pub fn offer_handoffs(&mut self, prose: &dyn Prose) -> Result<(), ConfigError> {
        if self.handoffs.is_empty() {
            return Ok(());
        }
        let mut tools = self.tools.to_vec();
        for handoff in &self.handoffs {
            if self.tool(&handoff.tool).is_some() {
                let text = format!("agent_loop: handoffs: there is a tool '{}'; set `name`", handoff.tool);
                return Err(ConfigError(text));
            }
            let bindings = json!({"agent": handoff.agent, "description": handoff.description});
            let bindings = bindings.as_object().cloned().unwrap_or_default();
            let description = prose.render(&agent_asset("handoff_description"), &bindings);
            let description = description.map_err(|error| ConfigError(error.to_string()))?;
            tools.push(LoopTool {
                name: handoff.tool.clone(),
                entry: handoff.entry(description.trim()),
                backend: Backend::Handoff,
                annotations: Annotations { side_effect_level: "none".to_owned(), ..Annotations::default() },
                required: Vec::new(),
                deferred: false,
                is_of_runtime: false,
            });
        }
        self.tools = LoopTools::new(tools);
        Ok(())
    }

    /// Adds the tool with which the model updates the ledger, if the loop has a ledger.
    ///
    /// # Errors
    /// The asset that describes the tool does not render.
    pub fn offer_ledger(&mut self, prose: &dyn Prose) -> Result<(), ProseError> {
        if self.ledger.is_none() {
            return Ok(());
        }
        let optional = |kind: &str| json!({"type": kind, "required": false});
        let parameters = json!({
            "action": {"type": "string", "enum": ["add", "mark", "rationale", "note", "seed_plan"]},
            "text": optional("string"), "id": optional("string"),
            "status": {"type": "string", "enum": ["open", "done", "blocked", "dropped"], "required": false},
            "note": optional("string"),
            "items": {"type": "array", "items": {"type": "string"}, "required": false},
        });
        self.offer(LEDGER, "ledger_description", parameters, prose).map(drop)
    }

    /// Adds the tool with which the model loads skills, if there are skills and no tool has this name.
    ///
    /// # Errors
    /// The asset that describes the tool does not render.
    pub fn offer_skills(&mut self, prose: &dyn Prose) -> Result<(), ProseError> {
        if self.skills.list.iter().any(|skill| skill.for_models) {
            let signature = json!({"type": "boolean", "required": false});
            let parameters = json!({"name": "string", "require_signature": signature});
            self.skills.loadable = self.offer(LOAD_SKILL, "load_skill_description", parameters, prose)?;
        }
        Ok(())
    }

    /// Returns the tool with this name.
    pub fn tool(&self, name: &str) -> Option<&LoopTool> {
        self.tools.iter().find(|t| t.name == name)
    }
}

fn text(options: &Map<String, Json>, key: &str) -> Option<String> {
    options.get(key).filter(|value| !value.is_null()).and_then(String::from_data)
}

/// Moves the history out of the options. A transcript retains its other fields, without the events of its messages.
fn history(options: &mut Map<String, Json>) -> Result<Conversation, ConfigError> {
    let mut out = Conversation::new();
    let mut take = |list: Option<Json>| -> Result<(), ConfigError> {
        let Some(Json::Array(list)) = list else { return Ok(()) };
        let dicts = list.into_iter().filter(Json::is_object);
        dicts.into_iter().try_for_each(|m| out.push_json(m)).map_err(|e| ConfigError(e.0))
    };
    if let Some(transcript @ Json::Object(_)) = options.get_mut("transcript") {
        let events = harn_llm::transcript::extra_events(transcript);
        if let Some(map) = transcript.as_object_mut() {
            take(map.insert("messages".to_owned(), Json::Array(Vec::new())))?;
            map.insert("events".to_owned(), events.into());
        }
    }
    take(options.shift_remove("messages"))?;
    Ok(out)
}

fn tools(value: Option<&Json>, policy: &Policy) -> Result<Vec<LoopTool>, ConfigError> {
    let (entries, from_registry) = match value {
        None | Some(Json::Null) => return Ok(Vec::new()),
        Some(Json::Array(list)) => (list.as_slice(), false),
        Some(registry) if registry.get("tools").is_some_and(Json::is_array) => {
            (harn_llm::json::list_at(registry, "tools"), true)
        }
        Some(_) => {
            return Err(ConfigError(
                "tools must be a tool_registry or a list of tool definition dicts".to_owned(),
            ));
        }
    };
    let read = |entry| LoopTool::from_entry(entry, from_registry, &policy.annotations);
    entries.iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use harn_value::json;

    fn read(options: Json) -> Result<LoopConfig, ConfigError> {
        LoopConfig::new("task", None, options.as_object().cloned().unwrap(), Format::Text)
    }

    #[test]
    fn options_are_found() {
        assert!(is_of_loops("max_iterations") && is_of_loops("watch_paths") && is_of_loops("compaction"));
        assert!(!is_of_loops("model"));
    }

    #[test]
    fn profiles_are_defaults_under_the_options() {
        let config = read(json!({"profile": "verifier", "max_nudges": 2})).unwrap();
        assert_eq!((config.max_iterations, config.max_nudges), (5, 2));
        assert_eq!(config.options["schema_retries"], 3);
        assert_eq!(read(json!({})).unwrap().max_iterations, 50);
    }

    #[test]
    fn wrong_options_are_named() {
        let error = |o: Json| read(o).unwrap_err().0;
        assert_eq!(
            error(json!({"profile": "x"})),
            "agent_loop: profile must be one of tool_using, researcher, verifier, completer; got `x`"
        );
        assert_eq!(
            error(json!({"native_tool_fallback": "no"})),
            "agent_loop: native_tool_fallback must be one of allow, allow_once, reject; got `no`"
        );
        assert_eq!(error(json!({"context_callback": "x"})), "context_callback must be a closure");
        assert_eq!(error(json!({"llm_caller": "x"})), "llm_caller must be a closure");
        assert_eq!(error(json!({"policy": "x"})), "agent_loop: policy must be a dict");
        assert_eq!(
            error(json!({"turn_policy": {"max_prose_char": 5}})),
            "agent_loop: turn_policy has no field `max_prose_char`; did you mean `max_prose_chars`?"
        );
        assert_eq!(
            error(json!({"max_iterations": "ten"})),
            "agent_loop: max_iterations must be an int of at least 0, got string `ten`"
        );
        for (word, meant) in [
            ("allowed_tools", "policy.tools"),
            ("capability_policy", "policy"),
            ("deny", "permissions.deny"),
            ("permission", "permissions"),
        ] {
            let options = Json::Object(Map::from_iter([(word.to_owned(), json!([]))]));
            assert_eq!(
                error(options),
                format!("agent_loop: unknown option `{word}`, did you mean `{meant}`?")
            );
        }
        assert_eq!(
            error(json!({"profile": ""})),
            "agent_loop: profile must be one of tool_using, researcher, verifier, completer; got ``"
        );
        for key in ["done_sentinel", "session_id"] {
            for blank in ["", "  "] {
                let options = Json::Object(Map::from_iter([(key.to_owned(), blank.into())]));
                let told = error(options);
                assert!(
                    told.starts_with(&format!("agent_loop: {key} must be a string that is not blank")),
                    "{told}"
                );
            }
        }
        assert_eq!(
            error(json!({"tool_errors": "loud"})),
            "agent_loop: tool_errors must be one of report, raise, silent, got string `loud`"
        );
        assert_eq!(
            error(json!({"compaction": 3})),
            "agent_loop: compaction must be a string, dict, bool, or nil"
        );
        assert!(
            error(json!({"compaction": "zip"}))
                .starts_with("agent_loop: unknown compaction strategy 'zip' (")
        );
        assert_eq!(
            error(json!({"tools": 3})),
            "tools must be a tool_registry or a list of tool definition dicts"
        );
    }

    #[test]
    fn every_tool_needs_a_backend() {
        let error = |tool: Json| read(json!({"tools": [tool]})).unwrap_err().0;
        assert!(error(json!({"name": "t"})).starts_with("agent_loop: tool 't' has no executable backend — "));
        assert!(error(json!({"name": "t", "executor": "harn"})).contains("has no callable handler"));
        assert!(error(json!({"name": "t", "executor": "x"})).contains("unknown executor \"x\""));
        assert!(read(json!({"tools": [{"name": "t", "handler": null}, {"name": "read_file"}]})).is_ok());
    }
}
