//! Sessions: what belongs to an agent loop and to what it runs, carried by its task.
//!
//! Nothing about a loop is global to the program: whoever asks (a tool handler, a template, a loop within) asks for the
//! session of the task it runs in, so loops that run at the same time do not see each other.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::{Rc, Weak};

use harn_agent::AgentEvent;
use harn_agent::tool::WeakTools;
use harn_llm::conversation::WeakConversation;
use harn_llm::{Conversation, Message};
use harn_value::Value;
use harn_value::{Data as Json, json};
use harn_vm::Cx;
use harn_vm::task_scope::TaskScope;

use crate::stored::Stored;

use crate::convert::from_json;

/// Sessions with a history that are kept when nothing else holds on to them.
const MAX_KEPT: usize = 128;

/// What was said in a session, and where it comes from.
#[derive(Default)]
pub(crate) struct History {
    /// The messages.
    pub(crate) messages: Conversation,
    /// What stands for messages that are gone.
    pub(crate) summary: Option<String>,
    /// Transcript events other than those of messages, shared with what the store is known to have.
    pub(crate) events: Vec<Rc<Json>>,
    /// The session it was copied from.
    pub(crate) parent: Option<String>,
    /// The sessions that were copied from it.
    pub(crate) children: Vec<String>,
    /// How many messages of its parent it began with, when it was copied at a place.
    pub(crate) branched_at: Option<usize>,
}

/// An event for a transcript.
pub(crate) struct Note {
    /// What kind of event.
    pub(crate) kind: String,
    /// Its text.
    pub(crate) text: String,
    /// Its metadata.
    pub(crate) metadata: Json,
}

/// While it exists, the subscribers of another session receive the events of one.
pub(crate) struct Reporting {
    session: Rc<Session>,
    before: Weak<Session>,
}

impl Drop for Reporting {
    fn drop(&mut self) {
        self.session.starter.replace(std::mem::take(&mut self.before));
    }
}

/// What is known of a session, from its first mention on.
#[derive(Default)]
pub(crate) struct Session {
    /// Its name.
    pub(crate) id: String,
    /// Who listens.
    subscribers: RefCell<Vec<Value>>,
    /// The session whose loop started the loop that runs in this one: its subscribers listen, too.
    starter: RefCell<Weak<Session>>,
    /// Events for the transcript that its loop has not taken yet.
    notes: RefCell<Vec<Note>>,
    /// Events for those who listen that nobody has told yet.
    updates: RefCell<Vec<AgentEvent>>,
    /// Kind and text of what waits to be told to the model.
    feedback: RefCell<Vec<(String, String)>>,
    /// Ids of the skills that were active when its last loop ended.
    skills: RefCell<Option<Vec<String>>>,
    /// Calls that the program granted for the whole session: tool and arguments.
    grants: RefCell<Vec<(String, Json)>>,
    /// What was said.
    pub(crate) history: RefCell<History>,
    /// What later processes find of it, when it is stored.
    pub(crate) stored: RefCell<Option<Stored>>,
    /// When it was asked for last, on a clock that counts requests.
    used: Cell<u64>,
}

impl Session {
    /// Adds what a loop has said since `stored` messages were kept, and returns how many are now.
    pub(crate) fn keep(&self, talk: &Talk, loop_messages: &Conversation, stored: usize) -> usize {
        if loop_messages.len() == stored {
            return stored;
        }
        let own = &mut self.history.borrow_mut().messages;
        if own.len() == stored && own.is_prefix_of(loop_messages) {
            // The list is shared: nothing is copied.
            *own = loop_messages.clone();
        } else {
            // Somebody else has said something in the session in between: the loop goes on where it was.
            let behind: Vec<Rc<Message>> = own.iter().skip(talk.end(own)).collect();
            own.truncate(own.len() - behind.len());
            loop_messages.iter().skip(stored).chain(behind).for_each(|message| own.push(message));
        }
        talk.goes_on(loop_messages.last());
        loop_messages.len()
    }

    /// The session as a transcript, with its place among its relatives.
    pub(crate) fn snapshot(&self, ids: &dyn Fn() -> String) -> Json {
        let history = self.history.borrow();
        let messages = history.messages.to_json();
        let mut events = harn_llm::transcript::message_events(&messages, ids);
        events.extend(history.events.iter().map(|event| Json::clone(event)));
        let mut out = json!({
            "_type": "transcript", "version": 2, "id": self.id, "messages": messages, "events": events, "assets": [],
            "state": "active", "parent_id": history.parent, "child_ids": history.children,
            "branched_at_event_index": history.branched_at,
        });
        if let Some(summary) = &history.summary {
            out["summary"] = summary.as_str().into();
        }
        out
    }

    /// Tells those who listen; an error of theirs is reported and changes nothing.
    pub(crate) async fn tell(&self, cx: &Cx, event: &AgentEvent) {
        self.tell_of(cx, event, None).await;
    }

    /// As [`Session::tell`], of an event of the agent with this name.
    pub(crate) async fn tell_of(&self, cx: &Cx, event: &AgentEvent, agent: Option<&str>) {
        let dict = || {
            let mut dict = event.to_json(&self.id);
            if let Some(agent) = agent {
                dict["agent"] = agent.into();
            }
            from_json(&dict)
        };
        harn_stdlib::notify_host_with(cx, "session/update", dict);
        let listeners = self.subscribers();
        if listeners.is_empty() {
            return;
        }
        let told = dict();
        let _telling = Telling::begin(cx);
        for listener in &listeners {
            // A listener that ends the program is no failure; the end takes effect in the loop.
            if let Err(error) = cx.call(listener, [told.clone()]).await
                && !error.is_interruption()
            {
                cx.system().write_err(&harn_syntax::notice(&format!("warning: agent_subscribe: {error}")));
            }
        }
    }

    /// Leaves an event for the transcript.
    pub(crate) fn note(&self, kind: &str, text: &str, metadata: Json) {
        let note = Note { kind: kind.to_owned(), text: text.to_owned(), metadata };
        self.notes.borrow_mut().push(note);
    }

    /// Takes what was left for the transcript.
    pub(crate) fn take_notes(&self) -> Vec<Note> {
        std::mem::take(&mut self.notes.borrow_mut())
    }

    /// Puts back what was taken, in front of what came since.
    pub(crate) fn give_back(&self, notes: Vec<Note>) {
        self.notes.borrow_mut().splice(0..0, notes);
    }

    /// Leaves an event for those who listen, to be told by a task of the session.
    pub(crate) fn update(&self, event: AgentEvent) {
        self.updates.borrow_mut().push(event);
    }

    /// Takes the events that were left.
    pub(crate) fn take_updates(&self) -> Vec<AgentEvent> {
        std::mem::take(&mut self.updates.borrow_mut())
    }

    /// Makes this the session that another one was started from.
    pub(crate) fn adopt(&self, child: &Session) {
        child.history.borrow_mut().parent = Some(self.id.clone());
        let children = &mut self.history.borrow_mut().children;
        if !children.contains(&child.id) {
            children.push(child.id.clone());
        }
    }

    /// Adds a listener.
    pub(crate) fn subscribe(&self, listener: Value) {
        self.subscribers.borrow_mut().push(listener);
    }

    /// Lets the subscribers of a session receive the events of this one, until the guard is dropped.
    pub(crate) fn report_to(self: &Rc<Session>, starter: &Rc<Session>) -> Reporting {
        let before = self.starter.replace(Rc::downgrade(starter));
        Reporting { session: self.clone(), before }
    }

    /// The listeners, in the order in which they came, then those of the sessions around it.
    pub(crate) fn subscribers(&self) -> Vec<Value> {
        let mut out = self.subscribers.borrow().clone();
        let mut around = self.starter.borrow().upgrade();
        while let Some(session) = around.filter(|session| session.id != self.id) {
            out.extend(session.subscribers.borrow().iter().cloned());
            around = session.starter.borrow().upgrade();
        }
        out
    }

    /// Keeps the active skills for the next loop.
    pub(crate) fn carry_skills(&self, active: &[String]) {
        *self.skills.borrow_mut() = Some(active.to_vec());
    }

    /// The skills that were active when the last loop ended.
    pub(crate) fn carried_skills(&self) -> Option<Vec<String>> {
        self.skills.borrow().clone()
    }

    /// Remembers that a call may run whenever it comes again.
    pub(crate) fn grant(&self, tool: &str, arguments: &Json) {
        self.grants.borrow_mut().push((tool.to_owned(), arguments.clone()));
    }

    /// Whether the same call was granted for the session.
    pub(crate) fn has_granted(&self, tool: &str, arguments: &Json) -> bool {
        self.grants.borrow().iter().any(|(name, granted)| name == tool && granted == arguments)
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

/// What a loop says in its session stands together, whatever others say there at the same time. What the loops say that it
/// runs itself is a part of it.
#[derive(Default)]
pub(crate) struct Talk {
    /// What was said last.
    last: RefCell<Option<Rc<Message>>>,
    /// That of the loop around, when it is one of the same session.
    around: Option<Rc<Talk>>,
}

impl Talk {
    fn anchor(&self) -> Option<Rc<Message>> {
        self.last.borrow().clone().or_else(|| self.around.as_ref()?.anchor())
    }

    /// Where it ends among the messages of the session. One whose messages are gone, or that has none, ends with the session.
    fn end(&self, messages: &Conversation) -> usize {
        let at = self.anchor().and_then(|last| messages.iter().rposition(|own| Rc::ptr_eq(&own, &last)));
        at.map_or(messages.len(), |at| at + 1)
    }

    fn goes_on(&self, said: Option<Rc<Message>>) {
        let before = self.anchor();
        self.last.replace(said.clone());
        let mut around = &self.around;
        while let (Some(talk), Some(before)) = (around, &before) {
            let ended_there = talk.last.borrow().as_ref().is_some_and(|last| Rc::ptr_eq(last, before));
            if ended_there {
                talk.last.replace(said.clone());
            }
            around = &talk.around;
        }
    }
}

/// A loop that runs: the frame around whatever its task does.
pub(crate) struct Running {
    /// The loop's session.
    pub(crate) session: Rc<Session>,
    /// Whether the session is kept when the loop is over.
    pub(crate) named: bool,
    /// The registry that `tool_ref` looks at.
    pub(crate) tools: RefCell<Option<Value>>,
    /// What it says.
    talk: Rc<Talk>,
    /// The loop that it runs in.
    around: Option<Rc<Running>>,
}

/// Somebody is told of an event. A loop that a listener runs is none of the session: it would be told of itself.
struct Telling {
    sessions: Rc<Sessions>,
    token: u64,
}

impl Telling {
    fn begin(cx: &Cx) -> Telling {
        let sessions = cx.state::<Sessions>();
        let token = sessions.telling.open(cx, sessions.running(cx).map(|running| running.session.id.clone()));
        Telling { sessions, token }
    }
}

impl Drop for Telling {
    fn drop(&mut self) {
        self.sessions.telling.close(self.token);
    }
}

/// The sessions of a program.
#[derive(Default)]
pub(crate) struct Sessions {
    named: RefCell<BTreeMap<String, Rc<Session>>>,
    /// Requests so far.
    clock: Cell<u64>,
    running: TaskScope<Rc<Running>>,
    /// The loop whose listeners are told something.
    telling: TaskScope<Option<String>>,
    /// Tools that loops are being run with.
    pub(crate) tools: RefCell<Vec<WeakTools>>,
    /// Histories that loops have begun with.
    pub(crate) histories: RefCell<Vec<WeakConversation>>,
    /// The registry that `tool_bind` bound outside of loops.
    bound: RefCell<Option<Value>>,
    /// What was told about the tools of loops: code and message.
    pub(crate) odd_tools: RefCell<BTreeSet<(String, String)>>,
    /// Places of errors in handlers that were told.
    pub(crate) reported: RefCell<BTreeSet<Option<(String, u32)>>>,
}

impl Sessions {
    /// The session of a name; it comes into being when it is first named.
    pub(crate) fn named(&self, id: &str) -> Rc<Session> {
        if let Some(session) = self.known(id) {
            return session;
        }
        let session = Sessions::unnamed(id.to_owned());
        session.used.set(self.tick());
        self.named.borrow_mut().insert(id.to_owned(), session.clone());
        self.evict();
        session
    }

    /// The session of a name that was named before.
    pub(crate) fn known(&self, id: &str) -> Option<Rc<Session>> {
        let session = self.named.borrow().get(id).cloned()?;
        session.used.set(self.tick());
        Some(session)
    }

    /// Forgets a session; a loop that runs in it goes on.
    pub(crate) fn close(&self, id: &str) {
        self.named.borrow_mut().remove(id);
    }

    fn tick(&self) -> u64 {
        self.clock.set(self.clock.get() + 1);
        self.clock.get()
    }

    /// Forgets the sessions that were not asked for the longest, beyond those that are kept. One that runs, that somebody
    /// listens to or has left something for, stays.
    fn evict(&self) {
        let mut named = self.named.borrow_mut();
        if named.len() <= MAX_KEPT {
            return;
        }
        let idle = |session: &Rc<Session>| {
            Rc::strong_count(session) == 1
                && session.subscribers.borrow().is_empty()
                && session.feedback.borrow().is_empty()
        };
        let mut kept: Vec<(u64, String)> = named
            .iter()
            .filter(|(_, session)| idle(session))
            .map(|(id, session)| (session.used.get(), id.clone()))
            .collect();
        kept.sort_unstable();
        // The new one is held by whoever asked for it, so it is not among them.
        for (_, id) in kept.iter().take((kept.len() + 1).saturating_sub(MAX_KEPT)) {
            named.remove(id);
        }
    }

    /// A session that nobody can name before it runs.
    pub(crate) fn unnamed(id: String) -> Rc<Session> {
        Rc::new(Session { id, ..Session::default() })
    }

    /// The loop that the running task belongs to.
    pub(crate) fn running(&self, cx: &Cx) -> Option<Rc<Running>> {
        self.running.current(cx)
    }

    /// The sessions of the loops that the running task works in, the innermost first.
    pub(crate) fn around_task(&self, cx: &Cx) -> Vec<String> {
        let loops = std::iter::successors(self.running(cx), |running| running.around.clone());
        let mut ids: Vec<String> = loops.map(|running| running.session.id.clone()).collect();
        // Loops of one session are one conversation.
        ids.dedup();
        ids
    }

    /// Whether the running loop, or one that it runs in, is of a session.
    pub(crate) fn runs_around(&self, cx: &Cx, id: &str) -> bool {
        self.around(cx, |session| session.id == id).is_some()
    }

    /// The innermost of the running loops whose session is a certain one.
    fn around(&self, cx: &Cx, is_it: impl Fn(&Rc<Session>) -> bool) -> Option<Rc<Running>> {
        let mut at = self.running(cx);
        while let Some(running) = at {
            if is_it(&running.session) {
                return Some(running);
            }
            at = running.around.clone();
        }
        None
    }

    /// Whether a listener of the running loop is at work.
    pub(crate) fn is_telling(&self, cx: &Cx) -> bool {
        let running = self.running(cx).map(|running| running.session.id.clone());
        running.is_some() && self.telling.current(cx) == Some(running)
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
    /// What the loop says.
    pub(crate) talk: Rc<Talk>,
    /// It was the loop that made its session known, and nobody is to find it afterwards.
    forgets: bool,
}

impl Scope {
    /// Opens the scope of a loop. Without tools of its own the registry around it stays in force. A session that had no
    /// name before can be asked for by its id while its loop runs.
    pub(crate) fn open(
        cx: &Cx,
        session: &Rc<Session>,
        named: bool,
        joined: bool,
        tools: Option<Value>,
    ) -> Scope {
        let sessions = cx.state::<Sessions>();
        let tools = RefCell::new(tools.or_else(|| sessions.tools(cx)));
        let around = sessions.around(cx, |own| Rc::ptr_eq(own, session)).map(|running| running.talk.clone());
        let talk = Rc::new(Talk { around, ..Talk::default() });
        let running = Running {
            session: session.clone(),
            named,
            tools,
            talk: talk.clone(),
            around: sessions.running.current(cx),
        };
        let token = sessions.running.open(cx, Rc::new(running));
        // One that was closed while the loop around runs stays so.
        if !joined {
            sessions.named.borrow_mut().insert(session.id.clone(), session.clone());
        }
        Scope { sessions, token, session: session.clone(), talk, forgets: !named && !joined }
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        self.sessions.running.close(self.token);
        if self.forgets {
            self.sessions.named.borrow_mut().remove(&self.session.id);
        }
    }
}
