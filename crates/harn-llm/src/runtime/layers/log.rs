//! Reports calls: to watchers and the call log, to fixtures, and in replies and errors themselves.

use harn_value::json;

use super::{Provider, Watch};
use crate::cost::{cache_figures, call_pricing, estimate_call};
use crate::error::LlmError;
use crate::event::{StreamEvent, Usage};
use crate::mock::{Asked, recorded_line};
use crate::response::Response;
use crate::runtime::{LlmRuntime, Prepared};

/// Numbers an attempt, shows it to the watcher and its observer, and writes how it went to log and trace.
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
        if let Some(observer) = &prepared.observer {
            (observer.0)(prepared);
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
                return Err(error);
            }
        };
        let (usage, duration_ms) = (response.usage, now_ms - begun_ms);
        let iteration = prepared.options.raw.get("_iteration").cloned().unwrap_or(0.into());
        runtime.embedder.trace(json!({
            "type": "llm_call", "call_id": call_id, "model": response.model,
            "input_tokens": usage.input.unwrap_or(0), "output_tokens": usage.output.unwrap_or(0),
            "cache_tokens": usage.cache_read.unwrap_or(0), "duration_ms": duration_ms, "iteration": iteration,
        }));
        if let Some(log) = &mut *runtime.log.borrow_mut() {
            let spent = runtime.charge(&response);
            log.response(now_ms, &call_id, prepared, &response, spent, duration_ms);
        }
        Ok(response)
    }
}

/// Passes the outcome of an attempt to the fixture recorder.
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

/// Returns the usage of a reply, estimated where the server does not report it.
fn estimated(prepared: &Prepared, response: &Response) -> Usage {
    let usage = response.usage;
    let is_known = |count: Option<i64>| count.is_some_and(|n| n > 0);
    let request = &prepared.request;
    let input = match is_known(usage.input) {
        true => 0,
        false => estimate_call(request.system.as_deref(), &request.messages, &request.tools),
    };
    let output = if is_known(usage.output) { 0 } else { response.estimated_tokens() };
    usage.or_estimated(input, output)
}

/// Returns whether a server's error says that it or the model does not support native tools, in the wording of Ollama,
/// vLLM, llama.cpp and others.
fn refuses_tools(error: &LlmError) -> bool {
    let text = error.message.to_lowercase();
    let refusals = [
        "does not support tools",
        "does not support function calling",
        "tools are not supported",
        "tool choice requires --enable-auto-tool-choice",
        "tools param requires --jinja",
    ];
    error.status.is_some() && refusals.iter().any(|refusal| text.contains(refusal))
}

/// Adds the cache savings to a reply, and the route and the hints in its message to an error.
pub(super) struct Explained<'r, P> {
    pub(super) runtime: &'r LlmRuntime,
    pub(super) inner: P,
}

impl<P: Provider> Provider for Explained<'_, P> {
    async fn answer(&self, prepared: &Prepared, watch: &mut Watch<'_>) -> Result<Response, LlmError> {
        let route = &prepared.request.route;
        match self.inner.answer(prepared, watch).await {
            Ok(mut response) => {
                if !response.mocked {
                    response.usage = estimated(prepared, &response);
                }
                let pricing = call_pricing(&self.runtime.config(), &response.provider, &response.model);
                (response.cache_hit_ratio, response.cache_savings_usd) =
                    cache_figures(response.usage, pricing);
                Ok(response)
            }
            Err(error) => {
                let mut error = error.at(&route.provider, &route.model);
                if !prepared.request.tools.is_empty() && refuses_tools(&error) {
                    error.message.push_str(&format!(
                        // prose-ok: diagnostic
                        "; pass tool_format: \"text\", or add to harn.toml:\n[[capabilities.provider.{}]]\nmodel_match = \"{}\"\n\
                         native_tools = false",
                        route.provider, route.model
                    ));
                }
                if error.retry_after_ms.is_none() {
                    let now_ms = self.runtime.embedder.now_ms();
                    error.retry_after_ms = crate::retry_after::hint_in_message(&error.message, now_ms);
                }
                Err(error)
            }
        }
    }
}
