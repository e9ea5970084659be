//! Trying again when a failure may pass.

use harn_value::json;

use super::{Provider, Watch};
use crate::error::LlmError;
use crate::event::StreamEvent;
use crate::response::Response;
use crate::runtime::{LlmRuntime, Prepared};

/// Asks again until a reply is there, a failure is final, or the retries are used up.
pub(super) struct Retrying<'r, P> {
    pub(super) runtime: &'r LlmRuntime,
    pub(super) inner: P,
}

impl<P: Provider> Provider for Retrying<'_, P> {
    async fn answer(&self, prepared: &Prepared, watch: &mut Watch<'_>) -> Result<Response, LlmError> {
        let (runtime, options) = (self.runtime, &prepared.options);
        let mut retries = 0;
        loop {
            let error = match self.inner.answer(prepared, watch).await {
                Ok(response) => return Ok(response),
                Err(error) => error,
            };
            if !crate::retry::is_transient(&error)
                || retries >= options.llm_retries
                || prepared.is_committed()
            {
                return Err(error);
            }
            watch(&StreamEvent::Restart)?;
            retries += 1;
            let at_once = runtime.is_scripted(&prepared.request.route.provider);
            let wait = crate::retry::delay(&error, retries, options.llm_backoff_ms);
            runtime.embedder.warn(&format!(
                "llm_call: attempt {retries} of {} failed ({}), trying again in {} ms",
                options.llm_retries + 1,
                error.reason,
                if at_once { 0 } else { wait.as_millis() }
            ));
            if crate::retry::is_empty_completion(&error) {
                note_empty(runtime, prepared, &error, retries);
            }
            if !at_once {
                runtime.embedder.sleep(wait).await;
            }
        }
    }
}

/// Notes that a reply without content is asked for again.
pub(super) fn note_empty(runtime: &LlmRuntime, prepared: &Prepared, error: &LlmError, attempt: u32) {
    prepared.empty.set(prepared.empty.get() + 1);
    let iteration = prepared.options.raw.get("_iteration").cloned().unwrap_or(0.into());
    runtime
        .embedder
        .trace(json!({"type": "empty_completion_retry", "iteration": iteration, "attempt": attempt,
                                  "error": error.message}));
}
