//! A conversation: an append-only list of messages that are parsed once and shared between clones.
//!
//! A clone increments two reference counters. Clones share one list and each stores how much of it is its own, so a
//! request, a recorded call and the running loop all point to the same messages. Appending to a clone that ends at the
//! end of the list extends the list; appending to a shorter clone creates a new list (of pointers, not of messages).
//!
//! The list also caches its serialization per wire format (see [`crate::wire`]), so that a turn serializes only the new
//! messages.

use std::cell::RefCell;
use std::rc::{Rc, Weak};

use harn_value::json::from_data;
use harn_value::{Data as Value, List, Ref};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::OptionError;
use crate::message::{Message, Role, read};
use crate::transcript::{Ids, message_event};
use crate::wire::written::Written;

/// An append-only list of messages; see the module docs.
#[derive(Clone, Default)]
pub struct Conversation {
    shared: Rc<Shared>,
    len: usize,
    sums: Sums,
}

/// Aggregates that every call needs, updated incrementally so that no call has to scan the messages.
#[derive(Clone, Copy, Default)]
struct Sums {
    tokens: i64,
    /// The number of non-empty strings, and their bytes.
    strings: (usize, usize),
    images: bool,
    /// The number of system messages.
    instructions: usize,
    /// The index of the last message with user content.
    last_user: Option<usize>,
}

impl Sums {
    fn add(&mut self, at: usize, message: &Message) {
        self.tokens = self.tokens.saturating_add(message.tokens());
        let (strings, bytes) = message.strings();
        self.strings = (self.strings.0 + strings, self.strings.1 + bytes);
        self.images |= message.has_image();
        self.instructions += usize::from(matches!(message.role, Role::System | Role::Developer));
        if message.is_from_user() {
            self.last_user = Some(at);
        }
    }
}

#[derive(Default)]
struct Shared {
    messages: RefCell<Vec<Rc<Message>>>,
    written: RefCell<Written>,
    /// The part of the list that was converted to program values.
    shown: RefCell<Shown>,
    /// The list that this one was forked from, and the number of shared messages. Set when nothing had been serialized
    /// at the fork: serializing the base later also serves this list.
    base: RefCell<Option<(Rc<Shared>, usize)>>,
}

/// The first messages of a list, and their events, as program values. A turn that returns a transcript appends the new
/// ones. The items (references) are copied only if the program still holds the values of the previous turn.
struct Shown {
    messages: Ref<List>,
    events: Ref<List>,
}

impl Default for Shown {
    fn default() -> Shown {
        Shown { messages: Ref::new(List::new()), events: Ref::new(List::new()) }
    }
}

/// A weak reference to a conversation.
pub struct WeakConversation(Weak<Shared>);

/// The minimum bytes of strings for which searching an equal conversation pays off, and the maximum number of
/// candidates.
const WORTH_SHARING: (usize, usize) = (4 << 10, 64);

impl Conversation {
    /// Creates an empty conversation.
    pub fn new() -> Conversation {
        Conversation::default()
    }

    /// Parses message dicts of any supported shape; skips elements that are not dicts.
    ///
    /// # Errors
    /// An image has no source or type.
    pub fn from_json<'a>(messages: impl IntoIterator<Item = &'a Value>) -> Result<Conversation, OptionError> {
        let mut out = Conversation::new();
        messages.into_iter().filter(|m| m.is_object()).try_for_each(|m| out.push_json(m.clone()))?;
        Ok(out)
    }

    /// Returns the number of messages.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the conversation is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the message at an index.
    pub fn get(&self, at: usize) -> Option<Rc<Message>> {
        if at < self.len { self.shared.messages.borrow().get(at).cloned() } else { None }
    }

    /// Returns the last message.
    pub fn last(&self) -> Option<Rc<Message>> {
        self.get(self.len.checked_sub(1)?)
    }

    /// Returns the messages in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Rc<Message>> + ExactSizeIterator + '_ {
        (0..self.len).map(|at| self.shared.messages.borrow()[at].clone())
    }

    /// Passes the messages to `work`, which must not append to the conversation.
    pub fn with<T>(&self, work: impl FnOnce(&[Rc<Message>]) -> T) -> T {
        work(&self.shared.messages.borrow()[..self.len])
    }

    /// Appends a message.
    pub fn push(&mut self, message: Rc<Message>) {
        if self.shared.messages.borrow().len() != self.len {
            self.shared = Rc::new(self.with(|own| Shared {
                messages: RefCell::new(own.to_vec()),
                written: RefCell::new(self.shared.written.borrow().up_to(self.len)),
                shown: RefCell::default(),
                base: RefCell::new(self.base_of_fork()),
            }));
        }
        self.sums.add(self.len, &message);
        self.shared.messages.borrow_mut().push(message);
        self.len += 1;
    }

    /// Returns the base of a list that is forked here. A base has no base itself, so that no chains arise.
    fn base_of_fork(&self) -> Option<(Rc<Shared>, usize)> {
        if !self.shared.written.borrow().is_empty() {
            return None;
        }
        match &*self.shared.base.borrow() {
            None => Some((self.shared.clone(), self.len)),
            Some((base, len)) => (*len <= self.len).then(|| (base.clone(), *len)),
        }
    }

    /// Takes the conversation whose serialization this one can begin with.
    pub(crate) fn take_base(&self) -> Option<Conversation> {
        let (shared, len) = self.shared.base.take()?;
        Some(Conversation { shared, len, sums: Sums::default() })
    }

    /// Replaces this conversation with an equal one from `known`, or adds it to `known`. Loops that begin with the same
    /// long history then store it and its serialization once.
    pub fn share(&mut self, known: &mut Vec<WeakConversation>) {
        known.retain(|other| other.0.strong_count() > 0);
        let (least, most) = WORTH_SHARING;
        if self.sums.strings.1 < least {
            return;
        }
        let others = known.iter().rev().take(most).filter_map(|other| other.0.upgrade());
        for shared in others {
            let long = shared.messages.borrow().len() >= self.len;
            let other = Conversation { shared, len: self.len, sums: self.sums };
            if long && self.is_prefix_of(&other) {
                *self = other;
                return;
            }
        }
        known.push(WeakConversation(Rc::downgrade(&self.shared)));
    }

    /// Parses a message dict in the context of the messages before it, and appends it.
    ///
    /// # Errors
    /// An image has no source or type.
    pub fn push_json(&mut self, message: Value) -> Result<(), OptionError> {
        let message = self.with(|earlier| read(message, earlier))?;
        self.push(Rc::new(message));
        Ok(())
    }

    /// Parses message dicts, most of which come from this conversation. Equal messages at the beginning are shared,
    /// with their serialization.
    ///
    /// # Errors
    /// An image has no source or type.
    pub fn with_same(&self, messages: &[Value]) -> Result<Conversation, OptionError> {
        let mut out = self.clone();
        let own = |n: usize| self.get(n).is_some_and(|m| messages.get(n).is_some_and(|dict| m.is_dict(dict)));
        let same = (0..self.len.min(messages.len())).take_while(|n| own(*n)).count();
        out.truncate(same);
        messages[same..].iter().filter(|m| m.is_object()).try_for_each(|m| out.push_json(m.clone()))?;
        Ok(out)
    }

    /// Removes all messages except the first `len`; other clones are unaffected.
    pub fn truncate(&mut self, len: usize) {
        if len < self.len {
            self.len = len;
            let mut sums = Sums::default();
            self.with(|own| own.iter().enumerate().for_each(|(at, message)| sums.add(at, message)));
            self.sums = sums;
        }
    }

    /// Returns the newest `keep` messages, without leading tool results whose call was cut off.
    pub fn newest(&self, keep: usize) -> Conversation {
        let cut = self.len.saturating_sub(keep);
        let is_orphan = |message: &Rc<Message>| {
            cut > 0 && matches!(message.to_json()["role"].as_str(), Some("tool" | "tool_result"))
        };
        let mut newest = Conversation::new();
        self.iter().skip(cut).skip_while(is_orphan).for_each(|message| newest.push(message));
        newest
    }

    /// Returns whether a message contains an image.
    pub(crate) fn has_image(&self) -> bool {
        self.sums.images
    }

    /// Returns the names of the tools that the model called, without duplicates.
    pub(crate) fn called_tools(&self) -> Vec<String> {
        self.with(|messages| {
            let names: std::collections::BTreeSet<&str> =
                messages.iter().flat_map(|m| m.tool_calls()).map(|call| call.name.as_str()).collect();
            names.into_iter().map(str::to_owned).collect()
        })
    }

    /// Returns whether there are system messages.
    pub(crate) fn has_instructions(&self) -> bool {
        self.sums.instructions > 0
    }

    /// Returns the index of the last message with user content.
    pub(crate) fn last_user(&self) -> Option<usize> {
        self.sums.last_user
    }

    /// Returns the number of non-empty strings in the dicts, and their bytes.
    pub(crate) fn strings(&self) -> (usize, usize) {
        self.sums.strings
    }

    /// Returns the messages as dicts, as used in transcripts, callbacks and logs.
    pub fn to_json(&self) -> Vec<Value> {
        self.to_json_from(0)
    }

    /// Returns the dicts of the first `end` messages.
    pub fn to_json_to(&self, end: usize) -> Vec<Value> {
        self.iter().take(end).map(|message| message.to_json()).collect()
    }

    /// Returns the dicts of the messages from index `start`.
    pub fn to_json_from(&self, start: usize) -> Vec<Value> {
        self.with(|own| own.get(start..).unwrap_or_default().iter().map(|m| m.to_json()).collect())
    }

    /// Returns the messages and their events, followed by `more` events, as lists of dicts.
    pub fn shown(&self, more: &[Value], ids: &Ids<'_>) -> (harn_value::Value, harn_value::Value) {
        let mut fresh = Shown::default();
        let mut kept = self.shared.shown.borrow_mut();
        // A clone that is shorter than the list shows only its part.
        let shown = if kept.messages.len() > self.len { &mut fresh } else { &mut *kept };
        let known = shown.messages.len();
        let (messages, events) = (shown.messages.make_mut(), shown.events.make_mut());
        events.truncate(known);
        for message in self.iter().skip(known) {
            let message = message.to_json();
            messages.push(from_data(&message));
            events.push(from_data(&message_event(&message, ids)));
        }
        more.iter().for_each(|event| events.push(from_data(event)));
        (shown.messages.clone().into(), shown.events.clone().into())
    }

    /// Estimates the tokens of the messages from index `start`.
    pub fn tokens_from(&self, start: usize) -> i64 {
        if start == 0 {
            return self.sums.tokens;
        }
        self.with(|own| own.get(start..).unwrap_or_default().iter().map(|m| m.tokens()).sum())
    }

    /// Passes the serialization cache of the shared list to `work`.
    pub(crate) fn written<T>(&self, work: impl FnOnce(&mut Written) -> T) -> T {
        work(&mut self.shared.written.borrow_mut())
    }

    /// Returns whether `other` begins with these messages.
    pub fn is_prefix_of(&self, other: &Conversation) -> bool {
        self.len <= other.len
            && (Rc::ptr_eq(&self.shared, &other.shared)
                || self.with(|own| other.with(|all| own.iter().zip(all).all(|(a, b)| same(a, b)))))
    }
}

fn same(a: &Rc<Message>, b: &Rc<Message>) -> bool {
    Rc::ptr_eq(a, b) || a == b
}

impl PartialEq for Conversation {
    fn eq(&self, other: &Conversation) -> bool {
        self.len == other.len && self.is_prefix_of(other)
    }
}

impl std::fmt::Debug for Conversation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.with(|own| f.debug_list().entries(own).finish())
    }
}

/// Serializes as the list of message dicts.
impl Serialize for Conversation {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.iter().map(|message| message.to_json()))
    }
}

impl<'de> Deserialize<'de> for Conversation {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Conversation, D::Error> {
        let list = Vec::<Value>::deserialize(from)?;
        Conversation::from_json(&list).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use harn_value::json;

    fn user(text: &str) -> Value {
        json!({"role": "user", "content": text})
    }

    #[test]
    fn clones_share_messages_and_part_when_they_differ() {
        let mut a = Conversation::from_json(&[user("1"), user("2")]).unwrap();
        let early = a.clone();
        a.push_json(user("3")).unwrap();
        assert_eq!((a.len(), early.len()), (3, 2));
        assert!(early.is_prefix_of(&a) && !a.is_prefix_of(&early));
        let mut b = early.clone();
        b.push_json(user("other")).unwrap();
        assert_eq!(a.to_json()[2], user("3"));
        assert_eq!(b.to_json()[2], user("other"));
        assert!(Rc::ptr_eq(&a.get(0).unwrap(), &b.get(0).unwrap()));
        b.truncate(1);
        assert_eq!((b.to_json(), early.to_json().len()), (vec![user("1")], 2));
        assert_eq!((b.tokens_from(0), b.last_user()), (b.get(0).unwrap().tokens(), Some(0)));
        assert_eq!(a.tokens_from(0), a.tokens_from(1) + a.get(0).unwrap().tokens());
    }

    #[test]
    fn equal_histories_are_held_once() {
        let long = |first: &str| [user(first), user(&"x".repeat(5000))];
        let mut known = Vec::new();
        let mut shared = |first: &str| {
            let mut talk = Conversation::from_json(&long(first)).unwrap();
            talk.share(&mut known);
            talk
        };
        let (mut a, mut b, c) = (shared("1"), shared("1"), shared("2"));
        assert!(Rc::ptr_eq(&a.shared, &b.shared) && !Rc::ptr_eq(&a.shared, &c.shared));
        a.push_json(user("a")).unwrap();
        b.push_json(user("b")).unwrap();
        assert_eq!((a.to_json()[2].clone(), b.to_json()[2].clone()), (user("a"), user("b")));
        assert!(Rc::ptr_eq(&a.get(1).unwrap(), &b.get(1).unwrap()));
        let late = shared("1");
        assert_eq!((late.len(), late.tokens_from(0)), (2, a.tokens_from(0) - a.get(2).unwrap().tokens()));
        drop((a, b, c, late));
        shared("3");
        assert_eq!(known.len(), 1, "what nobody holds is forgotten");
    }

    #[test]
    fn it_is_saved_as_its_dicts() {
        let dicts = [user("1"), json!({"role": "assistant", "content": "x", "mine": {"kept": true}})];
        let a = Conversation::from_json(&dicts).unwrap();
        let text = serde_json::to_string(&a).unwrap();
        assert_eq!(text, serde_json::to_string(&dicts).unwrap());
        assert_eq!(serde_json::from_str::<Conversation>(&text).unwrap(), a);
    }

    #[test]
    fn a_list_of_many_turns_is_built_in_place() {
        let mut a = Conversation::new();
        let mut held = Vec::new();
        for n in 0..1000 {
            a.push_json(user(&n.to_string())).unwrap();
            held.push(a.clone());
        }
        assert!(held.iter().all(|h| Rc::ptr_eq(&h.shared, &a.shared)));
    }
}
