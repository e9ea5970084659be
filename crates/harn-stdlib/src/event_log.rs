//! The event log of a program: topics to which events are added, and which are read from any place on. It lives as long as
//! the program, or in a [`Keeper`] that outlives it.

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

/// The events of a topic that are kept in memory: what runs for days must not grow by each of them.
pub const KEPT: usize = 4096;

/// Events that are read from a keeper at once.
const PAGE: usize = 256;

/// How often a keeper is asked for the events of other processes.
const POLL: Duration = Duration::from_millis(100);

/// An event in the form in which it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// Its id: per topic from 1, increasing by 1.
    pub id: i64,
    /// What kind of event.
    pub kind: String,
    /// Its payload as JSON.
    pub payload: String,
    /// Facts about it.
    pub headers: Vec<(String, String)>,
    /// When it happened.
    pub at_ms: i64,
}

/// What keeps events when the program has ended. Each answer is there at once, and others may add events, too.
pub trait Keeper {
    /// The folder that events are written to.
    fn folder(&self) -> PathBuf;

    /// Adds an event and gives its id; the one that it brings does not matter.
    ///
    /// # Errors
    /// Why it is not kept.
    fn append(&self, topic: &str, event: Kept) -> std::result::Result<i64, String>;

    /// The id of the newest event of a topic.
    ///
    /// # Errors
    /// Why it cannot be read.
    fn latest(&self, topic: &str) -> std::result::Result<Option<i64>, String>;

    /// The next events of a topic behind an id.
    ///
    /// # Errors
    /// Why they cannot be read.
    fn read(&self, topic: &str, after: i64, limit: usize) -> std::result::Result<Vec<Kept>, String>;
}

fn failed(reason: String) -> Error {
    Error::runtime(format!("event_log: {reason}"))
}

#[derive(Default)]
struct Topic {
    /// The newest events.
    events: VecDeque<Value>,
    /// How many are gone.
    gone: usize,
    /// Subscribers that wait for the next event.
    wakers: Vec<Waker>,
}

impl Topic {
    /// How many events there were.
    fn count(&self) -> usize {
        self.gone + self.events.len()
    }
}

/// The topics of a program; an extension of its machine.
#[derive(Default)]
pub struct EventLog {
    topics: RefCell<BTreeMap<String, Topic>>,
    keeper: OnceCell<Rc<dyn Keeper>>,
    /// How many events a subscriber may be behind that has once had all.
    depth: Cell<Option<usize>>,
    /// How many events this program has added.
    added: Cell<u64>,
}

impl EventLog {
    /// The log of a program.
    #[must_use]
    pub fn of(vm: &Vm) -> Rc<EventLog> {
        vm.extension::<EventLog>()
    }

    /// Hands the events to a keeper from now on. A log has one keeper: false when it has one already.
    pub fn keep_in(&self, keeper: Rc<dyn Keeper>) -> bool {
        self.keeper.set(keeper).is_ok()
    }

    /// Whether its events outlive the program.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.keeper.get().is_some()
    }

    /// Sets how many events a subscriber may be behind that has once had all; more is an error. Without it the events
    /// that are kept are the limit.
    pub fn limit_delay(&self, depth: usize) {
        self.depth.set(Some(depth));
    }

    /// Checks that a task may add events: who may not write files adds none to a log on disk.
    ///
    /// # Errors
    /// It may not, or the folder of the log cannot be made.
    pub fn permit(&self, cx: &Cx) -> Result<()> {
        let Some(keeper) = self.keeper.get() else { return Ok(()) };
        let folder = keeper.folder();
        cx.system().make_dirs(&folder).map_err(|error| {
            cx.refusal(&error).unwrap_or_else(|| failed(format!("{}: {error}", folder.display())))
        })
    }

    /// Adds an event and returns its id: per topic from 1, increasing by 1. The payload should be data as JSON has it.
    ///
    /// # Errors
    /// The topic's name: ASCII letters, digits, `.`, `_` and `-`. It cannot be kept.
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

    /// Keeps an event in memory.
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
    /// The topic's name: ASCII letters, digits, `.`, `_` and `-`. The keeper cannot be read.
    pub fn latest(&self, topic: &str) -> Result<Option<i64>> {
        check(topic)?;
        if let Some(keeper) = self.keeper.get() {
            return keeper.latest(topic).map_err(failed);
        }
        let topics = self.topics.borrow();
        let count = topics.get(topic).map(Topic::count).filter(|count| *count > 0);
        Ok(count.and_then(|count| i64::try_from(count).ok()))
    }

    /// Returns the events of a topic behind an id, without one those that are kept, and then those to come.
    ///
    /// # Errors
    /// The topic's name: ASCII letters, digits, `.`, `_` and `-`.
    pub fn subscribe(self: &Rc<Self>, topic: &str, cursor: Option<usize>) -> Result<Subscription> {
        check(topic)?;
        let first = || self.topics.borrow().get(topic).map_or(0, |topic| topic.gone);
        let cursor = cursor.unwrap_or_else(first);
        let (topic, page) = (topic.to_owned(), VecDeque::new());
        Ok(Subscription { log: self.clone(), topic, cursor, page, live: false })
    }
}

/// An event as programs see it.
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

/// The events of a topic from some place on; it never ends by itself.
pub struct Subscription {
    log: Rc<EventLog>,
    topic: String,
    /// How many events are read or skipped.
    cursor: usize,
    /// Events that were read from the keeper.
    page: VecDeque<Kept>,
    /// Whether it has once had all events.
    live: bool,
}

impl Subscription {
    /// The next event, or a wish to be woken when there is one.
    ///
    /// # Errors
    /// The next event is no longer kept, or the subscriber is further behind than it may be.
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

    /// Whether so many waiting events are too many.
    fn is_behind(&self, waiting: usize) -> bool {
        self.live && self.log.depth.get().is_some_and(|depth| waiting > depth)
    }

    fn lagged(&self) -> Error {
        failed(format!("subscriber lagged behind after event {}", self.cursor))
    }

    /// The next event in memory.
    fn held(&self) -> Result<Option<Value>> {
        let topics = self.log.topics.borrow();
        let Some(topic) = topics.get(&self.topic) else { return Ok(None) };
        let waiting = topic.count().saturating_sub(self.cursor);
        match self.cursor.checked_sub(topic.gone) {
            Some(at) if !self.is_behind(waiting) => Ok(topic.events.get(at).cloned()),
            _ => Err(self.lagged()),
        }
    }

    /// The next event of the keeper.
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

    /// Waits until this program adds an event, and no longer than until it is time to ask for those of others.
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
