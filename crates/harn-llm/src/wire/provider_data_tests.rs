//! Tests that opaque provider data is sent back unchanged with its turn after it was parsed, stored as a message and
//! serialized as JSON, and that other providers do not receive it.

use harn_value::{Data as Value, json};

use super::{ReplyReader, WireStyle, encode};
use crate::conversation::Conversation;
use crate::request::Request;
use crate::response::{Response, ResponseBuilder};
use crate::sample;
use crate::transcript::assistant_message;

fn request(provider: &str, model: &str, style: WireStyle, more: Value) -> Request {
    let mut options = json!({"tools": [{"name": "look"}]});
    options.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let mut request = sample::request(provider, model, options);
    request.route.style = style;
    request
}

fn read(request: &Request, body: &str, streamed: bool) -> Response {
    let (mut reader, mut events) = (ReplyReader::new(request, streamed), Vec::new());
    // Splits the body into single bytes, to test all chunk boundaries.
    body.as_bytes().iter().for_each(|byte| reader.feed(&[*byte], &mut events).unwrap());
    reader.finish(request, "application/json", &mut events).unwrap();
    let mut builder = ResponseBuilder::default();
    events.iter().for_each(|event| builder.push(event));
    let route = &request.route;
    builder.finish(&route.provider, &route.model, route.dialect).unwrap()
}

fn sse(events: &[Value]) -> String {
    events
        .iter()
        .map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or("x")))
        .collect()
}

/// Returns the conversation with the turn, serialized and parsed again, and with results of its calls.
fn continued(style: WireStyle, response: &Response) -> Conversation {
    let mut talk = Conversation::from_json(&[json!({"role": "user", "content": "go"})]).unwrap();
    let stored = serde_json::to_string(&assistant_message(style, response)).unwrap();
    talk.push_json(serde_json::from_str(&stored).unwrap()).unwrap();
    for call in &response.tool_calls {
        talk.push_json(json!({"role": "tool", "tool_call_id": call.id, "content": "r"})).unwrap();
    }
    talk
}

/// Returns the body of the next request to a provider.
fn next(request: &Request, talk: &Conversation) -> Value {
    encode(&Request { messages: talk.clone(), ..request.clone() }).unwrap().body.to_json()
}

fn others() -> Vec<Request> {
    use WireStyle::*;
    [
        ("anthropic", "claude-sonnet-4-5", Anthropic),
        ("openai", "gpt-4o", OpenAiChat),
        ("openai", "gpt-5.4", OpenAiResponses),
        ("gemini", "gemini-2.5-pro", Gemini),
        ("bedrock", "anthropic.claude-sonnet-4-20250514-v1:0", Bedrock),
        ("ollama", "llama3.2", OllamaChat),
    ]
    .into_iter()
    .map(|(provider, model, style)| request(provider, model, style, json!({"thinking": true})))
    .collect()
}

fn assert_left_out(own: WireStyle, talk: &Conversation, marks: &[&str]) {
    for other in others().iter().filter(|other| other.route.style != own) {
        let text = next(other, talk).to_string();
        for mark in marks {
            assert!(!text.contains(mark), "{:?} gets {mark}: {text}", other.route.style);
        }
    }
}

#[test]
fn signatures_and_ids_of_gemini() {
    let request = request("gemini", "gemini-3-pro-preview", WireStyle::Gemini, json!({}));
    let parts = json!([{"text": "I look.", "thoughtSignature": "SIG-T"},
        {"functionCall": {"id": "fc-1", "name": "look", "args": {"q": 1}}, "thoughtSignature": "SIG-C"},
        {"functionCall": {"name": "look", "args": {"q": 2}}}]);
    let mut said = parts.as_array().unwrap().clone();
    said.insert(0, json!({"text": "Hm.", "thought": true}));
    let reply = json!({"candidates": [{"content": {"parts": said}, "finishReason": "STOP"}]});
    for (body, streamed) in [(reply.to_string(), false), (sse(std::slice::from_ref(&reply)), true)] {
        let response = read(&request, &body, streamed);
        assert_eq!(response.thinking.as_deref(), Some("Hm."));
        let talk = continued(WireStyle::Gemini, &response);
        let sent = next(&request, &talk);
        assert_eq!(sent["contents"][1]["parts"], parts);
        assert_eq!(sent["contents"][2]["parts"][0]["functionResponse"]["id"], "fc-1");
        assert_eq!(sent["contents"][2]["parts"][1]["functionResponse"].get("id"), None);
        assert_left_out(WireStyle::Gemini, &talk, &["SIG-"]);
    }
    // A call that another model made gets the placeholder signature.
    let call = json!([{"id": "a", "function": {"name": "look", "arguments": "{}"}}]);
    let foreign = Conversation::from_json(&[
        json!({"role": "user", "content": "go"}),
        json!({"role": "assistant", "tool_calls": call}),
    ]);
    let sent = next(&request, &foreign.unwrap());
    assert_eq!(sent["contents"][1]["parts"][0]["thoughtSignature"], super::gemini::UNSIGNED);
}

#[test]
fn blocks_of_claude() {
    let request = request("anthropic", "claude-sonnet-4-5", WireStyle::Anthropic, json!({"thinking": true}));
    let content = json!([
        {"type": "thinking", "thinking": "hm", "signature": "SIG-1"},
        {"type": "redacted_thinking", "data": "RED"},
        {"type": "thinking", "thinking": "", "signature": "SIG-2"},
        {"type": "text", "text": "I look."},
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "tool_search_tool_bm25", "input": {"query": "x"}},
        {"type": "tool_search_tool_result", "tool_use_id": "srvtoolu_1", "content": {"type": "tool_search_tool_search_result",
            "tool_references": [{"type": "tool_reference", "tool_name": "look"}]}},
        {"type": "tool_use", "id": "t1", "name": "look", "input": {"q": 1}}]);
    let whole = json!({"type": "message", "content": content, "stop_reason": "tool_use"});
    let mut events = vec![json!({"type": "message_start", "message": {"model": "m", "usage": {}}})];
    for (index, block) in content.as_array().unwrap().iter().enumerate() {
        let mut start = block.clone();
        let deltas = match block["type"].as_str().unwrap() {
            "thinking" => {
                (start["thinking"], start["signature"]) = ("".into(), "".into());
                vec![
                    json!({"type": "thinking_delta", "thinking": block["thinking"]}),
                    json!({"type": "signature_delta", "signature": block["signature"]}),
                ]
            }
            "text" => {
                start["text"] = "".into();
                vec![json!({"type": "text_delta", "text": block["text"]})]
            }
            "tool_use" | "server_tool_use" => {
                start["input"] = json!({});
                vec![json!({"type": "input_json_delta", "partial_json": block["input"].to_string()})]
            }
            _ => Vec::new(),
        };
        events.push(json!({"type": "content_block_start", "index": index, "content_block": start}));
        let delta = |delta| json!({"type": "content_block_delta", "index": index, "delta": delta});
        events.extend(deltas.into_iter().map(delta));
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    events.push(json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}}));
    events.push(json!({"type": "message_stop"}));
    for (body, streamed) in [(whole.to_string(), false), (sse(&events), true)] {
        let response = read(&request, &body, streamed);
        let talk = continued(WireStyle::Anthropic, &response);
        assert_eq!(next(&request, &talk)["messages"][1]["content"], content, "streamed {streamed}");
        assert_left_out(WireStyle::Anthropic, &talk, &["SIG-", "RED", "srvtoolu_1"]);
        // Without thinking, only the reasoning is left out.
        let plain = Request { thinking: crate::options::Thinking::Disabled, ..request.clone() };
        let kinds: Vec<Value> = next(&plain, &talk)["messages"][1]["content"]
            .as_array()
            .unwrap()
            .iter()
            .map(|b| b["type"].clone())
            .collect();
        assert_eq!(
            Value::from(kinds),
            json!(["text", "server_tool_use", "tool_search_tool_result", "tool_use"])
        );
    }
}

#[test]
fn reasoning_of_openai_style_servers() {
    let details = json!([{"type": "reasoning.text", "text": "think", "signature": "SIG", "format": "anthropic-claude-v1", "index": 0},
                         {"type": "reasoning.encrypted", "data": "ENC", "index": 1}]);
    let call = json!({"index": 0, "id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"},
                      "extra_content": {"google": {"thought_signature": "GSIG"}}});
    let chunk = |delta: Value| json!({"choices": [{"index": 0, "delta": delta}]});
    let openrouter = request("openrouter", "anthropic/claude-sonnet-4", WireStyle::OpenAiChat, json!({}));
    let streamed = sse(&[
        chunk(
            json!({"reasoning_details": [{"type": "reasoning.text", "text": "thi", "format": "anthropic-claude-v1", "index": 0}]}),
        ),
        chunk(json!({"reasoning_details": [{"type": "reasoning.text", "text": "nk", "index": 0}]})),
        chunk(json!({"reasoning_details": [{"type": "reasoning.text", "signature": "SIG", "index": 0}]})),
        chunk(json!({"reasoning_details": [details[1]]})),
        chunk(json!({"tool_calls": [call]})),
        json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}),
    ]);
    let message = json!({"content": null, "reasoning_details": details, "tool_calls": [call]});
    let whole = json!({"choices": [{"message": message, "finish_reason": "tool_calls"}]}).to_string();
    for (body, is_stream) in [(whole, false), (streamed, true)] {
        let response = read(&openrouter, &body, is_stream);
        let talk = continued(WireStyle::OpenAiChat, &response);
        let turn = next(&openrouter, &talk)["messages"][1].clone();
        let sorted =
            |list: &Value| list.as_array().unwrap().iter().map(crate::json::canonical).collect::<Vec<_>>();
        assert_eq!(sorted(&turn["reasoning_details"]), sorted(&details), "stream {is_stream}");
        assert_eq!(turn["tool_calls"][0]["extra_content"], call["extra_content"]);
        assert_left_out(WireStyle::OpenAiChat, &talk, &["SIG", "ENC"]);
        // For a gateway, another vendor's model is treated as another provider.
        let other = request("openrouter", "google/gemini-2.5-pro", WireStyle::OpenAiChat, json!({}));
        assert!(!next(&other, &talk).to_string().contains("SIG"));
    }
    let deepseek = request("deepseek", "deepseek-v4-pro", WireStyle::OpenAiChat, json!({}));
    let message = json!({"content": "", "reasoning_content": "think", "tool_calls": [call]});
    let body = json!({"choices": [{"message": message, "finish_reason": "tool_calls"}]}).to_string();
    let talk = continued(WireStyle::OpenAiChat, &read(&deepseek, &body, false));
    assert_eq!(next(&deepseek, &talk)["messages"][1]["reasoning_content"], "think");
    assert_left_out(WireStyle::OpenAiChat, &talk, &["reasoning_content"]);
}

#[test]
fn items_of_responses() {
    let request =
        request("openai", "gpt-5.4", WireStyle::OpenAiResponses, json!({"reasoning_effort": "low"}));
    let reasoning = json!({"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "s"}], "encrypted_content": "ENC"});
    let second = json!({"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "ENC2"});
    let items = json!([reasoning,
        {"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": "I look.", "annotations": []}]},
        second,
        {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "look", "arguments": "{}"}]);
    let whole = json!({"status": "completed", "output": items}).to_string();
    let mut events = Vec::new();
    for (index, item) in items.as_array().unwrap().iter().enumerate() {
        events.push(json!({"type": "response.output_item.added", "output_index": index, "item": item}));
        if item["type"] == "reasoning" {
            events.push(
                json!({"type": "response.reasoning_summary_text.delta", "output_index": index, "delta": "s"}),
            );
        }
        events.push(json!({"type": "response.output_item.done", "output_index": index, "item": item}));
    }
    events.push(json!({"type": "response.completed", "response": {"status": "completed"}}));
    for (body, streamed) in [(whole, false), (sse(&events), true)] {
        let talk = continued(WireStyle::OpenAiResponses, &read(&request, &body, streamed));
        let sent = next(&request, &talk);
        assert_eq!(sent["include"], json!(["reasoning.encrypted_content"]));
        assert_eq!(sent["input"][1], reasoning);
        assert_eq!(sent["input"][2]["content"], "I look.");
        assert_eq!(sent["input"][3], second);
        assert_eq!(sent["input"][4]["call_id"], "c1");
        assert_left_out(WireStyle::OpenAiResponses, &talk, &["ENC", "rs_1"]);
    }
}

#[test]
fn reasoning_of_bedrock() {
    let request = |model, options| request("bedrock", model, WireStyle::Bedrock, options);
    let claude = "anthropic.claude-sonnet-4-20250514-v1:0";
    let thought = json!({"reasoningContent": {"reasoningText": {"text": "hm", "signature": "SIG"}}});
    let redacted = json!({"reasoningContent": {"redactedContent": "RED"}});
    let call = json!({"toolUse": {"toolUseId": "t1", "name": "look", "input": {}}});
    let content = json!([thought, redacted, call]);
    let body = json!({"output": {"message": {"content": content}}, "stopReason": "tool_use"}).to_string();
    let thinks = request(claude, json!({"thinking": true}));
    let talk = continued(WireStyle::Bedrock, &read(&thinks, &body, false));
    let sent = next(&thinks, &talk);
    assert_eq!(sent["messages"][1]["content"], content);
    assert_eq!(sent["additionalModelRequestFields"]["thinking"]["type"], "enabled");
    assert_left_out(WireStyle::Bedrock, &talk, &["SIG", "RED"]);
    // Without thinking, Claude receives only the call; other models reason by default.
    assert_eq!(next(&request(claude, json!({})), &talk)["messages"][1]["content"], json!([call]));
    let talk = continued(WireStyle::Bedrock, &read(&request("deepseek.r1-v1:0", json!({})), &body, false));
    assert_eq!(next(&request("deepseek.r1-v1:0", json!({})), &talk)["messages"][1]["content"], content);
    // A loop that started without thinking continues without it.
    let calls = json!([{"id": "a", "function": {"name": "look", "arguments": "{}"}}]);
    let begun = Conversation::from_json(&[
        json!({"role": "user", "content": "go"}),
        json!({"role": "assistant", "tool_calls": calls}),
        json!({"role": "tool", "tool_call_id": "a", "content": "r"}),
    ]);
    assert_eq!(next(&thinks, &begun.unwrap()).get("additionalModelRequestFields"), None);
}
