//! The test cases: requests and replies, independent of the wire format.

use harn_value::{Data as Value, json};

/// The reason why the model stopped.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Stop {
    End,
    Length,
    Tools,
    Refusal,
}

/// The reply of a server.
#[derive(Debug, Clone)]
pub struct Reply {
    pub thinking: &'static str,
    pub text: &'static str,
    /// Id, name, arguments.
    pub calls: Vec<(&'static str, &'static str, Value)>,
    /// Input, output, read from the cache, written to it.
    pub usage: [i64; 4],
    /// The reasoning tokens within the output, for formats that report them.
    pub reasoning: i64,
    pub stop: Stop,
}

#[derive(Debug, Clone)]
pub struct Case {
    pub name: &'static str,
    pub options: Value,
    pub thinks: bool,
    pub reply: Reply,
}

impl Case {
    fn new(name: &'static str, options: Value) -> Case {
        let reply = Reply {
            thinking: "",
            text: "Grüße, 世界 😀 \"quoted\" \\ done.",
            calls: Vec::new(),
            usage: [900, 20, 0, 0],
            reasoning: 0,
            stop: Stop::End,
        };
        Case { name, options, thinks: false, reply }
    }

    /// Returns the expected fields of the result dict.
    pub fn expected(&self) -> Value {
        let r = &self.reply;
        let [input, output, read, write] = r.usage;
        let call =
            |(id, name, args): &(&str, &str, Value)| json!({"id": id, "name": name, "arguments": args});
        let mut out = json!({
            "text": r.text, "input_tokens": input, "output_tokens": output,
            "cache_read_tokens": read, "cache_write_tokens": write,
            "stop_reason": match r.stop {
                Stop::End => "end_turn",
                Stop::Length => "max_tokens",
                Stop::Tools => "tool_use",
                Stop::Refusal => "refusal",
            },
            "thinking": if r.thinking.is_empty() { Value::Null } else { r.thinking.into() },
        });
        if !r.calls.is_empty() {
            out["tool_calls"] = r.calls.iter().map(call).collect();
        }
        if self.name == "json" {
            out["data"] = serde_json::from_str(r.text).unwrap();
        }
        out
    }
}

fn tools() -> Value {
    json!([
        {"name": "get_weather", "description": "Weather of a city", "returns": {"type": "string"}, "namespace": "sky",
         "parameters": {"city": "string", "days": {"type": "int", "required": false}, "where": {"type": "dict"}}},
        {"name": "now", "description": "The time", "parameters": {}},
    ])
}

pub fn cases() -> Vec<Case> {
    let mut plain = Case::new(
        "plain",
        json!({"system": "Be kind.", "max_tokens": 64, "temperature": 0.5, "stop": ["END"]}),
    );
    plain.reply.usage = [900, 20, 300, 40];

    let mut calls = Case::new("tools", json!({"tools": tools(), "tool_choice": "auto"}));
    calls.reply.text = "Let me look.";
    calls.reply.calls = vec![
        ("id_1", "get_weather", json!({"city": "Zürich \"HB\"", "days": 2})),
        ("id_2", "now", json!({})),
    ];
    calls.reply.stop = Stop::Tools;

    let turn = json!([
        {"role": "user", "content": "Weather?"},
        {"role": "assistant", "content": "Let me look.", "tool_calls": [
            {"id": "id_1", "type": "function", "function": {"name": "get_weather", "arguments": "{\"city\":\"Rome\"}"}},
            {"id": "id_2", "type": "function", "function": {"name": "now", "arguments": "{}"}}]},
        {"role": "tool_result", "tool_use_id": "id_1", "content": "sun"},
        {"role": "tool_result", "tool_use_id": "id_2", "content": [{"type": "text", "text": "noon"}]},
        {"role": "user", "content": "And?"},
    ]);
    let results =
        Case::new("results", json!({"tools": tools(), "tool_choice": {"name": "now"}, "messages": turn}));

    let picture = json!([{"role": "user", "content": [
        {"type": "text", "text": "What is it?"},
        {"type": "image", "base64": "iVBORw0KGgo=", "media_type": "image/png"}]}]);
    let image = Case::new("image", json!({"messages": picture}));

    let schema =
        json!({"type": "object", "properties": {"answer": {"type": "integer"}}, "required": ["answer"]});
    let mut structured = Case::new("json", json!({"schema": schema}));
    structured.reply.text = "{\"answer\":42}";

    let mut thinking = Case::new("thinking", json!({"max_tokens": 20000}));
    thinking.thinks = true;
    thinking.reply.thinking = "Hm, größer?";

    let mut length = Case::new("length", json!({"max_tokens": 16}));
    length.reply.stop = Stop::Length;

    let mut refusal = Case::new("refusal", json!({}));
    refusal.reply.text = "I cannot help with that.";
    refusal.reply.stop = Stop::Refusal;

    vec![plain, calls, results, image, structured, thinking, length, refusal]
}
