//! The event log of a program: append-only topics that can be read from any position. It is lost at the end of the
//! program unless a [`Keeper`] persists it.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::path::PathBuf;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;

use harn_value::json::{parse, stringify};
use harn_value::{Dict, Value};
use harn_vm::iter::{NextFuture, Source};
use harn_vm::{Cx, Error, Result, Vm};

/// Number of events per topic retained in memory, so that long-running programs do not grow with each event.
pub const KEPT: usize = 4096;

/// Events that are read from a keeper at once.
const PAGE: usize = 256;

/// How often a keeper is polled for the events of other processes.
const POLL: Duration = Duration::from_millis(100);

/// A persisted event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// The id: starts at 1 per topic and increases by 1.
    pub id: i64,
    /// The kind.
    pub kind: String,
    /// The payload as JSON.
    pub payload: String,
    /// The headers.
    pub headers: Vec<(String, String)>,
    /// The time, in milliseconds since 1970.
    pub at_ms: i64,
}

/// Persists events beyond the end of the program. Calls do not block, and other processes may append events, too.
pub trait Keeper {
    /// Returns the directory of the events.
    fn folder(&self) -> PathBuf;

    /// Appends an event and returns its id; the id in `event` is ignored.
    ///
    /// # Errors
    /// The reason why the event is not persisted.
    fn append(&self, topic: &str, event: Kept) -> std::result::Result<i64, String>;

    /// Returns the id of the newest event of a topic.
    ///
    /// # Errors
    /// The reason why it cannot be read.
    fn latest(&self, topic: &str) -> std::result::Result<Option<i64>, String>;

    /// Returns the next events of a topic after an id.
    ///
    /// # Errors
    /// The reason why they cannot be read.
    fn read(&self, topic: &str, after: i64, limit: usize) -> std::result::Result<Vec<Kept>, String>;
}

fn failed(reason: String) -> Error {
    Error::runtime(format!("event_log: {reason}"))
}

#[derive(Default)]
struct Topic {
    /// The newest events.
    events: VecDeque<Value>,
    /// Number of discarded events.
    gone: usize,
    /// Subscribers that wait for the next event.
    wakers: Vec<Waker>,
}

impl Topic {
    /// Returns the number of events so far.
    fn count(&self) -> usize {
        self.gone + self.events.len()
    }
}

/// The topics of a program; an extension of its virtual machine.
#[derive(Default)]
pub struct EventLog {
    topics: RefCell<BTreeMap<String, Topic>>,
    keeper: OnceCell<Rc<dyn Keeper>>,
    /// How many events a subscriber may lag behind after it has caught up.
    depth: Cell<Option<usize>>,
    /// Number of events that this program has appended.
    added: Cell<u64>,
}

impl EventLog {
    /// Returns the log of a program.
    #[must_use]
    pub fn of(vm: &Vm) -> Rc<EventLog> {
        vm.extension::<EventLog>()
    }

    /// Persists events with a keeper from now on. Returns false if the log already has a keeper.
    pub fn keep_in(&self, keeper: Rc<dyn Keeper>) -> bool {
        self.keeper.set(keeper).is_ok()
    }

    /// Returns whether the events outlive the program.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.keeper.get().is_some()
    }

    /// Sets how many events a subscriber may lag behind after it has caught up; more is an error. By default the
    /// retained events are the limit.
    pub fn limit_delay(&self, depth: usize) {
        self.depth.set(Some(depth));
    }

    /// Checks that a task may append events: without permission to write files it cannot append to a log on disk.
    ///
    /// # Errors
    /// The policy rejects it, or the directory of the log cannot be created.
    pub fn permit(&self, cx: &Cx) -> Result<()> {
        let Some(keeper) = self.keeper.get() else { return Ok(()) };
        let folder = keeper.folder();
        cx.system().make_dirs(&folder).map_err(|error| {
            cx.refusal(&error).unwrap_or_else(|| failed(format!("{}: {error}", folder.display())))
        })
    }

    /// Appends an event and returns its id, which starts at 1 per topic and increases by 1. The payload should be JSON
    /// data.
    ///
    /// # Errors
    /// The name of the topic is invalid (only ASCII letters, digits, `.`, `_` and `-` are allowed), or the event cannot
    /// be persisted.
    pub fn emit(&self, topic: &str, kind: &str, payload: Value, headers: Dict, now_ms: i64) -> Result<i64> {
        check(topic)?;
        let id = match self.keeper.get() {
            None => self.hold(topic, kind, payload, headers, now_ms),
            Some(keeper) => {
                let headers = headers.iter().map(|(name, value)| (name.to_string(), value.to_string()));
                let event = Kept {
                    id: 0,
                    kind: kind.to_owned(),
                    payload: stringify(&payload),
                    headers: headers.collect(),
                    at_ms: now_ms,
                };
                keeper.append(topic, event).map_err(failed)?
            }
        };
        self.added.set(self.added.get() + 1);
        if let Some(topic) = self.topics.borrow_mut().get_mut(topic) {
            topic.wakers.drain(..).for_each(Waker::wake);
        }
        Ok(id)
    }

    /// Appends an event in memory.
    fn hold(&self, topic: &str, kind: &str, payload: Value, headers: Dict, now_ms: i64) -> i64 {
        let mut topics = self.topics.borrow_mut();
        let entry = topics.entry(topic.to_owned()).or_default();
        let id = i64::try_from(entry.count()).unwrap_or(i64::MAX).saturating_add(1);
        if entry.events.len() == KEPT {
            entry.events.pop_front();
            entry.gone += 1;
        }
        entry.events.push_back(event(topic, id, kind, payload, headers, now_ms));
        id
    }

    /// Returns the id of the newest event of a topic.
    ///
    /// # Errors
    /// The name of the topic is invalid (only ASCII letters, digits, `.`, `_` and `-` are allowed), or the keeper
    /// cannot be read.
    pub fn latest(&self, topic: &str) -> Result<Option<i64>> {
        check(topic)?;
        if let Some(keeper) = self.keeper.get() {
            return keeper.latest(topic).map_err(failed);
        }
        let topics = self.topics.borrow();
        let count = topics.get(topic).map(Topic::count).filter(|count| *count > 0);
        Ok(count.and_then(|count| i64::try_from(count).ok()))
    }

    /// Subscribes to the events of a topic after an id; without an id, to the retained events and all further ones.
    ///
    /// # Errors
    /// The name of the topic is invalid: only ASCII letters, digits, `.`, `_` and `-` are allowed.
    pub fn subscribe(self: &Rc<Self>, topic: &str, cursor: Option<usize>) -> Result<Subscription> {
        check(topic)?;
        let first = || self.topics.borrow().get(topic).map_or(0, |topic| topic.gone);
        let cursor = cursor.unwrap_or_else(first);
        let (topic, page) = (topic.to_owned(), VecDeque::new());
        Ok(Subscription { log: self.clone(), topic, cursor, page, live: false })
    }
}

/// Returns an event in the form for programs.
fn event(topic: &str, id: i64, kind: &str, payload: Value, headers: Dict, at_ms: i64) -> Value {
    let mut event = Dict::new();
    event.insert("id", id);
    event.insert("cursor", id);
    event.insert("topic", topic);
    event.insert("kind", kind);
    event.insert("payload", payload);
    event.insert("headers", headers);
    event.insert("occurred_at_ms", at_ms);
    event.into()
}

fn check(topic: &str) -> Result<()> {
    if topic.is_empty() {
        return Err(Error::runtime("event_log: topic cannot be empty"));
    }
    let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if topic.chars().all(fine) {
        return Ok(());
    }
    Err(Error::runtime(format!("event_log: topic '{topic}' contains unsupported characters")))
}

/// The events of a topic from a position; it has no end.
pub struct Subscription {
    log: Rc<EventLog>,
    topic: String,
    /// Number of events that have been read or skipped.
    cursor: usize,
    /// Events that have been read from the keeper.
    page: VecDeque<Kept>,
    /// Whether it has caught up once.
    live: bool,
}

impl Subscription {
    /// Returns the next event; if there is none, registers the waker.
    ///
    /// # Errors
    /// The next event is no longer retained, or the lag of the subscriber exceeds the limit.
    fn poll(&mut self, waker: Option<&Waker>) -> Result<Option<Value>> {
        let found = match self.log.keeper.get().cloned() {
            Some(keeper) => self.kept(&*keeper)?,
            None => self.held()?,
        };
        if found.is_some() {
            self.cursor += 1;
        } else {
            self.live = true;
            if let Some(waker) = waker {
                let mut topics = self.log.topics.borrow_mut();
                let wakers = &mut topics.entry(self.topic.clone()).or_default().wakers;
                if !wakers.iter().any(|other| other.will_wake(waker)) {
                    wakers.push(waker.clone());
                }
            }
        }
        Ok(found)
    }

    /// Returns whether the number of unread events exceeds the limit.
    fn is_behind(&self, waiting: usize) -> bool {
        self.live && self.log.depth.get().is_some_and(|depth| waiting > depth)
    }

    fn lagged(&self) -> Error {
        failed(format!("subscriber lagged behind after event {}", self.cursor))
    }

    /// Returns the next event in memory.
    fn held(&self) -> Result<Option<Value>> {
        let topics = self.log.topics.borrow();
        let Some(topic) = topics.get(&self.topic) else { return Ok(None) };
        let waiting = topic.count().saturating_sub(self.cursor);
        match self.cursor.checked_sub(topic.gone) {
            Some(at) if !self.is_behind(waiting) => Ok(topic.events.get(at).cloned()),
            _ => Err(self.lagged()),
        }
    }

    /// Returns the next event of the keeper.
    fn kept(&mut self, keeper: &dyn Keeper) -> Result<Option<Value>> {
        if self.page.is_empty() {
            let after = i64::try_from(self.cursor).unwrap_or(i64::MAX);
            let limit = self.log.depth.get().map_or(PAGE, |depth| PAGE.max(depth.saturating_add(1)));
            self.page = keeper.read(&self.topic, after, limit).map_err(failed)?.into();
            if self.is_behind(self.page.len()) {
                self.page.clear();
                return Err(self.lagged());
            }
        }
        let Some(next) = self.page.pop_front() else { return Ok(None) };
        let payload = parse(&next.payload).map_err(|reason| {
            failed(format!("event {} of '{}' is damaged: {reason}", next.id, self.topic))
        })?;
        let headers = next.headers.into_iter().map(|(name, value)| (name, Value::str(&value)));
        let headers = headers.collect();
        Ok(Some(event(&self.topic, next.id, &next.kind, payload, headers, next.at_ms)))
    }

    /// Waits until this program appends an event, or until it is time to poll for events of other processes.
    async fn pause(&self, cx: &Cx) -> Result<()> {
        let seen = self.log.added.get();
        let mut pause = pin!(cx.sleep(POLL));
        poll_fn(|context| match self.log.added.get() == seen {
            true => pause.as_mut().poll(context),
            false => Poll::Ready(Ok(())),
        })
        .await
    }
}

impl Source for Subscription {
    fn try_next(&mut self) -> Result<Option<Option<Value>>> {
        Ok(self.poll(None)?.map(Some))
    }

    fn next<'a>(&'a mut self, cx: &'a Cx) -> NextFuture<'a> {
        Box::pin(async move {
            while self.log.keeper.get().is_some() {
                let found = poll_fn(|context| Poll::Ready(self.poll(Some(context.waker())))).await?;
                if found.is_some() {
                    return Ok(found);
                }
                self.pause(cx).await?;
            }
            let event = poll_fn(|context| match self.poll(Some(context.waker())) {
                Ok(None) => Poll::Pending,
                Ok(Some(event)) => Poll::Ready(Ok(event)),
                Err(error) => Poll::Ready(Err(error)),
            });
            event.await.map(Some)
        })
    }
}
