//! What is told of a call: to watchers and the call log, to fixtures, and in replies and errors themselves.

use harn_value::json;

use super::{Provider, Watch};
use crate::cost::{cache_figures, call_pricing, cost};
use crate::error::LlmError;
use crate::event::StreamEvent;
use crate::mock::{Asked, recorded_line};
use crate::response::Response;
use crate::runtime::attempts::Attempt;
use crate::runtime::{LlmRuntime, Prepared};

/// Numbers an attempt, shows it to the watcher, and writes how it went to log and trace.
pub(super) struct Logged<'r, P> {
    pub(super) runtime: &'r LlmRuntime,
    pub(super) inner: P,
}

impl<P: Provider> Provider for Logged<'_, P> {
    async fn answer(&self, prepared: &Prepared, watch: &mut Watch<'_>) -> Result<Response, LlmError> {
        let runtime = self.runtime;
        if let Some(watcher) = &mut *runtime.watcher.borrow_mut() {
            watcher(prepared);
        }
        runtime.calls_made.set(runtime.calls_made.get() + 1);
        let call_id = format!("call_{}", runtime.calls_made.get());
        let begun_ms = runtime.embedder.now_ms();
        if let Some(log) = &mut *runtime.log.borrow_mut() {
            log.request(begun_ms, &call_id, prepared);
        }
        let result = self.inner.answer(prepared, watch).await;
        let now_ms = runtime.embedder.now_ms();
        let response = match result {
            Ok(response) => response,
            Err(error) => {
                if let Some(log) = &mut *runtime.log.borrow_mut() {
                    log.failure(now_ms, &call_id, prepared, &error);
                }
                if let Some(attempts) = &mut *runtime.attempts.borrow_mut() {
                    attempts.add(Attempt {
                        model: prepared.request.route.model.clone(),
                        duration_ms: now_ms - begun_ms,
                        failure: Some(error.category.as_str().to_owned()),
                        ..Attempt::default()
                    });
                }
                return Err(error);
            }
        };
        let (usage, duration_ms) = (response.usage, now_ms - begun_ms);
        if let Some(attempts) = &mut *runtime.attempts.borrow_mut() {
            let pricing = call_pricing(&runtime.config(), &response.provider, &response.model);
            let (input, output) = (usage.input.unwrap_or(0), usage.output.unwrap_or(0));
            attempts.add(Attempt {
                model: response.model.clone(),
                input_tokens: input,
                output_tokens: output,
                duration_ms,
                cost_usd: cost(pricing, input, output),
                failure: None,
            });
        }
        let iteration = prepared.options.raw.get("_iteration").cloned().unwrap_or(0.into());
        runtime.embedder.trace(json!({
            "type": "llm_call", "call_id": call_id, "model": response.model,
            "input_tokens": usage.input.unwrap_or(0), "output_tokens": usage.output.unwrap_or(0),
            "cache_tokens": usage.cache_read.unwrap_or(0), "duration_ms": duration_ms, "iteration": iteration,
        }));
        if let Some(log) = &mut *runtime.log.borrow_mut() {
            let pricing = call_pricing(&runtime.config(), &response.provider, &response.model);
            let spent = cost(pricing, usage.input.unwrap_or(0), usage.output.unwrap_or(0));
            log.response(now_ms, &call_id, prepared, &response, spent, duration_ms);
        }
        Ok(response)
    }
}

/// Hands what came of an attempt to the recording of fixtures.
pub(super) struct Recorded<'r, P> {
    pub(super) runtime: &'r LlmRuntime,
    pub(super) inner: P,
}

impl<P: Provider> Provider for Recorded<'_, P> {
    async fn answer(&self, prepared: &Prepared, watch: &mut Watch<'_>) -> Result<Response, LlmError> {
        let Some(call) = self.runtime.number_fixture() else {
            return self.inner.answer(prepared, watch).await;
        };
        let request = &prepared.request;
        let messages = prepared.matched.as_ref().unwrap_or(&request.messages);
        let asked = Asked::of(&request.route.model, messages, request.system.as_deref());
        let mut pieces = Vec::new();
        let result = {
            let mut noted = |event: &StreamEvent| {
                match event {
                    StreamEvent::Text(text) if prepared.is_stream() => pieces.push(text.clone()),
                    StreamEvent::Restart => pieces.clear(),
                    _ => {}
                }
                watch(event)
            };
            self.inner.answer(prepared, &mut noted).await
        };
        if let Some(fixtures) = &mut *self.runtime.fixtures.borrow_mut() {
            let line = recorded_line(call, &asked, result.as_ref(), &pieces);
            (fixtures.sink)(&request.route.hide(&line));
        }
        result
    }
}

/// Adds to a reply what the cache saved, and to an error its route and the hints of its message.
pub(super) struct Explained<'r, P> {
    pub(super) runtime: &'r LlmRuntime,
    pub(super) inner: P,
}

impl<P: Provider> Provider for Explained<'_, P> {
    async fn answer(&self, prepared: &Prepared, watch: &mut Watch<'_>) -> Result<Response, LlmError> {
        let route = &prepared.request.route;
        match self.inner.answer(prepared, watch).await {
            Ok(mut response) => {
                let pricing = call_pricing(&self.runtime.config(), &response.provider, &response.model);
                (response.cache_hit_ratio, response.cache_savings_usd) =
                    cache_figures(response.usage, pricing);
                Ok(response)
            }
            Err(error) => {
                let mut error = error.at(&route.provider, &route.model);
                if error.retry_after_ms.is_none() {
                    let now_ms = self.runtime.embedder.now_ms();
                    error.retry_after_ms = crate::retry_after::hint_in_message(&error.message, now_ms);
                }
                Err(error)
            }
        }
    }
}
