//! Hooks: the events of tool calls, turns and workers that a program or its manifest observes.

use harn_llm::options::nearest;
use harn_value::{Data as Json, glob};
use regex::Regex;

use crate::run::HookVerdict;

/// The events of hooks.
pub const EVENTS: [&str; 10] = [
    "PreToolUse",
    "PostToolUse",
    "PreAgentTurn",
    "PostAgentTurn",
    "WorkerSpawned",
    "WorkerProgressed",
    "WorkerWaitingForInput",
    "WorkerCompleted",
    "WorkerFailed",
    "WorkerCancelled",
];

/// Selects events of a hook.
#[derive(Debug, Clone)]
pub enum Pattern {
    /// Events of tools whose name matches a glob; events without a tool match `*`.
    Tool(String),
    /// Events whose payload has a value at a dotted path that passes the test.
    Field(Vec<String>, Test),
}

/// A test of a value.
#[derive(Debug, Clone)]
pub enum Test {
    /// Not nil, false, zero or empty.
    Truthy,
    /// Its printed form equals this string.
    Equals(String),
    /// It is nil, or its printed form differs from this string.
    Differs(String),
    /// Its printed form contains a match.
    Finds(Regex),
}

impl Pattern {
    /// Parses the pattern of a hook of an event: a glob over tool names, `path == "text"`, `path != "text"`, `path =~
    /// "regular expression"`, or a dotted path.
    ///
    /// # Errors
    /// A message that describes the problem. A pattern that no event can match is an error too, because its author
    /// relies on the hook.
    pub fn parse(event: &str, text: &str) -> Result<Pattern, String> {
        let text = text.trim();
        let wrong = |what: &str| format!("invalid hook pattern '{text}': {what}");
        let operators = ["==", "!=", "=~"].into_iter().filter_map(|op| Some((text.find(op)?, op)));
        let Some((at, operator)) = operators.min() else {
            return match path(text) {
                // A dot alone does not make a path, because tool names may contain dots.
                Some(path) if path.len() > 1 && ROOTS.contains(&path[0].as_str()) => {
                    field(event, &path).map_err(|what| wrong(&what))?;
                    Ok(Pattern::Field(path, Test::Truthy))
                }
                _ => tool_glob(event, text).map_err(|what| wrong(&what)),
            };
        };
        let (path, value) = (&text[..at], &text[at + operator.len()..]);
        let path =
            self::path(path.trim()).ok_or_else(|| wrong("expected a dotted path such as tool.name"))?;
        field(event, &path).map_err(|what| wrong(&what))?;
        let value =
            quoted(value.trim()).ok_or_else(|| wrong("expected a text in quotes behind the operator"))?;
        let test = match operator {
            "==" => Test::Equals(value.to_owned()),
            "!=" => Test::Differs(value.to_owned()),
            _ => Test::Finds(Regex::new(value).map_err(|e| wrong(&e.to_string()))?),
        };
        Ok(Pattern::Field(path, test))
    }

    /// Returns whether an event with this payload matches the pattern.
    pub fn matches(&self, payload: &Json) -> bool {
        match self {
            Pattern::Tool(pattern) => match payload["tool"]["name"].as_str() {
                Some(name) => glob(pattern, name),
                None => pattern == "*",
            },
            Pattern::Field(path, test) => {
                let value = path.iter().try_fold(payload, |value, key| value.get(key)).unwrap_or(&Json::Null);
                match test {
                    Test::Truthy => harn_llm::json::truthy(value),
                    Test::Equals(text) => !value.is_null() && value.printed() == *text,
                    Test::Differs(text) => value.is_null() || value.printed() != *text,
                    Test::Finds(regex) => !value.is_null() && regex.is_match(&value.printed()),
                }
            }
        }
    }
}

/// The first segments of payload paths.
const ROOTS: [&str; 7] = ["event", "tool", "result", "worker", "turn", "session", "iteration"];

/// Returns the payload fields of an event. A suffix `.*` matches any path.
fn fields(event: &str) -> &'static [&'static str] {
    match event {
        "PreToolUse" => &["event", "tool.name", "tool.args", "tool.args.*"],
        "PostToolUse" => &["event", "tool.name", "tool.args", "tool.args.*", "result.text"],
        "PreAgentTurn" => &["event", "session.id", "iteration"],
        "PostAgentTurn" => &[
            "event",
            "session.id",
            "iteration",
            "turn",
            "turn.tool_names",
            "turn.tool_results",
            "turn.successful_tool_names",
            "turn.tool_count",
            "turn.iteration",
            "turn.failed",
            "turn.consecutive_single_tool_turns",
            "turn.session_tools_used",
            "turn.session_successful_tools",
        ],
        _ => &[
            "event",
            "worker.id",
            "worker.name",
            "worker.mode",
            "worker.status",
            "worker.task",
            "worker.error",
        ],
    }
}

/// Returns an error if payloads of an event do not have a field.
fn field(event: &str, path: &[String]) -> Result<(), String> {
    let path = path.join(".");
    let known = fields(event);
    let holds = |name: &&str| match name.strip_suffix('*') {
        Some(open) => path.starts_with(open),
        None => path == **name,
    };
    if known.iter().any(holds) {
        return Ok(());
    }
    let names = || known.iter().copied().filter(|name| !name.ends_with('*'));
    match nearest(&path, names()) {
        Some(near) => Err(format!("{event} has no field {path}, did you mean {near}?")),
        None => {
            Err(format!("{event} has no field {path}; there are {}", names().collect::<Vec<_>>().join(", ")))
        }
    }
}

/// Parses a glob over tool names.
fn tool_glob(event: &str, text: &str) -> Result<Pattern, String> {
    if text.is_empty() {
        return Err("it is empty, and would fit nothing".to_owned());
    }
    if text.contains('=') {
        return Err("the operators are ==, != and =~".to_owned());
    }
    if let Some(odd) = text.chars().find(|c| !c.is_alphanumeric() && !"_-.:/*".contains(*c)) {
        return Err(format!("no tool has '{odd}' in its name"));
    }
    let has_tool = fields(event).contains(&"tool.name");
    if !has_tool && text != "*" {
        return Err(format!("{event} is about no tool, and fits * only"));
    }
    // A tool name may contain a dot, but `tol.name` is almost certainly a misspelt field.
    match fields(event)
        .iter()
        .find(|name| text.contains('.') && nearest(text, [**name].into_iter()).is_some())
    {
        Some(near) => Err(format!("{event} has no field {text}, did you mean {near}?")),
        None => Ok(Pattern::Tool(text.to_owned())),
    }
}

fn path(text: &str) -> Option<Vec<String>> {
    let is_name =
        |part: &str| !part.is_empty() && part.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-');
    text.split('.').map(|part| is_name(part).then(|| part.to_owned())).collect()
}

fn quoted(text: &str) -> Option<&str> {
    ['"', '\''].into_iter().find_map(|quote| {
        let inner = text.strip_prefix(quote)?.strip_suffix(quote)?;
        (!inner.contains(quote)).then_some(inner)
    })
}

/// Reads the return value of a `PreToolUse` hook.
///
/// # Errors
/// The value is invalid.
pub fn before(value: &Json) -> Result<HookVerdict, String> {
    let wrong = || format!("PreToolUse hook must return nil or {{deny, args}}, got {}", value.type_name());
    if value.is_null() {
        return Ok(HookVerdict::default());
    }
    let map = value.as_object().ok_or_else(wrong)?;
    let given = |key: &str| map.get(key).filter(|value| !value.is_null());
    if map.keys().any(|key| !matches!(key.as_str(), "deny" | "args")) {
        return Err(wrong());
    }
    let arguments = match given("args") {
        None => None,
        Some(args) if args.as_object().is_some() => Some(args.clone()),
        Some(_) => return Err(wrong()),
    };
    // `deny: true` has no reason, but it must not let the call pass.
    let deny = match given("deny") {
        None | Some(Json::Bool(false)) => None,
        Some(Json::Bool(true)) => Some("denied by a hook".to_owned()), // prose-ok: contract text
        Some(reason) => Some(reason.printed()),
    };
    Ok(HookVerdict { arguments, deny })
}

/// Reads the return value of a `PostToolUse` hook: the replacement of the result, if any.
///
/// # Errors
/// The value is invalid.
pub fn after(value: &Json) -> Result<Option<String>, String> {
    let wrong =
        || format!("PostToolUse hook must return nil, string, or {{result}}, got {}", value.type_name());
    match value {
        Json::Null => Ok(None),
        Json::String(text) => Ok(Some(text.clone())),
        _ => {
            let result = value.as_object().and_then(|map| map.get("result")).ok_or_else(wrong)?;
            Ok((!result.is_null()).then(|| result.printed()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use harn_value::json;

    fn fits(pattern: &str, payload: &Json) -> bool {
        let event = payload["event"].as_str().unwrap_or("PreToolUse");
        Pattern::parse(event, pattern).unwrap().matches(payload)
    }

    #[test]
    fn patterns_are_globs_or_tests_of_the_payload() {
        let payload = json!({"event": "PreToolUse", "tool": {"name": "write_file", "args": {"path": "src/a.rs", "n": 3, "ok": true}}});
        for pattern in [
            "*",
            "write*",
            "*file",
            "write_file",
            "tool.name == \"write_file\"",
            "tool.name=='write_file'",
            "tool.name != \"read\"",
            "tool.args.path =~ \"\\.rs$\"",
            "tool.args.n == \"3\"",
            "tool.args.ok",
            "tool.args.missing != \"x\"",
        ] {
            assert!(fits(pattern, &payload), "{pattern}");
        }
        for pattern in
            ["read*", "write", "tool.name == \"x\"", "tool.args.missing", "tool.args.missing =~ \".*\""]
        {
            assert!(!fits(pattern, &payload), "{pattern}");
        }
        assert!(
            fits("*", &json!({"event": "PreAgentTurn"}))
                && !fits("write*", &json!({}))
                && fits("tool.args.cmd =~ 'a==b'", &json!({"tool": {"args": {"cmd": "a==b"}}}))
        );
        // A tool name may contain a dot.
        assert!(fits("files.read", &json!({"tool": {"name": "files.read"}})));
    }

    #[test]
    fn wrong_patterns_say_what_is_wrong() {
        for (pattern, what) in [
            ("tool.name == x", "a text in quotes"),
            ("tool..name == \"x\"", "a dotted path"),
            ("tool.name =~ \"(\"", "invalid hook pattern"),
            ("tool.name = \"write\"", "the operators are ==, != and =~"),
            ("((", "no tool has '(' in its name"),
            ("", "it is empty"),
            ("tool.nme == \"x\"", "PreToolUse has no field tool.nme, did you mean tool.name?"),
            ("tool.nam =~ \"^w\"", "did you mean tool.name?"),
            ("tool.nme", "did you mean tool.name?"),
            ("tol.name", "did you mean tool.name?"),
            (
                "result.text == \"x\"",
                "PreToolUse has no field result.text; there are event, tool.name, tool.args",
            ),
            ("tool == \"x\"", "has no field tool"),
        ] {
            assert!(Pattern::parse("PreToolUse", pattern).unwrap_err().contains(what), "{pattern}");
        }
        let on = |event: &str, pattern: &str| Pattern::parse(event, pattern).map(drop);
        assert!(on("PreAgentTurn", "write*").unwrap_err().contains("is about no tool"));
        assert!(
            on("PreAgentTurn", "tool.name == 'x'").is_err() && on("PreAgentTurn", "iteration == '0'").is_ok()
        );
        assert!(
            on("WorkerFailed", "worker.name == 'x'").is_ok()
                && on("PostToolUse", "result.text =~ 'x'").is_ok()
        );
    }

    #[test]
    fn verdicts() {
        assert_eq!(before(&Json::Null).unwrap(), HookVerdict::default());
        assert_eq!(before(&json!({"deny": "no"})).unwrap().deny.as_deref(), Some("no"));
        assert!(before(&json!({"deny": true})).unwrap().deny.is_some());
        assert_eq!(before(&json!({"args": {"a": 1}})).unwrap().arguments, Some(json!({"a": 1})));
        for wrong in [json!("x"), json!(true), json!({"args": 1}), json!({"dny": "x"})] {
            assert!(
                before(&wrong)
                    .unwrap_err()
                    .starts_with("PreToolUse hook must return nil or {deny, args}, got")
            );
        }
        assert_eq!(after(&json!({"result": "r"})).unwrap().as_deref(), Some("r"));
        assert_eq!(
            after(&json!(1)).unwrap_err(),
            "PostToolUse hook must return nil, string, or {result}, got int"
        );
    }
}
