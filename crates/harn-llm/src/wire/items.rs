//! What a wire format has written of a conversation, so that a turn writes only what is new.
//!
//! Formats either write each message for itself or make one turn of consecutive messages of a role. Both are *units*: a
//! run of messages that becomes a piece of JSON text. A unit is kept once no later message can become part of it.

use std::rc::Rc;

use bytes::Bytes;

use super::out::Items;
use super::written::{Key, Written};
use crate::conversation::Conversation;
use crate::error::CallError;
use crate::message::{ContentBlock, Message, Role};

/// How messages become units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Units {
    /// Each message is one.
    Messages,
    /// Consecutive messages of the user or of the model are one; messages of the system are none.
    Turns,
}

/// Writes the items of a unit.
type WriteUnit<'a> = dyn Fn(&[Rc<Message>], &mut Items<'_>) -> Result<(), CallError> + 'a;

/// Writes a conversation as items of a JSON list, and `last`, which is written already, behind them. `write` writes the items
/// of a unit.
pub(super) fn items(
    conversation: &Conversation,
    key: Key,
    units: Units,
    last: Option<Vec<u8>>,
    write: &WriteUnit<'_>,
) -> Result<Vec<Bytes>, CallError> {
    if let Some(base) = conversation.take_base() {
        // Others go on from the same messages.
        items(&base, key, units, None, write)?;
        let begun = base.written(|kept| (kept.key == key).then(|| kept.up_to(base.len())));
        if let Some(begun) = begun {
            conversation.written(|kept| {
                if kept.is_empty() {
                    *kept = begun;
                }
            });
        }
    }
    conversation.written(|kept| {
        if kept.key != key {
            *kept = Written { key, turns: units == Units::Turns, ..Written::default() };
        }
        conversation.with(|messages| {
            // Another holder of the list may have gone further.
            let mut shorter;
            let own = if kept.done > messages.len() {
                shorter = kept.up_to(messages.len());
                &mut shorter
            } else {
                kept
            };
            let mut at = own.done;
            let mut open = Vec::new();
            while at < messages.len() {
                let end = unit_end(messages, at, units);
                let unit = &messages[at..end];
                if units == Units::Turns && end == messages.len() {
                    write(unit, &mut Items::new(&mut open))?;
                } else {
                    own.add(end, |items| write(unit, items))?;
                }
                at = end;
            }
            if let Some(last) = last {
                let any = !open.is_empty();
                Items::behind(&mut open, any).written(&last);
            }
            let mut out = own.pieces();
            if !open.is_empty() {
                if !out.is_empty() {
                    out.push(Bytes::from_static(b","));
                }
                out.push(Bytes::from(open));
            }
            Ok(out)
        })
    })
}

/// Where the unit that begins at a place ends.
fn unit_end(messages: &[Rc<Message>], at: usize, units: Units) -> usize {
    if units == Units::Messages {
        return at + 1;
    }
    let mut role = None;
    let other = messages[at..].iter().position(|message| match speaker(message) {
        None => false,
        Some(own) => *role.get_or_insert(own) != own,
    });
    other.map_or(messages.len(), |n| at + n)
}

/// Who takes a turn with a message: the user or the model, if it says anything. Thoughts alone are never sent: formats with turns
/// take them back only with the calls that they led to.
fn speaker(message: &Message) -> Option<Role> {
    match message.role {
        Role::System | Role::Developer => None,
        role => (!message.is_blank(false)).then_some(role),
    }
}

/// Whose turn it is.
pub(super) fn turn_role(turn: &[Rc<Message>]) -> Option<Role> {
    turn.iter().find_map(|message| speaker(message))
}

/// The blocks of a turn, each with the message that it stands in.
pub(super) fn turn_blocks(turn: &[Rc<Message>]) -> impl Iterator<Item = (&Message, &ContentBlock)> {
    let spoken = turn.iter().filter(|message| speaker(message).is_some());
    spoken.flat_map(|message| message.content.iter().map(|block| (&**message, block)))
}

/// The turns of a conversation: runs of messages of one role, for formats that look at them as a whole.
pub(super) fn turns<T>(conversation: &Conversation, mut each: impl FnMut(&[Rc<Message>]) -> T) -> Vec<T> {
    conversation.with(|messages| {
        let (mut at, mut out) = (0, Vec::new());
        while at < messages.len() {
            let end = unit_end(messages, at, Units::Turns);
            out.push(each(&messages[at..end]));
            at = end;
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use harn_value::{Data as Value, json};
    use proptest::prelude::*;
    use std::cell::Cell;

    /// Writes a unit as the list of its dicts.
    fn whole(unit: &[Rc<Message>], out: &mut Items<'_>) -> Result<(), CallError> {
        out.value(&Value::from(unit.iter().map(|m| m.to_json()).collect::<Vec<_>>()));
        Ok(())
    }

    fn written(conversation: &Conversation, units: Units, count: &Cell<usize>) -> Value {
        let write = |unit: &[Rc<Message>], out: &mut Items<'_>| {
            count.set(count.get() + unit.len());
            whole(unit, out)
        };
        let bytes = items(conversation, 1, units, Some(b"\"end\"".to_vec()), &write).unwrap().concat();
        serde_json::from_str(&format!("[{}]", String::from_utf8(bytes).unwrap())).unwrap()
    }

    #[test]
    fn a_turn_writes_only_what_is_new() {
        let mut talk = Conversation::new();
        let count = Cell::new(0);
        for n in 0..400 {
            let role = if n % 2 == 0 { "user" } else { "assistant" };
            talk.push_json(json!({"role": role, "content": format!("{n} {}", "x".repeat(300))})).unwrap();
            written(&talk, Units::Messages, &count);
        }
        assert_eq!(count.get(), 400);
        count.set(0);
        let fork = {
            let mut fork = talk.clone();
            fork.truncate(399);
            fork.push_json(json!({"role": "user", "content": "other"})).unwrap();
            fork
        };
        written(&fork, Units::Messages, &count);
        assert!(count.get() < 150, "a fork keeps the pieces in front: {}", count.get());
    }

    #[test]
    fn forks_that_wait_share_what_is_written_of_their_base() {
        let base =
            Conversation::from_json(&[json!({"role": "user", "content": "x".repeat(20_000)})]).unwrap();
        let fork = |text: &str| {
            let mut fork = base.clone();
            fork.push_json(json!({"role": "user", "content": text})).unwrap();
            fork
        };
        let forks = [fork("1"), fork("2"), fork("3")];
        let count = Cell::new(0);
        for fork in &forks {
            written(fork, Units::Messages, &count);
        }
        assert_eq!(count.get(), 4, "the base once, and what each added");
    }

    proptest! {
        /// Whatever was written before, by whom and of how much: the text is that of a conversation written afresh.
        #[test]
        fn the_cache_changes_nothing(steps in proptest::collection::vec((0..4u8, 0..3usize, 0..20_000usize), 1..30)) {
            let mut all = vec![Conversation::new()];
            for (what, which, size) in steps {
                let at = which % all.len();
                match what {
                    0 => all.push(all[at].clone()),
                    1 => {
                        let len = all[at].len();
                        all[at].truncate(len.saturating_sub(1 + size % 3));
                    }
                    _ => {
                        let role = ["user", "assistant", "system"][size % 3];
                        all[at].push_json(json!({"role": role, "content": "y".repeat(size)})).unwrap();
                    }
                }
                for (n, talk) in all.iter().enumerate() {
                    let units = if n % 2 == 0 { Units::Messages } else { Units::Turns };
                    let fresh = Conversation::from_json(&talk.to_json()).unwrap();
                    // The key stands for the way of writing, too.
                    let key = Key::from(n % 2 == 0);
                    let text = |c: &Conversation| items(c, key, units, None, &whole).unwrap().concat();
                    prop_assert!(text(talk) == text(&fresh));
                }
            }
        }
    }
}
