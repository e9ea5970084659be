//! Ollama's own protocol: newline-delimited JSON, always streamed.

use harn_value::{Data as Value, json};

use crate::cases::{Case, Stop};
use crate::{Format, Request, require, tokens};

pub struct Ollama {
    pub model: &'static str,
}

impl Format for Ollama {
    fn name(&self) -> &'static str {
        self.model
    }

    fn options(&self) -> Value {
        json!({"provider": "ollama", "model": self.model, "tool_format": "native", "ollama": {"num_ctx": 4096}})
    }

    fn thinking(&self) -> Option<Value> {
        // Without tools, requests for this model would use a rendered prompt.
        let tool = json!([{"name": "now"}]);
        (self.model == "qwen3:8b").then(|| json!({"thinking": true, "tools": tool}))
    }

    fn lacks(&self) -> &'static [&'static str] {
        match self.model {
            "qwen3:8b" => &["plain", "image", "json", "length", "refusal"],
            _ => &["tools", "results"],
        }
    }

    fn rules(&self, seen: &Request, _streamed: bool) -> Vec<String> {
        let (body, mut broken) = (&seen.body, Vec::new());
        let b = &mut broken;
        require(b, seen.target() == "/api/chat", "the path is /api/chat");
        require(b, seen.header("authorization").is_none(), "there is no key");
        require(b, body["options"]["num_ctx"] == json!(4096), "the context size is sent");
        for message in body["messages"].as_array().unwrap() {
            let named = message["role"] != "tool" || message["tool_name"].is_string();
            require(b, named, "a tool message names its tool");
        }
        broken
    }

    fn whole(&self, _case: &Case) -> Option<Value> {
        None
    }

    fn stream(&self, case: &Case) -> Option<(&'static str, Vec<u8>)> {
        let r = &case.reply;
        let line = |message: Value| json!({"model": self.model, "created_at": "2025-07-15T10:44:21.5Z", "message": message, "done": false});
        let mut lines = Vec::new();
        for piece in tokens(r.thinking) {
            lines.push(line(json!({"role": "assistant", "content": "", "thinking": piece})));
        }
        lines.extend(
            tokens(r.text).into_iter().map(|piece| line(json!({"role": "assistant", "content": piece}))),
        );
        for (index, (id, name, args)) in r.calls.iter().enumerate() {
            let calls = json!([{"id": id, "function": {"index": index, "name": name, "arguments": args}}]);
            lines.push(line(json!({"role": "assistant", "content": "", "tool_calls": calls})));
        }
        let reason = if r.stop == Stop::Length { "length" } else { "stop" };
        let mut last = line(json!({"role": "assistant", "content": ""}));
        let end = json!({"done": true, "done_reason": reason, "total_duration": 1, "load_duration": 1,
            "prompt_eval_count": r.usage[0], "prompt_eval_duration": 1, "eval_count": r.usage[1], "eval_duration": 1});
        last.as_object_mut().unwrap().extend(end.as_object().unwrap().clone());
        lines.push(last);
        Some(("application/x-ndjson", lines.iter().flat_map(|l| format!("{l}\n").into_bytes()).collect()))
    }

    fn adjust(&self, case: &Case, expected: &mut Value) {
        // The protocol has no cache counters and no stop reason for a refusal.
        for key in ["cache_read_tokens", "cache_write_tokens"] {
            expected[key] = 0.into();
        }
        if case.reply.stop == Stop::Refusal {
            expected["stop_reason"] = "end_turn".into();
        }
    }
}
