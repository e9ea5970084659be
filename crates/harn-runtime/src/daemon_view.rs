//! The history of a daemon as a program sees it. It is read on the first request; lines that move to the history file
//! later are added as they move, so that a request only costs the new part.

use std::path::Path;

use harn_agent::daemon::history::Earlier;
use harn_system::System;
use harn_value::{Data as Json, Dict, Value};

use crate::convert::from_json;
use crate::rest::lines_of;

/// The append-only lists of a snapshot.
const LISTS: [&str; 4] = ["recorded_messages", "transcript_events", "total_visible_texts", "all_tools_used"];

/// The append-only string of a snapshot.
const TEXT: &str = "total_text";

/// The growing parts of a daemon's snapshots, as scripts see them.
pub(crate) struct View {
    /// The number of bytes of the history file that are included.
    bytes: u64,
    /// The number of elements of each list that are from that file. They are followed by the elements of the snapshot
    /// at the last request.
    moved: [usize; 4],
    lists: [Value; 4],
    /// The same for the string, in bytes.
    moved_text: usize,
    text: Value,
}

impl View {
    /// Reads the history file of the snapshot at `path`.
    ///
    /// # Errors
    /// A message with the name of the file.
    pub(crate) fn read(system: &dyn System, path: &Path, earlier: &Earlier) -> Result<View, String> {
        let mut view = View {
            bytes: 0,
            moved: [0; 4],
            lists: std::array::from_fn(|_| Value::list(Vec::new())),
            moved_text: 0,
            text: Value::str(""),
        };
        let beside = path.with_file_name(&earlier.file);
        for line in lines_of(system, &beside, earlier.bytes)? {
            view.add(&line, earlier.bytes)
                .map_err(|why| format!("cannot read {}: {why}", beside.display()))?;
        }
        view.bytes = earlier.bytes;
        Ok(view)
    }

    /// Returns whether the view includes the same part of the history as a snapshot refers to.
    pub(crate) fn fits(&self, earlier: &Earlier) -> bool {
        self.bytes == earlier.bytes
    }

    /// Adds a line that has moved to the file, which is then `bytes` long.
    ///
    /// # Errors
    /// The line is malformed.
    pub(crate) fn add(&mut self, line: &Json, bytes: u64) -> Result<(), String> {
        for (at, key) in LISTS.into_iter().enumerate() {
            let part = line[key].as_array().ok_or_else(|| format!("a line of it has no {key}"))?;
            self.put(at, part);
            self.moved[at] += part.len();
        }
        let part = line[TEXT].as_str().ok_or_else(|| format!("a line of it has no {TEXT}"))?;
        self.put_text(part);
        self.moved_text += part.len();
        self.bytes = bytes;
        Ok(())
    }

    /// Replaces everything after the moved part of a list.
    fn put(&mut self, at: usize, part: &[Json]) {
        let moved = self.moved[at];
        if let Some(list) = self.lists[at].as_list_mut() {
            // A list that the program still holds is not modified.
            let list = list.make_mut();
            list.truncate(moved);
            list.extend_from_slice(&part.iter().map(from_json).collect::<Vec<Value>>());
        }
    }

    fn put_text(&mut self, part: &str) {
        let known = self.text.as_str().map_or(0, |text| text.as_str().len()) - self.moved_text;
        // This string starts with that of the previous snapshot.
        if let (Some(text), Some(rest)) = (self.text.as_str_mut(), part.get(known..)) {
            text.push_str(rest);
        }
    }

    /// Returns a complete snapshot.
    ///
    /// # Errors
    /// The snapshot does not match the history file.
    pub(crate) fn whole(&mut self, snapshot: &Json) -> Result<Dict, String> {
        let mut out = Dict::new();
        let big = |key: &str| {
            LISTS.contains(&key) || [TEXT, "visible_messages", "visible_from", "earlier"].contains(&key)
        };
        for (key, value) in snapshot.as_object().into_iter().flatten().filter(|(key, _)| !big(key)) {
            out.insert(key.as_str(), from_json(value));
        }
        for (at, key) in LISTS.into_iter().enumerate() {
            let part = snapshot[key].as_array().ok_or_else(|| format!("it has no {key}"))?;
            self.put(at, part);
            out.insert(key, self.lists[at].clone());
        }
        self.put_text(snapshot[TEXT].as_str().ok_or_else(|| format!("it has no {TEXT}"))?);
        out.insert(TEXT, self.text.clone());
        out.insert("visible_messages", self.visible(snapshot)?);
        Ok(out)
    }

    /// Returns the conversation that callers see: `visible_messages`, followed by all recorded messages from
    /// `visible_from` on.
    fn visible(&self, snapshot: &Json) -> Result<Value, String> {
        let wrong = || "it does not fit the snapshot".to_owned();
        let own = snapshot["visible_messages"].as_array().ok_or_else(wrong)?;
        let mut seen: Vec<Value> = own.iter().map(from_json).collect();
        if snapshot["visible_from"].is_null() {
            return Ok(Value::list(seen));
        }
        let from = snapshot["visible_from"]
            .as_u64()
            .and_then(|from| usize::try_from(from).ok())
            .ok_or_else(wrong)?;
        let recorded = &self.lists[0];
        // Nothing was compacted, so both lists are identical.
        if seen.is_empty() && from == 0 {
            return Ok(recorded.clone());
        }
        let rest = recorded.as_list().and_then(|list| list.get(from..)).ok_or_else(wrong)?;
        seen.extend_from_slice(rest);
        Ok(Value::list(seen))
    }
}
