//! Sample requests for tests of wire formats.

use std::time::Duration;

use harn_value::Data as Value;

use crate::capabilities::CapabilityMatrix;
use crate::conversation::Conversation;
use crate::options::{CallOptions, DEFAULT_MAX_TOKENS, request_messages};
use crate::request::{MAX_RESPONSE_BYTES, OllamaSettings, OutputChannel, OutputPlan, Request, Route};

/// Returns a request to `provider`/`model` with the given options and the prompt `hi`.
pub(crate) fn request(provider: &str, model: &str, options: Value) -> Request {
    let o = CallOptions::from_json(&options).unwrap();
    let mut caps = CapabilityMatrix::shipped().lookup(provider, model);
    let config = crate::config::Config::builtin();
    let entry = config.catalog().find(provider, model);
    caps.vision_supported |= entry.is_some_and(|entry| entry.can("vision") == Some(true));
    let table = config.provider(provider).unwrap();
    let endpoint = table.chat_endpoint().to_string();
    let style = table.wire();
    let shape = style.tool_shape();
    let channel = match caps.structured_output.as_deref().filter(|_| o.output.is_structured()) {
        Some("native" | "tool_use") if style.has_reply_tool() => OutputChannel::Tool,
        Some("native") => OutputChannel::Native,
        Some("tool_use") => OutputChannel::Tool,
        Some("format_kw") => OutputChannel::Format,
        _ => OutputChannel::None,
    };
    Request {
        route: Route {
            provider: provider.into(),
            model: model.into(),
            model_is_default: false,
            caps,
            style,
            dialect: table.dialect(),
            base_url: table.base_url.clone().unwrap_or_default(),
            egress: None,
            region: None,
            endpoint,
            completion_endpoint: None,
            auth: None,
            key: None,
            extra_headers: Vec::new(),
        },
        system: o.system.clone(),
        system_hoisted: false,
        messages: Conversation::from_json(&request_messages(&o, &"hi".into()).unwrap()).unwrap(),
        tools: o.tools.native(shape),
        tool_choice: o.tool_choice.clone(),
        max_tokens: o.max_tokens.unwrap_or(DEFAULT_MAX_TOKENS),
        sampling: o.sampling.clone(),
        thinking: o.thinking,
        interleaved_thinking: o.interleaved_thinking,
        beta_features: o.beta_features.clone(),
        cache: o.cache,
        prefill: o.prefill.clone(),
        output: OutputPlan {
            channel,
            schema: o.output.schema.clone(),
            strict: o.output.caller_strict,
            tool_description: "d".into(),
            forces_tool: true,
        },
        stream: o.stream.unwrap_or(true),
        timeout: Duration::from_secs(120),
        idle_timeout: None,
        max_response_bytes: MAX_RESPONSE_BYTES,
        overrides: o.overrides(provider).cloned().unwrap_or_default(),
        ollama: OllamaSettings { num_ctx: 32768, keep_alive: "30m".into(), ..Default::default() },
    }
}
