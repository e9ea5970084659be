//! Daemons with a handle: a loop that becomes idle between turns, with a queue of events and a directory that outlive
//! the process.
//!
//! The directory contains `daemon.json`, the snapshot at the end of a turn, which names the last completed event
//! (`last_event_seq`), and `daemon.meta.json`: the queue, the options and the name of the daemon. An event is
//! considered delivered once `daemon.json` is written; a trigger is acknowledged after `daemon.meta.json` is written.

use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use harn_agent::AgentLoop;
use harn_agent::daemon::Queue;
use harn_agent::daemon::history::Earlier;
use harn_agent::lifecycle::{Execution, Life, without_functions};
use harn_agent::policy::Policy;
use harn_stdlib::timestamp_now;
use harn_syntax::signature::LOOP_OPTIONS;
use harn_system::{Lock, System, SystemExt};
use harn_value::{Data as Json, json};
use harn_value::{Dict, Value};
use harn_vm::task::Task;
use harn_vm::{Calm, Cx, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use crate::builtins::check_system;
use crate::command_policy::{CommandPolicies, CommandPolicy};
use crate::convert::{entry, from_json, thrown, to_json, told};
use crate::daemon_view::View;
use crate::driver::run_kept;
use crate::llm_embedder::{new_id, notice_keys};
use crate::option_check::{DAEMON, refuse_wrong};
use crate::policy::depth;
use crate::rest::{Keeper, Resumed, SnapshotFile, history_of, write};
use crate::worker::handlers::{lost, with_handlers};
use crate::worker::start::spawn_owned;
use crate::worker::terms::{Limits, Terms};

/// The hidden builtin that a daemon's task calls.
pub(crate) const JOB: &str = "__daemon_job";

/// Maximum time that spawning waits for the first snapshot, and stopping for an idle daemon.
const PATIENCE: Duration = Duration::from_millis(500);

/// Default capacity of the queue, in events.
const CAPACITY: i64 = 1024;

/// Maximum size of a file that is read: 256 MiB.
const MAX_FILE: u64 = 256 << 20;

/// The content of `daemon.meta.json`.
#[derive(Clone, Serialize, Deserialize)]
struct Meta {
    #[serde(rename = "_type")]
    kind: String,
    id: String,
    name: String,
    session_id: String,
    task: String,
    system: Json,
    options: Json,
    /// The paths of the options that contain functions.
    closures: Vec<String>,
    /// The policies in effect where it was started.
    inherited: Vec<Policy>,
    #[serde(flatten)]
    queue: Queue,
}

/// A daemon of this program.
pub(crate) struct Daemon {
    meta: RefCell<Meta>,
    /// The directory as the program named it.
    named: String,
    folder: PathBuf,
    /// The loop's options, including functions.
    options: Value,
    limits: Limits,
    /// The command policies of the caller that started or resumed it.
    callers: Vec<Rc<CommandPolicy>>,
    /// The system layer with the rights of the caller.
    system: Rc<dyn System>,
    depth: (u64, u64),
    life: Cell<Life>,
    idle: Cell<bool>,
    /// Whether the event in flight was passed to the loop.
    handed: Cell<bool>,
    /// Whether its task has begun.
    begun: Cell<bool>,
    snapshot: RefCell<Json>,
    /// Its history; `None` until it is requested for the first time.
    view: RefCell<Option<View>>,
    error: RefCell<Option<String>>,
    result: RefCell<Json>,
    task: RefCell<Option<Rc<Task>>>,
    /// Held while the daemon runs, so that no other process can run it.
    lock: RefCell<Option<Lock>>,
    /// Wakes the loop.
    bell: Notify,
    /// Notifies waiting tasks of a changed state.
    changed: Notify,
}

/// The daemons of a program.
#[derive(Default)]
pub(crate) struct Daemons(RefCell<Vec<Rc<Daemon>>>);

impl Daemons {
    /// Returns the daemon with an id.
    pub(crate) fn known(&self, id: &str) -> Option<Rc<Daemon>> {
        self.0.borrow().iter().find(|daemon| daemon.meta.borrow().id == id).cloned()
    }

    fn add(&self, daemon: Rc<Daemon>) {
        let id = daemon.meta.borrow().id.clone();
        self.0.borrow_mut().retain(|known| known.meta.borrow().id != id);
        self.0.borrow_mut().push(daemon);
    }

    fn in_folder(&self, folder: &Path) -> Option<Rc<Daemon>> {
        self.0.borrow().iter().find(|daemon| daemon.folder == folder).cloned()
    }
}

impl Daemon {
    fn snapshot_path(&self) -> PathBuf {
        self.folder.join("daemon.json")
    }

    fn meta_path(&self) -> PathBuf {
        self.folder.join("daemon.meta.json")
    }

    fn write_meta(&self) -> std::result::Result<(), String> {
        let value = Json::lossy(&*self.meta.borrow());
        write(&*self.system, &self.meta_path(), &value)
    }

    /// Like `write_meta`, for callers that cannot return an error. No data is lost: the snapshot records the completed
    /// events.
    fn note_meta(&self) {
        if let Err(why) = self.write_meta() {
            self.system.write_err(&harn_syntax::notice(&format!(
                "warning: a daemon's queue is not up to date: {why}"
            )));
        }
    }

    fn word(&self) -> &'static str {
        match self.life.get() {
            Life::Running => "running",
            Life::Failed => "failed",
            _ => "stopped",
        }
    }

    /// Returns whether the daemon runs.
    pub(crate) fn is_running(&self) -> bool {
        self.life.get() == Life::Running
    }

    /// Returns the id of the daemon.
    pub(crate) fn id(&self) -> String {
        self.meta.borrow().id.clone()
    }

    /// Returns the handle that scripts receive.
    pub(crate) fn handle(&self) -> Value {
        let meta = self.meta.borrow();
        let mut out = json!({
            "id": meta.id, "name": meta.name, "status": self.word(), "session_id": meta.session_id,
            "persist_path": self.named, "snapshot_path": self.snapshot_path().to_string_lossy(),
            "pending_event_count": meta.queue.pending().len(), "queued_event_count": meta.queue.len(),
            "event_queue_capacity": meta.queue.capacity(),
        });
        let snapshot = self.snapshot.borrow();
        let optional = [
            ("error", json!(*self.error.borrow())),
            ("result", self.result.borrow().clone()),
            ("daemon_state", snapshot["daemon_state"].clone()),
            ("saved_at", snapshot["saved_at"].clone()),
            ("inflight_event", Json::lossy(&meta.queue.inflight())),
        ];
        for (key, value) in optional.into_iter().filter(|(_, value)| !value.is_null()) {
            out[key] = value;
        }
        from_json(&out)
    }

    /// Returns the latest complete snapshot, with the current queue.
    ///
    /// # Errors
    /// The history file of the snapshot cannot be read.
    pub(crate) fn snapshot(&self) -> Result<Value> {
        let mut out = self.whole().map_err(|why| thrown(format!("daemon_snapshot: {why}")))?;
        let meta = self.meta.borrow();
        let queue = &meta.queue;
        let pending: Vec<_> = queue.pending().map(Json::lossy).collect();
        let more = json!({
            "status": self.word(), "error": *self.error.borrow(), "pending_events": pending, "pending_event_count": pending.len(), "inflight_event": Json::lossy(&queue.inflight()),
            "queued_event_count": queue.len(), "event_queue_capacity": queue.capacity(),
        });
        for (key, value) in more.as_object().into_iter().flatten() {
            out.insert(key.as_str(), from_json(value));
        }
        Ok(Value::dict(out))
    }

    /// Returns the last stored snapshot, with its history.
    fn whole(&self) -> std::result::Result<Dict, String> {
        let kept = self.snapshot.borrow();
        let path = self.snapshot_path();
        let wrong = |why: String| format!("cannot read {}: {why}", path.display());
        let Some(earlier) = Earlier::of(&kept).map_err(wrong)? else {
            return Ok(from_json(&kept).to_dict().map(|dict| (*dict).clone()).unwrap_or_default());
        };
        let mut view = self.view.borrow_mut();
        if view.as_ref().is_none_or(|view| !view.fits(&earlier)) {
            *view = Some(View::read(&*self.system, &path, &earlier)?);
        }
        match view.as_mut() {
            Some(view) => view.whole(&kept).map_err(wrong),
            None => Ok(Dict::new()),
        }
    }

    /// Adds an event, and passes it to the loop immediately if the daemon is idle.
    ///
    /// # Errors
    /// The daemon does not run, the queue is full, or it cannot be written; in all cases the event is not added.
    pub(crate) fn trigger(&self, cx: &Cx, payload: Json) -> Result<()> {
        let id = self.id();
        if !self.is_running() {
            return Err(thrown(format!("daemon_trigger: daemon {id} is not running")));
        }
        let before = self.meta.borrow().queue.clone();
        let taken = {
            let queue = &mut self.meta.borrow_mut().queue;
            if !queue.push(payload, &timestamp_now(cx)) {
                let capacity = queue.capacity();
                return Err(thrown(format!(
                    "Daemon queue full: daemon '{id}' reached its event_queue_capacity of {capacity}"
                )));
            }
            self.idle.get() && queue.take()
        };
        if let Err(why) = self.write_meta() {
            self.meta.borrow_mut().queue = before;
            return Err(thrown(format!("daemon_trigger: {why}")));
        }
        if taken {
            self.handed.set(false);
        }
        self.bell.notify_one();
        Ok(())
    }

    /// Waits until a condition holds, for a limited time.
    async fn until(&self, cx: &Cx, holds: impl Fn(&Daemon) -> bool) {
        let wait = async {
            loop {
                let mut changed = std::pin::pin!(self.changed.notified());
                changed.as_mut().enable();
                if holds(self) {
                    break;
                }
                changed.await;
            }
        };
        cx.vm().system().within(PATIENCE, wait).await;
    }

    /// Stops the daemon. An event whose turn is not completed becomes the first of the queue again.
    ///
    /// # Errors
    /// Ends the program when its output is closed.
    pub(crate) async fn stop(&self, cx: &Cx) -> Result<()> {
        if !self.is_running() {
            return Ok(());
        }
        self.until(cx, |daemon| {
            let rests = daemon.idle.get() && daemon.meta.borrow().queue.is_empty();
            rests || !daemon.is_running()
        })
        .await;
        let task = self.task.borrow().clone();
        if self.is_running() {
            self.end(Life::Cancelled);
        }
        if let Some(task) = task {
            task.abort();
            cx.vm().system().within(PATIENCE, task.ended()).await;
            cx.show_output_of(&task)?;
        }
        Ok(())
    }

    /// Marks the daemon as no longer running.
    fn end(&self, life: Life) {
        if !self.is_running() {
            return;
        }
        self.life.set(life);
        self.idle.set(false);
        self.meta.borrow_mut().queue.put_back();
        self.note_meta();
        self.lock.borrow_mut().take();
        self.changed.notify_waiters();
    }
}

/// The `Keeper` that stores a daemon's snapshots.
struct Kept(Rc<Daemon>, SnapshotFile);

impl Keeper for Kept {
    fn keep(&self, cx: &Cx, agent: &AgentLoop, state: &str, done: bool) -> Result<()> {
        let Kept(daemon, file) = self;
        let last = daemon.snapshot.borrow()["last_event_seq"].as_u64().unwrap_or(0);
        // If the event was not passed to the loop yet, its turn is still to come.
        let done = done && daemon.handed.get();
        let now = match daemon.meta.borrow().queue.inflight() {
            Some(event) if done => event.seq,
            _ => last,
        };
        // The event is considered delivered once this snapshot is written.
        let snapshot = file.save(cx, agent, state, |snapshot| snapshot["last_event_seq"] = now.into());
        let saved = snapshot.map_err(|why| thrown(format!("daemon: {why}")))?;
        *daemon.snapshot.borrow_mut() = saved.snapshot;
        // A look that finds another file or length reads the file again.
        if saved.restarted {
            daemon.view.borrow_mut().take();
        } else if let Some(line) = &saved.moved {
            daemon.view.borrow_mut().take_if(|view| view.add(line, saved.bytes).is_err());
        }
        if done && daemon.meta.borrow_mut().queue.complete().is_some() {
            daemon.note_meta();
        }
        daemon.handed.set(false);
        daemon.idle.set(true);
        daemon.changed.notify_waiters();
        cx.hand_over_output()
    }

    fn goes_on_from(&self, read: &Resumed) {
        self.1.goes_on_from(read);
    }

    fn is_open(&self) -> bool {
        true
    }

    fn waits(&self) -> bool {
        let meta = self.0.meta.borrow();
        match meta.queue.inflight() {
            Some(_) => !self.0.handed.get(),
            None => meta.queue.pending().len() > 0,
        }
    }

    fn take(&self) -> Option<String> {
        if !self.waits() {
            return None;
        }
        let queue = &mut self.0.meta.borrow_mut().queue;
        queue.take();
        self.0.handed.set(true);
        queue.inflight().map(|event| event.message())
    }

    fn bell(&self) -> Option<&Notify> {
        Some(&self.0.bell)
    }

    fn begins(&self) {
        self.0.idle.set(false);
    }
}

/// Locks a directory; `None` if another daemon uses it.
fn claim(system: &dyn System, folder: &Path) -> std::result::Result<Option<Lock>, String> {
    let made = system.make_dirs(folder).and_then(|()| system.try_lock(&folder.join("daemon.lock")));
    made.map_err(|e| format!("cannot use {}: {e}", folder.display()))
}

/// Returns the string at one of two synonymous keys.
fn text_of(function: &str, config: &Value, keys: [&str; 2]) -> Result<Option<String>> {
    for key in keys {
        let value = entry(config, key);
        if value.is_nil() {
            continue;
        }
        return match value.as_str().map(|text| text.to_string()).filter(|text| !text.trim().is_empty()) {
            Some(text) => Ok(Some(text)),
            None => Err(thrown(format!("{function}: `{key}` must be a string that is not empty"))),
        };
    }
    Ok(None)
}

/// Implements `daemon_spawn`.
///
/// # Errors
/// The config is invalid, or the directory is in use or cannot be written.
pub(crate) async fn spawn(cx: &Cx, config: &Value) -> Result<Rc<Daemon>> {
    let function = "daemon_spawn";
    let Some(dict) = config.to_dict() else { return Err(thrown("daemon_spawn: expected a config dict")) };
    let Some(task) = text_of(function, config, ["task", "prompt"])? else {
        return Err(thrown("daemon_spawn: config must include `task` or `prompt`"));
    };
    let Some(named) = text_of(function, config, ["persist_path", "state_dir"])? else {
        return Err(thrown("daemon_spawn: config must include `persist_path` or `state_dir`"));
    };
    let mut capacity = Value::NIL;
    for pair in
        [["task", "prompt"], ["persist_path", "state_dir"], ["event_queue_capacity", "queue_capacity"]]
    {
        if pair.iter().all(|key| !entry(config, key).is_nil()) {
            let [one, other] = pair;
            return Err(thrown(format!("daemon_spawn: `{one}` and `{other}` are two names of one thing")));
        }
    }
    for key in ["event_queue_capacity", "queue_capacity"] {
        if capacity.is_nil() {
            capacity = entry(config, key);
        }
    }
    let capacity = match capacity.as_int() {
        None if capacity.is_nil() => CAPACITY,
        Some(number) if number > 0 => number,
        _ => {
            return Err(thrown(format!(
                "daemon_spawn: event_queue_capacity must be a positive int, got {capacity}"
            )));
        }
    };
    match (entry(config, "daemon"), entry(config, "daemon").as_bool()) {
        (_, Some(true)) => {}
        (nil, None) if nil.is_nil() => {}
        (_, Some(false)) => {
            return Err(thrown("daemon_spawn: a daemon cannot be started with daemon: false")); // prose-ok: diagnostic
        }
        (other, None) => {
            return Err(thrown(format!("daemon_spawn: daemon must be a bool, got {}", other.type_name())));
        }
    }
    check_system(function, &entry(config, "system"))?;
    notice_keys(cx, config, &DAEMON);
    let mut options = match entry(config, "options") {
        nil if nil.is_nil() => Dict::new(),
        inner => match inner.to_dict() {
            Some(inner) => (*inner).clone(),
            None => {
                return Err(thrown(format!(
                    "daemon_spawn: options must be a dict, got {}",
                    inner.type_name()
                )));
            }
        },
    };
    let own = |key: &&str| DAEMON.contains(key) && *key != "persist_path";
    let stray = options.iter().map(|(key, _)| key.as_str()).find(own);
    if let Some(key) = stray {
        return Err(thrown(format!("daemon_spawn: `{key}` belongs beside `options`, not in it"))); // prose-ok: diagnostic
    }
    for (key, value) in dict.written().filter(|(key, _)| !DAEMON.contains(&key.as_str())) {
        if options.get(key).is_some_and(|other| !other.is_nil() && other != value) {
            return Err(thrown(format!(
                "daemon_spawn: {key} is given beside `options` and in it, with other values"
            ))); // prose-ok: diagnostic
        }
        options.insert(key.as_str(), value.clone());
    }
    let id = format!("daemon_{}", new_id(cx.vm()));
    let session_id = match text_of(function, &options.clone().into(), ["session_id", "session_id"])? {
        Some(session) => session,
        None => format!("agent_session_{}", new_id(cx.vm())),
    };
    options.insert("session_id", session_id.as_str());
    for (key, instead) in [
        ("resume_path", "its folder is `persist_path` of the config"),
        ("persist_path", "its folder is `persist_path` of the config"),
        ("continue_as_new_after", "the program that has the handle calls continue_as_new instead"), // prose-ok: diagnostic
    ] {
        if options.contains(key) {
            return Err(thrown(format!(
                "daemon_spawn: a daemon with a handle does not take the option {key}; {instead}" // prose-ok: diagnostic
            ))); // prose-ok: diagnostic
        }
    }
    let mut all = options.clone();
    all.insert("daemon", true);
    all.insert("persist_path", named.as_str());
    refuse_wrong(cx, function, LOOP_OPTIONS, &all.into())?;
    let system = cx.system();
    let folder = system.work_dir().join(&named);
    let lock = claim(&*system, &folder).map_err(|why| thrown(format!("daemon_spawn: {why}")))?;
    let Some(lock) = lock else {
        return Err(thrown(format!("daemon_spawn: a daemon is already running for '{named}'")));
    };
    if let Ok((meta, snapshot)) = read(&*system, &folder) {
        let mut queue = meta.queue;
        queue.settle(snapshot["last_event_seq"].as_u64().unwrap_or(0));
        if !queue.is_empty() {
            return Err(thrown(format!(
                "daemon_spawn: '{named}' holds events of an earlier daemon that were not delivered ({}); go on with daemon_resume, or remove the folder", // prose-ok: diagnostic
                queue.len()
            )));
        }
        // The history belongs to the earlier daemon.
        let file = folder.join("daemon.json");
        for gone in [history_of(&file, false), history_of(&file, true), file] {
            let _ = system.remove(&gone);
        }
    }
    let options = Value::from(options);
    let (kept, mut closures) = without_functions(&to_json(&options));
    let limits = Limits::inherited(cx);
    if !limits.commands.is_empty() {
        // A file cannot store a command policy, and the daemon must not run without it.
        closures.push("command_policy".to_owned());
    }
    let meta = Meta {
        kind: "daemon_meta".to_owned(),
        name: text_of(function, config, ["name", "name"])?.unwrap_or_else(|| id.clone()),
        id,
        session_id,
        task,
        system: to_json(&entry(config, "system")),
        options: kept,
        closures,
        inherited: limits.inherited.iter().map(|(policy, _)| policy.clone()).collect(),
        queue: Queue::new(u64::try_from(capacity).unwrap_or(1)),
    };
    let daemon = Rc::new(make(cx, meta, (named, folder), options, limits, Json::Null, lock));
    daemon.write_meta().map_err(|why| thrown(format!("daemon_spawn: {why}")))?;
    let _unbegun = launch(cx, &daemon);
    daemon.until(cx, |daemon| !daemon.snapshot.borrow().is_null() || !daemon.is_running()).await;
    Ok(daemon)
}

fn make(
    cx: &Cx,
    meta: Meta,
    (named, folder): (String, PathBuf),
    options: Value,
    limits: Limits,
    snapshot: Json,
    lock: Lock,
) -> Daemon {
    Daemon {
        meta: RefCell::new(meta),
        named,
        folder,
        options,
        limits,
        callers: CommandPolicies::of(cx).chain(cx),
        system: cx.system(),
        depth: depth(cx),
        life: Cell::new(Life::Running),
        idle: Cell::new(false),
        handed: Cell::new(false),
        begun: Cell::new(false),
        snapshot: RefCell::new(snapshot),
        view: RefCell::default(),
        error: RefCell::default(),
        result: RefCell::default(),
        task: RefCell::default(),
        lock: RefCell::new(Some(lock)),
        bell: Notify::new(),
        changed: Notify::new(),
    }
}

fn read_json(system: &dyn System, path: &Path) -> std::result::Result<Json, String> {
    let text =
        system.read_text(path, MAX_FILE).map_err(|e| format!("cannot read {}: {e}", path.display()))?;
    serde_json::from_str(&text).map_err(|e| format!("cannot read {}: {e}", path.display()))
}

/// Reads the files of a directory. The snapshot is null if the process died before the daemon was first idle.
fn read(system: &dyn System, folder: &Path) -> std::result::Result<(Meta, Json), String> {
    let path = folder.join("daemon.meta.json");
    let meta = read_json(system, &path)?;
    if meta["_type"] != "daemon_meta" {
        return Err(format!("{} is no file of a daemon", path.display()));
    }
    let wrong = |why: String| format!("cannot read {}: {why}", path.display());
    let meta: Meta = meta.read().map_err(|e| wrong(e.to_string()))?;
    if !meta.options.is_object() {
        return Err(wrong("options must be a dict".to_owned()));
    }
    if !meta.system.is_null() && !meta.system.is_string() {
        return Err(wrong("system must be a string".to_owned()));
    }
    meta.queue.check().map_err(wrong)?;
    let path = folder.join("daemon.json");
    let snapshot = if system.exists(&path) { read_json(system, &path)? } else { Json::Null };
    Ok((meta, snapshot))
}

/// Implements `daemon_resume`.
///
/// # Errors
/// The daemon runs already, its files cannot be read, or it was started with functions that this process does not have.
pub(crate) async fn resume(cx: &Cx, named: &str) -> Result<Rc<Daemon>> {
    let told = |why: String| thrown(format!("daemon_resume: {why}"));
    let system = cx.system();
    let folder = system.work_dir().join(named);
    let daemons = cx.state::<Daemons>();
    let known = daemons.in_folder(&folder);
    if !system.is_file(&folder.join("daemon.meta.json")) {
        return Err(told(format!("there is no daemon in '{named}'")));
    }
    let Some(lock) = claim(&*system, &folder).map_err(told)? else {
        return Err(told(format!("daemon '{named}' is already running")));
    };
    let (mut meta, snapshot) = read(&*system, &folder).map_err(told)?;
    let whole = Resumed::complete(&*system, folder.join("daemon.json"), snapshot.clone()).map_err(told)?;
    if !snapshot.is_null() {
        let wrong =
            |why: String| told(format!("cannot read {}: {why}", folder.join("daemon.json").display()));
        harn_agent::daemon::check_snapshot(&whole.snapshot).map_err(wrong)?;
    }
    meta.queue.settle(snapshot["last_event_seq"].as_u64().unwrap_or(0));
    let options = match known.filter(|known| known.id() == meta.id && known.limits.commands.is_empty()) {
        Some(known) => known.options.clone(),
        None => {
            let options = with_handlers(cx, &from_json(&meta.options));
            let missing = lost(&meta.closures, &options);
            if !missing.is_empty() {
                return Err(told(format!(
                    "daemon {} was started with functions that a file cannot hold ({}); register its tools with tool_bind, or restart it", // prose-ok: diagnostic
                    meta.id,
                    missing.join(", ")
                )));
            }
            options
        }
    };
    let rested = !snapshot.is_null();
    let limits = Limits::saved(cx, &meta.inherited, &[]);
    let daemon = Rc::new(make(cx, meta, (named.to_owned(), folder), options, limits, snapshot, lock));
    daemon.write_meta().map_err(told)?;
    let _unbegun = launch(cx, &daemon);
    let before = daemon.snapshot.borrow()["saved_at"].clone();
    if !rested {
        daemon
            .until(cx, |daemon| daemon.snapshot.borrow()["saved_at"] != before || !daemon.is_running())
            .await;
    } else {
        daemon.until(cx, |daemon| daemon.idle.get() || !daemon.is_running()).await;
    }
    Ok(daemon)
}

/// Ends a daemon if its creator is stopped before the daemon's task has begun, because such a task does not report its
/// end.
struct Unbegun(Rc<Daemon>, Rc<Task>);

impl Drop for Unbegun {
    fn drop(&mut self) {
        let Unbegun(daemon, starter) = self;
        if !daemon.begun.get() && starter.is_aborted() {
            daemon.end(Life::Cancelled);
            if let Some(task) = &*daemon.task.borrow() {
                task.abort();
            }
        }
    }
}

fn launch(cx: &Cx, daemon: &Rc<Daemon>) -> Unbegun {
    // Registering and starting must not be interrupted in between.
    let _calm = Calm::new();
    cx.state::<Daemons>().add(daemon.clone());
    let arguments = vec![daemon.id().as_str().into(), daemon.options.clone()];
    *daemon.task.borrow_mut() = spawn_owned(cx, JOB, arguments);
    Unbegun(daemon.clone(), cx.task().clone())
}

/// Handles a loop that ends without a result, because its task was stopped or the program ends.
struct Abandoned<'a>(&'a Daemon);

impl Drop for Abandoned<'_> {
    fn drop(&mut self) {
        self.0.end(Life::Cancelled);
    }
}

/// Runs the loop of a daemon in its own task.
pub(crate) async fn job(cx: &Cx, id: &str, options: &Value) {
    let Some(daemon) = cx.state::<Daemons>().known(id) else { return };
    daemon.begun.set(true);
    let _abandoned = Abandoned(&daemon);
    let (task, system) = {
        let meta = daemon.meta.borrow();
        (meta.task.clone(), from_json(&meta.system))
    };
    let mut options = options.to_dict().map(|dict| (*dict).clone()).unwrap_or_default();
    options.insert("daemon", true);
    options.insert("persist_path", &*daemon.snapshot_path().to_string_lossy());
    if !daemon.snapshot.borrow().is_null() {
        options.insert("resume_path", &*daemon.snapshot_path().to_string_lossy());
    }
    let terms = Terms::open(cx, &daemon.limits, &Execution::default(), Some(daemon.depth), &daemon.callers);
    let file = SnapshotFile::new(daemon.system.clone(), daemon.snapshot_path());
    let keeper: Rc<dyn Keeper> = Rc::new(Kept(daemon.clone(), file));
    let ended = run_kept(cx, &Value::str(&task), &system, &options.into(), keeper).await;
    drop(terms);
    match ended {
        Ok(ended) => {
            *daemon.result.borrow_mut() = ended.result;
            daemon.end(Life::Completed);
        }
        Err(error) if matches!(error.kind(), ErrorKind::Abort) => {}
        Err(error) => {
            let why = told(&error);
            // Report it here, because there may be no waiting task.
            cx.system().write_err(&harn_syntax::notice(&format!(
                "warning: the daemon {} failed: {why}",
                daemon.id()
            )));
            *daemon.error.borrow_mut() = Some(why);
            daemon.end(Life::Failed);
        }
    }
}
