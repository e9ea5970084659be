//! Hooks around tool calls.

use harn_value::Value;
use harn_vm::{Error, builtins};

use crate::convert::{entry, thrown};
use crate::hooks::Hooks;

builtins! {
    /// Hooks around tool calls.
    pub(crate) static HOOKS: "hooks";

    /// Rejects tool calls or shortens their results in all loops of the program, in registration order.
    ///
    /// `pattern` is a glob over tool names (default `*`). `deny` is the reason for rejecting matching calls.
    /// `max_output` is the number of characters above which results are shortened as by `microcompact`.
    ///
    /// ```harn
    /// register_tool_hook({pattern: "delete_*", deny: "nothing is deleted here"})
    /// let tools = tool_define(tool_registry(), "delete_row", "Delete", {handler: { args -> "gone" }})
    /// llm_mock({tool_calls: [{name: "delete_row", arguments: {}}]})
    /// println(agent_loop("Clean up", nil, {provider: "mock", tools: tools}).tools.rejected) // -> [delete_row]
    /// ```
    State fn register_tool_hook(cx, config: Value as "{pattern?: string, deny?: string, max_output?: int}") -> "nil" {
        let deny = entry(&config, "deny").as_str().map(|reason| reason.to_string());
        let most = entry(&config, "max_output").as_int();
        let is_blank = |key: &str| entry(&config, key).as_str().is_some_and(|text| text.as_str().trim().is_empty());
        if let Some(key) = ["pattern", "deny"].into_iter().find(|key| is_blank(key)) {
            return Err(thrown(format!("register_tool_hook: {key} must not be empty")));
        }
        if deny.is_none() && most.is_none() {
            return Err(thrown("register_tool_hook: a hook needs deny or max_output"));
        }
        let max_output = match most.map(usize::try_from) {
            None => None,
            Some(Ok(most)) if most > 0 => Some(most),
            Some(_) => return Err(thrown("register_tool_hook: max_output must be at least 1")),
        };
        let pattern = entry(&config, "pattern").as_str().map_or_else(|| "*".to_owned(), |text| text.to_string());
        cx.state::<Hooks>().register(&pattern, deny, max_output);
    }

    /// Removes the hooks that `register_tool_hook` added; hooks of the project's manifest stay.
    ///
    /// Under a policy, as in a handler of a loop that has one, no hooks are removed, because they may restrict the
    /// loop.
    ///
    /// ```harn
    /// register_tool_hook({deny: "no"})
    /// clear_tool_hooks()
    /// let tools = tool_define(tool_registry(), "look", "Look", {handler: { args -> "seen" }})
    /// llm_mock({tool_calls: [{name: "look", arguments: {}}]})
    /// println(agent_loop("Look", nil, {provider: "mock", tools: tools}).tools.successful) // -> [look]
    /// ```
    State fn clear_tool_hooks(cx) -> "nil" {
        if crate::policy::over(cx).is_some() {
            return Err(Error::category("tool_rejected", "clear_tool_hooks: no hooks are removed below a policy"));
        }
        cx.state::<Hooks>().clear();
    }
}
