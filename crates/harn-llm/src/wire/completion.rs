//! Text completion endpoints: OpenAI's `/completions` and Ollama's `/api/generate`. Never streamed.
//!
//! The prefix is the first message of the request, the suffix the second.

use harn_value::Data as Value;

use super::node::Node;
use super::{Body, WireRequest, asked_output, error_member, merge_overrides, usage_of, wrong_shape};
use crate::error::LlmError;
use crate::event::{StopReason, StreamEvent, Usage};
use crate::json::Object;
use crate::request::Request;

fn start(request: &Request) -> (Object, bool) {
    let part = |n: usize| request.messages.get(n).map(|m| m.text("")).unwrap_or_default();
    let mut out = Object::new();
    out.insert("model".into(), request.route.model.as_str().into());
    out.insert("prompt".into(), part(0).into());
    let has_suffix = !part(1).is_empty();
    if has_suffix {
        out.insert("suffix".into(), part(1).into());
    }
    (out, has_suffix)
}

fn finish(request: &Request, body: Object) -> WireRequest {
    WireRequest {
        url: request.route.url(&request.route.endpoint),
        headers: Vec::new(),
        body: Body::new(body),
        stream: false,
        warnings: Vec::new(),
    }
}

pub(super) fn encode(request: &Request) -> WireRequest {
    let (mut body, _) = start(request);
    if let Some(most) = asked_output(request) {
        body.insert("max_tokens".into(), most.into());
    }
    for (key, value) in [("temperature", request.sampling.temperature), ("top_p", request.sampling.top_p)] {
        if let Some(value) = value {
            body.insert(key.into(), value.into());
        }
    }
    if !request.sampling.stop.is_empty() {
        body.insert("stop".into(), request.sampling.stop.clone().into());
    }
    if let Some(seed) = request.sampling.seed {
        body.insert("seed".into(), seed.into());
    }
    merge_overrides(&mut body, &request.overrides);
    finish(request, body)
}

pub(super) fn encode_ollama(request: &Request) -> WireRequest {
    let (mut body, has_suffix) = start(request);
    if let Some(system) = &request.system {
        body.insert("system".into(), system.as_str().into());
    }
    body.insert("stream".into(), false.into());
    // With a suffix, the model's own template is needed, because it defines how a gap is marked.
    if !has_suffix {
        body.insert("raw".into(), true.into());
    }
    let mut options = super::ollama::sampling(request);
    if let Some(most) = asked_output(request) {
        options.insert("num_predict".into(), most.into());
    }
    body.insert("options".into(), Value::Object(options));
    body.insert("keep_alive".into(), request.ollama.keep_alive.clone());
    super::ollama::merge_ollama_overrides(&mut body, &request.overrides);
    finish(request, body)
}

fn events(text: &str, usage: Usage, stop: Option<&str>) -> Vec<StreamEvent> {
    let mut out = vec![StreamEvent::Text(text.to_string()), StreamEvent::Usage(usage)];
    out.extend(stop.map(|word| StreamEvent::Stop(StopReason::from_provider(word))));
    out
}

pub(super) fn read(provider: &str, body: &Node<'_>) -> Result<Vec<StreamEvent>, LlmError> {
    let Some(choice) = body.list_at("choices").first() else {
        return Err(error_member(provider, body).unwrap_or_else(|| wrong_shape(provider, body)));
    };
    let usage = usage_of(body.at("usage"));
    Ok(events(choice.str_at("text").unwrap_or_default(), usage, choice.str_at("finish_reason")))
}

pub(super) fn read_ollama(provider: &str, body: &Node<'_>) -> Result<Vec<StreamEvent>, LlmError> {
    let Some(text) = body.str_at("response") else {
        return Err(error_member(provider, body).unwrap_or_else(|| wrong_shape(provider, body)));
    };
    let usage = Usage {
        input: body.int_at("prompt_eval_count"),
        output: body.int_at("eval_count"),
        ..Usage::default()
    };
    let mut out = events(text, usage, body.str_at("done_reason"));
    out.extend(body.str_at("model").map(|model| StreamEvent::Model(model.into())));
    Ok(out)
}
