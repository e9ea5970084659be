//! Tests that the request is valid for the provider for every conversation: random histories against the published
//! rules of each format.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use harn_strict_servers::{Api, of_conversation, record_request};
use harn_value::{Data as Value, json};
use proptest::prelude::*;

use super::{WireStyle, encode};
use crate::conversation::Conversation;
use crate::request::Request;
use crate::sample;

/// A provider, a model and its wire format.
struct Wire {
    provider: &'static str,
    model: &'static str,
    style: WireStyle,
}

fn wires() -> Vec<Wire> {
    use WireStyle::*;
    let wire = |provider, model, style| Wire { provider, model, style };
    vec![
        wire("anthropic", "claude-sonnet-4-20250514", Anthropic),
        wire("anthropic", "claude-opus-4-7", Anthropic),
        wire("openai", "gpt-4o", OpenAiChat),
        wire("openrouter", "moonshotai/kimi-k2", OpenAiChat),
        wire("openrouter", "mistralai/mistral-large", OpenAiChat),
        wire("openai", "gpt-5.4", OpenAiResponses),
        wire("ollama", "llama3.2", OllamaChat),
        wire("ollama", "qwen3:8b", OllamaRaw),
        wire("gemini", "gemini-2.5-pro", Gemini),
        wire("bedrock", "anthropic.claude-sonnet-4-20250514-v1:0", Bedrock),
        wire("bedrock", "amazon.nova-pro-v1:0", Bedrock),
    ]
}

fn text() -> impl Strategy<Value = String> {
    let usual = [
        "",
        " \n",
        "hi",
        "a longer text",
        "<|im_start|>system",
        "</tool_response>",
        "[result of x]",
        "ü\u{0}\u{feff}",
    ];
    prop_oneof![prop::sample::select(usual.to_vec()).prop_map(str::to_owned), ".{0,5}"]
}

fn id() -> impl Strategy<Value = Value> {
    let long = "x".repeat(90);
    let usual = ["a", "b", "call_0", "", "functions.look:0", "toolu_1", "ü ü", "a_2", "123456789"];
    let usual: Vec<Value> = usual.into_iter().map(Value::from).chain([long.into()]).collect();
    prop::sample::select(usual)
}

fn name() -> impl Strategy<Value = Value> {
    let long = format!("server__{}", "n".repeat(80));
    let usual = ["look", "t", "", "my tool", "9lives", "-x", "ns.do:it", "größe"];
    let usual: Vec<Value> = usual.into_iter().map(Value::from).chain([long.into()]).collect();
    prop::sample::select(usual)
}

fn arguments() -> impl Strategy<Value = Value> {
    let usual = [
        json!({}),
        json!({"q": 1}),
        json!([1]),
        json!("text"),
        json!("{\"q\": 1}"),
        json!("[2]"),
        json!("{"),
        Value::Null,
        json!(3),
    ];
    prop::sample::select(usual.to_vec())
}

fn result() -> impl Strategy<Value = Value> {
    prop_oneof![
        text().prop_map(Value::from),
        Just(json!({"k": [1]})),
        Just(Value::Null),
        Just(json!([{"type": "text", "text": "x"}])),
        Just(json!([{"type": "image", "base64": "AA==", "media_type": "image/png"}])),
    ]
}

fn block() -> impl Strategy<Value = Value> {
    prop_oneof![
        3 => text().prop_map(|text| json!({"type": "text", "text": text})),
        3 => (id(), name(), arguments()).prop_map(|(id, name, input)| json!({"type": "tool_use", "id": id, "name": name, "input": input})),
        3 => (id(), result()).prop_map(|(id, content)| json!({"type": "tool_result", "tool_use_id": id, "content": content})),
        1 => (text(), any::<bool>()).prop_map(|(text, signed)| if signed {
            json!({"type": "thinking", "thinking": text, "signature": "sig"})
        } else {
            json!({"type": "reasoning", "text": text, "visibility": "private"})
        }),
        1 => Just(json!({"type": "redacted_thinking", "data": "ENC"})),
        1 => Just(json!({"type": "image", "base64": "AA==", "media_type": "image/png"})),
        1 => Just(json!({"type": "image_url", "image_url": {"url": "https://x/y.png"}})),
        1 => Just(json!({"type": "own", "x": 1})),
    ]
}

fn message() -> impl Strategy<Value = Value> {
    let blocks = prop::collection::vec(block(), 0..4).prop_map(Value::from);
    let content = prop_oneof![text().prop_map(Value::from), blocks, Just(Value::Null)];
    let calls = prop::collection::vec((id(), name(), arguments()), 1..4);
    prop_oneof![
        2 => (prop::sample::select(vec!["user", "assistant"]), content).prop_map(|(role, content)| json!({"role": role, "content": content})),
        3 => (text(), calls).prop_map(|(text, calls)| {
            let calls: Vec<Value> = calls.into_iter().map(|(id, name, arguments)| {
                json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
            }).collect();
            json!({"role": "assistant", "content": text, "tool_calls": calls})
        }),
        4 => (id(), result()).prop_map(|(id, content)| json!({"role": "tool", "tool_call_id": id, "content": content})),
        1 => (name(), result()).prop_map(|(name, content)| json!({"role": "tool", "tool_name": name, "content": content})),
        1 => (prop::sample::select(vec!["system", "developer"]), text()).prop_map(|(role, text)| json!({"role": role, "content": text})),
    ]
}

type Requests = Rc<Vec<(Wire, Request)>>;

/// Returns a request of each format; the bits of `more` add tools, thinking and a prefill.
fn requests(more: u8) -> Requests {
    thread_local! {
        static MADE: RefCell<HashMap<u8, Requests>> = RefCell::default();
    }
    let make = || {
        let mut options = json!({});
        if more & 1 != 0 {
            options["tools"] = json!([{"name": "look"}, {"name": "ns.do:it"}]);
        }
        if more & 2 != 0 {
            options["thinking"] = true.into();
        }
        if has_prefill(more) {
            options["prefill"] = "so \n".into();
        }
        let request = |wire: Wire| {
            let mut request = sample::request(wire.provider, wire.model, options.clone());
            request.route.style = wire.style;
            if request.route.base_url.is_empty() {
                request.route.base_url = "https://bedrock".to_owned();
            }
            request.route.endpoint = match wire.style {
                WireStyle::OpenAiResponses => "/responses".to_owned(),
                WireStyle::OllamaChat => "/api/chat".to_owned(),
                WireStyle::OllamaRaw => "/api/generate".to_owned(),
                _ => request.route.endpoint,
            };
            (wire, request)
        };
        Rc::new(wires().into_iter().map(request).collect())
    };
    MADE.with(|made| made.borrow_mut().entry(more).or_insert_with(make).clone())
}

fn has_prefill(more: u8) -> bool {
    more & 12 == 12
}

fn body(request: &Request, messages: Conversation) -> Result<super::WireRequest, crate::error::CallError> {
    encode(&Request { messages, ..request.clone() })
}

/// Returns the number of bodies of each format that are recorded for `make wire-types`.
fn recorded() -> u32 {
    std::env::var("HARN_WIRE_HISTORIES").ok().and_then(|count| count.parse().ok()).unwrap_or(300)
}

/// Returns the number of histories per format.
fn histories() -> u32 {
    recorded().max(5000)
}

/// Tests 5,000 histories per provider and model, or `HARN_WIRE_HISTORIES` if that is more; `--nocapture` prints the
/// count.
#[test]
fn any_history_is_a_valid_request() {
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::new(ProptestConfig::with_cases(histories()));
    let strategy = (prop::collection::vec(message(), 0..9), 0..16u8);
    let valid = std::cell::Cell::new(0);
    let done = runner.run(&strategy, |(messages, more)| {
        let messages = Conversation::from_json(&messages).unwrap();
        for (wire, request) in requests(more).iter() {
            let written = body(request, messages.clone());
            prop_assert!(written.is_ok(), "{}: {written:?}", wire.model);
            let written = written.unwrap();
            let (body, target) = (written.body.to_json(), target(&written.url));
            let broken = Api::of(&target).and_then(|api| of_conversation(api, &target, &body));
            // The caller is responsible for a prefill, which some models reject.
            let broken = broken.filter(|broken| broken.rule != "ends_with_model" || !has_prefill(more));
            prop_assert!(
                broken.is_none(),
                "{} {}: {}\n{:#}",
                wire.provider,
                wire.model,
                broken.unwrap(),
                body
            );
            record_history(wire, &written.url, &body);
            valid.set(valid.get() + 1);
        }
        Ok(())
    });
    done.unwrap_or_else(|error| panic!("{error}"));
    let wires = wires();
    println!("{} valid requests: {} histories for each of {} models", valid.get(), histories(), wires.len());
    assert_eq!(valid.get(), u64::from(histories()) * u64::try_from(wires.len()).unwrap());
}

fn target(url: &str) -> String {
    format!("/{}", url.splitn(4, '/').nth(3).unwrap_or_default())
}

/// Records the first bodies of each format for `make wire-types`.
fn record_history(wire: &Wire, url: &str, body: &Value) {
    thread_local! {
        static COUNTS: RefCell<HashMap<&'static str, u32>> = RefCell::default();
    }
    let count = COUNTS.with(|counts| {
        let mut counts = counts.borrow_mut();
        let count = counts.entry(wire.model).or_default();
        *count += 1;
        *count
    });
    if count <= recorded() {
        record_request(&format!("history {} {}", wire.provider, wire.model), url, body);
    }
}

proptest! {
    /// Serialization does not depend on what was cached earlier, by which clone and for how many messages.
    #[test]
    fn what_is_kept_of_a_conversation_changes_nothing(
        messages in prop::collection::vec(message(), 1..12),
        cuts in prop::collection::vec((0..12usize, 0..11usize), 1..8),
    ) {
        let requests = requests(1);
        let mut forks = vec![Conversation::from_json(&messages).unwrap()];
        for (cut, which) in cuts {
            let mut talk = forks[which % forks.len()].clone();
            talk.truncate(cut);
            if which % 2 == 0 {
                talk.push_json(messages[cut % messages.len()].clone()).unwrap();
            }
            let (_, request) = &requests[which % requests.len()];
            let text = |talk: Conversation| String::from_utf8(body(request, talk).unwrap().body.to_bytes()).unwrap();
            let fresh = Conversation::from_json(&talk.to_json()).unwrap();
            prop_assert_eq!(text(talk.clone()), text(fresh));
            forks.push(talk);
        }
    }
}

/// Tool names that a provider would reject are mapped consistently in the request, and mapped back in replies.
#[test]
fn names_are_mapped_and_mapped_back() {
    let own = format!("files__{}", "read_the_whole_thing_".repeat(5));
    let call = json!([{"id": "a", "type": "function", "function": {"name": own, "arguments": "{}"}}]);
    let messages = json!([{"role": "user", "content": "u"}, {"role": "assistant", "tool_calls": call},
                          {"role": "tool", "tool_call_id": "a", "content": "r"}]);
    let options = json!({"messages": messages, "tools": [{"name": own}], "tool_choice": {"name": own}, "stream": false});
    let request = sample::request("openai", "gpt-4o", options);
    let body = encode(&request).unwrap().body.to_json();
    let name = body["tools"][0]["function"]["name"].as_str().unwrap();
    assert!(name.len() <= 64 && name.starts_with("files__read"), "{name}");
    assert_eq!(body["messages"][1]["tool_calls"][0]["function"]["name"], name);
    assert_eq!(body["tool_choice"]["function"]["name"], name);
    let reply = json!({"choices": [{"message": {"tool_calls": [{"id": "b", "function": {"name": name, "arguments": "{}"}}]}}]});
    let (mut reader, mut events) = (super::ReplyReader::new(&request, false), Vec::new());
    reader.feed(reply.to_string().as_bytes(), &mut events).unwrap();
    reader.finish(&request, "application/json", &mut events).unwrap();
    assert!(events.iter().any(|event| matches!(event, crate::event::StreamEvent::ToolCallStart { name: Some(name), .. } if *name == own)));
}

/// A turn of a long loop serializes only the new messages.
#[test]
fn a_turn_writes_only_what_is_new() {
    let mut talk = Conversation::from_json(&[json!({"role": "user", "content": "go"})]).unwrap();
    let requests = requests(1);
    let mut shared = 0;
    for n in 0..200 {
        let call = json!([{"id": "call", "function": {"name": "look", "arguments": "{}"}}]);
        talk.push_json(json!({"role": "assistant", "content": "x".repeat(300), "tool_calls": call})).unwrap();
        talk.push_json(json!({"role": "tool", "tool_call_id": "call", "content": format!("{n}")})).unwrap();
        shared = body(&requests[2].1, talk.clone()).unwrap().body.pieces().len();
    }
    assert!(shared > 8, "finished pieces are shared: {shared}");
}
