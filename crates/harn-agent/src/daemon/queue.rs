//! The events of a daemon: a queue that outlives the process.

use std::collections::VecDeque;

use harn_value::Data as Json;
use serde::{Deserialize, Serialize};

/// An event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Delivery {
    /// Its number, from 1.
    pub seq: u64,
    /// When it came, RFC 3339.
    pub enqueued_at: String,
    /// What it says.
    pub payload: Json,
}

impl Delivery {
    /// What the daemon is told: a text as it is, anything else as JSON.
    pub fn message(&self) -> String {
        match &self.payload {
            Json::String(text) => text.clone(),
            other => other.to_string(),
        }
    }
}

/// Events in the order in which they came, of which one at most is being worked on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Queue {
    #[serde(rename = "event_queue_capacity")]
    capacity: u64,
    next_seq: u64,
    #[serde(rename = "pending_events")]
    pending: VecDeque<Delivery>,
    #[serde(rename = "inflight_event")]
    inflight: Option<Delivery>,
}

impl Queue {
    /// An empty queue.
    pub fn new(capacity: u64) -> Queue {
        Queue { capacity, next_seq: 1, pending: VecDeque::new(), inflight: None }
    }

    /// Looks at a queue that was read.
    ///
    /// # Errors
    /// Its events are not in order, or have numbers that are still to come.
    pub fn check(&self) -> Result<(), String> {
        let seqs: Vec<u64> = self.inflight.iter().chain(&self.pending).map(|event| event.seq).collect();
        let in_order = seqs.windows(2).all(|pair| pair[0] < pair[1]);
        if !in_order || seqs.last().is_some_and(|last| *last >= self.next_seq) || seqs.first() == Some(&0) {
            return Err("the events of its queue are not in order".to_owned());
        }
        if self.capacity == 0 {
            return Err("event_queue_capacity must be at least 1".to_owned());
        }
        Ok(())
    }

    /// How many events may wait.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// The events that wait.
    pub fn pending(&self) -> impl ExactSizeIterator<Item = &Delivery> {
        self.pending.iter()
    }

    /// The event that is being worked on.
    pub fn inflight(&self) -> Option<&Delivery> {
        self.inflight.as_ref()
    }

    /// Events that wait or are being worked on.
    pub fn len(&self) -> usize {
        self.pending.len() + usize::from(self.inflight.is_some())
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds an event; false when there is no room.
    pub fn push(&mut self, payload: Json, now: &str) -> bool {
        if self.pending.len() as u64 >= self.capacity {
            return false;
        }
        let event = Delivery { seq: self.next_seq, enqueued_at: now.to_owned(), payload };
        self.next_seq += 1;
        self.pending.push_back(event);
        true
    }

    /// Hands out the next event, unless one is being worked on.
    pub fn take(&mut self) -> bool {
        if self.inflight.is_some() || self.pending.is_empty() {
            return false;
        }
        self.inflight = self.pending.pop_front();
        true
    }

    /// The turn of the event was completed.
    pub fn complete(&mut self) -> Option<u64> {
        self.inflight.take().map(|event| event.seq)
    }

    /// The turn of the event was not completed: it is the next one again.
    pub fn put_back(&mut self) -> bool {
        match self.inflight.take() {
            Some(event) => {
                self.pending.push_front(event);
                true
            }
            None => false,
        }
    }

    /// Forgets what a snapshot says was completed, and puts back what was not. `last` is the newest event that was.
    pub fn settle(&mut self, last: u64) {
        if self.inflight.as_ref().is_some_and(|event| event.seq <= last) {
            self.inflight = None;
        }
        self.put_back();
        self.pending.retain(|event| event.seq > last);
        self.next_seq = self.next_seq.max(last + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use harn_value::json;
    use proptest::prelude::*;

    #[test]
    fn one_at_a_time_and_in_order() {
        let mut queue = Queue::new(2);
        assert!(queue.push(json!("a"), "t") && queue.take());
        assert!(queue.push(json!({"b": 1}), "t") && queue.push(json!("c"), "t"));
        assert!(!queue.push(json!("d"), "t"), "two wait");
        assert!(!queue.take(), "one is being worked on");
        assert_eq!((queue.len(), queue.pending().len()), (3, 2));
        assert_eq!(queue.complete(), Some(1));
        assert!(queue.take());
        assert_eq!(queue.inflight().unwrap().message(), "{\"b\":1}");
        assert!(queue.put_back());
        assert_eq!(queue.pending().map(|event| event.seq).collect::<Vec<_>>(), [2, 3]);
        queue.settle(2);
        assert_eq!(queue.pending().map(|event| event.seq).collect::<Vec<_>>(), [3]);
    }

    #[test]
    fn a_queue_that_was_tampered_with_is_refused() {
        let mut queue = Queue::new(2);
        assert!(queue.push(json!("a"), "t") && queue.push(json!("b"), "t") && queue.take());
        assert_eq!(queue.check(), Ok(()));
        let twice = Queue { inflight: queue.pending.front().cloned(), ..queue.clone() };
        assert!(twice.check().is_err(), "one event is there twice");
        assert!(Queue { next_seq: 2, ..queue.clone() }.check().is_err(), "a number would be given twice");
        assert!(Queue { capacity: 0, ..queue }.check().is_err());
    }

    /// What can happen to a daemon.
    #[derive(Debug, Clone)]
    enum Happening {
        Trigger,
        Take,
        /// The snapshot is written, and the queue after it.
        Complete,
        /// As `Complete`, but the process dies between the two.
        CompleteAndDie,
        /// The process dies.
        Die,
        Stop,
    }

    fn happenings() -> impl Strategy<Value = Vec<Happening>> {
        use Happening::*;
        let one = prop_oneof![
            3 => Just(Trigger), 3 => Just(Take), 2 => Just(Complete), 1 => Just(CompleteAndDie), 1 => Just(Die),
            1 => Just(Stop)
        ];
        prop::collection::vec(one, 0..200)
    }

    proptest! {
        /// What was acknowledged is completed once, in order, whatever happens.
        #[test]
        fn every_event_is_completed_once(happenings in happenings()) {
            let mut queue = Queue::new(1000);
            // What is on disk: the queue, and the newest event of the snapshot.
            let (mut disk, mut snapshot) = (queue.clone(), 0);
            let (mut acknowledged, mut completed) = (0, Vec::new());
            for happening in happenings {
                match happening {
                    Happening::Trigger => {
                        prop_assert!(queue.push(json!(acknowledged), "t"));
                        disk = queue.clone();
                        acknowledged += 1;
                    }
                    Happening::Take => {
                        queue.take();
                        disk = queue.clone();
                    }
                    Happening::Complete | Happening::CompleteAndDie => {
                        if let Some(event) = queue.inflight().cloned() {
                            completed.push(event.seq);
                            snapshot = event.seq;
                            queue.complete();
                        }
                        if matches!(happening, Happening::Complete) {
                            disk = queue.clone();
                        } else {
                            queue = harn_value::Data::of(&disk).unwrap().read().unwrap();
                            queue.settle(snapshot);
                        }
                    }
                    Happening::Die => {
                        queue = disk.clone();
                        queue.settle(snapshot);
                    }
                    Happening::Stop => {
                        queue.put_back();
                        disk = queue.clone();
                    }
                }
            }
            loop {
                queue.take();
                let Some(event) = queue.inflight().cloned() else { break };
                completed.push(event.seq);
                queue.complete();
            }
            prop_assert_eq!(completed, (1..=acknowledged).collect::<Vec<u64>>());
        }
    }
}
