//! A run, its turns, and the events that it sends.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use harn_agent::roles::BoundAgent;
use harn_agent::roles::event::Usage;
use harn_value::{Data as Json, json};
use harn_value::{Foreign, Value};
use harn_vm::channel::Sender;
use harn_vm::{Error, Result};
use tokio::sync::Mutex;

use crate::convert::{entry, from_json, thrown};
use crate::roles::closures::At;
use crate::roles::runtime::{RoleRuntime, Trace};

/// A run: one request to a runtime.
pub(crate) struct Run {
    /// The runtime.
    pub(crate) runtime: Rc<RoleRuntime>,
    /// The trace of the run.
    pub(crate) trace: Rc<Trace>,
    sender: Sender,
    /// Serializes events, so that hooks see them in delivery order.
    gate: Mutex<()>,
    /// Whether the caller stopped reading.
    pub(crate) cancelled: Cell<bool>,
    /// Whether the last event was sent.
    pub(crate) over: Cell<bool>,
    /// Token usage of agents in the order of their completion: agent, model, tokens.
    pub(crate) used: RefCell<Vec<(String, String, Usage)>>,
    /// When the run began.
    pub(crate) began: Duration,
    /// Agents and their durations in milliseconds, in the order of completion.
    pub(crate) took: RefCell<Vec<(String, u64)>>,
    calls: Cell<u64>,
}

impl Run {
    /// Creates a run that sends its events to `sender`.
    pub(crate) fn new(runtime: Rc<RoleRuntime>, trace: Rc<Trace>, sender: Sender, began: Duration) -> Run {
        Run {
            runtime,
            trace,
            sender,
            gate: Mutex::new(()),
            cancelled: Cell::new(false),
            over: Cell::new(false),
            used: RefCell::default(),
            began,
            took: RefCell::default(),
            calls: Cell::new(0),
        }
    }

    /// Returns the next number for a call without an id, starting at 1.
    pub(crate) fn next_call(&self) -> u64 {
        self.calls.set(self.calls.get() + 1);
        self.calls.get()
    }

    /// Sends an event to hooks, then to the trace, then to the reader. Waits while the buffer of the reader is full.
    ///
    /// # Errors
    /// The reader was dropped; a hook ends the program.
    pub(crate) async fn emit(&self, at: &At, event: Json) -> Result<()> {
        let _turn = self.gate.lock().await;
        if self.over.get() {
            return Ok(());
        }
        let value = from_json(&event);
        let hooks = entry(&at.closures, "hooks");
        for hook in hooks.as_list().into_iter().flat_map(|hooks| hooks.iter()) {
            match at.call(hook, vec![value.clone()]).await {
                Err(error) if error.is_catchable() && !at.cx.task().is_cancelled() => {
                    at.cx
                        .vm()
                        .system()
                        .write_err(&harn_syntax::notice(&format!("warning: event_hooks: {error}")));
                }
                called => drop(called?),
            }
        }
        self.trace.add(&event);
        let sent = self.sender.send(value).await;
        at.cx.hand_over_output()?;
        if sent { Ok(()) } else { Err(gone()) }
    }

    /// Ends the stream.
    pub(crate) fn close(&self) {
        self.over.set(true);
        self.sender.close();
    }

    /// Ends the stream with an error that its reader throws.
    pub(crate) fn fail(&self, error: Error) {
        self.over.set(true);
        self.sender.fail(error);
    }
}

fn gone() -> Error {
    thrown("cancelled: nobody reads the events of the run any more")
}

/// One turn of one agent.
pub(crate) struct Turn {
    /// The run.
    pub(crate) run: Rc<Run>,
    /// The index of the agent.
    pub(crate) agent: usize,
    /// Its thread.
    pub(crate) thread: String,
    /// The number of nested agent calls.
    pub(crate) depth: u32,
    /// All text received so far.
    pub(crate) text: RefCell<String>,
    /// The answer, if it differs from `text`.
    pub(crate) answer: RefCell<Option<String>>,
    /// Tool calls with their results.
    pub(crate) interactions: RefCell<Vec<Json>>,
    /// Token usage.
    pub(crate) usage: Cell<Usage>,
    /// The reason for its end.
    pub(crate) reason: RefCell<String>,
    /// Whether a step has begun.
    pub(crate) stepped: Cell<bool>,
}

impl Turn {
    /// Creates a turn.
    pub(crate) fn new(run: Rc<Run>, agent: usize, thread: String, depth: u32) -> Turn {
        Turn {
            run,
            agent,
            thread,
            depth,
            text: RefCell::default(),
            answer: RefCell::default(),
            interactions: RefCell::default(),
            usage: Cell::default(),
            reason: RefCell::new("stop".to_owned()),
            stepped: Cell::new(false),
        }
    }

    /// Returns the agent with its tools.
    pub(crate) fn bound(&self) -> &BoundAgent {
        &self.run.runtime.agents[self.agent]
    }

    /// Returns the answer.
    pub(crate) fn response(&self) -> String {
        let answer = self.answer.borrow().clone().filter(|answer| !answer.trim().is_empty());
        answer.unwrap_or_else(|| self.text.borrow().clone())
    }

    /// Sends an event. Events of agents that were called by others include their name.
    ///
    /// # Errors
    /// As [`Run::emit`].
    pub(crate) async fn emit(&self, at: &At, mut event: Json) -> Result<()> {
        match event["type"].as_str() {
            Some("step-start") => self.stepped.set(true),
            Some("text") => self.text.borrow_mut().push_str(event["text"].as_str().unwrap_or_default()),
            _ => {}
        }
        if self.depth > 0 && event.get("agentName").is_none() {
            event["agentName"] = json!(self.bound().spec.name);
        }
        self.run.emit(at, event).await
    }
}

/// A run or turn as a value that is passed to hidden builtins.
pub(crate) struct Carried<T>(pub(crate) Rc<T>);

impl<T: 'static> Carried<T> {
    /// Returns the run or turn in a hidden argument.
    ///
    /// # Errors
    /// The argument contains something else.
    pub(crate) fn of(value: &Value) -> Result<Rc<T>> {
        let carried = value.downcast::<Carried<T>>().map(|carried| carried.0.clone());
        carried.ok_or_else(|| Error::type_error(format!("expected a run, got {}", value.type_name())))
    }
}

impl<T: 'static> Foreign for Carried<T> {
    fn type_name(&self) -> &'static str {
        "role_run"
    }

    fn print(&self, out: &mut String) {
        out.push_str("<role_run>");
    }

    fn equals(&self, other: &dyn Foreign) -> bool {
        let other: &dyn std::any::Any = other;
        other.downcast_ref::<Carried<T>>().is_some_and(|other| Rc::ptr_eq(&self.0, &other.0))
    }
}
