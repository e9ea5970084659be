//! Options that look like a slip: a name that nobody knows but that is close to one, and a value of a type that makes it
//! count as absent. The contract accepts both; people want to be told.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::Value;

use crate::json::Object;

/// What a value must be to have an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// Anything, or something that is checked elsewhere.
    Any,
    /// An int.
    Int,
    /// An int or a float.
    Number,
    /// A list.
    List,
}

use Expected::{Any, Int, List, Number};

/// The options of a model call.
const CALL: &[(&str, Expected)] = &[
    ("anthropic_beta_features", Any),
    ("api_key", Any),
    ("api_mode", Any),
    ("audio", Any),
    ("base_url", Any),
    ("budget", Any),
    ("cache", Any),
    ("capabilities", Any),
    ("caps", Any),
    ("context_profile", Any),
    ("fallback_chain", Any),
    ("frequency_penalty", Number),
    ("idle_timeout", Any),
    ("interleaved_thinking", Any),
    ("json_schema", Any),
    ("llm_backoff_ms", Int),
    ("llm_retries", Int),
    ("max_cost_usd", Any),
    ("max_input_tokens", Any),
    ("max_output_tokens", Any),
    ("max_response_bytes", Any),
    ("max_tokens", Int),
    ("messages", List),
    ("model", Any),
    ("model_tier", Any),
    ("on_delta", Any),
    ("output_format", Any),
    ("output_schema", Any),
    ("output_validation", Any),
    ("pdf", Any),
    ("policy", Any),
    ("prefill", Any),
    ("presence_penalty", Number),
    ("project_context_profile", Any),
    ("prompt", Any),
    ("provider", Any),
    ("reasoning_effort", Any),
    ("reminders", Any),
    ("repair", Any),
    ("response_format", Any),
    ("retries", Any),
    ("route_policy", Any),
    ("schema", Any),
    ("schema_retries", Int),
    ("schema_retry_nudge", Any),
    ("seed", Int),
    ("session_id", Any),
    ("stop", List),
    ("stream", Any),
    ("structural_experiment", Any),
    ("system", Any),
    ("system_appendix", Any),
    ("system_context", Any),
    ("system_preamble", Any),
    ("system_prefix", Any),
    ("system_prompt_parts", Any),
    ("system_suffix", Any),
    ("temperature", Number),
    ("thinking", Any),
    ("timeout", Any),
    ("tool_choice", Any),
    ("tool_format", Any),
    ("tool_search", Any),
    ("tools", Any),
    ("top_k", Int),
    ("top_p", Number),
    ("total_budget_usd", Any),
    ("transcript", Any),
    ("user_visible", Any),
    ("vision", Any),
];

/// Returns the names of the options of a model call, in order.
pub fn call_options() -> impl Iterator<Item = &'static str> {
    CALL.iter().map(|(name, _)| *name)
}

static CALL_OPTIONS: LazyLock<BTreeMap<&str, Expected>> = LazyLock::new(|| CALL.iter().copied().collect());

/// Returns a sentence for each option that seems to be a slip. `more` are options that the caller knows besides those of a
/// model call; `is_provider` knows the keys that hold settings of one provider.
pub fn notices(
    options: &Object,
    more: &[(&str, Expected)],
    is_provider: impl Fn(&str) -> bool,
) -> Vec<String> {
    let known = |key: &str| {
        let own = more.iter().find(|(name, _)| *name == key).map(|(_, expected)| *expected);
        own.or_else(|| CALL_OPTIONS.get(key).copied())
    };
    let names = || CALL.iter().chain(more).map(|(name, _)| *name);
    let mut out = Vec::new();
    for (key, value) in options {
        match known(key) {
            Some(expected) => out.extend(unfit(key, value, expected)),
            None if key.starts_with('_') || is_provider(key) => {}
            None => out.extend(
                nearest(key, names())
                    .map(|name| format!("unknown option `{key}` has no effect (did you mean `{name}`?)")),
            ),
        }
    }
    out
}

/// Says when a value counts as absent.
fn unfit(key: &str, value: &Value, expected: Expected) -> Option<String> {
    let what = match expected {
        Any => return None,
        Int if value.is_i64() || value.is_u64() => return None,
        Number if value.is_number() => return None,
        List if value.is_array() => return None,
        _ if value.is_null() => return None,
        Int => "an int",
        Number => "a number",
        List => "a list",
    };
    let shown = crate::json::display(value);
    let shown: String = shown.chars().take(40).collect();
    Some(format!("option `{key}` must be {what}; `{shown}` counts as absent"))
}

/// The known name that a word is a slip of: one letter off in short words, two in longer ones.
pub(crate) fn nearest<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let limit = if word.chars().count() < 5 { 1 } else { 2 };
    names
        .map(|name| (strsim::damerau_levenshtein(word, name), name))
        .filter(|(distance, _)| *distance <= limit)
        .min()
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(options: &Value) -> Vec<String> {
        let more = [("max_iterations", Int)];
        notices(options.as_object().unwrap(), &more, |key| key == "cashe")
    }

    #[test]
    fn slips_are_told_with_the_way_out() {
        assert_eq!(
            of(&json!({"temprature": 0.2})),
            ["unknown option `temprature` has no effect (did you mean `temperature`?)"]
        );
        assert_eq!(
            of(&json!({"max_iteration": 2, "buget": {}})),
            [
                "unknown option `max_iteration` has no effect (did you mean `max_iterations`?)",
                "unknown option `buget` has no effect (did you mean `budget`?)"
            ]
        );
        assert_eq!(
            of(&json!({"temperature": "hot"})),
            ["option `temperature` must be a number; `hot` counts as absent"]
        );
    }

    #[test]
    fn what_is_meant_is_left_alone() {
        let fine = json!({"temperature": 1, "top_p": 0.5, "seed": null, "stop": [], "max_iterations": 3, "team": "blue",
            "_iteration": 1, "cashe": {}, "tool_format": "native", "provider": 5});
        assert!(of(&fine).is_empty());
    }

    #[test]
    fn the_table_is_sorted() {
        assert!(CALL.is_sorted_by_key(|(name, _)| *name));
    }
}
