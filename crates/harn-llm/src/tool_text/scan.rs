//! Finds calls outside of tags in free text.

use std::ops::Range;

use harn_value::Data as Value;

use super::grammar::{
    ACTION, ParsedCall, action_at, is_name_char, is_name_start, parse_action_input, parse_call,
};
use crate::json::{clip, str_at};
use crate::message::parse_arguments;
use harn_prompt::untrusted::quote;

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

/// The maximum length of a tool name that is searched for.
const MAX_NAME: usize = 256;
/// The number of calls that cannot be parsed after which the scan stops.
pub(super) const MAX_ERRORS: usize = 50;

/// The result of a scan.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Found {
    pub(super) calls: Vec<ParsedCall>,
    /// The span of each call, including its label and the separator before the next one.
    pub(super) spans: Vec<Range<usize>>,
    pub(super) errors: Vec<String>,
}

/// Tools of the runtime that are known without being listed.
const RUNTIME_TOOLS: [&str; 2] = ["ledger", "load_skill"];

pub(super) fn is_known(name: &str, tools: &[String]) -> bool {
    RUNTIME_TOOLS.contains(&name) || tools.iter().any(|t| t == name)
}

/// Returns whether a line begins a call of a known tool.
pub(super) fn begins_call(line: &str, tools: &[String]) -> bool {
    let line = line.trim_start();
    let action = line.strip_prefix(ACTION).is_some_and(|name| is_known(name.trim(), tools));
    action || known_name_at(line, tools).is_some()
}

/// Returns the name of a known tool at the start of `text`, if a parenthesis directly follows it.
pub(super) fn known_name_at<'a>(text: &'a str, tools: &[String]) -> Option<&'a str> {
    let end = clip(text, MAX_NAME).find('(')?;
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

/// Scans for calls at the start of lines, ignoring a code fence around the whole text.
pub(super) fn bare_calls(text: &str, tools: &[String]) -> Found {
    line_calls(unwrap_fence(text), tools)
}

/// Scans for calls at the start of lines.
pub(super) fn line_calls(text: &str, tools: &[String]) -> Found {
    let mut found = Found::default();
    let mut at = 0;
    while at < text.len() && found.errors.len() < MAX_ERRORS {
        let line_end = text[at..].find('\n').map_or(text.len(), |n| at + n + 1);
        match line_call(text, at, tools) {
            LineCall::Call(call, start) => {
                let end = call.end;
                let rest = &text[end..];
                let after = rest.trim_start_matches([' ', '\t', ';', ',', '>']);
                // Several calls may be on the same line.
                let another = known_name_at(after, tools).is_some();
                let ends_line = after.is_empty() || after.starts_with(['\n', '\r']);
                let marks = match another || ends_line {
                    true => rest.len() - after.len(),
                    false => usize::from(rest.starts_with('>')),
                };
                at = match another {
                    true => end + marks,
                    false => rest.find('\n').map_or(text.len(), |n| end + n + 1),
                };
                found.spans.push(start..end + marks);
                found.calls.push(call);
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
        // Together the calls are the whole text, so only the first one has a span.
        found.spans = (0..found.calls.len())
            .map(|n| if n == 0 { 0..text.len() } else { text.len()..text.len() })
            .collect();
    }
    found
}

enum LineCall {
    /// The call, and the offset at which it starts, including its label.
    Call(ParsedCall, usize),
    Error(String),
    None,
}

fn line_call(text: &str, line: usize, tools: &[String]) -> LineCall {
    let skip = |at: usize| at + text[at..].len() - text[at..].trim_start_matches([' ', '\t']).len();
    let start = skip(line);
    if let Some((name, input)) = action_at(text, start) {
        if !is_known(name, tools) {
            return LineCall::Error(unknown_tool(&quote(clip(name, 80)), tools));
        }
        return match parse_action_input(text, input, name) {
            Ok(call) => LineCall::Call(call, start),
            Err(error) => LineCall::Error(error),
        };
    }
    let mut at = start;
    if text[at..].starts_with('<') {
        at = skip(at + 1);
    }
    if let Some(label) = LABELS.iter().chain(&["bash:"]).find(|l| text[at..].starts_with(**l)) {
        at = skip(at + label.len());
    }
    let rest = &text[at..];
    if let Some(name) = known_name_at(rest, tools) {
        return match parse_call(text, at + name.len(), name) {
            Ok(call) => LineCall::Call(call, start),
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
            // prose-ok: a diagnostic whose words the contract names
            "Saw `{word}: {name}(...)`. Drop the label `{word}:` in front of the call."
        ));
    }
    LineCall::None
}

/// Returns the offset in an unfinished reply at which the first call outside of tags may start, or the length of the
/// reply if it contains no call. A quoted call is included, because the caller only delays showing it.
pub(crate) fn may_be_call(text: &str, tools: &[String]) -> usize {
    if tools.is_empty() {
        return text.len();
    }
    let mut at = 0;
    while at < text.len() {
        let end = text[at..].find(['\n', '>']).map_or(text.len(), |n| at + n + 1);
        let before = text[..at].trim_end();
        // JSON is a call if there is nothing else between the blocks.
        if may_begin_call(&text[at..], tools)
            || ((before.is_empty() || before.ends_with('>')) && may_begin_json(&text[at..]))
        {
            return at;
        }
        at = end;
    }
    text.len()
}

fn may_begin_json(rest: &str) -> bool {
    let inside = rest.trim_start().strip_prefix(['[', '{']).map(str::trim_start);
    inside.is_some_and(|inside| inside.is_empty() || inside.starts_with(['{', '"']))
}

/// Returns whether the input starts with a known call, or may become one when more text arrives.
fn may_begin_call(rest: &str, tools: &[String]) -> bool {
    let blanks = [' ', '\t'];
    let rest = rest.trim_start_matches(blanks);
    if !rest.is_empty() && (ACTION.starts_with(rest) || rest.starts_with(ACTION)) {
        return true;
    }
    let rest = rest.strip_prefix('<').unwrap_or(rest).trim_start_matches(blanks);
    let mut labels = LABELS.into_iter().chain(["bash:"]);
    if let Some(label) = labels.clone().find(|label| rest.starts_with(label)) {
        let rest = rest[label.len()..].trim_start_matches(blanks);
        return rest.is_empty() || may_begin_name(rest, tools);
    }
    !rest.is_empty() && (labels.any(|label| label.starts_with(rest)) || may_begin_name(rest, tools))
}

fn may_begin_name(rest: &str, tools: &[String]) -> bool {
    let mut names = RUNTIME_TOOLS.into_iter().chain(tools.iter().map(String::as_str));
    names.any(|name| match rest.strip_prefix(name) {
        Some(tail) => tail.is_empty() || tail.starts_with('('),
        None => name.starts_with(rest),
    })
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

/// Parses calls in OpenAI's JSON: a list of them, or a single one whose id starts with `call_`.
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
        // As in the other forms, the arguments must be an object.
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
        assert_eq!(
            names("foo: read({})").1,
            ["Saw `foo: read(...)`. Drop the label `foo:` in front of the call."]
        );
        assert_eq!(names("write({ a: 1 })").1, ["Unknown tool 'write'. Available tools: [mcp.list, read]"]);
    }

    #[test]
    fn a_span_is_the_call_and_its_marks() {
        let text = "I call\n  tool_call: read({ a: 1 }); mcp.list(),\n<read({})> now";
        let spans: Vec<&str> = bare_calls(text, &tools()).spans.into_iter().map(|span| &text[span]).collect();
        assert_eq!(spans, ["tool_call: read({ a: 1 }); ", "mcp.list(),", "<read({})>"]);
    }

    #[test]
    fn raw_json_calls_are_accepted() {
        let text = r#"[{"id": "x", "function": {"name": "read", "arguments": "{\"a\": 1}"}}]"#;
        assert_eq!(bare_calls(text, &tools()).calls[0].arguments, json!({"a": 1}));
        let one = r#"{"id": "nope", "function": {"name": "read", "arguments": {}}}"#;
        assert!(bare_calls(one, &tools()).calls.is_empty());
    }

    #[test]
    fn calls_in_the_form_of_react_are_accepted() {
        let call = |text: &str| {
            let found = bare_calls(text, &tools());
            assert_eq!(found.errors, [""; 0], "{text}");
            (found.calls.into_iter().map(|call| (call.name, call.arguments)).collect::<Vec<_>>(), found.spans)
        };
        let text = "Thought: I need it.\n Action: read\nAction Input: {\"a\": [1, {\"b\": \"}\"}]}\nObservation: none";
        let (calls, spans) = call(text);
        assert_eq!(calls, [("read".to_string(), json!({"a": [1, {"b": "}"}]}))]);
        assert_eq!(&text[spans[0].clone()], "Action: read\nAction Input: {\"a\": [1, {\"b\": \"}\"}]}");
        let two = "Action: mcp.list\r\nAction Input:\r\n{}\r\nAction: read \nAction Input: {a: 1}";
        assert_eq!(call(two).0, [("mcp.list".to_string(), json!({})), ("read".to_string(), json!({"a": 1}))]);
        for none in [
            "Action: read",
            "Action: read\nand then",
            "say Action: read\nAction Input: {}",
            "Action Input: {}",
        ] {
            assert_eq!(call(none).0, [], "{none}");
        }
    }

    #[test]
    fn wrong_calls_in_the_form_of_react_are_errors() {
        assert_eq!(
            names("Action: write\nAction Input: {}"),
            (vec![], vec!["Unknown tool 'write'. Available tools: [mcp.list, read]".to_string()])
        );
        for (input, why) in
            [("x.txt", "found `x`"), ("", "found the end"), ("{\"a\": ", ""), ("[1]", "found `[`")]
        {
            let (calls, errors) = names(&format!("Action: read\nAction Input: {input}"));
            assert_eq!(calls, [""; 0], "{input}");
            assert!(
                errors[0].starts_with("TOOL CALL PARSE ERROR: `Action: read` — ") && errors[0].contains(why),
                "{errors:?}"
            );
        }
    }

    #[test]
    fn what_may_become_a_call_is_found_while_it_arrives() {
        for text in ["A", "Action", "Action:", "Action: read", "x\n  Action: re", "re", "read("] {
            assert!(may_be_call(text, &tools()) < text.len(), "{text}");
        }
        for text in ["An action", "Actions: none\n", "x Action: read"] {
            assert_eq!(may_be_call(text, &tools()), text.len(), "{text}");
        }
    }
}
