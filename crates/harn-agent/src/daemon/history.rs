//! The append-only part of a daemon's snapshots, and how to avoid writing all of it each time.
//!
//! Small histories are stored in the snapshot itself. When the new part becomes too large to be rewritten whenever the
//! daemon becomes idle, it is moved to a file next to the snapshot, one line per move, and the snapshot records how
//! many bytes of that file belong to it. So each message is written a bounded number of times, however long the daemon
//! lives.

use harn_value::{Data as Json, data::Map};
use serde::{Deserialize, Serialize};

/// The append-only keys of a snapshot: lists and a string.
const GROWING: [&str; 5] =
    ["recorded_messages", "transcript_events", "total_text", "total_visible_texts", "all_tools_used"];

/// Maximum bytes of append-only data in a snapshot.
const MOST: usize = 64 << 10;

/// The amount of a loop's history that is stored in earlier lines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Marks {
    /// Messages.
    pub messages: usize,
    /// Transcript events.
    pub events: usize,
    /// Bytes of the whole output.
    pub text: usize,
    /// User-visible outputs.
    pub visible: usize,
    /// Names of tools.
    pub tools: usize,
}

impl Marks {
    /// Adds the sizes of a line.
    pub fn add(&mut self, line: &Json) {
        let count = |key: &str| line[key].as_array().map_or(0, Vec::len);
        self.messages += count("recorded_messages");
        self.events += count("transcript_events");
        self.text += line["total_text"].as_str().map_or(0, str::len);
        self.visible += count("total_visible_texts");
        self.tools += count("all_tools_used");
    }
}

/// Where the earlier part of a snapshot is stored, as recorded in the snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Earlier {
    /// The name of the file next to the snapshot.
    pub file: String,
    /// Number of its bytes that belong to the snapshot.
    pub bytes: u64,
}

impl Earlier {
    /// Reads the location from a snapshot; `None` if the snapshot is complete.
    ///
    /// # Errors
    /// The location is malformed or does not name a file next to the snapshot.
    pub fn of(snapshot: &Json) -> Result<Option<Earlier>, String> {
        let Some(said) = snapshot.get("earlier").filter(|said| !said.is_null()) else { return Ok(None) };
        let earlier: Earlier = said.clone().read().map_err(|e| format!("its field earlier: {e}"))?;
        if earlier.file.is_empty() || earlier.file.contains(['/', '\\']) || earlier.file.starts_with('.') {
            return Err(format!("its field earlier names no file beside it: {}", earlier.file));
        }
        Ok(Some(earlier))
    }
}

/// Moves the append-only parts out of a snapshot if they exceed the limit.
pub fn move_out(snapshot: &mut Json) -> Option<Json> {
    let size = |key: &str| serde_json::to_string(&snapshot[key]).map_or(0, |text| text.len());
    if GROWING.iter().map(|key| size(key)).sum::<usize>() <= MOST {
        return None;
    }
    // Without compaction, the visible messages equal the recorded ones and need not be stored twice.
    if snapshot["visible_messages"] == snapshot["recorded_messages"] {
        snapshot["visible_messages"] = Json::Array(Vec::new());
        snapshot["visible_from"] = 0.into();
    }
    let mut line = Map::new();
    for key in GROWING {
        let part = snapshot[key].take();
        snapshot[key] = if part.is_string() { "".into() } else { Json::Array(Vec::new()) };
        line.insert(key.to_owned(), part);
    }
    Some(Json::Object(line))
}

/// Prepends earlier lines to the contents of a snapshot.
///
/// # Errors
/// A line is malformed or does not match the snapshot.
pub fn put_back(snapshot: &mut Json, lines: Vec<Json>) -> Result<(), String> {
    let mut whole = Map::new();
    for line in lines.into_iter().chain([snapshot.clone()]) {
        let Json::Object(mut line) = line else { return Err("a line of it is no dict".to_owned()) };
        for key in GROWING {
            match (whole.get_mut(key), line.remove(key)) {
                (None, Some(part)) => drop(whole.insert(key.to_owned(), part)),
                (Some(Json::Array(all)), Some(Json::Array(part))) => all.extend(part),
                (Some(Json::String(all)), Some(Json::String(part))) => all.push_str(&part),
                _ => return Err(format!("a line of it has no {key}")),
            }
        }
    }
    if !snapshot["visible_from"].is_null() {
        let from = snapshot["visible_from"].as_u64().and_then(|from| usize::try_from(from).ok());
        let recorded = whole.get("recorded_messages").and_then(Json::as_array);
        let rest = from.and_then(|from| recorded?.get(from..));
        match (&mut snapshot["visible_messages"], rest) {
            (Json::Array(seen), Some(rest)) => seen.extend_from_slice(rest),
            _ => return Err("it does not fit the snapshot".to_owned()),
        }
    }
    if let Some(fields) = snapshot.as_object_mut() {
        fields.extend(whole);
        fields.shift_remove("earlier");
        fields.shift_remove("visible_from");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use harn_value::json;

    use super::*;

    fn snapshot(from: usize, to: usize) -> Json {
        let messages: Vec<Json> =
            (from..to).map(|n| json!({"role": "user", "content": format!("{n:0>1000}")})).collect();
        json!({
            "_type": "daemon_snapshot", "visible_messages": messages, "recorded_messages": messages,
            "transcript_events": [], "total_text": "t".repeat(to - from), "total_visible_texts": ["a"],
            "all_tools_used": [],
        })
    }

    #[test]
    fn small_snapshots_stay_whole() {
        let mut small = snapshot(0, 10);
        assert_eq!((move_out(&mut small), &small), (None, &snapshot(0, 10)));
    }

    #[test]
    fn what_was_moved_comes_back_in_order() {
        let mut first = snapshot(0, 100);
        let line = move_out(&mut first).unwrap();
        let mut marks = Marks::default();
        marks.add(&line);
        assert_eq!(marks, Marks { messages: 100, events: 0, text: 100, visible: 1, tools: 0 });
        assert!(first["visible_messages"] == json!([]) && first["recorded_messages"] == json!([]));
        let mut second = snapshot(100, 110);
        (second["visible_messages"], second["visible_from"]) = (json!([]), 0.into());
        second["earlier"] = json!({"file": "d.json.history", "bytes": 9});
        put_back(&mut second, vec![line]).unwrap();
        let whole = snapshot(0, 110);
        assert_eq!(second["recorded_messages"], whole["recorded_messages"]);
        assert_eq!(second["visible_messages"], whole["recorded_messages"]);
        assert_eq!(
            (&second["total_text"], &second["total_visible_texts"]),
            (&whole["total_text"], &json!(["a", "a"]))
        );
        assert!(second.get("earlier").is_none());
    }

    #[test]
    fn what_callers_see_stays_when_older_messages_gave_way() {
        let mut seen = snapshot(0, 100);
        seen["visible_messages"] = json!([{"role": "user", "content": "short"}]);
        let line = move_out(&mut seen).unwrap();
        put_back(&mut seen, vec![line]).unwrap();
        assert_eq!(seen["visible_messages"], json!([{"role": "user", "content": "short"}]));
    }

    #[test]
    fn damaged_files_are_errors() {
        for file in ["", "../x", "/etc/passwd", ".x", "a/b"] {
            assert!(Earlier::of(&json!({"earlier": {"file": file, "bytes": 1}})).is_err(), "{file}");
        }
        assert!(Earlier::of(&json!({"earlier": {"file": "a", "bytes": -1}})).is_err());
        assert_eq!(Earlier::of(&json!({})), Ok(None));
        let mut some = snapshot(0, 1);
        assert!(put_back(&mut some, vec![json!([])]).is_err());
        assert!(put_back(&mut some, vec![json!({"recorded_messages": []})]).is_err());
        for from in [json!(2), json!(-1), json!("0")] {
            let mut some = snapshot(0, 1);
            some["visible_from"] = from;
            assert!(put_back(&mut some, Vec::new()).is_err());
        }
    }
}
