//! Redacts secrets that a server echoes in several chunks. A stream may be split anywhere, including inside a key, and
//! joining the chunks would reveal it.

use std::collections::BTreeMap;

use harn_value::Data as Value;

use crate::secret::Secret;
use crate::sse::{Framer, Framing};

/// Returns the body of a reply with the secrets redacted that span its messages, or `None` if nothing was redacted.
/// `is_cut` says that the body was not read to its end; then it may end with part of a secret.
pub(crate) fn without_spread(secrets: &[&Secret], body: &str, is_cut: bool) -> Option<String> {
    let mut reply = Reply::read(body);
    let mut values: Vec<&mut Value> = reply.messages.iter_mut().filter_map(Message::value).collect();
    hide_spread(secrets, &mut values, is_cut).then(|| reply.written())
}

/// Redacts secrets that span messages; returns whether there were any.
pub(crate) fn hide_spread(secrets: &[&Secret], messages: &mut [&mut Value], is_cut: bool) -> bool {
    let mut found = false;
    for secret in secrets {
        // Depending on the format, chunks belong together if they have the same name, or the same name and index.
        for by_index in [false, true] {
            let mut texts = BTreeMap::new();
            for value in messages.iter_mut() {
                gather(value, String::new(), by_index, &mut texts);
            }
            for mut pieces in texts.into_values() {
                found |= secret.redact_pieces(&mut pieces, is_cut);
            }
        }
    }
    found
}

struct Reply {
    /// `None` for a single value that is not a stream.
    framing: Option<Framing>,
    messages: Vec<Message>,
}

enum Message {
    Json(Value),
    /// A protocol line, or a truncated message.
    Other(String),
}

impl Message {
    fn read(text: &str) -> Message {
        serde_json::from_str(text).map_or_else(|_| Message::Other(text.to_owned()), Message::Json)
    }

    fn value(&mut self) -> Option<&mut Value> {
        match self {
            Message::Json(value) => Some(value),
            Message::Other(_) => None,
        }
    }

    fn written(&self) -> String {
        match self {
            Message::Json(value) => value.to_string(),
            Message::Other(text) => text.clone(),
        }
    }
}

impl Reply {
    fn read(body: &str) -> Reply {
        let framing = if body.trim_start().starts_with(['{', '[']) {
            if let whole @ Message::Json(_) = Message::read(body) {
                return Reply { framing: None, messages: vec![whole] };
            }
            Framing::Lines
        } else {
            Framing::Sse
        };
        let mut messages = Vec::new();
        let mut framer = Framer::new(framing, usize::MAX);
        let mut take = |text: &str| messages.push(Message::read(text));
        // The limit is never exceeded.
        let _ = framer.feed(body.as_bytes(), &mut take);
        framer.finish(&mut take);
        Reply { framing: Some(framing), messages }
    }

    fn written(&self) -> String {
        let messages = self.messages.iter().map(Message::written);
        match self.framing {
            None => messages.collect(),
            Some(Framing::Lines) => messages.map(|text| format!("{text}\n")).collect(),
            Some(Framing::Sse | Framing::EventStream) => {
                messages.map(|text| format!("data: {}\n\n", text.replace('\n', "\ndata: "))).collect()
            }
        }
    }
}

/// Groups the strings of a message by their path, ignoring list positions.
fn gather<'v>(
    value: &'v mut Value,
    path: String,
    by_index: bool,
    out: &mut BTreeMap<String, Vec<&'v mut String>>,
) {
    match value {
        Value::String(text) => out.entry(path).or_default().push(text),
        Value::Array(items) => items.iter_mut().for_each(|item| gather(item, path.clone(), by_index, out)),
        Value::Object(map) => {
            let indices =
                ["index", "output_index", "content_index"].iter().filter_map(|key| map.get(*key)?.as_i64());
            let at: String = indices.filter(|_| by_index).map(|n| format!("#{n}")).collect();
            for (key, item) in map.iter_mut() {
                gather(item, format!("{path}{at}.{key}"), by_index, out);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hidden(body: &str, is_cut: bool) -> Option<String> {
        let secret = Secret::new("Bearer sk-live-abcdef-7788");
        without_spread(&[&secret], body, is_cut)
    }

    #[test]
    fn a_key_in_several_events_is_hidden() {
        let event =
            |text: &str| format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n");
        let of =
            |texts: &[&str]| texts.iter().map(|text| event(text)).collect::<String>() + "data: [DONE]\n\n";
        let end = ["key sk-liv", "E-abc", "", "def-7788 and ü sk-l", "ive-abcdef-7788", "!"];
        assert_eq!(hidden(&of(&end), false), Some(of(&["key ***", "", "", " and ü ***", "", "!"])));
        assert_eq!(hidden(&of(&["key sk-live", "-other"]), false), None);
        // A truncated body may end with part of a key.
        assert_eq!(hidden(&of(&["key sk-li", "ve-ab"]), false), None);
        assert_eq!(hidden(&of(&["key sk-li", "ve-ab"]), true), Some(of(&["key ***", ""])));
    }

    #[test]
    fn every_form_of_a_reply_is_looked_through() {
        let lines = |a: &str, b: &str| {
            format!("{{\"message\":{{\"content\":\"{a}\"}}}}\n{{\"message\":{{\"content\":\"{b}\"}}}}\n")
        };
        assert_eq!(hidden(&lines("sk-live-abc", "def-7788"), false), Some(lines("***", "")));
        let whole = |a: &str, b: &str| {
            format!(
                "{{\"content\":[{{\"type\":\"text\",\"text\":\"{a}\"}},{{\"type\":\"text\",\"text\":\"{b}\"}}]}}"
            )
        };
        assert_eq!(hidden(&whole("sk-live-abc", "def-7788"), false), Some(whole("***", "")));
        assert_eq!(hidden(&whole("\\u0073k-live-abcdef-7788", "x"), false), Some(whole("***", "x")));
        // Two calls whose arguments are interleaved.
        let call = |n: i64, text: &str| {
            format!("data: {{\"index\":{n},\"delta\":{{\"partial_json\":\"{text}\"}}}}\n\n")
        };
        let turns = |a: &str, b: &str| [call(0, a), call(1, "x"), call(0, b)].concat();
        assert_eq!(hidden(&turns("sk-live-abc", "def-7788"), false), Some(turns("***", "")));
        assert_eq!(hidden("<p>sk-live-abc def-7788", false), None);
    }
}
