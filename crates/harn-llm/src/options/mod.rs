//! The option dict of a call: every key read once, checked, and turned into plain fields.
//!
//! A wrong value is an error that names the option. The dict itself stays available as [`CallOptions::raw`], because prompt
//! assembly and provider overrides read more.

mod budget;
mod output;
pub(crate) mod route_policy;
mod sampling;
pub mod shape;
mod thinking;
mod tool_search;

pub use budget::Budget;
pub use harn_schema::nearest;
pub use harn_schema::options::{DataOptions, OptionField, check_options};
pub use output::{Nudge, OutputFormat, OutputKind, VALIDATOR, Validation};
pub(crate) use route_policy::RoutePolicy;
pub use sampling::Sampling;
pub(crate) use shape::ROLES;
pub use shape::{Shape, ShapeError};
pub use thinking::{Effort, Thinking};
pub use tool_search::{SearchMode, SearchStrategy, SearchVariant, ToolSearch};

use std::rc::Rc;
use std::time::Duration;

use budget::BudgetOptions;
use harn_schema::options::{FromData, Options};
use harn_value::Data as Value;
use output::OutputOptions;
use shape::{EXPERIMENT, FLAGS, MESSAGE, REPEATS, SWITCH};
use thinking::ThinkingOptions;

use crate::error::OptionError;
use crate::json::{Object, display, list_at, str_at, truthy};
use crate::secret::Secret;
use crate::tools::{ToolChoice, ToolSet};

/// Default of `max_tokens`.
pub(crate) const DEFAULT_MAX_TOKENS: i64 = 16384;

/// How tools are offered to the model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ToolFormat {
    /// Schemas travel in the request.
    Native,
    /// Tools are described in the system text and called in tags.
    Text,
    /// Whatever the route does best.
    #[default]
    Auto,
}

/// The variable that names the tool format of calls and loops whose options name none.
pub const TOOL_FORMAT: &str = "HARN_AGENT_TOOL_FORMAT";

impl ToolFormat {
    /// Reads the word of [`TOOL_FORMAT`].
    ///
    /// # Errors
    /// There is no such format.
    pub fn of_environment(word: &str) -> Result<ToolFormat, OptionError> {
        match word {
            "native" => Ok(ToolFormat::Native),
            "text" => Ok(ToolFormat::Text),
            "" | "auto" => Ok(ToolFormat::Auto),
            _ => Err(OptionError::new(format!("{TOOL_FORMAT} must be native, text or auto, got `{word}`"))),
        }
    }
}

/// All options of a call.
#[derive(Debug, Clone, Options)]
#[options(data)]
pub struct CallOptions {
    /// The dict as given, without the key: logs and prompts are made from it.
    #[option(skip)]
    pub raw: Rc<Value>,
    /// The provider. The default comes from the model's name, the environment or `harn.toml`.
    #[option(shape = Shape::Any, ty = "text")]
    pub provider: Option<String>,
    /// Whether `provider` was `auto`.
    #[option(skip)]
    pub provider_auto: bool,
    /// A model ID, an alias, or `PROVIDER:MODEL`. The default is that of the provider.
    #[option(shape = Shape::Any, ty = "text")]
    pub model: Option<String>,
    /// `small`, `mid`, `frontier` or an alias; the project maps it to a model.
    pub model_tier: Option<String>,
    /// Chooses the model by price or speed.
    #[option(ty = "string | dict | bool", with = route_policy::parse)]
    pub(crate) route_policy: Option<RoutePolicy>,
    /// Providers, or `PROVIDER:MODEL`, to try in order after a failure.
    #[option(ty = "string | list<string>", shape = Shape::Either(&[Shape::Str, Shape::List(&Shape::Str)]), with = fallback_chain)]
    pub fallback_chain: Vec<String>,
    /// Another address of the provider.
    #[option(shape = Shape::Any, ty = "text", foreign = ["baseURL"])]
    pub base_url: Option<String>,
    /// A key for this call and its provider. It is never sent to a fallback and never stored.
    #[option(shape = Shape::Text, ty = "string", with = secret)]
    pub api_key: Option<Secret>,
    /// `"responses"`: OpenAI's Responses API. Other providers ignore it, with a warning.
    #[option(default = "chat".to_owned(), shown = "\"chat\"", one_of = ["responses", "chat"])]
    pub api_mode: String,
    /// The system prompt, if the second argument is nil.
    #[option(shape = Shape::Any, ty = "text", foreign = ["instructions", "systemPrompt", "system_message", "system_prompt"])]
    pub system: Option<String>,
    /// A whole conversation instead of the prompt: `{role: "user", content: "..."}`. The default `role` is `user`.
    #[option(ty = "list<dict>", shape = Shape::List(&MESSAGE), dependent, foreign = ["input"])]
    pub messages: Option<Vec<Value>>,
    /// The transcript of an earlier call, to continue it.
    #[option(ty = "dict", with = transcript, dependent)]
    pub transcript: Option<Value>,
    /// The first words of the reply; the model continues them.
    #[option(dependent)]
    pub prefill: Option<String>,
    /// Whether the model must accept images. The default depends on the messages.
    #[option(dependent)]
    pub vision: Option<bool>,
    /// Whether the model must accept audio.
    #[option(dependent)]
    pub audio: bool,
    /// Whether the model must accept PDF files.
    #[option(dependent)]
    pub pdf: bool,
    #[option(flatten)]
    _prompt: PromptOptions,
    /// Changes the messages before they are sent.
    #[option(ty = "bool | string | dict | function", shape = EXPERIMENT, nil, dependent)]
    pub(crate) structural_experiment: Option<Value>,
    /// Maximum tokens of the reply, at most the model's limit; 0 leaves the limit to the provider.
    #[option(range = 0.., shown = "16384", foreign = ["maxTokens", "max_completion_tokens"])]
    pub max_tokens: Option<i64>,
    /// How tokens are drawn.
    #[option(flatten)]
    pub sampling: Sampling,
    /// `thinking` and `reasoning_effort`.
    #[option(group = ThinkingOptions, with = thinking::parse)]
    pub thinking: Thinking,
    /// Whether `reasoning_effort` was given.
    #[option(skip)]
    pub reasoning_effort_given: bool,
    /// Anthropic: reasoning between tool calls.
    pub interleaved_thinking: bool,
    /// Anthropic: names of beta features.
    #[option(name = "anthropic_beta_features", ty = "list<string> | string", with = beta_features)]
    pub beta_features: Vec<String>,
    /// Asks the provider to cache the prompt. Has no effect for providers that always cache.
    pub cache: bool,
    /// Accepted, but has no effect.
    pub user_visible: bool,
    /// What shape the reply shall have.
    #[option(group = OutputOptions, with = OutputFormat::new)]
    pub output: OutputFormat,
    /// The tools that the model may call.
    #[option(ty = "dict | list", with = ToolSet::from_json, dependent, foreign = ["functions"])]
    pub tools: ToolSet,
    /// `"none"`, `"required"`, or `{name: "t"}` for one tool.
    #[option(ty = "string | dict", shown = "\"auto\"", with = ToolChoice::parse, dependent)]
    pub tool_choice: Option<ToolChoice>,
    /// How tools are offered to the model; `"auto"`: as the route does it best.
    #[option(shown = "\"auto\"")]
    pub tool_format: ToolFormat,
    /// The model searches for tools marked `defer_loading`.
    #[option(ty = "bool | string | dict", with = tool_search::parse, dependent)]
    pub tool_search: Option<ToolSearch>,
    /// In a loop, limits. In a single call, it limits nothing; `policy.tools` selects the tools whose guidance the prompt includes.
    #[option(ty = "dict", shape = shape::POLICY)]
    _policy: (),
    /// Maximum time to the first byte and between two pieces of the response, in seconds; of `llm_stream` 1800 by default.
    #[option(ty = "duration | int | float", shown = "120", with = |value| seconds("timeout", value), foreign = ["timeout_ms"])]
    pub timeout: Option<Duration>,
    /// `llm_stream`: maximum time between two pieces, in seconds; if you set it, also before the first one.
    #[option(ty = "duration | int | float", shown = "30", with = |value| seconds("idle_timeout", value))]
    pub idle_timeout: Option<Duration>,
    /// Retries after transient failures.
    #[option(shown = "2", shape = REPEATS, foreign = ["maxRetries", "max_retries", "retry"])]
    pub llm_retries: Option<u32>,
    /// The first pause, in milliseconds (loops: 2000). Each further pause is twice as long; up to a quarter is added at random.
    #[option(default = 250)]
    pub llm_backoff_ms: u64,
    /// `budget`, or its keys at top level.
    #[option(group = BudgetOptions, with = Budget::new)]
    pub budget: Budget,
    /// Maximum size of the response in bytes.
    #[option(range = 1.., shown = "64 MiB")]
    pub max_response_bytes: Option<usize>,
    /// Whether the provider streams the reply. The result is the same.
    #[option(shown = "true")]
    pub stream: Option<bool>,
    /// `llm_call`, `llm_call_safe` and loops: called with each piece of the visible reply as it arrives.
    #[option(ty = "function", shape = Shape::Closure, foreign = ["on_token"])]
    _on_delta: (),
}

/// Options that the assembly of the prompt and reminders read.
#[derive(Debug, Clone, Options)]
#[options(data)]
struct PromptOptions {
    /// The user message, if the first argument is nil.
    #[option(ty = "text")]
    _prompt: (),
    /// The session whose reminders are sent with the call.
    #[option(ty = "string", shape = Shape::Str)]
    _session_id: (),
    /// The reminders that are sent with the call.
    #[option(ty = "bool | dict", shown = "true", shape = SWITCH)]
    _reminders: (),
    /// A part of the system prompt: see prompt assembly.
    #[option(ty = "string | dict | list")]
    _system_preamble: (),
    /// A part of the system prompt: see prompt assembly.
    #[option(ty = "string | dict | list")]
    _system_prefix: (),
    /// A part of the system prompt: see prompt assembly.
    #[option(ty = "string | dict | list")]
    _system_context: (),
    /// A part of the system prompt: see prompt assembly.
    #[option(ty = "string | dict | list")]
    _system_suffix: (),
    /// A part of the system prompt: see prompt assembly.
    #[option(ty = "string | dict | list")]
    _system_appendix: (),
    /// Parts of the system prompt: see prompt assembly.
    #[option(ty = "string | dict | list")]
    _system_prompt_parts: (),
    /// The project profile: fragments that the prompt includes.
    #[option(ty = "dict", shape = Shape::Map(&Shape::Any))]
    _project_context_profile: (),
    /// The project profile; takes precedence over `project_context_profile`.
    #[option(ty = "dict", shape = Shape::Map(&Shape::Any))]
    _context_profile: (),
    /// Capabilities that prompt fragments may require.
    #[option(ty = "dict | list<string>", shape = FLAGS)]
    _capabilities: (),
    /// More capabilities, combined with `capabilities`.
    #[option(ty = "dict | list<string>", shape = FLAGS)]
    _caps: (),
}

impl FromData for ToolFormat {
    const TYPE: &'static str = "string";
    const SHAPE: Shape = Shape::Word(&["native", "text", "auto"]);

    fn from_data(value: &Value) -> Option<ToolFormat> {
        Some(match value.as_str()? {
            "native" => ToolFormat::Native,
            "text" => ToolFormat::Text,
            _ => ToolFormat::Auto,
        })
    }
}

impl CallOptions {
    /// Reads and checks an option dict; `null` or another type counts as an empty dict.
    ///
    /// # Errors
    /// A value is wrong in a way that the contract names.
    pub fn from_json(options: &Value) -> Result<CallOptions, OptionError> {
        CallOptions::from_shared(&Rc::new(options.clone()))
    }

    /// As [`CallOptions::from_json`]; the dict is kept as it is, not copied.
    ///
    /// # Errors
    /// As [`CallOptions::from_json`].
    pub(crate) fn from_shared(options: &Rc<Value>) -> Result<CallOptions, OptionError> {
        let none = Object::new();
        let given = options.as_object().unwrap_or(&none);
        OF_LOOPS.iter().try_for_each(|(name, shape)| {
            let value = given.get(*name).unwrap_or(&Value::Null);
            shape.check(name, value).map_err(|wrong| OptionError::new(wrong.to_string()))
        })?;
        let mut read = CallOptions::read(given).map_err(OptionError::new)?;
        read.provider_auto = read.provider.take_if(|p| p.eq_ignore_ascii_case("auto")).is_some();
        read.reasoning_effort_given = given.get("reasoning_effort").is_some_and(truthy);
        if let Some(choice) = &read.tool_choice {
            choice.check(&read.tools)?;
        }
        read.raw = if options.is_object() { options.clone() } else { Rc::new(Value::Object(none)) };
        if read.api_key.is_some()
            && let Some(own) = Rc::make_mut(&mut read.raw).as_object_mut()
        {
            own.shift_remove("api_key");
        }
        Ok(read)
    }

    /// Returns the overrides under the provider's own name.
    pub fn overrides(&self, provider: &str) -> Option<&Object> {
        self.raw.get(provider).and_then(Value::as_object)
    }
}

fn secret(value: &Value) -> Result<Option<Secret>, OptionError> {
    Ok(Some(Secret::new(display(value).trim())))
}

fn transcript(value: &Value) -> Result<Option<Value>, OptionError> {
    if !crate::transcript::is_transcript(value) {
        return Err(OptionError::new("llm_call: transcript must be a transcript dict"));
    }
    let messages = value.get("messages").unwrap_or(&Value::Null);
    let fits = Shape::List(&MESSAGE).check("transcript.messages", messages);
    fits.map_err(|e| OptionError::new(e.to_string()))?;
    Ok(Some(value.clone()))
}

/// Reads a limit in seconds; a program that gives a duration hands over its seconds as a float.
fn seconds(key: &str, value: &Value) -> Result<Option<Duration>, OptionError> {
    let wrong = || {
        OptionError::new(format!(
            "{key}: expected a duration or a number of seconds above 0, got {}",
            shape::shown(value)
        ))
    };
    let seconds = value.as_f64().filter(|n| *n > 0.0).ok_or_else(wrong)?;
    Duration::try_from_secs_f64(seconds).map(Some).map_err(|_| wrong())
}

/// Options of loops that limit or protect: a call gets them from a loop's `llm_caller`, or by mistake.
const OF_LOOPS: &[(&str, Shape)] = &[
    ("approval_policy", Shape::Map(&Shape::Any)),
    ("compaction", Shape::Either(&[Shape::Bool, Shape::Str, Shape::Map(&Shape::Any)])),
    ("llm_caller", Shape::Closure),
    ("permissions", Shape::Map(&Shape::Any)),
    ("post_turn_callback", Shape::Closure),
    ("skills", Shape::Either(&[Shape::List(&Shape::Any), Shape::Map(&Shape::Any)])),
    ("turn_policy", shape::TURN_POLICY),
];

fn fallback_chain(value: &Value) -> Result<Vec<String>, OptionError> {
    let entries: Vec<String> = match value {
        Value::String(text) => text.split(',').map(str::to_string).collect(),
        list => list.as_array().into_iter().flatten().map(display).collect(),
    };
    Ok(entries.into_iter().map(|e| e.trim().to_string()).filter(|e| !e.is_empty()).collect())
}

fn beta_features(value: &Value) -> Result<Vec<String>, OptionError> {
    let field = "anthropic_beta_features";
    let names: Vec<String> = match value {
        Value::String(text) => {
            text.split(',').map(|s| s.trim().to_string()).filter(|s| !s.is_empty()).collect()
        }
        Value::Array(list) => list
            .iter()
            .map(|item| match item {
                Value::String(name) => Ok(name.trim().to_string()),
                other => Err(OptionError::new(format!(
                    "{field}: expected list<string>, got {}",
                    other.type_name()
                ))),
            })
            .collect::<Result<_, _>>()?,
        other => {
            return Err(OptionError::new(format!(
                "{field}: expected string or list<string>, got {}",
                other.type_name()
            )));
        }
    };
    for name in &names {
        let legal = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if name.is_empty() || !name.chars().all(legal) {
            return Err(OptionError::new(format!(
                "{field}: invalid beta feature name `{name}`; expected ASCII letters, digits, '-' or '_'"
            )));
        }
    }
    Ok(names)
}

/// Reads the messages a call sends: `messages`, `transcript` and the prompt, by the rules of the contract.
///
/// # Errors
/// The prompt is a list of dicts, and one of them is no message.
pub fn request_messages(options: &CallOptions, prompt: &Value) -> Result<Vec<Value>, OptionError> {
    // Callers that have only options have their prompt there.
    let prompt = Some(prompt).filter(|prompt| !prompt.is_null()).or_else(|| options.raw.get("prompt"));
    let prompt = prompt.unwrap_or(&Value::Null);
    let mut out: Vec<Value> = match &options.transcript {
        Some(transcript) => list_at(transcript, "messages").to_vec(),
        None => Vec::new(),
    };
    let listed = prompt.as_array().filter(|list| !list.is_empty() && list.iter().all(Value::is_object));
    for (at, message) in listed.into_iter().flatten().enumerate() {
        let fits = MESSAGE.check(&format!("prompt[{at}]"), message);
        fits.map_err(|e| OptionError::new(e.to_string()))?;
    }
    let explicit = options.messages.as_deref().or_else(|| listed.map(Vec::as_slice));
    match explicit {
        Some(messages) => out.extend(messages.iter().filter(|m| m.is_object()).cloned()),
        None => {
            let text = if prompt.is_null() { String::new() } else { display(prompt) };
            if options.transcript.is_none() || !text.is_empty() {
                out.push(harn_value::json!({"role": "user", "content": text}));
            }
        }
    }
    for message in &mut out {
        fill_message(message);
    }
    Ok(out)
}

/// Adds missing role and content, and stores a `tool_result` message as a user message with one block.
fn fill_message(message: &mut Value) {
    if str_at(message, "role") == Some("tool_result") {
        let id =
            str_at(message, "tool_use_id").or_else(|| str_at(message, "tool_call_id")).unwrap_or_default();
        let content = message.get("content").cloned().unwrap_or_else(|| "".into());
        let block = harn_value::json!([{"type": "tool_result", "tool_use_id": id, "content": content}]);
        let mut out = Object::new();
        for (key, value) in message.as_object().into_iter().flatten() {
            if !matches!(key.as_str(), "role" | "tool_use_id" | "tool_call_id" | "content") {
                out.insert(key.clone(), value.clone());
            }
        }
        out.insert("role".into(), "user".into());
        out.insert("content".into(), block);
        *message = Value::Object(out);
        return;
    }
    if let Some(map) = message.as_object_mut() {
        if map.get("role").is_none_or(Value::is_null) {
            map.insert("role".into(), "user".into());
        }
        if map.get("content").is_none_or(Value::is_null) && !map.contains_key("tool_calls") {
            map.insert("content".into(), "".into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use harn_value::json;

    #[test]
    fn beta_feature_names_are_checked() {
        let error = |v: Value| CallOptions::from_json(&json!({"anthropic_beta_features": v})).unwrap_err().0;
        assert_eq!(error(json!(3)), "anthropic_beta_features: expected string or list<string>, got int");
        assert_eq!(error(json!([true])), "anthropic_beta_features: expected list<string>, got bool");
        assert_eq!(
            error(json!("a b")),
            "anthropic_beta_features: invalid beta feature name `a b`; expected ASCII letters, digits, '-' or '_'"
        );
    }

    #[test]
    fn messages_come_from_list_transcript_or_prompt() {
        let read = |o: Value, p: Value| request_messages(&CallOptions::from_json(&o).unwrap(), &p).unwrap();
        let user = |t: &str| json!({"role": "user", "content": t});
        assert_eq!(read(json!({}), json!("hi")), [user("hi")]);
        assert_eq!(read(json!({"messages": [{"content": "a"}]}), json!("hi")), [user("a")]);
        let only = json!({"prompt": "of the options"});
        assert_eq!(read(only.clone(), Value::Null), [user("of the options")]);
        assert_eq!(read(only.clone(), json!("hi")), [user("hi")]);
        assert_eq!(read(only, json!("")), [user("")]);
        let t = json!({"_type": "transcript", "messages": [user("old")]});
        assert_eq!(read(json!({"transcript": t}), json!("new")), [user("old"), user("new")]);
        assert_eq!(read(json!({"transcript": t}), json!("")), [user("old")]);
        let wrong = request_messages(&CallOptions::from_json(&json!({})).unwrap(), &json!([{"text": "a"}]))
            .unwrap_err();
        assert!(wrong.0.starts_with("prompt[0] must be a message: "), "{}", wrong.0);
        let error = CallOptions::from_json(&json!({"transcript": 3})).unwrap_err();
        assert_eq!(error.0, "llm_call: transcript must be a transcript dict");
    }
}
