//! Amazon's Converse: signed, and never streamed.

use harn_value::{Data as Value, json};

use crate::cases::{Case, Stop};
use crate::{Format, Request, require};

pub struct Bedrock {
    pub model: &'static str,
}

/// What only the API can read of a thought; it wants it back.
const SIGNATURE: &str = "c2lnbmVk";

impl Bedrock {
    /// Whether a tool stands for the reply: the model has no format for it.
    fn calls_json(&self, case: &Case) -> bool {
        case.name == "json" && !["-4-5", "-4-6"].iter().any(|version| self.model.contains(version))
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

    fn rules(&self, seen: &Request, _streamed: bool) -> Vec<String> {
        let (body, mut broken) = (&seen.body, Vec::new());
        let b = &mut broken;
        let path = format!("/model/{}/converse", self.model.replace(':', "%3A"));
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
        let stop = match r.stop {
            Stop::End if self.calls_json(case) => "tool_use",
            Stop::End => "end_turn",
            Stop::Length => "max_tokens",
            Stop::Tools => "tool_use",
            Stop::Refusal => "guardrail_intervened",
        };
        let [input, output, read, write] = r.usage;
        let input = input - read - write;
        Some(json!({"output": {"message": {"role": "assistant", "content": content}}, "stopReason": stop,
            "usage": {"inputTokens": input, "outputTokens": output, "totalTokens": input + output,
                      "cacheReadInputTokens": read, "cacheWriteInputTokens": write},
            "metrics": {"latencyMs": 12}}))
    }

    fn stream(&self, _case: &Case) -> Option<(&'static str, String)> {
        None
    }

    fn adjust(&self, case: &Case, expected: &mut Value) {
        if case.reply.stop == Stop::Refusal {
            expected["stop_reason"] = "content_filter".into();
        }
    }
}
