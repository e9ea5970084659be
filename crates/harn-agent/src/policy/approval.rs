//! `approval_policy`: lists of tools that run without asking, never, or after a person of the host has said yes.

use harn_value::{Data as Json, data::Map, json};
use serde::{Deserialize, Serialize};

use super::judge::{Judge, Question, Reply, Stop};
use super::read::{list, part, permitted};
use super::{glob, path};
use crate::tool::LoopTool;

/// What the option may hold.
const KEYS: [&str; 4] = ["auto_approve", "auto_deny", "require_approval", "write_path_allowlist"];

/// The option.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Approval {
    auto_approve: Vec<String>,
    auto_deny: Vec<String>,
    require: Vec<String>,
    /// `None` without a limit.
    write_paths: Option<Vec<String>>,
}

impl Approval {
    /// Reads the option.
    pub(super) fn read(options: &Map<String, Json>) -> Result<Approval, String> {
        let Some(approval) = part(options, "approval_policy", &KEYS)? else { return Ok(Approval::default()) };
        let list = |key| list(approval, "approval_policy", key);
        Ok(Approval {
            auto_approve: list("auto_approve")?,
            auto_deny: list("auto_deny")?,
            require: list("require_approval")?,
            write_paths: permitted(approval, "approval_policy", "write_path_allowlist")?,
        })
    }

    /// Decides about a call; the host is asked where the lists say so.
    pub(super) fn judge(&self, judge: &mut Judge<'_>, tool: &LoopTool, arguments: &Json) -> Result<(), Stop> {
        let name = &tool.name;
        if let Some(pattern) = self.auto_deny.iter().find(|p| glob(p, name)) {
            let reason = format!("tool '{name}' matches deny pattern '{pattern}'");
            return Err(judge.denied(reason, Some("auto_denied")));
        }
        let paths: Vec<(&String, String)> = tool
            .annotations
            .path_params
            .iter()
            .filter_map(|key| Some((key, arguments.get(key)?)))
            .flat_map(|(key, given)| {
                // Of a list each entry is a path.
                let all = given.as_array().map_or_else(|| std::slice::from_ref(given), Vec::as_slice);
                all.iter().map(move |path| (key, path.printed()))
            })
            .collect();
        if let Some(allowed) = &self.write_paths
            && !tool.annotations.is_read_only()
            && let Some((_, path)) =
                paths.iter().find(|(_, path)| !allowed.iter().any(|p| path::within(p, path)))
        {
            let reason = format!("tool '{name}' targets '{path}' which is not in the write-path allowlist");
            return Err(judge.denied(reason, Some("auto_denied")));
        }
        if self.auto_approve.iter().any(|p| glob(p, name)) || !self.require.iter().any(|p| glob(p, name)) {
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
                let outcome = answer["outcome"]["outcome"].as_str();
                if matches!(outcome, Some("selected" | "allow")) || answer["granted"] == true {
                    judge.approved(answer.get("args").filter(|args| args.is_object()));
                    return Ok(());
                }
                let reason = answer["reason"].as_str().filter(|reason| !reason.is_empty());
                denied(judge, reason.unwrap_or("host did not grant approval"))
            }
            _ => Err(Stop::Unexpected),
        }
    }
}
