//! The state of a supervisor and its children.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use harn_value::{Dict, Str, Value};
use harn_vm::task::{Ends, Task};
use harn_vm::{Cx, Error, Result};
use rustc_hash::FxHashMap;

use super::plan::Plan;
use super::policy::{Policy, Strategy};
use crate::event_log::EventLog;

/// The topic of the event log for the events of all supervisors.
const TOPIC: &str = "supervisor.lifecycle";

/// Number of retained events, so that long-running programs do not grow with each event.
const KEPT: usize = 4096;

/// The supervisors of a program, by id.
#[derive(Default)]
pub(crate) struct Supervisors {
    all: RefCell<BTreeMap<String, Rc<Supervisor>>>,
    /// Number of supervisors without an explicit id.
    unnamed: Cell<u64>,
}

impl Supervisors {
    /// Registers a new supervisor.
    ///
    /// # Errors
    /// The id is already used.
    pub(super) fn add(&self, plan: Plan) -> Result<Rc<Supervisor>> {
        let mut all = self.all.borrow_mut();
        let id = match plan.id.clone() {
            Some(id) if all.contains_key(&*id) => {
                let text = format!("supervisor_start: supervisor '{id}' already exists");
                return Err(Error::runtime(text));
            }
            Some(id) => id,
            None => loop {
                self.unnamed.set(self.unnamed.get() + 1);
                let id = format!("supervisor_{}", self.unnamed.get());
                if !all.contains_key(&id) {
                    break Str::new(&id);
                }
            },
        };
        let supervisor = Rc::new(Supervisor::new(id.clone(), plan));
        all.insert(id.to_string(), supervisor.clone());
        Ok(supervisor)
    }

    /// Finds a supervisor by its id or by the handle from `supervisor_start`.
    ///
    /// # Errors
    /// It does not exist.
    pub(crate) fn find(&self, function: &str, given: &Value) -> Result<Rc<Supervisor>> {
        let dict = given.to_dict();
        let id = match &dict {
            Some(dict) => dict.get_str("id").cloned().unwrap_or_default(),
            None => given.clone(),
        };
        let known = id.as_str().and_then(|id| self.all.borrow().get(&**id).cloned());
        known.ok_or_else(|| Error::runtime(format!("{function}: unknown supervisor '{id}'")))
    }

    /// Returns the states of all supervisors, in the order of their ids.
    pub(crate) fn views(&self) -> Vec<Value> {
        self.all.borrow().values().map(|supervisor| supervisor.view()).collect()
    }
}

/// Adds the supervisors of the program to the result of `runtime_context`.
pub fn debug_facts(cx: &Cx, facts: &mut Dict) {
    facts.insert("supervisors", cx.state::<Supervisors>().views());
}

/// Keeps the tasks of its children running.
pub(crate) struct Supervisor {
    pub(super) id: Str,
    pub(super) name: Str,
    pub(super) strategy: Strategy,
    /// Time limit for the cleanup of children.
    pub(super) shutdown: Duration,
    pub(super) state: RefCell<State>,
    /// Numbers of the starts that have ended.
    pub(super) ends: Rc<Ends>,
    /// The task that supervises the children.
    pub(super) task: OnceCell<Rc<Task>>,
}

pub(super) struct State {
    pub(super) status: Status,
    pub(super) children: Vec<Child>,
    pub(super) metrics: Metrics,
    pub(super) events: VecDeque<Event>,
    /// Number of events so far.
    seq: u64,
    /// Number of starts so far; starts are numbered from 1.
    starts: usize,
    /// The running children, by the number of their start.
    pub(super) running: FxHashMap<usize, usize>,
    /// The children that wait for a restart, by time.
    pub(super) waiting: BTreeSet<(Duration, usize)>,
    /// When the remaining children are aborted, if it is stopping.
    pub(super) stop_at: Option<Duration>,
    /// Ends that arrived while it waited for others.
    pub(super) put_off: VecDeque<usize>,
    /// Whether the user has been warned that events cannot be appended to the event log.
    told: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    Running,
    Completed,
    Draining,
    Stopped,
    Escalated,
}

impl Status {
    pub(super) fn name(self) -> &'static str {
        match self {
            Status::Running => "running",
            Status::Completed => "completed",
            Status::Draining => "draining",
            Status::Stopped => "stopped",
            Status::Escalated => "escalated",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ChildStatus {
    Pending,
    Running,
    Waiting,
    Draining,
    CircuitOpen,
    /// Ended without an error, or was stopped.
    Stopped,
    Failed,
    Suppressed,
}

impl ChildStatus {
    pub(super) fn name(self) -> &'static str {
        match self {
            ChildStatus::Pending => "pending",
            ChildStatus::Running => "running",
            ChildStatus::Waiting => "waiting",
            ChildStatus::Draining => "draining",
            ChildStatus::CircuitOpen => "circuit_open",
            ChildStatus::Stopped => "stopped",
            ChildStatus::Failed => "failed",
            ChildStatus::Suppressed => "suppressed",
        }
    }
}

/// The time of a restart.
#[derive(Clone, Copy)]
pub(super) struct Due {
    /// On the clock of the system.
    pub(super) at: Duration,
    /// On the clock of the program.
    pub(super) at_ms: i64,
}

pub(super) struct Child {
    pub(super) name: Str,
    pub(super) kind: Str,
    pub(super) policy: Policy,
    pub(super) lease: Value,
    pub(super) status: ChildStatus,
    /// The reason why it waits or does not run.
    pub(super) reason: Option<&'static str>,
    pub(super) last_error: Option<String>,
    pub(super) restarts: u64,
    /// Times of the failures in the window.
    pub(super) failures: VecDeque<Duration>,
    pub(super) due: Option<Due>,
    /// The number of the running start, and its task.
    pub(super) running: Option<(usize, Rc<Task>)>,
}

impl State {
    /// Sets the status of a child, and the time of its restart.
    pub(super) fn set(
        &mut self,
        at: usize,
        status: ChildStatus,
        reason: Option<&'static str>,
        due: Option<Due>,
    ) {
        let child = &mut self.children[at];
        if let Some(due) = child.due {
            self.waiting.remove(&(due.at, at));
        }
        if let Some(due) = due {
            self.waiting.insert((due.at, at));
        }
        (child.status, child.reason, child.due) = (status, reason, due);
    }

    /// Marks a child as running.
    pub(super) fn runs(&mut self, at: usize, number: usize, task: Rc<Task>) {
        self.set(at, ChildStatus::Running, None, None);
        self.running.insert(number, at);
        self.children[at].running = Some((number, task));
    }

    /// Takes the task of a child that has ended or is abandoned.
    pub(super) fn take_task(&mut self, at: usize) -> Option<Rc<Task>> {
        let (number, task) = self.children[at].running.take()?;
        self.running.remove(&number);
        Some(task)
    }
}

#[derive(Default)]
pub(super) struct Metrics {
    pub(super) escalated: u64,
    pub(super) failed: u64,
    pub(super) restarted: u64,
    pub(super) started: u64,
    pub(super) stopped: u64,
    pub(super) suppressed: u64,
}

pub(super) struct Event {
    pub(super) seq: i64,
    pub(super) at_ms: i64,
    pub(super) child: Option<Str>,
    pub(super) kind: &'static str,
    pub(super) message: Option<Str>,
}

impl Supervisor {
    fn new(id: Str, plan: Plan) -> Supervisor {
        let children = plan.children.into_iter().map(|child| Child {
            name: child.name,
            kind: child.kind,
            policy: child.policy,
            lease: child.lease,
            status: ChildStatus::Pending,
            reason: None,
            last_error: None,
            restarts: 0,
            failures: VecDeque::new(),
            due: None,
            running: None,
        });
        let state = State {
            status: Status::Running,
            children: children.collect(),
            metrics: Metrics::default(),
            events: VecDeque::new(),
            seq: 0,
            starts: 0,
            running: FxHashMap::default(),
            waiting: BTreeSet::new(),
            stop_at: None,
            put_off: VecDeque::new(),
            told: false,
        };
        Supervisor {
            name: plan.name.unwrap_or_else(|| id.clone()),
            id,
            strategy: plan.strategy,
            shutdown: plan.shutdown,
            state: RefCell::new(state),
            ends: Rc::default(),
            task: OnceCell::new(),
        }
    }

    /// Returns the number of the next start.
    pub(super) fn next_start(&self) -> usize {
        let mut state = self.state.borrow_mut();
        state.starts += 1;
        state.starts
    }

    /// Records an event of a child or of the supervisor.
    pub(super) fn note(&self, cx: &Cx, kind: &'static str, child: Option<usize>, message: Option<&str>) {
        let at_ms = crate::state::now_ms(cx);
        let event = {
            let mut state = self.state.borrow_mut();
            let child = child.and_then(|at| state.children.get(at)).map(|child| child.name.clone());
            let seq = i64::try_from(state.seq).unwrap_or(i64::MAX);
            let event = Event { seq, at_ms, child, kind, message: message.map(Str::new) };
            let payload = self.event(&event);
            state.seq += 1;
            state.events.push_back(event);
            if state.events.len() > KEPT {
                state.events.pop_front();
            }
            payload
        };
        let log = EventLog::of(cx.vm());
        // Without permission to write, the events are only in `supervisor_events`.
        if log.permit(cx).is_err() {
            return;
        }
        if let Err(error) = log.emit(TOPIC, kind, event, Dict::new(), at_ms)
            && !std::mem::replace(&mut self.state.borrow_mut().told, true)
        {
            let help = "the events are in `supervisor_events`";
            cx.tell_failure(&format!("supervisor '{}'", self.id), help, &error);
        }
    }
}
