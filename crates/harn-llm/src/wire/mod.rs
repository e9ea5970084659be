//! Wire formats: pure conversions from a [`Request`] to a provider's JSON, and from its replies to [`StreamEvent`]s.
//! One file per format; this module does no I/O.

pub mod anthropic;
pub(crate) mod bedrock;
mod body;
mod claude;
pub(crate) mod completion;
pub mod gemini;
pub(crate) mod names;
mod node;
pub mod ollama;
pub mod openai_chat;
pub mod openai_responses;
mod out;
pub(crate) mod outgoing;
#[cfg(test)]
mod provider_data_tests;
mod reader;
#[cfg(test)]
mod strict_tests;
pub(crate) mod style;
pub mod think;
pub(crate) mod written;

use harn_value::Data as Value;

pub use self::body::Body;
use self::node::Node;
use crate::dialect::Dialect;
use crate::error::{CallError, Category, LlmError};
use crate::event::{StreamEvent, Usage};
use crate::json::Object;
use crate::message::Role;
use crate::options::Thinking;
use crate::request::Request;
pub use reader::ReplyReader;
pub use style::WireStyle;

/// The description of a tool that occurs in the history but is not offered by the request.
const NOT_OFFERED: &str = "No longer available.";

/// A warning for the user about a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// The message.
    pub text: String,
    /// Whether the warning is printed only once per runtime.
    pub once: bool,
}

/// A request in a provider's form.
#[derive(Debug, Clone, PartialEq)]
pub struct WireRequest {
    /// Full URL.
    pub url: String,
    /// Headers of the wire format, in addition to content type, authorisation and those of the route.
    pub headers: Vec<(String, String)>,
    /// JSON body.
    pub body: Body,
    /// Whether the body requests a stream.
    pub stream: bool,
    /// Options that the format does not support.
    pub warnings: Vec<Warning>,
}

/// Serializes a request in the wire format of its route.
///
/// # Errors
/// The request contains something that the format does not support.
pub fn encode(request: &Request) -> Result<WireRequest, CallError> {
    let mut written = match request.route.style {
        WireStyle::Anthropic => anthropic::encode(request),
        WireStyle::OpenAiChat => openai_chat::encode(request),
        WireStyle::OpenAiResponses => openai_responses::encode(request),
        WireStyle::OllamaChat => ollama::encode_chat(request),
        WireStyle::OllamaRaw => ollama::encode_raw(request),
        WireStyle::Gemini => gemini::encode(request),
        WireStyle::Bedrock => bedrock::encode(request),
        WireStyle::Completion => Ok(completion::encode(request)),
        WireStyle::OllamaCompletion => Ok(completion::encode_ollama(request)),
    }?;
    if !request.beta_features.is_empty() && request.route.style != WireStyle::Anthropic {
        written.warnings.push(ignored("anthropic_beta_features", request));
    }
    written.warnings.extend(budget_is_left_out(request));
    Ok(written)
}

/// Returns the token limit that a request sends in its format; `None` when the provider decides.
fn asked_output(request: &Request) -> Option<i64> {
    match request.route.style {
        WireStyle::Anthropic => Some(claude::max_tokens(request)),
        // Without a limit the model's own applies, but a thinking budget requires a higher limit.
        WireStyle::Bedrock if matches!(claude::thinking_of(request), Thinking::Enabled { .. }) => {
            Some(claude::max_tokens(request))
        }
        _ => Some(request.max_tokens).filter(|most| *most > 0),
    }
}

/// Returns the token limit of the reply that is sent with a request: the one that its format writes, or the override
/// under the provider's own key. Budgets must be checked against this value, since it is the one that the provider
/// enforces.
pub(crate) fn most_output(request: &Request) -> Option<i64> {
    let own = |place: &[&str]| {
        let (last, outer) = place.split_last()?;
        let outer = outer.first().map(|key| request.overrides.get(*key).and_then(Value::as_object));
        let found = outer.map_or(Some(&request.overrides), |outer| outer)?.get(*last)?;
        Some(found.as_i64().filter(|most| *most > 0))
    };
    let own = match request.route.style {
        // An overridden `generationConfig` replaces the whole object.
        WireStyle::Gemini => {
            let config = request.overrides.get("generationConfig");
            config.map(|_| own(&["generationConfig", "maxOutputTokens"]).flatten())
        }
        WireStyle::OpenAiResponses => own(&["max_output_tokens"]),
        WireStyle::OllamaChat | WireStyle::OllamaRaw | WireStyle::OllamaCompletion => {
            own(&["options", "num_predict"])
        }
        WireStyle::OpenAiChat if request.route.dialect == Dialect::Ollama => {
            own(&["options", "num_predict"]).or_else(|| own(&["max_tokens"]))
        }
        WireStyle::OpenAiChat => own(&["max_completion_tokens"]).or_else(|| own(&["max_tokens"])),
        WireStyle::Anthropic | WireStyle::Completion => own(&["max_tokens"]),
        WireStyle::Bedrock => None,
    };
    own.unwrap_or_else(|| asked_output(request))
}

/// Returns a warning if a thinking budget is set but the format does not support a number.
fn budget_is_left_out(request: &Request) -> Option<Warning> {
    let Thinking::Enabled { budget_tokens: Some(_) } = request.thinking else { return None };
    let route = &request.route;
    let takes_it = match route.style {
        WireStyle::Anthropic | WireStyle::Bedrock => claude::takes_budget(&route.model),
        WireStyle::OpenAiChat => route.dialect == Dialect::Openrouter,
        WireStyle::Gemini => route.caps.thinks("enabled"),
        _ => false,
    };
    let (model, provider) = (&route.model, &route.provider);
    (!takes_it).then(|| Warning {
        // prose-ok: diagnostic
        text: format!("\"thinking.budget_tokens\" is not supported by \"{model}\" (provider \"{provider}\"), ignoring the number"),
        once: true,
    })
}

/// Returns the system prompt for a format without a system role, followed by the system messages of the list unless it
/// already includes them.
fn system_parts(request: &Request) -> Vec<String> {
    let mut parts: Vec<String> = request.system.iter().cloned().collect();
    if !request.system_hoisted && request.messages.has_instructions() {
        request.messages.with(|messages| {
            let system = messages.iter().filter(|m| matches!(m.role, Role::System | Role::Developer));
            parts.extend(system.map(|m| m.text("\n\n")).filter(|t| !t.trim().is_empty()));
        });
    }
    parts
}

/// Merges provider overrides into a body; they replace top-level keys. They are written in sorted order, so that equal
/// calls produce equal bytes and prompt caches match.
fn merge_overrides(body: &mut Object, overrides: &Object) {
    body.extend(sent_overrides(overrides));
}

/// Returns the overrides that are sent, sorted.
fn sent_overrides(overrides: &Object) -> std::collections::BTreeMap<String, Value> {
    let sent = overrides.iter().filter(|(key, _)| *key != "force_native_tool_search");
    sent.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// Returns a warning for each of these sampling options that the call sets but the format does not support.
fn refused(request: &Request, params: &'static [&str]) -> impl Iterator<Item = Warning> {
    params.iter().filter(|param| request.sampling.is_set(param)).map(move |param| ignored(param, request))
}

/// Returns the warning about an option that the format of a request does not support.
fn ignored(option: &str, request: &Request) -> Warning {
    let provider = &request.route.provider;
    Warning {
        text: format!("\"{option}\" is not supported by provider \"{provider}\", ignoring"),
        once: false,
    }
}

/// Reads the usage object of an OpenAI-compatible reply.
fn usage_of(usage: &Node<'_>) -> Usage {
    let mut counts = counts_of(usage);
    // xAI and others do not include reasoning in the reply tokens; only the total reveals it.
    if let (Some(input), Some(output), Some(reasoning)) = (counts.input, counts.output, counts.reasoning)
        && reasoning > 0
        && usage.int_at("total_tokens") == input.checked_add(output).and_then(|n| n.checked_add(reasoning))
    {
        counts.output = output.checked_add(reasoning);
    }
    counts.with_input_of_all()
}

/// Reads the raw counts of an OpenAI-compatible or Anthropic reply.
fn counts_of(usage: &Node<'_>) -> Usage {
    let int = |key: &str| usage.int_at(key);
    let nested = |outer: &str, key: &str| usage.at(outer).int_at(key);
    let upstream = || usage.at("cost_details").float_at("upstream_inference_cost").unwrap_or(0.0);
    // OpenRouter: with the user's own provider key, `cost` contains only OpenRouter's fee.
    let cost = usage
        .float_at("cost")
        .map(|usd| if usage.is_true("is_byok") { usd + upstream() } else { usd })
        .or_else(|| usage.at("cost").float_at("total_cost"));
    Usage {
        cost,
        cache_write_hour: nested("cache_creation", "ephemeral_1h_input_tokens"),
        reasoning: nested("completion_tokens_details", "reasoning_tokens")
            .or_else(|| nested("output_tokens_details", "reasoning_tokens"))
            .or_else(|| int("reasoning_tokens")),
        estimated: false,
        input: int("input_tokens").or_else(|| int("prompt_tokens")),
        output: int("output_tokens").or_else(|| int("completion_tokens")),
        cache_read: int("cache_read_input_tokens")
            .or_else(|| nested("prompt_tokens_details", "cached_tokens"))
            .or_else(|| nested("input_tokens_details", "cached_tokens"))
            .or_else(|| int("cache_read_tokens"))
            .or_else(|| int("prompt_cache_hit_tokens"))
            .or_else(|| int("cached_tokens"))
            .or_else(|| int("cached_prompt_tokens")),
        cache_write: int("cache_creation_input_tokens")
            .or_else(|| nested("prompt_tokens_details", "cache_write_tokens"))
            .or_else(|| nested("prompt_tokens_details", "cache_creation_input_tokens"))
            .or_else(|| nested("input_tokens_details", "cache_write_tokens"))
            .or_else(|| nested("input_tokens_details", "cache_creation_input_tokens")),
    }
}

/// Decodes the messages of a stream in one format.
trait Decode {
    /// Decodes one message of the stream.
    fn message(&mut self, value: &Node<'_>, out: &mut Vec<StreamEvent>) -> Result<(), LlmError>;
    /// Handles the `[DONE]` marker.
    fn done(&mut self) {}
    /// Returns whether the reply is complete, so that the stream may end.
    fn is_complete(&self) -> bool;
    /// Returns whether the remaining stream can be ignored.
    fn is_over(&self) -> bool;
    /// Emits the events that were held back.
    fn finish(&mut self, _out: &mut Vec<StreamEvent>) {}
}

fn decoder(request: &Request) -> Box<dyn Decode> {
    let provider = request.route.provider.clone();
    match request.route.style {
        WireStyle::Anthropic => Box::new(anthropic::Decoder::new(provider)),
        WireStyle::OpenAiChat => Box::new(openai_chat::Decoder::new(provider)),
        WireStyle::OpenAiResponses => Box::new(openai_responses::Decoder::new(provider)),
        WireStyle::OllamaChat | WireStyle::OllamaRaw => Box::new(ollama::Decoder::new(provider)),
        WireStyle::Gemini => Box::new(gemini::Decoder::new(provider)),
        WireStyle::Bedrock => Box::new(bedrock::Decoder::new(provider)),
        // These formats are never streamed, so this decoder is not used.
        WireStyle::Completion | WireStyle::OllamaCompletion => Box::new(openai_chat::Decoder::new(provider)),
    }
}

/// Reads a reply in one piece.
///
/// # Errors
/// The reply contains an error, or is not in this format.
fn read_reply(request: &Request, body: &Node<'_>) -> Result<Vec<StreamEvent>, LlmError> {
    let provider = &request.route.provider;
    match request.route.style {
        WireStyle::Anthropic => anthropic::read(provider, body),
        WireStyle::OpenAiChat => openai_chat::read(provider, body),
        WireStyle::OpenAiResponses => openai_responses::read(provider, body),
        WireStyle::OllamaChat | WireStyle::OllamaRaw => ollama::read(provider, body),
        WireStyle::Gemini => gemini::read(provider, body),
        WireStyle::Bedrock => bedrock::read(provider, body),
        WireStyle::Completion => completion::read(provider, body),
        WireStyle::OllamaCompletion => completion::read_ollama(provider, body),
    }
}

/// Creates the error of a reply in another format, with the content type and the first 200 bytes.
fn not_a_reply(provider: &str, what: &str, content_type: &str, head: &str) -> LlmError {
    let head = crate::json::clip(head, 200);
    LlmError::new(
        Category::ServerError,
        format!("{provider} response parse error: {what} (content type {content_type}): {head}"),
    )
}

/// Creates the error of a JSON reply with an unexpected shape.
fn wrong_shape(provider: &str, body: &Node<'_>) -> LlmError {
    not_a_reply(provider, "unexpected JSON", "application/json", &body.to_string())
}

/// Returns the error that the `error` member of a reply describes, if there is one.
fn error_member(provider: &str, body: &Node<'_>) -> Option<LlmError> {
    body.present("error").map(|e| LlmError::api(provider, &e.to_value()))
}

#[cfg(test)]
mod tests {
    use harn_value::json;
    use proptest::prelude::*;

    use super::*;
    use crate::sample;

    const CHAT_STYLES: [WireStyle; 7] = [
        WireStyle::Anthropic,
        WireStyle::OpenAiChat,
        WireStyle::OpenAiResponses,
        WireStyle::OllamaChat,
        WireStyle::OllamaRaw,
        WireStyle::Gemini,
        WireStyle::Bedrock,
    ];

    /// A mixture of control tokens of chat templates and other text.
    fn mixture() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            prop::sample::select(vec![
                "<|im_start|>",
                "<|im_end|>",
                "<|endoftext|>",
                "<|",
                "|>",
                "<",
                "im_start",
                "system\n",
                "user\n",
                "\n",
                "&lt;",
                "<tool_call>",
                "</tool_call>",
                "<think>",
                "\"",
                "}",
                "]",
                ",",
            ])
            .prop_map(str::to_owned),
            ".{0,3}",
        ];
        // Whitespace-only text is not sent, so add another character.
        prop::collection::vec(piece, 0..16).prop_map(|pieces| format!("x{}", pieces.concat()))
    }

    /// Returns the body without strings. Of a prompt rendered from a template, the control tokens with their roles
    /// remain.
    fn skeleton(value: &Value, style: WireStyle) -> Value {
        match value {
            Value::String(text) if style == WireStyle::OllamaRaw => {
                let token = regex::Regex::new(r"<\|[\p{L}\p{N}_-]+\|>(?:system|user|assistant)?").unwrap();
                token.find_iter(text).map(|token| Value::from(token.as_str())).collect()
            }
            Value::String(_) => Value::Null,
            Value::Array(items) => items.iter().map(|item| skeleton(item, style)).collect(),
            Value::Object(map) => {
                Value::Object(map.iter().map(|(key, item)| (key.clone(), skeleton(item, style))).collect())
            }
            other => other.clone(),
        }
    }

    fn body(style: WireStyle, text: &str) -> Value {
        let call = json!({"id": "c", "type": "function", "function": {"name": "t", "arguments": json!({"a": text}).to_string()}});
        let options = json!({"system": text, "messages": [
            {"role": "user", "content": text},
            {"role": "assistant", "content": text, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "content": text},
            {"role": "user", "content": [{"type": "text", "text": text}]},
        ]});
        let mut request = sample::request("openai", "gpt-4o", options);
        request.route.style = style;
        encode(&request).unwrap().body.to_json()
    }

    proptest! {
        #[test]
        fn no_text_changes_the_structure_of_a_request(text in mixture()) {
            for style in CHAT_STYLES {
                let (given, plain) = (body(style, &text), body(style, "x"));
                prop_assert_eq!(skeleton(&given, style), skeleton(&plain, style), "{:?}: {}", style, given);
            }
        }
    }
}
