//! Anthropic Messages.

use std::collections::BTreeSet;

use harn_value::{Data as Value, json};

use crate::cases::{Case, Stop};
use crate::{Format, Request, halves, require, sse, tokens};

pub struct Anthropic {
    pub model: &'static str,
}

impl Anthropic {
    /// Returns whether the reply is a tool call, because the model has no JSON format.
    fn calls_json(&self, case: &Case) -> bool {
        case.name == "json" && self.model.contains("-4-20")
    }

    fn blocks(&self, case: &Case) -> Vec<Value> {
        let r = &case.reply;
        let mut blocks = Vec::new();
        if !r.thinking.is_empty() {
            blocks.push(json!({"type": "thinking", "thinking": r.thinking, "signature": "c2ln"}));
        }
        if self.calls_json(case) {
            let input: Value = serde_json::from_str(r.text).unwrap();
            blocks
                .push(json!({"type": "tool_use", "id": "toolu_1", "name": "json_response", "input": input}));
        } else {
            blocks.push(json!({"type": "text", "text": r.text}));
        }
        for (id, name, input) in &r.calls {
            blocks.push(json!({"type": "tool_use", "id": id, "name": name, "input": input}));
        }
        blocks
    }

    fn stop(&self, case: &Case) -> &'static str {
        match case.reply.stop {
            _ if self.calls_json(case) => "tool_use",
            Stop::End => "end_turn",
            Stop::Length => "max_tokens",
            Stop::Tools => "tool_use",
            Stop::Refusal => "refusal",
        }
    }

    fn start(&self, case: &Case) -> Value {
        let [input, _, read, write] = case.reply.usage;
        let input = input - read - write;
        json!({"id": "msg_01", "type": "message", "role": "assistant", "model": self.model, "content": [],
               "stop_reason": null, "stop_sequence": null, "usage": {
                "input_tokens": input, "cache_creation_input_tokens": write, "cache_read_input_tokens": read,
                "output_tokens": 1, "service_tier": "standard"}})
    }
}

impl Format for Anthropic {
    fn name(&self) -> &'static str {
        self.model
    }

    fn options(&self) -> Value {
        json!({"provider": "anthropic", "model": self.model, "cache": true})
    }

    fn thinking(&self) -> Option<Value> {
        Some(json!({"thinking": {"budget_tokens": 4000}}))
    }

    fn rules(&self, seen: &Request, streamed: bool) -> Vec<String> {
        let (body, mut broken) = (&seen.body, Vec::new());
        let b = &mut broken;
        require(b, seen.target() == "/messages", "the path is /messages");
        require(b, seen.header("x-api-key") == Some("k-anthropic"), "the key is in x-api-key");
        require(b, seen.header("authorization").is_none(), "there is no bearer");
        require(b, seen.header("anthropic-version") == Some("2023-06-01"), "the version is named");
        require(b, (body["stream"] == json!(true)) == streamed, "stream says what is wanted");
        let thinking = &body["thinking"];
        if thinking["type"] == "enabled" {
            let (budget, most) = (thinking["budget_tokens"].as_i64(), body["max_tokens"].as_i64());
            require(b, budget < most, "max_tokens must be greater than thinking.budget_tokens");
            require(
                b,
                body.get("temperature").is_none(),
                "temperature may only be 1 when thinking is enabled",
            );
            require(b, body.get("top_k").is_none(), "top_k must be unset when thinking is enabled");
        }
        if self.model == "claude-opus-4-7" {
            require(b, thinking["type"] != "enabled", "this model only thinks adaptively");
            let sampling = ["temperature", "top_p", "top_k"].iter().all(|k| body.get(k).is_none());
            require(b, sampling, "this model takes no sampling parameters");
        }
        if thinking["type"].is_string() && thinking["type"] != "disabled" {
            let forced = ["any", "tool"].contains(&body["tool_choice"]["type"].as_str().unwrap_or("auto"));
            require(b, !forced, "thinking may not be enabled when tool_choice forces tool use");
        }
        let messages = body["messages"].as_array().unwrap();
        require(b, messages[0]["role"] == "user", "the first message is the user's");
        for pair in messages.windows(2) {
            require(b, pair[0]["role"] != pair[1]["role"], "roles alternate");
            let ids = |message: &Value, kind: &str, key: &str| -> BTreeSet<String> {
                let blocks = message["content"].as_array().cloned().unwrap_or_default();
                let of_kind = blocks.iter().filter(|block| block["type"] == kind);
                of_kind.map(|block| block[key].as_str().unwrap().to_string()).collect()
            };
            let (asked, answered) =
                (ids(&pair[0], "tool_use", "id"), ids(&pair[1], "tool_result", "tool_use_id"));
            require(b, asked == answered, "every tool_use has its tool_result in the next message");
        }
        broken
    }

    fn whole(&self, case: &Case) -> Option<Value> {
        let mut message = self.start(case);
        message["content"] = self.blocks(case).into();
        message["stop_reason"] = self.stop(case).into();
        message["usage"]["output_tokens"] = case.reply.usage[1].into();
        Some(message)
    }

    fn stream(&self, case: &Case) -> Option<(&'static str, Vec<u8>)> {
        let mut events =
            vec![json!({"type": "message_start", "message": self.start(case)}), json!({"type": "ping"})];
        for (index, block) in self.blocks(case).into_iter().enumerate() {
            let delta = |delta: Value| json!({"type": "content_block_delta", "index": index, "delta": delta});
            let start =
                |block: Value| json!({"type": "content_block_start", "index": index, "content_block": block});
            match block["type"].as_str().unwrap() {
                "thinking" => {
                    events.push(start(json!({"type": "thinking", "thinking": "", "signature": ""})));
                    let text = block["thinking"].as_str().unwrap();
                    events.extend(
                        tokens(text)
                            .into_iter()
                            .map(|t| delta(json!({"type": "thinking_delta", "thinking": t}))),
                    );
                    events.push(delta(json!({"type": "signature_delta", "signature": block["signature"]})));
                }
                "text" => {
                    events.push(start(json!({"type": "text", "text": ""})));
                    let text = block["text"].as_str().unwrap();
                    events.extend(
                        tokens(text).into_iter().map(|t| delta(json!({"type": "text_delta", "text": t}))),
                    );
                }
                _ => {
                    events.push(start(
                        json!({"type": "tool_use", "id": block["id"], "name": block["name"], "input": {}}),
                    ));
                    // A call without arguments streams one empty chunk.
                    let empty = block["input"].as_object().unwrap().is_empty();
                    let pieces = if empty { vec![String::new()] } else { halves(&block["input"]).to_vec() };
                    events.extend(
                        pieces.iter().map(|p| delta(json!({"type": "input_json_delta", "partial_json": p}))),
                    );
                }
            }
            events.push(json!({"type": "content_block_stop", "index": index}));
        }
        events.push(
            json!({"type": "message_delta", "delta": {"stop_reason": self.stop(case), "stop_sequence": null},
                           "usage": {"output_tokens": case.reply.usage[1]}}),
        );
        events.push(json!({"type": "message_stop"}));
        Some(("text/event-stream; charset=utf-8", sse(&events, true).into_bytes()))
    }
}
