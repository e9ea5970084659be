//! Active tools and capability flags, and the guidance that a tool contributes (row 9).

use std::collections::BTreeSet;

use harn_value::{Data as Value, data::Map};

use super::primary::context_profile;
use crate::fragment::Fragment;
use crate::value::{flag, names, present};

/// Returns the tool entries of a list or of a registry `{tools: [...]}`.
#[must_use]
pub fn entries(tools: &Value) -> &[Value] {
    let list = match tools {
        Value::Array(list) => Some(list),
        other => other.as_object().and_then(|registry| registry.get("tools")?.as_array()),
    };
    list.map_or(&[], Vec::as_slice)
}

/// Returns the name of a tool entry, which is in `function` in OpenAI's shape. An entry without a name is not a tool.
#[must_use]
pub(crate) fn entry_name(entry: &Value) -> Option<&str> {
    let entry = entry.as_object()?;
    let name = entry.get("name").or_else(|| entry.get("function")?.get("name"))?;
    name.as_str().filter(|name| !name.trim().is_empty())
}

/// Iterates over the named tool dicts among tool entries.
fn named(tools: &[Value]) -> impl Iterator<Item = (&str, &Map<String, Value>)> {
    tools.iter().filter_map(|entry| Some((entry_name(entry)?, entry.as_object()?)))
}

/// Returns the tool entries of the options.
pub(crate) fn given(options: &Map<String, Value>) -> &[Value] {
    options.get("tools").map(entries).unwrap_or_default()
}

/// Returns the active tools of the options: those with a name, after `policy.tools` and deferral.
///
/// With `tool_search`, a deferred tool is active only if it is listed in `always_loaded`. Without `tool_search`,
/// deferred tools are offered like the others, because they could not be found otherwise.
#[must_use]
pub fn active_tools(options: &Map<String, Value>) -> BTreeSet<String> {
    let dict = |key| options.get(key).and_then(Value::as_object);
    let list =
        |dict: Option<&Map<String, Value>>, key| dict.and_then(|d| d.get(key)).map(names).unwrap_or_default();
    let allowed = dict("policy").and_then(|policy| present(policy, "tools")).map(names);
    let searched =
        options.get("tool_search").is_some_and(|search| !search.is_null() && *search != Value::Bool(false));
    let loaded = list(dict("tool_search"), "always_loaded");
    named(given(options))
        .filter(|(name, _)| allowed.as_ref().is_none_or(|all| all.iter().any(|a| a == name)))
        .filter(|(name, tool)| !searched || !flag(tool, "defer_loading") || loaded.iter().any(|l| l == name))
        .map(|(name, _)| name.to_owned())
        .collect()
}

/// Returns the active capability flags: `caps`, `capabilities` and those of the context profile.
#[must_use]
pub fn active_caps(options: &Map<String, Value>) -> BTreeSet<String> {
    let profile = context_profile(options).and_then(|profile| profile.get("caps"));
    [options.get("caps"), options.get("capabilities"), profile]
        .into_iter()
        .flatten()
        .flat_map(names)
        .collect()
}

/// Returns the guidance fragment of every tool entry that has one, in order.
pub fn tool_guidance(tools: &[Value]) -> impl Iterator<Item = Fragment> {
    named(tools).filter_map(|(name, tool)| {
        let given = present(tool, "guidance").or_else(|| present(tool, "system_guidance"));
        let body = given.and_then(Value::as_str).filter(|body| !body.trim().is_empty())?;
        let fragment = Fragment::new(format!("tool:{name}.guidance"), format!("tool:{name}"), body);
        Some(fragment.requiring_tool(name))
    })
}

#[cfg(test)]
mod tests {
    use harn_value::json;

    use super::*;

    fn tools_of(options: Value) -> Vec<String> {
        active_tools(options.as_object().unwrap()).into_iter().collect()
    }

    fn guidance_of(options: Value) -> Vec<(String, String)> {
        let list = tool_guidance(given(options.as_object().unwrap()));
        list.into_iter().map(|f| (f.id, f.body)).collect()
    }

    #[test]
    fn lists_and_registries_name_the_active_tools() {
        let tools = json!([{"type": "function", "function": {"name": "b"}}, {"name": "a", "handler": Value::opaque("closure", "<fn(x)>")}, {"x": 1}, {"name": " "}, "s"]);
        assert_eq!(tools_of(json!({"tools": tools})), ["a", "b"]);
        assert_eq!(tools_of(json!({"tools": {"_type": "tool_registry", "tools": tools}})), ["a", "b"]);
        assert!(tools_of(json!({"tools": 5})).is_empty());
        assert!(tools_of(json!({})).is_empty());
    }

    #[test]
    fn policy_and_deferral_scope_tools_away() {
        let tools = json!([{"name": "a"}, {"name": "b", "defer_loading": true}, {"name": "c", "defer_loading": true}]);
        assert_eq!(tools_of(json!({"tools": tools})), ["a", "b", "c"]);
        assert_eq!(tools_of(json!({"tools": tools, "tool_search": false})), ["a", "b", "c"]);
        assert_eq!(tools_of(json!({"tools": tools, "tool_search": {"always_loaded": ["c"]}})), ["a", "c"]);
        assert_eq!(tools_of(json!({"tools": tools, "tool_search": true})), ["a"]);
        assert_eq!(tools_of(json!({"tools": tools, "policy": {"tools": ["x"]}})), [] as [&str; 0]);
        assert_eq!(tools_of(json!({"tools": tools, "policy": {"tools": []}})), Vec::<String>::new());
    }

    #[test]
    fn capabilities_are_a_union_of_three_places() {
        let options = json!({"caps": ["a"], "capabilities": {"b": true, "no": false},
            "context_profile": {"caps": ["c"]}, "project_context_profile": {"caps": ["hidden"]}});
        let caps: Vec<_> = active_caps(options.as_object().unwrap()).into_iter().collect();
        assert_eq!(caps, ["a", "b", "c"]);
        assert!(active_caps(json!({"caps": null}).as_object().unwrap()).is_empty());
    }

    #[test]
    fn guidance_is_a_non_blank_string() {
        let tools = json!([
            {"name": "z", "guidance": "first"},
            {"name": "a", "system_guidance": "second"},
            {"name": "b", "guidance": "third", "system_guidance": "hidden"},
            {"name": "c", "guidance": " ", "system_guidance": "hidden"},
            {"name": "d", "guidance": null, "system_guidance": "fourth"},
            {"name": "e", "guidance": 5},
            {"guidance": "nameless"},
        ]);
        let found = guidance_of(json!({"tools": tools}));
        let found: Vec<_> = found.iter().map(|(id, body)| (id.as_str(), body.as_str())).collect();
        assert_eq!(
            found,
            [
                ("tool:z.guidance", "first"),
                ("tool:a.guidance", "second"),
                ("tool:b.guidance", "third"),
                ("tool:d.guidance", "fourth"),
            ]
        );
    }
}
