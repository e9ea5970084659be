//! Matching of mock patterns against messages.

use harn_value::Data as Value;

use crate::conversation::Conversation;
use crate::json::str_at;

/// Returns all non-empty strings of the messages, with keys in sorted order, joined by line feeds.
pub(crate) fn match_text(messages: &[Value]) -> String {
    let mut parts = Vec::new();
    for message in messages {
        collect(message, &mut parts);
    }
    parts.join("\n")
}

fn collect<'a>(value: &'a Value, out: &mut Vec<&'a str>) {
    match value {
        Value::String(text) if !text.is_empty() => out.push(text),
        Value::Array(items) => items.iter().for_each(|item| collect(item, out)),
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort();
            keys.into_iter().for_each(|key| collect(&map[key], out));
        }
        _ => {}
    }
}

/// Returns the content of the last message that is not only whitespace.
pub fn prompt_text(messages: &Conversation) -> String {
    let mut texts = messages.iter().rev().map(|message| content_text(&message.to_json()));
    texts.find(|text| !text.trim().is_empty()).unwrap_or_default()
}

fn content_text(message: &Value) -> String {
    match message.get("content") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(blocks)) => {
            let text = |b: &Value| {
                let own = b.as_str().or_else(|| str_at(b, "text")).map(str::to_string);
                own.or_else(|| b.get("content").map(crate::message::result_text))
            };
            let parts: Vec<String> = blocks.iter().filter_map(text).collect();
            parts.join("\n")
        }
        Some(block @ Value::Object(_)) => str_at(block, "text").unwrap_or_default().to_string(),
        _ => String::new(),
    }
}

/// Matches a pattern with any number of `*` wildcards. A pattern without `*` must equal the input. Otherwise the pieces
/// must occur in order, the first at the start and the last at the end.
pub fn glob_matches(pattern: &str, text: &str) -> bool {
    let pieces: Vec<&str> = pattern.split('*').collect();
    let [first, middle @ .., last] = pieces.as_slice() else {
        return pattern == text;
    };
    let Some(mut rest) = text.strip_prefix(*first) else { return false };
    for piece in middle {
        match rest.find(piece) {
            Some(at) => rest = &rest[at + piece.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}
