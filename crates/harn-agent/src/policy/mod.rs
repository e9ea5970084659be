//! The policies of a loop: the capability policy (`mod.rs`), allow and deny rules (`rules.rs`) and approval lists
//! (`approval.rs`). `value.rs` matches patterns against values, `path.rs` against paths.
//!
//! Everything is decided from the call and the answers to questions, see `judge.rs`: the driver of the loop calls
//! closures of the program and asks the host (`answer.rs` reads their answers). `read.rs` reads security options.

mod answer;
mod approval;
mod judge;
mod path;
mod read;
mod rules;
mod value;

use std::collections::BTreeMap;

use harn_llm::options::shape::SIDE_EFFECT_LEVELS;
use harn_value::{Data as Json, data::Map, glob};
use serde::{Deserialize, Serialize};

use crate::tool::{Annotations, Backend, LoopTool, check_annotations};
pub use answer::{Escalated, RuleList};
use approval::Approval;
pub use approval::is_granted;
pub use judge::{Case, Decision, Denial, PermissionEvent, Question, Reply, Verdict};
use judge::{Judge, Stop};
pub use path::{NoPaths, Paths};
use read::{dict, list, part, permitted, strings};
use rules::Rules;

/// The keys of `policy`.
const POLICY_KEYS: [&str; 8] = [
    "tools",
    "capabilities",
    "side_effect_level",
    "workspace_roots",
    "recursion_limit",
    "tool_arg_constraints",
    "tool_annotations",
    "command_policy",
];

/// The limits of a loop. `None` means that a limit is not set; an empty list permits nothing.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Policy {
    tools: Option<Vec<String>>,
    side_effect_level: Option<String>,
    capabilities: Option<BTreeMap<String, Vec<String>>>,
    constraints: Vec<Constraint>,
    approval: Approval,
    rules: Rules,
    workspace_roots: Option<Vec<String>>,
    recursion_limit: Option<u64>,
    /// The policy of the enclosing loop; anything that it denies remains denied.
    outer: Option<Box<Policy>>,
    /// Annotations by tool, which override those of the registry.
    pub annotations: Map<String, Json>,
}

/// The values that an argument may have.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Constraint {
    tool: String,
    key: Option<String>,
    patterns: Vec<String>,
}

impl Policy {
    /// Reads `policy`, `approval_policy` and `permissions` of the options.
    ///
    /// # Errors
    /// A message that names the invalid part: an unknown key, a value of the wrong type, an unknown level.
    pub fn from_options(options: &Map<String, Json>) -> Result<Policy, String> {
        let mut out = Policy::default();
        if let Some(policy) = part(options, "policy", &POLICY_KEYS)? {
            out.tools = permitted(policy, "policy", "tools")?;
            out.workspace_roots = permitted(policy, "policy", "workspace_roots")?;
            if out.workspace_roots.iter().flatten().any(String::is_empty) {
                return Err("agent_loop: policy.workspace_roots holds an empty path".to_owned());
            }
            out.side_effect_level = match policy.get("side_effect_level") {
                None | Some(Json::Null) => None,
                Some(word) => {
                    let known = word.as_str().filter(|word| SIDE_EFFECT_LEVELS.contains(word));
                    let text = || {
                        let word = word.printed();
                        format!(
                            "agent_loop: policy.side_effect_level '{word}' is none of {}",
                            SIDE_EFFECT_LEVELS.join(", ")
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
            if let Some(given) = dict(policy, "policy", "capabilities")? {
                let operations = |name: &String| list(given, "policy.capabilities", name);
                let named = given.keys().map(|name| Ok((name.clone(), operations(name)?)));
                out.capabilities = Some(named.collect::<Result<_, String>>()?);
            }
            out.annotations = dict(policy, "policy", "tool_annotations")?.cloned().unwrap_or_default();
            for tool in out.annotations.keys() {
                let place = format!("agent_loop: policy.tool_annotations.{tool}");
                check_annotations(&place, &out.annotations[tool.as_str()])?;
            }
            out.constraints = constraints(policy.get("tool_arg_constraints"))?;
        }
        out.approval = Approval::read(options)?;
        out.rules = Rules::read(options)?;
        Ok(out)
    }

    /// Checks the policy against the tools: a rule about an argument that no tool has would never match.
    ///
    /// # Errors
    /// A message that names the rule and the argument.
    pub(crate) fn check_arguments(&self, tools: &[LoopTool]) -> Result<(), String> {
        rules::check_arguments(self.rules.lists().chain(self.approval.lists()), tools)
    }

    /// Nests the policy inside that of the enclosing loop: both must allow a call.
    pub fn put_under(&mut self, outer: Policy) {
        self.outer = Some(Box::new(outer));
    }

    /// Returns the single layers of the policy, outermost first.
    pub fn layers(&self) -> Vec<Policy> {
        let mut out = self.outer.as_ref().map(|outer| outer.layers()).unwrap_or_default();
        out.push(Policy { outer: None, ..self.clone() });
        out
    }

    /// Checks a requested policy against an effective one. A tool that the effective policy lacks is only unavailable;
    /// a request without any remaining tool, and a capability that the effective policy lacks, are errors.
    ///
    /// # Errors
    /// A message that names the part that exceeds the effective policy.
    pub fn fits_under(&self, ceiling: &Policy) -> Result<(), String> {
        for layer in ceiling.layers() {
            if let (Some(asked), Some(allowed)) = (&self.tools, &layer.tools) {
                let beyond = |name: &String| !allowed.iter().any(|allowed| glob(allowed, name));
                if !asked.is_empty() && asked.iter().all(beyond) {
                    return Err(format!("requested tools exceed host ceiling: {}", asked.join(", ")));
                }
            }
            let (Some(asked), Some(allowed)) = (&self.capabilities, &layer.capabilities) else { continue };
            for (name, operations) in asked {
                let Some(allowed) = allowed.get(name) else {
                    return Err(format!("requested capability exceeds host ceiling: {name}"));
                };
                let more: Vec<&str> = operations
                    .iter()
                    .filter(|operation| !names_operation(allowed, operation))
                    .map(String::as_str)
                    .collect();
                if !more.is_empty() {
                    let more = more.join(",");
                    return Err(format!(
                        "requested capability operations exceed host ceiling: {name}.{more}"
                    ));
                }
            }
        }
        Ok(())
    }

    /// Returns the highest side effect level that is allowed.
    pub fn side_effect_level(&self) -> Option<&str> {
        self.side_effect_level.as_deref()
    }

    /// Returns the directories that files must be in; `None` means no limit.
    pub fn workspace_roots(&self) -> Option<&[String]> {
        self.workspace_roots.as_deref()
    }

    /// Returns how many nested loops are allowed.
    pub fn recursion_limit(&self) -> Option<u64> {
        self.recursion_limit
    }

    /// Returns the allowed operations by capability; `None` means no limit.
    pub fn capabilities(&self) -> Option<&BTreeMap<String, Vec<String>>> {
        self.capabilities.as_ref()
    }

    /// Decides about a call as far as the answers to its questions permit. Every layer must grant the call, the
    /// outermost first; the loop's own policy is layer 0, the enclosing one is layer 1, and so on.
    pub fn decide(&self, case: &Case<'_>) -> Decision {
        let mut judge = Judge::new(case);
        let ended = self.judge(&mut judge, 0, case.tool, &case.tool.with_defaults(case.arguments));
        judge.decision(ended)
    }

    fn judge(
        &self,
        judge: &mut Judge<'_>,
        layer: usize,
        tool: &LoopTool,
        arguments: &Json,
    ) -> Result<(), Stop> {
        if let Some(outer) = &self.outer {
            outer.judge(judge, layer + 1, tool, arguments)?;
        }
        self.ceiling(tool, arguments, judge.paths).map_err(|reason| judge.above_ceiling(reason))?;
        self.rules.judge(judge, layer, tool, arguments)?;
        self.approval.judge(judge, layer, tool, arguments)
    }

    fn ceiling(&self, tool: &LoopTool, arguments: &Json, paths: &dyn Paths) -> Result<(), String> {
        let name = &tool.name;
        // A handoff only transfers the conversation; this policy also applies to the receiving agent.
        let is_handoff = tool.backend == Backend::Handoff;
        if !is_handoff
            && self.tools.as_ref().is_some_and(|tools| !tools.iter().any(|allowed| glob(allowed, name)))
        {
            return Err(format!("tool '{name}' exceeds tool ceiling"));
        }
        let annotations = &tool.annotations;
        // A server can have any effect, whatever the program or the server declares about its tools.
        let is_of_server = tool.backend == Backend::Mcp;
        if let Some(capabilities) = &self.capabilities {
            let connect = is_of_server.then(|| ("network", vec!["connect".to_owned()]));
            let declared = annotations.capabilities.iter().map(|(c, all)| (c.as_str(), strings(Some(all))));
            for (capability, operations) in declared.chain(connect) {
                let allowed = capabilities.get(capability).map(Vec::as_slice).unwrap_or_default();
                for operation in operations {
                    if !names_operation(allowed, &operation) {
                        return Err(format!(
                            "tool '{name}' exceeds capability ceiling: {capability}.{operation}"
                        ));
                    }
                }
            }
        }
        if let Some(ceiling) = &self.side_effect_level
            && side_effect_rank(if is_of_server { "network" } else { &annotations.side_effect_level })
                > side_effect_rank(ceiling)
        {
            return Err(format!("tool '{name}' exceeds side-effect ceiling: {ceiling}"));
        }
        for constraint in self.constraints.iter().filter(|c| glob(&c.tool, name)) {
            constraint.check(tool, arguments, paths)?;
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
    fn check(&self, tool: &LoopTool, arguments: &Json, paths: &dyn Paths) -> Result<(), String> {
        let given = |key: &String| arguments.get(key);
        let holds_text = |key: &&String| given(key).is_some_and(value::holds_text);
        // The checked argument must not depend on the order in which a model writes the arguments.
        let first_text = || {
            let declared = tool.declared().map(|(name, _)| name).find(holds_text);
            declared.or_else(|| arguments.as_object()?.keys().find(holds_text)).cloned()
        };
        let key =
            self.key.clone().or_else(|| tool.annotations.path_params.first().cloned()).or_else(first_text);
        let Some(key) = key else { return Ok(()) };
        let paths = tool.annotations.path_params.contains(&key).then_some(paths);
        if value::is_allowed(given(&key), &self.patterns, paths) {
            return Ok(());
        }
        let value = given(&key).map(Json::printed).unwrap_or_default();
        let patterns: Vec<String> = self.patterns.iter().map(|p| format!("\"{p}\"")).collect();
        Err(format!(
            "tool '{}' {key} '{value}' does not match allowed patterns: [{}]. Only the {key} argument is checked against this allow-list — other argument values are not", // prose-ok: contract text
            tool.name,
            patterns.join(", ")
        ))
    }
}

/// Returns whether a list of operations contains one; `*` matches all.
fn names_operation(allowed: &[String], operation: &str) -> bool {
    allowed.iter().any(|allowed| allowed == operation || allowed == "*")
}

/// Returns the rank of a side effect level; unknown levels in annotations have the lowest rank.
pub(crate) fn side_effect_rank(word: &str) -> usize {
    SIDE_EFFECT_LEVELS.iter().position(|known| *known == word).unwrap_or(0)
}

impl Annotations {
    /// Returns whether calls of the tool only read, so that they may run concurrently.
    pub(crate) fn is_read_only(&self) -> bool {
        matches!(self.kind.as_str(), "read" | "search" | "think" | "fetch")
    }
}

#[cfg(test)]
mod tests;
