//! A call as layers around one trait: each does one thing to a request on its way out or to a reply on its way back.
//!
//! [`LlmRuntime::provider`] is the whole list, from the outside to the wire.

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

/// Takes events of a stream as they come.
pub(super) type Sink<'a> = dyn FnMut(&StreamEvent) + 'a;
/// The same, and may stop the stream.
pub(super) type Watch<'a> = dyn FnMut(&StreamEvent) -> Result<(), LlmError> + 'a;

/// Whoever answers a request: a model behind a wire, a mock, or a layer around another provider.
pub(super) trait Provider {
    /// Answers a request. `watch` sees the reply as it comes and may stop it.
    ///
    /// # Errors
    /// There is no reply, or it is not to be used.
    async fn answer(&self, prepared: &Prepared, watch: &mut Watch<'_>) -> Result<Response, LlmError>;
}

impl LlmRuntime {
    /// Everything between a call and the wire. A layer sees what the ones below it make of a request.
    fn provider<'r>(&'r self, call: &'r Call) -> impl Provider + 'r {
        // What goes out: one exchange, with the habits of local servers, authorised, unless nothing may go out.
        let answers = || {
            let network = network::Exchange { runtime: self };
            let network = network::OtherEndpoint { inner: network };
            let network = network::Authorised { runtime: self, inner: network };
            let network = network::Disabled { runtime: self, inner: network };
            // Replies of earlier runs, by what was asked.
            let network = kept::Kept { runtime: self, inner: network };
            // Who answers instead: scripts, and in a rehearsal the mock in any case.
            let answers = mocks::Mocked { runtime: self, inner: network };
            mocks::Rehearsed { runtime: self, inner: answers }
        };
        // What follows from a failure: the same route again, then others, each once.
        let attempt = || retry::Continuing { inner: self.attempt(answers()) };
        let first = retry::Retrying { runtime: self, inner: attempt() };
        fallback::FallingBack { runtime: self, call, first, others: attempt() }
    }

    /// What is done with every attempt, whoever answers it: it waits for its turn, is paid for, shown, recorded.
    fn attempt<'r>(&'r self, answers: impl Provider + 'r) -> impl Provider + 'r {
        let told = log::Explained { runtime: self, inner: answers };
        let recorded = log::Recorded { runtime: self, inner: told };
        let logged = log::Logged { runtime: self, inner: recorded };
        let paid = accounts::Budgeted { runtime: self, inner: logged };
        accounts::RateLimited { runtime: self, inner: paid }
    }

    /// Makes a call that is prepared.
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
        // In a box: the futures of the layers lie in one another, and a call waits long in the innermost.
        Box::pin(provider.answer(prepared, &mut watch)).await
    }

    /// Gives a reply that is there already the treatment of one that was asked for.
    ///
    /// # Errors
    /// A budget refuses it.
    pub(super) async fn pass(&self, prepared: &Prepared, reply: Completed<'_>) -> Result<Response, LlmError> {
        self.attempt(reply).answer(prepared, &mut |_| Ok(())).await
    }
}
