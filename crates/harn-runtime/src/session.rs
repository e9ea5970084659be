//! Sessions: the state of an agent loop and of the code that it runs, carried by its task.
//!
//! The state of a loop is not global: tool handlers, templates and inner loops use the session of the task in which
//! they run, so concurrent loops do not see each other.

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

/// Maximum number of retained sessions that are not referenced elsewhere.
const MAX_KEPT: usize = 128;

/// The conversation of a session, and its origin.
#[derive(Default)]
pub(crate) struct History {
    /// The messages.
    pub(crate) messages: Conversation,
    /// The summary of removed messages.
    pub(crate) summary: Option<String>,
    /// Transcript events other than those of messages, shared with the content that is known to be in the store.
    pub(crate) events: Vec<Rc<Json>>,
    /// The session from which it was copied.
    pub(crate) parent: Option<String>,
    /// The sessions that were copied from it.
    pub(crate) children: Vec<String>,
    /// The number of messages of its parent with which it began, if it was branched at a position.
    pub(crate) branched_at: Option<usize>,
}

/// An event for a transcript.
pub(crate) struct Note {
    /// The kind of the event.
    pub(crate) kind: String,
    /// Its description.
    pub(crate) text: String,
    /// Its metadata.
    pub(crate) metadata: Json,
}

/// Forwards the events of a session to the subscribers of another one until it is dropped.
pub(crate) struct Reporting {
    session: Rc<Session>,
    before: Weak<Session>,
}

impl Drop for Reporting {
    fn drop(&mut self) {
        self.session.starter.replace(std::mem::take(&mut self.before));
    }
}

/// A session, from its first use on.
#[derive(Default)]
pub(crate) struct Session {
    /// The id of the session.
    pub(crate) id: String,
    /// The subscribers.
    subscribers: RefCell<Vec<Value>>,
    /// The session whose loop started the loop in this session: its subscribers also receive events.
    starter: RefCell<Weak<Session>>,
    /// Events for the transcript that its loop has not taken yet.
    notes: RefCell<Vec<Note>>,
    /// Events that subscribers have not received yet.
    updates: RefCell<Vec<AgentEvent>>,
    /// Kind and text of feedback for the model.
    feedback: RefCell<Vec<(String, String)>>,
    /// Ids of the skills that were active when its last loop ended.
    skills: RefCell<Option<Vec<String>>>,
    /// Calls that the program granted for the whole session: tool and arguments.
    grants: RefCell<Vec<(String, Json)>>,
    /// The conversation.
    pub(crate) history: RefCell<History>,
    /// The stored part of the session, if it is stored.
    pub(crate) stored: RefCell<Option<Stored>>,
    /// When it was last requested, on a clock that counts requests.
    used: Cell<u64>,
}

impl Session {
    /// Adds the loop's messages after the first `stored` ones, and returns the number of stored messages.
    pub(crate) fn keep(&self, talk: &Talk, loop_messages: &Conversation, stored: usize) -> usize {
        if loop_messages.len() == stored {
            return stored;
        }
        let own = &mut self.history.borrow_mut().messages;
        if own.len() == stored && own.is_prefix_of(loop_messages) {
            // The list is shared, so nothing is copied.
            *own = loop_messages.clone();
        } else {
            // Another loop has added messages to the session meanwhile, so insert after the last message of this loop.
            let behind: Vec<Rc<Message>> = own.iter().skip(talk.end(own)).collect();
            own.truncate(own.len() - behind.len());
            loop_messages.iter().skip(stored).chain(behind).for_each(|message| own.push(message));
        }
        talk.goes_on(loop_messages.last());
        loop_messages.len()
    }

    /// Returns the session as a transcript, with its parent and children.
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

    /// Notifies subscribers; their errors are reported and have no other effect.
    pub(crate) async fn tell(&self, cx: &Cx, event: &AgentEvent) {
        self.tell_of(cx, event, None).await;
    }

    /// Like [`Session::tell`], for an event of the named agent.
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
            // A listener that ends the program has not failed; the end takes effect in the loop.
            if let Err(error) = cx.call(listener, [told.clone()]).await
                && !error.is_interruption()
            {
                cx.system().write_err(&harn_syntax::notice(&format!("warning: agent_subscribe: {error}")));
            }
        }
    }

    /// Queues an event for the transcript.
    pub(crate) fn note(&self, kind: &str, text: &str, metadata: Json) {
        let note = Note { kind: kind.to_owned(), text: text.to_owned(), metadata };
        self.notes.borrow_mut().push(note);
    }

    /// Takes the events for the transcript.
    pub(crate) fn take_notes(&self) -> Vec<Note> {
        std::mem::take(&mut self.notes.borrow_mut())
    }

    /// Puts taken events back in front of newer ones.
    pub(crate) fn give_back(&self, notes: Vec<Note>) {
        self.notes.borrow_mut().splice(0..0, notes);
    }

    /// Queues an event for subscribers; a task of the session delivers it.
    pub(crate) fn update(&self, event: AgentEvent) {
        self.updates.borrow_mut().push(event);
    }

    /// Takes the queued events.
    pub(crate) fn take_updates(&self) -> Vec<AgentEvent> {
        std::mem::take(&mut self.updates.borrow_mut())
    }

    /// Makes this session the parent of another one.
    pub(crate) fn adopt(&self, child: &Session) {
        child.history.borrow_mut().parent = Some(self.id.clone());
        let children = &mut self.history.borrow_mut().children;
        if !children.contains(&child.id) {
            children.push(child.id.clone());
        }
    }

    /// Adds a subscriber.
    pub(crate) fn subscribe(&self, listener: Value) {
        self.subscribers.borrow_mut().push(listener);
    }

    /// Forwards the events of this session to the subscribers of `starter`, until the guard is dropped.
    pub(crate) fn report_to(self: &Rc<Session>, starter: &Rc<Session>) -> Reporting {
        let before = self.starter.replace(Rc::downgrade(starter));
        Reporting { session: self.clone(), before }
    }

    /// Returns the subscribers in subscription order, then those of the surrounding sessions.
    pub(crate) fn subscribers(&self) -> Vec<Value> {
        let mut out = self.subscribers.borrow().clone();
        let mut around = self.starter.borrow().upgrade();
        while let Some(session) = around.filter(|session| session.id != self.id) {
            out.extend(session.subscribers.borrow().iter().cloned());
            around = session.starter.borrow().upgrade();
        }
        out
    }

    /// Stores the active skills for the next loop.
    pub(crate) fn carry_skills(&self, active: &[String]) {
        *self.skills.borrow_mut() = Some(active.to_vec());
    }

    /// Returns the skills that were active when the last loop ended.
    pub(crate) fn carried_skills(&self) -> Option<Vec<String>> {
        self.skills.borrow().clone()
    }

    /// Permits a call for the whole session.
    pub(crate) fn grant(&self, tool: &str, arguments: &Json) {
        self.grants.borrow_mut().push((tool.to_owned(), arguments.clone()));
    }

    /// Returns whether the same call was permitted for the session.
    pub(crate) fn has_granted(&self, tool: &str, arguments: &Json) -> bool {
        self.grants.borrow().iter().any(|(name, granted)| name == tool && granted == arguments)
    }

    /// Queues feedback for the next turn.
    pub(crate) fn queue(&self, kind: &str, text: &str) {
        self.feedback.borrow_mut().push((kind.to_owned(), text.to_owned()));
    }

    /// Takes the queued feedback.
    pub(crate) fn take_feedback(&self) -> Vec<(String, String)> {
        std::mem::take(&mut self.feedback.borrow_mut())
    }
}

/// The part of a session's conversation that belongs to one loop. It is contiguous, even if others add messages
/// concurrently, and includes the parts of the loops that it runs.
#[derive(Default)]
pub(crate) struct Talk {
    /// The last message.
    last: RefCell<Option<Rc<Message>>>,
    /// The part of the surrounding loop, if it belongs to the same session.
    around: Option<Rc<Talk>>,
}

impl Talk {
    fn anchor(&self) -> Option<Rc<Message>> {
        self.last.borrow().clone().or_else(|| self.around.as_ref()?.anchor())
    }

    /// Returns the end of this part in the messages of the session. An empty part ends like the surrounding one. If the
    /// last message was removed or does not exist, returns the end of the session.
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

/// A running loop: the frame around the work of its task.
pub(crate) struct Running {
    /// The loop's session.
    pub(crate) session: Rc<Session>,
    /// Whether the session outlives the loop.
    pub(crate) named: bool,
    /// The registry that `tool_ref` uses.
    pub(crate) tools: RefCell<Option<Value>>,
    /// Its part of the conversation.
    talk: Rc<Talk>,
    /// The surrounding loop.
    around: Option<Rc<Running>>,
}

/// Marks that subscribers are being notified. A loop that a subscriber runs does not belong to the session, because it
/// would receive its own events.
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
    /// The number of requests so far.
    clock: Cell<u64>,
    running: TaskScope<Rc<Running>>,
    /// The loop whose subscribers are being notified.
    telling: TaskScope<Option<String>>,
    /// The tools of running loops.
    pub(crate) tools: RefCell<Vec<WeakTools>>,
    /// Histories with which loops have started.
    pub(crate) histories: RefCell<Vec<WeakConversation>>,
    /// The registry that `tool_bind` bound outside of loops.
    bound: RefCell<Option<Value>>,
    /// Warnings about the tools of loops: code and message.
    pub(crate) odd_tools: RefCell<BTreeSet<(String, String)>>,
    /// Locations of reported handler errors.
    pub(crate) reported: RefCell<BTreeSet<Option<(String, u32)>>>,
}

impl Sessions {
    /// Returns the session with an id; creates it on first use.
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

    /// Returns the session with an id, if it exists.
    pub(crate) fn known(&self, id: &str) -> Option<Rc<Session>> {
        let session = self.named.borrow().get(id).cloned()?;
        session.used.set(self.tick());
        Some(session)
    }

    /// Removes a session; a loop that runs in it continues.
    pub(crate) fn close(&self, id: &str) {
        self.named.borrow_mut().remove(id);
    }

    fn tick(&self) -> u64 {
        self.clock.set(self.clock.get() + 1);
        self.clock.get()
    }

    /// Removes the least recently used sessions above the limit. Sessions that are referenced elsewhere, have
    /// subscribers or have queued feedback remain.
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
        // The caller holds the new session, so it is not among them.
        for (_, id) in kept.iter().take((kept.len() + 1).saturating_sub(MAX_KEPT)) {
            named.remove(id);
        }
    }

    /// Creates a session that cannot be found by id before it runs.
    pub(crate) fn unnamed(id: String) -> Rc<Session> {
        Rc::new(Session { id, ..Session::default() })
    }

    /// Returns the loop that the running task belongs to.
    pub(crate) fn running(&self, cx: &Cx) -> Option<Rc<Running>> {
        self.running.current(cx)
    }

    /// Returns the sessions of the loops around the running task, innermost first.
    pub(crate) fn around_task(&self, cx: &Cx) -> Vec<String> {
        let loops = std::iter::successors(self.running(cx), |running| running.around.clone());
        let mut ids: Vec<String> = loops.map(|running| running.session.id.clone()).collect();
        // Loops of one session are one conversation.
        ids.dedup();
        ids
    }

    /// Returns whether the running loop, or a surrounding one, belongs to a session.
    pub(crate) fn runs_around(&self, cx: &Cx, id: &str) -> bool {
        self.around(cx, |session| session.id == id).is_some()
    }

    /// Returns the innermost running loop whose session matches.
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

    /// Returns whether a subscriber of the running loop is being called.
    pub(crate) fn is_telling(&self, cx: &Cx) -> bool {
        let running = self.running(cx).map(|running| running.session.id.clone());
        running.is_some() && self.telling.current(cx) == Some(running)
    }

    /// Returns the active registry of the running task.
    pub(crate) fn tools(&self, cx: &Cx) -> Option<Value> {
        match self.running(cx) {
            Some(running) => running.tools.borrow().clone(),
            None => self.bound.borrow().clone(),
        }
    }

    /// Activates a registry for the loop of the running task, or else for the program.
    pub(crate) fn bind(&self, cx: &Cx, tools: Option<Value>) {
        match self.running(cx) {
            Some(running) => *running.tools.borrow_mut() = tools,
            None => *self.bound.borrow_mut() = tools,
        }
    }
}

/// Makes a loop the innermost one of its task, until it is dropped, also by cancellation.
pub(crate) struct Scope {
    sessions: Rc<Sessions>,
    token: u64,
    session: Rc<Session>,
    /// The loop's part of the conversation.
    pub(crate) talk: Rc<Talk>,
    /// Whether the session is removed when the loop ends.
    forgets: bool,
}

impl Scope {
    /// Opens the scope of a loop. Without tools, the outer registry remains active. An unnamed session can be found by
    /// its id while its loop runs.
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
        // A session that was closed while the surrounding loop runs remains closed.
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
