//! `llm_completion`: continuing a text, or filling a gap in it.

use serde_json::{Value, json};
use tokio::time::Instant;

use super::{Call, LlmRuntime, Prepared};
use crate::error::{CallError, Category, LlmError};
use crate::event::Usage;
use crate::response::{Block, Response};
use crate::transport::HttpRequest;
use crate::wire::completion;

/// The arguments of a completion.
#[derive(Debug, Clone, Default)]
pub struct Completion {
    /// Text in front of the gap.
    pub prefix: String,
    /// Text behind it; empty for a plain continuation.
    pub suffix: String,
    /// System text.
    pub system: Option<String>,
    /// The option dict.
    pub options: Value,
}

impl LlmRuntime {
    /// `llm_completion`: the result dict, without transcript and data.
    ///
    /// # Errors
    /// Wrong options, or the call failed.
    pub async fn llm_completion(&self, c: &Completion) -> Result<Value, CallError> {
        let mut response = self.complete(c).await?;
        response.read_tags(None);
        Ok(response.to_json())
    }

    async fn complete(&self, c: &Completion) -> Result<Response, CallError> {
        let mut messages = vec![json!({"role": "user", "content": c.prefix})];
        if !c.suffix.is_empty() {
            messages.push(json!({"role": "user", "content": c.suffix}));
        }
        let call = Call { prompt: messages.into(), system: c.system.clone(), options: c.options.clone() };
        let prepared = self.prepare(&call)?;
        let is_mock = prepared.request.route.provider == "mock" || self.rehearsing.get();
        let unscripted = is_mock && !self.mock_is_active();
        if unscripted {
            return Ok(self.mock_completion(c, &prepared)?);
        }
        let has_endpoint = prepared.request.route.completion_endpoint.is_some();
        if self.mock_is_active() {
            return Ok(self.with_retries(&call, &prepared, &mut |_| {}).await?);
        }
        if has_endpoint {
            match self.completion_with_retries(c, &prepared).await {
                Err(error) if error.status == Some(404) => {}
                other => return Ok(other?),
            }
        }
        let bindings = json!({"prefix": c.prefix, "suffix": c.suffix, "has_suffix": !c.suffix.is_empty()});
        let instruction = self.host.prose("llm/completion_system", &bindings);
        let system = match c.system.as_deref().filter(|s| !s.trim().is_empty()) {
            Some(system) => format!("{system}\n\n{instruction}"),
            None => instruction,
        };
        let mut prompt = format!("PREFIX:\n{}", c.prefix);
        if !c.suffix.is_empty() {
            prompt.push_str(&format!("\n\nSUFFIX:\n{}", c.suffix));
        }
        let call = Call::new(prompt, Some(&system), c.options.clone());
        let prepared = self.prepare(&call)?;
        Ok(self.with_retries(&call, &prepared, &mut |_| {}).await?)
    }

    fn mock_completion(&self, c: &Completion, prepared: &Prepared) -> Result<Response, LlmError> {
        self.preflight(prepared)?;
        let begun = self.begin(prepared);
        // Recorded like any call the mock answers.
        self.mock_answer(prepared, &mut |_| {});
        let mut r = Response::new("mock", "mock");
        r.mocked = true;
        r.text = format!("Mock completion after {} chars", c.prefix.chars().count());
        if !c.suffix.is_empty() {
            r.text.push_str(&format!(" before {} chars", c.suffix.chars().count()));
        }
        r.blocks.push(Block::OutputText(r.text.clone()));
        let input = i64::try_from(c.prefix.len() + c.suffix.len()).unwrap_or(i64::MAX);
        r.usage = Usage { input: Some(input), output: Some(16), ..Usage::default() };
        r.stop_reason = Some("stop".into());
        self.settle(prepared, self.note_end(Ok(r), &begun, prepared)?, &begun)
    }

    async fn completion_with_retries(
        &self,
        c: &Completion,
        prepared: &Prepared,
    ) -> Result<Response, LlmError> {
        let options = &prepared.options;
        let mut retries = 0;
        loop {
            let error = match self.completion_attempt(c, prepared).await {
                Ok(response) => return Ok(response),
                Err(error) => error,
            };
            if !crate::retry::is_transient(&error) || retries >= options.llm_retries {
                return Err(error);
            }
            retries += 1;
            let wait = crate::retry::delay(&error, retries, options.llm_backoff_ms);
            self.host.warn(&format!(
                "llm_completion: attempt {retries} of {} failed ({}), trying again in {} ms",
                options.llm_retries + 1,
                error.reason,
                wait.as_millis()
            ));
            self.host.sleep(wait).await;
        }
    }

    async fn completion_attempt(&self, c: &Completion, prepared: &Prepared) -> Result<Response, LlmError> {
        let request = &prepared.request;
        let route = &request.route;
        self.acquire(&route.provider).await;
        self.preflight(prepared).map_err(|e| e.at(&route.provider, &route.model))?;
        if self.calls_disabled() {
            let message = format!(
                "LLM calls are disabled by HARN_LLM_CALLS_DISABLED; provider `{}` would make a real LLM request",
                route.provider
            );
            return Err(LlmError::new(Category::Generic, message).at(&route.provider, &route.model));
        }
        let begun = self.begin(prepared);
        let result = self.note_end(self.completion_exchange(c, prepared).await, &begun, prepared);
        self.settle(prepared, result?, &begun)
    }

    async fn completion_exchange(&self, c: &Completion, prepared: &Prepared) -> Result<Response, LlmError> {
        let request = &prepared.request;
        let route = &request.route;
        let endpoint = route.completion_endpoint.as_deref().unwrap_or("/completions");
        let http = HttpRequest {
            provider: &route.provider,
            method: "POST",
            url: route.url(endpoint),
            headers: route.extra_headers.clone(),
            auth: route.auth.iter().cloned().collect(),
            body: Some(completion::body(request, endpoint, &c.prefix, &c.suffix, c.system.as_deref())),
            deadline: Instant::now() + request.timeout,
            timeout: request.timeout,
        };
        let reply = self.transport.fetch(&http, request.max_response_bytes).await?;
        if !(200..300).contains(&reply.status) {
            return Err(LlmError::http(
                &route.provider,
                reply.status,
                &reply.phrase,
                crate::json::clip(&reply.text, 16 << 10),
                reply.retry_after.as_deref(),
                self.host.now_ms(),
            ));
        }
        completion::read(&route.provider, &route.model, endpoint, &reply.text)
    }
}
