//! Validation of snapshots that were read from disk. Errors are reported, never ignored.

use harn_llm::Conversation;
use harn_llm::options::shape::Shape::{self, Any, Int, List, Map, Str};
use harn_value::Data as Json;

/// The fields of a snapshot other than its messages. A missing field means that nothing was recorded.
const FIELDS: &[(&str, Shape)] = &[
    ("saved_at", Str),
    ("daemon_state", Str),
    ("transcript_summary", Str),
    ("transcript_events", List(&Map(&Any))),
    ("total_text", Str),
    ("total_visible_texts", List(&Str)),
    ("last_iteration_text", Str),
    ("all_tools_used", List(&Str)),
    ("successful_tools", List(&Str)),
    ("rejected_tools", List(&Str)),
    ("deferred_user_messages", List(&Str)),
    ("total_iterations", Int(0)),
    ("idle_backoff_ms", Int(0)),
    ("last_run_exit_code", Int(i64::MIN)),
    ("last_event_seq", Int(0)),
    ("counters", Map(&Int(0))),
    ("watch_state", Map(&Any)),
];

/// Validates a snapshot.
///
/// # Errors
/// A message that names the invalid part.
pub fn check_snapshot(snapshot: &Json) -> Result<(), String> {
    if snapshot["_type"] != "daemon_snapshot" {
        return Err("it is no daemon snapshot".to_owned());
    }
    for key in ["recorded_messages", "visible_messages"] {
        let list = snapshot[key].as_array().ok_or_else(|| format!("{key} is missing"))?;
        if let Some(at) = list.iter().position(|message| !message.is_object()) {
            return Err(format!("{key}[{at}] is no message"));
        }
        Conversation::from_json(list).map_err(|e| format!("{key}: {e}"))?;
    }
    for (key, shape) in FIELDS {
        shape.check(key, &snapshot[*key]).map_err(|e| e.to_string())?;
    }
    let times = snapshot["watch_state"].as_object().into_iter().flatten();
    match times.into_iter().find(|(_, time)| !time.is_number()) {
        Some((path, _)) => Err(format!("watch_state.{path} must be a number")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use harn_value::json;

    #[test]
    fn each_wrong_field_is_named() {
        let good = json!({
            "_type": "daemon_snapshot", "recorded_messages": [{"role": "user", "content": "x"}], "visible_messages": [],
            "watch_state": {"a": 1.5}, "last_run_exit_code": -1, "counters": {"llm_calls": 1},
        });
        assert_eq!(check_snapshot(&good), Ok(()));
        for (key, value) in [
            ("_type", json!("x")),
            ("recorded_messages", json!(3)),
            ("visible_messages", json!([3])),
            ("transcript_events", json!([3])),
            ("all_tools_used", json!("a")),
            ("total_iterations", json!(-1)),
            ("counters", json!({"llm_calls": "many"})),
            ("watch_state", json!({"a": "now"})),
            ("last_event_seq", json!("3")),
        ] {
            let mut bad = good.clone();
            bad[key] = value;
            let wrong = check_snapshot(&bad).unwrap_err();
            assert!(
                wrong.contains(if key == "_type" { "no daemon snapshot" } else { key }),
                "{key}: {wrong}"
            );
        }
    }
}
