//! Sessions: named conversations of the program, which loops and calls can continue.

use std::rc::Rc;

use harn_llm::Conversation;
use harn_schema::options::Options;
use harn_value::{Data as Json, json};
use harn_value::{Dict, Value};
use harn_vm::builtin::OptionDict;
use harn_vm::{Cx, Error, Result, builtins};

use crate::convert::{data, entry, from_json, thrown};
use crate::llm_embedder::new_id;
use crate::session::{Session, Sessions};
use crate::session_store;

/// Options of `agent_session_open`.
#[derive(Options)]
struct OpenOptions {
    /// Whether the session is stored in the state directory of the project, for later processes.
    persist: bool,
}

builtins! {
    /// Sessions.
    pub(crate) static SESSIONS: "sessions";

    /// Opens a session, or finds the existing one of that name, and returns its id.
    ///
    /// A loop with that `session_id` continues the conversation.
    ///
    /// ```harn
    /// let s = agent_session_open("support")
    /// agent_loop("My name is Ada.", nil, {provider: "mock", session_id: s})
    /// println(agent_session_length(s)) // -> 2
    /// ```
    Random async fn agent_session_open(cx, id: Value as "!string?", options: OptionDict<OpenOptions>) -> "string" {
        let id_given = !id.is_nil();
        let id = match id.as_str() {
            Some(id) => id.to_string(),
            None if id.is_nil() => format!("agent_session_{}", new_id(cx.vm())),
            None => return Err(thrown("agent_session_open: `id` must be a string or nil")),
        };
        if options.read()?.persist || id_given && session_store::always(&cx) {
            session_store::open(&cx, &id).await?;
        } else {
            cx.state::<Sessions>().named(&id);
        }
        id
    }

    /// Returns whether a session of that name exists.
    ///
    /// ```harn
    /// println(agent_session_exists("nobody")) // -> false
    /// ```
    State fn agent_session_exists(cx, id: Value as "!string") -> "bool" {
        let id = named("agent_session_exists", &id)?;
        cx.state::<Sessions>().known(&id).is_some()
    }

    /// Returns the number of messages of a session.
    ///
    /// ```harn
    /// println(agent_session_length(agent_session_open("new"))) // -> 0
    /// ```
    State fn agent_session_length(cx, id: Value as "!string") -> "int" {
        known(cx, "agent_session_length", &id)?.history.borrow().messages.len()
    }

    /// Returns a session as a transcript with ancestry fields; nil when no session has that name.
    ///
    /// The fields are `parent_id`, `child_ids` and `branched_at_event_index`.
    ///
    /// ```harn
    /// let s = agent_session_open("s")
    /// agent_session_inject(s, {role: "user", content: "Hi"})
    /// println(agent_session_snapshot(s).messages) // -> [{content: Hi, role: user}]
    /// ```
    Random fn agent_session_snapshot(cx, id: Value as "!string") -> "dict | nil" {
        let id = named("agent_session_snapshot", &id)?;
        let session = cx.state::<Sessions>().known(&id);
        session.map(|session| from_json(&session.snapshot(&|| new_id(cx.vm()))))
    }

    /// Returns `{parent_id, child_ids, root_id}` of a session; nil when no session has that name.
    ///
    /// ```harn
    /// let s = agent_session_open("root")
    /// println(agent_session_ancestry(agent_session_fork(s, "copy")).root_id) // -> root
    /// ```
    State fn agent_session_ancestry(cx, id: Value as "!string") -> "dict | nil" {
        let id = named("agent_session_ancestry", &id)?;
        let sessions = cx.state::<Sessions>();
        sessions.known(&id).map(|session| {
            let history = session.history.borrow();
            let children: Vec<Value> = history.children.iter().map(|id| id.as_str().into()).collect();
            let mut out = Dict::new();
            out.insert("parent_id", history.parent.as_deref().map_or(Value::NIL, Value::from));
            out.insert("child_ids", children);
            out.insert("root_id", root(&sessions, &session).as_str());
            Value::from(out)
        })
    }

    /// Removes the messages, events and summary of a session.
    ///
    /// ```harn
    /// let s = agent_session_open("s")
    /// agent_session_inject(s, {role: "user", content: "Hi"})
    /// agent_session_reset(s)
    /// println(agent_session_length(s)) // -> 0
    /// ```
    State async fn agent_session_reset(cx, id: Value as "!string") -> "nil" {
        let session = known(&cx, "agent_session_reset", &id)?;
        {
            let mut history = session.history.borrow_mut();
            history.messages = Conversation::new();
            history.events.clear();
            history.summary = None;
        }
        session_store::flush(&cx, &session).await?;
    }

    /// Copies a session without its subscribers and returns the id of the copy.
    ///
    /// ```harn
    /// let s = agent_session_open("s")
    /// println(agent_session_fork(s, "other")) // -> other
    /// ```
    Random async fn agent_session_fork(cx, src: Value as "!string", dst: Value as "!string?") -> "string" {
        fork(&cx, "agent_session_fork", &src, None, &dst).await?
    }

    /// Copies the first messages of a session and returns the id of the copy.
    ///
    /// ```harn
    /// let s = agent_session_open("s")
    /// for text in ["a", "b", "c"] { agent_session_inject(s, {role: "user", content: text}) }
    /// println(agent_session_length(agent_session_fork_at(s, 2))) // -> 2
    /// ```
    Random async fn agent_session_fork_at(cx, src: Value as "!string", keep_first: Value as "!int", dst: Value as "!string?") -> "string" {
        let keep = size("agent_session_fork_at", "keep_first", &keep_first)?;
        fork(&cx, "agent_session_fork_at", &src, Some(keep), &dst).await?
    }

    /// Removes all but the newest messages of a session and returns how many remain.
    ///
    /// A tool result whose call is removed is removed with it.
    ///
    /// ```harn
    /// let s = agent_session_open("s")
    /// for text in ["a", "b", "c"] { agent_session_inject(s, {role: "user", content: text}) }
    /// println(agent_session_trim(s, 1)) // -> 1
    /// ```
    State async fn agent_session_trim(cx, id: Value as "!string", keep_last: Value as "!int") -> "int" {
        let session = known(&cx, "agent_session_trim", &id)?;
        let keep = size("agent_session_trim", "keep_last", &keep_last)?;
        let left = {
            let mut history = session.history.borrow_mut();
            history.messages = history.messages.newest(keep);
            history.messages.len()
        };
        session_store::flush(&cx, &session).await?;
        left
    }

    /// Adds a message to a session.
    ///
    /// ```harn
    /// let s = agent_session_open("s")
    /// agent_session_inject(s, {role: "assistant", content: "Hello."})
    /// println(agent_session_length(s)) // -> 1
    /// ```
    State async fn agent_session_inject(cx, id: Value as "!string", message: Value as "!dict") -> "nil" {
        let function = "agent_session_inject";
        let session = known(&cx, function, &id)?;
        if message.is_nil() {
            return Err(thrown(format!("{function}: `message` required")));
        }
        if message.to_dict().is_none() {
            return Err(thrown(format!("{function}: message must be a dict")));
        }
        let role = entry(&message, "role").as_str().map(ToString::to_string);
        if !role.is_some_and(|role| ["user", "assistant", "tool_result", "system"].contains(&role.as_str())) {
            return Err(thrown(format!(
                "{function}: message must have a string `role` (user|assistant|tool_result|system)"
            )));
        }
        let content = entry(&message, "content");
        if content.as_str().is_none() && content.as_list().is_none() && entry(&message, "tool_calls").as_list().is_none() {
            return Err(thrown(format!(
                "{function}: message must have `content`, a string or a list of blocks, got {}",
                content.type_name()
            )));
        }
        let pushed = session.history.borrow_mut().messages.push_json(data(&format!("{function}: message"), &message)?);
        pushed.map_err(|e| thrown(format!("{function}: {e}")))?;
        session_store::flush(&cx, &session).await?;
    }

    /// Replaces the older messages of a session by a summary and returns the new number of messages.
    ///
    /// ```harn
    /// let s = agent_session_open("s")
    /// for n in 1 to 6 { agent_session_inject(s, {role: "user", content: "message ${n}"}) }
    /// println(agent_session_compact(s, {keep_last: 2, compact_strategy: "truncate"})) // -> 3
    /// ```
    Llm async fn agent_session_compact(cx, id: Value as "!string", opts: Value as "!dict?") -> "int" {
        let session = known(&cx, "agent_session_compact", &id)?;
        let left = crate::compact::session(&cx, &session, &opts).await?;
        session_store::flush(&cx, &session).await?;
        left
    }

    /// Closes a session and drops it from memory.
    ///
    /// A stored session stays in the store, and another process may open it immediately.
    ///
    /// ```harn
    /// agent_session_close(agent_session_open("s"))
    /// println(agent_session_exists("s")) // -> false
    /// ```
    State fn agent_session_close(cx, id: Value as "!string") -> "nil" {
        let session = known(cx, "agent_session_close", &id)?;
        cx.state::<Sessions>().close(&session.id);
        session.stored.take();
    }
}

fn named(function: &str, id: &Value) -> Result<String> {
    id.as_str().map(ToString::to_string).ok_or_else(|| thrown(format!("{function}: `id` must be a string")))
}

/// Returns an existing session.
///
/// # Errors
/// The session does not exist, or `id` is not a string.
pub(super) fn known(cx: &Cx, function: &str, id: &Value) -> Result<Rc<Session>> {
    let id = named(function, id)?;
    cx.state::<Sessions>().known(&id).ok_or_else(|| thrown(format!("{function}: unknown session id '{id}'")))
}

fn size(function: &str, key: &str, value: &Value) -> Result<usize> {
    let n = value.as_int().ok_or_else(|| thrown(format!("{function}: `{key}` must be an int")))?;
    usize::try_from(n).map_err(|_| thrown(format!("{function}: `{key}` must be >= 0")))
}

/// Returns the oldest ancestor that still has a name.
fn root(sessions: &Sessions, session: &Rc<Session>) -> String {
    let mut at = session.clone();
    // A copy may be created under the name of a closed ancestor, so the walk stops at a session that it has already
    // visited.
    let mut met = vec![at.id.clone()];
    loop {
        let parent = at.history.borrow().parent.clone();
        match parent {
            Some(parent) if !met.contains(&parent) => {
                met.push(parent.clone());
                match sessions.known(&parent) {
                    Some(session) => at = session,
                    None => return parent,
                }
            }
            _ => return at.id.clone(),
        }
    }
}

async fn fork(cx: &Cx, function: &str, src: &Value, keep: Option<usize>, dst: &Value) -> Result<String> {
    let source = known(cx, function, src)?;
    let id = match dst.as_str() {
        Some(id) => id.to_string(),
        None if dst.is_nil() => format!("agent_session_{}", new_id(cx.vm())),
        None => return Err(thrown(format!("{function}: `dst` must be a string or nil"))),
    };
    if id == source.id {
        return Err(thrown(format!("{function}: a session cannot be copied onto itself")));
    }
    let sessions = cx.state::<Sessions>();
    if sessions.known(&id).is_some_and(|session| !session.history.borrow().messages.is_empty()) {
        return Err(thrown(format!("{function}: session '{id}' has messages already; close it first")));
    }
    let copy = match session_store::always(cx) {
        true => session_store::open(cx, &id).await?,
        false => sessions.named(&id),
    };
    if !copy.history.borrow().messages.is_empty() {
        return Err(thrown(format!("{function}: session '{id}' has stored messages already")));
    }
    link(&source, &copy, keep);
    session_store::flush(cx, &source).await?;
    session_store::flush(cx, &copy).await?;
    Ok(id)
}

/// Turns a session into a copy of another one.
fn link(source: &Session, copy: &Session, keep: Option<usize>) {
    let mut from = source.history.borrow_mut();
    let mut to = copy.history.borrow_mut();
    to.messages = from.messages.clone();
    to.messages.truncate(keep.unwrap_or(usize::MAX));
    to.summary.clone_from(&from.summary);
    if keep.is_none() {
        to.events.clone_from(&from.events);
    }
    to.branched_at = keep;
    to.parent = Some(source.id.clone());
    if !from.children.contains(&copy.id) {
        from.children.push(copy.id.clone());
    }
}

/// Prepends the messages of the session to a single call that names one.
pub(crate) async fn begin(cx: &Cx, options: &mut Json) -> Result<Option<Rc<Session>>> {
    let Some(id) = options.get("session_id").and_then(Json::as_str).filter(|id| !id.is_empty()) else {
        return Ok(None);
    };
    let session = match session_store::always(cx) {
        true => session_store::open(cx, id).await?,
        false => cx.state::<Sessions>().named(id),
    };
    let mut messages = session.history.borrow().messages.to_json();
    if !messages.is_empty() {
        match options.get("messages").and_then(Json::as_array) {
            Some(given) => {
                messages.extend(given.iter().cloned());
                options["messages"] = messages.into();
            }
            // The prompt of the call follows the conversation, as it follows a transcript.
            None if options.get("transcript").is_none_or(Json::is_null) => {
                options["transcript"] = json!({"_type": "transcript", "version": 2, "messages": messages});
            }
            None => {}
        }
    }
    Ok(Some(session))
}

/// Stores the messages of a single call in its session.
pub(crate) async fn end(
    cx: &Cx,
    session: Option<Rc<Session>>,
    result: &Json,
) -> std::result::Result<(), Error> {
    let (Some(session), Some(messages)) = (session, result["transcript"]["messages"].as_array()) else {
        return Ok(());
    };
    {
        let mut history = session.history.borrow_mut();
        history.messages = history.messages.with_same(messages).map_err(|e| thrown(e.0))?;
    }
    session_store::flush(cx, &session).await
}
