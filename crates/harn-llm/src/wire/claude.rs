//! Claude-specific rules shared by all wire formats: thinking, token limits, prefill and reply formats.

use std::rc::Rc;

use harn_value::{Data as Value, json};

use super::Warning;
use super::outgoing::{Rules, Thoughts, takes_prefill};
use crate::capabilities::model_version;
use crate::json::{Object, str_at};
use crate::message::{ContentBlock, Message, Role};
use crate::options::{Effort, Thinking};
use crate::request::Request;
use crate::structured::provider_schema::reply_form;

/// The token limit when the call sets none, because the API requires one.
const DEFAULT_MAX_TOKENS: i64 = 8192;

/// The thinking budget in tokens when the call sets none.
const DEFAULT_BUDGET: i64 = 10_000;

/// The minimum number of tokens left for the answer in addition to the thinking budget.
const ROOM_TO_ANSWER: i64 = 1024;

/// From this version on, the model itself decides how much it thinks.
const ADAPTIVE: (u32, u32) = (4, 7);

/// Returns whether a model accepts a thinking budget.
pub(super) fn takes_budget(model: &str) -> bool {
    model_version(model).is_none_or(|version| version < ADAPTIVE)
}

/// Returns the thinking mode that is sent for a request.
pub(super) fn thinking_of(request: &Request) -> Thinking {
    let model = &request.route.model;
    let has_prefill = || request.prefill.is_some() && takes_prefill(model);
    match request.thinking {
        Thinking::Enabled { .. } if !takes_budget(model) => Thinking::Adaptive,
        Thinking::Enabled { .. } if !has_prefill() && !may_think(request) => Thinking::Disabled,
        other => other,
    }
}

/// Returns the token limit of the reply. The API counts thinking towards it, so a thinking budget may raise the limit.
pub(super) fn max_tokens(request: &Request) -> i64 {
    let asked = if request.max_tokens > 0 { request.max_tokens } else { DEFAULT_MAX_TOKENS };
    let Thinking::Enabled { budget_tokens } = request.thinking else { return asked };
    let budget = budget_tokens.unwrap_or(DEFAULT_BUDGET);
    // Checks the cheap condition first: scanning the conversation takes time, and the limit usually exceeds the budget.
    if asked <= budget && matches!(thinking_of(request), Thinking::Enabled { .. }) {
        return budget.saturating_add(ROOM_TO_ANSWER);
    }
    asked
}

/// Writes the thinking options, with a warning if thinking is not possible; returns the mode that was written.
pub(super) fn write_thinking(request: &Request, body: &mut Object, warnings: &mut Vec<Warning>) -> Thinking {
    let thinking = thinking_of(request);
    if request.thinking.is_on() && !thinking.is_on() {
        // prose-ok: diagnostic
        let text = "thinking is left out: the turn that the tool results continue was begun without it";
        warnings.push(Warning { text: text.into(), once: false });
    }
    match thinking {
        Thinking::Disabled | Thinking::Effort(Effort::None) => return Thinking::Disabled,
        Thinking::Enabled { budget_tokens } => {
            let budget = budget_tokens.unwrap_or(DEFAULT_BUDGET);
            body.insert("thinking".into(), json!({"type": "enabled", "budget_tokens": budget}));
        }
        Thinking::Adaptive | Thinking::Effort(_) => {
            body.insert("thinking".into(), json!({"type": "adaptive", "display": "summarized"}));
        }
    }
    if let Thinking::Effort(level) = thinking {
        body.insert("output_config".into(), json!({"effort": level.as_str()}));
    }
    thinking
}

/// Returns the prefilled start of the reply, if the model supports it.
pub(super) fn prefill<'r>(request: &'r Request, warnings: &mut Vec<Warning>) -> Option<&'r String> {
    let prefill = request.prefill.as_ref()?;
    let model = &request.route.model;
    if takes_prefill(model) {
        return Some(prefill);
    }
    let text = format!("prefill is not supported by \"{model}\", ignoring");
    warnings.push(Warning { text, once: true });
    None
}

/// Returns temperature and `top_p` in the form that the model accepts.
pub(super) fn sampling(
    request: &Request,
    thinking: Thinking,
    warnings: &mut Vec<Warning>,
) -> [(&'static str, Option<f64>); 2] {
    let (sampling, model) = (&request.sampling, &request.route.model);
    if !takes_budget(model) {
        if ["temperature", "top_p", "top_k"].iter().any(|param| sampling.is_set(param)) {
            let text = format!("\"{model}\" takes no temperature, top_p or top_k, ignoring them");
            warnings.push(Warning { text, once: true });
        }
        return [("temperature", None), ("top_p", None)];
    }
    // The API rejects a temperature together with a thinking budget.
    let temperature = sampling.temperature.filter(|_| !matches!(thinking, Thinking::Enabled { .. }));
    if let Some(temperature) = temperature.filter(|temperature| *temperature > 1.0) {
        let text =
            format!("\"temperature\" {temperature} is above 1.0, the most that Anthropic takes; using 1.0");
        warnings.push(Warning { text, once: false });
    }
    [("temperature", temperature.map(|temperature| temperature.min(1.0))), ("top_p", sampling.top_p)]
}

/// Returns whether thinking may be on. With a thinking budget, the API rejects a tool loop that did not start with
/// signed thinking, such as a loop started with another provider.
fn may_think(request: &Request) -> bool {
    let rules = Rules::of(request, Thoughts::Signed);
    let is_origin = |message: &Message| rules.is_origin(message);
    let is_thought = |data: &Value| {
        matches!(str_at(data, "type"), Some("thinking" | "redacted_thinking"))
            || data.get("reasoningContent").is_some()
    };
    request.messages.with(|messages| {
        let of_system = |message: &Message| matches!(message.role, Role::System | Role::Developer);
        let spoken: Vec<&Rc<Message>> =
            messages.iter().filter(|message| !message.is_blank(false) && !of_system(message)).collect();
        let calls = |message: &Message| message.tool_calls().next().is_some();
        // Searches backwards for the first turn of the loop at the end of the conversation. Each call has a result in
        // the request.
        let mut begun_with_thought = true;
        for turn in
            spoken.chunk_by(|a, b| a.role == b.role).rev().filter(|turn| turn[0].role == Role::Assistant)
        {
            if !turn.iter().any(|message| calls(message)) {
                break;
            }
            let blocks =
                turn.iter().flat_map(|message| message.content.iter().map(move |block| (message, block)));
            let is_sent_thought = |message: &Message, block: &ContentBlock| {
                calls(message)
                    && is_origin(message)
                    && match block {
                        ContentBlock::Reasoning { signature, .. } => signature.is_some(),
                        ContentBlock::Provider(at) => message.part_data(*at).is_some_and(is_thought),
                        _ => false,
                    }
            };
            let mut sent = blocks.filter(|(message, block)| match block {
                ContentBlock::Text(text) => !text.trim().is_empty(),
                ContentBlock::Reasoning { .. } => is_sent_thought(message, block),
                _ => true,
            });
            begun_with_thought = sent.next().is_some_and(|(message, block)| is_sent_thought(message, block));
        }
        begun_with_thought
    })
}

/// Returns the schema of the reply in the form of structured outputs, if the model supports them and the schema has an
/// equivalent form. Otherwise a tool represents the reply. Source: Anthropic, "Structured outputs".
pub(super) fn reply_schema(request: &Request) -> Option<Value> {
    let capable = request.route.caps.structured_output.as_deref() == Some("native");
    let schema = request.output.schema.as_ref().filter(|_| capable && request.prefill.is_none())?;
    reply_form(schema)
}
