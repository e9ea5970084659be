//! Intersection of a requested policy with an effective policy.
//!
//! A nested loop, worker or stage requests a policy; its parent has an effective policy (the ceiling). The result never
//! permits more than either of them.

use harn_llm::options::shape::SIDE_EFFECT_LEVELS;
use harn_value::{Data as Json, data::Map, glob, json};

use crate::policy::Policy;

/// The default effective policy: all tools and effects, and at most eight nested loops.
pub(crate) fn default_ceiling() -> Json {
    json!({"side_effect_level": "network", "recursion_limit": 8})
}

/// Checks that a policy is well formed, because a malformed limit would not limit anything.
///
/// # Errors
/// A message that begins with `place` and names the invalid part.
pub fn check_policy(place: &str, policy: &Json) -> Result<(), String> {
    checked(place, "policy", policy)
}

/// Same as [`check_policy`], for an approval policy.
///
/// # Errors
/// A message that begins with `place` and names the invalid part.
pub(crate) fn check_approval(place: &str, policy: &Json) -> Result<(), String> {
    checked(place, "approval_policy", policy)
}

fn checked(place: &str, option: &str, policy: &Json) -> Result<(), String> {
    let mut options = Map::new();
    options.insert(option.to_owned(), policy.clone());
    let renamed = |text: String| {
        let text = text.strip_prefix("agent_loop: ").unwrap_or(&text).to_owned();
        format!("{place}{}", text.strip_prefix(option).unwrap_or(&text))
    };
    Policy::from_options(&options).map(drop).map_err(renamed)
}

/// Returns the intersection of a request with a ceiling.
///
/// # Errors
/// One message per requested right that the ceiling does not grant.
pub fn intersect(request: &Json, ceiling: &Json) -> Result<Json, Vec<String>> {
    let mut problems = Vec::new();
    let mut out = request.as_object().cloned().unwrap_or_default();
    if !ceiling["tools"].is_null() {
        let (asked, allowed) = (words(&request["tools"]), words(&ceiling["tools"]));
        let refused: Vec<&str> =
            asked.iter().copied().filter(|tool| !allowed.iter().any(|pattern| glob(pattern, tool))).collect();
        if !refused.is_empty() {
            problems.push(format!("requested tools exceed host ceiling: {}", refused.join(", ")));
        }
        inherit("tools", request, ceiling, &mut out);
    }
    capabilities(request, ceiling, &mut out, &mut problems);
    if let Some(level) = lower_level(&request["side_effect_level"], &ceiling["side_effect_level"]) {
        out.insert("side_effect_level".to_owned(), level.into());
    }
    let limits = [&request["recursion_limit"], &ceiling["recursion_limit"]];
    if let Some(limit) = limits.iter().filter_map(|limit| limit.as_u64()).min() {
        out.insert("recursion_limit".to_owned(), limit.into());
    }
    inherit("workspace_roots", request, ceiling, &mut out);
    if problems.is_empty() { Ok(Json::Object(out)) } else { Err(problems) }
}

/// Copies a limit of the ceiling unless the request sets it.
fn inherit(key: &str, request: &Json, ceiling: &Json, out: &mut Map<String, Json>) {
    if request[key].is_null() && !ceiling[key].is_null() {
        out.insert(key.to_owned(), ceiling[key].clone());
    }
}

fn capabilities(request: &Json, ceiling: &Json, out: &mut Map<String, Json>, problems: &mut Vec<String>) {
    inherit("capabilities", request, ceiling, out);
    let Some(allowed) = ceiling["capabilities"].as_object() else { return };
    for (name, operations) in request["capabilities"].as_object().into_iter().flatten() {
        let Some(known) = allowed.get(name) else {
            problems.push(format!("requested capability exceeds host ceiling: {name}"));
            continue;
        };
        let known = words(known);
        let beyond = |op: &&str| !known.contains(op) && !known.contains(&"*");
        let refused: Vec<&str> = words(operations).into_iter().filter(beyond).collect();
        if !refused.is_empty() {
            problems.push(format!(
                "requested capability operations exceed host ceiling: {name}.{}",
                refused.join(",")
            ));
        }
    }
}

fn lower_level<'a>(a: &'a Json, b: &'a Json) -> Option<&'a str> {
    let rank = |word: &&str| SIDE_EFFECT_LEVELS.iter().position(|level| level == word).unwrap_or(0);
    [a, b].into_iter().filter_map(Json::as_str).min_by_key(rank)
}

fn words(list: &Json) -> Vec<&str> {
    list.as_array().into_iter().flatten().filter_map(Json::as_str).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(request: Json, ceiling: Json) -> String {
        intersect(&request, &ceiling).unwrap_err().join("; ")
    }

    #[test]
    fn requests_beyond_a_ceiling_are_named() {
        assert_eq!(
            problems(json!({"tools": ["a", "b", "c"]}), json!({"tools": ["c"]})),
            "requested tools exceed host ceiling: a, b"
        );
        let ceiling = json!({"capabilities": {"workspace": ["read_text"]}});
        assert_eq!(
            problems(
                json!({"capabilities": {"workspace": ["read_text", "delete", "list"]}}),
                ceiling.clone()
            ),
            "requested capability operations exceed host ceiling: workspace.delete,list"
        );
        assert_eq!(
            problems(json!({"capabilities": {"process": ["exec"]}}), ceiling),
            "requested capability exceeds host ceiling: process"
        );
    }

    #[test]
    fn the_lower_one_counts() {
        let asked = json!({"side_effect_level": "network", "recursion_limit": 9, "tools": ["run_a"]});
        let held = json!({"side_effect_level": "read_only", "recursion_limit": 2, "tools": ["run_*"], "workspace_roots": ["."]});
        let left = intersect(&asked, &held).unwrap();
        assert_eq!(
            left,
            json!({"side_effect_level": "read_only", "recursion_limit": 2, "tools": ["run_a"], "workspace_roots": ["."]})
        );
        assert_eq!(intersect(&json!({}), &held).unwrap()["tools"], json!(["run_*"]));
    }

    #[test]
    fn an_empty_limit_permits_nothing() {
        let nothing = json!({"tools": [], "capabilities": {}, "workspace_roots": []});
        for (request, ceiling) in [(json!({}), nothing.clone()), (nothing.clone(), json!({}))] {
            assert_eq!(intersect(&request, &ceiling).unwrap(), nothing, "{request} below {ceiling}");
        }
        assert_eq!(
            problems(json!({"tools": ["a"], "capabilities": {"network": ["connect"]}}), nothing),
            "requested tools exceed host ceiling: a; requested capability exceeds host ceiling: network"
        );
    }
}
