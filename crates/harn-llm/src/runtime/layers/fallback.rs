//! Falls back to other routes.

use super::{Provider, Watch};
use crate::error::{Category, LlmError};
use crate::event::StreamEvent;
use crate::response::Response;
use crate::runtime::{Call, LlmRuntime, Prepared};

/// Tries the routes of the fallback chain, then the provider's own fallback, when all attempts at the first route have
/// failed.
pub(super) struct FallingBack<'r, F, P> {
    pub(super) runtime: &'r LlmRuntime,
    pub(super) call: &'r Call,
    /// The first route, with retries.
    pub(super) first: F,
    /// The other routes, tried once each.
    pub(super) others: P,
}

impl<F: Provider, P: Provider> Provider for FallingBack<'_, F, P> {
    async fn answer(&self, prepared: &Prepared, watch: &mut Watch<'_>) -> Result<Response, LlmError> {
        let error = match self.first.answer(prepared, watch).await {
            Ok(response) => return Ok(response),
            Err(error) => error,
        };
        // Fallback routes have no completion endpoint: `llm_completion` reaches them over chat.
        if matches!(error.category, Category::BudgetExceeded | Category::Cancelled)
            || prepared.is_committed()
            || prepared.request.route.style.is_completion()
        {
            return Err(error);
        }
        watch(&StreamEvent::Restart)?;
        let (runtime, route) = (self.runtime, &prepared.request.route);
        for (provider, model) in runtime.fallbacks(&prepared.options, route) {
            // The user must know which provider received the prompt, as prices differ, or why a provider could not
            // receive it.
            let failed = match runtime.prepare_for(self.call, route, &provider, &model).map(Box::new) {
                Ok(mut other) => {
                    other.request.messages = prepared.request.messages.clone();
                    other.lost = prepared.lost.clone();
                    match self.others.answer(&other, &mut |_| Ok(())).await {
                        Ok(response) => {
                            runtime.embedder.warn(&format!(
                                "llm_call: {} failed ({}), {provider} answers instead with {model}",
                                route.provider, error.reason
                            ));
                            return Ok(response);
                        }
                        Err(failed) => failed.to_string(),
                    }
                }
                Err(failed) => failed.to_string(),
            };
            runtime.embedder.warn(&format!(
                "llm_call: {} failed ({}), and {provider} cannot answer instead with {model}: {}",
                route.provider,
                error.reason,
                failed.lines().next().unwrap_or_default()
            ));
        }
        Err(error)
    }
}
