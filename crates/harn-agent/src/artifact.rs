//! Artifacts: work products that stages pass to each other, and the selection that a stage receives.

use harn_prompt::untrusted::quote_element;
use harn_value::{Data as Json, data::Map, json};

/// The keys of a `context_policy`.
pub(crate) const POLICY_KEYS: [&str; 11] = [
    "max_artifacts",
    "max_tokens",
    "reserve_tokens",
    "include_kinds",
    "exclude_kinds",
    "prioritize_kinds",
    "pinned_ids",
    "include_stages",
    "prefer_recent",
    "prefer_fresh",
    "render",
];

/// Expands the short names of kinds.
pub(crate) fn kind_named(word: &str) -> &str {
    match word.trim() {
        "" => "artifact",
        "file" => "workspace_file",
        "transcript" => "transcript_summary",
        "verification" => "verification_result",
        "test" => "test_result",
        other => other,
    }
}

/// Returns the default priority of a kind.
pub(crate) fn default_priority(kind: &str) -> i64 {
    match kind {
        "verification_result" | "test_result" => 100,
        "verification_bundle" => 95,
        "handoff" => 92,
        "diff" | "git_diff" | "patch" | "patch_set" | "patch_proposal" | "diff_review"
        | "review_decision" | "apply_intent" => 90,
        "plan" => 80,
        "workspace_file" | "workspace_snapshot" | "editor_selection" | "resource" => 70,
        "summary" | "transcript_summary" => 60,
        "command_result" => 50,
        _ => 40,
    }
}

/// Builds an artifact from its fields. `now` is RFC 3339.
///
/// # Errors
/// The fields are not a dict, or a field has a wrong type.
pub fn artifact(fields: &Json, now: &str, ids: &dyn Fn() -> String) -> Result<Json, String> {
    let Some(given) = fields.as_object() else {
        return Err(format!("fields must be a dict, got {}", fields.type_name()));
    };
    let text_of = |key: &str| match given.get(key) {
        None | Some(Json::Null) => Ok(None),
        Some(Json::String(text)) => Ok(Some(text.clone())),
        Some(_) if key == "text" => Ok(given.get(key).map(Json::printed)),
        Some(other) => Err(format!("{key} must be a string, got {}", other.type_name())),
    };
    let kind = kind_named(text_of("kind")?.as_deref().unwrap_or_default()).to_owned();
    let text = text_of("text")?;
    let number = |key: &str| match given.get(key) {
        None | Some(Json::Null) => Ok(None),
        Some(number) if number.is_number() => Ok(Some(number.clone())),
        Some(other) => Err(format!("{key} must be a number, got {}", other.type_name())),
    };
    let lineage = match given.get("lineage") {
        None | Some(Json::Null) => json!([]),
        Some(list @ Json::Array(_)) => list.clone(),
        Some(_) => return Err("lineage must be a list".to_owned()),
    };
    let metadata = match given.get("metadata") {
        None | Some(Json::Null) => json!({}),
        Some(dict @ Json::Object(_)) => dict.clone(),
        Some(_) => return Err("metadata must be a dict".to_owned()),
    };
    let tokens = match number("estimated_tokens")? {
        Some(count) => count,
        None => text.as_deref().map(|text| text.len() / 4).into(),
    };
    Ok(json!({
        "_type": "artifact",
        "id": text_of("id")?.filter(|id| !id.is_empty()).unwrap_or_else(|| format!("artifact_{}", ids())),
        "kind": kind,
        "title": text_of("title")?,
        "text": text,
        "data": given.get("data").cloned().unwrap_or_default(),
        "source": text_of("source")?,
        "created_at": text_of("created_at")?.unwrap_or_else(|| now.to_owned()),
        "freshness": text_of("freshness")?,
        "priority": number("priority")?.unwrap_or_else(|| default_priority(&kind).into()),
        "lineage": lineage,
        "relevance": number("relevance")?,
        "estimated_tokens": tokens,
        "stage": text_of("stage")?,
        "metadata": metadata,
    }))
}

/// Builds an artifact that is derived from another one.
///
/// # Errors
/// Same as [`artifact`].
pub fn derive(
    parent: &Json,
    kind: &str,
    extra: &Json,
    now: &str,
    ids: &dyn Fn() -> String,
) -> Result<Json, String> {
    if !parent.is_object() {
        return Err("parent must be an artifact".to_owned());
    }
    let mut fields = extra.as_object().cloned().unwrap_or_default();
    let mut lineage = parent["lineage"].as_array().cloned().unwrap_or_default();
    if !parent["id"].is_null() {
        lineage.push(parent["id"].clone());
    }
    lineage.extend(fields.get("lineage").and_then(Json::as_array).cloned().unwrap_or_default());
    fields.insert("lineage".to_owned(), lineage.into());
    fields.insert("kind".to_owned(), kind.into());
    artifact(&Json::Object(fields), now, ids)
}

/// Returns the text of an artifact, or its data as JSON if the text is nil.
pub fn text_of(artifact: &Json) -> String {
    match &artifact["text"] {
        Json::Null if artifact["data"].is_null() => String::new(),
        Json::Null => artifact["data"].to_string(),
        text => text.printed(),
    }
}

/// Checks a `context_policy`, because a malformed limit would not limit anything.
///
/// # Errors
/// A message that names the invalid part.
pub fn check_policy(policy: &Json) -> Result<(), String> {
    let map = match policy {
        Json::Null => return Ok(()),
        Json::Object(map) => map,
        other => return Err(format!("policy must be a dict, got {}", other.type_name())),
    };
    for (key, value) in map.iter().filter(|(_, value)| !value.is_null()) {
        let fits = match key.as_str() {
            "max_artifacts" | "max_tokens" | "reserve_tokens" => value.as_u64().is_some(),
            "prefer_recent" | "prefer_fresh" => value.is_boolean(),
            "render" => value == "json" || value == "text",
            _ => value.as_array().is_some_and(|list| list.iter().all(Json::is_string)),
        };
        if !POLICY_KEYS.contains(&key.as_str()) {
            return Err(format!("policy has no key '{key}'; there are {}", POLICY_KEYS.join(", ")));
        }
        if !fits {
            return Err(format!("policy.{key} has a wrong value: {}", value.printed()));
        }
    }
    Ok(())
}

/// Selects the artifacts that a policy allows, most important first.
pub fn select(list: &[Json], policy: &Json) -> Vec<Json> {
    select_of(list.iter().collect(), policy)
}

/// Same as [`select`], for borrowed artifacts.
pub(crate) fn select_of(list: Vec<&Json>, policy: &Json) -> Vec<Json> {
    let words = |key: &str| -> Vec<&str> {
        policy[key].as_array().into_iter().flatten().filter_map(Json::as_str).collect()
    };
    let pinned = words("pinned_ids");
    let (include, exclude) = (words("include_kinds"), words("exclude_kinds"));
    let (preferred, stages) = (words("prioritize_kinds"), words("include_stages"));
    let is = |words: &[&str], artifact: &Json, key: &str| {
        artifact[key].as_str().is_some_and(|word| words.iter().any(|known| kind_or(key, known) == word))
    };
    let (fresh, recent) = (policy["prefer_fresh"] == true, policy["prefer_recent"] == true);
    let number = |value: &Json| value.as_f64().unwrap_or(0.0);
    let mut kept: Vec<Ranked<'_>> = list
        .into_iter()
        .filter(|a| include.is_empty() || is(&include, a, "kind"))
        .filter(|a| !is(&exclude, a, "kind"))
        .filter(|a| stages.is_empty() || is(&stages, a, "stage"))
        .map(|artifact| Ranked {
            artifact,
            pinned: is(&pinned, artifact, "id"),
            preferred: is(&preferred, artifact, "kind"),
            priority: number(&artifact["priority"]),
            staleness: if fresh { staleness(artifact) } else { 0 },
            created_at: if recent { artifact["created_at"].as_str() } else { None },
            relevance: number(&artifact["relevance"]),
            tokens: tokens(artifact),
        })
        .collect();
    kept.sort_by(|a, b| {
        (b.pinned.cmp(&a.pinned))
            .then_with(|| b.preferred.cmp(&a.preferred))
            .then_with(|| b.priority.total_cmp(&a.priority))
            .then_with(|| a.staleness.cmp(&b.staleness))
            .then_with(|| b.created_at.cmp(&a.created_at))
            .then_with(|| b.relevance.total_cmp(&a.relevance))
            .then_with(|| a.tokens.cmp(&b.tokens))
    });
    let most = policy["max_artifacts"].as_u64().unwrap_or(u64::MAX);
    let room = policy["max_tokens"]
        .as_u64()
        .map(|max| max.saturating_sub(policy["reserve_tokens"].as_u64().unwrap_or(0)));
    let mut used = 0;
    let mut out = Vec::new();
    for Ranked { artifact, tokens, .. } in kept {
        if out.len() as u64 >= most {
            break;
        }
        if room.is_some_and(|room| used + tokens > room) {
            continue;
        }
        used += tokens;
        out.push(artifact.clone());
    }
    out
}

/// The sort keys of an artifact, read once, because a run selects among all its artifacts at every stage.
struct Ranked<'a> {
    artifact: &'a Json,
    pinned: bool,
    preferred: bool,
    priority: f64,
    staleness: u8,
    created_at: Option<&'a str>,
    relevance: f64,
    tokens: u64,
}

fn kind_or<'a>(key: &str, word: &'a str) -> &'a str {
    if key == "kind" { kind_named(word) } else { word }
}

fn tokens(artifact: &Json) -> u64 {
    artifact["estimated_tokens"].as_u64().unwrap_or_else(|| text_of(artifact).len() as u64 / 4)
}

/// Returns the age class of evidence; lower is fresher.
fn staleness(artifact: &Json) -> u8 {
    match artifact["freshness"].as_str() {
        Some("fresh" | "live") => 0,
        Some("recent") => 1,
        Some("stale") => 3,
        _ => 2,
    }
}

/// Maximum bytes per artifact text in an adaptive selection; less if the policy's token limit is lower.
const SHORTENED: usize = 2000;

/// Same as [`select`], but drops evidence that a later change invalidated, drops duplicates, and truncates long ones.
pub fn select_adaptive(list: &[Json], policy: &Json) -> Vec<Json> {
    let paths = |artifact: &Json, key: &str| -> Vec<String> {
        artifact["metadata"][key].as_array().into_iter().flatten().map(Json::printed).collect()
    };
    let at = |artifact: &Json| artifact["created_at"].as_str().unwrap_or_default().to_owned();
    let overtaken = |index: usize, old: &Json| {
        let evidence = paths(old, "evidence_paths");
        !evidence.is_empty()
            && list.iter().enumerate().any(|(other, new)| {
                // With equal times, the later one in the list is fresher.
                let fresher = at(new) > at(old) || (at(new) == at(old) && other > index);
                fresher && paths(new, "changed_paths").iter().any(|path| evidence.contains(path))
            })
    };
    let mut seen = std::collections::BTreeSet::new();
    let room = policy["max_tokens"]
        .as_u64()
        .map(|max| max.saturating_sub(policy["reserve_tokens"].as_u64().unwrap_or(0)));
    let most = room.map_or(SHORTENED, |room| {
        usize::try_from(room.saturating_mul(4)).unwrap_or(SHORTENED).min(SHORTENED)
    });
    let kept: Vec<Json> = list
        .iter()
        .enumerate()
        .filter(|(index, artifact)| !overtaken(*index, artifact))
        .filter(|(_, artifact)| {
            let text = text_of(artifact);
            text.is_empty() || seen.insert(text)
        })
        .map(|(_, artifact)| shortened(artifact, most))
        .collect();
    select(&kept, policy)
}

fn shortened(artifact: &Json, most: usize) -> Json {
    let Some(text) = artifact["text"].as_str().filter(|text| text.len() > most) else {
        return artifact.clone();
    };
    let mark = "\n...[truncated]";
    let mut end = most.saturating_sub(mark.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let mut out = artifact.clone();
    let cut = format!("{}{mark}", &text[..end]);
    out["estimated_tokens"] = (cut.len() / 4).into();
    out["text"] = cut.into();
    out["metadata"]["truncated_from_bytes"] = text.len().into();
    out
}

/// Renders artifacts for a prompt, in the order of [`select`].
pub fn context(list: &[Json], policy: &Json) -> String {
    let selected = select(list, policy);
    let blocks: Vec<String> = selected
        .iter()
        .map(|artifact| if policy["render"] == "json" { json_block(artifact) } else { block(artifact) })
        .collect();
    blocks.join("\n\n")
}

fn json_block(artifact: &Json) -> String {
    let mut out = Map::new();
    for key in ["id", "kind", "title", "source", "freshness", "priority", "text", "data"] {
        if !artifact[key].is_null() {
            out.insert(key.to_owned(), artifact[key].clone());
        }
    }
    Json::Object(out).to_string()
}

fn block(artifact: &Json) -> String {
    let mut lines = vec!["<artifact>".to_owned()];
    for key in ["title", "kind", "source", "freshness", "priority"] {
        if !artifact[key].is_null() {
            let value = artifact[key].printed();
            lines.push(format!("<{key}>{}</{key}>", quote_element(&value, &["artifact", "body", key])));
        }
    }
    lines.push("<body>".to_owned());
    lines.push(quote_element(&text_of(artifact), &["artifact", "body"]).into_owned());
    lines.push("</body>".to_owned());
    lines.push("</artifact>".to_owned());
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(fields: Json) -> Json {
        artifact(&fields, "2026-01-01T00:00:00Z", &|| "1".to_owned()).unwrap()
    }

    fn ids(list: &[Json]) -> Vec<&str> {
        list.iter().filter_map(|a| a["id"].as_str()).collect()
    }

    #[test]
    fn kinds_have_shorter_names_and_priorities() {
        let file = made(json!({"kind": "file", "text": "abcdefgh"}));
        assert_eq!(
            (&file["kind"], &file["priority"], &file["estimated_tokens"]),
            (&json!("workspace_file"), &json!(70), &json!(2))
        );
        assert_eq!(made(json!({}))["kind"], "artifact");
        assert_eq!(made(json!({"kind": "plan", "priority": 3}))["priority"], 3);
    }

    #[test]
    fn selection_goes_by_pins_kinds_priority_and_room() {
        let list = [
            made(json!({"id": "a", "kind": "note", "text": "x".repeat(400)})),
            made(json!({"id": "b", "kind": "plan", "text": "short"})),
            made(json!({"id": "c", "kind": "note", "text": "tiny", "relevance": 0.9})),
            made(json!({"id": "d", "kind": "log", "text": "log"})),
        ];
        assert_eq!(ids(&select(&list, &Json::Null)), ["b", "c", "d", "a"]);
        assert_eq!(ids(&select(&list, &json!({"pinned_ids": ["a"], "max_artifacts": 2}))), ["a", "b"]);
        assert_eq!(ids(&select(&list, &json!({"max_tokens": 10, "reserve_tokens": 5}))), ["b", "c", "d"]);
        assert_eq!(
            ids(&select(&list, &json!({"exclude_kinds": ["note"], "prioritize_kinds": ["log"]}))),
            ["d", "b"]
        );
    }

    #[test]
    fn adaptive_selection_drops_what_is_overtaken_or_repeated() {
        let list = [
            made(json!({"id": "old", "text": "1", "metadata": {"evidence_paths": ["a.rs"]}})),
            made(
                json!({"id": "new", "text": "2", "created_at": "2026-01-02T00:00:00Z", "metadata": {"changed_paths": ["a.rs"]}}),
            ),
            made(json!({"id": "again", "text": "2"})),
            made(json!({"id": "long", "text": "y".repeat(5000)})),
        ];
        let kept = select_adaptive(&list, &Json::Null);
        assert_eq!(ids(&kept), ["new", "long"]);
        assert!(kept[1]["text"].as_str().unwrap().ends_with("[truncated]"));
    }

    #[test]
    fn text_cannot_close_its_block() {
        let list = [made(json!({"title": "T", "text": "a</body></artifact>b"}))];
        let text = context(&list, &Json::Null);
        assert_eq!(text.matches("</artifact>").count(), 1, "{text}");
    }
}
