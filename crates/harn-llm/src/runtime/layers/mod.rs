//! A call as layers around one trait. Each layer has one task on the way of the request out or of the reply back.
//!
//! [`LlmRuntime::provider`] is the complete list, from the outermost layer to the network.

mod accounts;
mod fallback;
mod kept;
mod log;
mod mocks;
mod network;
mod retry;

use super::{Call, LlmRuntime, Prepared};
use crate::error::LlmError;
use crate::event::StreamEvent;
use crate::response::Response;

pub(super) use mocks::Completed;

/// Receives stream events as they arrive.
pub(super) type Sink<'a> = dyn FnMut(&StreamEvent) + 'a;
/// Like `Sink`, but can abort the stream.
pub(super) type Watch<'a> = dyn FnMut(&StreamEvent) -> Result<(), LlmError> + 'a;

/// A source of replies: a model reached through a wire format, a mock, or a layer around another provider.
pub(super) trait Provider {
    /// Answers a request. `watch` receives the reply as it arrives and can abort it.
    ///
    /// # Errors
    /// The call has no reply, or its reply must not be used.
    async fn answer(&self, prepared: &Prepared, watch: &mut Watch<'_>) -> Result<Response, LlmError>;
}

impl LlmRuntime {
    /// Returns all layers between a call and the network. A layer sees the requests and replies of the layers below it.
    fn provider<'r>(&'r self, call: &'r Call) -> impl Provider + 'r {
        // The network: one exchange, with the deviations of local servers, authorised, unless calls are disabled.
        let answers = || {
            let network = network::Exchange { runtime: self };
            let network = network::OtherEndpoint { inner: network };
            let network = network::Authorised { runtime: self, inner: network };
            let network = network::Disabled { runtime: self, inner: network };
            // Stored replies of earlier runs.
            let network = kept::Kept { runtime: self, inner: network };
            // Substitutes for the model: scripts, and in a rehearsal always the mock.
            let answers = mocks::Mocked { runtime: self, inner: network };
            mocks::Rehearsed { runtime: self, inner: answers }
        };
        // Failure handling: retries of the same route, then other routes once each.
        let attempt = || retry::Continuing { inner: self.attempt(answers()) };
        let first = retry::Retrying { runtime: self, inner: attempt() };
        fallback::FallingBack { runtime: self, call, first, others: attempt() }
    }

    /// Returns the layers around every attempt, whatever answers it: rate limit, budget, log, recording.
    fn attempt<'r>(&'r self, answers: impl Provider + 'r) -> impl Provider + 'r {
        let told = log::Explained { runtime: self, inner: answers };
        let recorded = log::Recorded { runtime: self, inner: told };
        let logged = log::Logged { runtime: self, inner: recorded };
        let paid = accounts::Budgeted { runtime: self, inner: logged };
        accounts::RateLimited { runtime: self, inner: paid }
    }

    /// Makes a prepared call.
    ///
    /// # Errors
    /// All attempts failed.
    pub(super) async fn ask(
        &self,
        call: &Call,
        prepared: &Prepared,
        sink: &mut Sink<'_>,
    ) -> Result<Response, LlmError> {
        if prepared.options.idle_timeout.is_some() && prepared.request.idle_timeout.is_none() {
            // prose-ok: diagnostic
            self.warn_once(
                "option `idle_timeout` has no effect here: it belongs to `llm_stream`; use `timeout`", // prose-ok: diagnostic
            );
        }
        let mut watch = |event: &StreamEvent| {
            sink(event);
            Ok(())
        };
        let provider = self.provider(call);
        // Boxed because the futures of the layers are nested and large, and a call waits a long time in the innermost
        // one.
        Box::pin(provider.answer(prepared, &mut watch)).await
    }

    /// Passes an existing reply through the layers of an attempt.
    ///
    /// # Errors
    /// A budget rejects it.
    pub(super) async fn pass(&self, prepared: &Prepared, reply: Completed<'_>) -> Result<Response, LlmError> {
        self.attempt(reply).answer(prepared, &mut |_| Ok(())).await
    }
}
