//! The saved form of a state: messages that occur in both message lists are written once.

use std::rc::Rc;

use harn_llm::Conversation;
use harn_value::Data as Json;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::state::State;

/// The model's view, stored as the difference from all messages.
#[derive(Serialize, Deserialize)]
struct View {
    /// Number of messages at the beginning that both have in common.
    first: usize,
    /// Messages that replace archived ones.
    own: Vec<Json>,
    /// Number of messages at the end that both have in common.
    last: usize,
}

impl View {
    fn of(seen: &Conversation, all: &Conversation) -> View {
        let same = |(a, b): &(Rc<_>, Rc<_>)| Rc::ptr_eq(a, b) || a == b;
        let first = seen.iter().zip(all.iter()).take_while(same).count();
        let rest = seen.len().min(all.len()) - first;
        let last = seen.iter().rev().zip(all.iter().rev()).take(rest).take_while(same).count();
        View { first, own: seen.to_json_to(seen.len() - last).split_off(first), last }
    }

    fn read(&self, all: &Conversation) -> Result<Conversation, String> {
        let wrong = || "the messages that the model sees do not belong to those that were said".to_owned(); // prose-ok: diagnostic
        let behind = all.len().checked_sub(self.last).filter(|at| self.first <= *at).ok_or_else(wrong)?;
        let mut seen = Conversation::new();
        all.iter().take(self.first).for_each(|message| seen.push(message));
        for message in &self.own {
            seen.push_json(message.clone()).map_err(|error| error.0)?;
        }
        all.iter().skip(behind).for_each(|message| seen.push(message));
        Ok(seen)
    }
}

pub(super) fn serialize<S: Serializer>(state: &State, to: S) -> Result<S::Ok, S::Error> {
    let view = state.seen.as_ref().map(|seen| View::of(seen, &state.messages));
    (state, view).serialize(to)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<State, D::Error> {
    let (mut state, view) = <(State, Option<View>)>::deserialize(from)?;
    state.seen = view.map(|view| view.read(&state.messages)).transpose().map_err(D::Error::custom)?;
    Ok(state)
}
