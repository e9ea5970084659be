//! Friction: repeated corrections and look-ups by users, and the context that an agent needs to avoid them.

use harn_llm::secret::FIELD_WORDS;
use harn_value::{Data as Json, data::Map, json};

/// The string fields of an event other than its kind.
const TEXTS: [&str; 5] = ["source", "actor", "tool", "provider", "redacted_summary"];

/// The estimates in an event.
const ESTIMATES: [&str; 2] = ["estimated_time_ms", "estimated_cost_usd"];

/// The replacement for a secret.
const HIDDEN: &str = "[redacted]";

/// Reads an event and redacts the secrets in it.
///
/// # Errors
/// A message that begins with the field.
pub fn event(given: &Json) -> Result<Json, String> {
    let Some(fields) = given.as_object() else {
        return Err(format!("event must be a dict, got {}", given.type_name()));
    };
    let rest = ["kind", "recurrence_hints", "metadata"];
    let known: Vec<&str> = rest.iter().chain(&TEXTS).chain(&ESTIMATES).copied().collect();
    if let Some(key) = fields.keys().find(|key| !known.contains(&key.as_str())) {
        return Err(format!("event has no field `{key}`; there are {}", known.join(", ")));
    }
    if given["kind"].as_str().is_none_or(str::is_empty) {
        return Err(format!(
            "event.kind must be a string that is not empty, got {}",
            given["kind"].printed()
        ));
    }
    let mut out = json!({"kind": given["kind"]});
    for key in TEXTS {
        if !given[key].is_null() && !given[key].is_string() {
            return Err(format!("event.{key} must be a string, got {}", given[key].type_name()));
        }
        out[key] = given[key].clone();
    }
    for key in ESTIMATES {
        let is_estimate = given[key].as_f64().is_some_and(|n| n.is_finite() && n >= 0.0);
        if !given[key].is_null() && !is_estimate {
            return Err(format!("event.{key} must be a number from 0 on, got {}", given[key].printed()));
        }
        out[key] = given[key].clone();
    }
    out["recurrence_hints"] = texts("event.recurrence_hints", &given["recurrence_hints"])?.into();
    out["metadata"] = match &given["metadata"] {
        Json::Null => json!({}),
        dict @ Json::Object(_) => dict.clone(),
        other => return Err(format!("event.metadata must be a dict, got {}", other.type_name())),
    };
    hide(&mut out);
    Ok(out)
}

fn texts(at: &str, value: &Json) -> Result<Vec<String>, String> {
    let items: &[Json] = match value {
        Json::Null => &[],
        Json::Array(items) => items,
        other => return Err(format!("{at} must be a list, got {}", other.type_name())),
    };
    let text = |(n, item): (usize, &Json)| match item.as_str() {
        Some(text) => Ok(text.to_owned()),
        None => Err(format!("{at}[{n}] must be a string, got {}", item.type_name())),
    };
    items.iter().enumerate().map(text).collect()
}

/// Returns whether a key names a secret. A key like `secret_ref` names a secret's location, which is not secret.
fn is_secret(key: &str) -> bool {
    let key = key.to_lowercase();
    !key.ends_with("_ref") && FIELD_WORDS.iter().any(|word| key.contains(word))
}

fn hide(value: &mut Json) {
    match value {
        Json::String(text) => *text = without_secrets(text),
        Json::Array(items) => items.iter_mut().for_each(hide),
        Json::Object(map) => {
            for (key, value) in map.iter_mut() {
                if is_secret(key) && !value.is_null() {
                    *value = HIDDEN.into();
                } else {
                    hide(value);
                }
            }
        }
        _ => {}
    }
}

/// Redacts values that are assigned to the name of a secret: `token=abc`, `password: abc`, `Bearer abc`.
fn without_secrets(text: &str) -> String {
    static ASSIGNED: std::sync::LazyLock<regex::Regex> = std::sync::LazyLock::new(|| {
        let names = FIELD_WORDS.join("|");
        let rule = format!(
            r#"(?i)([\w-]*(?:{names})[\w-]*["']?\s*[=:]\s*["']?(?:bearer\s+)?|\bbearer\s+)[^\s"'&,;]+"#
        );
        // The names are constants, so the pattern is always valid.
        regex::Regex::new(&rule).unwrap_or_else(|error| unreachable!("{error}"))
    });
    let kept = |found: &regex::Captures<'_>| {
        // The location of a secret is not secret.
        if found[1].to_lowercase().contains("_ref") {
            found[0].to_owned()
        } else {
            format!("{}{HIDDEN}", &found[1])
        }
    };
    ASSIGNED.replace_all(text, kept).into_owned()
}

/// Reads the manifest of a context pack.
///
/// # Errors
/// A message that begins with the field.
pub fn context_pack(given: &Json) -> Result<Json, String> {
    let Some(fields) = given.as_object() else {
        return Err(format!("manifest must be a dict, got {}", given.type_name()));
    };
    let lists = ["capabilities", "output_slots", "inputs", "secrets"];
    let known = [
        "version",
        "id",
        "name",
        "description",
        "owner",
        "capabilities",
        "output_slots",
        "inputs",
        "secrets",
        "refresh_policy",
        "metadata",
    ];
    if let Some(key) = fields.keys().find(|key| !known.contains(&key.as_str())) {
        return Err(format!("manifest has no field `{key}`; there are {}", known.join(", ")));
    }
    if !given["version"].is_null() && given["version"] != 1 {
        return Err(format!("version must be 1, got {}", given["version"].printed()));
    }
    let Some(name) = given["name"].as_str().filter(|name| !name.is_empty()) else {
        return Err(format!("name must be a string that is not empty, got {}", given["name"].printed()));
    };
    let mut out = json!({"version": 1, "name": name});
    for key in ["id", "description", "owner"] {
        if !given[key].is_null() && !given[key].is_string() {
            return Err(format!("{key} must be a string, got {}", given[key].type_name()));
        }
        out[key] = given[key].clone();
    }
    if out["id"].is_null() {
        out["id"] = snake(name).into();
    }
    for key in lists {
        out[key] = match &given[key] {
            Json::Null => json!([]),
            list @ Json::Array(_) => list.clone(),
            other => return Err(format!("{key} must be a list, got {}", other.type_name())),
        };
    }
    out["refresh_policy"] = match &given["refresh_policy"] {
        Json::Null => json!({}),
        dict @ Json::Object(_) => dict.clone(),
        other => return Err(format!("refresh_policy must be a dict, got {}", other.type_name())),
    };
    let mode = &out["refresh_policy"]["mode"];
    if mode.is_null() {
        out["refresh_policy"]["mode"] = "on_demand".into();
    } else if !mode.is_string() {
        return Err(format!("refresh_policy.mode must be a string, got {}", mode.type_name()));
    }
    out["metadata"] = match &given["metadata"] {
        Json::Null => json!({}),
        dict @ Json::Object(_) => dict.clone(),
        other => return Err(format!("metadata must be a dict, got {}", other.type_name())),
    };
    Ok(out)
}

/// Converts a name to snake case.
fn snake(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars() {
        if c.is_alphanumeric() {
            out.extend(c.to_lowercase());
        } else if !out.is_empty() && !out.ends_with('_') {
            out.push('_');
        }
    }
    out.trim_end_matches('_').to_owned()
}

/// Returns the key by which events are grouped as recurrences of the same problem.
fn trouble(event: &Json) -> [String; 3] {
    let hint = [&event["recurrence_hints"][0], &event["tool"], &event["redacted_summary"]];
    let hint = hint.into_iter().find_map(Json::as_str).unwrap_or_default();
    [event["kind"].printed(), event["source"].as_str().unwrap_or_default().to_owned(), hint.to_owned()]
}

/// Suggests context packs for recurring events.
///
/// # Errors
/// The events or the options are invalid.
pub fn suggestions(events: &Json, options: &Json) -> Result<Vec<Json>, String> {
    let list = match events {
        Json::Array(list) => list,
        other => return Err(format!("events must be a list, got {}", other.type_name())),
    };
    let known = ["min_occurrences", "owner"];
    if let Some(key) =
        options.as_object().and_then(|set| set.keys().find(|key| !known.contains(&key.as_str())))
    {
        return Err(format!("unknown option `{key}`; there are {}", known.join(", ")));
    }
    let least = match &options["min_occurrences"] {
        Json::Null => 2,
        given => given
            .as_u64()
            .filter(|n| *n > 0)
            .ok_or_else(|| format!("min_occurrences must be an int from 1 on, got {}", given.printed()))?,
    };
    if !options["owner"].is_null() && !options["owner"].is_string() {
        return Err(format!("owner must be a string, got {}", options["owner"].type_name()));
    }
    let mut groups: Vec<([String; 3], Vec<Json>)> = Vec::new();
    let mut places = std::collections::HashMap::new();
    for (n, given) in list.iter().enumerate() {
        let event = event(given).map_err(|error| format!("events[{n}]: {error}"))?;
        let key = trouble(&event);
        let place = *places.entry(key.clone()).or_insert_with(|| {
            groups.push((key, Vec::new()));
            groups.len() - 1
        });
        groups[place].1.push(event);
    }
    groups.retain(|(_, events)| events.len() as u64 >= least);
    groups.iter().map(|(key, events)| suggestion(key, events, &options["owner"])).collect()
}

/// Returns the distinct values of a metadata field, in order.
fn named(events: &[Json], key: &str) -> Vec<Json> {
    let mut out: Vec<Json> = Vec::new();
    for event in events {
        let value = &event["metadata"][key];
        if !value.is_null() && !out.contains(value) {
            out.push(value.clone());
        }
    }
    out
}

fn suggestion([kind, source, hint]: &[String; 3], events: &[Json], owner: &Json) -> Result<Json, String> {
    let words = [if source.is_empty() { kind } else { source }, hint];
    let words: Vec<&str> = words.into_iter().map(String::as_str).filter(|word| !word.is_empty()).collect();
    let title = format!("{} context pack", words.join(" "));
    // The first occurrence is not saved by a context pack.
    let saved =
        |key: &str| events[1..].iter().filter_map(|event| event[key].as_f64()).fold(0.0, |sum, n| sum + n);
    let time = saved("estimated_time_ms");
    let time = if time.fract() == 0.0 { Json::from(time as i64) } else { time.into() };
    let mut manifest = Map::new();
    manifest.insert("name".into(), title.as_str().into());
    manifest.insert("owner".into(), owner.clone());
    for (field, key) in [
        ("capabilities", "capability"),
        ("output_slots", "output_slot"),
        ("inputs", "query"),
        ("secrets", "secret_ref"),
    ] {
        manifest.insert(field.into(), named(events, key).into());
    }
    Ok(json!({
        "title": title, "kind": kind, "source": source, "occurrences": events.len(),
        "recommended_artifact": "context_pack", "candidate_manifest": context_pack(&manifest.into())?,
        "estimated_savings": {
            "estimated_time_saved_ms": time, "estimated_cost_saved_usd": saved("estimated_cost_usd"),
        },
    }))
}

/// Checks whether a fixture's events lead to the expected suggestions: `{pass, failures, suggestion_count}`.
///
/// # Errors
/// The fixture is invalid.
pub fn evaluate(fixture: &Json) -> Result<Json, String> {
    let Some(fields) = fixture.as_object() else {
        return Err(format!("fixture must be a dict, got {}", fixture.type_name()));
    };
    let known = ["events", "options", "expected_suggestions"];
    if let Some(key) = fields.keys().find(|key| !known.contains(&key.as_str()) && *key != "_type") {
        return Err(format!("fixture has no field `{key}`; there are {}", known.join(", ")));
    }
    if !fixture["options"].is_null() && !fixture["options"].is_object() {
        return Err(format!("options must be a dict, got {}", fixture["options"].type_name()));
    }
    let found = suggestions(&fixture["events"], &fixture["options"])?;
    let one = [json!({})];
    let expected: &[Json] = match &fixture["expected_suggestions"] {
        // Without `expected_suggestions`, the events must lead to at least one suggestion.
        Json::Null => &one,
        Json::Array(list) => list,
        other => return Err(format!("expected_suggestions must be a list, got {}", other.type_name())),
    };
    let mut failures = Vec::new();
    for (n, wanted) in expected.iter().enumerate() {
        failures.extend(unmet(&format!("expected_suggestions[{n}]"), wanted, &found)?);
    }
    Ok(json!({"pass": failures.is_empty(), "failures": failures, "suggestion_count": found.len()}))
}

/// Returns the unmet requirement of an expected suggestion.
fn unmet(at: &str, wanted: &Json, found: &[Json]) -> Result<Option<String>, String> {
    let keys = [
        "min_suggestions",
        "recommended_artifact",
        "title_contains",
        "required_capability",
        "required_output_slot",
    ];
    let Some(fields) = wanted.as_object() else {
        return Err(format!("{at} must be a dict, got {}", wanted.type_name()));
    };
    if let Some(key) = fields.keys().find(|key| !keys.contains(&key.as_str())) {
        return Err(format!("{at} has no field `{key}`; there are {}", keys.join(", ")));
    }
    let least = match &wanted[keys[0]] {
        Json::Null => 1,
        given => given
            .as_u64()
            .ok_or_else(|| format!("{at}.{} must be an int from 0 on, got {}", keys[0], given.printed()))?,
    };
    if let Some(key) = keys[1..].iter().find(|key| !wanted[**key].is_null() && !wanted[**key].is_string()) {
        return Err(format!("{at}.{key} must be a string, got {}", wanted[*key].type_name()));
    }
    let holds = |list: &Json, wanted: &Json| {
        wanted.is_null() || list.as_array().is_some_and(|list| list.contains(wanted))
    };
    let fits = |one: &&Json| {
        let manifest = &one["candidate_manifest"];
        let title = one["title"].as_str().unwrap_or_default();
        (wanted[keys[1]].is_null() || one["recommended_artifact"] == wanted[keys[1]])
            && wanted[keys[2]].as_str().is_none_or(|part| title.contains(part))
            && holds(&manifest["capabilities"], &wanted[keys[3]])
            && holds(&manifest["output_slots"], &wanted[keys[4]])
    };
    let count = found.iter().filter(fits).count() as u64;
    Ok((count < least).then(|| format!("{at}: at least {least} suggestions, got {count}")))
}
