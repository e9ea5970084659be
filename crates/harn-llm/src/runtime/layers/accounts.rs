//! What a call may take: its turn within a rate limit, and money and tokens within budgets.

use super::{Provider, Watch};
use crate::cost::{Meter, Projection, call_pricing, cost, estimate_call};
use crate::error::LlmError;
use crate::event::StreamEvent;
use crate::response::Response;
use crate::runtime::{LlmRuntime, Prepared};
use crate::wire::most_output;

/// Waits until the provider's window has room.
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

/// Refuses a call that is expected to pass a limit, stops a reply that does, and books what was used.
pub(super) struct Budgeted<'r, P> {
    pub(super) runtime: &'r LlmRuntime,
    pub(super) inner: P,
}

impl<P: Provider> Provider for Budgeted<'_, P> {
    async fn answer(&self, prepared: &Prepared, watch: &mut Watch<'_>) -> Result<Response, LlmError> {
        let (runtime, request) = (self.runtime, &prepared.request);
        let (route, ledger) = (&request.route, &runtime.ledger);
        let placed = |error: LlmError| error.at(&route.provider, &route.model);
        let budget = prepared.options.budget;
        let pricing = call_pricing(&runtime.config(), &route.provider, &route.model);
        let input_tokens = estimate_call(request.system.as_deref(), &request.messages, &request.tools);
        let output_tokens = most_output(request).unwrap_or(0);
        let expected =
            Projection { input_tokens, output_tokens, cost: cost(pricing, input_tokens, output_tokens) };
        ledger.preflight(&budget, expected).map_err(placed)?;
        let mut meter = Meter::new(budget, pricing, input_tokens, output_tokens);
        let begun_ms = runtime.embedder.now_ms();
        let result = {
            let mut metered = |event: &StreamEvent| {
                watch(event)?;
                meter.take(ledger, event)
            };
            self.inner.answer(prepared, &mut metered).await
        };
        let duration_ms = runtime.embedder.now_ms() - begun_ms;
        if meter.has_stopped() {
            let (usage, spent) = meter.used();
            // The call fails for its own limit, whatever the session's says to it.
            let _ = ledger.record(usage, spent, duration_ms);
        }
        let response = result?;
        let (usage, pricing) =
            (response.usage, call_pricing(&runtime.config(), &response.provider, &response.model));
        let spent = cost(pricing, usage.input.unwrap_or(0), usage.output.unwrap_or(0));
        ledger.record(usage, spent, duration_ms).map_err(placed)?;
        Ok(response)
    }
}
