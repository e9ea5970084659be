//! Replies that do not come from a model.

use super::{Provider, Watch};
use crate::dialect::Dialect;
use crate::error::LlmError;
use crate::event::StreamEvent;
use crate::mock::Ask;
use crate::response::Response;
use crate::runtime::{LlmRuntime, Prepared};

/// Answers calls from scripted mocks and fixtures, and all calls of the mock provider.
pub(super) struct Mocked<'r, P> {
    pub(super) runtime: &'r LlmRuntime,
    pub(super) inner: P,
}

impl<P: Provider> Provider for Mocked<'_, P> {
    async fn answer(&self, prepared: &Prepared, watch: &mut Watch<'_>) -> Result<Response, LlmError> {
        let runtime = self.runtime;
        if runtime.is_mock(&prepared.request.route.provider) || runtime.mock_is_active() {
            return runtime.mock_answer(prepared, watch);
        }
        if runtime.mock.borrow().is_exhausted() {
            let provider = &prepared.request.route.provider;
            // prose-ok: a warning
            runtime.warn_once(&format!(
                "all `llm_mock` replies are used: this call is for the provider `{provider}`"
            ));
        }
        self.inner.answer(prepared, watch).await
    }
}

/// In a rehearsal, answers every call from mocks, whatever the route.
pub(super) struct Rehearsed<'r, P> {
    pub(super) runtime: &'r LlmRuntime,
    pub(super) inner: P,
}

impl<P: Provider> Provider for Rehearsed<'_, P> {
    async fn answer(&self, prepared: &Prepared, watch: &mut Watch<'_>) -> Result<Response, LlmError> {
        if self.runtime.rehearsing.get() {
            return self.runtime.mock_answer(prepared, watch);
        }
        self.inner.answer(prepared, watch).await
    }
}

/// A reply that the mock has already generated, for a text completion.
pub(in crate::runtime) struct Completed<'r> {
    pub(in crate::runtime) runtime: &'r LlmRuntime,
    pub(in crate::runtime) response: Response,
}

impl Provider for Completed<'_> {
    async fn answer(&self, prepared: &Prepared, _: &mut Watch<'_>) -> Result<Response, LlmError> {
        // Records the call like any other call that the mock answers.
        let _ = self.runtime.mock_answer(prepared, &mut |_| Ok(()));
        Ok(self.response.clone())
    }
}

impl LlmRuntime {
    /// Returns whether a provider is the mock.
    pub(in crate::runtime) fn is_mock(&self, provider: &str) -> bool {
        self.config().dialect(provider) == Dialect::Mock
    }

    /// Returns whether calls of a provider are currently answered by scripts.
    pub(in crate::runtime) fn is_scripted(&self, provider: &str) -> bool {
        self.is_mock(provider) || self.mock_is_active() || self.rehearsing.get()
    }

    /// Answers a call from mocks; the call is recorded first.
    fn mock_answer(&self, prepared: &Prepared, watch: &mut Watch<'_>) -> Result<Response, LlmError> {
        let request = &prepared.request;
        let mut mock = self.mock.borrow_mut();
        let thinking = request.thinking.to_json();
        let ask = Ask {
            model: &request.route.model,
            messages: prepared.matched.as_ref().unwrap_or(&request.messages),
            system: request.system.as_deref(),
            tools: &request.tools,
            thinking: &thinking,
            cache: request.cache,
            in_words: prepared.is_stream(),
            schema: prepared.options.output.check.as_ref(),
            unechoed: crate::json::str_at(&prepared.options.raw, "done_sentinel"),
        };
        mock.record(&ask);
        let answer = match mock.scripted(&ask) {
            Some(answer) => answer?,
            None => {
                if mock.is_exhausted() && !self.rehearsing.get() {
                    // prose-ok: a warning
                    self.warn_once(
                        "all `llm_mock` replies are used: the mock answers with its default reply",
                    );
                }
                mock.default_answer(&ask)
            }
        };
        drop(mock);
        // The generated chunks are only a demonstration for `llm_stream`; all other callers see a scripted reply in the
        // given chunks.
        let chunks =
            if prepared.live && answer.cut { vec![answer.response.text.clone()] } else { answer.chunks };
        // Only a reply with scripted chunks can be aborted midway.
        if answer.cut || !request.stream {
            watch(&StreamEvent::Whole)?;
        }
        let mut chunks = chunks.into_iter().filter(|c| !c.is_empty());
        chunks.try_for_each(|chunk| watch(&StreamEvent::Text(chunk)))?;
        Ok(answer.response)
    }
}
