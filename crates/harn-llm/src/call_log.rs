//! The call log: one JSON object per line about every request and reply, without keys.

use serde_json::{Value, json};

use crate::json::{Object, hash, str_at};
use crate::response::Response;
use crate::runtime::Prepared;

/// Writes the log.
pub struct CallLog {
    sink: Box<dyn FnMut(&Value)>,
    last_system: Option<String>,
    last_tools: Option<String>,
    messages_seen: usize,
}

impl CallLog {
    /// Makes a log that hands each line to `sink`.
    pub fn new(sink: impl FnMut(&Value) + 'static) -> Self {
        CallLog { sink: Box::new(sink), last_system: None, last_tools: None, messages_seen: 0 }
    }

    /// Writes a line with its time.
    pub fn write(&mut self, now_ms: i64, kind: &str, fields: Value) {
        let mut line = Object::new();
        line.insert("type".into(), kind.into());
        line.insert(
            "timestamp".into(),
            format!("{}.{:03}", now_ms.div_euclid(1000), now_ms.rem_euclid(1000)).into(),
        );
        line.insert("span_id".into(), fields.get("span_id").cloned().unwrap_or(Value::Null));
        if let Value::Object(fields) = fields {
            line.extend(fields.into_iter().filter(|(key, _)| key != "span_id"));
        }
        (self.sink)(&Value::Object(line));
    }

    /// Writes the lines about a finished call.
    pub(crate) fn call(
        &mut self,
        now_ms: i64,
        number: u64,
        prepared: &Prepared,
        response: &Response,
        cost: f64,
        duration_ms: i64,
    ) {
        let request = &prepared.request;
        let raw = &prepared.options.raw;
        let call_id = format!("call_{number}");
        let iteration = raw.get("_iteration").cloned().unwrap_or(0.into());
        if let Some(system) = &request.system {
            let key = hash(&system.as_str().into());
            if self.last_system.as_deref() != Some(&key) {
                self.write(now_ms, "system_prompt", json!({"hash": key, "content": system}));
                self.last_system = Some(key);
            }
        }
        if !request.tools.is_empty() {
            let tools = Value::from(request.tools.clone());
            let key = hash(&tools);
            if self.last_tools.as_deref() != Some(&key) {
                self.write(now_ms, "tool_schemas", json!({"hash": key, "schemas": tools}));
                self.last_tools = Some(key);
            }
        }
        // A conversation that grows is logged once; another one starts from its beginning.
        let start = if self.messages_seen <= request.messages.len() { self.messages_seen } else { 0 };
        for message in &request.messages[start..] {
            let field = |key: &str| message.get(key).cloned().unwrap_or(Value::Null);
            self.write(
                now_ms,
                "message",
                json!({"role": field("role"), "content": field("content"), "iteration": iteration,
                       "tool_calls": field("tool_calls"), "tool_call_id": field("tool_call_id"), "name": field("name")}),
            );
        }
        self.messages_seen = request.messages.len();
        let format = if prepared.text_tools.is_some() { "text" } else { "native" };
        self.write(
            now_ms,
            "provider_call_request",
            json!({
                "call_id": call_id, "iteration": iteration, "model": request.route.model,
                "provider": request.route.provider, "max_tokens": request.max_tokens,
                "temperature": request.temperature, "thinking": request.thinking.to_json(),
                "tool_choice": request.tool_choice.as_ref().map(|c| c.to_json()), "tool_format": format,
                "native_tool_count": request.tools.len(), "message_count": request.messages.len(),
                "route_policy": raw.get("route_policy").cloned().unwrap_or(Value::Null),
                "fallback_chain": prepared.options.fallback_chain, "structural_experiment": prepared.experiment,
            }),
        );
        let calls = response.tool_calls_json();
        let mut reply = response.usage_json();
        let own = json!({
            "call_id": call_id, "iteration": iteration, "provider": response.provider, "model": response.model,
            "text": response.text, "tool_calls": calls, "cost_usd": cost,
            "cache_hit": response.usage.cache_read.is_some_and(|n| n > 0), "thinking": response.thinking,
            "thinking_summary": response.thinking_summary, "response_ms": duration_ms,
        });
        if let (Some(reply), Value::Object(own)) = (reply.as_object_mut(), own) {
            reply.extend(own);
        }
        self.write(now_ms, "provider_call_response", reply);
        let mut read = response.clone();
        read.read_tags(prepared.text_tools.as_deref());
        let calls = read.tool_calls_json();
        self.write(
            now_ms,
            "interpreted_response",
            json!({"call_id": call_id, "tool_format": format, "prose": read.prose(), "tool_calls": calls,
                   "tool_parse_errors": read.tagged.errors}),
        );
    }
}

/// Returns the kind of a line, for readers of logs.
pub fn kind_of(line: &Value) -> &str {
    str_at(line, "type").unwrap_or_default()
}
