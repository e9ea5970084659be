//! Forking, archiving, abandoning, resuming and resetting transcripts.

use harn_value::{Data as Value, json};

use super::{Ids, empty, event, is_transcript, with_messages};
use crate::json::present;

fn checked<'a>(name: &str, transcript: &'a Value) -> Result<&'a Value, String> {
    if is_transcript(transcript) {
        Ok(transcript)
    } else {
        Err(format!("{name}: argument must be a transcript"))
    }
}

fn push_event(out: &mut Value, kind: &str, text: &str, ids: &Ids<'_>) {
    let made = event(kind, "system", "internal", text, None, ids);
    match out.get_mut("events").and_then(Value::as_array_mut) {
        Some(events) => events.push(made),
        None => out["events"] = json!([made]),
    }
}

fn in_state(name: &str, t: &Value, state: &str, text: &str, ids: &Ids<'_>) -> Result<Value, String> {
    let mut out = checked(name, t)?.clone();
    out["state"] = state.into();
    push_event(&mut out, name, text, ids);
    Ok(out)
}

/// Creates a fork with a new id. `options` may contain `retain_messages` and `retain_summary`, both true by default.
///
/// # Errors
/// The value is not a transcript.
pub fn fork(transcript: &Value, options: &Value, ids: &Ids<'_>) -> Result<Value, String> {
    let name = "transcript_fork";
    let mut out = checked(name, transcript)?.clone();
    let keeps = |key: &str| options.get(key) != Some(&Value::Bool(false));
    if !keeps("retain_messages") {
        out = with_messages(&out, Vec::new(), ids);
    }
    if !keeps("retain_summary")
        && let Some(map) = out.as_object_mut()
    {
        map.shift_remove("summary");
    }
    out["id"] = ids().into();
    out["state"] = "forked".into();
    push_event(&mut out, name, "transcript forked", ids);
    Ok(out)
}

/// Marks a transcript as archived.
///
/// # Errors
/// The value is not a transcript.
pub fn archive(transcript: &Value, ids: &Ids<'_>) -> Result<Value, String> {
    in_state("transcript_archive", transcript, "archived", "transcript archived", ids)
}

/// Marks a transcript as abandoned.
///
/// # Errors
/// The value is not a transcript.
pub fn abandon(transcript: &Value, ids: &Ids<'_>) -> Result<Value, String> {
    in_state("transcript_abandon", transcript, "abandoned", "transcript abandoned", ids)
}

/// Marks a transcript as active again.
///
/// # Errors
/// The value is not a transcript.
pub fn resume(transcript: &Value, ids: &Ids<'_>) -> Result<Value, String> {
    in_state("transcript_resume", transcript, "active", "transcript resumed", ids)
}

/// Creates an empty active transcript. `options` may contain `metadata`.
pub fn reset(options: &Value, ids: &Ids<'_>) -> Value {
    let mut out = empty(present(options, "metadata").cloned(), ids);
    out["state"] = "active".into();
    push_event(&mut out, "transcript_reset", "transcript reset", ids);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transcript::from_messages;

    #[test]
    fn states_follow_and_originals_stay() {
        let ids = || "i".to_string();
        let t = from_messages(&json!([{"role": "user", "content": "a"}]), &ids).unwrap();
        let archived = archive(&t, &ids).unwrap();
        assert_eq!((archived["state"].as_str(), t.get("state")), (Some("archived"), None));
        let last = archived["events"].as_array().unwrap().last().unwrap().clone();
        assert_eq!(
            (last["kind"].as_str(), last["text"].as_str()),
            (Some("transcript_archive"), Some("transcript archived"))
        );
        let forked = fork(&t, &json!({"retain_messages": false}), &ids).unwrap();
        assert_eq!(
            (forked["messages"].as_array().unwrap().len(), forked["state"].as_str()),
            (0, Some("forked"))
        );
        assert_eq!(resume(&json!({}), &ids).unwrap_err(), "transcript_resume: argument must be a transcript");
        assert_eq!(reset(&json!({"metadata": {"k": 1}}), &ids)["metadata"]["k"], 1);
    }
}
