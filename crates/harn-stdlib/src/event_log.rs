//! The event log of a program: topics to which events are added, and which are read from any place on. It lives as long as
//! the program.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use harn_value::{Dict, Value};
use harn_vm::iter::{NextFuture, Source};
use harn_vm::{Cx, Error, Result, Vm};

/// The events of a topic that are kept: what runs for days must not grow by each of them.
pub const KEPT: usize = 4096;

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
}

impl EventLog {
    /// The log of a program.
    #[must_use]
    pub fn of(vm: &Vm) -> Rc<EventLog> {
        vm.extension::<EventLog>()
    }

    /// Adds an event and returns its id: per topic from 1, increasing by 1. The payload should be data as JSON has it.
    ///
    /// # Errors
    /// The topic's name: ASCII letters, digits, `.`, `_` and `-`.
    pub fn emit(&self, topic: &str, kind: &str, payload: Value, headers: Dict, now_ms: i64) -> Result<i64> {
        check(topic)?;
        let mut topics = self.topics.borrow_mut();
        let entry = topics.entry(topic.to_owned()).or_default();
        let id = i64::try_from(entry.count()).unwrap_or(i64::MAX).saturating_add(1);
        let mut event = Dict::new();
        event.insert("id", id);
        event.insert("cursor", id);
        event.insert("topic", topic);
        event.insert("kind", kind);
        event.insert("payload", payload);
        event.insert("headers", headers);
        event.insert("occurred_at_ms", now_ms);
        if entry.events.len() == KEPT {
            entry.events.pop_front();
            entry.gone += 1;
        }
        entry.events.push_back(event.into());
        entry.wakers.drain(..).for_each(Waker::wake);
        Ok(id)
    }

    /// Returns the id of the newest event of a topic.
    ///
    /// # Errors
    /// The topic's name: ASCII letters, digits, `.`, `_` and `-`.
    pub fn latest(&self, topic: &str) -> Result<Option<i64>> {
        check(topic)?;
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
        Ok(Subscription { log: self.clone(), topic: topic.to_owned(), cursor })
    }
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
}

impl Subscription {
    /// The next event, or a wish to be woken when there is one.
    ///
    /// # Errors
    /// The next event is no longer kept.
    fn poll(&mut self, waker: Option<&Waker>) -> Result<Option<Value>> {
        let mut topics = self.log.topics.borrow_mut();
        let topic = topics.entry(self.topic.clone()).or_default();
        let Some(at) = self.cursor.checked_sub(topic.gone) else {
            let text = format!("event_log: subscriber lagged behind after event {}", self.cursor);
            return Err(Error::runtime(text));
        };
        if let Some(event) = topic.events.get(at) {
            self.cursor += 1;
            return Ok(Some(event.clone()));
        }
        topic.wakers.extend(waker.cloned());
        Ok(None)
    }
}

impl Source for Subscription {
    fn try_next(&mut self) -> Result<Option<Option<Value>>> {
        Ok(self.poll(None)?.map(Some))
    }

    fn next<'a>(&'a mut self, _cx: &'a Cx) -> NextFuture<'a> {
        Box::pin(async move {
            let event = poll_fn(|context| match self.poll(Some(context.waker())) {
                Ok(None) => Poll::Pending,
                Ok(Some(event)) => Poll::Ready(Ok(event)),
                Err(error) => Poll::Ready(Err(error)),
            });
            event.await.map(Some)
        })
    }
}
