//! `--health ADDR`: an HTTP listener for probes and metrics, on its own thread.
//!
//! It responds while the process works, and exposes only counts: no run IDs, arguments or messages.

mod metrics;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use harn_store::{RunStatus, Store, StoreStats};
use harn_system::{Real, System};
use harn_value::{Data as Value, json};

pub(crate) use metrics::{Metric, Metrics};

/// The process is unhealthy if its event loop is blocked for longer than this.
const STALL: Duration = Duration::from_secs(30);

/// Interval of the event loop's heartbeats.
const TICK: Duration = Duration::from_secs(1);

/// Time limit for a response of the store.
const SLOW: Duration = Duration::from_secs(2);

const BUILD: Metric = Metric::gauge("harn_build_info", "Version of Harn.");
const STARTED: Metric =
    Metric::gauge("harn_process_start_time_seconds", "Start of the process, in seconds since 1970.");
const STORE_UP: Metric = Metric::gauge("harn_store_up", "Whether the store answers.");
const STORE_SIZE: Metric = Metric::gauge("harn_store_size_bytes", "Size of the store on disk.");
const RUNS: Metric = Metric::gauge("harn_store_runs", "Runs in the store by status.");
const DEPTH: Metric = Metric::gauge("harn_queue_depth", "Runs that a worker could take now.");
const OLDEST: Metric =
    Metric::gauge("harn_queue_oldest_seconds", "Time for which the longest waiting queued run has been due.");
const CALLS: Metric = Metric::counter("harn_llm_calls_total", "Model calls of ended runs or requests.");
const TOKENS: Metric = Metric::counter("harn_llm_tokens_total", "Tokens of these calls by direction.");
const COST: Metric = Metric::counter("harn_llm_cost_usd_total", "Cost of these calls in USD.");

const REQUESTS: Metric = Metric::counter("harn_requests_total", "Requests by method and outcome.");
const IN_PROGRESS: Metric = Metric::gauge("harn_requests_in_progress", "Requests that are being answered.");
const REQUEST_TIME: Metric =
    Metric::histogram("harn_request_duration_seconds", "Time of requests by method.");

/// Model calls, tokens and cost.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Usage {
    pub(crate) calls: i64,
    pub(crate) input_tokens: i64,
    pub(crate) output_tokens: i64,
    pub(crate) cost_usd: f64,
}

impl Usage {
    /// Returns the usage of all programs of a VM.
    pub(crate) fn of(vm: &std::rc::Rc<harn_vm::Vm>) -> Usage {
        let totals = harn_runtime::model_totals(vm);
        Usage {
            calls: totals.calls,
            input_tokens: totals.input_tokens,
            output_tokens: totals.output_tokens,
            cost_usd: totals.cost,
        }
    }

    /// Reads the output of [`Usage::data`].
    pub(crate) fn from_data(data: &Value) -> Usage {
        let count = |key: &str| data[key].as_i64().unwrap_or(0);
        Usage {
            calls: count("calls"),
            input_tokens: count("input_tokens"),
            output_tokens: count("output_tokens"),
            cost_usd: data["cost_usd"].as_f64().unwrap_or(0.0),
        }
    }

    pub(crate) fn data(self) -> Value {
        json!({
            "calls": self.calls, "input_tokens": self.input_tokens, "output_tokens": self.output_tokens,
            "cost_usd": self.cost_usd,
        })
    }

    pub(crate) fn plus(self, other: Usage) -> Usage {
        Usage {
            calls: self.calls + other.calls,
            input_tokens: self.input_tokens + other.input_tokens,
            output_tokens: self.output_tokens + other.output_tokens,
            cost_usd: self.cost_usd + other.cost_usd,
        }
    }

    pub(crate) fn minus(self, other: Usage) -> Usage {
        Usage {
            calls: self.calls - other.calls,
            input_tokens: self.input_tokens - other.input_tokens,
            output_tokens: self.output_tokens - other.output_tokens,
            cost_usd: (self.cost_usd - other.cost_usd).max(0.0),
        }
    }
}

/// The health state of the process.
pub(crate) struct Health {
    /// Monotonic time of the event loop's last heartbeat in milliseconds; 0 for a process without an event loop.
    alive_ms: AtomicU64,
    /// Why the process does not accept work; empty if it does.
    not_ready: Mutex<String>,
    metrics: Mutex<Metrics>,
    store: Option<Arc<dyn Store>>,
}

fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

fn monotonic_ms() -> u64 {
    u64::try_from(Real::new().monotonic().as_millis()).unwrap_or(u64::MAX)
}

impl Health {
    /// Creates the state of a process that is starting.
    pub(crate) fn new(store: Option<Arc<dyn Store>>) -> Arc<Health> {
        let mut metrics = Metrics::default();
        metrics.set(BUILD, &[("version", env!("CARGO_PKG_VERSION"))], 1.0);
        metrics.set(STARTED, &[], Real::new().now_ms() as f64 / 1000.0);
        Arc::new(Health {
            alive_ms: AtomicU64::new(0),
            not_ready: Mutex::new("starting".to_owned()),
            metrics: Mutex::new(metrics),
            store,
        })
    }

    /// Records a heartbeat of the event loop.
    fn tick(&self) {
        self.alive_ms.store(monotonic_ms().max(1), Ordering::Relaxed);
    }

    /// Starts a task on the current event loop that records a heartbeat every second.
    pub(crate) fn watch_event_loop(self: &Arc<Health>) {
        let health = Arc::downgrade(self);
        harn_vm::spawn(async move {
            while let Some(health) = health.upgrade() {
                health.tick();
                drop(health);
                Real::new().sleep(TICK).await;
            }
        });
    }

    /// Marks the process as ready.
    pub(crate) fn ready(&self) {
        lock(&self.not_ready).clear();
    }

    /// Marks the process as not ready, with the reason.
    pub(crate) fn not_ready(&self, why: &str) {
        why.clone_into(&mut lock(&self.not_ready));
    }

    /// Updates the metrics.
    pub(crate) fn metrics(&self, change: impl FnOnce(&mut Metrics)) {
        change(&mut lock(&self.metrics));
    }

    /// Adds model usage.
    pub(crate) fn used(&self, usage: Usage) {
        self.metrics(|metrics| {
            metrics.add(CALLS, &[], usage.calls as f64);
            metrics.add(TOKENS, &[("direction", "input")], usage.input_tokens as f64);
            metrics.add(TOKENS, &[("direction", "output")], usage.output_tokens as f64);
            metrics.add(COST, &[], usage.cost_usd);
        });
    }

    /// Records the start of a request.
    pub(crate) fn request_begins(&self) {
        self.metrics(|metrics| metrics.add(IN_PROGRESS, &[], 1.0));
    }

    /// Records the end of a request with its duration. `outcome` is `ok`, `error` or `cancelled`.
    pub(crate) fn request_ends(&self, method: &str, outcome: &str, time: Duration) {
        self.metrics(|metrics| {
            metrics.add(IN_PROGRESS, &[], -1.0);
            metrics.add(REQUESTS, &[("method", method), ("outcome", outcome)], 1.0);
            metrics.observe(REQUEST_TIME, &[("method", method)], time.as_secs_f64());
        });
    }

    /// Listens on an address, and serves requests until the process ends. Returns the bound address.
    ///
    /// # Errors
    /// The address cannot be used.
    #[expect(clippy::disallowed_types, reason = "this is a server: it listens")]
    pub(crate) fn listen(self: &Arc<Health>, address: SocketAddr) -> Result<SocketAddr, String> {
        let failed = |error: std::io::Error| format!("--health: cannot listen on {address}: {error}");
        let socket = std::net::TcpListener::bind(address).map_err(failed)?;
        socket.set_nonblocking(true).map_err(failed)?;
        let bound = socket.local_addr().map_err(failed)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let own = self.clone();
        let work = move || {
            runtime.block_on(async {
                let Ok(socket) = tokio::net::TcpListener::from_std(socket) else { return };
                let router = Router::new()
                    .route("/healthz", get(healthz))
                    .route("/readyz", get(readyz))
                    .route("/metrics", get(samples))
                    .with_state(own);
                let _ = axum::serve(socket, router).await;
            });
        };
        std::thread::Builder::new().name("health".to_owned()).spawn(work).map_err(failed)?;
        Ok(bound)
    }

    /// Returns the statistics of the store; `None` if it does not respond.
    #[expect(clippy::disallowed_methods, reason = "the listener has an event loop of its own")]
    async fn stats(&self) -> Option<StoreStats> {
        let asked = self.store.as_ref()?.stats(Real::new().now_ms());
        tokio::time::timeout(SLOW, asked).await.ok()?.ok()
    }
}

fn plain(status: StatusCode, text: String) -> Response {
    (status, text + "\n").into_response()
}

async fn healthz(State(health): State<Arc<Health>>) -> Response {
    let last = health.alive_ms.load(Ordering::Relaxed);
    let age = Duration::from_millis(monotonic_ms().saturating_sub(last));
    if last > 0 && age > STALL {
        let text = format!("the event loop has not run for {} s", age.as_secs());
        return plain(StatusCode::SERVICE_UNAVAILABLE, text);
    }
    plain(StatusCode::OK, "ok".to_owned())
}

async fn readyz(State(health): State<Arc<Health>>) -> Response {
    let why = lock(&health.not_ready).clone();
    if !why.is_empty() {
        return plain(StatusCode::SERVICE_UNAVAILABLE, why);
    }
    if health.store.is_some() && health.stats().await.is_none() {
        return plain(StatusCode::SERVICE_UNAVAILABLE, "the store does not answer".to_owned());
    }
    plain(StatusCode::OK, "ok".to_owned())
}

async fn samples(State(health): State<Arc<Health>>) -> Response {
    let stats = health.stats().await;
    let mut metrics = lock(&health.metrics).clone();
    if health.store.is_some() {
        metrics.set(STORE_UP, &[], if stats.is_some() { 1.0 } else { 0.0 });
    }
    if let Some(stats) = stats {
        metrics.set(STORE_SIZE, &[], stats.bytes as f64);
        for status in RunStatus::ALL {
            metrics.set(RUNS, &[("status", status.word())], stats.count(status) as f64);
        }
        metrics.set(DEPTH, &[], stats.ready as f64);
        let age_ms = stats.oldest_due_ms.map_or(0, |due_ms| (Real::new().now_ms() - due_ms).max(0));
        metrics.set(OLDEST, &[], age_ms as f64 / 1000.0);
    }
    ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], metrics.text()).into_response()
}
