//! Finding bare calls in free text.

use harn_value::Data as Value;

use super::grammar::{ParsedCall, is_name_char, is_name_start, parse_call};
use crate::json::str_at;
use crate::message::parse_arguments;

const LABELS: [&str; 10] = [
    "tool_code:",
    "tool_call:",
    "tool_output:",
    "call:",
    "tool:",
    "use:",
    "python:",
    "javascript:",
    "typescript:",
    "shell:",
];

/// Longest name of a tool that is looked for.
const MAX_NAME: usize = 256;
/// After so many calls that cannot be read, the rest of the text is not looked at.
pub(super) const MAX_ERRORS: usize = 50;

/// What a scan found.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Found {
    pub(super) calls: Vec<ParsedCall>,
    pub(super) errors: Vec<String>,
}

/// Tools of the runtime that are known although no list names them.
const RUNTIME_TOOLS: [&str; 2] = ["ledger", "load_skill"];

pub(super) fn is_known(name: &str, tools: &[String]) -> bool {
    RUNTIME_TOOLS.contains(&name) || tools.iter().any(|t| t == name)
}

/// The name of a known tool at the beginning of `text`, directly followed by a parenthesis.
pub(super) fn known_name_at<'a>(text: &'a str, tools: &[String]) -> Option<&'a str> {
    let end = crate::json::clip(text, MAX_NAME).find('(')?;
    let name = &text[..end];
    is_known(name, tools).then_some(name)
}

fn unknown_tool(name: &str, tools: &[String]) -> String {
    let mut names: Vec<&str> = tools.iter().map(String::as_str).collect();
    names.sort_unstable();
    names.truncate(20);
    // prose-ok: contract text
    format!("Unknown tool '{name}'. Available tools: [{}]", names.join(", "))
}

/// Scans for calls at the beginning of lines; a code fence around the whole text is none.
pub(super) fn bare_calls(text: &str, tools: &[String]) -> Found {
    line_calls(unwrap_fence(text), tools)
}

/// Scans for calls at the beginning of lines.
pub(super) fn line_calls(text: &str, tools: &[String]) -> Found {
    let mut found = Found::default();
    let mut at = 0;
    while at < text.len() && found.errors.len() < MAX_ERRORS {
        let line_end = text[at..].find('\n').map_or(text.len(), |n| at + n + 1);
        match line_call(text, at, tools) {
            LineCall::Call(call) => {
                at = call.end;
                found.calls.push(call);
                // Several calls may share a line.
                let rest = &text[at..];
                let blanks = rest.len() - rest.trim_start_matches([' ', '\t', ';', ',', '>']).len();
                if known_name_at(&rest[blanks..], tools).is_some() {
                    at += blanks;
                } else {
                    at = text[at..].find('\n').map_or(text.len(), |n| at + n + 1);
                }
            }
            LineCall::Error(error) => {
                found.errors.push(error);
                at = line_end;
            }
            LineCall::None => at = line_end,
        }
    }
    if found.calls.is_empty() && found.errors.is_empty() {
        found.calls = json_calls(text, tools);
    }
    found
}

enum LineCall {
    Call(ParsedCall),
    Error(String),
    None,
}

fn line_call(text: &str, line: usize, tools: &[String]) -> LineCall {
    let skip = |at: usize| at + text[at..].len() - text[at..].trim_start_matches([' ', '\t']).len();
    let mut at = skip(line);
    if text[at..].starts_with('<') {
        at = skip(at + 1);
    }
    if let Some(label) = LABELS.iter().chain(&["bash:"]).find(|l| text[at..].starts_with(**l)) {
        at = skip(at + label.len());
    }
    let rest = &text[at..];
    if let Some(name) = known_name_at(rest, tools) {
        return match parse_call(text, at + name.len(), name) {
            Ok(call) => LineCall::Call(call),
            Err(error) => LineCall::Error(error),
        };
    }
    if !rest.starts_with(is_name_start) {
        return LineCall::None;
    }
    let end = rest.find(|c: char| !is_name_char(c)).unwrap_or(rest.len());
    let (word, tail) = rest.split_at(end);
    if tail.starts_with("({") {
        return LineCall::Error(unknown_tool(word, tools));
    }
    if let Some(after) = tail.strip_prefix(':')
        && let Some(name) = known_name_at(after.trim_start_matches([' ', '\t']), tools)
    {
        return LineCall::Error(format!(
            "TOOL CALL PARSE ERROR: `{name}(...)` — drop the label `{word}:` in front of the call"
        ));
    }
    LineCall::None
}

/// Removes a code fence or a pair of backticks around the whole text.
fn unwrap_fence(text: &str) -> &str {
    let trimmed = text.trim();
    if let Some(inner) = trimmed.strip_prefix("```").and_then(|t| t.strip_suffix("```"))
        && let Some((_, body)) = inner.split_once('\n')
        && !body.contains("```")
    {
        return body;
    }
    if let Some(inner) = trimmed.strip_prefix('`').and_then(|t| t.strip_suffix('`'))
        && !inner.contains('`')
    {
        return inner;
    }
    text
}

/// Accepts calls in OpenAI's JSON: a list of them, or one whose id starts with `call_`.
fn json_calls(text: &str, tools: &[String]) -> Vec<ParsedCall> {
    let Ok(value) = serde_json::from_str::<Value>(text.trim()) else { return Vec::new() };
    let read = |call: &Value| -> Option<ParsedCall> {
        let function = call.get("function")?;
        let name = str_at(function, "name").filter(|n| is_known(n, tools))?;
        str_at(call, "id")?;
        let arguments = match function.get("arguments") {
            Some(Value::String(text)) => parse_arguments(text),
            Some(other) => other.clone(),
            None => harn_value::json!({}),
        };
        // As in the other forms, what is no object is no call.
        arguments.is_object().then(|| ParsedCall { name: name.to_string(), arguments, end: text.len() })
    };
    match &value {
        Value::Array(list) => list.iter().filter_map(read).collect(),
        one if str_at(one, "id").is_some_and(|id| id.starts_with("call_")) => read(one).into_iter().collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use harn_value::json;

    fn tools() -> Vec<String> {
        ["read", "mcp.list"].map(String::from).to_vec()
    }

    fn names(text: &str) -> (Vec<String>, Vec<String>) {
        let found = bare_calls(text, &tools());
        (found.calls.into_iter().map(|c| c.name).collect(), found.errors)
    }

    #[test]
    fn calls_stand_at_the_beginning_of_lines() {
        assert_eq!(names("I call\n  tool_call: read({ a: 1 })\nmcp.list()").0, ["read", "mcp.list"]);
        assert_eq!(names("```js\nread({})\n```").0, ["read"]);
        assert!(names("use `read({})` or say read({})").0.is_empty());
        assert_eq!(names("`read({})`").0, ["read"]);
    }

    #[test]
    fn labels_and_unknown_names_are_errors() {
        assert!(names("foo: read({})").1[0].contains("drop the label `foo:`"));
        assert_eq!(names("write({ a: 1 })").1, ["Unknown tool 'write'. Available tools: [mcp.list, read]"]);
    }

    #[test]
    fn raw_json_calls_are_accepted() {
        let text = r#"[{"id": "x", "function": {"name": "read", "arguments": "{\"a\": 1}"}}]"#;
        assert_eq!(bare_calls(text, &tools()).calls[0].arguments, json!({"a": 1}));
        let one = r#"{"id": "nope", "function": {"name": "read", "arguments": {}}}"#;
        assert!(bare_calls(one, &tools()).calls.is_empty());
    }
}
