//! Costs of calls: prices, cache accounting, the session's ledger, and budgets.

use std::cell::RefCell;
use std::collections::HashMap;
use std::task::{Poll, Waker};

use harn_value::{Data as Value, json};

use crate::config::{Config, Pricing};
use crate::conversation::Conversation;
use crate::error::{Category, LlmError};
use crate::estimate::estimate_tokens;
use crate::event::{EMPTY, StreamEvent, Usage};
use crate::json::Object;
use crate::options::Budget;
use crate::request::Request;
use crate::tools::NativeTools;

/// Returns the prices of a call: the configured ones, zero for a free provider, else those of the catalogue.
pub fn call_pricing(config: &Config, provider: &str, model: &str) -> Option<Pricing> {
    if let Some(pricing) = config.model(model).and_then(|m| m.pricing) {
        return Some(pricing);
    }
    let table = config.provider(provider);
    if table.is_some_and(|table| table.free == Some(true)) {
        return Some(Pricing::FREE);
    }
    let of_provider = || {
        let table = table?;
        Some(Pricing {
            input_per_mtok: table.cost_per_1k_in? * 1000.0,
            output_per_mtok: table.cost_per_1k_out? * 1000.0,
            ..Pricing::FREE
        })
    };
    of_provider().or_else(|| config.catalog().find(provider, model)?.pricing)
}

/// Returns the prices of a model that is named without a provider.
pub(crate) fn model_pricing(config: &Config, model: &str) -> Option<Pricing> {
    let provider = config.infer_provider(model).unwrap_or_default();
    call_pricing(config, &provider, model)
}

/// Estimates the tokens of a string, or of all strings in a value.
pub fn estimate_tokens_of(value: &Value) -> i64 {
    crate::estimate::estimate_json(value)
}

/// Returns the cost in USD of uncached tokens at a provider; `None` when the price is unknown.
pub fn price(config: &Config, provider: &str, model: &str, input: i64, output: i64) -> Option<f64> {
    call_pricing(config, provider, model).map(|pricing| cost(Some(pricing), input, output))
}

/// Returns the cost in USD of a call without cached tokens.
pub fn cost(pricing: Option<Pricing>, input: i64, output: i64) -> f64 {
    charge(pricing, &Usage { input: Some(input), output: Some(output), ..Usage::default() })
}

/// Returns the cost of a call in USD: the cost that the provider reports, else the sum of each kind of tokens times its
/// price.
pub(crate) fn charge(pricing: Option<Pricing>, usage: &Usage) -> f64 {
    if let Some(usd) = usage.cost {
        return usd;
    }
    let Some(p) = pricing else { return 0.0 };
    let count = |n: Option<i64>| n.unwrap_or(0);
    let (input, read, write) = (count(usage.input), count(usage.cache_read), count(usage.cache_write));
    let hour = count(usage.cache_write_hour).min(write);
    let fresh = (input.saturating_sub(read).saturating_sub(write)).max(0);
    let long = p.above.filter(|above| input > above.tokens);
    let input_price = long.and_then(|l| l.input).unwrap_or(p.input_per_mtok);
    let write_price = long.and_then(|l| l.write).or(p.cache_write_per_mtok).unwrap_or(input_price);
    let parts = [
        (fresh, input_price),
        (read, long.and_then(|l| l.read).or(p.cache_read_per_mtok).unwrap_or(input_price)),
        (write - hour, write_price),
        (hour, p.cache_write_hour_per_mtok.unwrap_or(write_price)),
        (count(usage.output), long.and_then(|l| l.output).unwrap_or(p.output_per_mtok)),
    ];
    parts.iter().map(|(tokens, price)| *tokens as f64 * price).sum::<f64>() / 1_000_000.0
}

/// Returns (`cache_hit_ratio`, `cache_savings_usd`) of a call.
pub(crate) fn cache_figures(usage: Usage, pricing: Option<Pricing>) -> (f64, f64) {
    let (input, read, write) =
        (usage.input.unwrap_or(0), usage.cache_read.unwrap_or(0), usage.cache_write.unwrap_or(0));
    let ratio = if input == 0 { 0.0 } else { read as f64 / input as f64 };
    let savings = pricing.map_or(0.0, |p| {
        let read_price = p.cache_read_per_mtok.unwrap_or(p.input_per_mtok);
        let write_price = p.cache_write_per_mtok.unwrap_or(p.input_per_mtok);
        (read as f64 * (p.input_per_mtok - read_price) + write as f64 * (p.input_per_mtok - write_price))
            / 1_000_000.0
    });
    // Avoids printing a free call as minus zero.
    (ratio, if savings == 0.0 { 0.0 } else { savings })
}

/// Estimates the prompt tokens of a call.
pub(crate) fn estimate_call(system: Option<&str>, messages: &Conversation, tools: &NativeTools) -> i64 {
    system.map_or(0, estimate_tokens) + messages.tokens_from(0) + tools.tokens()
}

/// The usage of the run so far.
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
    /// Total duration of calls, in milliseconds.
    pub duration_ms: i64,
}

/// The session's usage totals and cost limit.
#[derive(Debug, Default)]
pub struct Ledger {
    state: RefCell<State>,
}

#[derive(Debug, Default)]
struct State {
    totals: Totals,
    limit: Option<f64>,
    open: Open,
    /// Per model, the largest amount in USD by which a call exceeded its upper cost estimate.
    excess: HashMap<String, f64>,
    /// Calls that wait for other calls to settle.
    waiting: Vec<Waker>,
}

/// The calls in flight.
#[derive(Debug, Clone, Copy, Default)]
struct Open {
    /// Calls that finish without the program's help.
    calls: usize,
    /// Streams of `llm_stream`, which last as long as the program reads them.
    streams: usize,
    /// Calls that wait for a listener of the program.
    paused: usize,
    /// Reserved USD: the upper estimate of each call, or its cost so far if that is higher.
    held: f64,
    /// USD spent so far by the calls in flight.
    used: f64,
}

/// The expected usage of a call.
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
        self.state.borrow().totals
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
        self.state.borrow_mut().limit = Some(usd);
    }

    /// Returns the session's limit in USD.
    pub fn limit(&self) -> Option<f64> {
        self.state.borrow().limit
    }

    /// Returns the remaining budget in USD: negative when the limit is exceeded, `None` without a limit.
    pub fn remaining(&self) -> Option<f64> {
        let state = self.state.borrow();
        state.limit.map(|l| l - state.totals.cost)
    }

    /// Records a finished call.
    ///
    /// # Errors
    /// The call exceeds the session's limit; the call is recorded nevertheless.
    pub fn record(&self, usage: Usage, cost: f64, duration_ms: i64) -> Result<(), LlmError> {
        let mut state = self.state.borrow_mut();
        let totals = &mut state.totals;
        totals.cost += cost;
        totals.input_tokens = totals.input_tokens.saturating_add(usage.input.unwrap_or(0));
        totals.output_tokens = totals.output_tokens.saturating_add(usage.output.unwrap_or(0));
        totals.calls += 1;
        totals.duration_ms += duration_ms;
        match state.limit {
            Some(limit) if state.totals.cost > limit => Err(LlmError::new(
                Category::BudgetExceeded,
                format!("LLM budget exceeded: spent ${:.4} of ${limit:.4} budget", state.totals.cost),
            )),
            _ => Ok(()),
        }
    }

    /// Checks the expected usage of a call against its own budget and the session's limit.
    ///
    /// # Errors
    /// The call would exceed a limit.
    pub fn preflight(&self, budget: &Budget, p: Projection) -> Result<(), LlmError> {
        self.violation(budget, p, 0.0, Moment::Before).map_or(Ok(()), Err)
    }

    /// Rejects a call whose price is unknown when a cost limit is set, because the limit could not be enforced.
    pub(crate) fn check_priced(&self, budget: &Budget, provider: &str, model: &str) -> Result<(), LlmError> {
        let limits = [
            ("budget.max_cost_usd", budget.max_cost_usd),
            ("budget.total_budget_usd", budget.total_budget_usd),
            ("llm_budget", self.state.borrow().limit),
        ];
        let Some((limit, value)) = limits.iter().find_map(|(name, limit)| limit.map(|value| (*name, value)))
        else {
            return Ok(());
        };
        if budget.allows_unpriced {
            return Ok(());
        }
        let mut error = LlmError::new(
            Category::BudgetExceeded,
            format!(
                // prose-ok: diagnostic
                "{limit} is set, and the price of model `{model}` of provider `{provider}` is unknown; add its price to harn.toml:\n\
                 [llm.models.\"{model}\"]\nprovider = \"{provider}\"\npricing = {{ input_per_mtok = 1.0, output_per_mtok = 2.0 }}\n\
                 or set `free = true` in [llm.providers.{provider}], or pass budget: {{unpriced: \"allow\"}}"
            ),
        );
        error.reason = "unpriced_model";
        let mut extra = Object::new();
        extra.insert("limit".into(), limit.into());
        extra.insert("limit_value".into(), value.into());
        error.extra = Some(extra);
        Err(error)
    }

    /// Reserves the upper cost estimate of a call against the session's limits. A call whose reservation does not fit
    /// next to those in flight waits until they settle. A call that is expected to fit always runs once it is alone.
    ///
    /// # Errors
    /// The call is expected to exceed a limit, or its reservation does not fit next to calls that may last until the
    /// program continues: open streams, and calls whose listener is running.
    pub(crate) async fn reserve(
        &self,
        budget: &Budget,
        p: Projection,
        most: Most,
        model: &str,
        is_stream: bool,
    ) -> Result<Reservation<'_>, LlmError> {
        let most_usd = std::future::poll_fn(|cx| {
            if let Some(error) = self.violation(budget, p, 0.0, Moment::Before) {
                return Poll::Ready(Err(error));
            }
            let mut state = self.state.borrow_mut();
            let most_usd = most.usd + state.excess.get(model).copied().unwrap_or(0.0);
            let open = state.open;
            let limit = budget.session_limit(state.limit);
            let fits = limit.is_none_or(|limit| state.totals.cost + open.held + most_usd <= limit);
            if fits || open.calls + open.streams == 0 {
                return Poll::Ready(Ok(most_usd));
            }
            if open.calls > open.paused {
                if !state.waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
                    state.waiting.push(cx.waker().clone());
                }
                return Poll::Pending;
            }
            drop(state);
            let p = Projection { cost: most_usd, ..p };
            let only_session = Budget { total_budget_usd: budget.total_budget_usd, ..Budget::default() };
            let error = self.violation(&only_session, p, open.held, Moment::NextToStreams);
            Poll::Ready(error.map_or(Ok(most_usd), Err))
        })
        .await?;
        let open = &mut self.state.borrow_mut().open;
        *(if is_stream { &mut open.streams } else { &mut open.calls }) += 1;
        open.held += most_usd;
        let reserved = most_usd;
        Ok(Reservation { ledger: self, reserved, most, held: reserved, used: 0.0, is_stream })
    }

    /// Marks a call in flight as waiting for a listener of the program until the guard is dropped. Calls that the
    /// listener makes must not wait for it, as that would deadlock.
    pub fn pause(&self) -> Pause<'_> {
        self.state.borrow_mut().open.paused += 1;
        Pause { ledger: self }
    }

    /// Returns the error of the first limit that the projected usage exceeds. `open` is the cost of the other calls in
    /// flight.
    fn violation(&self, budget: &Budget, p: Projection, open: f64, moment: Moment) -> Option<LlmError> {
        let (totals, session_limit) = {
            let state = self.state.borrow();
            (state.totals, state.limit)
        };
        let session = totals.cost + open + p.cost;
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
        let message = match moment {
            Moment::Before => {
                format!("LLM budget exceeded before provider call: projected {used} would exceed {limit}")
            }
            Moment::NextToStreams => format!(
                // prose-ok: diagnostic
                "LLM budget exceeded before provider call: projected {used} could exceed {limit} while a stream or a call with a running \
                 `on_delta` is open; read the stream to its end first, or raise the limit"
            ),
            Moment::During => format!(
                // prose-ok: diagnostic
                "LLM budget exceeded during provider call: {used} so far is above {limit}; the stream was stopped"
            ),
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

/// When a limit was checked.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Moment {
    Before,
    NextToStreams,
    During,
}

/// The upper cost estimate of a call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Most {
    /// USD, without the reply if `metered`.
    usd: f64,
    /// The reply has no known token limit, so its stream is aborted before it uses budget that other calls reserved.
    metered: bool,
}

/// Upper bound for the tokens that a provider adds to a prompt, such as its instructions for tools.
const PROVIDER_TOKENS: i64 = 1_000;
/// Upper bound for the tokens that a provider adds per message.
const MESSAGE_TOKENS: i64 = 16;

impl Most {
    /// Computes the upper cost estimate of a request: one token per byte of the prompt, written to the cache, plus the
    /// longest reply.
    pub(crate) fn of(
        pricing: Option<Pricing>,
        request: &Request,
        estimate: i64,
        output: Option<i64>,
    ) -> Most {
        let Some(pricing) = pricing else { return Most { usd: 0.0, metered: false } };
        let messages = i64::try_from(request.messages.len()).unwrap_or(i64::MAX);
        let input = estimate
            .saturating_mul(4)
            .saturating_add(PROVIDER_TOKENS)
            .saturating_add(messages.saturating_mul(MESSAGE_TOKENS));
        let cost = |cache_write| {
            let usage = Usage { input: Some(input), output, cache_write, ..Usage::default() };
            charge(Some(pricing), &usage)
        };
        let usd = cost(None).max(cost(Some(input)));
        match output {
            None if usd > 0.0 && !request.stream => Most { usd: f64::INFINITY, metered: false },
            None => Most { usd, metered: true },
            Some(_) => Most { usd, metered: false },
        }
    }
}

/// Guard that marks a call in flight as waiting for a listener of the program.
#[derive(Debug)]
pub struct Pause<'l> {
    ledger: &'l Ledger,
}

impl Drop for Pause<'_> {
    fn drop(&mut self) {
        self.ledger.state.borrow_mut().open.paused -= 1;
    }
}

/// The upper cost estimate of a call, reserved until the call settles.
#[derive(Debug)]
pub(crate) struct Reservation<'l> {
    ledger: &'l Ledger,
    most: Most,
    reserved: f64,
    /// The reserved USD, or the cost so far if that is higher.
    held: f64,
    /// The cost so far.
    used: f64,
    is_stream: bool,
}

impl Reservation<'_> {
    /// Checks the usage so far against the limits. It includes the cost so far of the other calls or, for a reply
    /// without a token limit, their reservations.
    fn check(&mut self, budget: &Budget, so_far: Projection) -> Option<LlmError> {
        let held = self.reserved.max(so_far.cost);
        let others = {
            let open = &mut self.ledger.state.borrow_mut().open;
            let others = (open.held - self.held, open.used - self.used);
            (open.held, open.used) = (others.0 + held, others.1 + so_far.cost);
            if self.most.metered { others.0 } else { others.1 }
        };
        (self.held, self.used) = (held, so_far.cost);
        self.ledger.violation(budget, so_far, others, Moment::During)
    }

    /// Settles a finished call. If it cost more than its upper estimate, the reservations of later calls of the model
    /// grow by the difference.
    pub(crate) fn settle(self, model: &str, cost: f64) {
        let beyond = cost - self.most.usd;
        if beyond > 0.0 {
            let excess = &mut self.ledger.state.borrow_mut().excess;
            let known = excess.entry(model.to_owned()).or_default();
            *known = known.max(beyond);
        }
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        let mut state = self.ledger.state.borrow_mut();
        let open = &mut state.open;
        *(if self.is_stream { &mut open.streams } else { &mut open.calls }) -= 1;
        (open.held, open.used) = (open.held - self.held, open.used - self.used);
        if open.calls + open.streams == 0 {
            // Resets the sums, because floats accumulate rounding errors and infinity minus infinity is not a number.
            (open.held, open.used) = (0.0, 0.0);
        }
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
    }
}

/// Tracks the usage of a streamed reply, so that a stream that exceeds a limit can be aborted.
#[derive(Debug)]
pub struct Meter {
    budget: Budget,
    pricing: Option<Pricing>,
    /// The estimated prompt tokens, used until the provider reports them.
    input_tokens: i64,
    /// The token limit sent to the provider; zero or less when no limit was sent.
    max_tokens: i64,
    bytes: usize,
    reported: Usage,
    /// The reply is complete, so there is nothing left to abort.
    whole: bool,
    /// The request was sent.
    sent: bool,
    stopped: bool,
}

impl Meter {
    /// Creates a meter for a reply to a prompt of about `input_tokens`.
    pub fn new(budget: Budget, pricing: Option<Pricing>, input_tokens: i64, max_tokens: i64) -> Meter {
        let reported = Usage::default();
        let (whole, sent, stopped) = (false, false, false);
        Meter { budget, pricing, input_tokens, max_tokens, bytes: 0, reported, whole, sent, stopped }
    }

    /// Processes the next event. Limits are checked while text arrives, so a complete reply, including one that arrives
    /// in one piece, is never discarded because of its cost.
    ///
    /// # Errors
    /// The reply exceeds a limit.
    pub(crate) fn take(
        &mut self,
        reservation: &mut Reservation<'_>,
        event: &StreamEvent,
    ) -> Result<(), LlmError> {
        let text = match event {
            StreamEvent::Usage(usage) => {
                self.reported.merge(*usage);
                return Ok(());
            }
            StreamEvent::Sent => {
                self.sent = true;
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
        match reservation.check(&self.budget, so_far) {
            None => Ok(()),
            Some(error) => {
                self.stopped = true;
                Err(error.with_usage(Usage { estimated: false, ..usage }))
            }
        }
    }

    /// Returns whether the provider bills a failed attempt: it sent text or token usage, or it timed out after
    /// receiving the request. `None` stands for a cancelled attempt.
    pub(crate) fn is_billed(&self, failure: Option<&LlmError>) -> bool {
        let silent = |e: &LlmError| {
            e.category == Category::Timeout && e.status.is_none() && e.reason != "connect_timeout"
        };
        let counted = [self.reported.input, self.reported.output].into_iter().flatten().any(|n| n > 0);
        self.stopped
            || self.bytes > 0
            || counted
            || (self.sent && failure.is_none_or(|e| silent(e) || e.reason == EMPTY))
    }

    /// Returns the usage of the reply so far, as reported or else estimated, and its cost in USD.
    pub fn used(&self) -> (Usage, f64) {
        let written = i64::try_from(self.bytes.div_ceil(4)).unwrap_or(i64::MAX);
        let written = if self.max_tokens > 0 { written.min(self.max_tokens) } else { written };
        let mut usage = self.reported.or_estimated(self.input_tokens, written);
        if usage.output < Some(written) {
            (usage.output, usage.estimated) = (Some(written), true);
        }
        (usage, charge(self.pricing, &usage))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Above;

    #[test]
    fn prices_of_known_models() {
        let config = Config::builtin();
        let usd = |model: &str| cost(model_pricing(&config, model), 1000, 500);
        assert!((usd("gpt-4o-mini") - 0.00045).abs() < 1e-12);
        assert!((usd("claude-sonnet-4-20250514") - 0.0105).abs() < 1e-12);
        assert_eq!(usd("nobody"), 0.0);
        assert_eq!(call_pricing(&config, "groq", "nobody"), None);
        assert_eq!(call_pricing(&config, "local", "gpt-4o"), Some(Pricing::FREE));
        for (model, input, output) in [
            ("claude-opus-4-5", 5.0, 25.0),
            ("gpt-5", 1.25, 10.0),
            ("o3", 2.0, 8.0),
            ("gemini-2.5-flash", 0.3, 2.5),
        ] {
            let found = model_pricing(&config, model).unwrap();
            assert_eq!((found.input_per_mtok, found.output_per_mtok), (input, output), "{model}");
        }
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
            Usage { input: Some(300), cache_write: Some(50), cache_read: Some(150), ..Usage::default() };
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

    #[tokio::test]
    async fn a_meter_counts_what_is_reported_or_written() {
        let ledger = Ledger::default();
        let budget = Budget { max_output_tokens: Some(10), ..Budget::default() };
        let text = |n: usize| StreamEvent::Text("x".repeat(n));
        let nothing = Projection { input_tokens: 0, output_tokens: 0, cost: 0.0 };
        let most = Most { usd: 0.0, metered: false };
        let mut open = ledger.reserve(&budget, nothing, most, "m", false).await.unwrap();
        let mut meter = Meter::new(budget, None, 7, 0);
        assert!(!meter.is_billed(None));
        assert!(meter.take(&mut open, &text(40)).is_ok());
        let error = meter.take(&mut open, &text(1)).unwrap_err();
        assert_eq!(
            error.message,
            "LLM budget exceeded during provider call: output tokens 11 so far is above max_output_tokens; the stream was stopped"
        );
        assert_eq!(error.to_json()["partial_usage"], json!({"input_tokens": 7, "output_tokens": 11}));
        assert!(meter.is_billed(Some(&error)) && meter.used().0.estimated);
        // A provider that received a token limit respects it, however many bytes its tokens have.
        let mut meter = Meter::new(budget, None, 7, 10);
        assert!(meter.take(&mut open, &text(400)).is_ok());
        let reported = Usage { input: Some(3), output: Some(12), ..Usage::default() };
        assert!(meter.take(&mut open, &StreamEvent::Usage(reported)).is_ok());
        assert!(meter.take(&mut open, &text(1)).is_err());
        assert_eq!(meter.used().0, reported);
        // A complete reply is counted, never aborted.
        let mut meter = Meter::new(budget, None, 7, 0);
        assert!([StreamEvent::Whole, text(400)].iter().all(|event| meter.take(&mut open, event).is_ok()));
        assert_eq!(meter.used().0.output, Some(100));
    }

    #[test]
    fn attempts_are_billed_once_the_provider_has_them() {
        let failed = |category| LlmError::new(category, "x");
        let mut meter = Meter::new(Budget::default(), None, 7, 0);
        assert!(!meter.is_billed(Some(&failed(Category::Timeout))));
        meter.sent = true;
        assert!(meter.is_billed(None) && meter.is_billed(Some(&failed(Category::Timeout))));
        assert!(!meter.is_billed(Some(&failed(Category::TransientNetwork))));
        // A gateway starts its stream with zero counts before it knows that its upstream failed.
        meter.reported = Usage { input: Some(0), output: Some(0), ..Usage::default() };
        assert!(!meter.is_billed(Some(&failed(Category::ServerError))));
        meter.reported.input = Some(9);
        assert!(meter.is_billed(Some(&failed(Category::ServerError))));
        meter.reported = Usage::default();
        meter.bytes = 1;
        assert!(meter.is_billed(Some(&failed(Category::TransientNetwork))));
    }

    /// Reserves a call whose expected cost is half of its upper cost estimate.
    async fn reserve(ledger: &Ledger, usd: f64, is_stream: bool) -> Result<Reservation<'_>, LlmError> {
        let p = Projection { input_tokens: 0, output_tokens: 0, cost: usd / 2.0 };
        ledger.reserve(&Budget::default(), p, Most { usd, metered: false }, "m", is_stream).await
    }

    macro_rules! poll {
        ($future:expr) => {
            $future.as_mut().poll(&mut std::task::Context::from_waker(Waker::noop()))
        };
    }

    #[tokio::test]
    async fn calls_at_once_share_the_limit() {
        let ledger = Ledger::default();
        ledger.set_budget(1.0);
        let first = reserve(&ledger, 0.6, false).await.unwrap();
        let mut second = std::pin::pin!(reserve(&ledger, 0.6, false));
        assert!(poll!(second).is_pending(), "it may fit once the first one is booked");
        drop(first);
        let Poll::Ready(Ok(second)) = poll!(second) else { panic!("nothing is in its way") };
        drop(second);
        // A call whose upper cost estimate exceeds the limit runs alone.
        let alone = reserve(&ledger, 1.9, false).await.unwrap();
        let mut small = std::pin::pin!(reserve(&ledger, 0.01, false));
        assert!(poll!(small).is_pending());
        drop(alone);
        assert!(poll!(small).is_ready());
        // The expected cost alone exceeds the limit.
        assert!(reserve(&ledger, 2.1, false).await.is_err());
    }

    #[tokio::test]
    async fn no_call_waits_for_the_program_itself() {
        let ledger = Ledger::default();
        ledger.set_budget(1.0);
        let stream = reserve(&ledger, 0.6, true).await.unwrap();
        let error = reserve(&ledger, 0.6, false).await.unwrap_err();
        assert_eq!(error.to_json()["limit"], "total_budget_usd");
        assert!(error.message.ends_with("read the stream to its end first, or raise the limit"), "{error}");
        // Other calls finish without the program, and the stream may finish meanwhile.
        let call = reserve(&ledger, 0.1, false).await.unwrap();
        let mut second = std::pin::pin!(reserve(&ledger, 0.6, false));
        assert!(poll!(second).is_pending());
        drop((stream, call));
        let Poll::Ready(Ok(call)) = poll!(second) else { panic!("nothing is in its way") };
        // A call made by a listener.
        let paused = ledger.pause();
        assert!(reserve(&ledger, 0.6, false).await.is_err());
        assert!(reserve(&ledger, 0.3, false).await.is_ok());
        drop(paused);
        assert!(poll!(std::pin::pin!(reserve(&ledger, 0.6, false))).is_pending());
        drop(call);
    }

    #[tokio::test]
    async fn costs_beyond_the_highest_estimate_are_remembered() {
        let ledger = Ledger::default();
        ledger.set_budget(1.0);
        reserve(&ledger, 0.1, false).await.unwrap().settle("m", 0.6);
        let _first = reserve(&ledger, 0.1, false).await.unwrap();
        assert!(poll!(std::pin::pin!(reserve(&ledger, 0.1, false))).is_pending());
        let p = Projection { input_tokens: 0, output_tokens: 0, cost: 0.05 };
        let most = Most { usd: 0.1, metered: false };
        assert!(ledger.reserve(&Budget::default(), p, most, "other", false).await.is_ok());
    }

    #[tokio::test]
    async fn a_reply_without_a_limit_leaves_the_others_theirs() {
        let ledger = Ledger::default();
        ledger.set_budget(1.0);
        let budget = Budget::default();
        let p = |cost| Projection { input_tokens: 0, output_tokens: 0, cost };
        let most = Most { usd: 0.1, metered: true };
        let mut endless = ledger.reserve(&budget, p(0.0), most, "m", true).await.unwrap();
        let mut call = reserve(&ledger, 0.7, false).await.unwrap();
        assert!(endless.check(&budget, p(0.25)).is_none() && call.check(&budget, p(0.7)).is_none());
        let error = endless.check(&budget, p(0.31)).unwrap();
        assert!(error.message.contains("session cost $1.010000 so far is above"), "{error}");
        drop(call);
        assert!(endless.check(&budget, p(0.9)).is_none());
    }

    #[test]
    fn each_part_has_its_price() {
        let pricing = Pricing {
            input_per_mtok: 3.0,
            output_per_mtok: 15.0,
            cache_read_per_mtok: Some(0.3),
            cache_write_per_mtok: Some(3.75),
            cache_write_hour_per_mtok: Some(6.0),
            above: Some(Above { tokens: 4_000_000, input: Some(6.0), output: None, read: None, write: None }),
        };
        let million = Some(1_000_000);
        let usage =
            Usage { input: Some(4_000_000), output: million, cache_read: million, ..Usage::default() };
        let usage = Usage { cache_write: Some(2_000_000), cache_write_hour: million, ..usage };
        assert_eq!(charge(Some(pricing), &usage), 3.0 + 0.3 + 3.75 + 6.0 + 15.0);
        assert_eq!(charge(Some(pricing), &Usage { cost: Some(0.5), ..usage }), 0.5);
        assert_eq!(charge(None, &usage), 0.0);
        let long = Usage { input: Some(5_000_000), cache_read: None, cache_write: None, ..usage };
        assert_eq!(charge(Some(pricing), &long), 5.0 * 6.0 + 15.0);
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
