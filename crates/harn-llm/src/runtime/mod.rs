//! The runtime of model calls: state shared between calls, and the sequence of a call.
//!
//! `prepare.rs` and `route.rs` convert arguments to a [`Request`](crate::Request). `layers/` contains the layers that a
//! call passes. `attempts.rs` collects the trace for `--trace`. `calls.rs` adds schema rounds to calls. `completion.rs`
//! and `stream.rs` are the two variants of `llm_call`.

mod adjust;
mod attempts;
mod calls;
mod clouds;
mod completion;
mod delivered;
mod environment;
mod health;
mod layers;
mod live;
mod prepare;
pub(crate) mod prepared;
mod route;
mod stream;
mod summary;

use std::cell::{Cell, OnceCell, Ref, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use harn_system::Egress;
use harn_value::Data as Value;

use crate::capabilities::CapabilityMatrix;
use crate::config::{Config, Layer};
use crate::conversation::Conversation;
use crate::cost::Ledger;
use crate::embedder::Embedder;
use crate::error::OptionError;
use crate::mock::{Mock, MockState};
use crate::models::{Catalog, Table};
use crate::rate_limit::RateLimits;
use crate::record::{Recorder, Tape};
use crate::tools::ToolSet;
use crate::transport::{Carrier, Network, Recording, Replaying};

use attempts::Attempts;
pub use attempts::AttemptsTotal;
pub use calls::{Finished, category_of, safe_json};
pub use completion::Completion;
pub use live::Live;
pub use prepared::{Prepared, RequestObserver};
pub use stream::StreamItem;

/// The arguments of a call, as programs pass them.
#[derive(Debug, Clone, Default)]
pub struct Call {
    /// The prompt: a string, or a list of message dicts.
    pub prompt: Value,
    /// The system prompt; `None` falls back to the option `system`.
    pub system: Option<String>,
    /// The option dict, shared with the caller.
    pub options: Rc<Value>,
    /// The conversation to send; overrides the prompt and the options `messages` and `transcript`.
    pub messages: Option<Conversation>,
    /// The offered tools; overrides the option `tools`.
    pub tools: Option<ToolSet>,
    /// The instruction of a completion on a chat route, appended to the system prompt.
    pub instruction: Option<String>,
    /// Whether the runtime itself set `output_format`. Then the route need not support it.
    pub format_is_derived: bool,
    /// Receives each request of the call.
    pub observer: Option<RequestObserver>,
}

impl Call {
    /// Creates a call with a prompt.
    pub fn new(prompt: impl Into<Value>, system: Option<&str>, options: Value) -> Call {
        let system = system.map(str::to_string);
        Call { prompt: prompt.into(), system, options: Rc::new(options), ..Call::default() }
    }
}

/// The recorder of `--llm-mock-record`, which receives the result or error of each attempt.
struct Fixtures {
    /// The number of calls begun.
    begun: i64,
    sink: Box<dyn FnMut(&str)>,
}

/// Stores a reply: its key, and one line of JSON.
type WriteReply = dyn Fn(&str, &str) -> Result<(), String>;

/// Returns the line stored under a key.
type ReadReply = dyn Fn(&str) -> Result<Option<String>, String>;

/// Model replies stored by a digest of the request, as used by `harn test --record` and `--replay`.
pub enum KeptReplies {
    /// Stores every reply: its key, and one line of JSON.
    Write(Box<WriteReply>),
    /// Replays every reply from the line stored under its key.
    Read(Box<ReadReply>),
}

/// Observes each request before it is sent or answered, for `harn explain prompt`.
type Watcher = Box<dyn FnMut(&Prepared)>;

/// The state that model calls share within one run. It stays on one thread, like the VM.
pub struct LlmRuntime {
    embedder: Rc<dyn Embedder>,
    layers: RefCell<Vec<Layer>>,
    /// The providers whose URLs come from the project, its packages or the program.
    of_program: RefCell<BTreeSet<String>>,
    config: OnceCell<RefCell<Config>>,
    /// The catalogue with the table that the user has installed.
    catalog: RefCell<Option<Rc<Catalog>>>,
    caps: OnceCell<RefCell<CapabilityMatrix>>,
    mock: RefCell<MockState>,
    ledger: Ledger,
    limits: RateLimits,
    network: Rc<Network>,
    /// The transport of requests: the network, or a cassette.
    carrier: RefCell<Rc<dyn Carrier>>,
    replaying: RefCell<Option<Rc<Replaying>>>,
    warned: RefCell<BTreeSet<String>>,
    fixtures: RefCell<Option<Fixtures>>,
    kept: RefCell<Option<Rc<KeptReplies>>>,
    log: RefCell<Option<crate::call_log::CallLog>>,
    /// Whether log lines without their own time get a timestamp.
    log_is_timed: Cell<bool>,
    watcher: RefCell<Option<Watcher>>,
    rehearsing: Cell<bool>,
    attempts: RefCell<Option<Attempts>>,
    calls_made: Cell<u64>,
}

impl LlmRuntime {
    /// Creates a runtime with an embedder. Tables and the HTTP client are loaded on first use.
    pub fn new(embedder: Rc<dyn Embedder>) -> LlmRuntime {
        let network = Rc::new(Network::new(embedder.system()));
        LlmRuntime {
            embedder,
            layers: RefCell::default(),
            of_program: RefCell::default(),
            config: OnceCell::new(),
            catalog: RefCell::default(),
            caps: OnceCell::new(),
            mock: RefCell::default(),
            ledger: Ledger::default(),
            limits: RateLimits::default(),
            carrier: RefCell::new(network.clone()),
            network,
            replaying: RefCell::default(),
            warned: RefCell::default(),
            fixtures: RefCell::default(),
            kept: RefCell::default(),
            log: RefCell::default(),
            log_is_timed: Cell::default(),
            watcher: RefCell::default(),
            rehearsing: Cell::new(false),
            attempts: RefCell::default(),
            calls_made: Cell::new(0),
        }
    }

    /// Sets the configuration layers above the built-in one, lowest first. They are parsed on first use.
    pub fn set_config_layers(&self, layers: Vec<Layer>) {
        *self.layers.borrow_mut() = layers;
        if let Some(config) = self.config.get() {
            *config.borrow_mut() = self.load_config();
        }
    }

    /// Sets the providers whose URLs come from the project, its packages or the program; egress rules apply to them.
    pub fn set_program_providers(&self, names: BTreeSet<String>) {
        *self.of_program.borrow_mut() = names;
    }

    /// Returns the egress rules for connections to a provider. `given` says whether the caller supplied the URL.
    fn egress(&self, provider: &str, given: bool) -> Result<Option<Arc<Egress>>, String> {
        if given || self.of_program.borrow().contains(provider) { self.embedder.egress() } else { Ok(None) }
    }

    /// Sets the model table that the user has installed.
    pub fn set_model_table(&self, table: Table) {
        let catalog = Rc::new(Catalog::new(Some(table)));
        if let Some(config) = self.config.get() {
            config.borrow_mut().set_catalog(catalog.clone());
        }
        *self.catalog.borrow_mut() = Some(catalog);
    }

    fn load_config(&self) -> Config {
        let mut config = Config::load(&self.layers.borrow(), &*self.embedder);
        if let Some(catalog) = &*self.catalog.borrow() {
            config.set_catalog(catalog.clone());
        }
        config
    }

    fn config_cell(&self) -> &RefCell<Config> {
        self.config.get_or_init(|| RefCell::new(self.load_config()))
    }

    fn caps_cell(&self) -> &RefCell<CapabilityMatrix> {
        self.caps.get_or_init(|| RefCell::new(CapabilityMatrix::shipped()))
    }

    /// Returns the embedder.
    pub fn embedder(&self) -> &dyn Embedder {
        &*self.embedder
    }

    /// Returns the configuration.
    pub fn config(&self) -> Ref<'_, Config> {
        self.config_cell().borrow()
    }

    /// Registers a provider name as known.
    pub fn register_provider(&self, name: &str) {
        self.config_cell().borrow_mut().register(name);
    }

    /// Returns the capability matrix.
    pub fn capabilities(&self) -> Ref<'_, CapabilityMatrix> {
        self.caps_cell().borrow()
    }

    /// Adds capability rules of manifests, given as file names and contents: the project's first, then those of
    /// packages. Returns the problems, with file and line.
    pub fn add_capability_manifests(&self, texts: &[(&str, &str)]) -> Vec<String> {
        self.caps_cell().borrow_mut().add_manifests(texts)
    }

    /// Replaces the capability rules installed by the program.
    ///
    /// # Errors
    /// `provider_capabilities_install: …`.
    pub fn install_capabilities(&self, source: &str) -> Result<(), String> {
        self.caps_cell().borrow_mut().install(source)
    }

    /// Removes all capability rules except the shipped ones.
    pub fn clear_capabilities(&self) {
        self.caps_cell().borrow_mut().clear();
    }

    /// Returns the dict of `provider_capabilities`.
    pub fn capabilities_json(&self, provider: &str, model: &str) -> Value {
        self.capabilities().lookup(provider, model).to_json(provider, model)
    }

    /// Queues a reply (`llm_mock`).
    ///
    /// # Errors
    /// `llm_mock: …`.
    pub fn mock_push(&self, dict: &Value) -> Result<(), String> {
        self.mock.borrow_mut().push(dict)
    }

    /// Returns the recorded calls (`llm_mock_calls`).
    pub fn mock_calls(&self) -> Vec<Value> {
        self.mock.borrow().calls()
    }

    /// Clears the mock (`llm_mock_clear`).
    pub fn mock_clear(&self) {
        self.mock.borrow_mut().clear();
    }

    /// Saves the mock's state (`llm_mock_push_scope`).
    pub fn mock_push_scope(&self) {
        self.mock.borrow_mut().push_scope();
    }

    /// Restores the mock's state (`llm_mock_pop_scope`).
    ///
    /// # Errors
    /// No state is saved.
    pub fn mock_pop_scope(&self) -> Result<(), String> {
        self.mock.borrow_mut().pop_scope()
    }

    /// Returns whether mocks currently answer calls of any provider.
    pub(crate) fn mock_is_active(&self) -> bool {
        self.mock.borrow().is_active()
    }

    /// Answers calls from fixtures (`--llm-mock`).
    pub fn replay_fixtures(&self, fixtures: Vec<Mock>) {
        self.mock.borrow_mut().set_replay(fixtures);
    }

    /// Passes every result to `sink` as a fixture line (`--llm-mock-record`).
    pub fn record_fixtures(&self, sink: impl FnMut(&str) + 'static) {
        *self.fixtures.borrow_mut() = Some(Fixtures { begun: 0, sink: Box::new(sink) });
    }

    /// Assigns a number to a call that begins; `None` when fixtures are not recorded.
    fn number_fixture(&self) -> Option<i64> {
        self.fixtures.borrow_mut().as_mut().map(|fixtures| {
            fixtures.begun += 1;
            fixtures.begun
        })
    }

    /// Records that a call was rejected for a reason that replay cannot reproduce. Replay then rejects the call as
    /// well, and later calls get the right replies.
    fn record_refusal(&self, reason: OptionError) -> OptionError {
        if let Some(call) = self.number_fixture()
            && let Some(fixtures) = &mut *self.fixtures.borrow_mut()
        {
            (fixtures.sink)(&crate::mock::refused_line(call, &reason.0));
        }
        reason
    }

    /// Resolves host names with `resolver` instead of the system, and uses no proxy, for programs that restrict the
    /// addresses of calls. Returns false when a resolver is already set.
    pub fn resolve_hosts(
        &self,
        resolver: impl Fn(&str) -> std::io::Result<Vec<std::net::IpAddr>> + Send + Sync + 'static,
    ) -> bool {
        self.network.resolver.set(harn_system::Resolver::new(resolver)).is_ok()
    }

    /// Records every HTTP exchange, one line each.
    pub fn record_exchanges(&self, sink: impl FnMut(&str) + 'static) {
        let recorder = RefCell::new(Recorder::new(sink));
        self.carry(Rc::new(Recording { recorder, inner: self.network.clone() }), None);
    }

    /// Replays every HTTP exchange from a cassette; nothing is sent over the network any more.
    ///
    /// # Errors
    /// The source is not a valid cassette.
    pub fn replay_exchanges(&self, cassette: &str) -> Result<(), String> {
        self.replay(Tape::parse(cassette)?);
        Ok(())
    }

    /// Returns the number of unused exchanges of the cassette.
    pub fn unused_exchanges(&self) -> usize {
        self.replaying.borrow().as_ref().map_or(0, |tape| tape.unused())
    }

    fn replay(&self, tape: Tape) {
        let tape = Rc::new(Replaying::new(tape, self.network.clone()));
        self.carry(tape.clone(), Some(tape));
    }

    fn carry(&self, carrier: Rc<dyn Carrier>, replaying: Option<Rc<Replaying>>) {
        *self.carrier.borrow_mut() = carrier;
        *self.replaying.borrow_mut() = replaying;
    }

    fn carrier(&self) -> Rc<dyn Carrier> {
        self.carrier.borrow().clone()
    }

    /// Passes every line of the call log (`llm_transcript.jsonl`) to `sink`. Unless `timed`, lines without their own
    /// time have a null `timestamp` and the clock is not read for them.
    pub fn log_calls(&self, timed: bool, sink: impl FnMut(&Value) + 'static) {
        self.log_wanted_calls(timed, || true, sink);
    }

    /// Like `log_calls`, but only while `wanted` returns true; otherwise no lines are built.
    pub fn log_wanted_calls(
        &self,
        timed: bool,
        wanted: impl Fn() -> bool + 'static,
        sink: impl FnMut(&Value) + 'static,
    ) {
        self.log_is_timed.set(timed);
        *self.log.borrow_mut() = Some(crate::call_log::CallLog::new(wanted, sink));
    }

    /// Returns whether the call log is active.
    pub fn is_logging(&self) -> bool {
        self.log.borrow().as_ref().is_some_and(crate::call_log::CallLog::is_wanted)
    }

    /// Returns whether the lines of the call log have timestamps.
    pub fn is_logging_times(&self) -> bool {
        self.is_logging() && self.log_is_timed.get()
    }

    /// Makes the call log repeat prompts and messages that it has already written, because the lines go to another
    /// reader.
    pub fn log_anew(&self) {
        if let Some(log) = &mut *self.log.borrow_mut() {
            log.forget();
        }
    }

    /// Writes a call log line of the embedding program: its `type` and further fields.
    pub fn log_line(&self, kind: &str, fields: Value) {
        if let Some(log) = self.log.borrow_mut().as_mut().filter(|log| log.is_wanted()) {
            let now_ms = self.log_is_timed.get().then(|| self.embedder.now_ms());
            log.write(now_ms, kind, fields);
        }
    }

    /// Passes every request to `watcher` just before it is answered or sent. Retries, schema rounds and fallbacks are
    /// separate requests.
    pub fn watch_calls(&self, watcher: impl FnMut(&Prepared) + 'static) {
        *self.watcher.borrow_mut() = Some(Box::new(watcher));
    }

    /// Collects every attempt from now on, for [`LlmRuntime::attempts_summary`].
    pub fn keep_attempts(&self) {
        self.attempts.borrow_mut().get_or_insert_default();
    }

    /// Returns the human-readable summary of attempts (`--trace`); `None` when no model was called.
    pub fn attempts_summary(&self) -> Option<String> {
        self.attempts.borrow().as_ref()?.summary()
    }

    /// Returns the totals of the attempts since [`LlmRuntime::keep_attempts`].
    pub fn attempts_total(&self) -> AttemptsTotal {
        self.attempts.borrow().as_ref().map_or_else(AttemptsTotal::default, Attempts::total)
    }

    /// Makes this run a rehearsal: requests are built as for their real models, but need no key and are answered by
    /// mocks: scripted ones first, then the default reply of the provider `mock`. Nothing is sent over the network.
    pub fn rehearse(&self) {
        self.rehearsing.set(true);
        self.replay(Tape::default());
    }

    /// Returns the usage of the run.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Returns the effective requests per minute of a provider (`llm_rate_limit(p)`).
    pub fn rate_limit(&self, provider: &str) -> Option<i64> {
        // Variable names cannot contain the hyphens of provider names.
        let name = format!("HARN_RATE_LIMIT_{}", provider.to_uppercase().replace('-', "_"));
        let of_environment = self.env_int(&[&name], 0);
        self.limits.get(provider, of_environment, self.config().rpm(provider))
    }

    /// Sets the requests per minute of a provider; zero or less removes the limit.
    pub fn set_rate_limit(&self, provider: &str, rpm: i64) {
        self.limits.set(provider, rpm);
    }

    /// Waits until the provider's rate limit permits a call, and acquires a permit.
    pub async fn acquire(&self, provider: &str) {
        if self.rehearsing.get() {
            return;
        }
        while let Some(rpm) = self.rate_limit(provider) {
            match self.limits.try_acquire(provider, rpm, self.embedder.now_ms()) {
                Ok(()) => return,
                Err(wait) => self.embedder.sleep(wait).await,
            }
        }
    }

    /// Returns the cost of a model's tokens in USD (`llm_cost`). `model` is an id, an alias, or `PROVIDER:MODEL`.
    pub fn cost(&self, model: &str, input: i64, output: i64) -> f64 {
        let config = self.config();
        let pricing = match config.fallback_route(model, "") {
            // The price at which a call with this name is booked.
            Some((provider, id)) if !id.is_empty() => crate::cost::call_pricing(&config, &provider, &id),
            _ => crate::cost::model_pricing(&config, model),
        };
        crate::cost::cost(pricing, input, output)
    }

    fn warn_once(&self, text: &str) {
        if self.warned.borrow_mut().insert(text.to_string()) {
            self.embedder.warn(text);
        }
    }
}
