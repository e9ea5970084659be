//! Readers for security options: a malformed value is an error, because a limit that is ignored would limit nothing.

use harn_value::{Data as Json, data::Map};

/// Returns the strings of a list that was already validated.
pub(super) fn strings(value: Option<&Json>) -> Vec<String> {
    match value {
        Some(Json::Array(list)) => list.iter().map(Json::printed).collect(),
        Some(Json::String(one)) => vec![one.clone()],
        _ => Vec::new(),
    }
}

/// Reads a security option: a dict with known keys, or an error.
pub(super) fn part<'a>(
    options: &'a Map<String, Json>,
    name: &str,
    keys: &[&str],
) -> Result<Option<&'a Map<String, Json>>, String> {
    let map = match options.get(name) {
        None | Some(Json::Null) => return Ok(None),
        Some(Json::Object(map)) => map,
        Some(_) => return Err(format!("agent_loop: {name} must be a dict")),
    };
    match map.keys().find(|key| !keys.contains(&key.as_str())) {
        None => Ok(Some(map)),
        Some(key) => Err(format!("agent_loop: {name} has no key '{key}'; there are {}", keys.join(", "))),
    }
}

/// Reads a list of strings of a security option; empty if missing.
pub(super) fn list(map: &Map<String, Json>, name: &str, key: &str) -> Result<Vec<String>, String> {
    Ok(permitted(map, name, key)?.unwrap_or_default())
}

/// Reads a list of permitted values: `None` if missing, which means no limit. An empty list permits nothing.
pub(super) fn permitted(
    map: &Map<String, Json>,
    name: &str,
    key: &str,
) -> Result<Option<Vec<String>>, String> {
    let wrong = || format!("agent_loop: {name}.{key} must be a list of strings");
    match map.get(key) {
        None | Some(Json::Null) => Ok(None),
        Some(Json::Array(items)) => {
            let items = items.iter().map(|item| item.as_str().map(str::to_owned).ok_or_else(wrong));
            items.collect::<Result<_, _>>().map(Some)
        }
        Some(_) => Err(wrong()),
    }
}

/// Reads a dict of a security option; `None` if missing.
pub(super) fn dict<'a>(
    map: &'a Map<String, Json>,
    name: &str,
    key: &str,
) -> Result<Option<&'a Map<String, Json>>, String> {
    match map.get(key) {
        None | Some(Json::Null) => Ok(None),
        Some(Json::Object(inner)) => Ok(Some(inner)),
        Some(_) => Err(format!("agent_loop: {name}.{key} must be a dict")),
    }
}
