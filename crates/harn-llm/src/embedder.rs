//! The interface to the embedding program: environment, clock, warnings, and the prose that models read.

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

/// A future that stays on its thread, as the VM's fibers do.
pub type LocalFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// A piece of system text that a call contributes, to be reduced with the pieces of others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fragment {
    /// Stable name, e.g. `primary`, `transcript:summary`, `call:output_instruction`.
    pub id: String,
    /// Contributor: `primary`, `transcript`, `reminder`, `call` or `message`.
    pub source: &'static str,
    /// Whether the fragment belongs behind the main text instead of in front.
    pub after: bool,
    /// The text.
    pub body: String,
}

/// The reminders of a call in the form that its route takes.
#[derive(Debug, Clone, Default)]
pub struct Reminded {
    /// The messages from the user's last on, with what was attached to them.
    pub messages: Vec<Value>,
    /// Those that are system text.
    pub fragments: Vec<Fragment>,
}

/// The system text of a call.
#[derive(Debug, Clone, Default)]
pub struct SystemText {
    /// What is sent; `None` when there is none.
    pub text: Option<String>,
    /// How the text came about, for those who watch calls ([`crate::LlmRuntime::watch_calls`]). Only the embedder knows the
    /// type.
    pub provenance: Option<Rc<dyn Any>>,
}

/// What a call needs from the program around it. Everything has a default except the system, so a small embedding stays
/// small.
pub trait Embedder {
    /// Returns the system that requests, clocks, environment and files of calls are those of.
    fn system(&self) -> Rc<dyn System>;

    /// Returns an environment variable.
    fn env(&self, name: &str) -> Option<String> {
        self.system().env(name)
    }

    /// Returns the wall clock in milliseconds since the Unix epoch.
    fn now_ms(&self) -> i64 {
        self.system().now_ms()
    }

    /// Returns the rules for connections to an address that the program chose itself; without any it may be every address.
    ///
    /// # Errors
    /// The rules cannot be read: then no request is sent.
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

    /// Reports something odd that does not stop the call (log category `llm`).
    fn warn(&self, _message: &str) {}

    /// Renders the prompt asset `<asset>.harn.prompt` (a path such as `llm/schema_nudge`) with
    /// `bindings`. The crate itself holds no prose for models; the default gives the bindings as JSON,
    /// so that nothing is lost.
    fn prose(&self, asset: &str, bindings: &Value) -> String {
        format!("{asset}: {bindings}")
    }

    /// Reduces the fragments of a call, together with what the option dict contributes, to the system
    /// text. The default joins the bodies by blank lines. An `Err` is an option error.
    fn assemble_system(&self, _options: &Value, fragments: &[Fragment]) -> Result<SystemText, String> {
        Ok(SystemText { text: join_fragments(fragments), provenance: None })
    }

    /// Gives the reminders that wait in the call's `transcript`, or for its `session_id`, the form that the route takes;
    /// `None` when none waits. Reminders are for this request only: the call's transcript keeps its messages as they were.
    ///
    /// `last` gives the messages from the user's last on; what is in front of them stays.
    fn remind(&self, _options: &Value, _last: &dyn Fn() -> Vec<Value>, _route: &Route) -> Option<Reminded> {
        None
    }

    /// Runs the caller's own structural experiment: `transform` is what the option held, `input` is
    /// `{messages, system, iteration, label, name, args}`. The answer is null, a list of messages, or
    /// `{messages?, system?, label?, name?, metadata?}`. An `Err` is thrown as it is.
    fn experiment<'a>(
        &'a self,
        _transform: &'a Value,
        _input: Value,
    ) -> LocalFuture<'a, Result<Value, CallError>> {
        Box::pin(async { Ok(Value::Null) })
    }

    /// Asks the option `output_validator` about an answer: what is wrong with it, if anything. An `Err` is thrown as it is.
    fn validate_output<'a>(
        &'a self,
        _validator: &'a Value,
        _data: &'a Value,
    ) -> LocalFuture<'a, Result<Option<String>, CallError>> {
        Box::pin(async { Ok(None) })
    }

    /// Records an agent trace event (a dict with `type`).
    fn trace(&self, _event: Value) {}

    /// Tells the user what is going on while waiting.
    fn progress(&self, _message: &str) {}
}

/// Joins fragments in reduction order: those in front, then those behind, blank ones left out.
pub(crate) fn join_fragments(fragments: &[Fragment]) -> Option<String> {
    let (before, after): (Vec<_>, Vec<_>) = fragments.iter().partition(|f| !f.after);
    let bodies: Vec<&str> =
        before.into_iter().chain(after).map(|f| f.body.trim()).filter(|body| !body.is_empty()).collect();
    (!bodies.is_empty()).then(|| bodies.join("\n\n"))
}

/// An embedder for programs and tests: a system, and warnings on its standard error.
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
    /// Uses a system, for example one in memory.
    pub fn new(system: Rc<dyn System>) -> Self {
        StdEmbedder { system, env: None }
    }

    /// Uses the machine with the environment of the process.
    pub fn from_process() -> Self {
        StdEmbedder::new(Rc::new(Real::new()))
    }

    /// Uses the machine with exactly the given variables.
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
