//! Messages that the host of a program sends without being asked: user input, reminders, and requests to resume.
//!
//! [`harn_stdlib::HostBridge`] handles the other direction, requests to the host.

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

/// A user message.
struct Message {
    /// The session of the receiving loop; `None` for the outermost running loop.
    session: Option<String>,
    text: String,
    delivery: Delivery,
}

/// A reminder of the host, as received.
struct Reminded {
    /// As for a message.
    session: Option<String>,
    payload: Json,
}

/// Messages of the host that no loop has taken yet.
#[derive(Default)]
pub struct HostInbox {
    messages: RefCell<Vec<Message>>,
    reminders: RefCell<Vec<Reminded>>,
    resume: Cell<bool>,
    /// The number of times that the host has announced changed skills.
    skills: Cell<u64>,
    /// Notifies of new messages.
    pub(crate) bell: Notify,
}

impl HostInbox {
    /// Receives a notification of the host.
    ///
    /// Known methods are `session/input`, `user_message` and `agent/user_message` with `{content, mode?, session_id?}`,
    /// `session/remind` with the fields of a reminder, `mode?` and `session_id?`, `agent/resume`, and `skills/update`.
    ///
    /// # Errors
    /// A message about an unknown method, content that is not a string, an unknown mode, or a malformed reminder.
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
            // The next call includes it, so waiting loops need not wake up.
            "session/remind" => {
                host_reminder(params, "").map_err(|error| error.to_string())?;
                let session = session_of(method, params)?;
                self.reminders.borrow_mut().push(Reminded { session, payload: params.clone() });
                return Ok(());
            }
            "agent/resume" => self.resume.set(true),
            // Waiting loops need not wake up.
            "skills/update" => {
                self.skills.set(self.skills.get() + 1);
                return Ok(());
            }
            other => return Err(format!("unknown notification `{other}`")),
        }
        self.bell.notify_waiters();
        Ok(())
    }

    /// Takes the messages that no loop has taken; the caller must not lose them.
    pub fn take_rest(&self) -> Vec<String> {
        self.messages.borrow_mut().drain(..).map(|message| message.text).collect()
    }
}

/// Returns the session that a notification names.
fn session_of(method: &str, params: &Json) -> std::result::Result<Option<String>, String> {
    match &params["session_id"] {
        Json::Null => Ok(None),
        Json::String(id) => Ok(Some(id.clone())),
        other => Err(format!("{method}: `session_id` must be a string, got {other}")),
    }
}

/// Reads content: a string, or a list of text blocks.
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

/// Returns the inbox for messages of the host to the programs of a VM.
pub fn host_inbox(vm: &Vm) -> Rc<HostInbox> {
    vm.extension::<HostInbox>()
}

/// The loop's side of the inbox.
pub(crate) struct Listener {
    inbox: Rc<HostInbox>,
    session: Rc<Session>,
    /// Whether it is the outermost loop, which receives messages without a session.
    outermost: bool,
    /// Whether the surrounding loop belongs to another session; then this loop receives messages for its session.
    first: bool,
    /// The number of skill changes that the loop has processed.
    skills: Cell<u64>,
}

impl Listener {
    /// Creates a listener for a loop that is about to open its scope; `joined` if the surrounding loop belongs to the
    /// same session.
    pub(crate) fn new(cx: &Cx, session: &Rc<Session>, joined: bool) -> Listener {
        let outermost = cx.state::<Sessions>().running(cx).is_none();
        let inbox = host_inbox(cx.vm());
        let skills = inbox.skills.clone();
        Listener { inbox, session: session.clone(), outermost, first: !joined, skills }
    }

    /// Returns whether a message with this session, or without one, is for this loop.
    fn hears(&self, session: &Option<String>) -> bool {
        match session {
            Some(id) => self.first && *id == self.session.id,
            None => self.outermost,
        }
    }

    /// Takes the reminders for the loop, as received.
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

    /// Passes the messages for the loop to it.
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

    /// Returns whether the loop has new messages, or a request to resume.
    pub(crate) fn has_news(&self) -> bool {
        self.wants_on() || self.inbox.messages.borrow().iter().any(|message| self.hears(&message.session))
    }

    fn wants_on(&self) -> bool {
        self.outermost && self.inbox.resume.get()
    }

    /// Takes a request to resume the loop.
    pub(crate) fn take_resume(&self) -> bool {
        self.wants_on() && self.inbox.resume.replace(false)
    }

    /// Returns whether skills have changed since the last call.
    pub(crate) fn take_skills_update(&self) -> bool {
        let now = self.inbox.skills.get();
        self.skills.replace(now) != now
    }

    /// Returns the notification of new messages.
    pub(crate) fn bell(&self) -> &Notify {
        &self.inbox.bell
    }
}

/// Asks the host when there is a fallback: `None` without a host, or when it fails.
///
/// # Errors
/// The program is interrupted.
pub(crate) async fn ask(cx: &Cx, capability: &str, operation: &str, params: &Json) -> Result<Option<Json>> {
    match harn_stdlib::ask_host(cx, capability, operation, &from_json(params)).await {
        None => Ok(None),
        Some(Ok(answer)) => Ok(Some(to_json(&answer))),
        Some(Err(error)) if error.is_catchable() => Ok(None),
        Some(Err(error)) => Err(error),
    }
}

/// Runs a tool of the host; `None` without a host, or if it does not know the tool.
pub(crate) async fn call_tool(cx: &Cx, name: &str, arguments: &Json) -> Option<Result<Value>> {
    harn_stdlib::call_host_tool(cx, name, &from_json(arguments)).await
}
