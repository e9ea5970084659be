//! The call log: one JSON object per line about every request and reply, without keys.

use harn_value::{Data as Value, json};

use crate::conversation::Conversation;
use crate::error::LlmError;
use crate::json::{Object, hash, sha256, str_at};
use crate::response::Response;
use crate::runtime::prepared::Prepared;
use crate::secret::Secret;

/// The writer of the call log.
pub struct CallLog {
    sink: Box<dyn FnMut(&Value)>,
    /// Returns whether a sink reads the log.
    wanted: Box<dyn Fn() -> bool>,
    last_system: Option<String>,
    last_tools: Option<String>,
    messages_seen: Conversation,
    /// The API keys of all calls so far: replies and later requests may echo them, so they are redacted.
    secrets: Vec<Secret>,
}

impl CallLog {
    /// Creates a log that passes each line to `sink`. While `wanted` returns false, no lines are built, which saves
    /// most of the cost.
    pub fn new(wanted: impl Fn() -> bool + 'static, sink: impl FnMut(&Value) + 'static) -> Self {
        CallLog {
            sink: Box::new(sink),
            wanted: Box::new(wanted),
            last_system: None,
            last_tools: None,
            messages_seen: Conversation::new(),
            secrets: Vec::new(),
        }
    }

    /// Forgets which system prompt, tools and messages were logged, so that they are logged again. Call it when the
    /// sink changes.
    pub fn forget(&mut self) {
        (self.last_system, self.last_tools) = (None, None);
        self.messages_seen = Conversation::new();
    }

    /// Returns whether a sink reads the log.
    pub fn is_wanted(&self) -> bool {
        (self.wanted)()
    }

    /// Writes one line with its timestamp, which is null when `now_ms` is `None`.
    pub fn write(&mut self, now_ms: impl Into<Option<i64>>, kind: &str, fields: Value) {
        let mut line = Object::new();
        line.insert("type".into(), kind.into());
        let time = |ms: i64| format!("{}.{:03}", ms.div_euclid(1000), ms.rem_euclid(1000));
        line.insert("timestamp".into(), now_ms.into().map(time).into());
        line.insert("span_id".into(), fields.get("span_id").cloned().unwrap_or(Value::Null));
        if let Value::Object(fields) = fields {
            line.extend(fields.into_iter().filter(|(key, _)| key != "span_id"));
        }
        let mut line = Value::Object(line);
        self.secrets.iter().for_each(|secret| hide(&mut line, secret));
        (self.sink)(&line);
    }

    /// Writes the lines of an attempt before its request is sent.
    pub(crate) fn request(&mut self, now_ms: i64, call_id: &str, prepared: &Prepared) {
        let request = &prepared.request;
        let raw = &prepared.options.raw;
        for secret in request.route.secrets() {
            if !self.secrets.contains(&secret) {
                self.secrets.push(secret);
            }
        }
        // Keys are collected even while the log is off: it may be on when the reply arrives.
        if !self.is_wanted() {
            return;
        }
        let iteration = iteration(prepared);
        if let Some(system) = &request.system {
            let key = format!("sha256:{}", sha256(system.as_bytes()));
            if self.last_system.as_deref() != Some(&key) {
                self.write(
                    now_ms,
                    "system_prompt",
                    json!({"content": system, "hash": key, "sha256": key, "bytes": system.len()}),
                );
                self.last_system = Some(key);
            }
        }
        if !request.tools.is_empty() {
            let tools = Value::from(request.tools.to_vec());
            let key = hash(&tools);
            if self.last_tools.as_deref() != Some(&key) {
                self.write(now_ms, "tool_schemas", json!({"hash": key, "schemas": tools}));
                self.last_tools = Some(key);
            }
        }
        // Within an agent loop, only new messages are logged. Any other call logs its messages from the beginning.
        let grows = iteration.as_i64().is_some_and(|turn| turn > 0);
        let known = grows && self.messages_seen.is_prefix_of(&request.messages);
        let start = if known { self.messages_seen.len() } else { 0 };
        for message in request.messages.to_json_from(start) {
            let field = |key: &str| message.get(key).cloned().unwrap_or(Value::Null);
            self.write(
                now_ms,
                "message",
                json!({"role": field("role"), "content": field("content"), "iteration": iteration,
                       "tool_calls": field("tool_calls"), "tool_call_id": field("tool_call_id"), "name": field("name")}),
            );
        }
        self.messages_seen = request.messages.clone();
        let chain = &prepared.options.fallback_chain;
        if let Value::Object(mut decision) = prepared.routing.clone() {
            decision.insert("iteration".into(), iteration.clone());
            decision.insert("call_id".into(), call_id.into());
            decision.insert("fallback_chain".into(), chain.clone().into());
            self.write(now_ms, "routing_decision", decision.into());
        }
        self.write(
            now_ms,
            "provider_call_request",
            json!({
                "call_id": call_id, "iteration": iteration, "model": request.route.model,
                "provider": request.route.provider, "max_tokens": request.max_tokens,
                "temperature": request.sampling.temperature, "thinking": thinking(prepared),
                "tool_choice": request.tool_choice.as_ref().map(|c| c.to_json()),
                "tool_format": format_word(prepared), "native_tool_count": request.tools.len(),
                "message_count": request.messages.len(),
                "route_policy": raw.get("route_policy").cloned().unwrap_or(Value::Null),
                "fallback_chain": chain, "routing_decision": prepared.routing,
                "structural_experiment": prepared.experiment,
            }),
        );
    }

    /// Writes the line of a failed attempt.
    pub(crate) fn failure(&mut self, now_ms: i64, call_id: &str, prepared: &Prepared, error: &LlmError) {
        if !self.is_wanted() {
            return;
        }
        self.write(
            now_ms,
            "provider_call_error",
            json!({
                "call_id": call_id, "iteration": iteration(prepared), "provider": error.provider,
                "model": error.model, "category": error.category.as_str(), "reason": error.reason,
                "message": error.message,
            }),
        );
    }

    /// Writes the lines of a reply.
    pub(crate) fn response(
        &mut self,
        now_ms: i64,
        call_id: &str,
        prepared: &Prepared,
        response: &Response,
        cost: f64,
        duration_ms: i64,
    ) {
        if !self.is_wanted() {
            return;
        }
        let iteration = iteration(prepared);
        let mut reply = response.usage_json();
        let own = json!({
            "call_id": call_id, "iteration": iteration, "provider": response.provider, "model": response.model,
            "text": response.text, "tool_calls": response.tool_calls_json(), "cost_usd": cost,
            "cache_hit": response.usage.cache_read.is_some_and(|n| n > 0), "thinking": response.thinking,
            "thinking_summary": response.thinking_summary, "response_ms": duration_ms,
            "structural_experiment": prepared.experiment,
        });
        if let (Some(reply), Value::Object(own)) = (reply.as_object_mut(), own) {
            reply.extend(own);
        }
        self.write(now_ms, "provider_call_response", reply);
        let mut read = response.clone();
        read.read_tags(&prepared.offered);
        let calls = read.tool_calls_json();
        self.write(
            now_ms,
            "interpreted_response",
            json!({"call_id": call_id, "iteration": iteration, "tool_format": format_word(prepared),
                   "prose": read.prose(), "tool_calls": calls, "tool_parse_errors": read.tagged.errors}),
        );
    }
}

/// Redacts a secret in all strings of a value.
fn hide(value: &mut Value, secret: &Secret) {
    match value {
        Value::String(text) => *text = secret.redact(text),
        Value::Array(items) => items.iter_mut().for_each(|item| hide(item, secret)),
        Value::Object(map) => map.values_mut().for_each(|item| hide(item, secret)),
        _ => {}
    }
}

/// Returns the turn of the agent loop that makes the call, 0 outside of loops.
fn iteration(prepared: &Prepared) -> Value {
    prepared.options.raw.get("_iteration").cloned().unwrap_or(0.into())
}

fn format_word(prepared: &Prepared) -> &'static str {
    if prepared.offered.as_text { "text" } else { "native" }
}

/// Returns the thinking option as the log records it: its mode plus `enabled`.
fn thinking(prepared: &Prepared) -> Value {
    let mut out = prepared.request.thinking.to_json();
    out["enabled"] = prepared.request.thinking.is_on().into();
    out
}

/// Returns the `type` of a log line.
pub fn kind_of(line: &Value) -> &str {
    str_at(line, "type").unwrap_or_default()
}
