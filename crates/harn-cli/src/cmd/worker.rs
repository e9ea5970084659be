//! `harn worker`: takes runs from the store that are queued, due or abandoned, each in a process of its own.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use harn_journal::owner;
use harn_store::{Error as StoreError, Lease, NewStatus, Place, Run, RunStatus, Store, Write};
use harn_system::real::process::{self, Source};
use harn_system::{Command, Real, System, SystemExt};
use harn_value::Data as Value;
use harn_vm::Interrupt;
use tokio::sync::Notify;

use super::durable::{can_follow, failed, store};
use super::submit::queue_next;
use crate::args::WorkerArgs;
use crate::{program, signal};

/// How often the store is asked for work.
const LOOK: Duration = Duration::from_millis(100);

/// The longest pause between two tries to reach the store.
const PAUSE: Duration = Duration::from_secs(5);

/// How often a worker looks whether the store answers, and the longest time that an answer takes.
const PROBE: Duration = Duration::from_secs(1);
const SLOW: Duration = Duration::from_secs(2);

/// How often the outcome of a run is written while the store is away, before it is left to the end of the lease.
const TRIES: u32 = 20;

/// The exit code of a process whose run continues later.
const LATER: i32 = 75;

/// How long a process may take until it holds the lease of its run itself, however short that is.
const START: Duration = Duration::from_secs(60);

/// A run whose process ends so often without a word is left to people.
const ATTEMPTS: u32 = 3;

/// Works until it is told to stop; gives the exit code.
#[expect(
    clippy::disallowed_methods,
    reason = "the path of the program itself, to start it anew for each run"
)]
pub(crate) fn worker(args: &WorkerArgs) -> u8 {
    let found = program::store_place(&Real::new()).and_then(|place| Ok((place, store()?)));
    let (place, store) = match found {
        Ok(found) => found,
        Err(text) => return failed(&format!("harn worker: {text}")),
    };
    let Ok(binary) = std::env::current_exe() else {
        return failed("harn worker: the program itself cannot be found");
    };
    let (first, second) = (Interrupt::default(), Interrupt::default());
    signal::stop_in_two_steps(first.clone(), second.clone());
    let lease_ms = i64::try_from(args.lease.as_millis()).unwrap_or(i64::MAX / 4).min(i64::MAX / 4);
    let worker = Rc::new(Worker {
        store,
        binary,
        place,
        lease_ms,
        system: Real::new(),
        owner: owner(&Real::new()).0,
        busy: Cell::new(0),
        deaths: RefCell::default(),
        held: RefCell::default(),
        ended: Notify::new(),
        asked: Cell::default(),
        claims_from: Cell::default(),
        ask: Flag::default(),
        stop: Flag::default(),
    });
    let end = harn_vm::block_on(work(worker.clone(), args, first, second));
    // The processes are gone by now: other workers may continue their runs at once.
    for lease in worker.held.borrow().values() {
        let _ = harn_journal::wait(worker.store.write(&lease.fence(), vec![Write::Release]));
    }
    match end {
        Ok(Ok(code)) => code,
        Ok(Err(text)) => failed(&format!("harn worker: {text}")),
        Err(error) => failed(&format!("harn worker: cannot start the event loop: {error}")),
    }
}

struct Worker {
    store: Arc<dyn Store>,
    binary: PathBuf,
    place: Place,
    lease_ms: i64,
    system: Real,
    owner: String,
    /// How many runs are being worked on.
    busy: Cell<usize>,
    /// How often the process of a run has ended without a word.
    deaths: RefCell<BTreeMap<String, u32>>,
    /// The leases of the runs that are being worked on.
    held: RefCell<BTreeMap<String, Lease>>,
    /// Rings when there is room for another run.
    ended: Notify,
    /// Since when the store has not answered.
    asked: Cell<Option<Duration>>,
    /// No run is claimed before: after an outage, processes that still work on their runs renew their leases first.
    claims_from: Cell<Duration>,
    /// Set when its runs are to make room.
    ask: Flag,
    /// Set when the processes of its runs are to end.
    stop: Flag,
}

/// A flag that is set once, and whose waiters are woken then.
#[derive(Default)]
struct Flag {
    is_set: Cell<bool>,
    waiters: Notify,
}

impl Flag {
    fn set(&self) {
        self.is_set.set(true);
        self.waiters.notify_waiters();
    }

    async fn wait(&self) {
        let notified = self.waiters.notified();
        if !self.is_set.get() {
            notified.await;
        }
    }
}

async fn work(
    worker: Rc<Worker>,
    args: &WorkerArgs,
    first: Interrupt,
    second: Interrupt,
) -> Result<u8, String> {
    harn_vm::spawn(probe(Rc::downgrade(&worker)));
    // How long an outage of the store is waited out until the next try.
    let mut pause = Duration::ZERO;
    // A store that never answered has a wrong address rather than an outage.
    let mut is_known = false;
    loop {
        if first.is_set() {
            worker.drain(args.drain_timeout, &second).await;
            return Ok(signal::exit_code());
        }
        if worker.busy.get() < args.concurrency && worker.may_claim() {
            let now_ms = worker.system.now_ms();
            let until_ms = now_ms + worker.lease_ms;
            let claim = worker.store.claim_run(&worker.owner, now_ms, until_ms, can_follow);
            let claimed = match select(claim, Box::pin(first.asked())).await {
                Either::Left((claimed, _)) => claimed,
                Either::Right(((), claim)) => {
                    // What it has claimed is given back. If the store is away, its lease runs out.
                    if let Some(Ok(Some((_, lease)))) = worker.system.within(SLOW, claim).await {
                        let _ = worker.store.write(&lease.fence(), vec![Write::Release]).await;
                    }
                    continue;
                }
            };
            let claimed = match claimed {
                Err(error) if error.is_outage() && is_known => {
                    if pause.is_zero() {
                        worker.tell(&format!("the store is not available: {error}; the worker waits"));
                    }
                    pause = (pause * 2).clamp(LOOK, PAUSE);
                    worker.wait(pause, &first).await;
                    continue;
                }
                claimed => claimed.map_err(|error| error.to_string())?,
            };
            is_known = true;
            if !pause.is_zero() {
                worker.tell("the store is available again");
                pause = Duration::ZERO;
            }
            match claimed {
                Some((run, lease)) => {
                    worker.busy.set(worker.busy.get() + 1);
                    worker.held.borrow_mut().insert(run.id.clone(), lease.clone());
                    harn_vm::spawn(one(worker.clone(), run, lease));
                    continue;
                }
                None if args.drain && worker.busy.get() == 0 => return Ok(0),
                None => {}
            }
        }
        worker.system.within(LOOK, worker.ended.notified()).await;
    }
}

/// Asks the store something now and then: a worker that has no room for another run would not notice an outage.
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

/// Has one run worked on.
async fn one(worker: Rc<Worker>, run: Run, lease: Lease) {
    let id = run.id.clone();
    match queue_next(&*worker.store, &run, &lease.fence()) {
        Ok(Some(next)) => worker.tell(&format!("run {next} queued")),
        Ok(None) => {}
        Err(error) => {
            worker.tell(&format!("run {id}: the next run of its schedule cannot be queued: {error}"));
            if error.is_outage() {
                // Whoever takes the run next queues it.
                let _ = worker.store.write(&lease.fence(), vec![Write::Release]).await;
                worker.held.borrow_mut().remove(&id);
                worker.busy.set(worker.busy.get() - 1);
                return worker.ended.notify_one();
            }
        }
    }
    let info: Value = serde_json::from_slice(&run.info).unwrap_or_default();
    let command = Command {
        arguments: vec![
            "resume".to_owned(),
            id.clone(),
            "--lease".to_owned(),
            format!("{}:{}", lease.epoch, worker.lease_ms),
        ],
        dir: info["dir"].as_str().map(PathBuf::from),
        env: worker.own_store(),
        ..Command::new(worker.binary.display().to_string())
    };
    let (mut out, mut err) = (Lines::default(), Lines::default());
    let ran = {
        let told = |source, piece: &[u8]| match source {
            Source::Out => worker.show_out(&out.add(piece)),
            Source::Err => worker.system.write_err(&err.add(piece)),
        };
        let running = Box::pin(process::run_told(command, worker.ask.wait(), worker.stop.wait(), told));
        match select(running, Box::pin(worker.hold(&lease))).await {
            Either::Left((ran, _)) => ran,
            Either::Right(((), running)) => running.await,
        }
    };
    worker.show_out(&out.rest());
    worker.system.write_err(&err.rest());
    let later = matches!(&ran, Ok(ran) if ran.code == Some(LATER));
    let how = match ran {
        Ok(ran) => match (ran.code, ran.signal) {
            (Some(code), _) => format!("exit code {code}"),
            (None, signal) => format!("signal {}", signal.unwrap_or_default()),
        },
        Err(error) => format!("its process cannot be started in {}: {error}", info["dir"]),
    };
    if worker.stop.is_set.get() {
        // It is given back with the others, once all have ended.
        worker.busy.set(worker.busy.get() - 1);
        worker.ended.notify_one();
        return;
    }
    worker.held.borrow_mut().remove(&id);
    for tries in 1.. {
        match worker.look_after(&id, &lease, &how, later).await {
            Err(error) if error.is_outage() && tries < TRIES && !worker.stop.is_set.get() => {
                worker.system.sleep(LOOK * tries).await;
            }
            Err(error) => {
                worker.tell(&format!("run {id}: {error}"));
                break;
            }
            Ok(()) => break,
        }
    }
    worker.busy.set(worker.busy.get() - 1);
    worker.ended.notify_one();
}

/// What a process writes, in whole lines: several processes write at the same time.
#[derive(Default)]
struct Lines(Vec<u8>);

/// A line that is longer is shown in parts.
const LONGEST_LINE: usize = 64 << 10;

impl Lines {
    /// Takes what has come, and gives what is to be shown now.
    fn add(&mut self, piece: &[u8]) -> String {
        self.0.extend_from_slice(piece);
        let whole = match self.0.iter().rposition(|byte| *byte == b'\n') {
            Some(at) => at + 1,
            // Up to where the last letter begins: it may not have come whole.
            None if self.0.len() > LONGEST_LINE => {
                let last = self.0.len() - 4;
                self.0[last..].iter().rposition(|byte| byte & 0xc0 != 0x80).map_or(last, |at| last + at)
            }
            None => 0,
        };
        let rest = self.0.split_off(whole);
        String::from_utf8_lossy(&std::mem::replace(&mut self.0, rest)).into_owned()
    }

    /// What is left at the end.
    fn rest(&mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.0)).into_owned()
    }
}

impl Worker {
    /// Lets the runs in progress end: for half of the time as they are, then at the first moment at which nothing is under way
    /// outside. What is left at the end, or when a second signal comes, is interrupted.
    async fn drain(&self, limit: Duration, second: &Interrupt) {
        if self.busy.get() > 0 {
            let count = self.busy.get();
            let runs = if count == 1 { "1 run".to_owned() } else { format!("{count} runs") };
            let limit = limit.as_secs_f64();
            self.tell(&format!(
                "the worker stops: {runs} in progress may take {limit} s; a second signal interrupts them"
            ));
        }
        let begin = self.system.monotonic();
        for (part, flag) in [(limit / 2, &self.ask), (limit, &self.stop)] {
            let until = begin + part;
            while self.busy.get() > 0 && !second.is_set() && self.system.monotonic() < until {
                self.system.within(LOOK, self.ended.notified()).await;
            }
            flag.set();
        }
        // They end at once; what they have written by then is shown.
        while self.busy.get() > 0 {
            self.system.within(LOOK, self.ended.notified()).await;
        }
    }

    /// Writes to standard output, where somebody may be waiting for it.
    fn show_out(&self, text: &str) {
        let _ = self.system.write_out(text);
        let _ = self.system.flush();
    }

    /// What makes a process use the store of the worker, whatever project it works in.
    fn own_store(&self) -> Vec<(String, Option<String>)> {
        let (file, url) = match &self.place {
            Place::File(path) => (Some(path.display().to_string()), None),
            Place::Url(url) => (None, Some(url.clone())),
        };
        vec![("HARN_STATE_FILE".to_owned(), file), ("HARN_STORE_URL".to_owned(), url)]
    }

    /// Holds a lease until the process of the run does: on a busy machine it may take longer to start than the lease lasts, and
    /// others would take the run over again and again.
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

    fn tell(&self, text: &str) {
        self.system.write_err(&harn_syntax::notice(text));
    }

    /// Says how a run stands whose process has ended. One that ended without a word is worked on again, but not for ever.
    /// `later`: it said that it continues later.
    async fn look_after(&self, id: &str, lease: &Lease, how: &str, later: bool) -> Result<(), StoreError> {
        let run = self.store.run(id).await?;
        let Some(run) = run else { return Ok(()) };
        let is_own = run.lease.as_ref().is_some_and(|held| held.epoch == lease.epoch);
        if run.status != RunStatus::Running || !is_own {
            self.deaths.borrow_mut().remove(id);
            self.tell(&format!("run {id}: {}", run.status_at(self.system.now_ms()).word()));
            return Ok(());
        }
        if later || self.ask.is_set.get() {
            // The store was away, or the signal came before its process could watch for it.
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
            self.tell(&format!("run {id}: {note}; `harn resume {id}` tries again"));
            let status = NewStatus::Suspended { due_ms: None, answers: run.answers };
            let at_ms = self.system.now_ms();
            writes.insert(0, Write::RunStatus { run: id.to_owned(), status, note, at_ms });
        } else {
            self.tell(&format!(
                "run {id}: its process ended before the run ({how}); the run will be resumed"
            ));
        }
        self.store.write(&lease.fence(), writes).await.map(drop)
    }

    /// Whether the store is there, and has been for some time.
    fn may_claim(&self) -> bool {
        let now = self.system.monotonic();
        now >= self.claims_from.get() && self.asked.get().is_none_or(|asked| now.saturating_sub(asked) < SLOW)
    }

    /// Waits, but not beyond the first signal.
    async fn wait(&self, time: Duration, first: &Interrupt) {
        let until = self.system.monotonic() + time;
        while self.system.monotonic() < until && !first.is_set() {
            self.system.sleep(LOOK).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_shown_whole() {
        let mut lines = Lines::default();
        assert_eq!(lines.add(b"a\nb"), "a\n");
        assert_eq!(lines.add(b"c"), "");
        assert_eq!(lines.add("\nd\nä".as_bytes()), "bc\nd\n");
        assert_eq!(lines.rest(), "ä");
        let long = "ä".repeat(LONGEST_LINE);
        let (first, last) = long.as_bytes().split_at(LONGEST_LINE + 1);
        let shown = lines.add(first);
        assert!(!shown.contains('\u{fffd}') && shown.len() >= LONGEST_LINE);
        assert_eq!(shown + &lines.add(last) + &lines.rest(), long);
    }
}
