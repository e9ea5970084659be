//! The option dict of a call: every key read once, checked, and turned into plain fields.
//!
//! A wrong value is an error that names the option. The dict itself stays available as [`CallOptions::raw`], because prompt
//! assembly and provider overrides read more.

mod budget;
mod notices;
mod output;
pub(crate) mod route_policy;
mod sampling;
pub mod shape;
mod thinking;
mod tool_search;

pub use budget::Budget;
pub use harn_schema::nearest;
pub use notices::{Expected, Notice, call_options, check_overrides, check_values, notices};
pub use output::{Nudge, OutputFormat, OutputKind, VALIDATOR, Validation};
pub use sampling::Sampling;
pub(crate) use shape::ROLES;
pub use shape::{Shape, ShapeError};
pub use thinking::{Effort, Thinking};
pub use tool_search::{SearchMode, SearchStrategy, SearchVariant, ToolSearch};

use std::time::Duration;

use std::rc::Rc;

use harn_value::Data as Value;

use crate::error::OptionError;
use crate::json::{Object, display, list_at, present, str_at, truthy};
use crate::secret::Secret;
use crate::tools::{ToolChoice, ToolSet, parse_tools};

/// Default of `max_tokens`.
pub(crate) const DEFAULT_MAX_TOKENS: i64 = 16384;

/// How tools are offered to the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolFormat {
    /// Schemas travel in the request.
    Native,
    /// Tools are described in the system text and called in tags.
    Text,
    /// Whatever the route does best.
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
#[derive(Debug, Clone)]
pub struct CallOptions {
    /// The dict as given.
    pub raw: Rc<Value>,
    /// `provider`, unless `auto`.
    pub provider: Option<String>,
    /// Whether `provider` was `auto`.
    pub provider_auto: bool,
    /// `model`: alias or id.
    pub model: Option<String>,
    /// `model_tier`.
    pub model_tier: Option<String>,
    /// `system` inside the options.
    pub system: Option<String>,
    /// `max_tokens`; zero leaves it to the provider.
    pub max_tokens: i64,
    /// Whether the call gives `max_tokens`.
    pub max_tokens_given: bool,
    /// How tokens are drawn.
    pub sampling: Sampling,
    /// What shape the reply shall have.
    pub output: OutputFormat,
    /// `llm_retries`, when given: transient failures tried again.
    pub llm_retries: Option<u32>,
    /// `llm_backoff_ms`: base of the exponential backoff.
    pub llm_backoff_ms: u64,
    /// `thinking` and `reasoning_effort`.
    pub thinking: Thinking,
    /// Whether `reasoning_effort` was given.
    pub reasoning_effort_given: bool,
    /// `interleaved_thinking`.
    pub interleaved_thinking: bool,
    /// `anthropic_beta_features`.
    pub beta_features: Vec<String>,
    /// `tools`.
    pub tools: ToolSet,
    /// `tool_format`.
    pub tool_format: ToolFormat,
    /// `tool_choice`.
    pub tool_choice: Option<ToolChoice>,
    /// `tool_search`.
    pub tool_search: Option<ToolSearch>,
    /// `cache`.
    pub cache: bool,
    /// `stream`, when given.
    pub stream: Option<bool>,
    /// `timeout` in seconds, when given.
    pub timeout: Option<Duration>,
    /// `idle_timeout` in seconds, when given.
    pub idle_timeout: Option<Duration>,
    /// `max_response_bytes`, when given.
    pub max_response_bytes: Option<usize>,
    /// `messages`.
    pub messages: Option<Vec<Value>>,
    /// `transcript`.
    pub transcript: Option<Value>,
    /// `vision`, when given.
    pub vision: Option<bool>,
    /// `audio`.
    pub audio: bool,
    /// `pdf`.
    pub pdf: bool,
    /// `prefill`.
    pub prefill: Option<String>,
    /// `budget`, or its keys at top level.
    pub budget: Budget,
    /// `fallback_chain`.
    pub fallback_chain: Vec<String>,
    /// `api_mode: "responses"`.
    pub responses_api: bool,
    /// `base_url`: replaces the provider's address for this call.
    pub base_url: Option<String>,
    /// `api_key`: the key for this call; it is not in [`CallOptions::raw`], which logs and prompts are made from.
    pub api_key: Option<Secret>,
    /// `user_visible`.
    pub user_visible: bool,
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
        let o = if options.is_object() { options.clone() } else { Rc::new(Value::Object(Object::new())) };
        let text = |key: &str| present(&o, key).map(display).filter(|s| !s.is_empty());
        let flag = |key: &str| o.get(key).is_some_and(truthy);
        let provider_text = text("provider");
        let provider_auto = provider_text.as_deref().is_some_and(|p| p.eq_ignore_ascii_case("auto"));
        let transcript = match present(&o, "transcript") {
            None => None,
            Some(t) if crate::transcript::is_transcript(t) => {
                let messages = t.get("messages").unwrap_or(&Value::Null);
                let fits = Shape::List(&Shape::Message).check("transcript.messages", messages);
                fits.map_err(|e| OptionError::new(e.to_string()))?;
                Some(t.clone())
            }
            Some(_) => return Err(OptionError::new("llm_call: transcript must be a transcript dict")),
        };
        let (thinking, reasoning_effort_given) = thinking::parse(&o)?;
        if let Some(given) = o.as_object() {
            let table = call_options().chain(OF_LOOPS.iter().copied());
            check_values(table, given).map_err(|e| OptionError::new(e.to_string()))?;
        }
        route_policy::parse(&o)?;
        let tools = present(&o, "tools").map_or(Ok(Vec::new()), parse_tools)?;
        Ok(CallOptions {
            provider: provider_text.filter(|_| !provider_auto),
            provider_auto,
            model: text("model"),
            model_tier: text("model_tier"),
            system: text("system"),
            max_tokens: int(&o, "max_tokens").unwrap_or(DEFAULT_MAX_TOKENS),
            max_tokens_given: int(&o, "max_tokens").is_some(),
            sampling: Sampling::from_json(&o),
            output: output::parse(&o)?,
            llm_retries: int(&o, "llm_retries").map(|n| u32::try_from(n.max(0)).unwrap_or(u32::MAX)),
            llm_backoff_ms: int(&o, "llm_backoff_ms").map_or(250, |n| u64::try_from(n).unwrap_or(0)),
            thinking,
            reasoning_effort_given,
            interleaved_thinking: flag("interleaved_thinking"),
            beta_features: beta_features(&o)?,
            tool_choice: present(&o, "tool_choice").map(|v| ToolChoice::parse(v, &tools)).transpose()?,
            tools: ToolSet::new(tools),
            tool_format: match text("tool_format").as_deref() {
                Some("native") => ToolFormat::Native,
                Some("text") => ToolFormat::Text,
                _ => ToolFormat::Auto,
            },
            tool_search: tool_search::parse(&o)?,
            cache: flag("cache"),
            stream: present(&o, "stream").map(truthy),
            timeout: seconds(&o, "timeout")?,
            idle_timeout: seconds(&o, "idle_timeout")?,
            max_response_bytes: int(&o, "max_response_bytes").and_then(|n| usize::try_from(n).ok()),
            messages: o.get("messages").and_then(Value::as_array).cloned(),
            transcript,
            vision: present(&o, "vision").map(truthy),
            audio: flag("audio"),
            pdf: flag("pdf"),
            prefill: text("prefill"),
            budget: budget::parse(&o)?,
            fallback_chain: fallback_chain(&o),
            responses_api: text("api_mode").as_deref() == Some("responses"),
            base_url: text("base_url"),
            api_key: text("api_key").map(|key| Secret::new(key.trim())),
            user_visible: flag("user_visible"),
            raw: without_key(o),
        })
    }

    /// Returns the overrides under the provider's own name.
    pub fn overrides(&self, provider: &str) -> Option<&Object> {
        self.raw.get(provider).and_then(Value::as_object)
    }
}

/// The dict without the key of the call: what is kept of the options may be written down.
fn without_key(mut options: Rc<Value>) -> Rc<Value> {
    if options.get("api_key").is_some()
        && let Some(own) = Rc::make_mut(&mut options).as_object_mut()
    {
        own.shift_remove("api_key");
    }
    options
}

fn int(o: &Value, key: &str) -> Option<i64> {
    o.get(key).and_then(Value::as_i64)
}

/// Reads a limit in seconds; a program that gives a duration hands over its seconds as a float.
fn seconds(o: &Value, key: &str) -> Result<Option<Duration>, OptionError> {
    let Some(value) = present(o, key) else { return Ok(None) };
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
const OF_LOOPS: &[(&str, Expected)] = &[
    ("approval_policy", Expected::Only(Shape::Map(&Shape::Any))),
    ("compaction", Expected::Only(Shape::Either(&[Shape::Bool, Shape::Str, Shape::Map(&Shape::Any)]))),
    ("llm_caller", Expected::Only(Shape::Closure)),
    ("permissions", Expected::Only(Shape::Map(&Shape::Any))),
    ("post_turn_callback", Expected::Only(Shape::Closure)),
    ("skills", Expected::Only(Shape::Either(&[Shape::List(&Shape::Any), Shape::Map(&Shape::Any)]))),
    ("turn_policy", Expected::Only(shape::TURN_POLICY)),
];

fn fallback_chain(o: &Value) -> Vec<String> {
    let entries: Vec<String> = match o.get("fallback_chain") {
        Some(Value::String(text)) => text.split(',').map(str::to_string).collect(),
        Some(Value::Array(list)) => list.iter().map(display).collect(),
        _ => Vec::new(),
    };
    entries.into_iter().map(|e| e.trim().to_string()).filter(|e| !e.is_empty()).collect()
}

fn beta_features(o: &Value) -> Result<Vec<String>, OptionError> {
    let field = "anthropic_beta_features";
    let names: Vec<String> = match o.get(field) {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::String(text)) => {
            text.split(',').map(|s| s.trim().to_string()).filter(|s| !s.is_empty()).collect()
        }
        Some(Value::Array(list)) => list
            .iter()
            .map(|item| match item {
                Value::String(name) => Ok(name.trim().to_string()),
                other => Err(OptionError::new(format!(
                    "{field}: expected list<string>, got {}",
                    other.type_name()
                ))),
            })
            .collect::<Result<_, _>>()?,
        Some(other) => {
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
        let fits = Shape::Message.check(&format!("prompt[{at}]"), message);
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
