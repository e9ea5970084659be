//! A prepared call: the request, and how it was derived.

use std::any::Any;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use harn_value::Data as Value;

use crate::conversation::Conversation;
use crate::options::CallOptions;
use crate::request::Request;
use crate::response::Offered;
use crate::tool_vault::SearchPlan;

/// Receives each request of a call just before it is answered or sent, retries and fallbacks included.
#[derive(Clone)]
pub struct RequestObserver(pub(super) Rc<dyn Fn(&Prepared)>);

impl RequestObserver {
    /// Makes an observer of a function.
    pub fn new(observe: impl Fn(&Prepared) + 'static) -> RequestObserver {
        RequestObserver(Rc::new(observe))
    }
}

impl std::fmt::Debug for RequestObserver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RequestObserver")
    }
}

/// A call that is ready for its attempts.
#[derive(Debug, Clone)]
pub struct Prepared {
    /// The request.
    pub request: Request,
    /// The options of the call.
    pub options: CallOptions,
    /// The embedder's provenance of the system prompt; see [`crate::embedder::SystemText`].
    pub provenance: Option<Rc<dyn Any>>,
    /// How the schema of the answer is passed to the model: `format`, `tool` or `prompt`; `None` without a schema.
    pub answer: Option<&'static str>,
    /// The tools that the reply may call.
    pub(crate) offered: Offered,
    /// The plan for deferred tools.
    pub search: SearchPlan,
    /// The applied structural experiment, for the transcript.
    pub experiment: Value,
    /// The decision of a `route_policy`, else null.
    pub routing: Value,
    /// Time without data after which a stream is aborted.
    pub idle_timeout: Duration,
    /// The conversation that mock scripts match against, if it differs from the request: prefix and suffix of a
    /// completion.
    pub(super) matched: Option<Conversation>,
    /// The messages without attached reminders, if there were any, and the number of messages with them.
    pub(super) unreminded: Option<(Conversation, usize)>,
    /// Receives the request just before it is answered or sent.
    pub(super) observer: Option<RequestObserver>,
    /// Set once a listener has received text that cannot be retracted. A retry would repeat it.
    pub(super) shown: Option<Rc<Cell<bool>>>,
    /// Whether cleaned user-facing text is shown as it arrives: see [`crate::LlmRuntime::call_live`].
    pub(super) live: bool,
    /// Input and output tokens of failed or cancelled attempts, over all rounds and routes.
    pub(super) lost: Rc<Cell<(i64, i64)>>,
    /// The number of retries after an empty reply, over all rounds and routes.
    pub(super) empty: Rc<Cell<u32>>,
}

impl Prepared {
    /// Returns how often an invalid answer is requested again; `None` for a stream.
    pub(super) fn retries(&self) -> Option<u32> {
        (!self.is_stream()).then_some(self.options.output.schema_retries)
    }

    /// Returns whether a listener has received text, so that a failed attempt cannot be retried.
    pub(super) fn is_committed(&self) -> bool {
        self.shown.as_ref().is_some_and(|shown| shown.get())
    }

    /// Returns whether the program reads the reply chunk by chunk, as with `llm_stream`.
    pub(super) fn is_stream(&self) -> bool {
        self.shown.is_some() && !self.live
    }

    /// Returns the messages for the call's transcript: those sent, without reminders. If an experiment rewrote the
    /// messages, the reminders cannot be removed.
    pub(super) fn kept_messages(&self) -> Vec<Value> {
        let sent = &self.request.messages;
        match &self.unreminded {
            Some((own, count)) if self.experiment.is_null() => {
                own.to_json().into_iter().chain(sent.to_json_from(*count)).collect()
            }
            _ => sent.to_json(),
        }
    }
}
