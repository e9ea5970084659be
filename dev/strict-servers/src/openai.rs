//! OpenAI Chat Completions and compatible APIs.

use std::collections::BTreeSet;

use harn_value::{Data as Value, json};

use crate::cases::{Case, Stop};
use crate::{Format, Request, halves, require, sse, tokens};

pub struct OpenAi {
    pub provider: &'static str,
    pub model: &'static str,
}

impl OpenAi {
    fn usage(case: &Case) -> Value {
        let [input, output, read, write] = case.reply.usage;
        json!({"prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output,
               "prompt_tokens_details": {"cached_tokens": read, "cache_write_tokens": write, "audio_tokens": 0},
               "completion_tokens_details": {"reasoning_tokens": case.reply.reasoning}})
    }

    fn stop(case: &Case) -> &'static str {
        match case.reply.stop {
            Stop::End | Stop::Refusal => "stop",
            Stop::Length => "length",
            Stop::Tools => "tool_calls",
        }
    }

    /// Checks the response formats that this host supports, and their requirements for models and streaming.
    fn formats(&self, broken: &mut Vec<String>, body: &Value) {
        let kind = body["response_format"]["type"].as_str().unwrap_or("text");
        let (streams, has_tools) = (body["stream"] == json!(true), body.get("tools").is_some());
        match self.provider {
            "groq" => {
                let by_schema = ["openai/gpt-oss-20b", "openai/gpt-oss-120b", "qwen/qwen3.8-27b"];
                let served = kind != "json_schema" || by_schema.contains(&self.model);
                require(broken, served, "this model does not support response format `json_schema`");
                require(broken, kind == "text" || !has_tools, "a format cannot be combined with tools");
                require(
                    broken,
                    kind != "json_schema" || !streams,
                    "`json_schema` does not support streaming",
                );
            }
            "deepseek" => {
                require(broken, kind != "json_schema", "this response_format type is unavailable now");
            }
            _ => {}
        }
    }

    /// Returns the field with the reasoning of this host; OpenAI's own API does not return it.
    fn reasoning_key(&self) -> Option<&'static str> {
        match self.provider {
            "openai" | "azure_openai" => None,
            "openrouter" => Some("reasoning"),
            _ => Some("reasoning_content"),
        }
    }
}

impl Format for OpenAi {
    fn name(&self) -> &'static str {
        self.model
    }

    fn options(&self) -> Value {
        json!({"provider": self.provider, "model": self.model})
    }

    fn thinking(&self) -> Option<Value> {
        match self.provider {
            "openrouter" => Some(json!({"thinking": {"budget_tokens": 2000}})),
            "dashscope" => Some(json!({"thinking": true})),
            _ if self.model == "o4-mini" => Some(json!({"reasoning_effort": "low"})),
            _ => None,
        }
    }

    fn lacks(&self) -> &'static [&'static str] {
        match self.provider {
            "dashscope" | "azure_openai" => &["image"],
            _ => &[],
        }
    }

    fn rules(&self, seen: &Request, streamed: bool) -> Vec<String> {
        let (body, mut broken) = (&seen.body, Vec::new());
        let b = &mut broken;
        let azure = self.provider == "azure_openai";
        if azure {
            let path = "/openai/deployments/gpt-4o-prod/chat/completions?api-version=2024-10-21";
            require(b, seen.target() == path, "the deployment and the version are in the address");
            require(b, seen.header("api-key") == Some("k-azure"), "the key is in api-key");
        } else {
            require(b, seen.target() == "/chat/completions", "the path is /chat/completions");
            let bearer = format!("Bearer k-{}", self.provider);
            require(b, seen.header("authorization") == Some(&bearer), "the key is a bearer");
        }
        require(b, body.get("model").is_some() != azure, "the model is named once");
        let streams = body["stream"] == json!(true);
        let held_back = self.provider == "groq" && body["response_format"]["type"] == "json_schema";
        require(b, streams == (streamed && !held_back), "stream says what is wanted");
        require(b, body.get("stream_options").is_some() == streams, "stream_options are for streams only");
        if self.model.starts_with('o') {
            require(b, body.get("max_tokens").is_none(), "this model takes max_completion_tokens");
        }
        let effort = body.get("reasoning_effort").is_none() || self.model.starts_with('o');
        require(b, effort, "this model takes no reasoning_effort");
        require(
            b,
            (self.provider == "openrouter") || body.get("reasoning").is_none(),
            "only OpenRouter knows reasoning",
        );
        require(
            b,
            body.get("tool_choice").is_none() || body.get("tools").is_some(),
            "tool_choice needs tools",
        );
        let messages = body["messages"].as_array().unwrap();
        let mut open: BTreeSet<&str> = BTreeSet::new();
        for message in messages {
            if message["role"] == "tool" {
                let known = open.remove(message["tool_call_id"].as_str().unwrap());
                require(b, known, "a tool message answers a call of the message before");
            } else {
                require(b, open.is_empty(), "every call is answered by a tool message");
                open = message["tool_calls"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .map(|c| c["id"].as_str().unwrap())
                    .collect();
            }
        }
        self.formats(b, body);
        let format = &body["response_format"]["json_schema"];
        if format["strict"] == json!(true) {
            require(b, format["schema"]["additionalProperties"] == json!(false), "strict schemas are closed");
        }
        broken
    }

    fn whole(&self, case: &Case) -> Option<Value> {
        let r = &case.reply;
        let refused = r.stop == Stop::Refusal;
        let mut message = json!({"role": "assistant", "content": r.text, "refusal": null, "annotations": []});
        if refused {
            message["content"] = Value::Null;
            message["refusal"] = r.text.into();
        }
        if let Some(key) = self.reasoning_key().filter(|_| !r.thinking.is_empty()) {
            message[key] = r.thinking.into();
        }
        if !r.calls.is_empty() {
            let call = |(id, name, args): &(&str, &str, Value)| {
                json!({"id": id, "type": "function",
                "function": {"name": name, "arguments": args.to_string()}})
            };
            message["tool_calls"] = r.calls.iter().map(call).collect();
        }
        Some(
            json!({"id": "chatcmpl-1", "object": "chat.completion", "created": 1752576261, "model": self.model,
            "choices": [{"index": 0, "message": message, "logprobs": null, "finish_reason": Self::stop(case)}],
            "usage": Self::usage(case), "service_tier": "default"}),
        )
    }

    fn stream(&self, case: &Case) -> Option<(&'static str, Vec<u8>)> {
        let r = &case.reply;
        let chunk = |delta: Value, finish: Option<&str>| {
            json!({"id": "chatcmpl-1", "object": "chat.completion.chunk",
            "created": 1752576261, "model": self.model, "usage": null,
            "choices": [{"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish}]})
        };
        let mut events = vec![chunk(json!({"role": "assistant", "content": "", "refusal": null}), None)];
        if let Some(key) = self.reasoning_key() {
            events.extend(tokens(r.thinking).into_iter().map(|piece| chunk(json!({key: piece}), None)));
        }
        let key = if r.stop == Stop::Refusal { "refusal" } else { "content" };
        events.extend(tokens(r.text).into_iter().map(|piece| chunk(json!({key: piece}), None)));
        for (index, (id, name, args)) in r.calls.iter().enumerate() {
            let opens = json!([{"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": ""}}]);
            events.push(chunk(json!({"tool_calls": opens}), None));
            for piece in halves(args) {
                let more = json!([{"index": index, "function": {"arguments": piece}}]);
                events.push(chunk(json!({"tool_calls": more}), None));
            }
        }
        events.push(chunk(json!({}), Some(Self::stop(case))));
        events.push(json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1752576261, "model": self.model,
            "choices": [], "usage": Self::usage(case)}));
        let comment = if self.provider == "openrouter" { ": OPENROUTER PROCESSING\n\n" } else { "" };
        Some(("text/event-stream", format!("{comment}{}data: [DONE]\n\n", sse(&events, false)).into_bytes()))
    }

    fn adjust(&self, _case: &Case, expected: &mut Value) {
        if self.reasoning_key().is_none() {
            expected["thinking"] = Value::Null;
        }
    }
}
