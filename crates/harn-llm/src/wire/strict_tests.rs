//! Whatever a conversation holds, the request is one that the provider accepts: random histories against the published rules of
//! each format.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use harn_value::{Data as Value, json};
use proptest::prelude::*;

use super::{WireStyle, encode};
use crate::conversation::Conversation;
use crate::json::{list_at, str_at};
use crate::request::Request;
use crate::sample;

/// A provider, a model, its format, and the rules of its requests.
struct Wire {
    provider: &'static str,
    model: &'static str,
    style: WireStyle,
    rules: fn(&Value, &Wire) -> Result<(), String>,
    /// Most bytes of an id.
    ids: usize,
    /// Whether a conversation must end with the user.
    ends_with_user: bool,
}

const fn wire(
    provider: &'static str,
    model: &'static str,
    style: WireStyle,
    rules: fn(&Value, &Wire) -> Result<(), String>,
) -> Wire {
    Wire { provider, model, style, rules, ids: 64, ends_with_user: false }
}

fn wires() -> Vec<Wire> {
    use WireStyle::*;
    let sonnet = "anthropic.claude-sonnet-4-20250514-v1:0";
    vec![
        wire("anthropic", "claude-sonnet-4-20250514", Anthropic, anthropic),
        Wire { ends_with_user: true, ..wire("anthropic", "claude-opus-4-7", Anthropic, anthropic) },
        Wire { ids: 40, ..wire("openai", "gpt-4o", OpenAiChat, chat) },
        Wire { ids: 512, ..wire("openrouter", "moonshotai/kimi-k2", OpenAiChat, chat) },
        Wire {
            ids: 9,
            ends_with_user: true,
            ..wire("openrouter", "mistralai/mistral-large", OpenAiChat, chat)
        },
        wire("openai", "gpt-5.4", OpenAiResponses, responses),
        wire("ollama", "llama3.2", OllamaChat, ollama),
        wire("ollama", "qwen3:8b", OllamaRaw, raw),
        Wire { ends_with_user: true, ..wire("gemini", "gemini-2.5-pro", Gemini, gemini) },
        wire("bedrock", sonnet, Bedrock, bedrock),
        Wire { ends_with_user: true, ..wire("bedrock", "amazon.nova-pro-v1:0", Bedrock, bedrock) },
    ]
}

fn ensure(holds: bool, what: &str, at: &Value) -> Result<(), String> {
    if holds { Ok(()) } else { Err(format!("{what}: {at}")) }
}

fn is_word(text: &str, most: usize) -> bool {
    (1..=most).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

fn is_name(text: &str) -> bool {
    is_word(text, 64) && !text.starts_with(|c: char| c.is_ascii_digit() || c == '-')
}

fn is_said(value: &Value) -> bool {
    value.as_str().is_some_and(|text| !text.trim().is_empty())
}

/// Calls that wait for their results, and ids that were used.
#[derive(Default)]
struct Pairs {
    open: Vec<String>,
    used: BTreeSet<String>,
}

impl Pairs {
    fn call(&mut self, id: &str, at: &Value) -> Result<(), String> {
        self.open.push(id.to_owned());
        ensure(self.used.insert(id.to_owned()), "an id is used twice", at)
    }

    fn result(&mut self, id: &str, at: &Value) -> Result<(), String> {
        let found = self.open.iter().position(|open| open == id);
        ensure(found.is_some(), "a result without its call", at)?;
        self.open.remove(found.unwrap());
        Ok(())
    }

    fn closed(&self, at: &Value) -> Result<(), String> {
        ensure(self.open.is_empty(), "a call without its result", at)
    }
}

/// User and model alternate, and the user begins; returns the role of the last.
fn alternate<'v>(turns: &'v [Value], user: &str, body: &Value) -> Result<&'v str, String> {
    ensure(!turns.is_empty(), "no messages", body)?;
    let role = |turn: &'v Value| str_at(turn, "role").unwrap_or_default();
    ensure(role(&turns[0]) == user, "the model begins", body)?;
    ensure(turns.windows(2).all(|pair| role(&pair[0]) != role(&pair[1])), "two turns of one side", body)?;
    Ok(role(&turns[turns.len() - 1]))
}

fn anthropic(body: &Value, wire: &Wire) -> Result<(), String> {
    let messages = list_at(body, "messages");
    let last = alternate(messages, "user", body)?;
    ensure(!wire.ends_with_user || last == "user", "the conversation ends with the model", body)?;
    let (mut pairs, mut any) = (Pairs::default(), false);
    for message in messages {
        if let Some(text) = str_at(message, "content") {
            ensure(!text.trim().is_empty(), "blank content", message)?;
            pairs.closed(message)?;
            continue;
        }
        let of_model = str_at(message, "role") == Some("assistant");
        let (blocks, mut told) = (list_at(message, "content"), false);
        ensure(!blocks.is_empty(), "no content", message)?;
        for block in blocks {
            match (str_at(block, "type").unwrap_or_default(), of_model) {
                ("text", _) => ensure(is_said(&block["text"]), "blank text", block)?,
                ("image" | "document", false) | ("redacted_thinking", true) => {}
                ("thinking", true) => ensure(is_said(&block["signature"]), "no signature", block)?,
                ("tool_use", true) => {
                    any = true;
                    let id = str_at(block, "id").unwrap_or_default();
                    ensure(is_word(id, 64), "a strange id", block)?;
                    ensure(is_name(str_at(block, "name").unwrap_or_default()), "a strange name", block)?;
                    ensure(block["input"].is_object(), "arguments are no object", block)?;
                    pairs.call(id, block)?;
                }
                ("tool_result", false) => {
                    ensure(!told, "a result behind other content", message)?;
                    pairs.result(str_at(block, "tool_use_id").unwrap_or_default(), block)?;
                }
                _ => return Err(format!("a block that the role does not have: {block}")),
            }
            told |= str_at(block, "type") != Some("tool_result");
        }
        if !of_model {
            pairs.closed(message)?;
        }
    }
    pairs.closed(body)?;
    if body["thinking"]["type"] == "enabled" && last == "user" && messages.len() > 1 {
        let results = list_at(&messages[messages.len() - 1], "content");
        let begun = str_at(&messages[messages.len() - 2]["content"][0], "type").unwrap_or_default();
        let in_loop = results.iter().any(|block| str_at(block, "type") == Some("tool_result"));
        // Only the first turn of a loop has to begin with reasoning; a loop of one turn is that turn.
        let calls = |message: &Value| {
            list_at(message, "content").iter().any(|b| str_at(b, "type") == Some("tool_use"))
        };
        let first = messages.len() < 4 || !calls(&messages[messages.len() - 4]);
        let thinks = matches!(begun, "thinking" | "redacted_thinking");
        ensure(!in_loop || !first || thinks, "a loop that did not begin with thinking", body)?;
    }
    ensure(!any || !list_at(body, "tools").is_empty(), "calls without tools", body)
}

fn chat(body: &Value, wire: &Wire) -> Result<(), String> {
    let messages = list_at(body, "messages");
    ensure(!messages.is_empty(), "no messages", body)?;
    let (mut pairs, mut before) = (Pairs::default(), "");
    for message in messages {
        let role = str_at(message, "role").unwrap_or_default();
        let content = &message["content"];
        if role != "tool" {
            pairs.closed(message)?;
            ensure(role != before || role == "system", "two turns of one side", body)?;
        }
        before = role;
        match role {
            "system" | "developer" => ensure(is_said(content), "blank content", message)?,
            "user" => match content.as_array() {
                None => ensure(is_said(content), "blank content", message)?,
                Some(parts) => {
                    ensure(!parts.is_empty(), "no content", message)?;
                    for part in parts {
                        match str_at(part, "type").unwrap_or_default() {
                            "text" => ensure(is_said(&part["text"]), "blank text", part)?,
                            "image_url" => ensure(is_said(&part["image_url"]["url"]), "no image", part)?,
                            _ => return Err(format!("an unknown part: {part}")),
                        }
                    }
                }
            },
            "assistant" => {
                let calls = list_at(message, "tool_calls");
                ensure(is_said(content) || !calls.is_empty(), "blank content", message)?;
                for call in calls {
                    let (id, function) = (str_at(call, "id").unwrap_or_default(), &call["function"]);
                    ensure((1..=wire.ids).contains(&id.len()), "a strange id", call)?;
                    let nine = id.len() == 9 && id.bytes().all(|b| b.is_ascii_alphanumeric());
                    ensure(wire.ids != 9 || nine, "a strange id", call)?;
                    ensure(is_name(str_at(function, "name").unwrap_or_default()), "a strange name", call)?;
                    let text = str_at(function, "arguments").unwrap_or_default();
                    let arguments: Value = serde_json::from_str(text).map_err(|e| format!("{e}: {text}"))?;
                    ensure(arguments.is_object(), "arguments are no object", call)?;
                    pairs.call(id, call)?;
                }
            }
            "tool" => {
                ensure(content.is_string(), "a result that is no text", message)?;
                pairs.result(str_at(message, "tool_call_id").unwrap_or_default(), message)?;
            }
            _ => return Err(format!("an unknown role: {message}")),
        }
    }
    pairs.closed(body)?;
    let last = str_at(&messages[messages.len() - 1], "role");
    ensure(!wire.ends_with_user || matches!(last, Some("user" | "tool" | "system")), "the model ends", body)
}

fn responses(body: &Value, wire: &Wire) -> Result<(), String> {
    let input = list_at(body, "input");
    ensure(!input.is_empty(), "no items", body)?;
    let mut pairs = Pairs::default();
    for item in input {
        match str_at(item, "type") {
            Some("function_call") => {
                let id = str_at(item, "call_id").unwrap_or_default();
                ensure(is_word(id, wire.ids), "a strange id", item)?;
                ensure(is_name(str_at(item, "name").unwrap_or_default()), "a strange name", item)?;
                let text = str_at(item, "arguments").unwrap_or_default();
                let arguments: Value = serde_json::from_str(text).map_err(|e| format!("{e}: {text}"))?;
                ensure(arguments.is_object(), "arguments are no object", item)?;
                pairs.call(id, item)?;
            }
            Some("function_call_output") => {
                // A string, or parts of the kinds that the user's messages have.
                let kinds = ["input_text", "input_image", "input_file"];
                let parts = item["output"].as_array().filter(|parts| !parts.is_empty());
                let known = |part: &Value| kinds.contains(&str_at(part, "type").unwrap_or_default());
                let fits = item["output"].is_string() || parts.is_some_and(|parts| parts.iter().all(known));
                ensure(fits, "a result that is neither text nor parts", item)?;
                pairs.result(str_at(item, "call_id").unwrap_or_default(), item)?;
            }
            None => {
                pairs.closed(item)?;
                let (role, parts) = (str_at(item, "role").unwrap_or_default(), list_at(item, "content"));
                ensure(!parts.is_empty(), "no content", item)?;
                for part in parts {
                    match (str_at(part, "type").unwrap_or_default(), role) {
                        ("output_text", "assistant") | ("input_text", "user" | "system" | "developer") => {
                            ensure(is_said(&part["text"]), "blank text", part)?;
                        }
                        ("input_image", "user" | "system" | "developer") => {
                            let whole = is_said(&part["image_url"]) && part["detail"].is_string();
                            ensure(whole, "half an image", part)?;
                        }
                        _ => return Err(format!("a part that the role does not have: {part}")),
                    }
                }
            }
            _ => return Err(format!("an unknown item: {item}")),
        }
    }
    pairs.closed(body)
}

fn ollama(body: &Value, _: &Wire) -> Result<(), String> {
    let messages = list_at(body, "messages");
    ensure(!messages.is_empty(), "no messages", body)?;
    let mut open: Vec<&str> = Vec::new();
    for message in messages {
        ensure(message["content"].is_string(), "content that is no text", message)?;
        match str_at(message, "role").unwrap_or_default() {
            "tool" => {
                ensure(!open.is_empty(), "a result without its call", message)?;
                let name = open.remove(0);
                ensure(str_at(message, "tool_name") == Some(name), "the result of another tool", message)?;
                continue;
            }
            "assistant" => {
                for call in list_at(message, "tool_calls") {
                    let function = &call["function"];
                    ensure(function["arguments"].is_object(), "arguments are no object", call)?;
                    open.push(str_at(function, "name").filter(|name| is_name(name)).ok_or("a strange name")?);
                }
            }
            "user" | "system" => ensure(open.is_empty(), "a call without its result", message)?,
            _ => return Err(format!("an unknown role: {message}")),
        }
        let says = is_said(&message["content"]) || message.get("images").is_some();
        ensure(says || message.get("tool_calls").is_some(), "blank content", message)?;
    }
    ensure(open.is_empty(), "a call without its result", body)
}

fn raw(body: &Value, _: &Wire) -> Result<(), String> {
    let prompt = str_at(body, "prompt").unwrap_or_default();
    let heads = prompt.matches("<|im_start|>").count();
    ensure(heads == prompt.matches("<|im_end|>").count() + 1, "unequal tokens", body)?;
    ensure(!prompt.contains("<|endoftext|>"), "a token of the content", body)?;
    let turns = prompt.split("<|im_start|>").skip(1);
    let whole = turns
        .map(|turn| turn.split_once('\n'))
        .all(|turn| turn.is_some_and(|(role, _)| matches!(role, "system" | "user" | "assistant")));
    ensure(whole, "an unknown role", body)
}

fn gemini(body: &Value, _: &Wire) -> Result<(), String> {
    let contents = list_at(body, "contents");
    let last = alternate(contents, "user", body)?;
    ensure(last == "user", "the conversation ends with the model", body)?;
    let mut open: Vec<&str> = Vec::new();
    for content in contents {
        let (of_model, parts) = (str_at(content, "role") == Some("model"), list_at(content, "parts"));
        ensure(!parts.is_empty(), "no parts", content)?;
        for part in parts {
            let kind = part.as_object().and_then(|part| part.keys().next()).map_or("", String::as_str);
            match kind {
                "text" => ensure(is_said(&part["text"]), "blank text", part)?,
                "inline_data" | "file_data" if !of_model => {}
                "functionCall" if of_model => {
                    let call = &part["functionCall"];
                    ensure(call["args"].is_object(), "arguments are no object", part)?;
                    open.push(str_at(call, "name").filter(|name| is_name(name)).ok_or("a strange name")?);
                }
                "functionResponse" if !of_model => {
                    ensure(!open.is_empty(), "a result without its call", content)?;
                    let (name, response) = (open.remove(0), &part["functionResponse"]);
                    ensure(str_at(response, "name") == Some(name), "the result of another tool", part)?;
                    ensure(response["response"].is_object(), "a result that is no object", part)?;
                }
                _ => return Err(format!("an unknown part: {part}")),
            }
        }
        ensure(of_model || open.is_empty(), "a call without its result", content)?;
    }
    Ok(())
}

fn bedrock(body: &Value, wire: &Wire) -> Result<(), String> {
    let messages = list_at(body, "messages");
    let last = alternate(messages, "user", body)?;
    ensure(!wire.ends_with_user || last == "user", "the conversation ends with the model", body)?;
    let (mut pairs, mut any) = (Pairs::default(), false);
    for message in messages {
        let (of_model, blocks) = (str_at(message, "role") == Some("assistant"), list_at(message, "content"));
        ensure(!blocks.is_empty(), "no content", message)?;
        for block in blocks {
            let kind = block.as_object().and_then(|block| block.keys().next()).map_or("", String::as_str);
            match kind {
                "text" => ensure(is_said(&block["text"]), "blank text", block)?,
                "image" if !of_model => {
                    let format = str_at(&block["image"], "format").unwrap_or_default();
                    ensure(matches!(format, "png" | "jpeg" | "gif" | "webp"), "an image's format", block)?;
                }
                "toolUse" if of_model => {
                    any = true;
                    let call = &block["toolUse"];
                    let id = str_at(call, "toolUseId").unwrap_or_default();
                    ensure(is_word(id, 64), "a strange id", block)?;
                    ensure(is_name(str_at(call, "name").unwrap_or_default()), "a strange name", block)?;
                    ensure(call["input"].is_object(), "arguments are no object", block)?;
                    pairs.call(id, block)?;
                }
                "toolResult" if !of_model => {
                    let result = &block["toolResult"];
                    let parts = list_at(result, "content");
                    let fits = |part: &Value| {
                        is_said(&part["text"]) || part["image"].is_object() || part["document"].is_object()
                    };
                    ensure(!parts.is_empty() && parts.iter().all(fits), "an empty or blank result", block)?;
                    pairs.result(str_at(result, "toolUseId").unwrap_or_default(), block)?;
                }
                _ => return Err(format!("an unknown block: {block}")),
            }
        }
        if !of_model {
            pairs.closed(message)?;
        }
    }
    pairs.closed(body)?;
    ensure(!any || !list_at(&body["toolConfig"], "tools").is_empty(), "calls without toolConfig", body)
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

/// A request of each format with tools, thinking and a prefill or without.
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
            let ends_with_user = wire.ends_with_user && !has_prefill(more);
            (Wire { ends_with_user, ..wire }, request)
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5000))]

    #[test]
    fn any_history_is_a_valid_request(messages in prop::collection::vec(message(), 0..9), more in 0..16u8) {
        let messages = Conversation::from_json(&messages).unwrap();
        for (wire, request) in requests(more).iter() {
            // Gemini rejects a reply that is begun for it; that is the caller's own.
            if wire.style == WireStyle::Gemini && has_prefill(more) {
                continue;
            }
            let written = body(request, messages.clone());
            prop_assert!(written.is_ok(), "{}: {written:?}", wire.model);
            let body = written.unwrap().body.to_json();
            let fits = (wire.rules)(&body, wire);
            prop_assert!(fits.is_ok(), "{} {}: {}\n{:#}", wire.provider, wire.model, fits.unwrap_err(), body);
        }
    }
}

proptest! {
    /// What was written before, by whom and of how much, does not show.
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

/// The names of tools that a provider would reject are mapped, the same way everywhere, and mapped back in replies.
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
    assert!(is_name(name) && name.starts_with("files__read"), "{name}");
    assert_eq!(body["messages"][1]["tool_calls"][0]["function"]["name"], name);
    assert_eq!(body["tool_choice"]["function"]["name"], name);
    let reply = json!({"choices": [{"message": {"tool_calls": [{"id": "b", "function": {"name": name, "arguments": "{}"}}]}}]});
    let (mut reader, mut events) = (super::ReplyReader::new(&request, false), Vec::new());
    reader.feed(reply.to_string().as_bytes(), &mut events).unwrap();
    reader.finish(&request, "application/json", &mut events).unwrap();
    assert!(events.iter().any(|event| matches!(event, crate::event::StreamEvent::ToolCallStart { name: Some(name), .. } if *name == own)));
}

/// A turn of a long loop writes what is new, not what was written.
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
