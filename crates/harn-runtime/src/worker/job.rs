//! The work of a worker: a sub-agent's loop, a stage, or a workflow.

use std::cell::RefCell;
use std::rc::Rc;

use harn_agent::lifecycle::{Execution, Life, Mode, Outcome, Record, TranscriptMode};
use harn_llm::transcript;
use harn_value::Value;
use harn_value::{Data as Json, data::Map, json};
use harn_vm::{Calm, Cx, Error, ErrorKind, Result};

use crate::convert::{OrThrow, entry, from_json, thrown, to_json, told};
use crate::llm_embedder::new_id;
use crate::session::Sessions;
use crate::worker::registry::{Worker, Workers};
use crate::worker::stage;
use crate::worker::sub_agent::SubAgent;
use crate::worker::terms::Terms;
use crate::worker::{place, start};

/// The options of a compaction in `carry.context_policy`.
const COMPACTION: [&str; 4] = ["strategy", "compact_strategy", "keep_last", "target_tokens"];

/// Handles a job that ends without a result, because its task was stopped.
struct Abandoned<'a>(&'a Cx, &'a Rc<Worker>, RefCell<Option<place::Made>>);

impl Drop for Abandoned<'_> {
    fn drop(&mut self) {
        let Abandoned(cx, worker, tree) = self;
        // Cancel it if its owner has ended. If the program ends, the snapshot records that it was running, and
        // `resume_agent` resumes it.
        let owner_ended = worker.owner.as_ref().is_some_and(|owner| owner.life() != Life::Running);
        if owner_ended && worker.life() == Life::Running {
            worker.change(cx, Record::cancel);
        }
        if worker.life() == Life::Cancelled {
            place::remove_now(cx, tree.take());
        }
        if worker.life() != Life::Running {
            // Its child workers end with it. A task that was stopped before it began does not report its end.
            let all = cx.state::<Workers>().all_here();
            let owned = |one: &&Rc<Worker>| one.owner.as_ref().is_some_and(|owner| Rc::ptr_eq(owner, worker));
            for one in all.iter().filter(owned).filter(|one| one.life() == Life::Running) {
                start::stop(cx, one);
            }
        }
    }
}

/// Runs a worker to its end, in its own task.
pub(crate) async fn run(cx: &Cx, id: &str, config: &Value) {
    let workers = cx.state::<Workers>();
    let Some(worker) = workers.here(id) else { return };
    let abandoned = Abandoned(cx, &worker, RefCell::default());
    let token = workers.running.open(cx, worker.clone());
    let done = work(cx, &worker, config, &abandoned.2).await;
    workers.running.close(token);
    if worker.life() != Life::Running {
        return;
    }
    match done {
        Ok(outcome) => worker.change(cx, |record, now| Some(record.finish(outcome, now))),
        Err(error) if matches!(error.kind(), ErrorKind::Abort) => {}
        Err(error) => {
            let text = if error.is_catchable() { told(&error) } else { error.to_string() };
            worker.change(cx, |record, now| Some(record.fail(&text, now)));
        }
    }
}

async fn work(
    cx: &Cx,
    worker: &Rc<Worker>,
    config: &Value,
    tree: &RefCell<Option<place::Made>>,
) -> Result<Outcome> {
    let (execution, mode, again) = {
        let record = worker.record.borrow();
        (record.execution.clone(), record.mode, record.history.len() > 1)
    };
    // The tree may have been removed since the last run.
    place::prepare(cx, &execution).await.map_err(thrown)?;
    *tree.borrow_mut() = place::made(cx, &execution);
    let ended = perform(cx, worker, config, &execution, mode, again).await;
    // A worker that is stopped with the program may be resumed later, in the same tree.
    if ended.as_ref().is_err_and(|error| !error.is_catchable()) {
        return ended;
    }
    match (ended, place::clean_up(cx, &execution).await) {
        (ended, Ok(())) => ended,
        (Ok(_), Err(why)) => Err(thrown(why)),
        (Err(error), Err(why)) => {
            place::warn(cx, &why);
            Err(error)
        }
    }
}

/// Returns the runtime's data about a worker for approvals of its changes.
fn who(record: &Record) -> Map<String, Json> {
    let known = [
        ("worker_id", Some(record.id.clone())),
        ("run_id", record.lineage.parent_run_id.clone()),
        ("parent_session_id", record.lineage.parent_session_id.clone()),
        ("execution_kind", Some(record.mode.as_str().to_owned())),
    ];
    known.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?.into()))).collect()
}

async fn perform(
    cx: &Cx,
    worker: &Rc<Worker>,
    config: &Value,
    execution: &Execution,
    mode: Mode,
    again: bool,
) -> Result<Outcome> {
    let mut inputs = worker.record.borrow().inputs();
    if again {
        let policy = worker.record.borrow().carry.artifact_policy();
        inputs.artifacts = harn_agent::artifact::select(&inputs.artifacts, &policy);
        if !inputs.transcript.is_null() {
            inputs.transcript = carried(cx, worker, &inputs.transcript).await?;
        }
    }
    let callers = worker.callers.borrow().clone();
    let terms = Terms::open(cx, &worker.limits, execution, Some(worker.depth), &callers);
    let audit = worker.record.borrow().audit.clone();
    let audited = crate::audit::audited(cx, &audit, Some(who(&worker.record.borrow())));
    let outcome = match mode {
        Mode::SubAgent => {
            let parent = worker.record.borrow().lineage.parent_session_id.clone();
            let parent = parent.and_then(|id| cx.state::<Sessions>().known(&id));
            let sub = SubAgent::new(cx, &entry(config, "options"), parent)?;
            if again {
                sub.begin_with(&inputs.transcript)?;
            }
            // Its execution context is that of the worker.
            let envelope = sub.run(cx, &inputs.task, &Default::default()).await?;
            Outcome {
                transcript: envelope.transcript().clone(),
                result: envelope.to_json(),
                artifacts: Vec::new(),
                run: None,
            }
        }
        Mode::DelegatedStage => {
            let result = crate::workflow::delegated(cx, config, &inputs.task, &execution.to_json()).await?;
            Outcome { transcript: result["transcript"].clone(), result, artifacts: Vec::new(), run: None }
        }
        Mode::Stage => {
            let node = entry(config, "node");
            let output = stage::run(cx, &node, &inputs.task, &inputs.artifacts, &inputs.transcript).await?;
            let result = stage::result(&inputs.task, &output, &execution.to_json());
            let mut artifacts = inputs.artifacts;
            artifacts.extend(output.artifacts);
            Outcome { result, transcript: output.transcript, artifacts, run: None }
        }
        Mode::Workflow => workflow(cx, worker, config, &inputs).await?,
    };
    drop((audited, terms));
    Ok(outcome)
}

/// Runs a workflow with the builtin `workflow_execute`.
async fn workflow(
    cx: &Cx,
    worker: &Rc<Worker>,
    config: &Value,
    inputs: &harn_agent::lifecycle::Inputs,
) -> Result<Outcome> {
    let Some(execute) = cx.vm().builtin(EXECUTE) else { return Err(thrown(no_workflows())) };
    let mut options = entry(config, "options").to_dict().map(|dict| (*dict).clone()).unwrap_or_default();
    options.insert("parent_worker_id", worker.record.borrow().id.as_str());
    if !inputs.transcript.is_null() {
        options.insert("transcript", from_json(&inputs.transcript));
    }
    if let Some(path) = &inputs.run_path {
        options.insert("resume_path", path.as_str());
    }
    let artifacts = from_json(&json!(inputs.artifacts));
    let arguments = [Value::str(&inputs.task), entry(config, "graph"), artifacts, options.into()];
    let result = to_json(&cx.call(&execute.value(), arguments).await?);
    let run =
        result["run"]["id"].as_str().map(|id| (id.to_owned(), result["path"].as_str().map(str::to_owned)));
    Ok(Outcome {
        transcript: result["transcript"].clone(),
        artifacts: result["artifacts"].as_array().cloned().unwrap_or_default(),
        run,
        result,
    })
}

/// The builtin that runs workflows.
pub(crate) const EXECUTE: &str = "workflow_execute";

/// Returns the error message if it is missing.
pub(crate) fn no_workflows() -> String {
    "config.graph needs workflows, which this version does not have; give a node".to_owned() // prose-ok: diagnostic
}

/// Returns the conversation in the form that `carry.transcript_mode` requires.
async fn carried(cx: &Cx, worker: &Rc<Worker>, transcript: &Json) -> Result<Json> {
    let (mode, policy) = {
        let carry = &worker.record.borrow().carry;
        (carry.transcript, carry.context_policy.clone())
    };
    let ids = || new_id(cx.vm());
    match mode {
        TranscriptMode::Inherit => Ok(transcript.clone()),
        TranscriptMode::Reset => Ok(Json::Null),
        TranscriptMode::Fork => transcript::fork(transcript, &json!({}), &ids).or_throw(),
        TranscriptMode::Compact => {
            let compact = cx.vm().builtin("transcript_compact");
            let Some(compact) = compact else { return Ok(transcript.clone()) };
            let chosen = policy.as_object().into_iter().flatten();
            let chosen = chosen.filter(|(key, _)| COMPACTION.contains(&key.as_str()));
            let options: harn_value::data::Map<String, Json> =
                chosen.map(|(key, value)| (key.clone(), value.clone())).collect();
            let arguments = [from_json(transcript), from_json(&Json::Object(options))];
            Ok(to_json(&cx.call(&compact.value(), arguments).await?))
        }
    }
}

/// Runs a worker again that has ended or was interrupted, if `change` permits it.
///
/// # Errors
/// An error of `change`.
pub(crate) fn again(
    cx: &Cx,
    worker: &Rc<Worker>,
    change: impl FnOnce(&mut Record, &str) -> std::result::Result<Option<harn_agent::lifecycle::Update>, String>,
) -> Result<()> {
    let mut refused = None;
    // As at its first start, it must not be listed as running without running.
    let _calm = Calm::new();
    worker.change(cx, |record, now| match change(record, now) {
        Ok(update) => update,
        Err(text) => {
            refused = Some(text);
            None
        }
    });
    if let Some(text) = refused {
        return Err(thrown(text));
    }
    if worker.life() == Life::Running {
        start::launch(cx, worker);
    }
    Ok(())
}

/// Returns the error for an unknown worker.
pub(crate) fn unknown(id: &str) -> Error {
    thrown(format!("unknown worker: {id}"))
}
