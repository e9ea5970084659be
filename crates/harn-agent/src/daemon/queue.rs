//! The events of a daemon: a persistent queue.

use std::collections::VecDeque;

use harn_value::Data as Json;
use serde::{Deserialize, Serialize};

/// An event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Delivery {
    /// Its sequence number, from 1.
    pub seq: u64,
    /// Time of arrival, RFC 3339.
    pub enqueued_at: String,
    /// Its content.
    pub payload: Json,
}

impl Delivery {
    /// Returns the message that the daemon receives: a string unchanged, any other value as JSON.
    pub fn message(&self) -> String {
        match &self.payload {
            Json::String(text) => text.clone(),
            other => other.to_string(),
        }
    }
}

/// Events in order of arrival; at most one of them is in flight.
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
    /// Creates an empty queue.
    pub fn new(capacity: u64) -> Queue {
        Queue { capacity, next_seq: 1, pending: VecDeque::new(), inflight: None }
    }

    /// Validates a queue that was read from storage.
    ///
    /// # Errors
    /// The events are not in order, or their numbers have not been assigned yet.
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

    /// Returns the maximum number of pending events.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Returns the pending events.
    pub fn pending(&self) -> impl ExactSizeIterator<Item = &Delivery> {
        self.pending.iter()
    }

    /// Returns the event that is in flight.
    pub fn inflight(&self) -> Option<&Delivery> {
        self.inflight.as_ref()
    }

    /// Returns the number of events that are pending or in flight.
    pub fn len(&self) -> usize {
        self.pending.len() + usize::from(self.inflight.is_some())
    }

    /// Returns whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds an event; returns false if the queue is full.
    pub fn push(&mut self, payload: Json, now: &str) -> bool {
        if self.pending.len() as u64 >= self.capacity {
            return false;
        }
        let event = Delivery { seq: self.next_seq, enqueued_at: now.to_owned(), payload };
        self.next_seq += 1;
        self.pending.push_back(event);
        true
    }

    /// Marks the next event as in flight, unless one already is.
    pub fn take(&mut self) -> bool {
        if self.inflight.is_some() || self.pending.is_empty() {
            return false;
        }
        self.inflight = self.pending.pop_front();
        true
    }

    /// Removes the event in flight after its turn was completed, and returns its number.
    pub fn complete(&mut self) -> Option<u64> {
        self.inflight.take().map(|event| event.seq)
    }

    /// Makes the event in flight the next pending one again, because its turn was not completed.
    pub fn put_back(&mut self) -> bool {
        match self.inflight.take() {
            Some(event) => {
                self.pending.push_front(event);
                true
            }
            None => false,
        }
    }

    /// Reconciles the queue with a snapshot whose newest completed event is `last`: drops completed events and makes
    /// the event in flight pending again.
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

    /// Possible operations on a daemon, and crashes.
    #[derive(Debug, Clone)]
    enum Happening {
        Trigger,
        Take,
        /// The snapshot is written, then the queue.
        Complete,
        /// Same as `Complete`, but the process dies between the two writes.
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
        /// Every acknowledged event is completed once, in order, whatever happens.
        #[test]
        fn every_event_is_completed_once(happenings in happenings()) {
            let mut queue = Queue::new(1000);
            // The state on disk: the queue, and the newest event in the snapshot.
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
