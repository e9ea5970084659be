//! What the handle of a runtime stands for.

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

/// Runs that are remembered.
const TRACES: usize = 256;

/// Events of a run that are remembered.
const EVENTS: usize = 10_000;

/// How turns are made.
pub(crate) enum Interpreter {
    /// By the models of the agents.
    Live,
    /// By what prompts say as JSON.
    Scripted,
    /// Not at all.
    Noop,
    /// By one text.
    Fixed(String),
    /// By the program, for all agents or for each provider.
    Own,
}

/// What is remembered of a run.
pub(crate) struct Trace {
    /// The run.
    pub(crate) id: String,
    /// Its thread.
    pub(crate) thread: String,
    /// Its agent.
    pub(crate) agent: String,
    /// `running`, `done`, `failed` or `cancelled`.
    pub(crate) status: Cell<&'static str>,
    events: RefCell<Vec<Json>>,
    left_out: Cell<u64>,
    /// What agents were given, and what left for their models.
    programs: RefCell<Vec<Json>>,
}

impl Trace {
    /// Of a run that begins.
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

    /// Remembers an event.
    pub(crate) fn add(&self, event: &Json) {
        let mut events = self.events.borrow_mut();
        if events.len() < EVENTS {
            events.push(event.clone());
        } else {
            self.left_out.set(self.left_out.get() + 1);
        }
    }

    /// Remembers what an agent was given, or what left for its model.
    pub(crate) fn add_program(&self, program: Json) {
        let mut programs = self.programs.borrow_mut();
        if programs.len() < EVENTS {
            programs.push(program);
        }
    }

    /// `{id, thread_id, agent, status, event_count}`.
    pub(crate) fn summary(&self) -> Json {
        let count = self.events.borrow().len() as u64 + self.left_out.get();
        json!({"id": self.id, "thread_id": self.thread, "agent": self.agent, "status": self.status.get(),
               "event_count": count})
    }

    /// The summary with all events and programs.
    pub(crate) fn to_json(&self) -> Json {
        let mut out = self.summary();
        out["events"] = self.events.borrow().clone().into();
        out["programs"] = self.programs.borrow().clone().into();
        out
    }
}

/// A runtime.
pub(crate) struct RoleRuntime {
    /// What it is made of.
    pub(crate) spec: RuntimeSpec,
    /// Its agents with their tools.
    pub(crate) agents: Vec<BoundAgent>,
    /// How turns are made.
    pub(crate) interpreter: Interpreter,
    /// References and approvals.
    pub(crate) kv: Shelf,
    /// Plans.
    pub(crate) plans: Shelf,
    /// Histories.
    pub(crate) memory: Shelf,
    /// Requests to people.
    pub(crate) approvals: RefCell<Approvals>,
    /// Somebody answered.
    pub(crate) answered: Notify,
    /// Runs, the oldest first.
    pub(crate) traces: RefCell<VecDeque<Rc<Trace>>>,
    /// The model calls of agents whose provider has settings in the spec.
    pub(crate) llm: Option<Rc<LlmRuntime>>,
    /// The providers with such settings.
    pub(crate) set_up: BTreeSet<String>,
}

impl RoleRuntime {
    /// Whose runtime it is.
    pub(crate) fn tenant(&self) -> &str {
        &self.spec.tenant.resource_id
    }

    /// The agent of a name.
    pub(crate) fn agent(&self, name: &str) -> Option<(usize, &BoundAgent)> {
        self.agents.iter().enumerate().find(|(_, agent)| agent.spec.name == name)
    }

    /// Remembers a run.
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
    /// The runtime that a hidden argument holds.
    ///
    /// # Errors
    /// It holds none.
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
