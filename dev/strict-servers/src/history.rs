//! Rules about whole conversations, which a schema of the body cannot express.

use std::collections::BTreeSet;

use harn_value::Data as Value;

use crate::rules::{Api, Limits};

/// The name of a broken rule in `rules.toml`, and the part of the body that breaks it.
type Broken<T = ()> = Result<T, (&'static str, String)>;

/// Returns the first rule about conversations that a body breaks.
pub(crate) fn check(api: Api, body: &Value, limits: &Limits) -> Broken {
    match api {
        Api::Anthropic => anthropic(body, limits),
        Api::OpenAiChat => chat(body, limits),
        Api::OpenAiResponses => responses(body, limits),
        Api::Gemini => gemini(body),
        Api::Bedrock => bedrock(body, limits),
        Api::Ollama => ollama(body),
        Api::OllamaGenerate if str_at(body, "prompt").is_some_and(|prompt| prompt.contains("<|im_")) => {
            raw(body)
        }
        Api::OllamaGenerate | Api::Completion => Ok(()),
    }
}

fn str_at<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key).and_then(Value::as_str)
}

fn list_at<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn ensure(holds: bool, rule: &'static str, at: &Value) -> Broken {
    if holds { Ok(()) } else { Err((rule, at.to_string())) }
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

/// Calls without results, and all used ids.
#[derive(Default)]
struct Pairs {
    open: Vec<String>,
    used: BTreeSet<String>,
}

impl Pairs {
    fn call(&mut self, id: &str, at: &Value) -> Broken {
        self.open.push(id.to_owned());
        ensure(self.used.insert(id.to_owned()), "id_twice", at)
    }

    fn result(&mut self, id: &str, at: &Value) -> Broken {
        let found = self.open.iter().position(|open| open == id);
        ensure(found.is_some(), "orphan_result", at)?;
        self.open.remove(found.unwrap());
        Ok(())
    }

    fn closed(&self, at: &Value) -> Broken {
        ensure(self.open.is_empty(), "open_call", at)
    }
}

/// Checks that user and model alternate, beginning with the user; returns the role of the last turn.
fn alternate<'v>(turns: &'v [Value], user: &str, body: &Value) -> Broken<&'v str> {
    ensure(!turns.is_empty(), "no_messages", body)?;
    let role = |turn: &'v Value| str_at(turn, "role").unwrap_or_default();
    ensure(role(&turns[0]) == user, "model_begins", body)?;
    ensure(turns.windows(2).all(|pair| role(&pair[0]) != role(&pair[1])), "alternate", body)?;
    Ok(role(&turns[turns.len() - 1]))
}

fn anthropic(body: &Value, limits: &Limits) -> Broken {
    let messages = list_at(body, "messages");
    let last = alternate(messages, "user", body)?;
    ensure(!limits.ends_with_user || last == "user", "ends_with_model", body)?;
    let (mut pairs, mut any) = (Pairs::default(), false);
    for message in messages {
        if let Some(text) = str_at(message, "content") {
            ensure(!text.trim().is_empty(), "blank", message)?;
            pairs.closed(message)?;
            continue;
        }
        let of_model = str_at(message, "role") == Some("assistant");
        let (blocks, mut told) = (list_at(message, "content"), false);
        ensure(!blocks.is_empty(), "no_content", message)?;
        for block in blocks {
            match (str_at(block, "type").unwrap_or_default(), of_model) {
                ("text", _) => ensure(is_said(&block["text"]), "blank", block)?,
                ("image" | "document" | "search_result" | "container_upload", false) => {}
                ("redacted_thinking" | "server_tool_use", true) => {}
                (kind, true) if kind.ends_with("_tool_result") => {}
                ("thinking", true) => ensure(is_said(&block["signature"]), "signature", block)?,
                ("tool_use", true) => {
                    any = true;
                    let id = str_at(block, "id").unwrap_or_default();
                    ensure(is_word(id, 64), "id", block)?;
                    ensure(is_name(str_at(block, "name").unwrap_or_default()), "name", block)?;
                    ensure(block["input"].is_object(), "arguments", block)?;
                    pairs.call(id, block)?;
                }
                ("tool_result", false) => {
                    ensure(!told, "results_first", message)?;
                    pairs.result(str_at(block, "tool_use_id").unwrap_or_default(), block)?;
                }
                _ => return Err(("block_kind", block.to_string())),
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
        // Only the first turn of a loop must begin with reasoning; if there is one turn, it is the first.
        let calls = |message: &Value| {
            list_at(message, "content").iter().any(|b| str_at(b, "type") == Some("tool_use"))
        };
        let first = messages.len() < 4 || !calls(&messages[messages.len() - 4]);
        let thinks = matches!(begun, "thinking" | "redacted_thinking");
        ensure(!in_loop || !first || thinks, "thinking_first", body)?;
    }
    ensure(!any || !list_at(body, "tools").is_empty(), "calls_without_tools", body)
}

fn chat(body: &Value, limits: &Limits) -> Broken {
    let messages = list_at(body, "messages");
    ensure(!messages.is_empty(), "no_messages", body)?;
    let names_json = || body["messages"].to_string().to_lowercase().contains("json");
    ensure(body["response_format"]["type"] != "json_object" || names_json(), "json_unnamed", body)?;
    let (mut pairs, mut before) = (Pairs::default(), "");
    for message in messages {
        let role = str_at(message, "role").unwrap_or_default();
        let content = &message["content"];
        if role != "tool" {
            pairs.closed(message)?;
            ensure(role != before || role == "system", "alternate", body)?;
        }
        before = role;
        match role {
            "system" | "developer" => ensure(is_said(content), "blank", message)?,
            "user" => match content.as_array() {
                None => ensure(is_said(content), "blank", message)?,
                Some(parts) => {
                    ensure(!parts.is_empty(), "no_content", message)?;
                    for part in parts {
                        match str_at(part, "type").unwrap_or_default() {
                            "text" => ensure(is_said(&part["text"]), "blank", part)?,
                            "image_url" => ensure(is_said(&part["image_url"]["url"]), "image", part)?,
                            "file" => {}
                            _ => return Err(("block_kind", part.to_string())),
                        }
                    }
                }
            },
            "assistant" => {
                let calls = list_at(message, "tool_calls");
                let of_hosts = ["reasoning_content", "reasoning", "reasoning_details"];
                let plain = of_hosts.iter().all(|key| message.get(key).is_none());
                ensure(!limits.plain_messages || plain, "unknown_member", message)?;
                ensure(is_said(content) || !calls.is_empty(), "blank", message)?;
                for call in calls {
                    let (id, function) = (str_at(call, "id").unwrap_or_default(), &call["function"]);
                    ensure((1..=limits.ids.unwrap_or(512)).contains(&id.len()), "id", call)?;
                    let alphanumeric = id.bytes().all(|b| b.is_ascii_alphanumeric());
                    let exact = limits.exact_ids.is_none_or(|count| id.len() == count && alphanumeric);
                    ensure(exact, "id", call)?;
                    ensure(is_name(str_at(function, "name").unwrap_or_default()), "name", call)?;
                    let text = str_at(function, "arguments").unwrap_or_default();
                    let arguments: Value =
                        serde_json::from_str(text).map_err(|_| ("arguments", text.to_owned()))?;
                    ensure(arguments.is_object(), "arguments", call)?;
                    pairs.call(id, call)?;
                }
            }
            "tool" => {
                ensure(content.is_string(), "result_kind", message)?;
                pairs.result(str_at(message, "tool_call_id").unwrap_or_default(), message)?;
            }
            _ => return Err(("role", message.to_string())),
        }
    }
    pairs.closed(body)?;
    let last = str_at(&messages[messages.len() - 1], "role");
    ensure(
        !limits.ends_with_user || matches!(last, Some("user" | "tool" | "system")),
        "ends_with_model",
        body,
    )
}

fn responses(body: &Value, limits: &Limits) -> Broken {
    let input = list_at(body, "input");
    ensure(!input.is_empty(), "no_messages", body)?;
    let mut pairs = Pairs::default();
    for item in input {
        match str_at(item, "type") {
            Some("function_call") => {
                let id = str_at(item, "call_id").unwrap_or_default();
                ensure(is_word(id, limits.ids.unwrap_or(64)), "id", item)?;
                ensure(is_name(str_at(item, "name").unwrap_or_default()), "name", item)?;
                let text = str_at(item, "arguments").unwrap_or_default();
                let arguments: Value =
                    serde_json::from_str(text).map_err(|_| ("arguments", text.to_owned()))?;
                ensure(arguments.is_object(), "arguments", item)?;
                pairs.call(id, item)?;
            }
            Some("function_call_output") => {
                // A string, or parts of the kinds that are allowed in user messages.
                let kinds = ["input_text", "input_image", "input_file"];
                let parts = item["output"].as_array().filter(|parts| !parts.is_empty());
                let known = |part: &Value| kinds.contains(&str_at(part, "type").unwrap_or_default());
                let fits = item["output"].is_string() || parts.is_some_and(|parts| parts.iter().all(known));
                ensure(fits, "result_kind", item)?;
                pairs.result(str_at(item, "call_id").unwrap_or_default(), item)?;
            }
            None => {
                pairs.closed(item)?;
                if str_at(item, "role") == Some("assistant") {
                    ensure(is_said(&item["content"]), "blank", item)?;
                    continue;
                }
                let parts = list_at(item, "content");
                ensure(!parts.is_empty(), "no_content", item)?;
                for part in parts {
                    match str_at(part, "type").unwrap_or_default() {
                        "input_text" => ensure(is_said(&part["text"]), "blank", part)?,
                        "input_file" => {}
                        "input_image" => {
                            let whole = is_said(&part["image_url"]) && part["detail"].is_string();
                            ensure(whole, "image", part)?;
                        }
                        _ => return Err(("block_kind", part.to_string())),
                    }
                }
            }
            // The schema checks the other kinds: reasoning, tool search.
            _ => {}
        }
    }
    pairs.closed(body)
}

fn ollama(body: &Value) -> Broken {
    let messages = list_at(body, "messages");
    ensure(!messages.is_empty(), "no_messages", body)?;
    let mut open: Vec<&str> = Vec::new();
    for message in messages {
        ensure(message["content"].is_string(), "result_kind", message)?;
        match str_at(message, "role").unwrap_or_default() {
            "tool" => {
                ensure(!open.is_empty(), "orphan_result", message)?;
                let name = open.remove(0);
                ensure(str_at(message, "tool_name") == Some(name), "other_tool", message)?;
                continue;
            }
            "assistant" => {
                for call in list_at(message, "tool_calls") {
                    let function = &call["function"];
                    ensure(function["arguments"].is_object(), "arguments", call)?;
                    open.push(
                        str_at(function, "name")
                            .filter(|name| is_name(name))
                            .ok_or_else(|| ("name", function.to_string()))?,
                    );
                }
            }
            "user" | "system" => ensure(open.is_empty(), "open_call", message)?,
            _ => return Err(("role", message.to_string())),
        }
        let says = is_said(&message["content"]) || message.get("images").is_some();
        ensure(says || message.get("tool_calls").is_some(), "blank", message)?;
    }
    ensure(open.is_empty(), "open_call", body)
}

fn raw(body: &Value) -> Broken {
    let prompt = str_at(body, "prompt").unwrap_or_default();
    let heads = prompt.matches("<|im_start|>").count();
    ensure(heads == prompt.matches("<|im_end|>").count() + 1, "template_tokens", body)?;
    ensure(!prompt.contains("<|endoftext|>"), "template_tokens", body)?;
    let turns = prompt.split("<|im_start|>").skip(1);
    let whole = turns
        .map(|turn| turn.split_once('\n'))
        .all(|turn| turn.is_some_and(|(role, _)| matches!(role, "system" | "user" | "assistant")));
    ensure(whole, "role", body)
}

fn gemini(body: &Value) -> Broken {
    let contents = list_at(body, "contents");
    let last = alternate(contents, "user", body)?;
    ensure(last == "user", "ends_with_model", body)?;
    let mut open: Vec<&str> = Vec::new();
    for content in contents {
        let (of_model, parts) = (str_at(content, "role") == Some("model"), list_at(content, "parts"));
        ensure(!parts.is_empty(), "no_content", content)?;
        for part in parts {
            let kinds = ["text", "inline_data", "file_data", "functionCall", "functionResponse"];
            match kinds.into_iter().find(|kind| part.get(kind).is_some()).unwrap_or_default() {
                "text" => ensure(is_said(&part["text"]), "blank", part)?,
                "inline_data" | "file_data" if !of_model => {}
                "functionCall" if of_model => {
                    let call = &part["functionCall"];
                    ensure(call["args"].is_object(), "arguments", part)?;
                    open.push(
                        str_at(call, "name")
                            .filter(|name| is_name(name))
                            .ok_or_else(|| ("name", part.to_string()))?,
                    );
                }
                "functionResponse" if !of_model => {
                    ensure(!open.is_empty(), "orphan_result", content)?;
                    let (name, response) = (open.remove(0), &part["functionResponse"]);
                    ensure(str_at(response, "name") == Some(name), "other_tool", part)?;
                    ensure(response["response"].is_object(), "result_kind", part)?;
                }
                _ => return Err(("block_kind", part.to_string())),
            }
        }
        ensure(of_model || open.is_empty(), "open_call", content)?;
    }
    Ok(())
}

fn bedrock(body: &Value, limits: &Limits) -> Broken {
    let messages = list_at(body, "messages");
    let last = alternate(messages, "user", body)?;
    ensure(!limits.ends_with_user || last == "user", "ends_with_model", body)?;
    let (mut pairs, mut any) = (Pairs::default(), false);
    for message in messages {
        let (of_model, blocks) = (str_at(message, "role") == Some("assistant"), list_at(message, "content"));
        ensure(!blocks.is_empty(), "no_content", message)?;
        for block in blocks {
            let kind = block.as_object().and_then(|block| block.keys().next()).map_or("", String::as_str);
            match kind {
                "text" => ensure(is_said(&block["text"]), "blank", block)?,
                "document" if !of_model => {}
                "reasoningContent" if of_model => {}
                "cachePoint" => {}
                "image" if !of_model => {
                    let format = str_at(&block["image"], "format").unwrap_or_default();
                    ensure(matches!(format, "png" | "jpeg" | "gif" | "webp"), "image", block)?;
                }
                "toolUse" if of_model => {
                    any = true;
                    let call = &block["toolUse"];
                    let id = str_at(call, "toolUseId").unwrap_or_default();
                    ensure(is_word(id, 64), "id", block)?;
                    ensure(is_name(str_at(call, "name").unwrap_or_default()), "name", block)?;
                    ensure(call["input"].is_object(), "arguments", block)?;
                    pairs.call(id, block)?;
                }
                "toolResult" if !of_model => {
                    let result = &block["toolResult"];
                    let parts = list_at(result, "content");
                    let fits = |part: &Value| {
                        is_said(&part["text"]) || part["image"].is_object() || part["document"].is_object()
                    };
                    ensure(!parts.is_empty() && parts.iter().all(fits), "blank", block)?;
                    pairs.result(str_at(result, "toolUseId").unwrap_or_default(), block)?;
                }
                _ => return Err(("block_kind", block.to_string())),
            }
        }
        if !of_model {
            pairs.closed(message)?;
        }
    }
    pairs.closed(body)?;
    ensure(!any || !list_at(&body["toolConfig"], "tools").is_empty(), "calls_without_tools", body)
}
