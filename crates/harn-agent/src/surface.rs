//! What can be wrong with the tools of a loop before the first call: tools without schemas or annotations, results that
//! nobody can read, policies and prompts that speak of tools that are not there.

use std::collections::HashSet;

use harn_llm::json::truthy;
use harn_value::{Data as Json, data::Map};
use serde::{Deserialize, Serialize};

use crate::policy::{glob, side_effect_rank};
use crate::tool::declared_arguments;

/// Something about a tool surface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// `TOOL_SURFACE_…`.
    pub code: String,
    /// Whether the surface cannot be used: `error` or `warning`.
    pub severity: Severity,
    /// What is wrong.
    pub message: String,
    /// The tool it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The field of the surface it was found in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Calls cannot work.
    Error,
    /// Something is probably not meant.
    Warning,
}

/// Words before a parenthesis that are no mention of a tool.
const COMMON: [&str; 14] = [
    "if",
    "for",
    "while",
    "switch",
    "return",
    "function",
    "fn",
    "JSON",
    "print",
    "println",
    "contains",
    "len",
    "render",
    "render_prompt",
];

/// A tool as its entry describes it.
struct Tool<'a> {
    name: String,
    entry: &'a Json,
    annotations: Json,
    active: bool,
    deferred: bool,
}

/// What a surface consists of.
const KEYS: [&str; 8] =
    ["tools", "native_tools", "policy", "approval_policy", "system", "prompt", "prompts", "tool_search"];

/// What is wrong with the names of the parts of a surface: one that stands for nothing.
pub fn unknown(surface: &Json) -> Option<String> {
    let key = surface.as_object()?.keys().find(|key| !KEYS.contains(&key.as_str()))?;
    Some(format!("tool_surface_validate: a surface has no '{key}'; there are {}", KEYS.join(", ")))
}

/// Looks at a surface: `tools`, `native_tools`, `policy`, `approval_policy`, `system`, `prompt`, `prompts`,
/// `tool_search`.
pub fn validate(surface: &Map<String, Json>) -> Vec<Finding> {
    let none = Json::Null;
    let policy = surface.get("policy").unwrap_or(&none);
    let allowed = texts(&policy["tools"]);
    let mut tools: Vec<Tool<'_>> = Vec::new();
    for key in ["tools", "native_tools"] {
        for entry in entries(surface.get(key).unwrap_or(&none)) {
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
            let active = allowed.is_empty() || allowed.iter().any(|pattern| glob(pattern, &name));
            let deferred = entry["defer_loading"] == true;
            tools.push(Tool { name, entry, annotations, active, deferred });
        }
    }
    let mut found = Vec::new();
    for tool in tools.iter().filter(|tool| tool.active) {
        check_tool(tool, &tools, policy, &mut found);
    }
    check_policy(&tools, policy, surface.get("approval_policy").unwrap_or(&none), &mut found);
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
    let function = &entry["function"];
    let schema = ["parameters", "input_schema", "inputSchema"]
        .iter()
        .any(|key| entry.get(*key).or_else(|| function.get(*key)).is_some_and(Json::is_object));
    if !schema {
        warn("MISSING_SCHEMA", format!("active tool '{name}' has no parameter schema"));
    }
    if !annotations.is_object() || annotations.as_object().is_some_and(|map| map.is_empty()) {
        warn("MISSING_ANNOTATIONS", format!("active tool '{name}' has no ToolAnnotations"));
    } else if matches!(annotations["side_effect_level"].as_str(), None | Some("none")) {
        warn("MISSING_SIDE_EFFECT_LEVEL", format!("active tool '{name}' has no side_effect_level"));
    }
    let handler = entry.get("handler").is_some_and(|handler| handler.as_opaque().is_some());
    let executor =
        entry.get("executor").is_some_and(|executor| executor.as_str().is_some_and(|e| e != "harn"));
    let runtime = crate::registry::RUNTIME_TOOLS.contains(&name.as_str());
    if !handler && !executor && !runtime {
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

fn check_policy(tools: &[Tool<'_>], policy: &Json, approval: &Json, found: &mut Vec<Finding>) {
    let mut warn = |code: &str, message: String, tool: Option<&str>, field: &str| {
        let finding = finding(code, Severity::Warning, message, tool);
        found.push(Finding { field: Some(field.to_owned()), ..finding });
    };
    for constraint in policy["tool_arg_constraints"].as_array().into_iter().flatten() {
        let Some(pattern) = constraint["tool"].as_str() else { continue };
        let field = "policy.tool_arg_constraints";
        let bound: Vec<&Tool<'_>> = tools.iter().filter(|tool| glob(pattern, &tool.name)).collect();
        if bound.is_empty() {
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
    for key in ["auto_approve", "auto_deny", "require_approval"] {
        for pattern in texts(&approval[key]).iter().filter(|pattern| !pattern.contains('*')) {
            if !tools.iter().any(|tool| tool.active && tool.name == *pattern) {
                let message = format!("{key} names '{pattern}', which is no active tool");
                warn("APPROVAL_PATTERN_NO_MATCH", message, Some(pattern), &format!("approval_policy.{key}"));
            }
        }
    }
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
            None if name.contains('_') || name.starts_with("tool") || name.starts_with("run") => {
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

/// Identifiers in front of a parenthesis or behind `<tool_call>`.
fn mentions<'a>(text: &'a str) -> Vec<String> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    // A prompt may be long: each name is looked at once.
    let mut seen: HashSet<&str> = HashSet::new();
    let mut out: Vec<String> = Vec::new();
    let mut add = |name: &'a str| {
        let starts = name.chars().next().is_some_and(|c| c.is_alphabetic() || c == '_');
        if starts && !COMMON.contains(&name) && seen.insert(name) {
            out.push(name.to_owned());
        }
    };
    for (at, _) in text.match_indices('(') {
        let before = &text[..at];
        let start = before.char_indices().rev().take_while(|(_, c)| is_word(*c)).last().map(|(at, _)| at);
        if let Some(start) = start {
            add(&before[start..]);
        }
    }
    for (at, tag) in text.match_indices("<tool_call>") {
        let rest = text[at + tag.len()..].trim_start();
        let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        add(&rest[..end]);
    }
    out
}

fn mentions_word(text: &str, word: &str) -> bool {
    let edge = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric() && c != '_');
    text.match_indices(word)
        .any(|(at, _)| edge(text[..at].chars().next_back()) && edge(text[at + word.len()..].chars().next()))
}

/// The text without fenced code.
fn outside_fences(text: &str) -> String {
    let mut inside = false;
    let mut out = String::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            inside = !inside;
        } else if !inside {
            out.push_str(line);
            out.push('\n');
        }
    }
    out
}

/// The entries of a registry, or of a list of tools and registries.
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
        let mut deferred = tool("find_it", fine);
        deferred["defer_loading"] = true.into();
        assert_eq!(
            codes(json!({"tools": [deferred], "tool_search": true, "system": "Use find_it(path)."})),
            ["DEFERRED_TOOL_PROMPT_REFERENCE"]
        );
    }

    #[test]
    fn code_and_common_words_are_no_mentions() {
        let prompt = "Do it if (x). print(1), len(x), note(y)\n```\nunknown_tool(1)\n```\n<tool_call>run_it";
        assert_eq!(codes(json!({"tools": [], "prompt": prompt})), ["UNKNOWN_PROMPT_TOOL"]);
    }
}
