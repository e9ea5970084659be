//! Requests for rights against a ceiling: what is left when both must allow it.
//!
//! A nested loop, worker or stage asks for rights with a policy dict; whoever starts it holds one, too. The answer is never
//! more than either of them.

use harn_llm::options::shape::SIDE_EFFECT_LEVELS;
use harn_value::{Data as Json, data::Map, json};

use crate::policy::{Policy, glob};

/// The ceiling where nobody has set one: everything, and loops nested eight deep.
pub(crate) fn default_ceiling() -> Json {
    json!({"side_effect_level": "network", "recursion_limit": 8})
}

/// Checks that a policy is well formed, since a limit that is malformed would be none.
///
/// # Errors
/// A text that begins with `place` and names the wrong part.
pub fn check_policy(place: &str, policy: &Json) -> Result<(), String> {
    checked(place, "policy", policy)
}

/// As [`check_policy`] for an approval policy.
///
/// # Errors
/// A text that begins with `place` and names the wrong part.
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

/// Returns what a request keeps below a ceiling.
///
/// # Errors
/// Each right that the ceiling does not have, in words.
pub fn intersect(request: &Json, ceiling: &Json) -> Result<Json, Vec<String>> {
    let mut problems = Vec::new();
    let mut out = request.as_object().cloned().unwrap_or_default();
    let (asked, allowed) = (words(&request["tools"]), words(&ceiling["tools"]));
    if !allowed.is_empty() {
        let refused: Vec<&str> =
            asked.iter().copied().filter(|tool| !allowed.iter().any(|pattern| glob(pattern, tool))).collect();
        if !refused.is_empty() {
            problems.push(format!("requested tools exceed host ceiling: {}", refused.join(", ")));
        }
        if asked.is_empty() {
            out.insert("tools".to_owned(), ceiling["tools"].clone());
        }
    }
    capabilities(request, ceiling, &mut out, &mut problems);
    if let Some(level) = lower_level(&request["side_effect_level"], &ceiling["side_effect_level"]) {
        out.insert("side_effect_level".to_owned(), level.into());
    }
    let limits = [&request["recursion_limit"], &ceiling["recursion_limit"]];
    if let Some(limit) = limits.iter().filter_map(|limit| limit.as_u64()).min() {
        out.insert("recursion_limit".to_owned(), limit.into());
    }
    if words(&request["workspace_roots"]).is_empty() && !words(&ceiling["workspace_roots"]).is_empty() {
        out.insert("workspace_roots".to_owned(), ceiling["workspace_roots"].clone());
    }
    if problems.is_empty() { Ok(Json::Object(out)) } else { Err(problems) }
}

fn capabilities(request: &Json, ceiling: &Json, out: &mut Map<String, Json>, problems: &mut Vec<String>) {
    let none = Map::new();
    let asked = request["capabilities"].as_object().unwrap_or(&none);
    let allowed = ceiling["capabilities"].as_object().unwrap_or(&none);
    if allowed.is_empty() {
        return;
    }
    if asked.is_empty() {
        out.insert("capabilities".to_owned(), ceiling["capabilities"].clone());
        return;
    }
    for (name, operations) in asked {
        let Some(known) = allowed.get(name) else {
            problems.push(format!("requested capability exceeds host ceiling: {name}"));
            continue;
        };
        let known = words(known);
        let refused: Vec<&str> = words(operations).into_iter().filter(|op| !known.contains(op)).collect();
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
}
