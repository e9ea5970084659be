//! `harn worker`: takes runs from the store that are queued, due or abandoned, each in a process of its own.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use harn_journal::owner;
use harn_store::{Lease, NewStatus, Place, Run, RunStatus, Store, Write};
use harn_system::{Command, Real, System, SystemExt};
use harn_value::Data as Value;
use harn_vm::Interrupt;
use tokio::sync::Notify;

use super::durable::{failed, store};
use super::submit::queue_next;
use crate::args::WorkerArgs;
use crate::{program, signal};

/// How often the store is asked for work.
const LOOK: Duration = Duration::from_millis(100);

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
    let interrupt = Interrupt::default();
    signal::stop_on_signal(interrupt.clone());
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
    });
    let end = harn_vm::block_on(work(worker.clone(), args, interrupt));
    // The processes are gone by now: others may go on with their runs at once.
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
}

async fn work(worker: Rc<Worker>, args: &WorkerArgs, interrupt: Interrupt) -> Result<u8, String> {
    loop {
        if interrupt.is_set() {
            return Ok(signal::exit_code());
        }
        if worker.busy.get() < args.concurrency {
            let now_ms = worker.system.now_ms();
            let claimed = worker.store.claim_run(&worker.owner, now_ms, now_ms + worker.lease_ms).await;
            match claimed.map_err(|error| error.to_string())? {
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

/// Has one run worked on.
async fn one(worker: Rc<Worker>, run: Run, lease: Lease) {
    let id = run.id.clone();
    match queue_next(&*worker.store, &run, &lease.fence()) {
        Ok(Some(next)) => worker.tell(&format!("run {next} is queued")),
        Ok(None) => {}
        Err(error) => {
            worker.tell(&format!("run {id}: the next run of its schedule cannot be queued: {error}"))
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
    let running = worker.system.run(command);
    let ran = match select(running, Box::pin(worker.hold(&lease))).await {
        Either::Left((ran, _)) => ran,
        Either::Right(((), running)) => running.await,
    };
    let how = match ran {
        Ok(ran) => {
            let _ = worker.system.write_out(&String::from_utf8_lossy(&ran.stdout));
            let _ = worker.system.flush();
            worker.system.write_err(&String::from_utf8_lossy(&ran.stderr));
            match (ran.code, ran.signal) {
                (Some(code), _) => format!("exit code {code}"),
                (None, signal) => format!("signal {}", signal.unwrap_or_default()),
            }
        }
        Err(error) => format!("its process cannot be started in {}: {error}", info["dir"]),
    };
    worker.held.borrow_mut().remove(&id);
    if let Err(text) = worker.look_after(&id, &lease, &how).await {
        worker.tell(&format!("run {id}: {text}"));
    }
    worker.busy.set(worker.busy.get() - 1);
    worker.ended.notify_one();
}

impl Worker {
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
        self.system.write_err(&format!("[harn] {}\n", harn_syntax::printable(text)));
    }

    /// Says how a run stands whose process has ended. One that ended without a word is worked on again, but not for ever.
    async fn look_after(&self, id: &str, lease: &Lease, how: &str) -> Result<(), String> {
        let run = self.store.run(id).await.map_err(|error| error.to_string())?;
        let Some(run) = run else { return Ok(()) };
        let is_own = run.lease.as_ref().is_some_and(|held| held.epoch == lease.epoch);
        if run.status != RunStatus::Running || !is_own {
            self.deaths.borrow_mut().remove(id);
            self.tell(&format!("run {id}: {}", run.status_at(self.system.now_ms()).word()));
            return Ok(());
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
            self.tell(&format!("run {id}: its process has ended before the run did ({how}); it goes on"));
        }
        self.store.write(&lease.fence(), writes).await.map(drop).map_err(|error| error.to_string())
    }
}
