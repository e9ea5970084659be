//! The context of the running task: the loop, the worker, the workflow run and the role that it belongs to.
//! `runtime_context` returns it, and scopes of shared state depend on it.

use std::rc::Rc;

use harn_value::{Dict, Value};
use harn_vm::Cx;
use harn_vm::task_scope::TaskScope;

use crate::convert::entry;
use crate::session::Sessions;
use crate::template_state::TemplateState;
use crate::worker::registry::{Worker, Workers};

/// Context that is set for a task and its children.
#[derive(Default)]
struct Said(TaskScope<Rc<Dict>>);

/// Sets context for a task until it is dropped.
pub(crate) struct Saying {
    said: Rc<Said>,
    token: u64,
}

impl Drop for Saying {
    fn drop(&mut self) {
        self.said.0.close(self.token);
    }
}

/// Adds context to the running task, by keys of `runtime_context`; context of the surrounding tasks remains.
pub(crate) fn say<'a>(cx: &Cx, facts: impl IntoIterator<Item = (&'static str, &'a str)>) -> Saying {
    let said = cx.state::<Said>();
    let mut all = said.0.current(cx).map_or_else(Dict::new, |around| Dict::clone(&around));
    for (key, fact) in facts {
        all.insert(key, fact);
    }
    let token = said.0.open(cx, Rc::new(all));
    Saying { said, token }
}

/// Adds the context of the running task to `facts`.
pub(crate) fn tell(cx: &Cx, facts: &mut Dict) {
    let worker = cx.state::<Workers>().running.current(cx);
    if let Some(worker) = &worker {
        tell_worker(worker, facts);
    }
    tell_sessions(cx, worker.as_deref(), facts);
    let provider = entry(&cx.state::<TemplateState>().llm(cx), "provider");
    if !provider.is_nil() {
        facts.insert("provider", provider);
    }
    if let Some(said) = cx.state::<Said>().0.current(cx) {
        facts.spread(&said);
    }
}

fn tell_worker(worker: &Worker, facts: &mut Dict) {
    let record = worker.record.borrow();
    facts.insert("worker_id", &record.id);
    facts.insert("agent_name", &record.name);
    facts.insert("run_id", record.lineage.parent_run_id.as_deref());
    facts.insert("stage_id", record.lineage.parent_stage_id.as_deref());
}

fn tell_sessions(cx: &Cx, worker: Option<&Worker>, facts: &mut Dict) {
    let lines = cx.state::<Sessions>().around_task(cx);
    let started_in = worker.and_then(|worker| worker.record.borrow().lineage.parent_session_id.clone());
    let of_loop = |at: usize| lines.get(at).map(|id| Value::from(id.as_str()));
    facts.insert("agent_session_id", of_loop(0));
    facts.insert("parent_agent_session_id", of_loop(1).or_else(|| started_in.map(Value::from)));
    let root = worker.and_then(first_session).map(Value::from);
    facts.insert("root_agent_session_id", root.or_else(|| lines.last().map(|id| Value::from(id.as_str()))));
}

/// Returns the session of the loop that started the first worker in the chain.
fn first_session(worker: &Worker) -> Option<String> {
    let above = worker.owner.as_deref().and_then(first_session);
    above.or_else(|| worker.record.borrow().lineage.parent_session_id.clone())
}
