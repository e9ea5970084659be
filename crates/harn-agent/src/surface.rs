//! Checks of a loop's tools before the first call: missing schemas or annotations, unreadable results, and policies and
//! prompts that name unknown tools.

use harn_llm::json::truthy;
use harn_llm::options::nearest;
use harn_prompt::mentions::{looks_like_a_tool, mentions, outside_fences};
use harn_value::{Data as Json, data::Map, glob};
use serde::{Deserialize, Serialize};

use crate::agents::{OF_AGENT, TOOLS_OF_AGENT};
use crate::policy::side_effect_rank;
use crate::tool::declared_arguments;

/// A problem of a tool surface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// `TOOL_SURFACE_…`.
    pub code: String,
    /// The severity: `error` if the surface cannot be used, else `warning`.
    pub severity: Severity,
    /// The message.
    pub message: String,
    /// The tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The field of the surface that has the problem.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
}

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Calls will fail.
    Error,
    /// Something is probably unintended.
    Warning,
}

/// A tool, as described by its entry.
struct Tool<'a> {
    name: String,
    entry: &'a Json,
    annotations: Json,
    active: bool,
    deferred: bool,
}

impl Tool<'_> {
    /// Returns whether its name matches, or the name of a tool of the agent that it calls.
    fn has(&self, fits: impl Fn(&str) -> bool) -> bool {
        let of_agent = self.entry[TOOLS_OF_AGENT].as_array().into_iter().flatten().filter_map(Json::as_str);
        std::iter::once(self.name.as_str()).chain(of_agent).any(fits)
    }
}

/// The keys of a surface.
const KEYS: [&str; 8] =
    ["tools", "native_tools", "policy", "approval_policy", "system", "prompt", "prompts", "tool_search"];

/// Returns an error message for an unknown key of a surface.
pub fn unknown(surface: &Json) -> Option<String> {
    let key = surface.as_object()?.keys().find(|key| !KEYS.contains(&key.as_str()))?;
    Some(format!("tool_surface_validate: a surface has no '{key}'; there are {}", KEYS.join(", ")))
}

/// Returns the tools of a surface.
fn tools_of(surface: &Map<String, Json>) -> Vec<Tool<'_>> {
    let none = &Json::Null;
    let policy = surface.get("policy").unwrap_or(none);
    let allowed = (!policy["tools"].is_null()).then(|| texts(&policy["tools"]));
    let mut tools: Vec<Tool<'_>> = Vec::new();
    for key in ["tools", "native_tools"] {
        for entry in entries(surface.get(key).unwrap_or(none)) {
            let Some(name) = name_of(entry) else { continue };
            let mut annotations = entry["annotations"].clone();
            if let Some(more) = policy["tool_annotations"].get(&name).and_then(Json::as_object) {
                if !annotations.is_object() {
                    annotations = Json::Object(Map::new());
                }
                if let Some(map) = annotations.as_object_mut() {
                    map.extend(more.clone());
                }
            }
            let active = entry[OF_AGENT].is_string()
                || allowed.as_ref().is_none_or(|all| all.iter().any(|pattern| glob(pattern, &name)));
            let deferred = entry["defer_loading"] == true;
            tools.push(Tool { name, entry, annotations, active, deferred });
        }
    }
    tools
}

/// Validates a surface: `tools`, `native_tools`, `policy`, `approval_policy`, `system`, `prompt`, `prompts`,
/// `tool_search`.
pub fn validate(surface: &Map<String, Json>) -> Vec<Finding> {
    let none = Json::Null;
    let policy = surface.get("policy").unwrap_or(&none);
    let tools = tools_of(surface);
    let mut found = Vec::new();
    for tool in tools.iter().filter(|tool| tool.active) {
        check_tool(tool, &tools, policy, &mut found);
    }
    check_policy(&tools, policy, &mut found);
    check_approval(&tools, surface.get("approval_policy").unwrap_or(&none), &mut found);
    let searches = surface.get("tool_search").is_some_and(truthy);
    let mut prompts: Vec<(String, String)> = Vec::new();
    for key in ["system", "prompt"] {
        if let Some(text) = surface.get(key).and_then(Json::as_str) {
            prompts.push((key.to_owned(), text.to_owned()));
        }
    }
    for text in texts(surface.get("prompts").unwrap_or(&none)) {
        prompts.push(("prompts".to_owned(), text));
    }
    for (field, text) in &prompts {
        check_prompt(&tools, field, text, searches, &mut found);
    }
    found
}

fn finding(code: &str, severity: Severity, message: String, tool: Option<&str>) -> Finding {
    Finding {
        code: format!("TOOL_SURFACE_{code}"),
        severity,
        message,
        tool: tool.map(str::to_owned),
        field: None,
    }
}

fn check_tool(tool: &Tool<'_>, tools: &[Tool<'_>], policy: &Json, found: &mut Vec<Finding>) {
    let (name, entry, annotations) = (&tool.name, tool.entry, &tool.annotations);
    let mut warn = |code: &str, message: String| {
        found.push(finding(code, Severity::Warning, message, Some(name)));
    };
    // The effects of an agent are checked where they occur.
    let of_agent = entry[OF_AGENT].is_string();
    let function = &entry["function"];
    let schema = ["parameters", "input_schema", "inputSchema"]
        .iter()
        .any(|key| entry.get(*key).or_else(|| function.get(*key)).is_some_and(Json::is_object));
    if !schema {
        warn("MISSING_SCHEMA", format!("active tool '{name}' has no parameter schema"));
    }
    if !annotations.is_object() || annotations.as_object().is_some_and(|map| map.is_empty()) {
        warn("MISSING_ANNOTATIONS", format!("active tool '{name}' has no ToolAnnotations"));
    } else if !of_agent && matches!(annotations["side_effect_level"].as_str(), None | Some("none")) {
        warn("MISSING_SIDE_EFFECT_LEVEL", format!("active tool '{name}' has no side_effect_level"));
    }
    let handler = entry.get("handler").is_some_and(|handler| handler.as_opaque().is_some());
    let executor =
        entry.get("executor").is_some_and(|executor| executor.as_str().is_some_and(|e| e != "harn"));
    let runtime = crate::registry::RUNTIME_TOOLS.contains(&name.as_str());
    if !handler && !executor && !runtime && !of_agent {
        warn("MISSING_EXECUTOR", format!("active tool '{name}' has neither a handler nor an executor"));
    }
    let readers = texts(&annotations["result_readers"]);
    for reader in &readers {
        if !tools.iter().any(|other| other.active && other.name == *reader) {
            warn(
                "UNKNOWN_RESULT_READER",
                format!("tool '{name}' names result reader '{reader}', which is no active tool"),
            );
        }
    }
    if annotations["kind"] == "execute"
        && annotations["emits_artifacts"] == true
        && annotations["inline_result"] != true
    {
        let reads = |other: &Tool<'_>| {
            other.active
                && (readers.contains(&other.name)
                    || other.name == "read_command_output"
                    || matches!(other.annotations["kind"].as_str(), Some("read" | "search")))
        };
        if !tools.iter().any(reads) {
            let message =
                format!("execute tool '{name}' can emit output artifacts but has no active result reader");
            found.push(finding("MISSING_RESULT_READER", Severity::Error, message, Some(name)));
        }
    }
    if let (Some(ceiling), Some(level)) =
        (policy["side_effect_level"].as_str(), annotations["side_effect_level"].as_str())
        && side_effect_rank(level) > side_effect_rank(ceiling)
    {
        let message = format!("tool '{name}' has side effects of level {level}, above the ceiling {ceiling}");
        found.push(finding("SIDE_EFFECT_CEILING_EXCEEDED", Severity::Error, message, Some(name)));
    }
}

fn check_policy(tools: &[Tool<'_>], policy: &Json, found: &mut Vec<Finding>) {
    let mut warn = |code: &str, message: String, tool: Option<&str>, field: &str| {
        let finding = finding(code, Severity::Warning, message, tool);
        found.push(Finding { field: Some(field.to_owned()), ..finding });
    };
    for constraint in policy["tool_arg_constraints"].as_array().into_iter().flatten() {
        let Some(pattern) = constraint["tool"].as_str() else { continue };
        let field = "policy.tool_arg_constraints";
        let bound: Vec<&Tool<'_>> = tools.iter().filter(|tool| glob(pattern, &tool.name)).collect();
        if !tools.iter().any(|tool| tool.has(|name| glob(pattern, name))) {
            let message = format!("tool_arg_constraints names '{pattern}', which is no tool");
            warn("UNKNOWN_ARG_CONSTRAINT_TOOL", message, Some(pattern), field);
        }
        if let Some(key) = constraint["arg_key"].as_str() {
            for tool in bound
                .iter()
                .filter(|tool| declared_arguments(tool.entry).is_some_and(|names| !names.contains_key(key)))
            {
                let message = format!(
                    "tool_arg_constraints names argument '{key}', which '{}' does not have",
                    tool.name
                );
                warn("UNKNOWN_ARG_CONSTRAINT_KEY", message, Some(&tool.name), field);
            }
        }
    }
}

/// The lists of patterns over tool names, and whether a pattern without a match would let calls run that it should
/// stop.
const PATTERNS: [(&str, &str, bool); 6] = [
    ("policy", "tools", false),
    ("approval_policy", "auto_approve", false),
    ("approval_policy", "auto_deny", true),
    ("approval_policy", "require_approval", true),
    ("permissions", "allow", false),
    ("permissions", "deny", true),
];

/// The options that name tools whose calls a loop observes.
pub const NAMES: [&str; 3] = ["stop_after_successful_tools", "require_successful_tools", "progress_tool"];

/// Finds names in the approval lists that match no tool.
fn check_approval(tools: &[Tool<'_>], approval: &Json, found: &mut Vec<Finding>) {
    for key in ["auto_approve", "auto_deny", "require_approval"] {
        for pattern in names_in(&approval[key]).iter().filter(|pattern| !pattern.contains('*')) {
            if !tools.iter().any(|tool| tool.active && tool.has(|name| name == *pattern)) {
                let message = miss(key, pattern, near(pattern, names(tools)));
                let finding = finding("APPROVAL_PATTERN_NO_MATCH", Severity::Warning, message, Some(pattern));
                found.push(Finding { field: Some(format!("approval_policy.{key}")), ..finding });
            }
        }
    }
}

/// Checks all pattern lists of a loop, including `permissions`, for patterns without effect, in addition to
/// [`validate`]. A misspelt name in a list that stops calls is an error, because the tool would run. So is a pattern
/// that nearly matches a tool, if no pattern in the list matches one.
pub fn slips(surface: &Map<String, Json>) -> Vec<Finding> {
    let tools = tools_of(surface);
    let list = |option: &str, key: &str| {
        surface.get(option).and_then(|option| option.get(key)).map(names_in).unwrap_or_default()
    };
    let mut found = Vec::new();
    let mut tell = |code: &str, severity, message, pattern: &str, field: String| {
        found.push(Finding { field: Some(field), ..finding(code, severity, message, Some(pattern)) });
    };
    for (option, key, stops) in PATTERNS {
        let patterns = list(option, key);
        // A capability policy is compared with all tools, because it excludes tools on purpose.
        let fits = |pattern: &String| {
            tools
                .iter()
                .any(|tool| (option == "policy" || tool.active) && tool.has(|name| glob(pattern, name)))
        };
        let misses: Vec<&String> = patterns.iter().filter(|pattern| !fits(pattern)).collect();
        let all = misses.len() == patterns.len();
        for pattern in misses.into_iter().filter(|_| !tools.is_empty()) {
            let near = near(pattern, names(&tools));
            let field = format!("{option}.{key}");
            let of_approval = option == "approval_policy";
            let message = miss(if of_approval { key } else { &field }, pattern, near);
            let code = if of_approval { "APPROVAL_PATTERN_NO_MATCH" } else { "TOOL_PATTERN_NO_MATCH" };
            if stops && near.is_some() && (all || !pattern.contains('*')) {
                tell(code, Severity::Error, message, pattern, field);
            } else if !of_approval || pattern.contains('*') {
                tell(code, Severity::Warning, message, pattern, field);
            }
        }
    }
    for key in NAMES {
        let given = surface
            .get(key)
            .map(|given| given.as_str().map_or_else(|| texts(given), |one| vec![one.to_owned()]));
        for name in given.unwrap_or_default().iter().filter(|_| !tools.is_empty()) {
            if !tools.iter().any(|tool| tool.has(|own| own == name)) {
                let message = miss(key, name, near(name, names(&tools)));
                tell("TOOL_NAME_NO_MATCH", Severity::Warning, message, name, key.to_owned());
            }
        }
    }
    // A call that does not satisfy a condition is passed on to the next list, so only patterns without a condition
    // apply.
    let approved =
        surface.get("approval_policy").map(|lists| texts(&lists["auto_approve"])).unwrap_or_default();
    for pattern in list("approval_policy", "require_approval") {
        let Some(first) = approved.iter().find(|approved| glob(approved, &pattern)) else { continue };
        let message = format!(
            "nobody is asked about '{pattern}' of require_approval: auto_approve, which comes first, has '{first}'" // prose-ok: diagnostic
        );
        let field = "approval_policy.require_approval".to_owned();
        tell("APPROVAL_NEVER_ASKED", Severity::Warning, message, &pattern, field);
    }
    found
}

fn names<'a>(tools: &'a [Tool<'_>]) -> impl Iterator<Item = &'a str> {
    tools.iter().map(|tool| tool.name.as_str())
}

/// Returns the message for a pattern that matches no tool.
fn miss(list: &str, pattern: &str, near: Option<&str>) -> String {
    let what = if pattern.contains('*') { "fits no active tool" } else { "is no active tool" };
    let hint = near.map(|near| format!("; did you mean '{near}'?")).unwrap_or_default();
    format!("{list} names '{pattern}', which {what}{hint}")
}

/// Returns messages for the names in a list that match no tool.
pub fn misses(list: &str, names: &[String], tools: &Json) -> Vec<String> {
    let tools: Vec<String> = entries(tools).into_iter().filter_map(name_of).collect();
    let unknown = names.iter().filter(|name| !tools.is_empty() && !tools.contains(name));
    unknown.map(|name| miss(list, name, near(name, tools.iter().map(String::as_str)))).collect()
}

/// Returns the patterns of a list, or the keys of a dict.
fn names_in(value: &Json) -> Vec<String> {
    match value {
        Json::Object(map) => map.keys().cloned().collect(),
        other => texts(other),
    }
}

/// Returns the name of the tool that a misspelt pattern was probably meant to match: the part before its first `*`, or
/// after its last one, is similar to the beginning or end of that name.
fn near<'a>(pattern: &str, mut names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let Some((first, _)) = pattern.split_once('*') else { return nearest(pattern, names) };
    let last = pattern.rsplit('*').next().unwrap_or_default();
    let letters = |text: &str| text.chars().count();
    let is_near =
        |said: &str, part: String| letters(said) > 3 && nearest(said, [part.as_str()].into_iter()).is_some();
    let head = |name: &str| name.chars().take(letters(first)).collect::<String>();
    let tail =
        |name: &str| name.chars().skip(letters(name).saturating_sub(letters(last))).collect::<String>();
    names.find(|name| is_near(first, head(name)) || is_near(last, tail(name)))
}

fn check_prompt(tools: &[Tool<'_>], field: &str, text: &str, searches: bool, found: &mut Vec<Finding>) {
    let text = outside_fences(text);
    let mut warn = |code: &str, message: String, tool: &str| {
        let finding = finding(code, Severity::Warning, message, Some(tool));
        let finding = Finding { field: Some(field.to_owned()), ..finding };
        if !found.contains(&finding) {
            found.push(finding);
        }
    };
    for name in mentions(&text) {
        match tools.iter().find(|tool| tool.name == name) {
            None if looks_like_a_tool(&name) => {
                warn("UNKNOWN_PROMPT_TOOL", format!("the prompt mentions '{name}', which is no tool"), &name);
            }
            None => {}
            Some(tool) if !tool.active => warn(
                "PROMPT_TOOL_NOT_IN_POLICY",
                format!("the prompt mentions '{name}', which the policy does not allow"),
                &name,
            ),
            Some(tool) if tool.deferred && searches => warn(
                "DEFERRED_TOOL_PROMPT_REFERENCE",
                format!("the prompt mentions '{name}', which is deferred"),
                &name,
            ),
            Some(_) => {}
        }
    }
    for tool in tools.iter().filter(|tool| tool.active) {
        let aliases = tool.annotations["arg_schema"]["arg_aliases"].as_object().into_iter().flatten();
        for (alias, name) in aliases.filter(|(alias, _)| mentions_word(&text, alias)) {
            let name = name.as_str().unwrap_or_default();
            let message =
                format!("the prompt mentions '{alias}', an old name of argument '{name}' of '{}'", tool.name);
            warn("DEPRECATED_ARG_ALIAS", message, &tool.name);
        }
    }
}

fn mentions_word(text: &str, word: &str) -> bool {
    let edge = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric() && c != '_');
    text.match_indices(word)
        .any(|(at, _)| edge(text[..at].chars().next_back()) && edge(text[at + word.len()..].chars().next()))
}

/// Returns the entries of a registry, or of a list of tools and registries.
fn entries(tools: &Json) -> Vec<&Json> {
    let list = tools.as_array().or_else(|| tools["tools"].as_array());
    list.into_iter()
        .flatten()
        .flat_map(|entry| if entry["_type"] == "tool_registry" { entries(entry) } else { vec![entry] })
        .collect()
}

fn name_of(entry: &Json) -> Option<String> {
    entry["name"].as_str().or_else(|| entry["function"]["name"].as_str()).map(str::to_owned)
}

fn texts(value: &Json) -> Vec<String> {
    match value {
        Json::String(text) => vec![text.clone()],
        Json::Array(items) => items.iter().filter_map(Json::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use harn_value::json;

    fn codes(surface: Json) -> Vec<String> {
        let found = validate(surface.as_object().unwrap());
        found.iter().map(|f| f.code.trim_start_matches("TOOL_SURFACE_").to_owned()).collect()
    }

    fn tool(name: &str, annotations: Json) -> Json {
        let handler = Json::opaque("closure", "fn");
        json!({"name": name, "parameters": {"path": "string"}, "handler": handler, "annotations": annotations})
    }

    #[test]
    fn a_whole_tool_has_no_findings() {
        let tools = json!([tool("look_up", json!({"kind": "read", "side_effect_level": "read_only"}))]);
        let empty: Vec<String> = Vec::new();
        assert_eq!(codes(json!({"tools": tools, "prompt": "Use look_up(path)."})), empty);
    }

    #[test]
    fn each_gap_has_its_code() {
        let fine = json!({"kind": "edit", "side_effect_level": "workspace_write", "arg_schema": {"arg_aliases": {"file_name": "path"}}});
        for (surface, code) in [
            (
                json!({"tools": [{"name": "x", "executor": "host_bridge", "annotations": fine}]}),
                "MISSING_SCHEMA",
            ),
            (json!({"tools": [tool("x", Json::Null)]}), "MISSING_ANNOTATIONS"),
            (json!({"tools": [tool("x", json!({"kind": "edit"}))]}), "MISSING_SIDE_EFFECT_LEVEL"),
            (json!({"tools": [{"name": "x", "parameters": {}, "annotations": fine}]}), "MISSING_EXECUTOR"),
            (
                json!({"tools": [tool("x", json!({"kind": "execute", "side_effect_level": "process_exec", "emits_artifacts": true}))]}),
                "MISSING_RESULT_READER",
            ),
            (
                json!({"tools": [tool("x", json!({"side_effect_level": "read_only", "result_readers": ["y"]}))]}),
                "UNKNOWN_RESULT_READER",
            ),
            (
                json!({"tools": [tool("x", fine.clone())], "policy": {"tool_arg_constraints": [{"tool": "y"}]}}),
                "UNKNOWN_ARG_CONSTRAINT_TOOL",
            ),
            (
                json!({"tools": [tool("x", fine.clone())], "policy": {"tool_arg_constraints": [{"tool": "x", "arg_key": "q"}]}}),
                "UNKNOWN_ARG_CONSTRAINT_KEY",
            ),
            (
                json!({"tools": [tool("x", fine.clone())], "approval_policy": {"auto_deny": ["y"]}}),
                "APPROVAL_PATTERN_NO_MATCH",
            ),
            (
                json!({"tools": [tool("x", fine.clone())], "prompt": "Call read_all(path)."}),
                "UNKNOWN_PROMPT_TOOL",
            ),
            (
                json!({"tools": [tool("edit_it", fine.clone()), tool("y", fine.clone())], "policy": {"tools": ["y"]}, "prompt": "Call edit_it(path)."}),
                "PROMPT_TOOL_NOT_IN_POLICY",
            ),
            (
                json!({"tools": [tool("x", fine.clone())], "prompt": "Give file_name."}),
                "DEPRECATED_ARG_ALIAS",
            ),
            (
                json!({"tools": [tool("x", fine.clone())], "policy": {"side_effect_level": "read_only"}}),
                "SIDE_EFFECT_CEILING_EXCEEDED",
            ),
        ] {
            assert_eq!(codes(surface.clone()), [code], "{surface}");
        }
        let mut deferred = tool("find_it", fine.clone());
        deferred["defer_loading"] = true.into();
        assert_eq!(
            codes(json!({"tools": [deferred], "tool_search": true, "system": "Use find_it(path)."})),
            ["DEFERRED_TOOL_PROMPT_REFERENCE"]
        );
    }

    #[test]
    fn patterns_that_fit_nothing_are_told() {
        let annotations = json!({"kind": "edit", "side_effect_level": "workspace_write"});
        let tools = json!([tool("delete_row", annotations.clone()), tool("read_row", annotations)]);
        let told = |part: &str, key: &str, patterns: Json| -> Vec<(String, bool)> {
            let mut inner = Map::new();
            inner.insert(key.to_owned(), patterns);
            let surface = json!({"tools": tools, part: Json::Object(inner)});
            let found = slips(surface.as_object().unwrap());
            found.into_iter().map(|f| (f.message, f.severity == Severity::Error)).collect()
        };
        let one = |text: &str, fails: bool| vec![(text.to_owned(), fails)];
        assert_eq!(
            told("approval_policy", "require_approval", json!(["delte_*"])),
            one(
                "require_approval names 'delte_*', which fits no active tool; did you mean 'delete_row'?",
                true
            )
        );
        assert_eq!(
            told("permissions", "deny", json!({"delete_rwo": "*"})),
            one(
                "permissions.deny names 'delete_rwo', which is no active tool; did you mean 'delete_row'?",
                true
            )
        );
        // Another pattern of the list matches, so the misspelt one is only a warning.
        assert_eq!(
            told("approval_policy", "auto_deny", json!(["read_*", "*_rwo"])),
            one("auto_deny names '*_rwo', which fits no active tool; did you mean 'delete_row'?", false)
        );
        assert_eq!(
            told("policy", "tools", json!(["read_row", "red_row"])),
            one("policy.tools names 'red_row', which is no active tool; did you mean 'read_row'?", false)
        );
        assert_eq!(
            told("permissions", "deny", json!(["send"])),
            one("permissions.deny names 'send', which is no active tool", false)
        );
        assert!(told("permissions", "allow", json!(["*"])).is_empty());
        assert!(slips(json!({"permissions": {"deny": ["x"]}}).as_object().unwrap()).is_empty());
    }

    #[test]
    fn approval_that_nobody_is_asked_for_is_told() {
        let approval = |approve: &str, require: &str| {
            let tools = json!([tool("delete_row", json!({"side_effect_level": "workspace_write"}))]);
            let lists = json!({"auto_approve": [approve], "require_approval": [require]});
            let found = slips(json!({"tools": tools, "approval_policy": lists}).as_object().unwrap());
            found.into_iter().map(|f| f.code).collect::<Vec<_>>()
        };
        assert_eq!(approval("*", "delete_*"), ["TOOL_SURFACE_APPROVAL_NEVER_ASKED"]);
        // Exceptions to a wider rule are the purpose of the order.
        assert!(approval("delete_row", "*").is_empty());
    }

    #[test]
    fn code_and_common_words_are_no_mentions() {
        let prompt = "Do it if (x). print(1), len(x), note(y)\n```\nunknown_tool(1)\n```\n<tool_call>run_it";
        assert_eq!(codes(json!({"tools": [], "prompt": prompt})), ["UNKNOWN_PROMPT_TOOL"]);
    }
}
