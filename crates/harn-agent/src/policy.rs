//! What a loop may do: the capability ceiling, approval lists and allow and deny rules.
//!
//! Everything here is decided from the call alone. Questions to people and closures are answered by the
//! driver of the loop.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use crate::tool::{Annotations, LoopTool};

/// Appended to every denial by the capability policy.
const POLICY_ADVICE: &str =
    ". Use one of the declared tools exactly as named and put extra fields inside that tool's arguments."; // prose-ok: contract text

/// The limits of a loop.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Policy {
    tools: Vec<String>,
    side_effect_level: Option<String>,
    capabilities: Map<String, Json>,
    constraints: Vec<Constraint>,
    approval: Approval,
    rules: Rules,
    /// Annotations by tool, merged over those of the registry.
    pub annotations: Map<String, Json>,
}

/// Which values an argument may have.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Constraint {
    tool: String,
    key: Option<String>,
    patterns: Vec<String>,
}

/// `approval_policy`
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Approval {
    auto_approve: Vec<String>,
    auto_deny: Vec<String>,
    require: Vec<String>,
    write_paths: Vec<String>,
}

/// `permissions`
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Rules {
    given: bool,
    allow: Vec<Rule>,
    deny: Vec<Rule>,
}

/// A tool glob and what its arguments must hold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Rule {
    tool: String,
    matcher: Matcher,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Matcher {
    Always,
    Never,
    /// Globs over every text in the arguments.
    Any(Vec<String>),
    /// Globs over one argument.
    Key(String, Vec<String>),
}

/// Why a call is not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    /// For the model.
    pub reason: String,
    /// Of `tool_execution` metadata, when approval denied.
    pub approval: Option<&'static str>,
}

fn strings(value: Option<&Json>) -> Vec<String> {
    match value {
        Some(Json::Array(list)) => list.iter().map(harn_prompt::value::display).collect(),
        Some(Json::String(one)) => vec![one.clone()],
        _ => Vec::new(),
    }
}

impl Policy {
    /// Reads `policy`, `approval_policy` and `permissions` of the options.
    ///
    /// # Errors
    /// A text that names the wrong part.
    pub fn from_options(options: &Map<String, Json>) -> Result<Policy, String> {
        let mut out = Policy::default();
        if let Some(policy) = options.get("policy").and_then(Json::as_object) {
            out.tools = strings(policy.get("tools"));
            out.side_effect_level = policy.get("side_effect_level").and_then(Json::as_str).map(str::to_owned);
            out.capabilities =
                policy.get("capabilities").and_then(Json::as_object).cloned().unwrap_or_default();
            out.annotations =
                policy.get("tool_annotations").and_then(Json::as_object).cloned().unwrap_or_default();
            for entry in policy.get("tool_arg_constraints").and_then(Json::as_array).into_iter().flatten() {
                let text = |key: &str| entry.get(key).and_then(Json::as_str).map(str::to_owned);
                if let Some(tool) = text("tool") {
                    let patterns = strings(entry.get("arg_patterns"));
                    out.constraints.push(Constraint { tool, key: text("arg_key"), patterns });
                }
            }
        }
        if let Some(approval) = options.get("approval_policy").and_then(Json::as_object) {
            out.approval = Approval {
                auto_approve: strings(approval.get("auto_approve")),
                auto_deny: strings(approval.get("auto_deny")),
                require: strings(approval.get("require_approval")),
                write_paths: strings(approval.get("write_path_allowlist")),
            };
        }
        match options.get("permissions") {
            None | Some(Json::Null) => {}
            Some(Json::Object(map)) => {
                out.rules =
                    Rules { given: true, allow: rules(map.get("allow"))?, deny: rules(map.get("deny"))? };
            }
            Some(_) => return Err("agent_loop: permissions must be a dict".to_owned()),
        }
        Ok(out)
    }

    /// Decides about a call.
    ///
    /// # Errors
    /// Why it is denied.
    pub fn check(&self, tool: &LoopTool, arguments: &Json) -> Result<(), Denial> {
        self.ceiling(tool, arguments)
            .map_err(|reason| Denial { reason: reason + POLICY_ADVICE, approval: None })?;
        self.rules.check(&tool.name, arguments).map_err(|reason| Denial { reason, approval: None })?;
        self.approval.check(tool, arguments)
    }

    fn ceiling(&self, tool: &LoopTool, arguments: &Json) -> Result<(), String> {
        let name = &tool.name;
        if !self.tools.is_empty() && !self.tools.iter().any(|allowed| glob(allowed, name)) {
            return Err(format!("tool '{name}' exceeds tool ceiling"));
        }
        let annotations = &tool.annotations;
        if !self.capabilities.is_empty() {
            for (capability, operations) in &annotations.capabilities {
                let allowed = strings(self.capabilities.get(capability));
                for operation in strings(Some(operations)) {
                    if !allowed.contains(&operation) {
                        return Err(format!(
                            "tool '{name}' exceeds capability ceiling: {capability}.{operation}"
                        ));
                    }
                }
            }
        }
        if let Some(ceiling) = &self.side_effect_level
            && level(&annotations.side_effect_level) > level(ceiling)
        {
            return Err(format!("tool '{name}' exceeds side-effect ceiling: {ceiling}"));
        }
        for constraint in self.constraints.iter().filter(|c| glob(&c.tool, name)) {
            constraint.check(tool, arguments)?;
        }
        Ok(())
    }
}

impl Constraint {
    fn check(&self, tool: &LoopTool, arguments: &Json) -> Result<(), String> {
        let map = arguments.as_object();
        let first_text = || map.into_iter().flatten().find(|(_, v)| v.is_string()).map(|(k, _)| k.clone());
        let key =
            self.key.clone().or_else(|| tool.annotations.path_params.first().cloned()).or_else(first_text);
        let Some(key) = key else { return Ok(()) };
        let value = map.and_then(|m| m.get(&key)).map(harn_prompt::value::display).unwrap_or_default();
        if self.patterns.iter().any(|pattern| glob(pattern, &value)) {
            return Ok(());
        }
        let patterns: Vec<String> = self.patterns.iter().map(|p| format!("\"{p}\"")).collect();
        Err(format!(
            "tool '{}' {key} '{value}' does not match allowed patterns: [{}]. Only the {key} argument is checked against this allow-list — other argument values are not", // prose-ok: contract text
            tool.name,
            patterns.join(", ")
        ))
    }
}

impl Approval {
    fn check(&self, tool: &LoopTool, arguments: &Json) -> Result<(), Denial> {
        let name = &tool.name;
        let deny = |reason: String, approval| Err(Denial { reason, approval: Some(approval) });
        if let Some(pattern) = self.auto_deny.iter().find(|p| glob(p, name)) {
            return deny(format!("tool '{name}' matches deny pattern '{pattern}'"), "auto_denied");
        }
        if !self.write_paths.is_empty() && !tool.annotations.is_read_only() {
            for key in &tool.annotations.path_params {
                let Some(path) = arguments.get(key).map(harn_prompt::value::display) else { continue };
                if !self.write_paths.iter().any(|p| glob(p, &path)) {
                    let reason =
                        format!("tool '{name}' targets '{path}' which is not in the write-path allowlist");
                    return deny(reason, "auto_denied");
                }
            }
        }
        if self.auto_approve.iter().any(|p| glob(p, name)) || !self.require.iter().any(|p| glob(p, name)) {
            return Ok(());
        }
        deny("approval required but no host bridge is available".to_owned(), "host_denied")
    }
}

impl Rules {
    fn check(&self, name: &str, arguments: &Json) -> Result<(), String> {
        if !self.given {
            return Ok(());
        }
        if let Some(rule) = self.deny.iter().find(|r| r.matches(name, arguments)) {
            return Err(format!("permission denied by deny rule: {}", rule.tool));
        }
        if self.allow.is_empty() || self.allow.iter().any(|r| r.matches(name, arguments)) {
            return Ok(());
        }
        Err(format!("permission denied: tool '{name}' is not allowed by this agent's permissions"))
    }
}

fn rules(value: Option<&Json>) -> Result<Vec<Rule>, String> {
    let always = |tool: &str| Rule { tool: tool.to_owned(), matcher: Matcher::Always };
    match value {
        None | Some(Json::Null) => Ok(Vec::new()),
        Some(Json::String(tool)) => Ok(vec![always(tool)]),
        Some(Json::Array(list)) => list
            .iter()
            .map(|item| {
                item.as_str().map(always).ok_or("agent_loop: list entries must be strings".to_owned())
            })
            .collect(),
        Some(Json::Object(map)) => map
            .iter()
            .map(|(tool, matcher)| Ok(Rule { tool: tool.clone(), matcher: Matcher::from_json(matcher)? }))
            .collect(),
        Some(_) => Err("agent_loop: permissions must be lists or dicts of tool names".to_owned()),
    }
}

impl Matcher {
    fn from_json(value: &Json) -> Result<Matcher, String> {
        let incomplete = || "agent_loop: dict matchers must include arg_key and patterns".to_owned();
        Ok(match value {
            Json::Null | Json::Bool(true) => Matcher::Always,
            Json::Bool(false) => Matcher::Never,
            Json::String(_) | Json::Array(_) => Matcher::Any(strings(Some(value))),
            Json::Object(map) => {
                let key = map.get("arg_key").and_then(Json::as_str).ok_or_else(incomplete)?;
                if !map.contains_key("patterns") {
                    return Err(incomplete());
                }
                Matcher::Key(key.to_owned(), strings(map.get("patterns")))
            }
            Json::Number(_) => return Err(incomplete()),
        })
    }
}

impl Rule {
    fn matches(&self, name: &str, arguments: &Json) -> bool {
        if !glob(&self.tool, name) {
            return false;
        }
        let fits = |patterns: &[String], text: &str| patterns.iter().any(|p| glob(p, text));
        match &self.matcher {
            Matcher::Always => true,
            Matcher::Never => false,
            Matcher::Key(key, patterns) => {
                arguments.get(key).is_some_and(|v| fits(patterns, &harn_prompt::value::display(v)))
            }
            Matcher::Any(patterns) => {
                let mut texts = Vec::new();
                collect_texts(arguments, &mut texts);
                if texts.is_empty() {
                    texts.push(arguments.to_string());
                }
                texts.iter().any(|text| fits(patterns, text))
            }
        }
    }
}

fn collect_texts(value: &Json, out: &mut Vec<String>) {
    match value {
        Json::String(text) => out.push(text.clone()),
        Json::Array(items) => items.iter().for_each(|item| collect_texts(item, out)),
        Json::Object(map) => map.values().for_each(|item| collect_texts(item, out)),
        _ => {}
    }
}

/// Side effects in ascending order; unknown words count as none.
fn level(word: &str) -> u8 {
    match word {
        "read_only" => 1,
        "workspace_write" => 2,
        "process_exec" => 3,
        "network" => 4,
        _ => 0,
    }
}

/// Whether a text fits a glob in which `*` stands for anything.
pub fn glob(pattern: &str, text: &str) -> bool {
    let mut pieces = pattern.split('*');
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut pieces: Vec<&str> = pieces.collect();
    let Some(last) = pieces.pop() else { return rest.is_empty() };
    for piece in pieces {
        match rest.find(piece) {
            Some(at) => rest = &rest[at + piece.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

impl Annotations {
    /// Whether calls of the tool only look: they may run at the same time.
    pub fn is_read_only(&self) -> bool {
        matches!(self.kind.as_str(), "read" | "search" | "think" | "fetch")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn reason(options: Json, tool: Json, arguments: Json) -> Option<String> {
        let options = options.as_object().cloned().unwrap();
        let policy = Policy::from_options(&options).unwrap();
        let tool = LoopTool::from_entry(&tool, true, &policy.annotations).unwrap();
        policy.check(&tool, &arguments).err().map(|d| d.reason)
    }

    #[test]
    fn globs() {
        assert!(
            glob("*", "x")
                && glob("a*", "abc")
                && glob("*c", "abc")
                && glob("a*c", "abc")
                && glob("abc", "abc")
        );
        assert!(!glob("a*c", "abd") && !glob("abc", "abcd") && !glob("a*bc*c", "abc"));
    }

    #[test]
    fn the_ceiling_names_what_it_forbids() {
        let tool = json!({"name": "w", "handler": null, "annotations": {"side_effect_level": "network", "capabilities": {"net": ["get"]}}});
        let deny = |policy: Json| {
            reason(json!({"policy": policy}), tool.clone(), json!({"path": "z"})).unwrap_or_default()
        };
        assert!(
            deny(json!({"tools": ["r"]}))
                .starts_with("tool 'w' exceeds tool ceiling. Use one of the declared tools")
        );
        assert!(
            deny(json!({"side_effect_level": "read_only"}))
                .starts_with("tool 'w' exceeds side-effect ceiling: read_only")
        );
        assert!(
            deny(json!({"capabilities": {"net": ["post"]}}))
                .starts_with("tool 'w' exceeds capability ceiling: net.get")
        );
        let constrained =
            deny(json!({"tool_arg_constraints": [{"tool": "w", "arg_key": "path", "arg_patterns": ["a*"]}]}));
        assert!(constrained.starts_with(
            "tool 'w' path 'z' does not match allowed patterns: [\"a*\"]. Only the path argument"
        ));
        assert_eq!(deny(json!({"tools": ["w"], "side_effect_level": "network"})), "");
    }

    #[test]
    fn approval_lists_are_asked_in_order() {
        let tool = json!({"name": "edit", "handler": null, "annotations": {"kind": "edit", "arg_schema": {"path_params": ["p"]}}});
        let deny = |approval: Json| {
            reason(json!({"approval_policy": approval}), tool.clone(), json!({"p": "src/a"}))
                .unwrap_or_default()
        };
        assert_eq!(deny(json!({"auto_deny": ["ed*"]})), "tool 'edit' matches deny pattern 'ed*'");
        assert_eq!(
            deny(json!({"write_path_allowlist": ["docs/*"]})),
            "tool 'edit' targets 'src/a' which is not in the write-path allowlist"
        );
        assert_eq!(
            deny(json!({"require_approval": ["*"]})),
            "approval required but no host bridge is available"
        );
        assert_eq!(deny(json!({"require_approval": ["*"], "auto_approve": ["edit"]})), "");
    }

    #[test]
    fn rules_deny_before_they_allow() {
        let tool = json!({"name": "run", "handler": null});
        let deny = |p: Json| {
            reason(json!({"permissions": p}), tool.clone(), json!({"cmd": "rm x"})).unwrap_or_default()
        };
        assert_eq!(deny(json!({"deny": ["r*"], "allow": ["*"]})), "permission denied by deny rule: r*");
        assert_eq!(deny(json!({"deny": {"run": "rm *"}})), "permission denied by deny rule: run");
        assert_eq!(
            deny(json!({"allow": {"run": {"arg_key": "cmd", "patterns": ["ls*"]}}})),
            "permission denied: tool 'run' is not allowed by this agent's permissions"
        );
        assert_eq!(deny(json!({"allow": ["run"]})), "");
        let bad = json!({"permissions": {"allow": [1]}});
        assert!(
            Policy::from_options(bad.as_object().unwrap())
                .unwrap_err()
                .contains("list entries must be strings")
        );
    }
}
