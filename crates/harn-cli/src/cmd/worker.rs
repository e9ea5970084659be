//! `harn worker`: claims runs from the store that are queued, due or abandoned. Its processes execute one run at a
//! time.

mod flag;
mod list;
mod registry;
mod runner;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use harn_check::{Queue, Settings};
use harn_journal::owner;
use harn_store::{
    ClaimRuns, DEFAULT_QUEUE, Error as StoreError, Lease, NewStatus, Place, Run, RunQueue, RunStatus, Store,
    Write,
};
use harn_system::{Command, Real, System, SystemExt};
use harn_value::{Data as Value, json};
use harn_vm::Interrupt;
use tokio::sync::Notify;

use self::flag::Flag;
use self::registry::{BEAT_MS, Registration};
use self::runner::{Outcome, Runner, Runners};
use super::durable::{can_follow, failed, store};
use super::jobs::{Job, Mark};
use super::runs::{ENDS, remove_old};
use super::submit::{limits, queue_next, unknown_queue};
use crate::args::{WorkerArgs, WorkerCommand};
use crate::health::{Health, Metric, Usage};
use crate::logs::{Level, LogFormat, Stream};
use crate::{program, signal};

pub(super) use self::list::age;
pub(super) use self::registry::{WorkerInfo, workers};

/// Interval between claims.
const LOOK: Duration = Duration::from_millis(100);

/// The longest delay between two attempts to reach the store.
const PAUSE: Duration = Duration::from_secs(5);

/// Interval of the probes of the store, and the time after which a response is overdue.
const PROBE: Duration = Duration::from_secs(1);
const SLOW: Duration = Duration::from_secs(2);

/// Number of attempts to store the outcome of a run during an outage. After them, the lease expires.
const TRIES: u32 = 20;

/// Exit code of a process whose run continues later.
const LATER: i32 = 75;

/// How long the worker holds the lease for a starting process, even if the lease time is shorter.
const START: Duration = Duration::from_secs(60);

/// After this number of unexplained process exits, a run is left to the user.
const ATTEMPTS: u32 = 3;

/// The longest interval between removals of old runs.
const PRUNE: Duration = Duration::from_secs(3_600);

/// Interval at which the worker checks whether its record in the store is out of date.
const CHANGES: Duration = Duration::from_secs(1);

const BUSY: Metric = Metric::gauge("harn_worker_runs_in_progress", "Runs that the worker executes.");
const SLOTS: Metric = Metric::gauge("harn_worker_concurrency", "Runs that the worker may execute at once.");
const LEFT: Metric =
    Metric::counter("harn_worker_runs_total", "Runs whose process has ended, by their status afterwards.");
const FAILURES: Metric =
    Metric::counter("harn_run_failures_total", "Failed tries of runs by error category.");
const TIME: Metric =
    Metric::histogram("harn_run_duration_seconds", "Time from the first start to the end of a run.");

/// Runs the worker until it is stopped. Returns the exit code.
pub(crate) fn worker(args: WorkerArgs) -> u8 {
    match args.command {
        Some(WorkerCommand::List { json }) => list::list(json),
        None => work_on_runs(&args),
    }
}

/// Returns the path of this executable. If the system does not know it (without `/proc`), the first argument of the
/// process is used.
#[expect(
    clippy::disallowed_methods,
    reason = "the path of the program itself, to start it again for each run"
)]
fn own_program() -> std::io::Result<PathBuf> {
    std::env::current_exe().or_else(|error| {
        let given = std::env::args_os().next().map(PathBuf::from).ok_or(error)?;
        // A bare name is left to a search in `PATH`, where the shell found it.
        let has_folder = given.components().count() > 1;
        Ok(if has_folder { Real::new().work_dir().join(given) } else { given })
    })
}

fn work_on_runs(args: &WorkerArgs) -> u8 {
    let found = program::store_place(&Real::new()).and_then(|place| Ok((place, store()?)));
    let (place, store) = match found {
        Ok(found) => found,
        Err(text) => return failed(&format!("harn worker: {text}")),
    };
    let Ok(binary) = own_program() else {
        return failed("harn worker: the program itself cannot be found");
    };
    let (first, second) = (Interrupt::default(), Interrupt::default());
    signal::stop_in_two_steps(first.clone(), second.clone());
    let lease_ms = i64::try_from(args.lease.as_millis()).unwrap_or(i64::MAX / 4).min(i64::MAX / 4);
    let health = Health::new(Some(store.clone()));
    health.metrics(|metrics| metrics.set(SLOTS, &[], args.concurrency as f64));
    if let Some(address) = args.operation.health {
        match health.listen(address) {
            Ok(address) => args.operation.announce(address),
            Err(text) => return failed(&format!("harn worker: {text}")),
        }
    }
    let prepared = Settings::of_runs(&Real::new(), Path::new("")).and_then(|(runs, queues)| {
        known_queues(&*store, &args.queues, &queues)?;
        Ok((runs.keep, queues))
    });
    let (keep, queues) = match prepared {
        Ok(prepared) => prepared,
        Err(why) => return failed(&format!("harn worker: {why}")),
    };
    let (owner, host) = owner(&Real::new());
    let worker = Rc::new(Worker {
        registration: tokio::sync::Mutex::new(Registration::new(store.clone(), owner.clone(), host)),
        health,
        log: args.operation.log_format,
        concurrency: args.concurrency,
        started_ms: Real::new().now_ms(),
        left: Cell::default(),
        keep,
        queues: args.queues.clone(),
        limits: declared(&queues),
        served: RefCell::default(),
        store,
        binary,
        place,
        lease_ms,
        system: Real::new(),
        owner,
        busy: Cell::new(0),
        deaths: RefCell::default(),
        held: RefCell::default(),
        shown: RefCell::default(),
        ended: Notify::new(),
        asked: Cell::default(),
        claims_from: Cell::default(),
        drains: Cell::default(),
        ask: Rc::default(),
        stop: Rc::default(),
        runners: Runners::default(),
    });
    let end = harn_vm::block_on(work(worker.clone(), args, first, second));
    // The processes have ended: other workers may continue their runs immediately.
    for lease in worker.held.borrow().values() {
        let _ = harn_journal::wait(worker.store.write(&lease.fence(), vec![Write::Release]));
    }
    match end {
        Ok(Ok(code)) => code,
        Ok(Err(text)) => failed(&format!("harn worker: {text}")),
        Err(error) => failed(&format!("harn worker: cannot start the event loop: {error}")),
    }
}

/// Rejects queues that are neither in the manifest nor in the store.
fn known_queues(
    store: &dyn Store,
    named: &[String],
    declared: &BTreeMap<String, Queue>,
) -> Result<(), String> {
    let is_declared = |name: &&String| declared.contains_key(*name) || *name == DEFAULT_QUEUE;
    if named.iter().all(|name| is_declared(&name)) {
        return Ok(());
    }
    let stored =
        harn_journal::wait(store.run_queues(Real::new().now_ms())).map_err(|error| error.to_string())?;
    let stored: Vec<&str> = stored.iter().map(|state| &*state.queue.name).collect();
    let is_unknown = |name: &&String| !is_declared(name) && !stored.contains(&name.as_str());
    match named.iter().find(is_unknown) {
        Some(name) => {
            Err(unknown_queue(name, declared.keys().map(String::as_str).chain(stored.iter().copied())))
        }
        None => Ok(()),
    }
}

/// Returns the queues of the manifest with their limits. Other queues keep their limits in the store.
fn declared(queues: &BTreeMap<String, Queue>) -> Vec<RunQueue> {
    queues.iter().map(|(name, queue)| RunQueue { name: name.clone(), limits: limits(queue) }).collect()
}

struct Worker {
    store: Arc<dyn Store>,
    binary: PathBuf,
    place: Place,
    lease_ms: i64,
    system: Real,
    owner: String,
    /// Number of runs being executed.
    busy: Cell<usize>,
    /// Number of unexplained exits of the process of each run.
    deaths: RefCell<BTreeMap<String, u32>>,
    /// The leases of the runs being executed.
    held: RefCell<BTreeMap<String, Lease>>,
    /// The runs being executed, as in `harn worker list`.
    shown: RefCell<BTreeMap<String, Value>>,
    registration: tokio::sync::Mutex<Registration>,
    health: Arc<Health>,
    log: LogFormat,
    concurrency: usize,
    started_ms: i64,
    /// How long runs are retained after their end.
    keep: Option<Duration>,
    /// The queues that the worker serves; all if empty.
    queues: Vec<String>,
    /// The queues of the project with their limits.
    limits: Vec<RunQueue>,
    /// The queue served last.
    served: RefCell<Option<String>>,
    /// Number of completed executions.
    left: Cell<u64>,
    /// Notified when there is capacity for another run.
    ended: Notify,
    /// Start time of the pending request to the store.
    asked: Cell<Option<Duration>>,
    /// No run is claimed before this time: after an outage, executing processes renew their leases first.
    claims_from: Cell<Duration>,
    /// Whether the worker has stopped claiming runs.
    drains: Cell<bool>,
    /// Set to drain its runs.
    ask: Rc<Flag>,
    /// The idle processes.
    runners: Runners,
    /// Set to end the processes of its runs.
    stop: Rc<Flag>,
}

async fn work(
    worker: Rc<Worker>,
    args: &WorkerArgs,
    first: Interrupt,
    second: Interrupt,
) -> Result<u8, String> {
    harn_vm::spawn(probe(Rc::downgrade(&worker)));
    harn_vm::spawn(heartbeat(Rc::downgrade(&worker)));
    harn_vm::spawn(retention(Rc::downgrade(&worker)));
    worker.health.watch_event_loop();
    // A read-only store or a wrong address is an error even if no run is due.
    let (record, now_ms) = (worker.record(), worker.system.now_ms());
    let begin = async { worker.registration.lock().await.beat(record, now_ms).await };
    if let Either::Left((Err(error), _)) = select(Box::pin(begin), Box::pin(first.asked())).await {
        return Err(error.to_string());
    }
    worker.store.set_run_queues(worker.limits.clone()).await.map_err(|error| error.to_string())?;
    // Delay before the next attempt during an outage of the store.
    let mut pause = Duration::ZERO;
    // If the store never responded, its address is probably wrong, so this is not treated as an outage.
    let mut is_known = false;
    loop {
        if first.is_set() {
            worker.health.not_ready("draining");
            worker.drain(args.drain_timeout, &second).await;
            worker.leave().await;
            return Ok(signal::exit_code());
        }
        if worker.busy.get() < args.concurrency && worker.may_claim() {
            let claim = worker.store.claim_runs(worker.request(args.concurrency - worker.busy.get()));
            let claimed = match select(claim, Box::pin(first.asked())).await {
                Either::Left((claimed, _)) => claimed,
                Either::Right(((), claim)) => {
                    // Release the claimed runs. If the store is unavailable, the leases expire.
                    if let Some(Ok(claims)) = worker.system.within(SLOW, claim).await {
                        for (_, lease) in &claims.runs {
                            let _ = worker.store.write(&lease.fence(), vec![Write::Release]).await;
                        }
                    }
                    continue;
                }
            };
            let claimed = match claimed {
                Err(error) if error.is_outage() && is_known => {
                    if pause.is_zero() {
                        let text = format!("the store is not available: {error}; the worker waits");
                        worker.tell(Level::Warn, None, &text);
                    }
                    pause = (pause * 2).clamp(LOOK, PAUSE);
                    worker.wait(pause, &first).await;
                    continue;
                }
                claimed => claimed.map_err(|error| error.to_string())?,
            };
            if !is_known {
                is_known = true;
                worker.health.ready();
            }
            if !pause.is_zero() {
                worker.tell(Level::Info, None, "the store is available again");
                pause = Duration::ZERO;
            }
            let has_runs = !claimed.runs.is_empty();
            for (run, lease) in claimed.runs {
                worker.take(&run, &lease);
                harn_vm::spawn(one(worker.clone(), run, lease));
            }
            if has_runs {
                continue;
            }
            if args.drain && worker.busy.get() == 0 && !claimed.is_limited {
                worker.leave().await;
                return Ok(0);
            }
        }
        worker.system.within(LOOK, worker.ended.notified()).await;
    }
}

/// Probes the store regularly: a worker without capacity would not notice an outage.
async fn probe(worker: Weak<Worker>) {
    while let Some(own) = worker.upgrade() {
        own.asked.set(Some(own.system.monotonic()));
        let answer = own.store.lease("worker").await;
        let now = own.system.monotonic();
        let took = own.asked.take().map_or(Duration::ZERO, |asked| now.saturating_sub(asked));
        if took > SLOW || answer.is_err() {
            own.claims_from.set(now + PAUSE);
        }
        let pause = own.system.sleep(PROBE);
        drop(own);
        pause.await;
    }
}

/// Stores the worker's heartbeat and the runs that it executes.
async fn heartbeat(worker: Weak<Worker>) {
    let (mut last, mut seen_ms) = (Value::Null, i64::MIN);
    while let Some(own) = worker.upgrade() {
        let (record, now_ms) = (own.record(), own.system.now_ms());
        if record != last || now_ms.saturating_sub(seen_ms) >= BEAT_MS {
            // During an outage, the next heartbeat tries again.
            if own.registration.lock().await.beat(record.clone(), now_ms).await.is_ok() {
                (last, seen_ms) = (record, now_ms);
            }
        }
        own.runners.retire(own.system.monotonic());
        let pause = own.system.sleep(CHANGES);
        drop(own);
        pause.await;
    }
}

/// Removes runs whose retention time is over.
async fn retention(worker: Weak<Worker>) {
    while let Some(own) = worker.upgrade() {
        let Some(keep) = own.keep else { return };
        let keep_ms = i64::try_from(keep.as_millis()).unwrap_or(i64::MAX);
        let before_ms = own.system.now_ms().saturating_sub(keep_ms);
        let removed = match remove_old(&*own.store, &ENDS, before_ms).await {
            Ok(0) => Ok(0),
            Ok(count) => own.store.compact().await.map(|()| count),
            Err(error) => Err(error),
        };
        match removed {
            Ok(0) => {}
            Ok(count) => own.tell(Level::Info, None, &format!("{count} runs removed after their time")),
            // Outages are reported elsewhere; the next pass tries again.
            Err(error) if error.is_outage() => {}
            Err(error) => own.tell(Level::Warn, None, &format!("old runs cannot be removed: {error}")),
        }
        // At most a tenth of the retention time, so that runs are removed soon after it.
        let pause = own.system.sleep((keep / 10).clamp(CHANGES, PRUNE));
        drop(own);
        pause.await;
    }
}

/// Executes one run.
async fn one(worker: Rc<Worker>, run: Run, lease: Lease) {
    let id = run.id.clone();
    match queue_next(&*worker.store, &run, &lease.fence()) {
        Ok(Some(next)) => worker.tell(Level::Info, Some(&next), &format!("run {next} queued")),
        Ok(None) => {}
        Err(error) => {
            let text = format!("run {id}: the next run of its schedule cannot be queued: {error}");
            worker.tell(Level::Error, Some(&id), &text);
            if error.is_outage() {
                // The next owner of the run queues it.
                let _ = worker.store.write(&lease.fence(), vec![Write::Release]).await;
                worker.held.borrow_mut().remove(&id);
                return worker.done(&id);
            }
        }
    }
    let info: Value = serde_json::from_slice(&run.info).unwrap_or_default();
    let job = Job { id: id.clone(), epoch: lease.epoch, lease_ms: worker.lease_ms };
    let runner = worker.runner(info["dir"].as_str().map(PathBuf::from), &job);
    let Outcome { code, how } = {
        let running = Box::pin(runner.execute(&job));
        match select(running, Box::pin(worker.hold(&lease))).await {
            Either::Left((outcome, _)) => outcome,
            Either::Right(((), running)) => running.await,
        }
    };
    let later = code == Some(LATER);
    if worker.stop.is_set() {
        // It is released with the others, after all processes have ended.
        return worker.done(&id);
    }
    if !worker.drains.get() {
        worker.runners.put(runner, worker.system.monotonic());
    }
    worker.held.borrow_mut().remove(&id);
    for tries in 1.. {
        match worker.look_after(&run, &lease, &how, later).await {
            Err(error) if error.is_outage() && tries < TRIES && !worker.stop.is_set() => {
                worker.system.sleep(LOOK * tries).await;
            }
            Err(error) => {
                worker.tell(Level::Error, Some(&id), &format!("run {id}: {error}"));
                break;
            }
            Ok(()) => break,
        }
    }
    worker.done(&id);
}

impl Worker {
    /// Returns the request for up to `limit` runs.
    fn request(&self, limit: usize) -> ClaimRuns {
        let now_ms = self.system.now_ms();
        ClaimRuns {
            owner: self.owner.clone(),
            now_ms,
            until_ms: now_ms + self.lease_ms,
            limit,
            queues: self.queues.clone(),
            after: self.served.borrow().clone(),
            can_follow,
        }
    }

    /// Registers a claimed run.
    fn take(&self, run: &Run, lease: &Lease) {
        *self.served.borrow_mut() = Some(run.scheduling.queue.clone());
        self.busy.set(self.busy.get() + 1);
        self.held.borrow_mut().insert(run.id.clone(), lease.clone());
        let shown =
            json!({"id": run.id.as_str(), "program": run.program.as_str(), "since_ms": self.system.now_ms()});
        self.shown.borrow_mut().insert(run.id.clone(), shown);
        self.health.metrics(|metrics| metrics.set(BUSY, &[], self.busy.get() as f64));
    }

    /// Frees the capacity of a run.
    fn done(&self, id: &str) {
        self.busy.set(self.busy.get() - 1);
        self.left.set(self.left.get() + 1);
        self.shown.borrow_mut().remove(id);
        self.health.metrics(|metrics| metrics.set(BUSY, &[], self.busy.get() as f64));
        self.ended.notify_one();
    }

    /// Returns the worker's record for other processes.
    fn record(&self) -> Value {
        let runs: Vec<Value> = self.shown.borrow().values().cloned().collect();
        let status = if self.drains.get() { "draining" } else { "working" };
        json!({
            "pid": self.system.pid(), "version": env!("CARGO_PKG_VERSION"), "started_ms": self.started_ms,
            "concurrency": self.concurrency, "queues": self.queues.clone(), "status": status, "runs": runs, "ended": self.left.get(),
        })
    }

    /// Records that the worker has stopped. Does not wait for the end of an outage.
    async fn leave(&self) {
        let mut record = self.record();
        record["status"] = "stopped".into();
        record["runs"] = Value::Array(Vec::new());
        let end = async { self.registration.lock().await.end(record, self.system.now_ms()).await };
        let _ = self.system.within(SLOW, Box::pin(end)).await;
    }

    /// Records metrics of a completed execution. `before` is the run as it was claimed.
    fn count(&self, before: &Run, now: &Run) {
        let status = now.status_at(self.system.now_ms()).word();
        self.health.metrics(|metrics| {
            metrics.add(LEFT, &[("status", status)], 1.0);
            if now.tries > before.tries {
                let failure =
                    now.failure.as_deref().and_then(|bytes| serde_json::from_slice::<Value>(bytes).ok());
                let category = failure.as_ref().and_then(|failure| failure["category"].as_str());
                metrics.add(FAILURES, &[("category", category.unwrap_or("generic"))], 1.0);
            }
            if let (Some(started_ms), Some(ended_ms)) = (now.started_ms, now.ended_ms) {
                metrics.observe(TIME, &[("status", status)], (ended_ms - started_ms).max(0) as f64 / 1000.0);
            }
        });
        if now.status.is_end() {
            let info: Value = serde_json::from_slice(&now.info).unwrap_or_default();
            self.health.used(Usage::from_data(&info["usage"]));
        }
    }

    /// Drains the worker. For half of the time, runs continue unchanged; then each one stops as soon as it has no
    /// external operation in progress. Runs that remain at the end, or at a second signal, are interrupted.
    async fn drain(&self, limit: Duration, second: &Interrupt) {
        self.drains.set(true);
        self.runners.clear();
        if self.busy.get() > 0 {
            let count = self.busy.get();
            let runs = if count == 1 { "1 run".to_owned() } else { format!("{count} runs") };
            let limit = limit.as_secs_f64();
            let text = format!(
                "the worker stops: {runs} in progress may take {limit} s; a second signal interrupts them"
            );
            self.tell(Level::Info, None, &text);
        }
        let begin = self.system.monotonic();
        for (part, flag) in [(limit / 2, &self.ask), (limit, &self.stop)] {
            let until = begin + part;
            while self.busy.get() > 0 && !second.is_set() && self.system.monotonic() < until {
                self.system.within(LOOK, self.ended.notified()).await;
            }
            flag.set();
        }
        // They end immediately; their output so far is shown.
        while self.busy.get() > 0 {
            self.system.within(LOOK, self.ended.notified()).await;
        }
    }

    /// Returns a process for a run: an idle one in the same directory, or a new one.
    fn runner(&self, dir: Option<PathBuf>, job: &Job) -> Rc<Runner> {
        let spare = self.concurrency.saturating_sub(self.busy.get());
        if let Some(runner) = self.runners.take(dir.as_ref(), spare) {
            return runner;
        }
        let program = self.binary.display().to_string();
        let command = Command { dir, env: self.own_store(), ..Command::new(program) };
        let mark = Mark::new(format!("{:016x}", self.system.random_u64()));
        let log = self.log;
        let show = move |run: &str, stream, text: String| {
            let text = log.output(Some(run), stream, text);
            if text.is_empty() {
                return;
            }
            let system = Real::new();
            match stream {
                Stream::Err => system.write_err(&text),
                // Flushed, because the reader may be waiting for it.
                Stream::Out => {
                    let _ = system.write_out(&text);
                    let _ = system.flush();
                }
            }
        };
        Runner::start(command, job, [self.ask.clone(), self.stop.clone()], mark, Rc::new(show))
    }

    /// Returns the environment variables that make a process use the worker's store, whatever its project.
    fn own_store(&self) -> Vec<(String, Option<String>)> {
        let (file, url) = match &self.place {
            Place::File(path) => (Some(path.display().to_string()), None),
            Place::Url(url) => (None, Some(url.clone())),
        };
        vec![("HARN_STATE_FILE".to_owned(), file), ("HARN_STORE_URL".to_owned(), url)]
    }

    /// Renews the lease until the process of the run does. On a busy machine a process may start more slowly than the
    /// lease lasts, and other workers would repeatedly take over the run.
    async fn hold(&self, lease: &Lease) {
        let mut until_ms = lease.until_ms;
        let last_ms = self.system.now_ms().saturating_add(START.as_millis() as i64);
        while self.system.now_ms() < last_ms {
            self.system.sleep(Duration::from_millis(self.lease_ms.unsigned_abs() / 3)).await;
            let found = self.store.lease(&lease.scope).await;
            if !matches!(found, Ok(Some(held)) if held.epoch == lease.epoch && held.until_ms == until_ms) {
                return;
            }
            until_ms = self.system.now_ms() + self.lease_ms;
            if self.store.write(&lease.fence(), vec![Write::Renew { until_ms }]).await.is_err() {
                return;
            }
        }
    }

    fn tell(&self, level: Level, run: Option<&str>, text: &str) {
        self.log.tell(level, run, text);
    }

    /// Stores the status of a run whose process has ended. After an unexplained exit the run is retried a limited
    /// number of times.
    /// `later`: the process reported that the run continues later.
    async fn look_after(
        &self,
        before: &Run,
        lease: &Lease,
        how: &str,
        later: bool,
    ) -> Result<(), StoreError> {
        let id = &*before.id;
        let run = self.store.run(id).await?;
        let Some(run) = run else { return Ok(()) };
        let is_own = run.lease.as_ref().is_some_and(|held| held.epoch == lease.epoch);
        if run.status != RunStatus::Running || !is_own {
            self.deaths.borrow_mut().remove(id);
            self.count(before, &run);
            let level = if run.status == RunStatus::Failed { Level::Error } else { Level::Info };
            let text = format!("run {id}: {}", run.status_at(self.system.now_ms()).word());
            self.tell(level, Some(id), &text);
            return Ok(());
        }
        if later || self.ask.is_set() {
            // The store was unavailable, or the signal came before the process could handle it.
            return self.store.write(&lease.fence(), vec![Write::Release]).await.map(drop);
        }
        let deaths = {
            let mut deaths = self.deaths.borrow_mut();
            let count = deaths.entry(id.to_owned()).or_default();
            *count += 1;
            *count
        };
        let mut writes = vec![Write::Release];
        if deaths >= ATTEMPTS {
            let note = format!("its process has ended {deaths} times before the run did: {how}");
            self.tell(Level::Error, Some(id), &format!("run {id}: {note}; `harn resume {id}` tries again"));
            let status = NewStatus::Suspended { due_ms: None, answers: run.answers };
            let at_ms = self.system.now_ms();
            writes.insert(0, Write::RunStatus { run: id.to_owned(), status, note, at_ms });
        } else {
            let text = format!("run {id}: its process ended before the run ({how}); the run will be resumed");
            self.tell(Level::Warn, Some(id), &text);
        }
        self.store.write(&lease.fence(), writes).await.map(drop)
    }

    /// Whether the store is available and has been for some time.
    fn may_claim(&self) -> bool {
        let now = self.system.monotonic();
        now >= self.claims_from.get() && self.asked.get().is_none_or(|asked| now.saturating_sub(asked) < SLOW)
    }

    /// Sleeps until `time` has passed or the first signal arrives.
    async fn wait(&self, time: Duration, first: &Interrupt) {
        let until = self.system.monotonic() + time;
        while self.system.monotonic() < until && !first.is_set() {
            self.system.sleep(LOOK).await;
        }
    }
}
