//! Creates transcripts from messages, appends to them, and queries them.

use std::sync::LazyLock;

use harn_value::{Data as Value, json};
use regex::Regex;

use super::{Ids, empty, events::shown, is_transcript, with_messages};
use crate::json::{list_at, str_at};
use crate::options::shape::MESSAGE;
use crate::options::{ROLES, Shape};

/// Creates a transcript from a list of messages, or from those of another transcript.
///
/// # Errors
/// The value is neither.
pub fn from_messages(value: &Value, ids: &Ids<'_>) -> Result<Value, String> {
    let messages = match value {
        Value::Array(list) => {
            let fits = Shape::List(&MESSAGE).check("transcript_from_messages: messages", value);
            fits.map_err(|wrong| wrong.to_string())?;
            list.clone()
        }
        t if is_transcript(t) => list_at(t, "messages").to_vec(),
        _ => {
            return Err("transcript_from_messages: argument must be a message list or transcript".to_string());
        }
    };
    Ok(with_messages(&empty(None, ids), messages, ids))
}

/// Returns a field of a transcript: `messages`, `assets`, `events`, `summary` or `id`.
///
/// # Errors
/// The value is not a transcript.
pub fn field(builtin: &str, transcript: &Value, key: &str) -> Result<Value, String> {
    if !is_transcript(transcript) {
        return Err(format!("{builtin}: argument must be a transcript"));
    }
    let missing = match key {
        "summary" => Value::Null,
        "id" => "".into(),
        _ => json!([]),
    };
    Ok(transcript.get(key).cloned().unwrap_or(missing))
}

/// Appends a message to a list or transcript. `builtin` names the caller in errors.
///
/// # Errors
/// The target is neither.
fn add(builtin: &str, target: &Value, message: Value, ids: &Ids<'_>) -> Result<Value, String> {
    match target {
        Value::Array(list) => Ok(list.iter().cloned().chain([message]).collect()),
        t if is_transcript(t) => {
            let messages = list_at(t, "messages").iter().cloned().chain([message]).collect();
            Ok(with_messages(t, messages, ids))
        }
        _ => Err(format!("{builtin}: first argument must be a message list or transcript")),
    }
}

/// Appends `{role, content}`.
///
/// # Errors
/// The target is neither a list nor a transcript.
pub fn add_message(
    builtin: &str,
    target: &Value,
    role: &str,
    content: Value,
    ids: &Ids<'_>,
) -> Result<Value, String> {
    let fits = Shape::Word(ROLES).check("role", &role.into());
    fits.map_err(|wrong| format!("{builtin}: {wrong}"))?;
    let message = json!({"role": role, "content": content});
    MESSAGE.check("message", &message).map_err(|wrong| format!("{builtin}: {wrong}"))?;
    add(builtin, target, message, ids)
}

/// Appends a tool result.
///
/// # Errors
/// The target is neither a list nor a transcript.
pub fn add_tool_result(
    target: &Value,
    tool_use_id: &str,
    content: Value,
    ids: &Ids<'_>,
) -> Result<Value, String> {
    let message = json!({"role": "tool_result", "tool_use_id": tool_use_id, "content": content});
    add("add_tool_result", target, message, ids)
}

/// Adds an asset, replacing one with the same id. A string is the storage path of a new asset.
///
/// # Errors
/// The value is not a transcript, or the asset is neither a dict nor a path.
pub fn add_asset(transcript: &Value, asset: &Value, ids: &Ids<'_>) -> Result<Value, String> {
    if !is_transcript(transcript) {
        return Err("transcript_add_asset: argument must be a transcript".to_string());
    }
    let given = match asset {
        Value::Object(map) => map.clone(),
        Value::String(path) => match json!({"storage": {"path": path}}) {
            Value::Object(map) => map,
            _ => Default::default(),
        },
        other => {
            return Err(format!(
                "transcript_add_asset: asset must be a dict or the path of a file, got {}",
                other.type_name()
            ));
        }
    };
    let mut asset = json!({"_type": "transcript_asset", "kind": "blob", "visibility": "internal"});
    if let Some(map) = asset.as_object_mut() {
        map.extend(given);
        map.insert("_type".into(), "transcript_asset".into());
        map.entry("id").or_insert_with(|| ids().into());
    }
    let mut out = transcript.clone();
    let mut assets = list_at(transcript, "assets").to_vec();
    match assets.iter_mut().find(|a| a.get("id") == asset.get("id")) {
        Some(old) => *old = asset,
        None => assets.push(asset),
    }
    out["assets"] = assets.into();
    Ok(out)
}

/// Returns the events of a kind; an empty list for values that are not transcripts.
pub fn events_by_kind(transcript: &Value, kind: &str) -> Vec<Value> {
    if !is_transcript(transcript) {
        return Vec::new();
    }
    list_at(transcript, "events").iter().filter(|e| str_at(e, "kind") == Some(kind)).cloned().collect()
}

/// Returns statistics of a transcript; zeros for nil.
pub fn stats(transcript: &Value) -> Value {
    let messages = list_at(transcript, "messages");
    let with_role = |roles: &[&str]| {
        messages.iter().filter(|m| str_at(m, "role").is_some_and(|r| roles.contains(&r))).count()
    };
    let calls: usize = messages.iter().map(|m| list_at(m, "tool_calls").len()).sum();
    let visible = shown(transcript).filter(|(v, _, _)| matches!(*v, "visible" | "public")).count();
    json!({
        "message_count": messages.len(), "user_facing_message_count": with_role(&["user", "assistant"]),
        "tool_result_message_count": with_role(&["tool", "tool_result"]), "tool_call_count": calls,
        "assistant_message_count": with_role(&["assistant"]), "user_message_count": with_role(&["user"]),
        "visible_event_count": visible,
    })
}

/// Renders the conversation as the user saw it: the public events of user and assistant with text. Excludes what
/// runtime and model exchange (calls, results, feedback, reminders, tags, sentinels), in every tool format.
pub fn render_visible(transcript: &Value) -> String {
    let lines: Vec<String> = shown(transcript)
        .filter(|(visibility, _, _)| *visibility == "public")
        .filter_map(|(_, role, text)| match role {
            "assistant" => Some((role, crate::tool_text::sanitize(&without_marks(text)))),
            "user" if is_of_the_runtime(text) => None,
            "system" | "developer" | "tool" | "tool_result" => None,
            _ => Some((role, without_marks(text))),
        })
        .filter(|(_, text)| !text.trim().is_empty())
        .map(|(role, text)| format!("{role}: {text}"))
        .collect();
    lines.join("\n")
}

/// Returns whether a user message was written by the runtime.
fn is_of_the_runtime(text: &str) -> bool {
    let text = text.trim_start();
    ["<runtime_feedback", "<system-reminder", "[auto-compacted "].iter().any(|head| text.starts_with(head))
}

/// Removes the marks that represent calls and results in an event's text.
fn without_marks(text: &str) -> String {
    static MARK: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"(^| )<tool_(call|result):[^<>]*>").expect("a constant expression"));
    MARK.replace_all(text, "").trim().to_string()
}

/// Renders all events.
pub fn render_full(transcript: &Value) -> String {
    let lines: Vec<String> =
        shown(transcript).map(|(visibility, role, text)| format!("[{visibility}] {role}: {text}")).collect();
    lines.join("\n")
}

/// Serializes a transcript to pretty-printed JSON.
pub fn export(transcript: &Value) -> String {
    format!("{:#}", crate::json::canonical(transcript))
}

/// Parses the output of [`export`].
///
/// # Errors
/// The source is not a transcript.
pub fn import(text: &str) -> Result<Value, String> {
    let value: Value = serde_json::from_str(text).map_err(|e| format!("transcript_import: {e}"))?;
    if is_transcript(&value) {
        Ok(value)
    } else {
        Err("transcript_import: argument must be a transcript".to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids() -> String {
        "i".to_string()
    }

    fn sample() -> Value {
        from_messages(
            &json!([
                {"role": "user", "content": "hi"},
                {"role": "assistant", "content": [
                    {"type": "reasoning", "text": "hm", "visibility": "private"},
                    {"type": "output_text", "text": "yes", "visibility": "public"},
                    {"type": "tool_call", "id": "c", "name": "read", "arguments": {}, "visibility": "internal"}],
                 "tool_calls": [{}]},
                {"role": "tool_result", "tool_use_id": "c", "content": "data"},
                {"role": "user", "content": [{"type": "image", "name": "cat.png"}, {"text": "see"}]}]),
            &ids,
        )
        .unwrap()
    }

    #[test]
    fn events_show_messages_as_text() {
        let t = sample();
        assert_eq!(render_visible(&t), "user: hi\nassistant: yes\nuser: <image:cat.png> see");
        assert_eq!(render_full(&t).lines().nth(2), Some("[internal] tool_result: data"));
        assert_eq!(events_by_kind(&t, "tool_result").len(), 1);
        assert_eq!(
            stats(&t),
            json!({"message_count": 4, "user_facing_message_count": 3, "tool_result_message_count": 1,
                   "tool_call_count": 1, "assistant_message_count": 1, "user_message_count": 2, "visible_event_count": 3})
        );
        assert_eq!(stats(&Value::Null)["message_count"], 0);
    }

    #[test]
    fn people_see_no_scaffolding() {
        let user = |text: &str| json!({"role": "user", "content": text});
        let said = |text: &str| json!({"role": "assistant", "content": text});
        let t = from_messages(
            &json!([
                {"role": "system", "content": "rules"},
                user("hi"),
                said("<assistant_prose>\nLooking.\n</assistant_prose>\n\n<tool_call>\nls()\n</tool_call>"),
                user("<runtime_feedback kind=\"tool_results\">\n[result of ls]\nx\n[end of ls result]\n</runtime_feedback>"),
                said("<tool_call>\nls()\n</tool_call>"),
                said("<user_response>Two files.</user_response>\n<done>##DONE##</done>"),
                {"role": "tool", "tool_call_id": "c", "content": "x"},
                user("[auto-compacted 3 older messages]\nx"),
            ]),
            &ids,
        )
        .unwrap();
        assert_eq!(render_visible(&t), "user: hi\nassistant: Looking.\nassistant: Two files.");
    }

    #[test]
    fn messages_are_added_to_lists_and_transcripts() {
        assert_eq!(
            add_message("add_user", &json!([]), "user", "a".into(), &ids).unwrap(),
            json!([{"role": "user", "content": "a"}])
        );
        let mut t = sample();
        t["events"].as_array_mut().unwrap().push(json!({"kind": "note"}));
        let more = add_tool_result(&t, "c2", "x".into(), &ids).unwrap();
        assert_eq!(more["events"].as_array().unwrap().len(), 6, "other events stay");
        assert_eq!(
            add_message("add_user", &json!(3), "user", "a".into(), &ids).unwrap_err(),
            "add_user: first argument must be a message list or transcript"
        );
    }

    #[test]
    fn assets_replace_their_namesakes() {
        let t = add_asset(&sample(), &json!({"id": "a", "kind": "image"}), &ids).unwrap();
        let t = add_asset(&t, &json!({"id": "a"}), &ids).unwrap();
        let t = add_asset(&t, &json!("path/x"), &ids).unwrap();
        assert_eq!(t["assets"][0]["kind"], "blob");
        assert_eq!(t["assets"][1]["storage"]["path"], "path/x");
    }

    #[test]
    fn export_and_import_are_inverse() {
        let t = sample();
        assert_eq!(import(&export(&t)).unwrap(), t);
        assert!(import("{}").is_err());
    }
}
