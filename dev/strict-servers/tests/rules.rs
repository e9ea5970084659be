//! Each rule rejects the request that breaks it, and names its source.

use std::collections::BTreeSet;

use harn_strict_servers::{Api, Request, answer, of_conversation, rule_names, violation};
use harn_value::{Data as Value, json};

fn request(target: &str, body: &Value) -> Request {
    Request::parse(
        &format!("POST {target} HTTP/1.1\r\ncontent-type: application/json"),
        body.to_string().as_bytes(),
    )
}

const ANTHROPIC: &str = "/v1/messages";
const CHAT: &str = "/v1/chat/completions";
const GEMINI: &str = "/v1beta/models/gemini-2.5-pro:generateContent";
const NOVA: &str = "/model/amazon.nova-pro-v1%3A0/converse";
const OLLAMA: &str = "/api/chat";

fn claude(messages: Value, more: Value) -> Value {
    let mut body = json!({"model": "claude-sonnet-4-5", "max_tokens": 8000, "messages": messages});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

fn gpt(model: &str, messages: Value, more: Value) -> Value {
    let mut body = json!({"model": model, "messages": messages});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

fn hi() -> Value {
    json!([{"role": "user", "content": "hi"}])
}

fn chat_call(id: &str, name: &str, arguments: &str) -> Value {
    json!({"role": "assistant", "tool_calls": [{"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}]})
}

/// The rule, the target, and a body that breaks the rule.
fn broken() -> Vec<(&'static str, &'static str, Value)> {
    let none = || json!({});
    let tools = || json!({"tools": [{"name": "look", "input_schema": {"type": "object"}}]});
    let user = |content: Value| json!({"role": "user", "content": content});
    let model = |content: Value| json!({"role": "assistant", "content": content});
    let call = |id: &str| json!([{"type": "tool_use", "id": id, "name": "look", "input": {}}]);
    let result = |id: &str| json!([{"type": "tool_result", "tool_use_id": id, "content": "r"}]);
    let spoken = |role: &str, text: &str| json!({"role": role, "parts": [{"text": text}]});
    let text = |role: &str, text: &str| json!({"role": role, "content": [{"text": text}]});
    let thinking = || json!({"thinking": {"type": "enabled", "budget_tokens": 1024}});
    let mut thinking_tools = tools();
    thinking_tools["thinking"] = thinking()["thinking"].clone();
    vec![
        ("shape", ANTHROPIC, json!({"model": "claude-sonnet-4-5", "messages": hi()})),
        ("shape", CHAT, gpt("gpt-4o", hi(), json!({"max_token": 5}))),
        ("no_messages", OLLAMA, json!({"model": "m", "messages": []})),
        ("model_begins", ANTHROPIC, claude(json!([model("hi".into())]), none())),
        ("alternate", ANTHROPIC, claude(json!([user("a".into()), user("b".into())]), none())),
        ("ends_with_model", NOVA, json!({"messages": [text("user", "a"), text("assistant", "b")]})),
        ("ends_with_model", GEMINI, json!({"contents": [spoken("user", "a"), spoken("model", "b")]})),
        ("blank", ANTHROPIC, claude(json!([user(" \n".into())]), none())),
        ("no_content", CHAT, gpt("gpt-4o", json!([{"role": "user", "content": []}]), none())),
        (
            "role",
            "/api/generate",
            json!({"model": "m", "raw": true, "prompt": "<|im_start|>root\nx<|im_end|><|im_start|>assistant\n"}),
        ),
        ("block_kind", ANTHROPIC, claude(json!([user(call("a"))]), none())),
        (
            "signature",
            ANTHROPIC,
            claude(
                json!([
                    user("a".into()),
                    model(json!([{"type": "thinking", "thinking": "x", "signature": " "}]))
                ]),
                none(),
            ),
        ),
        (
            "thinking_first",
            ANTHROPIC,
            claude(json!([user("a".into()), model(call("x")), user(result("x"))]), thinking_tools),
        ),
        (
            "id",
            CHAT,
            gpt("gpt-4o", json!([user("a".into()), chat_call(&"x".repeat(41), "look", "{}")]), none()),
        ),
        (
            "id",
            CHAT,
            gpt("mistral-large", json!([user("a".into()), chat_call("call_1", "look", "{}")]), none()),
        ),
        (
            "id_twice",
            CHAT,
            gpt(
                "gpt-4o",
                json!([user("a".into()), chat_call("x", "look", "{}"), {"role": "tool", "tool_call_id": "x", "content": "r"},
            user("b".into()), chat_call("x", "look", "{}")]),
                none(),
            ),
        ),
        ("name", CHAT, gpt("gpt-4o", json!([user("a".into()), chat_call("x", "my tool", "{}")]), none())),
        ("arguments", CHAT, gpt("gpt-4o", json!([user("a".into()), chat_call("x", "look", "[]")]), none())),
        ("orphan_result", ANTHROPIC, claude(json!([user(result("x"))]), none())),
        (
            "open_call",
            ANTHROPIC,
            claude(json!([user("a".into()), model(call("x")), user("b".into())]), tools()),
        ),
        (
            "results_first",
            ANTHROPIC,
            claude(
                json!([
                    user("a".into()),
                    model(call("x")),
                    user(
                        json!([{"type": "text", "text": "t"}, {"type": "tool_result", "tool_use_id": "x", "content": "r"}])
                    )
                ]),
                tools(),
            ),
        ),
        (
            "other_tool",
            OLLAMA,
            json!({"model": "m", "messages": [user("a".into()),
            {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "look", "arguments": {}}}]},
            {"role": "tool", "tool_name": "other", "content": "r"}]}),
        ),
        (
            "result_kind",
            "/v1/responses",
            json!({"model": "gpt-5.4", "input": [{"type": "function_call", "call_id": "x", "name": "look", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "x", "output": [{"type": "input_audio"}]}]}),
        ),
        (
            "calls_without_tools",
            ANTHROPIC,
            claude(json!([user("a".into()), model(call("x")), user(result("x"))]), none()),
        ),
        (
            "unknown_member",
            CHAT,
            gpt(
                "gpt-4o",
                json!([user("a".into()), {"role": "assistant", "content": "b", "reasoning_content": "c"}, user("d".into())]),
                none(),
            ),
        ),
        (
            "image",
            CHAT,
            gpt("gpt-4o", json!([user(json!([{"type": "image_url", "image_url": {"url": ""}}]))]), none()),
        ),
        (
            "template_tokens",
            "/api/generate",
            json!({"model": "m", "raw": true, "prompt": "<|im_start|>user\nx<|im_end|>"}),
        ),
        ("json_unnamed", CHAT, gpt("gpt-4o", hi(), json!({"response_format": {"type": "json_object"}}))),
        (
            "/response_format/type",
            CHAT,
            gpt(
                "deepseek-chat",
                hi(),
                json!({"response_format": {"type": "json_schema", "json_schema": {"name": "r", "schema": {"type": "object"}}}}),
            ),
        ),
        (
            "/tools",
            CHAT,
            gpt(
                "llama-3.3-70b-versatile",
                json!([user("As JSON.".into())]),
                json!({"response_format": {"type": "json_object"}, "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]}),
            ),
        ),
        ("/max_tokens", CHAT, gpt("o4-mini", hi(), json!({"max_tokens": 9}))),
        ("/temperature", CHAT, gpt("gpt-5", hi(), json!({"temperature": 0.5}))),
        ("/reasoning_effort", CHAT, gpt("gpt-4o", hi(), json!({"reasoning_effort": "low"}))),
        ("/chat_template_kwargs", CHAT, gpt("gpt-4o", hi(), json!({"chat_template_kwargs": {}}))),
        (
            "ends_with_model",
            ANTHROPIC,
            json!({"model": "claude-opus-4-7", "max_tokens": 9, "messages": [user("a".into()), model("b".into())]}),
        ),
        (
            "/temperature",
            ANTHROPIC,
            json!({"model": "claude-opus-4-7", "max_tokens": 9, "messages": hi(), "temperature": 0.5}),
        ),
        (
            "/thinking/type",
            ANTHROPIC,
            json!({"model": "claude-opus-4-7", "max_tokens": 9000, "messages": hi(), "thinking": thinking()["thinking"]}),
        ),
        ("/top_k", ANTHROPIC, claude(hi(), json!({"thinking": thinking()["thinking"], "top_k": 3}))),
        (
            "/tool_choice/type",
            ANTHROPIC,
            claude(
                hi(),
                json!({"thinking": thinking()["thinking"], "tools": tools()["tools"], "tool_choice": {"type": "any"}}),
            ),
        ),
        ("/top_p", ANTHROPIC, claude(hi(), json!({"temperature": 0.5, "top_p": 0.5}))),
    ]
}

#[test]
fn each_rule_rejects_what_breaks_it() {
    let mut fired = BTreeSet::new();
    for (rule, target, body) in broken() {
        assert!(violation(&request(target, &body)).is_some(), "{rule}");
        let found = match rule {
            "shape" => violation(&request(target, &body)),
            _ => of_conversation(Api::of(target).unwrap(), target, &body),
        };
        let found = found.unwrap_or_else(|| panic!("{rule} accepts {body:#}"));
        assert_eq!(found.rule, rule, "{found}");
        assert!(found.source.starts_with("https://"), "{found}");
        fired.insert(found.rule);
    }
    let silent: Vec<&str> = rule_names().filter(|name| !fired.contains(*name)).collect();
    assert!(silent.is_empty(), "no request of this test breaks {silent:?}");
}

#[test]
fn a_request_that_is_rejected_gets_an_error_of_the_provider() {
    let body = claude(json!([]), json!({}));
    let reply = String::from_utf8(answer("t", &request(ANTHROPIC, &body), b"canned")).unwrap();
    assert!(reply.starts_with("HTTP/1.1 400 ") && reply.contains("invalid_request_error"), "{reply}");
    let good = request(ANTHROPIC, &claude(hi(), json!({})));
    assert_eq!(answer("t", &good, b"canned"), b"canned");
    // Requests to other addresses are not checked.
    assert_eq!(answer("t", &request("/health", &json!({})), b"canned"), b"canned");
}
