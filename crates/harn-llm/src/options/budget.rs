//! The `budget` option: limits of one call.

use harn_schema::options::Options;
use harn_value::Data as Value;

use crate::error::OptionError;
use crate::json::Object;

/// Limits of one call; only values strictly above a limit violate it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Budget {
    /// Projected cost of the call in USD.
    pub max_cost_usd: Option<f64>,
    /// Cost of the session including the call, in USD.
    pub total_budget_usd: Option<f64>,
    /// Projected prompt tokens.
    pub max_input_tokens: Option<i64>,
    /// Tokens of the reply asked for.
    pub max_output_tokens: Option<i64>,
    /// `unpriced: "allow"`: money limits let models pass whose price is unknown.
    pub allows_unpriced: bool,
}

impl Budget {
    /// Returns the lowest limit of the session's cost that covers a call, given that of `llm_budget`.
    pub(crate) fn session_limit(&self, of_session: Option<f64>) -> Option<f64> {
        [self.total_budget_usd, of_session].into_iter().flatten().reduce(f64::min)
    }
}

/// The options that limit a call.
#[derive(Options)]
#[options(data)]
pub(super) struct BudgetOptions {
    /// Limits, and `unpriced: "allow"` for models without a price. A call that could exceed a limit is not sent; a stream that exceeds one is aborted.
    #[option(ty = "dict", foreign = ["max_cost"])]
    budget: Option<Value>,
    /// The limit of `budget` as a separate option. If both are set, the lower one applies.
    #[option(ty = "int | float")]
    max_cost_usd: Option<Value>,
    /// The limit of `budget` as a separate option. If both are set, the lower one applies.
    #[option(ty = "int | float")]
    total_budget_usd: Option<Value>,
    /// The limit of `budget` as a separate option. If both are set, the lower one applies.
    #[option(ty = "int")]
    max_input_tokens: Option<Value>,
    /// The limit of `budget` as a separate option. If both are set, the lower one applies.
    #[option(ty = "int")]
    max_output_tokens: Option<Value>,
}

const KEYS: [&str; 5] =
    ["max_cost_usd", "total_budget_usd", "max_input_tokens", "max_output_tokens", "unpriced"];

/// A limit may stand in both places, as a default at the top and one of the call: both hold.
fn given<'v>(dict: Option<&'v Object>, key: &str, top: Option<&'v Value>) -> impl Iterator<Item = &'v Value> {
    [dict.and_then(|dict| dict.get(key)), top].into_iter().flatten().filter(|value| !value.is_null())
}

impl Budget {
    pub(super) fn new(options: BudgetOptions) -> Result<Budget, OptionError> {
        let shape = "budget: expected a dict {max_cost_usd?, total_budget_usd?, max_input_tokens?, max_output_tokens?, unpriced?}";
        let dict = match &options.budget {
            None => None,
            Some(Value::Object(dict)) => Some(dict),
            Some(_) => return Err(OptionError::new(shape)),
        };
        // A limit under a wrong name would be no limit, and nobody would notice before the bill.
        if let Some(key) = dict.and_then(|dict| dict.keys().find(|key| !KEYS.contains(&key.as_str()))) {
            return Err(OptionError::new(format!("{shape}; unknown key `{key}`")));
        }
        let wrong = |key: &str, what: &str| OptionError::new(format!("budget.{key}: expected a {what}"));
        let money = |key: &str, top: Option<&Value>| {
            given(dict, key, top).try_fold(None, |least: Option<f64>, value| match value.as_f64() {
                Some(n) if !n.is_finite() => Err(wrong(key, "finite number")),
                Some(n) if n >= 0.0 => Ok(Some(least.map_or(n, |least| least.min(n)))),
                _ => Err(wrong(key, "non-negative number")),
            })
        };
        let count = |key: &str, top: Option<&Value>| {
            given(dict, key, top).try_fold(None, |least: Option<i64>, value| {
                match (value.as_i64(), value.as_f64()) {
                    (Some(n), _) if n >= 0 => Ok(Some(least.map_or(n, |least| least.min(n)))),
                    (None, Some(n)) if n >= 0.0 => Err(wrong(key, "non-negative integer")),
                    _ => Err(wrong(key, "non-negative number")),
                }
            })
        };
        let allows_unpriced = match dict.and_then(|dict| dict.get("unpriced")) {
            None | Some(Value::Null) => false,
            Some(Value::String(word)) if word == "refuse" => false,
            Some(Value::String(word)) if word == "allow" => true,
            Some(other) => {
                let got = crate::json::display(other);
                return Err(OptionError::new(format!(
                    "budget.unpriced: expected \"allow\" or \"refuse\", got \"{got}\""
                )));
            }
        };
        Ok(Budget {
            allows_unpriced,
            max_cost_usd: money("max_cost_usd", options.max_cost_usd.as_ref())?,
            total_budget_usd: money("total_budget_usd", options.total_budget_usd.as_ref())?,
            max_input_tokens: count("max_input_tokens", options.max_input_tokens.as_ref())?,
            max_output_tokens: count("max_output_tokens", options.max_output_tokens.as_ref())?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use harn_schema::options::DataOptions;
    use harn_value::json;

    fn parse(options: &Value) -> Result<Budget, OptionError> {
        let read = BudgetOptions::read(options.as_object().unwrap());
        read.map_err(OptionError::new).and_then(Budget::new)
    }

    #[test]
    fn limits_are_read_from_the_dict_and_from_the_top() {
        let b = parse(&json!({"budget": {"max_cost_usd": 1}, "max_input_tokens": 7})).unwrap();
        assert_eq!((b.max_cost_usd, b.max_input_tokens), (Some(1.0), Some(7)));
        for (dict, top) in [(1, 0), (0, 1)] {
            let b = parse(&json!({"budget": {"max_cost_usd": dict, "max_input_tokens": dict},
                                  "max_cost_usd": top, "max_input_tokens": top}));
            let b = b.unwrap();
            assert_eq!((b.max_cost_usd, b.max_input_tokens), (Some(0.0), Some(0)), "the lower one decides");
        }
    }

    #[test]
    fn wrong_limits_are_named() {
        let error = |o: Value| parse(&o).unwrap_err().0;
        assert_eq!(
            error(json!({"budget": 3})),
            "budget: expected a dict {max_cost_usd?, total_budget_usd?, max_input_tokens?, max_output_tokens?, unpriced?}"
        );
        assert_eq!(
            error(json!({"budget": {"unpriced": "yes"}})),
            "budget.unpriced: expected \"allow\" or \"refuse\", got \"yes\""
        );
        assert_eq!(
            error(json!({"budget": {"max_cost_usd": -1}})),
            "budget.max_cost_usd: expected a non-negative number"
        );
        assert_eq!(
            error(json!({"budget": {"max_input_tokens": 1.5}})),
            "budget.max_input_tokens: expected a non-negative integer"
        );
    }
}
