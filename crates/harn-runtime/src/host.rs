//! What the host of a program says of its own accord: messages of people, and that something is to be looked at again.
//!
//! A host that is asked something is behind [`harn_stdlib::HostBridge`]; this is the other direction.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use harn_agent::{AgentLoop, Delivery};
use harn_prompt::reminder::host_reminder;
use harn_value::Data as Json;
use harn_value::Value;
use harn_vm::{Cx, Result, Vm};
use tokio::sync::Notify;

use crate::convert::{from_json, to_json};
use crate::session::{Session, Sessions};

/// What somebody said.
struct Message {
    /// The session of the loop it is for; without one it is for the outermost loop that runs.
    session: Option<String>,
    text: String,
    delivery: Delivery,
}

/// A reminder of the host, as it was given.
struct Reminded {
    /// As that of a message.
    session: Option<String>,
    payload: Json,
}

/// What the host said and no loop has taken yet.
#[derive(Default)]
pub struct HostInbox {
    messages: RefCell<Vec<Message>>,
    reminders: RefCell<Vec<Reminded>>,
    resume: Cell<bool>,
    /// How often the host has said that skills have changed.
    skills: Cell<u64>,
    /// Rings when something has come.
    pub(crate) bell: Notify,
}

impl HostInbox {
    /// Takes a notification of the host.
    ///
    /// Known methods are `session/input`, `user_message` and `agent/user_message` with `{content, mode?, session_id?}`,
    /// `session/remind` with the fields of a reminder, `mode?` and `session_id?`, `agent/resume`, and `skills/update`.
    ///
    /// # Errors
    /// A text that says what is wrong: another method, a content that is no text, an unknown mode, a malformed reminder.
    pub fn tell(&self, method: &str, params: &Json) -> std::result::Result<(), String> {
        match method {
            "session/input" | "user_message" | "agent/user_message" => {
                let Some(text) = text_of(&params["content"]).filter(|text| !text.trim().is_empty()) else {
                    return Err(format!("{method}: `content` must be a text that is not empty"));
                };
                let delivery = match &params["mode"] {
                    Json::Null => Delivery::default(),
                    mode => mode.as_str().and_then(Delivery::read).ok_or_else(|| {
                        format!(
                            "{method}: `mode` must be interrupt_immediate, finish_step or wait_for_completion, got {mode}"
                        )
                    })?,
                };
                let session = session_of(method, params)?;
                self.messages.borrow_mut().push(Message { session, text, delivery });
            }
            // The next call shows it: nobody has to wake up.
            "session/remind" => {
                host_reminder(params, "").map_err(|error| error.to_string())?;
                let session = session_of(method, params)?;
                self.reminders.borrow_mut().push(Reminded { session, payload: params.clone() });
                return Ok(());
            }
            "agent/resume" => self.resume.set(true),
            // Nobody has to wake up for it.
            "skills/update" => {
                self.skills.set(self.skills.get() + 1);
                return Ok(());
            }
            other => return Err(format!("unknown notification `{other}`")),
        }
        self.bell.notify_waiters();
        Ok(())
    }

    /// What was said and taken by no loop; whoever runs the program must not let it get lost.
    pub fn take_rest(&self) -> Vec<String> {
        self.messages.borrow_mut().drain(..).map(|message| message.text).collect()
    }
}

/// The session that a notification names.
fn session_of(method: &str, params: &Json) -> std::result::Result<Option<String>, String> {
    match &params["session_id"] {
        Json::Null => Ok(None),
        Json::String(id) => Ok(Some(id.clone())),
        other => Err(format!("{method}: `session_id` must be a string, got {other}")),
    }
}

/// The text of a content: a string, or a list of text blocks.
fn text_of(content: &Json) -> Option<String> {
    match content {
        Json::String(text) => Some(text.clone()),
        Json::Array(blocks) => {
            let texts: Option<Vec<&str>> = blocks.iter().map(|block| block["text"].as_str()).collect();
            texts.map(|texts| texts.join("\n\n"))
        }
        block => block["text"].as_str().map(str::to_owned),
    }
}

/// Where a host leaves what it says to the programs of a machine.
pub fn host_inbox(vm: &Vm) -> Rc<HostInbox> {
    vm.extension::<HostInbox>()
}

/// A loop's side of the inbox.
pub(crate) struct Listener {
    inbox: Rc<HostInbox>,
    session: Rc<Session>,
    /// No other loop runs around it: what is for nobody in particular is for it.
    outermost: bool,
    /// The loop around it is no loop of the session: what is for the session is for it.
    first: bool,
    /// How many changes of skills the loop knows of.
    skills: Cell<u64>,
}

impl Listener {
    /// Listens for a loop that is about to open its scope; `joined` when the loop around it is one of the same session.
    pub(crate) fn new(cx: &Cx, session: &Rc<Session>, joined: bool) -> Listener {
        let outermost = cx.state::<Sessions>().running(cx).is_none();
        let inbox = host_inbox(cx.vm());
        let skills = inbox.skills.clone();
        Listener { inbox, session: session.clone(), outermost, first: !joined, skills }
    }

    /// Whether what is for a session, or for nobody in particular, is for this loop.
    fn hears(&self, session: &Option<String>) -> bool {
        match session {
            Some(id) => self.first && *id == self.session.id,
            None => self.outermost,
        }
    }

    /// Takes the reminders for the loop, as they were given.
    pub(crate) fn take_reminders(&self) -> Vec<Json> {
        let mut reminders = self.inbox.reminders.borrow_mut();
        if reminders.is_empty() {
            return Vec::new();
        }
        let (own, others): (Vec<Reminded>, Vec<Reminded>) =
            std::mem::take(&mut *reminders).into_iter().partition(|reminded| self.hears(&reminded.session));
        *reminders = others;
        own.into_iter().map(|reminded| reminded.payload).collect()
    }

    /// Gives the loop what was said to it.
    pub(crate) fn pass_on(&self, agent: &mut AgentLoop) {
        let mut messages = self.inbox.messages.borrow_mut();
        if messages.is_empty() {
            return;
        }
        let (own, others): (Vec<Message>, Vec<Message>) =
            std::mem::take(&mut *messages).into_iter().partition(|message| self.hears(&message.session));
        *messages = others;
        own.iter().for_each(|message| agent.hear(&message.text, message.delivery));
    }

    /// Whether something was said to the loop, or it is to go on.
    pub(crate) fn has_news(&self) -> bool {
        self.wants_on() || self.inbox.messages.borrow().iter().any(|message| self.hears(&message.session))
    }

    fn wants_on(&self) -> bool {
        self.outermost && self.inbox.resume.get()
    }

    /// Takes the wish that the loop goes on.
    pub(crate) fn take_resume(&self) -> bool {
        self.wants_on() && self.inbox.resume.replace(false)
    }

    /// Whether skills have changed since the last time.
    pub(crate) fn take_skills_update(&self) -> bool {
        let now = self.inbox.skills.get();
        self.skills.replace(now) != now
    }

    /// Rings when something has come.
    pub(crate) fn bell(&self) -> &Notify {
        &self.inbox.bell
    }
}

/// Asks the host something that has another way to be decided: nothing without a host, or when it fails.
///
/// # Errors
/// What interrupts the program.
pub(crate) async fn ask(cx: &Cx, capability: &str, operation: &str, params: &Json) -> Result<Option<Json>> {
    match harn_stdlib::ask_host(cx, capability, operation, &from_json(params)).await {
        None => Ok(None),
        Some(Ok(answer)) => Ok(Some(to_json(&answer))),
        Some(Err(error)) if error.is_catchable() => Ok(None),
        Some(Err(error)) => Err(error),
    }
}

/// Runs a tool that the host has; nothing when there is no host or it does not know the tool.
pub(crate) async fn call_tool(cx: &Cx, name: &str, arguments: &Json) -> Option<Result<Value>> {
    harn_stdlib::call_host_tool(cx, name, &from_json(arguments)).await
}
