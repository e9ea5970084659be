//! Sessions: what belongs to an agent loop and to what it runs, carried by its task.
//!
//! Nothing about a loop is global to the program: whoever asks (a tool handler, a template, a loop within) asks for the
//! session of the task it runs in, so loops that run at the same time do not see each other.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use harn_agent::tool::WeakTools;
use harn_value::Value;
use harn_vm::Cx;
use harn_vm::task_scope::TaskScope;

/// What is known of a session, from its first mention on.
#[derive(Default)]
pub(crate) struct Session {
    /// Its name.
    pub(crate) id: String,
    /// Who listens.
    subscribers: RefCell<Vec<Value>>,
    /// Kind and text of what waits to be told to the model.
    feedback: RefCell<Vec<(String, String)>>,
    /// Ids of the skills that were active when its last loop ended.
    skills: RefCell<Option<Vec<String>>>,
}

impl Session {
    /// Adds a listener.
    pub(crate) fn subscribe(&self, listener: Value) {
        self.subscribers.borrow_mut().push(listener);
    }

    /// The listeners, in the order in which they came.
    pub(crate) fn subscribers(&self) -> Vec<Value> {
        self.subscribers.borrow().clone()
    }

    /// Keeps the active skills for the next loop.
    pub(crate) fn carry_skills(&self, active: &[String]) {
        *self.skills.borrow_mut() = Some(active.to_vec());
    }

    /// The skills that were active when the last loop ended.
    pub(crate) fn carried_skills(&self) -> Option<Vec<String>> {
        self.skills.borrow().clone()
    }

    /// Queues something for the next turn.
    pub(crate) fn queue(&self, kind: &str, text: &str) {
        self.feedback.borrow_mut().push((kind.to_owned(), text.to_owned()));
    }

    /// Takes what is queued.
    pub(crate) fn take_feedback(&self) -> Vec<(String, String)> {
        std::mem::take(&mut self.feedback.borrow_mut())
    }
}

/// A loop that runs: the frame around whatever its task does.
pub(crate) struct Running {
    /// The loop's session.
    pub(crate) session: Rc<Session>,
    /// The registry that `tool_ref` looks at.
    pub(crate) tools: RefCell<Option<Value>>,
}

/// The sessions of a program.
#[derive(Default)]
pub(crate) struct Sessions {
    named: RefCell<BTreeMap<String, Rc<Session>>>,
    running: TaskScope<Rc<Running>>,
    /// Tools that loops are being run with.
    pub(crate) tools: RefCell<Vec<WeakTools>>,
    /// The registry that `tool_bind` bound outside of loops.
    bound: RefCell<Option<Value>>,
    /// Places of errors in handlers that were told.
    pub(crate) reported: RefCell<BTreeSet<Option<(String, u32)>>>,
}

impl Sessions {
    /// The session of a name; it comes into being when it is first named.
    pub(crate) fn named(&self, id: &str) -> Rc<Session> {
        let new = || Rc::new(Session { id: id.to_owned(), ..Session::default() });
        self.named.borrow_mut().entry(id.to_owned()).or_insert_with(new).clone()
    }

    /// A session that nobody can name before it runs.
    pub(crate) fn unnamed(id: String) -> Rc<Session> {
        Rc::new(Session { id, ..Session::default() })
    }

    /// The loop that the running task belongs to.
    pub(crate) fn running(&self, cx: &Cx) -> Option<Rc<Running>> {
        self.running.current(cx)
    }

    /// The registry in force for the running task.
    pub(crate) fn tools(&self, cx: &Cx) -> Option<Value> {
        match self.running(cx) {
            Some(running) => running.tools.borrow().clone(),
            None => self.bound.borrow().clone(),
        }
    }

    /// Makes a registry the one in force, for the loop that the running task belongs to or else for the program.
    pub(crate) fn bind(&self, cx: &Cx, tools: Option<Value>) {
        match self.running(cx) {
            Some(running) => *running.tools.borrow_mut() = tools,
            None => *self.bound.borrow_mut() = tools,
        }
    }
}

/// Keeps a loop the innermost one of its task. Dropping it ends that, also when the loop is cancelled.
pub(crate) struct Scope {
    sessions: Rc<Sessions>,
    token: u64,
    session: Rc<Session>,
    /// A session that goes by a name can be asked for again.
    named: bool,
}

impl Scope {
    /// Opens the scope of a loop. Without tools of its own the registry around it stays in force. A session that had no
    /// name before can be asked for by its id while its loop runs.
    pub(crate) fn open(cx: &Cx, session: &Rc<Session>, named: bool, tools: Option<Value>) -> Scope {
        let sessions = cx.state::<Sessions>();
        let tools = RefCell::new(tools.or_else(|| sessions.tools(cx)));
        let running = Running { session: session.clone(), tools };
        let token = sessions.running.open(cx, Rc::new(running));
        sessions.named.borrow_mut().insert(session.id.clone(), session.clone());
        Scope { sessions, token, session: session.clone(), named }
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        self.sessions.running.close(self.token);
        if !self.named {
            self.sessions.named.borrow_mut().remove(&self.session.id);
        }
    }
}
