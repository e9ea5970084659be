//! Text completion endpoints: OpenAI's `/completions` and Ollama's `/api/generate`.

use serde_json::{Value, json};

use super::{error_member, merge_overrides, not_a_reply, wrong_shape};
use crate::error::LlmError;
use crate::event::{StopReason, Usage};
use crate::json::{Object, int_at, list_at, str_at};
use crate::request::Request;
use crate::response::{Block, Response};

fn is_ollama(endpoint: &str) -> bool {
    endpoint.contains("/api/generate")
}

/// Writes the body of a completion.
pub(crate) fn body(
    request: &Request,
    endpoint: &str,
    prefix: &str,
    suffix: &str,
    system: Option<&str>,
) -> Value {
    let mut out = Object::new();
    out.insert("model".into(), request.route.model.as_str().into());
    out.insert("prompt".into(), prefix.into());
    if !suffix.is_empty() {
        out.insert("suffix".into(), suffix.into());
    }
    if is_ollama(endpoint) {
        if let Some(system) = system.filter(|s| !s.trim().is_empty()) {
            out.insert("system".into(), system.into());
        }
        out.insert("stream".into(), false.into());
        if suffix.is_empty() {
            out.insert("raw".into(), true.into());
        }
        let mut options = super::ollama::sampling(request);
        if request.max_tokens > 0 {
            options.insert("num_predict".into(), request.max_tokens.into());
        }
        out.insert("options".into(), Value::Object(options));
        out.insert("keep_alive".into(), request.ollama.keep_alive.clone());
        super::ollama::merge_ollama_overrides(&mut out, &request.overrides);
        return Value::Object(out);
    }
    if request.max_tokens > 0 {
        out.insert("max_tokens".into(), request.max_tokens.into());
    }
    for (key, value) in [("temperature", request.temperature), ("top_p", request.top_p)] {
        if let Some(value) = value {
            out.insert(key.into(), value.into());
        }
    }
    if !request.stop.is_empty() {
        out.insert("stop".into(), request.stop.clone().into());
    }
    if let Some(seed) = request.seed {
        out.insert("seed".into(), seed.into());
    }
    merge_overrides(&mut out, &request.overrides);
    Value::Object(out)
}

/// Reads the reply to a completion.
pub(crate) fn read(provider: &str, model: &str, endpoint: &str, text: &str) -> Result<Response, LlmError> {
    let body: Value = serde_json::from_str(text)
        .map_err(|e| not_a_reply(provider, &e.to_string(), "application/json", text))?;
    if let Some(error) = error_member(provider, &body) {
        return Err(error);
    }
    let mut out = Response::new(provider, model);
    let stop = if is_ollama(endpoint) {
        let Some(text) = str_at(&body, "response") else { return Err(wrong_shape(provider, &body)) };
        out.text = text.to_string();
        out.usage = Usage {
            input: int_at(&body, "prompt_eval_count"),
            output: int_at(&body, "eval_count"),
            ..Usage::default()
        };
        str_at(&body, "done_reason")
    } else {
        let Some(choice) = list_at(&body, "choices").first() else {
            return Err(wrong_shape(provider, &body));
        };
        out.text = str_at(choice, "text").unwrap_or_default().to_string();
        out.usage = Usage::from_json(body.get("usage").unwrap_or(&json!({})));
        str_at(choice, "finish_reason")
    };
    out.stop_reason = stop.map(|s| StopReason::from_provider(s).as_str().to_string());
    if !out.text.is_empty() {
        out.blocks.push(Block::OutputText(out.text.clone()));
    }
    Ok(out)
}
