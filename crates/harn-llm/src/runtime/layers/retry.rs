//! Retries transient failures.

use harn_value::json;

use super::{Provider, Watch};
use crate::error::LlmError;
use crate::event::{PAUSE_TURN, StreamEvent};
use crate::response::Response;
use crate::runtime::{LlmRuntime, Prepared};
use crate::transcript::paused_message;
use crate::wire::WireStyle;

/// The default number of retries after a transient failure of a real server.
const DEFAULT_RETRIES: u32 = 2;

/// Retries until there is a reply, a failure is terminal, or no retries are left.
pub(super) struct Retrying<'r, P> {
    pub(super) runtime: &'r LlmRuntime,
    pub(super) inner: P,
}

impl<P: Provider> Provider for Retrying<'_, P> {
    async fn answer(&self, prepared: &Prepared, watch: &mut Watch<'_>) -> Result<Response, LlmError> {
        let (runtime, options) = (self.runtime, &prepared.options);
        let (mut retries, mut unanswered) = (0, 0);
        // Scripted failures are retried only if the program sets retries.
        let scripted = runtime.is_scripted(&prepared.request.route.provider);
        let most = options.llm_retries.unwrap_or(if scripted { 0 } else { DEFAULT_RETRIES });
        loop {
            let error = match self.inner.answer(prepared, watch).await {
                Ok(response) => return Ok(response),
                Err(error) => error,
            };
            let (is_failure, is_answerless) =
                (crate::retry::is_uncounted(&error), crate::retry::is_without_answer(&error));
            let is_last = if is_failure { retries >= most } else { unanswered > 0 };
            if is_answerless && (is_last || prepared.is_committed()) {
                return Ok(without_answer(prepared, &error));
            }
            if is_answerless && !is_failure {
                watch(&StreamEvent::Restart)?;
                unanswered += 1;
                note_empty(runtime, prepared, &error, unanswered);
                continue;
            }
            if !crate::retry::is_transient(&error) || retries >= most || prepared.is_committed() {
                return Err(error);
            }
            watch(&StreamEvent::Restart)?;
            retries += 1;
            let at_once = scripted || is_failure && retries == 1;
            let seed = if at_once { String::new() } else { runtime.embedder.new_id() };
            let wait = crate::retry::delay(&error, retries, options.llm_backoff_ms, &seed);
            runtime.embedder.warn(&format!(
                "llm_call: attempt {retries} of {} failed ({}), trying again in {} ms",
                most.saturating_add(1),
                error.reason,
                if at_once { 0 } else { wait.as_millis() }
            ));
            if is_failure || crate::retry::is_empty_completion(&error) {
                note_empty(runtime, prepared, &error, retries);
            }
            if !at_once {
                runtime.embedder.sleep(wait).await;
            }
        }
    }
}

/// Converts a reply without an answer to a result, so that the progress of a loop is not lost.
fn without_answer(prepared: &Prepared, error: &LlmError) -> Response {
    let route = &prepared.request.route;
    let mut out = Response::new(&route.provider, &route.model);
    out.stop_reason = Some(error.reason.to_owned());
    out.usage = error.partial_usage.unwrap_or_default();
    out
}

/// Continues a turn that the provider paused, as Anthropic does while server-side tools run.
pub(super) struct Continuing<P> {
    pub(super) inner: P,
}

/// The maximum number of continuations of one turn.
const CONTINUATIONS: usize = 8;

impl<P: Provider> Provider for Continuing<P> {
    async fn answer(&self, prepared: &Prepared, watch: &mut Watch<'_>) -> Result<Response, LlmError> {
        let mut response = self.inner.answer(prepared, watch).await?;
        let style = prepared.request.route.style;
        for _ in 0..CONTINUATIONS {
            let paused = response.stop_reason.as_deref() == Some(PAUSE_TURN);
            if !paused || style != WireStyle::Anthropic || response.blocks.is_empty() {
                break;
            }
            let mut next = Box::new(prepared.clone());
            let turn = paused_message(style, &response);
            // The message was built by this crate, so this does not fail.
            if next.request.messages.push_json(turn).is_err() {
                break;
            }
            response.extend(self.inner.answer(&next, watch).await?);
        }
        Ok(response)
    }
}

/// Traces the retry of an empty reply.
pub(super) fn note_empty(runtime: &LlmRuntime, prepared: &Prepared, error: &LlmError, attempt: u32) {
    prepared.empty.set(prepared.empty.get() + 1);
    let iteration = prepared.options.raw.get("_iteration").cloned().unwrap_or(0.into());
    runtime
        .embedder
        .trace(json!({"type": "empty_completion_retry", "iteration": iteration, "attempt": attempt,
                                  "error": error.message}));
}
