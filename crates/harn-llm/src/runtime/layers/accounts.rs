//! Rate limits and budgets of calls.

use super::{Provider, Watch};
use crate::cost::{Meter, Most, Projection, Reservation, call_pricing, charge, cost, estimate_call};
use crate::error::LlmError;
use crate::event::{StreamEvent, Usage};
use crate::response::Response;
use crate::runtime::attempts::Attempt;
use crate::runtime::{LlmRuntime, Prepared};
use crate::wire::most_output;

/// Waits until the provider's rate limit permits the call.
pub(super) struct RateLimited<'r, P> {
    pub(super) runtime: &'r LlmRuntime,
    pub(super) inner: P,
}

impl<P: Provider> Provider for RateLimited<'_, P> {
    async fn answer(&self, prepared: &Prepared, watch: &mut Watch<'_>) -> Result<Response, LlmError> {
        self.runtime.acquire(&prepared.request.route.provider).await;
        self.inner.answer(prepared, watch).await
    }
}

/// Rejects a call that is expected to exceed a limit, aborts a reply that does, and books the usage.
pub(super) struct Budgeted<'r, P> {
    pub(super) runtime: &'r LlmRuntime,
    pub(super) inner: P,
}

/// An attempt in progress. It is booked however it ends, including when it is dropped.
struct Booking<'r> {
    runtime: &'r LlmRuntime,
    prepared: &'r Prepared,
    meter: Meter,
    reservation: Option<Reservation<'r>>,
    begun_ms: i64,
}

impl Booking<'_> {
    /// Books the usage of an attempt.
    fn book(&mut self, attempt: Attempt, usage: Usage) -> Result<(), LlmError> {
        let booked = self.runtime.ledger.record(usage, attempt.cost_usd, attempt.duration_ms);
        if let Some(reservation) = self.reservation.take() {
            reservation.settle(&self.prepared.request.route.model, attempt.cost_usd);
        }
        self.note(attempt);
        booked
    }

    fn note(&self, attempt: Attempt) {
        if let Some(attempts) = &mut *self.runtime.attempts.borrow_mut() {
            attempts.add(attempt);
        }
    }

    fn attempt(&self, model: &str, usage: Usage, cost_usd: f64, duration_ms: i64) -> Attempt {
        Attempt {
            model: model.to_owned(),
            input_tokens: usage.input.unwrap_or(0),
            output_tokens: usage.output.unwrap_or(0),
            duration_ms,
            cost_usd,
            failure: None,
        }
    }

    fn answered(&mut self, response: &Response) -> Result<(), LlmError> {
        let duration_ms = self.runtime.embedder.now_ms() - self.begun_ms;
        let spent = self.runtime.charge(response);
        let attempt = self.attempt(&response.model, response.usage, spent, duration_ms);
        self.book(attempt, response.usage)
    }

    /// Books an attempt without a reply; `failure` is `None` when it was cancelled.
    fn failed(&mut self, failure: Option<&LlmError>, duration_ms: i64) {
        let (usage, spent) = match self.meter.is_billed(failure) {
            true => self.meter.used(),
            false => (Usage::default(), 0.0),
        };
        let route = &self.prepared.request.route;
        let reason = failure.map_or("cancelled", |error| error.category.as_str());
        let attempt = Attempt {
            failure: Some(reason.to_owned()),
            ..self.attempt(&route.model, usage, spent, duration_ms)
        };
        if usage.is_empty() {
            self.reservation = None;
            return self.note(attempt);
        }
        let (input, output) = self.prepared.lost.get();
        self.prepared
            .lost
            .set((input.saturating_add(attempt.input_tokens), output.saturating_add(attempt.output_tokens)));
        // The attempt reports its own failure, even if it also exceeds the session's limit.
        let _ = self.book(attempt, usage);
    }
}

impl Drop for Booking<'_> {
    fn drop(&mut self) {
        if self.reservation.is_some() {
            self.failed(None, 0);
        }
    }
}

impl<P: Provider> Provider for Budgeted<'_, P> {
    async fn answer(&self, prepared: &Prepared, watch: &mut Watch<'_>) -> Result<Response, LlmError> {
        let (runtime, request) = (self.runtime, &prepared.request);
        let route = &request.route;
        let placed = |error: LlmError| error.at(&route.provider, &route.model);
        let budget = prepared.options.budget;
        let pricing = call_pricing(&runtime.config(), &route.provider, &route.model);
        if pricing.is_none() && !runtime.is_scripted(&route.provider) {
            runtime.ledger.check_priced(&budget, &route.provider, &route.model).map_err(placed)?;
        }
        let input_tokens = estimate_call(request.system.as_deref(), &request.messages, &request.tools);
        let longest = most_output(request);
        let most = Most::of(pricing, request, input_tokens, longest);
        let output_tokens = longest.unwrap_or(0);
        let expected =
            Projection { input_tokens, output_tokens, cost: cost(pricing, input_tokens, output_tokens) };
        let is_stream = prepared.is_stream();
        let reservation = runtime.ledger.reserve(&budget, expected, most, &route.model, is_stream).await;
        let mut booking = Booking {
            runtime,
            prepared,
            meter: Meter::new(budget, pricing, input_tokens, output_tokens),
            reservation: Some(reservation.map_err(placed)?),
            begun_ms: runtime.embedder.now_ms(),
        };
        let result = {
            let Booking { meter, reservation, .. } = &mut booking;
            let mut metered = |event: &StreamEvent| {
                watch(event)?;
                reservation.as_mut().map_or(Ok(()), |reservation| meter.take(reservation, event))
            };
            self.inner.answer(prepared, &mut metered).await
        };
        match result {
            Ok(response) => {
                booking.answered(&response).map_err(placed)?;
                Ok(response)
            }
            Err(error) => {
                let duration_ms = runtime.embedder.now_ms() - booking.begun_ms;
                booking.failed(Some(&error), duration_ms);
                Err(error)
            }
        }
    }
}

impl LlmRuntime {
    /// Returns the cost of a reply in USD.
    pub(in crate::runtime) fn charge(&self, response: &Response) -> f64 {
        charge(call_pricing(&self.config(), &response.provider, &response.model), &response.usage)
    }
}
