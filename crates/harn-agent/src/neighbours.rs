//! Options with the names of other libraries, or on the wrong level.

use harn_value::{Data as Json, data::Map};

use crate::error::ConfigError;

/// Names of permission options and the corresponding Harn options. If they were ignored, they would limit nothing.
const PERMISSION: [(&str, &str); 24] = [
    ("allow", "permissions.allow"),
    ("allowed_paths", "approval_policy.write_path_allowlist"),
    ("allowed_tools", "policy.tools"),
    ("approval", "approval_policy"),
    ("approval_required", "approval_policy.require_approval"),
    ("approvals", "approval_policy"),
    ("auto_approve", "approval_policy.auto_approve"),
    ("auto_deny", "approval_policy.auto_deny"),
    ("capability_policy", "policy"),
    ("denied_tools", "permissions.deny"),
    ("deny", "permissions.deny"),
    ("deny_patterns", "command_policy.deny_patterns"),
    ("disallowed_tools", "permissions.deny"),
    ("on_escalation", "permissions.on_escalation"),
    ("permission", "permissions"),
    ("policies", "policy"),
    ("recursion_limit", "policy.recursion_limit"),
    ("require_approval", "approval_policy.require_approval"),
    ("sandbox", "policy"),
    ("side_effect_level", "policy.side_effect_level"),
    ("tool_annotations", "policy.tool_annotations"),
    ("tool_arg_constraints", "policy.tool_arg_constraints"),
    ("workspace_roots", "policy.workspace_roots"),
    ("write_path_allowlist", "approval_policy.write_path_allowlist"),
];

/// Rejects options that look like limits of a loop but have no effect.
///
/// # Errors
/// The first such option, and the option to use instead.
pub fn reject_misplaced(options: &Map<String, Json>) -> Result<(), ConfigError> {
    let found = options.keys().find_map(|key| PERMISSION.iter().find(|(word, _)| word == key));
    match found {
        None => Ok(()),
        Some((word, meant)) => {
            Err(ConfigError(format!("agent_loop: unknown option `{word}`, did you mean `{meant}`?")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loop_options::LoopOptions;
    use harn_llm::options::{CallOptions, DataOptions};

    #[test]
    fn what_is_meant_is_an_option() {
        let known = |name: &str| {
            let option = name.split('.').next().unwrap_or_default();
            LoopOptions::FIELDS.iter().chain(CallOptions::FIELDS).any(|known| known.name == option)
        };
        assert!(PERMISSION.iter().all(|(word, meant)| !known(word) && known(meant)));
    }
}
