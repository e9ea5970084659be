//! Identity of the running task: its ID, which encodes its origin, and facts that other crates provide about it.
//!
//! Code that needs the position of a task in the program (scopes of shared state, `runtime_context`) calls
//! `Cx::task_identity`. IDs are built on demand, so a task whose ID is never requested has no cost.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;

use harn_value::{Dict, Str, Value};

use crate::cx::Cx;
use crate::task::Task;

/// The ID of a program's root task.
pub(crate) const ROOT: &str = "task_root";

/// The forms of parallel work.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Count,
    Each,
    Settle,
    Stream,
    Race,
}

impl Form {
    /// Parses the keyword that the compiler passes.
    pub(crate) fn of(word: &str) -> Form {
        match word {
            "count" => Form::Count,
            "settle" => Form::Settle,
            "stream" => Form::Stream,
            _ => Form::Each,
        }
    }

    /// Returns the name of the tasks.
    pub(crate) fn name(self) -> &'static str {
        self.words().1
    }

    /// Returns the segment of IDs and the name of the tasks.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Form::Count => ("parallel", "parallel"),
            Form::Each => ("parallel_each", "parallel each"),
            Form::Settle => ("parallel_settle", "parallel settle"),
            Form::Stream => ("parallel_each_stream", "parallel each as stream"),
            Form::Race => ("parallel_race", "parallel race"),
        }
    }
}

/// A task that a supervisor keeps running.
pub struct Supervised {
    /// The ID of the supervisor.
    pub supervisor: Str,
    /// Its name among the supervised tasks.
    pub name: Str,
    /// The kind of work.
    pub kind: Str,
}

/// Origin of a task.
pub(crate) enum Origin {
    /// The host, for a program's root task.
    Program,
    /// The host, by calling a function of the program.
    Host,
    /// The runtime, for internal work: a worker, a tool of a loop.
    Runtime,
    /// `spawn`, with its sequence number in the owner.
    Spawn(u64),
    /// A parallel operation, with the operation's sequence number and the item's number.
    Parallel { form: Form, group: u64, number: usize },
    /// The program, for the task of the supervisor with this ID. The program sees the tasks that it starts as children
    /// of the task that started the supervisor.
    Supervisor(Str),
    /// A supervisor.
    Supervised(Box<Supervised>),
}

/// Origin of a task, and the counters for the IDs of its children.
pub(crate) struct Birth {
    pub(crate) origin: Origin,
    /// Number of tasks that it has spawned.
    spawns: Cell<u64>,
    /// Number of parallel operations started before by it and its ancestors.
    groups: Cell<u64>,
    /// The ID of its parent, set when the parent is dropped.
    above: OnceCell<Rc<str>>,
    /// Values that the program has set for the task, as a dict; nil if there are none.
    values: RefCell<Value>,
}

impl Birth {
    pub(crate) fn new(origin: Origin, parent: Option<&Task>) -> Birth {
        let groups = Cell::new(parent.map_or(0, |parent| parent.birth.groups.get()));
        Birth { origin, spawns: Cell::default(), groups, above: OnceCell::new(), values: RefCell::default() }
    }

    fn next(counter: &Cell<u64>) -> u64 {
        counter.set(counter.get() + 1);
        counter.get()
    }
}

impl Task {
    /// Returns the number and origin of the next task that this one spawns.
    pub(crate) fn next_spawn(&self) -> (u64, Origin) {
        let number = Birth::next(&self.birth.spawns);
        (number, Origin::Spawn(number))
    }

    /// Returns the number of the next parallel operation.
    pub(crate) fn next_group(&self) -> u64 {
        Birth::next(&self.birth.groups)
    }

    /// Returns the values that the program has set for this task: a dict, or nil.
    pub(crate) fn values(&self) -> Value {
        self.birth.values.borrow().clone()
    }

    pub(crate) fn set_values(&self, values: Value) {
        // Dropping the old value may run code.
        drop(self.birth.values.replace(values));
    }

    /// Returns its ID, such as `task_root:spawn:2`; the same in every run of the program.
    pub(crate) fn task_id(&self) -> String {
        // Tasks may be nested deeper than calls, so this does not recurse.
        let mut parts = vec![self.part()];
        let mut above = self.parent();
        if above.is_none() {
            parts.extend(self.birth.above.get().map(ToString::to_string));
        }
        while let Some(task) = above {
            parts.push(task.part());
            above = task.parent();
            if above.is_none() {
                parts.extend(task.birth.above.get().map(ToString::to_string));
            }
        }
        parts.reverse();
        parts.join(":")
    }

    /// Returns the segment that it adds to its parent's ID.
    fn part(&self) -> String {
        match &self.birth.origin {
            Origin::Program => ROOT.to_owned(),
            Origin::Host => format!("call:{}", self.id),
            Origin::Runtime => format!("task:{}", self.id),
            Origin::Spawn(number) => format!("spawn:{number}"),
            Origin::Parallel { form, group, number } => format!("{}:{group}:{number}", form.words().0),
            Origin::Supervisor(id) => format!("supervisor:{id}"),
            Origin::Supervised(who) => who.name.to_string(),
        }
    }

    /// Returns the kind of task.
    pub(crate) fn task_name(&self) -> Str {
        let name = match &self.birth.origin {
            Origin::Program => "root",
            Origin::Host => "call",
            Origin::Runtime => "task",
            Origin::Spawn(_) => "spawn",
            Origin::Parallel { form, .. } => form.words().1,
            Origin::Supervisor(_) => "supervisor",
            Origin::Supervised(who) => return Str::new(&format!("supervisor {}", who.kind)),
        };
        Str::new(name)
    }

    /// Returns the ID of the task that created it.
    pub(crate) fn parent_task_id(&self) -> Option<String> {
        let gone = || self.birth.above.get().map(ToString::to_string);
        let id = self.parent().map(|parent| parent.task_id()).or_else(gone)?;
        let Origin::Supervised(who) = &self.birth.origin else { return Some(id) };
        let above = id.strip_suffix(&format!(":supervisor:{}", who.supervisor)).map(str::to_owned);
        Some(above.unwrap_or(id))
    }

    /// Returns the ID of the parallel operation or of the supervisor that it belongs to.
    pub(crate) fn task_group_id(&self) -> Option<String> {
        match &self.birth.origin {
            Origin::Parallel { form, group, .. } => {
                Some(format!("{}:{}:{group}", self.parent_task_id()?, form.words().0))
            }
            Origin::Supervised(who) => Some(who.supervisor.to_string()),
            _ => None,
        }
    }

    /// Returns whether the program started it and it has a separate tracing span.
    pub(crate) fn is_named(&self) -> bool {
        matches!(self.birth.origin, Origin::Spawn(_) | Origin::Supervised(_))
    }

    /// Returns whether it manages the tasks of a supervisor.
    pub(crate) fn is_supervisor(&self) -> bool {
        matches!(self.birth.origin, Origin::Supervisor(_))
    }

    /// Stores the ID of this task, which has ended, in a child that still cleans up.
    pub(crate) fn outlived_by(&self, child: &Task) {
        let _ = child.birth.above.set(self.task_id().into());
    }
}

/// A function with which another crate adds facts about the running task, by the keys of `runtime_context`. A missing
/// key means unknown.
pub type TaskFacts = fn(&Cx, &mut Dict);

/// Identity of the running task.
pub(crate) struct TaskIdentity {
    /// Its ID, such as `task_root:spawn:2`.
    pub(crate) task_id: String,
    /// The ID of the program's root task.
    pub(crate) root_task_id: String,
    /// The parallel operation or the supervisor that it belongs to.
    pub(crate) task_group_id: Option<String>,
    /// The workflow run that it works in.
    pub(crate) run_id: Option<String>,
    /// The session of the agent loop that it belongs to.
    pub(crate) agent_session_id: Option<String>,
    /// The session of the outermost enclosing loop.
    pub(crate) root_agent_session_id: Option<String>,
    /// The tenant that it works for.
    pub(crate) tenant_id: Option<String>,
}

impl Cx {
    /// Returns the identity of the running task, by which scopes of shared state are distinguished.
    pub(crate) fn task_identity(&self) -> TaskIdentity {
        let facts = self.task_facts();
        let text = |key: &str| facts.get_str(key).and_then(Value::as_str).map(ToString::to_string);
        TaskIdentity {
            task_id: self.task().task_id(),
            root_task_id: self.task().root_of().task_id(),
            task_group_id: self.task().task_group_id(),
            run_id: text("run_id"),
            agent_session_id: text("agent_session_id"),
            root_agent_session_id: text("root_agent_session_id"),
            tenant_id: text("tenant_id"),
        }
    }

    /// Returns the facts that other crates provide about the running task.
    pub(crate) fn task_facts(&self) -> Dict {
        let mut facts = Dict::new();
        for tell in &self.vm().task_facts {
            tell(self, &mut facts);
        }
        facts
    }
}
