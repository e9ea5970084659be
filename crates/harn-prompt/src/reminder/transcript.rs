//! The lifecycle of reminders in a transcript. All functions are pure: they return a new transcript.

use harn_value::{Data as Value, data::Map};

use super::{Origin, Propagate, Reminder, ReminderError, Source};
use crate::value::{flag, object, present, text};

/// The kind of a reminder's event.
pub(crate) const EVENT_KIND: &str = "system_reminder";

/// The event-log topic of [`Lifecycle`] entries.
pub const LIFECYCLE_TOPIC: &str = "transcript.reminder.lifecycle";

/// A lifecycle event of a reminder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lifecycle {
    /// `injected`, `fired`, `deduped`, `expired`, `dropped`, `inherited` or `provider_evaluated`.
    pub kind: &'static str,
    /// The reminder.
    pub reminder_id: String,
    /// Why it expired: `ttl`, `compaction` or `cleared`.
    pub reason: Option<&'static str>,
}

impl Lifecycle {
    /// Creates the lifecycle event `kind` of a reminder.
    #[must_use]
    pub fn of(kind: &'static str, reminder_id: &str) -> Self {
        Self { kind, reminder_id: reminder_id.to_owned(), reason: None }
    }

    fn expired(reminder_id: &str, reason: &'static str) -> Self {
        Self { reason: Some(reason), ..Self::of("expired", reminder_id) }
    }

    /// Returns `{kind, reminder_id, reason?}`, with the full name of the kind.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut entry = Map::new();
        entry.insert("kind".into(), format!("transcript.reminder.{}", self.kind).into());
        entry.insert("reminder_id".into(), self.reminder_id.clone().into());
        if let Some(reason) = self.reason {
            entry.insert("reason".into(), reason.into());
        }
        entry.into()
    }
}

/// Returns the transcript event of a reminder.
#[must_use]
pub fn reminder_event(reminder: &Reminder) -> Value {
    let block = object([
        ("type", "text".into()),
        ("text", reminder.body.clone().into()),
        ("visibility", "public".into()),
    ]);
    object([
        ("id", reminder.id.clone().into()),
        ("kind", EVENT_KIND.into()),
        ("role", "developer".into()),
        ("visibility", "public".into()),
        ("text", reminder.body.clone().into()),
        ("blocks", vec![block].into()),
        ("reminder", reminder.to_json()),
        ("metadata", reminder.to_json()),
    ])
}

/// Returns an event that only records a reminder and is never shown to a model.
#[must_use]
pub fn audit_event(reminder: &Reminder) -> Value {
    let mut event = reminder_event(reminder);
    if let Value::Object(map) = &mut event {
        map.insert("visibility".into(), "internal".into());
        map.insert("audit_only".into(), true.into());
    }
    event
}

/// Parses the reminder of an event; `None` for other events and audit-only ones.
fn of_event(event: &Value) -> Option<Reminder> {
    let map = event.as_object()?;
    if map.get("kind").and_then(Value::as_str) != Some(EVENT_KIND) || flag(map, "audit_only") {
        return None;
    }
    let record = present(map, "reminder").or_else(|| present(map, "metadata"))?;
    let mut reminder = Reminder::from_record(record)?;
    if reminder.id.is_empty() {
        reminder.id = text(map, "id").unwrap_or_default().to_owned();
    }
    Some(reminder)
}

/// Returns a transcript that contains only these reminders.
#[must_use]
pub fn transcript_of(reminders: &[Reminder]) -> Value {
    let events: Vec<Value> = reminders.iter().map(reminder_event).collect();
    object([
        ("_type", "transcript".into()),
        ("version", 2.into()),
        ("messages", Value::Array(Vec::new())),
        ("events", events.into()),
    ])
}

/// Returns the pending reminders of a transcript, oldest first.
#[must_use]
pub fn pending(transcript: &Value) -> Vec<Reminder> {
    let events = transcript.as_object().and_then(|t| t.get("events")?.as_array());
    events.into_iter().flatten().filter_map(of_event).collect()
}

/// Replaces every reminder of a transcript with the result of `change`, or removes it; other events are unchanged.
fn rewrite(transcript: &Value, mut change: impl FnMut(Reminder) -> Option<Reminder>) -> Value {
    let mut transcript = transcript.clone();
    if let Some(events) = transcript.get_mut("events").and_then(Value::as_array_mut) {
        let old = std::mem::take(events);
        events.extend(old.into_iter().filter_map(|event| match of_event(&event) {
            None => Some(event),
            Some(reminder) => match change(reminder.clone()) {
                Some(kept) if kept == reminder => Some(event),
                Some(kept) => Some(reminder_event(&kept)),
                None => None,
            },
        }));
    }
    transcript
}

/// The result of [`inject`].
#[derive(Clone, Debug, PartialEq)]
pub struct Injected {
    /// The new transcript.
    pub transcript: Value,
    /// The reminder's id.
    pub reminder_id: String,
    /// The number of pending reminders that it replaced.
    pub deduped_count: usize,
    /// The lifecycle events, in order.
    pub lifecycle: Vec<Lifecycle>,
}

impl Injected {
    /// Returns `{transcript, reminder_id, deduped_count}`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        object([
            ("transcript", self.transcript.clone()),
            ("reminder_id", self.reminder_id.clone().into()),
            ("deduped_count", self.deduped_count.into()),
        ])
    }
}

/// Adds a reminder to a transcript and removes pending ones with the same `dedupe_key`.
#[must_use]
pub fn inject(transcript: &Value, reminder: &Reminder) -> Injected {
    let mut lifecycle = Vec::new();
    let mut transcript = rewrite(transcript, |old| {
        if reminder.dedupe_key.is_some() && old.dedupe_key == reminder.dedupe_key {
            lifecycle.push(Lifecycle::of("deduped", &old.id));
            return None;
        }
        Some(old)
    });
    let deduped_count = lifecycle.len();
    if let Value::Object(map) = &mut transcript {
        match map.get_mut("events").and_then(Value::as_array_mut) {
            Some(events) => events.push(reminder_event(reminder)),
            None => {
                map.insert("events".into(), vec![reminder_event(reminder)].into());
            }
        }
    }
    lifecycle.push(Lifecycle::of("injected", &reminder.id));
    Injected { transcript, reminder_id: reminder.id.clone(), deduped_count, lifecycle }
}

fn check_transcript(function: &'static str, transcript: &Value) -> Result<(), ReminderError> {
    match transcript.as_object().filter(|t| t.get("_type") == Some(&"transcript".into())) {
        Some(_) => Ok(()),
        None => Err(ReminderError::NotATranscript(function)),
    }
}

/// `transcript.inject_reminder(t, options)`. `fresh_id` is the id unless the options set one.
///
/// # Errors
/// The first argument is not a transcript, or the options are malformed.
pub fn inject_reminder(
    transcript: &Value,
    options: &Value,
    fresh_id: &str,
) -> Result<Injected, ReminderError> {
    let function = "transcript.inject_reminder";
    check_transcript(function, transcript)?;
    let reminder = Reminder::parse(function, Origin::Options, options, fresh_id, Source::InPipeline)?;
    Ok(inject(transcript, &reminder))
}

/// The result of [`clear_reminders`].
#[derive(Clone, Debug, PartialEq)]
pub struct Cleared {
    /// The new transcript.
    pub transcript: Value,
    /// The number of removed reminders.
    pub removed_count: usize,
    /// The lifecycle events, in order.
    pub lifecycle: Vec<Lifecycle>,
}

/// `transcript.clear_reminders(t, {id?, tag?, dedupe_key?})`: at least one selector is required, and all given ones
/// must match.
///
/// # Errors
/// The first argument is not a transcript, a selector is unknown or not a string, or all are missing.
pub fn clear_reminders(transcript: &Value, selector: &Value) -> Result<Cleared, ReminderError> {
    let function = "transcript.clear_reminders";
    check_transcript(function, transcript)?;
    clear(function, transcript, selector)
}

/// Like [`clear_reminders`], on behalf of another `function`, which errors name.
///
/// # Errors
/// A selector is unknown or not a string, or all are missing.
pub fn clear(function: &str, transcript: &Value, selector: &Value) -> Result<Cleared, ReminderError> {
    let wrong = |field: &str, expected| ReminderError::option(function, field, expected);
    let map = selector.as_object().ok_or_else(|| wrong("selector", "a dict"))?;
    let mut selectors = Vec::new();
    for (key, value) in map {
        if !["id", "tag", "dedupe_key"].contains(&key.as_str()) {
            return Err(ReminderError::unknown_option(function, key));
        }
        if !value.is_null() {
            let wanted = value.as_str().ok_or_else(|| wrong(key, "a string or nil"))?;
            selectors.push((key.as_str(), wanted));
        }
    }
    if selectors.is_empty() {
        return Err(ReminderError::NoSelector(function.to_owned()));
    }
    let matches = |reminder: &Reminder| {
        selectors.iter().all(|(key, wanted)| match *key {
            "id" => reminder.id == *wanted,
            "tag" => reminder.tags.iter().any(|tag| tag == wanted),
            _ => reminder.dedupe_key.as_deref() == Some(*wanted),
        })
    };
    let mut lifecycle = Vec::new();
    let transcript = rewrite(transcript, |reminder| {
        if matches(&reminder) {
            lifecycle.push(Lifecycle::expired(&reminder.id, "cleared"));
            return None;
        }
        Some(reminder)
    });
    Ok(Cleared { transcript, removed_count: lifecycle.len(), lifecycle })
}

/// The result of a pass over the reminders.
#[derive(Clone, Debug, PartialEq)]
pub struct Survivors {
    /// The new transcript.
    pub transcript: Value,
    /// The reminders that are still pending, oldest first.
    pub reminders: Vec<Reminder>,
    /// The lifecycle events, in order.
    pub lifecycle: Vec<Lifecycle>,
}

/// Records the turn in reminders that are shown for the first time.
#[must_use]
pub fn mark_fired(transcript: &Value, turn: u64) -> Value {
    rewrite(transcript, |reminder| {
        Some(Reminder { fired_at_turn: reminder.fired_at_turn.or(Some(turn)), ..reminder })
    })
}

/// The post-turn pass: decrements the remaining turns of reminders and removes those that expire. `counts` says for
/// which reminders the turn counts: for a reminder that was created during the turn, it does not.
#[must_use]
pub fn post_turn(transcript: &Value, counts: impl Fn(&Reminder) -> bool) -> Survivors {
    let mut lifecycle = Vec::new();
    let transcript = rewrite(transcript, |reminder| match counts(&reminder) {
        true => count_down(reminder, &mut lifecycle),
        false => Some(reminder),
    });
    Survivors { reminders: pending(&transcript), transcript, lifecycle }
}

fn count_down(mut reminder: Reminder, lifecycle: &mut Vec<Lifecycle>) -> Option<Reminder> {
    if let Some(turns) = reminder.ttl_turns {
        if turns <= 1 {
            lifecycle.push(Lifecycle::expired(&reminder.id, "ttl"));
            return None;
        }
        reminder.ttl_turns = Some(turns - 1);
    }
    Some(reminder)
}

/// Compacts reminders: decrements their remaining turns, and removes those that expired, that have a newer one with the
/// same key, or that lack `preserve_on_compact`.
#[must_use]
pub fn compact(transcript: &Value) -> Survivors {
    let Survivors { transcript, reminders, mut lifecycle } = post_turn(transcript, |_| true);
    let newer = |index: usize, key: &Option<String>| {
        key.is_some() && reminders[index + 1..].iter().any(|later| later.dedupe_key == *key)
    };
    let mut index = 0;
    let transcript = rewrite(&transcript, |reminder| {
        let replaced = newer(index, &reminder.dedupe_key);
        index += 1;
        if replaced {
            lifecycle.push(Lifecycle::of("deduped", &reminder.id));
            return None;
        }
        if !reminder.preserve_on_compact {
            lifecycle.push(Lifecycle::expired(&reminder.id, "compaction"));
            return None;
        }
        Some(reminder)
    });
    Survivors { reminders: pending(&transcript), transcript, lifecycle }
}

/// Returns the copies of the pending reminders for a sub-agent of `agent_id`. A `session` reminder that was itself
/// inherited is not passed on.
#[must_use]
pub fn inherited(reminders: &[Reminder], agent_id: &str) -> Vec<Reminder> {
    let passes = |reminder: &&Reminder| match reminder.propagate {
        Propagate::All => true,
        Propagate::Session => reminder.source != Source::Inherited,
        Propagate::None => false,
    };
    let copy = |reminder: &Reminder| Reminder {
        source: Source::Inherited,
        originating_agent_id: reminder.originating_agent_id.clone().or_else(|| Some(agent_id.to_owned())),
        ..reminder.clone()
    };
    reminders.iter().filter(passes).map(copy).collect()
}

#[cfg(test)]
mod tests {
    use harn_value::json;

    use super::*;

    fn empty() -> Value {
        json!({"_type": "transcript", "id": "t", "messages": [], "events": [{"id": "m", "kind": "message", "text": "hi"}]})
    }

    fn with(options: &[Value]) -> Value {
        options.iter().enumerate().fold(empty(), |t, (i, options)| {
            inject_reminder(&t, options, &format!("r{i}")).unwrap().transcript
        })
    }

    fn ids(transcript: &Value) -> Vec<String> {
        pending(transcript).into_iter().map(|r| r.id).collect()
    }

    #[test]
    fn an_event_holds_the_record_twice() {
        let transcript = with(&[json!({"body": "note", "ttl_turns": 2})]);
        let event = &transcript["events"][1];
        assert_eq!(event["id"], "r0");
        assert_eq!(
            (&event["kind"], &event["role"], &event["visibility"]),
            (&json!("system_reminder"), &json!("developer"), &json!("public"))
        );
        assert_eq!(event["blocks"], json!([{"type": "text", "text": "note", "visibility": "public"}]));
        assert_eq!(event["reminder"], event["metadata"]);
        assert_eq!(event["text"], "note");
    }

    #[test]
    fn a_newer_key_replaces_older_ones() {
        let transcript = with(&[
            json!({"body": "a", "dedupe_key": "k"}),
            json!({"body": "b"}),
            json!({"body": "c", "dedupe_key": "k"}),
        ]);
        assert_eq!(ids(&transcript), ["r1", "r2"]);
        let again = inject_reminder(&transcript, &json!({"body": "d", "dedupe_key": "k"}), "r9").unwrap();
        assert_eq!(again.deduped_count, 1);
        assert_eq!(again.lifecycle, [Lifecycle::of("deduped", "r2"), Lifecycle::of("injected", "r9")]);
        assert_eq!(again.to_json()["reminder_id"], "r9");
        assert_eq!(transcript["events"][0]["kind"], "message", "other events stay");
    }

    #[test]
    fn injecting_makes_the_event_list_when_there_is_none() {
        let bare = json!({"_type": "transcript"});
        assert_eq!(ids(&inject_reminder(&bare, &json!({"body": "b"}), "r").unwrap().transcript), ["r"]);
        assert_eq!(
            inject_reminder(&json!({}), &json!({"body": "b"}), "r").unwrap_err().to_string(),
            "transcript.inject_reminder: argument must be a transcript"
        );
    }

    #[test]
    fn life_spans_count_down() {
        let transcript = with(&[
            json!({"body": "a", "ttl_turns": 1}),
            json!({"body": "b", "ttl_turns": 2}),
            json!({"body": "c"}),
        ]);
        let one = post_turn(&transcript, |_| true);
        assert_eq!(ids(&one.transcript), ["r1", "r2"]);
        assert_eq!(one.lifecycle, [Lifecycle { reason: Some("ttl"), ..Lifecycle::of("expired", "r0") }]);
        let two = post_turn(&one.transcript, |_| true);
        assert_eq!(ids(&two.transcript), ["r2"]);
        assert_eq!(ids(&post_turn(&two.transcript, |_| true).transcript), ["r2"], "no life span, no end");
        assert_eq!(two.reminders.len(), 1);
        let spared = post_turn(&transcript, |reminder| reminder.id != "r0");
        assert_eq!(ids(&spared.transcript), ["r0", "r1", "r2"]);
    }

    #[test]
    fn selectors_must_all_match() {
        let transcript = with(&[
            json!({"body": "a", "tags": ["x"], "dedupe_key": "k"}),
            json!({"body": "b", "tags": ["x"]}),
            json!({"body": "c"}),
        ]);
        let cleared = |selector: Value| {
            clear_reminders(&transcript, &selector).map(|c| (ids(&c.transcript), c.removed_count))
        };
        assert_eq!(cleared(json!({"tag": "x"})).unwrap(), (vec!["r2".into()], 2));
        assert_eq!(cleared(json!({"tag": "x", "dedupe_key": "k"})).unwrap().1, 1);
        assert_eq!(cleared(json!({"id": "r2", "tag": null})).unwrap().1, 1);
        assert_eq!(cleared(json!({"id": "r2", "tag": "x"})).unwrap().1, 0);
        let error = |selector: Value| cleared(selector).unwrap_err().to_string();
        let none = "transcript.clear_reminders: at least one of id, tag, dedupe_key is required";
        assert_eq!(error(json!({})), none);
        assert_eq!(error(json!({"id": null})), none);
        assert_eq!(
            error(json!({"tags": "x"})),
            "transcript.clear_reminders: unknown option 'tags' (HARN-RMD-001)"
        );
        assert_eq!(
            error(json!({"tag": 1})),
            "transcript.clear_reminders: tag must be a string or nil (HARN-RMD-001)"
        );
        assert_eq!(
            clear_reminders(&json!(1), &json!({})).unwrap_err().to_string(),
            "transcript.clear_reminders: argument must be a transcript"
        );
    }

    #[test]
    fn compaction_keeps_the_newest_preserved() {
        // Two pending reminders with the same key, as in a transcript from another source.
        let mut transcript = with(&[
            json!({"body": "old", "dedupe_key": "k", "preserve_on_compact": true}),
            json!({"body": "gone"}),
            json!({"body": "last turn", "ttl_turns": 1, "preserve_on_compact": true}),
            json!({"body": "stays", "preserve_on_compact": true, "ttl_turns": 5}),
        ]);
        let newest = Reminder {
            id: "n".into(),
            body: "new".into(),
            dedupe_key: Some("k".into()),
            preserve_on_compact: true,
            ..Reminder::default()
        };
        transcript["events"].as_array_mut().unwrap().push(reminder_event(&newest));
        let left = compact(&transcript);
        assert_eq!(ids(&left.transcript), ["r3", "n"]);
        assert_eq!(left.reminders[0].ttl_turns, Some(4));
        let told: Vec<_> =
            left.lifecycle.iter().map(|l| (l.kind, l.reminder_id.as_str(), l.reason)).collect();
        assert_eq!(
            told,
            [("expired", "r2", Some("ttl")), ("deduped", "r0", None), ("expired", "r1", Some("compaction"))]
        );
        assert_eq!(
            left.lifecycle[0].to_json(),
            json!({"kind": "transcript.reminder.expired", "reminder_id": "r2", "reason": "ttl"})
        );
    }

    #[test]
    fn sub_agents_inherit_by_reach() {
        let reminder =
            |propagate| Reminder { id: "r".into(), body: "b".into(), propagate, ..Reminder::default() };
        let parent = [reminder(Propagate::All), reminder(Propagate::Session), reminder(Propagate::None)];
        let child = inherited(&parent, "agent-1");
        assert_eq!(child.len(), 2);
        assert!(
            child.iter().all(
                |r| r.source == Source::Inherited && r.originating_agent_id.as_deref() == Some("agent-1")
            )
        );
        let grandchild = inherited(&child, "agent-2");
        assert_eq!(grandchild.len(), 1);
        assert_eq!(
            grandchild[0].originating_agent_id.as_deref(),
            Some("agent-1"),
            "where it came from first"
        );
    }

    #[test]
    fn events_for_the_record_are_never_pending() {
        let reminder = Reminder { id: "a".into(), body: "b".into(), ..Reminder::default() };
        let transcript = json!({"_type": "transcript", "events": [audit_event(&reminder), {"kind": "system_reminder", "id": "e", "metadata": {"body": "x"}}]});
        assert_eq!(ids(&transcript), ["e"]);
        assert!(pending(&json!("no transcript")).is_empty());
    }
}
