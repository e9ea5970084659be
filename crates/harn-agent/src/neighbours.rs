//! Options under names that other systems have for them, or that stand a level deeper here.

use harn_llm::options::nearest;
use harn_value::{Data as Json, data::Map};

use crate::error::ConfigError;

/// Words of permission, and where they belong. Passed over, they would limit nothing.
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

/// Words for what is called otherwise here.
const OTHERS: [(&str, &str); 22] = [
    ("callbacks", "post_turn_callback"),
    ("extra_body", "a key with the provider's name"),
    ("iterations", "max_iterations"),
    ("max_completion_tokens", "max_tokens"),
    ("max_cost", "budget"),
    ("max_iters", "max_iterations"),
    ("max_retries", "llm_retries"),
    ("max_steps", "max_iterations"),
    ("max_turns", "max_iterations"),
    ("on_message", "agent_subscribe"),
    ("on_token", "on_delta"),
    ("on_tool_call", "agent_subscribe"),
    ("parallel_tool_calls", "annotations of the tools"),
    ("reasoning", "reasoning_effort"),
    ("response_schema", "schema"),
    ("retry", "llm_retries"),
    ("stop_sequences", "stop"),
    ("stop_when", "post_turn_callback"),
    ("system_message", "system"),
    ("system_prompt", "system"),
    ("timeout_ms", "timeout"),
    ("turns", "max_iterations"),
];

/// Refuses options that were meant to limit a loop, and would not.
///
/// # Errors
/// The first of them, with the option that was meant.
pub(crate) fn refuse(options: &Map<String, Json>) -> Result<(), ConfigError> {
    let found = options.keys().find_map(|key| PERMISSION.iter().find(|(word, _)| word == key));
    match found {
        None => Ok(()),
        Some((word, meant)) => {
            Err(ConfigError(format!("agent_loop: unknown option `{word}`, did you mean `{meant}`?")))
        }
    }
}

/// What to say of each option that nothing knows, beside those that are all but a known one: `known` tells both, and what
/// begins with `_` is the program's own.
pub fn strangers<'o>(
    options: &'o Map<String, Json>,
    known: impl Fn(&str) -> bool + 'o,
    names: impl Fn() -> Vec<&'static str> + 'o,
) -> impl Iterator<Item = String> + 'o {
    let strange = move |key: &&String| {
        !key.starts_with('_') && !known(key.as_str()) && nearest(key, names().into_iter()).is_none()
    };
    options.keys().filter(strange).map(|key| match OTHERS.iter().find(|(word, _)| word == key) {
        Some((_, meant)) => format!("unknown option `{key}` has no effect (did you mean `{meant}`?)"),
        None => format!("unknown option `{key}` has no effect (a name of your own begins with `_`)"),
    })
}

#[cfg(test)]
mod tests {
    use harn_value::json;

    use super::*;

    #[test]
    fn strangers_are_told_with_what_was_meant() {
        let options = json!({"max_turns": 3, "colour": "red", "_mine": 1, "model": "m", "modle": "x"});
        let names = || vec!["model", "max_iterations"];
        let told: Vec<String> =
            strangers(options.as_object().unwrap(), move |key| names().contains(&key), names).collect();
        // What is all but an option is told of by the calls.
        assert_eq!(
            told,
            [
                "unknown option `max_turns` has no effect (did you mean `max_iterations`?)",
                "unknown option `colour` has no effect (a name of your own begins with `_`)",
            ]
        );
    }

    #[test]
    fn what_is_meant_is_an_option() {
        let known = |name: &str| {
            let option = name.split('.').next().unwrap_or_default();
            crate::config::OPTIONS.iter().any(|(known, _)| *known == option)
                || harn_llm::options::call_options().any(|(known, _)| known == option)
        };
        assert!(PERMISSION.iter().all(|(word, meant)| !known(word) && known(meant)));
        assert!(OTHERS.iter().all(|(word, _)| !known(word)));
    }
}
