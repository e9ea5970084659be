//! What calls cost: prices, cache accounting, the session's ledger, and budgets.

use std::cell::RefCell;
use std::sync::LazyLock;

use harn_value::{Data as Value, json};
use serde::Deserialize;

use crate::config::{Config, Pricing};
use crate::conversation::Conversation;
use crate::error::{Category, LlmError};
use crate::estimate::estimate_tokens;
use crate::event::{StreamEvent, Usage};
use crate::json::Object;
use crate::options::Budget;
use crate::tools::NativeTools;

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
pub(crate) fn model_pricing(config: &Config, model: &str) -> Option<Pricing> {
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
pub(crate) fn call_pricing(config: &Config, provider: &str, model: &str) -> Option<Pricing> {
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

/// Estimates the tokens of a text, or of all texts in a value.
pub fn estimate_tokens_of(value: &Value) -> i64 {
    crate::estimate::estimate_json(value)
}

/// Returns the cost of tokens at a provider in USD, if it has a price.
pub fn price(config: &Config, provider: &str, model: &str, input: i64, output: i64) -> Option<f64> {
    call_pricing(config, provider, model).map(|pricing| cost(Some(pricing), input, output))
}

/// Returns the cost of tokens in USD.
pub fn cost(pricing: Option<Pricing>, input: i64, output: i64) -> f64 {
    pricing
        .map_or(0.0, |p| (input as f64 * p.input_per_mtok + output as f64 * p.output_per_mtok) / 1_000_000.0)
}

/// Returns (`cache_hit_ratio`, `cache_savings_usd`) of a call.
pub(crate) fn cache_figures(usage: Usage, pricing: Option<Pricing>) -> (f64, f64) {
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

/// Estimates the prompt tokens of a call.
pub(crate) fn estimate_call(system: Option<&str>, messages: &Conversation, tools: &NativeTools) -> i64 {
    system.map_or(0, estimate_tokens) + messages.tokens_from(0) + tools.tokens()
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
        state.0.input_tokens = state.0.input_tokens.saturating_add(usage.input.unwrap_or(0));
        state.0.output_tokens = state.0.output_tokens.saturating_add(usage.output.unwrap_or(0));
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
        self.violation(budget, p, true).map_or(Ok(()), Err)
    }

    /// The first limit that a use passes, as an error; `before` tells whether it is still only expected.
    fn violation(&self, budget: &Budget, p: Projection, before: bool) -> Option<LlmError> {
        let (totals, session_limit) = *self.state.borrow();
        let session = totals.cost + p.cost;
        let tokens = |n: Option<i64>| n.map(|n| n as f64);
        let limits = [
            ("max_input_tokens", tokens(budget.max_input_tokens), p.input_tokens as f64),
            ("max_output_tokens", tokens(budget.max_output_tokens), p.output_tokens as f64),
            ("max_cost_usd", budget.max_cost_usd, p.cost),
            ("total_budget_usd", budget.total_budget_usd, session),
            ("total_budget_usd", session_limit, session),
        ];
        let (limit, value) =
            limits.iter().find_map(|(name, limit, used)| limit.filter(|l| used > l).map(|l| (*name, l)))?;
        let used = match limit {
            "max_input_tokens" => format!("input tokens {}", p.input_tokens),
            "max_output_tokens" => format!("output tokens {}", p.output_tokens),
            "max_cost_usd" => format!("cost ${:.6}", p.cost),
            _ => format!("session cost ${session:.6}"),
        };
        let message = if before {
            format!("LLM budget exceeded before provider call: projected {used} would exceed {limit}")
        } else {
            format!(
                // prose-ok: diagnostic
                "LLM budget exceeded during provider call: {used} so far is above {limit}; the stream was stopped"
            )
        };
        let mut error = LlmError::new(Category::BudgetExceeded, message);
        let mut extra = Object::new();
        extra.insert("limit".into(), limit.into());
        extra.insert("limit_value".into(), value.into());
        extra.insert("projected_cost_usd".into(), p.cost.into());
        extra.insert("session_cost_usd".into(), totals.cost.into());
        extra.insert("projected_input_tokens".into(), p.input_tokens.into());
        extra.insert("projected_output_tokens".into(), p.output_tokens.into());
        error.extra = Some(extra);
        Some(error)
    }
}

/// Watches what a streamed reply uses while it comes in, so that one that passes a limit can be stopped.
#[derive(Debug)]
pub struct Meter {
    budget: Budget,
    pricing: Option<Pricing>,
    /// The estimated prompt, until the provider counts it.
    input_tokens: i64,
    /// More than this the provider does not write; zero or less when nobody told it.
    max_tokens: i64,
    bytes: usize,
    reported: Usage,
    /// Nothing more is being written, so there is nothing to stop.
    whole: bool,
    stopped: bool,
}

impl Meter {
    /// Makes a meter for a reply to a prompt of about `input_tokens`.
    pub fn new(budget: Budget, pricing: Option<Pricing>, input_tokens: i64, max_tokens: i64) -> Meter {
        let reported = Usage::default();
        Meter { budget, pricing, input_tokens, max_tokens, bytes: 0, reported, whole: false, stopped: false }
    }

    /// Takes the next event. Limits are looked at while text is coming, so a reply that is there, also one that came in
    /// one piece, is never thrown away for what it cost.
    ///
    /// # Errors
    /// The reply has passed a limit.
    pub fn take(&mut self, ledger: &Ledger, event: &StreamEvent) -> Result<(), LlmError> {
        let text = match event {
            StreamEvent::Usage(usage) => {
                self.reported.merge(*usage);
                return Ok(());
            }
            StreamEvent::Whole => {
                self.whole = true;
                return Ok(());
            }
            StreamEvent::Text(text) | StreamEvent::Reasoning(text) => text,
            StreamEvent::ToolCallDelta { arguments, .. } => arguments,
            _ => return Ok(()),
        };
        self.bytes += text.len();
        if self.whole {
            return Ok(());
        }
        let (usage, cost) = self.used();
        let (input_tokens, output_tokens) = (usage.input.unwrap_or(0), usage.output.unwrap_or(0));
        let so_far = Projection { input_tokens, output_tokens, cost };
        match ledger.violation(&self.budget, so_far, false) {
            None => Ok(()),
            Some(error) => {
                self.stopped = true;
                Err(error.with_usage(usage))
            }
        }
    }

    /// Returns whether a limit was passed.
    pub(crate) fn has_stopped(&self) -> bool {
        self.stopped
    }

    /// Returns what the reply has used so far, reported or else estimated, and what that costs.
    pub fn used(&self) -> (Usage, f64) {
        let written = i64::try_from(self.bytes.div_ceil(4)).unwrap_or(i64::MAX);
        let written = if self.max_tokens > 0 { written.min(self.max_tokens) } else { written };
        let input = self.reported.input.unwrap_or(self.input_tokens);
        let output = self.reported.output.unwrap_or(0).max(written);
        let usage = Usage { input: Some(input), output: Some(output), ..self.reported };
        (usage, cost(self.pricing, input, output))
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
    fn a_meter_counts_what_is_reported_or_written() {
        let ledger = Ledger::default();
        let budget = Budget { max_output_tokens: Some(10), ..Budget::default() };
        let text = |n: usize| StreamEvent::Text("x".repeat(n));
        let mut meter = Meter::new(budget, None, 7, 0);
        assert!(meter.take(&ledger, &text(40)).is_ok());
        let error = meter.take(&ledger, &text(1)).unwrap_err();
        assert_eq!(
            error.message,
            "LLM budget exceeded during provider call: output tokens 11 so far is above max_output_tokens; the stream was stopped"
        );
        assert_eq!(error.to_json()["partial_usage"], json!({"input_tokens": 7, "output_tokens": 11}));
        assert!(meter.has_stopped());
        // A provider that was told a limit keeps to it, however many bytes its tokens have.
        let mut meter = Meter::new(budget, None, 7, 10);
        assert!(meter.take(&ledger, &text(400)).is_ok());
        let reported = Usage { input: Some(3), output: Some(12), ..Usage::default() };
        assert!(meter.take(&ledger, &StreamEvent::Usage(reported)).is_ok());
        assert!(meter.take(&ledger, &text(1)).is_err());
        // What is there as a whole is only counted.
        let mut meter = Meter::new(budget, None, 7, 0);
        assert!([StreamEvent::Whole, text(400)].iter().all(|event| meter.take(&ledger, event).is_ok()));
        assert_eq!((meter.used().0.output, meter.has_stopped()), (Some(100), false));
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
