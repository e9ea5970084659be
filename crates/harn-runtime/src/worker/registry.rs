//! The workers of a program.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use harn_agent::AgentEvent;
use harn_agent::lifecycle::{Life, Record, Update};
use harn_stdlib::timestamp_now;
use harn_system::System;
use harn_value::Value;
use harn_value::{Data as Json, json};
use harn_vm::task::Task;
use harn_vm::task_scope::TaskScope;
use harn_vm::{Cx, Vm};
use tokio::sync::Notify;

use crate::command_policy::CommandPolicy;
use crate::convert::from_json;
use crate::hooks::Hooks;
use crate::rest::write;
use crate::session::{Session, Sessions};
use crate::worker::terms::Limits;

/// A worker of this program.
pub(crate) struct Worker {
    /// The part of its state that can be saved.
    pub(crate) record: RefCell<Record>,
    /// The configuration that it was started with, including closures.
    pub(crate) config: Value,
    /// The nesting depth of loops where it was started, and its limit.
    pub(crate) depth: (u64, u64),
    /// Its permissions.
    pub(crate) limits: Limits,
    /// The command policies of its last caller.
    pub(crate) callers: RefCell<Vec<Rc<CommandPolicy>>>,
    /// The worker that started it.
    pub(crate) owner: Option<Rc<Worker>>,
    /// Its current task, or the last one.
    pub(crate) task: RefCell<Option<Rc<Task>>>,
    /// Notifies waiting tasks of a changed state.
    pub(crate) changed: Notify,
    /// Events that hooks of the project have not received yet: event and payload.
    for_hooks: RefCell<Vec<(&'static str, Json)>>,
    /// The system layer for its snapshot, with the permissions of the code that started it.
    system: Rc<dyn System>,
    /// Whether a failed write of the snapshot was reported.
    warned: Cell<bool>,
    /// Whether the program received its final state.
    shown: Cell<bool>,
}

impl Worker {
    pub(crate) fn new(
        cx: &Cx,
        record: Record,
        config: Value,
        limits: Limits,
        depth: (u64, u64),
        owner: Option<Rc<Worker>>,
    ) -> Worker {
        Worker {
            record: RefCell::new(record),
            config,
            limits,
            callers: RefCell::default(),
            depth,
            owner,
            task: RefCell::default(),
            changed: Notify::new(),
            for_hooks: RefCell::default(),
            system: cx.system(),
            warned: Cell::new(false),
            shown: Cell::new(false),
        }
    }

    /// Returns its state.
    pub(crate) fn life(&self) -> Life {
        self.record.borrow().life
    }

    /// Returns the handle that scripts receive.
    pub(crate) fn handle(&self) -> Value {
        self.shown.set(self.life() != Life::Running);
        from_json(&self.record.borrow().handle())
    }

    /// Returns the directory of the snapshot if the worker can be dropped from memory: it has ended, the program has
    /// received its final state, and it has no other references.
    fn only_snapshot(self: &Rc<Worker>) -> Option<String> {
        let record = self.record.borrow();
        let is_over = !record.life.blocks() && self.shown.get() && Rc::strong_count(self) == 1;
        let path = record.snapshot_path.as_deref().map(Path::new);
        let path = path.filter(|_| is_over && record.closures.is_empty() && !self.warned.get())?;
        let folder = path.parent().filter(|folder| *path == snapshot_file(folder, &record.id))?;
        Some(folder.to_str()?.to_owned())
    }

    /// Changes the record, saves it, and notifies waiting tasks and subscribers.
    pub(crate) fn change(&self, cx: &Cx, work: impl FnOnce(&mut Record, &str) -> Option<Update>) {
        let now = timestamp_now(cx);
        let update = work(&mut self.record.borrow_mut(), &now);
        self.shown.set(false);
        if let Err(problem) = self.save()
            && !self.warned.replace(true)
        {
            let text = format!("warning: a worker's snapshot is not up to date: {problem}");
            cx.vm().system().write_err(&harn_syntax::notice(&text));
        }
        if let Some(update) = update {
            self.announce(cx, update);
        }
        self.changed.notify_waiters();
    }

    /// Queues an event for the subscribers of the session that started the worker.
    pub(crate) fn announce(&self, cx: &Cx, update: Update) {
        let record = self.record.borrow();
        let fields = json!({
            "worker_id": record.id, "worker_name": record.name, "mode": record.mode.as_str(),
            "event": update.as_str(), "status": record.life.as_str(), "task": record.task(), "error": record.error,
        });
        if cx.state::<Hooks>().watches(update.hook()) {
            let worker = json!({
                "id": record.id, "name": record.name, "mode": record.mode.as_str(), "status": record.life.as_str(),
                "task": record.task(), "error": record.error,
            });
            self.for_hooks.borrow_mut().push((update.hook(), json!({"worker": worker})));
        }
        let Some(id) = &record.lineage.parent_session_id else { return };
        let Some(session) = cx.state::<Sessions>().known(id) else { return };
        session.update(AgentEvent::WorkerUpdate(fields));
    }

    /// Writes the snapshot, if the worker has one.
    ///
    /// # Errors
    /// A message that names the file.
    pub(crate) fn save(&self) -> Result<(), String> {
        let record = self.record.borrow();
        let Some(path) = &record.snapshot_path else { return Ok(()) };
        write(&*self.system, Path::new(path), &record.snapshot())
    }
}

/// Maximum number of workers in memory whose final state the program has received.
const RECENT: usize = 64;

/// All workers, in creation order. Older workers that have ended are only stored in their snapshots, so that a program
/// that starts workers for months needs only memory for their ids.
#[derive(Default)]
pub(crate) struct Workers {
    /// Workers in memory, with their numbers.
    all: RefCell<Vec<(u64, Rc<Worker>)>>,
    /// Numbers and snapshot directories of the others, by id.
    stored: RefCell<BTreeMap<String, (u64, Rc<str>)>>,
    /// The number of the next worker.
    next: Cell<u64>,
    /// The worker that a task belongs to.
    pub(crate) running: TaskScope<Rc<Worker>>,
}

/// A worker of the program.
pub(crate) enum Known {
    /// In memory.
    Here(Rc<Worker>),
    /// Stored in this snapshot.
    Stored(PathBuf),
}

impl Workers {
    /// Returns the worker with an id, if it is in memory.
    pub(crate) fn here(&self, id: &str) -> Option<Rc<Worker>> {
        let all = self.all.borrow();
        all.iter().find(|(_, worker)| worker.record.borrow().id == id).map(|(_, worker)| worker.clone())
    }

    /// Returns the worker with an id.
    pub(crate) fn known(&self, id: &str) -> Option<Known> {
        let stored = || {
            let stored = self.stored.borrow();
            stored.get(id).map(|(_, folder)| Known::Stored(snapshot_file(Path::new(&**folder), id)))
        };
        self.here(id).map(Known::Here).or_else(stored)
    }

    /// Adds a worker, and replaces one with the same id.
    pub(crate) fn add(&self, worker: Rc<Worker>) {
        let id = worker.record.borrow().id.clone();
        let mut all = self.all.borrow_mut();
        if let Some((_, known)) = all.iter_mut().find(|(_, known)| known.record.borrow().id == id) {
            *known = worker;
            return;
        }
        let stored = self.stored.borrow_mut().remove(&id);
        let number = stored.map_or_else(|| self.next.replace(self.next.get() + 1), |(number, _)| number);
        all.push((number, worker));
        all.sort_unstable_by_key(|(number, _)| *number);
        drop(all);
        self.leave_to_snapshots();
    }

    /// Drops the oldest workers that have ended, except for the recent ones.
    fn leave_to_snapshots(&self) {
        let (mut all, mut stored) = (self.all.borrow_mut(), self.stored.borrow_mut());
        let folders: Vec<Option<String>> = all.iter().map(|(_, worker)| worker.only_snapshot()).collect();
        let mut surplus = folders.iter().flatten().count().saturating_sub(RECENT);
        let mut folders = folders.into_iter();
        all.retain(|(number, worker)| {
            let folder = folders.next().flatten().filter(|_| surplus > 0);
            let Some(folder) = folder else { return true };
            surplus -= 1;
            // Nearly all are in one directory.
            let last = stored.values().next_back().map(|(_, last)| last.clone());
            let folder = last.filter(|last| **last == *folder).unwrap_or_else(|| folder.into());
            stored.insert(worker.record.borrow().id.clone(), (*number, folder));
            false
        });
    }

    /// Returns the workers in memory.
    pub(crate) fn all_here(&self) -> Vec<Rc<Worker>> {
        self.all.borrow().iter().map(|(_, worker)| worker.clone()).collect()
    }

    /// Returns the ids of all workers.
    pub(crate) fn ids(&self) -> Vec<String> {
        let stored = self.stored.borrow();
        let mut all: Vec<(u64, String)> =
            stored.iter().map(|(id, (number, _))| (*number, id.clone())).collect();
        all.extend(
            self.all.borrow().iter().map(|(number, worker)| (*number, worker.record.borrow().id.clone())),
        );
        all.sort_unstable();
        all.into_iter().map(|(_, id)| id).collect()
    }
}

/// Returns the path of a worker's snapshot.
pub(crate) fn snapshot_file(folder: &Path, id: &str) -> PathBuf {
    folder.join(format!("{id}.json"))
}

/// Returns messages about failed workers whose result the program did not request.
pub fn unheard_failures(vm: &Vm) -> Vec<String> {
    let told = |worker: &Rc<Worker>| {
        let record = worker.record.borrow();
        if record.life != Life::Failed || worker.shown.get() {
            return None;
        }
        let (name, why) = (&record.name, record.error.as_deref().unwrap_or("no reason is known"));
        Some(format!("the worker {name} failed, and nothing asked for it: {why}"))
    };
    vm.extension::<Workers>().all_here().iter().filter_map(told).collect()
}

/// Reports state changes of workers to the subscribers of the running loop's session. Called by the builtins for
/// workers, so that subscribers run in the task that started the work and see its variables.
pub(crate) async fn tell_updates(cx: &Cx, worker: &Worker) {
    let hooks = cx.state::<Hooks>();
    for (event, payload) in worker.for_hooks.take() {
        if let Err(error) = hooks.tell(cx, None, event, payload).await {
            let text = format!("warning: {event} hook: {}", error.uncaught_text());
            cx.vm().system().write_err(&harn_syntax::notice(&text));
        }
    }
    let id = worker.record.borrow().lineage.parent_session_id.clone();
    let session: Option<Rc<Session>> = id.and_then(|id| cx.state::<Sessions>().known(&id));
    if let Some(session) = session {
        for update in session.take_updates() {
            session.tell(cx, &update).await;
        }
    }
}
