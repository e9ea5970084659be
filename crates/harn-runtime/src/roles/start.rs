//! The start and end of a run: a separate task that sends its events to the caller, and ends when the caller stops
//! reading.

use std::rc::Rc;
use std::time::Duration;

use harn_agent::harness::Role;
use harn_agent::roles::event::{self, Usage};
use harn_system::SystemExt;
use harn_value::Value;
use harn_value::{Data as Json, json};
use harn_vm::channel::{Channel, StreamValue};
use harn_vm::iter::Iter;
use harn_vm::{Error, Result};

use crate::convert::{thrown, to_json, told};
use crate::llm_embedder::new_id;
use crate::roles::closures::At;
use crate::roles::invoke::{invoke, total};
use crate::roles::run::{Carried, Run, Turn};
use crate::roles::runtime::{RoleRuntime, Trace};
use crate::worker::start::spawn_owned;

/// Maximum number of unread events; when it is reached, the run waits.
const BUFFER: usize = 1024;

/// Time limit for the cleanup of a run that is no longer read.
const GRACE: Duration = Duration::from_millis(500);

/// The hidden builtin that the task of a run calls.
const JOB: &str = "__role_run";

/// Starts a run of the coordinator, or of the named specialist. Returns its stream of events.
///
/// # Errors
/// Only internal errors.
pub(crate) fn start(
    at: &At,
    runtime: &Rc<RoleRuntime>,
    specialist: Option<&str>,
    prompt: &str,
    thread: &str,
) -> Result<Value> {
    let agents = &runtime.agents;
    let found = match specialist {
        None => agents
            .iter()
            .position(|agent| agent.spec.role == Role::Coordinator)
            .ok_or_else(|| "no coordinator agent registered in the spec".to_owned()),
        Some(name) => agents
            .iter()
            .position(|agent| agent.spec.name == name && agent.spec.role == Role::Specialist)
            .ok_or_else(|| format!("agent '{name}' not found or not a specialist")),
    };
    let channel = Channel::new("role_run", BUFFER);
    let sender = channel.sender();
    let name = found.as_ref().map_or(specialist.unwrap_or_default(), |at| agents[*at].spec.name.as_str());
    let trace = Rc::new(Trace::new(&new_id(at.cx.vm()), thread, name));
    runtime.begin_trace(&trace);
    let began = at.cx.vm().system().monotonic();
    let run = Rc::new(Run::new(runtime.clone(), trace, sender.clone(), began));
    let (agent, problem) = match found {
        Ok(agent) => (i64::try_from(agent).unwrap_or(0).into(), Value::NIL),
        Err(problem) => (Value::NIL, Value::str(&problem)),
    };
    let args = vec![
        Value::foreign(Carried(run.clone())),
        at.closures.clone(),
        agent,
        problem,
        prompt.into(),
        thread.into(),
    ];
    let task = spawn_owned(&at.cx, JOB, args).ok_or_else(|| thrown("query: the run cannot be started"))?;
    let system = at.cx.vm().system().clone();
    harn_vm::spawn(async move {
        tokio::select! {
            biased;
            () = sender.closed() => {}
            () = task.ended() => {}
        }
        if !run.over.get() && !task.is_finished() {
            run.cancelled.set(true);
            run.trace.status.set("cancelled");
            // Its requests are cancelled before its cleanup begins, so that later answers receive an error.
            run.runtime.approvals.borrow_mut().cancel_run(&run.trace.id);
            task.cancel();
            system.within(GRACE, task.ended()).await;
            task.abort();
        }
        run.runtime.approvals.borrow_mut().cancel_run(&run.trace.id);
        if !run.over.get() {
            // The task was stopped from outside.
            run.trace.status.set("cancelled");
            run.close();
        }
    });
    // Dropping the stream drops the channel, which ends the run.
    Ok(Value::foreign(StreamValue(Iter::over(&channel.into_value())?)))
}

/// Runs in the task of a run.
pub(crate) async fn job(
    at: &At,
    run: &Rc<Run>,
    agent: Option<usize>,
    problem: &str,
    prompt: &str,
    thread: &str,
) {
    let deadlines = at.cx.task().deadline_count();
    let done = match agent {
        Some(agent) => whole(at, run, agent, prompt, thread).await,
        None => Err(thrown(problem)),
    };
    // The reader has the same deadline, but may reach the end of the stream before it notices.
    if at.cx.task().deadline_count() < deadlines && !run.cancelled.get() {
        run.trace.status.set("failed");
        return run.fail(thrown("Deadline exceeded"));
    }
    match done {
        Ok(()) => run.trace.status.set("done"),
        Err(_) if run.cancelled.get() => {}
        Err(error) if error.is_catchable() => {
            run.trace.status.set("failed");
            let caught = to_json(&error.caught());
            let code = ["category", "code"].iter().find_map(|key| caught[*key].as_str());
            let _ = run.emit(at, event::error(&told(&error), code)).await;
        }
        Err(error) => {
            run.trace.status.set("failed");
            return run.fail(error);
        }
    }
    run.close();
}

async fn whole(
    at: &At,
    run: &Rc<Run>,
    agent: usize,
    prompt: &str,
    thread: &str,
) -> std::result::Result<(), Error> {
    let turn = Rc::new(Turn::new(run.clone(), agent, thread.to_owned(), 0));
    let name = turn.bound().spec.name.clone();
    let id = run.trace.id.clone();
    turn.emit(at, event::tool_agent(&name, &id, "call")).await?;
    invoke(at, &turn, prompt).await?;
    let reason = turn.reason.borrow().clone();
    turn.emit(at, event::finish(&reason, total(&turn))).await?;
    turn.emit(at, event::tool_agent(&name, &id, "result")).await?;
    turn.emit(at, event::with_data("data-cost-summary", costs(run))).await?;
    turn.emit(at, event::with_data("data-latency-summary", latencies(at, run))).await
}

/// Returns token usage by agent, and in total.
fn costs(run: &Run) -> Json {
    let mut all = Usage::default();
    let mut agents = Vec::new();
    for (agent, model, usage) in run.used.borrow().iter() {
        all.add(*usage);
        agents.push(json!({"agentName": agent, "model": model, "usage": usage.to_json()}));
    }
    json!({"agents": agents, "usage": all.to_json()})
}

/// Returns durations in milliseconds by agent, and in total.
fn latencies(at: &At, run: &Run) -> Json {
    let all = at.cx.vm().system().monotonic().saturating_sub(run.began);
    let took = run.took.borrow();
    let agents: Vec<Json> =
        took.iter().map(|(agent, ms)| json!({"agentName": agent, "durationMs": ms})).collect();
    json!({"agents": agents, "durationMs": u64::try_from(all.as_millis()).unwrap_or(u64::MAX)})
}
