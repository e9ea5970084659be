//! What a loop may do: the capability ceiling, approval lists and allow and deny rules.
//!
//! Everything here is decided from the call alone. Questions to people and closures are answered by the
//! driver of the loop.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use crate::tool::{Annotations, LoopTool};

/// Appended to every denial by the capability policy.
const POLICY_ADVICE: &str =
    ". Use one of the declared tools exactly as named and put extra fields inside that tool's arguments."; // prose-ok: contract text

/// What `policy` may hold.
const POLICY_KEYS: [&str; 7] = [
    "tools",
    "capabilities",
    "side_effect_level",
    "workspace_roots",
    "recursion_limit",
    "tool_arg_constraints",
    "tool_annotations",
];

/// What `approval_policy` may hold.
const APPROVAL_KEYS: [&str; 4] = ["auto_approve", "auto_deny", "require_approval", "write_path_allowlist"];

/// Side effect levels in ascending order.
const LEVELS: [&str; 5] = ["none", "read_only", "workspace_write", "process_exec", "network"];

/// The limits of a loop.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Policy {
    tools: Vec<String>,
    side_effect_level: Option<String>,
    capabilities: Map<String, Json>,
    constraints: Vec<Constraint>,
    approval: Approval,
    rules: Rules,
    workspace_roots: Vec<String>,
    recursion_limit: Option<u64>,
    /// The policy of the loop around this one: what it denies stays denied.
    outer: Option<Box<Policy>>,
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

/// Words of a list that was checked before.
fn strings(value: Option<&Json>) -> Vec<String> {
    match value {
        Some(Json::Array(list)) => list.iter().map(harn_prompt::value::display).collect(),
        Some(Json::String(one)) => vec![one.clone()],
        _ => Vec::new(),
    }
}

/// An option that protects: a dict with known keys, or an error. A limit that is malformed would be none.
fn part<'a>(
    options: &'a Map<String, Json>,
    name: &str,
    keys: &[&str],
) -> Result<Option<&'a Map<String, Json>>, String> {
    let map = match options.get(name) {
        None | Some(Json::Null) => return Ok(None),
        Some(Json::Object(map)) => map,
        Some(_) => return Err(format!("agent_loop: {name} must be a dict")),
    };
    match map.keys().find(|key| !keys.contains(&key.as_str())) {
        None => Ok(Some(map)),
        Some(key) => Err(format!("agent_loop: {name} has no key '{key}'; there are {}", keys.join(", "))),
    }
}

/// A list of strings of an option that protects; empty when it is missing.
fn list(map: &Map<String, Json>, name: &str, key: &str) -> Result<Vec<String>, String> {
    let wrong = || format!("agent_loop: {name}.{key} must be a list of strings");
    match map.get(key) {
        None | Some(Json::Null) => Ok(Vec::new()),
        Some(Json::Array(items)) => {
            items.iter().map(|item| item.as_str().map(str::to_owned).ok_or_else(wrong)).collect()
        }
        Some(_) => Err(wrong()),
    }
}

/// A dict of an option that protects; empty when it is missing.
fn dict(map: &Map<String, Json>, name: &str, key: &str) -> Result<Map<String, Json>, String> {
    match map.get(key) {
        None | Some(Json::Null) => Ok(Map::new()),
        Some(Json::Object(inner)) => Ok(inner.clone()),
        Some(_) => Err(format!("agent_loop: {name}.{key} must be a dict")),
    }
}

impl Policy {
    /// Reads `policy`, `approval_policy` and `permissions` of the options.
    ///
    /// # Errors
    /// A text that names the wrong part: an unknown key, a value of the wrong type, an unknown level.
    pub fn from_options(options: &Map<String, Json>) -> Result<Policy, String> {
        let mut out = Policy::default();
        if let Some(policy) = part(options, "policy", &POLICY_KEYS)? {
            out.tools = list(policy, "policy", "tools")?;
            out.workspace_roots = list(policy, "policy", "workspace_roots")?;
            if out.workspace_roots.iter().any(String::is_empty) {
                return Err("agent_loop: policy.workspace_roots holds an empty path".to_owned());
            }
            out.side_effect_level = match policy.get("side_effect_level") {
                None | Some(Json::Null) => None,
                Some(word) => {
                    let known = word.as_str().filter(|word| LEVELS.contains(word));
                    let text = || {
                        let word = harn_prompt::value::display(word);
                        format!(
                            "agent_loop: policy.side_effect_level '{word}' is none of {}",
                            LEVELS.join(", ")
                        )
                    };
                    Some(known.ok_or_else(text)?.to_owned())
                }
            };
            out.recursion_limit = match policy.get("recursion_limit") {
                None | Some(Json::Null) => None,
                Some(limit) => Some(
                    limit
                        .as_u64()
                        .ok_or("agent_loop: policy.recursion_limit must be an int of at least 0")?,
                ),
            };
            out.capabilities = dict(policy, "policy", "capabilities")?;
            for capability in out.capabilities.keys() {
                list(&out.capabilities, "policy.capabilities", capability)?;
            }
            out.annotations = dict(policy, "policy", "tool_annotations")?;
            for tool in out.annotations.keys() {
                dict(&out.annotations, "policy.tool_annotations", tool)?;
            }
            out.constraints = constraints(policy.get("tool_arg_constraints"))?;
        }
        if let Some(approval) = part(options, "approval_policy", &APPROVAL_KEYS)? {
            let list = |key| list(approval, "approval_policy", key);
            out.approval = Approval {
                auto_approve: list("auto_approve")?,
                auto_deny: list("auto_deny")?,
                require: list("require_approval")?,
                write_paths: list("write_path_allowlist")?,
            };
        }
        if let Some(map) = part(options, "permissions", &["allow", "deny", "on_escalation"])? {
            out.rules = Rules { given: true, allow: rules(map.get("allow"))?, deny: rules(map.get("deny"))? };
        }
        Ok(out)
    }

    /// Puts the policy below that of the loop around: a call must be allowed by both.
    pub fn put_under(&mut self, outer: Policy) {
        self.outer = Some(Box::new(outer));
    }

    /// The highest side effect level that is allowed.
    pub fn side_effect_level(&self) -> Option<&str> {
        self.side_effect_level.as_deref()
    }

    /// The folders that files must lie in; empty without a limit.
    pub fn workspace_roots(&self) -> &[String] {
        &self.workspace_roots
    }

    /// How many loops may be nested in this one.
    pub fn recursion_limit(&self) -> Option<u64> {
        self.recursion_limit
    }

    /// The operations that are allowed, by capability; `None` without a limit.
    pub fn capability_names(&self) -> Option<BTreeMap<String, Vec<String>>> {
        let named = |(name, operations): (&String, &Json)| (name.clone(), strings(Some(operations)));
        (!self.capabilities.is_empty()).then(|| self.capabilities.iter().map(named).collect())
    }

    /// Decides about a call.
    ///
    /// # Errors
    /// Why it is denied.
    pub fn check(&self, tool: &LoopTool, arguments: &Json) -> Result<(), Denial> {
        if let Some(outer) = &self.outer {
            outer.check(tool, arguments)?;
        }
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

/// `tool_arg_constraints`
fn constraints(value: Option<&Json>) -> Result<Vec<Constraint>, String> {
    let wrong = || {
        "agent_loop: policy.tool_arg_constraints must be a list of {tool, arg_patterns, arg_key?}".to_owned()
    };
    let entries = match value {
        None | Some(Json::Null) => return Ok(Vec::new()),
        Some(Json::Array(entries)) => entries,
        Some(_) => return Err(wrong()),
    };
    let constraint = |entry: &Json| {
        let entry = entry.as_object().ok_or_else(wrong)?;
        if entry.keys().any(|key| !["tool", "arg_patterns", "arg_key"].contains(&key.as_str())) {
            return Err(wrong());
        }
        let key = match entry.get("arg_key") {
            None | Some(Json::Null) => None,
            Some(key) => Some(key.as_str().ok_or_else(wrong)?.to_owned()),
        };
        let tool = entry.get("tool").and_then(Json::as_str).ok_or_else(wrong)?.to_owned();
        Ok(Constraint { tool, key, patterns: list(entry, "policy.tool_arg_constraints", "arg_patterns")? })
    };
    entries.iter().map(constraint).collect()
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

/// The rank of a side effect level; unknown words of annotations count as none.
fn level(word: &str) -> usize {
    LEVELS.iter().position(|known| *known == word).unwrap_or(0)
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
    fn what_is_malformed_is_an_error() {
        for (options, names) in [
            (json!({"policy": "x"}), "policy must be a dict"),
            (
                json!({"policy": {"side_effect_level": "moon"}}),
                "side_effect_level 'moon' is none of none, read_only",
            ),
            (json!({"policy": {"side_effect_level": 3}}), "side_effect_level '3'"),
            (json!({"policy": {"toolz": []}}), "policy has no key 'toolz'; there are tools"),
            (json!({"policy": {"tools": "x"}}), "policy.tools must be a list of strings"),
            (json!({"policy": {"tools": [1]}}), "policy.tools must be a list of strings"),
            (json!({"policy": {"capabilities": []}}), "policy.capabilities must be a dict"),
            (json!({"policy": {"capabilities": {"a": "b"}}}), "policy.capabilities.a must be a list"),
            (json!({"policy": {"workspace_roots": "src"}}), "policy.workspace_roots must be a list"),
            (json!({"policy": {"workspace_roots": [""]}}), "holds an empty path"),
            (json!({"policy": {"recursion_limit": -1}}), "policy.recursion_limit must be an int"),
            (json!({"policy": {"tool_annotations": {"t": 1}}}), "policy.tool_annotations.t must be a dict"),
            (json!({"policy": {"tool_arg_constraints": {}}}), "tool_arg_constraints must be a list"),
            (
                json!({"policy": {"tool_arg_constraints": [{"arg_patterns": []}]}}),
                "tool_arg_constraints must be",
            ),
            (json!({"approval_policy": []}), "approval_policy must be a dict"),
            (json!({"approval_policy": {"auto_allow": []}}), "approval_policy has no key 'auto_allow'"),
            (json!({"approval_policy": {"auto_deny": "x"}}), "approval_policy.auto_deny must be a list"),
            (json!({"permissions": "x"}), "permissions must be a dict"),
            (json!({"permissions": {"denny": []}}), "permissions has no key 'denny'"),
            (json!({"permissions": {"deny": 3}}), "permissions must be"),
        ] {
            let error = Policy::from_options(options.as_object().unwrap()).expect_err(names);
            assert!(error.contains(names), "{error}");
        }
        let nothing = json!({"policy": null, "approval_policy": {}, "permissions": null});
        assert_eq!(Policy::from_options(nothing.as_object().unwrap()).unwrap(), Policy::default());
    }

    #[test]
    fn an_inner_policy_never_widens_an_outer_one() {
        let read =
            |policy: Json| Policy::from_options(json!({"policy": policy}).as_object().unwrap()).unwrap();
        let tool = LoopTool::from_entry(&json!({"name": "w", "handler": null}), true, &Map::new()).unwrap();
        let mut inner = read(json!({"tools": ["w"]}));
        assert!(inner.check(&tool, &json!({})).is_ok());
        inner.put_under(read(json!({"tools": ["r"]})));
        assert!(
            inner.check(&tool, &json!({})).unwrap_err().reason.starts_with("tool 'w' exceeds tool ceiling")
        );
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
