//! The options of a model call, and what they must be: the run-time check, the checker and the pages about them are made
//! from this table.
//!
//! What limits, protects or changes what is run is refused when it is wrong. The rest counts as absent then, and so does a
//! name that nobody knows; where it is close to a known one, it looks like a slip, and people want to be told.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use harn_value::Data as Value;

use crate::json::Object;
use crate::options::near::nearest;
use crate::options::shape::{self, Shape, ShapeError};

/// What a value must be to have an effect.
#[derive(Debug, Clone, Copy)]
pub enum Expected {
    /// Anything, or something that is checked elsewhere.
    Any,
    /// An int.
    Int,
    /// An int or a float.
    Number,
    /// A list.
    List,
    /// A value of this shape; another one is refused.
    Only(Shape),
}

use Expected::{Any, Int, List, Number, Only};

impl Expected {
    /// Returns it in words; nothing for what the table does not say.
    pub fn words(&self) -> Option<String> {
        match self {
            Any => None,
            Int => Some("an int".to_owned()),
            Number => Some("a number".to_owned()),
            List => Some("a list".to_owned()),
            Only(shape) => Some(shape.words()),
        }
    }
}

/// The options of a model call.
const CALL: &[(&str, Expected)] = &[
    ("anthropic_beta_features", Any),
    ("api_key", Any),
    ("api_mode", Only(Shape::Word(&["responses", "chat"]))),
    ("audio", Only(Shape::Bool)),
    ("base_url", Any),
    ("budget", Any),
    ("cache", Only(Shape::Bool)),
    ("capabilities", Any),
    ("caps", Any),
    ("context_profile", Any),
    ("fallback_chain", Any),
    ("frequency_penalty", Number),
    ("idle_timeout", Any),
    ("interleaved_thinking", Only(Shape::Bool)),
    ("json_schema", Any),
    ("llm_backoff_ms", Only(Shape::Int(0))),
    ("llm_retries", Int),
    ("max_cost_usd", Any),
    ("max_input_tokens", Any),
    ("max_output_tokens", Any),
    ("max_response_bytes", Only(Shape::Int(1))),
    ("max_tokens", Int),
    ("messages", List),
    ("model", Any),
    ("model_tier", Only(Shape::Str)),
    ("on_delta", Any),
    ("output_format", Any),
    ("output_schema", Any),
    ("output_validation", Only(Shape::Word(&["off", "warn", "error"]))),
    ("pdf", Only(Shape::Bool)),
    ("policy", Only(shape::POLICY)),
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
    ("session_id", Only(Shape::Str)),
    ("stop", List),
    ("stream", Only(Shape::Bool)),
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
    ("tool_format", Only(Shape::Word(&["native", "text", "auto"]))),
    ("tool_search", Any),
    ("tools", Any),
    ("top_k", Int),
    ("top_p", Number),
    ("total_budget_usd", Any),
    ("transcript", Any),
    ("user_visible", Only(Shape::Bool)),
    ("vision", Only(Shape::Bool)),
];

/// Returns the options of a model call in order, and what they must be.
pub fn call_options() -> impl Iterator<Item = (&'static str, Expected)> {
    CALL.iter().copied()
}

/// Checks the values of a table of which a wrong one is refused.
///
/// # Errors
/// The first that is wrong, in the order of the table.
pub fn check_values(
    table: impl IntoIterator<Item = (&'static str, Expected)>,
    options: &Object,
) -> Result<(), ShapeError> {
    table.into_iter().try_for_each(|(key, expected)| match (expected, options.get(key)) {
        (Only(shape), Some(value)) => shape.check(key, value),
        _ => Ok(()),
    })
}

static CALL_OPTIONS: LazyLock<BTreeMap<&str, Expected>> = LazyLock::new(|| CALL.iter().copied().collect());

/// An option that has no effect, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// The option.
    pub option: String,
    /// Why it has none.
    pub text: String,
}

/// Returns a notice for each option that seems to be a slip. `more` are options that the caller knows besides those of a
/// model call; `is_provider` knows the keys that hold settings of one provider.
pub fn notices(
    options: &Object,
    more: &[(&str, Expected)],
    is_provider: impl Fn(&str) -> bool,
) -> Vec<Notice> {
    let known = |key: &str| {
        let own = more.iter().find(|(name, _)| *name == key).map(|(_, expected)| *expected);
        own.or_else(|| CALL_OPTIONS.get(key).copied())
    };
    let names = || CALL.iter().chain(more).map(|(name, _)| *name);
    let mut out = Vec::new();
    for (key, value) in options {
        let text = match known(key) {
            Some(expected) => unfit(key, value, expected),
            None if key.starts_with('_') || is_provider(key) => None,
            None => nearest(key, names())
                .map(|name| format!("unknown option `{key}` has no effect (did you mean `{name}`?)")),
        };
        out.extend(text.map(|text| Notice { option: key.clone(), text }));
    }
    out
}

/// Says when a value counts as absent.
fn unfit(key: &str, value: &Value, expected: Expected) -> Option<String> {
    let what = match expected {
        Any | Only(_) => return None,
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

#[cfg(test)]
mod tests {
    use super::*;
    use harn_value::json;

    fn of(options: &Value) -> Vec<String> {
        let more = [("max_iterations", Int)];
        let found = notices(options.as_object().unwrap(), &more, |key| key == "cashe");
        found.into_iter().map(|notice| notice.text).collect()
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
