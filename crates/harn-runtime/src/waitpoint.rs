//! Waitpoints: named points at which tasks wait until they are completed.
//!
//! The state of a waitpoint is defined by the events of its topic (`waitpoints.ID`): `waitpoint.created`, then the
//! first of `waitpoint.completed` and `waitpoint.cancelled`. So it can be resolved by a task of the program, or by
//! another program that shares the event log. In a durable run it is also a request to reviewers
//! ([`inquire`](harn_system::System::inquire)) from its creation, so that an answer may come before a task waits. A
//! host is asked when a task waits.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;

use harn_stdlib::event_log::{EventLog, Subscription};
use harn_stdlib::iso_millis;
use harn_system::{Inquiry, Reply};
use harn_value::Dict;
use harn_value::{Data as Json, json};
use harn_vm::iter::Source;
use harn_vm::task::CANCELLED;
use harn_vm::{Cx, Error, ErrorKind, Result};

use crate::convert::{from_json, thrown, to_json};
use crate::llm_embedder::new_id;

/// Maximum length of an id, because it is part of a topic and of command lines.
const LONGEST: usize = 128;

/// Reserved prefixes: the ids of requests that the runtime makes.
const TAKEN: [&str; 2] = ["hitl_", "doubt_"];

/// The status of a waitpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Open,
    Completed,
    Cancelled,
}

/// A waitpoint, as defined by its events.
#[derive(Debug, Clone)]
pub(crate) struct Point {
    id: String,
    status: Status,
    created_ms: i64,
    created_by: Json,
    metadata: Json,
    /// The event that resolved it, and its content.
    resolved: i64,
    resolved_ms: i64,
    by: Json,
    value: Json,
    reason: Json,
}

impl Point {
    /// Returns the value that programs receive.
    pub(crate) fn json(&self) -> Json {
        let at = |status: Status| match self.status == status {
            true => Json::from(iso_millis(self.resolved_ms)),
            false => Json::Null,
        };
        let by = |status: Status| if self.status == status { self.by.clone() } else { Json::Null };
        let word = match self.status {
            Status::Open => "open",
            Status::Completed => "completed",
            Status::Cancelled => "cancelled",
        };
        json!({
            "id": self.id, "status": word, "created_at": iso_millis(self.created_ms), "created_by": self.created_by,
            "completed_at": at(Status::Completed), "completed_by": by(Status::Completed),
            "cancelled_at": at(Status::Cancelled), "cancelled_by": by(Status::Cancelled),
            "value": self.value, "reason": self.reason, "metadata": self.metadata,
        })
    }

    fn is_in_time(&self, until_ms: Option<i64>) -> bool {
        until_ms.is_none_or(|until| self.resolved_ms <= until)
    }
}

/// Follows the events of a waitpoint.
struct Follow {
    events: Subscription,
    point: Option<Point>,
    id: String,
    /// Why an answer was rejected.
    refused: Option<String>,
}

impl Follow {
    fn new(cx: &Cx, id: &str) -> Result<Follow> {
        let events = EventLog::of(cx.vm()).subscribe(&topic(id), None)?;
        let mut follow = Follow { events, point: None, id: id.to_owned(), refused: None };
        follow.catch_up()?;
        Ok(follow)
    }

    /// Processes all available events.
    fn catch_up(&mut self) -> Result<()> {
        while let Some(Some(event)) = self.events.try_next()? {
            self.take(&to_json(&event));
        }
        Ok(())
    }

    fn take(&mut self, event: &Json) {
        let (payload, at_ms) = (&event["payload"], event["occurred_at_ms"].as_i64().unwrap_or(0));
        let status = match event["kind"].as_str() {
            Some("waitpoint.created") if self.point.is_none() => {
                self.point = Some(Point {
                    id: self.id.clone(),
                    status: Status::Open,
                    created_ms: at_ms,
                    created_by: payload["by"].clone(),
                    metadata: payload["metadata"].clone(),
                    resolved: 0,
                    resolved_ms: 0,
                    by: Json::Null,
                    value: Json::Null,
                    reason: Json::Null,
                });
                return;
            }
            Some("waitpoint.answer_refused") => {
                self.refused = payload["message"].as_str().map(str::to_owned);
                return;
            }
            Some("waitpoint.completed") => Status::Completed,
            Some("waitpoint.cancelled") => Status::Cancelled,
            // Other events in the topic do not affect the waitpoint.
            _ => return,
        };
        let Some(point) = self.point.as_mut().filter(|point| point.status == Status::Open) else { return };
        point.status = status;
        point.resolved = event["id"].as_i64().unwrap_or(0);
        point.resolved_ms = payload["at_ms"].as_i64().unwrap_or(at_ms);
        (point.by, point.reason) = (payload["by"].clone(), payload["reason"].clone());
        point.value = payload["value"].clone();
        if let Json::Object(more) = &payload["metadata"] {
            match &mut point.metadata {
                Json::Object(known) => known.extend(more.clone()),
                none => *none = Json::Object(more.clone()),
            }
        }
    }
}

fn topic(id: &str) -> String {
    format!("waitpoints.{id}")
}

/// The open waitpoints of a durable run that another process may resolve, with the handle that ends each wait.
#[derive(Default)]
struct Inquiries(RefCell<BTreeMap<String, Rc<WaitHandle>>>);

/// Ends the wait for an answer from another process.
#[derive(Default)]
struct WaitHandle {
    closed: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl WaitHandle {
    /// Lets another process resolve a waitpoint while it is open.
    fn open(cx: &Cx, point: &Point) {
        let handle: Rc<WaitHandle> = Rc::default();
        cx.state::<Inquiries>().0.borrow_mut().insert(point.id.clone(), handle.clone());
        let mut answer = cx.system().inquire(inquiry(point, Duration::MAX));
        let (cx, id) = (cx.clone(), point.id.clone());
        harn_vm::spawn(async move {
            let answer = poll_fn(|context| {
                if handle.closed.get() {
                    return Poll::Ready(None);
                }
                *handle.waker.borrow_mut() = Some(context.waker().clone());
                answer.as_mut().poll(context).map(Some)
            });
            let answer = match answer.await {
                Some(Ok(Some(reply))) => note(&cx, &id, &reply),
                Some(Err(text)) => refuse(&cx, &id, text),
                // It was resolved by the program, or the program is about to stop.
                Some(Ok(None)) | None => Ok(()),
            };
            if let Err(error) = answer {
                cx.system().write_err(&harn_syntax::notice(&format!("warning: waitpoint {id}: {error}")));
            }
        });
    }

    /// Stops the wait for an answer from another process.
    fn close(cx: &Cx, id: &str) {
        let Some(handle) = cx.state::<Inquiries>().0.borrow_mut().remove(id) else { return };
        handle.closed.set(true);
        cx.system().end_inquiry(id);
        let waker = handle.waker.take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

fn inquiry(point: &Point, time: Duration) -> Inquiry {
    Inquiry {
        id: point.id.clone(),
        kind: "waitpoint".to_owned(),
        prompt: format!("waitpoint {}", point.id),
        details: json!({"waitpoint": point.id, "created_by": point.created_by, "metadata": point.metadata})
            .to_string(),
        quorum: 1,
        had: 0,
        time,
    }
}

/// Converts an external answer to an event. The error is the reason for its rejection.
fn told(answer: &Json, by: &str, at_ms: i64) -> std::result::Result<(&'static str, Json), String> {
    let reason = &answer["reason"];
    if answer["cancelled"] == true {
        return Ok(("waitpoint.cancelled", json!({"by": by, "at_ms": at_ms, "reason": reason})));
    }
    match answer.get("value") {
        Some(value) => {
            let payload = json!({"by": by, "at_ms": at_ms, "value": value, "reason": reason});
            Ok(("waitpoint.completed", payload))
        }
        None => Err(format!("the answer of {by} has neither value nor cancelled: true: {answer}")),
    }
}

/// Records an external answer.
fn note(cx: &Cx, id: &str, reply: &Reply) -> Result<()> {
    let answer = serde_json::from_str(&reply.value).unwrap_or(Json::Null);
    match told(&answer, &reply.by, reply.at_ms) {
        Ok((kind, payload)) => emit(cx, id, kind, &payload).map(drop),
        Err(text) => refuse(cx, id, text),
    }
}

/// Records why an external answer was rejected; waiting tasks receive it as an error.
fn refuse(cx: &Cx, id: &str, text: String) -> Result<()> {
    emit(cx, id, "waitpoint.answer_refused", &json!({"message": text})).map(drop)
}

fn emit(cx: &Cx, id: &str, kind: &str, payload: &Json) -> Result<i64> {
    let log = EventLog::of(cx.vm());
    log.permit(cx)?;
    log.emit(&topic(id), kind, from_json(payload), Dict::new(), cx.system().now_ms())
}

/// Returns the current state of a waitpoint.
fn find(cx: &Cx, function: &str, id: &str) -> Result<Point> {
    Follow::new(cx, id)?.point.ok_or_else(|| {
        thrown(format!("{function}: there is no waitpoint '{id}'; waitpoint_create makes one"))
    })
}

/// Checks the id of a waitpoint.
pub(crate) fn checked(function: &str, id: &str) -> Result<String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if id.is_empty() || id.len() > LONGEST || !id.chars().all(fits) {
        return Err(thrown(format!(
            "{function}: '{id}' cannot be the id of a waitpoint: expected 1 to {LONGEST} ASCII letters, digits, '.', '_' and '-'"
        )));
    }
    if let Some(start) = TAKEN.iter().find(|start| id.starts_with(**start)) {
        return Err(thrown(format!("{function}: '{id}': ids that begin with '{start}' are taken")));
    }
    Ok(id.to_owned())
}

/// Creates a waitpoint; an existing one is not changed.
pub(crate) fn create(cx: &Cx, id: Option<String>, by: Json, metadata: Json) -> Result<Json> {
    let id = id.unwrap_or_else(|| format!("wp_{}", new_id(cx.vm())));
    if let Some(known) = Follow::new(cx, &id)?.point {
        return Ok(known.json());
    }
    emit(cx, &id, "waitpoint.created", &json!({"by": by, "metadata": metadata}))?;
    let point = find(cx, "waitpoint_create", &id)?;
    if cx.system().has_people() {
        WaitHandle::open(cx, &point);
    }
    harn_stdlib::notify_host(cx, "harn.waitpoint.created", &from_json(&point.json()));
    Ok(point.json())
}

/// Completes or cancels a waitpoint.
pub(crate) fn resolve(cx: &Cx, function: &str, id: &str, kind: &str, payload: &Json) -> Result<Json> {
    let refused = |point: &Point| {
        let word = if point.status == Status::Cancelled { "cancelled" } else { "completed" };
        Err(thrown(format!("{function}: waitpoint '{id}' is {word} already")))
    };
    let before = find(cx, function, id)?;
    if before.status != Status::Open {
        return refused(&before);
    }
    let event = emit(cx, id, kind, payload)?;
    let after = find(cx, function, id)?;
    // Another program that shares the log may have been first.
    if after.resolved != event {
        return refused(&after);
    }
    WaitHandle::close(cx, id);
    Ok(after.json())
}

/// A wait for waitpoints.
pub(crate) struct Wait {
    pub(crate) wait_id: Option<String>,
    pub(crate) ids: Vec<String>,
    pub(crate) timeout: Option<Duration>,
}

/// The state of the awaited waitpoints.
enum Found {
    Completed,
    Cancelled(usize),
    Late,
    Open,
    /// The task is being stopped; the interruption is reported only once, with this error.
    Interrupted,
}

type Task<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

impl Wait {
    /// Waits until all waitpoints are completed, one is cancelled, the time limit expires, or the task is interrupted.
    pub(crate) async fn run(self, cx: &Cx) -> Result<Json> {
        let started_ms = cx.system().now_ms();
        let until_ms = self
            .timeout
            .map(|time| started_ms.saturating_add(i64::try_from(time.as_millis()).unwrap_or(i64::MAX)));
        let mut follows = Vec::with_capacity(self.ids.len());
        for id in &self.ids {
            find(cx, "waitpoint_wait", id)?;
            follows.push(Follow::new(cx, id)?);
        }
        let (wait_id, trace_id) = match &self.wait_id {
            Some(id) => (id.clone(), format!("trace_{}", new_id(cx.vm()))),
            None => (format!("wait_{}", new_id(cx.vm())), format!("trace_{}", new_id(cx.vm()))),
        };
        let mut timer: Option<Task<'_, Result<()>>> = None;
        let mut host: Option<Task<'_, Option<Result<Json>>>> = None;
        let mut asked = false;
        let mut over = false;
        let found = loop {
            if let Some(text) = follows.iter_mut().find_map(|follow| follow.refused.take()) {
                return Err(thrown(format!("waitpoint_wait: {text}")));
            }
            match state(&follows, until_ms) {
                Found::Open if over => break Found::Late,
                Found::Open => {}
                found => break found,
            }
            if self.timeout == Some(Duration::ZERO) {
                over = true;
                self.last_look(cx, &mut follows).await?;
                continue;
            }
            if !asked {
                asked = true;
                timer = self.timeout.map(|time| Box::pin(cx.sleep(time)) as _);
                host = Some(Box::pin(self.ask_host(cx, &wait_id)));
            }
            let mut events: Vec<_> = follows.iter_mut().map(|follow| follow.events.next(cx)).collect();
            let next = poll_fn(|context| {
                for (at, event) in events.iter_mut().enumerate() {
                    if let Poll::Ready(event) = event.as_mut().poll(context) {
                        return Poll::Ready(event.map(|event| Next::Event(at, event)));
                    }
                }
                if let Some(Poll::Ready(answer)) = host.as_mut().map(|host| host.as_mut().poll(context)) {
                    return Poll::Ready(Ok(Next::Host(answer)));
                }
                match timer.as_mut().map(|timer| timer.as_mut().poll(context)) {
                    Some(Poll::Ready(slept)) => Poll::Ready(slept.map(|()| Next::Over)),
                    _ => Poll::Pending,
                }
            });
            let next = match next.await {
                Err(error) if is_cancellation(&error) => break Found::Interrupted,
                next => next?,
            };
            drop(events);
            match next {
                Next::Event(at, Some(event)) => follows[at].take(&to_json(&event)),
                Next::Event(_, None) => {}
                Next::Host(answer) => {
                    host = None;
                    if let Some(answer) = answer {
                        self.told_by_host(cx, answer?)?;
                    }
                }
                Next::Over => {
                    (over, timer) = (true, None);
                    self.last_look(cx, &mut follows).await?;
                }
            }
            for follow in &mut follows {
                follow.catch_up()?;
                if follow.point.as_ref().is_some_and(|point| point.status != Status::Open) {
                    WaitHandle::close(cx, &follow.id);
                }
            }
        };
        Ok(self.result(found, &follows, started_ms, cx.system().now_ms(), &wait_id, &trace_id))
    }

    /// Checks for answers that arrived in time while no process was running.
    async fn last_look(&self, cx: &Cx, follows: &mut [Follow]) -> Result<()> {
        let inquiries = cx.state::<Inquiries>();
        let open = follows
            .iter()
            .filter_map(|follow| follow.point.as_ref())
            .filter(|point| point.status == Status::Open && inquiries.0.borrow().contains_key(&point.id));
        // All requests are made at once.
        let asked: Vec<_> = open
            .map(|point| (point.id.clone(), cx.system().inquire(inquiry(point, Duration::ZERO))))
            .collect();
        for (id, answer) in asked {
            if let Some(reply) = cx.wait(answer).await?.map_err(thrown)? {
                note(cx, &id, &reply)?;
                WaitHandle::close(cx, &id);
            }
        }
        follows.iter_mut().try_for_each(Follow::catch_up)
    }

    async fn ask_host(&self, cx: &Cx, wait_id: &str) -> Option<Result<Json>> {
        let timeout_ms = self.timeout.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        let params = json!({"wait_id": wait_id, "waitpoint_ids": self.ids, "timeout_ms": timeout_ms});
        let answer = harn_stdlib::ask_host(cx, "waitpoint", "wait", &from_json(&params)).await?;
        Some(answer.map(|answer| to_json(&answer)))
    }

    /// Processes a host's answer: one answer or several, each with the `id` of its waitpoint if there are several.
    fn told_by_host(&self, cx: &Cx, answer: Json) -> Result<()> {
        let answers = match answer {
            Json::Array(answers) => answers,
            Json::Null => Vec::new(),
            one => vec![one],
        };
        for answer in answers {
            let id = match (answer["id"].as_str(), self.ids.as_slice()) {
                (Some(id), ids) if ids.iter().any(|known| known == id) => id.to_owned(),
                (None, [id]) => id.clone(),
                _ => {
                    let ids = self.ids.join(", ");
                    return Err(thrown(format!(
                        "waitpoint_wait: the host's answer must have the id of one of {ids}: {answer}"
                    )));
                }
            };
            let now_ms = cx.system().now_ms();
            let by = answer["by"].as_str().unwrap_or("host").to_owned();
            let told = told(&answer, &by, now_ms);
            let (kind, payload) = told.map_err(|text| thrown(format!("waitpoint_wait: '{id}': {text}")))?;
            emit(cx, &id, kind, &payload)?;
            WaitHandle::close(cx, &id);
        }
        Ok(())
    }

    fn result(
        &self,
        found: Found,
        follows: &[Follow],
        started_ms: i64,
        now_ms: i64,
        wait_id: &str,
        trace_id: &str,
    ) -> Json {
        let points: Vec<&Point> = follows.iter().filter_map(|follow| follow.point.as_ref()).collect();
        let (status, cancelled, reason) = match found {
            Found::Completed => ("completed", Json::Null, Json::Null),
            Found::Cancelled(at) => match points.get(at) {
                Some(point) => ("cancelled", Json::from(point.id.as_str()), point.reason.clone()),
                None => ("cancelled", Json::Null, Json::Null),
            },
            Found::Interrupted => ("interrupted", Json::Null, "the task that waited was cancelled".into()),
            Found::Late | Found::Open => {
                let late = points.iter().filter(|point| {
                    point.status == Status::Open
                        || point.resolved_ms > started_ms.saturating_add(self.limit_ms())
                });
                let names: Vec<String> = late.map(|point| format!("'{}'", point.id)).collect();
                let reason = format!("nobody completed {} within {} ms", names.join(", "), self.limit_ms());
                ("timed_out", Json::Null, reason.into())
            }
        };
        json!({
            "wait_id": wait_id, "waitpoint_ids": self.ids, "status": status,
            "started_at": iso_millis(started_ms), "resolved_at": iso_millis(now_ms),
            "waitpoints": points.iter().map(|point| point.json()).collect::<Vec<_>>(),
            "cancelled_waitpoint_id": cancelled, "trace_id": trace_id, "replay_of_event_id": null, "reason": reason,
        })
    }

    fn limit_ms(&self) -> i64 {
        self.timeout.map_or(i64::MAX, |time| i64::try_from(time.as_millis()).unwrap_or(i64::MAX))
    }
}

/// The event that ended a wait.
enum Next {
    Event(usize, Option<harn_value::Value>),
    Host(Option<Result<Json>>),
    Over,
}

fn is_cancellation(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Thrown(value) if value.as_str().is_some_and(|text| text == CANCELLED))
}

fn state(follows: &[Follow], until_ms: Option<i64>) -> Found {
    let points = || follows.iter().filter_map(|follow| follow.point.as_ref());
    let in_time = |point: &Point| point.is_in_time(until_ms);
    let cancelled = points().position(|point| point.status == Status::Cancelled && in_time(point));
    if let Some(at) = cancelled {
        return Found::Cancelled(at);
    }
    if points().any(|point| point.status != Status::Open && !in_time(point)) {
        return Found::Late;
    }
    match points().all(|point| point.status == Status::Completed) {
        true => Found::Completed,
        false => Found::Open,
    }
}
