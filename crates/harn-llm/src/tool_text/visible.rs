//! Removes internal blocks and markers from a raw reply, which leaves the user-facing text.

use std::sync::LazyLock;

use harn_value::Data as Value;
use regex::Regex;

use harn_prompt::untrusted::is_end_mark;

/// The patterns are constants, so the first test detects one that does not compile.
fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a constant expression")
}

static INTERNAL: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    [
        r"(?s)<think>.*?(</think>|\z)",
        r"(?s)<\|tool_call\|>.*?</\|tool_call\|>",
        r"(?s)<\|tool_call\|>.*?</tool_call>",
        r"(?s)<tool_call>.*?</tool_call>",
        r"(?s)<done>.*?</done>",
        r"(?s)<tool_result\b[^>]*>.*?</tool_result>",
        r"(?s)\[result of .*?\].*?\[end of .*?\]",
        r"(?m)^[ \t]*(##DONE##|DONE|PLAN_READY)[ \t]*\r?$\n?",
    ]
    .map(regex)
    .to_vec()
});
static RESPONSE: LazyLock<Regex> = LazyLock::new(|| regex(r"(?s)<user_response>(.*?)</user_response>"));
static FENCE: LazyLock<Regex> = LazyLock::new(|| regex(r"(?s)```json[ \t]*\r?\n(.*?)```\n?"));
static NEWLINES: LazyLock<Regex> = LazyLock::new(|| regex(r"\n{3,}"));

const PLAN_KEYS: [&str; 14] = [
    "plan",
    "steps",
    "tool_calls",
    "tool_name",
    "verification",
    "execution_mode",
    "required_outputs",
    "files_to_edit",
    "next_action",
    "reasoning",
    "direction",
    "targets",
    "tasks",
    "unknowns",
];
const PLAN_MODES: [&str; 3] = ["fast_execute", "plan_then_execute", "ask_user"];

fn is_plan(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().any(is_plan),
        Value::Object(map) => {
            PLAN_KEYS.iter().any(|k| map.contains_key(*k))
                || map.get("mode").and_then(Value::as_str).is_some_and(|m| PLAN_MODES.contains(&m))
        }
        _ => false,
    }
}

/// Returns the user-facing part of a finished reply.
pub fn sanitize(text: &str) -> String {
    let mut out = text.to_string();
    for pattern in INTERNAL.iter() {
        if pattern.is_match(&out) {
            out = pattern.replace_all(&out, "").into_owned();
        }
    }
    let responses: Vec<String> = RESPONSE.captures_iter(&out).map(|c| c[1].trim().to_string()).collect();
    if responses.is_empty() {
        out = out.replace("<assistant_prose>", "").replace("</assistant_prose>", "");
    } else {
        out = responses.join("\n\n");
    }
    out = FENCE
        .replace_all(&out, |c: &regex::Captures<'_>| {
            let internal = serde_json::from_str(c[1].trim()).is_ok_and(|v: Value| is_plan(&v));
            if internal { String::new() } else { c[0].to_string() }
        })
        .into_owned();
    out = drop_inline_plans(&out);
    let out = out.replace("\r\n", "\n");
    NEWLINES.replace_all(&out, "\n\n").trim().to_string()
}

/// Removes inline objects that begin with an internal `mode`. The total work is bounded, because each failed attempt
/// may scan all remaining input.
fn drop_inline_plans(text: &str) -> String {
    if !text.contains("\"mode\"") {
        return text.to_string();
    }
    let mut out = String::new();
    let mut rest = text;
    let mut work = 8 * text.len();
    while let Some(at) = rest.find('{').filter(|_| work > 0) {
        let mut stream = serde_json::Deserializer::from_str(&rest[at..]).into_iter::<Value>();
        let value = match stream.next() {
            Some(Ok(value)) => Some(value),
            Some(Err(error)) => {
                work = work.saturating_sub(looked_at(&rest[at..], &error));
                None
            }
            None => None,
        };
        let internal = value.as_ref().is_some_and(|v| {
            v.as_object().and_then(|m| m.iter().next()).is_some_and(|(key, mode)| {
                key == "mode" && mode.as_str().is_some_and(|m| PLAN_MODES.contains(&m))
            })
        });
        out.push_str(&rest[..at]);
        let used = if value.is_some() { stream.byte_offset() } else { 1 };
        if !internal {
            out.push_str(&rest[at..at + used]);
        }
        rest = &rest[at + used..];
    }
    out + rest
}

/// Returns the number of bytes that were parsed before an error.
fn looked_at(text: &str, error: &serde_json::Error) -> usize {
    let lines = memchr::memchr_iter(b'\n', text.as_bytes());
    let before = lines.take(error.line().saturating_sub(1)).last().map_or(0, |end| end + 1);
    before + error.column()
}

/// Returns the part of an unfinished reply that can be shown: unclosed internal blocks and the start of a marker at the
/// end are hidden as well.
pub fn sanitize_partial(text: &str) -> String {
    const OPENERS: [&str; 8] = [
        "<think>",
        "<tool_call>",
        "<|tool_call|>",
        "<done>",
        "<tool_result",
        "[result of ",
        "<assistant_prose>",
        "<user_response>",
    ];
    let mut shown = text;
    for opener in &OPENERS[..6] {
        if let Some(at) = shown.rfind(opener) {
            let behind = &shown[at + opener.len()..];
            let closed = match *opener {
                "[result of " => behind.lines().skip(1).any(is_end_mark),
                "<|tool_call|>" => behind.contains("tool_call"),
                other => behind.contains(&format!("</{}>", other.trim_matches(['<', '>']))),
            };
            if !closed {
                shown = &shown[..at];
            }
        }
    }
    for opener in OPENERS.iter().chain(&["</assistant_prose>", "</user_response>", "##DONE##"]) {
        if let Some(n) = (1..opener.len()).rev().find(|n| shown.ends_with(&opener[..*n])) {
            shown = &shown[..shown.len() - n];
            break;
        }
    }
    let open_response =
        shown.rfind("<user_response>").filter(|at| !shown[*at..].contains("</user_response>"));
    match open_response {
        Some(_) => sanitize(&format!("{shown}</user_response>")),
        None => sanitize(shown),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn internal_parts_vanish() {
        assert_eq!(sanitize("<think>x</think>hi\n##DONE##\n"), "hi");
        assert_eq!(sanitize("a<tool_call>t()</tool_call>b<done>##DONE##</done>"), "ab");
        assert_eq!(sanitize("x [result of t]\n1\n[end of t] y"), "x  y");
        assert_eq!(sanitize("<assistant_prose>p</assistant_prose>"), "p");
        assert_eq!(
            sanitize("p<user_response> a </user_response>q<user_response>b</user_response>"),
            "a\n\nb"
        );
        assert_eq!(sanitize("a\r\n\r\n\r\n\r\nb <think>open"), "a\n\nb");
    }

    #[test]
    fn plans_vanish_and_other_json_stays() {
        assert_eq!(sanitize("a\n```json\n{\"plan\": []}\n```\nb"), "a\nb");
        assert_eq!(sanitize("a\n```json\n{\"x\": 1}\n```"), "a\n```json\n{\"x\": 1}\n```");
        assert_eq!(sanitize("a {\"mode\": \"fast_execute\", \"x\": {}} b {\"y\": 1}"), "a  b {\"y\": 1}");
    }

    #[test]
    fn unfinished_blocks_are_hidden() {
        assert_eq!(sanitize_partial("hi <tool_call>re"), "hi");
        assert_eq!(sanitize_partial("hi <tool_"), "hi");
        assert_eq!(sanitize_partial("<user_response>par"), "par");
        assert_eq!(sanitize_partial("hi ##DO"), "hi");
    }
}
