//! Reminders of a program: pending reminders of sessions, and the providers that create them in loops.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use harn_prompt::reminder::providers::{BUILT_IN, BuiltIn, Selection, check_events, select};
use harn_prompt::reminder::transcript::{LIFECYCLE_TOPIC, Lifecycle, inherited};
use harn_prompt::reminder::{Reminder, ReminderError, clear, compact, inject, pending, transcript_of};
use harn_stdlib::event_log::EventLog;
use harn_value::Data as Json;
use harn_value::{Dict, Value};
use harn_vm::Vm;
use harn_vm::closure::is_callable;

use crate::convert::{entry, from_json};

/// The state that persists between loops.
#[derive(Default)]
pub(crate) struct Reminders {
    /// By session: a transcript that contains only reminders.
    sessions: RefCell<BTreeMap<String, Json>>,
    providers: RefCell<Vec<Provider>>,
}

/// A reminder provider that the program registered.
#[derive(Clone)]
pub(crate) struct Provider {
    id: String,
    subscribes_to: Vec<String>,
    evaluate: Value,
}

/// Returns the first entry that `register_reminder_provider` does not know.
fn strange<'k>(mut names: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    names.find(|key| !["id", "subscribes_to", "evaluate"].contains(key))
}

/// Returns the error of `register_reminder_provider` about unknown entries.
pub(crate) fn unknown_entry<'k>(names: impl Iterator<Item = &'k str>) -> Option<String> {
    strange(names).map(|key| ReminderError::unknown_option(Provider::FUNCTION, key).to_string())
}

impl Provider {
    const FUNCTION: &str = "register_reminder_provider";

    /// Reads `{id, subscribes_to, evaluate}`.
    ///
    /// # Errors
    /// An entry is unknown or has a wrong shape.
    pub(crate) fn parse(spec: &Value) -> Result<Provider, ReminderError> {
        let wrong = |field: &str, expected| ReminderError::option(Self::FUNCTION, field, expected);
        let dict = spec.to_dict().ok_or_else(|| wrong("provider", "a dict"))?;
        if let Some(key) = strange(dict.keys().map(|key| key.as_str())) {
            return Err(ReminderError::unknown_option(Self::FUNCTION, key));
        }
        let id = entry(spec, "id").as_str().map(ToString::to_string).filter(|id| !id.trim().is_empty());
        let id = id.ok_or_else(|| wrong("id", "a non-blank string"))?;
        if BuiltIn::named(&id).is_some() {
            return Err(wrong("id", "none of a built-in provider"));
        }
        let events = entry(spec, "subscribes_to");
        let events = events.as_list().filter(|events| !events.is_empty()).and_then(|events| {
            events.iter().map(|event| event.as_str().map(ToString::to_string)).collect::<Option<Vec<_>>>()
        });
        let subscribes_to =
            events.ok_or_else(|| wrong("subscribes_to", "a non-empty list of event names"))?;
        check_events(&subscribes_to)?;
        let evaluate = entry(spec, "evaluate");
        if !is_callable(&evaluate) {
            return Err(wrong("evaluate", "a closure"));
        }
        Ok(Provider { id, subscribes_to, evaluate })
    }
}

impl Reminders {
    /// Adds a provider and replaces one with the same id.
    pub(crate) fn register(&self, provider: Provider) {
        let mut providers = self.providers.borrow_mut();
        providers.retain(|known| known.id != provider.id);
        providers.push(provider);
    }

    /// Removes the providers of the program.
    pub(crate) fn clear_providers(&self) {
        self.providers.borrow_mut().clear();
    }

    /// Reads the loop option `reminders`: the active providers, and the events that they subscribe to.
    pub(crate) fn select(&self, option: &Json) -> Result<(Selection, BTreeSet<String>), ReminderError> {
        let own = self.providers.borrow();
        let ids: Vec<String> = own.iter().map(|provider| provider.id.clone()).collect();
        let selection = select(option, &ids)?;
        let enabled = |id: &str| selection.enabled.iter().any(|enabled| enabled == id);
        let built_in = BUILT_IN.iter().filter(|p| enabled(p.id)).flat_map(|p| p.subscribes_to);
        let mut events: BTreeSet<String> = built_in.map(|&event| event.to_owned()).collect();
        events.extend(own.iter().filter(|p| enabled(&p.id)).flat_map(|p| p.subscribes_to.clone()));
        Ok((selection, events))
    }

    /// Returns the closure of a provider of the program if it subscribes to an event.
    pub(crate) fn evaluator(&self, id: &str, event: &str) -> Option<Value> {
        let own = self.providers.borrow();
        let provider = own.iter().find(|provider| provider.id == id)?;
        provider.subscribes_to.iter().any(|name| name == event).then(|| provider.evaluate.clone())
    }

    /// Swaps the reminders of a session with others.
    pub(crate) fn exchange(&self, session: &str, with: &mut Json) {
        self.with(session, |reminders| std::mem::swap(reminders, with));
    }

    /// Adds reminders that a session does not have yet.
    pub(crate) fn adopt(&self, vm: &Vm, session: &str, list: &[Reminder]) {
        let known: BTreeSet<String> = self.pending(session).into_iter().map(|r| r.id).collect();
        list.iter().filter(|reminder| !known.contains(&reminder.id)).for_each(|r| self.add(vm, session, r));
    }

    /// Copies the reminders that a parent session passes on to the session of a sub-agent.
    pub(crate) fn hand_down(&self, vm: &Vm, parent: &str, child: &str) {
        let known: BTreeSet<String> = self.pending(child).into_iter().map(|r| r.id).collect();
        for copy in inherited(&self.pending(parent), parent).iter().filter(|copy| !known.contains(&copy.id)) {
            self.add(vm, child, copy);
            tell(vm, Some(child), Lifecycle::of("inherited", &copy.id).to_json());
        }
    }

    /// Adds a reminder to a session.
    pub(crate) fn add(&self, vm: &Vm, session: &str, reminder: &Reminder) {
        let lifecycle = self.with(session, |reminders| {
            let injected = inject(reminders, reminder);
            *reminders = injected.transcript;
            injected.lifecycle
        });
        lifecycle.iter().for_each(|entry| tell(vm, Some(session), entry.to_json()));
    }

    /// Removes reminders from a session and returns how many.
    ///
    /// # Errors
    /// The selector is malformed.
    pub(crate) fn clear(&self, vm: &Vm, session: &str, selector: &Json) -> Result<usize, ReminderError> {
        let cleared =
            self.with(session, |reminders| clear("agent_session_clear_reminders", reminders, selector))?;
        cleared.lifecycle.iter().for_each(|entry| tell(vm, Some(session), entry.to_json()));
        self.with(session, |reminders| *reminders = cleared.transcript);
        Ok(cleared.removed_count)
    }

    /// Returns the pending reminders of a session, oldest first.
    pub(crate) fn pending(&self, session: &str) -> Vec<Reminder> {
        self.sessions.borrow().get(session).map(pending).unwrap_or_default()
    }

    /// Returns the reminders of a session that survive compaction.
    pub(crate) fn survivors(&self, session: &str) -> Vec<Reminder> {
        self.sessions.borrow().get(session).map(|list| compact(list).reminders).unwrap_or_default()
    }

    /// Applies compaction to the reminders of a session: only those marked to survive remain.
    pub(crate) fn compact(&self, vm: &Vm, session: &str) {
        let survivors = self.with(session, |reminders| compact(reminders));
        survivors.lifecycle.iter().for_each(|entry| tell(vm, Some(session), entry.to_json()));
        self.with(session, |reminders| *reminders = survivors.transcript);
    }

    /// Removes the reminders of a session.
    pub(crate) fn forget(&self, session: &str) {
        self.sessions.borrow_mut().remove(session);
    }

    fn with<T>(&self, session: &str, work: impl FnOnce(&mut Json) -> T) -> T {
        let mut sessions = self.sessions.borrow_mut();
        work(sessions.entry(session.to_owned()).or_insert_with(|| transcript_of(&[])))
    }
}

/// Adds a state change of a reminder to the event log: `{kind, ...}` becomes an event of that kind.
pub(crate) fn tell(vm: &Vm, session: Option<&str>, mut entry: Json) {
    let kind = entry["kind"].take();
    if let Some(fields) = entry.as_object_mut() {
        fields.shift_remove("kind");
        fields.insert("session_id".into(), session.into());
    }
    let (kind, payload) = (kind.as_str().unwrap_or_default(), from_json(&entry));
    // This cannot fail, because the name of the topic is valid.
    let _ = EventLog::of(vm).emit(LIFECYCLE_TOPIC, kind, payload, Dict::new(), vm.system().now_ms());
}
