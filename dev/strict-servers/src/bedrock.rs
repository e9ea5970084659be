//! Amazon's Converse API: signed requests, with a JSON reply or a binary stream.

use harn_value::{Data as Value, json};

use crate::cases::{Case, Stop};
use crate::{Format, Request, event, halves, require, tokens};

pub struct Bedrock {
    pub model: &'static str,
}

/// The opaque signature of a reasoning block, which the API requires in later requests.
const SIGNATURE: &str = "c2lnbmVk";

impl Bedrock {
    /// Returns whether the reply is a tool call, because the model has no JSON format.
    fn calls_json(&self, case: &Case) -> bool {
        case.name == "json" && !["-4-5", "-4-6"].iter().any(|version| self.model.contains(version))
    }

    fn content(&self, case: &Case) -> Vec<Value> {
        let r = &case.reply;
        let mut content = Vec::new();
        if !r.thinking.is_empty() {
            let text = json!({"text": r.thinking, "signature": SIGNATURE});
            content.push(json!({"reasoningContent": {"reasoningText": text}}));
        }
        if self.calls_json(case) {
            let input: Value = serde_json::from_str(r.text).unwrap();
            content
                .push(json!({"toolUse": {"toolUseId": "tool_1", "name": "json_response", "input": input}}));
        } else {
            content.push(json!({"text": r.text}));
        }
        for (id, name, input) in &r.calls {
            content.push(json!({"toolUse": {"toolUseId": id, "name": name, "input": input}}));
        }
        content
    }

    fn stop(&self, case: &Case) -> &'static str {
        match case.reply.stop {
            Stop::End if self.calls_json(case) => "tool_use",
            Stop::End => "end_turn",
            Stop::Length => "max_tokens",
            Stop::Tools => "tool_use",
            Stop::Refusal => "guardrail_intervened",
        }
    }

    fn usage(case: &Case) -> Value {
        let [input, output, read, write] = case.reply.usage;
        let input = input - read - write;
        json!({"inputTokens": input, "outputTokens": output, "totalTokens": input + output,
               "cacheReadInputTokens": read, "cacheWriteInputTokens": write})
    }
}

impl Format for Bedrock {
    fn name(&self) -> &'static str {
        "bedrock"
    }

    fn options(&self) -> Value {
        json!({"provider": "bedrock", "model": self.model})
    }

    fn thinking(&self) -> Option<Value> {
        Some(json!({"thinking": true}))
    }

    fn rules(&self, seen: &Request, streamed: bool) -> Vec<String> {
        let (body, mut broken) = (&seen.body, Vec::new());
        let b = &mut broken;
        let verb = if streamed { "converse-stream" } else { "converse" };
        let path = format!("/model/{}/{verb}", self.model.replace(':', "%3A"));
        require(b, seen.target() == path, "the model is in the path, percent-encoded");
        let authorization = seen.header("authorization").unwrap_or_default();
        let scope =
            "AWS4-HMAC-SHA256 Credential=AKID/20231114/us-east-1/bedrock/aws4_request, SignedHeaders=";
        require(b, authorization.starts_with(scope), "the request is signed");
        let signed =
            authorization.split("SignedHeaders=").nth(1).and_then(|s| s.split(',').next()).unwrap_or("");
        require(b, signed.split(';').any(|h| h == "host"), "the host is signed");
        require(b, seen.header("x-amz-date") == Some("20231114T221320Z"), "the date is that of the clock");
        let messages = body["messages"].as_array().unwrap();
        require(b, messages[0]["role"] == "user", "the user speaks first");
        for pair in messages.windows(2) {
            require(b, pair[0]["role"] != pair[1]["role"], "roles alternate");
            let ids = |message: &Value, kind: &str| -> Vec<Value> {
                let blocks = message["content"].as_array().unwrap();
                blocks.iter().filter_map(|c| c.get(kind)).map(|c| c["toolUseId"].clone()).collect()
            };
            require(
                b,
                ids(&pair[0], "toolUse") == ids(&pair[1], "toolResult"),
                "every toolUse has its toolResult",
            );
        }
        let uses_tools = body["messages"].to_string().contains("\"toolUse\"");
        let fields = &body["additionalModelRequestFields"]["thinking"];
        if let Some(budget) = fields["budget_tokens"].as_i64() {
            let most = body["inferenceConfig"]["maxTokens"].as_i64();
            require(b, most.is_some_and(|most| most > budget), "maxTokens is above the budget of thinking");
        }
        require(b, !uses_tools || body.get("toolConfig").is_some(), "a history with tools needs toolConfig");
        broken
    }

    fn whole(&self, case: &Case) -> Option<Value> {
        Some(json!({"output": {"message": {"role": "assistant", "content": self.content(case)}},
            "stopReason": self.stop(case), "usage": Self::usage(case), "metrics": {"latencyMs": 12}}))
    }

    fn stream(&self, case: &Case) -> Option<(&'static str, Vec<u8>)> {
        let mut out = event("messageStart", &json!({"role": "assistant"}));
        for (index, block) in self.content(case).iter().enumerate() {
            let mut delta = |delta: Value| {
                out.extend(event("contentBlockDelta", &json!({"contentBlockIndex": index, "delta": delta})));
            };
            if let Some(text) = block["text"].as_str() {
                tokens(text).into_iter().for_each(|text| delta(json!({"text": text})));
            } else if let Some(thought) = block.get("reasoningContent") {
                let part = &thought["reasoningText"];
                let of_reasoning = |part: Value| json!({"reasoningContent": part});
                for text in tokens(part["text"].as_str().unwrap()) {
                    delta(of_reasoning(json!({"text": text})));
                }
                delta(of_reasoning(json!({"signature": part["signature"]})));
            } else {
                let call = &block["toolUse"];
                let start = json!({"toolUse": {"toolUseId": call["toolUseId"], "name": call["name"]}});
                let start = json!({"contentBlockIndex": index, "start": start});
                out.extend(event("contentBlockStart", &start));
                for input in halves(&call["input"]) {
                    let delta = json!({"contentBlockIndex": index, "delta": {"toolUse": {"input": input}}});
                    out.extend(event("contentBlockDelta", &delta));
                }
            }
            out.extend(event("contentBlockStop", &json!({"contentBlockIndex": index})));
        }
        out.extend(event("messageStop", &json!({"stopReason": self.stop(case)})));
        let metadata = json!({"usage": Self::usage(case), "metrics": {"latencyMs": 12}});
        out.extend(event("metadata", &metadata));
        Some(("application/vnd.amazon.eventstream", out))
    }

    fn adjust(&self, case: &Case, expected: &mut Value) {
        if case.reply.stop == Stop::Refusal {
            expected["stop_reason"] = "content_filter".into();
        }
    }
}
