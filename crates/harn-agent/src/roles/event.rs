//! The events of a run, as dicts with a `type`.

use harn_prompt::value::object;
use harn_value::{Data as Value, json};

/// Token usage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the prompts.
    pub prompt: i64,
    /// Tokens of the completions.
    pub completion: i64,
}

impl Usage {
    /// Adds the usage of another call.
    pub fn add(&mut self, other: Usage) {
        self.prompt = self.prompt.saturating_add(other.prompt);
        self.completion = self.completion.saturating_add(other.completion);
    }

    /// Reads `{promptTokens, completionTokens}`; missing numbers are 0.
    #[must_use]
    pub fn read(value: &Value) -> Usage {
        let number = |key: &str| value[key].as_i64().unwrap_or(0).max(0);
        Usage { prompt: number("promptTokens"), completion: number("completionTokens") }
    }

    /// Returns `{promptTokens, completionTokens, totalTokens}`.
    #[must_use]
    pub fn to_json(self) -> Value {
        object([
            ("promptTokens", self.prompt.into()),
            ("completionTokens", self.completion.into()),
            ("totalTokens", self.prompt.saturating_add(self.completion).into()),
        ])
    }
}

/// Creates the event of a step that starts.
#[must_use]
pub fn step_start() -> Value {
    json!({"type": "step-start"})
}

/// Creates an event with more user-visible text.
#[must_use]
pub fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// Creates an event with more of the model's reasoning.
#[must_use]
pub fn reasoning(text: &str) -> Value {
    json!({"type": "reasoning", "text": text})
}

/// Creates the event of a tool call, with its result if available.
#[must_use]
pub fn tool_invocation(id: &str, tool: &str, args: &Value, result: Option<&Value>) -> Value {
    let mut event = json!({
        "type": "tool-invocation", "toolInvocationId": id, "toolName": tool, "args": args,
        "state": if result.is_some() { "result" } else { "call" },
    });
    if let Some(result) = result {
        event["result"] = result.clone();
    }
    event
}

/// Creates the event of an agent that starts (`call`) or has finished (`result`).
#[must_use]
pub fn tool_agent(agent: &str, id: &str, state: &str) -> Value {
    json!({"type": "tool-agent", "agentName": agent, "toolInvocationId": id, "state": state})
}

/// Creates an event whose content is its `data`.
#[must_use]
pub fn with_data(kind: &str, data: Value) -> Value {
    json!({"type": kind, "data": data})
}

/// Creates the event at the end of a run.
#[must_use]
pub fn finish(reason: &str, usage: Usage) -> Value {
    json!({"type": "finish", "finishReason": reason, "usage": usage.to_json()})
}

/// Creates the event at the end of a failed run.
#[must_use]
pub fn error(message: &str, code: Option<&str>) -> Value {
    let mut error = json!({"message": message});
    if let Some(code) = code {
        error["code"] = code.into();
    }
    json!({"type": "error", "error": error})
}

/// Converts the stop reason of a model call to a finish reason.
#[must_use]
pub fn finish_reason(stop_reason: &str) -> &str {
    match stop_reason {
        "" | "end_turn" | "stop_sequence" | "stop" => "stop",
        "max_tokens" | "length" => "length",
        "tool_use" | "tool_calls" => "tool-calls",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_adds_up() {
        let mut usage = Usage::read(&json!({"promptTokens": 2, "completionTokens": 3}));
        usage.add(Usage { prompt: i64::MAX, completion: 1 });
        assert_eq!(usage, Usage { prompt: i64::MAX, completion: 4 });
        assert_eq!(Usage::read(&json!("x")).to_json()["totalTokens"], 0);
    }

    #[test]
    fn stop_reasons_have_words() {
        assert_eq!(finish_reason("end_turn"), "stop");
        assert_eq!(finish_reason("max_tokens"), "length");
        assert_eq!(finish_reason("tool_use"), "tool-calls");
        assert_eq!(finish_reason("refusal"), "refusal");
    }
}
