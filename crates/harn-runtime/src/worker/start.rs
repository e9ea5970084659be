//! Starts, awaits, stops and resumes workers, for workflow stages and builtins.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use harn_agent::lifecycle::{Carry, Execution, Life, Lineage, Mode, Plan, Record, Request, Update};
use harn_stdlib::{state_place, timestamp_now};
use harn_system::{System, SystemExt};
use harn_value::Data as Json;
use harn_value::Value;
use harn_vm::task::Task;
use harn_vm::{Calm, Cx, Result};

use crate::command_policy::CommandPolicies;
use crate::convert::{entry, from_json, thrown, to_json};
use crate::llm_embedder::new_id;
use crate::policy::depth;
use crate::session::Sessions;
use crate::worker::handlers::{lost, with_handlers};
use crate::worker::place::{self, Tree};
use crate::worker::registry::{Known, Worker, Workers, snapshot_file};
use crate::worker::terms::Limits;

/// The hidden builtin that a worker's task calls.
pub(crate) const JOB: &str = "__worker_job";

/// How long stopping waits for cleanup.
const STOPPING: Duration = Duration::from_millis(500);

/// Maximum size of a snapshot that is read: 256 MiB.
const MAX_SNAPSHOT: u64 = 256 << 20;

/// The parameters of a new worker.
pub(crate) struct Start {
    /// The name of the function in errors.
    pub(crate) function: &'static str,
    /// Its kind.
    pub(crate) mode: Mode,
    /// Its name.
    pub(crate) name: String,
    /// The task.
    pub(crate) task: String,
    /// Additional fields of the request.
    pub(crate) request: Request,
    /// The configuration of the job, including the limits of the work: `policy`, `tools`, `permissions`,
    /// `approval_policy`, `carry`, `execution`, `audit`.
    pub(crate) config: Value,
    /// The limits, if they are not in `config`.
    pub(crate) limits: Value,
    /// The initial conversation.
    pub(crate) transcript: Json,
    /// The initial artifacts.
    pub(crate) artifacts: Vec<Json>,
    /// The session of the work, if it has one.
    pub(crate) session_id: Option<String>,
    /// The stage that delegates it.
    pub(crate) parent_stage_id: Option<String>,
    /// The run that it is part of.
    pub(crate) parent_run_id: Option<String>,
}

/// Starts work in a separate task, which is owned by the worker of the running task, or else by the program, and ends
/// with its owner.
///
/// # Errors
/// The options are invalid, the limits exceed those of the running task, or a working tree or snapshot cannot be
/// created.
pub(crate) async fn start(cx: &Cx, start: Start) -> Result<Rc<Worker>> {
    let function = start.function;
    let told = |text: String| thrown(format!("{function}: {text}"));
    let workers = cx.state::<Workers>();
    let id = format!("worker_{}", new_id(cx.vm()));
    let audit = crate::audit::read(function, &start.limits)?;
    let limits = Limits::of(cx, function, &start.limits)?;
    let given = to_json(&entry(&start.limits, "carry"));
    let carry = Carry::from_option(&given).map_err(told)?;
    let mut execution =
        Execution::from_option(&to_json(&entry(&start.limits, "execution")), &id).map_err(told)?;
    place::settle(cx, &mut execution, &id).map_err(told)?;
    let tree = Tree::make(cx, &execution).await.map_err(told)?;
    let owner = workers.running.current(cx);
    let session = cx.state::<Sessions>().running(cx).map(|running| running.session.id.clone());
    let lineage = Lineage {
        parent_worker_id: owner.as_ref().map(|owner| owner.record.borrow().id.clone()),
        parent_stage_id: start.parent_stage_id,
        parent_run_id: start.parent_run_id,
        parent_session_id: session,
        session_id: start.session_id,
    };
    let plan = Plan {
        id: id.clone(),
        name: start.name,
        mode: start.mode,
        task: start.task,
        request: start.request,
        lineage,
        carry,
        execution,
        audit,
        config: to_json(&start.config),
        transcript: start.transcript,
        artifacts: start.artifacts,
        inherited: limits.inherited.iter().map(|(policy, _)| policy.clone()).collect(),
        own: limits.own.iter().map(|(policy, _)| policy.clone()).collect(),
    };
    let mut record = Record::new(plan, &timestamp_now(cx));
    if !limits.commands.is_empty() {
        // A file cannot store a command policy, and the work must not run without it.
        record.closures.push("command_policy".to_owned());
    }
    if record.carry.persist_state {
        let path = snapshot_file(&snapshot_folder(cx), &id);
        match cx.system().check_write(&path) {
            Ok(()) => record.snapshot_path = Some(path.to_string_lossy().into_owned()),
            // A failure is only an error if the program requested a snapshot.
            Err(error) if given["persist_state"] == Json::Bool(true) => {
                let error = cx.refusal(&error).unwrap_or_else(|| told(error.to_string()));
                return tree.close(Err(error), told).await;
            }
            Err(_) => record.carry.persist_state = false,
        }
    }
    let worker = Rc::new(Worker::new(cx, record, start.config, limits, depth(cx), owner));
    let saved = {
        // An interruption in between would leave a worker that is listed and never runs.
        let _calm = Calm::new();
        let saved = worker.save();
        if saved.is_ok() {
            workers.add(worker.clone());
            worker.announce(cx, Update::Spawned);
            launch(cx, &worker);
        }
        saved
    };
    if let Err(why) = saved {
        return tree.close(Err(told(why)), told).await;
    }
    // From here on, the tree belongs to the worker.
    tree.hand_on();
    Ok(worker)
}

fn snapshot_folder(cx: &Cx) -> PathBuf {
    cx.system().work_dir().join(state_place(cx, "HARN_WORKER_STATE_DIR", "workers"))
}

/// Starts the task of a worker that is marked as running.
pub(crate) fn launch(cx: &Cx, worker: &Rc<Worker>) {
    *worker.callers.borrow_mut() = CommandPolicies::of(cx).chain(cx);
    let id = worker.record.borrow().id.clone();
    *worker.task.borrow_mut() = spawn_owned(cx, JOB, vec![id.as_str().into(), worker.config.clone()]);
}

/// Starts a task that calls a hidden builtin. The task is owned by the worker of the running task, or else by the
/// program.
pub(crate) fn spawn_owned(cx: &Cx, job: &str, arguments: Vec<Value>) -> Option<Rc<Task>> {
    let job = cx.vm().builtin(job)?;
    let workers = cx.state::<Workers>();
    let owner = workers.running.current(cx).and_then(|owner| owner.task.borrow().clone());
    let owner = owner.unwrap_or_else(|| cx.task().root_of());
    let task = cx.spawn_for(&owner, &job.value(), arguments);
    task.detach();
    Some(task)
}

/// Waits until a worker neither runs nor waits for a trigger.
///
/// # Errors
/// Ends the program when its output is closed.
pub(crate) async fn wait(cx: &Cx, worker: &Rc<Worker>) -> Result<()> {
    loop {
        let changed = worker.changed.notified();
        let mut changed = std::pin::pin!(changed);
        changed.as_mut().enable();
        if !worker.life().blocks() {
            break;
        }
        changed.await;
    }
    settle(cx, worker).await
}

/// Prints the output of a worker that has ended.
///
/// # Errors
/// Ends the program when its output is closed.
pub(crate) async fn settle(cx: &Cx, worker: &Rc<Worker>) -> Result<()> {
    let task = worker.task.borrow().clone();
    if let Some(task) = task.filter(|_| worker.life() != Life::Running) {
        // The record is written before the task has ended.
        cx.vm().system().within(STOPPING, task.ended()).await;
        cx.show_output_of(&task)?;
    }
    Ok(())
}

/// Stops a worker and its children without waiting for their end.
pub(crate) fn stop(cx: &Cx, worker: &Worker) {
    worker.change(cx, Record::cancel);
    let task = worker.task.borrow().clone();
    if let Some(task) = task {
        task.abort();
    }
}

/// Stops a worker and its children.
///
/// # Errors
/// Ends the program when its output is closed.
pub(crate) async fn cancel(cx: &Cx, worker: &Rc<Worker>) -> Result<()> {
    stop(cx, worker);
    settle(cx, worker).await?;
    if worker.life() == Life::Cancelled {
        // Its task may not have begun.
        let tree = place::made(cx, &worker.record.borrow().execution);
        place::remove_now(cx, tree);
    }
    Ok(())
}

/// Loads a worker from its snapshot, by id or path, or returns the existing one.
///
/// # Errors
/// The snapshot does not exist or cannot be read, or the worker was started with closures that this process does not
/// have.
pub(crate) fn load(cx: &Cx, reference: &str) -> Result<Rc<Worker>> {
    let function = "resume_agent";
    if let Some(worker) = find(cx, reference)? {
        return Ok(worker);
    }
    let is_path = reference.contains('/') || reference.ends_with(".json");
    let system = cx.system();
    let path = if is_path {
        system.work_dir().join(reference)
    } else {
        snapshot_file(&snapshot_folder(cx), reference)
    };
    if let Err(error) = system.facts(&path)
        && let Some(refused) = cx.refusal(&error)
    {
        return Err(refused);
    }
    if !system.is_file(&path) {
        let text = if is_path {
            format!("{function}: there is no snapshot {}", path.display())
        } else {
            format!("unknown worker: {reference}")
        };
        return Err(thrown(text));
    }
    let record = read_snapshot(cx, &*system, function, &path)?;
    if let Some(worker) = cx.state::<Workers>().here(&record.id) {
        return Ok(worker);
    }
    let worker = restored(cx, record, &path)?;
    worker.change(cx, |_, _| None);
    Ok(worker)
}

/// Returns the worker with an id, reading it from its snapshot if it is not in memory.
///
/// # Errors
/// The snapshot can no longer be read.
pub(crate) fn find(cx: &Cx, id: &str) -> Result<Option<Rc<Worker>>> {
    match cx.state::<Workers>().known(id) {
        None => Ok(None),
        Some(Known::Here(worker)) => Ok(Some(worker)),
        Some(Known::Stored(path)) => {
            let record = read_snapshot(cx, &**cx.vm().system(), "worker", &path)?;
            restored(cx, record, &path).map(Some)
        }
    }
}

fn read_snapshot(cx: &Cx, system: &dyn System, function: &str, path: &Path) -> Result<Record> {
    let read = system.read_text(path, MAX_SNAPSHOT);
    if let Err(error) = &read
        && let Some(refused) = cx.refusal(error)
    {
        return Err(refused);
    }
    let read = read.map_err(|e| e.to_string());
    let read = read.and_then(|text| serde_json::from_str::<Json>(&text).map_err(|e| e.to_string()));
    read.and_then(Record::from_snapshot)
        .map_err(|why| thrown(format!("{function}: cannot read {}: {why}", path.display())))
}

/// Adds the worker of a snapshot.
///
/// # Errors
/// The worker was started with closures that this process does not have.
fn restored(cx: &Cx, mut record: Record, path: &Path) -> Result<Rc<Worker>> {
    let function = "resume_agent";
    let workers = cx.state::<Workers>();
    let config = with_handlers(cx, &from_json(&record.config));
    let lost = lost(&record.closures, &config);
    if !lost.is_empty() {
        return Err(thrown(format!(
            "{function}: worker {} was started with functions that a snapshot cannot hold ({}); register its tools with tool_bind, or restart it", // prose-ok: diagnostic
            record.id,
            lost.join(", ")
        )));
    }
    let kept = record.carry.persist_state && cx.system().check_write(path).is_ok();
    record.snapshot_path = kept.then(|| path.to_string_lossy().into_owned());
    let limits = Limits::saved(cx, &record.inherited, &record.own);
    let worker = Rc::new(Worker::new(cx, record, config, limits, depth(cx), workers.running.current(cx)));
    workers.add(worker.clone());
    Ok(worker)
}
