//! `approval_policy`: which calls run without a question, never, or only if a human approves. Rules name tools, with or
//! without a condition on the arguments.

use harn_value::{Data as Json, data::Map, json};
use serde::{Deserialize, Serialize};

use super::answer::RuleList;
use super::judge::{Judge, Question, Reply, Stop};
use super::path;
use super::read::{list, part, permitted};
use super::rules::{Rule, first};
use crate::tool::LoopTool;

/// The keys of the option.
const KEYS: [&str; 4] = ["auto_approve", "auto_deny", "require_approval", "write_path_allowlist"];

/// Returns whether an answer to `session/request_permission` grants the request.
pub fn is_granted(answer: &Json) -> bool {
    let outcome = answer["outcome"]["outcome"].as_str();
    matches!(outcome, Some("selected" | "allow")) || answer["granted"] == true
}

/// The option `approval_policy`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Approval {
    auto_approve: Vec<Rule>,
    auto_deny: Vec<Rule>,
    require: Vec<Rule>,
    /// `None` means no limit.
    write_paths: Option<Vec<String>>,
}

impl Approval {
    /// Reads the option.
    pub(super) fn read(options: &Map<String, Json>) -> Result<Approval, String> {
        let Some(approval) = part(options, "approval_policy", &KEYS)? else { return Ok(Approval::default()) };
        let rules = |of: RuleList| {
            let (option, key) = of.place();
            match approval.get(key) {
                Some(Json::Object(rules)) => {
                    rules.iter().map(|(tool, condition)| Rule::read(tool, condition)).collect()
                }
                _ => Ok::<Vec<Rule>, String>(
                    list(approval, option, key)?.into_iter().map(Rule::always).collect(),
                ),
            }
        };
        Ok(Approval {
            auto_approve: rules(RuleList::AutoApprove)?,
            auto_deny: rules(RuleList::AutoDeny)?,
            require: rules(RuleList::RequireApproval)?,
            write_paths: permitted(approval, "approval_policy", "write_path_allowlist")?,
        })
    }

    /// Returns the rules with their lists.
    pub(super) fn lists(&self) -> impl Iterator<Item = (RuleList, &Rule)> {
        let lists = [
            (RuleList::AutoDeny, &self.auto_deny),
            (RuleList::AutoApprove, &self.auto_approve),
            (RuleList::RequireApproval, &self.require),
        ];
        lists.into_iter().flat_map(|(list, rules)| rules.iter().map(move |rule| (list, rule)))
    }

    /// Decides about a call; asks the host where the lists require it.
    pub(super) fn judge(
        &self,
        judge: &mut Judge<'_>,
        layer: usize,
        tool: &LoopTool,
        arguments: &Json,
    ) -> Result<(), Stop> {
        let name = &tool.name;
        let matching = |rules, list, judge: &mut Judge<'_>| first(rules, list, judge, layer, tool, arguments);
        if let Some(Rule { tool: pattern, .. }) = matching(&self.auto_deny, RuleList::AutoDeny, judge)? {
            let reason = format!("tool '{name}' matches deny pattern '{pattern}'");
            return Err(judge.denied(reason, Some("auto_denied")));
        }
        let paths: Vec<(&String, String)> = tool
            .annotations
            .path_params
            .iter()
            .filter_map(|key| Some((key, arguments.get(key)?)))
            .flat_map(|(key, given)| {
                // Each entry of a list is a path.
                let all = given.as_array().map_or_else(|| std::slice::from_ref(given), Vec::as_slice);
                all.iter().map(move |path| (key, path.printed()))
            })
            .collect();
        if let Some(allowed) = &self.write_paths
            && !tool.annotations.is_read_only()
            && let Some((_, path)) =
                paths.iter().find(|(_, path)| !allowed.iter().any(|p| path::within(judge.paths, p, path)))
        {
            let reason = format!("tool '{name}' targets '{path}' which is not in the write-path allowlist");
            return Err(judge.denied(reason, Some("auto_denied")));
        }
        if matching(&self.auto_approve, RuleList::AutoApprove, judge)?.is_some()
            || matching(&self.require, RuleList::RequireApproval, judge)?.is_none()
        {
            return Ok(());
        }
        if judge.is_confirmed(layer) {
            judge.approved();
            return Ok(());
        }
        let entries: Vec<Json> =
            paths.iter().map(|(key, path)| json!({"param": key, "path": path})).collect();
        let declared: Vec<&String> = paths.iter().map(|(_, path)| path).collect();
        let request = json!({
            "approvalRequest": {"tool": name, "args": arguments},
            "toolCall": {"toolName": name, "rawInput": arguments},
            "mutation": {
                "mutation_class": tool.annotations.mutation_class(),
                "mutation_scope": tool.annotations.side_effect_level,
            },
            "declaredPaths": declared, "declaredPathEntries": entries,
        });
        let denied =
            |judge: &Judge<'_>, reason: &str| Err(judge.denied(reason.to_owned(), Some("host_denied")));
        match judge.ask(|| Question::Approve { request })? {
            Reply::NoHost => denied(judge, "approval required but no host bridge is available"),
            Reply::HostFailed => {
                denied(judge, "approval request failed or host does not implement session/request_permission")
            }
            Reply::Host(answer) => {
                if is_granted(answer) {
                    judge.approved();
                    return match answer.get("args").filter(|args| args.is_object() && *args != arguments) {
                        Some(other) => Err(Stop::Replaced { layer, arguments: other.clone() }),
                        None => Ok(()),
                    };
                }
                let reason = answer["reason"].as_str().filter(|reason| !reason.is_empty());
                denied(judge, reason.unwrap_or("host did not grant approval"))
            }
            _ => Err(Stop::Unexpected),
        }
    }
}
