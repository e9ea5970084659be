//! Google's `generateContent`, on the public API and on Vertex AI.

use harn_value::{Data as Value, json};

use crate::cases::{Case, Stop};
use crate::{Format, Request, require, sse, tokens};

pub struct Gemini {
    pub provider: &'static str,
    pub model: &'static str,
}

/// The opaque signature of a part, which the API requires in later requests.
const SIGNATURE: &str = "c2lnbmVk";

impl Gemini {
    fn usage(case: &Case) -> Value {
        let [input, output, read, _] = case.reply.usage;
        let said = output - case.reply.reasoning;
        json!({"promptTokenCount": input, "candidatesTokenCount": said, "totalTokenCount": input + output,
               "thoughtsTokenCount": case.reply.reasoning, "cachedContentTokenCount": read})
    }

    fn parts(case: &Case) -> Vec<Value> {
        let r = &case.reply;
        let mut parts = Vec::new();
        if !r.thinking.is_empty() {
            parts.push(json!({"text": r.thinking, "thought": true}));
        }
        parts.extend(tokens(r.text).into_iter().map(|text| json!({"text": text})));
        for (_, name, args) in &r.calls {
            parts.push(json!({"functionCall": {"name": name, "args": args}}));
        }
        // The first of several calls is signed; without calls, the last part.
        let is_call = |part: &Value| part.get("functionCall").is_some();
        let signed = parts.iter().position(is_call).or(parts.len().checked_sub(1));
        if let Some(at) = signed.filter(|_| case.thinks) {
            parts[at]["thoughtSignature"] = SIGNATURE.into();
        }
        parts
    }

    fn stop(case: &Case) -> &'static str {
        match case.reply.stop {
            Stop::End | Stop::Tools => "STOP",
            Stop::Length => "MAX_TOKENS",
            Stop::Refusal => "SAFETY",
        }
    }
}

impl Format for Gemini {
    fn name(&self) -> &'static str {
        self.provider
    }

    fn options(&self) -> Value {
        json!({"provider": self.provider, "model": self.model})
    }

    fn thinking(&self) -> Option<Value> {
        Some(json!({"thinking": true}))
    }

    fn rules(&self, seen: &Request, streamed: bool) -> Vec<String> {
        let (body, mut broken) = (&seen.body, Vec::new());
        let b = &mut broken;
        let verb = if streamed { "streamGenerateContent?alt=sse" } else { "generateContent" };
        if self.provider == "vertex" {
            let path =
                format!("/projects/p1/locations/us-central1/publishers/google/models/{}:{verb}", self.model);
            require(b, seen.target() == path, "project, location, model and verb are in the address");
            require(b, seen.header("authorization") == Some("Bearer k-vertex"), "the token is a bearer");
        } else {
            require(
                b,
                seen.target() == format!("/v1beta/models/{}:{verb}", self.model),
                "model and verb are in the address",
            );
            require(b, seen.header("x-goog-api-key") == Some("k-gemini"), "the key is in x-goog-api-key");
        }
        let thinking = &body["generationConfig"]["thinkingConfig"];
        require(b, thinking.is_null() || thinking["includeThoughts"] == true, "thoughts are asked for");
        let contents = body["contents"].as_array().unwrap();
        require(b, contents[0]["role"] == "user", "the user speaks first");
        for pair in contents.windows(2) {
            let names = |turn: &Value, kind: &str| -> Vec<Value> {
                let parts = turn["parts"].as_array().unwrap();
                parts.iter().filter_map(|p| p.get(kind)).map(|c| c["name"].clone()).collect()
            };
            let (calls, answers) = (names(&pair[0], "functionCall"), names(&pair[1], "functionResponse"));
            require(b, calls == answers, "the turn after function calls has one response for each");
        }
        broken
    }

    fn whole(&self, case: &Case) -> Option<Value> {
        Some(json!({"candidates": [{"content": {"role": "model", "parts": Self::parts(case)},
                    "finishReason": Self::stop(case), "index": 0, "safetyRatings": []}],
                    "usageMetadata": Self::usage(case), "modelVersion": self.model, "responseId": "r1"}))
    }

    fn stream(&self, case: &Case) -> Option<(&'static str, Vec<u8>)> {
        let parts = Self::parts(case);
        let count = parts.len();
        let events: Vec<Value> = parts
            .into_iter()
            .enumerate()
            .map(|(n, part)| {
                let mut event = json!({"candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0}],
                    "usageMetadata": Self::usage(case), "modelVersion": self.model, "responseId": "r1"});
                if n + 1 == count {
                    event["candidates"][0]["finishReason"] = Self::stop(case).into();
                }
                event
            })
            .collect();
        Some(("text/event-stream", sse(&events, false).replace("\n\n", "\r\n\r\n").into_bytes()))
    }

    fn adjust(&self, case: &Case, expected: &mut Value) {
        expected["cache_write_tokens"] = 0.into();
        if case.reply.stop == Stop::Refusal {
            expected["stop_reason"] = "content_filter".into();
        }
        for (n, call) in expected["tool_calls"].as_array_mut().into_iter().flatten().enumerate() {
            call["id"] = format!("gemini_tool_{n}").into();
        }
    }
}
