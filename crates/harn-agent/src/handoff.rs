//! Handoffs: an agent passes work to another agent or to a human.

use harn_llm::options::nearest;
use harn_prompt::untrusted::quote_element;
use harn_value::{Data as Json, json};

/// The fields of a handoff.
const FIELDS: [&str; 19] = [
    "_type",
    "id",
    "parent_run_id",
    "source_persona",
    "target_persona_or_human",
    "task",
    "reason",
    "evidence_refs",
    "files_or_entities_touched",
    "open_questions",
    "blocked_on",
    "requested_capabilities",
    "allowed_side_effects",
    "receipt_links",
    "budget_remaining",
    "deadline_checkback",
    "confidence",
    "created_at",
    "metadata",
];

/// Returns an error message for an unknown field of a handoff. Programs put additional data into `metadata`. In the
/// artifact of a handoff, the fields are one level down and are not checked here.
pub fn unknown(fields: &Json) -> Option<String> {
    let fields =
        fields.as_object().filter(|fields| fields.get("_type").is_none_or(|kind| *kind != "artifact"))?;
    let key = fields.keys().find(|key| !FIELDS.contains(&key.as_str()))?;
    Some(match nearest(key, FIELDS.into_iter()) {
        Some(near) => format!("handoff: unknown option `{key}`, did you mean `{near}`?"),
        None => format!("handoff: unknown option `{key}`; it takes {}", FIELDS[1..].join(", ")),
    })
}

/// The list fields of a handoff.
const LISTS: [&str; 7] = [
    "evidence_refs",
    "files_or_entities_touched",
    "open_questions",
    "blocked_on",
    "requested_capabilities",
    "allowed_side_effects",
    "receipt_links",
];

/// Reads a handoff from its fields or from an artifact that contains one.
///
/// # Errors
/// A field is missing or has a wrong type.
pub fn handoff(input: &Json, now: &str, ids: &dyn Fn() -> String) -> Result<Json, String> {
    let fields = if input["_type"] == "artifact" { &input["data"] } else { input };
    if !fields.is_object() {
        let word = fields.type_name();
        return Err(format!("handoff parse error: expected a dict, got {word}"));
    }
    let needed = |key: &str| match &fields[key] {
        Json::String(text) if !text.trim().is_empty() => Ok(text.clone()),
        Json::Null | Json::String(_) => Err(format!("handoff {key} is required")),
        other => Err(format!("handoff parse error: {key} must be a string, got {}", other.type_name())),
    };
    let source = needed("source_persona")?;
    let target = match &fields["target_persona_or_human"] {
        Json::String(label) if !label.trim().is_empty() => {
            json!({"kind": "persona", "id": null, "label": label})
        }
        Json::Object(map) => {
            let text =
                |key: &str| map.get(key).filter(|value| value.is_string()).cloned().unwrap_or_default();
            let label = if text("label").is_null() { text("id") } else { text("label") };
            if label.is_null() {
                return Err("handoff target_persona_or_human is required".to_owned());
            }
            let kind = if text("kind").is_null() { "persona".into() } else { text("kind") };
            json!({"kind": kind, "id": text("id"), "label": label})
        }
        Json::Null | Json::String(_) => return Err("handoff target_persona_or_human is required".to_owned()),
        other => {
            let word = other.type_name();
            return Err(format!(
                "handoff parse error: target_persona_or_human must be a string or dict, got {word}"
            ));
        }
    };
    let (task, reason) = (needed("task")?, needed("reason")?);
    let confidence = match &fields["confidence"] {
        Json::Null => Json::Null,
        number if number.as_f64().is_some_and(|n| (0.0..=1.0).contains(&n)) => number.clone(),
        other => {
            return Err(format!(
                "handoff parse error: confidence must be a number from 0 to 1, got {}",
                other.printed()
            ));
        }
    };
    let given_id = fields["id"].as_str().filter(|id| !id.is_empty()).map(str::to_owned);
    let mut out = json!({
        "_type": "handoff_artifact",
        "id": given_id.unwrap_or_else(|| format!("handoff_{}", ids())),
        "parent_run_id": fields["parent_run_id"],
        "source_persona": source,
        "target_persona_or_human": target,
        "task": task,
        "reason": reason,
    });
    for key in LISTS {
        out[key] = match &fields[key] {
            Json::Null => json!([]),
            Json::Array(items) if key == "evidence_refs" => {
                if let Some(other) = items.iter().find(|item| !item.is_string() && !item.is_object()) {
                    let word = other.type_name();
                    return Err(format!(
                        "handoff parse error: evidence_refs must hold ids and dicts, got {word}"
                    ));
                }
                items.iter().map(evidence).collect()
            }
            list @ Json::Array(_) => list.clone(),
            one @ Json::String(_) if key != "evidence_refs" => json!([one]),
            other => {
                let word = other.type_name();
                return Err(format!("handoff parse error: {key} must be a list, got {word}"));
            }
        };
    }
    out["budget_remaining"] = parts(fields, "budget_remaining", &["tokens", "tool_calls", "dollars"])?;
    out["deadline_checkback"] = parts(fields, "deadline_checkback", &["deadline", "checkback_at"])?;
    out["confidence"] = confidence;
    out["created_at"] = fields["created_at"].as_str().unwrap_or(now).into();
    out["metadata"] = match &fields["metadata"] {
        Json::Null => json!({}),
        map @ Json::Object(_) => map.clone(),
        other => {
            return Err(format!("handoff parse error: metadata must be a dict, got {}", other.type_name()));
        }
    };
    Ok(out)
}

fn evidence(item: &Json) -> Json {
    if let Some(id) = item.as_str() {
        return json!({"artifact_id": id, "kind": null, "label": null, "path": null, "uri": null});
    }
    let id = if item["artifact_id"].is_null() { &item["id"] } else { &item["artifact_id"] };
    json!({"artifact_id": id, "kind": item["kind"], "label": item["label"], "path": item["path"], "uri": item["uri"]})
}

fn parts(fields: &Json, key: &str, names: &[&str]) -> Result<Json, String> {
    match &fields[key] {
        Json::Null => Ok(Json::Null),
        Json::Object(map) if map.keys().any(|key| !names.contains(&key.as_str())) => {
            Err(format!("handoff parse error: {key} takes {}, and nothing else", names.join(", ")))
        }
        Json::Object(map)
            if key == "budget_remaining" && map.values().any(|n| !n.is_null() && !n.is_number()) =>
        {
            Err(format!("handoff parse error: {key} must hold numbers"))
        }
        Json::Object(map) => Ok(Json::Object(
            names
                .iter()
                .map(|name| ((*name).to_owned(), map.get(*name).cloned().unwrap_or_default()))
                .collect(),
        )),
        other => {
            let word = other.type_name();
            Err(format!("handoff parse error: {key} must be a dict, got {word}"))
        }
    }
}

/// Renders a handoff for a prompt: one tag per field, lists as lines.
pub fn context(handoff: &Json) -> String {
    let mut lines = vec!["<handoff>".to_owned()];
    let mut tag = |name: &str, text: String| {
        if !text.is_empty() {
            lines.push(format!("<{name}>{}</{name}>", quote_element(&text, &["handoff", name])));
        }
    };
    let plain = |value: &Json| if value.is_null() { String::new() } else { value.printed() };
    tag("source", plain(&handoff["source_persona"]));
    let target = &handoff["target_persona_or_human"];
    tag("target", plain(if target.is_object() { &target["label"] } else { target }));
    tag("task", plain(&handoff["task"]));
    tag("reason", plain(&handoff["reason"]));
    for key in LISTS {
        let items: Vec<String> = handoff[key].as_array().into_iter().flatten().map(line).collect();
        if !items.is_empty() {
            tag(key, format!("\n{}\n", items.join("\n")));
        }
    }
    for key in ["budget_remaining", "deadline_checkback"] {
        let parts: Vec<String> = handoff[key]
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| format!("{name}: {}", value.printed()))
            .collect();
        tag(key, parts.join(", "));
    }
    tag("confidence", plain(&handoff["confidence"]));
    lines.push("</handoff>".to_owned());
    lines.join("\n")
}

fn line(item: &Json) -> String {
    let Some(map) = item.as_object() else { return format!("- {}", item.printed()) };
    let words: Vec<String> = map
        .iter()
        .filter(|(_, value)| !value.is_null())
        .map(|(key, value)| format!("{key}: {}", value.printed()))
        .collect();
    format!("- {}", words.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(fields: Json) -> Result<Json, String> {
        handoff(&fields, "now", &|| "1".to_owned())
    }

    #[test]
    fn what_is_missing_is_named() {
        let full = json!({"source_persona": "a", "target_persona_or_human": "b", "task": "t", "reason": "r"});
        for key in ["source_persona", "target_persona_or_human", "task", "reason"] {
            let mut part = full.clone();
            part.as_object_mut().unwrap().remove(key);
            assert_eq!(made(part).unwrap_err(), format!("handoff {key} is required"));
        }
        assert!(made(json!(3)).unwrap_err().starts_with("handoff parse error: "));
        assert_eq!(made(full).unwrap()["target_persona_or_human"]["label"], "b");
    }

    #[test]
    fn an_artifact_gives_its_handoff() {
        let full = json!({"source_persona": "a", "target_persona_or_human": {"kind": "human", "id": "u1", "label": "Ada"},
            "task": "t", "reason": "r", "open_questions": ["q1", "q2"], "evidence_refs": ["art"]});
        let made = made(json!({"_type": "artifact", "kind": "handoff", "data": full})).unwrap();
        let text = context(&made);
        assert!(text.contains("<target>Ada</target>") && text.contains("- q1\n- q2"), "{text}");
        assert!(text.contains("- artifact_id: art"), "{text}");
    }
}
