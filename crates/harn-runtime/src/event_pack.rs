//! Stored form of transcript events: parts that repeat another part of the event are stored once.
//!
//! A reminder event contains its message in `text`, `blocks`, `reminder.body` and `metadata.body`, and a conversation
//! may have one such event per turn.

use harn_value::{Data as Json, json};

/// The key under which a packed event lists the parts that were replaced by null. The runtime creates no events with
/// this key.
const PACKED: &str = "\u{1f}packed";

/// The names of the parts that may repeat another part of the event, as listed in a packed event.
const PARTS: [&str; 4] = ["metadata", "blocks", "body", "id"];

/// Returns the part and the value that it may repeat, if the event has both.
fn part<'e>(event: &'e mut Json, name: &str) -> Option<(&'e mut Json, Json)> {
    let value = match name {
        "metadata" => event.get("reminder")?.clone(),
        "blocks" => {
            let (text, visibility) = (event.get("text")?.clone(), event.get("visibility")?.clone());
            json!([{"type": "text", "text": text, "visibility": visibility}])
        }
        "body" => event.get("text")?.clone(),
        _ => event.get("id")?.clone(),
    };
    let place = match name {
        "body" | "id" => event.get_mut("reminder")?.get_mut(name)?,
        _ => event.get_mut(name)?,
    };
    Some((place, value))
}

/// Returns whether both values serialize to the same JSON. `==` ignores the order of keys in maps, but packing must
/// preserve it.
fn is_written_alike(one: &Json, other: &Json) -> bool {
    let (one, other) = (one.to_string(), other.to_string());
    one == other
}

/// Returns the stored form of an event. The order of keys is preserved.
pub(crate) fn packed(event: &Json) -> Json {
    let mut out = event.clone();
    if event.get(PACKED).is_some() {
        return out;
    }
    let mut names = Vec::new();
    for name in PARTS {
        if let Some((place, value)) = part(&mut out, name)
            && is_written_alike(place, &value)
        {
            *place = Json::Null;
            names.push(name);
        }
    }
    if let Some(map) = out.as_object_mut().filter(|_| !names.is_empty()) {
        map.insert(PACKED.to_owned(), json!(names));
    }
    out
}

/// Restores an event from its stored form. Events stored before this form existed are returned unchanged.
pub(crate) fn unpacked(mut event: Json) -> Json {
    let Some(names) = event.as_object_mut().and_then(|map| map.shift_remove(PACKED)) else { return event };
    // Parts are restored in reverse order, because each part was compared after the earlier ones had been replaced.
    for name in PARTS
        .iter()
        .rev()
        .filter(|name| names.as_array().is_some_and(|list| list.iter().any(|n| n == **name)))
    {
        if let Some((place, value)) = part(&mut event, name) {
            *place = value;
        }
    }
    event
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_reminder_is_stored_once() {
        let reminder = json!({"id": "r1", "body": "Prefer short results.", "tags": ["pressure"]});
        let event = json!({
            "id": "r1", "kind": "system_reminder", "visibility": "public", "text": "Prefer short results.",
            "blocks": [{"type": "text", "text": "Prefer short results.", "visibility": "public"}],
            "reminder": reminder, "metadata": reminder,
        });
        let stored = packed(&event).to_string();
        assert_eq!(stored.matches("Prefer").count(), 1, "{stored}");
        assert_eq!(unpacked(serde_json::from_str(&stored).unwrap()).to_string(), event.to_string());
    }

    #[test]
    fn events_of_older_stores_are_read() {
        let event = json!({"id": "a", "metadata": null, "blocks": []});
        assert_eq!(unpacked(event.clone()), event);
    }

    /// Generates values from a small set, so that parts are often equal.
    fn value() -> impl Strategy<Value = Json> {
        let leaf = prop_oneof![Just(Json::Null), Just(json!("a")), Just(json!("b")), Just(json!(1))];
        leaf.prop_recursive(2, 8, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Json::Array),
                prop::collection::vec(
                    (prop_oneof![Just("id"), Just("body"), Just("text"), Just("type")], inner),
                    0..4
                )
                .prop_map(|fields| Json::Object(
                    fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
                )),
            ]
        })
    }

    proptest! {
        #[test]
        fn every_event_comes_back(fields in prop::collection::vec((prop_oneof![
            Just("id"), Just("text"), Just("visibility"), Just("blocks"), Just("reminder"), Just("metadata"), Just(PACKED)
        ], value()), 0..7), is_copy in any::<bool>()) {
            let mut map: harn_value::data::Map<String, Json> = fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
            if is_copy && let Some(reminder) = map.get("reminder").cloned() {
                map.insert("metadata".to_owned(), reminder);
            }
            let event = Json::Object(map);
            // Events with the reserved key are stored unchanged; the runtime creates no such events.
            if event.get(PACKED).is_none() {
                prop_assert_eq!(unpacked(packed(&event)).to_string(), event.to_string());
            }
        }
    }
}
