//! The state of a runtime's handle.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;

use harn_agent::harness::RuntimeSpec;
use harn_agent::roles::{Approvals, BoundAgent};
use harn_llm::LlmRuntime;
use harn_value::{Data as Json, json};
use harn_value::{Foreign, Value};
use harn_vm::{Error, Result};
use tokio::sync::Notify;

use crate::roles::shelf::Shelf;

/// Maximum number of stored runs.
const TRACES: usize = 256;

/// Maximum number of stored events of a run.
const EVENTS: usize = 10_000;

/// The interpreter of turns.
pub(crate) enum Interpreter {
    /// The models of the agents.
    Live,
    /// The prompts, as JSON.
    Scripted,
    /// None.
    Noop,
    /// A fixed reply.
    Fixed(String),
    /// The program, with one closure for all agents or one for each provider.
    Own,
}

/// The stored data of a run.
pub(crate) struct Trace {
    /// The id of the run.
    pub(crate) id: String,
    /// The id of its thread.
    pub(crate) thread: String,
    /// The name of its agent.
    pub(crate) agent: String,
    /// `running`, `done`, `failed` or `cancelled`.
    pub(crate) status: Cell<&'static str>,
    events: RefCell<Vec<Json>>,
    left_out: Cell<u64>,
    /// The programs that agents received, and the requests to their models.
    programs: RefCell<Vec<Json>>,
}

impl Trace {
    /// Creates the trace of a new run.
    pub(crate) fn new(id: &str, thread: &str, agent: &str) -> Trace {
        Trace {
            id: id.to_owned(),
            thread: thread.to_owned(),
            agent: agent.to_owned(),
            status: Cell::new("running"),
            events: RefCell::default(),
            left_out: Cell::new(0),
            programs: RefCell::default(),
        }
    }

    /// Stores an event.
    pub(crate) fn add(&self, event: &Json) {
        let mut events = self.events.borrow_mut();
        if events.len() < EVENTS {
            events.push(event.clone());
        } else {
            self.left_out.set(self.left_out.get() + 1);
        }
    }

    /// Stores the program that an agent received, or the request to its model.
    pub(crate) fn add_program(&self, program: Json) {
        let mut programs = self.programs.borrow_mut();
        if programs.len() < EVENTS {
            programs.push(program);
        }
    }

    /// Returns `{id, thread_id, agent, status, event_count}`.
    pub(crate) fn summary(&self) -> Json {
        let count = self.events.borrow().len() as u64 + self.left_out.get();
        json!({"id": self.id, "thread_id": self.thread, "agent": self.agent, "status": self.status.get(),
               "event_count": count})
    }

    /// Returns the summary with all events and programs.
    pub(crate) fn to_json(&self) -> Json {
        let mut out = self.summary();
        out["events"] = self.events.borrow().clone().into();
        out["programs"] = self.programs.borrow().clone().into();
        out
    }
}

/// A runtime of agents with roles.
pub(crate) struct RoleRuntime {
    /// The spec that it was created from.
    pub(crate) spec: RuntimeSpec,
    /// Its agents with their tools.
    pub(crate) agents: Vec<BoundAgent>,
    /// The interpreter of turns.
    pub(crate) interpreter: Interpreter,
    /// The store of references and approvals.
    pub(crate) kv: Shelf,
    /// The store of plans.
    pub(crate) plans: Shelf,
    /// The store of histories.
    pub(crate) memory: Shelf,
    /// Approval requests.
    pub(crate) approvals: RefCell<Approvals>,
    /// Notifies of an answer.
    pub(crate) answered: Notify,
    /// Runs, oldest first.
    pub(crate) traces: RefCell<VecDeque<Rc<Trace>>>,
    /// The model calls of agents whose providers have settings in the spec.
    pub(crate) llm: Option<Rc<LlmRuntime>>,
    /// The providers with such settings.
    pub(crate) set_up: BTreeSet<String>,
}

impl RoleRuntime {
    /// Returns the id of the tenant.
    pub(crate) fn tenant(&self) -> &str {
        &self.spec.tenant.resource_id
    }

    /// Returns an agent by name.
    pub(crate) fn agent(&self, name: &str) -> Option<(usize, &BoundAgent)> {
        self.agents.iter().enumerate().find(|(_, agent)| agent.spec.name == name)
    }

    /// Stores the trace of a run.
    pub(crate) fn begin_trace(&self, trace: &Rc<Trace>) {
        let mut traces = self.traces.borrow_mut();
        traces.push_back(trace.clone());
        if traces.len() > TRACES {
            traces.pop_front();
        }
    }
}

/// A runtime as a value that its functions hold.
pub(crate) struct Held(pub(crate) Rc<RoleRuntime>);

impl Held {
    /// Returns the runtime in a hidden argument.
    ///
    /// # Errors
    /// The argument does not contain a runtime.
    pub(crate) fn of(value: &Value) -> Result<Rc<RoleRuntime>> {
        let held = value.downcast::<Held>().map(|held| held.0.clone());
        held.ok_or_else(|| Error::type_error(format!("expected a role runtime, got {}", value.type_name())))
    }
}

impl Foreign for Held {
    fn type_name(&self) -> &'static str {
        "role_runtime"
    }

    fn print(&self, out: &mut String) {
        out.push_str(&format!("<role_runtime:{}>", self.0.tenant()));
    }

    fn equals(&self, other: &dyn Foreign) -> bool {
        let other: &dyn std::any::Any = other;
        other.downcast_ref::<Held>().is_some_and(|other| Rc::ptr_eq(&self.0, &other.0))
    }
}
