//! Mocks of event streams and WebSockets, and the record of their calls.

use std::cell::RefCell;

use harn_system::Frame;
use harn_value::{Dict, Value};
use harn_vm::{Error, Result};

use super::events::Event;
use super::socket::scripted;
use crate::args::printed;
use crate::http::{glob_matches, redacted_url};

/// The mocks of a program.
#[derive(Default)]
pub(crate) struct Mocks {
    streams: RefCell<Vec<(String, Vec<Event>)>>,
    sockets: RefCell<Vec<(String, Script)>>,
    calls: RefCell<Vec<Value>>,
}

/// The behavior of a mock WebSocket.
#[derive(Clone, Default)]
pub(super) struct Script {
    pub(super) messages: Vec<Frame>,
    /// Whether it echoes sent messages.
    pub(super) echo: bool,
}

fn put<T>(all: &RefCell<Vec<(String, T)>>, pattern: &str, mock: T) {
    let mut all = all.borrow_mut();
    match all.iter_mut().find(|(known, _)| known == pattern) {
        Some((_, known)) => *known = mock,
        None => all.push((pattern.to_owned(), mock)),
    }
}

fn found<T: Clone>(all: &RefCell<Vec<(String, T)>>, url: &str) -> Option<T> {
    all.borrow().iter().find(|(pattern, _)| glob_matches(pattern, url)).map(|(_, mock)| mock.clone())
}

impl Mocks {
    /// Adds an event stream, or replaces the one with the same pattern.
    pub(crate) fn add_stream(&self, pattern: &str, events: &Value) -> Result<()> {
        let events = events.as_list().map(|events| events.iter().map(event_of).collect::<Result<_>>());
        put(&self.streams, pattern, events.transpose()?.unwrap_or_default());
        Ok(())
    }

    /// Adds a WebSocket, or replaces the one with the same pattern.
    pub(crate) fn add_socket(&self, pattern: &str, script: &Value) -> Result<()> {
        let dict = script.to_dict();
        let get = |name: &str| dict.as_ref().and_then(|dict| dict.get_str(name).cloned());
        let messages = script.as_list().cloned().or_else(|| get("messages")?.as_list().cloned());
        let messages = messages.map(|messages| messages.iter().map(scripted).collect::<Result<_>>());
        let echo = get("echo").is_some_and(|echo| echo.truthy());
        put(&self.sockets, pattern, Script { messages: messages.transpose()?.unwrap_or_default(), echo });
        Ok(())
    }

    pub(super) fn stream(&self, url: &str) -> Option<Vec<Event>> {
        found(&self.streams, url)
    }

    pub(super) fn socket(&self, url: &str) -> Option<Script> {
        found(&self.sockets, url)
    }

    /// Records a call to a mock.
    pub(super) fn called(&self, kind: &str, url: &str, handle: &str, message: Option<&str>, data: Value) {
        let mut call = Dict::new();
        call.insert("kind", kind);
        call.insert("url", redacted_url(url));
        call.insert("handle", handle);
        call.insert("type", message.map(str::to_owned));
        call.insert("data", data);
        self.calls.borrow_mut().push(call.into());
    }

    /// Returns the recorded calls.
    pub(crate) fn calls(&self) -> Vec<Value> {
        self.calls.borrow().clone()
    }

    /// Removes all mocks and recorded calls.
    pub(crate) fn clear(&self) {
        self.streams.borrow_mut().clear();
        self.sockets.borrow_mut().clear();
        self.calls.borrow_mut().clear();
    }
}

fn event_of(event: &Value) -> Result<Event> {
    let message = |data: String| Event { name: "message".to_owned(), data, id: None, retry_ms: None };
    let Some(dict) = event.to_dict() else {
        let text = event.as_str().ok_or_else(|| {
            Error::thrown(format!("sse_mock: an event must be a string or dict, got {}", event.type_name()))
        })?;
        return Ok(message(text.to_string()));
    };
    let get = |name: &str| dict.get_str(name).filter(|value| !value.is_nil());
    let text = |name: &str| get(name).map(|value| printed(value).to_string());
    Ok(Event {
        name: text("event").unwrap_or_else(|| "message".to_owned()),
        id: text("id"),
        retry_ms: get("retry_ms").and_then(|retry| retry.as_int().or_else(|| retry.as_duration())),
        ..message(text("data").unwrap_or_default())
    })
}
