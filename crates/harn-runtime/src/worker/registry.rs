//! The workers of a program.

use std::cell::{Cell, RefCell};
use std::path::Path;
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
    /// All that can be saved of it.
    pub(crate) record: RefCell<Record>,
    /// What it was started with, closures and all.
    pub(crate) config: Value,
    /// How deep in loops it was started, and how deep loops may be.
    pub(crate) depth: (u64, u64),
    /// What it may do.
    pub(crate) limits: Limits,
    /// The command policies of whoever let it run last.
    pub(crate) callers: RefCell<Vec<Rc<CommandPolicy>>>,
    /// The worker that started it.
    pub(crate) owner: Option<Rc<Worker>>,
    /// The task that runs it, or did last.
    pub(crate) task: RefCell<Option<Rc<Task>>>,
    /// Whoever waits looks again.
    pub(crate) changed: Notify,
    /// What hooks of the project are still to be told: event and payload.
    for_hooks: RefCell<Vec<(&'static str, Json)>>,
    /// Where its snapshot is written: with the permissions of the code that started it.
    system: Rc<dyn System>,
    /// Whether a failed write of the snapshot was told.
    warned: Cell<bool>,
    /// Whether the program was shown how it ended.
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

    /// Where it stands.
    pub(crate) fn life(&self) -> Life {
        self.record.borrow().life
    }

    /// What scripts see.
    pub(crate) fn handle(&self) -> Value {
        self.shown.set(self.life() != Life::Running);
        from_json(&self.record.borrow().handle())
    }

    /// Changes the record, saves it, and lets everybody know.
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

    /// Leaves an event for those who listen to the session that started the worker.
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

    /// Writes the snapshot, when the worker keeps one.
    ///
    /// # Errors
    /// A text that names the file.
    pub(crate) fn save(&self) -> Result<(), String> {
        let record = self.record.borrow();
        let Some(path) = &record.snapshot_path else { return Ok(()) };
        write(&*self.system, Path::new(path), &record.snapshot())
    }
}

/// All workers, in the order in which they came.
#[derive(Default)]
pub(crate) struct Workers {
    all: RefCell<Vec<Rc<Worker>>>,
    /// The worker that a task works for.
    pub(crate) running: TaskScope<Rc<Worker>>,
}

impl Workers {
    /// The worker with an id.
    pub(crate) fn known(&self, id: &str) -> Option<Rc<Worker>> {
        self.all.borrow().iter().find(|worker| worker.record.borrow().id == id).cloned()
    }

    /// Adds one, in the place of another one with its id.
    pub(crate) fn add(&self, worker: Rc<Worker>) {
        let mut all = self.all.borrow_mut();
        let id = worker.record.borrow().id.clone();
        match all.iter_mut().find(|known| known.record.borrow().id == id) {
            Some(known) => *known = worker,
            None => all.push(worker),
        }
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<Rc<Worker>> {
        self.all.borrow().clone()
    }
}

/// What is to be said at the end of a program of workers that failed while nothing asked for them.
pub fn unheard_failures(vm: &Vm) -> Vec<String> {
    let told = |worker: &Rc<Worker>| {
        let record = worker.record.borrow();
        if record.life != Life::Failed || worker.shown.get() {
            return None;
        }
        let (name, why) = (&record.name, record.error.as_deref().unwrap_or("no reason is known"));
        Some(format!("the worker {name} failed, and nothing asked for it: {why}"))
    };
    vm.extension::<Workers>().all().iter().filter_map(told).collect()
}

/// Tells those who listen to the session of the running loop what has happened to its workers. Called by the builtins of
/// workers, so that listeners run in the task that started the work and see its variables.
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
