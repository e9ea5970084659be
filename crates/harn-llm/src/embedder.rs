//! The interface to the embedding program: environment, clock, warnings and prompt templates.

use std::any::Any;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use harn_system::{Egress, Real, System};
use harn_value::Data as Value;

use crate::error::CallError;
use crate::request::Route;

/// A future that stays on its thread, like the VM's fibers.
pub type LocalFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// A piece of system prompt that a call contributes. It is reduced together with the fragments of other contributors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fragment {
    /// Stable name, e.g. `primary`, `transcript:summary`, `call:output_instruction`.
    pub id: String,
    /// Contributor: `primary`, `transcript`, `reminder`, `call` or `message`.
    pub source: &'static str,
    /// Whether the fragment comes after the primary prompt instead of before it.
    pub after: bool,
    /// The content.
    pub body: String,
}

/// The reminders of a call, in the form that its route uses.
#[derive(Debug, Clone, Default)]
pub struct Reminded {
    /// The messages from the user's last one on, with the reminders attached.
    pub messages: Vec<Value>,
    /// Reminders that become part of the system prompt.
    pub fragments: Vec<Fragment>,
}

/// The system prompt of a call.
#[derive(Debug, Clone, Default)]
pub struct SystemText {
    /// The prompt as sent; `None` if the call has no system prompt.
    pub text: Option<String>,
    /// The provenance of the prompt, for observers of calls ([`crate::LlmRuntime::watch_calls`]). Only the embedder
    /// knows the type.
    pub provenance: Option<Rc<dyn Any>>,
}

/// The services that a call needs from the embedding program. Every method except `system` has a default, so that a
/// minimal embedding stays small.
pub trait Embedder {
    /// Returns the system layer for network requests, clock, environment and files.
    fn system(&self) -> Rc<dyn System>;

    /// Returns the value of an environment variable.
    fn env(&self, name: &str) -> Option<String> {
        self.system().env(name)
    }

    /// Returns the wall-clock time in milliseconds since the Unix epoch.
    fn now_ms(&self) -> i64 {
        self.system().now_ms()
    }

    /// Returns the egress rules for URLs that the program itself supplied; `None` allows all URLs.
    ///
    /// # Errors
    /// The rules cannot be read. Then no request is sent.
    fn egress(&self) -> Result<Option<Arc<Egress>>, String> {
        Ok(None)
    }

    /// Waits between two attempts.
    fn sleep(&self, time: Duration) -> LocalFuture<'_, ()> {
        self.system().sleep(time)
    }

    /// Returns a new identifier for a transcript or event.
    fn new_id(&self) -> String {
        String::new()
    }

    /// Reports a problem that does not stop the call (log category `llm`).
    fn warn(&self, _message: &str) {}

    /// Renders the prompt asset `<asset>.harn.prompt` (a path such as `llm/schema_nudge`) with `bindings`. This crate
    /// contains no prompt text; the default returns the asset's name and the bindings as JSON, so that no information
    /// is lost.
    fn prose(&self, asset: &str, bindings: &Value) -> String {
        format!("{asset}: {bindings}")
    }

    /// Reduces the fragments of a call and the fragments in its options to the system prompt. The default joins the
    /// contents with blank lines.
    ///
    /// # Errors
    /// An option is invalid.
    fn assemble_system(&self, _options: &Value, fragments: &[Fragment]) -> Result<SystemText, String> {
        Ok(SystemText { text: join_fragments(fragments), provenance: None })
    }

    /// Converts the pending reminders in the call's `transcript`, or of its `session_id`, to the form that the route
    /// uses; `None` when none is pending. Reminders apply to this request only: the messages in the call's transcript
    /// are not changed.
    ///
    /// `last` returns the messages from the user's last one on; earlier messages are not affected.
    fn remind(&self, _options: &Value, _last: &dyn Fn() -> Vec<Value>, _route: &Route) -> Option<Reminded> {
        None
    }

    /// Runs the caller's own structural experiment. `transform` is the value of the option, `input` is `{messages,
    /// system, iteration, label, name, args}`. The result is null, a list of messages, or `{messages?, system?, label?,
    /// name?, metadata?}`. An `Err` is thrown unchanged.
    fn experiment<'a>(
        &'a self,
        _transform: &'a Value,
        _input: Value,
    ) -> LocalFuture<'a, Result<Value, CallError>> {
        Box::pin(async { Ok(Value::Null) })
    }

    /// Runs the option `output_validator` on an answer and returns the problem, if any. An `Err` is thrown unchanged.
    fn validate_output<'a>(
        &'a self,
        _validator: &'a Value,
        _data: &'a Value,
    ) -> LocalFuture<'a, Result<Option<String>, CallError>> {
        Box::pin(async { Ok(None) })
    }

    /// Records an agent trace event (a dict with `type`).
    fn trace(&self, _event: Value) {}

    /// Shows progress to the user while a call waits.
    fn progress(&self, _message: &str) {}
}

/// Joins fragments in reduction order: first those before the primary prompt, then those after it. Skips fragments
/// without content.
pub(crate) fn join_fragments(fragments: &[Fragment]) -> Option<String> {
    let (before, after): (Vec<_>, Vec<_>) = fragments.iter().partition(|f| !f.after);
    let bodies: Vec<&str> =
        before.into_iter().chain(after).map(|f| f.body.trim()).filter(|body| !body.is_empty()).collect();
    (!bodies.is_empty()).then(|| bodies.join("\n\n"))
}

/// An embedder for programs and tests: a system, with warnings on its standard error.
#[derive(Clone)]
pub struct StdEmbedder {
    system: Rc<dyn System>,
    env: Option<BTreeMap<String, String>>,
}

impl Default for StdEmbedder {
    fn default() -> StdEmbedder {
        StdEmbedder::from_process()
    }
}

impl StdEmbedder {
    /// Creates an embedder on a system, for example one in memory.
    pub fn new(system: Rc<dyn System>) -> Self {
        StdEmbedder { system, env: None }
    }

    /// Creates an embedder on the real system with the environment of the process.
    pub fn from_process() -> Self {
        StdEmbedder::new(Rc::new(Real::new()))
    }

    /// Creates an embedder on the real system with exactly the given variables.
    pub fn with_env<K: Into<String>, V: Into<String>>(vars: impl IntoIterator<Item = (K, V)>) -> Self {
        let env = vars.into_iter().map(|(k, v)| (k.into(), v.into())).collect();
        StdEmbedder { env: Some(env), ..StdEmbedder::from_process() }
    }
}

impl Embedder for StdEmbedder {
    fn system(&self) -> Rc<dyn System> {
        self.system.clone()
    }

    fn env(&self, name: &str) -> Option<String> {
        match &self.env {
            Some(vars) => vars.get(name).cloned(),
            None => self.system.env(name),
        }
    }

    fn warn(&self, message: &str) {
        self.system.write_err(&format!("[llm] warning: {message}\n"));
    }
}
