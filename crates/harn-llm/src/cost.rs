//! What calls cost: prices, cache accounting, the session's ledger, and budgets.

use std::cell::RefCell;
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::config::{Config, Pricing};
use crate::error::{Category, LlmError};
use crate::event::Usage;
use crate::json::Object;
use crate::options::Budget;

#[derive(Debug, Deserialize)]
struct PriceRow {
    parts: Vec<String>,
    usd: [f64; 2],
}

#[derive(Debug, Deserialize)]
struct PriceFile {
    price: Vec<PriceRow>,
}

static PRICES: LazyLock<Vec<PriceRow>> = LazyLock::new(|| {
    toml::from_str::<PriceFile>(include_str!("data/prices.toml")).expect("the shipped prices are valid").price
});

/// Finds the prices of a model: the catalogue's, else those of the table of name parts.
pub fn model_pricing(config: &Config, model: &str) -> Option<Pricing> {
    if let Some(pricing) = config.model(model).and_then(|m| m.pricing) {
        return Some(pricing);
    }
    let id = model.to_lowercase();
    let row = PRICES.iter().find(|row| row.parts.iter().all(|part| id.contains(part.as_str())))?;
    Some(Pricing {
        input_per_mtok: row.usd[0],
        output_per_mtok: row.usd[1],
        cache_read_per_mtok: None,
        cache_write_per_mtok: None,
    })
}

/// Finds the prices of a call: the model's, else the provider's.
pub fn call_pricing(config: &Config, provider: &str, model: &str) -> Option<Pricing> {
    model_pricing(config, model).or_else(|| {
        let table = config.provider(provider)?;
        Some(Pricing {
            input_per_mtok: table.cost_per_1k_in? * 1000.0,
            output_per_mtok: table.cost_per_1k_out? * 1000.0,
            cache_read_per_mtok: None,
            cache_write_per_mtok: None,
        })
    })
}

/// Returns the cost of tokens in USD.
pub fn cost(pricing: Option<Pricing>, input: i64, output: i64) -> f64 {
    pricing
        .map_or(0.0, |p| (input as f64 * p.input_per_mtok + output as f64 * p.output_per_mtok) / 1_000_000.0)
}

/// Returns (`cache_hit_ratio`, `cache_savings_usd`) of a call.
pub fn cache_figures(usage: Usage, pricing: Option<Pricing>) -> (f64, f64) {
    let (input, read, write) =
        (usage.input.unwrap_or(0), usage.cache_read.unwrap_or(0), usage.cache_write.unwrap_or(0));
    let total = if read + write <= input { input } else { input + read + write };
    let ratio = if total == 0 { 0.0 } else { read as f64 / total as f64 };
    let savings = pricing.map_or(0.0, |p| {
        let read_price = p.cache_read_per_mtok.unwrap_or(p.input_per_mtok);
        let write_price = p.cache_write_per_mtok.unwrap_or(p.input_per_mtok);
        (read as f64 * (p.input_per_mtok - read_price) + write as f64 * (p.input_per_mtok - write_price))
            / 1_000_000.0
    });
    // Keeps a free call from printing as minus zero.
    (ratio, if savings == 0.0 { 0.0 } else { savings })
}

/// Estimates the tokens of a text.
pub fn estimate_tokens(text: &str) -> i64 {
    i64::try_from(text.len().div_ceil(4)).unwrap_or(i64::MAX)
}

/// Estimates the tokens of a JSON value: its texts and keys, and one for every other scalar.
pub fn estimate_json(value: &Value) -> i64 {
    match value {
        Value::String(text) => estimate_tokens(text),
        Value::Array(items) => items.iter().map(estimate_json).sum(),
        Value::Object(map) => map.iter().map(|(key, v)| estimate_tokens(key) + estimate_json(v)).sum(),
        _ => 1,
    }
}

/// Estimates the prompt tokens of a call.
pub fn estimate_call(system: Option<&str>, messages: &[Value], tools: &[Value]) -> i64 {
    system.map_or(0, estimate_tokens)
        + messages.iter().map(estimate_json).sum::<i64>()
        + tools.iter().map(|tool| estimate_tokens(&tool.to_string())).sum::<i64>()
}

/// What the run has used so far.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Totals {
    /// USD.
    pub cost: f64,
    /// Prompt tokens.
    pub input_tokens: i64,
    /// Reply tokens.
    pub output_tokens: i64,
    /// Finished calls.
    pub calls: i64,
    /// Time spent in calls, in milliseconds.
    pub duration_ms: i64,
}

/// The session's ledger and limit.
#[derive(Debug, Default)]
pub struct Ledger {
    state: RefCell<(Totals, Option<f64>)>,
}

/// What a call is expected to use.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Projection {
    /// Prompt tokens.
    pub input_tokens: i64,
    /// Reply tokens.
    pub output_tokens: i64,
    /// USD.
    pub cost: f64,
}

impl Ledger {
    /// Returns the totals.
    pub fn totals(&self) -> Totals {
        self.state.borrow().0
    }

    /// Returns the dict of `llm_session_cost`.
    pub fn session_json(&self) -> Value {
        let t = self.totals();
        json!({"total_cost": t.cost, "input_tokens": t.input_tokens, "output_tokens": t.output_tokens,
               "call_count": t.calls})
    }

    /// Returns the dict of `llm_usage`.
    pub fn usage_json(&self) -> Value {
        let t = self.totals();
        json!({"input_tokens": t.input_tokens, "output_tokens": t.output_tokens, "total_duration_ms": t.duration_ms,
               "call_count": t.calls, "total_calls": t.calls})
    }

    /// Sets the session's limit in USD.
    pub fn set_budget(&self, usd: f64) {
        self.state.borrow_mut().1 = Some(usd);
    }

    /// Returns what is left of the limit; negative when it is passed, `None` without one.
    pub fn remaining(&self) -> Option<f64> {
        let (totals, limit) = *self.state.borrow();
        limit.map(|l| l - totals.cost)
    }

    /// Records a finished call.
    ///
    /// # Errors
    /// The session's limit is passed; the call is recorded all the same.
    pub fn record(&self, usage: Usage, cost: f64, duration_ms: i64) -> Result<(), LlmError> {
        let mut state = self.state.borrow_mut();
        state.0.cost += cost;
        state.0.input_tokens += usage.input.unwrap_or(0);
        state.0.output_tokens += usage.output.unwrap_or(0);
        state.0.calls += 1;
        state.0.duration_ms += duration_ms;
        let (totals, limit) = *state;
        match limit {
            Some(limit) if totals.cost > limit => Err(LlmError::new(
                Category::BudgetExceeded,
                format!("LLM budget exceeded: spent ${:.4} of ${limit:.4} budget", totals.cost),
            )),
            _ => Ok(()),
        }
    }

    /// Checks what a call is expected to use against its own budget and the session's.
    ///
    /// # Errors
    /// A limit would be passed.
    pub fn preflight(&self, budget: &Budget, p: Projection) -> Result<(), LlmError> {
        let (totals, session_limit) = *self.state.borrow();
        let session = totals.cost + p.cost;
        let violation = |limit: &str, value: f64, what: String| {
            let message = format!("LLM budget exceeded before provider call: {what} would exceed {limit}");
            let mut error = LlmError::new(Category::BudgetExceeded, message);
            let mut extra = Object::new();
            extra.insert("limit".into(), limit.into());
            extra.insert("limit_value".into(), value.into());
            extra.insert("projected_cost_usd".into(), p.cost.into());
            extra.insert("session_cost_usd".into(), totals.cost.into());
            extra.insert("projected_input_tokens".into(), p.input_tokens.into());
            extra.insert("projected_output_tokens".into(), p.output_tokens.into());
            error.extra = Some(extra);
            Err(error)
        };
        match budget.max_input_tokens {
            Some(n) if p.input_tokens > n => {
                return violation(
                    "max_input_tokens",
                    n as f64,
                    format!("projected input tokens {}", p.input_tokens),
                );
            }
            _ => {}
        }
        match budget.max_output_tokens {
            Some(n) if p.output_tokens > n => {
                return violation(
                    "max_output_tokens",
                    n as f64,
                    format!("projected output tokens {}", p.output_tokens),
                );
            }
            _ => {}
        }
        match budget.max_cost_usd {
            Some(usd) if p.cost > usd => {
                return violation("max_cost_usd", usd, format!("projected cost ${:.6}", p.cost));
            }
            _ => {}
        }
        for limit in [budget.total_budget_usd, session_limit].into_iter().flatten() {
            if session > limit {
                return violation("total_budget_usd", limit, format!("projected session cost ${session:.6}"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_of_known_models() {
        let config = Config::builtin();
        let usd = |model: &str| cost(model_pricing(&config, model), 1000, 500);
        assert!((usd("gpt-4o-mini") - 0.00045).abs() < 1e-12);
        assert!((usd("claude-sonnet-4-20250514") - 0.0105).abs() < 1e-12);
        assert_eq!(usd("nobody"), 0.0);
        assert_eq!(call_pricing(&config, "groq", "nobody").map(|p| p.input_per_mtok), Some(0.1));
    }

    #[test]
    fn cache_reads_save_and_writes_cost() {
        let config = Config::builtin();
        let pricing = model_pricing(&config, "claude-sonnet-4-20250514");
        let usage = Usage { input: Some(100), cache_read: Some(100), ..Usage::default() };
        let (ratio, saved) = cache_figures(usage, pricing);
        assert_eq!(ratio, 1.0);
        assert!((saved - 100.0 * 2.7 / 1e6).abs() < 1e-12);
        let usage =
            Usage { input: Some(100), cache_write: Some(50), cache_read: Some(150), ..Usage::default() };
        assert_eq!(cache_figures(usage, None).0, 0.5);
        assert_eq!(cache_figures(Usage::default(), pricing), (0.0, 0.0));
    }

    #[test]
    fn preflight_checks_in_order_and_only_above_the_limit() {
        let ledger = Ledger::default();
        let p = Projection { input_tokens: 10, output_tokens: 20, cost: 0.5 };
        let exact = Budget {
            max_cost_usd: Some(0.5),
            max_input_tokens: Some(10),
            max_output_tokens: Some(20),
            ..Budget::default()
        };
        assert!(ledger.preflight(&exact, p).is_ok());
        let tight = Budget { max_output_tokens: Some(19), max_cost_usd: Some(0.1), ..Budget::default() };
        let error = ledger.preflight(&tight, p).unwrap_err();
        assert_eq!(
            error.message,
            "LLM budget exceeded before provider call: projected output tokens 20 would exceed max_output_tokens"
        );
        assert_eq!(error.to_json()["limit_value"], json!(19.0));
        ledger.set_budget(0.4);
        let error = ledger.preflight(&Budget::default(), p).unwrap_err();
        assert_eq!(error.to_json()["limit"], "total_budget_usd");
        assert!(error.message.contains("projected session cost $0.500000"));
    }

    #[test]
    fn passing_the_session_limit_is_recorded_and_reported() {
        let ledger = Ledger::default();
        ledger.set_budget(0.01);
        let error = ledger.record(Usage { input: Some(5), ..Usage::default() }, 0.02, 3).unwrap_err();
        assert_eq!(error.message, "LLM budget exceeded: spent $0.0200 of $0.0100 budget");
        assert_eq!((ledger.totals().calls, ledger.remaining()), (1, Some(0.01 - 0.02)));
    }
}
