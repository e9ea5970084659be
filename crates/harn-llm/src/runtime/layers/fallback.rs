//! Other routes when one fails.

use super::{Provider, Watch};
use crate::error::{Category, LlmError};
use crate::response::Response;
use crate::runtime::{Call, LlmRuntime, Prepared};

/// Asks the routes of the fallback chain, then the provider's own fallback, when the first one fails.
pub(super) struct FallingBack<'r, P> {
    pub(super) runtime: &'r LlmRuntime,
    pub(super) call: &'r Call,
    pub(super) inner: P,
}

impl<P: Provider> Provider for FallingBack<'_, P> {
    async fn answer(&self, prepared: &Prepared, watch: &mut Watch<'_>) -> Result<Response, LlmError> {
        let error = match self.inner.answer(prepared, watch).await {
            Ok(response) => return Ok(response),
            Err(error) => error,
        };
        // Other routes have no completion endpoint: `llm_completion` asks them by conversation.
        if matches!(error.category, Category::BudgetExceeded | Category::Cancelled)
            || prepared.is_committed()
            || prepared.request.route.style.is_completion()
        {
            return Err(error);
        }
        let (runtime, route) = (self.runtime, &prepared.request.route);
        let own = runtime.config().provider(&route.provider).and_then(|p| p.fallback.clone());
        for entry in prepared.options.fallback_chain.iter().chain(&own) {
            let (provider, model) = self.route(entry, &route.model);
            if (provider.as_str(), model.as_str()) == (route.provider.as_str(), route.model.as_str()) {
                continue;
            }
            let closed =
                || runtime.calls_disabled() || !runtime.config().is_available(&provider, runtime.embedder());
            if !runtime.is_scripted(&provider) && closed() {
                continue;
            }
            let other = runtime.prepare_for(self.call, route, &provider, &model).map(Box::new);
            let Ok(mut other) = other else { continue };
            other.request.messages = prepared.request.messages.clone();
            if let Ok(response) = self.inner.answer(&other, &mut |_| Ok(())).await {
                return Ok(response);
            }
        }
        Err(error)
    }
}

impl<P> FallingBack<'_, P> {
    /// Provider and model of an entry: a provider's name, `provider:model`, or a model.
    fn route(&self, entry: &str, model: &str) -> (String, String) {
        let config = self.runtime.config();
        if config.knows(entry) {
            return (entry.to_string(), model.to_string());
        }
        match entry.split_once(':') {
            Some((provider, model)) if config.knows(provider) => (provider.to_string(), model.to_string()),
            _ => config.selector(entry, self.runtime.embedder()),
        }
    }
}
