//! Who the running task is: its id, which says how it came to be, and what the crates around the machine know of it.
//!
//! Everything that needs the place of a task in the program (scopes of shared state, `runtime_context`) asks
//! `Cx::task_identity`. Ids are put together when somebody asks, so tasks that nobody asks pay nothing for them.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;

use harn_value::{Dict, Str, Value};

use crate::cx::Cx;
use crate::task::Task;

/// The id of the task that a program begins with.
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
    /// The form of the words that the compiler has for them.
    pub(crate) fn of(word: &str) -> Form {
        match word {
            "count" => Form::Count,
            "settle" => Form::Settle,
            "stream" => Form::Stream,
            _ => Form::Each,
        }
    }

    /// The name of the tasks.
    pub(crate) fn name(self) -> &'static str {
        self.words().1
    }

    /// The word in ids, and the name of the tasks.
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

/// What a supervisor keeps running.
pub struct Supervised {
    /// The id of the supervisor.
    pub supervisor: Str,
    /// Its name among the others.
    pub name: Str,
    /// What kind of work it is.
    pub kind: Str,
}

/// What began a task.
pub(crate) enum Origin {
    /// The host, as the task that a program begins with.
    Program,
    /// The host, with a call of a function of the program.
    Host,
    /// The runtime, for work of its own: a worker, a tool of a loop.
    Runtime,
    /// `spawn`, the how many-th of the owner.
    Spawn(u64),
    /// The how many-th parallel operation, for the item of a number.
    Parallel { form: Form, group: u64, number: usize },
    /// The program, as the supervisor of an id. To the program, what it starts belongs to the task that began it.
    Supervisor(Str),
    /// A supervisor.
    Supervised(Box<Supervised>),
}

/// What a task was born with, and what the ids of its children come from.
pub(crate) struct Birth {
    pub(crate) origin: Origin,
    /// Tasks that it has spawned.
    spawns: Cell<u64>,
    /// Parallel operations that it and the tasks above it have begun before.
    groups: Cell<u64>,
    /// The id of its parent, once that is gone.
    above: OnceCell<Rc<str>>,
    /// A dict of the values that the program has set for it; nil while there are none.
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
    /// Number and origin of the next task that this one spawns.
    pub(crate) fn next_spawn(&self) -> (u64, Origin) {
        let number = Birth::next(&self.birth.spawns);
        (number, Origin::Spawn(number))
    }

    /// The number of the next parallel operation.
    pub(crate) fn next_group(&self) -> u64 {
        Birth::next(&self.birth.groups)
    }

    /// The values that the program has set for this task: a dict, or nil.
    pub(crate) fn values(&self) -> Value {
        self.birth.values.borrow().clone()
    }

    pub(crate) fn set_values(&self, values: Value) {
        // What is replaced may run code when it is dropped.
        drop(self.birth.values.replace(values));
    }

    /// Its id, such as `task_root:spawn:2`; the same in every run of the program.
    pub(crate) fn task_id(&self) -> String {
        // Tasks in tasks may go deeper than calls.
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

    /// What its own id adds to that of its parent.
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

    /// What kind of task it is.
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

    /// The id of the task that created it.
    pub(crate) fn parent_task_id(&self) -> Option<String> {
        let gone = || self.birth.above.get().map(ToString::to_string);
        let id = self.parent().map(|parent| parent.task_id()).or_else(gone)?;
        let Origin::Supervised(who) = &self.birth.origin else { return Some(id) };
        let above = id.strip_suffix(&format!(":supervisor:{}", who.supervisor)).map(str::to_owned);
        Some(above.unwrap_or(id))
    }

    /// The id of the parallel operation or of the supervisor that it belongs to.
    pub(crate) fn task_group_id(&self) -> Option<String> {
        match &self.birth.origin {
            Origin::Parallel { form, group, .. } => {
                Some(format!("{}:{}:{group}", self.parent_task_id()?, form.words().0))
            }
            Origin::Supervised(who) => Some(who.supervisor.to_string()),
            _ => None,
        }
    }

    /// Whether the program began it, and it has a span of its own.
    pub(crate) fn is_named(&self) -> bool {
        matches!(self.birth.origin, Origin::Spawn(_) | Origin::Supervised(_))
    }

    /// Whether it looks after the tasks of a supervisor.
    pub(crate) fn is_supervisor(&self) -> bool {
        matches!(self.birth.origin, Origin::Supervisor(_))
    }

    /// This task is over while a child still cleans up: its id stays known to that.
    pub(crate) fn outlived_by(&self, child: &Task) {
        let _ = child.birth.above.set(self.task_id().into());
    }
}

/// What the crates around the machine know of the running task, by the keys of `runtime_context`. What is not in it is
/// not known.
pub type TaskFacts = fn(&Cx, &mut Dict);

/// Who the running task is.
pub(crate) struct TaskIdentity {
    /// Its id, such as `task_root:spawn:2`.
    pub(crate) task_id: String,
    /// The id of the task that the program began with.
    pub(crate) root_task_id: String,
    /// The parallel operation or the supervisor that it belongs to.
    pub(crate) task_group_id: Option<String>,
    /// The run of a workflow that it works in.
    pub(crate) run_id: Option<String>,
    /// The session of the agent loop that it belongs to.
    pub(crate) agent_session_id: Option<String>,
    /// The session of the outermost loop around it.
    pub(crate) root_agent_session_id: Option<String>,
    /// The tenant that it works for.
    pub(crate) tenant_id: Option<String>,
}

impl Cx {
    /// Who the running task is: what scopes of shared state are told apart by.
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

    /// What the crates around the machine know of the running task.
    pub(crate) fn task_facts(&self) -> Dict {
        let mut facts = Dict::new();
        for tell in &self.vm().task_facts {
            tell(self, &mut facts);
        }
        facts
    }
}
