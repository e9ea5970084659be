//! A call on its way: what is sent, and what is known of how it came about.

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

/// A call ready for its attempts.
#[derive(Debug, Clone)]
pub struct Prepared {
    /// What is sent.
    pub request: Request,
    /// The options it came from.
    pub options: CallOptions,
    /// What the embedder knows of how the system text came about; see [`crate::embedder::SystemText`].
    pub provenance: Option<Rc<dyn Any>>,
    /// How the schema of the answer reaches the model: `format`, `tool` or `prompt`; nothing without one.
    pub answer: Option<&'static str>,
    /// The tools that the reply may call.
    pub(crate) offered: Offered,
    /// What was decided about deferred tools.
    pub search: SearchPlan,
    /// The structural experiment applied, for the transcript.
    pub experiment: Value,
    /// What a `route_policy` decided, else null.
    pub routing: Value,
    /// Silence after which a stream is given up.
    pub idle_timeout: Duration,
    /// What scripts of the mock are matched against, when it is not what is sent: the text of a completion.
    pub(super) matched: Option<Conversation>,
    /// The messages without the reminders attached to them, when some were, and how many they became.
    pub(super) unreminded: Option<(Conversation, usize)>,
    /// Set once a listener has seen text that it cannot be asked to forget: another attempt would repeat it.
    pub(super) shown: Option<Rc<Cell<bool>>>,
    /// Text is shown to people as it arrives, cleaned: see [`crate::LlmRuntime::call_live`].
    pub(super) live: bool,
    /// Input and output tokens of attempts that failed or were cancelled, of all rounds and routes.
    pub(super) lost: Rc<Cell<(i64, i64)>>,
    /// Attempts that gave an empty reply and were made again, of all rounds and routes.
    pub(super) empty: Rc<Cell<u32>>,
}

impl Prepared {
    /// Returns how often an answer that does not fit is asked for again; `None` for a stream.
    pub(super) fn retries(&self) -> Option<u32> {
        (!self.is_stream()).then_some(self.options.output.schema_retries)
    }

    /// Returns whether a listener has seen text of an attempt that then failed.
    pub(super) fn is_committed(&self) -> bool {
        self.shown.as_ref().is_some_and(|shown| shown.get())
    }

    /// Returns whether the program reads the reply piece by piece: a call of `llm_stream`.
    pub(super) fn is_stream(&self) -> bool {
        self.shown.is_some() && !self.live
    }

    /// The messages that the transcript of the call keeps: what was sent, without reminders. An experiment that wrote
    /// the messages anew leaves nothing to take them out of.
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
