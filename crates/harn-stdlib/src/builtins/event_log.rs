//! The namespace `event_log`: topics of events that the program and the runtime append to.

use harn_value::json::{parse, stringify};
use harn_value::{Dict, Value};
use harn_vm::channel::StreamValue;
use harn_vm::{Error, Result, builtins};

use crate::args::Given;
use crate::event_log::EventLog;

builtins! {
    /// The event log.
    pub(crate) static EVENT_LOG: "event_log";

    /// Appends an event to a topic and returns its id.
    ///
    /// Each topic numbers its events from 1. The payload is stored as JSON.
    ///
    /// ```harn
    /// println(event_log.emit("builds", "started", {commit: "abc"})) // -> 1
    /// println(event_log.emit("builds", "ended", {ok: true}, {host: "ci"})) // -> 2
    /// ```
    State fn emit = "event_log.emit"(cx, topic: Given as "string", kind: Given as "string", payload: Given as "any?", headers: Given as "dict?") -> "int" {
        let topic = topic_of("event_log.emit", &topic.or_nil())?;
        let kind = kind.or_nil();
        let Some(kind) = kind.as_str() else {
            let text = format!("event_log.emit: kind must be a string, got {}", kind.type_name());
            return Err(Error::type_error(text));
        };
        let headers = headers_of(&headers.or_nil())?;
        let payload = payload.or_nil();
        crate::check_data("event_log.emit: payload", &payload)?;
        let payload = parse(&stringify(&payload)).map_err(|e| Error::runtime(e.to_string()))?;
        let log = EventLog::of(cx.vm());
        log.permit(cx)?;
        log.emit(&topic, kind, payload, headers, cx.system().now_ms())?
    }

    /// Returns the id of a topic's newest event, or nil if it has none.
    ///
    /// ```harn
    /// println(event_log.latest("nothing")) // -> nil
    /// ```
    State fn latest = "event_log.latest"(cx, topic: Given as "string") -> "int | nil" {
        let topic = topic_of("event_log.latest", &topic.or_nil())?;
        EventLog::of(cx.vm()).latest(&topic)?
    }

    /// Returns a stream of the events of a topic.
    ///
    /// The stream starts after the id `from_cursor`, or with the oldest stored event. It yields the stored events, then
    /// new events as they arrive, and never ends. In memory, a topic stores its last 4096 events; reading a dropped
    /// event is an error.
    ///
    /// ```harn
    /// event_log.emit("builds", "started", {commit: "abc"})
    /// for event in event_log.subscribe("builds") {
    ///   println("${event.id} ${event.kind} ${event.payload}") // -> 1 started {commit: abc}
    ///   break
    /// }
    /// ```
    State fn subscribe = "event_log.subscribe"(cx, topic: Given as "string | {topic?: any, from_cursor?: any, cursor?: any, from?: any}", from_cursor: Given as "int?") -> "stream" {
        let (topic, cursor) = match topic.or_nil() {
            given if given.to_dict().is_some() => {
                let entry = |key: &str| given.to_dict().and_then(|dict| dict.get_str(key).cloned());
                let cursor = ["from_cursor", "cursor", "from"].into_iter().find_map(entry);
                (entry("topic").unwrap_or_default(), cursor.unwrap_or_default())
            }
            topic => (topic, from_cursor.or_nil()),
        };
        let topic = topic_of("event_log.subscribe", &topic)?;
        let cursor = match cursor.as_int().and_then(|n| usize::try_from(n).ok()) {
            Some(cursor) => Some(cursor),
            None if cursor.is_nil() => None,
            None => {
                return Err(Error::type_error(format!(
                    "event_log.subscribe: from_cursor must be a non-negative int or nil, got {}",
                    cursor.type_name()
                )));
            }
        };
        let events = EventLog::of(cx.vm()).subscribe(&topic, cursor)?;
        StreamValue::value(events)
    }
}

fn topic_of(function: &str, topic: &Value) -> Result<String> {
    match topic.as_str() {
        Some(topic) => Ok(topic.to_string()),
        None if topic.is_nil() => Err(Error::type_error(format!("{function}: missing topic"))),
        None => {
            Err(Error::type_error(format!("{function}: topic must be a string, got {}", topic.type_name())))
        }
    }
}

fn headers_of(headers: &Value) -> Result<Dict> {
    if headers.is_nil() {
        return Ok(Dict::new());
    }
    let Some(dict) = headers.to_dict() else {
        let text = format!("event_log.emit: headers must be a dict, got {}", headers.type_name());
        return Err(Error::type_error(text));
    };
    for (name, value) in dict.iter() {
        if value.as_str().is_none() {
            let text = format!("event_log.emit: header '{name}' must be a string, got {}", value.type_name());
            return Err(Error::type_error(text));
        }
    }
    Ok((*dict).clone())
}
