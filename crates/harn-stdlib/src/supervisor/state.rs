//! What a supervisor knows of itself and of its children.

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

/// The topic of the event log that the events of all supervisors go to.
const TOPIC: &str = "supervisor.lifecycle";

/// The events that are kept: what runs for days must not grow by each of them.
const KEPT: usize = 4096;

/// The supervisors of a program, by id.
#[derive(Default)]
pub(crate) struct Supervisors {
    all: RefCell<BTreeMap<String, Rc<Supervisor>>>,
    /// How many had no id of their own.
    unnamed: Cell<u64>,
}

impl Supervisors {
    /// Takes up a new one.
    ///
    /// # Errors
    /// There is one of that id.
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

    /// Finds one by its id, or by what `supervisor_start` has returned.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn find(&self, function: &str, given: &Value) -> Result<Rc<Supervisor>> {
        let dict = given.to_dict();
        let id = match &dict {
            Some(dict) => dict.get_str("id").cloned().unwrap_or_default(),
            None => given.clone(),
        };
        let known = id.as_str().and_then(|id| self.all.borrow().get(&**id).cloned());
        known.ok_or_else(|| Error::runtime(format!("{function}: unknown supervisor '{id}'")))
    }

    /// How all of them go, in the order of their ids.
    pub(crate) fn views(&self) -> Vec<Value> {
        self.all.borrow().values().map(|supervisor| supervisor.view()).collect()
    }
}

/// Tells `runtime_context` of the supervisors of the program.
pub fn debug_facts(cx: &Cx, facts: &mut Dict) {
    facts.insert("supervisors", cx.state::<Supervisors>().views());
}

/// Keeps the tasks of its children running.
pub(crate) struct Supervisor {
    pub(super) id: Str,
    pub(super) name: Str,
    pub(super) strategy: Strategy,
    /// How long children may clean up.
    pub(super) shutdown: Duration,
    pub(super) state: RefCell<State>,
    /// Numbers of the starts that have ended.
    pub(super) ends: Rc<Ends>,
    /// Looks after the children.
    pub(super) task: OnceCell<Rc<Task>>,
}

pub(super) struct State {
    pub(super) status: Status,
    pub(super) children: Vec<Child>,
    pub(super) metrics: Metrics,
    pub(super) events: VecDeque<Event>,
    /// How many events there were.
    seq: u64,
    /// The starts so far: each has a number, from 1.
    starts: usize,
    /// The children that run, by the numbers of their starts.
    pub(super) running: FxHashMap<usize, usize>,
    /// The children that are to be started again, by the time.
    pub(super) waiting: BTreeSet<(Duration, usize)>,
    /// When the children that still run are aborted, once it is to stop.
    pub(super) stop_at: Option<Duration>,
    /// Ends that came while it waited for others.
    pub(super) put_off: VecDeque<usize>,
    /// Whether the person was told that the event log takes no event.
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
    /// Ended normally, or was stopped.
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

/// When a child is started again.
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
    /// Why it waits, or will not run.
    pub(super) reason: Option<&'static str>,
    pub(super) last_error: Option<String>,
    pub(super) restarts: u64,
    /// When it has failed, as far as that counts.
    pub(super) failures: VecDeque<Duration>,
    pub(super) due: Option<Due>,
    /// The number of the start that runs, and its task.
    pub(super) running: Option<(usize, Rc<Task>)>,
}

impl State {
    /// Sets how a child goes, and when it is started again.
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

    /// A child runs.
    pub(super) fn runs(&mut self, at: usize, number: usize, task: Rc<Task>) {
        self.set(at, ChildStatus::Running, None, None);
        self.running.insert(number, at);
        self.children[at].running = Some((number, task));
    }

    /// Takes the task of a child that is over, or that nobody waits for any more.
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

    /// A number for the next start.
    pub(super) fn next_start(&self) -> usize {
        let mut state = self.state.borrow_mut();
        state.starts += 1;
        state.starts
    }

    /// Notes an event, of a child or of itself.
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
        // Who may not write has the events of `supervisor_events` alone.
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
