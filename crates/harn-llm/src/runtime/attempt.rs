//! One attempt of a call, and the attempts of other routes when it fails.

use serde_json::json;

use super::{Call, LlmRuntime, Prepared};
use crate::cost::{Meter, Projection, cache_figures, call_pricing, cost, estimate_call};
use crate::error::{Category, LlmError};
use crate::event::StreamEvent;
use crate::mock::Ask;
use crate::request::Request;
use crate::response::{Response, ResponseBuilder};
use crate::wire::encode;

/// An attempt that was started.
pub(super) struct Begun {
    /// Its name in log and trace: `call_<n>`.
    pub(super) call_id: String,
    /// When, in milliseconds since the epoch.
    pub(super) at_ms: i64,
}

/// Takes events of a stream as they come.
pub(super) type Sink<'a> = dyn FnMut(&StreamEvent) + 'a;
/// The same, and may stop the stream.
pub(super) type Watch<'a> = dyn FnMut(&StreamEvent) -> Result<(), LlmError> + 'a;

impl LlmRuntime {
    /// Makes attempts until one succeeds, a failure is final, or the retries are used up.
    pub(super) async fn with_retries(
        &self,
        call: &Call,
        prepared: &Prepared,
        sink: &mut Sink<'_>,
    ) -> Result<Response, LlmError> {
        let options = &prepared.options;
        let route = &prepared.request.route;
        let mut retries = 0;
        loop {
            let error = match self.attempt_with_fallback(call, prepared, sink).await {
                Ok(response) => return Ok(response),
                Err(error) => error,
            };
            if !crate::retry::is_transient(&error)
                || retries >= options.llm_retries
                || prepared.is_committed()
            {
                return Err(error);
            }
            retries += 1;
            let mocked = route.provider == "mock" || self.mock_is_active() || self.rehearsing.get();
            let wait = crate::retry::delay(&error, retries, options.llm_backoff_ms);
            self.host.warn(&format!(
                "llm_call: attempt {retries} of {} failed ({}), trying again in {} ms",
                options.llm_retries + 1,
                error.reason,
                if mocked { 0 } else { wait.as_millis() }
            ));
            if crate::retry::is_empty_completion(&error) {
                let iteration = options.raw.get("_iteration").cloned().unwrap_or(0.into());
                self.host.trace(
                    json!({"type": "empty_completion_retry", "iteration": iteration, "attempt": retries,
                                       "error": error.message}),
                );
            }
            if !mocked {
                self.host.sleep(wait).await;
            }
        }
    }

    /// Makes an attempt; when it fails, tries the fallback chain and then the provider's own fallback.
    async fn attempt_with_fallback(
        &self,
        call: &Call,
        prepared: &Prepared,
        sink: &mut Sink<'_>,
    ) -> Result<Response, LlmError> {
        let error = match self.attempt(prepared, sink).await {
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
        let route = &prepared.request.route;
        let own = self.config().provider(&route.provider).and_then(|p| p.fallback.clone());
        for entry in prepared.options.fallback_chain.iter().chain(&own) {
            let (provider, model) = self.fallback_route(entry, &route.model);
            if (provider.as_str(), model.as_str()) == (route.provider.as_str(), route.model.as_str()) {
                continue;
            }
            let scripted = self.mock_is_active() || provider == "mock";
            if !scripted && (self.calls_disabled() || !self.config().is_available(&provider, self.host())) {
                continue;
            }
            let Ok(mut other) = self.prepare_for(call, route, &provider, &model) else { continue };
            other.request.messages.clone_from(&prepared.request.messages);
            if let Ok(response) = self.attempt(&other, &mut |_| {}).await {
                return Ok(response);
            }
        }
        Err(error)
    }

    fn fallback_route(&self, entry: &str, model: &str) -> (String, String) {
        let config = self.config();
        if config.knows(entry) {
            return (entry.to_string(), model.to_string());
        }
        match entry.split_once(':') {
            Some((provider, model)) if config.knows(provider) => (provider.to_string(), model.to_string()),
            _ => config.selector(entry, self.host()),
        }
    }

    /// Makes one attempt on one route: permit, budget, mock or network, ledger.
    async fn attempt(&self, prepared: &Prepared, sink: &mut Sink<'_>) -> Result<Response, LlmError> {
        let request = &prepared.request;
        let route = &request.route;
        self.acquire(&route.provider).await;
        let mut meter = self.preflight(prepared).map_err(|e| e.at(&route.provider, &route.model))?;
        let begun = self.begin(prepared);
        let mut watch = |event: &StreamEvent| {
            sink(event);
            meter.take(&self.ledger, event)
        };
        let result = match self.mock_answer(prepared, &mut watch) {
            Some(result) => result,
            None => self.over_the_network(request, &mut watch).await,
        };
        if meter.has_stopped() {
            let (usage, spent) = meter.used();
            // The call fails for its own limit, whatever the session's says to it.
            let _ = self.ledger.record(usage, spent, self.host.now_ms() - begun.at_ms);
        }
        let result = self.note_end(result, &begun, prepared);
        self.settle(prepared, result?, &begun).map_err(|e| e.at(&route.provider, &route.model))
    }

    /// Numbers an attempt, and shows the watcher and the log what is about to be asked.
    pub(super) fn begin(&self, prepared: &Prepared) -> Begun {
        if let Some(watcher) = &mut *self.watcher.borrow_mut() {
            watcher(prepared);
        }
        self.calls_made.set(self.calls_made.get() + 1);
        let begun = Begun { call_id: format!("call_{}", self.calls_made.get()), at_ms: self.host.now_ms() };
        if let Some(log) = &mut *self.log.borrow_mut() {
            log.request(begun.at_ms, &begun.call_id, prepared);
        }
        begun
    }

    /// Completes the error of an attempt, and writes how it ended to fixtures and log.
    pub(super) fn note_end(
        &self,
        result: Result<Response, LlmError>,
        begun: &Begun,
        prepared: &Prepared,
    ) -> Result<Response, LlmError> {
        let result = result.map_err(|e| self.complete_error(e, &prepared.request));
        self.record_fixture(result.as_ref());
        if let (Err(error), Some(log)) = (&result, &mut *self.log.borrow_mut()) {
            log.failure(self.host.now_ms(), &begun.call_id, prepared, error);
        }
        result
    }

    /// Adds route and hints to an error.
    pub(super) fn complete_error(&self, error: LlmError, request: &Request) -> LlmError {
        let mut error = error.at(&request.route.provider, &request.route.model);
        if error.retry_after_ms.is_none() {
            error.retry_after_ms = crate::retry::hint_in_message(&error.message, self.host.now_ms());
        }
        error
    }

    /// Refuses a call that is expected to pass a limit; returns the meter for its reply.
    pub(super) fn preflight(&self, prepared: &Prepared) -> Result<Meter, LlmError> {
        let request = &prepared.request;
        let budget = prepared.options.budget;
        let pricing = call_pricing(&self.config(), &request.route.provider, &request.route.model);
        let input_tokens = estimate_call(request.system.as_deref(), &request.messages, &request.tools);
        let output_tokens = request.max_tokens.max(0);
        let cost = cost(pricing, input_tokens, output_tokens);
        self.ledger.preflight(&budget, Projection { input_tokens, output_tokens, cost })?;
        Ok(Meter::new(budget, pricing, input_tokens, request.max_tokens))
    }

    /// Answers from mocks when they apply; the attempt is recorded first.
    pub(super) fn mock_answer(
        &self,
        prepared: &Prepared,
        watch: &mut Watch<'_>,
    ) -> Option<Result<Response, LlmError>> {
        let request = &prepared.request;
        let is_mock = request.route.provider == "mock" || self.rehearsing.get();
        let mut mock = self.mock.borrow_mut();
        if !is_mock && !mock.is_active() {
            return None;
        }
        let thinking = request.thinking.to_json();
        let ask = Ask {
            model: &request.route.model,
            messages: &request.messages,
            system: request.system.as_deref(),
            tools: &request.tools,
            thinking: &thinking,
            cache: request.cache,
            unechoed: crate::json::str_at(&prepared.options.raw, "done_sentinel"),
        };
        mock.record(&ask);
        let answer = match mock.scripted(&ask) {
            Some(Ok(answer)) => answer,
            Some(Err(error)) => return Some(Err(error)),
            None => mock.default_answer(&ask),
        };
        drop(mock);
        let mut chunks = answer.chunks.into_iter().filter(|c| !c.is_empty());
        let heard = chunks.try_for_each(|chunk| watch(&StreamEvent::Text(chunk)));
        Some(heard.map(|()| answer.response))
    }

    async fn over_the_network(&self, request: &Request, watch: &mut Watch<'_>) -> Result<Response, LlmError> {
        let route = &request.route;
        if let Some(refusal) = self.refused_network(&route.provider) {
            return Err(LlmError::new(Category::Generic, refusal));
        }
        // Prepared for a mock whose queue has run dry since: the key was not needed then.
        let mut authorised = None;
        if request.route.key.is_none() && !self.transport_is_replaying() {
            let mut own = request.route.clone();
            self.authorise(&mut own).map_err(|e| LlmError::new(Category::Auth, e.0))?;
            if own.key.is_some() {
                self.adapt_cloud_route(&mut own);
                authorised = Some(Request { route: own, ..request.clone() });
            }
        }
        let request = authorised.as_ref().unwrap_or(request);
        let route = &request.route;
        match self.exchange(request, watch).await {
            Err(error) if error.status == Some(404) && route.provider == "ollama" => {
                match crate::wire::ollama::other_endpoint(request) {
                    Some(other) => self.exchange(&other, watch).await.map_err(|_| error),
                    None => Err(error),
                }
            }
            Err(error) if route.provider == "ollama" && crate::retry::is_empty_completion(&error) => {
                self.exchange(request, watch).await
            }
            other => other,
        }
    }

    async fn exchange(&self, request: &Request, watch: &mut Watch<'_>) -> Result<Response, LlmError> {
        let route = &request.route;
        let wire = encode(request).map_err(|e| match e {
            crate::error::CallError::Llm(error) => error,
            crate::error::CallError::Option(message) => {
                let mut error = LlmError::new(Category::Generic, message);
                (error.kind, error.reason) = (crate::error::Kind::Terminal, "invalid_request");
                error
            }
        })?;
        for warning in &wire.warnings {
            if warning.once { self.warn_once(&warning.text) } else { self.host.warn(&warning.text) }
        }
        self.log_shapes(request);
        let mut auth = route.secret_headers();
        auth.extend(self.sign_request(route, &wire.url, &wire.body.to_string())?);
        let secrets: Vec<_> = auth.iter().map(|(_, secret)| secret.clone()).collect();
        let exchange = self.transport.exchange(request, wire, auth, self.host.now_ms(), watch);
        let read: Result<ResponseBuilder, LlmError> =
            match request.ollama.unload_grace.filter(|_| route.provider == "ollama") {
                Some(grace) => self.announcing_warm_up(grace, &route.model, exchange).await,
                None => exchange.await,
            };
        let read = read.map_err(|mut error| {
            error.message = secrets.iter().fold(error.message.clone(), |text, secret| secret.redact(&text));
            error
        });
        let mut response = read?.finish(&route.provider, &route.model)?;
        response.redact(&secrets);
        Ok(response)
    }

    /// With `HARN_DEBUG_MESSAGE_SHAPES`: says what kinds of messages go out, never what is in them.
    fn log_shapes(&self, request: &Request) {
        let wanted = crate::config::env(self.host(), "HARN_DEBUG_MESSAGE_SHAPES");
        if wanted.is_none_or(|v| v == "0" || v == "false") {
            return;
        }
        let shape = |message: &serde_json::Value| {
            let role = crate::json::str_at(message, "role").unwrap_or("user");
            let content = match message.get("content") {
                Some(serde_json::Value::Array(blocks)) => {
                    let kinds: Vec<&str> =
                        blocks.iter().map(|b| crate::json::str_at(b, "type").unwrap_or("text")).collect();
                    kinds.join("+")
                }
                Some(other) => crate::json::type_name(other).to_string(),
                None => "none".to_string(),
            };
            format!("{role}({content})")
        };
        let shapes: Vec<String> = request.messages.iter().map(shape).collect();
        self.host.warn(&format!("message shapes to {}: {}", request.route.provider, shapes.join(" ")));
    }

    /// Says once that a local model is being loaded when its reply takes long.
    async fn announcing_warm_up<T>(
        &self,
        grace: std::time::Duration,
        model: &str,
        work: impl Future<Output = T>,
    ) -> T {
        let mut work = std::pin::pin!(work);
        match tokio::time::timeout(grace, &mut work).await {
            Ok(done) => done,
            Err(_) => {
                self.host.progress(&format!("warming up Ollama model {model}"));
                work.await
            }
        }
    }

    /// Books a finished reply.
    pub(super) fn settle(
        &self,
        prepared: &Prepared,
        mut response: Response,
        begun: &Begun,
    ) -> Result<Response, LlmError> {
        let duration_ms = self.host.now_ms() - begun.at_ms;
        let pricing = call_pricing(&self.config(), &response.provider, &response.model);
        (response.cache_hit_ratio, response.cache_savings_usd) = cache_figures(response.usage, pricing);
        let usage = response.usage;
        let spent = cost(pricing, usage.input.unwrap_or(0), usage.output.unwrap_or(0));
        let iteration = prepared.options.raw.get("_iteration").cloned().unwrap_or(0.into());
        self.host.trace(json!({
            "type": "llm_call", "call_id": begun.call_id, "model": response.model,
            "input_tokens": usage.input.unwrap_or(0), "output_tokens": usage.output.unwrap_or(0),
            "cache_tokens": usage.cache_read.unwrap_or(0), "duration_ms": duration_ms, "iteration": iteration,
        }));
        if let Some(log) = &mut *self.log.borrow_mut() {
            log.response(self.host.now_ms(), &begun.call_id, prepared, &response, spent, duration_ms);
        }
        self.ledger.record(usage, spent, duration_ms)?;
        Ok(response)
    }
}
